/* core/shared/round_up.h: rounds a number up to a multiple of a power of two. */
#ifndef WEIR_SHARED_ROUND_UP_H
#define WEIR_SHARED_ROUND_UP_H

#include <stdint.h>

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

#endif
