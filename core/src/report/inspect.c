/* core/src/report/inspect.c: walk, check and statistics of a pool.
 *
 * Guarantee: walk and check hold every lock and so see one consistent state. Statistics take the locks one after the
 * other, so reading them never delays the fast path by more than one short lock hold.
 */
#include "report/report.h"
#include "shared/cancel.h"

/* --- walk --- */

struct walker {
    weir_pool *pool;
    weir_walk_visitor visit;
    void *ctx;
};

static weir_walk_state walk_state(weir_block_state state)
{
    switch (state) {
    case BLOCK_CACHED:
    case BLOCK_RETURNED:
        return WEIR_WALK_CACHED;
    case BLOCK_PENDING:
        return WEIR_WALK_PENDING;
    case BLOCK_ASLEEP:
        return WEIR_WALK_ASLEEP;
    case BLOCK_TAKEN:
    case BLOCK_LIVE:
    case BLOCK_UNUSED:
    default:
        return WEIR_WALK_LIVE;
    }
}

/* Shows the runs of alike units of a reserved block, which fills its region. */
static bool show_runs(const struct walker *walker, weir_block *block, const weir_walk_entry *whole)
{
    const struct reservation *reserved = reservation_of(block);
    WEIR_ASSERT(whole->address == block_address(block));
    bool goes_on = true;
    for (struct unit_run run = {0}; goes_on && next_run(reserved, &run);) {
        weir_walk_entry entry = *whole;
        entry.address = unit_address(reserved, run.first);
        entry.size = (run.end - run.first) * reserved->unit;
        entry.state = run.state == UNIT_BARE      ? WEIR_WALK_UNMAPPED
                      : run.state == UNIT_LEAVING ? WEIR_WALK_PENDING
                                                  : whole->state;
        entry.requested = run.state == UNIT_COMMITTED ? entry.size : 0;
        entry.pinned_bytes = weir__pinned_in_locked(walker->pool, entry.address, entry.size);
        goes_on = UNCANCELLED(walker->visit(walker->ctx, &entry));
    }
    return goes_on;
}

static bool show_range(void *ctx, const weir_range_info *range)
{
    const struct walker *walker = ctx;
    weir_walk_entry entry = {
        .struct_size = sizeof(entry),
        .region_address = range->region_address,
        .region_size = range->region_size,
        .address = range->address,
        .size = range->size,
        .state = range->lane == WEIR_LANE_UNMAPPED ? WEIR_WALK_UNMAPPED : WEIR_WALK_FREE,
        .stream = range->lane == WEIR_LANE_UNMAPPED ? 0 : range->lane,
        .pinned_bytes = weir__pinned_in_locked(walker->pool, range->address, range->size),
    };
    weir_block *block = range->taken && state_of(range->token) != BLOCK_UNUSED ? range->token : NULL;
    if (block != NULL) {
        const weir_block_state state = state_of(block); /* read once: another thread may free the block at any moment */
        entry.state = walk_state(state);
        entry.stream = block_stream(block) != NULL ? block_stream(block)->lane : 0;
        bool held = is_held(state);
        entry.requested = held ? block_requested(block) : 0;
        entry.block = held ? block : NULL;
        if (reservation_of(block) != NULL) {
            return show_runs(walker, block, &entry);
        }
    } else if (range->taken) {
        entry.state = WEIR_WALK_UNMAPPED;
    }
    return UNCANCELLED(walker->visit(walker->ctx, &entry));
}

void weir__inspect_walk_locked(weir_pool *pool, weir_walk_visitor visit, void *ctx)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct walker walker = {pool, visit, ctx};
    pool->strategy->walk(pool->state, show_range, &walker);
}

weir_status weir_pool_walk(weir_pool *pool, weir_walk_visitor visit, void *ctx)
{
    if (pool == NULL || visit == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_walk: %s is NULL", pool == NULL ? "pool" : "visit");
    }
    weir__pool_lock_all(pool);
    weir__inspect_walk_locked(pool, visit, ctx);
    weir__pool_unlock_all(pool);
    return WEIR_OK;
}

/* --- check --- */

/* Sums over the strategy's ranges and their blocks, as the walk finds them. */
struct tally {
    weir_pool *pool;
    const char *broken;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_bytes;
    uint64_t unmapped_bytes;
    uint64_t moving_bytes;
    uint64_t blocks;
    uint64_t requested;
    uint64_t live;
    uint64_t cached;
    uint64_t pending;
};

static bool tally_range(void *ctx, const weir_range_info *range)
{
    WEIR_ASSERT(range->size != 0);
    struct tally *tally = ctx;
    if (!range->taken) {
        *(range->lane == WEIR_LANE_UNMAPPED ? &tally->unmapped_bytes : &tally->free_bytes) += range->size;
        return true;
    }
    if (tally->pool->vm != NULL && weir__vm_moves_locked(tally->pool, range)) {
        tally->moving_bytes += range->size;
        return true;
    }
    const weir_block *block = range->token;
    tally->taken_bytes += range->size;
    if (tally->pool->vm != NULL && weir__vm_withholds_locked(tally->pool, range)) {
        return true;
    }
    tally->taken_ranges++;
    if (state_of(block) == BLOCK_UNUSED || block_address(block) != range->address ||
        block_capacity(block) != range->size) {
        tally->broken = "a taken range has no block that describes it";
    }
    return tally->broken == NULL;
}

static void tally_block(void *ctx, weir_block *block)
{
    struct tally *tally = ctx;
    const struct reservation *reserved = reservation_of(block);
    tally->blocks++;
    tally->pending += reserved != NULL ? reserved->leaving : 0;
    switch (state_of(block)) {
    case BLOCK_LIVE:
    case BLOCK_ASLEEP:
    case BLOCK_RETURNED: /* freed by a thread that needs no lock for the free */
        tally->requested += requested_of(block);
        tally->live += capacity_of(block);
        if (block_requested(block) > block_capacity(block) && tally->broken == NULL) {
            tally->broken = "a block is smaller than what was asked for";
        }
        break;
    case BLOCK_CACHED:
        tally->cached += block_capacity(block);
        break;
    case BLOCK_PENDING:
        tally->pending += reserved != NULL ? 0 : block_capacity(block);
        break;
    case BLOCK_TAKEN:
    case BLOCK_UNUSED:
    default:
        break;
    }
}

static bool is_cached_at(const weir_stream *stream, const weir_block *block, unsigned bin)
{
    return state_word(block) == BLOCK_WORD(BLOCK_CACHED) && front_bin(front_capacity(stream->owner, block)) == bin;
}

static const char *check_front(const weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    const struct front_cache *front = &stream->front;
    uint64_t bytes = 0;
    for (unsigned bin = 0; bin < FRONT_BINS; bin++) {
        static const struct front_slot none;
        const struct front_slot *slot = front->groups[bin / FRONT_GROUP] != NULL ? front_slot_of(front, bin) : &none;
        for (unsigned k = 0; k < slot->count; k++) {
            bytes += block_capacity(slot->blocks[k]);
            if (!is_cached_at(stream, slot->blocks[k], bin)) {
                return "a front cache holds a block that does not belong there";
            }
        }
        if ((slot->count != 0) != ((front->held[bin / 64] >> bin % 64 & 1u) != 0)) {
            return "a slot of a front cache and its bit do not agree";
        }
    }
    for (uint32_t i = 0; i < front->large_count; i++) {
        if (state_word(front->large[i]) != BLOCK_WORD(BLOCK_CACHED) ||
            front->large_keys[i] !=
                (front_capacity(stream->owner, front->large[i]) & stream->owner->front.large_keys)) {
            return "a front cache holds a large block that does not belong there";
        }
    }
    return bytes == front->bytes ? NULL : "a front cache's bytes do not add up";
}

static const char *check_streams(const weir_pool *pool, const struct tally *tally)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct live_sums sums = {0};
    uint64_t cached = 0;
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        const weir_stream *stream = pool->streams[lane];
        const char *broken = check_front(stream);
        if (broken != NULL) {
            return broken;
        }
        sums.requested += stream->counters.requested;
        sums.live += stream->counters.live;
        cached += front_all_bytes(&stream->front);
    }
    if (cached != tally->cached) {
        return "cached bytes and cached blocks differ";
    }
    if (sums.requested != (int64_t)tally->requested || sums.live != (int64_t)tally->live) {
        return "live bytes and live blocks differ";
    }
    return NULL;
}

static const char *check_regions(const weir_pool *pool, const struct tally *tally)
{
    WEIR_ASSERT(pool_is_locked(pool));
    uint64_t reserved = 0;
    uint64_t entered = 0;
    if (pool->vm != NULL) {
        return weir__vm_broken_locked(pool, tally->taken_bytes + tally->free_bytes, tally->unmapped_bytes,
                                      tally->moving_bytes);
    }
    for (const struct pool_region *region = pool->regions; region != NULL; region = region->next) {
        reserved += region->size;
        entered += region->handle != NULL ? region->size : 0;
    }
    if (reserved != pool->held.bytes) {
        return "reserved bytes and regions differ";
    }
    if (entered != tally->taken_bytes + tally->free_bytes) {
        return "regions and their ranges differ";
    }
    return NULL;
}

static const char *first_broken_rule(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const char *why = "the strategy's check failed";
    if (pool->strategy->check(pool->state, &why) != WEIR_OK) {
        return why;
    }
    struct tally tally = {.pool = pool};
    pool->strategy->walk(pool->state, tally_range, &tally);
    weir__block_each_locked(pool, tally_block, &tally);
    if (tally.broken != NULL) {
        return tally.broken;
    }
    if (tally.blocks != tally.taken_ranges || tally.blocks != pool->blocks.count) {
        return "blocks and taken ranges differ in number";
    }
    if (tally.pending != pool->pending_bytes) {
        return "pending bytes and pending blocks differ";
    }
    if (pool->held.bytes > weir__budget_limit_locked(pool, false) && pool->held.bytes > pool->held.over_limit) {
        return "more is reserved than the limit allows";
    }
    const char *broken = check_streams(pool, &tally);
    broken = broken != NULL ? broken : weir__tag_broken_locked(pool);
    broken = broken != NULL ? broken : weir__pins_broken_locked(pool);
    broken = broken != NULL ? broken : weir__reserved_broken(pool);
    return broken != NULL ? broken : check_regions(pool, &tally);
}

weir_status weir_pool_check(weir_pool *pool, const char **why)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_check: pool is NULL");
    }
    weir__pool_lock_all(pool);
    const char *broken = first_broken_rule(pool);
    weir__pool_unlock_all(pool);
    if (broken != NULL && why != NULL) {
        *why = broken;
    }
    return broken == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}

/* --- statistics --- */

static void add_counters(weir_pool_stats *stats, struct live_sums *sums, weir_stream *stream)
{
    WEIR_ASSERT(outside_stream_lock(stream));
    stream_visit(stream);
    (void)weir__remote_frees_clear(stream->owner, stream);
    front_unload(stream);
    const struct stream_counters *counters = &stream->counters;
    uint64_t allocs = 0;
    for (size_t i = 0; i < WEIR_SIZE_BUCKETS; i++) {
        allocs += counters->sizes[i];
        stats->sizes[i] += counters->sizes[i];
    }
    stats->allocs += allocs;
    stats->frees += counters->frees;
    stats->served[WEIR_RUNG_FRONT] += allocs - counters->misses;
    stats->cached_bytes += front_all_bytes(&stream->front);
    sums->requested += counters->requested;
    sums->live += counters->live;
    if (stream->lane == 1) {
        stats->peak_requested_bytes = (uint64_t)counters->peak_requested;
        stats->peak_live_bytes = (uint64_t)counters->peak_live;
    }
    stream_unlock(stream);
}

/* Stores the peaks of the pool. With one stream, add_counters has stored that stream's exact peaks. With several
 * streams, the peaks are sampled, and this call adds a sample, by which no growth goes: a program that reads statistics
 * has the same memory as one that does not. Pool lock held. */
static void add_peaks(weir_pool *pool, weir_pool_stats *stats, const struct live_sums *sums)
{
    WEIR_ASSERT(pool_is_locked(pool));
    if (pool->lanes > 2) {
        int64_t *told = &pool->told_peak_live;
        *told = pool->peak_live > *told ? pool->peak_live : *told;
        *told = sums->live > *told ? sums->live : *told;
        pool->peak_requested = sums->requested > pool->peak_requested ? sums->requested : pool->peak_requested;
        stats->peak_requested_bytes = (uint64_t)pool->peak_requested;
        stats->peak_live_bytes = (uint64_t)*told;
    }
}

static void add_pool(weir_pool *pool, weir_pool_stats *stats)
{
    WEIR_ASSERT(pool_is_locked(pool));
    weir_strategy_stats strategy = WEIR_STRATEGY_STATS_INIT;
    pool->strategy->stats(pool->state, &strategy);
    stats->pending_bytes = pool->pending_bytes;
    stats->free_bytes = strategy.free_bytes;
    stats->largest_free_bytes = strategy.largest_free_bytes;
    stats->external_fragmentation =
        strategy.free_bytes == 0 ? 0.0 : 1.0 - (double)strategy.largest_free_bytes / (double)strategy.free_bytes;
    stats->reserved_bytes = pool->held.bytes;
    stats->peak_reserved_bytes = pool->held.peak;
    stats->regions = strategy.regions;
    for (size_t i = 0; i < WEIR_RUNG_COUNT; i++) {
        stats->served[i] += pool->counts.served[i];
    }
    stats->failures = pool->oom.failure;
    stats->waits = pool->counts.waits;
    stats->syncs = pool->counts.syncs;
    stats->events_recorded = pool->counts.events;
    stats->region_allocs = pool->counts.region_allocs;
    stats->region_frees = pool->counts.region_frees;
    stats->device_failures = pool->counts.device_failures;
    stats->device_ns = pool->counts.device_ns;
    stats->limit_bytes = pool->config.limit_bytes;
    stats->soft_limit_bytes = pool->config.soft_limit_bytes;
    stats->soft_limit_growths = pool->counts.soft_limit_growths;
    stats->pressure_calls = pool->counts.pressure_calls;
    stats->pinned_bytes = pool->pinned_bytes;
    stats->uncommitted_bytes = weir__reserved_addresses(pool);
    stats->tags = atomic_load_explicit(&pool->tag_count, memory_order_relaxed) - 1;
    if (pool->vm != NULL) {
        weir__vm_add_stats_locked(pool, stats);
    }
}

weir_status weir_pool_get_stats(weir_pool *pool, weir_pool_stats *out)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_get_stats: pool is NULL");
    }
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    struct live_sums sums = {0};
    size_t lanes = 2;
    for (size_t lane = 1; lane < lanes; lane++) {
        pool_lock(pool);
        lanes = pool->lanes;
        weir_stream *stream = lane < lanes ? pool->streams[lane] : NULL;
        stats.streams += stream != NULL && !stream->retired;
        pool_unlock(pool);
        if (stream != NULL) {
            add_counters(&stats, &sums, stream);
        }
    }
    stats.requested_bytes = sums.requested > 0 ? (uint64_t)sums.requested : 0;
    stats.live_bytes = sums.live > 0 ? (uint64_t)sums.live : 0;
    pool_lock(pool);
    add_pool(pool, &stats);
    add_peaks(pool, &stats, &sums);
    pool_unlock(pool);
    return weir_struct_report(out, &stats, sizeof(stats), "weir_pool_get_stats: stats");
}

const char *weir_rung_name(weir_rung rung)
{
    static const char *const names[] = {
#define WEIR_RUNG_TEXT(name, text) text,
        WEIR_RUNG_LIST(WEIR_RUNG_TEXT)
#undef WEIR_RUNG_TEXT
    };
    return (unsigned)rung < WEIR_RUNG_COUNT ? names[rung] : "unknown rung";
}
