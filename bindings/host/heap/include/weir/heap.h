/* weir/heap.h: blocks by bare address, for engines that take a table of malloc-like functions.
 *
 *     weir_heap_create(NULL, &heap);                      ordinary memory of the process
 *     void *x = weir_heap_alloc(heap, size);              from any thread
 *     weir_heap_free(heap, x);                            from any thread, without a size
 *
 * Engines call their allocator by address alone and expect it to behave like malloc. A heap does so over any memory
 * that weir manages:
 *
 *     no source given   memory of the process, which the heap maps for itself in chunks of 64 KiB. Idle chunks move to
 *                       where they are needed, so the heap holds little more than its peak of live bytes, for any
 *                       sizes. The system places the pages, usually near the thread that touches them first
 *     `host_pool`       pinned memory near a NUMA node (weir/host.h)
 *     `pool`, `stream`  any pool, in the order of one stream; the host need not be able to read the memory
 *
 * Memory of the process is made when it is needed. A block of less than 1 MiB has its pages when the call returns;
 * those of a larger block are made at their first access, also if it is asked for as zeroed. So a large block of which
 * only a part is used costs that part, though all of it counts as held.
 *
 * Long-lived blocks such as weights are allocated with weir_heap_alloc_long_lived. They lie apart from short-lived
 * blocks, so that they do not fragment their memory.
 *
 * Idle memory of the process decays: memory that the heap has not needed for about a second goes back to the system
 * (decay_ms). Calls that miss the thread's cache look at a coarse clock; a thread of the heap may do it instead
 * (WEIR_HEAP_DECAY_THREAD). Memory of a given pool does not decay, because other users share it.
 *
 * A process may have any number of heaps; each knows its own blocks only. A heap has no static state, so a heap that is
 * never destroyed serves static destructors until the process exits.
 *
 * Results. Functions that replace malloc return a pointer, or NULL on failure; weir_heap_explain then gives the reason.
 * All other functions return a status. Before a function returns NULL, the heap has given back all idle memory and
 * tried again, and has called `reclaim` until it returned false.
 *
 * Thread safety: every function may be called from any thread, except weir_heap_destroy. No function is a cancellation
 * point (weir/pool.h). After fork the child may only destroy the heap: weir_heap_destroy then returns at once and frees
 * nothing. The child may read and write its copies of the blocks that are memory of the process.
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
    /* With `host_pool`: blocks come from `node`, not from the calling thread's node. */
    WEIR_HEAP_ON_NODE = 1u << 0,
    /* With `pool`: the host cannot access the memory. weir_heap_realloc then never moves a block. */
    WEIR_HEAP_NO_HOST_ACCESS = 1u << 1,
    /* Memory of the process: a thread of the heap lets idle memory decay, also while the program makes no call. The
     * thread wakes four times in decay_ms, and at least once a second. It blocks all signals. weir_heap_destroy joins
     * it. A process whose main thread has called pthread_exit ends with its other threads all the same. A library that
     * has started a thread stays loaded after dlclose. A child of fork has no such thread. No thread is started if
     * decay_ms is WEIR_HEAP_DECAY_AT_ONCE or WEIR_HEAP_DECAY_NEVER. */
    WEIR_HEAP_DECAY_THREAD = 1u << 2,
};

/* Values of decay_ms. */
enum {
    WEIR_HEAP_DECAY_NEVER = -1,   /* idle memory stays until a trim, or until a request or the limit makes the heap
                                     return it */
    WEIR_HEAP_DECAY_AT_ONCE = -2, /* each free that leaves the thread's cache gives idle memory back */
};

/* Called without a lock held, before a request of `size` bytes fails. The callback may use the heap (drop caches, free
 * blocks, trim). It returns true when another attempt is worthwhile; `attempt` counts its calls for this request from
 * 0. If a request made by the callback itself fails, the callback is not called again for that request. */
typedef bool (*weir_heap_reclaim)(void *ctx, weir_heap *heap, uint64_t size, uint32_t attempt);

/* The source of blocks: host_pool or pool, not both; both NULL = memory of the process. */
typedef struct weir_heap_source {
    weir_host_pool *host_pool; /* borrowed and held: weir_host_pool_destroy refuses while the heap lives */
    weir_pool *pool;           /* borrowed and held: weir_pool_destroy refuses while the heap lives */
    weir_stream *stream;       /* required with `pool`: allocs and frees are in this stream's order */
    int32_t node;              /* used with WEIR_HEAP_ON_NODE */
} weir_heap_source;

typedef struct weir_heap_config {
    size_t struct_size;
    uint32_t flags; /* bits of WEIR_HEAP_... */
    weir_heap_source source;
    weir_heap_source long_lived; /* source of weir_heap_alloc_long_lived; all zero = separate memory of the process if
                                    `source` is the process's memory, else the same as `source` */
    uint64_t align;              /* alignment of every block, a power of two from 16 to 2 MiB; 0 = 16, as malloc */
    uint64_t slack_bytes;        /* readable behind each block, for kernels that read past its end; at most 4 KiB */
    uint64_t limit_bytes;        /* memory of the process only: the most that may be held; 0 = no limit */
    weir_heap_reclaim reclaim;   /* may be NULL */
    void *reclaim_ctx;
    const char *name; /* for messages: copied; NULL = "heap" */
    /* Memory of the process only: the heap keeps the most that it needed during the last decay_ms, plus an eighth and
     * 512 KiB, and gives the rest back within the next quarter of decay_ms. Blocks in the caches of threads count as
     * needed until that quarter ends. So when threads have freed all their blocks, in any order, and live on, the heap
     * holds at most 4 MiB more than the live bytes two seconds later, with the default and either calls or
     * WEIR_HEAP_DECAY_THREAD. 0 = 1000 ms; at most 2^31 - 1; or WEIR_HEAP_DECAY_... */
    int64_t decay_ms;
    weir_shared_limit *shared_limit; /* memory of the process only: a limit in addition to limit_bytes; must outlive the
                                        heap */
} weir_heap_config;

#define WEIR_HEAP_CONFIG_INIT WEIR_STRUCT_INIT(weir_heap_config)

/* Creates a heap. A NULL config means all defaults. Reserves no memory for blocks yet. WEIR_ERR_INVALID: an unknown
 * flag, a source with both host_pool and pool, a pool without a stream, a limit_bytes or decay_ms for a source that is
 * not memory of the process, a bad align, slack or decay_ms, a node that the host pool does not have.
 * WEIR_ERR_NO_MEMORY: no host memory, or no thread for WEIR_HEAP_DECAY_THREAD. */
WEIR_API weir_status weir_heap_create(const weir_heap_config *config, weir_heap **heap);
/* Destroys the heap. Its blocks of process memory become invalid. Its live blocks of a host pool or pool are freed in
 * that pool. NULL is allowed. No other call may be under way. WEIR_ERR_DEVICE: the source's device failed a call; the
 * heap is destroyed all the same. */
WEIR_API weir_status weir_heap_destroy(weir_heap *heap);

/* --- blocks --- */

/* Returns a block of at least `size` bytes at a multiple of the heap's align, with undefined contents. Returns NULL if
 * there is no memory, or if `size` is 0, which does not count as a failure. */
WEIR_API void *weir_heap_alloc(weir_heap *heap, size_t size);
/* Returns a block of `count` times `size` bytes, all zero, like calloc. Also returns NULL if the product overflows or
 * the heap has WEIR_HEAP_NO_HOST_ACCESS. */
WEIR_API void *weir_heap_alloc_zeroed(weir_heap *heap, size_t count, size_t size);
/* Allocates like weir_heap_alloc, at a multiple of `align` or of the heap's align, whichever is larger. `align` is a
 * power of two below 2^46 (any other value returns NULL); 0 = the heap's. Where the heap or its source maps virtual
 * memory, an alignment costs addresses only; in memory of the process it may be as large as the machine's memory. NULL
 * if the system has no such address range. A pool without virtual memory takes a region of `size` and `align` bytes
 * together. */
WEIR_API void *weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align);
/* Allocates a long-lived block, such as weights, tables and prepacked operands, like weir_heap_alloc_aligned. All other
 * functions treat it like any block. */
WEIR_API void *weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align);

/* Returns a block of at least `size` bytes with the contents of `block`, up to the smaller of the two sizes. The result
 * is `block` itself if it is large enough and `size` is at least half of it, or if it can grow at its address: memory
 * of the process, 16 KiB or more, with free addresses behind it. A moved block has the heap's alignment, even if
 * `block` had a larger one. A long-lived block stays long-lived. `block` NULL: an alloc. size 0: a free, and
 * NULL. Other NULL: out of memory, or not a block of this heap; `block` is unchanged. A shrink for which no smaller
 * block is found returns `block`. */
WEIR_API void *weir_heap_realloc(weir_heap *heap, void *block, size_t size);

/* Frees a block. NULL is allowed. WEIR_ERR_INVALID: not the start of a live block of this heap; the call changes
 * nothing but bad_frees, which counts it. A double free is refused in every build, for every size and from any threads,
 * as long as the memory has not been handed out again. (Two threads that free the same small block of process memory at
 * the same instant may both get WEIR_OK, except in checked builds.) */
WEIR_API weir_status weir_heap_free(weir_heap *heap, void *block);

/* Returns the usable size of the block, at least the requested size. Returns 0 if the address is not the start of a
 * live block of this heap. */
WEIR_API size_t weir_heap_usable_size(weir_heap *heap, const void *block);

/* --- upkeep --- */

/* Gives back idle memory of all sources until at most `keep_bytes` are held, including what the caches of all threads
 * keep. When threads have freed all their blocks, in any order, and live on, the heap holds at most 4 MiB more than the
 * live bytes after a trim to 0. If another thread is letting memory decay, waits until it has finished. Pools that the
 * heap was given are trimmed too, each to `keep_bytes`. *released, when not NULL, receives the bytes given back.
 * WEIR_ERR_DEVICE: a source kept some. */
WEIR_API weir_status weir_heap_trim(weir_heap *heap, uint64_t keep_bytes, uint64_t *released);

/* Replaces limit_bytes; 0 = none. If more than the new limit is held, idle memory goes back at once. Live blocks stay,
 * and requests that need more memory fail until they fit. WEIR_ERR_INVALID: `heap` is NULL, or its source is a pool,
 * which has its own limit. */
WEIR_API weir_status weir_heap_set_limit(weir_heap *heap, uint64_t limit_bytes);

/* Figures of this heap's blocks. The held bytes are those of its sources, which other users may share. */
typedef struct weir_heap_stats {
    size_t struct_size;
    uint64_t allocs; /* successful requests, including those of realloc */
    uint64_t frees;
    uint64_t reallocs;  /* calls of weir_heap_realloc with a block and a nonzero size */
    uint64_t moves;     /* reallocs that copied */
    uint64_t failures;  /* requests that returned NULL for lack of memory */
    uint64_t reclaims;  /* calls of the reclaim callback */
    uint64_t bad_frees; /* frees refused with WEIR_ERR_INVALID */
    uint64_t live_blocks;
    uint64_t live_bytes;       /* sizes as handed out, slack and rounding included */
    uint64_t peak_live_bytes;  /* exact, unless several threads alloc or free at the same instant */
    uint64_t long_lived_bytes; /* part of live_bytes */
    uint64_t largest_bytes;    /* the largest request so far */
    uint64_t held_bytes;       /* bytes taken from the system or the device, also those never touched */
    uint64_t peak_held_bytes;
    uint64_t limit_bytes;    /* 0 = none */
    uint64_t decayed_bytes;  /* given back by decay */
    uint64_t decays;         /* times that decay gave memory back */
    uint64_t decay_failures; /* times that the system refused to take memory back; the memory stays in use */
    uint64_t moved_bytes;    /* idle memory that moved to other addresses with its pages */
    uint64_t remade_bytes; /* idle memory that was unmapped, and mapped anew elsewhere, because its pages cannot move */
} weir_heap_stats;

#define WEIR_HEAP_STATS_INIT WEIR_STRUCT_INIT(weir_heap_stats)

/* Copies the current figures. WEIR_ERR_INVALID: an argument is NULL. */
WEIR_API weir_status weir_heap_get_stats(weir_heap *heap, weir_heap_stats *stats);

/* Writes, like snprintf, why the last failed request failed: the heap's name, the request, the cause and the remedies;
 * a newline ends each line. Writes an empty string when no request has failed. */
WEIR_API size_t weir_heap_explain(weir_heap *heap, char *text, size_t size);

/* Checks the invariants of the heap and of its own sources. Other threads may keep using the heap. WEIR_ERR_INTERNAL:
 * an invariant is broken; *why (when not NULL) is a sentence that stays valid. WEIR_ERR_NO_MEMORY: no host memory to
 * check with. */
WEIR_API weir_status weir_heap_check(weir_heap *heap, const char **why);

/* Starts recording: from now on every alloc, realloc and free of the heap is noted in `recorder` (weir_recorder_create
 * in weir/trace.h), with stream 1 for short-lived blocks and stream 2 for long-lived ones. NULL stops recording: when
 * the call returns, no call on the heap uses the recorder any more. Blocks that are already live are written as `p`
 * lines with their usable sizes; calls that other threads make at that moment may be missing. May be called from
 * `reclaim`. WEIR_ERR_BUSY: another recorder is set. weir_recorder_stop refuses while the recorder is set in a heap.
 *
 * A program need not call this function: when the environment variable WEIR_RECORD names a file, each heap records
 * itself from its creation on, the first into that file, the next into FILE.2 and so on; an existing file is never
 * overwritten. If no file can be written, the heap works unrecorded and reports nothing: `weir record --what weir`
 * reports it. */
WEIR_API weir_status weir_heap_record(weir_heap *heap, weir_recorder *recorder);

#ifdef __cplusplus
}
#endif

#endif
