/* callback_fault_test.c: host memory runs out in the n-th request of the runtime, for every n.
 *
 * A script of calls runs with each request failing in turn, until none is left to fail. A call that fails reports out
 * of memory, has changed nothing, and succeeds when it is repeated; at the end every call of the script has succeeded
 * once. A failure that occurs later, when its stream reaches the task, is the stream's error, and the script does not
 * wait for it.
 */
#include "rig/acl.h"

#include "pool/fault/failing_host.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <stdio.h>

enum { SIZE = 1 << 16, MOST_REQUESTS = 5000 };

static aclrtStream a, b;
static char *memory;
static int callbacks, kernels;
static bool failed_once;

static void callback(void *unused)
{
    (void)unused;
    callbacks++;
}

static aclError compute(void *unused)
{
    (void)unused;
    kernels++;
    return ACL_SUCCESS;
}

static bool is_out_of_memory(aclError error)
{
    return error == ACL_ERROR_RT_MEMORY_ALLOCATION || error == ACL_ERROR_BAD_ALLOC;
}

/* True if the call must be repeated. */
static bool has_failed(aclError error, int line)
{
    counting = false;
    if (error == ACL_SUCCESS) {
        return false;
    }
    if (!is_out_of_memory(error) || !host_struck || failed_once) {
        (void)fprintf(stderr, "request %llu, line %d: error %d\n", (unsigned long long)fail_at, line, error);
        abort();
    }
    failed_once = true;
    return true;
}

/* Makes a call, and repeats it if it fails. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        counting = true;                                                                                               \
    } while (has_failed(call, __LINE__))

/* Waits for the stream. The wait reports tasks that failed later. */
static void wait_for(aclrtStream stream)
{
    counting = true;
    const aclError error = aclrtSynchronizeStream(stream);
    counting = false;
    if (error != ACL_SUCCESS) {
        assert_true(is_out_of_memory(error) && host_struck && !failed_once);
        failed_once = true;
        acl_ok(aclrtSynchronizeStream(stream));
    }
}

static void script(void)
{
    const uint64_t me = (uint64_t)pthread_self();
    aclrtNotify notify = NULL;
    aclmdlRI instance = NULL;
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    weir_ascendcl_range ranges[20];
    for (size_t i = 0; i < 20; i++) {
        ranges[i] = (weir_ascendcl_range){.address = memory + 1000 * (i + 1), .size = 8};
    }
    kernel.duration_ns = 1000;
    kernel.ranges = ranges;
    kernel.range_count = 20;
    kernel.compute = compute;
    TRY(aclrtSubscribeReport(me, a));
    TRY(weir_ascendcl_launch(a, &kernel));
    TRY(aclrtLaunchCallback(callback, NULL, ACL_CALLBACK_BLOCK, a));
    TRY(aclrtProcessReport(-1));
    TRY(aclrtLaunchCallback(callback, NULL, ACL_CALLBACK_NO_BLOCK, a));
    TRY(aclrtProcessReport(-1));
    TRY(aclrtUnSubscribeReport(me, a));
    TRY(aclrtLaunchHostFunc(b, callback, NULL));
    wait_for(b);
    TRY(aclrtMemsetD32(memory, SIZE, 0, SIZE / 4));
    TRY(aclrtValueWrite(memory, 1, 0, a));
    TRY(aclrtValueWait(memory, 1, ACL_STREAM_WAIT_VALUE_EQ, b));
    wait_for(b);
    TRY(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    TRY(aclrtRecordNotify(notify, a));
    TRY(aclrtWaitAndResetNotify(notify, b, 0));
    wait_for(b);
    TRY(aclrtDestroyNotify(notify));
    TRY(aclmdlRICaptureBegin(a, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    TRY(weir_ascendcl_launch(a, &kernel));
    TRY(aclrtMemsetAsync(memory + SIZE / 2, SIZE / 2, 3, SIZE / 2, a));
    TRY(aclrtValueWrite(memory, 2, 0, a));
    TRY(aclmdlRICaptureEnd(a, &instance));
    wait_for(a);
    assert_int_equal(kernels, 1);
    const bool failed = failed_once;
    TRY(aclmdlRIExecuteAsync(instance, a));
    wait_for(a);
    kernels -= failed_once && !failed && kernels == 3 ? 1 : 0; /* the execution that failed had queued the kernel */
    TRY(aclmdlRIDestroy(instance));
    aclrtStreamConfigHandle *handle = NULL;
    do {
        counting = true;
        handle = aclrtCreateStreamConfigHandle();
    } while (has_failed(handle != NULL ? ACL_SUCCESS : aclrtGetLastError(ACL_RT_THREAD_LEVEL), __LINE__));
    TRY(aclrtDestroyStreamConfigHandle(handle));
    assert_int_equal(callbacks, 3);
    assert_int_equal(kernels, 2);
    assert_int_equal(memory[SIZE - 1], 3);
}

TEST(every_request_fails_once)
{
    int rounds = 0;
    do {
        rounds++;
        callbacks = 0;
        kernels = 0;
        failed_once = false;
        host_struck = false;
        requests = 0;
        fail_at = (uint64_t)rounds;
        acl_ok(aclrtCreateStream(&a));
        acl_ok(aclrtCreateStream(&b));
        acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        script();
        fail_at = 0;
        acl_ok(aclrtDestroyStreamForce(a));
        acl_ok(aclrtDestroyStreamForce(b));
        acl_ok(aclrtFree(memory));
        assert_true(rounds < MOST_REQUESTS);
    } while (host_struck);
    (void)printf("%d requests failed\n", rounds - 1);
    assert_true(rounds > 20);
}

int main(void)
{
    if (CANNOT_REPLACE_MALLOC) {
        (void)printf("skipped: malloc cannot be replaced in this build\n");
        return 77;
    }
    acl_environment("REPORT", "none");
    acl_environment("CAPACITY", "1GiB"); /* small: the thread sanitizer leaves few addresses */
    acl_ok(aclrtSetDevice(0));
    return run_all_tests("tests");
}
