/* tests/pool/unit/sim_audit_test.c: each kind of finding is provoked once, and has a twin that is ordered correctly and
 * must be clean. The tests also check the text of a finding: both operations, streams, ticks, and whether the order was
 * only luck. */
#include "rig/bench.h"

/* --- outside a block --- */

TEST(test_outside_block)
{
    hand_out(MIB, MIB, t.a, "weights");
    write_at(t.a, 4 * MIB, KIB, "stray");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "stray");
    assert_int_equal(f.address, t.region + 4 * MIB);
    assert_int_equal(f.size, KIB);
    assert_int_equal(f.later.stream, weir_sim_stream_number(t.a));
    assert_int_equal(f.later.tick, 1);
    assert_string_equal(f.later.what, "kernel");
}

TEST(test_past_the_end_of_a_block)
{
    hand_out(0, MIB, t.a, "weights");
    hand_out(MIB, MIB, t.a, "neighbour");
    read_at(t.a, 0, MIB + 32, "over-reads");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "weights", "over-reads");
    assert_non_null(strstr(f.text, "32 bytes run past"));
}

TEST(test_just_past_the_end)
{
    hand_out(0, MIB, t.a, "weights");
    read_at(t.a, MIB, 4, "off by one");
    is_only(WEIR_SIM_OUTSIDE_BLOCK, "weights", "off by one");
}

TEST(test_inside_blocks_is_clean)
{
    hand_out(0, MIB, t.a, "weights");
    hand_out(MIB, MIB, t.a, "neighbour");
    write_at(t.a, 0, MIB, "whole");
    write_at(t.a, MIB - 1, 1, "last byte");
    write_at(t.a, MIB, 1, "first byte");
    write_at(t.a, 7 * MIB, 0, "nothing at all");
    is_clean(t.sim);
}

/* --- use after free --- */

TEST(test_use_after_free)
{
    hand_out(0, MIB, t.a, "x");
    take_back(0, t.a, "del x");
    weir_sim_advance(t.sim, LONG_NS);
    read_at(t.a, 100, 4, "late reader");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_USE_AFTER_FREE, "del x", "late reader");
    assert_string_equal(f.earlier.what, "free");
    assert_false(f.in_flight);
}

TEST(test_use_before_free_is_clean)
{
    hand_out(0, MIB, t.a, "x");
    read_at(t.a, 100, 4, "reader");
    order(t.sim, t.a, t.b);
    read_at(t.b, 100, 4, "reader on b");
    take_back(0, t.a, "del x"); /* b is still reading: the pool must handle that */
    is_clean(t.sim);
}

/* --- unordered --- */

TEST(test_unordered_write_write)
{
    hand_out(0, MIB, NULL, "x");
    busy(t.sim, t.b, 10); /* so that ticks differ */
    write_at(t.a, 0, MIB, "first");
    weir_sim_advance(t.sim, 1000);
    write_at(t.b, 0, MIB, "second");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
    assert_true(f.in_flight);
    assert_int_equal(f.earlier.stream, weir_sim_stream_number(t.a));
    assert_int_equal(f.earlier.tick, 1);
    assert_int_equal(f.later.stream, weir_sim_stream_number(t.b));
    assert_int_equal(f.later.tick, 2);
    assert_int_equal(f.earlier.end_ns - f.later.start_ns, LONG_NS - 1000);
    assert_non_null(strstr(f.text, "999000 ns to run"));
}

TEST(test_order_counts_and_luck_does_not)
{
    hand_out(0, MIB, NULL, "x");
    write_at(t.a, 0, MIB, "first");
    weir_sim_advance(t.sim, 10 * LONG_NS); /* long over, but the host has not looked */
    write_at(t.b, 0, MIB, "second");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
    assert_false(f.in_flight);
    assert_non_null(strstr(f.text, "by luck"));
}

TEST(test_unordered_read_write)
{
    for (int write_first = 0; write_first < 2; write_first++) {
        renew();
        hand_out(0, MIB, NULL, "x");
        touch_at(t.a, 0, MIB, write_first, "first");
        touch_at(t.b, 5, 1, !write_first, "second");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
        assert_int_equal(f.address, t.region + 5);
        assert_int_equal(f.size, 1);
    }
}

TEST(test_every_reader_counts)
{
    for (int missing = 0; missing < 3; missing++) {
        static const char *const tags[] = {"reader 0", "reader 1", "reader 2"};
        renew();
        weir_sim_stream *readers[] = {t.a, t.b, t.c};
        weir_sim_stream *writer = new_stream(t.sim);
        hand_out(0, MIB, NULL, "x");
        for (int i = 0; i < 3; i++) {
            read_at(readers[i], 0, MIB, tags[i]);
        }
        for (int i = 0; i < 3; i++) {
            if (i != missing) {
                order(t.sim, readers[i], writer);
            }
        }
        write_at(writer, 0, MIB, "writer");
        is_only(WEIR_SIM_UNORDERED, tags[missing], "writer");
    }
}

TEST(test_all_ways_to_order)
{
    for (int way = 0; way < 7; way++) {
        renew();
        weir_event *event = new_event(t.sim);
        bool complete = false;
        hand_out(0, MIB, NULL, "x");
        write_at(t.a, 0, MIB, "first");
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
            ok(weir_device_event_record(t.device, event, t.a));
            ok(weir_device_event_sync(t.device, event));
            break;
        case 4:
            ok(weir_device_event_record(t.device, event, t.a));
            weir_sim_advance(t.sim, 2 * LONG_NS);
            ok(weir_device_event_query(t.device, event, &complete));
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
        write_at(t.b, 0, MIB, "second");
        is_clean(t.sim);
    }
}

TEST(test_calls_that_do_not_order)
{
    for (int way = 0; way < 7; way++) {
        renew();
        weir_event *event = new_event(t.sim);
        bool complete = true;
        hand_out(0, MIB, NULL, "x");
        switch (way) {
        case 0: /* an event recorded before */
            ok(weir_device_event_record(t.device, event, t.a));
            write_at(t.a, 0, MIB, "first");
            ok(weir_device_stream_wait_event(t.device, t.b, event));
            break;
        case 1: /* an event never recorded */
            write_at(t.a, 0, MIB, "first");
            ok(weir_device_stream_wait_event(t.device, t.b, event));
            break;
        case 2: /* a query that answered no */
            write_at(t.a, 0, MIB, "first");
            ok(weir_device_event_record(t.device, event, t.a));
            ok(weir_device_event_query(t.device, event, &complete));
            assert_false(complete);
            break;
        case 3: /* the other direction */
            write_at(t.a, 0, MIB, "first");
            order(t.sim, t.b, t.a);
            break;
        case 4: /* b waits for a new event that got the handle of the recorded one */
            write_at(t.a, 0, MIB, "first");
            ok(weir_device_event_record(t.device, event, t.a));
            ok(weir_device_event_destroy(t.device, event));
            event = new_event(t.sim);
            ok(weir_device_stream_wait_event(t.device, t.b, event));
            break;
        case 5: /* another stream was synchronised */
            write_at(t.a, 0, MIB, "first");
            sync_stream(t.sim, t.c);
            break;
        default: /* before b waits, the event is recorded again on c */
            write_at(t.a, 0, MIB, "first");
            ok(weir_device_event_record(t.device, event, t.a));
            ok(weir_device_event_record(t.device, event, t.c));
            ok(weir_device_stream_wait_event(t.device, t.b, event));
            break;
        }
        write_at(t.b, 0, MIB, "second");
        is_only(WEIR_SIM_UNORDERED, "first", "second");
    }
}

TEST(test_halves_of_a_block_do_not_meet)
{
    hand_out(0, MIB, NULL, "x");
    for (int i = 0; i < 10; i++) {
        write_at(t.a, 0, MIB / 2, "left");
        write_at(t.b, MIB / 2, MIB / 2, "right");
    }
    is_clean(t.sim);
    write_at(t.b, MIB / 2 - 1, 1, "one byte over");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "left", "one byte over");
    assert_int_equal(f.earlier.tick, 10);
    assert_int_equal(f.address, t.region + MIB / 2 - 1);
}

TEST(test_one_finding_per_pair_of_operations)
{
    weir_sim_access accesses[] = {{.address = t.region, .size = 10, .write = true},
                                  {.address = t.region + 20, .size = 10, .write = true}};
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.accesses = accesses;
    work.access_count = 2;
    work.tag = "first";
    hand_out(0, MIB, NULL, "x");
    ok(weir_sim_launch(t.sim, t.a, &work));
    work.tag = "second";
    ok(weir_sim_launch(t.sim, t.b, &work));
    is_only(WEIR_SIM_UNORDERED, "first", "second");
}

/* Memory that was idle when it was handed out may be used by every stream; other memory only by the
 * stream that got it. */
TEST(test_block_used_on_another_stream)
{
    hand_out(0, MIB, t.a, "fresh");
    busy(t.sim, t.a, LONG_NS);
    write_at(t.b, 0, MIB, "elsewhere");
    is_clean(t.sim);

    hand_out(MIB, MIB, t.a, "old");
    write_at(t.a, MIB, MIB, "old owner");
    take_back(MIB, t.a, "del old");
    hand_out(MIB, MIB, t.a, "new");
    is_clean(t.sim);
    write_at(t.b, MIB, MIB, "too early");
    is_only(WEIR_SIM_UNORDERED, "new", "too early");
}

/* A reported write replaces the accesses that it overwrote: a later access in order causes no second finding. */
TEST(test_a_reported_write_takes_the_place_of_others)
{
    hand_out(0, MIB, NULL, "x");
    write_at(t.a, 0, MIB, "writer on a");
    read_at(t.a, 0, MIB, "reader on a");
    write_at(t.b, 0, MIB, "writer on b");
    write_at(t.b, 0, MIB, "next on b");
    is_only(WEIR_SIM_UNORDERED, "reader on a", "writer on b");
}

/* --- early reuse --- */

TEST(test_early_reuse)
{
    hand_out(0, MIB, t.a, "old");
    write_at(t.a, 0, MIB, "long kernel");
    take_back(0, t.a, "del old");
    hand_out(0, MIB, t.b, "new");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "long kernel", "new");
    assert_true(f.in_flight);
    assert_string_equal(f.later.what, "alloc");
    write_at(t.b, 0, MIB, "victim"); /* the same pair: no second finding */
    is_only(WEIR_SIM_EARLY_REUSE, "long kernel", "new");
}

TEST(test_early_reuse_without_touches)
{
    hand_out(0, MIB, t.a, "old");
    /* as in the replay of a trace: the auditor knows that the stream worked, but not on which memory */
    busy(t.sim, t.a, LONG_NS);
    take_back(0, t.a, "del old");
    hand_out(0, MIB, t.b, "new");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "del old", "new");
    assert_true(f.in_flight);
}

TEST(test_early_reuse_to_the_host)
{
    hand_out(0, MIB, t.a, "old");
    write_at(t.a, 0, MIB, "long kernel");
    take_back(0, t.a, "del old");
    hand_out(0, MIB, NULL, "new");
    is_only(WEIR_SIM_EARLY_REUSE, "long kernel", "new");
}

TEST(test_reuse_is_clean_when_ordered)
{
    for (int way = 0; way < 4; way++) {
        renew();
        weir_sim_stream *taker = way == 0 ? t.a : way == 3 ? NULL : t.b;
        hand_out(0, MIB, t.a, "old");
        write_at(t.a, 0, MIB, "long kernel");
        take_back(0, t.a, "del old");
        if (way == 1) {
            order(t.sim, t.a, t.b);
        } else if (way >= 2) {
            sync_stream(t.sim, t.a);
        }
        hand_out(0, MIB, taker, "new");
        write_at(taker != NULL ? taker : t.c, 0, MIB, "new owner");
        is_clean(t.sim);
    }
}

/* The host knew that the stream was idle before the free: the free itself touches nothing, so no wait is needed. */
TEST(test_free_after_sync_needs_no_second_sync)
{
    hand_out(0, MIB, t.a, "old");
    write_at(t.a, 0, MIB, "kernel");
    sync_stream(t.sim, t.a);
    take_back(0, t.a, "del old");
    hand_out(0, MIB, t.b, "new");
    is_clean(t.sim);
}

TEST(test_early_reuse_once_for_each_earlier_block)
{
    for (uint64_t i = 0; i < 3; i++) {
        hand_out(i * MIB, MIB, t.a, "old");
        write_at(t.a, i * MIB, KIB, "left part");
        write_at(t.a, i * MIB + MIB / 2, KIB, "right part");
        take_back(i * MIB, t.a, "del old");
    }
    hand_out(MIB / 2, 2 * MIB, t.b, "over all three");
    assert_int_equal(count_of(WEIR_SIM_EARLY_REUSE), 3);
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 3);
}

/* Handing out a part of a freed block does not change the history of the rest. */
TEST(test_rest_of_a_split_block_keeps_its_past)
{
    hand_out(0, 3 * MIB, t.a, "old");
    write_at(t.a, 0, 3 * MIB, "long kernel");
    take_back(0, t.a, "del old");
    hand_out(MIB, MIB, t.a, "middle");
    is_clean(t.sim);
    hand_out(0, MIB, t.b, "left");
    is_only(WEIR_SIM_EARLY_REUSE, "long kernel", "left");
    hand_out(2 * MIB, MIB, t.b, "right");
    assert_int_equal(count_of(WEIR_SIM_EARLY_REUSE), 2);
}

/* --- overlap --- */

TEST(test_overlap)
{
    hand_out(0, MIB, t.a, "first");
    hand_out(MIB / 2, MIB, t.a, "second");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OVERLAP, "first", "second");
    assert_int_equal(f.address, t.region + MIB / 2);
    assert_int_equal(f.size, MIB / 2);
    take_back(0, t.a, "");
    take_back(MIB / 2, t.a, "");
    is_only(WEIR_SIM_OVERLAP, "first", "second");
}

/* The same address is handed out twice: each owner frees once, and that is not a double free. */
TEST(test_overlap_at_the_same_address)
{
    hand_out(0, 2 * MIB, t.a, "first");
    hand_out(0, MIB, t.a, "second");
    take_back(0, t.a, "one");
    take_back(0, t.a, "two");
    is_only(WEIR_SIM_OVERLAP, "first", "second");
    take_back(0, t.a, "three");
    assert_int_equal(count_of(WEIR_SIM_DOUBLE_FREE), 1);
}

/* Work on both of two overlapping blocks, in pieces of all kinds, keeps the shadow consistent. */
TEST(test_work_on_overlapping_blocks)
{
    hand_out(0, 4 * MIB, t.a, "outer");
    hand_out(MIB, MIB, t.a, "inner");
    for (int i = 0; i < 3; i++) {
        write_at(t.a, 0, 4 * MIB, "outer");
        read_at(t.a, MIB / 2, 3 * MIB, "outer");
        write_at(t.a, MIB, MIB, "inner");
    }
    is_only(WEIR_SIM_OVERLAP, "outer", "inner");
    take_back(0, t.a, "");
    write_at(t.a, MIB, MIB, "inner lives");
    is_only(WEIR_SIM_OVERLAP, "outer", "inner");
}

TEST(test_touching_blocks_do_not_overlap)
{
    hand_out(MIB, MIB, t.a, "middle");
    hand_out(0, MIB, t.a, "below");
    hand_out(2 * MIB, MIB, t.a, "above");
    is_clean(t.sim);
}

/* --- frees --- */

TEST(test_double_free)
{
    hand_out(0, MIB, t.a, "x");
    take_back(0, t.a, "one");
    take_back(0, t.a, "two");
    is_only(WEIR_SIM_DOUBLE_FREE, "one", "two");
}

TEST(test_free_of_each_owner_is_clean)
{
    for (int i = 0; i < 3; i++) {
        hand_out(0, MIB, t.a, "x");
        take_back(0, t.a, "del x");
    }
    is_clean(t.sim);
}

TEST(test_foreign_free)
{
    take_back(5 * MIB, t.a, "never");
    is_only(WEIR_SIM_FOREIGN_FREE, NULL, "never");

    renew();
    hand_out(0, MIB, t.a, "x");
    take_back(512, t.a, "inside");
    is_only(WEIR_SIM_FOREIGN_FREE, "x", "inside");
    take_back(0, t.a, "right");
    is_only(WEIR_SIM_FOREIGN_FREE, "x", "inside");
}

TEST(test_free_pending)
{
    hand_out(0, MIB, t.a, "x");
    write_at(t.a, 0, MIB, "long kernel");
    take_back(0, NULL, "idle, says the host");
    is_only(WEIR_SIM_FREE_PENDING, "long kernel", "idle, says the host");
    hand_out(0, MIB, t.b, "trusts the host");
    is_only(WEIR_SIM_FREE_PENDING, "long kernel", "idle, says the host");
}

/* The host claims that a block is idle while work still reads it: one finding, at the free and not at
 * the next alloc. */
TEST(test_free_pending_read)
{
    hand_out(0, MIB, t.a, "x");
    read_at(t.a, 0, MIB, "long read");
    take_back(0, NULL, "idle, says the host");
    is_only(WEIR_SIM_FREE_PENDING, "long read", "idle, says the host");
    hand_out(0, MIB, t.b, "trusts the host");
    is_only(WEIR_SIM_FREE_PENDING, "long read", "idle, says the host");
}

TEST(test_host_free_after_sync_is_clean)
{
    hand_out(0, MIB, t.a, "x");
    write_at(t.a, 0, MIB, "long kernel");
    read_at(t.b, MIB, 0, "nothing");
    sync_stream(t.sim, t.a);
    take_back(0, NULL, "idle");
    hand_out(0, MIB, t.b, "new");
    write_at(t.b, 0, MIB, "kernel");
    is_clean(t.sim);
}

/* --- regions --- */

TEST(test_outside_region)
{
    hand_out(2 * REGION, MIB, t.a, "nowhere");
    is_only(WEIR_SIM_OUTSIDE_REGION, NULL, "nowhere");

    renew();
    hand_out(REGION - MIB, 2 * MIB, t.a, "over the end");
    is_only(WEIR_SIM_OUTSIDE_REGION, NULL, "over the end");
}

TEST(test_block_in_a_returned_region)
{
    hand_out(0, MIB, t.a, "x");
    take_back(0, t.a, "del x");
    return_region();
    hand_out(0, MIB, t.a, "too late");
    is_only(WEIR_SIM_OUTSIDE_REGION, NULL, "too late");
}

/* A block may not cross from one region into an adjacent one. */
TEST(test_block_across_two_regions)
{
    uint64_t second = new_region(t.sim, REGION);
    assert_int_equal(second, t.region + REGION);
    weir_sim_block_alloc(t.sim, second - MIB, MIB, t.a, "below the border");
    weir_sim_block_alloc(t.sim, second, MIB, t.a, "above the border");
    is_clean(t.sim);
    weir_sim_block_free(t.sim, second - MIB, t.a, "");
    weir_sim_block_free(t.sim, second, t.a, "");
    weir_sim_block_alloc(t.sim, second - MIB, 2 * MIB, t.a, "across");
    is_only(WEIR_SIM_OUTSIDE_REGION, NULL, "across");
}

TEST(test_block_across_two_mappings_is_clean)
{
    uint64_t base = 0;
    weir_vm_handle first = 0;
    weir_vm_handle second = 0;
    ok(weir_device_vm_reserve(t.device, 8 * MIB, &base));
    ok(weir_device_vm_create(t.device, 2 * MIB, &first));
    ok(weir_device_vm_create(t.device, 2 * MIB, &second));
    ok(weir_device_vm_map(t.device, base, 2 * MIB, first));
    ok(weir_device_vm_map(t.device, base + 2 * MIB, 2 * MIB, second));
    weir_sim_block_alloc(t.sim, base, 4 * MIB, t.a, "both");
    is_clean(t.sim);
    weir_sim_block_free(t.sim, base, t.a, "");
    weir_sim_block_alloc(t.sim, base + 2 * MIB, 4 * MIB, t.a, "beyond");
    assert_int_equal(count_of(WEIR_SIM_OUTSIDE_REGION), 1);
}

TEST(test_region_pending)
{
    hand_out(0, MIB, t.a, "x");
    write_at(t.a, 0, MIB, "long kernel");
    take_back(0, t.a, "del x");
    return_region();
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_REGION_PENDING, "long kernel", NULL);
    assert_string_equal(f.later.what, "region_free");
    assert_int_equal(f.later.stream, UINT32_MAX);
    assert_true(f.in_flight);
}

TEST(test_region_live)
{
    hand_out(0, MIB, t.a, "x");
    return_region();
    is_only(WEIR_SIM_REGION_LIVE, "x", NULL);
    take_back(0, t.a, "del x"); /* the first owner's correct free */
    assert_int_equal(new_region(t.sim, REGION), t.region);
    hand_out(0, 2 * MIB, t.b, "new");
    write_at(t.b, 0, 2 * MIB, "new owner");
    is_only(WEIR_SIM_REGION_LIVE, "x", NULL);
}

TEST(test_work_on_a_block_whose_region_is_gone)
{
    hand_out(0, MIB, t.a, "x");
    return_region();
    write_at(t.a, 0, MIB, "kernel");
    assert_int_equal(count_of(WEIR_SIM_REGION_LIVE), 1);
    assert_int_equal(count_of(WEIR_SIM_USE_AFTER_FREE), 1);
}

TEST(test_region_returned_properly_is_clean)
{
    hand_out(0, MIB, t.a, "x");
    write_at(t.a, 0, MIB, "long kernel");
    take_back(0, t.a, "del x");
    sync_stream(t.sim, t.a);
    return_region();
    is_clean(t.sim);
}

/* --- leaks --- */

TEST(test_leak)
{
    hand_out(0, MIB, t.a, "x");
    write_at(t.a, 0, KIB, "in pieces");
    hand_out(MIB, MIB, t.a, "y");
    take_back(MIB, t.a, "del y");
    weir_sim_audit_leaks(t.sim);
    weir_sim_finding f;
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 2);
    assert_true(weir_sim_finding_at(t.sim, 0, &f));
    assert_int_equal(f.kind, WEIR_SIM_LEAK);
    assert_string_equal(f.earlier.tag, "x");
    assert_int_equal(f.later.number, 0);
    assert_true(weir_sim_finding_at(t.sim, 1, &f));
    assert_string_equal(f.earlier.what, "region_alloc");
    assert_int_equal(f.size, REGION);
    assert_false(weir_sim_finding_at(t.sim, 2, &f));
}

TEST(test_leak_of_virtual_memory)
{
    uint64_t base = 0;
    weir_vm_handle handle = 0;
    return_region();
    ok(weir_device_vm_reserve(t.device, 8 * MIB, &base));
    ok(weir_device_vm_create(t.device, 2 * MIB, &handle));
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(count_of(WEIR_SIM_LEAK), 2);
    ok(weir_device_vm_map(t.device, base, 2 * MIB, handle));
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(count_of(WEIR_SIM_LEAK), 4);
}

TEST(test_nothing_leaked_is_clean)
{
    weir_vm_handle handle = 0;
    const uint64_t base = map_memory(2 * MIB, &handle);
    weir_sim_block_alloc(t.sim, base, MIB, t.a, "x");
    weir_sim_block_free(t.sim, base, t.a, "del x");
    ok(weir_device_vm_unmap(t.device, base, 2 * MIB));
    ok(weir_device_vm_destroy(t.device, handle));
    ok(weir_device_vm_release(t.device, base, 8 * MIB));
    return_region();
    weir_sim_audit_leaks(t.sim);
    is_clean(t.sim);
}

/* --- the rest --- */

TEST(test_findings_are_counted_beyond_what_is_kept)
{
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

TEST(test_no_audit)
{
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

TEST(test_synchronous_device)
{
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

/* --- several devices --- */

/* The device of the work, 0 or 1, reaches one half of the region. */
static bool reaches_half(void *ctx, const weir_sim_access *access, char *detail, size_t size)
{
    const bool upper = access->address - t.region >= REGION / 2;
    const bool reaches = upper == *(const bool *)ctx;
    if (!reaches) {
        (void)snprintf(detail, size, "the memory is the other device's");
    }
    return reaches;
}

TEST(test_foreign_memory)
{
    bool upper = false;
    hand_out(0, MIB, t.a, "own");
    hand_out(REGION / 2, MIB, t.a, "other");
    weir_sim_set_reach(t.sim, reaches_half, &upper);
    write_at(t.a, 0, MIB, "at home");
    is_clean(t.sim);
    write_at(t.a, REGION / 2, KIB, "abroad");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_FOREIGN_MEMORY, NULL, "abroad");
    assert_int_equal(f.address, t.region + REGION / 2);
    assert_int_equal(f.size, KIB);
    assert_non_null(strstr(f.text, "the memory is the other device's"));
    upper = true;
    ok(weir_sim_fill(t.sim, t.a, t.region + REGION / 2, MIB, 0, "fill"));
    weir_sim_set_reach(t.sim, NULL, NULL);
    write_at(t.a, 0, MIB, "one device");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 1);
}

TEST(test_names)
{
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

/* The auditor and the prices treat work with a host function like a kernel. A finding names it by the operation that it
 * stands for. */
TEST(test_findings_name_work_by_its_operation)
{
    for (int kernel = 0; kernel < 2; kernel++) {
        renew();
        weir_sim_access access = {.address = t.region, .size = KIB, .write = true};
        weir_sim_work work = WEIR_SIM_WORK_INIT;
        work.duration_ns = LONG_NS;
        work.accesses = &access;
        work.access_count = 1;
        work.tag = "first";
        work.host_function = do_nothing;
        work.kernel = kernel;
        hand_out(0, MIB, NULL, "x");
        ok(weir_sim_launch(t.sim, t.a, &work));
        assert_int_equal(weir_sim_stream_tail(t.sim, t.a), LONG_NS);
        write_at(t.b, 0, MIB, "second");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
        assert_string_equal(f.earlier.what, kernel ? "kernel" : "host function");
    }
}

TEST(test_long_tags_are_cut)
{
    char tag[200];
    memset(tag, 'x', sizeof(tag) - 1);
    tag[sizeof(tag) - 1] = '\0';
    hand_out(0, MIB, t.a, tag);
    take_back(0, t.a, tag);
    take_back(0, t.a, tag);
    weir_sim_finding f;
    assert_true(weir_sim_finding_at(t.sim, 0, &f));
    assert_int_equal(strlen(f.later.tag), sizeof(f.later.tag) - 1);
    assert_true(strlen(f.text) + 1 < sizeof(f.text));
}
