/* tests/ascend/mstx/failures.c: announcing while each device call, and each allocation of host memory, fails in turn.
 *
 * One program, on a pool that takes regions and on one that maps granules, under a tool that ends the process if the
 * program withdraws a heap or region that the tool does not know, or memory with a region in it. After every call each
 * live block is covered exactly once, unless host memory was missing for an announcement: then the counter says so, and
 * the block is still usable. At the end no memory is announced.
 */
#include "rig/test.h"

#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/mstx.h>
#include <weir/sim.h>

#include "fake_tool.h"
#include "pool/fault/failing.h"

#define REGION UINT64_C(65536)

enum { most_held = 24, steps = 160 };

struct world {
    weir_sim *sim;
    weir_device *passing;
    weir_device *faulty;
    weir_pool *pool;
    weir_stream *stream;
    weir_mstx *mstx;
    weir_block *held[most_held];
    size_t blocks;
    uint64_t random;
    bool attached;
};

static uint64_t below(struct world *w, uint64_t n)
{
    w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (w->random >> 33) % n;
}

static void open_world(struct world *w, bool maps)
{
    static const weir_caching_config small = {.struct_size = sizeof(small), .small_region_bytes = REGION};
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    weir_sim_stream *native = NULL;
    device.capacity_bytes = 40 * REGION;
    device.region_granularity_bytes = REGION;
    device.page_bytes = REGION;
    *w = (struct world){.random = 7};
    assert_int_equal(weir_sim_create(&device, &w->sim), WEIR_OK);
    assert_int_equal(weir_sim_stream_create(w->sim, &native), WEIR_OK);
    inner = weir_sim_device(w->sim);
    assert_int_equal(weir_device_create(&pass_ops, NULL, &w->passing), WEIR_OK);
    assert_int_equal(weir_fault_create(w->passing, &w->faulty), WEIR_OK);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = w->faulty;
    config.strategy = weir_caching_strategy();
    config.strategy_config = &small;
    config.flags = maps ? 0 : WEIR_POOL_REGIONS;
    assert_int_equal(weir_pool_create(&config, &w->pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(w->pool, native, &w->stream), WEIR_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_pool_alloc(w->pool, w->stream, 3 * REGION, 0, &w->held[w->blocks++]), WEIR_OK);
    }
}

static weir_mstx_stats counters_of(const struct world *w)
{
    weir_mstx_stats counters = WEIR_MSTX_STATS_INIT;
    assert_int_equal(weir_mstx_get_stats(w->mstx, &counters), WEIR_OK);
    return counters;
}

static void each_block_is_covered(const struct world *w)
{
    const weir_mstx_stats counters = counters_of(w);
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->blocks; i++) {
        const uint64_t start = weir_block_address(w->held[i]);
        const uint64_t size = weir_block_capacity(w->held[i]);
        assert_true(fake_covered(start, start + size) == size || counters.lost > 0);
        bytes += size;
    }
    assert_true(fake_covered(0, UINT64_MAX) <= bytes);
    assert_int_equal(counters.regions, fake_count(fake_regions));
    assert_int_equal(counters.heaps, fake_count(fake_heaps));
}

static void one_step(struct world *w)
{
    const uint64_t what = below(w, 24);
    weir_status status;
    if (what == 0) {
        status = POOL(weir_pool_trim(w->pool, 0, WEIR_TRIM_WAIT, NULL));
        assert_true(status == WEIR_OK || status == WEIR_ERR_DEVICE || status == WEIR_ERR_NO_MEMORY);
    } else if (w->blocks == most_held || (w->blocks > 0 && what < 11)) {
        const size_t i = (size_t)below(w, w->blocks);
        weir_block *block = w->held[i];
        w->held[i] = w->held[--w->blocks];
        assert_int_equal(POOL(weir_pool_free(w->pool, block, w->stream)), WEIR_OK);
    } else {
        const uint64_t size = 1 + below(w, below(w, 2) == 0 ? 4 * REGION : 2048);
        status = POOL(weir_pool_alloc(w->pool, w->stream, size, 0, &w->held[w->blocks]));
        w->blocks += status == WEIR_OK;
    }
    if (w->attached) {
        each_block_is_covered(w);
    }
}

/* Runs the whole program with the armed failure. With `pool_first` the pool is destroyed before the detach. */
static void run(struct world *w, bool pool_first)
{
    weir_status status = POOL(weir_mstx_attach(w->pool, NULL, &w->mstx));
    assert_true(status == WEIR_OK || (status == WEIR_ERR_NO_MEMORY && host_struck));
    w->attached = status == WEIR_OK;
    for (int step = 0; step < steps; step++) {
        one_step(w);
    }
    const bool lost = counters_of(w).lost > 0;
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == pool_first) {
            status = POOL(weir_pool_destroy(w->pool));
            assert_true(status == WEIR_OK || status == WEIR_ERR_DEVICE);
        } else {
            assert_int_equal(POOL(weir_mstx_detach(w->mstx)), lost ? WEIR_ERR_NO_MEMORY : WEIR_OK);
        }
    }
    assert_int_equal(fake_count(fake_heaps) + fake_count(fake_regions), 0);
}

static void close_world(struct world *w)
{
    assert_int_equal(weir_device_destroy(w->faulty), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->passing), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

TEST(survives_each_device_call)
{
    static const weir_device_call calls[] = {WEIR_CALL_REGION_ALLOC, WEIR_CALL_REGION_FREE, WEIR_CALL_VM_CREATE,
                                             WEIR_CALL_VM_DESTROY,   WEIR_CALL_VM_MAP,      WEIR_CALL_VM_UNMAP,
                                             WEIR_CALL_ANY};
    uint64_t strikes = 0;
    for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
        bool struck = true;
        for (uint64_t n = 1; struck; n++) {
            struct world w;
            open_world(&w, i % 2 == 1);
            const weir_status status = n % 2 == 1 ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY;
            assert_int_equal(weir_fault_arm(w.faulty, calls[i / 2], n, status), WEIR_OK);
            run(&w, n % 4 < 2);
            assert_int_equal(weir_fault_state(w.faulty, NULL, &struck), WEIR_OK);
            close_world(&w);
            strikes += struck;
        }
    }
    print_message("%d device calls failed\n", (int)strikes);
    assert_true(strikes > 200);
}

TEST(survives_each_host_allocation)
{
    if (CANNOT_REPLACE_MALLOC) {
        skip();
    }
    for (int maps = 0; maps < 2; maps++) {
        uint64_t lossy = 0;
        host_struck = true;
        for (uint64_t n = 1; host_struck; n++) {
            struct world w;
            open_world(&w, maps != 0);
            fail_at = n;
            requests = 0;
            host_struck = false;
            run(&w, n % 4 < 2);
            close_world(&w);
            fail_at = 0;
            lossy += host_struck;
        }
        print_message("%s: %d allocations failed\n", maps ? "granules" : "regions", (int)lossy);
        assert_true(lossy > 50);
    }
}

int main(void)
{
    (void)unsetenv("MSTX_INJECTION_PATH");
    return run_all_tests("tests");
}
