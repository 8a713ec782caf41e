/* ranges.h: an ordered set of disjoint address ranges, embedded in the objects that own them.
 *
 * Idea: a treap (binary search tree by start, heap by priority) with parent links; each node also knows the longest
 * range below it, which makes first fit by address logarithmic. Guarantee: priorities come from a fixed sequence, so
 * the same calls give the same tree on every machine. Cost: O(log n) expected for each operation, O(1) amortised for
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
    uint64_t sequence; /* of priorities; any start value does */
} weir__sim_ranges;

/* The range with the greatest start that is not above `address`, which it need not contain; NULL: none. */
weir__sim_range *weir__sim_ranges_floor(const weir__sim_ranges *ranges, uint64_t address);
/* The lowest range that ends above `address`; NULL: none. */
weir__sim_range *weir__sim_ranges_after(const weir__sim_ranges *ranges, uint64_t address);
weir__sim_range *weir__sim_ranges_first(const weir__sim_ranges *ranges);
weir__sim_range *weir__sim_ranges_next(const weir__sim_range *range);
weir__sim_range *weir__sim_ranges_previous(const weir__sim_range *range);
/* The lowest range of at least `size` bytes; NULL: none. */
weir__sim_range *weir__sim_ranges_first_fit(const weir__sim_ranges *ranges, uint64_t size);

/* `range` has its start and end set and overlaps none of the set. */
void weir__sim_ranges_insert(weir__sim_ranges *ranges, weir__sim_range *range);
void weir__sim_ranges_remove(weir__sim_ranges *ranges, weir__sim_range *range);
/* After start or end of a member changed in a way that keeps the order. */
void weir__sim_ranges_resized(weir__sim_range *range);

#endif
