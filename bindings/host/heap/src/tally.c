/* tally.c: live bytes that many threads count, and the exact peak of their sum, without a shared counter.
 *
 * Idea: threads are spread over cells, each on its own cache line, and each cell has a ceiling. The first thread that
 * comes to a cell owns it and counts by plain loads and stores; threads with the same choice share another cell. The
 * ceilings add up to at most the peak so far. As long as every cell stays below its ceiling, the sum stays below the
 * peak and no thread computes it. If a cell passes its ceiling, its thread adds all cells up under a lock: either the
 * sum is a new peak, or the difference to the peak is spread over the cells in use as their new ceilings.
 * Guarantee: the peak is exact while one thread works at a time. A change that another thread makes during the addition
 * may be missed until that thread adds again or the peak is read.
 * Cost: an addition in the thread's own cache line. The sum is computed once for each new peak, and about as often as
 * the logarithm of the distance to the peak.
 */
#include "heap_internal.h"

_Static_assert(WEIR__TALLY_CELLS <= 64, "a bit for each cell");

void weir__tally_init(weir__tally *tally)
{
    for (size_t i = 0; i < WEIR__TALLY_CELLS; i++) {
        atomic_init(&tally->cells[i].live, 0);
        atomic_init(&tally->cells[i].owner, 0);
        atomic_init(&tally->cells[i].noting, 0);
        atomic_init(&tally->cells[i].ceiling, 0);
    }
    atomic_init(&tally->used, 0);
    atomic_init(&tally->peak, 0);
    (void)pthread_mutex_init(&tally->lock, NULL);
}

void weir__tally_fini(weir__tally *tally)
{
    (void)pthread_mutex_destroy(&tally->lock);
}

int64_t weir__tally_live(const weir__tally *tally)
{
    int64_t live = 0;
    for (size_t i = 0; i < WEIR__TALLY_CELLS; i++) {
        live += atomic_load(&tally->cells[i].live);
    }
    return live > 0 ? live : 0;
}

int64_t weir__tally_peak(const weir__tally *tally)
{
    const int64_t live = weir__tally_live(tally);
    const int64_t peak = atomic_load(&tally->peak);
    return peak > live ? peak : live;
}

static void use(weir__tally *tally, const weir__tally_cell *cell)
{
    WEIR_ASSERT(cell >= tally->cells && cell < tally->cells + WEIR__TALLY_CELLS);
    const uint64_t bit = UINT64_C(1) << (cell - tally->cells);
    if ((atomic_load_explicit(&tally->used, memory_order_relaxed) & bit) == 0) {
        (void)atomic_fetch_or(&tally->used, bit);
    }
}

void weir__tally_change_other(weir__tally *tally, int64_t bytes)
{
    weir__tally_cell *cell = weir__tally_mine(tally);
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong(&cell->owner, &none, weir__tally_thread())) {
        use(tally, cell);
        (void)weir__tally_change_own(cell, (uint64_t)bytes);
        if (bytes > 0) {
            weir__tally_rise(tally, cell);
        }
        return;
    }
    WEIR_ASSERT(none != weir__tally_thread());
    cell += WEIR__TALLY_OWN;
    use(tally, cell);
    const int64_t live = atomic_fetch_add(&cell->live, bytes) + bytes;
    if (bytes > 0 && live > atomic_load(&cell->ceiling)) {
        weir__tally_rise(tally, cell);
    }
}

void weir__tally_rise(weir__tally *tally, weir__tally_cell *cell)
{
    WEIR_ASSERT(cell >= tally->cells && cell < tally->cells + WEIR__TALLY_CELLS);
    int64_t seen[WEIR__TALLY_CELLS];
    int64_t live = 0;
    int64_t sharing = 0;
    (void)pthread_mutex_lock(&tally->lock);
    const uint64_t used = atomic_load(&tally->used);
    for (uint64_t left = used; left != 0; left &= left - 1) {
        const int i = __builtin_ctzll(left);
        /* Lowers the cell's ceiling before it reads the cell: a thread that adds bytes after this read then exceeds the
         * ceiling and calls this function too. */
        atomic_store(&tally->cells[i].ceiling, INT64_MIN);
        seen[i] = atomic_load(&tally->cells[i].live);
        live += seen[i];
        sharing += seen[i] != 0 || &tally->cells[i] == cell;
    }
    WEIR_ASSERT(sharing != 0);
    const int64_t peak = atomic_load_explicit(&tally->peak, memory_order_relaxed);
    if (live > peak) {
        atomic_store_explicit(&tally->peak, live, memory_order_relaxed);
    }
    const int64_t share = peak > live ? (peak - live) / sharing : 0;
    for (uint64_t left = used; left != 0; left &= left - 1) {
        const int i = __builtin_ctzll(left);
        const bool shares = seen[i] != 0 || &tally->cells[i] == cell;
        atomic_store(&tally->cells[i].ceiling, seen[i] + (shares ? share : 0));
    }
    (void)pthread_mutex_unlock(&tally->lock);
}

bool weir__tally_check(weir__tally *tally)
{
    int64_t sum = 0;
    (void)pthread_mutex_lock(&tally->lock);
    for (size_t i = 0; i < WEIR__TALLY_CELLS; i++) {
        sum += atomic_load(&tally->cells[i].ceiling);
    }
    const bool fits = sum <= atomic_load_explicit(&tally->peak, memory_order_relaxed);
    (void)pthread_mutex_unlock(&tally->lock);
    return fits;
}
