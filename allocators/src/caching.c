/* allocators/src/caching.c: the strategy caching, best-fit packing at constant cost.
 *
 * Idea: every free range is indexed by size, per lane and per kind of region. Regions for small requests are separate
 * from regions for large requests, so that small, short-lived blocks do not keep large regions in use. A request takes
 * the low end of the best fit, a large request the high end of a range at least twice its size; the rest stays in its
 * lane. A large request avoids the rest of a region whose only block is more than twice its size, unless that fits
 * tightly (weir__ranges_choose). A freed range merges at once with its free neighbours of the same region and lane.
 * Regions for requests of every size (virtual memory) have no kinds: there small requests take the high end
 * (high_end_bytes), but not those below low_bytes.
 *
 * Guarantee: alloc refuses a request only if no free range of its lane and kind holds it. gather as a last resort
 * refuses only if no run of usable ranges of either kind holds it. Waste inside a block is below one granule (512
 * bytes). No bound on external fragmentation is known for best fit in general; Robson (JACM 1977) shows that no
 * strategy that cannot move blocks does better than a factor of log2(largest / smallest size) in the worst case. gather
 * and the pool's exchange of idle regions reduce the remaining fragmentation.
 *
 * Cost: alloc and free are constant, independent of the number of ranges, except for a refusal, which reads one bin.
 * promote costs a constant per range that moves. gather is linear in the ranges of regions with enough free bytes; it
 * is constant if the requesting lane holds all free memory, except as a last resort. Host memory: one record of 64
 * bytes per range, 9 KiB per lane and kind.
 *
 * Counters: free_bytes and largest_free_bytes of stats; the pool's served[] by rung.
 */
#include <weir/caching.h>

#include "ranges.h"
#include "tuning.h"

struct caching {
    struct ranges ranges; /* must be the first member: most of the strategy's functions take a struct ranges */
    uint64_t low_bytes;
    uint64_t small_region_bytes;
    uint64_t large_region_bytes;
};

static enum range_kind kind_of(const struct caching *caching, uint64_t size)
{
    return size <= caching->ranges.small_bytes ? RANGE_SMALL : RANGE_LARGE;
}

/* --- life --- */

static size_t caching_state_size(const void *config)
{
    (void)config;
    return sizeof(struct caching);
}

static weir_status caching_init(void *state, const void *config)
{
    struct caching *caching = state;
    weir_caching_config own;
    static const weir_caching_config defaults = WEIR_CACHING_CONFIG_INIT;
    weir_status status = weir_struct_adopt(&own, sizeof(own), config != NULL ? config : &defaults,
                                           "weir_pool_create: weir_caching_config");
    if (status != WEIR_OK) {
        return status;
    }
    *caching = (struct caching){
        .ranges.small_bytes = own.small_bytes != 0 ? own.small_bytes : caching_small_bytes,
        .low_bytes = own.low_bytes,
        .small_region_bytes = own.small_region_bytes != 0 ? own.small_region_bytes : usual_small_region_bytes,
        .large_region_bytes = own.large_region_bytes != 0 ? own.large_region_bytes : usual_large_region_bytes,
    };
    return WEIR_OK;
}

/* --- regions --- */

static uint64_t caching_region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved,
                                    uint64_t granularity)
{
    const struct caching *caching = state;
    if (kind_of(caching, size) == RANGE_SMALL) {
        const uint64_t need = range_need(size, align);
        WEIR_ASSERT(need >= size);
        const uint64_t region = caching->small_region_bytes;
        return range_round_up(need > region ? need : region, granularity);
    }
    return weir_ranges_region_size(size, align, caching->large_region_bytes, reserved, granularity);
}

static weir_status caching_region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                                      weir_tick tick, void **out)
{
    WEIR_ASSERT(size != 0);
    struct caching *caching = state;
    if (size_hint == 0) {
        caching->ranges.small_bytes = UINT64_MAX;
        caching->ranges.high_least = caching->low_bytes;
        caching->ranges.high_more = caching->low_bytes < high_end_bytes ? high_end_bytes - caching->low_bytes : 0;
    }
    return weir_ranges_region_add(state, kind_of(caching, size_hint), address, size, lane, tick, out);
}

/* --- ranges --- */

static bool caching_gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                           uint64_t size, uint64_t align, bool last_resort)
{
    const struct caching *caching = state;
    return weir_ranges_gather(state, kind_of(caching, size), lane, tick, limits, lanes, size, align, 1, last_resort);
}

/* A request is cut off one end of a range. */
static uint64_t caching_request_bytes(const void *state, uint64_t size)
{
    (void)state;
    return range_round_up(size, RANGE_GRANULE);
}

const weir_strategy_ops *weir_caching_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(ops),
        .name = "caching",
        .granule_bytes = RANGE_GRANULE,
        .state_size = caching_state_size,
        .init = caching_init,
        .fini = weir_ranges_fini,
        .lane_add = weir_ranges_lane_add,
        .region_size = caching_region_size,
        .region_add = caching_region_add,
        .region_remove = weir_ranges_region_remove,
        .region_idle = weir_ranges_region_idle,
        .alloc = weir__ranges_alloc,
        .free = weir_ranges_free,
        .promote = weir_ranges_promote,
        .gather = caching_gather,
        .walk = weir_ranges_walk,
        .check = weir_ranges_check,
        .stats = weir_ranges_stats,
        .lane_stats = weir_ranges_lane_stats,
        .claim = weir_ranges_claim,
        .walk_holes = weir_ranges_walk_holes,
        .walk_free = weir_ranges_walk_free,
        .walk_large = weir_ranges_walk_large,
        .request_bytes = caching_request_bytes,
    };
    return &ops;
}
