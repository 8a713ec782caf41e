/* tests/rig/seeds.h: the seeds that a random test runs.
 *
 * WEIR_SEEDS in the environment is the number of random programs of the cheapest test, stress.pool_random. A test with
 * longer programs runs all of its usual number and a share of the rest, so that one value suits every test.
 * WEIR_SEED is the first seed; without WEIR_SEEDS it is the only one. */
#ifndef WEIR_RIG_SEEDS_H
#define WEIR_RIG_SEEDS_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t seeds_read(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static inline uint64_t seeds_first(void)
{
    return seeds_read("WEIR_SEED", 1);
}

/* Returns the number of seeds to run: WEIR_SEEDS up to the usual number, and one more for each `one_in` seeds beyond
 * that. */
static inline uint64_t seeds_count(uint64_t usual, uint64_t one_in)
{
    const uint64_t seeds = seeds_read("WEIR_SEEDS", getenv("WEIR_SEED") != NULL ? 1 : usual);
    return seeds <= usual ? seeds : usual + (seeds - usual) / one_in;
}

#endif
