/* tests/host/numa/pages_numa.c: every page lies on the requested node, by each method; a full node kills no process and
 * misplaced pages are reported; and huge pages that a node does not have are an error.
 *
 * Each test runs in a child process: a kill is only a failure, and the memory of the child is free afterwards.
 */
#include "rig/test.h"
#include "host/unit/sandbox.h"
#include "numa.h"
#include "numa_pages.h"
#include "topology_internal.h"

#include <string.h>

static unsigned nodes;

static weir_topology *machine(void)
{
    weir_topology *t = NULL;
    return weir_topology_create(NULL, &t) == WEIR_OK ? t : NULL;
}

/* Places pages on a node, and asks the kernel for the nodes of the pages. The answer is in *found. */
static weir_status place_on(const weir_topology *t, int32_t node, weir__numa_pages pages, uint64_t size, bool is_strict,
                            weir__placed *placed, weir__numa_found *found, weir__numa_error *error)
{
    weir__numa_request request = {.topology = t, .size = size, .pages = pages, .node = node, .is_strict = is_strict};
    const weir_status mapped = weir__numa_map(NULL, size, pages, &request.memory, error);
    if (mapped != WEIR_OK) {
        return mapped;
    }
    const weir_status status = weir__numa_pages_on(&request, placed, error);
    if (status != WEIR_OK) {
        weir__numa_unmap(request.memory, size, false);
        return status;
    }
    /* Memory that was placed stays mapped. */
    return weir__numa_verify(request.memory, size, 0, found, error) == WEIR_OK ? WEIR_OK : WEIR_ERR_INTERNAL;
}

static int each_way(bool contained)
{
    static const weir__numa_pages kinds[] = {WEIR__PAGES_SMALL, WEIR__PAGES_TRANSPARENT, WEIR__PAGES_HUGE};
    weir_topology *t = machine();
    CHECK(t != NULL);
    CHECK(!contained || deny_numa_calls());
    for (unsigned node = 0; node < nodes; node++) {
        for (unsigned kind = 0; kind < 3; kind++) {
            for (unsigned strict = 0; strict < 2; strict++) {
                weir__placed placed;
                weir__numa_found found;
                weir__numa_error error;
                CHECK(place_on(t, (int32_t)node, kinds[kind], 6 * MIB, strict != 0, &placed, &found, &error) ==
                      WEIR_OK);
                CHECK(placed.way == (contained ? WEIR__PLACED_BY_THREAD : WEIR__PLACED_BY_POLICY));
                CHECK(placed.is_verified && placed.misplaced_bytes == 0 && placed.unknown_bytes == 0);
                CHECK(found.source == (contained ? WEIR__FOUND_BY_NUMA_MAPS : WEIR__FOUND_BY_MOVE_PAGES));
                CHECK(found.node_bytes[node] == 6 * MIB);
            }
        }
    }
    weir_topology_destroy(t);
    return 0;
}

static int by_policy(void)
{
    return each_way(false);
}

static int by_thread(void)
{
    return each_way(true);
}

static uint64_t room_of(int32_t node)
{
    uint64_t room = 0;
    return weir__numa_room(node, WEIR__PAGES_SMALL, &room) == WEIR_OK ? room : 0;
}

/* Fills the last node, then requests more. */
static int full(bool contained)
{
    const int32_t node = (int32_t)nodes - 1;
    weir_topology *t = machine();
    weir__placed placed;
    weir__numa_found found;
    weir__numa_error error = {0};
    char text[256];
    weir_status status = WEIR_OK;
    uint64_t taken = 0;
    CHECK(t != NULL);
    CHECK(!contained || deny_numa_calls());
    /* strict requests get pages of this node only; the last one fails, because the node is full */
    while (status == WEIR_OK) {
        status = place_on(t, node, WEIR__PAGES_SMALL, 16 * MIB, true, &placed, &found, &error);
        taken += status == WEIR_OK ? 16 * MIB : 0;
    }
    CHECK(status == WEIR_ERR_NO_MEMORY);
    CHECK(error.step == WEIR__NUMA_ROOM || error.step == WEIR__NUMA_MISPLACED);
    CHECK(weir__numa_error_text(&error, text, sizeof(text)) > 0);
    CHECK(taken >= 128 * MIB && room_of(node) < 16 * MIB);
    /* A request that is not strict gets pages of other nodes and learns how many; no process is killed. */
    CHECK(place_on(t, node, WEIR__PAGES_SMALL, 64 * MIB, false, &placed, &found, &error) == WEIR_OK);
    CHECK(placed.is_verified && placed.misplaced_bytes >= 16 * MIB);
    CHECK(placed.misplaced_bytes == 64 * MIB - found.node_bytes[node]);
    /* A policy for another node still works. */
    CHECK(place_on(t, 0, WEIR__PAGES_SMALL, 16 * MIB, true, &placed, &found, &error) == WEIR_OK);
    return 0;
}

static int full_by_policy(void)
{
    return full(false);
}

static int full_by_thread(void)
{
    return full(true);
}

/* A node has 8 huge pages. */
static int too_few_huge_pages(void)
{
    weir_topology *t = machine();
    weir__placed placed;
    weir__numa_found found;
    weir__numa_error error = {0};
    char text[256];
    void *memory = NULL;
    CHECK(t != NULL);
    CHECK(place_on(t, 0, WEIR__PAGES_HUGE, 20 * MIB, true, &placed, &found, &error) == WEIR_ERR_NO_MEMORY);
    CHECK(error.step == WEIR__NUMA_ROOM && error.limit_bytes == 16 * MIB);

    /* If other processes take the pages between the check and the population, the call fails without a signal. */
    CHECK(weir__numa_map(NULL, 20 * MIB, WEIR__PAGES_HUGE, &memory, &error) == WEIR_OK);
    CHECK(weir__numa_policy(memory, 20 * MIB, 0, WEIR__PAGES_HUGE, true, &error) == WEIR_OK);
    error.pages = WEIR__PAGES_HUGE;
    CHECK(weir__numa_populate(memory, 20 * MIB, &error) == WEIR_ERR_NO_MEMORY);
    CHECK(error.step == WEIR__NUMA_POPULATE && error.number == EFAULT);
    (void)weir__numa_error_text(&error, text, sizeof(text));
    CHECK(strstr(text, "node 0 has too few free huge pages") != NULL);
    weir__numa_unmap(memory, 20 * MIB, false);

    /* If the request is not strict, node 0 serves eight of the ten pages. */
    CHECK(place_on(t, 0, WEIR__PAGES_HUGE, 20 * MIB, false, &placed, &found, &error) == WEIR_OK);
    CHECK(placed.is_verified && placed.misplaced_bytes == 4 * MIB && found.node_bytes[0] == 16 * MIB);
    return 0;
}

/* If the kernel cannot populate pages on request, the call fails as well, before it touches a page. */
static int too_few_huge_pages_touched(void)
{
    weir__numa_error error = {.node = 0, .pages = WEIR__PAGES_HUGE};
    void *memory = NULL;
    CHECK(weir__numa_map(NULL, 20 * MIB, WEIR__PAGES_HUGE, &memory, &error) == WEIR_OK);
    CHECK(weir__numa_policy(memory, 20 * MIB, 0, WEIR__PAGES_HUGE, true, &error) == WEIR_OK);
    CHECK(deny_madvise());
    CHECK(weir__numa_populate(memory, 20 * MIB, &error) == WEIR_ERR_NO_MEMORY);
    CHECK(error.number == EFAULT);
    return 0;
}

/* Memory is mapped into a reservation and unmapped, with huge or small pages, and the reservation stays. */
static int into_a_reservation(void)
{
    void *reserved = NULL;
    weir_topology *t = machine();
    CHECK(t != NULL);
    CHECK(weir__numa_reserve(64 * MIB, 2 * MIB, &reserved, NULL) == WEIR_OK);
    for (unsigned round = 0; round < 6; round++) {
        weir__placed placed;
        weir__numa_error error;
        char *at = (char *)reserved + (round % 3) * 16 * MIB;
        weir__numa_request request = {.topology = t,
                                      .size = 8 * MIB,
                                      .pages = (weir__numa_pages)(round % 3),
                                      .node = (int32_t)(round % nodes),
                                      .is_strict = true};
        CHECK(weir__numa_map(at, request.size, request.pages, &request.memory, &error) == WEIR_OK);
        CHECK(request.memory == (void *)at);
        CHECK(weir__numa_pages_on(&request, &placed, &error) == WEIR_OK);
        memset(request.memory, 7, request.size);
        CHECK(weir__numa_lock(request.memory, request.size, &error) == WEIR_OK);
        weir__numa_unmap(request.memory, request.size, true);
    }
    weir__numa_unmap(reserved, 64 * MIB, false);
    weir_topology_destroy(t);
    return 0;
}

#define IN_CHILD(name)                                                                                                 \
    TEST(test_##name)                                                                                                  \
    {                                                                                                                  \
        assert_int_equal(in_child(name), 0);                                                                           \
    }

IN_CHILD(by_policy)
IN_CHILD(by_thread)
IN_CHILD(full_by_policy)
IN_CHILD(full_by_thread)
IN_CHILD(too_few_huge_pages)
IN_CHILD(too_few_huge_pages_touched)
IN_CHILD(into_a_reservation)

int main(void)
{
    nodes = numa_nodes();
    if (nodes == 0) {
        return numa_skip();
    }
    return run_all_tests("tests");
}
