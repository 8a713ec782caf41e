/* onnx_graph.h: models with random weights, written as ONNX files are.
 *
 * The three shapes of traffic that engines make: an encoder whose sequences change (onnx_bert), a network of convolutions whose
 * images change (onnx_mobilenet), a decoder whose caches grow with each token (onnx_gpt). Sizes are chosen so that an inference
 * takes milliseconds; the operators and their order are those of the networks they are named after. Same seed, same bytes.
 *
 * A model is a protobuf message; the few fields that are needed are written by hand (onnx_graph.c), so nothing has to be
 * installed. Operators are those of opset 17.
 */
#ifndef WEIR_BENCHMARKS_ONNX_GRAPH_H
#define WEIR_BENCHMARKS_ONNX_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct onnx_model {
    unsigned char *bytes; /* for free() */
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

/* Inputs "ids" int64 [batch, sequence] below ONNX_BERT_WORDS, "mask" float [batch, sequence] of 0 and 1; output "hidden" float
 * [batch, sequence, ONNX_BERT_HIDDEN]. False: no memory. */
bool onnx_bert(uint64_t seed, struct onnx_model *model);

/* Input "image" float [batch, 3, height, width], both sides multiples of 32; output "scores" float [batch,
 * ONNX_MOBILENET_CLASSES]. */
bool onnx_mobilenet(uint64_t seed, struct onnx_model *model);

/* Inputs "ids" int64 [batch, new] and for each layer N "past_key_N" and "past_value_N" float [batch, ONNX_GPT_HEADS, past,
 * ONNX_GPT_HIDDEN / ONNX_GPT_HEADS]; outputs "scores" float [batch, new, ONNX_GPT_WORDS] and for each layer "key_N" and
 * "value_N", the past and the new behind it. No mask among the new: one at a time after the first call, as a decoder does it. */
bool onnx_gpt(uint64_t seed, struct onnx_model *model);

#endif
