/* core/src/memory/budget.c: how much memory a pool may take: hard limit, soft limit, pressure callback.
 *
 * Idea: a request first tries the whole ladder with the soft limit instead of the hard limit. If that fails for lack of
 * room under the soft limit, the callback is called. While the callback returns that it has freed something, the
 * request tries the ladder again; then once more with the hard limit (ladder.c).
 *
 *     reserved   0 ---------- 15/16 soft ---- soft ------------------ hard
 *                 grows freely      |  waits, returns, calls     | takes no more
 *                                   callback armed again below
 *
 * Guarantee: reserved memory exceeds the hard limit only by memory that was reserved before the limit was lowered, and
 * that excess only shrinks. Reserved memory exceeds the soft limit only for requests that could not be served below it.
 * The callback is never called with a lock held, never by two threads at once, and never again for a crossing of the
 * soft limit at which it had nothing to free.
 *
 * Counters that show it: soft_limit_growths and pressure_calls of weir_pool_stats.
 */
#include "base/tuning.h"
#include "memory/memory.h"
#include "shared/cancel.h"

#include <inttypes.h>

uint64_t weir__budget_limit_locked(const weir_pool *pool, bool soft)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const weir_pool_config *config = &pool->config;
    const uint64_t limit = soft && config->soft_limit_bytes != 0 ? config->soft_limit_bytes : config->limit_bytes;
    return limit != 0 ? limit : UINT64_MAX;
}

uint64_t weir__budget_most_locked(const weir_pool *pool, bool soft)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const uint64_t limit = weir__budget_limit_locked(pool, soft);
    const uint64_t capacity = weir__device_info(pool->device)->capacity_bytes;
    if (capacity == 0) {
        return limit != UINT64_MAX ? limit : 0;
    }
    return capacity < limit ? capacity : limit;
}

void weir__budget_note_locked(weir_pool *pool, bool grown)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(pool->held.peak >= pool->held.bytes);
    const uint64_t soft = pool->config.soft_limit_bytes;
    const uint64_t hard = pool->config.limit_bytes;
    if (grown) {
        pool->counts.soft_limit_growths += soft != 0 && pool->held.bytes > soft;
        return;
    }
    if (pool->held.over_limit != 0) {
        pool->held.over_limit = pool->held.bytes > hard ? pool->held.bytes : 0;
    }
    if (pool->held.bytes <= soft - soft / soft_limit_slack) {
        pool->held.pressure_spent = false;
    }
}

bool weir__budget_press(const struct request *request, uint64_t least)
{
    weir_pool *pool = request->pool;
    pool_lock(pool);
    const uint64_t soft = pool->config.soft_limit_bytes;
    const uint64_t would_be = pool->held.bytes + least;
    const bool ask =
        pool->config.pressure_callback != NULL && !pool->held.pressure_spent && !pool->held.in_pressure_callback;
    const weir_pressure pressure = {
        .struct_size = sizeof(pressure),
        .size = request->size,
        .stream = request->stream->lane,
        .reserved_bytes = pool->held.bytes,
        .over_bytes = would_be > soft ? would_be - soft : 0,
        .soft_limit_bytes = soft,
        .limit_bytes = pool->config.limit_bytes,
    };
    if (ask) {
        pool->held.in_pressure_callback = true;
        pool->counts.pressure_calls++;
    }
    pool_unlock(pool);
    if (!ask) {
        return false;
    }
    const bool helped = UNCANCELLED(pool->config.pressure_callback(pool->config.pressure_ctx, pool, &pressure));
    pool_lock(pool);
    WEIR_ASSERT(pool->held.in_pressure_callback);
    pool->held.in_pressure_callback = false;
    pool->held.pressure_spent = !helped;
    pool_unlock(pool);
    return helped;
}
