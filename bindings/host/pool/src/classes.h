/* classes.h: weir's size classes of small host blocks, as arithmetic.
 *
 * Eight multiples of a step, then eight for each doubling, at multiples of an eighth of a power of two:
 *
 *     fine:   16, 32, ... 128, then    2^k + (i + 1) 2^(k-3)     k = 7 .. 13, i = 0 .. 7: up to 16 KiB
 *     usual:  64, 128, ... 512, then   2^k + i 2^(k-3) + 64      k = 9 .. 15, i = 0 .. 7, and one more of 2^16 + 64
 *
 * Fine classes waste less than 16 bytes up to 128 bytes. The usual ones are for memory with a pad: a power of two with
 * its pad of 32, rounded to 64, fits a class exactly. Bound: past the first eight a block wastes less than one ninth of
 * itself (11.2 %).
 */
#ifndef WEIR_HOST_CLASSES_H
#define WEIR_HOST_CLASSES_H

#include "shared/assert.h"

#include <stdbool.h>
#include <stdint.h>

enum { WEIR__HOST_CLASSES = 65, WEIR__HOST_FINE_CLASSES = 64 };

/* Returns the block size of a class, or 0 if there is no such class. */
static inline uint64_t weir__host_class_bytes(uint32_t class, bool is_fine)
{
    const uint64_t step = is_fine ? 16 : 64;
    if (class >= (is_fine ? WEIR__HOST_FINE_CLASSES : WEIR__HOST_CLASSES)) {
        return 0;
    }
    if (class < 8) {
        return step * ((uint64_t) class + 1);
    }
    const unsigned k = (is_fine ? 7 : 9) + (class - 8) / 8;
    const uint64_t part = ((uint64_t) class - 8) % 8 << (k - 3);
    return (UINT64_C(1) << k) + part + (is_fine ? UINT64_C(1) << (k - 3) : step);
}

#endif
