/* core/src/device/adaptor_limit.c: limits the bytes that may be taken from a device, by a limit of its own or by one
 * that processes share (weir/shared_limit.h).
 *
 * Idea: a request is admitted before it is passed on, and settled after it returned. In between its bytes count as
 * `asked`, not as `held`, because the device may still refuse.
 *
 * Guarantee, under the lock: held + asked <= limit, always. A request fails with WEIR_ERR_LIMIT only if the held bytes
 * forbid it. A request that would fit without the asked bytes waits until those requests are settled. So a concurrent,
 * smaller request never fails because of a request that is over the limit or that the device refuses. Of a shared
 * limit that holds for the requests of this adaptor: those of other users count as held while their device is asked.
 *
 * Cost: two short locks for a call that takes or returns memory, none for other calls. vm_destroy names a handle
 * without a size, so a hash table keeps the size of each handle.
 */
#include "adaptor_base.h"
#include "shared/assert.h"
#include "shared/number_map.h"
#include "shared/shared_limit.h"

#include <pthread.h>
#include <stdlib.h>

struct limiter {
    weir__adaptor base;
    weir_shared_limit *shared; /* NULL: none */
    weir__limit_member member; /* of the shared limit */
    uint64_t limit_bytes;      /* its own; UINT64_MAX under a shared one */
    pthread_mutex_t lock;      /* guards the members below */
    pthread_cond_t settled;    /* signalled when the device has answered a request, or got memory back */
    uint64_t held_bytes;
    uint64_t asked_bytes;
    weir__number_map sizes; /* sizes by handle */
    size_t promised;        /* entries of `sizes`, plus calls in progress that may each add an entry */
};

/* --- before and after a call to the device --- */

static bool takes_memory(weir_device_call kind)
{
    return kind == WEIR_CALL_REGION_ALLOC || kind == WEIR_CALL_VM_CREATE;
}

/* True if the call takes memory from the device or gives it back. All other calls pass without the lock. */
static bool moves_memory(weir_device_call kind)
{
    return takes_memory(kind) || kind == WEIR_CALL_REGION_FREE || kind == WEIR_CALL_VM_DESTROY;
}

/* Reserves room for one more handle before the device is asked, so that note_handle cannot fail. */
static bool promise_entry(struct limiter *self)
{
    WEIR_ASSERT(self->promised >= self->sizes.count);
    if (!weir__number_map_reserve(&self->sizes, self->promised + 1)) {
        return false;
    }
    self->promised++;
    return true;
}

static void note_handle(struct limiter *self, const weir__adaptor_call *call)
{
    WEIR_ASSERT(call->handle != 0);
    const bool noted = weir__number_map_put(&self->sizes, call->handle, call->size);
    WEIR_ASSERT(noted);
    (void)noted;
}

/* Returns by how many bytes a request is over the limit, if requests that the device has not answered count, and under
 * a shared limit counts it if it fits: 0. */
static uint64_t excess_locked(struct limiter *self, uint64_t size)
{
    WEIR_ASSERT_HELD(&self->lock);
    WEIR_ASSERT(self->held_bytes + self->asked_bytes <= self->limit_bytes);
    const uint64_t room = self->limit_bytes - self->held_bytes - self->asked_bytes;
    uint64_t missing = size > room ? size - room : 0;
    if (self->shared != NULL && weir__shared_limit_take(self->shared, size, &missing)) {
        missing = 0;
    }
    return missing;
}

/* Admits a request or refuses it. Waits while the answer depends on requests that the device has not answered. */
static weir_status admit_locked(struct limiter *self, const weir__adaptor_call *call)
{
    WEIR_ASSERT_HELD(&self->lock);
    const bool is_handle = call->kind == WEIR_CALL_VM_CREATE;
    if (is_handle && !promise_entry(self)) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (uint64_t excess = excess_locked(self, call->size); excess > 0; excess = excess_locked(self, call->size)) {
        if (excess > self->asked_bytes) {
            self->promised -= is_handle;
            return WEIR_ERR_LIMIT;
        }
        pthread_cond_wait(&self->settled, &self->lock);
    }
    self->asked_bytes += call->size;
    return WEIR_OK;
}

static void give_to_shared(struct limiter *self, uint64_t size)
{
    if (self->shared != NULL && size > 0) {
        weir__shared_limit_give(self->shared, size);
    }
}

static void settle_locked(struct limiter *self, const weir__adaptor_call *call, weir_status status)
{
    WEIR_ASSERT_HELD(&self->lock);
    WEIR_ASSERT(self->asked_bytes >= call->size);
    self->asked_bytes -= call->size;
    if (status == WEIR_OK) {
        self->held_bytes += call->size;
    } else {
        give_to_shared(self, call->size);
    }
    if (call->kind == WEIR_CALL_VM_CREATE) {
        if (status == WEIR_OK) {
            note_handle(self, call);
        } else {
            self->promised--;
        }
    }
    pthread_cond_broadcast(&self->settled);
}

/* If a free is larger than the held bytes, its memory cannot have been taken through this adaptor. */
static void give_locked(struct limiter *self, uint64_t size)
{
    WEIR_ASSERT_HELD(&self->lock);
    const uint64_t given = size < self->held_bytes ? size : self->held_bytes;
    self->held_bytes -= given;
    give_to_shared(self, given);
    pthread_cond_broadcast(&self->settled);
}

static void destroyed_locked(struct limiter *self, const weir__adaptor_call *call, weir_status status)
{
    WEIR_ASSERT_HELD(&self->lock);
    WEIR_ASSERT(self->promised != 0 || call->size == 0);
    if (call->size == 0) {
        return;
    }
    if (status == WEIR_OK) {
        self->promised--;
        give_locked(self, call->size);
    } else {
        note_handle(self, call);
    }
}

/* Runs before the call. A vm_destroy removes its handle from the table here: as soon as the device has the handle back,
 * another thread may get the same handle for memory of another size. The room for the entry stays reserved, because the
 * device may refuse the call, and then settle() enters the handle again. */
static weir_status admit(weir__adaptor *adaptor, weir__adaptor_call *call)
{
    struct limiter *const self = (struct limiter *)adaptor;
    weir_status status = WEIR_OK;
    if (!moves_memory(call->kind)) {
        return WEIR_OK;
    }
    pthread_mutex_lock(&self->lock);
    if (takes_memory(call->kind)) {
        status = admit_locked(self, call);
    } else if (call->kind == WEIR_CALL_VM_DESTROY) {
        call->size = weir__number_map_take(&self->sizes, call->handle);
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

static void settle(weir__adaptor *adaptor, const weir__adaptor_call *call, weir_status status)
{
    struct limiter *const self = (struct limiter *)adaptor;
    if (!moves_memory(call->kind)) {
        return;
    }
    pthread_mutex_lock(&self->lock);
    if (takes_memory(call->kind)) {
        settle_locked(self, call, status);
    } else if (call->kind == WEIR_CALL_REGION_FREE && status == WEIR_OK) {
        give_locked(self, call->size);
    } else if (call->kind == WEIR_CALL_VM_DESTROY) {
        destroyed_locked(self, call, status);
    }
    pthread_mutex_unlock(&self->lock);
}

/* --- the adaptor --- */

/* Lowers the capacity to the limit, because a pool plans with the capacity. A limit of 0 cannot be expressed, since a
 * capacity of 0 means "unknown". A shared limit may change, so it is no capacity. */
static void lower_capacity(const weir__adaptor *adaptor, weir_device_info *info)
{
    const struct limiter *const self = (const struct limiter *)adaptor;
    if (self->shared == NULL && (info->capacity_bytes == 0 || self->limit_bytes < info->capacity_bytes)) {
        info->capacity_bytes = self->limit_bytes;
    }
}

/* Tells the room under the limit where that is less than the device's own. */
static void lower_room(weir__adaptor *adaptor, uint64_t *free_bytes, uint64_t *total_bytes)
{
    struct limiter *const self = (struct limiter *)adaptor;
    if (self->shared != NULL) {
        weir__shared_limit_lower(self->shared, free_bytes, total_bytes);
        return;
    }
    pthread_mutex_lock(&self->lock);
    const uint64_t left = self->limit_bytes - self->held_bytes;
    pthread_mutex_unlock(&self->lock);
    if (left < *free_bytes) {
        *free_bytes = left;
        *total_bytes = self->limit_bytes;
    }
}

static void destroy(weir__adaptor *adaptor)
{
    struct limiter *const self = (struct limiter *)adaptor;
    if (self->shared != NULL) {
        give_to_shared(self, self->held_bytes); /* memory that the caller has left behind */
        weir__shared_limit_leave(self->shared, &self->member);
    }
    pthread_cond_destroy(&self->settled);
    pthread_mutex_destroy(&self->lock);
    weir__number_map_fini(&self->sizes);
    free(self);
}

static const weir__adaptor_kind limit_kind = {
    .before = admit,
    .after = settle,
    .facts = lower_capacity,
    .room = lower_room,
    .destroy = destroy,
};

static struct limiter *limiter_new(uint64_t limit_bytes, weir_shared_limit *shared)
{
    struct limiter *const self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    self->limit_bytes = limit_bytes;
    self->shared = shared;
    if (pthread_mutex_init(&self->lock, NULL) != 0) {
        free(self);
        return NULL;
    }
    if (pthread_cond_init(&self->settled, NULL) != 0) {
        pthread_mutex_destroy(&self->lock);
        free(self);
        return NULL;
    }
    if (shared != NULL) {
        weir__shared_limit_join(shared, &self->member);
    }
    return self;
}

static weir_status make_device(uint64_t limit_bytes, weir_shared_limit *shared, weir_device *device,
                               weir_device **limited)
{
    struct limiter *const self = limiter_new(limit_bytes, shared);
    return self != NULL ? weir__adaptor_device(&self->base, &limit_kind, device, limited) : WEIR_ERR_NO_MEMORY;
}

weir_status weir_limit_create(weir_device *device, uint64_t limit_bytes, weir_device **limited)
{
    if (device == NULL || limited == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_limit_create: %s is NULL", device == NULL ? "device" : "limited");
    }
    return make_device(limit_bytes, NULL, device, limited);
}

weir_status weir_limit_create_shared(weir_device *device, weir_shared_limit *limit, weir_device **limited)
{
    if (device == NULL || limit == NULL || limited == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_limit_create_shared: %s is NULL",
                           device == NULL  ? "device"
                           : limit == NULL ? "limit"
                                           : "limited");
    }
    return make_device(UINT64_MAX, limit, device, limited);
}

weir_status weir_limit_held(weir_device *limited, uint64_t *bytes)
{
    struct limiter *const self = (struct limiter *)weir__adaptor_of(limited, &limit_kind);
    if (self == NULL || bytes == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_limit_held: %s",
                           self == NULL ? "the device is not of weir_limit_create or weir_limit_create_shared"
                                        : "bytes is NULL");
    }
    pthread_mutex_lock(&self->lock);
    *bytes = self->held_bytes;
    pthread_mutex_unlock(&self->lock);
    return WEIR_OK;
}
