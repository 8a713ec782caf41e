/* memory_fault_test.c: the simulator below the runtime fails at every call in turn, and host memory runs out at every
 * request: for virtual memory, pools, host memory and memory of aclrtMalloc. A call may fail with a code that reports
 * the failure. Afterwards all memory can be freed, nothing is missing, and the same calls work.
 */
#include "rig/acl.h"

#include "pool/fault/failing_host.h"

#include "base/runtime.h"

#include <string.h>

#define PAGE (2 * MIB)

static uint64_t errors;

/* Bytes of the device that the program does not hold: free memory, and memory that the driver keeps. */
static uint64_t not_allocated(void)
{
    return left() + acl__rt.devices[0].kept_huge_bytes + acl__rt.devices[0].kept_normal_bytes;
}

/* Counts a failure; returns true for success. */
static bool good(aclError error)
{
    const bool known = error == ACL_SUCCESS || error == ACL_ERROR_RT_MEMORY_ALLOCATION ||
                       error == ACL_ERROR_RT_DEVICE_MEM_ERROR || error == ACL_ERROR_RT_INTERNAL_ERROR;
    assert_true(known);
    errors += error != ACL_SUCCESS;
    return error == ACL_SUCCESS;
}

static aclrtStream streams[2];
static aclrtEvent event;

/* --- trials: calls that may fail, and the clean-up that returns all their memory --- */

struct trial {
    void (*go)(void);
    void (*clean)(void);
};

static void *reserved;
static aclrtDrvMemHandle handles[3];
static bool mapped[3];

static void virtual_go(void)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    if (!good(aclrtReserveMemAddress(&reserved, 3 * PAGE, 0, NULL, 0))) {
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        char *at = (char *)reserved + i * PAGE;
        if (good(aclrtMallocPhysical(&handles[i], PAGE, &prop, 0))) {
            mapped[i] = good(aclrtMapMem(at, PAGE, 0, handles[i], 0));
        }
        if (mapped[i] && i == 1) { /* released with its mapping */
            acl_ok(aclrtFreePhysical(handles[i]));
            handles[i] = NULL;
        }
    }
    for (size_t i = 0; i < 3; i++) {
        if (mapped[i]) {
            mapped[i] = !good(aclrtUnmapMem((char *)reserved + i * PAGE));
        }
        if (handles[i] != NULL && !mapped[i] && good(aclrtFreePhysical(handles[i]))) {
            handles[i] = NULL;
        }
    }
    if (!mapped[0] && !mapped[1] && !mapped[2] && good(aclrtReleaseMemAddress(reserved))) {
        reserved = NULL;
    }
}

static void virtual_clean(void)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    for (size_t i = 0; i < 3; i++) {
        if (mapped[i]) {
            acl_ok(aclrtUnmapMem((char *)reserved + i * PAGE));
        }
        if (handles[i] != NULL) {
            acl_ok(aclrtFreePhysical(handles[i]));
        }
        mapped[i] = false;
        handles[i] = NULL;
    }
    if (reserved != NULL) {
        acl_ok(aclrtReleaseMemAddress(reserved));
    }
    reserved = NULL;
    /* The runtime now repeats a free that the device refused before. */
    aclrtDrvMemHandle again = NULL;
    acl_ok(aclrtMallocPhysical(&again, PAGE, &prop, 0));
    acl_ok(aclrtFreePhysical(again));
}

static aclrtMemPool pool;
static void *blocks[4];

static void take(int i, size_t size, aclrtStream stream)
{
    if (!good(aclrtMemPoolMallocAsync(&blocks[i], size, pool, stream))) {
        blocks[i] = NULL;
    }
}

static void give(int i, aclrtStream stream)
{
    if (blocks[i] != NULL && good(aclrtMemPoolFreeAsync(blocks[i], stream))) {
        blocks[i] = NULL;
    }
}

static void pool_go(void)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 16 * MIB;
    uint32_t on = 1;
    uint64_t threshold = 4 * MIB;
    if (!good(aclrtMemPoolCreate(&pool, &props))) {
        pool = NULL;
        return;
    }
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, &on));
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, &on));
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on));
    acl_ok(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    for (int i = 0; i < 4; i++) {
        take(i, 2 * MIB, streams[0]);
    }
    give(0, streams[0]);
    give(2, streams[0]);
    if (good(aclrtRecordEvent(event, streams[0]))) {
        (void)good(aclrtStreamWaitEvent(streams[1], event));
    }
    take(0, 2 * MIB, streams[1]);
    give(1, streams[1]);
    take(2, 6 * MIB, streams[0]); /* the pool moves idle memory, or makes the stream wait for another stream */
    give(0, streams[0]);
    (void)good(aclrtSynchronizeStream(streams[0]));
    take(1, 14 * MIB, streams[1]); /* usually too much */
    (void)good(aclrtMemPoolTrimTo(pool, 16 * MIB));
    for (int i = 0; i < 4; i++) {
        give(i, streams[i % 2]);
    }
    (void)good(aclrtSynchronizeStream(streams[1]));
    (void)good(aclrtMemPoolTrimTo(pool, 2 * MIB));
    take(0, 100, streams[1]);
    give(0, streams[1]);
    if (good(aclrtMemPoolDestroy(pool))) {
        pool = NULL;
        memset(blocks, 0, sizeof(blocks));
    }
}

static void pool_clean(void)
{
    acl_ok(aclrtSynchronizeStream(streams[0]));
    acl_ok(aclrtSynchronizeStream(streams[1]));
    if (pool != NULL) {
        acl_ok(aclrtMemPoolDestroy(pool));
    }
    pool = NULL;
    memset(blocks, 0, sizeof(blocks));
}

static void *host;
static bool registered;

static void host_go(void)
{
    if (!good(aclrtMallocHost(&host, PAGE))) {
        host = NULL;
        return;
    }
    registered = good(aclrtHostRegisterV2(host, PAGE, ACL_HOST_REG_MAPPED));
    if (registered) {
        acl_ok(aclrtHostUnregister(host));
        registered = false;
    }
    char key[65];
    void *device = NULL;
    if (good(aclrtMalloc(&device, PAGE, ACL_MEM_MALLOC_HUGE_FIRST))) {
        if (good(aclrtIpcMemGetExportKey(device, PAGE, key, sizeof(key), 0))) {
            acl_ok(aclrtIpcMemClose(key));
        }
        while (!good(aclrtFree(device))) {
        }
    }
}

static void host_clean(void)
{
    if (host != NULL) {
        acl_ok(aclrtFreeHost(host));
    }
    host = NULL;
}

static void *pieces[6];

/* Memory that is new to the driver, parts of memory that it keeps, and a size that it does not keep. */
static void malloc_go(void)
{
    static const struct {
        size_t size;
        aclrtMemMallocPolicy policy;
    } rows[] = {{4096, ACL_MEM_MALLOC_NORMAL_ONLY},   {4096, ACL_MEM_MALLOC_NORMAL_ONLY_P2P},
                {6 * MIB, ACL_MEM_MALLOC_HUGE_ONLY},  {2 * MIB, ACL_MEM_MALLOC_HUGE_ONLY},
                {40 * MIB, ACL_MEM_MALLOC_HUGE_ONLY}, {2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (good(aclrtMallocAlign32(&pieces[i], rows[i].size, rows[i].policy)) && i % 2 == 0 &&
            good(aclrtFree(pieces[i]))) {
            pieces[i] = NULL;
        }
    }
}

static void malloc_clean(void)
{
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        if (pieces[i] != NULL) {
            acl_ok(aclrtFree(pieces[i]));
        }
        pieces[i] = NULL;
    }
}

static const struct trial trials[] = {
    {virtual_go, virtual_clean}, {pool_go, pool_clean}, {malloc_go, malloc_clean}, {host_go, host_clean}};

/* --- the device fails --- */

/* Returns the number of calls that fail without any fault. */
static uint64_t errors_alone(const struct trial *t)
{
    errors = 0;
    t->go();
    t->clean();
    return errors;
}

static void fail_device(const struct trial *t, weir_status status)
{
    const size_t before = not_allocated();
    const uint64_t anyway = errors_alone(t);
    uint64_t failed = 0, calls = 0, nth = 0;
    do {
        nth++;
        weir_sim_stats start = WEIR_SIM_STATS_INIT, stop = WEIR_SIM_STATS_INIT;
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = WEIR_CALL_ANY;
        fault.nth = nth;
        fault.status = status;
        assert_int_equal(weir_sim_fault_arm(acl__rt.sim, &fault), WEIR_OK);
        assert_int_equal(weir_sim_get_stats(acl__rt.sim, &start), WEIR_OK);
        errors = 0;
        t->go();
        failed += errors > anyway;
        assert_int_equal(weir_sim_get_stats(acl__rt.sim, &stop), WEIR_OK);
        weir_sim_fault_clear(acl__rt.sim);
        t->clean();
        assert_int_equal(not_allocated(), before);
        assert_int_equal(errors_alone(t), anyway);
        calls = 0;
        for (int i = 0; i < WEIR_CALL_COUNT; i++) {
            calls += stop.calls[i] - start.calls[i];
        }
    } while (calls >= nth);
    print_message("%d device calls, each failed once: %d times the caller heard of it\n", (int)calls, (int)failed);
    assert_true(failed > 0);
}

/* The first test of the program, because the later tests leave memory in caches. */
TEST(host_memory_runs_out)
{
    if (CANNOT_REPLACE_MALLOC) {
        print_message("malloc cannot be replaced here: not tried\n");
        return;
    }
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        const size_t before = not_allocated();
        uint64_t nth = 0;
        for (host_struck = true; host_struck;) {
            nth++;
            host_struck = false;
            requests = 0;
            fail_at = nth;
            counting = true;
            trials[i].go();
            counting = false;
            trials[i].clean();
            assert_int_equal(not_allocated(), before);
        }
        print_message("%d requests for host memory, each failed once\n", (int)nth - 1);
        assert_true(nth > 1);
    }
}

TEST(the_device_fails_once)
{
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        fail_device(&trials[i], WEIR_OK); /* each call with its own status */
        fail_device(&trials[i], WEIR_ERR_DEVICE);
    }
}

/* Every n-th call of one kind fails, with n = 2, 3, ... So a call that undoes a failed call may fail too. */
TEST(the_device_fails_again_and_again)
{
    static const weir_device_call calls[] = {WEIR_CALL_VM_CREATE,  WEIR_CALL_VM_DESTROY,  WEIR_CALL_VM_MAP,
                                             WEIR_CALL_VM_UNMAP,   WEIR_CALL_VM_RELEASE,  WEIR_CALL_EVENT_QUERY,
                                             WEIR_CALL_EVENT_SYNC, WEIR_CALL_EVENT_RECORD};
    for (size_t i = 0; i < 2; i++) {
        for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
            const size_t before = not_allocated();
            for (uint64_t nth = 1; nth < 8; nth++) {
                weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
                fault.call = calls[c];
                fault.nth = nth;
                fault.status = WEIR_ERR_DEVICE;
                fault.repeat = true;
                assert_int_equal(weir_sim_fault_arm(acl__rt.sim, &fault), WEIR_OK);
                trials[i].go();
                weir_sim_fault_clear(acl__rt.sim);
                trials[i].clean();
                assert_int_equal(not_allocated(), before);
            }
        }
    }
}

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&streams[0]));
    acl_ok(aclrtCreateStream(&streams[1]));
    acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtDestroyStream(streams[0]));
    acl_ok(aclrtDestroyStream(streams[1]));
    return 0;
}

ACL_ENVIRONMENT(CAPACITY, "64MiB")
ACL_ENVIRONMENT(REPORT, "none")
ACL_ENVIRONMENT(DRIVER_CACHE, "1") /* after the rig, which turns it off */
ALL_TESTS(set_up, tear_down)
