/* core/src/state/counters.c: live bytes and their peaks, by stream and by tag.
 *
 * Idea: each stream has its own counters, under the stream's lock. The functions here add them up, locking one stream
 * after the other. A block in a remote free list counts as live.
 */
#include "state/counters.h"
#include "state/front_cache.h"

#include <stdlib.h>
#include <string.h>

/* --- counting under a tag --- */

bool weir__tag_prepare_locked(const weir_pool *pool, weir_stream *stream)
{
    WEIR_ASSERT(pool_is_locked(pool));
    if (pool->tags == NULL || stream->tags != NULL) {
        return true;
    }
    stream->tags = calloc(WEIR_TAGS, sizeof(*stream->tags));
    return stream->tags != NULL;
}

void weir__tag_add(weir_stream *stream, weir_tag tag, int64_t bytes)
{
    WEIR_ASSERT(stream_is_locked(stream) && tag != 0);
    struct tag_counters *counters = &stream->tags[tag];
    counters->requested += bytes;
    counters->peak = counters->requested > counters->peak ? counters->requested : counters->peak;
}

void weir__tag_take(weir_stream *stream, weir_block *block, weir_tag tag)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(tag != 0 && stream->tags != NULL);
    WEIR_ASSERT(tag_of(block) == 0);
    struct tag_counters *counters = &stream->tags[tag];
    counters->allocs++;
    weir__tag_add(stream, tag, (int64_t)requested_of(block));
    block_set_word(block, (state_word(block) & ~BLOCK_TAG_MASK) | tag);
}

void weir__tag_drop(weir_stream *stream, weir_block *block)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(tag_of(block) != 0 && stream->tags != NULL);
    struct tag_counters *counters = &stream->tags[tag_of(block)];
    counters->frees++;
    counters->requested -= (int64_t)requested_of(block);
    block_set_word(block, state_word(block) & ~BLOCK_TAG_MASK);
}

/* --- sums by tag --- */

void weir__tag_add_stream(struct tag_sums *sums, const weir_stream *stream)
{
    const struct stream_counters *all = &stream->counters;
    for (size_t i = 0; i < WEIR_SIZE_BUCKETS; i++) {
        sums->allocs[0] += all->sizes[i];
    }
    const weir_block *freed = front_freed(&stream->front);
    sums->frees[0] += all->frees + (freed != NULL);
    sums->requested[0] += all->requested - (freed != NULL ? (int64_t)block_requested(freed) : 0);
    for (uint32_t tag = 1; tag < sums->tags && stream->tags != NULL; tag++) {
        const struct tag_counters *counters = &stream->tags[tag];
        sums->allocs[tag] += counters->allocs;
        sums->frees[tag] += counters->frees;
        sums->requested[tag] += counters->requested;
        sums->peaks[tag] = counters->peak;
    }
}

void weir__tag_leave_untagged(struct tag_sums *sums)
{
    WEIR_ASSERT(sums->tags <= WEIR_TAGS);
    for (uint32_t tag = 1; tag < sums->tags; tag++) {
        sums->allocs[0] -= sums->allocs[tag];
        sums->frees[0] -= sums->frees[tag];
        sums->requested[0] -= sums->requested[tag];
    }
}

void weir__tag_sum_up(weir_pool *pool, struct tag_sums *sums)
{
    memset(sums, 0, sizeof(*sums));
    sums->tags = atomic_load_explicit(&pool->tag_count, memory_order_acquire);
    sums->lanes = 2;
    for (size_t lane = 1; lane < sums->lanes; lane++) {
        pool_lock(pool);
        sums->lanes = pool->lanes;
        weir_stream *stream = lane < sums->lanes ? pool->streams[lane] : NULL;
        pool_unlock(pool);
        if (stream != NULL) {
            stream_visit(stream);
            weir__tag_add_stream(sums, stream);
            stream_unlock(stream);
        }
    }
    weir__tag_leave_untagged(sums);
}

void weir__tag_raise_peaks_locked(weir_pool *pool, const struct tag_sums *sums)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(pool->tags != NULL);
    for (uint32_t tag = 0; tag < sums->tags; tag++) {
        const int64_t value = tag != 0 && sums->lanes == 2 ? sums->peaks[tag] : sums->requested[tag];
        int64_t *peak = &pool->tags->peaks[tag];
        *peak = value > *peak ? value : *peak;
    }
}

static void sample_tags(weir_pool *pool)
{
    if (atomic_load_explicit(&pool->tag_count, memory_order_acquire) == 1) {
        return;
    }
    struct tag_sums sums;
    weir__tag_sum_up(pool, &sums);
    pool_lock(pool);
    weir__tag_raise_peaks_locked(pool, &sums);
    pool_unlock(pool);
}

/* --- sums of all --- */

static void add_live(struct live_sums *sums, struct live_sums *peaks, weir_stream *stream)
{
    stream_visit(stream);
    const weir_block *freed = front_freed(&stream->front);
    sums->requested += stream->counters.requested - (freed != NULL ? (int64_t)block_requested(freed) : 0);
    sums->live += stream->counters.live - (freed != NULL ? (int64_t)block_capacity(freed) : 0);
    sums->misses += stream->counters.misses;
    peaks->requested = stream->counters.peak_requested;
    peaks->live = stream->counters.peak_live;
    stream_unlock(stream);
}

static void raise_peaks_locked(weir_pool *pool, const struct live_sums *sums)
{
    WEIR_ASSERT(pool_is_locked(pool));
    pool->peak_requested = sums->requested > pool->peak_requested ? sums->requested : pool->peak_requested;
    pool->peak_live = sums->live > pool->peak_live ? sums->live : pool->peak_live;
}

uint64_t weir__inspect_sample(weir_pool *pool)
{
    struct live_sums sums = {0};
    struct live_sums peaks = {0};
    size_t lanes = 2;
    for (size_t lane = 1; lane < lanes; lane++) {
        pool_lock(pool);
        lanes = pool->lanes;
        weir_stream *stream = lane < lanes ? pool->streams[lane] : NULL;
        pool_unlock(pool);
        if (stream != NULL) {
            add_live(&sums, &peaks, stream);
        }
    }
    pool_lock(pool);
    /* A pool with one stream has exact peaks in that stream. Save them now, because with two streams peaks are only
     * sampled. */
    raise_peaks_locked(pool, lanes == 2 ? &peaks : &sums);
    pool->held.mark.misses = sums.misses;
    pool_unlock(pool);
    sample_tags(pool);
    return sums.live > 0 ? (uint64_t)sums.live : 0;
}

/* --- the last failure --- */

weir_status weir_pool_get_oom(weir_pool *pool, weir_oom_record *out)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_pool_get_oom: pool is NULL");
    }
    pool_lock(pool);
    weir_oom_record record = pool->oom;
    pool_unlock(pool);
    return weir_struct_report(out, &record, sizeof(record), "weir_pool_get_oom: record");
}
