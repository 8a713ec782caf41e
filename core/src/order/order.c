/* core/src/order/order.c: which freed memory a stream may have. The only place that decides it.
 *
 * Rule: memory freed on stream s may go to stream x when everything that could touch it happens before x's next
 * operation. A free leaves (stream, tick) pairs; the memory is x's when each pair (t, k) is x's own, or
 * clock[x][t] >= k, or done[t] >= k.
 *
 * How ticks stay honest. A free stamps its stream's tick under the stream's lock. Whoever records an event on the
 * stream raises the tick first, under the same lock: an event that covers tick k is recorded after every free stamped k
 * or lower, and after the work that its caller had queued before that free. No event is recorded per free; one covers
 * all ticks before it.
 *
 * Guarantee: a request fails only after every stream whose work kept fitting memory has been waited for and the cache
 * searched again. Nothing found before a lock was let go is used after it: every rung changes the state and searches
 * anew.
 *
 * Cost: the first rungs are constant; polling costs two cheap device calls per stream with unfinished memory; gather is
 * linear in ranges; the rest are device calls. served[] counts which rung served.
 */
#include "shared/cancel.h"
#include "pool/pool_internal.h"

#include <stdlib.h>
#include <string.h>

enum { exchanges_at_start = 32, requests_per_exchange = 100 };

/* --- taking --- */

bool weir__order_take_locked(struct request *request, weir_lane lane, weir_tick limit)
{
    weir_pool *pool = request->pool;
    weir_range range;
    weir_status status =
        pool->strategy->alloc(pool->state, lane, limit, request->size, request->align, &range);
    if (status != WEIR_OK) {
        request->broken = status == WEIR_ERR_NO_MEMORY ? request->broken : WEIR_ERR_NO_MEMORY;
        return false;
    }
    request->block = weir__block_new_locked(pool, &range);
    if (request->block == NULL) {
        weir_tick tick = lane == WEIR_LANE_OPEN ? 0 : pool->streams[lane]->last_free;
        pool->strategy->free(pool->state, range.token, lane, tick);
        request->broken = WEIR_ERR_NO_MEMORY;
        return false;
    }
    return true;
}

bool weir__order_alloc_own(struct request *request)
{
    weir_pool *pool = request->pool;
    /* What the front cache holds lies between free ranges. Where memory is mapped for all sizes side by side, a request that
     * the cache could not hold would be placed around it, and the hole that fits it would be left to smaller ones. */
    if (UNLIKELY(pool->vm != NULL) && request->size > pool->config.front_cache_block_bytes) {
        (void)weir__order_flush_locked(pool, request->stream);
    }
    pool_work(pool);
    const bool served = weir__order_take_locked(request, request->stream->lane, WEIR_TICK_MAX);
    pool->served[WEIR_RUNG_LANE] += served;
    pool_unlock(pool);
    return served;
}

const weir_tick *weir__order_limits_locked(weir_pool *pool, const weir_stream *stream)
{
    pool->limits[WEIR_LANE_OPEN] = WEIR_TICK_MAX;
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        const weir_stream *owner = pool->streams[lane];
        weir_tick known = stream != NULL ? weir__clock_at(stream, (weir_lane)lane) : 0;
        weir_tick limit = owner->done > known ? owner->done : known;
        pool->limits[lane] = owner == stream || !pool->ordered ? WEIR_TICK_MAX : limit;
    }
    return pool->limits;
}

/* Lanes of streams that this one is already ordered after. */
static bool take_ordered_locked(struct request *request)
{
    weir_pool *pool = request->pool;
    const weir_tick *limits = weir__order_limits_locked(pool, request->stream);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        if (lane != request->stream->lane && weir__order_take_locked(request, (weir_lane)lane, limits[lane])) {
            return true;
        }
    }
    return false;
}

static bool private_lanes(const weir_pool *pool)
{
    return (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0;
}

/* Pool lock held: opens what others' completed work has left. The asking stream's own lane stays together: it can take
 * from it anyway, and what is moved to the open lane no longer merges with what is freed next. */
static void promote_others_locked(weir_pool *pool, const weir_stream *taker)
{
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        weir_stream *stream = pool->streams[lane];
        if (stream != taker && stream->promoted < stream->done) {
            stream->promoted = stream->done;
            (void)pool->strategy->promote(pool->state, stream->lane, stream->done);
        }
    }
}

/* Serves the request from free memory as it is now. `rung` is what made it so; the first search names its own. */
static bool search(struct request *request, weir_rung rung)
{
    weir_pool *pool = request->pool;
    weir_rung found = WEIR_RUNG_LANE;
    pool_lock(pool);
    bool served = weir__order_take_locked(request, request->stream->lane, WEIR_TICK_MAX);
    if (!served && !private_lanes(pool)) {
        found = WEIR_RUNG_OPEN;
        promote_others_locked(pool, request->stream);
        served = weir__order_take_locked(request, WEIR_LANE_OPEN, WEIR_TICK_MAX);
    }
    if (!served && !private_lanes(pool)) {
        found = WEIR_RUNG_ORDERED;
        served = take_ordered_locked(request);
    }
    if (served) {
        pool->served[rung == WEIR_RUNG_LANE ? found : rung]++;
    }
    pool_unlock(pool);
    return served;
}

bool weir__order_join_locked(struct request *request)
{
    weir_pool *pool = request->pool;
    const weir_tick *limits = weir__order_limits_locked(pool, request->stream);
    weir_tick tick = atomic_load_explicit(&request->stream->tick, memory_order_relaxed);
    bool gathered = pool->strategy->gather(pool->state, request->stream->lane, tick, limits, pool->lanes,
                                           request->size, request->align, request->last_resort);
    if (gathered && tick > request->stream->last_free) {
        request->stream->last_free = tick;
    }
    return gathered && weir__order_take_locked(request, request->stream->lane, WEIR_TICK_MAX);
}

/* The same, and then joins neighbours that the stream may have. */
static bool search_joined(struct request *request, weir_rung rung)
{
    weir_pool *pool = request->pool;
    if (search(request, rung)) {
        return true;
    }
    if (pool->strategy->gather == NULL) {
        return false;
    }
    pool_lock(pool);
    bool settled = weir__order_settle_locked(pool, request->stream);
    bool served = weir__order_join_locked(request);
    if (served) {
        pool->served[rung == WEIR_RUNG_LANE ? WEIR_RUNG_GATHERED : rung]++;
    }
    pool_unlock(pool);
    return served || (settled && search(request, rung == WEIR_RUNG_LANE ? WEIR_RUNG_GATHERED : rung));
}

/* --- polling and waiting --- */

void weir__order_done_locked(weir_stream *stream, weir_tick tick)
{
    stream->done = tick > stream->done ? tick : stream->done;
}

/* Pool lock held: room to keep one event more than there are. False without host memory. */
static bool reserve_event(weir_pool *pool)
{
    if (pool->events_made == pool->kept_room) {
        const size_t room = pool->kept_room != 0 ? 2 * pool->kept_room : 16;
        weir_event **larger = realloc(pool->kept_events, room * sizeof(*larger));
        if (larger == NULL) {
            return false;
        }
        pool->kept_events = larger;
        pool->kept_room = room;
    }
    pool->events_made++;
    return true;
}

/* One that the device would not destroy, or else a new one. A stream's lock is held. *failed counts failures of the device. */
static weir_status obtain_event(weir_pool *pool, weir_event **event, uint64_t *failed)
{
    pool_lock(pool);
    const bool kept = pool->kept_count != 0;
    if (kept) {
        *event = pool->kept_events[--pool->kept_count];
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
        pool->events_made--;
        pool_unlock(pool);
    }
    return status;
}

/* Stream lock held, and the stream not retired: records an event that covers every free so far. *covered: up to which
 * tick. *failed counts failures of the device. */
static weir_status record_probe(weir_stream *stream, weir_tick *covered, uint64_t *failed)
{
    weir_device *device = stream->owner->device;
    weir_status status = WEIR_OK;
    (void)weir__inbox_clear(stream->owner, stream);
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

/* Stream lock held: the highest tick known to be complete, 0 when nothing is. A finished or missing probe is followed by
 * a new one if `last_free` is later. */
static weir_tick query_probe(weir_stream *stream, weir_tick last_free, uint64_t *recorded, uint64_t *failed)
{
    weir_tick finished = 0;
    weir_status status = WEIR_OK;
    if (stream->pool == NULL) {
        return 0; /* another thread has retired it meanwhile, and waited for it */
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

/* Pool lock held: the latest tick on the stream's memory if the host has not seen it complete, else 0. */
static weir_tick unfinished_tick(const weir_stream *stream)
{
    return stream->owner->ordered && stream->last_free > stream->done && !stream->retired ? stream->last_free : 0;
}

static weir_stream *stream_at(weir_pool *pool, size_t lane, weir_tick *unfinished)
{
    pool_lock(pool);
    weir_stream *stream = lane < pool->lanes ? pool->streams[lane] : NULL;
    if (stream != NULL) {
        *unfinished = unfinished_tick(stream);
    }
    pool_unlock(pool);
    return stream;
}

/* Stream lock held: takes in what other threads have freed, which may be unfinished as well. True when there was
 * something. */
static bool take_in(weir_pool *pool, weir_stream *stream, weir_tick *unfinished)
{
    const bool any = weir__inbox_clear(pool, stream);
    if (any) {
        pool_lock(pool);
        *unfinished = unfinished_tick(stream);
        pool_unlock(pool);
    }
    return any;
}

/* Asks about one stream, whose latest unfinished tick is `unfinished`. True when something has changed. */
static bool poll_stream(weir_pool *pool, weir_stream *stream, weir_tick unfinished)
{
    uint64_t recorded = 0;
    uint64_t failed = 0;
    stream_visit(stream);
    bool moved = take_in(pool, stream, &unfinished);
    const weir_tick finished = unfinished != 0 ? query_probe(stream, unfinished, &recorded, &failed) : 0;
    stream_unlock(stream);
    pool_lock(pool);
    pool->events_recorded += recorded;
    pool->device_failures += failed;
    moved |= finished > stream->done;
    weir__order_done_locked(stream, finished);
    pool_unlock(pool);
    return moved;
}

bool weir__order_poll(weir_pool *pool)
{
    bool moved = false;
    weir_tick unfinished = 0;
    weir_stream *stream;
    for (size_t lane = 1; (stream = stream_at(pool, lane, &unfinished)) != NULL; lane++) {
        if (unfinished != 0 || !inbox_is_empty(stream)) {
            moved |= poll_stream(pool, stream, unfinished);
        }
    }
    pool_lock(pool);
    moved |= weir__order_settle_locked(pool, NULL);
    pool_unlock(pool);
    return moved;
}

/* Pool lock held: there is room, since each event counts in events_made until it is destroyed. */
static void keep_event(weir_pool *pool, weir_event *event)
{
    pool->kept_events[pool->kept_count++] = event;
}

void weir__order_drop_events(weir_pool *pool)
{
    weir_status status = WEIR_OK;
    pool_lock(pool);
    while (status == WEIR_OK && pool->kept_count != 0) {
        weir_event *event = pool->kept_events[--pool->kept_count];
        pool_unlock(pool);
        status = weir_device_event_destroy(pool->device, event);
        pool_lock(pool);
        if (status == WEIR_OK) {
            pool->events_made--;
        } else {
            pool->device_failures++;
            keep_event(pool, event);
        }
    }
    pool_unlock(pool);
}

void weir__order_drop_event(weir_pool *pool, weir_event *event)
{
    pool_lock(pool);
    keep_event(pool, event);
    pool_unlock(pool);
    weir__order_drop_events(pool);
}

/* An event that was waited for without a lock is the stream's probe again, unless that has a new one or is gone. */
static void put_probe_back(weir_stream *stream, weir_event *event)
{
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
    weir_tick covered = 0;
    weir_event *event = NULL;
    uint64_t failed = 0;
    stream_visit(stream);
    weir_status status = WEIR_OK;
    if (stream->pool != NULL) { /* else another thread has retired it meanwhile, and waited for it */
        status = record_probe(stream, &covered, &failed);
    }
    bool recorded = covered != 0;
    if (recorded) {
        /* While this thread waits the event is its own: nobody may record it anew or destroy it. */
        event = stream->probe.event;
        stream->probe = (struct probe){ 0 };
    }
    stream_unlock(stream);
    if (recorded) {
        status = weir_device_event_sync(pool->device, event);
        failed += status != WEIR_OK;
        put_probe_back(stream, event);
    }
    pool_lock(pool);
    pool->events_recorded += recorded;
    pool->syncs += recorded && status == WEIR_OK;
    pool->device_failures += failed;
    if (status == WEIR_OK) {
        weir__order_done_locked(stream, covered);
        (void)weir__order_settle_locked(pool, NULL);
    }
    pool_unlock(pool);
    return status;
}

/* Pool lock held: bytes that waiting for the stream could make usable. */
static uint64_t unfinished_bytes(weir_pool *pool, const weir_stream *stream, uint64_t *largest)
{
    weir_lane_stats stats = WEIR_LANE_STATS_INIT;
    pool->strategy->lane_stats(pool->state, stream->lane, &stats);
    *largest = stats.largest_bytes;
    return stats.bytes;
}

uint64_t weir__order_wait_round(weir_pool *pool)
{
    pool_lock(pool);
    const uint64_t round = ++pool->wait_rounds;
    pool_unlock(pool);
    return round;
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
    stream_visit(stream);
    const bool ours = stream->pool == pool;
    if (ours) {
        *mark = atomic_load_explicit(&stream->tick, memory_order_relaxed);
        /* As if something had been freed: a poll records an event that covers it. */
        pool_lock(pool);
        stream->last_free = *mark > stream->last_free ? *mark : stream->last_free;
        pool_unlock(pool);
    }
    stream_unlock(stream);
    return ours ? WEIR_OK : weir__refuse_stream("weir_stream_mark", pool, stream);
}

/* *unfinished: as of unfinished_tick. */
static bool has_reached(weir_pool *pool, const weir_stream *stream, weir_tick mark, weir_tick *unfinished)
{
    pool_lock(pool);
    const bool reached = !pool->ordered || stream->retired || stream->done >= mark;
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

weir_status weir__order_sync_in(weir_pool *pool, weir_stream *stream, uint64_t round)
{
    weir_status status = weir__order_sync(pool, stream);
    pool_lock(pool);
    /* A later round's turn, which another thread has had meanwhile, is one of this round as well. */
    stream->waited = round > stream->waited ? round : stream->waited;
    pool_unlock(pool);
    return status;
}

weir_stream *weir__order_unfinished_locked(weir_pool *pool, uint64_t round)
{
    weir_stream *best = NULL;
    uint64_t most = 0;
    for (size_t lane = 1; lane < pool->lanes && pool->ordered; lane++) {
        weir_stream *stream = pool->streams[lane];
        uint64_t largest = 0;
        if (stream->last_free > stream->done && !stream->retired && stream->waited < round) {
            uint64_t bytes = unfinished_bytes(pool, stream, &largest);
            if (best == NULL || bytes > most) {
                best = stream;
                most = bytes;
            }
        }
    }
    return best;
}

/* The stream, other than the asking one, that holds the largest range which would serve the request after a wait. */
static weir_stream *worth_waiting_for(const struct request *request)
{
    weir_pool *pool = request->pool;
    weir_stream *best = NULL;
    uint64_t most = request->size - 1;
    pool_lock(pool);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        weir_stream *stream = pool->streams[lane];
        uint64_t largest = 0;
        if (stream == request->stream || stream->retired || stream->last_free <= stream->done) {
            continue;
        }
        (void)unfinished_bytes(pool, stream, &largest);
        if (largest > most) {
            best = stream;
            most = largest;
        }
    }
    pool_unlock(pool);
    return best;
}

/* Makes the asking stream wait, on the device, for another one's frees, and searches. The host does not wait. */
static bool wait_and_search(struct request *request)
{
    weir_pool *pool = request->pool;
    weir_stream *donor = pool->ordered && !private_lanes(pool) ? worth_waiting_for(request) : NULL;
    if (donor == NULL) {
        return false;
    }
    pool_lock(pool);
    weir_tick wanted = donor->last_free;
    pool_unlock(pool);
    weir_tick covered = 0;
    weir_status status = WEIR_OK;
    uint64_t failed = 0;
    bool recorded = false;
    stream_visit(donor);
    if (donor->pool == NULL) {
        stream_unlock(donor); /* retired meanwhile: its memory is everybody's */
        return search_joined(request, WEIR_RUNG_WAITED);
    }
    if (donor->probe.in_flight && donor->probe.tick >= wanted) {
        covered = donor->probe.tick; /* an event that already covers the memory */
    } else {
        status = record_probe(donor, &covered, &failed);
        recorded = status == WEIR_OK;
    }
    if (status == WEIR_OK) {
        status = weir_device_stream_wait_event(pool->device, request->stream->native, donor->probe.event);
        failed += status != WEIR_OK;
    }
    stream_unlock(donor);
    pool_lock(pool);
    pool->events_recorded += recorded;
    pool->device_failures += failed;
    if (status == WEIR_OK) {
        pool->waits++;
        (void)weir__clock_raise_locked(request->stream, donor->lane, covered);
    }
    pool_unlock(pool);
    return status == WEIR_OK && search_joined(request, WEIR_RUNG_WAITED);
}

/* --- the ladder --- */

/* Whether memory that exists should be waited for before more is taken. */
static bool prefers_waiting(weir_pool *pool)
{
    pool_lock(pool);
    const uint64_t reserved = pool->reserved_bytes;
    const uint64_t most = weir__budget_most_locked(pool, true);
    pool_unlock(pool);
    switch (pool->config.growth) {
    case WEIR_GROWTH_GROW_FIRST:
        return false;
    case WEIR_GROWTH_WAIT_FIRST:
        return true;
    case WEIR_GROWTH_BALANCED:
    default:
        return most != 0 && reserved > most / 2;
    }
}

static bool grow(struct request *request, weir_rung rung)
{
    if (request->pool->vm != NULL) {
        return weir__vm_grow(request);
    }
    bool again = true;
    while (again && request->broken == WEIR_OK) {
        if (weir__region_grow(request, &again)) {
            pool_lock(request->pool);
            request->pool->served[rung]++;
            pool_unlock(request->pool);
            return true;
        }
        if (again && search_joined(request, rung)) {
            return true;
        }
    }
    return false;
}

static uint64_t region_frees(weir_pool *pool)
{
    pool_lock(pool);
    const uint64_t frees = pool->region_frees;
    pool_unlock(pool);
    return frees;
}

/* Whether a region that holds the request may go back without making room for one that does: a new one would have to be
 * larger for its alignment, or the pool is above its limit. */
static bool may_lose(const struct request *request)
{
    return request->align > weir__device_info(request->pool->device)->region_alignment_bytes ||
           weir__budget_over(request->pool, request->soft);
}

/* Returns regions that lie idle and are of no use to this request, then grows: reserved memory stays what it was. With
 * virtual memory, growing means that. */
static bool exchange(struct request *request, uint64_t bytes)
{
    weir_pool *pool = request->pool;
    (void)weir__order_poll(pool);
    if (pool->vm != NULL) {
        return weir__vm_grow(request);
    }
    if (may_lose(request)) {
        request->last_resort = true;
        if (search_joined(request, WEIR_RUNG_POLLED)) {
            return true;
        }
    }
    return weir__region_return_idle(pool, bytes, 0, NULL) != 0 && grow(request, WEIR_RUNG_EXCHANGED);
}

/* Whether regions may be exchanged only to keep reserved memory low. Sizes that change with every request would buy that
 * with device calls for ever: a share of the requests may, and some at the start, while the pool finds its size. All may
 * where much more would be reserved than was ever live. */
static bool affords_exchange(weir_pool *pool, uint64_t wish)
{
    uint64_t served = 0;
    pool_lock(pool);
    for (size_t rung = 0; rung < WEIR_RUNG_COUNT; rung++) {
        served += pool->served[rung];
    }
    const uint64_t peak = (uint64_t)pool->peak_live;
    const bool affords = pool->region_frees < exchanges_at_start + served / requests_per_exchange ||
                         pool->reserved_bytes + wish > peak + peak / 3;
    pool_unlock(pool);
    return affords;
}

/* The last look before a request fails. The last poll, or another thread, may have seen work complete after the last
 * search, and another thread may have given regions back since the device last refused: neither must be missed. */
static bool look_again(struct request *request, uint64_t frees_before)
{
    request->ceiling = 0;
    return search_joined(request, WEIR_RUNG_POLLED) || exchange(request, UINT64_MAX) ||
           (region_frees(request->pool) != frees_before && grow(request, WEIR_RUNG_GROWN));
}

/* Waits for one stream after the other, the one with the most memory first, searching after each. A stream that cannot
 * be waited for is passed over. */
static bool sync_and_search(struct request *request)
{
    weir_pool *pool = request->pool;
    const uint64_t round = weir__order_wait_round(pool);
    for (;;) {
        pool_lock(pool);
        weir_stream *stream = weir__order_unfinished_locked(pool, round);
        pool_unlock(pool);
        if (stream == NULL) {
            return false;
        }
        if (weir__order_sync_in(pool, stream, round) != WEIR_OK) {
            continue;
        }
        if (search_joined(request, WEIR_RUNG_SYNCED) || exchange(request, UINT64_MAX)) {
            return true;
        }
    }
}

/* Every way to serve a request, cheapest first, within the limit that holds for the time being. */
static bool climb_within(struct request *request)
{
    weir_pool *pool = request->pool;
    const bool keeps_idle = (pool->config.flags & WEIR_POOL_KEEP_IDLE_REGIONS) != 0 || private_lanes(pool) ||
                            pool->vm != NULL; /* whose memory moves when it grows */

    request->last_resort = false;
    request->ceiling = 0;
    /* The stream's own memory, anybody's, and what the stream is already ordered after. */
    if (search(request, WEIR_RUNG_LANE)) {
        return true;
    }
    /* Work that has completed unnoticed. */
    if (weir__order_poll(pool) && search(request, WEIR_RUNG_POLLED)) {
        return true;
    }
    /* What the front cache keeps from merging, and neighbours in different lanes. */
    if (weir__order_flush(pool, request->stream) && search(request, WEIR_RUNG_FLUSHED)) {
        return true;
    }
    if (search_joined(request, WEIR_RUNG_LANE)) {
        return true;
    }
    /* More memory, or another stream's: the policy's choice. */
    if (prefers_waiting(pool) && wait_and_search(request)) {
        return true;
    }
    const uint64_t wish = keeps_idle ? 0 : weir__region_wish(request);
    if (!keeps_idle && affords_exchange(pool, wish) && exchange(request, wish)) {
        return true;
    }
    const uint64_t frees_before = region_frees(pool);
    if (grow(request, WEIR_RUNG_GROWN)) {
        return true;
    }
    /* The device has no more. */
    request->last_resort = true;
    if (search_joined(request, WEIR_RUNG_LANE) || wait_and_search(request)) {
        return true;
    }
    if (weir__order_flush(pool, NULL) && search_joined(request, WEIR_RUNG_FLUSHED_ALL)) {
        return true;
    }
    if (exchange(request, UINT64_MAX)) {
        return true;
    }
    return sync_and_search(request) || look_again(request, frees_before);
}

/* First below the soft limit, with the callback's help if need be, then up to the hard one. */
static bool climb(struct request *request)
{
    request->soft = weir__budget_has_soft(request->pool);
    if (climb_within(request)) {
        return true;
    }
    if (!request->soft || !request->limited || request->broken != WEIR_OK) {
        return false;
    }
    while (weir__budget_press(request)) {
        if (climb_within(request)) {
            return true;
        }
    }
    request->soft = false;
    return request->broken == WEIR_OK && climb_within(request);
}

/* Calls the callback and searches what it may have freed. *again: it did something, so climb once more. No lock is
 * held. */
static bool call_back(struct request *request, bool *again)
{
    weir_pool *pool = request->pool;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    *again = weir_pool_oom(pool, &record) == WEIR_OK &&
             UNCANCELLED(pool->config.oom_callback(pool->config.oom_ctx, pool, &record));
    if (*again) {
        /* It is not known yet that the request fails: only the last record of a request counts. */
        pool_lock(pool);
        pool->oom.failure--;
        pool_unlock(pool);
        (void)weir__order_flush(pool, NULL);
    }
    return *again && search_joined(request, WEIR_RUNG_CALLBACK);
}

static uint64_t slow_frees(weir_pool *pool)
{
    pool_lock(pool);
    const uint64_t frees = pool->slow_frees;
    pool_unlock(pool);
    return frees;
}

/* Climbs, and again a few times when other threads freed memory meanwhile: between two looks of this one they may have
 * passed what it needed from hand to hand. */
static bool climb_among_others(struct request *request)
{
    for (int climbs = 0; climbs < 4; climbs++) {
        const uint64_t before = slow_frees(request->pool);
        if (climb(request)) {
            return true;
        }
        if (request->broken != WEIR_OK ||
            (!weir__order_flush(request->pool, NULL) && slow_frees(request->pool) == before)) {
            return false;
        }
    }
    return false;
}

weir_status weir__order_alloc(struct request *request)
{
    weir_pool *pool = request->pool;
    bool served = climb_among_others(request);
    bool again = !served;
    while (!served && again) {
        weir__oom_explain(request);
        again = false;
        if (pool->config.oom_callback != NULL && request->broken == WEIR_OK) {
            served = call_back(request, &again) || (again && climb_among_others(request));
        }
    }
    if (served) {
        return WEIR_OK;
    }
    if (request->broken != WEIR_OK) {
        return request->broken;
    }
    bool device_broke = request->device_status == WEIR_ERR_DEVICE || request->device_status == WEIR_ERR_INTERNAL;
    return device_broke ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY;
}

/* --- freeing --- */

/* Pool lock held: memory of the strategy again, in the stream's lane as of `tick`. A lane's ticks do not go down. */
static void give_to_lane(weir_block *block, weir_stream *stream, weir_tick tick)
{
    weir_pool *pool = block->pool;
    void *token = block->token;
    weir_tick stamp = tick > stream->last_free ? tick : stream->last_free;
    stream->last_free = stamp;
    weir__block_drop_uses(block);
    weir__block_delete_locked(block);
    pool->strategy->free(pool->state, token, stream->lane, stamp);
}

static void give_to_all(weir_block *block)
{
    weir_pool *pool = block->pool;
    weir_stream *owner = block->stream;
    void *token = block->token;
    weir__block_drop_uses(block);
    weir__block_delete_locked(block);
    if (private_lanes(pool)) {
        pool->strategy->free(pool->state, token, owner->lane, 0);
    } else {
        pool->strategy->free(pool->state, token, WEIR_LANE_OPEN, 0);
    }
}

/* Pool lock held: drops the pairs that are known to be complete. The block's pairs are in its list of uses. */
static void drop_done(weir_block *block)
{
    struct weir_use **link = &block->uses;
    while (*link != NULL) {
        struct weir_use *use = *link;
        if (use->tick <= use->stream->done || !block->pool->ordered) {
            *link = use->next;
            weir__use_delete(block, use);
        } else {
            link = &use->next;
        }
    }
}

/* Pool lock held: whether everything on the list happens before what `stream` queues next. */
static bool ordered_before(const weir_block *block, const weir_stream *stream)
{
    for (const struct weir_use *use = block->uses; use != NULL; use = use->next) {
        if (use->stream != stream && weir__clock_at(stream, use->stream->lane) < use->tick &&
            use->stream->done < use->tick) {
            return false;
        }
    }
    return true;
}

/* Pool lock held: the lane that a block whose pairs are in its list can go to now. */
static bool settle(weir_block *block, weir_stream *taker)
{
    drop_done(block);
    if (block->uses == NULL) {
        give_to_all(block);
        return true;
    }
    if (private_lanes(block->pool)) {
        bool own = block->uses->next == NULL && block->uses->stream == block->stream;
        if (own) {
            give_to_lane(block, block->stream, block->uses->tick);
        }
        return own;
    }
    if (block->uses->next == NULL) {
        give_to_lane(block, block->uses->stream, block->uses->tick);
        return true;
    }
    /* A stream that is ordered after all the others stands for them, as of now. */
    for (const struct weir_use *use = block->uses; use != NULL; use = use->next) {
        if (ordered_before(block, use->stream)) {
            give_to_lane(block, use->stream, atomic_load_explicit(&use->stream->tick, memory_order_relaxed));
            return true;
        }
    }
    if (taker != NULL && ordered_before(block, taker)) {
        give_to_lane(block, taker, atomic_load_explicit(&taker->tick, memory_order_relaxed));
        return true;
    }
    return false;
}

bool weir__order_settle_locked(weir_pool *pool, weir_stream *taker)
{
    bool moved = false;
    weir_block **link = &pool->pending;
    while (*link != NULL) {
        weir_block *block = *link;
        weir_block *next = block->next;
        uint64_t capacity = block->capacity;
        if (settle(block, taker)) {
            *link = next;
            pool->pending_bytes -= capacity;
            moved = true;
        } else {
            link = &block->next;
        }
    }
    return moved;
}

/* Both locks held: the pairs of a free become the block's list. */
static void note_free(weir_block *block, weir_stream *stream, weir_tick tick)
{
    struct weir_use **link = &block->uses;
    while (*link != NULL) {
        struct weir_use *use = *link;
        if (use->stream == stream) {
            *link = use->next;
            weir__use_delete(block, use);
            continue;
        }
        use->stream->last_free = use->tick > use->stream->last_free ? use->tick : use->stream->last_free;
        link = &use->next;
    }
    stream->last_free = tick > stream->last_free ? tick : stream->last_free;
    block->freed = (struct weir_use){ .next = block->uses, .stream = stream, .serial = stream->serial, .tick = tick };
    block->uses = &block->freed;
}

void weir__order_free(weir_block *block, weir_stream *stream)
{
    weir_pool *pool = block->pool;
    weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    bool foreign = private_lanes(pool) && stream != block->stream;
    pool_work(pool);
    pool->slow_frees++;
    if (!pool->ordered) {
        give_to_all(block);
    } else if (block->uses == NULL && !foreign) {
        give_to_lane(block, stream, tick);
    } else {
        uint64_t capacity = block->capacity;
        note_free(block, stream, tick);
        if (!settle(block, NULL)) {
            atomic_store_explicit(&block->state, BLOCK_PENDING, memory_order_relaxed);
            block->next = pool->pending;
            pool->pending = block;
            pool->pending_bytes += capacity;
        }
    }
    pool_unlock(pool);
}

void weir__order_free_idle(weir_block *block)
{
    weir_pool *pool = block->pool;
    pool_lock(pool);
    pool->slow_frees++;
    give_to_all(block);
    pool_unlock(pool);
}

/* --- front caches --- */

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
            if (pool->ordered) {
                give_to_lane(block, stream, tick);
            } else {
                give_to_all(block);
            }
        }
    }
    pool_unlock(pool);
    stream->cached_bytes = 0;
    return true;
}

bool weir__order_flush(weir_pool *pool, weir_stream *only)
{
    bool moved = false;
    weir_tick ignored = 0;
    weir_stream *stream;
    for (size_t lane = 1; (stream = stream_at(pool, lane, &ignored)) != NULL; lane++) {
        if (only == NULL || only == stream) {
            stream_visit(stream);
            moved |= weir__order_flush_locked(pool, stream);
            stream_unlock(stream);
        }
    }
    return moved;
}
