/* graphs.c: programs whose work is captured into graphs, over one weir pool on ACL, for the recordings of captures in
 * benchmarks/traces.
 *
 *     ascend_graphs decode|sessions [FILE]       FILE: records the pool as a .wtr trace
 *
 *     decode    a server of a language model with 28 layers: it captures its decode step for 35 batch sizes, the
 *               largest first, into one capture pool, and then serves requests: prompts of changing lengths outside of
 *               graphs, a graph for each decode step
 *     sessions  eight models with temporaries of 384 MiB, each captured on a stream of its own into one capture pool;
 *               the graphs run one after the other
 *
 * Prints how many graphs were captured, and the bytes that the capture pool reports. A recorded pool has no front
 * caches, so the figure of a run that is not recorded is the one that `weir replay` predicts.
 */
#include <acl/acl.h>
#include <weir/acl.h>
#include <weir/ascendcl.h>
#include <weir/caching.h>
#include <weir/capture.h>
#include <weir/trace.h>
#include <weir/weir.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum { MOST_GRAPHS = 40, MOST_STREAMS = 8 };

struct program {
    weir_device *device;
    weir_pool *pool;
    weir_capture_pool *captures;
    weir_recorder *recorder; /* NULL: the pool is not recorded */
    aclrtStream native[MOST_STREAMS];
    weir_stream *stream[MOST_STREAMS];
    aclrtEvent event;
    aclmdlRI graphs[MOST_GRAPHS];
    size_t graph_count;
    size_t stream_count;
};

static void must(aclError error, const char *what)
{
    if (error != ACL_SUCCESS) {
        (void)fprintf(stderr, "ascend_graphs: %s: %d, %s\n", what, error, aclGetRecentErrMsg());
        exit(1);
    }
}
#define MUST(call) must(call, #call)

static void must_weir(weir_status status, const char *what)
{
    if (status != WEIR_OK) {
        (void)fprintf(stderr, "ascend_graphs: %s: %s; %s\n", what, weir_status_text(status), weir_last_error());
        exit(1);
    }
}
#define MUST_WEIR(call) must_weir(call, #call)

/* --- memory and work --- */

static weir_block *take(struct program *p, size_t stream, uint64_t bytes)
{
    weir_block *block = NULL;
    MUST_WEIR(weir_pool_alloc(p->pool, p->stream[stream], bytes, 0, &block));
    return block;
}

static void give(struct program *p, size_t stream, weir_block *block)
{
    MUST_WEIR(weir_pool_free(p->pool, block, p->stream[stream]));
}

static weir_ascendcl_range range_of(const weir_block *block, bool writes)
{
    return (weir_ascendcl_range){(const void *)(uintptr_t)weir_block_address(block), weir_block_size(block), writes};
}

/* Queues a kernel that reads `in` and writes `out`. */
static void work(struct program *p, size_t stream, const weir_block *in, const weir_block *out)
{
    const weir_ascendcl_range ranges[] = {range_of(in, false), range_of(out, true)};
    weir_ascendcl_kernel kernel = WEIR_ASCENDCL_KERNEL_INIT;
    kernel.duration_ns = 2000;
    kernel.tag = "kernel";
    kernel.ranges = ranges;
    kernel.range_count = 2;
    MUST(weir_ascendcl_launch(p->native[stream], &kernel));
}

/* Allocates the output of an operator, runs it, and frees its input. */
static weir_block *apply(struct program *p, size_t stream, weir_block *in, uint64_t bytes)
{
    weir_block *out = take(p, stream, bytes);
    work(p, stream, in, out);
    give(p, stream, in);
    return out;
}

static void begin_capture(struct program *p, size_t stream)
{
    MUST_WEIR(weir_capture_begin(p->captures, p->stream[stream]));
    MUST(aclmdlRICaptureBegin(p->native[stream], ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
}

static void end_capture(struct program *p, size_t stream)
{
    MUST(aclmdlRICaptureEnd(p->native[stream], &p->graphs[p->graph_count++]));
    MUST_WEIR(weir_capture_end(p->captures));
}

static void wait_for(struct program *p, size_t stream)
{
    MUST_WEIR(weir_acl_sync_stream(p->pool, p->native[stream]));
}

/* --- decode --- */

enum { HIDDEN = 1536, HEADS_KV = 256, INNER = 8960, WORDS = 151936, LAYERS = 28, HALF = 2 /* bytes of a number */ };

/* The weights of a layer, and its part of the cache of keys and values. */
static const uint64_t layer_bytes[] = {
    (uint64_t)HALF * HIDDEN * (HIDDEN + 2 * HEADS_KV),
    (uint64_t)HALF *HIDDEN *HIDDEN,
    (uint64_t)HALF *HIDDEN *INNER * 2,
    (uint64_t)HALF *HIDDEN *INNER,
    48 * MIB,
};

enum { KEPT = sizeof(layer_bytes) / sizeof(layer_bytes[0]) };

/* Runs the model over `rows` tokens, in a graph or not. Returns the hidden states. */
static weir_block *forward(struct program *p, uint64_t rows)
{
    const uint64_t states = rows * HIDDEN * HALF;
    weir_block *hidden = take(p, 0, states);
    work(p, 0, hidden, hidden);
    for (int layer = 0; layer < LAYERS; layer++) {
        weir_block *normal = take(p, 0, states);
        work(p, 0, hidden, normal);
        weir_block *scratch = take(p, 0, rows * 24 * 1024); /* of the attention */
        weir_block *heads = apply(p, 0, normal, rows * (HIDDEN + 2 * HEADS_KV) * HALF);
        work(p, 0, heads, scratch);
        weir_block *attention = apply(p, 0, heads, states);
        give(p, 0, scratch);
        work(p, 0, attention, hidden);
        weir_block *inner = apply(p, 0, attention, rows * 2 * INNER * HALF);
        inner = apply(p, 0, inner, rows * INNER * HALF);
        inner = apply(p, 0, inner, states);
        work(p, 0, inner, hidden);
        give(p, 0, inner);
    }
    return hidden;
}

static void sample(struct program *p, weir_block *hidden, uint64_t rows, bool keeps)
{
    weir_block *words = take(p, 0, rows * WORDS * 4);
    work(p, 0, hidden, words);
    weir_block *next = take(p, 0, rows * 8);
    work(p, 0, words, next);
    give(p, 0, words);
    give(p, 0, next);
    if (!keeps) {
        give(p, 0, hidden);
    }
}

static void decode(struct program *p)
{
    weir_block *kept[LAYERS * KEPT];
    weir_block *outputs[MOST_GRAPHS]; /* each graph leaves its hidden states for the sampling outside */
    uint64_t rows[MOST_GRAPHS];
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        kept[i] = take(p, 0, layer_bytes[i % KEPT]);
    }
    sample(p, forward(p, 2048), 256, false); /* a first pass, as engines make it to learn their need of memory */
    wait_for(p, 0);
    for (uint64_t batch = 256; batch > 0; batch = batch > 8 ? batch - 8 : batch / 2) {
        rows[p->graph_count] = batch;
        begin_capture(p, 0);
        outputs[p->graph_count] = forward(p, batch);
        end_capture(p, 0);
    }
    uint64_t random = 1;
    for (int step = 0; step < 120; step++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (step % 12 == 0) {
            sample(p, forward(p, 16 + (random >> 33) % 2000), 1, false);
        }
        const size_t graph = (size_t)((random >> 33) % p->graph_count);
        MUST(aclmdlRIExecuteAsync(p->graphs[graph], p->native[0]));
        sample(p, outputs[graph], rows[graph], true);
    }
    wait_for(p, 0);
    for (size_t i = 0; i < p->graph_count; i++) {
        give(p, 0, outputs[i]);
    }
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        give(p, 0, kept[i]);
    }
}

/* --- sessions --- */

static void sessions(struct program *p)
{
    enum { TEMPORARIES = 6, ROUNDS = 4 };
    for (size_t s = 0; s < MOST_STREAMS; s++) {
        weir_block *blocks[TEMPORARIES];
        begin_capture(p, s);
        for (size_t i = 0; i < TEMPORARIES; i++) {
            blocks[i] = take(p, s, 64 * MIB);
            work(p, s, blocks[i > 0 ? i - 1 : 0], blocks[i]);
        }
        for (size_t i = 0; i < TEMPORARIES; i++) {
            give(p, s, blocks[i]);
        }
        end_capture(p, s);
    }
    for (size_t i = 0; i < (size_t)ROUNDS * MOST_STREAMS; i++) {
        const size_t s = i % MOST_STREAMS;
        if (i > 0) { /* after the graph before it, on another stream */
            MUST_WEIR(weir_acl_record_event(p->pool, p->event, p->native[(i - 1) % MOST_STREAMS]));
            MUST_WEIR(weir_acl_wait_event(p->pool, p->native[s], p->event));
        }
        MUST(aclmdlRIExecuteAsync(p->graphs[s], p->native[s]));
        weir_block *input = take(p, s, 4 * MIB); /* the input of the next request */
        give(p, s, apply(p, s, input, 8 * MIB));
    }
}

/* --- both --- */

static void start(struct program *p, const char *name, const char *path)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    char source[64];
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateEvent(&p->event));
    MUST_WEIR(weir_acl_device_create(NULL, &p->device));
    config.device = p->device;
    config.strategy = weir_caching_strategy();
    config.flags = WEIR_POOL_CAPTURES_TOLD;
    MUST_WEIR(weir_pool_create(&config, &p->pool));
    for (size_t s = 0; s < p->stream_count; s++) {
        MUST(aclrtCreateStream(&p->native[s]));
        MUST_WEIR(weir_acl_stream(p->pool, p->native[s], &p->stream[s]));
    }
    MUST_WEIR(weir_capture_pool_create(p->pool, &p->captures));
    if (path != NULL) {
        (void)snprintf(source, sizeof(source), "ascend_graphs %s, on the simulated ACL runtime", name);
        MUST_WEIR(weir_recorder_start_file(p->pool, path, source, &p->recorder));
    }
}

/* Destroys the graphs and everything else. */
static void stop(struct program *p)
{
    for (size_t s = 0; s < p->stream_count; s++) {
        wait_for(p, s);
    }
    for (size_t i = 0; i < p->graph_count; i++) {
        MUST(aclmdlRIDestroy(p->graphs[i]));
    }
    MUST_WEIR(weir_capture_pool_release(p->captures));
    if (p->recorder != NULL) {
        MUST_WEIR(weir_recorder_stop(p->recorder, NULL));
    }
    for (size_t s = 0; s < p->stream_count; s++) {
        MUST_WEIR(weir_stream_retire(p->pool, p->stream[s]));
        MUST(aclrtDestroyStream(p->native[s]));
    }
    MUST_WEIR(weir_acl_destroy_event(p->pool, p->event));
    MUST_WEIR(weir_pool_destroy(p->pool));
    MUST_WEIR(weir_device_destroy(p->device));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}

int main(int argc, char **argv)
{
    const bool decodes = argc > 1 && strcmp(argv[1], "decode") == 0;
    if (argc < 2 || argc > 3 || (!decodes && strcmp(argv[1], "sessions") != 0)) {
        (void)fputs("usage: ascend_graphs decode|sessions [FILE]\n", stderr);
        return 2;
    }
    struct program p = {.stream_count = decodes ? 1 : MOST_STREAMS};
    weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
    start(&p, argv[1], argc > 2 ? argv[2] : NULL);
    if (decodes) {
        decode(&p);
    } else {
        sessions(&p);
    }
    MUST_WEIR(weir_capture_get_stats(p.captures, &stats));
    stop(&p);
    (void)printf("%s: %" PRIu64 " graphs, %" PRIu64 " bytes\n", argv[1], stats.captures,
                 stats.live_bytes + stats.free_bytes);
    return 0;
}
