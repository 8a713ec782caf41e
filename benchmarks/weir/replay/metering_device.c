/* metering_device.c: see metering_device.h. Adding a region takes constant time; removing one searches from the newest
 * backwards. */
#include "replay/metering_device.h"

#include "shared/device_calls.h"

#include <stdlib.h>

static void note_added(struct watch *watch, uint64_t address, uint64_t size, bool mapped)
{
    if (watch->region_count == watch->region_capacity) {
        size_t capacity = watch->region_capacity == 0 ? 64 : watch->region_capacity * 2;
        struct replay_region *regions = realloc(watch->regions, capacity * sizeof(*regions));
        if (regions == NULL) {
            watch->failed = true;
            return;
        }
        watch->regions = regions;
        watch->region_capacity = capacity;
    }
    watch->regions[watch->region_count++] = (struct replay_region){address, size, watch->event, -1, mapped};
}

static void note_removed(struct watch *watch, uint64_t address)
{
    for (size_t i = watch->region_count; i-- > 0;) {
        if (watch->regions[i].address == address && watch->regions[i].removed == -1) {
            watch->regions[i].removed = watch->event;
            return;
        }
    }
}

static weir_device *inner(const struct watch *watch)
{
    return weir_sim_device(watch->sim);
}

/* Makes the call and adds its virtual time to the figures. */
#define WATCHED(watch, call)                                                                                           \
    uint64_t began = weir_sim_now((watch)->sim);                                                                       \
    weir_status status = (call);                                                                                       \
    (watch)->calls++;                                                                                                  \
    (watch)->ns += weir_sim_now((watch)->sim) - began

static weir_status get_info(void *ctx, weir_device_info *info)
{
    return weir_device_get_info(inner(ctx), info);
}

static void count_held(struct watch *watch, uint64_t more, uint64_t less)
{
    watch->held_bytes += more;
    watch->held_bytes -= less;
    watch->peak_bytes = watch->held_bytes > watch->peak_bytes ? watch->held_bytes : watch->peak_bytes;
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    struct watch *watch = ctx;
    WATCHED(watch, weir_device_region_alloc(inner(watch), size, address));
    if (status == WEIR_OK) {
        count_held(watch, size, 0);
        if (watch->keep) {
            note_added(watch, *address, size, false);
        }
    }
    return status;
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    struct watch *watch = ctx;
    WATCHED(watch, weir_device_region_free(inner(watch), address, size));
    if (status == WEIR_OK) {
        count_held(watch, 0, size);
        if (watch->keep) {
            note_removed(watch, address);
        }
    }
    return status;
}

/* A handle of the simulator with its size. The pool's handle is the address of this record. */
struct physical {
    weir_vm_handle handle;
    uint64_t size;
};

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    struct watch *watch = ctx;
    struct physical *physical = malloc(sizeof(*physical));
    if (physical == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    physical->size = size;
    WATCHED(watch, weir_device_vm_create(inner(watch), size, &physical->handle));
    if (status == WEIR_OK) {
        count_held(watch, size, 0);
        *handle = (uintptr_t)physical;
    } else {
        free(physical);
    }
    return status;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    struct watch *watch = ctx;
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    WATCHED(watch, weir_device_vm_destroy(inner(watch), physical->handle));
    if (status == WEIR_OK) {
        count_held(watch, 0, physical->size);
        free(physical);
    }
    return status;
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    struct watch *watch = ctx;
    const struct physical *physical = (const struct physical *)(uintptr_t)handle;
    WATCHED(watch, weir_device_vm_map(inner(watch), address, size, physical->handle));
    if (status == WEIR_OK && watch->keep) {
        note_added(watch, address, size, true);
    }
    return status;
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    struct watch *watch = ctx;
    WATCHED(watch, weir_device_vm_unmap(inner(watch), address, size));
    if (status == WEIR_OK && watch->keep) {
        note_removed(watch, address);
    }
    return status;
}

/* The other calls are only counted. */
#define CALL(NAME, slot, n, ...)                                                                                       \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__))                                     \
    {                                                                                                                  \
        struct watch *watch = ctx;                                                                                     \
        WATCHED(watch, weir_device_##slot(inner(watch) WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__)));                   \
        return status;                                                                                                 \
    }
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__), WEIR__TYPE_##result *result)        \
    {                                                                                                                  \
        struct watch *watch = ctx;                                                                                     \
        WATCHED(watch, weir_device_##slot(inner(watch) WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__), result));           \
        return status;                                                                                                 \
    }
GIVING(VM_RESERVE, vm_reserve, address, 1, size)
CALL(VM_RELEASE, vm_release, 2, address, size)
WEIR__ORDERING_CALLS(CALL, GIVING)

#define SLOT(NAME, slot, ...) .slot = slot,

weir_status watch_init(struct watch *watch, weir_sim *sim, bool keep)
{
    static const weir_device_ops ops = {
        .struct_size = sizeof(ops), .get_info = get_info, WEIR__DEVICE_CALLS(SLOT, SLOT)};
    *watch = (struct watch){.sim = sim, .keep = keep, .event = -1};
    return weir_device_create(&ops, watch, &watch->device);
}

void watch_fini(struct watch *watch)
{
    (void)!weir_device_destroy(watch->device); /* cannot fail: its pool is destroyed */
    watch->device = NULL;
    free(watch->regions);
    watch->regions = NULL;
}
