/* core/src/memory/reserved.c: reserved blocks (weir/reserve.h): addresses of which parts have memory.
 *
 * Idea: a reserved block is a block of the strategy that fills a span of its own (vm_span.c). Its addresses are taken
 * for as long as it lives, so memory comes and goes under them as it does under sleeping blocks: bare granules, which
 * vm_handle.c covers and uncovers. No handle has memory for two units, so each unit can go alone.
 *
 * A decommit leaves a *struct leaving*: the units, and the (stream, tick) pairs of the work that may still use them.
 * When the host has seen all of that work complete, the thread that grows takes the memory away. A free is a decommit
 * of all units, after which the block ends.
 *
 * Guarantee: a committed unit has all its memory, unless the block sleeps. If the device refuses to take memory away,
 * the unit goes on leaving, with what it has left. A failed commit leaves its units bare; where the device refuses even
 * that, they are `stray`, and the next call takes their memory away.
 *
 * Cost: a commit and a decommit are linear in their units; settling is linear in the decommits whose work is not
 * complete.
 */
#include "vm_internal.h"

#include <stdlib.h>

/* --- the block --- */

static void release(struct reservation *reserved)
{
    free(reserved != NULL ? reserved->last : NULL);
    free(reserved);
}

static struct reservation *new_reservation(uint64_t size, uint64_t unit)
{
    WEIR_ASSERT(unit != 0);
    const size_t count = (size_t)((size + unit - 1) / unit);
    struct reservation *reserved = calloc(1, sizeof(*reserved) + count * sizeof(reserved->units[0]));
    if (reserved == NULL) {
        return NULL;
    }
    reserved->last = calloc(1, sizeof(*reserved->last));
    if (reserved->last == NULL) {
        release(reserved);
        return NULL;
    }
    reserved->unit = unit;
    reserved->count = count;
    reserved->size = count * unit;
    return reserved;
}

/* Makes the addresses of the span, which are free, the block. Returns false when out of host memory. */
static bool take_span(weir_pool *pool, weir_stream *stream, uint64_t size, struct reservation *reserved)
{
    WEIR_ASSERT(pool_is_locked(pool));
    weir_range range = {.address = reserved->span->address, .size = reserved->size};
    const weir_tick open = WEIR_TICK_MAX;
    if (pool->strategy->claim(pool->state, range.address, range.size, 1, &open, 1, &range.token) != WEIR_OK) {
        return false;
    }
    weir_block *block = block_new(pool, stream, size, &range);
    struct block_uses *uses = block != NULL ? weir__block_add_uses(block) : NULL;
    if (uses == NULL) {
        pool->strategy->free(pool->state, block != NULL ? block_delete(pool, block) : range.token, WEIR_LANE_OPEN, 0);
        return false;
    }
    uses->reserved = reserved;
    reserved->block = block;
    pool->vm->bare += reserved->size >> pool->vm->granule_shift;
    return true;
}

weir_status weir__reserved_make(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t unit, weir_block **block)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    struct reservation *reserved = new_reservation(size, unit);
    if (reserved == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = weir__vm_add_reserved_span(pool, reserved->size, &reserved->span);
    if (status != WEIR_OK) {
        release(reserved);
        return status;
    }
    if (!take_span(pool, stream, size, reserved)) {
        weir__vm_remove_span(pool, reserved->span);
        release(reserved);
        return WEIR_ERR_NO_MEMORY;
    }
    reserved->span->reserved = reserved;
    reserved->next = pool->reserved;
    pool->reserved = reserved;
    *block = reserved->block;
    return WEIR_OK;
}

/* Ends a freed block, all of whose units are bare. */
static void end_block(weir_pool *pool, struct reservation *reserved)
{
    WEIR_ASSERT(pool_is_locked(pool) && reserved->committed == 0 && reserved->leaving == 0);
    struct reservation **link = &pool->reserved;
    while (*link != reserved) {
        link = &(*link)->next;
    }
    *link = reserved->next;
    pool->vm->bare -= reserved->size >> pool->vm->granule_shift;
    pool->strategy->free(pool->state, block_delete(pool, reserved->block), WEIR_LANE_OPEN, 0);
    weir__vm_remove_span(pool, reserved->span);
    release(reserved);
}

void weir__reserved_fini(weir_pool *pool)
{
    for (struct leaving *leaving = pool->leaving, *next; leaving != NULL; leaving = next) {
        next = leaving->next;
        weir__use_list_free(leaving->uses);
        if (!leaving->ends) {
            free(leaving);
        }
    }
    for (struct reservation *reserved = pool->reserved, *next; reserved != NULL; reserved = next) {
        next = reserved->next;
        release(reserved);
    }
}

/* --- units --- */

static void set_unit(struct reservation *reserved, size_t unit, uint64_t state)
{
    WEIR_ASSERT(unit < reserved->count);
    atomic_store_explicit(&reserved->units[unit], state, memory_order_relaxed);
}

/* Counts a unit that leaves no more. */
static void stop_leaving(weir_pool *pool, struct reservation *reserved)
{
    WEIR_ASSERT(reserved->leaving >= reserved->unit && pool->pending_bytes >= reserved->unit);
    reserved->leaving -= reserved->unit;
    pool->pending_bytes -= reserved->unit;
}

uint64_t weir__reserved_addresses(const weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    uint64_t bytes = 0;
    for (const struct reservation *reserved = pool->reserved; reserved != NULL; reserved = reserved->next) {
        bytes += reserved->size - reserved->committed - reserved->leaving;
    }
    return bytes;
}

/* --- commits --- */

bool weir__reserved_use_is_over(const weir_pool *pool, const struct weir_use *use)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return !pool->ordered || use->stream->serial != use->serial || use->stream->retired ||
           use->tick <= done_on(use->stream);
}

/* Returns the uses that the units wait for. */
static const struct weir_use *uses_of(const struct leaving *leaving)
{
    return leaving->ends ? block_uses(leaving->of->block)->first : leaving->uses;
}

/* True if some unit of the part belongs to the struct leaving. */
static bool leaves_from(const struct leaving *leaving, const struct part *part)
{
    const struct reservation *reserved = reservation_of(part->block);
    WEIR_ASSERT(reserved != NULL && part->first < part->end);
    size_t unit = part->first > leaving->first ? part->first : leaving->first;
    const size_t end = part->end < leaving->end ? part->end : leaving->end;
    while (unit < end && unit_state(reserved, unit) != leaving->number) {
        unit++;
    }
    return leaving->of == reserved && unit < end;
}

weir_stream *weir__reserved_user(const weir_pool *pool, const struct part *part, const weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(pool));
    for (const struct leaving *leaving = pool->leaving; leaving != NULL; leaving = leaving->next) {
        const struct weir_use *use = leaving->of == reservation_of(part->block) ? uses_of(leaving) : NULL;
        while (use != NULL && (weir__reserved_use_is_over(pool, use) || use->stream == stream ||
                               clock_at(stream, use->stream->lane) >= use->tick)) {
            use = use->next;
        }
        if (use != NULL && leaves_from(leaving, part)) {
            return use->stream;
        }
    }
    return NULL;
}

weir_status weir__reserved_look(const struct request *request, struct vm_window *window)
{
    weir_pool *pool = request->pool;
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken && request->part != NULL);
    const struct part *part = request->part;
    const struct reservation *reserved = reservation_of(part->block);
    if (state_of(part->block) != BLOCK_LIVE || weir__reserved_user(pool, part, request->stream) != NULL) {
        return WEIR_ERR_BUSY;
    }
    *window = (struct vm_window){.address = unit_address(reserved, part->first),
                                 .size = (part->end - part->first) * reserved->unit,
                                 .first = unit_address(reserved, part->first),
                                 .end = unit_address(reserved, part->end - 1) + reserved->unit};
    for (uint64_t at = window->first; at < window->end; at += pool->vm->granule) {
        window->need += weir__vm_has_memory_locked(pool, at, 1) ? 0 : 1;
    }
    return WEIR_OK;
}

/* Reports the streams that use the block as users of the part. */
static void tell_uses(const struct part *part, const struct weir_use *use)
{
    const struct reservation *reserved = reservation_of(part->block);
    WEIR_ASSERT(reserved != NULL && outside_pool_lock(block_pool(part->block)));
    const uint64_t address = unit_address(reserved, part->first);
    for (; use != NULL; use = use->next) {
        stream_visit(use->stream);
        if (use->stream->pool != NULL && use->stream->serial == use->serial) {
            weir__watch_use(part->block, address, address + (part->end - part->first) * reserved->unit, use->stream);
        }
        stream_unlock(use->stream);
    }
}

void weir__reserved_commit(const struct request *request)
{
    weir_pool *pool = request->pool;
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    const struct part *part = request->part;
    struct reservation *reserved = reservation_of(part->block);
    weir_stream *owner = block_stream(part->block);
    const uint64_t before = reserved->committed;
    pool_unlock(pool);
    weir__watch_commit(part->block, unit_address(reserved, part->first),
                       unit_address(reserved, part->end - 1) + reserved->unit, request->stream);
    stream_visit(owner);
    pool_lock(pool);
    for (size_t unit = part->first; unit < part->end; unit++) {
        const uint64_t state = unit_state(reserved, unit);
        if (state >= UNIT_LEAVING) {
            stop_leaving(pool, reserved);
        }
        reserved->committed += state != UNIT_COMMITTED ? reserved->unit : 0;
        set_unit(reserved, unit, UNIT_COMMITTED);
    }
    const int64_t more = (int64_t)(reserved->committed - before);
    count_part(owner, more);
    if (tag_of(part->block) != 0) {
        weir__tag_add(owner, tag_of(part->block), more);
    }
    const struct weir_use *uses = is_watched(pool) ? block_uses(part->block)->first : NULL;
    pool_unlock(pool);
    stream_unlock(owner);
    tell_uses(part, uses);
    pool_lock(pool);
}

/* --- decommits --- */

void weir__reserved_leave(weir_pool *pool, const struct part *part, struct leaving *leaving)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    struct reservation *reserved = reservation_of(part->block);
    weir_stream *owner = block_stream(part->block);
    const uint64_t before = reserved->committed;
    WEIR_ASSERT(stream_is_locked(owner) && part->first < part->end && part->end <= reserved->count);
    leaving->of = reserved;
    leaving->number = UNIT_LEAVING + pool->leavings++;
    leaving->first = part->first;
    leaving->end = part->end;
    for (size_t unit = part->first; unit < part->end; unit++) {
        if (unit_state(reserved, unit) == UNIT_COMMITTED) {
            set_unit(reserved, unit, leaving->number);
            reserved->committed -= reserved->unit;
            reserved->leaving += reserved->unit;
            pool->pending_bytes += reserved->unit;
        }
    }
    const int64_t less = (int64_t)(before - reserved->committed);
    count_part(owner, -less);
    if (tag_of(part->block) != 0) {
        weir__tag_add(owner, tag_of(part->block), -less);
    }
    for (const struct weir_use *use = uses_of(leaving); use != NULL; use = use->next) {
        if (use->stream->serial == use->serial) {
            weir__order_freed_locked(use->stream, use->tick);
        }
    }
    leaving->next = pool->leaving;
    pool->leaving = leaving;
}

void weir__reserved_end(weir_pool *pool, struct reservation *reserved, weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(pool) && state_of(reserved->block) == BLOCK_LIVE);
    weir_block *block = reserved->block;
    weir_stream *owner = block_stream(block);
    struct block_uses *uses = block_uses(block);
    const struct part whole = {.block = block, .end = reserved->count};
    while (stream == NULL && uses->first != NULL) {
        weir__use_remove(uses, &uses->first);
    }
    if (stream != NULL) {
        uses->freed = (struct weir_use){.next = uses->first, .stream = stream, .serial = stream->serial, .tick = tick};
        uses->first = &uses->freed;
    }
    reserved->last->ends = true;
    weir__reserved_leave(pool, &whole, reserved->last);
    owner->counters.frees++;
    drop_tag(owner, block);
    block_set_word(block, BLOCK_WORD(BLOCK_PENDING) | BLOCK_USED);
}

/* Takes the memory of a unit away. Returns false if a pin keeps some of it, or if the device refuses. */
static bool uncover_unit(weir_pool *pool, const struct reservation *reserved, size_t unit, weir_status *status)
{
    WEIR_ASSERT(pool_is_locked(pool) && *status == WEIR_OK);
    const uint64_t end = unit_address(reserved, unit) + reserved->unit;
    struct memory_piece piece;
    for (uint64_t at = unit_address(reserved, unit); at < end; at += piece.size) {
        piece.size = pool->vm->granule;
        if (weir__vm_is_apart_locked(pool, at)) {
            *status = weir__vm_rejoin(pool, at);
        }
        if (*status == WEIR_OK && weir__vm_find_locked(pool, at, &piece)) {
            WEIR_ASSERT(piece.address == at && at + piece.size <= end);
            if (weir__pins_locked(pool, at) != 0) {
                return false;
            }
            *status = weir__vm_uncover(pool, &at, 1);
        }
        if (*status != WEIR_OK) {
            return false;
        }
    }
    return true;
}

static bool is_in(const struct part *part, const struct reservation *reserved, size_t unit)
{
    return part != NULL && reservation_of(part->block) == reserved && part->first <= unit && unit < part->end;
}

/* Takes the memory of the units away, but of those in `keep`. Returns true if no unit is left. */
static bool take_units(weir_pool *pool, const struct leaving *leaving, const struct part *keep, weir_status *status)
{
    struct reservation *reserved = leaving->of;
    bool all = true;
    WEIR_ASSERT(leaving->number >= UNIT_LEAVING && leaving->end <= reserved->count);
    for (size_t unit = leaving->first; unit < leaving->end && *status == WEIR_OK; unit++) {
        if (unit_state(reserved, unit) != leaving->number) {
            continue;
        }
        const bool gone = !is_in(keep, reserved, unit) && uncover_unit(pool, reserved, unit, status);
        if (gone) {
            set_unit(reserved, unit, UNIT_BARE);
            stop_leaving(pool, reserved);
        }
        all &= gone;
    }
    return all && *status == WEIR_OK;
}

static bool is_over(const weir_pool *pool, const struct leaving *leaving)
{
    const struct weir_use *use = uses_of(leaving);
    while (use != NULL && weir__reserved_use_is_over(pool, use)) {
        use = use->next;
    }
    return use == NULL;
}

/* Takes the memory of bare units away that a failed commit has left there. */
static void take_strays(weir_pool *pool, struct reservation *reserved, weir_status *status)
{
    bool all = true;
    WEIR_ASSERT(reserved->stray);
    for (size_t unit = 0; unit < reserved->count && *status == WEIR_OK; unit++) {
        all &= unit_state(reserved, unit) != UNIT_BARE || uncover_unit(pool, reserved, unit, status);
    }
    reserved->stray = !all || *status != WEIR_OK;
}

/* Takes the memory of all units away that the struct leaving has. Returns true if it can go, too: a freed block waits
 * for the units that it decommitted before. */
static bool settle(weir_pool *pool, const struct leaving *leaving, const struct part *keep, weir_status *status)
{
    const struct reservation *reserved = leaving->of;
    WEIR_ASSERT(!leaving->ends || state_of(reserved->block) == BLOCK_PENDING);
    return is_over(pool, leaving) && take_units(pool, leaving, keep, status) &&
           (!leaving->ends || (reserved->leaving == 0 && !reserved->stray));
}

weir_status weir__reserved_settle(weir_pool *pool, const struct part *keep)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    weir_status status = WEIR_OK;
    for (struct reservation *reserved = pool->reserved; reserved != NULL && status == WEIR_OK;
         reserved = reserved->next) {
        if (reserved->stray) {
            take_strays(pool, reserved, &status);
        }
    }
    /* The end of a block comes before the decommits before it in the list: the second pass meets it again. */
    for (int pass = 0; pass < 2; pass++) {
        for (struct leaving **link = &pool->leaving; *link != NULL && status == WEIR_OK;) {
            struct leaving *leaving = *link;
            if (!settle(pool, leaving, keep, &status)) {
                link = &leaving->next;
                continue;
            }
            *link = leaving->next;
            if (leaving->ends) {
                end_block(pool, leaving->of);
            } else {
                weir__use_list_free(leaving->uses);
                free(leaving);
            }
        }
    }
    return status;
}

void weir__reserved_end_turn(weir_pool *pool)
{
    WEIR_ASSERT(outside_pool_lock(pool) && pool->growth.taken);
    weir_status ignored = WEIR_OK;
    (void)weir__order_poll(pool);
    pool_lock(pool);
    (void)!weir__reserved_settle(pool, NULL);
    (void)weir__vm_drop_spares(pool, 0, &ignored);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
}

/* --- check --- */

static const char *broken_unit(const weir_pool *pool, const struct reservation *reserved, size_t unit)
{
    const uint64_t state = unit_state(reserved, unit);
    WEIR_ASSERT(pool_is_locked(pool));
    const bool has = weir__vm_has_memory_locked(pool, unit_address(reserved, unit), reserved->unit);
    if (state == UNIT_COMMITTED && !has && state_of(reserved->block) == BLOCK_LIVE && !pool->growth.taken) {
        return "a unit of a reserved block has lost memory";
    }
    if (state == UNIT_BARE && has && !reserved->stray && !pool->growth.taken) {
        return "a unit of a reserved block has memory that it should not have";
    }
    return NULL;
}

const char *weir__reserved_broken(const weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const char *broken = NULL;
    for (const struct reservation *reserved = pool->reserved; reserved != NULL; reserved = reserved->next) {
        uint64_t committed = 0;
        uint64_t leaving = 0;
        for (size_t unit = 0; unit < reserved->count && broken == NULL; unit++) {
            committed += unit_state(reserved, unit) == UNIT_COMMITTED ? reserved->unit : 0;
            leaving += unit_state(reserved, unit) >= UNIT_LEAVING ? reserved->unit : 0;
            broken = broken_unit(pool, reserved, unit);
        }
        if (broken == NULL && (committed != reserved->committed || leaving != reserved->leaving)) {
            broken = "the units of a reserved block do not add up";
        }
    }
    return broken;
}
