/* tests/pool/unit/oom_cause_test.c: each cause of a failed request, in a pool where it is true, and a survey.
 *
 * A region is 64 KiB, a page of virtual memory 2 MiB unless a test says otherwise.
 */
enum { A, B, streams };

#include "rig/pool.h"

#define REGION (64 * KIB)

static weir_sim_config device_of(uint64_t capacity)
{
    weir_sim_config device = device_of_units(REGION, capacity);
    device.no_audit = true; /* the tests announce no blocks to the auditor */
    return device;
}

static struct world world_on(weir_sim *sim, uint32_t flags, uint64_t limit)
{
    const weir_caching_config caching = regions_of(REGION, UINT64_MAX);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = flags;
    config.limit_bytes = limit;
    config.strategy_config = &caching;
    return world_over(sim, config);
}

static void says(weir_oom_record record, weir_oom_cause cause, const char *words)
{
    char report[4096];
    (void)weir_oom_explain(&record, report, sizeof(report));
    if (record.cause != cause || strstr(record.text, words) == NULL || strstr(report, words) == NULL) {
        fail_msg("cause %d in the place of %d, \"%s\" is not in: %s", record.cause, cause, words, record.text);
    }
    weir_oom_record again = record;
    again.cause = WEIR_OOM_CAUSE_NONE;
    weir_oom_judge(&again);
    assert_int_equal(again.cause, cause);
}

TEST(test_too_big_for_the_limit)
{
    struct world w = world_on(new_sim(device_of(16 * REGION)), WEIR_POOL_REGIONS, 2 * REGION);
    (void)get(&w, A, REGION);
    says(refused(&w, A, 2 * REGION), WEIR_OOM_CAUSE_TOO_BIG,
         "too big by 64.00 KiB for any allocator: 64.00 KiB are live as asked, and the limit is");
    close_world(&w);
}

TEST(test_too_big_for_the_device)
{
    struct world w = world_on(new_sim(device_of(4 * REGION)), WEIR_POOL_REGIONS, 0);
    (void)get(&w, A, 3 * REGION);
    says(refused(&w, A, 2 * REGION), WEIR_OOM_CAUSE_TOO_BIG,
         "too big by 64.00 KiB for any allocator: 192.00 KiB are live as asked, and the device");
    close_world(&w);
}

/* Another user of the device holds what the pool would need. */
TEST(test_held_outside)
{
    struct world w = world_on(new_sim(device_of(4 * REGION)), WEIR_POOL_REGIONS, 0);
    uint64_t address = 0;
    ok(weir_device_region_alloc(weir_sim_device(w.sim), 3 * REGION, &address));
    says(
        refused(&w, A, 2 * REGION), WEIR_OOM_CAUSE_OUTSIDE,
        "held outside of this pool: 192.00 KiB of the device's 256.00 KiB belong to other pools, libraries or processes, "
        "64.00 KiB are free");
    ok(weir_device_region_free(weir_sim_device(w.sim), address, 3 * REGION));
    (void)get(&w, A, 2 * REGION);
    close_world(&w);
}

/* Four blocks of half a page, and every second one is freed: two halves are free, and a whole page is asked for. */
static void leave_halves(struct world *w, uint64_t page)
{
    weir_block *blocks[4];
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = get(w, A, page / 2);
    }
    put(w, blocks[0], A);
    put(w, blocks[2], A);
}

TEST(test_fragmented)
{
    struct world w = world_on(new_sim(device_of(2 * REGION)), WEIR_POOL_REGIONS, 0);
    leave_halves(&w, REGION);
    says(refused(&w, A, REGION), WEIR_OOM_CAUSE_FRAGMENTED,
         "fragmented: 64.00 KiB free in 2 pieces of at most 32.00 KiB; in the way are 32.00 "
         "KiB in 1 block");
    assert_false(refused(&w, A, REGION).virtual_memory_would_do); /* each page of 64 KiB has a live block */
    close_world(&w);
}

/* With pages of a quarter the halves are whole pages. A pool with virtual memory in the place of the first shows that
 * the advice is true. */
TEST(test_virtual_memory_would_do)
{
    for (unsigned maps = 0; maps < 2; maps++) {
        weir_sim_config device = device_of(2 * REGION);
        device.page_bytes = REGION / 4;
        struct world w = world_on(new_sim(device), maps ? 0 : WEIR_POOL_REGIONS, 0);
        leave_halves(&w, REGION);
        if (maps) {
            (void)get(&w, A, REGION);
        } else {
            assert_true(refused(&w, A, REGION).virtual_memory_would_do);
            says(refused(&w, A, REGION), WEIR_OOM_CAUSE_FRAGMENTED, "; virtual memory would bring the pieces together");
        }
        close_world(&w);
    }
}

/* Every way to wait fails on this device. */
TEST(test_waits_for_a_stream)
{
    static const weir_device_call calls[] = {WEIR_CALL_EVENT_RECORD, WEIR_CALL_EVENT_SYNC, WEIR_CALL_STREAM_WAIT_EVENT};
    struct world w = world_on(new_sim(device_of(2 * REGION)), WEIR_POOL_REGIONS, 0);
    weir_block *block = get(&w, A, 2 * REGION);
    busy(w.sim, w.native[A], LONG_NS);
    put(&w, block, A);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = calls[i];
        fault.status = WEIR_ERR_DEVICE;
        fault.nth = 1;
        fault.repeat = true;
        ok(weir_sim_fault_arm(w.sim, &fault));
    }
    says(refused(&w, B, 2 * REGION), WEIR_OOM_CAUSE_WAITS, "waits for stream 1: it freed memory that its queued work");
    weir_sim_fault_clear(w.sim);
    close_world(&w);
}

/* The blocks of 1 byte are rounded to 512 bytes each. */
TEST(test_rounding)
{
    struct world w = world_on(new_sim(device_of(16 * REGION)), WEIR_POOL_REGIONS, REGION);
    for (unsigned i = 0; i < REGION / 512; i++) {
        (void)get(&w, A, 1);
    }
    says(refused(&w, A, 512), WEIR_OOM_CAUSE_ROUNDING,
         "rounding: the live blocks take 63.88 KiB more than was asked for");
    close_world(&w);
}

TEST(test_refused_by_a_device_that_has_room)
{
    struct world w = world_on(new_sim(device_of(16 * REGION)), WEIR_POOL_REGIONS, 0);
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_REGION_ALLOC;
    fault.status = WEIR_ERR_NO_MEMORY;
    fault.nth = 1;
    fault.repeat = true;
    ok(weir_sim_fault_arm(w.sim, &fault));
    says(refused(&w, A, REGION), WEIR_OOM_CAUSE_REFUSED, "the device gave no more");
    weir_sim_fault_clear(w.sim);
    close_world(&w);
}

/* A record of another allocator, whose free memory belongs to streams. */
TEST(test_a_foreign_record_is_judged)
{
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    record.failure = 1;
    record.size = 32 * MIB;
    record.region_asked_bytes = 32 * MIB;
    record.reserved_bytes = 100 * MIB;
    record.requested_bytes = record.live_bytes = 60 * MIB;
    record.free_bytes = 40 * MIB;
    record.largest_free_bytes = 40 * MIB;
    record.usable_bytes = 2 * MIB;
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_OTHER_STREAMS);
    assert_non_null(
        strstr(record.text, "idle for other streams: 40.00 MiB are free in one piece, at most 2.00 MiB of them"));
    record.usable_bytes = record.largest_free_bytes = 20 * MIB;
    record.free_pieces = 2;
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_FRAGMENTED);
    record.device_total_bytes = 200 * MIB;
    record.device_free_bytes = 100 * MIB; /* room for the 32 MiB that the device has refused */
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_REFUSED);
    record.free_bytes = 20 * MIB;
    record.live_bytes = 70 * MIB;
    record.pending_bytes = 10 * MIB; /* the request would not fit with them */
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_REFUSED);
    record.pending_bytes = 12 * MIB;
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_WAITS);
    record.free_bytes = 40 * MIB;
    record.live_bytes = 60 * MIB;
    record.pending_bytes = 0;
    record.size = 0;
    record.usable_free_bytes = 2 * MIB;
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_OTHER_STREAMS);
    assert_non_null(strstr(record.text, "38.00 MiB are idle for other streams"));
    record.live_bytes = record.reserved_bytes = 61 * MIB;
    record.free_bytes = record.usable_free_bytes = MIB;
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_NONE);
    record.size = UINT64_MAX;
    record.device_total_bytes = 1;
    weir_oom_judge(&record);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_TOO_BIG);
    weir_oom_judge(NULL);
}

/* Neighbours that two streams have freed are two ranges, and one piece. */
TEST(test_free_neighbours_are_one_piece)
{
    struct world w = world_on(new_sim(device_of(16 * REGION)), WEIR_POOL_REGIONS, 0);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    weir_block *blocks[4];
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = get(&w, A, REGION / 4);
    }
    put(&w, blocks[1], A);
    use(&w, blocks[2], B);
    busy(w.sim, w.native[B], LONG_NS);
    put(&w, blocks[2], B);
    ok(weir_pool_survey(w.pool, w.stream[A], &record));
    assert_int_equal(record.free_pieces, 1);
    assert_int_equal(record.free_bytes, REGION / 2);
    assert_int_equal(record.usable_free_bytes, REGION / 4); /* B's work may still use the other quarter */
    put(&w, blocks[0], A);
    put(&w, blocks[3], A);
    close_world(&w);
}

/* Pieces of three, one and two eighths of a region, in this order. */
TEST(test_the_largest_piece_counts)
{
    struct world w = world_on(new_sim(device_of(16 * REGION)), WEIR_POOL_REGIONS, 0);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    weir_block *blocks[8];
    for (unsigned i = 0; i < 8; i++) {
        blocks[i] = get(&w, A, REGION / 8);
    }
    for (unsigned i = 0; i < 8; i++) {
        if (i != 3 && i != 5) {
            put(&w, blocks[i], A);
        }
    }
    ok(weir_pool_survey(w.pool, w.stream[A], &record));
    assert_int_equal(record.free_pieces, 3);
    assert_int_equal(record.usable_bytes, 3 * REGION / 8);
    assert_int_equal(record.worst[0].largest_bytes, 3 * REGION / 8);
    put(&w, blocks[3], A);
    put(&w, blocks[5], A);
    close_world(&w);
}

/* Tags of 1 to 7 KiB: the six largest are named, the largest first. */
TEST(test_the_largest_holders_are_named)
{
    struct world w = world_on(new_sim(device_of(16 * REGION)), WEIR_POOL_REGIONS, 0);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    for (uint64_t i = 1; i <= WEIR_OOM_ENTRIES + 1; i++) {
        const char name[] = {(char)('0' + i), '\0'};
        weir_tag tag = 0;
        weir_block *block = NULL;
        ok(weir_pool_tag(w.pool, name, &tag));
        ok(weir_pool_alloc_tagged(w.pool, w.stream[A], i * KIB, 0, tag, &block));
    }
    ok(weir_pool_survey(w.pool, w.stream[A], &record));
    assert_int_equal(record.holder_count, WEIR_OOM_ENTRIES);
    for (uint64_t i = 0; i < WEIR_OOM_ENTRIES; i++) {
        assert_int_equal(record.holders[i].requested_bytes, (WEIR_OOM_ENTRIES + 1 - i) * KIB);
    }
    close_world(&w);
}

/* A block of the tag "small" lies beside each of two free halves, one of the tag "large" elsewhere. */
TEST(test_the_tag_in_the_way_is_between_the_pieces)
{
    struct world w = world_on(new_sim(device_of(4 * REGION)), WEIR_POOL_REGIONS, 0);
    weir_tag small = 0;
    weir_tag large = 0;
    weir_block *block = NULL;
    weir_block *halves[2];
    ok(weir_pool_tag(w.pool, "small", &small));
    ok(weir_pool_tag(w.pool, "large", &large));
    ok(weir_pool_alloc_tagged(w.pool, w.stream[A], 2 * REGION, 0, large, &block));
    for (unsigned i = 0; i < 2; i++) {
        halves[i] = get(&w, A, REGION / 2);
        ok(weir_pool_alloc_tagged(w.pool, w.stream[A], REGION / 2, 0, small, &block));
    }
    put(&w, halves[0], A);
    put(&w, halves[1], A);
    says(refused(&w, A, REGION), WEIR_OOM_CAUSE_FRAGMENTED, "; in the way are 32.00 KiB in 1 block of \"small\"");
    close_world(&w);
}

TEST(test_a_survey_names_the_parts_of_memory)
{
    struct world w = world_on(new_sim(device_of(16 * REGION)), WEIR_POOL_REGIONS, 0);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    char report[4096];
    weir_tag tag = 0;
    weir_block *block = NULL;
    ok(weir_pool_tag(w.pool, "weights", &tag));
    ok(weir_pool_alloc_tagged(w.pool, w.stream[A], REGION / 2 - 400, 0, tag, &block));
    ok(weir_pool_survey(w.pool, w.stream[A], &record));
    assert_int_equal(record.failure, 0);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_FRAGMENTED);
    assert_int_equal(record.reserved_bytes, REGION);
    assert_int_equal(record.free_pieces, 1);
    assert_int_equal(record.device_total_bytes, 16 * REGION);
    assert_int_equal(record.device_free_bytes, 15 * REGION);
    assert_string_equal(record.text,
                        "64.00 KiB reserved for 31.61 KiB live as asked: 32.00 KiB free in one piece; 400 B "
                        "rounding; \"weights\" holds the most, 31.61 KiB in 1 block");
    (void)weir_oom_explain(&record, report, sizeof(report));
    assert_non_null(strstr(report, "held by   31.61 KiB in 1 block: weights\n"));
    ok(weir_pool_get_oom(w.pool, &record));
    assert_int_equal(record.failure, 0); /* a survey is no failure */
    fails(weir_pool_survey(NULL, w.stream[A], &record), WEIR_ERR_INVALID);
    fails(weir_pool_survey(w.pool, NULL, &record), WEIR_ERR_INVALID);
    fails(weir_pool_survey(w.pool, w.stream[A], NULL), WEIR_ERR_INVALID);
    close_world(&w);
}
