/* bindings/ascend/acl/src/attach.c: a pool as the allocator of ACL streams.
 *
 * Idea: ACL forbids that one allocator object serves two streams at once. So each stream gets an object of its own, an
 * attachment; the pool behind all attachments is thread safe.
 *
 * Guarantees. A registration outlives neither its stream nor its attachment. While live > 0, attachment and pool stay.
 *
 *     live = blocks that ACL holds + alloc callbacks in progress; `closed` forbids new ones:
 *     alloc raises live, then reads closed; detach sets closed, then reads live. One of the two sees the other.
 *
 * The states of an attachment, under the lock of stream_registry.c. `busy` is set while a thread works on the
 * attachment without the lock.
 *
 *     ATTACHED --detach--> DETACHED
 *     ATTACHED --the stream is being destroyed--> GONE --detach--> DETACHED
 *
 * No caller has the handle of a device's streams and of streams that have only a workspace. Such an attachment ends by
 * itself when it is GONE and ACL holds no block of it any more (weir__acl_sweep).
 */
#include "attachment.h"

/* --- attach --- */

static weir_status taken_by(const char *function, void *native, const char *whom)
{
    return weir_refuse(WEIR_ERR_BUSY, "%s: stream %p has %s", function, native, whom);
}

/* Watches for the stream's end and registers the attachment with ACL. `self` is listed and busy, so no other attachment
 * can take the stream meanwhile. */
static weir_status connect(const char *function, weir_acl_attachment *self, void *native, const weir__acl_place *place)
{
    WEIR_ASSERT(self->busy && self->state == ATTACHED && !self->is_device);
    int32_t id = 0;
    /* Refuse a handle that is no stream: ACL would register the handle, but weir could not wait for the stream, and so
     * could not detach it. */
    weir_status status = ACL(aclrtStreamGetId, native, &id);
    if (status != WEIR_OK) {
        return status;
    }
    if (self->registers) {
        aclrtAllocator owner = NULL;
        status = weir__acl_registered(native, &owner);
        if (status != WEIR_ERR_INVALID) {
            return status == WEIR_OK ? taken_by(function, native, "an allocator that is not weir's") : status;
        }
    }
    self->context = place->context;
    status = weir__acl_watch(native, place, true);
    self->watched = status == WEIR_OK;
    return self->watched && self->registers ? weir__acl_enter_registry(native, self) : status;
}

/* Attaches the pool, which the caller holds (weir_pool_hold), to the stream, or only lets it follow, as `role` says. */
static weir_status attach(const weir__acl_role *role, weir_pool *pool, weir_stream *stream, void *native,
                          weir_acl_attachment **attachment)
{
    weir__acl_place place = {0};
    weir_status status = weir__acl_find(role->function, native, &place);
    if (status != WEIR_OK) {
        return status;
    }
    weir__acl_lock();
    const bool taken = weir__acl_is_taken_locked(native, role->registers, pool);
    weir_acl_attachment *self = taken ? NULL : weir__acl_begin_locked(pool, stream, native, role);
    weir__acl_unlock();
    if (self == NULL) {
        return taken ? taken_by(role->function, native,
                                role->registers ? "an attachment already" : "an attachment of this pool already")
                     : WEIR_ERR_NO_MEMORY;
    }
    WEIR_ASSERT(self->native == native && self->stream == stream);
    status = connect(role->function, self, native, &place);
    weir__acl_lock();
    if (status == WEIR_OK) {
        self->busy = false;
        *attachment = self;
    } else {
        weir__acl_unwatch_locked(self->watched ? native : NULL);
        weir__acl_retire_locked(self);
    }
    weir__acl_changed_locked();
    weir__acl_unlock();
    return status;
}

/* Ends the attachment that weir_acl_workspace made for the stream, if there is one: the caller's attachment replaces
 * it. */
static weir_status make_room(const weir__acl_role *role, const weir_pool *pool, void *native)
{
    weir__acl_lock();
    weir_acl_attachment *self = weir__acl_first_locked();
    while (self != NULL && (self->state != ATTACHED || self->native != native || self->is_held ||
                            self->device != NULL || atomic_load(&self->pool) != pool)) {
        self = self->next;
    }
    const bool busy = self != NULL && self->busy;
    if (self != NULL && !busy) {
        self->busy = true;
    }
    weir__acl_unlock();
    if (busy) {
        return taken_by(role->function, native, "a workspace that another thread is changing");
    }
    return self != NULL ? weir__acl_take_off(self) : WEIR_OK;
}

weir_status weir__acl_attach(const weir__acl_role *role, weir_pool *pool, void *native,
                             weir_acl_attachment **attachment)
{
    WEIR_ASSERT(role->is_held || role->device != NULL || !role->registers);
    /* Call the pool before taking the binding's lock: the lock order is the pool's lock, then the binding's lock. */
    weir_stream *stream = NULL;
    weir_status status = role->is_held || role->device != NULL ? make_room(role, pool, native) : WEIR_OK;
    if (status == WEIR_OK) {
        status = weir_pool_stream(pool, native, &stream);
        status = status == WEIR_ERR_INVALID ? weir__native_refuse_as(role->function, status) : status;
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = weir_pool_hold(pool);
    if (status == WEIR_OK) {
        status = attach(role, pool, stream, native, attachment);
        if (status != WEIR_OK) {
            weir__acl_let_go(pool);
        }
    }
    return status;
}

static weir_status attach_or_follow(const weir__acl_role *role, weir_pool *pool, void *native,
                                    weir_acl_attachment **attachment)
{
    if (pool == NULL || native == NULL || attachment == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", role->function,
                           pool == NULL ? "pool"
                           : native == NULL
                               ? "acl_stream (the default stream's handle is aclrtCtxGetCurrentDefaultStream's)"
                               : "attachment");
    }
    return weir__acl_attach(role, pool, native, attachment);
}

weir_status weir_acl_attach(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment)
{
    static const weir__acl_role role = {.function = "weir_acl_attach", .registers = true, .is_held = true};
    return attach_or_follow(&role, pool, acl_stream, attachment);
}

weir_status weir_acl_follow(weir_pool *pool, void *acl_stream, weir_acl_attachment **attachment)
{
    static const weir__acl_role role = {.function = "weir_acl_follow", .is_held = true};
    return attach_or_follow(&role, pool, acl_stream, attachment);
}

/* --- the end of a stream --- */

/* Tells the pool that the stream's work is over. Looks the weir_stream up again, because the caller may have retired it
 * in breach of the contract; its memory may then be another stream's. */
static void end_stream(weir_pool *pool, void *native)
{
    weir_stream *stream = NULL;
    weir_status status = weir_pool_stream(pool, native, &stream);
    if (status == WEIR_OK) {
        status = weir_stream_ended(pool, stream);
    }
    /* ignored: the lookup fails only for a stream that is new to the pool, when there is no host memory for its record
     * */
    (void)status;
}

void weir__acl_forget(weir_pool *pool, void *native)
{
    weir__acl_lock();
    const bool taken = weir__acl_is_taken_locked(native, false, pool);
    weir__acl_unlock();
    if (!taken) {
        end_stream(pool, native);
    }
}

/* Ends the attachment's use of a stream that the runtime is about to destroy. The handle is still valid, and no call
 * that the stream might wait for is in progress. If the stream cannot be waited for, its work may continue until the
 * destroy is over. In this case the detach of the attachment tells the pool of the end, and weir makes no ACL call with
 * the handle until then. */
static void empty(weir_acl_attachment *self, void *native)
{
    WEIR_ASSERT(self->busy && self->state == ATTACHED && self->native == native);
    atomic_store(&self->closed, true);
    weir__acl_next_epoch();
    weir_status status = weir__acl_sync(native, self->context);
    if (status != WEIR_OK) {
        status = weir__acl_sync(native, self->context);
    }
    /* If ACL keeps the registration, its attachment is closed and hands out no block. weir_acl_detach tries again. */
    bool left = self->registers && weir__acl_leave_registry(native, self) != WEIR_OK;
    left = left && weir__acl_leave_registry(native, self) != WEIR_OK;
    weir__acl_free_workspace(self);
    atomic_store(&self->stream, NULL);
    if (status == WEIR_OK) {
        end_stream(atomic_load(&self->pool), native);
    }
    weir__acl_lock();
    WEIR_ASSERT(self->busy); /* no other thread has worked on it meanwhile */
    if (status != WEIR_OK) {
        self->end_pending = true;
        weir__acl_block_handle_locked(native);
    }
    WEIR_ASSERT(self->workspace == NULL);
    self->registered_on = left ? native : NULL;
    self->native = NULL;
    self->old_native = native;
    self->state = GONE;
    self->busy = false;
    weir__acl_changed_locked();
    weir__acl_unlock();
}

/* Marks an attachment to the stream as busy and returns it, or NULL if there is none. Waits while another thread works
 * on such an attachment. */
static weir_acl_attachment *next_attached_to(const void *native)
{
    weir__acl_lock();
    weir_acl_attachment *self = weir__acl_attached_to_locked(native);
    while (self != NULL && self->busy) {
        weir__acl_wait_locked();
        self = weir__acl_attached_to_locked(native);
    }
    if (self != NULL) {
        self->busy = true;
    }
    weir__acl_unlock();
    WEIR_ASSERT(self == NULL || weir__acl_is_sound(self));
    return self;
}

void weir__acl_stream_ends(void *native)
{
    for (weir_acl_attachment *self; (self = next_attached_to(native)) != NULL;) {
        empty(self, native);
    }
    weir__acl_sweep();
}

/* --- detach --- */

/* Waits for the stream of an attachment. ACL refuses the wait while the stream is being captured. */
static weir_status wait_for_stream(const weir_acl_attachment *self)
{
    enum { STREAM_CAPTURED = 107027 };
    int code = 0;
    const char *text = "";
    const weir_status status = weir__acl_sync(self->native, self->context);
    weir__acl_last(&code, &text);
    return status == WEIR_ERR_DEVICE && code == STREAM_CAPTURED
               ? weir_refuse(WEIR_ERR_BUSY, "weir_acl_detach: stream %p is being captured: detach after the capture",
                             self->native)
               : status;
}

/* Waits for the stream and removes the registration. On failure nothing has changed. */
static weir_status disconnect(weir_acl_attachment *self)
{
    WEIR_ASSERT(self->busy && self->state == ATTACHED && self->native != NULL);
    const weir_status status = wait_for_stream(self);
    return status == WEIR_OK && self->registers ? weir__acl_leave_registry(self->native, self) : status;
}

/* Tells the pool of the end of a stream that could not be waited for when it was destroyed. The destroy is over now,
 * and with it the stream's work. If a new stream with the same handle was created since, that stream has taken over the
 * memory of the old one, and the function does not call the pool. */
static void end_late(weir_acl_attachment *self)
{
    WEIR_ASSERT(self->busy && self->state == GONE);
    weir__acl_lock();
    void *old_native = self->end_pending ? self->old_native : NULL;
    weir__acl_unlock();
    if (old_native != NULL) {
        end_stream(atomic_load(&self->pool), old_native);
    }
}

/* Closes the attachment, so that it serves no request, and detaches it from its stream. On failure opens it again. The
 * caller does not hold the lock and has marked `self` as busy. */
static weir_status leave(weir_acl_attachment *self)
{
    WEIR_ASSERT(self->busy && self->state != DETACHED && !self->is_device);
    const bool attached = self->state == ATTACHED;
    atomic_store(&self->closed, true);
    const int64_t live = atomic_load(&self->live);
    weir_status status = WEIR_OK;
    if (live > 0) {
        status =
            weir_refuse(WEIR_ERR_BUSY, "weir_acl_detach: ACL holds %lld blocks of the attachment or is asking for one",
                        (long long)live);
    } else if (attached) {
        status = disconnect(self);
    } else if (self->registered_on != NULL) {
        status = weir__acl_leave_registry(self->registered_on, self);
    }
    if (status != WEIR_OK) {
        atomic_store(&self->closed, !attached);
        return status;
    }
    weir__acl_next_epoch();
    if (attached) {
        weir__acl_free_workspace(self);
        end_stream(atomic_load(&self->pool), self->native);
    } else {
        end_late(self);
    }
    return WEIR_OK;
}

weir_status weir__acl_try_take_off(weir_acl_attachment *self)
{
    WEIR_ASSERT(self->busy && !self->is_device);
    const weir_status status = leave(self);
    if (status != WEIR_OK) {
        return status;
    }
    weir__acl_lock();
    WEIR_ASSERT(self->busy);
    weir_pool *pool = atomic_load(&self->pool);
    weir__acl_unwatch_locked(self->native); /* no effect if `native` is NULL: the stream was destroyed */
    weir__acl_retire_locked(self);
    weir__acl_changed_locked();
    weir__acl_unlock();
    weir__acl_let_go(pool);
    return WEIR_OK;
}

weir_status weir__acl_take_off(weir_acl_attachment *self)
{
    const weir_status status = weir__acl_try_take_off(self);
    if (status != WEIR_OK) {
        weir__acl_lock();
        WEIR_ASSERT(self->busy);
        self->busy = false;
        weir__acl_changed_locked();
        weir__acl_unlock();
    }
    return status;
}

weir_status weir_acl_detach(weir_acl_attachment *self)
{
    if (self == NULL || weir__acl_in_child()) {
        return WEIR_OK; /* in a child of fork the attachment stays as it is, like the pool */
    }
    weir__acl_lock();
    const bool in_callback = !weir__acl_callbacks_ended_locked(self);
    const bool is_one = weir__acl_is_attachment_locked(self);
    if (!is_one || in_callback || self->busy) {
        weir__acl_unlock();
        return !is_one ? weir__acl_no_attachment("weir_acl_detach", self)
               : in_callback
                   ? weir_refuse(WEIR_ERR_BUSY, "weir_acl_detach: called in a callback of weir_acl_notify_idle")
                   : weir_refuse(WEIR_ERR_BUSY,
                                 "weir_acl_detach: another thread detaches attachment %p or destroys its stream",
                                 (void *)self);
    }
    self->busy = true;
    weir__acl_unlock();
    return self->is_device ? weir__acl_detach_device(self) : weir__acl_take_off(self);
}

/* --- attachments that end by themselves --- */

static bool is_over(const weir_acl_attachment *self)
{
    WEIR_ASSERT(weir__acl_is_locked());
    WEIR_ASSERT(weir__acl_is_sound(self));
    /* While `end_pending` is set, the runtime may still be destroying the stream. If old_native is NULL, the destroy is
     * over, because a new stream has the handle. */
    return !self->is_held && self->state == GONE && !self->busy && self->registered_on == NULL &&
           (!self->end_pending || self->old_native == NULL) && atomic_load(&self->live) <= 0;
}

/* Retires one attachment for which is_over is true, and returns its pool. Returns NULL if there is none. */
static weir_pool *retire_one_locked(void)
{
    weir_acl_attachment *self = weir__acl_first_locked();
    while (self != NULL && !is_over(self)) {
        self = self->next;
    }
    weir_pool *pool = self != NULL ? atomic_load(&self->pool) : NULL;
    if (self != NULL) {
        weir__acl_retire_locked(self);
    }
    return pool;
}

void weir__acl_sweep(void)
{
    for (weir_pool *pool = NULL;;) {
        weir__acl_lock();
        pool = retire_one_locked();
        weir__acl_unlock();
        if (pool == NULL) {
            return;
        }
        weir__acl_let_go(pool);
    }
}
