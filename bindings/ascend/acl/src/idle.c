/* bindings/ascend/acl/src/idle.c: the callback that tells a program that ACL holds no block of an attachment.
 *
 * Guarantee: a callback is called once, and not after weir_acl_detach has returned WEIR_OK. weir_acl_notify_idle raises
 * the number of callbacks (attachment.c) and then reads the counts of blocks; the thread that gives back the last block
 * lowers its count and then reads the number of callbacks. So one of the two sees the other.
 *
 * Cost: one load for a free that leaves its attachment without a block.
 */
#include "attachment.h"

static _Thread_local unsigned depth; /* number of idle callbacks running in this thread */

/* Finds an attachment that is idle and has a callback. */
static weir_acl_attachment *find_locked(void)
{
    WEIR_ASSERT(weir__acl_is_locked());
    weir_acl_attachment *found = weir__acl_first_locked();
    while (found != NULL && (found->idle == NULL || weir__acl_live_locked(found) > 0)) {
        found = found->next;
    }
    return found;
}

/* Calls the callback of one idle attachment. Returns false if no idle attachment has a callback. */
static bool call_one(void)
{
    weir__acl_lock();
    weir_acl_attachment *self = find_locked();
    if (self == NULL) {
        weir__acl_unlock();
        return false;
    }
    WEIR_ASSERT(self->idle != NULL);
    const weir_acl_idle_callback callback = self->idle;
    void *const ctx = self->idle_ctx;
    weir__acl_set_idle_locked(self, NULL, NULL);
    self->idle_calls++;
    weir__acl_unlock();

    const int cancel = cancel_disable();
    depth++;
    callback(ctx, self);
    WEIR_ASSERT(depth > 0);
    depth--;
    cancel_restore(cancel);

    weir__acl_lock();
    WEIR_ASSERT(self->idle_calls > 0);
    self->idle_calls--;
    weir__acl_changed_locked();
    weir__acl_unlock();
    return true;
}

void weir__acl_became_idle(void)
{
    while (weir__acl_any_idle_callback() && call_one()) {
    }
}

bool weir__acl_callbacks_ended_locked(const weir_acl_attachment *self)
{
    WEIR_ASSERT(weir__acl_is_locked());
    while (depth == 0 && weir__acl_is_attachment_locked(self) && self->idle_calls > 0) {
        weir__acl_wait_locked();
    }
    return depth == 0;
}

weir_status weir_acl_notify_idle(weir_acl_attachment *self, weir_acl_idle_callback callback, void *ctx)
{
    if (self == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_acl_notify_idle: attachment is NULL");
    }
    weir__acl_lock();
    const bool is_one = weir__acl_is_attachment_locked(self);
    if (is_one) {
        weir__acl_set_idle_locked(self, callback, ctx);
    }
    weir__acl_unlock();
    if (!is_one) {
        return weir__acl_no_attachment("weir_acl_notify_idle", self);
    }
    weir__acl_became_idle();
    return WEIR_OK;
}
