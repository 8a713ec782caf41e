/* stream.c: time, streams, events and the work queued on them.
 *
 * Idea: a stream is one number, its tail: the time at which the last work queued on it ends. Work starts at the later
 * of the tail and the host's now. A wait raises the tail to the time that the event captured, a query compares times,
 * and a synchronisation moves the host's clock. So all times are known as soon as work is queued, and nothing has to be
 * simulated in between. Guarantee: exact for devices that run all streams at once without slowing any of them down.
 * Cost: O(1) for each call, apart from the auditor's share and the effects that become due.
 */
#include "sim_internal.h"

#include <string.h>

/* --- refusals --- */

weir_status weir__sim_null(const char *function, const char *argument)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function, argument);
}

static weir_status no_stream(const char *function, const void *handle)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: stream %p is not one of this simulator's, or was destroyed", function,
                       handle);
}

static weir_status no_event(const char *function, const void *handle)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: event %p is not one of this simulator's, or was destroyed", function,
                       handle);
}

/* --- time --- */

uint64_t weir_sim_now(weir_sim *sim)
{
    weir__sim_lock(sim);
    uint64_t now = sim->now;
    weir__sim_unlock(sim);
    return now;
}

void weir_sim_advance(weir_sim *sim, uint64_t ns)
{
    weir__sim_lock(sim);
    weir__sim_reach(sim, weir__sim_plus(sim->now, ns));
    weir__sim_unlock(sim);
}

void weir_sim_advance_to(weir_sim *sim, uint64_t now_ns)
{
    weir__sim_lock(sim);
    weir__sim_reach(sim, now_ns);
    weir__sim_unlock(sim);
}

/* Makes the host wait until `target`, and until another thread's running host function has returned. */
static void wait_until(weir_sim *sim, uint64_t target)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_effects_settle(sim);
    weir__sim_reach(sim, target);
}

weir_status weir_sim_sync(weir_sim *sim)
{
    if (sim == NULL) {
        return weir__sim_null("weir_sim_sync", "sim");
    }
    weir__sim_lock(sim);
    weir_status status = WEIR_OK;
    uint64_t last = sim->ended_tail;
    for (const weir_sim_stream *stream = sim->first_stream; stream != NULL; stream = stream->next) {
        last = weir__sim_later(last, stream->tail);
    }
    WEIR__SIM_TELL(sim, weir__sim_audit_saw_all(sim->audit));
    wait_until(sim, last);
    for (const weir_sim_stream *stream = sim->first_stream; stream != NULL; stream = stream->next) {
        status = stream->broken ? WEIR_ERR_DEVICE : status;
    }
    weir__sim_unlock(sim);
    return status;
}

/* Returns 75 % to 125 % of `ns`, chosen by the seed and the number of the operation. */
static uint64_t with_jitter(const weir_sim *sim, uint64_t ns)
{
    if (sim->config.seed == 0) {
        return ns;
    }
    uint64_t mixed = sim->config.seed + sim->operations * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    uint64_t fraction = (mixed ^ (mixed >> 31)) >> 48; /* in 1/65,536 */
    uint64_t half = ns / 2;
    WEIR_ASSERT(fraction <= UINT16_MAX);
    uint64_t part = (half >> 16) * fraction + (((half & 0xffffu) * fraction) >> 16);
    return weir__sim_plus(ns - ns / 4, part);
}

/* --- streams --- */

static weir_sim_stream *stream_new(weir_sim *sim)
{
    weir_sim_stream *stream = weir__slab_get(&sim->streams);
    if (stream == NULL) {
        return NULL;
    }
    memset(stream, 0, sizeof(*stream));
    stream->sim = sim;
    stream->number = sim->stream_count++;
    stream->live = true;
    stream->next = sim->first_stream;
    WEIR_ASSERT(sim->first_stream == NULL || sim->first_stream->previous == NULL);
    if (stream->next != NULL) {
        stream->next->previous = stream;
    }
    sim->first_stream = stream;
    return stream;
}

weir_status weir__sim_streams_init(weir_sim *sim)
{
    sim->streams = (weir__slab)WEIR__SLAB_INIT(weir_sim_stream, 0, 16);
    sim->events = (weir__slab)WEIR__SLAB_INIT(weir__sim_event, 0, 64);
    sim->default_stream = stream_new(sim);
    return sim->default_stream != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

void weir__sim_streams_fini(weir_sim *sim)
{
    for (weir__sim_event *event = sim->all_events; event != NULL; event = event->next) {
        weir__sim_clock_fini(&event->clock);
    }
    weir__slab_fini(&sim->events);
    weir__slab_fini(&sim->streams);
}

weir_sim_stream *weir__sim_stream_find(weir_sim *sim, const void *native)
{
    WEIR_ASSERT_HELD(&sim->lock);
    if (native == NULL) {
        return sim->default_stream;
    }
    if (!weir__slab_owns(&sim->streams, native)) {
        return NULL;
    }
    weir_sim_stream *stream = (weir_sim_stream *)(uintptr_t)native;
    return stream->live ? stream : NULL;
}

weir_sim_stream *weir__sim_stream_numbered(weir_sim *sim, uint32_t number)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir_sim_stream *stream = sim->first_stream;
    while (stream != NULL && stream->number != number) {
        stream = stream->next;
    }
    return stream;
}

void weir__sim_stream_fail(weir_sim *sim, weir_sim_stream *stream)
{
    WEIR_ASSERT_HELD(&sim->lock);
    WEIR_ASSERT(stream->live && stream->sim == sim);
    if (!stream->broken) {
        stream->broken = true;
        stream->broken_at = sim->now;
        stream->tail = stream->tail < sim->now ? stream->tail : sim->now;
        weir__sim_effects_drop(sim, stream->number);
    }
}

/* Returns the device's answer on a broken stream, which tells the host that none of the stream's work runs any more. */
static weir_status broken(weir_sim *sim, uint32_t number)
{
    WEIR_ASSERT_HELD(&sim->lock);
    WEIR_ASSERT(number < sim->stream_count);
    WEIR__SIM_TELL(sim, weir__sim_audit_saw_broken(sim->audit, number));
    return WEIR_ERR_DEVICE;
}

/* Finds the stream with the handle `native`, to queue work on it. Refuses an unknown or broken stream. */
static weir_status usable(weir_sim *sim, const char *function, const void *native, weir_sim_stream **stream)
{
    weir_sim_stream *found = weir__sim_stream_find(sim, native);
    if (found == NULL) {
        return no_stream(function, native);
    }
    WEIR_ASSERT(found->sim == sim && found->number < sim->stream_count);
    if (found->broken) {
        return broken(sim, found->number);
    }
    *stream = found;
    return WEIR_OK;
}

weir_status weir__sim_stream_check(weir_sim *sim, const void *native)
{
    return weir__sim_stream_find(sim, native) != NULL ? WEIR_OK : no_stream("weir_pool_stream", native);
}

weir_sim_stream *weir_sim_default_stream(weir_sim *sim)
{
    return sim->default_stream;
}

weir_status weir_sim_stream_create(weir_sim *sim, weir_sim_stream **stream)
{
    if (sim == NULL || stream == NULL) {
        return weir__sim_null("weir_sim_stream_create", sim == NULL ? "sim" : "stream");
    }
    weir__sim_lock(sim);
    weir_sim_stream *created = stream_new(sim);
    if (created != NULL) {
        *stream = created;
        WEIR__SIM_TELL(sim, weir__sim_audit_stream_created(sim->audit));
    }
    weir__sim_unlock(sim);
    return created != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

weir_status weir_sim_stream_destroy(weir_sim *sim, weir_sim_stream *stream)
{
    static const char function[] = "weir_sim_stream_destroy";
    if (sim == NULL || stream == NULL) {
        return weir__sim_null(function, sim == NULL ? "sim" : "stream");
    }
    weir__sim_lock(sim);
    weir_sim_stream *found = weir__sim_stream_find(sim, stream);
    if (found == NULL || found == sim->default_stream) {
        weir__sim_unlock(sim);
        return found == NULL ? no_stream(function, stream)
                             : weir_refuse(WEIR_ERR_INVALID,
                                           "%s: stream is the default stream, which ends with the simulator", function);
    }
    sim->ended_tail = weir__sim_later(sim->ended_tail, found->tail);
    WEIR__SIM_TELL(sim, weir__sim_audit_stream_ended(sim->audit, found->number));
    WEIR_ASSERT(found->previous != NULL || sim->first_stream == found);
    found->live = false;
    if (found->previous != NULL) {
        found->previous->next = found->next;
    } else {
        sim->first_stream = found->next;
    }
    if (found->next != NULL) {
        found->next->previous = found->previous;
    }
    weir__slab_put(&sim->streams, found);
    weir__sim_unlock(sim);
    return WEIR_OK;
}

uint64_t weir_sim_stream_tail(weir_sim *sim, weir_sim_stream *stream)
{
    weir__sim_lock(sim);
    const weir_sim_stream *found = weir__sim_stream_find(sim, stream);
    uint64_t tail = found != NULL ? found->tail : 0;
    weir__sim_unlock(sim);
    return tail;
}

uint32_t weir_sim_stream_number(weir_sim_stream *stream)
{
    return stream != NULL ? stream->number : UINT32_MAX;
}

weir_status weir_sim_stream_break(weir_sim *sim, weir_sim_stream *stream)
{
    if (sim == NULL) {
        return weir__sim_null("weir_sim_stream_break", "sim");
    }
    weir__sim_lock(sim);
    weir_sim_stream *found = weir__sim_stream_find(sim, stream);
    if (found != NULL) {
        weir__sim_stream_fail(sim, found);
        weir__sim_reach(sim, sim->now);
    }
    weir__sim_unlock(sim);
    return found != NULL ? WEIR_OK : no_stream("weir_sim_stream_break", stream);
}

/* --- work --- */

/* One piece of work to be queued on a stream. */
struct piece {
    const char *function; /* public function that queues the piece */
    const char *what;
    const char *tag;
    uint64_t duration_ns;
    uint64_t cost_ns; /* host time of queuing it */
    const weir_sim_access *accesses;
    size_t access_count;
    bool has_effect;
    weir__sim_effect effect;
};

/* Queues a piece of work. The lock is held. */
static weir_status queue(weir_sim *sim, weir_sim_stream *native, struct piece *p)
{
    WEIR_ASSERT_HELD(&sim->lock);
    WEIR_ASSERT(p->access_count == 0 || p->accesses != NULL);
    WEIR_ASSERT(!p->has_effect || p->effect.kind != WEIR__SIM_CALL || p->effect.function != NULL);
    weir__sim_reach(sim, weir__sim_plus(sim->now, p->cost_ns));
    weir_sim_stream *stream = NULL;
    weir_status status = usable(sim, p->function, native, &stream);
    if (status == WEIR_OK && p->has_effect) {
        status = weir__sim_effects_reserve(&sim->effects);
    }
    if (status != WEIR_OK) {
        return status;
    }
    sim->operations++;
    uint64_t start = weir__sim_later(stream->tail, sim->now);
    uint64_t end = weir__sim_plus(start, with_jitter(sim, p->duration_ns));
    uint32_t number = stream->number;
    stream->tail = end;
    weir__sim_op *op = NULL;
    if (sim->audit != NULL) {
        weir__sim_op_info info = {.what = p->what, .tag = p->tag, .start_ns = start, .end_ns = end};
        op = weir__sim_audit_work(sim->audit, number, &info, p->accesses, p->access_count);
    }
    if (p->has_effect) {
        p->effect.at = end;
        p->effect.number = sim->operations;
        p->effect.stream = number;
        p->effect.op = op;
        if (op != NULL && p->effect.host != NULL) {
            weir__sim_audit_host_copy(sim->audit, op, (uint64_t)(uintptr_t)p->effect.host, p->effect.size);
        }
        weir__sim_effects_push(sim, &p->effect);
        weir__sim_reach(sim, sim->now); /* the effect may be due at once */
    } else if (op != NULL) {
        weir__sim_audit_release(sim->audit, op);
    }
    if (sim->config.no_ordering) {
        WEIR__SIM_TELL(sim, weir__sim_audit_saw_stream(sim->audit, number));
        weir__sim_reach(sim, end);
    }
    return WEIR_OK;
}

weir_status weir_sim_launch(weir_sim *sim, weir_sim_stream *stream, const weir_sim_work *work)
{
    static const char function[] = "weir_sim_launch";
    if (sim == NULL || work == NULL) {
        return weir__sim_null(function, sim == NULL ? "sim" : "work");
    }
    weir_sim_work adopted;
    if (work->struct_size != sizeof(*work)) {
        weir_status status = weir_struct_adopt(&adopted, sizeof(adopted), work, "weir_sim_launch: work");
        if (status != WEIR_OK) {
            return status;
        }
        work = &adopted;
    }
    if (work->access_count > 0 && work->accesses == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: accesses is NULL and access_count is %zu", function,
                           work->access_count);
    }
    if (work->dropped != NULL && work->host_function == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: dropped is set and host_function is NULL", function);
    }
    struct piece p;
    p.function = function;
    p.what = work->host_function != NULL && !work->kernel ? "host function" : "kernel";
    p.tag = work->tag;
    p.duration_ns = work->duration_ns;
    p.cost_ns = work->no_launch_cost ? 0 : sim->config.costs.launch_ns;
    p.accesses = work->accesses;
    p.access_count = work->access_count;
    p.has_effect = work->host_function != NULL;
    if (p.has_effect) {
        p.effect = (weir__sim_effect){.kind = WEIR__SIM_CALL,
                                      .is_kernel = work->kernel,
                                      .function = work->host_function,
                                      .dropped = work->dropped,
                                      .ctx = work->host_ctx};
    }
    weir__sim_lock(sim);
    weir_status status = queue(sim, stream, &p);
    weir__sim_unlock(sim);
    return status;
}

/* Queues a fill or copy. A range of size 0 in `accesses` is ignored. */
static weir_status transfer(const char *function, weir_sim *sim, weir_sim_stream *stream, const char *tag,
                            uint64_t ns_per_mib, const weir_sim_access accesses[2], const weir__sim_effect *effect)
{
    struct piece p = {.function = function,
                      .what = effect->kind == WEIR__SIM_FILL ? "fill" : "copy",
                      .tag = tag,
                      .duration_ns = weir__sim_price(sim->config.costs.transfer_ns, ns_per_mib, effect->size),
                      .cost_ns = sim->config.costs.launch_ns,
                      .accesses = accesses,
                      .access_count = 2,
                      .has_effect = sim->config.mode == WEIR_SIM_BACKED,
                      .effect = *effect};
    weir__sim_lock(sim);
    weir_status status = WEIR_OK;
    if (effect->size > 0) {
        status = queue(sim, stream, &p);
    } else if (weir__sim_stream_find(sim, stream) == NULL) {
        status = no_stream(function, stream);
    }
    weir__sim_unlock(sim);
    return status;
}

weir_status weir_sim_fill(weir_sim *sim, weir_sim_stream *stream, uint64_t address, uint64_t size, uint8_t value,
                          const char *tag)
{
    if (sim == NULL) {
        return weir__sim_null("weir_sim_fill", "sim");
    }
    const weir_sim_access accesses[2] = {{.address = address, .size = size, .write = true}};
    const weir__sim_effect effect = {.kind = WEIR__SIM_FILL, .to = address, .size = size, .value = value};
    return transfer("weir_sim_fill", sim, stream, tag, sim->config.costs.fill_ns_per_mib, accesses, &effect);
}

weir_status weir_sim_copy(weir_sim *sim, weir_sim_stream *stream, uint64_t to, uint64_t from, uint64_t size,
                          const char *tag)
{
    if (sim == NULL) {
        return weir__sim_null("weir_sim_copy", "sim");
    }
    const weir_sim_access accesses[2] = {{.address = from, .size = size}, {.address = to, .size = size, .write = true}};
    const weir__sim_effect effect = {.kind = WEIR__SIM_COPY, .to = to, .from = from, .size = size};
    return transfer("weir_sim_copy", sim, stream, tag, sim->config.costs.device_copy_ns_per_mib, accesses, &effect);
}

weir_status weir_sim_copy_from_host(weir_sim *sim, weir_sim_stream *stream, uint64_t to, const void *from,
                                    uint64_t size, const char *tag)
{
    if (sim == NULL || (from == NULL && size > 0)) {
        return weir__sim_null("weir_sim_copy_from_host", sim == NULL ? "sim" : "from");
    }
    const weir_sim_access accesses[2] = {{.address = to, .size = size, .write = true}};
    const weir__sim_effect effect = {
        .kind = WEIR__SIM_COPY_FROM_HOST, .to = to, .size = size, .host = (void *)(uintptr_t)from};
    return transfer("weir_sim_copy_from_host", sim, stream, tag, sim->config.costs.host_copy_ns_per_mib, accesses,
                    &effect);
}

weir_status weir_sim_copy_to_host(weir_sim *sim, weir_sim_stream *stream, void *to, uint64_t from, uint64_t size,
                                  const char *tag)
{
    if (sim == NULL || (to == NULL && size > 0)) {
        return weir__sim_null("weir_sim_copy_to_host", sim == NULL ? "sim" : "to");
    }
    const weir_sim_access accesses[2] = {{.address = from, .size = size}};
    const weir__sim_effect effect = {.kind = WEIR__SIM_COPY_TO_HOST, .from = from, .size = size, .host = to};
    return transfer("weir_sim_copy_to_host", sim, stream, tag, sim->config.costs.host_copy_ns_per_mib, accesses,
                    &effect);
}

/* --- events --- */

static weir__sim_event *event_find(weir_sim *sim, const weir_event *handle)
{
    WEIR_ASSERT_HELD(&sim->lock);
    if (handle == NULL || !weir__slab_owns(&sim->events, handle)) {
        return NULL;
    }
    weir__sim_event *event = (weir__sim_event *)(uintptr_t)handle;
    return event->live ? event : NULL;
}

/* True if the event captured work that was dropped when its stream broke. */
static bool has_failed(const weir__sim_event *event)
{
    const weir_sim_stream *stream = event->stream;
    return event->recorded && stream->live && stream->number == event->number && stream->broken &&
           event->time > stream->broken_at;
}

weir_status weir__sim_event_create(weir_sim *sim, weir_event **handle)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_event *event = weir__slab_get(&sim->events);
    if (event == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    WEIR_ASSERT(!event->live);
    if (!event->known) { /* first use of this event's memory: all members are zero */
        event->known = true;
        event->next = sim->all_events;
        sim->all_events = event;
    }
    event->clock.count = 0; /* keep the allocated memory for reuse */
    event->stream = NULL;
    event->time = 0;
    event->live = true;
    event->recorded = false;
    *handle = (weir_event *)(void *)event;
    return WEIR_OK;
}

weir_status weir__sim_event_destroy(weir_sim *sim, weir_event *handle)
{
    weir__sim_event *event = event_find(sim, handle);
    if (event == NULL) {
        return no_event("weir_device_event_destroy", handle);
    }
    /* The program may destroy the event before the captured work ends: a stream that waits for this work has its own
     * copy of the event's time and clock. */
    WEIR_ASSERT(event->known);
    event->live = false;
    weir__slab_put(&sim->events, event);
    return WEIR_OK;
}

weir_status weir__sim_event_record(weir_sim *sim, weir_event *handle, void *native)
{
    weir__sim_event *event = event_find(sim, handle);
    weir_sim_stream *stream = NULL;
    static const char function[] = "weir_device_event_record";
    weir_status status = event != NULL ? usable(sim, function, native, &stream) : no_event(function, handle);
    if (status != WEIR_OK) {
        return status;
    }
    WEIR_ASSERT(stream->live);
    event->recorded = true;
    event->stream = stream;
    event->number = stream->number;
    event->time = stream->tail;
    WEIR__SIM_TELL(sim, weir__sim_audit_recorded(sim->audit, stream->number, &event->clock));
    return WEIR_OK;
}

static void saw(weir_sim *sim, const weir__sim_event *event)
{
    WEIR__SIM_TELL(sim, weir__sim_audit_saw_event(sim->audit, &event->clock));
}

weir_status weir__sim_event_query(weir_sim *sim, weir_event *handle, bool *complete)
{
    weir__sim_event *event = event_find(sim, handle);
    if (event == NULL) {
        return no_event("weir_device_event_query", handle);
    }
    if (has_failed(event)) {
        return broken(sim, event->number);
    }
    /* A host function may still run in another thread, although virtual time is past its start. */
    *complete = event->time <= sim->now && !weir__sim_effects_unsettled(sim);
    if (*complete) {
        saw(sim, event);
    }
    return WEIR_OK;
}

weir_status weir__sim_event_sync(weir_sim *sim, weir_event *handle)
{
    weir__sim_event *event = event_find(sim, handle);
    if (event == NULL) {
        return no_event("weir_device_event_sync", handle);
    }
    if (!has_failed(event)) {
        /* Take the event's clock before waiting: another thread may record the event again during the wait. */
        saw(sim, event);
        wait_until(sim, event->time);
    }
    return event->live && has_failed(event) ? broken(sim, event->number) : WEIR_OK;
}

weir_status weir__sim_stream_wait_event(weir_sim *sim, void *native, weir_event *handle)
{
    weir__sim_event *event = event_find(sim, handle);
    weir_sim_stream *stream = NULL;
    static const char function[] = "weir_device_stream_wait_event";
    weir_status status = event != NULL ? usable(sim, function, native, &stream) : no_event(function, handle);
    if (status != WEIR_OK) {
        return status;
    }
    if (has_failed(event)) {
        return broken(sim, event->number);
    }
    stream->tail = weir__sim_later(stream->tail, event->time);
    WEIR__SIM_TELL(sim, weir__sim_audit_waited(sim->audit, stream->number, &event->clock));
    return WEIR_OK;
}

weir_status weir__sim_stream_sync(weir_sim *sim, void *native)
{
    weir_sim_stream *stream = NULL;
    weir_status status = usable(sim, "weir_device_stream_sync", native, &stream);
    if (status != WEIR_OK) {
        return status;
    }
    uint32_t number = stream->number;
    WEIR__SIM_TELL(sim, weir__sim_audit_saw_stream(sim->audit, number));
    wait_until(sim, stream->tail);
    /* During the wait the stream may have broken, or another thread may have destroyed it. */
    return stream->live && stream->number == number && stream->broken ? broken(sim, number) : WEIR_OK;
}
