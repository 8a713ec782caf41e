/* exception.c: tasks that failed on a device, and the user's exception callback.
 *
 * A task that fails on a device is kept until the exception callback was called for it. The runtime's own thread calls
 * the callback, or the synchronisation that returns the task's error, whichever comes first. No failed task is kept
 * while no such callback is set.
 */
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

/* Result of the functions on an exception for an unknown fact, or if the exception is NULL. */
#define NO_EXCEPTION UINT32_MAX

/* Clients know only the name of this type. */
struct rtExceptionInfo {
    struct rtExceptionInfo *next;
    uint32_t task;
    uint32_t stream;
    uint32_t thread;
    uint32_t device;
    aclError code;
};

static struct {
    aclrtExceptionInfoCallback callback;
    struct rtExceptionInfo *first; /* list of failures not reported yet */
    struct rtExceptionInfo **last;
    bool reporting; /* true while the thread `reporter` runs report_all, which calls the callback */
    pthread_t reporter;
    pthread_cond_t reported;
    bool posted;
    acl__job job;
    _Atomic uint32_t left;         /* number of failures that are not reported yet or are being reported */
    aclError faults[ACL__DEVICES]; /* code of each device's latest failed task */
} exceptions = {.last = &exceptions.first, .reported = PTHREAD_COND_INITIALIZER};

struct report {
    aclrtExceptionInfoCallback callback;
    struct rtExceptionInfo *info;
};

static void call(void *ctx)
{
    WEIR_ASSERT(((const struct report *)ctx)->callback != NULL);
    const struct report *r = ctx;
    r->callback(r->info);
}

/* Calls the callback for all failures that are not reported yet. The lock is held, but released during the calls. */
static void report_all(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(!exceptions.reporting);
    exceptions.reporting = true;
    exceptions.reporter = pthread_self();
    while (exceptions.first != NULL) {
        struct rtExceptionInfo *info = exceptions.first;
        exceptions.first = info->next;
        if (exceptions.first == NULL) {
            exceptions.last = &exceptions.first;
        }
        struct report report = {exceptions.callback, info};
        acl__unlock();
        if (report.callback != NULL) {
            /* the callback's own ACL calls may fail: the thread keeps its last error */
            acl__errors_apart(call, &report);
        }
        free(info);
        acl__lock();
        WEIR_ASSERT(atomic_load_explicit(&exceptions.left, memory_order_relaxed) > 0);
        (void)atomic_fetch_sub_explicit(&exceptions.left, 1, memory_order_relaxed);
    }
    exceptions.reporting = false;
    (void)pthread_cond_broadcast(&exceptions.reported);
}

/* Calls the callback for all failures, or waits until another thread has done so. Does nothing if the callback itself
 * is the caller. The lock is held. */
static void report_or_wait(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    while (exceptions.reporting && !pthread_equal(exceptions.reporter, pthread_self())) {
        (void)pthread_cond_wait(&exceptions.reported, acl__mutex());
    }
    if (!exceptions.reporting && exceptions.first != NULL) {
        report_all();
    }
}

void acl__exceptions_report(void)
{
    if (atomic_load_explicit(&exceptions.left, memory_order_relaxed) == 0) {
        return;
    }
    ACL_HOLD_LOCK();
    report_or_wait();
}

static void job_run(acl__job *job)
{
    (void)job;
    acl__exceptions_report();
}

static void job_done(acl__job *job)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(exceptions.posted);
    (void)job;
    exceptions.posted = false;
    if (exceptions.first != NULL) { /* another failed task arrived while the callback ran */
        exceptions.posted = acl__engine_post(&exceptions.job) == ACL_SUCCESS;
    }
}

void acl__exception(acl__stream *stream, const acl__task *task, aclError error)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(error != ACL_SUCCESS);
    WEIR_ASSERT(*exceptions.last == NULL);
    const int32_t device = stream->context->device;
    exceptions.faults[device] = error;
    if (exceptions.callback == NULL) {
        return;
    }
    struct rtExceptionInfo *info = calloc(1, sizeof(*info));
    if (info == NULL) { /* when out of memory, the callback misses the failure; the next synchronisation returns it */
        return;
    }
    info->task = task != NULL ? task->number : NO_EXCEPTION;
    info->thread = task != NULL ? task->thread : NO_EXCEPTION;
    info->stream = (uint32_t)stream->id;
    info->device = (uint32_t)device;
    info->code = error;
    *exceptions.last = info;
    exceptions.last = &info->next;
    (void)atomic_fetch_add_explicit(&exceptions.left, 1, memory_order_relaxed);
    if (!exceptions.posted) {
        exceptions.job = (acl__job){.run = job_run, .done = job_done};
        exceptions.posted = acl__engine_post(&exceptions.job) == ACL_SUCCESS;
    }
}

ACL_EXPORT aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback)
{
    ACL_ENTER_LOCKED(aclrtSetExceptionInfoCallback);
    exceptions.callback = callback;
    return ACL_SUCCESS;
}

/* Defines the public function that returns one fact about a failure. */
#define EXCEPTION_FACT(name, fact)                                                                                     \
    ACL_EXPORT uint32_t name(const aclrtExceptionInfo *info)                                                           \
    {                                                                                                                  \
        ACL_ENTER_OR(name, NO_EXCEPTION);                                                                              \
        return info != NULL ? (uint32_t)info->fact : NO_EXCEPTION;                                                     \
    }
EXCEPTION_FACT(aclrtGetDeviceIdFromExceptionInfo, device)
EXCEPTION_FACT(aclrtGetStreamIdFromExceptionInfo, stream)
EXCEPTION_FACT(aclrtGetTaskIdFromExceptionInfo, task)
EXCEPTION_FACT(aclrtGetThreadIdFromExceptionInfo, thread)
EXCEPTION_FACT(aclrtGetErrorCodeFromExceptionInfo, code)

/* A simulated kernel is a host function: it has no arguments in device memory. */
ACL_EXPORT aclError aclrtGetArgsFromExceptionInfo(const aclrtExceptionInfo *info, void **devArgsPtr,
                                                  uint32_t *devArgsLen)
{
    ACL_ENTER(aclrtGetArgsFromExceptionInfo);
    if (info == NULL) {
        return (aclError)NO_EXCEPTION;
    }
    ACL_NEED(devArgsPtr);
    ACL_NEED(devArgsLen);
    *devArgsPtr = NULL;
    *devArgsLen = 0;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info, aclrtFuncHandle *func)
{
    ACL_ENTER(aclrtGetFuncHandleFromExceptionInfo);
    if (info == NULL) {
        return (aclError)NO_EXCEPTION;
    }
    ACL_NEED(func);
    return acl__not_simulated(ACL_FN_aclrtGetFuncHandleFromExceptionInfo);
}

/* --- a device's fault --- */

/* Returns the type of a device's fault. Devices of this generation distinguish memory faults only. */
ACL_EXPORT aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo)
{
    ACL_ENTER_LOCKED(aclrtGetErrorVerbose);
    ACL_NEED(errorInfo);
    ACL_REFUSE_IF(deviceId < 0 || (uint32_t)deviceId >= acl__rt.config.devices, ACL_ERROR_RT_INVALID_DEVICEID,
                  "there is no device %d", deviceId);
    memset(errorInfo, 0, sizeof(*errorInfo));
    const bool memory = exceptions.faults[deviceId] == ACL_ERROR_RT_DEVICE_MEM_ERROR;
    errorInfo->errorType = memory ? ACL_RT_ERROR_MEMORY : ACL_RT_NO_ERROR;
    return ACL_SUCCESS;
}
