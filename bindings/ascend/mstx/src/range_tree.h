/* bindings/ascend/mstx/src/range_tree.h: a set of address ranges ordered by start; ranges may overlap. Each subtree
 * (shared/tree.h) knows the greatest end of its ranges, which makes overlaps quick to find.
 */
#ifndef WEIR_MSTX_RANGE_TREE_H
#define WEIR_MSTX_RANGE_TREE_H

#include "shared/assert.h"
#include "shared/tree.h"

/* `start` and `end`, one past the last byte and above start, are constant while the range is in a tree. */
typedef weir__tree_node weir__range;

static inline void weir__range_insert(weir__tree *tree, weir__range *range)
{
    WEIR_ASSERT(range->start < range->end);
    range->weight = range->end;
    weir__tree_insert(tree, range);
}

/* Returns a range with that start, or NULL. */
static inline weir__range *weir__range_at(const weir__tree *tree, uint64_t start)
{
    weir__range *range = weir__tree_at_least(tree, start, 0);
    return range != NULL && range->start == start ? range : NULL;
}

/* Returns the first range after `range` (NULL: the first of all) that has a byte in [start, end), or NULL. */
static inline weir__range *weir__range_next_in(const weir__tree *tree, const weir__range *range, uint64_t start,
                                               uint64_t end)
{
    weir__range *next = weir__tree_next_above(tree, range, start);
    return next != NULL && next->start < end ? next : NULL;
}

#endif
