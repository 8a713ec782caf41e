/* strategy/lanes.h: cases of lanes and ticks. */
#ifndef WEIR_CONTRACT_STRATEGY_LANES_H
#define WEIR_CONTRACT_STRATEGY_LANES_H

#include "calls.h"

CASE(free_merges_in_every_order, ANY)
{
    static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t order = 0; order < 6; order++) {
        restart(rig);
        uint64_t granule = rig->ops->granule_bytes;
        add_region(rig, block_of(rig, 3 * granule), 3 * granule, 2, granule, 0);
        void *tokens[3] = {NULL};
        for (size_t i = 0; i < 3; i++) {
            tokens[i] = take(rig, 2, granule);
        }
        for (size_t i = 0; i < 3; i++) {
            rig->now[2] += 3;
            drop(rig, tokens[orders[order][i]], 2);
        }
        if (!tested->refuses_early) {
            assert_non_null(take(rig, 2, 3 * granule));
        }
    }
}

/* Two neighbours are freed at ticks 1 and 5, in both orders of address. The joined range is pending until tick 5. */
CASE(merging_keeps_the_later_tick, ANY)
{
    for (unsigned later = 0; later < 2; later++) {
        restart(rig);
        uint64_t granule = rig->ops->granule_bytes;
        size_t region = add_region(rig, 2 * granule, 2 * granule, 1, granule, 0);
        void *tokens[2];
        tokens[0] = take(rig, 1, granule);
        tokens[1] = take(rig, 1, granule);
        if (tokens[0] == NULL || tokens[1] == NULL) {
            skip_case(rig, "the strategy cannot serve the requests of this case");
        }
        rig->now[1] = 1;
        free_token(rig, tokens[1 - later], 1);
        rig->now[1] = 5;
        free_token(rig, tokens[later], 1);
        weir_tick limits[LANES];
        set_limits(limits, 4);
        assert_false(remove_region(rig, region, limits, LANES));
        assert_null(alloc(rig, 1, 4, 2 * granule, 1, NULL));
        assert_false(remove_region(rig, region, limits, 1));
        promote(rig, 1, 4);
        promote(rig, 1, 5);
        limits[1] = 5;
        assert_true(remove_region(rig, region, limits, LANES));
    }
}

/* If an alloc takes a part of a freed range, the rest keeps the lane and the tick of the range. */
CASE(rest_keeps_lane_and_tick, ANY)
{
    uint64_t granule = rig->ops->granule_bytes;
    size_t region = add_region(rig, 8 * granule, 8 * granule, 3, granule, 0);
    void *whole = take(rig, 3, 8 * granule);
    if (whole == NULL) {
        skip_case(rig, "the strategy cannot serve the requests of this case");
    }
    rig->now[3] = 40;
    free_token(rig, whole, 3);
    assert_null(alloc(rig, 3, 39, granule, 1, NULL));
    void *part = alloc(rig, 3, 40, 3 * granule, 1, NULL);
    rig->now[3] = 50;
    if (part == NULL) {
        part = take(rig, 3, 3 * granule);
    }
    assert_null(alloc(rig, 3, 39, granule, 1, NULL));
    promote(rig, 3, 39);
    assert_null(take(rig, WEIR_LANE_OPEN, granule));
    promote(rig, 3, 40);
    drop(rig, part, 3);
    weir_tick limits[LANES];
    set_limits(limits, 49);
    assert_int_equal(remove_region(rig, region, limits, LANES), part == NULL);
}

/* Four streams have one free lane each; then promote opens the lanes one by one. */
CASE(promote_opens_one_lane, ANY)
{
    uint64_t granule = rig->ops->granule_bytes;
    void *tokens[8] = {NULL};
    fill(rig, 1, tokens, 8);
    for (size_t i = 0; i < 8 && !private_lanes(rig); i++) {
        weir_lane lane = (weir_lane)(1 + i % 4);
        rig->now[lane] = 10 * i + 1;
        drop(rig, tokens[i], lane);
    }
    promote(rig, WEIR_LANE_OPEN, WEIR_TICK_MAX);
    promote(rig, 4, 35);
    promote(rig, 3, 0);
    promote(rig, 2, WEIR_TICK_MAX);
    promote(rig, 1, 40);
    promote(rig, 1, 41);
    promote(rig, 3, WEIR_TICK_MAX);
    promote(rig, 4, WEIR_TICK_MAX);
    if (!private_lanes(rig) && !tested->refuses_early && take(rig, WEIR_LANE_OPEN, 8 * granule) == NULL) {
        weir_tick limits[LANES];
        set_limits(limits, WEIR_TICK_MAX);
        assert_true(tested->sets_aside && gather(rig, WEIR_LANE_OPEN, limits, LANES, 8 * granule, 1));
    }
}

/* A range is freed with an earlier tick than the ranges that were freed before it. alloc finds this range and the other
 * ranges. */
CASE(ticks_may_go_down, SHARES_LANES)
{
    static const weir_tick ticks[] = {50, 10, 40, 20, 30, 10};
    enum { count = sizeof(ticks) / sizeof(ticks[0]) };
    void *tokens[2 * count];
    fill(rig, 1, tokens, 2 * count);
    rig->now[1] = 50;
    /* frees every other range, so that the free ranges do not join */
    for (size_t i = 0; i < count && tokens[2 * i] != NULL; i++) {
        free_token_at(rig, tokens[2 * i], 1, ticks[i]);
    }
    for (weir_tick limit = 5; limit <= 55; limit += 10) {
        promote(rig, 1, limit);
    }
}

/* Lane numbers may be high. */
CASE(lanes_have_high_numbers, SHARES_LANES)
{
    for (weir_lane lane = LANES; rig->ops->lane_add != NULL && lane <= HIGH_LANE; lane++) {
        assert_int_equal(rig->ops->lane_add(rig->state, lane), WEIR_OK);
    }
    rig->high_lanes = HIGH_LANE;
    /* 44 equals HIGH_LANE modulo 256. */
    static const weir_lane lanes[] = {31, 32, 33, 44, 63, 64, 65, 255, 256, HIGH_LANE};
    enum { count = sizeof(lanes) / sizeof(lanes[0]) };
    uint64_t granule = rig->ops->granule_bytes;
    void *tokens[count];
    weir_tick limits[HIGH_LANE + 1];
    const size_t region = fill(rig, 1, tokens, count);
    for (size_t i = 0; i < count && tokens[i] != NULL; i++) {
        rig->now[lanes[i]] = 10 + i;
        free_token(rig, tokens[i], lanes[i]);
    }
    for (weir_lane lane = 0; lane <= HIGH_LANE; lane++) {
        limits[lane] = WEIR_TICK_MAX;
    }
    for (size_t i = 0; i < count && tokens[i] != NULL; i++) {
        assert_false(remove_region(rig, region, limits, lanes[count - 1]));
        tokens[i] = alloc(rig, lanes[i], 10 + i, granule, 1, NULL);
        drop(rig, tokens[i], lanes[i]);
        limits[lanes[i]] = 9 + i;
        assert_false(remove_region(rig, region, limits, HIGH_LANE + 1));
        limits[lanes[i]] = 10 + i;
    }
    for (size_t i = 0; i < count / 2; i++) {
        promote(rig, lanes[i], 10 + i);
    }
    assert_true(tokens[0] == NULL || remove_region(rig, region, limits, HIGH_LANE + 1));
}

#endif
