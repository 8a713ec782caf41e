/* core/src/pool/pool.c: the front door: a pool's life, and the path of alloc and free through a stream's front cache.
 *
 * Idea: what was freed on a stream may be handed out on the same stream at once, because the stream itself orders the
 * old use before the new one. So each stream keeps the blocks freed on it by exact size, last in first out, and a hit
 * is: take the stream's own lock, pop, count, release. No device call, no event, no counter that other streams write.
 * Only a miss goes on to ladder.c.
 *
 * Guarantee: a block in a front cache is handed out on that stream only, and only for a request of the same number of
 * granules as the one it was made for, so it is never too small. What a cache may hold is bounded in bytes, count and
 * block size, and it is flushed before the pool takes more memory.
 */
#include "front_cache.h"
#include "order/order.h"
#include "pool_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_FRONT_BYTES (UINT64_C(32) << 20)
#define DEFAULT_FRONT_BLOCK_BYTES (UINT64_C(1) << 20)
#define ALL_POOL_FLAGS                                                                             \
    (WEIR_POOL_SINGLE_THREADED | WEIR_POOL_NO_FRONT_CACHE | WEIR_POOL_KEEP_IDLE_REGIONS | WEIR_POOL_VIRTUAL_MEMORY)

#define SIZE_LIMIT (UINT64_C(1) << (WEIR_SIZE_BUCKETS - 1))
#define OUT_OF_LINE __attribute__((noinline))

/* --- locks --- */

uint64_t weir__pool_front_block_bytes(const weir_pool *pool)
{
    const bool watched = atomic_load_explicit(&pool->watched, memory_order_relaxed);
    return watched ? 0 : pool->config.front_cache_block_bytes;
}

void weir__pool_lock_all(weir_pool *pool)
{
    /* A stream that appears while its elders are being locked is waited for as well. */
    size_t locked = 1;
    pool_lock(pool);
    while (locked < pool->lanes) {
        weir_stream *stream = pool->streams[locked];
        pool_unlock(pool);
        stream_visit(stream);
        (void)weir__inbox_clear(pool, stream);
        locked++;
        pool_lock(pool);
    }
}

void weir__pool_unlock_all(weir_pool *pool)
{
    for (size_t lane = pool->lanes; lane-- > 1;) {
        stream_unlock(pool->streams[lane]);
    }
    pool_unlock(pool);
}

/* --- life --- */

static weir_status start_strategy(weir_pool *pool)
{
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
    pool->config.strategy_config = NULL; /* the caller's struct may go now */
    return WEIR_OK;
}

static weir_status start_memory(weir_pool *pool)
{
    weir_status status = start_strategy(pool);
    pool->memory = &weir__region_memory;
    if (status == WEIR_OK && (pool->config.flags & WEIR_POOL_VIRTUAL_MEMORY) != 0) {
        pool->memory = &weir__vm_memory;
        status = weir__vm_init(pool);
        if (status != WEIR_OK) {
            pool->strategy->fini(pool->state);
            free(pool->state);
        }
    }
    return status;
}

static void adopt_defaults(weir_pool *pool)
{
    weir_pool_config *config = &pool->config;
    if (config->front_cache_bytes == 0) {
        config->front_cache_bytes = DEFAULT_FRONT_BYTES;
    }
    if (config->front_cache_block_bytes == 0) {
        config->front_cache_block_bytes = DEFAULT_FRONT_BLOCK_BYTES;
    }
    if ((config->flags & WEIR_POOL_NO_FRONT_CACHE) != 0 ||
        (pool->strategy->flags & WEIR_STRATEGY_NO_FRONT_CACHE) != 0) {
        config->front_cache_bytes = 0;
        config->front_cache_block_bytes = 0;
    }
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
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_create: config.growth %d is no weir_growth", (int)config->growth);
    }
    if (config->limit_bytes != 0 && config->soft_limit_bytes > config->limit_bytes) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_pool_create: config.soft_limit_bytes %" PRIu64 " is above limit_bytes %" PRIu64,
                           config->soft_limit_bytes, config->limit_bytes);
    }
    const uint64_t alignment = weir__device_info(config->device)->region_alignment_bytes;
    const bool regions = (config->flags & WEIR_POOL_VIRTUAL_MEMORY) == 0;
    if (regions && alignment < config->strategy->granule_bytes) { /* a region could begin in the middle of a granule */
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_pool_create: the device aligns regions to %" PRIu64 " bytes, strategy %s needs %" PRIu64, alignment,
                           config->strategy->name, (uint64_t)config->strategy->granule_bytes);
    }
    return WEIR_OK;
}

weir_status weir_pool_create(const weir_pool_config *config, weir_pool **out)
{
    weir_pool_config own;
    weir_status status = out != NULL ? weir__config_adopt(&own, sizeof(own), config, "weir_pool_create: config")
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
    pool->process = getpid();
    pool->lanes = 1;
    pool->oom.struct_size = sizeof(pool->oom);
    atomic_init(&pool->next_block_id, 1);
    atomic_init(&pool->tag_count, 1);
    pool->streams = calloc(1, sizeof(weir_stream *));
    pool->limits = calloc(1, sizeof(*pool->limits));
    adopt_defaults(pool);
    status = pool->streams == NULL || pool->limits == NULL ? WEIR_ERR_NO_MEMORY : start_memory(pool);
    if (status != WEIR_OK) {
        (void)!weir_device_release(pool->device);
        free(pool->streams);
        free(pool->limits);
        free(pool);
        return status;
    }
    weir__stream_lock_init(&pool->lock, (own.flags & WEIR_POOL_SINGLE_THREADED) != 0);
    (void)pthread_mutex_init(&pool->grown_mutex, NULL);
    (void)pthread_cond_init(&pool->grown, NULL);
    *out = pool;
    return WEIR_OK;
}

/* Waits for the streams that may still use what is about to be returned. A stream whose event cannot be recorded or
 * waited for gets a second chance through a plain wait for the stream. */
static void quiesce(weir_pool *pool, weir_status *first)
{
    for (size_t lane = 1; lane < pool->lanes && pool->ordered; lane++) {
        weir_stream *stream = pool->streams[lane];
        if (!stream->retired && pool->reserved_bytes != 0 && weir__order_sync(pool, stream) != WEIR_OK) {
            keep_first(first, weir_device_stream_sync(pool->device, stream->native));
        }
    }
}

static void end_streams(weir_pool *pool, weir_status *first)
{
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        weir_stream *stream = pool->streams[lane];
        if (stream->probe.event != NULL) {
            keep_first(first, TWICE(weir_device_event_destroy(pool->device, stream->probe.event)));
        }
        weir__stream_lock_fini(&stream->lock);
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
        return weir_refuse(WEIR_ERR_BUSY, "weir_pool_destroy: the pool is held %u times, by heaps or attachments that stand on it",
                           holds);
    }
    weir__arena_orphan_all(pool);
    quiesce(pool, &first);
    weir__watch_end_blocks(pool);
    pool->memory->return_all(pool, &first);
    weir__watch_end(pool);
    end_streams(pool, &first);
    weir__stream_fini_events(pool);
    pool->strategy->fini(pool->state);
    pool->memory->fini(pool);
    for (size_t i = 0; i < pool->kept_count; i++) {
        keep_first(&first, TWICE(weir_device_event_destroy(pool->device, pool->kept_events[i])));
    }
    free(pool->kept_events);
    weir__block_fini(pool);
    weir__tag_fini(pool);
    weir__stream_lock_fini(&pool->lock);
    (void)pthread_cond_destroy(&pool->grown);
    (void)pthread_mutex_destroy(&pool->grown_mutex);
    free(pool->streams);
    free(pool->limits);
    free(pool->state);
    (void)!weir_device_release(pool->device);
    free(pool);
    return first;
}

weir_status weir_pool_hold(weir_pool *pool)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_hold: pool is NULL");
    }
    (void)atomic_fetch_add_explicit(&pool->holds, 1, memory_order_relaxed);
    return WEIR_OK;
}

weir_status weir_pool_release(weir_pool *pool)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_release: pool is NULL");
    }
    if (!weir__release_hold(&pool->holds)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_release: the pool is not held");
    }
    return WEIR_OK;
}

/* --- checked builds --- */

/* Whether a handle is the pool's and may be followed at all. Ordinary builds trust what is not NULL. A block's pool never
 * is. */
static inline bool is_block(weir_pool *pool, const weir_block *block)
{
    return block != NULL && (WEIR_CHECKS < 1 || (pool != NULL && weir__block_is_ours(pool, block))) &&
           block->pool == pool;
}

/* The sentence for a block that is none of the pool's, or no longer live. */
static OUT_OF_LINE weir_status refuse_block(const char *function, weir_pool *pool, const weir_block *block)
{
    if (pool == NULL || block == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function, pool == NULL ? "pool" : "block");
    }
    if (!is_block(pool, block)) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: block %p is not a block of this pool", function, (const void *)block);
    }
    return weir_refuse(WEIR_ERR_INVALID, "%s: block %p is not live: it has been freed already", function, (const void *)block);
}

/* No lock is held. */
static inline void prove(weir_pool *pool)
{
    const char *why = NULL;
    weir_status status = WEIR_OK;
    if (WEIR_CHECKS >= 3) {
        status = weir_pool_check(pool, &why);
    } else if (WEIR_CHECKS == 2 &&
               atomic_fetch_add_explicit(&pool->slow_calls, 1, memory_order_relaxed) % 256 == 0) {
        pool_lock(pool);
        status = pool->strategy->check(pool->state, &why);
        pool_unlock(pool);
    }
    if (status == WEIR_ERR_INTERNAL) {
        (void)fprintf(stderr, "weir: an invariant is broken: %s\n", why != NULL ? why : "unknown");
        abort();
    }
}

/* --- the hot path --- */

/* Stream lock held: the block becomes the caller's. */
static inline void hand_out(weir_stream *stream, weir_block *block, uint64_t size)
{
    const uint64_t capacity = block->capacity;
    block->size = size;
    block->stream = stream;
    atomic_store_explicit(&block->state, BLOCK_LIVE, memory_order_relaxed);
    count_alloc(stream, size, capacity);
}

/* What a request is counted under: a tag of the pool, or whatever is the stream's when its lock is held. */
#define TAG_OF_STREAM ((weir_tag)WEIR_TAGS)

/* Stream lock held. */
static inline weir_tag tag_on(const weir_stream *stream, weir_tag wanted)
{
    return wanted == TAG_OF_STREAM ? stream->tag : wanted;
}

/* Stream lock held, let go on return; the arguments are good and the front cache has nothing for them, or `block` is what
 * it had. Out of line, so that a hit pays for nothing that only this needs, and with the arguments in the registers where
 * weir_pool_alloc gets them. Whoever begins to watch holds every stream's lock, so who is read to watch under it here either
 * saw the block live or gets its alloc. */
static OUT_OF_LINE weir_status alloc_missed(weir_block *block, weir_stream *stream, uint64_t size, uint64_t align,
                                            weir_block **out, weir_tag wanted)
{
    weir_pool *pool = stream->owner;
    if (block == NULL && !inbox_is_empty(stream) && size <= pool->config.front_cache_block_bytes &&
        align <= pool->granule_mask + 1) {
        block = weir__inbox_take(pool, stream, front_key(pool, size));
    }
    if (block == NULL) {
        struct request request = {
            .pool = pool,
            .stream = stream,
            .size = size,
            .align = align != 0 ? align : pool->granule_mask + 1,
            .tag = tag_on(stream, wanted),
        };
        if (!weir__order_alloc_own(&request)) {
            stream_unlock(stream);
            weir_status status = weir__order_alloc(&request);
            if (status != WEIR_OK) {
                return status;
            }
            stream_lock(stream);
        }
        block = request.block;
        stream->counters.misses++;
    }
    const weir_tag tag = tag_on(stream, wanted);
    hand_out(stream, block, size);
    if (tag != 0) {
        weir__tag_take(stream, block, tag);
    }
    if (UNLIKELY(is_watched(pool))) {
        weir__watch_alloc_unlock(stream, block, align);
    } else {
        stream_unlock(stream);
    }
    *out = block;
    prove(pool);
    return WEIR_OK;
}

/* WEIR_OK when the arguments of a request are good. */
static weir_status check_request(const weir_pool *pool, const weir_stream *stream, uint64_t size, uint64_t align,
                                 weir_block **out, weir_tag wanted)
{
    const char *function = wanted == TAG_OF_STREAM ? "weir_pool_alloc" : "weir_pool_alloc_tagged";
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream(function, pool, stream);
    }
    if (out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: block is NULL", function);
    }
    if (size == 0 || size >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: size %" PRIu64 " is %s", function, size,
                           size == 0 ? "no size" : "too large to round");
    }
    if ((align & (align - 1)) != 0 || align >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: align %" PRIu64 " is %s", function, align,
                           align >= SIZE_LIMIT ? "too large" : "not a power of two");
    }
    return WEIR_OK;
}

/* For callers whose arguments have not been looked at, or who may not have the stream's lock at once. */
static OUT_OF_LINE weir_status alloc_slow(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align,
                                          weir_block **out, weir_tag wanted)
{
    const weir_status status = check_request(pool, stream, size, align, out, wanted);
    if (status != WEIR_OK) {
        return status;
    }
    weir_block *block = NULL;
    stream_lock(stream);
    if (size <= pool->config.front_cache_block_bytes && align <= pool->granule_mask + 1) {
        block = front_pop(stream, front_key(pool, size));
    }
    return alloc_missed(block, stream, size, align, out, wanted);
}

/* The end of a hit that is counted under a tag; the stream's lock is held. */
static OUT_OF_LINE weir_status finish_tagged(weir_block *block, weir_stream *stream, weir_tag wanted, weir_block **out)
{
    weir__tag_take(stream, block, tag_on(stream, wanted));
    stream_unlock(stream);
    *out = block;
    return WEIR_OK;
}

/* While somebody watches, and on a retired stream, front_block_bytes is 0 and no block is a hit. */
static inline weir_status alloc(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align, weir_tag wanted,
                                weir_block **out)
{
    /* What fails here is looked at again, in full, by alloc_slow. */
    struct lock_seat *seat = NULL;
    if (LIKELY(stream != NULL && stream->pool == pool && out != NULL && align <= 1 &&
               stream_lock_try(&stream->lock, &seat))) {
        const uint64_t most = front_block_bytes(stream);
        /* size - 1 turns size 0 away as well. */
        if (UNLIKELY(size - 1 >= most)) {
            if (most != 0 && size - 1 < SIZE_LIMIT - 1) {
                return alloc_missed(NULL, stream, size, align, out, wanted);
            }
            stream_unlock(stream);
            return alloc_slow(pool, stream, size, align, out, wanted);
        }
        weir_block *block = front_pop(stream, front_key(pool, size));
        if (UNLIKELY(block == NULL)) {
            return alloc_missed(NULL, stream, size, align, out, wanted);
        }
        hand_out(stream, block, size);
        if (UNLIKELY(tag_on(stream, wanted) != 0)) {
            return finish_tagged(block, stream, wanted, out);
        }
        stream_lock_release_tried(seat);
        *out = block;
        return WEIR_OK;
    }
    return alloc_slow(pool, stream, size, align, out, wanted);
}

weir_status weir_pool_alloc(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align, weir_block **out)
{
    return alloc(pool, stream, size, align, TAG_OF_STREAM, out);
}

weir_status weir_pool_alloc_tagged(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align, weir_tag tag,
                                   weir_block **out)
{
    if (pool == NULL || tag >= atomic_load_explicit(&pool->tag_count, memory_order_acquire)) {
        return weir__refuse_tag("weir_pool_alloc_tagged", pool, tag);
    }
    return alloc(pool, stream, size, align, tag, out);
}

/* A use lasts until the free: now is the moment to say up to which tick. The tick is read under that stream's lock,
 * after the caller queued the work, so that only an event recorded after that work can cover it. */
static void close_uses(weir_block *block)
{
    struct weir_use **link = &block->uses;
    while (*link != NULL) {
        struct weir_use *use = *link;
        stream_visit(use->stream);
        const bool gone = use->stream->pool == NULL || use->stream->serial != use->serial;
        if (use->tick == 0) {
            use->tick = atomic_load_explicit(&use->stream->tick, memory_order_relaxed);
        }
        stream_unlock(use->stream);
        if (gone) {
            *link = use->next;
            weir__use_delete(block, use);
        } else {
            link = &use->next;
        }
    }
}

/* For strategies that keep no free region: what has become free goes back, once nothing uses it. */
static void return_now(weir_pool *pool, weir_stream *stream, uint64_t address)
{
    if (pool->ordered && stream != NULL) {
        (void)weir__order_sync(pool, stream);
    }
    weir_status status = weir__region_return_at(pool, address);
    (void)status; /* counted; the region stays with the pool and goes with a later free, a trim or the destroy */
}

/* A stream's lock held, under which the live block is then freed: whoever begins to watch holds every stream's lock, so
 * a block that it lists as live is one whose free is still to be told. Looked at without the lock, who begins meanwhile
 * would miss the free and see the next block at the same address. */
static inline void tell_free(weir_pool *pool, const weir_block *block, const weir_stream *stream)
{
    if (UNLIKELY(is_watched(pool))) {
        weir__watch_free(block, stream);
    }
}

/* Stream lock held, let go on return; the block is live. */
static OUT_OF_LINE weir_status free_missed(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    const uint64_t address = block_address(block);
    tell_free(pool, block, stream);
    count_free(stream, block);
    drop_tag(stream, block);
    const bool cached = block->uses == NULL && front_keep(pool, stream, block);
    if (!cached) {
        weir__order_free(block, stream);
    }
    stream_unlock(stream);
    if (!cached) {
        if ((pool->strategy->flags & WEIR_STRATEGY_RETURNS_REGIONS) != 0) {
            return_now(pool, stream, address);
        }
        prove(pool);
    }
    return WEIR_OK;
}

/* Stream lock held, let go on return: a block with a tag, or none that is live. */
static OUT_OF_LINE weir_status free_other(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    if (state_of(block) != BLOCK_LIVE) {
        stream_unlock(stream);
        return refuse_block("weir_pool_free", pool, block);
    }
    drop_tag(stream, block);
    if (block->uses == NULL && block->size <= front_block_bytes(stream) && front_push(pool, stream, block)) {
        count_free(stream, block);
        stream_unlock(stream);
        return WEIR_OK;
    }
    return free_missed(pool, block, stream);
}

/* For callers whose arguments have not been looked at, or who may not have the stream's lock at once. */
static OUT_OF_LINE weir_status free_slow(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    if (!is_block(pool, block)) {
        return refuse_block("weir_pool_free", pool, block);
    }
    if (stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_pool_free", pool, stream);
    }
    if (block->uses != NULL && state_of(block) == BLOCK_LIVE) {
        close_uses(block);
    }
    if (!weir__stream_lock_try_shared(&stream->lock)) {
        if (block->uses == NULL && weir__inbox_put(pool, block, stream)) {
            return WEIR_OK;
        }
        stream_lock(stream);
    }
    return free_other(pool, block, stream);
}

weir_status weir_pool_free(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    struct lock_seat *seat = NULL;
    if (LIKELY(is_block(pool, block) && stream != NULL && stream->pool == pool && block->uses == NULL &&
               stream_lock_try(&stream->lock, &seat))) {
        if (UNLIKELY(state_word(block) != BLOCK_LIVE)) {
            return free_other(pool, block, stream);
        }
        if (UNLIKELY(block->size > front_block_bytes(stream) || !front_push(pool, stream, block))) {
            return free_missed(pool, block, stream);
        }
        count_free(stream, block);
        stream_lock_release_tried(seat);
        return WEIR_OK;
    }
    return free_slow(pool, block, stream);
}

weir_status weir_pool_free_idle(weir_pool *pool, weir_block *block)
{
    if (!is_block(pool, block) || state_of(block) != BLOCK_LIVE) {
        return refuse_block("weir_pool_free_idle", pool, block);
    }
    const uint64_t address = block_address(block);
    weir_stream *owner = block->stream; /* its counters stay right when it has been retired */
    stream_visit(owner);
    const bool live = state_of(block) == BLOCK_LIVE;
    if (live) {
        tell_free(pool, block, NULL);
        count_free(owner, block);
        drop_tag(owner, block);
        weir__order_free_idle(block);
    }
    stream_unlock(owner);
    if (live && (pool->strategy->flags & WEIR_STRATEGY_RETURNS_REGIONS) != 0) {
        return_now(pool, NULL, address);
    }
    return live ? WEIR_OK : refuse_block("weir_pool_free_idle", pool, block);
}

/* --- uses --- */

/* WEIR_OK when the block is live and the stream is the pool's. */
static weir_status check_use(const char *function, weir_pool *pool, const weir_block *block, const weir_stream *stream)
{
    if (!is_block(pool, block) || state_of(block) != BLOCK_LIVE) {
        return refuse_block(function, pool, block);
    }
    return stream != NULL && stream->pool == pool ? WEIR_OK : weir__refuse_stream(function, pool, stream);
}

static struct weir_use *find_use(const weir_block *block, const weir_stream *stream)
{
    struct weir_use *use = block->uses;
    while (use != NULL && (use->stream != stream || use->serial != stream->serial)) {
        use = use->next;
    }
    return use;
}

weir_status weir_pool_use(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    const weir_status status = check_use("weir_pool_use", pool, block, stream);
    if (status != WEIR_OK) {
        return status;
    }
    weir_recorder *recorder = atomic_load_explicit(&pool->recorder, memory_order_acquire);
    if (recorder != NULL) {
        weir__record_use(recorder, block->id, stream->lane);
    }
    pool_lock(pool);
    struct weir_use *use = find_use(block, stream);
    if (use == NULL) {
        use = malloc(sizeof(*use));
        if (use != NULL) {
            use->stream = stream;
            use->serial = stream->serial;
            use->next = block->uses;
            block->uses = use;
        }
    }
    if (use != NULL) {
        use->tick = 0;
    }
    pool_unlock(pool);
    return use != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

weir_status weir_pool_use_end(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    const weir_status status = check_use("weir_pool_use_end", pool, block, stream);
    if (status != WEIR_OK) {
        return status;
    }
    stream_visit(stream);
    weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    pool_lock(pool);
    struct weir_use *use = find_use(block, stream);
    if (use != NULL) {
        use->tick = tick;
    }
    pool_unlock(pool);
    stream_unlock(stream);
    return WEIR_OK;
}

/* --- blocks --- */

uint64_t weir_block_address(const weir_block *block)
{
    return block_address(block);
}

uint64_t weir_block_size(const weir_block *block)
{
    return block->size;
}

uint64_t weir_block_capacity(const weir_block *block)
{
    return block->capacity;
}

weir_pool *weir_block_pool(const weir_block *block)
{
    return block->pool;
}

weir_stream *weir_block_stream(const weir_block *block)
{
    return block->stream;
}

weir_status weir_pool_find(weir_pool *pool, uint64_t address, weir_block **out)
{
    if (pool == NULL || out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_find: %s is NULL", pool == NULL ? "pool" : "block");
    }
    weir_block *block = NULL;
    weir_status status = weir__block_find(pool, address, &block);
    if (status != WEIR_OK) {
        return status;
    }
    if (block == NULL || state_of(block) != BLOCK_LIVE) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_find: no live block starts at 0x%" PRIx64, address);
    }
    *out = block;
    return WEIR_OK;
}

/* --- recording --- */

const weir_device_info *weir__pool_device_info(const weir_pool *pool)
{
    return weir__device_info(pool->device);
}

struct live_visit {
    void (*live)(void *ctx, uint64_t block_id, uint64_t size, uint32_t stream_number, uint64_t address);
    void *ctx;
};

/* A block that has come into an inbox since its stream was locked is listed too: its free is still to be recorded. */
static void show_live(void *ctx, weir_block *block)
{
    const struct live_visit *visit = ctx;
    const weir_block_state state = state_of(block);
    if (state == BLOCK_LIVE || state == BLOCK_RETURNED) {
        block->id = atomic_fetch_add_explicit(&block->pool->next_block_id, 1, memory_order_relaxed);
        visit->live(visit->ctx, block->id, block->size, block->stream->lane, block_address(block));
    }
}

weir_status weir__pool_set_recorder(weir_pool *pool, weir_recorder *recorder,
                                    void (*live)(void *ctx, uint64_t block_id, uint64_t size, uint32_t stream_number,
                                                 uint64_t address),
                                    void *ctx)
{
    weir_status status = WEIR_OK;
    weir__pool_lock_all(pool);
    if (recorder != NULL && atomic_load_explicit(&pool->recorder, memory_order_relaxed) != NULL) {
        status = WEIR_ERR_BUSY; /* the caller says why */
    } else {
        if (recorder != NULL && live != NULL) {
            struct live_visit visit = { live, ctx };
            weir__block_each_locked(pool, show_live, &visit);
        }
        atomic_store_explicit(&pool->recorder, recorder, memory_order_release);
        weir__watch_changed_locked(pool);
    }
    weir__pool_unlock_all(pool);
    return status;
}
