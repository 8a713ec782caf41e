/* host_test.c: page-locked and registered host memory, and the attributes of pointers. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOT_PINNED ACL_MEM_LOCATION_TYPE_UNREGISTERED

static char *pages(size_t size)
{
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static char *pinned(size_t size)
{
    void *p = NULL;
    acl_ok(aclrtMallocHost(&p, size));
    return p;
}

static aclrtMemLocationType place_of(const void *pointer)
{
    aclrtPtrAttributes attributes;
    memset(&attributes, 0xff, sizeof(attributes));
    acl_ok(aclrtPointerGetAttributes(pointer, &attributes));
    assert_int_equal(attributes.location.id, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(attributes.rsv[i], 0);
    }
    assert_true(attributes.pageSize >= 4096);
    return attributes.location.type;
}

TEST(pinned_memory_is_checked)
{
    void *p = (void *)1;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMallocHost(NULL, 1));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMallocHost(&p, 0));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&p, SIZE_MAX));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&p, SIZE_MAX / 2));
    assert_ptr_equal(p, (void *)1);
    char *q = pinned(1000);
    assert_int_equal((uintptr_t)q % 4096, 0);
    memset(q, 7, 1000);
    assert_int_equal(place_of(q + 999), ACL_MEM_LOCATION_TYPE_HOST);
    void *base = NULL;
    size_t size = 0;
    acl_ok(aclrtMemGetAddressRange(q + 999, &base, NULL));
    acl_ok(aclrtMemGetAddressRange(q + 999, NULL, &size));
    assert_ptr_equal(base, q);
    assert_int_equal(size, 1000);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemGetAddressRange(q + 1000, &base, &size));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemGetAddressRange(q, NULL, NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemGetAddressRange(NULL, &base, &size));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtFreeHost(NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(q + 64));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(&size));
    acl_ok(aclrtFreeHost(q));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(q));
    assert_int_equal(place_of(&size), NOT_PINNED);
    q = pinned(64); /* aclrtFree frees it too */
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(q + 64));
    acl_ok(aclrtFree(q));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFreeHost(q));
}

/* Memory that the driver has pinned before is not zero. */
TEST(fresh_pinned_memory_is_not_zero)
{
    for (int round = 0; round < 2; round++) {
        unsigned char *p = (unsigned char *)pinned(5 * MIB);
        for (size_t i = 0; i < 5 * MIB; i++) {
            assert_int_equal(p[i], 0xdd);
        }
        memset(p, 0, 5 * MIB);
        acl_ok(aclrtFreeHost(p));
    }
}

TEST(a_configuration_has_two_attributes)
{
    aclrtMallocAttribute attributes[2];
    memset(attributes, 0, sizeof(attributes));
    aclrtMallocConfig config = {attributes, 2};
    void *p = NULL;
    attributes[0].attr = ACL_RT_MEM_ATTR_MODULE_ID;
    attributes[1].attr = ACL_RT_MEM_ATTR_VA_FLAG;
    attributes[1].value.vaFlag = 1;
    acl_ok(aclrtMallocHostWithCfg(&p, MIB, &config));
    acl_ok(aclrtFreeHostWithDevSync(p));
    acl_ok(aclrtMallocHostWithCfg(&p, MIB, NULL));
    acl_ok(aclrtFreeHost(p));
    attributes[1].attr = ACL_RT_MEM_ATTR_DEVICE_ID;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocHostWithCfg(&p, MIB, &config));
    config.attrs = NULL;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocHostWithCfg(&p, MIB, &config));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMallocHostWithCfg(&p, 0, NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMallocHostWithCfg(NULL, 1, NULL));
}

TEST(any_mapped_range_can_be_registered)
{
    char *p = pages(4 * MIB);
    void *device = NULL, *alias = NULL;
    p[0] = 1;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtHostGetDevicePointer(p, &alias, 0));
    acl_ok(aclrtHostRegister(p, MIB, ACL_HOST_REGISTER_MAPPED, &device));
    acl_ok(aclrtHostGetDevicePointer(p, &alias, 0));
    assert_ptr_equal(alias, device);
    assert_int_equal(place_of(p + MIB - 1), ACL_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(place_of(p + MIB), NOT_PINNED);
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtHostRegister(p, MIB, ACL_HOST_REGISTER_MAPPED, &device));
    acl_expect(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, aclrtHostRegisterV2(p + MIB / 2, MIB, ACL_HOST_REG_MAPPED));
    acl_ok(aclrtHostRegisterV2(p + MIB, MIB, ACL_HOST_REG_PINNED));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtHostGetDevicePointer(p + MIB, &alias, 0)); /* not mapped */
    acl_ok(aclrtHostRegisterV2(p + 2 * MIB, MIB, ACL_HOST_REG_PINNED | ACL_HOST_REG_MAPPED));
    acl_ok(aclrtHostGetDevicePointer(p + 2 * MIB, &alias, 0));
    acl_expect(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(p + 4096));
    acl_ok(aclrtHostUnregister(p));
    acl_expect(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, aclrtHostUnregister(p));
    acl_ok(aclrtHostUnregister(p + MIB));
    acl_ok(aclrtHostUnregister(p + 2 * MIB));
    assert_int_equal(munmap(p, 4 * MIB), 0);
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtHostRegisterV2(p, MIB, ACL_HOST_REG_MAPPED)); /* no memory there */
}

TEST(registering_checks_its_arguments)
{
    char *p = pages(MIB);
    void *device = NULL;
    const aclError invalid = ACL_ERROR_INVALID_PARAM, refused = ACL_ERROR_RT_PARAM_INVALID;
    acl_expect(invalid, aclrtHostRegister(NULL, MIB, ACL_HOST_REGISTER_MAPPED, &device));
    acl_expect(invalid, aclrtHostRegister(p, 0, ACL_HOST_REGISTER_MAPPED, &device));
    acl_expect(invalid, aclrtHostRegister(p, MIB, ACL_HOST_REGISTER_MAPPED, NULL));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtHostRegister(p, MIB, (aclrtHostRegisterType)2, &device));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtHostRegister(p, MIB, ACL_HOST_REGISTER_READONLY, &device));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtHostRegisterV2(p, MIB, ACL_HOST_REG_IOMEMORY));
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtHostRegister(p + 512, 4096, ACL_HOST_REGISTER_MAPPED, &device));
    acl_ok(aclrtMalloc(&device, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtHostRegisterV2(device, MIB, ACL_HOST_REG_MAPPED));
    acl_ok(aclrtFree(device));
    acl_expect(invalid, aclrtHostRegisterV2(NULL, MIB, ACL_HOST_REG_MAPPED));
    acl_expect(invalid, aclrtHostRegisterV2(p, 0, ACL_HOST_REG_MAPPED));
    acl_expect(refused, aclrtHostRegisterV2(p, MIB, 0));
    acl_expect(refused, aclrtHostRegisterV2(p, MIB, 1));
    acl_expect(ACL_ERROR_RT_INVALID_HANDLE, aclrtHostRegisterV2(p, SIZE_MAX, ACL_HOST_REG_MAPPED));
    acl_expect(invalid, aclrtHostUnregister(NULL));
    acl_expect(invalid, aclrtHostGetDevicePointer(NULL, &device, 0));
    acl_expect(invalid, aclrtHostGetDevicePointer(p, NULL, 0));
    acl_expect(invalid, aclrtHostGetDevicePointer(p, &device, 1));
    acl_expect(invalid, aclrtPointerGetAttributes(NULL, NULL));
    acl_expect(invalid, aclrtPointerGetAttributes(p, NULL));
    assert_int_equal(munmap(p, MIB), 0);
}

/* The vendor's own example: pinned memory, registered to get the device's address of it. */
TEST(pinned_memory_can_be_registered)
{
    char *p = pinned(2 * MIB);
    void *alias = NULL;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtHostRegisterV2(p, 2 * MIB, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
    acl_ok(aclrtHostRegisterV2(p, 2 * MIB, ACL_HOST_REG_MAPPED));
    acl_ok(aclrtHostGetDevicePointer(p, &alias, 0));
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtFreeHost(p)); /* unregister first */
    acl_ok(aclrtHostUnregister(p));
    acl_ok(aclrtFreeHost(p));
}

TEST(registered_memory_copies_asynchronously)
{
    char *p = pages(MIB);
    void *device = NULL;
    aclrtStream stream = NULL;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMalloc(&device, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemset(device, MIB, 9, MIB));
    acl_ok(aclrtHostRegisterV2(p, MIB, ACL_HOST_REG_MAPPED));
    memset(p, 1, MIB);
    acl_ok(aclrtMemcpyAsync(device, MIB, p, MIB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    memset(p, 2, MIB); /* a bug of the program: it changes a pinned source before the device has read it */
    acl_ok(aclrtSynchronizeStream(stream));
    char got = 0;
    acl_ok(aclrtMemcpy(&got, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(got, 2);
    assert_int_equal(weir_ascendcl_finding_count("host_changed"), 1);
    assert_int_equal(weir_ascendcl_finding_count(NULL), 1);
    acl_ok(aclrtHostUnregister(p));
    memset(p, 3, MIB);
    acl_ok(aclrtMemcpyAsync(device, MIB, p, MIB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    memset(p, 4, MIB); /* a pageable source was copied before the call returned */
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemcpy(&got, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(got, 3);
    acl_ok(aclrtFree(device));
    acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(munmap(p, MIB), 0);
}

static aclError write_first(void *bytes)
{
    *(char *)bytes = 9;
    return ACL_SUCCESS;
}

/* The host may write its side of a copy before the device can come to it, and after it has seen the end; work of the
 * device may write it in the order of a stream. */
TEST(host_memory_changes_in_an_order)
{
    const uint64_t before = weir_ascendcl_finding_count(NULL);
    char *p = pinned(4096);
    void *device = NULL;
    aclrtStream stream = NULL;
    aclrtEvent gate = NULL;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    acl_ok(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtStreamWaitEvent(stream, gate));
    acl_ok(aclrtMemcpyAsync(device, 4096, p, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    memset(p, 1, 4096);
    acl_ok(aclrtRecordEvent(gate, NULL));
    acl_ok(aclrtSynchronizeStream(stream));
    memset(p, 2, 4096);
    const weir_ascendcl_range written = {.address = p, .size = 1, .write = true};
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 1000;
    kernel.ranges = &written;
    kernel.range_count = 1;
    kernel.compute = write_first;
    kernel.ctx = p;
    acl_ok(weir_ascendcl_launch(stream, &kernel));
    acl_ok(aclrtMemsetD32Async(p + 64, 64, 0x03030303, 16, stream));
    acl_ok(aclrtMemcpyAsync(p + 512, 512, device, 512, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    acl_ok(aclrtMemcpyAsync(device, 4096, p, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    char got[1024];
    acl_ok(aclrtMemcpy(got, 1024, device, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(got[0], 9);
    assert_int_equal(got[64], 3);
    assert_int_equal(got[511], 2);
    assert_int_equal(got[512], 1);
    assert_int_equal(weir_ascendcl_finding_count(NULL), before);
    acl_ok(aclrtFree(device));
    acl_ok(aclrtFreeHost(p));
    acl_ok(aclrtDestroyEvent(gate));
    acl_ok(aclrtDestroyStream(stream));
}

/* Memory is freed while a copy may still read it: the copy reads other bytes, and the process survives. */
TEST(a_copy_from_freed_memory_reads_other_bytes)
{
    void *device = NULL;
    aclrtStream stream = NULL;
    aclrtEvent gate = NULL;
    char got[2] = {5, 5};
    const uint64_t changed = weir_ascendcl_finding_count("host_changed");
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC));
    acl_ok(aclrtMalloc(&device, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemset(device, MIB, 9, MIB));
    for (int held = 0; held < 2; held++) {
        char *p = pinned(MIB);
        memset(p, 1, MIB);
        if (held) {
            acl_ok(aclrtStreamWaitEvent(stream, gate));
        }
        acl_ok(aclrtMemcpyAsync(device, MIB, p, MIB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        acl_ok(aclrtFreeHost(p));
        const uint64_t found = weir_ascendcl_finding_count("host_memory");
        if (held) {
            acl_ok(aclrtRecordEvent(gate, NULL));
        }
        acl_ok(aclrtSynchronizeStream(stream));
        assert_int_equal(found, held + 1);
        assert_int_equal(weir_ascendcl_finding_count(NULL), changed + found);
        acl_ok(aclrtMemcpy(got, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_int_equal(got[0], 0);
    }
    acl_ok(aclrtSynchronizeStream(NULL));
    char *p = pinned(MIB);
    memset(p, 1, MIB);
    acl_ok(aclrtMemcpyAsync(device, MIB, p, MIB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    acl_ok(aclrtFreeHostWithDevSync(p)); /* this function waits for the device */
    acl_ok(aclrtMemcpy(got, 1, device, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(got[0], 1);
    assert_int_equal(weir_ascendcl_finding_count(NULL), changed + 2);
    assert_string_equal(weir_ascendcl_finding_kind(changed + 1), "host_memory");
    char text[160] = "";
    assert_true(weir_ascendcl_finding(0, text, sizeof(text)));
    assert_non_null(strstr(text, "aclrtFreeHost of ")); /* the one that is held comes first */
    assert_true(weir_ascendcl_finding(changed + 1, text, sizeof(text)));
    assert_non_null(strstr(text, "free \"aclrtFreeHost\" of the host and the host has not seen the end of copy"));
    assert_false(weir_ascendcl_finding(changed + 2, text, sizeof(text)));
    acl_ok(aclrtFree(device));
    acl_ok(aclrtDestroyEvent(gate));
    acl_ok(aclrtDestroyStream(stream));
}

/* The auditor asks what the host has seen, not what time it is. */
TEST(pinned_memory_is_freed_in_an_order)
{
    void *device = NULL;
    aclrtStream stream = NULL;
    aclrtEvent event = NULL;
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    acl_ok(aclrtMalloc(&device, MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemset(device, MIB, 9, MIB));
    for (int asks = 0; asks < 2; asks++) {
        const uint64_t before = weir_ascendcl_finding_count("host_memory");
        char *p = pinned(MIB);
        acl_ok(aclrtMemcpyAsync(p, MIB, device, MIB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        acl_ok(aclrtRecordEvent(event, stream));
        weir_ascendcl_advance(1000000000);
        if (asks) {
            acl_ok(aclrtQueryEventStatus(event, &status));
            assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
        }
        acl_ok(aclrtFreeHost(p));
        assert_int_equal(weir_ascendcl_finding_count("host_memory"), before + (asks ? 0 : 1));
    }
    acl_ok(aclrtFree(device));
    acl_ok(aclrtDestroyEvent(event));
    acl_ok(aclrtDestroyStream(stream));
}

static uint64_t now_us(void)
{
    aclrtEvent event = NULL;
    uint64_t us = 0;
    acl_ok(aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
    acl_ok(aclrtRecordEvent(event, NULL));
    acl_ok(aclrtSynchronizeStream(NULL));
    acl_ok(aclrtEventGetTimestamp(event, &us));
    acl_ok(aclrtDestroyEvent(event));
    return us;
}

TEST(pinning_takes_time)
{
    const uint64_t before = now_us();
    char *p = pinned(100 * MIB);
    const uint64_t between = now_us();
    acl_ok(aclrtFreeHost(p));
    const uint64_t after = now_us();
    assert_in_range(between - before, 28000, 28500);
    assert_in_range(after - between, 9500, 10000);
    p = pinned(100 * MIB);
    const uint64_t start = now_us();
    acl_ok(aclrtHostRegisterV2(p, 100 * MIB, ACL_HOST_REG_MAPPED)); /* pinned already */
    assert_in_range(now_us() - start, 0, 500);
    acl_ok(aclrtHostUnregister(p));
    acl_ok(aclrtFreeHost(p));
}

static bool policy_of(void *pointer, int *mode, unsigned long *nodes)
{
#if defined(SYS_get_mempolicy)
    return syscall(SYS_get_mempolicy, mode, nodes, 64UL, pointer, 2UL /* of an address */) == 0;
#else
    (void)pointer, (void)mode, (void)nodes;
    return false;
#endif
}

/* Pinned memory of the runtime prefers the node of the thread's processor. If a program has bound memory to a node
 * itself and then registers it, the memory keeps its policy and its pages. */
TEST(placement_is_asked_for_and_left_alone)
{
    int mode = -1;
    unsigned long nodes = 0;
    char *p = pinned(MIB);
    if (!policy_of(p, &mode, &nodes)) {
        print_message("no policies can be read here: placement is not looked at\n");
        acl_ok(aclrtFreeHost(p));
        return;
    }
    assert_int_equal(mode, 1); /* preferred */
    assert_true(nodes != 0 && (nodes & (nodes - 1)) == 0);
    acl_ok(aclrtFreeHost(p));
    p = pages(MIB);
    const unsigned long node0 = 1;
    if (syscall(SYS_mbind, p, MIB, 2 /* bound */, &node0, 64UL, 0U) == 0) {
        unsigned char resident[MIB / 4096];
        p[0] = 1;
        acl_ok(aclrtHostRegisterV2(p, MIB, ACL_HOST_REG_MAPPED));
        assert_true(policy_of(p, &mode, &nodes));
        assert_int_equal(mode, 2);
        assert_int_equal(nodes, 1);
        assert_int_equal(mincore(p, MIB, resident), 0);
        assert_int_equal(resident[1] & 1, 0); /* no page was touched */
        acl_ok(aclrtHostUnregister(p));
    }
    assert_int_equal(munmap(p, MIB), 0);
}

TEST(a_context_is_needed)
{
    char *p = pinned(MIB);
    void *q = NULL;
    acl_ok(aclrtResetDevice(0));
    const aclError expected = ACL_ERROR_RT_CONTEXT_NULL;
    acl_expect(expected, aclrtMallocHost(&q, 1));
    acl_expect(expected, aclrtHostRegister(p, MIB, ACL_HOST_REGISTER_MAPPED, &q));
    acl_expect(expected, aclrtHostRegisterV2(p, MIB, ACL_HOST_REG_MAPPED));
    acl_expect(expected, aclrtHostUnregister(p));
    acl_expect(expected, aclrtHostGetDevicePointer(p, &q, 0));
    assert_int_equal(place_of(p), ACL_MEM_LOCATION_TYPE_HOST);
    acl_ok(aclrtFreeHost(p));
    acl_ok(aclrtSetDevice(0));
}

ACL_ENVIRONMENT(NUMA_NODES, "2")
ALL_TESTS(use_device, reset_device)
