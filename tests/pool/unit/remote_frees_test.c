/* tests/pool/unit/remote_frees_test.c: remote frees: frees by threads that do not feed the stream.
 *
 * The test's own thread feeds stream A and so owns its lock; blocks that other threads free there go to the stream's
 * remote free list. The tests first look at the remote free list from inside (without calls that read statistics before
 * the end: those empty remote free lists), then from outside: the simulator's auditor checks the order, with kernels
 * that are still running when the next step begins.
 *
 * Without the kernel's membarrier there is no bias, and no free needs the remote free list: the tests skip.
 */
enum { A, B, streams, many = 4096 };

#include "rig/pool.h"
#include "fake_device.h"
#include "order/order.h"

#include <sched.h>
#include <weir/trace.h>

#define REGION (256 * KIB)

static weir_block *blocks[many];

static struct world open_world(weir_sim_config config)
{
    const weir_caching_config caching = regions_of(REGION, 0);
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    pool.strategy_config = &caching;
    pool.flags = WEIR_POOL_REGIONS;
    config.region_granularity_bytes = REGION;
    config.page_bytes = REGION;
    return world_over(new_sim(config), pool);
}

/* Checks that all blocks have been freed, and destroys the world. */
static void end_after(struct world *w, uint64_t frees)
{
    const weir_pool_stats stats = figures(w);
    assert_int_equal(stats.frees, frees);
    assert_int_equal(stats.allocs, frees);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.requested_bytes, 0);
    close_world(w);
}

static void get_nth(struct world *w, unsigned index, int stream, uint64_t size)
{
    blocks[index] = get(w, stream, size);
}

static void get_some(struct world *w, unsigned first, unsigned count, uint64_t size)
{
    for (unsigned i = first; i < first + count; i++) {
        get_nth(w, i, A, size);
    }
    if (!stream_lock_owned(&w->stream[A]->lock)) {
        skip();
    }
}

static void put_nth(struct world *w, unsigned index, int stream)
{
    put(w, blocks[index], stream);
}

/* --- another thread --- */

struct errand {
    struct world *world;
    unsigned first;
    unsigned count;
    weir_status expected;
    bool quiet;           /* the auditor is not told */
    atomic_uint *arrived; /* if not NULL, two threads meet before each block */
    unsigned wrong;
};

/* Waits until both threads have arrived at their next block. */
static void meet(atomic_uint *arrived)
{
    const unsigned both = (atomic_fetch_add(arrived, 1) | 1) + 1;
    while (atomic_load(arrived) < both) {
        (void)sched_yield();
    }
}

static void *free_them(void *ctx)
{
    struct errand *errand = ctx;
    struct world *w = errand->world;
    for (unsigned i = errand->first; i < errand->first + errand->count; i++) {
        if (!errand->quiet) {
            weir_sim_block_free(w->sim, weir_block_address(blocks[i]), w->native[A], "free elsewhere");
        }
        if (errand->arrived != NULL) {
            meet(errand->arrived);
        }
        errand->wrong += weir_pool_free(w->pool, blocks[i], w->stream[A]) != errand->expected;
    }
    return NULL;
}

static void run(struct errand *errand)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_them, errand), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(errand->wrong, 0);
}

/* Another thread frees `count` blocks on stream A. */
static void others_free(struct world *w, unsigned first, unsigned count)
{
    run(&(struct errand){.world = w, .first = first, .count = count, .expected = WEIR_OK});
}

/* --- from inside --- */

static uint64_t in_remote_frees(const weir_stream *stream, uint64_t *bytes)
{
    uint64_t count = 0;
    *bytes = 0;
    for (const weir_block *block = atomic_load(&stream->remote_frees); block != NULL; block = block_next(block)) {
        assert_int_equal(state_of(block), BLOCK_RETURNED);
        *bytes += block_capacity(block);
        count++;
    }
    return count;
}

static bool among(const weir_block *block, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        if (blocks[i] == block) {
            return true;
        }
    }
    return false;
}

TEST(test_remote_frees_are_reused_without_the_strategy)
{
    enum { count = 100 };
    if (WEIR_CHECKS >= 3) {
        skip(); /* a check after every call empties the remote free list */
    }
    struct world w = open_world(free_of_charge());
    uint64_t bytes = 0;
    get_some(&w, 0, count, 512);
    others_free(&w, 0, count);
    assert_int_equal(in_remote_frees(w.stream[A], &bytes), count);
    assert_int_equal(bytes, count * 512);
    const uint64_t misses = w.stream[A]->counters.misses;
    const uint64_t slow_frees = w.pool->slow_frees;
    get_some(&w, count, count, 512);
    for (unsigned i = 0; i < count; i++) {
        assert_true(among(blocks[count + i], 0, count));
    }
    assert_int_equal(w.stream[A]->counters.misses, misses);
    assert_int_equal(w.pool->slow_frees, slow_frees);
    assert_true(stream_lock_owned(&w.stream[A]->lock));
    others_free(&w, count, count);
    end_after(&w, 2 * count);
}

static void *look_often(void *ctx)
{
    const struct world *w = ctx;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    for (int i = 0; i < 20; i++) {
        if (weir_pool_get_stats(w->pool, &stats) != WEIR_OK) {
            return NULL;
        }
    }
    return ctx;
}

/* A thread inspects the stream so often that the lock becomes shared. After that the feeding thread gets its bias back,
 * although another thread continues to free: a remote free needs no lock. */
TEST(test_frees_do_not_keep_the_lock_shared)
{
    enum { times = 20, between = 200 };
    struct world w = open_world(free_of_charge());
    pthread_t thread;
    void *looked = NULL;
    get_some(&w, 0, 1, 512);
    put_nth(&w, 0, A);
    assert_int_equal(pthread_create(&thread, NULL, look_often, &w), 0);
    assert_int_equal(pthread_join(thread, &looked), 0);
    assert_non_null(looked);
    assert_false(stream_lock_owned(&w.stream[A]->lock));
    for (unsigned i = 0; i < times; i++) {
        for (unsigned k = 0; k < between; k++) {
            get_nth(&w, 0, A, 512);
            put_nth(&w, 0, A);
        }
        get_nth(&w, 0, A, 512);
        others_free(&w, 0, 1);
    }
    assert_true(stream_lock_owned(&w.stream[A]->lock));
    end_after(&w, 1 + times * (between + 1));
}

/* Blocks of other sizes fill the front cache; blocks that do not fit there go back to the strategy. */
TEST(test_blocks_of_other_sizes_go_to_the_front_cache_or_the_strategy)
{
    struct world w = open_world(free_of_charge());
    uint64_t bytes = 0;
    get_some(&w, 0, 1, 4 * KIB);
    get_some(&w, 1, 20, 512);
    others_free(&w, 0, 21);
    get_some(&w, 21, 1, 4 * KIB);
    assert_ptr_equal(blocks[21], blocks[0]); /* this block was the bottom of the remote free list */
    assert_int_equal(in_remote_frees(w.stream[A], &bytes), 0);
    assert_int_equal(w.stream[A]->front.bytes, FRONT_DEPTH * 512);
    assert_int_equal(w.pool->slow_frees, 20 - FRONT_DEPTH);
    others_free(&w, 21, 1);
    end_after(&w, 22);
}

/* A block that is more than 1/16 larger than the request goes back to the strategy, which divides it. */
TEST(test_a_much_larger_block_is_not_reused)
{
    struct world w = open_world(free_of_charge());
    get_some(&w, 0, 1, 64 * KIB);
    others_free(&w, 0, 1);
    get_some(&w, 1, 1, 4 * KIB);
    assert_in_range(weir_block_capacity(blocks[1]), 4 * KIB, 5 * KIB);
    others_free(&w, 1, 1);
    end_after(&w, 2);
}

TEST(test_the_remote_free_list_is_bounded_in_bytes)
{
    enum { count = 30, most = 8 };
    struct world w = open_world(free_of_charge());
    uint64_t bytes = 0;
    get_some(&w, 0, count, 4 * MIB);
    for (unsigned i = 0; i < count; i++) {
        others_free(&w, i, 1);
        assert_in_range(in_remote_frees(w.stream[A], &bytes), 0, most);
        assert_in_range(bytes, 0, most * 4 * MIB);
    }
    assert_int_not_equal(w.pool->slow_frees, 0);
    end_after(&w, count);
}

TEST(test_a_block_freed_by_another_thread_is_freed)
{
    struct world w = open_world(free_of_charge());
    weir_block *found = NULL;
    get_some(&w, 0, 2, 512);
    const uint64_t address = weir_block_address(blocks[0]);
    others_free(&w, 0, 1);
    fails(weir_pool_free(w.pool, blocks[0], w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_free(w.pool, blocks[0], w.stream[B]), WEIR_ERR_INVALID);
    fails(weir_pool_free_idle(w.pool, blocks[0]), WEIR_ERR_INVALID);
    fails(weir_pool_use(w.pool, blocks[0], w.stream[B]), WEIR_ERR_INVALID);
    fails(weir_pool_find(w.pool, address, &found), WEIR_ERR_INVALID);
    run(&(struct errand){.world = &w, .count = 1, .expected = WEIR_ERR_INVALID, .quiet = true});
    check(&w); /* empties the remote free list */
    fails(weir_pool_free(w.pool, blocks[0], w.stream[A]), WEIR_ERR_INVALID);
    run(&(struct errand){.world = &w, .count = 1, .expected = WEIR_ERR_INVALID, .quiet = true});
    put_nth(&w, 1, A);
    run(&(struct errand){.world = &w, .first = 1, .count = 1, .expected = WEIR_ERR_INVALID, .quiet = true});
    end_after(&w, 2);
}

static bool count_states(void *ctx, const weir_walk_entry *entry)
{
    unsigned *states = ctx;
    states[entry->state]++;
    assert_true((entry->state == WEIR_WALK_LIVE) == (entry->block != NULL));
    return true;
}

TEST(test_inspection_empties_the_remote_free_list)
{
    struct world w = open_world(free_of_charge());
    uint64_t bytes = 0;
    for (int way = 0; way < 4; way++) {
        weir_pool_stats stats = WEIR_POOL_STATS_INIT;
        unsigned states[4] = {0};
        get_some(&w, 0, 10, 512);
        others_free(&w, 0, 9);
        switch (way) {
        case 0:
            ok(weir_pool_get_stats(w.pool, &stats));
            assert_int_equal(stats.live_bytes, 512);
            assert_int_equal(stats.cached_bytes, FRONT_DEPTH * 512);
            break;
        case 1:
            ok(weir_pool_walk(w.pool, count_states, states));
            assert_int_equal(states[WEIR_WALK_LIVE], 1);
            assert_int_equal(states[WEIR_WALK_CACHED], FRONT_DEPTH);
            break;
        case 2:
            check(&w);
            break;
        default:
            ok(weir_pool_trim(w.pool, 0, 0, NULL));
            break;
        }
        assert_int_equal(in_remote_frees(w.stream[A], &bytes), 0);
        put_nth(&w, 9, A);
        check(&w);
    }
    end_after(&w, 40);
}

/* --- order --- */

/* A block that another stream uses too is freed under the lock, and its memory waits for that stream. */
TEST(test_a_block_with_a_use_is_not_a_remote_free)
{
    struct world w = open_world(free_of_charge());
    uint64_t bytes = 0;
    get_some(&w, 0, 2, 32 * KIB);
    ok(weir_pool_use(w.pool, blocks[0], w.stream[B]));
    order(w.sim, w.native[A], w.native[B]);
    writes(w.sim, w.native[B], weir_block_address(blocks[0]), 32 * KIB, "kernel of B");
    others_free(&w, 0, 2);
    const uint64_t waiting = in_remote_frees(w.stream[A], &bytes);
    for (unsigned i = 2; i < 4; i++) {
        get_nth(&w, i, A, 32 * KIB);
        writes(w.sim, w.native[A], weir_block_address(blocks[i]), 32 * KIB, "kernel of A");
    }
    is_clean(w.sim);
    assert_int_equal(waiting, 1);
    put_nth(&w, 2, A);
    put_nth(&w, 3, A);
    end_after(&w, 4);
}

/* Another thread freed memory while a kernel was writing it. Another stream gets the memory only after a wait. */
TEST(test_another_stream_waits)
{
    weir_sim_config config = free_of_charge();
    config.capacity_bytes = REGION;
    struct world w = open_world(config);
    get_some(&w, 0, 64, 4 * KIB);
    for (unsigned i = 0; i < 64; i++) {
        writes(w.sim, w.native[A], weir_block_address(blocks[i]), 4 * KIB, "kernel of A");
    }
    others_free(&w, 0, 64);
    get_nth(&w, 64, B, 64 * KIB);
    writes(w.sim, w.native[B], weir_block_address(blocks[64]), 64 * KIB, "kernel of B");
    is_clean(w.sim);
    put_nth(&w, 64, B);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_int_equal(stats.region_allocs, 1);
    assert_int_not_equal(stats.waits + stats.syncs, 0);
    end_after(&w, 65);
}

/* An event record, or a wait of the host, covers earlier frees by every thread. The blocks are larger than a front
 * cache of this pool keeps, so they are in the stream's lane. */
TEST(test_hints_cover_the_frees_before_them)
{
    weir_sim_config config = free_of_charge();
    config.capacity_bytes = REGION;
    struct world w = open_world(config);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    get_some(&w, 0, 8, 32 * KIB);
    writes(w.sim, w.native[A], weir_block_address(blocks[0]), 32 * KIB, "kernel of A");
    others_free(&w, 0, 4);
    sync_stream(w.sim, w.native[A]);
    ok(weir_stream_synced(w.pool, w.stream[A]));
    get_nth(&w, 8, B, 128 * KIB);
    writes(w.sim, w.native[B], weir_block_address(blocks[8]), 128 * KIB, "kernel of B");
    put_nth(&w, 8, B);

    writes(w.sim, w.native[A], weir_block_address(blocks[4]), 32 * KIB, "second kernel of A");
    others_free(&w, 4, 4);
    weir_event *event = new_event(w.sim);
    ok(weir_device_event_record(w.device, event, w.native[A]));
    ok(weir_stream_recorded(w.pool, event, w.stream[A]));
    ok(weir_device_stream_wait_event(w.device, w.native[B], event));
    ok(weir_stream_waited(w.pool, w.stream[B], event));
    get_nth(&w, 9, B, 128 * KIB);
    get_nth(&w, 10, B, 128 * KIB);
    writes(w.sim, w.native[B], weir_block_address(blocks[9]), 128 * KIB, "second kernel of B");
    writes(w.sim, w.native[B], weir_block_address(blocks[10]), 128 * KIB, "third kernel of B");
    put_nth(&w, 9, B);
    put_nth(&w, 10, B);
    ok(weir_event_forgotten(w.pool, event));
    ok(weir_device_event_destroy(w.device, event));
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_int_equal(stats.waits, 0);
    assert_int_equal(stats.syncs, 0);
    end_after(&w, 11);
}

static uint64_t events(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w->pool, &stats));
    return stats.events_recorded;
}

/* The pool's own event also covers the blocks that another thread freed before it: their memory needs no second
 * event. */
TEST(test_an_event_of_the_pool_covers_the_frees_before_it)
{
    weir_sim_config config = free_of_charge();
    config.capacity_bytes = REGION;
    struct world w = open_world(config);
    weir_tick mark = 0;
    bool reached = false;
    get_some(&w, 0, 8, 32 * KIB);
    for (unsigned i = 0; i < 8; i++) {
        writes(w.sim, w.native[A], weir_block_address(blocks[i]), 32 * KIB, "kernel of A");
    }
    ok(weir_stream_mark(w.pool, w.stream[A], &mark));
    others_free(&w, 0, 8);
    ok(weir_stream_reached(w.pool, w.stream[A], mark, true, &reached)); /* records an event and waits for it */
    assert_true(reached);
    get_nth(&w, 8, B, REGION);
    writes(w.sim, w.native[B], weir_block_address(blocks[8]), REGION, "kernel of B");
    put_nth(&w, 8, B);
    if (events(&w) != 1) {
        fail_msg("an event does not cover earlier frees: %u were recorded", (unsigned)events(&w));
    }
    end_after(&w, 9);
}

/* --- memory in a remote free list serves every stream --- */

/* After its work has completed, a block in the remote free list serves another stream before the pool grows. */
TEST(test_a_poll_finds_remote_frees)
{
    struct world w = open_world(free_of_charge());
    get_some(&w, 0, 8, 32 * KIB);
    others_free(&w, 0, 8);
    get_nth(&w, 8, B, 32 * KIB);
    assert_int_equal(w.pool->counts.region_allocs, 1);
    put_nth(&w, 8, B);
    end_after(&w, 9);
}

/* A poll also finds the blocks that the feeding thread has taken out of the remote free list and has not handed out. */
TEST(test_a_poll_finds_remote_frees_that_were_set_aside)
{
    struct world w = open_world(free_of_charge());
    get_some(&w, 0, 7, 32 * KIB);
    get_some(&w, 7, 1, 16 * KIB);
    get_some(&w, 8, 1, 16 * KIB);
    others_free(&w, 0, 8);
    get_some(&w, 9, 1, 16 * KIB);
    assert_ptr_equal(blocks[9], blocks[7]); /* the top of the remote free list; the rest stays set aside */
    get_nth(&w, 10, B, 32 * KIB);
    assert_int_equal(w.pool->counts.region_allocs, 1);
    put_nth(&w, 8, A);
    put_nth(&w, 9, A);
    put_nth(&w, 10, B);
    end_after(&w, 11);
}

/* On a device without streams a freed block is open to every stream at once. */
TEST(test_a_device_without_order)
{
    weir_sim_config config = free_of_charge();
    config.no_ordering = true;
    struct world w = open_world(config);
    get_some(&w, 0, 8, 32 * KIB);
    others_free(&w, 0, 8);
    get_nth(&w, 8, B, 32 * KIB);
    assert_int_equal(w.pool->counts.region_allocs, 1);
    put_nth(&w, 8, B);
    end_after(&w, 9);
}

/* --- retiring --- */

static struct world *retiring;

static weir_status sync_while_another_frees(void *ctx, weir_event *event)
{
    if (retiring != NULL) {
        struct world *w = retiring;
        retiring = NULL;
        run(&(struct errand){.world = w, .count = 4, .expected = WEIR_OK, .quiet = true});
    }
    return fake_event_sync(ctx, event);
}

/* Blocks freed while the stream is being waited for are free for all streams afterwards, and can go
 * back to the device. */
TEST(test_retire_takes_the_frees_during_its_wait)
{
    struct fake_device fake;
    fake_init(&fake);
    fake.ops.event_sync = sync_while_another_frees;
    struct world w = {0};
    ok(weir_device_create(&fake.ops, &fake, &w.device));
    const weir_caching_config caching = regions_of(REGION, 0);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = w.device;
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    config.flags = WEIR_POOL_REGIONS;
    ok(weir_pool_create(&config, &w.pool));
    ok(weir_pool_stream(w.pool, &w.native[A], &w.stream[A]));
    ok(weir_pool_stream(w.pool, &w.native[B], &w.stream[B]));
    for (unsigned i = 0; i < 4; i++) {
        ok(weir_pool_alloc(w.pool, w.stream[A], 512, 0, &blocks[i]));
    }
    if (!stream_lock_owned(&w.stream[A]->lock)) {
        skip();
    }
    retiring = &w;
    ok(weir_stream_retire(w.pool, w.stream[A]));
    assert_null(retiring);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_int_equal(stats.frees, 4);
    assert_int_equal(stats.cached_bytes, 0);
    ok(weir_pool_trim(w.pool, 0, 0, NULL));
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_int_equal(stats.reserved_bytes, 0);
    ok(weir_pool_destroy(w.pool));
    assert_int_equal(weir_device_destroy(w.device), WEIR_OK);
}

/* A free that passed its checks before the stream was retired may leave the block in the remote free list afterwards.
 * All work of the stream is complete, so the memory is free for all streams. The test pushes the block by hand: it
 * cannot hold a thread at that point. */
TEST(test_a_free_after_the_retirement_is_free_for_all_streams)
{
    weir_sim_config config = free_of_charge();
    config.capacity_bytes = REGION;
    struct world w = open_world(config);
    get_some(&w, 0, 2, 32 * KIB);
    put_nth(&w, 1, A);
    ok(weir_stream_retire(w.pool, w.stream[A]));
    weir_sim_block_free(w.sim, weir_block_address(blocks[0]), NULL, "free elsewhere");
    block_set_next(blocks[0], NULL);
    block_set_state(blocks[0], BLOCK_RETURNED);
    atomic_store(&w.stream[A]->remote_frees, blocks[0]);
    weir_block *all = NULL;
    if (weir_pool_alloc(w.pool, w.stream[B], REGION, 0, &all) != WEIR_OK) {
        fail_msg("a block in the remote free list of a retired stream is lost");
    }
    ok(weir_pool_free(w.pool, all, w.stream[B]));
    end_after(&w, 3);
}

/* --- recording --- */

struct ledger {
    unsigned begun; /* p and a */
    unsigned ended; /* f */
};

static bool enter(void *ctx, const char *text, size_t length)
{
    struct ledger *ledger = ctx;
    for (const char *line = text; line < text + length; line = strchr(line, '\n') + 1) {
        ledger->begun += *line == 'p' || *line == 'a';
        ledger->ended += *line == 'f';
    }
    return true;
}

/* A recorder starts while another thread frees: each block that is not known to be free is listed, and each listed
 * block ends once. More streams make the start longer. */
TEST(test_a_recorder_misses_no_free)
{
    enum { rounds = 40, more_streams = 60, count = 3000 };
    struct world w = open_world(free_of_charge());
    weir_stream *other = NULL;
    for (int i = 0; i < more_streams; i++) {
        ok(weir_pool_stream(w.pool, new_stream(w.sim), &other));
    }
    for (unsigned round = 0; round < rounds; round++) {
        struct ledger ledger = {0, 0};
        weir_recorder_config asked = WEIR_RECORDER_CONFIG_INIT;
        weir_recorder *recorder = NULL;
        uint64_t lost = 0;
        pthread_t thread;
        for (unsigned i = 0; i < count; i++) {
            ok(weir_pool_alloc(w.pool, w.stream[A], 512, 0, &blocks[i]));
        }
        struct errand errand = {.world = &w, .count = count, .expected = WEIR_OK, .quiet = true};
        asked.sink = enter;
        asked.sink_ctx = &ledger;
        assert_int_equal(pthread_create(&thread, NULL, free_them, &errand), 0);
        while (remote_frees_are_empty(w.stream[A]) && state_of(blocks[count - 1]) == BLOCK_LIVE) {
        }
        const weir_status started = weir_recorder_start(w.pool, &asked, &recorder);
        assert_int_equal(pthread_join(thread, NULL), 0);
        ok(started);
        assert_int_equal(errand.wrong, 0);
        ok(weir_recorder_stop(recorder, &lost));
        assert_int_equal(lost, 0);
        assert_int_equal(ledger.ended, ledger.begun);
        check(&w);
    }
    end_after(&w, rounds * count);
}

/* --- many at once --- */

/* The thread sanitizer reports the program's mistake: the second free reads a record that the first one changes. */
#if defined(__SANITIZE_THREAD__)
static const bool finds_frees_at_once = false;
#else
static const bool finds_frees_at_once = WEIR_CHECKS >= 1;
#endif

/* Two threads free the same blocks, each block at the same moment: each block is freed once. */
TEST(test_one_of_two_concurrent_frees_succeeds)
{
    enum { count = 2000 };
    if (!finds_frees_at_once) {
        print_message("skipped: needs a build with internal checks, and no thread sanitizer\n");
        skip();
    }
    struct world w = open_world(free_of_charge());
    get_some(&w, 0, count, 512);
    struct errand errands[2];
    pthread_t threads[2];
    atomic_uint arrived = 0;
    for (int i = 0; i < 2; i++) {
        errands[i] =
            (struct errand){.world = &w, .count = count, .expected = WEIR_OK, .quiet = true, .arrived = &arrived};
        assert_int_equal(pthread_create(&threads[i], NULL, free_them, &errands[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(errands[0].wrong + errands[1].wrong, count);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &stats));
    assert_int_equal(stats.frees, count);
    assert_int_equal(stats.live_bytes, 0);
    const char *why = "";
    ok(weir_pool_check(w.pool, &why));
    ok(weir_pool_destroy(w.pool));
    assert_int_equal(weir_sim_destroy(w.sim), WEIR_OK);
}

TEST(test_destroy_frees_a_full_remote_free_list)
{
    struct world w = open_world(free_of_charge());
    uint64_t bytes = 0;
    weir_sim_stats device = WEIR_SIM_STATS_INIT;
    get_some(&w, 0, 10, 512);
    writes(w.sim, w.native[A], weir_block_address(blocks[0]), 512, "kernel");
    others_free(&w, 0, 10);
    assert_int_equal(in_remote_frees(w.stream[A], &bytes), 10);
    ok(weir_pool_destroy(w.pool));
    is_clean(w.sim);
    ok(weir_sim_get_stats(w.sim, &device));
    assert_int_equal(device.held_bytes, 0);
    assert_int_equal(weir_sim_destroy(w.sim), WEIR_OK);
}
