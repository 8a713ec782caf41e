/* trace_shared_test.c: recorded traces of real programs, if WEIR_TRACES_DIR has them. Every `.wtr` file is read and
 * survives a round trip. Every PyTorch snapshot gives the same events as the conversion that lies beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trace.h"

static struct trace *read_file(const char *path)
{
    struct trace *trace = NULL;
    struct trace_error error;
    if (trace_read(path, NULL, &trace, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return trace;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static const char *tag_text(const struct trace *trace, const weir_trace_event *event)
{
    return event->tag != WEIR_TRACE_NONE ? trace->tags[event->tag] : NULL;
}

/* The conversions have the tag of Python frames only, without the line: FILE:FUNCTION where the import has
 * FILE:FUNCTION:LINE. */
static bool is_tag_of(const char *imported, const char *converted)
{
    const size_t length = converted != NULL ? strlen(converted) : 0;
    return same_text(imported, converted) || converted == NULL ||
           (imported != NULL && strncmp(imported, converted, length) == 0 && imported[length] == ':');
}

static bool same_but_time(const struct trace *a, const struct trace_event *x, const struct trace *b,
                          const struct trace_event *y)
{
    const weir_trace_event *p = &x->event;
    const weir_trace_event *q = &y->event;
    return p->kind == q->kind && p->mode == q->mode && p->device == q->device && p->stream == q->stream &&
           p->thread == q->thread && p->pool == q->pool && p->id == q->id && p->old_id == q->old_id &&
           p->size == q->size && p->extra == q->extra && p->address == q->address && same_text(p->name, q->name) &&
           is_tag_of(tag_text(a, p), tag_text(b, q)) && x->index == y->index && x->old_index == y->old_index;
}

/* --- every .wtr file --- */

static void round_trip(const char *path)
{
    struct trace *trace = read_file(path);
    struct trace *again = NULL;
    struct trace_error error;
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(trace_write_memory(trace, &text, &size, &error), WEIR_OK);
    if (trace_read_memory(path, text, size, NULL, &again, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(trace->event_count > 0);
    assert_int_equal(trace->event_count, again->event_count);
    for (size_t i = 0; i < trace->event_count; i++) {
        if (!same_but_time(trace, &trace->events[i], again, &again->events[i]) ||
            !same_text(tag_text(trace, &trace->events[i].event), tag_text(again, &again->events[i].event)) ||
            trace->events[i].event.time_ns != again->events[i].event.time_ns) {
            fail_msg("%s: event %zu changed", path, i);
        }
    }
    assert_int_equal(trace->block_count, again->block_count);
    assert_int_equal(trace->pad_bytes, again->pad_bytes);
    trace_free(again);
    trace_free(trace);
    free(text);
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name);
    return length >= strlen(suffix) && strcmp(name + length - strlen(suffix), suffix) == 0;
}

static unsigned round_trip_folder(const char *folder)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[4096];
        if (ends_with(entry->d_name, ".wtr.xz")) {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            round_trip(path);
            count++;
        }
    }
    closedir(directory);
    return count;
}

static void test_bundled(void **state)
{
    (void)state;
    assert_true(round_trip_folder(WEIR_BUNDLED_TRACES_DIR) > 0);
}

static void test_every_wtr(void **state)
{
    (void)state;
    static const char *const folders[] = {"pytorch", "kineto", "ascend", "planning", "serving", "ncnn", "engine"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", WEIR_TRACES_DIR, folders[i]);
        if (round_trip_folder(path) == 0) {
            print_message("skipped: %s has no .wtr.xz files\n", path);
        }
    }
}

/* --- snapshots --- */

struct window {
    const char *stem;
    unsigned allocs;
    unsigned frees;
    unsigned priors;
    int pad;
};

static const struct window windows[] = {
    {"tiny_silmont_36allocs", 36, 26, 0, 0},
    {"infer_gpt_small_bf16_ctx128", 937, 937, 137, 0},
    {"infer_gpt_medium_ctx1024", 1280, 1280, 223, 0},
    {"train_gpt_medium_ctx128", 6526, 6305, 664, 0},
    {"train_gpt_bcrafton", 2162, 2162, 447, 0},
    {"train_gpt_charan", 3221, 3220, 113, 0},
    {"federated_opt_decomfl", 7946, 7549, 0, 0},
    {"npu_resnet_full", 3216, 3216, 0, 32},
    {"npu_resnet_expandable_empty_cache", 2899, 2574, 320, 32},
};

/* Returns NULL after printing the reason. */
static struct trace *read_in(const char *folder, const char *stem, const char *suffix)
{
    char path[4096];
    struct stat facts;
    snprintf(path, sizeof(path), "%s/%s/%s%s", WEIR_TRACES_DIR, folder, stem, suffix);
    if (stat(path, &facts) != 0) {
        print_message("skipped: %s is not there\n", path);
        return NULL;
    }
    return read_file(path);
}

static struct trace *read_shared(const char *stem, const char *suffix)
{
    return read_in("pytorch", stem, suffix);
}

static unsigned count_kind(const struct trace *trace, weir_trace_kind kind)
{
    unsigned count = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        count += trace->events[i].event.kind == kind;
    }
    return count;
}

/* The conversions lack the memory that is mapped at the start of the window; all other events are in both. */
static bool compared(const struct trace_event *entry)
{
    weir_trace_kind kind = entry->event.kind;
    return kind == WEIR_TRACE_PRIOR || kind == WEIR_TRACE_ALLOC || kind == WEIR_TRACE_FREE ||
           kind == WEIR_TRACE_SEGMENT;
}

static void compare(const struct window *window, const struct trace *imported, const struct trace *converted)
{
    size_t i = 0;
    size_t j = 0;
    for (;;) {
        while (i < imported->event_count && !compared(&imported->events[i])) {
            i++;
        }
        while (j < converted->event_count && !compared(&converted->events[j])) {
            j++;
        }
        if (i == imported->event_count || j == converted->event_count) {
            break;
        }
        if (!same_but_time(imported, &imported->events[i], converted, &converted->events[j])) {
            fail_msg("%s: event %zu of the snapshot is not event %zu of the conversion", window->stem, i, j);
        }
        i++;
        j++;
    }
    assert_true(i == imported->event_count && j == converted->event_count);
}

static void test_snapshots(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof(windows) / sizeof(*windows); w++) {
        const struct window *window = &windows[w];
        struct trace *imported = read_shared(window->stem, ".pickle.xz");
        struct trace *converted = read_shared(window->stem, ".wtr.xz");
        if (imported != NULL) {
            assert_int_equal(count_kind(imported, WEIR_TRACE_ALLOC), window->allocs);
            assert_int_equal(count_kind(imported, WEIR_TRACE_FREE), window->frees);
            assert_int_equal(count_kind(imported, WEIR_TRACE_PRIOR), window->priors);
            assert_int_equal(imported->pad_bytes, window->pad);
            assert_true(imported->has_addresses);
            assert_null(imported->recorded_note);
            assert_int_equal(imported->note_count, 0);
        }
        if (imported != NULL && converted != NULL) {
            compare(window, imported, converted);
        }
        trace_free(imported);
        trace_free(converted);
    }
}

/* 108 MiB are mapped before the first event, 468 MiB after the last one, 614 MiB at most. */
static void test_expandable(void **state)
{
    (void)state;
    struct trace *trace = read_shared("npu_resnet_expandable_empty_cache", ".pickle.xz");
    if (trace == NULL) {
        return;
    }
    uint64_t mapped = 0;
    uint64_t peak = 0;
    uint64_t start = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if (event->kind == WEIR_TRACE_PRIOR && start == 0) {
            start = mapped;
        }
        if (event->kind == WEIR_TRACE_MAPPING) {
            mapped = event->mode == '+' ? mapped + event->size : mapped - event->size;
        }
        peak = mapped > peak ? mapped : peak;
    }
    assert_true(trace->expandable);
    assert_int_equal(start >> 20, 108);
    assert_int_equal(mapped >> 20, 468);
    assert_int_equal(peak >> 20, 614);
    trace_free(trace);
}

/* Final maps without a history: reserved and live bytes. */
static void test_maps(void **state)
{
    (void)state;
    static const struct {
        const char *stem;
        unsigned segments;
        uint64_t reserved_mib;
        uint64_t live_tenths; /* in tenths of a MiB: allocated, or waiting for another stream */
    } maps[] = {
        {"state_verl_rlhf_3pools", 127, 24976, 243315},
        {"state_opt1.3b_oom", 176, 11296, 112917},
        {"state_sketchkv_16GB", 259, 16340, 156379},
    };
    for (size_t m = 0; m < sizeof(maps) / sizeof(*maps); m++) {
        struct trace *trace = read_shared(maps[m].stem, ".pickle.xz");
        if (trace == NULL) {
            continue;
        }
        uint64_t reserved = 0;
        uint64_t live = 0;
        for (size_t i = 0; i < trace->event_count; i++) {
            const weir_trace_event *event = &trace->events[i].event;
            reserved += event->kind == WEIR_TRACE_SEGMENT ? event->size : 0;
            live += event->kind == WEIR_TRACE_PRIOR ? event->size : 0;
        }
        assert_int_equal(count_kind(trace, WEIR_TRACE_SEGMENT), maps[m].segments);
        assert_int_equal(reserved >> 20, maps[m].reserved_mib);
        assert_int_equal((live * 10 + (1 << 19)) >> 20, maps[m].live_tenths);
        assert_null(trace->recorded_note);
        trace_free(trace);
    }
}

/* --- a profile --- */

/* Returns the next allocation or free from *i on, or NULL. */
static const weir_trace_event *next_of_memory(const struct trace *trace, size_t *i)
{
    while (*i < trace->event_count) {
        const weir_trace_event *event = &trace->events[(*i)++].event;
        if (event->kind == WEIR_TRACE_ALLOC || event->kind == WEIR_TRACE_FREE) {
            return event;
        }
    }
    return NULL;
}

static uint64_t sum_of_work(const struct trace *trace)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        sum += trace->events[i].event.kind == WEIR_TRACE_WORK ? trace->events[i].event.size : 0;
    }
    return sum;
}

/* A profile of torch.profiler and its conversion, which another program made, have the same blocks at the same times
 * and the same work on two streams. Only the import has the memory from before the recording, as block 0. */
static void test_kineto(void **state)
{
    (void)state;
    struct trace *imported = read_in("kineto", "hta_resnet_ddp_v100_rank1", ".json.gz");
    struct trace *converted = read_in("kineto", "hta_resnet_ddp", ".wtr.xz");
    if (imported != NULL && converted != NULL) {
        size_t i = 0;
        size_t j = 0;
        uint64_t shift = 0;
        assert_int_equal(imported->events[0].event.kind, WEIR_TRACE_PRIOR);
        assert_int_equal(imported->events[0].event.size, 4096614400);
        const weir_trace_event *a;
        while ((a = next_of_memory(imported, &i)) != NULL) {
            const weir_trace_event *b = next_of_memory(converted, &j);
            shift = shift == 0 ? a->time_ns - b->time_ns : shift;
            if (b == NULL || a->kind != b->kind || a->size != b->size || a->address != b->address ||
                a->id != b->id + 1 || a->time_ns - b->time_ns != shift) {
                fail_msg("event %zu of the profile is not event %zu of the conversion", i - 1, j - 1);
            }
        }
        assert_null(next_of_memory(converted, &j));
        assert_int_equal(count_kind(imported, WEIR_TRACE_ALLOC), 13385);
        assert_int_equal(count_kind(imported, WEIR_TRACE_WORK), 22290);
        assert_int_equal(count_kind(converted, WEIR_TRACE_WORK), 22290);
        assert_int_equal(sum_of_work(imported), sum_of_work(converted));
        assert_int_equal(imported->stream_count, 2);
        assert_int_equal(imported->device, 1);
    }
    trace_free(imported);
    trace_free(converted);
}

int main(void)
{
    const struct CMUnitTest bundled[] = {cmocka_unit_test(test_bundled)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_wtr), cmocka_unit_test(test_snapshots), cmocka_unit_test(test_expandable),
        cmocka_unit_test(test_maps),      cmocka_unit_test(test_kineto),
    };
    struct stat facts;
    int failed = cmocka_run_group_tests(bundled, NULL, NULL);
    if (stat(WEIR_TRACES_DIR, &facts) != 0) {
        printf("skipped: the folder of recorded traces %s (WEIR_TRACES_DIR) is not there\n", WEIR_TRACES_DIR);
        return failed != 0 ? failed : 77;
    }
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
