/* benchmarks/engines/transformer.h: a small decoder with random weights for ggml: attention over a KV cache,
 * feed-forward, logits of the last token.
 *
 *     transformer_load(&model, weights_type, seed)
 *     for each request: transformer_begin(&session, &model, type, length), transformer_eval(...) for the prompt and for
 *     each further token, transformer_end
 *
 * Buffers come from the given buffer types. A call returns false if a buffer was refused, and then has no lasting
 * effect.
 */
#ifndef ENGINES_TRANSFORMER_H
#define ENGINES_TRANSFORMER_H

#include <stdbool.h>
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
    ggml_backend_buffer_t descriptions; /* memory of the context */
    struct ggml_context *context;       /* descriptions of the tensors; their data lies in `buffer` */
    ggml_backend_buffer_t buffer;
    struct transformer_layer layers[TRANSFORMER_LAYERS];
    struct ggml_tensor *norm, *output;
};

struct transformer_session {
    const struct transformer *model;
    ggml_backend_buffer_t descriptions, graph; /* memory for the context of the graph; reused by each evaluation */
    struct ggml_context *context;
    ggml_backend_buffer_type_t type;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *k[TRANSFORMER_LAYERS], *v[TRANSFORMER_LAYERS];
    ggml_gallocr_t scratch; /* buffer for intermediate tensors; grows if a graph needs more */
    int length, used;       /* capacity and use of the cache, in tokens */
};

bool transformer_load(struct transformer *model, ggml_backend_buffer_type_t type, uint64_t seed);
void transformer_unload(struct transformer *model);

bool transformer_begin(struct transformer_session *session, const struct transformer *model,
                       ggml_backend_buffer_type_t type, int length);
/* Evaluates `tokens` further tokens, which are generated from the seed. `logits` has TRANSFORMER_VOCABULARY elements.
 * A call that fails may be repeated. */
bool transformer_eval(struct transformer_session *session, ggml_backend_t backend, int tokens, uint64_t seed,
                      float *logits);
void transformer_end(struct transformer_session *session);

#endif
