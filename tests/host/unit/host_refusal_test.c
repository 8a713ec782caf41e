/* tests/host/unit/host_refusal_test.c: each refusal of host pools, topologies and heaps carries a sentence that names
 * the argument or state.
 */
#include "pool/unit/refusal.h"

#include <weir/caching.h>
#include <weir/heap.h>
#include <weir/sim.h>

#include <stdio.h>

struct world {
    weir_sim *sim;
    weir_pool *pool;
    weir_stream *stream;
    weir_topology *topology;
    weir_host_pool *plain;   /* a pool that knows no streams */
    weir_host_pool *ordered; /* a pool that knows the simulator's streams */
};

static struct world open_world(void)
{
    struct world w = {0};
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_host_pool_config host = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    assert_int_equal(weir_sim_create(NULL, &w.sim), WEIR_OK);
    config.device = runtime.device = weir_sim_device(w.sim);
    config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&config, &w.pool), WEIR_OK);
    assert_int_equal(weir_pool_stream(w.pool, NULL, &w.stream), WEIR_OK);
    assert_int_equal(weir_topology_create(NULL, &w.topology), WEIR_OK);
    host.flags = WEIR_HOST_ALLOW_UNPINNED;
    host.kinds = 1u << WEIR_HOST_UNPINNED;
    host.topology = w.topology;
    assert_int_equal(weir_host_pool_create(&host, &w.plain), WEIR_OK);
    host.runtime = &runtime;
    assert_int_equal(weir_host_pool_create(&host, &w.ordered), WEIR_OK);
    return w;
}

static void close_world(struct world *w)
{
    assert_int_equal(weir_host_pool_destroy(w->plain), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(w->ordered), WEIR_OK);
    weir_topology_destroy(w->topology);
    assert_int_equal(weir_pool_destroy(w->pool), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

TEST(test_topologies)
{
    struct world w = open_world();
    weir_topology *topology = NULL;
    weir_topology_config config = WEIR_TOPOLOGY_CONFIG_INIT;
    weir_node_info info = WEIR_NODE_INFO_INIT;
    weir_topology_device device = WEIR_TOPOLOGY_DEVICE_INIT;
    int32_t node = 0;
    refused(weir_topology_create(NULL, NULL), WEIR_ERR_INVALID, "topology is NULL");
    config.xml = "/no/such/file.xml";
    const bool has_hwloc = weir_topology_create(&config, &topology) != WEIR_ERR_UNSUPPORTED;
    refused(weir_topology_create(&config, &topology), has_hwloc ? WEIR_ERR_INVALID : WEIR_ERR_UNSUPPORTED,
            "config.xml");
    config.synthetic = "pack:2 [numa] core:4 pu:1";
    refused(weir_topology_create(&config, &topology), WEIR_ERR_INVALID, "config.xml and config.synthetic are both set");
    config = (weir_topology_config){0};
    refused(weir_topology_create(&config, &topology), WEIR_ERR_INVALID,
            "weir_topology_create: config has no struct_size");
    refused(weir_topology_node(NULL, 0, &info), WEIR_ERR_INVALID, "weir_topology_node: topology is NULL");
    refused(weir_topology_node(w.topology, 4711, &info), WEIR_ERR_INVALID,
            "weir_topology_node: index 4711 is not below");
    refused(weir_topology_node(w.topology, 0, NULL), WEIR_ERR_INVALID, "weir_topology_node: info is NULL");
    refused(weir_topology_device_at(NULL, 0, &device), WEIR_ERR_INVALID, "weir_topology_device_at: topology is NULL");
    refused(weir_topology_device_at(w.topology, 4711, &device), WEIR_ERR_INVALID,
            "weir_topology_device_at: index 4711");
    refused(weir_topology_nearest(NULL, "0000:00:00.0", 0, &node), WEIR_ERR_INVALID,
            "weir_topology_nearest: topology is NULL");
    refused(weir_topology_nearest(w.topology, NULL, 0, &node), WEIR_ERR_INVALID, "bus_id is NULL");
    refused(weir_topology_nearest(w.topology, "0000:00:00.0", 0, NULL), WEIR_ERR_INVALID, "node is NULL");
    refused(weir_topology_nearest(w.topology, "card 0", 0, &node), WEIR_ERR_INVALID,
            "bus_id \"card 0\" is no PCI bus id");
    refused(weir_topology_nearest(w.topology, "fffe:ff:1f.7", 0, &node), WEIR_ERR_INVALID, "names no device");
    close_world(&w);
}

TEST(test_host_pool_configs)
{
    struct world w = open_world();
    const weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    const weir_host_runtime unset = {0};
    const struct {
        weir_host_pool_config config;
        const char *named;
    } bad[] = {
        {{.flags = 1u << 20}, "config.flags has unknown bits 0x100000"},
        {{.kinds = 1u << 20}, "config.kinds has unknown bits 0x100000"},
        {{.kinds = 1u << WEIR_HOST_UNPINNED}, "config.kinds has WEIR_HOST_UNPINNED"},
        {{.chunk_bytes = 3 << 20}, "config.chunk_bytes 3145728"},
        {{.chunk_bytes = 1 << 20}, "config.chunk_bytes 1048576"},
        {{.flags = WEIR_HOST_PAGEABLE, .chunk_bytes = 8 << 10}, "config.chunk_bytes 8192"},
        {{.flags = WEIR_HOST_PAGEABLE, .runtime = &runtime}, "config.runtime is set"},
        {{.flags = WEIR_HOST_PAGEABLE | WEIR_HOST_STRICT}, "config.flags has WEIR_HOST_STRICT"},
        {{.flags = WEIR_HOST_PAGEABLE, .kinds = 1u << WEIR_HOST_LOCKED}, "config.kinds is 0x10"},
        {{.kinds = 1u << WEIR_HOST_RUNTIME}, "config.kinds 0x1 needs a runtime"},
        {{.runtime = &unset}, "config.runtime has no struct_size"},
    };
    weir_host_pool *pool = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        weir_host_pool_config config = bad[i].config;
        config.struct_size = sizeof(config);
        char expected[200];
        (void)snprintf(expected, sizeof(expected), "weir_host_pool_create: %s", bad[i].named);
        refused(weir_host_pool_create(&config, &pool), WEIR_ERR_INVALID, expected);
        assert_null(pool);
    }
    refused(weir_host_pool_create(NULL, NULL), WEIR_ERR_INVALID, "weir_host_pool_create: pool is NULL");
    close_world(&w);
}

TEST(test_host_blocks)
{
    struct world w = open_world();
    void *p = NULL;
    weir_host_info info = WEIR_HOST_INFO_INIT;
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    refused(weir_host_alloc(NULL, 1, 0, &p), WEIR_ERR_INVALID, "weir_host_alloc: pool is NULL");
    refused(weir_host_alloc(w.plain, 1, WEIR_HOST_ANY_NODE, NULL), WEIR_ERR_INVALID, "weir_host_alloc: ptr is NULL");
    refused(weir_host_alloc(w.plain, 0, WEIR_HOST_ANY_NODE, &p), WEIR_ERR_INVALID, "weir_host_alloc: size 0");
    refused(weir_host_alloc(w.plain, 1, 4711, &p), WEIR_ERR_INVALID, "weir_host_alloc: node 4711");
    refused(weir_host_alloc_aligned(w.plain, 1, 24, -1, &p), WEIR_ERR_INVALID, "weir_host_alloc_aligned: align 24");
    refused(weir_host_alloc_aligned(w.plain, UINT64_MAX, 64, -1, &p), WEIR_ERR_INVALID,
            "weir_host_alloc_aligned: size");
    refused(weir_host_free(NULL, &p), WEIR_ERR_INVALID, "weir_host_free: pool is NULL");
    refused(weir_host_free(w.plain, &p), WEIR_ERR_INVALID, "weir_host_free: ptr 0x");
    refused(weir_host_free_sized(NULL, &p, 1), WEIR_ERR_INVALID, "weir_host_free_sized: pool is NULL");
    refused(weir_host_free_sized(w.plain, &p, 1), WEIR_ERR_INVALID, "weir_host_free_sized: ptr 0x");
    refused(weir_host_free_after(NULL, &p, NULL), WEIR_ERR_INVALID, "weir_host_free_after: pool is NULL");
    refused(weir_host_free_after(w.plain, &p, NULL), WEIR_ERR_UNSUPPORTED, "weir_host_free_after: pool has no streams");
    refused(weir_host_free_after(w.ordered, &p, NULL), WEIR_ERR_INVALID, "weir_host_free_after: ptr 0x");
    refused(weir_host_stream_retire(NULL, NULL), WEIR_ERR_INVALID, "weir_host_stream_retire: pool is NULL");
    refused(weir_host_stream_retire(w.plain, NULL), WEIR_ERR_UNSUPPORTED,
            "weir_host_stream_retire: pool has no streams");
    refused(weir_host_query(NULL, &p, &info), WEIR_ERR_INVALID, "weir_host_query: pool is NULL");
    refused(weir_host_query(w.plain, NULL, &info), WEIR_ERR_INVALID, "weir_host_query: ptr is NULL");
    refused(weir_host_query(w.plain, &p, NULL), WEIR_ERR_INVALID, "weir_host_query: info is NULL");
    refused(weir_host_query(w.plain, &p, &info), WEIR_ERR_INVALID, "weir_host_query: ptr 0x");
    refused(weir_host_get_stats(NULL, -1, &stats), WEIR_ERR_INVALID, "weir_host_get_stats: pool is NULL");
    refused(weir_host_get_stats(w.plain, -1, NULL), WEIR_ERR_INVALID, "weir_host_get_stats: stats is NULL");
    refused(weir_host_get_stats(w.plain, 4711, &stats), WEIR_ERR_INVALID, "weir_host_get_stats: node 4711");
    refused(weir_host_trim(NULL, 0, NULL), WEIR_ERR_INVALID, "weir_host_trim: pool is NULL");
    refused(weir_host_check(NULL, NULL), WEIR_ERR_INVALID, "weir_host_check: pool is NULL");
    refused(weir_host_pool_hold(NULL), WEIR_ERR_INVALID, "weir_host_pool_hold: pool is NULL");
    refused(weir_host_pool_release(NULL), WEIR_ERR_INVALID, "weir_host_pool_release: pool is NULL");
    refused(weir_host_pool_release(w.plain), WEIR_ERR_INVALID, "weir_host_pool_release: pool is not held");
    /* The block was freed before: a second free is refused with a sentence. */
    assert_int_equal(weir_host_alloc(w.plain, 100, WEIR_HOST_ANY_NODE, &p), WEIR_OK);
    assert_int_equal(weir_host_free(w.plain, p), WEIR_OK);
    refused(weir_host_free(w.plain, p), WEIR_ERR_INVALID, "weir_host_free: ptr 0x");
    close_world(&w);
}

TEST(test_heap_configs)
{
    struct world w = open_world();
    const struct {
        weir_heap_config config;
        const char *named;
    } bad[] = {
        {{.flags = 1u << 20}, "config.flags has unknown bits 0x100000"},
        {{.align = 96}, "config.align 96"},
        {{.align = 4 << 20}, "config.align 4194304"},
        {{.slack_bytes = 5000}, "config.slack_bytes 5000"},
        {{.decay_ms = -3}, "config.decay_ms -3 is not from 0 to 2^31 - 1"},
        {{.decay_ms = INT64_C(1) << 31}, "config.decay_ms 2147483648 is not"},
        {{.decay_ms = 5, .source = {.host_pool = w.plain}}, "config.decay_ms is set, but memory of config.source"},
        {{.flags = WEIR_HEAP_DECAY_THREAD, .source = {.host_pool = w.plain}},
         "config.flags has WEIR_HEAP_DECAY_THREAD"},
        {{.limit_bytes = 1, .source = {.host_pool = w.plain}}, "config.limit_bytes is set"},
        {{.source = {.host_pool = w.plain, .pool = w.pool, .stream = w.stream}},
         "config.source.host_pool and config.source.pool"},
        {{.source = {.pool = w.pool}}, "config.source.pool is set without config.source.stream"},
        {{.long_lived = {.stream = w.stream}}, "config.long_lived.stream is set without config.long_lived.pool"},
        {{.flags = WEIR_HEAP_ON_NODE, .source = {.host_pool = w.plain, .node = 4711}}, "config.source.node 4711"},
    };
    weir_heap *heap = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        weir_heap_config config = bad[i].config;
        config.struct_size = sizeof(config);
        char expected[200];
        (void)snprintf(expected, sizeof(expected), "weir_heap_create: %s", bad[i].named);
        refused(weir_heap_create(&config, &heap), WEIR_ERR_INVALID, expected);
        assert_null(heap);
    }
    refused(weir_heap_create(NULL, NULL), WEIR_ERR_INVALID, "weir_heap_create: heap is NULL");
    close_world(&w);
}

static bool drop(void *ctx, const char *text, size_t length)
{
    (void)ctx, (void)text, (void)length;
    return true;
}

TEST(test_heaps)
{
    struct world w = open_world();
    weir_heap *heap = NULL;
    weir_heap *over = NULL;
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    weir_recorder_config recording = {.struct_size = sizeof(recording), .sink = drop};
    weir_recorder *recorders[2];
    assert_int_equal(weir_recorder_create(&recording, &recorders[0]), WEIR_OK);
    assert_int_equal(weir_recorder_create(&recording, &recorders[1]), WEIR_OK);
    assert_int_equal(weir_heap_create(NULL, &heap), WEIR_OK);
    config.source.host_pool = w.plain;
    config.name = "over";
    assert_int_equal(weir_heap_create(&config, &over), WEIR_OK);
    refused(weir_heap_free(NULL, &w), WEIR_ERR_INVALID, "weir_heap_free: heap is NULL");
    refused(weir_heap_free(heap, &w), WEIR_ERR_INVALID, "weir_heap_free: block 0x");
    refused(weir_heap_free(over, &w), WEIR_ERR_INVALID, "of heap \"over\"");
    refused(weir_heap_trim(NULL, 0, NULL), WEIR_ERR_INVALID, "weir_heap_trim: heap is NULL");
    refused(weir_heap_set_limit(NULL, 0), WEIR_ERR_INVALID, "weir_heap_set_limit: heap is NULL");
    refused(weir_heap_set_limit(over, 1), WEIR_ERR_INVALID, "weir_heap_set_limit: heap \"over\" is over a pool");
    refused(weir_heap_get_stats(NULL, &stats), WEIR_ERR_INVALID, "weir_heap_get_stats: heap is NULL");
    refused(weir_heap_get_stats(heap, NULL), WEIR_ERR_INVALID, "weir_heap_get_stats: stats is NULL");
    refused(weir_heap_check(NULL, NULL), WEIR_ERR_INVALID, "weir_heap_check: heap is NULL");
    refused(weir_heap_record(NULL, NULL), WEIR_ERR_INVALID, "weir_heap_record: heap is NULL");
    assert_int_equal(weir_heap_record(heap, recorders[0]), WEIR_OK);
    refused(weir_heap_record(heap, recorders[1]), WEIR_ERR_BUSY,
            "weir_heap_record: heap \"heap\" has another recorder");
    refused(weir_recorder_stop(recorders[0], NULL), WEIR_ERR_BUSY, "weir_recorder_stop: 1 heaps");
    assert_int_equal(weir_heap_record(heap, NULL), WEIR_OK);
    assert_int_equal(weir_recorder_stop(recorders[0], NULL), WEIR_OK);
    assert_int_equal(weir_heap_record(heap, recorders[1]), WEIR_OK);
    assert_int_equal(weir_heap_destroy(heap), WEIR_OK); /* the heap's end detaches the recorder */
    assert_int_equal(weir_recorder_stop(recorders[1], NULL), WEIR_OK);
    assert_int_equal(weir_heap_destroy(over), WEIR_OK);
    close_world(&w);
}

/* The pool or device under a heap or a host pool cannot be destroyed before it, in any order. */
TEST(test_orders_of_ends)
{
    struct world w = open_world();
    weir_heap *heaps[3];
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.source.pool = w.pool;
    config.source.stream = w.stream;
    assert_int_equal(weir_heap_create(&config, &heaps[0]), WEIR_OK);
    config.source = (weir_heap_source){.host_pool = w.ordered};
    assert_int_equal(weir_heap_create(&config, &heaps[1]), WEIR_OK);
    config.source = (weir_heap_source){0};
    config.long_lived.host_pool = w.ordered;
    assert_int_equal(weir_heap_create(&config, &heaps[2]), WEIR_OK);
    void *blocks[3];
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = weir_heap_alloc_long_lived(heaps[i], 100, 0);
        assert_non_null(blocks[i]);
    }
    refused(weir_pool_destroy(w.pool), WEIR_ERR_BUSY, "weir_pool_destroy: ");
    refused(weir_host_pool_destroy(w.ordered), WEIR_ERR_BUSY, "weir_host_pool_destroy: the pool is held");
    refused(weir_device_destroy(weir_sim_device(w.sim)), WEIR_ERR_BUSY, "held");
    weir_topology_destroy(w.topology); /* the host pools hold the topology */
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(weir_heap_free(heaps[i], blocks[i]), WEIR_OK);
        assert_int_equal(weir_heap_check(heaps[i], NULL), WEIR_OK);
        refused(weir_host_pool_destroy(w.ordered), WEIR_ERR_BUSY, "weir_host_pool_destroy: the pool is held");
        assert_int_equal(weir_heap_destroy(heaps[i]), WEIR_OK);
    }
    assert_int_equal(weir_pool_destroy(w.pool), WEIR_OK);
    refused(weir_device_destroy(weir_sim_device(w.sim)), WEIR_ERR_BUSY, "held"); /* held by the host pool */
    assert_int_equal(weir_host_pool_hold(w.ordered), WEIR_OK);
    refused(weir_host_pool_destroy(w.ordered), WEIR_ERR_BUSY, "weir_host_pool_destroy: the pool is held 1 times");
    assert_int_equal(weir_host_pool_release(w.ordered), WEIR_OK);
    void *ptr = NULL;
    assert_int_equal(weir_host_alloc(w.ordered, 100, WEIR_HOST_THREAD_NODE, &ptr), WEIR_OK);
    assert_int_equal(weir_host_free_after(w.ordered, ptr, NULL), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(w.ordered), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(w.plain), WEIR_OK);
    assert_int_equal(weir_sim_destroy(w.sim), WEIR_OK);
}
