/* classes.h: weir's size classes of small host blocks, as arithmetic.
 *
 * 64, 128, ... 512, then eight for each doubling, each 64 above a multiple of an eighth of a power of two:
 *
 *     class 8 + 8 (k - 9) + i  =  2^k + i 2^(k-3) + 64       k = 9 .. 15, i = 0 .. 7, and one more of 2^16 + 64
 *
 * so that a power of two with its pad of 32, rounded to 64, fits a class exactly. Bound: above 512 bytes a block wastes
 * less than one ninth of itself (11.2 %).
 */
#ifndef WEIR_HOST_CLASSES_H
#define WEIR_HOST_CLASSES_H

#include "shared/assert.h"

#include <stdint.h>

enum { WEIR__HOST_CLASSES = 65 };

/* Returns the class of a size, which is a multiple of 64 from 64 to 64 KiB less 64. */
static inline uint32_t weir__host_class_of(uint64_t size)
{
    WEIR_ASSERT(size != 0 && size % 64 == 0);
    if (size <= 512) {
        return (uint32_t)(size / 64) - 1;
    }
    const uint64_t w = size - 64 - 1;
    const unsigned k = 63u - (unsigned)__builtin_clzll(w); /* at least 8 */
    return (k - 8) * 8 + (uint32_t)((w >> (k - 3)) & 7) + 1;
}

static inline uint64_t weir__host_class_bytes(uint32_t class)
{
    WEIR_ASSERT(class < WEIR__HOST_CLASSES);
    if (class < 8) {
        return 64 * ((uint64_t) class + 1);
    }
    const unsigned k = 9 + (class - 8) / 8;
    return (UINT64_C(1) << k) + (((uint64_t) class - 8) % 8 << (k - 3)) + 64;
}

#endif
