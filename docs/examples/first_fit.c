/* first_fit.c: a strategy that takes the first free range that holds the request.
 *
 * Idea: the ranges of each region stand in a list, in the order of their addresses. A request takes the low end of the
 * first free range that is large enough. A free range merges with its free neighbours of the same lane at once.
 * Guarantee: refuses only when no free range of the lane holds the request.
 * Cost: alloc is linear in the number of ranges, free is constant.
 * Waste: below one granule a block inside; between blocks, as first fit has it.
 */
#include "first_fit.h"

#include <stdlib.h>

#define GRANULE UINT64_C(512)

struct range {
    weir_record record;     /* first: a token is its address */
    struct range *previous; /* its neighbours in the region, NULL at the ends */
    struct range *next;
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
    struct range *unused; /* linked by next: the memory of a record lives until fini */
};

static size_t state_size(const void *config)
{
    (void)config;
    return sizeof(struct first_fit);
}

static weir_status init(void *state, const void *config)
{
    (void)state; /* the pool has zeroed it */
    return config == NULL ? WEIR_OK : WEIR_ERR_INVALID;
}

static void free_ranges(struct range *range)
{
    while (range != NULL) {
        struct range *next = range->next;
        free(range);
        range = next;
    }
}

static void fini(void *state)
{
    struct first_fit *all = state;
    while (all->first != NULL) {
        struct region *next = all->first->next;
        free_ranges(all->first->first);
        free(all->first);
        all->first = next;
    }
    free_ranges(all->unused);
}

/* --- ranges --- */

static uint64_t round_up(uint64_t size, uint64_t step)
{
    return size > UINT64_MAX - (step - 1) ? UINT64_MAX & ~(step - 1) : (size + step - 1) & ~(step - 1);
}

static uint64_t end_of(const struct range *range)
{
    return range->record.address + range->record.size;
}

/* Reads atomically: the pool may write the state of a taken range at the same time. */
static uint32_t state_of(const struct range *range)
{
    return __atomic_load_n(&range->record.state, __ATOMIC_RELAXED);
}

static void set_state(struct range *range, uint32_t state)
{
    __atomic_store_n(&range->record.state, state, __ATOMIC_RELAXED);
}

static bool is_taken(const struct range *range)
{
    return (state_of(range) & WEIR_RECORD_TAKEN) != 0;
}

/* The state of a free range is its lane. */
static bool is_free_in(const struct range *range, weir_lane lane)
{
    return state_of(range) == lane;
}

static void set_free(struct range *range, weir_lane lane, weir_tick tick)
{
    set_state(range, lane);
    range->record.as.free.tick = lane == WEIR_LANE_OPEN ? 0 : tick;
}

static struct range *new_range(struct first_fit *all)
{
    struct range *range = all->unused;
    if (range == NULL) {
        return calloc(1, sizeof(*range));
    }
    all->unused = range->next;
    return range;
}

static void forget_range(struct first_fit *all, struct range *range)
{
    if (range != NULL) {
        range->next = all->unused;
        all->unused = range;
    }
}

/* Merges a range with the next one. Rule 3: it keeps the later tick, or memory in use would be handed out. */
static void absorb_next(struct first_fit *all, struct range *range)
{
    struct range *next = range->next;
    const weir_tick tick = next->record.as.free.tick;
    range->record.size += next->record.size;
    range->record.as.free.tick = tick > range->record.as.free.tick ? tick : range->record.as.free.tick;
    range->next = next->next;
    if (next->next != NULL) {
        next->next->previous = range;
    }
    forget_range(all, next);
}

static bool join(const struct range *range, const struct range *next)
{
    return range != NULL && next != NULL && !is_taken(range) && state_of(range) == state_of(next);
}

static struct range *join_neighbours(struct first_fit *all, struct range *range)
{
    if (join(range, range->next)) {
        absorb_next(all, range);
    }
    if (join(range->previous, range)) {
        range = range->previous;
        absorb_next(all, range);
    }
    return range;
}

/* Splits a free range at the address `at` inside it. `upper` becomes the upper part. Rule 4: it keeps lane and tick. */
static void cut(struct range *range, uint64_t at, struct range *upper)
{
    upper->record.address = at;
    upper->record.size = end_of(range) - at;
    set_free(upper, state_of(range), range->record.as.free.tick);
    range->record.size = at - range->record.address;
    upper->previous = range;
    upper->next = range->next;
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
    struct range *range = new_range(all);
    if (region == NULL || range == NULL) {
        free(region);
        forget_range(all, range);
        return WEIR_ERR_NO_MEMORY;
    }
    range->record.address = address;
    range->record.size = size;
    range->previous = range->next = NULL;
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

/* True if the range is free and its tick is at or below the limit of its lane. */
static bool is_done(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return !is_taken(range) && state_of(range) < lanes && range->record.as.free.tick <= limits[state_of(range)];
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
    while (region->first != NULL) {
        struct range *range = region->first;
        region->first = range->next;
        forget_range(all, range);
    }
    free(region);
    return WEIR_OK;
}

/* --- blocks --- */

/* Returns the start of an aligned request in [address, end), or UINT64_MAX if it does not fit. */
static uint64_t place(uint64_t address, uint64_t end, uint64_t size, uint64_t align)
{
    uint64_t start = round_up(address, align > GRANULE ? align : GRANULE);
    return start >= address && start <= end && end - start >= size ? start : UINT64_MAX;
}

static weir_status take(struct first_fit *all, struct range *range, uint64_t start, uint64_t size, weir_range *out)
{
    struct range *upper = start > range->record.address ? new_range(all) : range;
    struct range *rest = start + size < end_of(range) ? new_range(all) : range;
    if (upper == NULL || rest == NULL) { /* nothing has changed yet */
        forget_range(all, upper != range ? upper : NULL);
        forget_range(all, rest != range ? rest : NULL);
        return WEIR_ERR_INTERNAL;
    }
    if (upper != range) {
        cut(range, start, upper);
    }
    if (rest != range) {
        cut(upper, start + size, rest);
    }
    set_state(upper, WEIR_RECORD_TAKEN); /* the pool owns `state` and `as.pool` until the free */
    *out = (weir_range){ .address = start, .size = size, .token = upper };
    return WEIR_OK;
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *out)
{
    struct first_fit *all = state;
    size = round_up(size, GRANULE);
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        for (struct range *range = region->first; range != NULL; range = range->next) {
            if (!is_free_in(range, lane) || range->record.as.free.tick > limit) {
                continue;
            }
            uint64_t start = place(range->record.address, end_of(range), size, align);
            if (start != UINT64_MAX) {
                return take(all, range, start, size, out);
            }
        }
    }
    return WEIR_ERR_NO_MEMORY;
}

static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct range *range = token;
    set_free(range, lane, tick);
    join_neighbours(state, range);
}

/* Moves the ranges that were freed in the lane up to the limit to the open lane, which every stream may use. */
static uint64_t promote(void *state, weir_lane lane, weir_tick limit)
{
    struct first_fit *all = state;
    uint64_t moved = 0;
    if (lane == WEIR_LANE_OPEN) {
        return 0;
    }
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        for (struct range *range = region->first; range != NULL; range = range->next) {
            if (is_free_in(range, lane) && range->record.as.free.tick <= limit) {
                moved += range->record.size;
                set_free(range, WEIR_LANE_OPEN, 0);
                range = join_neighbours(all, range);
            }
        }
    }
    return moved;
}

/* Merges the free ranges from `first` up to `end`, of any lanes, into one range of this lane. The ticks of other lanes
 * belong to other streams and are dropped: `tick` covers them. A range of this lane may have a later tick. */
static void join_run(struct first_fit *all, struct range *first, uint64_t end, weir_lane lane, weir_tick tick)
{
    for (const struct range *range = first; range != NULL && range->record.address < end; range = range->next) {
        if (is_free_in(range, lane) && range->record.as.free.tick > tick) {
            tick = range->record.as.free.tick;
        }
    }
    while (end_of(first) < end) {
        absorb_next(all, first);
    }
    set_free(first, lane, tick);
    join_neighbours(all, first);
}

static bool gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align, bool last_resort)
{
    (void)last_resort; /* this strategy sets no memory apart for other kinds of requests */
    struct first_fit *all = state;
    size = round_up(size, GRANULE);
    for (const struct region *region = all->first; region != NULL; region = region->next) {
        struct range *first = NULL; /* first range of a run that the request may use */
        for (struct range *range = region->first; range != NULL; range = range->next) {
            if (!is_done(range, limits, lanes)) {
                first = NULL;
                continue;
            }
            first = first != NULL ? first : range;
            if (place(first->record.address, end_of(range), size, align) != UINT64_MAX) {
                join_run(all, first, end_of(range), lane, tick);
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
                .address = range->record.address,
                .size = range->record.size,
                .taken = is_taken(range),
                .lane = is_taken(range) ? 0 : state_of(range),
                .tick = is_taken(range) ? 0 : range->record.as.free.tick,
                .token = is_taken(range) ? range : NULL,
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
            if (range->record.address != at || range->record.size == 0 || range->record.size % GRANULE != 0 ||
                join(range, range->next)) {
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
            const uint64_t size = range->record.size;
            if (is_taken(range)) {
                out->taken_ranges++;
                out->taken_bytes += size;
            } else {
                out->free_ranges++;
                out->free_bytes += size;
                out->largest_free_bytes = size > out->largest_free_bytes ? size : out->largest_free_bytes;
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
            if (is_free_in(range, lane)) {
                out->ranges++;
                out->bytes += range->record.size;
                out->largest_bytes =
                    range->record.size > out->largest_bytes ? range->record.size : out->largest_bytes;
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
