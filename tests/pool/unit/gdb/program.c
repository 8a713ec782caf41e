/* program.c: a pool for gdb.sh, which stops in `show`. */
#include "ranges.h"

#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/sim.h>

#include <stdlib.h>

void show(weir_pool *pool, weir_stream *stream, weir_block *block, const struct range *range);

__attribute__((noinline)) void show(weir_pool *pool, weir_stream *stream, weir_block *block, const struct range *range)
{
    __asm__ volatile("" : : "r"(pool), "r"(stream), "r"(block), "r"(range) : "memory");
}

static void must(weir_status status)
{
    if (status != WEIR_OK) {
        exit(1);
    }
}

int main(void)
{
    weir_sim_config sim_config = WEIR_SIM_CONFIG_INIT;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_sim *sim = NULL;
    weir_pool *pool = NULL;
    weir_sim_stream *native = NULL;
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    weir_block *freed[2] = {NULL, NULL};
    must(weir_sim_create(&sim_config, &sim));
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    config.limit_bytes = UINT64_C(64) << 20;
    config.flags = WEIR_POOL_REGIONS; /* there the rest of a region follows its blocks */
    must(weir_pool_create(&config, &pool));
    must(weir_sim_stream_create(sim, &native));
    must(weir_pool_stream(pool, native, &stream));
    must(weir_pool_alloc(pool, stream, 9000, 0, &freed[0]));
    must(weir_pool_alloc(pool, stream, 7000, 0, &freed[1]));
    must(weir_pool_alloc(pool, stream, 5000, 0, &block));
    /* this block stays in the register `last` of the front cache, so the pool counts it as live */
    must(weir_pool_free(pool, freed[0], stream));
    must(weir_pool_free(pool, freed[1], stream));                                 /* is cached: 7168 bytes */
    show(pool, stream, block, ((const struct range *)(const void *)block)->next); /* the rest of the region is free */
    must(weir_pool_free(pool, block, stream));
    must(weir_pool_destroy(pool));
    must(weir_sim_destroy(sim));
    return 0;
}
