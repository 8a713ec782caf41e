/* outage_test.c: the driver fails for a time and works again: nothing is lost, and every pool is of use.
 *
 * Seeds: rig/seeds.h; 1,000 lives, and one for each seed beyond.
 */
#include "rig/outage.h"
#include "cuda_test.h"

#include <stdio.h>

static weir_status device_create(weir_device **device)
{
    return weir_cuda_device_create(NULL, device);
}

static void begin(const char *function, unsigned first, unsigned count)
{
    fake_cuda_outage(function, first, count, CU_ERROR_INVALID_HANDLE);
}

static bool end(void)
{
    bool struck = false;
    (void)fake_cuda_calls(&struck);
    fake_cuda_outage(NULL, 0, 0, CU_SUCCESS);
    return struck;
}

static CUcontext context;

static void *stream_create(void)
{
    CUstream native = NULL;
    cu_ok(cuDevicePrimaryCtxRetain(&context, 0));
    cu_ok(cuCtxPushCurrent(context));
    cu_ok(cuStreamCreate(&native, 1));
    cu_ok(cuCtxPopCurrent(&context));
    return native;
}

static void stream_destroy(void *native)
{
    cu_ok(cuCtxPushCurrent(context));
    cu_ok(cuStreamDestroy(native));
    cu_ok(cuCtxPopCurrent(&context));
    cu_ok(cuDevicePrimaryCtxRelease(0));
}

static void work(void *native, uint64_t address, uint64_t size)
{
    cu_ok(fake_cuda_work(native, 20000, address, size, NULL, NULL));
}

static uint64_t held_bytes(void)
{
    return fake_cuda_held_bytes(0);
}

static bool is_restored(void)
{
    return fake_cuda_depth() == 0 && fake_cuda_capture_mode() == CU_CAPTURE_MODE_GLOBAL;
}

static bool is_clean(void)
{
    return fake_cuda_retained() == 0 && fake_cuda_findings(true) == 0;
}

#define NAME(name, suffix, parameters) #name,
static const char *const functions[] = {WEIR_CUDA_DRIVER_LIST(NAME)};
#undef NAME

static const struct outage_runtime runtime = {
    .device_create = device_create,
    .begin = begin,
    .end = end,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .work = work,
    .held_bytes = held_bytes,
    .is_restored = is_restored,
    .is_clean = is_clean,
    .functions = functions,
    .function_count = sizeof(functions) / sizeof(functions[0]),
};

/* One request during which the driver fails from call `from` on. Returns false if the request makes fewer calls. */
static bool fail_a_request(unsigned from)
{
    struct world w = make_world(0);
    weir_block *block = NULL;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    begin(NULL, from, UINT32_MAX);
    const weir_status status = weir_pool_alloc(w.pool, w.stream[0], 20 * MIB, 0, &block);
    const bool struck = end();
    assert_true(status == WEIR_OK || status == WEIR_ERR_DEVICE || status == WEIR_ERR_NO_MEMORY);
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_int_equal(stats.reserved_bytes, fake_cuda_held_bytes(0));
    if (status == WEIR_OK) {
        ok(weir_pool_free(w.pool, block, w.stream[0]));
    }
    for (int i = 0; i < 20; i++) {
        ok(weir_pool_alloc(w.pool, w.stream[0], 20 * MIB, 0, &block));
        ok(weir_pool_free(w.pool, block, w.stream[0]));
    }
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(fake_cuda_held_bytes(0), 0);
    end_world(&w);
    return struck;
}

TEST(test_a_driver_that_fails_during_a_request)
{
    unsigned from = 1;
    while (fail_a_request(from)) {
        from++;
    }
    assert_true(from > 5);
}

/* A mapping to which access cannot be set, and which cannot be removed either: its memory stays reserved. */
TEST(test_a_mapping_that_stays_is_counted)
{
    struct world w = make_world(0);
    weir_block *block = NULL;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    begin("cuMemSetAccess,cuMemUnmap", 1, UINT32_MAX);
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[0], 20 * MIB, 0, &block), WEIR_ERR_DEVICE);
    for (int i = 0; i < 3; i++) {
        ok(weir_pool_get_stats(w.pool, &stats));
        assert_true(stats.reserved_bytes != 0);
        assert_int_equal(stats.reserved_bytes, fake_cuda_held_bytes(0));
        (void)!weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL);
    }
    assert_true(end());
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(fake_cuda_held_bytes(0), 0);
    end_world(&w);
}

TEST(test_random_lives)
{
    const uint64_t count = seeds_count(1000, 1);
    uint64_t struck = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % 100 == 0) { /* the simulator remembers all streams that it had */
            fake_cuda_start(96 * MIB, 0);
        }
        struck += outage_play(&runtime, seeds_first() + i);
    }
    print_message("%llu lives, %llu outages\n", (unsigned long long)count, (unsigned long long)struck);
    assert_true(struck >= count);
}
