/* core/src/order/take.h: takes a free range from a lane (the free memory of one stream), and frees blocks to lanes.
 * Inline, because a miss of the front cache consists of little else. reuse.c decides which lanes a stream may take
 * from, and which lane a freed block enters. */
#ifndef WEIR_CORE_ORDER_TAKE_H
#define WEIR_CORE_ORDER_TAKE_H

#include "order/order.h"
#include "shared/round_up.h"

typedef enum take_result {
    TAKE_SERVED,
    TAKE_NONE,       /* there is no free range that is large enough */
    TAKE_KEPT_WHOLE, /* the range found would split a much larger idle region; it was freed again */
    TAKE_BROKEN,     /* no host memory */
} take_result;

static inline bool private_lanes(const weir_pool *pool)
{
    return (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0;
}

/* Takes a range of `size` bytes from the lane (the free memory of one stream) and makes it a block for a request of
 * `requested` bytes on `stream`. With `keep_whole`, does not split idle regions that are much larger
 * (weir__mark_keeps_whole). Pool lock held. */
static inline take_result take_from_lane(weir_pool *pool, weir_stream *stream, uint64_t requested, weir_lane lane,
                                         weir_tick limit, uint64_t size, uint64_t align, bool keep_whole,
                                         weir_block **out)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(lane < pool->lanes);
    WEIR_ASSERT(size != 0 && is_power_of_two(align));
    weir_range range;
    range.idle_bytes = 0;
    const weir_status status = pool->strategy->alloc(pool->state, lane, limit, size, align, &range);
    if (UNLIKELY(status != WEIR_OK)) {
        return status == WEIR_ERR_NO_MEMORY ? TAKE_NONE : TAKE_BROKEN;
    }
    if (keep_whole && weir__mark_keeps_whole(&pool->held.mark, range.idle_bytes, size)) {
        weir__order_untake_locked(pool, lane, &range, NULL);
        return TAKE_KEPT_WHOLE;
    }
    WEIR_ASSERT(range.size >= size && (range.address & (align - 1)) == 0);
    weir_block *block = block_new(pool, stream, requested, &range);
    /* A strategy with private lanes reuses a block only on the block's own stream. A free on another stream puts the
     * block on the pending list, and that must not fail for lack of host memory. So the list node is allocated here. */
    if (UNLIKELY(block == NULL || (private_lanes(pool) && weir__block_add_uses(block) == NULL))) {
        weir__order_untake_locked(pool, lane, &range, block);
        return TAKE_BROKEN;
    }
    *out = block;
    return TAKE_SERVED;
}

/* Serves a request of `size` bytes, rounded up to `rounded`, from the stream's own free memory after a front-cache
 * miss. `large`: the request is above the size classes of the front cache. Returns a live block, or NULL if there is no
 * such memory. Stream lock held, pool lock not held. */
static inline weir_block *take_from_own_lane(weir_stream *stream, uint64_t size, bool large, uint64_t rounded,
                                             uint64_t align)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_pool *pool = stream->owner;
    pool_work(pool);
    if (stream->front.large_count > 0 && (large || pool->front.large_keys == 0)) {
        /* The freed large blocks in the front cache may coalesce into a range that holds the request. */
        weir__order_flush_large_locked(stream);
    }
    weir_block *block = NULL;
    if (LIKELY(take_from_lane(pool, stream, size, stream->home, WEIR_TICK_MAX, rounded, align, true, &block) ==
               TAKE_SERVED)) {
        begin_block(stream, block, size);
        pool->counts.served[WEIR_RUNG_LANE]++;
    }
    pool_unlock(pool);
    return block;
}

/* The same as weir__order_flush_large_locked, for a plain pool (struct weir_pool), where a block consists of its record
 * alone. core/TRIALS.md has the instructions that this function and take_plainly save. Stream lock and pool lock
 * held. */
static inline void flush_large_plainly(weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream) && pool_is_locked(pool) && is_plain(pool));
    struct front_cache *front = &stream->front;
    const weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    if (front->large_count == 0) {
        return;
    }
    if (UNLIKELY(tick > stream->last_free) && pool->ordered) {
        weir__order_freed_locked(stream, tick);
    }
    WEIR_ASSERT(pool->blocks.count >= front->large_count);
    pool->blocks.count -= front->large_count;
    for (uint32_t i = 0; i < front->large_count; i++) {
        weir_block *block = front_large_in_turn(pool, front, i);
        WEIR_ASSERT(state_word(block) == BLOCK_WORD(BLOCK_CACHED));
        block_set_state(block, BLOCK_UNUSED);
        pool->strategy->free(pool->state, block, stream->home, stream->last_free);
    }
    __atomic_store_n(&front->large_count, 0, __ATOMIC_RELAXED);
}

/* Does the same as take_from_own_lane in the common case: a plain pool (weir_pool.plain), no alignment above the
 * granule, and a thread that owns the pool's lock. Returns NULL also if the case is another one. Sets *searched if it
 * has searched the lane in vain. */
static inline weir_block *take_plainly(weir_pool *pool, weir_stream *stream, uint64_t size, bool large,
                                       uint64_t rounded, bool *searched)
{
    WEIR_ASSERT(stream_is_locked(stream));
    struct lock_seat *seat;
    WEIR_ASSERT(outside_pool_lock(pool));
    if (UNLIKELY(!stream_lock_try(&pool->lock, &seat))) {
        return NULL;
    }
    const bool plain = is_plain(pool);
    if ((large || pool->front.large_keys == 0) && plain) {
        flush_large_plainly(pool, stream);
    }
    weir_range range;
    weir_block *block = NULL;
    range.idle_bytes = 0;
    if (UNLIKELY(!plain)) {
        /* The general way goes on. */
    } else if (UNLIKELY(pool->strategy->alloc(pool->state, stream->home, WEIR_TICK_MAX, rounded,
                                              pool->strategy->granule_bytes, &range) != WEIR_OK)) {
        *searched = true;
    } else if (weir__mark_keeps_whole(&pool->held.mark, range.idle_bytes, rounded) ||
               (WEIR_CHECKS >= 1 && !weir__block_enter_locked(pool, (weir_block *)range.token))) {
        weir__order_untake_locked(pool, stream->home, &range, NULL);
        *searched = true;
    } else {
        WEIR_ASSERT(range.size >= rounded);
        WEIR_ASSERT(atomic_load_explicit(&pool->blocks.index, memory_order_relaxed) == NULL);
        block = (weir_block *)range.token;
        pool->blocks.count++;
        pool->counts.served[WEIR_RUNG_LANE]++;
        make_live(stream, block, size);
    }
    stream_lock_release_own(&pool->lock);
    return block;
}

/* Frees a block as memory of the stream, which may use it at once. Other streams may when the stream's work up to
 * `tick`, or up to a later tick of its frees, is complete. Pool lock held. */
static inline void give_to_lane(weir_block *block, weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    weir_pool *pool = stream->owner;
    if (UNLIKELY(tick > stream->last_free)) {
        weir__order_freed_locked(stream, tick);
    }
    pool->strategy->free(pool->state, block_delete(pool, block), stream->lane, stream->last_free);
}

/* Frees a block that only `stream` uses. The strategy gets the memory, stamped with the tick of the free. Pool lock
 * held. */
static inline void give_block(weir_block *block, weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(block_pool(block) == stream->owner);
    if (LIKELY(stream->owner->ordered)) {
        give_to_lane(block, stream, tick);
    } else {
        weir__order_give_to_all_locked(block);
    }
}

#endif
