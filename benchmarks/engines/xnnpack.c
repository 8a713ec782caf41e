/* xnnpack.c: a MobileNetV2 in XNNPACK; batch size and resolution change with each request; with XNNPACK's own allocator
 * and with a weir heap.
 *
 *     engine_xnnpack [--rounds N] [--alone own|weir]
 *
 * In this version of XNNPACK a runtime has one shape, so each request builds the graph, creates a runtime, invokes it a
 * few times and deletes it; an invocation allocates no memory.
 *
 * The code between "the engine" and "the meter" is the code that a user's program would have.
 */
#include "engines/meter.h"
#include "engines/mobilenet.h"

#include <weir/xnnpack.h>
#include <xnnpack.h>

#include <stdio.h>
#include <stdlib.h>

struct shape {
    size_t batch;
    size_t side;
};

enum { INVOCATIONS = 3, SEED = 20220216 };

/* The shapes in the order of the requests. */
static const struct shape shapes[] = {{1, 224}, {4, 160}, {2, 288}, {8, 128}, {1, 256}, {3, 192},
                                      {1, 128}, {4, 224}, {2, 160}, {8, 192}, {1, 288}, {3, 256},
                                      {4, 128}, {1, 192}, {2, 224}, {1, 160}, {3, 128}, {2, 256}};

/* --- the engine --- */

struct session {
    weir_heap *heap; /* NULL: XNNPACK's own allocator, and malloc for input and output tensors */
    struct xnn_allocator allocator;
    struct mobilenet net;
    float *weights;
};

static bool start_weir(struct session *session)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.slack_bytes = XNN_EXTRA_BYTES; /* XNNPACK also reads past the end of input and output tensors */
    config.name = "xnnpack";
    return weir_heap_create(&config, &session->heap) == WEIR_OK &&
           weir_xnnpack_allocator_init(session->heap, &session->allocator) == WEIR_OK &&
           xnn_initialize(&session->allocator) == xnn_status_success;
}

static void *tensor_alloc(struct session *session, size_t bytes)
{
    return session->heap != NULL ? weir_heap_alloc(session->heap, bytes) : malloc(bytes + XNN_EXTRA_BYTES);
}

static void tensor_free(struct session *session, void *tensor)
{
    if (session->heap == NULL) {
        free(tensor);
    } else if (weir_heap_free(session->heap, tensor) != WEIR_OK) {
        (void)fputs("engine_xnnpack: the heap does not know a tensor\n", stderr);
    }
}

static bool load_weights(struct session *session)
{
    const size_t bytes = mobilenet_weights_bytes(&session->net);
    session->weights =
        session->heap != NULL ? weir_heap_alloc_long_lived(session->heap, bytes, 64) : malloc(bytes + XNN_EXTRA_BYTES);
    if (session->weights != NULL) {
        mobilenet_fill(&session->net, session->weights, SEED);
    }
    return session->weights != NULL;
}

static enum xnn_status infer(const struct session *session, struct shape shape, float *input, float *output)
{
    const struct xnn_external_value tensors[] = {{MOBILENET_INPUT, input}, {MOBILENET_OUTPUT, output}};
    xnn_runtime_t runtime = NULL;
    enum xnn_status status = mobilenet_runtime(&session->net, shape.batch, shape.side, &runtime);
    if (status == xnn_status_success) {
        status = xnn_setup_runtime(runtime, MOBILENET_EXTERNALS, tensors);
    }
    for (int i = 0; i < INVOCATIONS && status == xnn_status_success; i++) {
        status = xnn_invoke_runtime(runtime);
    }
    (void)xnn_delete_runtime(runtime);
    return status;
}

static bool serve(struct session *session, struct shape shape, uint64_t *digest)
{
    float *input = tensor_alloc(session, mobilenet_input_bytes(shape.batch, shape.side));
    float *output = tensor_alloc(session, mobilenet_output_bytes(shape.batch));
    enum xnn_status status = xnn_status_out_of_memory;
    if (input != NULL && output != NULL) {
        mobilenet_input_fill(input, shape.batch, shape.side, shape.side);
        status = infer(session, shape, input, output);
    }
    if (status == xnn_status_success && digest != NULL) {
        *digest = meter_digest(0, output, mobilenet_output_bytes(shape.batch));
    }
    tensor_free(session, output);
    tensor_free(session, input);
    return status == xnn_status_success;
}

/* Ends the session. No engine function may be called afterwards. */
static bool end(struct session *session)
{
    tensor_free(session, session->weights);
    if (session->heap == NULL) {
        return true;
    }
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    return weir_xnnpack_allocator_fini(&session->allocator) == WEIR_OK &&
           weir_heap_get_stats(session->heap, &stats) == WEIR_OK && stats.live_blocks == 0 && stats.bad_frees == 0 &&
           weir_heap_destroy(session->heap) == WEIR_OK;
}

/* --- the meter --- */

static bool engine_open(void *ctx, enum meter_side side)
{
    struct session *session = ctx;
    *session = (struct session){.net = {.divisor = 1}};
    const bool started = side == METER_WEIR ? start_weir(session) : xnn_initialize(NULL) == xnn_status_success;
    if (!started || !load_weights(session)) {
        (void)fputs("engine_xnnpack: it does not start\n", stderr);
        return false;
    }
    return true;
}

static bool engine_step(void *ctx, size_t step, uint64_t *digest)
{
    struct session *session = ctx;
    if (serve(session, shapes[step], digest)) {
        return true;
    }
    char why[512] = "";
    if (session->heap != NULL) {
        (void)weir_heap_explain(session->heap, why, sizeof(why));
    }
    (void)fprintf(stderr, "engine_xnnpack: request %zu failed. %s\n", step, why);
    return false;
}

static weir_heap *engine_heap(void *ctx)
{
    return ((struct session *)ctx)->heap;
}

static bool engine_close(void *ctx)
{
    return end(ctx);
}

int main(int argc, char **argv)
{
    struct session session;
    const struct meter_engine engine = {
        .name = "XNNPACK, MobileNetV2, batch 1 to 8, 128 to 288 pixels",
        .steps = sizeof(shapes) / sizeof(shapes[0]),
        .ctx = &session,
        .open = engine_open,
        .step = engine_step,
        .heap = engine_heap,
        .close = engine_close,
    };
    return meter_main("engine_xnnpack", &engine, argc, argv);
}
