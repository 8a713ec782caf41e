/* strategy/regions.h: cases of regions and sizes. */
#ifndef WEIR_CONTRACT_STRATEGY_REGIONS_H
#define WEIR_CONTRACT_STRATEGY_REGIONS_H

#include "calls.h"

static void table_is_complete(void)
{
    const weir_strategy_ops *ops = tested->ops;
    assert_int_equal(ops->struct_size, sizeof(*ops));
    assert_true(ops->name != NULL && ops->name[0] != '\0');
    assert_true(ops->granule_bytes > 0 && (ops->granule_bytes & (ops->granule_bytes - 1)) == 0);
    assert_true(ops->state_size != NULL && ops->init != NULL && ops->fini != NULL);
    assert_true(ops->region_size != NULL && ops->region_add != NULL && ops->region_remove != NULL);
    assert_true(ops->alloc != NULL && ops->free != NULL && ops->promote != NULL);
    assert_true(ops->walk != NULL && ops->check != NULL && ops->stats != NULL && ops->lane_stats != NULL);
    assert_true((ops->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0 || ops->gather != NULL);
    assert_true((ops->flags & WEIR_STRATEGY_ROUNDS_UP) == 0 || ops->walk_large == NULL);
    assert_true(((ops->flags & WEIR_STRATEGY_ROUNDS_UP) != 0) == (tested->block_bytes != NULL));
}

CASE(empty_strategy_refuses, ANY)
{
    for (weir_lane lane = 0; lane < LANES; lane++) {
        assert_null(take(rig, lane, 1));
        promote(rig, lane, WEIR_TICK_MAX);
    }
}

CASE(fini_takes_live_ranges, ANY)
{
    for (uint64_t i = 1; i <= 3; i++) {
        grow(rig, 1, i * 1000, 1, 0);
    }
    assert_int_equal(rig->ops->check(rig->state, NULL), WEIR_OK); /* a NULL reason is allowed */
}

CASE(region_size_is_enough, ANY)
{
    const uint64_t sizes[] = {1, 511, 512, 513, 4096, 1 << 20, (1 << 20) + 1, 10 << 20, (10 << 20) + 1, 33 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (uint64_t align = 1; align <= 8 << 20; align *= 8) {
            grow(rig, 1 + (weir_lane)(i % 4), sizes[i], align, 512);
            for (unsigned shift = 12; shift <= 30; shift += 3) { /* granularities of other devices */
                const uint64_t granularity = UINT64_C(1) << shift;
                const uint64_t reserved = UINT64_C(7) << (33 + i);
                const uint64_t bytes = rig->ops->region_size(rig->state, sizes[i], align, reserved, granularity);
                REQUIRE(rig, bytes >= sizes[i] && bytes % granularity == 0,
                        "region_size: too small or no multiple of the granularity");
            }
        }
    }
}

/* Finds 32-bit arithmetic in sizes, indices and shifts. */
CASE(sizes_around_powers_of_two, ANY)
{
    for (unsigned k = 9; k <= 44; k++) {
        restart(rig);
        uint64_t granule = rig->ops->granule_bytes;
        for (int side = -1; side <= 1; side++) {
            uint64_t size = round_up(UINT64_C(1) << k, granule) + (uint64_t)side * granule;
            if (size == 0) {
                continue;
            }
            add_region(rig, block_of(rig, size), size, 1, granule, 0);
            if (tested->refuses_early) {
                continue;
            }
            void *token = take(rig, 1, size);
            REQUIRE(rig, token != NULL, "a region is refused to a request of its own size");
            assert_null(take(rig, 1, size));
            free_token(rig, token, 1);
            token = take(rig, 1, (size + 1) / 2); /* the suite checks a refusal, too */
            drop(rig, token, 1);
            take(rig, 1, size - granule / 2);
        }
    }
}

/* An index by size classes holds many sizes in one class. The only range that fits is the first among many ranges that
 * nearly fit, with sizes that classes round to both sides. */
CASE(one_fit_in_a_crowd, ANY)
{
    uint64_t granule = rig->ops->granule_bytes;
    static const uint64_t largest[] = {31, 33, 63, 65, 1000, 1298, 1365, 2047};
    for (size_t i = 0; i < sizeof(largest) / sizeof(largest[0]); i++) {
        uint64_t size = largest[i] * granule;
        add_region(rig, block_of(rig, size), size, 1, granule, granule);
        for (uint64_t less = 1; less <= 60; less++) {
            uint64_t other = (largest[i] - 1 - less % (1 + largest[i] / 40)) * granule;
            add_region(rig, other, other, 1, granule, granule);
        }
        if (!tested->refuses_early) {
            assert_non_null(take(rig, 1, size));
        }
        assert_null(take(rig, 1, size));
        weir_tick limits[LANES];
        set_limits(limits, WEIR_TICK_MAX);
        for (size_t region = 0; region < rig->region_count; region++) {
            if (rig->regions[region].alive) {
                remove_region(rig, region, limits, LANES);
            }
        }
    }
}

/* Finds capacities that are off by one, and an index 0 that is mistaken for "none". */
CASE(tiny_regions_fill_and_refill, ANY)
{
    for (uint64_t granules = 1; granules <= 9; granules++) {
        restart(rig);
        uint64_t granule = rig->ops->granule_bytes;
        add_region(rig, granules * granule, granule, 1, granule, 0);
        void *tokens[16] = {NULL};
        for (unsigned round = 0; round < 3; round++) {
            uint64_t taken = 0;
            while (taken < 16 && (tokens[taken] = take(rig, 1, granule)) != NULL) {
                taken++;
            }
            if (!tested->whole_regions && !tested->refuses_early) {
                REQUIRE(rig, taken == granules, "a region holds fewer granules than it has");
            }
            for (uint64_t i = 0; i < taken; i++) {
                uint64_t pick = round == 0 ? i : round == 1 ? taken - 1 - i : (i * 2 + (i * 2 >= taken)) % taken;
                while (tokens[pick] == NULL) {
                    pick = (pick + 1) % taken;
                }
                free_token(rig, tokens[pick], 1);
                tokens[pick] = NULL;
            }
        }
    }
}

/* request_bytes: a region of n times that many bytes, added for requests of the size, serves n of them. */
CASE(requests_waste_no_more_than_is_promised, ANY)
{
    const uint64_t granule = rig->ops->granule_bytes;
    static const uint64_t sizes[] = {1, 511, 512, 513, 5000, 8193, 65536, 100000, 3 << 20};
    for (size_t i = 0; rig->ops->request_bytes != NULL && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const uint64_t whole = rig->ops->request_bytes(rig->state, sizes[i]);
        if (whole == 0) {
            continue;
        }
        REQUIRE(rig, whole >= sizes[i] && whole % granule == 0, "request_bytes is below the request, or no multiple");
        const size_t region = add_region(rig, 9 * whole, sizes[i], 1, granule, 0);
        void *tokens[16] = {NULL};
        unsigned served = 0;
        while (served < 16 && (tokens[served] = take(rig, 1, sizes[i])) != NULL) {
            served++;
        }
        REQUIRE(rig, served >= 9, "a region holds fewer requests than it is times as large");
        while (served > 0) {
            free_token(rig, tokens[--served], 1);
        }
        assert_true(remove_at(rig, region, WEIR_TICK_MAX));
    }
}

/* Adjacent regions stay two regions: no range crosses the border, and both can be removed. */
CASE(regions_never_merge, ANY)
{
    uint64_t size = 8 * rig->ops->granule_bytes;
    size_t first = add_region(rig, size, size, 1, rig->ops->granule_bytes, 0);
    size_t second = add_region(rig, size, size, 1, rig->ops->granule_bytes, 0);
    assert_int_equal(rig->regions[first].address + size, rig->regions[second].address);
    void *one = take(rig, 1, size);
    void *two = take(rig, 1, size);
    drop(rig, one, 1);
    drop(rig, two, 1);
    assert_null(take(rig, 1, size + 1));
    promote(rig, 1, WEIR_TICK_MAX);
    assert_null(take(rig, WEIR_LANE_OPEN, size + 1));
    assert_true(remove_at(rig, first, WEIR_TICK_MAX));
    assert_true(remove_at(rig, second, WEIR_TICK_MAX));
}

CASE(region_remove_refuses_what_is_in_use, ANY)
{
    uint64_t granule = rig->ops->granule_bytes;
    rig->now[2] = 7;
    size_t region = add_region(rig, 4 * granule, granule, 2, granule, 0);
    weir_tick limits[LANES];
    set_limits(limits, 6);
    assert_false(remove_region(rig, region, limits, LANES));
    set_limits(limits, WEIR_TICK_MAX);
    assert_false(remove_region(rig, region, limits, 2));
    void *token = take(rig, 2, granule);
    if (token != NULL) {
        assert_false(remove_region(rig, region, limits, LANES));
        free_token(rig, token, 2);
    }
    assert_true(remove_region(rig, region, limits, 3));
    assert_null(take(rig, 2, granule));
}

/* A region with free ranges in several lanes can be removed if each of these lanes allows it. */
CASE(region_remove_asks_every_lane, SHARES_LANES)
{
    void *tokens[2];
    const size_t region = fill(rig, 1, tokens, 2);
    rig->now[1] = 3;
    rig->now[2] = 900;
    drop(rig, tokens[0], 1);
    drop(rig, tokens[1], 2);
    weir_tick limits[LANES];
    set_limits(limits, WEIR_TICK_MAX);
    limits[1] = 2;
    remove_region(rig, region, limits, LANES);
    if (rig->regions[region].alive) {
        limits[1] = 3;
        limits[2] = 899;
        remove_region(rig, region, limits, LANES);
    }
    if (rig->regions[region].alive) {
        limits[2] = 900;
        assert_true(remove_region(rig, region, limits, LANES));
    }
}

#endif
