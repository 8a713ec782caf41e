/* host_test.c: pinned host memory of the ACL runtime under a host pool: both ways of pinning, limits of one call,
 * threads without a context, copies that still read memory that is freed after them, and every ACL call failing. */
#include "acl_test.h"

#include <weir/ascendcl.h>
#include <weir/host.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static weir_device *make_device(int32_t id)
{
    weir_acl_device_config config = WEIR_ACL_DEVICE_CONFIG_INIT;
    config.device_id = id;
    weir_device *device = NULL;
    ok(weir_acl_device_create(&config, &device));
    return device;
}

/* `most_bytes`: 0 means the value of weir_acl_host_runtime. */
static weir_host_pool *make_host_pool(weir_device *device, uint32_t kinds, uint64_t most_bytes)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    ok(weir_acl_host_runtime(device, &runtime));
    runtime.most_bytes = most_bytes;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.runtime = &runtime;
    config.kinds = kinds;
    config.chunk_bytes = 4 * MIB;
    weir_host_pool *pool = NULL;
    ok(weir_host_pool_create(&config, &pool));
    return pool;
}

static weir_host_info info_of(weir_host_pool *pool, const void *ptr)
{
    weir_host_info info = WEIR_HOST_INFO_INIT;
    ok(weir_host_query(pool, ptr, &info));
    return info;
}

static void *host_block(weir_host_pool *pool, uint64_t size)
{
    void *ptr = NULL;
    ok(weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &ptr));
    return ptr;
}

enum { GIVEN = 1u << WEIR_HOST_RUNTIME, REGISTERED = 1u << WEIR_HOST_REGISTERED };

TEST(test_both_ways)
{
    weir_device *device = make_device(0);
    for (uint32_t kind = GIVEN; kind <= REGISTERED; kind *= 2) {
        weir_host_pool *pool = make_host_pool(device, kind, 0);
        char *small = host_block(pool, 100);
        char *large = host_block(pool, 3 * MIB);
        assert_int_equal(info_of(pool, small).kind, kind == GIVEN ? WEIR_HOST_RUNTIME : WEIR_HOST_REGISTERED);
        assert_true(info_of(pool, large).is_pinned);
        aclrtPtrAttributes attributes;
        memset(&attributes, 0, sizeof(attributes));
        acl_ok(aclrtPointerGetAttributes(large + MIB, &attributes));
        assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
        ok(weir_host_free(pool, small));
        ok(weir_host_free(pool, large));
        uint64_t released = 0;
        ok(weir_host_trim(pool, 0, &released));
        assert_true(released >= 4 * MIB);
        ok(weir_host_pool_destroy(pool));
    }
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

TEST(test_bad_devices)
{
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_device *device = make_device(0);
    fails(weir_acl_host_runtime(NULL, &runtime), WEIR_ERR_INVALID);
    fails(weir_acl_host_runtime(device, NULL), WEIR_ERR_INVALID);
    fails(weir_acl_host_runtime((weir_device *)(void *)&runtime, &runtime), WEIR_ERR_INVALID);
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
    fails(weir_acl_host_runtime(device, &runtime), WEIR_ERR_INVALID);
}

/* WEIR_ASCENDCL_PIN_LIMIT sets a limit of 8 MiB for one call. The pool learns the limit only from failing calls. */
TEST(test_limit_of_one_call)
{
    weir_device *device = make_device(0);
    weir_host_pool *pool = make_host_pool(device, GIVEN | REGISTERED, 0);
    char *large = host_block(pool, 21 * MIB); /* aclrtMallocHost refuses; adjacent chunks are registered */
    assert_int_equal(info_of(pool, large).kind, WEIR_HOST_REGISTERED);
    memset(large, 1, 21 * MIB);
    char text[1024];
    assert_true(weir_host_explain(pool, WEIR_HOST_THREAD_NODE, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "runtime: the runtime's allocation of"));
    ok(weir_host_free(pool, large));
    ok(weir_host_pool_destroy(pool));
    pool = make_host_pool(device, GIVEN, 6 * MIB);
    void *ptr = NULL;
    fails(weir_host_alloc(pool, 21 * MIB, WEIR_HOST_THREAD_NODE, &ptr), WEIR_ERR_NO_MEMORY);
    ptr = host_block(pool, 3 * MIB);
    ok(weir_host_free(pool, ptr));
    ok(weir_host_pool_destroy(pool));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

struct errand {
    weir_host_pool *pool;
    aclrtStream stream;
    void *blocks[40];
    weir_status status;
};

/* A thread without an ACL context. */
static void *without_context(void *ctx)
{
    struct errand *e = ctx;
    for (int i = 0; i < 40 && e->status == WEIR_OK; i++) {
        e->status = weir_host_alloc(e->pool, (uint64_t)1000 << i % 10, WEIR_HOST_THREAD_NODE, &e->blocks[i]);
    }
    for (int i = 0; i < 40 && e->status == WEIR_OK; i++) {
        e->status =
            i % 2 == 0 ? weir_host_free(e->pool, e->blocks[i]) : weir_host_free_after(e->pool, e->blocks[i], e->stream);
    }
    return NULL;
}

TEST(test_threads_without_context)
{
    weir_device *device = make_device(1);
    aclrtStream stream = NULL;
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateStream(&stream));
    for (uint32_t kind = GIVEN; kind <= REGISTERED; kind *= 2) {
        weir_host_pool *pool = make_host_pool(device, kind, 0);
        struct errand errands[3];
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) {
            errands[i] = (struct errand){.pool = pool, .stream = stream};
            assert_int_equal(pthread_create(&threads[i], NULL, without_context, &errands[i]), 0);
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            ok(errands[i].status);
        }
        ok(weir_host_stream_retire(pool, stream));
        ok(weir_host_trim(pool, 0, NULL));
        weir_host_stats stats = WEIR_HOST_STATS_INIT;
        ok(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats));
        assert_int_equal(stats.live_bytes + stats.pending_bytes + stats.held_bytes, 0);
        ok(weir_host_pool_destroy(pool));
    }
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(1));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* Copies from a block that is freed after them: each reads the bytes written for it. */
TEST(test_copies_read_what_was_written)
{
    enum { ROUNDS = 60 };
    weir_device *device = make_device(0);
    acl_ok(aclrtSetDevice(0));
    aclrtStream streams[2];
    acl_ok(aclrtCreateStream(&streams[0]));
    acl_ok(aclrtCreateStream(&streams[1]));
    weir_host_pool *pool = make_host_pool(device, GIVEN | REGISTERED, 0);
    const uint64_t sizes[] = {100, 5000, 100000, MIB};
    char *on_device = NULL;
    acl_ok(aclrtMalloc((void **)&on_device, ROUNDS * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t size = sizes[i % 4];
        char *ptr = host_block(pool, size);
        memset(ptr, i + 1, size);
        acl_ok(aclrtMemcpyAsync(on_device + (uint64_t)i * MIB, MIB, ptr, size, ACL_MEMCPY_HOST_TO_DEVICE,
                                streams[i / 4 % 2]));
        ok(weir_host_free_after(pool, ptr, streams[i / 4 % 2]));
    }
    acl_ok(aclrtSynchronizeDevice());
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t size = sizes[i % 4];
        unsigned char *back = malloc(size);
        assert_non_null(back);
        acl_ok(aclrtMemcpy(back, size, on_device + (uint64_t)i * MIB, size, ACL_MEMCPY_DEVICE_TO_HOST));
        for (uint64_t at = 0; at < size; at++) {
            assert_int_equal(back[at], i + 1);
        }
        free(back);
    }
    for (int i = 0; i < 2; i++) {
        ok(weir_host_stream_retire(pool, streams[i]));
        acl_ok(aclrtDestroyStream(streams[i]));
    }
    acl_ok(aclrtFree(on_device));
    ok(weir_host_pool_destroy(pool));
    acl_ok(aclrtResetDevice(0));
    assert_int_equal(weir_device_destroy(device), WEIR_OK);
}

/* --- a host pool while ACL calls fail; each run is a process, because faults are set in the environment --- */

#define TRY(condition)                                                                                                 \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                      \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static const char *self;

static int pool_under_faults(weir_host_pool *pool, aclrtStream stream)
{
    uint64_t live = 0;
    for (int round = 0; round < 2; round++) {
        void *blocks[12] = {0};
        for (int i = 0; i < 12; i++) {
            const weir_status status = weir_host_alloc(pool, (uint64_t)1000 << i, WEIR_HOST_THREAD_NODE, &blocks[i]);
            TRY(status == WEIR_OK || status == WEIR_ERR_NO_MEMORY);
            TRY((status == WEIR_OK) == (blocks[i] != NULL));
            live += status == WEIR_OK;
        }
        for (int i = 0; i < 12; i++) {
            if (blocks[i] != NULL) {
                memset(blocks[i], i, (size_t)1000 << i);
                const weir_status status = weir_host_free_after(pool, blocks[i], stream);
                TRY(status == WEIR_OK);
                live--;
            }
        }
        const weir_status status = weir_host_trim(pool, 0, NULL);
        TRY(status == WEIR_OK || status == WEIR_ERR_DEVICE);
    }
    const char *why = "";
    weir_host_stats stats = WEIR_HOST_STATS_INIT;
    TRY(weir_host_check(pool, &why) == WEIR_OK);
    TRY(weir_host_get_stats(pool, WEIR_HOST_ANY_NODE, &stats) == WEIR_OK);
    TRY(live == 0 && stats.live_bytes == 0);
    for (int i = 0; i < 5; i++) { /* a fault that is set to occur once has occurred before the last round */
        (void)!weir_host_stream_retire(pool, stream);
        (void)!weir_host_trim(pool, 0, NULL);
    }
    const weir_status status = weir_host_pool_destroy(pool);
    TRY(status == WEIR_OK || status == WEIR_ERR_DEVICE);
    return 0;
}

static int errand_main(const char *kind)
{
    weir_device *device = NULL;
    aclrtStream stream = NULL;
    weir_host_runtime runtime = WEIR_HOST_RUNTIME_INIT;
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    weir_host_pool *pool = NULL;
    TRY(aclrtSetDevice(0) == ACL_SUCCESS && aclrtCreateStream(&stream) == ACL_SUCCESS);
    TRY(weir_acl_device_create(NULL, &device) == WEIR_OK);
    TRY(weir_acl_host_runtime(device, &runtime) == WEIR_OK);
    config.runtime = &runtime;
    config.kinds = strcmp(kind, "given") == 0 ? (uint32_t)GIVEN : (uint32_t)REGISTERED;
    config.chunk_bytes = 4 * MIB;
    TRY(weir_host_pool_create(&config, &pool) == WEIR_OK);
    const int failed = pool_under_faults(pool, stream);
    weir_status ended = weir_device_destroy(device);
    if (ended == WEIR_ERR_DEVICE) { /* gives back what the pool could not, when ACL works again */
        (void)weir_ascendcl_fail(NULL, 0, 0);
        ended = weir_device_destroy(device);
    }
    TRY(ended == WEIR_OK);
    return failed;
}

/* Returns the exit status of the process. */
static int run_errand(const char *faults, const char *kind)
{
    char command[512];
    (void)snprintf(command, sizeof(command), "WEIR_ASCENDCL_FAULTS='%s' '%s' %s 2>/dev/null", faults, self, kind);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(test_every_acl_call_fails)
{
    static const char *const calls[] = {
        "aclrtMallocHost",  "aclrtFreeHost",         "aclrtHostRegisterV2",   "aclrtHostUnregister",
        "aclrtRecordEvent", "aclrtQueryEventStatus", "aclrtSynchronizeEvent", "aclrtCreateEventExWithFlag",
        "aclrtDestroyEvent"};
    assert_int_equal(run_errand("", "given"), 0);
    assert_int_equal(run_errand("", "registered"), 0);
    /* A runtime without the flags of aclrtHostRegisterV2 has the older aclrtHostRegister. */
    assert_int_equal(run_errand("aclrtHostRegisterV2:1+=207000", "registered"), 0);
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        static const char *const times[] = {":1", ":2", ":3", ":1+"};
        for (size_t t = 0; t < sizeof(times) / sizeof(*times); t++) {
            char faults[64];
            (void)snprintf(faults, sizeof(faults), "%s%s", calls[i], times[t]);
            const int given = run_errand(faults, "given");
            const int registered = run_errand(faults, "registered");
            if (given != 0 || registered != 0) {
                fail_msg("%s: %d %d", faults, given, registered);
            }
        }
    }
}

int main(int count, char **arguments)
{
    self = arguments[0];
    if (count > 1) {
        return errand_main(arguments[1]);
    }
    (void)setenv("WEIR_ASCENDCL_PIN_LIMIT", "8MiB", 1);
    return run_all_tests("tests");
}

/* --- captured graphs --- */

/* A graph copies from the block in each launch, so the block is not freed in the order of a captured stream. */
TEST(a_block_is_not_freed_into_a_capture)
{
    weir_device *device = make_device(0);
    weir_host_pool *pool = make_host_pool(device, GIVEN, 0);
    aclrtStream stream = new_stream();
    aclmdlRI graph = NULL;
    void *small = host_block(pool, 100);
    void *large = host_block(pool, 3 * MIB);
    acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
    fails(weir_host_free_after(pool, small, stream), WEIR_ERR_BUSY);
    fails(weir_host_free_after(pool, large, stream), WEIR_ERR_BUSY);
    assert_non_null(strstr(weir_last_error(), "is being captured"));
    acl_ok(aclmdlRICaptureEnd(stream, &graph));
    acl_ok(aclmdlRIDestroy(graph));
    ok(weir_host_free_after(pool, small, stream));
    ok(weir_host_free_after(pool, large, stream));
    ok(weir_host_pool_destroy(pool));
    acl_ok(aclrtDestroyStream(stream));
    ok(weir_device_destroy(device));
}
