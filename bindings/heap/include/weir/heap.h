/* weir/heap.h: blocks by bare address, for engines whose hook is a table of malloc-like functions.
 *
 *     weir_heap_create(NULL, &heap);                      ordinary memory of the process
 *     void *x = weir_heap_alloc(heap, size);              from any thread
 *     weir_heap_free(heap, x);                            from any thread, without a size
 *
 * Engines call their allocator by address alone and expect malloc's manners. A heap gives them that over any memory weir
 * manages:
 *
 *     nothing named     memory of the process that the heap maps for itself, in chunks of 64 KiB that move to where they are
 *                       needed: it holds little more than was ever live at once, whatever sizes come and go. Pages lie where the
 *                       system puts them, which is near the thread that asked for them first
 *     `host_pool`       pinned memory near a NUMA node (weir/host.h)
 *     `pool`, `stream`  any pool, in the order of one stream; the host need not be able to read the memory
 *
 * Weights and other blocks that stay are asked for with weir_heap_alloc_long_lived and lie apart, so that they are never in
 * the way of those that come and go.
 *
 * A process may have as many heaps as it wants; each knows its own blocks only. A heap has no static state, so a heap that is
 * never destroyed serves static destructors until the process is gone.
 *
 * Results. Functions that take the place of malloc return a pointer, NULL when there is none, and weir_heap_explain says why;
 * all others return a status. Before NULL is returned, what lies idle anywhere has been given back and tried, and `reclaim` has
 * been asked for as long as it says that trying again is worth it.
 *
 * Thread safety: every function may be called from any thread, except weir_heap_destroy. None is a cancellation point
 * (weir/pool.h). After fork the child may only destroy
 * the heap, which returns at once and frees nothing; it may read and write its copies of the blocks that are memory of the
 * process.
 */
#ifndef WEIR_HEAP_H
#define WEIR_HEAP_H

#include <weir/base.h>
#include <weir/host.h>
#include <weir/pool.h>
#include <weir/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_heap weir_heap;

enum {
    /* With `host_pool`: blocks come from `node`, not from wherever the calling thread runs. */
    WEIR_HEAP_ON_NODE = 1u << 0,
    /* With `pool`: the host cannot touch the memory. weir_heap_realloc then never moves a block. */
    WEIR_HEAP_NO_HOST_ACCESS = 1u << 1,
};

/* Called, with no lock held, before a request of `size` bytes fails. It may use the heap (drop caches, free blocks, trim) and
 * returns true when trying again is worth it; `attempt` counts its calls for this request from 0. Requests that it makes
 * itself fail without calling it. */
typedef bool (*weir_heap_reclaim)(void *ctx, weir_heap *heap, uint64_t size, uint32_t attempt);

/* Where blocks come from: at most one of host_pool and pool; both NULL = memory of the process. */
typedef struct weir_heap_source {
    weir_host_pool *host_pool; /* borrowed and held: weir_host_pool_destroy refuses while the heap lives */
    weir_pool *pool;           /* likewise: weir_pool_destroy refuses */
    weir_stream *stream;       /* required with `pool`: whose order allocs and frees are in */
    int32_t node;              /* with WEIR_HEAP_ON_NODE */
} weir_heap_source;

typedef struct weir_heap_config {
    size_t struct_size;
    uint32_t flags;              /* WEIR_HEAP_... */
    weir_heap_source source;
    weir_heap_source long_lived; /* of weir_heap_alloc_long_lived; all zero = memory of its own where `source` is the
                                    process's, else `source` */
    uint64_t align;              /* of every block, a power of two from 64 to 2 MiB; 0 = 64 */
    uint64_t slack_bytes;        /* readable behind each block, for kernels that read past its end; at most 4 KiB */
    uint64_t limit_bytes;        /* of memory of the process: most that may be held; 0 = no limit */
    weir_heap_reclaim reclaim;   /* may be NULL */
    void *reclaim_ctx;
    const char *name;            /* for people: copied; NULL = "heap" */
} weir_heap_config;

#define WEIR_HEAP_CONFIG_INIT WEIR_STRUCT_INIT(weir_heap_config)

/* NULL for the config means all defaults. Takes no memory for blocks yet. WEIR_ERR_INVALID: an unknown flag, two sources in
 * one, a pool without a stream, a limit with a source that is not the process's, a bad align or slack, a node that the host pool has not. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_heap_create(const weir_heap_config *config, weir_heap **heap);
/* Ends the heap. Blocks of memory of the process are gone with it; blocks of a host pool or pool that are still live are
 * freed there. NULL is allowed. No other call may be under way. WEIR_ERR_DEVICE: the source's device refused something; the
 * heap is gone all the same. */
WEIR_API weir_status weir_heap_destroy(weir_heap *heap);

/* --- blocks --- */

/* A block of at least `size` bytes at a multiple of the heap's align; contents undefined. NULL: size 0 (which is no failure),
 * or out of memory. */
WEIR_API void *weir_heap_alloc(weir_heap *heap, size_t size);
/* A block of `count` times `size` bytes that are all zero, as calloc's. NULL also when the product overflows, and with
 * WEIR_HEAP_NO_HOST_ACCESS. */
WEIR_API void *weir_heap_alloc_zeroed(weir_heap *heap, size_t count, size_t size);
/* The same at a multiple of `align`, a power of two below 2^46 (NULL for any other), or the heap's where that is more; 0 = the
 * heap's. Where the heap or its source maps virtual memory, an alignment costs addresses only; in memory of the process it may be
 * as large as the machine's memory. NULL where the system has no such range. A pool without virtual memory takes a region of `size` and
 * `align` bytes together. */
WEIR_API void *weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align);
/* The same for a block that stays: weights, tables, prepacked operands. Freed, resized and asked about like any other. */
WEIR_API void *weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align);

/* A block of at least `size` bytes with the contents of `block` as far as they go, which is `block` itself where it holds
 * that much and would not waste half of itself. The alignment is the heap's: what alloc_aligned gave more of is kept only while
 * the block stays. A long-lived block stays among its kind. `block` NULL: an alloc. size 0: a free, and NULL. NULL otherwise:
 * out of memory or not a block of this heap, and `block` is as it was. A block that is to shrink and finds no smaller one stays. */
WEIR_API void *weir_heap_realloc(weir_heap *heap, void *block, size_t size);

/* Gives a block back. NULL is allowed. WEIR_ERR_INVALID: not the start of a live block of this heap; nothing has changed, and
 * bad_frees counts it. The second free of a block is refused in every build, for every size, whichever threads make the calls, as
 * long as the memory has not been handed out again. (Two threads that free the same small block of the process's memory in the
 * same instant may both get WEIR_OK, except in checked builds.) */
WEIR_API weir_status weir_heap_free(weir_heap *heap, void *block);

/* What the block can hold, at least what was asked for; 0 when it is not the start of a live block of this heap. */
WEIR_API size_t weir_heap_usable_size(weir_heap *heap, const void *block);

/* --- upkeep --- */

/* Gives back memory that lies idle until at most `keep_bytes` are held, of all sources: those that the heap was given are
 * trimmed likewise, each to `keep_bytes`. *released, when not NULL: bytes. WEIR_ERR_DEVICE: a source kept some. */
WEIR_API weir_status weir_heap_trim(weir_heap *heap, uint64_t keep_bytes, uint64_t *released);

/* Another limit_bytes; 0 = none. What lies idle goes back at once where more than that is held; live blocks stay, and requests
 * that need more memory fail until it fits. WEIR_ERR_INVALID: NULL, or a heap whose source is not the process's memory: that has
 * a limit of its own. */
WEIR_API weir_status weir_heap_set_limit(weir_heap *heap, uint64_t limit_bytes);

/* Of this heap's blocks; held and cached are those of its sources, which others may share. */
typedef struct weir_heap_stats {
    size_t struct_size;
    uint64_t allocs;          /* that succeeded, those of realloc included */
    uint64_t frees;
    uint64_t reallocs;        /* calls with a block and a size */
    uint64_t moves;           /* of them, that copied */
    uint64_t failures;        /* NULL for want of memory */
    uint64_t reclaims;        /* calls of the callback */
    uint64_t bad_frees;       /* refused with WEIR_ERR_INVALID */
    uint64_t live_blocks;
    uint64_t live_bytes;      /* as handed out: slack and rounding included */
    uint64_t peak_live_bytes; /* exact, but for what several threads do in the same instant */
    uint64_t long_lived_bytes; /* of live_bytes */
    uint64_t largest_bytes;   /* the largest request yet */
    uint64_t held_bytes;      /* taken from the system or the device */
    uint64_t peak_held_bytes;
    uint64_t limit_bytes;     /* 0 = none */
} weir_heap_stats;

#define WEIR_HEAP_STATS_INIT WEIR_STRUCT_INIT(weir_heap_stats)

/* Copies figures of the moment. WEIR_ERR_INVALID: NULL. */
WEIR_API weir_status weir_heap_get_stats(weir_heap *heap, weir_heap_stats *stats);

/* Writes, as snprintf does, why the last request that failed did: the heap's name, the request, who stood in the way and what
 * would help; a newline ends each line. Empty when none has failed. */
WEIR_API size_t weir_heap_explain(weir_heap *heap, char *text, size_t size);

/* Proves the invariants of the heap and of its own sources. Other threads may go on working. WEIR_ERR_INTERNAL, and in *why
 * (when not NULL) a sentence that stays valid, if one is broken. WEIR_ERR_NO_MEMORY: none to check with. */
WEIR_API weir_status weir_heap_check(weir_heap *heap, const char **why);

/* From now on every alloc, realloc and free of the heap is noted in `recorder` (weir_recorder_create in weir/trace.h), with
 * stream 1 for blocks that come and go and 2 for long-lived ones; NULL ends it: no call that began before uses the old one when
 * this returns. Blocks that are live already are written as `p` lines, with what they can hold; what other threads do in that
 * moment may be missing. May be called from `reclaim`. WEIR_ERR_BUSY: another recorder is set. weir_recorder_stop refuses as long as the
 * recorder is set in a heap.
 *
 * A program need not call this: when the environment names a file in WEIR_RECORD, each heap records itself from its creation
 * on, the first into that file, the next into FILE.2 and so on; a file that is there is never written over. Where none can be
 * written, the heap works on unrecorded, without a word: `weir record --what weir` says so. */
WEIR_API weir_status weir_heap_record(weir_heap *heap, weir_recorder *recorder);

#ifdef __cplusplus
}
#endif

#endif
