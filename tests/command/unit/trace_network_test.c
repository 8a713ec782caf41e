/* trace_network_test.c: compares the networks of ncnn with the shapes in their files and with recordings: every
 * allocation and every free of five networks for 160 images, in order.
 */
#include "rig/test.h"
#include "network.h"
#include "trace.h"

#include <stdio.h>

static const char *const NETWORKS[] = {"resnet50", "mobilenet_v2", "googlenet", "squeezenet", "yolo-fastest-1.1"};

static acl__network *read_shared(const char *name)
{
    char path[1024];
    acl__network *network = NULL;
    acl__model_error error;
    snprintf(path, sizeof(path), WEIR_TRACES_DIR "/ncnn/%s", name);
    weir_status status = acl__network_read(path, &network, &error);
    if (status == WEIR_ERR_DEVICE) {
        printf("skipped: %s\n", error.text);
        exit(77);
    }
    if (status != WEIR_OK) {
        fail_msg("%s", error.text);
    }
    return network;
}

/* False for a blob that depends on the number of detections, which is known only after a run: the hint in the file has
 * the number of one run. */
static bool comparable(const acl__network *n, uint32_t blob)
{
    return n->blobs[blob].hint.rank > 0 && n->layers[n->blobs[blob].producer].kind != ACL__LAYER_YOLO_DETECTION;
}

TEST(shapes_are_those_of_the_hints)
{
    uint32_t compared = 0;
    for (size_t i = 0; i < sizeof(NETWORKS) / sizeof(NETWORKS[0]); i++) {
        char file[64];
        acl__model_error error;
        snprintf(file, sizeof(file), "%s.param", NETWORKS[i]);
        acl__network *n = read_shared(file);
        acl__shape *shapes = calloc(n->blob_count, sizeof(*shapes));
        assert_non_null(shapes);
        if (acl__network_shapes(n, NULL, shapes, &error) != WEIR_OK) {
            fail_msg("%s", error.text);
        }
        for (uint32_t b = 0; b < n->blob_count; b++) {
            const acl__shape *hint = &n->blobs[b].hint, *got = &shapes[b];
            if (comparable(n, b)) {
                /* In a hint a missing dimension is 1, and the output of a global pooling has rank 3. */
                if (hint->w != got->w || hint->h != got->h || hint->c != got->c || hint->rank != got->rank) {
                    fail_msg("%s: %s: rank %u %u, %llu x %llu x %llu", NETWORKS[i], n->blobs[b].name, hint->rank,
                             got->rank, (unsigned long long)got->w, (unsigned long long)got->h,
                             (unsigned long long)got->c);
                }
                compared++;
            }
        }
        free(shapes);
        acl__network_free(n);
    }
    printf("%u shapes compared\n", compared);
    assert_true(compared > 440);
}

/* --- recorded traffic --- */

/* Compares the events of a trace with an execution. */
struct follower {
    const struct trace *trace;
    const char *network;
    size_t next;
    uint64_t run;
    uint64_t allocs, frees;
};

static const weir_trace_event *next_event(struct follower *f)
{
    assert_true(f->next < f->trace->event_count);
    return &f->trace->events[f->next++].event;
}

/* The next event must be an allocation of this size. Returns its block. */
static uint64_t expect_alloc(struct follower *f, const char *what, uint64_t size)
{
    const weir_trace_event *event = next_event(f);
    if (event->kind != WEIR_TRACE_ALLOC || event->size != size) {
        fail_msg("%s, run %llu, event %zu: %s wants %llu bytes, the record has kind %d, %llu", f->network,
                 (unsigned long long)f->run, f->next - 1, what, (unsigned long long)size, (int)event->kind,
                 (unsigned long long)event->size);
    }
    f->allocs++;
    return event->id;
}

static void expect_free(struct follower *f, const char *what, uint64_t id)
{
    const weir_trace_event *event = next_event(f);
    if (event->kind != WEIR_TRACE_FREE || event->id != id) {
        fail_msg("%s, run %llu, event %zu: %s ends block %llu, the record has kind %d, block %llu", f->network,
                 (unsigned long long)f->run, f->next - 1, what, (unsigned long long)id, (int)event->kind,
                 (unsigned long long)event->id);
    }
    f->frees++;
}

/* Compares one inference. The runtime allocates the border, then each layer's outputs, then frees the blobs that no
 * later layer reads. The recorded program also allocated the input and freed the output at the end. */
static void follow_run(struct follower *f, const acl__network *n, const acl__plan *plan, const acl__shape *shapes,
                       uint64_t *blocks)
{
    for (uint32_t l = 0; l < n->layer_count; l++) {
        const acl__layer *layer = &n->layers[l];
        uint64_t border = 0;
        acl__shape wide = {0};
        if (layer->bottom_count > 0) {
            wide = acl__layer_bordered(n, layer, &shapes[acl__layer_bottom(n, layer, 0)]);
        }
        if (wide.rank > 0) {
            border = expect_alloc(f, layer->name, acl__shape_bytes(&wide));
        }
        for (uint32_t i = 0; i < layer->top_count; i++) {
            uint32_t blob = acl__layer_top(n, layer, i), s = plan->storage_of[blob];
            uint64_t bytes = acl__shape_bytes(&shapes[blob]);
            if (layer->kind == ACL__LAYER_YOLO_DETECTION) {
                assert_true(bytes >= 2404);
                bytes = 2404; /* the recorded program allocated memory for 100 boxes */
            }
            if (plan->storages[s].born == l) {
                blocks[s] = expect_alloc(f, layer->name, bytes);
            }
        }
        if (wide.rank > 0) {
            expect_free(f, layer->name, border);
        }
        for (uint32_t i = 0; i < layer->bottom_count; i++) {
            uint32_t s = plan->storage_of[acl__layer_bottom(n, layer, i)];
            if (plan->storages[s].last == l && plan->storages[s].kind != ACL__STORAGE_OUTPUT) {
                expect_free(f, layer->name, blocks[s]);
            }
        }
    }
    for (uint32_t i = 0; i < n->output_count; i++) {
        expect_free(f, "the end", blocks[plan->storage_of[n->outputs[i]]]);
    }
}

static void follow(const char *name, const acl__network *n, const struct trace *trace)
{
    acl__plan *plan = acl__plan_create(n);
    acl__shape *shapes = calloc(n->blob_count, sizeof(*shapes));
    uint64_t *blocks = calloc(n->blob_count, sizeof(*blocks));
    acl__model_error error;
    struct follower f = {.trace = trace, .network = name};
    assert_true(plan != NULL && shapes != NULL && blocks != NULL);
    while (f.next < trace->event_count) {
        const weir_trace_event *begin = next_event(&f);
        unsigned long long run, w, h;
        assert_true(begin->kind == WEIR_TRACE_MARK && begin->mode == 'B');
        assert_int_equal(sscanf(begin->name, "infer%llu:%llux%llu", &run, &w, &h), 3);
        assert_int_equal(run, f.run);
        if (acl__network_shapes(n, &(acl__shape){3, w, h, 1, 3}, shapes, &error) != WEIR_OK) {
            fail_msg("%s", error.text);
        }
        follow_run(&f, n, plan, shapes, blocks);
        const weir_trace_event *end = next_event(&f);
        assert_true(end->kind == WEIR_TRACE_MARK && end->mode == 'E');
        f.run++;
    }
    printf("%s: %llu inferences, %llu allocations\n", name, (unsigned long long)f.run, (unsigned long long)f.allocs);
    assert_int_equal(f.run, 160);
    assert_int_equal(f.allocs, f.frees);
    free(shapes);
    free(blocks);
    acl__plan_free(plan);
}

TEST(traffic_is_what_was_recorded)
{
    for (size_t i = 0; i < sizeof(NETWORKS) / sizeof(NETWORKS[0]); i++) {
        char file[64], path[1024];
        struct trace *trace = NULL;
        struct trace_error error;
        snprintf(file, sizeof(file), "%s.param", NETWORKS[i]);
        snprintf(path, sizeof(path), WEIR_TRACES_DIR "/ncnn/derived_ncnn_%s.wtr.xz", NETWORKS[i]);
        acl__network *n = read_shared(file);
        weir_status status = trace_read(path, NULL, &trace, &error);
        if (status == WEIR_ERR_DEVICE) {
            printf("skipped: %s\n", error.message);
            exit(77);
        }
        if (status != WEIR_OK) {
            fail_msg("%s", error.message);
        }
        follow(NETWORKS[i], n, trace);
        trace_free(trace);
        acl__network_free(n);
    }
}

/* --- a decoder --- */

/* Decodes one token after `before` earlier tokens: keys and values grow by one entry. */
TEST(a_decoder_grows_its_cache)
{
    acl__network *n = read_shared("qwen3_0.6b_decoder.ncnn.param");
    acl__shape *inputs = calloc(n->input_count, sizeof(*inputs)), *shapes = calloc(n->blob_count, sizeof(*shapes));
    acl__model_error error;
    acl__plan *plan = acl__plan_create(n);
    assert_true(inputs != NULL && shapes != NULL && plan != NULL);
    assert_int_equal(n->input_count, 60);
    assert_int_equal(n->output_count, 57);
    for (uint64_t before = 1; before < 2000; before += 499) {
        inputs[0] = (acl__shape){2, 1024, 1, 1, 1};           /* embedding */
        inputs[1] = (acl__shape){2, before + 1, 1, 1, 1};     /* mask */
        inputs[2] = inputs[3] = (acl__shape){2, 64, 1, 1, 1}; /* rotary tables */
        for (uint32_t i = 4; i < 60; i++) {
            inputs[i] = (acl__shape){3, 128, before, 1, 16};
        }
        if (acl__network_shapes(n, inputs, shapes, &error) != WEIR_OK) {
            fail_msg("%s", error.text);
        }
        uint32_t caches = 0;
        uint64_t parameters = 0;
        for (uint32_t i = 0; i < n->output_count; i++) {
            const acl__shape *s = &shapes[n->outputs[i]];
            if (acl__shape_equal(s, &(acl__shape){3, 128, before + 1, 1, 16})) {
                assert_int_equal(acl__shape_bytes(s), (128 * (before + 1) * 4) * 16 + 4);
                caches++;
            }
        }
        assert_int_equal(caches, 56);
        for (uint32_t l = 0; l < n->layer_count; l++) {
            parameters += acl__layer_cost(n, &n->layers[l], shapes).parameters;
        }
        /* Qwen3-0.6B has 0.44 G parameters besides its embedding. */
        assert_in_range(parameters, 435000000, 445000000);
    }
    free(inputs);
    free(shapes);
    acl__plan_free(plan);
    acl__network_free(n);
    n = read_shared("qwen3_0.6b_proj_out.ncnn.param");
    acl__network_free(n);
}
