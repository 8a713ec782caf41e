/* bindings/engines/torch/src/graph.c: pools of graphs, and the routing of allocations to them.
 *
 * Idea: while a graph is captured, torch names a pool (two numbers) and a filter. The filter tells which streams'
 * allocations belong to the pool. Each such pool is a weir_pool of its own over the same device.
 *
 * Guarantee: the memory of a pool of graphs stays at its addresses and is used by no other pool until the pool has been
 * released as often as begun. Its source is pinned, and while the pool can grow it neither moves memory nor waits for
 * streams. After the last release its idle memory is returned. Once it has no live block and no memory, its entry may
 * serve another id.
 *
 * Cost: one load for an allocation while nothing is captured; otherwise a lock and the calls of the filters.
 */
#include "torch_internal.h"

#include <stdlib.h>

static pthread_mutex_t route_lock = PTHREAD_MUTEX_INITIALIZER;

struct torch_pool *weir__torch_route(struct torch_device *at, void *stream)
{
    struct torch_pool *found = NULL;
    int cancel_state = 0;
    if (atomic_load_explicit(&at->route_count, memory_order_acquire) == 0) {
        return NULL;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the filter is foreign code */
    (void)pthread_mutex_lock(&route_lock);
    for (const struct torch_route *route = at->routes; route != NULL && found == NULL; route = route->next) {
        if (route->filter == NULL || route->filter(route->ctx, stream)) {
            found = route->pool;
        }
    }
    (void)pthread_mutex_unlock(&route_lock);
    (void)pthread_setcancelstate(cancel_state, &cancel_state);
    return found;
}

static bool same_id(weir_torch_pool_id a, weir_torch_pool_id b)
{
    return a.first == b.first && a.second == b.second;
}

/* --- pools (weir__torch_lock is held) --- */

/* Returns the pool in use that has the id, or NULL. */
static struct torch_pool *named(const struct torch_device *at, weir_torch_pool_id id)
{
    struct torch_pool *pool = atomic_load(&at->others);
    while (pool != NULL && (pool->uses == 0 || atomic_load(&pool->lost) || !same_id(pool->id, id))) {
        pool = pool->next;
    }
    return pool;
}

/* True if a route still leads to the pool, because the caller released the pool before it ended the route. */
static bool is_routed(const struct torch_pool *pool)
{
    (void)pthread_mutex_lock(&route_lock);
    const struct torch_route *route = pool->at->routes;
    while (route != NULL && route->pool != pool) {
        route = route->next;
    }
    (void)pthread_mutex_unlock(&route_lock);
    return route != NULL;
}

/* Trims the pool. True if the pool may then serve another id: all users have released it, no route selects it, and it
 * has no live block and no reserved memory. */
static bool is_vacant(struct torch_pool *pool)
{
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    return pool->of_graphs && pool->uses == 0 && !atomic_load(&pool->lost) && !is_routed(pool) &&
           weir_pool_trim(pool->pool, 0, 0, NULL) == WEIR_OK && weir_pool_get_stats(pool->pool, &stats) == WEIR_OK &&
           stats.reserved_bytes == 0 && stats.allocs == stats.frees &&
           weir__torch_source_sweep(&pool->source) == WEIR_OK;
}

static struct torch_pool *vacant(const struct torch_device *at)
{
    struct torch_pool *pool = atomic_load(&at->others);
    while (pool != NULL && !is_vacant(pool)) {
        pool = pool->next;
    }
    return pool;
}

/* Finds the pool for the id: the pool in use that has this id, else a vacant one (is_vacant), else a new one. */
static weir_status name_pool(struct torch_pool *own, weir_torch_pool_id id, struct torch_pool **pool)
{
    struct torch_device *at = own->at;
    weir_status status = WEIR_OK;
    *pool = named(at, id);
    if (*pool == NULL && (*pool = vacant(at)) == NULL) {
        status = weir__torch_make_graph_pool_locked(own, pool);
    }
    if (status == WEIR_OK && (*pool)->uses == 0) {
        (*pool)->id = id;
        weir__torch_source_pin(&(*pool)->source, true);
    }
    return status;
}

/* --- routes --- */

static struct torch_route **find_route(struct torch_device *at, weir_torch_pool_id id)
{
    struct torch_route **link = &at->routes;
    while (*link != NULL && !same_id((*link)->id, id)) {
        link = &(*link)->next;
    }
    return link;
}

/* Appends the route to the list: if the filters of two routes match a stream, the older route gets it. Returns false if
 * a route with this id exists. */
static bool put_route(struct torch_device *at, struct torch_route *route)
{
    (void)pthread_mutex_lock(&route_lock);
    struct torch_route **link = find_route(at, route->id);
    const bool first = *link == NULL;
    if (first) {
        *link = route;
        (void)atomic_fetch_add(&at->route_count, 1);
    }
    (void)pthread_mutex_unlock(&route_lock);
    return first;
}

static struct torch_route *take_route(struct torch_device *at, struct torch_route **link)
{
    struct torch_route *route = *link;
    if (route != NULL) {
        *link = route->next;
        (void)atomic_fetch_sub(&at->route_count, 1);
    }
    return route;
}

static void end_route(struct torch_route *route)
{
    if (route->drop != NULL) {
        route->drop(route->ctx);
    }
    free(route);
}

void weir__torch_drop_routes_locked(struct torch_device *at)
{
    for (struct torch_route *route = at->routes; route != NULL; route = at->routes) {
        (void)pthread_mutex_lock(&route_lock);
        route = take_route(at, &at->routes);
        (void)pthread_mutex_unlock(&route_lock);
        end_route(route);
    }
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
    if (status == WEIR_OK && !put_route(own->at, route)) {
        status = weir_refuse(WEIR_ERR_BUSY, "weir_torch_pool_begin: pool (%llu, %llu) has begun already",
                             (unsigned long long)id.first, (unsigned long long)id.second);
        weir__torch_source_pin(&route->pool->source, route->pool->uses > 0);
    } else if (status == WEIR_OK) {
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
    struct torch_route *route = NULL;
    if (at != NULL) {
        (void)pthread_mutex_lock(&route_lock);
        route = take_route(at, find_route(at, id));
        (void)pthread_mutex_unlock(&route_lock);
    }
    if (route != NULL) {
        end_route(route);
    } else {
        weir__torch_report_misuse("a pool of graphs was ended that had not begun", NULL);
    }
}

void weir_torch_pool_release(int device, weir_torch_pool_id id)
{
    struct torch_device *at = weir__torch_device(device);
    (void)pthread_mutex_lock(&weir__torch_lock);
    struct torch_pool *pool = at != NULL ? named(at, id) : NULL;
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
