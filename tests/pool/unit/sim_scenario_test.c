/* tests/pool/unit/sim_scenario_test.c: real bugs of other allocators, shaped by hand.
 *
 * The tests use no pool. Each test itself announces the wrong hand-out to the auditor, which must report it. The twin
 * of the test is the correct program, which must be clean. The bugs, as they were reported:
 *   merge      rapidsai/rmm #2489: a merged range keeps one of two pasts
 *   remainder  microsoft/onnxruntime PR #12913: the rest of a split block has the wrong owner
 *   side free  pytorch #188655: a free goes to the allocating stream although another stream used the block last
 *   handle     rapidsai/rmm #649, #2251: a new stream gets the handle, and the blocks, of a dead one
 *   trim       pytorch #196258: memory is returned under queued work, after the wrong stream was synchronised
 *   unmap      openvm-org/stark-backend PR #362: a device-side wait guards a host-side unmap
 *   uses       torchrec PR #4231, vllm-ascend PR #6479: the use on a side stream is forgotten
 *   polling    SOMA: "opportunistic" reuse that never queries if the work is complete
 */
#define REGION (32 * MIB)
#include "rig/bench.h"

/* Ends a scenario: no finding, or exactly this one. */
static void expect(bool right, weir_sim_finding_kind kind, const char *earlier, const char *later)
{
    if (right) {
        is_clean(t.sim);
    } else {
        assert_true(only_finding(t.sim, kind, earlier, later).in_flight);
    }
}

/* a frees neighbours x and y behind a long kernel. b, ordered after a, takes most of both, so they merge and a rest
 * stays with b. c is ordered after an older point of b only, and is given the rest. */
TEST(test_merge)
{
    for (int right = 0; right < 2; right++) {
        renew();
        weir_event *older = new_event(t.sim);
        busy(t.sim, t.b, 1000);
        ok(weir_device_event_record(t.device, older, t.b));
        hand_out(0, MIB, t.a, "x");
        hand_out(MIB, MIB, t.a, "y");
        write_at(t.a, 0, MIB, "kernel on x");
        write_at(t.a, MIB, MIB, "kernel on y");
        take_back(0, t.a, "del x");
        take_back(MIB, t.a, "del y");
        order(t.sim, t.a, t.b);
        hand_out(0, MIB + MIB / 2, t.b, "merged");
        if (right) {
            ok(weir_device_event_record(t.device, older, t.b)); /* the wait is now before it */
        }
        ok(weir_device_stream_wait_event(t.device, t.c, older));
        hand_out(MIB + MIB / 2, MIB / 2, t.c, "rest");
        expect(right, WEIR_SIM_EARLY_REUSE, "kernel on y", "rest");
    }
}

/* a frees 4 MiB behind a long kernel; b correctly takes 2 MiB of it; c gets the other 2 MiB as if they were b's. */
TEST(test_remainder)
{
    for (int right = 0; right < 2; right++) {
        renew();
        weir_event *older = new_event(t.sim);
        busy(t.sim, t.b, 1000);
        ok(weir_device_event_record(t.device, older, t.b));
        hand_out(0, 4 * MIB, t.a, "whole");
        write_at(t.a, 0, 4 * MIB, "long kernel");
        take_back(0, t.a, "del whole");
        order(t.sim, t.a, t.b);
        hand_out(0, 2 * MIB, t.b, "half");
        ok(weir_device_stream_wait_event(t.device, t.c, older));
        if (right) {
            order(t.sim, t.a, t.c);
        }
        hand_out(2 * MIB, 2 * MIB, t.c, "other half");
        expect(right, WEIR_SIM_EARLY_REUSE, "long kernel", "other half");
    }
}

/* A block of a: b waits for a and runs a long kernel on it; the block is freed on b, but handed out on a again. */
TEST(test_side_free)
{
    for (int right = 0; right < 2; right++) {
        renew();
        hand_out(0, MIB, t.a, "x");
        write_at(t.a, 0, MIB, "produce");
        order(t.sim, t.a, t.b);
        read_at(t.b, 0, MIB, "consume");
        take_back(0, t.b, "del x");
        hand_out(0, MIB, right ? t.b : t.a, "next");
        expect(right, WEIR_SIM_EARLY_REUSE, "consume", "next");
    }
}

/* A block is freed behind a long kernel; its stream is destroyed without a wait; a new stream has the same handle. */
TEST(test_handle)
{
    for (int right = 0; right < 2; right++) {
        renew();
        weir_event *last = new_event(t.sim);
        hand_out(0, MIB, t.a, "x");
        write_at(t.a, 0, MIB, "long kernel");
        take_back(0, t.a, "del x");
        ok(weir_device_event_record(t.device, last, t.a));
        ok(weir_sim_stream_destroy(t.sim, t.a));
        weir_sim_stream *again = new_stream(t.sim);
        assert_ptr_equal(again, t.a);
        if (right) {
            ok(weir_device_event_sync(t.device, last));
        }
        hand_out(0, MIB, again, "next");
        write_at(again, 0, MIB, "next kernel");
        expect(right, WEIR_SIM_EARLY_REUSE, "long kernel", "next");
    }
}

/* A trim synchronises a stream, but not the one that works on the region. */
TEST(test_trim)
{
    for (int right = 0; right < 2; right++) {
        renew();
        weir_sim_stream *standard = weir_sim_default_stream(t.sim);
        hand_out(0, MIB, standard, "x");
        write_at(NULL, 0, MIB, "long kernel");
        take_back(0, standard, "del x");
        sync_stream(t.sim, right ? NULL : t.b);
        return_region();
        expect(right, WEIR_SIM_REGION_PENDING, "long kernel", NULL);
    }
}

/* The host unmaps memory. The stream has waited for the kernel, but the host has not. */
TEST(test_unmap)
{
    for (int right = 0; right < 2; right++) {
        renew();
        weir_vm_handle handle = 0;
        const uint64_t base = map_memory(2 * MIB, &handle);
        weir_event *event = new_event(t.sim);
        weir_sim_block_alloc(t.sim, base, 2 * MIB, t.a, "x");
        writes(t.sim, t.a, base, 2 * MIB, "long kernel");
        weir_sim_block_free(t.sim, base, t.a, "del x");
        ok(weir_device_event_record(t.device, event, t.a));
        if (right) {
            ok(weir_device_event_sync(t.device, event));
        } else {
            ok(weir_device_stream_wait_event(t.device, t.b, event));
        }
        ok(weir_device_vm_unmap(t.device, base, 2 * MIB));
        ok(weir_device_vm_map(t.device, base + 4 * MIB, 2 * MIB, handle));
        weir_sim_block_alloc(t.sim, base + 4 * MIB, 2 * MIB, t.b, "next");
        writes(t.sim, t.b, base + 4 * MIB, 2 * MIB, "next kernel");
        expect(right, WEIR_SIM_REGION_PENDING, "long kernel", NULL);
    }
}

/* A block is used on two more streams than its own; the finding names the stream that was forgotten. */
TEST(test_uses)
{
    static const char *const tags[] = {"own kernel", "use on b", "use on c"};
    for (int forgotten = 0; forgotten <= 3; forgotten++) {
        for (int freed_on = 0; freed_on < 3; freed_on++) {
            renew();
            weir_sim_stream *streams[] = {t.a, t.b, t.c};
            weir_sim_stream *taker = new_stream(t.sim);
            hand_out(0, MIB, t.a, "x");
            order(t.sim, t.a, t.b);
            order(t.sim, t.a, t.c);
            for (int i = 0; i < 3; i++) {
                read_at(streams[i], 0, MIB, tags[i]);
            }
            read_at(t.b, 0, KIB, "use on b"); /* twice on one */
            take_back(0, streams[freed_on], "del x");
            for (int i = 0; i < 3; i++) {
                if (i != forgotten) {
                    order(t.sim, streams[i], taker);
                }
            }
            hand_out(0, MIB, taker, "next");
            if (forgotten == 3) {
                is_clean(t.sim);
            } else { /* perhaps ordered in time by luck, which is still a finding */
                is_only(WEIR_SIM_EARLY_REUSE, tags[forgotten], "next");
            }
        }
    }
}

/* The first of two pending uses completes. The test opens the memory to all streams too early, and then correctly. */
TEST(test_uses_promoted_at_the_first_completion)
{
    for (int right = 0; right < 2; right++) {
        renew();
        weir_event *events[2] = {new_event(t.sim), new_event(t.sim)};
        bool complete = false;
        hand_out(0, MIB, t.a, "x");
        touch_at(t.b, 0, MIB, false, "short use");
        touch(t.sim, t.c, t.region, MIB, false, 5 * LONG_NS, "long use");
        take_back(0, t.a, "del x");
        ok(weir_device_event_record(t.device, events[0], t.b));
        ok(weir_device_event_record(t.device, events[1], t.c));
        weir_sim_advance(t.sim, right ? 5 * LONG_NS : LONG_NS);
        ok(weir_device_event_query(t.device, events[0], &complete));
        assert_true(complete);
        ok(weir_device_event_query(t.device, events[1], &complete));
        assert_int_equal(complete, right);
        hand_out(0, MIB, NULL, "next");
        expect(right, WEIR_SIM_EARLY_REUSE, "long use", "next");
    }
}

/* Reuse without a query, and reuse after a query that answered "not yet" or failed. */
TEST(test_polling)
{
    for (int way = 0; way < 4; way++) {
        bool right = way == 3;
        renew();
        weir_event *event = new_event(t.sim);
        bool complete = false;
        hand_out(0, MIB, t.a, "x");
        write_at(t.a, 0, MIB, "long kernel");
        take_back(0, t.a, "del x");
        ok(weir_device_event_record(t.device, event, t.a));
        if (way == 1) {
            ok(weir_device_event_query(t.device, event, &complete));
            assert_false(complete);
        } else if (way == 2) {
            weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
            fault.call = WEIR_CALL_EVENT_QUERY;
            fault.nth = 1;
            ok(weir_sim_fault_arm(t.sim, &fault));
            fails(weir_device_event_query(t.device, event, &complete), WEIR_ERR_DEVICE);
        } else if (right) {
            weir_sim_advance(t.sim, LONG_NS);
            ok(weir_device_event_query(t.device, event, &complete));
            assert_true(complete);
        }
        hand_out(0, MIB, t.b, "next");
        expect(right, WEIR_SIM_EARLY_REUSE, "long kernel", "next");
    }
}
