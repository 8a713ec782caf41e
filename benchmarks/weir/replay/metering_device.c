/* metering_device.c: see metering_device.h. Adding a region takes constant time; removing one searches from the newest
 * backwards. */
#include "replay/metering_device.h"

#include "shared/device_calls.h"

#include <stdlib.h>

static void note_added(struct metering *metering, uint64_t address, uint64_t size, bool mapped)
{
    if (metering->region_count == metering->region_capacity) {
        size_t capacity = metering->region_capacity == 0 ? 64 : metering->region_capacity * 2;
        struct replay_region *regions = realloc(metering->regions, capacity * sizeof(*regions));
        if (regions == NULL) {
            metering->failed = true;
            return;
        }
        metering->regions = regions;
        metering->region_capacity = capacity;
    }
    metering->regions[metering->region_count++] = (struct replay_region){address, size, metering->event, -1, mapped};
}

static void note_removed(struct metering *metering, uint64_t address)
{
    for (size_t i = metering->region_count; i-- > 0;) {
        if (metering->regions[i].address == address && metering->regions[i].removed == -1) {
            metering->regions[i].removed = metering->event;
            return;
        }
    }
}

static weir_device *inner(const struct metering *metering)
{
    return weir_sim_device(metering->sim);
}

/* Makes the call and adds its virtual time to the figures. */
#define METERED(metering, call)                                                                                        \
    uint64_t began = weir_sim_now((metering)->sim);                                                                    \
    weir_status status = (call);                                                                                       \
    (metering)->calls++;                                                                                               \
    (metering)->ns += weir_sim_now((metering)->sim) - began

static weir_status get_info(void *ctx, weir_device_info *info)
{
    return weir_device_get_info(inner(ctx), info);
}

static weir_status memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    return weir_device_memory_info(inner(ctx), free_bytes, total_bytes);
}

static void count_held(struct metering *metering, uint64_t more, uint64_t less)
{
    metering->held_bytes += more;
    metering->held_bytes -= less;
    metering->peak_bytes = metering->held_bytes > metering->peak_bytes ? metering->held_bytes : metering->peak_bytes;
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    struct metering *metering = ctx;
    METERED(metering, weir_device_region_alloc(inner(metering), size, address));
    if (status == WEIR_OK) {
        count_held(metering, size, 0);
        if (metering->keep) {
            note_added(metering, *address, size, false);
        }
    }
    return status;
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    struct metering *metering = ctx;
    METERED(metering, weir_device_region_free(inner(metering), address, size));
    if (status == WEIR_OK) {
        count_held(metering, 0, size);
        if (metering->keep) {
            note_removed(metering, address);
        }
    }
    return status;
}

/* The inner handle and the size of physical memory. The address of this record is the handle that the pool gets. */
struct physical {
    weir_vm_handle handle;
    uint64_t size;
};

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    struct metering *metering = ctx;
    struct physical *physical = malloc(sizeof(*physical));
    if (physical == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    physical->size = size;
    METERED(metering, weir_device_vm_create(inner(metering), size, &physical->handle));
    if (status == WEIR_OK) {
        count_held(metering, size, 0);
        *handle = (uintptr_t)physical;
    } else {
        free(physical);
    }
    return status;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    struct metering *metering = ctx;
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    METERED(metering, weir_device_vm_destroy(inner(metering), physical->handle));
    if (status == WEIR_OK) {
        count_held(metering, 0, physical->size);
        free(physical);
    }
    return status;
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    struct metering *metering = ctx;
    const struct physical *physical = (const struct physical *)(uintptr_t)handle;
    METERED(metering, weir_device_vm_map(inner(metering), address, size, physical->handle));
    if (status == WEIR_OK && metering->keep) {
        note_added(metering, address, size, true);
    }
    return status;
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    struct metering *metering = ctx;
    METERED(metering, weir_device_vm_unmap(inner(metering), address, size));
    if (status == WEIR_OK && metering->keep) {
        note_removed(metering, address);
    }
    return status;
}

/* All other device calls are forwarded, counted and timed. */
#define CALL(NAME, slot, n, ...)                                                                                       \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__))                                     \
    {                                                                                                                  \
        struct metering *metering = ctx;                                                                               \
        METERED(metering, weir_device_##slot(inner(metering) WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__)));             \
        return status;                                                                                                 \
    }
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    static weir_status slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__), WEIR__TYPE_##result *result)        \
    {                                                                                                                  \
        struct metering *metering = ctx;                                                                               \
        METERED(metering, weir_device_##slot(inner(metering) WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__), result));     \
        return status;                                                                                                 \
    }
GIVING(VM_RESERVE, vm_reserve, address, 1, size)
CALL(VM_RELEASE, vm_release, 2, address, size)
WEIR__ORDERING_CALLS(CALL, GIVING)
WEIR__COPY_CALLS(CALL, GIVING)

#define SLOT(NAME, slot, ...) .slot = slot,

weir_status metering_init(struct metering *metering, weir_sim *sim, bool keep)
{
    static const weir_device_ops ops = {
        .struct_size = sizeof(ops), .get_info = get_info, .memory_info = memory_info, WEIR__DEVICE_CALLS(SLOT, SLOT)};
    *metering = (struct metering){.sim = sim, .keep = keep, .event = -1};
    return weir_device_create(&ops, metering, &metering->device);
}

void metering_fini(struct metering *metering)
{
    (void)!weir_device_destroy(metering->device); /* cannot fail: its pool is destroyed */
    metering->device = NULL;
    free(metering->regions);
    metering->regions = NULL;
}
