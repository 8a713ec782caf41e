/* codes_memory_test.c: the codes that functions of host memory, virtual memory, pools and callbacks return for invalid
 * arguments. codes_test.c covers all other functions. */
#include "rig/acl.h"

#include <pthread.h>
#include <sys/mman.h>

#define NULL_OR_ZERO ACL_ERROR_INVALID_PARAM
#define BAD ACL_ERROR_RT_PARAM_INVALID
#define BY_KERNEL ACL_ERROR_RT_DRV_INTERNAL_ERROR
#define PAGE ((size_t)2 << 20)

static aclrtStream stream;
static char host[64];

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtResetDevice(0));
    return 0;
}

TEST(of_host_memory)
{
    void *p = NULL;
    void *device = NULL;
    aclrtMallocAttribute attribute = {.attr = ACL_RT_MEM_ATTR_DEVICE_ID};
    aclrtMallocConfig config = {.attrs = &attribute, .numAttrs = 1};
    aclrtMallocConfig lost = {.attrs = NULL, .numAttrs = 1};
    acl_expect(NULL_OR_ZERO, aclrtMallocHost(NULL, 1));
    acl_expect(NULL_OR_ZERO, aclrtMallocHost(&p, 0));
    acl_expect(NULL_OR_ZERO, aclrtMallocHostWithCfg(NULL, 1, NULL));
    acl_expect(NULL_OR_ZERO, aclrtMallocHostWithCfg(&p, 0, NULL));
    acl_expect(BAD, aclrtMallocHostWithCfg(&p, 1, &lost));
    acl_expect(BAD, aclrtMallocHostWithCfg(&p, 1, &config)); /* an attribute of device memory */
    attribute.attr = ACL_RT_MEM_ATTR_MODULE_ID;
    acl_ok(aclrtMallocHostWithCfg(&p, 1, &config));
    acl_expect(NULL_OR_ZERO, aclrtFreeHost(NULL));
    acl_expect(NULL_OR_ZERO, aclrtFreeHostWithDevSync(NULL));
    acl_expect(BAD, aclrtFreeHost(host));
    acl_expect(BAD, aclrtFreeHost((char *)p + 1));
    acl_ok(aclrtFreeHostWithDevSync(p));
    acl_expect(BAD, aclrtFreeHost(p));
    acl_ok(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(BAD, aclrtFreeHost(device));
    acl_ok(aclrtFree(device));
}

TEST(of_registered_memory)
{
    void *device = NULL;
    char *p = mmap(NULL, 3 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    p += (65536 - (uintptr_t)p % 65536) % 65536;
    acl_expect(NULL_OR_ZERO, aclrtHostRegister(NULL, 65536, ACL_HOST_REGISTER_MAPPED, &device));
    acl_expect(NULL_OR_ZERO, aclrtHostRegister(p, 0, ACL_HOST_REGISTER_MAPPED, &device));
    acl_expect(NULL_OR_ZERO, aclrtHostRegister(p, 65536, ACL_HOST_REGISTER_MAPPED, NULL));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtHostRegister(p, 65536, (aclrtHostRegisterType)1, &device));
    acl_expect(NULL_OR_ZERO, aclrtHostRegisterV2(NULL, 65536, ACL_HOST_REG_MAPPED));
    acl_expect(NULL_OR_ZERO, aclrtHostRegisterV2(p, 0, ACL_HOST_REG_MAPPED));
    acl_expect(BAD, aclrtHostRegisterV2(p, 65536, 0));
    acl_expect(BAD, aclrtHostRegisterV2(p, 65536, 0x40));
    acl_expect(NULL_OR_ZERO, aclrtHostUnregister(NULL));
    acl_expect(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(p));
    acl_expect(NULL_OR_ZERO, aclrtHostGetDevicePointer(NULL, &device, 0));
    acl_expect(NULL_OR_ZERO, aclrtHostGetDevicePointer(p, NULL, 0));
    acl_expect(NULL_OR_ZERO, aclrtHostGetDevicePointer(p, &device, 1));
    acl_expect(BAD, aclrtHostGetDevicePointer(p, &device, 0));
    acl_ok(aclrtHostRegister(p, 65536, ACL_HOST_REGISTER_MAPPED, &device));
    acl_expect(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, aclrtHostRegisterV2(p, 65536, ACL_HOST_REG_MAPPED));
    acl_ok(aclrtHostUnregister(p));
    acl_expect(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(p));
}

TEST(of_attributes)
{
    aclrtPtrAttributes attributes;
    acl_expect(NULL_OR_ZERO, aclrtPointerGetAttributes(NULL, &attributes));
    acl_expect(NULL_OR_ZERO, aclrtPointerGetAttributes(host, NULL));
    acl_ok(aclrtPointerGetAttributes(host, &attributes));
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}

static const aclrtPhysicalMemProp good = {.handleType = ACL_MEM_HANDLE_TYPE_NONE,
                                          .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                                          .memAttr = ACL_HBM_MEM_HUGE,
                                          .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};

TEST(of_physical_memory)
{
    aclrtDrvMemHandle handle = NULL;
    size_t bytes = 0;
    aclrtPhysicalMemProp prop = good;
    acl_expect(NULL_OR_ZERO, aclrtMallocPhysical(NULL, PAGE, &prop, 0));
    acl_expect(NULL_OR_ZERO, aclrtMallocPhysical(&handle, PAGE, NULL, 0));
    acl_expect(NULL_OR_ZERO, aclrtMallocPhysical(&handle, 0, &prop, 0));
    acl_expect(NULL_OR_ZERO, aclrtMallocPhysical(&handle, PAGE, &prop, 1));
    prop.memAttr = ACL_HBM_MEM; /* kinds without a page size, and host kinds for a device */
    acl_expect(NULL_OR_ZERO, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    prop.memAttr = ACL_DDR_MEM_HUGE;
    acl_expect(NULL_OR_ZERO, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    acl_expect(NULL_OR_ZERO, aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
    prop = good;
    prop.location.id = 9;
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMallocPhysical(&handle, PAGE, &prop, 0));
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID,
               aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
    prop = good;
    acl_expect(NULL_OR_ZERO, aclrtMemGetAllocationGranularity(NULL, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &bytes));
    acl_expect(NULL_OR_ZERO, aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, NULL));
    acl_expect(BAD, aclrtMemGetAllocationGranularity(&prop, (aclrtMemGranularityOptions)7, &bytes));
    acl_expect(NULL_OR_ZERO, aclrtFreePhysical(NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtFreePhysical((aclrtDrvMemHandle)(void *)host));
}

TEST(of_mappings)
{
    aclrtDrvMemHandle handle = NULL;
    void *p = NULL;
    size_t size = 0;
    aclrtMemAccessDesc access = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
                                 .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    acl_expect(NULL_OR_ZERO, aclrtReserveMemAddress(NULL, PAGE, 0, NULL, 0));
    acl_expect(NULL_OR_ZERO, aclrtReserveMemAddress(&p, 0, 0, NULL, 0));
    acl_expect(NULL_OR_ZERO, aclrtReserveMemAddress(&p, PAGE, 0, NULL, 2));
    acl_expect(NULL_OR_ZERO, aclrtReleaseMemAddress(NULL));
    acl_expect(BAD, aclrtReleaseMemAddress(host));
    acl_ok(aclrtReserveMemAddress(&p, PAGE, 0, NULL, 0));
    acl_ok(aclrtMallocPhysical(&handle, PAGE, &good, 0));
    acl_expect(NULL_OR_ZERO, aclrtMapMem(NULL, PAGE, 0, handle, 0));
    acl_expect(NULL_OR_ZERO, aclrtMapMem(p, PAGE, 0, NULL, 0));
    acl_expect(NULL_OR_ZERO, aclrtMapMem(p, 0, 0, handle, 0));
    acl_expect(NULL_OR_ZERO, aclrtMapMem(p, PAGE, 0, handle, 1));
    acl_expect(BAD, aclrtMapMem(p, PAGE, PAGE, handle, 0));
    acl_expect(BY_KERNEL, aclrtMapMem(host, PAGE, 0, handle, 0));
    acl_expect(NULL_OR_ZERO, aclrtUnmapMem(NULL));
    acl_expect(BY_KERNEL, aclrtUnmapMem(p));
    acl_ok(aclrtMapMem(p, PAGE, 0, handle, 0));
    acl_expect(BAD, aclrtMemSetAccess(NULL, PAGE, &access, 1));
    acl_expect(BAD, aclrtMemSetAccess(p, PAGE, NULL, 1));
    acl_ok(aclrtMemSetAccess(p, PAGE, &access, 1));
    acl_expect(NULL_OR_ZERO, aclrtMemRetainAllocationHandle(NULL, &handle));
    acl_expect(NULL_OR_ZERO, aclrtMemRetainAllocationHandle(p, NULL));
    acl_expect(BY_KERNEL, aclrtMemRetainAllocationHandle(host, &handle));
    acl_expect(NULL_OR_ZERO, aclrtMemGetAddressRange(NULL, &p, &size));
    acl_expect(BAD, aclrtMemGetAddressRange(p, NULL, NULL));
    acl_ok(aclrtMemGetAddressRange((char *)p + 5, NULL, &size));
    acl_expect(BY_KERNEL, aclrtReleaseMemAddress(p)); /* still mapped */
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtReleaseMemAddress(p));
}

TEST(of_pools)
{
    aclrtMemPool pool = NULL;
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .handleType = ACL_MEM_HANDLE_TYPE_NONE,
                               .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    void *p = NULL;
    uint64_t value = 1;
    acl_expect(NULL_OR_ZERO, aclrtMemPoolCreate(NULL, &props));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolCreate(&pool, NULL));
    aclrtMemPoolProps wrong = props;
    wrong.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    acl_expect(NULL_OR_ZERO, aclrtMemPoolCreate(&pool, &wrong));
    wrong = props;
    wrong.allocType = (aclrtMemAllocationType)3;
    acl_expect(NULL_OR_ZERO, aclrtMemPoolCreate(&pool, &wrong));
    wrong = props;
    wrong.reserved[31] = 1;
    acl_expect(NULL_OR_ZERO, aclrtMemPoolCreate(&pool, &wrong));
    wrong = props;
    wrong.maxSize = SIZE_MAX / 2;
    acl_expect(BAD, aclrtMemPoolCreate(&pool, &wrong));
    wrong = props;
    wrong.location.id = 9;
    acl_expect(ACL_ERROR_RT_INVALID_DEVICEID, aclrtMemPoolCreate(&pool, &wrong));
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolSetAttr(NULL, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
    acl_expect(BAD, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, NULL));
    acl_expect(BAD, aclrtMemPoolSetAttr(host, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
    acl_expect(BAD, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, &value));
    acl_expect(BAD, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &value));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolGetAttr(NULL, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
    acl_expect(BAD, aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, NULL));
    acl_expect(BAD, aclrtMemPoolGetAttr(host, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &value));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolMallocAsync(NULL, 1, pool, stream));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolMallocAsync(&p, 1, NULL, stream));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolMallocAsync(&p, 1, pool, NULL));
    acl_ok(aclrtMemPoolMallocAsync(&p, 0, host, host)); /* the function checks no argument */
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemPoolMallocAsync(&p, 1, pool, host));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolMallocAsync(&p, 1, host, stream));
    acl_expect(BAD, aclrtMemPoolMallocAsync(&p, SIZE_MAX, pool, stream));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolFreeAsync(NULL, stream));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtMemPoolFreeAsync(host, host));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolTrimTo(NULL, 0));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolTrimTo(host, 0));
    acl_expect(NULL_OR_ZERO, aclrtMemPoolDestroy(NULL));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolDestroy(host));
    acl_ok(aclrtMemPoolDestroy(pool));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolDestroy(pool));
}

static void nothing(void *unused)
{
    (void)unused;
}

TEST(of_callbacks)
{
    const uint64_t self = (uint64_t)pthread_self();
    acl_expect(ACL_ERROR_RT_STREAM_NO_CB_REG, aclrtLaunchCallback(nothing, NULL, ACL_CALLBACK_BLOCK, stream));
    acl_expect(NULL_OR_ZERO, aclrtLaunchCallback(NULL, NULL, (aclrtCallbackBlockType)9, host));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, host));
    acl_expect(BAD, aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, stream));
    acl_expect(BAD, aclrtLaunchHostFunc(stream, NULL, NULL));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtLaunchHostFunc(host, nothing, NULL));
    acl_expect(NULL_OR_ZERO, aclrtProcessReport(0));
    acl_expect(NULL_OR_ZERO, aclrtProcessReport(-2));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtProcessReport(1));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtSubscribeReport(self, host));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtUnSubscribeReport(self, stream));
    acl_ok(aclrtSubscribeReport(self, stream));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(self, stream));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchHostFunc(stream, nothing, NULL));
    acl_expect(ACL_ERROR_RT_REPORT_TIMEOUT, aclrtProcessReport(1));
    acl_expect(ACL_ERROR_RT_THREAD_SUBSCRIBE, aclrtUnSubscribeReport(self + 1, stream));
    acl_ok(aclrtUnSubscribeReport(self, stream));
    acl_ok(aclrtLaunchHostFunc(stream, nothing, NULL));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtLaunchCallback(nothing, NULL, ACL_CALLBACK_BLOCK, stream));
    acl_expect(ACL_ERROR_RT_STREAM_SUBSCRIBE, aclrtSubscribeReport(self, stream));
}

/* A thread without a current device. */
static void *without_context(void *unused)
{
    void *p = NULL;
    aclrtStream s = NULL;
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMallocHost(&p, 64));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtMallocHostWithCfg(&p, 64, NULL));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtHostUnregister(host));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtHostGetDevicePointer(host, &p, 0));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchHostFunc(stream, nothing, NULL));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtLaunchCallback(nothing, NULL, ACL_CALLBACK_BLOCK, stream));
    acl_expect(ACL_ERROR_RT_CONTEXT_NULL, aclrtSubscribeReport((uint64_t)pthread_self(), s));
    return unused;
}

TEST(of_a_thread_without_a_context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, without_context, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

ACL_ENVIRONMENT(REPORT, "none")
EACH_TEST(set_up, tear_down)
