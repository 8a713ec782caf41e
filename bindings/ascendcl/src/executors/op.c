/* op.c: aclopExecuteV2: single operators, queued on a stream.
 *
 * An operator takes a workspace, and a temporary of the size of its output if its result is computed in float32 first.
 * It requests exactly the needed size of both, and gives both back as soon as the kernel is queued.
 */
#include "executors/consumer.h"
#include "executors/op_compute.h"
#include "executors/tensor.h"
#include "model/network.h"

#include <acl/acl_op_compiler.h>

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- attributes --- */

typedef enum attribute_kind { NUMBERS, REALS, TEXTS } attribute_kind;

/* An attribute: a named list of values. A single value is a list of one. */
struct attribute {
    struct attribute *next;
    attribute_kind kind;
    int count;
    union {
        int64_t *numbers; /* bool, int, data type */
        float *reals;
        char **texts;
    } values;
    char name[];
};

struct aclopAttr {
    struct attribute *first;
};

static void attribute_free(struct attribute *a)
{
    if (a->kind == TEXTS) {
        for (int i = 0; i < a->count && a->values.texts != NULL; i++) {
            free(a->values.texts[i]);
        }
        free(a->values.texts);
    } else if (a->kind == REALS) {
        free(a->values.reals);
    } else {
        free(a->values.numbers);
    }
    free(a);
}

ACL_EXPORT aclopAttr *aclopCreateAttr(void)
{
    ACL_ENTER_OR(aclopCreateAttr, NULL);
    return calloc(1, sizeof(aclopAttr));
}

ACL_EXPORT void aclopDestroyAttr(const aclopAttr *attr)
{
    ACL_ENTER_OR(aclopDestroyAttr, );
    if (attr == NULL) {
        return;
    }
    for (struct attribute *a = attr->first; a != NULL;) {
        struct attribute *next = a->next;
        attribute_free(a);
        a = next;
    }
    free((void *)(uintptr_t)attr);
}

static aclError no_memory(const char *function)
{
    return acl__fail(ACL_ERROR_BAD_ALLOC, "%s: no host memory", function);
}

/* Creates an attribute, a list without values yet. NULL: out of memory. */
static struct attribute *attribute_create(const char *name, attribute_kind kind, int count)
{
    WEIR_ASSERT(count >= 0);
    const size_t length = strlen(name) + 1;
    struct attribute *a = calloc(1, sizeof(*a) + length);
    const size_t room = count > 0 ? (size_t)count : 1;
    if (a == NULL) {
        return NULL;
    }
    a->kind = kind;
    a->count = count;
    memcpy(a->name, name, length);
    if (kind == TEXTS) {
        a->values.texts = calloc(room, sizeof(*a->values.texts));
    } else if (kind == REALS) {
        a->values.reals = calloc(room, sizeof(*a->values.reals));
    } else {
        a->values.numbers = calloc(room, sizeof(*a->values.numbers));
    }
    if (a->values.numbers == NULL) {
        free(a);
        return NULL;
    }
    return a;
}

/* Checks the arguments of a function that sets an attribute, and creates the attribute. */
static aclError begin(const char *function, const aclopAttr *attr, const char *name, attribute_kind kind, int count,
                      const void *values, struct attribute **a)
{
    ACL_FAIL_IF(attr == NULL || name == NULL || count < 0 || (count > 0 && values == NULL), ACL_ERROR_INVALID_PARAM,
                "%s: an argument is NULL, or there are %d values", function, count);
    *a = attribute_create(name, kind, count);
    return *a != NULL ? ACL_SUCCESS : no_memory(function);
}

/* Adds an attribute. It replaces an attribute of the same name. */
static void put(aclopAttr *attr, struct attribute *a)
{
    WEIR_ASSERT(a->next == NULL);
    struct attribute **link = &attr->first;
    while (*link != NULL && strcmp((*link)->name, a->name) != 0) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        a->next = (*link)->next;
        attribute_free(*link);
    }
    *link = a;
}

static aclError set_numbers(const char *function, aclopAttr *attr, const char *name, int count, const int64_t *numbers)
{
    struct attribute *a = NULL;
    ACL_TRY(begin(function, attr, name, NUMBERS, count, numbers, &a));
    for (int i = 0; i < count; i++) {
        a->values.numbers[i] = numbers[i];
    }
    put(attr, a);
    return ACL_SUCCESS;
}

static aclError set_reals(const char *function, aclopAttr *attr, const char *name, int count, const float *reals)
{
    struct attribute *a = NULL;
    ACL_TRY(begin(function, attr, name, REALS, count, reals, &a));
    for (int i = 0; i < count; i++) {
        a->values.reals[i] = reals[i];
    }
    put(attr, a);
    return ACL_SUCCESS;
}

static aclError set_texts(const char *function, aclopAttr *attr, const char *name, int count, const char *const *texts)
{
    struct attribute *a = NULL;
    ACL_TRY(begin(function, attr, name, TEXTS, count, texts, &a));
    for (int i = 0; i < count; i++) {
        a->values.texts[i] = texts[i] != NULL ? strdup(texts[i]) : NULL;
        if (a->values.texts[i] == NULL) {
            attribute_free(a);
            ACL_FAIL_IF(texts[i] == NULL, ACL_ERROR_INVALID_PARAM, "%s: text %d is NULL", function, i);
            return no_memory(function);
        }
    }
    put(attr, a);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclopSetAttrBool(aclopAttr *attr, const char *attrName, uint8_t attrValue)
{
    ACL_ENTER(aclopSetAttrBool);
    const int64_t number = attrValue != 0;
    return set_numbers(__func__, attr, attrName, 1, &number);
}

ACL_EXPORT aclError aclopSetAttrInt(aclopAttr *attr, const char *attrName, int64_t attrValue)
{
    ACL_ENTER(aclopSetAttrInt);
    return set_numbers(__func__, attr, attrName, 1, &attrValue);
}

ACL_EXPORT aclError aclopSetAttrFloat(aclopAttr *attr, const char *attrName, float attrValue)
{
    ACL_ENTER(aclopSetAttrFloat);
    return set_reals(__func__, attr, attrName, 1, &attrValue);
}

ACL_EXPORT aclError aclopSetAttrString(aclopAttr *attr, const char *attrName, const char *attrValue)
{
    ACL_ENTER(aclopSetAttrString);
    return set_texts(__func__, attr, attrName, 1, &attrValue);
}

ACL_EXPORT aclError aclopSetAttrDataType(aclopAttr *attr, const char *attrName, aclDataType attrValue)
{
    ACL_ENTER(aclopSetAttrDataType);
    const int64_t number = attrValue;
    return set_numbers(__func__, attr, attrName, 1, &number);
}

/* Defines the public function that sets an attribute to a list of `type`, which is kept as integers. */
#define SET_LIST(name, type, number)                                                                                   \
    ACL_EXPORT aclError name(aclopAttr *attr, const char *attrName, int numValues, const type *values)                 \
    {                                                                                                                  \
        ACL_ENTER(name);                                                                                               \
        struct attribute *a = NULL;                                                                                    \
        ACL_TRY(begin(__func__, attr, attrName, NUMBERS, numValues, values, &a));                                      \
        for (int i = 0; i < numValues; i++) {                                                                          \
            a->values.numbers[i] = (number);                                                                           \
        }                                                                                                              \
        put(attr, a);                                                                                                  \
        return ACL_SUCCESS;                                                                                            \
    }
SET_LIST(aclopSetAttrListBool, uint8_t, values[i] != 0)
SET_LIST(aclopSetAttrListDataType, aclDataType, values[i])

ACL_EXPORT aclError aclopSetAttrListInt(aclopAttr *attr, const char *attrName, int numValues, const int64_t *values)
{
    ACL_ENTER(aclopSetAttrListInt);
    return set_numbers(__func__, attr, attrName, numValues, values);
}

ACL_EXPORT aclError aclopSetAttrListFloat(aclopAttr *attr, const char *attrName, int numValues, const float *values)
{
    ACL_ENTER(aclopSetAttrListFloat);
    return set_reals(__func__, attr, attrName, numValues, values);
}

ACL_EXPORT aclError aclopSetAttrListString(aclopAttr *attr, const char *attrName, int numValues, const char **values)
{
    ACL_ENTER(aclopSetAttrListString);
    return set_texts(__func__, attr, attrName, numValues, (const char *const *)values);
}

/* No simulated operator reads a list of lists: the numbers are kept one list after the other. */
ACL_EXPORT aclError aclopSetAttrListListInt(aclopAttr *attr, const char *attrName, int numLists, const int *numValues,
                                            const int64_t *const values[])
{
    ACL_ENTER(aclopSetAttrListListInt);
    ACL_REFUSE_IF(numLists < 0 || (numLists > 0 && (numValues == NULL || values == NULL)), ACL_ERROR_INVALID_PARAM,
                  "there are %d lists, or their array is NULL", numLists);
    int count = 0;
    for (int i = 0; i < numLists; i++) {
        ACL_REFUSE_IF(numValues[i] < 0 || numValues[i] > INT_MAX - count || (numValues[i] > 0 && values[i] == NULL),
                      ACL_ERROR_INVALID_PARAM, "list %d has %d values, or is NULL", i, numValues[i]);
        count += numValues[i];
    }
    struct attribute *a = NULL;
    ACL_TRY(begin(__func__, attr, attrName, NUMBERS, count, values, &a));
    int64_t *to = a->values.numbers;
    for (int i = 0; i < numLists; i++) {
        for (int k = 0; k < numValues[i]; k++) {
            *to++ = values[i][k];
        }
    }
    put(attr, a);
    return ACL_SUCCESS;
}

/* Returns the first number of an attribute, or `fallback` if there is no attribute of that name. */
static int64_t number_of(const aclopAttr *attr, const char *name, int64_t fallback)
{
    for (const struct attribute *a = attr != NULL ? attr->first : NULL; a != NULL; a = a->next) {
        if (a->kind == NUMBERS && a->count > 0 && strcmp(a->name, name) == 0) {
            return a->values.numbers[0];
        }
    }
    return fallback;
}

static acl__op_options options_of(const aclopAttr *attr)
{
    return (acl__op_options){
        .transpose_a = number_of(attr, "transpose_x1", number_of(attr, "adj_x1", 0)) != 0,
        .transpose_b = number_of(attr, "transpose_x2", number_of(attr, "adj_x2", 0)) != 0,
        .axis = number_of(attr, "axes", -1),
        .target = number_of(attr, "dst_type", -1),
    };
}

/* --- the arguments of an operator --- */

struct call {
    const char *name;
    acl__op op;
    const void *in[ACL__OP_INPUTS];
    void *out;
};

/* Converts a description to a tensor. Returns false if it has more dimensions than operators take. */
static bool tensor_of(const aclTensorDesc *desc, acl__tensor *tensor)
{
    if (desc->rank > ACL__OP_RANK) {
        return false;
    }
    *tensor = (acl__tensor){.type = desc->type, .rank = desc->rank};
    memcpy(tensor->dims, desc->dims, desc->rank * sizeof(desc->dims[0]));
    return true;
}

static aclError check_arrays(const char *name, int count, aclTensorDesc *const descs[], aclDataBuffer *const buffers[],
                             const char *which)
{
    ACL_FAIL_IF(count < 0 || (count > 0 && (descs == NULL || buffers == NULL)), ACL_ERROR_INVALID_PARAM,
                "%s: %d %ss, or their array is NULL", name, count, which);
    for (int i = 0; i < count; i++) {
        ACL_FAIL_IF(descs[i] == NULL || buffers[i] == NULL || (buffers[i]->data == NULL && buffers[i]->size > 0),
                    ACL_ERROR_INVALID_PARAM, "%s: %s %d has no description, no buffer or no address", name, which, i);
    }
    return ACL_SUCCESS;
}

static aclError check_memory(const struct call *c, const void *address, uint64_t needed, const aclDataBuffer *buffer,
                             const char *which, uint32_t index)
{
    ACL_FAIL_IF(buffer->size < needed, ACL_ERROR_INVALID_PARAM, "%s: %s %u needs %" PRIu64 " bytes, its buffer has %zu",
                c->name, which, (unsigned)index, needed, buffer->size);
    ACL_HOLD_LOCK();
    ACL_FAIL_IF(needed > 0 && !acl__is_device_memory(address, needed), ACL_ERROR_INVALID_PARAM,
                "%s: %s %u at %p is not %" PRIu64 " bytes of device memory", c->name, which, (unsigned)index, address,
                needed);
    return ACL_SUCCESS;
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

static aclError read_call(struct call *c, int numInputs, aclTensorDesc *inputDesc[], aclDataBuffer *inputs[],
                          aclTensorDesc *outputDesc, aclDataBuffer *output, const aclopAttr *attr)
{
    WEIR_ASSERT(c->op.kind < ACL__OP_KINDS);
    uint32_t least = 0, most = 0;
    acl__op_inputs(c->op.kind, &least, &most);
    ACL_FAIL_IF(numInputs < (int)least || numInputs > (int)most, ACL_ERROR_INVALID_PARAM,
                "%s: %d inputs where %u to %u are expected", c->name, numInputs, (unsigned)least, (unsigned)most);
    c->op.input_count = (uint32_t)numInputs;
    bool fits = tensor_of(outputDesc, &c->op.out);
    for (int i = 0; i < numInputs; i++) {
        fits = fits && tensor_of(inputDesc[i], &c->op.in[i]);
        c->in[i] = inputs[i]->data;
    }
    c->out = output->data;
    ACL_FAIL_IF(!fits, (aclError)ACL_ERROR_GE_SHAPE_INVALID, "%s: more than %d dimensions", c->name, (int)ACL__OP_RANK);
    const acl__op_options options = options_of(attr);
    const char *wrong = acl__op_prepare(&c->op, &options);
    ACL_FAIL_IF(wrong != NULL, (aclError)ACL_ERROR_GE_SHAPE_INVALID, "%s: %s", c->name, wrong);
    for (uint32_t i = 0; i < c->op.input_count; i++) {
        ACL_TRY(check_memory(c, c->in[i], c->op.in_bytes[i], inputs[i], "input", i));
        /* An elementwise kernel may write over an input of the same size: it reads each element before it writes the
         * element at the same index. */
        const bool in_place = c->in[i] == c->out && c->op.in_bytes[i] == c->op.out_bytes && c->op.macs == 0;
        if (!in_place && overlap(c->in[i], c->op.in_bytes[i], c->out, c->op.out_bytes)) {
            acl__op_use_temporary(&c->op);
        }
    }
    return check_memory(c, c->out, c->op.out_bytes, output, "output", 0);
}

/* --- the kernel --- */

struct op_kernel {
    acl__op op;
    const void *in[ACL__OP_INPUTS];
    void *out;
    void *workspace;
    void *temporary;
};

/* Runs an operator's kernel. If the kernel's memory is gone, returns the hardware's error for an exception of the
 * core. */
static aclError compute(void *ctx)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const struct op_kernel *k = ctx;
    bool there = acl__is_device_memory(k->out, k->op.out_bytes) &&
                 acl__is_device_memory(k->workspace, k->op.workspace_bytes) &&
                 (k->op.temporary_bytes == 0 || acl__is_device_memory(k->temporary, k->op.temporary_bytes));
    for (uint32_t i = 0; i < k->op.input_count; i++) {
        there = there && (k->op.in_bytes[i] == 0 || acl__is_device_memory(k->in[i], k->op.in_bytes[i]));
    }
    if (!there) {
        return ACL_ERROR_RT_AICORE_EXCEPTION;
    }
    acl__op_compute(&k->op, k->in, k->out, k->workspace, k->temporary);
    return ACL_SUCCESS;
}

static weir_sim_access access_to(const void *address, uint64_t bytes, bool write)
{
    return (weir_sim_access){.address = (uint64_t)(uintptr_t)address, .size = bytes, .write = write};
}

static aclError launch(const acl__supply *supply, const struct call *c, const acl__piece *workspace,
                       const acl__piece *temporary)
{
    WEIR_ASSERT(workspace->address != NULL && workspace->bytes >= c->op.workspace_bytes);
    WEIR_ASSERT(c->op.temporary_bytes == 0 || temporary->address != NULL);
    struct op_kernel *k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return no_memory(c->name);
    }
    k->op = c->op;
    k->out = c->out;
    k->workspace = workspace->address;
    k->temporary = temporary->address;
    weir_sim_access accesses[ACL__OP_INPUTS + 3];
    size_t count = 0;
    uint64_t bytes = c->op.out_bytes;
    for (uint32_t i = 0; i < c->op.input_count; i++) {
        k->in[i] = c->in[i];
        bytes += c->op.in_bytes[i];
        if (c->op.in_bytes[i] > 0) {
            accesses[count++] = access_to(c->in[i], c->op.in_bytes[i], false);
        }
    }
    accesses[count++] = access_to(c->out, c->op.out_bytes, true);
    accesses[count++] = access_to(workspace->address, c->op.workspace_bytes, true);
    if (c->op.temporary_bytes > 0) {
        accesses[count++] = access_to(temporary->address, c->op.temporary_bytes, true);
    }
    WEIR_ASSERT(count <= sizeof(accesses) / sizeof(accesses[0]));
    const acl__kernel kernel = {
        .tag = c->name,
        .duration_ns = acl__roofline_ns(c->op.macs, c->op.vector_ops, bytes),
        .accesses = accesses,
        .access_count = count,
        .compute = compute,
        .end = free,
        .ctx = k,
        .ctx_bytes = sizeof(*k),
    };
    return acl__supply_launch(supply, &kernel);
}

/* The workspace and temporary memory that a call allocates for an operator, until the operator is queued. */
struct holding {
    acl__supply supply;
    acl__piece workspace;
    acl__piece temporary;
    const char *name;
};

/* Runs at the end of the scope, also when a callback of the program throws. */
static void holding_fini(struct holding *h)
{
    (void)acl__supply_give(&h->supply, &h->temporary, h->name);
    (void)acl__supply_give(&h->supply, &h->workspace, h->name);
    acl__supply_end(&h->supply);
}

static aclError execute(const struct call *c, aclrtStream stream)
{
    WEIR_ASSERT(c->op.elements > 0);
    struct holding h __attribute__((cleanup(holding_fini))) = {.name = c->name};
    ACL_TRY(acl__supply_begin(&h.supply, stream, ACL__OPERATOR));
    aclError error = acl__supply_take(&h.supply, c->op.workspace_bytes, NULL, c->name, &h.workspace);
    if (error == ACL_SUCCESS && c->op.temporary_bytes > 0) {
        error = acl__supply_take(&h.supply, c->op.temporary_bytes, NULL, c->name, &h.temporary);
    }
    if (error == ACL_SUCCESS) {
        error = launch(&h.supply, c, &h.workspace, &h.temporary);
    }
    const aclError first = acl__supply_give(&h.supply, &h.temporary, c->name);
    const aclError second = acl__supply_give(&h.supply, &h.workspace, c->name);
    return error != ACL_SUCCESS ? error : first != ACL_SUCCESS ? first : second;
}

/* Runs an operator and stores its output's shape. */
static aclError run(const char *function, acl__tensor *out, const char *opType, int numInputs,
                    aclTensorDesc *inputDesc[], aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[],
                    aclDataBuffer *outputs[], const aclopAttr *attr, aclrtStream stream)
{
    struct call c = {.name = opType};
    ACL_FAIL_IF(opType == NULL, ACL_ERROR_INVALID_PARAM, "%s: opType is NULL", function);
    ACL_TRY(check_arrays(opType, numInputs, inputDesc, inputs, "input"));
    ACL_TRY(check_arrays(opType, numOutputs, outputDesc, outputs, "output"));
    ACL_FAIL_IF(!acl__op_find(opType, &c.op.kind), ACL_ERROR_OP_NOT_FOUND, "%s: there is no operator \"%s\"", function,
                opType);
    c.name = acl__op_name(c.op.kind); /* a constant with static storage, while opType may end with the call */
    ACL_FAIL_IF(numOutputs != 1, ACL_ERROR_INVALID_PARAM, "%s: %d outputs where 1 is expected", c.name, numOutputs);
    ACL_TRY(read_call(&c, numInputs, inputDesc, inputs, outputDesc[0], outputs[0], attr));
    if (c.op.elements > 0) { /* without elements there is nothing to compute */
        ACL_TRY(execute(&c, stream));
    }
    *out = c.op.out;
    return ACL_SUCCESS;
}

/* Runs an operator. As in the vendor's V2 functions, the output's description also gets the output's shape. */
static aclError run_v2(const char *function, const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                       aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[], aclDataBuffer *outputs[],
                       const aclopAttr *attr, aclrtStream stream)
{
    acl__tensor out;
    ACL_TRY(run(function, &out, opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr, stream));
    outputDesc[0]->rank = out.rank;
    memcpy(outputDesc[0]->dims, out.dims, out.rank * sizeof(out.dims[0]));
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclopExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                                   aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[],
                                   aclDataBuffer *outputs[], aclopAttr *attr, aclrtStream stream)
{
    ACL_ENTER(aclopExecuteV2);
    return run_v2(__func__, opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr, stream);
}

/* Nothing is compiled: every operator takes every shape. */
ACL_EXPORT aclError aclopCompileAndExecuteV2(const char *opType, int numInputs, aclTensorDesc *inputDesc[],
                                             aclDataBuffer *inputs[], int numOutputs, aclTensorDesc *outputDesc[],
                                             aclDataBuffer *outputs[], aclopAttr *attr, aclopEngineType engineType,
                                             aclopCompileType compileFlag, const char *opPath, aclrtStream stream)
{
    ACL_ENTER(aclopCompileAndExecuteV2);
    (void)engineType;
    (void)compileFlag;
    (void)opPath;
    return run_v2(__func__, opType, numInputs, inputDesc, inputs, numOutputs, outputDesc, outputs, attr, stream);
}

/* The casts drop const: run() takes arrays of pointers to objects that are not const, but it changes no object. */
ACL_EXPORT aclError aclopCompileAndExecute(const char *opType, int numInputs, const aclTensorDesc *const inputDesc[],
                                           const aclDataBuffer *const inputs[], int numOutputs,
                                           const aclTensorDesc *const outputDesc[], aclDataBuffer *const outputs[],
                                           const aclopAttr *attr, aclopEngineType engineType,
                                           aclopCompileType compileFlag, const char *opPath, aclrtStream stream)
{
    ACL_ENTER(aclopCompileAndExecute);
    (void)engineType;
    (void)compileFlag;
    (void)opPath;
    acl__tensor out;
    return run(__func__, &out, opType, numInputs, (aclTensorDesc **)(uintptr_t)inputDesc,
               (aclDataBuffer **)(uintptr_t)inputs, numOutputs, (aclTensorDesc **)(uintptr_t)outputDesc,
               (aclDataBuffer **)(uintptr_t)outputs, attr, stream);
}
