/* segments.c: see segments.h. */
#include "segments.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_PER_CHUNK 256

struct segment_chunk {
    struct segment_chunk *next;
    struct segment_block blocks[BLOCKS_PER_CHUNK];
};

/* --- records --- */

void segments_fini(void *state)
{
    struct segments *model = state;
    while (model->first != NULL) {
        struct segment *segment = model->first;
        model->first = segment->next;
        free(segment);
    }
    while (model->chunks != NULL) {
        struct segment_chunk *chunk = model->chunks;
        model->chunks = chunk->next;
        free(chunk);
    }
    free(model->lanes);
    memset(model, 0, sizeof(*model));
}

bool segments_reserve(struct segments *model, size_t count)
{
    struct segment_block *block = model->unused;
    while (block != NULL && count > 0) {
        block = block->next;
        count--;
    }
    if (count == 0) {
        return true;
    }
    struct segment_chunk *chunk = malloc(sizeof(*chunk));
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

static struct segment_block *take_record(struct segments *model)
{
    struct segment_block *block = model->unused;
    model->unused = block->next;
    *block = (struct segment_block){0};
    return block;
}

static void drop_record(struct segments *model, struct segment_block *block)
{
    block->next = model->unused;
    model->unused = block;
}

weir_status segments_lane_add(void *state, weir_lane lane)
{
    struct segments *model = state;
    if (lane < model->lane_count) {
        return WEIR_OK;
    }
    size_t count = (size_t)lane + 1;
    struct segment_lane *lanes = realloc(model->lanes, count * sizeof(*lanes));
    if (lanes == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    memset(lanes + model->lane_count, 0, (count - model->lane_count) * sizeof(*lanes));
    model->lanes = lanes;
    model->lane_count = count;
    return WEIR_OK;
}

static struct size_tree *free_set(struct segments *model, const struct segment *segment)
{
    return &model->lanes[segment->lane].free[segment->kind];
}

void segments_file(struct segments *model, struct segment_block *block)
{
    block->state = SEGMENT_FREE;
    size_tree_insert(free_set(model, block->segment), &block->node);
}

void segments_unfile(struct segments *model, struct segment_block *block)
{
    size_tree_remove(free_set(model, block->segment), &block->node);
}

/* --- segments --- */

static void link_segment(struct segments *model, struct segment *segment)
{
    segment->previous = model->last;
    if (model->last != NULL) {
        model->last->next = segment;
    } else {
        model->first = segment;
    }
    model->last = segment;
    model->regions++;
    model->region_bytes += segment->size;
}

static void unlink_segment(struct segments *model, struct segment *segment)
{
    if (segment->previous != NULL) {
        segment->previous->next = segment->next;
    } else {
        model->first = segment->next;
    }
    if (segment->next != NULL) {
        segment->next->previous = segment->previous;
    } else {
        model->last = segment->previous;
    }
    model->regions--;
    model->region_bytes -= segment->size;
}

weir_status segments_add(struct segments *model, const struct segment *given, weir_tick tick, void **out)
{
    if (!segments_reserve(model, 1) || segments_lane_add(model, given->lane) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct segment *segment = malloc(sizeof(*segment));
    if (segment == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct segment_block *block = take_record(model);
    *segment = *given;
    segment->first = block;
    segment->last = block;
    link_segment(model, segment);
    block->node.address = segment->address;
    block->node.size = segment->size;
    block->segment = segment;
    block->tick = segment->lane == WEIR_LANE_OPEN ? 0 : tick;
    segments_file(model, block);
    *out = segment;
    return WEIR_OK;
}

weir_status segments_region_remove(void *state, void *region, const weir_tick *limits, size_t lanes)
{
    struct segments *model = state;
    struct segment *segment = region;
    struct segment_block *block = segment->first;
    if (block != segment->last || block->state != SEGMENT_FREE || segment->lane >= lanes ||
        block->tick > limits[segment->lane]) {
        return WEIR_ERR_BUSY;
    }
    segments_unfile(model, block);
    segments_drop(model, segment);
    return WEIR_OK;
}

void segments_drop(struct segments *model, struct segment *segment)
{
    assert(segment->first == segment->last);
    drop_record(model, segment->first);
    unlink_segment(model, segment);
    free(segment);
}

/* --- blocks --- */

struct segment_block *segments_cut(struct segments *model, struct segment_block *block, uint64_t size)
{
    struct segment_block *rest = take_record(model);
    rest->node.address = block->node.address + size;
    rest->node.size = block->node.size - size;
    rest->segment = block->segment;
    rest->tick = block->tick;
    rest->state = block->state;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next != NULL) {
        rest->next->previous = rest;
    } else {
        block->segment->last = rest;
    }
    block->next = rest;
    block->node.size = size;
    return rest;
}

/* Merges the next higher block into `block`, neither of them in a free set. Keeps the later tick (stream position). */
static void absorb_next(struct segments *model, struct segment_block *block)
{
    struct segment_block *next = block->next;
    block->node.size += next->node.size;
    if (next->tick > block->tick) {
        block->tick = next->tick;
    }
    block->next = next->next;
    if (block->next != NULL) {
        block->next->previous = block;
    } else {
        block->segment->last = block;
    }
    drop_record(model, next);
}

/* Returns the segment_block that contains the tree node; NULL for a NULL node. */
static struct segment_block *block_of(weir__tree_node *node)
{
    return node != NULL ? WEIR_MODEL_OWNER(node, struct segment_block, node) : NULL;
}

struct segment_block *segments_find(const struct segments *model, weir_lane lane, unsigned kind, uint64_t size)
{
    return lane < model->lane_count ? block_of(weir__tree_at_least(&model->lanes[lane].free[kind].nodes, size, 0))
                                    : NULL;
}

struct segment_block *segments_largest(const struct segments *model, weir_lane lane, unsigned kind)
{
    return lane < model->lane_count ? block_of(weir__tree_end(&model->lanes[lane].free[kind].nodes, 1)) : NULL;
}

struct segment_block *segments_next(struct segment_block *block)
{
    return block_of(weir__tree_step(&block->node, 1));
}

struct segment_block *segments_before(struct segment_block *block)
{
    return block_of(weir__tree_step(&block->node, 0));
}

void segments_hand_out(struct segments *model, struct segment_block *block, weir_range *range)
{
    block->state = SEGMENT_TAKEN;
    block->record.address = block->node.address;
    block->record.size = block->node.size;
    __atomic_store_n(&block->record.state, WEIR_RECORD_TAKEN, __ATOMIC_RELAXED);
    model->taken_ranges++;
    model->taken_bytes += block->node.size;
    *range = (weir_range){.address = block->node.address, .size = block->node.size, .token = block};
}

void segments_free(struct segments *model, struct segment_block *block, weir_tick tick)
{
    assert(block->state == SEGMENT_TAKEN);
    model->taken_ranges--;
    model->taken_bytes -= block->node.size;
    (void)segments_settle(model, block, SEGMENT_FREE, tick);
}

struct segment_block *segments_settle(struct segments *model, struct segment_block *block, enum segment_state state,
                                      weir_tick tick)
{
    const bool filed = state == SEGMENT_FREE;
    block->tick = tick;
    if (block->next != NULL && block->next->state == state) {
        if (filed) {
            segments_unfile(model, block->next);
        }
        absorb_next(model, block);
    }
    if (block->previous != NULL && block->previous->state == state) {
        block = block->previous;
        if (filed) {
            segments_unfile(model, block);
        }
        absorb_next(model, block);
    }
    block->state = state;
    if (filed) {
        segments_file(model, block);
    }
    return block;
}

uint64_t segments_promote(void *state, weir_lane lane, weir_tick limit)
{
    (void)state;
    (void)lane;
    (void)limit;
    return 0;
}

/* --- visits and proofs --- */

void segments_walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct segments *model = state;
    for (const struct segment *segment = model->first; segment != NULL; segment = segment->next) {
        for (struct segment_block *block = segment->first; block != NULL; block = block->next) {
            const bool taken = block->state == SEGMENT_TAKEN;
            weir_range_info info = {
                .region_address = segment->address,
                .region_size = segment->size,
                .address = block->node.address,
                .size = block->node.size,
                .taken = taken,
                .lane = taken ? 0 : segment->lane,
                .tick = taken ? 0 : block->tick,
                .token = taken ? block : NULL,
            };
            if (!visit(ctx, &info)) {
                return;
            }
        }
    }
}

void segments_lane_stats(const void *state, weir_lane number, weir_lane_stats *out)
{
    const struct segments *model = state;
    out->ranges = 0;
    out->bytes = 0;
    out->largest_bytes = 0;
    for (size_t kind = 0; kind < SEGMENT_KINDS && number < model->lane_count; kind++) {
        const struct size_tree *set = &model->lanes[number].free[kind];
        const weir__tree_node *node = weir__tree_end(&set->nodes, 1);
        out->ranges += set->count;
        out->bytes += set->bytes;
        out->largest_bytes = node != NULL && node->size > out->largest_bytes ? node->size : out->largest_bytes;
    }
}

void segments_stats(const void *state, weir_strategy_stats *out)
{
    const struct segments *model = state;
    out->regions = model->regions;
    out->region_bytes = model->region_bytes;
    out->taken_ranges = model->taken_ranges;
    out->taken_bytes = model->taken_bytes;
    out->free_ranges = 0;
    out->free_bytes = 0;
    out->largest_free_bytes = 0;
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        weir_lane_stats own;
        segments_lane_stats(model, (weir_lane)lane, &own);
        out->free_ranges += own.ranges;
        out->free_bytes += own.bytes;
        out->largest_free_bytes =
            own.largest_bytes > out->largest_free_bytes ? own.largest_bytes : out->largest_free_bytes;
    }
}

/* The counters of struct segments, recounted for a check from the list of segments. */
struct tally {
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges;
};

static const char *check_block(const struct segment_block *block, uint64_t address)
{
    const struct segment_block *previous = block->previous;
    if (block->node.address != address) {
        return "segments: a range does not begin where the one before it ends";
    }
    if (block->node.size == 0 || block->node.size % SEGMENT_GRANULE != 0) {
        return "segments: the size of a range is no multiple of 512";
    }
    if (previous != NULL ? previous->next != block : block->segment->first != block) {
        return "segments: the links between neighbours disagree";
    }
    if (previous != NULL && previous->state != SEGMENT_TAKEN && previous->state == block->state) {
        return "segments: two free neighbours are not one range";
    }
    return NULL;
}

static const char *check_segment(const struct segment *segment, struct tally *tally)
{
    uint64_t address = segment->address;
    const struct segment_block *last = NULL;
    for (const struct segment_block *block = segment->first; block != NULL; block = block->next) {
        const char *why =
            block->segment != segment ? "segments: a range names another region" : check_block(block, address);
        if (why != NULL) {
            return why;
        }
        tally->taken_ranges += block->state == SEGMENT_TAKEN ? 1 : 0;
        tally->taken_bytes += block->state == SEGMENT_TAKEN ? block->node.size : 0;
        tally->free_ranges += block->state == SEGMENT_FREE ? 1 : 0;
        address += block->node.size;
        last = block;
    }
    if (address != segment->address + segment->size || last != segment->last) {
        return "segments: the ranges of a region do not fill it";
    }
    tally->regions++;
    tally->region_bytes += segment->size;
    return NULL;
}

/* The argument of belongs(): the lane and kind of the set of free blocks that is checked. */
struct set {
    weir_lane lane;
    unsigned kind;
};

static bool belongs(const void *ctx, weir__tree_node *node)
{
    const struct set *set = ctx;
    const struct segment_block *block = WEIR_MODEL_OWNER(node, struct segment_block, node);
    return block->state == SEGMENT_FREE && block->segment->lane == set->lane && block->segment->kind == set->kind;
}

/* Checks that each free range is in exactly one set: each node is a free range in its own set, and the numbers of nodes
 * and free ranges are equal. */
static const char *check_sets(const struct segments *model, uint64_t free_ranges)
{
    uint64_t count = 0;
    for (size_t lane = 0; lane < model->lane_count; lane++) {
        for (size_t kind = 0; kind < SEGMENT_KINDS; kind++) {
            const struct size_tree *tree = &model->lanes[lane].free[kind];
            struct set set = {.lane = (weir_lane)lane, .kind = (unsigned)kind};
            const char *why = size_tree_check(tree, belongs, &set);
            if (why != NULL) {
                return why;
            }
            count += tree->count;
        }
    }
    return count == free_ranges ? NULL : "segments: a free range is in no free set";
}

static const char *find_flaw(const struct segments *model)
{
    struct tally tally = {0};
    for (const struct segment *segment = model->first; segment != NULL; segment = segment->next) {
        const char *why = check_segment(segment, &tally);
        if (why != NULL) {
            return why;
        }
    }
    if (tally.regions != model->regions || tally.region_bytes != model->region_bytes ||
        tally.taken_ranges != model->taken_ranges || tally.taken_bytes != model->taken_bytes) {
        return "segments: the counters differ from the ranges";
    }
    return check_sets(model, tally.free_ranges);
}

weir_status segments_check(const void *state, const char **why)
{
    const char *flaw = find_flaw(state);
    if (flaw != NULL && why != NULL) {
        *why = flaw;
    }
    return flaw == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}
