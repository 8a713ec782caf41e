/* weir/pool.h: pools. A pool combines a device, a strategy, stream order, limits and statistics.
 *
 *     weir_pool_config config = WEIR_POOL_CONFIG_INIT;
 *     config.device = device;
 *     config.strategy = weir_caching_strategy();
 *     weir_pool_create(&config, &pool);
 *     weir_pool_stream(pool, native_stream, &stream);       once per stream
 *     weir_pool_alloc(pool, stream, size, 0, &block);       like malloc, in the order of the stream
 *     ... queue work on the stream that uses weir_block_address(block) ...
 *     weir_pool_free(pool, block, stream);                  at once: no need to wait for that work
 *
 * The rule of stream order. A block freed on stream s may be handed to stream x if all work that could touch the block
 * happens before x's next operation. A free leaves a set of (stream, tick) pairs: the freeing stream at its tick, and
 * each stream of a `use`. Stream x may reuse the block if for each pair (t, k): t is x, or x is already ordered after
 * tick k of t by waits (followed transitively), or the host saw tick k of t complete. The caller must order work before
 * the free if it is queued on a stream that is neither the freeing stream nor named by weir_pool_use.
 *
 * Thread safety: every function may be called from any thread, unless its comment says otherwise or the pool was
 * created with WEIR_POOL_SINGLE_THREADED.
 *
 * Fork: a child may only destroy pools, arenas, recorders and devices of its parent. Each such call returns at once,
 * whatever the parent's threads were doing at the fork: it changes nothing and calls no device, callback or observer.
 * The memory ends with the child's process.
 *
 * Cancellation: no function of weir is a cancellation point, and device calls and callbacks run with cancellation
 * disabled. A thread that is cancelled with the deferred type ends after the call. Asynchronous cancellation
 * (PTHREAD_CANCEL_ASYNCHRONOUS) is not supported inside a call.
 */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <weir/base.h>
#include <weir/device.h>
#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_pool weir_pool;
typedef struct weir_stream weir_stream; /* a pool's handle of a vendor's stream */
typedef struct weir_block weir_block;   /* the caller's handle of a block: a descriptor in host memory */

/* The growth policy: whether the pool waits or grows for a request when there is free memory that another stream's work
 * may still touch, and the device has more memory. */
typedef enum weir_growth {
    /* Grow while the pool holds little more than was ever live. Beyond that compare: one wait is cheaper than 1/256 of
     * the most live bytes, and each further wait has to save as much again, so waits end. Where more than half of the
     * available memory is reserved, the stream waits on the device before the pool holds more than that. */
    WEIR_GROWTH_BALANCED = 0,
    /* Never wait while the device has memory. */
    WEIR_GROWTH_GROW_FIRST,
    /* Never take memory from the device where a wait of the stream on the device is enough; the host waits before the
     * pool holds much more than was ever live. */
    WEIR_GROWTH_WAIT_FIRST,
} weir_growth;

enum {
    /* No locks: the caller serialises all calls. */
    WEIR_POOL_SINGLE_THREADED = 1u << 0,
    /* Every alloc and free reaches the strategy: exact placement, slower calls. */
    WEIR_POOL_NO_FRONT_CACHE = 1u << 1,
    /* Keep idle regions while growing: fewer device calls, more memory. By default a pool that must grow first gives
     * the regions back to the device that are wholly free and too small for the request. */
    WEIR_POOL_KEEP_IDLE_REGIONS = 1u << 2,
    /* Take regions. Without this flag a pool whose device has virtual memory (WEIR_DEVICE_VIRTUAL_MEMORY) reserves
     * addresses and maps memory into them where it is needed: one range that grows at its end or in its holes. Memory
     * is created in device handles of at most 1/32 of what the pool holds, and mapped and unmapped by whole handles; no
     * live byte is copied. Before the pool takes much more than the peak of live memory, it gives idle handles back. A
     * request then fails only if the handles that live blocks or pins touch, plus the request rounded up to pages,
     * exceed the limit or the device's capacity. From 3/4 of these on, new handles are single pages. With
     * WEIR_POOL_KEEP_IDLE_REGIONS idle handles go back only when the limit or the device refuses more. A pool takes
     * regions anyway if the device has no virtual memory, or pages smaller than the strategy's granule, or if the
     * strategy has no `claim`; weir_pool_dump tells which of the two a pool has.
     *
     * The flag is for memory that other code shares with processes or opens to devices by its address: a region is one
     * allocation of the device's ordinary call (cuMemAlloc, aclrtMallocAlign32), as cuIpcGetMemHandle,
     * cuCtxEnablePeerAccess and aclrtIpcMemGetExportKey require, and it stays while a live block lies in it. */
    WEIR_POOL_REGIONS = 1u << 3,
    /* The program tells each capture of a stream into a graph by weir_capture_begin, or captures nothing. By default a
     * pool whose device can tell asks the device in each call for a block (weir/capture.h). */
    WEIR_POOL_CAPTURES_TOLD = 1u << 4,
};

typedef struct weir_oom_record weir_oom_record;

/* Called, with no lock held, when every other way to serve a request has failed. The callback may free blocks of this
 * pool. It returns true if the pool is to try the request again. */
typedef bool (*weir_oom_callback)(void *ctx, weir_pool *pool, const weir_oom_record *record);

/* Describes a request that would take the pool above its soft limit. */
typedef struct weir_pressure {
    size_t struct_size;
    uint64_t size; /* bytes requested */
    uint32_t stream;
    uint64_t reserved_bytes;
    uint64_t over_bytes; /* how far serving the request would exceed the soft limit */
    uint64_t soft_limit_bytes;
    uint64_t limit_bytes; /* 0 = none */
} weir_pressure;

/* Called, with no lock held, when only growth above the soft limit can serve a request. The callback may call every
 * function but weir_pool_destroy: free blocks, trim, change the limits. It returns true if it did something that may
 * keep the pool below the soft limit: the pool then tries again before it takes more, and repeats the callback if that
 * was not enough. After it has returned false, the pool exceeds the soft limit, and does not call the callback again
 * until reserved memory has fallen to 15/16 of the soft limit or new limits were set. The callback is never called
 * while another call of it runs, in any thread: requests of other threads, and requests that the callback makes, go on
 * without it. */
typedef bool (*weir_pressure_callback)(void *ctx, weir_pool *pool, const weir_pressure *pressure);

typedef struct weir_pool_config {
    size_t struct_size;
    weir_device *device;               /* required; borrowed: it must outlive the pool */
    const weir_strategy_ops *strategy; /* required */
    const void *strategy_config;       /* the strategy's own struct; NULL = its defaults */
    uint64_t limit_bytes;              /* the most bytes that the pool may reserve from the device; 0 = no limit;
                                          weir_pool_set_limits in weir/budget.h changes it */
    weir_growth growth;
    uint32_t flags; /* WEIR_POOL_... */
    weir_oom_callback oom_callback;
    void *oom_ctx;
    uint64_t soft_limit_bytes; /* before the pool reserves more bytes than this, it waits, returns idle regions and
                                  calls the callback; 0 = none; at most limit_bytes if that is set */
    weir_pressure_callback pressure_callback;
    void *pressure_ctx;
} weir_pool_config;

#define WEIR_POOL_CONFIG_INIT WEIR_STRUCT_INIT(weir_pool_config)

/* Creates a pool. Takes no memory from the device. Returns WEIR_ERR_INVALID if the device or the strategy is missing, a
 * flag is unknown, the soft limit is above the hard limit, or the strategy refuses its config; WEIR_ERR_UNSUPPORTED if
 * the pool takes regions and the device aligns them to less than the strategy's granule; WEIR_ERR_NO_MEMORY if there is
 * no host memory. */
WEIR_API weir_status weir_pool_create(const weir_pool_config *config, weir_pool **pool);

/* Sets members of a pool's config as a text says, for pools whose owner lets its users choose. The text has settings
 * separated by commas, such as "strategy:size_class,limit:48GiB":
 *
 *     strategy        the name of one of the `count` strategies in `strategies`, as weir_strategy_ops has it: "caching"
 *     limit           limit_bytes: a number with B, KiB, MiB, GiB, TiB or no unit (bytes); 0 = no limit
 *     soft_limit      soft_limit_bytes, likewise; not above the limit if that is set; 0 = none
 *     growth          balanced, grow_first, wait_first
 *     virtual_memory  0: take regions (WEIR_POOL_REGIONS); 1: map memory where it is needed
 *
 * A setting that is not named keeps the value that *config has; of a setting that is named twice the last counts. NULL
 * and "" change nothing. The device, the callbacks and the other flags are the owner's. Blanks are not skipped. Returns
 * WEIR_ERR_INVALID, with *config unchanged and a sentence in weir_last_error that names the setting and its value, if a
 * part has no colon, a setting is unknown, or a value cannot be read; and if `config` is NULL or has no struct_size.
 * Returns WEIR_ERR_UNSUPPORTED as weir_struct_adopt does. Thread-safe for different configs. */
WEIR_API weir_status weir_pool_config_read(const char *text, const weir_strategy_ops *const *strategies, size_t count,
                                           weir_pool_config *config);
/* Does so with the text of an environment variable; none set: nothing changes. The sentence of a refusal names the
 * variable too. weir reads no such variable by itself: the owner names it, and calls this before weir_pool_create. In a
 * set-user-ID program the environment counts as empty. Must not run while another thread changes the environment.
 * Returns WEIR_ERR_INVALID also if `variable` is NULL or "". */
WEIR_API weir_status weir_pool_config_from_env(const char *variable, const weir_strategy_ops *const *strategies,
                                               size_t count, weir_pool_config *config);

/* Destroys the pool: waits for the streams with work that may still touch its memory, gives every region back to the
 * device and frees every handle, including live blocks. The pool is gone even if a device call fails. The first failure
 * is returned. Later calls of the device for memory give back what it did not take, and weir_device_destroy refuses
 * until all of it is back; the pool's streams must live until then. NULL is allowed. Returns WEIR_ERR_BUSY, and changes
 * nothing, while weir_pool_hold holds the pool. */
WEIR_API weir_status weir_pool_destroy(weir_pool *pool);

/* Hold a pool, and release it. For bindings that register a pool where its owner does not see the registration, such as
 * in a runtime's registry: while there are more holds than releases, weir_pool_destroy refuses. Both return
 * WEIR_ERR_INVALID if `pool` is NULL; weir_pool_release also if there is no hold to release. */
WEIR_API weir_status weir_pool_hold(weir_pool *pool);
WEIR_API weir_status weir_pool_release(weir_pool *pool);

/* Returns the device of the pool, which still belongs to the caller. Returns NULL for NULL. Thread-safe. */
WEIR_API weir_device *weir_pool_device(const weir_pool *pool);

/* --- streams --- */

/* Returns the pool's handle for a vendor's stream: the same handle for the same stream every time. Keep the handle: it
 * holds the front cache, the tick and the clock, so alloc and free need no lookup. `native_stream` NULL is the vendor's
 * default stream. The handle lives until weir_stream_retire or weir_pool_destroy. At the first call for a stream the
 * pool asks the device if the stream belongs to it (stream_check in weir/device.h). Returns WEIR_ERR_INVALID if it does
 * not, or if `pool` or `stream` is NULL; WEIR_ERR_NO_MEMORY if there is no host memory. */
WEIR_API weir_status weir_pool_stream(weir_pool *pool, void *native_stream, weir_stream **stream);

/* Retires a stream before the vendor's stream is destroyed: waits for its work, so that every stream may use its
 * memory, and forgets the stream. Its blocks stay valid and are freed on other streams. Call it before the vendor's
 * destroy. If the vendor uses the same handle again, it is a new stream. Changes nothing and returns WEIR_ERR_BUSY
 * while the stream is being captured (weir/capture.h), WEIR_ERR_DEVICE if the wait failed: memory freed on this stream
 * stays set aside until a retry succeeds or the pool is destroyed. */
WEIR_API weir_status weir_stream_retire(weir_pool *pool, weir_stream *stream);

/* Retires a stream after its work is complete, because the host waited for it or the vendor's destroy has returned. It
 * does what weir_stream_retire does, but makes no device call on the stream, so the device cannot refuse. */
WEIR_API weir_status weir_stream_ended(weir_pool *pool, weir_stream *stream);

/* Hints: the caller has recorded `event` (any pointer that identifies it, such as the vendor's handle) on `stream`, or
 * has made `stream` wait for it. From hints the pool learns which streams are ordered after which, and reuses memory
 * across them without inserting waits. Without hints the pool is still correct, but reuses less. Give the hints in the
 * order in which the operations were queued, each right after its operation. A wait for an event that was never
 * reported has no effect. If several threads feed one stream, then from the vendor's call (for a wait, from its start)
 * until the hint has returned, no other thread may call the pool with that stream: the hint would wrongly cover the
 * memory that the other thread frees, or a wait that the pool inserts. */
WEIR_API weir_status weir_stream_recorded(weir_pool *pool, const void *event, weir_stream *stream);
WEIR_API weir_status weir_stream_waited(weir_pool *pool, weir_stream *stream, const void *event);
/* Hints: the host has waited for all work queued on the stream, or for an event. Every stream may then use the memory
 * that was freed on the stream before this call, or before the event was recorded. */
WEIR_API weir_status weir_stream_synced(weir_pool *pool, weir_stream *stream);
WEIR_API weir_status weir_event_synced(weir_pool *pool, const void *event);
/* Hint: the vendor's event is being destroyed, and its handle may be used again for another event. */
WEIR_API weir_status weir_event_forgotten(weir_pool *pool, const void *event);

/* Returns a mark: the current point in the stream's order. For callers that keep something other than a block until the
 * stream's work is complete. A mark needs no event of its own: one event covers all marks and frees before it. Returns
 * WEIR_ERR_INVALID for NULL, and for a stream that does not belong to the pool or is retired; WEIR_ERR_BUSY while the
 * stream is being captured (weir/capture.h). */
WEIR_API weir_status weir_stream_mark(weir_pool *pool, weir_stream *stream, weir_tick *mark);
/* Sets *reached to true if the host has seen all work before the mark complete. The pool queries the device for this
 * stream only; if `wait` is true, it waits for completion. *reached is also true if the stream was retired after the
 * mark was made, and on a device without streams. Returns WEIR_ERR_DEVICE if the wait failed. Without `wait`, *reached
 * is false if the device cannot be queried. */
WEIR_API weir_status weir_stream_reached(weir_pool *pool, weir_stream *stream, weir_tick mark, bool wait,
                                         bool *reached);

/* --- blocks --- */

/* Allocates a block of at least `size` bytes at a multiple of `align` (0 or a power of two; 0 = the strategy's
 * granule), for work that will be queued on `stream`. The caller owns the block until weir_pool_free. Returns
 * WEIR_ERR_INVALID if a handle is NULL, the stream belongs to another pool, size is 0 or too large to round, or align
 * is not a power of two; WEIR_ERR_NO_MEMORY if the pool has no memory (weir_pool_get_oom explains why); WEIR_ERR_DEVICE
 * if the device failed in another way. */
WEIR_API weir_status weir_pool_alloc(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align,
                                     weir_block **block);

/* Frees the block in the order of `stream`: work queued on `stream` so far may still use the block. Never waits.
 * Returns WEIR_ERR_INVALID if a handle is NULL, the block or the stream belongs to another pool, or the block is
 * already free; WEIR_ERR_NO_MEMORY, and the block stays live, if there is no host memory to record that the stream is
 * being captured. A freed handle stays recognisable until weir_pool_alloc returns it again. Two threads must not free a
 * block at the same moment; only builds with internal checks refuse one of the two calls then. */
WEIR_API weir_status weir_pool_free(weir_pool *pool, weir_block *block, weir_stream *stream);

/* Frees a block that no queued work touches, so that every stream may have its memory at once. The host must
 * have seen all work of the block's stream up to the alloc complete, even if the block was not used: earlier
 * work of the stream in the same memory may still run. A caller that has not waited uses weir_pool_free.
 * Returns errors as weir_pool_free. */
WEIR_API weir_status weir_pool_free_idle(weir_pool *pool, weir_block *block);

/* States that `stream` also touches the block, with work queued before or after this call, until the block is freed
 * (PyTorch's record_stream). Naming the stream that later frees the block, or one stream twice, is harmless. Returns
 * WEIR_ERR_INVALID as weir_pool_free; WEIR_ERR_NO_MEMORY if there is no host memory to record the use: the caller must
 * then synchronise `stream` before it frees the block. */
WEIR_API weir_status weir_pool_use(weir_pool *pool, weir_block *block, weir_stream *stream);

/* States that the last work of `stream` on the block has been queued. A wait that the caller inserts afterwards is
 * enough to make the block reusable. Has no effect if weir_pool_use has not named the stream for the block. */
WEIR_API weir_status weir_pool_use_end(weir_pool *pool, weir_block *block, weir_stream *stream);

/* Return a property of a live block. Each call costs one load. */
WEIR_API uint64_t weir_block_address(const weir_block *block);
WEIR_API uint64_t weir_block_size(const weir_block *block);     /* bytes requested */
WEIR_API uint64_t weir_block_capacity(const weir_block *block); /* bytes handed out, at least the size */
WEIR_API weir_pool *weir_block_pool(const weir_block *block);
WEIR_API weir_stream *weir_block_stream(const weir_block *block); /* the stream of the alloc; it may be retired */

/* Returns the live block that starts at `address`. Returns WEIR_ERR_INVALID if there is none. */
WEIR_API weir_status weir_pool_find(weir_pool *pool, uint64_t address, weir_block **block);

/* --- upkeep --- */

enum {
    WEIR_TRIM_WAIT = 1u << 0, /* wait for work that may still touch free regions, and give these regions back too */
};

/* Returns wholly free regions (virtual memory: wholly free granules, wherever they lie) to the device until at most
 * `keep_bytes` are reserved, except for pinned memory (weir/pin.h). Without WEIR_TRIM_WAIT it returns only memory that
 * no queued work can touch. *released, if `released` is not NULL, is the number of bytes returned, also after a
 * failure. A trim also tells the pool that the program's peak is over: up to the most bytes reserved since the last
 * trim, a pool grows without returning idle regions first. Returns WEIR_ERR_DEVICE if the device refused a region or
 * granule, which then stays with the pool; WEIR_ERR_NO_MEMORY if there is no host memory. */
WEIR_API weir_status weir_pool_trim(weir_pool *pool, uint64_t keep_bytes, uint32_t flags, uint64_t *released);

typedef enum weir_walk_state {
    WEIR_WALK_FREE,     /* free, in a lane of the strategy */
    WEIR_WALK_LIVE,     /* a live block */
    WEIR_WALK_CACHED,   /* in a stream's front cache */
    WEIR_WALK_PENDING,  /* a freed block that work of several streams may still use */
    WEIR_WALK_UNMAPPED, /* addresses without memory, or with memory that is being moved, and free pieces beside a
                           sleeping block, which come back with it; with `block`: not committed (weir/reserve.h) */
    WEIR_WALK_ASLEEP,   /* a live block that sleeps (weir/sleep.h) */
} weir_walk_state;

/* A range of the pool's regions. */
typedef struct weir_walk_entry {
    size_t struct_size;
    uint64_t region_address;
    uint64_t region_size;
    uint64_t address;
    uint64_t size;
    weir_walk_state state;
    uint64_t requested;    /* bytes requested, for a live block */
    uint32_t stream;       /* stream that holds the range in its lane, cache or pending list; 0 = the open lane */
    weir_block *block;     /* the live block, if any; do not free it during the walk */
    uint64_t pinned_bytes; /* bytes of the range in pinned memory (weir/pin.h) */
} weir_walk_entry;

/* Visits every range. The visitor returns false to end the walk. It must not call the pool, which is locked during the
 * walk. */
typedef bool (*weir_walk_visitor)(void *ctx, const weir_walk_entry *entry);
WEIR_API weir_status weir_pool_walk(weir_pool *pool, weir_walk_visitor visit, void *ctx);

/* Checks the invariants: the strategy's own; that ranges, blocks, caches and pending blocks agree; and that statistics
 * add up. Other threads may use the pool during the check. If an invariant is broken, returns WEIR_ERR_INTERNAL and
 * stores a sentence in *why, if `why` is not NULL. The sentence stays valid. */
WEIR_API weir_status weir_pool_check(weir_pool *pool, const char **why);

/* Prints the pool for a log or a debugger: its limits and counters, its streams, its regions and every range in them.
 * The sink gets one line after the other, without a newline; a line is valid during the call only. All lines show one
 * moment. The dump takes no host memory and changes nothing. The text is for people and may change. The sink must not
 * call the pool, which is locked during the dump. Thread-safe: other threads that use the pool wait. Returns
 * WEIR_ERR_INVALID if `pool` or `sink` is NULL. In a debugger the call waits for ever if a stopped thread is inside a
 * call of the pool; script/gdb/weir.py reads the pool's memory and takes no lock. */
typedef void (*weir_dump_sink)(void *ctx, const char *line);
WEIR_API weir_status weir_pool_dump(weir_pool *pool, weir_dump_sink sink, void *ctx);

/* X(NAME, text): the rungs (ways to serve a request) of the pool's ladder, cheapest first. */
#define WEIR_RUNG_LIST(X)                                                                                              \
    X(FRONT, "front cache")                                                                                            \
    X(LANE, "own lane")                                                                                                \
    X(OPEN, "open lane")                                                                                               \
    X(ORDERED, "lane of a stream already ordered before")                                                              \
    X(POLLED, "after polling for completed work")                                                                      \
    X(FLUSHED, "after flushing the stream's front cache")                                                              \
    X(GATHERED, "neighbouring ranges joined")                                                                          \
    X(WAITED, "after making the stream wait for another")                                                              \
    X(GROWN, "new region")                                                                                             \
    X(EXCHANGED, "new region after returning idle ones")                                                               \
    X(MAPPED, "memory mapped")                                                                                         \
    X(REMAPPED, "idle memory moved")                                                                                   \
    X(FLUSHED_ALL, "after flushing every front cache")                                                                 \
    X(SYNCED, "after synchronising a stream")                                                                          \
    X(CALLBACK, "after the out-of-memory callback")

typedef enum weir_rung {
#define WEIR_RUNG_ENUM(name, text) WEIR_RUNG_##name,
    WEIR_RUNG_LIST(WEIR_RUNG_ENUM)
#undef WEIR_RUNG_ENUM
        WEIR_RUNG_COUNT
} weir_rung;

WEIR_API const char *weir_rung_name(weir_rung rung); /* returns a readable name such as "own lane"; never NULL */

#define WEIR_SIZE_BUCKETS 48 /* bucket i counts requests of [2^i, 2^(i+1)) bytes */

typedef struct weir_pool_stats {
    size_t struct_size;
    uint64_t allocs; /* successful allocs */
    uint64_t frees;
    uint64_t failures;        /* allocs that returned WEIR_ERR_NO_MEMORY or WEIR_ERR_DEVICE */
    uint64_t requested_bytes; /* live blocks, as requested */
    uint64_t live_bytes;      /* live blocks, as handed out */
    uint64_t cached_bytes;    /* in front caches */
    uint64_t pending_bytes;   /* freed blocks that work of several streams may still use, and decommitted memory
                                 (weir/reserve.h) that work may still use */
    uint64_t free_bytes;      /* free in the strategy, all lanes */
    uint64_t reserved_bytes;  /* live + cached + pending + free, less sleeping blocks (weir/sleep.h), plus memory on
                                      its way from or to the device */
    uint64_t peak_requested_bytes; /* exact with one stream and one thread; with several streams, the highest value
                                      at a slow-path call. A block that another thread frees on a stream counts until
                                      the stream's own thread examines the free */
    uint64_t peak_live_bytes;      /* exact under the same conditions as peak_requested_bytes */
    uint64_t peak_reserved_bytes;  /* exact */
    uint64_t largest_free_bytes;
    double external_fragmentation; /* 1 - largest free / free; 0 when nothing is free */
    uint64_t regions;              /* with virtual memory: reserved ranges of addresses */
    uint64_t streams;
    uint64_t served[WEIR_RUNG_COUNT]; /* requests that each rung (way to serve a request) has served */
    uint64_t waits;                   /* stream waits that weir inserted */
    uint64_t syncs;                   /* host waits that weir made */
    uint64_t events_recorded;
    uint64_t region_allocs; /* device calls that succeeded */
    uint64_t region_frees;
    uint64_t device_failures;          /* device calls that failed */
    uint64_t device_ns;                /* wall time inside blocking device calls */
    uint64_t sizes[WEIR_SIZE_BUCKETS]; /* requests by size */
    uint64_t vm_creates;               /* with virtual memory: device calls that succeeded */
    uint64_t vm_destroys;
    uint64_t vm_maps;
    uint64_t vm_unmaps;
    uint64_t vm_moved_bytes; /* bytes of idle memory that were unmapped and mapped at other addresses */
    uint64_t limit_bytes;    /* as set now; 0 = no limit */
    uint64_t soft_limit_bytes;
    uint64_t soft_limit_growths; /* regions taken above the soft limit */
    uint64_t pressure_calls;     /* calls of the pressure callback */
    uint64_t tags;               /* tags that have a name */
    uint64_t pinned_bytes;       /* handles and regions that pins keep, as a whole (weir/pin.h) */
    uint64_t uncommitted_bytes;  /* addresses of reserved blocks that have no memory (weir/reserve.h) */
} weir_pool_stats;

#define WEIR_POOL_STATS_INIT WEIR_STRUCT_INIT(weir_pool_stats)

/* Copies the counters into *stats. Takes the stream locks one after the other, never all at once: if other threads use
 * the pool, the counters belong to slightly different moments. */
WEIR_API weir_status weir_pool_get_stats(weir_pool *pool, weir_pool_stats *stats);

/* A tag names the user of a block in reports: a small integer with a name, see weir/budget.h. 0 = untagged. */
typedef uint32_t weir_tag;

#define WEIR_TAGS 256          /* the most tags of one pool, untagged included */
#define WEIR_TAG_NAME_BYTES 64 /* the most bytes of a name, with its NUL */

/* The live blocks of one tag. */
typedef struct weir_oom_holder {
    weir_tag tag;
    char name[WEIR_TAG_NAME_BYTES];
    uint64_t requested_bytes;
    uint64_t blocks;
} weir_oom_holder;

/* The free memory of one lane, and the reason why it did not serve the failed request. */
typedef struct weir_oom_lane {
    uint32_t stream; /* 0 = the open lane */
    uint64_t free_bytes;
    uint64_t largest_bytes; /* the largest range */
    weir_tick waits_for;    /* if not 0: a point in the order of the stream for which waiting failed, so it may not be
                               reached yet */
    bool of_graph;          /* the memory belongs to a graph that was captured on the stream (weir/capture.h) */
    bool lent;              /* it is lent to the stream (weir_capture_lend) */
} weir_oom_lane;

/* A region with free memory between live blocks. */
typedef struct weir_oom_region {
    uint64_t address;
    uint64_t size;
    uint64_t free_bytes;
    uint64_t largest_bytes; /* the largest run of free neighbours */
    uint64_t blocks;        /* blocks that are not free */
} weir_oom_region;

/* X(NAME): a change that would have made the request succeed. If a caller applies one change and repeats the call, the
 * call succeeds, provided that the pool is as recorded, no other thread uses the pool, and the device gives all memory
 * that its capacity leaves. A part of a reserved block (weir/reserve.h) may be decommitted instead of freed. */
#define WEIR_ADVICE_LIST(X)                                                                                            \
    X(RAISE_LIMIT) /* set the hard limit to `bytes` */                                                                 \
    X(DEVICE_ROOM) /* have `bytes` free on the device, in one piece */                                                 \
    X(FREE_BLOCKS) /* free the live blocks between `address` and `address` + `size`: `bytes` in `blocks` blocks */     \
    X(WAIT)        /* synchronise `stream` (0: every stream), where weir failed to, and call               \
                      weir_stream_synced for it, or retire it */           \
    X(ASK_LESS)    /* request at most `bytes`, with an `align` of 0 */                                                 \
    X(END_GRAPH)   /* destroy the graph that was captured on `stream`, or release its capture pool (weir/capture.h) */ \
    X(UNPIN)       /* end all pins (weir/pin.h), which keep `bytes` of idle memory */

typedef enum weir_advice_kind {
#define WEIR_ADVICE_ENUM(name) WEIR_ADVICE_##name,
    WEIR_ADVICE_LIST(WEIR_ADVICE_ENUM)
#undef WEIR_ADVICE_ENUM
        WEIR_ADVICE_COUNT
} weir_advice_kind;

typedef struct weir_oom_advice {
    weir_advice_kind kind;
    uint32_t stream;
    uint64_t bytes;
    uint64_t blocks;
    uint64_t address;
    uint64_t size;
    weir_tag tag; /* FREE_BLOCKS: the tag with the most bytes of those blocks */
} weir_oom_advice;

#define WEIR_OOM_ENTRIES 6 /* the most entries of each list in a weir_oom_record */
#define WEIR_OOM_ADVICE 5  /* at most: RAISE_LIMIT or DEVICE_ROOM, WAIT or END_GRAPH, and one of each other kind */

/* X(NAME): the cause of a failed request, the first that applies. In a survey (weir_pool_survey): the largest
 * part of the reserved memory that is not live, one of the causes from WAITS to ROUNDING; NONE if less than a twentieth
 * is not live. */
#define WEIR_OOM_CAUSE_LIST(X)                                                                                         \
    X(NONE)          /* no request has failed */                                                                       \
    X(RECORDS)       /* no host memory for weir's own records */                                                       \
    X(TOO_BIG)       /* the live blocks and the request, as asked, exceed the limit or the device: no allocator can */ \
    X(OUTSIDE)       /* they would fit, but other pools, libraries or processes hold the rest of the device */         \
    X(WAITS)         /* memory was freed, and work of a stream may still use it; the wait for it failed */             \
    X(GRAPH)         /* memory was freed, and belongs to a captured graph (weir/capture.h) */                          \
    X(PINNED)        /* pins keep idle memory that would make room (weir/pin.h) */                                     \
    X(OTHER_STREAMS) /* a free range is large enough, and belongs to other streams */                                  \
    X(FRAGMENTED)    /* enough is free, in pieces that are too small */                                                \
    X(ROUNDING)      /* the bytes as asked would fit; rounded sizes do not */                                          \
    X(REFUSED)       /* the device refused although it has room, or does not tell */

typedef enum weir_oom_cause {
#define WEIR_OOM_CAUSE_ENUM(name) WEIR_OOM_CAUSE_##name,
    WEIR_OOM_CAUSE_LIST(WEIR_OOM_CAUSE_ENUM)
#undef WEIR_OOM_CAUSE_ENUM
        WEIR_OOM_CAUSE_COUNT
} weir_oom_cause;

/* Why the last request failed, recorded after every way to serve it had been tried. weir_oom_explain (weir/budget.h)
 * formats a report. */
struct weir_oom_record {
    size_t struct_size;
    uint64_t failure; /* the number of this failure in the pool, from 1; 0 = no failure yet */
    uint64_t size;
    uint64_t align;
    uint32_t stream;
    uint64_t limit_bytes;
    uint64_t reserved_bytes;
    uint64_t requested_bytes;
    uint64_t live_bytes;
    uint64_t cached_bytes;
    uint64_t pending_bytes;
    uint64_t free_bytes;
    uint64_t largest_free_bytes;
    uint64_t idle_region_bytes;  /* bytes of wholly free regions; with virtual memory, of wholly free granules */
    uint64_t region_asked_bytes; /* the least size that was requested from the device, for a region or to be mapped;
                                    0 = the limit forbade a request */
    weir_status device_status;   /* the status that the device returned */
    char text[512];              /* the cause in one line, for a log */
    uint64_t regions;
    uint64_t usable_bytes; /* the largest run of free neighbours that the requesting stream may use */
    weir_tag tag;          /* tag of the request */
    char tag_name[WEIR_TAG_NAME_BYTES];
    uint32_t holder_count; /* number of entries set in holders */
    uint32_t lane_count;
    uint32_t region_count;
    uint32_t advice_count;
    weir_oom_holder holders[WEIR_OOM_ENTRIES]; /* the most bytes first; blocks without a tag are one entry */
    weir_oom_lane lanes[WEIR_OOM_ENTRIES];     /* the most bytes first */
    weir_oom_region worst[WEIR_OOM_ENTRIES];   /* regions, the most free bytes first */
    weir_oom_advice advice[WEIR_OOM_ADVICE];   /* no advice if host memory was missing, or no change would help */
    uint64_t pinned_idle_bytes; /* bytes of regions or handles that would be idle, and pins keep (weir/pin.h); not in
                                   idle_region_bytes */
    weir_oom_cause cause;
    uint64_t free_pieces;                 /* runs of free neighbours */
    uint64_t usable_free_bytes;           /* free bytes that the requesting stream may use, in all pieces */
    uint64_t device_free_bytes;           /* free on the device, for this pool and for other users */
    uint64_t device_total_bytes;          /* all of the device; 0: it does not tell */
    char in_the_way[WEIR_TAG_NAME_BYTES]; /* FREE_BLOCKS: the tag with the most bytes of those blocks; "" = no tag */
    bool virtual_memory_would_do; /* the pool has regions, and virtual memory would bring the free pieces together */
};

#define WEIR_OOM_RECORD_INIT WEIR_STRUCT_INIT(weir_oom_record)

/* Copies the record of the last failure into *record. */
WEIR_API weir_status weir_pool_get_oom(weir_pool *pool, weir_oom_record *record);

#ifdef __cplusplus
}
#endif

#endif
