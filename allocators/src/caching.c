/* allocators/src/caching.c: best-fit packing at constant cost.
 *
 * Idea: every free range is indexed by size, per lane and per kind of region (small requests are kept apart from
 * large ones, so that short-lived crumbs do not pin large regions). A request takes the low end of the best fit; the
 * rest stays where it was. A freed range joins its free neighbours of the same region and lane at once.
 *
 * Guarantee: a request is refused by alloc only when no free range of its lane and kind holds it, and by gather as a last
 * resort only when no run of usable ranges of either kind does. Waste inside a block is below one
 * granule (512 bytes). No bound on external fragmentation is known for best fit in general; Robson (JACM 1977) shows
 * that no strategy that cannot move blocks does better than a factor of log2(largest / smallest size) in the worst
 * case. gather and the pool's exchange of idle regions answer what remains.
 *
 * Cost: alloc and free are constant, independent of the number of ranges, apart from the refusal, which reads one bin.
 * promote costs a constant per range that moves. gather is linear in the ranges of regions with enough free bytes, and
 * free when all free memory is in the asking lane. Host memory: one record of 112 bytes per range, 20 KiB per lane and kind.
 *
 * Counters that show it: free_bytes and largest_free_bytes of stats; the pool's served[] by rung.
 */
#include <weir/caching.h>

#include <stdlib.h>
#include <string.h>

#include "range_index.h"
#include "range_region.h"

enum kind { SMALL, LARGE, KINDS };

#define MIB (UINT64_C(1) << 20)
#define DEFAULT_SMALL (1 * MIB)
#define DEFAULT_SMALL_REGION (2 * MIB)
#define DEFAULT_LARGE_REGION (20 * MIB)

/* Free ranges under one condition of reuse. `oldest` to `newest` lists them in order of ticks: oldest->tick <= ... <=
 * newest->tick, which is what lets promote take from one end. */
struct lane {
    struct range *oldest;
    struct range *newest;
    uint64_t ranges;
    uint64_t bytes;
    struct range_index *index[KINDS];
};

/* region_bytes = taken_bytes + sum of lanes[].bytes; each region's ranges tile it. */
struct caching {
    uint64_t small_bytes;
    uint64_t small_region_bytes;
    uint64_t large_region_bytes;
    struct range_store store;
    struct lane *lanes;
    size_t lane_count;
    struct range_region *first_region;
    struct range_region *last_region;
    uint64_t next_serial;
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    struct range *gathered; /* what the last call, a gather, has found, of whatever kind; else NULL */
};

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

static enum kind kind_of(const struct caching *caching, uint64_t size)
{
    return size <= caching->small_bytes ? SMALL : LARGE;
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
    weir_caching_config own = WEIR_CACHING_CONFIG_INIT;
    if (config != NULL) {
        size_t given = ((const weir_caching_config *)config)->struct_size;
        if (given < sizeof(size_t) || given > sizeof(own)) {
            return WEIR_ERR_INVALID;
        }
        memcpy(&own, config, given);
    }
    *caching = (struct caching){
        .small_bytes = own.small_bytes != 0 ? own.small_bytes : DEFAULT_SMALL,
        .small_region_bytes = own.small_region_bytes != 0 ? own.small_region_bytes : DEFAULT_SMALL_REGION,
        .large_region_bytes = own.large_region_bytes != 0 ? own.large_region_bytes : DEFAULT_LARGE_REGION,
    };
    return WEIR_OK;
}

static void caching_fini(void *state)
{
    struct caching *caching = state;
    while (caching->first_region != NULL) {
        struct range_region *next = caching->first_region->next;
        free(caching->first_region);
        caching->first_region = next;
    }
    for (size_t lane = 0; lane < caching->lane_count; lane++) {
        free(caching->lanes[lane].index[SMALL]);
        free(caching->lanes[lane].index[LARGE]);
    }
    free(caching->lanes);
    weir__range_store_fini(&caching->store);
}

/* --- lanes --- */

static weir_status caching_lane_add(void *state, weir_lane number)
{
    struct caching *caching = state;
    if (number >= caching->lane_count) {
        size_t count = (size_t)number + 8;
        struct lane *lanes = realloc(caching->lanes, count * sizeof(*lanes));
        if (lanes == NULL) {
            return WEIR_ERR_NO_MEMORY;
        }
        memset(lanes + caching->lane_count, 0, (count - caching->lane_count) * sizeof(*lanes));
        caching->lanes = lanes;
        caching->lane_count = count;
    }
    struct lane *lane = &caching->lanes[number];
    for (int kind = 0; kind < KINDS; kind++) {
        if (lane->index[kind] == NULL) {
            lane->index[kind] = calloc(1, sizeof(*lane->index[kind]));
        }
    }
    return lane->index[SMALL] != NULL && lane->index[LARGE] != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static void link_by_tick(struct lane *lane, struct range *range)
{
    struct range *older = lane->newest;
    while (older != NULL && older->tick > range->tick) {
        older = older->older;
    }
    range->older = older;
    range->newer = older != NULL ? older->newer : lane->oldest;
    if (range->newer != NULL) {
        range->newer->older = range;
    } else {
        lane->newest = range;
    }
    if (older != NULL) {
        older->newer = range;
    } else {
        lane->oldest = range;
    }
}

static void unlink_by_tick(struct lane *lane, struct range *range)
{
    if (range->older != NULL) {
        range->older->newer = range->newer;
    } else {
        lane->oldest = range->newer;
    }
    if (range->newer != NULL) {
        range->newer->older = range->older;
    } else {
        lane->newest = range->older;
    }
}

static void lane_insert(struct caching *caching, struct range *range)
{
    struct lane *lane = &caching->lanes[range->lane];
    link_by_tick(lane, range);
    weir__range_index_insert(lane->index[range->region->kind], range);
    lane->ranges++;
    lane->bytes += range->size;
    range->region->free_bytes += range->size;
}

static void lane_remove(struct caching *caching, struct range *range)
{
    struct lane *lane = &caching->lanes[range->lane];
    unlink_by_tick(lane, range);
    weir__range_index_remove(lane->index[range->region->kind], range);
    lane->ranges--;
    lane->bytes -= range->size;
    range->region->free_bytes -= range->size;
}

/* --- neighbours --- */

static void unlink_neighbour(struct caching *caching, struct range *range)
{
    if (range->prev != NULL) {
        range->prev->next = range->next;
    } else {
        range->region->first = range->next;
    }
    if (range->next != NULL) {
        range->next->prev = range->prev;
    }
    weir__range_delete(&caching->store, range);
}

/* `range`, in no lane yet, swallows its upper neighbour. The later tick survives: with the earlier one, the whole
 * would be handed out while work on one part is still running. */
static void absorb_next(struct caching *caching, struct range *range)
{
    struct range *next = range->next;
    range->size += next->size;
    range->tick = next->tick > range->tick ? next->tick : range->tick;
    unlink_neighbour(caching, next);
}

static bool joins(const struct range *neighbour, const struct range *range)
{
    return neighbour != NULL && !neighbour->taken && neighbour->lane == range->lane;
}

/* Puts a range that is in no lane into its own, joined with its free neighbours there. */
static struct range *settle(struct caching *caching, struct range *range)
{
    range->taken = false;
    if (joins(range->next, range)) {
        lane_remove(caching, range->next);
        absorb_next(caching, range);
    }
    if (joins(range->prev, range)) {
        range = range->prev;
        lane_remove(caching, range);
        absorb_next(caching, range);
    }
    lane_insert(caching, range);
    return range;
}

/* Cuts `bytes` off the low end of a free range that is in no lane; the rest, a new range, keeps lane and tick. */
static struct range *split(struct caching *caching, struct range *range, uint64_t bytes)
{
    struct range *rest = weir__range_new(&caching->store);
    if (rest == NULL) {
        return NULL;
    }
    *rest = (struct range){
        .address = range->address + bytes,
        .size = range->size - bytes,
        .prev = range,
        .next = range->next,
        .tick = range->tick,
        .region = range->region,
        .lane = range->lane,
    };
    if (rest->next != NULL) {
        rest->next->prev = rest;
    }
    range->next = rest;
    range->size = bytes;
    return rest;
}

/* --- regions --- */

static bool eligible(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return !range->taken && range->lane < lanes && range->tick <= limits[range->lane];
}

/* As many whole requests as fit into `room`, or one more, whichever leaves the smaller share as a rest that no such
 * request fits: runs of equal sizes are what training and inference ask for. */
static uint64_t whole_requests(uint64_t need, uint64_t room, uint64_t granularity)
{
    const uint64_t count = room / need;
    const uint64_t fewer = round_up(count * need, granularity);
    const uint64_t more = round_up((count + 1) * need, granularity);
    const double rest_of_fewer = (double)(fewer - count * need) / (double)fewer;
    const double rest_of_more = (double)(more - (count + 1) * need) / (double)more;
    return rest_of_more < rest_of_fewer ? more : fewer;
}

/* Regions grow with the pool, so that a small pool stays small: a step is 1/8 of what is reserved, at most
 * large_region_bytes, and ends at a multiple of itself. Half of the largest step and more is taken as it is. */
static uint64_t caching_region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved,
                                    uint64_t granularity)
{
    const struct caching *caching = state;
    uint64_t need = round_up(size, RANGE_GRANULE) + (align > RANGE_GRANULE ? align : 0);
    if (kind_of(caching, size) == SMALL) {
        uint64_t region = caching->small_region_bytes;
        return round_up(need > region ? need : region, granularity);
    }
    uint64_t most = caching->large_region_bytes;
    uint64_t room = reserved / 8 < most ? reserved / 8 : most;
    if (need >= most / 2 || need >= room) {
        return round_up(need, granularity);
    }
    uint64_t to_multiple = room - reserved % room;
    return whole_requests(need, to_multiple >= need ? to_multiple : room, granularity);
}

static weir_status caching_region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                                      weir_tick tick, void **out)
{
    struct caching *caching = state;
    caching->gathered = NULL;
    struct range_region *region = calloc(1, sizeof(*region));
    struct range *range = weir__range_new(&caching->store);
    if (region == NULL || range == NULL) {
        free(region);
        if (range != NULL) {
            weir__range_delete(&caching->store, range);
        }
        return WEIR_ERR_NO_MEMORY;
    }
    *region = (struct range_region){
        .address = address,
        .size = size,
        .serial = caching->next_serial++,
        .first = range,
        .prev = caching->last_region,
        .kind = kind_of(caching, size_hint),
    };
    if (caching->last_region != NULL) {
        caching->last_region->next = region;
    } else {
        caching->first_region = region;
    }
    caching->last_region = region;
    caching->regions++;
    caching->region_bytes += size;
    *range = (struct range){ .address = address, .size = size, .region = region, .lane = lane, .tick = tick };
    lane_insert(caching, range);
    *out = region;
    return WEIR_OK;
}

static weir_status caching_region_remove(void *state, void *handle, const weir_tick *limits, size_t lanes)
{
    struct caching *caching = state;
    struct range_region *region = handle;
    caching->gathered = NULL;
    if (region->free_bytes != region->size) {
        return WEIR_ERR_BUSY;
    }
    for (const struct range *range = region->first; range != NULL; range = range->next) {
        if (!eligible(range, limits, lanes)) {
            return WEIR_ERR_BUSY;
        }
    }
    while (region->first != NULL) {
        lane_remove(caching, region->first);
        unlink_neighbour(caching, region->first);
    }
    if (region->prev != NULL) {
        region->prev->next = region->next;
    } else {
        caching->first_region = region->next;
    }
    if (region->next != NULL) {
        region->next->prev = region->prev;
    } else {
        caching->last_region = region->prev;
    }
    caching->regions--;
    caching->region_bytes -= region->size;
    free(region);
    return WEIR_OK;
}

/* --- ranges --- */

static weir_status caching_alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                                 weir_range *out)
{
    struct caching *caching = state;
    if (lane >= caching->lane_count || caching->lanes[lane].ranges == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    uint64_t bytes = round_up(size, RANGE_GRANULE);
    const struct range_index *index = caching->lanes[lane].index[kind_of(caching, size)];
    struct range *range = caching->gathered;
    if (range == NULL) {
        range = weir__range_index_find(index, bytes, align, limit);
    }
    caching->gathered = NULL;
    if (range == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    lane_remove(caching, range);
    uint64_t padding = range_padding(range, align);
    if (padding != 0) {
        struct range *aligned = split(caching, range, padding);
        lane_insert(caching, range);
        if (aligned == NULL) {
            return WEIR_ERR_INTERNAL;
        }
        range = aligned;
    }
    if (range->size > bytes) {
        struct range *rest = split(caching, range, bytes);
        if (rest == NULL) {
            (void)settle(caching, range);
            return WEIR_ERR_INTERNAL;
        }
        lane_insert(caching, rest);
    }
    range->taken = true;
    caching->taken_ranges++;
    caching->taken_bytes += range->size;
    *out = (weir_range){ range->address, range->size, range };
    return WEIR_OK;
}

static void caching_free(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct caching *caching = state;
    struct range *range = token;
    caching->gathered = NULL;
    caching->taken_ranges--;
    caching->taken_bytes -= range->size;
    range->lane = lane;
    range->tick = tick;
    (void)settle(caching, range);
}

static uint64_t caching_promote(void *state, weir_lane number, weir_tick limit)
{
    struct caching *caching = state;
    uint64_t moved = 0;
    caching->gathered = NULL;
    if (number == WEIR_LANE_OPEN || number >= caching->lane_count) {
        return 0;
    }
    struct lane *lane = &caching->lanes[number];
    while (lane->oldest != NULL && lane->oldest->tick <= limit) {
        struct range *range = lane->oldest;
        lane_remove(caching, range);
        moved += range->size;
        range->lane = WEIR_LANE_OPEN;
        range->tick = 0;
        (void)settle(caching, range);
    }
    return moved;
}

/* --- gather --- */

struct run {
    struct range *first;
    struct range *end; /* the range after the last, NULL at the region's end */
    uint64_t size;
};

/* The smallest run of eligible neighbours that holds the request. */
static bool best_run(const struct caching *caching, const weir_tick *limits, size_t lanes, uint64_t bytes,
                     uint64_t align, enum kind kind, struct run *best)
{
    best->first = NULL;
    for (struct range_region *region = caching->first_region; region != NULL; region = region->next) {
        if (region->kind != (unsigned)kind || region->free_bytes < bytes) {
            continue;
        }
        struct range *range = region->first;
        while (range != NULL) {
            if (!eligible(range, limits, lanes)) {
                range = range->next;
                continue;
            }
            struct run run = { .first = range, .end = range, .size = 0 };
            while (run.end != NULL && eligible(run.end, limits, lanes)) {
                run.size += run.end->size;
                run.end = run.end->next;
            }
            uint64_t padding = range_padding(run.first, align);
            if (run.size >= bytes && run.size - bytes >= padding && (best->first == NULL || run.size < best->size)) {
                *best = run;
            }
            range = run.end;
        }
    }
    return best->first != NULL;
}

/* Within one lane neighbours are joined already and alloc searches completely: without others there is nothing to gain. */
static bool others_hold_any(const struct caching *caching, weir_lane own)
{
    for (size_t lane = 0; lane < caching->lane_count; lane++) {
        if (lane != own && caching->lanes[lane].ranges != 0) {
            return true;
        }
    }
    return false;
}

/* The run becomes the lane's as of `tick`: the lane's stream is ordered after all of it. A neighbour in the same lane
 * with a later tick joins as in any free. */
static struct range *take_in(struct caching *caching, const struct run *run, weir_lane lane, weir_tick tick)
{
    struct range *whole = run->first;
    lane_remove(caching, whole);
    while (whole->next != run->end) {
        lane_remove(caching, whole->next);
        absorb_next(caching, whole);
    }
    whole->lane = lane;
    whole->tick = tick;
    return settle(caching, whole);
}

static bool caching_gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                           uint64_t size, uint64_t align, bool last_resort)
{
    struct caching *caching = state;
    struct run run = { 0 };
    const uint64_t bytes = round_up(size, RANGE_GRANULE);
    const enum kind kind = kind_of(caching, size);
    const enum kind other = kind == SMALL ? LARGE : SMALL;
    bool found = others_hold_any(caching, lane) && best_run(caching, limits, lanes, bytes, align, kind, &run);
    found = found || (last_resort && best_run(caching, limits, lanes, bytes, align, other, &run));
    caching->gathered = found ? take_in(caching, &run, lane, tick) : NULL;
    return found;
}

/* --- looking --- */

static void caching_walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct caching *caching = state;
    for (const struct range_region *region = caching->first_region; region != NULL; region = region->next) {
        for (struct range *range = region->first; range != NULL; range = range->next) {
            weir_range_info info = {
                .region_address = region->address,
                .region_size = region->size,
                .address = range->address,
                .size = range->size,
                .taken = range->taken,
                .lane = range->taken ? WEIR_LANE_OPEN : range->lane,
                .tick = range->taken ? 0 : range->tick,
                .token = range->taken ? range : NULL,
            };
            if (!visit(ctx, &info)) {
                return;
            }
        }
    }
}

static uint64_t largest_of_lane(const struct lane *lane)
{
    uint64_t largest = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t bytes = lane->index[kind] != NULL ? weir__range_index_largest(lane->index[kind]) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

static void caching_lane_stats(const void *state, weir_lane number, weir_lane_stats *stats)
{
    const struct caching *caching = state;
    *stats = (weir_lane_stats)WEIR_LANE_STATS_INIT;
    if (number < caching->lane_count) {
        const struct lane *lane = &caching->lanes[number];
        stats->ranges = lane->ranges;
        stats->bytes = lane->bytes;
        stats->largest_bytes = largest_of_lane(lane);
    }
}

static void caching_stats(const void *state, weir_strategy_stats *stats)
{
    const struct caching *caching = state;
    *stats = (weir_strategy_stats)WEIR_STRATEGY_STATS_INIT;
    stats->regions = caching->regions;
    stats->region_bytes = caching->region_bytes;
    stats->taken_ranges = caching->taken_ranges;
    stats->taken_bytes = caching->taken_bytes;
    for (size_t number = 0; number < caching->lane_count; number++) {
        const struct lane *lane = &caching->lanes[number];
        uint64_t largest = largest_of_lane(lane);
        stats->free_ranges += lane->ranges;
        stats->free_bytes += lane->bytes;
        stats->largest_free_bytes = largest > stats->largest_free_bytes ? largest : stats->largest_free_bytes;
    }
}

/* --- check --- */

#define REQUIRE(condition, sentence)                                                               \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return (sentence);                                                                     \
        }                                                                                          \
    } while (0)

struct totals {
    uint64_t regions;
    uint64_t bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges;
    uint64_t free_bytes;
};

static const char *check_range(const struct caching *caching, const struct range *range)
{
    REQUIRE(range->size > 0 && range->size % RANGE_GRANULE == 0, "a range is empty or no multiple of the granule");
    REQUIRE(range->next == NULL || range->next->prev == range, "a neighbour link does not lead back");
    REQUIRE(range->next == NULL || range->next->address == range->address + range->size,
            "ranges of a region leave a gap or overlap");
    if (range->taken) {
        return NULL;
    }
    REQUIRE(range->lane < caching->lane_count, "a free range is in a lane that does not exist");
    REQUIRE(range->next == NULL || range->next->taken || range->next->lane != range->lane,
            "two free neighbours of one lane have not merged");
    REQUIRE(weir__range_index_holds(caching->lanes[range->lane].index[range->region->kind], range),
            "a free range is not where the index looks for it");
    return NULL;
}

static const char *check_region(const struct caching *caching, const struct range_region *region,
                                struct totals *totals)
{
    uint64_t free_bytes = 0;
    uint64_t end = region->address;
    REQUIRE(region->first != NULL && region->first->prev == NULL, "a region's first range has a lower neighbour");
    for (const struct range *range = region->first; range != NULL; range = range->next) {
        const char *broken = check_range(caching, range);
        REQUIRE(broken == NULL, broken);
        REQUIRE(range->region == region && range->address == end, "a range lies outside its region");
        end += range->size;
        totals->taken_ranges += range->taken;
        totals->taken_bytes += range->taken ? range->size : 0;
        free_bytes += range->taken ? 0 : range->size;
    }
    REQUIRE(end == region->address + region->size, "ranges do not fill their region");
    REQUIRE(free_bytes == region->free_bytes, "a region's free bytes do not add up");
    totals->regions++;
    totals->bytes += region->size;
    totals->free_bytes += free_bytes;
    return NULL;
}

static const char *check_lane(const struct caching *caching, weir_lane number, struct totals *totals)
{
    const struct lane *lane = &caching->lanes[number];
    uint64_t ranges = 0;
    uint64_t bytes = 0;
    for (const struct range *range = lane->oldest; range != NULL; range = range->newer) {
        REQUIRE(!range->taken && range->lane == number, "a lane lists a range that is not free in it");
        REQUIRE(range->newer == NULL ? lane->newest == range : range->newer->older == range,
                "a lane's list by tick does not lead back");
        REQUIRE(range->newer == NULL || range->newer->tick >= range->tick, "a lane is not in order of ticks");
        ranges++;
        bytes += range->size;
    }
    REQUIRE(ranges == lane->ranges && bytes == lane->bytes, "a lane's counters do not add up");
    totals->free_ranges += ranges;
    return NULL;
}

static const char *first_broken_rule(const struct caching *caching)
{
    struct totals totals = { 0 };
    uint64_t lane_bytes = 0;
    for (const struct range_region *region = caching->first_region; region != NULL; region = region->next) {
        const char *broken = check_region(caching, region, &totals);
        REQUIRE(broken == NULL, broken);
    }
    for (size_t lane = 0; lane < caching->lane_count; lane++) {
        const char *broken = check_lane(caching, (weir_lane)lane, &totals);
        REQUIRE(broken == NULL, broken);
        lane_bytes += caching->lanes[lane].bytes;
    }
    REQUIRE(lane_bytes == totals.free_bytes, "free ranges and lanes hold different sums");
    REQUIRE(totals.regions == caching->regions && totals.bytes == caching->region_bytes,
            "the region counters do not add up");
    REQUIRE(totals.taken_ranges == caching->taken_ranges && totals.taken_bytes == caching->taken_bytes,
            "the taken counters do not add up");
    return NULL;
}

static weir_status caching_check(const void *state, const char **why)
{
    const char *broken = first_broken_rule(state);
    if (broken != NULL && why != NULL) {
        *why = broken;
    }
    return broken == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}

const weir_strategy_ops *weir_caching_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(ops),
        .name = "caching",
        .granule_bytes = RANGE_GRANULE,
        .state_size = caching_state_size,
        .init = caching_init,
        .fini = caching_fini,
        .lane_add = caching_lane_add,
        .region_size = caching_region_size,
        .region_add = caching_region_add,
        .region_remove = caching_region_remove,
        .alloc = caching_alloc,
        .free = caching_free,
        .promote = caching_promote,
        .gather = caching_gather,
        .walk = caching_walk,
        .check = caching_check,
        .stats = caching_stats,
        .lane_stats = caching_lane_stats,
    };
    return &ops;
}
