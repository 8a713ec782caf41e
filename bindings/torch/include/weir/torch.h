/* weir/torch.h: weir in the shape of PyTorch's pluggable allocator, for Ascend.
 *
 * The library libweir_torch.so exports two functions by name, which is all that a framework needs to be told:
 *
 *     torch_npu.npu.memory.NPUPluggableAllocator("libweir_torch.so", "weir_torch_alloc", "weir_torch_free")
 *     torch_npu.npu.memory.change_current_allocator(...)         before the first tensor
 *
 * The others are there for frameworks and programs that call them (through ctypes, say). Nothing has to be set up: each
 * device gets a pool when its first block is asked for, made as the environment variable WEIR_TORCH says:
 *
 *     WEIR_TORCH=strategy:caching,limit:48GiB,virtual_memory:1
 *
 *     strategy        caching (default), size_class, routing (size_class up to 1 MiB, caching above), arena
 *     limit           most that a device's pool may reserve; a number with B, KiB, MiB, GiB or none (bytes); 0 = no limit
 *     soft_limit      above it the pool waits and returns idle memory before it takes more
 *     growth          balanced (default), grow_first, wait_first
 *     virtual_memory  1: map and move memory in granules
 *     pages           huge_first (default), huge, small
 *     report          0: do not print why memory ran out; 1 (default): on stderr, once for each device
 *
 * Pools live as long as the process: blocks may be freed by whatever static object goes last. Streams are ACL's
 * handles; NULL is the default stream of the calling thread's context. A stream that is destroyed is noticed.
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

/* A block of `size` bytes for work on `stream` of `device`, at a multiple of 512. NULL: size 0, no such device,
 * a stream that is gone, settings that cannot be read, or out of memory; weir_torch_report has the reason. */
WEIR_API void *weir_torch_alloc(size_t size, int device, void *stream);

/* Gives a block back in the order of `stream`, which need not be the one it was allocated on: that stream is then
 * waited for as well. NULL is allowed. An address that is not a block of the device is reported on stderr and otherwise
 * ignored. */
WEIR_API void weir_torch_free(void *ptr, size_t size, int device, void *stream);

/* `stream` also uses the block, until it is freed (Tensor.record_stream). */
WEIR_API void weir_torch_record_stream(void *ptr, void *stream);
/* The last work of `stream` on the block has been queued. */
WEIR_API void weir_torch_erase_stream(void *ptr, void *stream);

/* Settings as in WEIR_TORCH, which they replace; before the first block. WEIR_ERR_INVALID: text that cannot be read;
 * WEIR_ERR_BUSY: a pool exists already. */
WEIR_API weir_status weir_torch_configure(const char *settings);

/* Returns idle memory until no more than `keep_bytes` are reserved, waiting for streams (torch.npu.empty_cache). device
 * -1: all. *released may be NULL. */
WEIR_API weir_status weir_torch_trim(int device, uint64_t keep_bytes, uint64_t *released);

/* Most that the device's pool may reserve, as a fraction of the device's memory; 0 = no limit. */
WEIR_API weir_status weir_torch_memory_fraction(double fraction, int device);

/* weir_pool_stats of the device's pool. WEIR_ERR_INVALID: it has none. */
WEIR_API weir_status weir_torch_stats(int device, weir_stats *stats);

/* Why the device's pool ran out of memory last, or could not be made, as lines of text; as snprintf does, returns the
 * length it takes. Empty if nothing has failed. */
WEIR_API size_t weir_torch_report(int device, char *text, size_t size);

/* Ends every pool, with whatever blocks are live; the next alloc makes new ones. For programs that end ACL themselves
 * and want nothing left. No other call may be under way. WEIR_ERR_DEVICE: a stream could not be waited for, and its
 * device's pool is still there; call again. */
WEIR_API weir_status weir_torch_shutdown(void);

#ifdef __cplusplus
}
#endif

#endif
