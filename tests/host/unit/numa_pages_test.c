/* tests/host/unit/numa_pages_test.c: mapping, placing, querying and locking on this machine, as root and as an
 * unprivileged user, and with every call forbidden that a container forbids. tests/host/numa tests the cases with
 * several nodes. */
#define _GNU_SOURCE
#include "rig/test.h"
#include "cgroup.h"
#include "numa_pages.h"
#include "sandbox.h"
#include "topology_internal.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define HUGE_FILE "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static uint64_t page;

static int32_t some_node(const weir_topology *t)
{
    const int32_t node = weir_topology_thread_node(t);
    assert_true(node >= 0);
    return node;
}

static weir_topology *machine(void)
{
    weir_topology *t = NULL;
    assert_int_equal(weir_topology_create(NULL, &t), WEIR_OK);
    return t;
}

static void *map(uint64_t size, weir__numa_pages pages)
{
    void *memory = NULL;
    weir__numa_error error;
    assert_int_equal(weir__numa_map(NULL, size, pages, &memory, &error), WEIR_OK);
    assert_int_equal(error.step, WEIR__NUMA_NO_STEP);
    return memory;
}

static uint64_t huge_file(const char *name)
{
    char text[32];
    char path[128];
    (void)snprintf(path, sizeof(path), HUGE_FILE "%s", name);
    return weir__sysfs_text("", path, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

static void all_on(const weir__numa_found *found, int32_t node, uint64_t size)
{
    assert_int_equal(found->node_bytes[node], size);
    assert_int_equal(found->absent_bytes, 0);
    assert_int_equal(found->unknown_bytes, 0);
}

/* Returns how many bytes of a range have pages. */
static uint64_t present(void *memory, uint64_t size)
{
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < size; at += page) {
        unsigned char there = 0;
        assert_int_equal(mincore((char *)memory + at, page, &there), 0);
        bytes += (there & 1) != 0 ? page : 0;
    }
    return bytes;
}

/* --- mapping --- */

TEST(test_reserve)
{
    void *memory = NULL;
    unsigned char there = 0;
    assert_int_equal(weir__numa_reserve(8 * MIB, 4 * MIB, &memory, NULL), WEIR_OK);
    assert_int_equal((uintptr_t)memory % (4 * MIB), 0);
    assert_int_equal(mincore(memory, page, &there), 0);
    /* Memory can be mapped into the reservation, and its addresses stay reserved when it is unmapped. */
    void *inside = NULL;
    char *at = (char *)memory + 2 * MIB;
    assert_int_equal(weir__numa_map(at, 2 * MIB, WEIR__PAGES_TRANSPARENT, &inside, NULL), WEIR_OK);
    assert_ptr_equal(inside, at);
    memset(inside, 1, 2 * MIB);
    weir__numa_unmap(inside, 2 * MIB, true);
    assert_int_equal(mincore(at, page, &there), 0);
    assert_int_equal(there & 1, 0);
    assert_int_equal(weir__numa_map(at, 2 * MIB, WEIR__PAGES_SMALL, &inside, NULL), WEIR_OK);
    assert_int_equal(*(char *)inside, 0);
    weir__numa_unmap(memory, 8 * MIB, false);
    assert_int_equal(mincore(memory, page, &there), -1);
}

TEST(test_bad_mappings)
{
    void *memory = (void *)7;
    weir__numa_error error;
    assert_int_equal(weir__numa_reserve(0, page, &memory, &error), WEIR_ERR_INVALID);
    assert_int_equal(error.step, WEIR__NUMA_RESERVE);
    assert_int_equal(weir__numa_reserve(page + 1, page, &memory, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir__numa_reserve(page, 3 * page, &memory, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir__numa_reserve(UINT64_C(1) << 60, page, &memory, &error), WEIR_ERR_NO_MEMORY);
    assert_int_equal(error.number, ENOMEM);
    assert_int_equal(weir__numa_reserve(UINT64_MAX - page + 1, 2 * MIB, &memory, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir__numa_map(NULL, 0, WEIR__PAGES_SMALL, &memory, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir__numa_map(NULL, page, WEIR__PAGES_TRANSPARENT, &memory, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir__numa_map((void *)(uintptr_t)page, 2 * MIB, WEIR__PAGES_HUGE, &memory, NULL),
                     WEIR_ERR_INVALID);
    assert_int_equal(weir__numa_map(NULL, UINT64_C(1) << 60, WEIR__PAGES_SMALL, &memory, &error), WEIR_ERR_NO_MEMORY);
    assert_ptr_equal(memory, (void *)7);
}

/* There are as many huge pages as the administrator reserved; most machines have none. */
TEST(test_huge_pages)
{
    const uint64_t unused = huge_file("free_hugepages");
    void *reserved = NULL;
    void *memory = NULL;
    weir__numa_error error;
    char text[512];
    unsigned char there = 0;
    if (huge_file("nr_overcommit_hugepages") != 0 ||
        !weir__sysfs_text("", HUGE_FILE "nr_hugepages", text, sizeof(text))) {
        print_message("nobody can say how many huge pages there are\n");
        skip();
    }
    const uint64_t too_much = (unused + 8) * WEIR__HUGE_PAGE;
    assert_int_equal(weir__numa_reserve(too_much, 2 * MIB, &reserved, NULL), WEIR_OK);
    assert_int_equal(weir__numa_map(NULL, too_much, WEIR__PAGES_HUGE, &memory, &error), WEIR_ERR_NO_MEMORY);
    assert_int_equal(error.number, ENOMEM);
    assert_true(weir__numa_error_text(&error, text, sizeof(text)) < sizeof(text));
    assert_non_null(strstr(text, "hugepages-2048kB/nr_hugepages"));
    assert_int_equal(weir__numa_map(reserved, too_much, WEIR__PAGES_HUGE, &memory, NULL), WEIR_ERR_NO_MEMORY);
    assert_null(memory);
    assert_int_equal(mincore(reserved, page, &there), 0); /* still reserved */
    weir__numa_unmap(reserved, too_much, false);
}

/* --- pages --- */

TEST(test_populate)
{
    char *memory = map(1 * MIB, WEIR__PAGES_SMALL);
    weir__numa_found found;
    weir__numa_error error;
    memory[5 * page] = 42;
    assert_int_equal(weir__numa_verify(memory, MIB, 0, &found, NULL), WEIR_OK);
    assert_int_equal(found.absent_bytes + found.unknown_bytes, MIB - page);
    assert_int_equal(weir__numa_populate(memory, MIB, NULL), WEIR_OK);
    assert_int_equal(memory[5 * page], 42);
    assert_int_equal(weir__numa_verify(memory, MIB, 0, &found, NULL), WEIR_OK);
    assert_int_equal(found.absent_bytes, 0);
    assert_int_equal(mprotect(memory + MIB - page, page, PROT_NONE), 0);
    assert_int_equal(madvise(memory + MIB - page, page, MADV_DONTNEED), 0);
    assert_int_equal(weir__numa_populate(memory, MIB, &error), WEIR_ERR_NO_MEMORY);
    assert_int_equal(error.step, WEIR__NUMA_POPULATE);
    weir__numa_unmap(memory, MIB, false);
    assert_int_not_equal(weir__numa_populate(memory, MIB, &error), WEIR_OK); /* not mapped */
}

TEST(test_policy)
{
    weir_topology *t = machine();
    const int32_t node = some_node(t);
    void *memory = map(2 * MIB, WEIR__PAGES_SMALL);
    weir__numa_error error;
    weir__numa_found found;
    const weir_status status = weir__numa_policy(memory, 2 * MIB, node, WEIR__PAGES_SMALL, false, &error);
    if (status == WEIR_ERR_UNSUPPORTED) {
        print_message("policies are forbidden here\n");
        skip();
    }
    assert_int_equal(status, WEIR_OK);
    assert_int_equal(weir__numa_populate(memory, 2 * MIB, NULL), WEIR_OK);
    assert_int_equal(weir__numa_verify(memory, 2 * MIB, 0, &found, NULL), WEIR_OK);
    assert_int_equal(found.source, WEIR__FOUND_BY_MOVE_PAGES);
    all_on(&found, node, 2 * MIB);
    /* One page in 64 KiB is checked. */
    assert_int_equal(weir__numa_verify(memory, 2 * MIB - page, 64 << 10, &found, NULL), WEIR_OK);
    all_on(&found, node, 2 * MIB - page);
    /* A range with a memory policy of its own is a separate mapping, so numa_maps reports exactly this range. */
    assert_int_equal(weir__numa_verify_by_maps("", memory, 2 * MIB, &found), WEIR_OK);
    assert_int_equal(found.source, WEIR__FOUND_BY_NUMA_MAPS);
    all_on(&found, node, 2 * MIB);

    static const int32_t bad[] = {-1, 1023, 1024, INT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(weir__numa_policy(memory, 2 * MIB, bad[i], WEIR__PAGES_SMALL, false, &error),
                         WEIR_ERR_INVALID);
        assert_int_equal(error.step, WEIR__NUMA_POLICY);
        assert_int_equal(error.node, bad[i]);
    }
    /* Small pages are never bound: a full node would kill the process. */
    assert_int_equal(weir__numa_policy(memory, 2 * MIB, node, WEIR__PAGES_SMALL, true, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir__numa_policy(memory, 2 * MIB, node, WEIR__PAGES_TRANSPARENT, true, NULL), WEIR_ERR_INVALID);
    weir__numa_unmap(memory, 2 * MIB, false);
    weir_topology_destroy(t);
}

TEST(test_thread_keeps_its_processors)
{
    weir_topology *t = machine();
    const int32_t node = some_node(t);
    void *memory = map(2 * MIB, WEIR__PAGES_SMALL);
    cpu_set_t before;
    cpu_set_t after;
    weir__numa_error error;
    weir__numa_found found;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(weir__numa_populate_near(t, memory, 2 * MIB, node, NULL), WEIR_OK);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    assert_int_equal(weir__numa_verify(memory, 2 * MIB, 0, &found, NULL), WEIR_OK);
    all_on(&found, node, 2 * MIB);

    /* A node that does not exist and a machine other than this one are refused before a page is touched. */
    assert_int_equal(madvise(memory, 2 * MIB, MADV_DONTNEED), 0);
    assert_int_equal(weir__numa_populate_near(t, memory, 2 * MIB, 1000, &error), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(error.step, WEIR__NUMA_THREAD);
    t->is_this_machine = false;
    assert_int_equal(weir__numa_populate_near(t, memory, 2 * MIB, node, &error), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(weir__numa_populate_near(NULL, memory, 2 * MIB, node, &error), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(present(memory, 2 * MIB), 0);
    weir__numa_unmap(memory, 2 * MIB, false);
    weir_topology_destroy(t);
}

TEST(test_transparent_pages)
{
    char text[64];
    uint64_t bytes = 0;
    if (!weir__sysfs_text("", "/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text)) ||
        strstr(text, "[never]") != NULL) {
        print_message("no transparent huge pages here\n");
        skip();
    }
    void *memory = map(8 * MIB, WEIR__PAGES_TRANSPARENT);
    assert_int_equal(weir__numa_populate(memory, 8 * MIB, NULL), WEIR_OK);
    assert_int_equal(weir__numa_transparent_bytes("", memory, 8 * MIB, &bytes), WEIR_OK);
    assert_true(bytes <= 8 * MIB && bytes % WEIR__HUGE_PAGE == 0);
    assert_int_equal(weir__numa_transparent_bytes("", (char *)memory + page, 2 * page, &bytes), WEIR_ERR_UNSUPPORTED);
    weir__numa_unmap(memory, 8 * MIB, false);

    memory = map(MIB, WEIR__PAGES_SMALL);
    assert_int_equal(mprotect((char *)memory + page, page, PROT_READ), 0); /* a mapping of its own */
    bytes = 7;
    assert_int_equal(weir__numa_transparent_bytes("", (char *)memory + page, page, &bytes), WEIR_OK);
    assert_int_equal(bytes, 0);
    weir__numa_unmap(memory, MIB, false);
}

/* --- the files of the kernel --- */

static char root[64];

static void put(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/proc/self/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int new_root(void **state)
{
    char path[128];
    (void)state;
    (void)strcpy(root, "/tmp/weir-proc-XXXXXX");
    bool made = mkdtemp(root) != NULL;
    (void)snprintf(path, sizeof(path), "%s/proc", root);
    made = made && mkdir(path, 0777) == 0;
    (void)snprintf(path, sizeof(path), "%s/proc/self", root);
    return made && mkdir(path, 0777) == 0 ? 0 : -1;
}

static int remove_root(void **state)
{
    static const char *const names[] = {
        "/proc/self/maps", "/proc/self/numa_maps", "/proc/self/smaps", "/proc/self", "/proc", ""};
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", root, names[i]);
        (void)remove(path);
    }
    return 0;
}

/* 16 pages at 0x10000: possible reports of the kernel, and the expected results. */
TEST_BETWEEN(test_numa_maps, new_root, remove_root)
{
    enum { K = 4096 };
    static const struct {
        const char *maps, *numa_maps;
        weir_status status;
        uint64_t on_0, on_3, absent, unknown;
    } cases[] = {
        /* exactly the range, on two nodes */
        {"00010000-00020000 rw-p 0 00:00 0\n", "00010000 prefer:3 anon=16 dirty=16 N0=4 N3=12 kernelpagesize_kB=4\n",
         WEIR_OK, 4 * K, 12 * K, 0, 0},
        /* not all there */
        {"00010000-00020000 rw-p 0 00:00 0\n", "00010000 default anon=6 N3=6 kernelpagesize_kB=4\n", WEIR_OK, 0, 6 * K,
         10 * K, 0},
        {"00010000-00020000 rw-p 0 00:00 0\n", "00010000 default\n", WEIR_ERR_UNSUPPORTED, 0, 0, 0, 16 * K},
        /* the mapping is larger than the range that the test asks for. Its pages are on one node, on two nodes, or some
         * are absent */
        {"0000c000-00024000 rw-p 0 00:00 0\n", "0000c000 default anon=24 N3=24 kernelpagesize_kB=4\n", WEIR_OK, 0,
         16 * K, 0, 0},
        {"0000c000-00024000 rw-p 0 00:00 0\n", "0000c000 default anon=24 N0=1 N3=23 kernelpagesize_kB=4\n",
         WEIR_ERR_UNSUPPORTED, 0, 0, 0, 16 * K},
        {"0000c000-00024000 rw-p 0 00:00 0\n", "0000c000 default anon=20 N3=20 kernelpagesize_kB=4\n",
         WEIR_ERR_UNSUPPORTED, 0, 0, 0, 16 * K},
        /* two mappings in the range, of which one is larger, and a neighbour outside */
        {"0000f000-00010000 r--p 0 00:00 0\n00010000-00014000 rw-p 0 00:00 0\n00014000-00022000 "
         "rw-p 0 00:00 0\n",
         "0000f000 default anon=1 N0=1 kernelpagesize_kB=4\n00010000 bind:0 anon=4 N0=4 "
         "kernelpagesize_kB=4\n"
         "00014000 bind:3 file=/a\\040N0=9 anon=14 N3=14 kernelpagesize_kB=4\n",
         WEIR_OK, 4 * K, 12 * K, 0, 0},
        /* huge pages, counted one by one */
        {"00010000-00020000 rw-p 0 00:00 0\n", "00010000 bind:3 huge anon=1 N3=1 kernelpagesize_kB=64\n", WEIR_OK, 0,
         16 * K, 0, 0},
        /* the kernel reports no node for the mapping, for half of the range, or for any page */
        {"00010000-00020000 rw-p 0 00:00 0\n", "00030000 default anon=1 N0=1 kernelpagesize_kB=4\n",
         WEIR_ERR_UNSUPPORTED, 0, 0, 0, 16 * K},
        {"00010000-00018000 rw-p 0 00:00 0\n", "00010000 default anon=8 N0=8 kernelpagesize_kB=4\n", WEIR_OK, 8 * K, 0,
         0, 8 * K},
        {"", "", WEIR_ERR_UNSUPPORTED, 0, 0, 0, 16 * K},
        {"x\n-\n00010000\n", "\nN0=3\n00010000 N=4 N0 Nx=3 N99999=1 kernelpagesize_kB=4\n", WEIR_ERR_UNSUPPORTED, 0, 0,
         0, 16 * K},
    };
    weir__numa_found found;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        put("maps", cases[i].maps);
        put("numa_maps", cases[i].numa_maps);
        assert_int_equal(weir__numa_verify_by_maps(root, (void *)(uintptr_t)0x10000, 16 * K, &found), cases[i].status);
        assert_int_equal(found.node_bytes[0], cases[i].on_0);
        assert_int_equal(found.node_bytes[3], cases[i].on_3);
        assert_int_equal(found.absent_bytes, cases[i].absent);
        assert_int_equal(found.unknown_bytes, cases[i].unknown);
    }
    assert_int_equal(weir__numa_verify_by_maps("/nowhere", (void *)(uintptr_t)0x10000, 16 * K, &found),
                     WEIR_ERR_UNSUPPORTED);
    uint64_t bytes = 0;
    assert_int_equal(weir__numa_transparent_bytes("/nowhere", (void *)(uintptr_t)0x10000, 16 * K, &bytes),
                     WEIR_ERR_UNSUPPORTED);
}

/* --- all of it --- */

TEST(test_pages_on)
{
    weir_topology *t = machine();
    const int32_t node = some_node(t);
    for (unsigned kind = 0; kind < 4; kind++) {
        weir__placed placed;
        weir__numa_error error;
        weir__numa_request request = {.topology = t,
                                      .size = 4 * MIB,
                                      .node = node,
                                      .pages = kind % 2 ? WEIR__PAGES_TRANSPARENT : WEIR__PAGES_SMALL,
                                      .is_strict = kind >= 2};
        request.memory = map(request.size, request.pages);
        assert_int_equal(weir__numa_pages_on(&request, &placed, &error), WEIR_OK);
        assert_true(placed.is_verified);
        assert_int_equal(placed.misplaced_bytes, 0);
        assert_int_equal(placed.unknown_bytes, 0);
        weir__numa_unmap(request.memory, request.size, false);
    }
    weir_topology_destroy(t);
}

TEST(test_not_this_machine)
{
    weir_topology *t = machine();
    weir__placed placed;
    weir__numa_request request = {.topology = t, .size = MIB, .node = 700, .is_strict = true};
    t->is_this_machine = false;
    request.memory = map(request.size, request.pages);
    assert_int_equal(weir__numa_pages_on(&request, &placed, NULL), WEIR_OK);
    assert_int_equal(placed.way, WEIR__PLACED_ANYWHERE);
    weir__numa_unmap(request.memory, request.size, false);
    weir_topology_destroy(t);
}

TEST(test_no_such_node)
{
    weir_topology *t = machine();
    weir__placed placed;
    weir__numa_error error;
    char text[512];
    weir__numa_request request = {.topology = t, .size = MIB, .node = 700};
    request.memory = map(request.size, request.pages);
    assert_int_equal(weir__numa_pages_on(&request, &placed, &error), WEIR_OK); /* the pages may lie anywhere */
    assert_int_equal(placed.way, WEIR__PLACED_ANYWHERE);
    assert_int_equal(placed.misplaced_bytes, MIB);
    weir__numa_unmap(request.memory, request.size, false);
    request.memory = map(request.size, request.pages);
    request.is_strict = true;
    assert_int_not_equal(weir__numa_pages_on(&request, &placed, &error), WEIR_OK);
    (void)weir__numa_error_text(&error, text, sizeof(text));
    assert_non_null(strstr(text, "700"));
    weir__numa_unmap(request.memory, request.size, false);
    weir_topology_destroy(t);
}

/* A strict request for more memory than the node has fails before a page is populated. */
TEST(test_no_room)
{
    if (access("/sys/devices/system/node", F_OK) != 0) {
        print_message("skipped: the kernel does not say here what a node has left\n");
        skip();
    }
    weir_topology *t = machine();
    const int32_t node = some_node(t);
    weir__placed placed;
    weir__numa_error error;
    char text[512];
    uint64_t room = 0;
    assert_int_equal(weir__numa_room(node, WEIR__PAGES_SMALL, &room), WEIR_OK);
    assert_int_equal(weir__numa_room(900, WEIR__PAGES_SMALL, &room), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(weir__numa_room(-1, WEIR__PAGES_SMALL, &room), WEIR_ERR_UNSUPPORTED);
    weir__numa_request request = {
        .topology = t, .size = (room / WEIR__HUGE_PAGE + 4096) * WEIR__HUGE_PAGE, .node = node, .is_strict = true};
    assert_int_equal(weir__numa_reserve(request.size, page, &request.memory, NULL), WEIR_OK);
    assert_int_equal(weir__numa_pages_on(&request, &placed, &error), WEIR_ERR_NO_MEMORY);
    assert_int_equal(error.step, WEIR__NUMA_ROOM);
    (void)weir__numa_error_text(&error, text, sizeof(text));
    assert_non_null(strstr(text, "to give"));
    assert_int_equal(present(request.memory, MIB), 0);
    weir__numa_unmap(request.memory, request.size, false);
    weir_topology_destroy(t);
}

static uint64_t group_room = UINT64_MAX;

weir__cgroup_memory __wrap_weir__cgroup_read(const char *folder);

weir__cgroup_memory __wrap_weir__cgroup_read(const char *folder)
{
    (void)folder;
    return (weir__cgroup_memory){UINT64_MAX, UINT64_MAX, group_room};
}

/* A request for more memory than the control group has is refused before a page is populated. Otherwise the kernel
 * would end the process. */
TEST(test_no_room_in_the_group)
{
    weir_topology *t = machine();
    weir__placed placed;
    weir__numa_error error;
    char text[512];
    weir__numa_request request = {.topology = t, .size = 4 * MIB, .node = WEIR_NODE_NONE};
    assert_int_equal(weir__numa_reserve(request.size, page, &request.memory, NULL), WEIR_OK);
    group_room = 4 * MIB - 1;
    assert_int_equal(weir__numa_pages_on(&request, &placed, &error), WEIR_ERR_NO_MEMORY);
    group_room = 4 * MIB;
    assert_int_equal(error.step, WEIR__NUMA_GROUP);
    (void)weir__numa_error_text(&error, text, sizeof(text));
    assert_non_null(strstr(text, "the process's control group has"));
    assert_int_equal(present(request.memory, 4 * MIB), 0);
    assert_false(weir__numa_pages_on(&request, &placed, &error) != WEIR_OK && error.step == WEIR__NUMA_GROUP);
    group_room = UINT64_MAX;
    weir__numa_unmap(request.memory, request.size, false);
    weir_topology_destroy(t);
}

/* --- locking --- */

TEST(test_lock)
{
    void *memory = map(MIB, WEIR__PAGES_SMALL);
    weir__numa_lock_limits limits;
    weir__numa_error error;
    assert_int_equal(weir__numa_lock(memory, MIB, NULL), WEIR_OK);
    weir__numa_get_lock_limits(&limits);
    assert_true(limits.locked_bytes >= MIB);
    weir__numa_unlock(memory, MIB);
    weir__numa_get_lock_limits(&limits);
    assert_int_equal(limits.locked_bytes, 0);
    assert_int_equal(mprotect((char *)memory + MIB - page, page, PROT_NONE), 0);
    assert_int_equal(weir__numa_lock(memory, MIB, &error), WEIR_ERR_NO_MEMORY); /* cannot be populated */
    weir__numa_get_lock_limits(&limits);
    assert_int_equal(limits.locked_bytes, 0);
    weir__numa_unmap(memory, MIB, false);
}

/* Runs in a child without privileges. */
static int lock_as_nobody(void)
{
    weir__numa_error error = {0};
    weir__numa_lock_limits limits;
    char text[512];
    const struct rlimit one = {MIB, MIB};
    const struct rlimit none = {0, 0};
    void *memory = NULL;
    CHECK(weir__numa_map(NULL, 2 * MIB, WEIR__PAGES_SMALL, &memory, NULL) == WEIR_OK);
    CHECK(setrlimit(RLIMIT_MEMLOCK, &one) == 0);
    CHECK(setuid(65534) == 0);
    weir__numa_get_lock_limits(&limits);
    CHECK(!limits.is_exempt && limits.soft_bytes == MIB && limits.hard_bytes == MIB);
    CHECK(weir__numa_lock(memory, MIB / 2, &error) == WEIR_OK);
    CHECK(weir__numa_lock((char *)memory + MIB / 2, MIB, &error) == WEIR_ERR_LIMIT);
    CHECK(error.step == WEIR__NUMA_LOCK && error.number == ENOMEM && error.limit_bytes == MIB &&
          error.used_bytes == MIB / 2);
    (void)weir__numa_error_text(&error, text, sizeof(text));
    CHECK(strstr(text, "RLIMIT_MEMLOCK is 1 MiB, of which 512 KiB are taken") != NULL);
    CHECK(weir__numa_lock((char *)memory + MIB / 2, MIB / 2, NULL) ==
          WEIR_OK); /* a range within the limit can be locked */
    weir__numa_unlock(memory, MIB);
    CHECK(weir__numa_populate(memory, 2 * MIB, NULL) == WEIR_OK); /* pages can still be populated */
    CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    CHECK(weir__numa_lock(memory, page, &error) == WEIR_ERR_LIMIT);
    CHECK(error.number == EPERM && error.limit_bytes == 0);
    return 0;
}

TEST(test_lock_as_nobody)
{
    if (geteuid() != 0) {
        print_message("not root\n");
        skip();
    }
    assert_int_equal(in_child(lock_as_nobody), 0);
}

/* --- forbidden calls --- */

static int contained(void)
{
    weir__numa_error error = {0};
    weir__numa_found found;
    weir__placed placed;
    weir_topology *t = NULL;
    char text[512];
    CHECK(deny_numa_calls());
    CHECK(weir_topology_create(NULL, &t) == WEIR_OK);
    const int32_t node = weir_topology_thread_node(t);
    CHECK(node >= 0);
    for (unsigned strict = 0; strict < 2; strict++) {
        weir__numa_request request = {.topology = t, .size = 4 * MIB, .node = node, .is_strict = strict != 0};
        CHECK(weir__numa_map(NULL, request.size, request.pages, &request.memory, NULL) == WEIR_OK);
        CHECK(weir__numa_policy(request.memory, request.size, node, request.pages, false, &error) ==
              WEIR_ERR_UNSUPPORTED);
        CHECK(error.number == EPERM);
        (void)weir__numa_error_text(&error, text, sizeof(text));
        CHECK(strstr(text, "CAP_SYS_NICE") != NULL);
        CHECK(weir__numa_pages_on(&request, &placed, &error) == WEIR_OK);
        CHECK(placed.way == WEIR__PLACED_BY_THREAD);
        CHECK(placed.is_verified && placed.misplaced_bytes == 0);
        CHECK(weir__numa_verify(request.memory, request.size, 0, &found, NULL) == WEIR_OK);
        CHECK(found.source == WEIR__FOUND_BY_NUMA_MAPS && found.node_bytes[node] == request.size);
        weir__numa_unmap(request.memory, request.size, false);
    }
    weir_topology_destroy(t);
    return 0;
}

TEST(test_contained)
{
    assert_int_equal(in_child(contained), 0);
}

/* The kernel reports nothing and allows no policy: pages lie anywhere, and a strict request is refused. */
static int contained_and_pinned(void)
{
    weir__numa_error error = {0};
    weir__placed placed;
    weir_topology *t = NULL;
    CHECK(weir_topology_create(NULL, &t) == WEIR_OK);
    const int32_t node = weir_topology_thread_node(t);
    CHECK(deny_numa_calls() && deny_affinity_and_files());
    for (unsigned strict = 0; strict < 2; strict++) {
        weir__numa_request request = {.topology = t, .size = 4 * MIB, .node = node, .is_strict = strict != 0};
        CHECK(weir__numa_map(NULL, request.size, request.pages, &request.memory, NULL) == WEIR_OK);
        const weir_status status = weir__numa_pages_on(&request, &placed, &error);
        CHECK(status == (strict ? WEIR_ERR_UNSUPPORTED : WEIR_OK));
        CHECK(placed.way == WEIR__PLACED_ANYWHERE && !placed.is_verified);
        CHECK(placed.unknown_bytes == request.size && placed.misplaced_bytes == 0);
        CHECK(error.step == WEIR__NUMA_VERIFY && error.number == EPERM);
        weir__numa_unmap(request.memory, request.size, false);
    }
    weir_topology_destroy(t);
    return 0;
}

TEST(test_contained_and_pinned)
{
    assert_int_equal(in_child(contained_and_pinned), 0);
}

/* Runs as on a kernel or in a sandbox without MADV_POPULATE_WRITE. */
static int without_populate(void)
{
    void *memory = NULL;
    weir__numa_found found;
    CHECK(weir__numa_map(NULL, 2 * MIB, WEIR__PAGES_SMALL, &memory, NULL) == WEIR_OK);
    char *bytes = memory;
    bytes[7 * page] = 42;
    CHECK(deny_madvise());
    CHECK(weir__numa_populate(memory, 2 * MIB, NULL) == WEIR_OK);
    CHECK(bytes[7 * page] == 42);
    CHECK(weir__numa_verify(memory, 2 * MIB, 0, &found, NULL) == WEIR_OK && found.absent_bytes == 0);
    /* A page that cannot be written gives an error and no signal, also without MADV_POPULATE_WRITE. */
    CHECK(mmap(bytes + 5 * page, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    CHECK(weir__numa_populate(memory, 2 * MIB, NULL) == WEIR_ERR_NO_MEMORY);
    CHECK(weir__numa_map(NULL, 2 * MIB, WEIR__PAGES_TRANSPARENT, &memory, NULL) == WEIR_ERR_UNSUPPORTED);
    return 0;
}

TEST(test_without_populate)
{
    assert_int_equal(in_child(without_populate), 0);
}

/* --- words --- */

TEST(test_texts)
{
    char text[512];
    char shorter[8];
    weir__numa_error error = {
        .step = WEIR__NUMA_POPULATE, .number = EFAULT, .pages = WEIR__PAGES_HUGE, .node = 3, .bytes = 3 * MIB / 2};
    const size_t length = weir__numa_error_text(&error, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_string_equal(text, "making the pages failed for 1.5 MiB (Bad address): node 3 has too few "
                              "free huge pages: write more to "
                              "/sys/devices/system/node/node3/hugepages/hugepages-2048kB/nr_hugepages");
    assert_int_equal(weir__numa_error_text(&error, shorter, sizeof(shorter)), length);
    assert_string_equal(shorter, "making ");
    assert_int_equal(weir__numa_error_text(&error, NULL, 0), length);
}

int main(void)
{
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    return run_all_tests("tests");
}
