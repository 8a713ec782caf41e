/* device.c: devices and contexts. aclrtSetDevice brings a device into use. The calls are counted, and the device gets
 * one default context for all threads. */
#include "process/process.h"

#include <string.h>

static weir__slab slab = WEIR__SLAB_INIT(acl__context, 0, 16);
static acl__context *first_context;

bool acl__context_is(const void *handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return handle != NULL && weir__slab_owns(&slab, handle) && ((const acl__context *)handle)->live;
}

static aclError device_is_good(int32_t device)
{
    return device >= 0 && (uint32_t)device < acl__rt.config.devices
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_INVALID_DEVICEID, "there is no device %d, only %u", device,
                           acl__rt.config.devices);
}

/* --- contexts --- */

static aclError context_create(int32_t device, acl__context **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(device >= 0 && (uint32_t)device < acl__rt.config.devices);
    ACL_FAIL_IF(!acl__runtime_memory_take(&acl__rt.devices[device]), ACL_ERROR_RT_MEMORY_ALLOCATION,
                "device %d has no %llu bytes left for the runtime's own memory", device,
                (unsigned long long)acl__rt.config.runtime_bytes);
    acl__context *context = weir__slab_get(&slab);
    ACL_FAIL_IF(context == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a context");
    const uint32_t generation = context->generation + 1;
    memset(context, 0, sizeof(*context));
    context->generation = generation;
    context->device = device;
    context->live = true;
    const aclError error = acl__stream_create(context, 0, 0, &context->default_stream);
    if (error != ACL_SUCCESS) {
        context->live = false;
        weir__slab_put(&slab, context);
        return error;
    }
    ACL_LIST_ADD(first_context, context);
    WEIR_ASSERT(context->default_stream->context == context);
    *out = context;
    return ACL_SUCCESS;
}

/* Ends a context. Releases the lock while stream callbacks run. */
static void context_end(acl__context *context, bool force)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(context->default_stream != NULL);
    context->live = false;
    acl__streams_end_of(context, force);
    ACL_LIST_REMOVE(first_context, context);
    weir__slab_retire(&slab, context, acl__rt.config.handle_rest);
}

ACL_EXPORT aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    ACL_ENTER(aclrtCreateContext);
    ACL_NEED(context);
    acl__context *made = NULL;
    {
        ACL_HOLD_LOCK();
        ACL_TRY(device_is_good(deviceId));
        ACL_TRY(context_create(deviceId, &made));
    }
    /* As in the vendor's runtime, the program's callbacks hear of the stream before the new context is current. */
    acl__stream_announce_created(made->default_stream);
    ACL_HOLD_LOCK();
    acl__context_make_current(made);
    *context = made;
    return ACL_SUCCESS;
}

static bool is_default(const acl__context *context)
{
    WEIR_ASSERT_HELD(acl__mutex());
    return acl__rt.devices[context->device].default_context == context;
}

ACL_EXPORT aclError aclrtDestroyContext(aclrtContext context)
{
    ACL_ENTER_LOCKED(aclrtDestroyContext);
    ACL_NEED(context);
    ACL_REFUSE_IF(!acl__context_is(context), ACL_ERROR_RT_CONTEXT_NULL, "not a live context");
    ACL_REFUSE_IF(is_default(context), ACL_ERROR_RT_CONTEXT_NULL,
                  "a device's default context ends with aclrtResetDevice");
    context_end(context, false);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtSetCurrentContext(aclrtContext context)
{
    ACL_ENTER_LOCKED(aclrtSetCurrentContext);
    ACL_NEED(context);
    ACL_REFUSE_IF(!acl__context_is(context), ACL_ERROR_RT_PARAM_INVALID, "not a live context");
    acl__context_make_current(context);
    return ACL_SUCCESS;
}

/* --- devices --- */

static aclError default_context_create(int32_t device, acl__context **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__context *made = NULL;
    ACL_TRY(context_create(device, &made));
    const aclError error = acl__stream_create_alias(made, &made->alias);
    if (error != ACL_SUCCESS) {
        context_end(made, true);
        return error;
    }
    *out = made;
    return ACL_SUCCESS;
}

static acl__listener *listeners;

ACL_EXPORT aclError aclrtRegDeviceStateCallback(const char *regName, aclrtDeviceStateCallback callback, void *args)
{
    ACL_ENTER_LOCKED(aclrtRegDeviceStateCallback);
    ACL_REFUSE_IF(regName == NULL, ACL_ERROR_INVALID_PARAM, "the name is NULL");
    return acl__listener_set(&listeners, regName, (acl__listener_call){(void (*)(void))callback, args});
}

/* Calls the user's state callbacks of devices. The lock is not held. */
static void announce(int32_t device, aclrtDeviceState state)
{
    acl__listener_call calls[ACL__LISTENERS];
    const size_t count = acl__listeners_copy(&listeners, calls);
    for (size_t i = 0; i < count; i++) {
        ((aclrtDeviceStateCallback)calls[i].function)(device, state, calls[i].args);
    }
}

static aclError is_in_use(int32_t device, bool *in_use)
{
    ACL_HOLD_LOCK();
    ACL_TRY(device_is_good(device));
    *in_use = acl__rt.devices[device].default_context != NULL;
    return ACL_SUCCESS;
}

/* Calls the program's state callbacks: with SET_PRE before a device comes into use, and with SET_POST at the end of
 * every successful call. */
ACL_EXPORT aclError aclrtSetDevice(int32_t deviceId)
{
    ACL_ENTER(aclrtSetDevice);
    acl__context *home = NULL;
    bool was_in_use = false;
    bool is_new = false;
    ACL_TRY(is_in_use(deviceId, &was_in_use));
    if (!was_in_use) {
        announce(deviceId, ACL_RT_DEVICE_STATE_SET_PRE);
    }
    {
        ACL_HOLD_LOCK();
        acl__device *device = &acl__rt.devices[deviceId];
        is_new = device->default_context == NULL;
        if (is_new) {
            ACL_TRY(default_context_create(deviceId, &device->default_context));
        }
        device->references++;
        home = device->default_context;
    }
    if (is_new) {
        acl__stream_announce_created(home->default_stream);
        acl__stream_announce_created(home->alias);
    }
    {
        ACL_HOLD_LOCK();
        acl__context_make_current(home);
    }
    announce(deviceId, ACL_RT_DEVICE_STATE_SET_POST);
    return ACL_SUCCESS;
}

static aclError check_is_set(int32_t device)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_TRY(device_is_good(device));
    ACL_FAIL_IF(acl__rt.devices[device].references == 0, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
                "device %d is not set, or was reset already", device);
    return ACL_SUCCESS;
}

static void end_default_context(acl__device *device, bool force)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__context *context = device->default_context;
    device->references = 0;
    if (context != NULL) {
        device->default_context = NULL;
        acl__runtime_memory_give(device);
        context_end(context, force);
    }
}

/* Calls the program's state callbacks; the lock is released meanwhile. */
static void announce_reset(int32_t device, aclrtDeviceState state)
{
    acl__unlock();
    announce(device, state);
    acl__lock();
}

/* Drops one use of the device, a call of aclrtSetDevice. If it is the last use, keeps it and sets *is_last. */
static aclError end_use(int32_t device, bool *is_last)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_TRY(check_is_set(device));
    *is_last = acl__rt.devices[device].references == 1;
    acl__rt.devices[device].references -= !*is_last;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtResetDevice(int32_t deviceId)
{
    ACL_ENTER_LOCKED(aclrtResetDevice);
    bool is_last = false;
    ACL_TRY(end_use(deviceId, &is_last));
    if (is_last) {
        announce_reset(deviceId, ACL_RT_DEVICE_STATE_RESET_PRE);
        ACL_TRY(end_use(deviceId, &is_last)); /* the callbacks may have set or reset the device: look again */
    }
    if (is_last) {
        end_default_context(&acl__rt.devices[deviceId], false);
        acl__memory_return(deviceId);
        announce_reset(deviceId, ACL_RT_DEVICE_STATE_RESET_POST);
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtResetDeviceForce(int32_t deviceId)
{
    ACL_ENTER_LOCKED(aclrtResetDeviceForce);
    ACL_TRY(check_is_set(deviceId));
    announce_reset(deviceId, ACL_RT_DEVICE_STATE_RESET_PRE);
    end_default_context(&acl__rt.devices[deviceId], true);
    for (acl__context *context = first_context; context != NULL;) {
        if (context->live && context->device == deviceId) {
            context_end(context, true);
            context = first_context; /* start again: the list may have changed while the lock was released */
        } else {
            context = context->next;
        }
    }
    acl__notify_reset(deviceId);
    acl__mem_pool_reset(deviceId);
    acl__virtual_reset(deviceId);
    acl__memory_reset(deviceId);
    acl__memory_return(deviceId);
    announce_reset(deviceId, ACL_RT_DEVICE_STATE_RESET_POST);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtGetDeviceCount(uint32_t *count)
{
    ACL_ENTER(aclrtGetDeviceCount);
    ACL_NEED(count);
    *count = acl__rt.config.devices;
    return ACL_SUCCESS;
}

static aclError wait_locked(int32_t timeout)
{
    ACL_HOLD_LOCK();
    ACL_NEED_CONTEXT(now);
    for (const acl__stream *stream = acl__rt.first_stream; stream != NULL; stream = stream->next) {
        ACL_TRY(stream->context == now ? acl__stream_check_free(stream) : ACL_SUCCESS);
    }
    return acl__device_wait(now->device, timeout);
}

static aclError synchronize_device(int32_t timeout)
{
    const aclError error = wait_locked(timeout);
    acl__exceptions_report();
    return error;
}

ACL_EXPORT aclError aclrtSynchronizeDevice(void)
{
    ACL_ENTER(aclrtSynchronizeDevice);
    return synchronize_device(-1);
}

ACL_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    ACL_ENTER(aclrtSynchronizeDeviceWithTimeout);
    ACL_REFUSE_IF(timeout < -1 || timeout == 0, ACL_ERROR_RT_PARAM_INVALID, "%d ms is no timeout", timeout);
    return synchronize_device(timeout);
}
