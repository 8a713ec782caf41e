/* host_device.c: host memory as a weir_device, one for each node.
 *
 * Regions are memory that the runtime allocates pinned. Virtual memory is memory that weir maps: a reservation is
 * addresses without access, physical memory is a number of bytes counted against the limit, and mapping it makes pinned
 * memory at that address (chunk_source.c), so that chunks lie side by side. Contents do not move with a mapping, and
 * need not: a pool remaps only memory without live blocks.
 *
 * Streams and events are those of the runtime's device, plus one stream for the host itself. No work is ever queued on
 * that stream, so it is always complete.
 */
#include "host_internal.h"

#include "numa_pages.h"

#include <stdlib.h>

char weir__host_stream;

/* An event of this device: an event of the runtime's device, or an event that is complete because the host
 * recorded it. */
struct weir__host_event {
    struct weir__host_event *next; /* next in the node's list of events; protected by the node's chunk_lock */
    weir_event *event;
    bool of_host; /* the host has recorded the event, so it is always complete */
};

static weir_device *streams_of(const weir__host_node *node)
{
    return node->pool->runtime.device;
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const weir__host_node *node = ctx;
    info->region_granularity_bytes = node->pool->config.chunk_bytes;
    info->region_alignment_bytes = WEIR__HOST_PAGE;
    info->page_bytes = node->pool->config.chunk_bytes;
    info->abilities = WEIR_DEVICE_VIRTUAL_MEMORY | WEIR_DEVICE_PAGEWISE |
                      (streams_of(node) != NULL ? (uint32_t)WEIR_DEVICE_ORDERED : 0);
    info->host_numa_node = node->number;
    return WEIR_OK;
}

/* --- regions: allocations of the runtime --- */

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    WEIR_ASSERT(size != 0 && size % WEIR__HOST_PAGE == 0);
    weir__host_node *node = ctx;
    if (!weir__host_limit_take(node->pool, size)) {
        return WEIR_ERR_LIMIT;
    }
    const weir_status status = weir__host_chunk_take(node, 0, size, address);
    if (status != WEIR_OK) {
        weir__host_limit_give(node->pool, size);
    }
    return status;
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    weir__host_node *node = ctx;
    const weir_status status = weir__host_chunk_give(node, address, size);
    if (status == WEIR_OK) {
        weir__host_limit_give(node->pool, size);
    }
    return status;
}

/* --- virtual memory: memory that weir maps --- */

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    const weir__host_node *node = ctx;
    void *start = NULL;
    const weir_status status = weir__numa_reserve(size, node->pool->config.chunk_bytes, &start, NULL);
    if (status == WEIR_OK) {
        *address = (uint64_t)(uintptr_t)start;
    }
    return status;
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    weir__numa_unmap((void *)(uintptr_t)address, size, false);
    return WEIR_OK;
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    weir__host_node *node = ctx;
    if (!weir__host_limit_take(node->pool, size)) {
        return WEIR_ERR_LIMIT;
    }
    *handle = size; /* the handle is just the number of bytes */
    return WEIR_OK;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    weir__host_node *node = ctx;
    weir__host_limit_give(node->pool, handle);
    return WEIR_OK;
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    WEIR_ASSERT(handle == size);
    (void)handle;
    uint64_t unused = 0;
    return weir__host_chunk_take(ctx, address, size, &unused);
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    return weir__host_chunk_give(ctx, address, size);
}

/* --- ordering --- */

static bool is_host(const void *native)
{
    return native == &weir__host_stream;
}

static weir_status event_create(void *ctx, weir_event **out)
{
    struct weir__host_event *event = calloc(1, sizeof(*event));
    if (event == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = weir_device_event_create(streams_of(ctx), &event->event);
    if (status != WEIR_OK) {
        free(event);
        return status;
    }
    weir__host_node *node = ctx;
    (void)pthread_mutex_lock(&node->chunk_lock);
    event->next = node->events;
    node->events = event;
    (void)pthread_mutex_unlock(&node->chunk_lock);
    *out = (weir_event *)(void *)event;
    return WEIR_OK;
}

static void forget_event(weir__host_node *node, const struct weir__host_event *event)
{
    WEIR_ASSERT(node->events != NULL);
    (void)pthread_mutex_lock(&node->chunk_lock);
    struct weir__host_event **link = &node->events;
    while (*link != event) {
        WEIR_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = event->next;
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

/* Frees the events that the runtime's device refused to destroy. In a child of fork, frees all events. */
void weir__host_device_fini(weir__host_node *node)
{
    while (node->events != NULL) {
        struct weir__host_event *event = node->events;
        node->events = event->next;
        free(event);
    }
}

static weir_status event_destroy(void *ctx, weir_event *handle)
{
    WEIR_ASSERT(handle != NULL);
    struct weir__host_event *event = (struct weir__host_event *)(void *)handle;
    const weir_status status = weir_device_event_destroy(streams_of(ctx), event->event);
    if (status == WEIR_OK) {
        forget_event(ctx, event);
        free(event);
    }
    return status;
}

static weir_status event_record(void *ctx, weir_event *handle, void *native)
{
    WEIR_ASSERT(streams_of(ctx) != NULL);
    struct weir__host_event *event = (struct weir__host_event *)(void *)handle;
    const weir_status status =
        is_host(native) ? WEIR_OK : weir_device_event_record(streams_of(ctx), event->event, native);
    if (status == WEIR_OK) {
        event->of_host = is_host(native);
    }
    return status;
}

static weir_status event_query(void *ctx, weir_event *handle, bool *complete)
{
    WEIR_ASSERT(handle != NULL);
    const struct weir__host_event *event = (struct weir__host_event *)(void *)handle;
    if (event->of_host) {
        *complete = true;
        return WEIR_OK;
    }
    return weir_device_event_query(streams_of(ctx), event->event, complete);
}

static weir_status event_sync(void *ctx, weir_event *handle)
{
    WEIR_ASSERT(handle != NULL);
    const struct weir__host_event *event = (struct weir__host_event *)(void *)handle;
    return event->of_host ? WEIR_OK : weir_device_event_sync(streams_of(ctx), event->event);
}

/* Refuses a wait of the host's stream: the host cannot be made to wait later, and a wait now would block under a
 * stream's lock. The pool then synchronises, without locks, with the stream that it needs. */
static weir_status stream_wait_event(void *ctx, void *native, weir_event *handle)
{
    const struct weir__host_event *event = (struct weir__host_event *)(void *)handle;
    if (event->of_host) {
        return WEIR_OK;
    }
    return is_host(native) ? WEIR_ERR_UNSUPPORTED
                           : weir_device_stream_wait_event(streams_of(ctx), native, event->event);
}

static weir_status stream_sync(void *ctx, void *native)
{
    return is_host(native) ? WEIR_OK : weir_device_stream_sync(streams_of(ctx), native);
}

static weir_status stream_check(void *ctx, void *native)
{
    return is_host(native) ? WEIR_OK : weir_device_stream_check(streams_of(ctx), native);
}

static weir_status stream_capture(void *ctx, void *native, uint64_t *capture, void (*gone)(void *arg), void *arg)
{
    return is_host(native) ? WEIR_OK : weir_device_stream_capture(streams_of(ctx), native, capture, gone, arg);
}

/* --- life --- */

#define MEMORY_SLOTS                                                                                                   \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .region_alloc = region_alloc,                        \
    .region_free = region_free, .vm_reserve = vm_reserve, .vm_release = vm_release, .vm_create = vm_create,            \
    .vm_destroy = vm_destroy, .vm_map = vm_map, .vm_unmap = vm_unmap

static const weir_device_ops plain_ops = {MEMORY_SLOTS};
static const weir_device_ops ordered_ops = {
    MEMORY_SLOTS,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_sync = event_sync,
    .stream_wait_event = stream_wait_event,
    .stream_sync = stream_sync,
    .stream_check = stream_check,
    .stream_capture = stream_capture,
};

weir_status weir__host_device_create(weir__host_node *node, weir_device **device)
{
    return weir_device_create(streams_of(node) != NULL ? &ordered_ops : &plain_ops, node, device);
}
