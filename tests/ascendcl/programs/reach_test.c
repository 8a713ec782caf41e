/* reach_test.c: the auditor on work that touches another device's memory: kernels, sets and copies, with and without
 * peer access, on memory of each kind. */
#include "rig/acl.h"

#include <string.h>
#include <weir/ascendcl.h>

enum { SIZE = 2 << 20 };

static aclrtContext contexts[2];
static aclrtStream streams[2];

static int set_up(void **unused)
{
    (void)unused;
    for (int32_t i = 0; i < 2; i++) {
        acl_ok(aclrtSetDevice(i));
        acl_ok(aclrtGetCurrentContext(&contexts[i]));
        acl_ok(aclrtCreateStream(&streams[i]));
    }
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    for (int32_t i = 0; i < 2; i++) {
        acl_ok(aclrtSetCurrentContext(contexts[i]));
        acl_ok(aclrtDestroyStream(streams[i]));
        acl_ok(aclrtResetDevice(i));
    }
    return 0;
}

/* Allocates memory of a device, which stays current. */
static void *memory_of(int device)
{
    void *memory = NULL;
    acl_ok(aclrtSetCurrentContext(contexts[device]));
    acl_ok(aclrtMalloc(&memory, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    return memory;
}

/* Runs a kernel on the device that reads its own range and the given one. */
static void touch(int device, void *memory)
{
    void *own = memory_of(device);
    const weir_ascendcl_range ranges[] = {{own, SIZE, false}, {memory, SIZE, true}};
    weir_ascendcl_kernel kernel = {.struct_size = sizeof(kernel), .tag = "kernel", .ranges = ranges, .range_count = 2};
    acl_ok(weir_ascendcl_launch(streams[device], &kernel));
    acl_ok(aclrtSynchronizeStream(streams[device]));
    acl_ok(aclrtFree(own));
}

static uint64_t found;

/* Checks for `count` findings since the last check, all of them of this kind. */
static void expect_found(uint64_t count)
{
    const uint64_t before = found;
    found = weir_ascendcl_finding_count("foreign_memory");
    assert_int_equal(found - before, count);
    assert_int_equal(weir_ascendcl_finding_count(NULL), found);
}

static void peer_access(int device, int32_t peer, bool enable)
{
    acl_ok(aclrtSetCurrentContext(contexts[device]));
    acl_ok(enable ? aclrtDeviceEnablePeerAccess(peer, 0) : aclrtDeviceDisablePeerAccess(peer));
}

TEST(a_kernel_needs_peer_access_in_its_direction)
{
    void *memory = memory_of(0);
    touch(0, memory);
    expect_found(0);
    touch(1, memory);
    expect_found(1);
    char text[512] = "";
    assert_true(weir_ascendcl_finding((size_t)found - 1, text, sizeof(text)));
    assert_non_null(strstr(text, "kernel \"kernel\" on stream"));
    assert_non_null(strstr(text, "the work is device 1's, the memory device 0's, and there is no peer access"));
    assert_string_equal(weir_ascendcl_finding_kind((size_t)found - 1), "foreign_memory");
    peer_access(0, 1, true); /* the other direction */
    touch(1, memory);
    expect_found(1);
    peer_access(1, 0, true);
    touch(1, memory);
    expect_found(0);
    peer_access(1, 0, false);
    peer_access(0, 1, false);
    touch(1, memory);
    expect_found(1);
    acl_ok(aclrtFree(memory));
}

TEST(copies_need_peer_access_in_one_direction)
{
    void *from = memory_of(0);
    void *to = memory_of(1);
    char host[64] = "host";
    for (int way = 0; way < 3; way++) { /* no access, the reader's, the writer's */
        if (way > 0) {
            peer_access(way - 1, way == 1 ? 1 : 0, true);
        }
        acl_ok(aclrtMemcpy(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
        expect_found(way == 0 ? 1 : 0);
        for (int i = 0; i < 2; i++) {
            acl_ok(aclrtSetCurrentContext(contexts[i]));
            acl_ok(aclrtMemcpyAsync(to, SIZE, from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, streams[i]));
            acl_ok(aclrtSynchronizeStream(streams[i]));
        }
        expect_found(way == 0 ? 2 : 0);
        if (way > 0) {
            peer_access(way - 1, way == 1 ? 1 : 0, false);
        }
    }
    /* A blocking copy finds memory by its address, whichever device is current. */
    acl_ok(aclrtSetCurrentContext(contexts[1]));
    acl_ok(aclrtMemcpy(from, SIZE, host, sizeof(host), ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtMemcpy(host, sizeof(host), from, sizeof(host), ACL_MEMCPY_DEVICE_TO_HOST));
    acl_ok(aclrtMemset(from, SIZE, 1, SIZE));
    expect_found(0);
    acl_ok(aclrtMemsetAsync(from, SIZE, 1, SIZE, streams[1])); /* a task of device 1 */
    acl_ok(aclrtSynchronizeStream(streams[1]));
    expect_found(1);
    acl_ok(aclrtFree(from));
    acl_ok(aclrtFree(to));
}

TEST(a_mapping_is_open_to_the_devices_that_were_granted)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    const aclrtPhysicalMemProp on_host = {.memAttr = ACL_MEM_NORMAL, .location = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    aclrtMemAccessDesc access = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
                                 .location = {1, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle = NULL;
    aclrtDrvMemHandle host_handle = NULL;
    void *memory = NULL;
    acl_ok(aclrtSetCurrentContext(contexts[0]));
    acl_ok(aclrtReserveMemAddress(&memory, SIZE, 0, NULL, 0));
    acl_ok(aclrtMallocPhysical(&handle, SIZE, &prop, 0));
    acl_ok(aclrtMapMem(memory, SIZE, 0, handle, 0));
    touch(0, memory);
    expect_found(0);
    touch(1, memory);
    expect_found(1);
    acl_ok(aclrtMemSetAccess(memory, SIZE, &access, 1));
    touch(1, memory);
    expect_found(0);
    acl_ok(aclrtUnmapMem(memory));
    acl_ok(aclrtMapMem(memory, SIZE, 0, handle, 0)); /* closes it */
    touch(1, memory);
    expect_found(1);
    acl_ok(aclrtUnmapMem(memory));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtReleaseMemAddress(memory));
    acl_ok(aclrtReserveMemAddress(&memory, SIZE, 0, NULL, 0));
    acl_ok(aclrtMallocPhysical(&host_handle, SIZE, &on_host, 0));
    acl_ok(aclrtMapMem(memory, SIZE, 0, host_handle, 0));
    touch(0, memory); /* memory of no device */
    touch(1, memory);
    expect_found(0);
    acl_ok(aclrtUnmapMem(memory));
    acl_ok(aclrtFreePhysical(host_handle));
    acl_ok(aclrtReleaseMemAddress(memory));
}

TEST(memory_of_a_pool_is_its_devices)
{
    const aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                     .maxSize = 8 * SIZE};
    aclrtMemPool pool = NULL;
    void *memory = NULL;
    acl_ok(aclrtSetCurrentContext(contexts[0]));
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    acl_ok(aclrtMemPoolMallocAsync(&memory, SIZE, pool, streams[0]));
    acl_ok(aclrtSynchronizeStream(streams[0]));
    touch(0, memory);
    expect_found(0);
    touch(1, memory);
    expect_found(1);
    acl_ok(aclrtSetCurrentContext(contexts[0]));
    acl_ok(aclrtMemPoolFreeAsync(memory, streams[0]));
    acl_ok(aclrtSynchronizeStream(streams[0]));
    acl_ok(aclrtMemPoolDestroy(pool));
}

TEST(an_imported_key_may_open_the_memory)
{
    void *memory = memory_of(0);
    void *imported = NULL;
    char key[65] = "";
    acl_ok(aclrtIpcMemGetExportKey(memory, SIZE, key, sizeof(key), ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION));
    acl_ok(aclrtSetCurrentContext(contexts[1]));
    acl_ok(aclrtIpcMemImportByKey(&imported, key, 0));
    touch(1, imported);
    expect_found(1);
    acl_ok(aclrtIpcMemClose(key));
    acl_ok(aclrtIpcMemImportByKey(&imported, key, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS));
    touch(1, imported);
    expect_found(0);
    acl_ok(aclrtIpcMemClose(key));
    acl_ok(aclrtIpcMemClose(key));
    peer_access(1, 0, false);
    acl_ok(aclrtFree(memory));
}

ACL_ENVIRONMENT(CAPACITY, "256MiB")
ALL_TESTS(set_up, tear_down)
