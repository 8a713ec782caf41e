/* core/shared/intervals.h: an ordered set of disjoint address ranges, embedded in the objects that own them: a tree
 * (shared/tree.h) by start; its weights are the lengths, which makes first fit by address logarithmic.
 */
#ifndef WEIR_SHARED_INTERVALS_H
#define WEIR_SHARED_INTERVALS_H

#include "shared/assert.h"
#include "shared/tree.h"

typedef weir__tree_node weir__interval; /* a range of addresses: `start` included, `end` excluded; end > start */
typedef weir__tree weir__intervals;

/* Inserts `range`. Its start and end are set, and it overlaps no member. */
static inline void weir__intervals_insert(weir__intervals *ranges, weir__interval *range)
{
    WEIR_ASSERT(range->start < range->end);
    range->weight = range->end - range->start;
    weir__tree_insert(ranges, range);
}

static inline void weir__intervals_remove(weir__intervals *ranges, weir__interval *range)
{
    weir__tree_remove(ranges, range);
}

/* Must be called after `start` or `end` of a range in a set changed. The change must keep the order. */
static inline void weir__intervals_resized(weir__interval *range)
{
    WEIR_ASSERT(range->start < range->end);
    range->weight = range->end - range->start;
    weir__tree_renew(range);
}

static inline weir__interval *weir__intervals_first(const weir__intervals *ranges)
{
    return weir__tree_end(ranges, 0);
}

static inline weir__interval *weir__intervals_next(const weir__interval *range)
{
    return weir__tree_step(range, 1);
}

static inline weir__interval *weir__intervals_previous(const weir__interval *range)
{
    return weir__tree_step(range, 0);
}

/* Returns the range with the greatest start at or below `address`, or NULL. It need not contain `address`. */
static inline weir__interval *weir__intervals_floor(const weir__intervals *ranges, uint64_t address)
{
    return weir__tree_floor(ranges, address);
}

/* Returns the lowest range that ends above `address`, or NULL. */
static inline weir__interval *weir__intervals_after(const weir__intervals *ranges, uint64_t address)
{
    weir__interval *range = weir__tree_floor(ranges, address);
    if (range == NULL) {
        return weir__tree_end(ranges, 0);
    }
    return range->end > address ? range : weir__tree_step(range, 1);
}

/* Returns the lowest range of at least `size` bytes, or NULL. `size` is above 0. */
static inline weir__interval *weir__intervals_first_fit(const weir__intervals *ranges, uint64_t size)
{
    WEIR_ASSERT(size > 0);
    return weir__tree_next_above(ranges, NULL, size - 1);
}

#endif
