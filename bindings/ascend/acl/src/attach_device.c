/* bindings/ascend/acl/src/attach_device.c: one attachment for all streams of a device.
 *
 * Idea: the runtime calls back when it has created a stream, before the creating function returns
 * (aclrtRegStreamStateCallback). This callback attaches the pool to the stream as weir_acl_attach would.
 *
 * Guarantee: the creation of a stream never fails because of weir. A stream that could not be attached is counted with
 * the reason. The end of a stream ends its attachment (weir__acl_sweep).
 */
#include "attachment.h"

#include <stdio.h>

static const char attaching[] = "weir_acl_attach_device";

/* --- new streams --- */

/* Returns the attachment of the device with this id, or of any device if `id` is -1. Returns NULL if there is none. */
static weir_acl_attachment *find_locked(int32_t id)
{
    WEIR_ASSERT(weir__acl_is_locked());
    weir_acl_attachment *found = weir__acl_first_locked();
    while (found != NULL && (!found->is_device || (id >= 0 && found->device_id != id))) {
        found = found->next;
    }
    return found;
}

/* Counts a new stream that could not be attached, and keeps the thread's last failure as the reason. */
static void miss_locked(weir_acl_attachment *device)
{
    WEIR_ASSERT(weir__acl_is_locked());
    WEIR_ASSERT(device->is_device);
    const char *why = "";
    (void)weir_acl_error(NULL, &why);
    device->missed++;
    (void)snprintf(device->missed_why, sizeof(device->missed_why), "%s", why);
}

/* Counts a new stream that could not be attached in all attachments of devices: its device is unknown. */
static void miss_of_all(void)
{
    weir__acl_lock();
    for (weir_acl_attachment *one = weir__acl_first_locked(); one != NULL; one = one->next) {
        if (one->is_device) {
            miss_locked(one);
        }
    }
    weir__acl_unlock();
}

/* Attaches the pool of a device's attachment to a new stream of the device. */
static weir_status join(weir_acl_attachment *device, void *native)
{
    WEIR_ASSERT(device->is_device);
    const weir__acl_role role = {.function = attaching, .registers = true, .device = device};
    weir_pool *pool = atomic_load(&device->pool);
    weir_acl_attachment *made = NULL;
    if (weir_acl_device_lost(weir_pool_device(pool))) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: ACL device %d was reset since", attaching, device->device_id);
    }
    return weir__acl_attach(&role, pool, native, &made);
}

static void attach_new(void *native)
{
    weir__acl_place place = {0};
    if (weir__acl_find(attaching, native, &place) != WEIR_OK) {
        miss_of_all();
        return;
    }
    weir__acl_lock();
    weir_acl_attachment *device = find_locked(place.device);
    const bool changing = device != NULL && device->busy;
    if (changing) {
        (void)weir_refuse(WEIR_ERR_BUSY, "%s: another thread was attaching or detaching the device", attaching);
        miss_locked(device);
    } else if (device != NULL) {
        device->joining++;
    }
    weir__acl_unlock();
    if (device == NULL || changing) {
        return;
    }
    const weir_status status = join(device, native);
    if (status != WEIR_OK) {
        weir__acl_forget(atomic_load(&device->pool), native);
    }
    weir__acl_lock();
    WEIR_ASSERT(device->is_device && device->joining > 0);
    device->joining--;
    if (status != WEIR_OK) {
        miss_locked(device);
    }
    weir__acl_unlock();
}

void weir__acl_attach_new_stream(void *native)
{
    weir__acl_sweep();
    weir__acl_lock();
    const bool any = find_locked(-1) != NULL;
    weir__acl_unlock();
    if (any) {
        attach_new(native);
    }
}

/* --- attach --- */

static weir_status check(weir_pool *pool, weir_acl_attachment **attachment, weir__acl_device **acl_device)
{
    if (pool == NULL || attachment == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", attaching, pool == NULL ? "pool" : "attachment");
    }
    *acl_device = weir__acl_device_of(weir_pool_device(pool));
    return *acl_device != NULL
               ? WEIR_OK
               : weir_refuse(WEIR_ERR_INVALID, "%s: the pool's device is not of weir_acl_device_create itself",
                             attaching);
}

/* Makes the attachment of the device and marks it as busy. The caller holds the pool (weir_pool_hold). */
static weir_status begin(weir_pool *pool, int32_t id, weir_acl_attachment **made)
{
    static const weir__acl_role role = {.function = attaching, .is_held = true};
    weir__acl_lock();
    const weir_acl_attachment *other = find_locked(id);
    weir_acl_attachment *self = other == NULL ? weir__acl_begin_locked(pool, NULL, NULL, &role) : NULL;
    if (self != NULL) {
        atomic_store(&self->closed, true); /* it has no stream to serve */
        self->is_device = true;
        self->device_id = id;
        WEIR_ASSERT(self->busy && self->native == NULL);
        self->joining = 0;
        self->missed = 0;
        self->missed_why[0] = '\0';
    }
    weir__acl_unlock();
    *made = self;
    return other != NULL ? weir_refuse(WEIR_ERR_BUSY, "%s: ACL device %d has such an attachment already", attaching, id)
           : self == NULL ? WEIR_ERR_NO_MEMORY
                          : WEIR_OK;
}

static weir_status attach(weir_pool *pool, const weir__acl_device *acl_device, weir_acl_attachment **attachment)
{
    weir_acl_attachment *self = NULL;
    weir_status status = begin(pool, acl_device->id, &self);
    if (status != WEIR_OK) {
        return status;
    }
    status = join(self, acl_device->home_stream);
    weir__acl_lock();
    if (status == WEIR_OK) {
        self->busy = false;
        *attachment = self;
    } else {
        weir__acl_retire_locked(self);
    }
    weir__acl_changed_locked();
    weir__acl_unlock();
    return status;
}

weir_status weir_acl_attach_device(weir_pool *pool, weir_acl_attachment **attachment)
{
    weir__acl_device *acl_device = NULL;
    weir_status status = check(pool, attachment, &acl_device);
    if (status == WEIR_OK) {
        status = weir_pool_hold(pool);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = attach(pool, acl_device, attachment);
    if (status != WEIR_OK) {
        weir__acl_let_go(pool);
    }
    return status;
}

/* --- detach --- */

static weir_acl_attachment *next_of_locked(const weir_acl_attachment *device, weir_acl_attachment *from)
{
    WEIR_ASSERT(weir__acl_is_locked());
    WEIR_ASSERT(device->is_device);
    while (from != NULL && from->device != device) {
        from = from->next;
    }
    return from;
}

/* Undoes close_locked. Every attachment of a stream of the device is still marked busy by this detach, because no
 * stream joins meanwhile. */
static void open_locked(weir_acl_attachment *device)
{
    WEIR_ASSERT(device->busy);
    weir_acl_attachment *one = next_of_locked(device, weir__acl_first_locked());
    for (; one != NULL; one = next_of_locked(device, one->next)) {
        WEIR_ASSERT(one->busy);
        atomic_store(&one->closed, one->state != ATTACHED);
        one->busy = false;
    }
    device->busy = false;
    weir__acl_changed_locked();
}

static bool is_changing_locked(const weir_acl_attachment *device)
{
    WEIR_ASSERT(device->busy && device->state == ATTACHED);
    const weir_acl_attachment *one = next_of_locked(device, weir__acl_first_locked());
    while (one != NULL && !one->busy) {
        one = next_of_locked(device, one->next);
    }
    return device->joining > 0 || one != NULL;
}

/* Closes the attachments of all streams of the device and marks them as busy. Refuses, and changes nothing, if ACL
 * holds blocks or another thread works on a stream. */
static weir_status close_locked(weir_acl_attachment *device)
{
    if (is_changing_locked(device)) {
        device->busy = false;
        return weir_refuse(WEIR_ERR_BUSY,
                           "weir_acl_detach: another thread creates or destroys a stream of ACL device %d",
                           device->device_id);
    }
    weir_acl_attachment *one = next_of_locked(device, weir__acl_first_locked());
    for (; one != NULL; one = next_of_locked(device, one->next)) {
        atomic_store(&one->closed, true);
        one->busy = true;
    }
    const int64_t live = weir__acl_live_locked(device);
    if (live == 0) {
        return WEIR_OK;
    }
    open_locked(device);
    return weir_refuse(WEIR_ERR_BUSY, "weir_acl_detach: ACL holds %lld blocks of the streams of ACL device %d",
                       (long long)live, device->device_id);
}

weir_status weir__acl_detach_device(weir_acl_attachment *self)
{
    WEIR_ASSERT(self->is_device && self->busy);
    weir_pool *pool = atomic_load(&self->pool);
    weir__acl_lock();
    weir_status status = close_locked(self);
    if (status != WEIR_OK) {
        weir__acl_unlock();
        return status;
    }
    weir_acl_attachment *one = NULL;
    while (status == WEIR_OK && (one = next_of_locked(self, weir__acl_first_locked())) != NULL) {
        weir__acl_unlock();
        status = weir__acl_try_take_off(one);
        weir__acl_lock();
    }
    if (status == WEIR_OK) {
        WEIR_ASSERT(self->joining == 0);
        weir__acl_retire_locked(self);
        weir__acl_changed_locked();
    } else {
        open_locked(self);
    }
    weir__acl_unlock();
    if (status == WEIR_OK) {
        weir__acl_let_go(pool);
    }
    return status;
}
