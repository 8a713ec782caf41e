/* pytorch.c: a model of PyTorch's native caching allocator.
 *
 * Idea: best fit, with split and merge, over segments that are kept as long as they may be useful. Requests up to 1 MiB
 * lie in segments of 2 MiB (small pool), larger ones in segments of 20 MiB or more (large pool). Free blocks are kept
 * per stream and pool, ordered by size and then address.
 * Guarantee: given the segments of a recorded run, the model places every block at the recorded address (recorded.c
 * proves it on recordings). No code is copied: the rules were derived from recordings and are in README.md.
 * Cost: O(log n) for n free blocks of one stream and pool; freeing merges in O(1) and files the result in O(log n).
 * Waste: inside a block at most 511 bytes (543 with padding) in the small pool, at most 1 MiB more in the large pool,
 * where smaller rests are not split off. Between blocks the waste has no bound: there is one free set per stream and
 * pool, and a request never takes from another set.
 * Counters: strategy stats and lane stats; taken_bytes minus the requested bytes is the waste inside blocks.
 *
 * Additions to the original: a request with an alignment above 512 takes a block that is large enough for the worst
 * case and splits the front off. A block that is freed into a lane other than its region's returns to its region's
 * lane, as in the original, but with the highest tick, so that its region stays until the host knows that all work has
 * completed.
 */
#include "pytorch.h"

#include "segments.h"

#define GRANULE SEGMENT_GRANULE
#define SMALL_BYTES MODEL_PYTORCH_SMALL_BYTES
#define MIB (UINT64_C(1) << 20)
#define LARGE_SEGMENT_BYTES (20 * MIB) /* segment size for a request above SMALL_BYTES and below SHARED_BYTES */
#define SHARED_BYTES (10 * MIB)        /* a request of this size or more gets a segment of its own size, rounded up */
#define SEGMENT_STEP_BYTES (2 * MIB)
#define KEPT_REST_BYTES MIB /* large pool: this many bytes or less are not split off as a free block */
#define LARGEST_REQUEST (UINT64_C(1) << 62)

enum pool_kind { SMALL_POOL, LARGE_POOL };

struct model {
    /* first member: the functions of segments.h in the strategy's table cast the state to struct segments */
    struct segments segments;
    uint64_t pad_bytes;
};

/* --- rules --- */

uint64_t model_pytorch_round(uint64_t size, uint64_t pad_bytes)
{
    if (size > LARGEST_REQUEST) {
        return UINT64_MAX;
    }
    uint64_t padded = size + pad_bytes;
    return padded <= GRANULE ? GRANULE : (padded + GRANULE - 1) & ~(GRANULE - 1);
}

uint64_t model_pytorch_segment_bytes(uint64_t rounded)
{
    if (rounded <= SMALL_BYTES) {
        return MODEL_PYTORCH_SMALL_SEGMENT_BYTES;
    }
    if (rounded < SHARED_BYTES) {
        return LARGE_SEGMENT_BYTES;
    }
    return (rounded + SEGMENT_STEP_BYTES - 1) & ~(SEGMENT_STEP_BYTES - 1);
}

static enum pool_kind pool_of(uint64_t rounded)
{
    return rounded <= SMALL_BYTES ? SMALL_POOL : LARGE_POOL;
}

static bool splits_off(enum pool_kind kind, uint64_t rest)
{
    return kind == SMALL_POOL ? rest >= GRANULE : rest > KEPT_REST_BYTES;
}

static size_t state_size(const void *config)
{
    (void)config;
    return sizeof(struct model);
}

static weir_status init(void *state, const void *config)
{
    struct model *model = state;
    if (config == NULL) {
        return WEIR_OK;
    }
    const model_pytorch_config *given = config;
    if (given->struct_size != sizeof(*given) || given->pad_bytes >= GRANULE) {
        return WEIR_ERR_INVALID;
    }
    model->pad_bytes = given->pad_bytes;
    return WEIR_OK;
}

/* --- regions --- */

static uint64_t worst_case(uint64_t rounded, uint64_t align)
{
    uint64_t extra = align > GRANULE ? align - GRANULE : 0;
    return extra <= LARGEST_REQUEST ? rounded + extra : UINT64_MAX;
}

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    const struct model *model = state;
    (void)reserved;
    uint64_t mask = granularity - 1;
    uint64_t rounded = model_pytorch_round(size, model->pad_bytes);
    if (rounded == UINT64_MAX || worst_case(rounded, align) == UINT64_MAX) {
        return UINT64_MAX & ~mask;
    }
    uint64_t segment = model_pytorch_segment_bytes(rounded);
    uint64_t least = worst_case(rounded, align);
    return ((segment > least ? segment : least) + mask) & ~mask;
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **out)
{
    struct model *model = state;
    const struct segment segment = {
        .address = address,
        .size = size,
        .lane = lane,
        .kind = pool_of(model_pytorch_round(size_hint, model->pad_bytes)),
    };
    return segments_add(&model->segments, &segment, tick, out);
}

/* --- blocks --- */

/* Takes [address, address + size) from a free block that contains it. */
static weir_status take(struct segments *segments, struct segment_block *block, uint64_t address, uint64_t size,
                        enum model_pytorch_rest end, weir_range *range)
{
    if (!segments_reserve(segments, 2)) {
        return WEIR_ERR_INTERNAL;
    }
    segments_unfile(segments, block);
    uint64_t front = address - block->node.address;
    if (front > 0) {
        struct segment_block *back = segments_cut(segments, block, front);
        segments_file(segments, block);
        block = back;
    }
    uint64_t rest = block->node.size - size;
    if (rest > 0 && (end == MODEL_PYTORCH_REST_FREE || splits_off(block->segment->kind, rest))) {
        segments_file(segments, segments_cut(segments, block, size));
    }
    segments_hand_out(segments, block, range);
    return WEIR_OK;
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    struct model *model = state;
    uint64_t rounded = model_pytorch_round(size, model->pad_bytes);
    if (rounded == UINT64_MAX) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct segment_block *block = segments_find(&model->segments, lane, pool_of(rounded), worst_case(rounded, align));
    while (block != NULL && block->tick > limit) {
        block = segments_next(block);
    }
    if (block == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    uint64_t address = block->node.address;
    if (align > GRANULE) {
        address = (address + align - 1) & ~(align - 1);
    }
    return take(&model->segments, block, address, rounded, MODEL_PYTORCH_REST_BY_RULE, range);
}

/* Adds the first `size` bytes of a free block to the taken block before the free block. */
static void lend_front(struct segments *segments, struct segment_block *block, uint64_t size)
{
    segments_unfile(segments, block);
    block->previous->node.size += size;
    block->previous->record.size += size;
    block->node.address += size;
    block->node.size -= size;
    segments->taken_bytes += size;
    segments_file(segments, block);
}

weir_status model_pytorch_place(void *state, void *region, uint64_t address, uint64_t size,
                                enum model_pytorch_rest rest, weir_range *range)
{
    struct segment_block *block = ((struct segment *)region)->last;
    if (address % GRANULE != 0 || size % GRANULE != 0 || size == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    while (block != NULL && block->node.address > address) {
        block = block->previous;
    }
    if (block == NULL || block->state == SEGMENT_TAKEN) {
        return WEIR_ERR_NO_MEMORY;
    }
    uint64_t front = address - block->node.address;
    if (front > block->node.size || size > block->node.size - front) {
        return WEIR_ERR_NO_MEMORY;
    }
    bool impossible = front > 0 && !splits_off(block->segment->kind, front);
    if (impossible && block->previous != NULL) {
        lend_front(state, block, front);
    }
    return take(state, block, address, size, rest, range);
}

/* Returns the tick (position in a stream) after which a freed block may be reused. A block returns to its segment's
 * stream. If it was freed on another stream, the tick has no meaning there, and WEIR_TICK_MAX replaces it. */
static weir_tick tick_in(const struct segment *segment, weir_lane lane, weir_tick tick)
{
    if (lane == WEIR_LANE_OPEN) {
        return 0;
    }
    return lane == segment->lane ? tick : WEIR_TICK_MAX;
}

static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct segment_block *block = token;
    segments_free(state, block, tick_in(block->segment, lane, tick));
}

const weir_strategy_ops *model_pytorch_strategy(void)
{
    static const weir_strategy_ops ops = {
        .struct_size = sizeof(weir_strategy_ops),
        .name = "pytorch",
        .flags = WEIR_STRATEGY_PRIVATE_LANES | WEIR_STRATEGY_NO_FRONT_CACHE,
        .granule_bytes = MODEL_PYTORCH_GRANULE,
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
