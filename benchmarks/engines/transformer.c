/* benchmarks/engines/transformer.c: see transformer.h. Reads downwards: weights, session, one evaluation. */
#include "transformer.h"

#include <math.h>
#include <stdlib.h>

enum { HEAD = TRANSFORMER_WIDTH / TRANSFORMER_HEADS, TENSORS = 512 };

static float random_float(uint64_t *state) /* from -1 to 1; splitmix64 */
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (float)(int32_t)(z >> 32) / 2147483648.0F;
}

static void fill(struct ggml_tensor *tensor, float scale, uint64_t *seed)
{
    float row[TRANSFORMER_INNER];
    const size_t bytes = (size_t)tensor->ne[0] * sizeof(float);
    for (int64_t i = 0; i < ggml_nrows(tensor); i++) {
        for (int64_t j = 0; j < tensor->ne[0]; j++) {
            row[j] = scale * random_float(seed);
        }
        ggml_backend_tensor_set(tensor, row, (size_t)i * bytes, bytes);
    }
}

/* Allocates a buffer for the descriptions of tensors, a few hundred bytes each. `type` is the buffer type that the
 * tensors use too. */
static ggml_backend_buffer_t new_descriptions(ggml_backend_buffer_type_t type)
{
    return ggml_backend_buft_alloc_buffer(type, TENSORS * ggml_tensor_overhead() +
                                                    ggml_graph_overhead_custom(TENSORS, false));
}

static struct ggml_context *describe_in(ggml_backend_buffer_t descriptions)
{
    const struct ggml_init_params params = {
        .mem_size = ggml_backend_buffer_get_size(descriptions),
        .mem_buffer = ggml_backend_buffer_get_base(descriptions),
        .no_alloc = true,
    };
    return ggml_init(params);
}

/* --- weights --- */

static struct ggml_tensor *matrix(struct ggml_context *context, int in, int out)
{
    return ggml_new_tensor_2d(context, GGML_TYPE_F32, in, out);
}

static void describe(struct transformer *model)
{
    struct ggml_context *context = model->context;
    for (int i = 0; i < TRANSFORMER_LAYERS; i++) {
        model->layers[i] = (struct transformer_layer){
            .norm = matrix(context, TRANSFORMER_WIDTH, 1),
            .q = matrix(context, TRANSFORMER_WIDTH, TRANSFORMER_WIDTH),
            .k = matrix(context, TRANSFORMER_WIDTH, TRANSFORMER_WIDTH),
            .v = matrix(context, TRANSFORMER_WIDTH, TRANSFORMER_WIDTH),
            .o = matrix(context, TRANSFORMER_WIDTH, TRANSFORMER_WIDTH),
            .inner_norm = matrix(context, TRANSFORMER_WIDTH, 1),
            .up = matrix(context, TRANSFORMER_WIDTH, TRANSFORMER_INNER),
            .down = matrix(context, TRANSFORMER_INNER, TRANSFORMER_WIDTH),
        };
    }
    model->norm = matrix(context, TRANSFORMER_WIDTH, 1);
    model->output = matrix(context, TRANSFORMER_WIDTH, TRANSFORMER_VOCABULARY);
}

bool transformer_load(struct transformer *model, ggml_backend_buffer_type_t type, uint64_t seed)
{
    *model = (struct transformer){.descriptions = new_descriptions(type)};
    model->context = model->descriptions != NULL ? describe_in(model->descriptions) : NULL;
    if (model->context != NULL) {
        describe(model);
        model->buffer = ggml_backend_alloc_ctx_tensors_from_buft(model->context, type);
    }
    if (model->buffer == NULL) {
        transformer_unload(model);
        return false;
    }
    for (struct ggml_tensor *t = ggml_get_first_tensor(model->context); t != NULL;
         t = ggml_get_next_tensor(model->context, t)) {
        fill(t, ggml_nrows(t) == 1 ? 1.0F : sqrtf(3.0F / (float)t->ne[0]), &seed);
    }
    return true;
}

void transformer_unload(struct transformer *model)
{
    ggml_backend_buffer_free(model->buffer);
    ggml_free(model->context);
    ggml_backend_buffer_free(model->descriptions);
    *model = (struct transformer){0};
}

/* --- a session --- */

bool transformer_begin(struct transformer_session *session, const struct transformer *model,
                       ggml_backend_buffer_type_t type, int length)
{
    *session = (struct transformer_session){.model = model, .type = type, .length = length};
    session->descriptions = new_descriptions(type);
    session->graph = session->descriptions != NULL ? new_descriptions(type) : NULL;
    session->context = session->graph != NULL ? describe_in(session->descriptions) : NULL;
    if (session->context != NULL) {
        for (int i = 0; i < TRANSFORMER_LAYERS; i++) {
            session->k[i] = matrix(session->context, TRANSFORMER_WIDTH, length);
            session->v[i] = matrix(session->context, TRANSFORMER_WIDTH, length);
        }
        session->buffer = ggml_backend_alloc_ctx_tensors_from_buft(session->context, type);
    }
    if (session->buffer == NULL) {
        transformer_end(session);
        return false;
    }
    ggml_backend_buffer_clear(session->buffer, 0);
    return true;
}

void transformer_end(struct transformer_session *session)
{
    if (session->scratch != NULL) {
        ggml_gallocr_free(session->scratch);
    }
    ggml_backend_buffer_free(session->buffer);
    ggml_free(session->context);
    ggml_backend_buffer_free(session->graph);
    ggml_backend_buffer_free(session->descriptions);
    *session = (struct transformer_session){0};
}

/* --- one evaluation --- */

struct graph {
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    int before, tokens; /* tokens in the cache, and new tokens */
};

static struct ggml_tensor *normed(struct graph *g, struct ggml_tensor *x, struct ggml_tensor *weight)
{
    return ggml_mul(g->context, ggml_rms_norm(g->context, x, 1e-5F), weight);
}

/* Writes the keys or values of the new tokens into the KV cache. */
static void store(struct graph *g, struct ggml_tensor *cache, struct ggml_tensor *rows)
{
    struct ggml_tensor *place =
        ggml_view_2d(g->context, cache, TRANSFORMER_WIDTH, g->tokens, cache->nb[1], (size_t)g->before * cache->nb[1]);
    ggml_build_forward_expand(g->graph, ggml_cpy(g->context, rows, place));
}

/* Returns a view of a KV cache by head: [HEAD, tokens, heads]. */
static struct ggml_tensor *by_head(struct graph *g, struct ggml_tensor *cache)
{
    struct ggml_tensor *all = ggml_view_3d(g->context, cache, HEAD, TRANSFORMER_HEADS, g->before + g->tokens,
                                           HEAD * sizeof(float), cache->nb[1], 0);
    return ggml_permute(g->context, all, 0, 2, 1, 3);
}

static struct ggml_tensor *attention(struct graph *g, const struct transformer_layer *layer, struct ggml_tensor *x,
                                     struct ggml_tensor *k_cache, struct ggml_tensor *v_cache)
{
    struct ggml_context *c = g->context;
    store(g, k_cache, ggml_mul_mat(c, layer->k, x));
    store(g, v_cache, ggml_mul_mat(c, layer->v, x));
    struct ggml_tensor *q = ggml_reshape_3d(c, ggml_mul_mat(c, layer->q, x), HEAD, TRANSFORMER_HEADS, g->tokens);
    struct ggml_tensor *scores = ggml_mul_mat(c, by_head(g, k_cache), ggml_permute(c, q, 0, 2, 1, 3));
    scores = ggml_scale(c, scores, 1.0F / sqrtf((float)HEAD));
    scores = ggml_soft_max(c, ggml_diag_mask_inf(c, scores, g->before));
    struct ggml_tensor *v = ggml_cont(c, ggml_transpose(c, by_head(g, v_cache)));
    struct ggml_tensor *mixed = ggml_permute(c, ggml_mul_mat(c, v, scores), 0, 2, 1, 3);
    return ggml_mul_mat(c, layer->o, ggml_cont_2d(c, mixed, TRANSFORMER_WIDTH, g->tokens));
}

static struct ggml_tensor *feed_forward(struct graph *g, const struct transformer_layer *layer, struct ggml_tensor *x)
{
    struct ggml_context *c = g->context;
    return ggml_mul_mat(c, layer->down, ggml_silu(c, ggml_mul_mat(c, layer->up, x)));
}

static struct ggml_tensor *build(struct graph *g, const struct transformer_session *session, struct ggml_tensor *x)
{
    struct ggml_context *c = g->context;
    const struct transformer *model = session->model;
    for (int i = 0; i < TRANSFORMER_LAYERS; i++) {
        const struct transformer_layer *layer = &model->layers[i];
        x = ggml_add(c, x, attention(g, layer, normed(g, x, layer->norm), session->k[i], session->v[i]));
        x = ggml_add(c, x, feed_forward(g, layer, normed(g, x, layer->inner_norm)));
    }
    struct ggml_tensor *last = ggml_view_2d(c, x, TRANSFORMER_WIDTH, 1, x->nb[1], (size_t)(g->tokens - 1) * x->nb[1]);
    struct ggml_tensor *logits = ggml_mul_mat(c, model->output, normed(g, last, model->norm));
    ggml_set_output(logits);
    ggml_build_forward_expand(g->graph, logits);
    return logits;
}

/* Allocates the tensors of a graph. If a buffer is refused, replaces the graph allocator: at the next graph ggml 0.5.0
 * would not notice the refusal and would compute without a buffer. */
static bool place(struct transformer_session *session, struct ggml_cgraph *graph)
{
    if (session->scratch == NULL) {
        session->scratch = ggml_gallocr_new(session->type);
    }
    if (session->scratch != NULL && ggml_gallocr_alloc_graph(session->scratch, graph)) {
        return true;
    }
    if (session->scratch != NULL) {
        ggml_gallocr_free(session->scratch);
        session->scratch = NULL;
    }
    return false;
}

bool transformer_eval(struct transformer_session *session, ggml_backend_t backend, int tokens, uint64_t seed,
                      float *logits)
{
    struct graph g = {.context = describe_in(session->graph), .before = session->used, .tokens = tokens};
    if (g.context == NULL || tokens < 1 || tokens > session->length - session->used) {
        ggml_free(g.context);
        return false;
    }
    g.graph = ggml_new_graph_custom(g.context, TENSORS, false);
    struct ggml_tensor *input = matrix(g.context, TRANSFORMER_WIDTH, tokens);
    ggml_set_input(input);
    struct ggml_tensor *output = build(&g, session, input);
    bool done = place(session, g.graph);
    if (done) {
        fill(input, 1.0F, &seed);
        done = ggml_backend_graph_compute(backend, g.graph) == GGML_STATUS_SUCCESS;
    }
    if (done) {
        ggml_backend_tensor_get(output, logits, 0, TRANSFORMER_VOCABULARY * sizeof(float));
        session->used += tokens;
    }
    ggml_free(g.context);
    return done;
}
