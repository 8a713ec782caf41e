/* tests/pool/unit/pool_vm_test.c: pools with virtual memory by example.
 *
 * The tests check where memory is mapped, which idle handles move and when they must not, and the state after a limit
 * or a failing device. The simulator's auditor checks each use of memory: kernels are still running at the next step,
 * and no call costs host time, so the auditor finds a granule that is unmapped too early.
 */
enum { A, B, streams };

#include "rig/pool.h"

#include <weir/size_class.h>

#include <inttypes.h>

#define PAGE (128 * KIB)

/* The settings of one test. Zero means 64 pages of 128 KiB. */
struct wish {
    uint64_t page;
    uint64_t capacity;
    uint64_t limit;
    uint32_t flags;
    bool front; /* with a front cache */
    weir_sim_mode mode;
    const weir_strategy_ops *strategy;
    weir_device *(*wrap)(weir_device *device);
};

static struct world open_world(struct wish wish)
{
    const uint64_t page = wish.page != 0 ? wish.page : PAGE;
    weir_sim_config device = device_of_units(page, wish.capacity != 0 ? wish.capacity : 64 * page);
    device.mode = wish.mode;
    weir_sim *sim = new_sim(device);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = wish.wrap != NULL ? wish.wrap(weir_sim_device(sim)) : NULL;
    config.strategy = wish.strategy;
    config.flags = (wish.front ? 0 : WEIR_POOL_NO_FRONT_CACHE) | wish.flags;
    config.limit_bytes = wish.limit;
    return world_over(sim, config);
}

/* The next functions return the statistics or make the calls get_by and refused, with a check of the pool. */
static weir_pool_stats checked(const struct world *w)
{
    check(w);
    return figures(w);
}

static weir_block *get_checked(struct world *w, int stream, uint64_t size, weir_rung rung)
{
    check(w);
    weir_block *block = get_by(w, stream, size, rung);
    check(w);
    return block;
}

static weir_oom_record must_refuse(struct world *w, int stream, uint64_t size)
{
    const weir_oom_record record = refused(w, stream, size);
    check(w);
    return record;
}

/* Allocates blocks of one page each, one behind the other, and frees every second one, from the first. */
static void checkerboard(struct world *w, int stream, weir_block **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = get(w, stream, PAGE);
        assert_true(i == 0 || weir_block_address(blocks[i]) == weir_block_address(blocks[i - 1]) + PAGE);
    }
    for (size_t i = 0; i < count; i += 2) {
        run_on(w, blocks[i], stream);
        put(w, blocks[i], stream);
    }
}

/* --- creation --- */

/* True if a pool of this config maps its memory, false if it takes regions. Checks that it does one of the two. */
static bool maps(weir_pool_config config, weir_device *device)
{
    weir_pool *pool = NULL;
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    config.device = device;
    ok(weir_pool_create(&config, &pool));
    ok(weir_pool_stream(pool, NULL, &stream));
    ok(weir_pool_alloc(pool, stream, MIB, 0, &block));
    ok(weir_pool_get_stats(pool, &stats));
    assert_true((stats.vm_creates == 0) == (stats.region_allocs == 1));
    ok(weir_pool_destroy(pool));
    return stats.vm_creates != 0;
}

TEST(test_a_pool_maps_where_it_can)
{
    weir_sim_config without = free_of_charge();
    without.no_virtual_memory = true;
    weir_sim_config fine = free_of_charge();
    fine.page_bytes = 256; /* smaller than the strategy's granule */
    weir_sim *bare = new_sim(without);
    weir_sim *finer = new_sim(fine);
    weir_sim *sim = new_sim(free_of_charge());
    weir_device *device = weir_sim_device(sim);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_strategy_ops table = *weir_caching_strategy();
    config.strategy = &table;
    assert_true(maps(config, device));
    assert_false(maps(config, weir_sim_device(bare)));
    assert_false(maps(config, weir_sim_device(finer)));
    config.flags = WEIR_POOL_REGIONS;
    assert_false(maps(config, device));
    config.flags = 0;
    table.claim = NULL;
    assert_false(maps(config, device));
    table = *weir_caching_strategy();
    table.struct_size = offsetof(weir_strategy_ops, claim); /* a table from before `claim` was added */
    assert_false(maps(config, device));
    table = *weir_caching_strategy();
    table.flags = WEIR_STRATEGY_RETURNS_REGIONS;
    assert_false(maps(config, device));
    table.flags = WEIR_STRATEGY_PRIVATE_LANES;
    assert_false(maps(config, device));
    ok(weir_sim_destroy(finer));
    ok(weir_sim_destroy(bare));
    ok(weir_sim_destroy(sim));
}

TEST(test_a_new_pool_makes_no_call)
{
    weir_pool *pool = NULL;
    weir_sim *sim = new_sim(free_of_charge());
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    weir_strategy_ops table = *weir_caching_strategy();
    config.strategy = &table;
    table.granule_bytes = 4 * MIB; /* a page or a region could begin in the middle of a granule */
    fails(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED);
    assert_null(pool);
    config.strategy = weir_caching_strategy();
    ok(weir_pool_create(&config, &pool));
    ok(weir_pool_destroy(pool));
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(sim, &stats));
    for (int call = 0; call < WEIR_CALL_COUNT; call++) {
        assert_int_equal(stats.calls[call], 0); /* a pool makes no call before its first request */
    }
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* --- growing --- */

struct seen {
    uint64_t bytes[WEIR_WALK_UNMAPPED + 1];
    uint64_t at;
};

static bool note_entry(void *ctx, const weir_walk_entry *entry)
{
    struct seen *seen = ctx;
    assert_true(seen->at == 0 || entry->address == seen->at);
    assert_int_equal(entry->region_address % PAGE, 0);
    seen->at = entry->address + entry->size;
    seen->bytes[entry->state] += entry->size;
    return true;
}

TEST(test_memory_is_mapped_where_it_is_missing)
{
    struct world w = open_world((struct wish){0});
    weir_block *first = get_checked(&w, A, 1000, WEIR_RUNG_MAPPED);
    assert_int_equal(held(&w), PAGE);
    weir_block *second = get_checked(&w, A, PAGE, WEIR_RUNG_MAPPED); /* goes on where the first page ends */
    assert_int_equal(held(&w), 2 * PAGE);
    assert_int_equal(weir_block_address(second), weir_block_address(first) + 1024);
    (void)get_checked(&w, A, PAGE - 1024, WEIR_RUNG_LANE);
    struct seen seen = {.at = 0};
    ok(weir_pool_walk(w.pool, note_entry, &seen));
    assert_int_equal(seen.bytes[WEIR_WALK_LIVE], 2 * PAGE);
    assert_int_equal(seen.bytes[WEIR_WALK_FREE], 0);
    assert_true(seen.bytes[WEIR_WALK_UNMAPPED] >= 62 * PAGE);
    const weir_pool_stats stats = checked(&w);
    assert_int_equal(stats.vm_creates, 2);
    assert_int_equal(stats.vm_maps, 2);
    assert_int_equal(stats.vm_unmaps + stats.vm_destroys + stats.vm_moved_bytes + stats.region_allocs, 0);
    assert_int_equal(stats.free_bytes + stats.largest_free_bytes, 0);
    assert_int_equal(stats.regions, 1);
    close_world(&w);
}

TEST(test_large_alignments)
{
    struct world w = open_world((struct wish){0});
    (void)get(&w, A, 1000);
    for (uint64_t align = 4 * KIB; align <= 16 * PAGE; align *= 4) {
        const uint64_t before = held(&w);
        weir_block *block = get_aligned(&w, A, PAGE, align);
        assert_int_equal(weir_block_address(block) % align, 0);
        assert_true(held(&w) - before <= 2 * PAGE); /* the addresses below the block need no memory */
        check(&w);
    }
    close_world(&w);
}

/* Six free pages lie between live pages, and the device is full: the free pages move. */
TEST(test_idle_granules_move_when_the_device_is_full)
{
    struct world w = open_world((struct wish){.capacity = 12 * PAGE});
    weir_block *blocks[12];
    checkerboard(&w, A, blocks, 12);
    sync_stream(w.sim, w.native[A]);
    (void)get_checked(&w, A, 6 * PAGE, WEIR_RUNG_REMAPPED);
    weir_pool_stats stats = checked(&w);
    assert_int_equal(stats.reserved_bytes, 12 * PAGE);
    assert_int_equal(stats.free_bytes, 0);
    assert_int_equal(stats.vm_creates, 12);
    assert_true(stats.vm_moved_bytes <= 6 * PAGE && stats.vm_moved_bytes >= 5 * PAGE);
    assert_int_equal(stats.vm_unmaps * PAGE, stats.vm_moved_bytes);
    (void)must_refuse(&w, A, 1);
    put(&w, blocks[1], A);
    (void)get(&w, A, PAGE);
    close_world(&w);
}

TEST(test_idle_granules_move_under_a_limit)
{
    struct world w = open_world((struct wish){.limit = 10 * PAGE + 1000});
    weir_block *blocks[10];
    checkerboard(&w, A, blocks, 10);
    (void)get_checked(&w, A, 5 * PAGE, WEIR_RUNG_REMAPPED);
    const weir_oom_record record = must_refuse(&w, A, 1000);
    assert_int_equal(record.region_asked_bytes, 0);
    assert_non_null(strstr(record.text, "limit"));
    assert_int_equal(checked(&w).reserved_bytes, 10 * PAGE);
    assert_int_equal(checked(&w).peak_reserved_bytes, 10 * PAGE);
    close_world(&w);
    w = open_world((struct wish){.limit = 10 * PAGE});
    checkerboard(&w, A, blocks, 10);
    (void)must_refuse(&w, A, 6 * PAGE);
    assert_int_equal(checked(&w).reserved_bytes, 5 * PAGE); /* the idle granules went back in vain, as a last resort */
    (void)get(&w, A, 5 * PAGE);
    close_world(&w);
}

/* Allocates 30 MiB in live blocks, frees most of them, and allocates as much in blocks of other sizes. Then idle
 * granules should be used again, although the device has enough memory. */
static void rounds_of_two_cuts(uint32_t flags, uint64_t *peak, weir_pool_stats *stats)
{
    struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = GIB, .flags = flags});
    weir_block *blocks[60];
    for (int round = 0; round < 6; round++) {
        const uint64_t size = round % 2 == 0 ? 3 * MIB : 7 * MIB;
        const size_t count = round % 2 == 0 ? 60 : 25;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = get(&w, A, size);
        }
        for (size_t i = 0; i < count; i++) { /* a third of the blocks, scattered, stays live for a while */
            if (i % 3 != 0) {
                put(&w, blocks[i], A);
            }
        }
        for (size_t i = 0; i < count; i += 3) {
            weir_block *next = get(&w, A, size + MIB);
            put(&w, blocks[i], A);
            put(&w, next, A);
        }
    }
    *stats = checked(&w);
    *peak = (uint64_t)stats->peak_live_bytes;
    close_world(&w);
}

TEST(test_little_more_is_taken_than_was_ever_live)
{
    uint64_t peak = 0;
    weir_pool_stats stats;
    rounds_of_two_cuts(0, &peak, &stats);
    assert_true(stats.peak_reserved_bytes <= peak + peak / 20 + 8 * MIB);
}

/* Plays a random program and returns a checksum of the addresses of its blocks. `reads`: it reads statistics. */
static uint64_t addresses_of(uint64_t seed, bool reads)
{
    enum { steps = 200, most = 24 };
    struct world w = open_world((struct wish){.capacity = 4096 * PAGE});
    weir_block *blocks[most];
    int count = 0;
    uint64_t sum = 0;
    for (int i = 0; i < steps; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int stream = (int)(seed >> 40) % streams;
        if (count == most || (count > 0 && (seed >> 60) < 7)) {
            const int index = (int)((seed >> 33) % (uint64_t)count);
            put(&w, blocks[index], stream);
            blocks[index] = blocks[--count];
        } else {
            blocks[count] = get(&w, stream, 1 + (seed >> 33) % ((seed >> 50) % 4 == 0 ? 64 * PAGE : 2 * PAGE));
            sum = sum * 31 + weir_block_address(blocks[count++]);
        }
        if (reads) {
            (void)figures(&w);
        }
    }
    while (count > 0) {
        put(&w, blocks[--count], A);
    }
    close_world(&w);
    return sum;
}

/* Peaks that a program has read are no reason to hold more memory than without. */
TEST(test_statistics_change_nothing)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        assert_int_equal(addresses_of(seed, true), addresses_of(seed, false));
    }
}

TEST(test_idle_memory_stays_when_it_is_kept)
{
    struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = GIB, .flags = WEIR_POOL_KEEP_IDLE_REGIONS});
    struct world mover = open_world((struct wish){.page = 2 * MIB, .capacity = GIB});
    weir_block *blocks[2][40];
    for (int i = 0; i < 40; i++) {
        blocks[0][i] = get(&w, A, 2 * MIB);
        blocks[1][i] = get(&mover, A, 2 * MIB);
    }
    for (int i = 0; i < 40; i += 2) {
        put(&w, blocks[0][i], A);
        put(&mover, blocks[1][i], A);
    }
    (void)get_checked(&w, A, 40 * MIB, WEIR_RUNG_MAPPED);
    (void)get_checked(&mover, A, 40 * MIB, WEIR_RUNG_REMAPPED);
    assert_int_equal(checked(&w).vm_moved_bytes, 0);
    assert_int_equal(checked(&w).reserved_bytes, 120 * MIB);
    assert_true(checked(&mover).reserved_bytes <= 92 * MIB);
    close_world(&w);
    close_world(&mover);
}

/* --- work that is still running --- */

/* The other stream's free granules would serve the request, but its kernels still write them. */
TEST(test_granules_in_use_by_a_kernel_do_not_move)
{
    for (int asking = A; asking <= B; asking++) {
        struct world w = open_world((struct wish){.capacity = 8 * PAGE});
        weir_block *blocks[8];
        checkerboard(&w, A, blocks, 8);
        const uint64_t before = weir_sim_now(w.sim);
        (void)get_checked(&w, asking, 4 * PAGE, WEIR_RUNG_REMAPPED);
        assert_true(weir_sim_now(w.sim) >= before + LONG_NS); /* the host has waited, a wait on the device is not
                                                                 enough */
        assert_int_equal(checked(&w).syncs, 1);
        close_world(&w);
    }
}

/* Another stream's memory, which a kernel still writes, would serve the request. To take as much again is dearer than a
 * wait of the requesting stream on the device; the host does not wait. */
TEST(test_a_stream_waits_where_growing_is_dearer)
{
    struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = GIB});
    weir_block *block = get(&w, A, 100 * MIB);
    weir_block *pin = get(&w, A, MIB);
    run_on(&w, block, A);
    put(&w, block, A);
    const uint64_t before = weir_sim_now(w.sim);
    (void)get_checked(&w, B, 100 * MIB, WEIR_RUNG_WAITED);
    assert_int_equal(weir_sim_now(w.sim), before);
    put(&w, pin, A);
    close_world(&w);
}

/* --- waiting or growing, for both kinds of memory --- */

static struct world open_waiting(weir_growth growth, uint32_t flags)
{
    weir_sim *sim = new_sim(device_of_units(2 * MIB, 64 * GIB));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = flags;
    config.growth = growth;
    return world_over(sim, config);
}

/* Stream A's block is used by a kernel on B and then freed on A. A's next request of the size waits for B on the device
 * and takes the block. */
TEST(test_a_block_in_use_elsewhere_is_waited_for)
{
    static const uint32_t flags[] = {WEIR_POOL_REGIONS, 0};
    for (size_t i = 0; i < 4; i++) {
        struct world w = open_waiting(i < 2 ? WEIR_GROWTH_WAIT_FIRST : WEIR_GROWTH_BALANCED, flags[i % 2]);
        weir_block *block = get(&w, A, 800 * MIB);
        const uint64_t before = weir_sim_now(w.sim);
        run_on(&w, block, A);
        use(&w, block, B);
        tell_order(&w, A, B);
        run_on(&w, block, B);
        put(&w, block, A);
        block = get_checked(&w, A, 800 * MIB, WEIR_RUNG_WAITED);
        assert_int_equal(checked(&w).waits, 1);
        assert_int_equal(weir_sim_now(w.sim), before); /* the host has not waited */
        assert_in_range(held(&w), 800 * MIB, 824 * MIB);
        run_on(&w, block, A);
        close_world(&w);
    }
}

/* Kernels still write the free granules between live ones. To move them the host waits once, which is cheaper than half
 * as much memory again; a pool that grows first takes it. */
TEST(test_the_host_waits_where_memory_has_to_move)
{
    for (int grows = 0; grows < 2; grows++) {
        struct world w =
            open_waiting(grows != 0 ? WEIR_GROWTH_GROW_FIRST : WEIR_GROWTH_BALANCED, WEIR_POOL_NO_FRONT_CACHE);
        weir_block *blocks[40];
        for (int i = 0; i < 40; i++) {
            blocks[i] = get(&w, A, 2 * MIB);
        }
        for (int i = 0; i < 40; i += 2) {
            run_on(&w, blocks[i], A);
            put(&w, blocks[i], A);
        }
        (void)get(&w, A, 40 * MIB);
        assert_int_equal(checked(&w).syncs, grows == 0);
        assert_true(grows != 0 ? held(&w) >= 118 * MIB : held(&w) <= 86 * MIB);
        close_world(&w);
    }
}

/* A host that runs far ahead of the device: blocks come on one stream, are used on another one and freed. */
TEST(test_a_host_far_ahead_is_slowed_down)
{
    static const uint32_t flags[] = {WEIR_POOL_REGIONS, 0};
    for (size_t i = 0; i < 2; i++) {
        struct world w = open_waiting(WEIR_GROWTH_WAIT_FIRST, flags[i]);
        for (int n = 0; n < 200; n++) {
            weir_block *block = get(&w, A, 8 * MIB);
            use(&w, block, B);
            tell_order(&w, A, B);
            run_on(&w, block, B);
            put(&w, block, A);
        }
        assert_true(checked(&w).peak_reserved_bytes <= 24 * MIB);
        close_world(&w);
    }
}

/* A block is freed on one stream while a longer kernel on another stream still uses it. */
TEST(test_uses_keep_granules)
{
    struct world w = open_world((struct wish){.capacity = 4 * PAGE});
    weir_block *block = get(&w, A, 3 * PAGE);
    run_on(&w, block, A);
    ok(weir_pool_use(w.pool, block, w.stream[B]));
    weir_event *event = new_event(w.sim);
    ok(weir_device_event_record(w.device, event, w.native[A]));
    ok(weir_device_stream_wait_event(w.device, w.native[B], event));
    ok(weir_device_event_destroy(w.device, event));
    run_on(&w, block, B);
    put(&w, block, A);
    uint64_t released = 77;
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, 0);
    (void)get(&w, A, 4 * PAGE);
    assert_int_equal(held(&w), 4 * PAGE);
    close_world(&w);
}

/* --- giving back --- */

TEST(test_trim_takes_granules_anywhere)
{
    struct world w = open_world((struct wish){0});
    weir_block *blocks[16];
    uint64_t released = 77;
    checkerboard(&w, A, blocks, 16);
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, 0); /* kernels are running on all granules */
    sync_stream(w.sim, w.native[A]);
    ok(weir_pool_trim(w.pool, 12 * PAGE + 1, 0, &released));
    assert_int_equal(released, 4 * PAGE); /* whole granules go back until keep_bytes are left */
    assert_int_equal(held(&w), 12 * PAGE);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_int_equal(released, 4 * PAGE);
    assert_int_equal(checked(&w).free_bytes, 0);
    for (size_t i = 1; i < 16; i += 2) {
        run_on(&w, blocks[i], A);
        put(&w, blocks[i], A);
    }
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_int_equal(released, 8 * PAGE);
    assert_int_equal(held(&w), 0);
    (void)get_checked(&w, B, 3 * PAGE, WEIR_RUNG_MAPPED);
    close_world(&w);
}

/* A trim keeps a granule of which one half is in use. */
TEST(test_trim_keeps_granules_in_use)
{
    struct world w = open_world((struct wish){0});
    weir_block *low = get(&w, A, PAGE / 2);
    weir_block *high = get(&w, A, 2 * PAGE);
    put(&w, high, A);
    uint64_t released = 0;
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_int_equal(released, 2 * PAGE);
    assert_int_equal(held(&w), PAGE);
    put(&w, low, A);
    ok(weir_pool_trim(w.pool, 0, 0, NULL));
    assert_int_equal(held(&w), 0);
    close_world(&w);
}

/* --- large handles --- */

/* A pool of 64 pages of 2 MiB, all live, far from its device's capacity: new handles are larger than a page. */
static struct world open_large_world(uint64_t capacity)
{
    struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = capacity});
    (void)get(&w, A, 128 * MIB);
    assert_in_range(held(&w), 128 * MIB, 132 * MIB); /* and a few pages ahead */
    return w;
}

TEST(test_new_handles_are_a_share_of_the_pool)
{
    struct world w = open_large_world(64 * GIB);
    const weir_pool_stats before = checked(&w);
    (void)get_checked(&w, A, 128 * MIB, WEIR_RUNG_MAPPED); /* 64 pages, in handles of 128/32 pages at most */
    const weir_pool_stats after = checked(&w);
    assert_in_range(after.reserved_bytes, 256 * MIB, 264 * MIB);
    assert_in_range(after.vm_creates - before.vm_creates, 15, 18);
    assert_int_equal(after.vm_maps, after.vm_creates);
    close_world(&w);
}

/* Blocks of all sizes lie in one handle, and take its free rest without a device call. */
TEST(test_a_handle_is_shared)
{
    struct world w = open_large_world(64 * GIB);
    weir_block *block = get(&w, A, 128 * MIB);
    const uint64_t address = weir_block_address(block);
    put(&w, block, A);
    const weir_pool_stats before = checked(&w);
    for (int i = 0; i < 50; i++) {
        block = get(&w, A, 2 * MIB + 512);
        assert_in_range(weir_block_address(block), address, address + 128 * MIB);
    }
    const weir_pool_stats after = checked(&w);
    assert_int_equal(after.vm_creates, before.vm_creates);
    assert_int_equal(after.events_recorded, before.events_recorded);
    close_world(&w);
}

/* A handle that a live block touches stays as a whole, and a trim gives back the others. */
TEST(test_trim_gives_back_whole_handles)
{
    struct world w = open_large_world(64 * GIB);
    const uint64_t first = held(&w);
    weir_block *block = get(&w, A, 128 * MIB);
    run_on(&w, block, A);
    put(&w, block, A);
    weir_block *low = get(&w, A, 6 * MIB); /* lies in the first handle of the block too */
    uint64_t released = 77;
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, 0); /* its kernel is running */
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_in_range(held(&w), first + 2 * MIB, first + 8 * MIB); /* one handle */
    put(&w, low, A);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_int_equal(held(&w), 128 * MIB);
    close_world(&w);
}

/* From 3/4 of the limit on, handles are pages: a live block then keeps no idle page from use. */
TEST(test_handles_are_pages_near_the_limit)
{
    struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = 64 * GIB, .limit = 256 * MIB});
    (void)get(&w, A, 200 * MIB);
    assert_int_equal(held(&w), 200 * MIB);
    const weir_pool_stats before = checked(&w);
    (void)get_checked(&w, A, 56 * MIB, WEIR_RUNG_MAPPED);
    assert_int_equal(checked(&w).vm_creates - before.vm_creates, 28);
    assert_int_equal(held(&w), 256 * MIB);
    close_world(&w);
}

/* All idle memory lies in handles that do not fit the holes of the request. They are destroyed, and all of their memory
 * serves requests of other sizes. */
TEST(test_large_handles_are_split_when_they_must_be)
{
    struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = 64 * GIB, .limit = 400 * MIB});
    weir_block *low = get(&w, A, 128 * MIB);
    weir_block *high = get(&w, A, 160 * MIB);
    run_on(&w, high, A);
    put(&w, high, A);
    for (int i = 0; i < 8; i++) {
        (void)get(&w, A, 17 * 2 * MIB);
        check(&w);
    }
    assert_int_equal(held(&w), 400 * MIB);
    (void)must_refuse(&w, A, 1);
    put(&w, low, A);
    (void)get(&w, A, 128 * MIB);
    close_world(&w);
}

/* The pool holds more than a limit that was lowered: it serves from what it holds, and refuses what would grow it. */
TEST(test_a_pool_above_its_limit_serves_from_what_it_holds)
{
    struct world w = open_large_world(64 * GIB);
    weir_block *block = get(&w, A, 64 * MIB);
    run_on(&w, block, A);
    put(&w, block, A);
    const uint64_t before = held(&w);
    ok(weir_pool_set_limits(w.pool, 0, 140 * MIB));
    assert_int_equal(held(&w), before); /* its kernel is running */
    for (int i = 0; i < 10; i++) {
        (void)get(&w, A, 6 * MIB);
    }
    assert_int_equal(held(&w), before);
    (void)must_refuse(&w, A, 16 * MIB);
    close_world(&w);
}

/* Each call fails once while memory moves from idle handles to a hole: no memory is lost, and a second request is
 * served. */
TEST(test_a_move_that_fails_loses_nothing)
{
    static const weir_device_call calls[] = {WEIR_CALL_VM_UNMAP, WEIR_CALL_VM_DESTROY, WEIR_CALL_VM_CREATE,
                                             WEIR_CALL_VM_MAP};
    for (size_t c = 0; c < 4; c++) {
        struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = 64 * GIB, .limit = 300 * MIB});
        (void)get(&w, A, 128 * MIB);
        weir_block *block = get(&w, A, 100 * MIB);
        (void)get(&w, A, 2 * MIB);
        put(&w, block, A);
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = calls[c];
        fault.nth = 1;
        fault.status = WEIR_ERR_DEVICE;
        ok(weir_sim_fault_arm(w.sim, &fault));
        weir_status status = weir_pool_alloc(w.pool, w.stream[A], 150 * MIB, 0, &block);
        check(&w);
        weir_sim_fault_clear(w.sim);
        if (status != WEIR_OK) {
            status = weir_pool_alloc(w.pool, w.stream[A], 150 * MIB, 0, &block);
        }
        ok(status);
        assert_int_equal(checked(&w).live_bytes, 280 * MIB);
        weir_sim_block_alloc(w.sim, weir_block_address(block), weir_block_capacity(block), w.native[A], "alloc");
        close_world(&w);
    }
}

/* If the device has less memory than the requested handle, the pool requests handles of half the size. */
TEST(test_a_device_with_less_gives_smaller_handles)
{
    struct world w = open_world((struct wish){.capacity = 21 * PAGE});
    weir_block *blocks[8];
    checkerboard(&w, A, blocks, 8);
    (void)get_checked(&w, A, 17 * PAGE, WEIR_RUNG_REMAPPED);
    assert_int_equal(checked(&w).reserved_bytes, 21 * PAGE);
    assert_int_equal(checked(&w).free_bytes, 0);
    close_world(&w);
}

/* --- addresses --- */

static uint64_t most_reserved;

static weir_device_ops small_ops;

static weir_status small_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    return size > most_reserved ? WEIR_ERR_NO_MEMORY : weir_device_vm_reserve(ctx, size, address);
}

static weir_status small_get_info(void *ctx, weir_device_info *info)
{
    weir_status status = weir_device_get_info(ctx, info);
    info->abilities &= ~(uint32_t)WEIR_DEVICE_ORDERED;
    return status;
}

static weir_status small_region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    return weir_device_region_alloc(ctx, size, address);
}

static weir_status small_region_free(void *ctx, uint64_t address, uint64_t size)
{
    return weir_device_region_free(ctx, address, size);
}

static weir_status small_release(void *ctx, uint64_t address, uint64_t size)
{
    return weir_device_vm_release(ctx, address, size);
}

static weir_status small_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    return weir_device_vm_create(ctx, size, handle);
}

static weir_status small_destroy(void *ctx, weir_vm_handle handle)
{
    return weir_device_vm_destroy(ctx, handle);
}

static weir_status small_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    return weir_device_vm_map(ctx, address, size, handle);
}

static weir_status small_unmap(void *ctx, uint64_t address, uint64_t size)
{
    return weir_device_vm_unmap(ctx, address, size);
}

static weir_device *small_device;

/* Makes a device without streams that reserves few addresses at a time. */
static weir_device *reserves_little(weir_device *device)
{
    small_ops = (weir_device_ops){
        .struct_size = sizeof(small_ops),
        .get_info = small_get_info,
        .region_alloc = small_region_alloc,
        .region_free = small_region_free,
        .vm_reserve = small_reserve,
        .vm_release = small_release,
        .vm_create = small_create,
        .vm_destroy = small_destroy,
        .vm_map = small_map,
        .vm_unmap = small_unmap,
    };
    ok(weir_device_create(&small_ops, device, &small_device));
    return small_device;
}

TEST(test_a_further_range_is_reserved)
{
    most_reserved = 8 * PAGE;
    struct world w = open_world((struct wish){.wrap = reserves_little});
    for (int i = 0; i < 8; i++) {
        (void)get(&w, A, 5 * PAGE); /* one block in each address range */
    }
    weir_pool_stats stats = checked(&w);
    assert_int_equal(stats.regions, 8);
    assert_int_equal(stats.reserved_bytes, 40 * PAGE);
    for (int i = 0; i < 8; i++) {
        (void)get(&w, A, 3 * PAGE); /* the rests of the ranges */
    }
    stats = checked(&w);
    assert_int_equal(stats.regions, 8);
    assert_int_equal(stats.reserved_bytes, 64 * PAGE);
    close_world(&w);
    assert_int_equal(weir_device_destroy(small_device), WEIR_OK);
}

TEST(test_no_addresses_is_out_of_memory)
{
    most_reserved = 2 * PAGE;
    struct world w = open_world((struct wish){.wrap = reserves_little});
    const weir_oom_record record = must_refuse(&w, A, 3 * PAGE);
    assert_int_equal(record.device_status, WEIR_ERR_NO_MEMORY);
    (void)get(&w, A, 2 * PAGE);
    close_world(&w);
    assert_int_equal(weir_device_destroy(small_device), WEIR_OK);
}

TEST(test_absurd_requests)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = NULL;
    fails(weir_pool_alloc(w.pool, w.stream[A], (UINT64_C(1) << 47) - 1, 0, &block), WEIR_ERR_NO_MEMORY);
    fails(weir_pool_alloc(w.pool, w.stream[A], 1, UINT64_C(1) << 46, &block), WEIR_ERR_NO_MEMORY);
    fails(weir_pool_alloc(w.pool, w.stream[A], (UINT64_C(1) << 47) - 1, UINT64_C(1) << 46, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(held(&w), 0);
    close_world(&w);
}

/* --- the explanation of a failure --- */

TEST(test_the_record_speaks_of_granules)
{
    struct world w = open_world((struct wish){.capacity = 8 * PAGE});
    weir_block *blocks[8];
    checkerboard(&w, A, blocks, 8);
    for (size_t i = 1; i < 8; i += 2) {
        put(&w, blocks[i], A);
        blocks[i] = get(&w, A, PAGE / 2); /* the block takes half a page, but keeps its whole granule from moving */
    }
    const weir_oom_record record = must_refuse(&w, A, 8 * PAGE);
    assert_int_equal(record.size, 8 * PAGE);
    assert_int_equal(record.device_status, WEIR_ERR_NO_MEMORY);
    assert_int_equal(record.live_bytes, 2 * PAGE);
    assert_in_range(record.reserved_bytes, 2 * PAGE, 4 * PAGE); /* idle granules went back, as the last resort */
    assert_int_equal(record.idle_region_bytes, 0);
    assert_non_null(strstr(record.text, "in handles that are in use"));
    char more[64];
    (void)snprintf(more, sizeof(more), "would fit with %" PRIu64 " more bytes on the device", record.reserved_bytes);
    assert_non_null(strstr(record.text, more));
    (void)get(&w, A, 8 * PAGE - record.reserved_bytes);
    close_world(&w);
}

TEST(test_the_record_names_the_limit)
{
    struct world w = open_world((struct wish){.limit = 4 * PAGE});
    (void)get(&w, A, PAGE);
    const weir_oom_record record = must_refuse(&w, A, 4 * PAGE);
    assert_non_null(strstr(record.text, "the pool's limit of 512.00 KiB"));
    assert_non_null(strstr(record.text, "131072 more bytes under the limit"));
    const weir_oom_record hopeless = must_refuse(&w, A, 5 * PAGE);
    assert_non_null(strstr(hopeless.text, "262144 more bytes under the limit"));
    close_world(&w);
}

/* --- failures --- */

/* One call fails while seven idle granules between live blocks are moved together: the state is as before the move. */
TEST(test_a_move_that_fails_leaves_everything_as_it_was)
{
    static const weir_device_call calls[] = {WEIR_CALL_VM_UNMAP, WEIR_CALL_VM_MAP};
    for (size_t c = 0; c < 2; c++) {
        for (uint64_t k = 1; k <= 6; k++) {
            struct world w = open_world((struct wish){.limit = 14 * PAGE});
            weir_block *blocks[14];
            checkerboard(&w, A, blocks, 14);
            sync_stream(w.sim, w.native[A]);
            ok(weir_pool_trim(w.pool, 14 * PAGE, 0, NULL)); /* sees that it is idle */
            const weir_pool_stats before = checked(&w);
            weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
            fault.call = calls[c];
            fault.nth = k;
            fault.status = WEIR_ERR_DEVICE;
            ok(weir_sim_fault_arm(w.sim, &fault));
            /* The ladder tries again, so the request is served after the failure has passed. */
            weir_block *block = get(&w, A, 7 * PAGE);
            assert_true(weir_block_size(block) == 7 * PAGE);
            const weir_pool_stats after = checked(&w);
            assert_int_equal(after.device_failures, before.device_failures + 1);
            assert_int_equal(after.reserved_bytes, before.reserved_bytes);
            assert_int_equal(after.free_bytes, 0);
            assert_int_equal(after.vm_maps - after.vm_unmaps, 14);
            close_world(&w);
        }
    }
}

/* From one call on, all calls of the kind fail. Granules that the failed move had unmapped are given back, like those
 * that it had created. Of the seven missing granules, some would be created and the rest moved. */
TEST(test_a_move_that_fails_for_good_loses_nothing)
{
    enum { missing = 7 };
    for (uint64_t creates = 0; creates < missing; creates += 2) {
        struct world w = open_world((struct wish){.limit = (14 + creates) * PAGE});
        weir_block *blocks[14];
        checkerboard(&w, A, blocks, 14);
        sync_stream(w.sim, w.native[A]);
        ok(weir_pool_trim(w.pool, 14 * PAGE, 0, NULL));
        const weir_pool_stats before = checked(&w);
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = WEIR_CALL_VM_MAP;
        fault.nth = 1;
        fault.repeat = true;
        fault.status = WEIR_ERR_DEVICE;
        ok(weir_sim_fault_arm(w.sim, &fault));
        weir_block *block = NULL;
        fails(weir_pool_alloc(w.pool, w.stream[A], 7 * PAGE, 0, &block), WEIR_ERR_DEVICE);
        weir_sim_fault_clear(w.sim);
        const weir_pool_stats after = checked(&w);
        assert_int_equal(after.reserved_bytes, after.live_bytes + after.free_bytes);
        assert_int_equal((after.vm_creates - after.vm_destroys) * PAGE, after.reserved_bytes);
        assert_true(after.reserved_bytes <= before.reserved_bytes + creates * PAGE);
        (void)get(&w, A, 7 * PAGE);
        close_world(&w);
    }
}

/* Every unmap fails: a request that needs a move is refused. The free memory stays as it was and serves other
 * requests. */
TEST(test_a_device_that_never_unmaps)
{
    struct world w = open_world((struct wish){.capacity = 8 * PAGE});
    weir_block *blocks[8];
    checkerboard(&w, A, blocks, 8);
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_VM_UNMAP;
    fault.nth = 1;
    fault.repeat = true;
    ok(weir_sim_fault_arm(w.sim, &fault));
    weir_block *block = NULL;
    fails(weir_pool_alloc(w.pool, w.stream[A], 4 * PAGE, 0, &block), WEIR_ERR_DEVICE);
    assert_int_equal(checked(&w).free_bytes, 4 * PAGE);
    uint64_t released = 77;
    fails(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released), WEIR_ERR_DEVICE);
    assert_int_equal(released, 0);
    assert_int_equal(checked(&w).free_bytes, 4 * PAGE);
    for (int i = 0; i < 4; i++) {
        blocks[2 * i] = get(&w, A, PAGE);
    }
    weir_sim_fault_clear(w.sim);
    close_world(&w);
}

/* A handle that cannot be destroyed is kept, counted as reserved, and used before a new handle is created. */
TEST(test_a_spare_handle_is_used_first)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, 3 * PAGE);
    put(&w, block, A);
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_VM_DESTROY;
    fault.nth = 2;
    ok(weir_sim_fault_arm(w.sim, &fault));
    uint64_t released = 0;
    fails(weir_pool_trim(w.pool, 0, 0, &released), WEIR_ERR_DEVICE);
    assert_int_equal(released, PAGE);
    weir_pool_stats stats = checked(&w);
    assert_int_equal(stats.reserved_bytes, 2 * PAGE);
    assert_int_equal(stats.free_bytes, 0);
    (void)get(&w, A, 3 * PAGE);
    stats = checked(&w);
    assert_int_equal(stats.reserved_bytes, 3 * PAGE);
    assert_int_equal(stats.vm_creates, 4);
    /* In a second pool the next trim destroys the kept handle. */
    close_world(&w);
    w = open_world((struct wish){0});
    block = get(&w, A, 2 * PAGE);
    put(&w, block, A);
    fault.nth = 1;
    ok(weir_sim_fault_arm(w.sim, &fault));
    fails(weir_pool_trim(w.pool, 0, 0, &released), WEIR_ERR_DEVICE);
    assert_int_equal(released, 0);
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, 2 * PAGE);
    close_world(&w);
}

/* Destroy returns all memory although each call fails once, and reports a call that fails every time. The device then
 * gives the memory back at the next call for memory after the outage, and is not destroyed before. */
TEST(test_destroy_tries_twice)
{
    static const weir_device_call calls[] = {WEIR_CALL_VM_UNMAP, WEIR_CALL_VM_DESTROY, WEIR_CALL_VM_RELEASE};
    for (size_t c = 0; c < 3; c++) {
        struct world w = open_world((struct wish){0});
        put(&w, get(&w, A, 3 * PAGE), A);
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = calls[c];
        fault.nth = 1;
        ok(weir_sim_fault_arm(w.sim, &fault));
        ok(weir_pool_destroy(w.pool));
        assert_int_equal(held(&w), 0);
        assert_int_equal(weir_sim_destroy(w.sim), WEIR_OK);
    }
    struct world w = open_world((struct wish){0});
    (void)get(&w, A, 3 * PAGE);
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_VM_DESTROY;
    fault.nth = 1;
    fault.repeat = true;
    ok(weir_sim_fault_arm(w.sim, &fault));
    fails(weir_pool_destroy(w.pool), WEIR_ERR_DEVICE);
    assert_int_equal(held(&w), 3 * PAGE); /* the memory that could not be returned */
    fails(weir_sim_destroy(w.sim), WEIR_ERR_DEVICE);
    weir_sim_fault_clear(w.sim);
    weir_vm_handle handle = 0;
    ok(weir_device_vm_create(weir_sim_device(w.sim), PAGE, &handle));
    assert_int_equal(held(&w), PAGE);
    assert_int_equal(weir_sim_destroy(w.sim), WEIR_OK);
}

/* --- contents --- */

static void fill(struct world *w, const weir_block *block, uint8_t value)
{
    ok(weir_sim_fill(w->sim, w->native[A], weir_block_address(block), weir_block_capacity(block), value, "fill"));
}

static void verify(struct world *w, const weir_block *block, uint8_t value)
{
    const uint64_t size = weir_block_capacity(block);
    const uint8_t *bytes = weir_sim_bytes(w->sim, weir_block_address(block), size);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < size; i++) {
        if (bytes[i] != value) {
            print_error("byte %" PRIu64 " of a live block is %u instead of %u\n", i, bytes[i], value);
            fail();
        }
    }
}

static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % n;
}

/* Every live block has a value of its own, written on the device and verified after each step, while granules move
 * under a limit that leaves little room. So the test detects an unmapped granule of a live block. */
static void churn_with_contents(const weir_strategy_ops *strategy, uint64_t seed)
{
    enum { most = 24 };
    const uint64_t page = 16 * KIB;
    struct world w =
        open_world((struct wish){.page = page, .capacity = 40 * page, .mode = WEIR_SIM_BACKED, .strategy = strategy});
    weir_block *blocks[most];
    uint8_t values[most];
    size_t count = 0;
    random_state = seed;
    for (int step = 0; step < 400; step++) {
        const uint64_t size = below(3) == 0 ? 1 + below(12 * page) : 1 + below(3 * page);
        weir_block *block = NULL;
        if (count < most && weir_pool_alloc(w.pool, w.stream[A], size, 0, &block) == WEIR_OK) {
            weir_sim_block_alloc(w.sim, weir_block_address(block), weir_block_capacity(block), w.native[A], "alloc");
            blocks[count] = block;
            values[count] = (uint8_t)(1 + below(255));
            fill(&w, block, values[count++]);
        }
        while (count > 0 && (block == NULL || below(3) == 0)) {
            const size_t i = (size_t)below(count);
            put(&w, blocks[i], A);
            blocks[i] = blocks[--count];
            values[i] = values[count];
            block = blocks[0];
        }
        sync_stream(w.sim, w.native[A]);
        for (size_t i = 0; i < count; i++) {
            verify(&w, blocks[i], values[i]);
        }
        check(&w);
    }
    assert_true(checked(&w).vm_moved_bytes > 20 * page);
    close_world(&w);
}

TEST(test_live_blocks_keep_their_contents)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        churn_with_contents(weir_caching_strategy(), seed);
        churn_with_contents(weir_size_class_strategy(), seed);
    }
}

/* --- slabs --- */

/* A full device of slots: some slots are free in every granule, and every second granule has only free slots. A large
 * request uses these granules. */
TEST(test_slots_are_given_up)
{
    struct world w = open_world((struct wish){.capacity = 8 * PAGE, .strategy = weir_size_class_strategy()});
    weir_block *blocks[256];
    for (int i = 0; i < 256; i++) {
        blocks[i] = get(&w, A, 4 * KIB);
    }
    assert_int_equal(held(&w), 8 * PAGE);
    uint64_t base = UINT64_MAX;
    for (int i = 0; i < 256; i++) {
        base = weir_block_address(blocks[i]) < base ? weir_block_address(blocks[i]) : base;
    }
    for (int i = 0; i < 256; i++) {
        const uint64_t page = (weir_block_address(blocks[i]) - base) / PAGE;
        if (page % 2 == 1 || i % 5 == 0) {
            put(&w, blocks[i], A);
        }
    }
    (void)get(&w, A, 4 * PAGE);
    assert_int_equal(held(&w), 8 * PAGE);
    close_world(&w);
}

/* Makes a slab with slots of four granules, all idle but `slot`. Directly above the slab lies free memory that a kernel
 * of the same stream still writes. If a slot were split into granules, they would merge with that memory and wait for
 * the kernel. */
static struct world slots_below_a_kernel(weir_block **slot)
{
    const uint64_t page = 64 * KIB;
    struct world w = open_world(
        (struct wish){.page = page, .capacity = 96 * page, .limit = 69 * page, .strategy = weir_size_class_strategy()});
    weir_block *low = get(&w, A, 16 * page);
    weir_block *high = get(&w, A, 24 * page);
    assert_int_equal(weir_block_address(high), weir_block_address(low) + 16 * page);
    put(&w, low, A);
    *slot = get(&w, A, 4 * page);
    assert_true(weir_block_address(*slot) < weir_block_address(high));
    sync_stream(w.sim, w.native[A]);
    ok(weir_stream_synced(w.pool, w.stream[A]));
    run_on(&w, high, A);
    put(&w, high, A);
    return w;
}

TEST(test_slots_of_several_granules_are_trimmed)
{
    const uint64_t page = 64 * KIB;
    weir_block *slot = NULL;
    struct world w = slots_below_a_kernel(&slot);
    uint64_t released = 0;
    ok(weir_pool_trim(w.pool, 38 * page, 0, &released));
    assert_int_equal(released, 2 * page);
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, 10 * page);
    assert_int_equal(held(&w), 28 * page); /* the live slot, and the memory that the kernel writes */
    close_world(&w);
}

TEST(test_slots_of_several_granules_are_moved)
{
    const uint64_t page = 64 * KIB;
    weir_block *slot = NULL;
    struct world w = slots_below_a_kernel(&slot);
    (void)get_checked(&w, A, 60 * page, WEIR_RUNG_REMAPPED); /* 64 of 69 granules are live then */
    assert_true(checked(&w).vm_moved_bytes >= 7 * page);
    close_world(&w);
}

/* Memory that is created ahead of requests is not missed where the device has less than it says. */
TEST(test_the_last_memory_of_a_device_serves)
{
    struct world w = open_world((struct wish){.capacity = 1024 * PAGE});
    (void)get_checked(&w, A, 100 * PAGE, WEIR_RUNG_MAPPED);
    const uint64_t ahead = figures(&w).reserved_bytes - 100 * PAGE;
    assert_true(ahead > 0);
    weir_sim_set_capacity(w.sim, 100 * PAGE + ahead + 7 * PAGE);
    (void)get(&w, A, ahead + 7 * PAGE);
    assert_int_equal(checked(&w).reserved_bytes, 100 * PAGE + ahead + 7 * PAGE);
    close_world(&w);
}

/* The same at the capacity, with a soft limit that is smaller than a page. */
TEST(test_the_capacity_serves_above_a_soft_limit)
{
    weir_sim *sim = new_sim(device_of_units(PAGE, 64 * PAGE));
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_NO_FRONT_CACHE;
    config.soft_limit_bytes = KIB;
    struct world w = world_over(sim, config);
    (void)get(&w, A, 55 * PAGE);
    (void)get(&w, A, 9 * PAGE);
    assert_int_equal(checked(&w).reserved_bytes, 64 * PAGE);
    close_world(&w);
}

/* Work that ends while the pool looks for a place to grow. */
static weir_sim *ending;
static int holes_seen;

static void end_work_meanwhile(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    weir_caching_strategy()->walk_holes(state, least, visit, ctx);
    if (++holes_seen == 2 && ending != NULL) { /* the pool grows at any price */
        weir_sim_advance(ending, LONG_NS);
    }
}

/* Memory that is idle by then serves where it is. If its pages moved, the parts that are left would serve no more. */
TEST(test_free_memory_serves_before_it_moves)
{
    const uint64_t page = 2 * MIB; /* no request takes the high end of free memory */
    weir_strategy_ops table = *weir_caching_strategy();
    table.walk_holes = end_work_meanwhile;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.strategy = &table;
    config.growth = WEIR_GROWTH_GROW_FIRST;
    config.limit_bytes = 5 * page;
    config.flags = WEIR_POOL_NO_FRONT_CACHE;
    struct world w = world_over(new_sim(device_of_units(page, 64 * page)), config);
    uint64_t fit = 0;
    (void)get(&w, A, page + page / 8);
    weir_block *middle = get(&w, A, 4 * page - page / 4);
    (void)get(&w, A, page / 8);
    busy(w.sim, w.native[A], LONG_NS);
    put(&w, middle, A);
    ok(weir_pool_would_fit(w.pool, w.stream[B], page + page / 8 * 3, 9, &fit));
    assert_int_equal(fit, 2);
    ending = w.sim;
    holes_seen = 0;
    (void)get(&w, B, page + page / 8 * 3);
    assert_int_equal(holes_seen, 2);
    (void)get(&w, B, page + page / 8 * 3);
    ending = NULL;
    close_world(&w);
}
