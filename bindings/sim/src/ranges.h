/* ranges.h: an ordered set of disjoint address ranges, embedded in the objects that own them: a tree (shared/tree.h) by
 * start; its weights are the lengths, which makes first fit by address logarithmic.
 */
#ifndef WEIR_SIM_RANGES_H
#define WEIR_SIM_RANGES_H

#include "shared/tree.h"

typedef weir__tree_node weir__sim_range; /* a range of addresses: `start` included, `end` excluded; end > start */
typedef weir__tree weir__sim_ranges;

/* Inserts `range`. Its start and end are set, and it overlaps no member. */
static inline void weir__sim_ranges_insert(weir__sim_ranges *ranges, weir__sim_range *range)
{
    range->weight = range->end - range->start;
    weir__tree_insert(ranges, range);
}

static inline void weir__sim_ranges_remove(weir__sim_ranges *ranges, weir__sim_range *range)
{
    weir__tree_remove(ranges, range);
}

/* Must be called after `start` or `end` of a range in a set changed. The change must keep the order. */
static inline void weir__sim_ranges_resized(weir__sim_range *range)
{
    range->weight = range->end - range->start;
    weir__tree_renew(range);
}

static inline weir__sim_range *weir__sim_ranges_first(const weir__sim_ranges *ranges)
{
    return weir__tree_end(ranges, 0);
}

static inline weir__sim_range *weir__sim_ranges_next(const weir__sim_range *range)
{
    return weir__tree_step(range, 1);
}

static inline weir__sim_range *weir__sim_ranges_previous(const weir__sim_range *range)
{
    return weir__tree_step(range, 0);
}

/* Returns the range with the greatest start at or below `address`, or NULL. It need not contain `address`. */
static inline weir__sim_range *weir__sim_ranges_floor(const weir__sim_ranges *ranges, uint64_t address)
{
    return weir__tree_floor(ranges, address);
}

/* Returns the lowest range that ends above `address`, or NULL. */
static inline weir__sim_range *weir__sim_ranges_after(const weir__sim_ranges *ranges, uint64_t address)
{
    weir__sim_range *range = weir__tree_floor(ranges, address);
    if (range == NULL) {
        return weir__tree_end(ranges, 0);
    }
    return range->end > address ? range : weir__tree_step(range, 1);
}

/* Returns the lowest range of at least `size` bytes, or NULL. `size` is above 0. */
static inline weir__sim_range *weir__sim_ranges_first_fit(const weir__sim_ranges *ranges, uint64_t size)
{
    return weir__tree_next_above(ranges, NULL, size - 1);
}

#endif
