/* bindings/torch/shared/runtime.h: functions of an accelerator's runtime that this library needs.
 *
 * libweir_torch.so has runtime_acl.c, libweir_torch_cuda.so has runtime_cuda.c; all other C files are in both
 * libraries. A native stream is the runtime's handle: an aclrtStream or a CUstream. All functions may be called from
 * any thread.
 */
#ifndef WEIR_TORCH_RUNTIME_H
#define WEIR_TORCH_RUNTIME_H

#include <weir/pool.h>

/* Creates the weir device with that number. `pages` is a value of weir__torch_runtime_pages, or 0. */
weir_status weir__torch_runtime_device(int device, int pages, weir_device **made);
/* Reads the value of the setting `pages`. Returns false if the runtime has no such value. */
bool weir__torch_runtime_pages(const char *text, int *pages);

/* Stores the free memory of a device. Returns false if the runtime cannot report it in the calling thread. */
bool weir__torch_runtime_free_bytes(int device, uint64_t *bytes);

/* Returns a number that changes before a followed stream ends and before a device is reset. If the runtime does not
 * tell weir of these two events, the number counts the calls of weir__torch_runtime_unfollow. */
uint64_t weir__torch_runtime_epoch(void);
/* True if the device was reset after weir__torch_runtime_device created it. */
bool weir__torch_runtime_lost(const weir_device *device);

/* Returns the bytes to request from a pool for a block of `size` bytes; 0 = too large. */
uint64_t weir__torch_runtime_block_bytes(uint64_t size);
/* Returns the handle of the stream that NULL stands for in the calling thread. NULL: the device's own default
 * stream. */
void *weir__torch_runtime_default_stream(int device);

/* A pool's link to a native stream that the pool follows; the stream is not NULL. */
struct torch_follower;
struct torch_followed {
    weir_stream *stream; /* NULL: the native stream has ended */
    bool handle_reused;  /* the stream has ended, and another stream has its handle */
};
weir_status weir__torch_runtime_follow(weir_pool *pool, void *native, struct torch_follower **follower);
/* Stores the state of the followed stream in *followed. Returns false if the runtime does not know the state. */
bool weir__torch_runtime_followed(struct torch_follower *follower, struct torch_followed *followed);
/* Waits for the native stream, then makes the pool forget the stream. NULL is allowed. WEIR_ERR_DEVICE: the stream
 * could not be waited for, and the pool still follows it. */
weir_status weir__torch_runtime_unfollow(struct torch_follower *follower);

#endif
