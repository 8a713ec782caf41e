/* tests/command/unit/trace_heap_test.c: recorded traffic of inference engines through a heap of ordinary memory: it
 * holds at most 1.02 to 1.15 times the peak of requested live bytes, in every round, and at the end no block is
 * live. */
#include "rig/test.h"

#include <weir/heap.h>

#include "trace/trace.h"

#include <stdio.h>

enum { ROUNDS = 2 };

struct player {
    weir_heap *heap;
    const struct trace *trace;
    unsigned char **blocks;
    uint64_t *sizes;
    uint64_t live;
    uint64_t peak;
};

static void put(struct player *p, uint32_t index, uint64_t size)
{
    unsigned char *block = weir_heap_alloc(p->heap, size);
    assert_non_null(block);
    block[0] = (unsigned char)index;
    block[size - 1] = (unsigned char)index;
    p->blocks[index] = block;
    p->sizes[index] = size;
    p->live += size;
    p->peak = p->live > p->peak ? p->live : p->peak;
}

static void take(struct player *p, uint32_t index)
{
    const unsigned char *block = p->blocks[index];
    assert_int_equal(block[0], (unsigned char)index);
    assert_int_equal(block[p->sizes[index] - 1], (unsigned char)index);
    assert_int_equal(weir_heap_free(p->heap, p->blocks[index]), WEIR_OK);
    p->blocks[index] = NULL;
    p->live -= p->sizes[index];
}

static void play(struct player *p)
{
    for (size_t i = 0; i < p->trace->event_count; i++) {
        const struct trace_event *event = &p->trace->events[i];
        if (event->event.kind == WEIR_TRACE_ALLOC || event->event.kind == WEIR_TRACE_PRIOR) {
            put(p, event->index, event->event.size);
        } else if (event->event.kind == WEIR_TRACE_FREE) {
            take(p, event->index);
        }
    }
    for (uint32_t i = 0; i < p->trace->block_count; i++) {
        if (p->blocks[i] != NULL) {
            take(p, i);
        }
    }
}

/* `most`: thousandths of the peak of live bytes that may be held. */
static void play_file(const char *name, uint64_t most)
{
    char path[512];
    struct trace *trace = NULL;
    struct trace_error error;
    (void)snprintf(path, sizeof(path), "%s/%s.wtr.xz", WEIR_BUNDLED_TRACES_DIR, name);
    if (trace_read(path, NULL, &trace, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    struct player p = {.trace = trace};
    p.blocks = calloc(trace->block_count, sizeof(*p.blocks));
    p.sizes = calloc(trace->block_count, sizeof(*p.sizes));
    assert_true(p.blocks != NULL && p.sizes != NULL);
    assert_int_equal(weir_heap_create(NULL, &p.heap), WEIR_OK);
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    for (int round = 0; round < ROUNDS; round++) {
        play(&p);
        const char *why = "no statistics";
        assert_int_equal(weir_heap_check(p.heap, &why), WEIR_OK);
        assert_int_equal(weir_heap_get_stats(p.heap, &stats), WEIR_OK);
        assert_int_equal(stats.live_bytes, 0);
        assert_true(stats.peak_live_bytes >= p.peak);
        print_message("%-30s live %.1f MiB, held %.3f of that\n", name, (double)p.peak / 0x1p20,
                      (double)stats.peak_held_bytes / (double)p.peak);
        assert_true(stats.peak_held_bytes <= p.peak / 1000 * most);
    }
    assert_int_equal(weir_heap_destroy(p.heap), WEIR_OK);
    free(p.blocks);
    free(p.sizes);
    trace_free(trace);
}

TEST(test_holds_little_more_than_lives)
{
    /* The measured values plus 1 %. */
    static const struct {
        const char *name;
        uint64_t most;
    } traces[] = {
        {"ort_mobilenetv2_dyn_batch_res", 1065},
        {"ort_mobilenetv2_dyn_nopattern", 1066},
        {"ort_unet_dyn_res", 1031},
        {"ort_resnet18_dyn_weights", 1052},
        {"ort_bert6_dyn_seq", 1060},
        {"ort_bert6_conc2threads", 1064},
        {"ort_gpt6_kvcache_decode", 1069},
        {"xnnpack_mobilenetv2_dyn", 1069},
        {"opencv_mobilenetv2_dyn", 1068},
        {"opencv_unet_dyn", 1061},
        {"llama_ctx_dyn", 1011},
    };
    for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
        play_file(traces[i].name, traces[i].most);
    }
}
