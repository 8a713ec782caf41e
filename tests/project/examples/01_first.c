#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/sim.h>
#include <weir/weir.h>

static void check(weir_status status)
{
    if (status != WEIR_OK) exit(puts(weir_status_text(status)));
}

int main(void)
{
    weir_sim *sim; /* a simulated device; on Ascend weir_acl_device_create makes one */
    weir_pool *pool;
    weir_stream *stream; /* the pool's handle of the device's default stream: get it once, keep it */
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    check(weir_sim_create(NULL, &sim));
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_pool_stream(pool, NULL, &stream));
    for (int layer = 0; layer < 100; layer++) {
        weir_block *block;
        check(weir_pool_alloc(pool, stream, 3 << 20, 0, &block));
        check(weir_sim_fill(sim, NULL, weir_block_address(block), 3 << 20, 0, "layer")); /* queued, not yet run */
        check(weir_pool_free(pool, block, stream)); /* correct while the fill is still queued */
    }
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    check(weir_pool_get_stats(pool, &stats));
    printf("%d blocks of 3 MiB out of %d MiB\n", (int)stats.allocs, (int)(stats.peak_reserved_bytes >> 20));
    check(weir_pool_destroy(pool));
    check(weir_sim_destroy(sim));
    return 0;
}
