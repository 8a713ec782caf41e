/* core/src/memory/vm.c: virtual memory: one range of addresses that grows, with memory where it is needed.
 *
 * Idea: the pool reserves a range of addresses several times as large as the memory that it may hold, a *span*, which
 * is one region to the strategy; the addresses without memory are its unmapped lane. Free memory of all sizes merges
 * there by address alone. A request that no free range holds gets the window that lacks the fewest granules
 * (vm_window.c): at the end of the memory, or in a hole. The missing granules are created in handles that are a share
 * of what the pool holds, so a pool makes few device calls however large it is. Idle handles go back only where the
 * pool would otherwise hold more than the mark, a little more than was ever live at once, or than the limit or the
 * device allows.
 *
 * Guarantee: if all free memory is also idle, a request fails only if the handles that hold taken memory or are pinned,
 * plus the request rounded up to granules, exceed the limit or the memory that the device gives. (Idle handles outside
 * the window go first, then all of them. What is left then are handles with taken memory and pinned ones; and the
 * window that lacks the fewest granules lacks no more than the request has, since a window of that size lies in every
 * large hole.) Near the limit new handles are granules, so that these two sums are close to the live bytes. The
 * guarantee needs addresses: if no span has a window left, another span is reserved.
 *
 * Cost: a walk around the strategy's holes; vm_handle.c states the rest. One thread at a time. */
#include "base/tuning.h"
#include "shared/round_up.h"
#include "vm_internal.h"

#include <stdlib.h>

/* A request tries at most this many times to map memory and take it, because other threads may take it first. */
enum { most_tries = 16 };

/* --- life --- */

bool weir__vm_suits(const weir_device *device, const weir_strategy_ops *strategy)
{
    const weir_device_info *info = weir__device_info(device);
    return (info->abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0 && info->page_bytes >= strategy->granule_bytes &&
           STRATEGY_HAS(strategy, claim) &&
           (strategy->flags &
            (WEIR_STRATEGY_PRIVATE_LANES | WEIR_STRATEGY_RETURNS_REGIONS | WEIR_STRATEGY_ROUNDS_UP)) == 0;
}

weir_status weir__vm_init(weir_pool *pool)
{
    WEIR_ASSERT(weir__vm_suits(pool->device, pool->strategy));
    const weir_device_info *info = weir__device_info(pool->device);
    const weir_strategy_ops *strategy = pool->strategy;
    const uint64_t granule = info->page_bytes;
    if (strategy->lane_add != NULL && strategy->lane_add(pool->state, WEIR_LANE_UNMAPPED) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->vm = calloc(1, sizeof(*pool->vm));
    if (pool->vm == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->vm->granule = granule;
    pool->vm->granule_shift = (unsigned)__builtin_ctzll(granule);
    pool->vm->by_page = (info->abilities & WEIR_DEVICE_PAGEWISE) != 0;
    pool->vm->walk_holes = STRATEGY_HAS(strategy, walk_holes) ? strategy->walk_holes : NULL;
    pool->vm->walk_free = STRATEGY_HAS(strategy, walk_free) ? strategy->walk_free : NULL;
    return WEIR_OK;
}

static void vm_fini(weir_pool *pool)
{
    struct pool_vm *vm = pool->vm;
    if (vm == NULL) {
        return;
    }
    weir__vm_free_spans(vm);
    weir__vm_scratch_fini(&vm->scratch);
    free(vm->spare);
    free(vm->place);
    free(vm->tokens);
    free(vm->withheld);
    free(vm);
    pool->vm = NULL;
}

/* --- how much --- */

/* The most granules that the pool may hold for this request. */
struct room {
    uint64_t mark;      /* idle handles go back before the pool holds more */
    uint64_t by_limit;  /* UINT64_MAX: no limit */
    uint64_t by_device; /* as a refusal has shown; UINT64_MAX: unknown */
    uint64_t capacity;  /* of the device, most of which may be taken; UINT64_MAX: unknown */
};

/* Returns what is surely there, as far as the pool knows. */
static uint64_t sure_of(const struct room *room)
{
    const uint64_t most = room->by_limit < room->by_device ? room->by_limit : room->by_device;
    return most < room->capacity ? most : room->capacity;
}

static uint64_t to_granules(const struct pool_vm *vm, uint64_t bytes)
{
    return bytes >> vm->granule_shift;
}

static struct room room_for(const struct request *request, uint64_t live)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    const struct pool_vm *vm = pool->vm;
    const uint64_t peak = pool->peak_live > 0 ? (uint64_t)pool->peak_live : 0;
    const uint64_t most = live + request->size > peak ? live + request->size : peak;
    const uint64_t share = vm->by_page ? mark_share_by_page : mark_share;
    const uint64_t spare = most / share + ((uint64_t)mark_granules << vm->granule_shift);
    pool->held.mark.live = most > pool->held.mark.live ? most : pool->held.mark.live;
    const uint64_t capacity = weir__device_info(pool->device)->capacity_bytes;
    const bool keep = (pool->config.flags & WEIR_POOL_KEEP_IDLE_REGIONS) != 0;
    return (struct room){
        .mark = keep ? UINT64_MAX : to_granules(vm, most + spare),
        .by_limit = to_granules(vm, weir__budget_limit_locked(pool, request->soft)),
        .by_device = request->ceiling != 0 ? to_granules(vm, request->ceiling) : UINT64_MAX,
        .capacity = capacity != 0 ? to_granules(vm, capacity) : UINT64_MAX,
    };
}

/* Returns the most granules of a new handle, if the pool is to hold `granules`: a share of them, or one near the limit
 * and the device's capacity, where a handle that live blocks touch may have no idle granules to spare. */
uint64_t weir__vm_handle_granules(const weir_pool *pool, uint64_t granules)
{
    const struct pool_vm *vm = pool->vm;
    const uint64_t most = weir__budget_most_locked(pool, true);
    const bool near = most != 0 && granules > to_granules(vm, most - most / near_limit_share);
    return near || vm->by_page || granules < handle_share ? 1 : granules / handle_share;
}

uint64_t weir__vm_coarse_locked(const weir_pool *pool, uint64_t reserved)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    const uint64_t most = weir__budget_most_locked(pool, true);
    const uint64_t end = to_granules(vm, most - most / near_limit_share);
    const uint64_t first = to_granules(vm, reserved) > 2 * handle_share ? to_granules(vm, reserved) : 2 * handle_share;
    return vm->by_page || end <= first ? 0 : (end - first) << vm->granule_shift;
}

/* Returns how many granules beyond the window are created with it, where it ends the memory of its span: the next
 * requests lie there. */
static uint64_t granules_ahead(const weir_pool *pool, const struct vm_window *window, uint64_t after,
                               const struct room *room, uint64_t most)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    const struct vm_span *span = vm_span_of(vm, window->first);
    const uint64_t last = span->address + (span->used << vm->granule_shift);
    const uint64_t surely = sure_of(room);
    const uint64_t bound = room->mark < surely ? room->mark : surely;
    const uint64_t below = bound > after ? bound - after : 0;
    const uint64_t left = (span->address + span->size - window->end) >> vm->granule_shift;
    uint64_t ahead = most > 1 && window->end > last ? after / ahead_share : 0;
    ahead = ahead < below ? ahead : below;
    return ahead < left ? ahead : left;
}

/* --- room --- */

enum made { MADE_ROOM, MADE_FREE, MADE_IDLE_SPARE, MADE_NONE };

/* Sees to it that the window's memory may be created. Where the pool would hold too much, first learns which work has
 * completed: memory that is idle now may serve the request where it is (MADE_FREE). Otherwise unmaps idle handles: then
 * the window has to be searched again. Returns MADE_NONE if the limit or the device forbids the window. Pool lock held
 * on entry and exit, released for the device calls. */
static enum made make_room(struct request *request, const struct vm_window *window, const struct room *room)
{
    WEIR_ASSERT(pool_is_locked(request->pool) && window->need != 0);
    weir_pool *pool = request->pool;
    const struct pool_vm *vm = pool->vm;
    const uint64_t after = to_granules(vm, pool->held.bytes) - vm->spare_granules + window->need;
    const uint64_t most = room->by_limit < room->by_device ? room->by_limit : room->by_device;
    const uint64_t sure = sure_of(room);
    const uint64_t bound = room->mark < sure ? room->mark : sure;
    if (after <= bound) {
        return MADE_ROOM;
    }
    pool_unlock(pool);
    const bool more = weir__order_poll(pool); /* the ladder has polled before it flushed the stream's cache */
    pool_lock(pool);
    if (more) {
        return MADE_FREE;
    }
    /* Nothing is unmapped in vain, except as the last resort: then all idle handles go, for a window anywhere. */
    weir_status status = WEIR_OK;
    const uint64_t enough = request->cheaply ? after - bound : after > sure ? after - sure : 0;
    uint64_t unmapped = weir__vm_unmap_idle(pool, window, enough, after - bound, &status);
    if (unmapped == 0 && after > most && request->last_resort && status == WEIR_OK) {
        unmapped = weir__vm_unmap_idle(pool, NULL, 0, UINT64_MAX, &status);
    }
    request->device_status = status != WEIR_OK ? status : request->device_status;
    if (unmapped > 0) {
        return MADE_IDLE_SPARE;
    }
    request->excess = (after - bound) << vm->granule_shift;
    if (request->cheaply) {
        return MADE_NONE;
    }
    request->region_asked = window->need << vm->granule_shift;
    request->limited = after > room->by_limit && room->by_limit <= room->by_device;
    if (after > room->by_device) {
        request->ceiling = room->by_device << vm->granule_shift;
        request->device_status = request->device_status == WEIR_OK ? WEIR_ERR_NO_MEMORY : request->device_status;
    }
    return after <= most ? MADE_ROOM : MADE_NONE;
}

/* Creates the memory of the window, which lies in a reserved block, and maps it: all or nothing. */
static weir_status fill_part(const struct request *request, const struct vm_window *window, bool *lacks_host_memory)
{
    weir_pool *pool = request->pool;
    struct reservation *reserved = reservation_of(request->part->block);
    const weir_status status = weir__vm_cover(pool, window->first, window->end, UINT64_MAX, lacks_host_memory);
    reserved->stray |= status != WEIR_OK; /* the device may not have unmapped what it had mapped */
    return status;
}

/* Creates the window's memory and maps it. Returns false on failure: request->ceiling tells how much the device gives,
 * if it has refused more. Pool lock held on entry and exit, released for the device calls. */
static bool fill(struct request *request, const struct vm_window *window, const struct room *room)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    const struct pool_vm *vm = pool->vm;
    const uint64_t after = to_granules(vm, pool->held.bytes) - vm->spare_granules + window->need;
    const uint64_t most = weir__vm_handle_granules(pool, after);
    const uint64_t ahead = request->part == NULL ? granules_ahead(pool, window, after, room, most) : 0;
    bool lacks_host_memory = false;
    const weir_status status = request->part != NULL
                                   ? fill_part(request, window, &lacks_host_memory)
                                   : weir__vm_fill(pool, window->first, window->end + (ahead << vm->granule_shift),
                                                   most, request->stream->home, &lacks_host_memory);
    if (lacks_host_memory) {
        request->broken = WEIR_ERR_NO_MEMORY;
    } else if (status == WEIR_ERR_NO_MEMORY) {
        request->ceiling = pool->held.bytes;
    }
    request->device_status = status;
    return status == WEIR_OK;
}

/* --- serving --- */

/* Takes the window's addresses, all usable by the stream, from the strategy as the request's block. Pool lock held. */
static bool take_window(struct request *request, const struct vm_window *window)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    weir_range range = {.address = window->address, .size = window->size};
    const weir_tick *limits = weir__order_limits_locked(pool, request->stream);
    const weir_status status =
        pool->strategy->claim(pool->state, range.address, range.size, 1, limits, pool->lanes, &range.token);
    if (status != WEIR_OK) {
        request->broken = status == WEIR_ERR_NO_MEMORY ? status : request->broken;
        return false;
    }
    request->block = block_new(pool, request->stream, request->size, &range);
    if (request->block == NULL) {
        pool->strategy->free(pool->state, range.token, request->stream->home, request->stream->last_free);
        weir__lane_note_early_locked(pool, request->stream->home, request->stream->last_free);
        request->broken = WEIR_ERR_NO_MEMORY;
    }
    return request->block != NULL;
}

static bool serve_free(struct request *request, unsigned where)
{
    weir_rung found;
    return request->at == 0 && weir__order_look_locked(request, where, &found);
}

/* True if no memory can serve the request. Such a request is refused without a device call. */
static bool is_hopeless(struct request *request)
{
    const weir_pool *pool = request->pool;
    const uint64_t capacity = weir__device_info(pool->device)->capacity_bytes;
    const uint64_t least = round_up(request->size, pool->vm->granule);
    request->limited = least > weir__budget_limit_locked(pool, request->soft);
    const bool too_large = capacity != 0 && least > capacity;
    if (request->limited || too_large) {
        request->region_asked = least;
        request->device_status = too_large ? WEIR_ERR_NO_MEMORY : request->device_status;
        request->ceiling = capacity;
    }
    return request->limited || too_large;
}

static weir_status find_window(struct request *request, struct vm_window *window)
{
    weir_pool *pool = request->pool;
    const struct vm_view view = {
        .strategy = pool->strategy,
        .walk_holes = pool->vm->walk_holes,
        .state = pool->state,
        .limits = weir__order_limits_locked(pool, request->stream),
        .lanes = pool->lanes,
        .granule = pool->vm->granule,
    };
    const struct vm_wish wish = {
        .size = round_up(request->size, pool->granule_mask + 1),
        .align = request->align,
        .last_resort = request->last_resort,
        .at = request->at,
    };
    const weir_status found = weir__vm_find_window(&pool->vm->scratch, &view, &wish, window);
    request->broken = found == WEIR_ERR_NO_MEMORY ? found : request->broken;
    return found;
}

/* Puts memory at the window, as one try. Returns false if it has not; *again tells if another try may help. */
static bool put_memory(struct request *request, const struct vm_window *window, uint64_t live, weir_rung *rung,
                       unsigned *where, bool *again)
{
    if (window->need == 0) {
        return true;
    }
    const struct room room = room_for(request, live);
    const enum made made = make_room(request, window, &room);
    *rung = made == MADE_IDLE_SPARE ? WEIR_RUNG_REMAPPED : *rung;
    const uint64_t ceiling = request->ceiling;
    *where = made == MADE_FREE ? LOOK_ALL : LOOK_OWN;
    if (made == MADE_FREE) {
        (void)!weir__reserved_settle(request->pool, request->part);
    }
    const bool filled = made == MADE_ROOM && fill(request, window, &room);
    *again = !filled && (made == MADE_FREE || made == MADE_IDLE_SPARE || request->ceiling != ceiling);
    return filled;
}

/* One try to put memory under a part of a reserved block; see try_once. */
static bool try_part(struct request *request, uint64_t live, weir_rung *rung, bool *again)
{
    struct vm_window window;
    unsigned where = 0;
    *again = false;
    request->broken = weir__reserved_look(request, &window);
    if (request->broken != WEIR_OK || !put_memory(request, &window, live, rung, &where, again)) {
        return false;
    }
    weir__reserved_commit(request);
    request->block = request->part->block;
    return true;
}

/* One try to serve the request, first from free memory (`*where` tells where to look). Sets *rung. Returns false if the
 * request is not served; *again tells if another try may help: addresses, memory or knowledge about the device have
 * changed. Pool lock held on entry and exit, released for the device calls. */
static bool try_once(struct request *request, uint64_t live, weir_rung *rung, unsigned *where, bool *again)
{
    struct vm_window window;
    *again = false;
    if (serve_free(request, *where)) {
        return true;
    }
    const weir_status found = find_window(request, &window);
    if (found != WEIR_OK) {
        *again = found == WEIR_ERR_LIMIT && request->at == 0 && weir__vm_add_span(request);
        return false;
    }
    if (!put_memory(request, &window, live, rung, where, again)) {
        return false;
    }
    *again = true;
    /* The window continues the free memory before it. The strategy may cut the block off the other end, and would leave
     * a gap that no later window joins; where memory is created ahead of the window, the next requests fill it. */
    const bool by_page = request->pool->vm->by_page;
    return (by_page && take_window(request, &window)) || serve_free(request, LOOK_OWN) ||
           (!by_page && request->broken == WEIR_OK && take_window(request, &window));
}

/* Maps memory for the request and serves it, or serves it from free memory. Pool lock held on entry and exit; called by
 * the thread that grows. */
static bool map_and_serve(struct request *request, uint64_t live, unsigned where)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    (void)!weir__reserved_settle(pool, request->part); /* the memory is spare: it serves the request or goes */
    weir_rung rung = pool->vm->spares > 0 ? WEIR_RUNG_REMAPPED : WEIR_RUNG_MAPPED;
    bool served = false;
    bool again = !is_hopeless(request);
    for (int tries = 0; again && !served && tries < most_tries && request->broken == WEIR_OK; tries++) {
        served = request->part != NULL ? try_part(request, live, &rung, &again)
                                       : try_once(request, live, &rung, &where, &again);
    }
    weir_status ignored = WEIR_OK;
    (void)weir__vm_drop_spares(pool, 0, &ignored);
    pool->counts.served[rung] += served && request->part == NULL; /* a commit is no alloc */
    return served;
}

static bool look_and_grow(struct request *request, unsigned where)
{
    weir_pool *pool = request->pool;
    const uint64_t live = weir__inspect_sample(pool);
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    pool->growth.taken = true;
    const bool served = map_and_serve(request, live, where);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    return served;
}

static bool vm_grow(struct request *request)
{
    return look_and_grow(request, LOOK_OWN);
}

/* Polls for completed work, then grows. Growing takes idle memory anyway. */
static bool vm_exchange(struct request *request)
{
    return look_and_grow(request, weir__order_poll(request->pool) ? LOOK_ALL : LOOK_OWN);
}

bool weir__vm_serve_at(struct request *request)
{
    WEIR_ASSERT(request->at != 0 && outside_pool_lock(request->pool));
    weir_pool *pool = request->pool;
    const struct vm_window window = {.address = request->at, .size = request->size};
    pool_lock(pool);
    const bool served = take_window(request, &window);
    pool_unlock(pool);
    return served || (request->broken == WEIR_OK && vm_grow(request));
}

/* --- giving back --- */

static uint64_t vm_give_back(weir_pool *pool, uint64_t keep, weir_status *failed)
{
    struct pool_vm *vm = pool->vm;
    uint64_t dropped = 0;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    pool->growth.taken = true;
    weir__vm_release_refused(pool);
    *failed = weir__vm_rejoin_withheld(pool);
    const uint64_t spare = vm->spare_granules;
    keep_first(failed, weir__reserved_settle(pool, NULL));
    const uint64_t left = (vm->spare_granules - spare) << vm->granule_shift;
    dropped = weir__vm_drop_spares(pool, pool->held.bytes - left, failed); /* decommitted memory goes in any case */
    dropped += weir__vm_drop_spares(pool, keep, failed);
    while (pool->held.bytes > keep && *failed == WEIR_OK) {
        const uint64_t surplus = (pool->held.bytes - keep + vm->granule - 1) >> vm->granule_shift;
        const uint64_t unmapped = weir__vm_unmap_idle(pool, NULL, 0, surplus, failed);
        dropped += weir__vm_drop_spares(pool, 0, failed);
        if (unmapped == 0) {
            break;
        }
    }
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    return dropped << vm->granule_shift;
}

static void vm_return_all(weir_pool *pool, weir_status *first)
{
    const struct pool_vm *vm = pool->vm;
    for (size_t i = 0; i < vm->spares; i++) {
        keep_first(first, weir__device_return_memory(pool->device, vm->spare[i].handle));
    }
    weir__vm_return_spans(pool, first);
}

const struct memory_ops weir__vm_memory = {
    .grow = vm_grow,
    .exchange = vm_exchange,
    .give_back = vm_give_back,
    .find = weir__vm_find_locked,
    .return_all = vm_return_all,
    .fini = vm_fini,
};
