/* callback_test.c: functions that a stream calls: the thread that runs them, the work that they hold up, the codes, and
 * calls at wrong moments. */
#include "acl_check.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST = 256, SIZE = 1 << 20, KERNEL_NS = 100000 };

static aclrtStream a, b;
static char *memory;

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
typedef struct worker {
    pthread_t thread;
    atomic_bool ends;
    atomic_int loops;
    atomic_int not_subscribed;
    aclError (*process)(int32_t timeout);
} worker;

static void *work(void *argument)
{
    worker *w = argument;
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

static void start(worker *w, aclError (*process)(int32_t timeout))
{
    memset(w, 0, sizeof(*w));
    w->process = process;
    assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
}

static void stop(worker *w)
{
    atomic_store(&w->ends, true);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
}

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&a));
    acl_ok(aclrtCreateStream(&b));
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    seen.count = 0;
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyStreamForce(a));
    acl_ok(aclrtDestroyStreamForce(b));
    if (memory != NULL) {
        acl_ok(aclrtFree(memory));
    }
    acl_ok(aclrtResetDevice(0));
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

static void every_mistake_has_its_code(void **unused)
{
    (void)unused;
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

static void the_two_families_do_not_mix_on_a_stream(void **unused)
{
    (void)unused;
    acl_ok(aclrtLaunchHostFunc(a, callback, named(1)));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(me(), a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchCallback(callback, NULL, ACL_CALLBACK_BLOCK, a));
    acl_ok(aclrtSynchronizeStream(a));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(me(), a)); /* for the whole life of the stream */
    acl_ok(aclrtSubscribeReport(me(), b));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchHostFunc(b, callback, NULL));
    acl_ok(aclrtUnSubscribeReport(me(), b));
    expect_seen(1, (int[]){1});
}

static void host_func_subscriptions_have_their_codes(void **unused)
{
    (void)unused;
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

/* --- who runs them, and when --- */

static void a_callback_runs_on_the_thread_that_processes(void **unused)
{
    (void)unused;
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtLaunchCallback(callback, named(1), ACL_CALLBACK_BLOCK, a));
    assert_int_equal(seen_count(), 0);
    acl_ok(aclrtProcessReport(-1));
    expect_seen(1, (int[]){1});
    assert_true(pthread_equal(seen.last_thread, pthread_self()));
    acl_ok(aclrtUnSubscribeReport(me(), a));
}

static void a_blocking_one_stalls_its_stream_until_it_has_returned(void **unused)
{
    (void)unused;
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

static void a_non_blocking_one_stalls_nothing(void **unused)
{
    (void)unused;
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

static void processing_lets_time_pass_to_the_callback_and_runs_all_that_wait(void **unused)
{
    (void)unused;
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

static void processing_ends_although_callbacks_launch_others(void **unused)
{
    (void)unused;
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtLaunchCallback(launch_another, NULL, ACL_CALLBACK_NO_BLOCK, a));
    for (int i = 1; i <= 5; i++) {
        acl_ok(aclrtProcessReport(-1));
        assert_int_equal(seen_count(), i);
    }
}

static void the_default_stream_has_callbacks_too(void **unused)
{
    (void)unused;
    acl_ok(aclrtSubscribeReport(me(), NULL));
    acl_ok(aclrtLaunchCallback(callback, named(1), ACL_CALLBACK_BLOCK, NULL));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtSynchronizeStream(NULL));
    acl_ok(aclrtUnSubscribeReport(me(), NULL));
    expect_seen(1, (int[]){1});
}

static void a_loop_may_start_before_it_is_subscribed_and_runs_all_in_order(void **unused)
{
    (void)unused;
    enum { COUNT = 100 };
    worker w;
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

static void a_host_function_runs_elsewhere_and_blocks(void **unused)
{
    (void)unused;
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
        if (seen.events[i] != 5) { /* the other stream's callback */
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

static void a_host_function_comes_to_who_only_looks(void **unused)
{
    (void)unused;
    atomic_store(&flag, false);
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = KERNEL_NS;
    acl_ok(weir_ascendcl_launch(a, &kernel));
    acl_ok(aclrtLaunchHostFunc(a, set_flag, NULL));
    while (!atomic_load(&flag)) { /* no ACL call: time passes by itself */
    }
    acl_ok(aclrtSynchronizeStream(a));
}

static void a_subscribed_thread_takes_a_streams_host_functions(void **unused)
{
    (void)unused;
    worker w;
    start(&w, aclrtProcessHostFunc);
    acl_ok(aclrtSubscribeHostFunc((uint64_t)w.thread, a));
    acl_ok(aclrtSubscribeReport(me(), a)); /* both kinds on one stream, as in the vendor's sample */
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

static void one_that_waits_for_a_thread_that_leaves_goes_to_the_runtimes(void **unused)
{
    (void)unused;
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

static void unsubscribing_wakes_a_thread_that_waits_for_ever(void **unused)
{
    (void)unused;
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

static void what_is_left_at_unsubscribing_is_an_error_or_still_runs(void **unused)
{
    (void)unused;
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

static void destroying_a_stream_drops_what_nobody_has_run(void **unused)
{
    (void)unused;
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

static void destroying_a_stream_waits_while_somebody_runs_them(void **unused)
{
    (void)unused;
    worker w;
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

static void an_aborted_stream_forgets_its_callbacks_and_keeps_its_thread(void **unused)
{
    (void)unused;
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
static void aborting_and_destroying_under_a_running_function(void **unused)
{
    (void)unused;
    for (int how = 0; how < 4; how++) {
        const bool destroys = how % 2 == 1;
        const bool host_func = how >= 2;
        worker w;
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

static void unsubscribing_under_a_running_function(void **unused)
{
    (void)unused;
    worker w;
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

static void resetting_a_device_under_a_running_function(void **unused)
{
    (void)unused;
    worker w;
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

/* --- what the auditor is told --- */

static void free_memory(void *unused)
{
    (void)unused;
    acl_ok(aclrtFree(memory));
    memory = NULL;
}

static void a_callback_comes_after_its_streams_work(void **unused)
{
    (void)unused;
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

static void later_work_comes_after_what_a_blocking_one_did(void **unused)
{
    (void)unused;
    memset(host, 7, sizeof(host));
    acl_ok(aclrtSubscribeReport(me(), a));
    acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, a));
    acl_ok(aclrtLaunchCallback(write_memory, NULL, ACL_CALLBACK_BLOCK, a));
    acl_ok(aclrtMemcpyAsync(memory + SIZE / 2, SIZE / 2, memory, SIZE / 2, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
    acl_ok(aclrtProcessReport(-1));
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(memory[SIZE - 1], 7);
}

int main(void)
{
    acl_environment("REPORT", "none");
    acl_environment("CAPACITY", "1GiB"); /* few addresses under the thread sanitizer */
#define ONE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ONE(every_mistake_has_its_code),
        ONE(the_two_families_do_not_mix_on_a_stream),
        ONE(host_func_subscriptions_have_their_codes),
        ONE(a_callback_runs_on_the_thread_that_processes),
        ONE(a_blocking_one_stalls_its_stream_until_it_has_returned),
        ONE(a_non_blocking_one_stalls_nothing),
        ONE(processing_lets_time_pass_to_the_callback_and_runs_all_that_wait),
        ONE(processing_ends_although_callbacks_launch_others),
        ONE(the_default_stream_has_callbacks_too),
        ONE(a_loop_may_start_before_it_is_subscribed_and_runs_all_in_order),
        ONE(a_host_function_runs_elsewhere_and_blocks),
        ONE(a_host_function_comes_to_who_only_looks),
        ONE(a_subscribed_thread_takes_a_streams_host_functions),
        ONE(one_that_waits_for_a_thread_that_leaves_goes_to_the_runtimes),
        ONE(unsubscribing_wakes_a_thread_that_waits_for_ever),
        ONE(what_is_left_at_unsubscribing_is_an_error_or_still_runs),
        ONE(destroying_a_stream_drops_what_nobody_has_run),
        ONE(destroying_a_stream_waits_while_somebody_runs_them),
        ONE(an_aborted_stream_forgets_its_callbacks_and_keeps_its_thread),
        ONE(aborting_and_destroying_under_a_running_function),
        ONE(unsubscribing_under_a_running_function),
        ONE(resetting_a_device_under_a_running_function),
        ONE(a_callback_comes_after_its_streams_work),
        ONE(later_work_comes_after_what_a_blocking_one_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
