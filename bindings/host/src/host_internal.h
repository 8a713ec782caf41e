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

/* --- core: size-first structs, in and out --- */

weir_status weir__config_adopt(void *dst, size_t dst_size, const void *src);
weir_status weir__config_report(void *dst, const void *src, size_t src_size);

/* --- node.c: the page runs of one node --- */

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
    pthread_mutex_t chunk_lock;
    _Atomic uint64_t pending_bytes; /* of small blocks */
    /* Of threads that ended or have no cache; under thread_cache.c's lock. */
    uint64_t gone_allocs;
    uint64_t gone_frees;
    uint64_t gone_live_bytes; /* handed out less taken back, modulo 2^64 */
    _Atomic uint64_t failures;
    weir_host_stats held; /* under chunk_lock: the members about chunks */
    char reasons[WEIR_HOST_KIND_COUNT][160]; /* under chunk_lock: why a step gave nothing the last time */
};

weir_status weir__host_node_init(weir__host_node *node, weir_host_pool *pool, int32_t number);
weir_status weir__host_node_fini(weir__host_node *node);
/* A run of whole pages: its description, live, or NULL and *status. */
weir__host_run *weir__host_node_take(weir__host_node *node, uint64_t size, uint64_t align, weir_status *status);
/* Gives a run back: idle, or (with a stream of the run's pool) in the order of that stream. */
weir_status weir__host_node_give(weir__host_run *run, weir_stream *stream);
/* Descriptions of runs: never freed while the pool lives. */
weir__host_run *weir__host_run_new(weir_host_pool *pool);
void weir__host_run_unused(weir_host_pool *pool, weir__host_run *run);
void weir__host_runs_fini(weir_host_pool *pool);

/* --- host_device.c: host memory as a weir_device --- */

/* The native stream that stands for the host on such a device. */
extern char weir__host_stream;
weir_status weir__host_device_create(weir__host_node *node, weir_device **device);

/* --- ladder.c: where pinned memory comes from --- */

/* Pinned memory of a node at `address`, inside a reservation (chunks that are mapped), or wherever the runtime puts it
 * (address 0: kind RUNTIME only). On success the chunk is in the node's list and in the registry. */
weir_status weir__host_ladder_take(weir__host_node *node, uint64_t address, uint64_t size, uint64_t *got);
weir_status weir__host_ladder_give(weir__host_node *node, uint64_t address, uint64_t size);
/* Frees descriptions; the memory has gone back. */
void weir__host_ladder_fini(weir__host_node *node);

/* --- thread_cache.c: what a thread keeps --- */

enum { WEIR__HOST_LARGE_SLOTS = 64, WEIR__HOST_LARGE_DEPTH = 8, WEIR__HOST_BIN_DEPTH = 64 };

/* Of a thread, by node. Bins are of weir's classes; an engine with caches of its own has no use for them. */
typedef struct weir__host_bin {
    uint32_t count;
    uint32_t most;
    void *blocks[WEIR__HOST_BIN_DEPTH];
} weir__host_bin;

typedef struct weir__host_large_slot {
    uint64_t size; /* 0: nobody's yet */
    uint32_t count;
    weir__host_run *runs[WEIR__HOST_LARGE_DEPTH];
} weir__host_large_slot;

/* Counters have one writer, the thread; others read them. */
typedef struct weir__host_cache {
    struct weir__host_cache *next_of_thread;
    struct weir__host_cache *next_of_pool; /* under the list's lock, as the next two */
    struct weir__host_cache *previous_of_pool;
    _Atomic(weir_host_pool *) pool; /* NULL once the pool is gone */
    uint64_t serial;                /* of the pool */
    weir__host_node *node;
    uint64_t most_bytes;
    _Atomic uint64_t bytes; /* kept */
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
    _Atomic uint64_t live_bytes; /* handed out less taken back by this thread, modulo 2^64 */
    uint64_t trims_seen;         /* of the pool's */
    weir__host_bin small[WEIR__HOST_CLASSES];
    weir__host_large_slot large[WEIR__HOST_LARGE_SLOTS];
} weir__host_cache;

/* The calling thread's cache for a node; NULL: no memory, or the pool has none. */
weir__host_cache *weir__host_cache_of(weir__host_node *node);
/* Gives all that a cache keeps back to the node. Its thread's, or nobody's. */
void weir__host_cache_flush(weir__host_cache *cache);
/* Half of a bin, or all of a slot, goes back to the node. */
void weir__host_cache_halve(weir__host_cache *cache, uint32_t class);
void weir__host_cache_empty_slot(weir__host_cache *cache, weir__host_large_slot *slot);
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

/* --- the pool --- */

struct weir_host_pool {
    weir_host_pool_config config; /* defaults filled in; topology and runtime are the next two */
    weir_topology *own_topology;
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
    struct weir__host_cache *caches; /* under thread_cache.c's lock */
    weir__host_pending *pending;
    _Atomic uint64_t held_bytes; /* of all nodes, against the limit */
    _Atomic uint64_t trims;      /* how often threads were asked to give back what they keep */
    size_t node_count;
    weir__host_node *nodes;
};

/* Counts bytes against the limit. */
bool weir__host_limit_take(weir_host_pool *pool, uint64_t bytes);
void weir__host_limit_give(weir_host_pool *pool, uint64_t bytes);
/* The pool's node of that number; NULL: none. */
weir__host_node *weir__host_node_numbered(weir_host_pool *pool, int32_t number);

#endif
