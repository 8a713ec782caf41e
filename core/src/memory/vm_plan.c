/* core/src/memory/vm_plan.c: decides which window a request gets, and where the granules for it come from.
 *
 * Idea: spare handles come first. New granules are created while the pool holds little more than was ever live at once.
 * Beyond that, idle granules move into the window. Only if these are too few, more granules are created.
 *
 * Guarantee: if all free memory is also idle, a plan is refused only if the granules that hold taken memory, plus the
 * request rounded up to granules, exceed the limit or the memory that the device gives. (vm_window.h: the frugal window
 * has no more granules of its own than that; all other granules may be moved into it; the rest is created.)
 */
#include "shared/round_up.h"
#include "vm_internal.h"

/* A pool below this size is small: spare memory costs more there than device calls do. */
#define SMALL_POOL_BYTES (UINT64_C(256) << 20)

/* Idle memory is moved only if more than this would be reserved, unless the config says otherwise: 1/24 more than was
 * ever live at once, plus 6 MiB (or three granules, if that is more). The documented bound is 1/20 and 8 MiB. */
enum { spare_share = 24, spare_granules = 3 };
#define SPARE_BYTES (UINT64_C(6) << 20)

/* The fewest granules that get one common handle instead of a handle each. Two blocks cannot share a handle. In a small
 * pool the memory wasted in this way costs more than the device calls for single granules. */
enum { least_granules = 2, least_granules_small = 8 };

uint64_t weir__vm_least_of_handle(const weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return pool->held.bytes < SMALL_POOL_BYTES && pool->config.vm_handle_bytes == 0 ? least_granules_small
                                                                                    : least_granules;
}

static struct vm_view view_of(const weir_pool *pool, const weir_tick *limits)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return (struct vm_view){
        .strategy = pool->strategy,
        .walk_holes = pool->vm->walk_holes,
        .walk_free = pool->vm->walk_free,
        .state = pool->state,
        .limits = limits,
        .lanes = pool->lanes,
        .granule = pool->vm->granule,
        .least = weir__vm_least_of_handle(pool),
        .most = pool->vm->largest_now,
        .find_handle = pool->vm->large > 0 ? weir__vm_find_handle : NULL,
        .handles = pool->vm,
    };
}

weir_status weir__vm_find_best(struct request *request, enum window_kind kind, struct vm_window *window)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    weir_pool *pool = request->pool;
    const struct vm_wish wish = {
        .size = round_up(request->size, pool->granule_mask + 1),
        .align = request->align,
        .last_resort = request->last_resort,
        .kind = kind,
        .at = request->at,
    };
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, request->stream));
    const weir_status found = weir__vm_find_window(&pool->vm->scratch, &view, &wish, window);
    request->broken = found == WEIR_ERR_NO_MEMORY ? found : request->broken;
    return found;
}

weir_status weir__vm_find_victims(weir_pool *pool, const struct vm_window *window, uint64_t wanted, uint64_t *granules)
{
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
    return weir__vm_find_idle(&pool->vm->scratch, &view, window, wanted, granules);
}

/* Returns the number of granules that may be added before `bytes` are reserved; 0 bytes mean no bound. */
static uint64_t room_below(const weir_pool *pool, uint64_t bytes)
{
    return bytes == 0                 ? UINT64_MAX
           : bytes > pool->held.bytes ? (bytes - pool->held.bytes) >> pool->vm->granule_shift
                                      : 0;
}

/* Returns the most bytes that the pool reserves before it moves idle memory instead of creating more; 0: no bound. */
static uint64_t budget(const struct request *request, uint64_t live)
{
    const weir_pool *pool = request->pool;
    if ((pool->config.flags & WEIR_POOL_KEEP_IDLE_REGIONS) != 0) {
        return 0; /* no bound */
    }
    const uint64_t peak = pool->peak_live > 0 ? (uint64_t)pool->peak_live : 0;
    const uint64_t most = live + request->size > peak ? live + request->size : peak;
    const uint64_t small = most < SMALL_POOL_BYTES ? most : SMALL_POOL_BYTES;
    const uint64_t share = pool->config.vm_spare_share != 0 ? pool->config.vm_spare_share : spare_share;
    const uint64_t large_share = pool->config.vm_large_spare_share != 0 ? pool->config.vm_large_spare_share : share;
    const uint64_t spare = (uint64_t)spare_granules << pool->vm->granule_shift;
    const uint64_t bytes = pool->config.vm_spare_bytes != 0 ? pool->config.vm_spare_bytes : SPARE_BYTES;
    return most + small / share + (most - small) / large_share + (spare > bytes ? spare : bytes);
}

/* The most granules to create: under the limit, by the device, and (`cheap`) before idle granules are moved instead. */
struct vm_room {
    uint64_t by_limit;
    uint64_t by_device;
    uint64_t cheap;
};

static struct vm_room room_for(const struct request *request, uint64_t live)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const weir_pool *pool = request->pool;
    struct vm_room room = {
        .by_limit = room_below(pool, weir__budget_limit_locked(pool, request->soft)),
        .by_device = room_below(pool, request->ceiling),
        .cheap = room_below(pool, budget(request, live)),
    };
    const uint64_t most = room.by_limit < room.by_device ? room.by_limit : room.by_device;
    room.cheap = room.cheap < most ? room.cheap : most;
    return room;
}

/* Decides where the granules for the window come from: spare handles first, then new memory up to room->cheap, then
 * idle granules, then more new memory. Returns false when out of host memory. Pool lock held. */
static bool weigh(struct request *request, const struct vm_room *room, struct vm_plan *plan)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const struct pool_vm *vm = request->pool->vm;
    const uint64_t need = plan->window.need > vm->spare_granules ? plan->window.need - vm->spare_granules : 0;
    plan->creates = need < room->cheap ? need : room->cheap;
    plan->victims = 0;
    if (plan->creates < need) {
        uint64_t idle = 0;
        if (weir__vm_find_victims(request->pool, &plan->window, need - plan->creates, &idle) != WEIR_OK) {
            request->broken = WEIR_ERR_NO_MEMORY;
            return false;
        }
        plan->victims = idle < need - plan->creates ? idle : need - plan->creates;
        plan->creates = need - plan->victims;
        WEIR_ASSERT(plan->victims <= idle);
    }
    return true;
}

bool weir__vm_make_plan(struct request *request, uint64_t live, struct vm_plan *plan)
{
    WEIR_ASSERT(pool_is_locked(request->pool));
    const struct vm_room room = room_for(request, live);
    const unsigned shift = request->pool->vm->granule_shift;
    if (!weigh(request, &room, plan)) {
        return false;
    }
    if (plan->creates > room.cheap) {
        struct vm_plan frugal = {.creates = 0};
        if (weir__vm_find_best(request, WINDOW_FRUGAL, &frugal.window) != WEIR_OK || !weigh(request, &room, &frugal)) {
            return false;
        }
        if (frugal.creates < plan->creates) {
            *plan = frugal;
        } else if (!weigh(request, &room, plan)) { /* restores the runs of `plan`, which the search for `frugal` has
                                                      replaced */
            return false;
        }
        plan->cramped = frugal.window.own > round_up(request->size, request->pool->vm->granule) >> shift;
    }
    request->region_asked = plan->window.need << shift;
    request->limited = plan->creates > room.by_limit && room.by_limit <= room.by_device;
    return plan->creates <= room.by_limit && plan->creates <= room.by_device;
}
