/* replay_verdict_test.c: the parts of a verdict: blocks in the way, holders, and series of growing requests. */
#include "rig/wtr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/growing.h"
#include "replay/holders.h"
#include "replay/in_the_way.h"
#include "replay/verdict.h"

/* Free 8, block 2, free 1 in the first run; free 4, block 3, free 4 in the second, which begins at its end. */
TEST(the_fewest_bytes_are_in_the_way)
{
    static const struct span spans[] = {
        {0, 8, 1, 0, false},   {8, 10, 1, 0, true},  {10, 11, 1, 0, false},
        {11, 15, 2, 0, false}, {15, 18, 2, 0, true}, {18, 22, 2, 0, false},
    };
    const size_t count = sizeof(spans) / sizeof(spans[0]);
    struct in_the_way pin = {0};
    assert_true(in_the_way_find(spans, count, 10, &pin));
    assert_int_equal(pin.bytes, 2);
    assert_int_equal(pin.blocks, 1);
    assert_int_equal(pin.first, 0);
    assert_int_equal(pin.end, 2);
    assert_true(in_the_way_find(spans, count, 8, &pin));
    assert_int_equal(pin.blocks, 0);
    assert_false(in_the_way_find(spans, count, 12, &pin)); /* 11 bytes in each run, 22 in both */
}

/* The way through the first run costs 3 bytes, that through the second 1. */
TEST(the_cheapest_of_two_runs_is_found)
{
    static const struct span spans[] = {
        {0, 8, 1, 0, false},   {8, 11, 1, 0, true},  {11, 20, 1, 0, false},
        {30, 38, 2, 0, false}, {38, 39, 2, 0, true}, {39, 50, 2, 0, false},
    };
    struct in_the_way pin = {0};
    assert_true(in_the_way_find(spans, sizeof(spans) / sizeof(spans[0]), 15, &pin));
    assert_int_equal(pin.bytes, 1);
    assert_int_equal(pin.first, 3);
}

/* The largest holder is the last in the order of names: a block that has moved, and lost its tag. */
TEST(the_largest_holder_is_named)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "@1 a\n@2 b\n@3 c\n@4 d\n@5 e\n@6 f\n@7 g\n@8 h\n"
                                        "a 0 0 1 0 0 @1\na 1 1 1 0 0 @2\na 2 2 1 0 0 @3\na 3 3 1 0 0 @4\n"
                                        "a 4 4 1 0 0 @5\na 5 5 1 0 0 @6\na 6 6 1 0 0 @7\na 7 7 90 0 0 @8\n"
                                        "r 8 7 8 100 0\n");
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    assert_true(holders_at(trace, trace->event_count, &record));
    assert_int_equal(record.holder_count, WEIR_OOM_ENTRIES);
    assert_string_equal(record.holders[0].name, "untagged");
    assert_int_equal(record.holders[0].requested_bytes, 100);
    assert_int_equal(record.holders[1].requested_bytes, 1); /* the old place of 90 bytes is not counted */
    trace_free(trace);
}

TEST(holders_of_a_moment)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "@1 weights\n"
                                        "@2 cache\n"
                                        "@3 cache\n"
                                        "p 9 100 0\n"
                                        "a 0 0 1000 0 0 @1\n"
                                        "a 1 1 700 0 0 @2\n"
                                        "a 2 2 700 0 0 @3\n"
                                        "f 3 0 0 0\n"
                                        "a 4 3 50 0 0 @1\n");
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    assert_true(holders_at(trace, trace->event_count, &record));
    assert_int_equal(record.holder_count, 3);
    assert_string_equal(record.holders[0].name, "cache"); /* two tags of one text are one holder */
    assert_int_equal(record.holders[0].requested_bytes, 1400);
    assert_int_equal(record.holders[0].blocks, 2);
    assert_string_equal(record.holders[1].name, "before the window");
    assert_string_equal(record.holders[2].name, "weights");
    assert_int_equal(record.holders[2].requested_bytes, 50); /* the freed block is not counted */
    trace_free(trace);
}

/* `count` requests, each larger than the one before by `step` bytes, with a request of another size between. The larger
 * ones have `tags` tags in turn. */
static struct trace *trace_of_steps(size_t count, int64_t step, size_t tags)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fputs("#wtr 1\n@1 one\n@2 two\n", out);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "a %zu %zu %lld 0 0 @%zu\n", 2 * i, 2 * i,
                      (long long)(16 * (int64_t)MIB + (int64_t)i * step), 1 + i % tags);
        (void)fprintf(out, "a %zu %zu %d 0 0\n", 2 * i + 1, 2 * i + 1, 3 << 20);
    }
    (void)fclose(out);
    struct trace *trace = trace_of_text(text);
    free(text);
    return trace;
}

static struct growing series_of(size_t count, int64_t step, size_t tags)
{
    struct growing found;
    struct trace *trace = trace_of_steps(count, step, tags);
    assert_true(growing_find(trace, trace->event_count, &found));
    trace_free(trace);
    return found;
}

TEST(a_series_grows)
{
    const struct growing found = series_of(12, MIB, 1);
    assert_int_equal(found.count, 12);
    assert_int_equal(found.first_bytes, 16 * MIB);
    assert_int_equal(found.last_bytes, 27 * MIB);
    assert_int_equal(series_of(7, MIB, 1).count, 0);  /* too short */
    assert_int_equal(series_of(12, MIB, 2).count, 0); /* two series of six */
    assert_int_equal(series_of(12, 0, 1).count, 0);
    assert_int_equal(series_of(12, -(int64_t)MIB, 1).count, 0);
    assert_int_equal(series_of(12, 5 * MIB, 1).count, 11); /* the first step is more than a quarter */
}

/* The series is named only where memory is free in pieces. */
TEST(a_series_counts_if_memory_is_free)
{
    static const struct replay_strategy strategy = {.name = "some"};
    struct trace *trace = trace_of_steps(12, MIB, 1);
    for (unsigned is_free = 0; is_free < 2; is_free++) {
        struct verdict verdict;
        struct replay_result result = {.strategy = &strategy, .worst_event = trace->event_count - 1};
        result.peak.reserved_bytes = 100 * MIB;
        result.peak.free_bytes = is_free * 50 * MIB;
        (void)snprintf(result.peak.text, sizeof(result.peak.text), "a text");
        assert_true(verdict_of(trace, &result, &verdict));
        assert_string_equal(verdict.row, "some");
        assert_false(verdict.refused);
        assert_string_equal(verdict.text,
                            is_free ? "a text; 12 requests of one grew from 16.0 to 27.0 MiB, each a little larger "
                                      "than the one before; cure: take the final size at once, or settings that "
                                      "'weir advise' finds and proves"
                                    : "a text");
    }
    trace_free(trace);
}

/* At the peak seven requests have been made, too few for a series. */
TEST(a_series_ends_at_the_moment)
{
    static const struct replay_strategy strategy = {.name = "some"};
    struct trace *trace = trace_of_steps(12, MIB, 1);
    struct verdict verdict;
    struct replay_result result = {.strategy = &strategy, .worst_event = 12};
    result.peak.reserved_bytes = 100 * MIB;
    result.peak.free_bytes = 50 * MIB;
    (void)snprintf(result.peak.text, sizeof(result.peak.text), "a text");
    assert_true(verdict_of(trace, &result, &verdict));
    assert_string_equal(verdict.text, "a text");
    trace_free(trace);
}
