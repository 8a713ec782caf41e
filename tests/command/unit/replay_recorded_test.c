/* replay_recorded_test.c: the row of the recorded allocator, on traces with figures worked out by hand. */
#include "rig/wtr.h"

#include <stdio.h>
#include <string.h>

#include "replay/recorded_run.h"

static struct replay_result run_text(const char *text)
{
    struct replay_result result;
    struct trace *trace = trace_of_text(text);
    assert_true(recorded_run_known(trace));
    assert_true(recorded_run(trace, true, &result));
    assert_true(recorded_run_is(&result));
    trace_free(trace);
    return result;
}

static void expect_region(const struct replay_result *result, size_t index, uint64_t address, uint64_t size,
                          int64_t added, int64_t removed)
{
    assert_true(index < result->region_count);
    const struct replay_region *region = &result->regions[index];
    assert_int_equal(region->address, address);
    assert_int_equal(region->size, size);
    assert_int_equal(region->added, added);
    assert_int_equal(region->removed, removed);
}

/* The program takes a segment of 20 MiB for a block of 9 MiB, and one of 2 MiB for 1,000 bytes. It then gives the first
 * segment back. */
TEST(segments_taken_and_returned)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "s 0 + 0x10000000 20971520 0\n"
                                           "a 1 0 9437184 0 0 addr=0x10000000\n"
                                           "s 2 + 0x20000000 2097152 0\n"
                                           "a 3 1 1000 0 0 addr=0x20000000\n"
                                           "f 4 0 0 0\n"
                                           "s 5 - 0x10000000 20971520 0\n"
                                           "a 6 2 1 0 0 addr=0x20000400\n");
    assert_string_equal(result.strategy->name, "recorded");
    assert_int_equal(result.prior_blocks, 0);
    assert_int_equal(result.allocs, 3);
    assert_int_equal(result.frees, 1);
    assert_int_equal(result.events_played, 7);
    assert_int_equal(result.device_calls, 3);
    assert_int_equal(result.peak_live_bytes, 9 * MIB + 1000);
    assert_int_equal(result.peak_reserved_bytes, 22 * MIB);
    assert_int_equal(result.worst_event, 3); /* the event of the allocation for which the second segment was taken */
    /* A request of 1,000 bytes has a block of 1,024 bytes: its neighbour at 0x20000400 shows that sizes are multiples
     * of 512. */
    assert_int_equal(result.free_bytes, 11 * MIB + 2 * MIB - 1024);
    assert_int_equal(result.largest_free_bytes, 11 * MIB);
    /* the return of the first segment; the second allocation made the peak of live bytes */
    assert_int_equal(result.warm_calls, 1);
    assert_int_equal(result.warm_allocs, 1);
    assert_false(result.oom.happened);
    assert_false(result.lacks_addresses);
    assert_string_equal(result.note, "");

    assert_int_equal(result.region_count, 2);
    expect_region(&result, 0, 0x10000000, 20 * MIB, 0, 5);
    expect_region(&result, 1, 0x20000000, 2 * MIB, 2, -1);
    assert_int_equal(result.point_count, 7);
    assert_int_equal(result.points[0].reserved, 20 * MIB);
    assert_int_equal(result.points[0].live, 0);
    assert_int_equal(result.points[3].reserved, 22 * MIB);
    assert_int_equal(result.points[3].live, 9 * MIB + 1000);
    assert_int_equal(result.points[6].reserved, 2 * MIB);
    assert_int_equal(result.points[6].live, 1001);
    assert_int_equal(result.places[1].address, 0x20000000);
    assert_int_equal(result.places[1].capacity, 1024);
    replay_result_free(&result);
}

/* Expandable segments: neighbours that are mapped are one free range, and a part of a mapping may be unmapped. */
TEST(mappings_join_and_split)
{
    static const char text[] = "#wtr 1\n"
                               "z 0 + 0x10000000 4194304 0\n"
                               "z 1 + 0x10400000 4194304 0\n"
                               "z 2 + 0x10800000 4194304 0\n"
                               "a 3 0 2097152 0 0 addr=0x10a00000\n"
                               "z 4 - 0x10200000 4194304 0\n";
    struct replay_result result = run_text(text);
    assert_int_equal(result.peak_reserved_bytes, 12 * MIB);
    assert_int_equal(result.peak_live_bytes, 2 * MIB);
    assert_int_equal(result.worst_event, 3);
    assert_int_equal(result.free_bytes, 10 * MIB);
    assert_int_equal(result.largest_free_bytes, 10 * MIB);
    assert_int_equal(result.points[4].reserved, 8 * MIB);
    assert_string_equal(result.note, "");
    /* first the two pieces that were unmapped, then the three pieces that remain */
    assert_int_equal(result.region_count, 5);
    expect_region(&result, 0, 0x10200000, 2 * MIB, 0, 4);
    expect_region(&result, 1, 0x10400000, 2 * MIB, 1, 4);
    expect_region(&result, 2, 0x10000000, 2 * MIB, 0, -1);
    expect_region(&result, 3, 0x10600000, 2 * MIB, 1, -1);
    expect_region(&result, 4, 0x10800000, 4 * MIB, 2, -1);
    replay_result_free(&result);

    /* Segments do not join, because no allocator merges them. */
    char *segments = strdup(text);
    assert_non_null(segments);
    for (char *at = segments; (at = strchr(at, 'z')) != NULL;) {
        *at = 's';
    }
    result = run_text(segments);
    assert_int_equal(result.free_bytes, 10 * MIB);
    assert_int_equal(result.largest_free_bytes, 4 * MIB);
    replay_result_free(&result);
    free(segments);
}

/* A block across two mappings ends the free range before it; the range behind it begins at its end. */
TEST(a_block_across_mappings)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "z 0 + 0x10000000 4194304 0\n"
                                           "z 0 + 0x10400000 4194304 0\n"
                                           "p 0 4194304 0 0x10200000\n"
                                           "m 1 I end\n");
    assert_int_equal(result.free_bytes, 4 * MIB);
    assert_int_equal(result.largest_free_bytes, 2 * MIB);
    replay_result_free(&result);
}

/* A block at the beginning of a mapping ends the free range of the mapping before it. Mappings that do not touch do not
 * join. */
TEST(a_block_between_mappings)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "z 0 + 0x10000000 4194304 0\n"
                                           "z 0 + 0x10400000 4194304 0\n"
                                           "z 0 + 0x20000000 2097152 0\n"
                                           "p 0 1048576 0 0x10400000\n");
    assert_int_equal(result.free_bytes, 9 * MIB);
    assert_int_equal(result.largest_free_bytes, 4 * MIB);
    replay_result_free(&result);
}

/* Memory that was returned before the window does not appear in the window. A prior block with a size that is no
 * multiple of 512 is rounded up. */
TEST(a_start_that_contradicts_itself)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "s 0 + 0x10000000 2097152 0\n"
                                           "s 0 + 0x10000000 4194304 0\n"
                                           "s 0 - 0x10200000 1048576 0\n"
                                           "p 0 1024 0 0x10000000\n"
                                           "p 1 1000 0 0x10000400\n"
                                           "p 2 512 0 0x10000800\n"
                                           "a 1 3 1000 0 0 addr=0x10000a00\n"
                                           "a 2 4 512 0 0 addr=0x10000e00\n");
    assert_int_equal(result.region_count, 2);
    expect_region(&result, 0, 0x10000000, 2 * MIB, -1, -1);
    expect_region(&result, 1, 0x10300000, MIB, -1, -1);
    assert_int_equal(result.places[0].capacity, 1024);
    assert_int_equal(result.places[1].capacity, 1024);
    assert_int_equal(result.free_bytes, 3 * MIB - 2560);
    assert_non_null(strstr(result.note, "taken 1 times"));
    replay_result_free(&result);
}

/* torch_npu adds 32 bytes to a request; the size of a prior block is rounded already. */
TEST(blocks_of_torch_npu)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "s 0 + 0x10000000 2097152 0\n"
                                           "p 0 1024 0 0x10000000\n"
                                           "a 1 1 1024 0 0 addr=0x10000400\n"
                                           "a 2 2 512 0 0 addr=0x10000a00\n");
    assert_int_equal(result.places[0].capacity, 1024);
    assert_int_equal(result.places[1].capacity, 1536);
    assert_int_equal(result.places[2].capacity, 1024);
    replay_result_free(&result);
}

/* A window that begins in the middle: the memory of the `s` and `p` lines was taken before the first event. */
TEST(a_window_in_the_middle)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "s 0 + 0x10000000 20971520 0\n"
                                           "s 0 + 0x20000000 2097152 0\n"
                                           "p 0 8388608 0 0x10000000\n"
                                           "p 1 512 0 0x20000000\n"
                                           "f 1 0 0 0\n"
                                           "s 2 - 0x10000000 20971520 0\n"
                                           "s 3 + 0x30000000 10485760 0\n"
                                           "a 4 2 10485760 0 0 addr=0x30000000\n");
    assert_int_equal(result.prior_blocks, 2);
    assert_int_equal(result.allocs, 1);
    assert_int_equal(result.device_calls, 2); /* those of the window */
    assert_int_equal(result.peak_live_bytes, 10 * MIB + 512);
    assert_int_equal(result.peak_reserved_bytes, 22 * MIB);
    assert_int_equal(result.worst_event, 0);
    assert_int_equal(result.free_bytes, 14 * MIB - 512);
    assert_int_equal(result.largest_free_bytes, 12 * MIB);
    assert_int_equal(result.points[0].live, 8 * MIB + 512);
    assert_int_equal(result.points[0].reserved, 22 * MIB);
    assert_int_equal(result.points[7].reserved, 12 * MIB);
    expect_region(&result, 0, 0x10000000, 20 * MIB, -1, 5);
    expect_region(&result, 1, 0x20000000, 2 * MIB, -1, -1);
    expect_region(&result, 2, 0x30000000, 10 * MIB, 6, -1);
    replay_result_free(&result);
}

/* Live bytes and their peak are those of a replay, also for a reallocation and a request of 0 bytes. */
TEST(live_bytes_are_those_of_a_replay)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "s 0 + 0x10000000 20971520 0\n"
                                        "p 0 1048576 0 0x10000000\n"
                                        "a 0 1 2097152 0 0 addr=0x10100000\n"
                                        "a 1 2 3145728 0 0 addr=0x10300000\n"
                                        "f 2 1 0 0\n"
                                        "r 3 2 3 4194304 0\n"
                                        "a 4 4 0 0 0 addr=0x10700000\n"
                                        "f 5 3 - 0\n");
    const struct replay_options options = {.history = true};
    struct replay_result recorded;
    struct replay_result caching;
    char error[512] = "";
    assert_true(recorded_run(trace, true, &recorded));
    assert_true(replay_run(trace, replay_strategy_find("caching", 7), 0, &options, &caching, error, sizeof(error)));
    assert_int_equal(recorded.peak_live_bytes, 8 * MIB);
    assert_int_equal(recorded.peak_live_bytes, caching.peak_live_bytes);
    assert_int_equal(recorded.prior_blocks, caching.prior_blocks);
    assert_int_equal(recorded.allocs, caching.allocs);
    assert_int_equal(recorded.frees, caching.frees);
    assert_int_equal(recorded.events_played, caching.events_played);
    assert_int_equal(recorded.point_count, caching.point_count);
    for (size_t i = 0; i < recorded.point_count; i++) {
        assert_int_equal(recorded.points[i].event, caching.points[i].event);
        assert_int_equal(recorded.points[i].live, caching.points[i].live);
    }
    assert_int_equal(recorded.worst_event, 0);
    /* before the first event: 20 MiB less the block of 1 MiB */
    assert_int_equal(recorded.largest_free_bytes, 19 * MIB);
    assert_false(recorded.lacks_addresses); /* only the `r` line has none */
    replay_result_free(&recorded);
    replay_result_free(&caching);
    trace_free(trace);
}

/* Checks the record of the refused request, which has the holders at the moment of the refusal by tag. Two tags have
 * the same text. */
TEST(the_refused_request)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "@1 m.py:forward\n"
                                           "@2 m.py:forward\n"
                                           "s 0 + 0x10000000 20971520 3\n"
                                           "s 0 + 0x20000000 8388608 4\n"
                                           "p 0 4194304 3 0x10000000\n"
                                           "a 1 1 3145728 3 0 addr=0x10800000 @1\n"
                                           "a 2 2 2097152 3 0 addr=0x10c00000 @2\n"
                                           "a 3 3 1048576 3 0 addr=0x10f00000\n"
                                           "a 4 4 512 3 0 addr=0x11000000\n"
                                           "f 5 4 3 0\n"
                                           "o 6 12582912 1048576\n"
                                           "f 7 1 3 0\n");
    const weir_oom_record *record = &result.oom.record;
    assert_true(result.oom.happened);
    assert_int_equal(result.oom.event, 8);
    assert_int_equal(result.oom.size, 12 * MIB);
    assert_int_equal(record->cause, WEIR_OOM_CAUSE_FRAGMENTED);
    assert_string_equal(result.oom.why, record->text);
    assert_int_equal(record->failure, 1);
    assert_int_equal(record->stream, 3);
    assert_int_equal(record->regions, 2);
    assert_int_equal(record->reserved_bytes, 28 * MIB);
    assert_int_equal(record->requested_bytes, 10 * MIB);
    assert_int_equal(record->live_bytes, 10 * MIB);
    assert_int_equal(record->free_bytes, 18 * MIB);
    assert_int_equal(record->largest_free_bytes, 8 * MIB); /* the segment of stream 4 */
    assert_int_equal(record->usable_bytes, 4 * MIB);
    assert_int_equal(record->holder_count, 3);
    assert_string_equal(record->holders[0].name, "m.py:forward");
    assert_int_equal(record->holders[0].requested_bytes, 5 * MIB);
    assert_int_equal(record->holders[0].blocks, 2);
    assert_string_equal(record->holders[1].name, "before the window");
    assert_string_equal(record->holders[2].name, "untagged");
    replay_result_free(&result);

    /* A prior block may have a tag of its own. */
    result = run_text("#wtr 1\n@0 weights\ns 0 + 0x10000000 2097152 0\np 0 1048576 0 0x10000000 @0\n"
                      "o 1 4194304 0\n");
    assert_int_equal(result.oom.record.holder_count, 1);
    assert_string_equal(result.oom.record.holders[0].name, "weights");
    replay_result_free(&result);

    /* A program that went on without the memory did not run out. */
    result = run_text("#wtr 1\ns 0 + 0x10000000 2097152 0\no 1 4194304 0\na 2 0 512 0 0 addr=0x10000000\n");
    assert_false(result.oom.happened);
    replay_result_free(&result);
}

/* The record keeps the six tags that hold the most, in any order in the trace. */
TEST(the_largest_holders)
{
    char text[2048] = "#wtr 1\n";
    size_t used = strlen(text);
    for (unsigned i = 0; i < 9; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "@%u tag %u\n", i, i);
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, "s 0 + 0x10000000 20971520 0\n");
    for (unsigned i = 0; i < 9; i++) { /* 4, 8, 3, 7, 2, 6, 1, 5, 0: times 512 bytes, plus 512 */
        used += (size_t)snprintf(text + used, sizeof(text) - used, "a 1 %u %u 0 0 addr=0x%x @%u\n", i,
                                 512 * (1 + (i * 4 + 4) % 9), 0x10000000 + 8192 * i, i);
    }
    (void)snprintf(text + used, sizeof(text) - used, "o 2 12582912 0\n");
    struct replay_result result = run_text(text);
    assert_int_equal(result.oom.record.holder_count, WEIR_OOM_ENTRIES);
    for (unsigned i = 0; i < WEIR_OOM_ENTRIES; i++) {
        assert_int_equal(result.oom.record.holders[i].requested_bytes, 512 * (9 - i));
    }
    assert_string_equal(result.oom.record.holders[0].name, "tag 1");
    replay_result_free(&result);
}

/* Contradictions have one meaning each, and are noted. */
TEST(contradictions_are_noted)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "#note recorded: the ring buffer overflowed\n"
                                           "s 0 + 0x10000000 4194304 0\n"
                                           "s 1 + 0x10200000 4194304 0\n"
                                           "s 2 - 0x10000000 4194304 0\n"
                                           "s 3 - 0x10000000 2097152 0\n"
                                           "a 4 0 512 0 0 addr=0x10500000\n"
                                           "a 5 1 512 0 0 addr=0x10100000\n");
    /* The second segment takes 2 MiB of the first. Event 2 returns the rest of the first and 2 MiB of the second. */
    assert_int_equal(result.points[1].reserved, 6 * MIB);
    assert_int_equal(result.points[2].reserved, 2 * MIB);
    assert_int_equal(result.points[3].reserved, 2 * MIB);
    assert_int_equal(result.peak_reserved_bytes, 6 * MIB);
    assert_string_equal(result.note,
                        "the record contradicts itself: memory that was held is taken 1 times, and memory that was not "
                        "held is returned 1 times; more was reserved than is recorded: blocks that lie outside the "
                        "recorded memory: 1; the ring buffer overflowed");
    replay_result_free(&result);
}

/* Some addresses in the trace are not known or impossible: the replay counts their bytes, and leaves them out of the
 * map. */
TEST(addresses_that_cannot_be)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "s 0 + 0x0 4194304 0\n"
                                           "s 0 + 0xffffffffff000000 4194304 0\n"
                                           "s 0 + 0x1000 18446744073709547519 0\n"
                                           "s 0 - 0x1000 18446744073709547519 0\n"
                                           "s 1 - 0x0 4194304 0\n"
                                           "s 1 + 0x7fffffffffe00000 1048576 0\n"
                                           "a 2 0 18446744073709551615 0 0 addr=0x7ffffffffff00000\n"
                                           "a 3 1 18446744073709551615 0 0 addr=0xffffffffffffffff\n"
                                           "f 4 0 0 0\n"
                                           "f 5 1 0 0\n"
                                           "a 6 2 4096 0 0\n");
    assert_true(result.lacks_addresses);
    assert_int_equal(result.largest_free_bytes, 0);
    assert_int_equal(result.peak_reserved_bytes, UINT64_MAX);
    assert_int_equal(result.peak_live_bytes, UINT64_MAX);
    assert_int_equal(result.points[10].live, 4096);
    assert_int_equal(result.region_count, 1);
    expect_region(&result, 0, UINT64_C(0x7fffffffffe00000), MIB, 5, -1);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(result.places[i].address, 0);
    }
    replay_result_free(&result);
}

/* Without the addresses of blocks the free bytes are known, and the largest free range is not. */
TEST(blocks_without_addresses)
{
    struct replay_result result = run_text("#wtr 1\ns 0 + 0x10000000 4194304 0\na 1 0 1048576 0 0\n");
    assert_int_equal(result.peak_reserved_bytes, 4 * MIB);
    assert_int_equal(result.worst_event, 1);
    assert_int_equal(result.free_bytes, 3 * MIB);
    assert_true(result.lacks_addresses);
    assert_int_equal(result.largest_free_bytes, 0);
    assert_string_equal(result.note, "");
    replay_result_free(&result);
}

/* Each device has its own row; the events have the numbers of the file. */
TEST(one_device_of_several)
{
    struct trace *both = trace_of_text("#wtr 1\n"
                                       "s 0 + 0x10000000 20971520 0\n"
                                       "s 0 + 0x10000000 2097152 1 d=1\n"
                                       "a 1 0 512 1 0 d=1 addr=0x10000000\n"
                                       "a 2 1 4194304 0 0 addr=0x10000000\n"
                                       "s 3 - 0x10000000 2097152 d=1\n"
                                       "m 4 I end\n");
    static const uint64_t reserved[] = {20 * MIB, 2 * MIB};
    static const uint64_t live[] = {4 * MIB, 512};
    static const uint64_t worst[] = {3, 2};
    for (uint32_t device = 0; device < 2; device++) {
        struct trace *trace = NULL;
        struct trace_error error = {0};
        struct replay_result result;
        assert_int_equal(trace_of_device(both, device, &trace, &error), WEIR_OK);
        assert_true(recorded_run(trace, true, &result));
        assert_int_equal(result.peak_reserved_bytes, reserved[device]);
        assert_int_equal(result.peak_live_bytes, live[device]);
        assert_int_equal(result.worst_event, worst[device]);
        expect_region(&result, 0, 0x10000000, reserved[device], device, device == 0 ? -1 : 4);
        replay_result_free(&result);
        trace_free(trace);
    }
    trace_free(both);
}

/* Without segments, totals are the reserved bytes: the first one also before its event, the largest one with the most
 * live bytes that it has. Free memory has no place and calls of the device are not known. */
TEST(totals_are_the_reserved_bytes)
{
    struct replay_result result = run_text("#wtr 1\n"
                                           "p 0 1048576 0\n"
                                           "a 0 1 1048576 0 0 addr=0x10000000\n"
                                           "v 1 4194304 2097152\n"
                                           "a 2 2 2097152 0 0 addr=0x20000000\n"
                                           "v 3 8388608 4194304\n"
                                           "a 4 3 1048576 0 0 addr=0x30000000\n"
                                           "f 5 2 0 0\n"
                                           "v 6 2097152 3145728\n");
    assert_int_equal(result.peak_reserved_bytes, 8 * MIB);
    assert_int_equal(result.peak_live_bytes, 5 * MIB);
    assert_int_equal(result.worst_event, 5);
    assert_int_equal(result.free_bytes, 3 * MIB);
    assert_int_equal(result.largest_free_bytes, 0);
    assert_true(result.lacks_addresses);
    assert_true(result.lacks_calls);
    assert_int_equal(result.points[0].reserved, 4 * MIB);
    assert_int_equal(result.peak.live_bytes, 5 * MIB);
    assert_string_equal(result.note, "reserved bytes are the totals of the file, which has no segments");
    replay_result_free(&result);
}

TEST(a_trace_without_history_shows_one_moment)
{
    static const struct {
        const char *text;
        bool known;
        bool moment;
    } cases[] = {
        {"#wtr 1\ns 0 + 0x10000000 2097152 0\np 0 512 0 0x10000000\n", true, true},
        {"#wtr 1\ns 0 + 0x10000000 2097152 0\np 0 512 0 0x10000000\nm 1 I snapshot\n", true, true},
        {"#wtr 1\np 0 512 0 0x10000000\n", false, true},
        {"#wtr 1\ns 0 + 0x10000000 2097152 0\np 0 512 0 0x10000000\nf 1 0 0 0\n", true, false},
        {"#wtr 1\ns 0 + 0x10000000 2097152 0\ns 1 - 0x10000000 2097152 0\n", true, false},
        {"#wtr 1\ns 0 + 0x10000000 2097152 0\no 1 512 0\n", true, false},
        {"#wtr 1\na 0 0 512 0 0\n", false, false},
        {"#wtr 1\na 0 0 512 0 0\nv 1 4096 512\n", true, false},
        {"#wtr 1\na 0 0 512 0 0\nv 1 0 512\n", false, false},
        {"#wtr 1\nv 1 4096 512\n", false, false},
        {"#wtr 1\nm 1 I snapshot\n", false, false},
        {"#wtr 1\n", false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct trace *trace = trace_of_text(cases[i].text);
        assert_int_equal(recorded_run_known(trace), cases[i].known);
        assert_int_equal(recorded_run_is_moment(trace), cases[i].moment);
        trace_free(trace);
    }
    struct replay_result result = run_text(cases[0].text);
    assert_int_equal(result.peak_reserved_bytes, 2 * MIB);
    assert_int_equal(result.peak_live_bytes, 512);
    assert_int_equal(result.largest_free_bytes, 2 * MIB - 512);
    assert_int_equal(result.device_calls, 0);
    expect_region(&result, 0, 0x10000000, 2 * MIB, -1, -1);
    assert_int_equal(result.places[0].address, 0x10000000);
    replay_result_free(&result);
}

/* After reservations of many ranges in random order, the reserved bytes equal those of a reference with one entry for
 * each page. */
TEST(random_ranges_against_a_table)
{
    enum { pages = 64, steps = 3000 };
    bool table[pages] = {false};
    uint64_t expected[steps];
    char *text = malloc(steps * 64);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "#wtr 1\n");
    uint32_t state = 12345;
    uint64_t held = 0;
    for (unsigned i = 0; i < steps; i++) {
        state = state * 1664525u + 1013904223u;
        const unsigned first = (state >> 8) % pages;
        const unsigned count = 1 + (state >> 16) % 12 % (pages - first);
        const bool more = (state >> 28 & 1) != 0;
        for (unsigned page = first; page < first + count; page++) {
            held += more && !table[page];
            held -= !more && table[page];
            table[page] = more;
        }
        expected[i] = held * 4096;
        used += (size_t)sprintf(text + used, "z %u %c 0x%x %u 0\n", i, more ? '+' : '-', 0x100000 + first * 4096,
                                count * 4096);
    }
    struct replay_result result = run_text(text);
    assert_int_equal(result.point_count, steps);
    uint64_t peak = 0;
    for (unsigned i = 0; i < steps; i++) {
        assert_int_equal(result.points[i].reserved, expected[i]);
        peak = expected[i] > peak ? expected[i] : peak;
        uint64_t alive = 0;
        for (size_t k = 0; k < result.region_count && i % 97 == 0; k++) {
            const struct replay_region *region = &result.regions[k];
            alive += region->added <= (int64_t)i && (region->removed == -1 || region->removed > (int64_t)i)
                         ? region->size
                         : 0;
        }
        assert_true(i % 97 != 0 || alive == expected[i]);
    }
    assert_int_equal(result.peak_reserved_bytes, peak);
    assert_int_equal(result.free_bytes, peak);
    replay_result_free(&result);
    free(text);
}
