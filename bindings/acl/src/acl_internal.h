/* bindings/acl/src/acl_internal.h: what the files of the ACL binding share.
 *
 *     error.c   aclError to weir_status, names and texts, the calling thread's last failure
 *     device.c  weir_device_ops over ACL
 *     stream_registry.c   streams whose context is known, and the runtime's word that one is being destroyed
 *     attach.c  pools as allocators of streams
 *     hints.c   ACL calls that also tell a pool
 *     host.c    pinned host memory, for the host pool
 *
 * One lock, stream_registry.c's, for everything that is process-wide. Under it only calls of ACL's registries are made,
 * which call nobody back.
 */
#ifndef WEIR_ACL_INTERNAL_H
#define WEIR_ACL_INTERNAL_H

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>

#include <weir/acl.h>

#include "shared/cancel.h"
#include "shared/native_error.h"

/* --- error.c --- */

/* What an ACL call returned, as a status; a failure is kept for weir_acl_error. */
weir_status weir__acl_result(const char *call, aclError code);
/* The last ACL call of this thread that failed: 0 and "" if none has. */
void weir__acl_last(int *acl_error, const char **text);
#define ACL(function, ...) weir__acl_result(#function, UNCANCELLED(function(__VA_ARGS__)))
/* For calls that must not leave anything behind: a failure that passes is tried once more. */
#define ACL_TWICE(function, ...) (ACL(function, __VA_ARGS__) == WEIR_OK ? WEIR_OK : ACL(function, __VA_ARGS__))

/* --- device.c --- */

/* The device of weir_acl_device_create as its slots know it; NULL: it is none, or gone. */
void *weir__acl_device_of(const weir_device *device);
/* What was current before the device's context was made so. */
typedef struct weir__acl_bound {
    aclrtContext before;
    bool changed;
} weir__acl_bound;
/* Makes a context of the device current, until the thread has its own back. */
weir_status weir__acl_bind(const void *acl_device, weir__acl_bound *bound);
void weir__acl_unbind(const weir__acl_bound *bound);

/* The calling thread's current context, NULL if it has none. */
aclrtContext weir__acl_current(void);

/* Where a stream belongs. */
typedef struct weir__acl_place {
    aclrtContext context;
    int32_t device; /* ACL's number */
} weir__acl_place;
/* Finds it: the note, or, by trial, the calling thread's current context or the primary one of a device of
 * weir_acl_device_create. WEIR_ERR_INVALID: none of these is the stream's, which is told in the name of `function`. Not
 * under a lock. */
weir_status weir__acl_find(const char *function, void *native, weir__acl_place *place);
/* Waits for a stream in its context, or in the current one if that is not known (NULL). Not under a lock. */
weir_status weir__acl_sync(void *native, aclrtContext context);

/* --- stream_registry.c --- */

void weir__acl_lock(void);
void weir__acl_unlock(void);
/* This process is a child, by fork, of the one that watches streams. Takes no lock: it may be held for ever. */
bool weir__acl_in_child(void);
/* Lets go of the lock until weir__acl_changed. */
void weir__acl_wait_locked(void);
void weir__acl_changed_locked(void);

/* Remembers where the stream belongs and watches for its end. With `attached` that lasts until as many calls of
 * weir__acl_unwatch_locked, otherwise until the stream is destroyed. WEIR_ERR_NO_MEMORY, or what the runtime says to
 * being watched. */
weir_status weir__acl_watch(void *native, const weir__acl_place *place, bool attached);
void weir__acl_unwatch_locked(void *native);
/* The note of the stream; false: there is none. */
bool weir__acl_noted(void *native, weir__acl_place *place);
/* Until a stream with this handle is created the handle must not be given to ACL: it may be that of a stream that is
 * gone, whose memory a pool still has to keep aside. */
void weir__acl_bury_locked(void *native);
bool weir__acl_is_buried(void *native);

/* --- device.c, for stream_registry.c --- */

/* A stream is about to be destroyed: a default stream takes its device with it, and the note of it. */
void weir__acl_device_goes_locked(const void *native);

/* --- attach.c --- */

/* What weir_acl_epoch counts. */
void weir__acl_next_epoch(void);

/* --- attach.c, for stream_registry.c --- */

/* The stream is about to be destroyed. */
void weir__acl_stream_goes(void *native);
/* A stream was created. */
void weir__acl_stream_comes_locked(void *native);

#endif
