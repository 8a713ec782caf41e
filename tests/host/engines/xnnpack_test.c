/* XNNPACK itself on a weir heap: every failure of one inference, threads, and memory that it takes from malloc. The
 * heap is the process's allocator for XNNPACK, so all tests share it, and each test leaves it unchanged. */
#define _GNU_SOURCE /* dladdr */
#include "rig/test.h"

#include <weir/xnnpack.h>
#include <xnnpack.h>

#include <engines/mobilenet.h>

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "count_malloc.h"
#include "failing_heap.h"
#include "xnnpack_header.h"

enum { BATCH = 2, SIDE = 32, DIVISOR = 4, LIMIT_BYTES = 64 << 20 };

static weir_heap *heap;
static struct xnn_allocator allocator;
static struct mobilenet net = {.divisor = DIVISOR};

/* --- one inference --- */

struct job {
    size_t batch, side;
    float *input, *output;
    uint64_t digest; /* digest of the right output */
    xnn_runtime_t runtime;
};

static uint64_t digest(const void *bytes, size_t size)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static struct job new_job(size_t batch, size_t side)
{
    struct job job = {.batch = batch, .side = side};
    job.input = weir_heap_alloc(heap, mobilenet_input_bytes(batch, side));
    job.output = weir_heap_alloc(heap, mobilenet_output_bytes(batch));
    assert_non_null(job.input);
    assert_non_null(job.output);
    mobilenet_input_fill(job.input, batch, side, side);
    return job;
}

static void end_job(struct job *job)
{
    assert_int_equal(weir_heap_free(heap, job->input), WEIR_OK);
    assert_int_equal(weir_heap_free(heap, job->output), WEIR_OK);
}

static enum xnn_status open_runtime(struct job *job)
{
    const struct xnn_external_value tensors[] = {{MOBILENET_INPUT, job->input}, {MOBILENET_OUTPUT, job->output}};
    memset(job->output, 0, mobilenet_output_bytes(job->batch));
    enum xnn_status status = mobilenet_runtime(&net, job->batch, job->side, &job->runtime);
    if (status == xnn_status_success) {
        status = xnn_setup_runtime(job->runtime, MOBILENET_EXTERNALS, tensors);
    }
    return status;
}

static enum xnn_status infer(struct job *job)
{
    enum xnn_status status = open_runtime(job);
    if (status == xnn_status_success) {
        status = xnn_invoke_runtime(job->runtime);
    }
    (void)xnn_delete_runtime(job->runtime);
    job->runtime = NULL;
    return status;
}

static bool is_right(const struct job *job)
{
    return digest(job->output, mobilenet_output_bytes(job->batch)) == job->digest;
}

static void find_right_output(struct job *job)
{
    assert_int_equal(infer(job), xnn_status_success);
    job->digest = digest(job->output, mobilenet_output_bytes(job->batch));
    float sum = 0;
    for (int i = 0; i < MOBILENET_CLASSES; i++) {
        sum += job->output[i];
    }
    assert_true(sum > 0.99F && sum < 1.01F); /* the output of a softmax */
}

static uint64_t live_blocks(void)
{
    weir_heap_stats now = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &now), WEIR_OK);
    assert_int_equal(now.bad_frees, 0);
    return now.live_blocks;
}

/* --- failures --- */

static unsigned long long requests_of_one_inference(struct job *job)
{
    fail_heap_at(0, false);
    assert_int_equal(infer(job), xnn_status_success);
    return atomic_load(&heap_requests);
}

static void fail_each_request(bool and_all_after)
{
    struct job job = new_job(BATCH, SIDE);
    find_right_output(&job);
    const uint64_t before = live_blocks();
    const unsigned long long requests = requests_of_one_inference(&job);
    unsigned saved = 0;
    assert_true(requests > 100);
    for (unsigned long long n = 1; n <= requests; n++) {
        fail_heap_at(n, and_all_after);
        const enum xnn_status status = infer(&job);
        assert_true(atomic_load(&heap_failures) > 0);
        fail_heap_at(0, false);
        assert_true(status == xnn_status_out_of_memory || (status == xnn_status_success && is_right(&job)));
        saved += status == xnn_status_success;
        assert_int_equal(live_blocks(), before);
        assert_int_equal(infer(&job), xnn_status_success);
        assert_true(is_right(&job));
    }
    print_message("%llu requests; each refused once: %llu times out of memory, %u times the "
                  "reserve sufficed\n",
                  requests, requests - saved, saved);
    assert_true(saved < requests / 10);
    assert_int_equal(live_blocks(), before);
    end_job(&job);
}

TEST(each_request_fails)
{
    fail_each_request(false);
}

TEST(each_request_and_all_after_it_fail)
{
    fail_each_request(true);
}

TEST(a_full_heap_is_a_clean_error)
{
    struct job job = new_job(BATCH, SIDE);
    find_right_output(&job);
    const uint64_t before = live_blocks();
    unsigned good = 0;
    unsigned bad = 0;
    for (size_t left = 0; left < 6 << 20; left += 96 << 10) {
        weir_heap_stats now = WEIR_HEAP_STATS_INIT;
        assert_int_equal(weir_heap_trim(heap, 0, NULL), WEIR_OK);
        assert_int_equal(weir_heap_get_stats(heap, &now), WEIR_OK);
        void *hog = weir_heap_alloc(heap, LIMIT_BYTES - now.held_bytes - left);
        const enum xnn_status status = infer(&job);
        assert_true(status == xnn_status_out_of_memory || (status == xnn_status_success && is_right(&job)));
        if (status == xnn_status_success) {
            good++;
        } else {
            char why[512] = "";
            assert_true(weir_heap_explain(heap, why, sizeof(why)) > 0);
            bad++;
        }
        assert_int_equal(weir_heap_free(heap, hog), WEIR_OK);
        assert_int_equal(live_blocks(), before);
        assert_int_equal(infer(&job), xnn_status_success);
        assert_true(is_right(&job));
    }
    print_message("%u times out of memory, %u times enough\n", bad, good);
    assert_true(good > 0 && bad > 0);
    end_job(&job);
}

/* --- all requests of the engine --- */

/* True if the caller is glibc's qsort, which takes scratch memory from malloc for arrays above 1 KiB; XNNPACK's planner
 * sorts its tensors. */
static bool is_sorting(const void *caller)
{
    Dl_info sort;
    Dl_info info;
    return dladdr(dlsym(RTLD_DEFAULT, "qsort"), &sort) != 0 && dladdr(caller, &info) != 0 &&
           info.dli_fbase == sort.dli_fbase;
}

TEST(an_inference_takes_nothing_from_malloc)
{
    if (!CAN_COUNT_MALLOC) {
        print_message("not under a sanitizer, which has a malloc of its own\n");
        skip();
    }
    struct job job = new_job(BATCH, SIDE);
    find_right_output(&job);
    for (int i = 0; i < 3; i++) {
        count_malloc(true);
        const enum xnn_status status = infer(&job);
        count_malloc(false);
        assert_int_equal(status, xnn_status_success);
        assert_true(counted_mallocs <= 1);
        assert_true(counted_mallocs == 0 || is_sorting(malloc_callers[0]));
    }
    count_malloc(true);
    void *volatile one = malloc(1); /* shows that malloc is counted */
    count_malloc(false);
    free(one);
    assert_int_equal(counted_mallocs, 1);
    assert_false(is_sorting(malloc_callers[0]));
    end_job(&job);
}

/* --- threads --- */

enum { ROUNDS = 20, SHAPES = 3 };

static struct job jobs[2][SHAPES]; /* for each thread */
static pthread_barrier_t both;

/* Runs inferences, then destroys the runtimes that the other thread has created. */
static void *serve(void *argument)
{
    const uintptr_t self = (uintptr_t)argument;
    unsigned wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SHAPES; i++) {
            wrong += open_runtime(&jobs[self][i]) != xnn_status_success;
            wrong += xnn_invoke_runtime(jobs[self][i].runtime) != xnn_status_success;
            wrong += !is_right(&jobs[self][i]);
        }
        (void)pthread_barrier_wait(&both);
        for (int i = 0; i < SHAPES; i++) {
            (void)xnn_delete_runtime(jobs[1 - self][i].runtime);
        }
        (void)pthread_barrier_wait(&both);
    }
    return (void *)(uintptr_t)wrong;
}

TEST(two_threads_infer_at_once)
{
    pthread_t threads[2];
    const uint64_t before = live_blocks();
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < SHAPES; j++) {
            jobs[i][j] = new_job(1 + j, 32 + 32 * i + 16 * j);
            find_right_output(&jobs[i][j]);
        }
    }
    for (uintptr_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, serve, (void *)i), 0);
    }
    for (int i = 0; i < 2; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
        for (int j = 0; j < SHAPES; j++) {
            end_job(&jobs[i][j]);
        }
    }
    assert_int_equal(pthread_barrier_destroy(&both), 0);
    assert_int_equal(live_blocks(), before);
}

/* --- lifetime --- */

TEST(a_second_initialize_changes_nothing)
{
    struct job job = new_job(1, SIDE);
    find_right_output(&job);
    assert_int_equal(xnn_deinitialize(), xnn_status_success);
    assert_int_equal(xnn_initialize(NULL), xnn_status_success);
    assert_true(requests_of_one_inference(&job) > 100); /* the heap still serves */
    assert_true(is_right(&job));
    end_job(&job);
}

static int begin(void **state)
{
    (void)state;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.slack_bytes = XNN_EXTRA_BYTES;
    config.limit_bytes = LIMIT_BYTES;
    config.name = "xnnpack";
    if (weir_heap_create(&config, &heap) != WEIR_OK) {
        return 1;
    }
    struct xnn_allocator passing; /* XNNPACK keeps a copy */
    if (weir_xnnpack_allocator_init(heap, &passing) != WEIR_OK || xnn_initialize(&passing) != xnn_status_success) {
        return 1;
    }
    allocator = passing;
    memset(&passing, 0xff, sizeof(passing));
    float *weights = weir_heap_alloc_long_lived(heap, mobilenet_weights_bytes(&net), 64);
    if (weights == NULL) {
        return 1;
    }
    mobilenet_fill(&net, weights, 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    const char *why = NULL;
    assert_int_equal(weir_heap_free(heap, (void *)(uintptr_t)net.weights), WEIR_OK);
    assert_int_equal(weir_xnnpack_allocator_fini(&allocator), WEIR_OK);
    assert_int_equal(live_blocks(), 0);
    assert_int_equal(weir_heap_check(heap, &why), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    return 0;
}

ALL_TESTS(begin, end)
