/* benchmarks/engines/transformer.h: a small decoder with random weights for ggml: attention over a KV cache, feed-forward,
 * logits of the last token.
 *
 *     transformer_load(&model, weights_type, seed)
 *     for each request: transformer_begin(&session, &model, type, length), transformer_eval(...) for the prompt and for each
 *     further token, transformer_end
 *
 * Buffers come from the buffer types that it is given; false means that one was refused, and nothing is left of the call.
 */
#ifndef ENGINES_TRANSFORMER_H
#define ENGINES_TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

enum {
    TRANSFORMER_LAYERS = 4,
    TRANSFORMER_HEADS = 4,
    TRANSFORMER_WIDTH = 256,
    TRANSFORMER_INNER = 1024,
    TRANSFORMER_VOCABULARY = 2000,
};

struct transformer_layer {
    struct ggml_tensor *norm, *q, *k, *v, *o, *inner_norm, *up, *down;
};

struct transformer {
    ggml_backend_buffer_t descriptions; /* of the context */
    struct ggml_context *context;       /* what the tensors are; where they lie: */
    ggml_backend_buffer_t buffer;
    struct transformer_layer layers[TRANSFORMER_LAYERS];
    struct ggml_tensor *norm, *output;
};

struct transformer_session {
    const struct transformer *model;
    ggml_backend_buffer_t descriptions,
        graph; /* of the context; of one evaluation after the other */
    struct ggml_context *context;
    ggml_backend_buffer_type_t type;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *k[TRANSFORMER_LAYERS], *v[TRANSFORMER_LAYERS];
    ggml_gallocr_t scratch; /* for what lies between the layers; grows as it has to */
    int length, used;       /* tokens */
};

bool transformer_load(struct transformer *model, ggml_backend_buffer_type_t type, uint64_t seed);
void transformer_unload(struct transformer *model);

bool transformer_begin(struct transformer_session *session, const struct transformer *model,
                       ggml_backend_buffer_type_t type, int length);
/* `tokens` further tokens, made up from the seed. logits: TRANSFORMER_VOCABULARY. One that fails may be tried again. */
bool transformer_eval(struct transformer_session *session, ggml_backend_t backend, int tokens,
                      uint64_t seed, float *logits);
void transformer_end(struct transformer_session *session);

#endif
