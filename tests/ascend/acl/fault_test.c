/* fault_test.c: ACL fails for a time, from each call on, in all functions or in one, and then each function for good.
 *
 * The program runs itself. Given a number it is a scenario that uses all of weir::acl with as many calls, under the
 * faults of WEIR_ASCENDCL_FAULTS. The scenario repeats a call that failed, accepts only results that weir may return,
 * and at the end requires all memory to be back. Without arguments the program runs the scenario for each ACL call of
 * the scenario.
 */
#include "acl_test.h"

#include "fault_run.h"

/* --- the scenario --- */

/* bytes of each block that a run writes: the pages are real, and the scenario runs some hundred times */
#define TOUCHED 4096u

static void *alloc_by(const struct registration *r, size_t size)
{
    void *block = NULL;
    for (int i = 0; i < tries && block == NULL; i++) {
        block = r->alloc(r->object, size);
    }
    given_up |= block == NULL;
    return block;
}

/* Allocates, queues work and frees, as the vendor's executor does. */
static void execute(aclrtStream stream, int rounds)
{
    struct registration r = {0};
    bool found = false;
    for (int i = 0; i < tries && !found; i++) {
        found = read_registration(stream, &r);
    }
    for (int i = 0; found && i < rounds; i++) {
        const size_t size = (size_t)(1 + i % 3) * 3700 * 1024;
        void *block = alloc_by(&r, size);
        if (block != NULL) {
            TRY_ACL(aclrtMemsetAsync(r.address(block), size, i, TOUCHED, stream));
            r.free(r.object, block);
        }
    }
}

static void use_hints(weir_pool *pool, aclrtStream first, aclrtStream second)
{
    aclrtEvent event = NULL;
    bool complete = false;
    TRY_ACL(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    if (event != NULL) {
        TRY(weir_acl_record_event(pool, event, first));
        TRY(weir_acl_wait_event(pool, second, event));
        TRY(weir_acl_query_event(pool, event, &complete));
        TRY(weir_acl_sync_event(pool, event));
        TRY(weir_acl_destroy_event(pool, event));
    }
    TRY(weir_acl_sync_stream(pool, second));
}

static void check_pool(weir_pool *pool)
{
    const char *why = "";
    if (weir_pool_check(pool, &why) == WEIR_ERR_INTERNAL) {
        wrong(why, WEIR_ERR_INTERNAL);
    }
}

static void check_nothing_registered(aclrtStream stream)
{
    struct registration r = {0};
    if (read_registration(stream, &r)) {
        wrong("a registration is left", 0);
    }
}

static void detach(weir_acl_attachment *attachment)
{
    if (attachment != NULL) {
        TRY(weir_acl_detach(attachment));
    }
}

static void use_pool(weir_pool *pool, aclrtStream stream[3])
{
    weir_acl_attachment *attachment[3] = {NULL, NULL, NULL};
    TRY(weir_acl_attach(pool, stream[0], &attachment[0]));
    TRY(weir_acl_attach(pool, stream[1], &attachment[1]));
    TRY(weir_acl_follow(pool, stream[2], &attachment[2]));
    execute(stream[0], 4);
    execute(stream[1], 4);
    use_hints(pool, stream[0], stream[1]);
    execute(stream[1], 3);
    check_pool(pool);
    uint64_t released = 0;
    TRY(weir_pool_trim(pool, 0, WEIR_TRIM_WAIT, &released));
    execute(stream[0], 3);

    /* One stream is destroyed while it is attached, with a block still held; all other streams are detached first. */
    struct registration r = {0};
    void *held = attachment[0] != NULL && read_registration(stream[0], &r) ? alloc_by(&r, 100000) : NULL;
    const aclrtStream gone = stream[0];
    TRY_ACL(aclrtDestroyStream(stream[0]));
    if (held != NULL) {
        r.free(r.object, held);
    }
    check_pool(pool);
    for (int i = 0; i < 3; i++) {
        detach(attachment[i]);
    }
    if (!given_up) {
        check_nothing_registered(gone);
        check_nothing_registered(stream[1]);
    }
    TRY_ACL(aclrtDestroyStream(stream[1]));
    TRY_ACL(aclrtDestroyStream(stream[2]));
    check_pool(pool);
}

/* The workspace of a stream grows and is used again; the stream is destroyed with it. */
static void use_workspace(weir_pool *pool)
{
    aclrtStream stream = NULL;
    TRY_ACL(aclrtCreateStream(&stream));
    for (uint64_t size = 100000; stream != NULL && size < 20 * MIB; size *= 5) {
        void *workspace = NULL;
        TRY(weir_acl_workspace(pool, stream, size, &workspace));
        if (workspace != NULL) {
            TRY_ACL(aclrtMemsetAsync(workspace, size, 1, TOUCHED, stream));
        }
    }
    if (stream != NULL) {
        TRY_ACL(aclrtDestroyStream(stream));
    }
    TRY(weir_acl_workspace_release(pool));
}

/* One attachment for all streams. A stream that could not be attached works with ACL's memory. */
static void use_whole_device(weir_pool *pool)
{
    weir_acl_attachment *attachment = NULL;
    aclrtStream home = NULL;
    TRY(weir_acl_attach_device(pool, &attachment));
    TRY_ACL(aclrtCtxGetCurrentDefaultStream(&home));
    for (int i = 0; i < 2; i++) {
        aclrtStream stream = NULL;
        TRY_ACL(aclrtCreateStream(&stream));
        if (stream != NULL) {
            execute(stream, 2);
            TRY_ACL(aclrtDestroyStream(stream));
        }
    }
    if (home != NULL) {
        execute(home, 2);
    }
    use_workspace(pool);
    detach(attachment);
    if (home != NULL && !given_up) {
        check_nothing_registered(home);
    }
    check_pool(pool);
}

static void use_device(weir_device *device, uint32_t flags)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_pool *pool = NULL;
    config.device = device;
    config.strategy = weir_caching_strategy();
    config.flags = flags;
    TRY(weir_pool_create(&config, &pool));
    if (pool == NULL) {
        return;
    }
    aclrtStream stream[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) {
        TRY_ACL(aclrtCreateStream(&stream[i]));
    }
    if (stream[0] != NULL && stream[1] != NULL && stream[2] != NULL) {
        use_pool(pool, stream);
        use_workspace(pool);
        use_whole_device(pool);
    }
    /* destroys the pool, unless a stream is still attached; the device remembers what could not be given back */
    const weir_status status = weir_pool_destroy(pool);
    if (status != WEIR_OK && !may_fail_with(status)) {
        wrong("weir_pool_destroy", status);
    }
    given_up |= status == WEIR_ERR_BUSY;
}

static int scenario(void)
{
    size_t left = 0;
    size_t total = 0;
    TRY_ACL(aclrtSetDevice(0));
    for (int with_pages = 0; with_pages < 2 && !given_up; with_pages++) {
        weir_device *device = NULL;
        weir_device_info info = WEIR_DEVICE_INFO_INIT;
        TRY(weir_acl_device_create(NULL, &device));
        if (device == NULL || weir_device_get_info(device, &info) != WEIR_OK) {
            continue;
        }
        if (with_pages == 0 || (info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0) {
            use_device(device, with_pages != 0 ? 0 : (uint32_t)WEIR_POOL_REGIONS);
        }
        TRY(weir_device_destroy(device)); /* refused while a stream is still attached */
    }
    outage_ends();
    weir_device *next = NULL; /* ends the last one, if ACL has kept it */
    TRY(weir_acl_device_create(NULL, &next));
    TRY(weir_device_destroy(next));
    TRY_ACL(aclrtResetDevice(0)); /* the driver keeps freed memory until the device's reset */
    TRY_ACL(aclrtSetDevice(0));
    TRY_ACL(aclrtGetMemInfo(ACL_HBM_MEM, &left, &total));
    if (!given_up && left != total) {
        wrong("memory that is not back", (int)(total - left));
    }
    TRY_ACL(aclrtResetDevice(0));
    return given_up ? REFUSED : DONE;
}

TEST(test_outages)
{
    fail_from_each_call();
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
    "aclrtCreateStream",
    "aclrtDestroyStream",
    "aclrtRegStreamStateCallback",
    "aclrtAllocatorCreateDesc",
    "aclrtAllocatorDestroyDesc",
    "aclrtAllocatorSetObjToDesc",
    "aclrtAllocatorSetAllocFuncToDesc",
    "aclrtAllocatorSetFreeFuncToDesc",
    "aclrtAllocatorSetAllocAdviseFuncToDesc",
    "aclrtAllocatorSetGetAddrFromBlockFuncToDesc",
    "aclrtAllocatorRegister",
    "aclrtAllocatorGetByStream",
    "aclrtAllocatorUnregister",
};

TEST(test_outages_of_one_function)
{
    fail_alone(functions, sizeof(functions) / sizeof(functions[0]));
}

TEST(test_each_function_fails_for_good)
{
    fail_for_good(functions, sizeof(functions) / sizeof(functions[0]));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return scenario();
    }
    fault_run_begin(argv[0]);
    return run_all_tests("tests");
}
