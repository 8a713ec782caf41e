/* memory_test.c: device memory and copies: sizes, pages, padding, remaining bytes, refused calls. */
#include "rig/acl.h"

static size_t total_of(aclrtMemAttr attr)
{
    size_t free_bytes = 0, total = 0;
    acl_ok(aclrtGetMemInfo(attr, &free_bytes, &total));
    return total;
}

TEST(impossible_sizes_are_refused)
{
    void *memory = (void *)1;
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMalloc(&memory, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMalloc(&memory, SIZE_MAX - 32, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&memory, SIZE_MAX / 2, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_ptr_equal(memory, (void *)1);
    acl_ok(aclrtMallocCached(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST)); /* documents name NORMAL_ONLY alone */
    acl_ok(aclrtFree(memory));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtFree(NULL));
}

TEST(only_what_was_given_can_be_freed)
{
    char *memory = NULL;
    int local = 0;
    acl_ok(aclrtMalloc((void **)&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal((uintptr_t)memory % 512, 0);
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(memory + 1));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(&local));
    acl_ok(aclrtFreeWithDevSync(memory));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtFree(memory));
}

/* aclrtMalloc adds 32 bytes. They cost a page if the request would just fill its pages. */
TEST(padding_costs_a_page)
{
    void *padded, *exact;
    const size_t before = left_of(ACL_HBM_MEM);
    acl_ok(aclrtMalloc(&padded, 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal(before - left_of(ACL_HBM_MEM), 4 * MIB);
    acl_ok(aclrtMallocAlign32(&exact, 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal(before - left_of(ACL_HBM_MEM), 6 * MIB);
    acl_ok(aclrtFree(padded));
    acl_ok(aclrtFree(exact));
    acl_ok(aclrtMalloc(&padded, 4096, ACL_MEM_MALLOC_NORMAL_ONLY));
    assert_int_equal(before - left_of(ACL_HBM_MEM), 8192);
    acl_ok(aclrtFree(padded));
    assert_int_equal(before, left_of(ACL_HBM_MEM));
}

TEST(pages_are_huge_or_normal_by_policy_and_size)
{
    static const struct {
        aclrtMemMallocPolicy policy;
        size_t size;
        bool huge;
    } rows[] = {
        {ACL_MEM_MALLOC_HUGE_FIRST, MIB - 64, false},
        {ACL_MEM_MALLOC_HUGE_FIRST, MIB, true}, /* above the threshold with its padding */
        {ACL_MEM_MALLOC_HUGE_ONLY, 1, true},
        {ACL_MEM_MALLOC_HUGE_ONLY_P2P, 3 * MIB, true},
        {ACL_MEM_MALLOC_NORMAL_ONLY, 5 * MIB, false},
        {ACL_MEM_MALLOC_NORMAL_ONLY_P2P, 1, false},
        {(aclrtMemMallocPolicy)0x1000, 2 * MIB, true}, /* a memory kind without a policy */
        {(aclrtMemMallocPolicy)0x1000, 36 << 10, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *memory = NULL;
        const size_t huge_before = total_of(ACL_HBM_MEM_NORMAL), normal_before = total_of(ACL_HBM_MEM_HUGE);
        acl_ok(aclrtMalloc(&memory, rows[i].size, rows[i].policy));
        assert_int_equal(total_of(ACL_HBM_MEM_NORMAL) < huge_before, rows[i].huge);
        assert_int_equal(total_of(ACL_HBM_MEM_HUGE) < normal_before, !rows[i].huge);
        acl_ok(aclrtFree(memory));
    }
    acl_expect(ACL_ERROR_RT_INVALID_MEMORY_TYPE, aclrtGetMemInfo((aclrtMemAttr)99, &(size_t){0}, &(size_t){0}));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtGetMemInfo(ACL_HBM_MEM, NULL, &(size_t){0}));
}

TEST(a_device_runs_out_and_recovers)
{
    void *pieces[64];
    int made = 0;
    while (made < 64 && aclrtMalloc(&pieces[made], 16 * MIB - 32, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS) {
        made++;
    }
    assert_int_equal(made, 16); /* of 256 MiB */
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&pieces[made], 1, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal(left_of(ACL_HBM_MEM), 0);
    acl_ok(aclrtSetDevice(1)); /* device 1 has its own count */
    acl_ok(aclrtMalloc(&pieces[made], 200 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtFree(pieces[made]));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetDevice(0));
    /* aclrtSetDevice was called once more than aclrtResetDevice, so device 0 stays current */
    acl_ok(aclrtResetDevice(0));
    acl_ok(aclrtFree(pieces[--made]));
    acl_ok(aclrtMalloc(&pieces[made], 15 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    made++;
    while (made > 0) {
        acl_ok(aclrtFree(pieces[--made]));
    }
}

TEST(attributes_name_the_current_device)
{
    void *memory = NULL;
    aclrtMallocAttribute attribute = {.attr = ACL_RT_MEM_ATTR_DEVICE_ID, .value = {.deviceId = 1}};
    aclrtMallocConfig config = {.attrs = &attribute, .numAttrs = 1};
    const size_t before = left_of(ACL_HBM_MEM);
    acl_ok(aclrtMallocWithCfg(&memory, 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    assert_int_equal(before - left_of(ACL_HBM_MEM), 4 * MIB); /* no padding */
    acl_ok(aclrtFree(memory));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMallocWithCfg(&memory, 1, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    acl_ok(aclrtSetDevice(1));
    acl_ok(aclrtMallocWithCfg(&memory, 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST, &config));
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtResetDevice(1));
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtResetDevice(0));
}

TEST(copies_go_every_way)
{
    char from[256], to[256];
    char *a, *b;
    for (size_t i = 0; i < sizeof(from); i++) {
        from[i] = (char)i;
    }
    acl_ok(aclrtMalloc((void **)&a, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMalloc((void **)&b, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemcpy(a + 100, 256, from, 256, ACL_MEMCPY_HOST_TO_DEVICE)); /* into the middle */
    acl_ok(aclrtMemcpy(b + 7, 256, a + 100, 256, ACL_MEMCPY_HOST_TO_HOST));  /* the runtime does not check the kind */
    acl_ok(aclrtMemcpy(to, 256, b + 7, 256, ACL_MEMCPY_DEFAULT));
    assert_memory_equal(from, to, sizeof(to));
    acl_ok(aclrtMemset(b, 4096, 0x1ff, 10));
    acl_ok(aclrtMemcpy(to, 256, b, 10, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal((unsigned char)to[9], 0xff);
    acl_ok(aclrtMemcpy(to, 10, from, 10, ACL_MEMCPY_HOST_TO_HOST));
    assert_memory_equal(from, to, 10);

    acl_ok(aclrtMemcpy(NULL, 0, NULL, 0, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy(NULL, 1, from, 1, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy(a, 1, NULL, 1, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(a, 1, from, 2, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemcpy(a, 1, from, 1, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemcpy(a, 1 << 20, from, 1 << 20, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclrtMemcpyAsync(to, 1, from, 1, ACL_MEMCPY_HOST_TO_HOST, NULL));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(to, 10, 0, 10)); /* plain host memory */
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, aclrtMemset(a, 10, 0, 11));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtMemset(NULL, 10, 0, 1));
    acl_ok(aclrtFree(a));
    acl_ok(aclrtFree(b));
}

TEST(pageable_memory_makes_a_copy_wait)
{
    char host[64];
    char *memory = NULL;
    aclrtStream stream;
    aclrtStreamStatus status;
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMalloc((void **)&memory, 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMemsetAsync(memory, 4 * MIB, 3, 4 * MIB, stream));
    acl_ok(aclrtMemcpyAsync(host, sizeof(host), memory, sizeof(host), ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_int_equal(host[63], 3); /* complete when the call returns */
    acl_ok(aclrtStreamQuery(stream, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
    acl_ok(aclrtFree(memory));
    acl_ok(aclrtDestroyStream(stream));
}

TEST(fresh_memory_is_poisoned)
{
    unsigned char *memory = NULL;
    acl_ok(aclrtMalloc((void **)&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_int_equal(memory[17], 0xdd);
    acl_ok(aclrtFree(memory));
}

TEST(four_gigabytes_are_a_size_like_another)
{
    void *memory = NULL;
    acl_expect(ACL_ERROR_RT_MEMORY_ALLOCATION, aclrtMalloc(&memory, (size_t)4 << 30, ACL_MEM_MALLOC_HUGE_FIRST));
}

ACL_ENVIRONMENT(CAPACITY, "256MiB")
ACL_ENVIRONMENT(EXIT_CODE, "3")
ALL_TESTS(use_device, reset_device)
