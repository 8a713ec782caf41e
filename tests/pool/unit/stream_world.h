/* tests/pool/unit/stream_world.h: a pool with regions for one block of SIZE, and streams; the pool is told of their
 * events. The including file names its streams first: enum { A, B, streams };
 */
#ifndef STREAM_WORLD_H
#define STREAM_WORLD_H

#include "rig/pool.h"

#define SIZE (64 * KIB)

/* limit_bytes: of the pool, 0 = none. */
static inline struct world open_world(uint64_t limit_bytes)
{
    const weir_caching_config caching = regions_of(SIZE, 0);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.strategy_config = &caching;
    config.limit_bytes = limit_bytes;
    config.flags = WEIR_POOL_REGIONS;
    config.growth = WEIR_GROWTH_GROW_FIRST; /* the tests look at what is reused without a wait */
    return world_over(new_sim(device_of_units(SIZE, 0)), config);
}

#endif
