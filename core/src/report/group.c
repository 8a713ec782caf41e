/* core/src/report/group.c: several blocks at once, all or none; and weir_pool_would_fit.
 *
 * weir_pool_would_fit answers without trying. Known are the free ranges (snapshot.c), how much more may be taken, and
 * how large a region the strategy asks for. Unknown is which piece each request will get, since work completes
 * meanwhile, and when the pool will grow. So each request counts as one of the largest size, a, and the answer rests on
 * counts that hold for every placement. Suppose request i fails although every other request was served before. Then
 *
 *     each free piece has a rest below a(i)        a piece of L bytes has served at least L / a requests (one, if the
 *                                                  strategy does not cut ends and a run of neighbours holds a)
 *     the room left is less than least(i)          the rest of the room has become regions, each of which is used up
 *                                                  likewise: it has served one request or more for each `share` bytes
 *
 * So if these counts add up to the number of requests, no request fails, in any order of the requests. A wholly
 * free region may be returned to the device on the way and become other regions, so it counts as the lesser of the two.
 * (While the pool is above its limit such a region does not count at all.) No request fails either if there is room for
 * a region of its own for each request.
 *
 * A single request is a simpler question: is there a run of neighbours that holds it, or room for a region after all
 * idle regions have been returned? With virtual memory idle handles go, so the granules that a request may touch are
 * counted.
 *
 * The ladder guarantees that a request gets this memory (ladder.c); tests/pool/stress tests both.
 *
 * Cost: a poll, a copy of the ranges, and n log n for n requests. The strategy is asked twice for each distinct size,
 * and once for each region that equal requests would take. The pool's lock is held for the copy and for a few questions
 * at a time.
 */
#include "base/tuning.h"
#include "report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT (UINT64_C(1) << (WEIR_SIZE_BUCKETS - 1))

/* --- all or none --- */

/* Checks the arguments, so that a group with a size that no alloc accepts is refused before its first alloc. */
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
        (void)status; /* cannot fail: the allocs have shown that the arguments are valid */
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
    weir_block **got = malloc((n + 1) * sizeof(weir_block *)); /* the caller's array stays unchanged on failure */
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
    WEIR_ASSERT_FULL(weir_pool_check(pool, NULL) == WEIR_OK);
    return status;
}

/* --- would they fit? --- */

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    return a + b >= a ? a + b : UINT64_MAX;
}

static uint64_t saturating_multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Requests of one size. Sizes are in bytes and multiples of the granule. */
struct kind {
    uint64_t size;
    uint64_t count;
    uint64_t least;     /* the least region that serves */
    uint64_t preferred; /* the largest region that the strategy would ask for */
};

struct question {
    weir_pool *pool;
    struct kind *kinds; /* by size, ascending */
    size_t kind_count;
    uint64_t count;
    uint64_t size; /* the largest size of a request; each request counts as one of this size */
    uint64_t granule;
    uint64_t granularity;
    /* The state of the pool: */
    uint64_t largest_run;
    uint64_t idle_bytes; /* bytes of wholly free regions */
    uint64_t held;       /* requests that the free pieces serve in the worst case */
    uint64_t reserved;
    uint64_t soft_limit; /* 0: no soft limit */
    uint64_t room;       /* bytes that may still be taken */
    uint64_t over;       /* bytes by which the pool is above its limit; `room` is then 0 */
    uint64_t
        largest_region; /* upper bound of the region size that the strategy prefers while `room` bytes may be taken */
};

static int by_size(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Returns the most bytes that one request of a group takes off a free range. The front cache rounds small requests up.
 * If no range serves the rounded size, the request takes its exact size, so a single request counts with its exact
 * size. */
static uint64_t most_taken(const struct question *q, uint64_t size, size_t n)
{
    WEIR_ASSERT(size != 0 && n != 0);
    const uint64_t exact = (size + q->granule - 1) & ~(q->granule - 1);
    const uint64_t rounded = front_key(q->pool, size) << q->pool->granule_shift;
    return n > 1 && size <= q->pool->front.largest && rounded > exact ? rounded : exact;
}

static weir_status sort_kinds(struct question *q, const uint64_t *sizes, size_t n)
{
    WEIR_ASSERT(n != 0 && q->kinds == NULL);
    q->kinds = calloc(n, sizeof(*q->kinds));
    if (q->kinds == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        q->kinds[i] = (struct kind){.size = most_taken(q, sizes[i], n), .count = 1};
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
    q->size = q->kinds[q->kind_count - 1].size;
    WEIR_ASSERT(q->size != 0);
    return WEIR_OK;
}

/* Returns the larger of two region sizes that the strategy asks for: with the present reserved bytes, and with the most
 * bytes that may be reserved. A strategy may ask for larger regions as more is reserved. Pool lock held. */
static uint64_t preferred_region_locked(const weir_pool *pool, uint64_t size, uint64_t reserved, uint64_t *least)
{
    WEIR_ASSERT(pool_is_locked(pool));
    uint64_t now = 0;
    uint64_t later = 0;
    weir__region_sizes_locked(pool, size, pool->granule_mask + 1, reserved, &now, least);
    weir__region_sizes_locked(pool, size, pool->granule_mask + 1, SIZE_LIMIT, &later, least);
    return now > later ? now : later;
}

/* Reads the limits. With virtual memory idle handles can go back, so only handles that live blocks touch count as
 * reserved. Another thread may have returned idle granules after the snapshot was taken, so the difference is kept from
 * going below 0. */
static void look_at_limits(struct question *q, const struct snapshot *snapshot)
{
    WEIR_ASSERT(outside_pool_lock(q->pool));
    pool_lock(q->pool);
    const uint64_t idle = q->pool->vm != NULL ? weir__snapshot_idle_handles_locked(q->pool, snapshot) : 0;
    const uint64_t most = weir__budget_most_locked(q->pool, false);
    const uint64_t reserved = q->pool->held.bytes;
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
            kind->preferred = preferred_region_locked(q->pool, kind->size, q->reserved, &kind->least);
            WEIR_ASSERT(kind->least >= kind->size && kind->least != 0);
        }
        pool_unlock(q->pool);
    }
}

/* Bounds the regions that the strategy may prefer: none may be larger than the room below the limits, plus the idle
 * regions that the pool may give back to make room. */
static void bound_regions(struct question *q)
{
    const uint64_t soft = q->soft_limit;
    const uint64_t below_soft = soft == 0 ? UINT64_MAX : soft > q->reserved ? soft - q->reserved : 0;
    q->largest_region = saturating_add(smaller(q->room, below_soft), q->idle_bytes);
}

/* Returns the size of the largest region that the pool may take for a request of this size. */
static uint64_t most_of(const struct question *q, const struct kind *kind)
{
    const uint64_t most = smaller(kind->preferred, q->largest_region);
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

/* Returns the most bytes of new regions that one request can use up. A region serves its size / `size` requests, at
 * least one, and wastes the rest. The worst case is the largest region that serves no more requests than the least
 * region does. */
static uint64_t share_of(const struct question *q, const struct kind *kind)
{
    WEIR_ASSERT(q->size != 0 && kind->least != 0);
    if (!cuts_ends(q)) {
        return most_of(q, kind);
    }
    const uint64_t served = kind->least > q->size ? kind->least / q->size : 1;
    const uint64_t region = ((served + 1) * q->size - q->granule) & ~(q->granularity - 1);
    const uint64_t worst = smaller(most_of(q, kind), region > kind->least ? region : kind->least);
    return (worst + served - 1) / served;
}

static uint64_t worst_share(const struct question *q)
{
    uint64_t worst = 0;
    for (size_t i = 0; i < q->kind_count; i++) {
        const uint64_t share = share_of(q, &q->kinds[i]);
        worst = share > worst ? share : worst;
    }
    return worst;
}

static uint64_t largest_least(const struct question *q)
{
    uint64_t least = 0;
    for (size_t i = 0; i < q->kind_count; i++) {
        least = q->kinds[i].least > least ? q->kinds[i].least : least;
    }
    return least;
}

/* Returns how many requests are certainly served by regions of `bytes` bytes together. */
static uint64_t held_anew(const struct question *q, uint64_t bytes)
{
    const uint64_t least = largest_least(q);
    const uint64_t whole = bytes & ~(q->granularity - 1);
    return whole < least ? 0 : (whole - least + q->granularity) / worst_share(q);
}

/* Sums over one region. */
struct region_sums {
    uint64_t run;
    uint64_t free_bytes;
    uint64_t held;
};

/* Adds the sums of a finished region to `q`. While the pool is above its limit, giving an idle region back creates no
 * room to grow, so several requests cannot count on the bytes of that region. */
static void end_region(struct question *q, const struct region_sums *sums, uint64_t size)
{
    WEIR_ASSERT(sums->free_bytes <= size && sums->run <= size);
    const bool idle = sums->free_bytes == size;
    q->idle_bytes += idle ? size : 0;
    if (!idle) {
        q->held += sums->held;
    } else if (q->over == 0) {
        q->held += smaller(sums->held, held_anew(q, size));
    }
}

/* Adds up the free pieces. A single request may use a whole run of neighbours, because the pool gathers them as a last
 * resort. Several requests count on single ranges only. */
static void look_at_pieces(struct question *q, const struct snapshot *snapshot)
{
    WEIR_ASSERT(q->size != 0);
    struct region_sums sums = {0};
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct snapshot_piece *piece = &snapshot->pieces[i];
        if (piece->state == SNAPSHOT_TAKEN || piece->state == SNAPSHOT_HOLE) {
            sums.run = 0;
        } else {
            const bool first_to_hold = sums.run < q->size && sums.run + piece->size >= q->size;
            sums.run += piece->size;
            sums.free_bytes += piece->size;
            sums.held += cuts_ends(q) ? piece->size / q->size : (uint64_t)first_to_hold;
            q->largest_run = sums.run > q->largest_run ? sums.run : q->largest_run;
        }
        if (i + 1 == snapshot->count || snapshot->pieces[i + 1].region != piece->region) {
            end_region(q, &sums, piece->region_size);
            sums = (struct region_sums){0};
        }
    }
}

static weir_status look(struct question *q, const weir_stream *stream)
{
    struct snapshot snapshot;
    (void)weir__order_poll(q->pool);
    if (!weir__snapshot_take(q->pool, stream, &snapshot)) {
        return WEIR_ERR_NO_MEMORY;
    }
    look_at_limits(q, &snapshot);
    look_at_regions(q);
    look_at_pieces(q, &snapshot);
    weir__snapshot_fini(&snapshot);
    return WEIR_OK;
}

/* --- how many bytes of room are missing --- */

static uint64_t missing_of(const struct question *q, uint64_t wanted)
{
    const uint64_t whole = saturating_add(wanted, q->granularity - 1) & ~(q->granularity - 1);
    return whole > q->room ? whole - q->room + q->over : 0;
}

static uint64_t missing_for_one(const struct question *q)
{
    WEIR_ASSERT(q->count == 1 && q->kind_count == 1);
    const struct kind *kind = &q->kinds[0];
    if (gathers(q) && q->largest_run >= kind->size) {
        return 0;
    }
    const uint64_t returned = gathers(q) ? q->idle_bytes : 0;
    const uint64_t wanted = saturating_add(kind->least, q->over);
    const uint64_t there = q->room + returned;
    return wanted > there ? wanted - there : 0;
}

/* Returns the size of the next region that the pool takes for requests of one size, after it has taken `taken` of
 * `room` bytes. Pool lock held. */
static uint64_t next_region_locked(const struct question *q, uint64_t taken, uint64_t room)
{
    WEIR_ASSERT(pool_is_locked(q->pool));
    const uint64_t soft = q->soft_limit != 0 ? q->soft_limit : UINT64_MAX;
    const uint64_t reserved = saturating_add(q->reserved, taken);
    uint64_t preferred = 0;
    uint64_t least = 0;
    weir__region_sizes_locked(q->pool, q->kinds[0].size, q->granule, reserved, &preferred, &least);
    const bool has_room =
        room >= taken && preferred <= room - taken && soft >= reserved && preferred <= soft - reserved;
    return has_room ? preferred : least;
}

/* Returns the bytes of the regions that the pool takes, one after the other, for `count` requests of one size, if it
 * may take `room` bytes. */
static uint64_t regions_for(const struct question *q, uint64_t count, uint64_t room)
{
    uint64_t taken = 0;
    while (count > 0) {
        pool_lock(q->pool);
        for (size_t n = 0; n < asked_at_once && count > 0; n++) {
            const uint64_t region = next_region_locked(q, taken, room);
            WEIR_ASSERT(region >= q->kinds[0].size);
            count -= smaller(count, region / q->kinds[0].size);
            taken = saturating_add(taken, region);
        }
        pool_unlock(q->pool);
    }
    return taken;
}

/* Each request counts as one of the largest size. If idle regions may be exchanged for new regions, if sizes differ, or
 * if blocks are not cut from the ends of ranges, each new region is assumed to serve as few requests as possible. */
static uint64_t missing_for_several(const struct question *q)
{
    WEIR_ASSERT(q->count > 1);
    const uint64_t held = gathers(q) ? q->held : 0;
    const uint64_t left = q->count - smaller(q->count, held);
    if (left <= held_anew(q, q->room)) {
        return 0;
    }
    if (q->kind_count == 1 && cuts_ends(q) && q->idle_bytes == 0) {
        return regions_for(q, left, q->room) <= q->room ? 0 : missing_of(q, regions_for(q, left, UINT64_MAX));
    }
    return missing_of(q, saturating_add(largest_least(q) - q->granularity, saturating_multiply(left, worst_share(q))));
}

/* Each request gets a new region. */
static uint64_t missing_for_regions(const struct question *q)
{
    uint64_t wanted = 0;
    for (size_t i = 0; i < q->kind_count; i++) {
        wanted = saturating_add(wanted, saturating_multiply(q->kinds[i].count, most_of(q, &q->kinds[i])));
    }
    return missing_of(q, wanted);
}

/* With virtual memory a request fails only if the handles that live blocks touch and the request exceed the room.
 * A request touches at most one granule more than its length. The last request gets the best place, so it touches no
 * extra granule. */
static uint64_t missing_for_granules(const struct question *q)
{
    WEIR_ASSERT(q->pool->vm != NULL && q->kind_count != 0);
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
    return q->count == 1 ? missing_for_one(q) : smaller(missing_for_several(q), missing_for_regions(q));
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
    struct question q = {.pool = pool,
                         .granule = pool->granule_mask + 1,
                         .granularity = pool->vm != NULL ? weir__vm_granule(pool) : weir__region_granularity(pool)};
    status = n > 0 ? sort_kinds(&q, sizes, n) : WEIR_OK;
    if (status == WEIR_OK && n > 0) {
        status = look(&q, stream);
    }
    if (status == WEIR_OK && n > 0) {
        struct question bounded = q;
        bound_regions(&bounded);
        missing = missing_for(&bounded) == 0 ? 0 : missing_for(&q); /* more room may mean larger regions */
    }
    free(q.kinds);
    if (status == WEIR_OK) {
        *fits = missing == 0;
        if (missing_bytes != NULL) {
            *missing_bytes = missing;
        }
    }
    return status;
}
