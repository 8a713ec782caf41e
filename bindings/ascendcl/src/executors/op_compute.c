/* op_compute.c: the computations of the operators: plain loops that compute in float32, whatever the type of the
 * tensors.
 *
 * A kernel finds its shapes and strides in device memory, in its workspace, as a real one does. So an allocator that
 * hands out that memory too early causes wrong results, in addition to the auditor's finding.
 *
 * Every element is read and written through memcpy, so no address has to be aligned.
 */
#include "executors/op_compute.h"

#include "executors/half.h"
#include "shared/assert.h"

#include <math.h>
#include <string.h>

typedef enum form { BINARY, UNARY, CAST, MATRIX, SOFTMAX } form;

static const struct {
    const char *name;
    form form;
} kinds[] = {
#define ACL__OP_ENTRY(name, text, form) {text, form},
    ACL__OP_LIST(ACL__OP_ENTRY)
#undef ACL__OP_ENTRY
};

bool acl__op_find(const char *name, acl__op_kind *kind)
{
    for (int i = 0; i < ACL__OP_KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = (acl__op_kind)i;
            return true;
        }
    }
    return false;
}

const char *acl__op_name(acl__op_kind kind)
{
    WEIR_ASSERT(kind < ACL__OP_KINDS);
    return kinds[kind].name;
}

void acl__op_inputs(acl__op_kind kind, uint32_t *least, uint32_t *most)
{
    WEIR_ASSERT(kind < ACL__OP_KINDS);
    const form f = kinds[kind].form;
    *least = f == BINARY || f == MATRIX ? 2 : 1;
    *most = f == MATRIX ? 3 : *least; /* a matrix product may have a bias */
}

/* --- elements --- */

size_t acl__op_type_bytes(aclDataType type)
{
    switch (type) {
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8:
        return 1;
    case ACL_FLOAT16:
    case ACL_INT16:
        return 2;
    case ACL_FLOAT:
    case ACL_INT32:
        return 4;
    case ACL_INT64:
    case ACL_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

static bool is_float(aclDataType type)
{
    return type == ACL_FLOAT || type == ACL_FLOAT16;
}

static float load(aclDataType type, const void *at, int64_t i)
{
    WEIR_ASSERT(is_float(type));
    if (type == ACL_FLOAT16) {
        uint16_t half;
        memcpy(&half, (const char *)at + 2 * i, sizeof(half));
        return acl__half_to_float(half);
    }
    float value;
    memcpy(&value, (const char *)at + 4 * i, sizeof(value));
    return value;
}

static void store(aclDataType type, void *at, int64_t i, float value)
{
    WEIR_ASSERT(is_float(type));
    if (type == ACL_FLOAT16) {
        const uint16_t half = acl__half_from_float(value);
        memcpy((char *)at + 2 * i, &half, sizeof(half));
    } else {
        memcpy((char *)at + 4 * i, &value, sizeof(value));
    }
}

/* Loads an element of any type that a cast takes. */
static double load_any(aclDataType type, const void *at, int64_t i)
{
    WEIR_ASSERT(acl__op_type_bytes(type) > 0);
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        double f64;
    } v = {.i64 = 0};
    if (is_float(type)) {
        return load(type, at, i);
    }
    const size_t bytes = acl__op_type_bytes(type);
    memcpy(&v, (const char *)at + (size_t)i * bytes, bytes);
    switch (type) {
    case ACL_BOOL:
        return v.u8 != 0;
    case ACL_INT8:
        return v.i8;
    case ACL_UINT8:
        return v.u8;
    case ACL_INT16:
        return v.i16;
    case ACL_INT32:
        return v.i32;
    case ACL_INT64:
        return (double)v.i64;
    default:
        return v.f64;
    }
}

/* Truncates `value` towards zero and clamps it to the range from `least` to `most`. NaN becomes 0. */
static int64_t whole(double value, double least, double most)
{
    WEIR_ASSERT(least < most);
    if (!(value > least)) {
        return value <= least ? (int64_t)least : 0;
    }
    return value >= most ? (most >= 9223372036854775807.0 ? INT64_MAX : (int64_t)most) : (int64_t)value;
}

static void store_any(aclDataType type, void *at, int64_t i, double value)
{
    WEIR_ASSERT(acl__op_type_bytes(type) > 0);
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        double f64;
    } v;
    switch (type) {
    case ACL_FLOAT:
    case ACL_FLOAT16:
        store(type, at, i, (float)value);
        return;
    case ACL_BOOL:
        v.u8 = value != 0;
        break;
    case ACL_INT8:
        v.i8 = (int8_t)whole(value, INT8_MIN, INT8_MAX);
        break;
    case ACL_UINT8:
        v.u8 = (uint8_t)whole(value, 0, UINT8_MAX);
        break;
    case ACL_INT16:
        v.i16 = (int16_t)whole(value, INT16_MIN, INT16_MAX);
        break;
    case ACL_INT32:
        v.i32 = (int32_t)whole(value, INT32_MIN, INT32_MAX);
        break;
    case ACL_INT64:
        v.i64 = whole(value, -9223372036854775808.0, 9223372036854775807.0);
        break;
    default:
        v.f64 = value;
        break;
    }
    const size_t bytes = acl__op_type_bytes(type);
    memcpy((char *)at + (size_t)i * bytes, &v, bytes);
}

/* --- shapes --- */

/* Counts the elements of a tensor. Returns false if a dimension is negative or if there are too many elements. For the
 * bound, a dimension of 0 counts as 1, so that the product of any dimensions stays below it. */
static bool count_elements(const acl__tensor *t, uint64_t *elements)
{
    WEIR_ASSERT(t->rank <= ACL__OP_RANK);
    uint64_t count = 1;
    bool empty = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        const uint64_t dim = t->dims[i] > 0 ? (uint64_t)t->dims[i] : 1;
        if (t->dims[i] < 0 || count > (UINT64_C(1) << 40) / dim) {
            return false;
        }
        count *= dim;
        empty = empty || t->dims[i] == 0;
    }
    *elements = empty ? 0 : count;
    return true;
}

/* Computes the shape to which all inputs are broadcast, and the strides of each input in that shape. */
static const char *broadcast(acl__op *op)
{
    WEIR_ASSERT(op->input_count >= 1 && op->input_count <= ACL__OP_INPUTS);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        rank = op->in[i].rank > rank ? op->in[i].rank : rank;
    }
    op->out.rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        op->out.dims[d] = 1;
        for (uint32_t i = 0; i < op->input_count; i++) {
            const uint32_t missing = rank - op->in[i].rank;
            const int64_t dim = d < missing ? 1 : op->in[i].dims[d - missing];
            if (dim != 1 && op->out.dims[d] != 1 && dim != op->out.dims[d]) {
                return "the shapes of the inputs do not go together";
            }
            op->out.dims[d] = dim != 1 ? dim : op->out.dims[d];
        }
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        const uint32_t missing = rank - op->in[i].rank;
        int64_t stride = 1;
        for (uint32_t d = rank; d-- > 0;) {
            const int64_t dim = d < missing ? 1 : op->in[i].dims[d - missing];
            op->strides[i][d] = dim == 1 ? 0 : stride;
            stride *= dim;
        }
    }
    return NULL;
}

static const char *prepare_elementwise(acl__op *op)
{
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->in[i].type != op->in[0].type) {
            return "the inputs are of different types";
        }
    }
    if (op->out.type != op->in[0].type) {
        return "the output is of another type than the inputs";
    }
    if (!is_float(op->out.type) && op->out.type != ACL_INT32) {
        return "this operator takes float32, float16 and int32";
    }
    const char *wrong = broadcast(op);
    op->vector_ops = 1; /* operations for one element; acl__op_prepare multiplies by the number of elements */
    return wrong;
}

static const char *prepare_cast(acl__op *op, const acl__op_options *options)
{
    WEIR_ASSERT(op->input_count == 1);
    if (options->target >= 0 && options->target != (int64_t)op->out.type) {
        return "\"dst_type\" is not the type of the output";
    }
    if (acl__op_type_bytes(op->in[0].type) == 0 || acl__op_type_bytes(op->out.type) == 0) {
        return "a cast takes bool, int8, uint8, int16, int32, int64, float16, float32 and double";
    }
    op->vector_ops = 1;
    return broadcast(op);
}

static const char *prepare_matrix(acl__op *op, const acl__op_options *options)
{
    WEIR_ASSERT(op->input_count == 2 || op->input_count == 3);
    const acl__tensor *a = &op->in[0], *b = &op->in[1];
    if (!is_float(a->type) || b->type != a->type || (op->out.type != a->type && op->out.type != ACL_FLOAT)) {
        return "a matrix product takes float32 or float16, both inputs alike, and gives that or "
               "float32";
    }
    if (a->rank < 2 || b->rank != a->rank) {
        return "a matrix product takes two matrices, or two stacks of as many";
    }
    op->transpose_a = options->transpose_a;
    op->transpose_b = options->transpose_b;
    op->batches = 1;
    op->out.rank = a->rank;
    for (uint32_t i = 0; i + 2 < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) {
            return "the stacks of matrices are of different heights";
        }
        op->out.dims[i] = a->dims[i];
        op->batches *= a->dims[i];
    }
    const int64_t *x = &a->dims[a->rank - 2], *y = &b->dims[b->rank - 2];
    op->rows = x[op->transpose_a ? 1 : 0];
    op->inner = x[op->transpose_a ? 0 : 1];
    op->columns = y[op->transpose_b ? 0 : 1];
    if (y[op->transpose_b ? 1 : 0] != op->inner) {
        return "the inner dimensions differ";
    }
    if (op->input_count == 3 &&
        (op->in[2].rank != 1 || op->in[2].dims[0] != op->columns || !is_float(op->in[2].type))) {
        return "the bias is not one float for each column";
    }
    op->out.dims[op->out.rank - 2] = op->rows;
    op->out.dims[op->out.rank - 1] = op->columns;
    return NULL;
}

static const char *prepare_softmax(acl__op *op, const acl__op_options *options)
{
    WEIR_ASSERT(op->input_count == 1);
    const acl__tensor *in = &op->in[0];
    const int64_t axis = options->axis < 0 ? options->axis + in->rank : options->axis;
    if (!is_float(in->type) || op->out.type != in->type) {
        return "a softmax takes and gives float32 or float16";
    }
    if (axis < 0 || axis >= in->rank) {
        return "there is no such axis";
    }
    op->out = *in;
    op->rows = op->columns = 1;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (i < axis) {
            op->rows *= in->dims[i];
        } else if (i > axis) {
            op->columns *= in->dims[i];
        }
    }
    op->inner = in->dims[axis];
    op->vector_ops = 5;
    return NULL;
}

static const char *prepare_form(acl__op *op, const acl__op_options *options)
{
    switch (kinds[op->kind].form) {
    case CAST:
        return prepare_cast(op, options);
    case MATRIX:
        return prepare_matrix(op, options);
    case SOFTMAX:
        return prepare_softmax(op, options);
    default:
        return prepare_elementwise(op);
    }
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 31) / 32 * 32;
}

const char *acl__op_prepare(acl__op *op, const acl__op_options *options)
{
    WEIR_ASSERT(op->kind < ACL__OP_KINDS);
    WEIR_ASSERT(op->input_count <= ACL__OP_INPUTS);
    uint64_t counts[ACL__OP_INPUTS];
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!count_elements(&op->in[i], &counts[i])) {
            return "an input has a negative dimension or too many elements";
        }
        op->in_bytes[i] = counts[i] * acl__op_type_bytes(op->in[i].type);
    }
    const char *wrong = prepare_form(op, options);
    if (wrong != NULL) {
        return wrong;
    }
    if (!count_elements(&op->out, &op->elements)) {
        return "the output has too many elements";
    }
    op->out_bytes = op->elements * acl__op_type_bytes(op->out.type);
    op->vector_ops *= op->elements;
    op->workspace_bytes = round_up(sizeof(*op));
    op->temporary_bytes = 0;
    if (kinds[op->kind].form == MATRIX) {
        if (op->inner > 0 && op->elements > (UINT64_C(1) << 56) / (uint64_t)op->inner) {
            return "the matrices are too large";
        }
        op->macs = op->elements * (uint64_t)op->inner;
    }
    if (kinds[op->kind].form == SOFTMAX) { /* two floats for each row: its greatest value, its sum */
        op->workspace_bytes += round_up((uint64_t)op->rows * (uint64_t)op->columns * 8);
    }
    if (op->out.type == ACL_FLOAT16 && kinds[op->kind].form != CAST) {
        op->temporary_bytes = op->elements * 4;
    }
    return NULL;
}

void acl__op_use_temporary(acl__op *op)
{
    if (is_float(op->out.type) && kinds[op->kind].form != CAST) {
        op->temporary_bytes = op->elements * 4;
    }
}

/* --- computing --- */

static float combine(acl__op_kind kind, float a, float b)
{
    switch (kind) {
    case ACL__OP_ADD:
        return a + b;
    case ACL__OP_SUB:
        return a - b;
    case ACL__OP_MUL:
        return a * b;
    case ACL__OP_REAL_DIV:
        return a / b;
    case ACL__OP_MAXIMUM:
        return a >= b || a != a ? a : b;
    case ACL__OP_MINIMUM:
        return a <= b || a != a ? a : b;
    default:
        return a >= 0 || a != a ? a : 0; /* Relu */
    }
}

/* Computes one int32 element. The result wraps around, as in the hardware's adders. */
static int32_t combine_int(acl__op_kind kind, int32_t a, int32_t b)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    switch (kind) {
    case ACL__OP_ADD:
        return (int32_t)(x + y);
    case ACL__OP_SUB:
        return (int32_t)(x - y);
    case ACL__OP_MUL:
        return (int32_t)(x * y);
    case ACL__OP_REAL_DIV:
        return b == 0 ? 0 : b == -1 ? (int32_t)(0 - x) : a / b;
    case ACL__OP_MAXIMUM:
        return a >= b ? a : b;
    case ACL__OP_MINIMUM:
        return a <= b ? a : b;
    default:
        return a >= 0 ? a : 0;
    }
}

/* Visits all elements of the output, in order, and tracks the position in each input. */
struct walk {
    int64_t at[ACL__OP_RANK];
    int64_t position[ACL__OP_INPUTS];
};

static void walk_on(const acl__op *op, struct walk *w)
{
    WEIR_ASSERT(op->out.rank <= ACL__OP_RANK);
    for (uint32_t d = op->out.rank; d-- > 0;) {
        for (uint32_t i = 0; i < op->input_count; i++) {
            w->position[i] += op->strides[i][d];
        }
        if (++w->at[d] < op->out.dims[d]) {
            return;
        }
        for (uint32_t i = 0; i < op->input_count; i++) {
            w->position[i] -= op->strides[i][d] * op->out.dims[d];
        }
        w->at[d] = 0;
    }
}

static void compute_elementwise(const acl__op *op, const void *const in[], void *out, void *result)
{
    WEIR_ASSERT(result != out || is_float(op->out.type) || op->out.type == ACL_INT32);
    struct walk w = {{0}, {0}};
    const aclDataType type = op->in[0].type, to = result == out ? op->out.type : ACL_FLOAT;
    for (uint64_t i = 0; i < op->elements; i++, walk_on(op, &w)) {
        const void *second = op->input_count > 1 ? in[1] : in[0];
        const int64_t at = op->input_count > 1 ? w.position[1] : w.position[0];
        if (type == ACL_INT32) {
            const int32_t a = (int32_t)load_any(type, in[0], w.position[0]);
            const int32_t c = combine_int(op->kind, a, (int32_t)load_any(type, second, at));
            memcpy((char *)out + 4 * i, &c, sizeof(c));
        } else {
            store(to, result, (int64_t)i, combine(op->kind, load(type, in[0], w.position[0]), load(type, second, at)));
        }
    }
}

static void compute_cast(const acl__op *op, const void *const in[], void *out)
{
    WEIR_ASSERT(in[0] != NULL && out != NULL);
    /* An int64 that stays an int64 must not go through a double. */
    if (op->in[0].type == op->out.type) {
        memmove(out, in[0], op->out_bytes);
        return;
    }
    for (uint64_t i = 0; i < op->elements; i++) {
        store_any(op->out.type, out, (int64_t)i, load_any(op->in[0].type, in[0], (int64_t)i));
    }
}

static void compute_matrix(const acl__op *op, const void *const in[], void *result, aclDataType to)
{
    WEIR_ASSERT(is_float(to));
    WEIR_ASSERT(op->elements == (uint64_t)(op->batches * op->rows * op->columns));
    const aclDataType type = op->in[0].type;
    for (int64_t batch = 0; batch < op->batches; batch++) {
        const int64_t a = batch * op->rows * op->inner, b = batch * op->inner * op->columns;
        const int64_t c = batch * op->rows * op->columns;
        for (int64_t r = 0; r < op->rows; r++) {
            for (int64_t col = 0; col < op->columns; col++) {
                float sum = op->input_count == 3 ? load(op->in[2].type, in[2], col) : 0;
                for (int64_t k = 0; k < op->inner; k++) {
                    const int64_t x = op->transpose_a ? k * op->rows + r : r * op->inner + k;
                    const int64_t y = op->transpose_b ? col * op->inner + k : k * op->columns + col;
                    sum += load(type, in[0], a + x) * load(type, in[1], b + y);
                }
                store(to, result, c + r * op->columns + col, sum);
            }
        }
    }
}

/* Computes a softmax in three passes: the greatest value of each row; the sum of the exponentials relative to it; the
 * quotients. `reductions` holds two floats for each row. */
static void compute_softmax(const acl__op *op, const void *const in[], void *result, aclDataType to, void *reductions)
{
    WEIR_ASSERT(is_float(to));
    WEIR_ASSERT(op->elements == (uint64_t)(op->rows * op->columns * op->inner));
    const aclDataType type = op->in[0].type;
    for (int64_t row = 0; row < op->rows * op->columns && op->inner > 0; row++) {
        const int64_t first = row / op->columns * op->inner * op->columns + row % op->columns;
        float most = load(type, in[0], first), sum = 0;
        for (int64_t k = 1; k < op->inner; k++) {
            most = combine(ACL__OP_MAXIMUM, most, load(type, in[0], first + k * op->columns));
        }
        for (int64_t k = 0; k < op->inner; k++) {
            sum += expf(load(type, in[0], first + k * op->columns) - most);
        }
        store(ACL_FLOAT, reductions, 2 * row, most);
        store(ACL_FLOAT, reductions, 2 * row + 1, sum);
    }
    for (int64_t row = 0; row < op->rows * op->columns; row++) {
        const int64_t first = row / op->columns * op->inner * op->columns + row % op->columns;
        for (int64_t k = 0; k < op->inner; k++) {
            const int64_t at = first + k * op->columns;
            const float most = load(ACL_FLOAT, reductions, 2 * row), sum = load(ACL_FLOAT, reductions, 2 * row + 1);
            store(to, result, at, expf(load(type, in[0], at) - most) / sum);
        }
    }
}

void acl__op_compute(const acl__op *given, const void *const in[], void *out, void *workspace, void *temporary)
{
    WEIR_ASSERT(given->elements > 0 && workspace != NULL);
    WEIR_ASSERT(given->temporary_bytes == 0 || temporary != NULL);
    acl__op op;
    memcpy(workspace, given, sizeof(*given));
    memcpy(&op, workspace, sizeof(op));
    void *result = op.temporary_bytes > 0 ? temporary : out;
    const aclDataType to = op.temporary_bytes > 0 ? ACL_FLOAT : op.out.type;
    switch (kinds[op.kind].form) {
    case CAST:
        compute_cast(&op, in, out);
        return;
    case MATRIX:
        compute_matrix(&op, in, result, to);
        break;
    case SOFTMAX:
        compute_softmax(&op, in, result, to, (char *)workspace + round_up(sizeof(op)));
        break;
    default:
        compute_elementwise(&op, in, out, result);
        break;
    }
    if (result != out) { /* round each float32 result, once, to the type of the output */
        for (uint64_t i = 0; i < op.elements; i++) {
            store(op.out.type, out, (int64_t)i, load(ACL_FLOAT, result, (int64_t)i));
        }
    }
}
