/* core/src/base/internal.h: what the files of core share, grouped by the file that defines it. Nothing here is exported.
 *
 * Names that cross files begin with weir__. Lock order: stream, then pool; no device call that can block is made
 * under either.
 */
#ifndef WEIR_CORE_INTERNAL_H
#define WEIR_CORE_INTERNAL_H

#include <stdatomic.h>

#include <weir/budget.h>
#include <weir/device.h>
#include <weir/pool.h>
#include <weir/strategy.h>
#include <weir/trace.h>

/* --- config.c --- */

/* Adopts a caller's size-first struct: copies what both know into the zeroed `dst`, sets dst's own size, and refuses
 * bytes beyond it that are not zero. `name`, "weir_pool_create: config", begins the sentence of a refusal. */
weir_status weir__config_adopt(void *dst, size_t dst_size, const void *src, const char *name);
/* The other direction, with `name` as above: writes a library struct into the caller's, which may be shorter or longer. */
weir_status weir__config_report(void *dst, const void *src, size_t src_size, const char *name);

/* --- device.c --- */

/* The context behind a device made with exactly these ops, NULL for any other: how adaptors know their own. */
void *weir__device_context(const weir_device *device, const weir_device_ops *ops);
/* The facts as copied at creation, without a call. */
const weir_device_info *weir__device_info(const weir_device *device);
/* Takes one from a count of holds, of a device or a pool; false when it is 0. */
bool weir__release_hold(atomic_uint *holds);

/* --- record.c: holds of heaps; a recorder with holds is not stopped --- */

void weir__recorder_hold(weir_recorder *recorder);
void weir__recorder_release(weir_recorder *recorder);

/* --- record.c: hooks of a pool, called only when the pool has a recorder --- */

/* All take no lock but the recorder's own (where it writes to a file and a ring is full) and wait for no pool, so they may
 * be called with or without the pool's locks; `block_id` is unique in the pool. The order of the calls is the order of the trace, so that no range seems to belong to two blocks at once:
 * alloc before the caller gets the handle; free once it is sure to succeed but before the range can be handed out
 * again; use before the call returns. */
void weir__record_alloc(weir_recorder *recorder, uint64_t block_id, uint64_t size, uint64_t align,
                        uint32_t stream_number, uint64_t address, weir_tag tag);
void weir__record_free(weir_recorder *recorder, uint64_t block_id, uint32_t stream_number); /* WEIR_TRACE_NONE: idle */
void weir__record_use(weir_recorder *recorder, uint64_t block_id, uint32_t stream_number);
/* RECORD, WAIT or SYNC. A SYNC is of `event`, or, when that is NULL, of the stream; WEIR_TRACE_NONE: the device. */
void weir__record_event(weir_recorder *recorder, weir_trace_kind kind, const void *event, uint32_t stream_number);
void weir__record_trim(weir_recorder *recorder);

/* --- record_file.c: for bindings whose memory no pool serves --- */

/* A recorder fed by hand for the file that the environment variable WEIR_RECORD names, and for FILE.2, FILE.3, ... when that
 * exists already. NULL: the variable is not set, or it could not be done. Ended by weir_recorder_stop. */
weir_recorder *weir__recorder_from_environment(const char *source);

/* --- pool.c, for record.c --- */

/* Sets the pool's recorder (NULL ends it); WEIR_ERR_BUSY when there is one already. While the pool is locked, calls
 * `live` for every live block. */
weir_status weir__pool_set_recorder(weir_pool *pool, weir_recorder *recorder,
                                    void (*live)(void *ctx, uint64_t block_id, uint64_t size, uint32_t stream_number,
                                                 uint64_t address),
                                    void *ctx);
/* The facts of the pool's device, without a call: for the trace's header. */
const weir_device_info *weir__pool_device_info(const weir_pool *pool);

/* --- tag.c, for record.c --- */

/* The name of a tag that a block was counted under; valid as long as the pool. */
const char *weir__tag_name(const weir_pool *pool, weir_tag tag);

#endif
