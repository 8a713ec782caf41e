/* tests/unit/pool_device_test.c: a pool over devices that are unusual and legal, and one whose waits never catch up. */
#include "fake_device.h"

#include <weir/caching.h>
#include <weir/pool.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdatomic.h>

#define MIB (UINT64_C(1) << 20)

static weir_pool *pool_over(weir_device *device, uint64_t small_region_bytes)
{
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    caching.small_region_bytes = small_region_bytes;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    weir_pool *pool = NULL;
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    return pool;
}

static weir_device *device_of(fake_device *fake)
{
    weir_device *device = NULL;
    assert_int_equal(weir_device_create(&fake->ops, fake, &device), WEIR_OK);
    return device;
}

static void serves(fake_device *fake, uint64_t small_region_bytes)
{
    weir_device *device = device_of(fake);
    weir_pool *pool = pool_over(device, small_region_bytes);
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    const char *why = "";
    assert_int_equal(weir_pool_stream(pool, NULL, &stream), WEIR_OK);
    assert_int_equal(weir_pool_alloc(pool, stream, 300, 0, &block), WEIR_OK);
    assert_int_equal(weir_pool_check(pool, &why), WEIR_OK);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* Regions consist of whole granules, also where the device and the strategy's config would allow others. */
static void test_a_granularity_below_the_granule(void **state)
{
    (void)state;
    fake_device fake;
    fake_init(&fake);
    fake.info.region_granularity_bytes = 1;
    serves(&fake, 1000);
}

static void test_a_region_size_that_overflows(void **state)
{
    (void)state;
    fake_device fake;
    fake_init(&fake);
    serves(&fake, UINT64_MAX);
}

static void test_an_alignment_below_the_granule_is_refused(void **state)
{
    (void)state;
    fake_device fake;
    fake_init(&fake);
    fake.info.region_alignment_bytes = 256;
    weir_device *device = device_of(&fake);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    weir_pool *pool = NULL;
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED);
    assert_null(pool);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* --- a round of waiting ends --- */

enum { busy_streams = 4 };

static weir_pool *busy_pool;
static weir_stream *busy[busy_streams];
static atomic_uint waits;

/* While the host waits for one stream, memory is freed on every stream: none is ever without unfinished memory. */
static weir_status wait_while_others_free(void *ctx, weir_event *event)
{
    const unsigned turn = atomic_fetch_add(&waits, 1);
    for (int i = 0; i < busy_streams && turn < 1000; i++) {
        weir_block *block = NULL;
        if (weir_pool_alloc(busy_pool, busy[i], MIB, 0, &block) == WEIR_OK) {
            assert_int_equal(weir_pool_free(busy_pool, block, busy[i]), WEIR_OK);
        }
    }
    return fake_event_sync(ctx, event);
}

static weir_status no_more_than_16_mib(fake_device *fake, uint64_t size)
{
    (void)fake;
    return size <= 16 * MIB ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static void test_waiting_ends_while_others_go_on_freeing(void **state)
{
    (void)state;
    fake_device fake;
    fake_init(&fake);
    fake.ops.event_sync = wait_while_others_free;
    fake.on_take = no_more_than_16_mib;
    weir_device *device = device_of(&fake);
    busy_pool = pool_over(device, 0);
    for (uintptr_t i = 0; i < busy_streams; i++) {
        weir_block *block = NULL;
        assert_int_equal(weir_pool_stream(busy_pool, (void *)(i + 1), &busy[i]), WEIR_OK);
        assert_int_equal(weir_pool_alloc(busy_pool, busy[i], MIB, 0, &block), WEIR_OK);
        assert_int_equal(weir_pool_free(busy_pool, block, busy[i]), WEIR_OK);
    }
    weir_block *block = NULL;
    assert_int_equal(weir_pool_alloc(busy_pool, busy[0], 512 * MIB, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_in_range(atomic_load(&waits), 1, 100);
    atomic_store(&waits, 0);
    assert_int_equal(weir_pool_trim(busy_pool, 0, WEIR_TRIM_WAIT, NULL), WEIR_OK);
    assert_in_range(atomic_load(&waits), 1, 100);
    atomic_store(&waits, 1000);
    assert_int_equal(weir_pool_destroy(busy_pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_granularity_below_the_granule),
        cmocka_unit_test(test_a_region_size_that_overflows),
        cmocka_unit_test(test_an_alignment_below_the_granule_is_refused),
        cmocka_unit_test(test_waiting_ends_while_others_go_on_freeing),
    };
    return cmocka_run_group_tests_name("a pool over unusual devices", tests, NULL, NULL);
}
