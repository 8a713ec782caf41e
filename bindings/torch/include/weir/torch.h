/* weir/torch.h: weir in the shape of PyTorch's pluggable allocator, for Ascend and for NVIDIA GPUs.
 *
 * libweir_torch.so is for Ascend. libweir_torch_cuda.so, for GPUs, has the same functions and those of
 * weir/torch_cuda.h, which lists the differences. There the CUDA driver takes the place of ACL.
 *
 * A framework needs the names of two functions of the library:
 *
 *     torch_npu.npu.memory.NPUPluggableAllocator("libweir_torch.so", "weir_torch_alloc", "weir_torch_free")
 *     torch_npu.npu.memory.change_current_allocator(...)         before the first tensor
 *
 * The other functions are for frameworks and programs that call them, for example through ctypes. No set-up is needed:
 * each device gets a pool when its first block is requested. The environment variable WEIR_TORCH holds the settings:
 *
 *     WEIR_TORCH=strategy:caching,limit:48GiB
 *
 *     strategy        caching (default), size_class, bump
 *     limit           most that a device's pools may reserve; a number with B, KiB, MiB, GiB, TiB or no unit (bytes);
 *                     0 = no limit
 *     reserve         Ascend only: memory of a device that its pools leave free while they have no limit, for work that
 *                     asks the device itself, as the workspaces of torch_npu's operators do; default a sixteenth of the
 *                     device, 0 = none
 *     soft_limit      above it the pool waits and returns idle memory before it takes more
 *     growth          balanced (default), grow_first, wait_first
 *     virtual_memory  1 (default): map memory where it is needed, if the device can; 0: take regions, for memory that
 *                     other devices or processes reach (README.md)
 *     pages           of regions: huge_first (default), huge, small
 *     record          a file's name without a comma: records as weir_torch_record does, from the first block on
 *     report          0: do not print why memory ran out; 1 (default): on stderr, once for each device
 *
 * Pools live as long as the process, so destructors of static objects may free blocks in any order. Streams are ACL's
 * handles; NULL is the default stream of the calling thread's context. weir notices when a stream is destroyed.
 *
 * weir also notices when a device is reset (aclrtResetDeviceForce). The next block then comes from a new pool. Blocks
 * from before the reset are dead; freeing them is harmless.
 *
 * Thread safety: every function may be called from any thread, except weir_torch_shutdown.
 */
#ifndef WEIR_TORCH_H
#define WEIR_TORCH_H

#include <weir/base.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a block of `size` bytes for work on `stream` of `device`, at a multiple of 512. Returns NULL if the size is
 * 0, the device does not exist, the stream is gone, the settings cannot be read, or memory ran out; weir_torch_report
 * has the reason. */
WEIR_API void *weir_torch_alloc(size_t size, int device, void *stream);

/* Frees a block in the order of `stream`. If the block was allocated on another stream, its memory waits for that
 * stream as well. NULL is allowed. An address that is not a block of the device is reported on stderr and otherwise
 * ignored. */
WEIR_API void weir_torch_free(void *ptr, size_t size, int device, void *stream);

/* Notes that `stream` also uses the block, until the block is freed (Tensor.record_stream). `stream` is ACL's handle,
 * as torch's set_record_stream_fn passes it. Since December 2024 the function of that name in torch_npu passes an
 * NPUStream instead (README.md). */
WEIR_API void weir_torch_record_stream(void *ptr, void *stream);
/* Ends a use noted by weir_torch_record_stream: the last work of `stream` on the block has been queued. */
WEIR_API void weir_torch_erase_stream(void *ptr, void *stream);

/* Sets the settings, as text in the form of WEIR_TORCH; that variable is then ignored. Must be called before the first
 * block is requested. WEIR_ERR_INVALID: the text cannot be read. WEIR_ERR_BUSY: a pool exists already. */
WEIR_API weir_status weir_torch_configure(const char *settings);

/* Returns idle memory to the device until no more than `keep_bytes` are reserved, waiting for streams
 * (torch.npu.empty_cache). Device -1: all devices. `released` may be NULL. */
WEIR_API weir_status weir_torch_trim(int device, uint64_t keep_bytes, uint64_t *released);

/* Fills *stats as weir_pool_get_stats does, for the device's own pool; pools of graphs are not included.
 * WEIR_ERR_INVALID: the device has no pool. */
WEIR_API weir_status weir_torch_get_stats(int device, weir_pool_stats *stats);

/* Writes why the device's pool last ran out of memory, or could not be created, as lines of text; empty if there was no
 * failure. Returns the length of the whole text, as snprintf does. */
WEIR_API size_t weir_torch_report(int device, char *text, size_t size);

/* Returns the sentence that explains the calling thread's last call of this library that returned WEIR_ERR_INVALID,
 * WEIR_ERR_BUSY or WEIR_ERR_UNSUPPORTED (weir_last_error of the copy of weir in this library). Never NULL; valid until
 * the thread's next refusal or its end. */
WEIR_API const char *weir_torch_last_error(void);

/* --- statistics under torch's names (torch.npu.memory_stats) --- */

/* X(NAME): the counters, each a sum over all pools of the device. */
#define WEIR_TORCH_COUNTER_LIST(X)                                                                                     \
    X(allocation)      /* live blocks */                                                                               \
    X(segment)         /* regions, or handles of virtual memory */                                                     \
    X(active)          /* same as `allocation` */                                                                      \
    X(allocated_bytes) /* of live blocks, as handed out */                                                             \
    X(reserved_bytes)  /* taken from the device */                                                                     \
    X(active_bytes)    /* allocated_bytes plus freed blocks that streams still use; its peak is a lower bound */       \
    X(requested_bytes) /* live blocks: requested bytes plus padding that kernels may read; allocated = current */

#define WEIR_TORCH_NUMBER_LIST(X)                                                                                      \
    X(num_alloc_retries)    /* requests that failed, or for which weir first returned memory or waited */              \
    X(num_ooms)             /* requests that failed */                                                                 \
    X(num_sync_all_streams) /* times that weir made the host wait */                                                   \
    X(num_device_alloc)     /* regions, or handles of virtual memory, taken from the device */                         \
    X(num_device_free)

typedef struct weir_torch_counter {
    int64_t current;
    int64_t peak; /* allocated, active, reserved bytes: peak since weir_torch_reset_peaks; others: equal to current */
    int64_t allocated; /* running total; so is `freed` */
    int64_t freed;
} weir_torch_counter;

typedef struct weir_torch_device_stats {
    size_t struct_size;
#define WEIR_TORCH_COUNTER(name) weir_torch_counter name;
    WEIR_TORCH_COUNTER_LIST(WEIR_TORCH_COUNTER)
#undef WEIR_TORCH_COUNTER
#define WEIR_TORCH_NUMBER(name) int64_t name;
    WEIR_TORCH_NUMBER_LIST(WEIR_TORCH_NUMBER)
#undef WEIR_TORCH_NUMBER
} weir_torch_device_stats;

#define WEIR_TORCH_DEVICE_STATS_INIT WEIR_STRUCT_INIT(weir_torch_device_stats)

/* Reads the current counters; all are 0 for a device that has served no request. A reset of the device counts all its
 * blocks as freed. While other threads allocate, the counters are read at slightly different moments. WEIR_ERR_INVALID:
 * `counters` is NULL, or no device has this index. */
WEIR_API weir_status weir_torch_get_device_stats(int device, weir_torch_device_stats *counters);

/* Writes the counters of weir_torch_get_device_stats as a JSON object with the keys of torch.npu.memory_stats
 * ("allocated_bytes.all.peak"), for ctypes. Returns the length of the whole text, as snprintf does, or 0 if no device
 * has this index. */
WEIR_API size_t weir_torch_stats_json(int device, char *text, size_t size);

/* Sets each peak to the current value (set_reset_peak_status_fn of torch_npu). */
WEIR_API void weir_torch_reset_peaks(int8_t device);

/* --- optional functions; each comment names the set_..._fn of a framework that takes the function --- */

/* set_init_fn: reads WEIR_TORCH now, so that weir reports an error in it before the program requests a block. */
WEIR_API void weir_torch_init(int device_count);
/* set_reset_fn of torch_npu (torch.npu.empty_cache): weir_torch_trim of every device. With `check_error` a failure is
 * printed. */
WEIR_API void weir_torch_reset(bool check_error);
/* set_reset_fn of torch: weir_torch_trim of every device. A failure is printed. */
WEIR_API void weir_torch_empty_cache(void);
/* set_memory_fraction_fn: sets the most that the device's pools may reserve, as a fraction of the device's memory; 0 =
 * no limit. A failure is printed. */
WEIR_API void weir_torch_set_memory_fraction(double fraction, int device);
/* set_base_alloc_fn: returns the start of the region that contains `ptr` and stores the region's size in *size; with
 * virtual memory, of the pool's range of addresses. Returns NULL and stores 0 if no region contains `ptr`. `size` may
 * be NULL. Searches all regions of all pools. */
WEIR_API void *weir_torch_base(void *ptr, size_t *size);

/* Sets the function that empties the framework's own queue. A framework may keep work in a queue before ACL sees it, as
 * torch_npu does unless TASK_QUEUE_ENABLE=0. An event or a wait of weir would not cover work in that queue. With a
 * drain set, weir records no events, and calls `drain` before it waits for a stream. After the call, all work queued
 * before it must have reached ACL; `drain` returns false if it could not do that. Memory goes from stream to stream
 * only after such a wait, so pools grow sooner. Set the drain before the first block. NULL: the framework has no queue.
 * shim/weir_torch_npu.cpp sets a drain. */
typedef bool (*weir_torch_drain)(void *ctx);
WEIR_API void weir_torch_set_drain(weir_torch_drain drain, void *ctx);

/* --- pools of graphs --- */

/* The name of a pool, with the layout of torch's MempoolId_t: a pair of two 64-bit numbers. */
typedef struct weir_torch_pool_id {
    uint64_t first;
    uint64_t second;
} weir_torch_pool_id;

/* Returns true if allocations on the stream belong to the pool. Called under a lock; must not call this library. */
typedef bool (*weir_torch_filter)(void *ctx, void *stream);

/* From now on and until weir_torch_pool_end, allocations on each stream of the device for which `filter` returns true
 * (NULL: on every stream) come from the pool `id`. No other pool uses its memory, which stays at its addresses until
 * weir_torch_pool_release has been called once for each begin; only then is its idle memory returned. The pool's blocks
 * are freed like any other block. After a success, `drop`, if not NULL, is called with `ctx` when the filter is no
 * longer used; after a failure it is not called, and the caller keeps `ctx`. set_begin_allocate_to_pool takes a
 * std::function, which C cannot call: shim/weir_torch_npu.cpp makes a filter of it.
 * WEIR_ERR_BUSY: the pool has begun already. WEIR_ERR_INVALID: no device has this index. WEIR_ERR_DEVICE: the device
 * has no pool, see weir_torch_report. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_torch_pool_begin(int device, weir_torch_pool_id id, weir_torch_filter filter, void *ctx,
                                           void (*drop)(void *ctx));
/* set_end_allocate_to_pool_fn and set_release_pool of torch_npu. If the pool was not begun before, its end or release
 * is reported on stderr and otherwise ignored. */
WEIR_API void weir_torch_pool_end(int device, weir_torch_pool_id id);
WEIR_API void weir_torch_pool_release(int device, weir_torch_pool_id id);

/* --- recording --- */

/* Records the requests to each device's pools (blocks, uses by other streams, trims), for replay with other strategies
 * (`weir replay`). Each device has its own file: for device 0 and "run.wtr" it is run.device0.wtr. An old file is
 * replaced. A block that is already live is recorded on the default stream. Sizes include the bytes that kernels may
 * read behind a block. NULL ends the recording, as does the exit of the program. Before that, and after a crash, the
 * files lack only the last moments. WEIR_ERR_BUSY: there is a recording. WEIR_ERR_INVALID: the path is empty or very
 * long. WEIR_ERR_DEVICE: a file cannot be opened (errno says why), or, at the end, could not be written.
 * WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_torch_record(const char *path);

/* --- the end --- */

/* Destroys every pool, and with it all live blocks; the next alloc creates a new pool. For programs that finalise ACL
 * themselves and want no weir memory left. No other call may be in progress. WEIR_ERR_DEVICE: a stream could not be
 * waited for, and the pool of its device still exists, or a device has not taken everything back; call again. */
WEIR_API weir_status weir_torch_shutdown(void);

#ifdef __cplusplus
}
#endif

#endif
