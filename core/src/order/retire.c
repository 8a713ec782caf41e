/* core/src/order/retire.c: ends streams, and the stand-ins of streams whose captured graph has been destroyed.
 *
 * Guarantee: when a stream ends, its work is complete, so every stream may have its memory. The memory of a graph is in
 * use by the graph's stand-ins (state/stream.h), which end with the graph and never before.
 *
 * Cost: linear in the blocks of the stream's front cache and in the pending blocks; collecting visits each graph.
 */
#include "order/order.h"

#include <stdlib.h>
#include <string.h>

/* --- streams --- */

/* Retires a stream after its work is complete: its memory moves to the open lane, the memory of all streams. No more
 * work is queued on a stream that is being retired, so frees that other threads stamped during the wait are complete as
 * well. If their memory stayed in the lane, it would be unusable until another stream reuses the lane. Stream lock and
 * pool lock held. */
static void end_locked(weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(!stream->retired && stream->pool == pool);
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(pool_is_locked(pool));
    weir__order_done_locked(stream, atomic_fetch_add_explicit(&stream->tick, 1, memory_order_relaxed));
    stream->retired = true;
    if (!is_stand_in(stream)) {
        (void)weir__number_map_take(&pool->natives, (uint64_t)(uintptr_t)stream->native);
    }
    weir__lane_note_locked(stream);
    stream->pool = NULL;
    stream->quick = NULL;
    atomic_store_explicit(&stream->stand_in, NULL, memory_order_relaxed);
    atomic_store_explicit(&stream->told, false, memory_order_relaxed);
    weir__stream_set_front(stream, 0);
    stream->native = NULL;
    if (stream->clock_lanes > 0) {
        memset(stream->clock, 0, stream->clock_lanes * sizeof(*stream->clock));
    }
    stream->as.captures = NULL;
    (void)weir__order_settle_locked(pool, NULL);
    if ((pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) == 0) {
        weir__order_promote_locked(stream);
    }
}

void weir__order_retire(weir_stream *stream)
{
    weir_pool *pool = stream->owner;
    WEIR_ASSERT(outside_stream_lock(stream));
    stream_visit(stream);
    (void)weir__order_flush_locked(pool, stream); /* other threads may have freed blocks on the stream meanwhile */
    weir_event *event = stream->probe.event;
    stream->probe = (struct probe){0};
    pool_lock(pool);
    end_locked(pool, stream);
    pool_unlock(pool);
    stream_unlock(stream);
    if (event != NULL) {
        weir__order_drop_event(pool, event);
    }
}

/* --- graphs --- */

void weir__order_leave_capture(weir_stream *stand_in)
{
    WEIR_ASSERT(pool_is_locked(stand_in->owner) && is_stand_in(stand_in));
    weir_stream *stream = stand_in->as.of;
    if (is_standing(stand_in)) {
        atomic_store_explicit(&stream->stand_in, NULL, memory_order_relaxed);
        atomic_store_explicit(&stream->told, false, memory_order_relaxed);
        if (!stream->owner->asks && atomic_load_explicit(&stream->borrows, memory_order_relaxed) == NULL) {
            stream->quick = stream->pool;
        }
    }
}

/* Reports that a graph which the device has told is gone, and first the end of its capture, if no call has met it. */
static void tell_gone(const struct weir_capture_pool *captures)
{
    WEIR_ASSERT(captures->graph != 0);
    if (captures->open) {
        pool_lock(captures->pool);
        const weir_observed_capture ended = weir__observed_capture(captures, WEIR_OBSERVED_CAPTURE_ENDED);
        pool_unlock(captures->pool);
        weir__watch_capture(captures->pool, &ended);
    }
    const weir_observed_capture gone = weir__observed_capture(captures, WEIR_OBSERVED_CAPTURES_GONE);
    weir__watch_capture(captures->pool, &gone);
}

void weir__order_end_captures(struct weir_capture_pool *captures)
{
    weir_pool *pool = captures->pool;
    WEIR_ASSERT(outside_pool_lock(pool));
    if (captures->graph != 0 && captures->begun > 0) {
        tell_gone(captures);
    }
    while (captures->first != NULL) {
        weir_stream *stand_in = captures->first;
        captures->first = stand_in->as.next;
        pool_lock(pool);
        weir__order_leave_capture(stand_in);
        pool_unlock(pool);
        weir__order_retire(stand_in);
    }
    if (captures->watch != NULL) {
        weir__graph_watch_release(captures->watch);
    }
    free(captures);
}

void weir__graph_watch_release(struct graph_watch *watch)
{
    if (atomic_fetch_sub_explicit(&watch->holders, 1, memory_order_acq_rel) == 1) {
        free(watch);
    }
}

bool weir__order_is_quiet_locked(const weir_stream *stand_in)
{
    const weir_pool *pool = stand_in->owner;
    WEIR_ASSERT(pool_is_locked(pool));
    for (size_t lane = 1; lane < stand_in->clock_lanes; lane++) {
        const weir_stream *stream = pool->streams[lane];
        const weir_tick known = stand_in->clock[lane];
        const weir_tick least = known < stream->last_free ? known : stream->last_free;
        if (!is_stand_in(stream) && !stream->retired && least > pool->done[lane]) {
            return false;
        }
    }
    return true;
}

static bool is_over(const struct weir_capture_pool *captures)
{
    WEIR_ASSERT(pool_is_locked(captures->pool));
    bool over = captures->released ||
                (captures->watch != NULL && atomic_load_explicit(&captures->watch->gone, memory_order_acquire));
    for (const weir_stream *stand_in = captures->first; over && stand_in != NULL; stand_in = stand_in->as.next) {
        over = weir__order_is_quiet_locked(stand_in);
    }
    return over;
}

/* Takes captures whose graphs have been destroyed, and whose memory is idle, off the pool's list. Returns NULL if there
 * are none. Pool lock held. */
static struct weir_capture_pool *take_over(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct weir_capture_pool **link = &pool->captures;
    while (*link != NULL && !is_over(*link)) {
        link = &(*link)->next;
    }
    struct weir_capture_pool *over = *link;
    if (over != NULL) {
        *link = over->next;
    }
    return over;
}

bool weir__order_collect_graphs(weir_pool *pool)
{
    bool any = false;
    struct weir_capture_pool *over;
    do {
        pool_lock(pool);
        over = pool->captures != NULL ? take_over(pool) : NULL;
        pool_unlock(pool);
        if (over != NULL) {
            weir__order_end_captures(over);
            any = true;
        }
    } while (over != NULL);
    return any;
}
