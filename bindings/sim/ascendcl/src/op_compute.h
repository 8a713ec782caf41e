/* op_compute.h: the operators that really compute, on memory that is simply there. Nothing here knows of streams. */
#ifndef WEIR_ASCENDCL_OP_COMPUTE_H
#define WEIR_ASCENDCL_OP_COMPUTE_H

#include <acl/acl_base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACL__OP_RANK = 8, ACL__OP_INPUTS = 3 };

/* X(NAME, name in aclopExecuteV2, form) */
#define ACL__OP_LIST(X)                                                                            \
    X(ADD, "Add", BINARY)                                                                          \
    X(SUB, "Sub", BINARY)                                                                          \
    X(MUL, "Mul", BINARY)                                                                          \
    X(REAL_DIV, "RealDiv", BINARY)                                                                 \
    X(MAXIMUM, "Maximum", BINARY)                                                                  \
    X(MINIMUM, "Minimum", BINARY)                                                                  \
    X(RELU, "Relu", UNARY)                                                                         \
    X(CAST, "Cast", CAST)                                                                          \
    X(MAT_MUL, "MatMul", MATRIX)                                                                   \
    X(MAT_MUL_V2, "MatMulV2", MATRIX)                                                              \
    X(SOFTMAX, "Softmax", SOFTMAX)                                                                 \
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

/* What a caller may choose with attributes. */
typedef struct acl__op_options {
    bool transpose_a, transpose_b; /* matrices: "transpose_x1", "transpose_x2" */
    int64_t axis;                  /* softmax: "axes" */
    int64_t target;                /* cast: "dst_type"; -1: as the output's description says */
} acl__op_options;

/* An operator on given shapes; plain data, which the kernel finds in its workspace. Strides count elements. */
typedef struct acl__op {
    acl__op_kind kind;
    uint32_t input_count;
    acl__tensor in[ACL__OP_INPUTS];
    acl__tensor out;
    int64_t strides[ACL__OP_INPUTS]
                   [ACL__OP_RANK]; /* of inputs along the output's dimensions; 0: repeated */
    uint64_t elements;             /* of the output */
    /* Matrices: rows, columns, inner; how often. Softmax: rows are before the axis, columns behind it, inner along it. */
    int64_t rows, columns, inner, batches;
    bool transpose_a, transpose_b;
    uint64_t workspace_bytes; /* this struct, and what the reductions of a softmax need */
    uint64_t temporary_bytes; /* the output in float32, where it is narrower; else 0 */
    uint64_t macs, vector_ops;
    uint64_t in_bytes[ACL__OP_INPUTS], out_bytes;
} acl__op;

/* false: there is no such operator. */
bool acl__op_find(const char *name, acl__op_kind *kind);
const char *acl__op_name(acl__op_kind kind);
/* The number of inputs that a kind takes. */
void acl__op_inputs(acl__op_kind kind, uint32_t *least, uint32_t *most);
/* Derives everything from op->kind, input_count, in and the output's type; the output's shape is a result. NULL: fine;
 * otherwise what is wrong, a constant sentence. */
const char *acl__op_prepare(acl__op *op, const acl__op_options *options);
/* Has the result made in a temporary first: where the output overlaps an input, which a kernel reads again. */
void acl__op_use_temporary(acl__op *op);
/* Fills `workspace` with what the kernel reads there, computes, and leaves the result at `out`. `temporary` is used when
 * temporary_bytes > 0. */
void acl__op_compute(const acl__op *op, const void *const in[], void *out, void *workspace,
                     void *temporary);

/* Bytes of one element of the types that operators take; 0 for the others. */
size_t acl__op_type_bytes(aclDataType type);

#endif
