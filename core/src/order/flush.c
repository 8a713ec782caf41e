/* core/src/order/flush.c: emptying front caches and inboxes. Blocks that lie there cannot merge with their neighbours.
 *
 * Cost: linear in the blocks that lie there; flushing all visits every stream.
 */
#include "order.h"

/* NULL: no stream has that number. */
static weir_stream *stream_at(weir_pool *pool, size_t lane)
{
    pool_lock(pool);
    weir_stream *stream = lane < pool->lanes ? pool->streams[lane] : NULL;
    pool_unlock(pool);
    return stream;
}

bool weir__order_flush_locked(weir_pool *pool, weir_stream *stream)
{
    const bool came_in = weir__inbox_clear(pool, stream);
    if (stream->cached_bytes == 0) {
        return came_in;
    }
    weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    pool_lock(pool);
    for (size_t i = 0; i < FRONT_SLOTS; i++) {
        struct front_slot *slot = &stream->front[i];
        while (slot->count > 0) {
            weir_block *block = slot->blocks[--slot->count];
            weir__order_give_locked(block, stream, tick);
        }
    }
    pool_unlock(pool);
    stream->cached_bytes = 0;
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
