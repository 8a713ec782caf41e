/* null_device.c: see null_device.h. */
#include "micro/null_device.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GRANULARITY_BYTES (UINT64_C(2) << 20)
#define FIRST_ADDRESS (UINT64_C(1) << 40)

struct null_device {
    weir_device *device;
    bool virtual_memory;
    _Atomic uint64_t next_address;
    _Atomic uint64_t next_handle;
    _Atomic uint64_t calls;
};

static void count(struct null_device *device)
{
    (void)atomic_fetch_add_explicit(&device->calls, 1, memory_order_relaxed);
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const struct null_device *device = ctx;
    info->capacity_bytes = NULL_DEVICE_CAPACITY_BYTES;
    info->region_granularity_bytes = GRANULARITY_BYTES;
    info->region_alignment_bytes = GRANULARITY_BYTES;
    info->page_bytes = device->virtual_memory ? GRANULARITY_BYTES : 0;
    info->abilities = WEIR_DEVICE_ORDERED | (device->virtual_memory ? (uint32_t)WEIR_DEVICE_VIRTUAL_MEMORY : 0u);
    info->host_numa_node = -1;
    (void)strcpy(info->name, "null");
    return WEIR_OK;
}

/* --- memory --- */

static weir_status take_addresses(void *ctx, uint64_t size, uint64_t *address)
{
    struct null_device *device = ctx;
    const uint64_t step = size + GRANULARITY_BYTES;
    *address = atomic_fetch_add_explicit(&device->next_address, step, memory_order_relaxed);
    count(device);
    return WEIR_OK;
}

static weir_status count_range(void *ctx, uint64_t address, uint64_t size)
{
    (void)address;
    (void)size;
    count(ctx);
    return WEIR_OK;
}

static weir_status create_handle(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    struct null_device *device = ctx;
    (void)size;
    *handle = atomic_fetch_add_explicit(&device->next_handle, 1, memory_order_relaxed);
    count(device);
    return WEIR_OK;
}

static weir_status destroy_handle(void *ctx, weir_vm_handle handle)
{
    (void)handle;
    count(ctx);
    return WEIR_OK;
}

static weir_status map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    (void)handle;
    return count_range(ctx, address, size);
}

/* --- ordering --- */

/* Returns the same event for all streams: work is always complete, so there is never a wait. */
static weir_status create_event(void *ctx, weir_event **event)
{
    *event = ctx;
    return WEIR_OK;
}

static weir_status accept_event(void *ctx, weir_event *event)
{
    (void)ctx;
    (void)event;
    return WEIR_OK;
}

static weir_status record_event(void *ctx, weir_event *event, void *native_stream)
{
    (void)native_stream;
    return accept_event(ctx, event);
}

static weir_status query_event(void *ctx, weir_event *event, bool *complete)
{
    *complete = true;
    return accept_event(ctx, event);
}

static weir_status wait_for_event(void *ctx, void *native_stream, weir_event *event)
{
    return record_event(ctx, event, native_stream);
}

static weir_status sync_stream(void *ctx, void *native_stream)
{
    (void)ctx;
    (void)native_stream;
    return WEIR_OK;
}

/* --- create and destroy --- */

#define MEMORY_AND_ORDERING                                                                                            \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .region_alloc = take_addresses,                      \
    .region_free = count_range, .event_create = create_event, .event_destroy = accept_event,                           \
    .event_record = record_event, .event_query = query_event, .event_sync = accept_event,                              \
    .stream_wait_event = wait_for_event, .stream_sync = sync_stream

static const weir_device_ops without_virtual_memory = {MEMORY_AND_ORDERING};

static const weir_device_ops with_virtual_memory = {
    MEMORY_AND_ORDERING,        .vm_reserve = take_addresses, .vm_release = count_range,
    .vm_create = create_handle, .vm_destroy = destroy_handle, .vm_map = map,
    .vm_unmap = count_range,
};

struct null_device *null_device_create(bool virtual_memory)
{
    struct null_device *device = calloc(1, sizeof(*device));
    if (device == NULL) {
        return NULL;
    }
    device->virtual_memory = virtual_memory;
    device->next_address = FIRST_ADDRESS;
    device->next_handle = 1;
    if (weir_device_create(virtual_memory ? &with_virtual_memory : &without_virtual_memory, device, &device->device) !=
        WEIR_OK) {
        free(device);
        return NULL;
    }
    return device;
}

void null_device_destroy(struct null_device *device)
{
    if (device != NULL && weir_device_destroy(device->device) == WEIR_OK) {
        free(device);
    }
}

weir_device *null_device_of(struct null_device *device)
{
    return device->device;
}

uint64_t null_device_calls(const struct null_device *device)
{
    return atomic_load_explicit(&device->calls, memory_order_relaxed);
}
