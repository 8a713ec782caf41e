/* walk.c: all blocks that somebody has of a host pool.
 *
 * Large blocks say so themselves; of small ones a slab knows which are out of the engine, and the caches of threads know which
 * of these nobody has. Exact while no other thread is at work; what others do in the meantime may be seen or not.
 */
#include "host_internal.h"

#include "../../../core/src/number_map.h"

typedef struct walk {
    const weir_host_pool *pool;
    weir__number_map kept; /* by threads */
    weir__host_visitor visit;
    void *ctx;
} walk;

static void walk_slab(const walk *w, const weir__host_run *run, uint64_t start, uint64_t size)
{
    const weir__host_slab *slab = atomic_load(&run->slab);
    if (slab == NULL) {
        return;
    }
    const uint64_t bytes = w->pool->bins[atomic_load_explicit(&slab->bin, memory_order_relaxed)].bytes;
    for (uint64_t place = 0; place < WEIR__HOST_SLAB_BLOCKS && (place + 1) * bytes <= size; place++) {
        const uint64_t block = start + place * bytes;
        const uint64_t word = atomic_load_explicit(&slab->taken[place / 64], memory_order_relaxed);
        if ((word >> place % 64 & 1) != 0 && weir__number_map_get(&w->kept, block) == 0) {
            w->visit(w->ctx, block, bytes);
        }
    }
}

weir_status weir__host_each_live(weir_host_pool *pool, weir__host_visitor visit, void *ctx)
{
    walk w = {.pool = pool, .visit = visit, .ctx = ctx};
    if (!weir__host_cache_blocks(pool, &w.kept)) {
        weir__number_map_fini(&w.kept);
        return WEIR_ERR_NO_MEMORY;
    }
    (void)pthread_mutex_lock(&pool->lock);
    for (weir__host_run *runs = pool->all_runs; runs != NULL; runs = runs[0].next) {
        for (size_t i = 1; i < WEIR__HOST_RUNS_AT_ONCE; i++) {
            const uint32_t state = atomic_load(&runs[i].state);
            if (state == WEIR__HOST_RUN_LIVE) {
                visit(ctx, runs[i].start, runs[i].size);
            } else if (state == WEIR__HOST_RUN_SLAB) {
                walk_slab(&w, &runs[i], runs[i].start, runs[i].size);
            }
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    weir__number_map_fini(&w.kept);
    return WEIR_OK;
}
