/* core/src/order/reuse.c: which freed memory a stream may use. This file alone decides it.
 *
 * Rule: memory freed on stream s may go to stream x if everything that could touch it happens before x's next
 * operation. A free leaves (stream, tick) pairs; x may use the memory if for each pair (t, k): t is x itself, or
 * clock[x][t] >= k, or done[t] >= k.
 *
 * A free stamps its stream's tick under the stream's lock; wait.c explains how events cover ticks. A block with several
 * pairs is pending until one stream is ordered after all of them.
 *
 * Cost: a take is the strategy's search, in the open lane and in the lanes that may hold memory for the stream;
 * computing limits copies 8 bytes per stream; gather is linear in ranges. No device call is made here.
 */
#include "order/take.h"

#include <string.h>

/* --- taking --- */

void weir__order_untake_locked(weir_pool *pool, weir_lane lane, const weir_range *range, weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(block == NULL || state_of(block) == BLOCK_TAKEN);
    pool->strategy->free(pool->state, block != NULL ? block_delete(pool, block) : range->token, lane, range->tick);
    weir__lane_note_early_locked(pool, lane, range->tick);
}

bool weir__order_take_locked(struct request *request, weir_lane lane, weir_tick limit)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    WEIR_ASSERT(request->block == NULL);
    const take_result result = take_from_lane(request->pool, request->stream, request->size, lane, limit, request->size,
                                              request->align, request->keeps_whole, &request->block);
    request->kept_whole |= result == TAKE_KEPT_WHOLE;
    request->broken = result == TAKE_BROKEN ? WEIR_ERR_NO_MEMORY : request->broken;
    return result == TAKE_SERVED;
}

const weir_tick *weir__order_limits_locked(weir_pool *pool, const weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(stream == NULL || stream->clock_lanes <= pool->lanes);
    weir_tick *limits = pool->limits;
    if (!pool->ordered) {
        memset(limits, 0xff, pool->lanes * sizeof(*limits)); /* WEIR_TICK_MAX in each */
        return limits;
    }
    memcpy(limits, pool->done, pool->lanes * sizeof(*limits));
    limits[WEIR_LANE_OPEN] = WEIR_TICK_MAX;
    for (size_t lane = 1; stream != NULL && lane < stream->clock_lanes; lane++) {
        limits[lane] = stream->clock[lane] > limits[lane] ? stream->clock[lane] : limits[lane];
    }
    if (stream != NULL) {
        limits[stream->lane] = WEIR_TICK_MAX;
    }
    return limits;
}

/* Returns the streams of the group, as bits, that may hold memory which the stream may take: streams that it is ordered
 * after, and streams in `missed_promotion`. All other memory at completed ticks is open to every stream. */
static uint64_t open_to(const weir_stream *stream, size_t group)
{
    const weir_pool *pool = stream->owner;
    uint64_t lanes = pool->groups[group]->missed_promotion;
    for (size_t lane = group * 64; lane < stream->clock_lanes && lane < (group + 1) * 64; lane++) {
        lanes |= (uint64_t)(stream->clock[lane] > pool->done[lane]) << lane % 64;
    }
    return lanes;
}

/* Serves the request from memory freed on streams that the request's stream is already ordered after. Pool lock
 * held. */
static bool take_ordered_locked(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_stream *stream = request->stream;
    const weir_pool *pool = request->pool;
    for (size_t group = 0; group * 64 < pool->lanes; group++) {
        for (uint64_t left = open_to(stream, group); left != 0; left &= left - 1) {
            const weir_lane lane = (weir_lane)(group * 64 + (unsigned)__builtin_ctzll(left));
            if (lane == WEIR_LANE_OPEN || lane == stream->lane || lane >= pool->lanes) {
                continue;
            }
            const weir_tick known = clock_at(stream, lane);
            const weir_tick limit = known > pool->done[lane] ? known : pool->done[lane];
            if (weir__order_take_locked(request, lane, limit)) {
                return true;
            }
        }
    }
    return false;
}

/* Opens idle memory of other streams to all streams. The asking stream's own memory stays with it: the stream can take
 * it anyway, and memory that is open to all streams does not coalesce with the stream's next frees. Pool lock held. */
static void promote_others_locked(weir_pool *pool, const weir_stream *taker)
{
    WEIR_ASSERT(pool_is_locked(pool));
    size_t lane = 0;
    while ((lane = next_lane(pool, lane + 1, lanes_completed)) != 0) {
        if (pool->streams[lane] != taker) {
            weir__order_promote_locked(pool->streams[lane]);
        }
    }
}

/* Serves the request from memory freed on other streams: memory that every stream may use (the open lane), and memory
 * of streams that the request's stream is ordered after. Pool lock held. */
static bool take_from_others(struct request *request, weir_rung *found)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    if (private_lanes(pool) || !pool->ordered) {
        return false; /* only the stream's home lane has memory for the request */
    }
    *found = WEIR_RUNG_OPEN;
    promote_others_locked(pool, request->stream);
    if (weir__order_take_locked(request, WEIR_LANE_OPEN, WEIR_TICK_MAX)) {
        return true;
    }
    *found = WEIR_RUNG_ORDERED;
    return take_ordered_locked(request);
}

bool weir__order_gather_locked(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    const weir_tick *limits = weir__order_limits_locked(pool, request->stream);
    weir_tick tick = pool->ordered ? atomic_load_explicit(&request->stream->tick, memory_order_relaxed) : 0;
    WEIR_ASSERT(pool->strategy->gather != NULL);
    bool gathered = pool->strategy->gather(pool->state, request->stream->home, tick, limits, pool->lanes, request->size,
                                           request->align, request->last_resort);
    if (gathered) {
        weir__order_freed_locked(request->stream, tick);
    }
    return gathered && weir__order_take_locked(request, request->stream->home, WEIR_TICK_MAX);
}

bool weir__order_look_locked(struct request *request, unsigned where, weir_rung *found)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    *found = WEIR_RUNG_LANE;
    if ((where & LOOK_OWN) != 0 && weir__order_take_locked(request, request->stream->home, WEIR_TICK_MAX)) {
        return true;
    }
    if ((where & LOOK_OTHERS) != 0 && take_from_others(request, found)) {
        return true;
    }
    if ((where & LOOK_GATHERED) == 0 || pool->strategy->gather == NULL) {
        return false;
    }
    const bool settled = weir__order_settle_locked(pool, request->stream);
    const bool served =
        weir__order_gather_locked(request) || (settled && weir__order_look_locked(request, LOOK_FREE, found));
    *found = WEIR_RUNG_GATHERED;
    return served;
}

/* --- freeing --- */

void weir__order_done_locked(weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    WEIR_ASSERT(!stream->owner->ordered || tick <= atomic_load_explicit(&stream->tick, memory_order_relaxed));
    weir_tick *done = &stream->owner->done[stream->lane];
    if (tick > *done) {
        *done = tick;
        weir__lane_note_locked(stream);
    }
}

void weir__order_promote_locked(weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    weir_pool *pool = stream->owner;
    stream->promoted = done_on(stream);
    stream->group->missed_promotion &= ~lane_bit(stream);
    weir__lane_note_locked(stream);
    (void)pool->strategy->promote(pool->state, stream->lane, stream->promoted);
}

void weir__order_freed_locked(weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    if (tick > stream->last_free) {
        stream->last_free = tick;
        weir__lane_note_locked(stream);
    }
}

void weir__order_give_to_all_locked(weir_block *block)
{
    weir_stream *owner = block_stream(block);
    weir_pool *pool = owner->owner;
    const weir_lane lane = private_lanes(pool) ? owner->lane : WEIR_LANE_OPEN;
    pool->strategy->free(pool->state, block_delete(pool, block), lane, 0);
}

static void drop_done(weir_pool *pool, struct block_uses *uses)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct weir_use **link = &uses->first;
    while (*link != NULL) {
        if ((*link)->tick <= done_on((*link)->stream) || !pool->ordered) {
            weir__use_remove(uses, link);
        } else {
            link = &(*link)->next;
        }
    }
}

/* True if every use on the list happens before the stream's next operation. Pool lock held. */
static bool ordered_before(const struct block_uses *uses, const weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    for (const struct weir_use *use = uses->first; use != NULL; use = use->next) {
        if (use->stream != stream && clock_at(stream, use->stream->lane) < use->tick &&
            done_on(use->stream) < use->tick) {
            return false;
        }
    }
    return true;
}

/* Gives the memory of a freed block to a stream that is ordered after all uses in the block's list, or to all streams
 * if the uses are complete. Returns false if there is no such stream yet. Pool lock held. */
static bool settle(weir_block *block, weir_stream *taker)
{
    WEIR_ASSERT(pool_is_locked(block_pool(block)));
    weir_pool *pool = block_pool(block);
    struct block_uses *uses = block_uses(block);
    drop_done(pool, uses);
    const struct weir_use *first = uses->first;
    if (first == NULL) {
        weir__order_give_to_all_locked(block);
        return true;
    }
    if (private_lanes(pool)) {
        const bool own = first->next == NULL && first->stream == block_stream(block);
        if (own) {
            give_to_lane(block, first->stream, first->tick);
        }
        return own;
    }
    if (first->next == NULL) {
        give_to_lane(block, first->stream, first->tick);
        return true;
    }
    /* If one stream of the list is ordered after all other uses, its present tick covers all of them, so the block
     * becomes memory of that stream. */
    for (const struct weir_use *use = first; use != NULL; use = use->next) {
        if (ordered_before(uses, use->stream)) {
            give_to_lane(block, use->stream, atomic_load_explicit(&use->stream->tick, memory_order_relaxed));
            return true;
        }
    }
    if (taker != NULL && ordered_before(uses, taker)) {
        give_to_lane(block, taker, atomic_load_explicit(&taker->tick, memory_order_relaxed));
        return true;
    }
    return false;
}

bool weir__order_settle_locked(weir_pool *pool, weir_stream *taker)
{
    WEIR_ASSERT(pool_is_locked(pool));
    bool moved = false;
    weir_block **link = &pool->pending;
    while (*link != NULL) {
        weir_block *block = *link;
        struct block_uses *uses = block_uses(block);
        weir_block *next = uses->next;
        WEIR_ASSERT(state_of(block) == BLOCK_PENDING);
        const uint64_t capacity = block_capacity(block);
        if (settle(block, taker)) {
            *link = next;
            WEIR_ASSERT(pool->pending_bytes >= capacity);
            pool->pending_bytes -= capacity;
            moved = true;
        } else {
            link = &uses->next;
        }
    }
    return moved;
}

/* Adds the use by the stream that frees the block to the block's list of uses. Stream lock and pool lock held. */
static void note_free(struct block_uses *uses, weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(pool_is_locked(stream->owner));
    struct weir_use **link = &uses->first;
    while (*link != NULL) {
        struct weir_use *use = *link;
        if (use->stream == stream) {
            weir__use_remove(uses, link);
            continue;
        }
        weir__order_freed_locked(use->stream, use->tick);
        link = &use->next;
    }
    weir__order_freed_locked(stream, tick);
    uses->freed = (struct weir_use){.next = uses->first, .stream = stream, .serial = stream->serial, .tick = tick};
    uses->first = &uses->freed;
}

void weir__order_free(weir_block *block, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_pool *pool = stream->owner;
    const weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    struct block_uses *uses = block_uses(block);
    pool_work(pool);
    pool->slow_frees++;
    if (!pool->ordered || uses == NULL) {
        give_block(block, stream, tick);
    } else {
        const uint64_t capacity = block_capacity(block);
        note_free(uses, stream, tick);
        if (!settle(block, NULL)) {
            block_set_word(block, BLOCK_WORD(BLOCK_PENDING) | BLOCK_USED);
            uses->next = pool->pending;
            pool->pending = block;
            pool->pending_bytes += capacity;
        }
    }
    pool_unlock(pool);
}

void weir__order_free_idle(weir_block *block)
{
    weir_pool *pool = block_pool(block);
    pool_lock(pool);
    pool->slow_frees++;
    weir__order_give_to_all_locked(block);
    pool_unlock(pool);
}
