/* tensor_test.c: descriptions of tensors, data buffers, data sets, half precision. */
#include "rig/acl.h"

#include <acl/acl_mdl.h>

#include <math.h>

/* The older forms are tested too. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

TEST(halves_are_exact)
{
    /* Every half converts to a float and back to the same half; a NaN stays a NaN. */
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = aclFloat16ToFloat((aclFloat16)bits);
        const aclFloat16 back = aclFloatToFloat16(value);
        if (isnan(value)) {
            assert_true(isnan(aclFloat16ToFloat(back)));
        } else {
            assert_int_equal(back, bits);
        }
    }
    assert_true(aclFloat16ToFloat(0x3c00) == 1 && aclFloat16ToFloat(0xc000) == -2);
    assert_true(aclFloat16ToFloat(0x7bff) == 65504 && aclFloat16ToFloat(0x0001) == 0x1p-24f);
    assert_true(isinf(aclFloat16ToFloat(0x7c00)) && isnan(aclFloat16ToFloat(0x7e00)));
}

TEST(floats_round_to_the_nearest_half)
{
    static const struct {
        float value;
        uint16_t half;
    } cases[] = {
        {65519.996f, 0x7bff},   {65520, 0x7c00},        {1e30f, 0x7c00},          {-65520, 0xfc00},
        {0x1p-25f, 0x0000},     {0x1.8p-25f, 0x0001},   {-0x1p-26f, 0x8000},      {0x1.000002p-25f, 0x0001},
        {2049, 0x6800},         {2051, 0x6802},         {1.00048828125f, 0x3c00}, {1.00146484375f, 0x3c02},
        {0x1.ffbp-15f, 0x03ff}, {0x1.ffcp-15f, 0x0400},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (aclFloatToFloat16(cases[i].value) != cases[i].half) {
            fail_msg("%a becomes %x", (double)cases[i].value, aclFloatToFloat16(cases[i].value));
        }
    }
}

TEST(types_have_sizes)
{
    assert_int_equal(aclDataTypeSize(ACL_DT_UNDEFINED), 0);
    assert_int_equal(aclDataTypeSize(ACL_STRING), 0);
    assert_int_equal(aclDataTypeSize(ACL_BOOL), 1);
    assert_int_equal(aclDataTypeSize(ACL_FLOAT16), 2);
    assert_int_equal(aclDataTypeSize(ACL_FLOAT), 4);
    assert_int_equal(aclDataTypeSize(ACL_INT64), 8);
    assert_int_equal(aclDataTypeSize(ACL_COMPLEX128), 16);
}

TEST(descriptions_describe)
{
    const int64_t dims[] = {2, 3, 5};
    int64_t dim = 0;
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT16, 3, dims, ACL_FORMAT_NCHW);
    assert_non_null(desc);
    assert_int_equal(aclGetTensorDescType(desc), ACL_FLOAT16);
    assert_int_equal(aclGetTensorDescFormat(desc), ACL_FORMAT_NCHW);
    assert_int_equal(aclGetTensorDescNumDims(desc), 3);
    assert_int_equal(aclGetTensorDescElementCount(desc), 30);
    assert_int_equal(aclGetTensorDescSize(desc), 60);
    acl_ok(aclGetTensorDescDimV2(desc, 2, &dim));
    assert_int_equal(dim, 5);
    assert_int_equal(aclGetTensorDescDim(desc, 2), dim);
    assert_int_equal(aclGetTensorDescDim(desc, 3), -1);
    assert_int_equal(aclGetTensorDescDim(NULL, 0), -1);
    acl_expect(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(desc, 3, &dim));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(NULL, 0, &dim));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(desc, 0, NULL));
    aclSetTensorDescName(desc, "name");
    aclSetTensorDescName(desc, NULL);
    aclDestroyTensorDesc(desc);
    aclDestroyTensorDesc(NULL);
}

TEST(odd_descriptions)
{
    const int64_t unknown[] = {-1, 3}, rank[] = {-2}, huge[] = {INT64_MAX, INT64_MAX}, empty[] = {0, 3};
    assert_null(aclCreateTensorDesc(ACL_FLOAT, -1, unknown, ACL_FORMAT_ND));
    assert_null(aclCreateTensorDesc(ACL_FLOAT, 1, NULL, ACL_FORMAT_ND));
    assert_null(aclCreateTensorDesc(ACL_FLOAT, 129, unknown, ACL_FORMAT_ND));
    aclTensorDesc *scalar = aclCreateTensorDesc(ACL_FLOAT, 0, NULL, ACL_FORMAT_ND);
    aclTensorDesc *open = aclCreateTensorDesc(ACL_FLOAT, 2, unknown, ACL_FORMAT_ND);
    aclTensorDesc *any = aclCreateTensorDesc(ACL_FLOAT, 1, rank, ACL_FORMAT_ND);
    aclTensorDesc *large = aclCreateTensorDesc(ACL_FLOAT, 2, huge, ACL_FORMAT_ND);
    aclTensorDesc *none = aclCreateTensorDesc(ACL_FLOAT, 2, empty, ACL_FORMAT_ND);
    assert_true(scalar != NULL && open != NULL && any != NULL && large != NULL && none != NULL);
    assert_int_equal(aclGetTensorDescElementCount(scalar), 1);
    assert_int_equal(aclGetTensorDescSize(scalar), 4);
    assert_int_equal(aclGetTensorDescElementCount(open), 0);
    assert_int_equal(aclGetTensorDescSize(open), 0);
    assert_true(aclGetTensorDescNumDims(any) == (size_t)ACL_UNKNOWN_RANK);
    assert_int_equal(aclGetTensorDescElementCount(large), 0);
    assert_int_equal(aclGetTensorDescSize(none), 0);
    assert_int_equal(aclGetTensorDescElementCount(NULL), 0);
    assert_int_equal(aclGetTensorDescNumDims(NULL), 0);
    assert_int_equal(aclGetTensorDescType(NULL), ACL_DT_UNDEFINED);
    assert_int_equal(aclGetTensorDescFormat(NULL), ACL_FORMAT_UNDEFINED);
    aclDestroyTensorDesc(scalar);
    aclDestroyTensorDesc(open);
    aclDestroyTensorDesc(any);
    aclDestroyTensorDesc(large);
    aclDestroyTensorDesc(none);
}

TEST(buffers_hold_an_address)
{
    char memory[8];
    aclDataBuffer *buffer = aclCreateDataBuffer(memory, sizeof(memory));
    assert_non_null(buffer);
    assert_ptr_equal(aclGetDataBufferAddr(buffer), memory);
    assert_int_equal(aclGetDataBufferSizeV2(buffer), 8);
    assert_int_equal(aclGetDataBufferSize(buffer), 8);
    assert_int_equal(aclGetDataBufferSize(NULL), 0);
    acl_ok(aclUpdateDataBuffer(buffer, NULL, (size_t)1 << 40));
    assert_null(aclGetDataBufferAddr(buffer));
    assert_true(aclGetDataBufferSizeV2(buffer) == (size_t)1 << 40);
    acl_ok(aclDestroyDataBuffer(buffer));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclDestroyDataBuffer(NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclUpdateDataBuffer(NULL, memory, 1));
    assert_null(aclGetDataBufferAddr(NULL));
    assert_int_equal(aclGetDataBufferSizeV2(NULL), 0);
}

TEST(sets_keep_buffers_in_order)
{
    const int64_t dims[] = {1, 3, 8, 8};
    aclDataBuffer *buffers[9];
    aclmdlDataset *set = aclmdlCreateDataset();
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 4, dims, ACL_FORMAT_NCHW);
    assert_true(set != NULL && desc != NULL);
    for (size_t i = 0; i < 9; i++) {
        buffers[i] = aclCreateDataBuffer(NULL, i);
        acl_ok(aclmdlAddDatasetBuffer(set, buffers[i]));
    }
    assert_int_equal(aclmdlGetDatasetNumBuffers(set), 9);
    assert_ptr_equal(aclmdlGetDatasetBuffer(set, 7), buffers[7]);
    assert_null(aclmdlGetDatasetBuffer(set, 9));
    assert_null(aclmdlGetDatasetTensorDesc(set, 3));
    acl_ok(aclmdlSetDatasetTensorDesc(set, desc, 3));
    acl_ok(aclmdlSetDatasetTensorDesc(set, desc, 3)); /* replaced */
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlSetDatasetTensorDesc(set, desc, 9));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlSetDatasetTensorDesc(NULL, desc, 0));
    /* The data set keeps a copy. */
    aclTensorDesc *kept = aclmdlGetDatasetTensorDesc(set, 3);
    assert_ptr_not_equal(kept, desc);
    aclDestroyTensorDesc(desc);
    assert_int_equal(aclGetTensorDescElementCount(kept), 192);
    acl_ok(aclmdlSetDatasetTensorDesc(set, NULL, 3));
    assert_null(aclmdlGetDatasetTensorDesc(set, 3));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlAddDatasetBuffer(set, NULL));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlAddDatasetBuffer(NULL, buffers[0]));
    acl_ok(aclmdlDestroyDataset(set));
    acl_expect(ACL_ERROR_INVALID_PARAM, aclmdlDestroyDataset(NULL));
    for (size_t i = 0; i < 9; i++) {
        acl_ok(aclDestroyDataBuffer(buffers[i]));
    }
}
