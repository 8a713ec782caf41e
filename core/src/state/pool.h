/* core/src/state/pool.h: what a pool is. A part names the file that works on it. */
#ifndef WEIR_CORE_STATE_POOL_H
#define WEIR_CORE_STATE_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <weir/arena.h>
#include <weir/budget.h>
#include <weir/capture.h>
#include <weir/observer.h>
#include <weir/strategy.h>

#include "shared/number_map.h"
#include "state/block.h"
#include "state/mark.h"
#include "state/stream.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* The tags of a pool. Allocated when the first tag gets a name. */
struct pool_tags {
    char *names[WEIR_TAGS];   /* indexed by tag; a name is written once, before the pool's tag_count covers it */
    int64_t peaks[WEIR_TAGS]; /* indexed by tag: most live bytes, under the pool's lock; exact if the pool has one
                                 stream and the tag is not 0, else sampled */
};

struct pool_region {
    uint64_t address;
    uint64_t size;
    uint64_t hint;             /* the size of the request that the region was taken for */
    weir_lane lane;            /* lane of the stream that the region was taken for */
    struct pool_region *going; /* the next region in a list of regions taken out of the strategy */
    void *handle; /* the strategy's handle; NULL while the region is on its way back to the device or set aside */
    struct pool_region *prev;
    struct pool_region *next;
};

/* An event that the caller has recorded: the tick and the vector clock of its stream at that moment. */
struct known_event {
    weir_lane lane;
    weir_tick tick;
    weir_tick *clock;
    size_t clock_lanes;
};

/* Observers: see observers.c. */
struct pool_watch {
    _Atomic(struct pool_observer *) observers; /* newest first */
    _Atomic uint32_t reporting[2]; /* threads that report to observers without a lock; a thread counts itself at index
                                      `side` % 2, which it reads when it begins */
    atomic_uint side;              /* raised by a thread that detaches an observer, which then waits until the count at
                                      the former index is 0 */
    atomic_bool awaiting;          /* a thread that detaches an observer waits for the reporting threads */
    atomic_bool any;               /* true if there is an observer */
};

/* Bounds of the streams' front caches (caches of freed blocks). `small` and `slot` are in granules. */
struct pool_front {
    _Atomic uint64_t small; /* requests up to this size are small and are rounded up to a size class */
    _Atomic uint64_t slot;  /* how much one slot may hold */
    _Atomic uint64_t limit; /* bytes of small blocks that one stream may cache */
    _Atomic uint32_t epoch; /* number of changes of `slot`: see struct front_slot */
    uint32_t large_keys; /* UINT32_MAX: requests take large blocks beside the last one freed. 0: these blocks only wait
                               for the next miss, before which all of them go to the strategy */
    uint64_t largest;    /* bytes of the largest request that a front cache serves; 0: no front caches */
};

/* One thread at a time takes memory from the device or returns it: see region.c. */
struct pool_growth {
    bool taken;
    pthread_mutex_t mutex; /* protects the wait for `ended`; held together with the pool's lock only for an instant */
    pthread_cond_t ended;
};

/* Events that could not be destroyed. The next stream that needs an event takes one; a trim tries to destroy them
 * again. */
struct pool_kept_events {
    weir_event **events;
    size_t count;
    size_t room; /* room in `events`: at least `made`, so that an event can always be kept */
    size_t made; /* events that the pool has created and not destroyed */
};

/* See block.c. */
struct pool_blocks {
    size_t count;                        /* taken ranges that are blocks */
    weir__number_map handles;            /* checked builds only: every block that ever existed */
    _Atomic(struct block_index *) index; /* NULL until a block is looked up by its address */
    struct entry_chunk *chunks;
    struct index_entry *unused;
    atomic_uint version; /* version of the hash chains: odd while a writer changes them */
};

/* The reserved bytes, and the limits on them: see budget.c and mark.h. */
struct pool_held {
    uint64_t bytes;      /* reserved bytes; with a limit at most max(limit_bytes, over_limit) */
    uint64_t over_limit; /* if the limit was lowered below the reserved bytes: the reserved bytes of that moment,
                            less the bytes returned later; else 0 */
    uint64_t peak;
    struct high_mark mark;
    bool pressure_spent;       /* the pressure callback had nothing more to free after the reserved bytes last
                                  crossed the soft limit, so it is not called */
    bool in_pressure_callback; /* the pressure callback is running */
};

/* Counters that weir_pool_get_stats reports. */
struct pool_counts {
    uint64_t served[WEIR_RUNG_COUNT];
    uint64_t waits;
    uint64_t syncs;
    uint64_t events;
    uint64_t region_allocs;
    uint64_t region_frees;
    uint64_t device_failures;
    uint64_t device_ns;
    uint64_t pressure_calls;
    uint64_t soft_limit_growths;
};

/* True if the strategy's table of functions has the entry, and it is not NULL. */
#define STRATEGY_HAS(ops, slot)                                                                                        \
    ((ops)->struct_size >= offsetof(weir_strategy_ops, slot) + sizeof((ops)->slot) && (ops)->slot != NULL)

/* Captures: see capture.c. The device's report that a graph has been destroyed may come after the pool's own end. */
struct graph_watch {
    atomic_uint holders; /* the pool, and the device until it has reported */
    atomic_bool gone;
};

struct weir_capture_pool {
    weir_pool *pool;
    struct weir_capture_pool *next; /* in weir_pool.captures */
    uint64_t graph;                 /* for a capture that the program did not tell: the device's number of it; else 0 */
    struct graph_watch *watch;      /* of that graph */
    weir_stream *first;             /* stand-ins; the first stands for the stream on which captures begin */
    bool released;                  /* no graph of a capture pool exists any more */
    bool open;                      /* a capture has begun, and is not known to have ended */
    weir_stream *lent_to;           /* the stream that borrows idle memory of the graphs; NULL: none */
    uint64_t lent_bytes;            /* in blocks of that stream in lent memory */
    uint64_t begun;                 /* captures begun */
    uint64_t number;                /* from 1; never used twice in a pool */
    atomic_uint holds;
};

struct request; /* of order/order.h */

struct weir_pool {
    weir_device *device;
    const weir_strategy_ops *strategy;
    void *state;                     /* the strategy's */
    const struct memory_ops *memory; /* the source of memory: regions or virtual memory */
    weir_pool_config config;
    uint64_t granule_mask;
    uint64_t next_serial; /* of streams */
    unsigned granule_shift;
    bool ordered;      /* true: the device has streams and events */
    bool asks;         /* true: each call asks the device if the stream is being captured */
    atomic_bool plain; /* true: blocks need no data outside their records, because the pool has no private lanes
                          and no index by address. Becomes false under the pool's lock. */
    pid_t process;
    atomic_uint holds; /* the pool is not destroyed while this is above 0 */
    struct pool_front front;
    struct pool_watch watch;
    _Atomic uint32_t tag_count; /* number of tags, including tag 0 of untagged blocks */
    struct pool_tags *tags;

    struct stream_lock lock;
    struct pool_growth growth;

    weir_stream **streams;      /* by lane; streams[0] is NULL */
    size_t lanes;               /* one more than the number of the highest lane */
    size_t lane_room;           /* of the arrays by lane */
    weir_tick *done;            /* by lane: the highest tick that the host knows to be complete */
    weir_tick *limits;          /* scratch, by lane */
    struct lane_group **groups; /* indexed by lane / 64; a group never moves */
    weir__number_map natives;   /* from native stream handles to lanes, without retired streams */
    weir__number_map events;    /* from a caller's event to its struct known_event */
    struct pool_kept_events kept;
    struct weir_capture_pool *captures; /* newest first */
    _Atomic uint64_t captures_made;

    struct pool_region *regions;   /* newest first */
    size_t regions_aside;          /* number of regions that the strategy had no host memory for: see region.c */
    weir__number_map region_table; /* from a region's address to its struct pool_region */
    struct pool_vm *vm;            /* NULL: the pool takes regions */
    struct pool_sleep *sleep;      /* NULL: no block has slept yet (memory/asleep.h) */
    struct reservation *reserved;  /* reserved blocks (reserved.h), also freed ones with memory that work may use */
    struct leaving *leaving;       /* decommitted memory, the newest first */
    uint64_t leavings;             /* number of the latest struct leaving, less UNIT_LEAVING */
    struct pool_held held;
    weir__number_map pins; /* from the first address of a pinned handle or region to the number of its pins */
    uint64_t pinned_bytes; /* of these handles and regions */

    struct pool_blocks blocks;
    weir_block *pending;
    uint64_t pending_bytes;
    int64_t peak_requested; /* most requested bytes live at once; sampled while there are several streams */
    int64_t peak_live;      /* as the pool's growth has sampled it, which goes by it */
    int64_t told_peak_live; /* as statistics have sampled and reported it */

    weir_arena *arenas;
    uint64_t arenas_made;

    struct pool_counts counts;
    uint64_t wait_rounds; /* number of wait rounds begun; in a round a thread waits for each busy stream once */
    uint64_t slow_frees;  /* number of frees that reached the strategy; a failing request compares it to learn that
                             memory was freed */
    weir_oom_record oom;  /* describes the last request that failed */
    void (*explain)(const struct request *request); /* function that fills `oom`; set by life.c, so that order/ does
                                                       not call report/ */
    _Atomic unsigned slow_calls;                    /* checked builds only */
};

static inline uint64_t front_block_bytes(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->front_block_bytes, memory_order_relaxed);
}

/* True if the pool has an observer. A stream's lock is held, because without it the answer may be outdated at once. */
static inline bool is_watched(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->watch.any, memory_order_relaxed);
}

static inline bool is_plain(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->plain, memory_order_relaxed);
}

#endif
