/* core/src/pool/pool.h: functions that the files of pool/ call of each other, and that the folders above call. */
#ifndef WEIR_CORE_POOL_H
#define WEIR_CORE_POOL_H

#include "memory/memory.h"

/* --- ladder.c --- */

/* Serves a request after the front cache and the stream's own free memory have missed. No lock held. */
weir_status weir__ladder_alloc(struct request *request);

/* --- lock_all.c --- */

/* Takes every stream's lock and the pool's lock: nothing changes until weir__pool_unlock_all. */
void weir__pool_lock_all(weir_pool *pool);
void weir__pool_unlock_all(weir_pool *pool);

/* --- stream.c --- */

void weir__stream_fini_events(weir_pool *pool);

#endif
