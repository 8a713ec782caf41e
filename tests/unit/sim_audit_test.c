/* tests/unit/sim_audit_test.c: each kind of finding is provoked once, and has a twin that is ordered correctly and must
 * be clean. The tests also check the text of a finding: both operations, streams, ticks, and whether the order was only
 * luck. */
#include "sim_bench.h"

static bench set_up(void)
{
    return set_up_with(free_of_charge());
}

/* --- outside a block --- */

static void test_outside_block(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "weights");
    writes(t.sim, t.a, t.region + 4 * MIB, KIB, "stray");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "stray");
    assert_int_equal(f.address, t.region + 4 * MIB);
    assert_int_equal(f.size, KIB);
    assert_int_equal(f.later.stream, weir_sim_stream_number(t.a));
    assert_int_equal(f.later.tick, 1);
    assert_string_equal(f.later.what, "kernel");
    tear_down(&t);
}

static void test_past_the_end_of_a_block(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "weights");
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "neighbour");
    reads(t.sim, t.a, t.region, MIB + 32, "over-reads");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "weights", "over-reads");
    assert_non_null(strstr(f.text, "32 bytes run past"));
    tear_down(&t);
}

static void test_just_past_the_end(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "weights");
    reads(t.sim, t.a, t.region + MIB, 4, "off by one");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "weights", "off by one");
    tear_down(&t);
}

static void test_inside_blocks_is_clean(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "weights");
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "neighbour");
    writes(t.sim, t.a, t.region, MIB, "whole");
    writes(t.sim, t.a, t.region + MIB - 1, 1, "last byte");
    writes(t.sim, t.a, t.region + MIB, 1, "first byte");
    writes(t.sim, t.a, t.region + 7 * MIB, 0, "nothing at all");
    is_clean(t.sim);
    tear_down(&t);
}

/* --- use after free --- */

static void test_use_after_free(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    weir_sim_advance(t.sim, LONG_NS);
    reads(t.sim, t.a, t.region + 100, 4, "late reader");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_USE_AFTER_FREE, "del x", "late reader");
    assert_string_equal(f.earlier.what, "free");
    assert_false(f.in_flight);
    tear_down(&t);
}

static void test_use_before_free_is_clean(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    reads(t.sim, t.a, t.region + 100, 4, "reader");
    order(t.sim, t.a, t.b);
    reads(t.sim, t.b, t.region + 100, 4, "reader on b");
    weir_sim_block_free(t.sim, t.region, t.a, "del x"); /* b is still reading: the pool must handle that */
    is_clean(t.sim);
    tear_down(&t);
}

/* --- unordered --- */

static void test_unordered_write_write(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
    busy(t.sim, t.b, 10); /* so that ticks differ */
    writes(t.sim, t.a, t.region, MIB, "first");
    weir_sim_advance(t.sim, 1000);
    writes(t.sim, t.b, t.region, MIB, "second");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
    assert_true(f.in_flight);
    assert_int_equal(f.earlier.stream, weir_sim_stream_number(t.a));
    assert_int_equal(f.earlier.tick, 1);
    assert_int_equal(f.later.stream, weir_sim_stream_number(t.b));
    assert_int_equal(f.later.tick, 2);
    assert_int_equal(f.earlier.end_ns - f.later.start_ns, LONG_NS - 1000);
    assert_non_null(strstr(f.text, "999000 ns to run"));
    tear_down(&t);
}

static void test_order_counts_and_luck_does_not(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
    writes(t.sim, t.a, t.region, MIB, "first");
    weir_sim_advance(t.sim, 10 * LONG_NS); /* long over, but the host has not looked */
    writes(t.sim, t.b, t.region, MIB, "second");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
    assert_false(f.in_flight);
    assert_non_null(strstr(f.text, "by luck"));
    tear_down(&t);
}

static void test_unordered_read_write(void **state)
{
    (void)state;
    for (int write_first = 0; write_first < 2; write_first++) {
        bench t = set_up();
        weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
        touch(t.sim, t.a, t.region, MIB, write_first, LONG_NS, "first");
        touch(t.sim, t.b, t.region + 5, 1, !write_first, LONG_NS, "second");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
        assert_int_equal(f.address, t.region + 5);
        assert_int_equal(f.size, 1);
        tear_down(&t);
    }
}

static void test_every_reader_counts(void **state)
{
    (void)state;
    for (int missing = 0; missing < 3; missing++) {
        static const char *const tags[] = {"reader 0", "reader 1", "reader 2"};
        bench t = set_up();
        weir_sim_stream *readers[] = {t.a, t.b, t.c};
        weir_sim_stream *writer = new_stream(t.sim);
        weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
        for (int i = 0; i < 3; i++) {
            reads(t.sim, readers[i], t.region, MIB, tags[i]);
        }
        for (int i = 0; i < 3; i++) {
            if (i != missing) {
                order(t.sim, readers[i], writer);
            }
        }
        writes(t.sim, writer, t.region, MIB, "writer");
        only_finding(t.sim, WEIR_SIM_UNORDERED, tags[missing], "writer");
        tear_down(&t);
    }
}

static void test_all_ways_to_order(void **state)
{
    (void)state;
    for (int way = 0; way < 7; way++) {
        bench t = set_up();
        weir_device *device = weir_sim_device(t.sim);
        weir_event *event = new_event(t.sim);
        bool complete = false;
        weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
        writes(t.sim, t.a, t.region, MIB, "first");
        switch (way) {
        case 0: /* a wait */
            order(t.sim, t.a, t.b);
            break;
        case 1: /* a wait through a third stream */
            order(t.sim, t.a, t.c);
            order(t.sim, t.c, t.b);
            break;
        case 2:
            sync_stream(t.sim, t.a);
            break;
        case 3:
            ok(weir_device_event_record(device, event, t.a));
            ok(weir_device_event_sync(device, event));
            break;
        case 4:
            ok(weir_device_event_record(device, event, t.a));
            weir_sim_advance(t.sim, 2 * LONG_NS);
            ok(weir_device_event_query(device, event, &complete));
            assert_true(complete);
            break;
        case 5:
            ok(weir_sim_sync(t.sim));
            break;
        default: /* the host saw a stream that had waited */
            order(t.sim, t.a, t.c);
            sync_stream(t.sim, t.c);
            break;
        }
        writes(t.sim, t.b, t.region, MIB, "second");
        is_clean(t.sim);
        tear_down(&t);
    }
}

static void test_what_is_no_order(void **state)
{
    (void)state;
    for (int way = 0; way < 7; way++) {
        bench t = set_up();
        weir_device *device = weir_sim_device(t.sim);
        weir_event *event = new_event(t.sim);
        bool complete = true;
        weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
        switch (way) {
        case 0: /* an event recorded before */
            ok(weir_device_event_record(device, event, t.a));
            writes(t.sim, t.a, t.region, MIB, "first");
            ok(weir_device_stream_wait_event(device, t.b, event));
            break;
        case 1: /* an event never recorded */
            writes(t.sim, t.a, t.region, MIB, "first");
            ok(weir_device_stream_wait_event(device, t.b, event));
            break;
        case 2: /* a query that answered no */
            writes(t.sim, t.a, t.region, MIB, "first");
            ok(weir_device_event_record(device, event, t.a));
            ok(weir_device_event_query(device, event, &complete));
            assert_false(complete);
            break;
        case 3: /* the other direction */
            writes(t.sim, t.a, t.region, MIB, "first");
            order(t.sim, t.b, t.a);
            break;
        case 4: /* a new event in the place of one that was recorded after */
            writes(t.sim, t.a, t.region, MIB, "first");
            ok(weir_device_event_record(device, event, t.a));
            ok(weir_device_event_destroy(device, event));
            event = new_event(t.sim);
            ok(weir_device_stream_wait_event(device, t.b, event));
            break;
        case 5: /* another stream was synchronised */
            writes(t.sim, t.a, t.region, MIB, "first");
            sync_stream(t.sim, t.c);
            break;
        default: /* the event was recorded anew, elsewhere, before the wait */
            writes(t.sim, t.a, t.region, MIB, "first");
            ok(weir_device_event_record(device, event, t.a));
            ok(weir_device_event_record(device, event, t.c));
            ok(weir_device_stream_wait_event(device, t.b, event));
            break;
        }
        writes(t.sim, t.b, t.region, MIB, "second");
        only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
        tear_down(&t);
    }
}

static void test_halves_of_a_block_do_not_meet(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
    for (int i = 0; i < 10; i++) {
        writes(t.sim, t.a, t.region, MIB / 2, "left");
        writes(t.sim, t.b, t.region + MIB / 2, MIB / 2, "right");
    }
    is_clean(t.sim);
    writes(t.sim, t.b, t.region + MIB / 2 - 1, 1, "one byte over");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "left", "one byte over");
    assert_int_equal(f.earlier.tick, 10);
    assert_int_equal(f.address, t.region + MIB / 2 - 1);
    tear_down(&t);
}

static void test_one_pair_is_said_once(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_access accesses[] = {{.address = t.region, .size = 10, .write = true},
                                  {.address = t.region + 20, .size = 10, .write = true}};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.accesses = accesses;
    work.access_count = 2;
    work.tag = "first";
    weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
    ok(weir_sim_launch(t.sim, t.a, &work));
    work.tag = "second";
    ok(weir_sim_launch(t.sim, t.b, &work));
    only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
    tear_down(&t);
}

/* Memory that was idle when it was handed out may be used by every stream; other memory only by the
 * stream that got it. */
static void test_block_used_on_another_stream(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "fresh");
    busy(t.sim, t.a, LONG_NS);
    writes(t.sim, t.b, t.region, MIB, "elsewhere");
    is_clean(t.sim);

    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "old");
    writes(t.sim, t.a, t.region + MIB, MIB, "old owner");
    weir_sim_block_free(t.sim, t.region + MIB, t.a, "del old");
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "new");
    is_clean(t.sim);
    writes(t.sim, t.b, t.region + MIB, MIB, "too early");
    only_finding(t.sim, WEIR_SIM_UNORDERED, "new", "too early");
    tear_down(&t);
}

/* A reported write replaces the accesses that it overwrote: a later access in order causes no second finding. */
static void test_a_reported_write_takes_the_place_of_others(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
    writes(t.sim, t.a, t.region, MIB, "writer on a");
    reads(t.sim, t.a, t.region, MIB, "reader on a");
    writes(t.sim, t.b, t.region, MIB, "writer on b");
    writes(t.sim, t.b, t.region, MIB, "next on b");
    only_finding(t.sim, WEIR_SIM_UNORDERED, "reader on a", "writer on b");
    tear_down(&t);
}

/* --- early reuse --- */

static void test_early_reuse(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "old");
    writes(t.sim, t.a, t.region, MIB, "long kernel");
    weir_sim_block_free(t.sim, t.region, t.a, "del old");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "new");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "long kernel", "new");
    assert_true(f.in_flight);
    assert_string_equal(f.later.what, "alloc");
    writes(t.sim, t.b, t.region, MIB, "victim"); /* the same pair: no second finding */
    only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "long kernel", "new");
    tear_down(&t);
}

static void test_early_reuse_without_touches(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "old");
    busy(t.sim, t.a, LONG_NS); /* a trace knows that the stream worked, not on what */
    weir_sim_block_free(t.sim, t.region, t.a, "del old");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "new");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "del old", "new");
    assert_true(f.in_flight);
    tear_down(&t);
}

static void test_early_reuse_to_the_host(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "old");
    writes(t.sim, t.a, t.region, MIB, "long kernel");
    weir_sim_block_free(t.sim, t.region, t.a, "del old");
    weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "new");
    only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "long kernel", "new");
    tear_down(&t);
}

static void test_reuse_is_clean_when_ordered(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        bench t = set_up();
        weir_sim_stream *taker = way == 0 ? t.a : way == 3 ? NULL : t.b;
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "old");
        writes(t.sim, t.a, t.region, MIB, "long kernel");
        weir_sim_block_free(t.sim, t.region, t.a, "del old");
        if (way == 1) {
            order(t.sim, t.a, t.b);
        } else if (way >= 2) {
            sync_stream(t.sim, t.a);
        }
        weir_sim_block_alloc(t.sim, t.region, MIB, taker, "new");
        writes(t.sim, taker != NULL ? taker : t.c, t.region, MIB, "new owner");
        is_clean(t.sim);
        tear_down(&t);
    }
}

/* The host knew that the stream was idle before the free: the free itself touches nothing, so no wait is needed. */
static void test_free_after_sync_needs_no_second_sync(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "old");
    writes(t.sim, t.a, t.region, MIB, "kernel");
    sync_stream(t.sim, t.a);
    weir_sim_block_free(t.sim, t.region, t.a, "del old");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "new");
    is_clean(t.sim);
    tear_down(&t);
}

static void test_early_reuse_once_for_each_earlier_block(void **state)
{
    (void)state;
    bench t = set_up();
    for (uint64_t i = 0; i < 3; i++) {
        weir_sim_block_alloc(t.sim, t.region + i * MIB, MIB, t.a, "old");
        writes(t.sim, t.a, t.region + i * MIB, KIB, "left part");
        writes(t.sim, t.a, t.region + i * MIB + MIB / 2, KIB, "right part");
        weir_sim_block_free(t.sim, t.region + i * MIB, t.a, "del old");
    }
    weir_sim_block_alloc(t.sim, t.region + MIB / 2, 2 * MIB, t.b, "over all three");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_EARLY_REUSE), 3);
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 3);
    tear_down(&t);
}

/* Handing out a part leaves the rest unchanged. */
static void test_rest_of_a_split_block_keeps_its_past(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, 3 * MIB, t.a, "old");
    writes(t.sim, t.a, t.region, 3 * MIB, "long kernel");
    weir_sim_block_free(t.sim, t.region, t.a, "del old");
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "middle");
    is_clean(t.sim);
    weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "left");
    only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "long kernel", "left");
    weir_sim_block_alloc(t.sim, t.region + 2 * MIB, MIB, t.b, "right");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_EARLY_REUSE), 2);
    tear_down(&t);
}

/* --- overlap --- */

static void test_overlap(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "first");
    weir_sim_block_alloc(t.sim, t.region + MIB / 2, MIB, t.a, "second");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OVERLAP, "first", "second");
    assert_int_equal(f.address, t.region + MIB / 2);
    assert_int_equal(f.size, MIB / 2);
    weir_sim_block_free(t.sim, t.region, t.a, "");
    weir_sim_block_free(t.sim, t.region + MIB / 2, t.a, "");
    only_finding(t.sim, WEIR_SIM_OVERLAP, "first", "second");
    tear_down(&t);
}

/* The same address is handed out twice: each owner frees once, and that is not a double free. */
static void test_overlap_at_the_same_address(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, 2 * MIB, t.a, "first");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "second");
    weir_sim_block_free(t.sim, t.region, t.a, "one");
    weir_sim_block_free(t.sim, t.region, t.a, "two");
    only_finding(t.sim, WEIR_SIM_OVERLAP, "first", "second");
    weir_sim_block_free(t.sim, t.region, t.a, "three");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_DOUBLE_FREE), 1);
    tear_down(&t);
}

/* Work on both of two overlapping blocks, in pieces of all kinds, keeps the shadow consistent. */
static void test_work_on_overlapping_blocks(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, 4 * MIB, t.a, "outer");
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "inner");
    for (int i = 0; i < 3; i++) {
        writes(t.sim, t.a, t.region, 4 * MIB, "outer");
        reads(t.sim, t.a, t.region + MIB / 2, 3 * MIB, "outer");
        writes(t.sim, t.a, t.region + MIB, MIB, "inner");
    }
    only_finding(t.sim, WEIR_SIM_OVERLAP, "outer", "inner");
    weir_sim_block_free(t.sim, t.region, t.a, "");
    writes(t.sim, t.a, t.region + MIB, MIB, "inner lives");
    only_finding(t.sim, WEIR_SIM_OVERLAP, "outer", "inner");
    tear_down(&t);
}

static void test_touching_blocks_do_not_overlap(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "middle");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "below");
    weir_sim_block_alloc(t.sim, t.region + 2 * MIB, MIB, t.a, "above");
    is_clean(t.sim);
    tear_down(&t);
}

/* --- frees --- */

static void test_double_free(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    weir_sim_block_free(t.sim, t.region, t.a, "one");
    weir_sim_block_free(t.sim, t.region, t.a, "two");
    only_finding(t.sim, WEIR_SIM_DOUBLE_FREE, "one", "two");
    tear_down(&t);
}

static void test_free_of_each_owner_is_clean(void **state)
{
    (void)state;
    bench t = set_up();
    for (int i = 0; i < 3; i++) {
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        weir_sim_block_free(t.sim, t.region, t.a, "del x");
    }
    is_clean(t.sim);
    tear_down(&t);
}

static void test_foreign_free(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_free(t.sim, t.region + 5 * MIB, t.a, "never");
    only_finding(t.sim, WEIR_SIM_FOREIGN_FREE, NULL, "never");
    tear_down(&t);

    t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    weir_sim_block_free(t.sim, t.region + 512, t.a, "inside");
    only_finding(t.sim, WEIR_SIM_FOREIGN_FREE, "x", "inside");
    weir_sim_block_free(t.sim, t.region, t.a, "right");
    only_finding(t.sim, WEIR_SIM_FOREIGN_FREE, "x", "inside");
    tear_down(&t);
}

static void test_free_pending(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    writes(t.sim, t.a, t.region, MIB, "long kernel");
    weir_sim_block_free(t.sim, t.region, NULL, "idle, says the host");
    only_finding(t.sim, WEIR_SIM_FREE_PENDING, "long kernel", "idle, says the host");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "trusts the host");
    only_finding(t.sim, WEIR_SIM_FREE_PENDING, "long kernel", "idle, says the host");
    tear_down(&t);
}

/* The host claims that a block is idle while work still reads it: one finding, at the free and not at
 * the next alloc. */
static void test_free_pending_read(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    reads(t.sim, t.a, t.region, MIB, "long read");
    weir_sim_block_free(t.sim, t.region, NULL, "idle, says the host");
    only_finding(t.sim, WEIR_SIM_FREE_PENDING, "long read", "idle, says the host");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "trusts the host");
    only_finding(t.sim, WEIR_SIM_FREE_PENDING, "long read", "idle, says the host");
    tear_down(&t);
}

static void test_host_free_after_sync_is_clean(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    writes(t.sim, t.a, t.region, MIB, "long kernel");
    reads(t.sim, t.b, t.region + MIB, 0, "nothing");
    sync_stream(t.sim, t.a);
    weir_sim_block_free(t.sim, t.region, NULL, "idle");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "new");
    writes(t.sim, t.b, t.region, MIB, "kernel");
    is_clean(t.sim);
    tear_down(&t);
}

/* --- regions --- */

static void test_outside_region(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region + 2 * REGION, MIB, t.a, "nowhere");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_REGION, NULL, "nowhere");
    tear_down(&t);

    t = set_up();
    weir_sim_block_alloc(t.sim, t.region + REGION - MIB, 2 * MIB, t.a, "over the end");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_REGION, NULL, "over the end");
    tear_down(&t);
}

static void test_block_in_a_returned_region(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    give_region(t.sim, t.region, REGION);
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "too late");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_REGION, NULL, "too late");
    tear_down(&t);
}

/* Two adjacent regions are still two. */
static void test_block_across_two_regions(void **state)
{
    (void)state;
    bench t = set_up();
    uint64_t second = new_region(t.sim, REGION);
    assert_int_equal(second, t.region + REGION);
    weir_sim_block_alloc(t.sim, second - MIB, MIB, t.a, "below the border");
    weir_sim_block_alloc(t.sim, second, MIB, t.a, "above the border");
    is_clean(t.sim);
    weir_sim_block_free(t.sim, second - MIB, t.a, "");
    weir_sim_block_free(t.sim, second, t.a, "");
    weir_sim_block_alloc(t.sim, second - MIB, 2 * MIB, t.a, "across");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_REGION, NULL, "across");
    tear_down(&t);
}

static void test_block_across_two_mappings_is_clean(void **state)
{
    (void)state;
    bench t = set_up();
    weir_device *device = weir_sim_device(t.sim);
    uint64_t base = 0;
    weir_vm_handle first = 0;
    weir_vm_handle second = 0;
    ok(weir_device_vm_reserve(device, 8 * MIB, &base));
    ok(weir_device_vm_create(device, 2 * MIB, &first));
    ok(weir_device_vm_create(device, 2 * MIB, &second));
    ok(weir_device_vm_map(device, base, 2 * MIB, first));
    ok(weir_device_vm_map(device, base + 2 * MIB, 2 * MIB, second));
    weir_sim_block_alloc(t.sim, base, 4 * MIB, t.a, "both");
    is_clean(t.sim);
    weir_sim_block_free(t.sim, base, t.a, "");
    weir_sim_block_alloc(t.sim, base + 2 * MIB, 4 * MIB, t.a, "beyond");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_OUTSIDE_REGION), 1);
    tear_down(&t);
}

static void test_region_pending(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    writes(t.sim, t.a, t.region, MIB, "long kernel");
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    give_region(t.sim, t.region, REGION);
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_REGION_PENDING, "long kernel", NULL);
    assert_string_equal(f.later.what, "region_free");
    assert_int_equal(f.later.stream, UINT32_MAX);
    assert_true(f.in_flight);
    tear_down(&t);
}

static void test_region_live(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    give_region(t.sim, t.region, REGION);
    only_finding(t.sim, WEIR_SIM_REGION_LIVE, "x", NULL);
    weir_sim_block_free(t.sim, t.region, t.a, "del x"); /* the first owner's correct free */
    assert_int_equal(new_region(t.sim, REGION), t.region);
    weir_sim_block_alloc(t.sim, t.region, 2 * MIB, t.b, "new");
    writes(t.sim, t.b, t.region, 2 * MIB, "new owner");
    only_finding(t.sim, WEIR_SIM_REGION_LIVE, "x", NULL);
    tear_down(&t);
}

static void test_work_on_a_block_whose_region_is_gone(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    give_region(t.sim, t.region, REGION);
    writes(t.sim, t.a, t.region, MIB, "kernel");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_REGION_LIVE), 1);
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_USE_AFTER_FREE), 1);
    tear_down(&t);
}

static void test_region_returned_properly_is_clean(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    writes(t.sim, t.a, t.region, MIB, "long kernel");
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    sync_stream(t.sim, t.a);
    give_region(t.sim, t.region, REGION);
    is_clean(t.sim);
    tear_down(&t);
}

/* --- leaks --- */

static void test_leak(void **state)
{
    (void)state;
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    writes(t.sim, t.a, t.region, KIB, "in pieces");
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "y");
    weir_sim_block_free(t.sim, t.region + MIB, t.a, "del y");
    weir_sim_audit_leaks(t.sim);
    weir_sim_finding f;
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 2);
    assert_true(weir_sim_finding_at(t.sim, 0, &f));
    assert_int_equal(f.kind, WEIR_SIM_LEAK);
    assert_string_equal(f.earlier.tag, "x");
    assert_int_equal(f.later.number, 0);
    assert_true(weir_sim_finding_at(t.sim, 1, &f));
    assert_string_equal(f.earlier.what, "region_alloc");
    assert_int_equal(f.size, REGION);
    assert_false(weir_sim_finding_at(t.sim, 2, &f));
    tear_down(&t);
}

static void test_leak_of_virtual_memory(void **state)
{
    (void)state;
    bench t = set_up();
    weir_device *device = weir_sim_device(t.sim);
    uint64_t base = 0;
    weir_vm_handle handle = 0;
    give_region(t.sim, t.region, REGION);
    ok(weir_device_vm_reserve(device, 8 * MIB, &base));
    ok(weir_device_vm_create(device, 2 * MIB, &handle));
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_LEAK), 2);
    ok(weir_device_vm_map(device, base, 2 * MIB, handle));
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_LEAK), 4);
    tear_down(&t);
}

static void test_nothing_leaked_is_clean(void **state)
{
    (void)state;
    bench t = set_up();
    weir_device *device = weir_sim_device(t.sim);
    uint64_t base = 0;
    weir_vm_handle handle = 0;
    ok(weir_device_vm_reserve(device, 8 * MIB, &base));
    ok(weir_device_vm_create(device, 2 * MIB, &handle));
    ok(weir_device_vm_map(device, base, 2 * MIB, handle));
    weir_sim_block_alloc(t.sim, base, MIB, t.a, "x");
    weir_sim_block_free(t.sim, base, t.a, "del x");
    ok(weir_device_vm_unmap(device, base, 2 * MIB));
    ok(weir_device_vm_destroy(device, handle));
    ok(weir_device_vm_release(device, base, 8 * MIB));
    give_region(t.sim, t.region, REGION);
    weir_sim_audit_leaks(t.sim);
    is_clean(t.sim);
    tear_down(&t);
}

/* --- the rest --- */

static void test_findings_are_counted_beyond_what_is_kept(void **state)
{
    (void)state;
    weir_sim_config config = free_of_charge();
    config.max_findings = 3;
    weir_sim *sim = new_sim(config);
    weir_sim_finding f;
    for (int i = 0; i < 10; i++) {
        weir_sim_block_free(sim, 4096, NULL, "x");
    }
    assert_int_equal(weir_sim_finding_count(sim, WEIR_SIM_FOREIGN_FREE), 10);
    assert_true(weir_sim_finding_at(sim, 2, &f));
    assert_false(weir_sim_finding_at(sim, 3, &f));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

static void test_no_audit(void **state)
{
    (void)state;
    weir_sim_config config = free_of_charge();
    config.no_audit = true;
    weir_sim *sim = new_sim(config);
    weir_sim_finding f;
    weir_sim_block_free(sim, 4096, NULL, "x");
    touch(sim, NULL, 4096, 1, true, 1, "x");
    weir_sim_audit_leaks(sim);
    assert_int_equal(weir_sim_finding_count(sim, WEIR_SIM_FINDING_KINDS), 0);
    assert_false(weir_sim_finding_at(sim, 0, &f));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

static void test_synchronous_device(void **state)
{
    (void)state;
    weir_sim_config config = free_of_charge();
    config.no_ordering = true;
    weir_sim *sim = new_sim(config);
    weir_sim_stream *a = new_stream(sim);
    weir_sim_stream *b = new_stream(sim);
    uint64_t region = new_region(sim, REGION);
    weir_sim_block_alloc(sim, region, MIB, a, "x");
    writes(sim, a, region, MIB, "kernel");
    assert_int_equal(weir_sim_now(sim), LONG_NS);
    writes(sim, b, region, MIB, "kernel");
    weir_sim_block_free(sim, region, NULL, "del x");
    weir_sim_block_alloc(sim, region, MIB, b, "y");
    weir_sim_block_free(sim, region, NULL, "del y");
    give_region(sim, region, REGION);
    is_clean(sim);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(weir_sim_finding_name(WEIR_SIM_EARLY_REUSE), "early_reuse");
    assert_string_equal(weir_sim_finding_name(WEIR_SIM_FINDING_KINDS), "unknown");
    for (int i = 0; i < WEIR_SIM_FINDING_KINDS; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(weir_sim_finding_name((weir_sim_finding_kind)i),
                                    weir_sim_finding_name((weir_sim_finding_kind)j));
        }
    }
}

static void do_nothing(void *ctx)
{
    (void)ctx;
}

/* Work with a host function has the name of the operation that it stands for, and is audited and timed the same. */
static void test_what_work_is_called(void **state)
{
    (void)state;
    for (int kernel = 0; kernel < 2; kernel++) {
        bench t = set_up();
        weir_sim_access access = {.address = t.region, .size = KIB, .write = true};
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = LONG_NS;
        work.accesses = &access;
        work.access_count = 1;
        work.tag = "first";
        work.host_function = do_nothing;
        work.kernel = kernel;
        weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "x");
        ok(weir_sim_launch(t.sim, t.a, &work));
        assert_int_equal(weir_sim_stream_tail(t.sim, t.a), LONG_NS);
        writes(t.sim, t.b, t.region, MIB, "second");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
        assert_string_equal(f.earlier.what, kernel ? "kernel" : "host function");
        tear_down(&t);
    }
}

static void test_long_tags_are_cut(void **state)
{
    (void)state;
    bench t = set_up();
    char tag[200];
    memset(tag, 'x', sizeof(tag) - 1);
    tag[sizeof(tag) - 1] = '\0';
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, tag);
    weir_sim_block_free(t.sim, t.region, t.a, tag);
    weir_sim_block_free(t.sim, t.region, t.a, tag);
    weir_sim_finding f;
    assert_true(weir_sim_finding_at(t.sim, 0, &f));
    assert_int_equal(strlen(f.later.tag), sizeof(f.later.tag) - 1);
    assert_true(strlen(f.text) + 1 < sizeof(f.text));
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_block),
        cmocka_unit_test(test_past_the_end_of_a_block),
        cmocka_unit_test(test_just_past_the_end),
        cmocka_unit_test(test_inside_blocks_is_clean),
        cmocka_unit_test(test_use_after_free),
        cmocka_unit_test(test_use_before_free_is_clean),
        cmocka_unit_test(test_unordered_write_write),
        cmocka_unit_test(test_order_counts_and_luck_does_not),
        cmocka_unit_test(test_unordered_read_write),
        cmocka_unit_test(test_every_reader_counts),
        cmocka_unit_test(test_all_ways_to_order),
        cmocka_unit_test(test_what_is_no_order),
        cmocka_unit_test(test_halves_of_a_block_do_not_meet),
        cmocka_unit_test(test_one_pair_is_said_once),
        cmocka_unit_test(test_block_used_on_another_stream),
        cmocka_unit_test(test_a_reported_write_takes_the_place_of_others),
        cmocka_unit_test(test_early_reuse),
        cmocka_unit_test(test_early_reuse_without_touches),
        cmocka_unit_test(test_early_reuse_to_the_host),
        cmocka_unit_test(test_reuse_is_clean_when_ordered),
        cmocka_unit_test(test_free_after_sync_needs_no_second_sync),
        cmocka_unit_test(test_early_reuse_once_for_each_earlier_block),
        cmocka_unit_test(test_rest_of_a_split_block_keeps_its_past),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_overlap_at_the_same_address),
        cmocka_unit_test(test_work_on_overlapping_blocks),
        cmocka_unit_test(test_touching_blocks_do_not_overlap),
        cmocka_unit_test(test_double_free),
        cmocka_unit_test(test_free_of_each_owner_is_clean),
        cmocka_unit_test(test_foreign_free),
        cmocka_unit_test(test_free_pending),
        cmocka_unit_test(test_free_pending_read),
        cmocka_unit_test(test_host_free_after_sync_is_clean),
        cmocka_unit_test(test_outside_region),
        cmocka_unit_test(test_block_in_a_returned_region),
        cmocka_unit_test(test_block_across_two_regions),
        cmocka_unit_test(test_block_across_two_mappings_is_clean),
        cmocka_unit_test(test_region_pending),
        cmocka_unit_test(test_region_live),
        cmocka_unit_test(test_work_on_a_block_whose_region_is_gone),
        cmocka_unit_test(test_region_returned_properly_is_clean),
        cmocka_unit_test(test_leak),
        cmocka_unit_test(test_leak_of_virtual_memory),
        cmocka_unit_test(test_nothing_leaked_is_clean),
        cmocka_unit_test(test_findings_are_counted_beyond_what_is_kept),
        cmocka_unit_test(test_no_audit),
        cmocka_unit_test(test_synchronous_device),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_work_is_called),
        cmocka_unit_test(test_long_tags_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
