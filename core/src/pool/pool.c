/* core/src/pool/pool.c: the pool's public functions: alloc and free through a stream's front cache.
 *
 * Idea: memory that was freed on a stream may be handed out on the same stream at once, because the stream itself
 * orders the old use before the new one. So each stream keeps the blocks freed on it (front_cache.h), last in first
 * out. A hit takes the stream's own lock, pops a block, counts and releases the lock. It makes no device call, records
 * no event and writes no counter that other streams write. Only a miss goes on to ladder.c.
 *
 * Guarantee: a block in a front cache is handed out on that stream only, and only for a request that fits its capacity.
 * A cache is bounded in bytes, count and block size. All but tiny blocks leave it before the pool grows.
 */
#include "pool/pool.h"
#include "memory/asleep.h"
#include "order/take.h"
#include "shared/alloc_at.h"
#include "shared/hold.h"

#include <inttypes.h>
#include <stdlib.h>

#define SIZE_LIMIT (UINT64_C(1) << (WEIR_SIZE_BUCKETS - 1))
/* noclone: a clone by gcc drops unused arguments and takes the remaining ones in other registers. */
#if defined(__clang__)
#define OUT_OF_LINE __attribute__((noinline))
#else
#define OUT_OF_LINE __attribute__((noinline, noclone))
#endif

/* --- holds --- */

weir_device *weir_pool_device(const weir_pool *pool)
{
    return pool != NULL ? pool->device : NULL;
}

weir_status weir_pool_hold(weir_pool *pool)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_hold: pool is NULL");
    }
    (void)atomic_fetch_add_explicit(&pool->holds, 1, memory_order_relaxed);
    return WEIR_OK;
}

weir_status weir_pool_release(weir_pool *pool)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_release: pool is NULL");
    }
    if (!weir__release_hold(&pool->holds)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_release: the pool is not held");
    }
    return WEIR_OK;
}

/* --- checked builds --- */

/* True if the handle may be dereferenced. Ordinary builds trust every pointer that is not NULL. */
static inline bool is_handle(weir_pool *pool, const weir_block *block)
{
    return block != NULL && (WEIR_CHECKS < 1 || (pool != NULL && weir__block_is_ours(pool, block)));
}

/* True if `block` is a block of the pool that has not gone back to the strategy. Only then may its stream be read. */
static inline bool is_block(weir_pool *pool, const weir_block *block)
{
    return is_handle(pool, block) && state_of(block) != BLOCK_UNUSED && block_stream(block) != NULL &&
           block_pool(block) == pool;
}

static OUT_OF_LINE weir_status refuse_block(const char *function, weir_pool *pool, const weir_block *block)
{
    if (pool == NULL || block == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function, pool == NULL ? "pool" : "block");
    }
    if (!is_handle(pool, block) || (state_of(block) != BLOCK_UNUSED && !is_block(pool, block))) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: block %p is not a block of this pool", function, (const void *)block);
    }
    if (state_of(block) == BLOCK_ASLEEP) {
        return weir_refuse(WEIR_ERR_BUSY, "%s: block %p sleeps: it has no memory before weir_pool_wake", function,
                           (const void *)block);
    }
    return weir_refuse(WEIR_ERR_INVALID, "%s: block %p is not live: it has been freed already", function,
                       (const void *)block);
}

/* Checked builds: aborts if an invariant is broken. No lock held. */
static inline void prove(weir_pool *pool)
{
    const char *why = NULL;
    weir_status status = WEIR_OK;
    if (WEIR_CHECKS >= 3) {
        status = weir_pool_check(pool, &why);
    } else if (WEIR_CHECKS == 2 && atomic_fetch_add_explicit(&pool->slow_calls, 1, memory_order_relaxed) % 256 == 0) {
        pool_lock(pool);
        status = pool->strategy->check(pool->state, &why);
        pool_unlock(pool);
    }
    if (status == WEIR_ERR_INTERNAL) {
        weir__rule_broken(why != NULL ? why : "unknown");
    }
}

/* --- the fast path --- */

static struct weir_use *find_use(const weir_block *block, const weir_stream *stream)
{
    const struct block_uses *uses = block_uses(block);
    struct weir_use *use = uses != NULL ? uses->first : NULL;
    while (use != NULL && (use->stream != stream || use->serial != stream->serial)) {
        use = use->next;
    }
    return use;
}

static struct weir_use *add_use(weir_block *block, weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(stream->owner));
    struct block_uses *uses = weir__block_add_uses(block);
    struct weir_use *use = uses != NULL ? malloc(sizeof(*use)) : NULL;
    if (use != NULL) {
        *use = (struct weir_use){.next = uses->first, .stream = stream, .serial = stream->serial};
        uses->first = use;
    }
    return use;
}

/* Stands for the stream's own tag, which is read later, under the stream's lock. */
#define TAG_OF_STREAM ((weir_tag)WEIR_TAGS)

/* Returns the tag of the request: `wanted`, or the stream's own tag for TAG_OF_STREAM. Stream lock held. */
static inline weir_tag tag_on(const weir_stream *stream, weir_tag wanted)
{
    WEIR_ASSERT(stream_is_locked(stream));
    return wanted == TAG_OF_STREAM ? stream->tag : wanted;
}

static OUT_OF_LINE weir_block *take_remote_free(weir_stream *stream, uint64_t key)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_pool *pool = stream->owner;
    weir_block *block = weir__remote_frees_take(pool, stream, key);
    return block != NULL || front_block_bytes(stream) == 0 ? block : front_pop(pool, stream, key - 1);
}

/* Counts a live block under its tag and reports the alloc to observers. Stream lock held on entry, released on return.
 * Observers attach under all stream locks, so an observer seen here has either listed this block at attach or is told
 * of this alloc, never both. */
static inline weir_status finish_alloc(weir_pool *pool, weir_stream *stream, uint64_t align, weir_block *block,
                                       weir_block **out, weir_tag wanted)
{
    WEIR_ASSERT(stream_is_locked(stream));
    const weir_tag tag = tag_on(stream, wanted);
    if (UNLIKELY(tag != 0)) {
        weir__tag_take(stream, block, tag);
    }
    *out = block;
    if (UNLIKELY(is_watched(pool))) {
        weir__watch_alloc_unlock(stream, block, align);
    } else {
        stream_unlock(stream);
    }
    prove(pool);
    return WEIR_OK;
}

/* Serves a request by one of the ways in ladder.c. Stream lock held on entry, released on return. */
static OUT_OF_LINE weir_status alloc_by_ladder(weir_stream *stream, uint64_t size, uint64_t align, weir_block **out,
                                               weir_tag wanted)
{
    weir_pool *pool = stream->owner;
    struct request request = {.pool = pool,
                              .stream = stream,
                              .size = size,
                              .align = align != 0 ? align : pool->granule_mask + 1,
                              .tag = tag_on(stream, wanted)};
    stream_unlock(stream);
    const weir_status status = weir__ladder_alloc(&request);
    if (status != WEIR_OK) {
        return status;
    }
    stream_lock(stream);
    front_unload(stream);
    begin_block(stream, request.block, size);
    stream->counters.misses++;
    return finish_alloc(pool, stream, align, request.block, out, wanted);
}

/* Serves a request with valid arguments after a miss of the front cache. Searches the stream's own free memory for the
 * size rounded up to a size class; then the ladder (ladder.c) serves the caller's size. Stream lock held on entry,
 * released on return. */
static OUT_OF_LINE weir_status serve_missed(weir_stream *stream, uint64_t size, uint64_t align, bool cacheable,
                                            weir_block **out, weir_tag wanted)
{
    WEIR_ASSERT(stream_is_locked(stream));
    weir_pool *pool = stream->owner;
    const uint64_t multiple = align != 0 ? align : pool->granule_mask + 1;
    const bool large = front_granules(pool, size) >= front_small(pool);
    uint64_t rounded = size;
    if (cacheable) {
        const uint64_t key = large ? front_granules(pool, size) + 1 : front_small_key(pool, size);
        weir_block *freed = LIKELY(remote_frees_are_empty(stream)) ? NULL : take_remote_free(stream, key);
        if (freed != NULL) {
            revive_block(stream, freed, size);
            return finish_alloc(pool, stream, align, freed, out, wanted);
        }
        rounded = key << pool->granule_shift;
    }
    weir_block *block = take_from_own_lane(stream, size, large, rounded, multiple);
    if (UNLIKELY(block == NULL)) {
        return alloc_by_ladder(stream, size, align, out, wanted);
    }
    stream->counters.misses++;
    return finish_alloc(pool, stream, align, block, out, wanted);
}

/* Does the same as serve_missed for a request that the fast path takes: no alignment above the granule, no tag, and the
 * pool has no observer. Stream lock held on entry, released on return. */
static OUT_OF_LINE weir_status alloc_missed(weir_pool *pool, weir_stream *stream, uint64_t size, bool large,
                                            weir_block **out, uint64_t granules)
{
    WEIR_ASSERT(stream_is_locked(stream) && !is_watched(pool) && granules == front_granules(pool, size));
    WEIR_ASSERT(large == (granules >= front_small(pool)));
    const uint64_t key = large ? granules + 1 : front_small_key(pool, size);
    weir_block *block = NULL;
    bool searched = false;
    if (UNLIKELY(!remote_frees_are_empty(stream)) ||
        UNLIKELY((block = take_plainly(pool, stream, size, large, key << pool->granule_shift, &searched)) == NULL)) {
        return searched ? alloc_by_ladder(stream, size, 0, out, 0) : serve_missed(stream, size, 0, true, out, 0);
    }
    stream->counters.misses++;
    stream_lock_release_own(&stream->lock);
    *out = block;
    prove(pool);
    return WEIR_OK;
}

static weir_status check_request(const weir_pool *pool, const weir_stream *stream, uint64_t size, uint64_t align,
                                 weir_block **out, weir_tag wanted)
{
    const char *function = wanted == TAG_OF_STREAM ? "weir_pool_alloc" : "weir_pool_alloc_tagged";
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream(function, pool, stream);
    }
    if (out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: block is NULL", function);
    }
    if (size == 0 || size >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: size %" PRIu64 " is %s", function, size,
                           size == 0 ? "no size" : "too large to round");
    }
    if ((align & (align - 1)) != 0 || align >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: align %" PRIu64 " is %s", function, align,
                           align >= SIZE_LIMIT ? "too large" : "not a power of two");
    }
    return WEIR_OK;
}

/* Returns the tag of a request that a stand-in serves: `wanted`, or that of the stream for which it stands. */
static weir_tag tag_through(weir_stream *stand_in, weir_tag wanted)
{
    if (wanted == TAG_OF_STREAM) {
        stream_visit(stand_in->as.of);
        wanted = stand_in->as.of->tag;
        stream_unlock(stand_in->as.of);
    }
    return wanted;
}

/* Makes a new block of a stand-in one whose memory stays with the stand-in, whatever stream frees it. Without host
 * memory the block is freed. */
static weir_status keep_for_graph(weir_stream *stand_in, weir_block *block, bool lent, weir_block **out)
{
    weir_pool *pool = stand_in->owner;
    WEIR_ASSERT(is_stand_in(stand_in) && outside_pool_lock(pool));
    pool_lock(pool);
    const bool added = add_use(block, stand_in) != NULL;
    if (added) {
        block_uses(block)->stand_in = stand_in->serial;
        block_uses(block)->lent = lent;
        stand_in->as.live_bytes += block_capacity(block);
        stand_in->as.captures->lent_bytes += lent ? block_capacity(block) : 0;
    }
    pool_unlock(pool);
    if (!added) {
        (void)!weir_pool_free(pool, block, stand_in);
        return WEIR_ERR_NO_MEMORY;
    }
    *out = block;
    return WEIR_OK;
}

/* Serves a request on a stream that is being captured, by its stand-in. The graph uses the block for as long as it
 * exists, whatever stream frees the block. */
static weir_status alloc_in_capture(weir_stream *stand_in, uint64_t size, uint64_t align, weir_block **out,
                                    weir_tag wanted)
{
    WEIR_ASSERT(is_stand_in(stand_in) && outside_stream_lock(stand_in));
    weir_block *block = NULL;
    wanted = tag_through(stand_in, wanted);
    stream_lock(stand_in);
    const weir_status status = serve_missed(stand_in, size, align, false, &block, wanted);
    return status == WEIR_OK ? keep_for_graph(stand_in, block, false, out) : status;
}

/* Serves a request of a stream from memory that graphs have lent to it, if a free range of them is large enough. The
 * request is then one of their first stand-in, which comes after all captures. *served tells if it was. */
static weir_status alloc_lent(weir_stream *stand_in, uint64_t size, uint64_t align, weir_block **out, weir_tag wanted,
                              bool *served)
{
    weir_pool *pool = stand_in->owner;
    WEIR_ASSERT(is_stand_in(stand_in) && stand_in == stand_in->as.captures->first);
    weir_block *block = NULL;
    const uint64_t multiple = align != 0 ? align : pool->granule_mask + 1;
    wanted = tag_through(stand_in, wanted);
    stream_lock(stand_in);
    pool_lock(pool);
    for (weir_stream *from = stand_in; from != NULL && block == NULL; from = from->as.next) {
        const weir_tick limit = from == stand_in ? WEIR_TICK_MAX : clock_at(stand_in, from->lane);
        (void)take_from_lane(pool, stand_in, size, from->lane, limit, size, multiple, false, &block);
    }
    if (block != NULL) {
        begin_block(stand_in, block, size);
        pool->counts.served[WEIR_RUNG_LANE]++;
    }
    pool_unlock(pool);
    *served = block != NULL;
    if (block == NULL) {
        stream_unlock(stand_in);
        return WEIR_OK;
    }
    stand_in->counters.misses++;
    (void)finish_alloc(pool, stand_in, align, block, &block, wanted);
    return keep_for_graph(stand_in, block, true, out);
}

/* Slow path of weir_pool_alloc: checks the arguments and waits for the stream's lock. */
static OUT_OF_LINE weir_status alloc_slow(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align,
                                          weir_block **out, weir_tag wanted)
{
    weir_status status = check_request(pool, stream, size, align, out, wanted);
    if (status == WEIR_OK && UNLIKELY(stream->quick == NULL)) {
        status = weir__capture_route(&stream);
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (UNLIKELY(is_stand_in(stream))) {
        return alloc_in_capture(stream, size, align, out, wanted);
    }
    weir_stream *lender = atomic_load_explicit(&stream->borrows, memory_order_acquire);
    if (UNLIKELY(lender != NULL)) {
        bool served = false;
        status = alloc_lent(lender, size, align, out, wanted, &served);
        if (served) {
            return status;
        }
    }
    stream_lock(stream);
    front_unload(stream);
    const bool cacheable = size <= pool->front.largest && align <= pool->granule_mask + 1;
    weir_block *block =
        cacheable && front_block_bytes(stream) != 0 ? front_pop(pool, stream, front_granules(pool, size)) : NULL;
    if (block == NULL) {
        return serve_missed(stream, size, align, cacheable, out, wanted);
    }
    revive_block(stream, block, size);
    return finish_alloc(pool, stream, align, block, out, wanted);
}

/* Hands out a cached block. weir_pool_alloc has taken the stream's lock; this function releases it. */
static inline weir_status hand_out(weir_stream *stream, weir_block *block, uint64_t size, weir_block **out)
{
    revive_block(stream, block, size);
    stream_lock_release_own(&stream->lock);
    *out = block;
    return WEIR_OK;
}

/* Hands out the large block at index `i` of the front cache. Stream lock held on entry, released on return. */
static OUT_OF_LINE weir_status alloc_large_at(weir_stream *stream, uint64_t size, uint32_t i, weir_block **out)
{
    return hand_out(stream, front_take_large(&stream->front, i), size, out);
}

/* Serves a request while `last` is empty: from another cached block, or by the slow path. Stream lock held on entry,
 * released on return. */
static OUT_OF_LINE weir_status alloc_past_last(weir_pool *pool, weir_stream *stream, uint64_t size, bool large,
                                               weir_block **out, uint64_t granules)
{
    WEIR_ASSERT(stream->front.last_key == FRONT_EMPTY);
    weir_block *block = front_pop(pool, stream, granules);
    return block != NULL ? hand_out(stream, block, size, out) : alloc_missed(pool, stream, size, large, out, granules);
}

/* Moves the block in `last`, which is counted as freed already, to its slot or to the strategy, and then does the same
 * as alloc_past_last. Stream lock held on entry, released on return. */
static OUT_OF_LINE weir_status alloc_after_push(weir_pool *pool, weir_stream *stream, uint64_t size, bool large,
                                                weir_block **out, uint64_t granules)
{
    WEIR_ASSERT(stream_is_locked(stream));
    if (!front_push(pool, stream, stream->front.last)) {
        weir__order_free(stream->front.last, stream);
    }
    return alloc_past_last(pool, stream, size, large, out, granules);
}

/* Counts the block in `last` as freed and moves it to the slot of its size class or to the list of large blocks.
 * Returns the result of front_push_quick. Stream lock held. */
static inline uint64_t push_last(weir_pool *pool, weir_stream *stream)
{
    struct front_cache *front = &stream->front;
    weir_block *block = front->last;
    WEIR_ASSERT(front->last_key != FRONT_EMPTY);
    const uint64_t capacity = block_capacity(block);
    count_free_of(stream, block_requested(block), capacity);
    front_set_last(front, FRONT_EMPTY);
    return front_push_quick(pool, stream, block, capacity);
}

/* Serves a request above the size classes while `last` is empty: from the list of large blocks, or by the slow path.
 * Stream lock held on entry, released on return. */
static OUT_OF_LINE weir_status alloc_large(weir_pool *pool, weir_stream *stream, uint64_t size, bool large,
                                           weir_block **out, uint64_t granules)
{
    WEIR_ASSERT(large && stream->front.last_key == FRONT_EMPTY);
    /* The constant `true` is passed on for `large`, so that `large` occupies no register. */
    const uint32_t i = front_find_large(&stream->front, granules + 1);
    return i != FRONT_LARGE ? alloc_large_at(stream, size, i, out)
                            : alloc_missed(pool, stream, size, true, out, granules);
}

static OUT_OF_LINE weir_status push_and_alloc_large(weir_pool *pool, weir_stream *stream, uint64_t size, bool large,
                                                    weir_block **out, uint64_t granules)
{
    return LIKELY(push_last(pool, stream) != FRONT_FULL) ? alloc_large(pool, stream, size, large, out, granules)
                                                         : alloc_after_push(pool, stream, size, large, out, granules);
}

/* Slow path for a small request, if no size class has a block for it. If `last` holds a block, moves it to its slot and
 * searches the slots again, because that block may serve the request. Stream lock held on entry, released on return. */
static OUT_OF_LINE weir_status alloc_small(weir_pool *pool, weir_stream *stream, uint64_t size, bool large,
                                           weir_block **out, uint64_t granules)
{
    WEIR_ASSERT(!large);
    if (LIKELY(stream->front.last_key != FRONT_EMPTY) && UNLIKELY(push_last(pool, stream) == FRONT_FULL)) {
        return alloc_after_push(pool, stream, size, large, out, granules);
    }
    return alloc_past_last(pool, stream, size, large, out, granules);
}

/* Serves a request that the block in `last` does not fit; the size has not been checked. Stream lock held on entry,
 * released on return. last_limit_waiting is 0, so that alloc_slow serves every request, while the pool is observed,
 * while the stream has a tag, and once it is retired. A hit makes no call, so this function saves few registers. It and
 * the functions that it ends with take their arguments in the places where weir_pool_alloc has them. */
static OUT_OF_LINE weir_status alloc_from_slot(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align,
                                               weir_block **out, uint64_t granules)
{
    WEIR_ASSERT(stream_is_locked(stream) && granules == front_granules(pool, size));
    struct front_cache *front = &stream->front;
    if (UNLIKELY(size - 1 >= front->last_limit_waiting)) { /* also true for size 0 */
        stream_unlock(stream);
        return alloc_slow(pool, stream, size, align, out, TAG_OF_STREAM);
    }
    if (granules >= front_small(pool)) {
        return front->last_key == FRONT_EMPTY ? alloc_large(pool, stream, size, true, out, granules)
                                              : push_and_alloc_large(pool, stream, size, true, out, granules);
    }
    /* Chooses the size class (bin) before the block in `last` is pushed: reading that block's record may miss the
     * processor's cache, and the choice need not wait for it. */
    const uint64_t bin = front_near(front, front_bin(granules) + 1);
    if (bin == FRONT_NO_BIN) {
        return alloc_small(pool, stream, size, false, out, granules);
    }
    if (LIKELY(front->last_key != FRONT_EMPTY)) {
        const uint64_t pushed = push_last(pool, stream);
        if (UNLIKELY(pushed == FRONT_FULL)) {
            return alloc_after_push(pool, stream, size, false, out, granules);
        }
        if (UNLIKELY(bin - pushed <= FRONT_REACH)) { /* the block just cached may fit better */
            return alloc_past_last(pool, stream, size, false, out, granules);
        }
    }
    return hand_out(stream, front_pop_at(front, bin), size, out);
}

/* Hands out the block in `last` for a request of another size that has the same number of granules. Stream lock held on
 * entry, released on return. */
static OUT_OF_LINE weir_status hand_out_resized(weir_pool *pool, weir_stream *stream, uint64_t size, weir_block *block,
                                                weir_block **out)
{
    WEIR_ASSERT(stream_is_locked(stream) && stream->owner == pool);
    struct stream_counters *counters = &stream->counters;
    counters->requested += (int64_t)(size - block_requested(block));
    counters->peak_requested =
        counters->requested > counters->peak_requested ? counters->requested : counters->peak_requested;
    block_set_requested(block, size);
    stream_lock_release_own(&stream->lock);
    *out = block;
    return WEIR_OK;
}

weir_status weir_pool_alloc(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align, weir_block **out)
{
    /* The fast path. If a condition fails here, alloc_slow checks all arguments again. */
    struct lock_seat *seat = NULL;
    if (LIKELY(stream != NULL && stream->quick == pool && out != NULL && align <= 1 &&
               stream_lock_try(&stream->lock, &seat))) {
        struct front_cache *front = &stream->front;
        const uint64_t granules = front_granules(pool, size);
        if (granules != front->last_key) {
            return alloc_from_slot(pool, stream, size, 0, out, granules);
        }
        weir_block *block = front->last;
        front_set_last(front, FRONT_EMPTY);
        block_set_state(block, BLOCK_LIVE);
        stream->counters.frees++;
        stream->counters.sizes[size_bucket(size)]++;
        if (UNLIKELY(block_requested(block) != size)) {
            return hand_out_resized(pool, stream, size, block, out);
        }
        stream_lock_release_tried(seat);
        *out = block;
        return WEIR_OK;
    }
    return alloc_slow(pool, stream, size, align, out, TAG_OF_STREAM);
}

weir_status weir_pool_alloc_tagged(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t align, weir_tag tag,
                                   weir_block **out)
{
    if (pool == NULL || tag >= atomic_load_explicit(&pool->tag_count, memory_order_acquire)) {
        return weir__refuse_tag("weir_pool_alloc_tagged", pool, tag);
    }
    return alloc_slow(pool, stream, size, align, out, tag);
}

weir_status weir__pool_alloc_at(weir_pool *pool, weir_stream *stream, uint64_t address, uint64_t size, weir_block **out)
{
    WEIR_ASSERT(stream->pool == pool && pool->vm != NULL);
    WEIR_ASSERT(address != 0 && size != 0 && ((address | size) & pool->granule_mask) == 0);
    struct request request = {
        .pool = pool, .stream = stream, .size = size, .align = pool->granule_mask + 1, .at = address};
    if (!weir__vm_serve_at(&request)) {
        return WEIR_ERR_NO_MEMORY;
    }
    stream_lock(stream);
    front_unload(stream);
    begin_block(stream, request.block, size);
    stream->counters.misses++;
    return finish_alloc(pool, stream, 0, request.block, out, 0);
}

/* Closes the open uses of a block that is being freed: stamps each with the current tick of its stream. The caller has
 * queued the work of each use before the free. So only an event recorded after that work can cover the tick. */
static void close_uses(struct block_uses *uses)
{
    struct weir_use **link = &uses->first;
    while (*link != NULL) {
        struct weir_use *use = *link;
        stream_visit(use->stream);
        const bool gone = use->stream->pool == NULL || use->stream->serial != use->serial;
        if (use->tick == 0) {
            use->tick = atomic_load_explicit(&use->stream->tick, memory_order_relaxed);
        }
        stream_unlock(use->stream);
        if (gone) {
            weir__use_remove(uses, link);
        } else {
            link = &use->next;
        }
    }
}

/* Gives the region of a freed block back to the device, for strategies that keep no free region. Waits for the stream
 * first. */
static void return_now(weir_pool *pool, weir_stream *stream, uint64_t address)
{
    if (pool->ordered && stream != NULL) {
        (void)weir__order_sync(pool, stream);
    }
    weir_status status = weir__region_return_at(pool, address);
    (void)status; /* the failure is counted; a later free, a trim or the destroy returns the region */
}

/* Reports the free of a live block to observers. Called under the stream's lock under which the block is then freed.
 * Observers attach under all stream locks, so an observer that listed the block as live is also told of its free.
 * Without the lock, an observer that attaches meanwhile would miss the free and see the next block at the same
 * address. */
static inline void tell_free(weir_pool *pool, const weir_block *block, const weir_stream *stream)
{
    if (UNLIKELY(is_watched(pool))) {
        weir__watch_free(block, stream);
    }
}

static inline bool is_cacheable(const weir_stream *stream, const weir_block *block)
{
    WEIR_ASSERT(stream_is_locked(stream));
    return (state_word(block) & BLOCK_USED) == 0 && block_requested(block) <= front_block_bytes(stream);
}

/* Claims a live block for a free. Returns false if another thread has pushed the block onto a remote free list since
 * the state was read, in a second free at the same moment. Only checked builds look, because this takes an atomic
 * operation. Stream lock held. */
static inline bool claims(weir_block *block)
{
    if (WEIR_CHECKS < 1) {
        return true;
    }
    uint32_t word = state_word(block);
    return state_in(word) == BLOCK_LIVE &&
           __atomic_compare_exchange_n(&block->record.state, &word,
                                       word - BLOCK_WORD(BLOCK_LIVE) + BLOCK_WORD(BLOCK_TAKEN), false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

/* Frees a claimed block to the strategy. Stream lock held on entry, released on return. */
static OUT_OF_LINE weir_status free_to_strategy(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    const uint64_t address = block_address(block);
    tell_free(pool, block, stream);
    count_free(stream, block);
    drop_tag(stream, block);
    const bool of_graph = (state_word(block) & BLOCK_USED) != 0 && block_uses(block)->stand_in != 0;
    weir__order_free(block, stream);
    if (of_graph && !is_stand_in(stream)) {
        weir__order_leave_event(stream); /* the stream may be captured again when the graph is gone */
    }
    stream_unlock(stream);
    if ((pool->strategy->flags & WEIR_STRATEGY_RETURNS_REGIONS) != 0) {
        return_now(pool, stream, address);
    }
    prove(pool);
    return WEIR_OK;
}

/* Frees a claimed block to the front cache, but not into `last`, or to the strategy. Stream lock held on entry,
 * released on return. */
static OUT_OF_LINE weir_status free_to_slot(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    if (!is_cacheable(stream, block)) {
        return free_to_strategy(pool, block, stream);
    }
    drop_tag(stream, block);
    if (!front_push(pool, stream, block)) {
        return free_to_strategy(pool, block, stream);
    }
    count_free(stream, block);
    stream_unlock(stream);
    return WEIR_OK;
}

/* Caches a claimed block of this stream in `last`, which the next request tries first. Stream lock held. */
static inline void free_to_last(weir_pool *pool, weir_block *block, struct front_cache *front)
{
    front->last = block;
    front_set_last(front, front_granules(pool, block_requested(block)));
    block_set_state(block, BLOCK_CACHED);
}

/* Frees a block that has no tag and is not used by other streams, if the block cannot go into `last` at once: `last` is
 * occupied, the block is too large, or the stream is not in lane_group.waiting. In the last case the stream enters that
 * set, and the block goes into `last`. weir_pool_free has taken the stream's lock; this function releases it. */
static OUT_OF_LINE weir_status free_past_last(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    struct front_cache *front = &stream->front;
    if (front->last_key == FRONT_EMPTY && block_requested(block) <= front->last_limit_waiting) {
        front_wait(stream);
        front->last_limit = front->last_limit_waiting;
        free_to_last(pool, block, front);
    } else if (block_requested(block) <= front_block_bytes(stream) &&
               front_push_quick(pool, stream, block, block_capacity(block)) != FRONT_FULL) {
        block_set_state(block, BLOCK_CACHED);
        count_free(stream, block);
    } else {
        return free_to_slot(pool, block, stream);
    }
    stream_lock_release_own(&stream->lock);
    return WEIR_OK;
}

/* A block from outside of the capture is freed in it. On the stream where the capture began, the work queued before
 * comes before the graph's first launch. It counts like freed memory, so that a poll learns when it is complete: a
 * graph that is never launched does not wait for it. On a stream that was drawn in, no order holds between the two, so
 * that work is a use of its own. Returns false when out of host memory. */
static bool keeps_order(weir_block *block, const weir_stream *stand_in)
{
    const struct weir_capture_pool *captures = stand_in->as.captures;
    weir_stream *stream = stand_in->as.of;
    WEIR_ASSERT(captures != NULL && state_of(block) == BLOCK_LIVE);
    pool_lock(captures->pool);
    bool kept = block_stream(block)->as.captures == captures;
    if (!kept && stand_in == captures->first) {
        weir__order_freed_locked(stream, clock_at(stand_in, stream->lane));
        kept = true;
    }
    kept = kept || find_use(block, stream) != NULL || add_use(block, stream) != NULL;
    pool_unlock(captures->pool);
    return kept;
}

/* Returns the stream in whose order a live block is freed: the stand-in, for a block in memory that it has lent to the
 * stream; else the stream. */
static weir_stream *freeing_stream(const weir_block *block, weir_stream *stream)
{
    weir_stream *lender = atomic_load_explicit(&stream->borrows, memory_order_acquire);
    const bool comes_back = lender != NULL && !is_stand_in(stream) && (state_word(block) & BLOCK_USED) != 0 &&
                            block_stream(block) == lender && block_uses(block)->lent;
    return comes_back ? lender : stream;
}

/* Frees a sleeping block, which no work uses, while no thread sleeps or wakes the pool. Returns false if the block does
 * not sleep any more. */
static OUT_OF_LINE bool free_asleep(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    weir_stream *owner = block_stream(block);
    weir_stream *told = stream != NULL ? stream : owner;
    pool_lock(pool);
    (void)weir__region_await_locked(pool);
    const bool asleep = state_of(block) == BLOCK_ASLEEP;
    pool->growth.taken = true;
    pool_unlock(pool);
    if (asleep) {
        stream_visit(told);
        tell_free(pool, block, stream);
        stream_unlock(told);
        stream_visit(owner);
        count_free(owner, block);
        drop_tag(owner, block);
        pool_lock(pool);
        weir__sleep_free_locked(pool, block);
        pool_unlock(pool);
        stream_unlock(owner);
        weir__sleep_give_copies(pool, false);
    }
    pool_lock(pool);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    return asleep;
}

/* Frees a reserved block in the order of the stream; NULL: no work uses it. Its memory goes when the work is complete,
 * and its addresses then, too. */
static OUT_OF_LINE weir_status free_reserved(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    weir_stream *owner = block_stream(block);
    pool_lock(pool);
    take_turn_locked(pool);
    const bool held = is_held(state_of(block));
    const bool asleep = state_of(block) == BLOCK_ASLEEP;
    /* In a capture the memory is the graph's, and before it that of the work queued on the captured stream. */
    const bool noted = !held || asleep || stream == NULL || !is_stand_in(stream) ||
                       find_use(block, stream->as.of) != NULL || add_use(block, stream->as.of) != NULL;
    pool_unlock(pool);
    if (held && noted) {
        struct reservation *reserved = reservation_of(block);
        close_uses(block_uses(block));
        weir_stream *told = stream != NULL ? stream : owner;
        stream_visit(told);
        tell_free(pool, block, stream);
        const weir_tick tick = atomic_load_explicit(&told->tick, memory_order_relaxed);
        stream_unlock(told);
        stream_visit(owner);
        pool_lock(pool);
        if (asleep) {
            weir__sleep_forget_locked(pool, block);
        }
        weir__reserved_end(pool, reserved, asleep ? NULL : stream, tick);
        pool_unlock(pool);
        stream_unlock(owner);
        weir__sleep_give_copies(pool, false);
    }
    weir__reserved_end_turn(pool);
    return !noted ? WEIR_ERR_NO_MEMORY
           : held ? WEIR_OK
                  : refuse_block(stream != NULL ? "weir_pool_free" : "weir_pool_free_idle", pool, block);
}

/* Slow path of weir_pool_free: checks the arguments and waits for the stream's lock. */
static OUT_OF_LINE weir_status free_slow(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    if (!is_block(pool, block)) {
        return refuse_block("weir_pool_free", pool, block);
    }
    if (stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_pool_free", pool, stream);
    }
    if (UNLIKELY(is_held(state_of(block)) && reservation_of(block) != NULL)) {
        const bool routed = stream->quick != NULL || weir__capture_route(&stream) == WEIR_OK;
        return routed ? free_reserved(pool, block, stream) : WEIR_ERR_NO_MEMORY;
    }
    if (UNLIKELY(state_of(block) == BLOCK_ASLEEP) && free_asleep(pool, block, stream)) {
        return WEIR_OK;
    }
    if (UNLIKELY(stream->quick == NULL) && weir__capture_route(&stream) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (UNLIKELY(is_stand_in(stream)) && state_of(block) == BLOCK_LIVE && !keeps_order(block, stream)) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct block_uses *uses = state_of(block) == BLOCK_LIVE ? block_uses(block) : NULL;
    if (uses != NULL) {
        stream = freeing_stream(block, stream);
        close_uses(uses);
    }
    if (!weir__stream_lock_try_shared(&stream->lock)) {
        if (weir__remote_frees_put(pool, block, stream)) {
            return WEIR_OK;
        }
        stream_lock(stream);
    }
    if (state_of(block) != BLOCK_LIVE || !claims(block)) {
        stream_unlock(stream);
        return state_of(block) == BLOCK_ASLEEP ? free_slow(pool, block, stream)
                                               : refuse_block("weir_pool_free", pool, block);
    }
    return free_to_slot(pool, block, stream);
}

weir_status weir_pool_free(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    /* The fast path. free_slow serves every other case: it checks all arguments and takes the locks of other streams
     * that use the block. */
    struct lock_seat *seat = NULL;
    if (LIKELY(is_handle(pool, block) && stream != NULL && stream->quick == pool &&
               stream_lock_try(&stream->lock, &seat))) {
        struct front_cache *front = &stream->front;
        if (UNLIKELY(state_word(block) != BLOCK_WORD(BLOCK_LIVE) || block_stream(block) != stream || !claims(block))) {
            stream_unlock(stream);
            return free_slow(pool, block, stream);
        }
        if (UNLIKELY(front->last_key != FRONT_EMPTY || block_requested(block) > front->last_limit)) {
            return free_past_last(pool, block, stream);
        }
        free_to_last(pool, block, front);
        stream_lock_release_tried(seat);
        return WEIR_OK;
    }
    return free_slow(pool, block, stream);
}

weir_status weir_pool_free_idle(weir_pool *pool, weir_block *block)
{
    if (!is_block(pool, block) || !is_held(state_of(block))) {
        return refuse_block("weir_pool_free_idle", pool, block);
    }
    if (UNLIKELY(reservation_of(block) != NULL)) {
        return free_reserved(pool, block, NULL);
    }
    if (UNLIKELY(state_of(block) == BLOCK_ASLEEP) && free_asleep(pool, block, NULL)) {
        return WEIR_OK;
    }
    const uint64_t address = block_address(block);
    weir_stream *owner = block_stream(block); /* the stream of the alloc; it may be retired, but its counters stay
                                                 correct */
    stream_visit(owner);
    const bool live = state_of(block) == BLOCK_LIVE && claims(block);
    if (live) {
        tell_free(pool, block, NULL);
        count_free(owner, block);
        drop_tag(owner, block);
        if (is_stand_in(owner)) {
            weir__order_free(block, owner); /* work that is captured is never complete */
        } else {
            weir__order_free_idle(block);
        }
    }
    stream_unlock(owner);
    if (!live && state_of(block) == BLOCK_ASLEEP) {
        return weir_pool_free_idle(pool, block); /* another thread has put the block to sleep meanwhile */
    }
    if (live && (pool->strategy->flags & WEIR_STRATEGY_RETURNS_REGIONS) != 0) {
        return_now(pool, NULL, address);
    }
    return live ? WEIR_OK : refuse_block("weir_pool_free_idle", pool, block);
}

/* --- uses --- */

weir_status weir__pool_check_held(const char *function, weir_pool *pool, const weir_block *block)
{
    return is_block(pool, block) && is_held(state_of(block)) ? WEIR_OK : refuse_block(function, pool, block);
}

weir_status weir__pool_check_use(const char *function, weir_pool *pool, const weir_block *block,
                                 const weir_stream *stream)
{
    if (!is_block(pool, block) || state_of(block) != BLOCK_LIVE) {
        return refuse_block(function, pool, block);
    }
    return stream != NULL && stream->pool == pool ? WEIR_OK : weir__refuse_stream(function, pool, stream);
}

weir_status weir_pool_use(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    const weir_status status = weir__pool_check_use("weir_pool_use", pool, block, stream);
    if (status != WEIR_OK) {
        return status;
    }
    if (stream->quick == NULL && weir__capture_route(&stream) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool_lock(pool);
    struct weir_use *use = find_use(block, stream);
    use = use != NULL ? use : add_use(block, stream);
    if (use != NULL) {
        use->tick = 0;
    }
    pool_unlock(pool);
    if (use == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir__watch_use(block, block_address(block), block_end(block), stream);
    return WEIR_OK;
}

weir_status weir_pool_use_end(weir_pool *pool, weir_block *block, weir_stream *stream)
{
    const weir_status status = weir__pool_check_use("weir_pool_use_end", pool, block, stream);
    if (status != WEIR_OK) {
        return status;
    }
    if (stream->quick == NULL && weir__capture_route(&stream) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    stream_visit(stream);
    weir_tick tick = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    pool_lock(pool);
    struct weir_use *use = find_use(block, stream);
    if (use != NULL) {
        use->tick = tick;
    }
    pool_unlock(pool);
    stream_unlock(stream);
    return WEIR_OK;
}

/* --- blocks --- */

uint64_t weir_block_address(const weir_block *block)
{
    return block_address(block);
}

uint64_t weir_block_size(const weir_block *block)
{
    return block_requested(block);
}

uint64_t weir_block_capacity(const weir_block *block)
{
    return block_capacity(block);
}

weir_pool *weir_block_pool(const weir_block *block)
{
    return block_pool(block);
}

weir_stream *weir_block_stream(const weir_block *block)
{
    return (weir_stream *)program_stream(block_stream(block));
}

weir_status weir_pool_find(weir_pool *pool, uint64_t address, weir_block **out)
{
    if (pool == NULL || out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_find: %s is NULL", pool == NULL ? "pool" : "block");
    }
    weir_block *block = NULL;
    weir_status status = weir__block_find(pool, address, &block);
    if (status != WEIR_OK) {
        return status;
    }
    if (block == NULL || state_of(block) != BLOCK_LIVE) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_find: no live block starts at 0x%" PRIx64, address);
    }
    *out = block;
    return WEIR_OK;
}
