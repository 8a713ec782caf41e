/* capture.c: capturing the work queued on a stream, and repeating it.
 *
 * Work queued between begin and end runs as always, and a copy of each task is kept. Executing the instance queues
 * copies of those tasks. The vendor's capture only keeps them: there the captured work has not run before the first
 * execution. Copies, sets, kernels without a hook for their end, blocking callbacks and host functions can be repeated.
 * Recordings of events are left out. When any other task was captured, an order between streams for example, executing
 * the instance fails with a sentence.
 */
#include "runtime.h"

#include <stdlib.h>

/* The object behind an aclmdlRI. */
typedef struct acl__capture {
    struct acl__capture *next; /* list of instances */
    acl__task *first;          /* the captured tasks; only copies of them are queued */
    acl__task **last;
    aclmdlRICaptureMode mode;
    pthread_t thread;
    const char *flaw; /* reason why it cannot be executed; NULL: none */
} acl__capture;

static acl__capture *instances; /* captures that have ended */

static void tasks_end(acl__task *task)
{
    while (task != NULL) {
        acl__task *next = task->next;
        task->ops->end(task);
        task = next;
    }
}

static void capture_free(acl__capture *capture)
{
    tasks_end(capture->first);
    free(capture);
}

void acl__capture_add(acl__stream *stream, const acl__task *task)
{
    acl__capture *capture = stream->capture;
    if (task->ops->is_mark || capture->flaw != NULL) {
        return;
    }
    acl__task *kept = task->ops->clone != NULL ? task->ops->clone(task) : NULL;
    if (kept == NULL) {
        capture->flaw = "it captured something that cannot be repeated: order between streams, a written or awaited "
                        "value, a non-blocking callback, or a kernel with a hook for its end";
        return;
    }
    kept->next = NULL;
    *capture->last = kept;
    capture->last = &kept->next;
}

void acl__capture_stream_ends(acl__stream *stream)
{
    if (stream->capture != NULL) {
        capture_free(stream->capture);
        stream->capture = NULL;
    }
}

/* --- capturing --- */

static aclError begin_locked(aclrtStream handle, aclmdlRICaptureMode mode)
{
    acl__stream *stream = NULL;
    const aclError error = acl__stream_of(handle, &stream);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (stream == stream->context->default_stream) {
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclmdlRICaptureBegin: not for the default stream");
    }
    if (stream->capture != NULL) {
        return acl__fail(ACL_ERROR_RT_STREAM_CAPTURED, "aclmdlRICaptureBegin: stream %d is being captured already",
                         stream->id);
    }
    acl__capture *capture = calloc(1, sizeof(*capture));
    if (capture == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclmdlRICaptureBegin: no host memory");
    }
    capture->last = &capture->first;
    capture->mode = mode;
    capture->thread = pthread_self();
    stream->capture = capture;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode)
{
    ACL_ENTER(aclmdlRICaptureBegin);
    if (stream == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureBegin: stream is NULL");
    }
    if ((uint32_t)mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclmdlRICaptureBegin: there is no mode %d", (int)mode);
    }
    acl__lock();
    const aclError error = begin_locked(stream, mode);
    acl__unlock();
    return error;
}

static aclError end_locked(aclrtStream handle, aclmdlRI *out)
{
    acl__stream *stream = NULL;
    const aclError error = acl__stream_of(handle, &stream);
    if (error != ACL_SUCCESS) {
        return error;
    }
    acl__capture *capture = stream->capture;
    if (capture == NULL) {
        return acl__fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "aclmdlRICaptureEnd: stream %d is not being captured",
                         stream->id);
    }
    stream->capture = NULL;
    if (capture->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self())) {
        capture_free(capture);
        return acl__fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                         "aclmdlRICaptureEnd: another thread began the capture; it is given up");
    }
    capture->next = instances;
    instances = capture;
    *out = capture;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI)
{
    ACL_ENTER(aclmdlRICaptureEnd);
    if (stream == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclmdlRICaptureEnd: stream is NULL");
    }
    if (modelRI == NULL) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclmdlRICaptureEnd: modelRI is NULL");
    }
    acl__lock();
    const aclError error = end_locked(stream, modelRI);
    acl__unlock();
    return error;
}

/* --- instances --- */

/* Returns the link to an instance, or NULL if the handle is none. */
static acl__capture **link_to(const void *handle)
{
    acl__capture **link = &instances;
    while (*link != NULL && *link != handle) {
        link = &(*link)->next;
    }
    return *link != NULL ? link : NULL;
}

ACL_EXPORT aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
    ACL_ENTER(aclmdlRIDestroy);
    if (modelRI == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIDestroy: modelRI is NULL");
    }
    acl__lock();
    acl__capture **link = link_to(modelRI);
    if (link != NULL) {
        acl__capture *capture = *link;
        *link = capture->next;
        capture_free(capture);
    }
    acl__unlock();
    return link != NULL ? ACL_SUCCESS
                        : acl__fail(ACL_ERROR_RT_INVALID_HANDLE, "aclmdlRIDestroy: %p is not a live instance", modelRI);
}

/* Copies all tasks, in order. Returns false when out of memory, with an empty list. */
static bool clone_all(const acl__capture *capture, acl__task **first)
{
    acl__task **last = first;
    *first = NULL;
    for (const acl__task *task = capture->first; task != NULL; task = task->next) {
        *last = task->ops->clone(task);
        if (*last == NULL) {
            tasks_end(*first);
            *first = NULL;
            return false;
        }
        last = &(*last)->next;
        *last = NULL;
    }
    return true;
}

static aclError execute_locked(const acl__capture *capture, aclrtStream handle)
{
    acl__stream *stream = NULL;
    aclError error = acl__stream_of(handle, &stream);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (stream->capture != NULL) {
        return acl__fail(ACL_ERROR_RT_STREAM_CAPTURED, "aclmdlRIExecuteAsync: stream %d is being captured", stream->id);
    }
    if (capture->flaw != NULL) {
        return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclmdlRIExecuteAsync: %s", capture->flaw);
    }
    acl__task *task = NULL;
    if (!clone_all(capture, &task)) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclmdlRIExecuteAsync: no host memory");
    }
    while (task != NULL && error == ACL_SUCCESS) {
        acl__task *next = task->next;
        error = acl__queue(stream, task);
        task = next;
    }
    tasks_end(task);
    return error;
}

ACL_EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream)
{
    ACL_ENTER(aclmdlRIExecuteAsync);
    if (modelRI == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclmdlRIExecuteAsync: modelRI is NULL");
    }
    acl__lock();
    acl__capture **link = link_to(modelRI);
    const aclError error = link != NULL ? execute_locked(*link, stream)
                                        : acl__fail(ACL_ERROR_RT_INVALID_HANDLE,
                                                    "aclmdlRIExecuteAsync: %p is not a live instance", modelRI);
    acl__unlock();
    return error;
}
