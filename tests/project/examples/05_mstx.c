#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/mstx.h>
#include <weir/sim.h>
#include <weir/weir.h>

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "05_mstx: %s\n", weir_status_text(status));
    exit(1);
}

int main(void)
{
    weir_sim *sim;
    check(weir_sim_create(NULL, &sim));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    weir_pool *pool;
    weir_stream *stream;
    weir_block *block;
    weir_mstx *mstx; /* stays NULL unless MSTX_INJECTION_PATH names a tool, such as libweir_mstx_check.so */
    check(weir_pool_create(&config, &pool));
    check(weir_mstx_attach(pool, NULL, &mstx));
    check(weir_pool_stream(pool, NULL, &stream));
    check(weir_pool_alloc(pool, stream, 3 << 20, 0, &block));

    weir_mstx_stats counters = WEIR_MSTX_STATS_INIT;
    check(weir_mstx_get_stats(mstx, &counters));
    if (weir_mstx_has_tool()) printf("%d heap, %d region\n", (int)counters.heaps, (int)counters.regions);
    else puts("no tool listens");
    check(weir_pool_free(pool, block, stream));
    check(weir_pool_destroy(pool));
    check(weir_mstx_detach(mstx));
    check(weir_sim_destroy(sim));
}
