/* core/src/device/adaptor.c: the part that every adaptor shares: passing calls on.
 *
 * Idea: each slot describes its call, asks the adaptor (`before`), passes the call on to the
 * wrapped device, and shows the result to the adaptor (`after`).
 *
 * Guarantee: a group that the wrapped device lacks is lacking in the adaptor too, because there is
 * one table for each combination of groups. Calls that only ask (get_info, native_error,
 * stream_check) go through unseen.
 *
 * Cost: two indirect calls more than the wrapped device.
 */
#include "adaptor_base.h"

#include "device_internal.h"

const char *weir_device_call_name(weir_device_call call)
{
    static const char *const names[] = {
#define CALL_NAME(name, slot) [WEIR_CALL_##name] = #slot,
        WEIR_DEVICE_CALL_LIST(CALL_NAME)
#undef CALL_NAME
            [WEIR_CALL_ANY] = "any",
    };
    const size_t index = (size_t)call;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}

static weir_status before(weir__adaptor *adaptor, weir__adaptor_call *call)
{
    return adaptor->kind->before != NULL ? adaptor->kind->before(adaptor, call) : WEIR_OK;
}

static weir_status after(weir__adaptor *adaptor, const weir__adaptor_call *call, weir_status status)
{
    if (adaptor->kind->after != NULL) {
        adaptor->kind->after(adaptor, call, status);
    }
    return status;
}

/* --- the slots --- */

static weir_status get_info(void *ctx, weir_device_info *info)
{
    weir__adaptor *const adaptor = ctx;
    const weir_status status = weir_device_get_info(adaptor->inner, info);
    if (status == WEIR_OK && adaptor->kind->facts != NULL) {
        adaptor->kind->facts(adaptor, info);
    }
    return status;
}

static weir_status native_error(void *ctx, int64_t *code, const char **text)
{
    const weir__adaptor *const adaptor = ctx;
    return weir_device_error(adaptor->inner, code, text);
}

static weir_status stream_check(void *ctx, void *native_stream)
{
    const weir__adaptor *const adaptor = ctx;
    return weir_device_stream_check(adaptor->inner, native_stream);
}

static void destroy(void *ctx)
{
    weir__adaptor *const adaptor = ctx;
    (void)!weir_device_release(adaptor->inner);
    adaptor->kind->destroy(adaptor);
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_REGION_ALLOC, .size = size};
    weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    status = weir_device_region_alloc(adaptor->inner, size, &call.address);
    *address = call.address;
    return after(adaptor, &call, status);
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {
        .kind = WEIR_CALL_REGION_FREE, .address = address, .size = size};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_region_free(adaptor->inner, address, size));
}

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_VM_RESERVE, .size = size};
    weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    status = weir_device_vm_reserve(adaptor->inner, size, &call.address);
    *address = call.address;
    return after(adaptor, &call, status);
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {
        .kind = WEIR_CALL_VM_RELEASE, .address = address, .size = size};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_vm_release(adaptor->inner, address, size));
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_VM_CREATE, .size = size};
    weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    status = weir_device_vm_create(adaptor->inner, size, &call.handle);
    *handle = call.handle;
    return after(adaptor, &call, status);
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_VM_DESTROY, .handle = handle};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_vm_destroy(adaptor->inner, handle));
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {
        .kind = WEIR_CALL_VM_MAP, .address = address, .size = size, .handle = handle};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_vm_map(adaptor->inner, address, size, handle));
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_VM_UNMAP, .address = address, .size = size};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_vm_unmap(adaptor->inner, address, size));
}

static weir_status event_create(void *ctx, weir_event **event)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_EVENT_CREATE};
    weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    status = weir_device_event_create(adaptor->inner, &call.event);
    *event = call.event;
    return after(adaptor, &call, status);
}

static weir_status event_destroy(void *ctx, weir_event *event)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_EVENT_DESTROY, .event = event};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_event_destroy(adaptor->inner, event));
}

static weir_status event_record(void *ctx, weir_event *event, void *native_stream)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {
        .kind = WEIR_CALL_EVENT_RECORD, .event = event, .native_stream = native_stream};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_event_record(adaptor->inner, event, native_stream));
}

static weir_status event_query(void *ctx, weir_event *event, bool *complete)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_EVENT_QUERY, .event = event};
    weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    status = weir_device_event_query(adaptor->inner, event, &call.complete);
    *complete = call.complete;
    return after(adaptor, &call, status);
}

static weir_status event_sync(void *ctx, weir_event *event)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {.kind = WEIR_CALL_EVENT_SYNC, .event = event};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_event_sync(adaptor->inner, event));
}

static weir_status stream_wait_event(void *ctx, void *native_stream, weir_event *event)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {
        .kind = WEIR_CALL_STREAM_WAIT_EVENT, .event = event, .native_stream = native_stream};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call,
                 weir_device_stream_wait_event(adaptor->inner, native_stream, event));
}

static weir_status stream_sync(void *ctx, void *native_stream)
{
    weir__adaptor *const adaptor = ctx;
    weir__adaptor_call call = {
        .kind = WEIR_CALL_STREAM_SYNC, .native_stream = native_stream};
    const weir_status status = before(adaptor, &call);
    if (status != WEIR_OK) {
        return status;
    }
    return after(adaptor, &call, weir_device_stream_sync(adaptor->inner, native_stream));
}

/* --- the tables --- */

#define BASE_SLOTS                                                                                 \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .region_alloc = region_alloc,    \
    .region_free = region_free, .native_error = native_error, .destroy = destroy,     \
    .stream_check = stream_check

#define VM_SLOTS                                                                                   \
    .vm_reserve = vm_reserve, .vm_release = vm_release, .vm_create = vm_create,                    \
    .vm_destroy = vm_destroy, .vm_map = vm_map, .vm_unmap = vm_unmap

#define ORDERING_SLOTS                                                                             \
    .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record,    \
    .event_query = event_query, .event_sync = event_sync, .stream_wait_event = stream_wait_event,  \
    .stream_sync = stream_sync

/* Indexed by the abilities of the wrapped device. */
static const weir_device_ops tables[] = {
    [0] = {BASE_SLOTS},
    [WEIR_DEVICE_ORDERED] = {BASE_SLOTS, ORDERING_SLOTS},
    [WEIR_DEVICE_VIRTUAL_MEMORY] = {BASE_SLOTS, VM_SLOTS},
    [WEIR_DEVICE_ORDERED | WEIR_DEVICE_VIRTUAL_MEMORY] = {BASE_SLOTS, ORDERING_SLOTS, VM_SLOTS},
};

static const weir_device_ops *table_for(const weir_device *device)
{
    return &tables[weir__device_info(device)->abilities];
}

weir_status weir__adaptor_device(weir__adaptor *adaptor, weir_device **device)
{
    const weir_status status = weir_device_create(table_for(adaptor->inner), adaptor, device);
    if (status == WEIR_OK) {
        (void)!weir_device_hold(adaptor->inner);
    }
    return status;
}

weir__adaptor *weir__adaptor_of(const weir_device *device, const weir__adaptor_kind *kind)
{
    if (device == NULL) {
        return NULL;
    }
    weir__adaptor *const adaptor = weir__device_context(device, table_for(device));
    return adaptor != NULL && adaptor->kind == kind ? adaptor : NULL;
}
