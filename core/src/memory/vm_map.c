/* core/src/memory/vm_map.c: the device calls of a move of memory. No lock is held.
 *
 * Guarantee: if a call fails on the way, the calls done so far are reversed. If a reversal fails too, the step keeps
 * the state that the device is in, and a handle that is not mapped stays in memory[0 .. in_hand).
 *
 * Cost: two device calls for each handle that is created or moved.
 */
#include "vm_internal.h"

static weir_status count(struct vm_move *move, weir_status status, uint64_t *counter)
{
    *counter += status == WEIR_OK;
    move->counts.failures += status != WEIR_OK;
    return status;
}

static weir_status create_one(weir_pool *pool, struct vm_move *move, uint64_t granules)
{
    WEIR_ASSERT(granules != 0);
    WEIR_ASSERT(move->in_hand < pool->vm->memory_capacity);
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
    WEIR_ASSERT(number < move->in_hand);
    const struct vm_memory memory = move->memory[number];
    move->memory[number] = move->memory[--move->in_hand];
    return memory;
}

static weir_status destroy_one(weir_pool *pool, struct vm_move *move, size_t number)
{
    WEIR_ASSERT(number < move->in_hand);
    WEIR_ASSERT(outside_pool_lock(pool));
    const weir_status status =
        count(move, weir_device_vm_destroy(pool->device, move->memory[number].handle), &move->counts.destroys);
    if (status == WEIR_OK) {
        move->counts.destroyed += take_out(move, number).granules;
    }
    return status;
}

/* Returns the index in move->memory of the last handle of `granules` granules, or move->in_hand if there is none. */
static size_t in_hand_of(const struct vm_move *move, uint64_t granules)
{
    for (size_t i = move->in_hand; i-- > 0;) {
        if (move->memory[i].granules == granules) {
            return i;
        }
    }
    return move->in_hand;
}

static weir_status map_one(weir_pool *pool, struct vm_move *move, struct vm_step *step)
{
    const size_t number = in_hand_of(move, step->granules);
    WEIR_ASSERT(number < move->in_hand && step->handle == 0);
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
    WEIR_ASSERT(step->handle != 0);
    WEIR_ASSERT(move->in_hand < pool->vm->memory_capacity);
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

/* Splits a hole of the move in two. move->hole has room for an entry per granule. */
static void halve(const struct pool_vm *vm, struct vm_move *move, size_t number)
{
    WEIR_ASSERT(move->hole[number].granules > 1);
    WEIR_ASSERT(move->holes < vm->hole_capacity);
    struct vm_step *low = &move->hole[number];
    struct vm_step *high = &move->hole[move->holes++];
    const uint64_t granules = low->granules / 2;
    *high = *low;
    high->granule += granules;
    high->address += granules << vm->granule_shift;
    high->granules -= granules;
    low->granules = granules;
}

/* Creates the memory for all holes that need it. If the device has no memory for a handle, tries handles of half the
 * size, down to one granule. So the move can use all memory that the device has, in whole granules. */
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

/* Destroys unmapped handles that no hole will use, until there is room for the memory to be created. Stops if the
 * device refuses. */
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

/* Destroys unmapped handles until only `spares` of them are left. Stops if the device refuses. */
static weir_status drop_surplus(weir_pool *pool, struct vm_move *move, size_t spares)
{
    weir_status status = WEIR_OK;
    while (move->in_hand > spares && status == WEIR_OK) {
        status = destroy_one(pool, move, move->in_hand - 1);
    }
    return status;
}

/* Reverses the device calls of a failed move. A call that cannot be reversed stays in effect. Destroyed memory is not
 * created again. */
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

weir_status weir__vm_move_memory(weir_pool *pool, struct vm_move *move)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    WEIR_ASSERT(pool->growth.taken);
    const bool first = move->destroys == 0; /* create first: if the device refuses, nothing has moved yet */
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

weir_status weir__vm_return_memory(weir_pool *pool, struct vm_move *move)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    WEIR_ASSERT(pool->growth.taken);
    const weir_status status = unmap_all(pool, move);
    const weir_status destroyed = make_room(pool, move);
    return status != WEIR_OK ? status : destroyed;
}
