/* mdl.h: a loaded model, for those who describe it and those who run it. */
#ifndef WEIR_ASCENDCL_MDL_H
#define WEIR_ASCENDCL_MDL_H

#include "model/network.h"
#include "runtime.h"

typedef struct acl__model {
    struct acl__model *next;
    uint32_t id;
    uint32_t references; /* the table's, and one for each execution and description at work */
    acl__network *network;
    acl__plan *plan;
    acl__shape *shapes; /* at the sizes that the file gives; NULL where it gives none */
    int32_t device;
    void *weights; /* the runtime's own memory; NULL: there are none */
    uint64_t weight_bytes;
    uint64_t *weight_at; /* [layer_count + 1]: where each layer's weights begin */
} acl__model;

/* The model of that id, to be released; NULL: none (error noted). The lock is not held. */
acl__model *acl__model_get(uint32_t id);
void acl__model_release(acl__model *model);

/* Bytes of a blob's elements as the caller's buffers have them: float32, nothing between. */
static inline uint64_t acl__dense_bytes(const acl__shape *shape)
{
    return acl__shape_elements(shape) * 4;
}
/* As descriptions say it: a batch of 1, then the dimensions from the outermost on. */
uint32_t acl__shape_dims(const acl__shape *shape, int64_t dims[5]);

#endif
