/* context.c: devices and contexts.
 *
 * aclrtSetDevice brings a device into use. The calls are counted, and the device gets one default context for all
 * threads. The current context belongs to the thread. The generation of a context's slot tells the thread's own context
 * from a later context at the same address.
 */
#include "runtime.h"

#include "report.h"

#include <string.h>

static weir__sim_slab slab;
static bool slab_ready;
static acl__context *first_context;

static _Thread_local struct {
    acl__context *context;
    uint32_t generation;
} current;

static void make_current(acl__context *context)
{
    current.context = context;
    current.generation = context != NULL ? context->generation : 0;
}

acl__context *acl__context_current(void)
{
    acl__context *context = current.context;
    return context != NULL && context->live && context->generation == current.generation ? context : NULL;
}

aclError acl__context_need(acl__context **context)
{
    *context = acl__context_current();
    return *context != NULL
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_RT_CONTEXT_NULL,
                           "this thread has no context: call aclrtSetDevice or aclrtSetCurrentContext first");
}

bool acl__context_is(const void *handle)
{
    return handle != NULL && slab_ready && weir__sim_slab_owns(&slab, handle) && ((const acl__context *)handle)->live;
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
    if (!slab_ready) {
        weir__sim_slab_init(&slab, sizeof(acl__context), 16);
        slab_ready = true;
    }
    acl__context *context = weir__sim_slab_get(&slab);
    if (context == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a context");
    }
    const uint32_t generation = context->generation + 1;
    memset(context, 0, sizeof(*context));
    context->generation = generation;
    context->device = device;
    context->live = true;
    const aclError error = acl__stream_create(context, 0, 0, &context->default_stream);
    if (error != ACL_SUCCESS) {
        context->live = false;
        weir__sim_slab_put(&slab, context);
        return error;
    }
    context->next = first_context;
    if (first_context != NULL) {
        first_context->previous = context;
    }
    first_context = context;
    *out = context;
    return ACL_SUCCESS;
}

/* Ends a context. Releases the lock while stream callbacks run. */
static void context_end(acl__context *context, bool force)
{
    context->live = false;
    acl__streams_end_of(context, force);
    if (context->previous != NULL) {
        context->previous->next = context->next;
    } else {
        first_context = context->next;
    }
    if (context->next != NULL) {
        context->next->previous = context->previous;
    }
    weir__sim_slab_put(&slab, context);
}

ACL_EXPORT aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    ACL_ENTER(aclrtCreateContext);
    if (context == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtCreateContext: context is NULL");
    }
    acl__context *made = NULL;
    acl__lock();
    aclError error = device_is_good(deviceId);
    if (error == ACL_SUCCESS) {
        error = context_create(deviceId, &made);
    }
    if (error == ACL_SUCCESS) {
        make_current(made);
        *context = made;
    }
    acl__unlock();
    if (error == ACL_SUCCESS) {
        acl__stream_announce_created(made->default_stream);
    }
    return error;
}

static bool is_default(const acl__context *context)
{
    return acl__rt.devices[context->device].default_context == context;
}

ACL_EXPORT aclError aclrtDestroyContext(aclrtContext context)
{
    ACL_ENTER(aclrtDestroyContext);
    if (context == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtDestroyContext: context is NULL");
    }
    acl__lock();
    aclError error = ACL_SUCCESS;
    if (!acl__context_is(context)) {
        error = acl__fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtDestroyContext: not a live context");
    } else if (is_default(context)) {
        error = acl__fail(ACL_ERROR_RT_CONTEXT_NULL,
                          "aclrtDestroyContext: a device's default context ends with aclrtResetDevice");
    } else {
        context_end(context, false);
    }
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtSetCurrentContext(aclrtContext context)
{
    ACL_ENTER(aclrtSetCurrentContext);
    if (context == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtSetCurrentContext: context is NULL");
    }
    acl__lock();
    aclError error = ACL_SUCCESS;
    if (acl__context_is(context)) {
        make_current(context);
    } else {
        error = acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSetCurrentContext: not a live context");
    }
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtGetCurrentContext(aclrtContext *context)
{
    ACL_ENTER(aclrtGetCurrentContext);
    if (context == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtGetCurrentContext: context is NULL");
    }
    acl__context *now = NULL;
    acl__lock();
    const aclError error = acl__context_need(&now);
    acl__unlock();
    *context = now; /* NULL on failure as well: clients check the variable rather than the code */
    return error;
}

ACL_EXPORT aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream)
{
    ACL_ENTER(aclrtCtxGetCurrentDefaultStream);
    if (stream == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtCtxGetCurrentDefaultStream: stream is NULL");
    }
    acl__context *now = NULL;
    acl__lock();
    const aclError error = acl__context_need(&now);
    if (error == ACL_SUCCESS) {
        *stream = now->default_stream;
    }
    acl__unlock();
    return error;
}

/* --- devices --- */

ACL_EXPORT aclError aclrtSetDevice(int32_t deviceId)
{
    ACL_ENTER(aclrtSetDevice);
    acl__stream *created = NULL;
    acl__lock();
    aclError error = device_is_good(deviceId);
    if (error == ACL_SUCCESS) {
        acl__device *device = &acl__rt.devices[deviceId];
        if (device->default_context == NULL) {
            error = context_create(deviceId, &device->default_context);
            created = error == ACL_SUCCESS ? device->default_context->default_stream : NULL;
        }
        if (error == ACL_SUCCESS) {
            device->references++;
            make_current(device->default_context);
        }
    }
    acl__unlock();
    if (created != NULL) {
        acl__stream_announce_created(created);
    }
    return error;
}

static aclError never_set(int32_t device)
{
    return acl__fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "device %d is not set, or was reset already", device);
}

static void end_default_context(acl__device *device, bool force)
{
    acl__context *context = device->default_context;
    device->references = 0;
    if (context != NULL) {
        device->default_context = NULL;
        context_end(context, force);
    }
}

ACL_EXPORT aclError aclrtResetDevice(int32_t deviceId)
{
    ACL_ENTER(aclrtResetDevice);
    acl__lock();
    aclError error = device_is_good(deviceId);
    if (error == ACL_SUCCESS) {
        acl__device *device = &acl__rt.devices[deviceId];
        if (device->references == 0) {
            error = never_set(deviceId);
        } else if (device->references > 1) {
            device->references--;
        } else {
            end_default_context(device, false);
        }
    }
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtResetDeviceForce(int32_t deviceId)
{
    ACL_ENTER(aclrtResetDeviceForce);
    acl__lock();
    aclError error = device_is_good(deviceId);
    if (error == ACL_SUCCESS && acl__rt.devices[deviceId].references == 0) {
        error = never_set(deviceId);
    }
    if (error == ACL_SUCCESS) {
        end_default_context(&acl__rt.devices[deviceId], true);
        for (acl__context *context = first_context; context != NULL;) {
            if (context->live && context->device == deviceId) {
                context_end(context, true);
                context = first_context; /* restart: the lock was released meanwhile */
            } else {
                context = context->next;
            }
        }
        acl__notify_reset(deviceId);
        acl__soma_reset(deviceId);
        acl__virtual_reset(deviceId);
        acl__memory_reset(deviceId);
    }
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtGetDevice(int32_t *deviceId)
{
    ACL_ENTER(aclrtGetDevice);
    if (deviceId == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDevice: deviceId is NULL");
    }
    acl__context *now = NULL;
    acl__lock();
    const aclError error = acl__context_need(&now);
    if (error == ACL_SUCCESS) {
        *deviceId = now->device;
    }
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtGetDeviceCount(uint32_t *count)
{
    ACL_ENTER(aclrtGetDeviceCount);
    if (count == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtGetDeviceCount: count is NULL");
    }
    *count = acl__rt.config.devices;
    return ACL_SUCCESS;
}

static aclError synchronize_device(int32_t timeout)
{
    acl__context *now = NULL;
    acl__lock();
    aclError error = acl__context_need(&now);
    if (error == ACL_SUCCESS) {
        error = acl__device_wait(now->device, timeout);
    }
    acl__unlock();
    acl__exceptions_settle();
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
    if (timeout < -1 || timeout == 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtSynchronizeDeviceWithTimeout: %d ms is no timeout", timeout);
    }
    return synchronize_device(timeout);
}
