/* tests/host/unit/topology_test.c: weir's view of machines: this one, hwloc's synthetic ones, and XML of accelerator
 * servers, of special memory, of forbidden nodes and of numbers with gaps.
 *
 * Linked so that weir's requests for host memory go through the test's own functions.
 */
#include "rig/test.h"
#include "topology_internal.h"
#include "xml_machine.h"

#include <unistd.h>

#include "pool/unit/wrapped_malloc.h"

/* --- machines --- */

static weir_topology *synthetic(const char *text)
{
    weir_topology_config config = WEIR_TOPOLOGY_CONFIG_INIT;
    weir_topology *t = NULL;
    config.synthetic = text;
    assert_int_equal(weir_topology_create(&config, &t), WEIR_OK);
    assert_false(weir_topology_is_this_machine(t));
    return t;
}

static weir_topology *from_xml(const struct xml_machine *m)
{
    char path[] = "/tmp/weir-topology-XXXXXX";
    weir_topology_config config = WEIR_TOPOLOGY_CONFIG_INIT;
    weir_topology *t = NULL;
    assert_true(xml_file(path, m));
    config.xml = path;
    const weir_status status = weir_topology_create(&config, &t);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(status, WEIR_OK);
    assert_false(weir_topology_is_this_machine(t));
    return t;
}

static weir_node_info node_info(const weir_topology *t, size_t index)
{
    weir_node_info info = WEIR_NODE_INFO_INIT;
    assert_int_equal(weir_topology_node(t, index, &info), WEIR_OK);
    return info;
}

static int32_t nearest(const weir_topology *t, const char *bus_id, int32_t from)
{
    int32_t node = -77;
    assert_int_equal(weir_topology_nearest(t, bus_id, from, &node), WEIR_OK);
    return node;
}

#define NPU "1200 [19e5:d802]"

/* Four packages of two nodes and eight devices, two at each package, as on a board with NPUs. */
static const struct xml_machine ascend = {
    .nodes = {{0, 0, 4, NULL, 128 * GIB},
              {1, 0, 4, NULL, 128 * GIB},
              {2, 1, 4, NULL, 128 * GIB},
              {3, 1, 4, NULL, 128 * GIB},
              {4, 2, 4, NULL, 128 * GIB},
              {5, 2, 4, NULL, 128 * GIB},
              {6, 3, 4, NULL, 128 * GIB},
              {7, 3, 4, NULL, 128 * GIB}},
    .node_count = 8,
    .devices = {{"0000:c1:00.0", NPU, 6},
                {"0000:c2:00.0", NPU, 6},
                {"0000:81:00.0", NPU, 4},
                {"0000:82:00.0", NPU, 4},
                {"0000:01:00.0", NPU, 0},
                {"0000:02:00.0", NPU, 0},
                {"0000:41:00.0", NPU, 2},
                {"0000:42:00.0", NPU, 2},
                {"0000:05:00.0", "0300 [19e5:1711]", 1},
                {"0000:35:00.0", "0200 [19e5:a222]", 1}},
    .device_count = 10,
};

static const unsigned kunpeng_distances[] = {10, 16, 32, 33, 16, 10, 25, 32, 32, 25, 10, 16, 33, 32, 16, 10};

static const struct xml_machine kunpeng = {
    .nodes = {{0, 0, 8, NULL, 64 * GIB},
              {1, 0, 8, NULL, 64 * GIB},
              {2, 1, 8, NULL, 64 * GIB},
              {3, 1, 8, NULL, 64 * GIB}},
    .node_count = 4,
    .devices = {{"0000:01:00.0", NPU, -1}, {"0000:81:00.0", NPU, -101}, {"0000:82:00.0", NPU, -1}},
    .device_count = 3,
    .distances = kunpeng_distances,
};

/* --- this machine --- */

static void check_this_machine(const weir_topology *t)
{
    bool found = false;
    assert_true(weir_topology_is_this_machine(t));
    assert_true(weir_topology_node_count(t) > 0);
    const int32_t mine = weir_topology_thread_node(t);
    for (size_t i = 0; i < weir_topology_node_count(t); i++) {
        const weir_node_info info = node_info(t, i);
        found |= info.node == mine && info.is_allowed && info.is_host_memory;
        assert_true(info.free_bytes > 0 && info.free_huge_pages <= info.huge_pages);
        assert_int_equal(weir_topology_distance(t, info.node, info.node), 10);
    }
    assert_true(found);
}

TEST(test_this_machine)
{
    weir_topology *t = NULL;
    assert_int_equal(weir_topology_create(NULL, &t), WEIR_OK);
    check_this_machine(t);
    weir_topology_destroy(t);
    weir_topology_destroy(NULL);
}

/* hwloc and sysfs report the same machine, node by node and device by device. */
TEST(test_readers_agree)
{
    if (access("/sys/devices/system/cpu", F_OK) != 0) {
        print_message("skipped: there is no sysfs here, and hwloc sees nothing\n");
        skip();
    }
    const weir_topology_config machine = WEIR_TOPOLOGY_CONFIG_INIT;
    weir_topology *one = NULL;
    weir_topology *two = NULL;
    weir_topology *later = NULL;
    assert_int_equal(weir__topology_read_sysfs("", &two), WEIR_OK);
    assert_int_equal(weir__topology_read_hwloc(&machine, &one), WEIR_OK);
    assert_int_equal(weir__topology_read_sysfs("", &later), WEIR_OK);
    check_this_machine(two);
    assert_int_equal(one->node_count, two->node_count);
    for (size_t i = 0; i < one->node_count; i++) {
        assert_int_equal(one->nodes[i].number, two->nodes[i].number);
        assert_int_equal(one->nodes[i].is_allowed, two->nodes[i].is_allowed);
        assert_int_equal(one->nodes[i].is_host_memory, two->nodes[i].is_host_memory);
        assert_int_equal(one->nodes[i].own_cpus, two->nodes[i].own_cpus);
        assert_int_equal(one->nodes[i].allowed_cpus, two->nodes[i].allowed_cpus);
        /* The memory of a virtual machine changes all the time. */
        const uint64_t before = two->nodes[i].memory_bytes;
        const uint64_t after = later->nodes[i].memory_bytes;
        assert_in_range(one->nodes[i].memory_bytes, before < after ? before : after, before < after ? after : before);
        for (size_t j = 0; j < one->node_count; j++) {
            assert_int_equal(one->distances[i * one->node_count + j], two->distances[i * one->node_count + j]);
        }
    }
    assert_int_equal(one->pci_count, two->pci_count);
    for (size_t i = 0; i < one->pci_count; i++) {
        assert_int_equal(one->pci[i].address, two->pci[i].address);
        assert_int_equal(one->pci[i].vendor, two->pci[i].vendor);
        assert_int_equal(one->pci[i].device, two->pci[i].device);
        assert_int_equal(one->pci[i].pci_class, two->pci[i].pci_class);
        for (size_t node = 0; node < one->near_words; node++) {
            /* hwloc calls a device without affinity near to all nodes. */
            const uint64_t told = two->near[i * two->near_words + node];
            assert_true(told == 0 || told == one->near[i * one->near_words + node]);
        }
    }
    assert_int_equal(weir_topology_device_count(one), weir_topology_device_count(two));
    weir_topology_destroy(one);
    weir_topology_destroy(two);
    weir_topology_destroy(later);
}

/* The environment does not change the machine. */
TEST(test_environment_is_ignored)
{
    static const char *const settings[][2] = {{"HWLOC_SYNTHETIC", "numa:7 pu:3"}, {"HWLOC_XMLFILE", "/nowhere"}};
    for (size_t i = 0; i < 2; i++) {
        for (unsigned lies = 0; lies < 2; lies++) {
            weir_topology *t = NULL;
            assert_int_equal(setenv(settings[i][0], settings[i][1], 1), 0);
            assert_int_equal(lies ? setenv("HWLOC_THISSYSTEM", "1", 1) : 0, 0);
            assert_int_equal(weir_topology_create(NULL, &t), WEIR_OK);
            check_this_machine(t);
            assert_int_not_equal(weir_topology_node_count(t), 7);
            weir_topology_destroy(t);
            t = synthetic("numa:2 pu:2"); /* a synthetic machine can be requested by name, and is not this machine */
            assert_int_equal(weir_topology_node_count(t), 2);
            weir_topology_destroy(t);
            (void)unsetenv(settings[i][0]);
            (void)unsetenv("HWLOC_THISSYSTEM");
        }
    }
}

/* --- other machines --- */

TEST(test_synthetic)
{
    weir_topology *t = synthetic("pack:2 [numa(memory=4294967296)] core:4 pu:1");
    assert_int_equal(weir_topology_node_count(t), 2);
    for (size_t i = 0; i < 2; i++) {
        const weir_node_info info = node_info(t, i);
        assert_int_equal(info.node, i);
        assert_true(info.is_allowed && info.is_host_memory);
        assert_int_equal(info.cpus, 4);
        assert_int_equal(info.memory_bytes, 4 * GIB);
        assert_int_equal(info.free_bytes, 0);
    }
    assert_int_equal(weir_topology_distance(t, 0, 1), 0); /* unknown */
    assert_int_equal(weir_topology_distance(t, 0, 7), 0);
    assert_int_equal(weir_topology_thread_node(t), WEIR_NODE_NONE);
    assert_int_equal(weir_topology_device_count(t), 0);
    weir_topology_destroy(t);
}

TEST(test_ascend_devices)
{
    static const struct {
        const char *bus_id;
        int32_t node;
    } expected[] = {{"0000:01:00.0", 0}, {"0000:02:00.0", 0}, {"0000:41:00.0", 2}, {"0000:42:00.0", 2},
                    {"0000:81:00.0", 4}, {"0000:82:00.0", 4}, {"0000:c1:00.0", 6}, {"0000:c2:00.0", 6}};
    weir_topology *t = from_xml(&ascend);
    weir_topology_device device = WEIR_TOPOLOGY_DEVICE_INIT;
    /* the list of devices has neither the console nor the network device */
    assert_int_equal(weir_topology_device_count(t), 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(weir_topology_device_at(t, i, &device), WEIR_OK);
        assert_string_equal(device.bus_id, expected[i].bus_id);
        assert_int_equal(device.node, expected[i].node);
        assert_int_equal(device.vendor, 0x19e5);
        assert_int_equal(device.device, 0xd802);
        assert_int_equal(device.pci_class, 0x1200);
        assert_int_equal(nearest(t, expected[i].bus_id, 7), expected[i].node);
    }
    assert_int_equal(weir_topology_device_at(t, 8, &device), WEIR_ERR_INVALID);
    assert_int_equal(nearest(t, "C1:00.0", WEIR_NODE_NONE), 6);
    assert_int_equal(nearest(t, "0000:35:00.0", WEIR_NODE_NONE), 1); /* a device of any kind has a nearest node */
    weir_topology_destroy(t);
}

TEST(test_bus_ids)
{
    static const char *const bad[] = {"",
                                      "c1",
                                      "c1:00",
                                      "0000:c1:00",
                                      "0000:c1:00.8",
                                      "0000:c1:20.0",
                                      "c1:00.0 ",
                                      "0000:c1:00.0x",
                                      "0000:c1:00.",
                                      ":c1:00.0",
                                      "g1:00.0",
                                      "-1:00.0",
                                      "0:0:c1:00.0",
                                      "123456789:c1:00.0",
                                      "0000:1c1:00.0",
                                      "0000:c1:000.0",
                                      " c1:00.0",
                                      "3"};
    static const char *const absent[] = {"0001:c1:00.0", "0000:c1:00.1", "0000:ff:1f.7", "ffffffff:ff:1f.7"};
    weir_topology *t = from_xml(&ascend);
    int32_t node = -77;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint64_t address = 0;
        assert_false(weir__topology_parse_bus_id(bad[i], &address));
        assert_int_equal(weir_topology_nearest(t, bad[i], 0, &node), WEIR_ERR_INVALID);
    }
    for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++) {
        uint64_t address = 0;
        assert_true(weir__topology_parse_bus_id(absent[i], &address));
        assert_int_equal(weir_topology_nearest(t, absent[i], 0, &node), WEIR_ERR_INVALID);
    }
    assert_int_equal(weir_topology_nearest(t, NULL, 0, &node), WEIR_ERR_INVALID);
    assert_int_equal(weir_topology_nearest(t, "0000:c1:00.0", 0, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_topology_nearest(NULL, "0000:c1:00.0", 0, &node), WEIR_ERR_INVALID);
    assert_int_equal(node, -77);
    weir_topology_destroy(t);
}

/* A device of a whole package is equally near to both nodes of the package: weir chooses the one that is nearer to the
 * node that the caller names, and in a tie the lower number. A device of the whole machine has no affinity;
 * weir_topology_slice divides such devices among the nodes. */
TEST(test_affinity_of_several_nodes)
{
    weir_topology *t = from_xml(&kunpeng);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(weir_topology_distance(t, (int32_t)i / 4, (int32_t)i % 4), kunpeng_distances[i]);
    }
    assert_int_equal(nearest(t, "0000:81:00.0", 0), 2);
    assert_int_equal(nearest(t, "0000:81:00.0", 1), 2);
    assert_int_equal(nearest(t, "0000:81:00.0", 2), 2);
    assert_int_equal(nearest(t, "0000:81:00.0", 3), 3);
    assert_int_equal(nearest(t, "0000:81:00.0", WEIR_NODE_NONE), 2);
    assert_int_equal(nearest(t, "0000:81:00.0", 99), 2);
    for (int32_t from = -1; from < 4; from++) {
        assert_int_equal(nearest(t, "0000:01:00.0", from), WEIR_NODE_NONE);
    }
    static const int32_t eight[] = {0, 0, 1, 1, 2, 2, 3, 3};
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(weir_topology_slice(t, i, 8), eight[i]);
    }
    assert_int_equal(weir_topology_slice(t, 0, 2), 0);
    assert_int_equal(weir_topology_slice(t, 1, 2), 2);
    assert_int_equal(weir_topology_slice(t, UINT32_MAX - 1, UINT32_MAX), 3);
    assert_int_equal(weir_topology_slice(t, 2, 2), WEIR_NODE_NONE);
    assert_int_equal(weir_topology_slice(t, 0, 0), WEIR_NODE_NONE);
    assert_int_equal(weir_topology_slice(NULL, 0, 1), WEIR_NODE_NONE);
    weir_topology_destroy(t);
}

/* High-bandwidth memory beside a node, a device's memory without processors, and numbers with gaps. */
TEST(test_special_memory)
{
    static const struct xml_machine m = {
        .nodes = {{0, 0, 4, NULL, 64 * GIB},
                  {1, 0, 0, "HBM", 16 * GIB},
                  {8, 1, 4, NULL, 64 * GIB},
                  {40, 1, 0, "GPUMemory", 32 * GIB},
                  {41, 1, 0, NULL, 256 * GIB}},
        .node_count = 5,
        .devices = {{"0004:04:00.0", "0302 [10de:1db5]", 8}, {"0000:03:00.0", NPU, 0}},
        .device_count = 2,
    };
    static const bool is_host[] = {true, false, true, false, false};
    static const uint32_t cpus[] = {4, 0, 4, 0, 0};
    static const int32_t numbers[] = {0, 1, 8, 40, 41};
    weir_topology *t = from_xml(&m);
    assert_int_equal(weir_topology_node_count(t), 5);
    for (size_t i = 0; i < 5; i++) {
        const weir_node_info info = node_info(t, i);
        assert_int_equal(info.node, numbers[i]);
        assert_int_equal(info.is_host_memory, is_host[i]);
        assert_int_equal(info.cpus, cpus[i]);
        assert_true(info.is_allowed);
    }
    assert_int_equal(nearest(t, "0004:04:00.0", 0), 8);
    assert_int_equal(nearest(t, "0000:03:00.0", 8), 0);
    assert_int_equal(weir_topology_slice(t, 0, 2), 0);
    assert_int_equal(weir_topology_slice(t, 1, 2), 8);
    weir_topology_destroy(t);
}

/* If a machine's only memory is of the special kind, that is its host memory. */
TEST(test_only_special_memory)
{
    static const struct xml_machine m = {
        .nodes = {{0, 0, 4, "HBM", 16 * GIB}, {1, 1, 4, "HBM", 16 * GIB}, {2, 1, 0, "HBM", 0}},
        .node_count = 3,
    };
    weir_topology *t = from_xml(&m);
    assert_true(node_info(t, 0).is_host_memory);
    assert_true(node_info(t, 1).is_host_memory);
    assert_false(node_info(t, 2).is_host_memory);
    weir_topology_destroy(t);
}

/* The nearest node of a device has no usable memory: the least distant usable node is chosen. */
TEST(test_forbidden_and_empty_nodes)
{
    struct xml_machine m = kunpeng;
    m.forbidden_nodes = 1 << 0 | 1 << 3;
    m.devices[0].node = 3;
    m.devices[2].node = 0;
    weir_topology *t = from_xml(&m);
    static const bool allowed[] = {false, true, true, false};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(node_info(t, i).is_allowed, allowed[i]);
        assert_true(node_info(t, i).is_host_memory);
    }
    assert_int_equal(nearest(t, "0000:01:00.0", 1), 2);
    assert_int_equal(nearest(t, "0000:82:00.0", 2), 1);
    assert_int_equal(nearest(t, "0000:81:00.0", 3), 2); /* of nodes 2 and 3 */
    assert_int_equal(weir_topology_slice(t, 0, 4), 1);
    assert_int_equal(weir_topology_slice(t, 3, 4), 2);
    weir_topology_destroy(t);

    m = kunpeng;
    m.nodes[0].bytes = 0; /* processors without memory */
    m.devices[0].node = 0;
    t = from_xml(&m);
    assert_false(node_info(t, 0).is_host_memory);
    assert_int_equal(node_info(t, 0).cpus, 8);
    assert_int_equal(t->nodes[0].home, 1);
    assert_int_equal(nearest(t, "0000:01:00.0", WEIR_NODE_NONE),
                     WEIR_NODE_NONE); /* no node with memory is near the device */
    weir_topology_destroy(t);

    m = kunpeng;
    m.forbidden_nodes = 7;
    t = from_xml(&m);
    assert_int_equal(nearest(t, "0000:01:00.0", 0), 3); /* only one node is possible */
    assert_int_equal(t->nodes[1].home, 3);
    weir_topology_destroy(t);
}

/* --- bad input --- */

TEST(test_bad_configs)
{
    char path[] = "/tmp/weir-topology-XXXXXX";
    weir_topology_config config = WEIR_TOPOLOGY_CONFIG_INIT;
    weir_topology *t = NULL;
    config.xml = "/nowhere/at/all.xml";
    assert_int_equal(weir_topology_create(&config, &t), WEIR_ERR_INVALID);
    config.synthetic = "numa:2 pu:2";
    assert_int_equal(weir_topology_create(&config, &t), WEIR_ERR_INVALID); /* both */
    config.xml = NULL;
    config.synthetic = "no such machine";
    assert_int_equal(weir_topology_create(&config, &t), WEIR_ERR_INVALID);
    assert_int_equal(weir_topology_create(NULL, NULL), WEIR_ERR_INVALID);

    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, "<topology>", 10), 10);
    (void)close(file);
    config.synthetic = NULL;
    config.xml = path;
    assert_int_equal(weir_topology_create(&config, &t), WEIR_ERR_INVALID);
    (void)unlink(path);

    config.xml = NULL;
    config.struct_size = 1;
    assert_int_equal(weir_topology_create(&config, &t), WEIR_ERR_INVALID);
    assert_null(t);
    weir_node_info info = WEIR_NODE_INFO_INIT;
    assert_int_equal(weir_topology_node(NULL, 0, &info), WEIR_ERR_INVALID);
    assert_int_equal(weir_topology_node_count(NULL), 0);
    assert_int_equal(weir_topology_device_count(NULL), 0);
    assert_int_equal(weir_topology_thread_node(NULL), WEIR_NODE_NONE);
    assert_int_equal(weir_topology_distance(NULL, 0, 0), 0);
    assert_false(weir_topology_is_this_machine(NULL));
}

TEST(test_out_of_host_memory)
{
    char path[] = "/tmp/weir-topology-XXXXXX";
    weir_topology_config config = WEIR_TOPOLOGY_CONFIG_INIT;
    assert_true(xml_file(path, &ascend));
    for (unsigned machine = 0; machine < 2; machine++) {
        weir_status status = WEIR_ERR_NO_MEMORY;
        config.xml = machine ? NULL : path;
        unsigned at = 0;
        while (status != WEIR_OK) {
            weir_topology *t = NULL;
            fail_at = ++at;
            asked = 0;
            status = weir_topology_create(&config, &t);
            fail_at = 0;
            assert_true(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
            assert_true((status == WEIR_OK) == (t != NULL));
            weir_topology_destroy(t);
        }
        assert_true(at > 5);
    }
    (void)unlink(path);
}

int main(void)
{
    weir_topology_config config = WEIR_TOPOLOGY_CONFIG_INIT;
    weir_topology *t = NULL;
    config.synthetic = "numa:1 pu:1";
    if (weir_topology_create(&config, &t) == WEIR_ERR_UNSUPPORTED) {
        (void)printf("skipped: weir was built without hwloc (libhwloc-dev), so it knows no "
                     "machines but this one\n");
        return 77;
    }
    weir_topology_destroy(t);
    return run_all_tests("tests");
}
