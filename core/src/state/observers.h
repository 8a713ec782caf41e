/* core/src/state/observers.h: calls a pool's observers. */
#ifndef WEIR_CORE_STATE_OBSERVERS_H
#define WEIR_CORE_STATE_OBSERVERS_H

#include "state/blocks.h"
#include "state/reserved.h"

struct pool_observer {
    weir_observer_ops ops;
    void *ctx;
    _Atomic(struct pool_observer *) next;
};

/* Report the pool's present state to an observer that is being attached: the first function a range of memory, the
 * second one a block, if the block is live. All locks held. */
void weir__observer_tell_memory(const struct pool_observer *observer, bool given, uint64_t address, uint64_t size);
void weir__observer_list_block(const struct pool_observer *observer, const weir_block *block);

/* Reports an alloc to observers, before the caller gets the block. Stream lock held on entry, released on return. */
void weir__watch_alloc_unlock(weir_stream *stream, weir_block *block, uint64_t align);
/* Reports the free of a live block, just before the block is freed on `stream`, or as idle if `stream` is NULL. A
 * stream's lock held. */
void weir__watch_free(const weir_block *block, const weir_stream *stream);
/* Does so for the committed units of a reserved block in [address, end). */
void weir__watch_free_part(const weir_block *block, uint64_t address, uint64_t end, const weir_stream *stream);
/* Reports the units of a reserved block in [address, end) that are not committed yet as allocated. The calling thread
 * has the turn to grow; no lock held. */
void weir__watch_commit(const weir_block *block, uint64_t address, uint64_t end, const weir_stream *stream);
/* Report memory to the observers that the device has given, or that it is about to get back. Called by the thread that
 * grows. No lock held. */
void weir__watch_given(const weir_pool *pool, uint64_t address, uint64_t size);
void weir__watch_taken(const weir_pool *pool, uint64_t address, uint64_t size);
/* Reports that a block falls asleep or wakes, or the committed units of a reserved block in [address, end). The calling
 * thread has the turn to grow; no lock held. */
void weir__watch_sleep(const weir_block *block, uint64_t address, uint64_t end, bool sleeps);
/* Report to the observers a use of a live block, or of the committed units of a reserved block in [address, end); a
 * caller's hint about an event, or about a stream if `event` is NULL; and a trim. No lock held. */
void weir__watch_use(const weir_block *block, uint64_t address, uint64_t end, const weir_stream *stream);
void weir__watch_event(weir_pool *pool, weir_observed_kind kind, const void *event, const weir_stream *stream);
void weir__watch_trim(weir_pool *pool);
/* Describes a change of a capture for weir__watch_capture. Pool lock held, or no other thread can end the captures. */
weir_observed_capture weir__observed_capture(const struct weir_capture_pool *captures, weir_observed_capture_kind kind);
/* Reports a change of a capture to observers. Pool lock not held. */
void weir__watch_capture(weir_pool *pool, const weir_observed_capture *capture);
/* Reports a capture under way to an observer that is being attached. All locks held. */
void weir__observer_list_capture(const struct pool_observer *observer, const struct weir_capture_pool *captures);
/* Called when the pool is destroyed, before its memory goes back. weir__watch_end_blocks reports every live block as
 * freed; weir__watch_end reports the pool's end and frees the observers. */
void weir__watch_end_blocks(weir_pool *pool);
void weir__watch_end(weir_pool *pool);

#endif
