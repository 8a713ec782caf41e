/* tests/unit/pool_vm_test.c: pools with virtual memory by example.
 *
 * What is mapped where, which idle granules move and when they must not, what a limit and a failing device leave
 * behind. The simulator's auditor judges as in pool_test.c: kernels are still running when the next step is taken, and
 * nothing costs host time, so a granule that is taken away too early is found out.
 */
#include "sim_test.h"

#include <weir/caching.h>
#include <weir/pool.h>
#include <weir/size_class.h>

#include <inttypes.h>
#include <stdlib.h>

#define PAGE (128 * KIB)

enum { A, B, streams };

struct world {
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    weir_sim_stream *native[streams];
    weir_stream *stream[streams];
};

/* What differs from test to test; zero: 64 pages of 128 KiB and the pool's defaults. */
struct wish {
    uint64_t page;
    uint64_t capacity;
    uint64_t limit;
    uint64_t handle;
    uint64_t spare_share;
    uint64_t spare_bytes;
    uint32_t flags;
    bool front; /* with a front cache */
    weir_sim_mode mode;
    const weir_strategy_ops *strategy;
    weir_device *(*wrap)(weir_device *device);
};

static struct world open_world(struct wish wish)
{
    struct world w;
    weir_sim_config sim = free_of_charge();
    sim.mode = wish.mode;
    sim.page_bytes = wish.page != 0 ? wish.page : PAGE;
    sim.region_granularity_bytes = sim.page_bytes;
    sim.capacity_bytes = wish.capacity != 0 ? wish.capacity : 64 * sim.page_bytes;
    w.sim = new_sim(sim);
    w.device = weir_sim_device(w.sim);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = wish.wrap != NULL ? wish.wrap(w.device) : w.device;
    config.strategy = wish.strategy != NULL ? wish.strategy : weir_caching_strategy();
    config.flags = WEIR_POOL_VIRTUAL_MEMORY | (wish.front ? 0 : WEIR_POOL_NO_FRONT_CACHE) | wish.flags;
    config.limit_bytes = wish.limit;
    config.vm_handle_bytes = wish.handle;
    config.vm_spare_share = wish.spare_share;
    config.vm_spare_bytes = wish.spare_bytes;
    ok(weir_pool_create(&config, &w.pool));
    for (int i = 0; i < streams; i++) {
        w.native[i] = new_stream(w.sim);
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
    return w;
}

static uint64_t held(const struct world *w)
{
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(w->sim, &stats));
    return stats.held_bytes;
}

static void check(const struct world *w)
{
    const char *why = "";
    if (weir_pool_check(w->pool, &why) != WEIR_OK) {
        print_error("check: %s\n", why);
        fail();
    }
    is_clean(w->sim);
}

static weir_pool_stats figures(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    check(w);
    ok(weir_pool_get_stats(w->pool, &stats));
    assert_int_equal(stats.reserved_bytes, held(w));
    return stats;
}

static bool announce(void *ctx, const weir_walk_entry *entry)
{
    const struct world *w = ctx;
    if (entry->state == WEIR_WALK_LIVE) {
        weir_sim_block_free(w->sim, entry->address, w->native[entry->stream - 1], "end");
    }
    return true;
}

static void close_world(struct world *w)
{
    check(w);
    ok(weir_pool_walk(w->pool, announce, w));
    ok(weir_pool_destroy(w->pool));
    assert_int_equal(held(w), 0);
    ok(weir_sim_sync(w->sim));
    weir_sim_audit_leaks(w->sim);
    is_clean(w->sim);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

static weir_block *get_aligned(struct world *w, int stream, uint64_t size, uint64_t align)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(w->pool, w->stream[stream], size, align, &block));
    weir_sim_block_alloc(w->sim, weir_block_address(block), weir_block_capacity(block), w->native[stream], "alloc");
    return block;
}

static weir_block *get(struct world *w, int stream, uint64_t size)
{
    return get_aligned(w, stream, size, 0);
}

static weir_block *get_by(struct world *w, int stream, uint64_t size, weir_rung rung)
{
    const weir_pool_stats before = figures(w);
    weir_block *block = get(w, stream, size);
    const weir_pool_stats after = figures(w);
    for (int i = 0; i < WEIR_RUNG_COUNT; i++) {
        if (after.served[i] != before.served[i] && i != (int)rung) {
            print_error("served by \"%s\" instead of \"%s\"\n", weir_rung_name((weir_rung)i), weir_rung_name(rung));
        }
    }
    assert_int_equal(after.served[rung], before.served[rung] + 1);
    return block;
}

static weir_oom_record refused(struct world *w, int stream, uint64_t size)
{
    weir_block *block = NULL;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    fails(weir_pool_alloc(w->pool, w->stream[stream], size, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_null(block);
    check(w);
    ok(weir_pool_get_oom(w->pool, &record));
    return record;
}

static void put(struct world *w, weir_block *block, int stream)
{
    weir_sim_block_free(w->sim, weir_block_address(block), w->native[stream], "free");
    ok(weir_pool_free(w->pool, block, w->stream[stream]));
}

static void run_on(struct world *w, const weir_block *block, int stream)
{
    writes(w->sim, w->native[stream], weir_block_address(block), weir_block_capacity(block), "kernel");
}

/* Blocks of one page each, one after the other; frees every second one, from the first. */
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

static void test_create_asks_for_what_it_needs(void **state)
{
    (void)state;
    weir_pool *pool = NULL;
    weir_sim_config without = free_of_charge();
    without.no_virtual_memory = true;
    weir_sim *bare = new_sim(without);
    weir_sim *sim = new_sim(free_of_charge());
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.strategy = weir_caching_strategy();
    config.flags = WEIR_POOL_VIRTUAL_MEMORY;
    config.device = weir_sim_device(bare);
    fails(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED); /* the device has none */
    config.device = weir_sim_device(sim);
    weir_strategy_ops table = *weir_caching_strategy();
    config.strategy = &table;
    table.claim = NULL;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED);
    table = *weir_caching_strategy();
    table.struct_size = offsetof(weir_strategy_ops, claim); /* made before there was a claim */
    fails(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED);
    table = *weir_caching_strategy();
    table.flags = WEIR_STRATEGY_PRIVATE_LANES;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED);
    table.flags = WEIR_STRATEGY_RETURNS_REGIONS;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED);
    table = *weir_caching_strategy();
    table.granule_bytes = 4 * MIB; /* a page could begin in the middle of it */
    fails(weir_pool_create(&config, &pool), WEIR_ERR_UNSUPPORTED);
    assert_null(pool);
    config.strategy = weir_caching_strategy();
    ok(weir_pool_create(&config, &pool));
    ok(weir_pool_destroy(pool));
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(sim, &stats));
    for (int call = 0; call < WEIR_CALL_COUNT; call++) {
        assert_int_equal(stats.calls[call], 0); /* a pool that serves nobody takes nothing */
    }
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
    assert_int_equal(weir_sim_destroy(bare), WEIR_OK);
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

static void test_memory_is_mapped_where_it_is_missing(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){0});
    weir_block *first = get_by(&w, A, 1000, WEIR_RUNG_MAPPED);
    assert_int_equal(held(&w), PAGE);
    weir_block *second = get_by(&w, A, PAGE, WEIR_RUNG_MAPPED); /* goes on where the first page ends */
    assert_int_equal(held(&w), 2 * PAGE);
    assert_int_equal(weir_block_address(second), weir_block_address(first) + 1024);
    (void)get_by(&w, A, PAGE - 1024, WEIR_RUNG_LANE);
    struct seen seen = {.at = 0};
    ok(weir_pool_walk(w.pool, note_entry, &seen));
    assert_int_equal(seen.bytes[WEIR_WALK_LIVE], 2 * PAGE);
    assert_int_equal(seen.bytes[WEIR_WALK_FREE], 0);
    assert_true(seen.bytes[WEIR_WALK_UNMAPPED] >= 62 * PAGE);
    const weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.vm_creates, 2);
    assert_int_equal(stats.vm_maps, 2);
    assert_int_equal(stats.vm_unmaps + stats.vm_destroys + stats.vm_moved_bytes + stats.region_allocs, 0);
    assert_int_equal(stats.free_bytes + stats.largest_free_bytes, 0);
    assert_int_equal(stats.regions, 1);
    close_world(&w);
}

static void test_large_alignments(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){0});
    (void)get(&w, A, 1000);
    for (uint64_t align = 4 * KIB; align <= 16 * PAGE; align *= 4) {
        const uint64_t before = held(&w);
        weir_block *block = get_aligned(&w, A, PAGE, align);
        assert_int_equal(weir_block_address(block) % align, 0);
        assert_true(held(&w) - before <= 2 * PAGE); /* what lies below the block needs no memory */
        check(&w);
    }
    close_world(&w);
}

/* Six free pages lie between live ones; a device that is full gives no more. */
static void test_idle_granules_move_when_the_device_is_full(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.capacity = 12 * PAGE});
    weir_block *blocks[12];
    checkerboard(&w, A, blocks, 12);
    sync_stream(w.sim, w.native[A]);
    (void)get_by(&w, A, 6 * PAGE, WEIR_RUNG_REMAPPED);
    weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.reserved_bytes, 12 * PAGE);
    assert_int_equal(stats.free_bytes, 0);
    assert_int_equal(stats.vm_creates, 12);
    assert_true(stats.vm_moved_bytes <= 6 * PAGE && stats.vm_moved_bytes >= 5 * PAGE);
    assert_int_equal(stats.vm_unmaps * PAGE, stats.vm_moved_bytes);
    (void)refused(&w, A, 1);
    put(&w, blocks[1], A);
    (void)get(&w, A, PAGE);
    close_world(&w);
}

static void test_idle_granules_move_under_a_limit(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.limit = 10 * PAGE + 1000});
    weir_block *blocks[10];
    checkerboard(&w, A, blocks, 10);
    (void)refused(&w, A, 6 * PAGE);
    (void)get_by(&w, A, 5 * PAGE, WEIR_RUNG_REMAPPED);
    const weir_oom_record record = refused(&w, A, 1000);
    assert_int_equal(record.region_asked_bytes, 0);
    assert_non_null(strstr(record.text, "limit"));
    assert_int_equal(figures(&w).reserved_bytes, 10 * PAGE);
    assert_int_equal(figures(&w).peak_reserved_bytes, 10 * PAGE);
    close_world(&w);
}

/* Live blocks of 30 MiB, then as much again in another cut: the second time round idle granules are used, although the
 * device has plenty. */
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
        for (size_t i = 0; i < count; i++) { /* a third of them stays for a while, scattered */
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
    *stats = figures(&w);
    *peak = (uint64_t)stats->peak_live_bytes;
    close_world(&w);
}

static void test_little_more_is_taken_than_was_ever_live(void **state)
{
    (void)state;
    uint64_t peak = 0;
    weir_pool_stats stats;
    rounds_of_two_cuts(0, &peak, &stats);
    assert_true(stats.peak_reserved_bytes <= peak + peak / 20 + 8 * MIB);
}

/* 40 granules of 128 KiB, every second one idle, and a request that needs them all. */
static uint64_t reserved_with(uint64_t spare_share, uint64_t spare_bytes)
{
    struct world w = open_world((struct wish){.capacity = GIB, .spare_share = spare_share, .spare_bytes = spare_bytes});
    weir_block *blocks[40];
    for (int i = 0; i < 40; i++) {
        blocks[i] = get(&w, A, PAGE);
    }
    for (int i = 0; i < 40; i += 2) {
        put(&w, blocks[i], A);
    }
    (void)get(&w, A, 24 * PAGE); /* with 20 others */
    const uint64_t reserved = figures(&w).peak_reserved_bytes / PAGE;
    close_world(&w);
    return reserved;
}

static void test_how_much_may_lie_idle_is_configured(void **state)
{
    (void)state;
    assert_int_equal(reserved_with(0, 0), 64);         /* 6 MiB more than lives: nothing moves */
    assert_int_equal(reserved_with(0, 1), 44 + 1 + 3); /* 1/24, and three granules at least */
    assert_int_equal(reserved_with(4, 1), 44 + 11 + 3);
    assert_int_equal(reserved_with(UINT64_MAX, 5 * PAGE), 44 + 5);
}

static void test_idle_memory_stays_when_it_is_kept(void **state)
{
    (void)state;
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
    (void)get_by(&w, A, 40 * MIB, WEIR_RUNG_MAPPED);
    (void)get_by(&mover, A, 40 * MIB, WEIR_RUNG_REMAPPED);
    assert_int_equal(figures(&w).vm_moved_bytes, 0);
    assert_int_equal(figures(&w).reserved_bytes, 120 * MIB);
    assert_true(figures(&mover).reserved_bytes <= 92 * MIB);
    close_world(&w);
    close_world(&mover);
}

/* --- work that is still running --- */

/* The other stream's free granules would do, but its kernels still write them. */
static void test_nothing_is_taken_away_under_a_kernel(void **state)
{
    (void)state;
    for (int asking = A; asking <= B; asking++) {
        struct world w = open_world((struct wish){.capacity = 8 * PAGE});
        weir_block *blocks[8];
        checkerboard(&w, A, blocks, 8);
        const uint64_t before = weir_sim_now(w.sim);
        (void)get_by(&w, asking, 4 * PAGE, WEIR_RUNG_REMAPPED);
        assert_true(weir_sim_now(w.sim) >= before + LONG_NS); /* the host has waited, a wait on the device is not
                                                                 enough */
        assert_int_equal(figures(&w).syncs, 1);
        close_world(&w);
    }
}

/* While memory can be created nobody waits for a kernel. */
static void test_a_running_kernel_makes_nobody_wait(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.page = 2 * MIB, .capacity = GIB});
    weir_block *block = get(&w, A, 100 * MIB);
    weir_block *pin = get(&w, A, MIB);
    run_on(&w, block, A);
    put(&w, block, A);
    const uint64_t before = weir_sim_now(w.sim);
    (void)get_by(&w, B, 100 * MIB, WEIR_RUNG_MAPPED); /* beyond what was ever live; nothing is idle */
    assert_int_equal(weir_sim_now(w.sim), before);
    put(&w, pin, A);
    close_world(&w);
}

/* Freed on one stream, used by another whose kernel runs longest. */
static void test_uses_keep_granules(void **state)
{
    (void)state;
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

static void test_trim_takes_granules_anywhere(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){0});
    weir_block *blocks[16];
    uint64_t released = 77;
    checkerboard(&w, A, blocks, 16);
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, 0); /* kernels are running on all of it */
    sync_stream(w.sim, w.native[A]);
    ok(weir_pool_trim(w.pool, 12 * PAGE + 1, 0, &released));
    assert_int_equal(released, 4 * PAGE); /* whole granules until no more than that is reserved */
    assert_int_equal(held(&w), 12 * PAGE);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_int_equal(released, 4 * PAGE);
    assert_int_equal(figures(&w).free_bytes, 0);
    for (size_t i = 1; i < 16; i += 2) {
        run_on(&w, blocks[i], A);
        put(&w, blocks[i], A);
    }
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_int_equal(released, 8 * PAGE);
    assert_int_equal(held(&w), 0);
    (void)get_by(&w, B, 3 * PAGE, WEIR_RUNG_MAPPED);
    close_world(&w);
}

/* Half of a granule is in use: it stays. */
static void test_trim_keeps_granules_in_use(void **state)
{
    (void)state;
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

/* --- the front cache --- */

/* Small blocks wait in the front cache; a block above an eighth of a granule joins its neighbours at once. */
static void test_large_blocks_do_not_wait(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.page = 2 * MIB, .front = true});
    weir_block *large[4];
    for (int i = 0; i < 4; i++) {
        large[i] = get(&w, A, 300 * KIB);
    }
    weir_block *small = get(&w, A, 32 * KIB);
    put(&w, small, A);
    assert_int_equal(figures(&w).cached_bytes, 32 * KIB);
    for (int i = 0; i < 4; i++) {
        put(&w, large[i], A);
        assert_true(figures(&w).cached_bytes <= 32 * KIB);
    }
    close_world(&w);
}

/* --- large handles --- */

static struct world open_large_world(uint64_t capacity)
{
    return open_world((struct wish){.capacity = capacity, .handle = 64 * PAGE});
}

static void test_a_large_request_takes_one_handle(void **state)
{
    (void)state;
    struct world w = open_large_world(0);
    (void)get_by(&w, A, 20 * PAGE, WEIR_RUNG_MAPPED);
    assert_int_equal(figures(&w).vm_creates, 1);
    (void)get(&w, A, 10 * PAGE + 1000); /* its last granule is shared */
    (void)get(&w, A, PAGE / 2);
    const weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.vm_creates, 3);
    assert_int_equal(stats.vm_maps, 3);
    assert_int_equal(stats.reserved_bytes, 31 * PAGE);
    close_world(&w);
}

/* A free large handle serves a request for all of it without a call, and no smaller one. */
static void test_a_large_handle_is_not_shared(void **state)
{
    (void)state;
    struct world w = open_large_world(0);
    weir_block *block = get(&w, A, 20 * PAGE);
    const uint64_t address = weir_block_address(block);
    run_on(&w, block, A);
    put(&w, block, A);
    weir_block *small = get_by(&w, A, PAGE, WEIR_RUNG_MAPPED);
    assert_true(weir_block_address(small) < address || weir_block_address(small) >= address + 20 * PAGE);
    block = get_by(&w, A, 20 * PAGE, WEIR_RUNG_LANE);
    assert_int_equal(weir_block_address(block), address);
    assert_int_equal(figures(&w).vm_creates, 2);
    close_world(&w);
}

/* Memory beside an idle large handle serves a request without a call of the device, though the handle is the better
 * fit. */
static void test_memory_beside_a_large_handle_is_found_at_once(void **state)
{
    (void)state;
    struct world w = open_large_world(0);
    weir_block *large = get(&w, A, 8 * PAGE);
    (void)get(&w, A, PAGE);
    weir_block *single[12];
    for (int i = 0; i < 12; i++) {
        single[i] = get(&w, A, PAGE);
    }
    (void)get(&w, A, PAGE);
    put(&w, large, A);
    for (int i = 0; i < 12; i++) {
        put(&w, single[i], A);
    }
    const weir_pool_stats before = figures(&w);
    (void)get(&w, A, 2 * PAGE);
    const weir_pool_stats after = figures(&w);
    assert_int_equal(after.events_recorded, before.events_recorded);
    assert_int_equal(after.vm_creates, before.vm_creates);
    close_world(&w);
}

/* When as much has moved as a quarter of what is reserved, new handles are half as large, and a larger one does not
 * move on: it is destroyed, and the hole is filled with handles of that size. */
static void test_a_large_handle_that_moves_on_is_broken_up(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.limit = 33 * PAGE, .handle = 16 * PAGE});
    weir_block *low = get(&w, A, 16 * PAGE);
    (void)get(&w, A, PAGE);
    put(&w, low, A);
    weir_block *high = get_by(&w, A, 28 * PAGE, WEIR_RUNG_REMAPPED);
    const weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.vm_destroys, 1); /* of 16 pages; the hole of 28 has handles of 8 now */
    assert_int_equal(stats.vm_moved_bytes, 0);
    assert_int_equal(stats.reserved_bytes, 29 * PAGE);
    put(&w, high, A);
    close_world(&w);
}

/* The device is full of one idle handle: it is destroyed, and all of its memory is to be had in other sizes. */
static void test_a_large_handle_is_split_when_it_must_be(void **state)
{
    (void)state;
    struct world w = open_large_world(24 * PAGE);
    weir_block *block = get(&w, A, 24 * PAGE);
    run_on(&w, block, A);
    put(&w, block, A);
    for (int i = 0; i < 24; i++) {
        block = get(&w, A, PAGE); /* the first waits for the kernel */
        run_on(&w, block, A);
    }
    (void)refused(&w, A, 1);
    assert_int_equal(figures(&w).reserved_bytes, 24 * PAGE);
    close_world(&w);
}

/* The only place for the request within the limit has a part of an idle handle. */
static void test_a_large_handle_in_the_way_is_broken_up(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.limit = 10 * PAGE, .handle = 64 * PAGE});
    weir_block *high = get(&w, A, PAGE / 2);
    weir_block *low = get(&w, A, PAGE / 2);
    const uint64_t start = weir_block_address(low);
    assert_int_equal(weir_block_address(high), start + PAGE / 2);
    put(&w, high, A);
    weir_block *block = get_aligned(&w, A, 9 * PAGE, PAGE);
    assert_int_equal(weir_block_address(block), start + PAGE);
    run_on(&w, block, A);
    put(&w, block, A);
    block = get_aligned(&w, A, 9 * PAGE + 512, PAGE / 2);
    assert_int_equal(weir_block_address(block), start + PAGE / 2);
    assert_int_equal(figures(&w).reserved_bytes, 10 * PAGE);
    close_world(&w);
}

/* A handle that a hole can take as it is moves as a whole, in two calls. */
static void test_a_large_handle_moves_as_a_whole(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.limit = 32 * PAGE, .handle = 64 * PAGE});
    weir_block *low = get(&w, A, 16 * PAGE);
    (void)get(&w, A, PAGE);
    put(&w, low, A);
    (void)get_by(&w, A, 28 * PAGE, WEIR_RUNG_REMAPPED);
    const weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.vm_unmaps, 1);
    assert_int_equal(stats.vm_destroys, 0);
    assert_int_equal(stats.vm_moved_bytes, 16 * PAGE);
    close_world(&w);
}

/* The device has less than the handle that is asked for: the pool asks for halves. */
static void test_a_device_with_less_gives_smaller_handles(void **state)
{
    (void)state;
    struct world w = open_large_world(21 * PAGE);
    weir_block *blocks[8];
    checkerboard(&w, A, blocks, 8);
    (void)get_by(&w, A, 17 * PAGE, WEIR_RUNG_REMAPPED);
    assert_int_equal(figures(&w).reserved_bytes, 21 * PAGE);
    assert_int_equal(figures(&w).free_bytes, 0);
    close_world(&w);
}

static void test_trim_gives_back_whole_handles(void **state)
{
    (void)state;
    struct world w = open_large_world(0);
    weir_block *block = get(&w, A, 20 * PAGE);
    (void)get(&w, A, PAGE);
    run_on(&w, block, A);
    put(&w, block, A);
    uint64_t released = 77;
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, 0); /* its kernel is running */
    ok(weir_pool_trim(w.pool, 20 * PAGE, WEIR_TRIM_WAIT, &released));
    assert_int_equal(released, 20 * PAGE);
    assert_int_equal(figures(&w).vm_destroys, 1);
    close_world(&w);
}

/* The k-th call of a kind fails where a handle is destroyed to make room: no memory is lost, and the same request is
 * served. */
static void test_a_split_that_fails_loses_nothing(void **state)
{
    (void)state;
    static const weir_device_call calls[] = {WEIR_CALL_VM_UNMAP, WEIR_CALL_VM_DESTROY, WEIR_CALL_VM_CREATE,
                                             WEIR_CALL_VM_MAP};
    for (size_t c = 0; c < 4; c++) {
        struct world w = open_large_world(24 * PAGE);
        weir_block *block = get(&w, A, 24 * PAGE);
        put(&w, block, A);
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = calls[c];
        fault.nth = calls[c] == WEIR_CALL_VM_CREATE ? 2 : 1; /* the first is refused: the device is full */
        fault.status = WEIR_ERR_DEVICE;
        ok(weir_sim_fault_arm(w.sim, &fault));
        weir_status status = weir_pool_alloc(w.pool, w.stream[A], 23 * PAGE, 0, &block);
        check(&w);
        weir_sim_fault_clear(w.sim);
        if (status != WEIR_OK) {
            status = weir_pool_alloc(w.pool, w.stream[A], 23 * PAGE, 0, &block);
        }
        ok(status);
        assert_int_equal(figures(&w).live_bytes, 23 * PAGE);
        weir_sim_block_alloc(w.sim, weir_block_address(block), weir_block_capacity(block), w.native[A], "alloc");
        close_world(&w);
    }
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

/* A device without streams that reserves few addresses at a time. */
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

static void test_a_further_range_is_reserved(void **state)
{
    (void)state;
    most_reserved = 8 * PAGE;
    struct world w = open_world((struct wish){.wrap = reserves_little});
    for (int i = 0; i < 8; i++) {
        (void)get(&w, A, 5 * PAGE); /* one in each range */
    }
    weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.regions, 8);
    assert_int_equal(stats.reserved_bytes, 40 * PAGE);
    for (int i = 0; i < 8; i++) {
        (void)get(&w, A, 3 * PAGE); /* their rests */
    }
    stats = figures(&w);
    assert_int_equal(stats.regions, 8);
    assert_int_equal(stats.reserved_bytes, 64 * PAGE);
    close_world(&w);
    assert_int_equal(weir_device_destroy(small_device), WEIR_OK);
}

static void test_no_addresses_is_out_of_memory(void **state)
{
    (void)state;
    most_reserved = 2 * PAGE;
    struct world w = open_world((struct wish){.wrap = reserves_little});
    const weir_oom_record record = refused(&w, A, 3 * PAGE);
    assert_int_equal(record.device_status, WEIR_ERR_NO_MEMORY);
    (void)get(&w, A, 2 * PAGE);
    close_world(&w);
    assert_int_equal(weir_device_destroy(small_device), WEIR_OK);
}

static void test_absurd_requests(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){0});
    weir_block *block = NULL;
    fails(weir_pool_alloc(w.pool, w.stream[A], (UINT64_C(1) << 47) - 1, 0, &block), WEIR_ERR_NO_MEMORY);
    fails(weir_pool_alloc(w.pool, w.stream[A], 1, UINT64_C(1) << 46, &block), WEIR_ERR_NO_MEMORY);
    fails(weir_pool_alloc(w.pool, w.stream[A], (UINT64_C(1) << 47) - 1, UINT64_C(1) << 46, &block), WEIR_ERR_NO_MEMORY);
    assert_int_equal(held(&w), 0);
    close_world(&w);
}

/* --- why it failed --- */

static void test_the_record_speaks_of_granules(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.capacity = 8 * PAGE});
    weir_block *blocks[8];
    checkerboard(&w, A, blocks, 8);
    for (size_t i = 1; i < 8; i += 2) {
        put(&w, blocks[i], A);
        blocks[i] = get(&w, A, PAGE / 2); /* pins its granule all the same */
    }
    const weir_oom_record record = refused(&w, A, 8 * PAGE);
    assert_int_equal(record.size, 8 * PAGE);
    assert_int_equal(record.device_status, WEIR_ERR_NO_MEMORY);
    assert_int_equal(record.live_bytes, 2 * PAGE);
    assert_int_equal(record.reserved_bytes, 8 * PAGE);
    assert_true(record.idle_region_bytes >= 4 * PAGE && record.idle_region_bytes <= 6 * PAGE);
    assert_non_null(strstr(record.text, "granules of 128.00 KiB that are in use"));
    char more[64];
    (void)snprintf(more, sizeof(more), "would fit with %" PRIu64 " more bytes on the device",
                   8 * PAGE - record.idle_region_bytes);
    assert_non_null(strstr(record.text, more));
    (void)get(&w, A, record.idle_region_bytes);
    close_world(&w);
}

static void test_the_record_names_the_limit(void **state)
{
    (void)state;
    struct world w = open_world((struct wish){.limit = 4 * PAGE});
    (void)get(&w, A, PAGE);
    const weir_oom_record record = refused(&w, A, 4 * PAGE);
    assert_non_null(strstr(record.text, "the pool's limit of 512.00 KiB"));
    assert_non_null(strstr(record.text, "131072 more bytes under the limit"));
    const weir_oom_record hopeless = refused(&w, A, 5 * PAGE);
    assert_non_null(strstr(hopeless.text, "262144 more bytes under the limit"));
    close_world(&w);
}

/* --- failures --- */

/* The k-th call of a kind fails while seven granules are gathered from between live blocks: everything is as before. */
static void test_a_move_that_fails_leaves_everything_as_it_was(void **state)
{
    (void)state;
    static const weir_device_call calls[] = {WEIR_CALL_VM_UNMAP, WEIR_CALL_VM_MAP};
    for (size_t c = 0; c < 2; c++) {
        for (uint64_t k = 1; k <= 6; k++) {
            struct world w = open_world((struct wish){.limit = 14 * PAGE});
            weir_block *blocks[14];
            checkerboard(&w, A, blocks, 14);
            sync_stream(w.sim, w.native[A]);
            ok(weir_pool_trim(w.pool, 14 * PAGE, 0, NULL)); /* sees that it is idle */
            const weir_pool_stats before = figures(&w);
            weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
            fault.call = calls[c];
            fault.nth = k;
            fault.status = WEIR_ERR_DEVICE;
            ok(weir_sim_fault_arm(w.sim, &fault));
            /* The ladder tries again: a failure that passes costs nothing but time. */
            weir_block *block = get(&w, A, 7 * PAGE);
            assert_true(weir_block_size(block) == 7 * PAGE);
            const weir_pool_stats after = figures(&w);
            assert_int_equal(after.device_failures, before.device_failures + 1);
            assert_int_equal(after.reserved_bytes, before.reserved_bytes);
            assert_int_equal(after.free_bytes, 0);
            assert_int_equal(after.vm_maps - after.vm_unmaps, 14);
            close_world(&w);
        }
    }
}

/* After the first attempt no other succeeds: what the failed move had taken away is back where it was, and what it had
 * created is gone. Of the seven granules that are missing, some are created and the others moved. */
static void test_a_move_that_fails_for_good_is_taken_back(void **state)
{
    (void)state;
    enum { missing = 7, more_attempts = 40 };
    for (uint64_t creates = 0; creates < missing; creates += 2) {
        struct world w = open_world((struct wish){.limit = (14 + creates) * PAGE});
        weir_block *blocks[14];
        checkerboard(&w, A, blocks, 14);
        sync_stream(w.sim, w.native[A]);
        ok(weir_pool_trim(w.pool, 14 * PAGE, 0, NULL));
        const weir_pool_stats before = figures(&w);
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = WEIR_CALL_VM_MAP;
        fault.nth = 1;
        fault.status = WEIR_ERR_DEVICE;
        ok(weir_sim_fault_arm(w.sim, &fault));
        fault.call = WEIR_CALL_VM_UNMAP;
        for (uint64_t i = 1; i <= more_attempts; i++) {
            fault.nth = missing - creates + i;
            ok(weir_sim_fault_arm(w.sim, &fault));
        }
        weir_block *block = NULL;
        fails(weir_pool_alloc(w.pool, w.stream[A], 7 * PAGE, 0, &block), WEIR_ERR_DEVICE);
        weir_sim_fault_clear(w.sim);
        const weir_pool_stats after = figures(&w);
        assert_int_equal(after.reserved_bytes, before.reserved_bytes);
        assert_int_equal(after.free_bytes, before.free_bytes);
        assert_int_equal(after.vm_creates - before.vm_creates, after.vm_destroys - before.vm_destroys);
        assert_true(after.vm_unmaps > before.vm_unmaps && after.vm_maps > before.vm_maps);
        assert_int_equal(after.vm_moved_bytes, 0);
        (void)get_by(&w, A, PAGE, WEIR_RUNG_LANE);
        close_world(&w);
    }
}

/* Every unmap fails: a request that needs a move is refused, the free memory stays what it was and serves what it
 * can. */
static void test_a_device_that_never_unmaps(void **state)
{
    (void)state;
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
    assert_int_equal(figures(&w).free_bytes, 4 * PAGE);
    uint64_t released = 77;
    fails(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released), WEIR_ERR_DEVICE);
    assert_int_equal(released, 0);
    assert_int_equal(figures(&w).free_bytes, 4 * PAGE);
    for (int i = 0; i < 4; i++) {
        blocks[2 * i] = get(&w, A, PAGE);
    }
    weir_sim_fault_clear(w.sim);
    close_world(&w);
}

/* A handle that cannot be destroyed is kept, counted, and used before anything is created. */
static void test_a_spare_handle_is_used_first(void **state)
{
    (void)state;
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
    weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.reserved_bytes, 2 * PAGE);
    assert_int_equal(stats.free_bytes, 0);
    (void)get(&w, A, 3 * PAGE);
    stats = figures(&w);
    assert_int_equal(stats.reserved_bytes, 3 * PAGE);
    assert_int_equal(stats.vm_creates, 4);
    /* And again, but now the next trim gets rid of it. */
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

/* Destroy gives everything back when each call fails once, and says so when one fails for good. */
static void test_destroy_tries_twice(void **state)
{
    (void)state;
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
    assert_int_equal(held(&w), 3 * PAGE); /* reported, not hidden */
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
 * under a limit that leaves little room. One granule too many taken away would show. */
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
    assert_true(figures(&w).vm_moved_bytes > 20 * page);
    close_world(&w);
}

static void test_live_blocks_keep_their_contents(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        churn_with_contents(weir_caching_strategy(), seed);
        churn_with_contents(weir_size_class_strategy(), seed);
    }
}

/* --- slabs --- */

/* Every granule has a free slot or two of a slab in use; and one is made of free slots only. */
static void test_slots_are_given_up(void **state)
{
    (void)state;
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

/* A slab of slots of four granules, all but `slot` idle, and right above it free memory that a kernel of the same
 * stream still writes. A slot that is cut, granule by granule, would join that memory and wait for the kernel. */
static struct world slots_below_a_kernel(weir_block **slot)
{
    const uint64_t page = 64 * KIB;
    struct world w = open_world((struct wish){
        .page = page, .capacity = 96 * page, .limit = 69 * page, .handle = 1, .strategy = weir_size_class_strategy()});
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

static void test_slots_of_several_granules_are_trimmed(void **state)
{
    (void)state;
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

static void test_slots_of_several_granules_are_moved(void **state)
{
    (void)state;
    const uint64_t page = 64 * KIB;
    weir_block *slot = NULL;
    struct world w = slots_below_a_kernel(&slot);
    (void)get_by(&w, A, 60 * page, WEIR_RUNG_REMAPPED); /* 64 of 69 granules are live then */
    assert_true(figures(&w).vm_moved_bytes >= 7 * page);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_asks_for_what_it_needs),
        cmocka_unit_test(test_memory_is_mapped_where_it_is_missing),
        cmocka_unit_test(test_large_alignments),
        cmocka_unit_test(test_idle_granules_move_when_the_device_is_full),
        cmocka_unit_test(test_idle_granules_move_under_a_limit),
        cmocka_unit_test(test_little_more_is_taken_than_was_ever_live),
        cmocka_unit_test(test_how_much_may_lie_idle_is_configured),
        cmocka_unit_test(test_idle_memory_stays_when_it_is_kept),
        cmocka_unit_test(test_nothing_is_taken_away_under_a_kernel),
        cmocka_unit_test(test_a_running_kernel_makes_nobody_wait),
        cmocka_unit_test(test_uses_keep_granules),
        cmocka_unit_test(test_trim_takes_granules_anywhere),
        cmocka_unit_test(test_trim_keeps_granules_in_use),
        cmocka_unit_test(test_a_large_request_takes_one_handle),
        cmocka_unit_test(test_a_large_handle_is_not_shared),
        cmocka_unit_test(test_memory_beside_a_large_handle_is_found_at_once),
        cmocka_unit_test(test_a_large_handle_that_moves_on_is_broken_up),
        cmocka_unit_test(test_large_blocks_do_not_wait),
        cmocka_unit_test(test_a_large_handle_is_split_when_it_must_be),
        cmocka_unit_test(test_a_large_handle_in_the_way_is_broken_up),
        cmocka_unit_test(test_a_large_handle_moves_as_a_whole),
        cmocka_unit_test(test_a_device_with_less_gives_smaller_handles),
        cmocka_unit_test(test_trim_gives_back_whole_handles),
        cmocka_unit_test(test_a_split_that_fails_loses_nothing),
        cmocka_unit_test(test_a_further_range_is_reserved),
        cmocka_unit_test(test_no_addresses_is_out_of_memory),
        cmocka_unit_test(test_absurd_requests),
        cmocka_unit_test(test_the_record_speaks_of_granules),
        cmocka_unit_test(test_the_record_names_the_limit),
        cmocka_unit_test(test_a_move_that_fails_leaves_everything_as_it_was),
        cmocka_unit_test(test_a_move_that_fails_for_good_is_taken_back),
        cmocka_unit_test(test_a_device_that_never_unmaps),
        cmocka_unit_test(test_a_spare_handle_is_used_first),
        cmocka_unit_test(test_destroy_tries_twice),
        cmocka_unit_test(test_live_blocks_keep_their_contents),
        cmocka_unit_test(test_slots_are_given_up),
        cmocka_unit_test(test_slots_of_several_granules_are_trimmed),
        cmocka_unit_test(test_slots_of_several_granules_are_moved),
    };
    return cmocka_run_group_tests_name("pools with virtual memory", tests, NULL, NULL);
}
