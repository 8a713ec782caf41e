/* weir/observer.h: callbacks for a pool's memory, its blocks, its streams and events, and captures, as they change.
 * Tools that check or draw memory (bindings/ascend/mstx) and the recorder (weir/trace.h) are observers. A pool may have
 * several observers.
 *
 * The order of the calls, whichever thread makes them:
 *   - memory_given comes after the device has given the memory and before any block lies in it. memory_taken comes
 *     after the last block in it is gone and before the device gets it back. If the device then refuses to take the
 *     memory, memory_given comes again.
 *   - With virtual memory each mapped granule is a piece of its own, and a block may span several pieces. Without
 *     virtual memory a piece is a region.
 *   - block_alloc comes before the caller gets the handle. block_free comes before the memory can be allocated again,
 *     so no byte is ever in two blocks. The blocks are those that callers hold: a block in a front cache is not one, a
 *     chunk of an arena is one.
 *   - Each committed unit of a reserved block (weir/reserve.h) is a block: a commit calls block_alloc, a decommit or
 *     the free of the reserved block calls block_free.
 *   - block_use, event, trim and capture come before the function that they report returns.
 *   - capture of WEIR_OBSERVED_CAPTURE_BEGUN comes before the blocks of the capture; of WEIR_OBSERVED_CAPTURES_GONE,
 *     before their memory can be allocated by work outside of captures.
 *
 * An observer must not call the pool. Locks held during a call:
 *     memory_given, memory_taken               no lock; no other thread takes memory from the device or returns it
 *     block_alloc, block_use, event, trim,
 *     block_sleep, block_wake                  no lock; another thread that frees or sleeps waits for the call
 *     block_free, capture                      stream locks: the observer may wait for a mutex of its own, but not for
 *                                              another thread that is inside the pool
 * Calls from within weir_pool_observe come with every lock held, calls from within weir_pool_destroy with no lock held.
 * Calls come from any thread that uses the pool, several at the same time.
 *
 * Cost: none without an observer. With an observer, no request takes the fast path through a front cache.
 */
#ifndef WEIR_OBSERVER_H
#define WEIR_OBSERVER_H

#include <weir/base.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_observed_block {
    size_t struct_size;
    uint64_t address;
    uint64_t size;       /* as requested */
    uint64_t capacity;   /* bytes from `address` on that belong to this block */
    void *native_stream; /* alloc: stream of the request; use: stream that uses the block; free: stream of the free,
                            NULL for weir_pool_free_idle */
    uint32_t stream;     /* number in the pool, from 1, of `native_stream`; 0 for a free by weir_pool_free_idle */
    weir_tag tag;        /* alloc: tag of the block; 0 = none */
    uint64_t align;      /* alloc: alignment as requested; 0 = the strategy's own */
    bool listed;         /* alloc: the block was live before the observer was attached */
    bool unit; /* a committed unit of a reserved block (weir/reserve.h): work may go on from it into the next */
} weir_observed_block;

typedef enum weir_observed_kind {
    WEIR_OBSERVED_RECORDED, /* weir_stream_recorded */
    WEIR_OBSERVED_WAITED,   /* weir_stream_waited */
    WEIR_OBSERVED_SYNCED,   /* weir_stream_synced, or weir_event_synced */
} weir_observed_kind;

typedef struct weir_observed_event {
    size_t struct_size;
    weir_observed_kind kind;
    const void *event;   /* the caller's event; NULL: the host has waited for the stream */
    void *native_stream; /* the stream that recorded the event, that waits, or that the host waited for */
    uint32_t stream;     /* number of the stream in the pool, from 1; 0: the host has waited for the event */
} weir_observed_event;

/* A capture, told by the program (weir/capture.h) or by the device. A capture that the device tells has a capture pool
 * of its own. Its end is known once its streams are used again, or the graph is gone. */
typedef enum weir_observed_capture_kind {
    WEIR_OBSERVED_CAPTURE_BEGUN,
    WEIR_OBSERVED_CAPTURE_ENDED,
    WEIR_OBSERVED_CAPTURES_GONE, /* the capture pool is released, or the device's graph is gone */
} weir_observed_capture_kind;

typedef struct weir_observed_capture {
    size_t struct_size;
    weir_observed_capture_kind kind;
    uint32_t stream; /* begun, ended: number in the pool, from 1, of the stream on which the capture began; else 0 */
    void *native_stream; /* that stream; NULL for gone */
    uint64_t captures;   /* number of the capture pool, from 1; a pool never uses it twice */
} weir_observed_capture;

/* The callbacks of an observer: a size-first struct. A callback may be NULL. */
typedef struct weir_observer_ops {
    size_t struct_size;
    void (*memory_given)(void *ctx, uint64_t address, uint64_t size);
    void (*memory_taken)(void *ctx, uint64_t address, uint64_t size);
    void (*block_alloc)(void *ctx, const weir_observed_block *block);
    void (*block_free)(void *ctx, const weir_observed_block *block);
    /* The pool is being destroyed. This is the last call: before it, block_free was called for the live blocks and
     * memory_taken for all memory. Not called in a child of fork. */
    void (*pool_gone)(void *ctx);
    void (*block_use)(void *ctx, const weir_observed_block *block); /* weir_pool_use: the block is live */
    void (*event)(void *ctx, const weir_observed_event *event);
    void (*trim)(void *ctx); /* weir_pool_trim begins */
    void (*capture)(void *ctx, const weir_observed_capture *capture);
    /* The block sleeps (weir/sleep.h): no work uses it any more, and its memory is about to be taken. Its contents have
     * been copied, where they are kept. */
    void (*block_sleep)(void *ctx, const weir_observed_block *block);
    /* The block has memory again; its contents come next. Also called for a block whose sleep has failed. */
    void (*block_wake)(void *ctx, const weir_observed_block *block);
} weir_observer_ops;

/* Attaches an observer: from now on the callbacks of `ops` are called with `ctx`. Before the function returns, they are
 * called for memory, live blocks and captures under way, in this order. `ops` is copied. A block that another thread
 * has freed on a stream that it does not feed may be reported as live, and its free later. Returns WEIR_ERR_BUSY if the
 * pool has an observer with these functions (the same tool) or with this `ctx`; WEIR_ERR_INVALID if `pool` or `ops` is
 * NULL; WEIR_ERR_NO_MEMORY if there is no host memory. Thread-safe. */
WEIR_API weir_status weir_pool_observe(weir_pool *pool, const weir_observer_ops *ops, void *ctx);

/* Detaches the observer with `ctx`, without a callback. After the function has returned, no call with `ctx` is made or
 * in progress. It must not be called from an observer's callback. Returns WEIR_ERR_INVALID if `ctx` is not an observer
 * of the pool. Thread-safe. */
WEIR_API weir_status weir_pool_unobserve(weir_pool *pool, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
