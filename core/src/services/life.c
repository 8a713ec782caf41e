/* core/src/services/life.c: creates and destroys pools. This file joins all parts of core; nothing in core calls it.
 *
 * Guarantee: a pool that cannot be created leaves nothing behind. Destroying a pool waits for the streams that may
 * still use its memory, and frees every handle even if the device refuses. A call that gives something back and fails
 * is made once more; then the device remembers it (weir__device_return_...).
 */
#include "base/tuning.h"
#include "memory/asleep.h"
#include "services/services.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define ALL_POOL_FLAGS                                                                                                 \
    (WEIR_POOL_SINGLE_THREADED | WEIR_POOL_NO_FRONT_CACHE | WEIR_POOL_KEEP_IDLE_REGIONS | WEIR_POOL_REGIONS |          \
     WEIR_POOL_CAPTURES_TOLD)

/* --- creation --- */

static weir_status start_strategy(weir_pool *pool)
{
    WEIR_ASSERT(pool->state == NULL && pool->strategy != NULL);
    const weir_strategy_ops *strategy = pool->strategy;
    pool->state = calloc(1, strategy->state_size(pool->config.strategy_config));
    if (pool->state == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = strategy->init(pool->state, pool->config.strategy_config);
    if (status != WEIR_OK) {
        free(pool->state);
        return status;
    }
    if (strategy->lane_add != NULL && strategy->lane_add(pool->state, WEIR_LANE_OPEN) != WEIR_OK) {
        strategy->fini(pool->state);
        free(pool->state);
        return WEIR_ERR_NO_MEMORY;
    }
    pool->config.strategy_config = NULL; /* init is done with the struct, so the caller may free it */
    return WEIR_OK;
}

/* True if a pool of this config has virtual memory, false if it takes regions. */
static bool maps(const weir_pool_config *config)
{
    return (config->flags & WEIR_POOL_REGIONS) == 0 && weir__vm_suits(config->device, config->strategy);
}

static weir_status start_memory(weir_pool *pool)
{
    weir_status status = start_strategy(pool);
    pool->memory = &weir__region_memory;
    if (status == WEIR_OK && maps(&pool->config)) {
        pool->memory = &weir__vm_memory;
        status = weir__vm_init(pool);
        if (status != WEIR_OK) {
            pool->strategy->fini(pool->state);
            free(pool->state);
        }
    }
    return status;
}

static weir_status check_config(const weir_pool_config *config)
{
    if (config->device == NULL || config->strategy == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: config.%s is NULL",
                           config->device == NULL ? "device" : "strategy");
    }
    const uint32_t unknown = config->flags & ~(uint32_t)ALL_POOL_FLAGS;
    if (unknown != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: config.flags has unknown bits 0x%x", (unsigned)unknown);
    }
    if ((unsigned)config->growth > WEIR_GROWTH_WAIT_FIRST) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: config.growth %d is no weir_growth",
                           (int)config->growth);
    }
    if (config->limit_bytes != 0 && config->soft_limit_bytes > config->limit_bytes) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_pool_create: config.soft_limit_bytes %" PRIu64 " is above limit_bytes %" PRIu64,
                           config->soft_limit_bytes, config->limit_bytes);
    }
    const uint64_t alignment = weir__device_info(config->device)->region_alignment_bytes;
    if (!maps(config) && alignment < config->strategy->granule_bytes) { /* a region could begin inside a granule */
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_pool_create: the device aligns regions to %" PRIu64
                           " bytes, strategy %s needs %" PRIu64,
                           alignment, config->strategy->name, (uint64_t)config->strategy->granule_bytes);
    }
    return WEIR_OK;
}

static bool make_lanes(weir_pool *pool)
{
    WEIR_ASSERT(pool->streams == NULL);
    pool->lane_room = 64;
    pool->streams = calloc(pool->lane_room, sizeof(weir_stream *));
    pool->done = calloc(pool->lane_room, sizeof(*pool->done));
    pool->limits = calloc(pool->lane_room, sizeof(*pool->limits));
    pool->groups = calloc(1, sizeof(struct lane_group *));
    return pool->streams != NULL && pool->done != NULL && pool->limits != NULL && pool->groups != NULL;
}

static void free_lanes(weir_pool *pool)
{
    free(pool->streams);
    free(pool->done);
    free(pool->limits);
    for (size_t group = 0; pool->groups != NULL && group * 64 < pool->lanes; group++) {
        free(pool->groups[group]);
    }
    free(pool->groups);
    weir__number_map_fini(&pool->natives);
    weir__number_map_fini(&pool->pins);
}

weir_status weir_pool_create(const weir_pool_config *config, weir_pool **out)
{
    weir_pool_config own;
    weir_status status = out != NULL ? weir_struct_adopt(&own, sizeof(own), config, "weir_pool_create: config")
                                     : weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: pool is NULL");
    if (status == WEIR_OK) {
        status = check_config(&own);
    }
    if (status != WEIR_OK) {
        return status;
    }
    weir_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->device = own.device;
    (void)!weir_device_hold(pool->device);
    pool->strategy = own.strategy;
    pool->config = own;
    pool->granule_mask = own.strategy->granule_bytes - 1;
    pool->granule_shift = (unsigned)__builtin_ctzll(own.strategy->granule_bytes);
    pool->ordered = (weir__device_info(own.device)->abilities & WEIR_DEVICE_ORDERED) != 0;
    pool->asks = pool->ordered && weir__device_captures(own.device) && (own.flags & WEIR_POOL_CAPTURES_TOLD) == 0;
    pool->process = getpid();
    pool->lanes = 1;
    pool->oom.struct_size = sizeof(pool->oom);
    atomic_init(&pool->tag_count, 1);
    pool->explain = weir__oom_explain_now;
    const bool cached =
        (own.flags & WEIR_POOL_NO_FRONT_CACHE) == 0 && (own.strategy->flags & WEIR_STRATEGY_NO_FRONT_CACHE) == 0;
    pool->front.large_keys = maps(&own) ? 0 : UINT32_MAX;
    pool->front.largest = cached ? (uint64_t)FRONT_GRANULES << pool->granule_shift : 0;
    status = make_lanes(pool) ? start_memory(pool) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        (void)!weir_device_release(pool->device);
        free_lanes(pool);
        free(pool);
        return status;
    }
    atomic_init(&pool->plain, (own.strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) == 0);
    weir__stream_lock_init(&pool->lock, (own.flags & WEIR_POOL_SINGLE_THREADED) != 0);
    (void)pthread_mutex_init(&pool->growth.mutex, NULL);
    (void)pthread_cond_init(&pool->growth.ended, NULL);
    *out = pool;
    return WEIR_OK;
}

/* --- destruction --- */

/* Waits for the work of all streams, which may still use the memory that the pool gives back. If a wait through an
 * event fails, synchronises the stream itself; if that fails too, the device keeps the memory until it succeeds. */
static void quiesce(weir_pool *pool, weir_status *first)
{
    WEIR_ASSERT(!pool->growth.taken);
    for (size_t lane = 1; lane < pool->lanes && pool->ordered; lane++) {
        weir_stream *stream = pool->streams[lane];
        if (!stream->retired && !is_stand_in(stream) && pool->held.bytes != 0 &&
            weir__order_sync(pool, stream) != WEIR_OK) {
            keep_first(first, weir__device_await_stream(pool->device, stream->native));
        }
    }
}

static void end_streams(weir_pool *pool, weir_status *first)
{
    WEIR_ASSERT(pool->memory != NULL);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        weir_stream *stream = pool->streams[lane];
        WEIR_ASSERT(stream->owner == pool && outside_stream_lock(stream));
        if (stream->probe.event != NULL) {
            keep_first(first, weir__device_return_event(pool->device, stream->probe.event));
        }
        weir__stream_lock_fini(&stream->lock);
        weir__front_fini(&stream->front);
        free(stream->clock);
        free(stream->tags);
        free(stream);
    }
}

weir_status weir_pool_destroy(weir_pool *pool)
{
    weir_status first = WEIR_OK;
    if (pool == NULL || pool->process != getpid()) {
        return WEIR_OK; /* a child of fork leaves the pool as it is: core/README.md, Fork */
    }
    const unsigned holds = atomic_load_explicit(&pool->holds, memory_order_acquire);
    if (holds != 0) {
        return weir_refuse(WEIR_ERR_BUSY,
                           "weir_pool_destroy: the pool is held %u times, by heaps or attachments that stand on it",
                           holds);
    }
    WEIR_ASSERT_FULL(weir_pool_check(pool, NULL) == WEIR_OK);
    weir__arena_orphan_all(pool);
    WEIR_ASSERT(outside_pool_lock(pool));
    quiesce(pool, &first);
    weir__watch_end_blocks(pool);
    pool->memory->return_all(pool, &first);
    weir__sleep_give_copies(pool, true);
    weir__watch_end(pool);
    end_streams(pool, &first);
    weir__stream_fini_events(pool);
    weir__capture_fini(pool);
    weir__block_fini(pool);
    pool->strategy->fini(pool->state);
    pool->memory->fini(pool);
    weir__sleep_fini(pool);
    weir__reserved_fini(pool);
    for (size_t i = 0; i < pool->kept.count; i++) {
        keep_first(&first, weir__device_return_event(pool->device, pool->kept.events[i]));
    }
    free(pool->kept.events);
    weir__tag_fini(pool);
    weir__stream_lock_fini(&pool->lock);
    (void)pthread_cond_destroy(&pool->growth.ended);
    (void)pthread_mutex_destroy(&pool->growth.mutex);
    free_lanes(pool);
    free(pool->state);
    (void)!weir_device_release(pool->device);
    free(pool);
    return first;
}
