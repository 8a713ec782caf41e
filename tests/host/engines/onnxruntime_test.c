/* ONNX Runtime itself on a weir heap: outputs, weights, every failure while a session is created and during one
 * inference, threads, wrong orders, two runtimes at once.    onnxruntime_test LIBRARY [ANOTHER_LIBRARY]
 *
 * A failure is a request that the heap does not serve (failing_heap.h): the binding throws, and the engine must return
 * a status that reports it. Then the heap must be empty, and the next output must be right.
 *
 * Under the thread sanitizer: the engine's code is not instrumented, so the sanitizer does not see the order that its
 * threads make with their own atomics. The suppressions below therefore ignore reports about the engine's calls of
 * functions that the sanitizer knows (memcpy, locks, new and delete; weir itself never calls new or delete). The
 * sanitizer still checks weir's code, the binding's and this file's, on the engine's threads too.
 */
#include "rig/heap.h"

#include <weir/onnxruntime.h>

#include "caught.h"

#include <engines/onnx_api.h>
#include <engines/onnx_graph.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "failing_heap.h"

enum { SKIPPED = 77 };

#define FOUND_BY_SANITIZER __attribute__((visibility("default")))
FOUND_BY_SANITIZER const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libonnxruntime.so\ncalled_from_lib:libstdc++.so\nrace_top:^operator "
           "new\nrace_top:^operator delete\n";
}

/* Under the address sanitizer: version 1.30 leaks some hundred bytes of its own if creating a session fails. */
FOUND_BY_SANITIZER const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libonnxruntime.so\n";
}

/* --- an engine with a heap --- */

static const char *library, *another_library; /* the second may be NULL */
static struct onnx_model bert, mobilenet;

struct engine {
    const struct OrtApiBase *base;
    struct onnx_api ort;
    OrtEnv *env;
    weir_heap *heap;
    weir_onnxruntime *binding;
};

static void good_at(struct engine *engine, OrtStatus *status, int line)
{
    if (status != NULL) {
        fail_msg("line %d: %s", line, engine->ort.GetErrorMessage(status));
    }
}
#define GOOD(engine, call) good_at(engine, (engine)->ort.call, __LINE__)

/* Checks that the engine reports a failure of the heap. */
static void assert_out_of_memory(const struct engine *engine, OrtStatus *status)
{
    assert_non_null(status);
    const char *text = engine->ort.GetErrorMessage(status);
    if (strstr(text, "weir: ") == NULL) {
        fail_msg("not about weir: %s", text);
    }
    engine->ort.ReleaseStatus(status);
}

static weir_onnxruntime *bind(const struct engine *engine, weir_heap *heap)
{
    weir_onnxruntime_config config = WEIR_ONNXRUNTIME_CONFIG_INIT;
    weir_onnxruntime *binding = NULL;
    config.heap = heap;
    config.runtime = engine->base;
    assert_int_equal(weir_onnxruntime_create(&config, &binding), WEIR_OK);
    return binding;
}

static struct engine open_engine(const char *from, uint64_t limit_bytes)
{
    struct engine engine = {0};
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = limit_bytes;
    fail_heap_at(0, false);
    assert_true(onnx_api_load(from, &engine.base, &engine.ort));
    GOOD(&engine, CreateEnv(ORT_FATAL, "test", &engine.env));
    assert_int_equal(weir_heap_create(&config, &engine.heap), WEIR_OK);
    engine.binding = bind(&engine, engine.heap);
    assert_int_equal(weir_onnxruntime_attach(engine.binding, engine.env), WEIR_OK);
    return engine;
}

static void close_engine(struct engine *engine)
{
    assert_int_equal(weir_onnxruntime_detach(engine->binding, engine->env), WEIR_OK);
    engine->ort.ReleaseEnv(engine->env);
    assert_int_equal(weir_onnxruntime_destroy(engine->binding), WEIR_OK);
    const weir_heap_stats stats = stats_of(engine->heap);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.allocs, stats.frees);
    assert_int_equal(stats.bad_frees, 0);
    const char *why = NULL;
    if (weir_heap_check(engine->heap, &why) != WEIR_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(weir_heap_destroy(engine->heap), WEIR_OK);
}

enum {
    OWN = 1 << 0, /* the engine's own allocator */
    /* the engine requests one block for each tensor; without this flag it requests one block for all tensors of a shape
     * that it has seen before */
    NO_PATTERN = 1 << 1,
    NO_PREPACKING = 1 << 2,
    TWO_THREADS = 1 << 3, /* for each operator */
};

static OrtStatus *try_session(struct engine *engine, const struct onnx_model *model, int how, OrtSession **session)
{
    OrtSessionOptions *options = NULL;
    GOOD(engine, CreateSessionOptions(&options));
    GOOD(engine, SetIntraOpNumThreads(options, how & TWO_THREADS ? 2 : 1));
    if (how & NO_PATTERN) {
        GOOD(engine, DisableMemPattern(options));
    }
    if (how & OWN) {
        if (how & NO_PREPACKING) {
            GOOD(engine, AddSessionConfigEntry(options, "session.disable_prepacking", "1"));
        }
    } else {
        const uint32_t flags = how & NO_PREPACKING ? WEIR_ONNXRUNTIME_NO_PREPACKING : 0u;
        assert_int_equal(weir_onnxruntime_session_options(engine->binding, options, flags), WEIR_OK);
    }
    OrtStatus *status = engine->ort.CreateSessionFromArray(engine->env, model->bytes, model->size, options, session);
    engine->ort.ReleaseSessionOptions(options);
    return status;
}

static OrtSession *new_session(struct engine *engine, const struct onnx_model *model, int how)
{
    OrtSession *session = NULL;
    good_at(engine, try_session(engine, model, how, &session), __LINE__);
    return session;
}

/* --- an inference --- */

/* The two sizes of an input: batch and sequence for bert, batch and side for mobilenet. */
struct shape {
    const struct onnx_model *model;
    int64_t batch, length;
};

/* The test owns the memory of inputs, so that every request comes from the engine. */
struct inputs {
    OrtValue *values[2];
    void *bytes[2];
    size_t count;
};

static void add_input(struct engine *engine, struct inputs *inputs, int type, size_t rank, const int64_t *dims)
{
    size_t size = type == ORT_FLOAT ? sizeof(float) : sizeof(int64_t);
    OrtMemoryInfo *cpu = NULL;
    for (size_t i = 0; i < rank; i++) {
        size *= (size_t)dims[i];
    }
    void *bytes = calloc(1, size);
    assert_non_null(bytes);
    GOOD(engine, CreateCpuMemoryInfo(0, 0, &cpu));
    GOOD(engine, CreateTensorWithDataAsOrtValue(cpu, bytes, size, dims, rank, type, &inputs->values[inputs->count]));
    engine->ort.ReleaseMemoryInfo(cpu);
    inputs->bytes[inputs->count++] = bytes;
}

static struct inputs make_inputs(struct engine *engine, struct shape shape)
{
    struct inputs inputs = {.count = 0};
    if (shape.model == &bert) {
        const int64_t dims[] = {shape.batch, shape.length};
        add_input(engine, &inputs, ORT_INT64, 2, dims);
        add_input(engine, &inputs, ORT_FLOAT, 2, dims);
        for (int64_t i = 0; i < shape.batch * shape.length; i++) {
            ((int64_t *)inputs.bytes[0])[i] = i * 37 % ONNX_BERT_WORDS;
            ((float *)inputs.bytes[1])[i] = i % 11 == 10 ? 0.0f : 1.0f;
        }
    } else {
        const int64_t dims[] = {shape.batch, 3, shape.length, shape.length};
        add_input(engine, &inputs, ORT_FLOAT, 4, dims);
        for (int64_t i = 0; i < shape.batch * 3 * shape.length * shape.length; i++) {
            ((float *)inputs.bytes[0])[i] = (float)(i * 61 % 997) / 500.0f - 1.0f;
        }
    }
    return inputs;
}

static void drop_inputs(struct engine *engine, struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        engine->ort.ReleaseValue(inputs->values[i]);
        free(inputs->bytes[i]);
    }
}

static OrtStatus *try_run(struct engine *engine, OrtSession *session, struct shape shape, OrtValue **output)
{
    static const char *const names[2][2] = {{"ids", "mask"}, {"image", NULL}};
    static const char *const output_names[] = {"hidden", "scores"};
    const size_t which = shape.model == &bert ? 0 : 1;
    struct inputs inputs = make_inputs(engine, shape);
    OrtStatus *status = engine->ort.Run(session, NULL, names[which], (const OrtValue *const *)inputs.values,
                                        inputs.count, &output_names[which], 1, output);
    drop_inputs(engine, &inputs);
    return status;
}

static uint64_t digest_of(struct engine *engine, OrtValue *value)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t count = 0;
    void *data = NULL;
    GOOD(engine, GetTensorTypeAndShape(value, &info));
    GOOD(engine, GetTensorShapeElementCount(info, &count));
    GOOD(engine, GetTensorMutableData(value, &data));
    engine->ort.ReleaseTensorTypeAndShapeInfo(info);
    assert_int_equal((uintptr_t)data % 64, 0);
    uint64_t digest = count;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, (float *)data + i, sizeof(bits));
        digest = (digest ^ bits) * UINT64_C(0x100000001b3);
    }
    return digest;
}

static uint64_t run(struct engine *engine, OrtSession *session, struct shape shape)
{
    OrtValue *output = NULL;
    good_at(engine, try_run(engine, session, shape, &output), __LINE__);
    const uint64_t digest = digest_of(engine, output);
    engine->ort.ReleaseValue(output);
    return digest;
}

/* Returns the digest of the output with the engine's own allocator. */
static uint64_t right_digest(struct engine *engine, struct shape shape, int how)
{
    OrtSession *session = new_session(engine, shape.model, how | OWN);
    const uint64_t before = stats_of(engine->heap).allocs;
    const uint64_t digest = run(engine, session, shape);
    assert_int_equal(stats_of(engine->heap).allocs, before);
    engine->ort.ReleaseSession(session);
    return digest;
}

/* --- outputs and weights --- */

TEST(test_outputs)
{
    static const struct shape shapes[] = {{&bert, 1, 17},      {&bert, 3, 40},      {&bert, 2, 100},     {&bert, 1, 18},
                                          {&mobilenet, 1, 64}, {&mobilenet, 2, 96}, {&mobilenet, 1, 160}};
    static const int ways[] = {0, NO_PREPACKING, NO_PATTERN, TWO_THREADS};
    struct engine engine = open_engine(library, 0);
    for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
        OrtSession *sessions[2][2]; /* [model][0]: with the engine's allocator, [model][1]: with weir's */
        for (int side = 0; side < 2; side++) {
            sessions[0][side] = new_session(&engine, &bert, ways[way] | (side == 0 ? OWN : 0));
            sessions[1][side] = new_session(&engine, &mobilenet, ways[way] | (side == 0 ? OWN : 0));
        }
        for (size_t i = 0; i < 2 * sizeof(shapes) / sizeof(shapes[0]); i++) { /* each shape first new, then known */
            const struct shape shape = shapes[i / 2];
            OrtSession **pair = sessions[shape.model == &bert ? 0 : 1];
            const uint64_t allocs = stats_of(engine.heap).allocs;
            const uint64_t own = run(&engine, pair[0], shape);
            assert_int_equal(stats_of(engine.heap).allocs, allocs);
            assert_int_equal(run(&engine, pair[1], shape), own);
            assert_true(stats_of(engine.heap).allocs > allocs);
        }
        for (int i = 0; i < 4; i++) {
            engine.ort.ReleaseSession(sessions[i / 2][i % 2]);
        }
    }
    close_engine(&engine);
}

TEST(test_weights)
{
    const uint64_t mib = 1 << 20;
    struct engine engine = open_engine(library, 0);
    OrtSession *session = new_session(&engine, &bert, 0);
    const uint64_t packed = stats_of(engine.heap).long_lived_bytes;
    assert_true(packed > mib);
    /* nine tenths of the bytes are long-lived, so they come from Reserve, not from Alloc */
    assert_true(packed >= stats_of(engine.heap).live_bytes * 9 / 10);
    engine.ort.ReleaseSession(session);
    assert_int_equal(stats_of(engine.heap).live_blocks, 0);

    session = new_session(&engine, &bert, NO_PREPACKING);
    assert_true(stats_of(engine.heap).long_lived_bytes > 19 * mib); /* all weights */
    engine.ort.ReleaseSession(session);

    session = new_session(&engine, &mobilenet, NO_PREPACKING);
    assert_true(stats_of(engine.heap).long_lived_bytes > 13 * mib);
    engine.ort.ReleaseSession(session);

    close_engine(&engine);
}

/* --- failures --- */

/* Fails each request of creating a session, one after the other; alone, or with all later requests. */
static void fail_sessions(const struct onnx_model *model, int how, bool and_all_after)
{
    struct engine engine = open_engine(library, 0);
    unsigned long long n = 1;
    for (;; n++) {
        OrtSession *session = NULL;
        fail_heap_at(n, and_all_after);
        OrtStatus *status = try_session(&engine, model, how, &session);
        const bool failed = atomic_load(&heap_failures) > 0;
        fail_heap_at(0, false);
        if (!failed) {
            good_at(&engine, status, __LINE__);
            engine.ort.ReleaseSession(session);
            break;
        }
        assert_out_of_memory(&engine, status);
        assert_null(session);
        assert_int_equal(stats_of(engine.heap).live_blocks, 0);
    }
    assert_true(n > 1);
    close_engine(&engine);
}

TEST(test_session_failures)
{
    fail_sessions(&bert, 0, false);
    fail_sessions(&mobilenet, 0, false);
    fail_sessions(&mobilenet, NO_PREPACKING, false);
    fail_sessions(&mobilenet, NO_PREPACKING, true);
}

/* Fails each request of one inference. After each failure the next inference is right. */
static void fail_runs(struct shape shape, int how, bool and_all_after, unsigned long long at_least)
{
    struct engine engine = open_engine(library, 0);
    const uint64_t right = right_digest(&engine, shape, how);
    OrtSession *session = new_session(&engine, shape.model, how);
    const uint64_t at_rest = stats_of(engine.heap).live_blocks;
    unsigned long long n = 1;
    for (;; n++) {
        OrtValue *output = NULL;
        fail_heap_at(n, and_all_after);
        OrtStatus *status = try_run(&engine, session, shape, &output);
        const bool failed = atomic_load(&heap_failures) > 0;
        fail_heap_at(0, false);
        if (!failed) {
            good_at(&engine, status, __LINE__);
            assert_int_equal(digest_of(&engine, output), right);
            engine.ort.ReleaseValue(output);
            break;
        }
        assert_out_of_memory(&engine, status);
        assert_null(output);
        assert_int_equal(stats_of(engine.heap).live_blocks, at_rest);
        assert_int_equal(run(&engine, session, shape), right);
        assert_int_equal(stats_of(engine.heap).live_blocks, at_rest);
    }
    print_message("%llu requests, each refused once\n", n - 1);
    assert_true(n > at_least);
    engine.ort.ReleaseSession(session);
    close_engine(&engine);
}

TEST(test_run_failures)
{
    const struct shape words = {&bert, 1, 24};
    const struct shape image = {&mobilenet, 1, 64};
    fail_runs(words, NO_PATTERN, false, 100);
    fail_runs(words, NO_PATTERN, true, 100);
    fail_runs(words, NO_PATTERN | TWO_THREADS, false, 100);
    fail_runs(words, 0, false, 1);
    fail_runs(image, NO_PATTERN, false, 50);
    fail_runs(image, NO_PATTERN, true, 50);
    fail_runs(image, NO_PATTERN | NO_PREPACKING | TWO_THREADS, false, 50);
    fail_runs(image, 0, false, 1);
}

/* Fails requests of the first inference of a shape, during which the engine plans its memory. Each run has a session
 * that has seen no shape. */
TEST(test_first_run_failures)
{
    struct engine engine = open_engine(library, 0);
    const struct shape shape = {&mobilenet, 1, 64};
    const uint64_t right = right_digest(&engine, shape, 0);
    for (unsigned long long n = 1; n < 200; n += 7) {
        OrtSession *session = new_session(&engine, shape.model, 0);
        OrtValue *output = NULL;
        fail_heap_at(n, false);
        OrtStatus *status = try_run(&engine, session, shape, &output);
        const bool failed = atomic_load(&heap_failures) > 0;
        fail_heap_at(0, false);
        if (failed) {
            assert_out_of_memory(&engine, status);
        } else {
            good_at(&engine, status, __LINE__);
            assert_int_equal(digest_of(&engine, output), right);
            engine.ort.ReleaseValue(output);
        }
        assert_int_equal(run(&engine, session, shape), right);
        engine.ort.ReleaseSession(session);
        if (!failed) {
            break;
        }
    }
    close_engine(&engine);
}

/* The limit of the heap makes a request fail, not an injected failure. A session that is too large fails. A session
 * that fits works before and after. */
TEST(test_limit)
{
    struct engine engine = open_engine(library, 40 << 20);
    const struct shape small = {&mobilenet, 1, 64};
    const struct shape large = {&mobilenet, 8, 256};
    const uint64_t right = right_digest(&engine, small, 0);
    OrtSession *session = new_session(&engine, &mobilenet, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(&engine, session, small), right);
        OrtValue *output = NULL;
        assert_out_of_memory(&engine, try_run(&engine, session, large, &output));
        assert_null(output);
    }
    assert_int_equal(run(&engine, session, small), right);
    assert_true(stats_of(engine.heap).peak_held_bytes <= 40 << 20);
    engine.ort.ReleaseSession(session);
    close_engine(&engine);
}

/* --- threads --- */

enum { THREADS = 2, RUNS = 6 };

struct worker {
    struct engine *engine;
    OrtSession *session;
    pthread_barrier_t *meet;
    /* outputs that this thread creates, and outputs of the other thread, which this thread releases */
    OrtValue **mine, **others;
    uint64_t right[RUNS];
    bool may_fail;
    int wrong, failed;
};

static struct shape worker_shape(size_t i)
{
    const struct shape shapes[] = {{&bert, 1, 20}, {&bert, 2, 33}, {&bert, 1, 50}};
    return shapes[i % 3];
}

static uint64_t worker_right[RUNS];

static void find_worker_right(struct engine *engine)
{
    OrtSession *session = new_session(engine, &bert, OWN);
    for (size_t i = 0; i < RUNS; i++) {
        worker_right[i] = run(engine, session, worker_shape(i));
    }
    engine->ort.ReleaseSession(session);
}

/* Counts errors, since cmocka's assertions belong to the main thread. */
static void *work(void *ctx)
{
    struct worker *worker = ctx;
    struct engine *engine = worker->engine;
    for (size_t i = 0; i < RUNS; i++) {
        OrtStatus *status = try_run(engine, worker->session, worker_shape(i), worker->mine);
        if (status != NULL) {
            const bool ours = strstr(engine->ort.GetErrorMessage(status), "weir: ") != NULL;
            worker->failed++;
            worker->wrong += !worker->may_fail || !ours || *worker->mine != NULL;
            engine->ort.ReleaseStatus(status);
        } else {
            worker->wrong += digest_of(engine, *worker->mine) != worker->right[i];
        }
        (void)pthread_barrier_wait(worker->meet);
        engine->ort.ReleaseValue(*worker->others); /* NULL if there is none */
        *worker->others = NULL;
        (void)pthread_barrier_wait(worker->meet);
    }
    return NULL;
}

/* Returns the number of failed inferences. */
static int run_threads(struct engine *engine, OrtSession *const sessions[THREADS], bool may_fail)
{
    struct worker workers[THREADS];
    OrtValue *outputs[THREADS] = {NULL};
    pthread_t threads[THREADS];
    pthread_barrier_t meet;
    int failed = 0;
    assert_int_equal(pthread_barrier_init(&meet, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.engine = engine,
                                     .session = sessions[i],
                                     .meet = &meet,
                                     .mine = &outputs[i],
                                     .others = &outputs[(i + 1) % THREADS],
                                     .may_fail = may_fail};
        memcpy(workers[i].right, worker_right, sizeof(worker_right));
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
        failed += workers[i].failed;
    }
    assert_int_equal(pthread_barrier_destroy(&meet), 0);
    return failed;
}

TEST(test_threads_one_session)
{
    struct engine engine = open_engine(library, 0);
    find_worker_right(&engine);
    OrtSession *session = new_session(&engine, &bert, 0);
    assert_int_equal(run_threads(&engine, (OrtSession *[]){session, session}, false), 0);
    engine.ort.ReleaseSession(session);
    close_engine(&engine);
}

TEST(test_threads_two_sessions)
{
    struct engine engine = open_engine(library, 0);
    find_worker_right(&engine);
    OrtSession *sessions[] = {new_session(&engine, &bert, 0), new_session(&engine, &bert, TWO_THREADS | NO_PATTERN)};
    assert_int_equal(run_threads(&engine, sessions, false), 0);
    for (size_t i = 0; i < 2; i++) {
        engine.ort.ReleaseSession(sessions[i]);
    }
    close_engine(&engine);
}

/* A failure in one of two threads does not disturb the other. */
TEST(test_threads_and_failures)
{
    struct engine engine = open_engine(library, 0);
    find_worker_right(&engine);
    OrtSession *session = new_session(&engine, &bert, NO_PATTERN);
    for (unsigned long long n = 1; n < 900; n += 179) {
        fail_heap_at(n, false);
        assert_int_equal(run_threads(&engine, (OrtSession *[]){session, session}, true), 1);
        fail_heap_at(0, false);
    }
    engine.ort.ReleaseSession(session);
    close_engine(&engine);
}

/* --- the allocator alone, orders of destruction, several heaps --- */

struct direct_call {
    OrtAllocator *allocator;
    struct engine *engine;
    OrtStatus *status;
    void *block;
};

static void call_through_api(void *ctx)
{
    struct direct_call *call = ctx;
    call->status = call->engine->ort.AllocatorAlloc(call->allocator, (size_t)1 << 40, &call->block);
}

TEST(test_allocator_through_the_api)
{
    struct engine engine = open_engine(library, 64 << 20);
    OrtAllocator *allocator = weir_onnxruntime_allocator(engine.binding);
    const OrtMemoryInfo *info = NULL;
    void *block = NULL;
    char text[256];
    GOOD(&engine, AllocatorAlloc(allocator, 1000, &block));
    assert_non_null(block);
    GOOD(&engine, AllocatorGetInfo(allocator, &info));
    assert_non_null(info);
    if (engine.ort.version >= 23) {
        OrtKeyValuePairs *pairs = NULL;
        GOOD(&engine, AllocatorGetStats(allocator, &pairs));
        assert_string_equal(engine.ort.GetKeyValue(pairs, "Limit"), "67108864");
        assert_string_equal(engine.ort.GetKeyValue(pairs, "NumAllocs"), "1");
        engine.ort.ReleaseKeyValuePairs(pairs);
    }
    GOOD(&engine, AllocatorFree(allocator, block));
    /* A request that is too large gives a status, and no exception passes through the engine's C interface. */
    struct direct_call call = {.allocator = allocator, .engine = &engine};
    assert_false(caught_bad_alloc(call_through_api, &call, text, sizeof(text)));
    assert_out_of_memory(&engine, call.status);
    /* A tensor that is too large gives a status too, and no exception. */
    OrtValue *value = NULL;
    assert_out_of_memory(&engine,
                         engine.ort.CreateTensorAsOrtValue(allocator, (int64_t[]){1 << 30}, 1, ORT_FLOAT, &value));
    assert_null(value);
    close_engine(&engine);
}

TEST(test_wrong_orders)
{
    struct engine engine = open_engine(library, 0);
    weir_heap *heap = NULL;
    assert_int_equal(weir_heap_create(NULL, &heap), WEIR_OK);
    weir_onnxruntime *second = bind(&engine, heap);

    /* The environment accepts one allocator for the CPU's memory; it keeps the first one. */
    assert_int_equal(weir_onnxruntime_attach(second, engine.env), WEIR_ERR_BUSY);
    OrtSession *session = new_session(&engine, &bert, 0);
    assert_true(stats_of(engine.heap).live_blocks > 0);
    assert_int_equal(stats_of(heap).live_blocks, 0);

    /* Calls destroy and detach while the heap is attached, and then while a session's weights are alive. */
    assert_int_equal(weir_onnxruntime_destroy(engine.binding), WEIR_ERR_BUSY);
    assert_int_equal(weir_onnxruntime_detach(second, engine.env), WEIR_ERR_INVALID);
    assert_int_equal(weir_onnxruntime_detach(engine.binding, engine.env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_detach(engine.binding, engine.env), WEIR_ERR_INVALID);
    assert_int_equal(weir_onnxruntime_destroy(engine.binding), WEIR_ERR_BUSY);

    /* A session that was created earlier keeps its heap; a session that is created now uses the second heap. */
    const struct shape shape = {&bert, 1, 21};
    const uint64_t right = right_digest(&engine, shape, 0);
    assert_int_equal(run(&engine, session, shape), right);
    assert_int_equal(weir_onnxruntime_attach(second, engine.env), WEIR_OK);
    OrtSession *next = new_session(&engine, &bert, 0);
    const uint64_t allocs = stats_of(heap).allocs;
    assert_true(allocs > 0);
    assert_int_equal(run(&engine, next, shape), right);
    assert_true(stats_of(heap).allocs > allocs);
    const uint64_t after = stats_of(heap).allocs;
    assert_int_equal(run(&engine, session, shape), right);
    assert_int_equal(stats_of(heap).allocs, after);
    engine.ort.ReleaseSession(next);
    engine.ort.ReleaseSession(session);
    assert_int_equal(weir_onnxruntime_detach(second, engine.env), WEIR_OK);
    assert_int_equal(weir_onnxruntime_destroy(second), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    assert_int_equal(weir_onnxruntime_attach(engine.binding, engine.env), WEIR_OK);
    close_engine(&engine);
}

/* The environment is destroyed while a binding is attached; the binding then serves the next environment. */
TEST(test_binding_outlives_environment)
{
    struct engine engine = open_engine(library, 0);
    const struct shape shape = {&mobilenet, 1, 64};
    const uint64_t right = right_digest(&engine, shape, 0);
    for (int i = 0; i < 3; i++) {
        OrtSession *session = new_session(&engine, &mobilenet, 0);
        assert_int_equal(run(&engine, session, shape), right);
        engine.ort.ReleaseSession(session);
        engine.ort.ReleaseEnv(engine.env);
        assert_int_equal(stats_of(engine.heap).live_blocks, 0);
        assert_int_equal(weir_onnxruntime_detach(engine.binding, NULL), WEIR_OK);
        GOOD(&engine, CreateEnv(ORT_FATAL, "again", &engine.env));
        assert_int_equal(weir_onnxruntime_attach(engine.binding, engine.env), WEIR_OK);
    }
    close_engine(&engine);
}

/* Two copies of the runtime in one process have an environment each, and a heap each. */
TEST(test_two_environments)
{
    if (another_library == NULL) {
        skip();
    }
    struct engine engines[] = {open_engine(library, 0), open_engine(another_library, 0)};
    const struct shape shape = {&mobilenet, 1, 96};
    assert_ptr_not_equal(engines[0].env, engines[1].env);
    OrtSession *sessions[2];
    for (size_t i = 0; i < 2; i++) {
        sessions[i] = new_session(&engines[i], &mobilenet, 0);
    }
    for (size_t i = 0; i < 4; i++) {
        struct engine *engine = &engines[i % 2];
        const uint64_t elsewhere = stats_of(engines[(i + 1) % 2].heap).allocs;
        const uint64_t before = stats_of(engine->heap).allocs;
        assert_int_equal(run(engine, sessions[i % 2], shape), right_digest(engine, shape, 0));
        assert_true(stats_of(engine->heap).allocs > before);
        assert_int_equal(stats_of(engines[(i + 1) % 2].heap).allocs, elsewhere);
    }
    for (size_t i = 0; i < 2; i++) {
        engines[i].ort.ReleaseSession(sessions[i]);
    }
    close_engine(&engines[1]);
    close_engine(&engines[0]);
}

int main(int argc, char **argv)
{
    library = argc > 1 ? argv[1] : "";
    another_library = argc > 2 && access(argv[2], R_OK) == 0 ? argv[2] : NULL;
    if (access(library, R_OK) != 0) {
        (void)printf("skipped: no ONNX Runtime at %s: run script/engines\n", library);
        return SKIPPED;
    }
    if (!onnx_bert(1, &bert) || !onnx_mobilenet(2, &mobilenet)) {
        return EXIT_FAILURE;
    }
    const int failed = run_all_tests("onnxruntime");
    free(bert.bytes);
    free(mobilenet.bytes);
    return failed;
}
