/* core/src/device/adaptor_count.c: counts the calls to a device.
 *
 * Idea: one counter for each kind of call, and one for its failures.
 * Guarantee: every call that passes the argument checks is counted exactly once, from any thread. A reader that runs
 * concurrently with calls sees each counter as of some moment.
 * Cost: one or two relaxed atomic additions per call.
 */
#include "adaptor_base.h"

#include "shared/assert.h"

#include <stdatomic.h>
#include <stdlib.h>

struct counter {
    weir__adaptor base;
    _Atomic uint64_t calls[WEIR_CALL_COUNT];
    _Atomic uint64_t failures[WEIR_CALL_COUNT];
};

static void count(weir__adaptor *adaptor, const weir__adaptor_call *call, weir_status status)
{
    WEIR_ASSERT(call->kind < WEIR_CALL_COUNT);
    struct counter *const self = (struct counter *)adaptor;
    atomic_fetch_add_explicit(&self->calls[call->kind], 1, memory_order_relaxed);
    if (status != WEIR_OK) {
        atomic_fetch_add_explicit(&self->failures[call->kind], 1, memory_order_relaxed);
    }
}

static void destroy(weir__adaptor *adaptor)
{
    free(adaptor);
}

static const weir__adaptor_kind count_kind = {.after = count, .destroy = destroy};

weir_status weir_count_create(weir_device *device, weir_device **counting)
{
    if (device == NULL || counting == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_count_create: %s is NULL", device == NULL ? "device" : "counting");
    }
    struct counter *const self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    return weir__adaptor_device(&self->base, &count_kind, device, counting);
}

weir_status weir_count_get(weir_device *counting, uint64_t *calls, uint64_t *failures)
{
    struct counter *const self = (struct counter *)weir__adaptor_of(counting, &count_kind);
    if (self == NULL || calls == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_count_get: %s",
                           self == NULL ? "the device is not of weir_count_create" : "calls is NULL");
    }
    for (size_t i = 0; i < WEIR_CALL_COUNT; i++) {
        calls[i] = atomic_load_explicit(&self->calls[i], memory_order_relaxed);
        if (failures != NULL) {
            failures[i] = atomic_load_explicit(&self->failures[i], memory_order_relaxed);
        }
    }
    return WEIR_OK;
}
