/* bindings/torch/src/source.c: one pool's view of its device.
 *
 * Idea: each pool of a device has a weir_device of its own, a source, which passes every call on to the runtime's
 * device and counts the memory taken. So the device's own pool and its pools of graphs share one limit and one peak,
 * which can be reset.
 *
 * Guarantee: while a source is pinned it returns no memory, even if its pool tries to, so a replayed graph finds its
 * memory at the same addresses. A pool keeps using a region that its device refuses to take back.
 *
 * Cost: a lock and an addition for each region or physical page taken or returned; none for events.
 */
#include "torch_internal.h"

#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The function that drains the framework's queue, for pools created from now on. */
static weir_torch_drain drain;
static void *drain_ctx;

void weir_torch_set_drain(weir_torch_drain function, void *ctx)
{
    (void)pthread_mutex_lock(&lock);
    drain = function;
    drain_ctx = ctx;
    (void)pthread_mutex_unlock(&lock);
}

static weir_torch_drain read_drain(void **ctx)
{
    (void)pthread_mutex_lock(&lock);
    const weir_torch_drain function = drain;
    *ctx = drain_ctx;
    (void)pthread_mutex_unlock(&lock);
    return function;
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const struct torch_source *self = ctx;
    return weir_device_get_info(self->inner, info);
}

/* True if enough device memory stays free after the pools have taken `size` more bytes. Code that allocates from the
 * device directly, such as the workspaces of torch_npu's operators, needs that memory. Always true if the user has set
 * a limit: a limit already reserves the rest of the device for other code. */
static bool leaves_enough(const struct torch_device *at, uint64_t size)
{
    (void)pthread_mutex_lock(&lock);
    const uint64_t keep = at->limit == 0 ? at->keep_free : 0;
    (void)pthread_mutex_unlock(&lock);
    uint64_t free = 0;
    return keep == 0 || !weir__torch_runtime_free_bytes(at->id, &free) || (free >= size && free - size >= keep);
}

/* Counts `size` bytes as reserved, before the device call: so two threads cannot both take the last bytes below the
 * limit. Returns false if the limit would be exceeded. */
static bool reserve(struct torch_source *self, uint64_t size)
{
    WEIR_ASSERT(size > 0);
    struct torch_device *at = self->at;
    if (!leaves_enough(at, size)) {
        return false;
    }
    (void)pthread_mutex_lock(&lock);
    const bool fits = self->lost || at->limit == 0 || (size <= at->limit && at->reserved <= at->limit - size);
    if (fits) {
        self->held += size;
        at->reserved += self->lost ? 0 : size;
    }
    (void)pthread_mutex_unlock(&lock);
    return fits;
}

/* Completes reserve(). If the device gave the memory, counts it as taken; if not, takes back the count of reserve(). */
static void reserved(struct torch_source *self, uint64_t size, bool taken)
{
    struct torch_device *at = self->at;
    (void)pthread_mutex_lock(&lock);
    if (!taken) {
        WEIR_ASSERT(self->held >= size && (self->lost || at->reserved >= size));
        self->held -= size;
        at->reserved -= self->lost ? 0 : size;
    } else if (!self->lost) {
        at->segments_taken++;
        at->taken += size;
        at->peak_reserved = at->reserved > at->peak_reserved ? at->reserved : at->peak_reserved;
    }
    (void)pthread_mutex_unlock(&lock);
}

/* Subtracts memory that the device has taken back. */
static void returned(struct torch_source *self, uint64_t size)
{
    (void)pthread_mutex_lock(&lock);
    WEIR_ASSERT(self->held >= size && (self->lost || self->at->reserved >= size));
    self->held -= size;
    if (!self->lost) {
        self->at->reserved -= size;
        self->at->segments_returned++;
    }
    (void)pthread_mutex_unlock(&lock);
}

static bool is_pinned(struct torch_source *self)
{
    (void)pthread_mutex_lock(&lock);
    const bool is = self->pinned;
    (void)pthread_mutex_unlock(&lock);
    return is;
}

static void put_region(struct torch_source *self, struct torch_region *region)
{
    (void)pthread_mutex_lock(&lock);
    WEIR_ASSERT(region->size > 0);
    region->next = self->regions;
    self->regions = region;
    (void)pthread_mutex_unlock(&lock);
}

/* Removes the region at the address from the list and returns it; with `address` 0 any region. Returns NULL if there is
 * none. */
static struct torch_region *take_region(struct torch_source *self, uint64_t address)
{
    (void)pthread_mutex_lock(&lock);
    struct torch_region **link = &self->regions;
    while (*link != NULL && address != 0 && (*link)->address != address) {
        link = &(*link)->next;
    }
    struct torch_region *region = *link;
    if (region != NULL) {
        *link = region->next;
    }
    (void)pthread_mutex_unlock(&lock);
    return region;
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    struct torch_source *self = ctx;
    struct torch_region *region = malloc(sizeof(*region));
    if (region == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = reserve(self, size) ? WEIR_OK : WEIR_ERR_LIMIT;
    if (status == WEIR_OK) {
        status = weir_device_region_alloc(self->inner, size, address);
        reserved(self, size, status == WEIR_OK);
    }
    if (status != WEIR_OK) {
        free(region);
        return status;
    }
    *region = (struct torch_region){.address = *address, .size = size};
    put_region(self, region);
    return WEIR_OK;
}

/* Returns a region to the device. The caller has taken it out of the list, because another thread may get the same
 * address as soon as the device has the region. If the device refuses, the region goes back into the list. */
static weir_status give_back(struct torch_source *self, struct torch_region *region)
{
    WEIR_ASSERT(region->size > 0);
    const weir_status status = weir_device_region_free(self->inner, region->address, region->size);
    if (status != WEIR_OK) {
        put_region(self, region);
        return status;
    }
    returned(self, region->size);
    free(region);
    return WEIR_OK;
}

static weir_status kept_for_graph(void)
{
    return weir_refuse(WEIR_ERR_BUSY, "weir_torch_trim: the memory is a pool's of graphs that has not been released");
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    struct torch_source *self = ctx;
    if (is_pinned(self)) {
        return kept_for_graph();
    }
    struct torch_region *region = take_region(self, address);
    if (region == NULL) { /* a lost source lists no regions; the runtime's device accepts the call */
        return weir_device_region_free(self->inner, address, size);
    }
    return give_back(self, region);
}

/* Makes room for the size of one more handle, before the device is asked for it. */
static bool promise_handle(struct torch_source *self)
{
    (void)pthread_mutex_lock(&lock);
    WEIR_ASSERT(self->promised >= self->sizes.count);
    const bool promised = weir__number_map_reserve(&self->sizes, self->promised + 1);
    self->promised += promised;
    (void)pthread_mutex_unlock(&lock);
    return promised;
}

/* Notes the size of a handle, for which there is room. With `handle` 0 only gives the room up. */
static void note_handle(struct torch_source *self, weir_vm_handle handle, uint64_t size)
{
    (void)pthread_mutex_lock(&lock);
    WEIR_ASSERT(self->promised > self->sizes.count);
    if (handle == 0) {
        self->promised--;
    } else {
        (void)!weir__number_map_put(&self->sizes, handle, size);
    }
    (void)pthread_mutex_unlock(&lock);
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    struct torch_source *self = ctx;
    if (!promise_handle(self)) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = reserve(self, size) ? WEIR_OK : WEIR_ERR_LIMIT;
    if (status == WEIR_OK) {
        status = weir_device_vm_create(self->inner, size, handle);
        reserved(self, size, status == WEIR_OK);
    }
    note_handle(self, status == WEIR_OK ? *handle : 0, size);
    return status;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    struct torch_source *self = ctx;
    if (is_pinned(self)) {
        return kept_for_graph();
    }
    /* The note goes before the call: another thread may get the same handle as soon as the device has this one. */
    (void)pthread_mutex_lock(&lock);
    const uint64_t size = weir__number_map_take(&self->sizes, handle);
    (void)pthread_mutex_unlock(&lock);
    WEIR_ASSERT(size != 0);
    const weir_status status = weir_device_vm_destroy(self->inner, handle);
    note_handle(self, status == WEIR_OK ? 0 : handle, size);
    if (status == WEIR_OK) {
        returned(self, size);
    }
    return status;
}

/* --- calls passed on unchanged --- */

static weir_device *inner(void *ctx)
{
    return ((struct torch_source *)ctx)->inner;
}

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    return weir_device_vm_reserve(inner(ctx), size, address);
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    return weir_device_vm_release(inner(ctx), address, size);
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    return weir_device_vm_map(inner(ctx), address, size, handle);
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    return weir_device_vm_unmap(inner(ctx), address, size);
}

static weir_status event_create(void *ctx, weir_event **event)
{
    return weir_device_event_create(inner(ctx), event);
}

static weir_status event_destroy(void *ctx, weir_event *event)
{
    return weir_device_event_destroy(inner(ctx), event);
}

static weir_status event_record(void *ctx, weir_event *event, void *native_stream)
{
    return weir_device_event_record(inner(ctx), event, native_stream);
}

static weir_status event_query(void *ctx, weir_event *event, bool *complete)
{
    return weir_device_event_query(inner(ctx), event, complete);
}

static weir_status event_sync(void *ctx, weir_event *event)
{
    return weir_device_event_sync(inner(ctx), event);
}

static weir_status stream_wait_event(void *ctx, void *native_stream, weir_event *event)
{
    return weir_device_stream_wait_event(inner(ctx), native_stream, event);
}

static weir_status stream_sync(void *ctx, void *native_stream)
{
    return weir_device_stream_sync(inner(ctx), native_stream);
}

static weir_status native_error(void *ctx, int64_t *code, const char **text)
{
    return weir_device_error(inner(ctx), code, text);
}

static weir_status stream_check(void *ctx, void *native_stream)
{
    return weir_device_stream_check(inner(ctx), native_stream);
}

static weir_status stream_capture(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg), void *arg)
{
    return weir_device_stream_capture(inner(ctx), native_stream, capture, gone, arg);
}

static weir_status memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    return weir_device_memory_info(inner(ctx), free_bytes, total_bytes);
}

/* --- stream order for a framework that keeps work in a queue of its own --- */

/* An event that stands for a point in the stream's order and is never recorded on the native stream. Only a call that
 * may block can find that the stream has passed the point: it drains the framework's queue and waits for the stream. */
struct queued_event {
    void *native_stream;
    atomic_bool passed;
};

static weir_status queued_create(void *ctx, weir_event **event)
{
    (void)ctx;
    struct queued_event *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    atomic_store(&made->passed, true);
    *event = (weir_event *)made;
    return WEIR_OK;
}

static weir_status queued_destroy(void *ctx, weir_event *event)
{
    (void)ctx;
    free(event);
    return WEIR_OK;
}

static weir_status queued_record(void *ctx, weir_event *event, void *native_stream)
{
    (void)ctx;
    struct queued_event *self = (struct queued_event *)event;
    self->native_stream = native_stream;
    atomic_store(&self->passed, false);
    return WEIR_OK;
}

static weir_status queued_query(void *ctx, weir_event *event, bool *complete)
{
    (void)ctx;
    *complete = atomic_load(&((struct queued_event *)event)->passed);
    return WEIR_OK;
}

static weir_status queued_stream_sync(void *ctx, void *native_stream)
{
    WEIR_ASSERT(((struct torch_source *)ctx)->drain != NULL);
    struct torch_source *self = ctx;
    return self->drain(self->drain_ctx) ? weir_device_stream_sync(self->inner, native_stream) : WEIR_ERR_DEVICE;
}

static weir_status queued_sync(void *ctx, weir_event *event)
{
    struct queued_event *self = (struct queued_event *)event;
    const weir_status status = atomic_load(&self->passed) ? WEIR_OK : queued_stream_sync(ctx, self->native_stream);
    if (status == WEIR_OK) {
        atomic_store(&self->passed, true);
    }
    return status;
}

static weir_status queued_wait(void *ctx, void *native_stream, weir_event *event)
{
    (void)ctx, (void)native_stream;
    return atomic_load(&((struct queued_event *)event)->passed) ? WEIR_OK : WEIR_ERR_UNSUPPORTED;
}

/* --- the device --- */

static void destroy(void *ctx)
{
    struct torch_source *self = ctx;
    weir__number_map_fini(&self->sizes);
}

#define COMMON_SLOTS                                                                                                   \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .region_alloc = region_alloc,                        \
    .region_free = region_free, .native_error = native_error, .destroy = destroy, .stream_check = stream_check,        \
    .stream_capture = stream_capture, .memory_info = memory_info
#define ORDER_SLOTS                                                                                                    \
    .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record,                        \
    .event_query = event_query, .event_sync = event_sync, .stream_wait_event = stream_wait_event,                      \
    .stream_sync = stream_sync
#define QUEUED_SLOTS                                                                                                   \
    .event_create = queued_create, .event_destroy = queued_destroy, .event_record = queued_record,                     \
    .event_query = queued_query, .event_sync = queued_sync, .stream_wait_event = queued_wait,                          \
    .stream_sync = queued_stream_sync
#define VIRTUAL_SLOTS                                                                                                  \
    .vm_reserve = vm_reserve, .vm_release = vm_release, .vm_create = vm_create, .vm_destroy = vm_destroy,              \
    .vm_map = vm_map, .vm_unmap = vm_unmap

/* Function tables by [the framework has a queue of its own][the device has virtual memory]. */
static const weir_device_ops tables[2][2] = {
    {{COMMON_SLOTS, ORDER_SLOTS}, {COMMON_SLOTS, ORDER_SLOTS, VIRTUAL_SLOTS}},
    {{COMMON_SLOTS, QUEUED_SLOTS}, {COMMON_SLOTS, QUEUED_SLOTS, VIRTUAL_SLOTS}},
};

weir_status weir__torch_source_create(struct torch_pool *pool)
{
    WEIR_ASSERT(pool->inner != NULL && pool->device == NULL);
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    pool->source.inner = pool->inner;
    pool->source.at = pool->at;
    weir_status status = weir_device_get_info(pool->inner, &info);
    if (status == WEIR_OK) {
        const bool with_pages = (info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0;
        pool->source.drain = read_drain(&pool->source.drain_ctx);
        status = weir_device_create(&tables[pool->source.drain != NULL][with_pages], &pool->source, &pool->device);
    }
    return status;
}

/* --- state and statistics --- */

void weir__torch_source_pin(struct torch_source *source, bool pinned)
{
    (void)pthread_mutex_lock(&lock);
    source->pinned = pinned;
    (void)pthread_mutex_unlock(&lock);
}

weir_status weir__torch_source_sweep(struct torch_source *source)
{
    weir_status status = WEIR_OK;
    for (struct torch_region *region; status == WEIR_OK && (region = take_region(source, 0)) != NULL;) {
        status = give_back(source, region);
    }
    return status;
}

static void forget_regions(struct torch_source *source)
{
    for (struct torch_region *region; (region = take_region(source, 0)) != NULL;) {
        free(region);
    }
}

void weir__torch_source_lose(struct torch_source *source)
{
    (void)pthread_mutex_lock(&lock);
    if (!source->lost) {
        source->lost = true;
        source->pinned = false;
        WEIR_ASSERT(source->at->reserved >= source->held);
        source->at->reserved -= source->held;
    }
    (void)pthread_mutex_unlock(&lock);
    forget_regions(source);
}

void weir__torch_source_limit(struct torch_device *at, uint64_t limit)
{
    (void)pthread_mutex_lock(&lock);
    at->limit = limit;
    (void)pthread_mutex_unlock(&lock);
}

void weir__torch_source_keep_free(struct torch_device *at, uint64_t bytes)
{
    (void)pthread_mutex_lock(&lock);
    at->keep_free = bytes;
    (void)pthread_mutex_unlock(&lock);
}

void weir__torch_source_read(struct torch_device *at, weir_torch_device_stats *counters)
{
    (void)pthread_mutex_lock(&lock);
    counters->reserved_bytes = (weir_torch_counter){
        .current = (int64_t)at->reserved,
        .peak = (int64_t)at->peak_reserved,
        .allocated = (int64_t)at->taken,
        .freed = (int64_t)(at->taken - at->reserved),
    };
    counters->num_device_alloc = (int64_t)at->segments_taken;
    counters->num_device_free = (int64_t)at->segments_returned;
    (void)pthread_mutex_unlock(&lock);
}

void weir__torch_source_reset_peak(struct torch_device *at)
{
    (void)pthread_mutex_lock(&lock);
    at->peak_reserved = at->reserved;
    (void)pthread_mutex_unlock(&lock);
}
