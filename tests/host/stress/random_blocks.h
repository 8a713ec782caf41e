/* tests/host/stress/random_blocks.h: shared by the random tests of host memory: random numbers, and sizes as engines
 * request them. */
#ifndef WEIR_STRESS_RANDOM_BLOCKS_H
#define WEIR_STRESS_RANDOM_BLOCKS_H

#include <stdint.h>

/* xorshift64; `random` is never 0. */
static inline uint64_t next(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Returns a size up to 2 << largest_shift. Most sizes are small, few are large. */
static inline uint64_t a_size(uint64_t *random, unsigned largest_shift)
{
    const unsigned bits = (unsigned)(next(random) % 100);
    const unsigned k = bits < 60 ? bits % 12 : bits < 90 ? 12 + bits % 6 : bits < 98 ? 18 + bits % 3 : largest_shift;
    return 1 + next(random) % (UINT64_C(2) << k);
}

#endif
