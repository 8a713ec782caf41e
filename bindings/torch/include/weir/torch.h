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
 *     limit           most that a device's pools may reserve; a number with B, KiB, MiB, GiB or none (bytes); 0 = no
 *                     limit
 *     soft_limit      above it the pool waits and returns idle memory before it takes more
 *     growth          balanced (default), grow_first, wait_first
 *     virtual_memory  1: map and move memory in granules
 *     pages           huge_first (default), huge, small
 *     record          a file's name without a comma: what weir_torch_record does, from the first block on
 *     report          0: do not print why memory ran out; 1 (default): on stderr, once for each device
 *
 * Pools live as long as the process: blocks may be freed by whatever static object goes last. Streams are ACL's
 * handles; NULL is the default stream of the calling thread's context. A stream that is destroyed is noticed.
 *
 * A device that is reset (aclrtResetDeviceForce) is noticed too: what is allocated next comes from a new pool, and
 * blocks from before are dead; freeing them is harmless.
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

/* `stream` also uses the block, until it is freed (Tensor.record_stream). The stream is ACL's handle: what torch's
 * set_record_stream_fn passes, and torch_npu's did until December 2024, when it began to pass an NPUStream
 * (README.md). */
WEIR_API void weir_torch_record_stream(void *ptr, void *stream);
/* The last work of `stream` on the block has been queued. */
WEIR_API void weir_torch_erase_stream(void *ptr, void *stream);

/* Settings as in WEIR_TORCH, which they replace; before the first block. WEIR_ERR_INVALID: text that cannot be read;
 * WEIR_ERR_BUSY: a pool exists already. */
WEIR_API weir_status weir_torch_configure(const char *settings);

/* Returns idle memory until no more than `keep_bytes` are reserved, waiting for streams (torch.npu.empty_cache). device
 * -1: all. *released may be NULL. */
WEIR_API weir_status weir_torch_trim(int device, uint64_t keep_bytes, uint64_t *released);

/* Most that the device's pools may reserve, as a fraction of the device's memory; 0 = no limit. */
WEIR_API weir_status weir_torch_memory_fraction(double fraction, int device);

/* weir_pool_get_stats of the device's own pool, that is, without those of graphs. WEIR_ERR_INVALID: it has none. */
WEIR_API weir_status weir_torch_get_stats(int device, weir_pool_stats *stats);

/* Why the device's pool ran out of memory last, or could not be made, as lines of text; as snprintf does, returns the
 * length it takes. Empty if nothing has failed. */
WEIR_API size_t weir_torch_report(int device, char *text, size_t size);

/* weir_last_error for this library, which has weir inside: the sentence behind the calling thread's last call here that
 * returned WEIR_ERR_INVALID, WEIR_ERR_BUSY or WEIR_ERR_UNSUPPORTED. Never NULL; valid until the thread's next refusal
 * or its end. */
WEIR_API const char *weir_torch_last_error(void);

/* --- figures, by torch's names (torch.npu.memory_stats) --- */

/* X(NAME): what is counted, of all pools of the device. */
#define WEIR_TORCH_COUNTER_LIST(X)                                                                                     \
    X(allocation)      /* live blocks */                                                                               \
    X(segment)         /* regions */                                                                                   \
    X(active)          /* as allocation */                                                                             \
    X(allocated_bytes) /* of live blocks, as handed out */                                                             \
    X(reserved_bytes)  /* taken from the device */                                                                     \
    X(active_bytes)    /* allocated, and freed but still used by streams; peak: at least allocated's */                \
    X(requested_bytes) /* of live blocks, as asked, with what kernels may read behind; not summed up */

#define WEIR_TORCH_NUMBER_LIST(X)                                                                                      \
    X(num_alloc_retries)    /* requests that were served, if at all, by returning memory first, or by waiting */       \
    X(num_ooms)             /* requests that failed */                                                                 \
    X(num_sync_all_streams) /* host waits that weir made */                                                            \
    X(num_device_alloc)     /* regions, or physical pages, taken from the device */                                    \
    X(num_device_free)

typedef struct weir_torch_counter {
    int64_t current;
    int64_t peak;      /* of bytes allocated, active and reserved, since weir_torch_reset_peaks; else what is current */
    int64_t allocated; /* ever */
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

/* Figures of the moment; all 0 of a device of which nothing has been asked. A reset of the device frees all blocks.
 * Threads that are allocating are seen at slightly different moments. WEIR_ERR_INVALID: NULL, or no such index. */
WEIR_API weir_status weir_torch_get_device_stats(int device, weir_torch_device_stats *counters);

/* The same as a JSON object with the keys of torch.npu.memory_stats ("allocated_bytes.all.peak"), for ctypes; as
 * snprintf does, returns the length it takes; 0: no such index. */
WEIR_API size_t weir_torch_stats_json(int device, char *text, size_t size);

/* Peaks begin anew at what is current: set_reset_peak_status_fn of torch_npu. */
WEIR_API void weir_torch_reset_peaks(int8_t device);

/* --- what a framework may be given beside alloc and free: the shapes that its set_..._fn call by address --- */

/* set_init_fn: reads WEIR_TORCH now, so that what is wrong with it is said before the first block. */
WEIR_API void weir_torch_init(int device_count);
/* set_reset_fn of torch_npu (torch.npu.empty_cache): weir_torch_trim of every device; with `check_error` a failure is
 * printed. */
WEIR_API void weir_torch_reset(bool check_error);
/* set_reset_fn of torch: the same, a failure is printed. */
WEIR_API void weir_torch_empty_cache(void);
/* set_memory_fraction_fn: weir_torch_memory_fraction; a failure is printed. */
WEIR_API void weir_torch_set_memory_fraction(double fraction, int device);
/* set_base_alloc_fn: start and size of the region that the address lies in; NULL and 0 if it is in none. `size` may be
 * NULL. Looks through the whole pool. */
WEIR_API void *weir_torch_base(void *ptr, size_t *size);

/* For a framework that keeps work in a queue of its own before ACL sees it, as torch_npu does unless
 * TASK_QUEUE_ENABLE=0: an event or a wait of weir's would not cover what is still in there. With this set, weir records
 * no events, and before it waits for a stream it calls `drain`, after which everything queued before must have reached
 * ACL (false: it could not). Memory goes from stream to stream only after such a wait, so pools grow sooner. Set it
 * before the first block; NULL: there is no queue. shim/weir_torch_npu.cpp sets it. */
typedef bool (*weir_torch_drain)(void *ctx);
WEIR_API void weir_torch_set_drain(weir_torch_drain drain, void *ctx);

/* --- pools of graphs --- */

/* The name of a pool: torch's MempoolId_t, a pair of two 64-bit numbers, which is passed as this struct is. */
typedef struct weir_torch_pool_id {
    uint64_t first;
    uint64_t second;
} weir_torch_pool_id;

/* Whether what is allocated on the stream belongs to the pool. Called under a lock; it must not call this library. */
typedef bool (*weir_torch_filter)(void *ctx, void *stream);

/* From now on blocks of the device's streams for which `filter` says yes (NULL: of all) come from the pool `id`, until
 * weir_torch_pool_end. Its memory is used by nobody else and stays at its addresses until weir_torch_pool_release has
 * been called as often as this; only then is what is idle of it returned. `drop`, when not NULL, is called with `ctx`
 * when the filter is no longer used; after a failure it is not, and `ctx` is the caller's. Blocks are freed as any
 * others. set_begin_allocate_to_pool takes a std::function, which C cannot call: shim/weir_torch_npu.cpp makes a filter
 * of it. WEIR_ERR_BUSY: begun already. WEIR_ERR_INVALID: no such index. WEIR_ERR_DEVICE: the device has no pool, see
 * weir_torch_report. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_torch_pool_begin(int device, weir_torch_pool_id id, weir_torch_filter filter, void *ctx,
                                           void (*drop)(void *ctx));
/* set_end_allocate_to_pool_fn and set_release_pool. What is not begun is reported on stderr and otherwise ignored. */
WEIR_API void weir_torch_pool_end(int device, weir_torch_pool_id id);
WEIR_API void weir_torch_pool_release(int device, weir_torch_pool_id id);

/* --- recording --- */

/* Writes what is asked of each device's pools (blocks, uses by other streams, trims) to a file, to be replayed with
 * other strategies (`weir replay`): for device 0 and "run.wtr", run.device0.wtr. An old file is replaced.
 * Blocks that are live already are in it, on the default stream. Sizes are with what kernels may read behind. NULL ends
 * the recordings; until then, and after a crash, the files are whole up to the last moments. A program that ends
 * completes them. WEIR_ERR_BUSY: there is a recording. WEIR_ERR_INVALID: no name, or a very long one. WEIR_ERR_DEVICE:
 * a file cannot be opened (errno says why), or, at the end, could not be written. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_torch_record(const char *path);

/* --- the end --- */

/* Ends every pool, with whatever blocks are live; the next alloc makes new ones. For programs that end ACL themselves
 * and want nothing left. No other call may be under way. WEIR_ERR_DEVICE: a stream could not be waited for, and its
 * device's pool is still there; call again. */
WEIR_API weir_status weir_torch_shutdown(void);

#ifdef __cplusplus
}
#endif

#endif
