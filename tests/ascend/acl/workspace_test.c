/* workspace_test.c: the workspace of a stream: reuse, growth, order between streams, its end with the stream, the
 * attachment or the pool, failures and threads. The runtime's auditor judges the order. */
#include "acl_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Launches an operator that writes all of its workspace, as one of aclnn does. */
static void *launch(weir_pool *pool, aclrtStream stream, uint64_t size)
{
    void *workspace = NULL;
    ok(weir_acl_workspace(pool, stream, size, &workspace));
    assert_non_null(workspace);
    assert_int_equal((uintptr_t)workspace % 512, 0);
    acl_ok(aclrtMemsetAsync(workspace, size, 1, size, stream));
    return workspace;
}

TEST(test_one_workspace_serves_the_operators_of_a_stream)
{
    struct world w = make_world();
    void *const first = launch(w.pool, w.stream[0], 3 * MIB);
    for (int i = 0; i < 100; i++) {
        assert_ptr_equal(launch(w.pool, w.stream[0], (uint64_t)(1 + i) * 31457), first);
    }
    assert_int_equal(pool_stats(w.pool).allocs, 1);
    /* a second workspace, because stream 0 may still use the first */
    void *const other = launch(w.pool, w.stream[1], 3 * MIB);
    assert_ptr_not_equal(other, first);
    assert_int_equal(pool_stats(w.pool).allocs, 2);
    void *none = &w;
    ok(weir_acl_workspace(w.pool, w.stream[0], 0, &none));
    assert_null(none);
    ok(weir_acl_workspace_release(w.pool));
    assert_int_equal(pool_stats(w.pool).requested_bytes, 0);
    end_world(&w);
}

/* A larger workspace replaces a smaller one, which a queued operator still uses. */
TEST(test_a_larger_workspace_takes_the_place)
{
    struct world w = make_world();
    uint64_t allocs = 0;
    for (uint64_t size = 1000; size < 40 * MIB; size = size * 3 / 2) {
        (void)launch(w.pool, w.stream[0], size);
        (void)launch(w.pool, w.stream[1], size / 2 + 1);
        allocs += 2;
    }
    const weir_pool_stats stats = pool_stats(w.pool);
    assert_true(stats.allocs <= allocs);
    assert_int_equal(stats.allocs - stats.frees, 2);
    assert_int_equal(stats.syncs, 0);
    ok(weir_acl_workspace_release(w.pool));
    end_world(&w);
}

TEST(test_the_workspace_ends_with_the_stream)
{
    struct world w = make_world();
    for (int i = 0; i < 100; i++) {
        aclrtStream stream = new_stream();
        (void)launch(w.pool, stream, 5 * MIB);
        acl_ok(aclrtDestroyStream(stream));
        assert_int_equal(pool_stats(w.pool).requested_bytes, 0);
    }
    const weir_pool_stats stats = pool_stats(w.pool);
    assert_true(stats.streams <= 2);
    assert_int_equal(stats.vm_creates, 3); /* the granules of 5 MiB */
    end_world(&w);                         /* nothing holds the pool any more */
}

TEST(test_the_pool_is_held_until_the_release)
{
    struct world w = make_world();
    (void)launch(w.pool, w.stream[0], 1000);
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    ok(weir_acl_workspace_release(w.pool));
    ok(weir_acl_workspace_release(w.pool)); /* the workspace is already released */
    end_world(&w);
}

TEST(test_with_an_attachment)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    (void)launch(w.pool, w.stream[0], 7 * MIB);
    weir_acl_attachment_info info = attachment_info(attachment);
    assert_int_equal(info.live_blocks, 0); /* ACL holds none */
    assert_true(info.workspace_bytes >= 7 * MIB);
    ok(weir_acl_workspace_release(w.pool));
    assert_int_equal(attachment_info(attachment).workspace_bytes, 0);
    (void)launch(w.pool, w.stream[0], MIB);
    ok(weir_acl_detach(attachment)); /* with its workspace */
    assert_int_equal(pool_stats(w.pool).requested_bytes, 0);

    /* The attachment may come after the workspace: it replaces the attachment that the workspace had made. */
    (void)launch(w.pool, w.stream[0], MIB);
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
    assert_int_equal(pool_stats(w.pool).requested_bytes, 0);
    (void)launch(w.pool, w.stream[0], MIB);
    acl_ok(aclrtDestroyStream(w.stream[0]));
    w.stream[0] = NULL;
    assert_int_equal(pool_stats(w.pool).requested_bytes, 0);
    ok(weir_acl_detach(attachment));

    (void)launch(w.pool, w.stream[1], MIB);
    ok(weir_acl_follow(w.pool, w.stream[1], &attachment));
    (void)launch(w.pool, w.stream[1], MIB);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

TEST(test_with_an_attachment_of_the_device)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    aclrtStream stream = NULL;
    (void)launch(w.pool, NULL, MIB); /* the default stream, before the pool is attached to it */
    (void)launch(w.pool, w.stream[0], MIB);
    ok(weir_acl_attach_device(w.pool, &attachment));
    acl_ok(aclrtCreateStream(&stream));
    (void)launch(w.pool, stream, MIB);
    (void)launch(w.pool, NULL, MIB);
    /* workspace_bytes adds up the workspaces of the streams that the attachment has attached, and of no other stream */
    assert_true(attachment_info(attachment).workspace_bytes >= 2 * MIB);
    char text[1024];
    (void)weir_acl_attachment_explain(attachment, text, sizeof(text));
    assert_non_null(strstr(text, "Workspaces hold"));
    acl_ok(aclrtDestroyStream(stream));
    ok(weir_acl_workspace_release(w.pool));
    assert_int_equal(attachment_info(attachment).workspace_bytes, 0);
    assert_int_equal(pool_stats(w.pool).requested_bytes, 0);
    assert_int_equal(attachment_info(attachment).streams, 1);
    (void)launch(w.pool, NULL, MIB);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

/* Two pools on one stream have a workspace each. */
TEST(test_two_pools)
{
    struct world w = make_world();
    weir_pool *other = make_pool(w.device);
    assert_ptr_not_equal(launch(w.pool, w.stream[0], 4096), launch(other, w.stream[0], 4096));
    ok(weir_acl_workspace_release(other));
    assert_true(pool_stats(w.pool).requested_bytes > 0);
    ok(weir_pool_destroy(other));
    ok(weir_acl_workspace_release(w.pool));
    end_world(&w);
}

/* A request that fails leaves the stream without a workspace; the next one makes another. */
TEST(test_out_of_memory)
{
    struct world w = make_world();
    void *workspace = &w;
    (void)launch(w.pool, w.stream[0], MIB);
    fails(weir_acl_workspace(w.pool, w.stream[0], UINT64_C(1) << 40, &workspace), WEIR_ERR_NO_MEMORY);
    assert_ptr_equal(workspace, &w);
    assert_int_equal(pool_stats(w.pool).requested_bytes, 0);
    (void)launch(w.pool, w.stream[0], 2 * MIB);
    ok(weir_acl_workspace_release(w.pool));
    end_world(&w);
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 40 };

struct shared {
    weir_pool *pool;
    atomic_int failures;
};

/* Each thread feeds streams of its own, which it creates and destroys. */
static void *feed(void *argument)
{
    struct shared *shared = argument;
    int failed = aclrtSetDevice(0) != ACL_SUCCESS;
    for (int round = 0; round < ROUNDS; round++) {
        aclrtStream stream = NULL;
        failed += aclrtCreateStream(&stream) != ACL_SUCCESS;
        for (int i = 0; i < 10; i++) {
            const uint64_t size = (uint64_t)(1 + (round * 7 + i * 3) % 11) * 100000;
            void *workspace = NULL;
            if (weir_acl_workspace(shared->pool, stream, size, &workspace) == WEIR_OK) {
                failed += aclrtMemsetAsync(workspace, size, i, size, stream) != ACL_SUCCESS;
            } else {
                failed++;
            }
        }
        failed += aclrtDestroyStream(stream) != ACL_SUCCESS;
    }
    failed += aclrtResetDevice(0) != ACL_SUCCESS;
    (void)atomic_fetch_add(&shared->failures, failed);
    return NULL;
}

TEST(test_threads)
{
    struct world w = make_world();
    struct shared shared = {.pool = w.pool};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, feed, &shared), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(shared.failures, 0);
    assert_int_equal(pool_stats(w.pool).requested_bytes, 0);
    end_world(&w);
}
