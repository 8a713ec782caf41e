/* tests/unit/sim_direct_test.c: memory that no live block covers, touched with direct_access: the accesses that are
 * audited there and those that are not. The twin of every finding is ordered correctly and must be clean. */
#include "sim_bench.h"

#include <stddef.h>

static bench set_up(void)
{
    weir_sim_config config = free_of_charge();
    config.direct_access = true;
    return set_up_with(config);
}

/* --- the flag --- */

TEST(test_a_caller_who_does_not_know_it)
{
    weir_sim_config config = free_of_charge();
    config.direct_access = true;
    config.struct_size = offsetof(weir_sim_config, direct_access);
    weir_sim *sim = new_sim(config);
    uint64_t region = new_region(sim, REGION);
    writes(sim, NULL, region, MIB, "stray");
    only_finding(sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "stray");
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- order among direct accesses --- */

TEST(test_direct_access_is_clean)
{
    bench t = set_up();
    writes(t.sim, t.a, t.region, REGION, "whole");
    writes(t.sim, t.a, t.region + MIB, 1, "a byte");
    reads(t.sim, t.a, t.region, MIB + 1, "reader");
    order(t.sim, t.a, t.b);
    writes(t.sim, t.b, t.region + MIB / 2, MIB, "ordered");
    writes(t.sim, t.a, t.region + 8 * MIB, MIB, "elsewhere");
    writes(t.sim, t.b, t.region + REGION, 0, "nothing at all");
    is_clean(t.sim);
    tear_down(&t);
}

TEST(test_unordered)
{
    for (int writers = 1; writers < 4; writers++) {
        bench t = set_up();
        touch(t.sim, t.a, t.region, MIB, writers & 1, LONG_NS, "first");
        touch(t.sim, t.b, t.region + MIB - 5, MIB, writers & 2, LONG_NS, "second");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
        assert_int_equal(f.address, t.region + MIB - 5);
        assert_int_equal(f.size, 5);
        assert_true(f.in_flight);
        tear_down(&t);
    }
}

TEST(test_readers_need_no_order)
{
    bench t = set_up();
    reads(t.sim, t.a, t.region, MIB, "reader on a");
    reads(t.sim, t.b, t.region + KIB, 3 * MIB, "reader on b");
    is_clean(t.sim);
    order(t.sim, t.a, t.c);
    writes(t.sim, t.c, t.region, 2 * MIB, "writer");
    only_finding(t.sim, WEIR_SIM_UNORDERED, "reader on b", "writer");
    tear_down(&t);
}

TEST(test_all_ways_to_order)
{
    for (int way = 0; way < 4; way++) {
        bench t = set_up();
        weir_event *event = new_event(t.sim);
        bool complete = false;
        writes(t.sim, t.a, t.region, MIB, "first");
        if (way == 0) {
            order(t.sim, t.a, t.b);
        } else if (way == 1) {
            sync_stream(t.sim, t.a);
        } else if (way == 2) {
            ok(weir_device_event_record(t.device, event, t.a));
            weir_sim_advance(t.sim, 2 * LONG_NS);
            ok(weir_device_event_query(t.device, event, &complete));
            assert_true(complete);
        } else {
            ok(weir_sim_sync(t.sim));
        }
        writes(t.sim, t.b, t.region, MIB, "second");
        is_clean(t.sim);
        tear_down(&t);
    }
}

/* Gaps between earlier accesses do not matter, and one write over the whole range replaces them all. */
TEST(test_write_over_pieces_and_gaps)
{
    bench t = set_up();
    for (uint64_t i = 0; i < 8; i++) {
        reads(t.sim, t.a, t.region + 2 * i * MIB, KIB, "piece");
    }
    order(t.sim, t.a, t.b);
    writes(t.sim, t.b, t.region + KIB / 2, REGION - KIB, "over all");
    is_clean(t.sim);
    writes(t.sim, t.a, t.region + 7 * MIB, MIB, "in a gap");
    only_finding(t.sim, WEIR_SIM_UNORDERED, "over all", "in a gap");
    writes(t.sim, t.c, t.region, KIB / 4, "beside");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), 2);
    tear_down(&t);
}

/* --- after a free --- */

TEST(test_write_after_a_free)
{
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    writes(t.sim, t.a, t.region, KIB, "kernel");
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    writes(t.sim, t.a, t.region, MIB, "same stream");
    order(t.sim, t.a, t.b);
    writes(t.sim, t.b, t.region, MIB, "ordered");
    is_clean(t.sim);
    tear_down(&t);
}

TEST(test_unordered_after_a_free)
{
    for (int write = 0; write < 2; write++) {
        bench t = set_up();
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        writes(t.sim, t.a, t.region, KIB, "kernel");
        weir_sim_block_free(t.sim, t.region, t.a, "del x");
        touch(t.sim, t.b, t.region, KIB, write, LONG_NS, "too early");
        only_finding(t.sim, WEIR_SIM_UNORDERED, "kernel", "too early");
        tear_down(&t);
    }
}

/* After a trace the auditor knows that the stream worked, but not on which memory. */
TEST(test_unordered_after_a_free_without_touches)
{
    for (int write = 0; write < 2; write++) {
        bench t = set_up();
        weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
        busy(t.sim, t.a, LONG_NS);
        weir_sim_block_free(t.sim, t.region, t.a, "del x");
        touch(t.sim, t.b, t.region + KIB, KIB, write, LONG_NS, "too early");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "del x", "too early");
        assert_string_equal(f.earlier.what, "free");
        tear_down(&t);
    }
}

TEST(test_reader_of_another_stream_before_the_free)
{
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    reads(t.sim, t.b, t.region, MIB, "reader on b");
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    reads(t.sim, t.c, t.region, MIB, "reader on c");
    is_clean(t.sim);
    order(t.sim, t.c, t.a);
    writes(t.sim, t.a, t.region, MIB, "writer");
    only_finding(t.sim, WEIR_SIM_UNORDERED, "reader on b", "writer");
    tear_down(&t);
}

/* After a read the free is still visible; a write that came after the free replaces it. */
TEST(test_the_free_counts_until_a_write)
{
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    busy(t.sim, t.a, LONG_NS);
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    reads(t.sim, t.a, t.region, MIB, "reader");
    weir_sim_block_free(t.sim, t.region, t.a, "again");
    only_finding(t.sim, WEIR_SIM_DOUBLE_FREE, "del x", "again");
    reads(t.sim, t.b, t.region, MIB, "too early");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), 1);
    order(t.sim, t.a, t.c);
    order(t.sim, t.b, t.c);
    writes(t.sim, t.c, t.region, MIB, "writer");
    reads(t.sim, t.c, t.region, MIB, "reader on c");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 2);
    weir_sim_block_free(t.sim, t.region, t.a, "forgotten");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FOREIGN_FREE), 1);
    tear_down(&t);
}

/* --- hand-outs --- */

TEST(test_early_reuse)
{
    for (int way = 0; way < 3; way++) {
        bench t = set_up();
        touch(t.sim, t.a, t.region + KIB, KIB, way != 1, LONG_NS, "direct");
        weir_sim_block_alloc(t.sim, t.region, MIB, way == 2 ? NULL : t.b, "x");
        only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "direct", "x");
        writes(t.sim, t.b, t.region, MIB, "owner");
        weir_sim_block_free(t.sim, t.region, t.b, "del x");
        only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "direct", "x");
        tear_down(&t);
    }
}

TEST(test_reuse_is_clean_when_ordered)
{
    for (int way = 0; way < 4; way++) {
        bench t = set_up();
        weir_sim_stream *taker = way == 0 ? t.a : way == 3 ? NULL : t.b;
        writes(t.sim, t.a, t.region + KIB, KIB, "direct");
        if (way == 1) {
            order(t.sim, t.a, t.b);
        } else if (way >= 2) {
            sync_stream(t.sim, t.a);
        }
        weir_sim_block_alloc(t.sim, t.region, MIB, taker, "x");
        if (way >= 2) { /* idle: open to every stream */
            writes(t.sim, t.c, t.region, MIB, "elsewhere");
            is_clean(t.sim);
        } else {
            is_clean(t.sim);
            writes(t.sim, t.c, t.region, MIB, "elsewhere");
            only_finding(t.sim, WEIR_SIM_UNORDERED, "x", "elsewhere");
        }
        tear_down(&t);
    }
}

TEST(test_early_reuse_is_said_once_for_all_that_is_direct)
{
    bench t = set_up();
    writes(t.sim, t.a, t.region, KIB, "one");
    writes(t.sim, t.b, t.region + MIB, KIB, "two");
    weir_sim_block_alloc(t.sim, t.region, 2 * MIB, t.c, "x");
    only_finding(t.sim, WEIR_SIM_EARLY_REUSE, "one", "x");
    tear_down(&t);
}

/* --- where nothing is --- */

TEST(test_no_memory)
{
    bench t = set_up();
    writes(t.sim, t.a, t.region + REGION + MIB, KIB, "nowhere");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "nowhere");
    assert_non_null(strstr(f.text, "no memory is there"));
    assert_int_equal(f.size, KIB);
    tear_down(&t);
}

TEST(test_just_past_the_memory)
{
    for (int touched = 0; touched < 2; touched++) {
        bench t = set_up();
        writes(t.sim, t.a, t.region, touched ? REGION : KIB, "all");
        reads(t.sim, t.a, t.region + REGION, 4, "off by one");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "off by one");
        assert_non_null(strstr(f.text, "no memory is there"));
        tear_down(&t);
    }
}

TEST(test_over_the_end_of_the_memory)
{
    bench t = set_up();
    writes(t.sim, t.a, t.region + REGION - KIB, KIB + 32, "overrun");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "overrun");
    assert_non_null(strstr(f.text, "32 bytes run past the end of the memory"));
    writes(t.sim, t.b, t.region + REGION - 1, 1, "what was inside counts");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), 1);
    tear_down(&t);
}

/* Two adjacent regions are still two. */
TEST(test_across_two_regions)
{
    bench t = set_up();
    uint64_t second = new_region(t.sim, REGION);
    assert_int_equal(second, t.region + REGION);
    writes(t.sim, t.a, second - MIB, MIB, "below the border");
    writes(t.sim, t.a, second, MIB, "above the border");
    is_clean(t.sim);
    writes(t.sim, t.a, second - MIB, 2 * MIB, "across");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "across");
    tear_down(&t);
}

TEST(test_one_memory_at_two_addresses)
{
    bench t = set_up();
    uint64_t base = 0;
    weir_vm_handle handle = 0;
    ok(weir_device_vm_reserve(t.device, 8 * MIB, &base));
    ok(weir_device_vm_create(t.device, 2 * MIB, &handle));
    ok(weir_device_vm_map(t.device, base, 2 * MIB, handle));
    ok(weir_device_vm_map(t.device, base + 4 * MIB, 2 * MIB, handle));
    writes(t.sim, t.a, base, 2 * MIB, "here");
    writes(t.sim, t.a, base + 4 * MIB, 2 * MIB, "there");
    is_clean(t.sim);
    sync_stream(t.sim, t.a);
    ok(weir_device_vm_unmap(t.device, base, 2 * MIB));
    assert_int_equal(weir_device_vm_destroy(t.device, handle), WEIR_ERR_BUSY);
    ok(weir_device_vm_unmap(t.device, base + 4 * MIB, 2 * MIB));
    ok(weir_device_vm_destroy(t.device, handle));
    ok(weir_device_vm_release(t.device, base, 8 * MIB));
    is_clean(t.sim);
    tear_down(&t);
}

TEST(test_across_mappings)
{
    bench t = set_up();
    uint64_t base = 0;
    weir_vm_handle first = 0;
    weir_vm_handle second = 0;
    ok(weir_device_vm_reserve(t.device, 8 * MIB, &base));
    ok(weir_device_vm_create(t.device, 2 * MIB, &first));
    ok(weir_device_vm_create(t.device, 2 * MIB, &second));
    ok(weir_device_vm_map(t.device, base, 2 * MIB, first));
    writes(t.sim, t.a, base, 2 * MIB, "first");
    ok(weir_device_vm_map(t.device, base + 2 * MIB, 2 * MIB, second));
    writes(t.sim, t.a, base, 4 * MIB, "both");
    is_clean(t.sim);
    sync_stream(t.sim, t.a);
    ok(weir_device_vm_unmap(t.device, base, 2 * MIB));
    is_clean(t.sim);
    writes(t.sim, t.a, base + MIB, 2 * MIB, "begins where nothing is");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "begins where nothing is");
    writes(t.sim, t.a, base + 2 * MIB, 2 * MIB, "the rest");
    only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "begins where nothing is");
    writes(t.sim, t.b, base + 2 * MIB, MIB, "on b");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), 1);
    tear_down(&t);
}

/* --- edges of live blocks --- */

TEST(test_out_of_a_block)
{
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    writes(t.sim, t.a, t.region + KIB, MIB, "overrun");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "x", "overrun");
    assert_non_null(strstr(f.text, "1024 bytes run past its end"));
    writes(t.sim, t.b, t.region + MIB, 1, "meets the overrun");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), 1);
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 2);
    tear_down(&t);
}

TEST(test_into_a_block)
{
    for (int write = 0; write < 2; write++) {
        bench t = set_up();
        weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "x");
        weir_sim_block_alloc(t.sim, t.region + 3 * MIB, MIB, t.a, "y");
        touch(t.sim, t.a, t.region, 5 * MIB, write, LONG_NS, "over it");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "x", "over it");
        assert_non_null(strstr(f.text, "which it runs into"));
        assert_int_equal(f.address, t.region);
        assert_int_equal(f.size, 5 * MIB);
        for (uint64_t i = 0; i < 5; i++) { /* touches every part */
            writes(t.sim, t.b, t.region + i * MIB, 1, "elsewhere");
            assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), i + 1);
        }
        weir_sim_block_free(t.sim, t.region + MIB, t.a, "del x");
        weir_sim_block_free(t.sim, t.region + 3 * MIB, t.a, "del y");
        assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 6);
        tear_down(&t);
    }
}

TEST(test_from_block_to_block)
{
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "y");
    reads(t.sim, t.a, t.region, MIB + 32, "over-reads");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "x", "over-reads");
    assert_non_null(strstr(f.text, "32 bytes run past its end"));
    writes(t.sim, t.b, t.region + MIB + 31, 1, "last byte of it");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), 1);
    writes(t.sim, t.b, t.region + MIB + 32, 1, "beyond it");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_UNORDERED), 1);
    tear_down(&t);
}

TEST(test_beside_blocks_is_clean)
{
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "x");
    writes(t.sim, t.b, t.region, MIB, "up to it");
    writes(t.sim, t.b, t.region + 2 * MIB, MIB, "from its end on");
    writes(t.sim, t.a, t.region + MIB, MIB, "owner");
    is_clean(t.sim);
    tear_down(&t);
}

/* --- memory that goes back --- */

TEST(test_region_pending)
{
    bench t = set_up();
    writes(t.sim, t.a, t.region + MIB, KIB, "direct");
    give_region(t.sim, t.region, REGION);
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_REGION_PENDING, "direct", NULL);
    assert_string_equal(f.later.what, "region_free");
    writes(t.sim, t.b, t.region + MIB, KIB, "too late");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_OUTSIDE_BLOCK), 1);
    assert_int_equal(new_region(t.sim, REGION), t.region);
    writes(t.sim, t.b, t.region, REGION, "a new life");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 2);
    tear_down(&t);
}

TEST(test_unmap_pending)
{
    bench t = set_up();
    uint64_t base = 0;
    weir_vm_handle handle = 0;
    ok(weir_device_vm_reserve(t.device, 8 * MIB, &base));
    ok(weir_device_vm_create(t.device, 2 * MIB, &handle));
    ok(weir_device_vm_map(t.device, base, 2 * MIB, handle));
    reads(t.sim, t.a, base + MIB, KIB, "direct");
    ok(weir_device_vm_unmap(t.device, base, 2 * MIB));
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_REGION_PENDING, "direct", NULL);
    assert_string_equal(f.later.what, "vm_unmap");
    ok(weir_device_vm_map(t.device, base, 2 * MIB, handle));
    writes(t.sim, t.b, base, 2 * MIB, "a new life");
    only_finding(t.sim, WEIR_SIM_REGION_PENDING, "direct", NULL);
    tear_down(&t);
}

TEST(test_region_returned_properly_is_clean)
{
    bench t = set_up();
    writes(t.sim, t.a, t.region + MIB, KIB, "direct");
    reads(t.sim, t.b, t.region, KIB, "direct");
    sync_stream(t.sim, t.a);
    sync_stream(t.sim, t.b);
    give_region(t.sim, t.region, REGION);
    is_clean(t.sim);
    tear_down(&t);
}

/* A block that outlived its region lies under new memory: the new memory may be touched, and the block must still be
 * freed. */
TEST(test_memory_over_a_block_without_a_region)
{
    for (int write = 0; write < 2; write++) {
        bench t = set_up();
        weir_sim_block_alloc(t.sim, t.region + MIB, MIB, t.a, "x");
        give_region(t.sim, t.region, REGION);
        only_finding(t.sim, WEIR_SIM_REGION_LIVE, "x", NULL);
        assert_int_equal(new_region(t.sim, REGION), t.region);
        touch(t.sim, t.b, t.region, 3 * MIB, write, LONG_NS, "new");
        order(t.sim, t.b, t.c);
        writes(t.sim, t.c, t.region, 3 * MIB, "newer");
        weir_sim_block_free(t.sim, t.region + MIB, t.a, "del x");
        only_finding(t.sim, WEIR_SIM_REGION_LIVE, "x", NULL);
        weir_sim_block_free(t.sim, t.region + MIB, t.a, "again");
        assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FOREIGN_FREE), 1);
        tear_down(&t);
    }
}

/* As above, without a touch of the first byte. */
TEST(test_memory_over_a_part_of_such_a_block)
{
    bench t = set_up();
    weir_sim_block_alloc(t.sim, t.region, 4 * MIB, t.a, "x");
    writes(t.sim, t.a, t.region, 4 * MIB, "pending");
    give_region(t.sim, t.region, REGION);
    assert_int_equal(new_region(t.sim, REGION), t.region);
    writes(t.sim, t.b, t.region + MIB, MIB, "new");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 2);
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    writes(t.sim, t.b, t.region, 4 * MIB, "new");
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 2);
    tear_down(&t);
}

/* --- leaks --- */

TEST(test_leaks)
{
    bench t = set_up();
    writes(t.sim, t.a, t.region, REGION, "direct");
    weir_sim_block_alloc(t.sim, t.region, MIB, t.a, "x");
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_LEAK), 2); /* x and the region */
    weir_sim_block_free(t.sim, t.region, t.a, "del x");
    sync_stream(t.sim, t.a);
    give_region(t.sim, t.region, REGION);
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(weir_sim_finding_count(t.sim, WEIR_SIM_FINDING_KINDS), 2);
    tear_down(&t);
}

int main(void)
{
    return run_all_tests("tests", NULL, NULL);
}
