/* core/src/pool/stream.c: the pool's streams, their vector clocks, and the events that callers report.
 *
 * Guarantee: clock[x][y] >= k only if the end of x's queue is ordered after everything that was freed on y up to tick
 * k. The ticks of a lane never start over, so a stream that reuses the lane of a retired stream inherits no permission.
 * Knowledge may be lost (no host memory, an unknown event); then memory is reused later, never too early.
 *
 * Cost: a hint is linear in the number of streams. Nothing here is on the path of alloc and free.
 */
#include "pool/pool.h"

#include <stdlib.h>
#include <string.h>

/* --- streams --- */

static weir_stream *find_native(const weir_pool *pool, const void *native)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return pool->streams[weir__number_map_get(&pool->natives, (uint64_t)(uintptr_t)native)];
}

/* Returns the record of a retired stream, for reuse by a new one, or NULL. The record's ticks continue. */
static weir_stream *reuse_place(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return pool->streams[next_lane(pool, 1, lanes_retired)];
}

/* Reallocates the array to `count` elements of `size` bytes; elements from `old` on are zero. Returns NULL when out
 * of host memory. */
static void *extended(void *array, size_t size, size_t old, size_t count)
{
    WEIR_ASSERT(old < count);
    char *larger = realloc(array, count * size);
    if (larger != NULL) {
        memset(larger + old * size, 0, (count - old) * size);
    }
    return larger;
}

/* Doubles the room in the arrays indexed by lane (stream number). Returns false when out of host memory; each array
 * then still has the room that it needs now. */
static bool extend_lanes(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(pool->lanes <= pool->lane_room);
    const size_t old = pool->lane_room;
    const size_t room = 2 * old;
    weir_stream **streams = extended(pool->streams, sizeof(weir_stream *), old, room);
    pool->streams = streams != NULL ? streams : pool->streams;
    weir_tick *done = extended(pool->done, sizeof(*done), old, room);
    pool->done = done != NULL ? done : pool->done;
    weir_tick *limits = extended(pool->limits, sizeof(*limits), old, room);
    pool->limits = limits != NULL ? limits : pool->limits;
    struct lane_group **groups = extended(pool->groups, sizeof(struct lane_group *), old / 64, room / 64);
    pool->groups = groups != NULL ? groups : pool->groups;
    if (streams == NULL || done == NULL || limits == NULL || groups == NULL) {
        return false;
    }
    pool->lane_room = room;
    return true;
}

static struct lane_group *next_group(weir_pool *pool)
{
    const size_t lane = pool->lanes;
    if (lane == pool->lane_room && !extend_lanes(pool)) {
        return NULL;
    }
    struct lane_group **group = &pool->groups[lane / 64];
    if (*group == NULL && (*group = aligned_alloc(64, sizeof(**group))) != NULL) {
        memset(*group, 0, sizeof(**group));
    }
    return *group;
}

static weir_stream *new_place(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    weir_lane lane = (weir_lane)pool->lanes;
    struct lane_group *group = next_group(pool);
    if (group == NULL || !weir__number_map_reserve(&pool->natives, pool->lanes) ||
        (pool->strategy->lane_add != NULL && pool->strategy->lane_add(pool->state, lane) != WEIR_OK)) {
        return NULL;
    }
    /* Processors fetch cache lines in pairs: aligned to 128, no two streams share a pair. */
    weir_stream *stream = aligned_alloc(128, (sizeof(*stream) + 127) & ~(size_t)127);
    if (stream == NULL) {
        return NULL;
    }
    memset(stream, 0, sizeof(*stream));
    if (!weir__tag_prepare_locked(pool, stream)) {
        free(stream);
        return NULL;
    }
    weir__stream_lock_init(&stream->lock, (pool->config.flags & WEIR_POOL_SINGLE_THREADED) != 0);
    atomic_init(&stream->tick, 1);
    stream->owner = pool;
    stream->lane = lane;
    const bool has_own_memory = pool->ordered || (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0;
    stream->home = has_own_memory ? lane : WEIR_LANE_OPEN;
    stream->group = group;
    pool->streams[lane] = stream;
    pool->lanes++;
    return stream;
}

/* Gives an unused stream record to a native stream, or makes it a stand-in. pool->natives has room for it. Pool lock
 * held. */
static void settle_in(weir_stream *place, void *native, const struct stand_in *as)
{
    WEIR_ASSERT(place->pool == NULL);
    weir_pool *pool = place->owner;
    WEIR_ASSERT(pool_is_locked(pool));
    place->native = native;
    place->as = as != NULL ? *as : (struct stand_in){0};
    if (as == NULL) {
        (void)weir__number_map_put(&pool->natives, (uint64_t)(uintptr_t)native, place->lane);
    }
    place->serial = ++pool->next_serial;
    place->retired = false;
    place->tag = 0;
    front_set_last(&place->front, FRONT_EMPTY);
    weir__stream_set_front(place, weir__stream_front_block_bytes(place));
    place->pool = pool;
    place->quick = as == NULL && !pool->asks ? pool : NULL;
    weir__lane_note_locked(place);
}

/* Gives the record of a retired stream to a new stream. Another thread may still use the old handle, so this happens
 * under its lock. Returns false if another thread meanwhile took the record or entered the native stream. */
static bool move_in(weir_pool *pool, weir_stream *place, void *native, const struct stand_in *as)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    WEIR_ASSERT(place->owner == pool);
    stream_visit(place);
    pool_lock(pool);
    const bool ours = place->retired && (as != NULL || find_native(pool, native) == NULL);
    if (ours) {
        settle_in(place, native, as);
    }
    pool_unlock(pool);
    stream_unlock(place);
    return ours;
}

/* Returns a stand-in, or the record of a native stream that was unknown a moment ago: makes it, unless another thread
 * has done so meanwhile. Returns NULL when out of host memory. */
static weir_stream *meet(weir_pool *pool, void *native, const struct stand_in *as)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    weir_stream *found = NULL;
    weir_stream *place = NULL;
    bool alone = false;
    do {
        pool_lock(pool);
        found = as == NULL ? find_native(pool, native) : NULL;
        place = found == NULL ? reuse_place(pool) : NULL;
        alone = pool->lanes == 2;
        pool_unlock(pool);
    } while (place != NULL && !move_in(pool, place, native, as));
    found = found != NULL ? found : place;
    if (found == NULL) {
        if (alone) {
            (void)weir__inspect_sample(pool); /* peaks are sampled from the second stream on: saves the exact peaks
                                                 of the first */
        }
        pool_lock(pool);
        found = as == NULL ? find_native(pool, native) : NULL; /* another thread may have entered it meanwhile */
        if (found == NULL && (found = new_place(pool)) != NULL) {
            settle_in(found, native, as);
        }
        pool_unlock(pool);
    }
    return found;
}

weir_stream *weir__stream_add_stand_in(const struct stand_in *as)
{
    return meet(as->of->owner, as->of->native, as);
}

weir_status weir_pool_stream(weir_pool *pool, void *native_stream, weir_stream **stream)
{
    if (pool == NULL || stream == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_stream: %s is NULL", pool == NULL ? "pool" : "stream");
    }
    pool_lock(pool);
    weir_stream *found = find_native(pool, native_stream);
    pool_unlock(pool);
    if (found == NULL) {
        /* Only WEIR_ERR_INVALID counts: a device that cannot check a stream must not prevent frees on it. */
        const weir_status known = weir_device_stream_check(pool->device, native_stream);
        if (known == WEIR_ERR_INVALID) {
            return known; /* the device has set the error message */
        }
        found = meet(pool, native_stream, NULL);
    }
    if (found == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    *stream = found;
    return WEIR_OK;
}

static bool borrows(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->borrows, memory_order_acquire) != NULL;
}

weir_status weir_stream_retire(weir_pool *pool, weir_stream *stream)
{
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_stream_retire", pool, stream);
    }
    if (borrows(stream)) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_stream_retire: the stream borrows memory of graphs; reclaim it first");
    }
    (void)weir__order_flush(stream);
    if (pool->ordered) {
        const weir_status status = weir__order_sync(pool, stream);
        if (status == WEIR_ERR_BUSY) {
            return weir_refuse(status, "weir_stream_retire: the stream is being captured; retire it after the capture");
        }
        if (status != WEIR_OK) {
            return WEIR_ERR_DEVICE;
        }
    }
    weir__order_retire(stream);
    return WEIR_OK;
}

weir_status weir_stream_ended(weir_pool *pool, weir_stream *stream)
{
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_stream_ended", pool, stream);
    }
    if (borrows(stream)) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_stream_ended: the stream borrows memory of graphs; reclaim it first");
    }
    weir__order_retire(stream);
    return WEIR_OK;
}

/* --- events reported by callers --- */

static struct known_event *event_find(const weir_pool *pool, const void *event)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return (struct known_event *)(uintptr_t)weir__number_map_get(&pool->events, (uintptr_t)event);
}

static struct known_event *event_new(weir_pool *pool, const void *event)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct known_event *known = calloc(1, sizeof(*known));
    if (known != NULL && !weir__number_map_put(&pool->events, (uintptr_t)event, (uintptr_t)known)) {
        free(known);
        return NULL;
    }
    return known;
}

static bool event_free(void *ctx, uint64_t event, uint64_t value)
{
    struct known_event *known = (struct known_event *)(uintptr_t)value;
    (void)ctx, (void)event;
    free(known->clock);
    free(known);
    return true;
}

void weir__stream_fini_events(weir_pool *pool)
{
    weir__number_map_each(&pool->events, event_free, NULL);
    weir__number_map_fini(&pool->events);
}

/* Stores the stream's tick and clock in the event. Without host memory for the clock, stores only the stream's own
 * tick: memory may then be reused later than necessary, but never too early. */
static void event_capture(struct known_event *known, const weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    known->lane = stream->lane;
    known->tick = tick;
    if (stream->clock_lanes > known->clock_lanes) {
        weir_tick *clock = realloc(known->clock, stream->clock_lanes * sizeof(*clock));
        if (clock != NULL) {
            known->clock = clock;
            known->clock_lanes = stream->clock_lanes;
        }
    }
    for (size_t lane = 0; lane < known->clock_lanes; lane++) {
        known->clock[lane] = clock_at(stream, (weir_lane)lane);
    }
}

weir_tick weir__stream_close_tick(weir_stream *stream)
{
    stream_visit(stream);
    (void)weir__order_take_in_locked(stream->owner, stream);
    const weir_tick tick = atomic_fetch_add_explicit(&stream->tick, 1, memory_order_relaxed);
    stream_unlock(stream);
    return tick;
}

weir_status weir_stream_recorded(weir_pool *pool, const void *event, weir_stream *stream)
{
    if (pool == NULL || event == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_stream_recorded: %s is NULL", pool == NULL ? "pool" : "event");
    }
    if (stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_stream_recorded", pool, stream);
    }
    weir_stream *captured = stream;
    const weir_status status = weir__capture_route_hint(&captured);
    if (status == WEIR_ERR_BUSY) {
        return weir_event_forgotten(pool, event); /* an order inside a graph that the pool knows nothing of */
    }
    if (status != WEIR_OK) {
        return status;
    }
    const weir_tick tick = weir__stream_close_tick(captured);
    pool_lock(pool);
    struct known_event *known = event_find(pool, event);
    known = known != NULL ? known : event_new(pool, event);
    if (known != NULL) {
        event_capture(known, captured, tick);
    }
    pool_unlock(pool);
    weir__watch_event(pool, WEIR_OBSERVED_RECORDED, event, stream);
    return known != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* True if an order between the two streams counts: both are streams of the program, or both stand for streams of one
 * capture, and `tick` of the first is of the capture under way. Pool lock held. */
static bool is_of_one_capture(const weir_stream *recorded, const weir_stream *waiting, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(recorded->owner));
    return recorded->as.captures == waiting->as.captures && (!is_stand_in(recorded) || tick >= recorded->as.begun);
}

struct weir_capture_pool *weir__stream_told_capture_of(weir_pool *pool, const void *event)
{
    pool_lock(pool);
    const struct known_event *known = event_find(pool, event);
    const weir_stream *stream = known != NULL ? pool->streams[known->lane] : NULL;
    const bool of_capture = stream != NULL && is_stand_in(stream) && known->tick >= stream->as.begun;
    struct weir_capture_pool *captures = of_capture ? stream->as.captures : NULL;
    captures = captures != NULL && captures->graph == 0 && captures->open ? captures : NULL;
    pool_unlock(pool);
    return captures;
}

weir_status weir_stream_waited(weir_pool *pool, weir_stream *stream, const void *event)
{
    if (pool == NULL || event == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_stream_waited: %s is NULL", pool == NULL ? "pool" : "event");
    }
    if (stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_stream_waited", pool, stream);
    }
    weir__watch_event(pool, WEIR_OBSERVED_WAITED, event, stream);
    weir_status status = weir__capture_route_wait(&stream, event);
    if (status != WEIR_OK) {
        return status == WEIR_ERR_BUSY ? WEIR_OK : status; /* the order holds in a graph only */
    }
    pool_lock(pool);
    const struct known_event *known = event_find(pool, event);
    if (known != NULL && is_of_one_capture(pool->streams[known->lane], stream, known->tick)) {
        bool learned = weir__clock_raise_locked(stream, known->lane, known->tick);
        for (size_t lane = 1; lane < known->clock_lanes; lane++) {
            if (known->clock[lane] > 0) {
                learned &= weir__clock_raise_locked(stream, (weir_lane)lane, known->clock[lane]);
            }
        }
        status = learned ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    }
    pool_unlock(pool);
    return status;
}

/* Records that the work of each stream up to tick clock[lane] is complete. Called when the host has seen work with this
 * vector clock complete. Pool lock held. */
static void clock_done(weir_pool *pool, const weir_tick *clock, size_t lanes)
{
    WEIR_ASSERT(pool_is_locked(pool));
    for (size_t lane = 1; lane < lanes && lane < pool->lanes; lane++) {
        weir__order_done_locked(pool->streams[lane], clock[lane]);
    }
}

weir_status weir_stream_synced(weir_pool *pool, weir_stream *stream)
{
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_stream_synced", pool, stream);
    }
    weir_stream *captured = stream;
    const weir_status status = weir__capture_route_hint(&captured);
    if (status != WEIR_OK || captured != stream) {
        return status == WEIR_ERR_BUSY ? WEIR_OK : status; /* work that is captured never completes */
    }
    const weir_tick tick = weir__stream_close_tick(stream);
    pool_lock(pool);
    weir__order_done_locked(stream, tick);
    clock_done(pool, stream->clock, stream->clock_lanes);
    pool_unlock(pool);
    weir__watch_event(pool, WEIR_OBSERVED_SYNCED, NULL, stream);
    return WEIR_OK;
}

weir_status weir_event_synced(weir_pool *pool, const void *event)
{
    if (pool == NULL || event == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_event_synced: %s is NULL", pool == NULL ? "pool" : "event");
    }
    pool_lock(pool);
    const struct known_event *known = event_find(pool, event);
    if (known != NULL && !is_stand_in(pool->streams[known->lane])) {
        weir__order_done_locked(pool->streams[known->lane], known->tick);
        clock_done(pool, known->clock, known->clock_lanes);
    }
    pool_unlock(pool);
    weir__watch_event(pool, WEIR_OBSERVED_SYNCED, event, NULL);
    return WEIR_OK;
}

weir_status weir_event_forgotten(weir_pool *pool, const void *event)
{
    if (pool == NULL || event == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_event_forgotten: %s is NULL", pool == NULL ? "pool" : "event");
    }
    pool_lock(pool);
    const uint64_t known = weir__number_map_take(&pool->events, (uintptr_t)event);
    if (known != 0) {
        (void)event_free(NULL, 0, known);
    }
    pool_unlock(pool);
    return WEIR_OK;
}
