/* weir/observer.h: an observer is told, as it happens, of a pool's memory, of the blocks in it, and of streams and
 * events. Tools that check or draw memory (bindings/mstx) and the recorder (weir/trace.h) stand on it. A pool may have
 * several observers.
 *
 * What the order of the calls promises, whatever thread makes them:
 *   - memory_given comes after the device has given the memory and before any block lies in it; memory_taken comes after
 *     the last block in it is gone and before the device gets it back. Memory that the device then refuses to take is
 *     given again.
 *   - With virtual memory each mapped granule is a piece of its own; blocks may lie across several of them. Without, a
 *     piece is a region.
 *   - block_alloc comes before the caller gets the handle. block_free comes before anybody else can get the memory, so
 *     never is one byte in two blocks. Blocks are those that callers hold: what lies in a front cache is none, and an
 *     arena's chunk is one.
 *   - block_use, event and trim come before the call that they tell of returns.
 *
 * What an observer may do. It must not call the pool. What holds during a call:
 *     memory_given, memory_taken               no lock; no other thread takes memory from the device or gives it back
 *     block_alloc, block_use, event, trim      no lock
 *     block_free                               locks of streams: it may wait for a mutex of its own, but not for
 *                                              another thread that is inside the pool
 * and all of them come with every lock held from weir_pool_observe itself, and with none from weir_pool_destroy.
 * Calls come from whichever threads use the pool, several at once.
 *
 * Cost: none without an observer. With one, no request takes the short way through a front cache.
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
    uint64_t capacity;   /* as handed out: the bytes from `address` on that are this block's */
    void *native_stream; /* alloc: that it is for; use: that uses it; free: that it is freed on, NULL when it is idle */
    uint32_t stream;     /* the number of that stream in the pool, from 1; 0 when the block is freed idle */
    weir_tag tag;        /* alloc: that it is counted under; 0 = none */
    uint64_t align;      /* alloc: as requested; 0 = the strategy's own */
    bool listed;         /* alloc: the block was live before the observation began */
} weir_observed_block;

typedef enum weir_observed_kind {
    WEIR_OBSERVED_RECORDED, /* weir_stream_recorded */
    WEIR_OBSERVED_WAITED,   /* weir_stream_waited */
    WEIR_OBSERVED_SYNCED,   /* weir_stream_synced, or weir_event_synced */
} weir_observed_kind;

typedef struct weir_observed_event {
    size_t struct_size;
    weir_observed_kind kind;
    const void *event;   /* the caller's; NULL: the host has waited for the stream */
    void *native_stream; /* that recorded, waits, or was waited for */
    uint32_t stream;     /* its number in the pool, from 1; 0: the host has waited for the event */
} weir_observed_event;

/* Size-first; a slot that is NULL is not told. */
typedef struct weir_observer_ops {
    size_t struct_size;
    void (*memory_given)(void *ctx, uint64_t address, uint64_t size);
    void (*memory_taken)(void *ctx, uint64_t address, uint64_t size);
    void (*block_alloc)(void *ctx, const weir_observed_block *block);
    void (*block_free)(void *ctx, const weir_observed_block *block);
    /* The pool is being destroyed: the last call. Blocks that were live have been freed and all memory taken, by calls.
     * In a child of fork no call comes. */
    void (*pool_gone)(void *ctx);
    void (*block_use)(void *ctx, const weir_observed_block *block); /* weir_pool_use: the block is live */
    void (*event)(void *ctx, const weir_observed_event *event);
    void (*trim)(void *ctx); /* weir_pool_trim begins */
} weir_observer_ops;

/* From now on `ctx` is told; memory and live blocks that there are already are told before it returns, memory first.
 * `ops` is copied. A block that another thread has freed on a stream that it does not feed may be told as live, and its
 * free later. WEIR_ERR_BUSY: the pool has an observer with these functions, which is the same tool, or with this `ctx`.
 * WEIR_ERR_INVALID: NULL pool or ops. WEIR_ERR_NO_MEMORY. Thread-safe. */
WEIR_API weir_status weir_pool_observe(weir_pool *pool, const weir_observer_ops *ops, void *ctx);

/* Ends that; nothing is told for it. Once it has returned no call with `ctx` comes and none is under way.
 * WEIR_ERR_INVALID: `ctx` is no observer of the pool. Not from a call of an observer. Thread-safe. */
WEIR_API weir_status weir_pool_unobserve(weir_pool *pool, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
