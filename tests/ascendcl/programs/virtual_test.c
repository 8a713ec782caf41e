/* virtual_test.c: reserved addresses, physical memory and mappings: refused calls, costs, and calls that may be
 * repeated. A random run compares every answer with a model of the rules. */
#include "rig/acl.h"

#include <string.h>
#include <unistd.h>

#define PAGE (2 * MIB)
#define BY_KERNEL ACL_ERROR_RT_DRV_INTERNAL_ERROR /* refused by the kernel module of the driver */

static const aclrtPhysicalMemProp on_device = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                               .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                               .memAttr = ACL_HBM_MEM_HUGE,
                                               .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};

static aclrtDrvMemHandle physical(size_t size)
{
    aclrtDrvMemHandle handle = NULL;
    acl_ok(aclrtMallocPhysical(&handle, size, &on_device, 0));
    return handle;
}

static char *reserve(size_t size)
{
    void *pointer = NULL;
    acl_ok(aclrtReserveMemAddress(&pointer, size, 0, NULL, 0));
    return pointer;
}

TEST(reserving_checks_its_arguments)
{
    void *p = (void *)1;
    const aclError invalid = ACL_ERROR_INVALID_PARAM, refused = ACL_ERROR_RT_PARAM_INVALID;
    acl_expect(invalid, aclrtReserveMemAddress(NULL, PAGE, 0, NULL, 0));
    acl_expect(invalid, aclrtReserveMemAddress(&p, 0, 0, NULL, 0));
    acl_expect(invalid, aclrtReserveMemAddress(&p, PAGE, 0, NULL, 2));
    acl_expect(refused, aclrtReserveMemAddress(&p, PAGE, 4096, NULL, 0));
    acl_expect(refused, aclrtReserveMemAddress(&p, PAGE, 0, (void *)0x1000, 0));
    acl_expect(BY_KERNEL, aclrtReserveMemAddress(&p, PAGE, 0, (void *)(UINT64_C(24) << 40), 0));
    acl_expect(BY_KERNEL, aclrtReserveMemAddress(&p, PAGE, 0, (void *)(UINT64_C(16) << 40), 0));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtReserveMemAddress(&p, PAGE, 0, (void *)(UINT64_C(20) << 40), 0));
    void *third =
        (void *)((UINT64_C(20) << 40) + 2 * PAGE); /* sizes are rounded up to a power of two, and aligned to it */
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtReserveMemAddress(&p, 2 * PAGE, 0, third, 0));
    acl_expect(refused, aclrtReserveMemAddress(&p, 3 * PAGE, 0, third, 0));
    acl_expect(refused, aclrtReserveMemAddress(&p, 2048 * MIB, 0, (void *)((UINT64_C(20) << 40) + 512 * MIB), 0));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               aclrtReserveMemAddress(&p, 2048 * MIB, 0, (void *)((UINT64_C(20) << 40) + 1024 * MIB), 0));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtReserveMemAddress(&p, SIZE_MAX, 0, NULL, 0));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtReserveMemAddress(&p, SIZE_MAX / 4, 0, NULL, 0));
    assert_ptr_equal(p, (void *)1);
    acl_ok(aclrtReserveMemAddress(&p, PAGE, 0, NULL, 1));
    assert_int_equal((uintptr_t)p % PAGE, 0);
    acl_expect(invalid, aclrtReleaseMemAddress(NULL));
    acl_expect(refused, aclrtReleaseMemAddress((char *)p + PAGE / 2));
    acl_ok(aclrtReleaseMemAddress(p));
    acl_expect(refused, aclrtReleaseMemAddress(p));
}

TEST(physical_memory_checks_its_properties)
{
    aclrtDrvMemHandle handle = NULL;
    const aclError invalid = ACL_ERROR_INVALID_PARAM;
    aclrtPhysicalMemProp prop = on_device;
    acl_expect(invalid, aclrtMallocPhysical(NULL, PAGE, &prop, 0));
    acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, NULL, 0));
    acl_expect(invalid, aclrtMallocPhysical(&handle, 0, &prop, 0));
    acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, &prop, 1));
    prop.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
    acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop = on_device;
    prop.allocationType = (aclrtMemAllocationType)1;
    acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop = on_device;
    prop.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop.location.type = ACL_MEM_LOCATION_TYPE_MANAGED;
    acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop.location.type = (aclrtMemLocationType)5;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop = on_device;
    prop.location.id = 2;
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop = on_device;
    prop.reserve = 1;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop = on_device;
    acl_expect(BY_KERNEL, aclrtMallocPhysical(&handle, PAGE + 1, &prop, 0));
    acl_expect(BY_KERNEL, aclrtMallocPhysical(&handle, PAGE / 2, &prop, 0));
    static const aclrtMemAttr never[] = {
        ACL_DDR_MEM,     ACL_HBM_MEM, ACL_HBM_MEM_P2P_HUGE, ACL_HBM_MEM_P2P_NORMAL, ACL_HBM_MEM_P2P_HUGE1G,
        (aclrtMemAttr)18};
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        prop.memAttr = never[i];
        acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    }
    static const aclrtMemAttr of_host[] = {ACL_DDR_MEM_HUGE, ACL_DDR_MEM_NORMAL, ACL_DDR_MEM_P2P_HUGE,
                                           ACL_DDR_MEM_P2P_NORMAL};
    for (size_t i = 0; i < sizeof(of_host) / sizeof(of_host[0]); i++) {
        prop = on_device;
        prop.memAttr = of_host[i];
        acl_expect(invalid, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
        prop.location = (aclrtMemLocation){1, ACL_MEM_LOCATION_TYPE_HOST};
        acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
        prop.location.id = 0;
        acl_ok(aclrtMallocPhysical(&handle, PAGE, &prop, 0));
        acl_ok(aclrtFreePhysical(handle));
    }
    acl_expect(invalid, aclrtFreePhysical(NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtFreePhysical(handle));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtFreePhysical(&handle));
}

TEST(granularity_is_2_mib_or_1_gib)
{
    aclrtPhysicalMemProp prop = on_device;
    size_t bytes = 0;
    acl_ok(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
    assert_int_equal(bytes, PAGE);
    acl_ok(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &bytes));
    assert_int_equal(bytes, PAGE);
    prop.memAttr = ACL_HBM_MEM_HUGE1G;
    acl_ok(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
    assert_int_equal(bytes, 1024 * MIB);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID,
               aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, &bytes));
    acl_expect(ACL_ERROR_INVALID_PARAM,
               aclrtMemGetAllocationGranularity(NULL, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
    acl_expect(ACL_ERROR_INVALID_PARAM,
               aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, NULL));
    prop.memAttr = ACL_HBM_MEM;
    acl_expect(ACL_ERROR_INVALID_PARAM,
               aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
}

TEST(a_mapping_is_whole_and_alone)
{
    const aclError invalid = ACL_ERROR_INVALID_PARAM, refused = BY_KERNEL;
    char *p = reserve(4 * PAGE);
    const aclrtDrvMemHandle one = physical(PAGE), two = physical(2 * PAGE);
    acl_expect(invalid, aclrtMapMem(NULL, PAGE, 0, one, 0));
    acl_expect(invalid, aclrtMapMem(p, PAGE, 0, NULL, 0));
    acl_expect(invalid, aclrtMapMem(p, 0, 0, one, 0));
    acl_expect(invalid, aclrtMapMem(p, PAGE, 0, one, 1));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMapMem(p, PAGE, PAGE, two, 0));
    acl_expect(refused, aclrtMapMem(p, PAGE, 0, two, 0));
    acl_expect(refused, aclrtMapMem(p, 2 * PAGE, 0, one, 0));
    acl_expect(refused, aclrtMapMem(p, PAGE - 1, 0, one, 0));
    acl_expect(refused, aclrtMapMem(p + 4096, PAGE, 0, one, 0));
    acl_expect(refused, aclrtMapMem(p + 3 * PAGE, 2 * PAGE, 0, two, 0));
    acl_expect(refused, aclrtMapMem(p + 4 * PAGE, PAGE, 0, one, 0));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMapMem(p, PAGE, 0, p, 0));
    acl_ok(aclrtMapMem(p + PAGE, 2 * PAGE, 0, two, 0));
    acl_expect(refused, aclrtMapMem(p + 2 * PAGE, PAGE, 0, one, 0));
    acl_expect(refused, aclrtMapMem(p, 2 * PAGE, 0, two, 0));
    acl_ok(aclrtMapMem(p, PAGE, 0, one, 0));
    acl_expect(refused, aclrtReleaseMemAddress(p));
    acl_expect(invalid, aclrtUnmapMem(NULL));
    acl_expect(refused, aclrtUnmapMem(p + 2 * PAGE));
    acl_expect(refused, aclrtUnmapMem(p + 3 * PAGE));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(p));
    acl_ok(aclrtUnmapMem(p + PAGE));
    acl_expect(refused, aclrtUnmapMem(p + PAGE));
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtFreePhysical(one));
    acl_ok(aclrtFreePhysical(two));
    acl_ok(aclrtReleaseMemAddress(p));
}

/* One handle at two addresses shows the same bytes, and lives until both mappings are removed. */
TEST(one_handle_may_be_mapped_twice)
{
    char *p = reserve(2 * PAGE), *q = reserve(PAGE);
    char got[4] = {0};
    const size_t before = left();
    const aclrtDrvMemHandle one = physical(PAGE);
    acl_ok(aclrtMapMem(p + PAGE, PAGE, 0, one, 0));
    acl_ok(aclrtMemset(p + PAGE, PAGE, 7, PAGE));
    acl_ok(aclrtMapMem(q, PAGE, 0, one, 0)); /* a second mapping costs no memory */
    assert_int_equal(before - left(), PAGE);
    acl_ok(aclrtMemcpy(got, 4, q + PAGE - 4, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(got, "\7\7\7\7", 4);
    acl_ok(aclrtMemset(q, 4, 9, 4));
    acl_ok(aclrtMemcpy(got, 4, p + PAGE, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(got, "\11\11\11\11", 4);
    acl_ok(aclrtFreePhysical(one));
    acl_ok(aclrtUnmapMem(p + PAGE));
    assert_int_equal(before - left(), PAGE);
    acl_ok(aclrtMemset(q, 4, 1, 4));
    acl_ok(aclrtUnmapMem(q));
    assert_int_equal(before, left());
    acl_ok(aclrtReleaseMemAddress(p));
    acl_ok(aclrtReleaseMemAddress(q));
}

/* Bytes are written through one mapping, and copied into and out of the middle of two adjacent mappings. */
TEST(mapped_memory_is_device_memory)
{
    char *p = reserve(2 * PAGE);
    char sent[64], got[64];
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(p, 1, 1, 1));
    const aclrtDrvMemHandle a = physical(PAGE), b = physical(PAGE);
    acl_ok(aclrtMapMem(p, PAGE, 0, a, 0));
    acl_ok(aclrtMapMem(p + PAGE, PAGE, 0, b, 0));
    memset(sent, 0x5a, sizeof(sent));
    acl_ok(aclrtMemcpy(p + PAGE - 32, 64, sent, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtMemcpy(got, 64, p + PAGE - 32, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(sent, got, 64);
    aclrtPtrAttributes attributes;
    acl_ok(aclrtPointerGetAttributes(p + 5, &attributes));
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(attributes.location.id, 0);
    assert_int_equal(attributes.pageSize, PAGE);
    void *base = NULL;
    size_t size = 0;
    acl_ok(aclrtMemGetAddressRange(p + PAGE + 7, &base, &size));
    assert_ptr_equal(base, p + PAGE);
    assert_int_equal(size, PAGE);
    acl_ok(aclrtUnmapMem(p + PAGE));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(got, 64, p + PAGE - 32, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemGetAddressRange(p + PAGE + 7, &base, &size));
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtFreePhysical(a));
    acl_ok(aclrtFreePhysical(b));
    acl_ok(aclrtReleaseMemAddress(p));
}

TEST(the_same_address_again_and_again)
{
    char *p = reserve(4 * MIB);
    const size_t before = left();
    for (int i = 0; i < 100; i++) {
        const aclrtDrvMemHandle handle = physical(4 * MIB);
        assert_int_equal(before - left(), 4 * MIB);
        acl_ok(aclrtMapMem(p, 4 * MIB, 0, handle, 0));
        acl_ok(aclrtMemset(p, 4 * MIB, i, 4 * MIB));
        char got = 0;
        acl_ok(aclrtMemcpy(&got, 1, p + 4 * MIB - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_int_equal(got, (char)i);
        if (i % 2 == 0) {
            acl_ok(aclrtUnmapMem(p));
            acl_ok(aclrtFreePhysical(handle));
        } else {
            acl_ok(aclrtFreePhysical(handle));
            assert_int_equal(before - left(), 4 * MIB);
            acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtFreePhysical(handle));
            acl_ok(aclrtUnmapMem(p));
        }
        assert_int_equal(left(), before);
    }
    acl_ok(aclrtReleaseMemAddress(p));
}

/* Physical memory keeps its bytes while it is not mapped. */
TEST(contents_move_with_the_handle)
{
    char *p = reserve(2 * PAGE);
    const aclrtDrvMemHandle handle = physical(PAGE);
    int64_t got = 0;
    const int64_t sent = 0x123456789;
    acl_ok(aclrtMapMem(p, PAGE, 0, handle, 0));
    acl_ok(aclrtMemcpy(p + 4096, 8, &sent, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtMapMem(p + PAGE, PAGE, 0, handle, 0));
    acl_ok(aclrtMemcpy(&got, 8, p + PAGE + 4096, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(got, sent);
    acl_ok(aclrtUnmapMem(p + PAGE));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtReleaseMemAddress(p));
}

TEST(retaining_takes_a_free_of_its_own)
{
    const size_t before = left();
    char *p = reserve(PAGE);
    const aclrtDrvMemHandle handle = physical(PAGE);
    aclrtDrvMemHandle again = NULL;
    acl_expect(BY_KERNEL, aclrtMemRetainAllocationHandle(p, &again));
    acl_ok(aclrtMapMem(p, PAGE, 0, handle, 0));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemRetainAllocationHandle(NULL, &again));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemRetainAllocationHandle(p, NULL));
    acl_expect(BY_KERNEL, aclrtMemRetainAllocationHandle(p + 4096, &again));
    acl_ok(aclrtMemRetainAllocationHandle(p, &again));
    assert_ptr_equal(again, handle);
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(before - left(), PAGE);
    acl_ok(aclrtFreePhysical(again));
    assert_int_equal(left(), before);
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtFreePhysical(again));
    acl_ok(aclrtReleaseMemAddress(p));
}

/* The first memory that is mapped into a reservation fixes the device of the reservation until its addresses are
 * released, even if this memory is unmapped before. */
TEST(one_reservation_is_of_one_device)
{
    aclrtPhysicalMemProp other = on_device;
    other.location.id = 1;
    aclrtDrvMemHandle b = NULL, h = NULL;
    char *p = reserve(3 * PAGE), *q = reserve(2 * PAGE), *r = reserve(PAGE);
    const aclrtDrvMemHandle a = physical(PAGE);
    acl_ok(aclrtMallocPhysical(&b, PAGE, &other, 0));
    other.location = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_HOST_NUMA};
    other.memAttr = ACL_DDR_MEM_HUGE;
    acl_ok(aclrtMallocPhysical(&h, PAGE, &other, 0));
    acl_ok(aclrtMapMem(p, PAGE, 0, a, 0));
    acl_expect(BY_KERNEL, aclrtMapMem(p + PAGE, PAGE, 0, b, 0));
    acl_expect(BY_KERNEL, aclrtMapMem(p + PAGE, PAGE, 0, h, 0));
    acl_ok(aclrtUnmapMem(p));
    acl_expect(BY_KERNEL, aclrtMapMem(p + PAGE, PAGE, 0, b, 0));
    acl_ok(aclrtMapMem(p + PAGE, PAGE, 0, a, 0));
    acl_ok(aclrtMapMem(r, PAGE, 0, b, 0));
    aclrtPtrAttributes attributes;
    acl_ok(aclrtPointerGetAttributes(r, &attributes));
    assert_int_equal(attributes.location.id, 1);
    acl_ok(aclrtMapMem(q, PAGE, 0, h, 0));
    acl_expect(BY_KERNEL, aclrtMapMem(q + PAGE, PAGE, 0, a, 0));
    acl_ok(aclrtPointerGetAttributes(q, &attributes));
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(attributes.pageSize, sysconf(_SC_PAGESIZE));
    acl_ok(aclrtUnmapMem(q));
    acl_ok(aclrtUnmapMem(r));
    acl_ok(aclrtUnmapMem(p + PAGE));
    acl_ok(aclrtFreePhysical(a));
    acl_ok(aclrtFreePhysical(b));
    acl_ok(aclrtFreePhysical(h));
    acl_ok(aclrtReleaseMemAddress(p));
    acl_ok(aclrtReleaseMemAddress(q));
    acl_ok(aclrtReleaseMemAddress(r));
}

TEST(access_is_checked)
{
    char *p = reserve(PAGE);
    const aclrtDrvMemHandle handle = physical(PAGE);
    aclrtMemAccessDesc desc = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
                               .location = {1, ACL_MEM_LOCATION_TYPE_DEVICE}};
    const aclError refused = ACL_ERROR_RT_PARAM_INVALID;
    acl_expect(BY_KERNEL, aclrtMemSetAccess(p, PAGE, &desc, 1));
    acl_ok(aclrtMapMem(p, PAGE, 0, handle, 0));
    acl_ok(aclrtMemSetAccess(p, PAGE, &desc, 1));
    acl_expect(refused, aclrtMemSetAccess(NULL, PAGE, &desc, 1));
    acl_expect(refused, aclrtMemSetAccess(p, PAGE, NULL, 1));
    acl_expect(refused, aclrtMemSetAccess(p, PAGE, &desc, 0));
    acl_expect(BY_KERNEL, aclrtMemSetAccess(p, PAGE / 2, &desc, 1));
    acl_expect(BY_KERNEL, aclrtMemSetAccess(p, 2 * PAGE, &desc, 1));
    acl_expect(BY_KERNEL, aclrtMemSetAccess(p + 4096, PAGE, &desc, 1));
    desc.flags = (aclrtMemAccessFlags)2;
    acl_expect(refused, aclrtMemSetAccess(p, PAGE, &desc, 1));
    desc.flags = ACL_RT_MEM_ACCESS_FLAGS_READ;
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemSetAccess(p, PAGE, &desc, 1));
    desc.flags = ACL_RT_MEM_ACCESS_FLAGS_NONE;
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemSetAccess(p, PAGE, &desc, 1));
    desc.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
    desc.location.id = 2;
    acl_expect(refused, aclrtMemSetAccess(p, PAGE, &desc, 1));
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtReleaseMemAddress(p));
}

/* Each device has 64 MiB: see main. */
TEST(capacity_is_the_devices_alone)
{
    aclrtDrvMemHandle handle = NULL, more = NULL;
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&handle, 66 * MIB, &on_device, 0));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&handle, SIZE_MAX / PAGE * PAGE, &on_device, 0));
    acl_ok(aclrtMallocPhysical(&handle, 64 * MIB, &on_device, 0));
    assert_int_equal(left(), 0);
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&more, PAGE, &on_device, 0));
    void *m = NULL;
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&m, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    aclrtPhysicalMemProp prop = on_device;
    prop.location.id = 1;
    acl_ok(aclrtMallocPhysical(&more, 64 * MIB, &prop, 0));
    acl_ok(aclrtFreePhysical(more));
    /* Host memory counts against the capacity of no device, and may exceed the capacity of all devices together. */
    prop.location = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_HOST};
    prop.memAttr = ACL_MEM_HUGE;
    acl_ok(aclrtMallocPhysical(&more, 192 * MIB, &prop, 0));
    assert_int_equal(left(), 0);
    acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(left(), 64 * MIB);
    acl_ok(aclrtMallocPhysical(&handle, 64 * MIB, &on_device, 0));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtFreePhysical(more));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&more, (size_t)1 << 60, &prop, 0));
    prop.memAttr = ACL_MEM_HUGE1G;
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMallocPhysical(&more, PAGE, &prop, 0));
}

TEST(a_forced_reset_leaves_nothing)
{
    char *p = reserve(4 * PAGE);
    aclrtPhysicalMemProp other = on_device;
    aclrtDrvMemHandle theirs = NULL;
    other.location.id = 1;
    acl_ok(aclrtMallocPhysical(&theirs, PAGE, &other, 0));
    acl_ok(aclrtMapMem(p, PAGE, 0, physical(PAGE), 0));
    (void)physical(2 * PAGE);
    acl_ok(aclrtResetDeviceForce(0));
    acl_ok(aclrtSetDevice(0));
    assert_int_equal(left(), 64 * MIB);
    acl_expect(BY_KERNEL, aclrtUnmapMem(p));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtReleaseMemAddress(p));
    acl_ok(aclrtFreePhysical(theirs));
}

/* --- random calls against a model --- */

enum { HANDLES = 12, SLOTS = 16 };

struct model {
    char *base;
    aclrtDrvMemHandle handle[HANDLES]; /* NULL: none */
    size_t pages[HANDLES];
    int references[HANDLES];
    int mappings[HANDLES];
    int owner[SLOTS]; /* handle that a page shows; -1: none */
    int first[SLOTS]; /* first page of its mapping */
};

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

static size_t held_pages(const struct model *m)
{
    size_t pages = 0;
    for (int i = 0; i < HANDLES; i++) {
        pages += m->handle[i] != NULL ? m->pages[i] : 0;
    }
    return pages;
}

static bool room_at(const struct model *m, int page, size_t pages)
{
    for (size_t i = 0; i < pages; i++) {
        if (page + (int)i >= SLOTS || m->owner[page + (int)i] >= 0) {
            return false;
        }
    }
    return true;
}

static void drop_if_unused(struct model *m, int h)
{
    if (m->references[h] == 0 && m->mappings[h] == 0) {
        m->handle[h] = NULL;
    }
}

static void random_malloc(struct model *m, int h)
{
    if (m->handle[h] != NULL) {
        return;
    }
    const size_t pages = 1 + draw(8);
    const bool fits = held_pages(m) + pages <= 32;
    acl_expect(fits ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION,
               aclrtMallocPhysical(&m->handle[h], pages * PAGE, &on_device, 0));
    m->pages[h] = pages;
    m->references[h] = fits;
    m->mappings[h] = 0;
}

static void random_map(struct model *m, int h)
{
    if (m->handle[h] == NULL) {
        return;
    }
    const int page = (int)draw(SLOTS);
    const size_t pages = draw(4) == 0 ? 1 + draw(8) : m->pages[h];
    const aclError expected = m->references[h] == 0                             ? ACL_ERROR_RT_INVALID_HANDLE
                              : pages == m->pages[h] && room_at(m, page, pages) ? ACL_SUCCESS
                                                                                : BY_KERNEL;
    acl_expect(expected, aclrtMapMem(m->base + (size_t)page * PAGE, pages * PAGE, 0, m->handle[h], 0));
    if (expected == ACL_SUCCESS) {
        m->mappings[h]++;
        for (size_t i = 0; i < pages; i++) {
            m->owner[page + (int)i] = h;
            m->first[page + (int)i] = page;
        }
    }
}

static void random_unmap(struct model *m)
{
    const int page = (int)draw(SLOTS);
    const int h = m->owner[page];
    const bool is_start = h >= 0 && m->first[page] == page;
    acl_expect(is_start ? ACL_SUCCESS : BY_KERNEL, aclrtUnmapMem(m->base + (size_t)page * PAGE));
    if (is_start) {
        for (size_t i = 0; i < m->pages[h]; i++) {
            m->owner[page + (int)i] = -1;
        }
        m->mappings[h]--;
        drop_if_unused(m, h);
    }
}

static void random_retain(struct model *m)
{
    const int page = (int)draw(SLOTS);
    const int h = m->owner[page];
    const bool is_start = h >= 0 && m->first[page] == page;
    aclrtDrvMemHandle got = NULL;
    acl_expect(is_start ? ACL_SUCCESS : BY_KERNEL, aclrtMemRetainAllocationHandle(m->base + (size_t)page * PAGE, &got));
    if (is_start) {
        assert_ptr_equal(got, m->handle[h]);
        m->references[h]++;
    }
}

static void random_free(struct model *m, int h)
{
    if (m->handle[h] == NULL) {
        return;
    }
    acl_expect(m->references[h] > 0 ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_HANDLE, aclrtFreePhysical(m->handle[h]));
    if (m->references[h] > 0) {
        m->references[h]--;
        drop_if_unused(m, h);
    }
}

static void random_touch(const struct model *m)
{
    const int page = (int)draw(SLOTS);
    char byte = 0;
    acl_expect(m->owner[page] >= 0 ? ACL_SUCCESS : ACL_ERROR_RT_PARAM_INVALID,
               aclrtMemcpy(m->base + (size_t)page * PAGE + draw(PAGE), 1, &byte, 1, ACL_MEMCPY_DEFAULT));
}

TEST(random_calls_do_what_the_rules_say)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct model m = {.base = reserve(SLOTS * PAGE)};
        random_state = seed;
        for (int i = 0; i < SLOTS; i++) {
            m.owner[i] = -1;
        }
        for (int step = 0; step < 2000; step++) {
            const int h = (int)draw(HANDLES);
            switch (draw(6)) {
            case 0:
                random_malloc(&m, h);
                break;
            case 1:
                random_map(&m, h);
                break;
            case 2:
                random_unmap(&m);
                break;
            case 3:
                random_retain(&m);
                break;
            case 4:
                random_free(&m, h);
                break;
            default:
                if (draw(10) == 0) {
                    random_touch(&m);
                }
            }
            assert_int_equal(left(), 64 * MIB - held_pages(&m) * PAGE);
        }
        acl_ok(aclrtResetDeviceForce(0));
        acl_ok(aclrtSetDevice(0));
        assert_int_equal(left(), 64 * MIB);
    }
}

ACL_ENVIRONMENT(CAPACITY, "64MiB")
ACL_ENVIRONMENT(REPORT, "none")
ALL_TESTS(use_device, reset_device)
