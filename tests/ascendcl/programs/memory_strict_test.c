/* memory_strict_test.c: strict mode: calls that the vendor tolerates, or forbids but does not check, are errors. The
 * program also tests a host with pages of 64 KiB and a limit on the bytes that one call may pin. */
#include "rig/acl.h"

#include <string.h>
#include <sys/mman.h>

TEST(sizes_are_multiples_of_the_granularity)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle = NULL;
    void *p = NULL;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtReserveMemAddress(&p, 3 * MIB, 0, NULL, 0));
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtMallocPhysical(&handle, 3 * MIB, &prop, 0));
    acl_ok(aclrtReserveMemAddress(&p, 4 * MIB, 0, NULL, 0));
    acl_ok(aclrtMallocPhysical(&handle, 4 * MIB, &prop, 0));
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR, aclrtMapMem(p, 4 * MIB - 1, 0, handle, 0));
    acl_ok(aclrtMapMem(p, 4 * MIB, 0, handle, 0));
    acl_ok(aclrtUnmapMem(p));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtReleaseMemAddress(p));
}

TEST(values_are_aligned_and_default_streams_stay)
{
    aclrtStream standard = NULL;
    char *word = NULL;
    acl_ok(aclrtMalloc((void **)&word, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_ADDR_UNALIGNED, aclrtValueWrite(word + 4, 1, 0, NULL));
    acl_expect(ACL_ERROR_RT_ADDR_UNALIGNED, aclrtValueWait(word + 4, 1, 0, NULL));
    acl_ok(aclrtFree(word));
    acl_ok(aclrtCtxGetCurrentDefaultStream(&standard));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtDestroyStream(standard));
}

TEST(a_page_is_64_kib)
{
    void *p = NULL, *device = NULL;
    acl_ok(aclrtMallocHost(&p, MIB)); /* memory of the runtime is always aligned */
    assert_int_equal((uintptr_t)p % 65536, 0);
    assert_int_equal(((const char *)p)[MIB - 1], 0); /* the switch asks for zeros */
    acl_expect(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
               aclrtHostRegister((char *)p + 4096, 65536, ACL_HOST_REGISTER_MAPPED, &device));
    acl_ok(aclrtHostRegister((char *)p + 65536, 65536, ACL_HOST_REGISTER_MAPPED, &device));
    acl_ok(aclrtHostUnregister((char *)p + 65536));
    acl_ok(aclrtFreeHost(p));
}

TEST(one_call_pins_so_much_and_no_more)
{
    void *p = NULL, *q = NULL;
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&p, 8 * MIB + 1));
    acl_ok(aclrtMallocHost(&p, 8 * MIB));
    acl_ok(aclrtMallocHost(&q, 8 * MIB)); /* the limit holds for one call */
    acl_ok(aclrtFreeHost(p));
    acl_ok(aclrtFreeHost(q));
    char *large = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(large != MAP_FAILED);
    char *start = large + (65536 - (uintptr_t)large % 65536) % 65536;
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtHostRegisterV2(start, 24 * MIB, ACL_HOST_REG_MAPPED));
    for (size_t i = 0; i < 3; i++) { /* in pieces it works */
        acl_ok(aclrtHostRegisterV2(start + i * 8 * MIB, 8 * MIB, ACL_HOST_REG_MAPPED));
    }
    for (size_t i = 0; i < 3; i++) {
        acl_ok(aclrtHostUnregister(start + i * 8 * MIB));
    }
    assert_int_equal(munmap(large, 32 * MIB), 0);
}

/* The host has 20 MiB in all: see main. */
TEST(the_host_has_so_much_and_no_more)
{
    const aclrtPhysicalMemProp prop = {.memAttr = ACL_DDR_MEM_HUGE, .location = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    aclrtDrvMemHandle handle = NULL, more = NULL;
    void *p = NULL, *q = NULL;
    acl_ok(aclrtMallocHost(&p, 8 * MIB));
    acl_ok(aclrtMallocHost(&q, 8 * MIB));
    acl_ok(aclrtMallocPhysical(&handle, 4 * MIB, &prop, 0));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocPhysical(&more, 2 * MIB, &prop, 0));
    acl_ok(aclrtFreeHost(q));
    acl_ok(aclrtMallocPhysical(&more, 8 * MIB, &prop, 0));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMallocHost(&q, 1));
    acl_ok(aclrtFreePhysical(more));
    acl_ok(aclrtFreePhysical(handle));
    acl_ok(aclrtFreeHost(p));
}

TEST(pointers_are_of_the_right_kind)
{
    void *p = NULL;
    acl_ok(aclrtMallocHost(&p, MIB));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(p));
    acl_ok(aclrtFreeHost(p));
    int local = 0;
    aclrtPtrAttributes attributes;
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtPointerGetAttributes(&local, &attributes));
}

TEST(pools_are_strict_too)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 8 * MIB;
    aclrtMemPool pool = NULL;
    aclrtStream stream = NULL;
    void *p = NULL;
    uint64_t much = 9 * MIB;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &much));
    acl_ok(aclrtMemPoolMallocAsync(&p, 1, pool, stream));
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolDestroy(pool));
    acl_ok(aclrtMemPoolFreeAsync(p, stream));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemPoolFreeAsync(&much, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemPoolDestroy(pool));
    acl_ok(aclrtDestroyStream(stream));
}

/* POOL_REUSE=0: freed memory stays unused until it is trimmed. */
TEST(without_reuse_memory_waits_to_be_trimmed)
{
    aclrtMemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 8 * MIB;
    aclrtMemPool pool = NULL;
    aclrtStream stream = NULL;
    void *p[4], *q = NULL;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMemPoolCreate(&pool, &props));
    for (int i = 0; i < 4; i++) {
        acl_ok(aclrtMemPoolMallocAsync(&p[i], 2 * MIB, pool, stream));
        acl_ok(aclrtMemPoolFreeAsync(p[i], stream));
        assert_true(i == 0 || p[i] != p[i - 1]);
    }
    acl_expect(ACL_ERROR_RT_INTERNAL_ERROR, aclrtMemPoolMallocAsync(&q, 1, pool, stream));
    acl_ok(aclrtMemPoolTrimTo(pool, 4 * MIB));
    acl_ok(aclrtMemPoolMallocAsync(&q, 1, pool, stream));
    acl_ok(aclrtMemPoolFreeAsync(q, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemPoolMallocAsync(&q, 8 * MIB, pool, stream));
    acl_ok(aclrtMemPoolFreeAsync(q, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemPoolDestroy(pool));
    acl_ok(aclrtDestroyStream(stream));
}

ACL_ENVIRONMENT(STRICT, "1")
ACL_ENVIRONMENT(PIN_PAGE, "64KiB")
ACL_ENVIRONMENT(PIN_LIMIT, "8MiB")
ACL_ENVIRONMENT(HOST_CAPACITY, "20MiB")
ACL_ENVIRONMENT(POOL_REUSE, "0")
ACL_ENVIRONMENT(PINNED_ZERO, "1")
ACL_ENVIRONMENT(EXIT_CODE, "3")
ALL_TESTS(use_device, NULL)
