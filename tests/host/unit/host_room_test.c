/* tests/host/unit/host_room_test.c: a host pool, and a runtime that has no more pinned memory.
 *
 * A refused request does not count against the limit, and is not tried again at once. The pool forgets a refusal of the
 * runtime as soon as the runtime has memory again.
 */
#include "rig/test.h"

#include "shared/clock.h"

#include <weir/host.h>

/* A runtime with a fixed amount of pinned memory. */
struct runtime {
    uint64_t room;
    uint64_t refusals;
};

static weir_status pin(void *ctx, uint64_t size, void **memory)
{
    struct runtime *runtime = ctx;
    void *taken = size <= runtime->room ? aligned_alloc(4096, size) : NULL;
    if (taken == NULL) {
        runtime->refusals++;
        return WEIR_ERR_NO_MEMORY;
    }
    runtime->room -= size;
    *memory = taken;
    return WEIR_OK;
}

static weir_status unpin(void *ctx, void *memory, uint64_t size)
{
    struct runtime *runtime = ctx;
    runtime->room += size;
    free(memory);
    return WEIR_OK;
}

static weir_status enter(void *ctx, void *memory, uint64_t size)
{
    struct runtime *runtime = ctx;
    (void)memory;
    if (size > runtime->room) {
        runtime->refusals++;
        return WEIR_ERR_NO_MEMORY;
    }
    runtime->room -= size;
    return WEIR_OK;
}

static weir_status leave(void *ctx, void *memory, uint64_t size)
{
    struct runtime *runtime = ctx;
    (void)memory;
    runtime->room += size;
    return WEIR_OK;
}

static const weir_host_runtime_ops ops = {.struct_size = sizeof(ops),
                                          .pinned_alloc = pin,
                                          .pinned_free = unpin,
                                          .memory_register = enter,
                                          .memory_unregister = leave};

static weir_host_pool *open_pool(struct runtime *runtime, uint64_t limit_bytes, uint32_t kinds)
{
    weir_host_runtime given = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    given.ops = &ops;
    given.ctx = runtime;
    config.runtime = &given;
    config.kinds = kinds;
    config.chunk_bytes = 2 * MIB;
    config.limit_bytes = limit_bytes;
    config.flags = WEIR_HOST_NO_THREAD_CACHE | WEIR_HOST_NO_PAD | WEIR_HOST_ALLOW_UNPINNED;
    assert_int_equal(weir_host_pool_create(&config, &pool), WEIR_OK);
    return pool;
}

static void close_pool(weir_host_pool *pool, const struct runtime *runtime, uint64_t room)
{
    const char *why = "";
    if (weir_host_check(pool, &why) != WEIR_OK) {
        fail_msg("check: %s", why);
    }
    assert_int_equal(weir_host_pool_destroy(pool), WEIR_OK);
    assert_int_equal(runtime->room, room);
}

/* A refused request holds no bytes: afterwards a block as large as the limit is served. */
TEST(test_a_refusal_counts_for_nothing)
{
    struct runtime runtime = {.room = 0};
    void *block = NULL;
    weir_host_pool *pool = open_pool(&runtime, 8 * MIB, 1u << WEIR_HOST_RUNTIME);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weir_host_alloc(pool, 4 * MIB, WEIR_HOST_THREAD_NODE, &block), WEIR_ERR_NO_MEMORY);
    }
    assert_true(runtime.refusals > 0);
    runtime.room = 8 * MIB;
    weir_host_pool *other = open_pool(&runtime, 8 * MIB, 1u << WEIR_HOST_RUNTIME); /* no refusal yet */
    assert_int_equal(weir_host_alloc(other, 8 * MIB, WEIR_HOST_THREAD_NODE, &block), WEIR_OK);
    close_pool(other, &runtime, 8 * MIB);
    weir_status status = WEIR_ERR_NO_MEMORY;
    while (status == WEIR_ERR_NO_MEMORY) { /* a refusal is believed for 10 ms */
        status = weir_host_alloc(pool, 8 * MIB, WEIR_HOST_THREAD_NODE, &block);
    }
    if (status != WEIR_OK) {
        fail_msg("refused requests count against the limit: %s", weir_status_text(status));
    }
    assert_int_equal(weir_host_free(pool, block), WEIR_OK);
    close_pool(pool, &runtime, 8 * MIB);
}

/* Requests that follow a refusal within 10 ms do not ask the runtime again: an attempt may cost milliseconds. A round
 * in which this thread was stopped for longer shows nothing. */
TEST(test_a_refusal_is_believed_for_a_while)
{
    enum { ROUNDS = 1000 };
    int round = 0;
    for (bool was_quick = false; !was_quick && round < ROUNDS; round++) {
        struct runtime runtime = {.room = 0};
        void *block = NULL;
        weir_host_pool *pool = open_pool(&runtime, 0, 1u << WEIR_HOST_RUNTIME);
        const uint64_t start_ns = wall_ns();
        assert_int_equal(weir_host_alloc(pool, 4 * MIB, WEIR_HOST_THREAD_NODE, &block), WEIR_ERR_NO_MEMORY);
        const uint64_t refusals = runtime.refusals;
        assert_int_equal(weir_host_alloc(pool, 4 * MIB, WEIR_HOST_THREAD_NODE, &block), WEIR_ERR_NO_MEMORY);
        was_quick = wall_ns() - start_ns < 10000000;
        assert_true(refusals > 0);
        assert_true(!was_quick || runtime.refusals == refusals);
        close_pool(pool, &runtime, 0);
    }
    if (round == ROUNDS) {
        print_message("two requests always take longer than 10 ms here\n");
        skip();
    }
}

/* The runtime refuses a request. The program frees memory, and then the same request is served at once. */
TEST(test_a_refusal_is_forgotten_when_memory_comes_back)
{
    for (int round = 0; round < 10; round++) {
        struct runtime runtime = {.room = 8 * MIB};
        void *small = NULL;
        void *block = NULL;
        weir_host_pool *pool = open_pool(&runtime, 0, 1u << WEIR_HOST_RUNTIME);
        assert_int_equal(weir_host_alloc(pool, 4 * MIB, WEIR_HOST_THREAD_NODE, &small), WEIR_OK);
        assert_int_equal(weir_host_alloc(pool, 8 * MIB, WEIR_HOST_THREAD_NODE, &block), WEIR_ERR_NO_MEMORY);
        assert_int_equal(weir_host_free(pool, small), WEIR_OK);
        if (weir_host_alloc(pool, 8 * MIB, WEIR_HOST_THREAD_NODE, &block) != WEIR_OK) {
            fail_msg("a refusal is believed although memory has come back");
        }
        assert_int_equal(weir_host_free(pool, block), WEIR_OK);
        close_pool(pool, &runtime, 8 * MIB);
    }
}

/* If the runtime refuses to register memory, the next step serves the request, and weir_host_query
 * reports this step. */
TEST(test_memory_that_was_not_registered_is_not_pinned)
{
    struct runtime runtime = {.room = 2 * MIB};
    void *blocks[2];
    weir_host_pool *pool = open_pool(&runtime, 0, 1u << WEIR_HOST_REGISTERED | 1u << WEIR_HOST_UNPINNED);
    for (int i = 0; i < 2; i++) {
        weir_host_info info = WEIR_HOST_INFO_INIT;
        assert_int_equal(weir_host_alloc(pool, 2 * MIB, WEIR_HOST_THREAD_NODE, &blocks[i]), WEIR_OK);
        assert_int_equal(weir_host_query(pool, blocks[i], &info), WEIR_OK);
        if (info.is_pinned != (i == 0)) {
            fail_msg("memory counts as %s although the runtime has %s it", info.is_pinned ? "pinned" : "not pinned",
                     i == 0 ? "registered" : "refused to register");
        }
    }
    assert_true(runtime.refusals > 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_host_free(pool, blocks[i]), WEIR_OK);
    }
    close_pool(pool, &runtime, 2 * MIB);
}
