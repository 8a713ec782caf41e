/* tests/pool/unit/pool_test.c: the contract of weir/pool.h by example.
 *
 * First every public function with every wrong argument. Then sizes, limits, the front cache, and each rung of the
 * ladder. Then the bugs by which other allocators have handed out memory too early: a number such as S1 in the name of
 * a test refers to the list of mutants in tests/project/mutants/README.md. In these tests the simulator's auditor
 * checks each reuse. Kernels are still running at the next step, and no call costs host time, so a reuse is correct
 * only if an order between streams exists.
 */
enum { A, B, C, D, streams };

#include "rig/pool.h"
#include "rig/sink.h"

#include <weir/trace.h>

#include <inttypes.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGION (64 * KIB)

/* The settings of one test. Zero means room for 16 regions, and the pool's defaults. */
struct wish {
    uint64_t capacity;
    uint64_t limit;
    uint32_t flags;
    weir_growth growth; /* 0: WEIR_GROWTH_GROW_FIRST, unless `balanced` */
    bool balanced;
    bool no_ordering;
    weir_oom_callback callback;
    void *ctx;
};

static weir_sim *device_of(const struct wish *wish)
{
    weir_sim_config config = device_of_units(REGION, wish->capacity != 0 ? wish->capacity : 16 * REGION);
    config.no_ordering = wish->no_ordering;
    return new_sim(config);
}

static weir_pool *pool_over(weir_sim *sim, const struct wish *wish)
{
    const weir_caching_config caching = regions_of(REGION, UINT64_MAX);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    config.limit_bytes = wish->limit;
    config.flags = WEIR_POOL_REGIONS | wish->flags;
    config.growth = wish->balanced || wish->growth != 0 ? wish->growth : WEIR_GROWTH_GROW_FIRST;
    config.oom_callback = wish->callback;
    config.oom_ctx = wish->ctx;
    weir_pool *pool = NULL;
    ok(weir_pool_create(&config, &pool));
    assert_non_null(pool);
    return pool;
}

static struct world open_world(struct wish wish)
{
    struct world w = {.sim = device_of(&wish)};
    w.device = weir_sim_device(w.sim);
    w.pool = pool_over(w.sim, &wish);
    add_streams(&w);
    return w;
}

/* --- arguments --- */

TEST(test_create_turns_bad_configs_away)
{
    weir_sim *sim = device_of(&(struct wish){0});
    weir_pool *pool = NULL;
    weir_pool_config good = WEIR_POOL_CONFIG_INIT;
    good.device = weir_sim_device(sim);
    good.strategy = weir_caching_strategy();
    weir_pool_config config = good;
    fails(weir_pool_create(NULL, &pool), WEIR_ERR_INVALID);
    fails(weir_pool_create(&good, NULL), WEIR_ERR_INVALID);
    config.device = NULL;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_INVALID);
    config = good;
    config.strategy = NULL;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_INVALID);
    config = good;
    config.flags = 1u << 31;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_INVALID);
    config = good;
    config.growth = (weir_growth)7;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_INVALID);
    config = good;
    config.struct_size = 3;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_INVALID);
    const size_t refused_by_strategy = 1;
    config = good;
    config.strategy_config = &refused_by_strategy;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_INVALID);
    assert_null(pool);
    ok(weir_pool_destroy(NULL));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_configs_of_other_versions)
{
    struct {
        weir_pool_config known;
        uint64_t later;
    } longer = {.known = {.struct_size = sizeof(longer)}};
    weir_sim *sim = device_of(&(struct wish){0});
    weir_pool *pool = NULL;
    longer.known.device = weir_sim_device(sim);
    longer.known.strategy = weir_caching_strategy();
    ok(weir_pool_create(&longer.known, &pool));
    ok(weir_pool_destroy(pool));
    longer.later = 1;
    fails(weir_pool_create(&longer.known, &pool), WEIR_ERR_UNSUPPORTED);
    longer.known.struct_size = offsetof(weir_pool_config, limit_bytes);
    /* the member lies behind the end of this caller's struct, so the pool does not read it */
    longer.known.limit_bytes = 1;
    ok(weir_pool_create(&longer.known, &pool));
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    ok(weir_pool_stream(pool, NULL, &stream));
    ok(weir_pool_alloc(pool, stream, 1, 0, &block));
    struct {
        weir_pool_stats known;
        uint64_t later;
    } stats = {.known = {.struct_size = sizeof(stats)}, .later = 7};
    ok(weir_pool_get_stats(pool, &stats.known));
    assert_int_equal(stats.known.allocs, 1);
    weir_pool_stats shorter = {.struct_size = offsetof(weir_pool_stats, frees), .frees = 99};
    ok(weir_pool_get_stats(pool, &shorter));
    assert_int_equal(shorter.allocs, 1);
    assert_int_equal(shorter.frees, 99);
    weir_pool_stats empty = {.struct_size = 1};
    fails(weir_pool_get_stats(pool, &empty), WEIR_ERR_INVALID);
    ok(weir_pool_destroy(pool));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_alloc_turns_bad_requests_away)
{
    struct world w = open_world((struct wish){0});
    struct world other = open_world((struct wish){0});
    weir_block *block = NULL;
    fails(weir_pool_alloc(NULL, w.stream[A], 1, 0, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc(w.pool, NULL, 1, 0, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc(w.pool, w.stream[A], 1, 0, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_alloc(w.pool, other.stream[A], 1, 0, &block), WEIR_ERR_INVALID);
    static const uint64_t sizes[] = {
        0, UINT64_C(1) << 47, (UINT64_C(1) << 47) + 1, UINT64_C(1) << 63, UINT64_MAX - 511, UINT64_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fails(weir_pool_alloc(w.pool, w.stream[A], sizes[i], 0, &block), WEIR_ERR_INVALID);
    }
    static const uint64_t alignments[] = {3, 511, 513, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 47};
    for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
        fails(weir_pool_alloc(w.pool, w.stream[A], 1, alignments[i], &block), WEIR_ERR_INVALID);
    }
    /* Valid arguments of extreme size: the pool refuses them as out of memory. */
    fails(weir_pool_alloc(w.pool, w.stream[A], (UINT64_C(1) << 47) - 1, 0, &block), WEIR_ERR_NO_MEMORY);
    fails(weir_pool_alloc(w.pool, w.stream[A], 1, UINT64_C(1) << 46, &block), WEIR_ERR_NO_MEMORY);
    fails(weir_pool_alloc(w.pool, w.stream[A], (UINT64_C(1) << 47) - 1, UINT64_C(1) << 46, &block), WEIR_ERR_NO_MEMORY);
    assert_null(block);
    assert_int_equal(figures(&w).allocs, 0);
    close_world(&w);
    close_world(&other);
}

TEST(test_free_turns_foreign_and_freed_blocks_away)
{
    for (uint32_t flags = 0; flags <= WEIR_POOL_NO_FRONT_CACHE; flags += WEIR_POOL_NO_FRONT_CACHE) {
        struct world w = open_world((struct wish){.flags = flags});
        struct world other = open_world((struct wish){0});
        weir_block *below = get(&w, A, 1000);
        weir_block *block = get(&w, A, 1000);
        fails(weir_pool_free(NULL, block, w.stream[A]), WEIR_ERR_INVALID);
        fails(weir_pool_free(w.pool, NULL, w.stream[A]), WEIR_ERR_INVALID);
        fails(weir_pool_free(w.pool, block, NULL), WEIR_ERR_INVALID);
        fails(weir_pool_free(other.pool, block, other.stream[A]), WEIR_ERR_INVALID);
        fails(weir_pool_free(w.pool, block, other.stream[A]), WEIR_ERR_INVALID);
        fails(weir_pool_free_idle(NULL, block), WEIR_ERR_INVALID);
        fails(weir_pool_free_idle(w.pool, NULL), WEIR_ERR_INVALID);
        fails(weir_pool_free_idle(other.pool, block), WEIR_ERR_INVALID);
        put(&w, below, A);
        put(&w, block, A); /* freed into the strategy: the block merges with `below`, and its descriptor is free */
        fails(weir_pool_free(w.pool, block, w.stream[A]), WEIR_ERR_INVALID);
        fails(weir_pool_free(w.pool, block, w.stream[B]), WEIR_ERR_INVALID);
        fails(weir_pool_free_idle(w.pool, block), WEIR_ERR_INVALID);
        fails(weir_pool_use(w.pool, block, w.stream[A]), WEIR_ERR_INVALID);
        fails(weir_pool_use_end(w.pool, block, w.stream[A]), WEIR_ERR_INVALID);
        fails(weir_pool_free(w.pool, below, w.stream[A]), WEIR_ERR_INVALID);
        assert_int_equal(figures(&w).frees, 2);
        close_world(&w);
        close_world(&other);
    }
}

TEST(test_the_other_functions_turn_bad_arguments_away)
{
    struct world w = open_world((struct wish){0});
    struct world other = open_world((struct wish){0});
    weir_block *block = get(&w, A, 1000);
    weir_block *found = NULL;
    weir_stream *stream = NULL;
    int event = 0;
    fails(weir_pool_stream(NULL, NULL, &stream), WEIR_ERR_INVALID);
    fails(weir_pool_stream(w.pool, NULL, NULL), WEIR_ERR_INVALID);
    fails(weir_stream_retire(NULL, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_stream_retire(w.pool, NULL), WEIR_ERR_INVALID);
    fails(weir_stream_retire(w.pool, other.stream[A]), WEIR_ERR_INVALID);
    fails(weir_stream_recorded(NULL, &event, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_stream_recorded(w.pool, NULL, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_stream_recorded(w.pool, &event, NULL), WEIR_ERR_INVALID);
    fails(weir_stream_recorded(w.pool, &event, other.stream[A]), WEIR_ERR_INVALID);
    fails(weir_stream_waited(NULL, w.stream[A], &event), WEIR_ERR_INVALID);
    fails(weir_stream_waited(w.pool, NULL, &event), WEIR_ERR_INVALID);
    fails(weir_stream_waited(w.pool, w.stream[A], NULL), WEIR_ERR_INVALID);
    fails(weir_stream_waited(w.pool, other.stream[A], &event), WEIR_ERR_INVALID);
    fails(weir_stream_synced(NULL, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_stream_synced(w.pool, NULL), WEIR_ERR_INVALID);
    fails(weir_stream_synced(w.pool, other.stream[A]), WEIR_ERR_INVALID);
    fails(weir_event_synced(NULL, &event), WEIR_ERR_INVALID);
    fails(weir_event_synced(w.pool, NULL), WEIR_ERR_INVALID);
    fails(weir_event_forgotten(NULL, &event), WEIR_ERR_INVALID);
    fails(weir_event_forgotten(w.pool, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_use(NULL, block, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_use(w.pool, NULL, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_use(w.pool, block, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_use(w.pool, block, other.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_use_end(w.pool, block, other.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_find(NULL, 1, &found), WEIR_ERR_INVALID);
    fails(weir_pool_find(w.pool, weir_block_address(block), NULL), WEIR_ERR_INVALID);
    fails(weir_pool_trim(NULL, 0, 0, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_trim(w.pool, 0, 1u << 5, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_walk(NULL, NULL, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_walk(w.pool, NULL, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_check(NULL, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_get_stats(NULL, &(weir_pool_stats)WEIR_POOL_STATS_INIT), WEIR_ERR_INVALID);
    fails(weir_pool_get_stats(w.pool, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_get_oom(NULL, &(weir_oom_record)WEIR_OOM_RECORD_INIT), WEIR_ERR_INVALID);
    fails(weir_pool_get_oom(w.pool, NULL), WEIR_ERR_INVALID);
    assert_string_equal(weir_rung_name((weir_rung)99), "unknown rung");
    /* Hints about an event have no effect if its record was never reported. */
    ok(weir_stream_waited(w.pool, w.stream[A], &event));
    ok(weir_event_synced(w.pool, &event));
    ok(weir_event_forgotten(w.pool, &event));
    put(&w, block, A);
    close_world(&w);
    close_world(&other);
}

/* --- blocks --- */

TEST(test_sizes_are_rounded_and_addresses_aligned)
{
    static const uint64_t sizes[] = {1, 511, 512, 513, 4096, 65535, 65536, 65537, 100000};
    static const uint64_t alignments[] = {0, 1, 256, 512, 1024, 4096, REGION, 2 * REGION};
    for (size_t a = 0; a < sizeof(alignments) / sizeof(alignments[0]); a++) {
        struct world w = open_world((struct wish){.capacity = 32 * REGION});
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            const weir_block *block = get_aligned(&w, A, sizes[s], alignments[a]);
            assert_int_equal(weir_block_size(block), sizes[s]);
            assert_int_equal(weir_block_capacity(block), (sizes[s] + 511) / 512 * 512);
            assert_int_equal(weir_block_address(block) % (alignments[a] > 512 ? alignments[a] : 512), 0);
            assert_ptr_equal(weir_block_pool(block), w.pool);
        }
        close_world(&w);
    }
}

TEST(test_a_region_that_is_aligned_anyway_needs_no_room_for_it)
{
    struct world w = open_world((struct wish){.capacity = REGION});
    const weir_block *block = get_aligned(&w, A, REGION, REGION);
    assert_int_equal(weir_block_address(block) % REGION, 0);
    close_world(&w);
}

TEST(test_find_knows_live_blocks_only)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, 1000);
    weir_block *found = NULL;
    const uint64_t address = weir_block_address(block);
    ok(weir_pool_find(w.pool, address, &found));
    assert_ptr_equal(found, block);
    found = NULL;
    fails(weir_pool_find(w.pool, address + 1, &found), WEIR_ERR_INVALID);
    fails(weir_pool_find(w.pool, 0, &found), WEIR_ERR_INVALID);
    put(&w, block, A); /* into the front cache */
    fails(weir_pool_find(w.pool, address, &found), WEIR_ERR_INVALID);
    assert_null(found);
    weir_block *later = get(&w, A, 2000); /* from the rest of the region */
    ok(weir_pool_find(w.pool, weir_block_address(later), &found));
    assert_ptr_equal(found, later);
    close_world(&w);
}

/* --- limits and failure --- */

TEST(test_the_limit_is_exact)
{
    struct world w = open_world((struct wish){.limit = 3 * REGION + 1});
    weir_block *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = get(&w, A, REGION);
    }
    assert_int_equal(figures(&w).reserved_bytes, 3 * REGION);
    refused(&w, A, 512);
    assert_int_equal(figures(&w).failures, 1);
    put(&w, blocks[0], A);
    blocks[0] = get(&w, A, 512);
    refused(&w, B, REGION);
    assert_int_equal(figures(&w).peak_reserved_bytes, 3 * REGION);
    close_world(&w);

    w = open_world((struct wish){.limit = REGION - 1});
    refused(&w, A, 1);
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(w.sim, &stats));
    /* the limit refuses the request before the device is called */
    assert_int_equal(stats.calls[WEIR_CALL_REGION_ALLOC], 0);
    close_world(&w);
}

static weir_oom_record reason(const struct world *w)
{
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    ok(weir_pool_get_oom(w->pool, &record));
    return record;
}

/* Reads the bytes that the record's text advises to add. */
static uint64_t promised(const weir_oom_record *record)
{
    const char *text = strstr(record->text, "it would fit with ");
    assert_non_null(text);
    return strtoull(text + strlen("it would fit with "), NULL, 10);
}

/* Fills each region to three quarters with a live block. */
static void fill_badly(struct world *w, unsigned regions)
{
    for (unsigned i = 0; i < regions; i++) {
        (void)get(w, A, REGION / 4 * 3);
    }
}

TEST(test_a_failure_is_explained_and_the_advice_helps)
{
    const struct wish tight = {.limit = 2 * REGION + 100};
    struct world w = open_world(tight);
    assert_int_equal(reason(&w).failure, 0);
    fill_badly(&w, 2);
    refused(&w, B, REGION - 512);
    weir_oom_record record = reason(&w);
    assert_int_equal(record.failure, 1);
    assert_int_equal(record.size, REGION - 512);
    assert_int_equal(record.stream, 2);
    assert_int_equal(record.limit_bytes, 2 * REGION + 100);
    assert_int_equal(record.reserved_bytes, 2 * REGION);
    assert_int_equal(record.live_bytes, 2 * REGION / 4 * 3);
    assert_int_equal(record.requested_bytes, 2 * REGION / 4 * 3);
    assert_int_equal(record.free_bytes, 2 * REGION / 4);
    assert_int_equal(record.largest_free_bytes, REGION / 4);
    assert_int_equal(record.idle_region_bytes, 0);
    assert_int_equal(record.region_asked_bytes, 0);
    assert_non_null(strstr(record.text, "limit"));
    close_world(&w);

    /* The request succeeds with the limit that the advice names, and fails with one byte less. */
    const uint64_t more = promised(&record);
    w = open_world((struct wish){.limit = tight.limit + more});
    fill_badly(&w, 2);
    (void)get(&w, B, REGION - 512);
    close_world(&w);
    w = open_world((struct wish){.limit = tight.limit + more - 1});
    fill_badly(&w, 2);
    refused(&w, B, REGION - 512);
    close_world(&w);
}

/* The advice counts the memory that is left after the last rung has failed, not the memory before it. */
TEST(test_o6_the_advice_is_as_of_the_failure)
{
    const uint64_t limit = 4 * REGION;
    uint64_t more = 0;
    for (int turn = 0; turn < 3; turn++) { /* 0: the first limit; 1: the advised limit; 2: one byte less */
        const uint64_t allowed = limit + more - (turn == 2);
        struct world w = open_world((struct wish){.limit = allowed, .flags = WEIR_POOL_KEEP_IDLE_REGIONS});
        (void)get(&w, A, REGION);
        weir_block *idle[2] = {get(&w, B, REGION), get(&w, B, REGION)};
        put(&w, idle[0], B);
        put(&w, idle[1], B);
        if (turn == 1) {
            (void)get(&w, C, 4 * REGION);
        } else {
            /* the pool refuses the request although it has returned both idle regions to the device */
            refused(&w, C, 4 * REGION);
            const weir_oom_record record = reason(&w);
            assert_int_equal(record.reserved_bytes, figures(&w).reserved_bytes);
            assert_int_equal(record.free_bytes, figures(&w).free_bytes);
            more = turn == 0 ? promised(&record) : more;
        }
        close_world(&w);
    }
}

TEST(test_a_device_that_refuses_is_named)
{
    struct world w = open_world((struct wish){.capacity = 2 * REGION});
    fill_badly(&w, 2);
    refused(&w, B, 2 * REGION);
    const weir_oom_record record = reason(&w);
    assert_int_equal(record.region_asked_bytes, 2 * REGION);
    assert_int_equal(record.device_status, WEIR_ERR_NO_MEMORY);
    assert_non_null(strstr(record.text, "device"));
    weir_sim_set_capacity(w.sim, 2 * REGION + promised(&record));
    (void)get(&w, B, 2 * REGION);
    close_world(&w);
}

struct helper {
    struct world *w;
    weir_block *victim;
    unsigned calls;
    bool give_up;
};

static bool free_the_victim(void *ctx, weir_pool *pool, const weir_oom_record *record)
{
    struct helper *helper = ctx;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    weir_block *block = NULL;
    helper->calls++;
    assert_true(record->size > 0);
    /* The pool holds no lock during the callback, so every function may be called. */
    ok(weir_pool_get_stats(pool, &stats));
    ok(weir_pool_check(pool, NULL));
    ok(weir_pool_trim(pool, UINT64_MAX, 0, NULL));
    ok(weir_pool_find(pool, weir_block_address(helper->victim), &block));
    if (helper->give_up) {
        return false;
    }
    put(helper->w, helper->victim, A);
    return true;
}

TEST(test_the_callback_may_free_what_is_needed)
{
    struct helper helper = {.give_up = false};
    struct world w = open_world((struct wish){.capacity = REGION, .callback = free_the_victim, .ctx = &helper});
    helper.w = &w;
    helper.victim = get(&w, A, REGION);
    weir_block *block = get_by(&w, A, REGION, WEIR_RUNG_CALLBACK);
    assert_int_equal(helper.calls, 1);
    assert_int_equal(figures(&w).failures, 0); /* the request was served in the end */
    helper.victim = block;
    helper.give_up = true;
    refused(&w, A, REGION);
    assert_int_equal(helper.calls, 2);
    assert_int_equal(figures(&w).failures, 1);
    close_world(&w);
}

/* The callback may use the pool, in its own and in any other thread, because the pool holds no lock meanwhile. */
struct bystander {
    weir_pool *pool;
    weir_stream *stream;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t done_now;
    bool done;
    bool done_in_time;
};

static void *use_the_pool(void *ctx)
{
    struct bystander *other = ctx;
    weir_block *block = NULL;
    if (weir_pool_alloc(other->pool, other->stream, 512, 0, &block) == WEIR_OK) {
        (void)weir_pool_free(other->pool, block, other->stream);
    }
    (void)pthread_mutex_lock(&other->mutex);
    other->done = true;
    (void)pthread_cond_signal(&other->done_now);
    (void)pthread_mutex_unlock(&other->mutex);
    return NULL;
}

static bool wait_for_a_bystander(void *ctx, weir_pool *pool, const weir_oom_record *record)
{
    struct bystander *other = ctx;
    struct timespec until;
    (void)record;
    other->pool = pool;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 15; /* a thread that is only slow, on a busy machine, is done by then */
    assert_int_equal(pthread_create(&other->thread, NULL, use_the_pool, other), 0);
    (void)pthread_mutex_lock(&other->mutex);
    while (!other->done && pthread_cond_timedwait(&other->done_now, &other->mutex, &until) == 0) {
    }
    other->done_in_time = other->done;
    (void)pthread_mutex_unlock(&other->mutex);
    return false;
}

TEST(test_t5_the_callback_holds_no_lock)
{
    struct bystander other = {.mutex = PTHREAD_MUTEX_INITIALIZER, .done_now = PTHREAD_COND_INITIALIZER};
    struct world w = open_world((struct wish){.capacity = REGION, .callback = wait_for_a_bystander, .ctx = &other});
    other.stream = w.stream[B];
    (void)get(&w, A, 512);
    refused(&w, A, 2 * REGION);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    if (!other.done_in_time) {
        print_error("while the callback ran another thread could not use the pool\n");
        fail();
    }
    close_world(&w);
}

/* --- the front cache --- */

TEST(test_the_front_cache_serves_its_own_stream_only)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get_by(&w, A, 1000, WEIR_RUNG_GROWN);
    const uint64_t address = weir_block_address(block);
    run_on(&w, block, A);
    put(&w, block, A);
    assert_int_equal(figures(&w).cached_bytes, 1024);
    block = get_by(&w, A, 1024, WEIR_RUNG_FRONT); /* the same number of granules */
    assert_int_equal(weir_block_address(block), address);
    assert_int_equal(weir_block_size(block), 1024);
    put(&w, block, A);
    block = get(&w, B, 1000);
    assert_int_not_equal(weir_block_address(block), address);
    block = get(&w, A, 1536); /* another size: the cached block would be too small */
    assert_int_not_equal(weir_block_address(block), address);
    assert_int_equal(figures(&w).served[WEIR_RUNG_FRONT], 1);
    close_world(&w);
}

TEST(test_the_front_cache_is_bounded)
{
    struct world w = open_world((struct wish){0});
    weir_block *blocks[100];
    for (int i = 0; i < 100; i++) {
        blocks[i] = get(&w, A, 512);
    }
    for (int i = 0; i < 100; i++) {
        put(&w, blocks[i], A);
    }
    const weir_pool_stats stats = figures(&w);
    assert_true(stats.cached_bytes > 0 && stats.cached_bytes <= stats.reserved_bytes / 32);
    close_world(&w);

    w = open_world((struct wish){.flags = WEIR_POOL_NO_FRONT_CACHE});
    put(&w, get(&w, A, 512), A);
    assert_int_equal(figures(&w).cached_bytes, 0);
    (void)get_by(&w, A, 512, WEIR_RUNG_LANE);
    close_world(&w);
}

/* Returns the bytes in the front cache after as many frees of different sizes as it has room for. */
static uint64_t fill_front_cache(struct world *w)
{
    enum { sizes = 40, blocks_each = 10 };
    weir_block *blocks[sizes * blocks_each];
    for (unsigned i = 0; i < sizes * blocks_each; i++) {
        blocks[i] = get(w, A, (i / blocks_each + 1) * 512);
    }
    for (unsigned i = 0; i < sizes * blocks_each; i++) {
        put(w, blocks[i], A);
    }
    return figures(w).cached_bytes;
}

/* Above 3/4 of the limit, of the soft limit or of the device, front caches hold at most 1/256 of the reserved bytes. */
TEST(test_the_front_cache_near_a_limit)
{
    struct world w = open_world((struct wish){.capacity = 4096 * REGION});
    (void)get(&w, A, 2048 * REGION);
    const uint64_t reserved = figures(&w).reserved_bytes;
    assert_true(fill_front_cache(&w) > reserved / 256);
    ok(weir_pool_set_limits(w.pool, 2304 * REGION, 0)); /* a new limit takes effect at once, without growth */
    const uint64_t cached = fill_front_cache(&w);
    assert_true(cached > 0 && cached <= figures(&w).reserved_bytes / 256);
    ok(weir_pool_set_limits(w.pool, 0, 0));
    assert_true(fill_front_cache(&w) > reserved / 256);
    close_world(&w);

    static const struct wish near[] = {{.capacity = 2304 * REGION},
                                       {.capacity = 4096 * REGION, .limit = 2304 * REGION}};
    for (size_t i = 0; i < 2; i++) {
        w = open_world(near[i]);
        (void)get(&w, A, 2048 * REGION);
        const uint64_t bytes = fill_front_cache(&w);
        assert_true(bytes > 0 && bytes <= figures(&w).reserved_bytes / 256);
        check(&w);
        close_world(&w);
    }
}

/* More blocks of every size than the front cache has room for, so that all slots are in use. */
TEST(test_p3_a_full_front_cache_takes_no_more)
{
    enum { sizes = 40, blocks_each = 10 };
    struct world w = open_world((struct wish){.capacity = 4096 * REGION});
    weir_block *blocks[sizes][blocks_each];
    (void)get(&w, A, 2048 * REGION); /* the cache's limit is a share of the reserved bytes */
    for (unsigned i = 0; i < sizes * blocks_each; i++) {
        blocks[i / blocks_each][i % blocks_each] = get(&w, A, (i / blocks_each + 1) * 512);
    }
    for (unsigned i = 0; i < sizes * blocks_each; i++) {
        put(&w, blocks[i / blocks_each][i % blocks_each], A);
    }
    assert_true(figures(&w).cached_bytes > 0 && figures(&w).cached_bytes < figures(&w).reserved_bytes / 32);
    check(&w);
    for (unsigned i = 0; i < sizes * blocks_each; i++) {
        (void)get(&w, A, (i / blocks_each + 1) * 512);
    }
    close_world(&w);
}

/* Allocates two large blocks, for tests that an event covers all frees before it and no later one. After their frees,
 * one waits in the register of the block freed last, the other among the large blocks of the front cache. */
static void get_two_large(struct world *w, weir_block *blocks[2])
{
    for (int i = 0; i < 2; i++) {
        blocks[i] = get(w, A, 2 * REGION);
    }
    for (int i = 0; i < 2; i++) {
        run_on(w, blocks[i], A);
    }
}

TEST(test_an_event_covers_large_frees_before_it)
{
    struct world w = open_world((struct wish){0});
    weir_block *blocks[2];
    get_two_large(&w, blocks);
    put(&w, blocks[0], A);
    put(&w, blocks[1], A);
    tell_order(&w, A, B);
    for (int i = 0; i < 2; i++) {
        run_on(&w, get_by(&w, B, 2 * REGION, WEIR_RUNG_ORDERED), B);
    }
    assert_int_equal(figures(&w).events_recorded, 0);
    close_world(&w);
}

TEST(test_an_event_of_the_pool_covers_large_frees_before_it)
{
    struct world w = open_world((struct wish){0});
    weir_block *blocks[2];
    weir_tick mark = 0;
    bool reached = false;
    get_two_large(&w, blocks);
    ok(weir_stream_mark(w.pool, w.stream[A], &mark));
    put(&w, blocks[0], A);
    put(&w, blocks[1], A);
    ok(weir_stream_reached(w.pool, w.stream[A], mark, true, &reached));
    assert_true(reached);
    for (int i = 0; i < 2; i++) {
        run_on(&w, get_by(&w, B, 2 * REGION, WEIR_RUNG_OPEN), B);
    }
    assert_int_equal(figures(&w).events_recorded, 1);
    close_world(&w);
}

TEST(test_an_event_does_not_cover_large_frees_after_it)
{
    struct world w = open_world((struct wish){0});
    weir_block *blocks[2];
    get_two_large(&w, blocks);
    tell_order(&w, A, B);
    for (int i = 0; i < 2; i++) {
        run_on(&w, blocks[i], A);
        put(&w, blocks[i], A);
    }
    for (int i = 0; i < 2; i++) {
        run_on(&w, get_by(&w, B, 2 * REGION, WEIR_RUNG_GROWN), B);
    }
    close_world(&w);
}

/* Large blocks in the front cache merge and serve a larger request of their stream without a device call. */
TEST(test_large_blocks_join_before_a_large_request)
{
    struct world w = open_world((struct wish){0});
    put(&w, get_by(&w, A, 4 * REGION, WEIR_RUNG_GROWN), A);
    weir_block *low = get_by(&w, A, 2 * REGION, WEIR_RUNG_LANE);
    weir_block *high = get_by(&w, A, 2 * REGION, WEIR_RUNG_LANE);
    run_on(&w, low, A);
    run_on(&w, high, A);
    put(&w, low, A);
    put(&w, high, A);
    (void)get_by(&w, A, 4 * REGION, WEIR_RUNG_LANE);
    assert_int_equal(figures(&w).events_recorded, 0);
    assert_int_equal(figures(&w).reserved_bytes, 4 * REGION);
    close_world(&w);
}

/* --- the ladder, rung by rung --- */

TEST(test_own_lane)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get_by(&w, A, REGION, WEIR_RUNG_GROWN);
    run_on(&w, block, A);
    put(&w, block, A);
    (void)get_by(&w, A, REGION / 2, WEIR_RUNG_LANE);
    (void)get_by(&w, A, REGION / 2, WEIR_RUNG_LANE);
    close_world(&w);
}

TEST(test_open_lane)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    put(&w, block, A);
    sync_stream(w.sim, w.native[A]);
    ok(weir_stream_synced(w.pool, w.stream[A]));
    (void)get_by(&w, B, REGION, WEIR_RUNG_OPEN);
    close_world(&w);

    w = open_world((struct wish){0});
    block = get(&w, A, REGION);
    weir_sim_block_free(w.sim, weir_block_address(block), NULL, "free");
    ok(weir_pool_free_idle(w.pool, block));
    (void)get_by(&w, B, REGION, WEIR_RUNG_OPEN);
    close_world(&w);
}

/* B waits for A and C waits for B: so C is ordered after A although it never waited for A itself. */
TEST(test_ordered_through_a_third_stream)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    put(&w, block, A);
    tell_order(&w, A, B);
    tell_order(&w, B, C);
    (void)get_by(&w, C, REGION, WEIR_RUNG_ORDERED);
    assert_int_equal(figures(&w).waits, 0);
    close_world(&w);
}

/* C waited for an event of B from before B waited for A: that is no order between A and C. */
TEST(test_an_older_event_orders_only_the_work_before_it)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    put(&w, block, A);
    tell_order(&w, B, C);
    tell_order(&w, A, B);
    (void)get_by(&w, C, REGION, WEIR_RUNG_GROWN);
    close_world(&w);
}

/* C waits late for an event that B recorded before it waited for A: that is no order between A and C either. */
TEST(test_an_event_orders_no_work_after_it)
{
    struct world w = open_world((struct wish){0});
    weir_event *early = new_event(w.sim);
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    put(&w, block, A);
    ok(weir_device_event_record(w.device, early, w.native[B]));
    ok(weir_stream_recorded(w.pool, early, w.stream[B]));
    tell_order(&w, A, B);
    ok(weir_device_stream_wait_event(w.device, w.native[C], early));
    ok(weir_stream_waited(w.pool, w.stream[C], early));
    (void)get_by(&w, C, REGION, WEIR_RUNG_GROWN);
    ok(weir_event_forgotten(w.pool, early));
    ok(weir_device_event_destroy(w.device, early));
    close_world(&w);
}

TEST(test_polled)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    put(&w, block, A);
    weir_sim_advance(w.sim, 2 * LONG_NS);
    (void)get_by(&w, B, REGION, WEIR_RUNG_POLLED);
    assert_int_equal(figures(&w).waits, 0);
    close_world(&w);
}

TEST(test_flushed)
{
    struct world w = open_world((struct wish){0});
    weir_block *large = get(&w, A, REGION - 512);
    weir_block *small = get(&w, A, 512);
    put(&w, small, A);
    put(&w, large, A);
    assert_int_equal(figures(&w).cached_bytes, 512);
    (void)get_by(&w, A, REGION, WEIR_RUNG_FLUSHED);
    close_world(&w);
}

/* Growth flushes the larger cached blocks, which may serve the request once they have merged. Small blocks stay cached:
 * in a pool of 4 GiB those below 8 KiB. */
TEST(test_growth_leaves_small_blocks_in_the_front_cache)
{
    struct world w = open_world((struct wish){.capacity = UINT64_C(16) << 30});
    (void)get(&w, A, UINT64_C(4) << 30);
    weir_block *small = get(&w, A, 512);
    weir_block *larger = get(&w, A, 64 << 10);
    put(&w, small, A);
    put(&w, larger, A);
    assert_int_equal(figures(&w).cached_bytes, 512 + (64 << 10));
    (void)get_by(&w, A, 8 << 20, WEIR_RUNG_GROWN);
    assert_int_equal(figures(&w).cached_bytes, 512);
    (void)get_by(&w, A, 512, WEIR_RUNG_FRONT);
    close_world(&w);
}

TEST(test_gathered)
{
    struct world w = open_world((struct wish){0});
    weir_block *low = get(&w, A, REGION / 2);
    weir_block *high = get(&w, A, REGION / 2);
    run_on(&w, low, A);
    run_on(&w, high, A);
    tell_order(&w, A, B);
    put(&w, low, A); /* no work was queued since the event, but the pool cannot know that */
    tell_order(&w, A, B);
    put(&w, high, B);
    (void)get_by(&w, B, REGION, WEIR_RUNG_GATHERED);
    assert_int_equal(figures(&w).waits, 0);
    close_world(&w);
}

TEST(test_waited_or_grown_as_the_policy_says)
{
    static const struct {
        weir_growth growth;
        weir_rung rung;
    } cases[] = {
        {WEIR_GROWTH_WAIT_FIRST, WEIR_RUNG_WAITED},
        {WEIR_GROWTH_GROW_FIRST, WEIR_RUNG_GROWN},
        {WEIR_GROWTH_BALANCED, WEIR_RUNG_WAITED}, /* as much again as was ever live is dearer than a wait */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w = open_world((struct wish){.growth = cases[i].growth, .balanced = true});
        weir_block *block = get(&w, A, REGION);
        run_on(&w, block, A);
        put(&w, block, A);
        (void)get_by(&w, B, REGION, cases[i].rung);
        assert_int_equal(figures(&w).waits, cases[i].rung == WEIR_RUNG_WAITED);
        assert_int_equal(figures(&w).syncs, 0);
        close_world(&w);
    }
    /* A region of 1/300 of what is live is cheaper than a wait, unless more than half of the device is reserved. */
    for (int scarce = 0; scarce < 2; scarce++) {
        struct world w = open_world((struct wish){.capacity = scarce != 0 ? 500 * REGION : 1000 * REGION,
                                                  .flags = WEIR_POOL_NO_FRONT_CACHE,
                                                  .balanced = true});
        (void)get(&w, A, 299 * REGION);
        weir_block *block = get(&w, A, REGION);
        run_on(&w, block, A);
        put(&w, block, A);
        (void)get_by(&w, B, REGION, scarce != 0 ? WEIR_RUNG_WAITED : WEIR_RUNG_GROWN);
        close_world(&w);
    }
}

TEST(test_exchanged)
{
    struct world w = open_world((struct wish){0});
    put(&w, get(&w, A, REGION), A);
    (void)get_by(&w, A, 2 * REGION, WEIR_RUNG_EXCHANGED);
    assert_int_equal(figures(&w).region_frees, 1);
    assert_int_equal(figures(&w).reserved_bytes, 2 * REGION);
    close_world(&w);

    w = open_world((struct wish){.flags = WEIR_POOL_KEEP_IDLE_REGIONS});
    put(&w, get(&w, A, REGION), A);
    (void)get_by(&w, A, 2 * REGION, WEIR_RUNG_GROWN);
    assert_int_equal(figures(&w).region_frees, 0);
    close_world(&w);
}

TEST(test_flushed_all)
{
    struct world w = open_world((struct wish){.no_ordering = true});
    (void)get(&w, A, 15 * REGION); /* one region remains; the front caches of a full pool of 16 regions hold 4 KiB */
    weir_block *large = get(&w, A, REGION - 512);
    weir_block *small = get(&w, A, 512);
    put(&w, small, B);
    put(&w, large, A);
    (void)get_by(&w, A, REGION, WEIR_RUNG_FLUSHED_ALL);
    close_world(&w);
}

static void let_waits_fail(const struct world *w)
{
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_STREAM_WAIT_EVENT;
    fault.nth = 1;
    fault.repeat = true;
    ok(weir_sim_fault_arm(w->sim, &fault));
}

/* The memory waits for two streams: the requesting stream waits for both on the device, or the host does. */
static void take_from_two(bool waits_fail)
{
    struct world w = open_world((struct wish){.capacity = REGION});
    weir_block *block = get(&w, A, REGION);
    use(&w, block, B);
    run_on(&w, block, A);
    order(w.sim, w.native[A], w.native[B]);
    run_on(&w, block, B);
    put(&w, block, A);
    assert_int_equal(figures(&w).pending_bytes, REGION);
    if (waits_fail) {
        let_waits_fail(&w);
    }
    (void)get_by(&w, C, REGION, waits_fail ? WEIR_RUNG_SYNCED : WEIR_RUNG_WAITED);
    assert_int_equal(figures(&w).waits, waits_fail ? 0 : 2);
    assert_int_equal(figures(&w).syncs > 0, waits_fail);
    close_world(&w);
}

TEST(test_waited_for_two)
{
    take_from_two(false);
}

TEST(test_synced)
{
    take_from_two(true);
}

/* --- upkeep --- */

TEST(test_trim)
{
    struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
    uint64_t released = 0;
    weir_block *idle = get(&w, A, REGION);
    weir_block *busy_block = get(&w, B, REGION);
    weir_block *live = get(&w, C, REGION);
    run_on(&w, busy_block, B);
    run_on(&w, live, C);
    put(&w, idle, A);
    put(&w, busy_block, B);
    ok(weir_pool_trim(w.pool, 3 * REGION, 0, &released));
    assert_int_equal(released, 0); /* the reserved bytes are below keep_bytes already */
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(released, REGION);
    assert_int_equal(figures(&w).live_bytes, REGION);
    assert_int_equal(figures(&w).syncs, 0);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, &released));
    assert_int_equal(released, REGION);
    assert_int_equal(figures(&w).reserved_bytes, REGION);
    assert_int_equal(figures(&w).peak_reserved_bytes, 3 * REGION); /* a trim does not reset the peak */
    assert_int_equal(figures(&w).allocs, 3);
    put(&w, live, C);
    ok(weir_pool_trim(w.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(figures(&w).reserved_bytes, 0);
    close_world(&w);
}

TEST(test_trim_reaches_the_front_caches)
{
    struct world w = open_world((struct wish){0});
    uint64_t released = 0;
    put(&w, get(&w, A, 512), A);
    put(&w, get(&w, B, 512), B);
    assert_true(figures(&w).cached_bytes > 0);
    ok(weir_pool_trim(w.pool, 0, 0, &released));
    assert_int_equal(figures(&w).reserved_bytes, 0);
    close_world(&w);
}

/* A new stream with the native handle of a retired stream inherits none of its state (mutant S5). */
TEST(test_a_stream_in_the_place_of_a_retired_one_inherits_nothing)
{
    struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
    weir_block *block = get(&w, B, REGION);
    weir_block *mine = get(&w, A, REGION);
    run_on(&w, block, B);
    run_on(&w, mine, A);
    put(&w, mine, A);
    tell_order(&w, B, A); /* A is ordered after B's work so far */
    ok(weir_stream_retire(w.pool, w.stream[A]));
    fails(weir_stream_retire(w.pool, w.stream[A]), WEIR_ERR_INVALID);
    ok(weir_sim_stream_destroy(w.sim, w.native[A]));
    assert_int_equal(figures(&w).streams, streams - 1);
    w.native[A] = new_stream(w.sim);
    ok(weir_pool_stream(w.pool, w.native[A], &w.stream[A]));
    put(&w, block, B);
    /* The new stream does not inherit the order after B. The retire waited for the memory that the old stream freed. */
    weir_block *first = get(&w, A, REGION);
    weir_block *second = get(&w, A, REGION);
    run_on(&w, first, A);
    run_on(&w, second, A);
    assert_int_equal(figures(&w).waits, 0);
    close_world(&w);
}

TEST(test_blocks_outlive_their_stream)
{
    struct world w = open_world((struct wish){0});
    weir_block *one = get(&w, A, 5000);
    weir_block *two = get(&w, A, 5000);
    run_on(&w, one, A);
    use(&w, two, A);
    ok(weir_stream_retire(w.pool, w.stream[A]));
    ok(weir_sim_stream_destroy(w.sim, w.native[A]));
    put(&w, one, B);
    weir_sim_block_free(w.sim, weir_block_address(two), NULL, "free");
    ok(weir_pool_free_idle(w.pool, two));
    assert_int_equal(figures(&w).live_bytes, 0);
    ok(weir_pool_trim(w.pool, 0, 0, NULL));
    assert_int_equal(figures(&w).reserved_bytes, 0);
    w.native[A] = new_stream(w.sim);
    close_world(&w);
}

/* The pool makes no device call for a stream that is known to have ended, and all streams may use its memory. */
TEST(test_an_ended_stream_is_not_queried)
{
    struct world w = open_world((struct wish){0});
    weir_block *live = get(&w, A, 5000);
    weir_block *block = get(&w, A, 4 * REGION);
    assert_ptr_equal(weir_block_stream(block), w.stream[A]);
    run_on(&w, block, A);
    put(&w, block, A);
    ok(weir_device_stream_sync(w.device, w.native[A]));
    ok(weir_stream_ended(w.pool, w.stream[A]));
    fails(weir_stream_ended(w.pool, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_stream_ended(NULL, w.stream[B]), WEIR_ERR_INVALID);
    fails(weir_stream_ended(w.pool, NULL), WEIR_ERR_INVALID);
    (void)get_by(&w, B, 4 * REGION, WEIR_RUNG_OPEN);
    const weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.events_recorded + stats.waits + stats.syncs, 0);
    put(&w, live, B);
    check(&w);
    w.stream[A] = NULL;
    ok(weir_pool_stream(w.pool, w.native[A], &w.stream[A]));
    close_world(&w);
}

static int destroy_in_a_child(weir_pool *pool)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit(weir_pool_destroy(pool) == WEIR_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

TEST(test_a_held_pool_is_not_destroyed)
{
    struct world w = open_world((struct wish){0});
    fails(weir_pool_hold(NULL), WEIR_ERR_INVALID);
    fails(weir_pool_release(NULL), WEIR_ERR_INVALID);
    fails(weir_pool_release(w.pool), WEIR_ERR_INVALID);
    ok(weir_pool_hold(w.pool));
    ok(weir_pool_hold(w.pool));
    weir_block *block = get(&w, A, 5000);
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    assert_int_equal(figures(&w).live_bytes, weir_block_capacity(block));
    ok(weir_pool_release(w.pool));
    fails(weir_pool_destroy(w.pool), WEIR_ERR_BUSY);
    /* the parent's holds do not keep a child from destroying the pool */
    assert_int_equal(destroy_in_a_child(w.pool), 0);
    put(&w, block, A);
    ok(weir_pool_release(w.pool));
    fails(weir_pool_release(w.pool), WEIR_ERR_INVALID);
    close_world(&w);
}

TEST(test_a_device_under_a_pool_is_not_destroyed)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, 5000);
    fails(weir_sim_destroy(w.sim), WEIR_ERR_BUSY);
    fails(weir_device_destroy(weir_sim_device(w.sim)), WEIR_ERR_BUSY);
    put(&w, block, A); /* the pool still works */
    close_world(&w);
}

/* The default stream is a stream, not "no stream" (mutant S3). */
TEST(test_the_null_stream_is_an_ordinary_stream)
{
    struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
    weir_stream *none = NULL;
    weir_stream *again = NULL;
    weir_block *block = NULL;
    ok(weir_pool_stream(w.pool, NULL, &none));
    ok(weir_pool_stream(w.pool, NULL, &again));
    assert_ptr_equal(none, again);
    ok(weir_pool_alloc(w.pool, none, REGION, 0, &block));
    const uint64_t address = weir_block_address(block);
    weir_sim_block_alloc(w.sim, address, REGION, weir_sim_default_stream(w.sim), "on NULL");
    writes(w.sim, NULL, address, REGION, "kernel");
    weir_sim_block_free(w.sim, address, weir_sim_default_stream(w.sim), "free");
    ok(weir_pool_free(w.pool, block, none));
    (void)get_by(&w, B, REGION, WEIR_RUNG_GROWN);
    close_world(&w);
}

TEST(test_two_pools_on_one_device)
{
    struct world w = open_world((struct wish){.capacity = 4 * REGION});
    weir_pool *second = pool_over(w.sim, &(struct wish){.limit = 2 * REGION});
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    weir_block *more = NULL;
    ok(weir_pool_stream(second, w.native[A], &stream));
    assert_ptr_not_equal(stream, w.stream[A]);
    (void)get(&w, A, 3 * REGION);
    ok(weir_pool_alloc(second, stream, REGION, 0, &block));
    fails(weir_pool_alloc(second, stream, REGION, 0, &more), WEIR_ERR_NO_MEMORY);
    fails(weir_pool_free(w.pool, block, w.stream[A]), WEIR_ERR_INVALID);
    fails(weir_pool_find(w.pool, weir_block_address(block), &more), WEIR_ERR_INVALID);
    ok(weir_pool_free(second, block, stream));
    ok(weir_pool_destroy(second));
    (void)get(&w, A, REGION);
    close_world(&w);
}

/* A trim waits for the streams of its own pool's device (mutant S7). */
TEST(test_trim_waits_on_its_own_device)
{
    struct world one = open_world((struct wish){0});
    struct world two = open_world((struct wish){0});
    weir_stream *stream_of_one = NULL;
    weir_stream *stream_of_two = NULL;
    weir_block *block = NULL;
    ok(weir_pool_stream(one.pool, NULL, &stream_of_one));
    ok(weir_pool_stream(two.pool, NULL, &stream_of_two));
    ok(weir_pool_alloc(one.pool, stream_of_one, REGION, 0, &block));
    weir_sim_block_alloc(one.sim, weir_block_address(block), REGION, weir_sim_default_stream(one.sim), "block");
    writes(one.sim, NULL, weir_block_address(block), REGION, "kernel");
    weir_sim_block_free(one.sim, weir_block_address(block), weir_sim_default_stream(one.sim), "free");
    ok(weir_pool_free(one.pool, block, stream_of_one));
    ok(weir_pool_trim(two.pool, 0, WEIR_TRIM_WAIT, NULL));
    ok(weir_pool_trim(one.pool, 0, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(figures(&one).reserved_bytes, 0);
    close_world(&one);
    close_world(&two);
}

TEST(test_a_forked_child_may_destroy)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, 5000);
    run_on(&w, block, A);
    put(&w, get(&w, B, 512), B);
    const pid_t child = fork();
    if (child == 0) {
        _exit(weir_pool_destroy(w.pool) == WEIR_OK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    put(&w, block, A); /* the parent's pool still works */
    close_world(&w);
}

TEST(test_a_single_threaded_pool_does_the_same)
{
    struct world w = open_world((struct wish){.capacity = 2 * REGION, .flags = WEIR_POOL_SINGLE_THREADED});
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    use(&w, block, B);
    put(&w, block, A);
    weir_block *other = get(&w, B, REGION);
    run_on(&w, other, B);
    put(&w, other, B);
    /* the memory is idle after waits for both streams */
    weir_block *both = get_by(&w, C, 2 * REGION, WEIR_RUNG_EXCHANGED);
    run_on(&w, both, C);
    assert_true(figures(&w).syncs >= 1);
    close_world(&w);
}

/* On a device without ordering, queued work is always complete: all streams may use freed memory at once. */
TEST(test_a_synchronous_device)
{
    struct world w = open_world((struct wish){.no_ordering = true});
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    use(&w, block, B);
    put(&w, block, A);
    (void)get_by(&w, C, REGION, WEIR_RUNG_LANE);
    ok(weir_stream_retire(w.pool, w.stream[A]));
    const weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.events_recorded + stats.waits + stats.syncs, 0);
    close_world(&w);
}

/* --- statistics and recording --- */

TEST(test_statistics)
{
    struct world w = {.sim = device_of(&(struct wish){0})};
    w.device = weir_sim_device(w.sim);
    w.pool = pool_over(w.sim, &(struct wish){0});
    w.native[A] = new_stream(w.sim);
    ok(weir_pool_stream(w.pool, w.native[A], &w.stream[A]));
    weir_block *block = get(&w, A, 3 * REGION);
    put(&w, block, A);
    block = get(&w, A, 1000);
    weir_pool_stats stats = figures(&w);
    assert_int_equal(stats.allocs, 2);
    assert_int_equal(stats.frees, 1);
    assert_int_equal(stats.requested_bytes, 1000);
    assert_int_equal(stats.live_bytes, 1024);
    assert_int_equal(stats.peak_requested_bytes, 3 * REGION);
    assert_int_equal(stats.peak_live_bytes, 3 * REGION);
    assert_int_equal(stats.sizes[9], 1);  /* 512 to 1023 */
    assert_int_equal(stats.sizes[17], 1); /* 128 to 256 KiB */
    assert_int_equal(stats.streams, 1);
    assert_int_equal(stats.regions, stats.region_allocs - stats.region_frees);
    assert_true(stats.external_fragmentation >= 0.0 && stats.external_fragmentation < 1.0);
    /* A second stream does not change the peaks so far. */
    w.native[B] = new_stream(w.sim);
    ok(weir_pool_stream(w.pool, w.native[B], &w.stream[B]));
    assert_int_equal(figures(&w).peak_live_bytes, 3 * REGION);
    /* The sums are right although the block is freed on another stream than it was allocated on. */
    order(w.sim, w.native[A], w.native[B]);
    put(&w, block, B);
    stats = figures(&w);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.live_bytes, 0);
    assert_int_equal(stats.streams, 2);
    close_world(&w);
}

/* Every rung has a name of its own, and a number past the last rung has none (mutant X3). */
TEST(test_every_rung_has_a_name)
{
    for (int i = 0; i < WEIR_RUNG_COUNT; i++) {
        const char *name = weir_rung_name((weir_rung)i);
        assert_non_null(name);
        assert_string_not_equal(name, "unknown rung");
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(name, weir_rung_name((weir_rung)k));
        }
    }
    assert_string_equal(weir_rung_name(WEIR_RUNG_COUNT), "unknown rung");
    assert_string_equal(weir_rung_name((weir_rung)-1), "unknown rung");
}

struct seen {
    unsigned states[WEIR_WALK_PENDING + 1];
    unsigned visits;
    unsigned stop_after;
};

static bool see(void *ctx, const weir_walk_entry *entry)
{
    struct seen *seen = ctx;
    seen->states[entry->state]++;
    assert_true(entry->address >= entry->region_address);
    assert_true(entry->address + entry->size <= entry->region_address + entry->region_size);
    assert_true((entry->block != NULL) == (entry->state == WEIR_WALK_LIVE));
    return ++seen->visits != seen->stop_after;
}

TEST(test_walk_shows_every_state)
{
    struct world w = open_world((struct wish){0});
    weir_block *cached = get(&w, A, 512);
    weir_block *live = get(&w, A, 4096);
    weir_block *pending = get(&w, A, 8192);
    run_on(&w, pending, A);
    use(&w, pending, B);
    put(&w, pending, C);
    put(&w, cached, A);
    struct seen seen = {.stop_after = 0};
    ok(weir_pool_walk(w.pool, see, &seen));
    assert_int_equal(seen.states[WEIR_WALK_FREE], 1);
    assert_int_equal(seen.states[WEIR_WALK_LIVE], 1);
    assert_int_equal(seen.states[WEIR_WALK_CACHED], 1);
    assert_int_equal(seen.states[WEIR_WALK_PENDING], 1);
    seen = (struct seen){.stop_after = 2};
    ok(weir_pool_walk(w.pool, see, &seen));
    assert_int_equal(seen.visits, 2);
    put(&w, live, A);
    ok(weir_device_stream_sync(w.device, w.native[A]));
    close_world(&w);
}

struct dumped {
    char text[16384];
    size_t length;
};

static void keep_line(void *ctx, const char *line)
{
    struct dumped *dumped = ctx;
    const size_t left = sizeof(dumped->text) - dumped->length;
    assert_null(strchr(line, '\n'));
    const int wrote = snprintf(dumped->text + dumped->length, left, "%s\n", line);
    assert_in_range(wrote, 1, left - 1);
    dumped->length += (size_t)wrote;
}

static void has_range(const struct dumped *dumped, uint64_t address, uint64_t size, const char *state)
{
    char line[128];
    (void)snprintf(line, sizeof(line), "\n  0x%" PRIx64 ": %" PRIu64 " bytes, %s", address, size, state);
    assert_non_null(strstr(dumped->text, line));
}

TEST(test_dump_prints_limits_streams_regions_and_ranges)
{
    struct world w = open_world((struct wish){.limit = 4 * REGION});
    weir_block *cached = get(&w, A, 512);
    weir_block *live = get(&w, A, 4000);
    weir_block *pending = get(&w, A, 8192);
    const uint64_t cached_at = weir_block_address(cached);
    const uint64_t pending_at = weir_block_address(pending);
    run_on(&w, pending, A);
    use(&w, pending, B);
    put(&w, pending, C);
    put(&w, cached, A);
    weir_pool_stats before = WEIR_POOL_STATS_INIT;
    weir_pool_stats after = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w.pool, &before));
    struct dumped dumped = {.length = 0};
    ok(weir_pool_dump(w.pool, keep_line, &dumped));
    ok(weir_pool_get_stats(w.pool, &after));
    assert_memory_equal(&before, &after, sizeof(before));

    char line[128];
    (void)snprintf(line, sizeof(line), "\n  limits: soft 0, hard %" PRIu64 "\n", (uint64_t)(4 * REGION));
    assert_non_null(strstr(dumped.text, line));
    assert_non_null(strstr(dumped.text, "\nstream 4: native "));
    assert_null(strstr(dumped.text, "\nstream 5: "));
    assert_non_null(strstr(dumped.text, "\nregion 0x"));
    has_range(&dumped, weir_block_address(live), 4096, "live, stream 1, requested 4000\n");
    has_range(&dumped, cached_at, 512, "cached, stream 1, requested 0\n");
    has_range(&dumped, pending_at, 8192, "pending, ");
    assert_non_null(strstr(dumped.text, " bytes, free, stream "));
    put(&w, live, A);
    ok(weir_device_stream_sync(w.device, w.native[A]));
    close_world(&w);
}

TEST(test_a_recording_pairs_allocs_with_frees)
{
    struct world w = open_world((struct wish){0});
    struct kept recording = {.length = 0};
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = keep;
    config.sink_ctx = &recording;
    weir_recorder *recorder = NULL;
    weir_block *before = get(&w, A, 700);
    ok(weir_recorder_start(w.pool, &config, &recorder));
    fails(weir_recorder_start(w.pool, &config, &recorder), WEIR_ERR_BUSY);
    for (int i = 0; i < 5; i++) {
        weir_block *block = get(&w, i % 2 == 0 ? A : B, 512u << i);
        use(&w, block, C);
        put(&w, block, i % 2 == 0 ? A : B);
    }
    tell_order(&w, A, B);
    put(&w, before, A);
    uint64_t lost = 7;
    ok(weir_recorder_stop(recorder, &lost));
    assert_int_equal(lost, 0);
    uint64_t live[16] = {0};
    unsigned allocs = 0;
    unsigned frees = 0;
    for (char *line = strtok(recording.text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        uint64_t time = 0;
        uint64_t id = 0;
        if (sscanf(line, "a %" SCNu64 " %" SCNu64, &time, &id) == 2 || sscanf(line, "p %" SCNu64, &id) == 1) {
            live[allocs++] = id;
        } else if (sscanf(line, "f %" SCNu64 " %" SCNu64, &time, &id) == 2) {
            unsigned i = 0;
            while (i < allocs && live[i] != id) {
                i++;
            }
            assert_true(i < allocs); /* each allocation is freed once */
            live[i] = UINT64_MAX;
            frees++;
        }
    }
    assert_int_equal(allocs, 6);
    assert_int_equal(frees, 6);
    close_world(&w);
}

/* --- bugs of other allocators: reuse across streams --- */

/* A merged range has the tick of the neighbour that was freed later. */
TEST(test_s1_a_merged_range_has_its_latest_tick)
{
    for (int low_first = 0; low_first < 2; low_first++) {
        struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
        weir_block *halves[2];
        halves[0] = get(&w, A, REGION / 2);
        halves[1] = get(&w, A, REGION / 2);
        put(&w, halves[low_first ? 0 : 1], A);
        tell_order(&w, A, B);
        run_on(&w, halves[low_first ? 1 : 0], A);
        put(&w, halves[low_first ? 1 : 0], A);
        weir_block *block = get_by(&w, B, REGION, WEIR_RUNG_GROWN);
        run_on(&w, block, B);
        close_world(&w);
    }
}

/* The part of a merged range that B does not use is in B's lane with B's current tick, not with an older one. */
TEST(test_s1_a_merge_keeps_the_later_tick)
{
    struct world w = open_world((struct wish){.capacity = 2 * REGION, .growth = WEIR_GROWTH_WAIT_FIRST});
    weir_block *x = get(&w, A, REGION / 4);
    weir_block *y = get(&w, A, REGION / 4);
    (void)get(&w, A, REGION / 2);
    tell_order(&w, B, C); /* C is ordered after an old point of B */
    run_on(&w, x, A);
    run_on(&w, y, A);
    put(&w, x, A);
    put(&w, y, A);
    weir_block *taken = get_by(&w, B, REGION / 4 + 512, WEIR_RUNG_WAITED);
    run_on(&w, taken, B);
    weir_block *rest = get(&w, C, REGION / 4 - 512);
    run_on(&w, rest, C);
    close_world(&w);
}

/* Two neighbours that two different streams have freed do not merge in the lane of either stream. */
TEST(test_s1_neighbours_of_two_streams_do_not_merge)
{
    struct world w = open_world((struct wish){0});
    put(&w, get_by(&w, A, 4 * REGION, WEIR_RUNG_GROWN), A);
    weir_block *low = get_by(&w, A, 2 * REGION, WEIR_RUNG_LANE);
    weir_block *high = get_by(&w, A, 2 * REGION, WEIR_RUNG_LANE);
    tell_order(&w, A, B);
    run_on(&w, low, B);
    run_on(&w, high, A);
    put(&w, high, A);
    tell_order(&w, A, C); /* moves `high` from the front cache to A's lane */
    put(&w, low, B);
    run_on(&w, get_by(&w, B, 4 * REGION, WEIR_RUNG_GROWN), B);
    close_world(&w);
}

/* A stream merges ranges of two lanes, its own and another one, or two lanes of other streams. The unused rest has the
 * stream's current tick. */
TEST(test_s1_gathering_leaves_a_rest_as_of_now)
{
    static const int others[] = {B, D};
    for (int i = 0; i < 2; i++) {
        struct world w = open_world((struct wish){.capacity = REGION});
        weir_block *x = get(&w, A, REGION / 2);
        weir_block *y = get(&w, others[i], REGION / 2);
        for (int events = 0; events < 5; events++) { /* the ticks of B run ahead of the donors' */
            tell_order(&w, B, C);
        }
        run_on(&w, x, A);
        put(&w, x, A);
        tell_order(&w, A, B);
        run_on(&w, y, others[i]);
        put(&w, y, others[i]);
        if (others[i] != B) {
            tell_order(&w, others[i], B);
        }
        weir_block *taken = get_by(&w, B, REGION - 4096, WEIR_RUNG_GATHERED);
        run_on(&w, taken, B);
        weir_block *rest = get(&w, C, 4096);
        run_on(&w, rest, C);
        close_world(&w);
    }
}

/* If a stream takes a part of a range from another lane, the rest keeps that lane and its tick. */
TEST(test_s2_a_split_keeps_the_owner)
{
    struct world w = open_world((struct wish){.capacity = REGION});
    weir_block *block = get(&w, A, REGION);
    tell_order(&w, B, C);
    run_on(&w, block, A);
    put(&w, block, A);
    tell_order(&w, A, B);
    weir_block *half = get_by(&w, B, REGION / 2, WEIR_RUNG_ORDERED);
    run_on(&w, half, B);
    weir_block *rest = get(&w, C, REGION / 2);
    run_on(&w, rest, C);
    close_world(&w);
}

/* Freed memory belongs to the lane of the stream named in the free, not of the allocating stream. */
TEST(test_s4_the_freeing_stream_decides)
{
    static const uint64_t sizes[] = {512, REGION}; /* through the front cache, and past it */
    for (int i = 0; i < 2; i++) {
        struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
        weir_block *block = get(&w, A, sizes[i]);
        run_on(&w, block, A);
        order(w.sim, w.native[A], w.native[B]);
        run_on(&w, block, B);
        put(&w, block, B);
        weir_block *next = get(&w, A, sizes[i]);
        run_on(&w, next, A);
        close_world(&w);
    }
}

/* No region goes back to the device while work on it is queued, even if a request would fail otherwise (mutant O3). */
TEST(test_s8_regions_go_back_only_after_their_work)
{
    struct world w = open_world((struct wish){.capacity = 2 * REGION});
    weir_block *one = get(&w, A, REGION);
    weir_block *two = get(&w, B, REGION);
    run_on(&w, one, A);
    run_on(&w, two, B);
    put(&w, one, A);
    put(&w, two, B);
    tell_order(&w, A, C); /* an order between streams does not tell the host that work is complete */
    tell_order(&w, B, C);
    weir_block *both = get(&w, C, 2 * REGION);
    run_on(&w, both, C);
    assert_true(figures(&w).syncs >= 1);
    assert_int_equal(figures(&w).region_frees, 2);
    close_world(&w);
}

/* A block has uses on B, C and D, noted in every order, once or twice, also on the freeing stream. Each stream in turn
 * has the longest kernel. */
TEST(test_s9_no_use_is_forgotten)
{
    static const int orders[6][3] = {{B, C, D}, {B, D, C}, {C, B, D}, {C, D, B}, {D, B, C}, {D, C, B}};
    for (int i = 0; i < 6 * 4 * 2; i++) {
        const int *uses = orders[i % 6];
        const int slow = i / 6 % 4; /* A: no user is slow */
        struct world w = open_world((struct wish){.capacity = 2 * REGION, .growth = WEIR_GROWTH_GROW_FIRST});
        weir_block *block = get(&w, A, REGION);
        for (int k = 0; k < 3; k++) {
            use(&w, block, uses[k]);
            if (i >= 24) {
                use(&w, block, uses[k]);
                use(&w, block, A);
            }
        }
        for (int k = B; k <= D; k++) {
            order(w.sim, w.native[A], w.native[k]);
            touch(w.sim, w.native[k], weir_block_address(block), REGION, false, k == slow ? 100 * LONG_NS : 10,
                  "reader");
        }
        put(&w, block, A);
        weir_sim_advance(w.sim, LONG_NS); /* all kernels but the slow one are complete */
        weir_block *next = get(&w, A, REGION);
        run_on(&w, next, A);
        weir_block *after = get(&w, B, REGION);
        run_on(&w, after, B);
        close_world(&w);
    }
}

/* If another stream frees the block, the allocating stream may be noted as a user like any other stream. */
TEST(test_s9_the_owner_may_be_a_user)
{
    struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
    weir_block *block = get(&w, A, REGION);
    use(&w, block, A);
    run_on(&w, block, A);
    put(&w, block, B);
    weir_block *next = get(&w, B, REGION);
    run_on(&w, next, B);
    next = get(&w, C, REGION);
    run_on(&w, next, C);
    close_world(&w);
}

TEST(test_s9_work_after_the_end_of_a_use_needs_a_new_one)
{
    struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
    weir_block *block = get(&w, A, REGION);
    use(&w, block, B);
    order(w.sim, w.native[A], w.native[B]);
    run_on(&w, block, B);
    ok(weir_pool_use_end(w.pool, block, w.stream[B]));
    tell_order(&w, B, A); /* the event is recorded after the end of the use, so it orders A after all work of the use */
    put(&w, block, A);
    assert_int_equal(figures(&w).pending_bytes, 0);
    block = get_by(&w, A, REGION, WEIR_RUNG_LANE);
    use(&w, block, B);
    ok(weir_pool_use_end(w.pool, block, w.stream[B]));
    use(&w, block, B); /* a second use, which lasts until the free */
    tell_order(&w, B, A);
    order(w.sim, w.native[A], w.native[B]);
    run_on(&w, block, B);
    put(&w, block, A);
    weir_block *next = get(&w, A, REGION);
    run_on(&w, next, A);
    close_world(&w);
}

/* A free drops the block's tag but not its uses. */
TEST(test_s9_a_tagged_block_has_uses_too)
{
    struct world w = open_world((struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
    weir_tag tag = 0;
    weir_block *block = NULL;
    ok(weir_pool_tag(w.pool, "weights", &tag));
    ok(weir_pool_alloc_tagged(w.pool, w.stream[A], REGION, 0, tag, &block));
    weir_sim_block_alloc(w.sim, weir_block_address(block), weir_block_capacity(block), w.native[A], "alloc");
    use(&w, block, B);
    order(w.sim, w.native[A], w.native[B]);
    run_on(&w, block, B);
    put(&w, block, A);
    run_on(&w, get(&w, A, REGION), A);
    close_world(&w);
}

/* An event does not count as complete if its query fails. */
TEST(test_s10_a_failed_query_completes_nothing)
{
    struct world w = open_world((struct wish){0});
    weir_block *block = get(&w, A, REGION);
    run_on(&w, block, A);
    put(&w, block, A);
    weir_block *next = get_by(&w, B, REGION, WEIR_RUNG_GROWN);
    run_on(&w, next, B);
    put(&w, next, B);
    weir_sim_fault fault = WEIR_SIM_FAULT_INIT;
    fault.call = WEIR_CALL_EVENT_QUERY;
    fault.nth = 1;
    fault.repeat = true;
    ok(weir_sim_fault_arm(w.sim, &fault));
    next = get_by(&w, C, REGION, WEIR_RUNG_GROWN);
    run_on(&w, next, C);
    weir_sim_fault_clear(w.sim);
    assert_true(figures(&w).device_failures > 0);
    close_world(&w);
}

/* --- bugs of other allocators: running out of memory --- */

/* The only memory that fits waits for a use (mutant O2). The first request gets it after a wait, not only the
 * second. */
TEST(test_o1_pending_memory_is_searched_after_the_wait)
{
    struct world w = open_world((struct wish){.capacity = 2 * REGION});
    weir_block *one = get(&w, A, REGION);
    weir_block *two = get(&w, A, REGION);
    use(&w, one, B);
    use(&w, two, B);
    order(w.sim, w.native[A], w.native[B]);
    run_on(&w, one, B);
    run_on(&w, two, B);
    put(&w, one, A);
    put(&w, two, A);
    /* both regions are wholly covered by pending blocks, and have to be exchanged */
    weir_block *both = get(&w, C, 2 * REGION);
    run_on(&w, both, C);
    close_world(&w);
}

/* A request gets memory of work that completes while the request passes through the ladder. */
TEST(test_o1_work_that_completes_during_the_ladder_counts)
{
    weir_sim_config config = free_of_charge();
    config.capacity_bytes = REGION;
    config.region_granularity_bytes = REGION;
    config.page_bytes = REGION;
    /* a query takes time, so the work ends between the first polls and the last one */
    config.costs.call_ns[WEIR_CALL_EVENT_QUERY] = 10;
    struct world w = {.sim = new_sim(config)};
    w.device = weir_sim_device(w.sim);
    w.pool = pool_over(w.sim, &(struct wish){.growth = WEIR_GROWTH_GROW_FIRST});
    for (int i = 0; i < streams; i++) {
        w.native[i] = new_stream(w.sim);
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
    weir_block *block = get(&w, A, REGION / 2);
    (void)get(&w, A, REGION / 2);
    for (int user = B; user <= D; user += 2) {
        use(&w, block, user);
        order(w.sim, w.native[A], w.native[user]);
        touch(w.sim, w.native[user], weir_block_address(block), REGION / 2, false, 55, "reader");
    }
    put(&w, block, A);
    let_waits_fail(&w); /* a wait on the device would serve */
    (void)get_by(&w, C, REGION / 2, WEIR_RUNG_POLLED);
    assert_int_equal(figures(&w).syncs, 0);
    close_world(&w);
}

/* Idle regions in another lane, in the open lane or held by a front cache are exchanged. */
TEST(test_o5_idle_memory_in_any_lane_is_exchanged)
{
    struct world w = open_world((struct wish){.capacity = 4 * REGION, .flags = WEIR_POOL_KEEP_IDLE_REGIONS});
    weir_block *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = get(&w, i, i == 3 ? 512 : REGION);
    }
    for (int i = 0; i < 4; i++) {
        run_on(&w, blocks[i], i);
        put(&w, blocks[i], i);
    }
    assert_int_equal(figures(&w).cached_bytes, 512);
    weir_block *all = get(&w, A, 4 * REGION);
    run_on(&w, all, A);
    close_world(&w);
}

/* A large block in the front cache of another stream is found by the poll, each time that the stream has freed one. */
TEST(test_o5_a_poll_sees_every_large_block_in_a_front_cache)
{
    struct world w = open_world((struct wish){.capacity = 4 * REGION, .flags = WEIR_POOL_KEEP_IDLE_REGIONS});
    for (int round = 0; round < 3; round++) {
        for (int stream = A; stream <= B; stream++) {
            const uint64_t syncs = figures(&w).syncs;
            const weir_rung rung = round == 0 && stream == A ? WEIR_RUNG_GROWN : WEIR_RUNG_POLLED;
            weir_block *block = get_by(&w, stream, 4 * REGION, rung);
            assert_int_equal(figures(&w).syncs, syncs);
            for (int each = A; each <= B; each++) {
                /* from now on no earlier free is a reason to poll the stream */
                ok(weir_stream_synced(w.pool, w.stream[each]));
            }
            put(&w, block, stream);
        }
    }
    close_world(&w);
}

/* A stream in error keeps only its own memory from being reused, not the memory of other streams. */
TEST(test_a_stream_in_error_keeps_only_its_own_memory)
{
    struct world w = open_world((struct wish){.capacity = 4 * REGION});
    weir_block *most = get(&w, A, 3 * REGION);
    weir_block *rest = get(&w, B, REGION);
    use(&w, rest, C);
    run_on(&w, most, A);
    run_on(&w, rest, B);
    order(w.sim, w.native[B], w.native[C]);
    run_on(&w, rest, C);
    put(&w, most, A);
    put(&w, rest, B);
    ok(weir_sim_stream_break(w.sim, w.native[A]));
    weir_block *block = get(&w, D, REGION);
    run_on(&w, block, D);
    assert_true(figures(&w).device_failures > 0);
    put(&w, block, D);
    const char *why = "";
    ok(weir_pool_check(w.pool, &why));
    (void)!weir_pool_destroy(w.pool);
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(w.sim, &stats));
    assert_int_equal(stats.held_bytes, 0);
    assert_int_equal(weir_sim_destroy(w.sim), WEIR_OK);
}

/* --- placement --- */

/* A block is never smaller than the request, also if several sizes share its bin. Up to 63 granules it is exactly as
 * large as the rounded request. */
TEST(test_p1_exact_sizes_only)
{
    struct world w = open_world((struct wish){.capacity = 64 * REGION});
    for (uint64_t granules = 1; granules <= 80; granules++) {
        weir_block *small = get(&w, A, granules * 512);
        put(&w, small, A);
        weir_block *larger = get(&w, A, granules * 512 + 1);
        const uint64_t spare = granules + 1 < 64 ? 0 : 512 * ((granules + 1) / 8);
        assert_in_range(weir_block_capacity(larger), granules * 512 + 512, granules * 512 + 512 + spare);
        run_on(&w, larger, A);
        put(&w, larger, A);
    }
    close_world(&w);
}

/* A request with an alignment is not rounded, so its block may have a size between two bins. Such a block serves
 * requests of the bin below its size, never of the bin above. */
TEST(test_p1_a_block_serves_the_bin_below_it)
{
    struct world w = open_world((struct wish){.capacity = 256 * REGION});
    put(&w, get(&w, A, 128 * REGION), A);
    (void)get(&w, A, 512); /* the rest stays in A's lane, so that later requests flush no front cache */
    for (uint64_t granules = 65; granules < 128; granules += 2) {
        weir_block *block = get_aligned(&w, A, granules * 512, 1024);
        const uint64_t address = weir_block_address(block);
        assert_int_equal(weir_block_capacity(block), granules * 512);
        put(&w, block, A);
        weir_block *larger = get(&w, A, granules * 512 + 512);
        assert_true(weir_block_capacity(larger) >= granules * 512 + 512);
        assert_int_equal(weir_block_address(get_by(&w, A, granules * 512 - 512, WEIR_RUNG_FRONT)), address);
    }
    close_world(&w);
}

/* The block freed last is handed out for another size of its bin, although a slot within reach holds a larger block. */
TEST(test_p1_the_block_freed_last_is_preferred_to_a_larger_one)
{
    struct world w = open_world((struct wish){.capacity = 256 * REGION});
    put(&w, get(&w, A, 128 * REGION), A);
    (void)get(&w, A, 512);
    weir_block *best = get(&w, A, UINT64_C(97) * 512);
    weir_block *larger = get(&w, A, UINT64_C(100) * 512);
    const uint64_t address = weir_block_address(best);
    put(&w, best, A);
    (void)get(&w, A, 512); /* the block moves to its slot, which learns how many blocks it may keep */
    best = get(&w, A, UINT64_C(97) * 512);
    put(&w, larger, A);
    (void)get(&w, A, 512); /* the larger block moves to its slot too */
    put(&w, best, A);
    assert_int_equal(weir_block_address(get(&w, A, UINT64_C(98) * 512)), address);
    assert_int_equal(weir_block_address(get(&w, A, UINT64_C(98) * 512)), weir_block_address(larger));
    close_world(&w);
}

/* If a slot holds a block of the request's own bin, this block is handed out, not the larger block freed last. */
TEST(test_p1_a_slot_is_preferred_to_a_larger_block_freed_last)
{
    struct world w = open_world((struct wish){.capacity = 256 * REGION});
    put(&w, get(&w, A, 128 * REGION), A);
    (void)get(&w, A, 512);
    weir_block *best = get(&w, A, UINT64_C(97) * 512);
    weir_block *larger = get(&w, A, UINT64_C(100) * 512);
    const uint64_t address = weir_block_address(best);
    put(&w, best, A);
    (void)get(&w, A, 512);
    put(&w, larger, A);
    assert_int_equal(weir_block_address(get(&w, A, UINT64_C(98) * 512)), address);
    close_world(&w);
}

/* Adjacent regions do not merge. */
TEST(test_p2_nothing_merges_across_regions)
{
    struct world w = open_world((struct wish){.capacity = 2 * REGION, .flags = WEIR_POOL_KEEP_IDLE_REGIONS});
    weir_block *low = get(&w, A, REGION);
    weir_block *high = get(&w, A, REGION);
    assert_int_equal(weir_block_address(low) + REGION, weir_block_address(high));
    put(&w, low, A);
    weir_block *part = get(&w, A, 512);
    put(&w, high, A);
    refused(&w, A, REGION + 512); /* would cross the border of two regions */
    put(&w, part, A);
    (void)get_by(&w, A, 2 * REGION, WEIR_RUNG_EXCHANGED);
    close_world(&w);
}
