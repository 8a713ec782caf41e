/* onnxruntime.c: ONNX Runtime on graphs with changing shapes, with its own allocator (an arena) and with weir.
 *
 * start_weir and end_weir are the code that a user's program needs; the rest is ordinary use of ONNX Runtime.
 * onnx_graph.c makes the graphs with random weights; meter.c runs both sides and compares them.
 */
#include "engines/meter.h"
#include "engines/onnx_api.h"
#include "engines/onnx_graph.h"

#include <weir/heap.h>
#include <weir/onnxruntime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_VALUES = 16, SKIPPED = 77 };

struct program;

/* A graph, and the function that runs a step with that step's shapes. */
struct graph {
    const char *name;
    const char *text;
    bool (*write)(uint64_t seed, struct onnx_model *model);
    bool (*step)(struct program *program, size_t step, uint64_t *digest);
};

struct program {
    const struct graph *graph;
    struct onnx_model model;
    /* Options. */
    const char *library;
    bool prepacking;
    bool arena; /* the engine's own allocator is its arena, not malloc */
    int threads;
    int inferences; /* inferences in a round */
    /* Valid while a side is open. */
    const struct OrtApiBase *base;
    struct onnx_api ort;
    OrtEnv *env;
    OrtSession *session;
    OrtMemoryInfo *memory;
    OrtAllocator *tensors; /* allocator of the session: its arena, or weir */
    weir_heap *heap;
    weir_onnxruntime *binding;
    /* onnx_gpt: keys and values of each layer, which one step leaves for the next. */
    OrtValue *cache[2 * ONNX_GPT_LAYERS];
    size_t cached;
};

static bool good(const struct program *program, OrtStatus *status, const char *what)
{
    if (status == NULL) {
        return true;
    }
    (void)fprintf(stderr, "%s: %s\n", what, program->ort.GetErrorMessage(status));
    program->ort.ReleaseStatus(status);
    return false;
}

static bool fine(weir_status status, const char *what)
{
    if (status == WEIR_OK) {
        return true;
    }
    (void)fprintf(stderr, "%s: %s\n", what, weir_status_text(status));
    return false;
}

/* --- weir --- */

/* Creates a heap and registers it as the environment's allocator. Must precede the creation of the session. */
static bool start_weir(struct program *program, OrtSessionOptions *options)
{
    weir_heap_config heap = WEIR_HEAP_CONFIG_INIT;
    heap.name = "onnxruntime";
    weir_onnxruntime_config config = WEIR_ONNXRUNTIME_CONFIG_INIT;
    config.runtime = program->base;
    if (!fine(weir_heap_create(&heap, &program->heap), "no heap")) {
        return false;
    }
    config.heap = program->heap;
    return fine(weir_onnxruntime_create(&config, &program->binding), "no binding") &&
           fine(weir_onnxruntime_attach(program->binding, program->env), "not attached") &&
           fine(weir_onnxruntime_session_options(program->binding, options,
                                                 program->prepacking ? 0 : WEIR_ONNXRUNTIME_NO_PREPACKING),
                "no options");
}

/* Unregisters and destroys the heap. The session and all its values must have been released. */
static bool end_weir(struct program *program)
{
    return fine(weir_onnxruntime_detach(program->binding, program->env), "not detached") &&
           fine(weir_onnxruntime_destroy(program->binding), "blocks are left") &&
           fine(weir_heap_check(program->heap, NULL), "the heap is damaged") &&
           fine(weir_heap_destroy(program->heap), "the heap cannot be ended");
}

/* --- the engine --- */

static bool open_engine(void *ctx, enum meter_side side)
{
    struct program *program = ctx;
    OrtSessionOptions *options = NULL;
    if (!onnx_api_load(program->library, &program->base, &program->ort)) {
        return false;
    }
    const struct onnx_api *ort = &program->ort;
    bool opened = good(program, ort->CreateEnv(ORT_ERROR, "weir", &program->env), "no environment") &&
                  good(program, ort->CreateSessionOptions(&options), "no options") &&
                  good(program, ort->SetIntraOpNumThreads(options, program->threads), "threads");
    if (opened && side == METER_OWN && !program->prepacking) {
        opened = good(program, ort->AddSessionConfigEntry(options, "session.disable_prepacking", "1"), "prepacking");
    }
    if (opened && side == METER_OWN && !program->arena) {
        opened = good(program, ort->DisableCpuMemArena(options), "no arena");
    }
    opened = opened && (side == METER_OWN || start_weir(program, options)) &&
             good(program,
                  ort->CreateSessionFromArray(program->env, program->model.bytes, program->model.size, options,
                                              &program->session),
                  "no session") &&
             good(program, ort->CreateCpuMemoryInfo(0, 0, &program->memory), "no memory info") &&
             good(program, ort->CreateAllocator(program->session, program->memory, &program->tensors), "no allocator");
    ort->ReleaseSessionOptions(options);
    return opened;
}

static void drop(struct program *program, OrtValue **values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        program->ort.ReleaseValue(values[i]);
        values[i] = NULL;
    }
}

static bool close_engine(void *ctx)
{
    struct program *program = ctx;
    const struct onnx_api *ort = &program->ort;
    drop(program, program->cache, 2 * ONNX_GPT_LAYERS);
    ort->ReleaseAllocator(program->tensors);
    ort->ReleaseMemoryInfo(program->memory);
    ort->ReleaseSession(program->session);
    const bool ended = program->heap == NULL || end_weir(program);
    ort->ReleaseEnv(program->env);
    return ended;
}

static weir_heap *the_heap(void *ctx)
{
    return ((struct program *)ctx)->heap;
}

/* --- inferences --- */

/* Returns a random number below `below`, the same in each run: a hash of `place`. */
static uint64_t random_below(uint64_t place, uint64_t below)
{
    uint64_t bits = place * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x5DEECE66D);
    bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
    return (bits ^ bits >> 31) % below;
}

/* Makes a tensor from the session's allocator; *data points to its elements. */
static OrtValue *tensor(const struct program *program, int type, size_t rank, const int64_t *dims, void **data)
{
    OrtValue *value = NULL;
    if (!good(program, program->ort.CreateTensorAsOrtValue(program->tensors, dims, rank, type, &value), "no tensor")) {
        return NULL;
    }
    if (!good(program, program->ort.GetTensorMutableData(value, data), "no data")) {
        program->ort.ReleaseValue(value);
        return NULL;
    }
    return value;
}

static bool add_digest(const struct program *program, OrtValue *value, uint64_t *digest)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t count = 0;
    void *data = NULL;
    if (!good(program, program->ort.GetTensorTypeAndShape(value, &info), "no shape")) {
        return false;
    }
    const bool counted = good(program, program->ort.GetTensorShapeElementCount(info, &count), "no size");
    program->ort.ReleaseTensorTypeAndShapeInfo(info);
    if (!counted || !good(program, program->ort.GetTensorMutableData(value, &data), "no data")) {
        return false;
    }
    *digest = meter_digest(*digest, data, count * sizeof(float)); /* every output of these graphs is float */
    return true;
}

/* Runs an inference. The engine allocates the outputs from the session's allocator. */
static bool run(const struct program *program, const char *const *input_names, OrtValue *const *inputs,
                size_t input_count, const char *const *output_names, OrtValue **outputs, size_t output_count,
                uint64_t *digest)
{
    if (digest != NULL) {
        *digest = 0;
    }
    bool ran = good(program,
                    program->ort.Run(program->session, NULL, input_names, (const OrtValue *const *)inputs, input_count,
                                     output_names, output_count, outputs),
                    "Run");
    for (size_t i = 0; ran && digest != NULL && i < output_count; i++) {
        ran = add_digest(program, outputs[i], digest);
    }
    return ran;
}

static bool bert_step(struct program *program, size_t step, uint64_t *digest)
{
    static const char *const input_names[] = {"ids", "mask"};
    static const char *const output_names[] = {"hidden"};
    const int64_t batch = 1 + (int64_t)random_below(2 * step, 8);
    const int64_t length = 17 + (int64_t)random_below(2 * step + 1, 240);
    const int64_t dims[] = {batch, length};
    void *ids = NULL;
    void *mask = NULL;
    OrtValue *output = NULL;
    OrtValue *inputs[] = {tensor(program, ORT_INT64, 2, dims, &ids), tensor(program, ORT_FLOAT, 2, dims, &mask)};
    bool ran = inputs[0] != NULL && inputs[1] != NULL;
    for (int64_t i = 0; ran && i < batch * length; i++) {
        ((int64_t *)ids)[i] = (int64_t)random_below(step << 32 | (uint64_t)i, ONNX_BERT_WORDS);
        ((float *)mask)[i] = i % length < length - i / length ? 1.0f : 0.0f; /* later rows are shorter */
    }
    ran = ran && run(program, input_names, inputs, 2, output_names, &output, 1, digest);
    drop(program, inputs, 2);
    drop(program, &output, 1);
    return ran;
}

static bool mobilenet_step(struct program *program, size_t step, uint64_t *digest)
{
    static const char *const input_names[] = {"image"};
    static const char *const output_names[] = {"scores"};
    static const int64_t batches[] = {1, 4, 2, 8, 1, 3};
    const int64_t side = 128 + 32 * (int64_t)random_below(step, 6);
    const int64_t dims[] = {batches[step % 6], 3, side, side};
    void *image = NULL;
    OrtValue *output = NULL;
    OrtValue *input = tensor(program, ORT_FLOAT, 4, dims, &image);
    if (input == NULL) {
        return false;
    }
    for (int64_t i = 0; i < dims[0] * 3 * side * side; i++) {
        ((float *)image)[i] = (float)random_below(step << 32 | (uint64_t)i, 4096) / 2048.0f - 1.0f;
    }
    const bool ran = run(program, input_names, &input, 1, output_names, &output, 1, digest);
    drop(program, &input, 1);
    drop(program, &output, 1);
    return ran;
}

/* Runs a step of the decoder: a prompt, or one token with the cached tokens. A new prompt begins every 24 steps. */
static bool gpt_step(struct program *program, size_t step, uint64_t *digest)
{
    enum { CACHES = 2 * ONNX_GPT_LAYERS, INPUTS = 1 + CACHES, HEAD = ONNX_GPT_HIDDEN / ONNX_GPT_HEADS };
    _Static_assert((int)INPUTS <= (int)MOST_VALUES, "names and values");
    static char texts[2][MOST_VALUES][24];
    const char *names[2][MOST_VALUES] = {{"ids"}, {"scores"}};
    for (int i = 0; i < CACHES; i++) {
        const char *what = i % 2 == 0 ? "key" : "value";
        (void)snprintf(texts[0][i], sizeof(texts[0][i]), "past_%s_%d", what, i / 2);
        (void)snprintf(texts[1][i], sizeof(texts[1][i]), "%s_%d", what, i / 2);
        names[0][1 + i] = texts[0][i];
        names[1][1 + i] = texts[1][i];
    }
    const bool anew = step % 24 == 0;
    OrtValue *inputs[MOST_VALUES] = {NULL};
    OrtValue *outputs[MOST_VALUES] = {NULL};
    void *data = NULL;
    if (anew) {
        drop(program, program->cache, CACHES);
        const int64_t empty[] = {1, ONNX_GPT_HEADS, 0, HEAD};
        for (size_t i = 0; i < CACHES; i++) {
            program->cache[i] = tensor(program, ORT_FLOAT, 4, empty, &data);
            if (program->cache[i] == NULL) {
                return false;
            }
        }
    }
    const int64_t dims[] = {1, anew ? 32 + (int64_t)random_below(step, 200) : 1};
    inputs[0] = tensor(program, ORT_INT64, 2, dims, &data);
    if (inputs[0] == NULL) {
        return false;
    }
    for (int64_t i = 0; i < dims[1]; i++) {
        ((int64_t *)data)[i] = (int64_t)random_below(step << 32 | (uint64_t)i, ONNX_GPT_WORDS);
    }
    memcpy(inputs + 1, program->cache, sizeof(program->cache));
    const bool ran = run(program, names[0], inputs, INPUTS, names[1], outputs, INPUTS, digest);
    drop(program, inputs, 1);
    drop(program, outputs, 1);
    if (ran) {
        drop(program, program->cache, CACHES);
        memcpy(program->cache, outputs + 1, sizeof(program->cache));
    }
    return ran;
}

static const struct graph graphs[] = {
    {"bert", "BERT-shaped encoder, batch 1 to 8, sequences 17 to 256", onnx_bert, bert_step},
    {"mobilenet", "MobileNetV2-shaped network, batch 1 to 8, images 128 to 288", onnx_mobilenet, mobilenet_step},
    {"gpt", "GPT-shaped decoder, prompts of 32 to 231, caches growing token by token", onnx_gpt, gpt_step},
};

static bool step_engine(void *ctx, size_t step, uint64_t *digest)
{
    struct program *program = ctx;
    return program->graph->step(program, step, digest);
}

/* --- the program --- */

static void usage(FILE *to)
{
    (void)fprintf(to,
                  "usage: engine_onnxruntime [options] [bert] [mobilenet] [gpt]\n"
                  "Runs ONNX Runtime on graphs with changing shapes, with its own allocator and with weir.\n"
                  "  --library FILE    libonnxruntime.so (%s)\n"
                  "  --no-prepacking   kernels use weights as the model has them\n"
                  "  --no-arena        the engine's own allocator is malloc\n"
                  "  --threads N       of one operator (1)\n"
                  "  --inferences N    of a round (48)\n"
                  "%s",
                  WEIR_ENGINES_DIR "/onnxruntime/libonnxruntime.so", meter_options_help());
}

static int run_graph(const struct graph *graph, struct program program, const struct meter_options *options)
{
    char name[256];
    program.graph = graph;
    if (!graph->write(1, &program.model)) {
        (void)fprintf(stderr, "no memory for a graph\n");
        return EXIT_FAILURE;
    }
    (void)snprintf(name, sizeof(name), "ONNX Runtime, %s%s", graph->text, program.prepacking ? "" : ", no prepacking");
    const struct meter_engine engine = {.name = name,
                                        .steps = (size_t)program.inferences,
                                        .ctx = &program,
                                        .open = open_engine,
                                        .step = step_engine,
                                        .heap = the_heap,
                                        .close = close_engine};
    const int status = meter_run(&engine, options);
    free(program.model.bytes);
    return status;
}

int main(int argc, char **argv)
{
    struct program program = {.library = WEIR_ENGINES_DIR "/onnxruntime/libonnxruntime.so",
                              .prepacking = true,
                              .arena = true,
                              .threads = 1,
                              .inferences = 48};
    struct meter_options options = METER_OPTIONS_INIT;
    bool wanted[sizeof(graphs) / sizeof(graphs[0])] = {false};
    bool any = false;
    int i = 1;
    while (i < argc) {
        const int taken = meter_options_take(argv + i, &options);
        if (taken < 0) {
            return 2;
        }
        i += taken;
        if (taken > 0) {
            continue;
        }
        size_t graph = 0;
        while (graph < sizeof(graphs) / sizeof(graphs[0]) && strcmp(argv[i], graphs[graph].name) != 0) {
            graph++;
        }
        if (graph < sizeof(graphs) / sizeof(graphs[0])) {
            wanted[graph] = any = true;
        } else if (strcmp(argv[i], "--library") == 0 && i + 1 < argc) {
            program.library = argv[++i];
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0) {
            program.threads = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--inferences") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0) {
            program.inferences = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--no-prepacking") == 0) {
            program.prepacking = false;
        } else if (strcmp(argv[i], "--no-arena") == 0) {
            program.arena = false;
        } else {
            const bool asked = strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
            usage(asked ? stdout : stderr);
            return asked ? EXIT_SUCCESS : 2;
        }
        i++;
    }
    if (access(program.library, R_OK) != 0) {
        (void)printf("skipped: no ONNX Runtime at %s: run script/engines\n", program.library);
        return SKIPPED;
    }
    int status = EXIT_SUCCESS;
    for (size_t graph = 0; graph < sizeof(graphs) / sizeof(graphs[0]); graph++) {
        if ((!any || wanted[graph]) && run_graph(&graphs[graph], program, &options) != EXIT_SUCCESS) {
            status = EXIT_FAILURE;
        }
    }
    return status;
}
