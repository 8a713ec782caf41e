/* Two graphs of different sizes over one pool, on Ascend. The program tells the pool of its captures by a capture pool,
 * so that the graphs share their memory. */
#include <acl/acl.h>
#include <weir/acl.h>
#include <weir/caching.h>
#include <weir/capture.h>
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

#define MIB (1024 * 1024)

static void check(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "%s: %s\n", weir_status_text(status), weir_last_error());
        exit(1);
    }
}

static void acl(aclError error)
{
    if (error != ACL_SUCCESS) {
        fprintf(stderr, "ACL error %d\n", (int)error);
        exit(1);
    }
}

/* A step of a model: a temporary of `size` bytes, and work on it. */
static void model(weir_pool *pool, weir_stream *stream, aclrtStream native, uint64_t size)
{
    weir_block *block = NULL;
    check(weir_pool_alloc(pool, stream, size, 0, &block));
    acl(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(block), size, 1, size, native));
    check(weir_pool_free(pool, block, stream));
}

int main(void)
{
    weir_device *device = NULL;
    weir_pool *pool = NULL;
    weir_stream *stream = NULL;
    weir_capture_pool *captures = NULL;
    aclrtStream native = NULL;
    acl(aclInit(NULL));
    acl(aclrtSetDevice(0));
    acl(aclrtCreateStream(&native));
    check(weir_acl_device_create(NULL, &device));

    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = WEIR_POOL_CAPTURES_TOLD; /* each capture is told below: no question to the runtime in other calls */
    check(weir_pool_create(&config, &pool));
    check(weir_acl_stream(pool, native, &stream));

    aclmdlRI graph[2] = {NULL, NULL};
    const uint64_t sizes[2] = {64 * MIB, 16 * MIB};
    check(weir_capture_pool_create(pool, &captures));
    for (int i = 0; i < 2; i++) {
        check(weir_capture_begin(captures, stream));
        acl(aclmdlRICaptureBegin(native, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
        model(pool, stream, native, sizes[i]);
        acl(aclmdlRICaptureEnd(native, &graph[i]));
        check(weir_capture_end(captures));
    }
    weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
    check(weir_capture_get_stats(captures, &stats));
    printf("%llu captures, %llu MiB\n", (unsigned long long)stats.captures,
           (unsigned long long)(stats.live_bytes + stats.free_bytes) / MIB);

    for (int i = 0; i < 4; i++) {
        check(weir_capture_lend(captures, stream)); /* all launches were on this stream */
        model(pool, stream, native, sizes[1]);      /* work between launches takes memory of the graphs */
        check(weir_capture_reclaim(captures));      /* refused while a block of that work is live */
        acl(aclmdlRIExecuteAsync(graph[i % 2], native));
    }
    acl(aclrtSynchronizeStream(native));
    acl(aclmdlRIDestroy(graph[0]));
    acl(aclmdlRIDestroy(graph[1]));
    check(weir_capture_pool_release(captures)); /* the memory is the pool's again */

    check(weir_stream_retire(pool, stream));
    check(weir_pool_destroy(pool));
    check(weir_device_destroy(device));
    acl(aclrtDestroyStream(native));
    acl(aclrtResetDevice(0));
    acl(aclFinalize());
    return 0;
}
