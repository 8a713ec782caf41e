/* models_test.c: weir pools under models with dynamic shapes: two streams in two threads over one pool, limits that are
 * too small, and an engine that keeps its blocks. */
#include "rig/acl.h"
#include "ascendcl/programs/scenario.h"

#include "ascendcl/programs/network.h"

#include <weir/acl.h>
#include <weir/caching.h>
#include <weir/pool.h>

#include <pthread.h>

static const struct {
    int64_t width, height;
} SIZES[] = {{224, 224}, {480, 320}, {320, 480}, {96, 64}, {320, 320}, {352, 288}, {416, 416}, {64, 96}};
enum { SIZE_COUNT = sizeof(SIZES) / sizeof(SIZES[0]), ROUNDS = 3 };

struct worker {
    uint32_t id;
    aclrtStream stream;
    struct image images[SIZE_COUNT];
    float out[SIZE_COUNT][IMAGE_OUT];
};

static struct worker workers[2];

static void *work(void *argument)
{
    struct worker *w = argument;
    OK(aclrtSetDevice(0));
    for (int i = 0; i < ROUNDS * SIZE_COUNT; i++) {
        OK(aclmdlExecuteAsync(w->id, w->images[i % SIZE_COUNT].in, w->images[i % SIZE_COUNT].out, w->stream));
    }
    OK(aclrtSynchronizeStream(w->stream));
    for (int i = 0; i < SIZE_COUNT; i++) {
        image_read(&w->images[i], w->out[i]);
    }
    return NULL;
}

static weir_pool *pool_create(weir_device *device, uint32_t flags, uint64_t limit)
{
    weir_pool *pool = NULL;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = flags;
    config.limit_bytes = limit;
    OK(weir_pool_create(&config, &pool));
    return pool;
}

static uint32_t pool_flags;

static void one_pool_body(void)
{
    static float wanted[2][SIZE_COUNT][IMAGE_OUT];
    const char *const names[] = {"mobilenet_v2", "resnet50"};
    weir_device *device = NULL;
    weir_acl_attachment *attachments[2];
    pthread_t threads[2];
    const char *why = NULL;
    for (int i = 0; i < 2; i++) {
        workers[i].id = load(names[i]);
        OK(aclrtCreateStream(&workers[i].stream));
        for (int k = 0; k < SIZE_COUNT; k++) {
            workers[i].images[k] = image_create(SIZES[k].width, SIZES[k].height);
        }
        (void)work(&workers[i]); /* with the runtime's own memory */
        memcpy(wanted[i], workers[i].out, sizeof(wanted[i]));
    }
    OK(weir_acl_device_create(NULL, &device));
    weir_pool *pool = pool_create(device, pool_flags, 0);
    for (int i = 0; i < 2; i++) {
        OK(weir_acl_attach(pool, workers[i].stream, &attachments[i]));
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(memcmp(wanted[i], workers[i].out, sizeof(wanted[i])) == 0);
    }
    GIVES(WEIR_OK, weir_pool_check(pool, &why));
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    OK(weir_pool_get_stats(pool, &stats));
    CHECK(stats.allocs > 4000 && stats.frees == stats.allocs && stats.failures == 0);
    for (int i = 0; i < 2; i++) {
        OK(weir_acl_detach(attachments[i]));
        OK(aclrtDestroyStream(workers[i].stream));
        OK(aclmdlUnload(workers[i].id));
        for (int k = 0; k < SIZE_COUNT; k++) {
            image_drop(&workers[i].images[k]);
        }
    }
    OK(weir_pool_destroy(pool));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(one_pool_serves_two_models)
{
    pool_flags = WEIR_POOL_REGIONS;
    scenario(one_pool_body);
    report_is_clean();
    pool_flags = 0;
    scenario(one_pool_body);
    report_is_clean();
}

/* A device, a pool with a limit on one stream, and one image. */
struct single {
    weir_device *device;
    weir_pool *pool;
    aclrtStream stream;
    weir_acl_attachment *attachment;
    uint32_t id;
    struct image m;
};

static struct single single_create(uint64_t limit)
{
    struct single s = {.id = load("mobilenet_v2"), .m = image_create(224, 224)};
    OK(aclrtCreateStream(&s.stream));
    OK(weir_acl_device_create(NULL, &s.device));
    s.pool = pool_create(s.device, 0, limit);
    OK(weir_acl_attach(s.pool, s.stream, &s.attachment));
    return s;
}

static void single_drop(struct single *s)
{
    OK(weir_acl_detach(s->attachment));
    OK(weir_pool_destroy(s->pool));
    assert_int_equal(weir_device_destroy(s->device), WEIR_OK);
    OK(aclrtDestroyStream(s->stream));
    image_drop(&s->m);
}

static void limit_body(void)
{
    struct single s = single_create(4 << 20); /* some of the values are larger */
    weir_acl_attachment_info info = WEIR_ACL_ATTACHMENT_INFO_INIT;
    GIVES(ACL_ERROR_RT_MEMORY_ALLOCATION, aclmdlExecuteAsync(s.id, s.m.in, s.m.out, s.stream));
    OK(weir_acl_attachment_get_info(s.attachment, &info));
    CHECK(info.failures == 2 && info.live_blocks == 0); /* 2: the runtime repeated the request once */
    struct image tiny = image_create(32, 32);
    OK(aclmdlExecuteAsync(s.id, tiny.in, tiny.out, s.stream));
    OK(aclrtSynchronizeStream(s.stream));
    image_drop(&tiny);
    OK(aclmdlUnload(s.id));
    single_drop(&s);
}

TEST(a_limit_that_is_too_small)
{
    scenario(limit_body);
    report_is_clean();
}

static void on_idle(void *ctx, weir_acl_attachment *attachment)
{
    (void)attachment;
    *(int *)ctx += 1;
}

static void kept_body(void)
{
    int calls = 0;
    struct single s = single_create(0);
    OK(aclmdlExecuteAsync(s.id, s.m.in, s.m.out, s.stream));
    OK(aclrtSynchronizeStream(s.stream));
    GIVES(WEIR_ERR_BUSY, weir_acl_detach(s.attachment)); /* the engine keeps its blocks */
    OK(weir_acl_notify_idle(s.attachment, on_idle, &calls));
    CHECK(calls == 0);
    OK(aclmdlUnload(s.id));
    CHECK(calls == 1);
    single_drop(&s);
}

TEST(an_engine_that_keeps_spans)
{
    acl_environment("SPAN_CACHE", "1");
    scenario(kept_body);
    (void)unsetenv("WEIR_ASCENDCL_SPAN_CACHE");
    report_is_clean();
}
