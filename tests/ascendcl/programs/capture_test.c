/* capture_test.c: tasks that a program queues between the begin and the end of a capture run as always, and again when
 * the program executes the captured instance. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>

enum { SIZE = 1 << 16 };

#include "two_streams.h"

static int sum;

static aclError add(void *amount)
{
    sum += (int)(intptr_t)amount;
    return ACL_SUCCESS;
}

static void host_add(void *amount)
{
    (void)add(amount);
}

static void launch_add(aclrtStream stream, int amount)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 1000;
    kernel.compute = add;
    kernel.ctx = (void *)(intptr_t)amount;
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

static int set_up(void **unused)
{
    (void)unused;
    make_streams();
    sum = 0;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    drop_streams();
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
    return 0;
}

static void *ends_elsewhere(void *result)
{
    aclmdlRI instance = NULL;
    acl_ok(aclrtSetDevice(0));
    *(aclError *)result = aclmdlRICaptureEnd(a, &instance);
    if (instance != NULL) {
        acl_ok(aclmdlRIDestroy(instance));
    }
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

static aclError end_on_another_thread(void)
{
    pthread_t thread;
    aclError result = ACL_SUCCESS;
    assert_int_equal(pthread_create(&thread, NULL, ends_elsewhere, &result), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return result;
}

TEST(every_mistake_has_its_code)
{
    aclmdlRI instance = NULL;
    aclrtStream normal;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureBegin(NULL, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureBegin(a, (aclmdlRICaptureMode)3));
    acl_ok(aclrtCtxGetCurrentDefaultStream(&normal));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRICaptureBegin(normal, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    acl_expect(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureEnd(a, &instance));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureEnd(NULL, &instance));
    acl_ok(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureEnd(a, NULL));
    acl_ok(aclmdlRICaptureEnd(a, &instance));
    acl_ok(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRIExecuteAsync(instance, a));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, end_on_another_thread());
    acl_ok(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    acl_expect(ACL_SUCCESS, end_on_another_thread());
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIExecuteAsync(NULL, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(&instance, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(instance, &instance));
    acl_ok(aclmdlRIDestroy(instance));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIDestroy(instance));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(instance, a));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroy(NULL));
}

TEST(what_was_captured_runs_again_in_order)
{
    aclmdlRI instance = NULL;
    aclrtEvent event;
    void *more = NULL;
    acl_ok(aclrtCreateEvent(&event));
    acl_ok(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    launch_add(a, 1);
    acl_ok(aclrtMemsetAsync(memory, SIZE, 5, SIZE / 2, a));
    acl_ok(aclrtMemcpyAsync(memory + SIZE / 2, SIZE / 2, memory, SIZE / 2, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
    acl_ok(aclrtLaunchHostFunc(a, host_add, (void *)(intptr_t)10));
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtMalloc(&more, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)); /* other calls work during a capture */
    acl_ok(aclrtFree(more));
    launch_add(b, 100);
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtSynchronizeEvent(event));
    acl_ok(aclmdlRICaptureEnd(a, &instance));
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(sum, 111);
    assert_int_equal(memory[SIZE - 1], 5);

    for (int i = 1; i <= 3; i++) {
        acl_ok(aclrtMemset(memory, SIZE, 0, SIZE));
        acl_ok(aclmdlRIExecuteAsync(instance, i == 2 ? b : a));
        acl_ok(aclrtSynchronizeDevice());
        assert_int_equal(sum, 111 + 11 * i);
        assert_int_equal(memory[0], 5);
        assert_int_equal(memory[SIZE - 1], 5);
    }
    acl_ok(aclmdlRIExecuteAsync(instance, NULL));
    acl_ok(aclmdlRIDestroy(instance)); /* the queued tasks no longer belong to the instance */
    acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(sum, 155);
    acl_ok(aclrtDestroyEvent(event));
}

TEST(tasks_that_cannot_run_again_are_refused)
{
    for (int kind = 0; kind < 3; kind++) {
        aclmdlRI instance = NULL;
        aclrtEvent event;
        acl_ok(aclrtCreateEvent(&event));
        acl_ok(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
        launch_add(a, 1);
        if (kind == 0) {
            acl_ok(aclrtRecordEvent(event, b));
            acl_ok(aclrtStreamWaitEvent(a, event));
        } else if (kind == 1) {
            acl_ok(aclrtValueWrite(memory, 1, 0, a));
        } else {
            acl_ok(aclrtSubscribeReport((uint64_t)pthread_self(), a));
            acl_ok(aclrtLaunchCallback(host_add, NULL, ACL_CALLBACK_NO_BLOCK, a));
            acl_ok(aclrtUnSubscribeReport((uint64_t)pthread_self(), a));
        }
        acl_ok(aclmdlRICaptureEnd(a, &instance));
        (void)aclrtSynchronizeStream(a);
        const int before = sum;
        acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIExecuteAsync(instance, a));
        acl_ok(aclrtSynchronizeStream(a));
        assert_int_equal(sum, before);
        acl_ok(aclmdlRIDestroy(instance));
        acl_ok(aclrtDestroyEvent(event));
    }
}

TEST(a_capture_ends_with_its_stream)
{
    aclrtStream stream;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    launch_add(stream, 1);
    acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(sum, 1);
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
EACH_TEST(set_up, tear_down)
