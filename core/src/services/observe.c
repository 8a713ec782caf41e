/* core/src/services/observe.c: attaches and detaches observers.
 *
 * Guarantee: a thread that attaches or detaches an observer holds every stream's lock and is the only thread that may
 * take memory from the device (growth.taken). So for a block that it lists as live the free is still to be reported,
 * for memory that it lists the return is still to be reported, and nothing is reported twice. state/observers.c does
 * the reporting.
 */
#include "services/services.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Takes all locks and the right to grow. Until let_go is called, no thread takes memory from the device or gives memory
 * back, and no thread allocates or frees a block. */
static void hold_still(weir_pool *pool)
{
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    pool->growth.taken = true;
    pool_unlock(pool);
    weir__pool_lock_all(pool);
}

static void let_go(weir_pool *pool)
{
    weir__region_end_growing_locked(pool);
    weir__pool_unlock_all(pool);
}

/* Updates the pool after the list of observers has changed. All locks held. */
static void set_watched(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    atomic_store_explicit(&pool->watch.any, atomic_load(&pool->watch.observers) != NULL, memory_order_release);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        weir__stream_set_front(pool->streams[lane], weir__stream_front_block_bytes(pool->streams[lane]));
    }
}

/* --- attaching --- */

static void list_memory(void *ctx, uint64_t address, uint64_t size)
{
    weir__observer_tell_memory(ctx, true, address, size);
}

static void list_block(void *ctx, weir_block *block)
{
    weir__observer_list_block(ctx, block);
}

static void list_all_locked(const weir_pool *pool, struct pool_observer *observer)
{
    WEIR_ASSERT(pool_is_locked(pool));
    for (const struct pool_region *region = pool->regions; region != NULL; region = region->next) {
        list_memory(observer, region->address, region->size);
    }
    if (pool->vm != NULL) {
        weir__vm_each_handle_locked(pool, list_memory, observer);
    }
    weir__block_each_locked(pool, list_block, observer);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        const struct weir_capture_pool *captures = pool->streams[lane]->as.captures;
        if (captures != NULL && captures->open && captures->first == pool->streams[lane]) {
            weir__observer_list_capture(observer, captures);
        }
    }
}

/* True if the pool has an observer with the same functions or the same ctx. An observer with the same functions is the
 * same tool. Observers with the same ctx could not be told apart by weir_pool_unobserve. All locks held. */
static bool has_its_like(const weir_pool *pool, const struct pool_observer *observer)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_observer *other = atomic_load(&pool->watch.observers);
    while (other != NULL && other->ctx != observer->ctx &&
           memcmp(&other->ops, &observer->ops, sizeof(observer->ops)) != 0) {
        other = atomic_load(&other->next);
    }
    return other != NULL;
}

weir_status weir_pool_observe(weir_pool *pool, const weir_observer_ops *ops, void *ctx)
{
    weir_observer_ops own;
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_observe: pool is NULL");
    }
    weir_status status = weir_struct_adopt(&own, sizeof(own), ops, "weir_pool_observe: ops");
    if (status != WEIR_OK) {
        return status;
    }
    struct pool_observer *observer = malloc(sizeof(*observer));
    if (observer == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    observer->ops = own;
    observer->ctx = ctx;
    hold_still(pool);
    if (has_its_like(pool, observer)) {
        status = weir_refuse(WEIR_ERR_BUSY,
                             "weir_pool_observe: the pool has an observer already with these functions or this ctx");
    } else {
        atomic_init(&observer->next, atomic_load(&pool->watch.observers));
        list_all_locked(pool, observer);
        atomic_store(&pool->watch.observers, observer);
        set_watched(pool);
    }
    let_go(pool);
    if (status != WEIR_OK) {
        free(observer);
    }
    return status;
}

/* --- detaching --- */

/* Removes the observer with context `ctx` from the list. Returns NULL if there is none. All locks held. */
static struct pool_observer *take_out(weir_pool *pool, const void *ctx)
{
    WEIR_ASSERT(pool_is_locked(pool));
    _Atomic(struct pool_observer *) *link = &pool->watch.observers;
    struct pool_observer *observer = atomic_load(link);
    while (observer != NULL && observer->ctx != ctx) {
        link = &observer->next;
        observer = atomic_load(link);
    }
    if (observer != NULL) {
        atomic_store(link, atomic_load(&observer->next));
    }
    return observer;
}

/* Waits until no thread can call a removed observer any more. Both counters reporting[side] must become 0, because a
 * thread may read `side` and count itself there much later. One thread at a time waits. No lock held. */
static void await_reporting(weir_pool *pool)
{
    while (atomic_exchange(&pool->watch.awaiting, true)) {
        (void)sched_yield();
    }
    for (int turn = 0; turn < 2; turn++) {
        const unsigned side = atomic_fetch_add(&pool->watch.side, 1) % 2;
        while (atomic_load(&pool->watch.reporting[side]) != 0) {
            (void)sched_yield();
        }
    }
    atomic_store(&pool->watch.awaiting, false);
}

weir_status weir_pool_unobserve(weir_pool *pool, void *ctx)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_unobserve: pool is NULL");
    }
    hold_still(pool);
    struct pool_observer *observer = take_out(pool, ctx);
    set_watched(pool);
    let_go(pool);
    if (observer == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_unobserve: ctx is not the context of an observer of the pool");
    }
    await_reporting(pool);
    free(observer);
    return WEIR_OK;
}
