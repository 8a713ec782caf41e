/* strategy/gather.h: cases of gather. */
#ifndef WEIR_CONTRACT_STRATEGY_GATHER_H
#define WEIR_CONTRACT_STRATEGY_GATHER_H

#include "calls.h"

/* Neighbours lie in lanes 1, 2, 3 and open; stream 4 may use some of them. */
CASE(gather_joins_only_what_it_may, GATHERS_EXACTLY)
{
    uint64_t granule = rig->ops->granule_bytes;
    void *tokens[6];
    fill(rig, 1, tokens, 6);
    static const weir_lane lanes[6] = {1, 2, 0, 3, 1, 2};
    for (size_t i = 0; i < 6; i++) {
        rig->now[lanes[i]] += 10;
        free_token(rig, tokens[i], lanes[i]);
    }
    rig->now[4] = 5;
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 10, 9, WEIR_TICK_MAX};
    assert_false(gather(rig, 4, limits, LANES, 4 * granule, 1));
    assert_false(gather(rig, 4, limits, 2, 2 * granule, 1));
    assert_true(gather(rig, 4, limits, LANES, 3 * granule, 1));
    assert_false(gather(rig, 4, limits, LANES, 2 * granule, 1));
    limits[3] = 10;
    limits[1] = 20;
    assert_true(gather(rig, 4, limits, LANES, 2 * granule, 1));
}

/* alloc with a limit may give up early; gather must not, also if all free memory is in one lane. */
CASE(gather_finds_a_single_range, GATHERS)
{
    uint64_t granule = rig->ops->granule_bytes;
    void *tokens[40];
    for (size_t i = 0; i < 40; i++) {
        add_region(rig, block_of(rig, 3 * granule), 3 * granule, 1, granule, granule);
        tokens[i] = take(rig, 1, 3 * granule);
    }
    for (size_t i = 0; i < 40; i++) {
        rig->now[1] += 1;
        free_token(rig, tokens[i], 1);
    }
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 0, 0, 0, 0};
    for (weir_tick limit = 1; limit <= 3; limit++) {
        limits[1] = limit;
        assert_true(gather(rig, 2, limits, LANES, 3 * granule, 1));
        assert_false(gather(rig, 2, limits, LANES, 3 * granule, 1));
    }
}

/* The neighbour in the lane that gathers was freed last: the joined range must keep the tick of that free. */
CASE(gather_loses_no_tick_of_its_own_lane, GATHERS_EXACTLY)
{
    uint64_t granule = rig->ops->granule_bytes;
    void *tokens[3];
    const size_t region = fill(rig, 2, tokens, 3);
    rig->now[1] = 10;
    rig->now[2] = 500;
    rig->now[3] = 20;
    free_token(rig, tokens[0], 1);
    free_token(rig, tokens[1], 2);
    free_token(rig, tokens[2], 3);
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, WEIR_TICK_MAX, 20, 0};
    assert_true(gather(rig, 2, limits, LANES, 3 * granule, 1));
    set_limits(limits, WEIR_TICK_MAX);
    assert_false(remove_region(rig, region, limits, LANES));
}

/* A gather as a last resort, without an alloc before it, finds the ranges that alloc would find, and joins neighbours
 * too. */
CASE(last_resort_needs_no_refusal, GATHERS_EXACTLY)
{
    uint64_t granule = rig->ops->granule_bytes;
    weir_tick limits[LANES];
    set_limits(limits, 0);
    limits[2] = WEIR_TICK_MAX;
    rig->now[2] = 6;
    add_region(rig, 16 * granule, granule, 2, granule, 0);
    for (uint64_t granules = 1; granules <= 5; granules++) {
        rig->now[2]++;
        assert_true(gather_as(rig, 2, limits, LANES, granules * granule, 1, true));
    }
    assert_true(gather_as(rig, 2, limits, LANES, granule, 1, true));
    assert_false(gather_as(rig, 2, limits, LANES, granule, 1, true));
}

/* The lane's own range was freed later than the tick that the pool passes: the joined range keeps the later tick,
 * whether the own range lies below or above the other lane's range. */
CASE(gather_keeps_a_later_tick_of_its_own_lane, GATHERS)
{
    for (size_t own = 0; own < 2; own++) {
        restart(rig);
        uint64_t granule = rig->ops->granule_bytes;
        void *tokens[2];
        const size_t region = fill(rig, 1, tokens, 2);
        free_token_at(rig, tokens[own], 1, 9);
        free_token_at(rig, tokens[1 - own], 2, 3);
        weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 10, 0, 0};
        weir_range range;
        REQUIRE(rig, rig->ops->gather(rig->state, 1, 5, limits, LANES, 2 * granule, 1, tested->sets_aside),
                "gather found nothing although eligible neighbours fit");
        set_limits(limits, 8);
        REQUIRE(rig,
                rig->ops->alloc(rig->state, 1, 8, 2 * granule, 1, &range) != WEIR_OK &&
                    rig->ops->region_remove(rig->state, rig->regions[region].handle, limits, LANES) == WEIR_ERR_BUSY,
                "gather lost a tick");
        set_limits(limits, 9);
        REQUIRE(rig, rig->ops->region_remove(rig->state, rig->regions[region].handle, limits, LANES) == WEIR_OK,
                "gather made a range of a later tick than it should");
    }
}

/* A gather that finds nothing moves nothing, for every lane. */
CASE(gather_without_success_changes_nothing, GATHERS_EXACTLY)
{
    for (weir_lane lane = 0; lane < LANES; lane++) {
        restart(rig);
        uint64_t granule = rig->ops->granule_bytes;
        void *tokens[6];
        fill(rig, 1, tokens, 6);
        for (weir_lane i = 0; i < 5; i++) {
            rig->now[i] = 10;
            free_token(rig, tokens[i], i);
        }
        weir_tick limits[LANES];
        set_limits(limits, WEIR_TICK_MAX);
        for (uint64_t granules = 6; granules <= 9; granules++) { /* five granules are free */
            assert_false(gather_as(rig, lane, limits, LANES, granules * granule, 1, false));
            assert_false(gather_as(rig, lane, limits, LANES, granules * granule, 1, true));
        }
        assert_true(gather(rig, lane, limits, LANES, 5 * granule, 1));
    }
}

#endif
