/* core/src/memory/vm_move.c: claims the granules of a move from the strategy, chooses the handles whose memory fills
 * each hole of the window, and settles the move when the device calls are done.
 *
 * Cost: linear in the granules of the move; the strategy's free is called once for each claimed granule, when the
 * move is settled.
 */
#include "shared/round_up.h"
#include "vm_internal.h"

/* Each time another 1/churn_share of the reserved memory has moved, the size limit of a new handle is halved. */
enum { churn_share = 4 };

static void settle_step(weir_pool *pool, const struct vm_step *step)
{
    WEIR_ASSERT(pool_is_locked(pool));
    pool->vm->large += step->handle != 0 && step->granules > 1;
    for (uint64_t i = 0; i < step->granules; i++) {
        struct vm_granule *granule = &step->granule[i];
        void *token = granule->token;
        WEIR_ASSERT(token != NULL);
        *granule = (struct vm_granule){.handle = step->handle, .at = (uint32_t)i, .of = (uint32_t)step->granules};
        const weir_lane lane = step->handle != 0 ? step->lane : WEIR_LANE_UNMAPPED;
        pool->strategy->free(pool->state, token, lane, 0);
        weir__lane_note_early_locked(pool, lane, 0);
    }
}

void weir__vm_settle(weir_pool *pool)
{
    WEIR_ASSERT(pool->growth.taken);
    struct pool_vm *vm = pool->vm;
    struct vm_move *move = &vm->move;
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
    /* One call counts the growth and the destroyed memory together: above a limit that was lowered, memory that
     * replaces destroyed memory does not count as growth. */
    weir__region_count_locked(pool, move->counts.created << vm->granule_shift,
                              move->counts.destroyed << vm->granule_shift);
    move->counts = (struct vm_counts){0};
    move->made_room = 0;
}

/* Claims adjacent granules from the strategy: free memory with ticks within `limits`, or holes if `limits` is NULL. */
static weir_status claim(weir_pool *pool, uint64_t address, uint64_t granules, const weir_tick *limits)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(granules != 0 && granules <= pool->vm->token_capacity);
    WEIR_ASSERT((address & (pool->vm->granule - 1)) == 0);
    struct pool_vm *vm = pool->vm;
    const weir_status status =
        pool->strategy->claim(pool->state, address, vm->granule, granules, limits, pool->lanes, vm->tokens);
    if (status != WEIR_OK) {
        return status;
    }
    struct vm_span *span = vm_span_of(vm, address);
    for (uint64_t i = 0; i < granules; i++, address += vm->granule) {
        vm_use_granule(vm, span, address)->token = vm->tokens[i];
    }
    return WEIR_OK;
}

static bool is_hole(const struct pool_vm *vm, struct vm_span *span, uint64_t address)
{
    const struct vm_granule *granule = vm_granule_at(vm, span, address);
    return granule == NULL || granule->handle == 0;
}

/* Adds to the move a step that fills a claimed hole, with new memory (`create`) or with an existing handle. */
static void fill(struct pool_vm *vm, uint64_t address, uint64_t granules, weir_lane lane, bool create)
{
    WEIR_ASSERT(granules != 0);
    WEIR_ASSERT(vm->move.holes < vm->hole_capacity);
    struct vm_move *move = &vm->move;
    move->hole[move->holes++] = (struct vm_step){
        .granule = vm_use_granule(vm, vm_span_of(vm, address), address),
        .address = address,
        .granules = granules,
        .lane = lane,
        .create = create,
    };
    move->creates += create ? granules : 0;
}

/* Fills the start of the hole [*address, end) with an existing handle of `granules` granules. Does nothing if the hole
 * is too small, or if `single` asks for the other kind of handle (of one granule, or of several). A handle above the
 * size limit of new handles is not mapped again: it is destroyed, and the hole gets new handles. Returns how many
 * granules are filled. */
static uint64_t reuse(struct pool_vm *vm, uint64_t *address, uint64_t end, weir_lane lane, bool single,
                      uint64_t granules, bool *wanted)
{
    if (*wanted || granules > (end - *address) >> vm->granule_shift || granules > vm->move.largest ||
        (granules == 1) != single) {
        return 0;
    }
    *wanted = true;
    fill(vm, *address, granules, lane, false);
    *address += granules << vm->granule_shift;
    return granules;
}

/* Fills a run of claimed holes: first with existing handles, the large ones first, then with new handles. With
 * `singly`, uses handles of one granule only. */
static void fill_run(struct pool_vm *vm, uint64_t address, uint64_t end, weir_lane lane, bool singly)
{
    WEIR_ASSERT(address <= end);
    struct vm_move *move = &vm->move;
    for (int single = singly; single < 2; single++) {
        for (size_t i = 0; i < vm->spares; i++) {
            struct vm_memory *spare = &move->memory[i];
            (void)reuse(vm, &address, end, lane, single, spare->granules, &spare->wanted);
        }
        for (size_t i = 0; i < move->victims; i++) {
            struct vm_step *victim = &move->victim[i];
            move->counts.moved += reuse(vm, &address, end, lane, single, victim->granules, &victim->wanted);
        }
    }
    while (address < end) {
        const uint64_t left = (end - address) >> vm->granule_shift;
        const uint64_t granules = singly || left < move->least ? 1 : left < move->largest ? left : move->largest;
        fill(vm, address, granules, lane, true);
        address += granules << vm->granule_shift;
    }
}

/* Chooses the sizes of new memory handles. If request sizes keep changing, a large handle fits few requests, and memory
 * would be moved for ever. So each time another 1/churn_share of the reserved memory has been moved, the size limit of
 * a new handle is halved, down to one granule. Handles above the limit are no longer moved. */
static void choose_sizes(const weir_pool *pool, struct vm_move *move)
{
    struct pool_vm *vm = pool->vm;
    const uint64_t reserved = pool->held.bytes >> vm->granule_shift;
    for (size_t i = 0; i < move->victims; i++) {
        vm->churn += move->victim[i].granules;
    }
    if (reserved == 0) {
        vm->largest_now = vm->largest;
    } else if (vm->churn > reserved / churn_share && vm->largest_now > 1) {
        vm->largest_now /= 2;
        vm->churn = 0;
    }
    move->least = weir__vm_least_of_handle(pool);
    move->largest = vm->largest_now;
}

weir_status weir__vm_claim_holes(weir_pool *pool, const struct vm_window *window, weir_lane lane)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(window->first < window->end);
    struct pool_vm *vm = pool->vm;
    struct vm_span *span = vm_span_of(vm, window->first);
    /* [from, to): the granules that lie wholly in the request. */
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

/* Chooses the part [*from, *to) at one end of an idle run that consists of whole handles and has `granules` granules,
 * or as few more as possible. */
static void end_of_run(const struct pool_vm *vm, const struct vm_run *run, uint64_t granules, uint64_t *from,
                       uint64_t *to)
{
    WEIR_ASSERT(granules != 0 && run->granules != 0);
    uint64_t start = 0;
    uint64_t end = 0;
    *from = run->address;
    *to = run->address + (run->granules << vm->granule_shift);
    if (granules < run->granules && run->hole_below) {
        *to = *from + (granules << vm->granule_shift);
        *to = weir__vm_find_handle(vm, *to - vm->granule, *to, &start, &end) ? end : *to;
    } else if (granules < run->granules) {
        *from = *to - (granules << vm->granule_shift);
        *from = weir__vm_find_handle(vm, *from, *from + vm->granule, &start, &end) ? start : *from;
    }
}

weir_status weir__vm_claim_idle(weir_pool *pool, uint64_t granules)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(pool->growth.taken);
    struct pool_vm *vm = pool->vm;
    struct vm_move *move = &vm->move;
    const weir_tick *limits = weir__order_limits_locked(pool, NULL);
    weir_status status = WEIR_OK;
    bool busy = false;
    while (vm->scratch.run_count > 0 && granules > 0 && status == WEIR_OK) {
        const struct vm_run *run = weir__vm_take_run(&vm->scratch);
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
            struct vm_granule *granule = vm_granule_at(vm, vm_span_of(vm, at), at);
            WEIR_ASSERT(granule != NULL && granule->handle != 0 && granule->at == 0);
            WEIR_ASSERT(move->victims < vm->victim_capacity);
            move->victim[move->victims] = (struct vm_step){.granule = granule,
                                                           .address = at,
                                                           .granules = granule->of,
                                                           .handle = granule->handle,
                                                           .lane = run->lane};
            vm->moving += granule->of;
            vm->large -= granule->of > 1;
            granules -= granules < granule->of ? granules : granule->of;
        }
    }
    return status == WEIR_OK && busy && granules > 0 ? WEIR_ERR_BUSY : status;
}

bool weir__vm_prepare(struct pool_vm *vm, uint64_t holes, uint64_t victims)
{
    WEIR_ASSERT(vm->spares <= vm->memory_capacity);
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
    return weir__vm_reserve((void **)&move->hole, holes, &vm->hole_capacity, sizeof(*move->hole)) &&
           weir__vm_reserve((void **)&move->victim, victims, &vm->victim_capacity, sizeof(*move->victim)) &&
           weir__vm_reserve((void **)&vm->tokens, most, &vm->token_capacity, sizeof(*vm->tokens)) &&
           weir__vm_reserve((void **)&move->memory, vm->spares + holes + victims, &vm->memory_capacity,
                            sizeof(*move->memory));
}
