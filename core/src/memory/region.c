/* core/src/memory/region.c: taking regions from the device and giving them back.
 *
 * Guarantee: the limit is checked before anything is taken and holds while a call is under way; a device call that
 * fails leaves the books as they were, so that nothing is lost and nothing counted twice. One thread at a time
 * takes memory or gives it back: another that wants to grow waits and searches again, since what the first one took may
 * serve it.
 *
 * Cost: a device call, made without any lock, and a step per region when idle ones are looked for in a strategy that does
 * not list them.
 */
#include "order/order.h"
#include "shared/cancel.h"

#include <stdlib.h>

enum {
    front_cache_share = 32,
    front_small_share = 1024,
    front_slot_share = 2048,
    front_slot_granules = 1024,
    exchanges_at_start = 32,
    requests_per_exchange = 100,
};

/* The sizes to ask the device for, in order: what the strategy would like, and the least that serves the request. */
struct wish {
    uint64_t liked;
    uint64_t least;
};

uint64_t weir__region_granularity(const weir_pool *pool)
{
    const uint64_t granularity = weir__device_info(pool->device)->region_granularity_bytes;
    /* Ranges tile their region in whole granules, so the region is made of them too. */
    return granularity > pool->strategy->granule_bytes ? granularity : pool->strategy->granule_bytes;
}

void weir__region_sizes_locked(const weir_pool *pool, uint64_t size, uint64_t align, uint64_t reserved, uint64_t *liked,
                               uint64_t *least)
{
    const uint64_t granule = pool->strategy->granule_bytes;
    const uint64_t granularity = weir__region_granularity(pool);
    /* A region starts at a multiple of the device's alignment: only what a larger one asks for has to be added. */
    uint64_t aligned = weir__device_info(pool->device)->region_alignment_bytes;
    aligned = aligned > granule ? aligned : granule;
    const uint64_t over_align = align > aligned ? align - aligned : 0;
    *liked = pool->strategy->region_size(pool->state, size, align, reserved, granularity);
    *least = round_up(round_up(size, granule) + over_align, granularity);
    if (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) {
        *least = *liked; /* a model grows as its original does, or not at all */
    }
    /* A strategy whose wish does not fit into 64 bits has none. */
    *liked = *liked < *least ? *least : *liked;
}

/* Above the soft limit no more is taken than is needed. */
static bool make_wish(struct request *request, struct wish *wish)
{
    weir_pool *pool = request->pool;
    const uint64_t reserved = pool->reserved_bytes;
    const uint64_t limit = weir__budget_limit_locked(pool, request->soft);
    const uint64_t soft = weir__budget_limit_locked(pool, true);
    const uint64_t room = limit > reserved ? limit - reserved : 0;
    const uint64_t soft_room = soft > reserved ? soft - reserved : 0;
    weir__region_sizes_locked(pool, request->size, request->align, reserved, &wish->liked, &wish->least);
    wish->liked = wish->liked > room || wish->liked > soft_room ? wish->least : wish->liked;
    request->limited = wish->least > room;
    return !request->limited;
}

static void count_failure(weir_pool *pool)
{
    pool_lock(pool);
    pool->device_failures++;
    pool_unlock(pool);
}

/* Asks the device, without a lock. */
static weir_status ask_device(struct request *request, const struct wish *wish, uint64_t *address, uint64_t *size)
{
    *size = wish->liked;
    weir_status status = weir_device_region_alloc(request->pool->device, *size, address);
    if (status != WEIR_OK && wish->least < wish->liked) {
        count_failure(request->pool);
        *size = wish->least;
        status = weir_device_region_alloc(request->pool->device, *size, address);
    }
    request->device_status = status;
    request->region_asked = *size;
    return status;
}

void weir__region_count_locked(weir_pool *pool, uint64_t more, uint64_t less)
{
    pool->reserved_bytes += more;
    pool->reserved_bytes -= less;
    if (pool->reserved_bytes > pool->peak_reserved_bytes) {
        pool->peak_reserved_bytes = pool->reserved_bytes;
    }
    weir__budget_note_locked(pool, more > less);
    const uint64_t share = pool->reserved_bytes / front_cache_share;
    const uint64_t most = pool->config.front_cache_bytes;
    const uint64_t granules = pool->reserved_bytes >> pool->granule_shift;
    const uint64_t share_small = granules / front_small_share;
    const uint64_t small = share_small < FRONT_GRANULES ? share_small : FRONT_GRANULES;
    const uint64_t slot = granules / front_slot_share;
    atomic_store_explicit(&pool->front_limit, share < most ? share : most, memory_order_relaxed);
    atomic_store_explicit(&pool->front_small, small > FRONT_SMALL_LEAST ? small : FRONT_SMALL_LEAST,
                          memory_order_relaxed);
    atomic_store_explicit(&pool->front_slot, slot > front_slot_granules ? slot : front_slot_granules,
                          memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&pool->front_epoch, 1, memory_order_relaxed);
}

/* Pool lock held: the entry of a region that is about to be asked for, so that a region that the device has given is never
 * without one. NULL without host memory. */
static struct pool_region *prepare_region(struct request *request)
{
    struct pool_region *region =
        weir__table_reserve(&request->pool->region_table) ? calloc(1, sizeof(*region)) : NULL;
    if (region == NULL) {
        request->broken = WEIR_ERR_NO_MEMORY;
    }
    return region;
}

/* Pool lock held: the new region becomes the stream's. False: the strategy has no host memory for it, and the region is set
 * aside. */
static bool enter_region(struct request *request, struct pool_region *region, uint64_t address, uint64_t size)
{
    weir_pool *pool = request->pool;
    void *handle = NULL;
    if (pool->strategy->region_add(pool->state, address, size, request->size, request->stream->lane, 0, &handle) !=
        WEIR_OK) {
        handle = NULL;
        pool->regions_aside++;
        request->broken = WEIR_ERR_NO_MEMORY;
    }
    weir__lane_note_early_locked(pool, request->stream->lane, 0);
    *region = (struct pool_region){
        .address = address,
        .size = size,
        .lane = request->stream->lane,
        .handle = handle,
        .next = pool->regions,
    };
    if (region->next != NULL) {
        region->next->prev = region;
    }
    pool->regions = region;
    weir__table_put(&pool->region_table, region);
    weir__region_count_locked(pool, size, 0);
    return handle != NULL;
}

/* Pool lock held. */
static void forget_region(weir_pool *pool, struct pool_region *region)
{
    if (region->prev != NULL) {
        region->prev->next = region->next;
    } else {
        pool->regions = region->next;
    }
    if (region->next != NULL) {
        region->next->prev = region->prev;
    }
    weir__table_remove(&pool->region_table, region);
    pool->region_frees++;
    weir__region_count_locked(pool, 0, region->size);
    free(region);
}

bool weir__region_await_locked(weir_pool *pool)
{
    const bool waits = pool->growing;
    while (pool->growing) {
        (void)pthread_mutex_lock(&pool->grown_mutex);
        pool_unlock(pool);
        (void)UNCANCELLED(pthread_cond_wait(&pool->grown, &pool->grown_mutex));
        (void)pthread_mutex_unlock(&pool->grown_mutex);
        pool_lock(pool);
    }
    return waits;
}

/* Whoever saw `growing` under the pool's lock holds grown_mutex by the time it lets that go, so that this cannot be
 * missed. */
void weir__region_end_growing_locked(weir_pool *pool)
{
    pool->growing = false;
    (void)pthread_mutex_lock(&pool->grown_mutex);
    (void)pthread_cond_broadcast(&pool->grown);
    (void)pthread_mutex_unlock(&pool->grown_mutex);
}

/* --- giving back --- */

/* Pool lock held: takes an idle region out of the strategy. Its entry stays, without a handle, so that the bytes stay
 * counted until the device has really taken them. */
static bool remove_if_idle(weir_pool *pool, struct pool_region *region)
{
    const weir_tick *limits = weir__order_limits_locked(pool, NULL);
    if (region->handle == NULL ||
        pool->strategy->region_remove(pool->state, region->handle, limits, pool->lanes) != WEIR_OK) {
        return false;
    }
    region->handle = NULL;
    return true;
}

/* Pool lock held on entry and exit, let go for the device call. Meanwhile the region is neither in the pool nor in the
 * device: who wants to grow waits, or it would be refused for want of this very memory. A region that the device kept
 * stays the pool's, as memory that no work touches; if there is no host memory to enter it again, it is set aside:
 * without a handle, and given back with the next idle one. */
static weir_status hand_back(weir_pool *pool, struct pool_region *region)
{
    pool->growing = true;
    pool_unlock(pool);
    weir__watch_taken(pool, region->address, region->size);
    uint64_t began = wall_ns();
    weir_status status = weir_device_region_free(pool->device, region->address, region->size);
    uint64_t took = wall_ns() - began;
    if (status != WEIR_OK) {
        weir__watch_given(pool, region->address, region->size);
    }
    pool_lock(pool);
    weir__region_end_growing_locked(pool);
    pool->device_ns += took;
    if (status == WEIR_OK) {
        forget_region(pool, region);
        return WEIR_OK;
    }
    void *handle = NULL;
    pool->device_failures++;
    if (pool->strategy->region_add(pool->state, region->address, region->size, region->size, region->lane, 0,
                                   &handle) == WEIR_OK) {
        region->handle = handle;
        weir__lane_note_early_locked(pool, region->lane, 0);
    } else {
        pool->regions_aside++;
    }
    return status;
}

/* Pool lock held, and no memory is on its way: takes a region that was set aside, NULL when there is none. */
static struct pool_region *take_aside(weir_pool *pool)
{
    struct pool_region *region = pool->regions_aside != 0 ? pool->regions : NULL;
    while (region != NULL && region->handle != NULL) {
        region = region->next;
    }
    pool->regions_aside -= region != NULL;
    return region;
}

/* Pool lock held on entry and exit, and no memory is on its way: tries each region that was set aside until one is refused. */
static void return_aside(weir_pool *pool)
{
    weir_status status = WEIR_OK;
    struct pool_region *region = NULL;
    while (status == WEIR_OK && !pool->growing && (region = take_aside(pool)) != NULL) {
        status = hand_back(pool, region);
    }
}

/* Pool lock held: takes an idle region out of the strategy, NULL when there is none. */
static struct pool_region *take_idle(weir_pool *pool)
{
    struct pool_region *region = take_aside(pool);
    if (region != NULL) {
        return region;
    }
    region = pool->regions;
    if (pool->strategy->region_idle != NULL) {
        uint64_t address = 0;
        const weir_tick *limits = weir__order_limits_locked(pool, NULL);
        const bool any = pool->strategy->region_idle(pool->state, limits, pool->lanes, &address);
        region = any ? weir__table_find(&pool->region_table, address) : NULL;
        return region != NULL && remove_if_idle(pool, region) ? region : NULL;
    }
    while (region != NULL && !remove_if_idle(pool, region)) {
        region = region->next;
    }
    return region;
}

/* Pool lock held on entry and exit, let go for the device: gives idle regions back until `bytes` are returned or `keep` reserved
 * remain. No memory is on its way on return. Returns the bytes given back; *failed, when not NULL, takes a failure. */
static uint64_t return_idle(weir_pool *pool, uint64_t bytes, uint64_t keep, weir_status *failed)
{
    uint64_t returned = 0;
    weir_status status = WEIR_OK;
    (void)weir__region_await_locked(pool);
    while (status == WEIR_OK && returned < bytes && pool->reserved_bytes > keep) {
        struct pool_region *region = take_idle(pool);
        if (region == NULL) {
            break;
        }
        const uint64_t size = region->size;
        status = hand_back(pool, region);
        returned += status == WEIR_OK ? size : 0;
        (void)weir__region_await_locked(pool);
    }
    if (status != WEIR_OK && failed != NULL) {
        *failed = status;
    }
    return returned;
}

weir_status weir__region_return_at(weir_pool *pool, uint64_t address)
{
    weir_status status = WEIR_OK;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    struct pool_region *region = weir__table_find(&pool->region_table, address);
    if (region != NULL && remove_if_idle(pool, region)) {
        status = hand_back(pool, region);
    }
    pool_unlock(pool);
    return status;
}

static uint64_t give_back(weir_pool *pool, uint64_t keep, weir_status *failed)
{
    pool_lock(pool);
    const uint64_t returned = return_idle(pool, UINT64_MAX, keep, failed);
    pool_unlock(pool);
    return returned;
}

/* --- growing --- */

/* Pool lock held on entry and exit, let go for the device, and no memory is on its way: takes a region for the request and
 * serves it. */
static bool take_region(struct request *request)
{
    weir_pool *pool = request->pool;
    struct wish wish;
    request->region_frees = pool->region_frees;
    struct pool_region *region =
        request->broken == WEIR_OK && make_wish(request, &wish) ? prepare_region(request) : NULL;
    if (region == NULL) {
        return false;
    }
    pool->growing = true;
    pool_unlock(pool);

    uint64_t address = 0;
    uint64_t size = 0;
    const uint64_t began = wall_ns();
    const weir_status status = ask_device(request, &wish, &address, &size);
    const uint64_t took = wall_ns() - began;
    if (status == WEIR_OK) {
        weir__watch_given(pool, address, size);
    }

    pool_lock(pool);
    pool->device_ns += took;
    pool->device_failures += status != WEIR_OK;
    pool->region_allocs += status == WEIR_OK;
    const bool entered = status == WEIR_OK && enter_region(request, region, address, size);
    const bool served = entered && weir__order_take_locked(request, request->stream->lane, WEIR_TICK_MAX);
    weir__region_end_growing_locked(pool);
    return_aside(pool);
    if (status != WEIR_OK) {
        free(region);
    }
    return served;
}

/* Pool lock held, let go while waiting: memory that another thread takes may serve this request as well. */
static bool await_and_look(struct request *request, weir_rung rung)
{
    weir_pool *pool = request->pool;
    weir_rung found;
    bool served = false;
    while (!served && weir__region_await_locked(pool)) {
        served = weir__order_look_locked(request, LOOK_ALL, &found);
    }
    pool->served[rung] += served;
    return served;
}

/* Pool lock held. Whether regions may be exchanged only to keep reserved memory low, and how many *bytes. Sizes that change
 * with every request would buy that with device calls for ever: a share of the requests may, and some at the start, while
 * the pool finds its size. All may where much more would be reserved than was ever live. */
static bool affords_exchange(struct request *request, uint64_t *bytes)
{
    const weir_pool *pool = request->pool;
    struct wish wish;
    uint64_t served = 0;
    if ((pool->config.flags & WEIR_POOL_KEEP_IDLE_REGIONS) != 0 ||
        (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0) {
        return false;
    }
    (void)make_wish(request, &wish);
    *bytes = wish.liked;
    for (size_t rung = 0; rung < WEIR_RUNG_COUNT; rung++) {
        served += pool->served[rung];
    }
    const uint64_t peak = (uint64_t)pool->peak_live;
    return pool->region_frees < exchanges_at_start + served / requests_per_exchange ||
           pool->reserved_bytes + wish.liked > peak + peak / 3;
}

/* Pool lock held. A region that holds the request may go back without making room for one that does: a new one would have to
 * be larger for its alignment, or the pool is above its limit. Then memory that is there serves first. */
static bool look_before_loss(struct request *request)
{
    const weir_pool *pool = request->pool;
    weir_rung found;
    if (request->align <= weir__device_info(pool->device)->region_alignment_bytes &&
        pool->reserved_bytes <= weir__budget_limit_locked(pool, request->soft)) {
        return false;
    }
    request->last_resort = true;
    return weir__order_look_locked(request, LOOK_ALL, &found);
}

/* Pool lock held on entry and exit, let go meanwhile: polls, and gives up to `bytes` of idle regions back. True when free
 * memory served, or when there was room now and a region was taken. *returned: whether a region went back. */
static bool exchange_for(struct request *request, uint64_t bytes, bool *returned)
{
    weir_pool *pool = request->pool;
    pool_unlock(pool);
    (void)weir__order_poll(pool);
    pool_lock(pool);
    if (look_before_loss(request)) {
        pool->served[WEIR_RUNG_POLLED]++;
        return true;
    }
    *returned = return_idle(pool, bytes, 0, NULL) != 0;
    const bool served = *returned && take_region(request);
    pool->served[WEIR_RUNG_EXCHANGED] += served;
    return served;
}

static bool grow(struct request *request)
{
    weir_pool *pool = request->pool;
    uint64_t bytes = 0;
    bool returned = false;
    (void)weir__inspect_sample(pool);
    pool_lock(pool);
    bool served = await_and_look(request, WEIR_RUNG_GROWN);
    if (!served && affords_exchange(request, &bytes)) {
        served = exchange_for(request, bytes, &returned);
    }
    if (!served && !returned) {
        served = take_region(request);
        pool->served[WEIR_RUNG_GROWN] += served;
    }
    pool_unlock(pool);
    return served;
}

static bool exchange(struct request *request)
{
    weir_pool *pool = request->pool;
    bool returned = false;
    (void)weir__inspect_sample(pool);
    pool_lock(pool);
    const bool served =
        await_and_look(request, WEIR_RUNG_EXCHANGED) || exchange_for(request, UINT64_MAX, &returned);
    pool_unlock(pool);
    return served;
}

/* --- the end --- */

static void return_all(weir_pool *pool, weir_status *first)
{
    for (struct pool_region *region = pool->regions; region != NULL; region = region->next) {
        weir__watch_taken(pool, region->address, region->size);
        keep_first(first, TWICE(weir_device_region_free(pool->device, region->address, region->size)));
    }
}

static void fini(weir_pool *pool)
{
    while (pool->regions != NULL) {
        struct pool_region *next = pool->regions->next;
        free(pool->regions);
        pool->regions = next;
    }
}

const struct memory_ops weir__region_memory = {
    .grow = grow,
    .exchange = exchange,
    .give_back = give_back,
    .return_all = return_all,
    .fini = fini,
};
