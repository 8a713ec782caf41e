/* sleep_test.c: a pool over the ACL device sleeps and wakes (weir/sleep.h): the device gets its memory back, and the
 * contents return. The auditor judges the copies as work of two more streams.
 */
#include "acl_test.h"

#include <weir/budget.h>
#include <weir/sleep.h>

#include <string.h>

#define SIZE (80 * MIB)

static unsigned char host[SIZE];

/* Each place of a block has a byte of its own, so that no piece may come back elsewhere. */
static unsigned char byte_at(size_t at, int seed)
{
    return (unsigned char)(at + at / 509 + at / MIB * 31 + (size_t)seed);
}

/* Fills the block from the host. */
static void write_pattern(const weir_block *block, int seed)
{
    for (size_t i = 0; i < SIZE; i++) {
        host[i] = byte_at(i, seed);
    }
    acl_ok(aclrtMemcpy((void *)(uintptr_t)weir_block_address(block), SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
}

static bool has_pattern(const weir_block *block, int seed)
{
    memset(host, 0, sizeof(host));
    acl_ok(aclrtMemcpy(host, SIZE, (void *)(uintptr_t)weir_block_address(block), SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    size_t same = 0;
    while (same < SIZE && host[same] == byte_at(same, seed)) {
        same++;
    }
    return same == SIZE;
}

/* True if the block has the value in all its bytes. */
static bool has(const weir_block *block, int value)
{
    memset(host, ~value, sizeof(host));
    acl_ok(aclrtMemcpy(host, SIZE, (void *)(uintptr_t)weir_block_address(block), SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    return host[0] == value && memcmp(host, host + 1, SIZE - 1) == 0;
}

static weir_block *get_filled(struct world *w, weir_stream *stream, int value, weir_tag tag)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc_tagged(w->pool, stream, SIZE, 0, tag, &block));
    acl_ok(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(block), SIZE, value, SIZE, w->stream[0]));
    return block;
}

/* With `attached`, the device's pool is the allocator of every new stream, so of those that copy, too. */
static void sleep_and_wake(bool attached)
{
    struct world w = make_world();
    weir_stream *stream = NULL;
    weir_acl_attachment *attachment = NULL;
    weir_tag cache = 0;
    ok(weir_acl_stream(w.pool, w.stream[0], &stream));
    ok(weir_pool_tag(w.pool, "kv_cache", &cache));
    if (attached) {
        ok(weir_acl_attach_device(w.pool, &attachment));
    }
    const size_t before = free_bytes();
    weir_block *weights = get_filled(&w, stream, 11, 0);
    weir_block *other = get_filled(&w, stream, 22, cache);
    const weir_sleep_rule rule = {cache, WEIR_SLEEP_ZERO};
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    config.rules = &rule;
    config.rule_count = 1;
    ok(weir_pool_sleep(w.pool, &config, &report)); /* the fills are still queued */
    assert_int_equal(free_bytes(), before);
    assert_int_equal(report.kept_bytes, SIZE);
    ok(weir_pool_wake(w.pool, NULL, 0, &report));
    assert_int_equal(report.missing_bytes, 0);
    assert_true(has(weights, 11));
    assert_true(has(other, 0));
    ok(weir_pool_free(w.pool, weights, stream));
    ok(weir_pool_free(w.pool, other, stream));
    if (attached) {
        ok(weir_acl_detach(attachment));
    }
    ok(weir_stream_retire(w.pool, stream));
    end_world(&w);
}

TEST(test_sleep_and_wake)
{
    sleep_and_wake(false);
}

TEST(test_with_a_pool_for_all_streams)
{
    sleep_and_wake(true);
}

/* A wake that lacks device memory says how much, and what others hold. */
TEST(test_lack_of_memory)
{
    struct world w = make_world();
    weir_stream *stream = NULL;
    ok(weir_acl_stream(w.pool, w.stream[0], &stream));
    weir_block *block = get_filled(&w, stream, 33, 0);
    ok(weir_pool_sleep(w.pool, NULL, NULL));
    void *foreign = NULL;
    acl_ok(aclrtMalloc(&foreign, 200 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    fails(weir_pool_wake(w.pool, NULL, 0, &report), WEIR_ERR_NO_MEMORY);
    assert_int_equal(report.missing_bytes, SIZE - free_bytes());
    assert_true(report.others_bytes >= 200 * MIB);
    acl_ok(aclrtFree(foreign));
    ok(weir_pool_wake(w.pool, NULL, 0, NULL));
    assert_true(has(block, 33));
    ok(weir_pool_free(w.pool, block, stream));
    ok(weir_stream_retire(w.pool, stream));
    end_world(&w);
}

/* Blocks side by side go in one copy, which is cut in pieces; each byte comes back to its place. A refused wake counts
 * the memory of both stages. */
TEST(test_pieces_come_back_to_their_places)
{
    struct world w = make_world();
    weir_stream *stream = NULL;
    weir_tag cache = 0;
    ok(weir_acl_stream(w.pool, w.stream[0], &stream));
    ok(weir_pool_tag(w.pool, "kv_cache", &cache));
    weir_block *first = get_filled(&w, stream, 1, 0);
    weir_block *second = get_filled(&w, stream, 2, 0);
    weir_block *other = NULL;
    ok(weir_pool_alloc_tagged(w.pool, stream, 16 * MIB, 0, cache, &other));
    acl_ok(aclrtSynchronizeStream(w.stream[0]));
    write_pattern(first, 3);
    write_pattern(second, 5);
    const weir_sleep_rule rule = {cache, WEIR_SLEEP_DISCARD};
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    config.rules = &rule;
    config.rule_count = 1;
    ok(weir_pool_sleep(w.pool, &config, NULL));
    void *foreign = NULL;
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    acl_ok(aclrtMalloc(&foreign, 200 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    fails(weir_pool_wake(w.pool, NULL, 0, &report), WEIR_ERR_NO_MEMORY);
    assert_int_equal(report.missing_bytes, 2 * SIZE - free_bytes() + 16 * MIB);
    acl_ok(aclrtFree(foreign));
    ok(weir_pool_wake(w.pool, NULL, 0, NULL));
    assert_true(has_pattern(first, 3));
    assert_true(has_pattern(second, 5));
    ok(weir_pool_free(w.pool, first, stream));
    ok(weir_pool_free(w.pool, second, stream));
    ok(weir_pool_free(w.pool, other, stream));
    ok(weir_stream_retire(w.pool, stream));
    end_world(&w);
}

/* A graph that reads a block from before the capture, and holds a live block and freed memory of its own, replays right
 * after the wake, with the addresses of its capture. Its freed memory stays while the pool sleeps. */
TEST(test_a_graph_replays_after_the_wake)
{
    enum { LENGTH = 4 * MIB };
    struct world w = make_world();
    weir_stream *stream = NULL;
    weir_block *weights = NULL;
    weir_block *scratch = NULL;
    weir_block *output = NULL;
    aclmdlRI graph = NULL;
    ok(weir_acl_stream(w.pool, w.stream[0], &stream));
    ok(weir_pool_alloc(w.pool, stream, LENGTH, 0, &weights));
    acl_ok(aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(weights), LENGTH, 9, LENGTH, w.stream[0]));
    acl_ok(aclrtSynchronizeStream(w.stream[0]));
    acl_ok(aclmdlRICaptureBegin(w.stream[0], ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    ok(weir_pool_alloc(w.pool, stream, LENGTH, 0, &scratch));
    ok(weir_pool_alloc(w.pool, stream, LENGTH, 0, &output));
    void *middle = (void *)(uintptr_t)weir_block_address(scratch);
    void *result = (void *)(uintptr_t)weir_block_address(output);
    acl_ok(aclrtMemcpyAsync(middle, LENGTH, (void *)(uintptr_t)weir_block_address(weights), LENGTH,
                            ACL_MEMCPY_DEVICE_TO_DEVICE, w.stream[0]));
    acl_ok(aclrtMemcpyAsync(result, LENGTH, middle, LENGTH, ACL_MEMCPY_DEVICE_TO_DEVICE, w.stream[0]));
    ok(weir_pool_free(w.pool, scratch, stream)); /* free memory of the graph between its launches */
    acl_ok(aclmdlRICaptureEnd(w.stream[0], &graph));
    acl_ok(aclmdlRIExecuteAsync(graph, w.stream[0]));
    acl_ok(aclrtSynchronizeStream(w.stream[0]));
    for (int cycle = 0; cycle < 2; cycle++) {
        unsigned char value = 0;
        acl_ok(aclrtMemset(result, LENGTH, 0, LENGTH));
        ok(weir_pool_sleep(w.pool, NULL, NULL));
        assert_true(weir_block_is_asleep(weights));
        assert_true(weir_block_is_asleep(output));
        assert_true(pool_stats(w.pool).reserved_bytes >= LENGTH); /* the memory of `scratch` */
        ok(weir_pool_wake(w.pool, NULL, 0, NULL));
        acl_ok(aclmdlRIExecuteAsync(graph, w.stream[0]));
        acl_ok(aclrtSynchronizeStream(w.stream[0]));
        acl_ok(aclrtMemcpy(&value, 1, (char *)result + LENGTH - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_int_equal(value, 9);
    }
    acl_ok(aclmdlRIDestroy(graph));
    ok(weir_pool_free(w.pool, output, stream));
    ok(weir_pool_free(w.pool, weights, stream));
    ok(weir_stream_retire(w.pool, stream));
    end_world(&w);
}
