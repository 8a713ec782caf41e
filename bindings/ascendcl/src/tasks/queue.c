/* queue.c: tasks, and waiting.
 *
 * Idea: the simulator knows the end time of work as soon as it is queued, so a task goes to the simulator at once. Some
 * tasks end only after the host has acted: a callback, a value that another task writes, an event that was not recorded
 * yet. Such a task is held, together with all tasks after it on its stream. After every change the heads of these lists
 * are submitted again. Streams without such tasks never have a list.
 *
 * Waiting lets virtual time pass from one end of a stream's work to the next, up to the requested time. Only when no
 * work is under way does a thread really wait, until another thread changes something.
 */
#include "base/report.h"
#include "tasks/tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t questions; /* number of queries of progress since a task was last queued */

/* --- tasks --- */

void acl__tasks_end(acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    while (task != NULL) {
        acl__task *next = task->next;
        task->ops->end(task);
        task = next;
    }
}

static void hold(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT(*stream->held_last == NULL);
    task->next = NULL;
    *stream->held_last = task;
    stream->held_last = &task->next;
    acl__rt.held_tasks++;
}

void acl__stream_forget_abort(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (stream->error == ACL_ERROR_RT_STREAM_ABORT && !stream->stopped) {
        stream->error = ACL_SUCCESS;
    }
}

aclError acl__queue(acl__stream *stream, acl__task *task)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(stream->live && stream->sim != NULL);
    WEIR_ASSERT(task->ops->submit != NULL && task->ops->end != NULL);
    aclError error = ACL_SUCCESS;
    questions = 0;
    acl__task_name(task);
    acl__stream_forget_abort(stream);
    if (stream->leg != NULL || stream->exchanges != NULL) {
        return acl__queue_for_graph(stream, task);
    }
    if (stream->stopped) {
        error = acl__fail(stream->error != ACL_SUCCESS ? stream->error : ACL_ERROR_RT_STREAM_ABORT,
                          "the stream takes no more tasks since one failed");
    } else {
        error = stream->held_first != NULL ? ACL__HELD : task->ops->submit(stream, task);
    }
    if (error == ACL__HELD) {
        hold(stream, task);
        acl__pump();
        return ACL_SUCCESS;
    }
    task->ops->end(task);
    return error;
}

/* --- held tasks, and failure --- */

void acl__queue_drop(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__task *task = stream->held_first;
    stream->held_first = NULL;
    stream->held_last = &stream->held_first;
    while (task != NULL) {
        acl__task *next = task->next;
        acl__rt.held_tasks--;
        if (task == stream->submitting) {
            stream->submitting = NULL;
        } else {
            task->ops->end(task);
        }
        task = next;
    }
}

/* Returns the stream that gets the error of a task: for a task of a graph, the stream that executes the graph. */
static acl__stream *blamed(acl__stream *stream)
{
    acl__stream *carrier = stream->carrier;
    return carrier != NULL && carrier->live && carrier->id == stream->carrier_id ? carrier : stream;
}

void acl__stream_fail(acl__stream *ran, const acl__task *task, aclError error)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(error != ACL_SUCCESS);
    acl__stream *stream = blamed(ran);
    if (stream->error == ACL_SUCCESS) {
        stream->error = error;
    }
    acl__exception(stream, task, error);
    if (!stream->stop_on_failure) {
        return;
    }
    for (acl__stream *other = acl__rt.first_stream; other != NULL; other = other->next) {
        if (other->context == stream->context && !other->stopped) {
            other->stopped = true;
            other->error = other->error != ACL_SUCCESS ? other->error : error;
            acl__queue_drop(other);
            (void)weir_sim_stream_break(acl__rt.sim, other->sim);
        }
    }
}

/* Submits the held tasks of a stream, oldest first, as far as possible. Returns true if any task left the list. */
static bool pump_stream(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    bool any = false;
    while (stream->held_first != NULL) {
        acl__task *task = stream->held_first;
        stream->submitting = task;
        /* a submit may let virtual time pass, in which other work may fail */
        const aclError error = task->ops->submit(stream, task);
        if (stream->submitting == task && error != ACL__HELD && error != ACL_SUCCESS) {
            acl__stream_fail(stream, task, error);
        }
        if (stream->submitting != task) { /* a failure during the submit has dropped the task */
            task->ops->end(task);
            return true;
        }
        stream->submitting = NULL;
        if (error == ACL__HELD) {
            break;
        }
        stream->held_first = task->next;
        if (stream->held_first == NULL) {
            stream->held_last = &stream->held_first;
        }
        acl__rt.held_tasks--;
        task->ops->end(task);
        any = true;
    }
    WEIR_ASSERT((stream->held_first == NULL) == (stream->held_last == &stream->held_first));
    return any;
}

void acl__pump(void)
{
    bool again = acl__rt.held_tasks > 0;
    while (again) {
        again = false;
        for (acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
            again = pump_stream(stream) || again;
        }
    }
}

bool acl__has_arrived(const acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return weir_sim_stream_tail(acl__rt.sim, stream->sim) <= weir_sim_now(acl__rt.sim);
}

/* --- waiting --- */

void acl__changed(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__pump();
    if (acl__rt.waiters > 0) {
        (void)pthread_cond_broadcast(&acl__rt.changed);
    }
}

void acl__unlock(void)
{
    acl__changed();
    (void)pthread_mutex_unlock(acl__mutex());
}

static struct timespec real_time_in(int64_t ms)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += (time_t)(ms / 1000);
    time.tv_nsec += (long)(ms % 1000) * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    return time;
}

acl__deadline acl__deadline_in(int64_t timeout_ms)
{
    WEIR_ASSERT(timeout_ms >= -1);
    acl__deadline deadline = {.virtual_ns = UINT64_MAX};
    if (timeout_ms >= 0) {
        deadline.is_set = true;
        deadline.virtual_ns = weir_sim_now(acl__rt.sim) + (uint64_t)timeout_ms * 1000000;
        deadline.real = real_time_in(timeout_ms);
    }
    return deadline;
}

uint64_t acl__next_end(uint64_t now)
{
    WEIR_ASSERT_HELD(acl__mutex());
    uint64_t next = UINT64_MAX;
    for (const acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
        const uint64_t tail = weir_sim_stream_tail(acl__rt.sim, stream->sim);
        if (tail > now && tail < next) {
            next = tail;
        }
    }
    return next;
}

void acl__ask(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    enum { QUESTION_NS = 1000, BEFORE_DOUBLING = 64, MOST_DOUBLINGS = 24 };
    const uint64_t now = weir_sim_now(acl__rt.sim);
    const uint64_t next = acl__next_end(now); /* UINT64_MAX: no work is under way */
    const uint64_t patient = (uint64_t)QUESTION_NS << (questions / BEFORE_DOUBLING);
    questions += questions < BEFORE_DOUBLING * MOST_DOUBLINGS ? 1 : 0;
    uint64_t until = now + QUESTION_NS;
    if (next != UINT64_MAX && next > until) {
        until = now + (patient < next - now ? patient : next - now);
    }
    weir_sim_advance_to(acl__rt.sim, until);
    acl__pump();
}

/* A thread waits for ever if no stream moves and no other thread acts. So the first wait that takes this long names the
 * streams that are stopped, once in a process. */
enum { NAMES_AFTER_MS = 2000 };

static void name_stopped(void)
{
    static bool named;
    for (const acl__stream *stream = acl__rt.first_stream; stream != NULL && !named; stream = stream->next) {
        if (stream->held_first != NULL && stream->held_first->ops->awaits != NULL) {
            acl__report_stopped(stream->id, stream->held_first->ops->awaits);
        }
    }
    named = acl__rt.held_tasks > 0;
}

/* Waits until another thread changes the runtime's state. Returns false if the deadline passes first. */
static bool wait_for_change(const acl__deadline *deadline)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(acl__rt.waiters > 0);
    if (deadline->is_set) {
        return pthread_cond_timedwait(&acl__rt.changed, acl__mutex(), &deadline->real) != ETIMEDOUT;
    }
    const struct timespec patience = real_time_in(NAMES_AFTER_MS);
    if (pthread_cond_timedwait(&acl__rt.changed, acl__mutex(), &patience) == ETIMEDOUT) {
        name_stopped();
    }
    return true;
}

bool acl__wait_step(uint64_t target_ns, const acl__deadline *deadline)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__pump();
    const uint64_t now = weir_sim_now(acl__rt.sim);
    if (deadline->is_set && now >= deadline->virtual_ns) {
        return false;
    }
    uint64_t next = target_ns > now ? target_ns : acl__next_end(now);
    if (next != UINT64_MAX) {
        weir_sim_advance_to(acl__rt.sim, next < deadline->virtual_ns ? next : deadline->virtual_ns);
        acl__changed();
        return true;
    }
    acl__rt.waiters++;
    const bool more = wait_for_change(deadline);
    acl__rt.waiters--;
    return more;
}

void acl__host_saw(acl__stream *stream)
{
    WEIR_ASSERT_HELD(acl__mutex());
    (void)weir_device_stream_sync(acl__rt.memory, stream->sim);
}
