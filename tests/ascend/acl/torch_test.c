/* torch_test.c: libweir_torch.so as a framework uses it: loaded by name, two functions by address and ACL streams. */
#include "acl_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/torch.h>

extern char **environ;

/* The host: the functions that it has looked up. */
static struct {
    void *(*alloc)(size_t size, int device, void *stream);
    void (*free)(void *ptr, size_t size, int device, void *stream);
    void (*record_stream)(void *ptr, void *stream);
    void (*erase_stream)(void *ptr, void *stream);
    weir_status (*configure)(const char *settings);
    weir_status (*trim)(int device, uint64_t keep_bytes, uint64_t *released);
    weir_status (*stats)(int device, weir_pool_stats *stats);
    size_t (*report)(int device, char *text, size_t size);
    weir_status (*shutdown)(void);
    weir_status (*device_stats)(int device, weir_torch_device_stats *counters);
    size_t (*stats_json)(int device, char *text, size_t size);
    void (*reset_peaks)(int8_t device);
    void (*init)(int device_count);
    void (*reset)(bool check_error);
    void (*empty_cache)(void);
    void (*set_memory_fraction)(double fraction, int device);
    void *(*base)(void *ptr, size_t *size);
    weir_status (*pool_begin)(int device, weir_torch_pool_id id, weir_torch_filter filter, void *ctx,
                              void (*drop)(void *ctx));
    void (*pool_end)(int device, weir_torch_pool_id id);
    void (*pool_release)(int device, weir_torch_pool_id id);
    weir_status (*record)(const char *path);
    const char *(*last_error)(void);
} host;

static void look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    memcpy(function, &found, sizeof(found));
}

static void load(void)
{
    void *library = dlopen(WEIR_TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    look_up(library, "weir_torch_alloc", &host.alloc);
    look_up(library, "weir_torch_free", &host.free);
    look_up(library, "weir_torch_record_stream", &host.record_stream);
    look_up(library, "weir_torch_erase_stream", &host.erase_stream);
    look_up(library, "weir_torch_configure", &host.configure);
    look_up(library, "weir_torch_trim", &host.trim);
    look_up(library, "weir_torch_get_stats", &host.stats);
    look_up(library, "weir_torch_report", &host.report);
    look_up(library, "weir_torch_shutdown", &host.shutdown);
    look_up(library, "weir_torch_get_device_stats", &host.device_stats);
    look_up(library, "weir_torch_stats_json", &host.stats_json);
    look_up(library, "weir_torch_reset_peaks", &host.reset_peaks);
    look_up(library, "weir_torch_init", &host.init);
    look_up(library, "weir_torch_reset", &host.reset);
    look_up(library, "weir_torch_empty_cache", &host.empty_cache);
    look_up(library, "weir_torch_set_memory_fraction", &host.set_memory_fraction);
    look_up(library, "weir_torch_base", &host.base);
    look_up(library, "weir_torch_pool_begin", &host.pool_begin);
    look_up(library, "weir_torch_pool_end", &host.pool_end);
    look_up(library, "weir_torch_pool_release", &host.pool_release);
    look_up(library, "weir_torch_record", &host.record);
    look_up(library, "weir_torch_last_error", &host.last_error);
}

static void fill(void *memory, size_t size, int value, aclrtStream stream)
{
    acl_ok(aclrtMemsetAsync(memory, size, value, size, stream));
}

static aclrtStream streams[2];

static int begin(void **state)
{
    (void)state;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&streams[0]));
    acl_ok(aclrtCreateStream(&streams[1]));
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (streams[i] != NULL) {
            acl_ok(aclrtDestroyStream(streams[i]));
        }
    }
    ok(host.shutdown());
    end_device();
    return 0;
}

static weir_pool_stats stats_of(int device)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(host.stats(device, &stats));
    return stats;
}

TEST(test_alloc_and_free)
{
    weir_pool_stats none = WEIR_POOL_STATS_INIT;
    fails(host.stats(0, &none), WEIR_ERR_INVALID); /* no pool exists before the first request */
    assert_null(host.alloc(0, 0, streams[0]));
    assert_null(host.alloc(100, -1, streams[0]));
    assert_null(host.alloc(100, 1000, streams[0]));
    assert_null(host.alloc(100, 9, streams[0])); /* no such device */
    char text[256];
    assert_true(host.report(9, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "device 9: weir_acl_device_create: device_id 9: aclrtSetDevice: 107001"));
    host.free(NULL, 0, 0, streams[0]);

    void *block = host.alloc(1000000, 0, streams[0]);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 512, 0);
    fill(block, 1000032, 1, streams[0]); /* a kernel may access so many bytes */
    host.free(block, 1000000, 0, streams[0]);
    void *again = host.alloc(1000000, 0, streams[0]);
    assert_ptr_equal(again, block);
    host.free(again, 1000000, 0, streams[0]);
    host.free(again, 1000000, 0, streams[0]); /* a second free: reported once on stderr, no other effect */
    host.free(&block, 8, 0, streams[0]);
    host.free(again, 1, 9, streams[0]);
    assert_int_equal(stats_of(0).allocs, 2);
    assert_int_equal(stats_of(0).frees, 2);
    assert_int_equal(stats_of(0).live_bytes, 0);
}

TEST(test_another_stream_waits)
{
    void *block = host.alloc(16 * MIB, 0, streams[0]);
    fill(block, 16 * MIB, 1, streams[0]);
    host.free(block, 16 * MIB, 0, streams[1]); /* another stream: stream 0 still uses the block */
    for (int i = 1; i >= 0; i--) {
        void *next = host.alloc(16 * MIB, 0, streams[i]);
        assert_non_null(next);
        fill(next, 16 * MIB, 2, streams[i]);
        host.free(next, 16 * MIB, 0, streams[i]);
    }
}

TEST(test_record_stream)
{
    void *block = host.alloc(16 * MIB, 0, streams[0]);
    host.record_stream(block, streams[1]);
    fill(block, 16 * MIB, 1, streams[1]);
    host.free(block, 16 * MIB, 0, streams[0]);
    void *next = host.alloc(16 * MIB, 0, streams[0]);
    fill(next, 16 * MIB, 2, streams[0]);
    host.free(next, 16 * MIB, 0, streams[0]);

    host.record_stream(&block, streams[1]);
    host.erase_stream(&block, streams[1]);
}

TEST(test_erase_stream)
{
    aclrtEvent event = NULL;
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    void *block = host.alloc(16 * MIB, 0, streams[0]);
    host.record_stream(block, streams[1]);
    fill(block, 16 * MIB, 1, streams[1]);
    host.erase_stream(block, streams[1]);
    acl_ok(aclrtRecordEvent(event, streams[1]));
    acl_ok(aclrtStreamWaitEvent(streams[0], event));
    fill(block, 16 * MIB, 2, streams[0]);
    host.free(block, 16 * MIB, 0, streams[0]);
    acl_ok(aclrtDestroyEvent(event));
}

TEST(test_default_stream)
{
    void *block = host.alloc(8 * MIB, 0, NULL);
    fill(block, 8 * MIB, 1, NULL);
    host.free(block, 8 * MIB, 0, NULL);
    aclrtStream standard = NULL;
    acl_ok(aclrtCtxGetCurrentDefaultStream(&standard));
    void *next = host.alloc(8 * MIB, 0, standard);
    assert_ptr_equal(next, block); /* the same stream under its own handle */
    fill(next, 8 * MIB, 2, standard);
    host.free(next, 8 * MIB, 0, standard);
}

TEST(test_every_refusal_has_a_reason)
{
    char text[256] = "";
    assert_null(host.alloc(SIZE_MAX, 0, streams[0]));
    assert_true(host.report(0, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "weir_torch_alloc: size 18446744073709551615 is too large"));
    aclrtStream gone = streams[1];
    acl_ok(aclrtDestroyStream(gone));
    streams[1] = NULL;
    assert_null(host.alloc(100, 0, gone));
    assert_true(host.report(0, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "ACL_ERROR_RT_INVALID_HANDLE"));
}

static void refused(weir_status status, weir_status wanted, const char *sentence)
{
    assert_int_equal(status, wanted);
    if (strstr(host.last_error(), sentence) != host.last_error()) {
        fail_msg("\"%s\" does not begin with \"%s\"", host.last_error(), sentence);
    }
}

TEST(test_sentences_of_refusals)
{
    static const weir_torch_pool_id id = {5, 6};
    const weir_status bad = WEIR_ERR_INVALID;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_torch_device_stats counters = WEIR_TORCH_DEVICE_STATS_INIT;
    char record[] = "/tmp/weir_torch_XXXXXX";
    char device_file[64];
    refused(host.configure(NULL), bad, "weir_torch_configure: settings is NULL");
    refused(host.configure("speed:fast"), bad, "weir_torch_configure: settings cannot be read: speed:fast");
    refused(host.trim(77, 0, NULL), bad, "weir_torch_trim: device 77 is not between");
    host.set_memory_fraction(1.5, 0);
    refused(bad, bad, "weir_torch_set_memory_fraction: fraction 1.5 is not between 0 and 1");
    host.set_memory_fraction(0.5, -2);
    refused(bad, bad, "weir_torch_set_memory_fraction: device -2 is not between");
    host.set_memory_fraction(0.5, 9);
    refused(bad, bad, "weir_torch_set_memory_fraction: device 9 can have no pool");
    refused(host.stats(1, &stats), bad, "weir_torch_get_stats: device 1 has no pool");
    refused(host.device_stats(77, &counters), bad, "weir_torch_get_device_stats: device 77 is not between");
    refused(host.device_stats(0, NULL), bad, "weir_torch_get_device_stats: counters is NULL");
    counters.struct_size = 0;
    refused(host.device_stats(0, &counters), bad, "weir_torch_get_device_stats: counters has no struct_size");
    refused(host.pool_begin(77, id, NULL, NULL, NULL), bad, "weir_torch_pool_begin: device 77 is not between");
    refused(host.record(""), bad, "weir_torch_record: path is empty");

    void *block = host.alloc(1000, 0, streams[0]);
    assert_non_null(block);
    host.free(block, 1000, 0, streams[0]);
    refused(host.configure("strategy:caching"), WEIR_ERR_BUSY, "weir_torch_configure: device 0 has a pool already");
    ok(host.pool_begin(0, id, NULL, NULL, NULL));
    refused(host.pool_begin(0, id, NULL, NULL, NULL), WEIR_ERR_BUSY,
            "weir_torch_pool_begin: pool (5, 6) has begun already");
    host.pool_end(0, id);
    host.pool_release(0, id);

    const int file = mkstemp(record);
    assert_true(file >= 0);
    (void)close(file);
    ok(host.record(record));
    refused(host.record("other.wtr"), WEIR_ERR_BUSY, "weir_torch_record: there is a recording, to /tmp/weir_torch_");
    ok(host.record(NULL));
    (void)snprintf(device_file, sizeof(device_file), "%s.device0", record);
    assert_int_equal(unlink(device_file), 0);
    assert_int_equal(unlink(record), 0);

    /* A request for a stream of another device is refused: the pool could not order work of the two devices. */
    aclrtStream elsewhere = NULL;
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtCreateStream(&elsewhere));
    assert_null(host.alloc(1000, 0, elsewhere));
    refused(bad, bad, "weir_acl_follow: stream ");
    assert_non_null(strstr(host.last_error(), "is on ACL device 1, the pool on ACL device 0"));
    acl_ok(aclrtDestroyStream(elsewhere));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0)); /* set twice */
}

TEST(test_running_out)
{
    ok(host.configure("limit:32MiB,report:0"));
    void *block = host.alloc(20 * MIB, 0, streams[0]);
    assert_non_null(block);
    assert_null(host.alloc(20 * MIB, 0, streams[0]));
    char text[4096];
    const size_t length = host.report(0, text, sizeof(text));
    assert_true(length > 0 && length < sizeof(text));
    assert_int_equal(strlen(text), length);
    assert_non_null(strstr(text, "limit"));
    char less[8];
    assert_int_equal(host.report(0, less, sizeof(less)), length);
    size_t left = 0;
    size_t total = 0;
    acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    host.set_memory_fraction((double)(128 * MIB) / (double)total, 0);
    void *more = host.alloc(20 * MIB, 0, streams[0]);
    assert_non_null(more);
    assert_null(host.alloc(120 * MIB, 0, streams[0]));
    host.set_memory_fraction(-1, 0); /* refused: the limit stays */
    assert_null(host.alloc(120 * MIB, 0, streams[0]));
    host.free(more, 20 * MIB, 0, streams[0]);
    host.free(block, 20 * MIB, 0, streams[0]);
}

/* Fills the device from pools and returns the memory that is left. */
static size_t fill_device(const char *settings, size_t *total)
{
    enum { MOST = 4096 };
    static void *blocks[MOST];
    size_t left = 0;
    int count = 0;
    ok(host.configure(settings));
    while (count < MOST && (blocks[count] = host.alloc(6 * MIB, 0, streams[0])) != NULL) {
        count++;
    }
    assert_true(count > 0 && count < MOST);
    acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &left, total));
    void *workspace = NULL;
    if (left > 8 * MIB) { /* memory from the device itself, as an operator takes for its workspace */
        acl_ok(aclrtMalloc(&workspace, left - 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
        acl_ok(aclrtFree(workspace));
    }
    while (count > 0) {
        host.free(blocks[--count], 6 * MIB, 0, streams[0]);
    }
    return left;
}

TEST(test_reserve_by_default)
{
    size_t total = 0;
    const size_t left = fill_device("report:0", &total);
    assert_true(left >= total / 16 && left < total / 16 + 64 * MIB);
}

TEST(test_reserve_of_a_size)
{
    size_t total = 0;
    const size_t left = fill_device("reserve:40MiB,report:0", &total);
    assert_true(left >= 40 * MIB && left < 104 * MIB);
}

/* If a limit divides the device, the library keeps no reserve of free memory beside the limit. */
TEST(test_no_reserve)
{
    size_t total = 0;
    assert_true(fill_device("reserve:0,report:0", &total) < 32 * MIB);
}

TEST(test_trim)
{
    void *block = host.alloc(24 * MIB, 0, streams[0]);
    fill(block, 24 * MIB, 1, streams[0]);
    host.free(block, 24 * MIB, 0, streams[0]);
    uint64_t released = 0;
    assert_true(stats_of(0).reserved_bytes >= 24 * MIB);
    ok(host.trim(-1, 0, &released));
    assert_true(released >= 24 * MIB);
    assert_int_equal(stats_of(0).reserved_bytes, 0);
    ok(host.trim(0, 0, NULL));
    ok(host.trim(5, 0, &released));
    assert_int_equal(released, 0);
    fails(host.trim(-2, 0, NULL), WEIR_ERR_INVALID);
    fails(host.trim(99, 0, NULL), WEIR_ERR_INVALID);
}

TEST(test_settings)
{
    static const char *const bad[] = {"strategy:best",
                                      "strategy:routing",
                                      "limit:12XB",
                                      "limit:",
                                      "limit:-5",
                                      "nonsense",
                                      "speed:fast",
                                      "virtual_memory:2",
                                      "pages:tiny",
                                      "growth:never",
                                      "limit:99999999999TiB",
                                      "limit:1GiB,soft_limit:2GiB",
                                      "report:yes",
                                      "strategy:caching,,limit:1",
                                      "record:"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fails(host.configure(bad[i]), WEIR_ERR_INVALID);
        char text[512];
        assert_true(host.report(0, text, sizeof(text)) > 0);
    }
    fails(host.configure(NULL), WEIR_ERR_INVALID);
    static const char *const good[] = {"", "strategy:caching,limit:128MiB,soft_limit:64MiB,growth:wait_first,report:0",
                                       "strategy:size_class,pages:huge,growth:grow_first",
                                       "strategy:caching,pages:small,virtual_memory:0,growth:balanced",
                                       "strategy:bump,limit:100000000,report:1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ok(host.configure(good[i]));
        ok(host.configure(good[i])); /* no pool exists yet */
        for (int round = 0; round < 20; round++) {
            void *block = host.alloc((size_t)(round + 1) * 100000, 0, streams[round % 2]);
            assert_non_null(block);
            fill(block, 100000, round, streams[round % 2]);
            host.free(block, 0, 0, streams[round % 2]);
        }
        fails(host.configure("limit:1MiB"), WEIR_ERR_BUSY);
        ok(host.shutdown());
    }
}

TEST(test_bad_environment)
{
    assert_int_equal(setenv("WEIR_TORCH", "strategie:caching", 1), 0);
    assert_null(host.alloc(1000, 0, streams[0]));
    char text[512];
    (void)host.report(0, text, sizeof(text));
    assert_non_null(strstr(text, "strategie"));
    ok(host.configure("strategy:caching")); /* overrides the environment */
    void *block = host.alloc(1000, 0, streams[0]);
    assert_non_null(block);
    host.free(block, 1000, 0, streams[0]);
    ok(host.shutdown());
    assert_int_equal(setenv("WEIR_TORCH", "limit:4MiB,report:0", 1), 0);
    assert_null(host.alloc(5 * MIB, 0, streams[0]));
    assert_int_equal(unsetenv("WEIR_TORCH"), 0);
}

/* Blocks outlive their stream, and a new stream gets the handle of that stream. */
TEST(test_streams_that_end)
{
    bool came_again = false;
    void *held = NULL;
    for (int i = 0; i < 40; i++) {
        const aclrtStream before = streams[0];
        void *freed = host.alloc(4 * MIB, 0, streams[0]);
        fill(freed, 4 * MIB, i, streams[0]);
        host.free(freed, 4 * MIB, 0, streams[0]);
        if (held != NULL) {
            fill(held, 2 * MIB, i, streams[0]);
            host.free(held, 2 * MIB, 0, streams[0]); /* the stream may have its owner's handle */
        }
        held = host.alloc(2 * MIB, 0, streams[0]);
        fill(held, 2 * MIB, i, streams[0]);
        acl_ok(aclrtDestroyStream(streams[0]));
        if (i % 3 == 0) { /* the free names a stream that is destroyed */
            host.free(held, 2 * MIB, 0, before);
            held = NULL;
        }
        acl_ok(aclrtCreateStream(&streams[0]));
        came_again |= streams[0] == before;
        void *next = host.alloc(4 * MIB, 0, streams[1]);
        fill(next, 4 * MIB, i, streams[1]);
        host.free(next, 4 * MIB, 0, streams[1]);
    }
    assert_true(came_again);
    if (held != NULL) {
        host.free(held, 2 * MIB, 0, streams[0]);
    }
    assert_int_equal(stats_of(0).live_bytes, 0);
    assert_true(stats_of(0).streams <= 3);
}

TEST(test_two_devices)
{
    void *first = host.alloc(4 * MIB, 0, streams[0]);
    acl_ok(aclrtSetDevice(1));
    aclrtStream stream = new_stream();
    void *second = host.alloc(4 * MIB, 1, stream);
    assert_non_null(first);
    assert_non_null(second);
    fill(second, 4 * MIB, 1, stream);
    host.free(first, 4 * MIB, 0, streams[0]); /* device 1 is current */
    void *third = host.alloc(70 * MIB, 0, streams[0]);
    assert_non_null(third);
    host.free(third, 70 * MIB, 0, streams[0]);
    void *by_default = host.alloc(4 * MIB, 0, NULL);
    assert_non_null(by_default);
    host.free(by_default, 4 * MIB, 0, NULL);
    int32_t current = -1;
    acl_ok(aclrtGetDevice(&current));
    assert_int_equal(current, 1);
    host.record_stream(second, stream);
    host.free(second, 4 * MIB, 1, stream);
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0)); /* undoes the additional aclrtSetDevice(0) above */
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0));
}

/* --- a device that is reset --- */

/* After a device reset, all memory of the pool is gone or has other owners. */
TEST(test_device_reset)
{
    for (int round = 0; round < 3; round++) {
        void *freed = host.alloc(20 * MIB, 0, streams[0]);
        void *held = host.alloc(30 * MIB, 0, streams[1]);
        void *on_default = host.alloc(2 * MIB, 0, NULL);
        assert_non_null(freed);
        assert_non_null(held);
        assert_non_null(on_default);
        host.free(freed, 20 * MIB, 0, streams[0]); /* cached: it would be handed out next */
        acl_ok(aclrtResetDeviceForce(0));
        acl_ok(aclrtSetDevice(0));
        acl_ok(aclrtCreateStream(&streams[0]));
        acl_ok(aclrtCreateStream(&streams[1]));
        void *others = NULL; /* a block that covers all addresses that the pool had */
        acl_ok(aclrtMallocAlign32(&others, 100 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
        acl_ok(aclrtMemset(others, 100 * MIB, 3, 100 * MIB));

        void *next = host.alloc(20 * MIB, 0, streams[0]);
        assert_non_null(next);
        assert_false((char *)next >= (char *)others && (char *)next < (char *)others + 100 * MIB);
        fill(next, 20 * MIB, 1, streams[0]);
        assert_int_equal(stats_of(0).live_bytes, stats_of(0).reserved_bytes - stats_of(0).free_bytes);
        weir_torch_device_stats counters = WEIR_TORCH_DEVICE_STATS_INIT;
        ok(host.device_stats(0, &counters));
        assert_int_equal(counters.allocation.current, 1);
        host.record_stream(held, streams[1]);
        host.free(held, 30 * MIB, 0, streams[1]); /* late, as static objects free */
        host.free(on_default, 2 * MIB, 0, NULL);
        ok(host.device_stats(0, &counters));
        assert_int_equal(counters.allocation.current, 1);
        host.free(next, 20 * MIB, 0, streams[0]);
        ok(host.trim(-1, 0, NULL));
        ok(host.device_stats(0, &counters));
        assert_int_equal(counters.reserved_bytes.current, 0);
        acl_ok(aclrtFree(others));
    }
}

/* --- figures --- */

static weir_torch_device_stats counters_of(int device)
{
    weir_torch_device_stats counters = WEIR_TORCH_DEVICE_STATS_INIT;
    ok(host.device_stats(device, &counters));
    return counters;
}

static void assert_counter(weir_torch_counter counter, int64_t current, int64_t peak, int64_t allocated)
{
    assert_int_equal(counter.current, current);
    assert_int_equal(counter.peak, peak);
    assert_int_equal(counter.allocated, allocated);
    assert_int_equal(counter.freed, allocated - current);
}

/* Handles of several sizes come and go: each is counted with its own size. */
TEST(test_memory_is_mapped_unless_told_otherwise)
{
    enum { BLOCKS = 20 };
    for (int maps = 0; maps < 2; maps++) {
        void *blocks[BLOCKS];
        ok(host.shutdown());
        ok(host.configure(maps != 0 ? "report:0" : "virtual_memory:0,report:0"));
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = host.alloc(8 * MIB, 0, streams[0]);
            assert_non_null(blocks[i]);
        }
        const weir_pool_stats stats = stats_of(0);
        weir_torch_device_stats now = counters_of(0);
        assert_true((stats.vm_creates != 0) == (maps != 0) && (stats.region_allocs != 0) == (maps == 0));
        assert_true(maps == 0 || stats.reserved_bytes > stats.vm_creates * 2 * MIB); /* some have several pages */
        assert_int_equal(now.reserved_bytes.current, stats.reserved_bytes);
        assert_true(now.segment.current > 0 && now.segment.allocated >= now.segment.current);
        for (int i = 0; i < BLOCKS; i++) {
            host.free(blocks[i], 0, 0, streams[0]);
        }
        host.empty_cache();
        now = counters_of(0);
        assert_int_equal(now.reserved_bytes.current, 0);
        assert_int_equal(now.reserved_bytes.allocated, now.reserved_bytes.freed);
        assert_int_equal(now.segment.current, 0);
    }
    ok(host.shutdown());
}

TEST(test_counters)
{
    ok(host.configure("limit:64MiB,report:0"));
    const weir_torch_device_stats before = counters_of(0); /* earlier tests have freed all their blocks */
    assert_int_equal(before.allocation.current, 0);
    assert_int_equal(before.allocated_bytes.current, 0);
    assert_int_equal(before.reserved_bytes.current, 0);
    host.reset_peaks(0);
    void *block[3];
    for (int i = 0; i < 3; i++) {
        block[i] = host.alloc(8 * MIB - 32, 0, streams[0]);
        assert_non_null(block[i]);
    }
    const int64_t blocks = before.allocation.allocated;
    const int64_t bytes = before.allocated_bytes.allocated;
    weir_torch_device_stats now = counters_of(0);
    assert_counter(now.allocation, 3, 3, blocks + 3);
    assert_counter(now.allocated_bytes, (int64_t)(24 * MIB), (int64_t)(24 * MIB), bytes + (int64_t)(24 * MIB));
    assert_int_equal(now.requested_bytes.current, 24 * MIB);
    assert_true(now.reserved_bytes.current >= (int64_t)(24 * MIB));
    assert_int_equal(now.reserved_bytes.peak, now.reserved_bytes.current);
    assert_true(now.segment.current >= 1);
    assert_true(now.num_device_alloc > before.num_device_alloc);

    host.free(block[0], 0, 0, streams[0]);
    host.free(block[1], 0, 0, streams[0]);
    now = counters_of(0);
    assert_counter(now.allocation, 1, 1, blocks + 3);
    assert_counter(now.allocated_bytes, (int64_t)(8 * MIB), (int64_t)(24 * MIB), bytes + (int64_t)(24 * MIB));
    host.reset_peaks(0);
    now = counters_of(0);
    assert_counter(now.allocation, 1, 1, blocks + 3);
    assert_int_equal(now.allocated_bytes.peak, 8 * MIB);

    assert_null(host.alloc(100 * MIB, 0, streams[0]));
    now = counters_of(0);
    assert_int_equal(now.num_ooms, 1);
    assert_int_equal(now.num_alloc_retries, 1);
    assert_int_equal(now.allocation.allocated, blocks + 3);

    host.free(block[2], 0, 0, streams[0]);
    host.empty_cache();
    now = counters_of(0);
    assert_int_equal(now.reserved_bytes.current, 0);
    assert_int_equal(now.reserved_bytes.freed, now.reserved_bytes.allocated);
    assert_true(now.reserved_bytes.peak >= (int64_t)(24 * MIB));
    host.reset_peaks(0);
    assert_int_equal(counters_of(0).reserved_bytes.peak, 0);
    host.reset_peaks(-1);
    host.reset_peaks(99);
    fails(host.device_stats(-1, &now), WEIR_ERR_INVALID);
    fails(host.device_stats(64, &now), WEIR_ERR_INVALID);
    fails(host.device_stats(0, NULL), WEIR_ERR_INVALID);
    assert_counter(counters_of(63).allocation, 0, 0, 0);
}

/* A caller that was compiled with fewer counters, or with more. */
TEST(test_counters_of_another_size)
{
    void *block = host.alloc(MIB, 0, streams[0]);
    struct {
        weir_torch_device_stats known;
        int64_t more[4];
    } longer = {.known = {.struct_size = sizeof(longer)}, .more = {1, 2, 3, 4}};
    ok(host.device_stats(0, &longer.known));
    assert_int_equal(longer.known.allocation.current, 1);
    assert_int_equal(longer.known.struct_size, sizeof(longer));
    assert_int_equal(longer.more[3], 0);
    struct {
        size_t struct_size;
        weir_torch_counter allocation;
        int64_t untouched;
    } shorter = {.struct_size = offsetof(weir_torch_device_stats, segment), .untouched = 5};
    ok(host.device_stats(0, (weir_torch_device_stats *)&shorter));
    assert_int_equal(shorter.allocation.current, 1);
    assert_int_equal(shorter.untouched, 5);
    host.free(block, MIB, 0, streams[0]);
}

TEST(test_json)
{
    void *block = host.alloc(3 * MIB - 32, 0, streams[0]);
    char text[4096];
    const size_t length = host.stats_json(0, text, sizeof(text));
    assert_int_equal(strlen(text), length);
    assert_int_equal(text[0], '{');
    assert_int_equal(text[length - 1], '}');
    assert_non_null(strstr(text, "\"allocated_bytes.all.current\": 3145728, "));
    assert_non_null(strstr(text, "\"num_ooms\": "));
    for (size_t size = 0; size < 200; size++) {
        char less[200];
        memset(less, 'x', sizeof(less));
        assert_int_equal(host.stats_json(0, less, size), length);
        assert_true(size == 0 || memchr(less, '\0', size) != NULL);
        assert_true(less[size] == 'x');
    }
    assert_int_equal(host.stats_json(64, text, sizeof(text)), 0);
    host.free(block, 0, 0, streams[0]);
}

/* --- the functions that a framework calls by address --- */

TEST(test_init_reads_the_settings)
{
    assert_int_equal(setenv("WEIR_TORCH", "strategie:caching", 1), 0);
    host.init(2);
    char text[256] = "";
    assert_true(host.report(0, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "strategie"));
    assert_int_equal(setenv("WEIR_TORCH", "limit:8MiB,report:0", 1), 0);
    host.init(0);
    assert_int_equal(unsetenv("WEIR_TORCH"), 0);
    host.init(1); /* the options have been read */
    assert_null(host.alloc(9 * MIB, 0, streams[0]));
    host.set_memory_fraction(1.0, 0);
    void *block = host.alloc(9 * MIB, 0, streams[0]);
    assert_non_null(block);
    host.set_memory_fraction(2.0, 0); /* reported on stderr */
    assert_true(host.report(1, text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "fraction"));
    host.free(block, 9 * MIB, 0, streams[0]);
}

TEST(test_reset_empties_the_cache)
{
    for (int i = 0; i < 2; i++) {
        void *block = host.alloc(24 * MIB, 0, streams[0]);
        fill(block, 24 * MIB, 1, streams[0]);
        host.free(block, 24 * MIB, 0, streams[0]);
        assert_true(stats_of(0).reserved_bytes >= 24 * MIB);
        host.reset(i == 0);
        assert_int_equal(stats_of(0).reserved_bytes, 0);
    }
}

TEST(test_base)
{
    size_t size = 1;
    assert_null(host.base(&size, &size));
    assert_int_equal(size, 0);
    char *block = host.alloc(5 * MIB, 0, streams[0]);
    char *second = host.alloc(5 * MIB, 0, streams[0]);
    char *base = host.base(second + 1000, &size);
    assert_non_null(base);
    assert_true(base <= second && second + 5 * MIB <= base + size);
    assert_int_equal((uintptr_t)size % (2 * MIB), 0);
    assert_ptr_equal(host.base(base, NULL), base);
    assert_ptr_not_equal(host.base(base + size, NULL), base);
    assert_null(host.base(NULL, &size));
    host.free(block, 0, 0, streams[0]);
    host.free(second, 0, 0, streams[0]);
}

/* --- pools of graphs --- */

static bool is_stream(void *ctx, void *stream)
{
    return stream == *(aclrtStream *)ctx;
}

static int dropped;

static void drop_filter(void *ctx)
{
    (void)ctx;
    dropped++;
}

#define GRAPH_BYTES (16 * MIB - 32) /* 16 MiB with the bytes behind a block that kernels may read */

/* A captured graph keeps the memory that it used and freed until the graph is released, even if other requests fail. */
TEST(test_pool_of_a_graph)
{
    const weir_torch_pool_id id = {1, 0};
    dropped = 0;
    ok(host.configure("limit:64MiB,report:0"));
    ok(host.pool_begin(0, id, is_stream, &streams[1], drop_filter));
    fails(host.pool_begin(0, id, NULL, NULL, NULL), WEIR_ERR_BUSY);
    char *captured = host.alloc(GRAPH_BYTES, 0, streams[1]);
    char *other = host.alloc(GRAPH_BYTES, 0, streams[0]);
    assert_non_null(captured);
    assert_non_null(other);
    host.free(captured, 0, 0, streams[1]);
    char *reused = host.alloc(GRAPH_BYTES, 0, streams[1]); /* within the graph */
    assert_ptr_equal(reused, captured);
    host.free(reused, 0, 0, streams[1]);
    host.pool_end(0, id);
    assert_int_equal(dropped, 1);

    host.empty_cache();
    assert_int_equal(counters_of(0).reserved_bytes.current, 32 * MIB); /* the graph's memory stays */
    for (int i = 0; i < 2; i++) {
        char *next = host.alloc(GRAPH_BYTES, 0, streams[i]); /* the capture is over: memory of the device's own pool */
        assert_non_null(next);
        assert_true(next + GRAPH_BYTES <= captured || captured + GRAPH_BYTES <= next);
        /* the graph's memory does not serve other requests even if memory runs out */
        assert_null(host.alloc(40 * MIB, 0, streams[i]));
        host.free(next, 0, 0, streams[i]);
    }
    ok(host.pool_begin(0, id, is_stream, &streams[1], drop_filter)); /* a second graph in the same pool */
    reused = host.alloc(GRAPH_BYTES, 0, streams[1]);
    assert_ptr_equal(reused, captured);
    host.pool_end(0, id);
    host.pool_release(0, id);
    host.empty_cache();
    host.free(reused, 0, 0, streams[1]);
    assert_null(host.alloc(46 * MIB, 0, streams[0])); /* one graph still exists */
    host.pool_release(0, id);
    host.free(other, 0, 0, streams[0]);
    char *all = host.alloc(60 * MIB, 0, streams[0]); /* needs the graph's memory */
    assert_non_null(all);
    host.free(all, 0, 0, streams[0]);
    assert_int_equal(dropped, 2);

    for (uint64_t i = 0; i < 20; i++) { /* pools are created and destroyed */
        const weir_torch_pool_id one = {0, i};
        ok(host.pool_begin(0, one, NULL, NULL, NULL));
        void *block = host.alloc(8 * MIB, 0, streams[0]);
        assert_non_null(block);
        host.pool_end(0, one);
        host.pool_release(0, one);
        host.free(block, 0, 0, streams[0]);
    }
    host.empty_cache();
    assert_int_equal(counters_of(0).reserved_bytes.current, 0);
}

TEST(test_pools_in_the_wrong_order)
{
    const weir_torch_pool_id a = {1, 2};
    const weir_torch_pool_id b = {2, 1};
    host.pool_end(0, a); /* reported once on stderr */
    host.pool_release(0, a);
    host.pool_end(99, a);
    host.pool_release(-1, a);
    fails(host.pool_begin(99, a, NULL, NULL, NULL), WEIR_ERR_INVALID);
    dropped = 0;
    ok(host.pool_begin(0, a, NULL, NULL, drop_filter));
    /* pools a and b claim every stream; a, which began first, serves the requests */
    ok(host.pool_begin(0, b, NULL, NULL, drop_filter));
    void *of_a = host.alloc(4 * MIB, 0, streams[0]);
    host.pool_release(0, a); /* released before its end */
    void *again = host.alloc(4 * MIB, 0, streams[0]);
    host.pool_end(0, a);
    void *of_b = host.alloc(4 * MIB, 0, streams[0]);
    assert_non_null(of_a);
    assert_non_null(again);
    assert_non_null(of_b);
    assert_int_equal(dropped, 1);
    host.free(of_a, 0, 0, streams[1]);
    host.free(of_b, 0, 0, streams[0]);
    host.free(again, 0, 0, streams[0]);
    assert_int_equal(stats_of(0).allocs, 0); /* the device's own pool, which has served no request */

    void *held = host.alloc(4 * MIB, 0, streams[0]);
    acl_ok(aclrtResetDeviceForce(0)); /* pool b has begun and not ended */
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&streams[0]));
    acl_ok(aclrtCreateStream(&streams[1]));
    void *next = host.alloc(4 * MIB, 0, streams[0]);
    assert_non_null(next);
    assert_int_equal(stats_of(0).allocs, 1);
    assert_int_equal(dropped, 2);
    host.free(held, 0, 0, streams[0]);
    host.free(next, 0, 0, streams[0]);
    host.pool_end(0, b);
    host.pool_release(0, b);
    ok(host.pool_begin(0, b, NULL, NULL, drop_filter)); /* pool b is not ended: the shutdown has to end it */
    assert_non_null(host.alloc(4 * MIB, 0, streams[0]));
}

/* --- recording --- */

static unsigned lines_of(const char *name, char kind)
{
    char line[256];
    unsigned count = 0;
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        count += line[0] == kind && line[1] == ' ';
    }
    (void)fclose(file);
    return count;
}

TEST(test_recording)
{
    static const char name[] = "weir_torch_test.device0.wtr";
    ok(host.record(NULL)); /* no recording runs */
    fails(host.record(""), WEIR_ERR_INVALID);
    void *early = host.alloc(MIB, 0, streams[0]);
    const weir_torch_pool_id earlier = {8, 8};
    ok(host.pool_begin(0, earlier, NULL, NULL, NULL));
    void *in_graph = host.alloc(MIB, 0, streams[0]);
    host.pool_end(0, earlier);
    fails(host.record("/nowhere/at/all.wtr"), WEIR_ERR_DEVICE);
    ok(host.record("weir_torch_test.wtr"));
    fails(host.record("weir_torch_test.wtr"), WEIR_ERR_BUSY);
    const weir_torch_pool_id id = {9, 9};
    for (int i = 0; i < 10; i++) {
        if (i == 5) {
            ok(host.pool_begin(0, id, NULL, NULL, NULL)); /* into the same file */
        }
        void *block = host.alloc(MIB, 0, streams[i % 2]);
        host.record_stream(block, streams[(i + 1) % 2]);
        host.free(block, MIB, 0, streams[i % 2]);
    }
    host.pool_end(0, id);
    host.free(in_graph, MIB, 0, streams[0]);
    host.pool_release(0, earlier);
    void *held = host.alloc(MIB, 0, streams[0]);
    host.pool_release(0, id);
    acl_ok(aclrtResetDeviceForce(0)); /* frees the memory of `held`, and all other memory of the device */
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&streams[0]));
    acl_ok(aclrtCreateStream(&streams[1]));
    void *next = host.alloc(MIB, 0, streams[0]);
    host.free(held, MIB, 0, streams[0]); /* the recording has ended, so this free is not in it */
    host.free(early, MIB, 0, streams[0]);
    host.free(next, MIB, 0, streams[0]);
    ok(host.record(NULL));
    assert_int_equal(lines_of(name, 'p'), 2);
    assert_int_equal(lines_of(name, 'a'), 12);
    assert_int_equal(lines_of(name, 'u'), 10);
    assert_int_equal(lines_of(name, 'f'), 14);
    void *after = host.alloc(MIB, 0, streams[0]);
    host.free(after, MIB, 0, streams[0]);
    assert_int_equal(lines_of(name, 'a'), 12);
    assert_int_equal(remove(name), 0);
}

/* --- threads --- */

static atomic_int failures;

static void *use_streams(void *argument)
{
    unsigned seed = *(unsigned *)argument;
    aclrtStream own = NULL;
    void *held[8] = {NULL};
    size_t sizes[8] = {0};
    if (aclrtSetDevice(0) != ACL_SUCCESS || aclrtCreateStream(&own) != ACL_SUCCESS) {
        (void)atomic_fetch_add(&failures, 1);
        return NULL;
    }
    for (int i = 0; i < 400; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int at = (int)(seed >> 20) % 8;
        if (held[at] != NULL) {
            host.free(held[at], sizes[at], 0, own);
        }
        sizes[at] = (size_t)(1 + (seed >> 16) % 50) << 14;
        held[at] = host.alloc(sizes[at], 0, own);
        if (held[at] == NULL || aclrtMemsetAsync(held[at], sizes[at], i, sizes[at], own) != ACL_SUCCESS) {
            (void)atomic_fetch_add(&failures, 1);
        }
        if (i % 100 == 99) {
            (void)atomic_fetch_add(&failures, host.trim(0, 0, NULL) != WEIR_OK);
        }
    }
    for (int at = 0; at < 8; at++) {
        host.free(held[at], sizes[at], 0, own);
    }
    if (aclrtDestroyStream(own) != ACL_SUCCESS || aclrtResetDevice(0) != ACL_SUCCESS) {
        (void)atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

TEST(test_threads)
{
    pthread_t threads[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_streams, &seeds[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(stats_of(0).live_bytes, 0);
}

/* --- the end of the process --- */

static void *late_block;

static void free_late(void)
{
    if (late_block != NULL) {
        host.free(late_block, 1000, 0, NULL);
        late_block = host.alloc(5000, 0, NULL);
        void *later = host.alloc(1000, 0, NULL);
        host.free(later, 1000, 0, NULL);
    }
}

/* Runs after the program's own handlers, like a static object of the framework. */
__attribute__((destructor)) static void free_last(void)
{
    free_late();
}

static const char *self;

TEST(test_frees_at_exit)
{
    char *arguments[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "late", NULL};
    pid_t child = 0;
    int status = 0;
    assert_int_equal(setenv("WEIR_ASCENDCL_EXIT_CODE", "0", 1), 0); /* leaked memory is found, of course */
    assert_int_equal(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    while (waitpid(child, &status, 0) < 0) {
        assert_int_equal(errno, EINTR);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int live_beyond_main(void)
{
    if (aclrtSetDevice(0) != ACL_SUCCESS || atexit(free_late) != 0) {
        return 1;
    }
    late_block = host.alloc(1000, 0, NULL);
    return late_block != NULL ? 0 : 1;
}

EACH_TEST(begin, end)

int main(int argc, char **argv)
{
    (void)setenv("WEIR_ASCENDCL_HANDLE_REST", "0", 1); /* for the test of streams that end */
    load();
    self = argv[0];
    if (argc > 1) {
        return live_beyond_main();
    }
    return run_all_tests("tests");
}
