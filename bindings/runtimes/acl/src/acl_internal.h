/* bindings/runtimes/acl/src/acl_internal.h: declarations shared by the files of the ACL binding.
 *
 *     error.c   aclError to weir_status, names and texts, the calling thread's last failure
 *     device.c  weir_device_ops over ACL
 *     stream_registry.c   notes of streams with their contexts, and the runtime's callback before it destroys a stream
 *     attach.c  pools as allocators of streams; attachment.h lists the other files about attachments
 *     hints.c   ACL calls that also tell a pool
 *     host.c    pinned host memory, for the host pool
 *
 * One lock, in stream_registry.c, guards all process-wide data. Under it the binding calls only ACL's registries, which
 * make no callbacks.
 */
#ifndef WEIR_ACL_INTERNAL_H
#define WEIR_ACL_INTERNAL_H

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>

#include <weir/acl.h>

#include "shared/cancel.h"
#include "shared/native_error.h"

/* --- error.c --- */

/* Returns the result of an ACL call as a status. Keeps a failure for weir_acl_error. */
weir_status weir__acl_result(const char *call, aclError code);
/* Reads code and text of the last ACL call of this thread that failed; 0 and "" if no call has failed. */
void weir__acl_last(int *acl_error, const char **text);
#define ACL(function, ...) weir__acl_result(#function, UNCANCELLED(function(__VA_ARGS__)))
/* Calls a function that releases a resource; after a failure once more, because the failure may be temporary. */
#define ACL_TWICE(function, ...) (ACL(function, __VA_ARGS__) == WEIR_OK ? WEIR_OK : ACL(function, __VA_ARGS__))

/* --- device.c --- */

/* Returns the context argument of the operations of a device of weir_acl_device_create; NULL for any other device and
 * after the device was destroyed. */
void *weir__acl_device_of(const weir_device *device);
/* The context that was current before weir__acl_bind. */
typedef struct weir__acl_bound {
    aclrtContext before;
    bool changed;
} weir__acl_bound;
/* Return ACL's number of the device, and the default stream of the device's primary context. */
int32_t weir__acl_device_id(const void *acl_device);
void *weir__acl_home_stream(const void *acl_device);
/* Makes a context of the device current. weir__acl_unbind makes the thread's former context current again. */
weir_status weir__acl_bind(const void *acl_device, weir__acl_bound *bound);
void weir__acl_unbind(const weir__acl_bound *bound);
/* Evaluates `call` in a context of the device. The value is the status of `call`, or of a failed weir__acl_bind. */
#define IN_CONTEXT(acl_device, call)                                                                                   \
    __extension__({                                                                                                    \
        weir__acl_bound bound_;                                                                                        \
        weir_status status_ = weir__acl_bind((acl_device), &bound_);                                                   \
        if (status_ == WEIR_OK) {                                                                                      \
            status_ = (call);                                                                                          \
            weir__acl_unbind(&bound_);                                                                                 \
        }                                                                                                              \
        status_;                                                                                                       \
    })

/* Returns the calling thread's current context, or NULL if it has none. */
aclrtContext weir__acl_current(void);

/* The context and the device that a stream belongs to. */
typedef struct weir__acl_place {
    aclrtContext context;
    int32_t device; /* ACL's number */
} weir__acl_place;
/* Finds the context and the device of a stream. If stream_registry.c has no note of them, tries the calling thread's
 * current context and the primary contexts of the devices of weir_acl_device_create. Returns WEIR_ERR_INVALID, with a
 * sentence that names `function`, if the stream belongs to none of these contexts. Must not be called under a lock. */
weir_status weir__acl_find(const char *function, void *native, weir__acl_place *place);
/* Waits for a stream. `context` is the stream's own context; NULL: the current context. Must not be called under a
 * lock. */
weir_status weir__acl_sync(void *native, aclrtContext context);

/* --- hints.c --- */

/* Replaces NULL by the handle of the stream that ACL means by NULL: the default stream of the thread's context. */
weir_status weir__acl_resolve(void *acl_stream, void **native);

/* --- stream_registry.c --- */

void weir__acl_lock(void);
void weir__acl_unlock(void);
/* True in a child of fork of the process that watches streams. Takes no lock: in a child it may be held for ever. */
bool weir__acl_in_child(void);
/* Waits until another thread calls weir__acl_changed_locked. The lock is released during the wait. */
void weir__acl_wait_locked(void);
void weir__acl_changed_locked(void);

/* Keeps a note of the stream's context and device, and watches for the stream's end. The note lasts until the stream is
 * destroyed, or, if `attached` is true, until weir__acl_unwatch_locked was called as often as this function. Returns
 * WEIR_ERR_NO_MEMORY, or the runtime's refusal to register the callback. */
weir_status weir__acl_watch(void *native, const weir__acl_place *place, bool attached);
void weir__acl_unwatch_locked(void *native);
/* Reads the context and the device that stream_registry.c has noted for the stream. Returns false if it has no note. */
bool weir__acl_noted(void *native, weir__acl_place *place);
/* Forbids passing the handle to ACL until a stream with this handle is created. The handle may belong to a stream that
 * is gone, and a pool still has to hold back the memory of that stream. */
void weir__acl_block_handle_locked(void *native);
bool weir__acl_handle_blocked(void *native);

/* --- device.c, for stream_registry.c --- */

/* Called before a stream is destroyed. If the stream is the default stream of a device, marks the device as lost. */
void weir__acl_device_loses_stream_locked(const void *native);

/* --- attach.c --- */

/* Raises the number that weir_acl_epoch returns. */
void weir__acl_next_epoch(void);

/* --- attach.c, for stream_registry.c --- */

/* Called before ACL destroys a stream: ends the use of the stream by all attachments. */
void weir__acl_stream_ends(void *native);
/* Called after ACL created a stream: forgets earlier streams with the same handle. */
void weir__acl_stream_created_locked(void *native);

/* --- attach_device.c, for stream_registry.c --- */

/* Called after weir__acl_stream_created_locked: attaches the new stream if its device has an attachment. Must not
 * be called under the lock. */
void weir__acl_attach_new_stream(void *native);

#endif
