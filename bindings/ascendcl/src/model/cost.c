/* cost.c: the duration of a layer's kernel, from a roofline.
 *
 * A kernel takes the longest of three times: its multiply-adds on the matrix unit, its other operations on the vector
 * unit, its bytes through the memory; and at least the time to start a kernel. The figures are those of the Ascend 910
 * as published: 256 Tflop/s in float16 from 32 cores of 4,096 multiply-adds a cycle, which makes 1 GHz, vector units of
 * 2,048 bits (Huawei at Hot Chips 31, 2019, www.anandtech.com/show/14756), four stacks of HBM2 (www.linleygroup.com,
 * newsletter of 8 October 2019). From these: 128 float16 lanes a core with two operations each make 8 Tflop/s, and four
 * stacks at HBM2's 307 GB/s make 1.2 TB/s. The 5 us to start a kernel are assumed.
 *
 * The result is a lower bound, made to rank kernels by size and to let streams overlap in a plausible way; it predicts
 * no device. Sums are made in double: they may round beyond 2^53, but they cannot overflow.
 */
#include "network.h"

#include <math.h>

#define MATRIX_MACS_PER_NS 128000.0 /* 256 Tflop/s, two operations for each multiply-add */
#define VECTOR_OPS_PER_NS 8192.0
#define BYTES_PER_NS 1200.0
#define START_NS 5000.0
#define CEILING 9007199254740992.0 /* 2^53; the sum of two such values fits 64 bits */

static uint64_t whole(double value)
{
    return value >= CEILING ? (uint64_t)CEILING : value < 0 ? 0 : (uint64_t)value;
}

uint64_t acl__roofline_ns(uint64_t macs, uint64_t vector_ops, uint64_t bytes)
{
    double time = fmax((double)macs / MATRIX_MACS_PER_NS, (double)vector_ops / VECTOR_OPS_PER_NS);
    return whole(ceil(fmax(fmax(time, (double)bytes / BYTES_PER_NS), START_NS)));
}

static double integer(const acl__network *n, const acl__layer *l, int32_t id, int64_t fallback)
{
    return (double)acl__layer_int(n, l, id, fallback);
}

static double count_parameters(const acl__network *n, const acl__layer *l)
{
    switch (l->kind) {
    case ACL__LAYER_CONVOLUTION:
    case ACL__LAYER_CONVOLUTION_DW:
        return integer(n, l, 6, 0) + (acl__layer_int(n, l, 5, 0) != 0 ? integer(n, l, 0, 0) : 0);
    case ACL__LAYER_INNER_PRODUCT:
        return integer(n, l, 2, 0) + (acl__layer_int(n, l, 1, 0) != 0 ? integer(n, l, 0, 0) : 0);
    case ACL__LAYER_GEMM:
        return (acl__layer_int(n, l, 4, 0) != 0 ? integer(n, l, 7, 0) * integer(n, l, 9, 0) : 0) +
               (acl__layer_int(n, l, 5, 0) != 0 ? integer(n, l, 8, 0) * integer(n, l, 9, 0) : 0);
    case ACL__LAYER_RMS_NORM:
        return integer(n, l, 0, 0);
    case ACL__LAYER_LAYER_NORM:
        return 2 * integer(n, l, 0, 0);
    case ACL__LAYER_BATCH_NORM:
        return 4 * integer(n, l, 0, 0);
    case ACL__LAYER_SCALE:
        return integer(n, l, 0, 0) * (acl__layer_int(n, l, 1, 0) != 0 ? 2 : 1);
    case ACL__LAYER_BIAS:
        return integer(n, l, 0, 0);
    case ACL__LAYER_PRELU:
        return integer(n, l, 0, 0);
    default:
        return 0;
    }
}

uint64_t acl__layer_parameters(const acl__network *network, const acl__layer *layer)
{
    return whole(count_parameters(network, layer));
}

static double elements(const acl__shape *s)
{
    return (double)acl__shape_elements(s);
}

static double count_macs(const acl__network *n, const acl__layer *l, const acl__shape *shapes, double parameters)
{
    WEIR_ASSERT(l->bottom_count > 0 && l->top_count > 0);
    const acl__shape *in = &shapes[acl__layer_bottom(n, l, 0)], *out = &shapes[acl__layer_top(n, l, 0)];
    switch (l->kind) {
    case ACL__LAYER_CONVOLUTION:
    case ACL__LAYER_CONVOLUTION_DW: {
        double kernel = integer(n, l, 1, 1) * integer(n, l, 11, acl__layer_int(n, l, 1, 1));
        double groups = l->kind == ACL__LAYER_CONVOLUTION_DW ? integer(n, l, 7, 1) : 1;
        return elements(out) * kernel * (double)in->c / groups;
    }
    case ACL__LAYER_INNER_PRODUCT:
        return parameters > 0 ? integer(n, l, 2, 0) : elements(in) * elements(out);
    case ACL__LAYER_GEMM: {
        double inner = integer(n, l, 9, 0);
        if (acl__layer_int(n, l, 4, 0) == 0) {
            inner = (double)(acl__layer_int(n, l, 2, 0) != 0 ? in->h : in->w);
        }
        return elements(out) * inner;
    }
    case ACL__LAYER_SDPA: {
        const acl__shape *keys =
            l->top_count == 3 ? &shapes[acl__layer_top(n, l, 1)] : &shapes[acl__layer_bottom(n, l, 1)];
        /* attention: multiply-adds of the scores, and of the product of the scores and the values */
        return elements(in) * (double)keys->h + elements(out) * (double)keys->h;
    }
    default:
        return 0;
    }
}

/* Counts the operations of the vector unit. `touched` is the number of input elements. */
static double count_vector_ops(const acl__network *n, const acl__layer *l, const acl__shape *shapes, double touched)
{
    const acl__shape *out = &shapes[acl__layer_top(n, l, 0)];
    switch (l->kind) {
    case ACL__LAYER_POOLING: {
        if (acl__layer_int(n, l, 4, 0) != 0 || acl__layer_int(n, l, 7, 0) != 0) {
            return touched;
        }
        return elements(out) * integer(n, l, 1, 1) * integer(n, l, 11, acl__layer_int(n, l, 1, 1));
    }
    case ACL__LAYER_SOFTMAX:
        return 5 * elements(out);
    case ACL__LAYER_LRN:
        return 2 * elements(out) * integer(n, l, 1, 5);
    case ACL__LAYER_LAYER_NORM:
    case ACL__LAYER_RMS_NORM:
        return 6 * elements(out);
    case ACL__LAYER_SDPA: {
        const acl__shape *query = &shapes[acl__layer_bottom(n, l, 0)];
        const acl__shape *keys =
            l->top_count == 3 ? &shapes[acl__layer_top(n, l, 1)] : &shapes[acl__layer_bottom(n, l, 1)];
        return 5 * (double)query->h * (double)query->c * (double)keys->h;
    }
    default:
        return touched;
    }
}

acl__cost acl__layer_cost(const acl__network *network, const acl__layer *layer, const acl__shape *shapes)
{
    acl__cost cost = {0, 0, 0, 0, 0};
    acl__layer_class class = acl__layer_class_of(layer->kind);
    if (class == ACL__CLASS_INPUT || class == ACL__CLASS_VIEW) {
        return cost;
    }
    double parameters = count_parameters(network, layer), touched = 0, bytes = 4 * parameters;
    for (uint32_t i = 0; i < layer->bottom_count; i++) {
        const acl__shape *s = &shapes[acl__layer_bottom(network, layer, i)];
        touched += elements(s);
        bytes += (double)acl__shape_bytes(s);
    }
    for (uint32_t i = 0; i < layer->top_count; i++) {
        bytes += (double)acl__shape_bytes(&shapes[acl__layer_top(network, layer, i)]);
    }
    double macs = count_macs(network, layer, shapes, parameters);
    double ops = macs > 0 && layer->kind != ACL__LAYER_SDPA ? 0 : count_vector_ops(network, layer, shapes, touched);
    cost.macs = whole(macs);
    cost.vector_ops = whole(ops);
    cost.bytes = whole(bytes);
    cost.parameters = whole(parameters);
    cost.duration_ns = acl__roofline_ns(cost.macs, cost.vector_ops, cost.bytes);
    return cost;
}
