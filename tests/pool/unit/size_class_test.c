/* size_class_test.c: promises of size_class beyond the contract: the classes, slabs that are reused and given back,
 * slots in other lanes, slots as a last resort. check runs after every call. */
#include <weir/size_class.h>
#define STRATEGY weir_size_class_strategy
#include "rig/strategy.h"

#include <weir/caching.h>

/* --- classes --- */

/* The rule of the classes, written in another way than in size_class.c: up to 16 granules every size is a class, above
 * that classes rise by an eighth of the power of two below. */
static uint64_t smallest_class_above(uint64_t granules)
{
    uint64_t class = 1;
    uint64_t doubling = 1;
    while (class < granules) {
        doubling = 2 * doubling <= class ? 2 * doubling : doubling;
        class += doubling < 8 ? 1 : doubling / 8;
    }
    return class;
}

/* Tests every size up to the largest class with slabs, and then larger ones up to the end of small requests, which get
 * ranges of their own without waste. */
TEST(every_size_has_its_class)
{
    uint64_t worst = 0;
    for (uint64_t granules = 1; granules <= 512 * KIB / GRANULE; granules++) {
        void *region = add_region(REGION, 1);
        const uint64_t class = smallest_class_above(granules);
        const uint64_t expected = class * GRANULE <= REGION / 8 ? class : granules;
        for (uint64_t less = 0; less < GRANULE; less += GRANULE - 1) {
            weir_range range = must_take(1, granules * GRANULE - less);
            assert_int_equal(range.size, expected * GRANULE);
            give(&range, 1, 0);
        }
        const uint64_t waste = expected - granules;
        assert_true(granules <= 16 ? waste == 0 : 8 * waste < granules && 9 * waste < expected);
        worst = waste * 10000 / granules > worst ? waste * 10000 / granules : worst;
        assert_int_equal(remove_region(region, 0), WEIR_OK);
    }
    assert_true(worst > 1100); /* proves that the sizes of this test come close to the bound */
}

/* A class holds several sizes: a reused slot is never smaller than the request, whichever size it was made for. */
TEST(a_class_is_not_a_size)
{
    for (uint64_t granules = 17; granules <= 512; granules += 1 + granules / 30) {
        void *region = add_region(REGION, 1);
        weir_range small = must_take(1, granules * GRANULE);
        give(&small, 1, 0);
        for (uint64_t more = 1; more <= granules / 3; more += 1 + granules / 40) {
            weir_range range = must_take(1, (granules + more) * GRANULE);
            assert_true(range.size >= (granules + more) * GRANULE);
            give(&range, 1, 0);
        }
        assert_int_equal(remove_region(region, 0), WEIR_OK);
    }
}

/* For every number of slots around the largest number in a slab: all slots of a region are handed out, twice. */
TEST(slabs_fill_and_refill)
{
    static weir_range taken[200];
    const weir_size_class_config config = {.struct_size = sizeof(config), .slab_region_bytes = 128 * KIB};
    for (uint64_t slots = 1; slots <= 132; slots += slots < 10 || slots > 60 ? 1 : 9) {
        for (uint64_t granules = 1; granules <= 3; granules++) {
            renew(&config);
            void *region = add_region(slots * granules * GRANULE, 1);
            for (int round = 0; round < 2; round++) {
                for (uint64_t i = 0; i < slots; i++) {
                    taken[i] = must_take(1, granules * GRANULE);
                }
                assert_int_equal(take(1, GRANULE, NULL), 0);
                for (uint64_t i = 0; i < slots; i++) {
                    give(&taken[round == 0 ? i : slots - 1 - i], 1, 0);
                }
            }
            assert_int_equal(remove_region(region, 0), WEIR_OK);
        }
    }
}

/* --- slabs --- */

/* A size of 8 KiB, which has slabs of eight slots by default. */
TEST(an_empty_slab_is_kept_and_others_go_back)
{
    add_region(REGION, 1);
    weir_range taken[32];
    for (size_t i = 0; i < 32; i++) {
        taken[i] = must_take(1, 8 * KIB);
        assert_int_equal(taken[i].address, BASE + i * 8 * KIB);
    }
    assert_int_equal(stats_of(1).ranges, 1);
    give_each(taken, 32, 1, 0);
    /* Eight slots, and the free ranges on both sides of them. */
    weir_lane_stats stats = stats_of(1);
    assert_true(stats.ranges == 9 || stats.ranges == 10);
    assert_int_equal(stats.bytes, REGION);
    assert_true(stats.largest_bytes < REGION);
    /* The strategy neither creates nor gives back a slab while the only live block is allocated and freed again. */
    weir_range again = must_take(1, 8 * KIB);
    assert_true(stats_of(1).ranges == stats.ranges - 1);
    give(&again, 1, 0);
    assert_true(stats_of(1).ranges == stats.ranges);
    /* The kept slab does not keep other sizes out: the last request needs the place of the slab. */
    for (uint64_t i = 0; i < 5; i++) {
        must_take(1, i < 3 ? 512 * KIB : 256 * KIB);
    }
    assert_int_equal(stats_of(1).bytes, 0);
}

TEST(regions_of_empty_slabs_can_be_removed)
{
    void *region = add_region(REGION, 1);
    weir_range taken[3];
    for (size_t i = 0; i < 3; i++) {
        taken[i] = must_take(1, (i + 1) * 20 * KIB);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(remove_region(region, WEIR_TICK_MAX), WEIR_ERR_BUSY);
        give(&taken[i], 1 + (weir_lane)i, 10 + i);
    }
    assert_int_equal(remove_region(region, 11), WEIR_ERR_BUSY);
    assert_int_equal(remove_region(region, 12), WEIR_OK);
    assert_int_equal(stats_of(1).bytes, 0);
}

/* A slab that has just been full is filled again before one that may become empty. */
TEST(fuller_slabs_are_used_first)
{
    add_region(REGION, 1);
    weir_range taken[16];
    take_each(1, 8 * KIB, taken, 16);
    give_each(taken, 7, 1, 0);
    give(&taken[12], 1, 0);
    assert_int_equal(must_take(1, 8 * KIB).address, taken[12].address);
    give(&taken[7], 1, 0);
    assert_int_equal(must_take(1, 8 * KIB).address, taken[0].address);
}

/* --- lanes and ticks --- */

/* Each slot keeps the lane and the tick of its own free, whichever lane created the slab. */
TEST(slots_keep_their_lane_and_tick)
{
    add_region(64 * KIB, 1);
    weir_range taken[8];
    take_each(1, 8 * KIB, taken, 8);
    give(&taken[0], 1, 100);
    give(&taken[1], 2, 20);
    give(&taken[2], 3, 7);
    give(&taken[3], 2, 30);
    assert_int_equal(take_at(2, 19, 8 * KIB, 1, NULL), 0);
    assert_int_equal(take(4, 8 * KIB, NULL), 0);
    assert_int_equal(take(WEIR_LANE_OPEN, 8 * KIB, NULL), 0);
    assert_int_equal(take_at(2, 20, 8 * KIB, 1, NULL), taken[1].address);
    assert_int_equal(promote(2, 29), 0);
    assert_int_equal(promote(3, 7), 8 * KIB);
    assert_int_equal(take(3, 8 * KIB, NULL), 0);
    assert_int_equal(take_at(WEIR_LANE_OPEN, 0, 8 * KIB, 1, NULL), taken[2].address);
    assert_int_equal(promote(2, 30), 8 * KIB);
    assert_int_equal(stats_of(1).bytes, 8 * KIB);
}

/* Slots merge when their slab is given back: the whole range waits for the slot that was freed last. */
TEST(a_slab_given_back_keeps_the_latest_tick)
{
    for (size_t late = 0; late < 8; late++) {
        renew(NULL);
        add_region(128 * KIB, 1);
        weir_range taken[16];
        take_each(1, 8 * KIB, taken, 16);
        for (size_t i = 0; i < 8; i++) {
            give(&taken[i], 2, i == late ? 50 : 5);
        }
        give_each(&taken[8], 8, 2, 60);
        /* No memory of the first slab, which was given back, is available before tick 50. */
        assert_int_equal(take_at(2, 49, GRANULE, 1, NULL), 0);
        assert_int_equal(promote(2, 49), 0);
        assert_int_equal(take_at(2, 50, 64 * KIB, 1, NULL), BASE);
    }
}

/* The strategy keeps one empty slab while its slots are promoted, and promote opens each slot at the slot's own
 * tick. */
TEST(promote_moves_slot_by_slot)
{
    add_region(128 * KIB, 1);
    weir_range taken[16];
    take_each(1, 8 * KIB, taken, 16);
    give_each(&taken[8], 8, WEIR_LANE_OPEN, 0);
    for (size_t i = 0; i < 8; i++) {
        give(&taken[i], 2, 10 * (i + 1));
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(promote(2, 10 * i + 9), 0);
        assert_int_equal(promote(2, 10 * i + 10), 8 * KIB);
    }
}

/* The lanes are added after the slabs: free must not need host memory for any of them. */
TEST(slots_of_one_slab_in_many_lanes)
{
    add_region(REGION, 1);
    weir_range taken[64];
    take_each(1, KIB, taken, 64);
    for (weir_lane lane = lanes; lane < 100; lane++) {
        assert_int_equal(rig.ops->lane_add(rig.state, lane), WEIR_OK);
        check();
    }
    for (size_t i = 0; i < 64; i++) {
        give(&taken[i], (weir_lane)(i + 30), i);
        assert_int_equal(stats_of((weir_lane)(i + 30)).largest_bytes, KIB);
    }
    for (weir_lane lane = 30; lane < 94; lane++) {
        assert_int_equal(promote(lane, WEIR_TICK_MAX), KIB);
    }
    assert_int_equal(stats_of(WEIR_LANE_OPEN).bytes, 64 * KIB);
}

/* --- gather --- */

/* Four adjacent free slots in a slab that is in use serve a larger request if no other memory can; the slab stays
 * usable with its other slots. */
TEST(slots_serve_others_as_a_last_resort)
{
    void *region = add_region(64 * KIB, 1);
    weir_range taken[8];
    take_each(1, 8 * KIB, taken, 8);
    for (size_t i = 2; i < 6; i++) {
        give(&taken[i], 1 + (weir_lane)(i % 2), 10 * i);
    }
    weir_tick limits[lanes] = {WEIR_TICK_MAX, 40, 49, 0, 0, 0};
    assert_int_equal(take(3, 32 * KIB, NULL), 0);
    assert_false(gather(3, 5, limits, 32 * KIB, false));
    assert_false(gather(3, 5, limits, 32 * KIB, true));
    limits[2] = 50;
    assert_false(gather(3, 5, limits, 32 * KIB, false));
    assert_true(gather(3, 5, limits, 32 * KIB, true));
    weir_range large;
    assert_int_equal(take(3, 32 * KIB, &large), taken[2].address);
    give(&taken[1], 1, 60);
    give(&taken[6], 1, 60);
    assert_int_equal(must_take(1, 8 * KIB).address, taken[1].address);
    assert_int_equal(must_take(1, 8 * KIB).address, taken[6].address);
    give(&taken[0], 1, 70);
    give(&taken[1], 1, 70);
    give(&taken[6], 1, 70);
    give(&taken[7], 1, 70);
    give(&large, 1, 80);
    assert_int_equal(remove_region(region, 79), WEIR_ERR_BUSY);
    assert_int_equal(remove_region(region, 80), WEIR_OK);
}

/* An unused slab is gathered at once, also from several lanes. */
TEST(an_unused_slab_is_gathered)
{
    add_region(64 * KIB, 1);
    weir_range taken[8];
    take_each(1, 8 * KIB, taken, 8);
    for (size_t i = 0; i < 8; i++) {
        give(&taken[i], 1 + (weir_lane)(i % 3), 10);
    }
    weir_tick limits[lanes] = {WEIR_TICK_MAX, 10, 10, 9, 0, 0};
    assert_false(gather(4, 5, limits, 64 * KIB, false));
    limits[3] = 10;
    assert_true(gather(4, 5, limits, 64 * KIB, false));
    assert_int_equal(take(4, 64 * KIB, NULL), BASE);
}

/* --- alignment and config --- */

TEST(aligned_requests_use_slots_that_are)
{
    rig.next_address += GRANULE;
    add_region(REGION, 1);
    weir_range taken[8];
    for (size_t i = 0; i < 8; i++) {
        assert_true(take_at(1, WEIR_TICK_MAX, 8 * KIB, 4 * KIB, &taken[i]) != 0);
        assert_int_equal(taken[i].address, BASE + 4 * KIB + i * 8 * KIB);
    }
    /* 12 KiB is no multiple of 8 KiB: a range of its own, without waste. */
    weir_range range;
    assert_true(take_at(1, WEIR_TICK_MAX, 11 * KIB + GRANULE, 8 * KIB, &range) != 0);
    assert_int_equal(range.size, 11 * KIB + GRANULE);
    give(&taken[3], 1, 0);
    assert_int_equal(take_at(1, WEIR_TICK_MAX, 8 * KIB, 4 * KIB, NULL), taken[3].address);
}

TEST(configs)
{
    weir_size_class_config config = {.struct_size = 0};
    assert_int_equal(try_config(rig.ops, &config), WEIR_ERR_INVALID);

    /* With the smallest size of slab regions there are no slabs: every request is a range of its own size. */
    config = (weir_size_class_config){.struct_size = sizeof(config), .slab_region_bytes = GRANULE};
    renew(&config);
    add_region(REGION, 1);
    assert_int_equal(must_take(1, 17 * GRANULE).size, 17 * GRANULE);

    /* With a very large size of slab regions the table of classes ends before slabs do. */
    config = (weir_size_class_config){
        .struct_size = sizeof(config), .small_bytes = UINT64_MAX, .slab_region_bytes = UINT64_C(1) << 44};
    renew(&config);
    add_region(UINT64_C(1) << 44, 1);
    for (unsigned shift = 9; shift < 43; shift++) {
        weir_range range = must_take(1, (UINT64_C(1) << shift) + 1);
        assert_true(range.size - ((UINT64_C(1) << shift) + 1) <= (UINT64_C(1) << shift) / 8 + GRANULE);
        give(&range, 1, 0);
    }
}

/* --- large requests --- */

enum { large_steps = 3000 };

/* Plays a random program of large requests, some of them aligned, in four regions, and notes each result. */
static void play_large(const weir_strategy_ops *ops, const void *config, weir_range *served)
{
    weir_range live[24] = {{.token = NULL}};
    uint64_t random = 1;
    stop_rig();
    rig.ops = ops;
    start_rig(config);
    for (int i = 0; i < 4; i++) {
        (void)add_region_for(4 * MIB, 4 * MIB << i, 1);
    }
    for (int step = 0; step < large_steps; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        weir_range *range = &live[(random >> 33) % 24];
        for (int i = 0; i < 24; i++) {
            if (live[i].token != NULL && (range == &live[i] || step % 50 == 0)) { /* from time to time all are freed */
                give(&live[i], 1, 0);
                live[i] = (weir_range){.token = NULL};
            }
        }
        const uint64_t size = 512 * KIB + (1 + (random >> 40) % 40) * 200 * KIB;
        if (take_at(1, WEIR_TICK_MAX, size, (random >> 50) % 8 == 0 ? MIB : 1, range) == 0) {
            *range = (weir_range){.token = NULL};
        }
        served[step] = *range;
    }
}

/* The same ranges as by caching, from the same end, and the same regions are shown to the pool as idle ones to keep. */
TEST(large_requests_are_served_as_by_caching)
{
    static weir_range served[2][large_steps];
    const weir_caching_config config = {.struct_size = sizeof(config), .small_bytes = 512 * KIB};
    unsigned refused = 0;
    unsigned whole = 0;
    play_large(weir_caching_strategy(), &config, served[0]);
    play_large(weir_size_class_strategy(), NULL, served[1]);
    for (int step = 0; step < large_steps; step++) {
        assert_int_equal(served[1][step].address, served[0][step].address);
        assert_int_equal(served[1][step].idle_bytes, served[0][step].idle_bytes);
        refused += served[0][step].address == 0;
        whole += served[0][step].idle_bytes != 0;
    }
    assert_true(refused > 10 && refused < large_steps / 2 && whole > 10);
}
