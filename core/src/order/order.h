/* core/src/order/order.h: how a request gets memory, and which freed memory a stream may have.
 *
 *     take.h     taking a range from a lane; a miss
 *     ladder.c   every way to serve a request, cheapest first: a table and the loop over it
 *     reuse.c    which freed memory a stream may have
 *     flush.c    emptying front caches and inboxes
 *     wait.c     which work has completed: polling, waiting, marks, the pool's own events
 *
 * ladder.c calls the memory of the pool (memory/memory.h), which calls the other three; reuse.c calls none of them.
 */
#ifndef WEIR_CORE_ORDER_H
#define WEIR_CORE_ORDER_H

#include "memory/memory.h"
#include "pool/pool_internal.h"

struct request {
    weir_pool *pool;
    weir_stream *stream;
    uint64_t size;
    uint64_t align;
    weir_block *block;         /* out */
    weir_status device_status; /* the device's last answer to a wish for memory */
    weir_tag tag;
    uint64_t region_asked;     /* the smallest region asked for */
    uint64_t region_frees;     /* the pool's when it last tried to take a region */
    bool soft;                 /* the soft limit counts as the limit for the time being */
    bool limited;              /* the pool's own limit forbade growing */
    bool parted;               /* with virtual memory: the strategy chose a part of a handle */
    bool spares;               /* it breaks no idle region that is much larger: region.c gives it one of its own */
    bool spared;               /* there was such a region */
    bool last_resort;          /* the device has refused: memory set apart for other kinds of requests will do */
    uint64_t ceiling;          /* with virtual memory: the most that may be reserved, by the device's answer; 0 = unknown */
    weir_status broken;        /* not WEIR_OK: the request cannot go on (no host memory) */
};

/* Fills the pool's record of a failed request. No lock is held. */
static inline void weir__oom_explain(const struct request *request)
{
    request->pool->explain(request);
}

/* --- ladder.c --- */

/* Serves a request that the front cache and the stream's own lane did not. No lock is held. */
weir_status weir__order_alloc(struct request *request);

/* --- reuse.c --- */

/* Where to look for free memory. */
enum {
    LOOK_OWN = 1u,      /* the stream's own lane */
    LOOK_OTHERS = 2u,   /* the open lane, and lanes that the stream is ordered after */
    LOOK_GATHERED = 4u, /* neighbours in different lanes, all of which the stream may have, joined */
    LOOK_FREE = LOOK_OWN | LOOK_OTHERS,
    LOOK_ALL = LOOK_FREE | LOOK_GATHERED,
};

/* Pool lock held: serves the request from memory that is free now. *found: the place where it was. */
bool weir__order_look_locked(struct request *request, unsigned where, weir_rung *found);
/* Pool lock held: takes a range for the request from a lane and makes a block of it. */
bool weir__order_take_locked(struct request *request, weir_lane lane, weir_tick limit);
/* Pool lock held: a range that the strategy has just handed out from the lane goes back as it was. `block`: made of
 * it, or NULL. */
void weir__order_untake_locked(weir_pool *pool, weir_lane lane, const weir_range *range, weir_block *block);
/* Pool lock held: the same from neighbours that the stream may have, joined. */
bool weir__order_join_locked(struct request *request);
/* Pool lock held: the strategy joins neighbours that the stream may have, and serves the request. */
bool weir__order_gather_locked(struct request *request);
/* Pool lock held: fills pool->limits with the ticks that `stream` may take, by lane; NULL: those that every stream may take. */
const weir_tick *weir__order_limits_locked(weir_pool *pool, const weir_stream *stream);
/* A free that does not end in the front cache. The stream's lock is held, the pool's is not. */
void weir__order_free(weir_block *block, weir_stream *stream);
/* Pool lock held: memory of the strategy again, in the stream's lane as of `tick`; the block ends. */
void weir__order_give_locked(weir_block *block, weir_stream *stream, weir_tick tick);
/* Memory that no queued work touches. No lock is held. */
void weir__order_free_idle(weir_block *block);
/* Pool lock held: the stream's ticks up to `tick` are complete. */
void weir__order_done_locked(weir_stream *stream, weir_tick tick);
/* Pool lock held: tells the strategy of the stream's completed ticks; its lane may have no private memory. */
void weir__order_promote_locked(weir_stream *stream);
/* Pool lock held: that tick of the stream is on memory that goes to the strategy or is pending. */
void weir__order_freed_locked(weir_stream *stream, weir_tick tick);
/* Pool lock held: moves pending blocks to lanes as far as clocks and completed ticks allow. `taker` may be NULL. */
bool weir__order_settle_locked(weir_pool *pool, weir_stream *taker);

/* --- flush.c --- */

/* Stream lock held: counts the frees of other threads and the latest of the stream's own, and stamps those of large blocks with
 * the stream's tick, before an event that covers them. True when there were any. */
bool weir__order_take_in_locked(weir_pool *pool, weir_stream *stream);
/* Stream lock held: moves the stream's front cache and inbox to the strategy. True when there was something. */
bool weir__order_flush_locked(weir_pool *pool, weir_stream *stream);
/* Both locks held: moves the large blocks of the stream's front cache to the strategy. */
void weir__order_flush_large_locked(weir_stream *stream);
/* Without a lock held: before the pool grows, all but blocks that are tiny beside it. True when there were any. */
bool weir__order_flush_to_join(weir_stream *stream);
/* Without a lock held: the whole of one stream, and of all. */
bool weir__order_flush(weir_stream *stream);
bool weir__order_flush_all(weir_pool *pool);

/* --- wait.c: no lock is held --- */

/* Looks, without waiting, which work has completed. True when memory may have become free. */
bool weir__order_poll(weir_pool *pool);
/* Waits until the host has seen everything queued on the stream so far complete. */
weir_status weir__order_sync(weir_pool *pool, weir_stream *stream);
/* One turn of a round of waiting: weir__order_sync for the stream that holds the most unfinished memory and has had no turn
 * in this round. *round 0 begins one. False: no stream is left, or no more than `keep` bytes are reserved. Each stream has one
 * turn, whether the wait succeeds or not: other threads may free faster than a thread can wait, and the round has to end. */
bool weir__order_sync_next(weir_pool *pool, uint64_t keep, uint64_t *round, weir_status *status);
/* Makes the request's stream wait, on the device, for the stream with the largest range that would serve. The host does not
 * wait. True when the request may have memory that it could not have before. */
bool weir__order_wait_on_device(struct request *request);
/* Destroys an event of weir's, or keeps it if the device refuses. */
void weir__order_drop_event(weir_pool *pool, weir_event *event);
/* Destroys the events that were kept, until the device refuses. */
void weir__order_drop_events(weir_pool *pool);

#endif
