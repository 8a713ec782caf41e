/* core/src/report/group.c: several blocks at once, all or none; and weir_pool_would_fit.
 *
 * weir_pool_would_fit answers without trying. Unknown is which piece of free memory each request will get, since work
 * completes meanwhile. So the answer rests on counts that hold for every order:
 *
 *     pinned     A piece of L bytes whose region a live block or a pin keeps serves L / a requests of `a` bytes. Pieces
 *                merge meanwhile, which only adds.
 *     loose      Memory of a region that may go back to the device serves L / a where it is, or L / share in new
 *                regions, whichever is less: `share` bounds the bytes of new regions that one request uses up.
 *     room       Growing fails only if less than a least region is left, so it uses up all but that.
 *     mapped     With virtual memory every piece serves L / a: idle handles of a piece that holds the request do not
 *                move, since the request gets the piece first (vm.c). Requests beyond that touch no more new granules
 *                than they have.
 *
 * The ladder guarantees that a request gets this memory (ladder.c); tests/pool/stress/budget_random.c tests both.
 *
 * Cost: fit_looks pieces and fit_questions to the strategy at most, whatever the pool holds, under the locks of the
 * stream and of the pool. core/TRIALS.md has the figures.
 */
#include "base/tuning.h"
#include "report/report.h"
#include "shared/round_up.h"

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

static uint64_t saturating_multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

struct question {
    weir_pool *pool;
    const weir_stream *stream;
    uint64_t exact; /* the request in whole granules of the strategy */
    uint64_t unit;  /* bytes that a request uses up: the front cache and the strategy round up */
    uint64_t count;
    bool packs; /* the strategy has promised that (request_bytes) */
    /* Growing. The sizes of regions or, with virtual memory, of granules: */
    uint64_t granularity;
    uint64_t most;     /* bytes that may be reserved; unknown: those that are */
    uint64_t reserved; /* bytes */
    uint64_t room;     /* bytes that may still be reserved */
    uint64_t least;    /* the least region that serves the request */
    uint64_t share;    /* the most bytes of new regions that one request uses up */
    /* Free memory: */
    unsigned looks;                  /* pieces that may still be looked at */
    bool one;                        /* a piece holds the request */
    uint64_t pinned;                 /* requests that certainly stay where they are */
    uint64_t loose;                  /* bytes of new regions that requests are worth that may have to move */
    uint64_t idle;                   /* bytes of wholly free regions */
    struct vm_whole_handles handles; /* virtual memory: the idle handles in pieces that do not hold the request */
};

/* Counts a piece of free memory. A strategy that promises nothing else serves one request from all pieces. */
static void note_piece(struct question *q, uint64_t size, bool set_apart, bool pinned)
{
    if (size < q->unit) {
        q->one |= size >= q->exact;
        return;
    }
    const uint64_t requests = set_apart ? q->packs : q->packs ? size / q->unit : !q->one;
    q->one = true;
    if (pinned || q->pool->vm != NULL) {
        q->pinned += requests;
    } else if (q->reserved <= q->most) { /* above the limit, memory that goes back makes no room */
        const uint64_t moved = saturating_multiply(requests, q->share);
        q->loose += moved < size ? moved : size;
    }
}

/* False if no end of work lets the asking stream have what was freed on the stream up to the tick: memory of a graph,
 * and of a stream that is being captured, which nothing can wait for. Pool lock held. */
static bool may_come(const struct question *q, const weir_stream *stream, weir_tick tick)
{
    WEIR_ASSERT(pool_is_locked(q->pool));
    const bool stays = is_stand_in(stream) || atomic_load_explicit(&stream->stand_in, memory_order_relaxed) != NULL;
    return !stays || stream == q->stream || tick <= done_on(stream) || tick <= clock_at(q->stream, stream->lane);
}

static bool all_may_come(const struct question *q, const weir_block *block)
{
    const struct weir_use *use = block_uses(block)->first;
    while (use != NULL && may_come(q, use->stream, use->tick)) {
        use = use->next;
    }
    return use == NULL;
}

static bool look_at_range(void *ctx, const weir_range_info *range)
{
    struct question *q = ctx;
    q->looks--;
    const weir_stream *stream = range->lane != WEIR_LANE_OPEN ? q->pool->streams[range->lane] : NULL;
    if (stream != NULL && !may_come(q, stream, stream->last_free)) {
        return q->looks > 0;
    }
    const bool kept = q->pool->vm == NULL && weir__pins_locked(q->pool, range->region_address) != 0;
    note_piece(q, range->size, range->set_apart,
               kept || (range->token != NULL && is_held(state_of((const weir_block *)range->token))));
    if (q->pool->vm == NULL) {
        q->idle += range->region_size == range->size && !kept ? range->size : 0;
    } else if (range->size < q->unit) {
        weir__vm_add_whole_locked(q->pool, range->address, range->size, &q->looks, &q->handles);
    }
    return q->looks > 0 && q->pinned < q->count && q->loose / q->share <= q->count;
}

static void note_slot(struct question *q, const struct front_slot *slot)
{
    for (unsigned i = 0; i < slot->count && q->looks > 0; i++, q->looks--) {
        note_piece(q, block_capacity(slot->blocks[i]), false, false);
    }
}

/* Counts the freed blocks that the strategy does not know to be free: those in the stream's front cache, and those that
 * other streams still use. */
static void look_at_freed_blocks(struct question *q, const weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream) && pool_is_locked(q->pool));
    const struct front_cache *front = &stream->front;
    if (front_freed(front) != NULL) {
        note_piece(q, block_capacity(front->last), false, false);
    }
    for (uint32_t i = 0; i < front->large_count; i++) {
        note_piece(q, block_capacity(front->large[i]), false, false);
    }
    const uint64_t granules = q->unit >> q->pool->granule_shift;
    for (unsigned word = 0; word < FRONT_WORDS && granules <= front_small(q->pool); word++) {
        for (uint64_t held = front->held[word]; held != 0; held &= held - 1) {
            note_slot(q, front_slot_of(front, word * 64 + (unsigned)__builtin_ctzll(held)));
        }
    }
    for (const weir_block *block = q->pool->pending; block != NULL && q->looks > 0; q->looks--) {
        if (all_may_come(q, block)) {
            note_piece(q, block_capacity(block), false, false);
        }
        block = block_uses(block)->next;
    }
}

/* Returns the requests that a new region serves. */
static uint64_t serves(const struct question *q, uint64_t region)
{
    return q->packs && region >= q->unit ? region / q->unit : 1;
}

/* Computes the least region, and the most bytes of new regions that a request uses up: a region wastes its rest. The
 * worst case is the largest region that serves no more requests than the least region does. A strategy may ask for
 * larger regions as more is reserved. Pool lock held. */
static void look_at_region_sizes(struct question *q)
{
    WEIR_ASSERT(pool_is_locked(q->pool));
    uint64_t now = 0;
    uint64_t later = 0;
    weir__region_sizes_locked(q->pool, q->exact, q->pool->granule_mask + 1, q->reserved, &now, &q->least);
    weir__region_sizes_locked(q->pool, q->exact, q->pool->granule_mask + 1, SIZE_LIMIT, &later, &q->least);
    uint64_t worst = now > later ? now : later;
    const uint64_t served = serves(q, q->least);
    if (q->packs) {
        const uint64_t region = ((served + 1) * q->unit - 1) & ~(q->granularity - 1);
        worst = region < worst ? region : worst;
    }
    worst = worst > q->least ? worst : q->least;
    q->share = (worst + served - 1) / served;
}

/* --- new memory --- */

/* Returns the requests that new regions serve if they follow the strategy's wishes, and takes these regions off the
 * room. Asks fit_questions times at most. Pool lock held. */
static uint64_t first_regions(struct question *q)
{
    WEIR_ASSERT(pool_is_locked(q->pool));
    const uint64_t soft = weir__budget_limit_locked(q->pool, true);
    uint64_t reserved = q->reserved;
    uint64_t served = 0;
    for (int asked = 0; asked < fit_questions && q->room >= q->least && served < q->count; asked++) {
        uint64_t preferred = 0;
        uint64_t least = 0;
        weir__region_sizes_locked(q->pool, q->exact, q->pool->granule_mask + 1, reserved, &preferred, &least);
        const bool has_room = preferred <= q->room && soft >= reserved && preferred <= soft - reserved;
        const uint64_t region = has_room ? preferred : least;
        served += serves(q, region);
        reserved += region;
        q->room -= region;
    }
    return served;
}

/* Returns the requests that loose memory and the room serve. If no memory is loose, nothing is given back meanwhile,
 * and the regions are those that the strategy asks for. Pool lock held. */
static uint64_t served_by_regions(struct question *q)
{
    const uint64_t first = q->packs && q->loose == 0 && q->idle == 0 ? first_regions(q) : 0;
    const uint64_t worth = q->loose + (q->room & ~(q->granularity - 1)) + q->granularity;
    return first + (worth > q->least ? (worth - q->least) / q->share : 0);
}

/* The same with virtual memory. Far below the limit handles are larger than granules, so a request may touch more than
 * it needs; the rest of a handle is below a request's size. */
static uint64_t served_by_granules(const struct question *q)
{
    WEIR_ASSERT(q->reserved >= q->handles.bytes);
    const uint64_t granules = round_up(q->unit, q->granularity);
    const uint64_t touched = q->reserved - q->handles.single;
    uint64_t bytes = q->most > touched ? q->most - touched : 0;
    if (!q->packs) {
        return bytes >= granules; /* nothing is known about the rests */
    }
    const uint64_t far = weir__vm_coarse_locked(q->pool, q->reserved);
    bytes -= q->unit > q->granularity ? (far < bytes ? far : bytes) / 2 : 0;
    return bytes / granules * (granules / q->unit > 0 ? granules / q->unit : 1);
}

/* True if a single request is served: by one piece, or by new memory after all idle memory has gone back. */
static bool serves_one(const struct question *q)
{
    const uint64_t wanted = q->pool->vm != NULL ? round_up(q->exact, q->granularity) : q->least;
    const uint64_t kept = q->reserved - (q->pool->vm != NULL ? q->handles.bytes : q->idle);
    return q->one || (q->most > kept && q->most - kept >= wanted);
}

static void look_at_size(struct question *q, uint64_t size)
{
    WEIR_ASSERT(pool_is_locked(q->pool));
    const weir_strategy_ops *strategy = q->pool->strategy;
    const uint64_t rounded = front_key(q->pool, size) << q->pool->granule_shift;
    const uint64_t taken = size <= q->pool->front.largest && rounded > q->exact ? rounded : q->exact;
    const uint64_t bytes = STRATEGY_HAS(strategy, request_bytes) ? strategy->request_bytes(q->pool->state, taken) : 0;
    q->packs = bytes != 0;
    q->unit = bytes > taken ? bytes : taken;
}

/* Returns the most bytes that the pool may reserve, as far as is known: no more than it has and the device has free. */
static uint64_t most_now(const weir_pool *pool, uint64_t device_free)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const uint64_t most = weir__budget_most_locked(pool, false);
    const uint64_t reserved = pool->held.bytes;
    return most == 0 ? reserved : most > reserved && most - reserved > device_free ? reserved + device_free : most;
}

static void ask(struct question *q, weir_stream *stream, uint64_t size)
{
    const weir_strategy_ops *strategy = q->pool->strategy;
    uint64_t device_free = UINT64_MAX;
    uint64_t total = 0;
    (void)weir_device_memory_info(q->pool->device, &device_free, &total); /* a device need not tell */
    stream_visit(stream);
    pool_lock(q->pool);
    look_at_size(q, size);
    q->reserved = q->pool->held.bytes;
    q->most = most_now(q->pool, device_free);
    q->room = q->most > q->reserved ? q->most - q->reserved : 0;
    look_at_region_sizes(q);
    if (STRATEGY_HAS(strategy, walk_large)) {
        look_at_freed_blocks(q, stream);
        strategy->walk_large(q->pool->state, q->unit < q->granularity ? q->unit : q->granularity, look_at_range, q);
    }
    q->pinned += q->pool->vm != NULL ? served_by_granules(q) : served_by_regions(q);
    pool_unlock(q->pool);
    stream_unlock(stream);
}

weir_status weir_pool_would_fit(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t count, uint64_t *fit)
{
    const char *function = "weir_pool_would_fit";
    weir_status status = check_group(function, pool, stream, NULL, 0);
    if (status != WEIR_OK) {
        return status;
    }
    if (size == 0 || size >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: size %" PRIu64 " is %s", function, size,
                           size == 0 ? "no size" : "too large to round");
    }
    if (fit == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: fit is NULL", function);
    }
    status = weir__capture_route(&stream); /* in a capture, what a request there would get */
    if (status != WEIR_OK) {
        return status;
    }
    struct question q = {
        .pool = pool,
        .stream = stream,
        .exact = round_up(size, pool->granule_mask + 1),
        .count = count,
        .granularity = pool->vm != NULL ? weir__vm_granule(pool) : weir__region_granularity(pool),
        .looks = fit_looks,
    };
    ask(&q, stream, size);
    const uint64_t served = q.pinned > 0 ? q.pinned : serves_one(&q);
    *fit = served < count ? served : count;
    return WEIR_OK;
}
