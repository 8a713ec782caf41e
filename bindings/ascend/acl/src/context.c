/* bindings/ascend/acl/src/context.c: the devices of weir_acl_device_create, and the contexts of threads and streams.
 *
 * Idea: ACL's calls act on the context that is current in the calling thread. A call that needs another one stands
 * between weir__acl_bind and weir__acl_unbind.
 *
 * Guarantee: a thread that had a context has the same one afterwards, or, if ACL refuses, after its next call. weir
 * passes to ACL no stream that is known to be gone. It learns of a reset of a device from the end of the device's
 * default stream, which the runtime announces like the end of any other stream.
 *
 * Cost: one aclrtGetDevice, which reads thread-local state, for each bind; two changes of context more if a context of
 * another device is current.
 */
#include "acl_internal.h"

/* Protected by the lock of stream_registry.c. */
static weir__acl_device *all;
static weir__acl_device *unfinished; /* destroyed while ACL did not take everything back */

weir__leftovers weir__acl_left = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A context that could not be restored in this thread, and the one that is current in its place. */
static _Thread_local struct {
    aclrtContext before; /* NULL: none */
    aclrtContext now;    /* NULL: unknown */
} owed;

/* --- devices --- */

void weir__acl_enlist(weir__acl_device *self, const weir_device *device)
{
    WEIR_ASSERT(self->device == NULL && device != NULL);
    weir__acl_lock();
    self->device = device;
    self->next = all;
    all = self;
    weir__acl_unlock();
}

void weir__acl_delist(weir__acl_device *self)
{
    weir__acl_lock();
    weir__acl_device **link = &all;
    while (*link != NULL && *link != self) {
        link = &(*link)->next;
    }
    WEIR_ASSERT(*link == self);
    *link = *link != NULL ? self->next : NULL;
    weir__acl_unlock();
}

void weir__acl_put_unfinished(weir__acl_device *self)
{
    weir__acl_lock();
    self->device = NULL;
    self->next = unfinished;
    unfinished = self;
    weir__acl_unlock();
}

weir__acl_device *weir__acl_take_unfinished(void)
{
    weir__acl_lock();
    weir__acl_device *self = unfinished;
    unfinished = self != NULL ? self->next : NULL;
    weir__acl_unlock();
    return self;
}

weir__acl_device *weir__acl_device_of(const weir_device *device)
{
    weir__acl_lock();
    weir__acl_device *found = all;
    while (found != NULL && found->device != device) {
        found = found->next;
    }
    weir__acl_unlock();
    return found;
}

static void lose_locked(weir__acl_device *list, const void *native)
{
    WEIR_ASSERT(weir__acl_is_locked());
    for (weir__acl_device *one = list; one != NULL; one = one->next) {
        if (one->watched && one->home_stream == native) {
            one->watched = false;
            atomic_store(&one->lost, true);
            weir__acl_next_epoch();
        }
    }
}

/* The caller, stream_watch.c, then removes its note of the stream, so the device is no longer watched. */
void weir__acl_device_loses_stream_locked(const void *native)
{
    lose_locked(all, native);
    lose_locked(unfinished, native);
}

bool weir_acl_device_lost(const weir_device *device)
{
    weir__acl_lock();
    const weir__acl_device *found = all;
    while (found != NULL && found->device != device) {
        found = found->next;
    }
    const bool is = found != NULL && weir__acl_is_lost(found);
    weir__acl_unlock();
    return is;
}

/* --- contexts --- */

weir_status weir__acl_read_current(aclrtContext *context)
{
    aclrtContext current = NULL; /* aclrtGetCurrentContext may leave `current` unchanged when it fails */
    const aclError code = UNCANCELLED(aclrtGetCurrentContext(&current));
    *context = code == ACL_SUCCESS ? current : NULL;
    return code == ACL_ERROR_RT_CONTEXT_NULL ? WEIR_OK : weir__acl_result("aclrtGetCurrentContext", code);
}

aclrtContext weir__acl_current(void)
{
    aclrtContext current = NULL;
    return UNCANCELLED(aclrtGetCurrentContext(&current)) == ACL_SUCCESS ? current : NULL;
}

void weir__acl_restore(aclrtContext before, aclrtContext now)
{
    if (ACL(aclrtSetCurrentContext, before) != WEIR_OK && ACL(aclrtSetCurrentContext, before) != WEIR_OK) {
        owed.before = before;
        owed.now = now;
    }
}

/* Restores the context that an earlier call could not restore, unless the program has chosen another one since. */
static void settle_context(void)
{
    aclrtContext current = NULL;
    if (owed.before == NULL || weir__acl_read_current(&current) != WEIR_OK) {
        return;
    }
    const bool is_chosen = current != NULL && owed.now != NULL && current != owed.now;
    if (is_chosen || ACL(aclrtSetCurrentContext, owed.before) == WEIR_OK) {
        owed.before = NULL;
    }
}

weir_status weir__acl_bind(const weir__acl_device *self, weir__acl_bound *bound)
{
    int32_t id = -1;
    *bound = (weir__acl_bound){0};
    if (weir__acl_is_lost(self)) {
        return weir__acl_result("aclrtSetCurrentContext", ACL_ERROR_RT_CONTEXT_NULL);
    }
    settle_context();
    if (aclrtGetDevice(&id) == ACL_SUCCESS && id == self->id) {
        return WEIR_OK;
    }
    weir_status status = weir__acl_read_current(&bound->before);
    if (status == WEIR_OK) {
        bound->now = self->home;
        status = ACL(aclrtSetCurrentContext, self->home);
        bound->changed = status == WEIR_OK;
    }
    return status;
}

/* A failure to restore the context is not reported: the caller's request was carried out and must not be repeated. */
void weir__acl_unbind(const weir__acl_bound *bound)
{
    if (bound->changed && bound->before != NULL) {
        weir__acl_restore(bound->before, bound->now);
    }
}

void weir__acl_settle(weir__acl_device *self)
{
    (void)weir__leftovers_retry(&self->left, self);
    (void)weir__leftovers_retry(&weir__acl_left, NULL);
}

/* --- the context of a stream --- */

/* The events of a device go with its reset, of which the epoch tells; `address` has the epoch of the note. */
static weir_status destroy_event(void *owner, weir__leftover *left)
{
    (void)owner;
    return left->address != weir_acl_epoch() ? WEIR_OK : ACL(aclrtDestroyEvent, left->event);
}

/* Sets *here to true if the stream belongs to the current context. ACL has no query for this, but refuses (107003) to
 * make a stream of another context wait for an event. This test uses an event that is never recorded, so it queues
 * nothing. */
static weir_status is_here(void *native, bool *here)
{
    aclrtEvent event = NULL;
    weir__leftover *left = weir__leftover_new(destroy_event);
    const weir_status status =
        left != NULL ? ACL(aclrtCreateEventExWithFlag, &event, ACL_EVENT_SYNC) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        free(left);
        return status;
    }
    const aclError code = aclrtStreamWaitEvent(native, event);
    left->event = event;
    left->address = weir_acl_epoch();
    (void)weir__leftovers_give(&weir__acl_left, NULL, left);
    *here = code == ACL_SUCCESS;
    return code == ACL_ERROR_RT_STREAM_CONTEXT ? WEIR_OK : weir__acl_result("aclrtStreamWaitEvent", code);
}

/* Stores the primary context of the i-th ACL device of weir in *home; NULL if the device was reset. Returns false if
 * there are no more than i devices. */
static bool home_at(size_t i, aclrtContext *home)
{
    weir__acl_lock();
    const weir__acl_device *found = all;
    while (found != NULL && i > 0) {
        found = found->next;
        i--;
    }
    *home = found != NULL && !weir__acl_is_lost(found) ? found->home : NULL;
    weir__acl_unlock();
    return found != NULL;
}

/* Finds the context of a stream by trial; WEIR_ERR_INVALID if each context was tried and none is the stream's. Changes
 * the current context from `own` to *now; the caller restores it. */
static weir_status search(void *native, aclrtContext own, weir__acl_place *place, aclrtContext *now)
{
    weir_status untried = WEIR_OK; /* why a context could not be tried */
    bool here = false;
    weir_status status = own != NULL ? is_here(native, &here) : WEIR_OK;
    aclrtContext home = NULL;
    *now = own;
    for (size_t i = 0; status == WEIR_OK && !here && home_at(i, &home); i++) {
        const weir_status changed = home != NULL && home != own ? ACL(aclrtSetCurrentContext, home) : WEIR_OK;
        untried = untried == WEIR_OK ? changed : untried;
        if (home != NULL && home != own && changed == WEIR_OK) {
            *now = home;
            status = is_here(native, &here);
        }
    }
    if (status == WEIR_OK && !here) {
        return untried == WEIR_OK ? WEIR_ERR_INVALID : untried;
    }
    place->context = *now;
    return status == WEIR_OK ? ACL(aclrtGetDevice, &place->device) : status;
}

weir_status weir__acl_find(const char *function, void *native, weir__acl_place *place)
{
    if (weir__acl_noted(native, place)) {
        return WEIR_OK;
    }
    const weir__kept_sentence sentence = weir__sentence_keep();
    aclrtContext own = NULL;
    aclrtContext now = NULL;
    weir_status status = weir__acl_read_current(&own);
    status = status == WEIR_OK ? search(native, own, place, &now) : status;
    if (own != NULL && now != NULL && now != own) {
        weir__acl_restore(own, now);
    }
    if (status == WEIR_OK) {
        weir__sentence_restore(&sentence); /* a context that could not be tried is no failure */
    }
    return status != WEIR_ERR_INVALID
               ? status
               : weir_refuse(
                     status,
                     "%s: stream %p is neither of this thread's current context (%p) nor of its device's primary "
                     "one",
                     function, native, own);
}

/* Changes to the stream's own context, because not every version of the runtime makes this change itself. */
weir_status weir__acl_sync(void *native, aclrtContext context)
{
    if (weir__acl_handle_blocked(native)) {
        return weir__acl_result("aclrtSynchronizeStream", ACL_ERROR_RT_INVALID_HANDLE);
    }
    weir__acl_bound bound = {.now = context};
    if (context != NULL) {
        const weir__kept_sentence sentence = weir__sentence_keep();
        bound.changed = weir__acl_read_current(&bound.before) == WEIR_OK && context != bound.before &&
                        ACL(aclrtSetCurrentContext, context) == WEIR_OK;
        weir__sentence_restore(&sentence); /* if a call failed, the wait runs in the current context */
    }
    const weir_status status = ACL(aclrtSynchronizeStream, native);
    weir__acl_unbind(&bound);
    return status;
}
