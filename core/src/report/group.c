/* core/src/report/group.c: several blocks at once: all of them or none, and whether they would fit.
 *
 * weir_pool_would_fit answers without trying. What is known: where free memory lies (survey.c), how much more may be
 * taken, and how large a region the strategy asks for. What is not known: which piece each request will get, since work
 * completes meanwhile, and when the pool will grow. So the answer rests on sums that hold whatever the placement.
 *
 * Let g be the granule, a(i) the requests in granules, A their sum, L the sizes of free pieces that are one range each,
 * R what may be taken in whole regions, least(i) the smallest region that holds request i. Suppose request i fails although
 * each other one was served before. Then
 *
 *     each piece has been used up but for a rest below a(i)       L - a(i) + g bytes or more of it are taken
 *     what may still be taken is less than least(i)               R - least(i) + granularity or more has become regions
 *     each of these regions has been used up likewise             all of it is taken but for W, see waste_of
 *
 * and the others together are at least as large as what is taken. So when, for each i,
 *
 *     A - a(i) < sum of (L - a(i) + g) over the pieces of a(i) or more  +  max(0, X)
 *     X = R - least(i) + granularity - W
 *
 * no request fails, in whatever order they come. A wholly free region may go back to the device on the way and become
 * others: its bytes are then part of R. The piece L loses is made up for by that but for W, so while X < 0 what of W
 * exceeds R is taken off. (Not so while the pool is above its limit: then such regions do not count at all.)
 *
 * Requests of one size need no such care: a piece holds L / a of them; where the strategy may cut anywhere, and pieces
 * join meanwhile, a run of neighbours holds one. A single one is a plain question: is there a run that holds it, or room for a region when all idle ones have gone back?
 * Several of different sizes from a strategy that cuts anywhere are granted a new region each. With virtual memory idle
 * granules move, and what counts is how many a request may touch.
 *
 * That a request gets memory that is there is the ladder's promise (ladder.c); tests/stress tries both.
 *
 * Cost: a poll, a copy of the ranges, and n log n for n ranges and for n requests. The strategy is asked twice for each
 * distinct size, and once for each region that equal requests would take. The pool's lock is held for the copy and for a
 * few questions at a time; sorts and sums are made without it.
 */
#include "order/order.h"
#include "ramps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (UINT64_C(1) << (WEIR_SIZE_BUCKETS - 1))

/* Questions to the strategy while the pool's lock is held once. */
enum { asked_at_once = 64 };

/* --- all or none --- */

/* An alloc would refuse a size that is not sound, so a group refuses it before the first alloc. */
static weir_status check_group(const char *function, const weir_pool *pool, const weir_stream *stream,
                               const uint64_t *sizes, size_t n)
{
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream(function, pool, stream);
    }
    if (n > 0 && sizes == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: sizes is NULL", function);
    }
    for (size_t i = 0; i < n; i++) {
        if (sizes[i] == 0 || sizes[i] >= SIZE_LIMIT) {
            return weir_refuse(WEIR_ERR_INVALID, "%s: sizes[%zu] is %" PRIu64 ", which is %s", function, i, sizes[i],
                               sizes[i] == 0 ? "no size" : "too large to round");
        }
    }
    return WEIR_OK;
}

static void give_up(weir_pool *pool, weir_stream *stream, weir_block *const *blocks, size_t n)
{
    while (n > 0) {
        weir_status status = weir_pool_free(pool, blocks[--n], stream);
        (void)status; /* the arguments have been proved good by the allocs */
    }
}

weir_status weir_pool_alloc_many(weir_pool *pool, weir_stream *stream, const uint64_t *sizes, size_t n, weir_tag tag,
                                 weir_block **blocks)
{
    const char *function = "weir_pool_alloc_many";
    weir_status status = check_group(function, pool, stream, sizes, n);
    if (status != WEIR_OK) {
        return status;
    }
    if (n > 0 && blocks == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: blocks is NULL", function);
    }
    if (tag >= atomic_load_explicit(&pool->tag_count, memory_order_acquire)) {
        return weir__refuse_tag(function, pool, tag);
    }
    weir_block **got = malloc((n + 1) * sizeof(weir_block *)); /* the caller's stay as they are until all are there */
    if (got == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    size_t count = 0;
    while (count < n && status == WEIR_OK) {
        status = weir_pool_alloc_tagged(pool, stream, sizes[count], 0, tag, &got[count]);
        count += status == WEIR_OK;
    }
    if (status != WEIR_OK) {
        give_up(pool, stream, got, count);
    } else if (n > 0) {
        memcpy(blocks, got, n * sizeof(weir_block *));
    }
    free(got);
    return status;
}

/* --- would they fit? --- */

/* Requests of one size. Sizes are in bytes and multiples of the granule. */
struct kind {
    uint64_t size;
    uint64_t count;
    uint64_t least; /* region */
    uint64_t liked; /* the largest region that the strategy would ask for */
};

struct question {
    weir_pool *pool;
    struct kind *kinds; /* by size, ascending */
    size_t kind_count;
    uint64_t count;
    uint64_t total;
    uint64_t granule;
    uint64_t granularity;
    /* What there is: */
    uint64_t *pieces; /* sizes, ascending */
    uint64_t *sums;   /* of the pieces from there on */
    size_t piece_count;
    struct ramp *ramps; /* two for each kind: see arrange_waste */
    uint64_t largest_run;
    uint64_t idle_bytes; /* in wholly free regions */
    uint64_t held;       /* requests of the first kind that the pieces hold, at the worst */
    uint64_t reserved;
    uint64_t soft_limit; /* 0: none */
    uint64_t room;       /* that may be taken */
    uint64_t over; /* or by how much the pool is above its limit */
    uint64_t largest_region; /* that there may be room for, when the strategy likes large ones */
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int by_size(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The distinct sizes. */
static weir_status sort_kinds(struct question *q, const uint64_t *sizes, size_t n)
{
    q->kinds = calloc(n, sizeof(*q->kinds));
    if (q->kinds == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        q->kinds[i] = (struct kind){ .size = (sizes[i] + q->granule - 1) & ~(q->granule - 1), .count = 1 };
        q->total = saturating_add(q->total, q->kinds[i].size);
    }
    qsort(q->kinds, n, sizeof(*q->kinds), by_size);
    q->count = n;
    q->kind_count = 1;
    for (size_t i = 1; i < n; i++) {
        struct kind *last = &q->kinds[q->kind_count - 1];
        if (q->kinds[i].size == last->size) {
            last->count++;
        } else {
            q->kinds[q->kind_count++] = q->kinds[i];
        }
    }
    return WEIR_OK;
}

/* Pool lock held. A strategy may ask for more the more is reserved, up to a point. */
static uint64_t liked_region_locked(const weir_pool *pool, uint64_t size, uint64_t reserved, uint64_t *least)
{
    uint64_t now = 0;
    uint64_t later = 0;
    weir__region_sizes_locked(pool, size, pool->granule_mask + 1, reserved, &now, least);
    weir__region_sizes_locked(pool, size, pool->granule_mask + 1, SIZE_LIMIT, &later, least);
    return now > later ? now : later;
}

/* With virtual memory, idle granules move: only those that live blocks touch count as reserved. Another thread may have
 * given idle granules back since the survey, so the difference is never below 0. */
static void look_at_limits(struct question *q, const struct survey *survey)
{
    const uint64_t idle = q->pool->vm != NULL ? weir__survey_free_granules(survey, q->granularity) : 0;
    pool_lock(q->pool);
    const uint64_t most = weir__budget_most_locked(q->pool, false);
    const uint64_t reserved = q->pool->reserved_bytes;
    q->soft_limit = q->pool->config.soft_limit_bytes;
    pool_unlock(q->pool);
    q->reserved = reserved > idle ? reserved - idle : 0;
    q->room = most > q->reserved ? most - q->reserved : 0;
    q->over = most != 0 && most < q->reserved ? q->reserved - most : 0;
    q->largest_region = UINT64_MAX;
}

static void look_at_regions(struct question *q)
{
    for (size_t i = 0; i < q->kind_count;) {
        pool_lock(q->pool);
        for (size_t n = 0; n < asked_at_once && i < q->kind_count; n++, i++) {
            struct kind *kind = &q->kinds[i];
            kind->liked = liked_region_locked(q->pool, kind->size, q->reserved, &kind->least);
        }
        pool_unlock(q->pool);
    }
}

/* Larger regions than what is left below the limits are not taken, unless idle ones go back. */
static void bound_regions(struct question *q)
{
    const uint64_t soft = q->soft_limit;
    const uint64_t below_soft = soft == 0 ? UINT64_MAX : soft > q->reserved ? soft - q->reserved : 0;
    q->largest_region = saturating_add(smaller(q->room, below_soft), q->idle_bytes);
}

/* The largest region that may be taken for one of the kind. */
static uint64_t most_of(const struct question *q, const struct kind *kind)
{
    const uint64_t most = smaller(kind->liked, q->largest_region);
    return most > kind->least ? most : kind->least;
}

static bool cuts_ends(const struct question *q)
{
    return (q->pool->strategy->flags & WEIR_STRATEGY_CUTS_ENDS) != 0;
}

static bool gathers(const struct question *q)
{
    return q->pool->strategy->gather != NULL;
}

/* The most bytes of new regions that a request of the first kind uses up: a region of G bytes holds G / size of them, and
 * the worst G is the largest that holds no more than the least one does. */
static uint64_t worst_share(const struct question *q)
{
    const struct kind *kind = &q->kinds[0];
    if (!cuts_ends(q)) {
        return most_of(q, kind);
    }
    const uint64_t held = kind->least / kind->size;
    const uint64_t region = ((held + 1) * kind->size - q->granule) & ~(q->granularity - 1);
    const uint64_t worst = smaller(most_of(q, kind), region > kind->least ? region : kind->least);
    return (worst + held - 1) / held;
}

/* Requests of the first kind that regions made of so many bytes hold at least. */
static uint64_t held_anew(const struct question *q, uint64_t bytes)
{
    const uint64_t least = q->kinds[0].least;
    const uint64_t whole = bytes & ~(q->granularity - 1);
    return whole < least ? 0 : (whole - least + q->granularity) / worst_share(q);
}

/* Sums over one region. */
struct region_sums {
    uint64_t run;
    uint64_t free_bytes;
    uint64_t held;
    size_t pieces; /* of the question, before this region's */
};

/* Above the limit a region that goes back makes room for nothing: several requests cannot count on it. */
static void end_region(struct question *q, const struct region_sums *sums, uint64_t size)
{
    const bool idle = sums->free_bytes == size;
    q->idle_bytes += idle ? size : 0;
    if (idle && q->over > 0) {
        q->piece_count = sums->pieces;
    } else {
        q->held += idle ? smaller(sums->held, held_anew(q, size)) : sums->held;
    }
}

/* Neighbours join when all else fails, so a single request may have all of a run; several count on ranges only. */
static void look_at_pieces(struct question *q, const struct survey *survey)
{
    struct region_sums sums = { 0 };
    for (size_t i = 0; i < survey->count; i++) {
        const struct survey_piece *piece = &survey->pieces[i];
        if (piece->state == SURVEY_TAKEN || piece->state == SURVEY_HOLE) {
            sums.run = 0;
        } else {
            const uint64_t size = q->kinds[0].size;
            const bool first_to_hold = sums.run < size && sums.run + piece->size >= size;
            sums.run += piece->size;
            sums.free_bytes += piece->size;
            sums.held += cuts_ends(q) ? piece->size / size : (uint64_t)first_to_hold;
            q->pieces[q->piece_count++] = piece->size;
            q->largest_run = sums.run > q->largest_run ? sums.run : q->largest_run;
        }
        if (i + 1 == survey->count || survey->pieces[i + 1].region != piece->region) {
            end_region(q, &sums, piece->region_size);
            sums = (struct region_sums){ .pieces = q->piece_count };
        }
    }
    qsort(q->pieces, q->piece_count, sizeof(*q->pieces), by_size);
    for (size_t i = q->piece_count; i-- > 0;) {
        q->sums[i] = q->sums[i + 1] + q->pieces[i];
    }
}

static weir_status look(struct question *q, const weir_stream *stream)
{
    struct survey survey;
    (void)weir__order_poll(q->pool);
    if (!weir__survey_take(q->pool, stream, &survey)) {
        return WEIR_ERR_NO_MEMORY;
    }
    q->pieces = calloc(survey.count + 1, sizeof(*q->pieces));
    q->sums = calloc(survey.count + 1, sizeof(*q->sums));
    q->ramps = calloc(2 * q->kind_count, sizeof(*q->ramps));
    const bool complete = q->pieces != NULL && q->sums != NULL && q->ramps != NULL;
    if (complete) {
        look_at_limits(q, &survey);
        look_at_regions(q);
        look_at_pieces(q, &survey);
    }
    weir__survey_fini(&survey);
    return complete ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* --- the sums; each answers with the bytes of room that are missing --- */

static uint64_t missing_of(const struct question *q, uint64_t wanted)
{
    const uint64_t whole = saturating_add(wanted, q->granularity - 1) & ~(q->granularity - 1);
    return whole > q->room ? whole - q->room + q->over : 0;
}

static uint64_t missing_for_one(const struct question *q)
{
    const struct kind *kind = &q->kinds[0];
    if (gathers(q) && q->largest_run >= kind->size) {
        return 0;
    }
    const uint64_t returned = gathers(q) ? q->idle_bytes : 0;
    const uint64_t wanted = saturating_add(kind->least, q->over);
    const uint64_t there = q->room + returned;
    return wanted > there ? wanted - there : 0;
}

/* Pool lock held: the next region that the pool takes for one of the first kind, when `taken` bytes of `room` are. */
static uint64_t next_region_locked(const struct question *q, uint64_t taken, uint64_t room)
{
    const uint64_t soft = q->soft_limit != 0 ? q->soft_limit : UINT64_MAX;
    const uint64_t reserved = saturating_add(q->reserved, taken);
    uint64_t liked = 0;
    uint64_t least = 0;
    weir__region_sizes_locked(q->pool, q->kinds[0].size, q->granule, reserved, &liked, &least);
    const bool has_room = room >= taken && liked <= room - taken && soft >= reserved && liked <= soft - reserved;
    return has_room ? liked : least;
}

/* Bytes of the regions that the pool takes one after the other for so many of the first kind, when there is room for that
 * much. */
static uint64_t regions_for(const struct question *q, uint64_t count, uint64_t room)
{
    uint64_t taken = 0;
    while (count > 0) {
        pool_lock(q->pool);
        for (size_t n = 0; n < asked_at_once && count > 0; n++) {
            const uint64_t region = next_region_locked(q, taken, room);
            count -= smaller(count, region / q->kinds[0].size);
            taken = saturating_add(taken, region);
        }
        pool_unlock(q->pool);
    }
    return taken;
}

/* New regions count as the worst possible ones where idle regions may become new ones, and where cuts leave rests. */
static uint64_t missing_for_equals(const struct question *q)
{
    const struct kind *kind = &q->kinds[0];
    const uint64_t held = gathers(q) ? q->held : 0;
    const uint64_t left = kind->count - smaller(kind->count, held);
    if (left <= held_anew(q, q->room)) {
        return 0;
    }
    if (cuts_ends(q) && q->idle_bytes == 0) {
        return regions_for(q, left, q->room) <= q->room ? 0 : missing_of(q, regions_for(q, left, UINT64_MAX));
    }
    return missing_of(q, saturating_add(kind->least - q->granularity, saturating_multiply(left, worst_share(q))));
}

/* Regions taken for the group leave some of their bytes unused when a request of x + g bytes fails. The last region of each
 * kind leaves x at most, and no more than it has beside one of its kind. All other regions of the kind have no room left
 * for one of their kind either; so many they cannot be that together they hold more than the group. */
static void arrange_waste(const struct question *q)
{
    for (size_t i = 0; i < q->kind_count; i++) {
        const struct kind *kind = &q->kinds[i];
        const uint64_t rest = most_of(q, kind) - kind->size;
        const uint64_t used = kind->least > 2 * kind->size ? kind->least - kind->size : kind->size;
        const uint64_t full = smaller(kind->count - 1, q->total / used);
        q->ramps[2 * i] = (struct ramp){ .top = rest, .slope = 1 };
        q->ramps[2 * i + 1] = (struct ramp){ .top = smaller(rest, kind->size - q->granule), .slope = full };
    }
    weir__ramps_sort(q->ramps, 2 * q->kind_count);
}

/* W of a request of `size`: the sum of these over all regions. */
static uint64_t waste_of(const struct question *q, uint64_t size)
{
    return weir__ramps_at(q->ramps, 2 * q->kind_count, size - q->granule);
}

/* What pieces have had taken from them when none has room for `size`. */
static uint64_t spent_of(const struct question *q, uint64_t size)
{
    size_t low = 0;
    size_t high = q->piece_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (q->pieces[middle] < size) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return q->sums[low] - (uint64_t)(q->piece_count - low) * (size - q->granule);
}

static uint64_t missing_for_mixed(const struct question *q)
{
    uint64_t missing = 0;
    arrange_waste(q);
    for (size_t i = 0; i < q->kind_count; i++) {
        const struct kind *kind = &q->kinds[i];
        const uint64_t others = q->total - kind->size;
        const uint64_t spent = spent_of(q, kind->size);
        const uint64_t waste = waste_of(q, kind->size);
        const uint64_t lost = q->idle_bytes > 0 && waste > q->room ? waste - q->room : 0;
        if (saturating_add(others, lost) < spent) {
            continue;
        }
        /* X has to make up for what the pieces lack; it does so from 0 on only. */
        const uint64_t lacking = others >= spent ? others - spent + q->granule : 0;
        const uint64_t here = missing_of(q, saturating_add(saturating_add(lacking, waste), kind->least - q->granularity));
        missing = here > missing ? here : missing;
    }
    return missing;
}

static uint64_t missing_for_any_cuts(const struct question *q)
{
    uint64_t wanted = 0;
    for (size_t i = 0; i < q->kind_count; i++) {
        wanted = saturating_add(wanted, saturating_multiply(q->kinds[i].count, most_of(q, &q->kinds[i])));
    }
    return missing_of(q, wanted);
}

/* With virtual memory: a request fails only for the granules that it and the live blocks touch; one that begins anywhere
 * touches one more than it is long. The last one is given the best place there is. */
static uint64_t missing_for_granules(const struct question *q)
{
    uint64_t wanted = 0;
    for (size_t i = 0; i < q->kind_count; i++) {
        const struct kind *kind = &q->kinds[i];
        const uint64_t granules = (kind->size + q->granularity - 1) & ~(q->granularity - 1);
        wanted = saturating_add(wanted, saturating_multiply(kind->count, granules + q->granularity));
    }
    const bool lies_ready = q->count == 1 && q->largest_run >= q->kinds[0].size;
    return lies_ready ? 0 : missing_of(q, wanted - q->granularity);
}

static uint64_t missing_for(const struct question *q)
{
    if (q->pool->vm != NULL) {
        return missing_for_granules(q);
    }
    if (q->count == 1) {
        return missing_for_one(q);
    }
    if (q->kind_count == 1) {
        return missing_for_equals(q);
    }
    return cuts_ends(q) ? missing_for_mixed(q) : missing_for_any_cuts(q);
}

weir_status weir_pool_would_fit(weir_pool *pool, weir_stream *stream, const uint64_t *sizes, size_t n, bool *fits,
                                uint64_t *missing_bytes)
{
    const char *function = "weir_pool_would_fit";
    weir_status status = check_group(function, pool, stream, sizes, n);
    if (status != WEIR_OK) {
        return status;
    }
    if (fits == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: fits is NULL", function);
    }
    uint64_t missing = 0;
    struct question q = { .pool = pool,
                          .granule = pool->granule_mask + 1,
                          .granularity = pool->vm != NULL ? weir__vm_granule(pool) : weir__region_granularity(pool) };
    status = n > 0 ? sort_kinds(&q, sizes, n) : WEIR_OK;
    if (status == WEIR_OK && n > 0) {
        status = look(&q, stream);
    }
    if (status == WEIR_OK && n > 0) {
        struct question bounded = q;
        bound_regions(&bounded);
        missing = missing_for(&bounded) == 0 ? 0 : missing_for(&q); /* with more room, regions may be larger */
    }
    free(q.kinds);
    free(q.pieces);
    free(q.sums);
    free(q.ramps);
    if (status == WEIR_OK) {
        *fits = missing == 0;
        if (missing_bytes != NULL) {
            *missing_bytes = missing;
        }
    }
    return status;
}
