/* core/src/order/flush.c: empties front caches and remote free lists. Blocks in them cannot coalesce with their
 * neighbours.
 *
 * Cost: linear in the blocks moved; a flush of all streams visits every stream.
 */
#include "order/take.h"

#include "base/tuning.h"

static weir_stream *stream_at(weir_pool *pool, size_t lane)
{
    pool_lock(pool);
    weir_stream *stream = lane < pool->lanes ? pool->streams[lane] : NULL;
    pool_unlock(pool);
    return stream;
}

/* Moves the cached blocks of size class `least` and above to the strategy. Stream lock and pool lock held. */
static bool flush_slots(weir_stream *stream, unsigned least)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(pool_is_locked(stream->owner));
    WEIR_ASSERT(least < FRONT_BINS);
    struct front_cache *front = &stream->front;
    const weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    const uint64_t bytes = front->bytes;
    for (unsigned word = least / 64; word < FRONT_WORDS; word++) {
        const uint64_t mask = word == least / 64 ? UINT64_MAX << least % 64 : UINT64_MAX;
        while ((front->held[word] & mask) != 0) {
            const unsigned bin = word * 64 + (unsigned)__builtin_ctzll(front->held[word] & mask);
            give_block(front_pop_at(front, bin), stream, tick);
        }
    }
    return front->bytes != bytes;
}

void weir__order_flush_large_locked(weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(pool_is_locked(stream->owner));
    struct front_cache *front = &stream->front;
    const weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    for (uint32_t i = 0; i < front->large_count; i++) {
        weir_block *block = front_large_in_turn(stream->owner, front, i);
        WEIR_ASSERT(state_of(block) == BLOCK_CACHED);
        give_block(block, stream, tick);
    }
    __atomic_store_n(&front->large_count, 0, __ATOMIC_RELAXED);
}

void weir__order_flush_cache_locked(weir_stream *stream)
{
    weir__order_flush_large_locked(stream);
    (void)flush_slots(stream, 0);
}

bool weir__order_take_in_locked(weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    bool any = weir__remote_frees_clear(pool, stream);
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
    WEIR_ASSERT(stream_is_locked(stream));
    const bool any = weir__order_take_in_locked(pool, stream);
    if (stream->front.bytes == 0) {
        return any;
    }
    pool_lock(pool);
    (void)flush_slots(stream, 0);
    pool_unlock(pool);
    return true;
}

/* Returns the size class of blocks with 1/2^shift of the reserved bytes. Pool lock held. */
static unsigned bin_of_share(const weir_pool *pool, unsigned shift)
{
    const uint64_t granules = pool->held.bytes >> pool->granule_shift >> shift;
    return front_bin(granules < FRONT_GRANULES ? granules : FRONT_GRANULES);
}

bool weir__order_flush_to_join(weir_stream *stream)
{
    WEIR_ASSERT(outside_stream_lock(stream));
    weir_pool *pool = stream->owner;
    stream_visit(stream);
    bool moved = weir__order_take_in_locked(pool, stream);
    pool_lock(pool);
    moved |= flush_slots(stream, bin_of_share(pool, kept_small_shift));
    pool_unlock(pool);
    stream_unlock(stream);
    return moved;
}

bool weir__order_flush(weir_stream *stream)
{
    WEIR_ASSERT(outside_stream_lock(stream));
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
