/* tests/unit/stream_event_test.c: the order that a pool learns from events of its caller.
 *
 * An event carries the clock of its stream as of its last record, no more and no less. The simulator's auditor finds too
 * much order, the statistics show too little.
 */
#include "sim_test.h"

#include <weir/caching.h>
#include <weir/pool.h>

#define SIZE (64 * KIB)

enum { A, B, C, D, streams };

struct world {
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    weir_sim_stream *native[streams];
    weir_stream *stream[streams];
};

static struct world open_world(void)
{
    struct world w = { 0 };
    weir_sim_config config = free_of_charge();
    config.region_granularity_bytes = SIZE;
    config.page_bytes = SIZE;
    w.sim = new_sim(config);
    w.device = weir_sim_device(w.sim);
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    caching.small_region_bytes = SIZE;
    weir_pool_config pool = WEIR_POOL_CONFIG_INIT;
    pool.device = w.device;
    pool.strategy = weir_caching_strategy();
    pool.strategy_config = &caching;
    ok(weir_pool_create(&pool, &w.pool));
    for (int i = 0; i < streams; i++) {
        w.native[i] = new_stream(w.sim);
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
    return w;
}

static void close_world(struct world *w)
{
    const char *why = "";
    if (weir_pool_check(w->pool, &why) != WEIR_OK) {
        fail_msg("check: %s", why);
    }
    is_clean(w->sim);
    ok(weir_pool_destroy(w->pool));
    ok(weir_sim_destroy(w->sim));
}

static weir_stats figures(const struct world *w)
{
    weir_stats stats = WEIR_STATS_INIT;
    ok(weir_pool_stats(w->pool, &stats));
    return stats;
}

/* A block of the stream, in the middle of a kernel. */
static weir_block *get(struct world *w, int stream)
{
    weir_block *block = NULL;
    ok(weir_pool_alloc(w->pool, w->stream[stream], SIZE, 0, &block));
    weir_sim_block_alloc(w->sim, weir_block_address(block), SIZE, w->native[stream], "alloc");
    writes(w->sim, w->native[stream], weir_block_address(block), SIZE, "kernel");
    return block;
}

static void put(struct world *w, weir_block *block, int stream)
{
    weir_sim_block_free(w->sim, weir_block_address(block), w->native[stream], "free");
    ok(weir_pool_free(w->pool, block, w->stream[stream]));
}

static void record(struct world *w, weir_event *event, int stream)
{
    ok(weir_device_event_record(w->device, event, w->native[stream]));
    ok(weir_stream_recorded(w->pool, event, w->stream[stream]));
}

static void wait_for(struct world *w, int stream, weir_event *event)
{
    ok(weir_device_stream_wait_event(w->device, w->native[stream], event));
    ok(weir_stream_waited(w->pool, w->stream[stream], event));
}

static void forget(struct world *w, weir_event *event)
{
    ok(weir_event_forgotten(w->pool, event));
    ok(weir_device_event_destroy(w->device, event));
}

/* B is ordered after A's free. An event is recorded on B, and then anew on C, which is not: the event says nothing of A. */
static void test_a_second_record_replaces_the_first(void **state)
{
    (void)state;
    struct world w = open_world();
    weir_event *order = new_event(w.sim);
    weir_event *event = new_event(w.sim);
    put(&w, get(&w, A), A);
    record(&w, order, A);
    wait_for(&w, B, order);
    record(&w, event, B);
    record(&w, event, C);
    wait_for(&w, D, event);
    (void)get(&w, D);
    is_clean(w.sim);
    assert_int_equal(figures(&w).region_allocs, 2);
    forget(&w, event);
    forget(&w, order);
    close_world(&w);
}

/* The host has waited for an event of B, which had waited for A: both are complete, and no event of the pool is needed. */
static void test_a_wait_of_the_host_counts_for_what_came_before(void **state)
{
    (void)state;
    struct world w = open_world();
    weir_event *order = new_event(w.sim);
    weir_event *event = new_event(w.sim);
    put(&w, get(&w, A), A);
    record(&w, order, A);
    wait_for(&w, B, order);
    record(&w, event, B);
    ok(weir_device_event_sync(w.device, event));
    ok(weir_event_synced(w.pool, event));
    (void)get(&w, C);
    if (figures(&w).events_recorded != 0 || figures(&w).region_allocs != 1) {
        fail_msg("a wait for an event says nothing of the streams before it");
    }
    forget(&w, event);
    forget(&w, order);
    close_world(&w);
}

/* The same of a wait for all of stream B. */
static void test_a_wait_for_a_stream_counts_for_what_came_before(void **state)
{
    (void)state;
    struct world w = open_world();
    weir_event *order = new_event(w.sim);
    put(&w, get(&w, A), A);
    record(&w, order, A);
    wait_for(&w, B, order);
    sync_stream(w.sim, w.native[B]);
    ok(weir_stream_synced(w.pool, w.stream[B]));
    (void)get(&w, C);
    if (figures(&w).events_recorded != 0 || figures(&w).region_allocs != 1) {
        fail_msg("a wait for a stream says nothing of the streams before it");
    }
    forget(&w, order);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_second_record_replaces_the_first),
        cmocka_unit_test(test_a_wait_of_the_host_counts_for_what_came_before),
        cmocka_unit_test(test_a_wait_for_a_stream_counts_for_what_came_before),
    };
    return cmocka_run_group_tests_name("events of the caller", tests, NULL, NULL);
}
