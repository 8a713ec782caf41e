/* tests/host/numa/topology_numa.c: weir's view of a machine with several nodes: distances, processors, the node of a
 * device, and the nodes that a cpuset leaves. */
#define _GNU_SOURCE
#include "rig/test.h"
#include "host/unit/sandbox.h"
#include "numa.h"
#include "numa_pages.h"
#include "topology_internal.h"

#include <sched.h>
#include <sys/stat.h>

static unsigned nodes;

typedef weir_status (*reader)(weir_topology **t);

static weir_status by_default(weir_topology **t)
{
    return weir_topology_create(NULL, t);
}

static weir_status by_sysfs(weir_topology **t)
{
    return weir__topology_read_sysfs("", t);
}

static const reader readers[] = {by_default, by_sysfs};

TEST(test_nodes_and_distances)
{
    for (size_t r = 0; r < 2; r++) {
        weir_topology *t = NULL;
        assert_int_equal(readers[r](&t), WEIR_OK);
        assert_true(weir_topology_is_this_machine(t));
        assert_int_equal(weir_topology_node_count(t), nodes);
        for (unsigned i = 0; i < nodes; i++) {
            weir_node_info info = WEIR_NODE_INFO_INIT;
            assert_int_equal(weir_topology_node(t, i, &info), WEIR_OK);
            assert_int_equal(info.node, i);
            assert_true(info.is_allowed && info.is_host_memory);
            assert_int_equal(info.cpus, 1);
            assert_in_range(info.memory_bytes, 256u << 20, 384u << 20);
            assert_in_range(info.free_bytes, 64u << 20, info.memory_bytes);
            assert_int_equal(info.huge_pages, 8);
            assert_int_equal(info.free_huge_pages, 8);
            for (unsigned j = 0; j < nodes; j++) {
                assert_int_equal(weir_topology_distance(t, (int32_t)i, (int32_t)j), numa_distance(i, j));
            }
        }
        weir_topology_destroy(t);
    }
}

TEST(test_thread_node)
{
    for (size_t r = 0; r < 2; r++) {
        weir_topology *t = NULL;
        cpu_set_t before;
        assert_int_equal(readers[r](&t), WEIR_OK);
        assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
        for (unsigned i = 0; i < nodes; i++) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
            assert_int_equal(weir_topology_thread_node(t), i);
        }
        assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
        weir_topology_destroy(t);
    }
}

TEST(test_devices)
{
    int32_t alone = -77;
    assert_int_equal(weir_topology_device_node("0000:41:00.0", &alone), WEIR_OK);
    assert_int_equal(alone, 1);
    assert_int_equal(weir_topology_device_node("00:00.0", &alone), WEIR_OK);
    assert_int_equal(alone, WEIR_NODE_NONE);
    assert_int_equal(weir_topology_device_node("0000:42:00.0", &alone), WEIR_ERR_UNSUPPORTED);
    for (size_t r = 0; r < 2; r++) {
        weir_topology *t = NULL;
        int32_t node = -77;
        assert_int_equal(readers[r](&t), WEIR_OK);
        assert_int_equal(weir_topology_nearest(t, "0000:41:00.0", 0, &node), WEIR_OK);
        assert_int_equal(node, 1);
        if (nodes == 4) {
            assert_int_equal(weir_topology_nearest(t, "81:00.0", 0, &node), WEIR_OK);
            assert_int_equal(node, 3);
        }
        assert_int_equal(weir_topology_nearest(t, "0000:00:00.0", 0, &node), WEIR_OK); /* the chip set has no node */
        assert_int_equal(node, WEIR_NODE_NONE);
        assert_int_equal(weir_topology_nearest(t, "0000:42:00.0", 0, &node), WEIR_ERR_INVALID);
        weir_topology_destroy(t);
    }
}

/* --- a cpuset --- */

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    const bool done = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && done;
}

/* Only node 1 may supply memory; the thread may run on every processor. */
static int in_cpuset(void)
{
    char self[32];
    (void)snprintf(self, sizeof(self), "%d\n", (int)getpid());
    CHECK(write_file("/cgroup/cgroup.subtree_control", "+cpuset\n"));
    CHECK(mkdir("/cgroup/one", 0777) == 0);
    CHECK(write_file("/cgroup/one/cpuset.mems", "1\n"));
    CHECK(write_file("/cgroup/one/cgroup.procs", self));
    for (size_t r = 0; r < 2; r++) {
        weir_topology *t = NULL;
        void *memory = NULL;
        int32_t node = -77;
        CHECK(readers[r](&t) == WEIR_OK);
        CHECK(weir_topology_node_count(t) == nodes);
        for (unsigned i = 0; i < nodes; i++) {
            weir_node_info info = WEIR_NODE_INFO_INIT;
            CHECK(weir_topology_node(t, i, &info) == WEIR_OK && info.node == (int32_t)i);
            CHECK(info.is_allowed == (i == 1) && info.is_host_memory);
        }
        CHECK(weir_topology_thread_node(t) == 1); /* on every processor */
        CHECK(weir_topology_nearest(t, "0000:41:00.0", 0, &node) == WEIR_OK && node == 1);
        CHECK(nodes < 4 || (weir_topology_nearest(t, "0000:81:00.0", 0, &node) == WEIR_OK && node == 1));
        CHECK(weir_topology_slice(t, 7, 8) == 1);
        CHECK(weir__numa_map(NULL, 1 << 20, WEIR__PAGES_SMALL, &memory, NULL) == WEIR_OK);
        weir__numa_error error;
        CHECK(weir__numa_policy(memory, 1 << 20, 0, WEIR__PAGES_SMALL, false, &error) == WEIR_ERR_INVALID);
        CHECK(weir__numa_policy(memory, 1 << 20, 1, WEIR__PAGES_SMALL, false, &error) == WEIR_OK);
        weir__numa_unmap(memory, 1 << 20, false);
        weir_topology_destroy(t);
    }
    return 0;
}

TEST(test_cpuset)
{
    assert_int_equal(in_child(in_cpuset), 0);
}

int main(void)
{
    nodes = numa_nodes();
    if (nodes == 0) {
        return numa_skip();
    }
    return run_all_tests("tests");
}
