/* host_internal.h: declarations that the files of the host pool share, grouped by the file that defines them.
 *
 * Lock order, outermost first: decay.lock of a pool; the lists of thread caches, one for the process, and the lock of
 * one cache (thread_cache.c); blocks that wait for streams (pending.c); an engine's class; an engine's list of slabs or
 * a weir pool's own locks, which are released before the device is called; runtime_lock, under which one chunk is made
 * at a time; the locks of the registry, of a node's list of chunks and of the pool's unused descriptions, under which
 * no other lock is taken. No thread waits for a stream under any of them.
 */
#ifndef WEIR_HOST_INTERNAL_H
#define WEIR_HOST_INTERNAL_H

#include "classes.h"
#include "engine.h"
#include "page_move.h"
#include "parked.h"
#include "registry.h"

#include "shared/shared_limit.h"
#include "shared/slab.h"

#include <stdatomic.h>
#include <weir/pool.h>

#define WEIR__HOST_LIKELY(x) __builtin_expect(!!(x), 1)

/* --- topology.c --- */

/* Adds a reference: one more call of weir_topology_destroy is needed before the topology is freed. */
void weir__topology_keep(const weir_topology *topology);

/* --- node.c: the page runs of one node --- */

/* The last failure to make a chunk on a node. */
typedef struct weir__host_refusal {
    uint64_t bytes; /* size of the request that failed; 0: no failure since the last success */
    uint64_t when_ns;
    uint64_t gives; /* the pool's count of chunks given back (`gives`) at the failure */
} weir__host_refusal;

struct weir__host_node {
    weir_host_pool *pool;
    int32_t number;           /* the operating system's */
    weir_device *device;      /* host_device.c */
    weir_pool *mapped;        /* pool over memory that weir maps */
    weir_pool *given;         /* pool over memory that the runtime allocates, or NULL */
    weir_stream *mapped_host; /* the host's stream in the pool `mapped`; given_host: in the pool `given` */
    weir_stream *given_host;
    weir__host_engine *engine;
    weir__host_chunk *chunks;                    /* list of chunks; chunk_lock protects it and chunk_descriptions */
    weir__slab chunk_descriptions;               /* kept until the node ends: a query may read a stale description */
    struct weir__host_event *events;             /* events of `device` */
    struct weir__host_reservation *reservations; /* of a pageable node */
    weir__host_chunk pageable;                   /* a pageable node's only chunk: all its memory */
    weir__page_mover mover;      /* of a pageable node; used only by the thread that grows the pool, like the next two
                                      members */
    weir__parked parked;         /* pages of unmapped memory, at most loose_bytes */
    uint64_t loose_bytes;        /* created and not mapped */
    uint64_t ended_bytes;        /* destroyed since memory was created or mapped */
    bool is_locked;              /* pages that were dropped had been locked by the process */
    _Atomic uint64_t bare_bytes; /* mapped, and not made yet */
    weir__host_node *next_of_ledger; /* the next node under the same ledger */
    _Atomic uint64_t moved_bytes;    /* pages that moved to other addresses */
    _Atomic uint64_t remade_bytes;   /* pages that were dropped and made anew, because they could not move */
    pthread_mutex_t chunk_lock;
    _Atomic uint64_t pending_bytes; /* small blocks only */
    /* Counters of threads that have ended or have no cache; protected by thread_cache.c's lock. */
    uint64_t gone_allocs;
    uint64_t gone_frees;
    uint64_t gone_live_bytes; /* bytes allocated less bytes freed, modulo 2^64 */
    _Atomic uint64_t failures;
    weir_host_stats held;                    /* statistics; the members about chunks are protected by chunk_lock */
    weir__host_refusal refusals[2];          /* the last failures: [0] of a chunk that the runtime allocates, [1] of a
                                                chunk at a given address; protected by runtime_lock */
    char reasons[WEIR_HOST_KIND_COUNT][400]; /* why each weir_host_kind failed last; protected by chunk_lock */
};

weir_status weir__host_node_init(weir__host_node *node, weir_host_pool *pool, int32_t number);
/* Destroys the pools of a node and gives its memory back. Returns the first failure; *is_empty becomes false if the
 * runtime has not taken everything back, and a later call tries again. */
weir_status weir__host_node_empty(weir__host_node *node, bool *is_empty);
/* Frees the records of an empty node. */
void weir__host_node_fini(weir__host_node *node);
/* Takes a run of whole pages. Returns its description, in state LIVE. On failure, returns NULL and stores the error in
 * *status. */
weir__host_run *weir__host_node_take(weir__host_node *node, uint64_t size, uint64_t align, weir_status *status);
/* Frees a page run in its weir_pool, in the order of that pool's stream `stream`, or for reuse at once if NULL. */
weir_status weir__host_node_give(weir__host_run *run, weir_stream *stream);
/* Enlarges a live page run of a pageable node to `size` bytes at its address; needs free addresses behind the run.
 * Returns false, with nothing changed, if the run cannot grow. */
bool weir__host_node_grow(weir__host_run *run, uint64_t size);
weir__host_run *weir__host_run_new(weir_host_pool *pool);
void weir__host_run_unused(weir_host_pool *pool, weir__host_run *run);

/* --- host_device.c: host memory as a weir_device --- */

/* The native stream that represents the host on a device of host_device.c. */
extern char weir__host_stream;
weir_status weir__host_device_create(weir__host_node *node, weir_device **device);
/* Frees the events that the device could not free. Called after the device is destroyed. */
void weir__host_device_fini(weir__host_node *node);

/* --- pageable.c: memory of the process as a weir_device --- */

weir_status weir__host_pageable_create(weir__host_node *node, weir_device **device);
/* Returns the machine's memory in bytes, swap included; 0 if unknown. */
uint64_t weir__host_machine_bytes(void);
/* Writes why pages of idle memory were made anew, if some were. Returns the length, like snprintf. */
size_t weir__host_pageable_explain(const weir__host_node *node, char *text, size_t size);
/* Makes the pages of mapped memory that has none yet, together with their neighbours in the same chunks. Returns false
 * if the system has no memory. */
bool weir__host_pageable_make(weir__host_node *node, uint64_t address, uint64_t size);
/* Makes a block of pageable memory zero. Pages that do not exist are not made. */
void weir__host_zero(void *block, uint64_t size);
/* Unmaps the reservations that the pool has not released. Called after the device is destroyed. */
void weir__host_pageable_fini(weir__host_node *node);

static inline bool weir__host_is_pageable(const weir_host_pool_config *config)
{
    return (config->flags & WEIR_HOST_PAGEABLE) != 0;
}

/* --- chunk_source.c: makes pinned memory --- */

/* Makes pinned memory for a node at `address`, inside a reservation (mapped chunks), or at any address of the runtime's
 * choice (address 0: kind RUNTIME only). On success the chunk is in the node's list and in the registry. */
weir_status weir__host_chunk_take(weir__host_node *node, uint64_t address, uint64_t size, uint64_t *got);
weir_status weir__host_chunk_give(weir__host_node *node, uint64_t address, uint64_t size);

/* --- thread_cache.c: blocks cached by a thread --- */

enum { WEIR__HOST_LARGE_SLOTS = 64, WEIR__HOST_LARGE_DEPTH = 8, WEIR__HOST_BIN_DEPTH = 62 };

/* Cached blocks of one bin of the engine: blocks[floor] to blocks[count - 1]. Those below `floor` were taken by another
 * thread. The owning thread alone changes `count`, `allocs` and `net`. 1 KiB. */
typedef struct weir__host_bin {
    _Atomic int32_t count;
    _Atomic int32_t floor; /* changed under the cache's lock */
    _Atomic int32_t most;  /* largest `count`; the cache has set bytes aside for so many blocks; under the lock */
    uint32_t bytes;        /* block size of the bin; set together with `most` */
    _Atomic uint64_t allocs;
    _Atomic uint64_t net; /* blocks that the thread has taken from the engine less those that it has returned, modulo
                             2^64: those in use and `count` more */
    weir__host_kept blocks[WEIR__HOST_BIN_DEPTH];
} weir__host_bin;

/* Cached page runs of one size. `count`, `floor` and `most` have the same meaning as in a bin. */
typedef struct weir__host_large_slot {
    _Atomic uint64_t size; /* 0: the slot has no size yet */
    _Atomic int32_t count;
    _Atomic int32_t floor;
    _Atomic int32_t most;
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
    weir__host_run *runs[WEIR__HOST_LARGE_DEPTH];
} weir__host_large_slot;

/* One thread's cache of the blocks of one node. Statistics add up its counters and those of its bins and slots. */
typedef struct weir__host_cache {
    _Atomic(weir_host_pool *) pool; /* `pool` and `node` become NULL when the pool ends */
    _Atomic(weir__host_node *) node;
    int32_t number;        /* the node's number */
    uint32_t home_left;    /* uses of the cache left before it asks again for the thread's node */
    uint64_t leaf_key;     /* address >> WEIR__HOST_LEAF_SHIFT of the block freed last */
    weir__host_leaf *leaf; /* the registry leaf for leaf_key; leaves live as long as the pool */
    struct weir__host_cache *next_of_thread;
    struct weir__host_cache *next_of_pool; /* next_of_pool and previous_of_pool: protected by thread_cache.c's lock */
    struct weir__host_cache *previous_of_pool;
    void *engine_thread;  /* the engine's data for this thread */
    void *tally_cell;     /* the thread's own counter cell in the tally of the heap over this pool; NULL: none */
    pthread_mutex_t lock; /* taken by slow paths of the thread, and by threads that empty or count the cache */
    uint64_t most_bytes;
    uint64_t bin_most_bytes;       /* bytes set aside for small blocks, part of most_bytes; under the lock */
    uint64_t large_most_bytes;     /* bytes set aside for large blocks, part of most_bytes; under the lock */
    uint32_t next_slot;            /* index of the slot that is emptied next when the cache needs room */
    _Atomic uint64_t large_allocs; /* for page runs of sizes without a slot: allocs here, frees and live bytes in the
                                      next two members */
    _Atomic uint64_t large_frees;
    _Atomic uint64_t large_live_bytes; /* bytes allocated less bytes freed by this thread, modulo 2^64 */
    uint64_t flushes_seen;             /* the pool's `flushes` at this thread's last flush */
    weir__host_run *unused_runs;       /* list of unused run descriptions, for the thread's next page runs */
    uint32_t unused_run_count;
    weir__host_bin small[WEIR__HOST_BINS];
    weir__host_large_slot large[WEIR__HOST_LARGE_SLOTS];
} weir__host_cache;

/* Returns the index of the cache slot for page runs of a size. */
static inline uint32_t weir__host_slot_of(uint64_t size)
{
    WEIR_ASSERT(size != 0);
    return (uint32_t)(size / WEIR__HOST_PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

/* The calling thread's caches; the cache used last is first. Initially weir__host_no_cache, which belongs to no
 * pool. */
extern _Thread_local weir__host_cache *weir__host_mine __attribute__((tls_model("initial-exec")));
extern weir__host_cache weir__host_no_cache;

/* Finds or creates the calling thread's cache for a node; the caller has seen that it is not the first in the thread's
 * list. Returns NULL when out of memory, or if the pool has no thread caches. */
weir__host_cache *weir__host_cache_find(weir__host_node *node);

static inline weir__host_cache *weir__host_cache_of(weir__host_node *node)
{
    weir__host_cache *cache = weir__host_mine;
    if (WEIR__HOST_LIKELY(atomic_load_explicit(&cache->node, memory_order_relaxed) == node)) {
        return cache;
    }
    return weir__host_cache_find(node);
}

/* Raises the capacity of an empty bin if the bound of the cache allows it. Returns how many blocks to take from the
 * engine. */
size_t weir__host_cache_widen(weir__host_cache *cache, uint32_t bin);
/* Puts blocks of the engine, at most as many as weir__host_cache_widen has returned, into an empty bin. */
void weir__host_cache_fill(weir__host_cache *cache, uint32_t bin, const weir__host_kept *blocks, size_t count);
/* Makes room in a full bin: raises its capacity, or gives its older half back to the engine. */
void weir__host_cache_make_room(weir__host_cache *cache, uint32_t bin);
/* Makes room for a run in a slot. May take the slot over from another size. Returns false if the run cannot be
 * cached. */
bool weir__host_cache_widen_slot(weir__host_cache *cache, weir__host_large_slot *slot, uint64_t size);
/* Gives the blocks in all threads' caches of a pool back to their nodes. A thread whose cache cannot be reached,
 * because the system has no membarrier, follows at its next miss. No lock of the pool may be held but decay.lock. */
void weir__host_cache_flush_all(weir_host_pool *pool);
/* Flushes the calling thread's caches of a pool if weir__host_cache_flush_all could not reach them. */
void weir__host_cache_obey(weir_host_pool *pool);
/* Counts an alloc or a free of a thread without a cache. */
void weir__host_count(weir__host_node *node, bool alloc, uint64_t bytes);
/* Counts the bytes by which a thread without a cache has grown a block. */
void weir__host_count_growth(weir__host_node *node, uint64_t bytes);
/* Adds the counters of all threads for a node, or for all nodes (NULL). */
void weir__host_cache_counts(weir_host_pool *pool, const weir__host_node *node, weir_host_stats *stats);
/* Called when the pool ends: detaches its caches, which their threads free later. */
void weir__host_cache_orphan_all(weir_host_pool *pool);

/* --- pending.c: blocks that wait for a stream --- */

typedef struct weir__host_pending weir__host_pending;

weir_status weir__host_pending_create(weir__host_pending **pending);
void weir__host_pending_destroy(weir__host_pending *pending);
/* Frees a small block in stream order: after the work that is queued on the stream now. */
weir_status weir__host_pending_add(weir__host_node *node, weir__host_kept kept, uint32_t bin, void *native_stream);
/* Frees the blocks whose stream work has completed, unless another thread is doing so. Never waits. */
weir_status weir__host_pending_collect(weir_host_pool *pool);
/* Waits, on all streams, for the work before every block freed so far, and then frees these blocks. */
weir_status weir__host_pending_wait(weir_host_pool *pool);
/* Waits for one stream and frees its blocks. No more blocks will come for the stream; a new stream may get its
 * handle. */
weir_status weir__host_pending_retire(weir_host_pool *pool, const void *native_stream);

/* --- decay.c: idle memory goes back by itself --- */

enum { WEIR__HOST_DECAY_SLOTS = 4, WEIR__HOST_DECAY_SKIP = 15 };

/* The most bytes in page runs: in the current time slot, a quarter of the decay time, and in each of the last four. */
typedef struct weir__host_decay {
    uint64_t slot_ns;                      /* length of a time slot, a quarter of the decay time; 0: no decay by time */
    bool at_once;                          /* idle memory goes back at each free of a run */
    _Atomic uint64_t used_bytes;           /* bytes in page runs: live, cached by threads, or slabs */
    _Atomic uint64_t most_bytes;           /* the most bytes used in the current time slot */
    _Atomic uint64_t slot_end_ns;          /* changed under `lock` */
    _Atomic uint64_t looked_ns;            /* the last look at the clock by weir__host_decay_use */
    _Atomic uint32_t skip;                 /* calls of weir__host_decay_use before it reads the clock again */
    pthread_mutex_t lock;                  /* taken before all other locks; a trim waits for it, other calls try it */
    uint64_t past[WEIR__HOST_DECAY_SLOTS]; /* most bytes used in the last time slots, newest first; under `lock` */
    _Atomic uint64_t bytes;                /* given back */
    _Atomic uint64_t times;
    _Atomic uint64_t failures;
} weir__host_decay;

/* Begins the decay of a new pageable pool. `slot_ns`: a quarter of the decay time; 0: no decay by time. `at_once`: idle
 * memory goes back at each free of a page run. */
void weir__host_decay_start(weir_host_pool *pool, uint64_t slot_ns, bool at_once);
/* Counts `bytes` of a page run as used. Any lock may be held. */
void weir__host_decay_take(weir__host_decay *decay, uint64_t bytes);
/* Counts `bytes` of a page run as no longer used. Any lock may be held. */
void weir__host_decay_give(weir__host_decay *decay, uint64_t bytes);
/* Gives idle memory back if a time slot has ended at the time `now_ns`. No lock may be held. */
void weir__host_decay_step(weir_host_pool *pool, uint64_t now_ns);
/* Gives idle memory back at once, unless another thread is doing so. No lock may be held. */
void weir__host_decay_now(weir_host_pool *pool);
/* Reads the clock, and gives idle memory back if a time slot has ended. Returns true if looks follow each other
 * quickly. No lock may be held. */
bool weir__host_decay_look(weir_host_pool *pool);

/* --- walk.c: all live blocks --- */

/* Called for each live block, with the pool's lock held. */
typedef void (*weir__host_visitor)(void *ctx, uint64_t block, uint64_t bytes);
void weir__host_each_live(weir_host_pool *pool, weir__host_visitor visit, void *ctx);

/* --- ledger.c: bytes against limits --- */

/* The bytes that the pools under one limit hold. A host pool has its own ledger; the pools of a heap share a ledger. */
typedef struct weir__host_ledger {
    _Atomic uint64_t limit_bytes; /* 0: no limit */
    uint64_t machine_bytes; /* pageable pools: the machine's memory; if the process took more, the system would kill it;
                               0: unknown */
    _Atomic uint64_t held_bytes;
    _Atomic uint64_t peak_held_bytes;
    _Atomic uint64_t made_bytes; /* pageable pools: the part of held_bytes that has pages */
    _Atomic uint64_t group_mark; /* pageable pools: when more bytes than this are held, the control group's room is
                                    read again */
    bool is_in_group;            /* a control group has less memory than the machine */
    weir__host_node *nodes;      /* pageable pools: list of their nodes */
    weir_shared_limit *shared;   /* NULL: none */
} weir__host_ledger;

/* Counts bytes against the limit. Returns false if the limit refuses them. */
bool weir__host_limit_take(weir_host_pool *pool, uint64_t bytes);
void weir__host_limit_give(weir_host_pool *pool, uint64_t bytes);

/* True if the limit refused the last attempt of the calling thread's request. A request first asks for more than it
 * needs. If the limit refuses that attempt and the system refuses the smaller one, a higher limit would not help. */
extern _Thread_local bool weir__host_limit_refused __attribute__((tls_model("initial-exec")));

/* --- the pool --- */

/* A block's index in its slab is offset * reciprocal >> WEIR__HOST_RECIPROCAL_SHIFT: exact below
 * WEIR__HOST_SLAB_BYTES. */
enum { WEIR__HOST_RECIPROCAL_SHIFT = 42 };

typedef struct weir__host_bin_shape {
    uint64_t bytes;
    uint64_t reciprocal;
} weir__host_bin_shape;

struct weir_host_pool {
    weir_host_pool_config config; /* copy with defaults filled in; `topology` and `runtime` below replace its members of
                                     these names */
    weir_topology *own_topology;  /* released with the pool: a topology that the pool created, or a reference to the
                                     config's topology */
    const weir_topology *topology;
    weir_host_runtime runtime;
    weir_host_runtime_ops runtime_ops;
    uint64_t pad;
    uint64_t align;      /* of small blocks */
    uint64_t serial;     /* unique among the pools of the process */
    int32_t device_node; /* the node nearest to the runtime's device; WEIR_HOST_THREAD_NODE: unknown */
    long process;
    weir__host_registry registry;
    pthread_mutex_t runtime_lock; /* serializes calls of the runtime and the making of chunks */
    pthread_mutex_t lock;         /* protects the next */
    weir__slab runs;              /* run descriptions; not freed before the pool ends */
    uint32_t bin_count;
    weir__host_bin_shape bins[WEIR__HOST_BINS];
    uint64_t small_bytes;                        /* a block of this size or more is a run of pages */
    uint64_t small_most;                         /* the largest request that the engine serves */
    uint8_t bin_of[WEIR__HOST_SMALL_BYTES / 16]; /* by index i: the bin for a request of i + 1 units of 16 bytes */
    struct weir__host_cache *caches;             /* protected by thread_cache.c's lock */
    weir__host_pending *pending;
    atomic_uint holds; /* number of holds by heaps and by weir_host_pool_hold */
    weir__host_ledger own_ledger;
    weir__host_ledger *ledger;  /* for all nodes */
    weir__limit_member limited; /* under the shared limit, if there is one */
    uint64_t gives;             /* number of times that a chunk was given back; protected by runtime_lock */
    _Atomic uint64_t flushes;   /* flushes that did not reach other threads' caches: each thread follows */
    weir__host_decay decay;
    struct weir__leftover *at_last; /* for the runtime's device, which ends the pool if the runtime fails at its end */
    bool is_abandoned;              /* the runtime keeps the chunks that it has not taken back */
    size_t node_count;
    weir__host_node *nodes;
};

static inline bool weir__host_decays(const weir_host_pool *pool)
{
    return pool->decay.slot_ns != 0;
}

/* Called by each slow path before it takes or gives back memory. While calls follow each other quickly, only one in
 * WEIR__HOST_DECAY_SKIP + 1 looks at the clock. */
static inline void weir__host_decay_use(weir_host_pool *pool)
{
    weir__host_decay *decay = &pool->decay;
    if (!weir__host_decays(pool)) {
        return;
    }
    const uint32_t skip = atomic_load_explicit(&decay->skip, memory_order_relaxed);
    if (skip != 0) {
        atomic_store_explicit(&decay->skip, skip - 1, memory_order_relaxed);
        return;
    }
    (void)weir__host_decay_look(pool);
}

/* Returns the mark (state byte) of the small block that begins at `address` in the slab of `run`. Returns NULL if no
 * block begins there. If the run or its slab is stale, may return the mark of another block. */
__attribute__((always_inline)) static inline weir__host_mark *
weir__host_mark_at(const weir_host_pool *pool, const weir__host_run *run, uint64_t address, uint32_t bin)
{
    const weir__host_bin_shape *shape = &pool->bins[bin];
    const weir__host_slab *slab = atomic_load_explicit(&run->slab, memory_order_relaxed);
    const uint64_t offset = address - atomic_load_explicit(&run->start, memory_order_relaxed);
    const uint64_t place = offset * shape->reciprocal >> WEIR__HOST_RECIPROCAL_SHIFT;
    if (!WEIR__HOST_LIKELY(slab != NULL && place * shape->bytes == offset &&
                           place < atomic_load_explicit(&slab->blocks, memory_order_relaxed))) {
        return NULL;
    }
    weir__host_mark *mark = weir__host_mark_of(slab, place);
    if (mark == NULL) {
        __builtin_unreachable();
    }
    return mark;
}

/* Creates a pool under the limit of `ledger`, which outlives the pool. If `ledger` is NULL, the pool has a ledger of
 * its own with config->limit_bytes. */
weir_status weir__host_pool_create_in(const weir_host_pool_config *config, weir__host_ledger *ledger,
                                      weir_host_pool **pool);
/* Returns the size of the block that weir_host_alloc_aligned returns for a valid size and align. */
uint64_t weir__host_bytes_for(const weir_host_pool *pool, uint64_t size, uint64_t align);
/* Like weir_host_query, but does not set weir_last_error. */
bool weir__host_find(weir_host_pool *pool, const void *ptr, weir_host_info *info);
/* Like weir_host_free for a non-NULL address, but does not set weir_last_error; *bytes receives the size of the
 * block. */
weir_status weir__host_free_telling(weir_host_pool *pool, void *ptr, uint64_t *bytes);

/* Enlarges a live block at its address to at least `size` bytes. Returns its new size, or 0 if nothing has changed. */
uint64_t weir__host_grow(weir_host_pool *pool, void *ptr, uint64_t size);

/* Returns the pool's node with that number, or NULL if there is none. */
weir__host_node *weir__host_node_numbered(weir_host_pool *pool, int32_t number);

#endif
