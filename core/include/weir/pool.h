/* weir/pool.h: the front door. A pool is device + strategy + stream order + limits + statistics.
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
 * The rule of stream order. A block freed on stream s may be handed to stream x when everything that could touch it
 * happens before x's next operation. A free leaves a set of (stream, tick) pairs: the freeing stream at its tick, and
 * each stream of a `use`. The block is reusable by x when for each pair (t, k): t is x, or x is already ordered after
 * tick k of t by waits (followed transitively), or the host saw tick k of t complete. Work queued on a stream that is
 * neither the freeing stream nor named by weir_pool_use must have been ordered before the free by the caller.
 *
 * Thread safety: every function may be called from any thread, unless it says otherwise or the pool was created with
 * WEIR_POOL_SINGLE_THREADED.
 *
 * Fork: the child may only destroy pools, arenas, recorders and devices of its parent. Each such call returns at once, at
 * any instant of the parent's threads: it leaves everything as it is, calls no device, callback or observer, and the memory goes
 * with the child's process.
 *
 * Cancellation: no function of weir is a cancellation point, and device calls and callbacks run with cancellation disabled. A
 * thread that is cancelled with the deferred type ends after the call. Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS)
 * is not supported inside a call.
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
typedef struct weir_stream weir_stream; /* a vendor's stream as one pool knows it */
typedef struct weir_block weir_block;   /* what the user holds: a descriptor, never in device memory */

/* What to do when free memory exists but another stream's work may still touch it, and the device has room. */
typedef enum weir_growth {
    WEIR_GROWTH_BALANCED = 0, /* grow while less than half of what may be taken is reserved, then wait first */
    WEIR_GROWTH_GROW_FIRST,   /* never make a stream wait while the device gives memory */
    WEIR_GROWTH_WAIT_FIRST,   /* never take memory while a wait would do */
} weir_growth;

enum {
    /* No locks: the caller serialises all calls. */
    WEIR_POOL_SINGLE_THREADED = 1u << 0,
    /* Every alloc and free reaches the strategy: exact placement, slower. */
    WEIR_POOL_NO_FRONT_CACHE = 1u << 1,
    /* Keep regions that lie idle while growing: fewer device calls, more memory. By default a pool that must grow
     * first returns regions that are wholly free and too small for the request. */
    WEIR_POOL_KEEP_IDLE_REGIONS = 1u << 2,
    /* Reserve addresses and map memory into them granule by granule instead of taking regions: the pool grows where the
     * fewest new granules make room, and moves idle ones from elsewhere before it takes much more than was ever live at
     * once. A request then fails only when the granules that live blocks touch, and the request rounded up to granules,
     * exceed the limit or the device. A large request takes one handle of the device's for all its whole granules; as long as
     * it lives no other block lies in them. Needs a device with virtual memory and a strategy with `claim`. With
     * WEIR_POOL_KEEP_IDLE_REGIONS memory moves only when the limit or the device refuses more. */
    WEIR_POOL_VIRTUAL_MEMORY = 1u << 3,
};

typedef struct weir_oom_record weir_oom_record;

/* Called, with no lock held, when everything else has failed. It may free blocks of this pool and returns true when
 * the request is worth another try. */
typedef bool (*weir_oom_callback)(void *ctx, weir_pool *pool, const weir_oom_record *record);

/* A request for which the pool would have to go above its soft limit. */
typedef struct weir_pressure {
    size_t struct_size;
    uint64_t size; /* of the request */
    uint32_t stream;
    uint64_t reserved_bytes;
    uint64_t over_bytes; /* how far above the soft limit serving it would lead */
    uint64_t soft_limit_bytes;
    uint64_t limit_bytes; /* 0 = none */
} weir_pressure;

/* Called, with no lock held, when a request can be served only by going above the soft limit. It may call anything but
 * weir_pool_destroy: free blocks, trim, change the limits. It returns true when it did something that may keep the pool
 * below: that is tried before more is taken, and it is called again if it was not enough. After it has returned false the
 * pool goes above, and it is not called until the pool has come back to 15/16 of the soft limit or got new limits. Never
 * while a call of it is under way, in whatever thread: others' requests go on without it, and so do its own. */
typedef bool (*weir_pressure_callback)(void *ctx, weir_pool *pool, const weir_pressure *pressure);

typedef struct weir_pool_config {
    size_t struct_size;
    weir_device *device;               /* required; borrowed, must outlive the pool */
    const weir_strategy_ops *strategy; /* required */
    const void *strategy_config;       /* the strategy's own struct; NULL = its defaults */
    uint64_t limit_bytes;              /* most that may be reserved from the device; 0 = no limit; can be changed:
                                          weir_pool_set_limits in weir/budget.h */
    weir_growth growth;
    uint32_t flags; /* WEIR_POOL_... */
    weir_oom_callback oom_callback;
    void *oom_ctx;
    uint64_t soft_limit_bytes; /* above it the pool waits, returns idle regions and calls the callback before it takes
                                  more; 0 = none; at most limit_bytes if there is one */
    weir_pressure_callback pressure_callback;
    void *pressure_ctx;
    /* With WEIR_POOL_VIRTUAL_MEMORY: how much more than was ever live at once is reserved before idle memory moves: one part in
     * `vm_spare_share`, 0 = 24, and `vm_spare_bytes`, 0 = 6 MiB, but at least three granules (the device's page_bytes). */
    uint64_t vm_spare_share;
    uint64_t vm_spare_bytes;
    /* With WEIR_POOL_VIRTUAL_MEMORY: most bytes of one handle of the device's. A large request takes a handle of its own size,
     * which no other block shares; what is small, or moves, is in handles of one granule. 0 = 512 MiB; up to the granule:
     * every handle is one granule. */
    uint64_t vm_handle_bytes;
} weir_pool_config;

#define WEIR_POOL_CONFIG_INIT WEIR_STRUCT_INIT(weir_pool_config)

/* WEIR_ERR_INVALID: no device or strategy, an unknown flag, a soft limit above the hard one, or a strategy config it
 * refuses. WEIR_ERR_UNSUPPORTED: the device aligns its regions (or has pages) to less than the strategy's granule; virtual
 * memory is asked for and the device or the strategy lacks it. WEIR_ERR_NO_MEMORY: no host memory. Takes nothing from the
 * device. */
WEIR_API weir_status weir_pool_create(const weir_pool_config *config, weir_pool **pool);

/* Ends the pool: waits for the streams whose work may still touch its memory, gives every region back and frees every
 * handle, live blocks included. The pool is gone even when a device call fails on the way; the first failure is
 * returned, so that a caller may report what the device did not take back. NULL is allowed. WEIR_ERR_BUSY: somebody holds
 * the pool; nothing has changed. */
WEIR_API weir_status weir_pool_destroy(weir_pool *pool);

/* For whoever puts the pool where its owner does not see it, a runtime's registry for one: until it has been released as
 * often as held, weir_pool_destroy refuses. WEIR_ERR_INVALID: NULL, or a release too many. */
WEIR_API weir_status weir_pool_hold(weir_pool *pool);
WEIR_API weir_status weir_pool_release(weir_pool *pool);

/* The device that the pool was created with; it stays the caller's. NULL for NULL. Thread-safe. */
WEIR_API weir_device *weir_pool_device(const weir_pool *pool);

/* --- streams --- */

/* weir's handle for a vendor's stream; the same handle for the same stream every time. Keep it: it carries the front
 * cache, the tick and the clock, so alloc and free look nothing up. NULL is the vendor's default stream. It lives until
 * weir_stream_retire or weir_pool_destroy. The first time, the device is asked whether the stream is its own
 * (stream_check in weir/device.h). WEIR_ERR_INVALID: it is not, or an argument is NULL. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_pool_stream(weir_pool *pool, void *native_stream, weir_stream **stream);

/* The vendor's stream is about to be destroyed: waits for its work, so that its memory is free for all, and forgets it.
 * Its blocks stay valid and are freed on other streams. Call it before the vendor's destroy; a vendor's handle that
 * comes again is a new stream. WEIR_ERR_DEVICE: the wait failed; nothing has changed, and the memory freed on this
 * stream stays set aside until a retry succeeds or the pool is destroyed. */
WEIR_API weir_status weir_stream_retire(weir_pool *pool, weir_stream *stream);

/* The same for a stream whose work is known to be over, because the host waited for it or the vendor's destroy has
 * returned: nothing is asked of the stream, so nothing can refuse. */
WEIR_API weir_status weir_stream_ended(weir_pool *pool, weir_stream *stream);

/* Hints. The caller recorded `event` (any pointer that names it: the vendor's handle) on `stream`, or made `stream`
 * wait for it. weir learns which streams are ordered after which and reuses memory across them without waits of its
 * own; where nobody tells, it knows less and is still safe. Tell each in the order in which it was queued, right after
 * queueing it. A wait for an event that was never reported teaches nothing. Where several threads feed one stream, none of
 * the others may call the pool with it from the vendor's call (of a wait: from its start) until the hint has returned:
 * what they free, or what weir makes the stream wait for, would count as covered. */
WEIR_API weir_status weir_stream_recorded(weir_pool *pool, const void *event, weir_stream *stream);
WEIR_API weir_status weir_stream_waited(weir_pool *pool, weir_stream *stream, const void *event);
/* The host waited for everything queued on the stream, or for an event: memory behind it is free for all. */
WEIR_API weir_status weir_stream_synced(weir_pool *pool, weir_stream *stream);
WEIR_API weir_status weir_event_synced(weir_pool *pool, const void *event);
/* The vendor's event is being destroyed and its handle may come again. */
WEIR_API weir_status weir_event_forgotten(weir_pool *pool, const void *event);

/* A point in the stream's order: what has been queued on it so far. For who sets something aside, other than a block,
 * until a stream's work is over. No event is recorded for it: one covers all marks and frees before it. WEIR_ERR_INVALID:
 * NULL, or a stream that is not the pool's, or no longer. */
WEIR_API weir_status weir_stream_mark(weir_pool *pool, weir_stream *stream, weir_tick *mark);
/* Whether the host has seen everything before the mark complete, for which the device is asked about this stream; `wait`:
 * waits for it. True of a stream that has been retired since, and on a device without streams. WEIR_ERR_DEVICE: the wait
 * failed; without `wait` a device that cannot be asked means no. */
WEIR_API weir_status weir_stream_reached(weir_pool *pool, weir_stream *stream, weir_tick mark, bool wait, bool *reached);

/* --- blocks --- */

/* A block of at least `size` bytes at a multiple of `align` (0 or a power of two; 0 = the strategy's granule), for work
 * that will be queued on `stream`. The block is the caller's until weir_pool_free.
 * WEIR_ERR_INVALID: NULL handle, a stream of another pool, size 0 or too large to round, align no power of two.
 * WEIR_ERR_NO_MEMORY: see weir_pool_oom for the reason. WEIR_ERR_DEVICE: the device failed in another way. */
WEIR_API weir_status weir_pool_alloc(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align,
                                     weir_block **block);

/* Gives the block back in the order of `stream`: what is queued on it so far may still use the block. Never waits.
 * WEIR_ERR_INVALID: NULL handle, a block or stream of another pool, or a block freed already: a freed handle stays
 * recognisable until weir_pool_alloc returns it again. */
WEIR_API weir_status weir_pool_free(weir_pool *pool, weir_block *block, weir_stream *stream);

/* Gives back a block that no queued work touches: anyone may have it at once. The host must have seen the end of its
 * stream's work up to the alloc too, even when nothing was queued on the block: what the stream did earlier in the same
 * memory may still run. Who has not waited uses weir_pool_free. Errors as above. */
WEIR_API weir_status weir_pool_free_idle(weir_pool *pool, weir_block *block);

/* `stream` also touches the block, with work queued before or after this call, until the block is freed (PyTorch's
 * record_stream). Naming the stream that later frees it, or one stream twice, is harmless.
 * WEIR_ERR_INVALID as above; WEIR_ERR_NO_MEMORY: no host memory to note it; the caller must then synchronise `stream`
 * before freeing. */
WEIR_API weir_status weir_pool_use(weir_pool *pool, weir_block *block, weir_stream *stream);

/* The last work of `stream` on the block has been queued: a wait that the caller inserts afterwards is enough to make
 * the block reusable. Nothing to do if the stream has no use of the block. */
WEIR_API weir_status weir_pool_use_end(weir_pool *pool, weir_block *block, weir_stream *stream);

/* One load each. The block must be live. */
WEIR_API uint64_t weir_block_address(const weir_block *block);
WEIR_API uint64_t weir_block_size(const weir_block *block);     /* as requested */
WEIR_API uint64_t weir_block_capacity(const weir_block *block); /* as handed out, at least the size */
WEIR_API weir_pool *weir_block_pool(const weir_block *block);
WEIR_API weir_stream *weir_block_stream(const weir_block *block); /* allocated on; it may have been retired since */

/* The live block that starts at `address`. WEIR_ERR_INVALID when there is none. */
WEIR_API weir_status weir_pool_find(weir_pool *pool, uint64_t address, weir_block **block);

/* --- upkeep --- */

enum {
    WEIR_TRIM_WAIT = 1u << 0, /* wait for streams whose work keeps otherwise free regions */
};

/* Returns wholly free regions (virtual memory: wholly free granules, wherever they lie) to the device until no more than
 * `keep_bytes` are reserved. Without WEIR_TRIM_WAIT only what nobody's work can touch. *released, when not NULL: bytes
 * given back, also after a failure. Below the most that was reserved since the last trim the pool grows without giving idle
 * regions back first, so a trim is also how a program says that its peak is over. WEIR_ERR_DEVICE: the device refused; that region or granule stays with the pool.
 * WEIR_ERR_NO_MEMORY: no host memory. */
WEIR_API weir_status weir_pool_trim(weir_pool *pool, uint64_t keep_bytes, uint32_t flags, uint64_t *released);

typedef enum weir_walk_state {
    WEIR_WALK_FREE,    /* in a lane of the strategy */
    WEIR_WALK_LIVE,    /* a block that somebody holds */
    WEIR_WALK_CACHED,  /* in a stream's front cache */
    WEIR_WALK_PENDING, /* freed, waiting for several streams */
    WEIR_WALK_UNMAPPED, /* addresses without memory, or whose memory is being moved at the moment */
} weir_walk_state;

/* What one range of the pool's regions holds. */
typedef struct weir_walk_entry {
    size_t struct_size;
    uint64_t region_address;
    uint64_t region_size;
    uint64_t address;
    uint64_t size;
    weir_walk_state state;
    uint64_t requested;  /* of a live block */
    uint32_t stream;     /* whose lane, cache or pending list; 0 = open */
    weir_block *block;   /* of a live block; do not free it during the walk */
} weir_walk_entry;

/* Visits every range; false ends the walk. The pool is locked meanwhile: the visitor must not call it. */
typedef bool (*weir_walk_visitor)(void *ctx, const weir_walk_entry *entry);
WEIR_API weir_status weir_pool_walk(weir_pool *pool, weir_walk_visitor visit, void *ctx);

/* Proves the invariants: the strategy's own, that ranges, blocks, caches and pending blocks account for each other,
 * and that statistics add up. Other threads may go on working. WEIR_ERR_INTERNAL, and in *why (when not NULL) a
 * sentence that stays valid, if one is broken. */
WEIR_API weir_status weir_pool_check(weir_pool *pool, const char **why);

/* X(NAME, text): the rungs of the ladder that can serve a request, cheapest first. */
#define WEIR_RUNG_LIST(X)                                                                          \
    X(FRONT, "front cache")                                                                        \
    X(LANE, "own lane")                                                                            \
    X(OPEN, "open lane")                                                                           \
    X(ORDERED, "lane of a stream already ordered before")                                          \
    X(POLLED, "after polling for completed work")                                                  \
    X(FLUSHED, "after flushing the stream's front cache")                                          \
    X(GATHERED, "neighbouring ranges joined")                                                      \
    X(WAITED, "after making the stream wait for another")                                          \
    X(GROWN, "new region")                                                                         \
    X(EXCHANGED, "new region after returning idle ones")                                           \
    X(MAPPED, "memory mapped")                                                                     \
    X(REMAPPED, "idle memory moved")                                                               \
    X(FLUSHED_ALL, "after flushing every front cache")                                             \
    X(SYNCED, "after synchronising a stream")                                                      \
    X(CALLBACK, "after the out-of-memory callback")

typedef enum weir_rung {
#define WEIR_RUNG_ENUM(name, text) WEIR_RUNG_##name,
    WEIR_RUNG_LIST(WEIR_RUNG_ENUM)
#undef WEIR_RUNG_ENUM
    WEIR_RUNG_COUNT
} weir_rung;

WEIR_API const char *weir_rung_name(weir_rung rung); /* "own lane"; never NULL */

#define WEIR_SIZE_BUCKETS 48 /* bucket i counts requests of [2^i, 2^(i+1)) bytes */

typedef struct weir_stats {
    size_t struct_size;
    uint64_t allocs; /* that succeeded */
    uint64_t frees;
    uint64_t failures;              /* allocs that ended in WEIR_ERR_NO_MEMORY or _DEVICE */
    uint64_t requested_bytes;       /* of live blocks, as asked */
    uint64_t live_bytes;            /* of live blocks, as handed out */
    uint64_t cached_bytes;          /* in front caches */
    uint64_t pending_bytes;         /* freed, waiting for several streams */
    uint64_t free_bytes;            /* free in the strategy, all lanes */
    uint64_t reserved_bytes;        /* live + cached + pending + free, and what is on its way from or to the device */
    uint64_t peak_requested_bytes;  /* exact with one stream and one thread; with several streams, the highest value at a
                                       slow call; what other threads free on a stream counts until its own takes it up */
    uint64_t peak_live_bytes;       /* likewise */
    uint64_t peak_reserved_bytes;   /* exact */
    uint64_t largest_free_bytes;
    double external_fragmentation;  /* 1 - largest free / free; 0 when nothing is free */
    uint64_t regions;               /* with virtual memory: reserved ranges of addresses */
    uint64_t streams;
    uint64_t served[WEIR_RUNG_COUNT]; /* requests by the rung that served them */
    uint64_t waits;                 /* stream waits that weir inserted */
    uint64_t syncs;                 /* host waits that weir made */
    uint64_t events_recorded;
    uint64_t region_allocs;         /* device calls that succeeded */
    uint64_t region_frees;
    uint64_t device_failures;       /* device calls that failed */
    uint64_t device_ns;             /* wall time inside blocking device calls */
    uint64_t sizes[WEIR_SIZE_BUCKETS]; /* requests by size */
    uint64_t vm_creates;            /* with virtual memory: device calls that succeeded */
    uint64_t vm_destroys;
    uint64_t vm_maps;
    uint64_t vm_unmaps;
    uint64_t vm_moved_bytes;        /* of idle memory that was mapped elsewhere */
    uint64_t limit_bytes;           /* as set now; 0 = none */
    uint64_t soft_limit_bytes;
    uint64_t soft_limit_growths;    /* regions taken above the soft limit */
    uint64_t pressure_calls;        /* of the callback */
    uint64_t tags;                  /* that have a name */
} weir_stats;

#define WEIR_STATS_INIT WEIR_STRUCT_INIT(weir_stats)

/* Reads the counters. Takes each stream's lock for a moment, never all at once: figures of a pool that is being used
 * belong to slightly different moments. */
WEIR_API weir_status weir_pool_stats(weir_pool *pool, weir_stats *stats);

/* Who holds a block, for people: a small integer with a name, see weir/budget.h. 0 = untagged. */
typedef uint32_t weir_tag;

#define WEIR_TAGS 256          /* of one pool, untagged included */
#define WEIR_TAG_NAME_BYTES 64 /* of a name with its NUL */

/* Live blocks of one tag. */
typedef struct weir_oom_holder {
    weir_tag tag;
    char name[WEIR_TAG_NAME_BYTES];
    uint64_t requested_bytes;
    uint64_t blocks;
} weir_oom_holder;

/* Free memory of one lane, and why it did not serve. */
typedef struct weir_oom_lane {
    uint32_t stream; /* 0 = open to anyone */
    uint64_t free_bytes;
    uint64_t largest_bytes; /* one range */
    weir_tick waits_for;    /* not 0: this tick of the stream is not known to be complete, and waiting for it failed */
} weir_oom_lane;

/* A region whose free memory lies between live blocks. */
typedef struct weir_oom_region {
    uint64_t address;
    uint64_t size;
    uint64_t free_bytes;
    uint64_t largest_bytes; /* free neighbours taken together */
    uint64_t blocks;        /* that are not free */
} weir_oom_region;

/* X(NAME): what would have made the request succeed. Each is true by itself, as of the record, for who is alone with the
 * pool and with a device that gives what its capacity leaves: do it, repeat the call, and it succeeds. */
#define WEIR_ADVICE_LIST(X)                                                                        \
    X(RAISE_LIMIT) /* set the hard limit to `bytes` */                                             \
    X(DEVICE_ROOM) /* have `bytes` free on the device, in one piece */                             \
    X(FREE_BLOCKS) /* free the live blocks between `address` and `address` + `size`: `bytes` in `blocks` blocks */ \
    X(WAIT)        /* synchronise `stream` (0: every stream), which weir could not, and call               \
                      weir_stream_synced for it, or retire it */                                   \
    X(ASK_LESS)    /* ask for at most `bytes` at the strategy's alignment */

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
    weir_tag tag; /* FREE_BLOCKS: that holds the most of them */
} weir_oom_advice;

#define WEIR_OOM_ENTRIES 6 /* of each list in the record */
#define WEIR_OOM_ADVICE 4 /* one of the first two kinds, and one of each other */

/* Why the last request failed, as of after everything had been tried. weir_oom_format (weir/budget.h) makes a report of
 * it. */
struct weir_oom_record {
    size_t struct_size;
    uint64_t failure; /* how many-th failure of the pool; 0 = none yet */
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
    uint64_t idle_region_bytes;  /* in regions (virtual memory: granules) that are wholly free */
    uint64_t region_asked_bytes; /* the smallest region, or how much to map, asked of the device; 0 = the limit forbade it */
    weir_status device_status;   /* what the device answered */
    char text[512];              /* the gist in one sentence, for a log */
    uint64_t regions;
    uint64_t usable_bytes;       /* the largest run of free neighbours that the stream may have */
    weir_tag tag;                /* of the request */
    char tag_name[WEIR_TAG_NAME_BYTES];
    uint32_t holder_count;       /* entries of each list that are set */
    uint32_t lane_count;
    uint32_t region_count;
    uint32_t advice_count;
    weir_oom_holder holders[WEIR_OOM_ENTRIES]; /* the most bytes first; blocks without a tag are one of them */
    weir_oom_lane lanes[WEIR_OOM_ENTRIES];     /* likewise */
    weir_oom_region worst[WEIR_OOM_ENTRIES];   /* regions, the most free bytes first */
    weir_oom_advice advice[WEIR_OOM_ADVICE];   /* none when host memory was missing, or when nothing known would do */
};

#define WEIR_OOM_RECORD_INIT WEIR_STRUCT_INIT(weir_oom_record)

/* Copies the record of the last failure. */
WEIR_API weir_status weir_pool_oom(weir_pool *pool, weir_oom_record *record);

#ifdef __cplusplus
}
#endif

#endif
