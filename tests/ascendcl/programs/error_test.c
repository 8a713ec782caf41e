/* error_test.c: the last error and its sentences, failing tasks, the exception callback. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The vendor has deprecated the callback's registration, but older runtimes have no other. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum { MOST = 64 };

static aclrtStream a, b;
static atomic_int ran;

static aclError succeed(void *unused)
{
    (void)unused;
    atomic_fetch_add(&ran, 1);
    return ACL_SUCCESS;
}

static aclError fail_kernel(void *unused)
{
    (void)unused;
    return ACL_ERROR_RT_AICORE_EXCEPTION;
}

static void launch(aclrtStream stream, aclError (*compute)(void *))
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 1000000;
    kernel.compute = compute;
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&a));
    acl_ok(aclrtCreateStream(&b));
    (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    (void)aclGetRecentErrMsg();
    atomic_store(&ran, 0);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetExceptionInfoCallback(NULL));
    acl_ok(aclrtDestroyStreamForce(a));
    acl_ok(aclrtDestroyStreamForce(b));
    acl_ok(aclrtResetDevice(0));
    return 0;
}

/* --- a thread's last error --- */

static void *has_no_error(void *unused)
{
    (void)unused;
    acl_ok(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    assert_null(aclGetRecentErrMsg());
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    return NULL;
}

TEST(the_last_error_is_the_threads)
{
    pthread_t thread;
    acl_ok(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtFree(NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(a, -2));
    acl_ok(aclrtSynchronizeStream(a)); /* a success does not clear it */
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtPeekAtLastError((aclrtLastErrLevel)1));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetLastError((aclrtLastErrLevel)1));
    assert_int_equal(pthread_create(&thread, NULL, has_no_error, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    acl_ok(aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    acl_ok(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
}

static void expect_sentence(const char *sentence)
{
    const char *text = aclGetRecentErrMsg();
    assert_non_null(text);
    assert_string_equal(text, sentence);
}

TEST(a_refusal_names_the_function_and_the_argument)
{
    void *p = NULL;
    aclrtMemPool pool = NULL;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtFree(NULL));
    expect_sentence("100000: aclrtFree: devPtr is NULL\n");
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMallocHost(NULL, 1));
    expect_sentence("100000: aclrtMallocHost: hostPtr is NULL\n");
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMallocHost(&p, 0));
    expect_sentence("100000: aclrtMallocHost: size 0\n");
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemPoolCreate(&pool, NULL));
    expect_sentence("100000: aclrtMemPoolCreate: poolProps is NULL\n");
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtAllocatorRegister(a, NULL));
    expect_sentence("100000: aclrtAllocatorRegister: allocatorDesc is NULL\n");
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(a, -2));
    expect_sentence("107000: aclrtSynchronizeStreamWithTimeout: -2 ms is no timeout\n");
}

TEST(messages_are_the_newest_first_and_taken_once)
{
    assert_null(aclGetRecentErrMsg());
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtFree(NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(a, -77));
    const char *text = aclGetRecentErrMsg();
    assert_non_null(text);
    const char *newest = strstr(text, "-77");
    const char *oldest = strstr(text, "100000: ");
    assert_true(text == strstr(text, "107000: "));
    assert_non_null(newest);
    assert_non_null(oldest);
    assert_true(newest < oldest);
    assert_null(aclGetRecentErrMsg());
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtGetLastError(ACL_RT_THREAD_LEVEL)); /* separate from messages */
}

TEST(too_many_messages_lose_the_oldest)
{
    for (int i = 1; i <= 1000; i++) {
        acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(a, -1000000 - i));
    }
    const char *text = aclGetRecentErrMsg();
    assert_non_null(strstr(text, "-1001000"));
    assert_non_null(strstr(text, "-1000999"));
    assert_null(strstr(text, "-1000001"));
    assert_in_range(strlen(text), 512, 4096);
}

/* --- tasks that fail --- */

TEST(a_failed_task_is_reported_by_the_next_synchronisation)
{
    launch(a, fail_kernel);
    launch(a, succeed); /* the stream continues: ACL_CONTINUE_ON_FAILURE */
    acl_ok(aclrtSynchronizeStream(b));
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    assert_int_equal(atomic_load(&ran), 1);
    acl_ok(aclrtSynchronizeStream(a));
    launch(a, fail_kernel);
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeDevice());
    acl_ok(aclrtSynchronizeDevice());
}

TEST(a_stream_that_stops_drops_the_rest_of_its_context)
{
    acl_ok(aclrtSetStreamFailureMode(a, ACL_STOP_ON_FAILURE));
    launch(a, fail_kernel);
    launch(a, succeed);
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
    assert_int_equal(atomic_load(&ran), 0);
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.compute = succeed;
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, weir_ascendcl_launch(a, &kernel));
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, weir_ascendcl_launch(b, &kernel));
    assert_int_equal(atomic_load(&ran), 0);
    acl_ok(aclrtDestroyStreamForce(a));
    acl_ok(aclrtDestroyStreamForce(b));
    acl_ok(aclrtResetDeviceForce(0)); /* the default stream has stopped too */
    (void)set_up(NULL);
}

/* --- the exception callback --- */

static struct {
    uint32_t task, stream, thread, device, code;
} told[MOST];
static atomic_int told_count;
static pthread_t told_by;

static void tell(aclrtExceptionInfo *info)
{
    void *arguments = &told;
    uint32_t length = 7;
    aclrtFuncHandle function = NULL;
    const int i = atomic_load(&told_count);
    assert_true(i < MOST);
    told[i].task = aclrtGetTaskIdFromExceptionInfo(info);
    told[i].stream = aclrtGetStreamIdFromExceptionInfo(info);
    told[i].thread = aclrtGetThreadIdFromExceptionInfo(info);
    told[i].device = aclrtGetDeviceIdFromExceptionInfo(info);
    told[i].code = aclrtGetErrorCodeFromExceptionInfo(info);
    acl_ok(aclrtGetArgsFromExceptionInfo(info, &arguments, &length));
    assert_null(arguments);
    assert_int_equal(length, 0);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetArgsFromExceptionInfo(info, NULL, &length));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetFuncHandleFromExceptionInfo(info, NULL));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtGetFuncHandleFromExceptionInfo(info, &function));
    told_by = pthread_self();
    atomic_fetch_add(&told_count, 1);
}

TEST(the_exception_callback_is_told_before_the_synchronisation_returns)
{
    uint32_t first = 0, second = 0;
    int32_t id = -1;
    atomic_store(&told_count, 0);
    acl_ok(aclrtSetExceptionInfoCallback(tell));
    acl_ok(aclrtStreamGetId(a, &id));
    for (int round = 0; round < 20; round++) {
        atomic_store(&told_count, 0);
        launch(a, fail_kernel);
        acl_ok(aclrtGetThreadLastTaskId(&first));
        launch(a, succeed);
        launch(a, fail_kernel);
        acl_ok(aclrtGetThreadLastTaskId(&second));
        assert_int_not_equal(first, second);
        acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
        /* Calls that fail inside the callback do not set the last error of this thread, whichever thread ran the
         * callback. */
        acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtGetLastError(ACL_RT_THREAD_LEVEL));
        const char *text = aclGetRecentErrMsg();
        assert_non_null(text);
        assert_null(strstr(text, "ExceptionInfo"));
        assert_int_equal(atomic_load(&told_count), 2);
        assert_int_equal(told[0].task, first);
        assert_int_equal(told[1].task, second);
        assert_int_equal(told[0].stream, id);
        assert_int_equal(told[0].device, 0);
        assert_int_equal(told[0].thread, (uint32_t)syscall(SYS_gettid));
        assert_int_equal(told[0].code, ACL_ERROR_RT_AICORE_EXCEPTION);
    }
}

TEST(the_exception_callback_comes_without_a_synchronisation)
{
    atomic_store(&told_count, 0);
    acl_ok(aclrtSetExceptionInfoCallback(tell));
    launch(a, fail_kernel);
    weir_ascendcl_advance(10000000);
    const struct timespec time = {.tv_nsec = 1000000};
    while (atomic_load(&told_count) == 0) {
        (void)nanosleep(&time, NULL);
    }
    assert_false(pthread_equal(told_by, pthread_self()));
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
    assert_int_equal(atomic_load(&told_count), 1);
}

static void synchronise(aclrtExceptionInfo *info)
{
    atomic_fetch_add(&told_count, 1);
    assert_int_equal(aclrtGetErrorCodeFromExceptionInfo(info), ACL_ERROR_RT_AICORE_EXCEPTION);
    (void)aclrtSynchronizeStream(b); /* the vendor advises against this call; it must not hang */
}

TEST(the_callback_may_be_replaced_and_may_call)
{
    atomic_store(&told_count, 0);
    acl_ok(aclrtSetExceptionInfoCallback(tell));
    acl_ok(aclrtSetExceptionInfoCallback(synchronise));
    launch(a, fail_kernel);
    launch(a, fail_kernel);
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
    assert_int_equal(atomic_load(&told_count), 2);
    acl_ok(aclrtSetExceptionInfoCallback(NULL));
    launch(a, fail_kernel);
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
    assert_int_equal(atomic_load(&told_count), 2);
}

static atomic_bool inside, may_go;

static void wait_inside(aclrtExceptionInfo *info)
{
    const struct timespec time = {.tv_nsec = 1000000};
    (void)info;
    atomic_store(&inside, true);
    while (!atomic_load(&may_go)) {
        (void)nanosleep(&time, NULL);
    }
    atomic_fetch_add(&told_count, 1);
}

static void *fails_and_waits(void *context)
{
    acl_ok(aclrtSetCurrentContext(context));
    launch(b, fail_kernel);
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(b));
    assert_int_equal(atomic_load(&told_count), 2);
    return NULL;
}

TEST(a_synchronisation_waits_for_a_callback_that_runs_elsewhere)
{
    pthread_t thread;
    aclrtContext context;
    const struct timespec time = {.tv_nsec = 5000000};
    atomic_store(&told_count, 0);
    atomic_store(&inside, false);
    atomic_store(&may_go, false);
    acl_ok(aclrtGetCurrentContext(&context));
    acl_ok(aclrtSetExceptionInfoCallback(wait_inside));
    launch(a, fail_kernel);
    weir_ascendcl_advance(10000000);
    while (!atomic_load(&inside)) { /* runs on the runtime's thread */
        (void)nanosleep(&time, NULL);
    }
    assert_int_equal(pthread_create(&thread, NULL, fails_and_waits, context), 0);
    (void)nanosleep(&time, NULL);
    atomic_store(&may_go, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
}

TEST(no_exception_has_no_facts)
{
    void *arguments = NULL;
    uint32_t length = 0;
    aclrtFuncHandle function = NULL;
    assert_int_equal(aclrtGetTaskIdFromExceptionInfo(NULL), UINT32_MAX);
    assert_int_equal(aclrtGetStreamIdFromExceptionInfo(NULL), UINT32_MAX);
    assert_int_equal(aclrtGetThreadIdFromExceptionInfo(NULL), UINT32_MAX);
    assert_int_equal(aclrtGetDeviceIdFromExceptionInfo(NULL), UINT32_MAX);
    assert_int_equal(aclrtGetErrorCodeFromExceptionInfo(NULL), UINT32_MAX);
    acl_expect(-1, aclrtGetArgsFromExceptionInfo(NULL, &arguments, &length));
    acl_expect(-1, aclrtGetFuncHandleFromExceptionInfo(NULL, &function));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetThreadLastTaskId(NULL));
}

static aclError break_memory(void *unused)
{
    (void)unused;
    return ACL_ERROR_RT_DEVICE_MEM_ERROR;
}

TEST(a_device_tells_of_its_memory_faults)
{
    static aclrtErrorInfo info; /* static: it has some kilobytes */
    memset(&info, 0x55, sizeof(info));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetErrorVerbose(0, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetErrorVerbose(2, &info));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtGetErrorVerbose(-1, &info));
    acl_ok(aclrtGetErrorVerbose(1, &info));
    assert_int_equal(info.errorType, ACL_RT_NO_ERROR);
    assert_int_equal(info.tryRepair, 0);
    assert_int_equal(info.hasDetail, 0);
    launch(a, break_memory);
    acl_expect(ACL_ERROR_RT_DEVICE_MEM_ERROR, aclrtSynchronizeStream(a));
    acl_ok(aclrtGetErrorVerbose(0, &info));
    assert_int_equal(info.errorType, ACL_RT_ERROR_MEMORY);
    acl_ok(aclrtGetErrorVerbose(1, &info));
    assert_int_equal(info.errorType, ACL_RT_NO_ERROR);
}

static atomic_int exceptions;

static void count_exception(aclrtExceptionInfo *info)
{
    assert_int_equal(aclrtGetErrorCodeFromExceptionInfo(info), ACL_ERROR_RT_AICORE_EXCEPTION);
    atomic_fetch_add(&exceptions, 1);
}

/* A failure drops the tasks behind it, also a task that is just being queued: queueing takes time. */
TEST(a_failure_while_held_tasks_are_queued_drops_them)
{
    aclrtEvent flag, other;
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateEventExWithFlag(&other, ACL_EVENT_SYNC));
    acl_ok(aclrtSetExceptionInfoCallback(count_exception));
    acl_ok(aclrtSetStreamFailureMode(a, ACL_STOP_ON_FAILURE));
    acl_ok(aclrtStreamWaitEvent(b, flag));
    atomic_store(&exceptions, 0);
    for (int i = 0; i < 40; i++) {
        acl_ok(aclrtRecordEvent(other, b));
        acl_ok(aclrtStreamWaitEvent(b, other));
        launch(b, succeed);
    }
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 20000; /* less than queueing b's tasks takes */
    kernel.compute = fail_kernel;
    acl_ok(weir_ascendcl_launch(a, &kernel));
    aclrtStream recorder;
    acl_ok(aclrtCreateStream(&recorder));
    acl_ok(aclrtRecordEvent(flag, recorder));
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(b));
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
    assert_int_equal(atomic_load(&ran), 0);
    /* the callback is called for the task that failed, not for the dropped tasks */
    assert_int_equal(atomic_load(&exceptions), 1);
    acl_ok(aclrtSetExceptionInfoCallback(NULL));
    acl_ok(aclrtDestroyStreamForce(recorder));
    acl_ok(aclrtDestroyEvent(flag));
    acl_ok(aclrtDestroyEvent(other));
}

/* no work ends while the host is idle, so the test does not depend on the scheduling of threads */
ACL_ENVIRONMENT(IDLE_TIME, "0")
ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
ACL_ENVIRONMENT(DEVICES, "2")
EACH_TEST(set_up, tear_down)
