/* mdl.h: a loaded model, for the functions that describe it and those that execute it. */
#ifndef WEIR_ASCENDCL_MDL_H
#define WEIR_ASCENDCL_MDL_H

#include "actions/actions.h"
#include "model/network.h"

typedef struct acl__model {
    struct acl__model *next;
    uint32_t id;
    uint32_t references; /* reference count: the model table, and each call that uses the model */
    acl__network *network;
    acl__plan *plan;
    acl__shape *shapes; /* shapes at the input sizes given in the file; NULL if the file gives none */
    int32_t device;
    void *weights; /* device memory of the runtime; NULL: the model has no weights */
    uint64_t weight_bytes;
    uint64_t *weight_at; /* [layer_count + 1]: offset of each layer's weights */
} acl__model;

/* Returns the model with an id; the caller releases it. NULL: none (error noted). The lock is not held. */
acl__model *acl__model_get(uint32_t id);
void acl__model_release(acl__model *model);

/* Returns the bytes of a blob as float32 without gaps, the layout of the caller's buffers. */
static inline uint64_t acl__dense_bytes(const acl__shape *shape)
{
    return acl__shape_elements(shape) * 4;
}
/* Stores a shape as descriptions have it: a batch of 1, then the dimensions from the outermost on. */
uint32_t acl__shape_dims(const acl__shape *shape, int64_t dims[5]);

#endif
