/* first_fit.c: the first free range that holds the request.
 *
 * Idea: of the ranges of all regions, in the order of their addresses, a request takes the low end of the first one
 * that serves it. weir/ranges.h keeps the ranges: it cuts them, joins free neighbours and proves that they tile their
 * regions. Guarantee: refuses only when no free range of the lane holds the request.
 * Cost: alloc is linear in the number of ranges, free is constant.
 * Waste: below one granule a block inside; between blocks, as first fit has it.
 */
#include "first_fit.h"

#include <weir/ranges.h>

struct first_fit {
    weir_ranges ranges; /* first member: the functions of weir/ranges.h take a pointer to the state */
};

static size_t state_size(const void *config)
{
    (void)config;
    return sizeof(struct first_fit);
}

static weir_status init(void *state, const void *config)
{
    (void)state; /* zeroed by the pool: no region, no range */
    return config == NULL ? WEIR_OK : weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: first_fit takes no config");
}

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    (void)state;
    return weir_ranges_region_size(size, align, UINT64_C(32) << 20, reserved, granularity);
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **region)
{
    (void)size_hint; /* regions of one kind serve requests of every size */
    return weir_ranges_region_add(state, 0, address, size, lane, tick, region);
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *out)
{
    weir_record *range = weir_ranges_next(state, NULL);
    while (range != NULL && !weir_ranges_serves(range, lane, limit, size, align)) {
        range = weir_ranges_next(state, range);
    }
    if (range == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    return weir_ranges_take(state, range, size, align, WEIR_RANGES_LOW, out);
}

static bool gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align, bool last_resort)
{
    return weir_ranges_gather(state, 0, lane, tick, limits, lanes, size, align, 1, last_resort);
}

const weir_strategy_ops *first_fit_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(weir_strategy_ops),
        .name = "first_fit",
        .granule_bytes = WEIR_RANGES_GRANULE,
        .state_size = state_size,
        .init = init,
        .region_size = region_size,
        .region_add = region_add,
        .alloc = alloc,
        .gather = gather,
        .fini = weir_ranges_fini,
        .lane_add = weir_ranges_lane_add,
        .region_remove = weir_ranges_region_remove,
        .region_idle = weir_ranges_region_idle,
        .free = weir_ranges_free,
        .promote = weir_ranges_promote,
        .walk = weir_ranges_walk,
        .check = weir_ranges_check,
        .stats = weir_ranges_stats,
        .lane_stats = weir_ranges_lane_stats,
        .claim = weir_ranges_claim,
        .walk_holes = weir_ranges_walk_holes,
    };
    return &ops;
}
