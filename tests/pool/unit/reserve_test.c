/* tests/pool/unit/reserve_test.c: reserved blocks (weir/reserve.h) on a simulator with real bytes. The pool's observer
 * tells the auditor of each committed unit, so the auditor judges the order of commits, work and decommits.
 */
enum { A, B, C, streams };

#include "rig/emulated.h"
#include "rig/pool.h"

#include <weir/capture.h>
#include <weir/observer.h>
#include <weir/pin.h>
#include <weir/reserve.h>
#include <weir/size_class.h>
#include <weir/sleep.h>

#include <pthread.h>
#include <stdlib.h>

#define PAGE (64 * KIB)

static weir_tag cache;

/* --- the auditor is told of every block --- */

static void tell_alloc(void *ctx, const weir_observed_block *block)
{
    (block->unit ? weir_sim_unit_alloc : weir_sim_block_alloc)(ctx, block->address, block->capacity,
                                                               block->native_stream, "alloc");
}

static uint64_t asleep[64]; /* blocks and units that sleep: to the auditor, they have been freed */

/* Replaces an entry of `asleep`. Returns false if there is none. */
static bool swap_asleep(uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < sizeof(asleep) / sizeof(asleep[0]); i++) {
        if (asleep[i] == from) {
            asleep[i] = to;
            return true;
        }
    }
    return false;
}

static void tell_free(void *ctx, const weir_observed_block *block)
{
    if (!swap_asleep(block->address, 0)) {
        weir_sim_block_free(ctx, block->address, block->native_stream, "free");
    }
}

static void tell_sleep(void *ctx, const weir_observed_block *block)
{
    assert_true(swap_asleep(0, block->address));
    weir_sim_block_free(ctx, block->address, NULL, "sleep");
}

static void tell_wake(void *ctx, const weir_observed_block *block)
{
    assert_true(swap_asleep(block->address, 0));
    (block->unit ? weir_sim_unit_alloc : weir_sim_block_alloc)(ctx, block->address, block->capacity, NULL, "wake");
}

static struct world open_pool_with(const weir_strategy_ops *strategy, uint64_t capacity, uint64_t limit)
{
    weir_sim_config device = device_of_units(PAGE, capacity);
    device.mode = WEIR_SIM_BACKED;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.limit_bytes = limit;
    config.strategy = strategy;
    struct world w = world_over(new_sim(device), config);
    weir_observer_ops ops = {.struct_size = sizeof(ops),
                             .block_alloc = tell_alloc,
                             .block_free = tell_free,
                             .block_sleep = tell_sleep,
                             .block_wake = tell_wake};
    ok(weir_pool_observe(w.pool, &ops, w.sim));
    ok(weir_pool_tag(w.pool, "kv_cache", &cache));
    return w;
}

static struct world open_pool(uint64_t capacity, uint64_t limit)
{
    return open_pool_with(NULL, capacity, limit);
}

/* The pool is destroyed with its blocks; the auditor knows them by the observer. */
static void close_pool(struct world *w)
{
    check(w);
    ok(weir_pool_destroy(w->pool));
    assert_int_equal(held(w), 0);
    ok(weir_sim_sync(w->sim));
    weir_sim_audit_leaks(w->sim);
    is_clean(w->sim);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

/* --- calls --- */

static weir_block *reserve(struct world *w, uint64_t size, uint64_t unit)
{
    weir_block *block = NULL;
    ok(weir_pool_reserve(w->pool, w->stream[A], size, unit, cache, &block));
    check(w);
    return block;
}

static void commit(struct world *w, weir_block *block, uint64_t first, uint64_t count, int stream)
{
    ok(weir_pool_commit(w->pool, block, first * PAGE, count * PAGE, w->stream[stream]));
    check(w);
}

static void decommit(struct world *w, weir_block *block, uint64_t first, uint64_t count, int stream)
{
    ok(weir_pool_decommit(w->pool, block, first * PAGE, count * PAGE, w->stream[stream]));
    check(w);
}

static void release(struct world *w, weir_block *block, int stream)
{
    ok(weir_pool_free(w->pool, block, w->stream[stream]));
    check(w);
}

static weir_block *take(struct world *w, int stream, uint64_t size)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(w->pool, w->stream[stream], size, 0, &block));
    return block;
}

static weir_pool_stats stats_of(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w->pool, &stats));
    assert_int_equal(stats.reserved_bytes, held(w));
    return stats;
}

static weir_reserve_info info_of(const struct world *w, weir_block *block)
{
    weir_reserve_info info = WEIR_RESERVE_INFO_INIT;
    ok(weir_pool_get_reserve(w->pool, block, &info));
    return info;
}

/* --- contents: each page has a value of its own, written by work of a stream --- */

static uint8_t value_of(uint64_t page)
{
    return (uint8_t)(1 + page % 250);
}

static void fill(struct world *w, const weir_block *block, uint64_t first, uint64_t count, int stream)
{
    for (uint64_t page = first; page < first + count; page++) {
        ok(weir_sim_fill(w->sim, w->native[stream], weir_block_address(block) + page * PAGE, PAGE, value_of(page),
                         "fill"));
    }
}

static void must_have(struct world *w, const weir_block *block, uint64_t first, uint64_t count)
{
    ok(weir_sim_sync(w->sim));
    for (uint64_t page = first; page < first + count; page++) {
        const uint8_t *bytes = weir_sim_bytes(w->sim, weir_block_address(block) + page * PAGE, PAGE);
        assert_non_null(bytes);
        for (uint64_t i = 0; i < PAGE; i += 509) {
            assert_int_equal(bytes[i], value_of(page));
        }
    }
}

/* A kernel that still runs when the next step is taken. */
static void run_page(struct world *w, const weir_block *block, uint64_t page, int stream)
{
    writes(w->sim, w->native[stream], weir_block_address(block) + page * PAGE, PAGE, "kernel");
}

/* --- by example --- */

TEST(test_memory_comes_and_goes_in_parts)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 1000 * PAGE - 5, 0);
    assert_int_equal(held(&w), 0);
    assert_int_equal(weir_block_size(block), 1000 * PAGE - 5);
    assert_int_equal(weir_block_capacity(block), 1000 * PAGE);
    assert_int_equal(stats_of(&w).uncommitted_bytes, 1000 * PAGE);
    const uint64_t address = weir_block_address(block);
    commit(&w, block, 999, 1, A);
    commit(&w, block, 3, 4, A);
    fill(&w, block, 3, 4, A);
    fill(&w, block, 999, 1, A);
    assert_int_equal(held(&w), 5 * PAGE);
    commit(&w, block, 2, 3, B); /* two of the pages have memory already */
    assert_int_equal(held(&w), 6 * PAGE);
    must_have(&w, block, 3, 4);
    must_have(&w, block, 999, 1);
    decommit(&w, block, 4, 1, A);
    assert_int_equal(held(&w), 5 * PAGE);
    must_have(&w, block, 3, 1);
    must_have(&w, block, 5, 2);
    assert_int_equal(weir_block_address(block), address);
    assert_int_equal(info_of(&w, block).committed_bytes, 5 * PAGE);
    assert_int_equal(info_of(&w, block).unit_bytes, PAGE);
    decommit(&w, block, 0, 1000, A);
    assert_int_equal(held(&w), 0);
    decommit(&w, block, 0, 1000, A); /* nothing is left */
    release(&w, block, A);
    assert_int_equal(stats_of(&w).regions, 0); /* the addresses have gone back, too */
    assert_int_equal(stats_of(&w).uncommitted_bytes, 0);
    close_pool(&w);
}

TEST(test_runs_are_found)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 20 * PAGE, 2 * PAGE);
    commit(&w, block, 2, 4, A);
    commit(&w, block, 10, 2, A);
    const uint64_t expected[][3] = {{0, 2, 4}, {6, 10, 2}, {12, 0, 0}, {20, 0, 0}, {50, 0, 0}};
    for (size_t i = 0; i < 5; i++) {
        uint64_t offset = 0;
        uint64_t size = 1;
        ok(weir_pool_find_committed(w.pool, block, expected[i][0] * PAGE, &offset, &size));
        assert_int_equal(size, expected[i][2] * PAGE);
        assert_true(size == 0 || offset == expected[i][1] * PAGE);
    }
    uint64_t offset = 0;
    uint64_t size = 0;
    ok(weir_pool_find_committed(w.pool, block, 3 * PAGE, &offset, &size)); /* in the middle of a unit */
    assert_int_equal(offset, 3 * PAGE);
    assert_int_equal(size, 3 * PAGE);
    close_pool(&w);
}

/* Committed bytes are live, under the block's tag; those on their way are pending. */
TEST(test_counts)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    weir_tag_stats tag = WEIR_TAG_STATS_INIT;
    commit(&w, block, 10, 5, A);
    assert_int_equal(stats_of(&w).live_bytes, 5 * PAGE);
    assert_int_equal(stats_of(&w).requested_bytes, 5 * PAGE);
    assert_int_equal(stats_of(&w).uncommitted_bytes, 95 * PAGE);
    ok(weir_pool_get_tag_stats(w.pool, cache, &tag));
    assert_int_equal(tag.requested_bytes, 5 * PAGE);
    assert_int_equal(tag.blocks, 1);
    run_page(&w, block, 11, A);
    decommit(&w, block, 11, 2, A);
    assert_int_equal(stats_of(&w).live_bytes, 3 * PAGE);
    assert_int_equal(stats_of(&w).pending_bytes, 2 * PAGE);
    assert_int_equal(info_of(&w, block).pending_bytes, 2 * PAGE);
    assert_int_equal(stats_of(&w).peak_live_bytes, 5 * PAGE);
    release(&w, block, A);
    assert_int_equal(stats_of(&w).live_bytes, 0);
    ok(weir_pool_get_tag_stats(w.pool, cache, &tag));
    assert_int_equal(tag.requested_bytes, 0);
    assert_int_equal(tag.peak_requested_bytes, 5 * PAGE);
    assert_int_equal(tag.blocks, 0);
    assert_int_equal(stats_of(&w).allocs, 1);
    assert_int_equal(stats_of(&w).frees, 1);
    ok(weir_sim_sync(w.sim));
    ok(weir_pool_trim(w.pool, 0, 0, NULL));
    assert_int_equal(held(&w), 0);
    assert_int_equal(stats_of(&w).pending_bytes, 0);
    close_pool(&w);
}

/* --- order --- */

/* Memory stays while work that was queued before the decommit runs, on the stream and on those that use the block. */
TEST(test_memory_goes_after_the_work)
{
    for (int user = A; user <= C; user++) {
        struct world w = open_pool(0, 0);
        weir_block *block = reserve(&w, 100 * PAGE, 0);
        commit(&w, block, 0, 8, A);
        ok(weir_sim_sync(w.sim));
        if (user != A) {
            ok(weir_pool_use(w.pool, block, w.stream[user]));
        }
        run_page(&w, block, 2, user);
        decommit(&w, block, 1, 4, A);
        assert_int_equal(held(&w), 8 * PAGE);
        ok(weir_pool_trim(w.pool, 0, 0, NULL));
        check(&w);
        assert_int_equal(held(&w), 8 * PAGE);
        ok(weir_sim_sync(w.sim));
        decommit(&w, block, 20, 1, A); /* any decommit looks for work that is complete */
        assert_int_equal(held(&w), 4 * PAGE);
        run_page(&w, block, 0, user);
        release(&w, block, A);
        assert_int_equal(held(&w), 4 * PAGE);
        ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
        assert_int_equal(held(&w), 0);
        close_pool(&w);
    }
}

/* A use that has ended before is no use of later memory. */
TEST(test_a_use_that_has_ended)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 0, 2, A);
    ok(weir_pool_use(w.pool, block, w.stream[B]));
    run_page(&w, block, 0, B);
    ok(weir_pool_use_end(w.pool, block, w.stream[B]));
    sync_stream(w.sim, w.native[B]);
    decommit(&w, block, 0, 1, A);
    assert_int_equal(held(&w), PAGE);
    busy(w.sim, w.native[B], LONG_NS);
    decommit(&w, block, 1, 1, A);
    assert_int_equal(held(&w), 0);
    close_pool(&w);
}

/* A commit on the stream that has decommitted needs no device call; on another stream it waits for the work. */
TEST(test_pending_memory_comes_back)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 0, 4, A);
    fill(&w, block, 0, 4, A);
    run_page(&w, block, 40 % 4, A);
    decommit(&w, block, 0, 3, A);
    const weir_pool_stats before = stats_of(&w);
    commit(&w, block, 0, 2, A);
    assert_int_equal(stats_of(&w).vm_maps, before.vm_maps);
    assert_int_equal(stats_of(&w).syncs, before.syncs);
    assert_int_equal(stats_of(&w).live_bytes, 3 * PAGE);
    assert_int_equal(stats_of(&w).pending_bytes, PAGE);
    commit(&w, block, 2, 1, B);
    assert_int_equal(stats_of(&w).vm_maps, before.vm_maps);
    assert_int_equal(stats_of(&w).syncs, before.syncs + 1);
    run_page(&w, block, 2, B);
    must_have(&w, block, 1, 1);
    decommit(&w, block, 0, 4, A);
    decommit(&w, block, 0, 4, B);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&w), 0);
    close_pool(&w);
}

/* A unit that comes back and leaves again goes by its later decommit alone. */
TEST(test_memory_leaves_twice)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 0, 2, A);
    touch(w.sim, w.native[A], weir_block_address(block), PAGE, true, 1000, "short");
    decommit(&w, block, 0, 2, A);
    commit(&w, block, 0, 1, A);
    touch(w.sim, w.native[A], weir_block_address(block), PAGE, true, LONG_NS, "long");
    decommit(&w, block, 0, 1, A);
    weir_sim_advance(w.sim, 2000);
    decommit(&w, block, 50, 1, A);
    assert_int_equal(held(&w), PAGE); /* page 1 has gone */
    ok(weir_sim_sync(w.sim));
    decommit(&w, block, 50, 1, A);
    assert_int_equal(held(&w), 0);
    close_pool(&w);
}

TEST(test_streams_that_are_retired)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 0, 4, B);
    ok(weir_pool_use(w.pool, block, w.stream[C]));
    run_page(&w, block, 0, B);
    run_page(&w, block, 1, C);
    decommit(&w, block, 0, 2, B);
    ok(weir_stream_retire(w.pool, w.stream[B]));
    ok(weir_stream_retire(w.pool, w.stream[C]));
    ok(weir_stream_retire(w.pool, w.stream[A])); /* the stream of the block */
    ok(weir_pool_stream(w.pool, w.native[B], &w.stream[B]));
    decommit(&w, block, 3, 1, B);
    assert_int_equal(held(&w), PAGE);
    commit(&w, block, 0, 1, B);
    release(&w, block, B);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&w), 0);
    close_pool(&w);
}

/* The auditor sees work on a part without memory, and after a decommit. */
TEST(test_wrong_programs_are_found)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        struct world w = open_pool(0, 0);
        weir_block *block = reserve(&w, 100 * PAGE, 0);
        commit(&w, block, 0, 4, A);
        decommit(&w, block, 0, 1, A);
        run_page(&w, block, wrong == 0 ? 10 : 0, A);
        weir_sim_finding finding;
        assert_true(weir_sim_finding_at(w.sim, 0, &finding));
        ok(weir_pool_destroy(w.pool));
        (void)weir_sim_destroy(w.sim);
    }
}

/* --- memory of the pool --- */

TEST(test_memory_moves_between_blocks)
{
    const weir_strategy_ops *strategies[] = {weir_caching_strategy(), weir_size_class_strategy()};
    for (int i = 0; i < 2; i++) {
        struct world w = open_pool_with(strategies[i], 0, 40 * PAGE);
        weir_block *block = reserve(&w, 1000 * PAGE, 0);
        weir_block *plain = take(&w, B, 30 * PAGE);
        ok(weir_pool_free(w.pool, plain, w.stream[B]));
        commit(&w, block, 500, 38, A); /* takes the pool's idle memory */
        run_page(&w, block, 510, A);
        decommit(&w, block, 500, 30, A); /* still in use: the next request waits for it */
        plain = take(&w, B, 20 * PAGE);
        run_on(&w, plain, B);
        check(&w);
        ok(weir_pool_free(w.pool, plain, w.stream[B]));
        commit(&w, block, 700, 30, C); /* and the other way round */
        run_page(&w, block, 700, C);
        release(&w, block, C);
        plain = take(&w, B, 39 * PAGE);
        check(&w);
        close_pool(&w);
    }
}

TEST(test_limits_refuse_a_commit)
{
    struct world w = open_pool(0, 10 * PAGE);
    weir_block *block = reserve(&w, 1000 * PAGE, 2 * PAGE);
    commit(&w, block, 0, 8, A);
    fill(&w, block, 0, 8, A);
    fails(weir_pool_commit(w.pool, block, 6 * PAGE, 6 * PAGE, w.stream[A]), WEIR_ERR_NO_MEMORY);
    check(&w);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    ok(weir_pool_get_oom(w.pool, &record));
    assert_int_equal(record.size, 4 * PAGE);
    assert_int_equal(record.live_bytes, 8 * PAGE);
    assert_int_equal(record.cause, WEIR_OOM_CAUSE_TOO_BIG);
    assert_int_equal(record.tag, cache);
    bool less = false;
    for (uint32_t i = 0; i < record.advice_count; i++) {
        less |= record.advice[i].kind == WEIR_ADVICE_ASK_LESS && record.advice[i].bytes == 2 * PAGE;
    }
    assert_true(less);
    assert_int_equal(held(&w), 8 * PAGE);
    must_have(&w, block, 0, 8);
    commit(&w, block, 6, 4, A); /* as advised */
    ok(weir_pool_set_limits(w.pool, 0, 12 * PAGE));
    commit(&w, block, 10, 2, A);
    close_pool(&w);
}

static bool free_callback(void *ctx, weir_pool *pool, const weir_oom_record *record)
{
    (void)record;
    weir_block **block = ctx;
    if (*block == NULL) {
        return false;
    }
    ok(weir_pool_free_idle(pool, *block));
    *block = NULL;
    return true;
}

TEST(test_the_callback_makes_room)
{
    weir_block *victim = NULL;
    weir_sim_config device = device_of_units(PAGE, 16 * PAGE);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.oom_callback = free_callback;
    config.oom_ctx = &victim;
    struct world w = world_over(new_sim(device), config);
    weir_block *block = NULL;
    ok(weir_pool_alloc(w.pool, w.stream[B], 10 * PAGE, 0, &victim));
    ok(weir_pool_reserve(w.pool, w.stream[A], 100 * PAGE, 0, 0, &block));
    ok(weir_pool_commit(w.pool, block, 0, 12 * PAGE, w.stream[A]));
    assert_null(victim);
    assert_int_equal(stats_of(&w).failures, 0);
    fails(weir_pool_commit(w.pool, block, 12 * PAGE, 5 * PAGE, w.stream[A]), WEIR_ERR_NO_MEMORY);
    assert_int_equal(held(&w), 12 * PAGE);
    end_world(&w);
}

TEST(test_pinned_memory_stays)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 0, 4, A);
    const uint64_t address = weir_block_address(block);
    fails(weir_pool_pin(w.pool, address, 5 * PAGE), WEIR_ERR_INVALID);
    ok(weir_pool_pin(w.pool, address + PAGE, PAGE));
    decommit(&w, block, 0, 4, A);
    assert_int_equal(held(&w), PAGE);
    release(&w, block, A);
    assert_int_equal(held(&w), PAGE);
    ok(weir_pool_unpin(w.pool, address + PAGE, PAGE));
    ok(weir_pool_trim(w.pool, 0, 0, NULL));
    assert_int_equal(held(&w), 0);
    assert_int_equal(stats_of(&w).regions, 0);
    close_pool(&w);
}

/* Memory that a graph may use stays until the graph is gone. */
TEST(test_graphs_keep_memory)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    weir_capture_pool *captures = NULL;
    commit(&w, block, 0, 4, A);
    ok(weir_capture_pool_create(w.pool, &captures));
    ok(weir_capture_begin(captures, w.stream[A]));
    commit(&w, block, 4, 2, A);
    decommit(&w, block, 4, 1, A);
    ok(weir_pool_use(w.pool, block, w.stream[A])); /* work of the graph on the rest */
    ok(weir_capture_end(captures));
    decommit(&w, block, 0, 2, A);
    ok(weir_sim_sync(w.sim));
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&w), 6 * PAGE);
    fails(weir_pool_commit(w.pool, block, 0, PAGE, w.stream[B]), WEIR_ERR_BUSY);
    assert_non_null(strstr(weir_last_error(), "graph"));
    ok(weir_capture_pool_release(captures));
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    check(&w);
    assert_int_equal(held(&w), 3 * PAGE);
    close_pool(&w);
}

/* --- sleep --- */

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

static weir_sleep_report wake(struct world *w)
{
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    ok(weir_pool_wake(w->pool, NULL, 0, &report));
    check(w);
    return report;
}

TEST(test_committed_parts_sleep)
{
    for (uint64_t unit = 1; unit <= 2; unit++) {
        struct world w = open_pool(0, 0);
        weir_block *block = reserve(&w, 100 * PAGE, unit * PAGE);
        weir_block *empty = reserve(&w, 100 * PAGE, 0);
        weir_block *plain = take(&w, B, 3 * PAGE);
        commit(&w, block, 2, 4, A);
        commit(&w, block, 8, 2, A);
        commit(&w, block, 40, 4, A);
        fill(&w, block, 2, 4, A);
        fill(&w, block, 8, 2, A);
        fill(&w, block, 40, 2, A);
        run_page(&w, block, 42, A);
        decommit(&w, block, 42, 2, A); /* the sleep waits for this memory, too */
        const weir_sleep_report slept = put_to_sleep(&w, NULL, 0);
        assert_int_equal(slept.blocks, 2);
        assert_int_equal(slept.kept_bytes, 11 * PAGE);
        assert_int_equal(slept.asleep_blocks, 2);
        assert_int_equal(held(&w), 0);
        assert_true(weir_block_is_asleep(block));
        assert_false(weir_block_is_asleep(empty));
        fails(weir_pool_commit(w.pool, block, 0, 2 * PAGE, w.stream[A]), WEIR_ERR_BUSY);
        assert_non_null(strstr(weir_last_error(), "sleeps"));
        fails(weir_pool_decommit(w.pool, block, 2 * PAGE, 2 * PAGE, w.stream[A]), WEIR_ERR_BUSY);
        assert_int_equal(info_of(&w, block).committed_bytes, 8 * PAGE);
        const weir_sleep_report woken = wake(&w);
        assert_int_equal(woken.blocks, 2);
        assert_int_equal(woken.asleep_blocks, 0);
        assert_int_equal(woken.host_bytes, 0);
        must_have(&w, block, 2, 4);
        must_have(&w, block, 8, 2);
        must_have(&w, block, 40, 2);
        decommit(&w, block, 2, 2, A); /* units go alone after a wake, too */
        decommit(&w, block, 8, 2, A);
        must_have(&w, block, 4, 2);
        ok(weir_pool_free_idle(w.pool, plain));
        release(&w, block, A);
        ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
        assert_int_equal(held(&w), 0);
        close_pool(&w);
    }
}

/* In a large pool a wake takes handles of several pages, but none for two units. */
TEST(test_units_go_alone_after_a_wake)
{
    struct world w = open_pool(0, 0);
    weir_block *plain = take(&w, B, 400 * PAGE);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 0, 8, A);
    fill(&w, block, 0, 8, A);
    const weir_sleep_rule rule = {0, WEIR_SLEEP_STAY};
    (void)put_to_sleep(&w, &rule, 1);
    const uint64_t before = held(&w);
    (void)wake(&w);
    assert_int_equal(held(&w), before + 8 * PAGE);
    decommit(&w, block, 1, 2, A);
    assert_int_equal(held(&w), before + 6 * PAGE);
    must_have(&w, block, 0, 1);
    must_have(&w, block, 3, 5);
    ok(weir_pool_free_idle(w.pool, plain));
    close_pool(&w);
}

TEST(test_policies_of_parts)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 1, 2, A);
    fill(&w, block, 1, 2, A);
    weir_sleep_rule rule = {cache, WEIR_SLEEP_STAY};
    (void)put_to_sleep(&w, &rule, 1);
    assert_int_equal(held(&w), 2 * PAGE);
    assert_false(weir_block_is_asleep(block));
    must_have(&w, block, 1, 2);
    rule.policy = WEIR_SLEEP_ZERO;
    assert_int_equal(put_to_sleep(&w, &rule, 1).host_bytes, 0);
    assert_int_equal(held(&w), 0);
    (void)wake(&w);
    const uint8_t *bytes = weir_sim_bytes(w.sim, weir_block_address(block) + PAGE, PAGE);
    assert_non_null(bytes);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(bytes[PAGE - 1], 0);
    close_pool(&w);
}

TEST(test_a_sleeping_block_is_freed)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    weir_block *other = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 1, 2, A);
    commit(&w, block, 5, 2, A);
    commit(&w, other, 5, 2, A);
    fill(&w, other, 5, 2, A);
    (void)put_to_sleep(&w, NULL, 0);
    ok(weir_pool_free_idle(w.pool, block));
    check(&w);
    fails(weir_pool_free_idle(w.pool, block), WEIR_ERR_INVALID);
    (void)wake(&w);
    must_have(&w, other, 5, 2);
    assert_int_equal(held(&w), 2 * PAGE);
    (void)put_to_sleep(&w, NULL, 0);
    release(&w, other, A);
    assert_int_equal(stats_of(&w).regions, 0);
    close_pool(&w);
}

TEST(test_destroy_with_all_states)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    weir_block *other = reserve(&w, 100 * PAGE, 0);
    commit(&w, block, 1, 4, A);
    (void)put_to_sleep(&w, NULL, 0);
    commit(&w, other, 1, 4, A);
    run_page(&w, other, 1, A);
    decommit(&w, other, 1, 1, A);
    run_page(&w, other, 2, A);
    release(&w, other, A);
    close_pool(&w);
}

/* --- upkeep --- */

TEST(test_thousand_cycles_grow_nothing)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    for (int cycle = 0; cycle < 1000; cycle++) {
        ok(weir_pool_commit(w.pool, block, (uint64_t)(cycle % 90) * PAGE, 4 * PAGE, w.stream[A]));
        run_page(&w, block, (uint64_t)cycle % 90, A);
        ok(weir_pool_decommit(w.pool, block, (uint64_t)(cycle % 90) * PAGE, 4 * PAGE, w.stream[A]));
        weir_block *brief = NULL;
        ok(weir_pool_reserve(w.pool, w.stream[B], 50 * PAGE, 0, 0, &brief));
        ok(weir_pool_commit(w.pool, brief, 0, PAGE, w.stream[B]));
        ok(weir_pool_free(w.pool, brief, w.stream[B]));
        ok(weir_sim_sync(w.sim));
        assert_true(held(&w) <= 5 * PAGE);
        assert_true(stats_of(&w).regions <= 2);
    }
    ok(weir_pool_trim(w.pool, 0, 0, NULL));
    assert_int_equal(held(&w), 0);
    close_pool(&w);
}

struct seen {
    uint64_t bytes[8];
    uint64_t entries;
};

static bool see_entry(void *ctx, const weir_walk_entry *entry)
{
    struct seen *seen = ctx;
    seen->bytes[entry->state] += entry->size;
    seen->entries++;
    return true;
}

static void see_line(void *ctx, const char *line)
{
    *(bool *)ctx |= strstr(line, "unmapped") != NULL;
}

static void list_alloc(void *ctx, const weir_observed_block *block)
{
    assert_true(block->listed);
    assert_int_equal(block->capacity, PAGE);
    ++*(int *)ctx;
}

TEST(test_reports)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    struct seen seen = {{0}, 0};
    int listed = 0;
    bool printed = false;
    commit(&w, block, 3, 4, A);
    run_page(&w, block, 5, A);
    decommit(&w, block, 5, 1, A);
    ok(weir_pool_walk(w.pool, see_entry, &seen));
    assert_int_equal(seen.entries, 5);
    assert_int_equal(seen.bytes[WEIR_WALK_LIVE], 3 * PAGE);
    assert_int_equal(seen.bytes[WEIR_WALK_PENDING], PAGE);
    assert_int_equal(seen.bytes[WEIR_WALK_UNMAPPED], 96 * PAGE);
    ok(weir_pool_dump(w.pool, see_line, &printed));
    assert_true(printed);
    weir_observer_ops ops = {.struct_size = sizeof(ops), .block_alloc = list_alloc};
    ok(weir_pool_observe(w.pool, &ops, &listed));
    ok(weir_pool_unobserve(w.pool, &listed));
    assert_int_equal(listed, 3);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    ok(weir_pool_survey(w.pool, w.stream[A], &record));
    assert_int_equal(record.live_bytes, 3 * PAGE);
    close_pool(&w);
}

TEST(test_refusals)
{
    struct world w = open_pool(0, 0);
    weir_block *block = NULL;
    weir_reserve_info info = WEIR_RESERVE_INFO_INIT;
    uint64_t offset = 0;
    uint64_t size = 0;
    fails(weir_pool_reserve(NULL, w.stream[A], PAGE, 0, 0, &block), WEIR_ERR_INVALID);
    fails(weir_pool_reserve(w.pool, NULL, PAGE, 0, 0, &block), WEIR_ERR_INVALID);
    fails(weir_pool_reserve(w.pool, w.stream[A], PAGE, 0, 0, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_reserve(w.pool, w.stream[A], 0, 0, 0, &block), WEIR_ERR_INVALID);
    fails(weir_pool_reserve(w.pool, w.stream[A], UINT64_MAX, 0, 0, &block), WEIR_ERR_INVALID);
    fails(weir_pool_reserve(w.pool, w.stream[A], PAGE, UINT64_MAX, 0, &block), WEIR_ERR_INVALID);
    fails(weir_pool_reserve(w.pool, w.stream[A], PAGE, PAGE / 2, 0, &block), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "page of 65536 bytes"));
    fails(weir_pool_reserve(w.pool, w.stream[A], PAGE, 0, 77, &block), WEIR_ERR_INVALID);
    assert_null(block);
    weir_block *plain = take(&w, A, 1000);
    fails(weir_pool_commit(w.pool, plain, 0, PAGE, w.stream[A]), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "not a reserved one"));
    fails(weir_pool_find_committed(w.pool, plain, 0, &offset, &size), WEIR_ERR_INVALID);
    ok(weir_pool_get_reserve(w.pool, plain, &info));
    assert_int_equal(info.unit_bytes, 0);
    block = reserve(&w, 10 * PAGE, 2 * PAGE);
    fails(weir_pool_commit(w.pool, block, 0, PAGE, w.stream[A]), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "whole units of 131072 bytes"));
    fails(weir_pool_commit(w.pool, block, PAGE, 2 * PAGE, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_commit(w.pool, block, 0, 0, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_commit(w.pool, block, 10 * PAGE, 2 * PAGE, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_commit(w.pool, block, 2 * PAGE, UINT64_MAX - PAGE + 1, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_decommit(w.pool, block, 0, 12 * PAGE, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_decommit(w.pool, block, 0, 2 * PAGE, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_get_reserve(w.pool, NULL, &info), WEIR_ERR_INVALID);
    fails(weir_pool_get_reserve(w.pool, block, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_find_committed(w.pool, block, 0, NULL, &size), WEIR_ERR_INVALID);
    release(&w, block, A);
    fails(weir_pool_free(w.pool, block, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_commit(w.pool, block, 0, 2 * PAGE, w.stream[A]), WEIR_ERR_INVALID);
    close_pool(&w);

    weir_pool_config regions = WEIR_POOL_CONFIG_INIT;
    regions.flags = WEIR_POOL_REGIONS;
    w = world_over(new_sim(device_of_units(PAGE, 0)), regions);
    fails(weir_pool_reserve(w.pool, w.stream[A], PAGE, 0, 0, &block), WEIR_ERR_UNSUPPORTED);
    assert_non_null(strstr(weir_last_error(), "no virtual memory"));
    end_world(&w);
}

/* --- threads --- */

struct worker {
    struct world *w;
    weir_block *block; /* of all workers: each commits pages of its own */
    int number;        /* of its stream, too */
};

static void *work_on_parts(void *ctx)
{
    const struct worker *worker = ctx;
    struct world *w = worker->w;
    weir_stream *stream = w->stream[worker->number];
    const uint64_t first = (uint64_t)worker->number * 30;
    for (uint64_t i = 0; i < 150; i++) {
        const uint64_t page = first + i % 26;
        ok(weir_pool_commit(w->pool, worker->block, page * PAGE, 4 * PAGE, stream));
        ok(weir_sim_fill(w->sim, w->native[worker->number], weir_block_address(worker->block) + page * PAGE, 4 * PAGE,
                         value_of(page), "fill"));
        if (i % 10 == 0) {
            weir_block *own = NULL;
            ok(weir_pool_reserve(w->pool, stream, 20 * PAGE, 0, cache, &own));
            ok(weir_pool_commit(w->pool, own, 0, PAGE, stream));
            ok(weir_pool_free(w->pool, own, stream));
            ok(weir_pool_trim(w->pool, 0, 0, NULL));
        }
        if (i % 25 == 0) {
            weir_pool_stats stats = WEIR_POOL_STATS_INIT;
            ok(weir_pool_get_stats(w->pool, &stats));
            ok(weir_pool_check(w->pool, NULL));
        }
        ok(weir_pool_decommit(w->pool, worker->block, page * PAGE, 4 * PAGE, stream));
    }
    return NULL;
}

TEST(test_threads)
{
    struct world w = open_pool(0, 0);
    weir_block *block = reserve(&w, 100 * PAGE, 0);
    struct worker workers[streams];
    pthread_t threads[streams];
    for (int i = 0; i < streams; i++) {
        workers[i] = (struct worker){.w = &w, .block = block, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work_on_parts, &workers[i]), 0);
    }
    for (int i = 0; i < streams; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    ok(weir_sim_sync(w.sim));
    release(&w, block, A);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&w), 0);
    close_pool(&w);
}

/* --- failures --- */

static uint64_t calls_of(const struct world *w)
{
    uint64_t made = 0;
    for (int i = 0; i < WEIR_CALL_COUNT; i++) {
        made += device_stats(w).calls[i];
    }
    return made;
}

/* Neither the second page can be mapped nor the first one unmapped. What is left there goes with the next call. */
TEST(test_memory_of_a_failed_commit_goes)
{
    for (int next = 0; next < 2; next++) {
        struct world w = open_pool(0, 0);
        weir_block *block = reserve(&w, 100 * PAGE, 0);
        const weir_device_call calls[] = {WEIR_CALL_VM_MAP, WEIR_CALL_VM_UNMAP};
        for (uint64_t i = 0; i < 60; i++) { /* for as long as the commit tries */
            weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
            fault.call = calls[i % 2];
            fault.nth = i % 2 == 0 ? 2 + i / 2 : 1 + i / 2;
            fault.status = WEIR_ERR_DEVICE;
            ok(weir_sim_fault_arm(w.sim, &fault));
        }
        fails(weir_pool_commit(w.pool, block, 0, 3 * PAGE, w.stream[A]), WEIR_ERR_DEVICE);
        check(&w);
        assert_int_equal(info_of(&w, block).committed_bytes, 0);
        assert_true(held(&w) > 0);
        weir_sim_fault_clear(w.sim);
        if (next == 0) {
            ok(weir_pool_trim(w.pool, 0, 0, NULL));
        } else {
            release(&w, block, A);
            assert_int_equal(stats_of(&w).regions, 0);
        }
        assert_int_equal(held(&w), 0);
        close_pool(&w);
    }
}

/* A call that is repeated until it succeeds. A commit and a reserve that fail have changed nothing. */
#define REPEAT(w, call)                                                                                                \
    for (int tries = 0; (call) != WEIR_OK; tries++) {                                                                  \
        check(w);                                                                                                      \
        assert_true(tries < 20);                                                                                       \
    }                                                                                                                  \
    check(w)

/* Each device call of a life fails, for a window of `length` calls. Returns false if the window never began. */
static bool life_with_outage(uint64_t call, uint64_t length, weir_status failure)
{
    struct world w = open_pool(0, 0);
    weir_block *plain = take(&w, B, 5 * PAGE);
    ok(weir_pool_free(w.pool, plain, w.stream[B]));
    ok(weir_sim_sync(w.sim));
    for (uint64_t i = 0; i < length; i++) {
        weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
        fault.call = WEIR_CALL_ANY;
        fault.nth = call + i;
        fault.status = failure;
        ok(weir_sim_fault_arm(w.sim, &fault));
    }
    const uint64_t before = calls_of(&w);
    weir_block *block = NULL;
    REPEAT(&w, weir_pool_reserve(w.pool, w.stream[A], 100 * PAGE, 2 * PAGE, cache, &block));
    REPEAT(&w, weir_pool_commit(w.pool, block, 4 * PAGE, 6 * PAGE, w.stream[A]));
    fill(&w, block, 4, 6, A);
    REPEAT(&w, weir_pool_decommit(w.pool, block, 6 * PAGE, 2 * PAGE, w.stream[A]));
    REPEAT(&w, weir_pool_commit(w.pool, block, 4 * PAGE, 8 * PAGE, w.stream[B]));
    fill(&w, block, 10, 2, B);
    must_have(&w, block, 4, 2);
    must_have(&w, block, 8, 4);
    REPEAT(&w, weir_pool_sleep(w.pool, NULL, NULL));
    REPEAT(&w, weir_pool_wake(w.pool, NULL, 0, NULL));
    must_have(&w, block, 4, 2);
    must_have(&w, block, 8, 4);
    REPEAT(&w, weir_pool_decommit(w.pool, block, 0, 100 * PAGE, w.stream[B]));
    REPEAT(&w, weir_pool_commit(w.pool, block, 0, 2 * PAGE, w.stream[A]));
    ok(weir_pool_free(w.pool, block, w.stream[A]));
    check(&w);
    const uint64_t made = calls_of(&w) - before;
    weir_sim_fault_clear(w.sim);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(held(&w), 0);
    assert_int_equal(stats_of(&w).uncommitted_bytes, 0);
    close_pool(&w);
    return made >= call;
}

TEST(test_each_call_fails)
{
    for (int kind = 0; kind < 2; kind++) {
        for (uint64_t length = 1; length <= 6; length += is_emulated() ? 5 : 1) {
            uint64_t call = 1;
            while (life_with_outage(call, length, kind == 0 ? WEIR_ERR_DEVICE : WEIR_ERR_NO_MEMORY)) {
                call++;
            }
            assert_true(call > 40); /* the life has calls */
        }
    }
}
