/* sweep_test.c: a sweep uses the limits that it promises, and its result under each limit is that of a replay under
 * that limit. */
#include "rig/wtr.h"
#include "replay/live_peak.h"
#include "replay/sweep.h"

#include <weir/caching.h>

#include <stdio.h>
#include <string.h>

#define PIECE (2 * MIB)

static const struct sweep_range as_it_comes = {1000, 1300, 10, true};

static const struct replay_strategy *named(const char *name)
{
    return replay_strategy_find(name, strlen(name));
}

/* Runs a sweep with one strategy. */
static struct sweep sweep_of(const struct trace *trace, const struct replay_strategy *strategy,
                             struct sweep_range range, struct replay_options options)
{
    struct sweep sweep;
    char error[512] = "";
    const uint64_t pad = 0;
    if (!sweep_run(trace, &strategy, &pad, 1, &range, &options, &sweep, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    return sweep;
}

static struct trace *device_of(const struct trace *trace, uint32_t device)
{
    struct trace *one = NULL;
    struct trace_error error = {0};
    if (trace_of_device(trace, device, &one, &error) != WEIR_OK) {
        fail_msg("%s", error.message);
    }
    return one;
}

TEST(test_peaks_of_each_device)
{
    static const char text[] = "#wtr 1\n"
                               "p 0 4096 0 0x1000\n"
                               "a 0 1 1000 0 0\n"
                               "a 1 2 0 0 0\n" /* a request of 0 bytes counts as one byte */
                               "a 2 3 5000 1 0 d=1\n"
                               "r 3 1 4 3000 0\n" /* the old and the new block live at once */
                               "f 4 4 0 0\n"
                               "f 5 3 1 0\n"
                               "a 6 5 700 1 0 d=1\n";
    struct trace *trace = trace_of_text(text);
    const uint64_t expected[] = {4096 + 1000 + 1 + 3000, 5000};
    assert_int_equal(trace->device_count, 2);
    for (uint32_t d = 0; d < 2; d++) {
        uint64_t peak = 77;
        struct trace *one = device_of(trace, d);
        assert_true(live_peak(one, LIVE_ON_DEVICE, &peak));
        assert_int_equal(peak, expected[d]);
        assert_true(live_peak(one, LIVE_ON_HOST, &peak)); /* a host allocator grows the block in one call */
        assert_int_equal(peak, d == 0 ? 4096 + 3000 + 1 : 5000);
        trace_free(one);
    }
    trace_free(trace);
}

/* The sweep scales the peak that the replay counts. */
TEST(test_peak_is_that_of_the_replay)
{
    struct trace *trace = NULL;
    struct trace_error problem = {0};
    assert_int_equal(trace_read(WEIR_BUNDLED_TRACES_DIR "/ort_gpt6_kvcache_decode.wtr.xz", NULL, &trace, &problem),
                     WEIR_OK);
    struct replay_result result;
    char error[512] = "";
    const struct replay_options options = {.no_audit = true, .no_timing = true};
    uint64_t peak = 0;
    assert_int_equal(trace->device_count, 1);
    assert_true(replay_run(trace, named("caching"), 0, &options, &result, error, sizeof(error)));
    assert_true(live_peak(trace, LIVE_ON_DEVICE, &peak));
    assert_int_equal(peak, result.peak_live_bytes);
    replay_result_free(&result);
    trace_free(trace);
}

/* Five MiB: factors up to 1.20 give three pieces of 2 MiB, larger factors four. */
TEST(test_limits_are_rounded_up)
{
    struct trace *trace = trace_of_text("#wtr 1\na 0 0 5242880 0 0\nf 1 0 0 0\n");
    struct sweep sweep = sweep_of(trace, named("direct"), as_it_comes, (struct replay_options){0});
    assert_int_equal(sweep.point_count, 31);
    assert_int_equal(sweep.limit_count, 2);
    assert_int_equal(sweep.peak_bytes, 5 * MIB);
    assert_int_equal(sweep.granularity, PIECE);
    for (size_t i = 0; i < sweep.point_count; i++) {
        const struct sweep_point *point = &sweep.rows[0].points[i];
        assert_int_equal(point->factor, 1000 + 10 * i);
        assert_int_equal(point->limit, (i <= 20 ? 3 : 4) * PIECE);
        assert_true(point->served && point->played == 1.0);
    }
    assert_ptr_equal(sweep.rows[0].first, &sweep.rows[0].points[0]);
    assert_ptr_equal(sweep.rows[0].always, &sweep.rows[0].points[0]);
    sweep_free(&sweep);

    sweep = sweep_of(trace, named("direct"), (struct sweep_range){1, 101, 1, true}, (struct replay_options){0});
    assert_int_equal(sweep.point_count, sweep_most_points);
    assert_int_equal(sweep.limit_count, 1);
    assert_int_equal(sweep.rows[0].points[0].limit, PIECE);
    assert_null(sweep.rows[0].first);
    assert_null(sweep.rows[0].always);
    sweep_free(&sweep);
    trace_free(trace);
}

/* A trace on which the strategies differ: sizes of every kind, holes, streams. */
static char *mixed_trace(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fputs("#wtr 1\n", out);
    uint64_t random = 1;
    unsigned live[64];
    unsigned count = 0;
    unsigned blocks = 0;
    for (unsigned i = 0; i < 600; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        const unsigned dice = (unsigned)(random >> 40);
        if (count == 64 || (count > 0 && dice % 100 < 45)) {
            const unsigned pick = (dice >> 8) % count;
            (void)fprintf(out, "f %u %u 0 0\n", i, live[pick]);
            live[pick] = live[--count];
        } else {
            (void)fprintf(out, "a %u %u %u 0 0\n", i, blocks, 1000u << (dice >> 7) % 13);
            live[count++] = blocks++;
        }
    }
    assert_int_equal(fclose(out), 0);
    return text;
}

static void require_same(const struct sweep_point *point, const struct replay_result *result)
{
    assert_int_equal(point->served, !result->oom.happened);
    assert_int_equal(point->hazards, result->hazards);
    if (!point->served) {
        assert_int_equal(point->event, result->oom.event);
        assert_int_equal(point->size, result->oom.size);
    }
}

TEST(test_each_point_is_a_replay)
{
    char *text = mixed_trace();
    struct trace *trace = trace_of_text(text);
    const struct replay_strategy *strategies[16];
    uint64_t pads[16] = {0};
    size_t count = 0;
    for (const struct replay_strategy *s = replay_strategies(); s->name != NULL; s++) {
        pads[count] = s->fixed_pad > 0 ? (uint64_t)s->fixed_pad : 0;
        strategies[count++] = s;
    }
    const struct sweep_range range = {900, 2100, 50, true};
    const struct replay_options options = {.no_timing = true};
    struct sweep sweep;
    char error[512] = "";
    assert_true(sweep_run(trace, strategies, pads, count, &range, &options, &sweep, error, sizeof(error)));
    assert_int_equal(sweep.row_count, count);
    unsigned served = 0;
    unsigned refused = 0;
    for (size_t i = 0; i < count * sweep.point_count; i++) {
        const struct sweep_row *row = &sweep.rows[i / sweep.point_count];
        const struct sweep_point *point = &row->points[i % sweep.point_count];
        struct replay_options alone = options;
        struct replay_result result;
        alone.limit = point->limit;
        assert_true(replay_run(trace, row->strategy, row->pad_bytes, &alone, &result, error, sizeof(error)));
        require_same(point, &result);
        *(point->served ? &served : &refused) += 1;
        replay_result_free(&result);
    }
    assert_true(served > 50 && refused > 20);
    sweep_free(&sweep);
    trace_free(trace);
    free(text);
}

/* A bisection finds a limit that serves the trace right above one that does not, with a few replays, each of which has
 * the result of the sweep over all limits. */
TEST(test_a_bisection_ends_between_a_failure_and_a_success)
{
    char *text = mixed_trace();
    struct trace *trace = trace_of_text(text);
    const struct replay_options options = {.no_timing = true};
    unsigned found = 0;
    for (const struct replay_strategy *s = replay_strategies(); s->name != NULL; s++) {
        struct sweep all = sweep_of(trace, s, (struct sweep_range){900, 2100, 50, true}, options);
        struct sweep some = sweep_of(trace, s, (struct sweep_range){900, 2100, 50, false}, options);
        const struct sweep_point *known = some.rows[0].points;
        unsigned replayed = 0;
        for (size_t i = 0; i < some.point_count; i++) {
            const struct sweep_point *exact = &all.rows[0].points[i];
            replayed += known[i].replayed && (i == 0 || known[i].limit != known[i - 1].limit);
            assert_true(!known[i].replayed || (known[i].served == exact->served && known[i].event == exact->event));
            assert_true(exact->replayed);
        }
        assert_in_range(replayed, 1, 7); /* of 25 limits: the two ends, and five steps of bisection */
        assert_null(some.rows[0].always);
        const struct sweep_point *first = some.rows[0].first;
        if (first != NULL && first != known) {
            assert_true(first[-1].replayed && !first[-1].served);
            assert_true(first->served);
            found++;
        }
        sweep_free(&all);
        sweep_free(&some);
    }
    assert_true(found > 3);
    trace_free(trace);
    free(text);
}

/* --- a strategy that serves less when it may take more --- */

static uint64_t greedy_region_size(const void *strategy, uint64_t size, uint64_t align, uint64_t reserved,
                                   uint64_t granularity)
{
    const uint64_t modest = weir_caching_strategy()->region_size(strategy, size, align, reserved, granularity);
    return size > MIB ? 8 * MIB : modest;
}

static bool never_gather(void *strategy, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                         uint64_t size, uint64_t align, bool last_resort)
{
    (void)strategy, (void)lane, (void)tick, (void)limits, (void)lanes, (void)size, (void)align, (void)last_resort;
    return false;
}

static const weir_strategy_ops *greedy_strategy(void)
{
    static weir_strategy_ops ops;
    if (ops.name == NULL) { /* before any thread starts */
        ops = *weir_caching_strategy();
        ops.region_size = greedy_region_size;
        ops.gather = never_gather;
        ops.name = "greedy";
    }
    return &ops;
}

/* The trace requests 4 MiB and then 512 KiB, and the strategy takes too much for the large request. On 6 MiB the large
 * request gets 4 MiB and the small one 2; on 8 MiB the large one takes all 8, and the small one fails; on 10 MiB both
 * get as much as the strategy wants. */
TEST(test_more_memory_may_serve_less)
{
    static const struct replay_strategy greedy = {"greedy", "",   greedy_strategy, false, 0, WEIR_POOL_REGIONS,
                                                  NULL,     false};
    assert_non_null(greedy_strategy());
    struct trace *trace = trace_of_text("#wtr 1\na 0 0 4194304 0 0\na 1 1 524288 0 0\nf 2 0 0 0\n");
    struct sweep sweep =
        sweep_of(trace, &greedy, (struct sweep_range){800, 2200, 100, true}, (struct replay_options){.check = true});
    const struct sweep_row *row = &sweep.rows[0];
    assert_int_equal(sweep.limit_count, 4); /* 4, 6, 8 and 10 MiB */
    for (size_t i = 0; i < sweep.point_count; i++) {
        const struct sweep_point *point = &row->points[i];
        assert_int_equal(point->served, point->limit == 6 * MIB || point->limit == 10 * MIB);
        if (!point->served) {
            assert_int_equal(point->event, 1);
            assert_int_equal(point->size, MIB / 2);
            assert_true(point->played > 0.0 && point->played < 1.0);
        }
    }
    assert_int_equal(row->first->factor, 900);
    assert_int_equal(row->always->factor, 1800);
    sweep_free(&sweep);
    trace_free(trace);
}

/* --- devices, hazards, failures --- */

TEST(test_each_device_has_its_own_limit)
{
    static const char text[] = "#wtr 1\n"
                               "a 0 0 6291456 0 0\n"
                               "a 1 1 2097152 1 0 d=1\n"
                               "f 2 0 0 0\n"
                               "a 3 2 2097152 0 0\n"
                               "f 4 2 0 0\n";
    struct trace *trace = trace_of_text(text);
    static const uint64_t limits[2][2] = {{6 * MIB, 10 * MIB}, {2 * MIB, 4 * MIB}}; /* 9 and 3 MiB are rounded */
    for (uint32_t d = 0; d < 2; d++) {
        struct trace *one = device_of(trace, d);
        struct sweep sweep =
            sweep_of(one, named("direct"), (struct sweep_range){1000, 1500, 500, true}, (struct replay_options){0});
        const struct sweep_point *points = sweep.rows[0].points;
        assert_int_equal(sweep.peak_bytes, limits[d][0]);
        assert_true(points[0].limit == limits[d][0] && points[0].served);
        assert_int_equal(points[1].limit, limits[d][1]);
        sweep_free(&sweep);
        trace_free(one);
    }
    trace_free(trace);
}

TEST(test_hazards_are_counted)
{
    static const char race[] = "#wtr 1\n"
                               "a 0 0 4194304 0 0\n"
                               "u 1 0 1\n"
                               "w 2 1 5000000\n"
                               "f 3 0 0 0\n"
                               "a 4 1 4194304 0 0\n"
                               "f 5 1 0 0\n";
    struct trace *trace = trace_of_text(race);
    struct sweep sweep = sweep_of(trace, named("caching"), as_it_comes, (struct replay_options){.ignore_uses = true});
    assert_int_equal(sweep.rows[0].points[0].hazards, 1);
    sweep_free(&sweep);
    sweep = sweep_of(trace, named("caching"), as_it_comes, (struct replay_options){0});
    assert_int_equal(sweep.rows[0].points[0].hazards, 0);
    sweep_free(&sweep);
    trace_free(trace);
}

TEST(test_absurd_sizes_and_no_blocks)
{
    struct trace *trace = trace_of_text("#wtr 1\n"
                                        "a 0 0 4096 0 0\n"
                                        "a 1 1 18446744073709551615 0 0\n"
                                        "a 2 2 18446744073709551615 0 0\n");
    struct sweep sweep =
        sweep_of(trace, named("caching"), (struct sweep_range){1, 100001, 10000, true}, (struct replay_options){0});
    for (size_t i = 0; i < sweep.point_count; i++) {
        assert_false(sweep.rows[0].points[i].served);
        assert_int_equal(sweep.rows[0].points[i].event, 1);
        assert_true(sweep.rows[0].points[i].limit <= UINT64_C(1) << 44);
    }
    sweep_free(&sweep);
    trace_free(trace);
    trace = trace_of_text("#wtr 1\nw 0 0 1000\n");
    sweep = sweep_of(trace, named("caching"), as_it_comes, (struct replay_options){0});
    assert_int_equal(sweep.peak_bytes, 0);
    assert_int_equal(sweep.rows[0].first->factor, 1000);
    sweep_free(&sweep);
    trace_free(trace);
}

TEST(test_a_replay_that_breaks_ends_the_sweep)
{
    struct trace *trace = trace_of_text("#wtr 1\n#dev 0 cap=1\na 0 0 8 0 0\n");
    const struct replay_strategy *strategies[2] = {named("caching"), named("direct")};
    const uint64_t pads[2] = {0, 0};
    const struct replay_options options = {0};
    struct sweep sweep;
    char error[512] = "";
    assert_false(sweep_run(trace, strategies, pads, 2, &as_it_comes, &options, &sweep, error, sizeof(error)));
    assert_non_null(strstr(error, "#dev 0 cap=1"));
    assert_null(sweep.rows);
    assert_int_equal(sweep.row_count, 0);
    trace_free(trace);
}

/* --- a capacity that is enough --- */

static uint64_t enough_of(const struct trace *trace, const char *name)
{
    char error[512] = "";
    uint64_t enough = 77;
    const struct replay_options options = {.capacity = 2 * MIB, .limit = 2 * MIB}; /* both are ignored */
    if (!sweep_enough(trace, named(name), 0, &options, &enough, error, sizeof(error))) {
        fail_msg("%s", error);
    }
    return enough;
}

static bool serves(const struct trace *trace, const char *name, uint64_t capacity)
{
    char error[512] = "";
    struct replay_result result;
    const struct replay_options options = {.capacity = capacity, .no_timing = true};
    assert_true(replay_run(trace, named(name), 0, &options, &result, error, sizeof(error)));
    const bool served = !result.oom.happened;
    replay_result_free(&result);
    return served;
}

TEST(test_enough_is_enough)
{
    char *text = mixed_trace();
    struct trace *trace = trace_of_text(text);
    static const char *const names[] = {"caching", "pytorch", "direct", "caching+vm"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const uint64_t enough = enough_of(trace, names[i]);
        assert_true(enough > 0 && enough % PIECE == 0);
        assert_true(serves(trace, names[i], enough));
        const uint64_t step = enough / 256 > PIECE ? enough / 256 : PIECE;
        assert_false(serves(trace, names[i], enough - step));
    }
    trace_free(trace);
    free(text);

    /* the trace ends with a request that was refused */
    trace = trace_of_text("#wtr 1\na 0 0 6291456 0 0\no 1 4194304 0\n");
    assert_int_equal(enough_of(trace, "direct"), 10 * MIB);
    assert_int_equal(enough_of(trace, "pytorch"), 20 * MIB);
    trace_free(trace);
    trace = trace_of_text("#wtr 1\na 0 0 6291456 0 0\no 1 18446744073709551615 0\n");
    assert_int_equal(enough_of(trace, "direct"), 0);
    trace_free(trace);
}

struct heard {
    double last;
    bool fell;
};

/* Runs on either thread, so it asserts nothing. */
static void hear(void *ctx, double share)
{
    struct heard *heard = ctx;
    heard->fell |= share <= heard->last;
    heard->last = share;
}

TEST(test_progress_rises_to_the_end)
{
    struct heard heard = {0};
    struct trace *trace = trace_of_text("#wtr 1\na 0 0 52428800 0 0\nf 1 0 0 0\n");
    struct sweep sweep = sweep_of(trace, named("caching"), as_it_comes,
                                  (struct replay_options){.progress = hear, .progress_ctx = &heard});
    assert_true(heard.last == 1.0 && !heard.fell);
    sweep_free(&sweep);
    trace_free(trace);
}
