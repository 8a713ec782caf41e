/* core/shared/round_up.h: powers of two, and rounding up to a multiple of one. */
#ifndef WEIR_SHARED_ROUND_UP_H
#define WEIR_SHARED_ROUND_UP_H

#include "shared/assert.h"

#include <stdbool.h>
#include <stdint.h>

static inline bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
    WEIR_ASSERT(is_power_of_two(unit));
    return (value + unit - 1) & ~(unit - 1);
}

#endif
