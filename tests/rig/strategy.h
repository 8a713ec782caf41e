/* tests/rig/strategy.h: one strategy over made-up regions, for tests of its promises beyond the contract. check runs
 * after every call. If a program defines STRATEGY before the include, such as weir_caching_strategy, each test has a
 * fresh strategy.
 */
#ifndef WEIR_RIG_STRATEGY_H
#define WEIR_RIG_STRATEGY_H

#include "test.h"

#include <weir/strategy.h>

#define GRANULE UINT64_C(512)
#define REGION (2 * MIB)
#define BASE (UINT64_C(1) << 40) /* the address of the first region */

enum { lanes = 6 };

static struct {
    const weir_strategy_ops *ops;
    void *state;
    uint64_t next_address; /* address of the next region */
} rig;

static inline void check(void)
{
    const char *why = "?";
    if (rig.ops->check(rig.state, &why) != WEIR_OK) {
        print_error("check: %s\n", why);
        fail();
    }
}

static inline void start_rig(const void *config)
{
    rig.next_address = BASE;
    rig.state = calloc(1, rig.ops->state_size(config));
    assert_non_null(rig.state);
    assert_int_equal(rig.ops->init(rig.state, config), WEIR_OK);
    for (weir_lane lane = 0; lane < lanes; lane++) {
        assert_int_equal(rig.ops->lane_add(rig.state, lane), WEIR_OK);
    }
}

static inline void stop_rig(void)
{
    check();
    rig.ops->fini(rig.state);
    free(rig.state);
}

/* Begins anew, without regions. */
static inline void renew(const void *config)
{
    stop_rig();
    start_rig(config);
}

#ifdef STRATEGY
static int begin_rig(void **unused)
{
    (void)unused;
    rig.ops = STRATEGY();
    start_rig(NULL);
    return 0;
}

static int end_rig(void **unused)
{
    (void)unused;
    if (test_passed) {
        stop_rig();
    }
    return 0;
}

EACH_TEST(begin_rig, end_rig)
#endif

/* Returns the status of init for this config. The rig's own state does not change. */
static inline weir_status try_config(const weir_strategy_ops *ops, const void *config)
{
    void *memory = calloc(1, ops->state_size(config));
    assert_non_null(memory);
    const weir_status status = ops->init(memory, config);
    if (status == WEIR_OK) {
        ops->fini(memory);
    }
    free(memory);
    return status;
}

/* Adds a region for requests of `hint` bytes, behind the region before. Returns its handle. */
static inline void *add_region_for(uint64_t hint, uint64_t size, weir_lane lane)
{
    void *region = NULL;
    assert_int_equal(rig.ops->region_add(rig.state, rig.next_address, size, hint, lane, 0, &region), WEIR_OK);
    rig.next_address += size;
    check();
    return region;
}

static inline void *add_region(uint64_t size, weir_lane lane)
{
    return add_region_for(1, size, lane);
}

static inline weir_status remove_region(void *region, weir_tick limit)
{
    weir_tick limits[lanes];
    for (size_t i = 0; i < lanes; i++) {
        limits[i] = i == 0 ? WEIR_TICK_MAX : limit;
    }
    const weir_status status = rig.ops->region_remove(rig.state, region, limits, lanes);
    check();
    return status;
}

/* Returns the address, or 0 for a refusal. `range` may be NULL. */
static inline uint64_t take_at(weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    weir_range own;
    range = range != NULL ? range : &own;
    const weir_status status = rig.ops->alloc(rig.state, lane, limit, size, align, range);
    check();
    if (status != WEIR_OK) {
        assert_int_equal(status, WEIR_ERR_NO_MEMORY);
        return 0;
    }
    assert_true(range->size >= size && range->address % align == 0);
    return range->address;
}

static inline uint64_t take(weir_lane lane, uint64_t size, weir_range *range)
{
    return take_at(lane, WEIR_TICK_MAX, size, 1, range);
}

static inline weir_range must_take(weir_lane lane, uint64_t size)
{
    weir_range range;
    assert_true(take(lane, size, &range) != 0);
    return range;
}

static inline void take_each(weir_lane lane, uint64_t size, weir_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ranges[i] = must_take(lane, size);
    }
}

static inline void give(const weir_range *range, weir_lane lane, weir_tick tick)
{
    rig.ops->free(rig.state, range->token, lane, tick);
    check();
}

static inline void give_each(const weir_range *ranges, size_t count, weir_lane lane, weir_tick tick)
{
    for (size_t i = 0; i < count; i++) {
        give(&ranges[i], lane, tick);
    }
}

static inline bool gather(weir_lane lane, weir_tick tick, const weir_tick *limits, uint64_t size, bool last_resort)
{
    const bool found = rig.ops->gather(rig.state, lane, tick, limits, lanes, size, 1, last_resort);
    check();
    return found;
}

static inline uint64_t promote(weir_lane lane, weir_tick limit)
{
    const uint64_t moved = rig.ops->promote(rig.state, lane, limit);
    check();
    return moved;
}

static inline weir_lane_stats stats_of(weir_lane lane)
{
    weir_lane_stats stats = WEIR_LANE_STATS_INIT;
    rig.ops->lane_stats(rig.state, lane, &stats);
    return stats;
}

static inline uint64_t region_size(uint64_t size, uint64_t reserved, uint64_t granularity)
{
    return rig.ops->region_size(rig.state, size, 1, reserved, granularity);
}

#endif
