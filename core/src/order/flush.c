/* core/src/order/flush.c: emptying front caches and inboxes. Blocks that lie there cannot merge with their neighbours.
 *
 * Cost: linear in the blocks that lie there; flushing all visits every stream.
 */
#include "order/order.h"
#include "pool/front_cache.h"

/* NULL: no stream has that number. */
static weir_stream *stream_at(weir_pool *pool, size_t lane)
{
    pool_lock(pool);
    weir_stream *stream = lane < pool->lanes ? pool->streams[lane] : NULL;
    pool_unlock(pool);
    return stream;
}

/* Both locks held. */
static void flush_slots(weir_stream *stream, weir_tick tick)
{
    struct front_cache *front = &stream->front;
    for (unsigned word = 0; word < FRONT_WORDS; word++) {
        while (front->held[word] != 0) {
            const unsigned bin = word * 64 + (unsigned)__builtin_ctzll(front->held[word]);
            weir__order_give_locked(front_pop_at(front, bin), stream, tick);
        }
    }
}

void weir__order_flush_large_locked(weir_stream *stream)
{
    struct front_cache *front = &stream->front;
    const weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    while (front->large_count > 0) {
        weir__order_give_locked(front_take_large(front, front->large_count - 1), stream, tick);
    }
}

bool weir__order_take_in_locked(weir_pool *pool, weir_stream *stream)
{
    bool any = weir__inbox_clear(pool, stream);
    if (stream->front.last_key != FRONT_EMPTY) {
        front_unload(stream);
        any = true;
    }
    if (stream->front.large_count > 0) {
        pool_lock(pool);
        weir__order_flush_large_locked(stream);
        pool_unlock(pool);
        any = true;
    }
    return any;
}

bool weir__order_flush_locked(weir_pool *pool, weir_stream *stream)
{
    const bool any = weir__order_take_in_locked(pool, stream);
    if (stream->front.bytes == 0) {
        return any;
    }
    pool_lock(pool);
    flush_slots(stream, atomic_load_explicit(&stream->tick, memory_order_relaxed));
    pool_unlock(pool);
    return true;
}

bool weir__order_flush(weir_stream *stream)
{
    stream_visit(stream);
    const bool moved = weir__order_flush_locked(stream->owner, stream);
    stream_unlock(stream);
    return moved;
}

bool weir__order_flush_all(weir_pool *pool)
{
    bool moved = false;
    weir_stream *stream;
    for (size_t lane = 1; (stream = stream_at(pool, lane)) != NULL; lane++) {
        moved |= weir__order_flush(stream);
    }
    return moved;
}
