/* sim_device.c: the simulator as a weir_device: each slot counts the call, checks for faults, pays the price, then
 * acts.
 *
 * The work of a slot lies between enter and leave, which take and release the lock. A call that a fault fails costs its
 * time and changes nothing else.
 */
#include "sim_internal.h"

#include <string.h>

static uint64_t price(const weir_sim *sim, weir_device_call call, uint64_t bytes)
{
    const weir_sim_costs *costs = &sim->config.costs;
    uint64_t per_mib = call == WEIR_CALL_REGION_ALLOC  ? costs->region_alloc_ns_per_mib
                       : call == WEIR_CALL_REGION_FREE ? costs->region_free_ns_per_mib
                       : call == WEIR_CALL_VM_CREATE   ? costs->vm_create_ns_per_mib
                                                       : 0;
    return weir__sim_price(costs->call_ns[call], per_mib, bytes);
}

/* Takes the lock, counts the call and charges its fixed price. A result other than WEIR_OK is an injected failure,
 * which the slot returns. */
static weir_status enter(weir_sim *sim, weir_device_call call, uint64_t *began)
{
    weir__sim_lock(sim);
    *began = sim->now;
    sim->stats.calls[call]++;
    uint64_t ns = price(sim, call, 0);
    weir_status status = sim->faults.count == 0 ? WEIR_OK : weir__sim_fault_strike(&sim->faults, call, &ns);
    weir__sim_reach(sim, weir__sim_plus(sim->now, ns));
    return status;
}

/* Ends a slot's call and releases the lock. A successful call pays the price per MiB; a refused one pays the fixed part
 * only. */
static weir_status leave_with(weir_sim *sim, weir_device_call call, uint64_t bytes, uint64_t began, weir_status status)
{
    if (status == WEIR_OK) {
        uint64_t ns = price(sim, call, bytes) - price(sim, call, 0);
        weir__sim_reach(sim, weir__sim_plus(sim->now, ns));
    }
    sim->stats.call_ns[call] += sim->now - began;
    weir__sim_unlock(sim);
    return status;
}

static weir_status leave(weir_sim *sim, weir_device_call call, uint64_t began, weir_status status)
{
    return leave_with(sim, call, 0, began, status);
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const weir_sim *sim = ctx;
    info->capacity_bytes = sim->config.capacity_bytes;
    info->region_granularity_bytes = sim->config.region_granularity_bytes;
    info->region_alignment_bytes = sim->config.region_granularity_bytes;
    info->page_bytes = sim->config.no_virtual_memory ? 0 : sim->config.page_bytes;
    info->abilities = (sim->config.no_ordering ? 0 : (uint32_t)WEIR_DEVICE_ORDERED) |
                      (sim->config.no_virtual_memory ? 0 : (uint32_t)WEIR_DEVICE_VIRTUAL_MEMORY);
    info->host_numa_node = -1;
    static const char name[] = "weir simulator";
    memcpy(info->name, name, sizeof(name));
    return WEIR_OK;
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_REGION_ALLOC, &began);
    if (status == WEIR_OK) {
        status = weir__sim_region_alloc(ctx, size, address);
    }
    return leave_with(ctx, WEIR_CALL_REGION_ALLOC, size, began, status);
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_REGION_FREE, &began);
    if (status == WEIR_OK) {
        status = weir__sim_region_free(ctx, address, size);
    }
    return leave_with(ctx, WEIR_CALL_REGION_FREE, size, began, status);
}

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_VM_RESERVE, &began);
    if (status == WEIR_OK) {
        status = weir__sim_vm_reserve(ctx, size, address);
    }
    return leave_with(ctx, WEIR_CALL_VM_RESERVE, size, began, status);
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_VM_RELEASE, &began);
    if (status == WEIR_OK) {
        status = weir__sim_vm_release(ctx, address, size);
    }
    return leave_with(ctx, WEIR_CALL_VM_RELEASE, size, began, status);
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_VM_CREATE, &began);
    if (status == WEIR_OK) {
        status = weir__sim_vm_create(ctx, size, handle);
    }
    return leave_with(ctx, WEIR_CALL_VM_CREATE, size, began, status);
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_VM_DESTROY, &began);
    if (status == WEIR_OK) {
        status = weir__sim_vm_destroy(ctx, handle);
    }
    return leave(ctx, WEIR_CALL_VM_DESTROY, began, status);
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_VM_MAP, &began);
    if (status == WEIR_OK) {
        status = weir__sim_vm_map(ctx, address, size, handle);
    }
    return leave_with(ctx, WEIR_CALL_VM_MAP, size, began, status);
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_VM_UNMAP, &began);
    if (status == WEIR_OK) {
        status = weir__sim_vm_unmap(ctx, address, size);
    }
    return leave_with(ctx, WEIR_CALL_VM_UNMAP, size, began, status);
}

static weir_status event_create(void *ctx, weir_event **event)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_EVENT_CREATE, &began);
    if (status == WEIR_OK) {
        status = weir__sim_event_create(ctx, event);
    }
    return leave(ctx, WEIR_CALL_EVENT_CREATE, began, status);
}

static weir_status event_destroy(void *ctx, weir_event *event)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_EVENT_DESTROY, &began);
    if (status == WEIR_OK) {
        status = weir__sim_event_destroy(ctx, event);
    }
    return leave(ctx, WEIR_CALL_EVENT_DESTROY, began, status);
}

static weir_status event_record(void *ctx, weir_event *event, void *native_stream)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_EVENT_RECORD, &began);
    if (status == WEIR_OK) {
        status = weir__sim_event_record(ctx, event, native_stream);
    }
    return leave(ctx, WEIR_CALL_EVENT_RECORD, began, status);
}

static weir_status event_query(void *ctx, weir_event *event, bool *complete)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_EVENT_QUERY, &began);
    if (status == WEIR_OK) {
        status = weir__sim_event_query(ctx, event, complete);
    }
    return leave(ctx, WEIR_CALL_EVENT_QUERY, began, status);
}

static weir_status event_sync(void *ctx, weir_event *event)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_EVENT_SYNC, &began);
    if (status == WEIR_OK) {
        status = weir__sim_event_sync(ctx, event);
    }
    return leave(ctx, WEIR_CALL_EVENT_SYNC, began, status);
}

static weir_status stream_wait_event(void *ctx, void *native_stream, weir_event *event)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_STREAM_WAIT_EVENT, &began);
    if (status == WEIR_OK) {
        status = weir__sim_stream_wait(ctx, native_stream, event);
    }
    return leave(ctx, WEIR_CALL_STREAM_WAIT_EVENT, began, status);
}

static weir_status stream_sync(void *ctx, void *native_stream)
{
    uint64_t began = 0;
    weir_status status = enter(ctx, WEIR_CALL_STREAM_SYNC, &began);
    if (status == WEIR_OK) {
        status = weir__sim_stream_sync(ctx, native_stream);
    }
    return leave(ctx, WEIR_CALL_STREAM_SYNC, began, status);
}

/* Checks a stream handle. Costs no time and cannot be made to fail. */
static weir_status stream_check(void *ctx, void *native_stream)
{
    weir__sim_lock(ctx);
    const weir_status status = weir__sim_stream_check(ctx, native_stream);
    weir__sim_unlock(ctx);
    return status;
}

void weir__sim_device_ops(weir_sim *sim)
{
    weir_device_ops *ops = &sim->ops;
    ops->struct_size = sizeof(*ops);
    ops->get_info = get_info;
    ops->region_alloc = region_alloc;
    ops->region_free = region_free;
    if (!sim->config.no_virtual_memory) {
        ops->vm_reserve = vm_reserve;
        ops->vm_release = vm_release;
        ops->vm_create = vm_create;
        ops->vm_destroy = vm_destroy;
        ops->vm_map = vm_map;
        ops->vm_unmap = vm_unmap;
    }
    if (!sim->config.no_ordering) {
        ops->event_create = event_create;
        ops->event_destroy = event_destroy;
        ops->event_record = event_record;
        ops->event_query = event_query;
        ops->event_sync = event_sync;
        ops->stream_wait_event = stream_wait_event;
        ops->stream_sync = stream_sync;
        ops->stream_check = stream_check;
    }
}
