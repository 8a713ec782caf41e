/* first_fit.c: the first free range that holds the request.
 *
 * Idea: the ranges of each region stand in a list, in the order of their addresses. A request takes the low end of the first
 * free range that is large enough; a free range joins its free neighbours of the same lane at once.
 * Guarantee: refuses only when no free range of the lane holds the request.
 * Cost: alloc is linear in the number of ranges, free is constant.
 * Waste: below one granule a block inside; between blocks, as first fit has it.
 */
#include "first_fit.h"

#include <stdlib.h>

#define GRANULE UINT64_C(512)

struct range {
    struct range *previous; /* its neighbours in the region, NULL at the ends */
    struct range *next;
    struct region *region;
    uint64_t address;
    uint64_t size;
    bool taken;
    weir_lane lane; /* of a free range */
    weir_tick tick; /* of the latest free in it; 0 in the open lane */
};

struct region {
    struct region *previous;
    struct region *next;
    struct range *first; /* its ranges tile it */
    uint64_t address;
    uint64_t size;
};

struct first_fit {
    struct region *first; /* in the order in which they were added */
    struct region *last;
};

static size_t state_size(const void *config)
{
    (void)config;
    return sizeof(struct first_fit);
}

static weir_status init(void *state, const void *config)
{
    (void)state; /* zeroed by the pool */
    return config == NULL ? WEIR_OK : WEIR_ERR_INVALID;
}

static void free_region(struct region *region)
{
    while (region->first != NULL) {
        struct range *range = region->first;
        region->first = range->next;
        free(range);
    }
    free(region);
}

static void fini(void *state)
{
    struct first_fit *all = state;
    while (all->first != NULL) {
        struct region *region = all->first;
        all->first = region->next;
        free_region(region);
    }
    all->last = NULL;
}

/* --- ranges --- */

static uint64_t round_up(uint64_t size, uint64_t step)
{
    return size > UINT64_MAX - (step - 1) ? UINT64_MAX & ~(step - 1) : (size + step - 1) & ~(step - 1);
}

static uint64_t end_of(const struct range *range)
{
    return range->address + range->size;
}

static void set_free(struct range *range, weir_lane lane, weir_tick tick)
{
    range->taken = false;
    range->lane = lane;
    range->tick = lane == WEIR_LANE_OPEN ? 0 : tick;
}

/* Makes one range of two neighbours. Rule 3: the later tick stays, or memory that is in use is handed out. */
static void absorb_next(struct range *range)
{
    struct range *next = range->next;
    range->size += next->size;
    range->tick = next->tick > range->tick ? next->tick : range->tick;
    range->next = next->next;
    if (next->next != NULL) {
        next->next->previous = range;
    }
    free(next);
}

static bool join(const struct range *range, const struct range *next)
{
    return range != NULL && next != NULL && !range->taken && !next->taken && range->lane == next->lane;
}

static struct range *join_neighbours(struct range *range)
{
    if (join(range, range->next)) {
        absorb_next(range);
    }
    if (join(range->previous, range)) {
        range = range->previous;
        absorb_next(range);
    }
    return range;
}

/* Cuts a free range at `at`, inside it: `upper` is the record of what lies above. Rule 4: it keeps lane and tick. */
static void cut(struct range *range, uint64_t at, struct range *upper)
{
    *upper = *range;
    upper->address = at;
    upper->size = end_of(range) - at;
    upper->previous = range;
    range->size = at - range->address;
    if (range->next != NULL) {
        range->next->previous = upper;
    }
    range->next = upper;
}

/* --- regions --- */

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    (void)state, (void)reserved;
    uint64_t need = round_up(size, GRANULE);
    need = align > GRANULE && need <= UINT64_MAX - align ? need + align : need; /* a region may start anywhere */
    return round_up(need < UINT64_C(8) << 20 ? UINT64_C(8) << 20 : need, granularity);
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **out)
{
    (void)size_hint;
    struct first_fit *all = state;
    struct region *region = malloc(sizeof(*region));
    struct range *range = malloc(sizeof(*range));
    if (region == NULL || range == NULL) {
        free(region);
        free(range);
        return WEIR_ERR_NO_MEMORY;
    }
    *range = (struct range){ .region = region, .address = address, .size = size };
    set_free(range, lane, tick);
    *region = (struct region){ .previous = all->last, .first = range, .address = address, .size = size };
    if (all->last != NULL) {
        all->last->next = region;
    } else {
        all->first = region;
    }
    all->last = region;
    *out = region;
    return WEIR_OK;
}

/* Whether nobody's work can touch a free range any more. */
static bool is_done(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return !range->taken && range->lane < lanes && range->tick <= limits[range->lane];
}

static weir_status region_remove(void *state, void *named, const weir_tick *limits, size_t lanes)
{
    struct first_fit *all = state;
    struct region *region = named;
    for (const struct range *range = region->first; range != NULL; range = range->next) {
        if (!is_done(range, limits, lanes)) {
            return WEIR_ERR_BUSY;
        }
    }
    *(region->previous != NULL ? &region->previous->next : &all->first) = region->next;
    *(region->next != NULL ? &region->next->previous : &all->last) = region->previous;
    free_region(region);
    return WEIR_OK;
}

/* --- blocks --- */

/* Where a request starts in [address, end), or UINT64_MAX. */
static uint64_t place(uint64_t address, uint64_t end, uint64_t size, uint64_t align)
{
    uint64_t start = round_up(address, align > GRANULE ? align : GRANULE);
    return start >= address && start <= end && end - start >= size ? start : UINT64_MAX;
}

static weir_status take(struct range *range, uint64_t start, uint64_t size, weir_range *out)
{
    struct range *upper = start > range->address ? malloc(sizeof(*upper)) : range;
    struct range *rest = start + size < end_of(range) ? malloc(sizeof(*rest)) : range;
    if (upper == NULL || rest == NULL) { /* nothing has changed yet */
        free(upper != range ? upper : NULL);
        free(rest != range ? rest : NULL);
        return WEIR_ERR_INTERNAL;
    }
    if (upper != range) {
        cut(range, start, upper);
    }
    if (rest != range) {
        cut(upper, start + size, rest);
    }
    upper->taken = true;
    *out = (weir_range){ .address = start, .size = size, .token = upper };
    return WEIR_OK;
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *out)
{
    const struct first_fit *all = state;
    size = round_up(size, GRANULE);
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        for (struct range *range = region->first; range != NULL; range = range->next) {
            if (range->taken || range->lane != lane || range->tick > limit) {
                continue;
            }
            uint64_t start = place(range->address, end_of(range), size, align);
            if (start != UINT64_MAX) {
                return take(range, start, size, out);
            }
        }
    }
    return WEIR_ERR_NO_MEMORY;
}

static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    (void)state;
    struct range *range = token;
    set_free(range, lane, tick);
    join_neighbours(range);
}

/* What was freed in the lane up to the limit is everybody's now. */
static uint64_t promote(void *state, weir_lane lane, weir_tick limit)
{
    const struct first_fit *all = state;
    uint64_t moved = 0;
    if (lane == WEIR_LANE_OPEN) {
        return 0;
    }
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        for (struct range *range = region->first; range != NULL; range = range->next) {
            if (!range->taken && range->lane == lane && range->tick <= limit) {
                moved += range->size;
                set_free(range, WEIR_LANE_OPEN, 0);
                range = join_neighbours(range);
            }
        }
    }
    return moved;
}

/* Free neighbours of whatever lanes, from `first` up to `end`, become one range of this lane. Ticks of other lanes are other
 * streams' and end here: `tick` covers them. What was this lane's own may have a later one. */
static void join_run(struct range *first, uint64_t end, weir_lane lane, weir_tick tick)
{
    for (const struct range *range = first; range != NULL && range->address < end; range = range->next) {
        if (range->lane == lane && range->tick > tick) {
            tick = range->tick;
        }
    }
    while (end_of(first) < end) {
        absorb_next(first);
    }
    set_free(first, lane, tick);
    join_neighbours(first);
}

static bool gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align, bool last_resort)
{
    (void)last_resort; /* nothing is set apart */
    const struct first_fit *all = state;
    size = round_up(size, GRANULE);
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        struct range *first = NULL; /* of the run of ranges that anyone may have */
        for (struct range *range = region->first; range != NULL; range = range->next) {
            if (!is_done(range, limits, lanes)) {
                first = NULL;
                continue;
            }
            first = first != NULL ? first : range;
            if (place(first->address, end_of(range), size, align) != UINT64_MAX) {
                join_run(first, end_of(range), lane, tick);
                return true;
            }
        }
    }
    return false;
}

/* --- visits and proofs --- */

static void walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct first_fit *all = state;
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        for (struct range *range = region->first; range != NULL; range = range->next) {
            const weir_range_info info = {
                .region_address = region->address,
                .region_size = region->size,
                .address = range->address,
                .size = range->size,
                .taken = range->taken,
                .lane = range->taken ? 0 : range->lane,
                .tick = range->taken ? 0 : range->tick,
                .token = range->taken ? range : NULL,
            };
            if (!visit(ctx, &info)) {
                return;
            }
        }
    }
}

static weir_status check(const void *state, const char **why)
{
    const struct first_fit *all = state;
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        uint64_t at = region->address;
        for (const struct range *range = region->first; range != NULL; range = range->next) {
            if (range->address != at || range->size == 0 || range->size % GRANULE != 0 || join(range, range->next)) {
                if (why != NULL) {
                    *why = "first_fit: ranges do not tile their region, or free neighbours are two";
                }
                return WEIR_ERR_INTERNAL;
            }
            at = end_of(range);
        }
        if (at != region->address + region->size) {
            if (why != NULL) {
                *why = "first_fit: a region ends before or behind its last range";
            }
            return WEIR_ERR_INTERNAL;
        }
    }
    return WEIR_OK;
}

static void stats(const void *state, weir_strategy_stats *out)
{
    const struct first_fit *all = state;
    const size_t struct_size = out->struct_size;
    *out = (weir_strategy_stats){ .struct_size = struct_size };
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        out->regions++;
        out->region_bytes += region->size;
        for (const struct range *range = region->first; range != NULL; range = range->next) {
            if (range->taken) {
                out->taken_ranges++;
                out->taken_bytes += range->size;
            } else {
                out->free_ranges++;
                out->free_bytes += range->size;
                out->largest_free_bytes = range->size > out->largest_free_bytes ? range->size : out->largest_free_bytes;
            }
        }
    }
}

static void lane_stats(const void *state, weir_lane lane, weir_lane_stats *out)
{
    const struct first_fit *all = state;
    const size_t struct_size = out->struct_size;
    *out = (weir_lane_stats){ .struct_size = struct_size };
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        for (const struct range *range = region->first; range != NULL; range = range->next) {
            if (!range->taken && range->lane == lane) {
                out->ranges++;
                out->bytes += range->size;
                out->largest_bytes = range->size > out->largest_bytes ? range->size : out->largest_bytes;
            }
        }
    }
}

const weir_strategy_ops *first_fit_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(weir_strategy_ops),
        .name = "first_fit",
        .granule_bytes = GRANULE,
        .state_size = state_size,
        .init = init,
        .fini = fini,
        .region_size = region_size,
        .region_add = region_add,
        .region_remove = region_remove,
        .alloc = alloc,
        .free = free_range,
        .promote = promote,
        .gather = gather,
        .walk = walk,
        .check = check,
        .stats = stats,
        .lane_stats = lane_stats,
    };
    return &ops;
}
