/* try_strategy.c: runs the same traffic on two strategies and prints how much memory each takes from the device. */
#include "first_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/sim.h>
#include <weir/weir.h>

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "try_strategy: %s\n", weir_status_text(status));
    exit(1);
}

static unsigned next(unsigned *seed) /* from 0 to 32767 */
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16 & 0x7fff;
}

static void try_strategy(const weir_strategy_ops *strategy)
{
    enum { slots = 200, steps = 20000 };
    weir_block *blocks[slots] = {NULL};
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *stream;
    unsigned seed = 1;
    check(weir_sim_create(NULL, &sim));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = strategy;
    check(weir_pool_create(&config, &pool));
    check(weir_pool_stream(pool, NULL, &stream));
    for (int step = 0; step < steps; step++) {
        weir_block **block = &blocks[next(&seed) % slots];
        if (*block != NULL) check(weir_pool_free(pool, *block, stream));
        check(weir_pool_alloc(pool, stream, (uint64_t)1 << (10 + next(&seed) % 12) | next(&seed), 0, block));
    }
    const char *why = "";
    if (weir_pool_check(pool, &why) != WEIR_OK) printf("%s\n", why);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    check(weir_pool_get_stats(pool, &stats));
    printf("%-10s %3d MiB reserved for %d MiB live\n", strategy->name, (int)(stats.peak_reserved_bytes >> 20),
           (int)(stats.peak_live_bytes >> 20));
    check(weir_pool_destroy(pool));
    check(weir_sim_destroy(sim));
}

int main(void)
{
    try_strategy(first_fit_strategy());
    try_strategy(weir_caching_strategy());
    return 0;
}
