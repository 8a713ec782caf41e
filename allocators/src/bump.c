/* allocators/src/bump.c: the strategy bump, a bump pointer over chunks.
 *
 * Idea: a chunk is a region. A lane takes blocks from the low end of one free piece, its `current`, one after the
 * other. Blocks that are allocated together lie together, so blocks that are released together leave a whole chunk. A
 * freed block merges with its free neighbours of the same lane, including the free end above it: so the bump pointer
 * goes down if blocks are freed in reverse order. A chunk with all its blocks freed in one lane is therefore one piece
 * again, with the latest tick of all its frees, and no pass over its blocks is needed. If the blocks were freed in
 * several lanes, gather joins the chunk for a lane that may have each part.
 *
 * A lane with a current piece that is too small moves to the smallest free *place* that holds the request, as far as a
 * few probes show. A place is a wholly free chunk, or a hole of at least 64 KiB or an eighth of the smallest chunk so
 * far (Immix bumps into holes between live data too, Blackburn and McKinley, PLDI 2008). Smaller holes are *crumbs*:
 * alloc ignores them until they merge with neighbours.
 *
 * Chunks and pieces are the regions and ranges of ranges.h. A lane's `current` is the record of a range that was free
 * in the lane when it was stored. Records live until fini, so the state of the record tells if the range is still free
 * in the lane. If the record serves another free range of the lane by then, that range is as good.
 *
 * Guarantee: alloc refuses only if neither a place of the lane nor its current piece holds the request. gather as a
 * last resort refuses only if no run of usable pieces holds it, crumbs included.
 *
 * Waste. Inside a block: below one granule (512 bytes). At the end of a chunk: less than a quarter of the chunk,
 * because the rest is smaller than the request that did not fit, and a request of a quarter of a chunk or more gets its
 * own chunk; a rest of at least 64 KiB is a place for smaller requests. Between blocks: no bound. One block that
 * outlives its neighbours keeps its chunk from being returned, and crumbs beside it, up to 64 KiB between any two
 * blocks, wait for the last resort: do not use this strategy for unrelated lifetimes. This file keeps chunks that are
 * wholly free. The pool bounds them: it returns them when it trims, and before it grows it returns idle ones
 * (core/src/memory/region.c), so it holds no more than a peak needed.
 *
 * Cost: that of ranges.h; alloc and free are constant. gather is linear in the pieces, and constant if the requesting
 * lane holds all free memory. Host memory: 64 bytes per block or free piece, 18 KiB per lane.
 *
 * Counters: free_bytes and largest_free_bytes of stats; the pool's served[] by rung.
 */
#include <weir/bump.h>

#include <stdlib.h>

#include "ranges.h"
#include "tuning.h"

static const enum range_kind chunk_kind = RANGE_SMALL; /* chunks are of one kind */

struct bump {
    struct ranges ranges;   /* must be the first member: most of the strategy's functions take a struct ranges */
    struct range **current; /* for each lane, the record of its bump range, or NULL */
    size_t lane_count;
    uint64_t least_place;
    uint64_t fixed_chunk; /* 0: chunks grow with the pool */
};

/* --- life --- */

static size_t bump_state_size(const void *config)
{
    (void)config;
    return sizeof(struct bump);
}

static weir_status bump_init(void *state, const void *config)
{
    struct bump *bump = state;
    weir_bump_config own;
    static const weir_bump_config defaults = WEIR_BUMP_CONFIG_INIT;
    weir_status status =
        weir_struct_adopt(&own, sizeof(own), config != NULL ? config : &defaults, "weir_pool_create: weir_bump_config");
    if (status != WEIR_OK) {
        return status;
    }
    *bump = (struct bump){.least_place = least_hole_bytes, .fixed_chunk = own.chunk_bytes};
    return WEIR_OK;
}

static void bump_fini(void *state)
{
    struct bump *bump = state;
    free(bump->current);
    weir_ranges_fini(state);
}

static weir_status bump_lane_add(void *state, weir_lane lane)
{
    WEIR_ASSERT(((struct bump *)state)->lane_count <= ((struct bump *)state)->ranges.lane_count);
    struct bump *bump = state;
    weir_status status = weir_ranges_lane_add(state, lane);
    const size_t count = bump->ranges.lane_count;
    if (status != WEIR_OK || bump->lane_count == count) {
        return status;
    }
    struct range **current = realloc(bump->current, count * sizeof(*current));
    if (current == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    bump->current = current;
    while (bump->lane_count < count) {
        current[bump->lane_count++] = NULL;
    }
    return WEIR_OK;
}

/* --- chunks --- */

static uint64_t bump_region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved,
                                 uint64_t granularity)
{
    const struct bump *bump = state;
    const uint64_t need = range_need(size, align);
    uint64_t chunk = reserved / chunk_share;
    chunk = chunk < least_chunk_bytes ? least_chunk_bytes : chunk;
    chunk = chunk > most_chunk_bytes ? most_chunk_bytes : chunk;
    chunk = bump->fixed_chunk != 0 ? bump->fixed_chunk : chunk;
    return range_round_up(need < chunk / own_chunk_share ? chunk : need, granularity);
}

static weir_status bump_region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                                   weir_tick tick, void **out)
{
    struct bump *bump = state;
    (void)size_hint;
    bump->least_place = size / hole_share < bump->least_place ? size / hole_share : bump->least_place;
    return weir_ranges_region_add(state, chunk_kind, address, size, lane, tick, out);
}

/* --- ranges --- */

static bool is_free_in(const struct range *range, weir_lane lane)
{
    return range_state(range) == range_free_state(lane, chunk_kind);
}

/* Returns the bump range of the lane; NULL if there is none. */
static struct range *current_of(const struct bump *bump, weir_lane lane)
{
    struct range *range = lane < bump->lane_count ? bump->current[lane] : NULL;
    return range != NULL && is_free_in(range, lane) ? range : NULL;
}

static bool serves(const struct range *range, weir_tick limit, uint64_t bytes, uint64_t align)
{
    WEIR_ASSERT(range_is_free(range) && bytes % RANGE_GRANULE == 0);
    return range->record.as.free.tick <= limit && range->record.size >= bytes &&
           range->record.size - bytes >= range_padding(range, align);
}

/* Returns the gathered range if gather was the last call, else the bump range of the lane if it holds the request. Else
 * returns the smallest hole or empty chunk that holds the request, so that empty chunks stay empty as long as
 * possible. */
static struct range *find(struct bump *bump, weir_lane lane, weir_tick limit, uint64_t bytes, uint64_t align)
{
    WEIR_ASSERT(bytes != 0 && bytes % RANGE_GRANULE == 0);
    struct range *range = weir__ranges_take_gathered(&bump->ranges, lane, limit, bytes, align);
    if (range == NULL) {
        range = current_of(bump, lane);
        range = range != NULL && serves(range, limit, bytes, align) ? range : NULL;
    }
    return range != NULL ? range
                         : weir__ranges_find(&bump->ranges, chunk_kind, lane, limit, bytes, align, bump->least_place);
}

static weir_status bump_alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                              weir_range *out)
{
    struct bump *bump = state;
    const uint64_t bytes = range_round_up(size, RANGE_GRANULE);
    struct range *range = find(bump, lane, limit, bytes, align);
    if (range == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct range *block = weir__ranges_cut(&bump->ranges, range, bytes, align, false);
    if (block == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    WEIR_ASSERT(block->record.size >= bytes);
    weir__ranges_hand_out(&bump->ranges, block, out);
    /* The free end above the block becomes the bump range of the lane (`current`), unless `current` lies elsewhere and
     * is larger. */
    const struct range *current = current_of(bump, lane);
    struct range *above = block->next;
    if (is_free_in(above, lane) && (current == NULL || current == range || above->record.size > current->record.size)) {
        bump->current[lane] = above;
    }
    return WEIR_OK;
}

/* Frees a block. If the lane's bump range (`current`) lies beside it, the two merge, which lowers the bump pointer. If
 * all blocks of a chunk are free in one lane, the chunk is one range again, with the latest of their ticks. */
static void bump_free(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct bump *bump = state;
    struct range *block = token;
    const struct range *current = current_of(bump, lane);
    const bool bumping = current != NULL && (block->next == current || block->prev == current);
    struct range *whole = weir__ranges_free(&bump->ranges, block, lane, tick);
    WEIR_ASSERT(is_free_in(whole, lane));
    if (bumping) {
        WEIR_ASSERT(lane < bump->lane_count);
        bump->current[lane] = whole;
    }
}

/* Gathers a run of free ranges. alloc has searched all ranges of the lane of at least least_place bytes. So if no other
 * lane holds memory, only crumbs (smaller free ranges) are left to gather. */
static bool bump_gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                        uint64_t size, uint64_t align, bool last_resort)
{
    struct bump *bump = state;
    const struct range_wish wish = {
        .lane = lane,
        .tick = tick,
        .limits = limits,
        .lanes = lanes,
        .bytes = range_round_up(size, RANGE_GRANULE),
        .align = align,
        .unit = 1,
        .least = last_resort ? 0 : bump->least_place,
    };
    return weir__ranges_gather_for_alloc(&bump->ranges, chunk_kind, &wish, last_resort);
}

const weir_strategy_ops *weir_bump_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(ops),
        .name = "bump",
        .granule_bytes = RANGE_GRANULE,
        .state_size = bump_state_size,
        .init = bump_init,
        .fini = bump_fini,
        .lane_add = bump_lane_add,
        .region_size = bump_region_size,
        .region_add = bump_region_add,
        .region_remove = weir_ranges_region_remove,
        .region_idle = weir_ranges_region_idle,
        .alloc = bump_alloc,
        .free = bump_free,
        .promote = weir_ranges_promote,
        .gather = bump_gather,
        .walk = weir_ranges_walk,
        .check = weir_ranges_check,
        .stats = weir_ranges_stats,
        .lane_stats = weir_ranges_lane_stats,
        .walk_large = weir_ranges_walk_large,
    };
    return &ops;
}
