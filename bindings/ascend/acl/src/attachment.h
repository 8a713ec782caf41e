/* bindings/ascend/acl/src/attachment.h: the record of an attachment, for the files that work on it. Each file calls
 * those above it, except that the two files named attach call each other.
 *
 *     attachment.c         the records, in two lists
 *     idle.c               the callback when ACL holds no block
 *     registration.c       the four callbacks, and the runtime's registry of them
 *     attach.c             attach, follow, detach, and the end of a stream
 *     attach_device.c      one attachment for all streams of a device
 *     workspace.c          the workspace of a stream
 *     attachment_report.c  figures and sentences
 *
 * An attachment has one of three roles. It registers the pool as the allocator of a stream, it only follows a stream,
 * or it stands for a device (is_device). An attachment of a device has no stream; each stream of the device has an
 * attachment of its own, whose `device` is the attachment of the device.
 */
#ifndef WEIR_ACL_ATTACHMENT_H
#define WEIR_ACL_ATTACHMENT_H

#include "acl_internal.h"

enum weir__acl_state { DETACHED, ATTACHED, GONE };

/* The kind of attachment that weir__acl_attach makes. */
typedef struct weir__acl_role {
    const char *function; /* the public function, for sentences */
    bool registers;       /* true: the attachment becomes the stream's allocator; false: it only follows the stream */
    bool is_held;         /* true: a caller owns the attachment and detaches it; false: it ends with its stream */
    weir_acl_attachment *device;
} weir__acl_role;

struct weir_acl_attachment {
    /* ACL's callbacks read the fields up to `refused_frees` without a lock. */
    _Atomic(weir_pool *) pool;     /* NULL: detached */
    _Atomic(weir_stream *) stream; /* NULL: the ACL stream was destroyed, or this is the attachment of a device */
    atomic_bool closed;
    _Atomic int64_t live;
    _Atomic uint64_t requests;
    _Atomic uint64_t failures;
    _Atomic uint64_t refused_frees;

    /* Protected by the lock of stream_registry.c, like all fields below. */
    enum weir__acl_state state;
    bool busy;           /* one thread works on the attachment, with the lock released */
    unsigned idle_calls; /* calls of the idle callback in progress */
    bool registers;
    bool is_held;
    bool is_device;
    weir_acl_attachment *device; /* device attachment that made this attachment; NULL: none */
    bool watched;                /* in state ATTACHED: stream_registry.c watches the stream */
    void *native;                /* ATTACHED */
    /* in state GONE: the destroyed stream's handle; NULL once a new stream has that handle */
    void *old_native;
    aclrtContext context;        /* in state ATTACHED: the stream's context; NULL: not known yet */
    bool end_pending;            /* in state GONE: the pool was not yet told that the stream's work is over */
    void *registered_on;         /* in state GONE: handle with a registration that ACL refused to remove; NULL: none */
    weir_block *workspace;       /* in state ATTACHED: the stream's workspace, or NULL; changed only while `busy` */
    weir_acl_idle_callback idle; /* NULL: none */
    void *idle_ctx;
    weir_acl_attachment *next;

    /* Used only in the attachment of a device. */
    int32_t device_id;
    unsigned joining; /* threads that attach a new stream */
    uint64_t missed;
    char missed_why[192]; /* reason for the latest of the `missed` streams */
};

/* The invariants of an attachment that is not detached. The lock is held, or the caller has marked `self` as busy. For
 * assertions. */
static inline bool weir__acl_is_sound(const weir_acl_attachment *self)
{
    const bool has_stream = self->native != NULL;
    return atomic_load(&self->pool) != NULL && (self->device == NULL || self->device->is_device) &&
           has_stream == (self->state == ATTACHED && !self->is_device) &&
           (self->state == GONE || (self->old_native == NULL && self->registered_on == NULL && !self->end_pending)) &&
           (self->state == ATTACHED || (self->workspace == NULL && atomic_load(&self->closed)));
}

/* --- attachment.c --- */

/* Returns the first entry of the list of attachments that are not detached. */
weir_acl_attachment *weir__acl_first_locked(void);
bool weir__acl_is_attachment_locked(const weir_acl_attachment *self);
weir_status weir__acl_no_attachment(const char *function, const void *handle);
/* Returns an attachment to the stream, or NULL. */
weir_acl_attachment *weir__acl_attached_to_locked(const void *native);
/* True if the pool must not be attached to the stream. A stream has at most one registered allocator, and at most one
 * attachment for each pool, so exactly one attachment tells the pool of the stream's end. */
bool weir__acl_is_taken_locked(const void *native, bool registers, const weir_pool *pool);
/* Makes an attachment in state ATTACHED, marked busy. Returns NULL when out of host memory. The caller holds the pool.
 */
weir_acl_attachment *weir__acl_begin_locked(weir_pool *pool, weir_stream *stream, void *native,
                                            const weir__acl_role *role);
/* Moves an attachment to the list of detached ones, for reuse. The caller releases the pool. */
void weir__acl_retire_locked(weir_acl_attachment *self);
void weir__acl_let_go(weir_pool *pool);
/* Returns the number of blocks that ACL got through the attachment and has not freed. The attachment of a device counts
 * the blocks of all its streams. */
int64_t weir__acl_live_locked(const weir_acl_attachment *self);
/* Frees the workspace in stream order. `self` is busy and in state ATTACHED. Must not be called under the lock. */
void weir__acl_free_workspace(weir_acl_attachment *self);
/* Replaces the callback of the attachment; NULL removes it. */
void weir__acl_set_idle_locked(weir_acl_attachment *self, weir_acl_idle_callback callback, void *ctx);
/* True if any attachment has a callback. */
bool weir__acl_any_idle_callback(void);

/* Called after ACL created a stream: forgets earlier streams with the same handle. */
void weir__acl_stream_created_locked(void *native);

/* --- idle.c --- */

/* Called when ACL has given back the last block of an attachment. Must not be called under the lock. */
void weir__acl_became_idle(void);
/* Waits until no callback of the attachment is running. Returns false, at once, in a thread that runs a callback. */
bool weir__acl_callbacks_ended_locked(const weir_acl_attachment *self);

/* --- registration.c --- */

/* Makes the attachment the stream's registered allocator. ACL copies the description of the allocator. */
weir_status weir__acl_enter_registry(void *native, weir_acl_attachment *self);
/* Removes the attachment's registration from the stream. A registration of another allocator is left in place. */
weir_status weir__acl_leave_registry(void *native, const weir_acl_attachment *self);
/* Reads the allocator object that is registered for a stream. Returns WEIR_ERR_INVALID if there is none. */
weir_status weir__acl_registered(void *native, aclrtAllocator *owner);

/* --- attach.c --- */

/* Attaches the pool to the stream in this role, and holds the pool (weir_pool_hold). Must not be called under the
 * lock. */
weir_status weir__acl_attach(const weir__acl_role *role, weir_pool *pool, void *native,
                             weir_acl_attachment **attachment);
/* Undoes a failed attach to a new stream: the pool forgets the stream, unless another attachment will tell it of the
 * stream's end. Must not be called under the lock. */
void weir__acl_forget(weir_pool *pool, void *native);
/* Detaches `self`, which the caller has marked busy, from its stream and retires it. On failure `self` stays attached
 * and is no longer busy. Must not be called under the lock. */
weir_status weir__acl_take_off(weir_acl_attachment *self);
/* The same, but on failure `self` stays marked busy. For a caller that has marked several attachments: between the
 * failure and the caller's own unmarking another thread must not mark `self`. */
weir_status weir__acl_try_take_off(weir_acl_attachment *self);
/* Retires attachments of destroyed streams that no caller has the handle of and of which ACL holds no block. Must not
 * be called under the lock. */
void weir__acl_sweep(void);
/* Called before ACL destroys a stream: ends the use of the stream by all attachments. */
void weir__acl_stream_ends(void *native);

/* --- attach_device.c --- */

/* Detaches the attachment of a device, marked busy by the caller, and the attachments of its streams. */
weir_status weir__acl_detach_device(weir_acl_attachment *self);
/* Called after ACL created a stream and the earlier streams with its handle were forgotten: attaches the new stream if
 * its device has an attachment. Must not be called under the lock. */
void weir__acl_attach_new_stream(void *native);

#endif
