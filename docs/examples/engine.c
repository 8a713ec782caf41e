/* engine.c: a small inference engine that takes an allocator, run with malloc or with weir.
 *
 *     engine malloc
 *     engine weir [LIMIT_MIB [TRACE.wtr]]      0 = no limit
 *
 * The engine stands for an existing engine: its tensors change their size with each request, it frees a block by its
 * address alone, and it reports an error when the allocator returns NULL. The binding is the part that a user of weir
 * writes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/heap.h>

/* --- the engine --- */

struct engine_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void *(*alloc_weights)(void *ctx, size_t size); /* freed when the engine ends */
    void (*free)(void *ctx, void *block);
};

enum { layers = 12, channels_most = 96 };

static const size_t channels[layers + 1] = {3, 16, 16, 24, 24, 32, 32, 64, 64, 96, 96, 64, 16};

/* Computes each value from a value of the previous layer. Every other layer takes a workspace. */
static uint32_t *run_layer(const struct engine_allocator *a, size_t layer, const uint32_t *weights, const uint32_t *in,
                           size_t pixels)
{
    size_t from = channels[layer], to = channels[layer + 1];
    uint32_t *out = a->alloc(a->ctx, pixels * to * sizeof(*out));
    uint32_t *work = layer % 2 == 0 ? a->alloc(a->ctx, pixels * from * sizeof(*work)) : NULL;
    if (out == NULL || (work == NULL && layer % 2 == 0)) {
        a->free(a->ctx, out);
        a->free(a->ctx, work);
        return NULL;
    }
    if (work != NULL) memcpy(work, in, pixels * from * sizeof(*work));
    for (size_t pixel = 0; pixel < pixels; pixel++) {
        const uint32_t *value = (work != NULL ? work : in) + pixel * from;
        for (size_t c = 0, k = 0; c < to; c++, k = k + 1 < from ? k + 1 : 0) {
            out[pixel * to + c] = value[k] * weights[layer * channels_most + c] + (uint32_t)c;
        }
    }
    a->free(a->ctx, work);
    return out;
}

/* Serves one request: a batch of square images. Returns false, with all its tensors freed, if memory runs out. */
static bool infer(const struct engine_allocator *a, const uint32_t *weights, size_t batch, size_t side, uint32_t *sum)
{
    size_t pixels = batch * side * side;
    uint32_t *now = a->alloc(a->ctx, pixels * channels[0] * sizeof(*now));
    for (size_t i = 0; now != NULL && i < pixels * channels[0]; i++) now[i] = (uint32_t)i;
    for (size_t layer = 0; now != NULL && layer < layers; layer++) {
        uint32_t *next = run_layer(a, layer, weights, now, pixels);
        a->free(a->ctx, now);
        now = next;
    }
    for (size_t i = 0; now != NULL && i < pixels; i++) *sum = *sum * 31 + now[i * channels[layers]];
    a->free(a->ctx, now);
    return now != NULL;
}

static int serve(const struct engine_allocator *a)
{
    static const size_t requests[][2] = {{1, 224}, {4, 96},  {2, 160}, {8, 64},  {1, 192}, {3, 112},
                                         {1, 64},  {4, 128}, {2, 96},  {6, 112}, {1, 160}, {3, 144}};
    uint32_t sum = 0;
    int failed = 0;
    uint32_t *weights = a->alloc_weights(a->ctx, sizeof(*weights) * layers * channels_most);
    if (weights == NULL) return 1;
    for (int i = 0; i < layers * channels_most; i++) weights[i] = (uint32_t)(2 * i + 1);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (!infer(a, weights, requests[i][0], requests[i][1], &sum)) failed++;
    }
    a->free(a->ctx, weights);
    printf("%d requests served, %d out of memory, answer %08" PRIx32 "\n", 12 - failed, failed, sum);
    return 0;
}

/* --- the allocator with malloc --- */

static void *with_malloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void with_free(void *ctx, void *block)
{
    (void)ctx;
    free(block);
}

/* --- the allocator with weir: the binding --- */

static void *from_heap(void *heap, size_t size)
{
    return weir_heap_alloc(heap, size);
}

static void *weights_from_heap(void *heap, size_t size)
{
    return weir_heap_alloc_long_lived(heap, size, 0);
}

static void to_heap(void *heap, void *block)
{
    if (weir_heap_free(heap, block) != WEIR_OK) fprintf(stderr, "engine: freed what was not allocated\n");
}

static void check(weir_status status)
{
    if (status == WEIR_OK) return;
    fprintf(stderr, "engine: %s\n", weir_status_text(status));
    exit(1);
}

static int serve_with_weir(uint64_t limit_bytes, const char *trace)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    config.limit_bytes = limit_bytes;
    config.name = "engine";
    weir_heap *heap;
    check(weir_heap_create(&config, &heap));
    struct engine_allocator allocator = {heap, from_heap, weights_from_heap, to_heap};
    weir_recorder *recorder = NULL;
    if (trace != NULL) {
        check(weir_recorder_create_file(trace, "engine", &recorder));
        check(weir_heap_record(heap, recorder));
    }

    int status = serve(&allocator);

    if (trace != NULL) {
        check(weir_heap_record(heap, NULL));
        check(weir_recorder_stop(recorder, NULL));
    }
    char why[1024];
    if (weir_heap_explain(heap, why, sizeof(why)) > 0) fputs(why, stdout);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    check(weir_heap_get_stats(heap, &stats));
    printf("%d blocks, at most %.1f MiB live, %.1f MiB held\n", (int)stats.allocs,
           (double)stats.peak_live_bytes / (1 << 20), (double)stats.peak_held_bytes / (1 << 20));
    check(weir_heap_destroy(heap));
    return status;
}

int main(int argc, char **argv)
{
    const struct engine_allocator libc = {NULL, with_malloc, with_malloc, with_free};
    if (argc > 1 && strcmp(argv[1], "weir") == 0) {
        return serve_with_weir(argc > 2 ? strtoull(argv[2], NULL, 10) << 20 : 0, argc > 3 ? argv[3] : NULL);
    }
    return serve(&libc);
}
