/* benchmarks/engines/mobilenet.c: one list of calls describes the network. Each call takes its weights from the next
 * position. The same calls run three times: they count the weights, make them, and build the graph.
 */
#include "mobilenet.h"

#include <math.h>
#include <stdbool.h>

enum { BIAS_FAN_IN = 600 }; /* makes a bias about a tenth of the sum that it is added to */

struct tensor {
    uint32_t id;
    size_t height, width, channels;
};

/* After a call has failed, no further calls are made. */
struct builder {
    xnn_subgraph_t graph; /* may be NULL */
    const float *weights; /* used with a graph */
    float *make;          /* receives the random weights; NULL: the weights exist already */
    uint64_t random;
    size_t taken; /* number of floats taken so far */
    size_t batch;
    uint32_t divisor;
    enum xnn_status status;
};

/* --- values --- */

static float random_float(uint64_t *state) /* from -1 to 1; splitmix64 */
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (float)(int32_t)(z >> 32) / 2147483648.0F;
}

static bool builds(const struct builder *builder)
{
    return builder->graph != NULL && builder->status == xnn_status_success;
}

static uint32_t define(struct builder *builder, size_t rank, const size_t *shape, const float *data, uint32_t external,
                       uint32_t flags)
{
    uint32_t id = XNN_INVALID_VALUE_ID;
    if (builds(builder)) {
        builder->status =
            xnn_define_tensor_value(builder->graph, xnn_datatype_fp32, rank, shape, data, external, flags, &id);
    }
    return id;
}

/* Defines the weights of sums of `fan_in` products; in every layer the sums are about as large as the values that enter
 * them. */
static uint32_t define_weights(struct builder *builder, size_t rank, const size_t *shape, size_t fan_in)
{
    const size_t begin = builder->taken;
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        count *= shape[i];
    }
    builder->taken += count;
    if (builder->make != NULL) {
        const float scale = sqrtf(6.0F / (float)fan_in);
        for (size_t i = begin; i < begin + count; i++) {
            builder->make[i] = scale * random_float(&builder->random);
        }
    }
    const float *data = builder->graph != NULL ? builder->weights + begin : NULL;
    return define(builder, rank, shape, data, XNN_INVALID_VALUE_ID, 0);
}

static struct tensor define_activation(struct builder *builder, size_t height, size_t width, size_t channels)
{
    const size_t shape[] = {builder->batch, height, width, channels};
    const uint32_t id = define(builder, 4, shape, NULL, XNN_INVALID_VALUE_ID, 0);
    return (struct tensor){id, height, width, channels};
}

/* --- layers --- */

static const float relu6 = 6.0F;

static size_t halved(size_t length, uint32_t stride)
{
    return (length + stride - 1) / stride;
}

static struct tensor convolution(struct builder *builder, struct tensor in, size_t channels, uint32_t kernel,
                                 uint32_t stride, bool linear)
{
    const size_t shape[] = {channels, kernel, kernel, in.channels};
    const uint32_t filter = define_weights(builder, 4, shape, (size_t)kernel * kernel * in.channels);
    const uint32_t bias = define_weights(builder, 1, &channels, BIAS_FAN_IN);
    const struct tensor out = define_activation(builder, halved(in.height, stride), halved(in.width, stride), channels);
    if (builds(builder)) {
        builder->status =
            xnn_define_convolution_2d(builder->graph, 0, 0, 0, 0, kernel, kernel, stride, stride, 1, 1, 1, in.channels,
                                      channels, linear ? -INFINITY : 0.0F, linear ? INFINITY : relu6, in.id, filter,
                                      bias, out.id, XNN_FLAG_TENSORFLOW_SAME_PADDING);
    }
    return out;
}

static struct tensor depthwise(struct builder *builder, struct tensor in, uint32_t stride)
{
    const size_t shape[] = {1, 3, 3, in.channels};
    const uint32_t filter = define_weights(builder, 4, shape, 9);
    const uint32_t bias = define_weights(builder, 1, &in.channels, BIAS_FAN_IN);
    const struct tensor out =
        define_activation(builder, halved(in.height, stride), halved(in.width, stride), in.channels);
    if (builds(builder)) {
        builder->status = xnn_define_depthwise_convolution_2d(builder->graph, 0, 0, 0, 0, 3, 3, stride, stride, 1, 1, 1,
                                                              in.channels, 0.0F, relu6, in.id, filter, bias, out.id,
                                                              XNN_FLAG_TENSORFLOW_SAME_PADDING);
    }
    return out;
}

static struct tensor add(struct builder *builder, struct tensor a, struct tensor b)
{
    const struct tensor out = define_activation(builder, a.height, a.width, a.channels);
    if (builds(builder)) {
        builder->status = xnn_define_add2(builder->graph, -INFINITY, INFINITY, a.id, b.id, out.id, 0);
    }
    return out;
}

/* Defines a bottleneck: wide inside and narrow at both ends. The result includes the input if the shapes agree. */
static struct tensor bottleneck(struct builder *builder, struct tensor in, size_t channels, uint32_t widen,
                                uint32_t stride)
{
    const struct tensor wide = widen == 1 ? in : convolution(builder, in, in.channels * widen, 1, 1, false);
    const struct tensor narrow = convolution(builder, depthwise(builder, wide, stride), channels, 1, 1, true);
    return stride == 1 && in.channels == channels ? add(builder, in, narrow) : narrow;
}

static void classify(struct builder *builder, struct tensor in)
{
    const size_t classes = MOBILENET_CLASSES;
    const struct tensor pooled = define_activation(builder, 1, 1, in.channels);
    const size_t filter_shape[] = {classes, in.channels};
    const uint32_t filter = define_weights(builder, 2, filter_shape, in.channels);
    const uint32_t bias = define_weights(builder, 1, &classes, BIAS_FAN_IN);
    const size_t shape[] = {builder->batch, classes};
    const uint32_t scores = define(builder, 2, shape, NULL, XNN_INVALID_VALUE_ID, 0);
    const uint32_t output = define(builder, 2, shape, NULL, MOBILENET_OUTPUT, XNN_VALUE_FLAG_EXTERNAL_OUTPUT);
    if (builds(builder)) {
        builder->status =
            xnn_define_global_average_pooling_2d(builder->graph, -INFINITY, INFINITY, in.id, pooled.id, 0);
    }
    if (builds(builder)) {
        builder->status = xnn_define_fully_connected(builder->graph, -INFINITY, INFINITY, pooled.id, filter, bias,
                                                     scores, XNN_FLAG_TENSORFLOW_RESHAPE_2D);
    }
    if (builds(builder)) {
        builder->status = xnn_define_softmax(builder->graph, scores, output, 0);
    }
}

/* --- the network --- */

static size_t scaled(const struct builder *builder, size_t channels)
{
    const size_t least = 8;
    const size_t divided = channels / builder->divisor;
    return divided > least ? divided : least;
}

static void build(struct builder *builder, size_t side)
{
    static const struct {
        uint32_t widen;
        size_t channels;
        uint32_t repeat;
        uint32_t stride; /* stride of the first block */
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    const size_t shape[] = {builder->batch, side, side, 3};
    struct tensor x = {define(builder, 4, shape, NULL, MOBILENET_INPUT, XNN_VALUE_FLAG_EXTERNAL_INPUT), side, side, 3};
    x = convolution(builder, x, scaled(builder, 32), 3, 2, false);
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        for (uint32_t j = 0; j < stages[i].repeat; j++) {
            x = bottleneck(builder, x, scaled(builder, stages[i].channels), stages[i].widen,
                           j == 0 ? stages[i].stride : 1);
        }
    }
    classify(builder, convolution(builder, x, scaled(builder, 1280), 1, 1, false));
}

enum xnn_status mobilenet_runtime(const struct mobilenet *net, size_t batch, size_t side, xnn_runtime_t *runtime)
{
    struct builder builder = {.weights = net->weights, .batch = batch, .divisor = net->divisor};
    *runtime = NULL;
    builder.status = xnn_create_subgraph(MOBILENET_EXTERNALS, 0, &builder.graph);
    if (builder.status != xnn_status_success) {
        return builder.status;
    }
    build(&builder, side);
    if (builds(&builder)) {
        builder.status = xnn_create_runtime(builder.graph, runtime);
        /* XNNPACK of February 2022 returns success if there is no memory for the workspace. */
        if (builder.status == xnn_status_success && *runtime == NULL) {
            builder.status = xnn_status_out_of_memory;
        }
    }
    (void)xnn_delete_subgraph(builder.graph); /* the runtime, once created, does not need its graph */
    return builder.status;
}

/* --- weights and inputs --- */

size_t mobilenet_weights_bytes(const struct mobilenet *net)
{
    struct builder builder = {.batch = 1, .divisor = net->divisor};
    build(&builder, 32);
    return builder.taken * sizeof(float);
}

void mobilenet_fill(struct mobilenet *net, float *weights, uint64_t seed)
{
    struct builder builder = {.make = weights, .random = seed, .batch = 1, .divisor = net->divisor};
    build(&builder, 32);
    net->weights = weights;
}

size_t mobilenet_input_bytes(size_t batch, size_t side)
{
    return batch * side * side * 3 * sizeof(float);
}

size_t mobilenet_output_bytes(size_t batch)
{
    return batch * MOBILENET_CLASSES * sizeof(float);
}

void mobilenet_input_fill(float *input, size_t batch, size_t side, uint64_t seed)
{
    for (size_t i = 0; i < mobilenet_input_bytes(batch, side) / sizeof(float); i++) {
        input[i] = random_float(&seed);
    }
}
