/* tests/unit/sim_scenario_test.c: real bugs of other allocators, shaped by hand.
 *
 * No pool takes part: each test announces the wrong hand-out itself, and the auditor has to name it; its twin does what
 * the allocator should have done, and must be clean. The bugs, as they were reported:
 *   merge      rapidsai/rmm #2489: a merged range keeps one of two pasts
 *   remainder  microsoft/onnxruntime PR #12913: the rest of a split block has the wrong owner
 *   side free  pytorch #188655: a free goes to the allocating stream although another used the block last
 *   handle     rapidsai/rmm #649, #2251: a new stream gets the handle, and the blocks, of a dead one
 *   trim       pytorch #196258: memory is returned under queued work, after the wrong stream was synchronised
 *   unmap      openvm-org/stark-backend PR #362: a device-side wait guards a host-side unmap
 *   uses       torchrec PR #4231, vllm-ascend PR #6479: the use on a side stream is forgotten
 *   polling    SOMA: "opportunistic" reuse that never asks whether the work is complete
 */
#define REGION (32 * MIB)
#include "sim_bench.h"

static bench set_up(void)
{
    return set_up_with(free_of_charge());
}

/* Ends a scenario: no finding, or exactly this one. */
static void expect(bench *t, bool right, weir_sim_finding_kind kind, const char *earlier, const char *later)
{
    if (right) {
        is_clean(t->sim);
    } else {
        weir_sim_finding f = only_finding(t->sim, kind, earlier, later);
        assert_true(f.in_flight);
    }
    assert_int_equal(weir_sim_destroy(t->sim), WEIR_OK);
}

/* a frees neighbours x and y behind a long kernel. b, ordered after a, takes most of both, so they merge and a rest
 * stays with b. c is ordered after an older point of b only, and is given the rest. */
static void test_merge(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        bench t = set_up();
        weir_event *older = new_event(t.sim);
        busy(t.sim, t.b, 1000);
        ok(weir_device_event_record(t.device, older, t.b));
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "y");
        writes(t.sim, t.a, t.region, MIB, "kernel on x");
        writes(t.sim, t.a, t.region + MIB, MIB, "kernel on y");
        weir_sim_block_free(t.sim, t.region, t.a, "del x");
        weir_sim_block_free(t.sim, t.region + MIB, t.a, "del y");
        order(t.sim, t.a, t.b);
        weir_sim_block_alloc(t.sim, t.region, MIB + MIB / 2, t.b, "merged");
        if (right) {
            ok(weir_device_event_record(t.device, older, t.b)); /* the wait is now before it */
        }
        ok(weir_device_stream_wait_event(t.device, t.c, older));
        weir_sim_block_alloc(t.sim, t.region + MIB + MIB / 2, MIB / 2, t.c, "rest");
        expect(&t, right, WEIR_SIM_EARLY_REUSE, "kernel on y", "rest");
    }
}

/* a frees 4 MiB behind a long kernel; b takes 2 MiB of it, properly; c is given the other 2 MiB as if they were b's. */
static void test_remainder(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        bench t = set_up();
        weir_event *older = new_event(t.sim);
        busy(t.sim, t.b, 1000);
        ok(weir_device_event_record(t.device, older, t.b));
        weir_sim_block_alloc(t.sim, t.region, 4 * MIB, t.a, "whole");
        writes(t.sim, t.a, t.region, 4 * MIB, "long kernel");
        weir_sim_block_free(t.sim, t.region, t.a, "del whole");
        order(t.sim, t.a, t.b);
        weir_sim_block_alloc(t.sim, t.region, 2 * MIB, t.b, "half");
        ok(weir_device_stream_wait_event(t.device, t.c, older));
        if (right) {
            order(t.sim, t.a, t.c);
        }
        weir_sim_block_alloc(t.sim, t.region + 2 * MIB, 2 * MIB, t.c, "other half");
        expect(&t, right, WEIR_SIM_EARLY_REUSE, "long kernel", "other half");
    }
}

/* Allocated on a; b waits for a and runs a long kernel; freed on b, but handed out on a again. */
static void test_side_free(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        bench t = set_up();
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        writes(t.sim, t.a, t.region, MIB, "produce");
        order(t.sim, t.a, t.b);
        reads(t.sim, t.b, t.region, MIB, "consume");
        weir_sim_block_free(t.sim, t.region, t.b, "del x");
        weir_sim_block_alloc(t.sim, t.region, MIB, right ? t.b : t.a, "next");
        expect(&t, right, WEIR_SIM_EARLY_REUSE, "consume", "next");
    }
}

/* Freed after a long kernel; the stream is destroyed without a wait; a new stream has its handle. */
static void test_handle(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        bench t = set_up();
        weir_event *last = new_event(t.sim);
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        writes(t.sim, t.a, t.region, MIB, "long kernel");
        weir_sim_block_free(t.sim, t.region, t.a, "del x");
        ok(weir_device_event_record(t.device, last, t.a));
        ok(weir_sim_stream_destroy(t.sim, t.a));
        weir_sim_stream *again = new_stream(t.sim);
        assert_ptr_equal(again, t.a);
        if (right) {
            ok(weir_device_event_sync(t.device, last));
        }
        weir_sim_block_alloc(t.sim, t.region, MIB, again, "next");
        writes(t.sim, again, t.region, MIB, "next kernel");
        expect(&t, right, WEIR_SIM_EARLY_REUSE, "long kernel", "next");
    }
}

/* A trim synchronises a stream, but not the one whose work is on the region. */
static void test_trim(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        bench t = set_up();
        weir_sim_stream *standard = weir_sim_default_stream(t.sim);
        weir_sim_block_alloc(t.sim, t.region, MIB, standard, "x");
        writes(t.sim, NULL, t.region, MIB, "long kernel");
        weir_sim_block_free(t.sim, t.region, standard, "del x");
        sync_stream(t.sim, right ? NULL : t.b);
        give_region(t.sim, t.region, REGION);
        expect(&t, right, WEIR_SIM_REGION_PENDING, "long kernel", NULL);
    }
}

/* The stream waits for the kernel, but the host does not; and the host does the unmap. */
static void test_unmap(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        bench t = set_up();
        uint64_t base = 0;
        weir_vm_handle handle = 0;
        weir_event *event = new_event(t.sim);
        ok(weir_device_vm_reserve(t.device, 8 * MIB, &base));
        ok(weir_device_vm_create(t.device, 2 * MIB, &handle));
        ok(weir_device_vm_map(t.device, base, 2 * MIB, handle));
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
        expect(&t, right, WEIR_SIM_REGION_PENDING, "long kernel", NULL);
    }
}

/* Used on two side streams besides its own; the finding names the stream that was forgotten. */
static void test_uses(void **state)
{
    (void)state;
    static const char *const tags[] = {"own kernel", "use on b", "use on c"};
    for (int forgotten = 0; forgotten <= 3; forgotten++) {
        for (int freed_on = 0; freed_on < 3; freed_on++) {
            bench t = set_up();
            weir_sim_stream *streams[] = {t.a, t.b, t.c};
            weir_sim_stream *taker = new_stream(t.sim);
            weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
            order(t.sim, t.a, t.b);
            order(t.sim, t.a, t.c);
            for (int i = 0; i < 3; i++) {
                reads(t.sim, streams[i], t.region, MIB, tags[i]);
            }
            reads(t.sim, t.b, t.region, KIB, "use on b"); /* twice on one */
            weir_sim_block_free(t.sim, t.region, streams[freed_on], "del x");
            for (int i = 0; i < 3; i++) {
                if (i != forgotten) {
                    order(t.sim, streams[i], taker);
                }
            }
            weir_sim_block_alloc(t.sim, t.region, MIB, taker, "next");
            if (forgotten == 3) {
                is_clean(t.sim);
            } else { /* perhaps ordered in time by luck, which is still a finding */
                only_finding(t.sim, WEIR_SIM_EARLY_REUSE, tags[forgotten], "next");
            }
            assert_int_equal(weir_sim_destroy(t.sim), WEIR_OK);
        }
    }
}

/* The first of two pending uses completes, and the block is promoted. */
static void test_uses_promoted_at_the_first_completion(void **state)
{
    (void)state;
    for (int right = 0; right < 2; right++) {
        bench t = set_up();
        weir_event *events[2] = {new_event(t.sim), new_event(t.sim)};
        bool complete = false;
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        touch(t.sim, t.b, t.region, MIB, false, LONG_NS, "short use");
        touch(t.sim, t.c, t.region, MIB, false, 5 * LONG_NS, "long use");
        weir_sim_block_free(t.sim, t.region, t.a, "del x");
        ok(weir_device_event_record(t.device, events[0], t.b));
        ok(weir_device_event_record(t.device, events[1], t.c));
        weir_sim_advance(t.sim, right ? 5 * LONG_NS : LONG_NS);
        ok(weir_device_event_query(t.device, events[0], &complete));
        assert_true(complete);
        ok(weir_device_event_query(t.device, events[1], &complete));
        assert_int_equal(complete, right);
        weir_sim_block_alloc(t.sim, t.region, MIB, NULL, "next");
        expect(&t, right, WEIR_SIM_EARLY_REUSE, "long use", "next");
    }
}

/* Reuse without a query, and reuse after a query whose "not yet" or error was taken for "yes". */
static void test_polling(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        bool right = way == 3;
        bench t = set_up();
        weir_event *event = new_event(t.sim);
        bool complete = false;
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        writes(t.sim, t.a, t.region, MIB, "long kernel");
        weir_sim_block_free(t.sim, t.region, t.a, "del x");
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
        weir_sim_block_alloc(t.sim, t.region, MIB, t.b, "next");
        expect(&t, right, WEIR_SIM_EARLY_REUSE, "long kernel", "next");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),     cmocka_unit_test(test_remainder),
        cmocka_unit_test(test_side_free), cmocka_unit_test(test_handle),
        cmocka_unit_test(test_trim),      cmocka_unit_test(test_unmap),
        cmocka_unit_test(test_uses),      cmocka_unit_test(test_uses_promoted_at_the_first_completion),
        cmocka_unit_test(test_polling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
