/* tests/pool/stress/random_program.h: shared by the programs made of a seed: random numbers, numbers from the
 * environment, and configs of strategies. */
#ifndef WEIR_STRESS_RANDOM_PROGRAM_H
#define WEIR_STRESS_RANDOM_PROGRAM_H

#include <weir/bump.h>
#include <weir/caching.h>
#include <weir/size_class.h>

#include <stdint.h>
#include <stdlib.h>

/* splitmix64: returns the next number of the sequence and advances `state`. */
static inline uint64_t chance(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t number(const char *text, uint64_t otherwise)
{
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

/* A config for each strategy that a program may use. */
struct strategy_configs {
    weir_caching_config caching;
    weir_size_class_config size_class;
    weir_bump_config bump;
};

/* Derives the config of size_class from the sizes in `caching`, which the caller has chosen. */
static inline void derive_size_class(struct strategy_configs *configs)
{
    configs->size_class = (weir_size_class_config)WEIR_SIZE_CLASS_CONFIG_INIT;
    configs->size_class.small_bytes = configs->caching.small_bytes;
    configs->size_class.slab_region_bytes = configs->caching.small_region_bytes;
    configs->size_class.large_region_bytes = configs->caching.large_region_bytes;
}

/* Returns the config for one of weir's strategies. Returns NULL for any other strategy, which then uses its
 * defaults. */
static inline const void *config_for(const struct strategy_configs *configs, const weir_strategy_ops *strategy)
{
    return strategy == weir_caching_strategy()      ? (const void *)&configs->caching
           : strategy == weir_size_class_strategy() ? (const void *)&configs->size_class
           : strategy == weir_bump_strategy()       ? (const void *)&configs->bump
                                                    : NULL;
}

#endif
