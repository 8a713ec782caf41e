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

/* --- record_file.c: for bindings whose memory no pool serves --- */

/* A recorder fed by hand for the file that the environment variable WEIR_RECORD names, and for FILE.2, FILE.3, ... when that
 * exists already. NULL: the variable is not set, or it could not be done. Ended by weir_recorder_stop. */
weir_recorder *weir__recorder_from_environment(const char *source);

#endif
