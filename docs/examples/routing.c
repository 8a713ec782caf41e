/* routing.c: two strategies in one pool, by the size of the request.
 *
 * Idea: a half is a strategy with regions of its own. size_class serves requests up to 1 MiB, caching all others. Each
 * call goes to one half, or to both.
 * Guarantee: that of the half that serves the request. As a last resort the memory of either half serves any request.
 * Cost: that of the half, a branch and an indirect call.
 * Waste: that of both halves. Memory that is free in one half is of no use to the other before the last resort.
 */
#include "routing.h"

#include <stdbool.h>
#include <stddef.h>
#include <weir/caching.h>
#include <weir/size_class.h>

#define THRESHOLD (UINT64_C(1) << 20)

enum { SMALL, LARGE, HALVES };

struct half {
    const weir_strategy_ops *ops;
    void *state;
};

/* The states of the halves follow the struct. */
struct routing {
    struct half half[HALVES];
    const struct half *found; /* gather was the last call, and found memory in this half for the request: */
    uint64_t size;
    weir_lane lane;
};

static int number_for(uint64_t size)
{
    return size <= THRESHOLD ? SMALL : LARGE;
}

/* --- life --- */

static const weir_strategy_ops *ops_of(int number)
{
    return number == SMALL ? weir_size_class_strategy() : weir_caching_strategy();
}

/* Returns where the state of a half begins; of HALVES, where the last one ends. */
static size_t state_at(int number)
{
    const size_t unit = _Alignof(max_align_t);
    size_t at = (sizeof(struct routing) + unit - 1) / unit * unit;
    for (int i = 0; i < number; i++) {
        at += (ops_of(i)->state_size(NULL) + unit - 1) / unit * unit;
    }
    return at;
}

static size_t state_size(const void *config)
{
    (void)config;
    return state_at(HALVES);
}

static weir_status init(void *state, const void *config)
{
    struct routing *routing = state;
    if (config != NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: routing takes no config");
    }
    for (int i = 0; i < HALVES; i++) {
        routing->half[i] = (struct half){ops_of(i), (char *)state + state_at(i)};
        const weir_status status = routing->half[i].ops->init(routing->half[i].state, NULL);
        if (status != WEIR_OK) {
            if (i == LARGE) routing->half[SMALL].ops->fini(routing->half[SMALL].state);
            return status;
        }
    }
    return WEIR_OK;
}

static void fini(void *state)
{
    struct routing *routing = state;
    for (int i = 0; i < HALVES; i++) routing->half[i].ops->fini(routing->half[i].state);
}

static weir_status lane_add(void *state, weir_lane lane)
{
    struct routing *routing = state;
    weir_status status = WEIR_OK;
    for (int i = 0; i < HALVES && status == WEIR_OK; i++) {
        status = routing->half[i].ops->lane_add(routing->half[i].state, lane);
    }
    return status;
}

/* --- regions --- */

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    const struct half *half = &((const struct routing *)state)->half[number_for(size)];
    return half->ops->region_size(half->state, size, align, reserved, granularity);
}

/* The handle of a region is that of its half, which is the address of a struct; the lowest bit tells the half. */
static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **region)
{
    struct routing *routing = state;
    const int number = number_for(size_hint);
    struct half *half = &routing->half[number];
    void *handle = NULL;
    const weir_status status = half->ops->region_add(half->state, address, size, size_hint, lane, tick, &handle);
    if (status == WEIR_OK) *region = (char *)handle + number;
    routing->found = NULL;
    return status;
}

static weir_status region_remove(void *state, void *region, const weir_tick *limits, size_t lanes)
{
    struct routing *routing = state;
    const int number = (int)((uintptr_t)region & 1);
    struct half *half = &routing->half[number];
    routing->found = NULL;
    return half->ops->region_remove(half->state, (char *)region - number, limits, lanes);
}

static bool region_idle(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address)
{
    const struct routing *routing = state;
    bool idle = false;
    for (int i = 0; i < HALVES && !idle; i++) {
        idle = routing->half[i].ops->region_idle(routing->half[i].state, limits, lanes, address);
    }
    return idle;
}

/* --- ranges --- */

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    struct routing *routing = state;
    const bool gathered = routing->found != NULL && routing->size == size && routing->lane == lane;
    const struct half *half = gathered ? routing->found : &routing->half[number_for(size)];
    routing->found = NULL;
    const weir_status status = half->ops->alloc(half->state, lane, limit, size, align, range);
    if (status == WEIR_OK && half == &routing->half[LARGE]) {
        ((weir_record *)range->token)->own |= WEIR_RECORD_ROUTE; /* so that free finds the half */
    }
    return status;
}

static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct routing *routing = state;
    weir_record *record = token;
    struct half *half = &routing->half[(record->own & WEIR_RECORD_ROUTE) != 0 ? LARGE : SMALL];
    record->own &= ~WEIR_RECORD_ROUTE;
    routing->found = NULL;
    half->ops->free(half->state, token, lane, tick);
}

static uint64_t promote(void *state, weir_lane lane, weir_tick limit)
{
    struct routing *routing = state;
    uint64_t moved = 0;
    for (int i = 0; i < HALVES; i++) moved += routing->half[i].ops->promote(routing->half[i].state, lane, limit);
    routing->found = NULL;
    return moved;
}

/* As a last resort the other half is asked too. The next call is the alloc of this request, and goes to that half. */
static bool gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align, bool last_resort)
{
    struct routing *routing = state;
    routing->found = NULL;
    for (int i = 0; i < (last_resort ? HALVES : 1) && routing->found == NULL; i++) {
        struct half *half = &routing->half[number_for(size) ^ i];
        if (half->ops->gather(half->state, lane, tick, limits, lanes, size, align, last_resort)) {
            routing->found = half;
        }
    }
    routing->size = size;
    routing->lane = lane;
    return routing->found != NULL;
}

/* --- looking --- */

struct walk {
    weir_range_visitor visit;
    void *ctx;
    bool ended;
};

static bool show(void *ctx, const weir_range_info *range)
{
    struct walk *walk = ctx;
    walk->ended = !walk->visit(walk->ctx, range);
    return !walk->ended;
}

static void walk_all(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct routing *routing = state;
    struct walk walk = {visit, ctx, false};
    for (int i = 0; i < HALVES && !walk.ended; i++) routing->half[i].ops->walk(routing->half[i].state, show, &walk);
}

static weir_status check(const void *state, const char **why)
{
    const struct routing *routing = state;
    const weir_status status = routing->half[SMALL].ops->check(routing->half[SMALL].state, why);
    return status != WEIR_OK ? status : routing->half[LARGE].ops->check(routing->half[LARGE].state, why);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void stats(const void *state, weir_strategy_stats *sum)
{
    const struct routing *routing = state;
    *sum = (weir_strategy_stats)WEIR_STRATEGY_STATS_INIT;
    for (int i = 0; i < HALVES; i++) {
        weir_strategy_stats part = WEIR_STRATEGY_STATS_INIT;
        routing->half[i].ops->stats(routing->half[i].state, &part);
        sum->regions += part.regions;
        sum->region_bytes += part.region_bytes;
        sum->taken_ranges += part.taken_ranges;
        sum->taken_bytes += part.taken_bytes;
        sum->free_ranges += part.free_ranges;
        sum->free_bytes += part.free_bytes;
        sum->largest_free_bytes = larger(sum->largest_free_bytes, part.largest_free_bytes);
    }
}

static void lane_stats(const void *state, weir_lane lane, weir_lane_stats *sum)
{
    const struct routing *routing = state;
    *sum = (weir_lane_stats)WEIR_LANE_STATS_INIT;
    for (int i = 0; i < HALVES; i++) {
        weir_lane_stats part = WEIR_LANE_STATS_INIT;
        routing->half[i].ops->lane_stats(routing->half[i].state, lane, &part);
        sum->ranges += part.ranges;
        sum->bytes += part.bytes;
        sum->largest_bytes = larger(sum->largest_bytes, part.largest_bytes);
    }
}

const weir_strategy_ops *routing_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(weir_strategy_ops),
        .name = "routing",
        .flags = WEIR_STRATEGY_ROUTES, /* the pool may rely on no other flag of a half */
        .granule_bytes = 512,          /* that of both halves */
        .state_size = state_size,
        .init = init,
        .fini = fini,
        .lane_add = lane_add,
        .region_size = region_size,
        .region_add = region_add,
        .region_remove = region_remove,
        .region_idle = region_idle,
        .alloc = alloc,
        .free = free_range,
        .promote = promote,
        .gather = gather,
        .walk = walk_all,
        .check = check,
        .stats = stats,
        .lane_stats = lane_stats,
    };
    return &ops;
}

WEIR_STRATEGY_EXPORT(routing_strategy); /* for `weir replay --strategy ./routing.so` */
