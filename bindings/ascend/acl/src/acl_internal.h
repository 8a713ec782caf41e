/* bindings/ascend/acl/src/acl_internal.h: declarations shared by the files of the ACL binding.
 *
 *     error.c            aclError to weir_status, names and texts, the calling thread's last failure
 *     stream_registry.c  the binding's lock; notes of streams with their contexts
 *     context.c          the list of devices; contexts of threads and streams
 *     attach.c           pools as allocators of streams; attachment.h lists the files about attachments
 *     stream_watch.c     the runtime's callback when a stream is created and before one is destroyed
 *     hints.c            ACL calls that also tell a pool
 *     copy.c             copies between device and host memory
 *     device.c           weir_device_ops over ACL
 *     host.c             pinned host memory, for the host pool
 *
 * A file calls the files above it in this list. attach.c, attach_device.c and stream_watch.c call each other: an
 * attachment watches its stream, and the callback attaches new streams and ends attachments.
 *
 * One lock, in stream_registry.c, guards all process-wide data. Under it the binding calls only ACL's registries, which
 * make no callbacks.
 */
#ifndef WEIR_ACL_INTERNAL_H
#define WEIR_ACL_INTERNAL_H

#include <acl/acl.h>
#include <acl/acl_rt_allocator.h>

#include <weir/acl.h>

#include <pthread.h>
#include <stdatomic.h>

#include "shared/assert.h"
#include "shared/cancel.h"
#include "shared/leftovers.h"
#include "shared/native_error.h"

/* --- error.c --- */

/* Returns the result of an ACL call as a status. Keeps a failure for weir_acl_error. */
weir_status weir__acl_result(const char *call, aclError code);
/* Reads code and text of the last ACL call of this thread that failed; 0 and "" if no call has failed. */
void weir__acl_last(int *acl_error, const char **text);
#define ACL(function, ...) weir__acl_result(#function, UNCANCELLED(function(__VA_ARGS__)))

/* The context and the device that a stream belongs to. */
typedef struct weir__acl_place {
    aclrtContext context;
    int32_t device; /* ACL's number */
} weir__acl_place;

/* --- stream_registry.c --- */

void weir__acl_lock(void);
void weir__acl_unlock(void);
/* True if some thread holds the lock. For assertions. */
bool weir__acl_is_locked(void);
/* Waits until another thread calls weir__acl_changed_locked. The lock is released during the wait. */
void weir__acl_wait_locked(void);
void weir__acl_changed_locked(void);

/* Raises the number that weir_acl_epoch returns. */
void weir__acl_next_epoch(void);

/* Keeps a note of the stream's context and device. The note lasts until the stream is destroyed, or, if `attached` is
 * true, until weir__acl_unnote_locked was called as often as this function. Returns WEIR_OK or WEIR_ERR_NO_MEMORY. */
weir_status weir__acl_note_locked(void *native, const weir__acl_place *place, bool attached);
void weir__acl_unnote_locked(void *native);
bool weir__acl_has_notes_locked(void);
/* Reads the context and the device that are noted for the stream. Returns false if there is no note. */
bool weir__acl_noted(void *native, weir__acl_place *place);
/* Called before a stream is destroyed, and after one is created: end the note of the earlier stream. */
void weir__acl_note_destroyed_locked(void *native);
void weir__acl_note_created_locked(void *native);
/* Forbids passing the handle to ACL until a stream with this handle is created. The handle may belong to a stream that
 * is gone, and a pool still has to hold back the memory of that stream. */
void weir__acl_block_handle_locked(void *native);
bool weir__acl_handle_blocked(void *native);

/* --- context.c --- */

/* A device of weir_acl_device_create. */
typedef struct weir__acl_device {
    int32_t id;
    aclrtContext home;       /* the primary context */
    aclrtStream home_stream; /* its default stream */
    aclrtMemMallocPolicy policy;
    aclrtMemAttr attribute; /* attribute of new physical memory */
    weir_device_info info;
    char pci_bus_id[16];           /* "": unknown */
    weir__leftovers left;          /* memory and addresses that calls of this device could not give back */
    const weir_device *device;     /* the weir_device made from this struct */
    struct weir__acl_device *next; /* under the lock */
    bool is_set;                   /* the device counts this struct's aclrtSetDevice */
    bool watched;                  /* under the lock: the end of the default stream is watched for */
    atomic_bool lost;              /* the device was reset */
} weir__acl_device;

static inline bool weir__acl_is_lost(const weir__acl_device *self)
{
    return atomic_load_explicit(&self->lost, memory_order_relaxed);
}

/* Adds a device, without a weir_device so far, to the list of devices; removes it. */
void weir__acl_enlist(weir__acl_device *self, const weir_device *device);
void weir__acl_delist(weir__acl_device *self);
/* Keeps a device that was destroyed and could not be ended; returns such devices, one at a time, to try again. NULL:
 * there is none. */
void weir__acl_put_unfinished(weir__acl_device *self);
weir__acl_device *weir__acl_take_unfinished(void);
/* Returns the struct behind a device of weir_acl_device_create; NULL for any other device and after the device was
 * destroyed. */
weir__acl_device *weir__acl_device_of(const weir_device *device);
/* Called before a stream is destroyed. If the stream is the default stream of a device, marks the device as lost. */
void weir__acl_device_loses_stream_locked(const void *native);

/* Events, descriptors and pinned host memory that calls without a device could not give back. */
extern weir__leftovers weir__acl_left;
/* Gives back what earlier calls could not. For the calls that take or return memory, which may block. */
void weir__acl_settle(weir__acl_device *self);

/* The context that was current before weir__acl_bind, and the one that is current since. */
typedef struct weir__acl_bound {
    aclrtContext before;
    aclrtContext now;
    bool changed;
} weir__acl_bound;
/* Makes a context of the device current. weir__acl_unbind makes the thread's former context current again. */
weir_status weir__acl_bind(const weir__acl_device *self, weir__acl_bound *bound);
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

/* Makes a call that ACL accepts only in the stream's own context: tries the bound context, then the context that
 * stream_registry.c knows for the stream, then the primary context. */
weir_status weir__acl_on_stream(weir__acl_device *self, const char *name, aclError (*call)(aclrtStream, void *),
                                void *native, void *with);

/* Stores the calling thread's current context, NULL if it has none. Returns the failure of ACL to tell. */
weir_status weir__acl_read_current(aclrtContext *context);
/* The same, and NULL also if ACL does not tell. For sentences. */
aclrtContext weir__acl_current(void);
/* Makes the context `before` current in the place of `now` (NULL: unknown). If ACL refuses, the thread's next
 * weir__acl_bind tries again, unless the program has changed the context by then. */
void weir__acl_restore(aclrtContext before, aclrtContext now);

/* Finds the context and the device of a stream. If stream_registry.c has no note of them, tries the calling thread's
 * current context and the primary contexts of the devices of weir_acl_device_create. Returns WEIR_ERR_INVALID, with a
 * sentence that names `function`, if the stream belongs to none of these contexts. Must not be called under a lock. */
weir_status weir__acl_find(const char *function, void *native, weir__acl_place *place);
/* Waits for a stream. `context` is the stream's own context; NULL: the current context. Must not be called under a
 * lock. */
weir_status weir__acl_sync(void *native, aclrtContext context);

/* --- capture.c --- */

/* The device's stream_capture. */
weir_status weir__acl_stream_capture(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg),
                                     void *arg);

/* --- stream_watch.c --- */

/* True in a child of fork of the process that watches streams. Takes no lock: in a child it may be held for ever. */
bool weir__acl_in_child(void);
/* Keeps a note of the stream (weir__acl_note_locked) and watches for the stream's end; ends both. weir__acl_watch
 * returns WEIR_ERR_NO_MEMORY, or the runtime's refusal to register the callback. */
weir_status weir__acl_watch(void *native, const weir__acl_place *place, bool attached);
void weir__acl_unwatch_locked(void *native);

/* --- hints.c --- */

/* Replaces NULL by the handle of the stream that ACL means by NULL: the default stream of the thread's context. */
weir_status weir__acl_resolve(void *acl_stream, void **native);

/* --- copy.c --- */

weir_status weir__acl_copy(void *ctx, const weir_copy *copies, size_t count);

#endif
