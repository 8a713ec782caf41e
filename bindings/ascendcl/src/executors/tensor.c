/* tensor.c: descriptions of tensors, data buffers, data sets, and the half-precision conversions. These are plain
 * objects in host memory, each used by one thread at a time, like the vendor's objects.
 */
#include "executors/tensor.h"

#include "actions/actions.h"
#include "executors/half.h"

#include <stdlib.h>
#include <string.h>

/* --- types --- */

size_t acl__type_bytes(aclDataType type)
{
    switch (type) {
    case ACL_DT_UNDEFINED:
    case ACL_STRING:
        return 0;
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_INT4:
    case ACL_UINT1:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
        return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
        return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
        return 4;
    case ACL_COMPLEX128:
        return 16;
    default:
        return 8;
    }
}

ACL_EXPORT size_t aclDataTypeSize(aclDataType dataType)
{
    ACL_ENTER_OR(aclDataTypeSize, 0);
    return acl__type_bytes(dataType);
}

ACL_EXPORT float aclFloat16ToFloat(aclFloat16 value)
{
    ACL_ENTER_OR(aclFloat16ToFloat, 0);
    return acl__half_to_float(value);
}

ACL_EXPORT aclFloat16 aclFloatToFloat16(float value)
{
    ACL_ENTER_OR(aclFloatToFloat16, 0);
    return acl__half_from_float(value);
}

/* --- data buffers --- */

ACL_EXPORT aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    ACL_ENTER_OR(aclCreateDataBuffer, NULL);
    aclDataBuffer *buffer = malloc(sizeof(*buffer));
    if (buffer != NULL) {
        *buffer = (aclDataBuffer){data, size};
    }
    return buffer;
}

ACL_EXPORT aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer)
{
    ACL_ENTER(aclDestroyDataBuffer);
    ACL_NEED(dataBuffer);
    free((void *)(uintptr_t)dataBuffer);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size)
{
    ACL_ENTER(aclUpdateDataBuffer);
    ACL_NEED(dataBuffer);
    *dataBuffer = (aclDataBuffer){data, size};
    return ACL_SUCCESS;
}

ACL_FACT(void *, aclGetDataBufferAddr, (const aclDataBuffer *dataBuffer), dataBuffer != NULL, dataBuffer->data, NULL)
ACL_FACT(size_t, aclGetDataBufferSizeV2, (const aclDataBuffer *dataBuffer), dataBuffer != NULL, dataBuffer->size, 0)
ACL_FACT(uint32_t, aclGetDataBufferSize, (const aclDataBuffer *dataBuffer), dataBuffer != NULL,
         (uint32_t)dataBuffer->size, 0)

/* --- tensor descriptions --- */

aclTensorDesc *acl__tensor_desc_create(aclDataType type, uint32_t rank, const int64_t *dims, aclFormat format)
{
    WEIR_ASSERT(rank <= ACL__TENSOR_RANK);
    WEIR_ASSERT(rank == 0 || dims != NULL);
    aclTensorDesc *desc = calloc(1, sizeof(*desc));
    if (desc != NULL) {
        desc->type = type;
        desc->format = format;
        desc->rank = rank;
        if (rank > 0) {
            memcpy(desc->dims, dims, rank * sizeof(*dims));
        }
    }
    return desc;
}

void acl__tensor_desc_destroy(aclTensorDesc *desc)
{
    if (desc != NULL) {
        free(desc->name);
        free(desc);
    }
}

ACL_EXPORT aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format)
{
    ACL_ENTER_OR(aclCreateTensorDesc, NULL);
    if (numDims < 0 || numDims > ACL__TENSOR_RANK || (numDims > 0 && dims == NULL)) {
        (void)acl__fail(ACL_ERROR_INVALID_PARAM, "aclCreateTensorDesc: %d dimensions at %p", numDims,
                        (const void *)dims);
        return NULL;
    }
    return acl__tensor_desc_create(dataType, (uint32_t)numDims, dims, format);
}

ACL_EXPORT void aclDestroyTensorDesc(const aclTensorDesc *desc)
{
    ACL_ENTER_OR(aclDestroyTensorDesc, );
    acl__tensor_desc_destroy((aclTensorDesc *)(uintptr_t)desc);
}

ACL_EXPORT void aclSetTensorDescName(aclTensorDesc *desc, const char *name)
{
    ACL_ENTER_OR(aclSetTensorDescName, );
    if (desc == NULL) {
        (void)acl__fail(ACL_ERROR_INVALID_PARAM, "aclSetTensorDescName: desc is NULL");
        return;
    }
    char *copy = name != NULL ? strdup(name) : NULL;
    if (name != NULL && copy == NULL) {
        (void)acl__fail(ACL_ERROR_BAD_ALLOC, "aclSetTensorDescName: no host memory");
        return;
    }
    free(desc->name);
    desc->name = copy;
}

ACL_FACT(aclDataType, aclGetTensorDescType, (const aclTensorDesc *desc), desc != NULL, desc->type, ACL_DT_UNDEFINED)
ACL_FACT(aclFormat, aclGetTensorDescFormat, (const aclTensorDesc *desc), desc != NULL, desc->format,
         ACL_FORMAT_UNDEFINED)

/* Counts the elements of a description; a scalar has one. Returns 0 if a dimension is not known or the count overflows
 * a size_t. */
static size_t count_elements(const aclTensorDesc *desc)
{
    WEIR_ASSERT(desc->rank <= ACL__TENSOR_RANK);
    size_t count = 1;
    for (uint32_t i = 0; i < desc->rank; i++) {
        if (desc->dims[i] < 0 || __builtin_mul_overflow(count, (size_t)desc->dims[i], &count)) {
            return 0;
        }
    }
    return count;
}

ACL_FACT(size_t, aclGetTensorDescElementCount, (const aclTensorDesc *desc), desc != NULL, count_elements(desc), 0)

ACL_EXPORT size_t aclGetTensorDescSize(const aclTensorDesc *desc)
{
    ACL_ENTER_OR(aclGetTensorDescSize, 0);
    size_t bytes = 0;
    if (desc == NULL || __builtin_mul_overflow(count_elements(desc), acl__type_bytes(desc->type), &bytes)) {
        return 0;
    }
    return bytes;
}

ACL_EXPORT size_t aclGetTensorDescNumDims(const aclTensorDesc *desc)
{
    ACL_ENTER_OR(aclGetTensorDescNumDims, 0);
    if (desc == NULL) {
        return 0;
    }
    const int64_t unknown_rank = -2;
    return desc->rank > 0 && desc->dims[0] == unknown_rank ? (size_t)ACL_UNKNOWN_RANK : desc->rank;
}

ACL_FACT(int64_t, aclGetTensorDescDim, (const aclTensorDesc *desc, size_t index), desc != NULL && index < desc->rank,
         desc->dims[index], -1)

ACL_EXPORT aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize)
{
    ACL_ENTER(aclGetTensorDescDimV2);
    ACL_NEED(desc);
    ACL_NEED(dimSize);
    ACL_REFUSE_IF(index >= desc->rank, ACL_ERROR_INVALID_PARAM, "dimension %zu of %u", index, (unsigned)desc->rank);
    *dimSize = desc->dims[index];
    return ACL_SUCCESS;
}

/* Properties of a tensor that the simulated operators do not use: how its bytes are stored, where they lie, their value
 * when it is constant. The arguments are checked. */
#define UNUSED_PROPERTY(name, parameters, condition, why)                                                              \
    ACL_EXPORT aclError name parameters                                                                                \
    {                                                                                                                  \
        ACL_ENTER(name);                                                                                               \
        ACL_NEED(desc);                                                                                                \
        ACL_REFUSE_IF(!(condition), ACL_ERROR_INVALID_PARAM, "%s", why);                                               \
        return ACL_SUCCESS;                                                                                            \
    }
UNUSED_PROPERTY(aclSetTensorFormat, (aclTensorDesc * desc, aclFormat format), (int)format >= ACL_FORMAT_UNDEFINED,
                "there is no such format")
UNUSED_PROPERTY(aclSetTensorShape, (aclTensorDesc * desc, int numDims, const int64_t *dims),
                numDims >= 0 && numDims <= ACL__TENSOR_RANK && (numDims == 0 || dims != NULL),
                "too many dimensions, or dims is NULL")
UNUSED_PROPERTY(aclSetTensorPlaceMent, (aclTensorDesc * desc, aclMemType memType),
                (uint32_t)memType <= ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT, "there is no such type of memory")
UNUSED_PROPERTY(aclSetTensorConst, (aclTensorDesc * desc, void *dataBuffer, size_t length),
                dataBuffer != NULL && length > 0, "dataBuffer is NULL, or length is 0")

/* --- data sets --- */

ACL_EXPORT aclmdlDataset *aclmdlCreateDataset(void)
{
    ACL_ENTER_OR(aclmdlCreateDataset, NULL);
    return calloc(1, sizeof(aclmdlDataset));
}

ACL_EXPORT aclError aclmdlDestroyDataset(const aclmdlDataset *dataset)
{
    ACL_ENTER(aclmdlDestroyDataset);
    ACL_NEED(dataset);
    for (size_t i = 0; i < dataset->count; i++) {
        acl__tensor_desc_destroy(dataset->entries[i].desc);
    }
    free(dataset->entries);
    free((void *)(uintptr_t)dataset);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer)
{
    ACL_ENTER(aclmdlAddDatasetBuffer);
    ACL_NEED(dataset);
    ACL_NEED(dataBuffer);
    WEIR_ASSERT(dataset->count <= dataset->room);
    if (dataset->count == dataset->room) {
        const size_t room = dataset->room == 0 ? 4 : dataset->room * 2;
        acl__dataset_entry *larger = realloc(dataset->entries, room * sizeof(*larger));
        ACL_REFUSE_IF(larger == NULL, ACL_ERROR_BAD_ALLOC, "no host memory");
        dataset->entries = larger;
        dataset->room = room;
    }
    dataset->entries[dataset->count++] = (acl__dataset_entry){dataBuffer, NULL};
    return ACL_SUCCESS;
}

ACL_FACT(size_t, aclmdlGetDatasetNumBuffers, (const aclmdlDataset *dataset), dataset != NULL, dataset->count, 0)
ACL_FACT(aclDataBuffer *, aclmdlGetDatasetBuffer, (const aclmdlDataset *dataset, size_t index),
         dataset != NULL && index < dataset->count, dataset->entries[index].buffer, NULL)

ACL_EXPORT aclError aclmdlSetDatasetTensorDesc(aclmdlDataset *dataset, aclTensorDesc *tensorDesc, size_t index)
{
    ACL_ENTER(aclmdlSetDatasetTensorDesc);
    ACL_NEED(dataset);
    ACL_REFUSE_IF(index >= dataset->count, ACL_ERROR_INVALID_PARAM, "buffer %zu of %zu", index, dataset->count);
    aclTensorDesc *copy = NULL;
    if (tensorDesc != NULL) {
        copy = acl__tensor_desc_create(tensorDesc->type, tensorDesc->rank, tensorDesc->dims, tensorDesc->format);
        ACL_REFUSE_IF(copy == NULL, ACL_ERROR_BAD_ALLOC, "no host memory");
    }
    acl__tensor_desc_destroy(dataset->entries[index].desc);
    dataset->entries[index].desc = copy;
    return ACL_SUCCESS;
}

ACL_FACT(aclTensorDesc *, aclmdlGetDatasetTensorDesc, (const aclmdlDataset *dataset, size_t index),
         dataset != NULL && index < dataset->count, dataset->entries[index].desc, NULL)
