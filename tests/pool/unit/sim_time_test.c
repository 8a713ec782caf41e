/* tests/pool/unit/sim_time_test.c: virtual time, streams, events, prices and determinism. */
#include "rig/sim.h"

TEST(test_work_runs_in_stream_order)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_sim_stream *a = new_stream(sim);
    weir_sim_stream *b = new_stream(sim);
    busy(sim, a, 100);
    busy(sim, a, 50);
    busy(sim, b, 70); /* streams run in parallel */
    assert_int_equal(weir_sim_now(sim), 0);
    assert_int_equal(weir_sim_stream_tail(sim, a), 150);
    assert_int_equal(weir_sim_stream_tail(sim, b), 70);
    weir_sim_advance(sim, 120);
    busy(sim, b, 10); /* an idle stream starts at once */
    assert_int_equal(weir_sim_stream_tail(sim, b), 130);
    sync_stream(sim, a);
    assert_int_equal(weir_sim_now(sim), 150);
    weir_sim_advance_to(sim, 140); /* in the past: no effect */
    assert_int_equal(weir_sim_now(sim), 150);
    weir_sim_advance_to(sim, 160);
    assert_int_equal(weir_sim_now(sim), 160);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_wait_orders_streams)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_device *device = weir_sim_device(sim);
    weir_sim_stream *a = new_stream(sim);
    weir_sim_stream *b = new_stream(sim);
    weir_event *event = new_event(sim);
    busy(sim, a, 100);
    ok(weir_device_event_record(device, event, a));
    busy(sim, a, 1000); /* not captured */
    busy(sim, b, 10);
    ok(weir_device_stream_wait_event(device, b, event));
    ok(weir_device_event_record(device, event, a)); /* does not move the wait */
    ok(weir_device_event_destroy(device, event));   /* before completion */
    busy(sim, b, 5);
    assert_int_equal(weir_sim_stream_tail(sim, b), 105);
    fails(weir_device_event_record(device, event, a), WEIR_ERR_INVALID);
    ok(weir_sim_sync(sim));
    assert_int_equal(weir_sim_now(sim), 1100);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_event_query_and_sync)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_device *device = weir_sim_device(sim);
    weir_sim_stream *a = new_stream(sim);
    weir_event *event = new_event(sim);
    bool complete = true;
    busy(sim, a, 100);
    ok(weir_device_event_record(device, event, a));
    ok(weir_device_event_query(device, event, &complete));
    assert_false(complete);
    weir_sim_advance(sim, 99);
    ok(weir_device_event_query(device, event, &complete));
    assert_false(complete);
    weir_sim_advance(sim, 1);
    ok(weir_device_event_query(device, event, &complete));
    assert_true(complete);
    busy(sim, a, 100);
    ok(weir_device_event_record(device, event, a)); /* captures new work */
    ok(weir_device_event_query(device, event, &complete));
    assert_false(complete);
    ok(weir_device_event_sync(device, event));
    assert_int_equal(weir_sim_now(sim), 200);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_event_never_recorded)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_device *device = weir_sim_device(sim);
    weir_sim_stream *a = new_stream(sim);
    weir_event *event = new_event(sim);
    bool complete = false;
    busy(sim, a, 100);
    ok(weir_device_event_query(device, event, &complete));
    assert_true(complete);
    ok(weir_device_event_sync(device, event));
    assert_int_equal(weir_sim_now(sim), 0);
    ok(weir_device_stream_wait_event(device, a, event));
    assert_int_equal(weir_sim_stream_tail(sim, a), 100);
    /* A new event in the slot of a destroyed one inherits nothing. */
    ok(weir_device_event_record(device, event, a));
    ok(weir_device_event_destroy(device, event));
    event = new_event(sim);
    ok(weir_device_event_query(device, event, &complete));
    assert_true(complete);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_default_stream)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_sim_stream *standard = weir_sim_default_stream(sim);
    assert_int_equal(weir_sim_stream_number(standard), 0);
    busy(sim, NULL, 100);
    assert_int_equal(weir_sim_stream_tail(sim, standard), 100);
    assert_int_equal(weir_sim_stream_tail(sim, NULL), 100);
    sync_stream(sim, NULL);
    assert_int_equal(weir_sim_now(sim), 100);
    fails(weir_sim_stream_destroy(sim, standard), WEIR_ERR_INVALID);
    fails(weir_sim_stream_destroy(sim, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_destroyed_stream)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_device *device = weir_sim_device(sim);
    weir_sim_stream *a = new_stream(sim);
    weir_event *event = new_event(sim);
    uint32_t number = weir_sim_stream_number(a);
    busy(sim, a, 100);
    ok(weir_device_event_record(device, event, a));
    ok(weir_sim_stream_destroy(sim, a));
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    fails(weir_sim_launch(sim, a, &work), WEIR_ERR_INVALID);
    fails(weir_sim_stream_destroy(sim, a), WEIR_ERR_INVALID);
    fails(weir_device_stream_sync(device, a), WEIR_ERR_INVALID);
    fails(weir_device_event_record(device, event, a), WEIR_ERR_INVALID);
    weir_sim_stream *again = new_stream(sim);
    assert_ptr_equal(again, a); /* the new stream has the handle of the old one, but another number */
    assert_int_not_equal(weir_sim_stream_number(again), number);
    assert_int_equal(weir_sim_stream_tail(sim, again), 0);
    bool complete = true;
    ok(weir_device_event_query(device, event, &complete));
    assert_false(complete);
    ok(weir_sim_sync(sim)); /* its work still runs to its end */
    assert_int_equal(weir_sim_now(sim), 100);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_foreign_handles)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_sim *other = new_sim(free_of_charge());
    weir_device *device = weir_sim_device(sim);
    weir_event *event = new_event(sim);
    char nothing[sizeof(void *) * 32] = {0};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    void *strangers[] = {nothing, (void *)(uintptr_t)8, new_stream(other), event};
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        fails(weir_sim_launch(sim, strangers[i], &work), WEIR_ERR_INVALID);
        fails(weir_device_stream_sync(device, strangers[i]), WEIR_ERR_INVALID);
        fails(weir_device_event_record(device, event, strangers[i]), WEIR_ERR_INVALID);
        fails(weir_sim_fill(sim, strangers[i], 0, 0, 0, NULL), WEIR_ERR_INVALID);
    }
    weir_event *foreign = (weir_event *)(void *)nothing;
    bool complete = false;
    fails(weir_device_event_query(device, foreign, &complete), WEIR_ERR_INVALID);
    fails(weir_device_event_destroy(device, foreign), WEIR_ERR_INVALID);
    fails(weir_device_event_query(device, new_event(other), &complete), WEIR_ERR_INVALID);
    assert_int_equal(weir_sim_destroy(other), WEIR_OK);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_arguments)
{
    weir_sim *sim = NULL;
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    fails(weir_sim_create(&config, NULL), WEIR_ERR_INVALID);
    config.region_granularity_bytes = 3 * MIB;
    fails(weir_sim_create(&config, &sim), WEIR_ERR_INVALID);
    config.region_granularity_bytes = 0;
    config.page_bytes = 12345;
    fails(weir_sim_create(&config, &sim), WEIR_ERR_INVALID);
    config.page_bytes = 0;
    config.capacity_bytes = MIB; /* below one granule */
    fails(weir_sim_create(&config, &sim), WEIR_ERR_INVALID);
    config.capacity_bytes = 0;
    config.address_base = 4096;
    fails(weir_sim_create(&config, &sim), WEIR_ERR_INVALID);
    config.address_base = 0;
    config.mode = WEIR_SIM_BACKED;
    config.region_granularity_bytes = 512; /* less than a page of the host */
    fails(weir_sim_create(&config, &sim), WEIR_ERR_INVALID);
    config.struct_size = 4;
    fails(weir_sim_create(&config, &sim), WEIR_ERR_INVALID);
    assert_null(sim);
    ok(weir_sim_create(NULL, &sim));
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.access_count = 1;
    fails(weir_sim_launch(sim, NULL, &work), WEIR_ERR_INVALID);
    fails(weir_sim_launch(sim, NULL, NULL), WEIR_ERR_INVALID);
    fails(weir_sim_copy_to_host(sim, NULL, NULL, 0, 1, NULL), WEIR_ERR_INVALID);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    assert_int_equal(weir_sim_destroy(NULL), WEIR_OK);
}

TEST(test_calls_cost_what_the_table_says)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.costs.call_ns[WEIR_CALL_REGION_ALLOC] = 1000;
    config.costs.region_alloc_ns_per_mib = 10;
    config.costs.call_ns[WEIR_CALL_EVENT_CREATE] = WEIR_SIM_FREE_OF_CHARGE;
    config.costs.call_ns[WEIR_CALL_STREAM_SYNC] = 7;
    config.costs.launch_ns = 3;
    weir_sim *sim = new_sim(config);
    uint64_t region = new_region(sim, 4 * MIB);
    assert_int_equal(weir_sim_now(sim), 1040);
    (void)new_event(sim);
    assert_int_equal(weir_sim_now(sim), 1040);
    busy(sim, NULL, 100);
    assert_int_equal(weir_sim_now(sim), 1043);
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.no_launch_cost = true;
    ok(weir_sim_launch(sim, NULL, &work));
    assert_int_equal(weir_sim_now(sim), 1043);
    sync_stream(sim, NULL);
    assert_int_equal(weir_sim_now(sim), 1143);
    give_region(sim, region, 4 * MIB); /* the default: 60 us and 500 ns per MiB */
    assert_int_equal(weir_sim_now(sim), 1143 + 62000);
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(sim, &stats));
    assert_int_equal(stats.calls[WEIR_CALL_REGION_ALLOC], 1);
    assert_int_equal(stats.call_ns[WEIR_CALL_REGION_ALLOC], 1040);
    assert_int_equal(stats.call_ns[WEIR_CALL_STREAM_SYNC], 100); /* the wait is part of it */
    assert_int_equal(stats.call_ns[WEIR_CALL_REGION_FREE], 62000);
    assert_int_equal(stats.operations, 2);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_time_stops_at_its_end)
{
    weir_sim *sim = new_sim(free_of_charge());
    busy(sim, NULL, UINT64_MAX - 5);
    busy(sim, NULL, 100);
    assert_true(weir_sim_stream_tail(sim, NULL) == UINT64_MAX);
    weir_sim_advance(sim, UINT64_MAX);
    weir_sim_advance(sim, 10);
    assert_true(weir_sim_now(sim) == UINT64_MAX);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* Runs a short mixed program. Returns a digest of its time and figures. */
static uint64_t run(uint64_t seed, uint64_t *tails)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    config.seed = seed;
    weir_sim *sim = new_sim(config);
    weir_sim_stream *streams[3];
    uint64_t addresses = 0;
    for (int i = 0; i < 3; i++) {
        streams[i] = new_stream(sim);
    }
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t region = new_region(sim, (1 + i % 5) * 2 * MIB);
        addresses = addresses * 31 + region;
        busy(sim, streams[i % 3], 10000 + i);
        order(sim, streams[i % 3], streams[(i + 1) % 3]);
        if (i % 4 == 0) {
            give_region(sim, region, (1 + i % 5) * 2 * MIB);
        }
    }
    *tails = 0;
    for (int i = 0; i < 3; i++) {
        *tails = *tails * 31 + weir_sim_stream_tail(sim, streams[i]);
    }
    ok(weir_sim_sync(sim));
    uint64_t result = addresses + weir_sim_now(sim);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    return result;
}

TEST(test_same_seed_same_result)
{
    uint64_t tails[4];
    uint64_t first = run(7, &tails[0]);
    assert_int_equal(run(7, &tails[1]), first);
    assert_int_equal(tails[0], tails[1]);
    (void)run(8, &tails[2]);
    assert_int_not_equal(tails[0], tails[2]);
    (void)run(0, &tails[3]);
    assert_int_not_equal(tails[0], tails[3]);
}

TEST(test_jitter_stays_in_its_bounds)
{
    weir_sim_config config = free_of_charge();
    config.seed = 1;
    weir_sim *sim = new_sim(config);
    uint64_t sum = 0;
    for (int i = 0; i < 2000; i++) {
        uint64_t before = weir_sim_stream_tail(sim, NULL);
        busy(sim, NULL, 1000000);
        uint64_t took = weir_sim_stream_tail(sim, NULL) - before;
        assert_in_range(took, 750000, 1250000);
        sum += took;
    }
    assert_in_range(sum / 2000, 980000, 1020000);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

static void count_up(void *ctx)
{
    (*(int *)ctx)++;
}

TEST(test_host_functions_run_when_their_time_comes)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_sim_stream *a = new_stream(sim);
    int calls = 0;
    busy(sim, a, 100);
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.host_function = count_up;
    work.host_ctx = &calls;
    work.duration_ns = 10;
    ok(weir_sim_launch(sim, a, &work));
    weir_sim_advance(sim, 109);
    assert_int_equal(calls, 0);
    weir_sim_advance(sim, 1);
    assert_int_equal(calls, 1);
    work.duration_ns = 0;
    ok(weir_sim_launch(sim, a, &work)); /* due at once */
    assert_int_equal(calls, 2);
    busy(sim, a, 100);
    ok(weir_sim_launch(sim, a, &work));
    ok(weir_sim_stream_destroy(sim, a));
    assert_int_equal(calls, 2);
    ok(weir_sim_sync(sim));
    assert_int_equal(calls, 3);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

struct order_log {
    weir_sim *sim;
    char letters[8];
    uint64_t times[8];
    int count;
};

struct note {
    struct order_log *log;
    char letter;
};

static void write_note(void *ctx)
{
    struct note *n = ctx;
    n->log->letters[n->log->count] = n->letter;
    n->log->times[n->log->count++] = weir_sim_now(n->log->sim); /* a host function may call the simulator */
}

TEST(test_host_functions_run_in_the_order_of_time)
{
    weir_sim *sim = new_sim(free_of_charge());
    struct order_log log = {.sim = sim};
    struct note notes[4] = {{&log, 'a'}, {&log, 'b'}, {&log, 'c'}, {&log, 'd'}};
    const uint64_t durations[4] = {300, 100, 200, 100};
    for (int i = 0; i < 4; i++) {
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = durations[i];
        work.host_function = write_note;
        work.host_ctx = &notes[i];
        ok(weir_sim_launch(sim, new_stream(sim), &work));
    }
    ok(weir_sim_sync(sim));
    assert_string_equal(log.letters, "bdca"); /* equal times: as queued */
    assert_int_equal(log.times[0], 100);
    assert_int_equal(log.times[2], 200);
    assert_int_equal(log.times[3], 300);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}
