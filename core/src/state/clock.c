/* core/src/state/clock.c: a stream's vector clock, the sets of streams that a request has to ask, and the error
 * messages for foreign streams and tags.
 *
 * Guarantee: a clock only rises. If there is no host memory, a clock misses knowledge; then memory is reused later,
 * never too early. A stream is in a set for as long as it has a reason to be in the set. It may stay longer, which
 * costs one unneeded check.
 */
#include "state/clock.h"
#include "state/front_cache.h"

#include <stdlib.h>
#include <string.h>

static bool clock_reserve(weir_stream *stream, size_t lanes)
{
    if (lanes <= stream->clock_lanes) {
        return true;
    }
    weir_tick *clock = realloc(stream->clock, lanes * sizeof(*clock));
    if (clock == NULL) {
        return false;
    }
    memset(clock + stream->clock_lanes, 0, (lanes - stream->clock_lanes) * sizeof(*clock));
    stream->clock = clock;
    stream->clock_lanes = lanes;
    return true;
}

bool weir__clock_raise_locked(weir_stream *stream, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    if (!clock_reserve(stream, (size_t)lane + 1)) {
        return false;
    }
    WEIR_ASSERT(lane < stream->clock_lanes);
    if (tick > stream->clock[lane]) {
        stream->clock[lane] = tick;
    }
    return true;
}

/* --- sets of streams --- */

static void put_in_set(uint64_t *set, weir_lane lane, bool in)
{
    const uint64_t bit = UINT64_C(1) << lane % 64;
    *set = in ? *set | bit : *set & ~bit;
}

/* A thread that frees a block remotely pushes it onto the remote free list and then reads the stream's bit in
 * `waiting`. This function clears the bit and then reads the list. All four accesses are sequentially consistent, so at
 * least one of the two threads sees the other's write. */
void weir__lane_rest(weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(stream_is_locked(stream) && stream->front.large_count == 0);
    if (!is_waiting(stream)) {
        return;
    }
    stream->front.waits = false;
    (void)atomic_fetch_and_explicit(&stream->group->waiting, ~lane_bit(stream), memory_order_seq_cst);
    weir__stream_set_front(stream, front_block_bytes(stream));
    if (atomic_load_explicit(&stream->remote_frees, memory_order_seq_cst) != NULL ||
        atomic_load_explicit(&stream->returned, memory_order_relaxed) != NULL) {
        mark_waiting(stream);
    }
}

void weir__stream_set_front(weir_stream *stream, uint64_t block_bytes)
{
    const uint64_t small = (uint64_t)FRONT_SMALL_LEAST << stream->owner->granule_shift;
    const uint64_t full = stream->tag == 0 ? block_bytes : 0;
    atomic_store_explicit(&stream->front_block_bytes, block_bytes, memory_order_relaxed);
    stream->front.last_limit_waiting = full;
    stream->front.last_limit = full < small || is_waiting(stream) ? full : small;
}

void weir__lane_note_locked(weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    WEIR_ASSERT(stream->promoted <= done_on(stream));
    const weir_pool *pool = stream->owner;
    struct lane_group *group = stream->group;
    const weir_tick done = done_on(stream);
    put_in_set(&group->unfinished, stream->lane,
               pool->ordered && stream->last_free > done && !stream->retired && !is_stand_in(stream));
    put_in_set(&group->completed, stream->lane, stream->promoted < done);
    put_in_set(&group->retired, stream->lane, stream->retired);
}

void weir__lane_note_early_locked(weir_pool *pool, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(pool));
    if (lane != WEIR_LANE_OPEN && lane < pool->lanes && tick <= pool->done[lane]) {
        put_in_set(&pool->groups[lane / 64]->missed_promotion, lane, true);
    }
}

/* --- refusals --- */

weir_status weir__refuse_stream(const char *function, const weir_pool *pool, const weir_stream *stream)
{
    if (pool == NULL || stream == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function, pool == NULL ? "pool" : "stream");
    }
    return weir_refuse(WEIR_ERR_INVALID, "%s: the stream %s", function,
                       stream->owner == pool ? "has been retired" : "is of another pool");
}

weir_status weir__refuse_tag(const char *function, const weir_pool *pool, weir_tag tag)
{
    return pool == NULL ? weir_refuse(WEIR_ERR_INVALID, "%s: pool is NULL", function)
                        : weir_refuse(WEIR_ERR_INVALID, "%s: tag %u is none of the pool's %u", function, (unsigned)tag,
                                      (unsigned)atomic_load_explicit(&pool->tag_count, memory_order_acquire));
}
