/* capture.c: capturing the work queued on a stream, and repeating it.
 *
 * Work queued between begin and end runs as always, and a copy of each task is kept. Executing the instance queues
 * copies of those tasks. The vendor's capture only keeps the tasks: on the vendor's runtime, captured work does not run
 * before the first execution. Copies, sets, kernels without a hook for their end, blocking callbacks and host functions
 * can be repeated. Recordings of events are left out. When any other task was captured, an order between streams for
 * example, executing the instance fails with a sentence.
 */
#include "actions/actions.h"

#include <stdlib.h>

static acl__capture *instances; /* captures that have ended */

/* --- capturing --- */

ACL_EXPORT aclError aclmdlRICaptureBegin(aclrtStream handle, aclmdlRICaptureMode mode)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureBegin);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_REFUSE_IF((uint32_t)mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED, ACL_ERROR_RT_PARAM_INVALID, "there is no mode %d",
                  (int)mode);
    ACL_NEED_STREAM(stream, handle);
    ACL_REFUSE_IF(stream == stream->context->default_stream, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "not for the default stream");
    ACL_REFUSE_IF(stream->capture != NULL, ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured already",
                  stream->id);
    acl__capture *capture = calloc(1, sizeof(*capture));
    ACL_REFUSE_IF(capture == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    capture->last = &capture->first;
    capture->mode = mode;
    capture->thread = pthread_self();
    stream->capture = capture;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureEnd(aclrtStream handle, aclmdlRI *modelRI)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureEnd);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "stream is NULL");
    ACL_REFUSE_IF(modelRI == NULL, ACL_ERROR_RT_PARAM_INVALID, "modelRI is NULL");
    ACL_NEED_STREAM(stream, handle);
    acl__capture *capture = stream->capture;
    ACL_REFUSE_IF(capture == NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not being captured", stream->id);
    stream->capture = NULL;
    if (capture->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self())) {
        acl__capture_free(capture);
        return acl__fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                         "aclmdlRICaptureEnd: another thread began the capture; it is given up");
    }
    capture->next = instances;
    instances = capture;
    *modelRI = capture;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus *status, aclmdlRI *modelRI)
{
    ACL_ENTER_LOCKED(aclmdlRICaptureGetInfo);
    ACL_REFUSE_IF(status == NULL && modelRI == NULL, ACL_ERROR_INVALID_PARAM, "status and modelRI are NULL");
    ACL_NEED_STREAM(stream, handle);
    if (status != NULL) {
        *status = stream->capture != NULL ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    }
    if (modelRI != NULL) {
        *modelRI = stream->capture; /* NULL if the stream is not being captured */
    }
    return ACL_SUCCESS;
}

/* Sets the calling thread's mode and stores the former mode in *mode. No call is unsafe during a simulated capture, so
 * the mode has no effect. */
ACL_EXPORT aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode)
{
    static _Thread_local aclmdlRICaptureMode current = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    ACL_ENTER(aclmdlRICaptureThreadExchangeMode);
    ACL_NEED(mode);
    ACL_REFUSE_IF((uint32_t)*mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED, ACL_ERROR_RT_PARAM_INVALID,
                  "there is no mode %d", (int)*mode);
    const aclmdlRICaptureMode before = current;
    current = *mode;
    *mode = before;
    return ACL_SUCCESS;
}

/* --- instances --- */

/* Returns the pointer to the instance in the list of instances; NULL if the handle is no instance. */
static acl__capture **link_to(const void *handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__capture **link = &instances;
    while (*link != NULL && *link != handle) {
        link = &(*link)->next;
    }
    return *link != NULL ? link : NULL;
}

ACL_EXPORT aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
    ACL_ENTER_LOCKED(aclmdlRIDestroy);
    ACL_NEED(modelRI);
    acl__capture **link = link_to(modelRI);
    ACL_REFUSE_IF(link == NULL, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live instance", modelRI);
    acl__capture *capture = *link;
    *link = capture->next;
    acl__capture_free(capture);
    return ACL_SUCCESS;
}

/* Copies all tasks of a capture, in order. Returns false when out of memory, with an empty list. */
static bool clone_all(const acl__capture *capture, acl__task **first)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(capture->flaw == NULL);
    acl__task **last = first;
    *first = NULL;
    for (const acl__task *task = capture->first; task != NULL; task = task->next) {
        *last = task->ops->clone(task);
        if (*last == NULL) {
            acl__tasks_end(*first);
            *first = NULL;
            return false;
        }
        last = &(*last)->next;
        *last = NULL;
    }
    return true;
}

ACL_EXPORT aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream handle)
{
    ACL_ENTER_LOCKED(aclmdlRIExecuteAsync);
    ACL_NEED(modelRI);
    acl__capture **link = link_to(modelRI);
    ACL_REFUSE_IF(link == NULL, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live instance", modelRI);
    const acl__capture *capture = *link;
    ACL_NEED_STREAM(stream, handle);
    ACL_REFUSE_IF(stream->capture != NULL, ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured", stream->id);
    ACL_REFUSE_IF(capture->flaw != NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s", capture->flaw);
    acl__task *task = NULL;
    ACL_REFUSE_IF(!clone_all(capture, &task), ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    aclError error = ACL_SUCCESS;
    while (task != NULL && error == ACL_SUCCESS) {
        acl__task *next = task->next;
        error = acl__queue(stream, task);
        task = next;
    }
    acl__tasks_end(task);
    return error;
}
