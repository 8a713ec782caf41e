/* hints_test.c: the stream order that a pool learns from the caller's own events: the pool never assumes more order
 * than there is. The auditor checks every fill. */
#include "acl_test.h"

#include <pthread.h>

#define SIZE (32 * MIB)

struct two {
    struct world w;
    weir_stream *stream[2];
    aclrtEvent event;
};

static struct two make_two(void)
{
    struct two t = {.w = make_world()};
    for (int i = 0; i < 2; i++) {
        ok(weir_acl_stream(t.w.pool, t.w.stream[i], &t.stream[i]));
    }
    acl_ok(aclrtCreateEventExWithFlag(&t.event, ACL_EVENT_SYNC));
    return t;
}

static void end_two(struct two *t)
{
    if (t->event != NULL) {
        ok(weir_acl_destroy_event(t->w.pool, t->event));
    }
    for (int i = 0; i < 2; i++) {
        ok(weir_stream_retire(t->w.pool, t->stream[i]));
    }
    end_world(&t->w);
}

/* Allocates a block on a stream, fills it there and frees it at once. */
static uint64_t pass(struct two *t, int on)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(t->w.pool, t->stream[on], SIZE, 0, &block));
    const uint64_t address = weir_block_address(block);
    acl_ok(aclrtMemsetAsync((void *)(uintptr_t)address, SIZE, on, SIZE, t->w.stream[on]));
    ok(weir_pool_free(t->w.pool, block, t->stream[on]));
    return address;
}

/* True if memory that stream 0 freed serves stream 1 without a wait or a new region. */
static bool serves_at_once(struct two *t, uint64_t address)
{
    const weir_pool_stats before = pool_stats(t->w.pool);
    const uint64_t got = pass(t, 1);
    const weir_pool_stats after = pool_stats(t->w.pool);
    return got == address && before.waits == after.waits && before.syncs == after.syncs &&
           before.region_allocs == after.region_allocs && before.events_recorded == after.events_recorded;
}

TEST(test_without_a_hint_memory_is_not_shared)
{
    struct two t = make_two();
    const uint64_t address = pass(&t, 0);
    acl_ok(aclrtRecordEvent(t.event, t.w.stream[0]));
    acl_ok(aclrtStreamWaitEvent(t.w.stream[1], t.event));
    assert_false(serves_at_once(&t, address));
    end_two(&t);
}

TEST(test_record_and_wait)
{
    struct two t = make_two();
    const uint64_t address = pass(&t, 0);
    ok(weir_acl_record_event(t.w.pool, t.event, t.w.stream[0]));
    ok(weir_acl_wait_event(t.w.pool, t.w.stream[1], t.event));
    assert_true(serves_at_once(&t, address));
    end_two(&t);
}

TEST(test_a_wait_covers_what_was_freed_before_the_record)
{
    struct two t = make_two();
    ok(weir_acl_record_event(t.w.pool, t.event, t.w.stream[0]));
    const uint64_t address = pass(&t, 0);
    ok(weir_acl_wait_event(t.w.pool, t.w.stream[1], t.event));
    assert_false(serves_at_once(&t, address));
    end_two(&t);
}

TEST(test_sync_event_and_query)
{
    struct two t = make_two();
    uint64_t address = pass(&t, 0);
    ok(weir_acl_record_event(t.w.pool, t.event, t.w.stream[0]));
    bool complete = true;
    ok(weir_acl_query_event(t.w.pool, t.event, &complete));
    assert_false(complete);
    ok(weir_acl_sync_event(t.w.pool, t.event));
    assert_true(serves_at_once(&t, address));
    ok(weir_acl_sync_stream(t.w.pool, t.w.stream[1]));
    address = pass(&t, 0);
    ok(weir_acl_record_event(t.w.pool, t.event, t.w.stream[0]));
    acl_ok(aclrtSynchronizeStream(t.w.stream[0]));
    ok(weir_acl_query_event(t.w.pool, t.event, &complete));
    assert_true(complete);
    assert_true(serves_at_once(&t, address));
    end_two(&t);
}

TEST(test_sync_stream)
{
    struct two t = make_two();
    const uint64_t address = pass(&t, 0);
    ok(weir_acl_sync_stream(t.w.pool, t.w.stream[0]));
    assert_true(serves_at_once(&t, address));
    end_two(&t);
}

TEST(test_a_destroyed_event_is_forgotten)
{
    struct two t = make_two();
    const uint64_t address = pass(&t, 0);
    ok(weir_acl_record_event(t.w.pool, t.event, t.w.stream[0]));
    const aclrtEvent gone = t.event;
    ok(weir_acl_destroy_event(t.w.pool, t.event));
    t.event = NULL;
    ok(weir_stream_waited(t.w.pool, t.stream[1], gone)); /* as if the runtime had reused its handle */
    assert_false(serves_at_once(&t, address));
    end_two(&t);
}

/* If ACL refuses to record an event, the event keeps its earlier record. A later wait for the event orders no more work
 * than the earlier record covers. */
TEST(test_a_failed_record_orders_nothing)
{
    struct two t = make_two();
    const uint64_t address = pass(&t, 0);
    int no_event = 0;
    assert_int_not_equal(weir_acl_record_event(t.w.pool, &no_event, t.w.stream[0]), WEIR_OK);
    ok(weir_stream_waited(t.w.pool, t.stream[1], &no_event));
    assert_false(serves_at_once(&t, address));
    end_two(&t);
}

TEST(test_bad_arguments)
{
    struct two t = make_two();
    bool complete = false;
    weir_stream *stream = NULL;
    fails(weir_acl_record_event(NULL, t.event, t.w.stream[0]), WEIR_ERR_INVALID);
    fails(weir_acl_record_event(t.w.pool, NULL, t.w.stream[0]), WEIR_ERR_INVALID);
    fails(weir_acl_wait_event(NULL, t.w.stream[0], t.event), WEIR_ERR_INVALID);
    fails(weir_acl_wait_event(t.w.pool, t.w.stream[0], NULL), WEIR_ERR_INVALID);
    fails(weir_acl_query_event(t.w.pool, NULL, &complete), WEIR_ERR_INVALID);
    fails(weir_acl_query_event(t.w.pool, t.event, NULL), WEIR_ERR_INVALID);
    fails(weir_acl_query_event(NULL, t.event, &complete), WEIR_ERR_INVALID);
    fails(weir_acl_sync_event(t.w.pool, NULL), WEIR_ERR_INVALID);
    fails(weir_acl_sync_event(NULL, t.event), WEIR_ERR_INVALID);
    fails(weir_acl_sync_stream(NULL, t.w.stream[0]), WEIR_ERR_INVALID);
    fails(weir_acl_destroy_event(t.w.pool, NULL), WEIR_ERR_INVALID);
    fails(weir_acl_destroy_event(NULL, t.event), WEIR_ERR_INVALID);
    fails(weir_acl_stream(NULL, t.w.stream[0], &stream), WEIR_ERR_INVALID);
    fails(weir_acl_stream(t.w.pool, t.w.stream[0], NULL), WEIR_ERR_INVALID);
    end_two(&t);
}

/* --- the default stream --- */

struct default_job {
    struct world *w;
    pthread_barrier_t *turn;
    bool first;
    weir_stream *stream;
    weir_status status;
};

/* Each thread has a context of its own, and so a default stream of its own. One thread frees after a long fill, the
 * other thread allocates. */
static weir_status use_default(struct default_job *job)
{
    weir_block *block = NULL;
    weir_status status = weir_acl_stream(job->w->pool, NULL, &job->stream);
    if (!job->first) {
        (void)pthread_barrier_wait(job->turn);
    }
    if (status == WEIR_OK) {
        status = weir_pool_alloc(job->w->pool, job->stream, SIZE, 0, &block);
    }
    if (status == WEIR_OK &&
        aclrtMemsetAsync((void *)(uintptr_t)weir_block_address(block), SIZE, 1, SIZE, NULL) != ACL_SUCCESS) {
        status = WEIR_ERR_DEVICE;
    }
    if (status == WEIR_OK) {
        status = weir_pool_free(job->w->pool, block, job->stream);
    }
    if (job->first) {
        (void)pthread_barrier_wait(job->turn);
    }
    (void)pthread_barrier_wait(job->turn);
    if (status == WEIR_OK) {
        status = weir_stream_retire(job->w->pool, job->stream);
    }
    return status;
}

static void *in_own_context(void *argument)
{
    struct default_job *job = argument;
    aclrtContext context = NULL;
    job->status = WEIR_ERR_DEVICE;
    if (aclrtCreateContext(&context, 0) == ACL_SUCCESS) {
        job->status = use_default(job);
        (void)aclrtDestroyContext(context);
    }
    return NULL;
}

TEST(test_default_streams_are_each_contexts_own)
{
    struct world w = make_world();
    pthread_barrier_t turn;
    assert_int_equal(pthread_barrier_init(&turn, NULL, 2), 0);
    struct default_job jobs[2] = {{.w = &w, .turn = &turn, .first = true}, {.w = &w, .turn = &turn}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, in_own_context, &jobs[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(jobs[0].status, WEIR_OK);
    assert_int_equal(jobs[1].status, WEIR_OK);
    assert_ptr_not_equal(jobs[0].stream, jobs[1].stream);
    assert_int_equal(pthread_barrier_destroy(&turn), 0);
    end_world(&w);
}

static void *ask_without_context(void *argument)
{
    struct world *w = argument;
    weir_stream *stream = NULL;
    return weir_acl_stream(w->pool, NULL, &stream) == WEIR_ERR_DEVICE ? w : NULL;
}

TEST(test_no_context_has_no_default_stream)
{
    struct world w = make_world();
    pthread_t thread;
    void *as_expected = NULL;
    assert_int_equal(pthread_create(&thread, NULL, ask_without_context, &w), 0);
    assert_int_equal(pthread_join(thread, &as_expected), 0);
    assert_non_null(as_expected);
    end_world(&w);
}
