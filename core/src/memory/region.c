/* core/src/memory/region.c: takes regions from the device and returns them.
 *
 * Guarantee: the limit is checked before anything is taken, and it holds while a device call is in progress. A device
 * call that fails leaves all records as they were, so nothing is lost and nothing is counted twice. One thread at a
 * time takes or returns memory. A second thread that wants to grow the pool waits and then searches again, because the
 * memory that the first thread took may serve its request.
 *
 * Cost: a device call, made without any lock; and a step per region to find idle regions, unless the strategy lists
 * them.
 */
#include "base/tuning.h"
#include "memory/memory.h"
#include "shared/cancel.h"
#include "shared/clock.h"
#include "shared/round_up.h"

#include <stdlib.h>

/* The sizes to ask the device for, in order: the size that the strategy prefers, and the least that serves the
 * request. */
struct wish {
    uint64_t preferred;
    uint64_t least;
    bool tight; /* the limits leave room for `least` only */
};

uint64_t weir__region_granularity(const weir_pool *pool)
{
    const uint64_t granularity = weir__device_info(pool->device)->region_granularity_bytes;
    /* Ranges tile their region in whole granules, so the region's size is a multiple of the granule too. */
    return granularity > pool->strategy->granule_bytes ? granularity : pool->strategy->granule_bytes;
}

void weir__region_sizes_locked(const weir_pool *pool, uint64_t size, uint64_t align, uint64_t reserved,
                               uint64_t *preferred, uint64_t *least)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const uint64_t granule = pool->strategy->granule_bytes;
    const uint64_t granularity = weir__region_granularity(pool);
    /* A region starts at a multiple of the device's alignment, so only the excess of a larger requested alignment is
     * added. */
    uint64_t aligned = weir__device_info(pool->device)->region_alignment_bytes;
    aligned = aligned > granule ? aligned : granule;
    const uint64_t over_align = align > aligned ? align - aligned : 0;
    *preferred = pool->strategy->region_size(pool->state, size, align, reserved, granularity);
    *least = round_up(round_up(size, granule) + over_align, granularity);
    if (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) {
        *least = *preferred; /* a strategy with private lanes models another allocator, which grows by exactly its own
                                sizes */
    } else if (pool->strategy->flags & WEIR_STRATEGY_ROUNDS_UP) {
        *least = pool->strategy->region_size(pool->state, size, align, 0, granularity);
    }
    /* The strategy's size may have overflowed 64 bits; then the least size is used. */
    *preferred = *preferred < *least ? *least : *preferred;
}

/* Tells the pool which idle regions no request may split. Pool lock held. */
static void note_whole(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const bool never = pool->vm != NULL || (pool->config.flags & WEIR_POOL_KEEP_IDLE_REGIONS) != 0 ||
                       (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0;
    weir__mark_note_whole(&pool->held.mark, never, pool->held.bytes > weir__budget_limit_locked(pool, true) / 2);
}

/* Computes the region sizes to ask the device for. Above the soft limit, asks only for the least size. Returns false if
 * the limit forbids even the least size. */
static bool make_wish(struct request *request, struct wish *wish)
{
    weir_pool *pool = request->pool;
    const uint64_t reserved = pool->held.bytes;
    const uint64_t limit = weir__budget_limit_locked(pool, request->soft);
    const uint64_t soft = weir__budget_limit_locked(pool, true);
    const uint64_t room = limit > reserved ? limit - reserved : 0;
    const uint64_t soft_room = soft > reserved ? soft - reserved : 0;
    weir__region_sizes_locked(pool, request->size, request->align, reserved, &wish->preferred, &wish->least);
    wish->tight = wish->preferred > room || wish->preferred > soft_room ||
                  (request->kept_whole && (reserved > soft / 2 || weir__mark_is_much(wish->preferred, request->size)));
    wish->preferred = wish->tight ? wish->least : wish->preferred;
    request->limited = wish->least > room;
    return !request->limited;
}

static void count_failure(weir_pool *pool)
{
    pool_lock(pool);
    pool->counts.device_failures++;
    pool_unlock(pool);
}

static weir_status ask_device(struct request *request, const struct wish *wish, uint64_t *address, uint64_t *size)
{
    WEIR_ASSERT(outside_pool_lock(request->pool));
    WEIR_ASSERT(wish->least != 0 && wish->least <= wish->preferred);
    *size = wish->preferred;
    weir_status status = weir_device_region_alloc(request->pool->device, *size, address);
    if (status != WEIR_OK && wish->least < wish->preferred) {
        count_failure(request->pool);
        *size = wish->least;
        status = weir_device_region_alloc(request->pool->device, *size, address);
    }
    request->device_status = status;
    request->region_asked = *size;
    return status;
}

/* True if more than 3/4 of the limit, or of the device, is reserved. Then a request may fail because blocks in a front
 * cache do not merge with their neighbours. Pool lock held. */
static bool near_limit(const weir_pool *pool)
{
    const uint64_t most = weir__budget_most_locked(pool, true);
    return most != 0 && pool->held.bytes > most - most / near_limit_share;
}

void weir__region_count_locked(weir_pool *pool, uint64_t more, uint64_t less)
{
    WEIR_ASSERT(pool->held.bytes + more >= less);
    WEIR_ASSERT(pool_is_locked(pool));
    pool->held.bytes += more;
    pool->held.bytes -= less;
    if (pool->held.bytes > pool->held.peak) {
        pool->held.peak = pool->held.bytes;
    }
    if (pool->held.bytes > pool->held.mark.reserved) {
        pool->held.mark.reserved = pool->held.bytes;
    }
    weir__budget_note_locked(pool, more > less);
    note_whole(pool);
    const uint64_t usual = pool->vm != NULL ? front_cache_share_mapped : front_cache_share;
    const uint64_t share = pool->held.bytes / (near_limit(pool) ? front_share_near_limit : usual);
    const uint64_t granules = pool->held.bytes >> pool->granule_shift;
    const uint64_t share_small = granules / front_small_share;
    const uint64_t small = front_floor(share_small < FRONT_GRANULES ? share_small : FRONT_GRANULES);
    const uint64_t share_slot = front_floor(granules / front_slot_share);
    const uint64_t slot = share_slot > front_slot_granules ? share_slot : front_slot_granules;
    atomic_store_explicit(&pool->front.limit, share, memory_order_relaxed);
    atomic_store_explicit(&pool->front.small, small > FRONT_SMALL_LEAST ? small : FRONT_SMALL_LEAST,
                          memory_order_relaxed);
    /* This bound changes by a whole size class at a time: after each change every slot of every front cache computes
     * anew how many blocks it may hold, which costs a division. */
    if (slot != atomic_load_explicit(&pool->front.slot, memory_order_relaxed)) {
        atomic_store_explicit(&pool->front.slot, slot, memory_order_relaxed);
        (void)atomic_fetch_add_explicit(&pool->front.epoch, 1, memory_order_relaxed);
    }
}

/* Allocates the entry of a region before the device is asked, so that every region from the device has an entry.
 * Returns NULL when out of host memory. Pool lock held. */
static struct pool_region *prepare_region(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    struct pool_region *region =
        weir__number_map_reserve(&request->pool->region_table, request->pool->region_table.count + 1)
            ? calloc(1, sizeof(*region))
            : NULL;
    if (region == NULL) {
        request->broken = WEIR_ERR_NO_MEMORY;
    }
    return region;
}

/* Adds a new region to the pool and to the strategy, as memory of the request's stream. If the strategy has no host
 * memory for the region, sets it aside and returns false. Pool lock held. */
static bool enter_region(struct request *request, struct pool_region *region, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    void *handle = NULL;
    if (pool->strategy->region_add(pool->state, address, size, request->size, request->stream->home, 0, &handle) !=
        WEIR_OK) {
        handle = NULL;
        pool->regions_aside++;
        request->broken = WEIR_ERR_NO_MEMORY;
    }
    weir__lane_note_early_locked(pool, request->stream->home, 0);
    *region = (struct pool_region){
        .address = address,
        .size = size,
        .hint = request->size,
        .lane = request->stream->home,
        .handle = handle,
        .next = pool->regions,
    };
    if (region->next != NULL) {
        region->next->prev = region;
    }
    pool->regions = region;
    (void)weir__number_map_put(&pool->region_table, address, (uintptr_t)region); /* reserved by prepare_region */
    weir__region_count_locked(pool, size, 0);
    return handle != NULL;
}

static void forget_region(weir_pool *pool, struct pool_region *region)
{
    WEIR_ASSERT(pool_is_locked(pool));
    if (region->prev != NULL) {
        region->prev->next = region->next;
    } else {
        pool->regions = region->next;
    }
    if (region->next != NULL) {
        region->next->prev = region->prev;
    }
    (void)weir__number_map_take(&pool->region_table, region->address);
    pool->counts.region_frees++;
    weir__region_count_locked(pool, 0, region->size);
    free(region);
}

bool weir__region_await_locked(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const bool waits = pool->growth.taken;
    while (pool->growth.taken) {
        (void)pthread_mutex_lock(&pool->growth.mutex);
        pool_unlock(pool);
        (void)UNCANCELLED(pthread_cond_wait(&pool->growth.ended, &pool->growth.mutex));
        (void)pthread_mutex_unlock(&pool->growth.mutex);
        pool_lock(pool);
    }
    return waits;
}

/* Clears growth.taken and wakes the waiting threads. No wakeup is lost: a thread that saw growth.taken under the pool's
 * lock takes growth.mutex before it releases the pool's lock. Pool lock held. */
void weir__region_end_growing_locked(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    pool->growth.taken = false;
    (void)pthread_mutex_lock(&pool->growth.mutex);
    (void)pthread_cond_broadcast(&pool->growth.ended);
    (void)pthread_mutex_unlock(&pool->growth.mutex);
}

/* --- returning regions --- */

/* Takes a region out of the strategy if it is idle and not pinned. The region's entry stays, without the strategy's
 * handle, so that the region's bytes stay counted until the device has taken them back. Pool lock held. */
static bool remove_if_idle(weir_pool *pool, struct pool_region *region)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const weir_tick *limits = weir__order_limits_locked(pool, NULL);
    if (region->handle == NULL || weir__pins_locked(pool, region->address) != 0 ||
        pool->strategy->region_remove(pool->state, region->handle, limits, pool->lanes) != WEIR_OK) {
        return false;
    }
    region->handle = NULL;
    return true;
}

/* A list of regions taken out of the strategy, to be given back to the device or put back into the strategy. */
struct idle {
    struct pool_region *first;
    uint64_t bytes;
    uint64_t count;
};

static void add_idle(struct idle *idle, struct pool_region *region)
{
    region->going = idle->first;
    idle->first = region;
    idle->bytes += region->size;
    idle->count++;
}

/* Takes a region that was set aside because the strategy had no host memory for it. Returns NULL if there is none. Pool
 * lock held; no memory is on its way to or from the device. */
static struct pool_region *take_aside(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct pool_region *region = pool->regions_aside != 0 ? pool->regions : NULL;
    while (region != NULL && region->handle != NULL) {
        region = region->next;
    }
    pool->regions_aside -= region != NULL;
    return region;
}

static struct pool_region *region_at(const weir_pool *pool, uint64_t address)
{
    return (struct pool_region *)(uintptr_t)weir__number_map_get(&pool->region_table, address);
}

static struct pool_region *take_one_idle(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct pool_region *region = pool->regions;
    if (pool->strategy->region_idle != NULL) {
        uint64_t address = 0;
        const weir_tick *limits = weir__order_limits_locked(pool, NULL);
        const bool any = pool->strategy->region_idle(pool->state, limits, pool->lanes, &address);
        region = any ? region_at(pool, address) : NULL;
        if (region == NULL || remove_if_idle(pool, region)) {
            return region;
        }
        region = pool->regions; /* the strategy knows nothing of pins */
    }
    while (region != NULL && !remove_if_idle(pool, region)) {
        region = region->next;
    }
    return region;
}

/* Takes idle regions out of the strategy until they add up to `bytes` or are `most`. Pool lock held; no memory is on
 * its way to or from the device. */
static struct idle take_idle(weir_pool *pool, uint64_t bytes, uint64_t most)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct idle idle = {.first = NULL};
    struct pool_region *region = NULL;
    while (idle.bytes < bytes && idle.count < most && (region = take_one_idle(pool)) != NULL) {
        add_idle(&idle, region);
    }
    return idle;
}

/* Adds the region to the strategy again, as idle memory. Without host memory the region is set aside: it stays without
 * a handle and is given back together with the next idle region. Pool lock held. */
static void put_back(weir_pool *pool, struct pool_region *region)
{
    WEIR_ASSERT(pool_is_locked(pool));
    void *handle = NULL;
    if (pool->strategy->region_add(pool->state, region->address, region->size, region->hint, region->lane, 0,
                                   &handle) == WEIR_OK) {
        region->handle = handle;
        weir__lane_note_early_locked(pool, region->lane, 0);
    } else {
        pool->regions_aside++;
    }
}

static void put_all_back(weir_pool *pool, struct pool_region *first)
{
    struct pool_region *next = NULL;
    for (struct pool_region *region = first; region != NULL; region = next) {
        next = region->going;
        put_back(pool, region);
    }
}

/* Gives regions back to the device, until it refuses one. Returns the first region that the device did not take. No
 * lock held; called by the thread that grows. */
static struct pool_region *hand_back(weir_pool *pool, struct pool_region *region, weir_status *status)
{
    while (region != NULL) {
        weir__watch_taken(pool, region->address, region->size);
        *status = weir_device_region_free(pool->device, region->address, region->size);
        if (*status != WEIR_OK) {
            weir__watch_given(pool, region->address, region->size);
            break;
        }
        region = region->going;
    }
    return region;
}

/* Gives the regions back to the device; regions that the device refuses go back to the strategy. A thread that wants to
 * grow waits meanwhile, or the device would refuse it for lack of this very memory. Returns the bytes that the device
 * took. Pool lock held on entry and exit, released for the device calls; no memory is on its way to or from the
 * device. */
static uint64_t return_idle(weir_pool *pool, struct pool_region *first, weir_status *failed)
{
    WEIR_ASSERT(pool_is_locked(pool));
    weir_status status = WEIR_OK;
    uint64_t returned = 0;
    if (first == NULL) {
        return 0;
    }
    pool->growth.taken = true;
    pool_unlock(pool);
    const uint64_t began = wall_ns();
    struct pool_region *const kept = hand_back(pool, first, &status);
    const uint64_t took = wall_ns() - began;
    pool_lock(pool);
    pool->counts.device_ns += took;
    while (first != kept) {
        struct pool_region *region = first;
        first = region->going;
        returned += region->size;
        forget_region(pool, region);
    }
    put_all_back(pool, kept);
    weir__region_end_growing_locked(pool);
    if (status != WEIR_OK) {
        pool->counts.device_failures++;
        *failed = status;
    }
    return returned;
}

/* Gives all regions set aside (that the strategy had no host memory for) back to the device; see return_idle. */
static uint64_t return_aside(weir_pool *pool, weir_status *failed)
{
    struct idle aside = {.first = NULL};
    struct pool_region *region = NULL;
    while ((region = take_aside(pool)) != NULL) {
        add_idle(&aside, region);
    }
    return return_idle(pool, aside.first, failed);
}

/* Gives regions back until `keep` reserved bytes remain: first regions set aside, then idle ones; see return_idle. */
static uint64_t return_all_idle(weir_pool *pool, uint64_t keep, weir_status *failed)
{
    uint64_t returned = pool->held.bytes > keep ? return_aside(pool, failed) : 0;
    (void)weir__region_await_locked(pool);
    if (pool->held.bytes > keep) {
        returned += return_idle(pool, take_idle(pool, pool->held.bytes - keep, UINT64_MAX).first, failed);
    }
    return returned;
}

weir_status weir__region_return_at(weir_pool *pool, uint64_t address)
{
    weir_status status = WEIR_OK;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    struct pool_region *region = region_at(pool, address);
    if (region != NULL && remove_if_idle(pool, region)) {
        region->going = NULL;
        (void)return_idle(pool, region, &status);
    }
    pool_unlock(pool);
    return status;
}

static uint64_t give_back(weir_pool *pool, uint64_t keep, weir_status *failed)
{
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    const uint64_t returned = return_all_idle(pool, keep, failed);
    pool_unlock(pool);
    return returned;
}

/* --- growing --- */

/* Takes a region from the device and serves the request from it. Pool lock held on entry and exit, released for the
 * device call; no memory is on its way to or from the device. */
static bool take_region(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    struct wish wish;
    request->region_frees = pool->counts.region_frees;
    struct pool_region *region =
        request->broken == WEIR_OK && make_wish(request, &wish) ? prepare_region(request) : NULL;
    if (region == NULL) {
        return false;
    }
    pool->growth.taken = true;
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
    pool->counts.device_ns += took;
    pool->counts.device_failures += status != WEIR_OK;
    pool->counts.region_allocs += status == WEIR_OK;
    const bool entered = status == WEIR_OK && enter_region(request, region, address, size);
    const bool served = entered && weir__order_take_locked(request, request->stream->home, WEIR_TICK_MAX);
    weir__region_end_growing_locked(pool);
    if (pool->regions_aside != 0) {
        weir_status ignored;
        (void)return_aside(pool, &ignored);
        (void)weir__region_await_locked(pool);
    }
    if (status != WEIR_OK) {
        free(region);
    }
    return served;
}

/* Waits while another thread takes or returns memory, and then searches again, because that memory may serve this
 * request. Pool lock held on entry and exit, released while waiting. */
static bool await_and_look(struct request *request, weir_rung rung)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    weir_rung found;
    bool served = false;
    while (!served && weir__region_await_locked(pool)) {
        served = weir__order_look_locked(request, LOOK_ALL, &found);
    }
    pool->counts.served[rung] += served;
    return served;
}

/* Searches all free memory before regions are given back, in two cases: the request's alignment needs a new region that
 * is larger than the request, or the pool is above its limit, where a region given back may leave no room for a new
 * one. Returns true if free memory served the request. Pool lock held. */
static bool look_before_loss(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    weir_rung found;
    if (request->align <= weir__device_info(pool->device)->region_alignment_bytes &&
        pool->held.bytes <= weir__budget_limit_locked(pool, request->soft)) {
        return false;
    }
    request->last_resort = true;
    return weir__order_look_locked(request, LOOK_ALL, &found);
}

/* Polls for completed work, then calls look_before_loss. Returns true if free memory served the request. Pool lock held
 * on entry and exit, released meanwhile. */
static bool poll_and_look(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    pool_unlock(pool);
    (void)weir__order_poll(pool);
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    const bool served = look_before_loss(request);
    pool->counts.served[WEIR_RUNG_POLLED] += served;
    return served;
}

/* Returns the bytes by which the high-water mark would rise if the request got the region that the strategy prefers.
 * Pool lock held. */
static uint64_t over_mark(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    struct wish wish;
    if ((pool->config.flags & WEIR_POOL_KEEP_IDLE_REGIONS) != 0 ||
        (pool->strategy->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0) {
        return 0;
    }
    (void)make_wish(request, &wish);
    return weir__mark_excess(&pool->held.mark, pool->held.bytes + wish.preferred);
}

/* Takes the region out of the list that serves best to return `bytes` bytes: the smallest that is enough by itself, or
 * else the largest. Of equal regions, the one that was listed first. Returns NULL if the list is empty. */
static struct pool_region *pick(struct pool_region **list, uint64_t bytes)
{
    struct pool_region **best = list;
    for (struct pool_region **link = list; *link != NULL; link = &(*link)->going) {
        const bool enough = (*link)->size >= bytes;
        const bool smaller = (*link)->size <= (*best)->size;
        if (enough ? smaller || (*best)->size < bytes : !smaller || (*link)->size == (*best)->size) {
            best = link;
        }
    }
    struct pool_region *region = *best;
    *best = region != NULL ? region->going : NULL;
    return region;
}

/* Takes idle regions of `bytes` bytes in all out of the strategy, to be given back: as few as are enough, so that the
 * others are there for the next requests of their size. Pool lock held; no memory is on its way to or from the device.
 */
static struct idle take_enough(weir_pool *pool, uint64_t bytes)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct idle enough = {.first = NULL};
    struct pool_region *others = take_idle(pool, bytes != 0 ? UINT64_MAX : 0, idle_looks).first;
    struct pool_region *region = NULL;
    while (enough.bytes < bytes && (region = pick(&others, bytes - enough.bytes)) != NULL) {
        add_idle(&enough, region);
    }
    while (enough.bytes < bytes && (region = take_one_idle(pool)) != NULL) {
        add_idle(&enough, region);
    }
    put_all_back(pool, others);
    return enough;
}

/* The same, but takes no region if that is not worth the device calls. Pool lock held. */
static struct idle take_worthwhile(weir_pool *pool, uint64_t over)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const uint64_t regions = pool->counts.region_allocs - pool->counts.region_frees;
    const struct idle idle = take_enough(pool, over);
    WEIR_ASSERT(idle.count <= regions);
    const uint64_t gain = idle.bytes < over ? idle.bytes : over;
    if (idle.count == 0 || weir__mark_affords(&pool->held.mark, gain, idle.count, regions)) {
        return idle;
    }
    weir__mark_buy(&pool->held.mark, gain, regions);
    put_all_back(pool, idle.first);
    return (struct idle){.first = NULL};
}

/* If growing would raise the high-water mark, first gives idle regions back. Returns true if free memory served the
 * request. Pool lock held on entry and exit, released meanwhile. */
static bool return_at_mark(struct request *request, weir_rung *rung)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    weir_status ignored;
    if (over_mark(request) == 0) {
        return false;
    }
    if (poll_and_look(request)) {
        return true;
    }
    const uint64_t over = over_mark(request);
    if (over != 0 && return_idle(pool, take_worthwhile(pool, over).first, &ignored) != 0) {
        *rung = WEIR_RUNG_EXCHANGED;
    }
    return false;
}

/* Returns the bytes by which the reserved bytes would exceed the high-water mark or the limit, if the request got a
 * region of its own. Pool lock held. */
static uint64_t over_all(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    struct wish wish;
    (void)make_wish(request, &wish);
    const uint64_t limit = weir__budget_limit_locked(pool, request->soft);
    const uint64_t wanted = pool->held.bytes + wish.preferred;
    const uint64_t over_limit = wanted > limit ? wanted - limit : 0;
    const uint64_t over_mark = weir__mark_excess(&pool->held.mark, wanted);
    return over_mark > over_limit ? over_mark : over_limit;
}

/* The request has not split a much larger idle region, because a split region can neither serve a large request nor be
 * given back. So the request gets a region of its own, and idle regions are given back to make room for it. If they do
 * not suffice, the request splits the larger region after all. Returns true if free memory served the request. Pool
 * lock held on entry and exit, released meanwhile. */
static bool make_room_beside(struct request *request, weir_rung *rung)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    weir_status ignored;
    weir_rung found;
    request->keeps_whole = false;
    if (!request->kept_whole) {
        return false;
    }
    if (over_all(request) != 0) {
        pool_unlock(pool);
        (void)weir__order_poll(pool);
        pool_lock(pool);
        (void)weir__region_await_locked(pool);
    }
    const uint64_t over = over_all(request);
    const struct idle idle = take_enough(pool, over);
    if (idle.bytes < over) {
        put_all_back(pool, idle.first);
        request->kept_whole = false;
        return weir__order_look_locked(request, LOOK_ALL, &found);
    }
    pool->held.mark.whole_calls += idle.count + 1;
    if (return_idle(pool, idle.first, &ignored) != 0) {
        *rung = WEIR_RUNG_EXCHANGED;
    }
    return false;
}

/* Returns the bytes by which a region for the request would take the pool beyond what is cheap: little more than was
 * ever live. Pool lock held. */
static uint64_t over_cheap(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    const uint64_t cheap = pool->held.mark.live + pool->held.mark.live / mark_share;
    struct wish wish;
    (void)make_wish(request, &wish);
    const uint64_t wanted = pool->held.bytes + wish.preferred;
    return wanted > cheap ? wanted - cheap : 0;
}

static bool grow(struct request *request)
{
    weir_pool *pool = request->pool;
    weir_rung rung = WEIR_RUNG_GROWN;
    const uint64_t live = weir__inspect_sample(pool) + request->size;
    pool_lock(pool);
    weir__mark_note_request(&pool->held.mark, request->size, live);
    note_whole(pool);
    bool served = await_and_look(request, WEIR_RUNG_GROWN);
    request->excess = served ? 0 : over_cheap(request);
    if (!served && request->cheaply && request->excess > 0) {
        pool_unlock(pool);
        return false;
    }
    if (!served && make_room_beside(request, &rung)) {
        pool->counts.served[WEIR_RUNG_LANE]++;
        served = true;
    }
    served = served || return_at_mark(request, &rung);
    if (!served) {
        served = take_region(request);
        pool->counts.served[rung] += served;
    }
    pool_unlock(pool);
    return served;
}

static bool exchange(struct request *request)
{
    weir_pool *pool = request->pool;
    weir_status ignored;
    (void)weir__inspect_sample(pool);
    pool_lock(pool);
    bool served = await_and_look(request, WEIR_RUNG_EXCHANGED) || poll_and_look(request);
    if (!served && return_all_idle(pool, 0, &ignored) != 0) {
        served = take_region(request);
        pool->counts.served[WEIR_RUNG_EXCHANGED] += served;
    }
    pool_unlock(pool);
    return served;
}

/* --- looking up, and the end --- */

static bool find(const weir_pool *pool, uint64_t address, struct memory_piece *piece)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_region *region = pool->regions;
    while (region != NULL && address - region->address >= region->size) {
        region = region->next;
    }
    if (region == NULL || region->handle == NULL) {
        return false;
    }
    *piece = (struct memory_piece){.address = region->address, .size = region->size};
    return true;
}

static void return_all(weir_pool *pool, weir_status *first)
{
    for (struct pool_region *region = pool->regions; region != NULL; region = region->next) {
        weir__watch_taken(pool, region->address, region->size);
        keep_first(first, weir__device_return_region(pool->device, region->address, region->size));
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
    .find = find,
    .return_all = return_all,
    .fini = fini,
};
