/* core/src/pool/observe.c: telling a pool's observer, and its recorder where both hear of the same: alloc and free.
 *
 * Idea: while somebody watches, front_block_bytes is 0 on every stream, so every alloc and free takes the long way, and
 * there a single flag (pool->watched) leads here. Without a watcher nothing in this file runs.
 *
 * Guarantee: who begins or ends to observe holds every stream's lock and is the one thread that may take memory from the
 * device (`growing`). So a block that it lists as live is one whose free is still to be told, memory that it lists is
 * memory whose hand-back is still to be told, and nothing is told twice. An alloc is told without a lock; `telling`
 * counts the threads that do, and whoever ends the observation waits for them.
 */
#include "base/cancel.h"
#include "memory/memory.h"
#include "pool_internal.h"

#include <sched.h>
#include <stdlib.h>

struct pool_observer {
    weir_observer_ops ops; /* no slot is NULL */
    void *ctx;
};

/* --- telling --- */

static void tell_of_memory(const struct pool_observer *observer, void (*slot)(void *ctx, uint64_t address, uint64_t size),
                           uint64_t address, uint64_t size)
{
    const int cancel_state = cancel_disable();
    slot(observer->ctx, address, size);
    cancel_restore(cancel_state);
}

static void tell_of_block(const struct pool_observer *observer,
                          void (*slot)(void *ctx, const weir_observed_block *block), const weir_observed_block *block)
{
    const int cancel_state = cancel_disable();
    slot(observer->ctx, block);
    cancel_restore(cancel_state);
}

static void tell_of_end(const struct pool_observer *observer)
{
    const int cancel_state = cancel_disable();
    observer->ops.pool_gone(observer->ctx);
    cancel_restore(cancel_state);
}

static weir_observed_block observed(const weir_block *block, const weir_stream *stream)
{
    return (weir_observed_block){
        .struct_size = sizeof(weir_observed_block),
        .address = block_address(block),
        .size = block->size,
        .capacity = block->capacity,
        .native_stream = stream != NULL ? stream->native : NULL,
    };
}

void weir__watch_alloc_unlock(weir_stream *stream, weir_block *block, uint64_t align)
{
    weir_pool *pool = stream->owner;
    weir_recorder *recorder = atomic_load_explicit(&pool->recorder, memory_order_acquire);
    const struct pool_observer *observer = atomic_load_explicit(&pool->observer, memory_order_acquire);
    const weir_observed_block known = observed(block, stream);
    const weir_tag tag = tag_of(block);
    uint64_t id = 0;
    if (recorder != NULL) {
        id = atomic_fetch_add_explicit(&pool->next_block_id, 1, memory_order_relaxed);
        block->id = id;
    }
    if (observer != NULL) {
        atomic_fetch_add_explicit(&pool->telling, 1, memory_order_relaxed);
    }
    stream_unlock(stream);
    if (recorder != NULL) {
        weir__record_alloc(recorder, id, known.size, align, stream->lane, known.address, tag);
    }
    if (observer != NULL) {
        tell_of_block(observer, observer->ops.block_alloc, &known);
        atomic_fetch_sub_explicit(&pool->telling, 1, memory_order_release);
    }
}

void weir__watch_free(const weir_block *block, const weir_stream *stream)
{
    weir_pool *pool = block->pool;
    weir_recorder *recorder = atomic_load_explicit(&pool->recorder, memory_order_acquire);
    const struct pool_observer *observer = atomic_load_explicit(&pool->observer, memory_order_acquire);
    if (recorder != NULL) {
        weir__record_free(recorder, block->id, stream != NULL ? stream->lane : WEIR_TRACE_NONE);
    }
    if (observer != NULL) {
        const weir_observed_block known = observed(block, stream);
        tell_of_block(observer, observer->ops.block_free, &known);
    }
}

void weir__watch_given(const weir_pool *pool, uint64_t address, uint64_t size)
{
    const struct pool_observer *observer = atomic_load_explicit(&pool->observer, memory_order_acquire);
    if (observer != NULL) {
        tell_of_memory(observer, observer->ops.memory_given, address, size);
    }
}

void weir__watch_taken(const weir_pool *pool, uint64_t address, uint64_t size)
{
    const struct pool_observer *observer = atomic_load_explicit(&pool->observer, memory_order_acquire);
    if (observer != NULL) {
        tell_of_memory(observer, observer->ops.memory_taken, address, size);
    }
}

/* --- beginning and ending --- */

static void ignore_memory(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    (void)address;
    (void)size;
}

static void ignore_block(void *ctx, const weir_observed_block *block)
{
    (void)ctx;
    (void)block;
}

static void ignore_end(void *ctx)
{
    (void)ctx;
}

static void fill_slots(weir_observer_ops *ops)
{
    ops->memory_given = ops->memory_given != NULL ? ops->memory_given : ignore_memory;
    ops->memory_taken = ops->memory_taken != NULL ? ops->memory_taken : ignore_memory;
    ops->block_alloc = ops->block_alloc != NULL ? ops->block_alloc : ignore_block;
    ops->block_free = ops->block_free != NULL ? ops->block_free : ignore_block;
    ops->pool_gone = ops->pool_gone != NULL ? ops->pool_gone : ignore_end;
}

void weir__watch_changed_locked(weir_pool *pool)
{
    const bool watched = atomic_load_explicit(&pool->recorder, memory_order_relaxed) != NULL ||
                         atomic_load_explicit(&pool->observer, memory_order_relaxed) != NULL;
    atomic_store_explicit(&pool->watched, watched, memory_order_release);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        atomic_store_explicit(&pool->streams[lane]->front_block_bytes, weir__pool_front_block_bytes(pool),
                              memory_order_relaxed);
    }
}

/* Nobody takes memory from the device or gives it back, and no block changes hands, until let_go. */
static void hold_still(weir_pool *pool)
{
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    pool->growing = true;
    pool_unlock(pool);
    weir__pool_lock_all(pool);
}

static void let_go(weir_pool *pool)
{
    weir__region_end_growing_locked(pool);
    weir__pool_unlock_all(pool);
}

static void tell_memory(void *ctx, uint64_t address, uint64_t size)
{
    weir__watch_given(ctx, address, size);
}

/* A block that has come into an inbox since its stream was locked is told too: its free is still to be told. */
static bool is_told(const weir_block *block)
{
    const weir_block_state state = state_of(block);
    return state == BLOCK_LIVE || state == BLOCK_RETURNED;
}

static void tell_block(void *ctx, weir_block *block)
{
    const struct pool_observer *observer = ctx;
    if (is_told(block)) {
        const weir_observed_block known = observed(block, block->stream);
        tell_of_block(observer, observer->ops.block_alloc, &known);
    }
}

static void tell_all_locked(weir_pool *pool, struct pool_observer *observer)
{
    for (const struct pool_region *region = pool->regions; region != NULL; region = region->next) {
        weir__watch_given(pool, region->address, region->size);
    }
    if (pool->vm != NULL) {
        weir__vm_each_granule_locked(pool, tell_memory, pool);
    }
    weir__block_each_locked(pool, tell_block, observer);
}

weir_status weir_pool_observe(weir_pool *pool, const weir_observer_ops *ops, void *ctx)
{
    weir_observer_ops own;
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_observe: pool is NULL");
    }
    weir_status status = weir__config_adopt(&own, sizeof(own), ops, "weir_pool_observe: ops");
    if (status != WEIR_OK) {
        return status;
    }
    struct pool_observer *observer = malloc(sizeof(*observer));
    if (observer == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    fill_slots(&own);
    *observer = (struct pool_observer){ .ops = own, .ctx = ctx };
    hold_still(pool);
    if (atomic_load_explicit(&pool->observer, memory_order_relaxed) != NULL) {
        status = weir_refuse(WEIR_ERR_BUSY, "weir_pool_observe: the pool has an observer already");
    } else {
        atomic_store_explicit(&pool->observer, observer, memory_order_release);
        weir__watch_changed_locked(pool);
        tell_all_locked(pool, observer);
    }
    let_go(pool);
    if (status != WEIR_OK) {
        free(observer);
    }
    return status;
}

weir_status weir_pool_unobserve(weir_pool *pool, void *ctx)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_unobserve: pool is NULL");
    }
    hold_still(pool);
    struct pool_observer *observer = atomic_load_explicit(&pool->observer, memory_order_relaxed);
    const bool ours = observer != NULL && observer->ctx == ctx;
    if (ours) {
        atomic_store_explicit(&pool->observer, NULL, memory_order_release);
        weir__watch_changed_locked(pool);
    }
    let_go(pool);
    if (!ours) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_unobserve: ctx is not the context of the pool's observer");
    }
    while (atomic_load_explicit(&pool->telling, memory_order_acquire) != 0) {
        (void)sched_yield();
    }
    free(observer);
    return WEIR_OK;
}

/* --- the pool's end: nobody else uses it --- */

static void tell_free(void *ctx, weir_block *block)
{
    (void)ctx;
    if (is_told(block)) {
        weir__watch_free(block, NULL);
    }
}

void weir__watch_end_blocks(weir_pool *pool)
{
    atomic_store_explicit(&pool->recorder, NULL, memory_order_relaxed);
    if (atomic_load_explicit(&pool->observer, memory_order_relaxed) != NULL) {
        weir__block_each_locked(pool, tell_free, NULL);
    }
}

void weir__watch_end(weir_pool *pool)
{
    struct pool_observer *observer = atomic_load_explicit(&pool->observer, memory_order_relaxed);
    if (observer != NULL) {
        tell_of_end(observer);
        free(observer);
    }
}
