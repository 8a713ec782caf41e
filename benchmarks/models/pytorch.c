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

#include "size_tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE MODEL_PYTORCH_GRANULE
#define SMALL_BYTES MODEL_PYTORCH_SMALL_BYTES
#define MIB (UINT64_C(1) << 20)
#define LARGE_SEGMENT_BYTES (20 * MIB) /* for rounded sizes below SHARED_BYTES */
#define SHARED_BYTES (10 * MIB)        /* a request of this size or more gets a segment of its size */
#define SEGMENT_STEP_BYTES (2 * MIB)
#define KEPT_REST_BYTES MIB /* the large pool does not split off a rest up to this */
#define LARGEST_REQUEST (UINT64_C(1) << 62)
#define BLOCKS_PER_CHUNK 256

enum pool_kind { SMALL_POOL, LARGE_POOL, POOL_KINDS };

struct region;

/* A piece of a region, taken or free.
 * Invariants: previous and next are the adjacent blocks in the region (NULL at its ends); no two adjacent blocks are
 * free; a free block is in the tree of its region's lane and pool with node.size and node.address as its key. */
struct block {
    weir_record record;    /* first: a token is its address; in use while the block is taken */
    struct size_node node; /* also holds address and size of a taken block */
    struct region *region;
    struct block *previous;
    struct block *next; /* also links unused records */
    weir_tick tick;     /* free block: the tick of the latest free in it */
    bool taken;
};

struct region {
    uint64_t address;
    uint64_t size;
    weir_lane lane;
    enum pool_kind kind;
    struct block *first;
    struct block *last;
    struct region *previous; /* in the order in which regions were added */
    struct region *next;
};

struct lane {
    struct size_tree free[POOL_KINDS];
};

struct chunk {
    struct chunk *next;
    struct block blocks[BLOCKS_PER_CHUNK];
};

struct model {
    uint64_t pad_bytes;
    struct lane *lanes;
    size_t lane_count;
    struct region *first_region;
    struct region *last_region;
    struct block *unused;
    struct chunk *chunks;
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
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

/* --- records --- */

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

static void fini(void *state)
{
    struct model *model = state;
    while (model->first_region != NULL) {
        struct region *region = model->first_region;
        model->first_region = region->next;
        free(region);
    }
    while (model->chunks != NULL) {
        struct chunk *chunk = model->chunks;
        model->chunks = chunk->next;
        free(chunk);
    }
    free(model->lanes);
    memset(model, 0, sizeof(*model));
}

/* Makes sure that `count` block records are unused, so that taking them cannot fail. `count` is far below the number of
 * records in a chunk. Returns false without host memory. */
static bool reserve_blocks(struct model *model, size_t count)
{
    struct block *block = model->unused;
    while (block != NULL && count > 0) {
        block = block->next;
        count--;
    }
    if (count == 0) {
        return true;
    }
    struct chunk *chunk = malloc(sizeof(*chunk));
    if (chunk == NULL) {
        return false;
    }
    chunk->next = model->chunks;
    model->chunks = chunk;
    for (size_t i = 0; i < BLOCKS_PER_CHUNK; i++) {
        chunk->blocks[i].next = model->unused;
        model->unused = &chunk->blocks[i];
    }
    return true;
}

static struct block *take_record(struct model *model)
{
    struct block *block = model->unused;
    model->unused = block->next;
    *block = (struct block){0};
    return block;
}

static void drop_record(struct model *model, struct block *block)
{
    block->next = model->unused;
    model->unused = block;
}

static bool reserve_lane(struct model *model, weir_lane lane)
{
    if (lane < model->lane_count) {
        return true;
    }
    size_t count = (size_t)lane + 1;
    struct lane *lanes = realloc(model->lanes, count * sizeof(*lanes));
    if (lanes == NULL) {
        return false;
    }
    memset(lanes + model->lane_count, 0, (count - model->lane_count) * sizeof(*lanes));
    model->lanes = lanes;
    model->lane_count = count;
    return true;
}

static weir_status lane_add(void *state, weir_lane lane)
{
    return reserve_lane(state, lane) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* Returns the set of free blocks for a free block of the region. */
static struct size_tree *free_set(struct model *model, const struct region *region)
{
    return &model->lanes[region->lane].free[region->kind];
}

static void file(struct model *model, struct block *block)
{
    block->taken = false;
    size_tree_insert(free_set(model, block->region), &block->node);
}

static void unfile(struct model *model, struct block *block)
{
    size_tree_remove(free_set(model, block->region), &block->node);
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

static void link_region(struct model *model, struct region *region)
{
    region->previous = model->last_region;
    if (model->last_region != NULL) {
        model->last_region->next = region;
    } else {
        model->first_region = region;
    }
    model->last_region = region;
    model->regions++;
    model->region_bytes += region->size;
}

static void unlink_region(struct model *model, struct region *region)
{
    if (region->previous != NULL) {
        region->previous->next = region->next;
    } else {
        model->first_region = region->next;
    }
    if (region->next != NULL) {
        region->next->previous = region->previous;
    } else {
        model->last_region = region->previous;
    }
    model->regions--;
    model->region_bytes -= region->size;
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **out)
{
    struct model *model = state;
    if (!reserve_blocks(model, 1) || !reserve_lane(model, lane)) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct region *region = calloc(1, sizeof(*region));
    if (region == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct block *block = take_record(model);
    *region = (struct region){
        .address = address,
        .size = size,
        .lane = lane,
        .kind = pool_of(model_pytorch_round(size_hint, model->pad_bytes)),
        .first = block,
        .last = block,
    };
    link_region(model, region);
    block->node.address = address;
    block->node.size = size;
    block->region = region;
    block->tick = lane == WEIR_LANE_OPEN ? 0 : tick;
    file(model, block);
    *out = region;
    return WEIR_OK;
}

static weir_status region_remove(void *state, void *named, const weir_tick *limits, size_t lanes)
{
    struct model *model = state;
    struct region *region = named;
    struct block *block = region->first;
    if (block != region->last || block->taken || region->lane >= lanes || block->tick > limits[region->lane]) {
        return WEIR_ERR_BUSY;
    }
    unfile(model, block);
    drop_record(model, block);
    unlink_region(model, region);
    free(region);
    return WEIR_OK;
}

/* --- blocks --- */

/* Splits the block after `size` bytes. The upper part becomes a block with the same state but in no set. The caller has
 * reserved a record. */
static struct block *cut(struct model *model, struct block *block, uint64_t size)
{
    struct block *rest = take_record(model);
    rest->node.address = block->node.address + size;
    rest->node.size = block->node.size - size;
    rest->region = block->region;
    rest->tick = block->tick;
    rest->taken = block->taken;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next != NULL) {
        rest->next->previous = rest;
    } else {
        block->region->last = rest;
    }
    block->next = rest;
    block->node.size = size;
    return rest;
}

/* Merges the next block by address into `block`; neither is in a set. The merged block keeps the later tick. */
static void absorb_next(struct model *model, struct block *block)
{
    struct block *next = block->next;
    block->node.size += next->node.size;
    if (next->tick > block->tick) {
        block->tick = next->tick;
    }
    block->next = next->next;
    if (block->next != NULL) {
        block->next->previous = block;
    } else {
        block->region->last = block;
    }
    drop_record(model, next);
}

/* Takes [address, address + size) from a free block that contains it. */
static weir_status take(struct model *model, struct block *block, uint64_t address, uint64_t size,
                        enum model_pytorch_rest end, weir_range *range)
{
    if (!reserve_blocks(model, 2)) {
        return WEIR_ERR_INTERNAL;
    }
    unfile(model, block);
    uint64_t front = address - block->node.address;
    if (front > 0) {
        struct block *back = cut(model, block, front);
        file(model, block);
        block = back;
    }
    uint64_t rest = block->node.size - size;
    if (rest > 0 && (end == MODEL_PYTORCH_REST_FREE || splits_off(block->region->kind, rest))) {
        file(model, cut(model, block, size));
    }
    block->taken = true;
    block->record.address = block->node.address;
    block->record.size = block->node.size;
    __atomic_store_n(&block->record.state, WEIR_RECORD_TAKEN, __ATOMIC_RELAXED);
    model->taken_ranges++;
    model->taken_bytes += block->node.size;
    *range = (weir_range){.address = block->node.address, .size = block->node.size, .token = block};
    return WEIR_OK;
}

/* Returns the smallest free block of at least `size` bytes with a tick at or below `limit`; ties by lowest address.
 * */
static struct block *best_fit(const struct size_tree *tree, uint64_t size, weir_tick limit)
{
    struct size_node *node = size_tree_lower(tree, size, 0);
    while (node != NULL) {
        struct block *block = WEIR_MODEL_OWNER(node, struct block, node);
        if (block->tick <= limit) {
            return block;
        }
        node = size_tree_next(tree, node);
    }
    return NULL;
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    struct model *model = state;
    uint64_t rounded = model_pytorch_round(size, model->pad_bytes);
    if (lane >= model->lane_count || rounded == UINT64_MAX) {
        return WEIR_ERR_NO_MEMORY;
    }
    const struct size_tree *tree = &model->lanes[lane].free[pool_of(rounded)];
    struct block *block = best_fit(tree, worst_case(rounded, align), limit);
    if (block == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    uint64_t address = block->node.address;
    if (align > GRANULE) {
        address = (address + align - 1) & ~(align - 1);
    }
    return take(model, block, address, rounded, MODEL_PYTORCH_REST_BY_RULE, range);
}

/* Gives the first `size` bytes of a free block to the taken block before it. */
static void lend_front(struct model *model, struct block *block, uint64_t size)
{
    unfile(model, block);
    block->previous->node.size += size;
    block->previous->record.size += size;
    block->node.address += size;
    block->node.size -= size;
    model->taken_bytes += size;
    file(model, block);
}

weir_status model_pytorch_place(void *state, void *region, uint64_t address, uint64_t size,
                                enum model_pytorch_rest rest, weir_range *range)
{
    struct block *block = ((struct region *)region)->last;
    if (address % GRANULE != 0 || size % GRANULE != 0 || size == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    while (block != NULL && block->node.address > address) {
        block = block->previous;
    }
    if (block == NULL || block->taken) {
        return WEIR_ERR_NO_MEMORY;
    }
    uint64_t front = address - block->node.address;
    if (front > block->node.size || size > block->node.size - front) {
        return WEIR_ERR_NO_MEMORY;
    }
    bool impossible = front > 0 && !splits_off(block->region->kind, front);
    if (impossible && block->previous != NULL) {
        lend_front(state, block, front);
    }
    return take(state, block, address, size, rest, range);
}

/* Returns the tick of a block that is freed into `lane` and returns to its region's lane. */
static weir_tick tick_in(const struct region *region, weir_lane lane, weir_tick tick)
{
    if (lane == WEIR_LANE_OPEN) {
        return 0;
    }
    return lane == region->lane ? tick : WEIR_TICK_MAX;
}

static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    struct model *model = state;
    struct block *block = token;
    assert(block->taken);
    model->taken_ranges--;
    model->taken_bytes -= block->node.size;
    block->tick = tick_in(block->region, lane, tick);
    if (block->next != NULL && !block->next->taken) {
        unfile(model, block->next);
        absorb_next(model, block);
    }
    if (block->previous != NULL && !block->previous->taken) {
        block = block->previous;
        unfile(model, block);
        absorb_next(model, block);
    }
    file(model, block);
}

/* Moves nothing: memory stays with its lane until its region is removed. */
static uint64_t promote(void *state, weir_lane lane, weir_tick limit)
{
    (void)state;
    (void)lane;
    (void)limit;
    return 0;
}

/* --- visits and proofs --- */

static void walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct model *model = state;
    for (const struct region *region = model->first_region; region != NULL; region = region->next) {
        for (struct block *block = region->first; block != NULL; block = block->next) {
            weir_range_info info = {
                .region_address = region->address,
                .region_size = region->size,
                .address = block->node.address,
                .size = block->node.size,
                .taken = block->taken,
                .lane = block->taken ? 0 : region->lane,
                .tick = block->taken ? 0 : block->tick,
                .token = block->taken ? block : NULL,
            };
            if (!visit(ctx, &info)) {
                return;
            }
        }
    }
}

static uint64_t largest_in(const struct lane *lane)
{
    uint64_t largest = 0;
    for (size_t kind = 0; kind < POOL_KINDS; kind++) {
        const struct size_node *node = size_tree_last(&lane->free[kind]);
        if (node != NULL && node->size > largest) {
            largest = node->size;
        }
    }
    return largest;
}

static void lane_stats(const void *state, weir_lane number, weir_lane_stats *stats)
{
    const struct model *model = state;
    stats->ranges = 0;
    stats->bytes = 0;
    stats->largest_bytes = 0;
    if (number >= model->lane_count) {
        return;
    }
    const struct lane *lane = &model->lanes[number];
    stats->ranges = lane->free[SMALL_POOL].count + lane->free[LARGE_POOL].count;
    stats->bytes = lane->free[SMALL_POOL].bytes + lane->free[LARGE_POOL].bytes;
    stats->largest_bytes = largest_in(lane);
}

static void stats(const void *state, weir_strategy_stats *out)
{
    const struct model *model = state;
    out->regions = model->regions;
    out->region_bytes = model->region_bytes;
    out->taken_ranges = model->taken_ranges;
    out->taken_bytes = model->taken_bytes;
    out->free_ranges = 0;
    out->free_bytes = 0;
    out->largest_free_bytes = 0;
    for (size_t i = 0; i < model->lane_count; i++) {
        const struct lane *lane = &model->lanes[i];
        uint64_t largest = largest_in(lane);
        out->free_ranges += lane->free[SMALL_POOL].count + lane->free[LARGE_POOL].count;
        out->free_bytes += lane->free[SMALL_POOL].bytes + lane->free[LARGE_POOL].bytes;
        if (largest > out->largest_free_bytes) {
            out->largest_free_bytes = largest;
        }
    }
}

struct tally {
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges;
};

static const char *check_block(const struct block *block, uint64_t address)
{
    const struct block *previous = block->previous;
    if (block->node.address != address) {
        return "pytorch: a range does not begin where the one before it ends";
    }
    if (block->node.size == 0 || block->node.size % GRANULE != 0) {
        return "pytorch: the size of a range is no multiple of 512";
    }
    if (previous != NULL ? previous->next != block : block->region->first != block) {
        return "pytorch: the links between neighbours disagree";
    }
    if (previous != NULL && !previous->taken && !block->taken) {
        return "pytorch: two free neighbours are not one range";
    }
    return NULL;
}

static const char *check_region(const struct region *region, struct tally *tally)
{
    uint64_t address = region->address;
    const struct block *last = NULL;
    for (const struct block *block = region->first; block != NULL; block = block->next) {
        const char *why =
            block->region != region ? "pytorch: a range names another region" : check_block(block, address);
        if (why != NULL) {
            return why;
        }
        tally->taken_ranges += block->taken ? 1 : 0;
        tally->taken_bytes += block->taken ? block->node.size : 0;
        tally->free_ranges += block->taken ? 0 : 1;
        address += block->node.size;
        last = block;
    }
    if (address != region->address + region->size || last != region->last) {
        return "pytorch: the ranges of a region do not fill it";
    }
    tally->regions++;
    tally->region_bytes += region->size;
    return NULL;
}

/* The set that is being visited. */
struct set {
    weir_lane lane;
    enum pool_kind kind;
};

static bool belongs(void *ctx, struct size_node *node)
{
    const struct set *set = ctx;
    const struct block *block = WEIR_MODEL_OWNER(node, struct block, node);
    return !block->taken && block->region->lane == set->lane && block->region->kind == set->kind;
}

/* Checks that each free range is in exactly one set: each node is a free range in its own set, and the numbers of nodes
 * and free ranges are equal. */
static const char *check_sets(const struct model *model, uint64_t free_ranges)
{
    uint64_t count = 0;
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        for (size_t kind = 0; kind < POOL_KINDS; kind++) {
            const struct size_tree *tree = &model->lanes[lane].free[kind];
            struct set set = {.lane = (weir_lane)lane, .kind = (enum pool_kind)kind};
            const char *why = size_tree_check(tree);
            if (why != NULL) {
                return why;
            }
            if (!size_tree_each(tree, belongs, &set)) {
                return "pytorch: a free set holds a range that does not belong there";
            }
            count += tree->count;
        }
    }
    return count == free_ranges ? NULL : "pytorch: a free range is in no free set";
}

static const char *find_flaw(const struct model *model)
{
    struct tally tally = {0};
    for (const struct region *region = model->first_region; region != NULL; region = region->next) {
        const char *why = check_region(region, &tally);
        if (why != NULL) {
            return why;
        }
    }
    if (tally.regions != model->regions || tally.region_bytes != model->region_bytes ||
        tally.taken_ranges != model->taken_ranges || tally.taken_bytes != model->taken_bytes) {
        return "pytorch: the counters differ from the ranges";
    }
    return check_sets(model, tally.free_ranges);
}

static weir_status check(const void *state, const char **why)
{
    const char *flaw = find_flaw(state);
    if (flaw != NULL && why != NULL) {
        *why = flaw;
    }
    return flaw == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
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
        .fini = fini,
        .lane_add = lane_add,
        .region_size = region_size,
        .region_add = region_add,
        .region_remove = region_remove,
        .alloc = alloc,
        .free = free_range,
        .promote = promote,
        .walk = walk,
        .check = check,
        .stats = stats,
        .lane_stats = lane_stats,
    };
    return &ops;
}
