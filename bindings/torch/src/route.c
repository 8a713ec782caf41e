/* bindings/torch/src/route.c: the routing of allocations to pools of graphs, while graphs are captured.
 *
 * Idea: each route has a filter, which tells which streams' allocations belong to the route's pool.
 *
 * Cost: one load for an allocation while nothing is captured; otherwise a lock and the calls of the filters.
 */
#include "torch_internal.h"

#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct torch_pool *weir__torch_route(struct torch_device *at, void *stream)
{
    struct torch_pool *found = NULL;
    int cancel_state = 0;
    if (atomic_load_explicit(&at->route_count, memory_order_acquire) == 0) {
        return NULL;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* the filter is foreign code */
    (void)pthread_mutex_lock(&lock);
    for (const struct torch_route *route = at->routes; route != NULL && found == NULL; route = route->next) {
        if (route->filter == NULL || route->filter(route->ctx, stream)) {
            found = route->pool;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    (void)pthread_setcancelstate(cancel_state, &cancel_state);
    return found;
}

/* --- the list of routes --- */

static struct torch_route **find_locked(struct torch_device *at, weir_torch_pool_id id)
{
    WEIR_ASSERT_HELD(&lock);
    struct torch_route **link = &at->routes;
    while (*link != NULL && !weir__torch_same_id((*link)->id, id)) {
        link = &(*link)->next;
    }
    return link;
}

static struct torch_route *take_locked(struct torch_device *at, struct torch_route **link)
{
    WEIR_ASSERT_HELD(&lock);
    struct torch_route *route = *link;
    if (route != NULL) {
        WEIR_ASSERT(atomic_load(&at->route_count) > 0);
        *link = route->next;
        (void)atomic_fetch_sub(&at->route_count, 1);
    }
    return route;
}

/* Ends a route that was taken out of the list; false if it is NULL. */
static bool end_taken(struct torch_route *route)
{
    if (route == NULL) {
        return false;
    }
    if (route->drop != NULL) {
        route->drop(route->ctx);
    }
    free(route);
    return true;
}

bool weir__torch_put_route(struct torch_device *at, struct torch_route *route)
{
    WEIR_ASSERT(route->next == NULL && route->pool->at == at);
    (void)pthread_mutex_lock(&lock);
    struct torch_route **link = find_locked(at, route->id);
    const bool first = *link == NULL;
    if (first) {
        *link = route;
        (void)atomic_fetch_add(&at->route_count, 1);
    }
    (void)pthread_mutex_unlock(&lock);
    return first;
}

bool weir__torch_end_route(struct torch_device *at, weir_torch_pool_id id)
{
    (void)pthread_mutex_lock(&lock);
    struct torch_route *route = take_locked(at, find_locked(at, id));
    (void)pthread_mutex_unlock(&lock);
    return end_taken(route);
}

void weir__torch_end_routes(struct torch_device *at)
{
    struct torch_route *route = NULL;
    do {
        (void)pthread_mutex_lock(&lock);
        route = take_locked(at, &at->routes);
        (void)pthread_mutex_unlock(&lock);
    } while (end_taken(route));
}

bool weir__torch_is_routed(const struct torch_pool *pool)
{
    (void)pthread_mutex_lock(&lock);
    const struct torch_route *route = pool->at->routes;
    while (route != NULL && route->pool != pool) {
        route = route->next;
    }
    (void)pthread_mutex_unlock(&lock);
    return route != NULL;
}
