/* event.c: events.
 *
 * Idea: each recording is an object of its own, the record. A wait binds to the record that is the latest at the time
 * of the call, so recording the event again, or destroying it, changes nothing for waits that were queued before. While
 * a stream is held up by the host its record is not submitted; waits for that record are held as well.
 *
 * There are three kinds of events, named after the calls that make them. They differ while nothing is recorded. Waiting
 * for an Ex event then does nothing. Waiting for an event of aclrtCreateEvent is an error. An event of
 * aclrtCreateEventWithFlag is a bare flag of the hardware: the stream stops until the event is recorded.
 *
 * A reset clears the flag of the hardware and keeps the host's view: the event stays complete, with its time. A stream
 * that comes to a wait for it after the reset stops. An event of aclrtCreateEventWithFlag has one flag, so the stream
 * goes on when the event is recorded again. An event of aclrtCreateEvent gets another flag with each recording, so the
 * stream stops for ever. The stream also stops for ever if the event is destroyed.
 *
 * The answers follow the vendor's source, hicann/runtime 681ef7610, src/runtime/core/src/event/event.cc.
 */
#include "base/report.h"
#include "streams/streams.h"

#include <stdlib.h>
#include <string.h>

typedef enum event_kind { PLAIN, FLAG, EX } event_kind;

/* The driver's own flag for events of aclrtCreateEvent; callers may pass it too. */
enum { DRIVER_SYNC = 4, WAITABLE = ACL_EVENT_SYNC | DRIVER_SYNC | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC };

struct acl__event {
    void *link; /* used by the slab */
    event_kind kind;
    uint32_t flags;
    uint32_t references; /* reference count: one for the handle, one for each queued wait or reset */
    bool live;
    acl__record *latest;
    bool is_reset;           /* true: the event was reset after its latest recording was queued */
    uint64_t reset_ns;       /* virtual time at which the event's reset takes effect */
    int32_t stream_id;       /* id of the stream with the latest recording */
    acl__point *point;       /* its latest recording in a capture that is under way; NULL: none */
    uint32_t record_flag;    /* 1 plus the flag that the event was first recorded with; 0: not recorded */
    uint32_t wait_flag;      /* the same for waits */
    uint32_t queued_waits;   /* number of streams' waits not yet submitted to the simulator */
    uint64_t waits_until_ns; /* latest virtual time at which a submitted wait for the event ends */
};

static weir__slab events = WEIR__SLAB_INIT(acl__event, 0, 64);
static weir__slab records = WEIR__SLAB_INIT(acl__record, 0, 64);
static uint32_t event_count;

/* --- records --- */

/* Creates a recording with one reference. Its simulator event stays with the slab object for the next use. */
acl__record *acl__record_new(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__record *record = weir__slab_get(&records);
    if (record == NULL || (record->sim == NULL && weir_device_event_create(acl__rt.memory, &record->sim) != WEIR_OK)) {
        if (record != NULL) {
            weir__slab_put(&records, record);
        }
        (void)acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for recording an event");
        return NULL;
    }
    record->references = 1;
    WEIR_ASSERT(record->sim != NULL);
    record->submitted = false;
    record->dropped = false;
    record->is_reset = false;
    record->waits_begin_ns = 0;
    record->time_ns = 0;
    return record;
}

void acl__record_release(acl__record *record)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(record == NULL || record->references > 0);
    if (record != NULL && --record->references == 0) {
        weir__slab_put(&records, record);
    }
}

static acl__record *record_hold(acl__record *record)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(record->references > 0);
    record->references++;
    return record;
}

/* True if the recording is complete (all stream work before it has ended), or was dropped. */
static bool is_complete(const acl__record *record)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return record->dropped || (record->submitted && record->time_ns <= weir_sim_now(acl__rt.sim));
}

/* Tells the auditor that the host now knows the recording to be complete. */
static void host_saw(const acl__record *record)
{
    WEIR_ASSERT(record->dropped || record->submitted);
    bool complete = false;
    if (!record->dropped) {
        (void)weir_device_event_query(acl__rt.memory, record->sim, &complete);
    }
}

/* Returns the virtual time at which the stream reaches a task that is submitted now. */
static uint64_t arrival(const acl__stream *stream)
{
    const uint64_t tail = weir_sim_stream_tail(acl__rt.sim, stream->sim);
    const uint64_t now = weir_sim_now(acl__rt.sim);
    return tail > now ? tail : now;
}

struct record_task {
    acl__task task; /* first member */
    acl__record *record;
};

static aclError record_submit(acl__stream *stream, acl__task *task)
{
    acl__record *record = ((struct record_task *)(void *)task)->record;
    WEIR_ASSERT(!record->submitted && !record->dropped);
    const weir_status status = weir_device_event_record(acl__rt.memory, record->sim, stream->sim);
    if (status == WEIR_OK) {
        record->submitted = true;
        record->time_ns = arrival(stream); /* on an idle stream the recording is complete at once */
    }
    return acl__status(status, "recording an event");
}

static void record_end(acl__task *task)
{
    acl__record *record = ((struct record_task *)(void *)task)->record;
    record->dropped = !record->submitted;
    acl__record_release(record);
    free(task);
}

static aclError join_submit(acl__stream *stream, acl__task *task)
{
    return acl__record_join(stream, ((struct record_task *)(void *)task)->record);
}

static void join_end(acl__task *task)
{
    acl__record_release(((struct record_task *)(void *)task)->record);
    free(task);
}

static const acl__task_ops record_ops = {.submit = record_submit, .end = record_end};
static const acl__task_ops join_ops = {
    .submit = join_submit, .end = join_end, .awaits = "a recording behind a stopped stream"};

static aclError queue_for(acl__stream *stream, const acl__task_ops *ops, acl__record *record)
{
    struct record_task *task = calloc(1, sizeof(*task));
    ACL_FAIL_IF(task == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a task");
    task->task.ops = ops;
    task->record = record_hold(record);
    return acl__queue(stream, &task->task);
}

acl__record *acl__record_queue(acl__stream *stream, aclError *error)
{
    acl__record *record = acl__record_new();
    *error = record != NULL ? queue_for(stream, &record_ops, record) : ACL_ERROR_RT_MEMORY_ALLOCATION;
    if (*error != ACL_SUCCESS) {
        acl__record_release(record);
        record = NULL;
    }
    return record;
}

acl__record *acl__record_now(acl__stream *stream)
{
    acl__record *record = acl__record_new();
    struct record_task task = {.record = record};
    if (record != NULL && record_submit(stream, &task.task) != ACL_SUCCESS) {
        acl__record_release(record);
        record = NULL;
    }
    return record;
}

aclError acl__record_queue_as(acl__stream *stream, acl__record *record)
{
    WEIR_ASSERT(!record->submitted);
    return queue_for(stream, &record_ops, record);
}

aclError acl__record_wait_queue(acl__stream *stream, acl__record *record)
{
    return queue_for(stream, &join_ops, record);
}

aclError acl__record_join(acl__stream *stream, acl__record *record)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (record->dropped) {
        return ACL_SUCCESS;
    }
    if (!record->submitted) {
        return ACL__HELD;
    }
    return acl__status(weir_device_stream_wait_event(acl__rt.memory, stream->sim, record->sim), "waiting for an event");
}

/* --- events --- */

static void event_release(acl__event *event)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(event->references > 0);
    if (--event->references == 0) {
        acl__record_release(event->latest);
        event->latest = NULL;
        weir__slab_retire(&events, event, acl__rt.config.handle_rest);
    }
}

static aclError event_of(aclrtEvent handle, acl__event **event)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "the event is NULL");
    ACL_FAIL_IF(!weir__slab_owns(&events, handle) || !((acl__event *)handle)->live, ACL_ERROR_RT_INVALID_HANDLE,
                "%p is not a live event", handle);
    *event = handle;
    return ACL_SUCCESS;
}

/* Declares `event` as the live event of a handle. If there is no such event, the calling function returns the error. */
#define NEED_EVENT(event, handle)                                                                                      \
    acl__event *event = NULL;                                                                                          \
    ACL_TRY(event_of(handle, &(event)))

/* Refuses an event that is for the device's own use: streams may not record it, reset it or wait for it. */
static aclError is_for_streams(const acl__event *event)
{
    return event->flags != ACL_EVENT_DEVICE_USE_ONLY
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_PARAM_INVALID, "the event is for the device's own use");
}

static aclError check_not_captured(const acl__event *event)
{
    ACL_FAIL_IF(event->point != NULL, ACL_ERROR_RT_EVENT_CAPTURED, "the event was recorded in a capture under way");
    return ACL_SUCCESS;
}

/* Refuses an event if the host may not query its state and times, and while it is part of a capture. */
static aclError is_for_host(const acl__event *event, bool ipc_too)
{
    ACL_FAIL_IF(event->flags == ACL_EVENT_EXTERNAL || (!ipc_too && event->flags == ACL_EVENT_IPC),
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not for an event with the flags 0x%x", event->flags);
    return check_not_captured(event);
}

/* True if the flags are valid: a combination of flags that may be combined, or one flag that must stand alone. */
static bool are_flags(event_kind kind, uint32_t flags)
{
    enum { COMBINED = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | DRIVER_SYNC | ACL_EVENT_TIME_LINE };
    if (flags != 0 && (flags & ~(uint32_t)COMBINED) == 0) {
        return true;
    }
    return kind == EX ? flags == ACL_EVENT_IPC : flags == ACL_EVENT_DEVICE_USE_ONLY || flags == ACL_EVENT_EXTERNAL;
}

static aclError create(aclrtEvent *handle, event_kind kind, uint32_t flags, const char *name)
{
    ACL_FAIL_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "%s: event is NULL", name);
    ACL_FAIL_IF(!are_flags(kind, flags), ACL_ERROR_RT_PARAM_INVALID, "%s: 0x%x are no flags of an event", name, flags);
    ACL_FAIL_IF(flags == ACL_EVENT_DEVICE_USE_ONLY && acl__rt.config.old_driver, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: an old driver has no events for the device's own use", name);
    ACL_HOLD_LOCK();
    ACL_NEED_CONTEXT(context);
    ACL_FAIL_IF(event_count >= acl__rt.config.event_limit, ACL_ERROR_RT_NO_EVENT_RESOURCE,
                "the device has %u events and no more", acl__rt.config.event_limit);
    acl__event *event = weir__slab_get(&events);
    ACL_FAIL_IF(event == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for an event");
    memset(event, 0, sizeof(*event));
    event->kind = kind;
    event->flags = flags;
    event->references = 1;
    event->live = true;
    event_count++;
    *handle = event;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtCreateEvent(aclrtEvent *event)
{
    ACL_ENTER(aclrtCreateEvent);
    return create(event, PLAIN, DRIVER_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE, __func__);
}

ACL_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    ACL_ENTER(aclrtCreateEventWithFlag);
    return create(event, (flag & (ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL)) != 0 ? FLAG : PLAIN, flag, __func__);
}

ACL_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    ACL_ENTER(aclrtCreateEventExWithFlag);
    return create(event, EX, flag, __func__);
}

ACL_EXPORT aclError aclrtDestroyEvent(aclrtEvent handle)
{
    ACL_ENTER_LOCKED(aclrtDestroyEvent);
    NEED_EVENT(event, handle); /* an event may be destroyed before it is complete: a queued wait keeps the recording */
    WEIR_ASSERT(event_count > 0);
    event->live = false;
    acl__capture_forget(&event->point);
    event_count--;
    event_release(event);
    return ACL_SUCCESS;
}

/* Records an event at the end of the stream's queue. */
static aclError record_now(acl__stream *stream, acl__event *event)
{
    WEIR_ASSERT_HELD(acl__mutex());
    aclError error = ACL_SUCCESS;
    acl__record *record = acl__record_queue(stream, &error);
    ACL_TRY(error);
    acl__record_release(event->latest);
    event->latest = record;
    event->is_reset = false;
    event->stream_id = stream->id;
    if (acl__rt.above.recorded != NULL) {
        acl__rt.above.recorded(event, stream);
    }
    return ACL_SUCCESS;
}

/* --- events of the program in a graph: each execution records, awaits or resets the event itself --- */

static aclError record_again(acl__stream *on, void *args)
{
    return record_now(on, *(acl__event **)args);
}

static void event_step_end(void *args)
{
    event_release(*(acl__event **)args);
}

static const acl__step_ops record_step = {.name = "external record", .again = record_again, .end = event_step_end};

static aclError capture_event(acl__stream *stream, const acl__step_ops *ops, acl__event *event)
{
    ACL_TRY(acl__capture(stream, ops, &event, sizeof(event)));
    event->references++;
    return ACL_SUCCESS;
}

/* True if the graph records the event, or waits for it, as the program's own. */
static bool has_event_step(const acl__graph *graph, const acl__event *event)
{
    for (const acl__step *step = graph->first; step != NULL; step = step->next) {
        if (step->ops->end == event_step_end && *(acl__event *const *)(const void *)step->args == event) {
            return true;
        }
    }
    return false;
}

/* Captures the use of an event that orders the graph's executions with other work (ACL_EVENT_RECORD_EXTERNAL and
 * ACL_EVENT_WAIT_EXTERNAL). */
static aclError capture_external(acl__stream *stream, const acl__step_ops *ops, acl__event *event)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(stream->leg == NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream->id);
    ACL_FAIL_IF(acl__rt.config.old_driver, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not with an old driver");
    ACL_FAIL_IF(stream->leg->graph->branch_of != NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not in a branch");
    ACL_FAIL_IF(has_event_step(stream->leg->graph, event), ACL_ERROR_RT_PARAM_INVALID,
                "the graph uses the event already");
    return capture_event(stream, ops, event);
}

/* Refuses a flag that differs from the one of the event's first such call, and one that the event is not made for. */
static aclError check_flag(const acl__event *event, uint32_t *first, uint32_t flag)
{
    ACL_FAIL_IF(flag != 0 && (event->kind != EX || event->flags != ACL_EVENT_SYNC), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "only for an event of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC");
    ACL_FAIL_IF(*first != 0 && *first != flag + 1, ACL_ERROR_RT_PARAM_INVALID,
                "the event was used with the other flag before");
    *first = flag + 1;
    return ACL_SUCCESS;
}

static aclError record_on_captured(acl__stream *stream, acl__event *event)
{
    if (event->flags == ACL_EVENT_EXTERNAL) {
        return capture_event(stream, &record_step, event);
    }
    ACL_FAIL_IF(event->kind != EX, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "a captured stream records events of aclrtCreateEventExWithFlag only");
    return (event->flags & WAITABLE) != 0 ? acl__capture_record(stream, &event->point) : ACL_SUCCESS;
}

static aclError record_event(aclrtEvent handle, aclrtStream stream_handle, uint32_t flag)
{
    NEED_EVENT(event, handle);
    ACL_TRY(is_for_streams(event));
    ACL_TRY(check_flag(event, &event->record_flag, flag));
    ACL_NEED_STREAM(stream, stream_handle);
    if (flag == ACL_EVENT_RECORD_EXTERNAL) {
        return capture_external(stream, &record_step, event);
    }
    return stream->leg != NULL ? record_on_captured(stream, event) : record_now(stream, event);
}

ACL_EXPORT aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtRecordEvent);
    return record_event(handle, stream_handle, ACL_EVENT_RECORD_DEFAULT);
}

ACL_EXPORT aclError aclrtRecordEventWithFlag(aclrtEvent handle, aclrtStream stream_handle, uint32_t flag)
{
    ACL_ENTER_LOCKED(aclrtRecordEventWithFlag);
    ACL_REFUSE_IF(flag != ACL_EVENT_RECORD_DEFAULT && flag != ACL_EVENT_RECORD_EXTERNAL, ACL_ERROR_INVALID_PARAM,
                  "there is no flag %u", flag);
    return record_event(handle, stream_handle, flag);
}

/* --- waits and resets of streams, as tasks --- */

struct event_task {
    acl__task task; /* first member */
    acl__event *event;
    /* wait: the recording to wait for, or NULL for the event's latest one when the stream reaches the wait; reset: the
     * event's latest recording at the time of the call */
    acl__record *record;
};

static aclError wait_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct event_task *w = (struct event_task *)(void *)task;
    WEIR_ASSERT(w->event->queued_waits > 0);
    const uint64_t begin_ns = arrival(stream);
    acl__record *record = w->record;
    if (record == NULL && !(w->event->is_reset && begin_ns >= w->event->reset_ns)) {
        record = w->event->latest;
    }
    if (record == NULL || (record->is_reset && begin_ns >= record->reset_ns)) {
        return ACL__HELD;
    }
    const bool is_needed = w->event->kind == FLAG || !is_complete(record);
    const aclError error = acl__record_join(stream, record);
    if (error == ACL_SUCCESS && is_needed && begin_ns > record->waits_begin_ns) {
        record->waits_begin_ns = begin_ns;
    }
    const uint64_t tail = weir_sim_stream_tail(acl__rt.sim, stream->sim);
    if (error == ACL_SUCCESS && tail > w->event->waits_until_ns) {
        w->event->waits_until_ns = tail;
    }
    return error;
}

static void event_end(acl__task *task)
{
    struct event_task *t = (struct event_task *)(void *)task;
    acl__record_release(t->record);
    event_release(t->event);
    free(t);
}

static void wait_end(acl__task *task)
{
    WEIR_ASSERT(((struct event_task *)(void *)task)->event->queued_waits > 0);
    ((struct event_task *)(void *)task)->event->queued_waits--;
    event_end(task);
}

/* Resets an event. A later recording cancels the reset of a PLAIN event for the host, even if the stream reaches the
 * reset after that recording. On a device, a wait that was queued before the reset and is reached after it stops its
 * stream. In the simulator that wait is over already, so the report has a warning. */
static aclError reset_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct event_task *t = (struct event_task *)(void *)task;
    WEIR_ASSERT(t->event->references > 0);
    if (t->record != NULL) {
        if (t->record->waits_begin_ns > arrival(stream)) {
            acl__report_warning(
                "an event was reset before a stream had come to its wait for it: on a device that stream "
                "may wait for ever");
        }
        t->record->is_reset = t->event->kind == PLAIN;
        t->record->reset_ns = arrival(stream);
    }
    if (t->event->kind == FLAG || t->event->latest == t->record) {
        t->event->is_reset = true;
        t->event->reset_ns = arrival(stream);
    }
    return ACL_SUCCESS;
}

static const acl__task_ops wait_ops = {
    .submit = wait_submit, .end = wait_end, .awaits = "an event that is not recorded, or was reset since"};
static const acl__task_ops reset_ops = {.submit = reset_submit, .end = event_end};

static aclError queue_task(acl__stream *stream, const acl__task_ops *ops, acl__event *event, acl__record *record)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(event->references > 0);
    struct event_task *task = calloc(1, sizeof(*task));
    ACL_FAIL_IF(task == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a task");
    task->task.ops = ops;
    task->event = event;
    task->record = record != NULL ? record_hold(record) : NULL;
    event->references++;
    event->queued_waits += ops == &wait_ops ? 1 : 0;
    return acl__queue(stream, &task->task);
}

/* Makes the stream wait for the event's latest recording. */
static aclError wait_now(acl__stream *stream, acl__event *event)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (event->latest != NULL) {
        ACL_TRY(event->is_reset ? acl__engine_need() : ACL_SUCCESS);
        const bool is_of_flag = event->kind == FLAG && event->is_reset;
        ACL_TRY(queue_task(stream, &wait_ops, event, is_of_flag ? NULL : event->latest));
        if (acl__rt.above.waited != NULL) {
            acl__rt.above.waited(stream, event);
        }
        return ACL_SUCCESS;
    }
    switch (event->kind) {
    case EX:
        return ACL_SUCCESS;
    case FLAG:
        ACL_TRY(acl__engine_need());
        return queue_task(stream, &wait_ops, event, NULL);
    default:
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "the event has not been recorded");
    }
}

/* An execution waits for the recording that is the latest by then. An event of aclrtCreateEventWithFlag is a flag: what
 * counts is its state when the leg has come to the wait. */
static aclError wait_again(acl__stream *on, void *args)
{
    acl__event *event = *(acl__event **)args;
    if (event->kind != FLAG) {
        return wait_now(on, event);
    }
    ACL_TRY(acl__engine_need());
    return queue_task(on, &wait_ops, event, NULL);
}

static aclError reset_again(acl__stream *on, void *args)
{
    acl__event *event = *(acl__event **)args;
    return queue_task(on, &reset_ops, event, event->latest);
}

static const acl__step_ops wait_step = {.name = "external wait", .again = wait_again, .end = event_step_end};
static const acl__step_ops reset_step = {.name = "external reset", .again = reset_again, .end = event_step_end};

static aclError wait_on_captured(acl__stream *stream, acl__event *event)
{
    if (event->flags == ACL_EVENT_EXTERNAL) {
        return capture_event(stream, &wait_step, event);
    }
    ACL_FAIL_IF(event->kind != EX, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "a captured stream waits for events of aclrtCreateEventExWithFlag only");
    ACL_FAIL_IF(event->latest != NULL, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                "the event was recorded outside of the capture: ACL_EVENT_WAIT_EXTERNAL is for such an event");
    return ACL_SUCCESS;
}

static aclError wait_event(aclrtStream stream_handle, aclrtEvent handle, uint32_t flag)
{
    NEED_EVENT(event, handle);
    ACL_NEED_STREAM(stream, stream_handle);
    ACL_TRY(is_for_streams(event));
    ACL_FAIL_IF((event->flags & WAITABLE) == 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "the event cannot be waited for: it was made without ACL_EVENT_SYNC");
    ACL_TRY(check_flag(event, &event->wait_flag, flag));
    if (flag == ACL_EVENT_WAIT_EXTERNAL) {
        return capture_external(stream, &wait_step, event);
    }
    if (event->point != NULL) {
        return acl__capture_wait(stream, event->point);
    }
    return stream->leg != NULL ? wait_on_captured(stream, event) : wait_now(stream, event);
}

ACL_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream_handle, aclrtEvent handle)
{
    ACL_ENTER_LOCKED(aclrtStreamWaitEvent);
    return wait_event(stream_handle, handle, ACL_EVENT_WAIT_DEFAULT);
}

/* A stream of the simulated device waits without a time-out. */
ACL_EXPORT aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream_handle, aclrtEvent handle, int32_t timeout)
{
    ACL_ENTER_LOCKED(aclrtStreamWaitEventWithTimeout);
    ACL_REFUSE_IF(timeout < 0, ACL_ERROR_RT_PARAM_INVALID, "timeout is negative");
    ACL_REFUSE_IF(timeout > 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a time-out is not simulated");
    return wait_event(stream_handle, handle, ACL_EVENT_WAIT_DEFAULT);
}

ACL_EXPORT aclError aclrtStreamWaitEventWithFlag(aclrtStream stream_handle, aclrtEvent handle, uint32_t timeout,
                                                 uint32_t flag)
{
    ACL_ENTER_LOCKED(aclrtStreamWaitEventWithFlag);
    ACL_REFUSE_IF(flag != ACL_EVENT_WAIT_DEFAULT && flag != ACL_EVENT_WAIT_EXTERNAL, ACL_ERROR_INVALID_PARAM,
                  "there is no flag %u", flag);
    ACL_REFUSE_IF(timeout > 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a time-out is not simulated");
    return wait_event(stream_handle, handle, flag);
}

static aclError not_for_ex(const acl__event *event, const char *name)
{
    return event->kind != EX
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: not for events of aclrtCreateEventExWithFlag", name);
}

ACL_EXPORT aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtResetEvent);
    NEED_EVENT(event, handle);
    ACL_TRY(is_for_streams(event));
    ACL_TRY(not_for_ex(event, __func__));
    ACL_REFUSE_IF((event->flags & WAITABLE) == 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "no stream waits for such an event");
    ACL_NEED_STREAM(stream, stream_handle);
    if (stream->leg != NULL) {
        ACL_REFUSE_IF(event->flags != ACL_EVENT_EXTERNAL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                      "a captured stream resets events with ACL_EVENT_EXTERNAL only");
        return capture_event(stream, &reset_step, event);
    }
    return queue_task(stream, &reset_ops, event, event->latest);
}

/* --- queries by the host --- */

static void tell_seen(const acl__event *event)
{
    if (acl__rt.above.event_seen != NULL) {
        acl__rt.above.event_seen(event);
    }
}

/* Returns true if the event is complete. Returns `unrecorded` if the event was never recorded. Each query costs time,
 * so that time passes for a program that polls. */
static bool poll(const acl__event *event, bool unrecorded)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__ask();
    const bool complete = event->latest != NULL ? is_complete(event->latest) : unrecorded;
    if (complete && event->latest != NULL) {
        host_saw(event->latest);
        tell_seen(event);
    }
    return complete;
}

ACL_EXPORT aclError aclrtQueryEvent(aclrtEvent handle, aclrtEventStatus *status)
{
    ACL_ENTER_LOCKED(aclrtQueryEvent);
    ACL_NEED(status);
    NEED_EVENT(event, handle);
    ACL_TRY(not_for_ex(event, __func__));
    ACL_TRY(is_for_host(event, false));
    *status = poll(event, true) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus *status)
{
    ACL_ENTER_LOCKED(aclrtQueryEventStatus);
    ACL_NEED(status);
    NEED_EVENT(event, handle);
    ACL_TRY(is_for_host(event, true));
    *status = poll(event, event->kind == EX) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

/* COMPLETE if all waits of streams for the event are over; an event without waits is COMPLETE. */
ACL_EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus *status)
{
    ACL_ENTER_LOCKED(aclrtQueryEventWaitStatus);
    ACL_NEED(status);
    NEED_EVENT(event, handle);
    ACL_TRY(not_for_ex(event, __func__));
    ACL_TRY(is_for_host(event, false));
    (void)poll(event, true);
    *status = event->queued_waits == 0 && event->waits_until_ns <= weir_sim_now(acl__rt.sim)
                  ? ACL_EVENT_WAIT_STATUS_COMPLETE
                  : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

/* Waits until a recording is complete; `timeout_ms` -1: no limit. The caller holds a reference to the recording. */
static aclError wait_for(const acl__record *record, int64_t timeout_ms)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(record->references > 0);
    const acl__deadline deadline = acl__deadline_in(timeout_ms);
    while (!is_complete(record)) {
        ACL_FAIL_IF(!acl__wait_step(record->submitted ? record->time_ns : 0, &deadline),
                    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event is not complete after %lld ms", (long long)timeout_ms);
    }
    if (record->dropped) {
        return ACL_SUCCESS;
    }
    return acl__status(weir_device_event_sync(acl__rt.memory, record->sim), "waiting for an event");
}

static aclError synchronize_locked(aclrtEvent handle, int64_t timeout_ms)
{
    ACL_HOLD_LOCK();
    NEED_EVENT(event, handle);
    ACL_TRY(is_for_host(event, true));
    if (event->latest == NULL) { /* without a recording there is nothing to wait for */
        return ACL_SUCCESS;
    }
    acl__record *record = record_hold(event->latest);
    const aclError error = wait_for(record, timeout_ms);
    if (error == ACL_SUCCESS && event->live && event->latest == record) {
        tell_seen(event);
    }
    acl__record_release(record);
    return error;
}

static aclError synchronize(aclrtEvent handle, int64_t timeout_ms)
{
    const aclError error = synchronize_locked(handle, timeout_ms);
    acl__exceptions_report();
    return error;
}

ACL_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    ACL_ENTER(aclrtSynchronizeEvent);
    return synchronize(event, -1);
}

ACL_EXPORT aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    ACL_ENTER(aclrtSynchronizeEventWithTimeout);
    ACL_REFUSE_IF(timeout == 0 || timeout < -1,
                  event == NULL && timeout == 0 ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_PARAM_INVALID,
                  "%d ms is no timeout", timeout);
    return synchronize(event, timeout);
}

/* --- times --- */

static aclError is_not_captured(aclrtEvent handle)
{
    NEED_EVENT(event, handle);
    return check_not_captured(event);
}

static aclError time_of(aclrtEvent handle, uint64_t *time_ns)
{
    NEED_EVENT(event, handle);
    ACL_TRY(is_for_host(event, false));
    /* in the vendor's runtime all events keep the time */
    if ((event->flags & ACL_EVENT_TIME_LINE) == 0 && acl__rt.config.strict) {
        return acl__fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event keeps no time: it was made without "
                                                               "ACL_EVENT_TIME_LINE");
    }
    ACL_FAIL_IF(event->latest == NULL, ACL_ERROR_RT_INTERNAL_ERROR, "the event is not recorded");
    ACL_FAIL_IF(!is_complete(event->latest), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event is not complete");
    *time_ns = event->latest->time_ns;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    ACL_ENTER_LOCKED(aclrtEventElapsedTime);
    ACL_NEED(ms);
    uint64_t start = 0;
    uint64_t end = 0;
    ACL_TRY(is_not_captured(startEvent)); /* both are looked at before any time */
    ACL_TRY(is_not_captured(endEvent));
    ACL_TRY(time_of(startEvent, &start));
    ACL_TRY(time_of(endEvent, &end));
    *ms = (float)(((double)end - (double)start) / 1e6);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
    ACL_ENTER_LOCKED(aclrtEventGetTimestamp);
    ACL_NEED(timestamp);
    uint64_t time_ns = 0;
    ACL_TRY(time_of(event, &time_ns));
    *timestamp = time_ns / 1000;
    return ACL_SUCCESS;
}
