/* core/src/report/snapshot.c: a copy of all ranges at one moment, for oom.c and group.c.
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

static bool count_range(void *ctx, const weir_range_info *range)
{
    (void)range;
    ++*(size_t *)ctx;
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

static bool note_range(void *ctx, const weir_range_info *range)
{
    WEIR_ASSERT(range->size != 0);
    struct taking *taking = ctx;
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

uint64_t weir__snapshot_free_granules(const struct snapshot *snapshot, uint64_t granule)
{
    WEIR_ASSERT(is_power_of_two(granule));
    uint64_t bytes = 0;
    uint64_t start = 0; /* the present free run is [start, end) */
    uint64_t end = 0;
    for (size_t i = 0; i <= snapshot->count; i++) {
        const struct snapshot_piece *piece = i < snapshot->count ? &snapshot->pieces[i] : NULL;
        if (piece != NULL && piece->state == SNAPSHOT_FREE && piece->address == end) {
            end += piece->size;
            continue;
        }
        const uint64_t from = round_up(start, granule);
        const uint64_t to = end & ~(granule - 1);
        bytes += from < to ? to - from : 0;
        start = piece != NULL && piece->state == SNAPSHOT_FREE ? piece->address : 0;
        end = start != 0 ? start + piece->size : 0;
    }
    return bytes;
}

void weir__snapshot_fini(struct snapshot *snapshot)
{
    free(snapshot->pieces);
    *snapshot = (struct snapshot){NULL, 0};
}
