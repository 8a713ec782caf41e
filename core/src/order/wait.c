/* core/src/order/wait.c: learns which work has completed: polling, waiting on the host, waiting on the device, marks,
 * and the pool's own events.
 *
 * How events cover ticks. The thread that records an event on a stream raises the stream's tick first, under the same
 * lock under which frees are stamped. So an event that covers tick k is recorded after every free stamped k or lower,
 * and after the work that the caller had queued before that free. No event is recorded per free; one event covers all
 * ticks before it.
 *
 * Cost: a poll visits the streams that may have unfinished memory or frees without a tick. For each stream with
 * unfinished memory it makes two cheap device calls that do not wait. Each wait is one device call, made without a
 * lock.
 */
#include "order/order.h"

#include <stdlib.h>

/* --- the pool's events --- */

/* Makes room in kept.events for one event more. Returns false when out of host memory. Pool lock held. */
static bool reserve_event(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    if (pool->kept.made == pool->kept.room) {
        const size_t room = pool->kept.room != 0 ? 2 * pool->kept.room : 16;
        weir_event **larger = realloc(pool->kept.events, room * sizeof(*larger));
        if (larger == NULL) {
            return false;
        }
        pool->kept.events = larger;
        pool->kept.room = room;
    }
    pool->kept.made++;
    return true;
}

/* Obtains an event: a kept one that the device would not destroy, or a new one. Each failure of the device is added to
 * *failed. A stream's lock is held. */
static weir_status obtain_event(weir_pool *pool, weir_event **event, uint64_t *failed)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    pool_lock(pool);
    const bool kept = pool->kept.count != 0;
    if (kept) {
        *event = pool->kept.events[--pool->kept.count];
    }
    const bool has_room = kept || reserve_event(pool);
    pool_unlock(pool);
    if (kept || !has_room) {
        return kept ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = weir_device_event_create(pool->device, event);
    if (status != WEIR_OK) {
        (*failed)++;
        pool_lock(pool);
        pool->kept.made--;
        pool_unlock(pool);
    }
    return status;
}

/* Keeps an event that the device refused to destroy, for reuse or a later try. kept.events has room for every event
 * that exists. Pool lock held. */
static void keep_event(weir_pool *pool, weir_event *event)
{
    WEIR_ASSERT(pool->kept.count < pool->kept.made && pool->kept.made <= pool->kept.room);
    WEIR_ASSERT(pool_is_locked(pool));
    pool->kept.events[pool->kept.count++] = event;
}

void weir__order_drop_events(weir_pool *pool)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    weir_status status = WEIR_OK;
    pool_lock(pool);
    while (status == WEIR_OK && pool->kept.count != 0) {
        weir_event *event = pool->kept.events[--pool->kept.count];
        pool_unlock(pool);
        status = weir_device_event_destroy(pool->device, event);
        pool_lock(pool);
        if (status == WEIR_OK) {
            pool->kept.made--;
        } else {
            pool->counts.device_failures++;
            keep_event(pool, event);
        }
    }
    pool_unlock(pool);
}

void weir__order_drop_event(weir_pool *pool, weir_event *event)
{
    WEIR_ASSERT(event != NULL);
    pool_lock(pool);
    keep_event(pool, event);
    pool_unlock(pool);
    weir__order_drop_events(pool);
}

/* --- polling --- */

/* True if the stream is being captured: an event on it would become part of the graph, and a wait of it or for it would
 * break the capture. */
static bool is_captured(const weir_stream *stream)
{
    uint64_t capture = 0;
    if (atomic_load_explicit(&stream->told, memory_order_relaxed)) {
        return true; /* also before the runtime's own begin */
    }
    (void)!weir_device_stream_capture(stream->owner->device, stream->native, &capture, NULL, NULL);
    return capture != 0;
}

/* Records an event that covers every free on the stream so far. *covered receives the highest tick covered. Each
 * failure of the device is added to *failed. Returns WEIR_ERR_BUSY if the stream is being captured. Stream lock held,
 * and the stream is not retired. */
static weir_status record_probe(weir_stream *stream, weir_tick *covered, uint64_t *failed)
{
    WEIR_ASSERT(stream->pool != NULL);
    WEIR_ASSERT(outside_pool_lock(stream->owner));
    WEIR_ASSERT(stream_is_locked(stream));
    weir_device *device = stream->owner->device;
    weir_status status = WEIR_OK;
    if (is_stand_in(stream) || is_captured(stream)) {
        return WEIR_ERR_BUSY;
    }
    (void)weir__order_take_in_locked(stream->owner, stream);
    if (stream->probe.event == NULL) {
        status = obtain_event(stream->owner, &stream->probe.event, failed);
    }
    if (status == WEIR_OK) {
        weir_tick tick = atomic_fetch_add_explicit(&stream->tick, 1, memory_order_relaxed);
        stream->probe.in_flight = false;
        status = weir_device_event_record(device, stream->probe.event, stream->native);
        if (status == WEIR_OK) {
            stream->probe.tick = tick;
            stream->probe.in_flight = true;
            *covered = tick;
        }
        *failed += status != WEIR_OK;
    }
    return status;
}

void weir__order_leave_event(weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_pool *pool = stream->owner;
    weir_tick covered = 0;
    uint64_t failed = 0;
    const bool recorded = record_probe(stream, &covered, &failed) == WEIR_OK;
    pool_lock(pool);
    pool->counts.events += recorded;
    pool->counts.device_failures += failed;
    pool_unlock(pool);
}

/* Returns the highest tick of the stream known to be complete, or 0. Records a new event (the probe) if none is pending
 * and memory was freed after the completed ticks. Stream lock held. */
static weir_tick query_probe(weir_stream *stream, weir_tick last_free, uint64_t *recorded, uint64_t *failed)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_tick finished = 0;
    weir_status status = WEIR_OK;
    if (stream->pool == NULL) {
        return 0; /* another thread has retired the stream meanwhile, and waited for it */
    }
    for (int round = 0; round < 2 && status == WEIR_OK; round++) {
        bool complete = false;
        if (!stream->probe.in_flight) {
            weir_tick covered = 0;
            if (last_free <= finished) {
                break;
            }
            status = record_probe(stream, &covered, failed);
            *recorded += status == WEIR_OK;
        }
        if (status == WEIR_OK) {
            WEIR_ASSERT(stream->probe.event != NULL);
            status = weir_device_event_query(stream->owner->device, stream->probe.event, &complete);
            *failed += status != WEIR_OK;
        }
        if (status != WEIR_OK || !complete) {
            break;
        }
        stream->probe.in_flight = false;
        finished = stream->probe.tick;
    }
    return finished;
}

/* Returns the latest tick at which memory of the stream was freed, or 0 if the host has seen that tick complete. Pool
 * lock held. */
static weir_tick unfinished_tick(const weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    const bool waits = stream->owner->ordered && stream->last_free > done_on(stream);
    return waits && !stream->retired && !is_stand_in(stream) ? stream->last_free : 0;
}

/* Gives frees without a tick the stream's tick, because their work may be unfinished as well, and updates *unfinished.
 * Returns true if there were any. Stream lock held. */
static bool take_in(weir_pool *pool, weir_stream *stream, weir_tick *unfinished)
{
    WEIR_ASSERT(stream_is_locked(stream));
    const bool any = weir__order_take_in_locked(pool, stream);
    if (any) {
        pool_lock(pool);
        *unfinished = unfinished_tick(stream);
        pool_unlock(pool);
    }
    return any;
}

/* Asks the device if the stream's work up to tick `unfinished` is complete. Returns true if memory may be free now. */
static bool poll_stream(weir_pool *pool, weir_stream *stream, weir_tick unfinished)
{
    WEIR_ASSERT(stream->owner == pool);
    uint64_t recorded = 0;
    uint64_t failed = 0;
    stream_visit(stream);
    bool moved = take_in(pool, stream, &unfinished);
    weir__lane_rest(stream);
    const weir_tick finished = unfinished != 0 ? query_probe(stream, unfinished, &recorded, &failed) : 0;
    stream_unlock(stream);
    pool_lock(pool);
    pool->counts.events += recorded;
    pool->counts.device_failures += failed;
    moved |= finished > done_on(stream);
    weir__order_done_locked(stream, finished);
    pool_unlock(pool);
    return moved;
}

/* Returns the next stream above *lane to poll: its work may be unfinished, or frees on it have no tick yet. Returns
 * NULL if there is none. *unfinished receives the stream's latest unfinished tick. */
static weir_stream *next_to_poll(weir_pool *pool, size_t *lane, weir_tick *unfinished)
{
    weir_stream *found = NULL;
    pool_lock(pool);
    while (found == NULL && (*lane = next_lane(pool, *lane + 1, lanes_to_poll)) != 0) {
        weir_stream *stream = pool->streams[*lane];
        *unfinished = unfinished_tick(stream);
        const bool any = *unfinished != 0 || !remote_frees_are_empty(stream) || front_defers(pool, &stream->front);
        found = any ? stream : NULL;
    }
    pool_unlock(pool);
    return found;
}

bool weir__order_poll(weir_pool *pool)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    bool moved = false;
    size_t lane = 0;
    weir_tick unfinished = 0;
    weir_stream *stream;
    while ((stream = next_to_poll(pool, &lane, &unfinished)) != NULL) {
        moved |= poll_stream(pool, stream, unfinished);
    }
    moved |= weir__order_collect_graphs(pool);
    pool_lock(pool);
    moved |= weir__order_settle_locked(pool, NULL);
    pool_unlock(pool);
    return moved;
}

/* --- waiting on the host --- */

/* Gives an event back to its stream as the probe after a thread has waited for the event. Drops the event if the stream
 * has a new probe or is retired. */
static void put_probe_back(weir_stream *stream, weir_event *event)
{
    WEIR_ASSERT(event != NULL);
    WEIR_ASSERT(outside_stream_lock(stream));
    weir_pool *pool = stream->owner;
    stream_visit(stream);
    const bool wanted = stream->pool != NULL && stream->probe.event == NULL;
    if (wanted) {
        stream->probe.event = event;
    }
    stream_unlock(stream);
    if (!wanted) {
        weir__order_drop_event(pool, event);
    }
}

weir_status weir__order_sync(weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(stream->owner == pool);
    WEIR_ASSERT(outside_stream_lock(stream));
    WEIR_ASSERT(outside_pool_lock(pool));
    weir_tick covered = 0;
    weir_event *event = NULL;
    uint64_t failed = 0;
    stream_visit(stream);
    weir_status status = WEIR_OK;
    if (stream->pool != NULL) { /* otherwise another thread has retired the stream meanwhile, and waited for it */
        status = record_probe(stream, &covered, &failed);
    }
    bool recorded = covered != 0;
    if (recorded) {
        /* While this thread waits, the event belongs to it: no other thread may record the event again or destroy
         * it. */
        event = stream->probe.event;
        stream->probe = (struct probe){0};
    }
    stream_unlock(stream);
    if (recorded) {
        status = weir_device_event_sync(pool->device, event);
        failed += status != WEIR_OK;
        put_probe_back(stream, event);
    }
    pool_lock(pool);
    pool->counts.events += recorded;
    pool->counts.syncs += recorded && status == WEIR_OK;
    pool->counts.device_failures += failed;
    if (status == WEIR_OK) {
        weir__order_done_locked(stream, covered);
        (void)weir__order_settle_locked(pool, NULL);
    }
    pool_unlock(pool);
    return status;
}

/* Returns the bytes that a wait for the stream could make usable, and the *largest range. Pool lock held. */
static uint64_t unfinished_bytes(weir_pool *pool, const weir_stream *stream, uint64_t *largest)
{
    WEIR_ASSERT(stream->lane < pool->lanes);
    WEIR_ASSERT(pool_is_locked(pool));
    weir_lane_stats stats = WEIR_LANE_STATS_INIT;
    pool->strategy->lane_stats(pool->state, stream->lane, &stats);
    *largest = stats.largest_bytes;
    return stats.bytes;
}

/* Returns the stream with the most bytes in freed memory that queued work may still use, among the streams not yet
 * waited for in this round. Returns NULL if there is none. Pool lock held. */
static weir_stream *next_unfinished(weir_pool *pool, uint64_t round)
{
    WEIR_ASSERT(pool_is_locked(pool));
    weir_stream *best = NULL;
    uint64_t most = 0;
    size_t lane = 0;
    while ((lane = next_lane(pool, lane + 1, lanes_unfinished)) != 0) {
        weir_stream *stream = pool->streams[lane];
        uint64_t largest = 0;
        if (stream->waited < round) {
            uint64_t bytes = unfinished_bytes(pool, stream, &largest);
            if (best == NULL || bytes > most) {
                best = stream;
                most = bytes;
            }
        }
    }
    return best;
}

bool weir__order_sync_next(weir_pool *pool, uint64_t keep, uint64_t *round, weir_status *status)
{
    pool_lock(pool);
    *round = *round != 0 ? *round : ++pool->wait_rounds;
    weir_stream *stream = pool->held.bytes > keep ? next_unfinished(pool, *round) : NULL;
    pool_unlock(pool);
    if (stream == NULL) {
        return false;
    }
    *status = weir__order_sync(pool, stream);
    pool_lock(pool);
    /* Another thread may have waited for the stream in a later round meanwhile. That wait counts for this round as
     * well. */
    stream->waited = *round > stream->waited ? *round : stream->waited;
    pool_unlock(pool);
    return true;
}

/* --- waiting on the device --- */

/* Returns another stream: the one with the largest free range that could serve the request once that stream's work is
 * done. Returns NULL if there is none. Pool lock held. */
static weir_stream *worth_waiting_for(const struct request *request)
{
    WEIR_ASSERT(request->size != 0);
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    weir_stream *best = NULL;
    uint64_t most = request->size - 1;
    size_t lane = 0;
    while ((lane = next_lane(pool, lane + 1, lanes_unfinished)) != 0) {
        weir_stream *stream = pool->streams[lane];
        uint64_t largest = 0;
        if (stream == request->stream) {
            continue;
        }
        (void)unfinished_bytes(pool, stream, &largest);
        if (largest > most) {
            best = stream;
            most = largest;
        }
    }
    return best;
}

/* True if a captured graph uses the block: no wait makes it free. */
static bool is_of_graph(const weir_block *block)
{
    const struct weir_use *use = block_uses(block)->first;
    while (use != NULL && !is_stand_in(use->stream)) {
        use = use->next;
    }
    return use != NULL;
}

/* Returns a stream with work that uses a freed block, the smallest that could serve the request, if the request's
 * stream is not ordered after that work. *wanted receives the tick of the use. Returns NULL if there is none. Pool lock
 * held. */
static weir_stream *user_of_pending(const struct request *request, weir_tick *wanted)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_block *best = NULL;
    for (const weir_block *block = request->pool->pending; block != NULL; block = block_uses(block)->next) {
        const uint64_t capacity = block_capacity(block);
        const bool better = capacity >= request->size && (best == NULL || capacity < block_capacity(best));
        best = better && !is_of_graph(block) ? block : best;
    }
    const struct weir_use *use = best != NULL ? block_uses(best)->first : NULL;
    while (use != NULL &&
           (use->stream == request->stream || clock_at(request->stream, use->stream->lane) >= use->tick ||
            done_on(use->stream) >= use->tick)) {
        use = use->next;
    }
    *wanted = use != NULL ? use->tick : 0;
    return use != NULL ? use->stream : NULL;
}

/* Makes the request's stream wait, on the device, for an event of the donor (the stream that has the memory). The event
 * covers the donor's tick `wanted`. The donor's lock is held, and the donor is not retired. */
static weir_status wait_for_donor(const struct request *request, weir_stream *donor, weir_tick wanted,
                                  weir_tick *covered, bool *recorded, uint64_t *failed)
{
    WEIR_ASSERT(stream_is_locked(donor));
    WEIR_ASSERT(donor != request->stream);
    weir_status status = WEIR_OK;
    if (donor->probe.in_flight && donor->probe.tick >= wanted) {
        *covered = donor->probe.tick;
    } else {
        status = record_probe(donor, covered, failed);
        *recorded = status == WEIR_OK;
    }
    if (status == WEIR_OK) {
        status = weir_device_stream_wait_event(request->pool->device, request->stream->native, donor->probe.event);
        *failed += status != WEIR_OK;
    }
    return status;
}

/* Makes the request's stream wait, on the device, for the donor's work up to tick `wanted`. Returns true on success. No
 * lock held. */
static bool wait_for(const struct request *request, weir_stream *donor, weir_tick wanted)
{
    weir_pool *pool = request->pool;
    weir_tick covered = 0;
    bool recorded = false;
    uint64_t failed = 0;
    stream_visit(donor);
    const bool retired = donor->pool == NULL; /* the donor was retired meanwhile: every stream may use its memory */
    const weir_status status = retired ? WEIR_OK : wait_for_donor(request, donor, wanted, &covered, &recorded, &failed);
    stream_unlock(donor);
    pool_lock(pool);
    pool->counts.events += recorded;
    pool->counts.device_failures += failed;
    if (status == WEIR_OK && !retired) {
        pool->counts.waits++;
        (void)weir__clock_raise_locked(request->stream, donor->lane, covered);
    }
    pool_unlock(pool);
    return status == WEIR_OK;
}

bool weir__order_wait_on_device(struct request *request)
{
    weir_pool *pool = request->pool;
    if (!pool->ordered || (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0 || is_stand_in(request->stream) ||
        is_captured(request->stream)) {
        return false;
    }
    pool_lock(pool);
    weir_stream *donor = worth_waiting_for(request);
    weir_tick wanted = donor != NULL ? donor->last_free : 0;
    const bool of_pending = donor == NULL;
    donor = of_pending ? user_of_pending(request, &wanted) : donor;
    pool_unlock(pool);
    bool waited = false;
    while (donor != NULL && wait_for(request, donor, wanted)) {
        waited = true;
        pool_lock(pool);
        donor = of_pending ? user_of_pending(request, &wanted) : NULL; /* a block may have several users */
        pool_unlock(pool);
    }
    return waited;
}

/* --- marks --- */

weir_status weir_stream_mark(weir_pool *pool, weir_stream *stream, weir_tick *mark)
{
    if (pool == NULL || stream == NULL) {
        return weir__refuse_stream("weir_stream_mark", pool, stream);
    }
    if (mark == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_stream_mark: mark is NULL");
    }
    if (stream->pool == pool && is_captured(stream)) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_stream_mark: the stream is being captured: its work does not complete");
    }
    stream_visit(stream);
    const bool ours = stream->pool == pool;
    if (ours) {
        *mark = atomic_load_explicit(&stream->tick, memory_order_relaxed);
        /* The mark counts like freed memory: the next poll then records an event that covers the mark. */
        pool_lock(pool);
        weir__order_freed_locked(stream, *mark);
        pool_unlock(pool);
    }
    stream_unlock(stream);
    return ours ? WEIR_OK : weir__refuse_stream("weir_stream_mark", pool, stream);
}

static bool has_reached(weir_pool *pool, const weir_stream *stream, weir_tick mark, weir_tick *unfinished)
{
    pool_lock(pool);
    const bool reached = !pool->ordered || stream->retired || done_on(stream) >= mark;
    *unfinished = unfinished_tick(stream);
    pool_unlock(pool);
    return reached;
}

weir_status weir_stream_reached(weir_pool *pool, weir_stream *stream, weir_tick mark, bool wait, bool *reached)
{
    if (pool == NULL || stream == NULL || stream->owner != pool) {
        return weir__refuse_stream("weir_stream_reached", pool, stream);
    }
    if (reached == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_stream_reached: reached is NULL");
    }
    weir_status status = WEIR_OK;
    weir_tick unfinished = 0;
    bool done = has_reached(pool, stream, mark, &unfinished);
    if (!done) {
        if (wait) {
            status = weir__order_sync(pool, stream);
        } else {
            (void)poll_stream(pool, stream, unfinished);
        }
        done = has_reached(pool, stream, mark, &unfinished);
    }
    if (status == WEIR_OK) {
        *reached = done;
    }
    return status;
}
