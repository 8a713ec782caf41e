/* large_test.c: single blocks of 4 GiB and more, in each kind of memory. Only touched pages use real memory. */
#include "rig/acl.h"

#include <string.h>

#define SIZE (5 * GIB)

/* Writes bytes at both ends and beyond 4 GiB from the host, and reads them back through another block. */
static void check(char *p, char *other)
{
    static const size_t at[] = {0, 4 * GIB - 4, 4 * GIB, SIZE - 8};
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        const uint64_t sent = 0x1122334455667788u + i;
        uint64_t got = 0;
        acl_ok(aclrtMemcpy(p + at[i], 8, &sent, 8, ACL_MEMCPY_HOST_TO_DEVICE));
        acl_ok(aclrtMemcpy(other + at[i], 8, p + at[i], 8, ACL_MEMCPY_DEVICE_TO_DEVICE));
        acl_ok(aclrtMemcpy(&got, 8, other + at[i], 8, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_int_equal(got, sent);
    }
}

TEST(every_kind_of_memory_is_64_bits_wide)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    aclrtStream stream = NULL;
    aclrtMemPool pool = NULL;
    aclrtDrvMemHandle handle = NULL;
    void *allocated = NULL, *mapped = NULL, *pooled = NULL;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMallocAlign32(&allocated, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtReserveMemAddress(&mapped, SIZE, 0, NULL, 0));
    acl_ok(aclrtMallocPhysical(&handle, SIZE, &prop, 0));
    acl_ok(aclrtMapMem(mapped, SIZE, 0, handle, 0));
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    acl_ok(aclrtMemPoolMallocAsync(&pooled, SIZE, pool, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    size_t free_bytes = 0, total = 0;
    acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    assert_int_equal(total - free_bytes, 3 * SIZE);
    check(allocated, mapped);
    check(mapped, pooled);
    check(pooled, allocated);
    uint64_t used = 0;
    acl_ok(aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(used, SIZE);
    acl_ok(aclrtMemPoolFreeAsync(pooled, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemPoolDestroy(pool));
    acl_ok(aclrtUnmapMem(mapped));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtReleaseMemAddress(mapped));
    acl_ok(aclrtFree(allocated));
    acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    assert_int_equal(free_bytes, total);
    void *host = NULL;
    acl_ok(aclrtMallocHost(&host, SIZE));
    ((char *)host)[SIZE - 1] = 1;
    acl_ok(aclrtHostRegisterV2(host, SIZE, ACL_HOST_REG_MAPPED));
    acl_ok(aclrtHostUnregister(host));
    acl_ok(aclrtFreeHost(host));
    acl_ok(aclrtDestroyStream(stream));
}

ACL_ENVIRONMENT(CAPACITY, "16GiB") /* the simulator reserves addresses for twenty times the capacity */
ACL_ENVIRONMENT(DEVICES, "1")
ACL_ENVIRONMENT(EXIT_CODE, "3")
