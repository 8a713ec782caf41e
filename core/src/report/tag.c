/* core/src/report/tag.c: tags: small integers with names, and counters of live memory for each tag.
 *
 * Idea: like all counters of the fast path, those of a tag belong to a stream, under its lock. The live figures are
 * sums over streams, since a block may be freed on another stream than it was allocated on. All tag counters of a
 * stream are allocated when the pool gets its first tag, so that no alloc and no free needs host memory for them.
 *
 * Guarantee: for each tag, the live blocks and bytes counted under it are those of the live blocks that carry it, and a
 * freed block carries no tag; weir__tag_broken_locked checks this. A peak is exact with one stream. With several
 * streams it is the highest sum at a slow call. The peak of untagged memory is always sampled in this way, because no
 * counter counts untagged memory.
 *
 * Cost: some 40 instructions per tagged call; for an alloc without a tag, a test of the stream's tag; 8 KiB per stream
 * of a pool with tags.
 */
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t tags_of(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->tag_count, memory_order_acquire);
}

/* --- names --- */

static bool is_name(const char *name)
{
    size_t length = 0;
    while (name[length] != '\0') {
        if ((unsigned char)name[length] < 0x20 || name[length] == 0x7f || ++length == WEIR_TAG_NAME_BYTES) {
            return false;
        }
    }
    return length > 0;
}

/* Returns the tag with the given name, or 0 if there is none. Pool lock held. */
static weir_tag find_name(const weir_pool *pool, const char *name)
{
    WEIR_ASSERT(pool->tags != NULL || tags_of(pool) == 1);
    WEIR_ASSERT(pool_is_locked(pool));
    for (uint32_t tag = 1; tag < tags_of(pool); tag++) {
        if (strcmp(pool->tags->names[tag], name) == 0) {
            return tag;
        }
    }
    return 0;
}

/* Adds a tag. On failure, memory that has been allocated already stays for the next try. All locks held. */
static weir_status add_name(weir_pool *pool, const char *name, weir_tag *tag)
{
    WEIR_ASSERT(pool_is_locked(pool));
    const uint32_t count = tags_of(pool);
    WEIR_ASSERT(count != 0 && count <= WEIR_TAGS);
    if (count == WEIR_TAGS) {
        return WEIR_ERR_LIMIT;
    }
    if (pool->tags == NULL) {
        pool->tags = calloc(1, sizeof(*pool->tags));
    }
    if (pool->tags == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        if (!weir__tag_prepare_locked(pool, pool->streams[lane])) {
            return WEIR_ERR_NO_MEMORY;
        }
    }
    pool->tags->names[count] = strdup(name);
    if (pool->tags->names[count] == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    atomic_store_explicit(&pool->tag_count, count + 1, memory_order_release);
    *tag = count;
    return WEIR_OK;
}

weir_status weir_pool_tag(weir_pool *pool, const char *name, weir_tag *tag)
{
    if (pool == NULL || name == NULL || tag == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_tag: %s is NULL",
                           pool == NULL   ? "pool"
                           : name == NULL ? "name"
                                          : "tag");
    }
    if (!is_name(name)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_pool_tag: name \"%.64s\" is empty, too long or has a control character", name);
    }
    weir_status status = WEIR_OK;
    weir__pool_lock_all(pool);
    const weir_tag found = find_name(pool, name);
    if (found != 0) {
        *tag = found;
    } else {
        status = add_name(pool, name, tag);
    }
    weir__pool_unlock_all(pool);
    return status;
}

const char *weir_pool_tag_name(const weir_pool *pool, weir_tag tag)
{
    if (pool == NULL || tag >= tags_of(pool)) {
        return NULL;
    }
    return tag == 0 ? "untagged" : pool->tags->names[tag];
}

void weir__tag_fini(weir_pool *pool)
{
    for (uint32_t tag = 1; tag < tags_of(pool); tag++) {
        free(pool->tags->names[tag]);
    }
    free(pool->tags);
}

weir_status weir_stream_set_tag(weir_pool *pool, weir_stream *stream, weir_tag tag)
{
    if (pool == NULL || stream == NULL || stream->pool != pool) {
        return weir__refuse_stream("weir_stream_set_tag", pool, stream);
    }
    if (tag >= tags_of(pool)) {
        return weir__refuse_tag("weir_stream_set_tag", pool, tag);
    }
    stream_visit(stream);
    stream->tag = tag;
    weir__stream_set_front(stream, front_block_bytes(stream));
    stream_unlock(stream);
    return WEIR_OK;
}

weir_tag weir_block_tag(const weir_block *block)
{
    return tag_of(block);
}

/* --- sums --- */

/* Takes in the frees that lie in remote free lists, and then sums up all tags. */
static void sum_up(weir_pool *pool, struct tag_sums *sums)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    size_t lanes = 2;
    for (size_t lane = 1; lane < lanes; lane++) {
        pool_lock(pool);
        lanes = pool->lanes;
        weir_stream *stream = lane < lanes ? pool->streams[lane] : NULL;
        pool_unlock(pool);
        if (stream != NULL && !remote_frees_are_empty(stream)) {
            stream_visit(stream);
            (void)weir__remote_frees_clear(pool, stream);
            stream_unlock(stream);
        }
    }
    weir__tag_sum_up(pool, sums);
}

static uint64_t positive(int64_t value)
{
    return value > 0 ? (uint64_t)value : 0;
}

/* Returns the number of live blocks, at least 0: the sums of a pool in use belong to slightly different moments. */
static uint64_t live_blocks(const struct tag_sums *sums, uint32_t tag)
{
    return positive((int64_t)(sums->allocs[tag] - sums->frees[tag]));
}

weir_status weir_pool_get_tag_stats(weir_pool *pool, weir_tag tag, weir_tag_stats *out)
{
    if (pool == NULL || tag >= tags_of(pool)) {
        return weir__refuse_tag("weir_pool_get_tag_stats", pool, tag);
    }
    struct tag_sums sums;
    sum_up(pool, &sums);
    weir_tag_stats stats = {
        .struct_size = sizeof(stats),
        .allocs = sums.allocs[tag],
        .frees = sums.frees[tag],
        .blocks = live_blocks(&sums, tag),
        .requested_bytes = positive(sums.requested[tag]),
        .peak_requested_bytes = positive(sums.requested[tag]),
    };
    pool_lock(pool);
    if (pool->tags != NULL) {
        weir__tag_raise_peaks_locked(pool, &sums);
        stats.peak_requested_bytes = positive(pool->tags->peaks[tag]);
    }
    pool_unlock(pool);
    return weir_struct_report(out, &stats, sizeof(stats), "weir_pool_get_tag_stats: stats");
}

/* --- for the out-of-memory record --- */

void weir__tag_holders(weir_pool *pool, const struct absent *absent, weir_oom_record *record)
{
    struct tag_sums sums;
    sum_up(pool, &sums);
    for (uint32_t tag = 0; tag < sums.tags; tag++) {
        const uint64_t bytes = positive(sums.requested[tag] - (int64_t)absent->by_tag[tag]);
        uint32_t place = record->holder_count;
        if (bytes == 0) {
            continue;
        }
        while (place > 0 && record->holders[place - 1].requested_bytes < bytes) {
            place--;
        }
        if (place == WEIR_OOM_ENTRIES) {
            continue;
        }
        const uint32_t kept = record->holder_count < WEIR_OOM_ENTRIES ? record->holder_count : WEIR_OOM_ENTRIES - 1;
        WEIR_ASSERT(record->holder_count <= WEIR_OOM_ENTRIES);
        memmove(&record->holders[place + 1], &record->holders[place], (kept - place) * sizeof(record->holders[0]));
        record->holder_count = kept + 1;
        weir_oom_holder *holder = &record->holders[place];
        *holder = (weir_oom_holder){.tag = tag, .requested_bytes = bytes, .blocks = live_blocks(&sums, tag)};
        (void)snprintf(holder->name, sizeof(holder->name), "%s", weir_pool_tag_name(pool, tag));
    }
}

/* --- check --- */

struct tag_tally {
    struct tag_sums sums; /* sums of the counters minus the sums over live blocks; 0 if they agree */
    bool stray;           /* a freed block carries a tag */
};

static void take_off(void *ctx, weir_block *block)
{
    struct tag_tally *tally = ctx;
    const weir_block_state state = state_of(block); /* read once: another thread may free the block at any moment */
    if (!is_held(state) && state != BLOCK_RETURNED) {
        tally->stray |= tag_of(block) != 0;
        return;
    }
    tally->sums.frees[tag_of(block)]++;
    tally->sums.requested[tag_of(block)] -= (int64_t)requested_of(block);
}

const char *weir__tag_broken_locked(weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    struct tag_tally tally = {.sums = {.tags = tags_of(pool)}};
    for (size_t lane = 1; lane < pool->lanes; lane++) {
        weir__tag_add_stream(&tally.sums, pool->streams[lane]);
    }
    weir__tag_leave_untagged(&tally.sums);
    weir__block_each_locked(pool, take_off, &tally);
    for (uint32_t tag = 0; tag < tally.sums.tags; tag++) {
        if (tally.sums.allocs[tag] != tally.sums.frees[tag] || tally.sums.requested[tag] != 0) {
            return "the counters of a tag and the live blocks that carry it differ";
        }
    }
    return tally.stray ? "a block that nobody holds carries a tag" : NULL;
}
