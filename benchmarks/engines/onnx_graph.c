/* onnx_graph.c: see onnx_graph.h. Reads downwards: protobuf, the parts of an ONNX graph, the three networks. */
#include "engines/onnx_graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- protobuf: a message is a sequence of (field number, kind, value) --- */

/* A message that is being written. After a failure (no memory) further writes have no effect, and finish reports it. */
struct message {
    unsigned char *bytes;
    size_t size;
    size_t capacity;
    bool failed;
};

static void put_bytes(struct message *message, const void *bytes, size_t size)
{
    if (message->capacity - message->size < size) {
        size_t capacity = message->capacity * 2 + 64;
        if (capacity < message->size + size) {
            capacity = message->size + size;
        }
        unsigned char *more = message->failed ? NULL : realloc(message->bytes, capacity);
        if (more == NULL) {
            message->failed = true;
            return;
        }
        message->bytes = more;
        message->capacity = capacity;
    }
    memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

/* Writes a number, seven bits in each byte, the lowest first; the top bit means that more bytes follow. */
static void put_varint(struct message *message, uint64_t value)
{
    do {
        const unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put_bytes(message, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

enum kind { VARINT = 0, LENGTH = 2, FIXED32 = 5 };

static void put_key(struct message *message, unsigned field, enum kind kind)
{
    put_varint(message, (uint64_t)field << 3 | (unsigned)kind);
}

static void put_int(struct message *message, unsigned field, int64_t value)
{
    put_key(message, field, VARINT);
    put_varint(message, (uint64_t)value);
}

static void put_float(struct message *message, unsigned field, float value)
{
    put_key(message, field, FIXED32);
    put_bytes(message, &value, sizeof(value));
}

static void put_string(struct message *message, unsigned field, const char *text)
{
    put_key(message, field, LENGTH);
    put_varint(message, strlen(text));
    put_bytes(message, text, strlen(text));
}

/* Puts the finished message `part` into `message` as a field, and frees `part`. */
static void put_message(struct message *message, unsigned field, struct message *part)
{
    put_key(message, field, LENGTH);
    put_varint(message, part->size);
    put_bytes(message, part->bytes, part->size);
    message->failed = message->failed || part->failed;
    free(part->bytes);
    *part = (struct message){0};
}

/* --- the parts of an ONNX graph, with the field numbers of onnx.proto --- */

enum { TENSOR_FLOAT = 1, TENSOR_INT64 = 7 };

struct graph {
    struct message message;
    uint64_t random;
    unsigned names; /* number of names made so far */
};

/* The name of a value, unique in the graph. Held by value, so it needs no memory of the graph. */
struct name {
    char text[40];
};

static struct name fresh(struct graph *graph, const char *stem)
{
    struct name name;
    (void)snprintf(name.text, sizeof(name.text), "%s_%u", stem, graph->names++);
    return name;
}

static struct name numbered(const char *stem, int number)
{
    struct name name;
    (void)snprintf(name.text, sizeof(name.text), "%s_%d", stem, number);
    return name;
}

/* Returns a random number from -1 to 1 (splitmix64). */
static float random_unit(struct graph *graph)
{
    uint64_t bits = graph->random += UINT64_C(0x9E3779B97F4A7C15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
    return (float)((double)(bits >> 11) / (double)(UINT64_C(1) << 52) - 1.0);
}

struct shape {
    size_t rank;
    int64_t dims[4];
};

static size_t elements(const struct shape *shape)
{
    size_t count = 1;
    for (size_t i = 0; i < shape->rank; i++) {
        count *= (size_t)shape->dims[i];
    }
    return count;
}

/* TensorProto: dims 1, data_type 2, name 8, raw_data 9. */
static void put_tensor(struct graph *graph, const char *name, const struct shape *shape, int type, const void *data,
                       size_t size)
{
    struct message tensor = {0};
    for (size_t i = 0; i < shape->rank; i++) {
        put_int(&tensor, 1, shape->dims[i]);
    }
    put_int(&tensor, 2, type);
    put_string(&tensor, 8, name);
    put_key(&tensor, 9, LENGTH);
    put_varint(&tensor, size);
    put_bytes(&tensor, data, size);
    put_message(&graph->message, 5, &tensor);
}

/* Makes random weights for sums of `fan_in` products; the sums are about as large as the values that enter them. */
static struct name weight(struct graph *graph, struct shape shape, int64_t fan_in)
{
    const struct name name = fresh(graph, "weight");
    const size_t count = elements(&shape);
    const float scale = sqrtf(3.0f / (float)fan_in);
    float *data = malloc(count * sizeof(*data));
    if (data == NULL) {
        graph->message.failed = true;
        return name;
    }
    for (size_t i = 0; i < count; i++) {
        data[i] = scale * random_unit(graph);
    }
    put_tensor(graph, name.text, &shape, TENSOR_FLOAT, data, count * sizeof(*data));
    free(data);
    return name;
}

/* Makes a vector of `count` random numbers that differ from `middle` by at most `spread`. */
static struct name vector(struct graph *graph, int64_t count, float middle, float spread)
{
    const struct name name = fresh(graph, "vector");
    const struct shape shape = {1, {count}};
    float *data = malloc((size_t)count * sizeof(*data));
    if (data == NULL) {
        graph->message.failed = true;
        return name;
    }
    for (size_t i = 0; i < (size_t)count; i++) {
        data[i] = middle + spread * random_unit(graph);
    }
    put_tensor(graph, name.text, &shape, TENSOR_FLOAT, data, (size_t)count * sizeof(*data));
    free(data);
    return name;
}

static struct name scalar(struct graph *graph, float value)
{
    const struct name name = fresh(graph, "scalar");
    const struct shape shape = {0};
    put_tensor(graph, name.text, &shape, TENSOR_FLOAT, &value, sizeof(value));
    return name;
}

/* Adds an integer constant to the graph: a scalar if `rank` is 0, else a vector. */
static struct name integers(struct graph *graph, size_t rank, size_t count, const int64_t *values)
{
    const struct name name = fresh(graph, "integers");
    const struct shape shape = {rank, {(int64_t)count}};
    put_tensor(graph, name.text, &shape, TENSOR_INT64, values, count * sizeof(*values));
    return name;
}

/* AttributeProto: name 1, f 2, i 3, ints 8, type 20. A node holds its attributes until it is written. */
struct node {
    struct message message;
};

enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_INTS = 7 };

/* NodeProto: input 1, output 2, name 3, op_type 4, attribute 5. The inputs end with NULL. */
static struct node node(struct graph *graph, const char *operator, const char * output, ...)
{
    struct node made = {0};
    va_list inputs;
    va_start(inputs, output);
    for (const char *input; (input = va_arg(inputs, const char *)) != NULL;) {
        put_string(&made.message, 1, input);
    }
    va_end(inputs);
    put_string(&made.message, 2, output);
    put_string(&made.message, 3, fresh(graph, operator).text);
    put_string(&made.message, 4, operator);
    return made;
}

static void with_int(struct node *node, const char *name, int64_t value)
{
    struct message attribute = {0};
    put_string(&attribute, 1, name);
    put_int(&attribute, 3, value);
    put_int(&attribute, 20, ATTRIBUTE_INT);
    put_message(&node->message, 5, &attribute);
}

static void with_float(struct node *node, const char *name, float value)
{
    struct message attribute = {0};
    put_string(&attribute, 1, name);
    put_float(&attribute, 2, value);
    put_int(&attribute, 20, ATTRIBUTE_FLOAT);
    put_message(&node->message, 5, &attribute);
}

static void with_ints(struct node *node, const char *name, size_t count, const int64_t *values)
{
    struct message attribute = {0};
    put_string(&attribute, 1, name);
    for (size_t i = 0; i < count; i++) {
        put_int(&attribute, 8, values[i]);
    }
    put_int(&attribute, 20, ATTRIBUTE_INTS);
    put_message(&node->message, 5, &attribute);
}

static void put_node(struct graph *graph, struct node *node)
{
    put_message(&graph->message, 1, &node->message);
}

/* Adds a node with one input and returns the new name of its result; apply2 and apply3 take two and three inputs. */
static struct name apply1(struct graph *graph, const char *operator, struct name a)
{
    const struct name out = fresh(graph, "t");
    struct node made = node(graph, operator, out.text, a.text, NULL);
    put_node(graph, &made);
    return out;
}

static struct name apply2(struct graph *graph, const char *operator, struct name a, struct name b)
{
    const struct name out = fresh(graph, "t");
    struct node made = node(graph, operator, out.text, a.text, b.text, NULL);
    put_node(graph, &made);
    return out;
}

static struct name apply3(struct graph *graph, const char *operator, struct name a, struct name b, struct name c)
{
    const struct name out = fresh(graph, "t");
    struct node made = node(graph, operator, out.text, a.text, b.text, c.text, NULL);
    put_node(graph, &made);
    return out;
}

static struct name transpose(struct graph *graph, struct name a, const int64_t permutation[4])
{
    const struct name out = fresh(graph, "t");
    struct node made = node(graph, "Transpose", out.text, a.text, NULL);
    with_ints(&made, "perm", 4, permutation);
    put_node(graph, &made);
    return out;
}

/* Makes a value available under the name `output`, through an Identity node. */
static void name_output(struct graph *graph, struct name value, const char *output)
{
    struct node made = node(graph, "Identity", output, value.text, NULL);
    put_node(graph, &made);
}

/* ValueInfoProto: name 1, type 2; TypeProto: tensor_type 1; its elem_type 1, shape 2; TensorShapeProto: dim 1; a
 * dimension: dim_value 1 or dim_param 2. `dims` has words separated by spaces: numbers, or names of variable
 * dimensions. */
static void put_value(struct graph *graph, unsigned field, const char *name, int type, const char *dims)
{
    struct message shape = {0};
    for (const char *at = dims; *at != '\0';) {
        char word[32];
        const size_t length = strcspn(at, " ");
        (void)snprintf(word, sizeof(word), "%.*s", (int)length, at);
        struct message dim = {0};
        if (word[0] >= '0' && word[0] <= '9') {
            put_int(&dim, 1, strtoll(word, NULL, 10));
        } else {
            put_string(&dim, 2, word);
        }
        put_message(&shape, 1, &dim);
        at += length + strspn(at + length, " ");
    }
    struct message tensor = {0};
    put_int(&tensor, 1, type);
    put_message(&tensor, 2, &shape);
    struct message value_type = {0};
    put_message(&value_type, 1, &tensor);
    struct message value = {0};
    put_string(&value, 1, name);
    put_message(&value, 2, &value_type);
    put_message(&graph->message, field, &value);
}

static void put_input(struct graph *graph, const char *name, int type, const char *dims)
{
    put_value(graph, 11, name, type, dims);
}

static void put_output(struct graph *graph, const char *name, const char *dims)
{
    put_value(graph, 12, name, TENSOR_FLOAT, dims);
}

/* ModelProto: ir_version 1, producer_name 2, graph 7, opset_import 8; GraphProto: name 2; OperatorSetIdProto: domain 1,
 * version 2. */
static bool finish(struct graph *graph, const char *name, struct onnx_model *model)
{
    put_string(&graph->message, 2, name);
    struct message opset = {0};
    put_string(&opset, 1, "");
    put_int(&opset, 2, 17);
    struct message whole = {0};
    put_int(&whole, 1, 8);
    put_string(&whole, 2, "weir");
    put_message(&whole, 7, &graph->message);
    put_message(&whole, 8, &opset);
    if (whole.failed) {
        free(whole.bytes);
        return false;
    }
    *model = (struct onnx_model){whole.bytes, whole.size};
    return true;
}

/* --- transformers --- */

static struct name linear(struct graph *graph, struct name x, int64_t in, int64_t out)
{
    const struct name product = apply2(graph, "MatMul", x, weight(graph, (struct shape){2, {in, out}}, in));
    return apply2(graph, "Add", product, vector(graph, out, 0.0f, 0.02f));
}

static struct name layer_norm(struct graph *graph, struct name x, int64_t hidden)
{
    const struct name scale = vector(graph, hidden, 1.0f, 0.02f);
    const struct name bias = vector(graph, hidden, 0.0f, 0.02f);
    const struct name out = fresh(graph, "t");
    struct node made = node(graph, "LayerNormalization", out.text, x.text, scale.text, bias.text, NULL);
    with_int(&made, "axis", -1);
    with_float(&made, "epsilon", 1e-5f);
    put_node(graph, &made);
    return out;
}

/* [batch, sequence, hidden] -> [batch, heads, sequence, hidden / heads] */
static struct name split_heads(struct graph *graph, struct name x, int64_t heads, int64_t hidden)
{
    const int64_t dims[4] = {0, 0, heads, hidden / heads}; /* 0: unchanged */
    const struct name split = apply2(graph, "Reshape", x, integers(graph, 1, 4, dims));
    return transpose(graph, split, (const int64_t[4]){0, 2, 1, 3});
}

static struct name merge_heads(struct graph *graph, struct name x, int64_t hidden)
{
    const int64_t dims[3] = {0, 0, hidden};
    const struct name rows = transpose(graph, x, (const int64_t[4]){0, 2, 1, 3});
    return apply2(graph, "Reshape", rows, integers(graph, 1, 3, dims));
}

/* Softmax(query key^T / sqrt(size of a head) + bias) value; without a bias if its name is empty. */
static struct name attend(struct graph *graph, struct name query, struct name key, struct name value, struct name bias,
                          int64_t head)
{
    const struct name turned = transpose(graph, key, (const int64_t[4]){0, 1, 3, 2});
    struct name scores = apply2(graph, "MatMul", query, turned);
    scores = apply2(graph, "Mul", scores, scalar(graph, 1.0f / sqrtf((float)head)));
    if (bias.text[0] != '\0') {
        scores = apply2(graph, "Add", scores, bias);
    }
    const struct name weights = fresh(graph, "t");
    struct node softmax = node(graph, "Softmax", weights.text, scores.text, NULL);
    with_int(&softmax, "axis", -1);
    put_node(graph, &softmax);
    return apply2(graph, "MatMul", weights, value);
}

/* x * (1 + erf(x / sqrt(2))) / 2 */
static struct name gelu(struct graph *graph, struct name x)
{
    const struct name part = apply2(graph, "Div", x, scalar(graph, sqrtf(2.0f)));
    const struct name sum = apply2(graph, "Add", apply1(graph, "Erf", part), scalar(graph, 1.0f));
    return apply2(graph, "Mul", apply2(graph, "Mul", x, sum), scalar(graph, 0.5f));
}

static struct name feed_forward(struct graph *graph, struct name x, int64_t hidden)
{
    return linear(graph, gelu(graph, linear(graph, x, hidden, 4 * hidden)), 4 * hidden, hidden);
}

/* Adds an embedding: a table of random weights with `rows` rows, looked up by the integers in `which`. */
static struct name embed(struct graph *graph, struct name which, int64_t rows, int64_t hidden)
{
    return apply2(graph, "Gather", weight(graph, (struct shape){2, {rows, hidden}}, 3), which);
}

/* Adds nodes that compute the positions `from`, from + 1, ..., one for each column of `ids`. */
static struct name positions(struct graph *graph, struct name ids, struct name from)
{
    const int64_t column = 1;
    const struct name count = apply2(graph, "Gather", apply1(graph, "Shape", ids), integers(graph, 0, 1, &column));
    const struct name step = integers(graph, 0, 1, &column);
    return apply3(graph, "Range", from, apply2(graph, "Add", from, count), step);
}

bool onnx_bert(uint64_t seed, struct onnx_model *model)
{
    enum { HIDDEN = ONNX_BERT_HIDDEN, HEADS = ONNX_BERT_HEADS };
    struct graph graph = {.random = seed};
    const struct name ids = {"ids"};
    const struct name mask = {"mask"};
    put_input(&graph, ids.text, TENSOR_INT64, "batch sequence");
    put_input(&graph, mask.text, TENSOR_FLOAT, "batch sequence");

    /* Words that the mask leaves out get a score of -10000 from every word. */
    const int64_t middle[2] = {1, 2};
    const struct name wide = apply2(&graph, "Unsqueeze", mask, integers(&graph, 1, 2, middle));
    const struct name left_out = apply2(&graph, "Sub", scalar(&graph, 1.0f), wide);
    const struct name bias = apply2(&graph, "Mul", left_out, scalar(&graph, -10000.0f));

    const int64_t zero = 0;
    const struct name where = positions(&graph, ids, integers(&graph, 0, 1, &zero));
    struct name x = apply2(&graph, "Add", embed(&graph, ids, ONNX_BERT_WORDS, HIDDEN),
                           embed(&graph, where, ONNX_BERT_LONGEST, HIDDEN));
    x = layer_norm(&graph, x, HIDDEN);
    for (int layer = 0; layer < ONNX_BERT_LAYERS; layer++) {
        const struct name query = split_heads(&graph, linear(&graph, x, HIDDEN, HIDDEN), HEADS, HIDDEN);
        const struct name key = split_heads(&graph, linear(&graph, x, HIDDEN, HIDDEN), HEADS, HIDDEN);
        const struct name value = split_heads(&graph, linear(&graph, x, HIDDEN, HIDDEN), HEADS, HIDDEN);
        const struct name seen = attend(&graph, query, key, value, bias, HIDDEN / HEADS);
        const struct name mixed = linear(&graph, merge_heads(&graph, seen, HIDDEN), HIDDEN, HIDDEN);
        x = layer_norm(&graph, apply2(&graph, "Add", x, mixed), HIDDEN);
        x = layer_norm(&graph, apply2(&graph, "Add", x, feed_forward(&graph, x, HIDDEN)), HIDDEN);
    }
    name_output(&graph, x, "hidden");
    put_output(&graph, "hidden", "batch sequence 256");
    _Static_assert(HIDDEN == 256, "the shape above");
    return finish(&graph, "bert", model);
}

/* Appends new keys or values of a layer to its cache from earlier steps. The result is also an output of the graph. */
static struct name grow_cache(struct graph *graph, struct name fresh_part, const char *what, int layer)
{
    char stem[32];
    (void)snprintf(stem, sizeof(stem), "past_%s", what);
    const struct name past = numbered(stem, layer);
    const struct name all = numbered(what, layer);
    put_input(graph, past.text, TENSOR_FLOAT, "batch 4 past 64");
    struct node made = node(graph, "Concat", all.text, past.text, fresh_part.text, NULL);
    with_int(&made, "axis", 2);
    put_node(graph, &made);
    put_output(graph, all.text, "batch 4 all 64");
    _Static_assert(ONNX_GPT_HEADS == 4 && ONNX_GPT_HIDDEN == 4 * 64, "the shapes above");
    return all;
}

bool onnx_gpt(uint64_t seed, struct onnx_model *model)
{
    enum { HIDDEN = ONNX_GPT_HIDDEN, HEADS = ONNX_GPT_HEADS };
    struct graph graph = {.random = seed};
    const struct name ids = {"ids"};
    const struct name none = {""};
    put_input(&graph, ids.text, TENSOR_INT64, "batch new");
    put_output(&graph, "scores", "batch new words");

    const int64_t third = 2;
    const struct name past =
        apply2(&graph, "Gather", apply1(&graph, "Shape", numbered("past_key", 0)), integers(&graph, 0, 1, &third));
    struct name x = apply2(&graph, "Add", embed(&graph, ids, ONNX_GPT_WORDS, HIDDEN),
                           embed(&graph, positions(&graph, ids, past), ONNX_GPT_LONGEST, HIDDEN));
    for (int layer = 0; layer < ONNX_GPT_LAYERS; layer++) {
        const struct name inner = layer_norm(&graph, x, HIDDEN);
        const struct name query = split_heads(&graph, linear(&graph, inner, HIDDEN, HIDDEN), HEADS, HIDDEN);
        const struct name key = split_heads(&graph, linear(&graph, inner, HIDDEN, HIDDEN), HEADS, HIDDEN);
        const struct name value = split_heads(&graph, linear(&graph, inner, HIDDEN, HIDDEN), HEADS, HIDDEN);
        const struct name keys = grow_cache(&graph, key, "key", layer);
        const struct name values = grow_cache(&graph, value, "value", layer);
        const struct name seen = attend(&graph, query, keys, values, none, HIDDEN / HEADS);
        x = apply2(&graph, "Add", x, linear(&graph, merge_heads(&graph, seen, HIDDEN), HIDDEN, HIDDEN));
        x = apply2(&graph, "Add", x, feed_forward(&graph, layer_norm(&graph, x, HIDDEN), HIDDEN));
    }
    x = layer_norm(&graph, x, HIDDEN);
    const struct name words = weight(&graph, (struct shape){2, {HIDDEN, ONNX_GPT_WORDS}}, HIDDEN);
    name_output(&graph, apply2(&graph, "MatMul", x, words), "scores");
    return finish(&graph, "gpt", model);
}

/* --- convolutions --- */

/* A convolution of `size` x `size` that keeps the image's size, or halves it with a stride of 2; batch norm folded
 * in. */
static struct name convolution(struct graph *graph, struct name x, int64_t in, int64_t out, int64_t size,
                               int64_t stride, int64_t groups)
{
    const struct shape shape = {4, {out, in / groups, size, size}};
    const struct name kernel = weight(graph, shape, in / groups * size * size / 2 + 1);
    const struct name bias = vector(graph, out, 0.0f, 0.1f);
    const struct name result = fresh(graph, "t");
    struct node made = node(graph, "Conv", result.text, x.text, kernel.text, bias.text, NULL);
    const int64_t pad = size / 2;
    with_ints(&made, "kernel_shape", 2, (const int64_t[2]){size, size});
    with_ints(&made, "strides", 2, (const int64_t[2]){stride, stride});
    with_ints(&made, "pads", 4, (const int64_t[4]){pad, pad, pad, pad});
    with_int(&made, "group", groups);
    put_node(graph, &made);
    return result;
}

static struct name relu6(struct graph *graph, struct name x)
{
    return apply3(graph, "Clip", x, scalar(graph, 0.0f), scalar(graph, 6.0f));
}

/* A bottleneck: widens by `factor`, filters each channel, narrows again, and adds the input if the shapes agree. */
static struct name bottleneck(struct graph *graph, struct name x, int64_t in, int64_t out, int64_t factor,
                              int64_t stride)
{
    const int64_t wide = in * factor;
    struct name y = x;
    if (factor != 1) {
        y = relu6(graph, convolution(graph, y, in, wide, 1, 1, 1));
    }
    y = relu6(graph, convolution(graph, y, wide, wide, 3, stride, wide));
    y = convolution(graph, y, wide, out, 1, 1, 1);
    return stride == 1 && in == out ? apply2(graph, "Add", x, y) : y;
}

bool onnx_mobilenet(uint64_t seed, struct onnx_model *model)
{
    static const struct {
        int64_t factor, channels, repeats, stride;
    } stages[] = {
        {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
    };
    struct graph graph = {.random = seed};
    const struct name image = {"image"};
    put_input(&graph, image.text, TENSOR_FLOAT, "batch 3 height width");
    struct name x = relu6(&graph, convolution(&graph, image, 3, 32, 3, 2, 1));
    int64_t channels = 32;
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        for (int64_t repeat = 0; repeat < stages[i].repeats; repeat++) {
            x = bottleneck(&graph, x, channels, stages[i].channels, stages[i].factor,
                           repeat == 0 ? stages[i].stride : 1);
            channels = stages[i].channels;
        }
    }
    x = relu6(&graph, convolution(&graph, x, channels, 1280, 1, 1, 1));
    x = apply1(&graph, "Flatten", apply1(&graph, "GlobalAveragePool", x));
    name_output(&graph, linear(&graph, x, 1280, ONNX_MOBILENET_CLASSES), "scores");
    put_output(&graph, "scores", "batch 1000");
    _Static_assert(ONNX_MOBILENET_CLASSES == 1000, "the shape above");
    return finish(&graph, "mobilenet", model);
}
