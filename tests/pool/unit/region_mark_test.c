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

/* The mark is 400 MiB. A small request has returned the region. From then on the pool may grow beside idle regions
 * until 400 MiB are reserved again. */
TEST(test_no_exchange_below_the_mark)
{
    struct world w;
    open_world(&w);
    put(&w, get(&w, 400 * MIB));
    put(&w, get(&w, 110 * MIB));
    assert_int_equal(figures(&w).region_frees, 1);
    assert_int_equal(figures(&w).reserved_bytes, 110 * MIB);
    put(&w, get(&w, 150 * MIB)); /* grows beside 110 idle MiB, because 260 MiB do not exceed the mark */
    assert_int_equal(figures(&w).region_frees, 1);
    assert_int_equal(figures(&w).reserved_bytes, 260 * MIB);
    close_world(&w);
}

TEST(test_as_few_regions_go_back_as_are_enough)
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
    weir_block *larger = get(&w, 22 * MIB); /* returning two regions makes enough room */
    assert_int_equal(figures(&w).region_frees, 2);
    assert_int_equal(figures(&w).reserved_bytes, 122 * MIB);
    assert_int_equal(figures(&w).served[WEIR_RUNG_EXCHANGED], 1);
    put(&w, larger);
    put(&w, live);
    close_world(&w);
}

/* Of the idle regions the smallest one that is enough goes back. So the others are there for the next requests of their
 * size: these need no device call. */
TEST(test_an_exchange_leaves_regions_that_fit_the_next_requests)
{
    static const uint64_t sizes[] = {70, 52, 35, 95, 61};
    enum { count = sizeof(sizes) / sizeof(sizes[0]) };
    struct world w;
    weir_block *blocks[count];
    open_world(&w);
    for (int i = 0; i < count; i++) {
        blocks[i] = get(&w, sizes[i] * MIB);
    }
    weir_block *live = get(&w, 40 * MIB);
    for (int i = 0; i < count; i++) {
        put(&w, blocks[i]);
    }
    weir_block *small = get(&w, 18 * MIB); /* would split the region of 35 MiB */
    assert_int_equal(figures(&w).region_frees, 1);
    const uint64_t calls = region_calls(&w);
    for (int i = 0; i < count; i++) {
        blocks[i] = sizes[i] != 35 ? get(&w, sizes[i] * MIB) : NULL;
    }
    assert_int_equal(region_calls(&w), calls);
    for (int i = 0; i < count; i++) {
        if (blocks[i] != NULL) {
            put(&w, blocks[i]);
        }
    }
    put(&w, small);
    put(&w, live);
    close_world(&w);
}

static unsigned regions_taken_out;

static weir_status take_out(void *state, void *region, const weir_tick *limits, size_t lanes)
{
    regions_taken_out++;
    return weir_caching_strategy()->region_remove(state, region, limits, lanes);
}

/* 100 regions are idle, and the pool visits few of them to decide which go back. */
TEST(test_an_exchange_visits_few_idle_regions)
{
    enum { regions = 100 };
    struct world w;
    weir_block *blocks[regions];
    weir_strategy_ops strategy = *weir_caching_strategy();
    strategy.region_remove = take_out;
    open_world_of(&w, &strategy, WEIR_POOL_NO_FRONT_CACHE);
    (void)get(&w, 30 * 1024 * MIB);
    for (int i = 0; i < regions; i++) {
        blocks[i] = get(&w, 200 * MIB);
    }
    for (int i = 0; i < regions; i++) {
        put(&w, blocks[i]);
    }
    for (int i = 0; i < 8 && figures(&w).served[WEIR_RUNG_EXCHANGED] == 0; i++) {
        regions_taken_out = 0;
        (void)get(&w, 210 * MIB);
    }
    assert_int_equal(figures(&w).served[WEIR_RUNG_EXCHANGED], 1);
    assert_in_range(figures(&w).region_frees, 1, 2);
    assert_in_range(regions_taken_out, 1, 20);
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

/* A pool that shall keep idle regions splits them, also after a trim. */
TEST(test_a_pool_that_keeps_idle_regions_splits_them)
{
    struct world w;
    open_world_of(&w, weir_caching_strategy(), WEIR_POOL_REGIONS | WEIR_POOL_KEEP_IDLE_REGIONS);
    put(&w, get(&w, 40 * MIB));
    put(&w, get(&w, 4 * MIB));
    assert_int_equal(weir_pool_trim(w.pool, UINT64_MAX, 0, NULL), WEIR_OK);
    weir_block *block = get(&w, 4 * MIB);
    assert_int_equal(figures(&w).reserved_bytes, 40 * MIB);
    put(&w, block);
    close_world(&w);
}

/* Checks what a request leaves reserved that finds an idle region of 40 MiB. */
static void expect_beside_40(uint64_t request, uint64_t reserved)
{
    struct world w;
    open_world(&w);
    put(&w, get(&w, 40 * MIB));
    weir_block *block = get(&w, request);
    assert_int_equal(figures(&w).reserved_bytes, reserved);
    put(&w, block);
    close_world(&w);
}

/* A block that leaves less than three quarters of its own size of an idle region is put into this region. Any smaller
 * one gets a region of its own in the place of the idle one. */
TEST(test_a_region_is_broken_for_a_request_of_about_its_size)
{
    expect_beside_40(24 * MIB, 40 * MIB);
    expect_beside_40(22 * MIB, 22 * MIB);
    expect_beside_40(11 * MIB, 12 * MIB);
}

/* Weights of two sizes are replaced one by one: the new one comes before its predecessor goes. A small one finds the
 * region of a large one idle. The pool has to stay at what is live. */
TEST(test_layers_of_two_sizes_are_replaced)
{
    enum { layers = 16 };
    struct world w;
    weir_block *blocks[layers];
    open_world(&w);
    for (int i = 0; i < layers; i++) {
        blocks[i] = get(&w, (i % 2 == 0 ? 530 : 270) * MIB);
    }
    for (int i = 0; i < layers; i++) {
        weir_block *next = get(&w, (i % 2 == 0 ? 530 : 270) * MIB);
        put(&w, blocks[i]);
        blocks[i] = next;
    }
    const weir_pool_stats stats = figures(&w);
    assert_true(stats.peak_reserved_bytes <= stats.peak_live_bytes + stats.peak_live_bytes / 12);
    for (int i = 0; i < layers; i++) {
        put(&w, blocks[i]);
    }
    close_world(&w);
}

/* A workspace of 76 MiB is in use most of the time. A block of 2 MiB that lives on comes while it is not: cut out of
 * the workspace's region it would make the next workspace need a second one. */
TEST(test_a_small_block_does_not_pin_a_workspace)
{
    struct world w;
    weir_block *small[12];
    open_world(&w);
    for (int i = 0; i < 12; i++) {
        put(&w, get(&w, 76 * MIB));
        small[i] = get(&w, (uint64_t)(i % 2 + 2) * MIB);
    }
    put(&w, get(&w, 76 * MIB));
    assert_true(figures(&w).peak_reserved_bytes <= 76 * MIB + 12 * 4 * MIB);
    for (int i = 0; i < 12; i++) {
        put(&w, small[i]);
    }
    close_world(&w);
}

/* Three temporaries grow by a little in each step. */
TEST(test_temporaries_grow_by_a_little_each_step)
{
    enum { steps = 150 };
    struct world w;
    weir_block *blocks[3];
    open_world(&w);
    for (uint64_t step = 0; step < steps; step++) {
        blocks[0] = get(&w, (8288 + 96 * step) * KIB);
        blocks[1] = get(&w, (3104 + 32 * step) * KIB);
        blocks[2] = get(&w, (24736 + 160 * step) * KIB);
        for (int i = 0; i < 3; i++) {
            put(&w, blocks[i]);
        }
    }
    const weir_pool_stats stats = figures(&w);
    assert_true(stats.peak_reserved_bytes <= stats.peak_live_bytes + stats.peak_live_bytes / 10);
    close_world(&w);
}

/* Plays a step of a program that concatenates: each of 16 blocks is replaced by one that is a little larger. */
static void grow_blocks(struct world *w, weir_block **blocks, uint64_t step)
{
    for (uint64_t i = 0; i < 16; i++) {
        weir_block *larger = get(w, (4 + i) * MIB + (step + 1) * 64 * KIB);
        put(w, blocks[i]);
        blocks[i] = larger;
    }
}

/* Keys and values grow by concatenation. No block fits a region that an earlier one left, so the regions have to go:
 * those that are too small, and also the larger ones, which the smaller blocks must not split. */
TEST(test_growing_blocks_leave_no_regions_behind)
{
    struct world w;
    weir_block *blocks[16];
    open_world(&w);
    for (uint64_t i = 0; i < 16; i++) {
        blocks[i] = get(&w, (4 + i) * MIB + 64 * KIB);
    }
    for (uint64_t step = 1; step < 120; step++) {
        grow_blocks(&w, blocks, step);
    }
    const weir_pool_stats stats = figures(&w);
    assert_true(stats.peak_reserved_bytes <= stats.peak_live_bytes + stats.peak_live_bytes / 10);
    for (int i = 0; i < 16; i++) {
        put(&w, blocks[i]);
    }
    close_world(&w);
}

/* Opens a world with regions of 36 and 26 MiB. Blocks of 7 MiB in the latter and of `size` bytes in the former leave
 * 19 MiB in the latter and the rest of the former. */
static void open_two_regions(struct world *w, uint64_t size, weir_block **block, weir_block **larger)
{
    open_world_of(w, weir_caching_strategy(), WEIR_POOL_KEEP_IDLE_REGIONS);
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
    /* Bound on exchanges: the pool never has so many regions that they exceed most_calls_for_all. */
    const double rise = (double)(stats.peak_reserved_bytes - stats.peak_live_bytes) / (double)stats.peak_live_bytes;
    assert_true((double)stats.region_frees <=
                most_calls_for_all * (rise + 1.0 / 128) + (double)(whole_for_all + stats.regions));
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
    assert_true(stats.region_frees > 100 && stats.region_frees <= most_calls_for_all + whole_for_all + 20);
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
    assert_true(weir__mark_affords(&mark, 10000, 12, 10)); /* 1/100 of all is worth 20 calls */
    assert_false(weir__mark_affords(&mark, 10000, 9, 10));
    assert_true(weir__mark_affords(&mark, 10000, 8, 10));
    assert_int_equal(mark.debt, 20);
    assert_false(weir__mark_affords(&mark, 10000, 1, 10));
    assert_true(weir__mark_affords(&mark, 11000, 2, 10));
    weir__mark_buy(&mark, 5000, 10);
    assert_int_equal(mark.debt, 12);
    weir__mark_buy(&mark, 10000, 10);
    assert_int_equal(mark.debt, 0);
    /* in a pool of many regions, one region is worth a device call */
    assert_true(weir__mark_affords(&mark, 10, 1, 12500));
}

/* The more requests a program has made, the more device calls it may make for the same memory, up to a bound. */
TEST(test_calls_are_paid_by_misses)
{
    struct high_mark mark = {.reserved = 1000000, .live = 1000000, .misses = 4000};
    assert_false(weir__mark_affords(&mark, 10000, 21, 10));
    mark.misses = 20000;
    assert_false(weir__mark_affords(&mark, 10000, 101, 10));
    assert_true(weir__mark_affords(&mark, 10000, 100, 10));
    mark.misses = UINT64_MAX;
    assert_false(weir__mark_affords(&mark, 10000, 101, 10));
    assert_true(weir__mark_affords(&mark, 10000, 100, 10)); /* 200 in all */
}

/* Two sizes in turn, neither of which serves the other, in a pool with many other requests: where few requests would
 * raise the mark, the pool goes on exchanging. */
TEST(test_a_program_with_many_requests_exchanges_for_longer)
{
    uint64_t exchanged[2];
    for (int many = 0; many < 2; many++) {
        enum { cycles = 1000 };
        struct world w;
        open_world_of(&w, weir_caching_strategy(), WEIR_POOL_NO_FRONT_CACHE); /* each request is a miss */
        for (int cycle = 0; cycle < cycles; cycle++) {
            weir_block *blocks[8];
            for (int i = 0; i < 8; i++) {
                blocks[i] = get(&w, cycle % 2 == 0 ? 11 * MIB : 13 * MIB);
            }
            for (int i = 0; i < 8; i++) {
                put(&w, blocks[i]);
            }
            for (int i = 0; many && i < 100; i++) {
                put(&w, get(&w, 4096));
            }
        }
        exchanged[many] = figures(&w).region_frees;
        close_world(&w);
    }
    assert_true(exchanged[1] > exchanged[0]);
}

/* A large idle region is worth more calls than a small one, and short memory more than plenty. */
TEST(test_what_may_be_left_of_an_idle_region)
{
    struct high_mark mark = {.live = 256 * MIB};
    weir__mark_note_whole(&mark, false, false);
    assert_true(weir__mark_keeps_whole(&mark, 4 * MIB, 2 * MIB));
    assert_false(weir__mark_keeps_whole(&mark, 3 * MIB, 2 * MIB));
    assert_false(weir__mark_keeps_whole(&mark, 0, 2 * MIB));
    mark.whole_calls = 9;
    weir__mark_note_whole(&mark, false, false);
    assert_true(weir__mark_keeps_whole(&mark, 13 * MIB, 2 * MIB));
    assert_false(weir__mark_keeps_whole(&mark, 12 * MIB, 2 * MIB));
    weir__mark_note_whole(&mark, false, true);
    assert_true(weir__mark_keeps_whole(&mark, 4 * MIB, 2 * MIB));
    weir__mark_note_whole(&mark, true, true);
    assert_false(weir__mark_keeps_whole(&mark, 1024 * MIB, 2 * MIB));
    mark.whole_calls = UINT64_MAX / 2;
    weir__mark_note_whole(&mark, false, true);
    assert_false(weir__mark_keeps_whole(&mark, 1024 * MIB, 2 * MIB));
}

/* Notes eight requests, each larger than the one before by `step`, the last of them with `live` live bytes. */
static void note_sizes(struct high_mark *mark, uint64_t step, uint64_t live)
{
    for (uint64_t i = 1; i <= 8; i++) {
        weir__mark_note_request(mark, 10 * MIB + i * step, i == 8 ? live : mark->live);
    }
}

/* Sizes that keep growing pay for device calls by as much as the live bytes grow with them: a quarter more for a fifth
 * of the calls of all. Other sizes pay for none, nor do sizes that grow while the live bytes do not. */
TEST(test_sizes_that_keep_growing_pay_by_the_live_bytes)
{
    struct high_mark mark = {.live = 800 * MIB, .debt = 9000, .whole_calls = 9000};
    note_sizes(&mark, 64 * KIB, 800 * MIB);
    assert_int_equal(mark.debt, 9000);
    note_sizes(&mark, 512 * KIB, 1000 * MIB);
    assert_in_range(mark.debt, 9000 - most_calls_for_all / 5, 9000 - most_calls_for_all / 5 + 1);
    assert_int_equal(mark.whole_calls, mark.debt);
    assert_int_equal(mark.live, 1000 * MIB);

    mark = (struct high_mark){.live = 800 * MIB, .debt = 9000, .whole_calls = 9000};
    note_sizes(&mark, 0, 900 * MIB);
    note_sizes(&mark, 5 * MIB, 1000 * MIB);
    assert_int_equal(mark.debt, 9000);
    assert_int_equal(mark.whole_calls, 9000);
}
