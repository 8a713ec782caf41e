/* tests/unit/fake_device.h: a device that only records its calls.
 *
 * Every slot is set. A test takes slots away in `ops`, changes `info`, or sets `answer` before it makes a device of it.
 * Safe to call from several threads.
 */
#ifndef WEIR_TESTS_FAKE_DEVICE_H
#define WEIR_TESTS_FAKE_DEVICE_H

#include <weir/adaptor.h>

#include <pthread.h>
#include <string.h>

#define FAKE_GRANULE 4096u
#define FAKE_PAGE 65536u

struct fake_device {
    weir_device_ops ops;
    weir_device_info info;
    weir_status info_status;
    weir_status answer; /* the result of every slot but get_info */
    /* If set, called by region_alloc and vm_create, without the lock; its result is theirs. */
    weir_status (*on_take)(struct fake_device *fake, uint64_t size);
    void *on_take_ctx;
    bool event_complete;
    int destroyed;

    pthread_mutex_t lock; /* guards the members below */
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t next_address;
    uint64_t handles_given;
    weir_vm_handle next_handle;
    uint64_t address; /* argument of the last call, like the following members */
    uint64_t size;
    weir_vm_handle handle;
    weir_event *event;
    void *native_stream;
};

static inline weir_status fake_note(struct fake_device *fake, weir_device_call call, uint64_t address, uint64_t size,
                                    weir_vm_handle handle, weir_event *event, void *native_stream)
{
    pthread_mutex_lock(&fake->lock);
    fake->calls[call]++;
    fake->address = address;
    fake->size = size;
    fake->handle = handle;
    fake->event = event;
    fake->native_stream = native_stream;
    pthread_mutex_unlock(&fake->lock);
    return fake->answer;
}

static inline weir_status fake_get_info(void *ctx, weir_device_info *info)
{
    const struct fake_device *const fake = ctx;
    *info = fake->info;
    return fake->info_status;
}

/* Writes its out-parameter also on failure: weir must protect its callers from that. */
static inline weir_status fake_region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    struct fake_device *const fake = ctx;
    weir_status status = fake_note(fake, WEIR_CALL_REGION_ALLOC, 0, size, 0, NULL, NULL);
    if (fake->on_take != NULL) {
        status = fake->on_take(fake, size);
    }
    pthread_mutex_lock(&fake->lock);
    *address = fake->next_address;
    fake->next_address += size;
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static inline weir_status fake_region_free(void *ctx, uint64_t address, uint64_t size)
{
    return fake_note(ctx, WEIR_CALL_REGION_FREE, address, size, 0, NULL, NULL);
}

static inline weir_status fake_vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    *address = 0x7000000;
    return fake_note(ctx, WEIR_CALL_VM_RESERVE, 0, size, 0, NULL, NULL);
}

static inline weir_status fake_vm_release(void *ctx, uint64_t address, uint64_t size)
{
    return fake_note(ctx, WEIR_CALL_VM_RELEASE, address, size, 0, NULL, NULL);
}

static inline weir_status fake_vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    struct fake_device *const fake = ctx;
    weir_status status = fake_note(fake, WEIR_CALL_VM_CREATE, 0, size, 0, NULL, NULL);
    if (fake->on_take != NULL) {
        status = fake->on_take(fake, size);
    }
    pthread_mutex_lock(&fake->lock);
    *handle = fake->next_handle++;
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static inline weir_status fake_vm_destroy(void *ctx, weir_vm_handle handle)
{
    return fake_note(ctx, WEIR_CALL_VM_DESTROY, 0, 0, handle, NULL, NULL);
}

static inline weir_status fake_vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    return fake_note(ctx, WEIR_CALL_VM_MAP, address, size, handle, NULL, NULL);
}

static inline weir_status fake_vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    return fake_note(ctx, WEIR_CALL_VM_UNMAP, address, size, 0, NULL, NULL);
}

static inline weir_status fake_event_create(void *ctx, weir_event **event)
{
    *event = (weir_event *)(uintptr_t)0xe1;
    return fake_note(ctx, WEIR_CALL_EVENT_CREATE, 0, 0, 0, NULL, NULL);
}

static inline weir_status fake_event_destroy(void *ctx, weir_event *event)
{
    return fake_note(ctx, WEIR_CALL_EVENT_DESTROY, 0, 0, 0, event, NULL);
}

static inline weir_status fake_event_record(void *ctx, weir_event *event, void *native_stream)
{
    return fake_note(ctx, WEIR_CALL_EVENT_RECORD, 0, 0, 0, event, native_stream);
}

static inline weir_status fake_event_query(void *ctx, weir_event *event, bool *complete)
{
    *complete = ((struct fake_device *)ctx)->event_complete;
    return fake_note(ctx, WEIR_CALL_EVENT_QUERY, 0, 0, 0, event, NULL);
}

static inline weir_status fake_event_sync(void *ctx, weir_event *event)
{
    return fake_note(ctx, WEIR_CALL_EVENT_SYNC, 0, 0, 0, event, NULL);
}

static inline weir_status fake_stream_wait_event(void *ctx, void *native_stream, weir_event *event)
{
    return fake_note(ctx, WEIR_CALL_STREAM_WAIT_EVENT, 0, 0, 0, event, native_stream);
}

static inline weir_status fake_stream_sync(void *ctx, void *native_stream)
{
    return fake_note(ctx, WEIR_CALL_STREAM_SYNC, 0, 0, 0, NULL, native_stream);
}

static inline weir_status fake_native_error(void *ctx, int64_t *code, const char **text)
{
    (void)ctx;
    *code = 507;
    *text = "fake trouble";
    return WEIR_OK;
}

static inline void fake_destroy(void *ctx)
{
    ((struct fake_device *)ctx)->destroyed++;
}

static inline void fake_init(struct fake_device *fake)
{
    memset(fake, 0, sizeof(*fake));
    pthread_mutex_init(&fake->lock, NULL);
    fake->next_address = 0x10000000;
    fake->next_handle = 1;
    fake->ops = (weir_device_ops){
        .struct_size = sizeof(weir_device_ops),
        .get_info = fake_get_info,
        .region_alloc = fake_region_alloc,
        .region_free = fake_region_free,
        .vm_reserve = fake_vm_reserve,
        .vm_release = fake_vm_release,
        .vm_create = fake_vm_create,
        .vm_destroy = fake_vm_destroy,
        .vm_map = fake_vm_map,
        .vm_unmap = fake_vm_unmap,
        .event_create = fake_event_create,
        .event_destroy = fake_event_destroy,
        .event_record = fake_event_record,
        .event_query = fake_event_query,
        .event_sync = fake_event_sync,
        .stream_wait_event = fake_stream_wait_event,
        .stream_sync = fake_stream_sync,
        .native_error = fake_native_error,
        .destroy = fake_destroy,
    };
    fake->info = (weir_device_info){
        .struct_size = sizeof(weir_device_info),
        .capacity_bytes = UINT64_C(1) << 30,
        .region_granularity_bytes = FAKE_GRANULE,
        .region_alignment_bytes = FAKE_GRANULE,
        .page_bytes = FAKE_PAGE,
        .abilities = WEIR_DEVICE_ORDERED | WEIR_DEVICE_VIRTUAL_MEMORY,
        .host_numa_node = 3,
        .name = "fake",
    };
}

static inline void fake_without_ordering(struct fake_device *fake)
{
    fake->ops.event_create = NULL;
    fake->ops.event_destroy = NULL;
    fake->ops.event_record = NULL;
    fake->ops.event_query = NULL;
    fake->ops.event_sync = NULL;
    fake->ops.stream_wait_event = NULL;
    fake->ops.stream_sync = NULL;
    fake->info.abilities &= ~(uint32_t)WEIR_DEVICE_ORDERED;
}

static inline void fake_without_virtual_memory(struct fake_device *fake)
{
    fake->ops.vm_reserve = NULL;
    fake->ops.vm_release = NULL;
    fake->ops.vm_create = NULL;
    fake->ops.vm_destroy = NULL;
    fake->ops.vm_map = NULL;
    fake->ops.vm_unmap = NULL;
    fake->info.abilities &= ~(uint32_t)WEIR_DEVICE_VIRTUAL_MEMORY;
    fake->info.page_bytes = 0;
}

/* Makes the call of that kind with valid arguments. */
static inline weir_status fake_make_call(weir_device *device, weir_device_call call)
{
    weir_event *const event = (weir_event *)(uintptr_t)0xe2;
    void *const stream = (void *)(uintptr_t)0x57;
    uint64_t address = 0;
    weir_vm_handle handle = 0;
    weir_event *made = NULL;
    bool complete = false;
    switch (call) {
    case WEIR_CALL_REGION_ALLOC:
        return weir_device_region_alloc(device, FAKE_GRANULE, &address);
    case WEIR_CALL_REGION_FREE:
        return weir_device_region_free(device, 0x1000, FAKE_GRANULE);
    case WEIR_CALL_VM_RESERVE:
        return weir_device_vm_reserve(device, FAKE_PAGE, &address);
    case WEIR_CALL_VM_RELEASE:
        return weir_device_vm_release(device, 0x2000, FAKE_PAGE);
    case WEIR_CALL_VM_CREATE:
        return weir_device_vm_create(device, FAKE_PAGE, &handle);
    case WEIR_CALL_VM_DESTROY:
        return weir_device_vm_destroy(device, 77);
    case WEIR_CALL_VM_MAP:
        return weir_device_vm_map(device, 0x3000, FAKE_PAGE, 78);
    case WEIR_CALL_VM_UNMAP:
        return weir_device_vm_unmap(device, 0x4000, FAKE_PAGE);
    case WEIR_CALL_EVENT_CREATE:
        return weir_device_event_create(device, &made);
    case WEIR_CALL_EVENT_DESTROY:
        return weir_device_event_destroy(device, event);
    case WEIR_CALL_EVENT_RECORD:
        return weir_device_event_record(device, event, stream);
    case WEIR_CALL_EVENT_QUERY:
        return weir_device_event_query(device, event, &complete);
    case WEIR_CALL_EVENT_SYNC:
        return weir_device_event_sync(device, event);
    case WEIR_CALL_STREAM_WAIT_EVENT:
        return weir_device_stream_wait_event(device, stream, event);
    case WEIR_CALL_STREAM_SYNC:
        return weir_device_stream_sync(device, stream);
    case WEIR_CALL_COUNT:
        break;
    }
    return WEIR_ERR_INTERNAL;
}

#endif
