/* graph_test.c: captured graphs run when they are executed, and only then: forks and joins, task groups, conditions,
 * external events, values, callbacks, and the blocks that a graph uses. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 1 << 16, KERNEL_NS = 100000 };

#include "two_streams.h"

static int sum;
static aclrtEvent event, back;

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
    kernel.duration_ns = KERNEL_NS;
    kernel.compute = add;
    kernel.ctx = (void *)(intptr_t)amount;
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

/* Launches a kernel that writes `size` bytes of memory. */
static void launch_write(aclrtStream stream, const void *at, size_t size)
{
    const weir_ascendcl_range range = {.address = at, .size = size, .write = true};
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = KERNEL_NS;
    kernel.ranges = &range;
    kernel.range_count = 1;
    acl_ok(weir_ascendcl_launch(stream, &kernel));
}

static void begin(aclrtStream stream)
{
    acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
}

static aclmdlRI end(aclrtStream stream)
{
    aclmdlRI graph = NULL;
    acl_ok(aclmdlRICaptureEnd(stream, &graph));
    return graph;
}

/* Takes `to` into the capture of `from`, behind its last call. */
static void order(aclrtStream from, aclrtEvent by, aclrtStream to)
{
    acl_ok(aclrtRecordEvent(by, from));
    acl_ok(aclrtStreamWaitEvent(to, by));
}

static void run(aclmdlRI graph, aclrtStream stream)
{
    acl_ok(aclmdlRIExecuteAsync(graph, stream));
    acl_ok(aclrtSynchronizeStream(stream));
}

static int set_up(void **unused)
{
    (void)unused;
    make_streams();
    acl_ok(aclrtMemset(memory, SIZE, 0, SIZE));
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    acl_ok(aclrtCreateEventExWithFlag(&back, ACL_EVENT_SYNC));
    sum = 0;
    return 0;
}

static uint64_t expected_findings;

static int tear_down(void **unused)
{
    aclmdlRI graph = NULL;
    (void)unused;
    (void)aclmdlRICaptureEnd(b, &graph); /* a test that failed may have left captures */
    (void)aclmdlRICaptureEnd(a, &graph);
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtDestroyEvent(back));
    drop_streams();
    return 0;
}

TEST(what_is_captured_runs_at_each_execution)
{
    begin(a);
    launch_add(a, 1);
    acl_ok(aclrtMemsetAsync(memory, SIZE, 5, SIZE / 2, a));
    acl_ok(aclrtMemcpyAsync(memory + SIZE / 2, SIZE / 2, memory, SIZE / 2, ACL_MEMCPY_DEVICE_TO_DEVICE, a));
    acl_ok(aclrtMemsetD32Async(memory, 64, 0x07070707, 16, a));
    acl_ok(aclrtLaunchHostFunc(a, host_add, (void *)(intptr_t)10));
    launch_add(b, 100); /* not captured */
    acl_ok(aclrtSynchronizeStream(b));
    aclmdlRI graph = end(a);
    acl_ok(aclrtSynchronizeStream(a));
    assert_int_equal(sum, 100);
    assert_int_equal(memory[SIZE - 1], 0);
    for (int i = 1; i <= 3; i++) {
        acl_ok(aclrtMemset(memory, SIZE, 0, SIZE));
        run(graph, i == 2 ? b : a);
        assert_int_equal(sum, 100 + 11 * i);
        assert_int_equal(memory[0], 7);
        assert_int_equal(memory[64], 5);
        assert_int_equal(memory[SIZE - 1], 5);
    }
    acl_ok(aclmdlRIExecuteAsync(graph, NULL));
    acl_ok(aclmdlRIDestroy(graph)); /* waits for the execution */
    assert_int_equal(sum, 144);
}

/* Executions on several streams follow each other, and each stream waits for its own. */
TEST(one_graph_executes_on_several_streams)
{
    begin(a);
    launch_write(a, memory, SIZE);
    launch_add(a, 1);
    aclmdlRI graph = end(a);
    acl_ok(aclmdlRIExecuteAsync(graph, a));
    acl_ok(aclmdlRIExecuteAsync(graph, b));
    launch_write(b, memory, 64); /* behind the execution */
    acl_ok(aclrtSynchronizeStream(b));
    assert_int_equal(sum, 2);
    acl_ok(aclrtSynchronizeStream(a));
    acl_ok(aclmdlRIDestroy(graph));
}

/* The side stream's part is replayed, beside the rest, and its work is ordered as the events say. */
TEST(a_fork_is_replayed)
{
    char *pinned = NULL;
    char got[64];
    acl_ok(aclrtMallocHost((void **)&pinned, 64));
    memset(pinned, 'G', 64);
    begin(a);
    order(a, event, b);
    acl_ok(aclrtMemcpyAsync(memory, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, b));
    launch_add(b, 1);
    launch_add(a, 2);
    order(b, back, a);
    launch_write(a, memory, 64);
    aclmdlRI graph = end(a);
    acl_ok(aclrtMemset(memory, 64, 'z', 64));
    const uint64_t start = weir_ascendcl_now();
    run(graph, a);
    const uint64_t took = weir_ascendcl_now() - start;
    assert_true(took > 2 * KERNEL_NS && took < 3 * KERNEL_NS); /* of three kernels, two ran at the same time */
    assert_int_equal(sum, 3);
    acl_ok(aclrtMemcpy(got, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(got, pinned, 64);
    acl_ok(aclmdlRIDestroy(graph));
    acl_ok(aclrtFreeHost(pinned));
}

/* An execution without the order that its parts need is a finding, as on ordinary streams. */
TEST(parts_without_an_order_are_found)
{
    begin(a);
    order(a, event, b);
    launch_write(b, memory, 64);
    launch_write(a, memory, 64);
    order(b, back, a);
    aclmdlRI graph = end(a);
    const uint64_t before = weir_ascendcl_finding_count(NULL);
    run(graph, a);
    assert_int_equal(weir_ascendcl_finding_count("unordered"), before + 1);
    expected_findings++;
    acl_ok(aclmdlRIDestroy(graph));
}

/* Work before an execution is ordered before all of its parts, and work on another stream is not. */
TEST(an_execution_is_work_of_its_stream)
{
    begin(a);
    order(a, event, b);
    launch_write(b, memory, 64);
    order(b, back, a);
    aclmdlRI graph = end(a);
    launch_write(a, memory, 64);
    acl_ok(aclmdlRIExecuteAsync(graph, a));
    launch_write(a, memory, 64);
    assert_int_equal(weir_ascendcl_finding_count(NULL), expected_findings);
    launch_write(b, memory, 64);
    assert_int_equal(weir_ascendcl_finding_count(NULL), ++expected_findings);
    acl_ok(aclrtSynchronizeDevice());
    acl_ok(aclmdlRIDestroy(graph));
}

static aclError breaks(void *unused)
{
    (void)unused;
    return ACL_ERROR_RT_AICORE_EXCEPTION;
}

TEST(an_error_in_a_graph_is_its_streams)
{
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.compute = breaks;
    begin(a);
    order(a, event, b);
    acl_ok(weir_ascendcl_launch(b, &kernel));
    order(b, back, a);
    aclmdlRI graph = end(a);
    acl_ok(aclmdlRIExecuteAsync(graph, a));
    acl_expect(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(a));
    acl_ok(aclrtSynchronizeStream(b));
    acl_ok(aclmdlRIDestroy(graph));
}

static void ended(void *count)
{
    ++*(int *)count;
}

/* A kernel with a hook for its end cannot run twice, so a capture does not take it. */
TEST(a_kernel_with_an_end_is_refused)
{
    int ends = 0;
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.end = ended;
    kernel.ctx = &ends;
    begin(a);
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, weir_ascendcl_launch(a, &kernel));
    assert_int_equal(ends, 1);
    acl_ok(aclmdlRIDestroy(end(a)));
}

/* --- values, notifies, callbacks --- */

TEST(values_and_notifies_are_replayed)
{
    aclrtNotify notify;
    acl_ok(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
    begin(a);
    acl_ok(aclrtValueWait(memory, 7, ACL_STREAM_WAIT_VALUE_EQ, a));
    launch_add(a, 1);
    acl_ok(aclrtWaitAndResetNotify(notify, a, 0));
    acl_ok(aclrtValueWrite(memory + 8, 9, 0, a));
    aclmdlRI graph = end(a);
    for (int i = 1; i <= 2; i++) {
        acl_ok(aclrtMemset(memory, 16, 0, 16));
        acl_ok(aclmdlRIExecuteAsync(graph, a));
        acl_ok(aclrtRecordNotify(notify, b));
        acl_ok(aclrtSynchronizeStream(b));
        assert_int_equal(sum, i - 1); /* the graph waits for the value */
        acl_ok(aclrtValueWrite(memory, 7, 0, b));
        acl_ok(aclrtSynchronizeStream(a));
        acl_ok(aclrtSynchronizeStream(b));
        assert_int_equal(sum, i);
        assert_int_equal(memory[8], 9);
    }
    acl_ok(aclrtDestroyNotify(notify)); /* the graph keeps it */
    acl_ok(aclmdlRIDestroy(graph));
}

TEST(callbacks_run_on_the_subscribed_thread)
{
    acl_ok(aclrtSubscribeReport((uint64_t)pthread_self(), a));
    begin(a);
    acl_ok(aclrtLaunchCallback(host_add, (void *)(intptr_t)1, ACL_CALLBACK_BLOCK, a));
    acl_ok(aclrtLaunchCallback(host_add, (void *)(intptr_t)10, ACL_CALLBACK_NO_BLOCK, a));
    aclmdlRI graph = end(a);
    acl_ok(aclmdlRIExecuteAsync(graph, b));
    acl_ok(aclrtProcessReport(1000));
    acl_ok(aclrtProcessReport(1000));
    acl_ok(aclrtSynchronizeStream(b));
    assert_int_equal(sum, 11);
    acl_ok(aclmdlRIDestroy(graph));
    acl_ok(aclrtUnSubscribeReport((uint64_t)pthread_self(), a));
}

/* The source of such a copy is read when it is captured. */
TEST(a_buffered_copy_keeps_its_bytes)
{
    char source[64];
    memset(source, 'x', sizeof(source));
    begin(a);
    acl_ok(aclrtMemcpyAsync(memory, 64, source, 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, a));
    aclmdlRI graph = end(a);
    memset(source, 'y', sizeof(source));
    for (int i = 0; i < 2; i++) {
        acl_ok(aclrtMemset(memory, 64, 0, 64));
        run(graph, a);
        assert_int_equal(memory[63], 'x');
    }
    acl_ok(aclmdlRIDestroy(graph));
}

/* --- task groups --- */

TEST(kernels_of_a_group_are_exchanged)
{
    aclrtTaskGrp group = NULL;
    acl_expect(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureTaskGrpBegin(a));
    acl_expect(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRICaptureTaskGrpEnd(a, &group));
    begin(a);
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpEnd(a, &group));
    launch_add(a, 1);
    acl_ok(aclmdlRICaptureTaskGrpBegin(a));
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpBegin(a));
    launch_add(a, 10);
    launch_add(a, 100);
    acl_ok(aclmdlRICaptureTaskGrpEnd(a, &group));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURED, aclmdlRICaptureTaskUpdateBegin(a, group));
    aclmdlRI graph = end(a);
    run(graph, a);
    assert_int_equal(sum, 111);
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateEnd(b));
    acl_ok(aclmdlRICaptureTaskUpdateBegin(b, group));
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateBegin(b, group));
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskUpdateBegin(a, group)); /* one stream only */
    launch_add(b, 20);
    acl_expect(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtMemsetAsync(memory, 64, 1, 64, b));
    launch_add(b, 200);
    acl_ok(aclmdlRICaptureTaskUpdateEnd(b));
    acl_ok(aclrtSynchronizeStream(b));
    assert_int_equal(sum, 111); /* the new kernels are the graph's */
    run(graph, a);
    assert_int_equal(sum, 332);
    acl_ok(aclmdlRICaptureTaskUpdateBegin(b, group));
    launch_add(b, 30);
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRICaptureTaskUpdateEnd(b)); /* one of two */
    acl_ok(aclmdlRIDestroy(graph));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICaptureTaskUpdateBegin(b, group));
}

/* A graph that was started waits for an event; kernels behind that wait are exchanged meanwhile. */
TEST(kernels_are_exchanged_behind_a_wait)
{
    aclrtEvent flag;
    aclrtTaskGrp group = NULL;
    acl_ok(aclrtCreateEventWithFlag(&flag, ACL_EVENT_EXTERNAL));
    begin(a);
    acl_ok(aclrtStreamWaitEvent(a, flag));
    acl_ok(aclrtResetEvent(flag, a));
    acl_ok(aclmdlRICaptureTaskGrpBegin(a));
    launch_add(a, 1);
    acl_ok(aclmdlRICaptureTaskGrpEnd(a, &group));
    aclmdlRI graph = end(a);
    for (int i = 1; i <= 3; i++) {
        const int before = sum;
        acl_ok(aclmdlRIExecuteAsync(graph, a));
        acl_ok(aclmdlRICaptureTaskUpdateBegin(b, group));
        launch_add(b, 10 * i);
        acl_ok(aclmdlRICaptureTaskUpdateEnd(b));
        acl_ok(aclrtSynchronizeStream(b));
        assert_int_equal(sum, before); /* the graph waits */
        acl_ok(aclrtRecordEvent(flag, b));
        acl_ok(aclrtSynchronizeStream(a));
        assert_int_equal(sum, before + 10 * i);
    }
    acl_ok(aclmdlRIDestroy(graph));
    acl_ok(aclrtDestroyEvent(flag));
}

TEST(a_group_that_refused_a_call_breaks_the_capture)
{
    aclrtTaskGrp group = NULL;
    aclmdlRI graph = NULL;
    begin(a);
    acl_ok(aclmdlRICaptureTaskGrpBegin(a));
    acl_expect(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclrtRecordEvent(event, a));
    acl_expect(ACL_ERROR_RT_STREAM_TASK_FULL, aclrtMemsetAsync(memory, 64, 1, 64, a));
    acl_expect(ACL_ERROR_RT_EVENT_CAPTURED, aclrtSynchronizeEvent(event)); /* it is part of the capture all the same */
    acl_expect(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, aclmdlRICaptureTaskGrpEnd(a, &group));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtStreamWaitEvent(b, event));
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(a, &graph));
    acl_ok(aclrtSynchronizeEvent(event));
}

TEST(an_open_group_stops_the_other_streams)
{
    aclrtTaskGrp group = NULL;
    aclmdlRI graph = NULL;
    begin(a);
    order(a, event, b);
    acl_ok(aclmdlRICaptureTaskGrpBegin(a));
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_INTR, aclrtMemsetAsync(memory, 64, 1, 64, b));
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_INTR, aclmdlRICaptureTaskGrpBegin(b));
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_INTR, aclmdlRICaptureTaskGrpEnd(a, &group));
    assert_null(group);
    acl_expect(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, aclmdlRICaptureEnd(a, &graph));
}

TEST(a_group_that_is_not_ended_stays_with_the_stream)
{
    aclrtTaskGrp group = NULL;
    aclmdlRI graph = NULL;
    aclrtStream stream = NULL;
    acl_ok(aclrtCreateStream(&stream));
    begin(stream);
    acl_ok(aclmdlRICaptureTaskGrpBegin(stream));
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureEnd(stream, &graph));
    begin(stream);
    acl_expect(ACL_ERROR_STREAM_TASK_GROUP_STATUS, aclmdlRICaptureTaskGrpBegin(stream));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclmdlRICaptureTaskGrpEnd(stream, &group));
    acl_ok(aclrtMemsetAsync(memory, 64, 1, 64, stream));
    acl_ok(aclmdlRICaptureEnd(stream, &graph));
    acl_ok(aclmdlRIDestroy(graph));
    acl_ok(aclrtDestroyStream(stream));
}

/* --- conditions --- */

/* Adds a condition with `count` branches to the capture of `a`. */
static uint64_t *condition(aclmdlRICondTaskType type, uint32_t count, aclmdlRI *branches)
{
    aclmdlRICaptureStatus status;
    aclmdlRI graph = NULL;
    aclmdlRICondHandle handle = NULL;
    uint64_t *word = NULL;
    acl_ok(aclmdlRICaptureGetInfo(a, &status, &graph));
    acl_ok(aclmdlRICondHandleCreate(graph, 0, (aclmdlRICondHandleFlag)0, &handle));
    acl_ok(aclmdlRICondHandleGetCondPtr(handle, &word));
    const aclmdlRICondTaskParams params = {.handle = handle, .type = type, .size = count, .modelRIArray = branches};
    acl_ok(aclmdlRIAddCondTask(params, a, 0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(params, a, 0)); /* one task for each handle */
    return word;
}

/* Captures a branch on `b`. */
static void branch(aclmdlRI graph, int amount)
{
    acl_ok(aclmdlRICaptureToModelRIBegin(b, graph, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    launch_add(b, amount);
    acl_ok(aclmdlRICaptureEnd(b, NULL));
    acl_expect(ACL_ERROR_RT_MODEL_CAPTURED, aclmdlRICaptureToModelRIBegin(b, graph, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIExecuteAsync(graph, b));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclmdlRIDestroy(graph));
}

static void set_word(uint64_t *word, uint64_t value)
{
    acl_ok(aclrtMemcpy(word, sizeof(value), &value, sizeof(value), ACL_MEMCPY_HOST_TO_DEVICE));
}

TEST(a_condition_chooses_a_branch)
{
    static const struct {
        aclmdlRICondTaskType type;
        uint32_t count;
        int sums[4]; /* by the value of the word */
    } cases[] = {
        {ACL_MODEL_RI_COND_TYPE_IF, 1, {0, 1, 1, 1}},
        {ACL_MODEL_RI_COND_TYPE_IF, 2, {10, 1, 1, 1}},
        {ACL_MODEL_RI_COND_TYPE_SWITCH, 3, {1, 10, 100, 0}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        aclmdlRI branches[3] = {NULL, NULL, NULL};
        begin(a);
        launch_add(a, 1000);
        uint64_t *word = condition(cases[i].type, cases[i].count, branches);
        for (uint32_t j = 0; j < cases[i].count; j++) {
            branch(branches[j], j == 0 ? 1 : j == 1 ? 10 : 100);
        }
        launch_add(a, 10000);
        aclmdlRI graph = end(a);
        for (uint64_t value = 0; value < 4; value++) {
            sum = 0;
            set_word(word, value);
            run(graph, b);
            assert_int_equal(sum, 11000 + cases[i].sums[value]);
        }
        acl_ok(aclmdlRIDestroy(graph));
    }
}

static aclError count_down(void *word)
{
    --*(uint64_t *)word;
    return ACL_SUCCESS;
}

TEST(a_loop_runs_until_its_word_is_0)
{
    aclmdlRI body = NULL;
    begin(a);
    uint64_t *word = condition(ACL_MODEL_RI_COND_TYPE_WHILE, 1, &body);
    acl_ok(aclmdlRICaptureToModelRIBegin(b, body, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    launch_add(b, 1);
    const weir_ascendcl_range range = {.address = word, .size = sizeof(*word), .write = true};
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.ranges = &range;
    kernel.range_count = 1;
    kernel.compute = count_down;
    kernel.ctx = word;
    acl_ok(weir_ascendcl_launch(b, &kernel));
    acl_ok(aclmdlRICaptureEnd(b, &body));
    launch_add(a, 100);
    aclmdlRI graph = end(a);
    for (uint64_t times = 0; times < 5; times += 2) {
        sum = 0;
        set_word(word, times);
        run(graph, a);
        assert_int_equal(sum, 100 + (int)times);
    }
    acl_ok(aclmdlRIDestroy(graph));
}

TEST(conditions_have_their_codes)
{
    aclmdlRICaptureStatus status;
    aclmdlRI graph = NULL;
    aclmdlRI branches[2] = {NULL, NULL};
    aclmdlRICondHandle handle = NULL;
    uint64_t *word = NULL;
    begin(a);
    acl_ok(aclmdlRICaptureGetInfo(a, &status, &graph));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlRICondHandleCreate(NULL, 0, (aclmdlRICondHandleFlag)0, &handle));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICondHandleCreate(graph, 0, (aclmdlRICondHandleFlag)2, &handle));
    acl_ok(aclmdlRICondHandleCreate(graph, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICondHandleGetCondPtr(&graph, &word));
    acl_ok(aclmdlRICondHandleGetCondPtr(handle, &word));
    aclmdlRICondTaskParams params = {
        .handle = handle, .type = ACL_MODEL_RI_COND_TYPE_WHILE, .size = 2, .modelRIArray = branches};
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIAddCondTask(params, a, 0));
    params.size = 1;
    acl_expect(ACL_ERROR_RT_STREAM_NOT_CAPTURED, aclmdlRIAddCondTask(params, b, 0));
    params.type = ACL_MODEL_RI_COND_TYPE_IF;
    acl_ok(aclmdlRIAddCondTask(params, a, 0));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID,
               aclmdlRICaptureToModelRIBegin(b, graph, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)); /* no branch */
    branch(branches[0], 1);
    assert_ptr_equal(end(a), graph);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRICondHandleCreate(graph, 0, (aclmdlRICondHandleFlag)0, &handle));
    set_word(word, 0);
    run(graph, a); /* the default comes first */
    assert_int_equal(sum, 1);
    acl_ok(aclmdlRIDestroy(graph));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclmdlRICondHandleGetCondPtr(handle, &word));
}

TEST(a_capture_does_not_end_before_its_branches)
{
    aclmdlRI body = NULL;
    aclmdlRI graph = NULL;
    begin(a);
    (void)condition(ACL_MODEL_RI_COND_TYPE_IF, 1, &body);
    acl_ok(aclmdlRICaptureToModelRIBegin(b, body, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    acl_expect(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, aclmdlRICaptureEnd(a, &graph));
    acl_ok(aclrtSynchronizeStream(b)); /* the branch is gone with the graph */
}

/* --- external events --- */

TEST(external_events_order_executions)
{
    begin(a);
    acl_ok(aclrtStreamWaitEventWithFlag(a, event, 0, ACL_EVENT_WAIT_EXTERNAL));
    launch_write(a, memory, 64);
    aclmdlRI reader = end(a);
    begin(b);
    launch_write(b, memory, 64);
    acl_ok(aclrtRecordEventWithFlag(event, b, ACL_EVENT_RECORD_EXTERNAL));
    aclmdlRI writer = end(b);
    run(reader, a); /* the event was never recorded: nothing to wait for */
    for (int i = 0; i < 2; i++) {
        acl_ok(aclmdlRIExecuteAsync(writer, b));
        acl_ok(aclmdlRIExecuteAsync(reader, a)); /* ordered behind it by the event */
        acl_ok(aclrtSynchronizeStream(a));
        acl_ok(aclrtSynchronizeStream(b));
    }
    acl_ok(aclmdlRIDestroy(reader));
    acl_ok(aclmdlRIDestroy(writer));
}

/* --- facts --- */

TEST(a_graph_has_a_number_and_a_picture)
{
    char path[] = "/tmp/weir-graph-XXXXXX";
    char text[4096] = "";
    uint32_t ids[2] = {0, 0};
    begin(a);
    launch_add(a, 1);
    aclmdlRI graph = end(a);
    begin(b);
    aclmdlRI other = end(b);
    acl_ok(aclmdlRIGetId(graph, &ids[0]));
    acl_ok(aclmdlRIGetId(other, &ids[1]));
    assert_int_not_equal(ids[0], ids[1]);
    acl_ok(aclmdlRIDebugPrint(graph));
    const int file = mkstemp(path);
    assert_true(file >= 0);
    acl_ok(aclmdlRIDebugJsonPrint(graph, path, 0));
    assert_true(read(file, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "\"name\": \"task\""));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclmdlRIDebugJsonPrint(graph, "/nowhere/at/all", 0));
    assert_int_equal(close(file), 0);
    assert_int_equal(unlink(path), 0);
    acl_ok(aclmdlRIDestroy(graph));
    acl_ok(aclmdlRIDestroy(other));
}

/* --- blocks --- */

/* Captures a kernel in a block that an allocator hands out for it and gets back. */
static aclmdlRI graph_with_block(void)
{
    begin(a);
    acl_ok(weir_ascendcl_block_alloc(memory, 4096, a, "workspace"));
    launch_write(a, memory, 4096);
    acl_ok(weir_ascendcl_block_free(memory, a, "workspace"));
    return end(a);
}

TEST(a_graph_may_use_the_blocks_that_are_kept_for_it)
{
    aclmdlRI graph = graph_with_block();
    run(graph, a);
    run(graph, b);
    acl_ok(weir_ascendcl_block_alloc(memory, 4096, a, "later"));
    acl_ok(weir_ascendcl_block_free(memory, a, "later"));
    run(graph, a); /* nothing has the memory now */
    acl_ok(aclmdlRIDestroy(graph));
    begin(a); /* a block that outlives the capture */
    acl_ok(weir_ascendcl_block_alloc(memory, 4096, a, "output"));
    launch_write(a, memory, 4096);
    graph = end(a);
    run(graph, a);
    acl_ok(weir_ascendcl_block_free(memory, a, "output"));
    run(graph, a);
    run(graph, b);
    acl_ok(aclmdlRIDestroy(graph));
}

TEST(a_block_that_another_owner_has_is_found)
{
    aclmdlRI graph = graph_with_block();
    run(graph, a);
    acl_ok(weir_ascendcl_block_alloc(memory, 4096, b, "other"));
    const uint64_t before = weir_ascendcl_finding_count("overlap");
    run(graph, a);
    assert_int_equal(weir_ascendcl_finding_count("overlap"), before + 1);
    acl_ok(aclmdlRIDestroy(graph));
    acl_ok(weir_ascendcl_block_free(memory, b, "other"));
    expected_findings = weir_ascendcl_finding_count(NULL);
}

/* On two legs, the events of the capture say which block may follow which. */
TEST(a_block_is_handed_on_by_the_captures_events)
{
    begin(a);
    acl_ok(weir_ascendcl_block_alloc(memory, 4096, a, "first"));
    launch_write(a, memory, 4096);
    acl_ok(weir_ascendcl_block_free(memory, a, "first"));
    order(a, event, b);
    acl_ok(weir_ascendcl_block_alloc(memory, 4096, b, "second"));
    launch_write(b, memory, 4096);
    acl_ok(weir_ascendcl_block_free(memory, b, "second"));
    order(b, back, a);
    aclmdlRI graph = end(a);
    run(graph, a);
    run(graph, a);
    acl_ok(aclmdlRIDestroy(graph));
}

/* A block that outlives the capture, in memory that another block of the graph had first: each execution uses the
 * memory for both. */
TEST(a_block_of_a_graph_may_follow_another)
{
    begin(a);
    acl_ok(weir_ascendcl_block_alloc(memory, 4096, a, "temporary"));
    launch_write(a, memory, 4096);
    acl_ok(weir_ascendcl_block_free(memory, a, "temporary"));
    acl_ok(weir_ascendcl_block_alloc(memory + 1024, 1024, a, "output"));
    launch_write(a, memory + 1024, 1024);
    aclmdlRI graph = end(a);
    const uint64_t before = weir_ascendcl_finding_count(NULL);
    for (int i = 0; i < 3; i++) {
        run(graph, a);
        launch_write(b, memory + 1024, 1024); /* the program has the output between the executions */
        acl_ok(aclrtSynchronizeStream(b));
    }
    assert_int_equal(weir_ascendcl_finding_count(NULL), before);
    launch_write(b, memory + 1024, 1024);
    acl_ok(aclmdlRIExecuteAsync(graph, a)); /* without an order after the program's last use */
    assert_true(weir_ascendcl_finding_count("early_reuse") > 0);
    const uint64_t found = weir_ascendcl_finding_count(NULL);
    expected_findings += found - before;
    acl_ok(aclrtSynchronizeDevice());
    acl_ok(aclmdlRIExecuteAsync(graph, a));
    acl_ok(weir_ascendcl_block_free(memory + 1024, a, "output"));
    run(graph, a);
    run(graph, b);
    assert_int_equal(weir_ascendcl_finding_count(NULL), found);
    acl_ok(aclmdlRIDestroy(graph));
}

/* Pinned memory that is freed between the capture of a copy and an execution is found, also when other memory has its
 * address by then. */
TEST(pinned_memory_of_a_graph_is_freed)
{
    void *host = NULL, *again = NULL;
    acl_ok(aclrtMallocHost(&host, SIZE));
    memset(host, 1, SIZE);
    begin(a);
    acl_ok(aclrtMemcpyAsync(memory, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, a));
    aclmdlRI copies = end(a);
    begin(a);
    acl_ok(aclrtMemsetD32Async(host, SIZE, 7, 16, a));
    aclmdlRI sets = end(a);
    run(sets, a);
    run(copies, a);
    assert_int_equal(memory[0], 7);
    acl_ok(aclmdlRIExecuteAsync(copies, a));
    const uint64_t before = weir_ascendcl_finding_count("host_memory");
    acl_ok(aclrtFreeHost(host));
    assert_int_equal(weir_ascendcl_finding_count("host_memory"), before + 1);
    acl_ok(aclrtSynchronizeStream(a));
    for (int round = 0; round < 2; round++) {
        acl_ok(aclmdlRIExecuteAsync(copies, a));
        acl_expect(ACL_ERROR_RT_DEVICE_MEM_ERROR, aclrtSynchronizeStream(a));
        assert_int_equal(weir_ascendcl_finding_count("host_memory"), before + 2 + 2 * (uint64_t)round);
        if (round == 0) {
            acl_ok(aclmdlRIExecuteAsync(sets, a));
            acl_expect(ACL_ERROR_RT_DEVICE_MEM_ERROR, aclrtSynchronizeStream(a));
            acl_ok(aclrtMallocHost(&again, SIZE));
        }
    }
    if (again != host) {
        print_message("the later memory has another address\n");
    }
    expected_findings += weir_ascendcl_finding_count("host_memory") - before;
    acl_ok(aclmdlRIDestroy(copies));
    acl_ok(aclmdlRIDestroy(sets));
    acl_ok(aclrtFreeHost(again));
}

TEST(the_auditor_found_nothing_else)
{
    assert_int_equal(weir_ascendcl_finding_count(NULL), expected_findings);
}

ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(CAPACITY, "1GiB") /* small: the thread sanitizer leaves few addresses */
EACH_TEST(set_up, tear_down)
