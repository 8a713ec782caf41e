/* ranges.h: an ordered set of disjoint address ranges, embedded in the objects that own them.
 *
 * Idea: a treap (binary search tree by start, heap by priority) with parent links. Each node also knows the longest
 * range in its subtree, which makes first fit by address logarithmic. Guarantee: priorities come from a fixed sequence,
 * so the same calls give the same tree on every machine. Cost: O(log n) expected for each operation, O(1) amortised for
 * `next`; nothing is allocated.
 *
 * Invariants, for each node x: end > start; x.left's ranges end at or before x.start, x.right's start at or after
 * x.end; x.priority >= its children's; x.longest = max(x.end - x.start, left.longest, right.longest).
 */
#ifndef WEIR_SIM_RANGES_H
#define WEIR_SIM_RANGES_H

#include <stddef.h>
#include <stdint.h>

typedef struct weir__sim_range {
    struct weir__sim_range *left;
    struct weir__sim_range *right;
    struct weir__sim_range *parent;
    uint64_t start;
    uint64_t end;
    uint64_t longest;
    uint64_t priority;
} weir__sim_range;

typedef struct weir__sim_ranges {
    weir__sim_range *root;
    uint64_t sequence; /* state of the generator of priorities; any start value works */
} weir__sim_ranges;

/* Returns the range with the greatest start that is not above `address`, or NULL. The range need not contain
 * `address`. */
weir__sim_range *weir__sim_ranges_floor(const weir__sim_ranges *ranges, uint64_t address);
/* Returns the lowest range that ends above `address`, or NULL. */
weir__sim_range *weir__sim_ranges_after(const weir__sim_ranges *ranges, uint64_t address);
weir__sim_range *weir__sim_ranges_first(const weir__sim_ranges *ranges);
weir__sim_range *weir__sim_ranges_next(const weir__sim_range *range);
weir__sim_range *weir__sim_ranges_previous(const weir__sim_range *range);
/* Returns the lowest range of at least `size` bytes, or NULL. */
weir__sim_range *weir__sim_ranges_first_fit(const weir__sim_ranges *ranges, uint64_t size);

/* Inserts `range`. Its start and end are set, and it overlaps no member. */
void weir__sim_ranges_insert(weir__sim_ranges *ranges, weir__sim_range *range);
void weir__sim_ranges_remove(weir__sim_ranges *ranges, weir__sim_range *range);
/* Updates the set after start or end of a member changed. The change must keep the order. */
void weir__sim_ranges_resized(weir__sim_range *range);

#endif
