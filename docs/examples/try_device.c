/* try_device.c: a pool over the device of memfd_device.c. */
#include "memfd_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/caching.h>
#include <weir/weir.h>

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "try_device: %s\n", weir_status_text(status));
    exit(1);
}

static void log_line(void *ctx, const char *line)
{
    (void)ctx;
    puts(line);
}

int main(void)
{
    weir_device *device, *logged;
    weir_pool *pool;
    weir_stream *stream;
    weir_block *blocks[3];
    check(memfd_device_create(64 << 20, &device));
    check(weir_log_create(device, log_line, NULL, &logged)); /* prints each device call */
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = logged;
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_pool_stream(pool, NULL, &stream));
    for (int i = 0; i < 3; i++) {
        check(weir_pool_alloc(pool, stream, 1 << 20, 0, &blocks[i]));
        memset((void *)(uintptr_t)weir_block_address(blocks[i]), i, 1 << 20);
    }
    for (int i = 0; i < 3; i++) check(weir_pool_free(pool, blocks[i], stream));
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(logged));
    check(weir_device_destroy(device));
    return 0;
}
