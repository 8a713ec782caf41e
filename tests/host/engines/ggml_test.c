/* ggml with buffers of a heap beside buffers of its own: equal logits, every failure, threads, and every order of
 * destruction. */
#include "rig/test.h"

#include <weir/ggml.h>

#include <engines/transformer.h>

#include <pthread.h>

#include "refused.h"

#include "failing_heap.h"

enum { SEED = 7, DECODED = 3 };

static weir_heap *heap;
static struct ggml_backend_buffer_type *weights_type, *type;

/* Runs one inference. The inference reads the weights too, so it needs every block of a program that serves one
 * request. */
static bool infer(ggml_backend_t backend, ggml_backend_buffer_type_t of_weights, ggml_backend_buffer_type_t of_rest,
                  int prompt, float *logits)
{
    struct transformer model;
    struct transformer_session session;
    if (!transformer_load(&model, of_weights, SEED)) {
        return false;
    }
    bool good = transformer_begin(&session, &model, of_rest, prompt + DECODED);
    if (good) {
        for (int i = 0; good && i <= DECODED; i++) {
            good = transformer_eval(&session, backend, i == 0 ? prompt : 1, (uint64_t)i, logits);
        }
        transformer_end(&session);
    }
    transformer_unload(&model);
    return good;
}

static ggml_backend_t new_backend(void)
{
    ggml_backend_t backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    assert_non_null(backend);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    void *found = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    assert_non_null(found);
    /* one thread: several threads of ggml busy-wait for each other */
    ((ggml_backend_set_n_threads_t)(uintptr_t)found)(backend, 1);
    return backend;
}

static uint64_t live_blocks(void)
{
    weir_heap_stats now = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &now), WEIR_OK);
    assert_int_equal(now.bad_frees, 0);
    return now.live_blocks;
}

TEST(logits_are_those_of_ggmls_own_buffers)
{
    static float own[TRANSFORMER_VOCABULARY], ours[TRANSFORMER_VOCABULARY];
    ggml_backend_t backend = new_backend();
    for (int prompt = 1; prompt < 100; prompt += 33) {
        memset(ours, 0, sizeof(ours));
        assert_true(infer(backend, ggml_backend_cpu_buffer_type(), ggml_backend_cpu_buffer_type(), prompt, own));
        assert_int_equal(live_blocks(), 0);
        assert_true(infer(backend, weights_type, type, prompt, ours));
        assert_memory_equal(own, ours, sizeof(own));
        assert_true(own[0] != 0.0F);
    }
    assert_int_equal(live_blocks(), 0);
    ggml_backend_free(backend);
}

TEST(a_buffer_reads_and_writes)
{
    ggml_backend_buffer_t a = ggml_backend_buft_alloc_buffer(type, 1000);
    ggml_backend_buffer_t b = ggml_backend_buft_alloc_buffer(weights_type, 1 << 20);
    ggml_backend_buffer_t none = ggml_backend_buft_alloc_buffer(type, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(none); /* a buffer of ggml itself, without memory */
    assert_int_equal(live_blocks(), 2);
    assert_string_equal(ggml_backend_buffer_name(a), "weir");
    assert_string_equal(ggml_backend_buffer_name(b), "weir_long_lived");
    assert_true(ggml_backend_buffer_is_host(a));
    assert_int_equal(ggml_backend_buffer_get_size(a), 1000);
    assert_int_equal((uintptr_t)ggml_backend_buffer_get_base(a) % ggml_backend_buffer_get_alignment(a), 0);
    ggml_backend_buffer_clear(a, 0x5a);
    assert_int_equal(((unsigned char *)ggml_backend_buffer_get_base(a))[999], 0x5a);
    weir_heap_stats now = WEIR_HEAP_STATS_INIT;
    assert_int_equal(weir_heap_get_stats(heap, &now), WEIR_OK);
    assert_true(now.long_lived_bytes >= 1 << 20 && now.long_lived_bytes < 2 << 20);
    refused(weir_ggml_buffer_type_destroy(type), WEIR_ERR_BUSY,
            "weir_ggml_buffer_type_destroy: 2 buffers of type are live");
    ggml_backend_buffer_free(none);
    ggml_backend_buffer_free(a);
    ggml_backend_buffer_free(b);
    assert_int_equal(live_blocks(), 0);
}

TEST(bad_arguments_are_refused)
{
    struct ggml_backend_buffer_type *other = NULL;
    refused(weir_ggml_buffer_type_create(NULL, 0, &other), WEIR_ERR_INVALID,
            "weir_ggml_buffer_type_create: heap is NULL");
    refused(weir_ggml_buffer_type_create(heap, 0, NULL), WEIR_ERR_INVALID,
            "weir_ggml_buffer_type_create: type is NULL");
    refused(weir_ggml_buffer_type_create(heap, 2, &other), WEIR_ERR_INVALID,
            "weir_ggml_buffer_type_create: flags has unknown bits: 0x2");
    assert_null(other);
    assert_int_equal(weir_ggml_buffer_type_destroy(NULL), WEIR_OK);
}

/* --- failures --- */

TEST(each_request_fails)
{
    static float right[TRANSFORMER_VOCABULARY], logits[TRANSFORMER_VOCABULARY];
    ggml_backend_t backend = new_backend();
    fail_heap_at(0, false);
    assert_true(infer(backend, weights_type, type, 40, right));
    const unsigned long long requests = atomic_load(&heap_requests);
    assert_true(requests >= 3); /* weights, cache, scratch */
    for (int and_all_after = 0; and_all_after < 2; and_all_after++) {
        for (unsigned long long n = 1; n <= requests; n++) {
            fail_heap_at(n, and_all_after != 0);
            assert_false(infer(backend, weights_type, type, 40, logits));
            assert_true(atomic_load(&heap_failures) > 0);
            fail_heap_at(0, false);
            assert_int_equal(live_blocks(), 0);
            assert_true(infer(backend, weights_type, type, 40, logits));
            assert_memory_equal(logits, right, sizeof(right));
        }
    }
    print_message("%llu requests, each refused\n", requests);
    ggml_backend_free(backend);
}

/* The scratch buffer grows with the graph; a session stays usable after its growth was refused. */
TEST(a_session_outlives_a_refusal)
{
    static float right[TRANSFORMER_VOCABULARY], logits[TRANSFORMER_VOCABULARY];
    ggml_backend_t backend = new_backend();
    struct transformer model;
    struct transformer_session session;
    assert_true(transformer_load(&model, weights_type, SEED));
    for (int refused = 0; refused < 2; refused++) {
        assert_true(transformer_begin(&session, &model, type, 200));
        assert_true(transformer_eval(&session, backend, 1, 1, logits));
        if (refused) {
            fail_heap_at(1, true);
            assert_false(transformer_eval(&session, backend, 150, 2, logits));
            assert_true(atomic_load(&heap_failures) > 0);
            fail_heap_at(0, false);
        }
        assert_true(transformer_eval(&session, backend, 150, 2, refused ? logits : right));
        transformer_end(&session);
    }
    assert_memory_equal(logits, right, sizeof(right));
    transformer_unload(&model);
    assert_int_equal(live_blocks(), 0);
    ggml_backend_free(backend);
}

/* --- threads --- */

struct worker {
    ggml_backend_t backend;
    int prompt;
    float right[TRANSFORMER_VOCABULARY], logits[TRANSFORMER_VOCABULARY];
    unsigned wrong;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < 4; i++) {
        worker->wrong += !infer(worker->backend, weights_type, type, worker->prompt, worker->logits) ||
                         memcmp(worker->logits, worker->right, sizeof(worker->right)) != 0;
    }
    return NULL;
}

TEST(two_threads_infer_at_once)
{
    static struct worker workers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        workers[i].backend = new_backend();
        workers[i].prompt = 20 + 30 * i;
        assert_true(infer(workers[i].backend, weights_type, type, workers[i].prompt, workers[i].right));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
        ggml_backend_free(workers[i].backend);
    }
    assert_int_equal(live_blocks(), 0);
}

static void be_quiet(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

static int begin(void **state)
{
    (void)state;
    ggml_log_set(be_quiet, NULL);
    ggml_backend_load_all_from_path(WEIR_GGML_LIBRARIES);
    return weir_heap_create(NULL, &heap) != WEIR_OK ||
           weir_ggml_buffer_type_create(heap, WEIR_GGML_LONG_LIVED, &weights_type) != WEIR_OK ||
           weir_ggml_buffer_type_create(heap, 0, &type) != WEIR_OK;
}

static int end(void **state)
{
    (void)state;
    const char *why = NULL;
    assert_int_equal(weir_ggml_buffer_type_destroy(type), WEIR_OK);
    assert_int_equal(weir_ggml_buffer_type_destroy(weights_type), WEIR_OK);
    assert_int_equal(weir_heap_check(heap, &why), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK);
    return 0;
}

ALL_TESTS(begin, end)
