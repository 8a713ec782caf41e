/* replay_tuning_test.c: the search for the settings with which a trace reserves the least. */
#include "rig/wtr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/tuning.h"

static void count(void *ctx, double share)
{
    (void)share;
    ++*(size_t *)ctx;
}

/* Searches for the trace on one thread; `replays` counts the calls of progress. */
static void search(const char *text, enum pytorch_program program, const char *base, struct tuning *tuning)
{
    size_t replays = 0;
    char error[256] = "";
    const struct replay_options options = {.jobs = 1, .progress = count, .progress_ctx = &replays};
    struct trace *trace = trace_of_text(text);
    if (!tuning_search(trace, program, base, 0, &options, tuning, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    assert_int_equal(replays, tuning->replays);
    trace_free(trace);
}

static const struct tuning_point *alone(const struct tuning *tuning, const char *word)
{
    for (size_t i = 0; i < tuning->alone_count; i++) {
        if (strstr(tuning->alone[i].row, word) != NULL) {
            return &tuning->alone[i];
        }
    }
    return NULL;
}

TEST(the_better_of_two)
{
    const struct tuning_point base = {
        .played = true, .served = true, .peak_reserved_bytes = 100000, .changes = 2, .event = 0};
    struct tuning_point other = base;
    other.peak_reserved_bytes = 99900; /* a thousandth less is no gain, one byte more is */
    assert_false(tuning_is_better(&other, &base));
    other.peak_reserved_bytes = 99899;
    assert_true(tuning_is_better(&other, &base));
    other.changes = 9;
    assert_true(tuning_is_better(&other, &base));
    other.peak_reserved_bytes = 100000; /* as much memory with fewer changes */
    other.changes = 1;
    assert_true(tuning_is_better(&other, &base));
    other.peak_reserved_bytes = 100001;
    assert_false(tuning_is_better(&other, &base));
    other = base; /* a run that dies later is better, however much it reserves; one that is served is better still */
    other.served = false;
    other.peak_reserved_bytes = 1;
    assert_false(tuning_is_better(&other, &base));
    assert_true(tuning_is_better(&base, &other));
    struct tuning_point later = other;
    later.event = 7;
    later.peak_reserved_bytes = 1000000;
    assert_true(tuning_is_better(&later, &other));
    assert_false(tuning_is_better(&other, &later));
    other = (struct tuning_point){.peak_reserved_bytes = 1}; /* refused by the program */
    assert_false(tuning_is_better(&other, &base));
    assert_true(tuning_is_better(&base, &other));
}

/* 33 MiB become 48 MiB with two divisions. The settings that the search does not know stay, and the commas in brackets
 * are those of a value. */
TEST(a_setting_that_costs_is_taken_back)
{
    static const char text[] = "#wtr 1\na 0 0 34603008 0 0\n";
    struct tuning tuning;
    search(text, PYTORCH_CUDA, "release_lock_on_cudamalloc: True, roundup_power2_divisions:[1:2,>:2]", &tuning);
    assert_int_equal(tuning.now.peak_reserved_bytes, 48 * MIB);
    assert_string_equal(tuning.best.row, "pytorch[release_lock_on_cudamalloc:True]");
    assert_int_equal(tuning.best.peak_reserved_bytes, 34 * MIB);
    assert_int_equal(tuning.best.changes, 1);
    assert_string_equal(tuning.unexpanded.row, tuning.best.row);
    assert_null(alone(&tuning, "[segment_size_mb")); /* torch_npu's */
    assert_null(alone(&tuning, ",segment_size_mb"));
    assert_non_null(alone(&tuning, "expandable_segments:True"));
    const struct tuning_point *rounded = alone(&tuning, "max_split_size_mb");
    assert_non_null(rounded);
    assert_non_null(strstr(rounded->row, "release_lock_on_cudamalloc:True,"));
    assert_non_null(strstr(rounded->row, ",roundup_power2_divisions:[1:2,>:2]"));
    assert_int_equal(rounded->peak_reserved_bytes, 48 * MIB);
}

/* Nothing is better than the default, so the program's own settings stay: here none. */
TEST(no_change_without_a_gain)
{
    struct tuning tuning;
    search("#wtr 1\na 0 0 67108864 0 0\n", PYTORCH_CUDA, "", &tuning);
    assert_string_equal(tuning.best.row, "pytorch[]");
    assert_string_equal(tuning.now.row, "pytorch[]");
    assert_int_equal(tuning.best.changes, 0);
    assert_int_equal(tuning.pool.peak_reserved_bytes, 64 * MIB);
    assert_string_equal(tuning.pool.row, "caching+vm"); /* no other pool is better, nor another growth */
    assert_int_equal(tuning.pool.growth, WEIR_GROWTH_BALANCED);
    assert_string_equal(tuning.regions.row, "caching");
}

/* Six blocks of 8 MiB, two in each segment, are freed, and a block of 40 MiB is asked for: segments of 64 MiB and
 * mapped memory serve it with what was freed. */
static const char pieces[] =
    "#wtr 1\n"
    "a 0 0 8388608 0 0\na 1 1 8388608 0 0\na 2 2 8388608 0 0\n"
    "a 3 3 8388608 0 0\na 4 4 8388608 0 0\na 5 5 8388608 0 0\n"
    "f 6 0 0 0\nf 7 1 0 0\nf 8 2 0 0\nf 9 3 0 0\nf 10 4 0 0\nf 11 5 0 0\na 12 6 41943040 0 0\n";

TEST(a_setting_that_saves_is_found)
{
    struct tuning tuning;
    search(pieces, PYTORCH_CUDA, "", &tuning);
    assert_int_equal(tuning.now.peak_reserved_bytes, 100 * MIB);
    assert_int_equal(tuning.best.peak_reserved_bytes, 60 * MIB);
    assert_string_equal(tuning.best.row, "pytorch[expandable_segments:True]");
    assert_string_equal(tuning.unexpanded.row, "pytorch[large_segment_size_mb:64]");
    assert_int_equal(tuning.unexpanded.peak_reserved_bytes, 64 * MIB);
    assert_int_equal(tuning.pool.peak_reserved_bytes, 48 * MIB);
}

/* torch_npu has settings of its own. */
TEST(the_settings_of_torch_npu)
{
    struct tuning tuning;
    search(pieces, PYTORCH_NPU, "", &tuning);
    assert_string_equal(tuning.best.row, "torch_npu[expandable_segments:True]");
    assert_non_null(alone(&tuning, "[segment_size_mb"));
    int length = 0;
    assert_int_equal(strncmp(tuning_settings(&tuning.best, &length), "expandable_segments:True", 24), 0);
    assert_int_equal(length, 24);
}
