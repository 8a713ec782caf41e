/* allocators/src/routing.c: the strategy routing, two strategies in one pool, chosen by the size of the request.
 *
 * Idea: a *half* is a strategy with its own regions. The small half serves requests up to the threshold, the large half
 * serves all other requests. The region that the pool takes for a request belongs to the request's half.
 *
 * While a range is taken, WEIR_RECORD_ROUTE in `own` of its record tells its half. A record of routing's own per range
 * would cost memory for every block and a lookup in walk. A table from token to half might need host memory in free,
 * which must not fail. There is only one such bit, so routing cannot be routed to. There are few regions, so each
 * region has a record that leads to its half.
 *
 * Guarantee: that of the half that serves the request. gather as a last resort also asks the other half, and refuses
 * only if both halves refuse. The contract requires that a last resort also finds memory that alloc would find, because
 * alloc has asked only one half. So a request fails only if neither half has a run of usable ranges that holds it,
 * provided that the halves guarantee this. A wholly idle region of the other half is returned like any region and
 * exchanged for one of this half.
 *
 * Cost: that of the half, a branch and an indirect call. Stats are sums over both halves. promote, lane_add and check
 * call both. An idle region is found at the cost of the halves, or by a walk through a half without region_idle. Host
 * memory: that of both halves per lane, 40 bytes per region, nothing per range.
 *
 * Waste: that of the halves. Memory that is free in one half does not serve the other half before the last resort. So a
 * program with small and large requests in turn holds up to the sum of both peaks, until the pool is short of memory
 * and exchanges regions.
 *
 * Counters: the pool's served[] by rung: exchanged regions, and requests served by late rungs.
 */
#include <weir/routing.h>

#include <weir/caching.h>
#include <weir/size_class.h>

#include <stdlib.h>

#include "shared/assert.h"
#include "tuning.h"

#define GRANULE UINT64_C(512)

enum half_name { SMALL_HALF, LARGE_HALF, HALVES };

struct half {
    const weir_strategy_ops *ops;
    void *state;
};

/* A region, and the handle by which the strategy that serves from it knows it. */
struct half_region {
    struct half_region *prev;
    struct half_region *next;
    void *handle;
    uint64_t size;
    enum half_name half;
};

/* The request for which a gather has found a range, if that gather was the last call; size 0 if it was not. */
struct found {
    uint64_t size;
    uint64_t align;
    weir_lane lane;
    enum half_name half;
};

/* Invariant: for each half (small or large requests) the list has as many regions, and bytes in them, as the strategy
 * of that half counts. The states of both strategies follow the struct. */
struct routing {
    struct half halves[HALVES];
    uint64_t threshold_bytes;
    struct half_region *regions;
    struct found found;
};

static enum half_name half_for(const struct routing *routing, uint64_t size)
{
    WEIR_ASSERT(routing->threshold_bytes != 0);
    return size <= routing->threshold_bytes ? SMALL_HALF : LARGE_HALF;
}

/* --- tokens --- */

static enum half_name half_of(const weir_record *record)
{
    return (record->own & WEIR_RECORD_ROUTE) != 0 ? LARGE_HALF : SMALL_HALF;
}

/* --- life --- */

static bool is_complete(const weir_strategy_ops *ops)
{
    return ops->struct_size >= sizeof(*ops) && ops->state_size != NULL && ops->init != NULL && ops->fini != NULL &&
           ops->region_size != NULL && ops->region_add != NULL && ops->region_remove != NULL && ops->alloc != NULL &&
           ops->free != NULL && ops->promote != NULL && ops->gather != NULL && ops->walk != NULL &&
           ops->check != NULL && ops->stats != NULL && ops->lane_stats != NULL;
}

static weir_status require_routable(const weir_strategy_ops *ops, const char *member)
{
    const char *wrong = NULL;
    if (!is_complete(ops)) {
        wrong = "its table lacks a function or is shorter than this library's";
    } else if (ops->granule_bytes != GRANULE) {
        wrong = "its granule_bytes are not 512";
    } else if ((ops->flags & ~(uint32_t)WEIR_STRATEGY_CUTS_ENDS) != 0) {
        wrong = "its flags are others than WEIR_STRATEGY_CUTS_ENDS";
    }
    return wrong == NULL
               ? WEIR_OK
               : weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: weir_routing_config.%s cannot be routed to: %s",
                             member, wrong);
}

static weir_status read_config(weir_routing_config *own, const void *config)
{
    static const weir_routing_config defaults = WEIR_ROUTING_CONFIG_INIT;
    weir_status status = weir_struct_adopt(own, sizeof(*own), config != NULL ? config : &defaults,
                                           "weir_pool_create: weir_routing_config");
    if (status != WEIR_OK) {
        return status;
    }
    own->small_strategy = own->small_strategy != NULL ? own->small_strategy : weir_size_class_strategy();
    own->large_strategy = own->large_strategy != NULL ? own->large_strategy : weir_caching_strategy();
    own->threshold_bytes = own->threshold_bytes != 0 ? own->threshold_bytes : routing_small_bytes;
    status = require_routable(own->small_strategy, "small_strategy");
    return status == WEIR_OK ? require_routable(own->large_strategy, "large_strategy") : status;
}

static size_t aligned(size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    return (size + unit - 1) / unit * unit;
}

/* Returns the offset of the large strategy's state, which follows the state of the small strategy. */
static size_t large_state_at(const weir_routing_config *config)
{
    WEIR_ASSERT(config->small_strategy != NULL && config->large_strategy != NULL);
    return aligned(sizeof(struct routing)) + aligned(config->small_strategy->state_size(config->small_config));
}

static size_t routing_state_size(const void *config)
{
    weir_routing_config own;
    if (read_config(&own, config) != WEIR_OK) {
        return sizeof(struct routing); /* init reports the reason */
    }
    return large_state_at(&own) + own.large_strategy->state_size(own.large_config);
}

static weir_status routing_init(void *state, const void *config)
{
    struct routing *routing = state;
    weir_routing_config own;
    weir_status status = read_config(&own, config);
    if (status != WEIR_OK) {
        return status;
    }
    *routing = (struct routing){
        .halves[SMALL_HALF] = {own.small_strategy, (char *)state + aligned(sizeof(*routing))},
        .halves[LARGE_HALF] = {own.large_strategy, (char *)state + large_state_at(&own)},
        .threshold_bytes = own.threshold_bytes,
    };
    const struct half *small = &routing->halves[SMALL_HALF];
    const struct half *large = &routing->halves[LARGE_HALF];
    status = small->ops->init(small->state, own.small_config);
    if (status != WEIR_OK) {
        return status;
    }
    status = large->ops->init(large->state, own.large_config);
    if (status != WEIR_OK) {
        small->ops->fini(small->state);
    }
    return status;
}

static void routing_fini(void *state)
{
    struct routing *routing = state;
    for (int half = 0; half < HALVES; half++) {
        routing->halves[half].ops->fini(routing->halves[half].state);
    }
    while (routing->regions != NULL) {
        struct half_region *next = routing->regions->next;
        free(routing->regions);
        routing->regions = next;
    }
}

static weir_status routing_lane_add(void *state, weir_lane lane)
{
    const struct routing *routing = state;
    weir_status status = WEIR_OK;
    for (int i = 0; i < HALVES && status == WEIR_OK; i++) {
        const struct half *half = &routing->halves[i];
        status = half->ops->lane_add != NULL ? half->ops->lane_add(half->state, lane) : WEIR_OK;
    }
    return status;
}

/* Forgets the range that gather has found, because it is valid for the next call only. That call may go to the other
 * strategy. So the strategy that found the range gets a call without effect: promote of the open lane. */
static void forget_found(struct routing *routing)
{
    WEIR_ASSERT(routing->found.half < HALVES);
    if (routing->found.size != 0) {
        const struct half *half = &routing->halves[routing->found.half];
        routing->found.size = 0;
        (void)half->ops->promote(half->state, WEIR_LANE_OPEN, 0);
    }
}

/* --- regions --- */

static uint64_t routing_region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved,
                                    uint64_t granularity)
{
    const struct routing *routing = state;
    const struct half *half = &routing->halves[half_for(routing, size)];
    return half->ops->region_size(half->state, size, align, reserved, granularity);
}

static weir_status routing_region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                                      weir_tick tick, void **out)
{
    struct routing *routing = state;
    struct half_region *region = calloc(1, sizeof(*region));
    forget_found(routing);
    if (region == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    region->size = size;
    region->half = half_for(routing, size_hint);
    const struct half *half = &routing->halves[region->half];
    weir_status status = half->ops->region_add(half->state, address, size, size_hint, lane, tick, &region->handle);
    if (status != WEIR_OK) {
        free(region);
        return status;
    }
    region->next = routing->regions;
    if (region->next != NULL) {
        region->next->prev = region;
    }
    routing->regions = region;
    *out = region;
    return WEIR_OK;
}

static weir_status routing_region_remove(void *state, void *handle, const weir_tick *limits, size_t lanes)
{
    struct routing *routing = state;
    struct half_region *region = handle;
    const struct half *half = &routing->halves[region->half];
    forget_found(routing);
    weir_status status = half->ops->region_remove(half->state, region->handle, limits, lanes);
    if (status != WEIR_OK) {
        return status;
    }
    WEIR_ASSERT((region->prev != NULL ? region->prev->next : routing->regions) == region);
    *(region->prev != NULL ? &region->prev->next : &routing->regions) = region->next;
    if (region->next != NULL) {
        region->next->prev = region->prev;
    }
    free(region);
    return WEIR_OK;
}

/* Search for a region with all of its ranges removable. The walk shows the ranges of a region one after the other. */
struct idle_search {
    const weir_tick *limits;
    size_t lanes;
    uint64_t region;
    bool idle; /* all ranges of the region seen so far are removable */
};

static bool look_at_range(void *ctx, const weir_range_info *range)
{
    struct idle_search *search = ctx;
    if (range->region_address != search->region && search->idle) {
        return false;
    }
    search->idle = range->region_address != search->region || search->idle;
    search->region = range->region_address;
    search->idle =
        search->idle && !range->taken && range->lane < search->lanes && range->tick <= search->limits[range->lane];
    return true;
}

/* Finds a wholly free region of one strategy. For a strategy without region_idle the function walks the ranges: routing
 * itself has a region_idle, so the pool does not search. */
static bool find_idle(const struct half *half, const weir_tick *limits, size_t lanes, uint64_t *address)
{
    WEIR_ASSERT(limits != NULL);
    if (half->ops->region_idle != NULL) {
        return half->ops->region_idle(half->state, limits, lanes, address);
    }
    struct idle_search search = {.limits = limits, .lanes = lanes, .region = UINT64_MAX};
    half->ops->walk(half->state, look_at_range, &search);
    *address = search.idle ? search.region : *address;
    return search.idle;
}

static bool routing_region_idle(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address)
{
    const struct routing *routing = state;
    return find_idle(&routing->halves[SMALL_HALF], limits, lanes, address) ||
           find_idle(&routing->halves[LARGE_HALF], limits, lanes, address);
}

/* --- ranges --- */

/* Returns the half in which gather has just found a range for this request, or else the half for the request's size. */
static enum half_name half_to_ask(struct routing *routing, weir_lane lane, uint64_t size, uint64_t align)
{
    const struct found *found = &routing->found;
    if (found->size == 0) {
        return half_for(routing, size);
    }
    if (found->size == size && found->align == align && found->lane == lane) {
        routing->found.size = 0;
        return found->half;
    }
    forget_found(routing);
    return half_for(routing, size);
}

static weir_status routing_alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                                 weir_range *out)
{
    struct routing *routing = state;
    const enum half_name name = half_to_ask(routing, lane, size, align);
    const struct half *half = &routing->halves[name];
    WEIR_ASSERT(name < HALVES);
    weir_status status = half->ops->alloc(half->state, lane, limit, size, align, out);
    if (status == WEIR_OK && name == LARGE_HALF) {
        ((weir_record *)out->token)->own |= WEIR_RECORD_ROUTE;
    }
    return status;
}

static void routing_free(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct routing *routing = state;
    weir_record *record = token;
    const struct half *half = &routing->halves[half_of(record)];
    forget_found(routing);
    WEIR_ASSERT((record->state & WEIR_RECORD_TAKEN) != 0);
    record->own &= ~WEIR_RECORD_ROUTE;
    half->ops->free(half->state, token, lane, tick);
}

static uint64_t routing_promote(void *state, weir_lane lane, weir_tick limit)
{
    struct routing *routing = state;
    uint64_t moved = 0;
    routing->found.size = 0;
    for (int i = 0; i < HALVES; i++) {
        const struct half *half = &routing->halves[i];
        moved += half->ops->promote(half->state, lane, limit);
    }
    return moved;
}

static bool routing_gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                           uint64_t size, uint64_t align, bool last_resort)
{
    WEIR_ASSERT(size != 0);
    struct routing *routing = state;
    const enum half_name first = half_for(routing, size);
    const enum half_name names[HALVES] = {first, first == SMALL_HALF ? LARGE_HALF : SMALL_HALF};
    forget_found(routing);
    for (int i = 0; i < (last_resort ? HALVES : 1); i++) {
        const struct half *half = &routing->halves[names[i]];
        if (half->ops->gather(half->state, lane, tick, limits, lanes, size, align, last_resort)) {
            WEIR_ASSERT(names[i] < HALVES);
            routing->found = (struct found){.size = size, .align = align, .lane = lane, .half = names[i]};
            return true;
        }
    }
    return false;
}

/* --- looking --- */

struct route_walk {
    weir_range_visitor visit;
    void *ctx;
    bool ended;
};

static bool show_range(void *ctx, const weir_range_info *range)
{
    struct route_walk *walk = ctx;
    walk->ended = !walk->visit(walk->ctx, range);
    return !walk->ended;
}

static void routing_walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct routing *routing = state;
    struct route_walk walk = {.visit = visit, .ctx = ctx};
    for (int i = 0; i < HALVES && !walk.ended; i++) {
        routing->halves[i].ops->walk(routing->halves[i].state, show_range, &walk);
    }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void routing_stats(const void *state, weir_strategy_stats *stats)
{
    const struct routing *routing = state;
    *stats = (weir_strategy_stats)WEIR_STRATEGY_STATS_INIT;
    for (int i = 0; i < HALVES; i++) {
        weir_strategy_stats part = WEIR_STRATEGY_STATS_INIT;
        routing->halves[i].ops->stats(routing->halves[i].state, &part);
        stats->regions += part.regions;
        stats->region_bytes += part.region_bytes;
        stats->taken_ranges += part.taken_ranges;
        stats->taken_bytes += part.taken_bytes;
        stats->free_ranges += part.free_ranges;
        stats->free_bytes += part.free_bytes;
        stats->largest_free_bytes = larger(stats->largest_free_bytes, part.largest_free_bytes);
    }
}

static void routing_lane_stats(const void *state, weir_lane lane, weir_lane_stats *stats)
{
    const struct routing *routing = state;
    *stats = (weir_lane_stats)WEIR_LANE_STATS_INIT;
    for (int i = 0; i < HALVES; i++) {
        weir_lane_stats part = WEIR_LANE_STATS_INIT;
        routing->halves[i].ops->lane_stats(routing->halves[i].state, lane, &part);
        stats->ranges += part.ranges;
        stats->bytes += part.bytes;
        stats->largest_bytes = larger(stats->largest_bytes, part.largest_bytes);
    }
}

/* --- check --- */

static const char *check_half(const struct routing *routing, enum half_name name)
{
    const struct half *half = &routing->halves[name];
    const char *why = "a strategy that is routed to found itself broken";
    weir_strategy_stats stats = WEIR_STRATEGY_STATS_INIT;
    if (half->ops->check(half->state, &why) != WEIR_OK) {
        return why;
    }
    half->ops->stats(half->state, &stats);
    for (const struct half_region *region = routing->regions; region != NULL; region = region->next) {
        if (region->next != NULL && region->next->prev != region) {
            return "the list of regions does not lead back";
        }
        stats.regions -= region->half == name;
        stats.region_bytes -= region->half == name ? region->size : 0;
    }
    return stats.regions == 0 && stats.region_bytes == 0 ? NULL : "a strategy has other regions than it was given";
}

static weir_status routing_check(const void *state, const char **why)
{
    const char *broken = NULL;
    for (int half = 0; half < HALVES && broken == NULL; half++) {
        broken = check_half(state, (enum half_name)half);
    }
    if (broken != NULL && why != NULL) {
        *why = broken;
    }
    return broken == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}

const weir_strategy_ops *weir_routing_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(ops),
        .name = "routing",
        .flags = WEIR_STRATEGY_ROUTES,
        .granule_bytes = GRANULE,
        .state_size = routing_state_size,
        .init = routing_init,
        .fini = routing_fini,
        .lane_add = routing_lane_add,
        .region_size = routing_region_size,
        .region_add = routing_region_add,
        .region_remove = routing_region_remove,
        .region_idle = routing_region_idle,
        .alloc = routing_alloc,
        .free = routing_free,
        .promote = routing_promote,
        .gather = routing_gather,
        .walk = routing_walk,
        .check = routing_check,
        .stats = routing_stats,
        .lane_stats = routing_lane_stats,
    };
    return &ops;
}
