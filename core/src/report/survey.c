/* core/src/report/survey.c: what lies where at one moment, for whoever has to reason about it: a request that failed, and the
 * question whether requests would fit.
 *
 * The strategy's walk is copied under the pool's lock, and what nobody holds although the strategy counts it as taken is
 * marked in it afterwards. Cost: linear, and a sort when there are such blocks or several regions; 40 bytes of host memory
 * per range for the time being.
 */
#include "order/order.h"

#include <stdlib.h>

/* A block that is cached, returned or pending. */
struct loose {
    uint64_t address;
    uint32_t stuck;
};

struct taking {
    weir_pool *pool;
    const weir_stream *stream;
    const weir_tick *limits;
    struct survey *survey;
    struct loose *loose;
    size_t loose_count;
    size_t loose_room;
};

static bool count_range(void *ctx, const weir_range_info *range)
{
    (void)range;
    ++*(size_t *)ctx;
    return true;
}

static bool note_range(void *ctx, const weir_range_info *range)
{
    struct taking *taking = ctx;
    const bool hole = !range->taken && range->lane == WEIR_LANE_UNMAPPED;
    const bool usable = range->taken || hole || range->tick <= taking->limits[range->lane];
    taking->survey->pieces[taking->survey->count++] = (struct survey_piece){
        .address = range->address,
        .size = range->size,
        .region = range->region_address,
        .region_size = range->region_size,
        .stuck = usable ? 0 : range->lane,
        .state = range->taken ? SURVEY_TAKEN : hole ? SURVEY_HOLE : SURVEY_FREE,
    };
    return true;
}

/* Pool lock held: the one stream whose work keeps the asking stream off a pending block. */
static uint32_t stuck_on(const struct taking *taking, const weir_block *block)
{
    uint32_t stuck = 0;
    for (const struct weir_use *use = block_uses(block)->first; use != NULL; use = use->next) {
        if (use->tick > taking->limits[use->stream->lane]) {
            stuck = stuck == 0 ? use->stream->lane : SURVEY_SEVERAL;
        }
    }
    return stuck;
}

static void note_loose(void *ctx, weir_block *block)
{
    struct taking *taking = ctx;
    const weir_block_state state = state_of(block);
    if (state != BLOCK_CACHED && state != BLOCK_RETURNED && state != BLOCK_PENDING) {
        return;
    }
    if (taking->loose_count < taking->loose_room) {
        /* A block in a front cache does not know in whose. */
        const uint32_t stuck = state == BLOCK_PENDING ? stuck_on(taking, block) : SURVEY_SEVERAL;
        taking->loose[taking->loose_count] = (struct loose){ block_address(block), stuck };
    }
    taking->loose_count++;
}

static int by_address(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Both lists by address. */
static void mark_loose(struct survey *survey, const struct loose *loose, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        while (at < survey->count && survey->pieces[at].address < loose[i].address) {
            at++;
        }
        if (at < survey->count && survey->pieces[at].address == loose[i].address) {
            survey->pieces[at].state = SURVEY_LOOSE;
            survey->pieces[at].stuck = loose[i].stuck;
        }
    }
}

/* Pool lock held. */
static bool copy_locked(struct taking *taking)
{
    weir_pool *pool = taking->pool;
    size_t count = 0;
    pool->strategy->walk(pool->state, count_range, &count);
    taking->limits = weir__order_limits_locked(pool, taking->stream);
    taking->survey->pieces = malloc((count + 1) * sizeof(*taking->survey->pieces));
    if (taking->survey->pieces == NULL) {
        return false;
    }
    pool->strategy->walk(pool->state, note_range, taking);
    weir__block_each_locked(pool, note_loose, taking);
    if (taking->loose_count > 0) {
        taking->loose_room = taking->loose_count;
        taking->loose_count = 0;
        taking->loose = malloc(taking->loose_room * sizeof(*taking->loose));
        if (taking->loose == NULL) {
            return false;
        }
        weir__block_each_locked(pool, note_loose, taking);
        /* Front caches change under their streams' locks: what came meanwhile is left out. */
        taking->loose_count = taking->loose_count < taking->loose_room ? taking->loose_count : taking->loose_room;
    }
    return true;
}

bool weir__survey_take(weir_pool *pool, const weir_stream *stream, struct survey *survey)
{
    *survey = (struct survey){ NULL, 0 };
    struct taking taking = { .pool = pool, .stream = stream, .survey = survey };
    pool_lock(pool);
    const bool copied = copy_locked(&taking);
    pool_unlock(pool);
    if (!copied) {
        free(taking.loose);
        weir__survey_fini(survey);
        return false;
    }
    qsort(survey->pieces, survey->count, sizeof(*survey->pieces), by_address);
    if (taking.loose_count > 0) {
        qsort(taking.loose, taking.loose_count, sizeof(*taking.loose), by_address);
        mark_loose(survey, taking.loose, taking.loose_count);
    }
    free(taking.loose);
    return true;
}

uint64_t weir__survey_free_granules(const struct survey *survey, uint64_t granule)
{
    uint64_t bytes = 0;
    uint64_t start = 0; /* of the free run so far, [start, end) */
    uint64_t end = 0;
    for (size_t i = 0; i <= survey->count; i++) {
        const struct survey_piece *piece = i < survey->count ? &survey->pieces[i] : NULL;
        if (piece != NULL && piece->state == SURVEY_FREE && piece->address == end) {
            end += piece->size;
            continue;
        }
        const uint64_t from = round_up(start, granule);
        const uint64_t to = end & ~(granule - 1);
        bytes += from < to ? to - from : 0;
        start = piece != NULL && piece->state == SURVEY_FREE ? piece->address : 0;
        end = start != 0 ? start + piece->size : 0;
    }
    return bytes;
}

void weir__survey_fini(struct survey *survey)
{
    free(survey->pieces);
    *survey = (struct survey){ NULL, 0 };
}
