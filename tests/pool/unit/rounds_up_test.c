/* rounds_up_test.c: a pool over a strategy that rounds requests up (WEIR_STRATEGY_ROUNDS_UP), the buddy system of
 * docs/strategy.md. */
#include "rig/test.h"

#include "../../../docs/examples/buddy.h"

#include <weir/sim.h>
#include <weir/weir.h>

static weir_sim *sim;
static weir_pool *pool;
static weir_stream *streams[2];

static void begin(uint64_t limit_bytes)
{
    assert_int_equal(weir_sim_create(NULL, &sim), WEIR_OK);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = buddy_strategy();
    config.limit_bytes = limit_bytes;
    assert_int_equal(weir_pool_create(&config, &pool), WEIR_OK);
    for (int i = 0; i < 2; i++) {
        weir_sim_stream *native = NULL;
        assert_int_equal(weir_sim_stream_create(sim, &native), WEIR_OK);
        assert_int_equal(weir_pool_stream(pool, native, &streams[i]), WEIR_OK);
    }
}

static weir_pool_stats stats(void)
{
    weir_pool_stats now = WEIR_POOL_STATS_INIT;
    assert_int_equal(weir_pool_get_stats(pool, &now), WEIR_OK);
    return now;
}

static void end(void)
{
    const char *why = "";
    assert_int_equal(weir_pool_check(pool, &why), WEIR_OK);
    assert_int_equal(weir_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* A request of 5 MiB takes 8 MiB: near the limit the pool must not take a region that only holds 5. */
TEST(test_a_region_at_the_limit_holds_the_rounded_request)
{
    weir_block *block = NULL;
    begin(15 * MIB);
    assert_int_equal(weir_pool_alloc(pool, streams[0], 5 * MIB, 0, &block), WEIR_OK);
    assert_int_equal(weir_block_capacity(block), 8 * MIB);
    assert_int_equal(weir_pool_alloc(pool, streams[0], 5 * MIB, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(stats().region_allocs, 1);
    uint64_t fit = 7;
    assert_int_equal(weir_pool_would_fit(pool, streams[0], 5 * MIB, 3, &fit), WEIR_OK);
    assert_int_equal(fit, 0);
    assert_int_equal(weir_pool_set_limits(pool, 0, 16 * MIB), WEIR_OK);
    assert_int_equal(weir_pool_alloc(pool, streams[0], 5 * MIB, 0, &block), WEIR_OK);
    assert_int_equal(stats().reserved_bytes, 16 * MIB);
    end();
}

/* The simulator has virtual memory. */
TEST(test_the_pool_takes_regions)
{
    weir_block *block = NULL;
    begin(0);
    assert_int_equal(weir_pool_alloc(pool, streams[0], 3 * MIB, 0, &block), WEIR_OK);
    assert_int_equal(stats().vm_creates, 0);
    assert_int_equal(stats().region_allocs, 1);
    end();
}

/* Blocks of both streams come and go. Each block is a power of two at a multiple of its bytes in its region. */
TEST(test_blocks_of_two_streams_keep_their_places)
{
    enum { slots = 60, steps = 5000 };
    weir_block *blocks[slots] = {NULL};
    uint32_t seed = 1;
    begin(64 * MIB);
    for (unsigned step = 0; step < steps; step++) {
        seed = seed * 1103515245u + 12345u;
        weir_block **block = &blocks[seed / 65536 % slots];
        weir_stream *stream = streams[step % 2];
        if (*block != NULL) {
            assert_int_equal(weir_pool_free(pool, *block, stream), WEIR_OK);
            *block = NULL;
        }
        const uint64_t size = 1 + (UINT64_C(1) << (seed % 21)) + seed % 1000;
        const weir_status status = weir_pool_alloc(pool, stream, size, 0, block);
        assert_true(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
        if (status == WEIR_OK) {
            const uint64_t bytes = weir_block_capacity(*block);
            assert_int_equal(bytes, buddy_block_bytes(bytes));
            assert_int_equal(weir_block_address(*block) % bytes, 0); /* regions begin at multiples of 2 MiB and more */
        }
    }
    assert_true(stats().allocs > steps / 2);
    end();
}
