/* core/src/memory/vm.c: virtual memory: maps memory where it is needed, to grow a pool.
 *
 * Idea: the pool reserves a range of addresses several times as large as the memory that it may hold, a *span*, and
 * maps memory into it in granules. One handle of the device has memory for one granule or several adjacent ones. To the
 * strategy a span is one region, and the addresses without memory are its unmapped lane. A request that no free range
 * holds gets the window that lacks the fewest granules (vm_window.c). Those granules are created while the pool holds
 * little more than was ever live at once. Beyond that, idle granules are unmapped elsewhere and mapped in the window.
 * All handles of one size are alike, so any of them will do.
 *
 * Guarantee: if all free memory is also idle, a request fails only if the granules that hold taken memory, plus the
 * request rounded up to granules, exceed the limit or the memory that the device gives. (vm_plan.c has
 * the reason.) The guarantee needs addresses: if no span has a window left, another span is reserved.
 *
 * A block has all of a large handle or nothing of it, so an idle large handle could block the use of the memory that is
 * left. Therefore, before a request fails, all idle memory is returned to the device, which can give it to windows of
 * any bounds.
 *
 * All or nothing: a move of memory is planned and claimed from the strategy under the pool's lock, made without any
 * lock, and settled under the lock again. If a device call fails on the way, the steps done so far are reversed. If a
 * reversal fails too, each granule is settled in its new state, memory or a hole. A handle that is mapped nowhere
 * and cannot be destroyed is a *spare*: it counts as reserved, is used first by the next growth, and is destroyed by
 * trim or destroy. Memory is unmapped only after the host has seen it idle.
 *
 * Cost: a walk around the strategy's holes; if memory moves, one or two more of these, and of its free ranges of a
 * granule and more, the smallest first, until enough are idle; and two device calls per handle. One thread at a time.
 */
#include "shared/clock.h"
#include "shared/round_up.h"
#include "vm_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* Bytes of the largest memory handle, unless config.vm_handle_bytes is set. */
#define HANDLE_BYTES (UINT64_C(512) << 20)

/* True if the strategy's table of functions has the entry, and it is not NULL. */
#define HAS(ops, slot)                                                                                                 \
    ((ops)->struct_size >= offsetof(weir_strategy_ops, slot) + sizeof((ops)->slot) && (ops)->slot != NULL)

/* A request tries at most this many times to map memory and take it, because other threads may take it first. */
enum { most_tries = 16 };

/* --- life --- */

weir_status weir__vm_init(weir_pool *pool)
{
    const weir_device_info *info = weir__device_info(pool->device);
    const weir_strategy_ops *strategy = pool->strategy;
    const uint64_t granule = info->page_bytes;
    if ((info->abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0 || granule == 0) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_pool_create: device \"%s\" has no virtual memory", info->name);
    }
    if (!HAS(strategy, claim) ||
        (strategy->flags & (WEIR_STRATEGY_PRIVATE_LANES | WEIR_STRATEGY_RETURNS_REGIONS)) != 0) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_pool_create: strategy %s does not work over virtual memory",
                           strategy->name);
    }
    if (granule < strategy->granule_bytes) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_pool_create: the device's page of %" PRIu64
                           " bytes is smaller than the granule of strategy %s, %" PRIu64,
                           granule, strategy->name, (uint64_t)strategy->granule_bytes);
    }
    if (strategy->lane_add != NULL && strategy->lane_add(pool->state, WEIR_LANE_UNMAPPED) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->vm = calloc(1, sizeof(*pool->vm));
    if (pool->vm == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->vm->granule = granule;
    pool->vm->granule_shift = (unsigned)__builtin_ctzll(granule);
    const uint64_t largest = pool->config.vm_handle_bytes != 0 ? pool->config.vm_handle_bytes : HANDLE_BYTES;
    pool->vm->largest = largest < granule ? 1 : largest / granule;
    pool->vm->largest_now = pool->vm->largest;
    pool->vm->walk_holes = HAS(strategy, walk_holes) ? strategy->walk_holes : NULL;
    pool->vm->walk_free = HAS(strategy, walk_free) ? strategy->walk_free : NULL;
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
    free(vm->tokens);
    free(vm->move.hole);
    free(vm->move.victim);
    free(vm->move.memory);
    free(vm);
    pool->vm = NULL;
}

/* Chooses memory to give back until `keep` bytes are reserved: spare handles, and idle granules, which it claims, if
 * these do not suffice. Returns WEIR_ERR_BUSY if not all could be claimed. Pool lock held. */
static weir_status plan_return(weir_pool *pool, uint64_t keep)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct pool_vm *vm = pool->vm;
    const uint64_t surplus = (pool->held.bytes - keep + vm->granule - 1) >> vm->granule_shift;
    const uint64_t wanted = surplus > vm->spare_granules ? surplus - vm->spare_granules : 0;
    uint64_t victims = 0;
    weir_status status = wanted > 0 ? weir__vm_find_victims(pool, NULL, wanted, &victims) : WEIR_OK;
    if (status != WEIR_OK) {
        return status;
    }
    victims = victims < wanted ? victims : wanted;
    status = weir__vm_prepare(vm, 0, victims) ? weir__vm_claim_idle(pool, victims) : WEIR_ERR_NO_MEMORY;
    vm->move.destroys = vm->moving + (surplus < vm->spare_granules ? surplus : vm->spare_granules);
    if (status != WEIR_OK && status != WEIR_ERR_BUSY) {
        weir__vm_settle(pool);
    }
    return status;
}

/* Calls `calls` for the pool's move and adds its time to device_ns. Pool lock held on entry and exit, released
 * meanwhile. */
static weir_status call_device(weir_pool *pool, weir_status (*calls)(weir_pool *pool, struct vm_move *move))
{
    pool_unlock(pool);
    const uint64_t began = wall_ns();
    const weir_status status = calls(pool, &pool->vm->move);
    const uint64_t took = wall_ns() - began;
    pool_lock(pool);
    pool->counts.device_ns += took;
    return status;
}

/* Gives idle memory back to the device until only `keep` bytes are reserved. Returns how many bytes went back. Pool
 * lock held on entry and exit, released for the device calls; called by the thread that grows. */
static uint64_t return_idle(weir_pool *pool, uint64_t keep, weir_status *status)
{
    WEIR_ASSERT(pool_is_locked(pool));
    uint64_t returned = 0;
    bool again = true;
    while (again && pool->held.bytes > keep) {
        *status = plan_return(pool, keep);
        again = *status == WEIR_ERR_BUSY;
        if (*status != WEIR_OK && !again) {
            break;
        }
        *status = call_device(pool, weir__vm_return_memory);
        returned += pool->vm->move.counts.destroyed << pool->vm->granule_shift;
        weir__vm_settle(pool);
        again = again && *status == WEIR_OK;
    }
    return returned;
}

/* Claims all granules of the plan from the strategy. Returns false on failure, with the claims reversed. Pool lock
 * held. */
static bool claim_plan(struct request *request, const struct vm_plan *plan)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    weir_status status = weir__vm_prepare(vm, plan->window.need, plan->victims) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    status = status == WEIR_OK && plan->victims > 0 ? weir__vm_claim_idle(pool, plan->victims) : status;
    status = status == WEIR_OK ? weir__vm_claim_holes(pool, &plan->window, request->stream->home) : status;
    if (status != WEIR_OK) {
        weir__vm_settle(pool);
        request->broken = status != WEIR_ERR_BUSY ? status : request->broken;
        return false;
    }
    vm->move.destroys = vm->move.creates > plan->creates ? vm->move.creates - plan->creates : 0;
    return true;
}

/* Makes the device calls of a plan after its granules have been claimed. Returns true if the memory is mapped. Pool
 * lock held on entry and exit, released for the device calls. */
static bool carry_out(struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    struct vm_move *move = &pool->vm->move;
    const weir_status status = call_device(pool, weir__vm_move_memory);
    if (status != WEIR_OK) {
        const bool refused = move->counts.created < move->creates && move->made_room >= move->destroys;
        const uint64_t reached =
            pool->held.bytes + ((move->counts.created - move->made_room) << pool->vm->granule_shift);
        request->ceiling = refused ? reached : request->ceiling; /* if a call other than a create failed, nothing is
                                                                    known about the device's memory */
        move->counts.moved = 0;
    }
    weir__vm_settle(pool);
    request->device_status = status;
    return status == WEIR_OK;
}

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

static bool others_hold_any(const struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    for (size_t lane = 0; lane < pool->lanes; lane++) {
        weir_lane_stats stats = WEIR_LANE_STATS_INIT;
        pool->strategy->lane_stats(pool->state, (weir_lane)lane, &stats);
        if (stats.ranges != 0 && lane != request->stream->home) {
            return true;
        }
    }
    return false;
}

static bool vm_join(struct request *request)
{
    struct vm_window window;
    if (!request->last_resort && !request->splits_handle && request->pool->vm->walk_free == NULL &&
        !others_hold_any(request)) {
        return false; /* the strategy has searched every range, and without walk_free another search would walk all of
                         them */
    }
    if (weir__vm_find_best(request, WINDOW_MAPPED, &window) != WEIR_OK) {
        return false;
    }
    return weir__order_gather_locked(request) || take_window(request, &window);
}

/* Serves the request from memory that is free and mapped already. Pool lock held. */
static bool serve(struct request *request, weir_rung rung)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    /* If splits_handle is set, the ladder has just searched every free range. */
    const bool looks_again = !request->splits_handle || request->last_resort;
    const bool served = weir__order_take_locked(request, request->stream->home, WEIR_TICK_MAX) ||
                        (request->broken == WEIR_OK && looks_again && vm_join(request));
    pool->counts.served[rung] += served;
    return served;
}

/* True if no move of memory can serve the request. Such a request is refused without a device call. */
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

/* Last resort: returns all idle memory to the device, so that it can be created anew in handles of other sizes. A block
 * may not have a part of a large handle, so the memory of an idle large handle may be useless to a request. Returns
 * true if a large handle was returned. Pool lock held on entry and exit, released for the device calls. */
static bool break_handles(const struct request *request)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    const size_t large = pool->vm->large;
    weir_status status = WEIR_OK;
    if (request->last_resort && large > 0) {
        (void)return_idle(pool, 0, &status);
    }
    return pool->vm->large < large;
}

/* Maps memory for the request and serves it. If the device refuses to create memory, the next try knows how much the
 * device gives, and moves idle memory instead. Pool lock held on entry and exit; called by the thread that grows. */
static bool map_and_serve(struct request *request, uint64_t live)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    weir_rung rung = WEIR_RUNG_MAPPED;
    if (is_hopeless(request)) {
        return false;
    }
    for (int tries = 0; tries < most_tries && request->broken == WEIR_OK; tries++) {
        if (request->at == 0 && serve(request, rung)) {
            return true;
        }
        struct vm_plan plan = {.creates = 0};
        const weir_status found = weir__vm_find_best(request, WINDOW_CHEAP, &plan.window);
        const bool may_reserve = found == WEIR_ERR_LIMIT && request->at == 0;
        if (may_reserve ? !weir__vm_add_span(request) : found != WEIR_OK) {
            return false;
        }
        if (found == WEIR_ERR_LIMIT) {
            continue; /* a new span */
        }
        if (plan.window.need == 0) {
            if (take_window(request, &plan.window)) {
                pool->counts.served[rung]++;
                return true;
            }
            continue;
        }
        const uint64_t before = request->ceiling;
        if (!weir__vm_make_plan(request, live, &plan)) {
            const bool more_room = request->at == 0 && request->broken == WEIR_OK &&
                                   ((plan.cramped && weir__vm_add_span(request)) || break_handles(request));
            if (!more_room) {
                return false;
            }
            continue;
        }
        if (!claim_plan(request, &plan)) {
            continue;
        }
        rung = plan.victims > 0 ? WEIR_RUNG_REMAPPED : WEIR_RUNG_MAPPED;
        if (carry_out(request)) {
            if ((request->at == 0 && weir__order_take_locked(request, request->stream->home, WEIR_TICK_MAX)) ||
                (request->broken == WEIR_OK && take_window(request, &plan.window))) {
                pool->counts.served[rung]++;
                return true;
            }
        } else if (request->ceiling == before) {
            return false;
        }
    }
    return false;
}

static bool vm_grow(struct request *request)
{
    weir_pool *pool = request->pool;
    const uint64_t live = weir__inspect_sample(pool);
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    pool->growth.taken = true;
    const bool served = map_and_serve(request, live);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    return served;
}

bool weir__vm_serve_at(struct request *request)
{
    WEIR_ASSERT(request->at != 0 && outside_pool_lock(request->pool));
    weir_pool *pool = request->pool;
    const struct vm_window window = {.address = request->at, .size = request->size};
    pool_lock(pool);
    const bool served = pool->vm->large == 0 && take_window(request, &window);
    pool_unlock(pool);
    return served || (request->broken == WEIR_OK && vm_grow(request));
}

static uint64_t vm_give_back(weir_pool *pool, uint64_t keep, weir_status *failed)
{
    weir_status status = WEIR_OK;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    pool->growth.taken = true;
    weir__vm_release_refused(pool);
    const uint64_t returned = return_idle(pool, keep, &status);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    if (status != WEIR_OK) {
        *failed = status;
    }
    return returned;
}

static void vm_return_all(weir_pool *pool, weir_status *first)
{
    const struct pool_vm *vm = pool->vm;
    for (size_t i = 0; i < vm->spares; i++) {
        keep_first(first, weir__device_return_memory(pool->device, vm->move.memory[i].handle));
    }
    weir__vm_return_spans(pool, first);
}

/* Polls for completed work, then grows. Growing with virtual memory moves idle memory anyway. */
static bool vm_exchange(struct request *request)
{
    (void)weir__order_poll(request->pool);
    return vm_grow(request);
}

const struct memory_ops weir__vm_memory = {
    .mixes_sizes = true,
    .grow = vm_grow,
    .exchange = vm_exchange,
    .give_back = vm_give_back,
    .return_all = vm_return_all,
    .fini = vm_fini,
    .fits = weir__vm_fits,
    .join = vm_join,
};
