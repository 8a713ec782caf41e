/* host_replay_test.c: a host replay measures each allocator in a process of its own, on traces small enough to know the
 * figures, and refuses a trace that the machine cannot hold. */
#include "rig/wtr.h"
#include "replay/host_replay.h"
#include "replay/mallocs.h"

#include <stdio.h>
#include <string.h>

static struct host_replay replay(const char *text, uint32_t rounds)
{
    struct trace *trace = trace_of_text(text);
    struct host_replay replay;
    char error[512] = "";
    if (!host_replay_run(trace, rounds, NULL, &replay, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    trace_free(trace);
    return replay;
}

static const struct host_result *row(const struct host_replay *replay, const char *name)
{
    for (size_t i = 0; i < replay->result_count; i++) {
        if (strcmp(replay->results[i].name, name) == 0) {
            return &replay->results[i];
        }
    }
    fail_msg("no row %s", name);
    return NULL;
}

/* 16 blocks of 4 MiB, of which 8 are freed and replaced by blocks of 2 MiB: the peak is 64 MiB. */
static const char sixteen[] = "#wtr 1\n"
                              "a 0 0 4194304 0 0\na 0 1 4194304 0 0\na 0 2 4194304 0 0\na 0 3 4194304 0 0\n"
                              "a 0 4 4194304 0 0\na 0 5 4194304 0 0\na 0 6 4194304 0 0\na 0 7 4194304 0 0\n"
                              "a 0 8 4194304 0 0\na 0 9 4194304 0 0\na 0 10 4194304 0 0\na 0 11 4194304 0 0\n"
                              "a 0 12 4194304 0 0\na 0 13 4194304 0 0\na 0 14 4194304 0 0\na 0 15 4194304 0 0\n"
                              "f 1 1 0 0\nf 1 3 0 0\nf 1 5 0 0\nf 1 7 0 0\n"
                              "a 2 16 2097152 0 0\na 2 17 2097152 0 0\na 2 18 2097152 0 0\na 2 19 2097152 0 0\n";

TEST(test_resident_memory_is_that_of_the_live_blocks)
{
    static const char *const always[] = {"heap", "glibc"};
    const struct host_replay result = replay(sixteen, 1);
    assert_int_equal(result.peak_live_bytes, 64 * MIB);
    for (size_t i = 0; i < 2; i++) {
        const struct host_result *found = row(&result, always[i]);
        assert_string_equal(found->why, "");
        assert_true(found->measured);
        assert_in_range(found->resident_bytes, 63 * MIB, 90 * MIB);
        assert_int_equal(found->later.faults, 0); /* there is one round */
    }
    assert_in_range(row(&result, "heap")->held_bytes, 64 * MIB, 80 * MIB);
    assert_int_equal(row(&result, "glibc")->held_bytes, 0);
}

/* glibc gives blocks of 4 MiB back to the system at once, so each round faults for 64 MiB again; the heap keeps
 * them. */
TEST(test_later_rounds_are_counted_apart)
{
    const struct host_replay result = replay(sixteen, 4);
    const struct host_result *heap = row(&result, "heap");
    assert_true(heap->measured);
    assert_true(heap->first.faults > 0);
    assert_true(heap->later.faults < heap->first.faults);
}

TEST(test_every_event_of_a_heap_is_played)
{
    const struct host_replay result = replay("#wtr 1\n"
                                             "p 0 100 0 0x1000\n"
                                             "a 0 1 5000 0 0 al=65536\n"
                                             "r 1 1 2 9000000 0\n"
                                             "a 2 3 0 1 0 adv=long\n"
                                             "u 2 3 0\n"
                                             "e 2 1 0\nx 2 1 1\ny 2 *\n"
                                             "r 3 2 4 10 0\n"
                                             "f 4 3 - 0\n"
                                             "f 5 0 0 0\n",
                                             3);
    assert_int_equal(result.peak_live_bytes, 100 + 9000000 + 1);
    for (size_t i = 0; i < result.result_count; i++) {
        const struct host_result *found = &result.results[i];
        if (found->measured) {
            assert_true(found->resident_bytes > 8 * MIB);
        } else {
            assert_true(found->why[0] != '\0'); /* a malloc that is not installed */
        }
    }
}

TEST(test_a_trace_without_blocks_has_rows)
{
    const struct host_replay result = replay("#wtr 1\ny 0 *\n", 2);
    assert_int_equal(result.peak_live_bytes, 0);
    assert_true(row(&result, "heap")->measured);
    assert_true(row(&result, "glibc")->measured);
}

TEST(test_a_trace_beyond_the_machines_memory_is_refused_at_once)
{
    static const char text[] = "#wtr 1\na 0 0 70368744177664 0 0\n"; /* 64 TiB */
    struct trace *trace = NULL;
    struct trace_error trace_error = {0};
    struct host_replay result;
    char error[512] = "";
    assert_int_equal(trace_read_memory("test.wtr", text, strlen(text), NULL, &trace, &trace_error), WEIR_OK);
    assert_false(host_replay_run(trace, 1, NULL, &result, error, sizeof(error)));
    assert_non_null(strstr(error, "70368744177664 bytes"));
    assert_int_equal(result.result_count, 0);
    trace_free(trace);
}

TEST(test_an_unknown_malloc_is_named)
{
    struct malloc_functions functions;
    const char *why = NULL;
    assert_false(mallocs_find("nothing", &functions, &why));
    assert_string_equal(why, "no malloc of that name is known");
}
