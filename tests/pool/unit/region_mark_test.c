/* tests/pool/unit/region_mark_test.c: the pool returns idle regions before it takes a new one only where it would
 * otherwise exceed its mark, the most bytes that it has reserved before (state/mark.h). */
#include "rig/test.h"
#include "fake_device.h"

#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/pool.h>

#include "state/mark.h"

struct world {
    struct fake_device fake;
    weir_device *device;
    weir_pool *pool;
    weir_stream *stream;
};

static void open_world_of(struct world *w, const weir_strategy_ops *strategy, uint32_t flags)
{
    fake_init(&w->fake);
    w->fake.info.region_granularity_bytes = 2 * MIB;
    w->fake.info.region_alignment_bytes = 2 * MIB;
    w->fake.event_complete = true;
    assert_int_equal(weir_device_create(&w->fake.ops, &w->fake, &w->device), WEIR_OK);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = w->device;
    config.strategy = strategy;
    config.flags = WEIR_POOL_REGIONS | flags;
    assert_int_equal(weir_pool_create(&config, &w->pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(w->pool, NULL, &w->stream), WEIR_OK);
}

static void open_world(struct world *w)
{
    open_world_of(w, weir_caching_strategy(), 0);
}

static void close_world(struct world *w)
{
    const char *why = "";
    assert_int_equal(weir_pool_check(w->pool, &why), WEIR_OK);
    assert_int_equal(weir_pool_destroy(w->pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->device), WEIR_OK);
}

static weir_block *get(struct world *w, uint64_t size)
{
    weir_block *block = NULL;
    assert_int_equal(weir_pool_alloc(w->pool, w->stream, size, 0, &block), WEIR_OK);
    return block;
}

static void put(struct world *w, weir_block *block)
{
    assert_int_equal(weir_pool_free(w->pool, block, w->stream), WEIR_OK);
}

static weir_pool_stats figures(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    assert_int_equal(weir_pool_get_stats(w->pool, &stats), WEIR_OK);
    return stats;
}

static uint64_t region_calls(struct world *w)
{
    return w->fake.calls[WEIR_CALL_REGION_ALLOC] + w->fake.calls[WEIR_CALL_REGION_FREE];
}

/* The mark is 400 MiB reserved and 280 MiB live. A larger request has returned all regions. From then on the pool may
 * grow beside idle regions until 400 MiB are reserved again. */
TEST(test_no_exchange_below_the_mark)
{
    struct world w;
    weir_block *blocks[4];
    open_world(&w);
    for (int i = 0; i < 4; i++) {
        put(&w, get(&w, 100 * MIB));
        blocks[i] = get(&w, 60 * MIB); /* the rest of the region of 100 MiB is too small for the next block */
    }
    assert_int_equal(figures(&w).reserved_bytes, 400 * MIB);
    for (int i = 0; i < 4; i++) {
        put(&w, blocks[i]);
    }
    put(&w, get(&w, 150 * MIB));
    const uint64_t frees = figures(&w).region_frees;
    assert_int_equal(frees, 4);
    assert_int_equal(figures(&w).reserved_bytes, 150 * MIB);
    put(&w, get(&w, 170 * MIB)); /* grows beside 150 idle MiB, because 320 MiB do not exceed the mark */
    assert_int_equal(figures(&w).region_frees, frees);
    assert_int_equal(figures(&w).reserved_bytes, 320 * MIB);
    close_world(&w);
}

TEST(test_all_that_is_idle_goes_back_at_the_mark)
{
    struct world w;
    weir_block *blocks[5];
    open_world(&w);
    weir_block *live = get(&w, 40 * MIB);
    for (int i = 0; i < 5; i++) {
        blocks[i] = get(&w, 20 * MIB);
    }
    for (int i = 0; i < 5; i++) {
        put(&w, blocks[i]);
    }
    assert_int_equal(figures(&w).reserved_bytes, 140 * MIB);
    weir_block *larger = get(&w, 22 * MIB); /* returning two regions would make enough room, but all five go back */
    assert_int_equal(figures(&w).region_frees, 5);
    assert_int_equal(figures(&w).reserved_bytes, 62 * MIB);
    assert_int_equal(figures(&w).served[WEIR_RUNG_EXCHANGED], 1);
    put(&w, larger);
    put(&w, live);
    close_world(&w);
}

static unsigned regions_taken_out;

static weir_status take_out(void *state, void *region, const weir_tick *limits, size_t lanes)
{
    regions_taken_out++;
    return weir_caching_strategy()->region_remove(state, region, limits, lanes);
}

static bool is_of_another_region(void *ctx, const weir_walk_entry *entry)
{
    assert_int_not_equal(entry->region_address, *(const uint64_t *)ctx);
    return true;
}

/* The rise of the mark that the pool would avoid is worth at most eleven device calls, and 400 regions are idle. Only
 * the region that has been idle longest goes back, and the pool visits few of the 400 to decide that. */
TEST(test_an_exchange_takes_out_few_more_regions_than_it_may_return)
{
    enum { regions = 400 };
    struct world w;
    weir_block *blocks[regions];
    weir_strategy_ops strategy = *weir_caching_strategy();
    strategy.region_remove = take_out;
    open_world_of(&w, &strategy, WEIR_POOL_NO_FRONT_CACHE);
    (void)get(&w, 30 * 1024 * MIB);
    for (int i = 0; i < regions; i++) {
        blocks[i] = get(&w, 20 * MIB);
    }
    uint64_t first = weir_block_address(blocks[0]);
    for (int i = 0; i < regions; i++) {
        put(&w, blocks[i]);
    }
    while (figures(&w).served[WEIR_RUNG_EXCHANGED] == 0) {
        regions_taken_out = 0;
        (void)get(&w, 22 * MIB);
    }
    assert_int_equal(figures(&w).region_frees, 1);
    assert_in_range(regions_taken_out, 1, 12);
    assert_int_equal(weir_pool_walk(w.pool, is_of_another_region, &first), WEIR_OK);
    close_world(&w);
}

/* After a trim, the mark is the memory that the trim has left. */
TEST(test_a_trim_sets_the_mark)
{
    struct world w;
    open_world(&w);
    put(&w, get(&w, 400 * MIB));
    assert_int_equal(weir_pool_trim(w.pool, 0, 0, NULL), WEIR_OK);
    put(&w, get(&w, 100 * MIB));
    /* the sum of 250 MiB is below the mark from before the trim, so only the trim causes the exchange */
    put(&w, get(&w, 150 * MIB));
    assert_int_equal(figures(&w).reserved_bytes, 150 * MIB);
    assert_int_equal(figures(&w).region_frees, 2);
    close_world(&w);
}

/* A small block would break up an idle region of 80 MiB and keep its rest in use. So that region goes back, and the
 * idle region of 100 MiB stays whole for a large block. */
TEST(test_a_much_larger_idle_region_is_left_whole)
{
    struct world w;
    open_world(&w);
    weir_block *first = get(&w, 100 * MIB);
    weir_block *second = get(&w, 80 * MIB);
    put(&w, first);
    put(&w, second);
    weir_block *small = get(&w, 10 * MIB);
    const uint64_t reserved = figures(&w).reserved_bytes;
    assert_true(reserved <= 120 * MIB);
    weir_block *large = get(&w, 100 * MIB);
    assert_int_equal(figures(&w).reserved_bytes, reserved);
    put(&w, large);
    put(&w, small);
    close_world(&w);
}

/* If the limit leaves no room beside the idle region, the idle region goes back and the block gets a region of its own
 * size. */
TEST(test_a_much_larger_idle_region_makes_room)
{
    struct world w;
    open_world(&w);
    assert_int_equal(weir_pool_set_limits(w.pool, 0, 60 * MIB), WEIR_OK);
    put(&w, get(&w, 60 * MIB));
    weir_block *small = get(&w, 3 * MIB);
    assert_int_equal(figures(&w).reserved_bytes, 4 * MIB);
    weir_block *large = get(&w, 56 * MIB);
    put(&w, large);
    put(&w, small);
    close_world(&w);
}

/* A block of at least a quarter of an idle region is put into this region. */
TEST(test_a_region_less_than_four_times_as_large_is_broken)
{
    struct world w;
    open_world(&w);
    put(&w, get(&w, 40 * MIB));
    weir_block *block = get(&w, 11 * MIB);
    assert_int_equal(figures(&w).reserved_bytes, 40 * MIB);
    put(&w, block);
    close_world(&w);
}

/* Opens a world with regions of 36 and 26 MiB. Blocks of 7 MiB in the latter and of `size` bytes in the former leave
 * 19 MiB in the latter and the rest of the former. */
static void open_two_regions(struct world *w, uint64_t size, weir_block **block, weir_block **larger)
{
    open_world(w);
    weir_block *first = get(w, 36 * MIB);
    weir_block *second = get(w, 26 * MIB);
    put(w, first);
    put(w, second);
    *block = get(w, 7 * MIB);
    *larger = get(w, size);
    assert_int_equal(figures(w).reserved_bytes, 62 * MIB);
}

/* The rest beside the larger block is the best fit for the request. But the request would keep that region in use after
 * the larger block is freed, so it goes to the other region. */
TEST(test_a_block_leaves_the_region_of_a_larger_one_alone)
{
    struct world w;
    weir_block *block;
    weir_block *larger;
    open_two_regions(&w, 24 * MIB, &block, &larger);
    weir_block *second = get(&w, 7 * MIB);
    put(&w, larger);
    larger = get(&w, 36 * MIB);
    assert_int_equal(figures(&w).reserved_bytes, 62 * MIB);
    put(&w, larger);
    put(&w, second);
    put(&w, block);
    close_world(&w);
}

/* Checks that a request takes the rest beside a block of `size` bytes, so that the other region can become idle. */
static void expect_rest_is_taken(uint64_t size, uint64_t request)
{
    struct world w;
    weir_block *block;
    weir_block *larger;
    open_two_regions(&w, size, &block, &larger);
    weir_block *second = get(&w, request);
    put(&w, block);
    block = get(&w, 26 * MIB);
    assert_int_equal(figures(&w).reserved_bytes, 62 * MIB);
    put(&w, block);
    put(&w, second);
    put(&w, larger);
    close_world(&w);
}

TEST(test_a_block_takes_a_tight_rest_of_the_region_of_a_larger_one)
{
    expect_rest_is_taken(28 * MIB, 7 * MIB + MIB * 3 / 4);
}

/* A request of more than half the size of the larger block takes the rest beside it. */
TEST(test_a_block_of_about_the_same_size_takes_the_rest_of_a_region)
{
    expect_rest_is_taken(20 * MIB, 11 * MIB);
}

/* Small and large blocks alternate. Keeping regions whole costs a few device calls at first and none later. */
TEST(test_keeping_regions_whole_costs_no_calls_in_the_end)
{
    struct world w;
    open_world(&w);
    uint64_t calls = 0;
    for (int i = 0; i < 4000; i++) {
        calls = i == 2000 ? region_calls(&w) : calls;
        put(&w, get(&w, 40 * MIB));
        weir_block *small = get(&w, (uint64_t)(2 + i % 8) * MIB);
        weir_block *large = get(&w, 40 * MIB);
        put(&w, small);
        put(&w, large);
    }
    assert_int_equal(region_calls(&w), calls);
    close_world(&w);
}

/* Many pieces of large requests become one region. */
TEST(test_many_regions_become_one)
{
    struct world w;
    weir_block *blocks[16];
    open_world(&w);
    for (int i = 0; i < 16; i++) {
        blocks[i] = get(&w, 20 * MIB);
    }
    for (int i = 0; i < 16; i++) {
        put(&w, blocks[i]);
    }
    blocks[0] = get(&w, 30 * MIB);
    assert_int_equal(figures(&w).regions, 1);
    assert_int_equal(figures(&w).reserved_bytes, 320 * MIB);
    put(&w, blocks[0]);
    close_world(&w);
}

static uint64_t next_length(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return 64 + (*seed >> 33) % 1024;
}

/* Plays one step of a network of eight layers. The sequence length changes at each step. The forward pass keeps blocks
 * that the backward pass frees. */
static void play_step(struct world *w, uint64_t length)
{
    enum { layers = 8, kept_by_layer = 3 };
    weir_block *kept[layers * kept_by_layer];
    int count = 0;
    for (int layer = 0; layer < layers; layer++) {
        kept[count++] = get(w, 3 * length * 2048);
        weir_block *scores = get(w, 2 * length * 2048);
        kept[count++] = get(w, length * 2048);
        put(w, scores);
        kept[count++] = get(w, 4 * length * 2048);
    }
    while (count > 0) {
        weir_block *gradient = get(w, length * 2048);
        put(w, kept[--count]);
        put(w, gradient);
    }
}

TEST(test_the_debt_bounds_calls_for_changing_lengths)
{
    enum { steps = 6000 };
    struct world w;
    uint64_t seed = 1;
    uint64_t calls_at_half = 0;
    open_world(&w);
    for (int step = 0; step < steps; step++) {
        if (step == steps / 2) {
            calls_at_half = region_calls(&w);
        }
        play_step(&w, next_length(&seed));
    }
    const weir_pool_stats stats = figures(&w);
    /* Bound on exchanges: the pool never has so many regions that calls_for_all exceeds it. */
    const double rise = (double)(stats.peak_reserved_bytes - stats.peak_live_bytes) / (double)stats.peak_live_bytes;
    assert_true((double)stats.region_frees <= 20000 * (rise + 1.0 / 128) + (double)stats.regions);
    assert_int_equal(region_calls(&w), calls_at_half);
    assert_true(rise < 0.4);
    close_world(&w);
}

/* The debt counts the regions that the pool has returned to keep its mark low. Without this debt, each phase would
 * return the regions of the other phase, in every cycle. */
TEST(test_the_debt_ends_the_exchange_of_alternating_phases)
{
    enum { cycles = 8000 };
    struct world w;
    weir_block *blocks[64];
    uint64_t calls_at_half = 0;
    open_world(&w);
    for (int cycle = 0; cycle < cycles; cycle++) {
        const int count = cycle % 2 == 0 ? 64 : 3;
        if (cycle == cycles / 2) {
            calls_at_half = region_calls(&w);
        }
        for (int i = 0; i < count; i++) {
            blocks[i] = get(&w, cycle % 2 == 0 ? MIB / 2 : 10 * MIB);
        }
        for (int i = 0; i < count; i++) {
            put(&w, blocks[i]);
        }
    }
    const weir_pool_stats stats = figures(&w);
    assert_int_equal(region_calls(&w), calls_at_half);
    assert_true(stats.region_frees > 100 && stats.region_frees <= 20000 + 20);
    close_world(&w);
}

/* --- the arithmetic --- */

TEST(test_memory_below_the_mark_is_free_of_charge)
{
    const struct high_mark mark = {.reserved = 1000, .live = 640};
    assert_int_equal(weir__mark_excess(&mark, 1000), 0);
    assert_int_equal(weir__mark_excess(&mark, 1007), 7);
    const struct high_mark full = {.reserved = 640, .live = 640};
    assert_int_equal(weir__mark_excess(&full, 645), 0);
    assert_int_equal(weir__mark_excess(&full, 646), 1);
}

TEST(test_exchanges_are_paid_by_rises)
{
    struct high_mark mark = {.reserved = 1000000, .live = 1000000};
    assert_true(weir__mark_affords(&mark, 1000, 12, 10)); /* 1/1000 of all is worth 20 calls */
    assert_false(weir__mark_affords(&mark, 1000, 9, 10));
    assert_true(weir__mark_affords(&mark, 1000, 8, 10));
    assert_int_equal(mark.debt, 20);
    assert_int_equal(weir__mark_affordable(&mark, 1000, 10), 0);
    assert_int_equal(weir__mark_affordable(&mark, 1100, 10), 2);
    weir__mark_buy(&mark, 400, 10);
    assert_int_equal(mark.debt, 12);
    weir__mark_buy(&mark, 1000, 10);
    assert_int_equal(mark.debt, 0);
    /* in a pool of many regions, one region is worth a device call */
    assert_true(weir__mark_affords(&mark, 10, 1, 12500));
}
