/* core/src/services/reserve.c: the calls of reserved blocks (weir/reserve.h).
 *
 * Idea: memory/reserved.c has the rules; here are their arguments, and what takes locks. A commit is a request for
 * memory as an alloc is: it goes to the source of memory, and where that refuses, up the ladder. A decommit notes which
 * streams may still use the memory, and at which ticks.
 *
 * Cost: each call waits for the turn to grow, which one thread has at a time.
 */
#include <weir/reserve.h>

#include "report/report.h"

#include <inttypes.h>
#include <stdlib.h>

/* The most bytes of one block: sizes and addresses stay far from the end of 64 bits. */
#define MOST_BYTES (UINT64_C(1) << 60)

/* --- reserve --- */

static weir_status check_reserve(weir_pool *pool, const weir_stream *stream, uint64_t size, uint64_t unit, weir_tag tag,
                                 weir_block **block)
{
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_pool_reserve", pool, stream);
    }
    if (block == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_reserve: block is NULL");
    }
    if (tag >= atomic_load_explicit(&pool->tag_count, memory_order_acquire)) {
        return weir__refuse_tag("weir_pool_reserve", pool, tag);
    }
    if (pool->vm == NULL) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_pool_reserve: the pool has no virtual memory, so a block has "
                                                 "memory at all its addresses");
    }
    if (size == 0 || size > MOST_BYTES || unit > MOST_BYTES) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_reserve: %s %" PRIu64 " is %s",
                           size == 0 || size > MOST_BYTES ? "size" : "unit",
                           size == 0 || size > MOST_BYTES ? size : unit, size == 0 ? "no size" : "too large");
    }
    if (unit % weir__vm_granule(pool) != 0) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_pool_reserve: unit %" PRIu64 " is not a multiple of the device's page of %" PRIu64
                           " bytes",
                           unit, weir__vm_granule(pool));
    }
    return WEIR_OK;
}

/* Makes the new block live and counts it. */
static void enter_block(weir_stream *stream, weir_block *block, uint64_t size, weir_tag tag)
{
    WEIR_ASSERT(stream->owner->growth.taken && outside_stream_lock(stream));
    weir_pool *pool = stream->owner;
    stream_visit(stream);
    stream->counters.sizes[size_bucket(size)]++;
    stream->counters.misses++;
    pool_lock(pool);
    pool->counts.served[WEIR_RUNG_GROWN]++;
    block_set_word(block, BLOCK_WORD(BLOCK_LIVE) | BLOCK_USED);
    pool_unlock(pool);
    if (tag != 0) {
        weir__tag_take(stream, block, tag);
    }
    stream_unlock(stream);
}

weir_status weir_pool_reserve(weir_pool *pool, weir_stream *stream, uint64_t size, uint64_t unit, weir_tag tag,
                              weir_block **out)
{
    weir_status status = check_reserve(pool, stream, size, unit, tag, out);
    if (status != WEIR_OK) {
        return status;
    }
    weir_block *block = NULL;
    pool_lock(pool);
    take_turn_locked(pool);
    status = weir__reserved_make(pool, stream, size, unit != 0 ? unit : weir__vm_granule(pool), &block);
    pool_unlock(pool);
    if (status == WEIR_OK) {
        enter_block(stream, block, size, tag);
        *out = block;
    }
    pool_lock(pool);
    weir__region_end_growing_locked(pool);
    pool_unlock(pool);
    return status;
}

/* --- parts --- */

/* Reads the part of a live reserved block that a call names. */
static weir_status read_part(const char *function, weir_pool *pool, weir_block *block, uint64_t offset, uint64_t size,
                             const weir_stream *stream, struct part *part)
{
    const weir_status status = weir__pool_check_use(function, pool, block, stream);
    if (status != WEIR_OK) {
        return status;
    }
    const struct reservation *reserved = reservation_of(block);
    if (reserved == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: block %p is not a reserved one (weir_pool_reserve)", function,
                           (const void *)block);
    }
    if (size == 0 || offset > reserved->size || size > reserved->size - offset) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "%s: size %" PRIu64 " at offset %" PRIu64 " is no part of a block of %" PRIu64 " bytes",
                           function, size, offset, reserved->size);
    }
    if (offset % reserved->unit != 0 || size % reserved->unit != 0) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "%s: size %" PRIu64 " at offset %" PRIu64 " is not of whole units of %" PRIu64 " bytes",
                           function, size, offset, reserved->unit);
    }
    *part = (struct part){
        .block = block, .first = (size_t)(offset / reserved->unit), .end = (size_t)((offset + size) / reserved->unit)};
    return WEIR_OK;
}

static weir_status refuse_asleep(const char *function, const weir_block *block)
{
    return weir_refuse(WEIR_ERR_BUSY, "%s: block %p sleeps: it has no memory before weir_pool_wake", function,
                       (const void *)block);
}

/* --- commit --- */

/* Waits until `stream` comes after all work that may still use memory of the part. */
static weir_status await_work(weir_pool *pool, const struct part *part, const weir_stream *stream)
{
    weir_status status = WEIR_OK;
    weir_stream *user = NULL;
    WEIR_ASSERT(outside_pool_lock(pool) && outside_stream_lock(stream));
    do {
        pool_lock(pool);
        user = weir__reserved_user(pool, part, stream);
        const bool of_graph = user != NULL && is_stand_in(user);
        pool_unlock(pool);
        if (of_graph) {
            return weir_refuse(WEIR_ERR_BUSY, "weir_pool_commit: a captured graph may still use memory of the part");
        }
        status = user != NULL ? weir__order_sync(pool, user) : WEIR_OK;
    } while (user != NULL && status == WEIR_OK);
    return status;
}

/* Returns the bytes of the part that are not committed, at least one unit. */
static uint64_t missing_bytes(weir_pool *pool, const struct part *part)
{
    const struct reservation *reserved = reservation_of(part->block);
    WEIR_ASSERT(part->first < part->end && part->end <= reserved->count);
    uint64_t bytes = 0;
    pool_lock(pool);
    for (size_t unit = part->first; unit < part->end; unit++) {
        bytes += unit_state(reserved, unit) == UNIT_BARE ? reserved->unit : 0;
    }
    pool_unlock(pool);
    return bytes > 0 ? bytes : reserved->unit;
}

weir_status weir_pool_commit(weir_pool *pool, weir_block *block, uint64_t offset, uint64_t size, weir_stream *stream)
{
    struct part part;
    weir_status status = read_part("weir_pool_commit", pool, block, offset, size, stream, &part);
    if (status == WEIR_OK && stream->quick == NULL) {
        status = weir__capture_route(&stream);
    }
    status = status == WEIR_OK ? await_work(pool, &part, stream) : status;
    if (status != WEIR_OK) {
        return status;
    }
    struct request request = {.pool = pool,
                              .stream = stream,
                              .size = missing_bytes(pool, &part),
                              .align = weir__vm_granule(pool),
                              .part = &part,
                              .tag = tag_of(block),
                              .soft = true,
                              .cheaply = true};
    if (pool->memory->grow(&request)) {
        return WEIR_OK;
    }
    if (request.broken == WEIR_OK) {
        status = weir__ladder_alloc(&request);
    } else {
        status = request.broken;
    }
    return status == WEIR_ERR_BUSY ? refuse_asleep("weir_pool_commit", block) : status;
}

/* --- decommit --- */

/* Adds a pair of a stream and a tick, its present one if `tick` is 0, to a list of uses. Returns false when out of host
 * memory. */
static bool add_pair(struct leaving *leaving, weir_stream *stream, uint64_t serial, weir_tick tick)
{
    WEIR_ASSERT(outside_pool_lock(stream->owner));
    struct weir_use *use = malloc(sizeof(*use));
    if (use == NULL) {
        return false;
    }
    stream_visit(stream);
    const bool gone = stream->serial != serial || stream->pool == NULL;
    const weir_tick now = atomic_load_explicit(&stream->tick, memory_order_relaxed);
    stream_unlock(stream);
    if (gone) {
        free(use);
        return true;
    }
    *use = (struct weir_use){.next = leaving->uses, .stream = stream, .serial = serial, .tick = tick != 0 ? tick : now};
    leaving->uses = use;
    return true;
}

/* Lists the work that may use the memory: that of the stream, in a capture also what came before it, and that of the
 * streams that use the block. Returns NULL when out of host memory. */
static struct leaving *new_leaving(const weir_block *block, weir_stream *stream)
{
    WEIR_ASSERT(stream->owner->growth.taken);
    struct leaving *leaving = calloc(1, sizeof(*leaving));
    bool noted = leaving != NULL && add_pair(leaving, stream, stream->serial, 0) &&
                 (!is_stand_in(stream) || add_pair(leaving, stream->as.of, stream->as.of->serial, 0));
    pool_lock(stream->owner);
    const struct weir_use *use = block_uses(block)->first; /* the list only grows, at its beginning */
    pool_unlock(stream->owner);
    for (; noted && use != NULL; use = use->next) {
        noted = use->stream == stream || add_pair(leaving, use->stream, use->serial, use->tick);
    }
    if (!noted && leaving != NULL) {
        weir__use_list_free(leaving->uses);
        free(leaving);
    }
    return noted ? leaving : NULL;
}

/* Makes the units leave, of a block that is awake. */
static void leave(weir_pool *pool, const struct part *part, struct leaving *leaving, weir_stream *stream)
{
    const struct reservation *reserved = reservation_of(part->block);
    weir_stream *owner = block_stream(part->block);
    WEIR_ASSERT(pool->growth.taken && leaving->uses != NULL);
    stream_visit(stream);
    weir__watch_free_part(part->block, unit_address(reserved, part->first),
                          unit_address(reserved, part->end - 1) + reserved->unit, stream);
    stream_unlock(stream);
    stream_visit(owner);
    pool_lock(pool);
    weir__reserved_leave(pool, part, leaving);
    pool_unlock(pool);
    stream_unlock(owner);
}

weir_status weir_pool_decommit(weir_pool *pool, weir_block *block, uint64_t offset, uint64_t size, weir_stream *stream)
{
    struct part part;
    weir_status status = read_part("weir_pool_decommit", pool, block, offset, size, stream, &part);
    if (status == WEIR_OK && stream->quick == NULL) {
        status = weir__capture_route(&stream);
    }
    if (status != WEIR_OK) {
        return status;
    }
    pool_lock(pool);
    take_turn_locked(pool);
    const bool awake = state_of(block) == BLOCK_LIVE; /* another thread may have put it to sleep meanwhile */
    pool_unlock(pool);
    struct leaving *leaving = awake ? new_leaving(block, stream) : NULL;
    if (leaving != NULL) {
        leave(pool, &part, leaving, stream);
    }
    weir__reserved_end_turn(pool);
    return leaving != NULL ? WEIR_OK : awake ? WEIR_ERR_NO_MEMORY : refuse_asleep("weir_pool_decommit", block);
}

/* --- queries --- */

weir_status weir_pool_get_reserve(weir_pool *pool, weir_block *block, weir_reserve_info *out)
{
    weir_status status = weir__pool_check_held("weir_pool_get_reserve", pool, block);
    if (status == WEIR_OK && out == NULL) {
        status = weir_refuse(WEIR_ERR_INVALID, "weir_pool_get_reserve: info is NULL");
    }
    if (status != WEIR_OK) {
        return status;
    }
    weir_reserve_info info = WEIR_RESERVE_INFO_INIT;
    pool_lock(pool);
    const struct reservation *reserved = reservation_of(block);
    info.unit_bytes = reserved != NULL ? reserved->unit : 0;
    info.committed_bytes = capacity_of(block);
    info.pending_bytes = reserved != NULL ? reserved->leaving : 0;
    pool_unlock(pool);
    return weir_struct_report(out, &info, sizeof(info), "weir_pool_get_reserve: info");
}

weir_status weir_pool_find_committed(weir_pool *pool, weir_block *block, uint64_t from, uint64_t *offset,
                                     uint64_t *size)
{
    weir_status status = weir__pool_check_held("weir_pool_find_committed", pool, block);
    if (status == WEIR_OK && (offset == NULL || size == NULL || reservation_of(block) == NULL)) {
        status = weir_refuse(WEIR_ERR_INVALID, "weir_pool_find_committed: %s",
                             offset == NULL ? "offset is NULL"
                             : size == NULL ? "size is NULL"
                                            : "the block is not a reserved one (weir_pool_reserve)");
    }
    if (status != WEIR_OK) {
        return status;
    }
    const struct reservation *reserved = reservation_of(block);
    size_t unit = from < reserved->size ? (size_t)(from / reserved->unit) : reserved->count;
    pool_lock(pool);
    while (unit < reserved->count && unit_state(reserved, unit) != UNIT_COMMITTED) {
        unit++;
    }
    size_t end = unit;
    while (end < reserved->count && unit_state(reserved, end) == UNIT_COMMITTED) {
        end++;
    }
    pool_unlock(pool);
    *offset = unit * reserved->unit > from ? unit * reserved->unit : from;
    *size = end > unit ? end * reserved->unit - *offset : 0;
    return WEIR_OK;
}
