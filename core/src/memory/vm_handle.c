/* core/src/memory/vm_handle.c: handles of the device: maps them into holes, unmaps idle ones, gives them back; which
 * granule has memory of which handle, and the check of these records.
 *
 * Idea: a handle is mapped and unmapped as a whole, and any blocks may lie in it. So a handle is idle if all its
 * addresses are free, no queued work touches them, and no pin holds it. A handle that is mapped nowhere is *spare*: it
 * counts as reserved, fills a hole of its size, or is destroyed.
 *
 * Guarantee: no call needs another one to be undone. If the device refuses a call, the step ends there: a hole that was
 * mapped is memory, one that was not is a hole, a handle that was unmapped or created is spare. So nothing is lost, and
 * the next step goes on from there.
 *
 * Addresses are claimed from the strategy while their memory comes or goes, one range for each handle. Only the thread
 * that grows claims holes, so a hole that it has seen stays one.
 *
 * Cost: two device calls for each handle that is created or moves. Idle handles: linear in the free ranges of at least
 * a granule and the handles in them. */
#include "shared/clock.h"
#include "shared/round_up.h"
#include "vm_internal.h"

#include <string.h>

/* --- device calls: no lock held --- */

/* What the calls of one step have changed; `end` takes it in under the pool's lock. */
struct step {
    weir_pool *pool;
    struct vm_counts counts;
    uint64_t failures;
    uint64_t created;   /* granules */
    uint64_t destroyed; /* granules */
    uint64_t began;
};

static struct step begin(weir_pool *pool)
{
    WEIR_ASSERT(pool->growth.taken && pool_is_locked(pool));
    pool_unlock(pool);
    return (struct step){.pool = pool, .began = wall_ns()};
}

/* Takes the lock again and counts the step. */
static void end(struct step *step)
{
    weir_pool *pool = step->pool;
    struct pool_vm *vm = pool->vm;
    const uint64_t took = wall_ns() - step->began;
    pool_lock(pool);
    vm->counts.creates += step->counts.creates;
    vm->counts.destroys += step->counts.destroys;
    vm->counts.maps += step->counts.maps;
    vm->counts.unmaps += step->counts.unmaps;
    vm->counts.moved += step->counts.moved;
    pool->counts.device_failures += step->failures;
    pool->counts.device_ns += took;
    vm->spare_granules += step->created - step->destroyed;
    /* One call counts the growth and the destroyed memory together: above a limit that was lowered, memory that
     * replaces destroyed memory does not count as growth. */
    weir__region_count_locked(pool, step->created << vm->granule_shift, step->destroyed << vm->granule_shift);
}

static weir_status count(struct step *step, weir_status status, uint64_t *counter)
{
    WEIR_ASSERT(outside_pool_lock(step->pool));
    *counter += status == WEIR_OK;
    step->failures += status != WEIR_OK;
    return status;
}

static void add_spare(struct pool_vm *vm, weir_vm_handle handle, uint64_t granules)
{
    WEIR_ASSERT(vm->spares < vm->spare_room);
    vm->spare[vm->spares++] = (struct vm_spare){handle, granules};
}

static struct vm_spare take_spare(struct pool_vm *vm, size_t number)
{
    WEIR_ASSERT(number < vm->spares);
    const struct vm_spare spare = vm->spare[number];
    vm->spare[number] = vm->spare[--vm->spares];
    return spare;
}

static weir_status destroy_last(struct step *step)
{
    struct pool_vm *vm = step->pool->vm;
    const weir_status status = count(step, weir_device_vm_destroy(step->pool->device, vm->spare[vm->spares - 1].handle),
                                     &step->counts.destroys);
    if (status == WEIR_OK) {
        step->destroyed += take_spare(vm, vm->spares - 1).granules;
    }
    return status;
}

/* Destroys spare handles, at least `granules` granules or all. */
static weir_status destroy_spares(struct step *step, uint64_t granules)
{
    weir_status status = WEIR_OK;
    while (step->pool->vm->spares > 0 && step->destroyed < granules && status == WEIR_OK) {
        status = destroy_last(step);
    }
    return status;
}

static weir_status create_for(struct step *step, struct vm_place *place)
{
    const uint64_t size = place->granules << step->pool->vm->granule_shift;
    const weir_status status =
        count(step, weir_device_vm_create(step->pool->device, size, &place->handle), &step->counts.creates);
    step->created += status == WEIR_OK ? place->granules : 0;
    return status;
}

static weir_status map(struct step *step, struct vm_place *place)
{
    WEIR_ASSERT(place->handle != 0 && !place->mapped && place->token != NULL);
    const uint64_t size = place->granules << step->pool->vm->granule_shift;
    const weir_status status =
        count(step, weir_device_vm_map(step->pool->device, place->address, size, place->handle), &step->counts.maps);
    place->mapped = status == WEIR_OK;
    if (place->mapped) {
        weir__watch_given(step->pool, place->address, size);
    }
    return status;
}

static weir_status unmap(struct step *step, struct vm_place *place)
{
    WEIR_ASSERT(place->mapped && place->token != NULL);
    const uint64_t size = place->granules << step->pool->vm->granule_shift;
    weir__watch_taken(step->pool, place->address, size);
    const weir_status status =
        count(step, weir_device_vm_unmap(step->pool->device, place->address, size), &step->counts.unmaps);
    place->mapped = status != WEIR_OK;
    if (place->mapped) {
        weir__watch_given(step->pool, place->address, size);
    }
    return status;
}

/* --- places: pool lock held --- */

static bool add_place(struct pool_vm *vm, const struct vm_place *place)
{
    if (!weir__vm_reserve((void **)&vm->place, vm->places + 1, &vm->place_room, sizeof(*vm->place))) {
        return false;
    }
    vm->place[vm->places++] = *place;
    return true;
}

/* Returns the record of the granule, which may never have had memory before. */
static struct vm_granule *use_granule(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    WEIR_ASSERT(address - span->address < span->size);
    const uint64_t number = (address - span->address) >> vm->granule_shift;
    for (; span->used <= number; span->used++) {
        span->granules[span->used] = (struct vm_granule){0};
    }
    return &span->granules[number];
}

/* Returns how many places, from the first one on, are adjacent and of one size. */
static size_t alike(const struct pool_vm *vm, const struct vm_place *place, size_t left)
{
    WEIR_ASSERT(left != 0);
    const uint64_t size = place->granules << vm->granule_shift;
    size_t count = 1;
    while (count < left && place[count].granules == place->granules &&
           place[count].address == place->address + count * size) {
        count++;
    }
    return count;
}

/* Claims the addresses of `count` places that are alike from the strategy: free memory with ticks within `limits`, or
 * holes if `limits` is NULL. */
static weir_status claim(weir_pool *pool, struct vm_place *place, size_t count, const weir_tick *limits)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct pool_vm *vm = pool->vm;
    if (!weir__vm_reserve((void **)&vm->tokens, count, &vm->token_room, sizeof(*vm->tokens))) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = pool->strategy->claim(pool->state, place->address, place->granules << vm->granule_shift,
                                                     count, limits, pool->lanes, vm->tokens);
    if (status != WEIR_OK) {
        return status;
    }
    struct vm_span *span = vm_span_of(vm, place->address);
    (void)use_granule(vm, span, place->address + ((count * place->granules - 1) << vm->granule_shift));
    for (size_t i = 0; i < count; i++) {
        place[i].token = vm->tokens[i];
        vm_granule_at(vm, span, place[i].address)->token = place[i].token;
    }
    return WEIR_OK;
}

/* Enters a claimed place in the records of its granules. Gives the addresses back to the strategy, as memory of its
 * lane or as a hole, unless they are bare. The tick is 0, because no queued work uses the memory. */
static void settle(weir_pool *pool, const struct vm_place *place)
{
    WEIR_ASSERT(pool_is_locked(pool) && place->token != NULL);
    struct pool_vm *vm = pool->vm;
    struct vm_granule *granule = vm_granule_at(vm, vm_span_of(vm, place->address), place->address);
    const bool had = granule->handle != 0;
    const bool has = place->mapped || place->apart;
    const uint64_t lost = had && !has ? place->granules : 0;
    const uint64_t won = !had && has ? place->granules : 0;
    vm->spare_granules += lost - won;
    vm->bare += place->bare ? lost - won : 0;
    for (uint64_t i = 0; i < place->granules; i++) {
        granule[i] =
            has ? (struct vm_granule){.handle = place->handle, .at = (uint32_t)i, .of = (uint32_t)place->granules}
                : (struct vm_granule){0};
    }
    if (place->bare) {
        granule->token = place->mapped || !has ? NULL : vm_apart(vm);
        return;
    }
    const weir_lane lane = place->mapped ? place->lane : WEIR_LANE_UNMAPPED;
    pool->strategy->free(pool->state, place->token, lane, 0);
    weir__lane_note_early_locked(pool, lane, 0);
}

/* --- filling holes --- */

/* Takes out the largest spare handle of at most `most` granules. Returns false if there is none. */
static bool take_fitting(struct pool_vm *vm, uint64_t most, struct vm_spare *spare)
{
    size_t best = vm->spares;
    bool exact = false;
    for (size_t i = vm->spares; i-- > 0 && !exact;) {
        const uint64_t granules = vm->spare[i].granules;
        best = granules <= most && (best == vm->spares || granules > vm->spare[best].granules) ? i : best;
        exact = granules == most || vm->by_page;
    }
    if (best == vm->spares) {
        return false;
    }
    *spare = take_spare(vm, best);
    return true;
}

/* Plans the handles for the hole [address, address + granules), each a place like `like`: spare ones first. Returns
 * false when out of host memory. */
static bool plan_hole(struct pool_vm *vm, uint64_t address, uint64_t granules, uint64_t most,
                      const struct vm_place *like)
{
    while (granules > 0) {
        struct vm_spare spare = {.granules = granules < most ? granules : most};
        const bool is_spare = take_fitting(vm, granules, &spare);
        struct vm_place place = *like;
        place.address = address;
        place.granules = spare.granules;
        place.handle = is_spare ? spare.handle : 0;
        if (!add_place(vm, &place)) {
            if (is_spare) {
                add_spare(vm, spare.handle, spare.granules);
            }
            return false;
        }
        vm->counts.moved += is_spare ? spare.granules : 0;
        address += spare.granules << vm->granule_shift;
        granules -= spare.granules;
    }
    return true;
}

static bool is_hole(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const struct vm_granule *granule = vm_granule_at(vm, span, address);
    return granule == NULL || granule->handle == 0;
}

/* Returns the end of the addresses in [at, end) that one handle may have memory for. */
static uint64_t handle_end(const struct vm_span *span, uint64_t at, uint64_t end)
{
    WEIR_ASSERT(at < end);
    const uint64_t unit = span->reserved != NULL ? span->reserved->unit : span->size;
    const uint64_t left = unit - (at - span->address) % unit;
    return end - at < left ? end : at + left;
}

static bool plan_holes(struct pool_vm *vm, uint64_t first, uint64_t end, uint64_t most, const struct vm_place *like)
{
    WEIR_ASSERT(first < end && most != 0);
    struct vm_span *span = vm_span_of(vm, first);
    WEIR_ASSERT(end - span->address <= span->size);
    bool planned = true;
    uint64_t to = 0;
    for (uint64_t at = first; at < end && planned; at = to) {
        const uint64_t bound = handle_end(span, at, end);
        for (to = at; to < bound && is_hole(vm, span, to);) {
            to += vm->granule;
        }
        planned = plan_hole(vm, at, (to - at) >> vm->granule_shift, most, like);
        to += to < bound ? vm->granule : 0;
    }
    return planned;
}

/* Splits place `number` in two halves. */
static bool halve(struct pool_vm *vm, size_t number)
{
    struct vm_place high = vm->place[number];
    const uint64_t granules = high.granules / 2;
    high.address += granules << vm->granule_shift;
    high.granules -= granules;
    if (!add_place(vm, &high)) {
        return false;
    }
    vm->place[number].granules = granules;
    return true;
}

/* Creates a handle for each place without one. If the device has no memory for a handle, tries handles of half the
 * size, down to one granule. So the pool knows to a granule how much memory the device has. */
static weir_status create_all(struct step *step, bool *lacks_host_memory)
{
    struct pool_vm *vm = step->pool->vm;
    /* Spare handles that fit are in the places already. The others count as reserved, so they go before any is created.
     */
    const weir_status left = destroy_spares(step, UINT64_MAX);
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < vm->places && status == WEIR_OK; i++) {
        const bool lacks = vm->place[i].handle == 0;
        status = lacks && left != WEIR_OK ? left : lacks ? create_for(step, &vm->place[i]) : WEIR_OK;
        while (status == WEIR_ERR_NO_MEMORY && vm->place[i].granules > 1) {
            if (!halve(vm, i)) {
                *lacks_host_memory = true;
                return status;
            }
            status = create_for(step, &vm->place[i]);
        }
    }
    return status;
}

static weir_status claim_all(weir_pool *pool)
{
    struct pool_vm *vm = pool->vm;
    weir_status status = WEIR_OK;
    for (size_t i = 0, count = 0; i < vm->places && status == WEIR_OK; i += count) {
        count = alike(vm, &vm->place[i], vm->places - i);
        status = claim(pool, &vm->place[i], count, NULL);
        WEIR_ASSERT(status != WEIR_ERR_BUSY);
    }
    return status;
}

static weir_status map_all(struct step *step)
{
    const struct pool_vm *vm = step->pool->vm;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < vm->places && status == WEIR_OK; i++) {
        status = map(step, &vm->place[i]);
    }
    return status;
}

/* Ends a step: enters each place in the state that it has, and keeps handles that are mapped nowhere. */
static void settle_all(weir_pool *pool)
{
    struct pool_vm *vm = pool->vm;
    for (size_t i = 0; i < vm->places; i++) {
        const struct vm_place *place = &vm->place[i];
        if (place->token != NULL) {
            settle(pool, place);
        }
        if (place->handle != 0 && !place->mapped && !place->apart) {
            add_spare(vm, place->handle, place->granules);
        }
    }
    vm->places = 0;
}

/* Plans the missing handles of [first, end) and creates them. */
static weir_status prepare(weir_pool *pool, uint64_t first, uint64_t end_address, uint64_t most,
                           const struct vm_place *like, bool *lacks_host_memory)
{
    WEIR_ASSERT(pool->vm->places == 0 && first < end_address);
    struct pool_vm *vm = pool->vm;
    /* Each handle can be kept as a spare: there is room for one a granule. */
    const uint64_t granules = (end_address - first) >> vm->granule_shift;
    *lacks_host_memory =
        !weir__vm_reserve((void **)&vm->spare, vm->spares + granules, &vm->spare_room, sizeof(*vm->spare)) ||
        !plan_holes(vm, first, end_address, most, like);
    if (*lacks_host_memory) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct step step = begin(pool);
    const weir_status status = create_all(&step, lacks_host_memory);
    end(&step);
    return status;
}

weir_status weir__vm_fill(weir_pool *pool, uint64_t first, uint64_t end_address, uint64_t most, weir_lane lane,
                          bool *lacks_host_memory)
{
    const struct vm_place like = {.lane = lane};
    weir_status status = prepare(pool, first, end_address, most, &like, lacks_host_memory);
    if (status == WEIR_OK) {
        status = claim_all(pool);
        *lacks_host_memory = status != WEIR_OK;
    }
    if (status == WEIR_OK) {
        struct step step = begin(pool);
        status = map_all(&step);
        end(&step);
    }
    settle_all(pool);
    return status;
}

/* --- bare addresses --- */

/* Unmaps all places that are mapped, until the device refuses. */
static weir_status unmap_all(struct step *step)
{
    const struct pool_vm *vm = step->pool->vm;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < vm->places && status == WEIR_OK; i++) {
        status = vm->place[i].mapped ? unmap(step, &vm->place[i]) : WEIR_OK;
    }
    return status;
}

/* Stands in for the claim of places whose addresses are taken. */
static void claim_bare(struct pool_vm *vm)
{
    for (size_t i = 0; i < vm->places; i++) {
        WEIR_ASSERT(vm->place[i].bare);
        vm->place[i].token = vm_apart(vm);
    }
}

weir_status weir__vm_cover(weir_pool *pool, uint64_t first, uint64_t end_address, uint64_t most,
                           bool *lacks_host_memory)
{
    const struct vm_place like = {.bare = true};
    weir_status status = prepare(pool, first, end_address, most, &like, lacks_host_memory);
    (void)use_granule(pool->vm, vm_span_of(pool->vm, first), end_address - weir__vm_granule(pool));
    claim_bare(pool->vm);
    if (status == WEIR_OK) {
        struct step step = begin(pool);
        status = map_all(&step);
        if (status != WEIR_OK) {
            (void)unmap_all(&step);
        }
        end(&step);
    }
    settle_all(pool);
    return status;
}

weir_status weir__vm_uncover(weir_pool *pool, const uint64_t *addresses, size_t count)
{
    WEIR_ASSERT(pool->vm->places == 0 && pool->growth.taken);
    struct pool_vm *vm = pool->vm;
    bool noted = weir__vm_reserve((void **)&vm->spare, vm->spares + count, &vm->spare_room, sizeof(*vm->spare));
    for (size_t i = 0; i < count && noted; i++) {
        const struct vm_granule *granule = vm_granule_at(vm, vm_span_of(vm, addresses[i]), addresses[i]);
        WEIR_ASSERT(granule->handle != 0 && granule->at == 0 && granule->token == NULL);
        const struct vm_place place = {
            .address = addresses[i], .granules = granule->of, .handle = granule->handle, .mapped = true, .bare = true};
        noted = add_place(vm, &place);
    }
    if (!noted) {
        vm->places = 0;
        return WEIR_ERR_NO_MEMORY;
    }
    claim_bare(vm);
    struct step step = begin(pool);
    const weir_status status = unmap_all(&step);
    for (size_t i = 0; i < vm->places && status != WEIR_OK; i++) {
        vm->place[i].apart = !vm->place[i].mapped && map(&step, &vm->place[i]) != WEIR_OK;
    }
    end(&step);
    settle_all(pool);
    return status;
}

weir_status weir__vm_rejoin(weir_pool *pool, uint64_t address)
{
    WEIR_ASSERT(pool->vm->places == 0 && pool->growth.taken);
    struct pool_vm *vm = pool->vm;
    struct vm_granule *granule = vm_granule_at(vm, vm_span_of(vm, address), address);
    WEIR_ASSERT(granule != NULL && granule->handle != 0 && (granule - granule->at)->token == vm_apart(vm));
    const struct vm_place place = {.address = address - ((uint64_t)granule->at << vm->granule_shift),
                                   .granules = granule->of,
                                   .handle = granule->handle,
                                   .bare = true,
                                   .apart = true,
                                   .token = vm_apart(vm)};
    if (!add_place(vm, &place)) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct step step = begin(pool);
    const weir_status status = map(&step, &vm->place[0]);
    vm->place[0].apart = status != WEIR_OK;
    end(&step);
    settle_all(pool);
    return status;
}

/* --- idle handles --- */

struct idle_search {
    weir_pool *pool;
    const struct vm_window *window; /* leave out handles that it touches; NULL: none */
    const weir_tick *limits;
    uint64_t wanted; /* granules still to be found */
    uint64_t start;  /* [start, end): the run of usable memory seen so far; empty if they are equal */
    uint64_t end;
    weir_lane lane;
    bool failed; /* no host memory */
};

/* Notes the handles that lie wholly in the present run. */
static void end_run(struct idle_search *search)
{
    struct pool_vm *vm = search->pool->vm;
    const uint64_t to = search->end;
    const struct vm_window *window = search->window;
    for (uint64_t at = round_up(search->start, vm->granule); at + vm->granule <= to && !search->failed;) {
        const struct vm_granule *granule = vm_granule_at(vm, vm_span_of(vm, at), at);
        WEIR_ASSERT(granule != NULL && granule->handle != 0);
        const uint64_t next = at + ((uint64_t)(granule->of - granule->at) << vm->granule_shift);
        const bool in_window = window != NULL && at < window->end && next > window->first;
        if (granule->at == 0 && next <= to && !in_window && weir__pins_locked(search->pool, at) == 0) {
            const struct vm_place place = {.address = at,
                                           .granules = granule->of,
                                           .handle = granule->handle,
                                           .mapped = true,
                                           .lane = search->lane};
            search->failed = !add_place(vm, &place);
            search->wanted -= search->wanted < place.granules ? search->wanted : place.granules;
        }
        at = next;
    }
    search->start = search->end = 0;
}

static bool see_idle_range(void *ctx, const weir_range_info *range)
{
    struct idle_search *search = ctx;
    const bool idle = vm_is_usable(range, search->limits, search->pool->lanes);
    if (!idle || range->address != search->end || range->address == range->region_address) {
        end_run(search);
    }
    if (idle && search->start == search->end) {
        search->start = range->address;
        search->end = range->address + range->size;
        search->lane = range->lane;
    } else if (idle) {
        search->end += range->size;
        search->lane = range->lane == search->lane ? range->lane : WEIR_LANE_OPEN;
    }
    return !search->failed && search->wanted > 0;
}

/* Finds idle handles with at least `wanted` granules, or all. The strategy shows the smallest free runs first: what is
 * left serves large requests. Returns false when out of host memory. */
static bool find_idle(weir_pool *pool, const struct vm_window *window, uint64_t wanted)
{
    WEIR_ASSERT(pool->vm->places == 0);
    struct pool_vm *vm = pool->vm;
    struct idle_search search = {
        .pool = pool, .window = window, .wanted = wanted, .limits = weir__order_limits_locked(pool, NULL)};
    if (vm->walk_free != NULL) {
        vm->walk_free(pool->state, vm->granule, see_idle_range, &search);
    } else {
        pool->strategy->walk(pool->state, see_idle_range, &search);
    }
    end_run(&search);
    return !search.failed;
}

/* Claims the first idle handles, with at least `granules` granules, and forgets the others. The rest of a range that a
 * claim has cut may merge with a range that queued work still uses: the handles in it are no longer idle, and are left
 * out. */
static bool claim_idle(weir_pool *pool, uint64_t granules)
{
    struct pool_vm *vm = pool->vm;
    const weir_tick *limits = weir__order_limits_locked(pool, NULL);
    size_t claimed = 0;
    weir_status status = WEIR_OK;
    for (size_t i = 0, count = 0; i < vm->places && granules > 0 && status != WEIR_ERR_NO_MEMORY; i += count) {
        struct vm_place *place = &vm->place[i];
        count = alike(vm, place, vm->places - i);
        const uint64_t most = (granules - 1) / place->granules + 1;
        count = count < most ? count : (size_t)most;
        status = claim(pool, place, count, limits);
        if (status == WEIR_OK) {
            const uint64_t got = count * place->granules;
            memmove(&vm->place[claimed], place, count * sizeof(*place));
            claimed += count;
            vm->moving += got;
            granules -= granules < got ? granules : got;
        }
    }
    vm->places = claimed;
    return claimed > 0 || status != WEIR_ERR_NO_MEMORY;
}

static uint64_t granules_found(const struct pool_vm *vm)
{
    uint64_t granules = 0;
    for (size_t i = 0; i < vm->places; i++) {
        granules += vm->place[i].granules;
    }
    return granules;
}

uint64_t weir__vm_unmap_idle(weir_pool *pool, const struct vm_window *window, uint64_t least, uint64_t wanted,
                             weir_status *status)
{
    WEIR_ASSERT(wanted != 0 && least <= wanted);
    struct pool_vm *vm = pool->vm;
    const uint64_t before = vm->spare_granules;
    if (!find_idle(pool, window, wanted) ||
        !weir__vm_reserve((void **)&vm->spare, vm->spares + vm->places, &vm->spare_room, sizeof(*vm->spare)) ||
        !claim_idle(pool, granules_found(vm) < least ? 0 : wanted)) {
        vm->places = 0;
        *status = WEIR_ERR_NO_MEMORY;
        return 0;
    }
    if (vm->places > 0) {
        struct step step = begin(pool);
        weir_status failed = WEIR_OK;
        for (size_t i = 0; i < vm->places && failed == WEIR_OK; i++) {
            failed = unmap(&step, &vm->place[i]);
        }
        end(&step);
        vm->moving = 0;
        settle_all(pool);
        *status = failed != WEIR_OK ? failed : *status;
    }
    return vm->spare_granules - before;
}

uint64_t weir__vm_drop_spares(weir_pool *pool, uint64_t keep, weir_status *status)
{
    const struct pool_vm *vm = pool->vm;
    if (vm->spares == 0 || pool->held.bytes <= keep) {
        return 0;
    }
    const uint64_t surplus = (pool->held.bytes - keep + vm->granule - 1) >> vm->granule_shift;
    struct step step = begin(pool);
    const weir_status failed = destroy_spares(&step, surplus);
    end(&step);
    *status = failed != WEIR_OK ? failed : *status;
    return step.destroyed;
}

/* --- records of granules --- */

bool weir__vm_moves_locked(const weir_pool *pool, const weir_range_info *range)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct vm_span *span = vm_span_of(pool->vm, range->address);
    const struct vm_granule *granule = span != NULL ? vm_granule_at(pool->vm, span, range->address) : NULL;
    return granule != NULL && range->token != NULL && granule->token == range->token;
}

bool weir__vm_find_locked(const weir_pool *pool, uint64_t address, struct memory_piece *piece)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    struct vm_span *span = vm_span_of(vm, address);
    const struct vm_granule *granule = span != NULL ? vm_granule_at(vm, span, address) : NULL;
    if (granule == NULL || granule->handle == 0 || (granule - granule->at)->token != NULL) {
        return false;
    }
    const uint64_t first = (uint64_t)(granule - granule->at - span->granules);
    *piece = (struct memory_piece){.address = span->address + (first << vm->granule_shift),
                                   .size = (uint64_t)granule->of << vm->granule_shift,
                                   .handle = granule->handle};
    return true;
}

uint64_t weir__vm_granule(const weir_pool *pool)
{
    return pool->vm->granule;
}

void weir__vm_add_whole_locked(const weir_pool *pool, uint64_t address, uint64_t size, unsigned *looks,
                               struct vm_whole_handles *sums)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    struct vm_span *span = vm_span_of(vm, address);
    uint64_t bytes = 0;
    for (uint64_t at = round_up(address, vm->granule); at + vm->granule <= address + size && *looks > 0; at += bytes) {
        const struct vm_granule *granule = span != NULL ? vm_granule_at(vm, span, at) : NULL;
        const bool mapped = granule != NULL && granule->handle != 0;
        bytes = (mapped ? (uint64_t)(granule->of - granule->at) : 1) << vm->granule_shift;
        const bool whole =
            mapped && granule->at == 0 && at + bytes <= address + size && weir__pins_locked(pool, at) == 0;
        sums->bytes += whole ? bytes : 0;
        sums->single += whole && granule->of == 1 ? bytes : 0;
        --*looks;
    }
}

void weir__vm_each_handle_locked(const weir_pool *pool, void (*visit)(void *ctx, uint64_t address, uint64_t size),
                                 void *ctx)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    for (const struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        for (uint64_t i = 0; i < span->used; i++) {
            if (span->granules[i].handle != 0 && span->granules[i].at == 0 &&
                span->granules[i].token != vm_apart(pool->vm)) {
                visit(ctx, span->address + (i << vm->granule_shift),
                      (uint64_t)span->granules[i].of << vm->granule_shift);
            }
        }
    }
}

/* --- check --- */

/* True if the granules of each handle are adjacent and in order. */
static bool handles_are_whole(const struct vm_span *span)
{
    for (uint64_t i = 0; i < span->used; i++) {
        const struct vm_granule *granule = &span->granules[i];
        if (granule->handle == 0) {
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
    const struct pool_vm *vm;
    bool broken;
};

static bool see_hole(void *ctx, const weir_range_info *range)
{
    struct hole_check *check = ctx;
    const struct pool_vm *vm = check->vm;
    struct vm_span *span = vm_span_of(vm, range->address);
    check->broken = span == NULL;
    if (check->broken || !vm_is_hole(range)) {
        return !check->broken;
    }
    check->broken = ((range->address | range->size) & (vm->granule - 1)) != 0;
    const uint64_t used = span->address + (span->used << vm->granule_shift);
    for (uint64_t at = 0; !check->broken && at < range->size && range->address + at < used; at += vm->granule) {
        const struct vm_granule *granule = vm_granule_at(vm, span, range->address + at);
        check->broken = granule->handle != 0 || granule->token != NULL;
    }
    return !check->broken;
}

const char *weir__vm_broken_locked(const weir_pool *pool, uint64_t held, uint64_t unmapped, uint64_t moving)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_vm *vm = pool->vm;
    uint64_t addresses = 0;
    uint64_t mapped = 0; /* granules, with those that are claimed to be unmapped */
    for (const struct vm_span *span = vm->spans; span != NULL; span = span->next) {
        if (!handles_are_whole(span)) {
            return "a handle has memory for other granules than the books say";
        }
        addresses += span->size;
        for (uint64_t i = 0; i < span->used; i++) {
            mapped += span->granules[i].handle != 0;
        }
    }
    if (addresses != held + unmapped + moving) {
        return "spans and their ranges differ";
    }
    if ((mapped - vm->moving + vm->bare) << vm->granule_shift != held) {
        return "granules with memory and the ranges in them differ";
    }
    if ((mapped + vm->spare_granules) << vm->granule_shift != pool->held.bytes) {
        return "reserved bytes and granules differ";
    }
    struct hole_check check = {.vm = vm};
    pool->strategy->walk(pool->state, see_hole, &check);
    return check.broken ? "a range without memory lies where memory is mapped" : NULL;
}

void weir__vm_add_stats_locked(const weir_pool *pool, weir_pool_stats *stats)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct vm_counts *counts = &pool->vm->counts;
    stats->vm_creates = counts->creates;
    stats->vm_destroys = counts->destroys;
    stats->vm_maps = counts->maps;
    stats->vm_unmaps = counts->unmaps;
    stats->vm_moved_bytes = counts->moved << pool->vm->granule_shift;
}
