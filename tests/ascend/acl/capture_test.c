/* capture_test.c: a pool over ACL while a stream is being captured. */
#include "acl_test.h"

#include <string.h>

#define SIZE (40 * MIB)

static void begin(aclrtStream stream)
{
    acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
}

static void execute_and_destroy(aclmdlRI graph, aclrtStream stream)
{
    acl_ok(aclmdlRIExecuteAsync(graph, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclmdlRIDestroy(graph));
}

static weir_pool *pool_with_limit(weir_device *device, uint64_t limit_bytes)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_pool *pool = NULL;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.limit_bytes = limit_bytes;
    ok(weir_pool_create(&config, &pool));
    return pool;
}

/* A captured stream gets memory that another stream freed with work on it under way, and the graph runs. */
TEST(pending_memory_serves_a_captured_stream)
{
    struct world w = make_world();
    weir_pool *pool = pool_with_limit(w.device, 64 * MIB);
    weir_stream *captured = NULL;
    weir_stream *other = NULL;
    weir_block *block = NULL;
    aclmdlRI graph = NULL;
    ok(weir_acl_stream(pool, w.stream[0], &captured));
    ok(weir_acl_stream(pool, w.stream[1], &other));
    ok(weir_pool_alloc(pool, other, SIZE, 0, &block));
    void *address = (void *)(uintptr_t)weir_block_address(block);
    acl_ok(aclrtMemsetAsync(address, SIZE, 1, SIZE, w.stream[1]));
    ok(weir_pool_free(pool, block, other));
    begin(w.stream[0]);
    ok(weir_pool_alloc(pool, captured, SIZE, 0, &block));
    assert_int_equal(weir_block_address(block), (uintptr_t)address);
    acl_ok(aclrtMemsetAsync(address, SIZE, 2, SIZE, w.stream[0]));
    acl_ok(aclmdlRICaptureEnd(w.stream[0], &graph));
    execute_and_destroy(graph, w.stream[0]);
    ok(weir_pool_free(pool, block, captured));
    ok(weir_pool_destroy(pool));
    end_world(&w);
}

/* A pool is attached to a captured stream, and serves it. It is detached after the capture. */
TEST(a_captured_stream_is_detached_after_the_capture)
{
    struct world w = make_world();
    void *workspace = NULL;
    aclmdlRI graph = NULL;
    begin(w.stream[0]);
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    ok(weir_acl_workspace(w.pool, w.stream[0], MIB, &workspace));
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    assert_non_null(strstr(weir_last_error(), "is being captured"));
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    acl_ok(aclmdlRICaptureEnd(w.stream[0], &graph));
    execute_and_destroy(graph, w.stream[0]);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}
