/* core/src/state/locks.h: the locks of streams and pools.
 *
 * One lock per stream (stream_lock.h: held for a few instructions, or around a device call that does not block), and
 * one per pool (of the same kind). Order: stream, then pool. A thread never holds two streams' locks, except in
 * weir__pool_lock_all, which takes them by lane. No thread holds any of these locks during a device call that can
 * block.
 */
#ifndef WEIR_CORE_STATE_LOCKS_H
#define WEIR_CORE_STATE_LOCKS_H

#include "state/pool.h"

/* --- conditions for assertions about locks: always true in a single-threaded pool, which does not lock --- */

static inline bool stream_is_locked(const weir_stream *stream)
{
    return stream->lock.off || stream_lock_is_mine(&stream->lock);
}

static inline bool pool_is_locked(const weir_pool *pool)
{
    return pool->lock.off || stream_lock_is_mine(&pool->lock);
}

static inline bool outside_stream_lock(const weir_stream *stream)
{
    return stream->lock.off || !stream_lock_is_mine(&stream->lock);
}

static inline bool outside_pool_lock(const weir_pool *pool)
{
    return pool->lock.off || !stream_lock_is_mine(&pool->lock);
}

/* --- locks (inline, because the fast path uses the first two functions) --- */

/* Takes the stream's lock for an alloc or a free on the stream. The calling thread may become the lock's owner. */
static inline void stream_lock(weir_stream *stream)
{
    WEIR_ASSERT(outside_stream_lock(stream));
    WEIR_ASSERT(outside_pool_lock(stream->owner));
    struct lock_seat *seat;
    if (!stream_lock_try(&stream->lock, &seat)) {
        weir__stream_lock_slow(&stream->lock, &stream->counters.frees, true);
    }
}

/* Takes the stream's lock for any purpose but an alloc or a free. The calling thread does not become the owner, so the
 * lock stays cheap for the thread that feeds the stream. */
static inline void stream_visit(weir_stream *stream)
{
    WEIR_ASSERT(outside_stream_lock(stream));
    WEIR_ASSERT(outside_pool_lock(stream->owner));
    struct lock_seat *seat;
    if (!stream_lock_try(&stream->lock, &seat)) {
        weir__stream_lock_slow(&stream->lock, &stream->counters.frees, false);
    }
}

static inline void stream_unlock(weir_stream *stream)
{
    stream_lock_release(&stream->lock);
}

/* Take the pool's lock: pool_work for allocs and frees (the calling thread may become the owner), pool_lock for any
 * other purpose (it does not). */
static inline void pool_work(weir_pool *pool)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    struct lock_seat *seat;
    if (!stream_lock_try(&pool->lock, &seat)) {
        weir__stream_lock_slow(&pool->lock, &pool->slow_frees, true);
    }
}

static inline void pool_lock(weir_pool *pool)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    struct lock_seat *seat;
    if (!stream_lock_try(&pool->lock, &seat)) {
        weir__stream_lock_slow(&pool->lock, &pool->slow_frees, false);
    }
}

static inline void pool_unlock(weir_pool *pool)
{
    stream_lock_release(&pool->lock);
}

#endif
