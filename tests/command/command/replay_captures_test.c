/* replay_captures_test.c: the memory of captured graphs in a replay: the bytes that the capture pools of the recorded
 * program report, and what PyTorch's private pools would take.
 *
 * A live program runs over a pool of the simulator: it allocates and frees on three streams, inside and outside of
 * captures into two capture pools, forks and joins streams in them and releases a capture pool. It runs twice with the
 * same calls: recorded, and as it is in production, with its front caches. The most that its capture pools report
 * together is what the replay of the recording must predict, to a handle of the device. */
#define KEPT_BYTES (1 << 20)
#include "rig/seeds.h"
#include "rig/sim.h"
#include "rig/sink.h"
#include "rig/wtr.h"

#include "replay/replay.h"

#include <weir/caching.h>
#include <weir/capture.h>

#include <inttypes.h>

#define HANDLE (2 * MIB) /* the least that the device gives */

enum { STREAMS = 3, POOLS = 2, BLOCKS = 48, STEPS = 400 };

/* --- the live program --- */

struct held {
    weir_block *block;
    size_t stream;
};

struct program {
    uint64_t random;
    weir_sim *sim;
    weir_pool *pool;
    weir_sim_stream *native[STREAMS];
    weir_stream *stream[STREAMS];
    weir_capture_pool *captures[POOLS];
    bool used[POOLS]; /* by a capture */
    weir_event *event;
    size_t capturing; /* the capture pool of the capture under way; POOLS: none */
    size_t origin;    /* the stream on which it began */
    bool captured[STREAMS];
    struct held held[BLOCKS];
    size_t count;
    uint64_t most_bytes; /* of the capture pools, together */
};

static uint64_t rnd(struct program *p, uint64_t below)
{
    p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (p->random >> 33) % below;
}

static uint64_t random_size(struct program *p)
{
    static const uint64_t most[] = {4 * KIB, 512 * KIB, 3 * MIB, 24 * MIB};
    const uint64_t kind = rnd(p, 4);
    return 1 + rnd(p, most[kind]);
}

/* The pool meets a stream with its first use, as a replay does: so lanes have the same order in both. */
static weir_stream *stream_of(struct program *p, size_t s)
{
    if (p->stream[s] == NULL) {
        p->native[s] = new_stream(p->sim);
        ok(weir_pool_stream(p->pool, p->native[s], &p->stream[s]));
    }
    return p->stream[s];
}

static void alloc(struct program *p)
{
    const size_t stream = rnd(p, STREAMS);
    const uint64_t size = random_size(p);
    if (p->count < BLOCKS) {
        struct held *held = &p->held[p->count++];
        held->stream = stream;
        ok(weir_pool_alloc(p->pool, stream_of(p, stream), size, 0, &held->block));
    }
}

static void give(struct program *p, size_t index, size_t stream)
{
    ok(weir_pool_free(p->pool, p->held[index].block, stream_of(p, stream)));
    p->held[index] = p->held[--p->count];
}

static void free_any(struct program *p)
{
    if (p->count > 0) {
        const size_t index = rnd(p, p->count);
        give(p, index, p->held[index].stream);
    }
}

/* Orders work on `to` after the work on `from`, with the hints of a program that tells them. */
static void order_streams(struct program *p, size_t from, size_t to)
{
    weir_device *device = weir_sim_device(p->sim);
    weir_stream *before = stream_of(p, from);
    weir_stream *after = stream_of(p, to);
    ok(weir_stream_recorded(p->pool, p->event, before));
    ok(weir_device_event_record(device, p->event, p->native[from]));
    ok(weir_device_stream_wait_event(device, p->native[to], p->event));
    ok(weir_stream_waited(p->pool, after, p->event));
}

static void begin(struct program *p)
{
    p->capturing = rnd(p, POOLS);
    p->origin = rnd(p, STREAMS);
    p->captured[p->origin] = true;
    p->used[p->capturing] = true;
    ok(weir_capture_begin(p->captures[p->capturing], stream_of(p, p->origin)));
}

static void fork_stream(struct program *p)
{
    const size_t to = rnd(p, STREAMS);
    if (p->capturing < POOLS && to != p->origin) {
        order_streams(p, p->origin, to);
        p->captured[to] = true;
    }
}

static void note_bytes(struct program *p)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < POOLS; i++) {
        weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
        ok(weir_capture_get_stats(p->captures[i], &stats));
        bytes += stats.live_bytes + stats.free_bytes;
    }
    p->most_bytes = bytes > p->most_bytes ? bytes : p->most_bytes;
}

static void end(struct program *p)
{
    for (size_t s = 0; s < STREAMS; s++) {
        if (p->captured[s] && s != p->origin) {
            order_streams(p, s, p->origin);
        }
        p->captured[s] = false;
    }
    note_bytes(p);
    ok(weir_capture_end(p->captures[p->capturing]));
    p->capturing = POOLS;
}

/* Destroys the graphs of a capture pool, after their last launch. */
static void release(struct program *p, size_t pool)
{
    for (size_t s = 0; s < STREAMS; s++) {
        weir_stream *stream = stream_of(p, s);
        ok(weir_device_stream_sync(weir_sim_device(p->sim), p->native[s]));
        ok(weir_stream_synced(p->pool, stream));
    }
    ok(weir_capture_pool_release(p->captures[pool]));
    p->used[pool] = false;
}

static void step(struct program *p)
{
    const uint64_t what = rnd(p, 100);
    if (what < 46) {
        alloc(p);
    } else if (what < 88) {
        free_any(p);
    } else if (what < 94) {
        if (p->capturing == POOLS) {
            begin(p);
        } else {
            end(p);
        }
    } else if (what < 99) {
        fork_stream(p);
    } else if (p->capturing == POOLS) {
        const size_t pool = rnd(p, POOLS);
        if (p->used[pool]) { /* a recording does not know of others */
            release(p, pool);
            ok(weir_capture_pool_create(p->pool, &p->captures[pool]));
        }
    }
}

static struct kept recorded;

/* Runs the program; `records`: into `recorded`. Returns the most bytes of its capture pools. */
static uint64_t live_bytes(uint64_t seed, uint32_t flags, bool records)
{
    struct program p = {.random = seed, .sim = new_sim(free_of_charge()), .capturing = POOLS};
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_recorder_config sink = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    config.device = weir_sim_device(p.sim);
    config.strategy = weir_caching_strategy();
    config.flags = flags;
    sink.sink = keep;
    sink.sink_ctx = &recorded;
    ok(weir_pool_create(&config, &p.pool));
    if (records) {
        recorded.length = 0;
        ok(weir_recorder_start(p.pool, &sink, &recorder));
    }
    p.event = new_event(p.sim);
    for (size_t i = 0; i < POOLS; i++) {
        ok(weir_capture_pool_create(p.pool, &p.captures[i]));
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step(&p);
    }
    if (p.capturing < POOLS) {
        end(&p);
    }
    while (p.count > 0) {
        give(&p, p.count - 1, p.held[p.count - 1].stream);
    }
    for (size_t i = 0; i < POOLS; i++) {
        release(&p, i);
    }
    if (records) {
        uint64_t lost = 0;
        ok(weir_recorder_stop(recorder, &lost));
        assert_int_equal(lost, 0);
    }
    ok(weir_device_event_destroy(weir_sim_device(p.sim), p.event));
    ok(weir_pool_destroy(p.pool));
    ok(weir_sim_destroy(p.sim));
    return p.most_bytes;
}

/* --- the replay --- */

static struct replay_result replay(const char *text, const char *strategy)
{
    struct replay_result result;
    char error[512] = "";
    struct trace *trace = trace_of_text(text);
    const struct replay_options options = {0};
    if (!replay_run(trace, replay_strategy_find(strategy, strlen(strategy)), 0, &options, &result, error,
                    sizeof(error))) {
        fail_msg("%s", error);
    }
    trace_free(trace);
    return result;
}

TEST(the_replay_predicts_what_the_capture_pools_report)
{
    static const struct {
        const char *strategy;
        uint32_t flags;
    } rows[] = {{"caching", WEIR_POOL_REGIONS}, {"caching+vm", 0}};
    const uint64_t first = seeds_first();
    for (uint64_t seed = first; seed < first + seeds_count(12, 10); seed++) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            const uint64_t production = live_bytes(seed, rows[i].flags, false);
            assert_int_not_equal(production, 0);
            (void)live_bytes(seed, rows[i].flags, true);
            struct replay_result result = replay(recorded.text, rows[i].strategy);
            const uint64_t off = result.capture_bytes > production ? result.capture_bytes - production
                                                                   : production - result.capture_bytes;
            if (off >= HANDLE || result.hazards != 0) {
                fail_msg("seed %" PRIu64 ", %s: the capture pools have %" PRIu64 " bytes, the replay %" PRIu64
                         ", with %" PRIu64 " hazards",
                         seed, rows[i].strategy, production, result.capture_bytes, result.hazards);
            }
            replay_result_free(&result);
        }
    }
}

/* Eight sessions of 384 MiB, each captured on a stream of its own: graphs of a capture pool share their memory on any
 * streams, PyTorch's private pool pays for each stream. */
TEST(pytorch_pays_for_each_stream)
{
    static const struct {
        const char *strategy;
        uint64_t mib;
    } rows[] = {{"caching", 384}, {"size_class", 384}, {"bump", 384}, {"direct", 384}, {"pytorch", 3072}};
    char text[8192] = "#wtr 1\n";
    size_t length = strlen(text);
    for (unsigned s = 0; s < 8; s++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "g 0 B 0 %u\n", s);
        for (unsigned i = 0; i < 6; i++) {
            length += (size_t)snprintf(text + length, sizeof(text) - length, "a 0 %u 67108864 %u 0\n", 6 * s + i, s);
        }
        for (unsigned i = 0; i < 6; i++) {
            length += (size_t)snprintf(text + length, sizeof(text) - length, "f 0 %u %u 0\n", 6 * s + i, s);
        }
        length += (size_t)snprintf(text + length, sizeof(text) - length, "g 0 E 0 %u\n", s);
    }
    (void)snprintf(text + length, sizeof(text) - length, "g 0 R 0\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay_result result = replay(text, rows[i].strategy);
        assert_int_equal(result.capture_bytes, rows[i].mib * MIB);
        assert_int_equal(result.peak_reserved_bytes, rows[i].mib * MIB);
        assert_int_equal(result.hazards, 0);
        replay_result_free(&result);
    }
}

/* Graphs keep their memory until the release: work outside takes other memory, and the memory of graphs after it. */
TEST(graphs_keep_their_memory)
{
    static const char kept[] = "#wtr 1\ng 0 B 3 0\na 0 1 4194304 0 0\nf 0 1 0 0\ng 0 E 3 0\n"
                               "a 0 2 4194304 0 0\nf 0 2 0 0\ng 0 R 3\na 0 3 4194304 0 0\na 0 4 4194304 0 0\n";
    static const char open[] = "#wtr 1\ng 0 B 3 0\na 0 1 4194304 0 0\n"; /* the recording ends in a capture */
    struct replay_result result = replay(kept, "caching");
    assert_int_equal(result.capture_bytes, 4 * MIB);
    assert_int_equal(result.peak_reserved_bytes, 8 * MIB);
    assert_int_equal(result.hazards, 0);
    replay_result_free(&result);
    result = replay(open, "caching");
    assert_int_equal(result.capture_bytes, 4 * MIB);
    replay_result_free(&result);
    result = replay("#wtr 1\na 0 1 4194304 0 0\n", "caching");
    assert_int_equal(result.capture_bytes, 0);
    replay_result_free(&result);
}
