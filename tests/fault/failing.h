/* tests/fault/failing.h: makes each request for host memory and each device call of a program fail in turn:
 * failing_host.h, and a device whose every n-th call fails. */
#ifndef TESTS_FAULT_FAILING_H
#define TESTS_FAULT_FAILING_H

#include "failing_host.h"

#include <weir/device.h>

/* --- a device that does not count --- */

/* A device that passes every call on. It does not count the simulator's requests for host memory, only the pool's.
 * Every `fail_every`-th call fails; 0: no call fails. */
static weir_device *inner;
static uint64_t fail_every;
static uint64_t device_calls;

#define PASS(call)                                                                                                     \
    do {                                                                                                               \
        const bool was = counting;                                                                                     \
        counting = false;                                                                                              \
        (void)ctx;                                                                                                     \
        const bool refused = fail_every != 0 && ++device_calls % fail_every == 0;                                      \
        const weir_status status = refused ? WEIR_ERR_DEVICE : (call);                                                 \
        counting = was;                                                                                                \
        return status;                                                                                                 \
    } while (0)

static weir_status pass_get_info(void *ctx, weir_device_info *info)
{
    (void)ctx;
    return weir_device_get_info(inner, info);
}

static weir_status pass_region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    PASS(weir_device_region_alloc(inner, size, address));
}

static weir_status pass_region_free(void *ctx, uint64_t address, uint64_t size)
{
    PASS(weir_device_region_free(inner, address, size));
}

static weir_status pass_vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    PASS(weir_device_vm_reserve(inner, size, address));
}

static weir_status pass_vm_release(void *ctx, uint64_t address, uint64_t size)
{
    PASS(weir_device_vm_release(inner, address, size));
}

static weir_status pass_vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    PASS(weir_device_vm_create(inner, size, handle));
}

static weir_status pass_vm_destroy(void *ctx, weir_vm_handle handle)
{
    PASS(weir_device_vm_destroy(inner, handle));
}

static weir_status pass_vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    PASS(weir_device_vm_map(inner, address, size, handle));
}

static weir_status pass_vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    PASS(weir_device_vm_unmap(inner, address, size));
}

static weir_status pass_event_create(void *ctx, weir_event **event)
{
    PASS(weir_device_event_create(inner, event));
}

static weir_status pass_event_destroy(void *ctx, weir_event *event)
{
    PASS(weir_device_event_destroy(inner, event));
}

static weir_status pass_event_record(void *ctx, weir_event *event, void *stream)
{
    PASS(weir_device_event_record(inner, event, stream));
}

static weir_status pass_event_query(void *ctx, weir_event *event, bool *complete)
{
    PASS(weir_device_event_query(inner, event, complete));
}

static weir_status pass_event_sync(void *ctx, weir_event *event)
{
    PASS(weir_device_event_sync(inner, event));
}

static weir_status pass_stream_wait_event(void *ctx, void *stream, weir_event *event)
{
    PASS(weir_device_stream_wait_event(inner, stream, event));
}

static weir_status pass_stream_sync(void *ctx, void *stream)
{
    PASS(weir_device_stream_sync(inner, stream));
}

static const weir_device_ops pass_ops = {
    .struct_size = sizeof(pass_ops),
    .get_info = pass_get_info,
    .region_alloc = pass_region_alloc,
    .region_free = pass_region_free,
    .vm_reserve = pass_vm_reserve,
    .vm_release = pass_vm_release,
    .vm_create = pass_vm_create,
    .vm_destroy = pass_vm_destroy,
    .vm_map = pass_vm_map,
    .vm_unmap = pass_vm_unmap,
    .event_create = pass_event_create,
    .event_destroy = pass_event_destroy,
    .event_record = pass_event_record,
    .event_query = pass_event_query,
    .event_sync = pass_event_sync,
    .stream_wait_event = pass_stream_wait_event,
    .stream_sync = pass_stream_sync,
};

/* A call of weir. Only requests for host memory during such a call are counted. */
#define POOL(call) (counting = true, pool_result(call))

static weir_status pool_result(weir_status status)
{
    counting = false;
    return status;
}

#endif
