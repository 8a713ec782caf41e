/* ranges_test.c: the contract of weir/ranges.h, call by call. The contract suite runs random programs on the strategies
 * that use it. */
#include "rig/test.h"

#include <weir/ranges.h>

static const weir_tick all_done[] = {WEIR_TICK_MAX, WEIR_TICK_MAX, WEIR_TICK_MAX};

/* Adds three lanes and two regions of 1 MiB, both free in lane 1: kind 0 at address 1 MiB and kind 1 at 4 MiB. */
static void fill(weir_ranges *ranges)
{
    void *region;
    *ranges = (weir_ranges){{0}};
    for (weir_lane lane = 0; lane < 3; lane++) {
        assert_int_equal(weir_ranges_lane_add(ranges, lane), WEIR_OK);
    }
    assert_int_equal(weir_ranges_region_add(ranges, 0, MIB, MIB, 1, 0, &region), WEIR_OK);
    assert_int_equal(weir_ranges_region_add(ranges, 1, 4 * MIB, MIB, 1, 0, &region), WEIR_OK);
}

static void empty(weir_ranges *ranges)
{
    const char *why = "";
    assert_int_equal(weir_ranges_check(ranges, &why), WEIR_OK);
    weir_ranges_fini(ranges);
}

static weir_record *found(weir_ranges *ranges, unsigned kind, uint64_t size)
{
    return weir_ranges_find(ranges, kind, 1, WEIR_TICK_MAX, size, 1, 0);
}

static weir_range taken(weir_ranges *ranges, unsigned kind, uint64_t size, uint64_t align, weir_ranges_end end)
{
    weir_range range = {0};
    weir_record *from = weir_ranges_find(ranges, kind, 1, WEIR_TICK_MAX, size, align, 0);
    assert_int_equal(weir_ranges_take(ranges, from, size, align, end, &range), WEIR_OK);
    return range;
}

TEST(test_a_request_takes_either_end)
{
    weir_ranges ranges;
    fill(&ranges);
    const weir_range low = taken(&ranges, 0, 700, 1, WEIR_RANGES_LOW);
    assert_int_equal(low.address, MIB);
    assert_int_equal(low.size, 1024);
    assert_int_equal(taken(&ranges, 0, 700, 1, WEIR_RANGES_HIGH).address, 2 * MIB - 1024);
    assert_int_equal(taken(&ranges, 0, 512, 4 * KIB, WEIR_RANGES_LOW).address, MIB + 4 * KIB);
    assert_int_equal(taken(&ranges, 0, 512, 4 * KIB, WEIR_RANGES_HIGH).address, 2 * MIB - 4 * KIB);
    empty(&ranges);
}

TEST(test_kinds_stay_apart_until_the_last_resort)
{
    weir_ranges ranges;
    fill(&ranges);
    assert_int_equal(taken(&ranges, 1, MIB, 1, WEIR_RANGES_LOW).address, 4 * MIB);
    assert_null(found(&ranges, 1, 512));
    assert_false(weir_ranges_gather(&ranges, 1, 1, 0, all_done, 3, 512, 1, 1, false));
    assert_true(weir_ranges_gather(&ranges, 1, 1, 0, all_done, 3, 512, 1, 1, true));
    assert_int_equal(found(&ranges, 1, 512)->address, MIB);
    assert_null(found(&ranges, 1, 512)); /* a gather of the last resort holds for one call only */
    empty(&ranges);
}

TEST(test_a_gathered_run_serves_the_next_request)
{
    weir_ranges ranges;
    fill(&ranges);
    const weir_range block = taken(&ranges, 0, 512 * KIB, 1, WEIR_RANGES_LOW);
    weir_ranges_free(&ranges, block.token, 2, 7);
    assert_null(found(&ranges, 0, MIB));
    const weir_tick limits[] = {WEIR_TICK_MAX, WEIR_TICK_MAX, 6};
    assert_false(weir_ranges_gather(&ranges, 0, 1, 3, limits, 3, MIB, 1, 1, false));
    assert_true(weir_ranges_gather(&ranges, 0, 1, 3, all_done, 3, MIB, 1, 1, false));
    const weir_record *whole = found(&ranges, 0, MIB);
    assert_int_equal(whole->size, MIB);
    assert_int_equal(whole->as.free.tick, 3); /* the lane's current tick covers tick 7 of the other lane */
    empty(&ranges);
}

TEST(test_find_leaves_small_ranges_alone)
{
    weir_ranges ranges;
    fill(&ranges);
    const weir_range small = taken(&ranges, 0, 4 * KIB, 1, WEIR_RANGES_LOW);
    (void)taken(&ranges, 0, 4 * KIB, 1, WEIR_RANGES_LOW);
    weir_ranges_free(&ranges, small.token, 1, 0);
    assert_int_equal(found(&ranges, 0, 512)->address, small.address);
    assert_int_equal(weir_ranges_find(&ranges, 0, 1, WEIR_TICK_MAX, 512, 1, 64 * KIB)->address, MIB + 8 * KIB);
    empty(&ranges);
}

TEST(test_next_visits_every_range_once)
{
    weir_ranges ranges;
    fill(&ranges);
    (void)taken(&ranges, 0, 4 * KIB, 1, WEIR_RANGES_LOW);
    const uint64_t addresses[] = {MIB, MIB + 4 * KIB, 4 * MIB};
    const weir_record *range = NULL;
    for (size_t i = 0; i < 3; i++) {
        range = weir_ranges_next(&ranges, range);
        assert_int_equal(range->address, addresses[i]);
        assert_int_equal(weir_ranges_serves(range, 1, 0, 512, 1), i != 0); /* the first is taken */
    }
    assert_null(weir_ranges_next(&ranges, range));
    weir_ranges none = {{0}};
    assert_null(weir_ranges_next(&none, NULL));
    empty(&ranges);
}

TEST(test_a_range_serves_its_lane_from_its_tick_on)
{
    weir_ranges ranges;
    fill(&ranges);
    const weir_range block = taken(&ranges, 1, MIB, 1, WEIR_RANGES_LOW);
    weir_ranges_free(&ranges, block.token, 2, 5);
    const weir_record *range = block.token;
    assert_true(weir_ranges_serves(range, 2, 5, MIB, 4 * MIB));
    assert_false(weir_ranges_serves(range, 2, 4, MIB, 1));
    assert_false(weir_ranges_serves(range, 1, WEIR_TICK_MAX, MIB, 1));
    assert_false(weir_ranges_serves(range, 2, 5, MIB + 1, 1));
    assert_false(weir_ranges_serves(range, 2, 5, 512, 8 * MIB));
    empty(&ranges);
}

/* Places count from the start of the region where that agrees with the alignment. */
TEST(test_a_place_counts_from_the_start_of_the_region)
{
    weir_ranges ranges;
    weir_range out = {0};
    void *region;
    fill(&ranges);
    assert_int_equal(weir_ranges_region_add(&ranges, 0, 9 * MIB + 4 * KIB, MIB, 1, 0, &region), WEIR_OK);
    weir_record *range = NULL;
    do {
        range = weir_ranges_next(&ranges, range);
    } while (range->address != 9 * MIB + 4 * KIB);
    assert_int_equal(weir_ranges_place(&ranges, range, 1, 64 * KIB), 9 * MIB + 4 * KIB);
    assert_int_equal(weir_ranges_place(&ranges, range, 4 * KIB, 64 * KIB), 9 * MIB + 4 * KIB);
    assert_int_equal(weir_ranges_place(&ranges, range, 8 * KIB, 64 * KIB), 9 * MIB + 8 * KIB); /* no address has both */
    assert_int_equal(weir_ranges_place(&ranges, range, 64 * KIB, 4 * KIB), 9 * MIB + 64 * KIB);
    assert_int_equal(weir_ranges_take_at(&ranges, range, 9 * MIB + 36 * KIB, 1000, &out), WEIR_OK);
    assert_int_equal(out.address, 9 * MIB + 36 * KIB);
    assert_int_equal(out.size, 1024);
    range = weir_ranges_next(&ranges, out.token);
    assert_int_equal(range->address, 9 * MIB + 37 * KIB);
    assert_int_equal(weir_ranges_place(&ranges, range, 1, 64 * KIB), 9 * MIB + 68 * KIB);
    empty(&ranges);
}

/* A run of 63 of a region's 64 KiB, in two lanes, holds the region's upper half and not all of it. */
TEST(test_a_gathered_run_holds_the_place)
{
    weir_ranges ranges = {{0}};
    weir_range head;
    weir_range tail;
    void *region;
    for (weir_lane lane = 0; lane < 3; lane++) {
        assert_int_equal(weir_ranges_lane_add(&ranges, lane), WEIR_OK);
    }
    assert_int_equal(weir_ranges_region_add(&ranges, 0, 8 * MIB + 512, 64 * KIB, 2, 0, &region), WEIR_OK);
    weir_record *whole = weir_ranges_find(&ranges, 0, 2, WEIR_TICK_MAX, 64 * KIB, 1, 0);
    assert_int_equal(weir_ranges_take_at(&ranges, whole, 8 * MIB + 512, 1 * KIB, &head), WEIR_OK);
    weir_record *rest = weir_ranges_next(&ranges, head.token);
    assert_int_equal(weir_ranges_take_at(&ranges, rest, 8 * MIB + 512 + 40 * KIB, 24 * KIB, &tail), WEIR_OK);
    const weir_tick limits[] = {WEIR_TICK_MAX, 0, WEIR_TICK_MAX};
    assert_false(weir_ranges_gather(&ranges, 0, 2, 0, limits, 3, 32 * KIB, 1, 32 * KIB, true)); /* 39 from 1 on */
    weir_ranges_free(&ranges, tail.token, 0, 0); /* 39 KiB in lane 2, 24 KiB in the open lane */
    assert_false(weir_ranges_gather(&ranges, 0, 2, 0, limits, 3, 64 * KIB, 1, 64 * KIB, true));
    assert_true(weir_ranges_gather(&ranges, 0, 2, 0, limits, 3, 32 * KIB, 1, 32 * KIB, false));
    weir_ranges_free(&ranges, head.token, 0, 0);
    assert_true(weir_ranges_gather(&ranges, 0, 2, 0, limits, 3, 64 * KIB, 1, 64 * KIB, false));
    assert_int_equal(weir_ranges_find(&ranges, 0, 2, WEIR_TICK_MAX, 64 * KIB, 1, 0)->address, 8 * MIB + 512);
    empty(&ranges);
}

/* A lane's fifth free range puts them into bins: they come as before, the one freed last first. */
TEST(test_ranges_keep_their_order_when_they_become_many)
{
    enum { count = 4 };
    weir_ranges ranges;
    fill(&ranges);
    weir_range holes[count];
    for (size_t i = 0; i < count; i++) {
        holes[i] = taken(&ranges, 0, KIB, 1, WEIR_RANGES_LOW);
        (void)taken(&ranges, 0, KIB, 1, WEIR_RANGES_LOW);
    }
    for (size_t i = 0; i < count; i++) {
        weir_ranges_free(&ranges, holes[i].token, 1, 0);
        assert_int_equal(found(&ranges, 0, KIB)->address, holes[i].address);
    }
    for (size_t i = count; i-- > 0;) {
        assert_int_equal(taken(&ranges, 0, KIB, 1, WEIR_RANGES_LOW).address, holes[i].address);
    }
    empty(&ranges);
}

struct falling {
    size_t count;
    uint64_t size;
};

static bool is_next_smaller(void *ctx, const weir_range_info *range)
{
    struct falling *seen = ctx;
    assert_true(range->size <= seen->size);
    *seen = (struct falling){seen->count + 1, range->size};
    return true;
}

TEST(test_large_ranges_come_first)
{
    static const uint64_t sizes[] = {4 * KIB, 64 * KIB, KIB, 16 * KIB, 2 * KIB};
    for (size_t count = 1; count <= sizeof(sizes) / sizeof(sizes[0]); count++) {
        weir_ranges ranges;
        fill(&ranges);
        (void)taken(&ranges, 1, MIB, 1, WEIR_RANGES_LOW);
        void *holes[sizeof(sizes) / sizeof(sizes[0])];
        for (size_t i = 0; i < count; i++) {
            holes[i] = taken(&ranges, 0, sizes[i], 1, WEIR_RANGES_LOW).token;
            (void)taken(&ranges, 0, KIB, 1, WEIR_RANGES_LOW);
        }
        for (size_t i = 0; i < count; i++) {
            weir_ranges_free(&ranges, holes[i], 1, 0);
        }
        struct falling all = {0, UINT64_MAX};
        weir_ranges_walk_large(&ranges, 0, is_next_smaller, &all);
        assert_int_equal(all.count, count + 1); /* and the rest of the region */
        empty(&ranges);
    }
}
