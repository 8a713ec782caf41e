/* ledger.c: counts the bytes that pools hold against their limits: the pool's or heap's own, and a shared one.
 *
 * Guarantee: the pools of one ledger never hold more than its limit, whatever the threads do at the same time.
 */
#include "host_internal.h"

_Thread_local bool weir__host_limit_refused;

bool weir__host_limit_take(weir_host_pool *pool, uint64_t bytes)
{
    WEIR_ASSERT(bytes != 0);
    weir__host_ledger *ledger = pool->ledger;
    const uint64_t limit = atomic_load_explicit(&ledger->limit_bytes, memory_order_relaxed);
    uint64_t held = atomic_load(&ledger->held_bytes);
    do {
        if (limit != 0 && (bytes > limit || held > limit - bytes)) {
            weir__host_limit_refused = true;
            return false;
        }
    } while (!atomic_compare_exchange_weak(&ledger->held_bytes, &held, held + bytes));
    if (ledger->shared != NULL && !weir__shared_limit_take(ledger->shared, bytes, NULL)) {
        (void)atomic_fetch_sub(&ledger->held_bytes, bytes);
        weir__host_limit_refused = true;
        return false;
    }
    uint64_t peak = atomic_load(&ledger->peak_held_bytes);
    while (peak < held + bytes && !atomic_compare_exchange_weak(&ledger->peak_held_bytes, &peak, held + bytes)) {
    }
    weir__host_limit_refused = false;
    return true;
}

void weir__host_limit_give(weir_host_pool *pool, uint64_t bytes)
{
    WEIR_ASSERT(atomic_load(&pool->ledger->held_bytes) >= bytes);
    (void)atomic_fetch_sub(&pool->ledger->held_bytes, bytes);
    if (pool->ledger->shared != NULL) {
        weir__shared_limit_give(pool->ledger->shared, bytes);
    }
}
