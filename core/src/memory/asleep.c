/* core/src/memory/asleep.c: the records of sleeping blocks (weir/sleep.h), and the plan of a sleep.
 *
 * Idea: a handle of the device can go if every block in it sleeps. So a plan walks the strategy's ranges and the
 * handles side by side, in the order of addresses. The blocks get the state BLOCK_ASLEEP in the same hold of all locks,
 * and the free memory of these handles is withheld (vm_bare.c), so no thread can use memory that is about to go.
 *
 * A block that another thread is just freeing, or that waits for several streams, makes the plan unsettled: the caller
 * waits and plans again.
 *
 * Cost: linear in the ranges and handles of the pool, under all locks.
 */
#include "asleep.h"

#include "vm_internal.h"

#include <stdlib.h>
#include <string.h>

enum range_kind {
    RANGE_FREE,
    RANGE_NOTHING, /* a hole, or withheld */
    RANGE_SLEEPS,
    RANGE_STAYS,    /* a block that stays awake, or free memory of a captured graph */
    RANGE_UNSETTLED /* a block that is neither held nor free */
};

struct sleep_range {
    uint64_t region;
    uint64_t address;
    uint64_t size;
    size_t block;  /* RANGE_SLEEPS: index in the plan */
    size_t blocks; /* entries from there on: 0 for a block that sleeps and needs nothing, several for a reserved one */
    weir_tick tick;
    weir_lane lane;
    enum range_kind kind;
};

void weir__sleep_set_asleep(weir_block *block, bool asleep)
{
    WEIR_ASSERT(state_of(block) == (asleep ? BLOCK_LIVE : BLOCK_ASLEEP));
    const uint32_t to = BLOCK_WORD(asleep ? BLOCK_ASLEEP : BLOCK_LIVE);
    block_set_word(block, (state_word(block) & ~BLOCK_WORD(0x3f)) | to);
}

/* Marks a live block as sleeping. Returns false if another thread has freed it meanwhile, without a lock. */
static bool mark(weir_block *block)
{
    uint32_t word = state_word(block);
    return state_in(word) == BLOCK_LIVE &&
           __atomic_compare_exchange_n(&block->record.state, &word,
                                       word - BLOCK_WORD(BLOCK_LIVE) + BLOCK_WORD(BLOCK_ASLEEP), false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* --- records --- */

struct pool_sleep *weir__sleep_records_locked(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    if (pool->sleep == NULL) {
        pool->sleep = calloc(1, sizeof(*pool->sleep));
    }
    return pool->sleep;
}

void weir__sleep_absent_locked(const weir_pool *pool, struct absent *absent)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_sleep *sleep = pool->sleep;
    *absent = (struct absent){0};
    for (size_t i = 0; sleep != NULL && i < sleep->count; i++) {
        const struct asleep *asleep = &sleep->blocks[i];
        if (!weir__vm_has_memory_locked(pool, asleep->address, asleep->size)) {
            const bool whole = reservation_of(asleep->block) == NULL;
            const uint64_t requested = whole ? block_requested(asleep->block) : asleep->size;
            absent->live += asleep->size;
            absent->requested += requested;
            absent->by_tag[asleep->tag] += requested;
        }
    }
}

/* Returns the number of the first record at or above the address. */
static size_t find(const struct pool_sleep *sleep, uint64_t address)
{
    WEIR_ASSERT(sleep != NULL);
    size_t low = 0;
    size_t high = sleep->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        *(sleep->blocks[middle].address < address ? &low : &high) =
            sleep->blocks[middle].address < address ? middle + 1 : middle;
    }
    return low;
}

size_t weir__sleep_find(const struct pool_sleep *sleep, const weir_block *block, size_t *count)
{
    const size_t first = find(sleep, block_address(block));
    *count = find(sleep, block_end(block)) - first;
    return first;
}

/* Removes the records of a block. */
static void remove_records(struct pool_sleep *sleep, const weir_block *block)
{
    size_t count = 0;
    const size_t first = weir__sleep_find(sleep, block, &count);
    WEIR_ASSERT(count != 0);
    for (size_t i = first; i < first + count; i++) {
        if (sleep->blocks[i].host != NULL) {
            sleep->copies[sleep->blocks[i].copy].blocks--;
        }
    }
    memmove(&sleep->blocks[first], &sleep->blocks[first + count],
            (sleep->count - first - count) * sizeof(*sleep->blocks));
    sleep->count -= count;
}

void weir__sleep_free_locked(weir_pool *pool, weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken && state_of(block) == BLOCK_ASLEEP);
    remove_records(pool->sleep, block);
    /* The room was made when the block fell asleep. */
    weir__vm_withhold_block_locked(pool, block, WEIR_LANE_OPEN, 0);
    (void)weir__vm_promise_locked(pool, pool->sleep->count);
    weir__vm_settle_withheld_locked(pool);
}

void weir__sleep_forget_locked(weir_pool *pool, weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken && state_of(block) == BLOCK_ASLEEP);
    remove_records(pool->sleep, block);
    (void)weir__vm_promise_locked(pool, pool->sleep->count);
    weir__sleep_set_asleep(block, false);
}

void weir__sleep_give_copies(weir_pool *pool, bool all)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    struct pool_sleep *sleep = pool->sleep;
    for (size_t i = 0; sleep != NULL && i < sleep->copy_count; i++) {
        struct sleep_copy *copy = &sleep->copies[i];
        if (copy->host != NULL && (all || copy->blocks == 0)) {
            char *host = copy->host;
            copy->host = NULL;
            copy->store.give(copy->store.ctx, host, copy->size);
        }
    }
    while (sleep != NULL && sleep->copy_count > 0 && sleep->copies[sleep->copy_count - 1].host == NULL) {
        sleep->copy_count--;
    }
}

void weir__sleep_fini(weir_pool *pool)
{
    if (pool->sleep != NULL) {
        free(pool->sleep->blocks);
        free(pool->sleep->copies);
        free(pool->sleep);
    }
}

/* --- the plan: streams to wait for --- */

static void wait_for(struct sleep_plan *plan, const weir_stream *stream)
{
    WEIR_ASSERT(plan->waits != NULL);
    WEIR_ASSERT(stream->lane < plan->lanes);
    plan->waits[stream->lane] |= !stream->retired && !is_stand_in(stream);
}

static void wait_for_block(struct sleep_plan *plan, const weir_block *block)
{
    WEIR_ASSERT(block_stream(block) != NULL);
    const struct block_uses *uses = block_uses(block);
    wait_for(plan, block_stream(block));
    for (const struct weir_use *use = uses != NULL ? uses->first : NULL; use != NULL; use = use->next) {
        if (use->stream->serial == use->serial) {
            wait_for(plan, use->stream);
        }
    }
}

/* --- the plan: ranges --- */

struct seeing {
    weir_pool *pool;
    struct sleep_plan *plan;
    bool failed; /* no host memory */
};

/* Adds an entry to the plan. Returns false when out of host memory. */
static bool add_entry(struct seeing *seeing, struct sleep_range *range, const struct asleep *entry)
{
    struct sleep_plan *plan = seeing->plan;
    if (!weir__vm_reserve((void **)&plan->blocks, plan->count + 1, &plan->room, sizeof(*plan->blocks))) {
        seeing->failed = true;
        return false;
    }
    plan->blocks[plan->count++] = *entry;
    range->blocks++;
    return true;
}

/* Adds what is known of a sleeping block to the plan, unless all that can go has gone. */
static void see_asleep(struct seeing *seeing, const weir_block *block, struct sleep_range *range)
{
    const struct pool_sleep *sleep = seeing->pool->sleep;
    size_t count = 0;
    WEIR_ASSERT(state_of(block) == BLOCK_ASLEEP);
    const size_t first = weir__sleep_find(sleep, block, &count);
    bool added = true;
    for (size_t i = first; i < first + count && added; i++) {
        struct asleep entry = sleep->blocks[i];
        entry.slept = true;
        added = (entry.host != NULL && entry.told) || add_entry(seeing, range, &entry);
    }
}

/* Adds a live block to the plan: of a reserved one, each run of committed units. */
static void see_live(struct seeing *seeing, weir_block *block, struct sleep_range *range, uint8_t policy)
{
    const struct reservation *reserved = reservation_of(block);
    struct asleep entry = {
        .block = block, .address = range->address, .size = range->size, .tag = tag_of(block), .policy = policy};
    if (reserved == NULL) {
        (void)add_entry(seeing, range, &entry);
        return;
    }
    bool added = true;
    for (struct unit_run run = {0}; added && next_run(reserved, &run);) {
        if (run.state == UNIT_COMMITTED) {
            entry.address = unit_address(reserved, run.first);
            entry.size = (run.end - run.first) * reserved->unit;
            entry.follows = range->blocks > 0;
            added = add_entry(seeing, range, &entry);
        }
    }
}

/* Notes the streams that may still use memory of the block that has been decommitted: that memory goes, too. */
static void wait_for_leaving(const struct seeing *seeing, const weir_block *block)
{
    for (const struct leaving *leaving = seeing->pool->leaving; leaving != NULL; leaving = leaving->next) {
        const struct weir_use *use = leaving->of == reservation_of(block) ? leaving->uses : NULL;
        for (; use != NULL; use = use->next) {
            if (!weir__reserved_use_is_over(seeing->pool, use)) {
                wait_for(seeing->plan, use->stream);
            }
        }
    }
}

static enum range_kind see_block(struct seeing *seeing, weir_block *block, struct sleep_range *range)
{
    struct sleep_plan *plan = seeing->plan;
    const weir_block_state state = state_of(block);
    if (!is_held(state)) {
        return reservation_of(block) != NULL ? RANGE_NOTHING : RANGE_UNSETTLED;
    }
    size_t count = 0;
    const size_t first = state == BLOCK_ASLEEP ? weir__sleep_find(seeing->pool->sleep, block, &count) : 0;
    const uint8_t policy = count > 0 ? seeing->pool->sleep->blocks[first].policy : plan->policies[tag_of(block)];
    if (policy == WEIR_SLEEP_STAY) {
        return RANGE_STAYS;
    }
    range->block = plan->count;
    if (state == BLOCK_ASLEEP) {
        see_asleep(seeing, block, range);
    } else {
        see_live(seeing, block, range, policy);
    }
    if (reservation_of(block) != NULL) {
        wait_for_leaving(seeing, block);
    }
    return seeing->failed ? RANGE_STAYS : RANGE_SLEEPS;
}

static bool see_range(void *ctx, const weir_range_info *info)
{
    struct seeing *seeing = ctx;
    struct sleep_plan *plan = seeing->plan;
    const weir_pool *pool = seeing->pool;
    if (!weir__vm_reserve((void **)&plan->ranges, plan->range_count + 1, &plan->range_room, sizeof(*plan->ranges))) {
        seeing->failed = true;
        return false;
    }
    struct sleep_range *range = &plan->ranges[plan->range_count++];
    *range = (struct sleep_range){.region = info->region_address,
                                  .address = info->address,
                                  .size = info->size,
                                  .lane = info->lane,
                                  .tick = info->tick,
                                  .kind = RANGE_FREE};
    if (info->taken && state_of(info->token) != BLOCK_UNUSED) {
        range->kind = see_block(seeing, info->token, range);
    } else if (info->taken || info->lane == WEIR_LANE_UNMAPPED) {
        range->kind = RANGE_NOTHING;
    } else if (info->lane != WEIR_LANE_OPEN && is_stand_in(pool->streams[info->lane])) {
        range->kind = RANGE_STAYS;
    }
    return !seeing->failed;
}

/* --- the plan: handles --- */

/* True if range `number` exists, belongs to the span, and begins below `end`. */
static bool lies_below(const struct sleep_plan *plan, size_t number, const struct vm_span *span, uint64_t end)
{
    return number < plan->range_count && plan->ranges[number].region == span->address &&
           plan->ranges[number].address < end;
}

/* Judges the handle at [address, end) by the ranges in it, of which number `first` is the first. Returns true if the
 * handle can go. */
static bool judge(const weir_pool *pool, struct sleep_plan *plan, const struct vm_span *span, size_t first,
                  uint64_t address, uint64_t end)
{
    bool sleeps = false;
    bool stays = false;
    bool unsettled = false;
    for (size_t i = first; lies_below(plan, i, span, end); i++) {
        sleeps |= plan->ranges[i].kind == RANGE_SLEEPS;
        stays |= plan->ranges[i].kind == RANGE_STAYS;
        unsettled |= plan->ranges[i].kind == RANGE_UNSETTLED;
    }
    if (!sleeps || stays) {
        return false;
    }
    plan->unsettled |= unsettled;
    if (weir__pins_locked(pool, address) != 0) {
        plan->obstacle = "memory that would go is pinned";
        plan->at = address;
    }
    return !unsettled;
}

/* Withholds the part of a free range that lies in [address, end), and notes the stream that may still use it. */
static weir_status withhold(weir_pool *pool, struct sleep_plan *plan, const struct sleep_range *range, uint64_t address,
                            uint64_t end)
{
    WEIR_ASSERT(range->kind == RANGE_FREE && address < end);
    const uint64_t from = range->address > address ? range->address : address;
    const uint64_t to = range->address + range->size < end ? range->address + range->size : end;
    if (range->lane != WEIR_LANE_OPEN && range->tick > pool->done[range->lane]) {
        wait_for(plan, pool->streams[range->lane]);
    }
    return weir__vm_withhold_locked(pool, from, to - from, range->lane, range->tick);
}

/* Adds a handle that can go: notes its blocks and withholds its free memory. */
static weir_status add_handle(weir_pool *pool, struct sleep_plan *plan, const struct vm_span *span, size_t first,
                              uint64_t address, uint64_t end)
{
    WEIR_ASSERT(address < end);
    if (!weir__vm_reserve((void **)&plan->handles, plan->handle_count + 1, &plan->handle_room,
                          sizeof(*plan->handles))) {
        return WEIR_ERR_NO_MEMORY;
    }
    plan->handles[plan->handle_count++] = address;
    weir_status status = WEIR_OK;
    for (size_t i = first; lies_below(plan, i, span, end) && status == WEIR_OK; i++) {
        const struct sleep_range *range = &plan->ranges[i];
        if (range->kind == RANGE_FREE) {
            status = withhold(pool, plan, range, address, end);
        }
        for (size_t block = range->block; range->kind == RANGE_SLEEPS && block < range->block + range->blocks;
             block++) {
            struct asleep *entry = &plan->blocks[block];
            entry->bare |= entry->address < end && entry->address + entry->size > address;
        }
    }
    return status;
}

/* True if the address is in a unit of a reserved block whose memory goes by itself, when its work is complete. */
static bool leaves(const struct vm_span *span, uint64_t address)
{
    const struct reservation *reserved = span->reserved;
    return reserved != NULL && unit_state(reserved, unit_at(reserved, address)) >= UNIT_LEAVING;
}

/* Adds the handles of a span that can go. Returns the number of the first range behind the span. */
static size_t plan_span(weir_pool *pool, struct sleep_plan *plan, const struct vm_span *span, size_t range,
                        weir_status *status)
{
    const struct pool_vm *vm = pool->vm;
    for (uint64_t i = 0; i < span->used && *status == WEIR_OK; i++) {
        const struct vm_granule *granule = &span->granules[i];
        const uint64_t address = span->address + (i << vm->granule_shift);
        if (granule->handle == 0 || granule->at != 0 || granule->token != NULL || leaves(span, address)) {
            continue;
        }
        const uint64_t end = address + ((uint64_t)granule->of << vm->granule_shift);
        while (lies_below(plan, range, span, end) &&
               plan->ranges[range].address + plan->ranges[range].size <= address) {
            range++;
        }
        if (judge(pool, plan, span, range, address, end)) {
            *status = add_handle(pool, plan, span, range, address, end);
        }
    }
    while (lies_below(plan, range, span, UINT64_MAX)) {
        range++;
    }
    return range;
}

/* --- the plan --- */

void weir__sleep_undo_plan_locked(struct sleep_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (!plan->blocks[i].slept && state_of(plan->blocks[i].block) == BLOCK_ASLEEP) {
            weir__sleep_set_asleep(plan->blocks[i].block, false);
        }
    }
}

void weir__sleep_plan_fini(struct sleep_plan *plan)
{
    free(plan->blocks);
    free(plan->handles);
    free(plan->waits);
    free(plan->ranges);
}

/* A pending block becomes free when the streams that use it have got past its free. */
static void see_pending(void *ctx, weir_block *block)
{
    const struct seeing *seeing = ctx;
    if (state_of(block) == BLOCK_PENDING) {
        wait_for_block(seeing->plan, block);
    }
}

weir_status weir__sleep_plan_locked(weir_pool *pool, struct sleep_plan *plan)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    struct seeing seeing = {.pool = pool, .plan = plan};
    plan->lanes = pool->lanes;
    plan->waits = calloc(plan->lanes, sizeof(*plan->waits));
    if (plan->waits == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->strategy->walk(pool->state, see_range, &seeing);
    if (seeing.failed || !weir__vm_promise_locked(pool, pool->sleep->count + plan->count)) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < plan->count; i++) {
        const struct asleep *entry = &plan->blocks[i];
        plan->unsettled |= !entry->slept && !entry->follows && !mark(entry->block);
        wait_for_block(plan, entry->block);
    }
    weir_status status = WEIR_OK;
    size_t range = 0;
    for (const struct vm_span *span = pool->vm->spans; span != NULL && status == WEIR_OK; span = span->next) {
        range = plan_span(pool, plan, span, range, &status);
    }
    if (plan->unsettled) {
        weir__block_each_locked(pool, see_pending, &seeing);
    }
    if (status != WEIR_OK || plan->unsettled || plan->obstacle != NULL) {
        weir__sleep_undo_plan_locked(plan);
    }
    return status;
}
