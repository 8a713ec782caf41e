/* tests/pool/unit/fake_device.h: a device that only records its calls.
 *
 * Every slot is set. A test takes slots away in `ops`, changes `info`, or sets `answer` before it makes a device of it.
 * Safe to call from several threads.
 */
#ifndef WEIR_TESTS_FAKE_DEVICE_H
#define WEIR_TESTS_FAKE_DEVICE_H

#include "shared/device_calls.h"

#include <pthread.h>
#include <string.h>

#define FAKE_GRANULE 4096u
#define FAKE_PAGE 65536u

struct fake_device {
    weir_device_ops ops;
    weir_device_info info;
    weir_status info_status;
    weir_status answer; /* the result of every slot but get_info */
    /* If set, region_alloc and vm_create call this function without holding the lock, and return its result. */
    weir_status (*on_take)(struct fake_device *fake, uint64_t size);
    void *on_take_ctx;
    bool event_complete;
    int destroyed;

    pthread_mutex_t lock; /* guards the members below */
    uint64_t calls[WEIR_CALL_COUNT];
    uint64_t next_address;
    weir_vm_handle next_handle;
    /* This and the following members are the arguments of the last call; 0 or NULL: that call has no such argument. */
    uint64_t address;
    uint64_t size;
    weir_vm_handle handle;
    weir_event *event;
    void *native_stream;
    const weir_copy *copies;
    size_t count;
};

/* Begins a call: takes the lock, counts the call and clears the arguments of the last one. fake_end releases the
 * lock. */
static inline struct fake_device *fake_begin(void *ctx, weir_device_call call)
{
    struct fake_device *const fake = ctx;
    pthread_mutex_lock(&fake->lock);
    fake->calls[call]++;
    fake->address = 0;
    fake->size = 0;
    fake->handle = 0;
    fake->event = NULL;
    fake->native_stream = NULL;
    fake->copies = NULL;
    fake->count = 0;
    return fake;
}

static inline weir_status fake_end(struct fake_device *fake)
{
    pthread_mutex_unlock(&fake->lock);
    return fake->answer;
}

#define FAKE_NOTE(word) fake->word = word;

/* --- results, which are also written if the call fails: weir must not return them to its caller then --- */

static inline uint64_t fake_address(struct fake_device *fake, weir_device_call call)
{
    const uint64_t address = fake->next_address;
    fake->next_address += call == WEIR_CALL_REGION_ALLOC ? fake->size : 0;
    return call == WEIR_CALL_REGION_ALLOC ? address : 0x7000000;
}

static inline weir_vm_handle fake_handle(struct fake_device *fake, weir_device_call call)
{
    (void)call;
    return fake->next_handle++;
}

static inline weir_event *fake_event(const struct fake_device *fake, weir_device_call call)
{
    (void)fake, (void)call;
    return (weir_event *)(uintptr_t)0xe1;
}

static inline bool fake_complete(const struct fake_device *fake, weir_device_call call)
{
    (void)call;
    return fake->event_complete;
}

/* --- the slots --- */

#define CALL(NAME, slot, n, ...)                                                                                       \
    static inline weir_status fake_##slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__))                       \
    {                                                                                                                  \
        struct fake_device *const fake = fake_begin(ctx, WEIR_CALL_##NAME);                                            \
        WEIR__EACH(n, FAKE_NOTE, __VA_ARGS__)                                                                          \
        return fake_end(fake);                                                                                         \
    }
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    static inline weir_status fake_##slot(void *ctx WEIR__EACH(n, WEIR__PARAMETER, __VA_ARGS__),                       \
                                          WEIR__TYPE_##result *result)                                                 \
    {                                                                                                                  \
        struct fake_device *const fake = fake_begin(ctx, WEIR_CALL_##NAME);                                            \
        WEIR__EACH(n, FAKE_NOTE, __VA_ARGS__)                                                                          \
        const uint64_t asked = fake->size;                                                                             \
        *result = fake_##result(fake, WEIR_CALL_##NAME);                                                               \
        const weir_status status = fake_end(fake);                                                                     \
        const bool takes = WEIR_CALL_##NAME == WEIR_CALL_REGION_ALLOC || WEIR_CALL_##NAME == WEIR_CALL_VM_CREATE;      \
        return takes && fake->on_take != NULL ? fake->on_take(fake, asked) : status;                                   \
    }
WEIR__DEVICE_CALLS(CALL, GIVING)
#undef CALL
#undef GIVING

static inline weir_status fake_get_info(void *ctx, weir_device_info *info)
{
    const struct fake_device *const fake = ctx;
    *info = fake->info;
    return fake->info_status;
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

#define FAKE_SLOT(NAME, slot, ...) .slot = fake_##slot,
#define FAKE_TAKE_AWAY(NAME, slot, ...) fake->ops.slot = NULL;

static inline void fake_init(struct fake_device *fake)
{
    memset(fake, 0, sizeof(*fake));
    pthread_mutex_init(&fake->lock, NULL);
    fake->next_address = 0x10000000;
    fake->next_handle = 1;
    fake->ops = (weir_device_ops){
        .struct_size = sizeof(weir_device_ops),
        .get_info = fake_get_info,
        WEIR__DEVICE_CALLS(FAKE_SLOT, FAKE_SLOT).native_error = fake_native_error,
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
    WEIR__ORDERING_CALLS(FAKE_TAKE_AWAY, FAKE_TAKE_AWAY)
    fake->info.abilities &= ~(uint32_t)WEIR_DEVICE_ORDERED;
}

static inline void fake_without_virtual_memory(struct fake_device *fake)
{
    WEIR__VM_CALLS(FAKE_TAKE_AWAY, FAKE_TAKE_AWAY)
    fake->info.abilities &= ~(uint32_t)WEIR_DEVICE_VIRTUAL_MEMORY;
    fake->info.page_bytes = 0;
}

/* Makes the call of that kind with valid arguments. */
static inline weir_status fake_make_call(weir_device *device, weir_device_call call)
{
    uint64_t address = 0x3000;
    const uint64_t size = FAKE_PAGE;
    weir_vm_handle handle = 78;
    weir_event *event = (weir_event *)(uintptr_t)0xe2;
    void *const native_stream = (void *)(uintptr_t)0x57;
    const weir_copy piece = {.address = 0x3000, .size = FAKE_PAGE};
    const weir_copy *copies = &piece;
    const size_t count = 1;
    bool complete = false;
    switch (call) {
#define CALL(NAME, slot, n, ...)                                                                                       \
    case WEIR_CALL_##NAME:                                                                                             \
        return weir_device_##slot(device WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__));
#define GIVING(NAME, slot, result, n, ...)                                                                             \
    case WEIR_CALL_##NAME:                                                                                             \
        return weir_device_##slot(device WEIR__EACH(n, WEIR__ARGUMENT, __VA_ARGS__), &result);
        WEIR__DEVICE_CALLS(CALL, GIVING)
#undef CALL
#undef GIVING
    case WEIR_CALL_COUNT:
        break;
    }
    return WEIR_ERR_INTERNAL;
}

#endif
