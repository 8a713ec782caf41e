/* tests/pool/unit/pool_device_test.c: pools over unusual but legal devices, and over one where each wait brings new
 * work. */
#include "rig/test.h"
#include "fake_device.h"

#include <weir/caching.h>
#include <weir/pool.h>

#include <stdatomic.h>

static weir_pool *pool_over(weir_device *device, uint64_t small_region_bytes)
{
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    caching.small_region_bytes = small_region_bytes;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    config.flags = WEIR_POOL_REGIONS;
    weir_pool *pool = NULL;
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    return pool;
}

static weir_device *device_of(struct fake_device *fake)
{
    weir_device *device = NULL;
    assert_int_equal(weir_device_create(&fake->ops, fake, &device), WEIR_OK);
    return device;
}

static void serves(struct fake_device *fake, uint64_t small_region_bytes)
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

/* Regions consist of whole granules, also if the device and the strategy's config allow other sizes. */
TEST(test_a_granularity_below_the_granule)
{
    struct fake_device fake;
    fake_init(&fake);
    fake.info.region_granularity_bytes = 1;
    serves(&fake, 1000);
}

TEST(test_a_region_size_that_overflows)
{
    struct fake_device fake;
    fake_init(&fake);
    serves(&fake, UINT64_MAX);
}

TEST(test_an_alignment_below_the_granule_is_refused)
{
    struct fake_device fake;
    fake_init(&fake);
    fake.info.region_alignment_bytes = 256;
    weir_device *device = device_of(&fake);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = WEIR_POOL_REGIONS;
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

/* While the host waits for one stream, memory is freed on every stream: each stream always has unfinished memory. */
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

static weir_status no_more_than_16_mib(struct fake_device *fake, uint64_t size)
{
    (void)fake;
    return size <= 16 * MIB ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

TEST(test_waiting_ends_while_others_go_on_freeing)
{
    struct fake_device fake;
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

/* --- a device that refuses to take memory back --- */

static int refusals; /* number of the next calls to give memory back that will fail */
static int held;     /* live events, regions or reservations, depending on the test */

static weir_status counted(weir_status status, int change)
{
    held += status == WEIR_OK ? change : 0;
    return status;
}

static weir_status count_event_create(void *ctx, weir_event **event)
{
    return counted(fake_event_create(ctx, event), 1);
}

static weir_status refuse_event_destroy(void *ctx, weir_event *event)
{
    return refusals > 0 ? (refusals--, WEIR_ERR_DEVICE) : counted(fake_event_destroy(ctx, event), -1);
}

static weir_status count_region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    return counted(fake_region_alloc(ctx, size, address), 1);
}

static weir_status refuse_region_free(void *ctx, uint64_t address, uint64_t size)
{
    return refusals > 0 ? (refusals--, WEIR_ERR_DEVICE) : counted(fake_region_free(ctx, address, size), -1);
}

static weir_status count_vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    return counted(fake_vm_reserve(ctx, size, address), 1);
}

static weir_status refuse_vm_release(void *ctx, uint64_t address, uint64_t size)
{
    return refusals > 0 ? (refusals--, WEIR_ERR_DEVICE) : counted(fake_vm_release(ctx, address, size), -1);
}

static weir_device *refusing_device(struct fake_device *fake)
{
    fake_init(fake);
    fake->ops.event_create = count_event_create;
    fake->ops.event_destroy = refuse_event_destroy;
    refusals = 0;
    held = 0;
    return device_of(fake);
}

/* Returns a stream with freed memory, for which the pool has recorded an event. */
static weir_stream *stream_with_event(weir_pool *pool, uintptr_t native)
{
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    assert_int_equal(weir_pool_stream(pool, (void *)native, &stream), WEIR_OK);
    assert_int_equal(weir_pool_alloc(pool, stream, MIB, 0, &block), WEIR_OK);
    assert_int_equal(weir_pool_free(pool, block, stream), WEIR_OK);
    assert_int_equal(weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, NULL), WEIR_OK);
    return stream;
}

TEST(test_an_event_that_is_not_destroyed_is_used_again)
{
    struct fake_device fake;
    weir_device *device = refusing_device(&fake);
    weir_pool *pool = pool_over(device, 0);
    weir_stream *stream = stream_with_event(pool, 1);
    assert_int_equal(held, 1);
    refusals = 100;
    assert_int_equal(weir_stream_retire(pool, stream), WEIR_OK);
    assert_int_equal(held, 1);
    stream = stream_with_event(pool, 2);
    assert_int_equal(fake.calls[WEIR_CALL_EVENT_CREATE], 1);
    refusals = 0;
    assert_int_equal(weir_stream_retire(pool, stream), WEIR_OK);
    assert_int_equal(held, 0);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_a_trim_destroys_events_that_were_kept)
{
    struct fake_device fake;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_device *device = refusing_device(&fake);
    weir_pool *pool = pool_over(device, 0);
    weir_stream *streams[40];
    for (uintptr_t i = 0; i < 40; i++) {
        streams[i] = stream_with_event(pool, i + 1);
    }
    assert_int_equal(held, 40);
    refusals = 1000;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(weir_stream_retire(pool, streams[i]), WEIR_OK);
    }
    assert_int_equal(held, 40);
    refusals = 1;
    assert_int_equal(weir_pool_trim(pool, 0, 0, NULL), WEIR_OK); /* no freed memory is refused */
    assert_int_equal(held, 40);
    assert_int_equal(weir_pool_trim(pool, 0, 0, NULL), WEIR_OK);
    assert_int_equal(held, 0);
    assert_int_equal(weir_pool_get_stats(pool, &stats), WEIR_OK);
    assert_int_equal(stats.device_failures, 41);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_destroy_reports_events_that_are_left)
{
    struct fake_device fake;
    weir_device *device = refusing_device(&fake);
    weir_pool *pool = pool_over(device, 0);
    refusals = 3; /* one call fails during the retirement, two fail during the destroy */
    assert_int_equal(weir_stream_retire(pool, stream_with_event(pool, 1)), WEIR_OK);
    assert_int_equal(weir_pool_destroy(pool), WEIR_ERR_DEVICE);
    assert_int_equal(held, 1);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* If false, the strategy refuses a new region, as for lack of host memory. */
static bool has_memory;

static weir_status add_if_memory(void *state, uint64_t address, uint64_t size, uint64_t request, weir_lane lane,
                                 weir_tick tick, void **region)
{
    return has_memory ? weir_caching_strategy()->region_add(state, address, size, request, lane, tick, region)
                      : WEIR_ERR_NO_MEMORY;
}

static weir_pool *forgetful_pool(weir_device *device, weir_strategy_ops *strategy, uint32_t flags)
{
    *strategy = *weir_caching_strategy();
    strategy->region_add = add_if_memory;
    has_memory = false;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = strategy;
    config.flags = flags;
    weir_pool *pool = NULL;
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    return pool;
}

static void fails_for_want_of_host_memory(weir_pool *pool)
{
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    const char *why = "";
    assert_int_equal(weir_pool_stream(pool, NULL, &stream), WEIR_OK);
    assert_int_equal(weir_pool_alloc(pool, stream, MIB, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_pool_check(pool, &why), WEIR_OK);
}

TEST(test_a_region_without_host_memory_is_not_lost)
{
    struct fake_device fake;
    weir_strategy_ops strategy;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_device *device = refusing_device(&fake);
    fake.ops.region_alloc = count_region_alloc;
    fake.ops.region_free = refuse_region_free;
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    device = device_of(&fake);
    weir_pool *pool = forgetful_pool(device, &strategy, WEIR_POOL_REGIONS);
    fails_for_want_of_host_memory(pool);
    assert_int_equal(held, 0);
    refusals = 1000;
    fails_for_want_of_host_memory(pool);
    assert_int_equal(held, 1);
    assert_int_equal(weir_pool_get_stats(pool, &stats), WEIR_OK);
    assert_true(stats.reserved_bytes >= MIB);
    refusals = 1;
    assert_int_equal(weir_pool_trim(pool, 0, 0, NULL), WEIR_ERR_DEVICE);
    assert_int_equal(held, 1);
    assert_int_equal(weir_pool_trim(pool, 0, 0, NULL), WEIR_OK);
    assert_int_equal(held, 0);
    refusals = 1000;
    fails_for_want_of_host_memory(pool);
    assert_int_equal(held, 1);
    refusals = 1;
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(held, 0);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* When the strategy has memory again, a region that the device did not take back serves requests. */
TEST(test_a_region_that_was_set_aside_serves_again)
{
    struct fake_device fake;
    weir_strategy_ops strategy;
    weir_block *block = NULL;
    weir_stream *stream = NULL;
    const char *why = "";
    weir_device *device = refusing_device(&fake);
    fake.ops.region_alloc = count_region_alloc;
    fake.ops.region_free = refuse_region_free;
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    device = device_of(&fake);
    weir_pool *pool = forgetful_pool(device, &strategy, WEIR_POOL_REGIONS);
    refusals = 1000;
    fails_for_want_of_host_memory(pool);
    assert_int_equal(held, 1);
    has_memory = true;
    refusals = 1;
    assert_int_equal(weir_pool_trim(pool, 0, 0, NULL), WEIR_ERR_DEVICE);
    assert_int_equal(weir_pool_stream(pool, NULL, &stream), WEIR_OK);
    assert_int_equal(weir_pool_alloc(pool, stream, MIB, 0, &block), WEIR_OK);
    assert_int_equal(held, 1);
    assert_int_equal(weir_pool_check(pool, &why), WEIR_OK);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(held, 0);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_a_reservation_without_host_memory_is_not_lost)
{
    struct fake_device fake;
    weir_strategy_ops strategy;
    weir_device *device = refusing_device(&fake);
    fake.ops.vm_reserve = count_vm_reserve;
    fake.ops.vm_release = refuse_vm_release;
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    device = device_of(&fake);
    weir_pool *pool = forgetful_pool(device, &strategy, 0);
    refusals = 5;
    fails_for_want_of_host_memory(pool);
    assert_int_equal(held, 1);
    refusals = 0;
    assert_int_equal(weir_pool_trim(pool, 0, 0, NULL), WEIR_OK);
    assert_int_equal(held, 0);
    refusals = 5;
    fails_for_want_of_host_memory(pool);
    assert_int_equal(held, 1);
    refusals = 1;
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(held, 0);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}
