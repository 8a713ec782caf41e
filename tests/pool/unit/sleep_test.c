/* tests/pool/unit/sleep_test.c: sleep and wake (weir/sleep.h) on a simulator with real bytes: each block is filled with
 * a pattern of its own, and has it again after the wake.
 */
enum { A, B, C, streams };

#include "rig/emulated.h"
#include "rig/pool.h"

#include <weir/observer.h>
#include <weir/pin.h>
#include <weir/sleep.h>

#include <stdlib.h>
#include <string.h>

#define PAGE (64 * KIB)

static weir_tag weights;
static weir_tag cache;

/* To the auditor, a block that sleeps is given back by the host, and one that wakes is handed out to the host. */
static void tell_sleep(void *ctx, const weir_observed_block *block)
{
    weir_sim_block_free(ctx, block->address, NULL, "sleep");
}

static void tell_wake(void *ctx, const weir_observed_block *block)
{
    weir_sim_block_alloc(ctx, block->address, block->capacity, NULL, "wake");
}

static struct world open_pool(uint64_t capacity, uint64_t limit)
{
    weir_sim_config device = device_of_units(PAGE, capacity);
    device.mode = WEIR_SIM_BACKED;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.limit_bytes = limit;
    struct world w = world_over(new_sim(device), config);
    weir_observer_ops ops = {.struct_size = sizeof(ops), .block_sleep = tell_sleep, .block_wake = tell_wake};
    ok(weir_pool_observe(w.pool, &ops, w.sim));
    ok(weir_pool_tag(w.pool, "weights", &weights));
    ok(weir_pool_tag(w.pool, "kv_cache", &cache));
    return w;
}

/* --- contents --- */

static uint8_t pattern_of(const weir_block *block)
{
    return (uint8_t)(1 + weir_block_address(block) / 512 % 200);
}

/* The block's contents are written by work of the stream. */
static weir_block *filled(struct world *w, int stream, uint64_t size, weir_tag tag)
{
    weir_block *block = get_tagged(w, stream, size, tag);
    ok(weir_sim_fill(w->sim, w->native[stream], weir_block_address(block), size, pattern_of(block), "fill"));
    return block;
}

static bool all_bytes_are(struct world *w, const weir_block *block, uint8_t value)
{
    const uint8_t *bytes = weir_sim_bytes(w->sim, weir_block_address(block), weir_block_size(block));
    assert_non_null(bytes);
    for (uint64_t i = 0; i < weir_block_size(block); i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

static void must_have(struct world *w, const weir_block *block)
{
    assert_true(all_bytes_are(w, block, pattern_of(block)));
}

/* --- calls --- */

static weir_sleep_report asleep(const struct world *w)
{
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    ok(weir_pool_get_sleep(w->pool, &report));
    return report;
}

static weir_sleep_report put_to_sleep(struct world *w, const weir_sleep_rule *rules, size_t count)
{
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    config.rules = rules;
    config.rule_count = count;
    ok(weir_pool_sleep(w->pool, &config, &report));
    check(w);
    return report;
}

static weir_sleep_report wake(struct world *w, const weir_tag *tags, size_t count)
{
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    ok(weir_pool_wake(w->pool, tags, count, &report));
    check(w);
    return report;
}

static void put_away(struct world *w, weir_block *block)
{
    weir_sim_block_free(w->sim, weir_block_address(block), NULL, "free");
    ok(weir_pool_free_idle(w->pool, block));
}

/* --- by example --- */

TEST(test_contents_and_addresses_come_back)
{
    struct world w = open_pool(0, 0);
    weir_block *big = filled(&w, A, 10 * PAGE, weights);
    weir_block *small = filled(&w, B, 3000, 0);
    weir_block *other = filled(&w, C, 5 * PAGE + 512, cache);
    const uint64_t addresses[] = {weir_block_address(big), weir_block_address(small), weir_block_address(other)};
    const uint64_t before = held(&w);
    const weir_sleep_report slept = put_to_sleep(&w, NULL, 0);
    assert_int_equal(held(&w), 0);
    assert_int_equal(slept.blocks, 3);
    assert_int_equal(slept.device_bytes, before);
    assert_int_equal(slept.kept_bytes, slept.bytes);
    assert_true(slept.host_bytes <= slept.kept_bytes + slept.kept_bytes / 50);
    assert_int_equal(slept.left_bytes, 0);
    assert_true(weir_block_is_asleep(big));
    assert_int_equal(figures(&w).reserved_bytes, 0);
    const weir_sleep_report woken = wake(&w, NULL, 0);
    assert_int_equal(woken.blocks, 3);
    assert_int_equal(woken.host_bytes, 0);
    assert_int_equal(woken.asleep_blocks, 0);
    assert_false(weir_block_is_asleep(big));
    assert_int_equal(weir_block_address(big), addresses[0]);
    assert_int_equal(weir_block_address(small), addresses[1]);
    assert_int_equal(weir_block_address(other), addresses[2]);
    must_have(&w, big);
    must_have(&w, small);
    must_have(&w, other);
    close_world(&w);
}

TEST(test_policies)
{
    struct world w = open_pool(0, 0);
    weir_tag zero = 0;
    weir_tag stay = 0;
    ok(weir_pool_tag(w.pool, "zero", &zero));
    ok(weir_pool_tag(w.pool, "stay", &stay));
    weir_block *kept = filled(&w, A, 40 * PAGE, weights);
    weir_block *gone = filled(&w, A, 40 * PAGE, cache);
    weir_block *zeroed = filled(&w, A, 40 * PAGE, zero);
    weir_block *awake = filled(&w, A, 40 * PAGE, stay);
    weir_block *untagged = filled(&w, A, 40 * PAGE, 0);
    const weir_sleep_rule rules[] = {
        {cache, WEIR_SLEEP_DISCARD}, {zero, WEIR_SLEEP_ZERO}, {stay, WEIR_SLEEP_STAY}, {weights, WEIR_SLEEP_KEEP}};
    const weir_sleep_report slept = put_to_sleep(&w, rules, 4);
    assert_int_equal(slept.blocks, 4);
    assert_false(weir_block_is_asleep(awake));
    must_have(&w, awake);
    assert_true(slept.kept_bytes <= 80 * PAGE); /* the two that are kept, less what shares a handle with `awake` */
    assert_true(held(&w) < 60 * PAGE);
    (void)wake(&w, NULL, 0);
    must_have(&w, kept);
    must_have(&w, untagged);
    must_have(&w, awake);
    assert_true(all_bytes_are(&w, zeroed, 0));
    assert_true(WEIR_CHECKS == 0 || all_bytes_are(&w, gone, 0xdd));
    close_world(&w);
}

TEST(test_wakes_by_tag_in_any_order)
{
    for (int first = 0; first < 2; first++) {
        struct world w = open_pool(0, 0);
        weir_block *blocks[2][8];
        for (int i = 0; i < 16; i++) { /* the blocks of the two tags lie side by side, also in one page */
            const uint64_t size = i % 3 == 0 ? 20000 : i % 3 == 1 ? 7 * PAGE : 1024;
            blocks[i % 2][i / 2] = filled(&w, i % 2, size, i % 2 == 0 ? weights : cache);
        }
        (void)put_to_sleep(&w, NULL, 0);
        assert_int_equal(held(&w), 0);
        const weir_tag order[] = {first == 0 ? weights : cache, first == 0 ? cache : weights};
        for (int step = 0; step < 2; step++) {
            const weir_sleep_report woken = wake(&w, &order[step], 1);
            assert_int_equal(woken.blocks, 8);
            for (int i = 0; i < 8; i++) {
                must_have(&w, blocks[(first + step) % 2][i]);
                assert_int_equal(weir_block_is_asleep(blocks[(first + step + 1) % 2][i]), step == 0);
            }
        }
        for (int i = 0; i < 16; i++) {
            must_have(&w, blocks[i % 2][i / 2]);
        }
        assert_int_equal(asleep(&w).host_bytes, 0);
        close_world(&w);
    }
}

/* The memory of another user of the device comes between. */
TEST(test_memory_serves_others_meanwhile)
{
    struct world w = open_pool(64 * PAGE, 0);
    weir_block *block = filled(&w, A, 60 * PAGE, weights);
    (void)put_to_sleep(&w, NULL, 0);
    const uint64_t region = new_region(w.sim, 32 * PAGE);
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    fails(weir_pool_wake(w.pool, NULL, 0, &report), WEIR_ERR_NO_MEMORY);
    check(&w);
    assert_int_equal(report.missing_bytes, 28 * PAGE);
    assert_int_equal(report.others_bytes, 32 * PAGE);
    assert_int_equal(report.asleep_blocks, 1);
    assert_int_equal(held(&w), 32 * PAGE);
    give_region(w.sim, region, 32 * PAGE);
    (void)wake(&w, NULL, 0);
    must_have(&w, block);
    close_world(&w);
}

/* The pool serves requests while it sleeps; a wake takes idle memory of the pool first. */
TEST(test_allocs_while_asleep)
{
    struct world w = open_pool(0, 64 * PAGE);
    weir_block *block = filled(&w, A, 50 * PAGE, weights);
    (void)put_to_sleep(&w, NULL, 0);
    weir_block *guest = filled(&w, B, 40 * PAGE, 0);
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    fails(weir_pool_wake(w.pool, NULL, 0, &report), WEIR_ERR_LIMIT);
    assert_int_equal(report.missing_bytes, 26 * PAGE);
    ok(weir_sim_sync(w.sim));
    check(&w);
    must_have(&w, guest);
    put(&w, guest, B);
    ok(weir_pool_trim(w.pool, UINT64_MAX, 0, NULL)); /* the pool learns that the work has ended */
    (void)wake(&w, NULL, 0);
    must_have(&w, block);
    close_world(&w);
}

/* A request that is refused while blocks sleep: their memory is not in its way. */
TEST(test_sleeping_bytes_are_not_in_the_way)
{
    struct world w = open_pool(64 * PAGE, 0);
    weir_block *sleeper = filled(&w, A, 50 * PAGE, weights);
    (void)put_to_sleep(&w, NULL, 0);
    const uint64_t region = new_region(w.sim, 30 * PAGE); /* another program's */
    weir_block *guest = filled(&w, B, 10 * PAGE, cache);
    weir_block *block = NULL;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    fails(weir_pool_alloc(w.pool, w.stream[A], 40 * PAGE, 0, &block), WEIR_ERR_NO_MEMORY);
    ok(weir_pool_get_oom(w.pool, &record));
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_OUTSIDE); /* 10 live and 40 asked fit into 64 */
    assert_int_equal(record.live_bytes, 10 * PAGE);
    assert_int_equal(record.requested_bytes, 10 * PAGE);
    assert_int_equal(record.holder_count, 1);
    assert_int_equal(record.holders[0].tag, cache);
    assert_int_equal(record.holders[0].requested_bytes, 10 * PAGE);
    give_region(w.sim, region, 30 * PAGE);
    (void)wake(&w, NULL, 0);
    must_have(&w, sleeper);
    must_have(&w, guest);
    close_world(&w);
}

TEST(test_frees_while_asleep)
{
    struct world w = open_pool(0, 0);
    weir_block *blocks[12];
    for (int i = 0; i < 12; i++) {
        blocks[i] = filled(&w, i % 3, i % 2 == 0 ? 9000 + 700 * (uint64_t)i : 3 * PAGE + 512 * (uint64_t)i, weights);
    }
    (void)put_to_sleep(&w, NULL, 0);
    const uint64_t kept = asleep(&w).kept_bytes;
    for (int i = 0; i < 12; i += 2) {
        ok(weir_pool_free(w.pool, blocks[i + (i / 2) % 2], w.stream[i % 3]));
        check(&w);
        fails(weir_pool_free(w.pool, blocks[i + (i / 2) % 2], w.stream[i % 3]), WEIR_ERR_INVALID);
    }
    assert_int_equal(asleep(&w).asleep_blocks, 6);
    assert_true(asleep(&w).kept_bytes < kept);
    weir_block *fresh = filled(&w, A, 8 * PAGE, 0); /* the addresses of the freed blocks have no memory */
    (void)wake(&w, NULL, 0);
    ok(weir_sim_sync(w.sim));
    for (int i = 0; i < 12; i += 2) {
        must_have(&w, blocks[i + 1 - (i / 2) % 2]);
        put_away(&w, blocks[i + 1 - (i / 2) % 2]);
    }
    must_have(&w, fresh);
    put_away(&w, fresh);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&w), 0); /* the pieces beside the blocks have come back, too */
    close_world(&w);
}

TEST(test_sleeps_again)
{
    struct world w = open_pool(0, 0);
    weir_block *first = filled(&w, A, 5 * PAGE, weights);
    weir_block *second = filled(&w, A, 5 * PAGE, cache);
    (void)put_to_sleep(&w, NULL, 0);
    assert_int_equal(put_to_sleep(&w, NULL, 0).blocks, 0); /* the second call has nothing to do */
    (void)wake(&w, &cache, 1);
    must_have(&w, second);
    weir_block *third = filled(&w, B, 5 * PAGE, cache);
    assert_int_equal(put_to_sleep(&w, NULL, 0).blocks, 2);
    assert_int_equal(held(&w), 0);
    (void)wake(&w, NULL, 0);
    must_have(&w, first);
    must_have(&w, second);
    must_have(&w, third);
    close_world(&w);
}

/* A block whose memory stays, because an awake block lies in its handle, loses it when that block sleeps too. */
TEST(test_memory_left_goes_later)
{
    struct world w = open_pool(0, 0);
    weir_block *small = filled(&w, A, 4096, weights);
    weir_block *beside = filled(&w, A, 4096, cache);
    const weir_sleep_rule rule = {cache, WEIR_SLEEP_STAY};
    assert_int_equal(put_to_sleep(&w, &rule, 1).left_bytes, 4096);
    assert_true(weir_block_is_asleep(small));
    must_have(&w, small);
    (void)put_to_sleep(&w, NULL, 0);
    assert_int_equal(held(&w), 0);
    (void)wake(&w, NULL, 0);
    must_have(&w, small);
    must_have(&w, beside);
    close_world(&w);
}

TEST(test_thousand_cycles_grow_nothing)
{
    struct world w = open_pool(0, 0);
    weir_block *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = filled(&w, i % 3, (uint64_t)(i + 1) * 50000, i % 2 == 0 ? weights : cache);
    }
    const weir_sleep_rule rule = {cache, WEIR_SLEEP_DISCARD};
    uint64_t device = 0;
    uint64_t host = 0;
    for (int cycle = 0; cycle < 1000; cycle++) {
        const weir_sleep_report slept = put_to_sleep(&w, &rule, 1);
        host = cycle == 0 ? slept.host_bytes : host;
        assert_int_equal(slept.host_bytes, host);
        assert_int_equal(held(&w), 0);
        (void)wake(&w, NULL, 0);
        device = cycle == 0 ? held(&w) : device;
        assert_int_equal(held(&w), device);
        assert_int_equal(asleep(&w).host_bytes, 0);
    }
    for (int i = 0; i < 6; i += 2) {
        must_have(&w, blocks[i]);
    }
    close_world(&w);
}

/* --- order --- */

/* Work is queued when the sleep begins: the copy has its result. Streams with other work are not waited for. */
TEST(test_waits_for_the_streams_of_the_blocks_alone)
{
    struct world w = open_pool(0, 0);
    const weir_sleep_rule rule = {cache, WEIR_SLEEP_STAY};
    weir_block *block = filled(&w, A, 4 * PAGE, weights);
    weir_block *shared = filled(&w, B, 4 * PAGE, weights);
    weir_block *apart = filled(&w, C, 40 * PAGE, cache);
    const uint64_t before = weir_sim_now(w.sim);
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 1000000;
    ok(weir_sim_launch(w.sim, w.native[A], &work));
    work.duration_ns = 900000000;
    ok(weir_sim_launch(w.sim, w.native[C], &work));
    ok(weir_sim_fill(w.sim, w.native[A], weir_block_address(block), 4 * PAGE, 7, "late fill"));
    const weir_sleep_report slept = put_to_sleep(&w, &rule, 1);
    assert_int_equal(slept.waits, 2); /* A and B */
    assert_true(weir_sim_now(w.sim) - before < 900000000);
    (void)wake(&w, NULL, 0);
    assert_true(all_bytes_are(&w, block, 7));
    must_have(&w, shared);
    ok(weir_sim_sync(w.sim));
    must_have(&w, apart);
    close_world(&w);
}

/* A stream that uses the block is waited for, also when its work is the last. */
TEST(test_waits_for_uses)
{
    struct world w = open_pool(0, 0);
    weir_block *block = filled(&w, A, 4 * PAGE, weights);
    ok(weir_sim_sync(w.sim));
    use(&w, block, B);
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 1000000;
    ok(weir_sim_launch(w.sim, w.native[B], &work));
    ok(weir_sim_fill(w.sim, w.native[B], weir_block_address(block), 4 * PAGE, 9, "fill by B"));
    (void)put_to_sleep(&w, NULL, 0);
    (void)wake(&w, NULL, 0);
    assert_true(all_bytes_are(&w, block, 9));
    close_world(&w);
}

/* Freed memory beside the blocks, which work still uses, goes when the work has ended; a block that waits for several
 * streams too. */
TEST(test_freed_memory_beside_the_blocks)
{
    struct world w = open_pool(0, 0);
    weir_block *block = filled(&w, A, 1000, weights);
    weir_block *freed = filled(&w, B, 1000, 0);
    weir_block *pending = get(&w, B, 1000);
    use(&w, pending, C);
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = 1000000;
    ok(weir_sim_launch(w.sim, w.native[B], &work));
    ok(weir_sim_launch(w.sim, w.native[C], &work));
    ok(weir_sim_fill(w.sim, w.native[C], weir_block_address(pending), 1000, 1, "use"));
    put(&w, freed, B);
    put(&w, pending, B);
    (void)put_to_sleep(&w, NULL, 0);
    assert_int_equal(held(&w), 0);
    (void)wake(&w, NULL, 0);
    must_have(&w, block);
    close_world(&w);
}

/* --- refusals --- */

TEST(test_refusals)
{
    struct world w = open_pool(0, 0);
    weir_block *block = filled(&w, A, 4 * PAGE, weights);
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    weir_sleep_rule rules[] = {{weights, WEIR_SLEEP_KEEP}, {weights, WEIR_SLEEP_STAY}};
    fails(weir_pool_sleep(NULL, NULL, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_wake(NULL, NULL, 0, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_wake(w.pool, NULL, 1, NULL), WEIR_ERR_INVALID);
    config.rule_count = 2;
    fails(weir_pool_sleep(w.pool, &config, NULL), WEIR_ERR_INVALID);
    config.rules = rules;
    fails(weir_pool_sleep(w.pool, &config, NULL), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "a second rule for tag 1 (weights)"));
    rules[1].tag = 77;
    fails(weir_pool_sleep(w.pool, &config, NULL), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "the pool has no tag 77"));
    rules[1] = (weir_sleep_rule){cache, (weir_sleep_policy)9};
    fails(weir_pool_sleep(w.pool, &config, NULL), WEIR_ERR_INVALID);
    const weir_tag unknown = 99;
    fails(weir_pool_wake(w.pool, &unknown, 1, NULL), WEIR_ERR_INVALID);
    ok(weir_pool_pin(w.pool, weir_block_address(block), 512));
    fails(weir_pool_sleep(w.pool, NULL, NULL), WEIR_ERR_BUSY);
    assert_non_null(strstr(weir_last_error(), "is pinned"));
    assert_false(weir_block_is_asleep(block));
    ok(weir_pool_unpin(w.pool, weir_block_address(block), 512));
    (void)put_to_sleep(&w, NULL, 0);
    fails(weir_pool_use(w.pool, block, w.stream[B]), WEIR_ERR_BUSY);
    assert_non_null(strstr(weir_last_error(), "sleeps"));
    fails(weir_pool_pin(w.pool, weir_block_address(block), 512), WEIR_ERR_INVALID);
    (void)wake(&w, NULL, 0);
    must_have(&w, block);
    close_world(&w);

    weir_pool_config regions = WEIR_POOL_CONFIG_INIT;
    regions.flags = WEIR_POOL_REGIONS;
    w = world_over(new_sim(device_of_units(PAGE, 0)), regions);
    fails(weir_pool_sleep(w.pool, NULL, NULL), WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "no virtual memory"));
    ok(weir_pool_wake(w.pool, NULL, 0, NULL)); /* nothing sleeps */
    close_world(&w);
}

TEST(test_destroy_while_asleep)
{
    struct world w = open_pool(0, 0);
    (void)filled(&w, A, 4 * PAGE, weights);
    (void)filled(&w, A, 1000, cache);
    (void)put_to_sleep(&w, NULL, 0);
    (void)wake(&w, &cache, 1);
    close_world(&w);
}

/* --- failures --- */

struct store {
    uint64_t taken;
    int left; /* calls that succeed */
};

static weir_status take_host(void *ctx, uint64_t size, void **host)
{
    struct store *store = ctx;
    if (store->left-- == 0) {
        return WEIR_ERR_LIMIT;
    }
    *host = malloc(size);
    store->taken += size;
    return *host != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static void give_host(void *ctx, void *host, uint64_t size)
{
    struct store *store = ctx;
    store->taken -= size;
    free(host);
}

TEST(test_a_store_that_refuses)
{
    for (int left = 0; left < 2; left++) {
        struct world w = open_pool(0, 0);
        weir_block *first = filled(&w, A, 4 * PAGE, weights);
        weir_block *second = filled(&w, A, 4 * PAGE, cache);
        struct store store = {.left = left};
        weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
        config.store = (weir_sleep_store){take_host, give_host, &store};
        const uint64_t before = held(&w);
        fails(weir_pool_sleep(w.pool, &config, NULL), WEIR_ERR_LIMIT);
        check(&w);
        assert_int_equal(held(&w), before);
        assert_int_equal(store.taken, 0);
        assert_false(weir_block_is_asleep(first));
        must_have(&w, first);
        must_have(&w, second);
        store.left = 100;
        ok(weir_pool_sleep(w.pool, &config, NULL));
        assert_true(store.taken >= 8 * PAGE);
        (void)wake(&w, NULL, 0);
        assert_int_equal(store.taken, 0);
        must_have(&w, first);
        must_have(&w, second);
        close_world(&w);
    }
}

/* One life: two tags sleep, one wakes, then the other. Each call may fail, and is repeated. A sleep that fails is
 * `undone`, if the device works again by then. */
static weir_status live(struct world *w, weir_block **blocks, bool undone, int *calls)
{
    const weir_sleep_rule rule = {cache, WEIR_SLEEP_ZERO};
    weir_sleep_config config = WEIR_SLEEP_CONFIG_INIT;
    config.rules = &rule;
    config.rule_count = 1;
    weir_status first = WEIR_OK;
    for (int step = 0; step < 3; step++) {
        weir_status status = WEIR_OK;
        do {
            status = step == 0   ? weir_pool_sleep(w->pool, &config, NULL)
                     : step == 1 ? weir_pool_wake(w->pool, &weights, 1, NULL)
                                 : weir_pool_wake(w->pool, NULL, 0, NULL);
            check(w);
            first = first == WEIR_OK ? status : first;
            assert_true(status == WEIR_OK || step != 0 || !undone || asleep(w).asleep_blocks == 0);
            if (status != WEIR_OK && asleep(w).asleep_blocks == 0) {
                must_have(w, blocks[0]);
                must_have(w, blocks[1]);
            }
            ++*calls;
            assert_true(*calls < 40);
        } while (status != WEIR_OK);
    }
    return first;
}

/* Each device call of the life fails, for a window of `length` calls. Returns false if the window never began. */
static bool life_with_outage(uint64_t call, uint64_t length)
{
    struct world w = open_pool(0, 0);
    weir_block *blocks[] = {filled(&w, A, 5 * PAGE, weights), filled(&w, B, 3000, weights),
                            filled(&w, C, 3 * PAGE + 1024, cache)};
    ok(weir_sim_sync(w.sim));
    for (uint64_t i = 0; i < length; i++) {
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = WEIR_CALL_ANY;
        fault.nth = call + i;
        fault.status = WEIR_ERR_DEVICE;
        ok(weir_sim_fault_arm(w.sim, &fault));
    }
    const weir_sim_stats before = device_stats(&w);
    int calls = 0;
    const weir_status first = live(&w, blocks, length == 1, &calls);
    uint64_t made = 0;
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        made += device_stats(&w).calls[i] - before.calls[i];
    }
    weir_sim_fault_clear(w.sim);
    must_have(&w, blocks[0]);
    must_have(&w, blocks[1]);
    assert_true(all_bytes_are(&w, blocks[2], 0) || first != WEIR_OK);
    for (int i = 0; i < 3; i++) {
        assert_false(weir_block_is_asleep(blocks[i]));
        put_away(&w, blocks[i]);
    }
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&w), 0);
    close_world(&w);
    return made >= call;
}

TEST(test_each_call_fails)
{
    for (uint64_t length = 1; length <= 6; length += is_emulated() ? 5 : 1) {
        uint64_t call = 1;
        while (life_with_outage(call, length)) {
            call++;
        }
        assert_true(call > 20); /* the life has calls */
    }
}
