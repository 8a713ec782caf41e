/* op_compute.h: the operators that compute real results, on plain memory. These functions do not know of streams. */
#ifndef WEIR_ASCENDCL_OP_COMPUTE_H
#define WEIR_ASCENDCL_OP_COMPUTE_H

#include <acl/acl_base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACL__OP_RANK = 8, ACL__OP_INPUTS = 3 };

/* X(name of the enum constant, name in aclopExecuteV2, form of the computation) */
#define ACL__OP_LIST(X)                                                                                                \
    X(ADD, "Add", BINARY)                                                                                              \
    X(SUB, "Sub", BINARY)                                                                                              \
    X(MUL, "Mul", BINARY)                                                                                              \
    X(REAL_DIV, "RealDiv", BINARY)                                                                                     \
    X(MAXIMUM, "Maximum", BINARY)                                                                                      \
    X(MINIMUM, "Minimum", BINARY)                                                                                      \
    X(RELU, "Relu", UNARY)                                                                                             \
    X(CAST, "Cast", CAST)                                                                                              \
    X(MAT_MUL, "MatMul", MATRIX)                                                                                       \
    X(MAT_MUL_V2, "MatMulV2", MATRIX)                                                                                  \
    X(SOFTMAX, "Softmax", SOFTMAX)                                                                                     \
    X(SOFTMAX_V2, "SoftmaxV2", SOFTMAX)

typedef enum acl__op_kind {
#define ACL__OP_ENUM(name, text, form) ACL__OP_##name,
    ACL__OP_LIST(ACL__OP_ENUM)
#undef ACL__OP_ENUM
        ACL__OP_KINDS
} acl__op_kind;

typedef struct acl__tensor {
    aclDataType type;
    uint32_t rank;
    int64_t dims[ACL__OP_RANK];
} acl__tensor;

/* The attributes that the caller of an operator sets. */
typedef struct acl__op_options {
    bool transpose_a, transpose_b; /* attributes "transpose_x1" and "transpose_x2" of a matrix product */
    int64_t axis;                  /* softmax: "axes" */
    int64_t target;                /* type to cast to, attribute "dst_type"; -1: the type in the output's description */
} acl__op_options;

/* An operator on given shapes: plain data, which the kernel finds in its workspace. Strides count elements. */
typedef struct acl__op {
    acl__op_kind kind;
    uint32_t input_count;
    acl__tensor in[ACL__OP_INPUTS];
    acl__tensor out;
    int64_t strides[ACL__OP_INPUTS][ACL__OP_RANK]; /* [input][output dimension]; 0: the input is broadcast */
    uint64_t elements;                             /* of the output */
    /* Matrices: rows, columns, inner dimension, and number of products. Softmax: elements before the axis, after it,
     * and along it. */
    int64_t rows, columns, inner, batches;
    bool transpose_a, transpose_b;
    uint64_t workspace_bytes; /* bytes of this struct, plus two floats for each row of a softmax */
    uint64_t temporary_bytes; /* bytes of the output in float32, if the kernel needs a temporary for it; else 0 */
    uint64_t macs, vector_ops;
    uint64_t in_bytes[ACL__OP_INPUTS], out_bytes;
} acl__op;

/* Returns false if there is no such operator. */
bool acl__op_find(const char *name, acl__op_kind *kind);
const char *acl__op_name(acl__op_kind kind);
/* Stores the least and the greatest number of inputs that a kind of operator takes. */
void acl__op_inputs(acl__op_kind kind, uint32_t *least, uint32_t *most);
/* Derives all other members from op->kind, input_count, in and the output's type; the output's shape is a result.
 * Returns NULL on success, or a constant sentence that names the error. */
const char *acl__op_prepare(acl__op *op, const acl__op_options *options);
/* Makes the kernel compute into a temporary buffer first. Needed when the output overlaps an input that the kernel
 * reads again. */
void acl__op_use_temporary(acl__op *op);
/* Fills `workspace` with the kernel's data, computes, and stores the result at `out`. `temporary` is used when
 * temporary_bytes > 0. */
void acl__op_compute(const acl__op *op, const void *const in[], void *out, void *workspace, void *temporary);

/* Returns the bytes of one element of a type that operators take; 0 for all other types. */
size_t acl__op_type_bytes(aclDataType type);

#endif
