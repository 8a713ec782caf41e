/* The host pool's steps, nodes and runtime: over runtimes in which every call can fail, and over simulated
 * machines. */
#include "rig/test.h"
#include "host_internal.h"
#include "topology_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- a runtime that can be made to refuse --- */

enum { PIECES = 64 };

static struct {
    void *pieces[PIECES]; /* NULL: unused entry */
    uint64_t sizes[PIECES];
    uint64_t registered, most_seen;
    uint64_t calls, fail_at; /* `calls` counts all calls; call number fail_at fails; 0: no call fails */
    uint64_t allocs_left;
    bool refuse_alloc, refuse_free, refuse_register, refuse_unregister, crooked;
    char *arena; /* if not NULL, pieces lie side by side in this memory, the first one page above its start */
    uint64_t arena_used;
} rt;

static void rt_reset(void)
{
    memset(&rt, 0, sizeof(rt));
    rt.allocs_left = UINT64_MAX;
}

static bool fails(bool refuse)
{
    return ++rt.calls == rt.fail_at || refuse;
}

static weir_status rt_alloc(void *ctx, uint64_t size, void **memory)
{
    assert_ptr_equal(ctx, &rt);
    rt.most_seen = size > rt.most_seen ? size : rt.most_seen;
    if (fails(rt.refuse_alloc) || rt.allocs_left == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    char *got = NULL;
    if (rt.arena != NULL) {
        got = rt.arena + getpagesize() + rt.arena_used;
        rt.arena_used += size;
    } else {
        got = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_ptr_not_equal(got, MAP_FAILED);
    }
    size_t i = 0;
    while (rt.pieces[i] != NULL) {
        i++;
    }
    rt.pieces[i] = got;
    rt.sizes[i] = size;
    rt.allocs_left--;
    *memory = rt.crooked ? got + 64 : got;
    return WEIR_OK;
}

static weir_status rt_free(void *ctx, void *memory, uint64_t size)
{
    assert_ptr_equal(ctx, &rt);
    if (fails(rt.refuse_free)) {
        return WEIR_ERR_DEVICE;
    }
    for (size_t i = 0; i < PIECES; i++) {
        if (rt.pieces[i] != NULL && rt.pieces[i] == (char *)memory - (rt.crooked ? 64 : 0)) {
            assert_int_equal(rt.sizes[i], size);
            assert_int_equal(rt.arena != NULL ? 0 : munmap(rt.pieces[i], size), 0);
            rt.pieces[i] = NULL;
            return WEIR_OK;
        }
    }
    fail_msg("the runtime was given back what it never gave");
    return WEIR_ERR_INVALID;
}

static weir_status rt_register(void *ctx, void *memory, uint64_t size)
{
    assert_ptr_equal(ctx, &rt);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    rt.most_seen = size > rt.most_seen ? size : rt.most_seen;
    if (fails(rt.refuse_register)) {
        return WEIR_ERR_DEVICE;
    }
    rt.registered += size;
    return WEIR_OK;
}

static weir_status rt_unregister(void *ctx, void *memory, uint64_t size)
{
    assert_ptr_equal(ctx, &rt);
    (void)memory;
    if (fails(rt.refuse_unregister)) {
        return WEIR_ERR_DEVICE;
    }
    assert_true(rt.registered >= size);
    rt.registered -= size;
    return WEIR_OK;
}

static const weir_host_runtime_ops rt_ops = {
    .struct_size = sizeof(rt_ops),
    .pinned_alloc = rt_alloc,
    .pinned_free = rt_free,
    .memory_register = rt_register,
    .memory_unregister = rt_unregister,
};

static bool rt_is_empty(void)
{
    for (size_t i = 0; i < PIECES; i++) {
        if (rt.pieces[i] != NULL) {
            return false;
        }
    }
    return rt.registered == 0;
}

/* --- machines --- */

/* Four nodes, as far from each other as those of a Kunpeng 920; processors are this machine's, on node 0. */
static weir_topology *four_nodes(void)
{
    static const unsigned far[4][4] = {{10, 16, 32, 33}, {16, 10, 25, 32}, {32, 25, 10, 16}, {33, 32, 16, 10}};
    weir_topology *made = weir__topology_begin(false);
    assert_non_null(made);
    for (int32_t i = 0; i < 4; i++) {
        assert_true(weir__topology_add_node(made, i, UINT64_C(1) << 34, false));
    }
    assert_true(weir__topology_seal_nodes(made));
    for (int32_t i = 0; i < 4; i++) {
        for (int32_t j = 0; j < 4; j++) {
            weir__topology_set_distance(made, i, j, far[i][j]);
        }
    }
    for (uint32_t cpu = 0; cpu < 1024; cpu++) {
        assert_true(weir__topology_add_cpu(made, cpu, cpu < 1021 ? 0 : (int32_t)cpu - 1020));
    }
    weir_topology *topology = NULL;
    assert_int_equal(weir__topology_finish(made, NULL, &topology), WEIR_OK);
    return topology;
}

struct setting {
    uint32_t flags, kinds;
    uint64_t most_bytes, chunk_bytes;
    const weir_topology *topology;
};

static weir_status create(const struct setting *s, weir_host_pool **pool)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.ops = &rt_ops;
    runtime.ctx = &rt;
    runtime.most_bytes = s->most_bytes;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = s->flags;
    config.kinds = s->kinds;
    config.runtime = &runtime;
    config.topology = s->topology;
    config.chunk_bytes = s->chunk_bytes != 0 ? s->chunk_bytes : 4 * MIB;
    return weir_host_pool_create(&config, pool);
}

static weir_host_pool *open_pool(const struct setting *s)
{
    weir_host_pool *pool = NULL;
    assert_int_equal(create(s, &pool), WEIR_OK);
    return pool;
}

static weir_host_stats stats_of(weir_host_pool *pool, int32_t node)
{
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    assert_int_equal(weir_host_get_stats(pool, node, &stats), WEIR_OK);
    return stats;
}

static weir_host_info info_of(weir_host_pool *pool, const void *ptr)
{
    weir_host_info info = WEIR_HOST_INFO_INIT;
    assert_int_equal(weir_host_query(pool, ptr, &info), WEIR_OK);
    return info;
}

static void check(weir_host_pool *pool)
{
    const char *why = "";
    if (weir_host_check(pool, &why) != WEIR_OK) {
        fail_msg("%s", why);
    }
}

static void *block(weir_host_pool *pool, uint64_t size, int32_t node)
{
    void *ptr = NULL;
    assert_int_equal(weir_host_alloc(pool, size, node, &ptr), WEIR_OK);
    return ptr;
}

/* --- tests --- */

TEST(test_configs)
{
    rt_reset();
    weir_host_pool *pool = NULL;
    const struct setting bad[] = {
        {.flags = 1u << 31},
        {.kinds = 1u << WEIR_HOST_KIND_COUNT},
        {.kinds = 1u << WEIR_HOST_UNPINNED},
        {.chunk_bytes = 3 * MIB},
        {.chunk_bytes = MIB},
        {.chunk_bytes = 2048 * MIB},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(create(&bad[i], &pool), WEIR_ERR_INVALID);
    }
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    assert_int_equal(weir_host_pool_create(&config, NULL), WEIR_ERR_INVALID);
    config.kinds = 1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_ERR_INVALID); /* no runtime */
    config.struct_size = 1;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_ERR_INVALID);
    struct {
        weir_host_pool_config known;
        uint64_t later;
    } newer = {.known = WEIR_HOST_POOL_CONFIG_INIT, .later = 1};
    newer.known.struct_size = sizeof(newer);
    assert_int_equal(weir_host_pool_create(&newer.known, &pool), WEIR_ERR_UNSUPPORTED);
    /* A runtime with an older header, which cannot register. */
    weir_host_runtime_ops older = rt_ops;
    older.struct_size = offsetof(weir_host_runtime_ops, memory_register);
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    runtime.ops = &older;
    runtime.ctx = &rt;
    config = (weir_host_pool_config)WEIR_HOST_POOL_CONFIG_INIT;
    config.runtime = &runtime;
    config.kinds = 1u << WEIR_HOST_REGISTERED;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_ERR_INVALID);
    assert_null(pool);
    assert_int_equal(weir_host_pool_create(NULL, &pool), WEIR_OK);
    assert_int_equal(stats_of(pool, WEIR_HOST_ANY_NODE).held_bytes, 0);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(NULL), WEIR_OK);
    assert_int_equal(rt.calls, 0);
}

TEST(test_names)
{
    for (int kind = 0; kind < WEIR_HOST_KIND_COUNT; kind++) {
        assert_string_not_equal(weir_host_kind_name((weir_host_kind)kind), "unknown");
        assert_true(strlen(weir_host_kind_text((weir_host_kind)kind)) > 10);
    }
    assert_string_equal(weir_host_kind_name(WEIR_HOST_KIND_COUNT), "unknown");
    assert_string_equal(weir_host_kind_text((weir_host_kind)-1), "unknown");
}

TEST(test_steps)
{
    static const struct setting any = {.flags = 0};
    rt_reset();
    weir_host_pool *pool = open_pool(&any);
    void *given = block(pool, 3 * MIB, WEIR_HOST_THREAD_NODE);
    assert_int_equal(info_of(pool, given).kind, WEIR_HOST_RUNTIME);
    rt.refuse_alloc = true;
    void *registered = block(pool, 3 * MIB, WEIR_HOST_THREAD_NODE);
    assert_int_equal(info_of(pool, registered).kind, WEIR_HOST_REGISTERED);
    assert_true(info_of(pool, registered).is_pinned);
    rt.refuse_register = true;
    void *own = block(pool, 3 * MIB, WEIR_HOST_THREAD_NODE);
    assert_true(info_of(pool, own).kind >= WEIR_HOST_HUGE && info_of(pool, own).kind <= WEIR_HOST_LOCKED);
    const weir_host_stats stats = stats_of(pool, WEIR_HOST_ANY_NODE);
    assert_int_equal(stats.kind_bytes[WEIR_HOST_RUNTIME], 4 * MIB);
    assert_int_equal(stats.kind_bytes[WEIR_HOST_REGISTERED], 4 * MIB);
    assert_int_equal(stats.held_bytes, 12 * MIB);
    assert_int_equal(stats.unpinned_bytes, 0);
    assert_true(stats.kind_failures[WEIR_HOST_RUNTIME] >= 1);
    assert_int_equal(stats.kind_failures[WEIR_HOST_REGISTERED], 1);
    char text[4096];
    const size_t length = weir_host_explain(pool, WEIR_HOST_THREAD_NODE, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "runtime: the runtime's allocation of 4 MiB failed: "));
    assert_non_null(strstr(text, "registered: the runtime's registration of 4 MiB failed: "));
    char little[20];
    assert_int_equal(weir_host_explain(pool, WEIR_HOST_THREAD_NODE, little, sizeof(little)), length);
    assert_int_equal(strncmp(little, text, sizeof(little) - 1), 0);
    assert_int_equal(weir_host_explain(pool, WEIR_HOST_THREAD_NODE, NULL, 0), length);
    assert_int_equal(weir_host_explain(pool, 4711, text, sizeof(text)), 0);
    assert_int_equal(weir_host_explain(NULL, 0, text, sizeof(text)), 0);
    check(pool);
    assert_int_equal(weir_host_free(pool, given), WEIR_OK);
    assert_int_equal(weir_host_free(pool, registered), WEIR_OK);
    assert_int_equal(weir_host_free(pool, own), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_true(rt_is_empty());
}

TEST(test_unpinned_only_where_allowed)
{
    const uint32_t kinds = 1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED;
    const struct setting refused = {.kinds = kinds};
    const struct setting allowed = {.kinds = kinds | 1u << WEIR_HOST_UNPINNED, .flags = WEIR_HOST_ALLOW_UNPINNED};
    for (int i = 0; i < 2; i++) {
        rt_reset();
        rt.refuse_alloc = true;
        rt.refuse_register = true;
        weir_host_pool *pool = open_pool(i == 0 ? &refused : &allowed);
        void *untouched = &pool;
        void *ptr = untouched;
        for (uint64_t size = 100; size < 2 * MIB; size *= 1000) {
            const weir_status status = weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &ptr);
            if (i == 0) {
                assert_int_equal(status, WEIR_ERR_NO_MEMORY);
                assert_ptr_equal(ptr, untouched);
            } else {
                assert_int_equal(status, WEIR_OK);
                assert_int_equal(info_of(pool, ptr).kind, WEIR_HOST_UNPINNED);
                assert_false(info_of(pool, ptr).is_pinned);
            }
        }
        const weir_host_stats stats = stats_of(pool, WEIR_HOST_ANY_NODE);
        assert_int_equal(stats.pinned_bytes, 0);
        assert_int_equal(stats.unpinned_bytes > 0, i);
        assert_int_equal(stats.failures, i == 0 ? 2 : 0);
        check(pool);
        assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
        assert_true(rt_is_empty());
    }
}

/* A block may lie in chunks of several steps: the query reports the lowest of them. */
TEST(test_a_block_across_steps)
{
    const struct setting s = {.kinds = 1u << WEIR_HOST_REGISTERED | 1u << WEIR_HOST_UNPINNED,
                              .flags = WEIR_HOST_ALLOW_UNPINNED};
    rt_reset();
    weir_host_pool *pool = open_pool(&s);
    void *first = block(pool, 3 * MIB, WEIR_HOST_THREAD_NODE);
    assert_true(info_of(pool, first).is_pinned);
    rt.refuse_register = true;
    char *second = block(pool, 9 * MIB, WEIR_HOST_THREAD_NODE);
    assert_int_equal(info_of(pool, second).kind, WEIR_HOST_UNPINNED);
    assert_false(info_of(pool, second).is_pinned);
    assert_false(info_of(pool, second + 9 * MIB - 1).is_pinned);
    assert_int_equal(weir_host_free(pool, second), WEIR_OK);
    assert_int_equal(weir_host_free(pool, first), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_true(rt_is_empty());
}

/* No call asks the runtime for more bytes than the runtime serves in one call. */
TEST(test_limit_of_one_call)
{
    const struct setting s = {
        .kinds = 1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED, .most_bytes = 9 * MIB, .chunk_bytes = 64 * MIB};
    rt_reset();
    weir_host_pool *pool = open_pool(&s);
    void *small = block(pool, 100, WEIR_HOST_THREAD_NODE);
    assert_int_equal(info_of(pool, small).kind, WEIR_HOST_RUNTIME);
    char *large = block(pool, 50 * MIB, WEIR_HOST_THREAD_NODE); /* in adjacent chunks */
    assert_int_equal(info_of(pool, large + 49 * MIB).kind, WEIR_HOST_REGISTERED);
    large[0] = large[50 * MIB - 1] = 1;
    assert_true(rt.most_seen <= 9 * MIB && rt.most_seen >= 8 * MIB);
    assert_int_equal(weir_host_free(pool, small), WEIR_OK);
    assert_int_equal(weir_host_free(pool, large), WEIR_OK);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_true(rt_is_empty());
}

TEST(test_memory_that_begins_inside_a_page)
{
    const struct setting s = {.kinds = 1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED};
    rt_reset();
    rt.crooked = true;
    weir_host_pool *pool = open_pool(&s);
    void *ptr = block(pool, 100, WEIR_HOST_THREAD_NODE);
    assert_int_equal(info_of(pool, ptr).kind, WEIR_HOST_REGISTERED);
    char text[1024];
    assert_true(weir_host_explain(pool, WEIR_HOST_THREAD_NODE, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "does not begin at a page"));
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_true(rt_is_empty());
}

/* A block of several leaves of the registry: any address inside the block belongs to the block, only its start can be
 * freed, and after the free the registry has no entry of the block. */
TEST(test_addresses_inside_a_large_block)
{
    const struct setting s = {.flags = WEIR_HOST_ALLOW_UNPINNED, .kinds = 1u << WEIR_HOST_UNPINNED};
    weir_host_pool *pool = open_pool(&s);
    char *before = NULL;
    char *large = NULL;
    char *behind = NULL;
    assert_int_equal(weir_host_alloc(pool, 70000, WEIR_HOST_ANY_NODE, (void **)&before), WEIR_OK);
    assert_int_equal(weir_host_alloc(pool, 9 * MIB, WEIR_HOST_ANY_NODE, (void **)&large), WEIR_OK);
    assert_int_equal(weir_host_alloc(pool, 70000, WEIR_HOST_ANY_NODE, (void **)&behind), WEIR_OK);
    for (uint64_t at = 0; at < 9 * MIB; at += 4096) {
        assert_ptr_equal(info_of(pool, large + at).block, large);
        assert_int_equal(weir_host_free(pool, large + at + 64), WEIR_ERR_INVALID);
    }
    assert_ptr_equal(info_of(pool, before + 69999).block, before);
    assert_ptr_equal(info_of(pool, behind + 69999).block, behind);
    assert_int_equal(weir_host_free(pool, large), WEIR_OK);
    for (uint64_t at = 0; at < 9 * MIB; at += 4096) {
        weir_host_info info = WEIR_HOST_INFO_INIT;
        assert_int_equal(weir_host_query(pool, large + at, &info), WEIR_ERR_INVALID);
    }
    assert_int_equal(weir_host_free(pool, before), WEIR_OK);
    assert_int_equal(weir_host_free(pool, behind), WEIR_OK);
    check(pool);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
}

/* Chunks of a runtime may share 2 MiB of addresses, even chunks of different nodes. */
TEST(test_pieces_of_two_chunks_in_one_leaf)
{
    rt_reset();
    char *arena = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    rt.arena = (char *)(((uintptr_t)arena + 2 * MIB - 1) & ~(uintptr_t)(2 * MIB - 1));
    weir_topology *topology = four_nodes();
    const struct setting s = {.kinds = 1u << WEIR_HOST_RUNTIME, .topology = topology, .chunk_bytes = 2 * MIB};
    weir_host_pool *pool = open_pool(&s);
    char *blocks[4];
    for (int32_t node = 0; node < 4; node++) {
        blocks[node] = block(pool, 2 * MIB - 64, node);
        memset(blocks[node], node, 2 * MIB - 64);
    }
    for (int32_t gone = -1; gone < 4; gone++) {
        if (gone >= 0) {
            assert_int_equal(weir_host_free(pool, blocks[gone]), WEIR_OK);
            assert_int_equal(weir_host_trim(pool, 0, NULL), WEIR_OK);
        }
        for (int32_t node = gone + 1; node < 4; node++) {
            for (uint64_t at = 0; at < 2 * MIB - 64; at += 100000) {
                assert_int_equal(info_of(pool, blocks[node] + at).node, node);
                assert_ptr_equal(info_of(pool, blocks[node] + at).block, blocks[node]);
            }
        }
        check(pool);
    }
    assert_int_equal(stats_of(pool, WEIR_HOST_ANY_NODE).held_bytes, 0);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_true(rt_is_empty());
    weir_topology_destroy(topology);
    (void)munmap(arena, 32 * MIB);
}

/* A chunk that the runtime does not take back stays with the pool, and serves again. */
TEST(test_a_runtime_that_keeps_memory)
{
    const uint32_t kinds[] = {1u << WEIR_HOST_RUNTIME, 1u << WEIR_HOST_REGISTERED};
    for (size_t i = 0; i < 2; i++) {
        rt_reset();
        const struct setting s = {.kinds = kinds[i]};
        weir_host_pool *pool = open_pool(&s);
        void *ptr = block(pool, 3 * MIB, WEIR_HOST_THREAD_NODE);
        assert_int_equal(weir_host_free(pool, ptr), WEIR_OK);
        rt.refuse_free = rt.refuse_unregister = true;
        uint64_t released = 1;
        assert_int_equal(weir_host_trim(pool, 0, &released), WEIR_ERR_DEVICE);
        assert_int_equal(released, 0);
        assert_int_equal(stats_of(pool, WEIR_HOST_ANY_NODE).held_bytes, 4 * MIB);
        check(pool);
        const uint64_t calls = rt.calls;
        ptr = block(pool, 3 * MIB, WEIR_HOST_THREAD_NODE);
        assert_int_equal(rt.calls, calls);
        memset(ptr, 1, 3 * MIB);
        assert_int_equal(info_of(pool, ptr).is_pinned, true);
        assert_int_equal(weir_host_free(pool, ptr), WEIR_OK);
        rt.refuse_free = rt.refuse_unregister = false;
        assert_int_equal(weir_host_trim(pool, 0, &released), WEIR_OK);
        assert_int_equal(released, 4 * MIB);
        assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
        assert_true(rt_is_empty());
        /* The pool's end reports it. */
        pool = open_pool(&s);
        (void)block(pool, 3 * MIB, WEIR_HOST_THREAD_NODE);
        rt.refuse_free = rt.refuse_unregister = true;
        assert_int_equal(weir_host_pool_destroy(pool), WEIR_ERR_DEVICE);
        assert_false(rt_is_empty());
    }
}

TEST(test_each_call_of_the_runtime_fails)
{
    weir_topology *topology = four_nodes();
    for (uint64_t nth = 1;; nth++) {
        rt_reset();
        const struct setting s = {.kinds = 1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED, .topology = topology};
        weir_host_pool *pool = open_pool(&s);
        void *blocks[24];
        rt.fail_at = nth;
        for (int i = 0; i < 24; i++) {
            blocks[i] = block(pool, (uint64_t)1 << i, i % 4); /* the next step serves it */
        }
        for (int i = 0; i < 24; i++) {
            assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
        }
        const weir_status trimmed = weir_host_trim(pool, 0, NULL);
        assert_true(trimmed == WEIR_OK || trimmed == WEIR_ERR_DEVICE);
        check(pool);
        assert_int_equal(stats_of(pool, WEIR_HOST_ANY_NODE).live_bytes, 0);
        const bool over = rt.calls < nth;
        rt.fail_at = 0;
        assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
        assert_true(rt_is_empty());
        if (over) {
            assert_true(nth > 10);
            break;
        }
    }
    weir_topology_destroy(topology);
}

/* --- nodes --- */

TEST(test_fallback_to_the_nearest)
{
    static const int32_t order[4][4] = {{0, 1, 2, 3}, {1, 0, 2, 3}, {2, 3, 1, 0}, {3, 2, 1, 0}};
    weir_topology *topology = four_nodes();
    for (int32_t asked = 0; asked < 4; asked++) {
        rt_reset();
        const struct setting s = {
            .kinds = 1u << WEIR_HOST_RUNTIME, .topology = topology, .flags = WEIR_HOST_NO_THREAD_CACHE};
        weir_host_pool *pool = open_pool(&s);
        for (int32_t node = 0; node < 4; node++) {
            void *first = block(pool, 100000, node);
            assert_int_equal(info_of(pool, first).node, node);
            assert_int_equal(stats_of(pool, node).held_bytes, 4 * MIB);
            (void)first; /* stays live and keeps the chunk */
        }
        rt.allocs_left = 0;
        int place = 0;
        int32_t last = -1;
        void *ptr = NULL;
        while (weir_host_alloc(pool, 500000, asked, &ptr) == WEIR_OK) {
            const int32_t node = info_of(pool, ptr).node;
            while (place < 4 && order[asked][place] != node) {
                place++;
            }
            assert_true(place < 4); /* each node is used until it is full */
            last = node;
        }
        assert_int_equal(last, order[asked][3]);
        assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
        assert_true(rt_is_empty());
    }
    weir_topology_destroy(topology);
}

TEST(test_strict)
{
    weir_topology *topology = four_nodes();
    rt_reset();
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_STRICT | WEIR_HOST_ALLOW_UNPINNED;
    config.kinds = 1u << WEIR_HOST_UNPINNED;
    config.topology = topology;
    config.chunk_bytes = 4 * MIB;
    config.limit_bytes = 4 * MIB;
    weir_host_pool *pool = NULL;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    void *ptr = block(pool, 100000, 2);
    assert_int_equal(info_of(pool, ptr).node, 2);
    void *other = NULL;
    assert_int_equal(weir_host_alloc(pool, 100, 1, &other), WEIR_ERR_LIMIT);
    assert_int_equal(weir_host_alloc(pool, 100000, WEIR_HOST_THREAD_NODE, &other), WEIR_ERR_LIMIT);
    assert_null(other);
    other = block(pool, 100000, WEIR_HOST_ANY_NODE);
    assert_int_equal(info_of(pool, other).node, 2);
    assert_int_equal(weir_host_free(pool, other), WEIR_OK);
    assert_int_equal(weir_host_free(pool, ptr), WEIR_OK);
    ptr = block(pool, 100000, 1); /* to make room, node 2 gives its idle memory back */
    assert_int_equal(info_of(pool, ptr).node, 1);
    assert_int_equal(stats_of(pool, 2).held_bytes, 0);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    weir_topology_destroy(topology);
}

/* A freed block returns to the bin of its node, whichever thread frees it, and bins of other nodes are never
 * overfilled. */
TEST(test_caches_know_their_node)
{
    weir_topology *topology = four_nodes();
    rt_reset();
    const struct setting s = {.kinds = 1u << WEIR_HOST_RUNTIME, .topology = topology};
    weir_host_pool *pool = open_pool(&s);
    enum { COUNT = 300 };
    void *blocks[COUNT];
    for (int round = 0; round < 4; round++) {
        const uint64_t size = round % 2 == 0 ? 100 : 70000 - (uint64_t)round;
        for (int i = 0; i < COUNT; i++) {
            blocks[i] = block(pool, size, i % 4);
            assert_int_equal(info_of(pool, blocks[i]).node, i % 4);
        }
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
        }
    }
    /* Node 0 has no memory left; the thread's own bin for node 1 is already full. */
    rt.allocs_left = 0;
    void *ptr = NULL;
    uint64_t from_elsewhere = 0;
    while (from_elsewhere < 10000 && weir_host_alloc(pool, 100, 0, &ptr) == WEIR_OK) {
        memset(ptr, 5, 100);
        from_elsewhere += info_of(pool, ptr).node != 0;
    }
    assert_int_equal(from_elsewhere, 10000);
    check(pool);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_true(rt_is_empty());
    weir_topology_destroy(topology);
}

static void *use_large_blocks(void *ctx)
{
    weir_host_pool *pool = ctx;
    void *blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = block(pool, 4 * MIB, WEIR_HOST_ANY_NODE);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
    }
    return NULL;
}

/* A thread keeps at most eight descriptions of page runs for its next blocks. The end of the thread gives them back. */
TEST(test_descriptions_do_not_pile_up)
{
    const struct setting s = {.flags = WEIR_HOST_ALLOW_UNPINNED, .kinds = 1u << WEIR_HOST_UNPINNED};
    weir_host_pool *pool = open_pool(&s);
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, use_large_blocks, pool), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)use_large_blocks(pool);
    }
    assert_int_equal(pool->runs.chunk_count, 1);
    assert_in_range(weir__host_mine->unused_run_count, 1, 8);
    check(pool);
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
}
