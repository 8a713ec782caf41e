/* stream_test.c: contexts and streams: their owners, the calls that they refuse, their end, and the limits of their
 * number. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SIZE = 4 << 20 };

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtResetDeviceForce(0));
    return 0;
}

/* --- contexts --- */

static void *without_a_context(void *unused)
{
    (void)unused;
    aclrtContext context = (void *)1;
    aclrtStream stream;
    void *memory = NULL;
    size_t free_bytes, total;
    int32_t device;
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&context));
    assert_null(context); /* clients check the variable */
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtCreateStream(&stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetDevice(&device));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeDevice());
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtSynchronizeStream(NULL));
    return NULL;
}

TEST(a_thread_needs_a_context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, without_a_context, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *frees(void *memory)
{
    acl_ok(aclrtFree(memory)); /* needs no context */
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

TEST(a_free_needs_no_context)
{
    pthread_t thread;
    void *memory = NULL;
    acl_ok(aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal(pthread_create(&thread, NULL, frees, memory), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* aclrtSetDevice was called more often than aclrtResetDevice, so this thread's device is still set */
    acl_ok(aclrtSynchronizeDevice());
}

TEST(a_stream_belongs_to_its_context)
{
    aclrtContext before, other, now;
    aclrtStream stream, elsewhere;
    aclrtStreamStatus status;
    aclrtEvent event;
    void *memory = NULL;
    int32_t device = -1;
    acl_ok(aclrtGetCurrentContext(&before));
    acl_ok(aclrtMalloc(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtCreateContext(&other, 1));
    acl_ok(aclrtGetCurrentContext(&now));
    assert_ptr_equal(now, other);
    acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 1);
    acl_ok(aclrtCreateStream(&elsewhere));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtMemsetAsync(memory, 1, 0, 1, stream));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtRecordEvent(event, stream));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtStreamWaitEvent(stream, event));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtDestroyStream(stream));
    acl_ok(aclrtSynchronizeStream(stream)); /* waits and queries may come from any context */
    acl_ok(aclrtStreamQuery(stream, &status));
    acl_ok(aclrtSetCurrentContext(before));
    acl_expect(ACL_ERROR_RT_STREAM_CONTEXT, aclrtRecordEvent(event, elsewhere));
    acl_ok(aclrtSynchronizeStream(elsewhere));
    acl_ok(aclrtDestroyContext(other)); /* destroys its streams too */
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(other));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSetCurrentContext(other));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(elsewhere));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(before));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtFree(memory));
}

TEST(a_destroyed_context_is_current_in_no_thread)
{
    aclrtContext before, other, now = (void *)1;
    acl_ok(aclrtGetCurrentContext(&before));
    acl_ok(aclrtCreateContext(&other, 0));
    acl_ok(aclrtDestroyContext(other));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtGetCurrentContext(&now));
    assert_null(now);
    acl_ok(aclrtCreateContext(&now, 0)); /* has another handle */
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSetCurrentContext(other));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtDestroyContext(other));
    acl_ok(aclrtDestroyContext(now));
    acl_ok(aclrtSetCurrentContext(before));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(99));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtCreateContext(&other, -1));
}

/* --- streams --- */

TEST(handles_that_are_no_streams_are_refused)
{
    aclrtStream stream, standard;
    aclrtStreamStatus status;
    int local = 0;
    acl_ok(aclrtCtxGetCurrentDefaultStream(&standard));
    acl_ok(aclrtDestroyStream(standard)); /* as the vendor's runtime answers */
    acl_ok(aclrtDestroyStreamForce(standard));
    assert_int_equal(weir_ascendcl_warning_count("default stream"), 2);
    acl_ok(aclrtSynchronizeStream(standard));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtDestroyStream(NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtCreateStream(NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSynchronizeStream(&local));
    acl_ok(aclrtCreateStreamWithConfig(&stream, 3, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    uint32_t priority = 0, flags = 0;
    acl_ok(aclrtStreamGetPriority(stream, &priority));
    acl_ok(aclrtStreamGetFlags(stream, &flags));
    assert_int_equal(priority, 3);
    assert_int_equal(flags, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeStreamWithTimeout(stream, -2));
    acl_ok(aclrtSynchronizeStreamWithTimeout(stream, -1));
    acl_ok(aclrtStreamQuery(stream, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
    acl_ok(aclrtDestroyStream(stream));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(stream));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtStreamQuery(stream, &status));
}

/* New streams get other handles for a while, so a program that uses a destroyed stream is refused. */
TEST(the_handle_of_a_destroyed_stream_rests)
{
    aclrtStream gone, stream;
    aclrtEvent event;
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateStream(&gone));
    acl_ok(aclrtDestroyStream(gone));
    for (int i = 0; i < 4096; i++) {
        acl_ok(aclrtCreateStream(&stream));
        assert_ptr_not_equal(stream, gone);
        acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordEvent(event, gone));
        acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyStream(gone));
        acl_ok(aclrtDestroyStream(stream));
    }
    acl_ok(aclrtDestroyEvent(event));
}

TEST(a_wait_times_out_in_the_devices_time)
{
    aclrtStream stream;
    char *memory = NULL;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < 1000; i++) { /* 4 ms at the default prices */
        acl_ok(aclrtMemsetAsync(memory, SIZE, i, SIZE, stream));
    }
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stream, 1));
    for (int i = 0; i < 1000; i++) {
        acl_ok(aclrtMemsetAsync(memory, SIZE, i, SIZE, stream));
    }
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeDeviceWithTimeout(1));
    acl_ok(aclrtSynchronizeStreamWithTimeout(stream, 1000));
    assert_int_equal(memory[SIZE - 1], (char)999);
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(destroying_drains_and_forcing_drops)
{
    aclrtStream stream;
    char *memory = NULL;
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemset(memory, SIZE, 5, SIZE));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMemsetAsync(memory, SIZE, 6, SIZE, stream));
    acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(memory[0], 6);
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMemsetAsync(memory, SIZE, 7, SIZE, stream));
    acl_ok(aclrtDestroyStreamForce(stream));
    acl_ok(aclrtSynchronizeDevice());
    assert_int_equal(memory[0], 6);
    acl_ok(aclrtFree(memory));
}

TEST(an_abort_is_reported_once_and_the_stream_continues)
{
    aclrtStream stream;
    char *memory = NULL;
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemset(memory, SIZE, 5, SIZE));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMemsetAsync(memory, SIZE, 6, SIZE, stream));
    acl_ok(aclrtStreamAbort(stream));
    acl_expect(ACL_ERROR_RT_STREAM_ABORT, aclrtSynchronizeStream(stream));
    assert_int_equal(memory[0], 5);
    acl_ok(aclrtMemsetAsync(memory, SIZE, 7, SIZE, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(memory[0], 7);
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtDestroyStream(stream));
}

/* A copy layer gives up a transfer, aborts its stream, and continues: its next transfer and its end
 * cause no finding. */
TEST(work_after_an_abort_causes_no_finding)
{
    aclrtStream stream;
    char *memory = NULL;
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMemsetAsync(memory, SIZE, 6, SIZE, stream));
    acl_ok(aclrtStreamAbort(stream));
    acl_ok(aclrtMemsetAsync(memory, SIZE, 7, SIZE, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(memory[0], 7);
    acl_ok(aclrtMemsetAsync(memory, SIZE, 8, SIZE, stream));
    acl_ok(aclrtStreamAbort(stream));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtFree(memory));
}

TEST(streams_run_out)
{
    static aclrtStream streams[33];
    int made = 0;
    while (made < 33 && aclrtCreateStream(&streams[made]) == ACL_SUCCESS) {
        made++;
    }
    assert_in_range(made, 28, 32); /* default streams count too */
    acl_expect(ACL_ERROR_RT_NO_STREAM_RESOURCE, aclrtCreateStream(&streams[made]));
    while (made > 0) {
        acl_ok(aclrtDestroyStream(streams[--made]));
    }
}

/* --- state callbacks --- */

static char seen[256];

static void note(aclrtStream stream, aclrtStreamState state, void *args)
{
    (void)stream;
    const size_t length = strlen(seen);
    (void)snprintf(seen + length, sizeof(seen) - length, "%s%s ", (const char *)args,
                   state == ACL_RT_STREAM_STATE_CREATE_POST ? "+" : "-");
    if (state == ACL_RT_STREAM_STATE_DESTROY_PRE) {
        acl_ok(aclrtSynchronizeStream(stream)); /* the stream still exists */
    }
}

TEST(state_callbacks_hear_of_streams)
{
    aclrtStream stream;
    char one[] = "one", two[] = "two";
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtRegStreamStateCallback(NULL, note, one));
    acl_ok(aclrtRegStreamStateCallback("first", note, one));
    acl_ok(aclrtRegStreamStateCallback("second", note, two));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtRegStreamStateCallback("first", note, two));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtDestroyStream(stream));
    assert_string_equal(seen, "one+ two+ one- two- ");
    acl_ok(aclrtRegStreamStateCallback("first", NULL, NULL));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtRegStreamStateCallback("second", NULL, NULL));
    acl_ok(aclrtDestroyStreamForce(stream));
    assert_string_equal(seen, "one+ two+ one- two- two+ ");
}

struct announced {
    aclrtStream stream;
    aclrtContext current;
};

static void keep_context(aclrtStream stream, aclrtStreamState state, void *args)
{
    struct announced *announced = args;
    if (state == ACL_RT_STREAM_STATE_CREATE_POST) {
        announced->stream = stream;
        acl_ok(aclrtGetCurrentContext(&announced->current));
    }
}

/* As the vendor's runtime does, the runtime announces a default stream to the callback before the new context of the
 * stream becomes current. */
TEST(a_default_stream_is_announced_in_the_former_context)
{
    struct announced announced = {NULL, NULL};
    aclrtContext home, context, current;
    aclrtStream stream;
    acl_ok(aclrtGetCurrentContext(&home));
    acl_ok(aclrtRegStreamStateCallback("contexts", keep_context, &announced));
    acl_ok(aclrtCreateContext(&context, 0));
    assert_ptr_equal(announced.current, home);
    acl_ok(aclrtCtxGetCurrentDefaultStream(&stream));
    assert_ptr_equal(announced.stream, stream);
    acl_ok(aclrtGetCurrentContext(&current));
    assert_ptr_equal(current, context);
    acl_ok(aclrtRegStreamStateCallback("contexts", NULL, NULL));
    acl_ok(aclrtDestroyContext(context));
    acl_ok(aclrtSetCurrentContext(home));
}

/* --- threads --- */

static void *creates_and_destroys(void *unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    for (int i = 0; i < 200; i++) {
        aclrtStream stream;
        aclrtEvent event;
        void *memory = NULL;
        acl_ok(aclrtCreateStream(&stream));
        acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
        acl_ok(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
        acl_ok(aclrtMemsetAsync(memory, 4096, i, 4096, stream));
        acl_ok(aclrtRecordEvent(event, stream));
        acl_ok(i % 2 == 0 ? aclrtSynchronizeEvent(event) : aclrtSynchronizeStream(stream));
        assert_int_equal(*(char *)memory, (char)i);
        acl_ok(aclrtFree(memory));
        acl_ok(aclrtDestroyEvent(event));
        acl_ok(aclrtDestroyStream(stream));
    }
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

TEST(threads_share_a_device)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, creates_and_destroys, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

ACL_ENVIRONMENT(STREAMS, "32")
ACL_ENVIRONMENT(EXIT_CODE, "3")
ALL_TESTS(use_device, tear_down)
