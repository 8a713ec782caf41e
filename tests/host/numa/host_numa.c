/* tests/host/numa/host_numa.c: the host pool on a machine with several nodes: every page of every block lies on the
 * node that the caller asked for, for each step of the ladder that the machine has, with and without policies; a full
 * node kills no process and the pool reports misplaced pages; a thread's own node. Each test runs in a child process,
 * so that a kill is only a failure. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* sched_setaffinity */
#endif

#include "rig/test.h"
#include "host/unit/sandbox.h"
#include "host_internal.h"
#include "numa.h"
#include "numa_pages.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

static unsigned nodes;

/* --- a runtime that allocates and touches, as a driver does, and one that registers --- */

/* CANN's driver takes pages of the node of the calling thread's processor, and ignores the thread's memory policy.
 * The policy of the range keeps the kernel from moving the pages to the node of the thread that touches them, as
 * pinning does. */
static weir_status pinned_alloc(void *ctx, uint64_t size, void **memory)
{
    (void)ctx;
    enum { preferred = 1, bits = 8 * sizeof(unsigned long) };
    unsigned long mask[WEIR__NUMA_NODES / bits] = {0};
    unsigned node = 0;
    void *got = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *memory = got;
    if (got == MAP_FAILED || syscall(SYS_getcpu, NULL, &node, NULL) != 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    mask[node / bits] = 1ul << (node % bits);
    (void)syscall(SYS_mbind, got, size, preferred, mask, WEIR__NUMA_NODES + 1ul, 0ul);
    memset(got, 0, size);
    return WEIR_OK;
}

static weir_status pinned_free(void *ctx, void *memory, uint64_t size)
{
    (void)ctx;
    return munmap(memory, size) == 0 ? WEIR_OK : WEIR_ERR_DEVICE;
}

static weir_status keep_as_it_is(void *ctx, void *memory, uint64_t size)
{
    (void)ctx, (void)memory, (void)size;
    return WEIR_OK;
}

static const weir_host_runtime_ops ops = {
    .struct_size = sizeof(ops),
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .memory_register = keep_as_it_is,
    .memory_unregister = keep_as_it_is,
};

static weir_host_pool *pool_of(weir_host_kind kind, uint32_t flags)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.ops = &ops;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.runtime = &runtime;
    config.kinds = 1u << kind;
    config.flags = flags | (kind == WEIR_HOST_UNPINNED ? (uint32_t)WEIR_HOST_ALLOW_UNPINNED : 0);
    config.chunk_bytes = 8 * MIB;
    weir_host_pool *pool = NULL;
    return weir_host_pool_create(&config, &pool) == WEIR_OK ? pool : NULL;
}

/* Returns the bytes of the block's pages that the kernel reports on another node. */
static uint64_t elsewhere(const void *ptr, uint64_t size, unsigned node)
{
    weir__numa_found found;
    const uint64_t first = (uint64_t)(uintptr_t)ptr & ~UINT64_C(4095);
    const uint64_t bytes = (((uint64_t)(uintptr_t)ptr + size + 4095) & ~UINT64_C(4095)) - first;
    if (weir__numa_verify((const void *)(uintptr_t)first, bytes, 0, &found, NULL) != WEIR_OK) {
        return UINT64_MAX;
    }
    return bytes - found.node_bytes[node];
}

static const uint64_t sizes[] = {1, 100, 5000, 60000, 70000, MIB, 5 * MIB, 11 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* `knows_where`: the process may ask the kernel about each page. */
static int each_step(weir_host_kind kind, uint32_t flags, bool knows_where)
{
    weir_host_pool *pool = pool_of(kind, flags);
    CHECK(pool != NULL);
    for (int round = 0; round < 2; round++) { /* caches serve the second round */
        for (unsigned node = 0; node < nodes; node++) {
            void *blocks[SIZES];
            for (unsigned i = 0; i < SIZES; i++) {
                weir_host_info info = WEIR_HOST_INFO_INIT;
                CHECK(weir_host_alloc(pool, sizes[i], (int32_t)node, &blocks[i]) == WEIR_OK);
                memset(blocks[i], 1, sizes[i]);
                CHECK(weir_host_query(pool, blocks[i], &info) == WEIR_OK);
                CHECK(info.node == (int32_t)node && info.kind == kind);
                CHECK(info.is_verified && info.misplaced_bytes == 0);
                const uint64_t wrong = knows_where ? elsewhere(blocks[i], sizes[i], node) : 0;
                if (wrong != 0) {
                    (void)fprintf(stderr, "%s, node %u, %llu bytes: %llu elsewhere\n", weir_host_kind_name(kind), node,
                                  (unsigned long long)sizes[i], (unsigned long long)wrong);
                }
                CHECK(wrong == 0);
            }
            for (unsigned i = 0; i < SIZES; i++) {
                CHECK(weir_host_free(pool, blocks[i]) == WEIR_OK);
            }
        }
    }
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    CHECK(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats) == WEIR_OK);
    CHECK(stats.misplaced_bytes == 0 && stats.unverified_bytes == 0 && stats.held_bytes != 0);
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    return 0;
}

static weir_host_kind the_kind;

static int preferred(void)
{
    return each_step(the_kind, 0, true);
}

static int strict(void)
{
    return each_step(the_kind, WEIR_HOST_STRICT, true);
}

/* Runs without mbind and its relatives. For whole chunks numa_maps still shows the node of the pages, and the pool
 * reads it. */
static int contained(void)
{
    CHECK(deny_numa_calls());
    return each_step(the_kind, 0, false);
}

TEST(test_each_step)
{
    const weir_host_kind kinds[] = {WEIR_HOST_RUNTIME, WEIR_HOST_REGISTERED, WEIR_HOST_TRANSPARENT, WEIR_HOST_LOCKED,
                                    WEIR_HOST_UNPINNED};
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        the_kind = kinds[i];
        assert_int_equal(in_child(preferred), 0);
        assert_int_equal(in_child(strict), 0);
        if (the_kind != WEIR_HOST_RUNTIME) { /* RUNTIME follows only the thread's policy, so it is left out */
            assert_int_equal(in_child(contained), 0);
        }
    }
}

/* Each node has eight huge pages: one chunk of 16 MiB. */
static int huge(void)
{
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.kinds = 1u << WEIR_HOST_HUGE;
    config.flags = WEIR_HOST_STRICT;
    config.chunk_bytes = 8 * MIB;
    weir_host_pool *pool = NULL;
    CHECK(weir_host_pool_create(&config, &pool) == WEIR_OK);
    for (unsigned node = 0; node < nodes; node++) {
        void *first = NULL;
        void *second = NULL;
        void *third = NULL;
        CHECK(weir_host_alloc(pool, 7 * MIB, (int32_t)node, &first) == WEIR_OK);
        CHECK(weir_host_alloc(pool, 7 * MIB, (int32_t)node, &second) == WEIR_OK);
        memset(first, 1, 7 * MIB);
        memset(second, 1, 7 * MIB);
        CHECK(elsewhere(first, 7 * MIB, node) == 0 && elsewhere(second, 7 * MIB, node) == 0);
        CHECK(weir_host_alloc(pool, 7 * MIB, (int32_t)node, &third) == WEIR_ERR_NO_MEMORY);
        CHECK(third == NULL);
    }
    char text[2048];
    CHECK(weir_host_explain(pool, 0, text, sizeof(text)) > 0 && strstr(text, "huge: ") == text);
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    return 0;
}

TEST(test_huge_pages)
{
    assert_int_equal(in_child(huge), 0);
}

/* Fills the last node. Then a pool that is not strict uses other nodes and reports the misplaced bytes; a strict pool
 * fails. */
static int fill(bool is_strict)
{
    weir_host_pool *pool = pool_of(WEIR_HOST_UNPINNED, is_strict ? (uint32_t)WEIR_HOST_STRICT : 0);
    const int32_t node = (int32_t)nodes - 1;
    CHECK(pool != NULL);
    uint64_t taken = 0;
    weir_status status = WEIR_OK;
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    while (taken < 480 * MIB && status == WEIR_OK) {
        void *ptr = NULL;
        status = weir_host_alloc(pool, 7 * MIB, node, &ptr);
        if (status == WEIR_OK) {
            memset(ptr, 1, 7 * MIB);
            taken += 7 * MIB;
            weir_host_info info = WEIR_HOST_INFO_INIT;
            CHECK(weir_host_query(pool, ptr, &info) == WEIR_OK);
            CHECK(!is_strict || elsewhere(ptr, 7 * MIB, (unsigned)node) == 0);
            CHECK(is_strict || info.misplaced_bytes != 0 || elsewhere(ptr, 7 * MIB, (unsigned)node) == 0);
        }
    }
    CHECK(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats) == WEIR_OK);
    if (is_strict) {
        CHECK(status == WEIR_ERR_NO_MEMORY && taken > 100 * MIB && stats.misplaced_bytes == 0);
        char text[2048];
        CHECK(weir_host_explain(pool, node, text, sizeof(text)) > 0);
        CHECK(strstr(text, " to give") != NULL || strstr(text, " came from other nodes") != NULL);
    } else {
        CHECK(status == WEIR_OK && stats.misplaced_bytes != 0);
    }
    CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    return 0;
}

static int fill_preferred(void)
{
    return fill(false);
}

static int fill_strict(void)
{
    return fill(true);
}

TEST(test_a_full_node)
{
    assert_int_equal(in_child(fill_preferred), 0);
    assert_int_equal(in_child(fill_strict), 0);
}

static int own_node(void)
{
    for (unsigned node = 0; node < nodes; node++) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(node, &cpus); /* one processor per node */
        CHECK(sched_setaffinity(0, sizeof(cpus), &cpus) == 0);
        weir_host_pool *pool = pool_of(WEIR_HOST_UNPINNED, 0);
        void *ptr = NULL;
        CHECK(pool != NULL);
        CHECK(weir_host_alloc(pool, MIB, WEIR_HOST_THREAD_NODE, &ptr) == WEIR_OK);
        CHECK(elsewhere(ptr, MIB, node) == 0);
        CHECK(weir_host_pool_destroy(pool) == WEIR_OK);
    }
    return 0;
}

TEST(test_the_threads_own_node)
{
    assert_int_equal(in_child(own_node), 0);
}

int main(void)
{
    nodes = numa_nodes();
    if (nodes == 0) {
        return numa_skip();
    }
    return run_all_tests("tests");
}
