/* cuda.c: a pool on an NVIDIA GPU. Without a driver the program says so and exits with 0. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/caching.h>
#include <weir/cuda.h>

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "cuda: %s\n", weir_last_error());
    exit(1);
}

int main(void)
{
    weir_device *device;
    weir_pool *pool;
    weir_stream *stream;
    weir_block *block;
    if (weir_cuda_device_create(NULL, &device) == WEIR_ERR_UNSUPPORTED) { /* NULL: CUDA device 0 */
        puts(weir_last_error());
        return 0;
    }
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    check(weir_pool_create(&config, &pool));
    check(weir_pool_stream(pool, NULL, &stream)); /* NULL or a CUstream (cudaStream_t is the same type) */
    for (int i = 0; i < 100; i++) {
        check(weir_pool_alloc(pool, stream, 1 << 20, 0, &block));
        /* ... kernels on the stream work at weir_block_address(block) ... */
        check(weir_pool_free(pool, block, stream));
    }
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    check(weir_pool_get_stats(pool, &stats));
    printf("100 blocks out of %" PRIu64 " MiB\n", stats.reserved_bytes >> 20);
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    return 0;
}
