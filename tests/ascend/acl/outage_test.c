/* outage_test.c: the ACL runtime fails for a time and works again: nothing is lost, and every pool is of use.
 *
 * Seeds: rig/seeds.h; 1,000 lives, and one for each seed beyond.
 */
#include "acl_test.h"

#include "rig/outage.h"

#include <weir/ascendcl.h>

static aclrtContext context; /* the program's, on the other device, so that each call of weir changes the context */
static aclrtContext home;    /* of the streams */

static weir_status device_create(weir_device **device)
{
    return weir_acl_device_create(NULL, device);
}

static void begin(const char *function, unsigned first, unsigned count)
{
    (void)weir_ascendcl_fail(function, first, count);
}

static bool end(void)
{
    return weir_ascendcl_fail(NULL, 0, 0) != 0;
}

/* An outage is at most 16 calls long. */
static void change_context(aclrtContext to)
{
    int tries = 0;
    while (aclrtSetCurrentContext(to) != ACL_SUCCESS) {
        assert_true(++tries <= 16);
    }
}

static void *stream_create(void)
{
    change_context(home);
    void *made = new_stream();
    change_context(context);
    return made;
}

static void stream_destroy(void *native)
{
    change_context(home);
    acl_ok(aclrtDestroyStream(native));
    change_context(context);
}

/* During an outage nothing is queued. */
static void work(void *native, uint64_t address, uint64_t size)
{
    change_context(home);
    (void)aclrtMemsetAsync((void *)(uintptr_t)address, size, 1, size < 4096 ? size : 4096, native);
    change_context(context);
}

static uint64_t held_bytes(void)
{
    return weir_ascendcl_held_bytes(0);
}

static bool is_restored(void)
{
    aclrtContext now = NULL;
    return aclrtGetCurrentContext(&now) == ACL_SUCCESS && now == context;
}

static bool is_clean(void)
{
    return weir_ascendcl_finding_count(NULL) == 0;
}

static const char *const functions[] = {
    "aclrtSetDevice",
    "aclrtResetDevice",
    "aclrtGetDevice",
    "aclrtGetCurrentContext",
    "aclrtSetCurrentContext",
    "aclrtCtxGetCurrentDefaultStream",
    "aclrtGetMemInfo",
    "aclrtMemGetAllocationGranularity",
    "aclrtMallocAlign32",
    "aclrtFree",
    "aclrtReserveMemAddress",
    "aclrtReleaseMemAddress",
    "aclrtMallocPhysical",
    "aclrtFreePhysical",
    "aclrtMapMem",
    "aclrtUnmapMem",
    "aclrtCreateEventExWithFlag",
    "aclrtDestroyEvent",
    "aclrtRecordEvent",
    "aclrtQueryEventStatus",
    "aclrtSynchronizeEvent",
    "aclrtStreamWaitEvent",
    "aclrtSynchronizeStream",
    "aclrtRegStreamStateCallback",
};

static const struct outage_runtime runtime = {
    .device_create = device_create,
    .begin = begin,
    .end = end,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .work = work,
    .held_bytes = held_bytes,
    .is_restored = is_restored,
    .is_clean = is_clean,
    .functions = functions,
    .function_count = sizeof(functions) / sizeof(functions[0]),
};

TEST(test_random_lives)
{
    const uint64_t count = seeds_count(1000, 1);
    uint64_t struck = 0;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtGetCurrentContext(&home));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtGetCurrentContext(&context));
    for (uint64_t i = 0; i < count; i++) {
        struck += outage_play(&runtime, seeds_first() + i);
    }
    (void)outage_play(&runtime, 1767); /* a device could not be made, and another one could */
    print_message("%llu lives, %llu outages\n", (unsigned long long)count, (unsigned long long)struck);
    assert_true(struck >= count);
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetCurrentContext(home));
    acl_ok(aclrtResetDevice(0)); /* the test's own reference is the only one */
    assert_int_not_equal(aclrtResetDevice(0), ACL_SUCCESS);
    end_device();
}
