/* The smallest use of weir::jemalloc. */
#include <stdio.h>
#include <string.h>
#include <weir/jemalloc.h>

int main(void)
{
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_ALLOW_UNPINNED;
    config.engine = weir_host_jemalloc_engine();
    weir_host_pool *pool;
    void *block;
    const weir_status made = weir_host_pool_create(&config, &pool);
    if (made == WEIR_ERR_UNSUPPORTED && strstr(weir_last_error(), "pages of 65536 bytes"))
        return 0; /* Debian's for ARM64 */
    if (made != WEIR_OK) return 1;
    if (weir_host_alloc(pool, 1000, WEIR_HOST_THREAD_NODE, &block) != WEIR_OK) return 2;
    memset(block, 1, 1000);
    if (weir_host_free(pool, block) != WEIR_OK) return 3;
    if (weir_host_pool_destroy(pool) != WEIR_OK) return 4;
    printf("weir %s\n", weir_version());
    return 0;
}
