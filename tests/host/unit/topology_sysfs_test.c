/* tests/host/unit/topology_sysfs_test.c: the reader of the kernel's files, over trees of files like those of kernels:
 * nodes with gaps and distances, a process in a cpuset, devices, a kernel without NUMA, and invalid files.
 *
 * The linker directs weir's requests for host memory to functions of this program (--wrap).
 */
#define _XOPEN_SOURCE 700 /* nftw */
#include "rig/test.h"
#include "pool/unit/fake_device.h"
#include "topology_internal.h"
#include "tree.h"

#include <weir/host.h>

#include "pool/unit/wrapped_malloc.h"

static void put_node(unsigned number, unsigned long long kilobytes, const char *cpus, const char *distances)
{
    char path[128];
    char text[256];
    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", number);
    (void)snprintf(text, sizeof(text), "Node %u MemTotal:       %llu kB\nNode %u MemFree:        1000 kB\n", number,
                   kilobytes, number);
    put(path, text);
    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", number);
    put(path, cpus);
    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/distance", number);
    put(path, distances);
    (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/hugepages/hugepages-2048kB/nr_hugepages",
                   number);
    put(path, "12\n");
}

static void put_device(const char *bus_id, const char *pci_class, const char *vendor, const char *device,
                       const char *node)
{
    static const char *const names[] = {"class", "vendor", "device", "numa_node"};
    const char *const texts[] = {pci_class, vendor, device, node};
    char path[128];
    for (size_t i = 0; i < 4; i++) {
        if (texts[i] != NULL) {
            (void)snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bus_id, names[i]);
            put(path, texts[i]);
        }
    }
}

/* Three nodes with processors and one without, numbers with a gap; the process may use two of these nodes. */
static void put_machine(void)
{
    put("/sys/devices/system/node/online", "0-1,4,8\n");
    put_node(0, 1048576, "0-3,12-15\n", "10 16 32 40\n");
    put_node(1, 1048576, "4-7\n", "16 10 25 40\n");
    put_node(4, 2097152, "8-11\n", "32 25 10 40\n");
    put_node(8, 8388608, "\n", "40 40 40 10\n");
    put("/proc/self/status", "Name:\tx\nCpus_allowed:\tffff\nCpus_allowed_list:\t0-5\nMems_allowed:\t13\n"
                             "Mems_allowed_list:\t0,4,8\n");
    put_device("0000:c1:00.0", "0x120000\n", "0x19e5\n", "0xd802\n", "4\n");
    put_device("0000:01:00.0", "0x120000\n", "0x19e5\n", "0xd802\n", "1\n");
    put_device("0000:02:00.0", "0x120000\n", "0x19e5\n", "0xd802\n", "-1\n");
    put_device("0000:03:00.0", "0x030000\n", "0x1a03\n", "0x2000\n", "0\n");
    put_device("0000:04:00.0", "0x030000\n", "0x10de\n", "0x2204\n", "0\n");
    put_device("0000:05:00.0", "0x020000\n", "0x8086\n", "0x1572\n", NULL);
    put_device("0000:06:00.0", NULL, "0x8086\n", "0x1572\n", "0\n"); /* the device disappears during the read */
    put("/sys/bus/pci/devices/readme/class", "0x120000\n");
}

static weir_topology *read_root(void)
{
    weir_topology *t = NULL;
    assert_int_equal(weir__topology_read_sysfs(root, &t), WEIR_OK);
    assert_false(weir_topology_is_this_machine(t));
    return t;
}

static int32_t nearest(const weir_topology *t, const char *bus_id)
{
    int32_t node = -77;
    assert_int_equal(weir_topology_nearest(t, bus_id, WEIR_NODE_NONE, &node), WEIR_OK);
    return node;
}

TEST(test_machine)
{
    static const weir_node_info expected[] = {
        {.node = 0, .is_allowed = true, .is_host_memory = true, .cpus = 4, .memory_bytes = 1ull << 30},
        {.node = 1, .is_allowed = false, .is_host_memory = true, .cpus = 2, .memory_bytes = 1ull << 30},
        {.node = 4, .is_allowed = true, .is_host_memory = true, .cpus = 0, .memory_bytes = 2ull << 30},
        {.node = 8, .is_allowed = true, .is_host_memory = false, .cpus = 0, .memory_bytes = 8ull << 30},
    };
    put_machine();
    weir_topology *t = read_root();
    assert_int_equal(weir_topology_node_count(t), 4);
    for (size_t i = 0; i < 4; i++) {
        weir_node_info info = WEIR_NODE_INFO_INIT;
        assert_int_equal(weir_topology_node(t, i, &info), WEIR_OK);
        assert_int_equal(info.node, expected[i].node);
        assert_int_equal(info.is_allowed, expected[i].is_allowed);
        assert_int_equal(info.is_host_memory, expected[i].is_host_memory);
        assert_int_equal(info.cpus, expected[i].cpus);
        assert_int_equal(info.memory_bytes, expected[i].memory_bytes);
        assert_int_equal(info.huge_pages, 12);
    }
    assert_int_equal(weir_topology_distance(t, 1, 4), 25);
    assert_int_equal(weir_topology_distance(t, 8, 8), 10);
    assert_int_equal(weir_topology_distance(t, 2, 4), 0);
    assert_true(weir__topology_cpu_is_on(t, 13, 0) && weir__topology_cpu_is_on(t, 11, 4));
    assert_false(weir__topology_cpu_is_on(t, 16, 0) || weir__topology_cpu_is_on(t, 4, 0));
    assert_int_equal(t->nodes[1].home, 0);
    assert_int_equal(t->nodes[3].home, 0);
    weir_topology_destroy(t);
}

TEST(test_devices)
{
    static const char *const accelerators[] = {"0000:01:00.0", "0000:02:00.0", "0000:04:00.0", "0000:c1:00.0"};
    put_machine();
    weir_topology *t = read_root();
    assert_int_equal(weir_topology_device_count(t), 4);
    for (size_t i = 0; i < 4; i++) {
        weir_topology_device device = WEIR_TOPOLOGY_DEVICE_INIT;
        assert_int_equal(weir_topology_device_at(t, i, &device), WEIR_OK);
        assert_string_equal(device.bus_id, accelerators[i]);
    }
    assert_int_equal(nearest(t, "0000:c1:00.0"), 4);
    assert_int_equal(nearest(t, "0000:01:00.0"), 0); /* its own node is forbidden */
    assert_int_equal(nearest(t, "0000:02:00.0"), WEIR_NODE_NONE);
    assert_int_equal(nearest(t, "0000:05:00.0"), WEIR_NODE_NONE);
    int32_t node = 0;
    assert_int_equal(weir_topology_nearest(t, "0000:06:00.0", 0, &node), WEIR_ERR_INVALID);
    weir_topology_destroy(t);
}

static int32_t device_node(const char *bus_id)
{
    int32_t node = -77;
    assert_int_equal(weir__sysfs_device_node(root, bus_id, &node), WEIR_OK);
    return node;
}

/* Without a topology, the node of a device is the one that the kernel reports, even if the process may not use this
 * node. */
TEST(test_the_node_of_one_device)
{
    put_machine();
    put_device("0001:0f:1e.3", "0x120000\n", "0x19e5\n", "0xd802\n", "8\n");
    assert_int_equal(device_node("0000:c1:00.0"), 4);
    assert_int_equal(device_node("0000:C1:00.0"), 4); /* as some runtimes write it */
    assert_int_equal(device_node("c1:00.0"), 4);
    assert_int_equal(device_node("0000:01:00.0"), 1);
    assert_int_equal(device_node("0001:0F:1E.3"), 8);
    assert_int_equal(device_node("0000:02:00.0"), WEIR_NODE_NONE); /* -1 */
    assert_int_equal(device_node("0000:05:00.0"), WEIR_NODE_NONE); /* no such file */
    int32_t node = 77;
    assert_int_equal(weir__sysfs_device_node(root, "0000:c2:00.0", &node), WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "weir_topology_device_node: there is no PCI device 0000:c2:00.0"));
    static const char *const bad[] = {"", "readme", "0000:c1:00.8", "../../etc", "0000:c1:00.0/..", "c1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(weir__sysfs_device_node(root, bad[i], &node), WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), "weir_topology_device_node: bus_id"));
    }
    assert_int_equal(weir_topology_device_node(NULL, &node), WEIR_ERR_INVALID);
    assert_int_equal(weir_topology_device_node("0000:c1:00.0", NULL), WEIR_ERR_INVALID);
    assert_int_equal(node, 77);
}

static int32_t host_node_of(const weir_topology *t, int32_t node_of_device, bool with_device)
{
    struct fake_device fake;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    fake_init(&fake);
    fake.info.host_numa_node = node_of_device;
    assert_int_equal(weir_device_create(&fake.ops, &fake, &runtime.device), WEIR_OK);
    config.topology = t;
    config.runtime = with_device ? &runtime : NULL;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    const int32_t node = weir_host_device_node(pool);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(runtime.device), WEIR_OK);
    return node;
}

/* The process has memory on nodes 0 and 4. */
TEST(test_the_node_of_a_host_pools_device)
{
    put_machine();
    weir_topology *t = read_root();
    assert_int_equal(host_node_of(t, 4, true), 4);
    assert_int_equal(host_node_of(t, 0, true), 0);
    /* the process may not use node 1; its distance to node 0 is 16, to node 4 25 */
    assert_int_equal(host_node_of(t, 1, true), 0);
    /* node 8 has no host memory; its distance to both nodes is 40 */
    assert_int_equal(host_node_of(t, 8, true), 0);
    assert_int_equal(host_node_of(t, 2, true), WEIR_HOST_THREAD_NODE); /* no such node */
    assert_int_equal(host_node_of(t, -1, true), WEIR_HOST_THREAD_NODE);
    assert_int_equal(host_node_of(t, 4, false), WEIR_HOST_THREAD_NODE);
    assert_int_equal(weir_host_device_node(NULL), WEIR_HOST_THREAD_NODE);
    weir_topology_destroy(t);
}

TEST(test_kernel_without_nodes)
{
    weir_topology *t = NULL;
    assert_int_equal(weir__topology_read_sysfs(root, &t), WEIR_ERR_UNSUPPORTED); /* an empty tree */
    put("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree:         1000 kB\n");
    put("/sys/devices/system/cpu/online", "0-7\n");
    put_device("0000:c1:00.0", "0x120000\n", "0x19e5\n", "0xd802\n", "-1\n");
    t = read_root();
    weir_node_info info = WEIR_NODE_INFO_INIT;
    assert_int_equal(weir_topology_node_count(t), 1);
    assert_int_equal(weir_topology_node(t, 0, &info), WEIR_OK);
    assert_int_equal(info.node, 0);
    assert_true(info.is_allowed && info.is_host_memory);
    assert_int_equal(info.cpus, 8);
    assert_int_equal(info.memory_bytes, 4ull << 30);
    assert_int_equal(nearest(t, "0000:c1:00.0"), 0); /* there is one node only */
    weir_topology_destroy(t);
}

/* Invalid files are ignored, and the reader still works. */
TEST(test_nonsense)
{
    static const char *const lists[] = {"x", "0-", "1-0,0", "0,,1", "-1", "99999999999999999999", "0 1", "0-1;"};
    put_node(0, 1048576, "0-4294967295\n", "ten\n");
    put_node(1, 1048576, "1-\n", "10\n");
    put("/proc/meminfo", "MemTotal:        4194304 kB\n");
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        put("/sys/devices/system/node/online", lists[i]);
        put("/proc/self/status", "Mems_allowed_list:\t");
        weir_topology *t = NULL;
        const weir_status status = weir__topology_read_sysfs(root, &t);
        assert_true(status == WEIR_OK);
        assert_true(weir_topology_node_count(t) <= 2);
        weir_topology_destroy(t);
    }
}

TEST(test_out_of_host_memory)
{
    weir_status status = WEIR_ERR_NO_MEMORY;
    unsigned at = 0;
    put_machine();
    while (status != WEIR_OK) {
        weir_topology *t = NULL;
        fail_at = ++at;
        asked = 0;
        status = weir__topology_read_sysfs(root, &t);
        fail_at = 0;
        assert_true(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
        assert_true((status == WEIR_OK) == (t != NULL));
        weir_topology_destroy(t);
    }
    assert_true(at > 5);
}

EACH_TEST(new_root, remove_root)
