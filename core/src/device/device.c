/* core/src/device/device.c: a device is a table of functions and a context.
 *
 * Idea: creation decides everything that can be decided once: it checks that groups of slots are complete, fills
 * optional slots, and copies the fixed facts. Each weir_device_* function checks its arguments and that the device has
 * the group of the slot, then makes one indirect call, during which the thread cannot be cancelled.
 *
 * Guarantee: an out-parameter is untouched if a call fails, even if the backend wrote to it. A backend never sees a
 * NULL out-parameter, a size of zero or a size off its granularity. The memory that an ended pool could not return is
 * tried again at each call for memory; a device is not destroyed while some of it is left.
 *
 * A table may come from an older header (struct_size is smaller: the slots it lacks are missing slots) or from a newer
 * one (slots that this library does not know must be NULL). */
#include "device_internal.h"
#include "shared/assert.h"
#include "shared/cancel.h"
#include "shared/device_calls.h"
#include "shared/hold.h"
#include "shared/leftovers.h"
#include "shared/round_up.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

struct weir_device {
    weir_device_ops ops;            /* all functions of an absent group are NULL; no other function is */
    const weir_device_ops *made_of; /* the backend's own function table, which identifies the kind of device */
    void *ctx;
    weir_device_info info;
    weir__leftovers left; /* memory and events of ended pools */
    atomic_uint holds;    /* pools and adaptors that use the device, and explicit holds */
    pid_t process;
};

/* --- defaults for missing optional functions --- */

static weir_status no_native_error(void *ctx, int64_t *code, const char **text)
{
    (void)ctx;
    *code = 0;
    *text = "";
    return WEIR_OK;
}

static void no_destroy(void *ctx)
{
    (void)ctx;
}

static weir_status no_stream_check(void *ctx, void *native_stream)
{
    (void)ctx, (void)native_stream;
    return WEIR_OK;
}

static weir_status no_stream_capture(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg),
                                     void *arg)
{
    (void)ctx, (void)native_stream, (void)gone, (void)arg;
    *capture = 0;
    return WEIR_OK;
}

static weir_status no_memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    (void)ctx, (void)free_bytes, (void)total_bytes;
    return WEIR_ERR_UNSUPPORTED;
}

static weir_status no_copy(void *ctx, const weir_copy *copies, size_t count)
{
    (void)ctx, (void)copies, (void)count;
    return WEIR_ERR_UNSUPPORTED;
}

/* --- creation --- */

/* True if a group of functions is set completely or not at all. */
static bool is_whole(int set, int slots)
{
    return set == 0 || set == slots;
}

#define IS_SET(NAME, slot, ...) +(ops->slot != NULL)

static int vm_slots_set(const weir_device_ops *ops)
{
    return WEIR__VM_CALLS(IS_SET, IS_SET);
}

static int ordering_slots_set(const weir_device_ops *ops)
{
    return WEIR__ORDERING_CALLS(IS_SET, IS_SET);
}

static bool has_required_slots(const weir_device_ops *ops)
{
    return ops->get_info != NULL && ops->region_alloc != NULL && ops->region_free != NULL;
}

static bool has_whole_groups(const weir_device_ops *ops)
{
    return is_whole(vm_slots_set(ops), 6) && is_whole(ordering_slots_set(ops), 7);
}

static uint32_t abilities_of(const weir_device_ops *ops)
{
    WEIR_ASSERT(has_whole_groups(ops));
    return (ops->event_create != NULL ? (uint32_t)WEIR_DEVICE_ORDERED : 0) |
           (ops->vm_reserve != NULL ? (uint32_t)WEIR_DEVICE_VIRTUAL_MEMORY : 0);
}

static void fill_missing(weir_device_ops *ops)
{
    WEIR_ASSERT(ops->get_info != NULL);
    if (ops->native_error == NULL) {
        ops->native_error = no_native_error;
    }
    if (ops->destroy == NULL) {
        ops->destroy = no_destroy;
    }
    if (ops->stream_check == NULL) {
        ops->stream_check = no_stream_check;
    }
    if (ops->stream_capture == NULL) {
        ops->stream_capture = no_stream_capture;
    }
    if (ops->memory_info == NULL) {
        ops->memory_info = no_memory_info;
    }
    if (ops->copy == NULL) {
        ops->copy = no_copy;
    }
}

/* Checks the properties that get_info returned. The abilities must name exactly the groups that are set: the memory of
 * a device that is wrongly taken for synchronous would be reused while work is running. */
static weir_status check_facts(const weir_device_info *info, uint32_t abilities)
{
    if (!is_power_of_two(info->region_granularity_bytes) || !is_power_of_two(info->region_alignment_bytes)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_device_create: get_info's region_granularity_bytes %" PRIu64
                           " and region_alignment_bytes %" PRIu64 " must be powers of two",
                           info->region_granularity_bytes, info->region_alignment_bytes);
    }
    if ((info->abilities & ~(uint32_t)WEIR_DEVICE_PAGEWISE) != abilities) {
        return weir_refuse(
            WEIR_ERR_INVALID,
            "weir_device_create: get_info's abilities 0x%x do not match the groups of slots that are set, 0x%x",
            (unsigned)info->abilities, (unsigned)abilities);
    }
    if ((abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0 && !is_power_of_two(info->page_bytes)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_device_create: get_info's page_bytes %" PRIu64 " must be a power of two",
                           info->page_bytes);
    }
    return WEIR_OK;
}

/* Gets the device's properties from the backend and stores them in `info`, with the name terminated. */
static weir_status copy_facts(const weir_device_ops *ops, void *ctx, weir_device_info *info)
{
    weir_device_info facts = WEIR_DEVICE_INFO_INIT;
    facts.host_numa_node = -1;
    const weir_status status = UNCANCELLED(ops->get_info(ctx, &facts));
    if (status != WEIR_OK) {
        return status;
    }
    const uint32_t abilities = abilities_of(ops);
    facts.struct_size = sizeof(facts);
    facts.name[sizeof(facts.name) - 1] = '\0';
    if ((abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0) {
        facts.page_bytes = 0;
    }
    *info = facts;
    return check_facts(&facts, abilities);
}

weir_status weir_device_create(const weir_device_ops *ops, void *ctx, weir_device **device)
{
    if (ops == NULL || device == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_create: %s is NULL", ops == NULL ? "ops" : "device");
    }
    weir_device made = {.made_of = ops, .ctx = ctx, .process = getpid()};
    weir_status status = weir_struct_adopt(&made.ops, sizeof(made.ops), ops, "weir_device_create: ops");
    if (status != WEIR_OK) {
        return status;
    }
    if (!has_required_slots(&made.ops)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_device_create: ops lacks a required slot: get_info, region_alloc or region_free");
    }
    if (!has_whole_groups(&made.ops)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_device_create: ops sets the group of %s in part; set all its slots or none",
                           is_whole(vm_slots_set(&made.ops), 6) ? "ordering" : "virtual memory");
    }
    status = copy_facts(&made.ops, ctx, &made.info);
    if (status != WEIR_OK) {
        return status;
    }
    fill_missing(&made.ops);
    weir_device *const copy = malloc(sizeof(*copy));
    if (copy == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    *copy = made;
    (void)pthread_mutex_init(&copy->left.lock, NULL);
    *device = copy;
    return WEIR_OK;
}

/* --- what could not be given back --- */

static weir_status retry_left(weir_device *device)
{
    const int cancel_state = cancel_disable();
    const weir_status status = weir__leftovers_retry(&device->left, device);
    cancel_restore(cancel_state);
    return status;
}

static weir_status give_back(weir_device *device, weir__leftover *what)
{
    weir__leftover *left = weir__leftover_new(what->give);
    if (left != NULL) {
        *left = *what;
        return weir__device_give_back(device, left);
    }
    /* no host memory for a note */
    const int cancel_state = cancel_disable();
    weir_status status = what->give(device, what);
    status = status == WEIR_OK ? status : what->give(device, what);
    cancel_restore(cancel_state);
    return status;
}

weir_status weir__device_give_back(weir_device *device, weir__leftover *left)
{
    const int cancel_state = cancel_disable();
    const weir_status status = weir__leftovers_give(&device->left, device, left);
    cancel_restore(cancel_state);
    return status;
}

static weir_status free_region(void *owner, weir__leftover *left)
{
    const weir_device *device = owner;
    return device->ops.region_free(device->ctx, left->address, left->size);
}

weir_status weir__device_return_region(weir_device *device, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    return give_back(device, &(weir__leftover){.give = free_region, .address = address, .size = size});
}

static weir_status unmap(void *owner, weir__leftover *left)
{
    const weir_device *device = owner;
    return device->ops.vm_unmap(device->ctx, left->address, left->size);
}

weir_status weir__device_return_mapping(weir_device *device, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    WEIR_ASSERT(size != 0 && handle != 0);
    return give_back(device, &(weir__leftover){.give = unmap, .address = address, .size = size, .handle = handle});
}

static weir_status destroy_memory(void *owner, weir__leftover *left)
{
    const weir_device *device = owner;
    return device->ops.vm_destroy(device->ctx, left->handle);
}

weir_status weir__device_return_memory(weir_device *device, weir_vm_handle handle)
{
    WEIR_ASSERT(handle != 0);
    return give_back(device, &(weir__leftover){.give = destroy_memory, .handle = handle});
}

static weir_status release_addresses(void *owner, weir__leftover *left)
{
    const weir_device *device = owner;
    return device->ops.vm_release(device->ctx, left->address, left->size);
}

weir_status weir__device_return_addresses(weir_device *device, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    return give_back(device, &(weir__leftover){.give = release_addresses, .address = address, .size = size});
}

static weir_status destroy_event(void *owner, weir__leftover *left)
{
    const weir_device *device = owner;
    return device->ops.event_destroy(device->ctx, left->event);
}

weir_status weir__device_return_event(weir_device *device, weir_event *event)
{
    WEIR_ASSERT(event != NULL);
    return give_back(device, &(weir__leftover){.give = destroy_event, .event = event});
}

/* Waits for the stream. If that fails while the device makes an event, the stream is broken, and no work of it runs any
 * more: there is nothing to wait for, except for the event's end. */
static weir_status sync_stream(void *owner, weir__leftover *left)
{
    const weir_device *device = owner;
    if (left->event == NULL) {
        const weir_status status = device->ops.stream_sync(device->ctx, left->object);
        if (status == WEIR_OK || device->ops.event_create(device->ctx, &left->event) != WEIR_OK) {
            return status;
        }
        (void)!device->ops.stream_sync(device->ctx, left->object); /* an outage may have ended in between */
    }
    return device->ops.event_destroy(device->ctx, left->event);
}

/* The note is about all addresses, so every later note about addresses waits for it. */
weir_status weir__device_await_stream(weir_device *device, void *native_stream)
{
    WEIR_ASSERT(device->ops.stream_sync != NULL);
    const weir_status status = weir_device_stream_sync(device, native_stream);
    if (status != WEIR_OK) {
        weir__leftover stream = {.give = sync_stream, .size = UINT64_MAX, .object = native_stream};
        (void)!give_back(device, &stream);
    }
    return status;
}

/* --- destruction --- */

weir_status weir_device_destroy(weir_device *device)
{
    if (device == NULL || device->process != getpid()) {
        return WEIR_OK; /* a child of fork leaves the device as it is: core/README.md, Fork */
    }
    const unsigned holds = atomic_load_explicit(&device->holds, memory_order_acquire);
    if (holds != 0) {
        return weir_refuse(WEIR_ERR_BUSY,
                           "weir_device_destroy: device \"%s\" is held %u times, by pools or adaptors that stand on it",
                           device->info.name, holds);
    }
    const weir_status left = retry_left(device);
    if (left != WEIR_OK) {
        return weir_refuse(left,
                           "weir_device_destroy: device \"%s\" has not taken back all memory and events of a pool that "
                           "was destroyed; a later call tries again",
                           device->info.name);
    }
    const int cancel_state = cancel_disable();
    device->ops.destroy(device->ctx);
    cancel_restore(cancel_state);
    weir__leftovers_fini(&device->left);
    free(device);
    return WEIR_OK;
}

weir_status weir_device_hold(weir_device *device)
{
    if (device == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_hold: device is NULL");
    }
    (void)atomic_fetch_add_explicit(&device->holds, 1, memory_order_relaxed);
    return WEIR_OK;
}

weir_status weir_device_release(weir_device *device)
{
    if (device == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_release: device is NULL");
    }
    if (!weir__release_hold(&device->holds)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_release: device \"%s\" is not held", device->info.name);
    }
    return WEIR_OK;
}

/* --- facts and diagnosis --- */

void *weir__device_context(const weir_device *device, const weir_device_ops *ops)
{
    return device != NULL && device->made_of == ops ? device->ctx : NULL;
}

const weir_device_info *weir__device_info(const weir_device *device)
{
    WEIR_ASSERT(device != NULL);
    return &device->info;
}

weir_status weir_device_get_info(const weir_device *device, weir_device_info *info)
{
    if (device == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_get_info: device is NULL");
    }
    return weir_struct_report(info, &device->info, sizeof(device->info), "weir_device_get_info: info");
}

weir_status weir_device_error(weir_device *device, int64_t *code, const char **text)
{
    if (device == NULL || code == NULL || text == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_error: %s is NULL",
                           device == NULL ? "device"
                           : code == NULL ? "code"
                                          : "text");
    }
    int64_t found_code = 0;
    const char *found_text = "";
    const weir_status status = UNCANCELLED(device->ops.native_error(device->ctx, &found_code, &found_text));
    if (status == WEIR_OK) {
        *code = found_code;
        *text = found_text != NULL ? found_text : "";
    }
    return status;
}

/* --- the calls --- */

/* Checks that the device has the function and that the size of the call is valid. `wrong`, if not NULL, is the text of
 * a refusal for another bad argument. `size` is NULL for a call without a size. A call for memory, which may block,
 * also tries to give back what is left of earlier pools. */
static weir_status check(weir_device *device, const char *function, weir_device_call call, const char *wrong,
                         const uint64_t *size)
{
    WEIR_ASSERT(call < WEIR_CALL_COUNT);
    if (device == NULL || wrong != NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s", function, device == NULL ? "device is NULL" : wrong);
    }
    const bool is_region = call <= WEIR_CALL_REGION_FREE;
    if (call == WEIR_CALL_COPY) {
        return WEIR_OK;
    }
    if (call >= WEIR_CALL_EVENT_CREATE && device->ops.event_create == NULL) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "%s: the device has no streams and events; it is synchronous",
                           function);
    }
    if (!is_region && call < WEIR_CALL_EVENT_CREATE && device->ops.vm_reserve == NULL && (size == NULL || *size != 0)) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED, "%s: the device has no virtual memory", function);
    }
    const uint64_t unit = is_region ? device->info.region_granularity_bytes : device->info.page_bytes;
    if (size != NULL && (*size == 0 || (*size & (unit - 1)) != 0)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "%s: size %" PRIu64 " is not a multiple, above 0, of the device's %s %" PRIu64, function,
                           *size, is_region ? "region_granularity_bytes" : "page_bytes", unit);
    }
    if (call < WEIR_CALL_EVENT_CREATE) {
        (void)!retry_left(device);
    }
    return WEIR_OK;
}

/* The check of each argument of a device call. */
#define CHECK(word) CHECK_##word
#define CHECK_address
#define CHECK_native_stream
#define CHECK_size sized = &size;
#define CHECK_handle wrong = handle == 0 ? "handle is 0" : wrong;
#define CHECK_copies wrong = copies == NULL ? "copies is NULL" : wrong;
#define CHECK_count
#define CHECK_event wrong = event == NULL ? "event is NULL" : wrong;

/* Defines weir_device_SLOT. */
#define CALL(NAME, slot, n, ...)                                                                                       \
    weir_status weir_device_##slot(weir_device *device WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__))                    \
    {                                                                                                                  \
        const char *wrong = NULL;                                                                                      \
        const uint64_t *sized = NULL;                                                                                  \
        WEIR__EACH(n, CHECK, __VA_ARGS__)                                                                              \
        const weir_status status = check(device, "weir_device_" #slot, WEIR_CALL_##NAME, wrong, sized);                \
        return status != WEIR_OK                                                                                       \
                   ? status                                                                                            \
                   : UNCANCELLED(device->ops.slot(device->ctx WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__)));            \
    }

#define GIVING(NAME, slot, result, n, ...)                                                                             \
    weir_status weir_device_##slot(weir_device *device WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__),                    \
                                   WEIR__TYPE_##result *result)                                                        \
    {                                                                                                                  \
        const char *wrong = result == NULL ? #result " is NULL" : NULL;                                                \
        const uint64_t *sized = NULL;                                                                                  \
        WEIR__EACH(n, CHECK, __VA_ARGS__)                                                                              \
        WEIR__TYPE_##result given = 0;                                                                                 \
        weir_status status = check(device, "weir_device_" #slot, WEIR_CALL_##NAME, wrong, sized);                      \
        if (status == WEIR_OK) {                                                                                       \
            status = UNCANCELLED(device->ops.slot(device->ctx WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__), &given));    \
        }                                                                                                              \
        if (status == WEIR_OK) {                                                                                       \
            *result = given;                                                                                           \
        }                                                                                                              \
        return status;                                                                                                 \
    }

WEIR__DEVICE_CALLS(CALL, GIVING)
#undef CALL
#undef GIVING

weir_status weir_device_stream_check(weir_device *device, void *native_stream)
{
    if (device == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_stream_check: device is NULL");
    }
    return device->ops.stream_check(device->ctx, native_stream);
}

weir_status weir_device_stream_capture(weir_device *device, void *native_stream, uint64_t *capture,
                                       void (*gone)(void *arg), void *arg)
{
    if (device == NULL || capture == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_stream_capture: %s is NULL",
                           device == NULL ? "device" : "capture");
    }
    uint64_t given = 0;
    const weir_status status = UNCANCELLED(device->ops.stream_capture(device->ctx, native_stream, &given, gone, arg));
    *capture = given;
    return status;
}

weir_status weir_device_memory_info(weir_device *device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    if (device == NULL || free_bytes == NULL || total_bytes == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_memory_info: %s is NULL",
                           device == NULL       ? "device"
                           : free_bytes == NULL ? "free_bytes"
                                                : "total_bytes");
    }
    uint64_t left = 0;
    uint64_t total = 0;
    const weir_status status = UNCANCELLED(device->ops.memory_info(device->ctx, &left, &total));
    if (status == WEIR_OK) {
        *free_bytes = left;
        *total_bytes = total;
    }
    return status;
}

bool weir__device_captures(const weir_device *device)
{
    return device->ops.stream_capture != no_stream_capture;
}
