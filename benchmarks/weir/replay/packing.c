/* packing.c: see packing.h.
 *
 * Idea: the blocks are put into an order, and each goes to the lowest offset that no block before it occupies during
 * its life. A few orders are tried, then changes of the best one: a block that ends at the extent, or any block, moves
 * forward. Reaching the bound ends the search.
 *
 * The moments are the leaves of a tree. A life is a union of O(log n) subtrees. A node has two sets of ranges: `cover`,
 * of the blocks whose unions have this subtree, and `all`, of the blocks that live at any moment of it. A new block
 * avoids the ranges in `all` of the subtrees of its union and those in `cover` of the nodes above them. Ranges that
 * touch become one, and a good packing has few holes, so the sets are small although the blocks are many.
 * Cost: O(log^2 n) for each block and each hole that it does not fit. The work is counted and ends the search, so that
 * the result depends on the blocks alone.
 */
#include "replay/packing.h"

#include <stdlib.h>
#include <string.h>

enum {
    most_blocks = 1 << 21, /* the tree then takes 128 MiB */
    most_nodes = 4 * 22,   /* of a tree for so many blocks: the most that a walk visits */
    least_room = 2
};

/* Work is counted in looks at a set. A million blocks of a training run need 75 million. */
static const uint64_t most_work = UINT64_C(150000000);
/* After the first packing. On 32 recordings all the work of above finds more in one, 0.4 % of the extent. */
static const uint64_t more_work = UINT64_C(20000000);
static const uint64_t refining_work = UINT64_C(10000000);

struct range {
    uint64_t start;
    uint64_t end;
};

/* Disjoint ranges in the order of their addresses; two ranges do not touch. */
struct ranges {
    struct range *list;
    uint32_t count;
    uint32_t room;
};

struct node {
    struct ranges cover; /* empty in a leaf, whose `all` has the same blocks */
    struct ranges all;
};

/* A block's place in an order: by the keys, the largest first, then by the number. */
struct rank {
    uint64_t keys[2];
    uint32_t block;
};

struct search {
    struct packing_block *blocks;
    size_t count;
    uint32_t moments;   /* leaves of the tree: a power of two */
    struct node *tree;  /* [2 * moments]; node 1 is the root, and node n has the children 2n and 2n + 1 */
    uint64_t *live;     /* [2 * moments]: the most bytes that live at one moment of the subtree */
    uint64_t *crowds;   /* [count]: the most bytes that live at one moment of the block's life */
    struct rank *ranks; /* [count]: the order that is tried */
    uint64_t *offsets;  /* [count]: of the best packing */
    uint64_t best;      /* its extent; UINT64_MAX: none yet */
    uint64_t work;
    uint64_t work_end;
    bool failed; /* out of host memory */
};

/* --- sets of ranges --- */

/* Returns the number of ranges that end before the address, or at it if `touching` is false. */
static uint32_t ranges_before(const struct ranges *ranges, uint64_t address, bool touching)
{
    uint32_t low = 0;
    uint32_t high = ranges->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const uint64_t end = ranges->list[middle].end;
        if (end < address || (end == address && !touching)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool ranges_grow(struct ranges *ranges)
{
    const uint32_t room = ranges->room == 0 ? least_room : 2 * ranges->room;
    struct range *larger = realloc(ranges->list, room * sizeof(*larger));
    if (larger != NULL) {
        ranges->list = larger;
        ranges->room = room;
    }
    return larger != NULL;
}

static bool ranges_add(struct ranges *ranges, uint64_t start, uint64_t end)
{
    const uint32_t first = ranges_before(ranges, start, true);
    uint32_t behind = first;
    for (; behind < ranges->count && ranges->list[behind].start <= end; behind++) {
        start = ranges->list[behind].start < start ? ranges->list[behind].start : start;
        end = ranges->list[behind].end > end ? ranges->list[behind].end : end;
    }
    if (behind == first && ranges->count == ranges->room && !ranges_grow(ranges)) {
        return false;
    }
    if (behind != first + 1) {
        memmove(&ranges->list[first + 1], &ranges->list[behind], (ranges->count - behind) * sizeof(*ranges->list));
    }
    ranges->list[first] = (struct range){start, end};
    ranges->count = ranges->count + 1 - (behind - first);
    return true;
}

/* --- the tree --- */

/* Calls for each node that the life meets: `whole` says that the life has the whole subtree. */
typedef void act(struct search *search, uint32_t node, bool whole, void *ctx);

static void walk(struct search *search, const struct packing_block *block, act *act_on, void *ctx)
{
    struct place {
        uint32_t node;
        uint32_t from;
        uint32_t to;
    } stack[most_nodes] = {{1, 0, search->moments}};
    for (size_t depth = 1; depth > 0;) {
        const struct place at = stack[--depth];
        const uint32_t middle = at.from + (at.to - at.from) / 2;
        const bool whole = block->from <= at.from && at.to <= block->to;
        act_on(search, at.node, whole, ctx);
        if (!whole && block->from < middle) {
            stack[depth++] = (struct place){2 * at.node, at.from, middle};
        }
        if (!whole && block->to > middle) {
            stack[depth++] = (struct place){2 * at.node + 1, middle, at.to};
        }
    }
}

/* The sets that a block must avoid, each with the number of its ranges that lie below the offset looked at. */
struct obstacles {
    const struct ranges *sets[most_nodes];
    uint32_t passed[most_nodes];
    size_t count;
};

static void add_obstacle(struct search *search, uint32_t node, bool whole, void *ctx)
{
    struct obstacles *obstacles = ctx;
    const struct ranges *ranges = whole ? &search->tree[node].all : &search->tree[node].cover;
    if (ranges->count > 0) {
        obstacles->sets[obstacles->count] = ranges;
        obstacles->passed[obstacles->count++] = 0;
    }
}

/* Moves the offset behind the ranges of one set that are in the way. Returns the new offset. */
static uint64_t pass(struct search *search, struct obstacles *obstacles, size_t set, const struct packing_block *block,
                     uint64_t offset)
{
    const struct ranges *ranges = obstacles->sets[set];
    uint32_t at = obstacles->passed[set];
    search->work++;
    if (at < ranges->count && ranges->list[at].end <= offset) {
        at = ranges_before(ranges, offset, false);
    }
    for (; at < ranges->count && ranges->list[at].start < offset + block->size; at++) {
        offset = (ranges->list[at].end + block->alignment - 1) & ~(block->alignment - 1);
        search->work++;
    }
    obstacles->passed[set] = at;
    return offset;
}

static uint64_t lowest_offset(struct search *search, const struct packing_block *block)
{
    struct obstacles obstacles = {.count = 0};
    uint64_t offset = 0;
    walk(search, block, add_obstacle, &obstacles);
    for (size_t free = 0, set = 0; free < obstacles.count; set = (set + 1) % obstacles.count) {
        const uint64_t next = pass(search, &obstacles, set, block, offset);
        free = next == offset ? free + 1 : 1;
        offset = next;
    }
    return offset;
}

static void occupy(struct search *search, uint32_t node, bool whole, void *ctx)
{
    const struct packing_block *block = ctx;
    struct node *at = &search->tree[node];
    const uint64_t end = block->offset + block->size;
    search->failed |= !ranges_add(&at->all, block->offset, end);
    if (whole && node < search->moments) {
        search->failed |= !ranges_add(&at->cover, block->offset, end);
    }
    search->work += 2;
}

/* --- orders --- */

static int by_rank(const void *left, const void *right)
{
    const struct rank *a = left;
    const struct rank *b = right;
    for (size_t i = 0; i < 2; i++) {
        if (a->keys[i] != b->keys[i]) {
            return a->keys[i] > b->keys[i] ? -1 : 1;
        }
    }
    return a->block < b->block ? -1 : a->block > b->block;
}

/* The blocks that live when most bytes live come first in an order by crowd: they can lie without a hole. */
enum order { BY_CROWD_AND_SIZE, BY_SIZE, BY_AREA, BY_LIFE, BY_CROWD_AND_LIFE, BY_CROWD_AND_AREA, order_count };

static void rank_block(const struct search *search, enum order order, struct rank *rank)
{
    const struct packing_block *block = &search->blocks[rank->block];
    const uint64_t life = block->to - block->from;
    const uint64_t area = block->size > UINT64_MAX / life ? UINT64_MAX : block->size * life;
    const uint64_t crowd = search->crowds[rank->block];
    const uint64_t keys[order_count][2] = {
        [BY_CROWD_AND_SIZE] = {crowd, block->size},
        [BY_SIZE] = {block->size, life},
        [BY_AREA] = {area, block->size},
        [BY_LIFE] = {life, block->size},
        [BY_CROWD_AND_LIFE] = {crowd, life},
        [BY_CROWD_AND_AREA] = {crowd, area},
    };
    memcpy(rank->keys, keys[order], sizeof(rank->keys));
}

static void clear_tree(struct search *search)
{
    for (uint32_t i = 0; i < 2 * search->moments; i++) {
        search->tree[i].cover.count = 0;
        search->tree[i].all.count = 0;
    }
}

/* Places the blocks in the order of the ranks, and keeps the packing if its extent is at most `most`. */
static bool place_all(struct search *search, uint64_t most)
{
    uint64_t extent = 0;
    clear_tree(search);
    for (size_t i = 0; i < search->count; i++) {
        struct packing_block *block = &search->blocks[search->ranks[i].block];
        block->offset = lowest_offset(search, block);
        const uint64_t end = block->offset + block->size;
        extent = end > extent ? end : extent;
        if (extent > most || search->work > search->work_end) {
            return false;
        }
        walk(search, block, occupy, block);
    }
    if (search->failed) {
        return false;
    }
    for (size_t i = 0; i < search->count; i++) {
        search->offsets[i] = search->blocks[i].offset;
    }
    search->best = extent;
    return true;
}

static bool try_order(struct search *search, enum order order)
{
    for (size_t i = 0; i < search->count; i++) {
        search->ranks[i].block = (uint32_t)i;
        rank_block(search, order, &search->ranks[i]);
    }
    qsort(search->ranks, search->count, sizeof(*search->ranks), by_rank);
    return place_all(search, search->best - 1);
}

/* --- changes of an order --- */

static size_t draw(uint64_t *state, size_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(*state >> 33) % below;
}

static void move_rank(struct search *search, size_t from, size_t to)
{
    const struct rank moved = search->ranks[from];
    if (from > to) {
        memmove(&search->ranks[to + 1], &search->ranks[to], (from - to) * sizeof(moved));
    } else {
        memmove(&search->ranks[from], &search->ranks[from + 1], (to - from) * sizeof(moved));
    }
    search->ranks[to] = moved;
}

/* Returns the place of the last block that ends at the extent. */
static size_t find_highest(const struct search *search)
{
    size_t place = search->count - 1;
    for (; place > 0; place--) {
        const uint32_t block = search->ranks[place].block;
        if (search->offsets[block] + search->blocks[block].size == search->best) {
            break;
        }
    }
    return place;
}

static void limit_work(struct search *search, uint64_t work)
{
    const uint64_t end = search->work + work;
    search->work_end = end < search->work_end ? end : search->work_end;
}

static bool at_bound(const struct search *search)
{
    return search->best <= search->live[1];
}

static void refine(struct search *search)
{
    uint64_t state = 1;
    limit_work(search, refining_work);
    while (search->work < search->work_end && !at_bound(search) && !search->failed) {
        const size_t highest = find_highest(search);
        const size_t from = draw(&state, 2) != 0 && highest > 0 ? highest : 1 + draw(&state, search->count - 1);
        const size_t to = draw(&state, from);
        move_rank(search, from, to);
        if (!place_all(search, search->best)) {
            move_rank(search, to, from);
        }
    }
}

/* --- the search --- */

static void note_live(struct search *search, uint32_t node, bool whole, void *ctx)
{
    uint64_t *most = ctx;
    if (whole && search->live[node] > *most) {
        *most = search->live[node];
    }
}

static void find_crowds(struct search *search)
{
    uint64_t *moments = &search->live[search->moments];
    for (size_t i = 0; i < search->count; i++) {
        moments[search->blocks[i].from] += search->blocks[i].size;
        if (search->blocks[i].to < search->moments) {
            moments[search->blocks[i].to] -= search->blocks[i].size; /* a difference may be below 0, no sum is */
        }
    }
    for (uint32_t i = 1; i < search->moments; i++) {
        moments[i] += moments[i - 1];
    }
    for (uint32_t i = search->moments; i-- > 1;) {
        const uint64_t *children = &search->live[2 * i];
        search->live[i] = children[0] > children[1] ? children[0] : children[1];
    }
    for (size_t i = 0; i < search->count; i++) {
        walk(search, &search->blocks[i], note_live, &search->crowds[i]);
    }
}

static bool start(struct search *search)
{
    search->moments = 1;
    for (size_t i = 0; i < search->count; i++) {
        while (search->moments < search->blocks[i].to) {
            search->moments *= 2;
        }
    }
    search->tree = calloc((size_t)2 * search->moments, sizeof(*search->tree));
    search->live = calloc((size_t)2 * search->moments, sizeof(*search->live));
    search->ranks = calloc(search->count + 1, sizeof(*search->ranks));
    search->crowds = calloc(search->count + 1, sizeof(*search->crowds));
    search->offsets = calloc(search->count + 1, sizeof(*search->offsets));
    return search->tree != NULL && search->live != NULL && search->ranks != NULL && search->crowds != NULL &&
           search->offsets != NULL;
}

static void stop(struct search *search)
{
    for (uint32_t i = 0; search->tree != NULL && i < 2 * search->moments; i++) {
        free(search->tree[i].cover.list);
        free(search->tree[i].all.list);
    }
    free(search->tree);
    free(search->live);
    free(search->ranks);
    free(search->crowds);
    free(search->offsets);
}

static void run(struct search *search)
{
    int best = -1;
    find_crowds(search);
    for (int order = 0; order < order_count && !at_bound(search); order++) {
        if (try_order(search, (enum order)order)) {
            limit_work(search, best < 0 ? more_work : most_work);
            best = order;
        }
    }
    if (best >= 0 && !at_bound(search)) {
        search->best++; /* the best order again, so that the ranks are its own */
        if (try_order(search, (enum order)best)) {
            refine(search);
        } else {
            search->best--;
        }
    }
}

bool packing_find(struct packing_block *blocks, size_t count, struct packing *packing)
{
    struct search search = {.blocks = blocks, .count = count, .best = UINT64_MAX, .work_end = most_work};
    *packing = (struct packing){.found = false};
    if (count == 0 || count > most_blocks) {
        packing->found = count == 0;
        return true;
    }
    const bool enough = start(&search);
    if (enough) {
        run(&search);
    }
    if (enough && search.best != UINT64_MAX) {
        *packing = (struct packing){.found = true, .bound = search.live[1], .extent = search.best};
        for (size_t i = 0; i < count; i++) {
            blocks[i].offset = search.offsets[i];
        }
    }
    stop(&search);
    return enough && !search.failed;
}
