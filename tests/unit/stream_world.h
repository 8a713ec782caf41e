/* tests/unit/stream_world.h: a pool over a simulator whose calls take no host time, and streams whose events the pool
 * is told of. Regions hold one block of SIZE. The including file names its streams first: enum { A, B, streams };
 */
#ifndef STREAM_WORLD_H
#define STREAM_WORLD_H

#include "sim_test.h"

#include <weir/caching.h>
#include <weir/pool.h>

#define SIZE (64 * KIB)

struct world {
    weir_sim *sim;
    weir_device *device;
    weir_pool *pool;
    weir_sim_stream *native[streams];
    weir_stream *stream[streams];
};

/* limit_bytes: of the pool, 0 = none. */
static inline struct world open_world(uint64_t limit_bytes)
{
    struct world w = {0};
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
    pool.limit_bytes = limit_bytes;
    ok(weir_pool_create(&pool, &w.pool));
    for (int i = 0; i < streams; i++) {
        w.native[i] = new_stream(w.sim);
        ok(weir_pool_stream(w.pool, w.native[i], &w.stream[i]));
    }
    return w;
}

static inline void close_world(struct world *w)
{
    const char *why = "";
    if (weir_pool_check(w->pool, &why) != WEIR_OK) {
        fail_msg("check: %s", why);
    }
    is_clean(w->sim);
    ok(weir_pool_destroy(w->pool));
    ok(weir_sim_destroy(w->sim));
}

static inline weir_pool_stats figures(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w->pool, &stats));
    return stats;
}

static inline void put(struct world *w, weir_block *block, int stream)
{
    weir_sim_block_free(w->sim, weir_block_address(block), w->native[stream], "free");
    ok(weir_pool_free(w->pool, block, w->stream[stream]));
}

static inline void record(struct world *w, weir_event *event, int stream)
{
    ok(weir_device_event_record(w->device, event, w->native[stream]));
    ok(weir_stream_recorded(w->pool, event, w->stream[stream]));
}

static inline void wait_for(struct world *w, int stream, weir_event *event)
{
    ok(weir_device_stream_wait_event(w->device, w->native[stream], event));
    ok(weir_stream_waited(w->pool, w->stream[stream], event));
}

static inline void forget(struct world *w, weir_event *event)
{
    ok(weir_event_forgotten(w->pool, event));
    ok(weir_device_event_destroy(w->device, event));
}

#endif
