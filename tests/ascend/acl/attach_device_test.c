/* attach_device_test.c: a pool attached to a whole device: streams that are created and destroyed in any order,
 * contexts, detach while ACL holds blocks, failures; and the callback when ACL holds no block any more. */
#include "acl_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* --- calls of weir that fail --- */

static _Thread_local int failing_registers; /* calls that fail from now on */
static _Thread_local int failing_unregisters;

/* The following functions take the place of the runtime's functions of the same name and call those, in builds with
 * shared libraries too. */
__attribute__((visibility("default"))) aclError aclrtAllocatorRegister(aclrtStream stream, aclrtAllocatorDesc desc)
{
    if (failing_registers > 0) {
        failing_registers--;
        return ACL_ERROR_RT_INTERNAL_ERROR;
    }
    aclError (*call)(aclrtStream, aclrtAllocatorDesc) = NULL;
    *(void **)&call = dlsym(RTLD_NEXT, "aclrtAllocatorRegister");
    return call(stream, desc);
}

__attribute__((visibility("default"))) aclError aclrtAllocatorUnregister(aclrtStream stream)
{
    if (failing_unregisters > 0) {
        failing_unregisters--;
        return ACL_ERROR_RT_INTERNAL_ERROR;
    }
    aclError (*call)(aclrtStream) = NULL;
    *(void **)&call = dlsym(RTLD_NEXT, "aclrtAllocatorUnregister");
    return call(stream);
}

/* --- helpers --- */

static aclrtStream default_stream(void)
{
    aclrtStream stream = NULL;
    acl_ok(aclrtCtxGetCurrentDefaultStream(&stream));
    return stream;
}

static bool is_registered(aclrtStream stream)
{
    struct registration r;
    return read_registration(stream, &r);
}

/* Allocates, queues work and frees, as the vendor's executor does. */
static void execute(aclrtStream stream, size_t size)
{
    const struct registration r = registration_of(stream);
    void *block = r.alloc(r.object, size);
    assert_non_null(block);
    acl_ok(aclrtMemsetAsync(r.address(block), size, 1, size, stream));
    r.free(r.object, block);
}

static void expect_explained(weir_acl_attachment *attachment, const char *part)
{
    char text[2048];
    const size_t length = weir_acl_attachment_explain(attachment, text, sizeof(text));
    assert_int_equal(length, strlen(text));
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

TEST(test_streams_come_and_go)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    ok(weir_acl_attach_device(w.pool, &attachment));
    assert_true(is_registered(default_stream()));
    assert_false(is_registered(w.stream[0])); /* it was created before */
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    execute(default_stream(), MIB);
    for (int i = 0; i < 100; i++) {
        aclrtStream stream = new_stream();
        execute(stream, (size_t)(1 + i % 7) * 300000);
        assert_int_equal(attachment_info(attachment).streams, 2);
        acl_ok(i % 2 == 0 ? aclrtDestroyStream(stream) : aclrtDestroyStreamForce(stream));
        assert_false(is_registered(stream));
    }
    const weir_acl_attachment_info info = attachment_info(attachment);
    assert_ptr_equal(info.pool, w.pool);
    assert_null(info.acl_stream);
    assert_int_equal(info.requests, 101);
    assert_int_equal(info.streams, 1);
    assert_int_equal(info.missed_streams, 0);
    assert_int_equal(info.live_blocks, 0);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_true(stats.streams <= 2); /* the pool was told of each end */
    ok(weir_acl_detach(attachment));
    assert_false(is_registered(default_stream()));
    aclrtStream late = new_stream();
    assert_false(is_registered(late));
    acl_ok(aclrtDestroyStream(late));
    end_world(&w);
}

TEST(test_a_device_is_attached_once)
{
    struct world w = make_world();
    weir_pool *other = make_pool(w.device);
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment *second = NULL;
    ok(weir_acl_attach_device(w.pool, &attachment));
    fails(weir_acl_attach_device(w.pool, &second), WEIR_ERR_BUSY);
    fails(weir_acl_attach_device(other, &second), WEIR_ERR_BUSY);
    fails(weir_acl_attach(other, default_stream(), &second), WEIR_ERR_BUSY);
    ok(weir_acl_attach(w.pool, w.stream[0], &second)); /* a stream that existed before is attached separately */
    execute(w.stream[0], 5000);
    ok(weir_acl_detach(second));
    ok(weir_acl_detach(attachment));
    fails(weir_acl_detach(attachment), WEIR_ERR_INVALID);

    /* while the stream is attached to another pool, the device cannot be attached */
    ok(weir_acl_attach(other, default_stream(), &second));
    fails(weir_acl_attach_device(w.pool, &attachment), WEIR_ERR_BUSY);
    ok(weir_acl_detach(second));
    ok(weir_acl_attach_device(other, &second));
    ok(weir_acl_detach(second));
    ok(weir_pool_destroy(other));
    end_world(&w);
}

/* Each device has a pool of its own. */
TEST(test_two_devices)
{
    struct world w = make_world();
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    config.device_id = 1;
    weir_device *device = NULL;
    ok(weir_acl_device_create(&config, &device));
    weir_pool *pool = make_pool(device);
    weir_acl_attachment *attachment[2] = {NULL, NULL};
    ok(weir_acl_attach_device(w.pool, &attachment[0]));
    aclrtStream of_first = NULL;
    aclrtStream of_second[2] = {NULL, NULL};
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateStream(&of_second[0])); /* its device has no attachment yet */
    assert_false(is_registered(of_second[0]));
    ok(weir_acl_attach_device(pool, &attachment[1]));
    acl_ok(aclrtCreateStream(&of_second[1]));
    struct registration r = registration_of(of_second[1]);
    void *block = r.alloc(r.object, 1000);
    assert_ptr_equal(weir_block_pool(block), pool);
    r.free(r.object, block);
    acl_ok(aclrtDestroyStream(of_second[0]));
    acl_ok(aclrtDestroyStream(of_second[1]));
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&of_first));
    r = registration_of(of_first);
    block = r.alloc(r.object, 1000);
    assert_ptr_equal(weir_block_pool(block), w.pool);
    r.free(r.object, block);
    acl_ok(aclrtDestroyStream(of_first));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(attachment_info(attachment[i]).missed_streams, 0);
        ok(weir_acl_detach(attachment[i]));
    }
    ok(weir_pool_destroy(pool));
    ok(weir_device_destroy(device));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0));
    end_world(&w);
}

/* A stream in a context of the program's own. The runtime announces the default stream of that context before the
 * stream has a context. So weir misses the stream, and the test attaches it by hand. */
TEST(test_contexts)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment *by_hand = NULL;
    aclrtContext home = NULL;
    aclrtContext own = NULL;
    acl_ok(aclrtGetCurrentContext(&home));
    ok(weir_acl_attach_device(w.pool, &attachment));
    acl_ok(aclrtCreateContext(&own, 0));
    assert_false(is_registered(default_stream()));
    assert_int_equal(attachment_info(attachment).missed_streams, 1);
    expect_explained(attachment, "could not be attached and use ACL's own memory: 1; the last one because: ");
    expect_explained(attachment, "neither of this thread's current context");
    ok(weir_acl_attach(w.pool, default_stream(), &by_hand));
    aclrtStream stream = new_stream();
    execute(stream, 70000);
    execute(default_stream(), 70000);
    ok(weir_acl_detach(by_hand));
    acl_ok(aclrtSetCurrentContext(home));
    acl_ok(aclrtDestroyContext(own)); /* with its attached stream */
    assert_int_equal(attachment_info(attachment).streams, 1);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

TEST(test_detach_while_live_is_busy)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    ok(weir_acl_attach_device(w.pool, &attachment));
    aclrtStream stream[2] = {NULL, NULL};
    acl_ok(aclrtCreateStream(&stream[0]));
    acl_ok(aclrtCreateStream(&stream[1]));
    struct registration r = registration_of(stream[1]);
    void *block = r.alloc(r.object, 1000);
    assert_int_equal(attachment_info(attachment).live_blocks, 1);
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    assert_true(is_registered(stream[0])); /* nothing has changed */
    execute(stream[0], 1000);
    execute(default_stream(), 1000);
    aclrtStream more = new_stream();
    execute(more, 1000);

    /* The stream that was attached first has a block. The detach finds this block before it has detached any other
     * stream. */
    const struct registration of_default = registration_of(default_stream());
    void *first = of_default.alloc(of_default.object, 1000);
    r.free(r.object, block);
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    assert_int_equal(attachment_info(attachment).streams, 4);
    assert_true(is_registered(more));
    block = r.alloc(r.object, 1000);
    of_default.free(of_default.object, first);

    /* The stream goes, and its block stays. */
    acl_ok(aclrtDestroyStream(stream[1]));
    assert_int_equal(attachment_info(attachment).live_blocks, 1);
    assert_int_equal(attachment_info(attachment).streams, 3);
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    r.free(r.object, block);
    assert_int_equal(attachment_info(attachment).live_blocks, 0);
    ok(weir_acl_detach(attachment));
    assert_false(is_registered(stream[0]));
    assert_false(is_registered(more));
    acl_ok(aclrtDestroyStream(stream[0]));
    acl_ok(aclrtDestroyStream(more));
    end_world(&w);
}

/* The record of a destroyed stream is reused once ACL holds none of the stream's blocks. */
TEST(test_records_of_gone_streams_end)
{
    enum { MANY = 300 };
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    aclrtAllocator seen[MANY];
    int different = 0;
    ok(weir_acl_attach_device(w.pool, &attachment));
    for (int i = 0; i < MANY; i++) {
        aclrtStream stream = new_stream();
        const struct registration r = registration_of(stream);
        void *block = r.alloc(r.object, 1000);
        acl_ok(aclrtDestroyStream(stream));
        r.free(r.object, block);
        int at = 0;
        while (at < different && seen[at] != r.object) {
            at++;
        }
        seen[at] = r.object;
        different += at == different;
    }
    assert_true(different < MANY / 3);
    const weir_acl_attachment_info info = attachment_info(attachment);
    assert_int_equal(info.requests, MANY);
    assert_int_equal(info.refused_frees, 0);
    assert_int_equal(info.live_blocks, 0);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

/* After a reset of the device the pool cannot serve the streams of its next life. */
TEST(test_reset_by_force)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    ok(weir_acl_attach_device(w.pool, &attachment));
    execute(default_stream(), 5 * MIB);
    acl_ok(aclrtResetDeviceForce(0));
    assert_true(weir_acl_device_lost(w.device));
    acl_ok(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    assert_false(is_registered(stream));
    assert_int_equal(attachment_info(attachment).streams, 0);
    assert_true(attachment_info(attachment).missed_streams >= 1);
    expect_explained(attachment, "was reset");
    ok(weir_acl_detach(attachment));
    ok(weir_pool_destroy(w.pool));
    ok(weir_device_destroy(w.device));
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(0));
}

/* --- failures --- */

/* If the attachment of a new stream fails, the stream is created all the same and works without the pool. */
TEST(test_a_missed_stream_works)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    ok(weir_acl_attach_device(w.pool, &attachment));
    failing_registers = 1;
    aclrtStream missed = new_stream();
    assert_false(is_registered(missed));
    assert_int_equal(attachment_info(attachment).missed_streams, 1);
    expect_explained(attachment, "aclrtAllocatorRegister");
    aclrtStream stream = new_stream();
    assert_true(is_registered(stream));
    /* the runtime gives the handle of `missed` to no later stream, so the calls of a pool that still used the handle
     * would fail */
    acl_ok(aclrtDestroyStream(missed));
    acl_ok(aclrtDestroyStream(stream));

    failing_unregisters = 1;
    fails(weir_acl_detach(attachment), WEIR_ERR_DEVICE);
    assert_true(is_registered(default_stream()));
    acl_ok(aclrtCreateStream(&stream));
    execute(stream, 10000);
    ok(weir_acl_detach(attachment));
    acl_ok(aclrtDestroyStream(stream));
    end_world(&w);
}

/* --- what nothing uses --- */

TEST(test_explain_names_the_causes)
{
    struct world w = make_world();
    weir_acl_attachment *attachment = NULL;
    weir_acl_attachment *follows = NULL;
    char text[16];
    memset(text, 'x', sizeof(text));
    assert_int_equal(weir_acl_attachment_explain(NULL, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    ok(weir_acl_attach_device(w.pool, &attachment));
    ok(weir_acl_follow(w.pool, w.stream[0], &follows));
    expect_explained(attachment, "attached to ACL device 0; streams attached now: 1");
    expect_explained(attachment, "the first operator ran before the pool was attached");
    expect_explained(attachment, "NULL");
    expect_explained(attachment, "weir_acl_workspace");
    expect_explained(follows, "follows stream");
    const size_t length = weir_acl_attachment_explain(attachment, NULL, 0);
    assert_int_equal(weir_acl_attachment_explain(attachment, text, sizeof(text)), length);
    assert_int_equal(strlen(text), sizeof(text) - 1);
    execute(default_stream(), 1000);
    expect_explained(attachment, "Blocks that ACL asked the pool for: 1; got none: 0; holds now: 0");
    ok(weir_acl_detach(follows));
    assert_int_equal(weir_acl_attachment_explain(follows, NULL, 0), 0);
    ok(weir_acl_detach(attachment));
    end_world(&w);
}

/* --- the callback --- */

struct told {
    atomic_int calls;
    weir_acl_attachment *attachment;
    weir_status detach_status;
};

static void on_idle(void *ctx, weir_acl_attachment *attachment)
{
    struct told *told = ctx;
    told->attachment = attachment;
    told->detach_status = weir_acl_detach(attachment);
    (void)atomic_fetch_add(&told->calls, 1);
}

TEST(test_the_callback_comes_with_the_last_block)
{
    struct world w = make_world();
    struct told told = {0};
    weir_acl_attachment *attachment = attach(w.pool, w.stream[0]);
    const struct registration r = registration_of(w.stream[0]);
    void *block[2] = {r.alloc(r.object, 1000), r.alloc(r.object, 1000)};
    fails(weir_acl_detach(attachment), WEIR_ERR_BUSY);
    ok(weir_acl_notify_idle(attachment, on_idle, &told));
    r.free(r.object, block[0]);
    assert_null(r.alloc(r.object, (size_t)1 << 40)); /* a failure is no block */
    assert_int_equal(told.calls, 0);
    r.free(r.object, block[1]);
    assert_int_equal(told.calls, 1);
    assert_ptr_equal(told.attachment, attachment);
    assert_int_equal(told.detach_status, WEIR_ERR_BUSY); /* the callback's own detach was refused */
    r.free(r.object, r.alloc(r.object, 1000));
    assert_int_equal(told.calls, 1); /* the callback is called once for each request */

    ok(weir_acl_notify_idle(attachment, on_idle, &told)); /* ACL holds no block, so the callback is called at once */
    assert_int_equal(told.calls, 2);
    block[0] = r.alloc(r.object, 1000);
    ok(weir_acl_notify_idle(attachment, on_idle, &told));
    ok(weir_acl_notify_idle(attachment, NULL, NULL));
    r.free(r.object, block[0]);
    assert_int_equal(told.calls, 2);
    ok(weir_acl_detach(attachment));
    fails(weir_acl_notify_idle(attachment, on_idle, &told), WEIR_ERR_INVALID);
    fails(weir_acl_notify_idle(NULL, on_idle, &told), WEIR_ERR_INVALID);
    end_world(&w);
}

TEST(test_the_callback_of_a_device_waits_for_all_streams)
{
    struct world w = make_world();
    struct told told = {0};
    weir_acl_attachment *attachment = NULL;
    aclrtStream stream[2] = {NULL, NULL};
    struct registration r[2];
    void *block[2];
    ok(weir_acl_attach_device(w.pool, &attachment));
    for (int i = 0; i < 2; i++) {
        acl_ok(aclrtCreateStream(&stream[i]));
        r[i] = registration_of(stream[i]);
        block[i] = r[i].alloc(r[i].object, 1000);
    }
    ok(weir_acl_notify_idle(attachment, on_idle, &told));
    r[0].free(r[0].object, block[0]);
    assert_int_equal(told.calls, 0);
    acl_ok(aclrtDestroyStream(stream[1])); /* its block is still held */
    assert_int_equal(told.calls, 0);
    r[1].free(r[1].object, block[1]);
    assert_int_equal(told.calls, 1);
    ok(weir_acl_detach(attachment));
    acl_ok(aclrtDestroyStream(stream[0]));
    end_world(&w);
}

/* --- threads --- */

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool idle;
};

static void wake(void *ctx, weir_acl_attachment *attachment)
{
    struct waiter *waiter = ctx;
    (void)attachment;
    (void)pthread_mutex_lock(&waiter->mutex);
    waiter->idle = true;
    (void)pthread_cond_signal(&waiter->changed);
    (void)pthread_mutex_unlock(&waiter->mutex);
}

struct feeder {
    struct registration r;
    void *held;
};

static void *give_back(void *argument)
{
    const struct feeder *feeder = argument;
    feeder->r.free(feeder->r.object, feeder->held);
    return NULL;
}

/* A thread frees the last block while this thread requests the callback. The free or the request may come first;
 * in both cases the callback wakes this thread. This thread overwrites the waiter right after the detach, so the test
 * would notice a later callback. */
TEST(test_a_thread_waits_for_the_last_block)
{
    struct world w = make_world();
    for (int round = 0; round < 200; round++) {
        struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
        weir_acl_attachment *attachment = NULL;
        pthread_t thread;
        ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
        struct feeder feeder = {.r = registration_of(w.stream[0])};
        feeder.held = feeder.r.alloc(feeder.r.object, 4096);
        assert_int_equal(pthread_create(&thread, NULL, give_back, &feeder), 0);
        ok(weir_acl_notify_idle(attachment, wake, &waiter));
        (void)pthread_mutex_lock(&waiter.mutex);
        while (!waiter.idle) {
            (void)pthread_cond_wait(&waiter.changed, &waiter.mutex);
        }
        (void)pthread_mutex_unlock(&waiter.mutex);
        ok(weir_acl_detach(attachment));
        (void)pthread_cond_destroy(&waiter.changed);
        (void)pthread_mutex_destroy(&waiter.mutex);
        memset(&waiter, 0xff, sizeof(waiter));
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    end_world(&w);
}

struct slow {
    atomic_bool entered;
    atomic_bool ended;
};

static void call_slowly(void *ctx, weir_acl_attachment *attachment)
{
    struct slow *slow = ctx;
    (void)attachment;
    atomic_store(&slow->entered, true);
    (void)usleep(20000); /* the detach begins during this time */
    atomic_store(&slow->ended, true);
}

TEST(test_a_detach_waits_for_the_callback)
{
    struct world w = make_world();
    struct slow slow = {false, false};
    weir_acl_attachment *attachment = NULL;
    pthread_t thread;
    ok(weir_acl_attach(w.pool, w.stream[0], &attachment));
    struct feeder feeder = {.r = registration_of(w.stream[0])};
    feeder.held = feeder.r.alloc(feeder.r.object, 4096);
    ok(weir_acl_notify_idle(attachment, call_slowly, &slow));
    assert_int_equal(pthread_create(&thread, NULL, give_back, &feeder), 0);
    while (!atomic_load(&slow.entered)) {
    }
    ok(weir_acl_detach(attachment));
    assert_true(atomic_load(&slow.ended));
    assert_int_equal(pthread_join(thread, NULL), 0);
    end_world(&w);
}

enum { THREADS = 4, ROUNDS = 60, FAILED_DETACHES = 3000 };

static void *use_streams(void *argument)
{
    atomic_int *failures = argument;
    int failed = aclrtSetDevice(0) != ACL_SUCCESS;
    for (int round = 0; round < ROUNDS; round++) {
        aclrtStream stream = NULL;
        struct registration r;
        failed += aclrtCreateStream(&stream) != ACL_SUCCESS;
        /* ACL has no allocator registered for the stream while another thread attaches or detaches the device */
        if (read_registration(stream, &r)) {
            void *block = r.alloc(r.object, (size_t)4096 << round % 8);
            if (block != NULL) {
                failed += aclrtMemsetAsync(r.address(block), 4096, 1, 4096, stream) != ACL_SUCCESS;
                r.free(r.object, block);
            }
        }
        failed += aclrtDestroyStream(stream) != ACL_SUCCESS;
    }
    failed += aclrtResetDevice(0) != ACL_SUCCESS;
    (void)atomic_fetch_add(failures, failed);
    return NULL;
}

/* Streams come and go in all threads while the device is attached and detached again and again. */
TEST(test_threads)
{
    struct world w = make_world();
    atomic_int failures = 0;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_streams, &failures), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        weir_acl_attachment *attachment = NULL;
        ok(weir_acl_attach_device(w.pool, &attachment));
        (void)weir_acl_attachment_explain(attachment, NULL, 0);
        weir_status status = WEIR_ERR_BUSY;
        while (status == WEIR_ERR_BUSY) {
            status = weir_acl_detach(attachment);
        }
        ok(status);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(failures, 0);
    end_world(&w);
}

static void *make_streams_until(void *argument)
{
    atomic_bool *over = argument;
    bool good = aclrtSetDevice(0) == ACL_SUCCESS;
    while (good && !atomic_load(over)) {
        aclrtStream stream = NULL;
        good = aclrtCreateStream(&stream) == ACL_SUCCESS && aclrtDestroyStream(stream) == ACL_SUCCESS;
    }
    good = aclrtResetDevice(0) == ACL_SUCCESS && good;
    return good ? argument : NULL;
}

/* A detach that fails at one stream opens the streams that it has closed and no other: another thread may destroy the
 * stream of the failure by then. */
TEST(test_failed_detaches_beside_threads)
{
    struct world w = make_world();
    atomic_bool over = false;
    pthread_t threads[THREADS];
    weir_acl_attachment *attachment = NULL;
    ok(weir_acl_attach_device(w.pool, &attachment));
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, make_streams_until, &over), 0);
    }
    for (int i = 0; i < FAILED_DETACHES;) {
        failing_unregisters = 1;
        const weir_status status = weir_acl_detach(attachment);
        assert_int_not_equal(status, WEIR_OK);
        i += status != WEIR_ERR_BUSY;
    }
    failing_unregisters = 0;
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        void *good = NULL;
        assert_int_equal(pthread_join(threads[i], &good), 0);
        assert_non_null(good);
    }
    ok(weir_acl_detach(attachment));
    end_world(&w);
}
