/* core/src/memory/vm.c: memory that is mapped where it is needed: growth of a pool with virtual memory.
 *
 * Idea: the pool reserves a range of addresses several times as large as what it may hold, a *span*, and puts memory into
 * it in granules, one handle of the device each. To the strategy a span is one region, and what has no memory yet is its
 * unmapped lane. A request that no free range holds gets the window where the fewest granules are missing (vm_place.c).
 * These are created while the pool holds little more than was ever live at once; beyond that, idle granules are taken away
 * elsewhere and mapped there. The handles are all alike, so it does not matter which goes where.
 *
 * Guarantee: when all that is free is also idle, a request fails only if the granules that taken memory lies in, and the
 * request rounded up to granules, exceed the limit or what the device gives. (vm_place.h: the frugal window has no more
 * granules of its own than that; all others may be moved into it; create is the rest.) Needs addresses: when no span has
 * a window left, one more is reserved.
 *
 * All or nothing: a move of memory is planned and claimed from the strategy under the pool's lock, made without any lock,
 * and settled under it again. A device call that fails on the way is followed by the reverse of what was done. Whatever
 * the device then says, each granule is settled as what it has become: memory or a hole; a handle that is mapped nowhere and
 * cannot be destroyed is a *spare*, which counts as reserved, is used first by the next growth and tried again by trim and
 * destroy. Nothing is unmapped that the host has not seen idle.
 *
 * Cost: a walk around the strategy's holes, one or two over all its ranges when memory moves, and two device calls per
 * granule. One thread at a time.
 */
#include "order/order.h"
#include "vm_place.h"

#include <inttypes.h>

#include <stdlib.h>

/* What may be reserved before idle memory is moved, unless the config says otherwise: 1/24 more than was ever live at once, and
 * 6 MiB (but three granules). The promise is 1/20 and 8 MiB. */
enum { spare_share = 24, spare_granules = 3 };
#define SPARE_BYTES (UINT64_C(6) << 20)

/* A span is so many times what may be reserved, and has at most so many granules unless a single request needs more. */
enum { span_factor = 4, span_most_granules = 1 << 19, span_unknown_granules = 1 << 17 };

/* How often a request has memory mapped that other threads take before it. */
enum { most_tries = 16 };

/* handle 0: a hole, which the strategy has in its unmapped lane. While `token` is set, the granule is claimed by the thread
 * that grows, and the handle is that thread's to know. */
struct vm_granule {
    weir_vm_handle handle;
    void *token;
};

/* [address, address + size) is the strategy's region; the device gave what is reserved, which may be larger so that granules
 * larger than a page are aligned. */
struct vm_span {
    struct vm_span *next;
    uint64_t address;
    uint64_t size;
    uint64_t reserved_address;
    uint64_t reserved_size;
    uint64_t used;                 /* no granule from this one on has ever had memory */
    struct vm_granule granules[]; /* from `used` on nothing is written, so that what is not used is not resident either */
};

/* One granule of a move. `handle` is what is mapped there, as far as the move has come. */
struct vm_step {
    struct vm_granule *granule;
    uint64_t address;
    weir_vm_handle handle;
    weir_lane lane; /* where it goes when it has memory in the end */
};

struct vm_counts {
    uint64_t creates;
    uint64_t destroys;
    uint64_t maps;
    uint64_t unmaps;
    uint64_t failures;
    uint64_t moved; /* granules */
};

/* handles[0 .. in_hand): what is mapped nowhere. The granules are steps[0 .. holes), to be mapped, and steps[holes ..
 * holes + victims), whose memory is taken for them. */
struct vm_move {
    struct vm_step *steps;
    size_t holes;
    size_t victims;
    weir_vm_handle *handles;
    size_t in_hand;
    size_t creates; /* wanted */
    struct vm_counts counts;
};

/* reserved_bytes of the pool / granule = granules with a handle and without a token + moving + spares. What belongs to the
 * growing thread alone is read by nobody else: scratch, move, and handles of claimed granules. */
/* A reservation for which the strategy has no host memory, until the device takes it back. */
struct vm_refused {
    struct vm_refused *next;
    uint64_t address;
    uint64_t size;
};

struct pool_vm {
    uint64_t granule; /* bytes */
    unsigned granule_shift;
    bool walks_holes;      /* the strategy does */
    struct vm_span *spans; /* in the order in which they were reserved */
    struct vm_refused *refused;
    size_t spares;         /* the first of move.handles, while nobody moves */
    size_t moving;         /* claimed granules that had memory */
    void **tokens;         /* of one claim */
    size_t step_capacity;
    size_t token_capacity;
    size_t handle_capacity;
    struct vm_move move;
    struct vm_scratch scratch;
    struct vm_counts counts;
};

/* --- life --- */

weir_status weir__vm_init(weir_pool *pool)
{
    const weir_device_info *info = weir__device_info(pool->device);
    const weir_strategy_ops *strategy = pool->strategy;
    const bool claims =
        strategy->struct_size >= offsetof(weir_strategy_ops, claim) + sizeof(strategy->claim) && strategy->claim != NULL;
    const uint64_t granule = pool->config.vm_granule_bytes != 0 ? pool->config.vm_granule_bytes : info->page_bytes;
    if ((info->abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0 || info->page_bytes == 0) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_pool_create: device \"%s\" has no virtual memory", info->name);
    }
    if (!claims || (strategy->flags & (WEIR_STRATEGY_PRIVATE_LANES | WEIR_STRATEGY_RETURNS_REGIONS)) != 0) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_pool_create: strategy %s does not work over virtual memory",
                           strategy->name);
    }
    if ((granule & (granule - 1)) != 0 || granule < info->page_bytes) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_pool_create: config.vm_granule_bytes %" PRIu64 " is not a power of two of at least the device's %" PRIu64,
                           granule, info->page_bytes);
    }
    if (granule < strategy->granule_bytes) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_pool_create: the device's page of %" PRIu64 " bytes is smaller than the granule of strategy %s, %" PRIu64,
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
    pool->vm->walks_holes =
        strategy->struct_size >= offsetof(weir_strategy_ops, walk_holes) + sizeof(strategy->walk_holes);
    return WEIR_OK;
}

static void vm_fini(weir_pool *pool)
{
    struct pool_vm *vm = pool->vm;
    if (vm == NULL) {
        return;
    }
    while (vm->spans != NULL) {
        struct vm_span *next = vm->spans->next;
        free(vm->spans);
        vm->spans = next;
    }
    while (vm->refused != NULL) {
        struct vm_refused *next = vm->refused->next;
        free(vm->refused);
        vm->refused = next;
    }
    weir__vm_scratch_fini(&vm->scratch);
    free(vm->tokens);
    free(vm->move.steps);
    free(vm->move.handles);
    free(vm);
    pool->vm = NULL;
}

/* --- books of granules --- */

static struct vm_span *span_of(const struct pool_vm *vm, uint64_t address)
{
    struct vm_span *span = vm->spans;
    while (span != NULL && address - span->address >= span->size) {
        span = span->next;
    }
    return span;
}

/* NULL: one that has never had memory. */
static struct vm_granule *granule_at(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const uint64_t number = (address - span->address) >> vm->granule_shift;
    return number < span->used ? &span->granules[number] : NULL;
}

static struct vm_granule *use_granule(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const uint64_t number = (address - span->address) >> vm->granule_shift;
    for (; span->used <= number; span->used++) {
        span->granules[span->used] = (struct vm_granule){ 0 };
    }
    return &span->granules[number];
}

bool weir__vm_moves_locked(const weir_pool *pool, const weir_range_info *range)
{
    struct vm_span *span = span_of(pool->vm, range->address);
    const struct vm_granule *granule = span != NULL ? granule_at(pool->vm, span, range->address) : NULL;
    return granule != NULL && range->size == pool->vm->granule && range->token != NULL && granule->token == range->token;
}

uint64_t weir__vm_granule(const weir_pool *pool)
{
    return pool->vm->granule;
}

void weir__vm_each_granule_locked(const weir_pool *pool, void (*visit)(void *ctx, uint64_t address, uint64_t size),
                                  void *ctx)
{
    const struct pool_vm *vm = pool->vm;
    for (const struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        for (uint64_t i = 0; i < span->used; i++) {
            if (span->granules[i].handle != 0) {
                visit(ctx, span->address + (i << vm->granule_shift), vm->granule);
            }
        }
    }
}

struct hole_check {
    const struct pool_vm *vm;
    bool broken;
};

static bool see_hole(void *ctx, const weir_range_info *range)
{
    struct hole_check *check = ctx;
    const struct pool_vm *vm = check->vm;
    if (range->taken || range->lane != WEIR_LANE_UNMAPPED) {
        return true;
    }
    struct vm_span *span = span_of(vm, range->address);
    check->broken = span == NULL || ((range->address | range->size) & (vm->granule - 1)) != 0;
    const uint64_t used = check->broken ? 0 : span->address + (span->used << vm->granule_shift);
    for (uint64_t at = 0; !check->broken && at < range->size && range->address + at < used; at += vm->granule) {
        const struct vm_granule *granule = granule_at(vm, span, range->address + at);
        check->broken = granule->handle != 0 || granule->token != NULL;
    }
    return !check->broken;
}

const char *weir__vm_broken_locked(const weir_pool *pool, uint64_t held, uint64_t unmapped, uint64_t moving)
{
    const struct pool_vm *vm = pool->vm;
    uint64_t addresses = 0;
    uint64_t mapped = 0;
    uint64_t claimed = 0;
    for (const struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        addresses += span->size;
        for (uint64_t i = 0; i < span->used; i++) {
            claimed += span->granules[i].token != NULL;
            mapped += span->granules[i].token == NULL && span->granules[i].handle != 0;
        }
    }
    if (addresses != held + unmapped + moving) {
        return "spans and their ranges differ";
    }
    if (mapped << vm->granule_shift != held || claimed << vm->granule_shift != moving) {
        return "granules with memory and the ranges in them differ";
    }
    if ((mapped + vm->moving + vm->spares) << vm->granule_shift != pool->reserved_bytes) {
        return "reserved bytes and granules differ";
    }
    struct hole_check check = { .vm = vm };
    pool->strategy->walk(pool->state, see_hole, &check);
    return check.broken ? "a range without memory lies where memory is mapped" : NULL;
}

void weir__vm_add_stats_locked(const weir_pool *pool, weir_stats *stats)
{
    const struct vm_counts *counts = &pool->vm->counts;
    stats->vm_creates = counts->creates;
    stats->vm_destroys = counts->destroys;
    stats->vm_maps = counts->maps;
    stats->vm_unmaps = counts->unmaps;
    stats->vm_moved_bytes = counts->moved << pool->vm->granule_shift;
}

static struct vm_view view_of(const weir_pool *pool, const weir_tick *limits)
{
    return (struct vm_view){
        .strategy = pool->strategy,
        .walk_holes = pool->vm->walks_holes ? pool->strategy->walk_holes : NULL,
        .state = pool->state,
        .limits = limits,
        .lanes = pool->lanes,
        .granule = pool->vm->granule,
    };
}

/* --- device calls of a move: no lock is held --- */

static weir_status count(struct vm_move *move, weir_status status, uint64_t *counter)
{
    *counter += status == WEIR_OK;
    move->counts.failures += status != WEIR_OK;
    return status;
}

static weir_status create_one(weir_pool *pool, struct vm_move *move)
{
    weir_vm_handle handle = 0;
    const weir_status status =
        count(move, weir_device_vm_create(pool->device, pool->vm->granule, &handle), &move->counts.creates);
    if (status == WEIR_OK) {
        move->handles[move->in_hand++] = handle;
    }
    return status;
}

static weir_status destroy_one(weir_pool *pool, struct vm_move *move)
{
    const weir_vm_handle handle = move->handles[move->in_hand - 1];
    const weir_status status = count(move, weir_device_vm_destroy(pool->device, handle), &move->counts.destroys);
    move->in_hand -= status == WEIR_OK;
    return status;
}

static weir_status map_one(weir_pool *pool, struct vm_move *move, struct vm_step *step)
{
    const weir_vm_handle handle = move->handles[move->in_hand - 1];
    const weir_status status = count(
        move, weir_device_vm_map(pool->device, step->address, pool->vm->granule, handle), &move->counts.maps);
    if (status == WEIR_OK) {
        weir__watch_given(pool, step->address, pool->vm->granule);
        step->handle = handle;
        move->in_hand--;
    }
    return status;
}

static weir_status unmap_one(weir_pool *pool, struct vm_move *move, struct vm_step *step)
{
    weir__watch_taken(pool, step->address, pool->vm->granule);
    const weir_status status =
        count(move, weir_device_vm_unmap(pool->device, step->address, pool->vm->granule), &move->counts.unmaps);
    if (status == WEIR_OK) {
        move->handles[move->in_hand++] = step->handle;
        step->handle = 0;
    } else {
        weir__watch_given(pool, step->address, pool->vm->granule);
    }
    return status;
}

/* The reverse of what has been done. What fails here stays as it is. */
static void undo(weir_pool *pool, struct vm_move *move, uint64_t created)
{
    weir_status ignored = WEIR_OK;
    for (size_t i = move->holes; i-- > 0;) {
        if (move->steps[i].handle != 0) {
            ignored = unmap_one(pool, move, &move->steps[i]);
        }
    }
    for (size_t i = move->holes + move->victims; i-- > move->holes;) {
        if (move->steps[i].handle == 0 && move->in_hand > 0) {
            ignored = map_one(pool, move, &move->steps[i]);
        }
    }
    for (; created > 0 && move->in_hand > 0; created--) {
        ignored = destroy_one(pool, move);
        if (ignored != WEIR_OK) {
            break;
        }
    }
}

/* Creates what is to be created, takes the victims' memory away and maps all of it into the holes; or nothing. */
static weir_status move_memory(weir_pool *pool, struct vm_move *move)
{
    weir_status status = WEIR_OK;
    const uint64_t before = move->counts.creates;
    for (size_t i = 0; i < move->creates && status == WEIR_OK; i++) {
        status = create_one(pool, move);
    }
    for (size_t i = 0; i < move->victims && status == WEIR_OK; i++) {
        status = unmap_one(pool, move, &move->steps[move->holes + i]);
    }
    for (size_t i = 0; i < move->holes && status == WEIR_OK; i++) {
        status = map_one(pool, move, &move->steps[i]);
    }
    if (status != WEIR_OK) {
        undo(pool, move, move->counts.creates - before);
    }
    return status;
}

/* Takes the victims' memory away for good, and destroys handles until `spares` are left; stops where the device refuses. */
static weir_status give_back(weir_pool *pool, struct vm_move *move, size_t spares)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < move->victims && status == WEIR_OK; i++) {
        status = unmap_one(pool, move, &move->steps[move->holes + i]);
    }
    weir_status destroyed = WEIR_OK;
    while (move->in_hand > spares && destroyed == WEIR_OK) {
        destroyed = destroy_one(pool, move);
    }
    return status != WEIR_OK ? status : destroyed;
}

/* --- claiming and settling: the pool's lock is held --- */

static bool reserve_array(void **array, size_t wanted, size_t *capacity, size_t element)
{
    if (wanted > *capacity) {
        void *larger = realloc(*array, wanted * element);
        if (larger == NULL) {
            return false;
        }
        *array = larger;
        *capacity = wanted;
    }
    return true;
}

static void settle_step(weir_pool *pool, const struct vm_step *step)
{
    void *token = step->granule->token;
    step->granule->token = NULL;
    step->granule->handle = step->handle;
    pool->strategy->free(pool->state, token, step->handle != 0 ? step->lane : WEIR_LANE_UNMAPPED, 0);
}

/* Every claimed granule goes back to the strategy as what it is now. No work is pending on any of them: tick 0. */
static void settle_move(weir_pool *pool, struct vm_move *move)
{
    struct pool_vm *vm = pool->vm;
    for (size_t i = 0; i < move->holes + move->victims; i++) {
        settle_step(pool, &move->steps[i]);
    }
    move->holes = 0;
    move->victims = 0;
    vm->spares = move->in_hand;
    vm->moving = 0;
    vm->counts.creates += move->counts.creates;
    vm->counts.destroys += move->counts.destroys;
    vm->counts.maps += move->counts.maps;
    vm->counts.unmaps += move->counts.unmaps;
    vm->counts.moved += move->counts.moved;
    pool->device_failures += move->counts.failures;
    weir__region_count_locked(pool, move->counts.creates << vm->granule_shift,
                              move->counts.destroys << vm->granule_shift);
    move->counts = (struct vm_counts){ 0 };
}

/* Takes neighbouring granules from the strategy. `limits` NULL: holes. */
static weir_status claim(weir_pool *pool, struct vm_move *move, uint64_t address, uint64_t granules, weir_lane lane,
                         const weir_tick *limits)
{
    struct pool_vm *vm = pool->vm;
    const weir_status status =
        pool->strategy->claim(pool->state, address, vm->granule, granules, limits, pool->lanes, vm->tokens);
    if (status != WEIR_OK) {
        return status == WEIR_ERR_NO_MEMORY ? status : WEIR_ERR_INTERNAL; /* the plan has just found them free */
    }
    struct vm_span *span = span_of(vm, address);
    for (uint64_t i = 0; i < granules; i++, address += vm->granule) {
        struct vm_granule *granule = use_granule(vm, span, address);
        granule->token = vm->tokens[i];
        move->steps[move->holes + move->victims] =
            (struct vm_step){ .granule = granule, .address = address, .handle = granule->handle, .lane = lane };
        move->holes += limits == NULL;
        move->victims += limits != NULL;
        vm->moving += limits != NULL;
    }
    return WEIR_OK;
}

static bool is_hole(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const struct vm_granule *granule = granule_at(vm, span, address);
    return granule == NULL || granule->handle == 0;
}

/* Claims the holes of a window for the lane. */
static weir_status claim_holes(weir_pool *pool, struct vm_move *move, const struct vm_window *window, weir_lane lane)
{
    const struct pool_vm *vm = pool->vm;
    struct vm_span *span = span_of(vm, window->first);
    weir_status status = WEIR_OK;
    uint64_t end = 0;
    for (uint64_t at = window->first; at < window->end && status == WEIR_OK; at = end + vm->granule) {
        for (end = at; end < window->end && is_hole(vm, span, end);) {
            end += vm->granule;
        }
        if (end > at) {
            status = claim(pool, move, at, (end - at) >> vm->granule_shift, lane, NULL);
        }
    }
    return status;
}

/* Claims so many of the idle granules that were found last, from the smallest runs. Each run is claimed by one call. A
 * range that the call cuts may join a neighbour with a later tick, and that neighbour is in no run: runs are maximal. */
static weir_status claim_idle(weir_pool *pool, struct vm_move *move, uint64_t granules)
{
    const struct vm_scratch *scratch = &pool->vm->scratch;
    const weir_tick *limits = weir__order_limits_locked(pool, NULL);
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < scratch->run_count && granules > 0 && status == WEIR_OK; i++) {
        const struct vm_run *run = &scratch->runs[i];
        const uint64_t take = run->granules < granules ? run->granules : granules;
        const uint64_t skipped = run->hole_below ? 0 : run->granules - take;
        status = claim(pool, move, run->address + skipped * pool->vm->granule, take, run->lane, limits);
        granules -= take;
    }
    return status;
}

/* Room in the arrays of a move of that many granules, and spare handles in case it fails. */
static bool prepare_move(struct pool_vm *vm, uint64_t holes, uint64_t victims, uint64_t creates)
{
    struct vm_move *move = &vm->move;
    move->holes = 0;
    move->victims = 0;
    move->creates = creates;
    move->in_hand = vm->spares;
    move->counts = (struct vm_counts){ 0 };
    return reserve_array((void **)&move->steps, holes + victims, &vm->step_capacity, sizeof(*move->steps)) &&
           reserve_array((void **)&vm->tokens, holes + victims, &vm->token_capacity, sizeof(*vm->tokens)) &&
           reserve_array((void **)&move->handles, vm->spares + holes + victims + creates, &vm->handle_capacity,
                         sizeof(*move->handles));
}

/* --- growing --- */

/* Pool lock held on entry and exit, let go for the calls, by the thread that grows. Releases the refused reservations until
 * the device refuses one. */
static void release_refused(weir_pool *pool)
{
    struct pool_vm *vm = pool->vm;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && vm->refused != NULL) {
        struct vm_refused *refused = vm->refused;
        pool_unlock(pool);
        status = weir_device_vm_release(pool->device, refused->address, refused->size);
        pool_lock(pool);
        if (status == WEIR_OK) {
            vm->refused = refused->next;
            free(refused);
        } else {
            pool->device_failures++;
        }
    }
}

/* Pool lock held on entry and exit, let go for the calls. A span of addresses with a window for the request. */
static bool add_span(struct request *request)
{
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    const weir_device_info *info = weir__device_info(pool->device);
    const uint64_t limit = pool->config.limit_bytes;
    const uint64_t most_bytes = (uint64_t)span_most_granules << vm->granule_shift;
    uint64_t most = info->capacity_bytes != 0 && (limit == 0 || info->capacity_bytes < limit) ? info->capacity_bytes : limit;
    const uint64_t least = round_up(request->size, vm->granule) + (request->align > vm->granule ? request->align : 0);
    uint64_t size = most == 0                          ? (uint64_t)span_unknown_granules << vm->granule_shift
                    : most > most_bytes / span_factor ? most_bytes
                                                      : round_up(most * span_factor, vm->granule);
    size = size < least ? least : size;
    /* A granule larger than a page begins where it likes in what the device reserves. */
    const uint64_t extra = vm->granule - info->page_bytes;
    uint64_t address = 0;
    uint64_t failures = 0;
    struct vm_span *span = NULL;
    /* Made before the reservation, so that the reservation cannot be lost. */
    struct vm_refused *refused = malloc(sizeof(*refused));
    if (refused == NULL) {
        request->broken = WEIR_ERR_NO_MEMORY;
        return false;
    }
    pool_unlock(pool);
    weir_status status = weir_device_vm_reserve(pool->device, size + extra, &address);
    while (status != WEIR_OK && size > least) {
        failures++;
        size = round_up(size / 2, vm->granule) > least ? round_up(size / 2, vm->granule) : least;
        status = weir_device_vm_reserve(pool->device, size + extra, &address);
    }
    failures += status != WEIR_OK;
    if (status == WEIR_OK) {
        span = malloc(sizeof(*span) + (size >> vm->granule_shift) * sizeof(span->granules[0]));
    }
    pool_lock(pool);
    pool->device_failures += failures;
    if (status != WEIR_OK) {
        free(refused);
        request->device_status = status;
        request->region_asked = size;
        request->limited = false;
        return false;
    }
    void *handle = NULL;
    const uint64_t start = round_up(address, vm->granule);
    if (span == NULL || pool->strategy->region_add(pool->state, start, size, 0, WEIR_LANE_UNMAPPED, 0, &handle) != WEIR_OK) {
        free(span);
        *refused = (struct vm_refused){ .next = vm->refused, .address = address, .size = size + extra };
        vm->refused = refused;
        release_refused(pool);
        request->broken = WEIR_ERR_NO_MEMORY;
        return false;
    }
    free(refused);
    *span = (struct vm_span){
        .address = start, .size = size, .reserved_address = address, .reserved_size = size + extra };
    struct vm_span **link = &vm->spans;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = span;
    return true;
}

/* Granules that may be added before `bytes` are reserved; 0 bytes: any number. */
static uint64_t room_below(const weir_pool *pool, uint64_t bytes)
{
    return bytes == 0                       ? UINT64_MAX
           : bytes > pool->reserved_bytes ? (bytes - pool->reserved_bytes) >> pool->vm->granule_shift
                                            : 0;
}

/* What may be reserved before idle memory is moved. */
static uint64_t budget(const struct request *request, uint64_t live)
{
    const weir_pool *pool = request->pool;
    if ((pool->config.flags & WEIR_POOL_KEEP_IDLE_REGIONS) != 0) {
        return 0; /* no bound */
    }
    const uint64_t peak = pool->peak_live > 0 ? (uint64_t)pool->peak_live : 0;
    const uint64_t most = live + request->size > peak ? live + request->size : peak;
    const uint64_t share = pool->config.vm_spare_share != 0 ? pool->config.vm_spare_share : spare_share;
    const uint64_t spare = (uint64_t)spare_granules << pool->vm->granule_shift;
    const uint64_t bytes = pool->config.vm_spare_bytes != 0 ? pool->config.vm_spare_bytes : SPARE_BYTES;
    return most + most / share + (spare > bytes ? spare : bytes);
}

/* How the granules of a window would be had. */
struct vm_plan {
    struct vm_window window;
    uint64_t creates;
    uint64_t victims; /* idle granules that move */
};

/* Granules that may be created: at all, by the limit and by the device; and before idle ones move. */
struct vm_room {
    uint64_t by_limit;
    uint64_t by_device;
    uint64_t cheap;
};

static struct vm_room room_for(const struct request *request, uint64_t live)
{
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

/* Pool lock held: spares first, then what is cheap, then idle granules, then more; false without host memory. */
static bool weigh(struct request *request, const struct vm_room *room, struct vm_plan *plan)
{
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    const uint64_t need = plan->window.need > vm->spares ? plan->window.need - vm->spares : 0;
    plan->creates = need < room->cheap ? need : room->cheap;
    plan->victims = 0;
    if (plan->creates < need) {
        const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
        uint64_t idle = 0;
        if (weir__vm_find_idle(&vm->scratch, &view, &plan->window, &idle) != WEIR_OK) {
            request->broken = WEIR_ERR_NO_MEMORY;
            return false;
        }
        plan->victims = idle < need - plan->creates ? idle : need - plan->creates;
        plan->creates = need - plan->victims;
    }
    return true;
}

static weir_status find_window(struct request *request, bool frugal, struct vm_window *window)
{
    weir_pool *pool = request->pool;
    const struct vm_wish wish = {
        .size = round_up(request->size, pool->granule_mask + 1),
        .align = request->align,
        .last_resort = request->last_resort,
        .frugal = frugal,
    };
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, request->stream));
    const weir_status found = weir__vm_find_window(&pool->vm->scratch, &view, &wish, window);
    request->broken = found == WEIR_ERR_NO_MEMORY ? found : request->broken;
    return found;
}

/* Pool lock held: the best window; where idle granules are too few for it, the frugal one if that saves any. False:
 * refused. */
static bool make_plan(struct request *request, uint64_t live, struct vm_plan *plan)
{
    const struct vm_room room = room_for(request, live);
    if (!weigh(request, &room, plan)) {
        return false;
    }
    if (plan->creates > room.cheap) {
        struct vm_plan frugal = { .creates = 0 };
        if (find_window(request, true, &frugal.window) != WEIR_OK || !weigh(request, &room, &frugal)) {
            return false;
        }
        *plan = frugal.creates < plan->creates ? frugal : *plan;
    }
    request->region_asked = plan->window.need << request->pool->vm->granule_shift;
    request->limited = plan->creates > room.by_limit && room.by_limit <= room.by_device;
    return plan->creates <= room.by_limit && plan->creates <= room.by_device;
}

/* Pool lock held: takes all granules of the plan from the strategy. False: no host memory. */
static bool claim_plan(struct request *request, const struct vm_plan *plan)
{
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
    uint64_t idle = 0;
    weir_status status = plan->victims == 0 ? WEIR_OK : weir__vm_find_idle(&vm->scratch, &view, &plan->window, &idle);
    if (!prepare_move(vm, plan->window.need, plan->victims, plan->creates)) {
        status = WEIR_ERR_NO_MEMORY;
    }
    status = status == WEIR_OK ? claim_holes(pool, &vm->move, &plan->window, request->stream->lane) : status;
    status = status == WEIR_OK && plan->victims > 0 ? claim_idle(pool, &vm->move, plan->victims) : status;
    if (status != WEIR_OK) {
        settle_move(pool, &vm->move);
        request->broken = status;
        return false;
    }
    vm->move.counts.moved = plan->victims;
    return true;
}

/* Pool lock held on entry and exit, let go for the device. True when the memory is there. */
static bool carry_out(struct request *request)
{
    weir_pool *pool = request->pool;
    struct vm_move *move = &pool->vm->move;
    pool_unlock(pool);
    const uint64_t began = wall_ns();
    const weir_status status = move_memory(pool, move);
    const uint64_t took = wall_ns() - began;
    pool_lock(pool);
    pool->device_ns += took;
    if (status != WEIR_OK) {
        const bool refused = move->counts.creates < move->creates; /* else it was no create that failed */
        const uint64_t reached = pool->reserved_bytes + (move->counts.creates << pool->vm->granule_shift);
        request->ceiling = refused ? reached : request->ceiling;
        move->counts.moved = 0;
    }
    settle_move(pool, move);
    request->device_status = status;
    return status == WEIR_OK;
}

/* Pool lock held: from what is free now. */
static bool serve(struct request *request, weir_rung rung)
{
    weir_pool *pool = request->pool;
    const bool served = weir__order_take_locked(request, request->stream->lane, WEIR_TICK_MAX) ||
                        (request->broken == WEIR_OK && weir__order_join_locked(request));
    pool->served[rung] += served;
    return served;
}

/* What no moving about can serve is refused without a call. */
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

/* Pool lock held on entry and exit; this thread is the one that grows. A device that refuses to create has said how much
 * it gives: the second plan moves idle memory instead. */
static bool map_and_serve(struct request *request, uint64_t live)
{
    weir_rung rung = WEIR_RUNG_MAPPED;
    if (is_hopeless(request)) {
        return false;
    }
    for (int tries = 0; tries < most_tries && request->broken == WEIR_OK; tries++) {
        if (serve(request, rung)) {
            return true;
        }
        struct vm_plan plan = { .creates = 0 };
        const weir_status found = find_window(request, false, &plan.window);
        if (found == WEIR_ERR_LIMIT ? !add_span(request) : found != WEIR_OK) {
            return false;
        }
        if (plan.window.need == 0) {
            continue; /* a new span; or something has become free meanwhile */
        }
        const uint64_t before = request->ceiling;
        if (!make_plan(request, live, &plan) || !claim_plan(request, &plan)) {
            return false;
        }
        rung = plan.victims > 0 ? WEIR_RUNG_REMAPPED : WEIR_RUNG_MAPPED;
        if (!carry_out(request) && request->ceiling == before) {
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
    pool->growing = true;
    const bool served = map_and_serve(request, live);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    return served;
}

/* --- giving back --- */

/* Pool lock held: claims the idle granules that go back. *spares: the spare handles that stay. */
static weir_status plan_return(weir_pool *pool, uint64_t keep, size_t *spares)
{
    struct pool_vm *vm = pool->vm;
    const uint64_t surplus = (pool->reserved_bytes - keep + vm->granule - 1) >> vm->granule_shift;
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
    uint64_t victims = 0;
    weir_status status = weir__vm_find_idle(&vm->scratch, &view, NULL, &victims);
    if (status != WEIR_OK) {
        return status;
    }
    *spares = vm->spares > surplus ? vm->spares - (size_t)surplus : 0;
    victims = surplus <= vm->spares ? 0 : victims < surplus - vm->spares ? victims : surplus - vm->spares;
    status = prepare_move(vm, 0, victims, 0) ? claim_idle(pool, &vm->move, victims) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        settle_move(pool, &vm->move);
    }
    return status;
}

static uint64_t vm_give_back(weir_pool *pool, uint64_t keep, weir_status *failed)
{
    uint64_t returned = 0;
    size_t spares = 0;
    weir_status status = WEIR_OK;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    if (pool->vm->refused != NULL) {
        pool->growing = true;
        release_refused(pool);
        weir__region_end_growing_locked(pool);
    }
    if (pool->reserved_bytes > keep) {
        pool->growing = true;
        status = plan_return(pool, keep, &spares);
        if (status == WEIR_OK) {
            pool_unlock(pool);
            const uint64_t began = wall_ns();
            status = give_back(pool, &pool->vm->move, spares);
            const uint64_t took = wall_ns() - began;
            pool_lock(pool);
            pool->device_ns += took;
            returned = pool->vm->move.counts.destroys << pool->vm->granule_shift;
            settle_move(pool, &pool->vm->move);
        }
        weir__region_end_growing_locked(pool);
    }
    pool_unlock(pool);
    if (status != WEIR_OK) {
        *failed = status;
    }
    return returned;
}

/* --- the end --- */

static void return_span(weir_pool *pool, struct vm_span *span, weir_status *first)
{
    const struct pool_vm *vm = pool->vm;
    for (uint64_t i = 0; i < span->used; i++) {
        const uint64_t address = span->address + (i << vm->granule_shift);
        const weir_vm_handle handle = span->granules[i].handle;
        if (handle != 0) {
            weir__watch_taken(pool, address, vm->granule);
            keep_first(first, TWICE(weir_device_vm_unmap(pool->device, address, vm->granule)));
            keep_first(first, TWICE(weir_device_vm_destroy(pool->device, handle)));
        }
    }
    keep_first(first, TWICE(weir_device_vm_release(pool->device, span->reserved_address, span->reserved_size)));
}

static void vm_return_all(weir_pool *pool, weir_status *first)
{
    struct pool_vm *vm = pool->vm;
    for (size_t i = 0; i < vm->spares; i++) {
        keep_first(first, TWICE(weir_device_vm_destroy(pool->device, vm->move.handles[i])));
    }
    for (struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        return_span(pool, span, first);
    }
    for (const struct vm_refused *refused = vm->refused; refused != NULL; refused = refused->next) {
        keep_first(first, TWICE(weir_device_vm_release(pool->device, refused->address, refused->size)));
    }
}

/* Growing moves idle memory by itself. */
static bool vm_exchange(struct request *request)
{
    (void)weir__order_poll(request->pool);
    return vm_grow(request);
}

const struct memory_ops weir__vm_memory = {
    .grow = vm_grow,
    .exchange = vm_exchange,
    .give_back = vm_give_back,
    .return_all = vm_return_all,
    .fini = vm_fini,
};
