/* tests/pool/unit/budget_test.c: the contract of weir/budget.h by example: tags, limits, pressure, groups, and advice.
 *
 * tests/pool/stress/budget_random.c tries the promises on random programs; here are the edges. A region is 64 KiB.
 */
enum { A, B, streams };

#include "rig/pool.h"
#include "rig/sink.h"

#include <weir/size_class.h>
#include <weir/trace.h>

#include <inttypes.h>

#define REGION (64 * KIB)

static struct world open_world(uint64_t capacity, weir_pool_config config)
{
    const weir_caching_config caching = regions_of(REGION, UINT64_MAX);
    weir_sim_config device = device_of_units(REGION, capacity);
    device.no_audit = true; /* the tests compare counters only, and announce no blocks to the auditor */
    config.strategy_config = &caching;
    return world_over(new_sim(device), config);
}

static struct world plain_world(uint64_t capacity, uint64_t limit)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    config.limit_bytes = limit;
    return open_world(capacity, config);
}

static weir_tag tag(struct world *w, const char *name)
{
    weir_tag number = 0;
    ok(weir_pool_tag(w->pool, name, &number));
    return number;
}

static weir_tag_stats tagged(struct world *w, weir_tag number)
{
    weir_tag_stats stats = WEIR_TAG_STATS_INIT;
    ok(weir_pool_get_tag_stats(w->pool, number, &stats));
    return stats;
}

/* --- tags --- */

TEST(test_a_name_is_a_tag)
{
    struct world w = plain_world(16 * REGION, 0);
    char name[WEIR_TAG_NAME_BYTES + 1];
    weir_tag number = 77;
    memset(name, 'n', sizeof(name));
    name[WEIR_TAG_NAME_BYTES] = '\0';
    fails(weir_pool_tag(NULL, "a", &number), WEIR_ERR_INVALID);
    fails(weir_pool_tag(w.pool, NULL, &number), WEIR_ERR_INVALID);
    fails(weir_pool_tag(w.pool, "a", NULL), WEIR_ERR_INVALID);
    fails(weir_pool_tag(w.pool, "", &number), WEIR_ERR_INVALID);
    fails(weir_pool_tag(w.pool, "two\nlines", &number), WEIR_ERR_INVALID);
    fails(weir_pool_tag(w.pool, name, &number), WEIR_ERR_INVALID);
    assert_int_equal(number, 77);
    name[WEIR_TAG_NAME_BYTES - 1] = '\0';
    assert_int_equal(tag(&w, name), 1);
    assert_int_equal(tag(&w, "kv cache"), 2);
    assert_int_equal(tag(&w, name), 1);
    assert_string_equal(weir_pool_tag_name(w.pool, 0), "untagged");
    assert_string_equal(weir_pool_tag_name(w.pool, 2), "kv cache");
    assert_null(weir_pool_tag_name(w.pool, 3));
    assert_null(weir_pool_tag_name(NULL, 0));
    for (uint32_t i = 3; i < WEIR_TAGS; i++) {
        (void)snprintf(name, sizeof(name), "tag %u", i);
        assert_int_equal(tag(&w, name), i);
    }
    fails(weir_pool_tag(w.pool, "one too many", &number), WEIR_ERR_LIMIT);
    assert_int_equal(tag(&w, "tag 255"), 255); /* known tags are still found */
    assert_int_equal(figures(&w).tags, 255);
    close_world(&w);
}

TEST(test_tags_are_checked)
{
    struct world w = plain_world(16 * REGION, 0);
    struct world other = plain_world(16 * REGION, 0);
    weir_block *block = NULL;
    weir_tag_stats stats = WEIR_TAG_STATS_INIT;
    const weir_tag kv = tag(&w, "kv cache");
    fails(weir_pool_alloc_tagged(w.pool, w.stream[A], 512, 0, kv + 1, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_tagged(w.pool, w.stream[A], 512, 0, UINT32_MAX, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_tagged(NULL, w.stream[A], 512, 0, kv, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_tagged(w.pool, NULL, 512, 0, kv, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_tagged(w.pool, other.stream[A], 512, 0, kv, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_tagged(w.pool, w.stream[A], 0, 0, kv, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_tagged(w.pool, w.stream[A], 512, 3, kv, &block), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_tagged(w.pool, w.stream[A], 512, 0, kv, NULL), WEIR_ERR_INVALID);
    fails(weir_stream_set_tag(w.pool, w.stream[A], kv + 1), WEIR_ERR_INVALID);
    fails(weir_stream_set_tag(w.pool, other.stream[A], kv), WEIR_ERR_INVALID);
    fails(weir_stream_set_tag(w.pool, NULL, kv), WEIR_ERR_INVALID);
    fails(weir_stream_set_tag(NULL, w.stream[A], kv), WEIR_ERR_INVALID);
    fails(weir_pool_get_tag_stats(NULL, 0, &stats), WEIR_ERR_INVALID);
    fails(weir_pool_get_tag_stats(w.pool, kv + 1, &stats), WEIR_ERR_INVALID);
    fails(weir_pool_get_tag_stats(w.pool, kv, NULL), WEIR_ERR_INVALID);
    stats.struct_size = 4;
    fails(weir_pool_get_tag_stats(w.pool, kv, &stats), WEIR_ERR_INVALID);
    assert_null(block);
    close_world(&other);
    close_world(&w);
}

TEST(test_bytes_blocks_and_peaks)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    struct world w = open_world(16 * REGION, config);
    const weir_tag kv = tag(&w, "kv cache");
    const weir_tag weights = tag(&w, "weights");
    weir_block *first = get_tagged(&w, A, 1000, kv);
    weir_block *second = get_tagged(&w, A, 5000, kv);
    weir_block *third = get_tagged(&w, A, 300, weights);
    weir_block *fourth = get_tagged(&w, A, 70, 0);
    assert_int_equal(weir_block_tag(first), kv);
    assert_int_equal(weir_block_tag(fourth), 0);
    assert_int_equal(tagged(&w, kv).blocks, 2);
    assert_int_equal(tagged(&w, kv).requested_bytes, 6000);
    assert_int_equal(tagged(&w, 0).requested_bytes, 70);
    put(&w, first, A);
    /* the free is counted on stream B; the pool's live bytes are allocs minus frees over all streams */
    put(&w, second, B);
    assert_int_equal(tagged(&w, kv).blocks, 0);
    assert_int_equal(tagged(&w, kv).requested_bytes, 0);
    assert_int_equal(tagged(&w, kv).allocs, 2);
    assert_int_equal(tagged(&w, kv).frees, 2);
    assert_int_equal(tagged(&w, kv).peak_requested_bytes, 6000);
    assert_int_equal(tagged(&w, weights).peak_requested_bytes, 300);
    /* A block from the front cache carries the tag of its new owner. */
    weir_block *again = get_tagged(&w, A, 1000, weights);
    assert_ptr_equal(again, first);
    assert_int_equal(weir_block_tag(again), weights);
    assert_int_equal(tagged(&w, weights).requested_bytes, 1300);
    put(&w, again, A);
    again = get_tagged(&w, A, 1000, 0);
    assert_ptr_equal(again, first);
    assert_int_equal(weir_block_tag(again), 0);
    put(&w, again, A);
    ok(weir_pool_free_idle(w.pool, third));
    put(&w, fourth, A);
    assert_int_equal(tagged(&w, weights).blocks, 0);
    assert_int_equal(tagged(&w, 0).blocks, 0);
    close_world(&w);
}

TEST(test_one_stream_has_exact_peaks)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    weir_pool *pool = NULL;
    weir_stream *stream[2] = {NULL, NULL};
    weir_tag kv = 0;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    ok(weir_pool_create(&config, &pool));
    ok(weir_pool_tag(pool, "kv cache", &kv)); /* before any stream exists */
    ok(weir_pool_stream(pool, new_stream(sim), &stream[0]));
    weir_block *block = NULL;
    ok(weir_pool_alloc_tagged(pool, stream[0], 4 * MIB, 0, kv, &block));
    ok(weir_pool_free(pool, block, stream[0]));
    ok(weir_pool_alloc_tagged(pool, stream[0], MIB, 0, kv, &block)); /* no slow path at the peak */
    ok(weir_pool_stream(pool, new_stream(sim), &stream[1]));         /* a second stream does not make it forget */
    weir_tag_stats stats = WEIR_TAG_STATS_INIT;
    ok(weir_pool_get_tag_stats(pool, kv, &stats));
    assert_int_equal(stats.peak_requested_bytes, 4 * MIB);
    assert_int_equal(stats.requested_bytes, MIB);
    ok(weir_pool_destroy(pool));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_a_stream_may_have_a_tag)
{
    struct world w = plain_world(16 * REGION, 0);
    const weir_tag graph = tag(&w, "graph engine");
    weir_block *block = NULL;
    ok(weir_stream_set_tag(w.pool, w.stream[A], graph));
    for (int round = 0; round < 3; round++) { /* first the slow path, then twice from the front cache */
        ok(weir_pool_alloc(w.pool, w.stream[A], 512, 0, &block));
        assert_int_equal(weir_block_tag(block), graph);
        put(&w, block, A);
    }
    block = get_tagged(&w, A, 512, 0); /* 0: no tag */
    assert_int_equal(weir_block_tag(block), 0);
    put(&w, block, A);
    ok(weir_pool_alloc(w.pool, w.stream[B], 512, 0, &block));
    assert_int_equal(weir_block_tag(block), 0);
    put(&w, block, B);
    /* A stream that gets the entry of a retired stream begins without a tag. */
    ok(weir_stream_retire(w.pool, w.stream[A]));
    ok(weir_pool_stream(w.pool, new_stream(w.sim), &w.stream[A]));
    ok(weir_pool_alloc(w.pool, w.stream[A], 512, 0, &block));
    assert_int_equal(weir_block_tag(block), 0);
    put(&w, block, A);
    assert_int_equal(tagged(&w, graph).allocs, 3);
    close_world(&w);
}

/* --- recording --- */

TEST(test_a_recording_names_tags)
{
    struct world w = plain_world(16 * REGION, 0);
    struct kept recording = {.length = 0};
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    weir_recorder *recorder = NULL;
    config.sink = keep;
    config.sink_ctx = &recording;
    (void)tag(&w, "never used");
    const weir_tag kv = tag(&w, "kv cache");
    ok(weir_stream_set_tag(w.pool, w.stream[B], tag(&w, "graph engine")));
    ok(weir_recorder_start(w.pool, &config, &recorder));
    put(&w, get_tagged(&w, A, 512, 0), A);
    put(&w, get_tagged(&w, A, 1024, kv), A);
    put(&w, get_tagged(&w, A, 2048, kv), A);
    weir_block *block = NULL;
    ok(weir_pool_alloc(w.pool, w.stream[B], 4096, 0, &block));
    put(&w, block, B);
    ok(weir_recorder_stop(recorder, NULL));
    /* Tags are numbered in the order of their first use. The trace names each tag once, before its first use. */
    const char *kv_line = strstr(recording.text, "\n@0 kv cache\n");
    const char *graph_line = strstr(recording.text, "\n@1 graph engine\n");
    assert_non_null(kv_line);
    assert_non_null(graph_line);
    assert_true(kv_line < strstr(recording.text, " 1024 0 0 "));
    assert_true(graph_line < strstr(recording.text, " 4096 1 0 "));
    assert_null(strstr(kv_line + 1, "\n@0"));
    assert_null(strstr(recording.text, "never used"));
    unsigned tagged = 0;
    for (const char *line = recording.text; (line = strstr(line, "\na ")) != NULL; line++) {
        const char *end = strchr(line + 1, '\n');
        tagged += memcmp(end - 3, " @0", 3) == 0 || memcmp(end - 3, " @1", 3) == 0;
    }
    assert_int_equal(tagged, 3);
    close_world(&w);
}

/* --- limits --- */

TEST(test_limits_change)
{
    struct world w = plain_world(16 * REGION, 4 * REGION);
    weir_block *blocks[4];
    fails(weir_pool_set_limits(NULL, 0, 0), WEIR_ERR_INVALID);
    fails(weir_pool_set_limits(w.pool, 5 * REGION, 4 * REGION), WEIR_ERR_INVALID);
    for (int i = 0; i < 4; i++) {
        blocks[i] = get_tagged(&w, A, REGION, 0);
    }
    refused(&w, A, REGION);
    ok(weir_pool_set_limits(w.pool, 0, 5 * REGION));
    weir_block *fifth = get_tagged(&w, A, REGION, 0);
    assert_int_equal(figures(&w).limit_bytes, 5 * REGION);
    /* A new limit is below the reserved bytes: idle memory goes back at once, and the pool takes no memory until it is
     * below the limit. */
    put(&w, fifth, A);
    ok(weir_pool_set_limits(w.pool, 0, 2 * REGION));
    assert_int_equal(figures(&w).reserved_bytes, 4 * REGION);
    ok(weir_pool_check(w.pool, NULL));
    refused(&w, A, 512);
    put(&w, blocks[0], A);
    blocks[0] = get_tagged(&w, A, 512, 0); /* from memory that the pool holds */
    refused(&w, A, REGION);
    put(&w, blocks[1], A);
    put(&w, blocks[2], A);
    refused(&w, A, 2 * REGION);
    assert_int_equal(figures(&w).reserved_bytes, 2 * REGION); /* given back by the failing request */
    ok(weir_pool_check(w.pool, NULL));
    put(&w, blocks[3], A);
    blocks[3] = get_tagged(&w, A, REGION, 0);
    ok(weir_pool_set_limits(w.pool, 0, 0));
    (void)get_tagged(&w, A, 4 * REGION, 0);
    close_world(&w);
}

TEST(test_configs_with_crossed_limits_are_refused)
{
    weir_sim *sim = new_sim(free_of_charge());
    weir_pool *pool = NULL;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    config.limit_bytes = MIB;
    config.soft_limit_bytes = MIB + 1;
    fails(weir_pool_create(&config, &pool), WEIR_ERR_INVALID);
    assert_null(pool);
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* Below the soft limit the pool grows; above it, a request waits for another stream's memory first. */
TEST(test_the_soft_limit_makes_streams_wait)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    config.growth = WEIR_GROWTH_GROW_FIRST;
    config.soft_limit_bytes = 2 * REGION;
    config.limit_bytes = 4 * REGION;
    struct world w = open_world(16 * REGION, config);
    weir_block *first = get_tagged(&w, A, REGION, 0);
    busy(w.sim, w.native[A], LONG_NS);
    put(&w, first, A);
    weir_block *second = get_tagged(&w, B, REGION, 0);
    assert_int_equal(figures(&w).reserved_bytes, 2 * REGION);
    assert_int_equal(figures(&w).waits + figures(&w).syncs, 0);
    /* the pool does not grow beyond the soft limit for this request: A's memory serves the request after a wait */
    weir_block *third = get_tagged(&w, B, REGION, 0);
    assert_int_equal(figures(&w).reserved_bytes, 2 * REGION);
    assert_int_equal(figures(&w).waits, 1);
    assert_int_equal(figures(&w).soft_limit_growths, 0);
    (void)get_tagged(&w, B, 512, 0); /* the pool must grow */
    assert_int_equal(figures(&w).reserved_bytes, 3 * REGION);
    assert_int_equal(figures(&w).soft_limit_growths, 1);
    (void)get_tagged(&w, B, REGION, 0);
    refused(&w, B, REGION);
    assert_int_equal(figures(&w).reserved_bytes, 4 * REGION);
    put(&w, second, B);
    put(&w, third, B);
    close_world(&w);
}

/* Above the soft limit a region is no larger than the request needs. */
TEST(test_above_the_soft_limit_no_more_is_taken_than_needed)
{
    weir_sim_config sim_config = free_of_charge();
    sim_config.capacity_bytes = 256 * MIB;
    weir_sim *sim = new_sim(sim_config);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    weir_pool *pool = NULL;
    weir_stream *stream = NULL;
    weir_block *block = NULL;
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    config.soft_limit_bytes = 100 * MIB;
    ok(weir_pool_create(&config, &pool));
    ok(weir_pool_stream(pool, new_stream(sim), &stream));
    ok(weir_pool_alloc(pool, stream, 99 * MIB, 0, &block));
    ok(weir_pool_get_stats(pool, &stats));
    const uint64_t before = stats.reserved_bytes;
    /* without the soft limit the strategy would take an eighth of the reserved bytes */
    ok(weir_pool_alloc(pool, stream, 3 * MIB, 0, &block));
    ok(weir_pool_get_stats(pool, &stats));
    assert_int_equal(stats.reserved_bytes - before, 4 * MIB);
    ok(weir_pool_destroy(pool));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

/* An idle region of the other kind can serve the request, and a new region in its place could not. So the pool does not
 * return the idle region. */
static void idle_region_serves(uint64_t align, uint64_t limit)
{
    weir_sim_config sim_config = free_of_charge();
    sim_config.capacity_bytes = 2 * REGION;
    sim_config.region_granularity_bytes = REGION;
    sim_config.page_bytes = REGION;
    weir_sim *sim = new_sim(sim_config);
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    caching.small_bytes = REGION / 4;
    caching.small_region_bytes = REGION;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    weir_pool *pool = NULL;
    weir_stream *stream = NULL;
    weir_block *large[2] = {NULL, NULL};
    weir_block *small = NULL;
    config.device = weir_sim_device(sim);
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    ok(weir_pool_create(&config, &pool));
    ok(weir_pool_stream(pool, new_stream(sim), &stream));
    for (int i = 0; i < 2; i++) {
        ok(weir_pool_alloc(pool, stream, REGION, 0, &large[i]));
    }
    ok(weir_pool_set_limits(pool, 0, limit));
    ok(weir_pool_free_idle(pool, large[0]));
    ok(weir_pool_alloc(pool, stream, 512, align, &small));
    assert_int_equal(weir_block_address(small) % (align != 0 ? align : 512), 0);
    ok(weir_pool_destroy(pool));
    assert_int_equal(weir_sim_destroy(sim), WEIR_OK);
}

TEST(test_an_idle_region_is_not_returned_in_vain)
{
    idle_region_serves(2 * REGION, 0); /* because of the alignment a new region would be larger than the idle one */
    idle_region_serves(0, REGION / 2); /* no new region: the pool is far above its limit */
}

/* --- pressure --- */

struct relief {
    struct world *w;
    weir_block *victim; /* NULL: no block to free */
    unsigned calls;
    weir_pressure last;
    bool allocates;
    bool gives_new_limits;
};

static bool relieve(void *ctx, weir_pool *pool, const weir_pressure *pressure)
{
    struct relief *relief = ctx;
    relief->calls++;
    relief->last = *pressure;
    ok(weir_pool_check(pool, NULL)); /* no lock is held */
    if (relief->allocates) {
        /* this request exceeds the soft limit; the callback is not called again inside itself */
        (void)get_tagged(relief->w, B, REGION, 0);
    }
    if (relief->gives_new_limits) {
        ok(weir_pool_set_limits(pool, 8 * REGION, 0));
    }
    if (relief->victim != NULL) {
        put(relief->w, relief->victim, A);
        relief->victim = NULL;
        return true;
    }
    const bool again = relief->gives_new_limits;
    relief->gives_new_limits = false;
    return again;
}

static struct world pressed_world(struct relief *relief, uint64_t soft)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS;
    config.soft_limit_bytes = soft;
    config.pressure_callback = relieve;
    config.pressure_ctx = relief;
    return open_world(64 * REGION, config);
}

TEST(test_pressure_is_reported_once_per_crossing)
{
    struct relief relief = {.calls = 0};
    struct world w = pressed_world(&relief, 2 * REGION);
    relief.w = &w;
    weir_block *blocks[5];
    blocks[0] = get_tagged(&w, A, REGION, 0);
    blocks[1] = get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 0); /* equal to the limit is not above it */
    blocks[2] = get_tagged(&w, A, REGION + 512, 0);
    assert_int_equal(relief.calls, 1);
    assert_int_equal(relief.last.size, REGION + 512);
    assert_int_equal(relief.last.stream, 1);
    assert_int_equal(relief.last.reserved_bytes, 2 * REGION);
    assert_int_equal(relief.last.over_bytes, 2 * REGION);
    assert_int_equal(relief.last.soft_limit_bytes, 2 * REGION);
    assert_int_equal(relief.last.limit_bytes, 0);
    blocks[3] = get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 1); /* the pool is still above the soft limit, so this is no new crossing */
    put(&w, blocks[3], A);
    put(&w, blocks[2], A);
    ok(weir_pool_trim(w.pool, 2 * REGION, WEIR_TRIM_WAIT, NULL));
    assert_int_equal(figures(&w).reserved_bytes, 2 * REGION);
    blocks[2] = get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 1); /* the pool was not far enough below the soft limit in between */
    put(&w, blocks[2], A);
    put(&w, blocks[1], A);
    ok(weir_pool_trim(w.pool, REGION, WEIR_TRIM_WAIT, NULL));
    blocks[1] = get_tagged(&w, A, REGION, 0);
    blocks[2] = get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 2);
    assert_int_equal(figures(&w).pressure_calls, 2);
    close_world(&w);
}

TEST(test_pressure_may_be_relieved)
{
    struct relief relief = {.calls = 0};
    struct world w = pressed_world(&relief, 2 * REGION);
    relief.w = &w;
    relief.victim = get_tagged(&w, A, REGION, 0);
    weir_block *other = get_tagged(&w, A, REGION, 0);
    weir_block *block = get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 1);
    assert_int_equal(figures(&w).reserved_bytes, 2 * REGION); /* the callback helped: no crossing */
    assert_int_equal(figures(&w).soft_limit_growths, 0);
    relief.victim = other;
    (void)get_tagged(&w, B, REGION, 0);
    assert_int_equal(relief.calls, 2); /* the next crossing is reported again */
    assert_int_equal(figures(&w).reserved_bytes, 2 * REGION);
    /* the block that the callback frees is too small. The second call frees nothing, so the pool exceeds the soft
     * limit */
    relief.victim = block;
    (void)get_tagged(&w, A, 2 * REGION, 0);
    assert_int_equal(relief.calls, 4);
    assert_int_equal(figures(&w).reserved_bytes, 3 * REGION);
    close_world(&w);
}

TEST(test_pressure_may_call_the_pool)
{
    struct relief relief = {.allocates = true};
    struct world w = pressed_world(&relief, REGION);
    relief.w = &w;
    (void)get_tagged(&w, A, REGION, 0);
    (void)get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 1);
    assert_int_equal(figures(&w).reserved_bytes, 3 * REGION);
    relief.allocates = false;
    relief.gives_new_limits = true;
    ok(weir_pool_set_limits(w.pool, 3 * REGION, 0)); /* new limits begin a new crossing */
    (void)get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 2);
    assert_int_equal(figures(&w).soft_limit_bytes, 8 * REGION);
    (void)get_tagged(&w, A, REGION, 0);
    assert_int_equal(relief.calls, 2);
    close_world(&w);
}

/* --- groups --- */

/* Returns how many of `count` blocks the pool promises. */
static uint64_t promised(struct world *w, uint64_t size, uint64_t count)
{
    uint64_t fit = 77;
    ok(weir_pool_would_fit(w->pool, w->stream[A], size, count, &fit));
    assert_true(fit <= count);
    return fit;
}

TEST(test_all_or_none)
{
    struct world w = plain_world(16 * REGION, 3 * REGION);
    const weir_tag kv = tag(&w, "kv cache");
    const uint64_t sizes[] = {REGION, 512, 2 * REGION};
    weir_block *blocks[3] = {NULL, NULL, NULL};
    fails(weir_pool_alloc_many(w.pool, w.stream[A], sizes, 3, kv, blocks), WEIR_ERR_NO_MEMORY);
    assert_null(blocks[0]);
    assert_int_equal(figures(&w).live_bytes, 0);
    assert_int_equal(tagged(&w, kv).blocks, 0);
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    ok(weir_pool_get_oom(w.pool, &record));
    assert_int_equal(record.size, 2 * REGION);
    assert_int_equal(record.live_bytes, REGION + 512); /* while the other blocks were held */
    ok(weir_pool_alloc_many(w.pool, w.stream[A], sizes, 2, kv, blocks));
    assert_int_equal(weir_block_size(blocks[0]), REGION);
    assert_int_equal(weir_block_size(blocks[1]), 512);
    assert_int_equal(tagged(&w, kv).requested_bytes, REGION + 512);
    assert_null(blocks[2]);
    put(&w, blocks[0], A);
    put(&w, blocks[1], A);
    ok(weir_pool_alloc_many(w.pool, w.stream[A], NULL, 0, 0, NULL));
    const uint64_t bad[] = {512, 0};
    fails(weir_pool_alloc_many(w.pool, w.stream[A], bad, 2, 0, blocks), WEIR_ERR_INVALID);
    assert_int_equal(figures(&w).live_bytes, 0);
    fails(weir_pool_alloc_many(NULL, w.stream[A], sizes, 1, 0, blocks), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_many(w.pool, NULL, sizes, 1, 0, blocks), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_many(w.pool, w.stream[A], NULL, 1, 0, blocks), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_many(w.pool, w.stream[A], sizes, 1, 0, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_alloc_many(w.pool, w.stream[A], sizes, 1, kv + 1, blocks), WEIR_ERR_INVALID);
    close_world(&w);
}

TEST(test_would_fit_checks_its_arguments)
{
    struct world w = plain_world(16 * REGION, 0);
    struct world other = plain_world(16 * REGION, 0);
    uint64_t fit = 77;
    fails(weir_pool_would_fit(NULL, w.stream[A], 512, 1, &fit), WEIR_ERR_INVALID);
    fails(weir_pool_would_fit(w.pool, NULL, 512, 1, &fit), WEIR_ERR_INVALID);
    fails(weir_pool_would_fit(w.pool, other.stream[A], 512, 1, &fit), WEIR_ERR_INVALID);
    fails(weir_pool_would_fit(w.pool, w.stream[A], 512, 1, NULL), WEIR_ERR_INVALID);
    fails(weir_pool_would_fit(w.pool, w.stream[A], 0, 1, &fit), WEIR_ERR_INVALID);
    fails(weir_pool_would_fit(w.pool, w.stream[A], UINT64_MAX, 1, &fit), WEIR_ERR_INVALID);
    assert_int_equal(fit, 77);
    assert_int_equal(promised(&w, 512, 0), 0);
    close_world(&other);
    close_world(&w);
}

/* New regions and half-used ones are counted exactly if blocks of the size fill regions without a rest. */
TEST(test_equal_pages_are_counted_exactly)
{
    const uint64_t page = REGION / 4;
    struct world w = plain_world(64 * REGION, 8 * REGION);
    assert_int_equal(promised(&w, page, 32), 32);
    assert_int_equal(promised(&w, page, 64), 32);
    weir_block *live[4];
    for (int i = 0; i < 4; i++) { /* one hole in each of two regions */
        live[i] = get_tagged(&w, A, REGION / 2, 0);
    }
    put(&w, live[0], A);
    put(&w, live[2], A);
    assert_int_equal(promised(&w, page, 64), 28);
    uint64_t pages[28];
    weir_block *blocks[28];
    for (int i = 0; i < 28; i++) {
        pages[i] = page;
    }
    ok(weir_pool_alloc_many(w.pool, w.stream[A], pages, 28, 0, blocks));
    assert_int_equal(promised(&w, page, 64), 0);
    refused(&w, A, page);
    close_world(&w);
}

/* A piece of free memory counts as it is while a live block keeps its region: new regions would have to hold two of
 * these blocks too, and there the strategy may waste a rest. */
TEST(test_pieces_beside_live_blocks_stay)
{
    const uint64_t size = 3 * REGION / 4;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.limit_bytes = 8 * REGION;
    config.flags = WEIR_POOL_REGIONS | WEIR_POOL_NO_FRONT_CACHE;
    struct world w = open_world(64 * REGION, config);
    weir_block *wide = get_tagged(&w, A, 8 * REGION, 0);
    put(&w, wide, A);
    (void)get_tagged(&w, A, REGION / 2, 0); /* out of the one region */
    assert_int_equal(figures(&w).reserved_bytes, 8 * REGION);
    assert_int_equal(promised(&w, size, 100), 10);
    for (int i = 0; i < 10; i++) {
        (void)get_tagged(&w, A, size, 0);
    }
    refused(&w, A, size);
    close_world(&w);
}

/* An idle region may go back to the device for one request, and the regions in its place hold fewer. */
TEST(test_an_idle_region_counts_as_new_ones)
{
    const uint64_t unit = 2 * MIB;
    const uint64_t size = unit / 8 * 5;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.limit_bytes = 4 * unit;
    config.flags = WEIR_POOL_REGIONS | WEIR_POOL_NO_FRONT_CACHE;
    struct world w = world_over(new_sim(device_of_units(unit, 64 * unit)), config);
    put(&w, get_tagged(&w, A, 4 * unit, 0), A);
    const uint64_t fit = promised(&w, size, 10);
    assert_in_range(fit, 4, 6);
    for (uint64_t i = 0; i < fit; i++) {
        (void)get_tagged(&w, A, size, 0);
    }
    close_world(&w);
}

/* What the strategy is asked, and what it shows. */
static uint64_t questions;
static uint64_t shown;
static weir_range_visitor true_visitor;

static uint64_t counted_region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved,
                                    uint64_t granularity)
{
    questions++;
    return weir_caching_strategy()->region_size(state, size, align, reserved, granularity);
}

static bool show_counted(void *ctx, const weir_range_info *range)
{
    shown++;
    return true_visitor(ctx, range);
}

static void counted_walk_large(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    true_visitor = visit;
    weir_caching_strategy()->walk_large(state, least, show_counted, ctx);
}

/* An answer costs the same in a pool of very many pieces: it looks at the first of them. */
TEST(test_an_answer_looks_at_few_pieces)
{
    enum { many = 4000, page = 4096 };
    weir_strategy_ops counting = *weir_caching_strategy();
    counting.region_size = counted_region_size;
    counting.walk_large = counted_walk_large;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.limit_bytes = 512 * REGION;
    config.flags = WEIR_POOL_REGIONS | WEIR_POOL_NO_FRONT_CACHE;
    config.strategy = &counting;
    struct world w = open_world(1024 * REGION, config);
    static weir_block *blocks[many];
    for (int i = 0; i < many; i++) {
        blocks[i] = get_tagged(&w, A, page, 0);
    }
    ok(weir_pool_set_limits(w.pool, 0, figures(&w).reserved_bytes));
    for (int i = 0; i < many; i += 2) {
        put(&w, blocks[i], A);
    }
    questions = shown = 0;
    assert_int_equal(promised(&w, page, 8), 8);
    assert_true(shown <= 8);
    shown = 0;
    const uint64_t fit = promised(&w, page, many);
    assert_true(fit >= 128 && fit < many / 2);
    assert_int_equal(shown, 128);
    assert_true(questions < 40);
    ok(weir_pool_set_limits(w.pool, 0, 0));
    questions = 0;
    assert_int_equal(promised(&w, REGION, 1u << 20), promised(&w, REGION, 1u << 30));
    assert_true(questions < 80);
    close_world(&w);
}

/* For the forecast, memory is available even if work of other streams may still touch it: the request would wait for
 * that work. */
TEST(test_memory_in_use_by_other_streams_counts)
{
    const uint64_t size = 2 * REGION;
    struct world w = plain_world(2 * REGION, 0);
    weir_block *block = get_tagged(&w, B, 2 * REGION, 0);
    assert_int_equal(promised(&w, size, 1), 0);
    busy(w.sim, w.native[B], LONG_NS);
    ok(weir_pool_use(w.pool, block, w.stream[A]));
    put(&w, block, B);
    assert_int_equal(promised(&w, size, 1), 1);
    assert_int_equal(figures(&w).syncs, 0); /* the question did not wait */
    (void)get_tagged(&w, A, 2 * REGION, 0);
    close_world(&w);
}

TEST(test_limit_and_capacity_bound_what_is_promised)
{
    struct world w = plain_world(16 * REGION, REGION / 2); /* the limit leaves no room for a region */
    assert_int_equal(promised(&w, REGION, 1), 0);
    ok(weir_pool_set_limits(w.pool, 0, REGION));
    assert_int_equal(promised(&w, REGION, 2), 1);
    ok(weir_pool_set_limits(w.pool, 0, 0)); /* the device's capacity counts */
    assert_int_equal(promised(&w, REGION, 100), 16);
    assert_int_equal(promised(&w, 16 * REGION, 100), 1);
    assert_int_equal(promised(&w, 17 * REGION, 1), 0);
    close_world(&w);
}

/* Idle regions that are too small make room. */
TEST(test_idle_regions_make_room_for_one)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_REGIONS | WEIR_POOL_NO_FRONT_CACHE;
    struct world w = open_world(4 * REGION, config);
    weir_block *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = get_tagged(&w, A, REGION, 0);
    }
    for (int i = 0; i < 4; i++) {
        put(&w, blocks[i], A);
    }
    assert_int_equal(promised(&w, 4 * REGION, 2), 1);
    (void)get_tagged(&w, A, 4 * REGION, 0);
    close_world(&w);
}

/* With virtual memory free memory serves where it is, and idle granules that lie apart are worth as much as new
 * ones. */
TEST(test_idle_granules_are_room)
{
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    config.flags = WEIR_POOL_NO_FRONT_CACHE;
    config.limit_bytes = 8 * REGION;
    struct world w = open_world(16 * REGION, config);
    weir_block *blocks[8];
    for (int i = 0; i < 8; i++) {
        blocks[i] = get_tagged(&w, A, REGION, 0);
    }
    for (int i = 0; i < 8; i += 2) {
        put(&w, blocks[i], A);
    }
    assert_int_equal(figures(&w).reserved_bytes, 8 * REGION);
    assert_int_equal(promised(&w, REGION, 9), 4);
    assert_int_equal(promised(&w, REGION / 2, 9), 8);
    assert_int_equal(promised(&w, 2 * REGION, 9), 2);
    (void)get_tagged(&w, A, 2 * REGION, 0);
    (void)get_tagged(&w, A, 2 * REGION, 0);
    refused(&w, A, 512);
    close_world(&w);
}

/* --- advice --- */

static weir_oom_record reason(struct world *w)
{
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    ok(weir_pool_get_oom(w->pool, &record));
    return record;
}

static const weir_oom_advice *advice_of(const weir_oom_record *record, weir_advice_kind kind)
{
    for (uint32_t i = 0; i < record->advice_count; i++) {
        if (record->advice[i].kind == kind) {
            return &record->advice[i];
        }
    }
    return NULL;
}

/* There are more holders than the record has room for: it lists the holders with the most bytes, in any order of
 * arrival. */
TEST(test_the_record_holds_the_largest_holders)
{
    static const uint64_t parts[] = {3, 8, 1, 6, 2, 7, 5, 4};
    enum { holders = sizeof(parts) / sizeof(parts[0]) };
    struct world w = plain_world(REGION, 0);
    char name[16];
    for (unsigned i = 0; i < holders; i++) {
        (void)snprintf(name, sizeof(name), "holder %u", (unsigned)parts[i]);
        (void)get_tagged(&w, A, parts[i] * KIB, tag(&w, name));
    }
    refused(&w, A, REGION);
    const weir_oom_record record = reason(&w);
    if (record.holder_count != WEIR_OOM_ENTRIES) {
        fail_msg("the record lists %u holders of %u", record.holder_count, (unsigned)holders);
    }
    for (unsigned i = 0; i < WEIR_OOM_ENTRIES; i++) {
        (void)snprintf(name, sizeof(name), "holder %u", holders - i);
        assert_string_equal(record.holders[i].name, name);
        assert_int_equal(record.holders[i].requested_bytes, (holders - i) * KIB);
        assert_int_equal(record.holders[i].blocks, 1);
    }
    close_world(&w);
}

TEST(test_the_record_says_who_holds_what_and_where)
{
    struct world w = plain_world(16 * REGION, 2 * REGION);
    const weir_tag kv = tag(&w, "kv cache");
    const weir_tag weights = tag(&w, "weights");
    (void)get_tagged(&w, A, REGION / 4 * 3, weights);
    weir_block *small = get_tagged(&w, A, REGION / 4, kv);
    weir_block *large = get_tagged(&w, A, REGION / 2 - 100, kv);
    (void)get_tagged(&w, A, REGION / 4, 0);
    weir_block *block = NULL;
    fails(weir_pool_alloc_tagged(w.pool, w.stream[B], REGION / 2, 0, kv, &block), WEIR_ERR_NO_MEMORY);
    const weir_oom_record record = reason(&w);
    assert_int_equal(record.tag, kv);
    assert_string_equal(record.tag_name, "kv cache");
    assert_int_equal(record.holder_count, 3);
    assert_string_equal(record.holders[0].name, "weights");
    assert_string_equal(record.holders[1].name, "kv cache");
    assert_int_equal(record.holders[1].requested_bytes, REGION / 4 * 3 - 100);
    assert_int_equal(record.holders[1].blocks, 2);
    assert_string_equal(record.holders[2].name, "untagged");
    assert_int_equal(record.regions, 2);
    assert_int_equal(record.region_count, 1); /* one region with free bytes in it */
    assert_int_equal(record.worst[0].free_bytes, REGION / 4);
    assert_int_equal(record.worst[0].blocks, 2);
    assert_int_equal(record.usable_bytes, REGION / 4);
    assert_int_equal(record.lane_count, 1);
    assert_int_equal(record.lanes[0].largest_bytes, REGION / 4);
    assert_int_equal(record.lanes[0].waits_for, 0);
    assert_non_null(strstr(record.text, "\"weights\" holds the most"));

    /* The advice names the memory that costs the fewest frees: the free quarter of the region and the quarter beside
     * it. */
    const weir_oom_advice *advice = advice_of(&record, WEIR_ADVICE_FREE_BLOCKS);
    assert_non_null(advice);
    assert_int_equal(advice->bytes, REGION / 4);
    assert_int_equal(advice->blocks, 1);
    assert_null(advice_of(&record, WEIR_ADVICE_WAIT));
    assert_null(advice_of(&record, WEIR_ADVICE_DEVICE_ROOM));
    assert_int_equal(advice_of(&record, WEIR_ADVICE_RAISE_LIMIT)->bytes, 3 * REGION);
    assert_int_equal(advice_of(&record, WEIR_ADVICE_ASK_LESS)->bytes, REGION / 4);

    char report[2048];
    const size_t length = weir_oom_explain(&record, report, sizeof(report));
    assert_int_equal(length, strlen(report));
    assert_non_null(strstr(report, "out of memory: 32.00 KiB asked on stream 2 for kv cache\n"));
    assert_non_null(strstr(report, "held by   48.00 KiB in 1 block: weights\n"));
    assert_non_null(strstr(report, "raise the limit to 196608 bytes"));
    char little[32];
    assert_int_equal(weir_oom_explain(&record, little, sizeof(little)), length);
    assert_int_equal(strlen(little), sizeof(little) - 1);
    assert_int_equal(weir_oom_explain(&record, NULL, 0), length);
    put(&w, small, A);
    put(&w, large, A);
    close_world(&w);
}

TEST(test_a_pool_without_a_failure_has_nothing_to_explain)
{
    struct world w = plain_world(16 * REGION, 0);
    char report[64];
    weir_oom_record record = reason(&w);
    (void)weir_oom_explain(&record, report, sizeof(report));
    assert_string_equal(report, "no request has failed\n");
    record.struct_size = 1;
    (void)weir_oom_explain(&record, report, sizeof(report));
    assert_string_equal(report, "no request has failed\n");
    close_world(&w);
}

/* Every wait that weir could make fails on this device, but the program itself can wait. */
TEST(test_waiting_is_advised_when_weir_could_not)
{
    static const weir_device_call calls[] = {WEIR_CALL_EVENT_RECORD, WEIR_CALL_EVENT_SYNC, WEIR_CALL_STREAM_WAIT_EVENT};
    struct world w = plain_world(2 * REGION, 0);
    weir_block *block = get_tagged(&w, A, 2 * REGION, 0);
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
    refused(&w, B, 2 * REGION);
    const weir_oom_record record = reason(&w);
    const weir_oom_advice *advice = advice_of(&record, WEIR_ADVICE_WAIT);
    assert_non_null(advice);
    assert_int_equal(advice->stream, 1);
    assert_null(advice_of(&record, WEIR_ADVICE_FREE_BLOCKS)); /* no block is live */
    assert_int_equal(record.usable_bytes, 0);                 /* no memory is usable without a wait */
    assert_null(advice_of(&record, WEIR_ADVICE_ASK_LESS));
    assert_int_equal(record.lane_count, 1);
    assert_int_equal(record.lanes[0].stream, 1);
    assert_true(record.lanes[0].waits_for > 0);
    char report[2048];
    (void)weir_oom_explain(&record, report, sizeof(report));
    assert_non_null(strstr(report, "synchronise stream 1 and say so, or retire it"));
    assert_non_null(strstr(report, "waits for tick"));
    weir_sim_fault_clear(w.sim);
    sync_stream(w.sim, w.native[A]);
    ok(weir_stream_synced(w.pool, w.stream[A]));
    (void)get_tagged(&w, B, 2 * REGION, 0);
    close_world(&w);
}

/* The request could be served only if two regions went back to the device. An advice can name one range only, so no
 * advice names blocks to free. */
TEST(test_no_location_is_advised_if_two_regions_must_go)
{
    struct world w = plain_world(4 * REGION, 0);
    for (int i = 0; i < 4; i++) {
        (void)get_tagged(&w, A, i < 2 ? REGION : REGION - 512, 0);
    }
    refused(&w, A, 2 * REGION);
    const weir_oom_record record = reason(&w);
    assert_null(advice_of(&record, WEIR_ADVICE_FREE_BLOCKS));
    assert_non_null(advice_of(&record, WEIR_ADVICE_DEVICE_ROOM));
    close_world(&w);
}
