/* tests/pool/unit/sim_direct_test.c: memory that no live block covers, touched with direct_access: the accesses that
 * are audited there and those that are not. The twin of every finding is ordered correctly and must be clean. */
#define DIRECT_ACCESS true
#include "rig/bench.h"

/* --- the flag --- */

TEST(test_a_caller_with_an_older_header)
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
    write_at(t.a, 0, REGION, "whole");
    write_at(t.a, MIB, 1, "a byte");
    read_at(t.a, 0, MIB + 1, "reader");
    order(t.sim, t.a, t.b);
    write_at(t.b, MIB / 2, MIB, "ordered");
    write_at(t.a, 8 * MIB, MIB, "elsewhere");
    write_at(t.b, REGION, 0, "nothing at all");
    is_clean(t.sim);
}

TEST(test_unordered)
{
    for (int writers = 1; writers < 4; writers++) {
        renew();
        touch_at(t.a, 0, MIB, writers & 1, "first");
        touch_at(t.b, MIB - 5, MIB, writers & 2, "second");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "first", "second");
        assert_int_equal(f.address, t.region + MIB - 5);
        assert_int_equal(f.size, 5);
        assert_true(f.in_flight);
    }
}

TEST(test_readers_need_no_order)
{
    read_at(t.a, 0, MIB, "reader on a");
    read_at(t.b, KIB, 3 * MIB, "reader on b");
    is_clean(t.sim);
    order(t.sim, t.a, t.c);
    write_at(t.c, 0, 2 * MIB, "writer");
    is_only(WEIR_SIM_UNORDERED, "reader on b", "writer");
}

TEST(test_all_ways_to_order)
{
    for (int way = 0; way < 4; way++) {
        renew();
        weir_event *event = new_event(t.sim);
        bool complete = false;
        write_at(t.a, 0, MIB, "first");
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
        write_at(t.b, 0, MIB, "second");
        is_clean(t.sim);
    }
}

/* Gaps between earlier accesses do not matter, and one write over the whole range replaces them all. */
TEST(test_write_over_pieces_and_gaps)
{
    for (uint64_t i = 0; i < 8; i++) {
        read_at(t.a, 2 * i * MIB, KIB, "piece");
    }
    order(t.sim, t.a, t.b);
    write_at(t.b, KIB / 2, REGION - KIB, "over all");
    is_clean(t.sim);
    write_at(t.a, 7 * MIB, MIB, "in a gap");
    is_only(WEIR_SIM_UNORDERED, "over all", "in a gap");
    write_at(t.c, 0, KIB / 4, "beside");
    assert_int_equal(count_of(WEIR_SIM_UNORDERED), 2);
}

/* --- after a free --- */

TEST(test_write_after_a_free)
{
    hand_out(0, MIB, t.a, "x");
    write_at(t.a, 0, KIB, "kernel");
    take_back(0, t.a, "del x");
    write_at(t.a, 0, MIB, "same stream");
    order(t.sim, t.a, t.b);
    write_at(t.b, 0, MIB, "ordered");
    is_clean(t.sim);
}

TEST(test_unordered_after_a_free)
{
    for (int write = 0; write < 2; write++) {
        renew();
        hand_out(0, MIB, t.a, "x");
        write_at(t.a, 0, KIB, "kernel");
        take_back(0, t.a, "del x");
        touch_at(t.b, 0, KIB, write, "too early");
        is_only(WEIR_SIM_UNORDERED, "kernel", "too early");
    }
}

/* As in the replay of a trace, the auditor knows that the stream worked, but not on which memory. */
TEST(test_unordered_after_a_free_without_touches)
{
    for (int write = 0; write < 2; write++) {
        renew();
        hand_out(0, MIB, t.a, "x");
        busy(t.sim, t.a, LONG_NS);
        take_back(0, t.a, "del x");
        touch_at(t.b, KIB, KIB, write, "too early");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_UNORDERED, "del x", "too early");
        assert_string_equal(f.earlier.what, "free");
    }
}

TEST(test_reader_of_another_stream_before_the_free)
{
    hand_out(0, MIB, t.a, "x");
    read_at(t.b, 0, MIB, "reader on b");
    take_back(0, t.a, "del x");
    read_at(t.c, 0, MIB, "reader on c");
    is_clean(t.sim);
    order(t.sim, t.c, t.a);
    write_at(t.a, 0, MIB, "writer");
    is_only(WEIR_SIM_UNORDERED, "reader on b", "writer");
}

/* After a read the auditor still remembers the free of the memory. A write after the free replaces the free. */
TEST(test_the_free_counts_until_a_write)
{
    hand_out(0, MIB, t.a, "x");
    busy(t.sim, t.a, LONG_NS);
    take_back(0, t.a, "del x");
    read_at(t.a, 0, MIB, "reader");
    take_back(0, t.a, "again");
    is_only(WEIR_SIM_DOUBLE_FREE, "del x", "again");
    read_at(t.b, 0, MIB, "too early");
    assert_int_equal(count_of(WEIR_SIM_UNORDERED), 1);
    order(t.sim, t.a, t.c);
    order(t.sim, t.b, t.c);
    write_at(t.c, 0, MIB, "writer");
    read_at(t.c, 0, MIB, "reader on c");
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 2);
    take_back(0, t.a, "forgotten");
    assert_int_equal(count_of(WEIR_SIM_FOREIGN_FREE), 1);
}

/* --- hand-outs --- */

TEST(test_early_reuse)
{
    for (int way = 0; way < 3; way++) {
        renew();
        touch_at(t.a, KIB, KIB, way != 1, "direct");
        hand_out(0, MIB, way == 2 ? NULL : t.b, "x");
        is_only(WEIR_SIM_EARLY_REUSE, "direct", "x");
        write_at(t.b, 0, MIB, "owner");
        take_back(0, t.b, "del x");
        is_only(WEIR_SIM_EARLY_REUSE, "direct", "x");
    }
}

TEST(test_reuse_is_clean_when_ordered)
{
    for (int way = 0; way < 4; way++) {
        renew();
        weir_sim_stream *taker = way == 0 ? t.a : way == 3 ? NULL : t.b;
        write_at(t.a, KIB, KIB, "direct");
        if (way == 1) {
            order(t.sim, t.a, t.b);
        } else if (way >= 2) {
            sync_stream(t.sim, t.a);
        }
        hand_out(0, MIB, taker, "x");
        if (way >= 2) { /* idle: open to every stream */
            write_at(t.c, 0, MIB, "elsewhere");
            is_clean(t.sim);
        } else {
            is_clean(t.sim);
            write_at(t.c, 0, MIB, "elsewhere");
            is_only(WEIR_SIM_UNORDERED, "x", "elsewhere");
        }
    }
}

TEST(test_early_reuse_is_reported_once_for_direct_memory)
{
    write_at(t.a, 0, KIB, "one");
    write_at(t.b, MIB, KIB, "two");
    hand_out(0, 2 * MIB, t.c, "x");
    is_only(WEIR_SIM_EARLY_REUSE, "one", "x");
}

/* --- where nothing is --- */

TEST(test_no_memory)
{
    write_at(t.a, REGION + MIB, KIB, "nowhere");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "nowhere");
    assert_non_null(strstr(f.text, "no memory is there"));
    assert_int_equal(f.size, KIB);
}

TEST(test_just_past_the_memory)
{
    for (int touched = 0; touched < 2; touched++) {
        renew();
        write_at(t.a, 0, touched ? REGION : KIB, "all");
        read_at(t.a, REGION, 4, "off by one");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "off by one");
        assert_non_null(strstr(f.text, "no memory is there"));
    }
}

TEST(test_over_the_end_of_the_memory)
{
    write_at(t.a, REGION - KIB, KIB + 32, "overrun");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, NULL, "overrun");
    assert_non_null(strstr(f.text, "32 bytes run past the end of the memory"));
    write_at(t.b, REGION - 1, 1, "what was inside counts");
    assert_int_equal(count_of(WEIR_SIM_UNORDERED), 1);
}

/* Two adjacent regions are still two. */
TEST(test_across_two_regions)
{
    uint64_t second = new_region(t.sim, REGION);
    assert_int_equal(second, t.region + REGION);
    writes(t.sim, t.a, second - MIB, MIB, "below the border");
    writes(t.sim, t.a, second, MIB, "above the border");
    is_clean(t.sim);
    writes(t.sim, t.a, second - MIB, 2 * MIB, "across");
    is_only(WEIR_SIM_OUTSIDE_BLOCK, NULL, "across");
}

TEST(test_one_memory_at_two_addresses)
{
    weir_vm_handle handle = 0;
    const uint64_t base = map_memory(2 * MIB, &handle);
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
}

TEST(test_across_mappings)
{
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
    is_only(WEIR_SIM_OUTSIDE_BLOCK, NULL, "begins where nothing is");
    writes(t.sim, t.a, base + 2 * MIB, 2 * MIB, "the rest");
    is_only(WEIR_SIM_OUTSIDE_BLOCK, NULL, "begins where nothing is");
    writes(t.sim, t.b, base + 2 * MIB, MIB, "on b");
    assert_int_equal(count_of(WEIR_SIM_UNORDERED), 1);
}

/* --- edges of live blocks --- */

TEST(test_out_of_a_block)
{
    hand_out(0, MIB, t.a, "x");
    write_at(t.a, KIB, MIB, "overrun");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "x", "overrun");
    assert_non_null(strstr(f.text, "1024 bytes run past its end"));
    write_at(t.b, MIB, 1, "meets the overrun");
    assert_int_equal(count_of(WEIR_SIM_UNORDERED), 1);
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 2);
}

TEST(test_into_a_block)
{
    for (int write = 0; write < 2; write++) {
        renew();
        hand_out(MIB, MIB, t.a, "x");
        hand_out(3 * MIB, MIB, t.a, "y");
        touch_at(t.a, 0, 5 * MIB, write, "over it");
        weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "x", "over it");
        assert_non_null(strstr(f.text, "which it runs into"));
        assert_int_equal(f.address, t.region);
        assert_int_equal(f.size, 5 * MIB);
        for (uint64_t i = 0; i < 5; i++) { /* touches every part */
            write_at(t.b, i * MIB, 1, "elsewhere");
            assert_int_equal(count_of(WEIR_SIM_UNORDERED), i + 1);
        }
        take_back(MIB, t.a, "del x");
        take_back(3 * MIB, t.a, "del y");
        assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 6);
    }
}

TEST(test_from_block_to_block)
{
    hand_out(0, MIB, t.a, "x");
    hand_out(MIB, MIB, t.a, "y");
    read_at(t.a, 0, MIB + 32, "over-reads");
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_OUTSIDE_BLOCK, "x", "over-reads");
    assert_non_null(strstr(f.text, "32 bytes run past its end"));
    write_at(t.b, MIB + 31, 1, "last byte of it");
    assert_int_equal(count_of(WEIR_SIM_UNORDERED), 1);
    write_at(t.b, MIB + 32, 1, "beyond it");
    assert_int_equal(count_of(WEIR_SIM_UNORDERED), 1);
}

TEST(test_beside_blocks_is_clean)
{
    hand_out(MIB, MIB, t.a, "x");
    write_at(t.b, 0, MIB, "up to it");
    write_at(t.b, 2 * MIB, MIB, "from its end on");
    write_at(t.a, MIB, MIB, "owner");
    is_clean(t.sim);
}

/* --- memory that goes back --- */

TEST(test_region_pending)
{
    write_at(t.a, MIB, KIB, "direct");
    return_region();
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_REGION_PENDING, "direct", NULL);
    assert_string_equal(f.later.what, "region_free");
    write_at(t.b, MIB, KIB, "too late");
    assert_int_equal(count_of(WEIR_SIM_OUTSIDE_BLOCK), 1);
    assert_int_equal(new_region(t.sim, REGION), t.region);
    write_at(t.b, 0, REGION, "a new life");
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 2);
}

TEST(test_unmap_pending)
{
    weir_vm_handle handle = 0;
    const uint64_t base = map_memory(2 * MIB, &handle);
    reads(t.sim, t.a, base + MIB, KIB, "direct");
    ok(weir_device_vm_unmap(t.device, base, 2 * MIB));
    weir_sim_finding f = only_finding(t.sim, WEIR_SIM_REGION_PENDING, "direct", NULL);
    assert_string_equal(f.later.what, "vm_unmap");
    ok(weir_device_vm_map(t.device, base, 2 * MIB, handle));
    writes(t.sim, t.b, base, 2 * MIB, "a new life");
    is_only(WEIR_SIM_REGION_PENDING, "direct", NULL);
}

TEST(test_region_returned_properly_is_clean)
{
    write_at(t.a, MIB, KIB, "direct");
    read_at(t.b, 0, KIB, "direct");
    sync_stream(t.sim, t.a);
    sync_stream(t.sim, t.b);
    return_region();
    is_clean(t.sim);
}

/* A block that outlived its region lies under new memory: the new memory may be touched, and the block must still be
 * freed. */
TEST(test_memory_over_a_block_without_a_region)
{
    for (int write = 0; write < 2; write++) {
        renew();
        hand_out(MIB, MIB, t.a, "x");
        return_region();
        is_only(WEIR_SIM_REGION_LIVE, "x", NULL);
        assert_int_equal(new_region(t.sim, REGION), t.region);
        touch_at(t.b, 0, 3 * MIB, write, "new");
        order(t.sim, t.b, t.c);
        write_at(t.c, 0, 3 * MIB, "newer");
        take_back(MIB, t.a, "del x");
        is_only(WEIR_SIM_REGION_LIVE, "x", NULL);
        take_back(MIB, t.a, "again");
        assert_int_equal(count_of(WEIR_SIM_FOREIGN_FREE), 1);
    }
}

/* New memory lies over a block without a region, and the first access does not touch the block's first byte. */
TEST(test_memory_over_a_part_of_such_a_block)
{
    hand_out(0, 4 * MIB, t.a, "x");
    write_at(t.a, 0, 4 * MIB, "pending");
    return_region();
    assert_int_equal(new_region(t.sim, REGION), t.region);
    write_at(t.b, MIB, MIB, "new");
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 2);
    take_back(0, t.a, "del x");
    write_at(t.b, 0, 4 * MIB, "new");
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 2);
}

/* --- leaks --- */

TEST(test_leaks)
{
    write_at(t.a, 0, REGION, "direct");
    hand_out(0, MIB, t.a, "x");
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(count_of(WEIR_SIM_LEAK), 2); /* x and the region */
    take_back(0, t.a, "del x");
    sync_stream(t.sim, t.a);
    return_region();
    weir_sim_audit_leaks(t.sim);
    assert_int_equal(count_of(WEIR_SIM_FINDING_KINDS), 2);
}
