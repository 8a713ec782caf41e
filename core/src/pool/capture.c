/* core/src/pool/capture.c: captured graphs (weir/capture.h).
 *
 * Idea: while a stream is being captured, a stand-in takes its place: another stream record, with a lane, ticks and a
 * clock of its own, for which no device call is ever made. What is freed in the capture is freed on the stand-in, whose
 * ticks are complete when the graph is gone and not before. No other stream is ever ordered after a stand-in, so the
 * rule of stream order keeps the graph's memory out of all other hands. The stand-in's clock knows what its stream knew
 * when the capture began, and hints between the streams of one capture raise the clocks of their stand-ins; so the same
 * rule serves requests inside the capture. A block allocated in a capture has its stand-in as a use (weir_pool_use): a
 * free on any other stream leaves the block pending until the graph is gone.
 *
 * Guarantee: nothing that happens in a capture changes a tick, a clock or a lane of a stream of the program.
 *
 * Cost: a stream of a pool that asks takes the slow path (pool.c) and one call of the device for each block. A capture
 * costs a stream record for each of its streams, which the next graph takes over.
 */
#include "pool/pool.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- entering --- */

static weir_stream *stand_in_of(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->stand_in, memory_order_acquire);
}

/* Returns a stand-in of the captures that stands for no stream now. The first serves only the stream on which captures
 * begin. Returns NULL if there is none. Pool lock held. */
static weir_stream *unused_stand_in(const struct weir_capture_pool *captures, bool begins)
{
    WEIR_ASSERT(pool_is_locked(captures->pool));
    weir_stream *found = captures->first;
    if (!begins && found != NULL) {
        found = found->as.next;
        while (found != NULL && is_standing(found)) {
            found = found->as.next;
        }
    }
    return found;
}

static weir_stream *add_stand_in(struct weir_capture_pool *captures, weir_stream *stream)
{
    WEIR_ASSERT(captures->pool == stream->owner && !is_stand_in(stream));
    const struct stand_in as = {.captures = captures, .of = stream};
    weir_stream *added = weir__stream_add_stand_in(&as);
    if (added != NULL) {
        pool_lock(captures->pool);
        weir_stream **link = &captures->first;
        while (*link != NULL) {
            link = &(*link)->as.next;
        }
        *link = added;
        pool_unlock(captures->pool);
    }
    return added;
}

/* Lets the stand-in know what its stream knows at the beginning of a capture, because the first launch of the graph
 * comes after all that. Without host memory the stand-in knows less. Pool lock held. */
static void inherit(weir_stream *stand_in, weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    (void)weir__clock_raise_locked(stand_in, stream->lane, tick);
    for (size_t lane = 1; lane < stream->clock_lanes; lane++) {
        if (stream->clock[lane] > 0) {
            (void)weir__clock_raise_locked(stand_in, (weir_lane)lane, stream->clock[lane]);
        }
    }
    /* If the capture may take memory of work that is not known to be complete, that work counts like freed memory, so
     * that a poll learns of its end: a graph that is never launched does not wait for it. */
    if (!weir__order_is_quiet_locked(stand_in)) {
        weir__order_freed_locked(stream, tick);
    }
}

/* Makes a stand-in take the place of a stream. `begins`: the capture begins on the stream; else the stream is drawn
 * into it. Returns NULL, and changes nothing, when out of host memory. */
static weir_stream *enter(struct weir_capture_pool *captures, weir_stream *stream, bool begins)
{
    weir_pool *pool = captures->pool;
    WEIR_ASSERT(stream->owner == pool && outside_pool_lock(pool) && outside_stream_lock(stream));
    weir_tick tick = 0;
    if (begins) {
        (void)weir__order_flush(stream);
        tick = weir__stream_close_tick(stream);
    }
    pool_lock(pool);
    weir_stream *stand_in = unused_stand_in(captures, begins);
    pool_unlock(pool);
    stand_in = stand_in != NULL ? stand_in : add_stand_in(captures, stream);
    if (stand_in == NULL) {
        return NULL;
    }
    const weir_tick begun = weir__stream_close_tick(stand_in) + 1;
    stream_visit(stream);
    atomic_store_explicit(&stream->told, captures->graph == 0, memory_order_relaxed);
    stream_unlock(stream);
    pool_lock(pool);
    stand_in->as.of = stream;
    stand_in->as.begun = begun;
    stand_in->native = stream->native;
    if (begins) {
        inherit(stand_in, stream, tick);
        captures->open = true;
        captures->begun++;
    }
    if (!pool->asks) { /* else it is NULL already, and other threads may read it now */
        stream->quick = NULL;
    }
    atomic_store_explicit(&stream->stand_in, stand_in, memory_order_release);
    pool_unlock(pool);
    return stand_in;
}

/* --- captures that the device tells --- */

static void graph_gone(void *arg)
{
    struct graph_watch *watch = arg;
    atomic_store_explicit(&watch->gone, true, memory_order_release);
    weir__graph_watch_release(watch);
}

/* The device may give the number of a graph that is gone to the next one, while memory of the first is not idle yet. */
static bool is_gone(const struct weir_capture_pool *captures)
{
    return captures->watch != NULL && atomic_load_explicit(&captures->watch->gone, memory_order_acquire);
}

static struct weir_capture_pool *find_graph(weir_pool *pool, uint64_t graph)
{
    WEIR_ASSERT(graph != 0);
    pool_lock(pool);
    struct weir_capture_pool *captures = pool->captures;
    while (captures != NULL && (captures->graph != graph || is_gone(captures))) {
        captures = captures->next;
    }
    pool_unlock(pool);
    return captures;
}

static struct weir_capture_pool *new_captures(weir_pool *pool, uint64_t graph)
{
    struct weir_capture_pool *captures = calloc(1, sizeof(*captures));
    if (captures != NULL) {
        captures->pool = pool;
        captures->graph = graph;
        captures->number = atomic_fetch_add_explicit(&pool->captures_made, 1, memory_order_relaxed) + 1;
        atomic_init(&captures->holds, 1);
    }
    return captures;
}

static void add_captures(struct weir_capture_pool *captures)
{
    weir_pool *pool = captures->pool;
    WEIR_ASSERT(captures->next == NULL);
    pool_lock(pool);
    captures->next = pool->captures;
    pool->captures = captures;
    pool_unlock(pool);
}

/* Asks the device to tell when the graph that the stream is captured into is gone. Returns false when out of host
 * memory. */
static bool watch_graph(struct weir_capture_pool *captures, const weir_stream *stream)
{
    struct graph_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return false;
    }
    atomic_init(&watch->holders, 2);
    captures->watch = watch;
    uint64_t graph = 0;
    const weir_status status =
        weir_device_stream_capture(captures->pool->device, stream->native, &graph, graph_gone, watch);
    if (status != WEIR_OK || graph == 0) {
        weir__graph_watch_release(watch); /* the device will not report */
    }
    return true;
}

/* Reports a change of captures that no other thread can end. No lock held. */
static void tell(const struct weir_capture_pool *captures, weir_observed_capture_kind kind)
{
    const weir_observed_capture known = weir__observed_capture(captures, kind);
    weir__watch_capture(captures->pool, &known);
}

/* Two threads may meet the first call of a capture at the same time on two of its streams: then the capture has two
 * records, and its streams share less memory. */
static weir_stream *enter_graph(weir_stream *stream, uint64_t graph)
{
    weir_pool *pool = stream->owner;
    WEIR_ASSERT(pool->asks && stand_in_of(stream) == NULL);
    (void)weir__order_poll(pool); /* what is known to be complete binds no graph; and graphs may be gone */
    struct weir_capture_pool *captures = find_graph(pool, graph);
    if (captures != NULL) {
        return enter(captures, stream, false);
    }
    captures = new_captures(pool, graph);
    if (captures == NULL || !watch_graph(captures, stream)) {
        free(captures);
        return NULL;
    }
    weir_stream *stand_in = enter(captures, stream, true);
    if (stand_in == NULL) {
        weir__order_end_captures(captures);
        return NULL;
    }
    tell(captures,
         WEIR_OBSERVED_CAPTURE_BEGUN); /* now: once they are in the pool's list, another thread may end them */
    add_captures(captures);
    return stand_in;
}

/* Returns the number of the capture that is under way on the stream, by the device; 0: none, or the device did not
 * answer. */
static uint64_t ask(const weir_stream *stream)
{
    uint64_t graph = 0;
    (void)!weir_device_stream_capture(stream->owner->device, stream->native, &graph, NULL, NULL);
    return graph != WEIR_CAPTURE_IMPLICIT ? graph : 0;
}

/* Returns the stand-in of a stream that is in the capture `graph`, or in one that the program has told. Ends the
 * stream's part in a capture that is over. Another thread may end the captures of a graph that is gone at any time, so
 * their record is read under the pool's lock. */
static weir_stream *present_stand_in(const weir_stream *stream, uint64_t graph)
{
    weir_pool *pool = stream->owner;
    weir_observed_capture ended = {.captures = 0};
    pool_lock(pool);
    weir_stream *stand_in = stand_in_of(stream);
    struct weir_capture_pool *captures = stand_in != NULL ? stand_in->as.captures : NULL;
    if (captures != NULL && captures->graph != 0 && (captures->graph != graph || is_gone(captures))) {
        if (captures->open) {
            captures->open = false;
            ended = weir__observed_capture(captures, WEIR_OBSERVED_CAPTURE_ENDED);
        }
        weir__order_leave_capture(stand_in);
        stand_in = NULL;
    }
    pool_unlock(pool);
    if (ended.captures != 0) {
        weir__watch_capture(pool, &ended);
    }
    return stand_in;
}

weir_status weir__capture_route(weir_stream **stream)
{
    const uint64_t graph = (*stream)->owner->asks && !is_stand_in(*stream) ? ask(*stream) : 0;
    if (graph == 0 && stand_in_of(*stream) == NULL) {
        return WEIR_OK;
    }
    weir_stream *stand_in = present_stand_in(*stream, graph);
    if (graph != 0 && stand_in == NULL && (stand_in = enter_graph(*stream, graph)) == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    *stream = stand_in != NULL ? stand_in : *stream;
    return WEIR_OK;
}

weir_status weir__capture_route_hint(weir_stream **stream)
{
    const weir_stream *given = *stream;
    const weir_status status = given->quick == NULL ? weir__capture_route(stream) : WEIR_OK;
    const bool untold = *stream == given && !given->owner->asks && ask(given) != 0;
    return status == WEIR_OK && untold ? WEIR_ERR_BUSY : status;
}

weir_status weir__capture_route_wait(weir_stream **stream, const void *event)
{
    struct weir_capture_pool *captures = weir__stream_told_capture_of((*stream)->owner, event);
    if (captures != NULL && stand_in_of(*stream) == NULL) {
        *stream = enter(captures, *stream, false);
        return *stream != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    }
    return weir__capture_route_hint(stream);
}

void weir__capture_fini(weir_pool *pool)
{
    while (pool->captures != NULL) {
        struct weir_capture_pool *captures = pool->captures;
        pool->captures = captures->next;
        if (captures->watch != NULL) {
            weir__graph_watch_release(captures->watch);
        }
        free(captures);
    }
}

/* --- capture pools --- */

static weir_status check(const char *function, const weir_capture_pool *captures)
{
    return captures != NULL ? WEIR_OK : weir_refuse(WEIR_ERR_INVALID, "%s: captures is NULL", function);
}

weir_status weir_capture_pool_create(weir_pool *pool, weir_capture_pool **captures)
{
    if (pool == NULL || captures == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_capture_pool_create: %s is NULL",
                           pool == NULL ? "pool" : "captures");
    }
    if (!pool->ordered) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_capture_pool_create: the device has no streams to capture");
    }
    struct weir_capture_pool *made = new_captures(pool, 0);
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    (void)!weir_pool_hold(pool);
    *captures = made;
    return WEIR_OK;
}

weir_status weir_capture_pool_hold(weir_capture_pool *captures)
{
    const weir_status status = check("weir_capture_pool_hold", captures);
    if (status == WEIR_OK) {
        (void)atomic_fetch_add_explicit(&captures->holds, 1, memory_order_relaxed);
    }
    return status;
}

weir_status weir_capture_pool_release(weir_capture_pool *captures)
{
    const weir_status status = check("weir_capture_pool_release", captures);
    if (status != WEIR_OK) {
        return status;
    }
    unsigned holds = atomic_load_explicit(&captures->holds, memory_order_relaxed);
    while (holds > 1) {
        if (atomic_compare_exchange_weak_explicit(&captures->holds, &holds, holds - 1, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            return WEIR_OK;
        }
    }
    weir_pool *pool = captures->pool;
    pool_lock(pool);
    const bool open = captures->open;
    const bool lent = captures->lent_to != NULL;
    pool_unlock(pool);
    if (open || lent) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_capture_pool_release: %s first",
                           open ? "a capture is under way; end it" : "memory of the graphs is lent; reclaim it");
    }
    tell(captures, WEIR_OBSERVED_CAPTURES_GONE);
    captures->released = true;
    add_captures(captures);
    (void)weir__order_poll(pool);
    return weir_pool_release(pool);
}

weir_status weir_capture_begin(weir_capture_pool *captures, weir_stream *stream)
{
    weir_status status = check("weir_capture_begin", captures);
    if (status != WEIR_OK) {
        return status;
    }
    weir_pool *pool = captures->pool;
    if (stream == NULL || stream->pool != pool || is_stand_in(stream)) {
        return weir__refuse_stream("weir_capture_begin", pool, stream);
    }
    weir_stream *now = stream;
    status = stream->quick == NULL ? weir__capture_route(&now) : WEIR_OK; /* an earlier capture may be over */
    if (status != WEIR_OK) {
        return status;
    }
    const bool captured = now != stream;
    pool_lock(pool);
    const bool open = captures->open;
    const bool lent = captures->lent_to != NULL;
    captures->open |= !captured && !lent;
    pool_unlock(pool);
    if (open || captured || lent) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_capture_begin: %s",
                           open       ? "the capture pool is in a capture already"
                           : captured ? "the stream is in a capture already"
                                      : "memory of the graphs is lent; reclaim it first");
    }
    stream_visit(stream);
    weir__order_leave_event(stream);
    stream_unlock(stream);
    if (enter(captures, stream, true) == NULL) {
        pool_lock(pool);
        captures->open = false;
        pool_unlock(pool);
        return WEIR_ERR_NO_MEMORY;
    }
    tell(captures, WEIR_OBSERVED_CAPTURE_BEGUN);
    return WEIR_OK;
}

/* Ends the part of a stand-in in a capture. The capture has joined its streams, and the graph's launches end before the
 * next graph's begin: what the next capture does on the first stand-in comes after all of this one. */
static void end_part(weir_stream *stand_in)
{
    WEIR_ASSERT(is_standing(stand_in));
    weir_stream *first = stand_in->as.captures->first;
    const weir_tick tick = weir__stream_close_tick(stand_in);
    pool_lock(stand_in->owner);
    weir__order_leave_capture(stand_in);
    if (stand_in != first) {
        (void)!weir__clock_raise_locked(first, stand_in->lane, tick);
    }
    pool_unlock(stand_in->owner);
}

weir_status weir_capture_end(weir_capture_pool *captures)
{
    const weir_status status = check("weir_capture_end", captures);
    if (status != WEIR_OK) {
        return status;
    }
    weir_pool *pool = captures->pool;
    pool_lock(pool);
    const bool open = captures->open;
    pool_unlock(pool);
    if (!open) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_capture_end: no capture has begun");
    }
    for (weir_stream *stand_in = captures->first; stand_in != NULL; stand_in = stand_in->as.next) {
        if (is_standing(stand_in)) {
            end_part(stand_in);
        }
    }
    tell(captures, WEIR_OBSERVED_CAPTURE_ENDED);
    pool_lock(pool);
    captures->open = false;
    pool_unlock(pool);
    return WEIR_OK;
}

/* --- lending --- */

weir_status weir_capture_lend(weir_capture_pool *captures, weir_stream *stream)
{
    weir_status status = check("weir_capture_lend", captures);
    if (status != WEIR_OK) {
        return status;
    }
    weir_pool *pool = captures->pool;
    if (stream == NULL || stream->pool != pool || is_stand_in(stream)) {
        return weir__refuse_stream("weir_capture_lend", pool, stream);
    }
    weir_stream *now = stream;
    status = stream->quick == NULL ? weir__capture_route(&now) : WEIR_OK;
    if (status != WEIR_OK) {
        return status;
    }
    pool_lock(pool);
    const bool none = captures->first == NULL;
    const bool busy = captures->open || now != stream || captures->lent_to != NULL ||
                      atomic_load_explicit(&stream->borrows, memory_order_relaxed) != NULL;
    if (!none && !busy) {
        captures->lent_to = stream;
        captures->first->as.of = stream;
        captures->first->native = stream->native;
        if (!pool->asks) {
            stream->quick = NULL;
        }
        atomic_store_explicit(&stream->borrows, captures->first, memory_order_release);
    }
    pool_unlock(pool);
    if (none) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_capture_lend: nothing has been captured");
    }
    return busy ? weir_refuse(WEIR_ERR_BUSY, "weir_capture_lend: a capture is under way, or memory is lent already")
                : WEIR_OK;
}

weir_status weir_capture_reclaim(weir_capture_pool *captures)
{
    const weir_status status = check("weir_capture_reclaim", captures);
    if (status != WEIR_OK) {
        return status;
    }
    weir_pool *pool = captures->pool;
    (void)weir__order_poll(pool); /* a block may have waited for work of other streams */
    pool_lock(pool);
    weir_stream *stream = captures->lent_to;
    const uint64_t bytes = captures->lent_bytes;
    if (stream != NULL && bytes == 0) {
        captures->lent_to = NULL;
        if (!pool->asks && stand_in_of(stream) == NULL) {
            stream->quick = pool;
        }
        atomic_store_explicit(&stream->borrows, NULL, memory_order_release);
    }
    pool_unlock(pool);
    if (stream == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_capture_reclaim: no memory is lent");
    }
    return bytes == 0
               ? WEIR_OK
               : weir_refuse(WEIR_ERR_BUSY, "weir_capture_reclaim: %" PRIu64 " bytes of lent memory are in use", bytes);
}

/* --- counters --- */

/* Returns the bytes of blocks from outside of captures that were freed in a capture, while work from before the capture
 * is not known to be complete: their memory has not gone to the stand-ins yet. Pool lock held. */
static uint64_t pending_bytes(const struct weir_capture_pool *captures)
{
    WEIR_ASSERT(pool_is_locked(captures->pool));
    uint64_t bytes = 0;
    for (const weir_block *block = captures->pool->pending; block != NULL; block = block_uses(block)->next) {
        const struct weir_use *use = block_uses(block)->stand_in == 0 ? block_uses(block)->first : NULL;
        while (use != NULL && use->stream->as.captures != captures) {
            use = use->next;
        }
        bytes += use != NULL ? block_capacity(block) : 0;
    }
    return bytes;
}

weir_status weir_capture_get_stats(weir_capture_pool *captures, weir_capture_stats *stats)
{
    const weir_status status = check("weir_capture_get_stats", captures);
    if (status != WEIR_OK) {
        return status;
    }
    weir_pool *pool = captures->pool;
    weir_capture_stats facts = WEIR_CAPTURE_STATS_INIT;
    pool_lock(pool);
    facts.captures = captures->begun;
    facts.free_bytes = pending_bytes(captures);
    for (const weir_stream *stand_in = captures->first; stand_in != NULL; stand_in = stand_in->as.next) {
        weir_lane_stats lane = WEIR_LANE_STATS_INIT;
        pool->strategy->lane_stats(pool->state, stand_in->lane, &lane);
        facts.free_bytes += lane.bytes;
        facts.live_bytes += stand_in->as.live_bytes;
    }
    facts.lent_bytes = captures->lent_bytes;
    pool_unlock(pool);
    return weir_struct_report(stats, &facts, sizeof(facts), "weir_capture_get_stats: stats");
}
