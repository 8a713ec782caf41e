/* reduce.c: aclrtReduceAsync: dst[i] = the sum, the greater or the smaller of dst[i] and src[i], in stream order.
 *
 * On a device the copy engine computes it on the way. Integers wrap around. The vendor's sources do not show how the
 * engine rounds: here both 16-bit float types are added as float and rounded to nearest.
 */
#include "executors/consumer.h"
#include "executors/half.h"
#include "model/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_SUM (UINT64_C(4) << 30) /* most bytes of one sum */

struct reduction {
    char *dst;
    const char *src;
    uint64_t bytes;
    aclrtReduceKind kind;
    aclDataType type;
};

static float from_bfloat16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static uint16_t to_bfloat16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof(wide));
    if (isnan(value)) {
        return (uint16_t)(wide >> 16 | 0x40);
    }
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

static float combine_floats(aclrtReduceKind kind, float a, float b)
{
    return kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM   ? a + b
           : kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX ? fmaxf(a, b)
                                                      : fminf(a, b);
}

static int64_t combine_integers(aclrtReduceKind kind, int64_t a, int64_t b)
{
    return kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM                ? a + b
           : (kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX) == (a > b) ? a
                                                                   : b;
}

/* Defines the loop for elements of one type. READ and WRITE convert an element to the type of FUNCTION and back. */
#define LOOP(name, type, function, read, write)                                                                        \
    static void name(const struct reduction *r)                                                                        \
    {                                                                                                                  \
        type to, from;                                                                                                 \
        for (uint64_t at = 0; at + sizeof(type) <= r->bytes; at += sizeof(type)) {                                     \
            memcpy(&to, r->dst + at, sizeof(type));                                                                    \
            memcpy(&from, r->src + at, sizeof(type));                                                                  \
            to = (type)write(function(r->kind, read(to), read(from)));                                                 \
            memcpy(r->dst + at, &to, sizeof(type));                                                                    \
        }                                                                                                              \
    }

LOOP(loop_float, float, combine_floats, , )
LOOP(loop_half, uint16_t, combine_floats, acl__half_to_float, acl__half_from_float)
LOOP(loop_bfloat16, uint16_t, combine_floats, from_bfloat16, to_bfloat16)
LOOP(loop_int8, int8_t, combine_integers, , )
LOOP(loop_int16, int16_t, combine_integers, , )
LOOP(loop_int32, int32_t, combine_integers, , )

static const struct {
    aclDataType type;
    uint32_t bytes;
    void (*loop)(const struct reduction *r);
} types[] = {
    {ACL_FLOAT, 4, loop_float}, {ACL_FLOAT16, 2, loop_half}, {ACL_BF16, 2, loop_bfloat16}, {ACL_INT8, 1, loop_int8},
    {ACL_INT16, 2, loop_int16}, {ACL_INT32, 4, loop_int32},  {ACL_INT4, 0, NULL},          {ACL_UINT8, 0, NULL},
    {ACL_UINT16, 0, NULL},      {ACL_UINT32, 0, NULL},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static size_t index_of(aclDataType type)
{
    size_t i = 0;
    while (i < TYPES && types[i].type != type) {
        i++;
    }
    return i;
}

static aclError compute(void *ctx)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct reduction *r = ctx;
    WEIR_ASSERT(index_of(r->type) < TYPES && types[index_of(r->type)].loop != NULL);
    if (!acl__is_device_memory(r->dst, r->bytes) || !acl__is_device_memory(r->src, r->bytes)) {
        return ACL_ERROR_RT_AICORE_EXCEPTION;
    }
    types[index_of(r->type)].loop(r);
    return ACL_SUCCESS;
}

/* `count` is in bytes. */
ACL_EXPORT aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count, aclrtReduceKind kind, aclDataType type,
                                     aclrtStream stream_handle, void *reserve)
{
    ACL_ENTER_LOCKED(aclrtReduceAsync);
    ACL_NEED(dst);
    ACL_NEED(src);
    const size_t at = index_of(type);
    ACL_REFUSE_IF(reserve != NULL, ACL_ERROR_INVALID_PARAM, "reserve must be NULL");
    ACL_REFUSE_IF(at == TYPES, ACL_ERROR_INVALID_PARAM, "there is no reduction of type %d", (int)type);
    ACL_REFUSE_IF(count == 0, ACL_ERROR_RT_PARAM_INVALID, "count is 0");
    ACL_REFUSE_IF(kind < ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM || kind > ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL,
                  ACL_ERROR_RT_PARAM_INVALID, "there is no kind %d", (int)kind);
    ACL_REFUSE_IF(kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM && count > LONGEST_SUM, ACL_ERROR_RT_PARAM_INVALID,
                  "a sum has at most 4 GiB");
    ACL_NEED_STREAM(stream, stream_handle);
    ACL_REFUSE_IF(kind == ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL || types[at].loop == NULL,
                  ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "kind %d of type %d is not simulated", (int)kind, (int)type);
    ACL_REFUSE_IF(((uintptr_t)dst | (uintptr_t)src) % types[at].bytes != 0, ACL_ERROR_RT_ADDR_UNALIGNED,
                  "dst %p and src %p are not both aligned to %u bytes", dst, src, types[at].bytes);
    ACL_REFUSE_IF(!acl__is_device_memory(dst, count) || !acl__is_device_memory(src, count), ACL_ERROR_RT_PARAM_INVALID,
                  "%llu bytes at dst and at src are not all device memory", (unsigned long long)count);
    struct reduction *r = malloc(sizeof(*r));
    ACL_REFUSE_IF(r == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory");
    *r = (struct reduction){dst, src, count, kind, type};
    const weir_sim_access accesses[] = {{.address = (uintptr_t)dst, .size = count, .write = true},
                                        {.address = (uintptr_t)src, .size = count}};
    const acl__kernel kernel = {.tag = __func__,
                                .duration_ns = acl__roofline_ns(0, count / types[at].bytes, 3 * count),
                                .accesses = accesses,
                                .access_count = 2,
                                .compute = compute,
                                .end = free,
                                .ctx = r,
                                .ctx_bytes = sizeof(*r)};
    return acl__launch(stream, &kernel);
}
