/* walk.c: visits all live blocks of a host pool.
 *
 * A large block is live if the state of its run says so, a small block if its mark does (registry.h). The walk is exact
 * while no other thread uses the pool. It may or may not see the effect of concurrent calls.
 */
#include "host_internal.h"

static void walk_slab(const weir_host_pool *pool, const weir__host_run *run, weir__host_visitor visit, void *ctx)
{
    const weir__host_slab *slab = atomic_load(&run->slab);
    if (slab == NULL) {
        return;
    }
    const uint64_t bytes = pool->bins[atomic_load_explicit(&slab->bin, memory_order_relaxed)].bytes;
    const uint32_t blocks = atomic_load_explicit(&slab->blocks, memory_order_relaxed);
    for (uint32_t place = 0; place < blocks; place++) {
        if (atomic_load(weir__host_mark_of(slab, place)) == WEIR__HOST_LIVE) {
            visit(ctx, run->start + place * bytes, bytes);
        }
    }
}

void weir__host_each_live(weir_host_pool *pool, weir__host_visitor visit, void *ctx)
{
    (void)pthread_mutex_lock(&pool->lock);
    weir__host_run *run;
    for (size_t i = 0; (run = weir__slab_at(&pool->runs, i)) != NULL; i++) {
        const uint32_t state = atomic_load(&run->state);
        if (state == WEIR__HOST_RUN_LIVE) {
            visit(ctx, run->start, run->size);
        } else if (state == WEIR__HOST_RUN_SLAB) {
            walk_slab(pool, run, visit, ctx);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
}
