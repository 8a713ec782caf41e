/* core/src/report/ramps.c: see ramps.h. */
#include "ramps.h"

#include <stdlib.h>

static int by_top(const void *left, const void *right)
{
    const struct ramp *a = left;
    const struct ramp *b = right;
    return (a->top > b->top) - (a->top < b->top);
}

static uint64_t height(const struct ramp *ramp)
{
    return saturating_multiply(ramp->slope, ramp->top);
}

void weir__ramps_sort(struct ramp *ramps, size_t count)
{
    uint64_t below = 0;
    uint64_t rest = 0;
    qsort(ramps, count, sizeof(*ramps), by_top);
    for (size_t i = 0; i < count; i++) {
        ramps[i].below = below;
        below = saturating_add(below, height(&ramps[i]));
    }
    for (size_t i = count; i-- > 0;) {
        rest += ramps[i].slope;
        ramps[i].rest = rest;
    }
}

uint64_t weir__ramps_at(const struct ramp *ramps, size_t count, uint64_t x)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ramps[middle].top < x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < count) {
        return saturating_add(ramps[low].below, saturating_multiply(ramps[low].rest, x));
    }
    return count == 0 ? 0 : saturating_add(ramps[count - 1].below, height(&ramps[count - 1]));
}
