/* host_internal.h: what the files of the host pool share, grouped by the file that defines it.
 *
 * Locks, outermost first: the lists of thread caches, one for the process (thread_cache.c); what waits for streams
 * (pending.c); an engine's class; an engine's list of slabs or a weir pool's own, which let go of theirs before they call
 * the device; one chunk made at a time (runtime_lock); the registry's, a node's list of chunks and the pool's unused
 * descriptions, under which nothing else is taken. Nobody waits for a stream under any of them.
 */
#ifndef WEIR_HOST_INTERNAL_H
#define WEIR_HOST_INTERNAL_H

#include "classes.h"
#include "engine.h"
#include "registry.h"

#include <stdatomic.h>
#include <weir/pool.h>

#define WEIR__HOST_LIKELY(x) __builtin_expect(!!(x), 1)

/* --- topology.c --- */

/* One more call of weir_topology_destroy is needed before the topology is gone. */
void weir__topology_keep(const weir_topology *topology);

/* --- node.c: the page runs of one node --- */

/* What the ladder has not given last. */
typedef struct weir__host_refusal {
    uint64_t bytes; /* 0: it gave */
    uint64_t when_ns;
    uint64_t gives; /* the pool's then */
} weir__host_refusal;

struct weir__host_node {
    weir_host_pool *pool;
    int32_t number;      /* of the operating system */
    weir_device *device; /* host_device.c */
    weir_pool *mapped;   /* over memory that the pool maps itself */
    weir_pool *given;    /* over memory that the runtime allocates; NULL: it does not */
    weir_stream *mapped_host; /* the host as a stream of each */
    weir_stream *given_host;
    weir__host_engine *engine;
    weir__host_chunk *chunks; /* under chunk_lock, as the next */
    weir__host_chunk *unused_chunks;
    struct weir__host_event *events; /* of the device */
    struct weir__host_reservation *reservations; /* of a pageable one */
    weir__host_chunk pageable;       /* stands for all of its memory */
    pthread_mutex_t chunk_lock;
    _Atomic uint64_t pending_bytes; /* of small blocks */
    /* Of threads that ended or have no cache; under thread_cache.c's lock. */
    uint64_t gone_allocs;
    uint64_t gone_frees;
    uint64_t gone_live_bytes; /* handed out less taken back, modulo 2^64 */
    _Atomic uint64_t failures;
    _Atomic uint64_t dry_bytes; /* what it could not give last; 0: nothing */
    _Atomic uint64_t dry_ns;    /* and when */
    weir_host_stats held; /* under chunk_lock: the members about chunks */
    weir__host_refusal refusals[2]; /* under runtime_lock: of the runtime's step, of the others */
    char reasons[WEIR_HOST_KIND_COUNT][400]; /* under chunk_lock: why a step gave nothing the last time */
};

weir_status weir__host_node_init(weir__host_node *node, weir_host_pool *pool, int32_t number);
weir_status weir__host_node_fini(weir__host_node *node);
/* A run of whole pages: its description, live, or NULL and *status. */
weir__host_run *weir__host_node_take(weir__host_node *node, uint64_t size, uint64_t align, weir_status *status);
/* Gives a run back: idle, or (with a stream of the run's pool) in the order of that stream. */
weir_status weir__host_node_give(weir__host_run *run, weir_stream *stream);
/* Descriptions of runs: never freed while the pool lives. They are made so many at once; the first of these links them. */
enum { WEIR__HOST_RUNS_AT_ONCE = 64 };
weir__host_run *weir__host_run_new(weir_host_pool *pool);
void weir__host_run_unused(weir_host_pool *pool, weir__host_run *run);
void weir__host_runs_fini(weir_host_pool *pool);

/* --- host_device.c: host memory as a weir_device --- */

/* The native stream that stands for the host on such a device. */
extern char weir__host_stream;
weir_status weir__host_device_create(weir__host_node *node, weir_device **device);
/* The device is gone: frees what it could not. */
void weir__host_device_fini(weir__host_node *node);

/* --- pageable.c: memory of the process as a weir_device --- */

weir_status weir__host_pageable_create(weir__host_node *node, weir_device **device);
/* The memory that the machine has, swap included; 0: it does not say. */
uint64_t weir__host_machine_bytes(void);
/* The device is gone: gives back what it has not. */
void weir__host_pageable_fini(weir__host_node *node);

static inline bool weir__host_is_pageable(const weir_host_pool_config *config)
{
    return (config->flags & WEIR_HOST_PAGEABLE) != 0;
}

/* --- ladder.c: where pinned memory comes from --- */

/* Pinned memory of a node at `address`, inside a reservation (chunks that are mapped), or wherever the runtime puts it
 * (address 0: kind RUNTIME only). On success the chunk is in the node's list and in the registry. */
weir_status weir__host_ladder_take(weir__host_node *node, uint64_t address, uint64_t size, uint64_t *got);
weir_status weir__host_ladder_give(weir__host_node *node, uint64_t address, uint64_t size);
uint64_t weir__host_now_ns(void);
/* Frees descriptions; the memory has gone back. */
void weir__host_ladder_fini(weir__host_node *node);

/* --- thread_cache.c: what a thread keeps --- */

enum { WEIR__HOST_LARGE_SLOTS = 64, WEIR__HOST_LARGE_DEPTH = 8, WEIR__HOST_BIN_DEPTH = 61 };

/* Blocks of one bin of the engine. The owning thread writes, other threads read the atomic members. 512 bytes. */
typedef struct weir__host_bin {
    _Atomic uint32_t count;
    uint32_t most; /* for which the cache has set bytes aside */
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
    void *blocks[WEIR__HOST_BIN_DEPTH];
} weir__host_bin;

/* The same of page runs of one size. */
typedef struct weir__host_large_slot {
    _Atomic uint64_t size; /* 0: nobody's yet */
    _Atomic uint32_t count;
    uint32_t most;
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
    weir__host_run *runs[WEIR__HOST_LARGE_DEPTH];
} weir__host_large_slot;

/* Of a thread, by node. What is counted by bin and slot is added up when somebody asks. */
typedef struct weir__host_cache {
    _Atomic(weir_host_pool *) pool;  /* NULL once the pool is gone, as the next */
    _Atomic(weir__host_node *) node;
    int32_t number;                  /* the node's */
    uint32_t home_left;              /* how often still it is taken for the node that the thread runs on */
    uint64_t leaf_key;               /* address >> WEIR__HOST_LEAF_SHIFT of what was freed last */
    weir__host_leaf *leaf;           /* the registry's for that; leaves stay as long as the pool */
    struct weir__host_cache *next_of_thread;
    struct weir__host_cache *next_of_pool; /* under the list's lock, as the next */
    struct weir__host_cache *previous_of_pool;
    void *engine_thread;       /* what the engine keeps for the thread */
    uint64_t most_bytes;
    uint64_t bin_most_bytes;   /* set aside for bins, of most_bytes */
    uint64_t large_most_bytes; /* likewise for slots */
    uint32_t hand;             /* the slot that gives way next */
    _Atomic uint64_t large_allocs; /* of runs that were in no slot; as the next two */
    _Atomic uint64_t large_frees;
    _Atomic uint64_t large_live_bytes; /* handed out less taken back by this thread, modulo 2^64 */
    uint64_t trims_seen;               /* of the pool's */
    weir__host_bin small[WEIR__HOST_BINS];
    weir__host_large_slot large[WEIR__HOST_LARGE_SLOTS];
} weir__host_cache;

/* The slot for runs of a size. */
static inline uint32_t weir__host_slot_of(uint64_t size)
{
    return (uint32_t)(size / WEIR__HOST_PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

/* The calling thread's caches, the one used last in front; what it begins with is nobody's. */
extern _Thread_local weir__host_cache *weir__host_mine __attribute__((tls_model("initial-exec")));
extern weir__host_cache weir__host_no_cache;

/* The calling thread's cache for a node that is not in front; NULL: no memory, or the pool has none. */
weir__host_cache *weir__host_cache_find(weir__host_node *node);

static inline weir__host_cache *weir__host_cache_of(weir__host_node *node)
{
    weir__host_cache *cache = weir__host_mine;
    if (WEIR__HOST_LIKELY(atomic_load_explicit(&cache->node, memory_order_relaxed) == node)) {
        return cache;
    }
    return weir__host_cache_find(node);
}

/* Lets a bin that is full hold more; false: it holds what it may. */
bool weir__host_cache_widen(weir__host_cache *cache, uint32_t bin);
/* The same of the slot that runs of a size belong in, which another size may have had. */
bool weir__host_cache_widen_slot(weir__host_cache *cache, weir__host_large_slot *slot, uint64_t size);
/* Gives all that a cache keeps back to the node. Its thread's, or nobody's. */
void weir__host_cache_flush(weir__host_cache *cache);
/* Half of a bin goes back to the node. */
void weir__host_cache_halve(weir__host_cache *cache, uint32_t bin);
/* The calling thread gives back all that it keeps of a pool if the pool has been trimmed since it last did. */
void weir__host_cache_obey(weir_host_pool *pool);
/* Counts for a thread without a cache. */
void weir__host_count(weir__host_node *node, bool alloc, uint64_t bytes);
/* Adds what the threads have counted: of a node, NULL: of all. */
void weir__host_cache_counts(weir_host_pool *pool, const weir__host_node *node, weir_host_stats *stats);
/* The pool ends: its caches are left to their threads, empty. */
void weir__host_cache_orphan_all(weir_host_pool *pool);

/* --- pending.c: blocks that wait for a stream --- */

typedef struct weir__host_pending weir__host_pending;

weir_status weir__host_pending_create(weir__host_pending **pending);
void weir__host_pending_destroy(weir__host_pending *pending);
/* A small block, freed after what is queued on the stream now. */
weir_status weir__host_pending_add(weir__host_node *node, void *block, uint64_t size, void *native_stream);
/* Hands back what has become idle, unless another thread is at it. Never waits. */
weir_status weir__host_pending_collect(weir_host_pool *pool);
/* Waits for what has been freed so far, of every stream, and hands it back. */
weir_status weir__host_pending_wait(weir_host_pool *pool);
/* The same of one stream, which will get no more; its handle may come again. */
weir_status weir__host_pending_retire(weir_host_pool *pool, const void *native_stream);

/* --- walk.c: all blocks that somebody has --- */

/* Called with the pool's lock held. */
typedef void (*weir__host_visitor)(void *ctx, uint64_t block, uint64_t bytes);
void weir__host_each_live(weir_host_pool *pool, weir__host_visitor visit, void *ctx);

/* --- the pool --- */

/* What pools hold, against one limit: a pool has one of its own, those of a heap share one. */
typedef struct weir__host_ledger {
    _Atomic uint64_t limit_bytes; /* 0: none */
    uint64_t machine_bytes; /* of pageable pools: all there is, beyond which the system would kill; 0: not known */
    _Atomic uint64_t held_bytes;
    _Atomic uint64_t peak_held_bytes;
} weir__host_ledger;

/* A block's place in its slab is offset * reciprocal >> WEIR__HOST_RECIPROCAL_SHIFT: exact below WEIR__HOST_SLAB_BYTES. */
enum { WEIR__HOST_RECIPROCAL_SHIFT = 42 };

typedef struct weir__host_bin_shape {
    uint64_t bytes;
    uint64_t reciprocal;
} weir__host_bin_shape;

struct weir_host_pool {
    weir_host_pool_config config; /* defaults filled in; topology and runtime are the next two */
    weir_topology *own_topology; /* to be destroyed with the pool: made by it, or its share of the config's */
    const weir_topology *topology;
    weir_host_runtime runtime;
    weir_host_runtime_ops runtime_ops;
    uint64_t pad;
    uint64_t serial; /* of all pools of the process */
    long process;
    weir__host_registry registry;
    pthread_mutex_t runtime_lock; /* one call of the runtime's, and one chunk made, at a time */
    pthread_mutex_t lock;         /* of the next two */
    weir__host_run *unused_runs;
    weir__host_run *all_runs; /* blocks of descriptions, linked by their first */
    uint32_t bin_count;
    weir__host_bin_shape bins[WEIR__HOST_BINS];
    uint64_t small_bytes; /* what takes as much or more is a run of pages */
    uint64_t small_most; /* what is asked for and still comes from the engine, at most */
    uint8_t bin_of[WEIR__HOST_SMALL_BYTES / 32]; /* the bin for what is asked for, in units of 32, less one */
    struct weir__host_cache *caches; /* under thread_cache.c's lock */
    weir__host_pending *pending;
    atomic_uint holds; /* heaps that stand on the pool, and explicit holds */
    weir__host_ledger own_ledger;
    weir__host_ledger *ledger;   /* of all nodes */
    uint64_t gives;              /* chunks given back; under runtime_lock */
    _Atomic uint64_t trims;      /* how often threads were asked to give back what they keep */
    size_t node_count;
    weir__host_node *nodes;
};

/* A pool whose limit is that of the ledger, which outlives it; NULL: its own, of config->limit_bytes. */
weir_status weir__host_pool_create_in(const weir_host_pool_config *config, weir__host_ledger *ledger, weir_host_pool **pool);
/* What a block has that weir_host_alloc_aligned gives for a good size and align. */
uint64_t weir__host_bytes_for(const weir_host_pool *pool, uint64_t size, uint64_t align);
/* weir_host_query without a sentence for a refusal. */
bool weir__host_find(weir_host_pool *pool, const void *ptr, weir_host_info *info);
/* weir_host_free of an address but NULL, without a sentence for a refusal; *bytes: the size of the block. */
weir_status weir__host_free_telling(weir_host_pool *pool, void *ptr, uint64_t *bytes);

/* Counts bytes against the limit. */
bool weir__host_limit_take(weir_host_pool *pool, uint64_t bytes);
void weir__host_limit_give(weir_host_pool *pool, uint64_t bytes);
/* The pool's node of that number; NULL: none. */
weir__host_node *weir__host_node_numbered(weir_host_pool *pool, int32_t number);

#endif
