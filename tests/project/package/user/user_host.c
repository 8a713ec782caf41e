/* A pool of host memory: it needs the part of weir that reads the topology, and hwloc with it. */
#include <stdio.h>
#include <string.h>
#include <weir/host.h>
#include <weir/weir.h>

int main(void)
{
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    weir_host_pool *pool;
    void *block;
    if (weir_host_pool_create(&config, &pool) != WEIR_OK) return 1;
    if (weir_host_alloc(pool, 1 << 20, WEIR_HOST_THREAD_NODE, &block) != WEIR_OK) return 2;
    memset(block, 1, 1 << 20);
    if (weir_host_free(pool, block) != WEIR_OK) return 3;
    if (weir_host_pool_destroy(pool) != WEIR_OK) return 4;
    printf("weir %s\n", weir_version());
    return 0;
}
