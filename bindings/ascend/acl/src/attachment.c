/* bindings/ascend/acl/src/attachment.c: the records of all attachments, in two lists.
 *
 * Guarantee: the memory of an attachment is never freed, but used again after 64 later attachments were detached. So an
 * executor that kept the object calls into valid memory and gets NULL, and a second detach of the same handle is
 * recognised.
 */
#include "attachment.h"

#include <stdlib.h>

#define RETIRED_KEPT 64u

/* Every attachment ever made is in one of two lists. `retired` is a queue in the order of detaching: the oldest is used
 * again first. */
static weir_acl_attachment *in_use;
static weir_acl_attachment *retired;
static weir_acl_attachment **retired_end = &retired;
static size_t retired_count;
static _Atomic unsigned idle_callbacks; /* attachments in use that have a callback */

/* --- the list --- */

weir_acl_attachment *weir__acl_attached_to_locked(const void *native)
{
    WEIR_ASSERT(weir__acl_is_locked());
    weir_acl_attachment *found = in_use;
    while (found != NULL && (found->state != ATTACHED || found->native != native)) {
        found = found->next;
    }
    return found;
}

bool weir__acl_is_taken_locked(const void *native, bool registers, const weir_pool *pool)
{
    WEIR_ASSERT(weir__acl_is_locked());
    for (weir_acl_attachment *other = in_use; other != NULL; other = other->next) {
        if (other->state == ATTACHED && other->native == native &&
            ((registers && other->registers) || atomic_load(&other->pool) == pool)) {
            return true;
        }
    }
    return false;
}

weir_acl_attachment *weir__acl_first_locked(void)
{
    WEIR_ASSERT(weir__acl_is_locked());
    return in_use;
}

bool weir__acl_is_attachment_locked(const weir_acl_attachment *self)
{
    WEIR_ASSERT(weir__acl_is_locked());
    const weir_acl_attachment *found = in_use;
    while (found != NULL && found != self) {
        found = found->next;
    }
    return found != NULL;
}

weir_status weir__acl_no_attachment(const char *function, const void *handle)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: %p is no attachment, or was detached before", function, handle);
}

void weir__acl_stream_created_locked(void *native)
{
    WEIR_ASSERT(weir__acl_is_locked());
    for (weir_acl_attachment *other = in_use; other != NULL; other = other->next) {
        if (other->old_native == native) {
            other->old_native = NULL;
        }
    }
}

/* --- begin and end --- */

static weir_acl_attachment *take_unused(void)
{
    WEIR_ASSERT((retired == NULL) == (retired_count == 0));
    if (retired_count <= RETIRED_KEPT) {
        return calloc(1, sizeof(weir_acl_attachment));
    }
    weir_acl_attachment *oldest = retired;
    WEIR_ASSERT(oldest->state == DETACHED);
    retired = oldest->next;
    retired_count--;
    return oldest;
}

weir_acl_attachment *weir__acl_begin_locked(weir_pool *pool, weir_stream *stream, void *native,
                                            const weir__acl_role *role)
{
    WEIR_ASSERT(weir__acl_is_locked());
    WEIR_ASSERT(role->device == NULL || role->device->is_device);
    weir_acl_attachment *self = take_unused();
    if (self == NULL) {
        return NULL;
    }
    WEIR_ASSERT(self->idle == NULL && self->idle_calls == 0);
    atomic_store(&self->pool, pool);
    atomic_store(&self->stream, stream);
    atomic_store(&self->live, 0);
    atomic_store(&self->requests, 0);
    atomic_store(&self->failures, 0);
    atomic_store(&self->refused_frees, 0);
    self->state = ATTACHED;
    self->busy = true;
    self->registers = role->registers;
    self->is_held = role->is_held;
    self->is_device = false;
    self->device = role->device;
    self->watched = false;
    self->native = native;
    self->old_native = NULL;
    self->context = NULL;
    self->end_pending = false;
    self->registered_on = NULL;
    self->workspace = NULL;
    self->idle = NULL;
    self->next = in_use;
    in_use = self;
    atomic_store(&self->closed, false);
    return self;
}

static void add_to_device(const weir_acl_attachment *self)
{
    WEIR_ASSERT(self->device->is_device && atomic_load(&self->device->pool) == atomic_load(&self->pool));
    weir_acl_attachment *device = self->device;
    (void)atomic_fetch_add(&device->requests, atomic_load(&self->requests));
    (void)atomic_fetch_add(&device->failures, atomic_load(&self->failures));
    (void)atomic_fetch_add(&device->refused_frees, atomic_load(&self->refused_frees));
}

void weir__acl_retire_locked(weir_acl_attachment *self)
{
    WEIR_ASSERT(weir__acl_is_locked());
    WEIR_ASSERT(weir__acl_is_sound(self) && self->state != DETACHED);
    WEIR_ASSERT(self->workspace == NULL && self->idle_calls == 0);
    weir_acl_attachment **link = &in_use;
    while (*link != self) {
        link = &(*link)->next;
    }
    *link = self->next;
    if (self->device != NULL) {
        add_to_device(self);
    }
    weir__acl_set_idle_locked(self, NULL, NULL);
    atomic_store(&self->closed, true);
    atomic_store(&self->pool, NULL);
    atomic_store(&self->stream, NULL);
    self->state = DETACHED;
    self->busy = false;
    self->device = NULL;
    self->native = NULL;
    self->old_native = NULL;
    self->next = NULL;
    *retired_end = self;
    retired_end = &self->next;
    retired_count++;
}

void weir__acl_let_go(weir_pool *pool)
{
    const weir_status status = weir_pool_release(pool);
    (void)status; /* the release of a held pool cannot fail */
}

/* --- blocks --- */

int64_t weir__acl_live_locked(const weir_acl_attachment *self)
{
    WEIR_ASSERT(weir__acl_is_locked());
    int64_t live = 0;
    if (!self->is_device) {
        live = atomic_load(&self->live);
        return live > 0 ? live : 0;
    }
    for (const weir_acl_attachment *one = in_use; one != NULL; one = one->next) {
        live += one->device == self ? weir__acl_live_locked(one) : 0;
    }
    return live;
}

void weir__acl_free_workspace(weir_acl_attachment *self)
{
    WEIR_ASSERT(self->busy && self->state == ATTACHED);
    if (self->workspace != NULL) {
        const weir_status status =
            weir_pool_free(atomic_load(&self->pool), self->workspace, atomic_load(&self->stream));
        (void)status; /* the block is live, and of this pool */
        self->workspace = NULL;
    }
}

/* --- idle callbacks --- */

void weir__acl_set_idle_locked(weir_acl_attachment *self, weir_acl_idle_callback callback, void *ctx)
{
    WEIR_ASSERT(weir__acl_is_locked());
    (void)atomic_fetch_sub(&idle_callbacks, self->idle != NULL);
    self->idle = callback;
    self->idle_ctx = ctx;
    (void)atomic_fetch_add(&idle_callbacks, callback != NULL);
}

bool weir__acl_any_idle_callback(void)
{
    return atomic_load(&idle_callbacks) != 0;
}
