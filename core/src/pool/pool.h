/* core/src/pool/pool.h: functions that the files of pool/ call of each other, and that the folders above call. */
#ifndef WEIR_CORE_POOL_H
#define WEIR_CORE_POOL_H

#include "memory/memory.h"

/* --- pool.c --- */

/* Returns WEIR_OK if the block is a live one of the pool, awake or asleep. Otherwise refuses it, in the name of the
 * function. */
weir_status weir__pool_check_held(const char *function, weir_pool *pool, const weir_block *block);
/* Returns WEIR_OK if the block is a live one of the pool and is awake, and the stream is one of the pool's. Otherwise
 * refuses it, in the name of the function. */
weir_status weir__pool_check_use(const char *function, weir_pool *pool, const weir_block *block,
                                 const weir_stream *stream);

/* --- ladder.c --- */

/* Serves a request after the front cache and the stream's own free memory have missed. No lock held. */
weir_status weir__ladder_alloc(struct request *request);

/* --- lock_all.c --- */

/* Takes every stream's lock and the pool's lock: nothing changes until weir__pool_unlock_all. */
void weir__pool_lock_all(weir_pool *pool);
void weir__pool_unlock_all(weir_pool *pool);

/* --- stream.c --- */

void weir__stream_fini_events(weir_pool *pool);
/* Makes a stand-in. Returns NULL when out of host memory. No lock held. */
weir_stream *weir__stream_add_stand_in(const struct stand_in *as);
/* Raises the stream's tick. Returns the old tick, which covers every free on the stream so far, by any thread. */
weir_tick weir__stream_close_tick(weir_stream *stream);
/* Returns the capture pool of the capture under way, told by the program, in which the event was recorded, or NULL. */
struct weir_capture_pool *weir__stream_told_capture_of(weir_pool *pool, const void *event);

/* --- capture.c: no lock held --- */

/* Replaces a stream that is being captured by its stand-in. Returns WEIR_ERR_NO_MEMORY, and changes nothing, if there
 * is no host memory for one. */
weir_status weir__capture_route(weir_stream **stream);
/* Does so for a hint. Returns WEIR_ERR_BUSY if the stream is in a capture that the program should have told. */
weir_status weir__capture_route_hint(weir_stream **stream);
/* Does so for a stream that has been made to wait for the event: a wait for an event of a capture draws it in. */
weir_status weir__capture_route_wait(weir_stream **stream, const void *event);
/* Frees the records of captures in a pool that is being destroyed. */
void weir__capture_fini(weir_pool *pool);

#endif
