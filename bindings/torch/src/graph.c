/* bindings/torch/src/graph.c: pools of graphs.
 *
 * Idea: while a graph is captured, torch names a pool (two numbers) and a filter. The filter tells which streams'
 * allocations belong to the pool (route.c). Each such pool is a weir_pool of its own over the same device.
 *
 * Guarantee: the memory of a pool of graphs stays at its addresses and is used by no other pool until the pool has been
 * released as often as begun. Its source is pinned, and while the pool can grow it neither moves memory nor waits for
 * streams. After the last release its idle memory is returned. Once it has no live block and no memory, its entry may
 * serve another id.
 */
#include "torch_internal.h"

#include <stdlib.h>

/* --- pools (weir__torch_lock is held) --- */

/* Returns the pool in use that has the id, or NULL. */
static struct torch_pool *named(const struct torch_device *at, weir_torch_pool_id id)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_pool *pool = atomic_load(&at->others);
    while (pool != NULL && (pool->uses == 0 || atomic_load(&pool->lost) || !weir__torch_same_id(pool->id, id))) {
        pool = pool->next;
    }
    return pool;
}

/* Trims the pool. True if the pool may then serve another id: all users have released it, no route selects it, and it
 * has no live block and no reserved memory. */
static bool is_vacant(struct torch_pool *pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    return pool->of_graphs && pool->uses == 0 && !atomic_load(&pool->lost) && !weir__torch_is_routed(pool) &&
           weir_pool_trim(pool->pool, 0, 0, NULL) == WEIR_OK && weir_pool_get_stats(pool->pool, &stats) == WEIR_OK &&
           stats.reserved_bytes == 0 && stats.allocs == stats.frees &&
           weir__torch_source_sweep(&pool->source) == WEIR_OK;
}

static struct torch_pool *vacant(const struct torch_device *at)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_pool *pool = atomic_load(&at->others);
    while (pool != NULL && !is_vacant(pool)) {
        pool = pool->next;
    }
    return pool;
}

/* Finds the pool for the id: the pool in use that has this id, else a vacant one (is_vacant), else a new one. */
static weir_status name_pool(struct torch_pool *own, weir_torch_pool_id id, struct torch_pool **pool)
{
    WEIR_ASSERT_HELD(&weir__torch_lock);
    struct torch_device *at = own->at;
    weir_status status = WEIR_OK;
    *pool = named(at, id);
    if (*pool == NULL && (*pool = vacant(at)) == NULL) {
        status = weir__torch_make_graph_pool_locked(own, pool);
    }
    if (status == WEIR_OK && (*pool)->uses == 0) {
        WEIR_ASSERT((*pool)->of_graphs);
        (*pool)->id = id;
        weir__torch_source_pin(&(*pool)->source, true);
    }
    return status;
}

/* --- the functions that frameworks call --- */

weir_status weir_torch_pool_begin(int device, weir_torch_pool_id id, weir_torch_filter filter, void *ctx,
                                  void (*drop)(void *ctx))
{
    struct torch_pool *own = weir__torch_pool_of(device);
    struct torch_route *route = own != NULL ? calloc(1, sizeof(*route)) : NULL;
    if (weir__torch_device(device) == NULL) {
        return weir__torch_no_device("weir_torch_pool_begin", device);
    }
    if (route == NULL) {
        return own != NULL ? WEIR_ERR_NO_MEMORY : WEIR_ERR_DEVICE;
    }
    *route = (struct torch_route){.id = id, .filter = filter, .ctx = ctx, .drop = drop};
    (void)pthread_mutex_lock(&weir__torch_lock);
    weir_status status = name_pool(own, id, &route->pool);
    if (status == WEIR_OK && !weir__torch_put_route(own->at, route)) {
        status = weir_refuse(WEIR_ERR_BUSY, "weir_torch_pool_begin: pool (%llu, %llu) has begun already",
                             (unsigned long long)id.first, (unsigned long long)id.second);
        weir__torch_source_pin(&route->pool->source, route->pool->uses > 0);
    } else if (status == WEIR_OK) {
        WEIR_ASSERT(route->pool->of_graphs && route->pool->at == own->at);
        route->pool->uses++;
    }
    (void)pthread_mutex_unlock(&weir__torch_lock);
    if (status != WEIR_OK) {
        free(route);
    }
    return status;
}

void weir_torch_pool_end(int device, weir_torch_pool_id id)
{
    struct torch_device *at = weir__torch_device(device);
    if (at == NULL || !weir__torch_end_route(at, id)) {
        weir__torch_report_misuse("a pool of graphs was ended that had not begun", NULL);
    }
}

void weir_torch_pool_release(int device, weir_torch_pool_id id)
{
    struct torch_device *at = weir__torch_device(device);
    (void)pthread_mutex_lock(&weir__torch_lock);
    struct torch_pool *pool = at != NULL ? named(at, id) : NULL;
    WEIR_ASSERT(pool == NULL || pool->uses > 0);
    const bool last = pool != NULL && --pool->uses == 0;
    if (last) {
        weir__torch_source_pin(&pool->source, false);
    }
    (void)pthread_mutex_unlock(&weir__torch_lock);
    if (pool == NULL) {
        weir__torch_report_misuse("a pool of graphs was released that is not there", NULL);
    } else if (last) {
        const weir_status status = weir_pool_trim(pool->pool, 0, 0, NULL);
        (void)status; /* memory that is not idle yet is returned by a later trim */
    }
}

weir_status weir__torch_trim_released(struct torch_device *at, uint32_t flags, uint64_t *released)
{
    weir_status first = WEIR_OK;
    for (struct torch_pool *pool = atomic_load(&at->others); pool != NULL; pool = pool->next) {
        (void)pthread_mutex_lock(&weir__torch_lock);
        const bool idle = pool->of_graphs && pool->uses == 0 && !atomic_load(&pool->lost);
        (void)pthread_mutex_unlock(&weir__torch_lock);
        uint64_t bytes = 0;
        if (idle) {
            const weir_status status = weir_pool_trim(pool->pool, 0, flags, &bytes);
            first = first == WEIR_OK ? status : first;
            *released += bytes;
        }
    }
    return first;
}
