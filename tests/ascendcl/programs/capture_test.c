/* capture_test.c: what a capture refuses, and to which thread: each answer is the vendor's. graph_test.c executes what
 * was captured. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>

enum { SIZE = 1 << 16 };

#include "two_streams.h"

enum { GLOBAL = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, THREAD = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL };
enum { RELAXED = ACL_MODEL_RI_CAPTURE_MODE_RELAXED };

static char pageable[4096];
static aclrtEvent event, other_event, plain;

static aclError try_to_begin(aclrtStream stream, int mode)
{
    return aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)mode);
}

static void begin(aclrtStream stream, int mode)
{
    acl_ok(try_to_begin(stream, mode));
}

/* Ends a capture that succeeds, and destroys the graph. */
static void end(aclrtStream stream)
{
    aclmdlRI graph = NULL;
    acl_ok(aclmdlRICaptureEnd(stream, &graph));
    assert_non_null(graph);
    acl_ok(aclmdlRIDestroy(graph));
}

static void expect_end(aclrtStream stream, aclError code)
{
    aclmdlRI graph = &graph;
    acl_expect(code, aclmdlRICaptureEnd(stream, &graph));
    assert_null(graph);
}

static void set(aclrtStream stream)
{
    acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, stream));
}

static int set_up(void **unused)
{
    (void)unused;
    make_streams();
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateEventExWithFlag(&other_event, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateEvent(&plain));
    return 0;
}

static int tear_down(void **unused)
{
    aclmdlRI graph = NULL;
    (void)unused;
    (void)aclmdlRICaptureEnd(b, &graph); /* a test that failed may have left captures */
    (void)aclmdlRICaptureEnd(a, &graph);
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtDestroyEvent(other_event));
    acl_ok(aclrtDestroyEvent(plain));
    drop_streams();
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
    return 0;
}

static void *begins_elsewhere(void *mode)
{
    acl_ok(aclrtSetDevice(0));
    begin(a, *(int *)mode);
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

static void begin_on_another_thread(int mode)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, begins_elsewhere, &mode), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

TEST(every_mistake_has_its_code)
{
    aclmdlRI graph = NULL;
    aclrtStream normal;
    acl_expect(ACL_ERROR_INVALID_PARAM, try_to_begin(NULL, GLOBAL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, try_to_begin(a, 3));
    acl_ok(aclrtCtxGetCurrentDefaultStream(&normal));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, try_to_begin(normal, GLOBAL));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRICaptureEnd(normal, &graph));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureGetInfo(NULL, &(aclmdlRICaptureStatus){0}, &graph));
    acl_expect(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureEnd(a, &graph));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureEnd(NULL, &graph));
    begin(a, GLOBAL);
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, try_to_begin(a, GLOBAL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureEnd(a, NULL));
    acl_ok(aclmdlRICaptureEnd(a, &graph));
    begin(a, THREAD);
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRIExecuteAsync(graph, a));
    end(a);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIExecuteAsync(NULL, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(&graph, a));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(graph, &graph));
    acl_ok(aclmdlRIDestroy(graph));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIDestroy(graph));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(graph, a));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroy(NULL));
}

TEST(only_a_relaxed_capture_ends_on_another_thread)
{
    for (int mode = GLOBAL; mode < RELAXED; mode++) {
        begin_on_another_thread(mode);
        expect_end(a, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
        acl_ok(aclrtSynchronizeStream(a)); /* the capture was given up */
    }
    begin_on_another_thread(RELAXED);
    end(a);
}

static void *ends_elsewhere(void *unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    expect_end(a, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

/* The second thread may have the handle of the first, which has ended. */
TEST(a_capture_does_not_end_on_a_later_thread)
{
    pthread_t thread;
    begin_on_another_thread(GLOBAL);
    assert_int_equal(pthread_create(&thread, NULL, ends_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void count(void *calls)
{
    aclmdlRI graph = NULL;
    (*(int *)calls)++;
    acl_ok(aclmdlRICaptureGetInfo(a, &(aclmdlRICaptureStatus){0}, &graph)); /* the function may call the runtime */
}

static void count_twice(void *calls)
{
    *(int *)calls += 2;
}

/* Each function is called once, when the graph is destroyed or its capture has failed. */
TEST(functions_are_called_when_a_graph_is_destroyed)
{
    int calls = 0;
    aclmdlRI graph = NULL;
    begin(a, RELAXED);
    acl_ok(aclmdlRICaptureGetInfo(a, NULL, &graph));
    acl_ok(aclmdlRIDestroyRegisterCallback(graph, count, &calls));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDestroyRegisterCallback(graph, count, &calls));
    acl_ok(aclmdlRIDestroyRegisterCallback(graph, count_twice, &calls));
    acl_ok(aclmdlRIDestroyUnregisterCallback(graph, count_twice));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDestroyUnregisterCallback(graph, count_twice));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroyRegisterCallback(NULL, count, &calls));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroyRegisterCallback(graph, NULL, &calls));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroyUnregisterCallback(NULL, count));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRIDestroyUnregisterCallback(graph, NULL));
    aclmdlRI ended = NULL;
    acl_ok(aclmdlRICaptureEnd(a, &ended));
    assert_int_equal(calls, 0);
    acl_ok(aclmdlRIDestroy(graph));
    assert_int_equal(calls, 1);
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIDestroyRegisterCallback(graph, count, &calls));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIDestroyUnregisterCallback(graph, count));
    begin(a, RELAXED);
    acl_ok(aclmdlRICaptureGetInfo(a, NULL, &graph));
    acl_ok(aclmdlRIDestroyRegisterCallback(graph, count_twice, &calls));
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtStreamWaitEvent(b, event)); /* b is not joined */
    expect_end(a, ACL_ERROR_RT_STREAM_UNJOINED);
    assert_int_equal(calls, 3);
}

TEST(a_capture_can_be_asked_about)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    aclmdlRI graph = &status;
    aclmdlRI ended = NULL;
    acl_ok(aclmdlRICaptureGetInfo(a, &status, &graph));
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    assert_null(graph);
    begin(a, RELAXED);
    acl_ok(aclmdlRICaptureGetInfo(a, &status, &graph));
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    acl_expect(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIDestroy(graph));
    acl_expect(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRIExecuteAsync(graph, b));
    acl_ok(aclmdlRICaptureEnd(a, &ended));
    assert_ptr_equal(ended, graph);
    acl_ok(aclmdlRIDestroy(ended));
}

/* --- synchronous copies and sets --- */

/* Three calls that copy or set memory synchronously have the same answer. The other two are always allowed. */
static void expect_synchronous(aclError code)
{
    acl_expect(code, aclrtMemcpy(memory, 64, pageable, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_expect(code, aclrtMemset(memory, 64, 0, 64));
    acl_expect(code, aclrtMemcpy2d(memory, 64, pageable, 64, 32, 2, ACL_MEMCPY_HOST_TO_DEVICE));
    void *to = memory, *from = pageable;
    size_t size = 64, first = 0, failed = 0;
    aclrtMemcpyBatchAttr attribute = {.dstLoc = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
                                      .srcLoc = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_HOST}};
    acl_ok(aclrtMemcpyBatch(&to, &size, &from, &size, 1, &attribute, &first, 1, &failed));
    acl_ok(aclrtMemsetD32(memory, 64, 7, 16));
}

/* Changes the mode of the thread, and returns the mode before. */
static int exchange(int mode)
{
    aclmdlRICaptureMode exchanged = (aclmdlRICaptureMode)mode;
    acl_ok(aclmdlRICaptureThreadExchangeMode(&exchanged));
    return (int)exchanged;
}

struct visitor {
    int exchanges; /* mode that the thread takes */
    aclError expected;
};

static void *copies_elsewhere(void *argument)
{
    const struct visitor *visitor = argument;
    acl_ok(aclrtSetDevice(0));
    assert_int_equal(exchange(visitor->exchanges), GLOBAL); /* the mode of a new thread */
    expect_synchronous(visitor->expected);
    acl_ok(aclrtResetDevice(0));
    return NULL;
}

TEST(the_modes_say_which_thread_may_copy)
{
    enum { NO = ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT };
    static const struct {
        int begun;
        int exchanged;
        aclError own, elsewhere; /* for the thread that began the capture, and for another one */
    } cases[] = {
        {GLOBAL, GLOBAL, NO, NO}, {GLOBAL, THREAD, NO, 0}, {GLOBAL, RELAXED, 0, 0},
        {THREAD, GLOBAL, NO, 0},  {THREAD, THREAD, NO, 0}, {THREAD, RELAXED, 0, 0},
        {RELAXED, GLOBAL, 0, 0},  {RELAXED, THREAD, 0, 0}, {RELAXED, RELAXED, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pthread_t thread;
        struct visitor visitor = {.exchanges = cases[i].exchanged, .expected = cases[i].elsewhere};
        begin(a, cases[i].begun);
        const int before = exchange(cases[i].exchanged);
        expect_synchronous(cases[i].own);
        assert_int_equal(exchange(before), cases[i].exchanged);
        assert_int_equal(pthread_create(&thread, NULL, copies_elsewhere, &visitor), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        end(a);
        expect_synchronous(ACL_SUCCESS);
    }
}

TEST(the_strictest_capture_counts)
{
    begin(a, RELAXED);
    expect_synchronous(ACL_SUCCESS);
    begin(b, THREAD);
    expect_synchronous(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    end(b);
    expect_synchronous(ACL_SUCCESS);
    end(a);
    aclmdlRICaptureMode mode = (aclmdlRICaptureMode)3;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICaptureThreadExchangeMode(&mode));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRICaptureThreadExchangeMode(NULL));
}

TEST(pageable_memory_is_not_copied_in_a_capture)
{
    char *pinned = NULL;
    acl_ok(aclrtMallocHost((void **)&pinned, 64));
    for (int mode = GLOBAL; mode <= RELAXED; mode++) {
        begin(a, mode);
        acl_expect(ACL_ERROR_RT_PARAM_INVALID,
                   aclrtMemcpyAsync(memory, 64, pageable, 64, ACL_MEMCPY_HOST_TO_DEVICE, a));
        acl_ok(aclrtMemcpyAsync(memory, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, a));
        /* on another stream such a copy is synchronous */
        acl_expect(mode == RELAXED ? ACL_SUCCESS : ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
                   aclrtMemcpyAsync(memory, 64, pageable, 64, ACL_MEMCPY_HOST_TO_DEVICE, b));
        end(a);
    }
    acl_ok(aclrtFreeHost(pinned));
}

/* --- waits and queries --- */

TEST(a_captured_stream_is_not_waited_for)
{
    aclrtStreamStatus status;
    void *more = NULL;
    for (int mode = GLOBAL; mode <= RELAXED; mode++) {
        begin(a, mode);
        set(a);
        acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStream(a));
        acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStreamWithTimeout(a, 100));
        acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtStreamQuery(a, &status));
        acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtDestroyStream(a));
        acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtDestroyStreamForce(a));
        acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeDevice());
        acl_ok(aclrtSynchronizeStream(b));
        acl_ok(aclrtStreamQuery(b, &status));
        acl_ok(aclrtMalloc(&more, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        acl_ok(aclrtFree(more));
        acl_ok(aclrtMallocHost(&more, 64));
        acl_ok(aclrtFreeHost(more));
        end(a);
        acl_ok(aclrtSynchronizeDevice());
    }
}

TEST(a_captured_event_is_not_waited_for)
{
    aclrtEventRecordedStatus status;
    float ms = 0;
    uint64_t us = 0;
    acl_ok(aclrtRecordEvent(other_event, b));
    begin(a, RELAXED);
    acl_ok(aclrtRecordEvent(event, a));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtQueryEventStatus(event, &status));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEvent(event));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEventWithTimeout(event, 10));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtEventElapsedTime(&ms, event, other_event));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtEventElapsedTime(&ms, other_event, event));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtEventGetTimestamp(event, &us));
    acl_ok(aclrtSynchronizeEvent(other_event));
    acl_ok(aclrtQueryEventStatus(other_event, &status));
    end(a);
    acl_ok(aclrtQueryEventStatus(event, &status)); /* never recorded, as far as the host knows */
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    acl_ok(aclrtSynchronizeEvent(event));
}

/* --- forks and joins --- */

/* Takes `b` into the capture of `a`. */
static void fork_off(void)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    aclmdlRI graph[2] = {NULL, &status};
    begin(a, RELAXED);
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtStreamWaitEvent(b, event));
    acl_ok(aclmdlRICaptureGetInfo(a, &status, &graph[0]));
    acl_ok(aclmdlRICaptureGetInfo(b, &status, &graph[1]));
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    assert_ptr_equal(graph[0], graph[1]);
}

TEST(a_wait_takes_its_stream_into_the_capture)
{
    fork_off();
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtSynchronizeStream(b));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclrtDestroyStream(b));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, try_to_begin(b, RELAXED));
    aclmdlRI graph = NULL;
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, aclmdlRICaptureEnd(b, &graph));
    set(b);
    acl_ok(aclrtRecordEvent(event, b));
    acl_ok(aclrtStreamWaitEvent(a, event));
    end(a);
    acl_ok(aclrtSynchronizeStream(b));
}

TEST(a_stream_that_does_not_come_back_fails_the_capture)
{
    for (int kind = 0; kind < 5; kind++) {
        fork_off();
        set(b);
        if (kind > 0) {
            acl_ok(aclrtRecordEvent(other_event, b));
        }
        if (kind == 2) {
            acl_ok(aclrtStreamWaitEvent(b, other_event)); /* its own, and then its last call is no recording */
        }
        if (kind >= 3) {
            acl_ok(aclrtStreamWaitEvent(a, other_event));
        }
        if (kind == 3) {
            set(b); /* behind the recording */
        }
        if (kind == 4) {
            acl_ok(aclrtRecordEvent(other_event, b)); /* nothing waits for this one */
        }
        expect_end(a, ACL_ERROR_RT_STREAM_UNJOINED);
        acl_ok(aclrtSynchronizeStream(a)); /* both streams are free again */
        acl_ok(aclrtSynchronizeStream(b));
    }
}

TEST(streams_come_back_over_others)
{
    aclrtStream c;
    acl_ok(aclrtCreateStream(&c));
    fork_off();
    acl_ok(aclrtRecordEvent(other_event, b));
    acl_ok(aclrtStreamWaitEvent(c, other_event));
    set(c);
    acl_ok(aclrtRecordEvent(event, c));
    acl_ok(aclrtStreamWaitEvent(b, event));
    acl_ok(aclrtRecordEvent(other_event, b));
    acl_ok(aclrtStreamWaitEvent(a, other_event));
    end(a);
    acl_ok(aclrtDestroyStream(c));
}

TEST(one_stream_does_not_come_back_for_another)
{
    aclrtStream c;
    acl_ok(aclrtCreateStream(&c));
    fork_off();
    acl_ok(aclrtStreamWaitEvent(c, event));
    acl_ok(aclrtRecordEvent(other_event, c));
    acl_ok(aclrtStreamWaitEvent(a, other_event));
    acl_ok(aclrtRecordEvent(event, b)); /* nothing waits for this one */
    expect_end(a, ACL_ERROR_RT_STREAM_UNJOINED);
    acl_ok(aclrtDestroyStream(c));
}

TEST(events_that_a_capture_does_not_take)
{
    aclrtStream normal;
    acl_ok(aclrtCtxGetCurrentDefaultStream(&normal));
    acl_ok(aclrtRecordEvent(other_event, b));
    begin(a, RELAXED);
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEvent(plain, a));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtStreamWaitEvent(a, plain));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtResetEvent(plain, a));
    acl_expect(ACL_ERROR_RT_CAPTURE_DEPENDENCY, aclrtStreamWaitEvent(a, other_event)); /* recorded outside */
    end(a); /* these refusals leave the capture alone */
    begin(a, RELAXED);
    acl_ok(aclrtStreamWaitEvent(a, event)); /* never recorded */
    acl_ok(aclrtRecordEvent(event, a));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, aclrtStreamWaitEvent(NULL, event));
    end(a);
    begin(a, RELAXED);
    begin(b, RELAXED);
    acl_ok(aclrtRecordEvent(event, a));
    acl_expect(ACL_ERROR_STREAM_CAPTURE_CONFLICT, aclrtStreamWaitEvent(b, event));
    expect_end(a, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    expect_end(b, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
}

TEST(an_event_belongs_to_the_capture_that_recorded_it_last)
{
    begin(a, RELAXED);
    begin(b, RELAXED);
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtRecordEvent(event, b));
    acl_ok(aclrtStreamWaitEvent(b, event));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEvent(event));
    end(a); /* the end of either capture releases it */
    acl_ok(aclrtSynchronizeEvent(event));
    end(b);
    begin(a, RELAXED);
    begin(b, RELAXED);
    acl_ok(aclrtRecordEvent(event, a));
    acl_ok(aclrtRecordEvent(event, b));
    acl_expect(ACL_ERROR_STREAM_CAPTURE_CONFLICT, aclrtStreamWaitEvent(a, event));
    expect_end(a, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    expect_end(b, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
}

TEST(times_are_refused_for_either_event)
{
    float ms = 0;
    begin(a, RELAXED);
    acl_ok(aclrtRecordEvent(event, a));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtEventElapsedTime(&ms, plain, event));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtEventElapsedTime(&ms, event, plain));
    end(a);
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtEventElapsedTime(&ms, plain, event)); /* neither was recorded */
}

TEST(an_event_may_end_during_the_capture)
{
    aclrtEvent brief;
    acl_ok(aclrtCreateEventExWithFlag(&brief, ACL_EVENT_SYNC));
    begin(a, RELAXED);
    acl_ok(aclrtRecordEvent(brief, a));
    acl_ok(aclrtStreamWaitEvent(b, brief));
    acl_ok(aclrtDestroyEvent(brief));
    acl_ok(aclrtRecordEvent(event, b));
    acl_ok(aclrtStreamWaitEvent(a, event));
    end(a);
}

/* --- external events --- */

TEST(external_events_have_their_codes)
{
    begin(a, RELAXED);
    acl_expect(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclrtRecordEventWithFlag(event, b, ACL_EVENT_RECORD_EXTERNAL));
    acl_expect(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclrtStreamWaitEventWithFlag(b, event, 0, ACL_EVENT_WAIT_EXTERNAL));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtRecordEventWithFlag(plain, a, ACL_EVENT_RECORD_EXTERNAL));
    acl_ok(aclrtRecordEventWithFlag(event, a, ACL_EVENT_RECORD_EXTERNAL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtRecordEventWithFlag(event, a, ACL_EVENT_RECORD_EXTERNAL)); /* twice */
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtStreamWaitEventWithFlag(a, event, 0, ACL_EVENT_WAIT_EXTERNAL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtRecordEvent(event, b)); /* the other flag */
    end(a);
}

/* --- the stock of streams --- */

TEST(each_capture_takes_a_stream)
{
    enum { MOST = 3000 };
    static aclmdlRI graphs[MOST];
    uint32_t available = 0;
    uint32_t count = 0;
    aclError error = ACL_SUCCESS;
    acl_ok(aclrtGetStreamAvailableNum(&available));
    while (count < MOST && error == ACL_SUCCESS) {
        error = try_to_begin(a, RELAXED);
        if (error == ACL_SUCCESS) {
            acl_ok(aclmdlRICaptureEnd(a, &graphs[count++]));
        }
    }
    assert_int_equal(error, ACL_ERROR_RT_NO_STREAM_RESOURCE);
    assert_int_equal(count, available);
    acl_ok(aclmdlRIDestroy(graphs[--count]));
    begin(a, RELAXED); /* takes the last one, so none is left for the fork */
    acl_ok(aclrtRecordEvent(event, a));
    acl_expect(ACL_ERROR_RT_NO_STREAM_RESOURCE, aclrtStreamWaitEvent(b, event));
    expect_end(a, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    while (count > 0) {
        acl_ok(aclmdlRIDestroy(graphs[--count]));
    }
    uint32_t left = 0;
    acl_ok(aclrtGetStreamAvailableNum(&left));
    assert_int_equal(left, available);
}

TEST(a_capture_ends_with_its_context)
{
    aclrtContext before, brief;
    aclrtStream stream;
    aclmdlRI graph = NULL;
    acl_ok(aclrtGetCurrentContext(&before));
    for (int ends = 0; ends < 2; ends++) {
        acl_ok(aclrtCreateContext(&brief, 0));
        acl_ok(aclrtCreateStream(&stream));
        begin(stream, RELAXED);
        set(stream);
        if (ends) {
            acl_ok(aclmdlRICaptureEnd(stream, &graph));
            acl_ok(aclmdlRIExecuteAsync(graph, stream));
        }
        acl_ok(aclrtDestroyContext(brief));
        acl_ok(aclrtSetCurrentContext(before));
    }
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRIExecuteAsync(graph, a));
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
EACH_TEST(set_up, tear_down)
