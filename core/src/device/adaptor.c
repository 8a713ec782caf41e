/* core/src/device/adaptor.c: the common part of all adaptors: passes calls on.
 *
 * Idea: each slot describes its call, asks the adaptor (`before`), passes the call on to the wrapped device, and shows
 * the result to the adaptor (`after`).
 *
 * Guarantee: a group that the wrapped device lacks is missing in the adaptor too, because there is one table for each
 * combination of groups. The queries get_info, native_error and stream_check are passed on without `before` and
 * `after`.
 *
 * Cost: two more indirect calls than the wrapped device.
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
    return index < sizeof(names) / sizeof(names[0]) ? names[index] : "unknown";
}

/* Makes the call on the wrapped device. */
static weir_status pass_on(weir_device *inner, weir__adaptor_call *call)
{
    switch (call->kind) {
    case WEIR_CALL_REGION_ALLOC:
        return weir_device_region_alloc(inner, call->size, &call->address);
    case WEIR_CALL_REGION_FREE:
        return weir_device_region_free(inner, call->address, call->size);
    case WEIR_CALL_VM_RESERVE:
        return weir_device_vm_reserve(inner, call->size, &call->address);
    case WEIR_CALL_VM_RELEASE:
        return weir_device_vm_release(inner, call->address, call->size);
    case WEIR_CALL_VM_CREATE:
        return weir_device_vm_create(inner, call->size, &call->handle);
    case WEIR_CALL_VM_DESTROY:
        return weir_device_vm_destroy(inner, call->handle);
    case WEIR_CALL_VM_MAP:
        return weir_device_vm_map(inner, call->address, call->size, call->handle);
    case WEIR_CALL_VM_UNMAP:
        return weir_device_vm_unmap(inner, call->address, call->size);
    case WEIR_CALL_EVENT_CREATE:
        return weir_device_event_create(inner, &call->event);
    case WEIR_CALL_EVENT_DESTROY:
        return weir_device_event_destroy(inner, call->event);
    case WEIR_CALL_EVENT_RECORD:
        return weir_device_event_record(inner, call->event, call->native_stream);
    case WEIR_CALL_EVENT_QUERY:
        return weir_device_event_query(inner, call->event, &call->complete);
    case WEIR_CALL_EVENT_SYNC:
        return weir_device_event_sync(inner, call->event);
    case WEIR_CALL_STREAM_WAIT_EVENT:
        return weir_device_stream_wait_event(inner, call->native_stream, call->event);
    case WEIR_CALL_STREAM_SYNC:
        return weir_device_stream_sync(inner, call->native_stream);
    case WEIR_CALL_COUNT:
        break;
    }
    return WEIR_ERR_INTERNAL;
}

static weir_status run(weir__adaptor *adaptor, weir__adaptor_call *call)
{
    weir_status status = adaptor->kind->before != NULL ? adaptor->kind->before(adaptor, call) : WEIR_OK;
    if (status != WEIR_OK) {
        return status;
    }
    status = pass_on(adaptor->inner, call);
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

/* Defines a slot for a call that returns only a status: its parameters after ctx, and the members of the call that they
 * set. */
#define SLOT(slot, name, parameters, ...)                                                                              \
    static weir_status slot parameters                                                                                 \
    {                                                                                                                  \
        weir__adaptor_call call = {.kind = WEIR_CALL_##name, __VA_ARGS__};                                             \
        return run(ctx, &call);                                                                                        \
    }

SLOT(region_free, REGION_FREE, (void *ctx, uint64_t address, uint64_t size), .address = address, .size = size)
SLOT(vm_release, VM_RELEASE, (void *ctx, uint64_t address, uint64_t size), .address = address, .size = size)
SLOT(vm_destroy, VM_DESTROY, (void *ctx, weir_vm_handle handle), .handle = handle)
SLOT(vm_map, VM_MAP, (void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle), .address = address,
     .size = size, .handle = handle)
SLOT(vm_unmap, VM_UNMAP, (void *ctx, uint64_t address, uint64_t size), .address = address, .size = size)
SLOT(event_destroy, EVENT_DESTROY, (void *ctx, weir_event *event), .event = event)
SLOT(event_record, EVENT_RECORD, (void *ctx, weir_event *event, void *stream), .event = event, .native_stream = stream)
SLOT(event_sync, EVENT_SYNC, (void *ctx, weir_event *event), .event = event)
SLOT(stream_wait_event, STREAM_WAIT_EVENT, (void *ctx, void *stream, weir_event *event), .event = event,
     .native_stream = stream)
SLOT(stream_sync, STREAM_SYNC, (void *ctx, void *stream), .native_stream = stream)

/* Defines a slot for a call that also returns `member`, which is valid after success only. */
#define GIVING_SLOT(slot, name, parameters, result, member, ...)                                                       \
    static weir_status slot parameters                                                                                 \
    {                                                                                                                  \
        weir__adaptor_call call = {.kind = WEIR_CALL_##name, __VA_ARGS__};                                             \
        const weir_status status = run(ctx, &call);                                                                    \
        *result = call.member;                                                                                         \
        return status;                                                                                                 \
    }

GIVING_SLOT(region_alloc, REGION_ALLOC, (void *ctx, uint64_t size, uint64_t *address), address, address, .size = size)
GIVING_SLOT(vm_reserve, VM_RESERVE, (void *ctx, uint64_t size, uint64_t *address), address, address, .size = size)
GIVING_SLOT(vm_create, VM_CREATE, (void *ctx, uint64_t size, weir_vm_handle *handle), handle, handle, .size = size)
GIVING_SLOT(event_create, EVENT_CREATE, (void *ctx, weir_event **event), event, event, .event = NULL)
GIVING_SLOT(event_query, EVENT_QUERY, (void *ctx, weir_event *event, bool *complete), complete, complete,
            .event = event)

/* --- the tables --- */

#define BASE_SLOTS                                                                                                     \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .region_alloc = region_alloc,                        \
    .region_free = region_free, .native_error = native_error, .destroy = destroy, .stream_check = stream_check

#define VM_SLOTS                                                                                                       \
    .vm_reserve = vm_reserve, .vm_release = vm_release, .vm_create = vm_create, .vm_destroy = vm_destroy,              \
    .vm_map = vm_map, .vm_unmap = vm_unmap

#define ORDERING_SLOTS                                                                                                 \
    .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record,                        \
    .event_query = event_query, .event_sync = event_sync, .stream_wait_event = stream_wait_event,                      \
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

weir_status weir__adaptor_device(weir__adaptor *adaptor, const weir__adaptor_kind *kind, weir_device *inner,
                                 weir_device **device)
{
    adaptor->kind = kind;
    adaptor->inner = inner;
    const weir_status status = weir_device_create(table_for(inner), adaptor, device);
    if (status == WEIR_OK) {
        (void)!weir_device_hold(inner);
    } else {
        kind->destroy(adaptor);
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
