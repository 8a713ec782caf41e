/* buddy.c: a buddy system: blocks of powers of two, each at a multiple of its size from the start of its region.
 *
 * Idea: two halves of a block, buddies, join as soon as both are free, and no block lies across the border of two
 * others. weir/ranges.h joins free neighbours, so a block is cut wherever its place is wholly free; of these places it
 * takes the one in the smallest free range. Places count from the start of the region, which need not lie at a multiple
 * of the largest block. Guarantee: refuses only when no place of the request's size is free in the lane.
 * Cost: alloc is linear in the ranges, free is constant. Waste: below half of a block inside, none between blocks of
 * one size. Pools with virtual memory map as much as is asked for, and a block takes more: they take regions.
 */
#include "buddy.h"

#include <weir/ranges.h>

struct buddy {
    weir_ranges ranges; /* first member: the functions of weir/ranges.h take a pointer to the state */
};

uint64_t buddy_block_bytes(uint64_t size)
{
    uint64_t bytes = WEIR_RANGES_GRANULE;
    while (bytes < size && bytes != 0) {
        bytes *= 2;
    }
    return bytes; /* 0: no power of two is large enough */
}

static size_t state_size(const void *config)
{
    (void)config;
    return sizeof(struct buddy);
}

static weir_status init(void *state, const void *config)
{
    (void)state; /* zeroed by the pool: no region, no range */
    return config == NULL ? WEIR_OK : weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: buddy takes no config");
}

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    (void)state;
    return weir_ranges_region_size(buddy_block_bytes(size), align, UINT64_C(32) << 20, reserved, granularity);
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **region)
{
    (void)size_hint; /* regions of one kind serve requests of every size */
    return weir_ranges_region_add(state, 0, address, size, lane, tick, region);
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *out)
{
    const uint64_t bytes = buddy_block_bytes(size);
    weir_record *best = NULL;
    uint64_t place = 0;
    for (weir_record *range = weir_ranges_next(state, NULL); range != NULL; range = weir_ranges_next(state, range)) {
        if ((best == NULL || range->size < best->size) && weir_ranges_serves(range, lane, limit, bytes, 1)) {
            const uint64_t at = weir_ranges_place(state, range, align, bytes);
            if (at - range->address <= range->size - bytes) {
                best = range;
                place = at;
            }
        }
    }
    return best != NULL ? weir_ranges_take_at(state, best, place, bytes, out) : WEIR_ERR_NO_MEMORY;
}

static bool gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align, bool last_resort)
{
    const uint64_t bytes = buddy_block_bytes(size);
    return weir_ranges_gather(state, 0, lane, tick, limits, lanes, bytes, align, bytes, last_resort);
}

const weir_strategy_ops *buddy_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(weir_strategy_ops),
        .name = "buddy",
        .flags = WEIR_STRATEGY_ROUNDS_UP,
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
    };
    return &ops;
}
