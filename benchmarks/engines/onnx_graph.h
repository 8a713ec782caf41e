/* onnx_graph.h: makes models with random weights in ONNX format.
 *
 * The models make three typical kinds of traffic: an encoder with changing sequence lengths (onnx_bert), a
 * convolutional network with changing image sizes (onnx_mobilenet), and a decoder with caches that grow with each token
 * (onnx_gpt). An inference takes milliseconds; the operators and their order are those of the networks in the names.
 * The same seed gives the same bytes.
 *
 * A model is a protobuf message. onnx_graph.c writes the few necessary fields by hand, so no protobuf library is
 * needed. Operators are those of opset 17.
 */
#ifndef WEIR_BENCHMARKS_ONNX_GRAPH_H
#define WEIR_BENCHMARKS_ONNX_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct onnx_model {
    unsigned char *bytes; /* from malloc; the caller frees it */
    size_t size;
};

enum {
    ONNX_BERT_LAYERS = 6,
    ONNX_BERT_HIDDEN = 256,
    ONNX_BERT_HEADS = 4,
    ONNX_BERT_WORDS = 2000,
    ONNX_BERT_LONGEST = 512,
    ONNX_GPT_LAYERS = 6,
    ONNX_GPT_HIDDEN = 256,
    ONNX_GPT_HEADS = 4,
    ONNX_GPT_WORDS = 2000,
    ONNX_GPT_LONGEST = 512,
    ONNX_MOBILENET_CLASSES = 1000,
};

/* Makes the encoder. Inputs: "ids" int64 [batch, sequence] below ONNX_BERT_WORDS, "mask" float [batch, sequence] of 0
 * and 1. Output: "hidden" float [batch, sequence, ONNX_BERT_HIDDEN]. Like the next two functions it returns false
 * when out of memory. */
bool onnx_bert(uint64_t seed, struct onnx_model *model);

/* Makes the convolutional network. Input: "image" float [batch, 3, height, width], height and width multiples of 32.
 * Output: "scores" float [batch, ONNX_MOBILENET_CLASSES]. */
bool onnx_mobilenet(uint64_t seed, struct onnx_model *model);

/* Makes the decoder. Inputs: "ids" int64 [batch, new], and for each layer N "past_key_N" and "past_value_N" float
 * [batch, ONNX_GPT_HEADS, past, ONNX_GPT_HIDDEN / ONNX_GPT_HEADS]. Outputs: "scores" float [batch, new,
 * ONNX_GPT_WORDS], and for each layer "key_N" and "value_N": the past followed by the new entries. New tokens do not
 * mask each other, so after the first call a decoder adds one token at a time. */
bool onnx_gpt(uint64_t seed, struct onnx_model *model);

#endif
