/* tests/host/unit/host_retire_test.c: a retired stream leaves nothing behind in a host pool.
 *
 * A program may create and destroy any number of streams. When a stream is retired, the pool frees its records of the
 * stream or uses them for the next stream: after the first rounds the pool holds no more host memory. malloc and free
 * are wrapped in this program and counted during calls of the pool, not of the simulator.
 */
#include "rig/test.h"

#include <weir/host.h>
#include <weir/sim.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void __real_free(void *memory);
__attribute__((visibility("default"))) void *__wrap_malloc(size_t size);
__attribute__((visibility("default"))) void *__wrap_calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *__wrap_realloc(void *old, size_t size);
__attribute__((visibility("default"))) void *__wrap_aligned_alloc(size_t align, size_t size);
__attribute__((visibility("default"))) void __wrap_free(void *memory);

static bool counting; /* true during a call of the pool */
static long held;     /* pieces of host memory */

static void *count(void *memory)
{
    held += counting && memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return count(__real_malloc(size));
}

void *__wrap_calloc(size_t number, size_t size)
{
    return count(__real_calloc(number, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    void *memory = __real_realloc(old, size);
    return old == NULL ? count(memory) : memory;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return count(__real_aligned_alloc(align, size));
}

void __wrap_free(void *memory)
{
    held -= counting && memory != NULL;
    __real_free(memory);
}

enum { first_rounds = 4, rounds = 64 };

static weir_host_pool *open_pool(weir_sim *sim)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    runtime.device = weir_sim_device(sim);
    config.runtime = &runtime;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    return pool;
}

/* A small block and a large one wait for a copy on the stream, which is then retired. Returns the number of pieces of
 * host memory that the pool holds afterwards. */
static long play(weir_sim *sim, weir_host_pool *pool, weir_sim_stream *stream)
{
    const size_t sizes[] = {100, 100000};
    void *blocks[2] = {NULL, NULL};
    weir_sim_work copy = WEIR_SIM_WORK_INIT;
    copy.duration_ns = 1000;
    assert_int_equal(weir_sim_launch(sim, stream, &copy), WEIR_OK);
    counting = true;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(weir_host_alloc(pool, sizes[i], WEIR_HOST_THREAD_NODE, &blocks[i]), WEIR_OK);
        assert_int_equal(weir_host_free_after(pool, blocks[i], stream), WEIR_OK);
    }
    assert_int_equal(weir_host_stream_retire(pool, stream), WEIR_OK);
    counting = false;
    return held;
}

TEST(test_retired_streams_hold_no_host_memory)
{
    weir_sim *sim = NULL;
    weir_sim_stream *streams[first_rounds + rounds];
    long before = 0;
    long after = 0;
    assert_int_equal(weir_sim_create(NULL, &sim), WEIR_OK);
    for (size_t i = 0; i < first_rounds + rounds; i++) {
        assert_int_equal(weir_sim_stream_create(sim, &streams[i]), WEIR_OK);
    }
    weir_host_pool *pool = open_pool(sim);
    for (size_t i = 0; i < first_rounds; i++) {
        before = play(sim, pool, streams[i]);
    }
    for (size_t i = 0; i < rounds; i++) {
        after = play(sim, pool, streams[first_rounds + i]);
    }
    if (after != before) {
        fail_msg("%d retired streams hold %ld pieces of host memory", rounds, after - before);
    }
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}
