/* replay_test.c: a replay makes the calls of the trace, on traces small enough to be checked by hand. */
#include "rig/wtr.h"
#include "replay/replay.h"

#include <stdio.h>
#include <string.h>

static struct replay_result replay(const char *text, const char *strategy, struct replay_options options)
{
    struct replay_result result;
    char error[512] = "";
    struct trace *trace = trace_of_text(text);
    options.check = true;
    bool done =
        replay_run(trace, replay_strategy_find(strategy, strlen(strategy)), 0, &options, &result, error, sizeof(error));
    if (!done) {
        fail_msg("%s", error);
    }
    trace_free(trace);
    return result;
}

TEST(test_the_device_has_the_granularity_of_the_trace)
{
    static const char fine[] = "#wtr 1\n#dev 0 gran=65536\na 0 0 100000 0 0\na 1 1 1 0 0\n";
    static const char coarse[] = "#wtr 1\n#dev 0 gran=33554432\na 0 0 100000 0 0\na 1 1 1 0 0\n";
    static const char silent[] = "#wtr 1\na 0 0 100000 0 0\na 1 1 1 0 0\n";
    static const struct {
        const char *text;
        const char *strategy;
        uint64_t reserved;
    } rows[] = {
        {fine, "direct", 3 * 65536}, /* two pieces and one */
        {coarse, "direct", 2 * 32 * MIB}, {silent, "direct", 2 * 2 * MIB}, {fine, "caching+vm", 2 * 65536},
        {coarse, "caching+vm", 32 * MIB}, {silent, "caching+vm", 2 * MIB},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay_result result = replay(rows[i].text, rows[i].strategy, (struct replay_options){0});
        assert_int_equal(result.peak_reserved_bytes, rows[i].reserved);
        replay_result_free(&result);
    }
}

TEST(test_counts_and_peaks)
{
    static const char text[] = "#wtr 1\n"
                               "p 0 1048576 0 0x1000\n"
                               "a 0 1 2097152 0 0\n"
                               "a 1 2 3145728 0 0\n"
                               "f 2 1 0 0\n"
                               "r 3 2 3 4194304 0\n"
                               "f 4 3 - 0\n";
    struct replay_result result = replay(text, "direct", (struct replay_options){0});
    assert_int_equal(result.prior_blocks, 1);
    assert_int_equal(result.allocs, 3);
    assert_int_equal(result.frees, 3);
    /* A reallocation briefly holds the old and the new block. */
    assert_int_equal(result.peak_live_bytes, 8 * MIB);
    assert_int_equal(result.peak_reserved_bytes, 10 * MIB); /* 2 + 4 + 4: regions are multiples of 2 MiB */
    assert_false(result.oom.happened);
    assert_int_equal(result.hazards, 0);
    assert_int_equal(result.checks, 7); /* one check after the prior blocks, and one after each line */
    replay_result_free(&result);
}

TEST(test_size_zero_is_one)
{
    struct replay_result result = replay("#wtr 1\na 0 0 0 0 0\nf 1 0 0 0\n", "caching", (struct replay_options){0});
    assert_int_equal(result.peak_live_bytes, 1);
    replay_result_free(&result);
}

TEST(test_out_of_memory_is_a_result)
{
    static const char text[] = "#wtr 1\na 0 0 4194304 0 0\na 1 1 4194304 0 0\na 2 2 4194304 0 0\nf 3 0 0 0\n";
    struct replay_options options = {.capacity = 8 * MIB};
    struct replay_result result = replay(text, "caching", options);
    assert_true(result.oom.happened);
    assert_int_equal(result.oom.event, 2);
    assert_int_equal(result.oom.size, 4 * MIB);
    assert_non_null(strstr(result.oom.why, "4.00 MiB"));
    assert_int_equal(result.peak_reserved_bytes, 8 * MIB);
    assert_int_equal(result.hazards, 0);
    replay_result_free(&result);
}

/* The record names the holders by the trace's tags, for every strategy. */
TEST(test_out_of_memory_names_the_holders)
{
    static const char text[] = "#wtr 1\n"
                               "@3 weights\n"
                               "@9 kv cache\n"
                               "p 0 2097152 0 0x1000\n"
                               "a 0 1 4194304 0 0 @3\n"
                               "a 1 2 2097152 0 0 @9\n"
                               "a 2 3 8388608 0 0 @9\n";
    struct replay_options options = {.capacity = 12 * MIB};
    for (const struct replay_strategy *s = replay_strategies(); s->name != NULL; s++) {
        if (s->models_padding) {
            continue; /* the model takes regions that are larger than this device */
        }
        struct replay_result result = replay(text, s->name, options);
        const weir_oom_record *record = &result.oom.record;
        assert_true(result.oom.happened);
        assert_int_equal(record->failure, 1);
        assert_string_equal(record->tag_name, "kv cache");
        assert_int_equal(record->holder_count, 3);
        assert_string_equal(record->holders[0].name, "weights");
        assert_int_equal(record->holders[0].requested_bytes, 4 * MIB);
        const bool kv_first = strcmp(record->holders[1].name, "kv cache") == 0;
        assert_string_equal(record->holders[kv_first ? 2 : 1].name, "before the window");
        assert_true(record->advice_count > 0);
        replay_result_free(&result);
    }
}

/* A prior block that has a tag is counted under this tag, not under "before the window". */
TEST(test_holders_from_before_the_window)
{
    static const char text[] = "#wtr 1\n"
                               "@0 weights\n"
                               "s 0 + 0x10000000 6291456 0\n"
                               "p 0 4194304 0 0x10000000 @0\n"
                               "p 1 2097152 0 0x10400000\n"
                               "o 1 16777216 2097152\n";
    static const char *const strategies[] = {"caching", "size_class", "direct"};
    for (size_t i = 0; i < sizeof(strategies) / sizeof(*strategies); i++) {
        struct replay_result result = replay(text, strategies[i], (struct replay_options){.capacity = 8 * MIB});
        const weir_oom_record *record = &result.oom.record;
        assert_true(result.oom.happened);
        assert_int_equal(record->holder_count, 2);
        assert_string_equal(record->holders[0].name, "weights");
        assert_int_equal(record->holders[0].requested_bytes, 4 * MIB);
        assert_string_equal(record->holders[1].name, "before the window");
        assert_int_equal(record->holders[1].requested_bytes, 2 * MIB);
        replay_result_free(&result);
    }
}

/* A trace may have more tags than a pool: the tags with the fewest bytes share one. */
TEST(test_too_many_tags_share_one)
{
    enum { tags = 300 };
    char *text = calloc(1, 64 * 1024);
    assert_non_null(text);
    char *at = text + sprintf(text, "#wtr 1\n");
    for (int i = 0; i < tags; i++) {
        at += sprintf(at, "@%d %s%d\n", i,
                      i == 7 ? "a name that is rather longer than what a pool takes as a name, so it is cut " : "site ",
                      i);
    }
    for (int i = 0; i < tags; i++) { /* the first ones are the largest */
        at += sprintf(at, "a %d %d %d 0 0 @%d\n", i, i, 512 * (i == 7 ? 1000 : tags - i), i);
    }
    at += sprintf(at, "a %d %d %llu 0 0\n", tags, tags, 64ull << 20);
    struct replay_options options = {.capacity = 64 * MIB};
    struct replay_result result = replay(text, "caching", options);
    const weir_oom_record *record = &result.oom.record;
    assert_true(result.oom.happened);
    assert_string_equal(record->tag_name, "untagged");
    /* The 254th tag and all later ones share the name "other", and hold 47 x 48 / 2 x 512 bytes. */
    assert_string_equal(record->holders[0].name, "other");
    assert_int_equal(record->holders[0].requested_bytes, 47 * 48 / 2 * 512);
    assert_int_equal(record->holders[0].blocks, 47);
    assert_int_equal(strlen(record->holders[1].name), WEIR_TAG_NAME_BYTES - 1);
    assert_string_equal(record->holders[1].name + WEIR_TAG_NAME_BYTES - 4, "...");
    assert_string_equal(record->holders[2].name, "site 0");
    replay_result_free(&result);
    free(text);
}

/* Block 0 is used by a long kernel on stream 1 and freed on stream 0 at once; block 1 then asks for the same size. */
static const char race[] = "#wtr 1\n"
                           "a 0 0 4194304 0 0\n"
                           "u 1 0 1\n"
                           "w 2 1 5000000\n"
                           "f 3 0 0 0\n"
                           "a 4 1 4194304 0 0\n"
                           "f 5 1 0 0\n";

TEST(test_uses_are_honoured)
{
    for (const struct replay_strategy *s = replay_strategies(); s->name != NULL; s++) {
        struct replay_result result = replay(race, s->name, (struct replay_options){0});
        assert_int_equal(result.hazards, 0);
        replay_result_free(&result);
    }
}

TEST(test_ignored_uses_are_found)
{
    struct replay_options options = {.ignore_uses = true};
    struct replay_result result = replay(race, "caching", options);
    assert_int_equal(result.hazards, 1);
    assert_int_equal(result.hazards_in_flight, 1);
    assert_non_null(strstr(result.findings[0], "memory handed out while earlier work may still touch it"));
    replay_result_free(&result);
}

TEST(test_events_carry_order)
{
    /* Stream 1 waits for an event recorded after the free on stream 0, so it may take the memory without a wait by
     * weir. */
    static const char text[] = "#wtr 1\n"
                               "a 0 0 4194304 0 0\n"
                               "w 1 0 5000000\n"
                               "f 2 0 0 0\n"
                               "e 3 0 0\n"
                               "x 4 0 1\n"
                               "a 5 1 4194304 1 0\n"
                               "f 6 1 1 0\n";
    struct replay_result result = replay(text, "caching", (struct replay_options){0});
    assert_int_equal(result.hazards, 0);
    assert_int_equal(result.waits + result.syncs, 0);
    assert_int_equal(result.peak_reserved_bytes, 4 * MIB);
    assert_int_equal(result.served[WEIR_RUNG_ORDERED], 1);
    replay_result_free(&result);
}

/* A replay plays one device. If the file has a second device, the result is the same and the events keep their
 * numbers. */
TEST(test_one_device_of_several)
{
    static const char text[] = "#wtr 1\n#dev 0 cap=4194304\n#dev 1 cap=4194304\n"
                               "a 0 0 3145728 0 0\n"
                               "a 1 1 3145728 1 0 d=1\n"
                               "f 2 0 0 0\n"
                               "a 3 2 2097152 1 0 d=1\n"
                               "f 4 1 1 0\n";
    struct trace *both = trace_of_text(text);
    const struct replay_strategy *caching = replay_strategy_find("caching", 7);
    const struct replay_options options = {.check = true, .history = true};
    for (uint32_t device = 0; device < 2; device++) {
        char error[512] = "";
        struct trace *trace = NULL;
        struct trace_error problem = {0};
        struct replay_result result;
        assert_int_equal(trace_of_device(both, device, &trace, &problem), WEIR_OK);
        assert_true(replay_run(trace, caching, 0, &options, &result, error, sizeof(error)));
        assert_int_equal(result.peak_reserved_bytes, 4 * MIB);
        assert_int_equal(result.peak_live_bytes, 3 * MIB);
        assert_int_equal(result.oom.happened, device == 1);
        assert_int_equal(result.worst_event, device);
        assert_int_equal(result.regions[0].added, device);
        assert_int_equal(result.point_count, 2);
        assert_int_equal(result.points[1].event, device == 0 ? 2 : 3);
        if (device == 1) {
            assert_int_equal(result.oom.event, 3);
            assert_int_equal(result.oom.size, 2 * MIB);
        }
        replay_result_free(&result);
        trace_free(trace);
    }
    char error[512] = "";
    struct replay_result result;
    assert_false(replay_run(both, caching, 0, &options, &result, error, sizeof(error)));
    assert_non_null(strstr(error, "the trace uses several"));
    replay_result_free(&result);
    trace_free(both);
}

TEST(test_trim_and_capacity)
{
    static const char text[] = "#wtr 1\n"
                               "a 0 0 8388608 0 0\n"
                               "f 1 0 0 0\n"
                               "c 2\n"
                               "l 3 4194304\n"
                               "a 4 1 8388608 0 0\n";
    struct replay_result result = replay(text, "pytorch", (struct replay_options){0});
    assert_true(result.oom.happened); /* the trim has returned the memory, and the device has a smaller capacity now */
    assert_int_equal(result.oom.event, 4);
    replay_result_free(&result);
}

TEST(test_repeats)
{
    struct replay_options options = {.repeat = 5, .history = true};
    struct replay_result result = replay("#wtr 1\na 0 0 4096 0 0\na 1 1 4096 0 0\nf 2 0 0 0\n", "caching", options);
    assert_int_equal(result.allocs, 10);
    assert_int_equal(result.events_played, 15);
    assert_int_equal(result.region_count, 1);
    assert_int_equal(result.point_count, 3);
    assert_int_not_equal(result.places[0].address, 0);
    replay_result_free(&result);
}

/* A replay repeats the request of the last `o` event: the recorded program ran out of memory there. If an allocation
 * follows the `o` event, the recorded program went on, and the replay leaves the event out. */
TEST(test_the_request_that_was_refused)
{
    static const char text[] = "#wtr 1\n"
                               "s 0 + 0x10000000 20971520 0\n"
                               "p 0 8388608 0 0x10000000\n"
                               "o 1 77 0\n" /* the program went on */
                               "a 1 1 9437184 3 0 addr=0x10800000\n"
                               "f 2 1 3 0\n"
                               "o 3 12582912 1048576\n"
                               "m 4 I dumped\n";
    struct trace *trace = trace_of_text(text);
    const struct recorded_oom refused = recorded_oom_find(trace);
    assert_true(refused.found);
    assert_int_equal(refused.event, 5);
    assert_int_equal(refused.size, 12 * MIB);
    assert_int_equal(refused.stream, 3);
    assert_int_equal(refused.reserved_bytes, 20 * MIB);
    assert_int_equal(refused.capacity, 21 * MIB);
    trace_free(trace);
    struct replay_result result = replay(text, "caching", (struct replay_options){.capacity = 21 * MIB, .repeat = 2});
    assert_false(result.oom.happened);
    assert_int_equal(result.peak_live_bytes, 20 * MIB);
    assert_int_equal(result.events_played, 2 * 7);
    replay_result_free(&result);
    result = replay(text, "caching", (struct replay_options){.capacity = 18 * MIB});
    assert_true(result.oom.happened);
    assert_int_equal(result.oom.event, 5);
    assert_int_equal(result.oom.size, 12 * MIB);
    replay_result_free(&result);
}

/* If the sums of the segments contradict each other, or the free memory exceeds any device, the record implies no
 * capacity. */
TEST(test_absurd_refusals)
{
    static const struct {
        const char *text;
        uint64_t reserved;
    } cases[] = {
        {"#wtr 1\no 1 100 4194304\n", 0},
        {"#wtr 1\ns 0 + 0x1000 4194304 0\no 1 100 18446744073709551615\n", 4 * MIB},
        {"#wtr 1\ns 0 + 0x1000 18446744073709547519 0\ns 0 + 0x1000 4194304 0\no 1 100 1\n", UINT64_MAX},
        {"#wtr 1\ns 0 + 0x1000 512 0\ns 0 - 0x1000 4194304 0\no 1 100 4194304\n", 0},
        {"#wtr 1\ns 0 + 0x1000 512 0\no 1 100 512\n", 512},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct trace *trace = trace_of_text(cases[i].text);
        const struct recorded_oom refused = recorded_oom_find(trace);
        assert_true(refused.found);
        assert_int_equal(refused.reserved_bytes, cases[i].reserved);
        assert_int_equal(refused.capacity, 0);
        trace_free(trace);
    }
    struct trace *trace = trace_of_text("#wtr 1\no 1 100 4194304\na 2 0 8 0 0\n");
    assert_false(recorded_oom_find(trace).found);
    trace_free(trace);
    struct replay_result result = replay("#wtr 1\no 1 18446744073709551615 1\n", "caching", (struct replay_options){0});
    assert_true(result.oom.happened);
    replay_result_free(&result);
}
