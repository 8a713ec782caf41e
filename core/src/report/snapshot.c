/* core/src/report/snapshot.c: a copy of all ranges at one moment, for oom.c.
 *
 * The strategy's walk is copied under the pool's lock. Freed blocks, which the strategy counts as taken, are marked in
 * the copy. Cost: linear in the ranges, and a sort. Each range takes 40 bytes of host memory while the snapshot lives.
 */
#include "report/report.h"
#include "shared/round_up.h"

#include <stdlib.h>

struct taking {
    weir_pool *pool;
    const weir_tick *limits;
    struct snapshot *snapshot;
};

/* Returns the reservation of a range that is a reserved block; NULL for any other range. */
static const struct reservation *reserved_in(const weir_range_info *range)
{
    const bool block = range->taken && state_of(range->token) != BLOCK_UNUSED;
    return block ? reservation_of(range->token) : NULL;
}

static bool count_range(void *ctx, const weir_range_info *range)
{
    size_t *count = ctx;
    const struct reservation *reserved = reserved_in(range);
    ++*count;
    for (struct unit_run run = {0}; reserved != NULL && next_run(reserved, &run);) {
        ++*count;
    }
    return true;
}

/* Returns the stream whose unfinished work keeps the asking stream from using a pending block; SNAPSHOT_SEVERAL if
 * there are several; 0 if there is none. Pool lock held. */
static uint32_t stuck_on(const struct taking *taking, const weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(block_pool(block)));
    uint32_t stuck = 0;
    for (const struct weir_use *use = block_uses(block)->first; use != NULL; use = use->next) {
        if (use->tick > taking->limits[use->stream->lane]) {
            stuck = stuck == 0 ? use->stream->lane : SNAPSHOT_SEVERAL;
        }
    }
    return stuck;
}

/* Sets the state of a piece that the strategy counts as taken: a live or a freed block. Other threads move blocks in
 * and out of front caches meanwhile, under their streams' locks. So only the state of a cached block may be read, and
 * its stream is not known. A large cached block counts as free: it coalesces with its neighbours before any large
 * request looks for memory. Pool lock held. */
static void judge_block(const struct taking *taking, const weir_block *block, struct snapshot_piece *piece)
{
    WEIR_ASSERT(pool_is_locked(taking->pool));
    const weir_block_state state = state_of(block);
    piece->state = SNAPSHOT_TAKEN;
    if (state == BLOCK_CACHED || state == BLOCK_RETURNED || state == BLOCK_PENDING) {
        const bool large = front_capacity(taking->pool, block) > front_small(taking->pool);
        piece->state = state == BLOCK_CACHED && large ? SNAPSHOT_FREE : SNAPSHOT_LOOSE;
        piece->stuck = SNAPSHOT_SEVERAL;
    }
    if (state == BLOCK_PENDING) {
        piece->stuck = stuck_on(taking, block);
    } else if (piece->state == SNAPSHOT_FREE && taking->pool->lanes == 2) {
        piece->stuck = 0; /* the pool has one stream only */
    }
}

/* Notes each run of alike units of a reserved block as a piece. The host has waited for decommitted memory, so memory
 * that is still there is stuck on work that it cannot wait for. */
static void note_runs(const struct taking *taking, const weir_range_info *range, const struct reservation *reserved)
{
    for (struct unit_run run = {0}; next_run(reserved, &run);) {
        taking->snapshot->pieces[taking->snapshot->count++] = (struct snapshot_piece){
            .address = unit_address(reserved, run.first),
            .size = (run.end - run.first) * reserved->unit,
            .region = range->region_address,
            .region_size = range->region_size,
            .stuck = run.state == UNIT_LEAVING ? SNAPSHOT_SEVERAL : 0,
            .state = run.state == UNIT_BARE      ? SNAPSHOT_HOLE
                     : run.state == UNIT_LEAVING ? SNAPSHOT_LOOSE
                                                 : SNAPSHOT_TAKEN,
        };
    }
}

static bool note_range(void *ctx, const weir_range_info *range)
{
    WEIR_ASSERT(range->size != 0);
    struct taking *taking = ctx;
    const struct reservation *reserved = reserved_in(range);
    if (reserved != NULL) {
        note_runs(taking, range, reserved);
        return true;
    }
    const bool hole = !range->taken && range->lane == WEIR_LANE_UNMAPPED;
    const bool usable = range->taken || hole || range->tick <= taking->limits[range->lane];
    struct snapshot_piece *piece = &taking->snapshot->pieces[taking->snapshot->count++];
    *piece = (struct snapshot_piece){
        .address = range->address,
        .size = range->size,
        .region = range->region_address,
        .region_size = range->region_size,
        .stuck = usable ? 0 : range->lane,
        .state = hole ? SNAPSHOT_HOLE : SNAPSHOT_FREE,
        .pinned = taking->pool->vm == NULL && weir__pins_locked(taking->pool, range->region_address) != 0,
    };
    if (range->taken) {
        judge_block(taking, range->token, piece);
    }
    return true;
}

static int by_address(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static bool is_sorted(const struct snapshot *snapshot)
{
    for (size_t i = 1; i < snapshot->count; i++) {
        const struct snapshot_piece *piece = &snapshot->pieces[i - 1];
        if (piece->address + piece->size > snapshot->pieces[i].address) {
            return false;
        }
    }
    return true;
}

bool weir__snapshot_take(weir_pool *pool, const weir_stream *stream, struct snapshot *snapshot)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    *snapshot = (struct snapshot){NULL, 0};
    struct taking taking = {.pool = pool, .snapshot = snapshot};
    size_t count = 0;
    pool_lock(pool);
    pool->strategy->walk(pool->state, count_range, &count);
    snapshot->pieces = malloc((count + 1) * sizeof(*snapshot->pieces));
    if (snapshot->pieces != NULL) {
        taking.limits = weir__order_limits_locked(pool, stream);
        pool->strategy->walk(pool->state, note_range, &taking);
        WEIR_ASSERT(snapshot->count <= count);
    }
    pool_unlock(pool);
    if (snapshot->pieces == NULL) {
        return false;
    }
    qsort(snapshot->pieces, snapshot->count, sizeof(*snapshot->pieces), by_address);
    WEIR_ASSERT_THOROUGH(is_sorted(snapshot));
    return true;
}

struct idle_sum {
    const weir_pool *pool;
    const struct snapshot *snapshot;
    uint64_t bytes;
    uint64_t pinned;
};

/* Returns the first piece that ends above `address`; the number of pieces if there is none. */
static size_t piece_at(const struct snapshot *snapshot, uint64_t address)
{
    size_t low = 0;
    size_t high = snapshot->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct snapshot_piece *piece = &snapshot->pieces[middle];
        if (piece->address + piece->size <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void add_if_idle(void *ctx, uint64_t address, uint64_t size)
{
    struct idle_sum *sum = ctx;
    uint64_t end = address;
    for (size_t i = piece_at(sum->snapshot, address); i < sum->snapshot->count && end < address + size; i++) {
        const struct snapshot_piece *piece = &sum->snapshot->pieces[i];
        if (piece->state != SNAPSHOT_FREE || piece->address > end) {
            return;
        }
        end = piece->address + piece->size;
    }
    *(weir__pins_locked(sum->pool, address) == 0 ? &sum->bytes : &sum->pinned) += end >= address + size ? size : 0;
}

uint64_t weir__snapshot_idle_handles_locked(const weir_pool *pool, const struct snapshot *snapshot, uint64_t *pinned)
{
    WEIR_ASSERT(pool_is_locked(pool) && pool->vm != NULL);
    struct idle_sum sum = {.pool = pool, .snapshot = snapshot};
    weir__vm_each_handle_locked(pool, add_if_idle, &sum);
    *pinned = sum.pinned;
    return sum.bytes;
}

void weir__snapshot_fini(struct snapshot *snapshot)
{
    free(snapshot->pieces);
    *snapshot = (struct snapshot){NULL, 0};
}
