/* core/src/memory/vm_bare.c: addresses that are taken and have no memory: those of sleeping blocks.
 *
 * Idea: a block keeps its range in the strategy while its handles are unmapped (vm_handle.c does that), so its
 * addresses cannot serve a request. Free memory of such a handle has lost its memory too. Whole granules of it become
 * holes. What is less than a granule, beside a sleeping block, is *withheld*: claimed from the strategy until its
 * granule has memory again. So the strategy never sees free memory that is not there.
 *
 * Guarantee: a withheld piece is given back to the lane from which it was claimed, with its tick. If the strategy has
 * no host memory to split a piece, the piece stays withheld, and the next step tries again.
 *
 * Cost: linear in the withheld pieces and the granules that they touch.
 */
#include "shared/round_up.h"
#include "vm_internal.h"

/* The memory of a granule of taken addresses. */
enum has { HAS_MEMORY, HAS_NOTHING, HAS_HANDLE_APART };

static enum has what_has(const struct pool_vm *vm, uint64_t address)
{
    struct vm_span *span = vm_span_of(vm, address);
    const struct vm_granule *granule = span != NULL ? vm_granule_at(vm, span, address) : NULL;
    if (granule == NULL || granule->handle == 0) {
        return HAS_NOTHING;
    }
    return (granule - granule->at)->token == (const void *)vm ? HAS_HANDLE_APART : HAS_MEMORY;
}

bool weir__vm_has_memory_locked(const weir_pool *pool, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(pool_is_locked(pool) && size != 0);
    const struct pool_vm *vm = pool->vm;
    uint64_t at = address & ~(vm->granule - 1);
    while (at < address + size && what_has(vm, at) == HAS_MEMORY) {
        at += vm->granule;
    }
    return at >= address + size;
}

bool weir__vm_is_apart_locked(const weir_pool *pool, uint64_t address)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return what_has(pool->vm, address) == HAS_HANDLE_APART;
}

uint64_t weir__vm_bare_end_locked(const weir_pool *pool, uint64_t address, uint64_t end)
{
    WEIR_ASSERT(pool_is_locked(pool));
    while (address < end && what_has(pool->vm, address) == HAS_NOTHING) {
        address += pool->vm->granule;
    }
    return address;
}

/* --- withheld pieces: pool lock held --- */

bool weir__vm_withholds_locked(const weir_pool *pool, const weir_range_info *range)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const weir_record *record = range->token;
    return range->taken && state_of((const weir_block *)range->token) == BLOCK_UNUSED &&
           record->as.pool.link == (const void *)pool->vm;
}

static bool make_room(struct pool_vm *vm, size_t more)
{
    return weir__vm_reserve((void **)&vm->withheld, vm->withheld_count + vm->promised + more, &vm->withheld_room,
                            sizeof(*vm->withheld));
}

/* Lists a range that is taken and no block any more. There is room. */
static void list(struct pool_vm *vm, void *token, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(vm->withheld_count < vm->withheld_room);
    weir_record *record = token;
    record->as.pool.link = vm;
    vm->withheld[vm->withheld_count++] = (struct vm_withheld){token, lane, tick};
}

/* Claims a piece of free memory, of any lane and tick. */
static weir_status claim(weir_pool *pool, uint64_t address, uint64_t end, void **token)
{
    WEIR_ASSERT(pool_is_locked(pool) && address < end);
    for (size_t lane = 0; lane < pool->lanes; lane++) {
        pool->limits[lane] = WEIR_TICK_MAX;
    }
    return pool->strategy->claim(pool->state, address, end - address, 1, pool->limits, pool->lanes, token);
}

static weir_status claim_and_list(weir_pool *pool, uint64_t address, uint64_t end, weir_lane lane, weir_tick tick)
{
    void *token = NULL;
    const weir_status status = address == end ? WEIR_OK : claim(pool, address, end, &token);
    if (token != NULL) {
        list(pool->vm, token, lane, tick);
    }
    return status;
}

/* Splits [address, end) into the part of whole granules and the pieces before and behind it. */
static void split(const struct pool_vm *vm, uint64_t address, uint64_t end, uint64_t parts[4])
{
    WEIR_ASSERT(address < end);
    const uint64_t up = round_up(address, vm->granule);
    const uint64_t down = end & ~(vm->granule - 1);
    parts[0] = address;
    parts[1] = up < end ? up : end;
    parts[2] = down > parts[1] ? down : parts[1];
    parts[3] = end;
}

static weir_status claim_parts(weir_pool *pool, uint64_t address, uint64_t end, weir_lane lane, weir_tick tick)
{
    uint64_t parts[4];
    split(pool->vm, address, end, parts);
    weir_status status = WEIR_OK;
    for (int i = 0; i < 3 && status == WEIR_OK; i++) {
        status = claim_and_list(pool, parts[i], parts[i + 1], lane, tick);
    }
    return status;
}

weir_status weir__vm_withhold_locked(weir_pool *pool, uint64_t address, uint64_t size, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    if (!make_room(pool->vm, 3)) {
        return WEIR_ERR_NO_MEMORY;
    }
    return claim_parts(pool, address, address + size, lane, tick);
}

bool weir__vm_promise_locked(weir_pool *pool, size_t blocks)
{
    WEIR_ASSERT(pool_is_locked(pool));
    pool->vm->promised = blocks;
    return make_room(pool->vm, 0);
}

void weir__vm_withhold_block_locked(weir_pool *pool, weir_block *block, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(pool));
    list(pool->vm, block_delete(pool, block), lane, tick);
}

static void give(weir_pool *pool, const struct vm_withheld *piece, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(piece->token != NULL);
    pool->strategy->free(pool->state, piece->token, lane, tick);
    weir__lane_note_early_locked(pool, lane, tick);
}

/* Returns the end of the run of granules, from the one of `at` on, that have the same as that one. */
static uint64_t same_end(const struct pool_vm *vm, uint64_t at, uint64_t end)
{
    const uint64_t first = at & ~(vm->granule - 1);
    const enum has has = what_has(vm, first);
    uint64_t to = first + vm->granule;
    while (to < end && what_has(vm, to) == has) {
        to += vm->granule;
    }
    return to < end ? to : end;
}

/* Frees a piece whose granules differ, and withholds again the parts that have no memory. If the strategy cannot do
 * that, withholds the whole piece again, for which it needs no more records than before. */
static void resplit(weir_pool *pool, struct vm_withheld piece)
{
    struct pool_vm *vm = pool->vm;
    const weir_record *record = piece.token;
    const uint64_t address = record->address;
    const uint64_t end = address + record->size;
    const size_t before = vm->withheld_count;
    give(pool, &piece, piece.lane, piece.tick);
    weir_status status = WEIR_OK;
    for (uint64_t at = address, to; at < end && status == WEIR_OK; at = to) {
        to = same_end(vm, at, end);
        status = what_has(vm, at & ~(vm->granule - 1)) == HAS_MEMORY
                     ? WEIR_OK
                     : claim_parts(pool, at, to, piece.lane, piece.tick);
    }
    if (status != WEIR_OK) {
        while (vm->withheld_count > before) {
            give(pool, &vm->withheld[--vm->withheld_count], piece.lane, piece.tick);
        }
        status = claim_and_list(pool, address, end, piece.lane, piece.tick);
        WEIR_ASSERT(status == WEIR_OK);
    }
}

/* True if some granules of the piece have memory and others do not, or if it has whole granules without memory and
 * more. */
static bool is_mixed(const struct pool_vm *vm, uint64_t address, uint64_t end)
{
    uint64_t parts[4];
    split(vm, address, end, parts);
    const bool edges = parts[1] != parts[0] || parts[3] != parts[2];
    return same_end(vm, address, end) != end || (parts[1] != parts[2] && edges);
}

/* Gives the piece back if it can be used again: as memory, or as a hole. */
static void settle(weir_pool *pool, size_t number)
{
    struct pool_vm *vm = pool->vm;
    const struct vm_withheld piece = vm->withheld[number];
    const weir_record *record = piece.token;
    const uint64_t size = record->size;
    const uint64_t end = record->address + size;
    const bool whole = ((record->address | size) & (vm->granule - 1)) == 0;
    if (weir__vm_has_memory_locked(pool, record->address, size)) {
        vm->withheld[number] = vm->withheld[--vm->withheld_count];
        give(pool, &piece, piece.lane, piece.tick);
    } else if (whole && weir__vm_bare_end_locked(pool, record->address, end) == end) {
        vm->withheld[number] = vm->withheld[--vm->withheld_count];
        vm->bare -= size >> vm->granule_shift;
        give(pool, &piece, WEIR_LANE_UNMAPPED, 0);
    } else if (is_mixed(vm, record->address, end) && make_room(vm, 4 + 3 * (size >> vm->granule_shift))) {
        vm->withheld[number] = vm->withheld[--vm->withheld_count];
        resplit(pool, piece);
    }
}

void weir__vm_settle_withheld_locked(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    /* The first pass may split pieces; the second gives back the parts. A piece that leaves is replaced by one that has
     * been looked at. */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = pool->vm->withheld_count; i-- > 0;) {
            settle(pool, i);
        }
    }
}

void weir__vm_open_withheld_locked(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    for (size_t i = 0; i < pool->vm->withheld_count; i++) {
        pool->vm->withheld[i].lane = WEIR_LANE_OPEN;
        pool->vm->withheld[i].tick = 0;
    }
}

weir_status weir__vm_rejoin_withheld(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    const struct pool_vm *vm = pool->vm;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < vm->withheld_count && status == WEIR_OK; i++) {
        const weir_record *record = vm->withheld[i].token;
        const uint64_t end = record->address + record->size;
        uint64_t at = record->address & ~(vm->granule - 1);
        for (; at < end && status == WEIR_OK; at += vm->granule) {
            status = what_has(vm, at) == HAS_HANDLE_APART ? weir__vm_rejoin(pool, at) : WEIR_OK;
        }
    }
    weir__vm_settle_withheld_locked(pool);
    return status;
}
