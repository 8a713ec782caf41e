/* error.c: a thread's last error, the sentences about it, and tasks that failed on the device.
 *
 * Every failing call records its code and a sentence for its thread. A task that fails on a device is kept until the
 * user's exception callback was called for it. The runtime's own thread calls the callback, or the synchronisation that
 * returns the task's error, whichever comes first. No failed task is kept while no such callback is set.
 */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEXT_BYTES = 2048 };

/* Result of the functions on an exception for an unknown fact, or if the exception is NULL. */
#define NO_EXCEPTION UINT32_MAX

/* --- a thread's last error --- */

struct texts {
    char pending[TEXT_BYTES];  /* sentences, the newest first, each with its newline */
    char returned[TEXT_BYTES]; /* the result of the last aclGetRecentErrMsg */
};

/* This struct is small because a library that is loaded late gets little room in the static thread-local block. That
 * block takes either all of a library's thread-local data, core's included, or nothing. */
static _Thread_local struct {
    aclError code;
    uint32_t thread; /* the thread's number; 0: not read yet */
    uint32_t last_task;
    struct texts *texts; /* NULL: no call has failed yet */
} mine;

static pthread_once_t texts_once = PTHREAD_ONCE_INIT;
static pthread_key_t texts_key; /* its destructor frees a thread's error sentences when the thread ends */
static bool has_texts_key;

static void forget_texts(void *texts)
{
    free(texts);
    mine.texts = NULL;
}

static void make_texts_key(void)
{
    has_texts_key = pthread_key_create(&texts_key, forget_texts) == 0;
}

/* Deletes the key, because its destructor's code may be unloaded with the library. */
__attribute__((destructor)) static void delete_texts_key(void)
{
    if (has_texts_key) {
        has_texts_key = false;
        (void)pthread_key_delete(texts_key);
    }
}

/* Makes `texts` the calling thread's buffer of error sentences. Returns false when out of host memory. */
static bool set_texts(struct texts *texts)
{
    (void)pthread_once(&texts_once, make_texts_key);
    if (has_texts_key && pthread_setspecific(texts_key, texts) != 0) {
        return false;
    }
    mine.texts = texts;
    return true;
}

/* Returns the calling thread's error sentences. NULL: out of host memory; errors then have a code and no sentence. */
static struct texts *my_texts(void)
{
    if (mine.texts == NULL) {
        struct texts *texts = calloc(1, sizeof(*texts));
        if (texts != NULL && !set_texts(texts)) {
            free(texts);
        }
    }
    return mine.texts;
}

static void note_text(aclError code, const char *text)
{
    struct texts *texts = my_texts();
    if (texts == NULL) {
        return;
    }
    char line[320];
    const int printed = snprintf(line, sizeof(line), "%d: %s\n", code, text);
    size_t length = printed < 0 ? 0 : (size_t)printed;
    if (length >= sizeof(line)) {
        length = sizeof(line) - 1;
        line[length - 1] = '\n';
    }
    size_t kept = strlen(texts->pending);
    if (kept > TEXT_BYTES - 1 - length) { /* the oldest are cut off */
        kept = TEXT_BYTES - 1 - length;
    }
    memmove(texts->pending + length, texts->pending, kept);
    memcpy(texts->pending, line, length);
    texts->pending[length + kept] = '\0';
}

void acl__error_note(aclError code, const char *text)
{
    mine.code = code;
    note_text(code, text);
}

void acl__task_name(acl__task *task)
{
    static uint32_t last; /* under the runtime's lock */
    if (mine.thread == 0) {
        mine.thread = (uint32_t)syscall(SYS_gettid);
    }
    task->number = ++last;
    task->thread = mine.thread;
    mine.last_task = task->number;
}

ACL_EXPORT aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    ACL_ENTER(aclrtGetLastError);
    if (level != ACL_RT_THREAD_LEVEL) {
        return ACL_ERROR_INVALID_PARAM; /* a query with a wrong level keeps the error for the next query */
    }
    const aclError code = mine.code;
    mine.code = ACL_SUCCESS;
    return code;
}

ACL_EXPORT aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    ACL_ENTER(aclrtPeekAtLastError);
    return level == ACL_RT_THREAD_LEVEL ? mine.code : ACL_ERROR_INVALID_PARAM;
}

ACL_EXPORT const char *aclGetRecentErrMsg(void)
{
    ACL_ENTER_OR(aclGetRecentErrMsg, NULL);
    struct texts *texts = mine.texts;
    if (texts == NULL || texts->pending[0] == '\0') {
        return NULL;
    }
    memcpy(texts->returned, texts->pending, sizeof(texts->returned));
    texts->pending[0] = '\0';
    return texts->returned;
}

ACL_EXPORT aclError aclrtGetThreadLastTaskId(uint32_t *taskId)
{
    ACL_ENTER(aclrtGetThreadLastTaskId);
    ACL_NEED(taskId);
    *taskId = mine.last_task;
    return ACL_SUCCESS;
}

/* --- tasks that failed --- */

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

/* Calls the callback. The callback's own ACL calls may fail: their errors do not replace the last error of the thread
 * that runs the callback. */
static void call(aclrtExceptionInfoCallback callback, struct rtExceptionInfo *info)
{
    const aclError code = mine.code;
    struct texts *texts = mine.texts;
    (void)set_texts(NULL);
    callback(info);
    free(mine.texts);
    (void)set_texts(texts); /* cannot fail: the call above has made the thread's entry for the key */
    mine.code = code;
}

/* Calls the callback for all failures that are not reported yet. The lock is held, but released during the calls. */
static void report_all(void)
{
    exceptions.reporting = true;
    exceptions.reporter = pthread_self();
    while (exceptions.first != NULL) {
        struct rtExceptionInfo *info = exceptions.first;
        exceptions.first = info->next;
        if (exceptions.first == NULL) {
            exceptions.last = &exceptions.first;
        }
        const aclrtExceptionInfoCallback callback = exceptions.callback;
        acl__unlock();
        if (callback != NULL) {
            call(callback, info);
        }
        free(info);
        acl__lock();
        (void)atomic_fetch_sub_explicit(&exceptions.left, 1, memory_order_relaxed);
    }
    exceptions.reporting = false;
    (void)pthread_cond_broadcast(&exceptions.reported);
}

/* Calls the callback for all failures, or waits until another thread has done so. Does nothing if the callback itself
 * is the caller. The lock is held. */
static void report_or_wait(void)
{
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
    (void)job;
    exceptions.posted = false;
    if (exceptions.first != NULL) { /* another failed task arrived while the callback ran */
        exceptions.posted = acl__engine_post(&exceptions.job) == ACL_SUCCESS;
    }
}

void acl__exception(acl__stream *stream, const acl__task *task, aclError error)
{
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
