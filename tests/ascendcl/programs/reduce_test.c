/* reduce_test.c: aclrtReduceAsync: its results in each type, its place in the order of the stream, refused calls. */
#include "rig/acl.h"

#include <weir/ascendcl.h>

#include <stdint.h>
#include <string.h>

enum { SUM = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, MAX, MIN, EQUAL };

static char *dst, *src;
static aclrtStream stream;

static int set_up(void **unused)
{
    (void)unused;
    acl_ok(aclrtSetDevice(0));
    acl_ok(aclrtCreateStream(&stream));
    acl_ok(aclrtMalloc((void **)&dst, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    acl_ok(aclrtMalloc((void **)&src, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    acl_ok(aclrtDestroyStream(stream));
    acl_ok(aclrtFree(dst));
    acl_ok(aclrtFree(src));
    acl_ok(aclrtResetDevice(0));
    assert_int_equal(weir_ascendcl_finding_count(NULL), 0);
    return 0;
}

EACH_TEST(set_up, tear_down)

/* Reduces `bytes` of `from` into `to`, and compares with `wanted`. */
static void expect(aclDataType type, int kind, const void *to, const void *from, const void *wanted, size_t bytes)
{
    char result[64];
    acl_ok(aclrtMemcpy(dst, bytes, to, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtMemcpy(src, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    acl_ok(aclrtReduceAsync(dst, src, bytes, (aclrtReduceKind)kind, type, stream, NULL));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemcpy(result, bytes, dst, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(result, wanted, bytes);
}

TEST(numbers_are_reduced)
{
    const float a[] = {1, -2, 3.5F}, b[] = {0.25F, 4, -8};
    expect(ACL_FLOAT, SUM, a, b, (const float[]){1.25F, 2, -4.5F}, sizeof(a));
    expect(ACL_FLOAT, MAX, a, b, (const float[]){1, 4, 3.5F}, sizeof(a));
    expect(ACL_FLOAT, MIN, a, b, (const float[]){0.25F, -2, -8}, sizeof(a));
    const int32_t c[] = {INT32_MAX, -5}, d[] = {1, 7};
    expect(ACL_INT32, SUM, c, d, (const int32_t[]){INT32_MIN, 2}, sizeof(c));
    expect(ACL_INT32, MAX, c, d, (const int32_t[]){INT32_MAX, 7}, sizeof(c));
    const int8_t e[] = {100, -100, 3}, f[] = {100, 5, 3};
    expect(ACL_INT8, SUM, e, f, (const int8_t[]){-56, -95, 6}, sizeof(e));
    expect(ACL_INT8, MIN, e, f, (const int8_t[]){100, -100, 3}, sizeof(e));
    const int16_t g[] = {-300, 300}, h[] = {299, 1};
    expect(ACL_INT16, SUM, g, h, (const int16_t[]){-1, 301}, sizeof(g));
    const uint16_t half[] = {0x3c00, 0x4000}, other[] = {0x4000, 0xc000};                /* 1 and 2; 2 and -2 */
    expect(ACL_FLOAT16, SUM, half, other, (const uint16_t[]){0x4200, 0}, sizeof(half));  /* 3 and 0 */
    const uint16_t wide[] = {0x3f80, 0x4380, 0x3f81}, more[] = {0x3f80, 0x3f80, 0x3b80}; /* ends in 1, 1, 2^-8 */
    expect(ACL_BF16, SUM, wide, more, (const uint16_t[]){0x4000, 0x4380, 0x3f82}, sizeof(wide)); /* rounds to even */
    expect(ACL_BF16, MAX, wide, more, (const uint16_t[]){0x3f80, 0x4380, 0x3f81}, sizeof(wide));
}

TEST(a_reduction_is_in_the_order_of_its_stream)
{
    int32_t word = 0;
    acl_ok(aclrtMemsetAsync(dst, 4096, 0, 4096, stream));
    acl_ok(aclrtMemsetAsync(src, 4096, 1, 4096, stream));
    for (int i = 0; i < 3; i++) {
        acl_ok(aclrtReduceAsync(dst, src, 4096, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, stream, NULL));
    }
    acl_ok(aclrtMemsetAsync(src, 4096, 9, 4096, stream));
    acl_ok(aclrtSynchronizeStream(stream));
    acl_ok(aclrtMemcpy(&word, 4, dst + 4092, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(word, 0x03030303);
}

static aclError reduce(void *to, const void *from, uint64_t bytes, int kind, aclDataType type)
{
    return aclrtReduceAsync(to, from, bytes, (aclrtReduceKind)kind, type, stream, NULL);
}

TEST(impossible_reductions_are_refused)
{
    int local = 0;
    acl_expect(ACL_ERROR_INVALID_PARAM, reduce(NULL, src, 4, SUM, ACL_FLOAT));
    acl_expect(ACL_ERROR_INVALID_PARAM, reduce(dst, NULL, 4, SUM, ACL_FLOAT));
    acl_expect(ACL_ERROR_INVALID_PARAM, reduce(dst, src, 8, SUM, ACL_DOUBLE));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclrtReduceAsync(dst, src, 4, (aclrtReduceKind)SUM, ACL_FLOAT, stream, &local));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, reduce(dst, src, 0, SUM, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, reduce(dst, src, 4, SUM - 1, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, reduce(dst, src, 4, EQUAL + 1, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, reduce(dst, src, (UINT64_C(4) << 30) + 4, SUM, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, reduce(&local, src, 4, SUM, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_PARAM_INVALID, reduce(dst, &local, 4, SUM, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, reduce(dst, src, 4, EQUAL, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, reduce(dst, src, 4, SUM, ACL_UINT32));
}

TEST(addresses_are_aligned_to_the_size_of_an_element)
{
    acl_expect(ACL_ERROR_RT_ADDR_UNALIGNED, reduce(dst + 2, src, 4, SUM, ACL_FLOAT));
    acl_expect(ACL_ERROR_RT_ADDR_UNALIGNED, reduce(dst, src + 2, 4, SUM, ACL_INT32));
    acl_expect(ACL_ERROR_RT_ADDR_UNALIGNED, reduce(dst + 1, src, 4, SUM, ACL_FLOAT16));
    acl_expect(ACL_ERROR_RT_ADDR_UNALIGNED, reduce(dst, src + 1, 4, SUM, ACL_BF16));
    acl_expect(ACL_ERROR_RT_ADDR_UNALIGNED, reduce(dst + 1, src + 1, 4, MAX, ACL_INT16));
    acl_ok(reduce(dst + 2, src + 2, 4, SUM, ACL_INT16));
    acl_ok(reduce(dst + 1, src + 3, 4, SUM, ACL_INT8));
    acl_expect(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, reduce(dst + 1, src, 4, SUM, ACL_UINT32));
    acl_ok(aclrtSynchronizeStream(stream));
}

int main(void)
{
    return run_all_tests("reductions");
}
