/* user.c as C++. */
#include <cstdio>
#include <weir/caching.h>
#include <weir/sim.h>
#include <weir/weir.h>

int main(void)
{
    weir_sim_config device = WEIR_SIM_CONFIG_INIT;
    weir_sim *sim;
    if (weir_sim_create(&device, &sim) != WEIR_OK) return 1;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    weir_pool *pool;
    weir_stream *stream;
    weir_block *block;
    if (weir_pool_create(&config, &pool) != WEIR_OK) return 2;
    if (weir_pool_stream(pool, nullptr, &stream) != WEIR_OK) return 3;
    if (weir_pool_alloc(pool, stream, 1000, 0, &block) != WEIR_OK) return 4;
    if (weir_pool_free(pool, block, stream) != WEIR_OK) return 5;
    if (weir_pool_destroy(pool) != WEIR_OK) return 6;
    if (weir_sim_destroy(sim) != WEIR_OK) return 7;
    std::printf("weir %s\n", weir_version());
    return 0;
}
