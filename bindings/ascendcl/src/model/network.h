/* network.h: a neural network as the simulated runtime executes it: layers, shapes, the cost of each layer, and the
 * memory of each value.
 *
 * Idea. A model file is a network in ncnn's public text form (`.param`). No network is computed here. The point is its
 * memory traffic: the size of every value at a given input size, the layer that produces it and its last consumer.
 *
 * Guarantee. A network that acl__network_parse returns is consistent: every layer is of a known kind, every blob is
 * produced once, before it is used, and every number is inside its bounds. Shapes and costs cannot overflow with any
 * inputs: an overflow is an error. There is no global state; a finished network is constant and may be shared by
 * threads.
 *
 * Order of use: parse (param.c), plan (plan.c, once), shapes (shape.c, for each input size), costs (cost.c).
 */
#ifndef ACL_MODEL_NETWORK_H
#define ACL_MODEL_NETWORK_H

#include <weir/base.h>

#include "shared/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of a model file. The largest of ncnn's own networks has some 1,000 layers. */
#define ACL__MAX_LAYERS 65536u
#define ACL__MAX_BLOBS 262144u
#define ACL__MAX_NAME 255u
#define ACL__MAX_PARAM_ID 63
#define ACL__MAX_VALUES 65536u /* values in one array */
#define ACL__MAX_FILE_BYTES ((size_t)64 << 20)
/* Limits of one dimension and of one blob's elements: bytes and operations then stay far inside 64 bits. */
#define ACL__MAX_DIMENSION ((uint64_t)1 << 31)
#define ACL__MAX_ELEMENTS ((uint64_t)1 << 40)

/* X(NAME, text in the file, class). The class says which memory the output takes.
 *   INPUT    made by the caller
 *   VIEW     the bytes of the first input under another name or shape: no kernel, no memory
 *   INPLACE  writes over the first input when no other layer needs it
 *   FRESH    always new memory */
#define ACL__LAYER_LIST(X)                                                                                             \
    X(INPUT, "Input", INPUT)                                                                                           \
    X(SPLIT, "Split", VIEW)                                                                                            \
    X(NOOP, "Noop", VIEW)                                                                                              \
    X(RESHAPE, "Reshape", VIEW)                                                                                        \
    X(FLATTEN, "Flatten", VIEW)                                                                                        \
    X(EXPAND_DIMS, "ExpandDims", VIEW)                                                                                 \
    X(CONVOLUTION, "Convolution", FRESH)                                                                               \
    X(CONVOLUTION_DW, "ConvolutionDepthWise", FRESH)                                                                   \
    X(POOLING, "Pooling", FRESH)                                                                                       \
    X(INNER_PRODUCT, "InnerProduct", FRESH)                                                                            \
    X(ELTWISE, "Eltwise", FRESH)                                                                                       \
    X(BINARY_OP, "BinaryOp", FRESH)                                                                                    \
    X(CONCAT, "Concat", FRESH)                                                                                         \
    X(INTERP, "Interp", FRESH)                                                                                         \
    X(PERMUTE, "Permute", FRESH)                                                                                       \
    X(TILE, "Tile", FRESH)                                                                                             \
    X(GEMM, "Gemm", FRESH)                                                                                             \
    X(ROTARY_EMBED, "RotaryEmbed", FRESH)                                                                              \
    X(SDPA, "SDPA", FRESH)                                                                                             \
    X(YOLO_DETECTION, "Yolov3DetectionOutput", FRESH)                                                                  \
    X(RELU, "ReLU", INPLACE)                                                                                           \
    X(PRELU, "PReLU", INPLACE)                                                                                         \
    X(ELU, "ELU", INPLACE)                                                                                             \
    X(CLIP, "Clip", INPLACE)                                                                                           \
    X(SIGMOID, "Sigmoid", INPLACE)                                                                                     \
    X(TANH, "TanH", INPLACE)                                                                                           \
    X(GELU, "GELU", INPLACE)                                                                                           \
    X(MISH, "Mish", INPLACE)                                                                                           \
    X(SWISH, "Swish", INPLACE)                                                                                         \
    X(HARD_SIGMOID, "HardSigmoid", INPLACE)                                                                            \
    X(HARD_SWISH, "HardSwish", INPLACE)                                                                                \
    X(DROPOUT, "Dropout", INPLACE)                                                                                     \
    X(BATCH_NORM, "BatchNorm", INPLACE)                                                                                \
    X(LAYER_NORM, "LayerNorm", INPLACE)                                                                                \
    X(RMS_NORM, "RMSNorm", INPLACE)                                                                                    \
    X(SCALE, "Scale", INPLACE)                                                                                         \
    X(BIAS, "Bias", INPLACE)                                                                                           \
    X(LRN, "LRN", INPLACE)                                                                                             \
    X(UNARY_OP, "UnaryOp", INPLACE)                                                                                    \
    X(SOFTMAX, "Softmax", INPLACE)

typedef enum acl__layer_kind {
#define ACL__LAYER_ENUM(name, text, class) ACL__LAYER_##name,
    ACL__LAYER_LIST(ACL__LAYER_ENUM)
#undef ACL__LAYER_ENUM
        ACL__LAYER_KINDS
} acl__layer_kind;

typedef enum acl__layer_class {
    ACL__CLASS_INPUT,
    ACL__CLASS_VIEW,
    ACL__CLASS_FRESH,
    ACL__CLASS_INPLACE
} acl__layer_class;

/* Rank 1: w. 2: w, h. 3: w, h, c. 4: w, h, d, c. Dimensions beyond the rank are 1. Rank 0: not known. */
typedef struct acl__shape {
    uint32_t rank;
    uint64_t w, h, d, c;
} acl__shape;

/* One `key=value`. The values of an array (key -23300 - id) lie in network->values from `first` on. */
typedef struct acl__param {
    int32_t id;
    bool array;
    uint32_t first;
    uint32_t count;
} acl__param;

typedef struct acl__layer {
    const char *name;
    acl__layer_kind kind;
    uint32_t line;
    /* Indices of a layer's first entries: `bottom` (inputs) and `top` (outputs) in network->links, `param` in
     * network->params. */
    uint32_t bottom, bottom_count;
    uint32_t top, top_count;
    uint32_t param, param_count;
} acl__layer;

typedef struct acl__blob {
    const char *name;
    uint32_t producer;  /* number of the layer that makes the blob */
    uint32_t consumers; /* number of layer inputs that name this blob; 0 = an output of the network */
    acl__shape hint;    /* the shape given in the file (parameter 30); rank 0 = none */
} acl__blob;

typedef struct acl__network {
    char *name; /* of the file, for messages */
    acl__layer *layers;
    uint32_t layer_count;
    acl__blob *blobs;
    uint32_t blob_count;
    uint32_t *links; /* the input and output blobs of all layers, by number */
    uint32_t link_count;
    acl__param *params;
    uint32_t param_count;
    double *values;
    uint32_t value_count;
    uint32_t *inputs; /* blobs made by Input layers, in the order of the file */
    uint32_t input_count;
    uint32_t *outputs; /* blobs without a consumer, in the order of the file */
    uint32_t output_count;
    char *text; /* the names */
} acl__network;

/* An error in one sentence: the file, the line where there is one, the mistake. */
typedef struct acl__model_error {
    char text[512];
} acl__model_error;

/* Parses a network. `name` stands for the file in messages. WEIR_ERR_INVALID: the text is no network; WEIR_ERR_LIMIT:
 * the network exceeds a limit of this header; WEIR_ERR_UNSUPPORTED: a layer or a form of value that is not simulated;
 * WEIR_ERR_NO_MEMORY. On failure *out is untouched and *error holds a sentence. */
weir_status acl__network_parse(const char *name, const char *text, size_t size, acl__network **out,
                               acl__model_error *error);
/* Parses a network from a file. Results as acl__network_parse, and WEIR_ERR_DEVICE: the file could not be read. */
weir_status acl__network_read(const char *path, acl__network **out, acl__model_error *error);
/* Frees a network. NULL is allowed. */
void acl__network_free(acl__network *network);

acl__layer_class acl__layer_class_of(acl__layer_kind kind);
const char *acl__layer_kind_name(acl__layer_kind kind);
static inline uint32_t acl__layer_bottom(const acl__network *network, const acl__layer *layer, uint32_t i)
{
    WEIR_ASSERT(i < layer->bottom_count && layer->bottom + i < network->link_count);
    return network->links[layer->bottom + i];
}
static inline uint32_t acl__layer_top(const acl__network *network, const acl__layer *layer, uint32_t i)
{
    WEIR_ASSERT(i < layer->top_count && layer->top + i < network->link_count);
    return network->links[layer->top + i];
}
/* Return a parameter of a layer. The int form truncates towards zero and clamps to the range from -2^53 to 2^53. */
int64_t acl__layer_int(const acl__network *network, const acl__layer *layer, int32_t id, int64_t fallback);
double acl__layer_float(const acl__network *network, const acl__layer *layer, int32_t id, double fallback);
/* Returns an array's values and stores their number. Returns NULL if the layer has no array of that id. */
const double *acl__layer_array(const acl__network *network, const acl__layer *layer, int32_t id, uint32_t *count);

/* --- shape.c --- */

/* Return the number of elements of a shape, and its bytes as ncnn lays out a float32 blob: each channel of rank 3 or 4
 * starts at a multiple of 16 bytes, and 4 bytes for the reference count follow the end. */
uint64_t acl__shape_elements(const acl__shape *shape);
uint64_t acl__shape_bytes(const acl__shape *shape);
bool acl__shape_equal(const acl__shape *a, const acl__shape *b);

/* Computes the shapes of all blobs from those of the inputs. inputs[i] belongs to network->inputs[i]; rank 0: the shape
 * given in the file. shapes has blob_count entries. Returns WEIR_ERR_INVALID, with a sentence that names the layer, if
 * the shapes do not fit the network. */
weir_status acl__network_shapes(const acl__network *network, const acl__shape *inputs, acl__shape *shapes,
                                acl__model_error *error);
/* Returns the shape of the padded copy that a convolution makes of its input; rank 0 if it makes none. */
acl__shape acl__layer_bordered(const acl__network *network, const acl__layer *layer, const acl__shape *in);

/* --- plan.c --- */

typedef enum acl__storage_kind {
    ACL__STORAGE_INPUT,    /* the caller's input buffer; never written */
    ACL__STORAGE_INTERNAL, /* memory of the execution, from the first layer that writes it to the last that uses it */
    ACL__STORAGE_OUTPUT,   /* the caller's output buffer */
} acl__storage_kind;

/* Memory that one or several blobs share. */
typedef struct acl__storage {
    acl__storage_kind kind;
    uint32_t index; /* index of the input or the output */
    uint32_t born;  /* the first layer that writes this memory */
    uint32_t last;  /* the last layer that reads or writes this memory */
} acl__storage;

typedef struct acl__plan {
    uint32_t *storage_of; /* [blob_count] */
    acl__storage *storages;
    uint32_t storage_count;
    /* Memory to free after layer l: the storages gone[i] for gone_first[l] <= i < gone_first[l + 1]. */
    uint32_t *gone;
    uint32_t *gone_first;
} acl__plan;

/* Plans the memory of a network's blobs. NULL: out of memory. */
acl__plan *acl__plan_create(const acl__network *network);
void acl__plan_free(acl__plan *plan);

/* --- cost.c --- */

typedef struct acl__cost {
    uint64_t macs;       /* multiply-adds of the matrix unit */
    uint64_t vector_ops; /* operations of the vector unit */
    uint64_t bytes;      /* bytes read and written, weights included */
    uint64_t parameters; /* weights and biases */
    uint64_t duration_ns;
} acl__cost;

/* Returns the cost of one layer at these shapes. Views and inputs cost nothing. */
acl__cost acl__layer_cost(const acl__network *network, const acl__layer *layer, const acl__shape *shapes);
/* Returns a layer's time by the roofline alone: the longest of its matrix, vector and memory times, but at least the
 * time to start a kernel. */
uint64_t acl__roofline_ns(uint64_t macs, uint64_t vector_ops, uint64_t bytes);
/* Returns the number of weights and biases of a layer, which does not depend on the input. */
uint64_t acl__layer_parameters(const acl__network *network, const acl__layer *layer);

#endif
