/* size_class_test.c: promises of size_class beyond the contract: the classes, slabs that are reused and given back,
 * slots in other lanes, slots as a last resort. check runs after every call. */
#include <weir/size_class.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define GRANULE UINT64_C(512)
#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define REGION (2 * MIB)
#define BASE (UINT64_C(1) << 40)

enum { lanes = 6 };

struct rig {
    const weir_strategy_ops *ops;
    void *state;
    uint64_t next_address;
};

static void check(const struct rig *rig)
{
    const char *why = "?";
    if (rig->ops->check(rig->state, &why) != WEIR_OK) {
        print_error("check: %s\n", why);
        fail();
    }
}

static void start(struct rig *rig, const weir_size_class_config *config)
{
    rig->ops = weir_size_class_strategy();
    rig->next_address = BASE;
    rig->state = calloc(1, rig->ops->state_size(config));
    assert_non_null(rig->state);
    assert_int_equal(rig->ops->init(rig->state, config), WEIR_OK);
    for (weir_lane lane = 0; lane < lanes; lane++) {
        assert_int_equal(rig->ops->lane_add(rig->state, lane), WEIR_OK);
    }
}

static void stop(struct rig *rig)
{
    rig->ops->fini(rig->state);
    free(rig->state);
}

static void *add_region(struct rig *rig, uint64_t size, weir_lane lane)
{
    void *region = NULL;
    assert_int_equal(rig->ops->region_add(rig->state, rig->next_address, size, 1, lane, 0, &region), WEIR_OK);
    rig->next_address += size;
    check(rig);
    return region;
}

/* Returns the address, or 0 for a refusal. */
static uint64_t take(struct rig *rig, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    weir_range own;
    range = range != NULL ? range : &own;
    weir_status status = rig->ops->alloc(rig->state, lane, limit, size, align, range);
    check(rig);
    if (status != WEIR_OK) {
        assert_int_equal(status, WEIR_ERR_NO_MEMORY);
        return 0;
    }
    assert_true(range->size >= size && range->address % align == 0);
    return range->address;
}

static weir_range must_take(struct rig *rig, weir_lane lane, uint64_t size)
{
    weir_range range;
    assert_true(take(rig, lane, WEIR_TICK_MAX, size, 1, &range) != 0);
    return range;
}

static void give(struct rig *rig, const weir_range *range, weir_lane lane, weir_tick tick)
{
    rig->ops->free(rig->state, range->token, lane, tick);
    check(rig);
}

static weir_lane_stats stats_of(const struct rig *rig, weir_lane lane)
{
    weir_lane_stats stats = WEIR_LANE_STATS_INIT;
    rig->ops->lane_stats(rig->state, lane, &stats);
    return stats;
}

static weir_status remove_region(struct rig *rig, void *region, weir_tick limit)
{
    weir_tick limits[lanes];
    for (size_t i = 0; i < lanes; i++) {
        limits[i] = i == 0 ? WEIR_TICK_MAX : limit;
    }
    weir_status status = rig->ops->region_remove(rig->state, region, limits, lanes);
    check(rig);
    return status;
}

/* --- classes --- */

/* The rule, written in another way: up to 16 granules every size, then eighths of the doubling below. */
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

/* Every size up to the largest with slabs, and on to the end of small requests, which waste nothing. */
static void every_size_has_its_class(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    uint64_t worst = 0;
    for (uint64_t granules = 1; granules <= 512 * KIB / GRANULE; granules++) {
        void *region = add_region(&rig, REGION, 1);
        const uint64_t class = smallest_class_above(granules);
        const uint64_t expected = class * GRANULE <= REGION / 8 ? class : granules;
        for (uint64_t less = 0; less < GRANULE; less += GRANULE - 1) {
            weir_range range = must_take(&rig, 1, granules * GRANULE - less);
            assert_int_equal(range.size, expected * GRANULE);
            give(&rig, &range, 1, 0);
        }
        const uint64_t waste = expected - granules;
        assert_true(granules <= 16 ? waste == 0 : 8 * waste < granules && 9 * waste < expected);
        worst = waste * 10000 / granules > worst ? waste * 10000 / granules : worst;
        assert_int_equal(remove_region(&rig, region, 0), WEIR_OK);
    }
    assert_true(worst > 1100); /* so the bound is not met merely by exact sizes */
    stop(&rig);
}

/* A class holds several sizes: a reused slot is never smaller than the request, whichever size it was made for. */
static void a_class_is_not_a_size(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    for (uint64_t granules = 17; granules <= 512; granules += 1 + granules / 30) {
        void *region = add_region(&rig, REGION, 1);
        weir_range small = must_take(&rig, 1, granules * GRANULE);
        give(&rig, &small, 1, 0);
        for (uint64_t more = 1; more <= granules / 3; more += 1 + granules / 40) {
            weir_range range = must_take(&rig, 1, (granules + more) * GRANULE);
            assert_true(range.size >= (granules + more) * GRANULE);
            give(&rig, &range, 1, 0);
        }
        assert_int_equal(remove_region(&rig, region, 0), WEIR_OK);
    }
    stop(&rig);
}

/* Regions of every number of slots around the most that a slab has: all are handed out, twice. */
static void slabs_fill_and_refill(void **state)
{
    (void)state;
    static weir_range taken[200];
    const weir_size_class_config config = {.struct_size = sizeof(config), .slab_region_bytes = 128 * KIB};
    for (uint64_t slots = 1; slots <= 132; slots += slots < 10 || slots > 60 ? 1 : 9) {
        for (uint64_t granules = 1; granules <= 3; granules++) {
            struct rig rig;
            start(&rig, &config);
            void *region = add_region(&rig, slots * granules * GRANULE, 1);
            for (int round = 0; round < 2; round++) {
                for (uint64_t i = 0; i < slots; i++) {
                    taken[i] = must_take(&rig, 1, granules * GRANULE);
                }
                assert_int_equal(take(&rig, 1, WEIR_TICK_MAX, GRANULE, 1, NULL), 0);
                for (uint64_t i = 0; i < slots; i++) {
                    give(&rig, &taken[round == 0 ? i : slots - 1 - i], 1, 0);
                }
            }
            assert_int_equal(remove_region(&rig, region, 0), WEIR_OK);
            stop(&rig);
        }
    }
}

/* --- slabs --- */

/* 8 KiB: slabs of eight slots by default. */
static void an_empty_slab_is_kept_and_others_go_back(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_region(&rig, REGION, 1);
    weir_range taken[32];
    for (size_t i = 0; i < 32; i++) {
        taken[i] = must_take(&rig, 1, 8 * KIB);
        assert_int_equal(taken[i].address, BASE + i * 8 * KIB);
    }
    assert_int_equal(stats_of(&rig, 1).ranges, 1);
    for (size_t i = 0; i < 32; i++) {
        give(&rig, &taken[i], 1, 0);
    }
    /* Eight slots, and the free ranges on both sides of them. */
    weir_lane_stats stats = stats_of(&rig, 1);
    assert_true(stats.ranges == 9 || stats.ranges == 10);
    assert_int_equal(stats.bytes, REGION);
    assert_true(stats.largest_bytes < REGION);
    /* The slab is neither created nor given back while requests alternate at the border. */
    weir_range again = must_take(&rig, 1, 8 * KIB);
    assert_true(stats_of(&rig, 1).ranges == stats.ranges - 1);
    give(&rig, &again, 1, 0);
    assert_true(stats_of(&rig, 1).ranges == stats.ranges);
    /* The kept slab does not block other sizes: the last request needs its place. */
    for (uint64_t i = 0; i < 5; i++) {
        must_take(&rig, 1, i < 3 ? 512 * KIB : 256 * KIB);
    }
    assert_int_equal(stats_of(&rig, 1).bytes, 0);
    stop(&rig);
}

static void regions_of_empty_slabs_can_be_removed(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    void *region = add_region(&rig, REGION, 1);
    weir_range taken[3];
    for (size_t i = 0; i < 3; i++) {
        taken[i] = must_take(&rig, 1, (i + 1) * 20 * KIB);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(remove_region(&rig, region, WEIR_TICK_MAX), WEIR_ERR_BUSY);
        give(&rig, &taken[i], 1 + (weir_lane)i, 10 + i);
    }
    assert_int_equal(remove_region(&rig, region, 11), WEIR_ERR_BUSY);
    assert_int_equal(remove_region(&rig, region, 12), WEIR_OK);
    assert_int_equal(stats_of(&rig, 1).bytes, 0);
    stop(&rig);
}

/* A slab that has just been full is filled again before one that may become empty. */
static void fuller_slabs_are_used_first(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_region(&rig, REGION, 1);
    weir_range taken[16];
    for (size_t i = 0; i < 16; i++) {
        taken[i] = must_take(&rig, 1, 8 * KIB);
    }
    for (size_t i = 0; i < 7; i++) {
        give(&rig, &taken[i], 1, 0);
    }
    give(&rig, &taken[12], 1, 0);
    assert_int_equal(must_take(&rig, 1, 8 * KIB).address, taken[12].address);
    give(&rig, &taken[7], 1, 0);
    assert_int_equal(must_take(&rig, 1, 8 * KIB).address, taken[0].address);
    stop(&rig);
}

/* --- lanes and ticks --- */

/* Each slot keeps the lane and the tick of its own free, whichever lane created the slab. */
static void slots_keep_their_lane_and_tick(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_region(&rig, 64 * KIB, 1);
    weir_range taken[8];
    for (size_t i = 0; i < 8; i++) {
        taken[i] = must_take(&rig, 1, 8 * KIB);
    }
    give(&rig, &taken[0], 1, 100);
    give(&rig, &taken[1], 2, 20);
    give(&rig, &taken[2], 3, 7);
    give(&rig, &taken[3], 2, 30);
    assert_int_equal(take(&rig, 2, 19, 8 * KIB, 1, NULL), 0);
    assert_int_equal(take(&rig, 4, WEIR_TICK_MAX, 8 * KIB, 1, NULL), 0);
    assert_int_equal(take(&rig, WEIR_LANE_OPEN, WEIR_TICK_MAX, 8 * KIB, 1, NULL), 0);
    assert_int_equal(take(&rig, 2, 20, 8 * KIB, 1, NULL), taken[1].address);
    assert_int_equal(rig.ops->promote(rig.state, 2, 29), 0);
    assert_int_equal(rig.ops->promote(rig.state, 3, 7), 8 * KIB);
    check(&rig);
    assert_int_equal(take(&rig, 3, WEIR_TICK_MAX, 8 * KIB, 1, NULL), 0);
    assert_int_equal(take(&rig, WEIR_LANE_OPEN, 0, 8 * KIB, 1, NULL), taken[2].address);
    assert_int_equal(rig.ops->promote(rig.state, 2, 30), 8 * KIB);
    assert_int_equal(stats_of(&rig, 1).bytes, 8 * KIB);
    stop(&rig);
}

/* Slots join when their slab is given back: the whole range waits for the last of them. */
static void a_slab_given_back_keeps_the_latest_tick(void **state)
{
    (void)state;
    for (size_t late = 0; late < 8; late++) {
        struct rig rig;
        start(&rig, NULL);
        add_region(&rig, 128 * KIB, 1);
        weir_range taken[16];
        for (size_t i = 0; i < 16; i++) {
            taken[i] = must_take(&rig, 1, 8 * KIB);
        }
        for (size_t i = 0; i < 8; i++) {
            give(&rig, &taken[i], 2, i == late ? 50 : 5);
        }
        for (size_t i = 8; i < 16; i++) {
            give(&rig, &taken[i], 2, 60);
        }
        /* No memory of the first slab, which was given back, is available before tick 50. */
        assert_int_equal(take(&rig, 2, 49, GRANULE, 1, NULL), 0);
        assert_int_equal(rig.ops->promote(rig.state, 2, 49), 0);
        assert_int_equal(take(&rig, 2, 50, 64 * KIB, 1, NULL), BASE);
        stop(&rig);
    }
}

/* The slab that is kept while a lane is promoted does not hold its own slots back. */
static void promote_moves_slot_by_slot(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_region(&rig, 128 * KIB, 1);
    weir_range taken[16];
    for (size_t i = 0; i < 16; i++) {
        taken[i] = must_take(&rig, 1, 8 * KIB);
    }
    for (size_t i = 8; i < 16; i++) {
        give(&rig, &taken[i], WEIR_LANE_OPEN, 0);
    }
    for (size_t i = 0; i < 8; i++) {
        give(&rig, &taken[i], 2, 10 * (i + 1));
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(rig.ops->promote(rig.state, 2, 10 * i + 9), 0);
        assert_int_equal(rig.ops->promote(rig.state, 2, 10 * i + 10), 8 * KIB);
        check(&rig);
    }
    stop(&rig);
}

/* The lanes are added after the slabs: free must not need host memory for any of them. */
static void slots_of_one_slab_in_many_lanes(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_region(&rig, REGION, 1);
    weir_range taken[64];
    for (size_t i = 0; i < 64; i++) {
        taken[i] = must_take(&rig, 1, KIB);
    }
    for (weir_lane lane = lanes; lane < 100; lane++) {
        assert_int_equal(rig.ops->lane_add(rig.state, lane), WEIR_OK);
        check(&rig);
    }
    for (size_t i = 0; i < 64; i++) {
        give(&rig, &taken[i], (weir_lane)(i + 30), i);
        assert_int_equal(stats_of(&rig, (weir_lane)(i + 30)).largest_bytes, KIB);
    }
    for (weir_lane lane = 30; lane < 94; lane++) {
        assert_int_equal(rig.ops->promote(rig.state, lane, WEIR_TICK_MAX), KIB);
        check(&rig);
    }
    assert_int_equal(stats_of(&rig, WEIR_LANE_OPEN).bytes, 64 * KIB);
    stop(&rig);
}

/* --- gather --- */

/* Four adjacent free slots in a slab that is in use serve a larger request if no other memory can; the slab stays
 * usable with its other slots. */
static void slots_serve_others_as_a_last_resort(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    void *region = add_region(&rig, 64 * KIB, 1);
    weir_range taken[8];
    for (size_t i = 0; i < 8; i++) {
        taken[i] = must_take(&rig, 1, 8 * KIB);
    }
    for (size_t i = 2; i < 6; i++) {
        give(&rig, &taken[i], 1 + (weir_lane)(i % 2), 10 * i);
    }
    weir_tick limits[lanes] = {WEIR_TICK_MAX, 40, 49, 0, 0, 0};
    assert_int_equal(take(&rig, 3, WEIR_TICK_MAX, 32 * KIB, 1, NULL), 0);
    assert_false(rig.ops->gather(rig.state, 3, 5, limits, lanes, 32 * KIB, 1, false));
    assert_false(rig.ops->gather(rig.state, 3, 5, limits, lanes, 32 * KIB, 1, true));
    limits[2] = 50;
    assert_false(rig.ops->gather(rig.state, 3, 5, limits, lanes, 32 * KIB, 1, false));
    assert_true(rig.ops->gather(rig.state, 3, 5, limits, lanes, 32 * KIB, 1, true));
    check(&rig);
    weir_range large;
    assert_int_equal(take(&rig, 3, WEIR_TICK_MAX, 32 * KIB, 1, &large), taken[2].address);
    give(&rig, &taken[1], 1, 60);
    give(&rig, &taken[6], 1, 60);
    assert_int_equal(must_take(&rig, 1, 8 * KIB).address, taken[1].address);
    assert_int_equal(must_take(&rig, 1, 8 * KIB).address, taken[6].address);
    give(&rig, &taken[0], 1, 70);
    give(&rig, &taken[1], 1, 70);
    give(&rig, &taken[6], 1, 70);
    give(&rig, &taken[7], 1, 70);
    give(&rig, &large, 1, 80);
    assert_int_equal(remove_region(&rig, region, 79), WEIR_ERR_BUSY);
    assert_int_equal(remove_region(&rig, region, 80), WEIR_OK);
    stop(&rig);
}

/* An unused slab is gathered at once, also from several lanes. */
static void an_unused_slab_is_gathered(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    add_region(&rig, 64 * KIB, 1);
    weir_range taken[8];
    for (size_t i = 0; i < 8; i++) {
        taken[i] = must_take(&rig, 1, 8 * KIB);
    }
    for (size_t i = 0; i < 8; i++) {
        give(&rig, &taken[i], 1 + (weir_lane)(i % 3), 10);
    }
    weir_tick limits[lanes] = {WEIR_TICK_MAX, 10, 10, 9, 0, 0};
    assert_false(rig.ops->gather(rig.state, 4, 5, limits, lanes, 64 * KIB, 1, false));
    limits[3] = 10;
    assert_true(rig.ops->gather(rig.state, 4, 5, limits, lanes, 64 * KIB, 1, false));
    check(&rig);
    assert_int_equal(take(&rig, 4, WEIR_TICK_MAX, 64 * KIB, 1, NULL), BASE);
    stop(&rig);
}

/* --- alignment and config --- */

static void aligned_requests_use_slots_that_are(void **state)
{
    (void)state;
    struct rig rig;
    start(&rig, NULL);
    rig.next_address += GRANULE;
    add_region(&rig, REGION, 1);
    weir_range taken[8];
    for (size_t i = 0; i < 8; i++) {
        assert_true(take(&rig, 1, WEIR_TICK_MAX, 8 * KIB, 4 * KIB, &taken[i]) != 0);
        assert_int_equal(taken[i].address, BASE + 4 * KIB + i * 8 * KIB);
    }
    /* 12 KiB is no multiple of 8 KiB: a range of its own, without waste. */
    weir_range range;
    assert_true(take(&rig, 1, WEIR_TICK_MAX, 11 * KIB + GRANULE, 8 * KIB, &range) != 0);
    assert_int_equal(range.size, 11 * KIB + GRANULE);
    give(&rig, &taken[3], 1, 0);
    assert_int_equal(take(&rig, 1, WEIR_TICK_MAX, 8 * KIB, 4 * KIB, NULL), taken[3].address);
    stop(&rig);
}

static void configs(void **state)
{
    (void)state;
    const weir_strategy_ops *ops = weir_size_class_strategy();
    void *memory = calloc(1, ops->state_size(NULL));
    assert_non_null(memory);
    weir_size_class_config config = WEIR_SIZE_CLASS_CONFIG_INIT;
    config.struct_size = 0;
    assert_int_equal(ops->init(memory, &config), WEIR_ERR_INVALID);
    free(memory);

    /* A region for slabs so small that there are none: every request is a range of its own size. */
    config = (weir_size_class_config){.struct_size = sizeof(config), .slab_region_bytes = GRANULE};
    struct rig rig;
    start(&rig, &config);
    add_region(&rig, REGION, 1);
    assert_int_equal(must_take(&rig, 1, 17 * GRANULE).size, 17 * GRANULE);
    stop(&rig);

    /* The region is so large that the table of classes ends first. */
    config = (weir_size_class_config){
        .struct_size = sizeof(config), .small_bytes = UINT64_MAX, .slab_region_bytes = UINT64_C(1) << 44};
    start(&rig, &config);
    add_region(&rig, UINT64_C(1) << 44, 1);
    for (unsigned shift = 9; shift < 43; shift++) {
        weir_range range = must_take(&rig, 1, (UINT64_C(1) << shift) + 1);
        assert_true(range.size - ((UINT64_C(1) << shift) + 1) <= (UINT64_C(1) << shift) / 8 + GRANULE);
        give(&rig, &range, 1, 0);
    }
    stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_its_class),
        cmocka_unit_test(a_class_is_not_a_size),
        cmocka_unit_test(slabs_fill_and_refill),
        cmocka_unit_test(an_empty_slab_is_kept_and_others_go_back),
        cmocka_unit_test(regions_of_empty_slabs_can_be_removed),
        cmocka_unit_test(fuller_slabs_are_used_first),
        cmocka_unit_test(slots_keep_their_lane_and_tick),
        cmocka_unit_test(a_slab_given_back_keeps_the_latest_tick),
        cmocka_unit_test(promote_moves_slot_by_slot),
        cmocka_unit_test(slots_of_one_slab_in_many_lanes),
        cmocka_unit_test(slots_serve_others_as_a_last_resort),
        cmocka_unit_test(an_unused_slab_is_gathered),
        cmocka_unit_test(aligned_requests_use_slots_that_are),
        cmocka_unit_test(configs),
    };
    return cmocka_run_group_tests_name("size_class", tests, NULL, NULL);
}
