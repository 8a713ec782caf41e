/* tensor.h: the structs of aclTensorDesc, aclDataBuffer and aclmdlDataset. */
#ifndef WEIR_ASCENDCL_TENSOR_H
#define WEIR_ASCENDCL_TENSOR_H

#include <acl/acl.h>
#include <acl/acl_mdl.h>

#include <stddef.h>
#include <stdint.h>

enum { ACL__TENSOR_RANK = 128 };

struct aclTensorDesc {
    aclDataType type;
    aclFormat format;
    uint32_t rank;
    int64_t dims[ACL__TENSOR_RANK];
    char *name; /* NULL: none */
};

struct aclDataBuffer {
    void *data;
    size_t size;
};

typedef struct acl__dataset_entry {
    aclDataBuffer *buffer; /* the caller's */
    aclTensorDesc *desc;   /* description that the data set owns; NULL: none */
} acl__dataset_entry;

struct aclmdlDataset {
    acl__dataset_entry *entries;
    size_t count;
    size_t room;
};

/* Creates a tensor description in host memory. NULL: out of memory. */
aclTensorDesc *acl__tensor_desc_create(aclDataType type, uint32_t rank, const int64_t *dims, aclFormat format);
void acl__tensor_desc_destroy(aclTensorDesc *desc);
size_t acl__type_bytes(aclDataType type);

#endif
