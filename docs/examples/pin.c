/* pin.c: pinned memory on the node next to a device.    pin [BUS_ID] */
#include <stdio.h>
#include <stdlib.h>
#include <weir/host.h>

static weir_host_pool *pool;

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    char why[2048] = "";
    (void)weir_host_explain(pool, WEIR_HOST_ANY_NODE, why, sizeof(why));
    fprintf(stderr, "pin: %s\n%s", weir_status_text(status), why);
    exit(status == WEIR_ERR_NO_MEMORY ? 77 : 1); /* 77: this process may not pin memory; ctest skips the test */
}

/* Returns the node next to a device. If the machine reports no such node, spreads the devices over the nodes. */
static int32_t node_of(const weir_topology *topology, const char *bus_id, uint32_t index, uint32_t devices)
{
    int32_t node = WEIR_NODE_NONE;
    if (bus_id != NULL) check(weir_topology_nearest(topology, bus_id, WEIR_NODE_NONE, &node));
    return node != WEIR_NODE_NONE ? node : weir_topology_slice(topology, index, devices);
}

int main(int argc, char **argv)
{
    weir_topology *topology;
    check(weir_topology_create(NULL, &topology));
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.topology = topology;
    config.flags = WEIR_HOST_STRICT;
    check(weir_host_pool_create(&config, &pool));

    void *staging;
    check(weir_host_alloc(pool, 1 << 20, node_of(topology, argc > 1 ? argv[1] : NULL, 0, 1), &staging));
    weir_host_info info = WEIR_HOST_INFO_INIT;
    check(weir_host_query(pool, staging, &info));
    printf("node %d, %s, %s\n", info.node, info.is_verified ? "verified" : "not verified",
           info.is_pinned ? "pinned" : "not pinned");
    check(weir_host_free(pool, staging));
    check(weir_host_pool_destroy(pool));
    weir_topology_destroy(topology);
    return 0;
}
