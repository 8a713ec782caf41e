/* callback_test.c: functions that a stream calls: the thread that runs them, the work that they hold up, the codes, and
 * calls at wrong moments. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST = 256, SIZE = 1 << 20, KERNEL_NS = 100000 };

#include "two_streams.h"

/* The events, in order. */
static struct {
    pthread_mutex_t lock;
    int events[MOST];
    int count;
    pthread_t last_thread;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note(int event)
{
    (void)pthread_mutex_lock(&seen.lock);
    assert_true(seen.count < MOST);
    seen.events[seen.count++] = event;
    seen.last_thread = pthread_self();
    (void)pthread_mutex_unlock(&seen.lock);
}

static int seen_count(void)
{
    (void)pthread_mutex_lock(&seen.lock);
    const int count = seen.count;
    (void)pthread_mutex_unlock(&seen.lock);
    return count;
}

static void expect_seen(int count, const int *events)
{
    assert_int_equal(seen_count(), count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(seen.events[i], events[i]);
    }
}

static _Atomic uint64_t called_at; /* device time of the latest callback */

/* A number identifies each callback and kernel. */
static void callback(void *number)
{
    called_at = weir_ascendcl_now();
    note((int)(intptr_t)number);
}

static aclError compute(void *number)
{
    note((int)(intptr_t)number);
    return ACL_SUCCESS;
}

static void *named(int number)
{
    return (void *)(intptr_t)number;
}

static void launch_kernel(aclrtStream stream, int number)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = KERNEL_NS;
    kernel.compute = compute;
    kernel.ctx = named(number);
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

static uint64_t me(void)
{
    return (uint64_t)pthread_self();
}

static void sleep_ms(int ms)
{
    const struct timespec time = {.tv_nsec = (long)ms * 1000000};
    (void)nanosleep(&time, NULL);
}

/* A thread that runs callbacks in a loop, as clients have. */
struct worker {
    pthread_t thread;
    atomic_bool ends;
    atomic_int loops;
    atomic_int not_subscribed;
    aclError (*process)(int32_t timeout);
};

static void *work(void *argument)
{
    struct worker *w = argument;
    while (!atomic_load(&w->ends)) {
        const aclError error = w->process(10);
        assert_true(error == ACL_SUCCESS || error == ACL_ERROR_RT_THREAD_SUBSCRIBE ||
                    error == ACL_ERROR_RT_REPORT_TIMEOUT);
        atomic_fetch_add(&w->loops, 1);
        if (error == ACL_ERROR_RT_THREAD_SUBSCRIBE) {
            atomic_fetch_add(&w->not_subscribed, 1);
            sleep_ms(1);
        }
    }
    return NULL;
}

static void start(struct worker *w, aclError (*process)(int32_t timeout))
{
    memset(w, 0, sizeof(*w));
    w->process = process;
    assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
}

static void stop(struct worker *w)
{
    atomic_store(&w->ends, true);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
}

static int set_up(void **unused)
{
    (void)unused;
    make_streams();
    seen.count = 0;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    drop_streams();
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
    return 0;
}

/* --- codes --- */

static void *subscribes_without_a_context(void *stream)
{
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtSubscribeReport(me(), stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchCallback(callback, NULL, ACL_CALLBACK_BLOCK, stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchHostFunc(stream, callback, NULL));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(1)); /* this thread is not subscribed */
    acl_ok(aclrtSetDevice(1));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtSubscribeReport(me(), stream));
    acl_ok(aclrtResetDevice(1));
    return NULL;
}

TEST(every_mistake_has_its_code)
{
    pthread_t other;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtProcessReport(0));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtProcessReport(-2));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(1));
    acl_expect(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(callback, NULL, ACL_CALLBACK_BLOCK, a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(me(), a));

    acl_ok(aclrtSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(me() + 1, a));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtUnSubscribeReport(me() + 1, a));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtLaunchCallback(callback, NULL, (aclrtCallbackBlockType)2, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchCallback(callback, NULL, ACL_CALLBACK_BLOCK, &other));
    acl_expect(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchHostFunc(b, NULL, NULL));

    assert_int_equal(pthread_create(&other, NULL, subscribes_without_a_context, a), 0);
    assert_int_equal(pthread_join(other, NULL), 0);

    aclrtContext before;
    aclrtStream elsewhere;
    acl_ok(aclrtGetCurrentContext(&before));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateStream(&elsewhere));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtSubscribeReport(me(), elsewhere)); /* one device for one thread */
    acl_ok(aclrtDestroyStream(elsewhere));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetCurrentContext(before));

    acl_ok(aclrtSubscribeReport(me(), b)); /* another stream of the same device may */
    acl_ok(aclrtUnSubscribeReport(me(), b));
    acl_expect(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1));
    acl_ok(aclrtUnSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(1));
    assert_int_equal(seen_count(), 0);
}

TEST(the_two_families_do_not_mix_on_a_stream)
{
    acl_ok(aclrtLaunchHostFunc(a, callback, named(1)));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchCallback(callback, NULL, ACL_CALLBACK_BLOCK, a));
    acl_ok(aclrtSynchronizeStream(a));
    /* a stream that has had a host function never accepts a subscription */
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(me(), a));
    acl_ok(aclrtSubscribeReport(me(), b));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchHostFunc(b, callback, NULL));
    acl_ok(aclrtUnSubscribeReport(me(), b));
    expect_seen(1, (int[]){1});
}

TEST(host_func_subscriptions_have_their_codes)
{
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSubscribeHostFunc(me(), NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtUnSubscribeHostFunc(me(), NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtProcessHostFunc(0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtProcessHostFunc(-2));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessHostFunc(1));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeHostFunc(me(), a));
    acl_ok(aclrtSubscribeHostFunc(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeHostFunc(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeHostFunc(me() + 1, a));
    acl_expect(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessHostFunc(1));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(1)); /* each family has its own subscriptions */
    acl_ok(aclrtUnSubscribeHostFunc(me(), a));
}

/* --- the thread and the time at which callbacks run --- */

TEST(a_callback_runs_on_the_thread_that_processes)
{
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtLaunchCallback(callback, named(1), ACL_CALLBACK_BLOCK, a));
    assert_int_equal(seen_count(), 0);
    acl_ok(aclrtProcessReport(-1));
    expect_seen(1, (int[]){1});
    assert_true(pthread_equal(seen.last_thread, pthread_self()));
    acl_ok(aclrtUnSubscribeReport(me(), a));
}

TEST(a_blocking_callback_stalls_its_stream_until_it_returns)
{
    aclrtStreamStatus status;
    acl_ok(aclrtSubscribeReport(me(), a));
    launch_kernel(a, 1);
    acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_BLOCK, a));
    launch_kernel(a, 3);
    launch_kernel(b, 4);
    acl_ok(aclrtSynchronizeStream(b)); /* other streams continue */
    weir_ascendcl_advance(1000000000);
    expect_seen(2, (int[]){1, 4});
    acl_ok(aclrtStreamQuery(a, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_NOT_READY);
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(a, 5));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtSynchronizeStream(a));
    expect_seen(4, (int[]){1, 4, 2, 3});
    assert_true(weir_ascendcl_now() >= called_at + KERNEL_NS); /* it began after the callback */
    acl_ok(aclrtUnSubscribeReport(me(), a));
}

TEST(a_non_blocking_callback_stalls_nothing)
{
    acl_ok(aclrtSubscribeReport(me(), a));
    launch_kernel(a, 1);
    acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_NO_BLOCK, a));
    launch_kernel(a, 3);
    acl_ok(aclrtSynchronizeStream(a));
    expect_seen(2, (int[]){1, 3});
    acl_ok(aclrtProcessReport(-1));
    expect_seen(3, (int[]){1, 3, 2});
    acl_expect(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1)); /* reported once */
    acl_ok(aclrtUnSubscribeReport(me(), a));
}

TEST(processing_lets_time_pass_to_the_callback_and_runs_all_that_wait)
{
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtSubscribeReport(me(), b));
    const uint64_t before = weir_ascendcl_now();
    launch_kernel(a, 1);
    acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_NO_BLOCK, a));
    acl_ok(aclrtLaunchCallback(callback, named(3), ACL_CALLBACK_NO_BLOCK, a));
    acl_ok(aclrtProcessReport(-1));
    assert_true(weir_ascendcl_now() >= before + KERNEL_NS);
    expect_seen(3, (int[]){1, 2, 3});
    acl_ok(aclrtLaunchCallback(callback, named(4), ACL_CALLBACK_NO_BLOCK, b));
    acl_ok(aclrtLaunchCallback(callback, named(5), ACL_CALLBACK_NO_BLOCK, a));
    acl_ok(aclrtProcessReport(1));
    expect_seen(5, (int[]){1, 2, 3, 4, 5});
}

static void launch_another(void *unused)
{
    (void)unused;
    note(1);
    acl_ok(aclrtLaunchCallback(launch_another, NULL, ACL_CALLBACK_NO_BLOCK, a));
}

TEST(processing_ends_although_callbacks_launch_others)
{
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtLaunchCallback(launch_another, NULL, ACL_CALLBACK_NO_BLOCK, a));
    for (int i = 1; i <= 5; i++) {
        acl_ok(aclrtProcessReport(-1));
        assert_int_equal(seen_count(), i);
    }
}

TEST(the_default_stream_has_callbacks_too)
{
    acl_ok(aclrtSubscribeReport(me(), NULL));
    acl_ok(aclrtLaunchCallback(callback, named(1), ACL_CALLBACK_BLOCK, NULL));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtSynchronizeStream(NULL));
    acl_ok(aclrtUnSubscribeReport(me(), NULL));
    expect_seen(1, (int[]){1});
}

TEST(a_loop_may_start_before_it_is_subscribed_and_runs_all_in_order)
{
    enum { COUNT = 100 };
    struct worker w;
    start(&w, aclrtProcessReport);
    while (atomic_load(&w.not_subscribed) == 0) {
        sleep_ms(1);
    }
    acl_ok(aclrtSubscribeReport((uint64_t)w.thread, a));
    for (int i = 0; i < COUNT; i++) {
        acl_ok(aclrtMemsetAsync(memory, SIZE, i, SIZE, a));
        acl_ok(aclrtLaunchCallback(callback, named(i), i % 2 == 0 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, a));
    }
    acl_ok(aclrtSynchronizeStream(a));
    while (seen_count() < COUNT) { /* the last callback does not block */
        sleep_ms(1);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(seen.events[i], i);
    }
    acl_ok(aclrtUnSubscribeReport((uint64_t)w.thread, a));
    stop(&w);
}

/* --- host functions --- */

TEST(a_host_function_runs_elsewhere_and_blocks)
{
    launch_kernel(a, 1);
    acl_ok(aclrtLaunchHostFunc(a, callback, named(2)));
    launch_kernel(a, 3);
    acl_ok(aclrtLaunchHostFunc(a, callback, named(4)));
    acl_ok(aclrtLaunchHostFunc(NULL, callback, named(5)));
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtSynchronizeStream(NULL));
    assert_false(pthread_equal(seen.last_thread, pthread_self()));
    assert_int_equal(seen_count(), 5);
    int last = 0;
    for (int i = 0; i < 5; i++) {
        if (seen.events[i] != 5) { /* event 5 is the other stream's callback */
            assert_true(seen.events[i] > last);
            last = seen.events[i];
        }
    }
}

static atomic_bool flag;

static void set_flag(void *unused)
{
    (void)unused;
    atomic_store(&flag, true);
}

TEST(a_host_function_runs_without_a_further_call)
{
    atomic_store(&flag, false);
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = KERNEL_NS;
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(aclrtLaunchHostFunc(a, set_flag, NULL));
    while (!atomic_load(&flag)) { /* no ACL call: time passes by itself */
    }
    acl_ok(aclrtSynchronizeStream(a));
}

TEST(a_subscribed_thread_takes_a_streams_host_functions)
{
    struct worker w;
    start(&w, aclrtProcessHostFunc);
    acl_ok(aclrtSubscribeHostFunc((uint64_t)w.thread, a));
    /* subscriptions for host functions and for callbacks on one stream, as in the vendor's sample */
    acl_ok(aclrtSubscribeReport(me(), a));
    launch_kernel(a, 1);
    acl_ok(aclrtLaunchHostFunc(a, callback, named(2)));
    launch_kernel(a, 3);
    acl_ok(aclrtLaunchCallback(callback, named(4), ACL_CALLBACK_BLOCK, a));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtSynchronizeStream(a));
    expect_seen(4, (int[]){1, 2, 3, 4});
    acl_ok(aclrtLaunchHostFunc(a, callback, named(5)));
    acl_ok(aclrtSynchronizeStream(a));
    assert_true(pthread_equal(seen.last_thread, w.thread));
    acl_ok(aclrtUnSubscribeReport(me(), a));
    acl_ok(aclrtUnSubscribeHostFunc((uint64_t)w.thread, a));
    stop(&w);
    acl_ok(aclrtLaunchHostFunc(a, callback, named(6))); /* the runtime's thread takes over */
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(seen_count(), 6);
}

TEST(after_unsubscribing_the_runtimes_thread_runs_waiting_host_functions)
{
    acl_ok(aclrtSubscribeHostFunc(me(), a));
    acl_ok(aclrtLaunchHostFunc(a, callback, named(1)));
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(a, 5));
    acl_ok(aclrtUnSubscribeHostFunc(me(), a));
    acl_ok(aclrtSynchronizeStream(a));
    expect_seen(1, (int[]){1});
}

/* --- bad moments --- */

static atomic_bool inside, may_go;

static void *processes_for_ever(void *unused)
{
    (void)unused;
    while (!atomic_load(&may_go)) {
        sleep_ms(1);
    }
    atomic_store(&inside, true);
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
    atomic_store(&inside, false);
    return NULL;
}

TEST(unsubscribing_wakes_a_thread_that_waits_for_ever)
{
    pthread_t thread;
    atomic_store(&inside, false);
    atomic_store(&may_go, false);
    assert_int_equal(pthread_create(&thread, NULL, processes_for_ever, NULL), 0);
    acl_ok(aclrtSubscribeReport((uint64_t)thread, a));
    acl_ok(aclrtSubscribeReport((uint64_t)thread, b));
    atomic_store(&may_go, true);
    while (!atomic_load(&inside)) {
        sleep_ms(1);
    }
    acl_ok(aclrtUnSubscribeReport((uint64_t)thread, a));
    sleep_ms(5);
    assert_true(atomic_load(&inside)); /* one stream is left */
    acl_ok(aclrtUnSubscribeReport((uint64_t)thread, b));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(atomic_load(&inside));
}

TEST(after_unsubscribing_callbacks_that_were_due_still_run)
{
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtLaunchCallback(callback, named(1), ACL_CALLBACK_NO_BLOCK, a)); /* the stream reaches it at once */
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_BLOCK, a));
    launch_kernel(a, 3);
    acl_ok(aclrtUnSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtSynchronizeStream(a));
    acl_ok(aclrtSynchronizeStream(a));
    expect_seen(1, (int[]){3});
    acl_ok(aclrtProcessReport(-1));
    expect_seen(2, (int[]){3, 1});
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
}

TEST(destroying_a_stream_drops_callbacks_that_have_not_run)
{
    for (int arrived = 0; arrived < 2; arrived++) {
        aclrtStream stream;
        acl_ok(aclrtCreateStream(&stream));
        acl_ok(aclrtSubscribeReport(me(), stream));
        if (arrived == 0) {
            weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
            kernel.duration_ns = 1000000000;
            acl_ok(weir_ascendcl_launch(stream, &kernel));
        }
        acl_ok(aclrtLaunchCallback(callback, named(1), ACL_CALLBACK_NO_BLOCK, stream));
        acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_BLOCK, stream));
        acl_ok(aclrtLaunchCallback(callback, named(3), ACL_CALLBACK_NO_BLOCK, stream));
        acl_ok(aclrtDestroyStreamForce(stream));
        acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(-1));
    }
    assert_int_equal(seen_count(), 0);
}

TEST(destroying_a_stream_waits_for_running_callbacks)
{
    struct worker w;
    aclrtStream stream;
    acl_ok(aclrtCreateStream(&stream));
    start(&w, aclrtProcessReport);
    acl_ok(aclrtSubscribeReport((uint64_t)w.thread, stream));
    for (int i = 0; i < 20; i++) {
        launch_kernel(stream, 2 * i);
        acl_ok(aclrtLaunchCallback(callback, named(2 * i + 1), ACL_CALLBACK_BLOCK, stream));
    }
    acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(seen_count(), 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(seen.events[i], i);
    }
    stop(&w);
}

TEST(an_aborted_stream_forgets_its_callbacks_and_keeps_its_thread)
{
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtLaunchCallback(callback, named(1), ACL_CALLBACK_BLOCK, a));
    launch_kernel(a, 2);
    acl_ok(aclrtStreamAbort(a));
    acl_expect(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(a));
    acl_expect(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1));
    acl_ok(aclrtLaunchCallback(callback, named(3), ACL_CALLBACK_BLOCK, a));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtSynchronizeStream(a));
    expect_seen(1, (int[]){3});
}

static void slow(void *unused)
{
    (void)unused;
    atomic_store(&inside, true);
    while (!atomic_load(&may_go)) {
        sleep_ms(1);
    }
    note(1);
}

/* A running function is not interrupted: its stream continues, or is destroyed, while the function runs. */
TEST(aborting_and_destroying_under_a_running_function)
{
    for (int how = 0; how < 4; how++) {
        const bool destroys = how % 2 == 1;
        const bool host_func = how >= 2;
        struct worker w;
        aclrtStream stream;
        acl_ok(aclrtCreateStream(&stream));
        atomic_store(&inside, false);
        atomic_store(&may_go, false);
        seen.count = 0;
        start(&w, aclrtProcessReport);
        if (host_func) {
            acl_ok(aclrtLaunchHostFunc(stream, slow, NULL));
        } else {
            acl_ok(aclrtSubscribeReport((uint64_t)w.thread, stream));
            acl_ok(aclrtLaunchCallback(slow, NULL, ACL_CALLBACK_BLOCK, stream));
        }
        launch_kernel(stream, 2);
        while (!atomic_load(&inside)) {
            sleep_ms(1);
        }
        if (destroys) {
            acl_ok(aclrtDestroyStreamForce(stream));
        } else {
            acl_ok(aclrtStreamAbort(stream));
            acl_expect(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(stream));
            launch_kernel(stream, 3);
            acl_ok(aclrtSynchronizeStream(stream));
        }
        atomic_store(&may_go, true);
        while (seen_count() < (destroys ? 1 : 2)) {
            sleep_ms(1);
        }
        stop(&w);
        if (!destroys) {
            expect_seen(2, (int[]){3, 1});
            acl_ok(aclrtDestroyStream(stream));
        }
    }
}

TEST(unsubscribing_under_a_running_function)
{
    struct worker w;
    atomic_store(&inside, false);
    atomic_store(&may_go, false);
    start(&w, aclrtProcessReport);
    acl_ok(aclrtSubscribeReport((uint64_t)w.thread, a));
    acl_ok(aclrtLaunchCallback(slow, NULL, ACL_CALLBACK_BLOCK, a));
    launch_kernel(a, 2);
    while (!atomic_load(&inside)) {
        sleep_ms(1);
    }
    acl_ok(aclrtUnSubscribeReport((uint64_t)w.thread, a));
    atomic_store(&may_go, true);
    acl_ok(aclrtSynchronizeStream(a));
    stop(&w);
    expect_seen(2, (int[]){1, 2});
}

TEST(resetting_a_device_under_a_running_function)
{
    struct worker w;
    aclrtContext before;
    aclrtStream stream;
    atomic_store(&inside, false);
    atomic_store(&may_go, false);
    start(&w, aclrtProcessReport);
    acl_ok(aclrtGetCurrentContext(&before));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtSubscribeReport((uint64_t)w.thread, stream));
    acl_ok(aclrtLaunchCallback(slow, NULL, ACL_CALLBACK_BLOCK, stream));
    acl_ok(aclrtLaunchCallback(callback, named(2), ACL_CALLBACK_NO_BLOCK, stream));
    acl_ok(aclrtSubscribeReport((uint64_t)w.thread, NULL));
    while (!atomic_load(&inside)) {
        sleep_ms(1);
    }
    acl_ok(aclrtResetDeviceForce(1));
    atomic_store(&may_go, true);
    while (atomic_load(&w.not_subscribed) < 2) { /* before it was subscribed, and now */
        sleep_ms(1);
    }
    stop(&w);
    expect_seen(1, (int[]){1});
    acl_ok(aclrtSetCurrentContext(before));
}

/* --- the auditor's view of callbacks --- */

static void free_memory(void *unused)
{
    (void)unused;
    acl_ok(aclrtFree(memory));
    memory = NULL;
}

TEST(a_callback_comes_after_its_streams_work)
{
    acl_ok(aclrtSubscribeReport(me(), a));
    for (int blocks = 0; blocks < 2; blocks++) {
        acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, a));
        acl_ok(aclrtLaunchCallback(free_memory, NULL, blocks == 1 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, a));
        launch_kernel(a, 1); /* the kernel does not touch the memory */
        acl_ok(aclrtProcessReport(-1));
        assert_null(memory);
        assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
        acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, b));
    acl_ok(aclrtLaunchHostFunc(b, free_memory, NULL));
    acl_ok(aclrtSynchronizeStream(b));
    assert_null(memory);
}

static char host[SIZE];

static void write_memory(void *unused)
{
    (void)unused;
    acl_ok(aclrtMemcpy(memory, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
}

TEST(later_work_sees_the_writes_of_a_blocking_callback)
{
    memset(host, 7, sizeof(host));
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, a));
    acl_ok(aclrtLaunchCallback(write_memory, NULL, ACL_CALLBACK_BLOCK, a));
    acl_ok(aclrtMemcpyAsync(memory + SIZE / 2, SIZE / 2, memory, SIZE / 2, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(memory[SIZE - 1], 7);
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
EACH_TEST(set_up, tear_down)
