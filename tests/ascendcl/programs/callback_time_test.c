/* callback_time_test.c: callbacks of a stream with earlier work that is not over yet.
 *
 * The test runs with IDLE_TIME=0. Otherwise the runtime's own thread, which callbacks need, would end that work while
 * this thread waits for a processor.
 */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <time.h>

static aclrtStream stream;
static int seen[4];
static int seen_count;

static void callback(void *number)
{
    seen[seen_count++] = (int)(intptr_t)number;
}

static aclError compute(void *number)
{
    callback(number);
    return ACL_SUCCESS;
}

static void *named(int number)
{
    return (void *)(intptr_t)number;
}

static uint64_t me(void)
{
    return (uint64_t)pthread_self();
}

static void wait_for_a_processor(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* Queues 50 ms of work. */
static void launch_kernel(void)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 50000000;
    kernel.compute = compute;
    kernel.ctx = named(1);
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

static int set_up(void **unused)
{
    (void)unused;
    seen_count = 0;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtUnSubscribeReport(me(), stream));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(0));
    return 0;
}

TEST(a_timeout_is_the_devices_time_while_it_works)
{
    acl_ok(aclrtSubscribeReport(me(), stream));
    launch_kernel();
    acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_BLOCK, stream));
    wait_for_a_processor();
    acl_expect(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(10));
    assert_int_equal(seen_count, 0);
    acl_ok(aclrtProcessReport(100));
    assert_int_equal(seen_count, 2);
}

TEST(a_callback_runs_on_the_thread_that_is_subscribed_when_it_is_due)
{
    acl_ok(aclrtSubscribeReport(me() + 1, stream));
    launch_kernel();
    acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_BLOCK, stream));
    acl_ok(aclrtLaunchCallback(callback, named(3), ACL_CALLBACK_NO_BLOCK, stream));
    wait_for_a_processor();
    acl_ok(aclrtUnSubscribeReport(me() + 1, stream));
    acl_ok(aclrtSubscribeReport(me(), stream));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtProcessReport(-1));
    assert_int_equal(seen_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seen[i], i + 1);
    }
}

ACL_ENVIRONMENT(IDLE_TIME, "0")
EACH_TEST(set_up, tear_down)
