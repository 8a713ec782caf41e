/* core/src/report/ramps.h: a sum of many terms slope * min(x, top), evaluated for many x.
 *
 * Idea: the ramps are sorted by `top` once. A ramp with a top below x adds its height, slope * top, and any other ramp
 * adds slope * x. Two running sums over the sorted ramps and a binary search give the total.
 *
 * Guarantee: the result is the sum term by term, or UINT64_MAX where that sum does not fit. The slopes themselves must
 * add up to less than 2^64.
 * Cost: n log n to sort n ramps, log n for each x.
 *
 * Pure: no lock, no allocation.
 */
#ifndef WEIR_CORE_RAMPS_H
#define WEIR_CORE_RAMPS_H

#include <stddef.h>
#include <stdint.h>

/* The caller sets top and slope; weir__ramps_sort sets the sums. */
struct ramp {
    uint64_t top;
    uint64_t slope;
    uint64_t below; /* heights of the ramps before this one */
    uint64_t rest;  /* slopes of this ramp and of those behind it */
};

void weir__ramps_sort(struct ramp *ramps, size_t count);
/* The ramps are sorted. */
uint64_t weir__ramps_at(const struct ramp *ramps, size_t count, uint64_t x);

/* --- inline: sums and products that stay at UINT64_MAX --- */

static inline uint64_t saturating_add(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static inline uint64_t saturating_multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

#endif
