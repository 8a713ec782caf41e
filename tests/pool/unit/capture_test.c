/* tests/pool/unit/capture_test.c: pools whose streams are captured into graphs (weir/capture.h).
 *
 * The device is one whose streams a test captures and lets go. It fails the test if the pool makes a call for a stream
 * that is being captured. Its events are never complete, unless a test says so.
 */
#include "rig/sink.h"
#include "rig/test.h"
#include "fake_device.h"

#include <weir/adaptor.h>
#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/capture.h>
#include <weir/observer.h>
#include <weir/size_class.h>
#include <weir/trace.h>

#include <stdio.h>

#define MOST_STREAMS 4u
#define BIG (4 * MIB)

struct graphs {
    struct fake_device fake;
    uint64_t capture[MOST_STREAMS]; /* by native stream */
    void (*gone[8])(void *arg);     /* by number of the capture */
    void *arg[8];
    bool tells;
    int asked;
    int touched; /* calls for a stream that is being captured */
    int waits;
    int records;
};

struct world {
    struct graphs graphs;
    weir_device *device;
    weir_pool *pool;
    weir_stream *stream[MOST_STREAMS];
};

static void *native(size_t stream)
{
    return (void *)(uintptr_t)(0x100 + stream);
}

static uint64_t capture_of(const struct graphs *graphs, const void *native_stream)
{
    return graphs->capture[(uintptr_t)native_stream - 0x100];
}

static weir_status stream_capture(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg), void *arg)
{
    struct graphs *graphs = ctx;
    graphs->asked++;
    *capture = capture_of(graphs, native_stream);
    if (gone == NULL || *capture == 0) {
        return WEIR_OK;
    }
    if (!graphs->tells) {
        return WEIR_ERR_UNSUPPORTED;
    }
    graphs->gone[*capture] = gone;
    graphs->arg[*capture] = arg;
    return WEIR_OK;
}

static weir_status event_record(void *ctx, weir_event *event, void *native_stream)
{
    struct graphs *graphs = ctx;
    graphs->touched += capture_of(graphs, native_stream) != 0;
    graphs->records++;
    return fake_event_record(ctx, event, native_stream);
}

static weir_status stream_wait_event(void *ctx, void *native_stream, weir_event *event)
{
    struct graphs *graphs = ctx;
    graphs->touched += capture_of(graphs, native_stream) != 0;
    graphs->waits++;
    return fake_stream_wait_event(ctx, native_stream, event);
}

static weir_status stream_sync(void *ctx, void *native_stream)
{
    struct graphs *graphs = ctx;
    graphs->touched += capture_of(graphs, native_stream) != 0;
    return fake_stream_sync(ctx, native_stream);
}

/* Makes a pool with `streams` streams. */
static void begin_pool(struct world *w, const weir_strategy_ops *strategy, uint32_t flags, uint64_t limit_bytes,
                       size_t streams)
{
    *w = (struct world){.graphs.tells = true};
    fake_init(&w->graphs.fake);
    fake_without_virtual_memory(&w->graphs.fake);
    w->graphs.tells = true;
    w->graphs.fake.ops.stream_capture = stream_capture;
    w->graphs.fake.ops.event_record = event_record;
    w->graphs.fake.ops.stream_wait_event = stream_wait_event;
    w->graphs.fake.ops.stream_sync = stream_sync;
    assert_int_equal(weir_device_create(&w->graphs.fake.ops, &w->graphs, &w->device), WEIR_OK);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = w->device;
    config.strategy = strategy;
    config.flags = flags;
    config.limit_bytes = limit_bytes;
    config.growth = WEIR_GROWTH_GROW_FIRST;
    assert_int_equal(weir_pool_create(&config, &w->pool), WEIR_OK);
    for (size_t i = 0; i < streams; i++) {
        assert_int_equal(weir_pool_stream(w->pool, native(i), &w->stream[i]), WEIR_OK);
    }
}

static void begin(struct world *w, uint32_t flags)
{
    begin_pool(w, weir_caching_strategy(), flags, 0, 3);
}

/* Graphs that a test has left are destroyed after the pool, which has left notes of its own with the device. */
static void end(struct world *w)
{
    const char *why = "";
    memset(w->graphs.capture, 0, sizeof(w->graphs.capture));
    assert_int_equal(weir_pool_check(w->pool, &why), WEIR_OK);
    assert_int_equal(weir_pool_destroy(w->pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(w->device), WEIR_OK);
    assert_int_equal(w->graphs.touched, 0);
    for (size_t i = 0; i < sizeof(w->graphs.gone) / sizeof(w->graphs.gone[0]); i++) {
        if (w->graphs.gone[i] != NULL) {
            w->graphs.gone[i](w->graphs.arg[i]);
        }
    }
}

static weir_block *take(struct world *w, size_t stream, uint64_t size)
{
    weir_block *block = NULL;
    assert_int_equal(weir_pool_alloc(w->pool, w->stream[stream], size, 0, &block), WEIR_OK);
    return block;
}

static void give(struct world *w, weir_block *block, size_t stream)
{
    assert_int_equal(weir_pool_free(w->pool, block, w->stream[stream]), WEIR_OK);
}

static uint64_t address_of_next(struct world *w, size_t stream, uint64_t size)
{
    weir_block *block = take(w, stream, size);
    const uint64_t address = weir_block_address(block);
    give(w, block, stream);
    return address;
}

/* True if one of the blocks that a stream can get without growth of the pool has the address. */
static bool comes_back(struct world *w, size_t stream, uint64_t address)
{
    bool found = false;
    for (int i = 0; i < 8; i++) {
        found |= weir_block_address(take(w, stream, BIG)) == address;
    }
    return found;
}

static void destroy_graph(struct world *w, uint64_t capture)
{
    assert_non_null(w->graphs.gone[capture]);
    w->graphs.gone[capture](w->graphs.arg[capture]);
    w->graphs.gone[capture] = NULL;
}

/* --- captures that the device tells --- */

/* Memory freed in a capture serves the capture again, and nothing else before the graph is gone; then any stream. */
TEST(memory_of_a_graph_stays_with_it)
{
    struct world w;
    begin(&w, 0);
    w.graphs.fake.event_complete = true;
    w.graphs.capture[0] = 1;
    weir_block *block = take(&w, 0, BIG);
    const uint64_t address = weir_block_address(block);
    give(&w, block, 0);
    assert_int_equal(address_of_next(&w, 0, BIG), address);
    assert_int_not_equal(address_of_next(&w, 1, BIG), address);
    w.graphs.capture[0] = 0;
    assert_int_not_equal(address_of_next(&w, 0, BIG), address);
    w.graphs.capture[0] = 2; /* another graph */
    assert_int_not_equal(address_of_next(&w, 0, BIG), address);
    w.graphs.capture[0] = 0;
    destroy_graph(&w, 1);
    assert_true(comes_back(&w, 2, address));
    destroy_graph(&w, 2);
    end(&w);
}

/* The graph still writes a block that was allocated in its capture, whichever stream frees the block afterwards. */
TEST(a_block_of_a_graph_stays_after_its_free)
{
    struct world w;
    begin(&w, 0);
    w.graphs.capture[0] = 1;
    weir_block *kept = take(&w, 0, BIG);
    weir_block *idle = take(&w, 0, BIG);
    w.graphs.capture[0] = 0;
    assert_ptr_equal(weir_block_stream(kept), w.stream[0]);
    const uint64_t address = weir_block_address(kept);
    const uint64_t idle_address = weir_block_address(idle);
    give(&w, kept, 0);
    assert_int_equal(weir_pool_free_idle(w.pool, idle), WEIR_OK);
    w.graphs.fake.event_complete = true;
    for (size_t stream = 0; stream < 3; stream++) {
        const uint64_t next = address_of_next(&w, stream, BIG);
        assert_true(next != address && next != idle_address);
    }
    destroy_graph(&w, 1);
    weir_block *first = take(&w, 1, BIG);
    weir_block *second = take(&w, 1, BIG);
    weir_block *third = take(&w, 1, BIG);
    weir_block *fourth = take(&w, 1, BIG);
    const uint64_t found[] = {weir_block_address(first), weir_block_address(second), weir_block_address(third),
                              weir_block_address(fourth)};
    int back = 0;
    for (size_t i = 0; i < 4; i++) {
        back += found[i] == address || found[i] == idle_address;
    }
    assert_int_equal(back, 2);
    end(&w);
}

/* A block from before the capture that is freed in it belongs to the graph as well. */
TEST(a_block_that_is_freed_in_a_capture_stays)
{
    struct world w;
    begin(&w, 0);
    weir_block *block = take(&w, 0, BIG);
    const uint64_t address = weir_block_address(block);
    w.graphs.capture[0] = 1;
    give(&w, block, 0);
    assert_int_equal(address_of_next(&w, 0, BIG), address);
    w.graphs.capture[0] = 0;
    assert_int_not_equal(address_of_next(&w, 0, BIG), address);
    destroy_graph(&w, 1);
    end(&w);
}

/* The first launch comes after the work that the stream had queued: what was freed before may go into the graph. Memory
 * of another stream may not, before the host has seen its work complete; and no stream is made to wait. */
TEST(a_capture_takes_what_its_stream_freed_before)
{
    struct world w;
    begin_pool(&w, weir_caching_strategy(), 0, 16 * MIB, 3);
    weir_block *own = take(&w, 0, BIG);
    const uint64_t own_address = weir_block_address(own);
    weir_block *other = take(&w, 1, BIG);
    const uint64_t other_address = weir_block_address(other);
    give(&w, own, 0);
    give(&w, other, 1);
    w.graphs.capture[0] = 1;
    weir_block *first = take(&w, 0, BIG);
    assert_int_equal(weir_block_address(first), own_address);
    weir_block *second = take(&w, 0, BIG);
    assert_int_not_equal(weir_block_address(second), other_address);
    weir_block *third = take(&w, 0, BIG);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_block *fourth = take(&w, 0, BIG); /* the limit forbids more: the host waits for the other stream */
    assert_int_equal(weir_block_address(fourth), other_address);
    assert_int_equal(weir_pool_get_stats(w.pool, &stats), WEIR_OK);
    assert_int_equal(stats.waits, 0);
    assert_int_equal(stats.syncs, 1);
    assert_int_equal(w.graphs.waits, 0);
    assert_int_equal(stats.device_failures, 0);
    (void)third;
    end(&w);
}

/* Memory that a captured stream freed before its capture cannot be waited for. The request of another stream fails; and
 * nothing is recorded on the captured stream. */
TEST(no_event_goes_into_a_capture)
{
    struct world w;
    begin_pool(&w, weir_caching_strategy(), 0, BIG, 2);
    weir_block *block = take(&w, 0, BIG);
    give(&w, block, 0);
    w.graphs.capture[0] = 1;
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[1], BIG, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_stream_retire(w.pool, w.stream[0]), WEIR_ERR_BUSY);
    weir_tick mark = 0;
    assert_int_equal(weir_stream_mark(w.pool, w.stream[0], &mark), WEIR_ERR_BUSY);
    assert_int_equal(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL), WEIR_OK);
    w.graphs.capture[0] = 0;
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[1], BIG, 0, &block), WEIR_OK);
    end(&w);
}

/* Inside a graph the hints order streams as they do outside. What one learns in a capture counts in it only. */
TEST(forks_and_joins_are_learnt_from_hints)
{
    struct world w;
    int fork = 0;
    int join = 0;
    begin(&w, 0);
    weir_block *outside = take(&w, 1, BIG);
    const uint64_t outside_address = weir_block_address(outside);
    give(&w, outside, 1); /* work of stream 1 from before the capture, which is no part of the graph */
    w.graphs.capture[0] = 1;
    weir_block *block = take(&w, 0, BIG);
    const uint64_t address = weir_block_address(block);
    give(&w, block, 0);
    assert_int_equal(weir_stream_recorded(w.pool, &fork, w.stream[0]), WEIR_OK);
    w.graphs.capture[1] = 1;
    assert_int_equal(weir_stream_waited(w.pool, w.stream[1], &fork), WEIR_OK);
    block = take(&w, 1, BIG);
    assert_int_equal(weir_block_address(block), address);
    give(&w, block, 1);
    assert_int_not_equal(address_of_next(&w, 0, BIG), address); /* not joined yet */
    assert_int_equal(weir_stream_recorded(w.pool, &join, w.stream[1]), WEIR_OK);
    assert_int_equal(weir_stream_waited(w.pool, w.stream[0], &join), WEIR_OK);
    weir_block *first = take(&w, 0, BIG);
    weir_block *second = take(&w, 0, BIG);
    assert_true(weir_block_address(first) == address || weir_block_address(second) == address);
    assert_true(weir_block_address(first) != outside_address && weir_block_address(second) != outside_address);
    w.graphs.capture[0] = w.graphs.capture[1] = 0;
    assert_int_equal(weir_stream_waited(w.pool, w.stream[0], &join), WEIR_OK); /* an event of a capture that is over */
    for (size_t i = 0; i < 2; i++) {
        block = take(&w, 0, BIG);
        assert_int_not_equal(weir_block_address(block), outside_address);
    }
    destroy_graph(&w, 1);
    end(&w);
}

/* Waits and synchronisations that a program reports by mistake for captured work change nothing outside. */
TEST(captured_work_never_completes)
{
    struct world w;
    int event = 0;
    begin(&w, 0);
    w.graphs.capture[0] = 1;
    const uint64_t address = address_of_next(&w, 0, BIG);
    assert_int_equal(weir_stream_recorded(w.pool, &event, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_stream_synced(w.pool, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_event_synced(w.pool, &event), WEIR_OK);
    assert_int_equal(weir_stream_waited(w.pool, w.stream[1], &event), WEIR_OK);
    w.graphs.fake.event_complete = true;
    assert_int_not_equal(address_of_next(&w, 1, BIG), address);
    assert_int_not_equal(address_of_next(&w, 2, BIG), address);
    destroy_graph(&w, 1);
    end(&w);
}

TEST(strategies_with_lanes_of_their_own_keep_to_it)
{
    struct world w;
    begin_pool(&w, weir_size_class_strategy(), 0, 0, 3);
    for (uint64_t size = 2048; size <= BIG; size *= 16) {
        w.graphs.capture[0] = 1;
        const uint64_t address = address_of_next(&w, 0, size);
        assert_int_equal(address_of_next(&w, 0, size), address);
        w.graphs.capture[0] = 0;
        assert_int_not_equal(address_of_next(&w, 0, size), address);
        assert_int_not_equal(address_of_next(&w, 1, size), address);
    }
    destroy_graph(&w, 1);
    end(&w);
}

/* The device may use the number of a destroyed graph again, while work from before the first capture still runs: the
 * memory of the second graph does not go with that of the first. */
TEST(a_number_that_is_used_again_is_of_another_graph)
{
    struct world w;
    begin(&w, 0);
    give(&w, take(&w, 0, BIG), 0);
    w.graphs.capture[0] = 1;
    (void)take(&w, 0, BIG);
    destroy_graph(&w, 1);
    weir_block *block = take(&w, 0, BIG);
    const uint64_t address = weir_block_address(block);
    give(&w, block, 0);
    w.graphs.capture[0] = 0;
    w.graphs.fake.event_complete = true;
    assert_false(comes_back(&w, 1, address));
    destroy_graph(&w, 1);
    assert_true(comes_back(&w, 1, address));
    end(&w);
}

/* Without word of the graph's end its memory stays aside until the pool's end. */
TEST(a_device_that_does_not_tell_the_end)
{
    struct world w;
    begin(&w, 0);
    w.graphs.tells = false;
    w.graphs.capture[0] = 1;
    const uint64_t address = address_of_next(&w, 0, BIG);
    w.graphs.capture[0] = 0;
    assert_int_not_equal(address_of_next(&w, 0, BIG), address);
    end(&w);
}

/* A stream that other streams' captures forbid to touch counts as captured for events and as itself for blocks. */
TEST(a_stream_that_is_captured_by_implication)
{
    struct world w;
    begin(&w, 0);
    w.graphs.capture[0] = WEIR_CAPTURE_IMPLICIT;
    const uint64_t address = address_of_next(&w, 0, BIG);
    assert_int_equal(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL), WEIR_OK);
    assert_int_equal(address_of_next(&w, 0, BIG), address);
    w.graphs.capture[0] = 0;
    assert_int_equal(address_of_next(&w, 0, BIG), address);
    end(&w);
}

/* --- captures that the program tells --- */

/* A pool that is told asks nothing in calls for blocks. */
TEST(a_pool_that_is_told_does_not_ask)
{
    struct world w;
    begin(&w, WEIR_POOL_CAPTURES_TOLD);
    for (size_t i = 0; i < 100; i++) {
        (void)address_of_next(&w, 0, BIG);
    }
    assert_int_equal(w.graphs.asked, 0);
    end(&w);
    begin(&w, 0);
    (void)address_of_next(&w, 0, BIG);
    assert_int_equal(w.graphs.asked, 2);
    end(&w);
}

/* Captures on any stream share the memory of their capture pool, one after the other. */
TEST(captures_of_a_capture_pool_share_their_memory)
{
    struct world w;
    weir_capture_pool *captures = NULL;
    weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
    begin(&w, WEIR_POOL_CAPTURES_TOLD);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_OK);
    uint64_t address = 0;
    for (size_t stream = 0; stream < 3; stream++) {
        assert_int_equal(weir_capture_begin(captures, w.stream[stream]), WEIR_OK);
        w.graphs.capture[stream] = 1;
        weir_block *block = take(&w, stream, BIG);
        address = stream == 0 ? weir_block_address(block) : address;
        assert_int_equal(weir_block_address(block), address);
        assert_int_equal(weir_capture_get_stats(captures, &stats), WEIR_OK);
        assert_int_equal(stats.live_bytes, BIG);
        assert_int_equal(stats.captures, stream + 1);
        give(&w, block, stream);
        w.graphs.capture[stream] = 0;
        assert_int_equal(weir_capture_end(captures), WEIR_OK);
        assert_int_not_equal(address_of_next(&w, stream, BIG), address);
    }
    assert_int_equal(weir_capture_get_stats(captures, &stats), WEIR_OK);
    assert_int_equal(stats.live_bytes, 0);
    assert_true(stats.free_bytes >= BIG);
    assert_int_equal(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    w.graphs.fake.event_complete = true;
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    assert_true(comes_back(&w, 1, address));
    end(&w);
}

/* Memory from outside that a drawn-in stream frees belongs to the graph at once, although it cannot serve the capture
 * before the work on that stream is known to be complete. */
TEST(the_bytes_of_a_capture_pool_do_not_wait)
{
    struct world w;
    weir_capture_pool *captures = NULL;
    weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
    int fork = 0;
    begin(&w, WEIR_POOL_CAPTURES_TOLD);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_OK);
    weir_block *block = take(&w, 1, BIG);
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_stream_recorded(w.pool, &fork, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_stream_waited(w.pool, w.stream[1], &fork), WEIR_OK);
    give(&w, block, 1);
    assert_int_equal(weir_capture_end(captures), WEIR_OK);
    assert_int_equal(weir_capture_get_stats(captures, &stats), WEIR_OK);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.free_bytes, BIG);
    w.graphs.fake.event_complete = true;
    assert_int_equal(weir_pool_trim(w.pool, 0, 0, NULL), WEIR_OK);
    assert_int_equal(weir_capture_get_stats(captures, &stats), WEIR_OK);
    assert_int_equal(stats.free_bytes, BIG);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    end(&w);
}

/* --- lending --- */

/* Captures BIG bytes on stream 0 and lends them to `stream`. Returns their address. */
static uint64_t capture_and_lend(struct world *w, uint32_t flags, weir_capture_pool **captures, size_t stream)
{
    begin(w, flags);
    assert_int_equal(weir_capture_pool_create(w->pool, captures), WEIR_OK);
    assert_int_equal(weir_capture_lend(*captures, w->stream[stream]), WEIR_ERR_INVALID); /* nothing is captured */
    assert_int_equal(weir_capture_begin(*captures, w->stream[0]), WEIR_OK);
    assert_int_equal(weir_capture_lend(*captures, w->stream[stream]), WEIR_ERR_BUSY);
    weir_block *block = take(w, 0, BIG);
    const uint64_t address = weir_block_address(block);
    give(w, block, 0);
    assert_int_equal(weir_capture_end(*captures), WEIR_OK);
    assert_int_equal(weir_capture_lend(*captures, w->stream[stream]), WEIR_OK);
    return address;
}

static uint64_t lent_bytes(weir_capture_pool *captures)
{
    weir_capture_stats stats = WEIR_CAPTURE_STATS_INIT;
    assert_int_equal(weir_capture_get_stats(captures, &stats), WEIR_OK);
    return stats.lent_bytes;
}

/* Memory of graphs serves other work between launches, again and again, and comes back for the next capture. */
TEST(memory_of_graphs_is_lent)
{
    static const uint32_t flags[] = {WEIR_POOL_CAPTURES_TOLD, 0};
    for (size_t i = 0; i < 2; i++) {
        struct world w;
        weir_capture_pool *captures = NULL;
        const uint64_t address = capture_and_lend(&w, flags[i], &captures, 1);
        for (int round = 0; round < 2; round++) {
            weir_block *block = take(&w, 1, BIG);
            assert_int_equal(weir_block_address(block), address);
            assert_int_equal(lent_bytes(captures), BIG);
            weir_block *more = take(&w, 1, BIG); /* has no room in it */
            assert_int_not_equal(weir_block_address(more), address);
            assert_int_equal(lent_bytes(captures), BIG);
            give(&w, block, 1);
            give(&w, more, 1);
            assert_int_equal(lent_bytes(captures), 0);
        }
        assert_int_not_equal(address_of_next(&w, 2, BIG), address); /* it is lent to stream 1 alone */
        assert_int_equal(weir_capture_reclaim(captures), WEIR_OK);
        assert_int_not_equal(address_of_next(&w, 1, BIG), address);
        assert_int_equal(weir_capture_begin(captures, w.stream[2]), WEIR_OK);
        assert_int_equal(address_of_next(&w, 2, BIG), address);
        assert_int_equal(weir_capture_end(captures), WEIR_OK);
        assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
        end(&w);
    }
}

/* Lent memory does not come back before it is free, and then with all work on it complete. */
TEST(lent_memory_in_use_is_not_reclaimed)
{
    struct world w;
    weir_capture_pool *captures = NULL;
    const uint64_t address = capture_and_lend(&w, WEIR_POOL_CAPTURES_TOLD, &captures, 1);
    weir_block *block = take(&w, 1, BIG);
    assert_int_equal(weir_block_address(block), address);
    assert_int_equal(weir_capture_reclaim(captures), WEIR_ERR_BUSY);
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_ERR_BUSY);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_ERR_BUSY);
    assert_int_equal(weir_capture_lend(captures, w.stream[2]), WEIR_ERR_BUSY);
    assert_int_equal(weir_stream_retire(w.pool, w.stream[1]), WEIR_ERR_BUSY);
    assert_int_equal(weir_stream_ended(w.pool, w.stream[1]), WEIR_ERR_BUSY);
    assert_int_equal(weir_pool_use(w.pool, block, w.stream[2]), WEIR_OK);
    give(&w, block, 1);
    assert_int_equal(weir_capture_reclaim(captures), WEIR_ERR_BUSY); /* stream 2 may still use it */
    assert_non_null(strstr(weir_last_error(), "4194304 bytes of lent memory"));
    block = take(&w, 1, BIG);
    assert_int_not_equal(weir_block_address(block), address);
    give(&w, block, 1);
    w.graphs.fake.event_complete = true;
    assert_int_equal(weir_capture_reclaim(captures), WEIR_OK);
    assert_int_equal(weir_capture_reclaim(captures), WEIR_ERR_INVALID);
    assert_int_equal(weir_stream_retire(w.pool, w.stream[1]), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    assert_true(comes_back(&w, 2, address));
    end(&w);
}

/* A lent block that another stream frees comes back when the work of that stream is complete. */
TEST(a_lent_block_is_freed_on_another_stream)
{
    struct world w;
    weir_capture_pool *captures = NULL;
    const uint64_t address = capture_and_lend(&w, WEIR_POOL_CAPTURES_TOLD, &captures, 1);
    weir_block *block = take(&w, 1, BIG);
    assert_int_equal(weir_block_address(block), address);
    give(&w, block, 2);
    assert_int_equal(weir_capture_reclaim(captures), WEIR_ERR_BUSY);
    assert_int_not_equal(address_of_next(&w, 2, BIG), address);
    w.graphs.fake.event_complete = true;
    assert_int_equal(weir_capture_reclaim(captures), WEIR_OK);
    assert_int_not_equal(address_of_next(&w, 2, BIG), address);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    end(&w);
}

/* While a stream that borrows is captured into another graph, its requests are those of the graph. */
TEST(a_stream_that_borrows_is_captured)
{
    struct world w;
    weir_capture_pool *captures = NULL;
    weir_capture_pool *others = NULL;
    const uint64_t address = capture_and_lend(&w, WEIR_POOL_CAPTURES_TOLD, &captures, 1);
    assert_int_equal(weir_capture_pool_create(w.pool, &others), WEIR_OK);
    assert_int_equal(weir_capture_begin(others, w.stream[1]), WEIR_OK);
    assert_int_not_equal(address_of_next(&w, 1, BIG), address);
    assert_int_equal(weir_capture_end(others), WEIR_OK);
    assert_true(address_of_next(&w, 1, BIG / 2) - address < BIG);
    assert_int_equal(address_of_next(&w, 1, BIG), address);
    assert_int_equal(weir_capture_reclaim(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(others), WEIR_OK);
    end(&w);
}

/* --- capture pools, further --- */

/* A program may tell some captures of a pool that asks. */
TEST(a_told_capture_follows_one_that_was_asked_for)
{
    struct world w;
    weir_capture_pool *captures = NULL;
    begin(&w, 0);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_OK);
    w.graphs.capture[0] = 1;
    (void)take(&w, 0, BIG);
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_ERR_BUSY);
    w.graphs.capture[0] = 0;
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_capture_end(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    destroy_graph(&w, 1);
    end(&w);
}

/* From weir_capture_begin on no event is recorded on the stream, also before the runtime's own begin. */
TEST(nothing_is_recorded_once_a_capture_is_told)
{
    struct world w;
    weir_block *block = NULL;
    weir_capture_pool *captures = NULL;
    begin_pool(&w, weir_caching_strategy(), WEIR_POOL_CAPTURES_TOLD, BIG, 2);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_OK);
    give(&w, take(&w, 0, BIG), 0);
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_OK);
    const int before = w.graphs.records;
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[1], BIG, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(w.graphs.records, before);
    assert_int_equal(weir_capture_end(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    end(&w);
}

/* A stream drawn in by a wait follows the capture, and what it frees serves the next one. */
TEST(a_fork_in_a_capture_pool)
{
    struct world w;
    int fork = 0;
    weir_capture_pool *captures = NULL;
    begin(&w, WEIR_POOL_CAPTURES_TOLD);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_OK);
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_OK);
    w.graphs.capture[0] = w.graphs.capture[1] = 1;
    assert_int_equal(weir_stream_recorded(w.pool, &fork, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_stream_waited(w.pool, w.stream[1], &fork), WEIR_OK);
    weir_block *block = take(&w, 1, BIG);
    const uint64_t address = weir_block_address(block);
    give(&w, block, 1);
    w.graphs.capture[0] = w.graphs.capture[1] = 0;
    assert_int_equal(weir_capture_end(captures), WEIR_OK);
    assert_int_not_equal(address_of_next(&w, 1, BIG), address);
    assert_int_equal(weir_capture_begin(captures, w.stream[2]), WEIR_OK);
    assert_int_equal(weir_stream_waited(w.pool, w.stream[1], &fork), WEIR_OK); /* an event of the capture before */
    assert_int_not_equal(address_of_next(&w, 1, BIG), address);
    assert_int_equal(address_of_next(&w, 2, BIG), address);
    assert_int_equal(weir_capture_end(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    end(&w);
}

/* A graph that is destroyed without a launch has not waited for the work before its capture: that work may still touch
 * what the capture freed. */
TEST(a_graph_without_a_launch_leaves_its_memory_to_earlier_work)
{
    struct world w;
    begin(&w, 0);
    weir_block *freed_before = take(&w, 0, BIG);
    weir_block *freed_inside = take(&w, 0, BIG);
    const uint64_t addresses[] = {weir_block_address(freed_before), weir_block_address(freed_inside)};
    give(&w, freed_before, 0);
    w.graphs.capture[0] = 1;
    weir_block *inside = take(&w, 0, BIG);
    assert_int_equal(weir_block_address(inside), addresses[0]);
    give(&w, inside, 0);
    give(&w, freed_inside, 0);
    w.graphs.capture[0] = 0;
    destroy_graph(&w, 1);
    for (size_t i = 0; i < 3; i++) {
        const uint64_t address = weir_block_address(take(&w, 1, BIG));
        assert_true(address != addresses[0] && address != addresses[1]);
    }
    w.graphs.fake.event_complete = true;
    int found = 0;
    for (size_t i = 0; i < 2; i++) {
        const uint64_t address = weir_block_address(take(&w, 1, BIG));
        found += address == addresses[0] || address == addresses[1];
    }
    assert_int_equal(found, 2);
    end(&w);
}

/* The same for a stream that was drawn into a capture: not even the graph comes after its earlier work. */
TEST(a_drawn_in_stream_frees_a_block_from_outside)
{
    struct world w;
    int fork = 0;
    begin(&w, 0);
    weir_block *block = take(&w, 1, BIG);
    const uint64_t address = weir_block_address(block);
    w.graphs.capture[0] = 1;
    (void)take(&w, 0, 512);
    assert_int_equal(weir_stream_recorded(w.pool, &fork, w.stream[0]), WEIR_OK);
    w.graphs.capture[1] = 1;
    assert_int_equal(weir_stream_waited(w.pool, w.stream[1], &fork), WEIR_OK);
    give(&w, block, 1);
    assert_int_not_equal(address_of_next(&w, 1, BIG), address);
    w.graphs.capture[0] = w.graphs.capture[1] = 0;
    destroy_graph(&w, 1);
    assert_int_not_equal(address_of_next(&w, 2, BIG), address);
    w.graphs.fake.event_complete = true;
    assert_true(comes_back(&w, 2, address));
    end(&w);
}

/* The work on a block from outside that a capture frees is not known to be complete, when nothing was freed before. */
TEST(a_graph_without_a_launch_frees_a_block_from_outside)
{
    struct world w;
    begin(&w, 0);
    weir_block *block = take(&w, 0, BIG);
    const uint64_t address = weir_block_address(block);
    w.graphs.capture[0] = 1;
    give(&w, block, 0);
    w.graphs.capture[0] = 0;
    destroy_graph(&w, 1);
    assert_int_not_equal(weir_block_address(take(&w, 1, BIG)), address);
    w.graphs.fake.event_complete = true;
    assert_int_equal(weir_block_address(take(&w, 1, BIG)), address);
    end(&w);
}

/* Memory that no work has touched before the capture comes back with the end of the graph. Nothing else may happen: the
 * stream is in the next capture already, in which no event may be recorded. */
TEST(a_graph_in_fresh_memory_leaves_it_at_once)
{
    struct world w;
    begin_pool(&w, weir_caching_strategy(), 0, BIG, 2);
    for (uint64_t graph = 1; graph <= 4; graph++) {
        w.graphs.capture[0] = graph;
        give(&w, take(&w, 0, BIG), 0);
        w.graphs.capture[0] = 0;
        destroy_graph(&w, graph);
    }
    w.graphs.capture[0] = 5;
    give(&w, take(&w, 1, BIG), 1);
    end(&w);
}

/* An order between streams inside a capture that the program does not tell is no order for the pool. */
TEST(hints_of_an_untold_capture_are_not_taken)
{
    struct world w;
    int event = 0;
    begin(&w, WEIR_POOL_CAPTURES_TOLD);
    weir_block *block = take(&w, 1, BIG);
    const uint64_t address = weir_block_address(block);
    give(&w, block, 1);
    w.graphs.capture[0] = w.graphs.capture[1] = 1;
    assert_int_equal(weir_stream_recorded(w.pool, &event, w.stream[1]), WEIR_OK);
    assert_int_equal(weir_stream_waited(w.pool, w.stream[0], &event), WEIR_OK);
    assert_int_equal(weir_stream_synced(w.pool, w.stream[1]), WEIR_OK);
    w.graphs.capture[0] = w.graphs.capture[1] = 0;
    assert_int_not_equal(address_of_next(&w, 0, BIG), address);
    end(&w);
}

/* The record of a refused request names the graph that holds the memory, and what ends it. */
TEST(a_refused_request_names_the_graph)
{
    struct world w;
    char text[2048];
    weir_block *block = NULL;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    begin_pool(&w, weir_caching_strategy(), 0, BIG, 2);
    w.graphs.fake.event_complete = true;
    w.graphs.capture[1] = 1;
    (void)address_of_next(&w, 1, BIG);
    w.graphs.capture[1] = 0;
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[0], BIG, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_pool_get_oom(w.pool, &record), WEIR_OK);
    assert_int_equal(record.lane_count, 1);
    assert_true(record.lanes[0].of_graph);
    assert_int_equal(record.lanes[0].stream, 2);
    assert_int_equal(record.lanes[0].waits_for, 0);
    assert_int_equal(record.advice_count, 2);
    assert_int_equal(record.advice[1].kind, WEIR_ADVICE_END_GRAPH);
    assert_int_equal(record.advice[1].stream, 2);
    (void)weir_oom_explain(&record, text, sizeof(text));
    assert_non_null(strstr(text, "a graph of stream 2: 4.00 MiB"));
    assert_non_null(strstr(text, "destroy the graph that was captured on stream 2"));
    destroy_graph(&w, 1);
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[0], BIG, 0, &block), WEIR_OK);
    end(&w);
}

/* The record tells that memory of graphs is lent, and not to the stream of the request. */
TEST(a_refused_request_knows_lent_memory)
{
    struct world w;
    char text[2048];
    weir_block *block = NULL;
    weir_capture_pool *captures = NULL;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    begin_pool(&w, weir_caching_strategy(), WEIR_POOL_CAPTURES_TOLD, BIG, 2);
    w.graphs.fake.event_complete = true;
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_OK);
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_OK);
    (void)address_of_next(&w, 0, BIG);
    assert_int_equal(weir_capture_end(captures), WEIR_OK);
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[1], BIG, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_pool_get_oom(w.pool, &record), WEIR_OK);
    assert_false(record.lanes[0].lent);
    (void)weir_oom_explain(&record, text, sizeof(text));
    assert_non_null(strstr(text, "or lend its memory"));
    assert_int_equal(weir_capture_lend(captures, w.stream[1]), WEIR_OK);
    assert_int_equal(weir_pool_alloc(w.pool, w.stream[0], BIG, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(weir_pool_get_oom(w.pool, &record), WEIR_OK);
    assert_true(record.lanes[0].of_graph && record.lanes[0].lent);
    assert_int_equal(record.lanes[0].stream, 2);
    (void)weir_oom_explain(&record, text, sizeof(text));
    assert_non_null(strstr(text, "a graph of stream 2, lent to it: 4.00 MiB"));
    give(&w, take(&w, 1, BIG), 1); /* the advice */
    assert_int_equal(weir_capture_reclaim(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    end(&w);
}

/* In a capture would_fit answers for the capture: memory with work of another stream under way may be waited for on the
 * host only, and what a graph has freed serves its own capture. */
TEST(would_fit_knows_captures)
{
    struct world w;
    uint64_t fit = 0;
    begin_pool(&w, weir_caching_strategy(), 0, BIG, 2);
    w.graphs.capture[0] = 1;
    (void)address_of_next(&w, 0, BIG);
    assert_int_equal(weir_pool_would_fit(w.pool, w.stream[0], BIG, 2, &fit), WEIR_OK);
    assert_int_equal(fit, 1);
    assert_int_equal(weir_pool_would_fit(w.pool, w.stream[1], BIG, 2, &fit), WEIR_OK);
    assert_int_equal(fit, 0);
    w.graphs.capture[0] = 0;
    assert_int_equal(weir_pool_would_fit(w.pool, w.stream[0], BIG, 2, &fit), WEIR_OK);
    assert_int_equal(fit, 0);
    destroy_graph(&w, 1);
    w.graphs.fake.event_complete = true;
    give(&w, take(&w, 0, BIG), 0);
    w.graphs.fake.event_complete = false;
    w.graphs.capture[0] = 2; /* nothing can wait for what the stream freed before */
    (void)take(&w, 0, 512);
    assert_int_equal(weir_pool_would_fit(w.pool, w.stream[1], BIG, 2, &fit), WEIR_OK);
    assert_int_equal(fit, 0);
    end(&w);
}

static void note_stream(void *ctx, const weir_observed_block *block)
{
    *(weir_observed_block *)ctx = *block;
}

/* Observers, and so recordings, see the program's streams. */
TEST(observers_see_the_programs_streams)
{
    struct world w;
    weir_observed_block seen = {0};
    weir_observer_ops ops = WEIR_STRUCT_INIT(weir_observer_ops);
    ops.block_alloc = note_stream;
    begin(&w, 0);
    assert_int_equal(weir_pool_observe(w.pool, &ops, &seen), WEIR_OK);
    w.graphs.capture[2] = 1;
    weir_block *block = take(&w, 2, BIG);
    assert_int_equal(seen.stream, 3);
    assert_ptr_equal(seen.native_stream, native(2));
    give(&w, block, 2);
    assert_int_equal(weir_pool_unobserve(w.pool, &seen), WEIR_OK);
    destroy_graph(&w, 1);
    end(&w);
}

static struct kept recorded;

/* Compares the lines of captures and blocks, without their times and addresses. */
static void assert_recorded(const char *expected)
{
    char lines[1024];
    size_t length = 0;
    for (const char *line = recorded.text; *line != '\0'; line = strchr(line, '\n') + 1) {
        unsigned long long ns = 0;
        unsigned number = 0;
        char rest[64] = "";
        assert_true(length + 80 < sizeof(lines));
        if (sscanf(line, "g %llu %63[^\n]", &ns, rest) == 2) {
            length += (size_t)snprintf(lines + length, sizeof(lines) - length, "g %s\n", rest);
        } else if (sscanf(line, "a %llu %u", &ns, &number) == 2 || sscanf(line, "f %llu %u", &ns, &number) == 2) {
            length += (size_t)snprintf(lines + length, sizeof(lines) - length, "%c %u\n", *line, number);
        }
    }
    lines[length] = '\0';
    assert_string_equal(lines, expected);
}

static weir_recorder *record(struct world *w)
{
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    config.sink = keep;
    config.sink_ctx = &recorded;
    recorded.length = 0;
    assert_int_equal(weir_recorder_start(w->pool, &config, &recorder), WEIR_OK);
    return recorder;
}

/* A capture that the program tells is recorded where it begins and ends; a release, before the memory is used again. */
TEST(a_recording_has_the_captures_that_are_told)
{
    struct world w;
    weir_capture_pool *captures[2] = {NULL, NULL};
    begin(&w, WEIR_POOL_CAPTURES_TOLD);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures[0]), WEIR_OK);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures[1]), WEIR_OK);
    assert_int_equal(weir_capture_begin(captures[1], w.stream[2]), WEIR_OK); /* before the recording */
    weir_recorder *recorder = record(&w);
    give(&w, take(&w, 0, BIG), 0);
    assert_int_equal(weir_capture_begin(captures[0], w.stream[0]), WEIR_OK);
    give(&w, take(&w, 0, BIG), 0);
    assert_int_equal(weir_capture_end(captures[0]), WEIR_OK);
    assert_int_equal(weir_capture_end(captures[1]), WEIR_OK);
    assert_int_equal(weir_capture_begin(captures[0], w.stream[1]), WEIR_OK);
    assert_int_equal(weir_capture_end(captures[0]), WEIR_OK);
    assert_int_equal(weir_capture_pool_hold(captures[0]), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures[0]), WEIR_OK);
    give(&w, take(&w, 0, BIG), 0);
    assert_int_equal(weir_capture_pool_release(captures[0]), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures[1]), WEIR_OK);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    assert_recorded("g B 0 0\na 0\nf 0\ng B 1 1\na 1\nf 1\ng E 1 1\ng E 0 0\ng B 1 2\ng E 1 2\na 2\nf 2\n"
                    "g R 1\ng R 0\n");
    end(&w);
}

/* A capture that the device tells begins with its first call, and ends with the first call of one of its streams after
 * it, or with the graph. */
TEST(a_recording_has_the_captures_that_are_asked_for)
{
    struct world w;
    begin(&w, 0);
    weir_recorder *recorder = record(&w);
    w.graphs.capture[1] = 5;
    give(&w, take(&w, 1, BIG), 1);
    w.graphs.capture[0] = 6;
    give(&w, take(&w, 0, BIG), 0);
    w.graphs.capture[1] = 0;
    give(&w, take(&w, 1, BIG), 1);
    destroy_graph(&w, 5);
    w.graphs.capture[0] = 0;
    destroy_graph(&w, 6); /* no call has met the end of its capture */
    give(&w, take(&w, 2, BIG), 2);
    w.graphs.fake.event_complete = true; /* the work before the first capture is complete */
    assert_int_equal(weir_pool_trim(w.pool, 0, 0, NULL), WEIR_OK);
    assert_int_equal(weir_recorder_stop(recorder, NULL), WEIR_OK);
    assert_recorded("g B 0 0\na 0\nf 0\ng B 1 1\na 1\nf 1\ng E 0 0\na 2\nf 2\ng E 1 1\ng R 1\na 3\nf 3\n"
                    "g R 0\n");
    end(&w);
}

TEST(tags_go_into_captures)
{
    struct world w;
    weir_tag tag = 0;
    begin(&w, 0);
    assert_int_equal(weir_pool_tag(w.pool, "graph", &tag), WEIR_OK);
    assert_int_equal(weir_stream_set_tag(w.pool, w.stream[0], tag), WEIR_OK);
    w.graphs.capture[0] = 1;
    const weir_block *block = take(&w, 0, BIG);
    assert_int_equal(weir_block_tag(block), tag);
    destroy_graph(&w, 1);
    end(&w);
}

/* --- refusals --- */

TEST(refused_calls_change_nothing)
{
    struct world w;
    weir_capture_pool *captures = NULL;
    weir_capture_pool *others = NULL;
    begin(&w, 0);
    assert_int_equal(weir_capture_pool_create(NULL, &captures), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_pool_create(w.pool, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_pool_hold(NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_pool_release(NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_begin(NULL, w.stream[0]), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_end(NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_get_stats(NULL, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_create(w.pool, &others), WEIR_OK);
    assert_int_equal(weir_capture_begin(captures, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_end(captures), WEIR_ERR_INVALID);
    assert_int_equal(weir_capture_begin(captures, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_capture_begin(captures, w.stream[1]), WEIR_ERR_BUSY);
    assert_int_equal(weir_capture_begin(others, w.stream[0]), WEIR_ERR_BUSY);
    assert_int_equal(weir_capture_pool_hold(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_ERR_BUSY);
    assert_int_equal(weir_capture_end(captures), WEIR_OK);
    assert_int_equal(weir_capture_begin(others, w.stream[0]), WEIR_OK);
    assert_int_equal(weir_capture_end(others), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(captures), WEIR_OK);
    assert_int_equal(weir_capture_pool_release(others), WEIR_OK);
    end(&w);
    struct fake_device plain;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    fake_init(&plain);
    fake_without_ordering(&plain);
    assert_int_equal(weir_device_create(&plain.ops, &plain, &config.device), WEIR_OK);
    config.strategy = weir_caching_strategy();
    assert_int_equal(weir_pool_create(&config, &w.pool), WEIR_OK);
    assert_int_equal(weir_capture_pool_create(w.pool, &captures), WEIR_ERR_UNSUPPORTED);
    assert_int_equal(weir_pool_destroy(w.pool), WEIR_OK);
    assert_int_equal(weir_device_destroy(config.device), WEIR_OK);
}

/* An adaptor asks the device that it wraps, also one with more abilities than groups of functions. */
TEST(an_adaptor_passes_the_question_on)
{
    struct world w;
    weir_device *counted = NULL;
    begin(&w, 0);
    w.graphs.capture[1] = 5;
    assert_int_equal(weir_count_create(w.device, &counted), WEIR_OK);
    uint64_t capture = 0;
    assert_int_equal(weir_device_stream_capture(counted, native(1), &capture, NULL, NULL), WEIR_OK);
    assert_int_equal(capture, 5);
    assert_int_equal(weir_device_destroy(counted), WEIR_OK);
    w.graphs.capture[1] = 0;
    end(&w);
    struct fake_device paged;
    fake_init(&paged);
    paged.info.abilities |= WEIR_DEVICE_PAGEWISE;
    weir_device *inner = NULL;
    assert_int_equal(weir_device_create(&paged.ops, &paged, &inner), WEIR_OK);
    assert_int_equal(weir_count_create(inner, &counted), WEIR_OK);
    assert_int_equal(weir_device_stream_capture(counted, native(1), &capture, NULL, NULL), WEIR_OK);
    assert_int_equal(capture, 0);
    assert_int_equal(weir_device_destroy(counted), WEIR_OK);
    assert_int_equal(weir_device_destroy(inner), WEIR_OK);
}
