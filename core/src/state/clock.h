/* core/src/state/clock.h: vector clocks, the sets of streams that a request has to ask, and the error messages for
 * foreign streams and tags.
 */
#ifndef WEIR_CORE_STATE_CLOCK_H
#define WEIR_CORE_STATE_CLOCK_H

#include "state/locks.h"

/* Returns WEIR_ERR_INVALID with the error message for a tag that the pool did not give, or a pool that is NULL. */
weir_status weir__refuse_tag(const char *function, const weir_pool *pool, weir_tag tag);
/* Returns WEIR_ERR_INVALID with the error message for a stream that is NULL, retired or of another pool, or a pool that
 * is NULL. */
weir_status weir__refuse_stream(const char *function, const weir_pool *pool, const weir_stream *stream);

/* Sets the size of the largest request that the stream's front cache serves. The stream's tag is already set. Stream
 * lock held, unless no other thread knows the stream yet. */
void weir__stream_set_front(weir_stream *stream, uint64_t block_bytes);
/* Raises the stream's clock[lane] to `tick` unless it is higher. Returns false when out of host memory; then memory may
 * be reused later than necessary, but never too early. Pool lock held. */
bool weir__clock_raise_locked(weir_stream *stream, weir_lane lane, weir_tick tick);

/* Returns the first stream number at or above `lane` that is in the set, or 0 if there is none. */
static inline size_t next_lane(const weir_pool *pool, size_t lane, uint64_t (*set)(const struct lane_group *group))
{
    uint64_t mask = UINT64_MAX << lane % 64;
    for (size_t group = lane / 64; group * 64 < pool->lanes && pool->groups[group] != NULL; group++) {
        const uint64_t found = set(pool->groups[group]) & mask;
        if (found != 0) {
            return group * 64 + (unsigned)__builtin_ctzll(found);
        }
        mask = UINT64_MAX;
    }
    return 0;
}

static inline uint64_t lanes_to_poll(const struct lane_group *group)
{
    return group->unfinished | atomic_load_explicit(&group->waiting, memory_order_relaxed);
}

static inline uint64_t lanes_unfinished(const struct lane_group *group)
{
    return group->unfinished;
}

static inline uint64_t lanes_completed(const struct lane_group *group)
{
    return group->completed;
}

static inline uint64_t lanes_retired(const struct lane_group *group)
{
    return group->retired;
}

static inline uint64_t lane_bit(const weir_stream *stream)
{
    return UINT64_C(1) << stream->lane % 64;
}

static inline bool is_waiting(const weir_stream *stream)
{
    return (atomic_load_explicit(&stream->group->waiting, memory_order_seq_cst) & lane_bit(stream)) != 0;
}

/* Adds the stream to lane_group.waiting. Called under the stream's lock, or by the thread that has put a block into the
 * stream's remote free list. */
static inline void mark_waiting(weir_stream *stream)
{
    if (!is_waiting(stream)) {
        (void)atomic_fetch_or_explicit(&stream->group->waiting, lane_bit(stream), memory_order_seq_cst);
    }
}

static inline weir_tick done_on(const weir_stream *stream)
{
    WEIR_ASSERT(stream->lane != WEIR_LANE_OPEN && stream->lane < stream->owner->lanes);
    return stream->owner->done[stream->lane];
}

/* Removes the stream from lane_group.waiting. Stream lock held, and its front cache holds no large block. */
void weir__lane_rest(weir_stream *stream);
/* Updates the stream's bits in its lane_group after a change of its ticks or of `retired`. Pool lock held. */
void weir__lane_note_locked(weir_stream *stream);
/* Notes that memory is freed on the stream of `lane` at a tick that the strategy may know to be complete already. Pool
 * lock held. */
void weir__lane_note_early_locked(weir_pool *pool, weir_lane lane, weir_tick tick);

static inline weir_tick clock_at(const weir_stream *stream, weir_lane lane)
{
    WEIR_ASSERT(stream->clock != NULL || stream->clock_lanes == 0);
    return lane < stream->clock_lanes ? stream->clock[lane] : 0;
}

#endif
