/* callback.c: functions of the user that a stream calls, on a thread that was subscribed to it or on the runtime's
 * thread.
 *
 * There are two families. A report is run by the thread that calls aclrtProcessReport; it may block its stream or not.
 * A host function always blocks. It is run by the thread that calls aclrtProcessHostFunc if one is subscribed to the
 * stream, otherwise by the runtime's own thread.
 *
 * A blocking function is a held task: once its stream has reached it, it goes to the thread that runs it, and the
 * stream goes on when the function has returned. A function that does not block is a kernel without duration, which
 * hands the function over when virtual time reaches it. A recording queued before that kernel gives the work that the
 * function comes after.
 *
 * Guarantee: functions of one family start in the order of their launches on the stream. A function runs after all
 * earlier work of its stream, and later work of the stream comes after a blocking function. The auditor is told of both
 * orders. No function is lost silently: when no thread is left to run it, the stream gets
 * ACL_ERROR_RT_STREAM_NO_CB_REG.
 */
#include "actions/actions.h"
#include "base/report.h"

#include <stdlib.h>

typedef struct acl__subscription acl__subscription;
typedef enum callback_family { REPORT, HOST_FUNC } callback_family;

/* WAITING: the stream has not reached the callback. QUEUED: the callback is in the list of the thread that will run it.
 * RUNNING. OVER: it has returned. ORPHANED: the thread was unsubscribed before it ran the callback. */
typedef enum stage { WAITING, QUEUED, RUNNING, OVER, ORPHANED } stage;

struct callback {
    acl__task task; /* first member */
    acl__job job;
    struct callback *next;
    acl__subscription *runs_it; /* while QUEUED: the subscription that runs the callback; NULL: the runtime's thread */
    acl__stream *stream;
    acl__record *before; /* non-blocking callback: recording of the stream work that comes before it */
    void (*function)(void *data);
    void *data;
    uint64_t number; /* order of queuing */
    callback_family family;
    stage stage;
    bool blocks;
    bool dropped; /* true: the stream has dropped the callback, which must not run */
};

/* A thread that runs callbacks of one family. Exists while streams are subscribed to it or callbacks are left. */
struct acl__subscription {
    acl__subscription *next;
    uint64_t thread;
    callback_family family;
    int32_t device;
    uint32_t streams;
    struct callback *first;
    struct callback **last;
};

enum { MOST_THREADS = 1024 };

static acl__subscription *subscriptions;
static uint32_t subscription_count;
static uint64_t last_number;
/* The subscription of the runtime's own thread. A stream's `report` points to it as soon as the stream has launched a
 * host function for this thread. */
static acl__subscription by_runtime;

/* --- subscriptions --- */

static acl__subscription **slot_of(acl__stream *stream, callback_family family)
{
    return family == REPORT ? &stream->report : &stream->host_func;
}

static acl__subscription *subscription_of(callback_family family, uint64_t thread)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__subscription *s = subscriptions;
    while (s != NULL && (s->family != family || s->thread != thread)) {
        s = s->next;
    }
    return s;
}

static void stream_deleted(acl__stream *stream);

static acl__subscription *subscription_new(callback_family family, uint64_t thread)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(subscription_of(family, thread) == NULL);
    acl__subscription *s = calloc(1, sizeof(*s));
    if (s != NULL) {
        s->family = family;
        s->thread = thread;
        s->last = &s->first;
        s->next = subscriptions;
        subscriptions = s;
        subscription_count++;
        acl__rt.above.stream_deleted = stream_deleted;
    }
    return s;
}

static void subscription_end_if_idle(acl__subscription *s)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (s->streams > 0 || s->first != NULL) {
        return;
    }
    acl__subscription **link = &subscriptions;
    while (*link != s) {
        link = &(*link)->next;
    }
    *link = s->next;
    subscription_count--;
    free(s);
}

static void callback_free(struct callback *c)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__record_release(c->before);
    free(c);
}

/* --- lists of queued callbacks --- */

static void give_to(acl__subscription *s, struct callback *c)
{
    WEIR_ASSERT(c->stage == WAITING && c->runs_it == NULL);
    c->next = NULL;
    c->runs_it = s;
    c->stage = QUEUED;
    c->number = ++last_number;
    *s->last = c;
    s->last = &c->next;
}

static void take_from_queue(struct callback *c)
{
    WEIR_ASSERT(c->stage == QUEUED && c->runs_it != NULL);
    acl__subscription *s = c->runs_it;
    struct callback **link = &s->first;
    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    if (s->last == &c->next) {
        s->last = link;
    }
    c->runs_it = NULL;
}

/* Returns the error for a callback without a thread. The error is the stream's; the calling thread's last error stays
 * unchanged. */
static aclError no_thread_runs_it(void)
{
    acl__report_warning("a stream came to a callback whose thread had been unsubscribed: it was not run");
    return ACL_ERROR_RT_STREAM_NO_CB_REG;
}

/* Ends a callback that has returned or is not to be run. The lock is held. */
static void over(struct callback *c)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(c->stage == RUNNING || c->dropped);
    if (c->blocks && !c->dropped) {
        c->stage = OVER; /* blocking_submit finds OVER and lets the stream go on */
    } else {
        callback_free(c);
    }
}

/* Tells the auditor that the host now knows the stream's work before the callback to be complete. */
static void host_sees(struct callback *c)
{
    WEIR_ASSERT_HELD(acl__mutex());
    bool complete = false;
    if (c->before == NULL) {
        acl__host_saw(c->stream);
    } else if (c->before->submitted) {
        (void)weir_device_event_query(acl__rt.memory, c->before->sim, &complete);
    }
}

/* Runs a callback. Releases the lock while the function runs. */
static void run(struct callback *c)
{
    WEIR_ASSERT_HELD(acl__mutex());
    c->stage = RUNNING;
    host_sees(c);
    acl__unlock();
    c->function(c->data);
    acl__lock();
    over(c);
}

/* --- on the runtime's thread --- */

static struct callback *callback_of_job(acl__job *job)
{
    return (struct callback *)(void *)((char *)job - offsetof(struct callback, job));
}

static void job_run(acl__job *job)
{
    struct callback *c = callback_of_job(job);
    acl__lock();
    const bool dropped = c->dropped;
    if (!dropped) {
        c->stage = RUNNING;
        host_sees(c);
    }
    acl__unlock();
    if (!dropped) {
        c->function(c->data);
    }
}

static void job_done(acl__job *job)
{
    over(callback_of_job(job));
}

/* --- tasks --- */

/* Hands a callback, which its stream has reached, to the thread that runs it. */
static aclError dispatch(struct callback *c)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(c->stage == WAITING && !c->dropped);
    acl__subscription *s = *slot_of(c->stream, c->family);
    if (s != NULL && s != &by_runtime) {
        give_to(s, c);
        return ACL_SUCCESS;
    }
    if (c->family == REPORT) {
        return no_thread_runs_it();
    }
    c->job = (acl__job){.run = job_run, .done = job_done};
    ACL_TRY(acl__engine_post(&c->job));
    c->runs_it = NULL;
    c->stage = QUEUED;
    return ACL_SUCCESS;
}

static aclError blocking_submit(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct callback *c = (struct callback *)(void *)task;
    c->stream = stream;
    switch (c->stage) {
    case WAITING: {
        if (!acl__has_arrived(stream)) {
            return ACL__HELD;
        }
        const aclError error = dispatch(c);
        return error == ACL_SUCCESS ? ACL__HELD : error;
    }
    case OVER:
        return ACL_SUCCESS;
    case ORPHANED:
        return no_thread_runs_it();
    default:
        return ACL__HELD;
    }
}

static void blocking_end(acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct callback *c = (struct callback *)(void *)task;
    if (c->stage == QUEUED && c->runs_it != NULL) {
        acl__subscription *s = c->runs_it;
        take_from_queue(c);
        subscription_end_if_idle(s);
        callback_free(c);
    } else if (c->stage == QUEUED || c->stage == RUNNING) {
        c->dropped = true; /* the thread that runs the callback frees it */
    } else {
        callback_free(c);
    }
}

static const acl__task_ops blocking_ops = {
    .submit = blocking_submit, .end = blocking_end, .awaits = "a function that a thread of the program has to run"};

/* Called when virtual time reaches a callback that does not block its stream. */
static aclError reached(void *ctx)
{
    return dispatch(ctx);
}

static void reached_end(void *ctx)
{
    struct callback *c = ctx;
    if (c->stage == WAITING) {
        callback_free(c);
    }
}

static aclError queue_blocking(acl__stream *stream, struct callback *c)
{
    WEIR_ASSERT(c->blocks);
    c->task.ops = &blocking_ops;
    return acl__queue(stream, &c->task);
}

static aclError queue_non_blocking(acl__stream *stream, struct callback *c)
{
    WEIR_ASSERT(!c->blocks);
    aclError error = ACL_SUCCESS;
    c->before = acl__record_queue(stream, &error);
    if (error != ACL_SUCCESS) {
        callback_free(c);
        return error;
    }
    const acl__kernel kernel = {.tag = "callback", .compute = reached, .end = reached_end, .ctx = c};
    return acl__launch(stream, &kernel);
}

/* A function of the user with its arguments; also the arguments of a step of a capture. */
struct call {
    callback_family family;
    void (*function)(void *);
    void *data;
    bool blocks;
};

static aclError queue_call(acl__stream *stream, void *args)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct call *call = args;
    WEIR_ASSERT(call->function != NULL);
    struct callback *c = calloc(1, sizeof(*c));
    ACL_FAIL_IF(c == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a callback");
    c->stream = stream;
    c->function = call->function;
    c->data = call->data;
    c->family = call->family;
    c->blocks = call->blocks;
    return call->blocks ? queue_blocking(stream, c) : queue_non_blocking(stream, c);
}

static const acl__step_ops call_step = {.name = "callback", .again = queue_call};

/* Captures a call. The thread that is subscribed to the captured stream runs it for the leg's stream. */
static aclError capture_call(acl__stream *stream, const struct call *call)
{
    acl__subscription **of_leg = slot_of(stream->leg->runs, call->family);
    ACL_TRY(acl__capture(stream, &call_step, call, sizeof(*call)));
    if (*of_leg == NULL) {
        *of_leg = *slot_of(stream, call->family);
        if (*of_leg != NULL && *of_leg != &by_runtime) {
            (*of_leg)->streams++;
        }
    }
    return ACL_SUCCESS;
}

static aclError launch(acl__stream *stream, callback_family family, void (*function)(void *), void *data, bool blocks)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct call call = {.family = family, .function = function, .data = data, .blocks = blocks};
    return stream->leg != NULL ? capture_call(stream, &call) : queue_call(stream, &call);
}

/* --- subscribing --- */

static aclError subscribe_locked(callback_family family, uint64_t thread, aclrtStream handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_NEED_STREAM(stream, handle);
    acl__subscription **slot = slot_of(stream, family);
    ACL_FAIL_IF(*slot != NULL, ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d has a thread that runs its callbacks already",
                stream->id);
    acl__subscription *s = subscription_of(family, thread);
    ACL_FAIL_IF(s != NULL && s->streams > 0 && s->device != stream->context->device, ACL_ERROR_RT_THREAD_SUBSCRIBE,
                "the thread runs callbacks of device %d already", s->device);
    ACL_FAIL_IF(s == NULL && subscription_count >= MOST_THREADS, ACL_ERROR_RT_INTERNAL_ERROR,
                "%d threads run callbacks already, and no more can", (int)MOST_THREADS);
    if (s == NULL && (s = subscription_new(family, thread)) == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a subscription");
    }
    s->device = stream->context->device;
    s->streams++;
    *slot = s;
    return ACL_SUCCESS;
}

/* Ends a stream's subscription. A blocking function queued with the thread would now block its stream for ever, so it
 * is taken from the thread. Functions that do not block stay with the thread, which may still process them. */
static void leave(acl__stream *stream, acl__subscription **slot)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(*slot != NULL && *slot != &by_runtime && (*slot)->streams > 0);
    acl__subscription *s = *slot;
    *slot = NULL;
    s->streams--;
    for (struct callback *c = s->first; c != NULL;) {
        struct callback *next = c->next;
        if (c->stream == stream && c->blocks) {
            take_from_queue(c);
            c->stage = c->family == REPORT ? ORPHANED : WAITING; /* the runtime's thread runs host functions */
        }
        c = next;
    }
    subscription_end_if_idle(s);
}

static aclError unsubscribe_locked(callback_family family, uint64_t thread, aclrtStream handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_NEED_STREAM(stream, handle);
    acl__subscription **slot = slot_of(stream, family);
    ACL_FAIL_IF(*slot == NULL || *slot == &by_runtime, ACL_ERROR_RT_STREAM_SUBSCRIBE,
                "no thread is subscribed to stream %d", stream->id);
    ACL_FAIL_IF((*slot)->thread != thread,
                family == REPORT ? ACL_ERROR_RT_THREAD_SUBSCRIBE : ACL_ERROR_RT_STREAM_SUBSCRIBE,
                "another thread is subscribed to stream %d", stream->id);
    leave(stream, slot);
    return ACL_SUCCESS;
}

/* Called for each stream when it is deleted. */
static void stream_deleted(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (callback_family family = REPORT; family <= HOST_FUNC; family++) {
        acl__subscription **slot = slot_of(stream, family);
        if (*slot != NULL && *slot != &by_runtime) {
            leave(stream, slot);
        }
        *slot = NULL;
    }
    for (acl__subscription *s = subscriptions; s != NULL;) {
        acl__subscription *next = s->next;
        for (struct callback *c = s->first; c != NULL;) {
            struct callback *after = c->next;
            if (c->stream == stream) { /* a non-blocking callback: leave() has removed the stream's blocking ones */
                take_from_queue(c);
                callback_free(c);
            }
            c = after;
        }
        subscription_end_if_idle(s);
        s = next;
    }
}

/* --- processing --- */

static uint64_t this_thread(void)
{
    return (uint64_t)pthread_self();
}

/* Waits until a callback is queued for this thread, or the deadline passes. Returns NULL if the thread is not
 * subscribed, or is unsubscribed during the wait. */
static acl__subscription *await(callback_family family, const acl__deadline *deadline)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__subscription *s = subscription_of(family, this_thread());
    bool waits = true;
    while (s != NULL && s->first == NULL && waits) {
        waits = acl__wait_step(0, deadline);
        s = subscription_of(family, this_thread()); /* look again: the wait released the lock */
    }
    return s;
}

/* Runs the callbacks that were queued for the calling thread before this call, oldest first. */
static void run_queued(callback_family family, acl__subscription *s)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint64_t last = last_number;
    while (s != NULL && s->first != NULL && s->first->number <= last) {
        struct callback *c = s->first;
        take_from_queue(c);
        run(c);
        s = subscription_of(family, this_thread());
    }
    if (s != NULL) {
        subscription_end_if_idle(s);
    }
}

static aclError process(callback_family family, int32_t timeout, const char *name)
{
    ACL_HOLD_LOCK();
    const acl__deadline deadline = acl__deadline_in(timeout);
    acl__subscription *s = await(family, &deadline);
    ACL_FAIL_IF(s == NULL, ACL_ERROR_RT_THREAD_SUBSCRIBE, "%s: this thread is not subscribed to a stream", name);
    ACL_FAIL_IF(s->first == NULL, ACL_ERROR_RT_REPORT_TIMEOUT, "%s: nothing came within %d ms", name, timeout);
    run_queued(family, s);
    return ACL_SUCCESS;
}

/* --- public functions --- */

ACL_EXPORT aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    ACL_ENTER_LOCKED(aclrtSubscribeReport);
    return subscribe_locked(REPORT, threadId, stream);
}

ACL_EXPORT aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    ACL_ENTER_LOCKED(aclrtUnSubscribeReport);
    return unsubscribe_locked(REPORT, threadId, stream);
}

ACL_EXPORT aclError aclrtProcessReport(int32_t timeout)
{
    ACL_ENTER(aclrtProcessReport);
    ACL_REFUSE_IF(timeout < -1 || timeout == 0, ACL_ERROR_INVALID_PARAM, "%d ms is no timeout", timeout);
    return process(REPORT, timeout, __func__);
}

ACL_EXPORT aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
                                        aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclrtLaunchCallback);
    ACL_REFUSE_IF(blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK, ACL_ERROR_INVALID_PARAM,
                  "%d is no block type", (int)blockType);
    const bool blocks = blockType == ACL_CALLBACK_BLOCK;
    ACL_NEED_STREAM(stream, handle);
    ACL_REFUSE_IF(fn == NULL, ACL_ERROR_RT_PARAM_INVALID, "fn is NULL");
    ACL_REFUSE_IF(stream->report == &by_runtime, ACL_ERROR_RT_STREAM_SUBSCRIBE,
                  "stream %d has host functions of aclrtLaunchHostFunc; the two do not mix", stream->id);
    ACL_REFUSE_IF(stream->report == NULL, ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread is subscribed to stream %d",
                  stream->id);
    return launch(stream, REPORT, fn, userData, blocks);
}

ACL_EXPORT aclError aclrtLaunchHostFunc(aclrtStream handle, aclrtHostFunc fn, void *args)
{
    ACL_ENTER_LOCKED(aclrtLaunchHostFunc);
    ACL_REFUSE_IF(fn == NULL, ACL_ERROR_RT_PARAM_INVALID, "fn is NULL");
    ACL_NEED_STREAM(stream, handle);
    if (stream->host_func == NULL) { /* the runtime's thread runs it */
        ACL_REFUSE_IF(stream->report != NULL && stream->report != &by_runtime, ACL_ERROR_RT_STREAM_SUBSCRIBE,
                      "a thread of aclrtSubscribeReport is subscribed to stream %d; the two do not mix", stream->id);
        ACL_TRY(acl__engine_need());
        stream->report = &by_runtime;
        acl__rt.above.stream_deleted = stream_deleted;
    }
    return launch(stream, HOST_FUNC, fn, args, true);
}

ACL_EXPORT aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream)
{
    ACL_ENTER_LOCKED(aclrtSubscribeHostFunc);
    ACL_REFUSE_IF(exeStream == NULL, ACL_ERROR_RT_PARAM_INVALID, "the default stream cannot be subscribed");
    return subscribe_locked(HOST_FUNC, hostFuncThreadId, exeStream);
}

ACL_EXPORT aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream)
{
    ACL_ENTER_LOCKED(aclrtUnSubscribeHostFunc);
    ACL_REFUSE_IF(exeStream == NULL, ACL_ERROR_RT_PARAM_INVALID, "stream is NULL");
    return unsubscribe_locked(HOST_FUNC, hostFuncThreadId, exeStream);
}

ACL_EXPORT aclError aclrtProcessHostFunc(int32_t timeout)
{
    ACL_ENTER(aclrtProcessHostFunc);
    ACL_REFUSE_IF(timeout < -1 || timeout == 0, ACL_ERROR_RT_PARAM_INVALID, "%d ms is no timeout", timeout);
    return process(HOST_FUNC, timeout, __func__);
}
