/* core/src/state/counters.h: counting of allocs and frees, and sums of the counters of all streams. */
#ifndef WEIR_CORE_STATE_COUNTERS_H
#define WEIR_CORE_STATE_COUNTERS_H

#include "state/blocks.h"
#include "state/reserved.h"

static inline unsigned size_bucket(uint64_t size)
{
    WEIR_ASSERT(size != 0);
    return 63u - (unsigned)__builtin_clzll(size);
}

static inline void count_alloc(weir_stream *stream, uint64_t size, uint64_t capacity)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(size <= capacity);
    struct stream_counters *counters = &stream->counters;
    counters->sizes[size_bucket(size)]++;
    counters->requested += (int64_t)size;
    if (UNLIKELY(counters->requested > counters->peak_requested)) {
        counters->peak_requested = counters->requested;
    }
    counters->live += (int64_t)capacity;
    if (UNLIKELY(counters->live > counters->peak_live)) {
        counters->peak_live = counters->live;
    }
}

/* Counts bytes of a live block that come or go while it lives: those of a reserved block. Stream lock held. */
static inline void count_part(weir_stream *stream, int64_t bytes)
{
    WEIR_ASSERT(stream_is_locked(stream));
    struct stream_counters *counters = &stream->counters;
    counters->requested += bytes;
    counters->live += bytes;
    counters->peak_requested =
        counters->requested > counters->peak_requested ? counters->requested : counters->peak_requested;
    counters->peak_live = counters->live > counters->peak_live ? counters->live : counters->peak_live;
}

static inline void make_live(weir_stream *stream, weir_block *block, uint64_t size)
{
    block_set_requested(block, size);
    block_set_stream(block, stream);
    block_set_state(block, BLOCK_LIVE);
    count_alloc(stream, size, block_capacity(block));
}

/* Makes a block live that was freed on the stream, and counts the alloc. Stream lock held. */
static inline void revive_block(weir_stream *stream, weir_block *block, uint64_t size)
{
    WEIR_ASSERT(state_of(block) == BLOCK_CACHED || state_of(block) == BLOCK_RETURNED);
    make_live(stream, block, size);
}

/* Makes a block in state BLOCK_TAKEN live and counts the alloc. Keeps the bit BLOCK_USED. Stream lock held. */
static inline void begin_block(weir_stream *stream, weir_block *block, uint64_t size)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(state_of(block) == BLOCK_TAKEN && block_stream(block) == stream && block_requested(block) == size);
    block_set_word(block, state_word(block) - BLOCK_WORD(BLOCK_TAKEN) + BLOCK_WORD(BLOCK_LIVE));
    count_alloc(stream, size, block_capacity(block));
}

static inline void count_free_of(weir_stream *stream, uint64_t size, uint64_t capacity)
{
    WEIR_ASSERT(stream_is_locked(stream));
    struct stream_counters *counters = &stream->counters;
    counters->frees++;
    counters->requested -= (int64_t)size;
    counters->live -= (int64_t)capacity;
}

static inline void count_free(weir_stream *stream, const weir_block *block)
{
    count_free_of(stream, block_requested(block), block_capacity(block));
}

/* Sums of the counters of all streams. */
struct live_sums {
    int64_t requested;
    int64_t live;
    uint64_t misses;
};

/* Raises the peaks of live bytes, which are sampled while the pool has several streams, and the peaks of the tags.
 * Stores the misses in the pool's mark. Returns the live bytes. No lock held. */
uint64_t weir__inspect_sample(weir_pool *pool);

/* Sums of the counters of all tags; index 0 is untagged blocks. `peaks` comes from the last stream added and is used
 * only if the pool has one stream. */
struct tag_sums {
    uint32_t tags;
    size_t lanes;
    uint64_t allocs[WEIR_TAGS];
    uint64_t frees[WEIR_TAGS];
    int64_t requested[WEIR_TAGS];
    int64_t peaks[WEIR_TAGS];
};

/* Sums up all tags. Takes the streams' locks one after the other. */
void weir__tag_sum_up(weir_pool *pool, struct tag_sums *sums);
/* The two steps of weir__tag_sum_up. weir__tag_add_stream adds one stream, whose lock is held. After all streams,
 * weir__tag_leave_untagged subtracts the sums of the tags from index 0, so that only untagged blocks are left. */
void weir__tag_add_stream(struct tag_sums *sums, const weir_stream *stream);
void weir__tag_leave_untagged(struct tag_sums *sums);
/* Raises the peak of each tag to its present sum. Pool lock held; the pool has tags. */
void weir__tag_raise_peaks_locked(weir_pool *pool, const struct tag_sums *sums);

/* weir__tag_take adds a live block to the counters of its tag; weir__tag_drop subtracts it. Stream lock held. */
void weir__tag_take(weir_stream *stream, weir_block *block, weir_tag tag);
void weir__tag_drop(weir_stream *stream, weir_block *block);
/* Adds bytes to the counters of a tag that is not 0. Stream lock held. */
void weir__tag_add(weir_stream *stream, weir_tag tag, int64_t bytes);
/* Subtracts a block from the counters of its tag, if it has a tag. Stream lock held. */
static inline void drop_tag(weir_stream *stream, weir_block *block)
{
    WEIR_ASSERT(stream_is_locked(stream));
    if (UNLIKELY(tag_of(block) != 0)) {
        weir__tag_drop(stream, block);
    }
}

/* Allocates the tag counters of a stream that no other thread knows yet, if the pool has tags. Returns false when out
 * of host memory. Pool lock held. */
bool weir__tag_prepare_locked(const weir_pool *pool, weir_stream *stream);

#endif
