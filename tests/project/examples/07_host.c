#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/host.h>
#include <weir/sim.h>

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "07_host: %s\n", weir_status_text(status));
    exit(1);
}

int main(void)
{
    weir_sim *sim; /* on an accelerator: weir_acl_device_create, and weir_acl_host_runtime fills all of `runtime` */
    weir_sim_stream *stream;
    uint64_t weights;
    check(weir_sim_create(NULL, &sim));
    check(weir_sim_stream_create(sim, &stream));
    check(weir_device_region_alloc(weir_sim_device(sim), 64 << 20, &weights));

    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.device = weir_sim_device(sim); /* weir_host_free_after takes streams of this device */
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.runtime = &runtime;
    config.flags = WEIR_HOST_ALLOW_UNPINNED; /* without the right to lock memory, blocks are unpinned */
    weir_host_pool *pool;
    check(weir_host_pool_create(&config, &pool));
    for (uint64_t layer = 0; layer < 64; layer++) {
        void *staging;
        check(weir_host_alloc(pool, 1 << 20, WEIR_HOST_THREAD_NODE, &staging));
        memset(staging, (int)layer, 1 << 20);
        check(weir_sim_copy_from_host(sim, stream, weights + (layer << 20), staging, 1 << 20, "layer"));
        check(weir_host_free_after(pool, staging, stream)); /* correct while the copy is still queued */
    }
    void *last;
    check(weir_host_alloc(pool, 100, WEIR_HOST_THREAD_NODE, &last));
    weir_host_info info = WEIR_HOST_INFO_INIT;
    check(weir_host_query(pool, last, &info));
    printf("node %d, memory %s\n", info.node, weir_host_kind_text(info.kind));
    check(weir_host_pool_destroy(pool));
    check(weir_device_region_free(weir_sim_device(sim), weights, 64 << 20));
    check(weir_sim_destroy(sim));
    return 0;
}
