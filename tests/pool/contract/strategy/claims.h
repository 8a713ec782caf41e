/* strategy/claims.h: cases of walks and of claims. */
#ifndef WEIR_CONTRACT_STRATEGY_CLAIMS_H
#define WEIR_CONTRACT_STRATEGY_CLAIMS_H

#include "calls.h"

/* A visitor that ends the walk at the visit number `most`. */
struct ending {
    size_t visits;
    size_t most;
};

static bool end_walk(void *ctx, const weir_range_info *info)
{
    struct ending *ending = ctx;
    (void)info;
    return ++ending->visits < ending->most;
}

/* NULL: walk. */
static void walk_to(const struct rig *rig, run_walk walk, struct ending *ending)
{
    if (walk != NULL) {
        walk(rig->state, rig->ops->granule_bytes, end_walk, ending);
    } else {
        rig->ops->walk(rig->state, end_walk, ending);
    }
}

static void require_end(const struct rig *rig, run_walk walk)
{
    struct ending all = {.most = SIZE_MAX};
    walk_to(rig, walk, &all);
    for (size_t most = 1; most <= all.visits; most++) {
        struct ending ending = {.most = most};
        walk_to(rig, walk, &ending);
        REQUIRE(rig, ending.visits == most, "a walk goes on after the visitor said stop");
    }
}

CASE(walks_end_when_they_are_told, ANY)
{
    const uint64_t granule = rig->ops->granule_bytes;
    for (int region = 0; region < 3; region++) {
        add_region(rig, 4 * granule, claims(rig) ? 0 : granule, 1, granule, granule);
        void *token = take(rig, 1, granule);
        take(rig, 1, granule);
        drop(rig, token, 1);
    }
    for (int region = 0; claims(rig) && region < 3; region++) { /* several runs of several ranges each */
        const size_t index = add_region(rig, 8 * granule, 0, WEIR_LANE_UNMAPPED, granule, granule);
        for (uint64_t i = 0; i < 8; i += 3) {
            void *token = claim(rig, rig->regions[index].address + i * granule, granule, NULL, 0);
            free_token(rig, token, i == 3 ? 2 : 1);
        }
    }
    require_end(rig, NULL);
    require_end(rig, rig->ops->walk_holes);
    require_end(rig, rig->ops->walk_free);
    require_end(rig, rig->ops->walk_large);
}

/* --- claims: a pool with virtual memory makes them --- */

/* A claim cuts a hole exactly where the pool asks. Memory claimed for a lane serves the stream of this lane. */
CASE(claim_takes_exactly_what_it_is_asked_for, CLAIMS)
{
    const uint64_t granule = rig->ops->granule_bytes;
    const size_t region = add_region(rig, 16 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    add_region(rig, 16 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0); /* adjacent to the first region */
    const uint64_t at = rig->regions[region].address;
    void *middle = claim(rig, at + 4 * granule, 4 * granule, NULL, 0);
    assert_non_null(middle);
    assert_null(claim(rig, at + 4 * granule, 4 * granule, NULL, 0));  /* taken */
    assert_null(claim(rig, at + 2 * granule, 3 * granule, NULL, 0));  /* its end is taken */
    assert_null(claim(rig, at + 7 * granule, 2 * granule, NULL, 0));  /* its start is taken */
    assert_null(claim(rig, at + 12 * granule, 8 * granule, NULL, 0)); /* it lies in two regions */
    void *next = claim(rig, at + 8 * granule, granule, NULL, 0);
    void *last = claim(rig, at + 15 * granule, granule, NULL, 0);
    void *first = claim(rig, at, granule, NULL, 0);
    assert_true(next != NULL && last != NULL && first != NULL);
    free_token(rig, middle, 1);
    assert_null(claim(rig, at + 4 * granule, granule, NULL, 0)); /* no longer a hole */
    free_token(rig, next, 2);
    free_token(rig, last, WEIR_LANE_UNMAPPED);
    free_token(rig, first, WEIR_LANE_UNMAPPED);
    if (!tested->refuses_early) {
        assert_non_null(take(rig, 1, 4 * granule));
        assert_non_null(take(rig, 2, granule));
    }
}

/* Only claim takes addresses without memory. */
CASE(unmapped_memory_is_nobodys, CLAIMS)
{
    const uint64_t granule = rig->ops->granule_bytes;
    const size_t region = add_region(rig, 8 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    weir_tick limits[LANES];
    set_limits(limits, WEIR_TICK_MAX);
    for (weir_lane lane = 0; lane < LANES; lane++) {
        assert_null(take(rig, lane, 1));
        assert_false(rig->ops->gather(rig->state, lane, 0, limits, LANES, granule, 1, true));
    }
    assert_int_equal(promote(rig, WEIR_LANE_UNMAPPED, WEIR_TICK_MAX), 0);
    assert_false(remove_region(rig, region, limits, LANES));
    assert_null(claim(rig, rig->regions[region].address, granule, limits, LANES));
    /* Two free ranges on both sides of a hole do not join. */
    void *low = claim(rig, rig->regions[region].address, 2 * granule, NULL, 0);
    void *high = claim(rig, rig->regions[region].address + 6 * granule, 2 * granule, NULL, 0);
    free_token(rig, low, 1);
    free_token(rig, high, 2);
    assert_false(rig->ops->gather(rig->state, 1, 0, limits, LANES, 5 * granule, 1, true));
    assert_false(remove_region(rig, region, limits, LANES));
}

/* Memory that is unmapped piece by piece, in any order, becomes one hole. */
CASE(holes_grow_together, CLAIMS)
{
    const uint64_t granule = rig->ops->granule_bytes;
    const size_t region = add_region(rig, 8 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    const uint64_t at = rig->regions[region].address;
    void *whole = claim(rig, at, 8 * granule, NULL, 0);
    free_token(rig, whole, 3);
    weir_tick limits[LANES];
    set_limits(limits, 0);
    limits[3] = WEIR_TICK_MAX;
    static const unsigned order[8] = {3, 0, 7, 5, 4, 1, 6, 2};
    for (size_t i = 0; i < 8; i++) {
        void *token = claim(rig, at + order[i] * granule, granule, limits, LANES);
        assert_non_null(token);
        free_token(rig, token, WEIR_LANE_UNMAPPED);
    }
    weir_lane_stats stats = WEIR_LANE_STATS_INIT;
    rig->ops->lane_stats(rig->state, WEIR_LANE_UNMAPPED, &stats);
    assert_int_equal(stats.ranges, 1);
    assert_int_equal(stats.bytes, 8 * granule);
    assert_non_null(claim(rig, at, 8 * granule, NULL, 0));
}

/* A claim across lanes respects the limit of each lane. The rests that it cuts off at both ends keep lane and tick. */
CASE(claim_asks_every_lane, CLAIMS)
{
    const uint64_t granule = rig->ops->granule_bytes;
    const size_t region = add_region(rig, 12 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    const uint64_t at = rig->regions[region].address;
    static const weir_lane lanes[3] = {1, 2, WEIR_LANE_OPEN};
    void *tokens[3];
    for (uint64_t i = 0; i < 3; i++) {
        tokens[i] = claim(rig, at + 4 * i * granule, 4 * granule, NULL, 0);
        assert_non_null(tokens[i]);
    }
    rig->now[1] = 10;
    rig->now[2] = 20;
    for (size_t i = 0; i < 3; i++) {
        free_token(rig, tokens[i], lanes[i]);
    }
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 19, 0, 0};
    assert_null(claim(rig, at + 2 * granule, 8 * granule, limits, LANES)); /* lane 2 has unfinished work */
    limits[2] = 20;
    assert_null(claim(rig, at + 2 * granule, 8 * granule, limits, 2)); /* lane 2 has no limit in this call */
    limits[1] = 9;
    assert_null(claim(rig, at + 2 * granule, 8 * granule, limits, LANES));
    limits[1] = 10;
    void *token = claim(rig, at + 2 * granule, 8 * granule, limits, LANES);
    assert_non_null(token);
    free_token(rig, token, WEIR_LANE_UNMAPPED);
    limits[1] = 9;
    assert_null(claim(rig, at, granule, limits, LANES)); /* the rest below has kept its tick */
    limits[1] = 10;
    assert_non_null(claim(rig, at, 2 * granule, limits, LANES));
}

/* A claim may take memory that the strategy keeps for blocks of one size, whatever the size of the claim. */
CASE(claim_takes_memory_set_apart, CLAIMS)
{
    const uint64_t granule = rig->ops->granule_bytes;
    const size_t region = add_region(rig, 512 * granule, 0, 1, granule, 0);
    const uint64_t at = rig->regions[region].address;
    void *tokens[512];
    size_t count = 0;
    while (count < 512 && (tokens[count] = take(rig, 1, granule)) != NULL) {
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        if (i % 64 != 5) { /* slabs that stay in use */
            free_token(rig, tokens[i], 1);
        }
    }
    weir_tick limits[LANES];
    set_limits(limits, WEIR_TICK_MAX);
    unsigned claimed = 0;
    for (uint64_t i = 0; i < 512; i += 3) {
        claimed += claim(rig, at + i * granule, 3 * granule, limits, LANES) != NULL;
    }
    assert_true(claimed > 100);
}

/* A block of eight granules is freed early and its large neighbour of the same lane late. Some strategies set the block
 * apart for requests of its size; the other strategies merge both. The test claims four of the eight granules as four
 * ranges. A strategy that has merged the block with the neighbour refuses all four, because of the later tick. The rest
 * of the block joins the neighbour after the claim, not during it. */
CASE(claim_takes_neighbours_in_one_call, CLAIMS)
{
    const uint64_t granule = rig->ops->granule_bytes;
    const size_t region = add_region(rig, 4096 * granule, 0, 1, granule, 0);
    const uint64_t at = rig->regions[region].address;
    void *low = take(rig, 1, 1024 * granule);
    void *high = take(rig, 1, 1024 * granule);
    assert_true(low != NULL && high != NULL);
    rig->now[1] = 10;
    free_token(rig, low, 1);
    void *block = take(rig, 1, 8 * granule);
    assert_non_null(block);
    free_token(rig, block, 1);
    rig->now[1] = 20;
    free_token(rig, high, 1);
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 0, 0, 0};
    for (uint64_t i = 0; i < 4096; i += 8) {
        void *tokens[4];
        if (claim_several(rig, at + (i + 1) * granule, granule, 4, limits, LANES, tokens)) {
            free_token(rig, tokens[1], WEIR_LANE_UNMAPPED);
            free_token(rig, tokens[2], 2);
            free_token(rig, tokens[0], WEIR_LANE_UNMAPPED);
            free_token(rig, tokens[3], 1);
        }
    }
    void *last[3];
    set_limits(limits, WEIR_TICK_MAX);
    assert_true(claim_several(rig, at + 4093 * granule, granule, 3, limits, LANES, last));
}

#endif
