/* queue.c: tasks, waiting, and the runtime's own thread.
 *
 * Idea: the simulator knows the end time of work as soon as it is queued, so a task goes to the simulator at once. Some
 * tasks end only after the host has acted: a callback, a value that another task writes, an event that was not recorded
 * yet. Such a task is held, together with all tasks after it on its stream. After every change the heads of these lists
 * are submitted again. Streams without such tasks never have a list.
 *
 * Waiting lets virtual time pass from one end of a stream's work to the next, up to the requested time. Only when no
 * work is under way does a thread really wait, until another thread changes something.
 *
 * The engine is a thread that runs host functions. Once it exists, time also passes when no call has come for a
 * millisecond: a program may poll a flag in its memory instead of calling the runtime.
 */
#include "report.h"
#include "runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t waiters;
static uint32_t questions; /* number of queries of progress since a task was last queued */

/* --- tasks --- */

static void hold(acl__stream *stream, acl__task *task)
{
    task->next = NULL;
    *stream->held_last = task;
    stream->held_last = &task->next;
    acl__rt.held_tasks++;
}

aclError acl__queue(acl__stream *stream, acl__task *task)
{
    aclError error = ACL_SUCCESS;
    questions = 0;
    acl__task_name(task);
    acl__stream_forget_abort(stream);
    if (stream->capture != NULL) {
        acl__capture_add(stream, task);
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

/* Submits the held tasks of a stream, oldest first, as far as possible. Returns true if any task left the list. */
static bool pump_stream(acl__stream *stream)
{
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

void acl__queue_drop(acl__stream *stream)
{
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

bool acl__has_arrived(const acl__stream *stream)
{
    return weir_sim_stream_tail(acl__rt.sim, stream->sim) <= weir_sim_now(acl__rt.sim);
}

/* --- waiting --- */

void acl__changed(void)
{
    acl__pump();
    if (waiters > 0) {
        (void)pthread_cond_broadcast(&changed);
    }
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
    if (deadline->is_set) {
        return pthread_cond_timedwait(&changed, acl__mutex(), &deadline->real) != ETIMEDOUT;
    }
    const struct timespec patience = real_time_in(NAMES_AFTER_MS);
    if (pthread_cond_timedwait(&changed, acl__mutex(), &patience) == ETIMEDOUT) {
        name_stopped();
    }
    return true;
}

bool acl__wait_step(uint64_t target_ns, const acl__deadline *deadline)
{
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
    waiters++;
    const bool more = wait_for_change(deadline);
    waiters--;
    return more;
}

void acl__host_saw(acl__stream *stream)
{
    (void)weir_device_stream_sync(acl__rt.memory, stream->sim);
}

/* --- kernels --- */

struct kernel_task {
    acl__task task; /* first member */
    acl__stream *stream;
    int32_t stream_id;
    uint32_t holders; /* reference count: one for the queued task, one for the simulator */
    acl__kernel kernel;
    char tag[48];
    weir_sim_access accesses[];
};

static void kernel_release(struct kernel_task *k)
{
    if (--k->holders > 0) {
        return;
    }
    if (k->kernel.end != NULL) {
        k->kernel.end(k->kernel.ctx);
    }
    free(k);
}

static void task_end(acl__task *task)
{
    kernel_release((struct kernel_task *)(void *)task);
}

/* Called by the simulator when virtual time reaches the kernel's end. */
static void kernel_over(void *ctx)
{
    struct kernel_task *k = ctx;
    if (k->kernel.compute != NULL) {
        const aclError error = k->kernel.compute(k->kernel.ctx);
        if (error != ACL_SUCCESS && k->stream->live && k->stream->id == k->stream_id) {
            acl__stream_fail(k->stream, &k->task, error);
        }
    }
    kernel_release(k);
}

static void kernel_dropped(void *ctx)
{
    kernel_release(ctx);
}

static aclError kernel_submit(acl__stream *stream, acl__task *task)
{
    struct kernel_task *k = (struct kernel_task *)(void *)task;
    k->stream = stream;
    k->stream_id = stream->id;
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = k->kernel.duration_ns;
    work.accesses = k->kernel.accesses;
    work.access_count = k->kernel.access_count;
    work.tag = k->kernel.tag;
    if (k->kernel.compute != NULL || k->kernel.end != NULL) {
        work.host_function = kernel_over;
        work.host_ctx = k;
        work.kernel = true;
        work.dropped = kernel_dropped;
        k->holders++; /* the simulator's reference: the kernel may end before the launch returns */
    }
    const acl__worker before = acl__work_by((acl__worker){.device = stream->context->device});
    const weir_status status = weir_sim_launch(acl__rt.sim, stream->sim, &work);
    (void)acl__work_by(before);
    if (status != WEIR_OK && work.host_function != NULL) {
        k->holders--;
    }
    return acl__status(status, "a kernel's launch");
}

/* Clones a kernel. A kernel with an `end` function cannot be repeated, because `end` is called exactly once. */
static acl__task *kernel_clone(const acl__task *task)
{
    const struct kernel_task *k = (const struct kernel_task *)(const void *)task;
    const size_t bytes = sizeof(*k) + k->kernel.access_count * sizeof(weir_sim_access);
    struct kernel_task *clone = k->kernel.end == NULL ? malloc(bytes) : NULL;
    if (clone == NULL) {
        return NULL;
    }
    memcpy(clone, k, bytes);
    clone->holders = 1;
    clone->kernel.accesses = clone->accesses;
    clone->kernel.tag = k->kernel.tag != NULL ? clone->tag : NULL;
    return &clone->task;
}

static const acl__task_ops kernel_ops = {.submit = kernel_submit, .end = task_end, .clone = kernel_clone};

aclError acl__launch(acl__stream *stream, const acl__kernel *kernel)
{
    const size_t bytes = kernel->access_count * sizeof(weir_sim_access);
    struct kernel_task *k = calloc(1, sizeof(*k) + bytes);
    if (k == NULL) {
        if (kernel->end != NULL) {
            kernel->end(kernel->ctx);
        }
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a kernel's launch");
    }
    k->task.ops = &kernel_ops;
    k->holders = 1;
    k->kernel = *kernel;
    if (bytes > 0) {
        memcpy(k->accesses, kernel->accesses, bytes);
    }
    k->kernel.accesses = k->accesses;
    if (kernel->tag != NULL) {
        (void)strncpy(k->tag, kernel->tag, sizeof(k->tag) - 1);
        k->kernel.tag = k->tag;
    }
    return acl__queue(stream, &k->task);
}

/* --- the engine --- */

static struct {
    pthread_t thread;
    bool running;
    bool busy; /* running a function of the user */
    bool ends;
    pthread_cond_t wake;
    acl__job *first;
    acl__job **last;
} engine = {.wake = PTHREAD_COND_INITIALIZER, .last = &engine.first};

static void engine_run(acl__job *job)
{
    engine.busy = true;
    (void)pthread_mutex_unlock(acl__mutex());
    job->run(job);
    (void)pthread_mutex_lock(acl__mutex());
    engine.busy = false;
    job->done(job);
    acl__changed();
}

static void *engine_main(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    (void)pthread_mutex_lock(acl__mutex());
    while (!engine.ends) {
        acl__job *job = engine.first;
        if (job != NULL) {
            engine.first = job->next;
            if (engine.first == NULL) {
                engine.last = &engine.first;
            }
            engine_run(job);
            continue;
        }
        const struct timespec soon = real_time_in(1);
        (void)pthread_cond_timedwait(&engine.wake, acl__mutex(), &soon);
        const uint64_t calls = acl__calls(ACL_FN_COUNT);
        if (acl__rt.held_tasks > 0) {
            acl__changed(); /* a held task may wait for real time to pass */
        }
        if (acl__rt.config.idle_time && engine.first == NULL && calls == seen) {
            const uint64_t next = acl__next_end(weir_sim_now(acl__rt.sim));
            if (next != UINT64_MAX) {
                weir_sim_advance_to(acl__rt.sim, next);
                acl__changed();
            }
        }
        seen = calls;
    }
    (void)pthread_mutex_unlock(acl__mutex());
    return NULL;
}

aclError acl__engine_need(void)
{
    if (!engine.running && !engine.ends) {
        engine.running = pthread_create(&engine.thread, NULL, engine_main, NULL) == 0;
    }
    return engine.running ? ACL_SUCCESS
                          : acl__fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "the runtime's thread cannot be started");
}

aclError acl__engine_post(acl__job *job)
{
    ACL_TRY(acl__engine_need());
    job->next = NULL;
    *engine.last = job;
    engine.last = &job->next;
    (void)pthread_cond_signal(&engine.wake);
    return ACL_SUCCESS;
}

void acl__engine_forget(void)
{
    static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    engine.running = false;
    engine.busy = false;
    engine.wake = fresh;
    changed = fresh;
    waiters = 0;
}

void acl__engine_stop(void)
{
    acl__lock();
    /* Do not join while a function of the user runs: it may never return. */
    const bool join = engine.running && !engine.busy && !pthread_equal(engine.thread, pthread_self());
    engine.ends = true;
    engine.running = false;
    (void)pthread_cond_signal(&engine.wake);
    acl__unlock();
    if (join) {
        (void)pthread_join(engine.thread, NULL);
    }
}
