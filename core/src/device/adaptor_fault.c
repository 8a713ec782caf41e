/* core/src/device/adaptor_fault.c: makes the n-th call to a device fail.
 *
 * Idea: the adaptor counts the calls of the armed kind. It refuses the n-th one before the call reaches the wrapped
 * device, so the device is unchanged, as the device contract requires of a failure.
 * Guarantee: exactly one call fails, however many threads call. A loop over n = 1, 2, 3 ... until weir_fault_state
 * reports that no call was refused has tried every failure of a scenario.
 * Cost: one short lock per call.
 */
#include "adaptor_base.h"

#include <pthread.h>
#include <stdlib.h>

struct faulty_device {
    weir__adaptor base;
    pthread_mutex_t lock; /* guards the members below */
    weir_device_call armed;
    uint64_t strike_at; /* 0: disarmed */
    weir_status status;
    uint64_t calls;
    bool struck;
};

static bool is_armed_for(const struct faulty_device *self, weir_device_call kind)
{
    return self->armed == WEIR_CALL_ANY || self->armed == kind;
}

static weir_status strike(weir__adaptor *adaptor, weir__adaptor_call *call)
{
    struct faulty_device *const self = (struct faulty_device *)adaptor;
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&self->lock);
    if (is_armed_for(self, call->kind)) {
        self->calls++;
        if (self->calls == self->strike_at) {
            self->struck = true;
            status = self->status;
        }
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

static void destroy(weir__adaptor *adaptor)
{
    struct faulty_device *const self = (struct faulty_device *)adaptor;
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static const weir__adaptor_kind fault_kind = {.before = strike, .destroy = destroy};

weir_status weir_fault_create(weir_device *device, weir_device **faulty)
{
    if (device == NULL || faulty == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_fault_create: %s is NULL", device == NULL ? "device" : "faulty");
    }
    struct faulty_device *const self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    self->armed = WEIR_CALL_ANY;
    if (pthread_mutex_init(&self->lock, NULL) != 0) {
        free(self);
        return WEIR_ERR_NO_MEMORY;
    }
    return weir__adaptor_device(&self->base, &fault_kind, device, faulty);
}

weir_status weir_fault_arm(weir_device *faulty, weir_device_call call, uint64_t n, weir_status status)
{
    struct faulty_device *const self = (struct faulty_device *)weir__adaptor_of(faulty, &fault_kind);
    if (self == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_fault_arm: the device is not of weir_fault_create");
    }
    if ((size_t)call > WEIR_CALL_ANY) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_fault_arm: call %d is no weir_device_call", (int)call);
    }
    if (n != 0 && status == WEIR_OK) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_fault_arm: status is WEIR_OK, which is no failure");
    }
    pthread_mutex_lock(&self->lock);
    self->armed = call;
    self->strike_at = n;
    self->status = status;
    self->calls = 0;
    self->struck = false;
    pthread_mutex_unlock(&self->lock);
    return WEIR_OK;
}

weir_status weir_fault_state(weir_device *faulty, uint64_t *calls, bool *struck)
{
    struct faulty_device *const self = (struct faulty_device *)weir__adaptor_of(faulty, &fault_kind);
    if (self == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_fault_state: the device is not of weir_fault_create");
    }
    pthread_mutex_lock(&self->lock);
    if (calls != NULL) {
        *calls = self->calls;
    }
    if (struck != NULL) {
        *struck = self->struck;
    }
    pthread_mutex_unlock(&self->lock);
    return WEIR_OK;
}
