/* tests/pool/unit/refusal_test.c: each refusal of core carries a sentence that names the argument or state. */
#include "refusal.h"

#include <weir/adaptor.h>
#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/sim.h>
#include <weir/weir.h>

struct world {
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    weir_stream *stream;
};

static struct world open_world(void)
{
    struct world w = {0};
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    assert_int_equal(weir_sim_create(NULL, &w.sim), WEIR_OK);
    w.device = config.device = weir_sim_device(w.sim);
    config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&config, &w.pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(w.pool, NULL, &w.stream), WEIR_OK);
    return w;
}

static void close_world(struct world *w)
{
    assert_int_equal(weir_pool_destroy(w->pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

static weir_status no_region(void *ctx, uint64_t size, uint64_t *address)
{
    (void)ctx, (void)size, (void)address;
    return WEIR_ERR_NO_MEMORY;
}

static weir_status no_return(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx, (void)address, (void)size;
    return WEIR_OK;
}

static weir_status odd_facts(void *ctx, weir_device_info *info)
{
    *info = *(weir_device_info *)ctx;
    return WEIR_OK;
}

TEST(test_devices)
{
    struct world w = open_world();
    weir_device_info facts = {.region_granularity_bytes = 3, .region_alignment_bytes = 64};
    weir_device_ops ops = {.struct_size = sizeof(ops)};
    weir_device *device = NULL;
    refused(weir_device_create(NULL, NULL, &device), WEIR_ERR_INVALID, "ops is NULL");
    refused(weir_device_create(&ops, NULL, NULL), WEIR_ERR_INVALID, "device is NULL");
    refused(weir_device_create(&ops, NULL, &device), WEIR_ERR_INVALID, "lacks a required slot");
    ops = (weir_device_ops){.get_info = odd_facts};
    refused(weir_device_create(&ops, NULL, &device), WEIR_ERR_INVALID, "ops has no struct_size");
    ops = (weir_device_ops){
        .struct_size = sizeof(ops),
        .get_info = odd_facts,
        .region_alloc = no_region,
        .region_free = no_return,
    };
    refused(weir_device_create(&ops, &facts, &device), WEIR_ERR_INVALID, "region_granularity_bytes 3");
    facts.region_granularity_bytes = 4096;
    facts.abilities = WEIR_DEVICE_ORDERED;
    refused(weir_device_create(&ops, &facts, &device), WEIR_ERR_INVALID, "abilities 0x1");
    ops.vm_release = no_return;
    refused(weir_device_create(&ops, &facts, &device), WEIR_ERR_INVALID, "virtual memory in part");
    ops.vm_release = NULL;
    facts.abilities = 0;
    assert_int_equal(weir_device_create(&ops, &facts, &device), WEIR_OK);

    uint64_t address = 0;
    weir_vm_handle handle = 0;
    weir_event *event = NULL;
    bool complete = false;
    refused(weir_device_get_info(NULL, NULL), WEIR_ERR_INVALID, "device is NULL");
    refused(weir_device_get_info(device, NULL), WEIR_ERR_INVALID, "info is NULL");
    refused(weir_device_error(device, NULL, NULL), WEIR_ERR_INVALID, "code is NULL");
    refused(weir_device_region_alloc(NULL, 4096, &address), WEIR_ERR_INVALID, "device is NULL");
    refused(weir_device_region_alloc(device, 4096, NULL), WEIR_ERR_INVALID, "address is NULL");
    refused(weir_device_region_alloc(device, 100, &address), WEIR_ERR_INVALID, "size 100 ");
    refused(weir_device_region_free(device, 0, 100), WEIR_ERR_INVALID, "region_granularity_bytes 4096");
    refused(weir_device_vm_reserve(w.device, 100, &address), WEIR_ERR_INVALID, "page_bytes 2097152");
    refused(weir_device_vm_release(w.device, 0, 100), WEIR_ERR_INVALID, "size 100 ");
    refused(weir_device_vm_create(w.device, 0, &handle), WEIR_ERR_INVALID, "size 0 ");
    refused(weir_device_vm_create(w.device, 2 << 20, NULL), WEIR_ERR_INVALID, "handle is NULL");
    refused(weir_device_vm_map(w.device, 0, 2 << 20, 0), WEIR_ERR_INVALID, "handle is 0");
    refused(weir_device_vm_unmap(w.device, 0, 3), WEIR_ERR_INVALID, "size 3 ");
    refused(weir_device_vm_destroy(w.device, 0), WEIR_ERR_INVALID, "handle is 0");
    refused(weir_device_event_create(device, NULL), WEIR_ERR_INVALID, "event is NULL");
    refused(weir_device_event_destroy(device, NULL), WEIR_ERR_INVALID, "event is NULL");
    refused(weir_device_event_record(NULL, NULL, NULL), WEIR_ERR_INVALID, "device is NULL");
    refused(weir_device_event_query(device, NULL, &complete), WEIR_ERR_INVALID, "event is NULL");
    refused(weir_device_event_sync(device, NULL), WEIR_ERR_INVALID, "event is NULL");
    refused(weir_device_stream_wait_event(device, NULL, NULL), WEIR_ERR_INVALID, "event is NULL");
    refused(weir_device_stream_sync(NULL, NULL), WEIR_ERR_INVALID, "device is NULL");
    /* A group of slots that the table lacks. */
    assert_int_equal(weir_device_vm_reserve(device, 4096, &address), WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "no virtual memory"));
    assert_int_equal(weir_device_event_create(device, &event), WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "no streams and events"));

    refused(weir_device_hold(NULL), WEIR_ERR_INVALID, "device is NULL");
    refused(weir_device_release(device), WEIR_ERR_INVALID, "is not held");
    refused(weir_device_destroy(w.device), WEIR_ERR_BUSY, "held 1 times");
    refused(weir_sim_destroy(w.sim), WEIR_ERR_BUSY, "stands on");
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    close_world(&w);
}

TEST(test_adaptors)
{
    struct world w = open_world();
    weir_device *made = NULL;
    uint64_t calls[WEIR_CALL_COUNT];
    refused(weir_limit_create(NULL, 1, &made), WEIR_ERR_INVALID, "device is NULL");
    refused(weir_limit_held(w.device, calls), WEIR_ERR_INVALID, "not of weir_limit_create");
    refused(weir_count_create(w.device, NULL), WEIR_ERR_INVALID, "counting is NULL");
    refused(weir_count_get(w.device, calls, NULL), WEIR_ERR_INVALID, "not of weir_count_create");
    refused(weir_log_create(w.device, NULL, NULL, &made), WEIR_ERR_INVALID, "sink is NULL");
    refused(weir_fault_create(w.device, NULL), WEIR_ERR_INVALID, "faulty is NULL");
    refused(weir_fault_arm(w.device, WEIR_CALL_ANY, 1, WEIR_ERR_DEVICE), WEIR_ERR_INVALID, "not of weir_fault_create");
    refused(weir_fault_state(w.device, NULL, NULL), WEIR_ERR_INVALID, "not of weir_fault_create");
    assert_int_equal(weir_fault_create(w.device, &made), WEIR_OK);
    refused(weir_fault_arm(made, (weir_device_call)99, 1, WEIR_ERR_DEVICE), WEIR_ERR_INVALID, "call 99");
    refused(weir_fault_arm(made, WEIR_CALL_ANY, 1, WEIR_OK), WEIR_ERR_INVALID, "status is WEIR_OK");
    assert_int_equal(weir_device_destroy(made), WEIR_OK);
    close_world(&w);
}

static void no_line(void *ctx, const char *line)
{
    (void)ctx;
    (void)line;
}

TEST(test_pools)
{
    struct world w = open_world();
    weir_pool *pool = NULL;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    refused(weir_pool_create(NULL, &pool), WEIR_ERR_INVALID, "config is NULL");
    refused(weir_pool_create(&config, NULL), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_create(&config, &pool), WEIR_ERR_INVALID, "config.device is NULL");
    config.device = w.device;
    refused(weir_pool_create(&config, &pool), WEIR_ERR_INVALID, "config.strategy is NULL");
    config.strategy = weir_caching_strategy();
    config.flags = 1u << 30;
    refused(weir_pool_create(&config, &pool), WEIR_ERR_INVALID, "unknown bits 0x40000000");
    config.flags = 0;
    config.growth = (weir_growth)9;
    refused(weir_pool_create(&config, &pool), WEIR_ERR_INVALID, "config.growth 9");
    config.growth = WEIR_GROWTH_BALANCED;
    config.limit_bytes = 1 << 20;
    config.soft_limit_bytes = 2 << 20;
    refused(weir_pool_create(&config, &pool), WEIR_ERR_INVALID,
            "soft_limit_bytes 2097152 is above limit_bytes 1048576");
    config.limit_bytes = config.soft_limit_bytes = 0;
    struct {
        weir_pool_config config;
        uint64_t newer;
    } newer = {config, 1};
    newer.config.struct_size = sizeof(newer);
    refused(weir_pool_create(&newer.config, &pool), WEIR_ERR_UNSUPPORTED, "members beyond");

    refused(weir_pool_stream(w.pool, NULL, NULL), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_pool_hold(NULL), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_release(w.pool), WEIR_ERR_INVALID, "not held");
    refused(weir_pool_trim(NULL, 0, 0, NULL), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_trim(w.pool, 0, 8, NULL), WEIR_ERR_INVALID, "unknown bits 0x8");
    refused(weir_pool_walk(w.pool, NULL, NULL), WEIR_ERR_INVALID, "visit is NULL");
    refused(weir_pool_dump(NULL, no_line, NULL), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_dump(w.pool, NULL, NULL), WEIR_ERR_INVALID, "sink is NULL");
    refused(weir_pool_check(NULL, NULL), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_get_stats(w.pool, NULL), WEIR_ERR_INVALID, "stats is NULL");
    refused(weir_pool_get_oom(NULL, NULL), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_set_limits(w.pool, 2, 1), WEIR_ERR_INVALID, "soft_limit_bytes 2 is above limit_bytes 1");
    assert_int_equal(weir_pool_hold(w.pool), WEIR_OK);
    refused(weir_pool_destroy(w.pool), WEIR_ERR_BUSY, "held 1 times");
    assert_int_equal(weir_pool_release(w.pool), WEIR_OK);
    close_world(&w);
}

TEST(test_blocks)
{
    struct world w = open_world(), other = open_world();
    weir_block *block = NULL;
    refused(weir_pool_alloc(NULL, w.stream, 100, 0, &block), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_alloc(w.pool, NULL, 100, 0, &block), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_pool_alloc(w.pool, other.stream, 100, 0, &block), WEIR_ERR_INVALID, "stream is of another pool");
    refused(weir_pool_alloc(w.pool, w.stream, 100, 0, NULL), WEIR_ERR_INVALID, "block is NULL");
    refused(weir_pool_alloc(w.pool, w.stream, 0, 0, &block), WEIR_ERR_INVALID, "size 0 ");
    refused(weir_pool_alloc(w.pool, w.stream, UINT64_MAX, 0, &block), WEIR_ERR_INVALID, "too large");
    refused(weir_pool_alloc(w.pool, w.stream, 100, 24, &block), WEIR_ERR_INVALID, "align 24 is not a power of two");
    refused(weir_pool_alloc_tagged(w.pool, w.stream, 100, 0, 7, &block), WEIR_ERR_INVALID, "tag 7");
    refused(weir_pool_alloc_tagged(w.pool, w.stream, 0, 0, 0, &block), WEIR_ERR_INVALID, "size 0 ");

    assert_int_equal(weir_pool_alloc(w.pool, w.stream, 100, 0, &block), WEIR_OK);
    const uint64_t address = weir_block_address(block);
    weir_block *found = NULL;
    refused(weir_pool_find(w.pool, address + 1, &found), WEIR_ERR_INVALID, "no live block starts at 0x");
    refused(weir_pool_free(w.pool, NULL, w.stream), WEIR_ERR_INVALID, "block is NULL");
    refused(weir_pool_free(w.pool, block, NULL), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_pool_free(other.pool, block, other.stream), WEIR_ERR_INVALID, "is not a block of this pool");
    refused(weir_pool_use(w.pool, block, other.stream), WEIR_ERR_INVALID, "stream is of another pool");
    refused(weir_pool_use_end(w.pool, NULL, w.stream), WEIR_ERR_INVALID, "block is NULL");
    assert_int_equal(weir_pool_free(w.pool, block, w.stream), WEIR_OK);
    refused(weir_pool_free(w.pool, block, w.stream), WEIR_ERR_INVALID, "has been freed already");
    refused(weir_pool_free_idle(w.pool, block), WEIR_ERR_INVALID, "has been freed already");
    refused(weir_pool_use(w.pool, block, w.stream), WEIR_ERR_INVALID, "has been freed already");
    close_world(&other);
    close_world(&w);
}

TEST(test_groups)
{
    struct world w = open_world();
    struct world other = open_world();
    const uint64_t sizes[] = {512, 0, UINT64_MAX};
    weir_block *blocks[3] = {NULL};
    uint64_t fit = 0;
    refused(weir_pool_alloc_many(NULL, w.stream, sizes, 1, 0, blocks), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_alloc_many(w.pool, other.stream, sizes, 1, 0, blocks), WEIR_ERR_INVALID, "stream");
    refused(weir_pool_alloc_many(w.pool, w.stream, NULL, 1, 0, blocks), WEIR_ERR_INVALID, "sizes is NULL");
    refused(weir_pool_alloc_many(w.pool, w.stream, sizes, 1, 0, NULL), WEIR_ERR_INVALID, "blocks is NULL");
    refused(weir_pool_alloc_many(w.pool, w.stream, sizes, 1, 9, blocks), WEIR_ERR_INVALID, "tag 9");
    refused(weir_pool_alloc_many(w.pool, w.stream, sizes, 2, 0, blocks), WEIR_ERR_INVALID, "sizes[1] is 0");
    refused(weir_pool_would_fit(NULL, w.stream, 512, 1, &fit), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_pool_would_fit(w.pool, NULL, 512, 1, &fit), WEIR_ERR_INVALID, "stream");
    refused(weir_pool_would_fit(w.pool, w.stream, 512, 1, NULL), WEIR_ERR_INVALID, "fit is NULL");
    refused(weir_pool_would_fit(w.pool, w.stream, 0, 1, &fit), WEIR_ERR_INVALID, "size 0 is no size");
    refused(weir_pool_would_fit(w.pool, w.stream, UINT64_MAX, 1, &fit), WEIR_ERR_INVALID, "too large");
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    assert_int_equal(weir_pool_get_stats(w.pool, &stats), WEIR_OK);
    assert_int_equal(stats.allocs, 0);
    close_world(&other);
    close_world(&w);
}

TEST(test_streams_and_tags)
{
    struct world w = open_world();
    const int event = 0;
    weir_tick mark = 0;
    weir_tag tag = 0;
    weir_stream *gone = NULL;
    assert_int_equal(weir_pool_stream(w.pool, weir_sim_default_stream(w.sim), &gone), WEIR_OK);
    assert_int_equal(weir_stream_ended(w.pool, gone), WEIR_OK);
    refused(weir_stream_retire(w.pool, gone), WEIR_ERR_INVALID, "has been retired");
    refused(weir_stream_ended(w.pool, NULL), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_stream_recorded(w.pool, NULL, w.stream), WEIR_ERR_INVALID, "event is NULL");
    refused(weir_stream_recorded(w.pool, &event, gone), WEIR_ERR_INVALID, "has been retired");
    refused(weir_stream_waited(w.pool, NULL, &event), WEIR_ERR_INVALID, "stream is NULL");
    refused(weir_stream_synced(NULL, w.stream), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_event_synced(w.pool, NULL), WEIR_ERR_INVALID, "event is NULL");
    refused(weir_event_forgotten(NULL, &event), WEIR_ERR_INVALID, "pool is NULL");
    refused(weir_stream_mark(w.pool, gone, &mark), WEIR_ERR_INVALID, "has been retired");
    refused(weir_stream_reached(w.pool, w.stream, mark, false, NULL), WEIR_ERR_INVALID, "reached is NULL");
    refused(weir_pool_tag(w.pool, NULL, &tag), WEIR_ERR_INVALID, "name is NULL");
    refused(weir_pool_tag(w.pool, "a\n", &tag), WEIR_ERR_INVALID, "control character");
    refused(weir_stream_set_tag(w.pool, gone, 0), WEIR_ERR_INVALID, "has been retired");
    refused(weir_stream_set_tag(w.pool, w.stream, 3), WEIR_ERR_INVALID, "tag 3 is none of the pool's 1");
    refused(weir_pool_get_tag_stats(w.pool, 3, NULL), WEIR_ERR_INVALID, "tag 3");
    refused(weir_pool_get_tag_stats(w.pool, 0, NULL), WEIR_ERR_INVALID, "stats is NULL");
    close_world(&w);
}
