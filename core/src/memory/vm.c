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
 * request rounded up to granules, exceed the limit or the memory that the device gives. (vm_window.h: the frugal window
 * has no more granules of its own than that; all other granules may be moved into it; the rest is created.) The
 * guarantee needs addresses: if no span has a window left, another span is reserved.
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
 * Cost: a walk around the strategy's holes, one or two walks over all its ranges if memory moves, and two device calls
 * per handle. One thread at a time.
 */
#include "order/order.h"
#include "vm_window.h"

#include <inttypes.h>

#include <stdlib.h>

/* Bytes that may be reserved before idle memory is moved, unless the config says otherwise: 1/24 more than was ever
 * live at once, plus 6 MiB (or three granules, if that is more). The documented bound is 1/20 and 8 MiB. */
enum { spare_share = 24, spare_granules = 3 };
#define SPARE_BYTES (UINT64_C(6) << 20)

/* The largest handle, unless the config says otherwise; and the fewest granules for which one handle is made. In a
 * small pool, memory that other requests cannot share costs more than device calls do. */
#define HANDLE_BYTES (UINT64_C(512) << 20)
#define SMALL_POOL_BYTES (UINT64_C(256) << 20)
enum { least_granules = 2, least_granules_small = 8, churn_share = 4 };

/* A span is span_factor times the memory that may be reserved, and has at most span_most_granules unless a single
 * request needs more. */
enum { span_factor = 4, span_most_granules = 1 << 19, span_unknown_granules = 1 << 17 };

/* How often a request maps memory that other threads take before it. */
enum { most_tries = 16 };

/* One granule of a span. handle 0: a hole, which the strategy has in its unmapped lane. Otherwise the granule is number
 * `at` of the `of` granules that the handle has memory for. While `token` is set, the granule is claimed by the thread
 * that grows, and only that thread may read the other fields. */
struct vm_granule {
    weir_vm_handle handle;
    void *token;
    uint32_t at;
    uint32_t of;
};

/* [address, address + size) is the strategy's region. The reserved addresses may be larger, so that granules larger
 * than a page can be aligned. */
struct vm_span {
    struct vm_span *next;
    uint64_t address;
    uint64_t size;
    uint64_t reserved_address;
    uint64_t reserved_size;
    uint64_t used;                /* no granule from this index on has ever had memory */
    struct vm_granule granules[]; /* not written from `used` on, so that the unused part does not become resident */
};

/* A handle and how many granules it has memory for. */
struct vm_memory {
    weir_vm_handle handle;
    uint64_t granules;
    bool wanted; /* true: it will be mapped in a hole */
};

/* The place of one handle in a move. `handle` is the handle mapped there now, while the move proceeds. */
struct vm_step {
    struct vm_granule *granule; /* the first of `granules` */
    uint64_t address;
    uint64_t granules;
    weir_vm_handle handle;
    weir_lane lane; /* lane of the memory if it is mapped when the move is settled */
    bool create;    /* a hole for which memory is created */
    bool wanted;    /* a victim that gives its memory to a hole */
};

struct vm_counts {
    uint64_t creates;
    uint64_t destroys;
    uint64_t maps;
    uint64_t unmaps;
    uint64_t failures;
    uint64_t created; /* counted in granules, as are the next two */
    uint64_t destroyed;
    uint64_t moved;
};

/* A move of memory. memory[0 .. in_hand) are the handles that are mapped nowhere. */
struct vm_move {
    struct vm_step *hole; /* places to be mapped */
    size_t holes;
    struct vm_step *victim; /* places to be unmapped for them */
    size_t victims;
    struct vm_memory *memory;
    size_t in_hand;
    uint64_t least; /* the fewest granules of a new handle that has more than one */
    uint64_t largest;
    uint64_t creates;   /* granules to be created */
    uint64_t destroys;  /* granules to be destroyed before creating, so that no more is reserved than planned */
    uint64_t made_room; /* granules destroyed before any was created */
    struct vm_counts counts;
};

/* A reservation for which the strategy had no host memory. Kept until the device takes it back. */
struct vm_refused {
    struct vm_refused *next;
    uint64_t address;
    uint64_t size;
};

/* Invariant: reserved bytes of the pool / granule = granules with a handle and without a token + moving +
 * spare_granules. Only the thread that grows may read scratch, move, and the handles of claimed granules. */
struct pool_vm {
    uint64_t granule; /* bytes */
    uint64_t largest; /* granules of the largest handle */
    uint64_t likes;   /* granules of the largest new handle now */
    uint64_t churn;   /* granules that have moved since `likes` last changed */
    unsigned granule_shift;
    bool walks_holes;      /* the strategy has walk_holes */
    bool walks_free;       /* the strategy has walk_free */
    struct vm_span *spans; /* in the order of their reservation */
    struct vm_refused *refused;
    size_t spares;           /* the first handles of move.memory, while no thread moves memory */
    uint64_t spare_granules; /* granules of the spare handles */
    uint64_t moving;         /* claimed granules that had memory */
    void **tokens;           /* scratch for one claim */
    size_t hole_capacity;
    size_t victim_capacity;
    size_t token_capacity;
    size_t memory_capacity;
    struct vm_move move;
    struct vm_scratch scratch;
    struct vm_counts counts;
};

/* --- life --- */

weir_status weir__vm_init(weir_pool *pool)
{
    const weir_device_info *info = weir__device_info(pool->device);
    const weir_strategy_ops *strategy = pool->strategy;
    const bool claims = strategy->struct_size >= offsetof(weir_strategy_ops, claim) + sizeof(strategy->claim) &&
                        strategy->claim != NULL;
    const uint64_t granule = info->page_bytes;
    if ((info->abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0 || granule == 0) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_pool_create: device \"%s\" has no virtual memory", info->name);
    }
    if (!claims || (strategy->flags & (WEIR_STRATEGY_PRIVATE_LANES | WEIR_STRATEGY_RETURNS_REGIONS)) != 0) {
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
    pool->vm->likes = pool->vm->largest;
    pool->vm->walks_holes =
        strategy->struct_size >= offsetof(weir_strategy_ops, walk_holes) + sizeof(strategy->walk_holes);
    pool->vm->walks_free =
        strategy->struct_size >= offsetof(weir_strategy_ops, walk_free) + sizeof(strategy->walk_free) &&
        strategy->walk_free != NULL;
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
    free(vm->move.hole);
    free(vm->move.victim);
    free(vm->move.memory);
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

/* Returns NULL for a granule that has never had memory. */
static struct vm_granule *granule_at(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const uint64_t number = (address - span->address) >> vm->granule_shift;
    return number < span->used ? &span->granules[number] : NULL;
}

static struct vm_granule *use_granule(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const uint64_t number = (address - span->address) >> vm->granule_shift;
    for (; span->used <= number; span->used++) {
        span->granules[span->used] = (struct vm_granule){0};
    }
    return &span->granules[number];
}

bool weir__vm_moves_locked(const weir_pool *pool, const weir_range_info *range)
{
    struct vm_span *span = span_of(pool->vm, range->address);
    const struct vm_granule *granule = span != NULL ? granule_at(pool->vm, span, range->address) : NULL;
    return granule != NULL && range->size == pool->vm->granule && range->token != NULL &&
           granule->token == range->token;
}

/* Returns the granules [*start, *end) of the handle that has memory for the granule at `address`. */
static void handle_bounds(const struct pool_vm *vm, const struct vm_granule *granule, uint64_t address, uint64_t *start,
                          uint64_t *end)
{
    const uint64_t first = address & ~(vm->granule - 1);
    *start = first - ((uint64_t)granule->at << vm->granule_shift);
    *end = *start + ((uint64_t)granule->of << vm->granule_shift);
}

/* See struct vm_view. Returns false if no handle of several granules has memory at `address`. */
static bool find_handle(const void *ctx, uint64_t address, uint64_t *start, uint64_t *end)
{
    const struct pool_vm *vm = ctx;
    struct vm_span *span = span_of(vm, address);
    const struct vm_granule *granule = span != NULL ? granule_at(vm, span, address) : NULL;
    if (granule == NULL || granule->handle == 0 || granule->of < 2) {
        return false;
    }
    handle_bounds(vm, granule, address, start, end);
    return true;
}

static bool vm_fits(const weir_pool *pool, uint64_t address, uint64_t size)
{
    const struct pool_vm *vm = pool->vm;
    const uint64_t end = address + size;
    const uint64_t into = address & (vm->granule - 1); /* bytes of the first granule that lie below `address` */
    struct vm_span *span = span_of(vm, address);
    const struct vm_granule *first = granule_at(vm, span, address);
    const struct vm_granule *last = granule_at(vm, span, end - 1);
    if (first->of > 1 && (first->at != 0 || into != 0)) {
        return false;
    }
    return last->of <= 1 || (last->at + 1u == last->of && (end & (vm->granule - 1)) == 0 && last->at <= last - first);
}

uint64_t weir__vm_granule(const weir_pool *pool)
{
    return pool->vm->granule;
}

void weir__vm_each_handle_locked(const weir_pool *pool, void (*visit)(void *ctx, uint64_t address, uint64_t size),
                                 void *ctx)
{
    const struct pool_vm *vm = pool->vm;
    for (const struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        for (uint64_t i = 0; i < span->used; i++) {
            if (span->granules[i].handle != 0 && span->granules[i].at == 0) {
                visit(ctx, span->address + (i << vm->granule_shift),
                      (uint64_t)span->granules[i].of << vm->granule_shift);
            }
        }
    }
}

/* True if the granules of each handle are adjacent and in order. */
static bool handles_are_whole(const struct vm_span *span)
{
    for (uint64_t i = 0; i < span->used; i++) {
        const struct vm_granule *granule = &span->granules[i];
        if (granule->handle == 0 || granule->token != NULL) {
            continue;
        }
        const struct vm_granule *first = granule - (granule->at <= i ? granule->at : i);
        if (granule->at > i || granule->at >= granule->of || first->of != granule->of ||
            first->handle != granule->handle || granule->of > span->used - (i - granule->at)) {
            return false;
        }
    }
    return true;
}

struct hole_check {
    const weir_pool *pool;
    const struct pool_vm *vm;
    bool broken;
    bool shared; /* a block has a part of a large handle's memory */
};

static bool see_hole(void *ctx, const weir_range_info *range)
{
    struct hole_check *check = ctx;
    const struct pool_vm *vm = check->vm;
    if (range->taken || range->lane != WEIR_LANE_UNMAPPED) {
        check->shared |= range->taken && !weir__vm_moves_locked(check->pool, range) &&
                         !vm_fits(check->pool, range->address, range->size);
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
        if (!handles_are_whole(span)) {
            return "a handle has memory for other granules than the books say";
        }
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
    if ((mapped + vm->moving + vm->spare_granules) << vm->granule_shift != pool->held.bytes) {
        return "reserved bytes and granules differ";
    }
    struct hole_check check = {.pool = pool, .vm = vm};
    pool->strategy->walk(pool->state, see_hole, &check);
    return check.broken   ? "a range without memory lies where memory is mapped"
           : check.shared ? "a block has a part of a handle that is larger than a granule"
                          : NULL;
}

void weir__vm_add_stats_locked(const weir_pool *pool, weir_pool_stats *stats)
{
    const struct vm_counts *counts = &pool->vm->counts;
    stats->vm_creates = counts->creates;
    stats->vm_destroys = counts->destroys;
    stats->vm_maps = counts->maps;
    stats->vm_unmaps = counts->unmaps;
    stats->vm_moved_bytes = counts->moved << pool->vm->granule_shift;
}

/* Returns the fewest granules for which one handle is made. */
static uint64_t least_of_handle(const weir_pool *pool)
{
    return pool->held.bytes < SMALL_POOL_BYTES && pool->config.vm_handle_bytes == 0 ? least_granules_small
                                                                                    : least_granules;
}

static struct vm_view view_of(const weir_pool *pool, const weir_tick *limits)
{
    return (struct vm_view){
        .strategy = pool->strategy,
        .walk_holes = pool->vm->walks_holes ? pool->strategy->walk_holes : NULL,
        .walk_free = pool->vm->walks_free ? pool->strategy->walk_free : NULL,
        .state = pool->state,
        .limits = limits,
        .lanes = pool->lanes,
        .granule = pool->vm->granule,
        .least = least_of_handle(pool),
        .find_handle = find_handle,
        .handles = pool->vm,
    };
}

/* --- device calls of a move: no lock held --- */

static weir_status count(struct vm_move *move, weir_status status, uint64_t *counter)
{
    *counter += status == WEIR_OK;
    move->counts.failures += status != WEIR_OK;
    return status;
}

static weir_status create_one(weir_pool *pool, struct vm_move *move, uint64_t granules)
{
    weir_vm_handle handle = 0;
    const weir_status status = count(
        move, weir_device_vm_create(pool->device, granules << pool->vm->granule_shift, &handle), &move->counts.creates);
    if (status == WEIR_OK) {
        move->memory[move->in_hand++] = (struct vm_memory){handle, granules, true};
        move->counts.created += granules;
    }
    return status;
}

static struct vm_memory take_out(struct vm_move *move, size_t number)
{
    const struct vm_memory memory = move->memory[number];
    move->memory[number] = move->memory[--move->in_hand];
    return memory;
}

static weir_status destroy_one(weir_pool *pool, struct vm_move *move, size_t number)
{
    const weir_status status =
        count(move, weir_device_vm_destroy(pool->device, move->memory[number].handle), &move->counts.destroys);
    if (status == WEIR_OK) {
        move->counts.destroyed += take_out(move, number).granules;
    }
    return status;
}

/* Returns the index of the last handle in hand that has memory for `granules` granules, or in_hand if there is none. */
static size_t in_hand_of(const struct vm_move *move, uint64_t granules)
{
    for (size_t i = move->in_hand; i-- > 0;) {
        if (move->memory[i].granules == granules) {
            return i;
        }
    }
    return move->in_hand;
}

/* Maps a handle in hand of the step's size, which must exist. */
static weir_status map_one(weir_pool *pool, struct vm_move *move, struct vm_step *step)
{
    const size_t number = in_hand_of(move, step->granules);
    const weir_vm_handle handle = move->memory[number].handle;
    const uint64_t size = step->granules << pool->vm->granule_shift;
    const weir_status status =
        count(move, weir_device_vm_map(pool->device, step->address, size, handle), &move->counts.maps);
    if (status == WEIR_OK) {
        weir__watch_given(pool, step->address, size);
        step->handle = handle;
        (void)take_out(move, number);
    }
    return status;
}

static weir_status unmap_one(weir_pool *pool, struct vm_move *move, struct vm_step *step)
{
    const uint64_t size = step->granules << pool->vm->granule_shift;
    weir__watch_taken(pool, step->address, size);
    const weir_status status =
        count(move, weir_device_vm_unmap(pool->device, step->address, size), &move->counts.unmaps);
    if (status == WEIR_OK) {
        move->memory[move->in_hand++] = (struct vm_memory){step->handle, step->granules, step->wanted};
        step->handle = 0;
    } else {
        weir__watch_given(pool, step->address, size);
    }
    return status;
}

/* Splits a hole in two. The array has room for a hole per granule. */
static void halve(const struct pool_vm *vm, struct vm_move *move, size_t number)
{
    struct vm_step *low = &move->hole[number];
    struct vm_step *high = &move->hole[move->holes++];
    const uint64_t granules = low->granules / 2;
    *high = *low;
    high->granule += granules;
    high->address += granules << vm->granule_shift;
    high->granules -= granules;
    low->granules = granules;
}

/* Creates the memory for all holes that need it. A device without memory for a handle may have it for half a handle. So
 * the amount of memory that the device has is found out to a granule. */
static weir_status create_all(weir_pool *pool, struct vm_move *move)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < move->holes && status == WEIR_OK; i++) {
        struct vm_step *hole = &move->hole[i];
        status = hole->create ? create_one(pool, move, hole->granules) : WEIR_OK;
        while (status == WEIR_ERR_NO_MEMORY && hole->granules > 1) {
            halve(pool->vm, move, i);
            status = create_one(pool, move, hole->granules);
        }
    }
    return status;
}

static weir_status unmap_all(weir_pool *pool, struct vm_move *move)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < move->victims && status == WEIR_OK; i++) {
        status = unmap_one(pool, move, &move->victim[i]);
    }
    return status;
}

static weir_status map_all(weir_pool *pool, struct vm_move *move)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < move->holes && status == WEIR_OK; i++) {
        status = map_one(pool, move, &move->hole[i]);
    }
    return status;
}

/* Destroys handles that no hole wants, until there is room for the memory to be created. Stops if the device
 * refuses. */
static weir_status make_room(weir_pool *pool, struct vm_move *move)
{
    weir_status status = WEIR_OK;
    for (size_t i = move->in_hand; i-- > 0 && status == WEIR_OK && move->made_room < move->destroys;) {
        const struct vm_memory memory = move->memory[i];
        if (!memory.wanted) {
            status = destroy_one(pool, move, i);
            move->made_room += status == WEIR_OK ? memory.granules : 0;
        }
    }
    return status;
}

/* Destroys handles in hand until `spares` are left. Stops if the device refuses. */
static weir_status drop_surplus(weir_pool *pool, struct vm_move *move, size_t spares)
{
    weir_status status = WEIR_OK;
    while (move->in_hand > spares && status == WEIR_OK) {
        status = destroy_one(pool, move, move->in_hand - 1);
    }
    return status;
}

/* Reverses the steps done so far. A step that cannot be reversed stays as it is. Destroyed memory is not created
 * again. */
static void undo(weir_pool *pool, struct vm_move *move)
{
    weir_status ignored = WEIR_OK;
    for (size_t i = move->holes; i-- > 0;) {
        if (move->hole[i].handle != 0) {
            ignored = unmap_one(pool, move, &move->hole[i]);
        }
    }
    for (size_t i = move->victims; i-- > 0;) {
        if (move->victim[i].handle == 0 && in_hand_of(move, move->victim[i].granules) < move->in_hand) {
            ignored = map_one(pool, move, &move->victim[i]);
        }
    }
    ignored = drop_surplus(pool, move, pool->vm->spares);
    (void)ignored;
}

/* Creates the new memory, unmaps the victims and maps all of it into the holes. On failure nothing has changed, except
 * memory that had to be destroyed first. */
static weir_status move_memory(weir_pool *pool, struct vm_move *move)
{
    const bool first = move->destroys == 0; /* create first: a device that refuses then does so before anything moves */
    weir_status status = first ? create_all(pool, move) : WEIR_OK;
    status = status == WEIR_OK ? unmap_all(pool, move) : status;
    status = status == WEIR_OK && !first ? make_room(pool, move) : status;
    status = status == WEIR_OK && !first ? create_all(pool, move) : status;
    status = status == WEIR_OK ? map_all(pool, move) : status;
    if (status != WEIR_OK) {
        undo(pool, move);
    } else {
        (void)drop_surplus(pool, move, 0);
    }
    return status;
}

/* Unmaps the victims for good and destroys handles in hand. Stops if the device refuses. */
static weir_status give_back(weir_pool *pool, struct vm_move *move)
{
    const weir_status status = unmap_all(pool, move);
    const weir_status destroyed = make_room(pool, move);
    return status != WEIR_OK ? status : destroyed;
}

/* --- claiming and settling: pool lock held --- */

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
    for (uint64_t i = 0; i < step->granules; i++) {
        struct vm_granule *granule = &step->granule[i];
        void *token = granule->token;
        *granule = (struct vm_granule){.handle = step->handle, .at = (uint32_t)i, .of = (uint32_t)step->granules};
        const weir_lane lane = step->handle != 0 ? step->lane : WEIR_LANE_UNMAPPED;
        pool->strategy->free(pool->state, token, lane, 0);
        weir__lane_note_early_locked(pool, lane, 0);
    }
}

/* Returns every claimed granule to the strategy as memory or as a hole. No work is pending on any granule: tick 0. */
static void settle_move(weir_pool *pool, struct vm_move *move)
{
    struct pool_vm *vm = pool->vm;
    for (size_t i = 0; i < move->holes; i++) {
        settle_step(pool, &move->hole[i]);
    }
    for (size_t i = 0; i < move->victims; i++) {
        settle_step(pool, &move->victim[i]);
    }
    move->holes = 0;
    move->victims = 0;
    vm->spares = move->in_hand;
    vm->spare_granules = 0;
    for (size_t i = 0; i < vm->spares; i++) {
        vm->spare_granules += move->memory[i].granules;
    }
    vm->moving = 0;
    vm->counts.creates += move->counts.creates;
    vm->counts.destroys += move->counts.destroys;
    vm->counts.maps += move->counts.maps;
    vm->counts.unmaps += move->counts.unmaps;
    vm->counts.moved += move->counts.moved;
    pool->counts.device_failures += move->counts.failures;
    /* One call for both: above a limit that was lowered, memory that replaces other memory is no growth. */
    weir__region_count_locked(pool, move->counts.created << vm->granule_shift,
                              move->counts.destroyed << vm->granule_shift);
    move->counts = (struct vm_counts){0};
    move->made_room = 0;
}

/* Takes adjacent granules from the strategy. `limits` NULL: holes. */
static weir_status claim(weir_pool *pool, uint64_t address, uint64_t granules, const weir_tick *limits)
{
    struct pool_vm *vm = pool->vm;
    const weir_status status =
        pool->strategy->claim(pool->state, address, vm->granule, granules, limits, pool->lanes, vm->tokens);
    if (status != WEIR_OK) {
        return status;
    }
    struct vm_span *span = span_of(vm, address);
    for (uint64_t i = 0; i < granules; i++, address += vm->granule) {
        use_granule(vm, span, address)->token = vm->tokens[i];
    }
    return WEIR_OK;
}

static bool is_hole(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const struct vm_granule *granule = granule_at(vm, span, address);
    return granule == NULL || granule->handle == 0;
}

/* Adds a step for a claimed hole: memory that is taken elsewhere, or created. */
static void fill(struct pool_vm *vm, uint64_t address, uint64_t granules, weir_lane lane, bool create)
{
    struct vm_move *move = &vm->move;
    move->hole[move->holes++] = (struct vm_step){
        .granule = use_granule(vm, span_of(vm, address), address),
        .address = address,
        .granules = granules,
        .lane = lane,
        .create = create,
    };
    move->creates += create ? granules : 0;
}

/* True if memory of `granules` granules may fill a hole of `left`, on the pass for single or for large handles. A
 * handle larger than a new one may be is not mapped again: it is destroyed, and the hole gets new handles. */
static bool suits(const struct vm_move *move, uint64_t granules, uint64_t left, bool single)
{
    return granules <= left && granules <= move->largest && (granules == 1) == single;
}

/* Fills a run of claimed holes: first with handles in hand or taken, the large ones first, then with new handles.
 * `singly`: with handles of one granule only. */
static void fill_run(struct pool_vm *vm, uint64_t address, uint64_t end, weir_lane lane, bool singly)
{
    struct vm_move *move = &vm->move;
    for (int single = singly; single < 2; single++) {
        for (size_t i = 0; i < vm->spares && address < end; i++) {
            struct vm_memory *memory = &move->memory[i];
            if (!memory->wanted && suits(move, memory->granules, (end - address) >> vm->granule_shift, single)) {
                memory->wanted = true;
                fill(vm, address, memory->granules, lane, false);
                address += memory->granules << vm->granule_shift;
            }
        }
        for (size_t i = 0; i < move->victims && address < end; i++) {
            struct vm_step *victim = &move->victim[i];
            if (!victim->wanted && suits(move, victim->granules, (end - address) >> vm->granule_shift, single)) {
                victim->wanted = true;
                move->counts.moved += victim->granules;
                fill(vm, address, victim->granules, lane, false);
                address += victim->granules << vm->granule_shift;
            }
        }
    }
    while (address < end) {
        const uint64_t left = (end - address) >> vm->granule_shift;
        const uint64_t granules = singly || left < move->least ? 1 : left < move->largest ? left : move->largest;
        fill(vm, address, granules, lane, true);
        address += granules << vm->granule_shift;
    }
}

/* Chooses the sizes of new handles. If request sizes keep changing, a large handle fits few requests, and memory would
 * move for ever. So each time that a share of the reserved memory has moved, the largest new handle is halved, down to
 * single granules. Larger handles are no longer moved. */
static void choose_sizes(const weir_pool *pool, struct vm_move *move)
{
    struct pool_vm *vm = pool->vm;
    const uint64_t reserved = pool->held.bytes >> vm->granule_shift;
    for (size_t i = 0; i < move->victims; i++) {
        vm->churn += move->victim[i].granules;
    }
    if (reserved == 0) {
        vm->likes = vm->largest;
    } else if (vm->churn > reserved / churn_share && vm->likes > 1) {
        vm->likes /= 2;
        vm->churn = 0;
    }
    move->least = least_of_handle(pool);
    move->largest = vm->likes;
}

/* Claims the holes of a window for the lane, and decides with which handles to fill each hole. */
static weir_status claim_holes(weir_pool *pool, const struct vm_window *window, weir_lane lane)
{
    struct pool_vm *vm = pool->vm;
    struct vm_span *span = span_of(vm, window->first);
    /* The granules that lie wholly in the request. */
    const uint64_t from = round_up(window->address, vm->granule);
    const uint64_t to = (window->address + window->size) & ~(vm->granule - 1);
    choose_sizes(pool, &vm->move);
    weir_status status = WEIR_OK;
    uint64_t end = 0;
    for (uint64_t at = window->first; at < window->end && status == WEIR_OK; at = end + vm->granule) {
        for (end = at; end < window->end && is_hole(vm, span, end);) {
            end += vm->granule;
        }
        status = end > at ? claim(pool, at, (end - at) >> vm->granule_shift, NULL) : WEIR_OK;
        if (end > at && status == WEIR_OK) {
            const uint64_t low = at < from ? from < end ? from : end : at;
            const uint64_t high = end > to ? to > low ? to : low : end;
            fill_run(vm, at, low, lane, true);
            fill_run(vm, low, high, lane, false);
            fill_run(vm, high, end, lane, true);
        }
    }
    return status;
}

/* Returns the whole handles at one end of an idle run that have memory for `granules`, or for as few more as
 * possible. */
static void end_of_run(const struct pool_vm *vm, const struct vm_run *run, uint64_t granules, uint64_t *from,
                       uint64_t *to)
{
    uint64_t start = 0;
    uint64_t end = 0;
    *from = run->address;
    *to = run->address + (run->granules << vm->granule_shift);
    if (granules < run->granules && run->hole_below) {
        *to = *from + (granules << vm->granule_shift);
        *to = find_handle(vm, *to - vm->granule, &start, &end) ? end : *to;
    } else if (granules < run->granules) {
        *from = *to - (granules << vm->granule_shift);
        *from = find_handle(vm, *from, &start, &end) ? start : *from;
    }
}

/* Claims `granules` of the idle granules that were found last, from the cheapest runs, in whole handles. A range that a
 * claim cuts may join a neighbour that is not idle. If that neighbour lay in the next run, the next run is no longer
 * idle either. Returns WEIR_ERR_BUSY if too few granules are left for this reason; a new search finds other
 * granules. */
static weir_status claim_idle(weir_pool *pool, uint64_t granules)
{
    struct pool_vm *vm = pool->vm;
    struct vm_move *move = &vm->move;
    const struct vm_scratch *scratch = &vm->scratch;
    const weir_tick *limits = weir__order_limits_locked(pool, NULL);
    weir_status status = WEIR_OK;
    bool busy = false;
    for (size_t i = 0; i < scratch->run_count && granules > 0 && status == WEIR_OK; i++) {
        const struct vm_run *run = &scratch->runs[i];
        uint64_t from = 0;
        uint64_t to = 0;
        end_of_run(vm, run, granules, &from, &to);
        status = claim(pool, from, (to - from) >> vm->granule_shift, limits);
        if (status == WEIR_ERR_BUSY) {
            busy = true;
            status = WEIR_OK;
            continue;
        }
        for (uint64_t at = from; at < to && status == WEIR_OK;
             at += move->victim[move->victims++].granules << vm->granule_shift) {
            struct vm_granule *granule = granule_at(vm, span_of(vm, at), at);
            move->victim[move->victims] = (struct vm_step){.granule = granule,
                                                           .address = at,
                                                           .granules = granule->of,
                                                           .handle = granule->handle,
                                                           .lane = run->lane};
            vm->moving += granule->of;
            granules -= granules < granule->of ? granules : granule->of;
        }
    }
    return status == WEIR_OK && busy && granules > 0 ? WEIR_ERR_BUSY : status;
}

/* Makes room in the arrays of a move of that many granules, including the handles that become spare if the move fails.
 * Returns false without host memory. */
static bool prepare_move(struct pool_vm *vm, uint64_t holes, uint64_t victims)
{
    struct vm_move *move = &vm->move;
    const uint64_t most = holes > victims + vm->largest ? holes : victims + vm->largest;
    move->holes = 0;
    move->victims = 0;
    move->creates = 0;
    move->destroys = 0;
    move->in_hand = vm->spares;
    move->made_room = 0;
    move->counts = (struct vm_counts){0};
    for (size_t i = 0; i < vm->spares; i++) {
        move->memory[i].wanted = false;
    }
    return reserve_array((void **)&move->hole, holes, &vm->hole_capacity, sizeof(*move->hole)) &&
           reserve_array((void **)&move->victim, victims, &vm->victim_capacity, sizeof(*move->victim)) &&
           reserve_array((void **)&vm->tokens, most, &vm->token_capacity, sizeof(*vm->tokens)) &&
           reserve_array((void **)&move->memory, vm->spares + holes + victims, &vm->memory_capacity,
                         sizeof(*move->memory));
}

/* --- returning memory --- */

/* Claims the idle granules to return, if the spare handles are too few. Returns WEIR_ERR_BUSY if not all could be
 * claimed. Pool lock held. */
static weir_status plan_return(weir_pool *pool, uint64_t keep)
{
    struct pool_vm *vm = pool->vm;
    const uint64_t surplus = (pool->held.bytes - keep + vm->granule - 1) >> vm->granule_shift;
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
    uint64_t victims = 0;
    weir_status status = weir__vm_find_idle(&vm->scratch, &view, NULL, &victims);
    if (status != WEIR_OK) {
        return status;
    }
    const uint64_t wanted = surplus > vm->spare_granules ? surplus - vm->spare_granules : 0;
    victims = victims < wanted ? victims : wanted;
    status = prepare_move(vm, 0, victims) ? claim_idle(pool, victims) : WEIR_ERR_NO_MEMORY;
    vm->move.destroys = vm->moving + (surplus < vm->spare_granules ? surplus : vm->spare_granules);
    if (status != WEIR_OK && status != WEIR_ERR_BUSY) {
        settle_move(pool, &vm->move);
    }
    return status;
}

/* Returns idle memory to the device until `keep` bytes are reserved. Returns the number of bytes. Pool lock held on
 * entry and exit, released for the device calls; called by the thread that grows. */
static uint64_t return_idle(weir_pool *pool, uint64_t keep, weir_status *status)
{
    struct vm_move *move = &pool->vm->move;
    uint64_t returned = 0;
    bool again = true;
    while (again && pool->held.bytes > keep) {
        *status = plan_return(pool, keep);
        again = *status == WEIR_ERR_BUSY;
        if (*status != WEIR_OK && !again) {
            break;
        }
        pool_unlock(pool);
        const uint64_t began = wall_ns();
        *status = give_back(pool, move);
        const uint64_t took = wall_ns() - began;
        pool_lock(pool);
        pool->counts.device_ns += took;
        returned += move->counts.destroyed << pool->vm->granule_shift;
        settle_move(pool, move);
        again = again && *status == WEIR_OK;
    }
    return returned;
}

/* --- growing --- */

/* Releases the refused reservations until the device refuses one. Pool lock held on entry and exit, released for the
 * device calls; called by the thread that grows. */
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
            pool->counts.device_failures++;
        }
    }
}

/* Reserves a span of addresses with a window for the request. Pool lock held on entry and exit, released for the device
 * calls. */
static bool add_span(struct request *request)
{
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    const weir_device_info *info = weir__device_info(pool->device);
    const uint64_t limit = pool->config.limit_bytes;
    const uint64_t most_bytes = (uint64_t)span_most_granules << vm->granule_shift;
    uint64_t most =
        info->capacity_bytes != 0 && (limit == 0 || info->capacity_bytes < limit) ? info->capacity_bytes : limit;
    const uint64_t least = round_up(request->size, vm->granule) + (request->align > vm->granule ? request->align : 0);
    uint64_t size = most == 0                         ? (uint64_t)span_unknown_granules << vm->granule_shift
                    : most > most_bytes / span_factor ? most_bytes
                                                      : round_up(most * span_factor, vm->granule);
    size = size < least ? least : size;
    /* The device aligns its reservation to a page only, so a larger granule needs extra addresses. */
    const uint64_t extra = vm->granule - info->page_bytes;
    uint64_t address = 0;
    uint64_t failures = 0;
    struct vm_span *span = NULL;
    /* Allocated before the reservation, so that the reservation cannot be lost. */
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
    pool->counts.device_failures += failures;
    if (status != WEIR_OK) {
        free(refused);
        request->device_status = status;
        request->region_asked = size;
        request->limited = false;
        return false;
    }
    void *handle = NULL;
    const uint64_t start = round_up(address, vm->granule);
    if (span == NULL ||
        pool->strategy->region_add(pool->state, start, size, 0, WEIR_LANE_UNMAPPED, 0, &handle) != WEIR_OK) {
        free(span);
        *refused = (struct vm_refused){.next = vm->refused, .address = address, .size = size + extra};
        vm->refused = refused;
        release_refused(pool);
        request->broken = WEIR_ERR_NO_MEMORY;
        return false;
    }
    free(refused);
    *span =
        (struct vm_span){.address = start, .size = size, .reserved_address = address, .reserved_size = size + extra};
    struct vm_span **link = &vm->spans;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = span;
    return true;
}

static weir_status find_window(struct request *request, enum window_kind kind, struct vm_window *window)
{
    weir_pool *pool = request->pool;
    const struct vm_wish wish = {
        .size = round_up(request->size, pool->granule_mask + 1),
        .align = request->align,
        .last_resort = request->last_resort,
        .kind = kind,
    };
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, request->stream));
    const weir_status found = weir__vm_find_window(&pool->vm->scratch, &view, &wish, window);
    request->broken = found == WEIR_ERR_NO_MEMORY ? found : request->broken;
    return found;
}

/* Returns the number of granules that may be added before `bytes` are reserved. 0 bytes: no bound. */
static uint64_t room_below(const weir_pool *pool, uint64_t bytes)
{
    return bytes == 0                 ? UINT64_MAX
           : bytes > pool->held.bytes ? (bytes - pool->held.bytes) >> pool->vm->granule_shift
                                      : 0;
}

/* Returns the bytes that may be reserved before idle memory is moved. */
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

/* How a window gets its granules. */
struct vm_plan {
    struct vm_window window;
    uint64_t creates;
    uint64_t victims; /* idle granules to move */
    bool has_runs;    /* scratch->runs holds the idle granules for this window */
    bool cramped;     /* large handles make every window cost more granules than one that begins at a granule */
};

/* Granules that may be created: under the limit, by the device, and before idle granules are moved. */
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

/* Decides how the window gets its granules: spares first, then cheap creation, then idle granules, then further
 * creation. Returns false without host memory. Pool lock held. */
static bool weigh(struct request *request, const struct vm_room *room, struct vm_plan *plan)
{
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    const uint64_t need = plan->window.need > vm->spare_granules ? plan->window.need - vm->spare_granules : 0;
    plan->creates = need < room->cheap ? need : room->cheap;
    plan->victims = 0;
    if (plan->creates < need) {
        const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
        uint64_t idle = 0;
        if (weir__vm_find_idle(&vm->scratch, &view, &plan->window, &idle) != WEIR_OK) {
            request->broken = WEIR_ERR_NO_MEMORY;
            return false;
        }
        plan->has_runs = true;
        plan->victims = idle < need - plan->creates ? idle : need - plan->creates;
        plan->creates = need - plan->victims;
    }
    return true;
}

/* Plans the best window; if idle granules are too few for it, the frugal window if that creates less. Returns false if
 * the limit or the device forbids the plan. Pool lock held. */
static bool make_plan(struct request *request, uint64_t live, struct vm_plan *plan)
{
    const struct vm_room room = room_for(request, live);
    if (!weigh(request, &room, plan)) {
        return false;
    }
    if (plan->creates > room.cheap) {
        struct vm_plan frugal = {.creates = 0};
        if (find_window(request, WINDOW_FRUGAL, &frugal.window) != WEIR_OK || !weigh(request, &room, &frugal)) {
            return false;
        }
        plan->has_runs = false;
        *plan = frugal.creates < plan->creates ? frugal : *plan;
        plan->cramped =
            frugal.window.own > round_up(request->size, request->pool->vm->granule) >> request->pool->vm->granule_shift;
    }
    request->region_asked = plan->window.need << request->pool->vm->granule_shift;
    request->limited = plan->creates > room.by_limit && room.by_limit <= room.by_device;
    return plan->creates <= room.by_limit && plan->creates <= room.by_device;
}

/* Claims all granules of the plan from the strategy. Returns false on failure, with the claims reversed. Pool lock
 * held. */
static bool claim_plan(struct request *request, const struct vm_plan *plan)
{
    weir_pool *pool = request->pool;
    struct pool_vm *vm = pool->vm;
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
    uint64_t idle = 0;
    weir_status status =
        plan->victims == 0 || plan->has_runs ? WEIR_OK : weir__vm_find_idle(&vm->scratch, &view, &plan->window, &idle);
    if (!prepare_move(vm, plan->window.need, plan->victims)) {
        status = WEIR_ERR_NO_MEMORY;
    }
    status = status == WEIR_OK && plan->victims > 0 ? claim_idle(pool, plan->victims) : status;
    status = status == WEIR_OK ? claim_holes(pool, &plan->window, request->stream->lane) : status;
    if (status != WEIR_OK) {
        settle_move(pool, &vm->move);
        request->broken = status != WEIR_ERR_BUSY ? status : request->broken;
        return false;
    }
    vm->move.destroys = vm->move.creates > plan->creates ? vm->move.creates - plan->creates : 0;
    return true;
}

/* Carries out the claimed plan. Returns true if the memory is mapped. Pool lock held on entry and exit, released for
 * the device calls. */
static bool carry_out(struct request *request)
{
    weir_pool *pool = request->pool;
    struct vm_move *move = &pool->vm->move;
    pool_unlock(pool);
    const uint64_t began = wall_ns();
    const weir_status status = move_memory(pool, move);
    const uint64_t took = wall_ns() - began;
    pool_lock(pool);
    pool->counts.device_ns += took;
    if (status != WEIR_OK) {
        const bool refused = move->counts.created < move->creates && move->made_room >= move->destroys;
        const uint64_t reached =
            pool->held.bytes + ((move->counts.created - move->made_room) << pool->vm->granule_shift);
        request->ceiling = refused ? reached : request->ceiling; /* otherwise the call that failed was not a create */
        move->counts.moved = 0;
    }
    settle_move(pool, move);
    request->device_status = status;
    return status == WEIR_OK;
}

/* Takes a block at the window, all of which has memory that the stream may use. Pool lock held. */
static bool take_window(struct request *request, const struct vm_window *window)
{
    weir_pool *pool = request->pool;
    weir_range range = {.address = window->address, .size = window->size};
    const weir_tick *limits = weir__order_limits_locked(pool, request->stream);
    const weir_status status =
        pool->strategy->claim(pool->state, range.address, range.size, 1, limits, pool->lanes, &range.token);
    if (status != WEIR_OK) {
        request->broken = status == WEIR_ERR_NO_MEMORY ? status : request->broken;
        return false;
    }
    request->block = block_new(pool, &range);
    if (request->block == NULL) {
        pool->strategy->free(pool->state, range.token, request->stream->lane, request->stream->last_free);
        weir__lane_note_early_locked(pool, request->stream->lane, request->stream->last_free);
        request->broken = WEIR_ERR_NO_MEMORY;
    }
    return request->block != NULL;
}

/* True if another lane than the stream's own holds ranges that the stream may be allowed to use. Pool lock held. */
static bool others_hold_any(const struct request *request)
{
    const weir_pool *pool = request->pool;
    for (size_t lane = 0; lane < pool->lanes; lane++) {
        weir_lane_stats stats = WEIR_LANE_STATS_INIT;
        pool->strategy->lane_stats(pool->state, (weir_lane)lane, &stats);
        if (stats.ranges != 0 && lane != request->stream->lane) {
            return true;
        }
    }
    return false;
}

static bool vm_join(struct request *request)
{
    struct vm_window window;
    if (!request->last_resort && !request->parted && !request->pool->vm->walks_free && !others_hold_any(request)) {
        return false; /* alloc has searched all ranges already; walk_free would find that out at no cost */
    }
    if (find_window(request, WINDOW_MAPPED, &window) != WEIR_OK) {
        return false;
    }
    return weir__order_gather_locked(request) || take_window(request, &window);
}

/* Serves the request from memory that is free now. Pool lock held. */
static bool serve(struct request *request, weir_rung rung)
{
    weir_pool *pool = request->pool;
    const bool looks_again = !request->parted || request->last_resort; /* if false, the ladder has just looked at every
                                                                        * range */
    const bool served = weir__order_take_locked(request, request->stream->lane, WEIR_TICK_MAX) ||
                        (request->broken == WEIR_OK && looks_again && vm_join(request));
    pool->counts.served[rung] += served;
    return served;
}

/* True if no move of memory can serve the request; it is then refused without a device call. */
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

/* Last resort: returns all idle memory to the device, which can give it to windows of any bounds. A block may not have
 * a part of a large handle, so an idle large handle can be in the way of the memory that is left. Returns true if there
 * was such a handle and memory was returned. Pool lock held on entry and exit, released for the device calls. */
static bool break_handles(const struct request *request)
{
    weir_pool *pool = request->pool;
    struct vm_scratch *scratch = &pool->vm->scratch;
    const struct vm_view view = view_of(pool, weir__order_limits_locked(pool, NULL));
    uint64_t granules = 0;
    bool any = false;
    if (!request->last_resort || weir__vm_find_idle(scratch, &view, NULL, &granules) != WEIR_OK) {
        return false;
    }
    for (size_t i = 0; i < scratch->run_count; i++) {
        any |= scratch->runs[i].large;
    }
    weir_status status = WEIR_OK;
    return any && return_idle(pool, 0, &status) > 0;
}

/* Maps memory for the request and serves it. A device that refuses to create has shown how much it gives; the next plan
 * then moves idle memory instead. Pool lock held on entry and exit; called by the thread that grows. */
static bool map_and_serve(struct request *request, uint64_t live)
{
    weir_pool *pool = request->pool;
    weir_rung rung = WEIR_RUNG_MAPPED;
    if (is_hopeless(request)) {
        return false;
    }
    for (int tries = 0; tries < most_tries && request->broken == WEIR_OK; tries++) {
        if (serve(request, rung)) {
            return true;
        }
        struct vm_plan plan = {.creates = 0};
        const weir_status found = find_window(request, WINDOW_CHEAP, &plan.window);
        if (found == WEIR_ERR_LIMIT ? !add_span(request) : found != WEIR_OK) {
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
        if (!make_plan(request, live, &plan)) {
            const bool more_room =
                request->broken == WEIR_OK && ((plan.cramped && add_span(request)) || break_handles(request));
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
            if (weir__order_take_locked(request, request->stream->lane, WEIR_TICK_MAX) ||
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

static uint64_t vm_give_back(weir_pool *pool, uint64_t keep, weir_status *failed)
{
    weir_status status = WEIR_OK;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    pool->growth.taken = true;
    release_refused(pool);
    const uint64_t returned = return_idle(pool, keep, &status);
    weir__region_end_growing_locked(pool);
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
        const struct vm_granule *granule = &span->granules[i];
        if (granule->handle != 0 && granule->at == 0) {
            const uint64_t size = (uint64_t)granule->of << vm->granule_shift;
            weir__watch_taken(pool, address, size);
            keep_first(first, TWICE(weir_device_vm_unmap(pool->device, address, size)));
            keep_first(first, TWICE(weir_device_vm_destroy(pool->device, granule->handle)));
        }
    }
    keep_first(first, TWICE(weir_device_vm_release(pool->device, span->reserved_address, span->reserved_size)));
}

static void vm_return_all(weir_pool *pool, weir_status *first)
{
    struct pool_vm *vm = pool->vm;
    for (size_t i = 0; i < vm->spares; i++) {
        keep_first(first, TWICE(weir_device_vm_destroy(pool->device, vm->move.memory[i].handle)));
    }
    for (struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        return_span(pool, span, first);
    }
    for (const struct vm_refused *refused = vm->refused; refused != NULL; refused = refused->next) {
        keep_first(first, TWICE(weir_device_vm_release(pool->device, refused->address, refused->size)));
    }
}

/* The same as grow after a poll: growing moves idle memory by itself. */
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
    .fits = vm_fits,
    .join = vm_join,
};
