/* core/src/state/state.h: what a pool is, and the functions on its parts that need no rule of the stream order.
 *
 *     pool.h         the pool
 *     stream.h       its streams
 *     locks.h        takes their locks; stream_lock.h has the lock
 *     block.h        a block; blocks.h: the blocks of a pool; reserved.h: a block whose memory comes in parts
 *     front_cache.h  a stream's cache of freed blocks
 *     counters.h     live bytes and their peaks
 *     clock.h        vector clocks and sets of streams
 *     observers.h    calls the observers
 *     mark.h         when idle regions are returned before the pool grows: arithmetic
 *     memory_ops.h   the table of a source of memory
 *
 * A build with -DWEIR_CHECKS=n adds these checks to the assertions of shared/assert.h:
 *     1   handles are looked up before they are followed: a foreign pointer is WEIR_ERR_INVALID, not a crash
 *     2   the strategy's invariants are checked after every 256th call that reaches it
 *     3   the whole pool's invariants are checked after every call that reaches the strategy
 * A broken invariant aborts the program: it is a bug of weir, and continuing would only hide it.
 */
#ifndef WEIR_CORE_STATE_H
#define WEIR_CORE_STATE_H

#include "shared/assert.h"
#include "state/blocks.h"
#include "state/clock.h"
#include "state/counters.h"
#include "state/front_cache.h"
#include "state/memory_ops.h"
#include "state/observers.h"

#endif
