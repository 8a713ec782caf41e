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
/* Reads the last failed ACL call of this thread; 0 and "" if no call has failed. */
void weir__acl_last(int *acl_error, const char **text);
#define ACL(function, ...) weir__acl_result(#function, UNCANCELLED(function(__VA_ARGS__)))
/* Calls a function that releases a resource. After a failure, calls it once more, because the failure may be
 * temporary. */
#define ACL_TWICE(function, ...) (ACL(function, __VA_ARGS__) == WEIR_OK ? WEIR_OK : ACL(function, __VA_ARGS__))

/* --- device.c --- */

/* Returns the context of the slots of a device of weir_acl_device_create; NULL for any other or a destroyed device. */
void *weir__acl_device_of(const weir_device *device);
/* The context that was current before weir__acl_bind. */
typedef struct weir__acl_bound {
    aclrtContext before;
    bool changed;
} weir__acl_bound;
/* Returns ACL's number of the device, and the default stream of its primary context. */
int32_t weir__acl_device_id(const void *acl_device);
void *weir__acl_home_stream(const void *acl_device);
/* Makes a context of the device current. weir__acl_unbind makes the thread's former context current again. */
weir_status weir__acl_bind(const void *acl_device, weir__acl_bound *bound);
void weir__acl_unbind(const weir__acl_bound *bound);
/* Makes `call` in a context of the device and gives its status. If weir__acl_bind fails, gives that status instead. */
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
/* Finds the context and the device of a stream. Without a note of the stream, the function tries the calling thread's
 * current context and the primary contexts of the devices of weir_acl_device_create. Returns WEIR_ERR_INVALID, with a
 * sentence that names `function`, if the stream belongs to none of these contexts. Must not be called under a lock. */
weir_status weir__acl_find(const char *function, void *native, weir__acl_place *place);
/* Waits for a stream. `context` is the stream's own context; NULL: the current context. Must not be called under a
 * lock. */
weir_status weir__acl_sync(void *native, aclrtContext context);

/* --- hints.c --- */

/* Replaces NULL by the handle of the stream that ACL means by NULL: the default stream of the calling thread's
 * context. */
weir_status weir__acl_resolve(void *acl_stream, void **native);

/* --- stream_registry.c --- */

void weir__acl_lock(void);
void weir__acl_unlock(void);
/* True in a child of fork of the process that watches streams. Takes no lock, because in a child the lock may be held
 * for ever. */
bool weir__acl_in_child(void);
/* Waits until another thread calls weir__acl_changed_locked. The lock is released during the wait. */
void weir__acl_wait_locked(void);
void weir__acl_changed_locked(void);

/* Notes the stream's context and device, and watches for the stream's end. If `attached` is true, the note lasts until
 * weir__acl_unwatch_locked was called as often as this function; otherwise until the stream is destroyed. Returns
 * WEIR_ERR_NO_MEMORY, or the runtime's refusal to register the callback. */
weir_status weir__acl_watch(void *native, const weir__acl_place *place, bool attached);
void weir__acl_unwatch_locked(void *native);
/* Reads the note of the stream. Returns false if there is none. */
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

/* Called before the stream is destroyed: ends the use of the stream by all its attachments. */
void weir__acl_stream_ends(void *native);
/* Called after the stream was created: forgets that earlier streams had the handle. */
void weir__acl_stream_created_locked(void *native);

/* --- attach_device.c, for stream_registry.c --- */

/* Called after weir__acl_stream_created_locked: attaches the new stream if its device has an attachment. Must not
 * be called under the lock. */
void weir__acl_attach_new_stream(void *native);

#endif
