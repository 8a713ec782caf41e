/* event_test.c: events: states before a record, the record that a wait binds to, the codes and the times. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <time.h>

/* aclrtQueryEvent is under test. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static aclrtStream a, b;
static char *memory;

enum { SIZE = 8 << 20, FLAGS = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE };

/* Queues work of some virtual microseconds. */
static void queue_work(aclrtStream stream)
{
    acl_ok(aclrtMemsetAsync(memory + (stream == a ? 0 : SIZE / 2), SIZE / 2, 1, SIZE / 2, stream));
}

static aclrtStreamStatus status_of(aclrtStream stream)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    acl_ok(aclrtStreamQuery(stream, &status));
    return status;
}

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&a));
    acl_ok(aclrtCreateStream(&b));
    acl_ok(aclrtMalloc((void **)&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyStream(a));
    acl_ok(aclrtDestroyStream(b));
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtResetDevice(0));
    return 0;
}

TEST(an_event_never_recorded_is_complete_pending_or_an_error_by_its_kind)
{
    aclrtEvent plain, flag, ex;
    aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    acl_ok(aclrtCreateEvent(&plain));
    acl_ok(aclrtCreateEventWithFlag(&flag, FLAGS));
    acl_ok(aclrtCreateEventExWithFlag(&ex, FLAGS));

    acl_ok(aclrtQueryEvent(plain, &old)); /* the two queries differ */
    assert_int_equal(old, ACL_EVENT_STATUS_COMPLETE);
    acl_ok(aclrtQueryEventStatus(plain, &status));
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    acl_ok(aclrtQueryEventStatus(flag, &status));
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    acl_ok(aclrtQueryEventStatus(ex, &status));
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    acl_ok(aclrtSynchronizeEvent(plain));
    acl_ok(aclrtSynchronizeEvent(flag));
    acl_ok(aclrtSynchronizeEvent(ex));

    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEvent(a, plain));
    acl_ok(aclrtStreamWaitEvent(a, ex));
    assert_int_equal(status_of(a), ACL_STREAM_STATUS_COMPLETE);

    acl_ok(aclrtStreamWaitEvent(a, flag)); /* the stream waits */
    queue_work(a);
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(a, 20));
    assert_int_equal(status_of(a), ACL_STREAM_STATUS_NOT_READY);
    acl_ok(aclrtRecordEvent(flag, b));
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(memory[0], 1);

    acl_ok(aclrtDestroyEvent(plain));
    acl_ok(aclrtDestroyEvent(flag));
    acl_ok(aclrtDestroyEvent(ex));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyEvent(ex));
    acl_ok(aclrtCreateEventExWithFlag(&plain, ACL_EVENT_SYNC)); /* has another handle */
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordEvent(ex, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtDestroyEvent(ex));
    acl_ok(aclrtDestroyEvent(plain));
}

TEST(a_reset_flag_stops_a_stream_again)
{
    aclrtEvent flag;
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
    acl_ok(aclrtRecordEvent(flag, b));
    acl_ok(aclrtStreamWaitEvent(a, flag));
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtResetEvent(flag, a));
    acl_ok(aclrtStreamWaitEvent(a, flag));
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(a, 20));
    acl_ok(aclrtRecordEvent(flag, b));
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtDestroyEvent(flag));
}

TEST(a_wait_binds_to_the_recording_that_is_the_latest)
{
    aclrtEvent ex, end, flag;
    float ms = 0;
    acl_ok(aclrtCreateEventExWithFlag(&ex, FLAGS));
    acl_ok(aclrtCreateEventExWithFlag(&end, FLAGS));
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
    queue_work(a);
    acl_ok(aclrtRecordEvent(ex, a));
    acl_ok(aclrtStreamWaitEvent(b, ex));
    acl_ok(aclrtStreamWaitEvent(a, flag));
    queue_work(a);
    acl_ok(aclrtRecordEvent(ex, a)); /* b waits for the earlier record of `ex`, not for this one */
    acl_ok(aclrtRecordEvent(end, b));
    acl_ok(aclrtSynchronizeStream(b));
    assert_int_equal(status_of(a), ACL_STREAM_STATUS_NOT_READY);
    acl_expect(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, aclrtEventElapsedTime(&ms, end, ex));
    acl_ok(aclrtRecordEvent(flag, b));
    acl_ok(aclrtSynchronizeEvent(ex));
    acl_ok(aclrtEventElapsedTime(&ms, end, ex));
    assert_true(ms > 0);
    acl_ok(aclrtDestroyEvent(ex));
    acl_ok(aclrtDestroyEvent(end));
    acl_ok(aclrtDestroyEvent(flag));
}

TEST(an_event_may_go_before_it_is_complete)
{
    aclrtEvent ex;
    acl_ok(aclrtCreateEventExWithFlag(&ex, ACL_EVENT_SYNC));
    queue_work(a);
    acl_ok(aclrtRecordEvent(ex, a));
    acl_ok(aclrtStreamWaitEvent(b, ex));
    acl_ok(aclrtDestroyEvent(ex));
    acl_ok(aclrtSynchronizeStream(b));
    assert_int_equal(status_of(a), ACL_STREAM_STATUS_COMPLETE);
}

/* No stream can record the flag any more, so the stream that waits for it never goes on. */
TEST(a_destroyed_flag_stops_a_stream_for_ever)
{
    aclrtEvent flag;
    aclrtStream c;
    acl_ok(aclrtCreateStream(&c));
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
    acl_ok(aclrtStreamWaitEvent(c, flag));
    acl_ok(aclrtDestroyEvent(flag));
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(c, 20));
    acl_ok(aclrtDestroyStreamForce(c));
}

/* After aclrtResetEvent the host still sees a complete event with its time, but a stream that waits for the event
 * stops. A new record lets the stream continue if the event has ACL_EVENT_SYNC. The record of an event of
 * aclrtCreateEvent uses another flag, so a stream that waits for such an event stops for ever. */
TEST(a_reset_event_is_complete_for_the_host_and_stops_streams)
{
    aclrtEvent plain, flag;
    acl_ok(aclrtCreateEvent(&plain));
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    const aclrtEvent both[] = {plain, flag};
    for (size_t i = 0; i < 2; i++) {
        aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
        aclrtEventStatus old = ACL_EVENT_STATUS_NOT_READY;
        uint64_t us = 0;
        float ms = -1;
        acl_ok(aclrtRecordEvent(both[i], a));
        acl_ok(aclrtSynchronizeStream(a));
        acl_ok(aclrtResetEvent(both[i], a));
        acl_ok(aclrtSynchronizeStream(a));
        acl_ok(aclrtQueryEventStatus(both[i], &status));
        assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
        acl_ok(aclrtQueryEvent(both[i], &old));
        assert_int_equal(old, ACL_EVENT_STATUS_COMPLETE);
        acl_ok(aclrtSynchronizeEvent(both[i]));
        acl_ok(aclrtEventGetTimestamp(both[i], &us));
        acl_ok(aclrtEventElapsedTime(&ms, both[i], both[i]));
        assert_true(ms == 0);
        aclrtStream stopped;
        acl_ok(aclrtCreateStream(&stopped));
        acl_ok(aclrtStreamWaitEvent(stopped, both[i]));
        acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stopped, 20));
        acl_ok(aclrtRecordEvent(both[i], a));
        acl_ok(aclrtSynchronizeStream(a));
        if (both[i] == flag) {
            acl_ok(aclrtSynchronizeStream(stopped));
        } else {
            acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(stopped, 20));
        }
        acl_ok(aclrtStreamWaitEvent(b, both[i])); /* a new wait is for the new recording */
        acl_ok(aclrtSynchronizeStream(b));
        acl_ok(aclrtDestroyStreamForce(stopped));
        acl_ok(aclrtDestroyEvent(both[i]));
    }
}

static void queue_for(aclrtStream stream, unsigned ms)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = ms * UINT64_C(1000000);
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

/* A reset overtakes a wait if the wait is queued before the reset but begins after it. On a device the waiting stream
 * stops, so the report has a warning. There is no warning if the stream of the wait makes the reset, behind the
 * wait. */
TEST(a_reset_that_overtakes_a_wait_is_reported)
{
    const uint64_t before = weir_ascendcl_warning_count("reset before a stream");
    aclrtEvent plain, flag;
    acl_ok(aclrtCreateEvent(&plain));
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
    const aclrtEvent both[] = {plain, flag};
    for (size_t i = 0; i < 2; i++) {
        queue_for(a, 1);
        acl_ok(aclrtRecordEvent(both[i], a));
        queue_for(b, 3);
        acl_ok(aclrtStreamWaitEvent(b, both[i]));
        acl_ok(aclrtResetEvent(both[i], b));
        acl_ok(aclrtSynchronizeDevice());
        assert_int_equal(weir_ascendcl_warning_count("reset before a stream"), before + i);

        queue_for(a, 1);
        acl_ok(aclrtRecordEvent(both[i], a));
        queue_for(b, 3);
        acl_ok(aclrtStreamWaitEvent(b, both[i]));
        acl_ok(aclrtResetEvent(both[i], a));
        assert_int_equal(weir_ascendcl_warning_count("reset before a stream"), before + i + 1);
        acl_ok(aclrtSynchronizeDevice());
        acl_ok(aclrtDestroyEvent(both[i]));
    }
}

/* A stream that has begun to wait before the reset continues when the event is recorded. */
TEST(a_wait_that_began_before_the_reset_ends_with_the_recording)
{
    aclrtEvent event;
    acl_ok(aclrtCreateEvent(&event));
    queue_work(a);
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtResetEvent(event, a));
    acl_ok(aclrtStreamWaitEvent(b, event)); /* b is idle, so its wait begins now, before a makes the reset */
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtDestroyEvent(event));
}

TEST(a_record_behind_a_stopped_wait_stops_its_waiters)
{
    aclrtEvent flag, ex;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateEventExWithFlag(&ex, ACL_EVENT_SYNC));
    acl_ok(aclrtStreamWaitEvent(a, flag));
    acl_ok(aclrtRecordEvent(ex, a));
    acl_ok(aclrtStreamWaitEvent(b, ex));
    queue_work(b);
    acl_ok(aclrtQueryEventStatus(ex, &status));
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    acl_expect(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclrtSynchronizeStreamWithTimeout(b, 20));
    acl_expect(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, aclrtSynchronizeEventWithTimeout(ex, 20));
    acl_ok(aclrtRecordEvent(flag, NULL)); /* on the default stream */
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtSynchronizeDevice());
    acl_ok(aclrtDestroyEvent(flag));
    acl_ok(aclrtDestroyEvent(ex));
}

TEST(the_codes_are_those_of_the_table)
{
    aclrtEvent ex, plain, none;
    aclrtEventStatus old;
    aclrtEventWaitStatus waited = ACL_EVENT_WAIT_STATUS_RESERVED;
    uint64_t us = 0;
    float ms = 0;
    acl_ok(aclrtCreateEventExWithFlag(&ex, ACL_EVENT_TIME_LINE));
    acl_ok(aclrtCreateEvent(&plain));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtCreateEvent(NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateEventWithFlag(&none, 0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtCreateEventExWithFlag(&none, 0x400));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtQueryEvent(ex, &old));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtQueryEventWaitStatus(ex, &waited));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtResetEvent(ex, a));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtSynchronizeEventWithTimeout(ex, 0));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventElapsedTime(&ms, ex, ex));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtRecordEvent(NULL, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtRecordEvent(&ms, a));
    acl_ok(aclrtRecordEvent(ex, a));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamWaitEvent(b, ex)); /* created without ACL_EVENT_SYNC */
    acl_ok(aclrtSynchronizeEventWithTimeout(ex, 1000));
    acl_ok(aclrtEventGetTimestamp(ex, &us));
    acl_ok(aclrtRecordEvent(plain, a));
    acl_ok(aclrtStreamWaitEvent(b, plain));
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclrtQueryEventWaitStatus(plain, &waited));
    assert_int_equal(waited, ACL_EVENT_WAIT_STATUS_COMPLETE);
    acl_ok(aclrtQueryEvent(plain, &old));
    assert_int_equal(old, ACL_EVENT_STATUS_COMPLETE);
    acl_ok(aclrtDestroyEvent(ex));
    acl_ok(aclrtDestroyEvent(plain));
}

TEST(events_run_out)
{
    static aclrtEvent events[65];
    int made = 0;
    while (made < 65 && aclrtCreateEvent(&events[made]) == ACL_SUCCESS) {
        made++;
    }
    assert_int_equal(made, 64);
    acl_expect(ACL_ERROR_RT_NO_EVENT_RESOURCE, aclrtCreateEventExWithFlag(&events[64], ACL_EVENT_SYNC));
    while (made > 0) {
        acl_ok(aclrtDestroyEvent(events[--made]));
    }
}

/* A program that sleeps between its queries needs few of them, however long the work takes. */
TEST(a_sleeping_program_needs_few_queries)
{
    enum { COPIES = 400, QUESTIONS = 2000 };
    void *pinned = NULL;
    uint64_t begun = 0;
    uint64_t over = 0;
    aclrtEvent before, after;
    acl_ok(aclrtMallocHost(&pinned, SIZE));
    acl_ok(aclrtCreateEventExWithFlag(&before, FLAGS));
    acl_ok(aclrtCreateEventExWithFlag(&after, FLAGS));
    acl_ok(aclrtRecordEvent(before, a));
    for (int i = 0; i < COPIES; i++) { /* 134 ms */
        acl_ok(aclrtMemcpyAsync(memory, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
    }
    acl_ok(aclrtRecordEvent(after, a));
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    int asked = 0;
    for (; status == ACL_EVENT_RECORDED_STATUS_NOT_READY && asked < QUESTIONS; asked++) {
        acl_ok(aclrtQueryEventStatus(after, &status));
    }
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    acl_ok(aclrtEventGetTimestamp(before, &begun));
    acl_ok(aclrtEventGetTimestamp(after, &over));
    assert_true(over - begun > 100000);

    /* If the program queues work between two queries, a query does not wait: it takes 1 us. */
    queue_work(a);
    acl_ok(aclrtSynchronizeStream(a));
    for (int i = 0; i < 8; i++) {
        acl_ok(aclrtMemcpyAsync(memory, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
    }
    acl_ok(aclrtRecordEvent(after, a));
    for (int i = 0; i < 200; i++) {
        if (i == 100) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* real time does not advance device time */
        }
        acl_ok(aclrtQueryEventStatus(after, &status));
        assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
        acl_ok(aclrtRecordEvent(before, b));
    }
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclrtDestroyEvent(before));
    acl_ok(aclrtDestroyEvent(after));
    acl_ok(aclrtFreeHost(pinned));
}

/* no work ends while the host is idle, so the test does not depend on the scheduling of threads */
ACL_ENVIRONMENT(IDLE_TIME, "0")
ACL_ENVIRONMENT(EVENTS, "64")
ACL_ENVIRONMENT(EXIT_CODE, "3") /* a finding of the auditor fails the test */
ALL_TESTS(set_up, tear_down)
