/* tests/pool/unit/routing_test.c: promises of routing beyond the contract: the half that serves a request, strategies
 * that cannot be a half, and that no request fails if the other half has the memory. */
#include "rig/sim.h"
#include <weir/routing.h>
#define STRATEGY weir_routing_strategy
#include "rig/strategy.h"

#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/size_class.h>

/* --- the table alone --- */

/* Adds a region for requests of `hint` bytes, not adjacent to the region before it. Returns its address. */
static uint64_t region_for(uint64_t hint, uint64_t size)
{
    const uint64_t address = rig.next_address;
    (void)add_region_for(hint, size, 1);
    rig.next_address += size;
    return address;
}

static bool gather_for(uint64_t size, bool last_resort)
{
    const weir_tick limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX, WEIR_TICK_MAX};
    return gather(1, 0, limits, size, last_resort);
}

static bool lies_in(const weir_range *range, uint64_t region)
{
    return range->address - region < REGION;
}

TEST(size_decides_up_to_the_threshold)
{
    const uint64_t thresholds[] = {0, 4 * MIB, 700};
    for (size_t i = 0; i < 3; i++) {
        const weir_routing_config config = {.struct_size = sizeof(config), .threshold_bytes = thresholds[i]};
        const uint64_t threshold = thresholds[i] != 0 ? thresholds[i] : MIB;
        renew(&config);
        const uint64_t region = 8 * MIB;
        const uint64_t small = region_for(threshold, region);
        const uint64_t large = region_for(threshold + 1, region);
        const weir_range one = must_take(1, threshold);
        const weir_range two = must_take(1, threshold + 1);
        assert_true(one.address - small < region && two.address - large < region);
        assert_ptr_not_equal(one.token, two.token);
        give(&two, 1, 0);
        give(&one, 1, 0);
        weir_strategy_stats stats = WEIR_STRATEGY_STATS_INIT;
        rig.ops->stats(rig.state, &stats);
        assert_true(stats.regions == 2 && stats.region_bytes == 2 * region && stats.taken_ranges == 0);
    }
}

/* For each half: alloc and an ordinary gather refuse the memory of the other half. As a last resort that memory serves,
 * and it returns to its half when it is freed. */
TEST(the_other_half_is_the_last_resort)
{
    const uint64_t sizes[2] = {8 * GRANULE, REGION / 2 + GRANULE};
    for (int i = 0; i < 2; i++) {
        weir_range range;
        renew(NULL);
        const uint64_t region = region_for(sizes[1 - i], REGION);
        assert_int_equal(take(1, sizes[i], NULL), 0);
        assert_false(gather_for(sizes[i], false));
        assert_true(gather_for(sizes[i], true));
        range = must_take(1, sizes[i]);
        assert_true(lies_in(&range, region) && range.size >= sizes[i]);
        give(&range, 1, 0);
        /* After the free the memory belongs to the other half again, so an ordinary alloc of this half does not get
         * it. */
        assert_int_equal(take(1, sizes[i], NULL), 0);
        range = must_take(1, sizes[1 - i]);
    }
}

/* A gather finds memory for one request. Another request in between must not get this memory, which may be too small
 * for it. */
TEST(a_gathered_range_serves_only_its_request)
{
    weir_range range;
    const uint64_t small = region_for(1, 16 * GRANULE);
    const uint64_t large = region_for(REGION, REGION);
    range = must_take(1, 16 * GRANULE);
    assert_true(gather_for(GRANULE, true)); /* in the large half */
    assert_int_equal(take(1, REGION + 1, NULL), 0);
    assert_int_equal(take(1, GRANULE, NULL), 0);
    assert_true(gather_for(GRANULE, true));
    range = must_take(1, REGION - GRANULE);
    assert_true(lies_in(&range, large));
    assert_true(gather_for(GRANULE, true));
    assert_int_equal(promote(2, 0), 0);
    assert_int_equal(take(1, GRANULE, NULL), 0);
    assert_true(gather_for(GRANULE, true));
    range = must_take(1, GRANULE);
    assert_true(lies_in(&range, large) && !lies_in(&range, small));
    assert_false(gather_for(GRANULE, true));
}

static bool stop_at_third(void *ctx, const weir_range_info *range)
{
    (void)range;
    return ++*(int *)ctx < 3;
}

TEST(a_walk_ends_where_the_visitor_says)
{
    int seen = 0;
    (void)region_for(1, REGION);
    (void)region_for(REGION, REGION);
    (void)region_for(REGION, REGION);
    (void)must_take(1, 300 * KIB);
    rig.ops->walk(rig.state, stop_at_third, &seen);
    assert_int_equal(seen, 3);
}

/* --- configs --- */

static int inits;
static int finis;

static weir_status counting_init(void *state, const void *config)
{
    weir_status status = weir_caching_strategy()->init(state, config);
    inits += status == WEIR_OK;
    return status;
}

static void counting_fini(void *state)
{
    finis++;
    weir_caching_strategy()->fini(state);
}

/* The strategy is refused as either half. */
static void refused(const weir_strategy_ops *strategy)
{
    weir_routing_config config = {.struct_size = sizeof(config), .small_strategy = strategy};
    assert_int_equal(try_config(weir_routing_strategy(), &config), WEIR_ERR_INVALID);
    config = (weir_routing_config){.struct_size = sizeof(config), .large_strategy = strategy};
    assert_int_equal(try_config(weir_routing_strategy(), &config), WEIR_ERR_INVALID);
}

TEST(strategies_that_cannot_be_a_half_are_refused)
{
    const uint32_t flags[] = {
        WEIR_STRATEGY_PRIVATE_LANES,
        WEIR_STRATEGY_RETURNS_REGIONS,
        WEIR_STRATEGY_NO_FRONT_CACHE,
        WEIR_STRATEGY_ROUTES,
        1u << 31,
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        weir_strategy_ops other = *weir_caching_strategy();
        other.flags = flags[i];
        refused(&other);
    }
    for (int shift = -1; shift <= 1; shift += 2) {
        weir_strategy_ops other = *weir_caching_strategy();
        other.granule_bytes = shift < 0 ? GRANULE / 2 : GRANULE * 2;
        refused(&other);
    }
    weir_strategy_ops other = *weir_caching_strategy();
    other.gather = NULL;
    refused(&other);
    other = *weir_caching_strategy();
    other.struct_size = sizeof(other) - 1;
    refused(&other);
    refused(weir_routing_strategy());
    other = *weir_caching_strategy();
    weir_routing_config config = {.struct_size = sizeof(config), .small_strategy = &other};
    ok(try_config(weir_routing_strategy(), &config));
}

TEST(a_half_that_refuses_its_config_refuses_all)
{
    const size_t too_short = 1;
    weir_strategy_ops counting = *weir_caching_strategy();
    counting.init = counting_init;
    counting.fini = counting_fini;
    weir_routing_config config = {.struct_size = sizeof(config), .small_strategy = &counting};
    config.small_config = &too_short;
    assert_int_equal(try_config(weir_routing_strategy(), &config), WEIR_ERR_INVALID);
    assert_true(inits == 0 && finis == 0);
    config.small_config = NULL;
    config.large_config = &too_short;
    assert_int_equal(try_config(weir_routing_strategy(), &config), WEIR_ERR_INVALID);
    assert_true(inits == 1 && finis == 1);
    const struct {
        weir_caching_config known;
        uint64_t later;
    } newer = {{.struct_size = sizeof(newer)}, 1};
    config.large_config = &newer;
    assert_int_equal(try_config(weir_routing_strategy(), &config), WEIR_ERR_UNSUPPORTED);
    config.large_config = NULL;
    ok(try_config(weir_routing_strategy(), &config));
    assert_true(inits == 3 && finis == 3);
}

TEST(halves_get_their_configs)
{
    const weir_caching_config small = {.struct_size = sizeof(small), .small_region_bytes = 7 * REGION};
    const weir_caching_config large = {.struct_size = sizeof(large), .large_region_bytes = 3 * REGION};
    const weir_routing_config config = {
        .struct_size = sizeof(config),
        .small_strategy = weir_caching_strategy(),
        .small_config = &small,
        .large_config = &large,
        .threshold_bytes = 4096,
    };
    renew(&config);
    assert_int_equal(region_size(4096, 0, REGION), 7 * REGION);
    assert_int_equal(region_size(MIB + 1, 256 * REGION, REGION), 2 * REGION);
}

/* --- in a pool --- */

struct world {
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *stream;
};

static struct world open_world(uint64_t limit, uint32_t flags)
{
    weir_sim_config sim = free_of_charge();
    sim.capacity_bytes = 64 * REGION;
    struct world w = {.sim = new_sim(sim)};
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(w.sim);
    config.strategy = weir_routing_strategy();
    config.limit_bytes = limit;
    config.flags = flags;
    ok(weir_pool_create(&config, &w.pool));
    ok(weir_pool_stream(w.pool, new_stream(w.sim), &w.stream));
    return w;
}

static weir_block *must_alloc(struct world *w, uint64_t size)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(w->pool, w->stream, size, 0, &block));
    ok(weir_pool_check(w->pool, NULL));
    return block;
}

static void must_free(struct world *w, weir_block *block)
{
    ok(weir_pool_free(w->pool, block, w->stream));
    ok(weir_pool_check(w->pool, NULL));
}

static weir_pool_stats pool_stats(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w->pool, &stats));
    return stats;
}

static void close_world(struct world *w)
{
    ok(weir_pool_destroy(w->pool));
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

TEST(an_idle_region_is_exchanged)
{
    const uint64_t sizes[2] = {100 * KIB, 3 * MIB / 2};
    for (int i = 0; i < 2; i++) {
        struct world w = open_world(REGION, 0);
        must_free(&w, must_alloc(&w, sizes[i]));
        weir_block *block = must_alloc(&w, sizes[1 - i]);
        const weir_pool_stats stats = pool_stats(&w);
        assert_int_equal(stats.served[WEIR_RUNG_EXCHANGED], 1);
        assert_int_equal(stats.reserved_bytes, REGION);
        must_free(&w, block);
        close_world(&w);
    }
}

/* The other half's region cannot be removed, because a block lives in it, or because the pool keeps regions. */
TEST(a_region_that_stays_serves_both)
{
    const uint64_t small = 256 * KIB;
    const uint64_t large = 5 * MIB / 4;
    for (int i = 0; i < 2; i++) {
        struct world w = open_world(REGION, i == 0 ? 0 : WEIR_POOL_KEEP_IDLE_REGIONS);
        weir_block *stays = must_alloc(&w, small);
        weir_block *block = must_alloc(&w, large); /* from the region of the small half */
        must_free(&w, stays);
        stays = must_alloc(&w, small);
        must_free(&w, block);
        must_free(&w, stays);
        assert_int_equal(pool_stats(&w).region_frees, 0);
        close_world(&w);

        w = open_world(REGION, i == 0 ? 0 : WEIR_POOL_KEEP_IDLE_REGIONS);
        stays = must_alloc(&w, large);
        for (int k = 0; k < 3; k++) {
            (void)must_alloc(&w, small); /* from the rest of the large half's region */
        }
        weir_block *none = NULL;
        assert_int_equal(weir_pool_alloc(w.pool, w.stream, small, 0, &none), WEIR_ERR_NO_MEMORY);
        must_free(&w, stays);
        for (int k = 0; k < 5; k++) {
            (void)must_alloc(&w, small);
        }
        assert_int_equal(weir_pool_alloc(w.pool, w.stream, small, 0, &none), WEIR_ERR_NO_MEMORY);
        close_world(&w);
    }
}
