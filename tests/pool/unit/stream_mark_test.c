/* tests/pool/unit/stream_mark_test.c: points in a stream's order, without a block. */
enum { streams = 2 };

#include "rig/pool.h"

#include <pthread.h>

static struct world open_world(bool no_ordering)
{
    weir_sim_config config = free_of_charge();
    config.no_ordering = no_ordering;
    return world_over(new_sim(config), (weir_pool_config)WEIR_POOL_CONFIG_INIT);
}

static weir_tick mark(struct world *w, int stream)
{
    weir_tick got = 0;
    ok(weir_stream_mark(w->pool, w->stream[stream], &got));
    return got;
}

static bool reached(struct world *w, int stream, weir_tick tick)
{
    bool is = false;
    ok(weir_stream_reached(w->pool, w->stream[stream], tick, false, &is));
    return is;
}

TEST(test_bad_arguments)
{
    struct world w = open_world(false);
    struct world other = open_world(false);
    weir_tick tick = 77;
    bool is = true;
    fails(weir_stream_mark(NULL, w.stream[0], &tick), WEIR_ERR_INVALID);
    fails(weir_stream_mark(w.pool, NULL, &tick), WEIR_ERR_INVALID);
    fails(weir_stream_mark(w.pool, w.stream[0], NULL), WEIR_ERR_INVALID);
    fails(weir_stream_mark(w.pool, other.stream[0], &tick), WEIR_ERR_INVALID);
    assert_int_equal(tick, 77);
    fails(weir_stream_reached(NULL, w.stream[0], 1, false, &is), WEIR_ERR_INVALID);
    fails(weir_stream_reached(w.pool, NULL, 1, false, &is), WEIR_ERR_INVALID);
    fails(weir_stream_reached(w.pool, w.stream[0], 1, false, NULL), WEIR_ERR_INVALID);
    fails(weir_stream_reached(w.pool, other.stream[0], 1, true, &is), WEIR_ERR_INVALID);
    assert_true(is);
    close_world(&other);
    close_world(&w);
}

TEST(test_a_mark_covers_what_was_queued)
{
    struct world w = open_world(false);
    busy(w.sim, w.native[0], 1000);
    const weir_tick first = mark(&w, 0);
    assert_false(reached(&w, 0, first)); /* the call records the event */
    busy(w.sim, w.native[0], 1000);
    const weir_tick second = mark(&w, 0);
    weir_sim_advance(w.sim, 1000);
    assert_true(reached(&w, 0, first));
    assert_false(reached(&w, 0, second));
    weir_sim_advance(w.sim, 999);
    assert_false(reached(&w, 0, second));
    weir_sim_advance(w.sim, 1);
    assert_true(reached(&w, 0, second));
    close_world(&w);
}

TEST(test_one_event_for_many_marks)
{
    struct world w = open_world(false);
    weir_tick last = 0;
    for (int i = 0; i < 100; i++) {
        busy(w.sim, w.native[0], 10);
        last = mark(&w, 0);
    }
    assert_int_equal(figures(&w).events_recorded, 0);
    assert_false(reached(&w, 0, last));
    assert_int_equal(figures(&w).events_recorded, 1);
    weir_sim_advance(w.sim, 1000);
    assert_true(reached(&w, 0, last));
    assert_true(reached(&w, 0, last - 1));
    assert_int_equal(figures(&w).events_recorded, 1);
    close_world(&w);
}

/* The pool neither queries nor waits for another stream's work. */
TEST(test_only_its_stream)
{
    struct world w = open_world(false);
    busy(w.sim, w.native[0], 1000);
    busy(w.sim, w.native[1], 1000000);
    const weir_tick mine = mark(&w, 0);
    const weir_tick other = mark(&w, 1);
    bool is = false;
    ok(weir_stream_reached(w.pool, w.stream[0], mine, true, &is));
    assert_true(is);
    assert_true(weir_sim_now(w.sim) < 1000000);
    assert_int_equal(figures(&w).events_recorded, 1);
    assert_false(reached(&w, 1, other));
    ok(weir_stream_reached(w.pool, w.stream[1], other, true, &is));
    assert_true(is);
    assert_true(weir_sim_now(w.sim) >= 1000000);
    close_world(&w);
}

TEST(test_synced_and_retired)
{
    struct world w = open_world(false);
    busy(w.sim, w.native[0], 1000);
    const weir_tick first = mark(&w, 0);
    weir_sim_advance(w.sim, 1000);
    ok(weir_stream_synced(w.pool, w.stream[0])); /* the caller has waited */
    assert_true(reached(&w, 0, first));
    assert_int_equal(figures(&w).events_recorded, 0);
    busy(w.sim, w.native[1], 1000);
    const weir_tick second = mark(&w, 1);
    ok(weir_stream_retire(w.pool, w.stream[1]));
    bool is = false;
    ok(weir_stream_reached(w.pool, w.stream[1], second, false, &is));
    assert_true(is);
    weir_tick tick = 0;
    fails(weir_stream_mark(w.pool, w.stream[1], &tick), WEIR_ERR_INVALID);
    /* Marks of a retired stream stay reached after a new stream has taken its place. */
    weir_stream *heir = NULL;
    ok(weir_pool_stream(w.pool, new_stream(w.sim), &heir));
    is = false;
    ok(weir_stream_reached(w.pool, heir, second, false, &is));
    assert_true(is);
    close_world(&w);
}

TEST(test_failures)
{
    struct world w = open_world(false);
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    busy(w.sim, w.native[0], 1000);
    const weir_tick first = mark(&w, 0);
    const weir_device_call calls[] = {WEIR_CALL_EVENT_CREATE, WEIR_CALL_EVENT_RECORD, WEIR_CALL_EVENT_QUERY};
    for (size_t i = 0; i < 3; i++) {
        fault.call = calls[i];
        fault.nth = 1;
        ok(weir_sim_fault_arm(w.sim, &fault));
        assert_false(reached(&w, 0, first)); /* the query fails: not reached */
        weir_sim_fault_clear(w.sim);
    }
    fault.call = WEIR_CALL_EVENT_SYNC;
    ok(weir_sim_fault_arm(w.sim, &fault));
    bool is = false;
    fails(weir_stream_reached(w.pool, w.stream[0], first, true, &is), WEIR_ERR_DEVICE);
    assert_false(is);
    weir_sim_fault_clear(w.sim);
    ok(weir_stream_reached(w.pool, w.stream[0], first, true, &is));
    assert_true(is);
    close_world(&w);
}

TEST(test_a_synchronous_device)
{
    struct world w = open_world(true);
    const weir_tick first = mark(&w, 0);
    assert_true(reached(&w, 0, first));
    close_world(&w);
}

struct player {
    struct world *w;
    int stream;
    const char *failure;
};

static void *mark_and_ask(void *ctx)
{
    struct player *p = ctx;
    weir_tick before = 0;
    for (int i = 0; i < 2000 && p->failure == NULL; i++) {
        weir_tick tick = 0;
        bool is = false;
        if (weir_stream_mark(p->w->pool, p->w->stream[p->stream], &tick) != WEIR_OK || tick < before) {
            p->failure = "marks do not rise";
        } else if (weir_stream_reached(p->w->pool, p->w->stream[p->stream], tick, i % 50 == 0, &is) != WEIR_OK ||
                   (i % 50 == 0 && !is)) {
            p->failure = "a wait did not reach its mark";
        }
        before = tick;
    }
    return NULL;
}

TEST(test_threads)
{
    struct world w = open_world(false);
    struct player players[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        players[i] = (struct player){.w = &w, .stream = i % 2};
        assert_int_equal(pthread_create(&threads[i], NULL, mark_and_ask, &players[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_null(players[i].failure);
    }
    close_world(&w);
}
