/* core/src/order/order.h: how a request gets memory, and which freed memory a stream may use.
 *
 *     take.h           takes a range from a lane and gives it back; the slow path's first step
 *     reuse.c          decides which freed memory a stream may use
 *     remote_frees.c   frees by threads that do not feed the stream
 *     flush.c          empties front caches and remote free lists
 *     retire.c         ends streams and captured graphs
 *     wait.c           learns which work has completed: polling, waiting, marks, the pool's own events
 *
 * wait.c calls retire.c, which calls flush.c, which calls remote_frees.c and reuse.c. reuse.c calls none of these
 * files.
 */
#ifndef WEIR_CORE_ORDER_H
#define WEIR_CORE_ORDER_H

#include "state/state.h"

/* A part of a reserved block: its units in [first, end). */
struct part {
    weir_block *block;
    size_t first;
    size_t end;
};

struct request {
    weir_pool *pool;
    weir_stream *stream;
    uint64_t size;
    uint64_t align;
    uint64_t at;               /* the address that the block must have; 0: any */
    weir_block *block;         /* result */
    const struct part *part;   /* the part of a reserved block that gets memory; NULL: the request is for a new block */
    weir_status device_status; /* the device's last answer to a request for memory */
    weir_tag tag;
    uint64_t region_asked; /* the smallest region asked for */
    uint64_t region_frees; /* the pool's count of region_frees when this request last tried to take a region */
    bool soft;             /* true: the soft limit is the limit of this attempt */
    bool limited;          /* the pool's own limit forbade growing */
    bool keeps_whole;      /* the request may not split a much larger idle region, but gets a region of its own */
    bool kept_whole;       /* there was such an idle region */
    bool last_resort;      /* the device has refused; memory set apart for other kinds of requests counts as free */
    bool cheaply;          /* grow only as far as the pool's mark allows */
    uint64_t excess;       /* bytes by which the growth that was refused would have exceeded that; 0: it was not */
    uint64_t ceiling;      /* virtual memory: the most bytes that the device gives, learnt from a refusal; 0: unknown */
    weir_status broken;    /* not WEIR_OK: the request cannot continue (no host memory) */
};

/* Fills the pool's record of a failed request. No lock held. */
static inline void weir__oom_explain(const struct request *request)
{
    request->pool->explain(request);
}

/* --- reuse.c --- */

/* Where to look for free memory. */
enum {
    LOOK_OWN = 1u,      /* the stream's own lane */
    LOOK_OTHERS = 2u,   /* memory that every stream may use, and memory of streams that this one is ordered after */
    LOOK_GATHERED = 4u, /* adjacent free ranges of several streams, all usable by this one, merged into one */
    LOOK_FREE = LOOK_OWN | LOOK_OTHERS,
    LOOK_ALL = LOOK_FREE | LOOK_GATHERED,
};

/* Serves the request from memory that is free now, without a device call. *found receives the counter that names the
 * place of the memory. Pool lock held. */
bool weir__order_look_locked(struct request *request, unsigned where, weir_rung *found);
/* Takes a free range, freed at tick `limit` or before, from one stream's lane, as the request's block. Pool lock
 * held. */
bool weir__order_take_locked(struct request *request, weir_lane lane, weir_tick limit);
/* Undoes a take: frees a range to the lane (free memory of a stream) from which it has just been taken. `block` is the
 * block made of the range, or NULL. Pool lock held. */
void weir__order_untake_locked(weir_pool *pool, weir_lane lane, const weir_range *range, weir_block *block);
/* Serves the request from adjacent free ranges of several streams, merged by the strategy's gather. Pool lock held. */
bool weir__order_gather_locked(struct request *request);
/* Fills pool->limits and returns it: `stream` may use memory that was freed on the stream of lane l up to tick
 * limits[l]. If `stream` is NULL, the limits hold for every stream. Pool lock held. */
const weir_tick *weir__order_limits_locked(weir_pool *pool, const weir_stream *stream);
/* Frees a block to the strategy, or makes it pending if other streams use it. Stream lock held, pool lock not held. */
void weir__order_free(weir_block *block, weir_stream *stream);
/* Frees to the strategy a block that no queued work uses: any stream may use its memory at once. Pool lock held. */
void weir__order_give_to_all_locked(weir_block *block);
/* Frees a block that no queued work uses: any stream may use its memory at once. Pool lock not held. */
void weir__order_free_idle(weir_block *block);
/* Records that the host has seen the stream's work up to `tick` complete. Pool lock held. */
void weir__order_done_locked(weir_stream *stream, weir_tick tick);
/* Tells the strategy which of the stream's ticks are complete, so that every stream may use memory freed at these
 * ticks. Not for private lanes. Pool lock held. */
void weir__order_promote_locked(weir_stream *stream);
/* Records that memory freed at `tick` of the stream goes to the strategy or is pending. Pool lock held. */
void weir__order_freed_locked(weir_stream *stream, weir_tick tick);
/* Frees pending blocks (freed while several streams used them) to the strategy, if one stream, possibly `taker`, is
 * ordered after all uses. `taker` may be NULL. Returns true if a block moved. Pool lock held. */
bool weir__order_settle_locked(weir_pool *pool, weir_stream *taker);

/* --- remote_frees.c --- */

/* Frees a live block that no other stream uses, without the stream's lock. For a thread that does not feed the stream.
 * Returns false if the block is not live or must be freed under the stream's lock. */
bool weir__remote_frees_put(weir_pool *pool, weir_block *block, weir_stream *stream);
/* Takes a block of `key` granules, or up to 1/16 more, out of the remote free list. Returns NULL if there is none.
 * Moves other blocks that it finds to the front cache or the strategy. Stream lock held, pool lock not held. */
weir_block *weir__remote_frees_take(weir_pool *pool, weir_stream *stream, uint64_t key);
/* Empties the remote free list into the front cache and the strategy. Returns true if there was a block. Stream lock
 * held, pool lock not held. */
bool weir__remote_frees_clear(weir_pool *pool, weir_stream *stream);

static inline bool remote_frees_are_empty(const weir_stream *stream)
{
    /* Tests both pointers at once: usually both are NULL. */
    return ((uintptr_t)atomic_load_explicit(&stream->remote_frees, memory_order_relaxed) |
            (uintptr_t)atomic_load_explicit(&stream->returned, memory_order_relaxed)) == 0;
}

/* Counts the block in front.last as freed, and moves it to the rest of the front cache or to the strategy. Stream lock
 * held. */
void weir__front_unload(weir_pool *pool, weir_stream *stream);
static inline void front_unload(weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    if (stream->front.last_key != FRONT_EMPTY) {
        weir__front_unload(stream->owner, stream);
    }
}

/* --- flush.c --- */

/* Empties the remote free list and front.last, and gives the large cached blocks to the strategy, stamped with the
 * stream's tick. Called before an event is recorded that is to cover these frees. Returns true if there was a block.
 * Stream lock held. */
bool weir__order_take_in_locked(weir_pool *pool, weir_stream *stream);
/* Moves all blocks in the stream's front cache and remote free list to the strategy. Returns true if there was one.
 * Stream lock held. */
bool weir__order_flush_locked(weir_pool *pool, weir_stream *stream);
/* Moves the large blocks of the stream's front cache to the strategy. Stream lock and pool lock held. */
void weir__order_flush_large_locked(weir_stream *stream);
/* Moves all blocks of the stream's front cache to the strategy. Stream lock and pool lock held. */
void weir__order_flush_cache_locked(weir_stream *stream);
/* Gives the stream's cached blocks to the strategy before the pool grows, except blocks that are tiny relative to the
 * pool. Returns true if a block moved. No lock held. */
bool weir__order_flush_to_join(weir_stream *stream);
/* Give all cached blocks of one stream, or of all streams, to the strategy. Return true if there was one. No lock
 * held. */
bool weir__order_flush(weir_stream *stream);
bool weir__order_flush_all(weir_pool *pool);

/* --- retire.c: no lock held, but where it says so --- */

/* Ends a stream whose work is complete: every stream may have its memory. */
void weir__order_retire(weir_stream *stream);
/* Ends the stand-in's part in a capture: its stream's calls go to the stream again. Pool lock held. */
void weir__order_leave_capture(weir_stream *stand_in);
/* True if the work that the stand-in's stream had queued before the capture, and all that it was ordered after, is
 * complete as far as it touches freed memory. A graph that was never launched has not waited for it. Pool lock held. */
bool weir__order_is_quiet_locked(const weir_stream *stand_in);
/* Ends the stand-ins of captures whose graphs have been destroyed, and frees the record, which is in no list. */
void weir__order_end_captures(struct weir_capture_pool *captures);
/* Does so for all graphs that have been destroyed and whose memory is idle. Returns true if there was one. */
bool weir__order_collect_graphs(weir_pool *pool);
void weir__graph_watch_release(struct graph_watch *watch);

/* --- wait.c: no lock held, but where it says so --- */

/* Checks, without waiting, which work has completed. Returns true if memory may have become free. */
bool weir__order_poll(weir_pool *pool);
/* Records an event that covers every free on the stream so far, for a poll after the stream has been captured: then no
 * event can be recorded. The stream's lock is held, and the stream is not retired. */
void weir__order_leave_event(weir_stream *stream);
/* Waits until the host has seen all work queued on the stream so far complete. */
weir_status weir__order_sync(weir_pool *pool, weir_stream *stream);
/* One step of a wait round. Of the streams that have had no turn in this round, chooses the one with the most
 * unfinished memory and calls weir__order_sync for it. *round 0 begins a round. Returns false if no stream is left, or
 * if no more than `keep` bytes are reserved. Each stream has one turn, whether its wait succeeds or not: other threads
 * may free faster than a thread can wait, and the round has to end. */
bool weir__order_sync_next(weir_pool *pool, uint64_t keep, uint64_t *round, weir_status *status);
/* Makes the request's stream wait, on the device, for another stream: the one with the largest range that would serve
 * the request, or those that use a freed block which would. The host does not wait. Returns true if the request may now
 * use memory that it could not use before. */
bool weir__order_wait_on_device(struct request *request);
/* Destroys an event that the pool has created, or keeps the event if the device refuses. */
void weir__order_drop_event(weir_pool *pool, weir_event *event);
/* Destroys the events that the device has refused to destroy before, until it refuses again. */
void weir__order_drop_events(weir_pool *pool);

#endif
