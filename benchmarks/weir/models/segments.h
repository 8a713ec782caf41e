/* segments.h: the bookkeeping that the models in this folder share: regions of one lane each, tiled by blocks that are
 * split and merged, and an ordered set of the free blocks for each lane and kind of region.
 *
 * A strategy's state begins with a struct segments; zero bytes are a valid initial value. The functions of the first
 * group have the signatures of the strategy's table (weir/strategy.h) and may stand in it.
 *
 * Guarantee: memory stays in its region's lane until the region is removed. Results do not depend on the shape of the
 * trees. Cost: O(log n) for n free blocks of one lane and kind; walk and check are linear in the blocks.
 */
#ifndef WEIR_BENCHMARKS_MODELS_SEGMENTS_H
#define WEIR_BENCHMARKS_MODELS_SEGMENTS_H

#include <weir/strategy.h>

#include "size_tree.h"

#define SEGMENT_GRANULE UINT64_C(512)
#define SEGMENT_KINDS 2

enum segment_state {
    SEGMENT_FREE,
    SEGMENT_TAKEN,
    SEGMENT_UNMAPPED, /* addresses without memory, in a segment that is a reservation */
};

/* A piece of a segment.
 * Invariants: previous and next are the adjacent blocks in the segment (NULL at its ends); no two adjacent blocks are
 * free, and no two are unmapped; a free block is in the tree of its segment's lane and kind with node.size and
 * node.address as its key. */
struct segment_block {
    /* first member: the pool's token for a block is the address of this record; used while the block is taken */
    weir_record record;
    weir__tree_node node; /* in the set of free blocks; holds address and size even while the block is taken */
    struct segment *segment;
    struct segment_block *previous;
    struct segment_block *next; /* also links unused records */
    weir_tick tick;             /* while free: stream position (tick) of its latest free */
    enum segment_state state;
};

/* A region. */
struct segment {
    uint64_t address;
    uint64_t size;
    uint64_t hint;    /* size of the request for which the region was added */
    void *expandable; /* of the model: the reservation that this segment is; NULL: memory of one piece */
    weir_lane lane;
    unsigned kind;
    struct segment_block *first;
    struct segment_block *last;
    struct segment *previous; /* links segments in the order in which they were added */
    struct segment *next;
};

struct segment_lane {
    struct size_tree free[SEGMENT_KINDS];
};

struct segments {
    struct segment_lane *lanes;
    size_t lane_count;
    struct segment *first;
    struct segment *last;
    struct segment_block *unused;
    struct segment_chunk *chunks; /* of block records */
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
};

/* --- functions for the table --- */

void segments_fini(void *state);
weir_status segments_lane_add(void *state, weir_lane lane);
weir_status segments_region_remove(void *state, void *region, const weir_tick *limits, size_t lanes);
/* The strategy function `promote`. Does nothing: memory stays with its stream until the region is removed. */
uint64_t segments_promote(void *state, weir_lane lane, weir_tick limit);
void segments_walk(const void *state, weir_range_visitor visit, void *ctx);
weir_status segments_check(const void *state, const char **why);
void segments_stats(const void *state, weir_strategy_stats *stats);
void segments_lane_stats(const void *state, weir_lane lane, weir_lane_stats *stats);

/* --- helpers for the functions that a model writes itself --- */

/* Adds a region, described by `given`, as one free block. Returns WEIR_ERR_NO_MEMORY if host memory runs out. */
weir_status segments_add(struct segments *model, const struct segment *given, weir_tick tick, void **region);
/* Makes sure that `count` block records are unused, so that taking them cannot fail. `count` is far below the number of
 * records in a chunk. Returns false when out of host memory. */
bool segments_reserve(struct segments *model, size_t count);
/* Returns the smallest free block of at least `size` bytes, among equal sizes the lowest address; NULL if none. */
struct segment_block *segments_find(const struct segments *model, weir_lane lane, unsigned kind, uint64_t size);
/* Returns the largest free block of a lane and kind; NULL if none is free. */
struct segment_block *segments_largest(const struct segments *model, weir_lane lane, unsigned kind);
/* Return the next larger or smaller free block in the ordered set that holds `block`; NULL after the last one. */
struct segment_block *segments_next(struct segment_block *block);
struct segment_block *segments_before(struct segment_block *block);
/* segments_file marks a block free and inserts it into the set of free blocks of its region's lane (stream) and kind.
 * segments_unfile removes the block from that set. */
void segments_file(struct segments *model, struct segment_block *block);
void segments_unfile(struct segments *model, struct segment_block *block);
/* Splits the block after `size` bytes and returns the upper part: a block with the same state, in no set of free
 * blocks. The caller must have called segments_reserve. */
struct segment_block *segments_cut(struct segments *model, struct segment_block *block, uint64_t size);
/* Marks a block as taken and fills in *range for the pool. The block must not be in a set of free blocks. */
void segments_hand_out(struct segments *model, struct segment_block *block, weir_range *range);
/* Frees a taken block and merges it with its free neighbours. */
void segments_free(struct segments *model, struct segment_block *block, weir_tick tick);
/* Gives a block that is in no set of free blocks another state, free or unmapped, and merges it with neighbours of that
 * state. A free block enters the set. Returns the merged block. */
struct segment_block *segments_settle(struct segments *model, struct segment_block *block, enum segment_state state,
                                      weir_tick tick);
/* Removes a segment that consists of one block, which is in no set of free blocks. */
void segments_drop(struct segments *model, struct segment *segment);

#endif
