/* core/src/device/adaptor.c: the common part of all adaptors: passes calls on.
 *
 * Idea: each slot describes its call, asks the adaptor (`before`), passes the call on to the wrapped device, and shows
 * the result to the adaptor (`after`).
 *
 * Guarantee: a group that the wrapped device lacks is missing in the adaptor too, because there is one table for each
 * combination of groups. The queries get_info, native_error, stream_check, stream_capture and memory_info are passed on
 * without `before` and `after`.
 *
 * Cost: two more indirect calls than the wrapped device.
 */
#include "adaptor_base.h"

#include "device_internal.h"
#include "shared/assert.h"
#include "shared/device_calls.h"

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
#define MEMBER(word) , call->word
#define CALL(NAME, slot, n, ...)                                                                                       \
    case WEIR_CALL_##NAME:                                                                                             \
        return weir_device_##slot(inner WEIR__EACH(n, MEMBER, __VA_ARGS__));
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    case WEIR_CALL_##NAME:                                                                                             \
        return weir_device_##slot(inner WEIR__EACH(n, MEMBER, __VA_ARGS__), &call->result);
    switch (call->kind) {
        WEIR__DEVICE_CALLS(CALL, GIVING)
    case WEIR_CALL_COUNT:
        break;
    }
#undef CALL
#undef GIVING
    return WEIR_ERR_INTERNAL;
}

static weir_status run(weir__adaptor *adaptor, weir__adaptor_call *call)
{
    WEIR_ASSERT(call->kind < WEIR_CALL_COUNT);
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

static weir_status stream_capture(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg), void *arg)
{
    const weir__adaptor *const adaptor = ctx;
    return weir_device_stream_capture(adaptor->inner, native_stream, capture, gone, arg);
}

static weir_status memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    weir__adaptor *const adaptor = ctx;
    const weir_status status = weir_device_memory_info(adaptor->inner, free_bytes, total_bytes);
    if (status == WEIR_OK && adaptor->kind->room != NULL) {
        adaptor->kind->room(adaptor, free_bytes, total_bytes);
    }
    return status;
}

static void destroy(void *ctx)
{
    weir__adaptor *const adaptor = ctx;
    (void)!weir_device_release(adaptor->inner);
    adaptor->kind->destroy(adaptor);
}

/* Defines an adaptor's function for each call of a device. `result` is valid after success only. */
#define SET(word) , .word = word
#define CALL(NAME, slot, n, ...)                                                                                       \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__))                                     \
    {                                                                                                                  \
        weir__adaptor_call call = {.kind = WEIR_CALL_##NAME WEIR__EACH(n, SET, __VA_ARGS__)};                          \
        return run(ctx, &call);                                                                                        \
    }
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__), WEIR__TYPE_##result *result)        \
    {                                                                                                                  \
        weir__adaptor_call call = {.kind = WEIR_CALL_##NAME WEIR__EACH(n, SET, __VA_ARGS__)};                          \
        const weir_status status = run(ctx, &call);                                                                    \
        *result = call.result;                                                                                         \
        return status;                                                                                                 \
    }
WEIR__DEVICE_CALLS(CALL, GIVING)
#undef CALL
#undef GIVING

/* --- the tables --- */

#define SLOT(NAME, slot, ...) .slot = slot,
#define BASE_SLOTS                                                                                                     \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .native_error = native_error, .destroy = destroy,    \
    .stream_check = stream_check, .memory_info = memory_info,                                                          \
    WEIR__REGION_CALLS(SLOT, SLOT) WEIR__COPY_CALLS(SLOT, SLOT)
#define VM_SLOTS WEIR__VM_CALLS(SLOT, SLOT)
#define ORDERING_SLOTS WEIR__ORDERING_CALLS(SLOT, SLOT)

enum { GROUPS = WEIR_DEVICE_ORDERED | WEIR_DEVICE_VIRTUAL_MEMORY, CAPTURES = GROUPS + 1 };

/* The function tables of adaptors, indexed by the groups of functions that the wrapped device has, and CAPTURES if its
 * streams can be captured. */
static const weir_device_ops tables[] = {
    [0] = {BASE_SLOTS},
    [WEIR_DEVICE_ORDERED] = {BASE_SLOTS ORDERING_SLOTS},
    [WEIR_DEVICE_VIRTUAL_MEMORY] = {BASE_SLOTS VM_SLOTS},
    [GROUPS] = {BASE_SLOTS ORDERING_SLOTS VM_SLOTS},
    [CAPTURES] = {BASE_SLOTS.stream_capture = stream_capture},
    [CAPTURES | WEIR_DEVICE_ORDERED] = {BASE_SLOTS ORDERING_SLOTS.stream_capture = stream_capture},
    [CAPTURES | WEIR_DEVICE_VIRTUAL_MEMORY] = {BASE_SLOTS VM_SLOTS.stream_capture = stream_capture},
    [CAPTURES | GROUPS] = {BASE_SLOTS ORDERING_SLOTS VM_SLOTS.stream_capture = stream_capture},
};

static const weir_device_ops *table_for(const weir_device *device)
{
    return &tables[(weir__device_info(device)->abilities & GROUPS) | (weir__device_captures(device) ? CAPTURES : 0)];
}

weir_status weir__adaptor_device(weir__adaptor *adaptor, const weir__adaptor_kind *kind, weir_device *inner,
                                 weir_device **device)
{
    WEIR_ASSERT(kind->destroy != NULL && inner != NULL);
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
