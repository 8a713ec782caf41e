/* core/src/services/sleep.c: weir_pool_sleep and weir_pool_wake (weir/sleep.h).
 *
 * Idea: both calls take the turn to grow, so no other thread maps or unmaps meanwhile. A sleep plans (memory/asleep.c),
 * waits for the streams that may touch the memory, copies the contents to host memory, and takes the handles away. A
 * wake puts memory under the blocks, copies back, and makes the blocks live. Nothing that the call cannot undo happens
 * before its last step: handles are destroyed when all are unmapped, host copies go when all contents are back.
 *
 * Guarantee: contents are in the memory of a block or in its host copy at any time; see "Failures" in weir/sleep.h.
 *
 * Cost: one pass over the ranges of the pool under all locks, for a sleep; two device calls for each handle; the
 * copies.
 */
#include "memory/asleep.h"
#include "memory/vm_internal.h"
#include "pool/pool.h"
#include "shared/round_up.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    most_plans = 16, /* tries to plan a sleep while other threads free blocks */
    poison = 0xdd,   /* contents of a discarded block, in checked builds */
};
/* Copies of blocks of one tag share host memory of at most this many bytes, unless one block needs more. */
static const uint64_t copy_bytes = UINT64_C(256) << 20;
/* A block's copy begins at a multiple of this in host memory. */
static const uint64_t copy_align = 64;

/* --- pageable memory, where the caller names no store --- */

static weir_status take_pageable(void *ctx, uint64_t size, void **host)
{
    (void)ctx;
    *host = size <= SIZE_MAX - 4096 ? aligned_alloc(4096, round_up(size, 4096)) : NULL;
    return *host != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static void give_pageable(void *ctx, void *host, uint64_t size)
{
    (void)ctx, (void)size;
    free(host);
}

/* --- the call --- */

/* One call of weir_pool_sleep or weir_pool_wake, under way. */
struct call {
    weir_pool *pool;
    struct pool_sleep *sleep;
    weir_sleep_store store;
    weir_sleep_report report;
    struct copy_list {
        weir_copy *pieces;
        size_t count;
        size_t room;
    } list;
};

/* Takes the turn to grow. The pool has virtual memory. */
static weir_status begin(struct call *call)
{
    WEIR_ASSERT(call->pool->vm != NULL);
    weir_pool *pool = call->pool;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    call->sleep = weir__sleep_records_locked(pool);
    pool->growth.taken = call->sleep != NULL;
    pool_unlock(pool);
    return call->sleep != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static void sum_up(weir_pool *pool, weir_sleep_report *report)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const struct pool_sleep *sleep = pool->sleep;
    for (size_t i = 0; sleep != NULL && i < sleep->copy_count; i++) {
        report->host_bytes += sleep->copies[i].host != NULL ? sleep->copies[i].size : 0;
    }
    for (size_t i = 0; sleep != NULL && i < sleep->count; i++) {
        const struct asleep *asleep = &sleep->blocks[i];
        report->asleep_blocks += !asleep->follows;
        report->asleep_bytes += asleep->size;
        report->kept_bytes += asleep->host != NULL ? asleep->size : 0;
        report->left_bytes += weir__vm_has_memory_locked(pool, asleep->address, asleep->size) ? asleep->size : 0;
    }
}

static void end(struct call *call)
{
    WEIR_ASSERT(call->pool->growth.taken && outside_pool_lock(call->pool));
    weir_pool *pool = call->pool;
    weir__sleep_give_copies(pool, false);
    pool_lock(pool);
    sum_up(pool, &call->report);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    free(call->list.pieces);
}

/* --- copies --- */

static bool add_piece(struct call *call, const weir_copy *piece)
{
    WEIR_ASSERT(piece->size != 0 && piece->address != 0);
    struct copy_list *list = &call->list;
    if (!weir__vm_reserve((void **)&list->pieces, list->count + 1, &list->room, sizeof(*list->pieces))) {
        return false;
    }
    list->pieces[list->count++] = *piece;
    return true;
}

/* Makes the copies of the list and empties it. */
static weir_status run_copies(struct call *call)
{
    WEIR_ASSERT(outside_pool_lock(call->pool));
    struct copy_list *list = &call->list;
    const weir_status status =
        list->count > 0 ? weir_device_copy(call->pool->device, list->pieces, list->count) : WEIR_OK;
    for (size_t i = 0; i < list->count && status == WEIR_OK; i++) {
        call->report.copied_bytes += list->pieces[i].size;
    }
    call->report.copies += status == WEIR_OK ? list->count : 0;
    if (status != WEIR_OK) {
        pool_lock(call->pool);
        call->pool->counts.device_failures++;
        pool_unlock(call->pool);
    }
    list->count = 0;
    return status;
}

static bool needs_copy(const struct asleep *block)
{
    WEIR_ASSERT(block->size != 0);
    return block->bare && block->policy == WEIR_SLEEP_KEEP && block->host == NULL;
}

/* Lays out the copies of the blocks in host memory, tag by tag in the order of addresses: entries of sleep->copies from
 * `first` on, without memory yet. Returns false when out of host memory for the records. */
static bool lay_out(struct call *call, struct sleep_plan *plan)
{
    WEIR_ASSERT(call->store.take != NULL && call->store.give != NULL);
    struct pool_sleep *sleep = call->sleep;
    size_t open[WEIR_TAGS] = {0}; /* one more than the index of the copy that a tag fills; 0: none */
    for (size_t i = 0; i < plan->count; i++) {
        struct asleep *block = &plan->blocks[i];
        if (!needs_copy(block)) {
            continue;
        }
        const uint64_t size = round_up(block->size, copy_align);
        struct sleep_copy *copy = open[block->tag] != 0 ? &sleep->copies[open[block->tag] - 1] : NULL;
        if (copy == NULL || copy->filled + size > copy_bytes) {
            if (!weir__vm_reserve((void **)&sleep->copies, sleep->copy_count + 1, &sleep->copy_room,
                                  sizeof(*sleep->copies))) {
                return false;
            }
            copy = &sleep->copies[sleep->copy_count++];
            *copy = (struct sleep_copy){.store = call->store};
            open[block->tag] = sleep->copy_count;
        }
        block->copy = open[block->tag] - 1;
        block->at = copy->filled;
        copy->filled += size;
        copy->blocks++;
    }
    return true;
}

static weir_status take_host_memory(struct call *call, size_t first)
{
    WEIR_ASSERT(first <= call->sleep->copy_count && outside_pool_lock(call->pool));
    weir_status status = WEIR_OK;
    for (size_t i = first; i < call->sleep->copy_count && status == WEIR_OK; i++) {
        struct sleep_copy *copy = &call->sleep->copies[i];
        void *host = NULL;
        status = copy->store.take(copy->store.ctx, copy->filled, &host);
        copy->host = host;
        copy->size = copy->filled;
    }
    return status;
}

/* Copies the contents that go away to host memory. After a failure no block of the plan has a new copy. */
static weir_status save(struct call *call, struct sleep_plan *plan)
{
    WEIR_ASSERT(call->pool->growth.taken);
    struct pool_sleep *sleep = call->sleep;
    const size_t first = sleep->copy_count;
    weir_status status = lay_out(call, plan) ? take_host_memory(call, first) : WEIR_ERR_NO_MEMORY;
    for (size_t i = 0; i < plan->count && status == WEIR_OK; i++) {
        struct asleep *block = &plan->blocks[i];
        if (needs_copy(block)) {
            block->host = sleep->copies[block->copy].host + block->at;
            const weir_copy piece = {
                .address = block->address, .size = block->size, .host = block->host, .to_host = true};
            status = add_piece(call, &piece) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
        }
    }
    status = status == WEIR_OK ? run_copies(call) : status;
    for (size_t i = first; i < sleep->copy_count && status != WEIR_OK; i++) {
        sleep->copies[i].blocks = 0;
    }
    return status;
}

/* Tells observers that a block sleeps, or that it has memory, unless they know. No lock held. */
static void tell(struct asleep *block, bool sleeps)
{
    WEIR_ASSERT(state_of(block->block) == BLOCK_ASLEEP || !sleeps);
    if (block->told != sleeps) {
        block->told = sleeps;
        weir__watch_sleep(block->block, block->address, block->address + block->size, sleeps);
    }
}

/* Maps the handles under a block that an earlier call has left apart. Pool lock held, released for the device calls. */
static weir_status rejoin(weir_pool *pool, const struct asleep *block)
{
    WEIR_ASSERT(pool->growth.taken && state_of(block->block) == BLOCK_ASLEEP);
    const uint64_t granule = weir__vm_granule(pool);
    weir_status status = WEIR_OK;
    uint64_t at = block->address & ~(granule - 1);
    for (; at < block->address + block->size && status == WEIR_OK; at += granule) {
        status = weir__vm_is_apart_locked(pool, at) ? weir__vm_rejoin(pool, at) : WEIR_OK;
    }
    return status;
}

/* Maps all handles that are apart. Sleeping blocks that have all their memory, by this or because a block beside them
 * has woken, are no longer told as asleep: a copy may touch them. */
static weir_status rejoin_all(struct call *call)
{
    weir_pool *pool = call->pool;
    weir_status status = WEIR_OK;
    pool_lock(pool);
    for (size_t i = 0; i < call->sleep->count && status == WEIR_OK; i++) {
        status = rejoin(pool, &call->sleep->blocks[i]);
    }
    status = status == WEIR_OK ? weir__vm_rejoin_withheld(pool) : status;
    pool_unlock(pool);
    for (size_t i = 0; i < call->sleep->count; i++) {
        struct asleep *block = &call->sleep->blocks[i];
        pool_lock(pool);
        const bool there = weir__vm_has_memory_locked(pool, block->address, block->size);
        pool_unlock(pool);
        if (there) {
            tell(block, false);
        }
    }
    return status;
}

/* Gives idle memory back, at least `bytes`, or all. */
static void give_idle_back(weir_pool *pool, uint64_t bytes)
{
    WEIR_ASSERT(pool_is_locked(pool) && bytes != 0);
    weir_status ignored = weir__reserved_settle(pool, NULL);
    (void)weir__vm_drop_spares(pool, 0, &ignored);
    (void)weir__vm_unmap_idle(pool, NULL, 0, (bytes - 1) / weir__vm_granule(pool) + 1, &ignored);
    ignored = WEIR_OK;
    (void)weir__vm_drop_spares(pool, 0, &ignored);
}

/* --- sleep --- */

/* Waits for the streams that the plan names. */
static weir_status wait_for_streams(struct call *call, const struct sleep_plan *plan)
{
    WEIR_ASSERT(plan->lanes <= call->pool->lanes);
    weir_pool *pool = call->pool;
    weir_status status = WEIR_OK;
    for (size_t lane = 1; lane < plan->lanes && status == WEIR_OK; lane++) {
        if (!plan->waits[lane]) {
            continue;
        }
        pool_lock(pool);
        weir_stream *stream = pool->streams[lane];
        pool_unlock(pool);
        status = pool->ordered ? weir__order_sync(pool, stream) : WEIR_OK;
        call->report.waits += status == WEIR_OK;
        if (status == WEIR_ERR_BUSY) {
            (void)!weir_refuse(status,
                               "weir_pool_sleep: stream %p, which uses a block that would sleep, is being captured",
                               stream->native);
        }
    }
    return status;
}

/* One try to plan the sleep. The plan is empty if it could not be made. */
static weir_status plan_once(struct call *call, struct sleep_plan *plan)
{
    WEIR_ASSERT(plan->count == 0 && plan->policies != NULL);
    weir_pool *pool = call->pool;
    weir__pool_lock_all(pool);
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        weir__order_flush_cache_locked(pool->streams[lane]);
    }
    const weir_status status = weir__sleep_plan_locked(pool, plan);
    if (status != WEIR_OK || plan->unsettled || plan->obstacle != NULL) {
        weir__vm_settle_withheld_locked(pool);
    }
    weir__pool_unlock_all(pool);
    return status;
}

/* Plans until no block is on its way to be free. */
static weir_status make_plan(struct call *call, struct sleep_plan *plan)
{
    const uint8_t *policies = plan->policies;
    weir_status status = WEIR_OK;
    for (int tries = 0; tries < most_plans && status == WEIR_OK; tries++) {
        status = plan_once(call, plan);
        if (status == WEIR_OK && plan->obstacle != NULL) {
            return weir_refuse(WEIR_ERR_BUSY, "weir_pool_sleep: %s, at 0x%" PRIx64, plan->obstacle, plan->at);
        }
        if (status == WEIR_OK && !plan->unsettled) {
            return WEIR_OK;
        }
        status = status == WEIR_OK ? wait_for_streams(call, plan) : status;
        (void)weir__order_poll(call->pool);
        weir__sleep_plan_fini(plan);
        *plan = (struct sleep_plan){.policies = policies};
    }
    return status != WEIR_OK ? status
                             : weir_refuse(WEIR_ERR_BUSY, "weir_pool_sleep: other threads kept freeing blocks beside "
                                                          "those that would sleep");
}

static int by_address(const void *left, const void *right)
{
    const struct asleep *a = left;
    const struct asleep *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

/* Enters the blocks of the plan, for which there is room, in the records. A block that slept before gets its copy. */
static void enter(struct call *call, const struct sleep_plan *plan)
{
    WEIR_ASSERT(pool_is_locked(call->pool));
    struct pool_sleep *sleep = call->sleep;
    const size_t before = sleep->count;
    for (size_t i = 0; i < plan->count; i++) {
        const struct asleep *block = &plan->blocks[i];
        struct asleep *known = block->slept ? bsearch(block, sleep->blocks, before, sizeof(*block), by_address) : NULL;
        known = known != NULL ? known : &sleep->blocks[sleep->count++];
        *known = *block;
        call->report.blocks += !block->slept && !block->follows;
        call->report.bytes += block->slept ? 0 : block->size;
    }
    if (sleep->count > 0) { /* else there may be no array */
        qsort(sleep->blocks, sleep->count, sizeof(*sleep->blocks), by_address);
    }
}

/* Returns the number of the first entry behind those of the block of entry `first`. */
static size_t group_end(const struct asleep *blocks, size_t count, size_t first)
{
    size_t end = first + 1;
    WEIR_ASSERT(first < count);
    while (end < count && blocks[end].block == blocks[first].block) {
        end++;
    }
    return end;
}

/* Notes which blocks of the plan lack some of their memory. */
static void find_apart(const weir_pool *pool, const struct sleep_plan *plan)
{
    WEIR_ASSERT(pool_is_locked(pool));
    for (size_t i = 0, end = 0; i < plan->count; i = end) {
        bool there = true;
        end = group_end(plan->blocks, plan->count, i);
        for (size_t k = i; k < end; k++) {
            there = there && weir__vm_has_memory_locked(pool, plan->blocks[k].address, plan->blocks[k].size);
        }
        for (size_t k = i; k < end; k++) {
            plan->blocks[k].apart = !there;
        }
    }
}

/* Makes the blocks live again whose memory is there, and enters those in the records whose memory is apart: the first
 * blocks of the plan then, of which it returns the number. */
static size_t keep_apart(struct call *call, struct sleep_plan *plan)
{
    WEIR_ASSERT(pool_is_locked(call->pool));
    weir_pool *pool = call->pool;
    const size_t count = plan->count;
    size_t apart = 0;
    find_apart(pool, plan);
    for (size_t i = 0; i < plan->count; i++) {
        struct asleep *block = &plan->blocks[i];
        const bool there = weir__vm_has_memory_locked(pool, block->address, block->size);
        if (there && block->host != NULL && !block->slept) { /* else the copy may be all that there is */
            call->sleep->copies[block->copy].blocks--;
            block->host = NULL;
        }
        if (!block->apart && !block->slept) {
            if (!block->follows) {
                weir__sleep_set_asleep(block->block, false);
            }
        } else {
            const struct asleep other = plan->blocks[apart];
            if (!block->slept) {
                block->policy = WEIR_SLEEP_KEEP; /* the handles have the contents */
            }
            plan->blocks[apart++] = *block;
            *block = other;
        }
    }
    plan->count = apart;
    enter(call, plan);
    plan->count = count;
    return apart;
}

/* Tells observers of the blocks of the plan, from number `first` on, that lose their memory or have lost it. */
static void tell_all(const struct sleep_plan *plan, size_t first, bool sleeps)
{
    for (size_t i = first; i < plan->count; i++) {
        if (plan->blocks[i].bare) {
            tell(&plan->blocks[i], sleeps);
        }
    }
}

/* The last step: takes the handles away. */
static weir_status take_away(struct call *call, struct sleep_plan *plan)
{
    WEIR_ASSERT(!plan->unsettled && plan->obstacle == NULL);
    weir_pool *pool = call->pool;
    struct pool_sleep *sleep = call->sleep;
    size_t apart = 0;
    tell_all(plan, 0, true);
    pool_lock(pool);
    weir_status status =
        weir__vm_reserve((void **)&sleep->blocks, sleep->count + plan->count, &sleep->room, sizeof(*sleep->blocks))
            ? WEIR_OK
            : WEIR_ERR_NO_MEMORY;
    const uint64_t before = pool->held.bytes;
    if (status == WEIR_OK && plan->handle_count > 0) {
        status = weir__vm_uncover(pool, plan->handles, plan->handle_count);
    }
    if (status == WEIR_OK) {
        weir__vm_open_withheld_locked(pool);
        enter(call, plan);
        weir__vm_settle_withheld_locked(pool);
        give_idle_back(pool, UINT64_MAX / 2); /* handles that the device does not take back stay spare ones */
        call->report.device_bytes += before - pool->held.bytes;
    } else {
        apart = keep_apart(call, plan);
    }
    weir__vm_settle_withheld_locked(pool);
    (void)weir__vm_promise_locked(pool, sleep->count);
    pool_unlock(pool);
    if (status != WEIR_OK) {
        tell_all(plan, apart, false);
    }
    return status;
}

static void undo(struct call *call, struct sleep_plan *plan)
{
    WEIR_ASSERT(outside_pool_lock(call->pool));
    weir_pool *pool = call->pool;
    pool_lock(pool);
    weir__sleep_undo_plan_locked(plan);
    weir__vm_settle_withheld_locked(pool);
    (void)weir__vm_promise_locked(pool, call->sleep->count);
    pool_unlock(pool);
}

static weir_status sleep_now(struct call *call, const uint8_t *policies)
{
    struct sleep_plan plan = {.policies = policies};
    weir_status status = rejoin_all(call);
    status = status == WEIR_OK ? make_plan(call, &plan) : status;
    if (status == WEIR_OK) {
        status = wait_for_streams(call, &plan);
        status = status == WEIR_OK ? save(call, &plan) : status;
        if (status == WEIR_OK) {
            status = take_away(call, &plan);
        } else {
            undo(call, &plan);
        }
    }
    weir__sleep_plan_fini(&plan);
    return status;
}

static weir_status read_rules(const weir_pool *pool, const weir_sleep_config *config, uint8_t *policies)
{
    bool seen[WEIR_TAGS] = {false};
    if (config->rule_count > 0 && config->rules == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_sleep: config.rules is NULL");
    }
    for (size_t i = 0; i < config->rule_count; i++) {
        const weir_sleep_rule *rule = &config->rules[i];
        if (weir_pool_tag_name(pool, rule->tag) == NULL) {
            return weir_refuse(WEIR_ERR_INVALID, "weir_pool_sleep: config.rules[%zu]: the pool has no tag %u", i,
                               (unsigned)rule->tag);
        }
        if ((unsigned)rule->policy > WEIR_SLEEP_STAY) {
            return weir_refuse(WEIR_ERR_INVALID, "weir_pool_sleep: config.rules[%zu]: %d is no weir_sleep_policy", i,
                               (int)rule->policy);
        }
        if (seen[rule->tag]) {
            return weir_refuse(WEIR_ERR_INVALID, "weir_pool_sleep: config.rules[%zu]: a second rule for tag %u (%s)", i,
                               (unsigned)rule->tag, weir_pool_tag_name(pool, rule->tag));
        }
        seen[rule->tag] = true;
        policies[rule->tag] = (uint8_t)rule->policy;
    }
    return WEIR_OK;
}

static weir_status check_sleep(weir_pool *pool, const weir_sleep_config *config)
{
    if ((config->store.take == NULL) != (config->store.give == NULL)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_sleep: config.store.%s is NULL",
                           config->store.take == NULL ? "take" : "give");
    }
    if (pool->vm == NULL) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_pool_sleep: the pool has no virtual memory, so a block would lose its address");
    }
    const weir_copy none = {0};
    return weir_device_copy(pool->device, &none, 0) != WEIR_ERR_UNSUPPORTED
               ? WEIR_OK
               : weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_pool_sleep: the pool's device does not copy");
}

/* Stores the report, also after a failure. */
static weir_status answer(weir_sleep_report *out, weir_sleep_report *report, weir_status status, const char *what)
{
    if (out == NULL) {
        return status;
    }
    report->struct_size = sizeof(*report);
    const weir_status stored = weir_struct_report(out, report, sizeof(*report), what);
    return status != WEIR_OK ? status : stored;
}

weir_status weir_pool_sleep(weir_pool *pool, const weir_sleep_config *config, weir_sleep_report *report)
{
    static const weir_sleep_config usual = WEIR_SLEEP_CONFIG_INIT;
    weir_sleep_config own;
    uint8_t policies[WEIR_TAGS] = {WEIR_SLEEP_KEEP};
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_sleep: pool is NULL");
    }
    weir_status status =
        weir_struct_adopt(&own, sizeof(own), config != NULL ? config : &usual, "weir_pool_sleep: config");
    status = status == WEIR_OK ? read_rules(pool, &own, policies) : status;
    status = status == WEIR_OK ? check_sleep(pool, &own) : status;
    if (status != WEIR_OK) {
        return status;
    }
    struct call call = {.pool = pool, .store = own.store};
    if (own.store.take == NULL) {
        call.store = (weir_sleep_store){.take = take_pageable, .give = give_pageable};
    }
    status = begin(&call);
    if (status != WEIR_OK) {
        return status;
    }
    status = sleep_now(&call, policies);
    end(&call);
    return answer(report, &call.report, status, "weir_pool_sleep: report");
}

/* --- wake --- */

/* A stage of a wake: the sleeping blocks that it wakes, and the runs of granules that they lack. */
struct stage {
    bool wakes[WEIR_TAGS];
    bool keeps; /* true: the blocks with a copy; false: the others */
    struct run {
        uint64_t first;
        uint64_t end;
    } * runs;
    size_t count;
    size_t room;
    uint64_t lacking; /* bytes */
};

static bool is_in(const struct stage *stage, const struct asleep *block)
{
    WEIR_ASSERT(block->tag < WEIR_TAGS);
    return stage->wakes[block->tag] && stage->keeps == (block->host != NULL);
}

static bool add_run(const struct pool_vm *vm, struct stage *stage, uint64_t first, uint64_t end)
{
    WEIR_ASSERT(first < end);
    struct run *last = stage->count > 0 ? &stage->runs[stage->count - 1] : NULL;
    if (last != NULL && last->end == first && vm_span_of(vm, last->first) == vm_span_of(vm, first)) {
        last->end = end;
    } else if (!weir__vm_reserve((void **)&stage->runs, stage->count + 1, &stage->room, sizeof(*stage->runs))) {
        return false;
    } else {
        stage->runs[stage->count++] = (struct run){first, end};
    }
    stage->lacking += end - first;
    return true;
}

/* Notes the granules under a block that lack a handle. */
static weir_status look_under(weir_pool *pool, struct stage *stage, const struct asleep *block)
{
    WEIR_ASSERT(pool_is_locked(pool) && state_of(block->block) == BLOCK_ASLEEP);
    const uint64_t granule = weir__vm_granule(pool);
    const uint64_t end = round_up(block->address + block->size, granule);
    uint64_t at = block->address & ~(granule - 1);
    if (stage->count > 0 && stage->runs[stage->count - 1].end > at) {
        at = stage->runs[stage->count - 1].end; /* the last granule of the block before */
    }
    weir_status status = WEIR_OK;
    while (at < end && status == WEIR_OK) {
        const uint64_t to = weir__vm_bare_end_locked(pool, at, end);
        status = to == at || add_run(pool->vm, stage, at, to) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
        at = to > at ? to : at + granule;
    }
    return status;
}

static weir_status find_runs(weir_pool *pool, const struct pool_sleep *sleep, struct stage *stage)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < sleep->count && status == WEIR_OK; i++) {
        if (is_in(stage, &sleep->blocks[i])) {
            status = look_under(pool, stage, &sleep->blocks[i]);
        }
    }
    return status;
}

/* Returns how many bytes the pool may not hold beside `more` bytes, below its limit. */
static uint64_t excess_over_limit(const weir_pool *pool, uint64_t more)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const uint64_t limit = weir__budget_limit_locked(pool, false);
    const uint64_t after = pool->held.bytes + more;
    return after > limit ? after - limit : 0;
}

/* Takes away again the memory of the first `count` runs. */
static void uncover(weir_pool *pool, const struct stage *stage, size_t count)
{
    WEIR_ASSERT(pool_is_locked(pool) && count <= stage->count);
    const uint64_t granule = weir__vm_granule(pool);
    struct memory_piece piece;
    for (size_t i = 0; i < count; i++) {
        for (uint64_t at = stage->runs[i].first; at < stage->runs[i].end; at += granule) {
            if (weir__vm_find_locked(pool, at, &piece) && piece.address == at) {
                (void)!weir__vm_uncover(pool, &piece.address, 1);
            }
        }
    }
    weir_status ignored = WEIR_OK;
    (void)weir__vm_drop_spares(pool, 0, &ignored);
}

/* Puts memory at all runs, or at none. */
static weir_status cover(weir_pool *pool, struct stage *stage)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->growth.taken);
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < stage->count; i++) {
        const struct run *run = &stage->runs[i];
        const uint64_t granule = weir__vm_granule(pool);
        const uint64_t after = (pool->held.bytes + (run->end - run->first)) / granule;
        bool lacks_host_memory = false;
        status = weir__vm_cover(pool, run->first, run->end, weir__vm_handle_granules(pool, after), &lacks_host_memory);
        if (status != WEIR_OK) {
            uncover(pool, stage, i);
            return status;
        }
    }
    return status;
}

/* Reports how much memory a refused stage lacked. */
static void report_lack(struct call *call, uint64_t lacking, weir_status status)
{
    weir_pool *pool = call->pool;
    uint64_t left = 0;
    uint64_t total = 0;
    if (status == WEIR_ERR_LIMIT && excess_over_limit(pool, lacking) > 0) {
        call->report.missing_bytes = excess_over_limit(pool, lacking);
        return;
    }
    pool_unlock(pool);
    const weir_status told = weir_device_memory_info(pool->device, &left, &total);
    pool_lock(pool);
    if (told == WEIR_OK && status != WEIR_ERR_DEVICE) {
        call->report.missing_bytes = lacking > left ? lacking - left : 0;
        call->report.others_bytes = total - left > pool->held.bytes ? total - left - pool->held.bytes : 0;
    }
}

/* Puts memory under the blocks of the stage. Idle memory of the pool goes where the limit or the device asks for it. */
static weir_status take_memory(struct call *call, struct stage *stage)
{
    WEIR_ASSERT(stage->count == 0 && call->pool->growth.taken);
    weir_pool *pool = call->pool;
    pool_lock(pool);
    const uint64_t before = pool->held.bytes;
    weir_status status = find_runs(pool, call->sleep, stage);
    if (status == WEIR_OK && excess_over_limit(pool, stage->lacking) > 0) {
        give_idle_back(pool, excess_over_limit(pool, stage->lacking));
    }
    if (status == WEIR_OK && excess_over_limit(pool, stage->lacking) > 0) {
        status = WEIR_ERR_LIMIT;
    }
    if (status == WEIR_OK) {
        status = cover(pool, stage);
        if (status == WEIR_ERR_NO_MEMORY || status == WEIR_ERR_LIMIT) {
            give_idle_back(pool, UINT64_MAX / 2);
            status = cover(pool, stage);
        }
    }
    if (status != WEIR_OK) {
        report_lack(call, stage->lacking, status);
    } else {
        call->report.device_bytes += pool->held.bytes > before ? pool->held.bytes - before : 0;
    }
    pool_unlock(pool);
    return status;
}

/* Tells observers that the stage's blocks which have lost memory sleep, or that they have it. */
static void tell_stage(const struct call *call, const struct stage *stage, bool sleeps)
{
    for (size_t i = 0; i < call->sleep->count; i++) {
        struct asleep *block = &call->sleep->blocks[i];
        if (is_in(stage, block) && block->bare) {
            tell(block, sleeps);
        }
    }
}

/* Brings the contents of the stage's blocks back. */
static weir_status restore(struct call *call, const struct stage *stage)
{
    WEIR_ASSERT(call->list.count == 0);
    const bool poisons = WEIR_CHECKS >= 1;
    bool listed = true;
    tell_stage(call, stage, false);
    for (size_t i = 0; i < call->sleep->count && listed; i++) {
        const struct asleep *block = &call->sleep->blocks[i];
        const bool fills = block->policy == WEIR_SLEEP_ZERO || (block->policy == WEIR_SLEEP_DISCARD && poisons);
        if (is_in(stage, block) && (block->host != NULL || fills)) {
            const weir_copy piece = {.address = block->address,
                                     .size = block->size,
                                     .host = block->host,
                                     .value = block->policy == WEIR_SLEEP_ZERO ? 0 : poison};
            listed = add_piece(call, &piece);
        }
    }
    return listed ? run_copies(call) : WEIR_ERR_NO_MEMORY;
}

/* Makes the stage's blocks live. */
static void rise(struct call *call, const struct stage *stage)
{
    WEIR_ASSERT(call->list.count == 0 && call->pool->growth.taken);
    weir_pool *pool = call->pool;
    struct pool_sleep *sleep = call->sleep;
    size_t left = 0;
    pool_lock(pool);
    for (size_t i = 0, end = 0; i < sleep->count; i = end) {
        weir_block *block = sleep->blocks[i].block;
        const size_t before = left;
        end = group_end(sleep->blocks, sleep->count, i);
        for (size_t k = i; k < end; k++) {
            const struct asleep *run = &sleep->blocks[k];
            if (is_in(stage, run)) {
                if (run->host != NULL) {
                    sleep->copies[run->copy].blocks--;
                }
                call->report.bytes += run->size;
            } else {
                sleep->blocks[left] = *run;
                sleep->blocks[left].follows = left > before;
                left++;
            }
        }
        if (left == before) {
            call->report.blocks++;
            weir__sleep_set_asleep(block, false);
        }
    }
    sleep->count = left;
    weir__vm_settle_withheld_locked(pool);
    (void)weir__vm_promise_locked(pool, left);
    pool_unlock(pool);
    weir__sleep_give_copies(pool, false);
}

/* Adds the memory that the second stage lacks to the report of a refused first stage. */
static void add_lack(struct call *call, const bool *wakes)
{
    struct stage stage = {.keeps = false};
    memcpy(stage.wakes, wakes, sizeof(stage.wakes));
    pool_lock(call->pool);
    if (call->report.missing_bytes > 0 && find_runs(call->pool, call->sleep, &stage) == WEIR_OK) {
        call->report.missing_bytes += stage.lacking;
    }
    pool_unlock(call->pool);
    free(stage.runs);
}

static weir_status wake_stage(struct call *call, const bool *wakes, bool keeps)
{
    struct stage stage = {.keeps = keeps};
    memcpy(stage.wakes, wakes, sizeof(stage.wakes));
    weir_status status = take_memory(call, &stage);
    if (status == WEIR_OK) {
        status = restore(call, &stage);
        if (status == WEIR_OK) {
            rise(call, &stage);
        } else {
            tell_stage(call, &stage, true);
            pool_lock(call->pool);
            uncover(call->pool, &stage, stage.count);
            pool_unlock(call->pool);
        }
    }
    free(stage.runs);
    return status;
}

weir_status weir_pool_wake(weir_pool *pool, const weir_tag *tags, size_t count, weir_sleep_report *report)
{
    bool wakes[WEIR_TAGS];
    if (pool == NULL || (tags == NULL && count > 0)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_wake: %s is NULL", pool == NULL ? "pool" : "tags");
    }
    memset(wakes, count == 0, sizeof(wakes));
    for (size_t i = 0; i < count; i++) {
        if (weir_pool_tag_name(pool, tags[i]) == NULL) {
            return weir_refuse(WEIR_ERR_INVALID, "weir_pool_wake: tags[%zu]: the pool has no tag %u", i,
                               (unsigned)tags[i]);
        }
        wakes[tags[i]] = true;
    }
    struct call call = {.pool = pool};
    if (pool->vm == NULL) { /* such a pool never sleeps */
        return answer(report, &call.report, WEIR_OK, "weir_pool_wake: report");
    }
    weir_status status = begin(&call);
    if (status != WEIR_OK) {
        return status;
    }
    status = rejoin_all(&call);
    status = status == WEIR_OK ? wake_stage(&call, wakes, true) : status;
    if (status == WEIR_OK) {
        status = wake_stage(&call, wakes, false);
    } else {
        add_lack(&call, wakes);
    }
    end(&call);
    return answer(report, &call.report, status, "weir_pool_wake: report");
}

/* --- queries --- */

weir_status weir_pool_get_sleep(weir_pool *pool, weir_sleep_report *out)
{
    if (pool == NULL || out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_get_sleep: %s is NULL", pool == NULL ? "pool" : "report");
    }
    weir_sleep_report report = WEIR_SLEEP_REPORT_INIT;
    pool_lock(pool);
    sum_up(pool, &report);
    pool_unlock(pool);
    return weir_struct_report(out, &report, sizeof(report), "weir_pool_get_sleep: report");
}

bool weir_block_is_asleep(const weir_block *block)
{
    return state_of(block) == BLOCK_ASLEEP;
}
