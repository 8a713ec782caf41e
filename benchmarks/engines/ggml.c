/* ggml.c: a decoder in ggml with sessions of different lengths, in ggml's own buffers and in buffers of a weir heap.
 *
 *     engine_ggml [--rounds N] [--alone own|weir]
 *
 * A session has a KV cache of its full length, takes its prompt in one evaluation and eight more tokens one by one.
 * Intermediate tensors lie in a buffer that ggml grows when a graph needs more.
 *
 * The code between "the engine" and "the meter" is the code that a user's program would have.
 */
#include "engines/meter.h"
#include "engines/transformer.h"

#include <weir/ggml.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DECODED = 8, SEED = 50 };

/* Lengths of the prompts in tokens, in the order of the sessions. */
static const int prompts[] = {64, 17, 200, 96, 33, 480, 128, 250, 20, 333, 75, 512, 40, 160, 300, 24};

/* --- the engine --- */

struct server {
    weir_heap *heap; /* NULL: ggml's own buffers */
    struct ggml_backend_buffer_type *weights_type, *type;
    ggml_backend_t backend;
    struct transformer model;
};

static bool choose_types(struct server *server, bool of_weir)
{
    if (!of_weir) {
        server->weights_type = server->type = ggml_backend_cpu_buffer_type();
        return true;
    }
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.name = "ggml";
    return weir_heap_create(&config, &server->heap) == WEIR_OK &&
           weir_ggml_buffer_type_create(server->heap, WEIR_GGML_LONG_LIVED, &server->weights_type) == WEIR_OK &&
           weir_ggml_buffer_type_create(server->heap, 0, &server->type) == WEIR_OK;
}

static bool start_backend(struct server *server)
{
    ggml_backend_load_all_from_path(WEIR_ENGINES_DIR "/ggml");
    server->backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (server->backend == NULL) {
        return false;
    }
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(server->backend));
    void *found = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_threads;
    memcpy(&set_threads, &found, sizeof(set_threads));
    if (set_threads != NULL) {
        set_threads(server->backend, 1);
    }
    return true;
}

static bool serve(struct server *server, int prompt, uint64_t *digest)
{
    float logits[TRANSFORMER_VOCABULARY];
    struct transformer_session session;
    uint64_t sum = 0;
    bool good = transformer_begin(&session, &server->model, server->type, prompt + DECODED);
    for (int i = 0; good && i <= DECODED; i++) {
        good = transformer_eval(&session, server->backend, i == 0 ? prompt : 1, (uint64_t)prompt + (uint64_t)i, logits);
        sum = good && digest != NULL ? meter_digest(sum, logits, sizeof(logits)) : sum;
    }
    if (good && digest != NULL) {
        *digest = sum;
    }
    transformer_end(&session);
    return good;
}

static bool end(struct server *server)
{
    transformer_unload(&server->model);
    ggml_backend_free(server->backend);
    if (server->heap == NULL) {
        return true;
    }
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    return weir_ggml_buffer_type_destroy(server->type) == WEIR_OK &&
           weir_ggml_buffer_type_destroy(server->weights_type) == WEIR_OK &&
           weir_heap_get_stats(server->heap, &stats) == WEIR_OK && stats.live_blocks == 0 &&
           weir_heap_destroy(server->heap) == WEIR_OK;
}

/* --- the meter --- */

static bool engine_open(void *ctx, enum meter_side side)
{
    struct server *server = ctx;
    *server = (struct server){0};
    if (!choose_types(server, side == METER_WEIR) || !start_backend(server) ||
        !transformer_load(&server->model, server->weights_type, SEED)) {
        (void)fputs("engine_ggml: it does not start\n", stderr);
        return false;
    }
    return true;
}

static bool engine_step(void *ctx, size_t step, uint64_t *digest)
{
    struct server *server = ctx;
    if (serve(server, prompts[step], digest)) {
        return true;
    }
    char why[512] = "";
    if (server->heap != NULL) {
        (void)weir_heap_explain(server->heap, why, sizeof(why));
    }
    (void)fprintf(stderr, "engine_ggml: session %zu failed. %s\n", step, why);
    return false;
}

static weir_heap *engine_heap(void *ctx)
{
    return ((struct server *)ctx)->heap;
}

static bool engine_close(void *ctx)
{
    return end(ctx);
}

/* Drops ggml's messages: it prints on standard error which build of its CPU code it loads. */
static void quiet(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR) {
        (void)fputs(text, stderr);
    }
}

int main(int argc, char **argv)
{
    struct server server;
    const struct meter_engine engine = {
        .name = "ggml, decoder of 4 layers, prompts of 17 to 512 tokens",
        .steps = sizeof(prompts) / sizeof(prompts[0]),
        .ctx = &server,
        .open = engine_open,
        .step = engine_step,
        .heap = engine_heap,
        .close = engine_close,
    };
    ggml_log_set(quiet, NULL);
    return meter_main("engine_ggml", &engine, argc, argv);
}
