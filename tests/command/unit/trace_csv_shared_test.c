/* trace_csv_shared_test.c: CSV files of the programs that define the formats, if WEIR_TRACES_DIR has them. A file with
 * a conversion beside it gives the blocks of the conversion. For the other files the expected facts were counted by
 * other means. */
#include "rig/test.h"

#include "trace.h"

#include <stdio.h>
#include <sys/stat.h>

struct facts {
    uint64_t allocs;
    uint64_t frees;
    uint64_t bytes;
    uint64_t before; /* bytes that were live before the recording */
    uint64_t peak;
    uint64_t counters;
    uint32_t streams;
};

static struct trace *read_shared(const char *name)
{
    char path[512];
    struct stat facts;
    struct trace *trace = NULL;
    struct trace_error error;
    snprintf(path, sizeof(path), "%s/%s", WEIR_TRACES_DIR, name);
    if (stat(path, &facts) != 0) {
        print_message("skipped: there is no %s\n", path);
        skip();
    }
    if (trace_read(path, NULL, &trace, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return trace;
}

static struct facts gather(const char *name)
{
    struct trace *trace = read_shared(name);
    struct facts facts = {.streams = trace->stream_count};
    uint64_t live = 0;
    uint64_t *sizes = calloc((size_t)trace->block_count + 1, sizeof(*sizes));
    assert_non_null(sizes);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *entry = &trace->events[i];
        if (entry->event.kind == WEIR_TRACE_ALLOC) {
            facts.allocs++;
            facts.bytes += entry->event.size;
            sizes[entry->index] = entry->event.size;
            live += entry->event.size;
        } else if (entry->event.kind == WEIR_TRACE_PRIOR) {
            facts.before += entry->event.size;
        } else if (entry->event.kind == WEIR_TRACE_FREE) {
            facts.frees++;
            live -= sizes[entry->index];
        }
        facts.counters += entry->event.kind == WEIR_TRACE_COUNTERS;
        facts.peak = live > facts.peak ? live : facts.peak;
    }
    free(sizes);
    trace_free(trace);
    return facts;
}

/* The conversions lack the memory from before the recording: of its bytes, in small_rank0, three parts are freed. */
TEST(test_conversions)
{
    static const struct {
        const char *imported;
        const char *converted;
        uint64_t before;
        size_t parts_freed;
    } pairs[] = {
        {"ascend/small_rank0_operator_memory.csv", "ascend/ascend_small_rank0.wtr.xz", 981461504, 3},
        {"ascend/llm_train_rank_0_operator_memory.csv.xz", "ascend/ascend_llm_train_rank_0.wtr.xz", 4514074624, 0},
        {"planning/A.1048576.csv", "planning/minimalloc_A.1048576.wtr.xz", 0, 0},
        {"planning/somas_tensors_resnet50.csv", "planning/somas_tensors_resnet50.wtr.xz", 0, 0},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        const struct facts found = gather(pairs[i].imported);
        const struct facts expected = gather(pairs[i].converted);
        print_message("%s\n", pairs[i].imported);
        assert_true(found.allocs > 100);
        assert_int_equal(found.allocs, expected.allocs);
        assert_int_equal(found.before, pairs[i].before);
        assert_int_equal(found.frees, expected.frees + pairs[i].parts_freed);
        assert_int_equal(found.bytes, expected.bytes);
        assert_int_equal(found.peak, expected.peak);
        assert_int_equal(found.streams, expected.streams);
    }
}

TEST(test_facts)
{
    static const struct {
        const char *name;
        struct facts expected;
    } files[] = {
        {"ascend/small_rank0_memory_record.csv", {.counters = 381, .streams = 1}},
        {"ascend/msleaks_leaks.csv", {.allocs = 20, .frees = 14, .streams = 1}},
        {"ascend/memscope_dump_20250428113810.csv", {.allocs = 241, .frees = 10, .streams = 2}},
        {"planning/input.12.csv", {.allocs = 5, .frees = 5, .streams = 1, .bytes = 20, .peak = 12}},
        {"planning/iopddl_G_1.csv", {.allocs = 816, .frees = 816, .streams = 1}},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct facts found = gather(files[i].name);
        const struct facts *expected = &files[i].expected;
        print_message("%s\n", files[i].name);
        assert_int_equal(found.allocs, expected->allocs);
        assert_int_equal(found.frees, expected->frees);
        assert_int_equal(found.streams, expected->streams);
        assert_true(expected->counters == 0 || found.counters == expected->counters);
        assert_true(expected->peak == 0 || (found.peak == expected->peak && found.bytes == expected->bytes));
    }
}

int main(void)
{
    struct stat facts;
    if (stat(WEIR_TRACES_DIR, &facts) != 0) {
        printf("skipped: the folder of recorded traces %s (WEIR_TRACES_DIR) is not there\n", WEIR_TRACES_DIR);
        return 77;
    }
    return run_all_tests("CSV of real programs");
}
