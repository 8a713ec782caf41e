/* direct.c: a strategy with one region per block.
 *
 * Idea: the pool grows by exactly one region for a request (region_size: the request rounded up to the device's
 * granularity) and alloc hands out the whole region. A freed region stays free until the pool returns it.
 * Guarantee: a region is only ever handed out for requests of the size that it was taken for, to the lane that it is
 * free in; it is never split, merged or lent to another lane.
 * Cost: O(log n) for n free regions of one lane, and a step for each free region that is less than the device's
 * granularity larger than the request; n is small because regions are returned at once.
 * Waste: less than the device's granularity in each block, none between blocks.
 * Counters: the pool's region_allocs and region_frees, and the time that they took.
 *
 * A region that is still free when the same lane requests the same size again (the device refused to take the region
 * back, or work on it is pending) is reused: a refusal would turn such a failure into an out-of-memory. The device
 * chooses the address of a region. A stricter alignment is refused unless the region happens to have it.
 */
#include "direct.h"

#include "segments.h"

struct model {
    /* first member: the functions of segments.h in the strategy's table cast the state to struct segments */
    struct segments segments;
    uint64_t most_slack; /* the largest difference so far between the size of a region and the size of its request */
};

static size_t state_size(const void *config)
{
    (void)config;
    return sizeof(struct model);
}

static weir_status init(void *state, const void *config)
{
    (void)state;
    return config == NULL ? WEIR_OK : WEIR_ERR_INVALID;
}

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    (void)state;
    (void)align;
    (void)reserved;
    uint64_t step = granularity > SEGMENT_GRANULE ? granularity : SEGMENT_GRANULE;
    uint64_t most = UINT64_MAX & ~(step - 1);
    return size > most ? most : (size + step - 1) & ~(step - 1);
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **out)
{
    struct model *model = state;
    const struct segment segment = {.address = address, .size = size, .hint = size_hint, .lane = lane};
    const weir_status status = segments_add(&model->segments, &segment, tick, out);
    if (status == WEIR_OK && size > size_hint && size - size_hint > model->most_slack) {
        model->most_slack = size - size_hint;
    }
    return status;
}

static bool serves(const struct segment_block *block, weir_tick limit, uint64_t size, uint64_t align)
{
    return block->segment->hint == size && block->tick <= limit && (block->node.address & (align - 1)) == 0;
}

/* A region that was added for a request of this size is larger by at most most_slack, which bounds the search. */
static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    struct model *model = state;
    struct segment_block *block = segments_find(&model->segments, lane, 0, size);
    while (block != NULL && !serves(block, limit, size, align)) {
        block = block->node.size - size <= model->most_slack ? segments_next(block) : NULL;
    }
    if (block == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    segments_unfile(&model->segments, block);
    segments_hand_out(&model->segments, block, range);
    return WEIR_OK;
}

/* A block is a whole region: its free moves the region to `lane`, the free regions of one stream. */
static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct segment_block *block = token;
    block->segment->lane = lane;
    segments_free(state, block, lane == WEIR_LANE_OPEN ? 0 : tick);
}

const weir_strategy_ops *model_direct_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(weir_strategy_ops),
        .name = "direct",
        .flags = WEIR_STRATEGY_PRIVATE_LANES | WEIR_STRATEGY_NO_FRONT_CACHE | WEIR_STRATEGY_RETURNS_REGIONS,
        .granule_bytes = SEGMENT_GRANULE,
        .state_size = state_size,
        .init = init,
        .fini = segments_fini,
        .lane_add = segments_lane_add,
        .region_size = region_size,
        .region_add = region_add,
        .region_remove = segments_region_remove,
        .alloc = alloc,
        .free = free_range,
        .promote = segments_promote,
        .walk = segments_walk,
        .check = segments_check,
        .stats = segments_stats,
        .lane_stats = segments_lane_stats,
    };
    return &ops;
}
