/* core/src/memory/trim.c: returns memory to the device because a caller asks for it, or lowers a limit.
 *
 * Guarantee: only idle memory is returned: free memory that no queued work touches, as far as the host has seen. With
 * WEIR_TRIM_WAIT the trim waits for one stream after the other until no more than the memory to keep is reserved.
 *
 * Cost: flushes and polls every stream; a device call for each region or handle that is returned.
 */
#include "memory/memory.h"

#include <inttypes.h>

static weir_status trim(weir_pool *pool, uint64_t keep_bytes, uint32_t flags, uint64_t *released)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    weir_status status = WEIR_OK;
    weir__order_drop_events(pool);
    (void)weir__order_flush_all(pool);
    (void)weir__order_poll(pool);
    uint64_t bytes = pool->memory->give_back(pool, keep_bytes, &status);
    uint64_t round = 0;
    while (status == WEIR_OK && (flags & WEIR_TRIM_WAIT) != 0 &&
           weir__order_sync_next(pool, keep_bytes, &round, &status)) {
        status = status == WEIR_ERR_BUSY ? WEIR_OK : status; /* the stream is being captured: its memory stays */
        bytes += pool->memory->give_back(pool, keep_bytes, &status);
    }
    pool_lock(pool);
    pool->held.mark = (struct high_mark){.reserved = pool->held.bytes};
    weir__region_count_locked(pool, 0, 0); /* which idle regions stay whole depends on the mark */
    pool_unlock(pool);
    if (released != NULL) {
        *released = bytes;
    }
    return status;
}

weir_status weir_pool_trim(weir_pool *pool, uint64_t keep_bytes, uint32_t flags, uint64_t *released)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_trim: pool is NULL");
    }
    if ((flags & ~(uint32_t)WEIR_TRIM_WAIT) != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_trim: flags has unknown bits 0x%x",
                           (unsigned)(flags & ~(uint32_t)WEIR_TRIM_WAIT));
    }
    weir__watch_trim(pool);
    return trim(pool, keep_bytes, flags, released);
}

weir_status weir_pool_set_limits(weir_pool *pool, uint64_t soft_limit_bytes, uint64_t limit_bytes)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_set_limits: pool is NULL");
    }
    if (limit_bytes != 0 && soft_limit_bytes > limit_bytes) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_pool_set_limits: soft_limit_bytes %" PRIu64 " is above limit_bytes %" PRIu64,
                           soft_limit_bytes, limit_bytes);
    }
    pool_lock(pool);
    /* Memory that is on its way from the device was admitted under the old limit, so it must be counted first. */
    (void)weir__region_await_locked(pool);
    pool->config.soft_limit_bytes = soft_limit_bytes;
    pool->config.limit_bytes = limit_bytes;
    pool->held.over_limit = limit_bytes != 0 && pool->held.bytes > limit_bytes ? pool->held.bytes : 0;
    pool->held.pressure_spent = false;
    weir__region_count_locked(pool, 0, 0); /* the bounds of the front caches depend on the limits */
    const uint64_t keep = weir__budget_limit_locked(pool, true);
    const bool over = pool->held.bytes > keep;
    pool_unlock(pool);
    return over ? trim(pool, keep, 0, NULL) : WEIR_OK;
}
