/* tests/pool/unit/sim_thread_test.c: several threads use one simulator. The tests check that nothing is lost and no
 * thread waits for ever; run under a thread sanitizer, the program also shows that there is no data race. */
#include "rig/sim.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 2000 };

struct worker {
    weir_sim *sim;
    weir_sim_stream *stream;
    uint64_t region; /* 2 MiB for this worker alone */
    atomic_int *calls;
    int failures;
};

static void count_up(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

/* Asserts nothing, because cmocka's assertions work only on the main thread. */
static void *work_on_a_stream(void *ctx)
{
    struct worker *w = ctx;
    weir_device *device = weir_sim_device(w->sim);
    weir_event *event = NULL;
    w->failures += weir_device_event_create(device, &event) != WEIR_OK;
    for (int i = 0; i < ROUNDS; i++) {
        weir_sim_access access = {.address = w->region, .size = 4096, .write = true};
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = 500;
        work.accesses = &access;
        work.access_count = 1;
        work.tag = "kernel";
        weir_sim_block_alloc(w->sim, w->region, 4096, w->stream, "block");
        w->failures += weir_sim_launch(w->sim, w->stream, &work) != WEIR_OK;
        work.access_count = 0;
        work.host_function = count_up;
        work.host_ctx = w->calls;
        w->failures += weir_sim_launch(w->sim, w->stream, &work) != WEIR_OK;
        weir_sim_block_free(w->sim, w->region, w->stream, "free");
        w->failures += weir_device_event_record(device, event, w->stream) != WEIR_OK;
        if (i % 7 == 0) {
            w->failures += weir_device_event_sync(device, event) != WEIR_OK;
        } else if (i % 11 == 0) {
            weir_sim_advance(w->sim, 100);
        }
    }
    w->failures += weir_device_stream_sync(device, w->stream) != WEIR_OK;
    return NULL;
}

TEST(test_threads_share_a_simulator)
{
    weir_sim *sim = new_sim(free_of_charge());
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    atomic_int calls = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (struct worker){.sim = sim, .stream = new_stream(sim), .region = new_region(sim, 2 * MIB), .calls = &calls};
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work_on_a_stream, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].failures, 0);
    }
    ok(weir_sim_sync(sim));
    assert_int_equal(atomic_load(&calls), THREADS * ROUNDS);
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(sim, &stats));
    assert_int_equal(stats.operations, 2 * THREADS * ROUNDS);
    is_clean(sim);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* A host function that itself uses the simulator, and even queues more work of its kind. */
struct chain {
    weir_sim *sim;
    weir_sim_stream *stream;
    int left;
};

static void next_link(void *ctx)
{
    struct chain *c = ctx;
    if (c->left-- > 0) {
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = 10;
        work.host_function = next_link;
        work.host_ctx = c;
        (void)weir_sim_launch(c->sim, c->stream, &work);
        weir_sim_advance(c->sim, 3);
    }
}

TEST(test_host_function_calls_back)
{
    weir_sim *sim = new_sim(free_of_charge());
    struct chain c = {.sim = sim, .stream = new_stream(sim), .left = 20};
    next_link(&c);
    for (int i = 0; i < 30; i++) {
        ok(weir_sim_sync(sim)); /* waits for the work queued so far; each link queues one more */
    }
    assert_int_equal(c.left, -1);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* Streams break while other threads queue on them and run due work: each piece of work has exactly one fate. */
struct feeder {
    weir_sim *sim;
    weir_sim_stream *stream;
    atomic_int *ran;
    atomic_int *dropped;
    const atomic_bool *breaking; /* the main thread is in weir_sim_stream_break */
    int queued;
};

static void count_run(void *ctx)
{
    atomic_fetch_add(((struct feeder *)ctx)->ran, 1);
}

static void count_drop(void *ctx)
{
    atomic_fetch_add(((struct feeder *)ctx)->dropped, 1);
}

static void *feed_until_it_breaks(void *ctx)
{
    struct feeder *f = ctx;
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 500; /* long enough that some work is always left to drop */
    work.host_function = count_run;
    work.dropped = count_drop;
    work.host_ctx = f;
    /* A thread that runs due work continues while other threads queue more and advance the time. If the main thread
     * runs due work inside weir_sim_stream_break, the feeders pause after a while, so that the call can return. */
    enum { MOST_QUEUED = 20000, ROUNDS_DURING_A_BREAK = 1000 };
    bool queues = true;
    for (int rounds = 0; queues;) {
        rounds = atomic_load(f->breaking) ? rounds + 1 : 0;
        if (rounds > ROUNDS_DURING_A_BREAK) {
            (void)sched_yield();
            continue;
        }
        if (f->queued < atomic_load(f->ran) + atomic_load(f->dropped) + MOST_QUEUED) {
            queues = weir_sim_launch(f->sim, f->stream, &work) == WEIR_OK;
            f->queued += queues;
        }
        weir_sim_advance(f->sim, 10);
    }
    return NULL;
}

TEST(test_every_work_has_one_fate)
{
    weir_sim *sim = new_sim(free_of_charge());
    pthread_t threads[THREADS];
    struct feeder feeders[THREADS];
    atomic_int ran = 0;
    atomic_int dropped = 0;
    atomic_bool breaking = false;
    int queued = 0;
    for (int i = 0; i < THREADS; i++) {
        feeders[i] = (struct feeder){
            .sim = sim, .stream = new_stream(sim), .ran = &ran, .dropped = &dropped, .breaking = &breaking};
        assert_int_equal(pthread_create(&threads[i], NULL, feed_until_it_breaks, &feeders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        while (atomic_load(&ran) < 200 * (i + 1)) {
            (void)weir_sim_now(sim);
        }
        atomic_store(&breaking, true);
        ok(weir_sim_stream_break(sim, feeders[i].stream));
        atomic_store(&breaking, false);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        queued += feeders[i].queued;
    }
    /* the simulator may have reported a failure to another thread before, so the result does not matter */
    (void)weir_sim_sync(sim);
    assert_int_equal(atomic_load(&ran) + atomic_load(&dropped), queued);
    assert_true(atomic_load(&dropped) > 0);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    assert_int_equal(atomic_load(&ran) + atomic_load(&dropped), queued);
}

struct slow {
    weir_sim *sim;
    atomic_bool entered;
    atomic_bool may_end;
};

static void wait_for_main(void *ctx)
{
    struct slow *slow = ctx;
    atomic_store(&slow->entered, true);
    while (!atomic_load(&slow->may_end)) {
        (void)sched_yield();
    }
}

static void *advance(void *ctx)
{
    weir_sim_advance(((struct slow *)ctx)->sim, 1000);
    return NULL;
}

/* An event is complete after the host functions before it have returned, whichever thread runs them. */
TEST(test_query_while_a_host_function_runs)
{
    struct slow slow = {.sim = new_sim(free_of_charge())};
    weir_device *device = weir_sim_device(slow.sim);
    weir_event *event = new_event(slow.sim);
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    pthread_t thread;
    bool complete = true;
    work.duration_ns = 100;
    work.host_function = wait_for_main;
    work.host_ctx = &slow;
    ok(weir_sim_launch(slow.sim, NULL, &work));
    ok(weir_device_event_record(device, event, NULL));
    assert_int_equal(pthread_create(&thread, NULL, advance, &slow), 0);
    while (!atomic_load(&slow.entered)) {
        (void)sched_yield();
    }
    weir_sim_advance(slow.sim, 5000); /* the clock passes the event */
    ok(weir_device_event_query(device, event, &complete));
    atomic_store(&slow.may_end, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(complete);
    ok(weir_device_event_query(device, event, &complete));
    assert_true(complete);
    ok(weir_device_event_destroy(device, event));
    assert_int_equal(weir_sim_destroy(slow.sim), WEIR_OK);
}
