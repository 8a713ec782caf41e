/* tests/pool/fault/kept_fault.c: memory that the device does not take back at once.
 *
 * If a pool has no host memory to record a region or a reservation, it gives it back to the device. If the device
 * refuses, the pool keeps it in its books and gives it back later. Handles of physical memory that could not be
 * destroyed count as reserved until they are destroyed: a trim stops at keep_bytes, and destroying the pool destroys
 * all of them.
 */
#include "rig/test.h"

#include <weir/adaptor.h>
#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/sim.h>

#include "failing.h"

#define ok(call) assert_int_equal((call), WEIR_OK)
#define GRANULE (UINT64_C(2) << 20)

struct world {
    weir_sim *sim;
    weir_device *passing;
    weir_device *faulty;
    weir_pool *pool;
    weir_stream *stream;
};

static struct world open_world(bool maps)
{
    struct world w = {0};
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.page_bytes = GRANULE;
    ok(weir_sim_create(&sim, &w.sim));
    inner = weir_sim_device(w.sim);
    ok(weir_device_create(&pass_ops, NULL, &w.passing));
    ok(weir_fault_create(w.passing, &w.faulty));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = w.faulty;
    config.strategy = weir_caching_strategy();
    config.flags = maps ? 0 : WEIR_POOL_REGIONS;
    ok(weir_pool_create(&config, &w.pool));
    ok(weir_pool_stream(w.pool, NULL, &w.stream));
    return w;
}

/* Checks that the device has everything back, addresses included. */
static void close_world(struct world *w)
{
    weir_sim_finding finding;
    ok(weir_pool_destroy(w->pool));
    weir_sim_audit_leaks(w->sim);
    if (weir_sim_finding_at(w->sim, 0, &finding)) {
        fail_msg("the device has not got everything back: %s", finding.text);
    }
    ok(weir_device_destroy(w->faulty));
    ok(weir_device_destroy(w->passing));
    ok(weir_sim_destroy(w->sim));
}

static uint64_t reserved(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_sim_stats device = WEIR_SIM_STATS_INIT;
    ok(weir_pool_get_stats(w->pool, &stats));
    ok(weir_sim_get_stats(w->sim, &device));
    assert_int_equal(stats.reserved_bytes, device.held_bytes);
    return stats.reserved_bytes;
}

/* The n-th request for host memory in an alloc fails, and so does the first call after it that gives memory back.
 * Returns false if the alloc made fewer requests. */
static bool strikes(bool maps, uint64_t n)
{
    struct world w = open_world(maps);
    weir_block *block = NULL;
    ok(weir_fault_arm(w.faulty, maps ? WEIR_CALL_VM_RELEASE : WEIR_CALL_REGION_FREE, 1, WEIR_ERR_DEVICE));
    host_struck = false;
    requests = 0;
    fail_at = n;
    const weir_status status = POOL(weir_pool_alloc(w.pool, w.stream, GRANULE, 0, &block));
    fail_at = 0;
    assert_true(status == WEIR_OK || (status == WEIR_ERR_NO_MEMORY && host_struck));
    ok(weir_fault_arm(w.faulty, WEIR_CALL_ANY, 0, WEIR_ERR_DEVICE));
    (void)reserved(&w);
    close_world(&w);
    return host_struck;
}

TEST(test_memory_that_cannot_be_entered_is_given_back)
{
    if (CANNOT_REPLACE_MALLOC) {
        skip();
    }
    for (int maps = 0; maps < 2; maps++) {
        uint64_t n = 1;
        while (strikes(maps != 0, n)) {
            n++;
        }
        assert_true(n > 3);
    }
}

/* Leaves `idle` granules mapped and free, and `spare` handles that could not be destroyed. */
static struct world leave_spares(uint64_t idle, uint64_t spare)
{
    struct world w = open_world(true);
    weir_block *block = NULL;
    ok(weir_pool_alloc(w.pool, w.stream, (idle + spare) * GRANULE, 0, &block));
    ok(weir_pool_free(w.pool, block, w.stream));
    ok(weir_fault_arm(w.faulty, WEIR_CALL_VM_DESTROY, 1, WEIR_ERR_DEVICE));
    assert_int_equal(weir_pool_trim(w.pool, idle * GRANULE, WEIR_TRIM_WAIT, NULL), WEIR_ERR_DEVICE);
    assert_int_equal(reserved(&w), (idle + spare) * GRANULE);
    return w;
}

TEST(test_spare_handles_go_with_the_pool)
{
    struct world w = leave_spares(0, 3);
    close_world(&w);
}

TEST(test_a_trim_keeps_what_it_is_told_to_keep)
{
    for (uint64_t keep = 0; keep <= 6; keep++) {
        struct world w = leave_spares(4, 2);
        uint64_t released = 0;
        ok(weir_pool_trim(w.pool, keep * GRANULE, WEIR_TRIM_WAIT, &released));
        if (reserved(&w) != keep * GRANULE) {
            fail_msg("a trim was to keep %u granules and has kept %u", (unsigned)keep,
                     (unsigned)(reserved(&w) / GRANULE));
        }
        assert_int_equal(released, (6 - keep) * GRANULE);
        close_world(&w);
    }
}
