/* tests/rig/pool.h: a pool over a simulator, and its streams.
 *
 * The auditor of the simulator is told of each block and judges the order: kernels are still running when the next step
 * is taken, and no call costs host time. The including file names its streams first: enum { A, B, streams };
 */
#ifndef WEIR_RIG_POOL_H
#define WEIR_RIG_POOL_H

#include "sim.h"

#include <weir/budget.h>
#include <weir/caching.h>
#include <weir/pool.h>

struct world {
    weir_sim *sim;
    weir_device *device; /* the simulator's device, also if the pool's device wraps it */
    weir_pool *pool;
    weir_sim_stream *native[streams];
    weir_stream *stream[streams];
};

/* Returns the config of a device with pages of `unit` bytes and regions in multiples of `unit`. Capacity 0 selects the
 * default capacity. */
static inline weir_sim_config device_of_units(uint64_t unit, uint64_t capacity)
{
    weir_sim_config config = free_of_charge();
    config.region_granularity_bytes = unit;
    config.page_bytes = unit;
    config.capacity_bytes = capacity;
    return config;
}

/* The config of `caching` that takes regions of `bytes` for requests up to `small_bytes`. */
static inline weir_caching_config regions_of(uint64_t bytes, uint64_t small_bytes)
{
    weir_caching_config config = WEIR_CACHING_CONFIG_INIT;
    config.small_region_bytes = bytes;
    config.small_bytes = small_bytes;
    return config;
}

/* Creates the native streams and enters them in the pool. */
static inline void add_streams(struct world *w)
{
    for (int i = 0; i < streams; i++) {
        w->native[i] = new_stream(w->sim);
        ok(weir_pool_stream(w->pool, w->native[i], &w->stream[i]));
    }
}

/* Opens a pool on `sim`. If the config has no device or no strategy, the pool gets the device of `sim` or `caching`. */
static inline struct world world_over(weir_sim *sim, weir_pool_config config)
{
    struct world w = {.sim = sim, .device = weir_sim_device(sim)};
    config.device = config.device != NULL ? config.device : w.device;
    config.strategy = config.strategy != NULL ? config.strategy : weir_caching_strategy();
    ok(weir_pool_create(&config, &w.pool));
    add_streams(&w);
    return w;
}

/* --- statistics --- */

static inline void check_pool(const struct world *w)
{
    const char *why = "";
    if (weir_pool_check(w->pool, &why) != WEIR_OK) {
        fail_msg("check: %s", why);
    }
}

static inline void check(const struct world *w)
{
    is_clean(w->sim); /* the auditor comes before check_pool, because its finding tells more than a failed check */
    check_pool(w);
}

static inline weir_sim_stats device_stats(const struct world *w)
{
    weir_sim_stats stats = WEIR_SIM_STATS_INIT;
    ok(weir_sim_get_stats(w->sim, &stats));
    return stats;
}

/* Bytes that the device has given. */
static inline uint64_t held(const struct world *w)
{
    return device_stats(w).held_bytes;
}

/* The statistics of the pool, which must agree with each other and with the device. Does not call weir_pool_check,
 * which empties caches: so a test sees the pool in the state that the test's calls have left. */
static inline weir_pool_stats figures(const struct world *w)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_get_stats(w->pool, &stats));
    assert_int_equal(stats.reserved_bytes, held(w));
    if (stats.vm_creates == 0) { /* a spare handle is in none of the parts */
        assert_int_equal(stats.reserved_bytes,
                         stats.live_bytes + stats.cached_bytes + stats.pending_bytes + stats.free_bytes);
    }
    uint64_t served = 0;
    for (int i = 0; i < WEIR_RUNG_COUNT; i++) {
        served += stats.served[i];
    }
    assert_int_equal(served, stats.allocs);
    return stats;
}

/* --- the end --- */

/* Destroys a pool. The auditor need not know its blocks. */
static inline void end_world(struct world *w)
{
    check_pool(w);
    ok(weir_pool_destroy(w->pool));
    assert_int_equal(held(w), 0);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

static inline bool announce_end(void *ctx, const weir_walk_entry *entry)
{
    const struct world *w = ctx;
    if (entry->state == WEIR_WALK_LIVE) {
        const bool own = entry->stream >= 1 && entry->stream <= streams;
        weir_sim_stream *stream = own ? w->native[entry->stream - 1] : weir_sim_default_stream(w->sim);
        weir_sim_block_free(w->sim, entry->address, stream, "end");
    }
    return true;
}

/* Destroys the world. The auditor is told that the blocks that are still live end with their pool; the pool waits for
 * all queued work. */
static inline void close_world(struct world *w)
{
    check(w);
    ok(weir_pool_walk(w->pool, announce_end, w));
    ok(weir_pool_destroy(w->pool));
    assert_int_equal(held(w), 0);
    ok(weir_sim_sync(w->sim));
    weir_sim_audit_leaks(w->sim);
    is_clean(w->sim);
    assert_int_equal(weir_sim_destroy(w->sim), WEIR_OK);
}

/* --- blocks --- */

/* Fails with the pool's record of the request if there is no block. */
static inline weir_block *announced(struct world *w, int stream, weir_status status, weir_block *block)
{
    if (status != WEIR_OK) {
        weir_oom_record record = WEIR_OOM_RECORD_INIT;
        ok(weir_pool_get_oom(w->pool, &record));
        print_error("refused: %s\n", record.text);
    }
    ok(status);
    weir_sim_block_alloc(w->sim, weir_block_address(block), weir_block_capacity(block), w->native[stream], "alloc");
    return block;
}

static inline weir_block *get_aligned(struct world *w, int stream, uint64_t size, uint64_t align)
{
    weir_block *block = NULL;
    const weir_status status = weir_pool_alloc(w->pool, w->stream[stream], size, align, &block);
    return announced(w, stream, status, block);
}

static inline weir_block *get(struct world *w, int stream, uint64_t size)
{
    return get_aligned(w, stream, size, 0);
}

static inline weir_block *get_tagged(struct world *w, int stream, uint64_t size, weir_tag tag)
{
    weir_block *block = NULL;
    const weir_status status = weir_pool_alloc_tagged(w->pool, w->stream[stream], size, 0, tag, &block);
    return announced(w, stream, status, block);
}

/* Like get, but the given rung of the ladder must serve the request. */
static inline weir_block *get_by(struct world *w, int stream, uint64_t size, weir_rung rung)
{
    const weir_pool_stats before = figures(w);
    weir_block *block = get(w, stream, size);
    is_clean(w->sim); /* the auditor comes before the comparison of the rungs, because its finding tells more */
    const weir_pool_stats after = figures(w);
    for (int i = 0; i < WEIR_RUNG_COUNT; i++) {
        if (after.served[i] != before.served[i] && i != (int)rung) {
            print_error("served by \"%s\" instead of \"%s\"\n", weir_rung_name((weir_rung)i), weir_rung_name(rung));
        }
    }
    assert_int_equal(after.served[rung], before.served[rung] + 1);
    return block;
}

/* The request must fail. Returns the pool's record. */
static inline weir_oom_record refused(struct world *w, int stream, uint64_t size)
{
    weir_block *block = NULL;
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    fails(weir_pool_alloc(w->pool, w->stream[stream], size, 0, &block), WEIR_ERR_NO_MEMORY);
    assert_null(block);
    ok(weir_pool_get_oom(w->pool, &record));
    return record;
}

static inline void put(struct world *w, weir_block *block, int stream)
{
    weir_sim_block_free(w->sim, weir_block_address(block), w->native[stream], "free");
    ok(weir_pool_free(w->pool, block, w->stream[stream]));
}

static inline void use(struct world *w, weir_block *block, int stream)
{
    ok(weir_pool_use(w->pool, block, w->stream[stream]));
}

/* A kernel that writes the block and is still running when the next step is taken. */
static inline void run_on(struct world *w, const weir_block *block, int stream)
{
    writes(w->sim, w->native[stream], weir_block_address(block), weir_block_capacity(block), "kernel");
}

/* --- events of the caller, which the pool is told of --- */

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

/* Makes stream `to` wait for the work that is on stream `from` now, and tells the pool of this order. */
static inline void tell_order(struct world *w, int from, int to)
{
    weir_event *event = new_event(w->sim);
    record(w, event, from);
    wait_for(w, to, event);
    forget(w, event);
}

#endif
