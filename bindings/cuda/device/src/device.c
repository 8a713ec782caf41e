/* bindings/cuda/device/src/device.c: weir_device_ops over the CUDA driver.
 *
 * Idea: each slot is one call of the driver. The slot adds the current context, which the driver keeps for each
 * thread as a stack, and the capture mode: in a thread with another mode than relaxed, calls such as cuMemAlloc and
 * cuEventQuery fail while a stream is being captured, and break the capture.
 *
 * Guarantee: a slot acts on its own device in any current context of the calling thread, and leaves the thread's stack
 * of contexts and its capture mode as they were. A stream that is being captured is not touched: an event recorded on
 * it would become a part of the graph, and a wait for it would break the capture. Nothing is lost while the driver
 * fails for a time: memory that a call could not return goes back with a later call that takes or returns memory, and a
 * device that cannot be ended is ended when the next one is created or destroyed.
 *
 * Cost: three calls that read or set thread-local state of the driver for each slot, two more where another context is
 * current, and one more for the slots that touch a stream.
 */
#include "cuda_internal.h"

#include <pthread.h>
#include <stdlib.h>

#define GRANULARITY_BYTES (UINT64_C(2) << 20) /* the driver maps a cuMemAlloc of 2 MiB or more in units of this */
/* strategies need 512 bytes, cuMemAlloc promises 256: the address of each region is checked */
#define REGION_ALIGNMENT_BYTES 512u

static const char creating[] = "weir_cuda_device_create";

/* --- the list of devices --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_device *all;
static cuda_device *unfinished; /* devices that were destroyed while the driver did not take everything back */

static void enlist(cuda_device *self, const weir_device *device)
{
    WEIR_ASSERT(self->device == NULL && device != NULL);
    (void)pthread_mutex_lock(&lock);
    self->device = device;
    self->next = all;
    all = self;
    (void)pthread_mutex_unlock(&lock);
}

static void delist(const cuda_device *self)
{
    (void)pthread_mutex_lock(&lock);
    cuda_device **link = &all;
    while (*link != NULL && *link != self) {
        link = &(*link)->next;
    }
    WEIR_ASSERT(*link == self);
    *link = *link != NULL ? self->next : NULL;
    (void)pthread_mutex_unlock(&lock);
}

cuda_device *weir__cuda_device_of(const weir_device *device)
{
    (void)pthread_mutex_lock(&lock);
    cuda_device *found = all;
    while (found != NULL && found->device != device) {
        found = found->next;
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* --- the calling thread --- */

/* What weir__cuda_leave could not restore in this thread. */
static _Thread_local struct {
    CUcontext pushed; /* NULL: nothing */
    bool has_mode;
    int capture_mode;
} owed;

/* Takes an owed context over into `bound` if it is the device's own, and takes any other off the thread's stack. A
 * context that is not on top was replaced by the program, and is the program's. */
static weir_status settle_context(const cuda_device *self, CUcontext *current, weir__cuda_bound *bound)
{
    WEIR_ASSERT(owed.pushed != NULL);
    weir_status status = WEIR_OK;
    if (*current == owed.pushed && *current == self->context) {
        bound->pushed = owed.pushed;
    } else if (*current == owed.pushed) {
        status = CUDA(cuCtxPopCurrent, current);
        if (status != WEIR_OK) {
            return status;
        }
        owed.pushed = NULL;
        status = CUDA(cuCtxGetCurrent, current);
    }
    owed.pushed = NULL;
    return status;
}

weir_status weir__cuda_enter(const cuda_device *self, weir__cuda_bound *bound)
{
    WEIR_ASSERT(weir__cuda_is_loaded() && self->context != NULL);
    CUcontext current = NULL;
    int mode = CU_CAPTURE_MODE_RELAXED;
    *bound = (weir__cuda_bound){.capture_mode = CU_CAPTURE_MODE_RELAXED};
    weir_status status = CUDA(cuCtxGetCurrent, &current);
    if (status == WEIR_OK && owed.pushed != NULL) {
        status = settle_context(self, &current, bound);
    }
    if (status == WEIR_OK && current != self->context) {
        status = CUDA(cuCtxPushCurrent, self->context);
        bound->pushed = status == WEIR_OK ? self->context : NULL;
    }
    if (status == WEIR_OK) {
        status = CUDA(cuThreadExchangeStreamCaptureMode, &mode);
    }
    if (status != WEIR_OK) {
        weir__cuda_leave(bound);
        return status;
    }
    /* an owed mode is out of date if the program has set another one since */
    bound->capture_mode = owed.has_mode && mode == CU_CAPTURE_MODE_RELAXED ? owed.capture_mode : mode;
    owed.has_mode = false;
    return WEIR_OK;
}

/* A failure to restore the thread's state is not reported: the requested call has been made and must not be repeated.
 * It is tried once more here, and again when the thread enters next. */
void weir__cuda_leave(weir__cuda_bound *bound)
{
    WEIR_ASSERT(weir__cuda_is_loaded());
    CUcontext popped = NULL;
    if (bound->capture_mode != CU_CAPTURE_MODE_RELAXED) {
        int mode = bound->capture_mode;
        bool restored = UNCANCELLED(weir__cuda.cuThreadExchangeStreamCaptureMode(&mode)) == CU_SUCCESS;
        if (!restored) {
            mode = bound->capture_mode;
            restored = UNCANCELLED(weir__cuda.cuThreadExchangeStreamCaptureMode(&mode)) == CU_SUCCESS;
        }
        owed.has_mode = !restored;
        owed.capture_mode = bound->capture_mode;
    }
    if (bound->pushed != NULL && UNCANCELLED(weir__cuda.cuCtxPopCurrent(&popped)) != CU_SUCCESS &&
        UNCANCELLED(weir__cuda.cuCtxPopCurrent(&popped)) != CU_SUCCESS) {
        owed.pushed = bound->pushed;
    }
}

/* --- device properties --- */

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const cuda_device *self = ctx;
    const size_t size = info->struct_size;
    *info = self->info;
    info->struct_size = size;
    return WEIR_OK;
}

static weir_status memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    const cuda_device *self = ctx;
    size_t left = 0;
    size_t total = 0;
    const weir_status status = IN_CONTEXT(self, CUDA(cuMemGetInfo, &left, &total));
    *free_bytes = left;
    *total_bytes = total;
    return status;
}

/* --- regions --- */

static weir_status free_left(void *ctx, weir__leftover *left)
{
    WEIR_ASSERT(left->address != 0);
    (void)ctx;
    return CUDA(cuMemFree, left->address);
}

static weir_status alloc_aligned(cuda_device *self, uint64_t size, CUdeviceptr *start)
{
    WEIR_ASSERT(size > 0);
    weir__leftover *odd = weir__leftover_new(free_left);
    if (odd == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = CUDA(cuMemAlloc, start, (size_t)size);
    if (status == WEIR_OK && (*start & (REGION_ALIGNMENT_BYTES - 1)) != 0) {
        odd->address = *start;
        odd->size = size;
        (void)weir__leftovers_give(&self->left, self, odd);
        return weir_refuse(WEIR_ERR_DEVICE, "cuMemAlloc: address 0x%llx is no multiple of %u", *start,
                           REGION_ALIGNMENT_BYTES);
    }
    free(odd);
    return status;
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    CUdeviceptr start = 0;
    const weir_status status = WITH_MEMORY(ctx, alloc_aligned(ctx, size, &start));
    if (status == WEIR_OK) {
        *address = start;
    }
    return status;
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    (void)size;
    return WITH_MEMORY(ctx, CUDA(cuMemFree, address));
}

/* --- ordering --- */

static weir_status event_create(void *ctx, weir_event **event)
{
    CUevent made = NULL;
    const weir_status status = IN_CONTEXT(ctx, CUDA(cuEventCreate, &made, CU_EVENT_DISABLE_TIMING));
    if (status == WEIR_OK) {
        *event = (weir_event *)made;
    }
    return status;
}

static weir_status event_destroy(void *ctx, weir_event *event)
{
    return IN_CONTEXT(ctx, CUDA(cuEventDestroy, (CUevent)event));
}

static weir_status event_query(void *ctx, weir_event *event, bool *complete)
{
    weir__cuda_bound bound;
    weir_status status = weir__cuda_enter(ctx, &bound);
    if (status == WEIR_OK) {
        const CUresult code = weir__cuda.cuEventQuery((CUevent)event);
        status = code == CU_ERROR_NOT_READY ? WEIR_OK : weir__cuda_result("cuEventQuery", code);
        weir__cuda_leave(&bound);
        if (status == WEIR_OK) {
            *complete = code == CU_SUCCESS;
        }
    }
    return status;
}

static weir_status event_sync(void *ctx, weir_event *event)
{
    return IN_CONTEXT(ctx, CUDA(cuEventSynchronize, (CUevent)event));
}

/* --- captures --- */

struct capture {
    uint64_t number; /* as weir_device_ops.stream_capture has it */
    void *graph;
};

/* The legacy default stream answers CUDA_ERROR_STREAM_CAPTURE_IMPLICIT while any stream that synchronises with it
 * implicitly is being captured. */
static weir_status find_capture(CUstream stream, struct capture *found)
{
    int status = CU_CAPTURE_NONE;
    unsigned long long id = 0;
    const CUresult code =
        UNCANCELLED(weir__cuda.cuStreamGetCaptureInfo(stream, &status, &id, &found->graph, NULL, NULL));
    if (code == CU_ERROR_CAPTURE_IMPLICIT) {
        found->number = WEIR_CAPTURE_IMPLICIT;
        return WEIR_OK;
    }
    found->number = code == CU_SUCCESS && status != CU_CAPTURE_NONE ? id : 0;
    return weir__cuda_result("cuStreamGetCaptureInfo", code);
}

/* Refuses a stream that is being captured. */
static weir_status refuse_captured(const char *slot, CUstream stream)
{
    struct capture capture = {0};
    const weir_status status = find_capture(stream, &capture);
    return status == WEIR_OK && capture.number != 0
               ? weir_refuse(WEIR_ERR_UNSUPPORTED, "%s: stream %p is being captured into a graph", slot, (void *)stream)
               : status;
}

/* Lets the graph hold an object that calls gone(arg) when the graph and all that was made of it are destroyed. */
static weir_status watch(const struct capture *capture, void (*gone)(void *arg), void *arg)
{
    CUuserobject object = NULL;
    weir_status status = CUDA(cuUserObjectCreate, &object, arg, gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (status == WEIR_OK) {
        /* After a failure the object stays, because its release would call gone while the graph lives. */
        status = CUDA(cuGraphRetainUserObject, capture->graph, object, 1, CU_USER_OBJECT_MOVE);
    }
    return status == WEIR_OK ? WEIR_OK : WEIR_ERR_UNSUPPORTED;
}

static weir_status stream_capture(void *ctx, void *native_stream, uint64_t *capture, void (*gone)(void *arg), void *arg)
{
    struct capture found = {0};
    /* Only the default streams mean another stream in each context. */
    const bool is_default = (uintptr_t)native_stream <= (uintptr_t)CU_STREAM_PER_THREAD;
    const weir_status status =
        is_default ? IN_CONTEXT(ctx, find_capture(native_stream, &found)) : find_capture(native_stream, &found);
    *capture = found.number;
    const bool is_captured = status == WEIR_OK && found.number != 0 && found.number != WEIR_CAPTURE_IMPLICIT;
    return is_captured && gone != NULL ? watch(&found, gone, arg) : status;
}

/* --- streams --- */

static weir_status record_uncaptured(CUevent event, CUstream stream)
{
    WEIR_ASSERT(event != NULL);
    const weir_status status = refuse_captured("weir_device_event_record", stream);
    return status == WEIR_OK ? CUDA(cuEventRecord, event, stream) : status;
}

static weir_status event_record(void *ctx, weir_event *event, void *native_stream)
{
    return IN_CONTEXT(ctx, record_uncaptured((CUevent)event, native_stream));
}

static weir_status wait_uncaptured(CUstream stream, CUevent event)
{
    WEIR_ASSERT(event != NULL);
    const weir_status status = refuse_captured("weir_device_stream_wait_event", stream);
    return status == WEIR_OK ? CUDA(cuStreamWaitEvent, stream, event, 0) : status;
}

static weir_status stream_wait_event(void *ctx, void *native_stream, weir_event *event)
{
    return IN_CONTEXT(ctx, wait_uncaptured(native_stream, (CUevent)event));
}

/* Refuses a captured stream. Waits for any other, also if the capture state is unknown, which is safe. */
static weir_status sync_uncaptured(CUstream stream)
{
    const weir_status status = refuse_captured("weir_device_stream_sync", stream);
    return status == WEIR_ERR_UNSUPPORTED ? status : CUDA(cuStreamSynchronize, stream);
}

static weir_status stream_sync(void *ctx, void *native_stream)
{
    return IN_CONTEXT(ctx, sync_uncaptured(native_stream));
}

/* An event can be recorded only on a stream of its own context (cuEventRecord in the reference). */
static weir_status stream_check(void *ctx, void *native_stream)
{
    static const char function[] = "weir_pool_stream";
    const cuda_device *self = ctx;
    if (native_stream == CU_STREAM_PER_THREAD) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: stream CU_STREAM_PER_THREAD is another stream in each thread",
                           function);
    }
    weir__cuda_bound bound;
    CUcontext context = NULL;
    weir_status status = native_stream != NULL ? weir__cuda_enter(self, &bound) : WEIR_OK;
    if (status == WEIR_OK && native_stream != NULL) {
        status = CUDA(cuStreamGetCtx, native_stream, &context);
        weir__cuda_leave(&bound);
        if (status == WEIR_OK && context != self->context) {
            status = weir_refuse(WEIR_ERR_INVALID,
                                 "%s: stream %p is of context %p, the pool of context %p on CUDA device %d", function,
                                 native_stream, (void *)context, (void *)self->context, self->id);
        }
    }
    return status;
}

/* --- errors, create and destroy --- */

static weir_status native_error(void *ctx, int64_t *code, const char **text)
{
    (void)ctx;
    int found = 0;
    weir__cuda_last(&found, text);
    *code = found;
    return WEIR_OK;
}

/* Gives everything back, the context last, and frees the device. After a failure the device stays as it is. */
static weir_status finish(cuda_device *self)
{
    WEIR_ASSERT(self->context != NULL || !self->retained);
    weir_status status = WEIR_OK;
    if (atomic_load(&self->left.count) != 0 || (self->context != NULL && owed.pushed == self->context)) {
        status = IN_CONTEXT(self, weir__leftovers_retry(&self->left, self));
        status = status == WEIR_OK && owed.pushed == self->context ? WEIR_ERR_DEVICE : status;
    }
    if (status == WEIR_OK && self->retained) {
        status = CUDA(cuDevicePrimaryCtxRelease, self->id);
    }
    if (status == WEIR_OK) {
        weir__leftovers_fini(&self->left);
        free(self->access);
        free(self);
    }
    return status;
}

static void put_among_unfinished(cuda_device *self)
{
    (void)pthread_mutex_lock(&lock);
    self->device = NULL;
    self->next = unfinished;
    unfinished = self;
    (void)pthread_mutex_unlock(&lock);
}

/* Tries again to end the devices that could not be ended. */
static void finish_all(void)
{
    (void)pthread_mutex_lock(&lock);
    cuda_device *list = unfinished;
    unfinished = NULL;
    (void)pthread_mutex_unlock(&lock);
    while (list != NULL) {
        cuda_device *self = list;
        list = self->next;
        if (finish(self) != WEIR_OK) {
            put_among_unfinished(self);
        }
    }
}

/* The program may end a context of its own at any time, and everything in it, so such a device is not kept. */
static void release(cuda_device *self)
{
    WEIR_ASSERT(self->context != NULL || !self->retained);
    finish_all();
    if (finish(self) == WEIR_OK || finish(self) == WEIR_OK) {
        return;
    }
    if (self->retained) {
        put_among_unfinished(self);
    } else {
        weir__leftovers_fini(&self->left);
        free(self->access);
        free(self);
    }
}

static void destroy(void *ctx)
{
    WEIR_ASSERT(((cuda_device *)ctx)->context != NULL);
    delist(ctx);
    release(ctx);
}

#define COMMON_SLOTS                                                                                                   \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .region_alloc = region_alloc,                        \
    .region_free = region_free, .event_create = event_create, .event_destroy = event_destroy,                          \
    .event_record = event_record, .event_query = event_query, .event_sync = event_sync,                                \
    .stream_wait_event = stream_wait_event, .stream_sync = stream_sync, .native_error = native_error,                  \
    .destroy = destroy, .stream_check = stream_check, .stream_capture = stream_capture, .memory_info = memory_info,    \
    .copy = weir__cuda_copy

static const weir_device_ops plain_ops = {COMMON_SLOTS};
static const weir_device_ops virtual_ops = {
    COMMON_SLOTS,
    .vm_reserve = weir__cuda_vm_reserve,
    .vm_release = weir__cuda_vm_release,
    .vm_create = weir__cuda_vm_create,
    .vm_destroy = weir__cuda_vm_destroy,
    .vm_map = weir__cuda_vm_map,
    .vm_unmap = weir__cuda_vm_unmap,
};

static void add_access(cuda_device *self, CUdevice device)
{
    WEIR_ASSERT(self->access != NULL);
    for (size_t i = 0; i < self->access_count; i++) {
        if (self->access[i].location.id == device) {
            return; /* the driver refuses a device that is named twice */
        }
    }
    self->access[self->access_count++] = (CUmemAccess){{CU_LOCATION_DEVICE, device}, CU_ACCESS_READ_WRITE};
}

static void add_all_peers(cuda_device *self, int devices)
{
    for (int ordinal = 0; ordinal < devices; ordinal++) {
        CUdevice peer = 0;
        int can = 0;
        if (weir__cuda.cuDeviceGet(&peer, ordinal) == CU_SUCCESS &&
            weir__cuda.cuDeviceCanAccessPeer(&can, peer, self->id) == CU_SUCCESS && can != 0) {
            add_access(self, peer);
        }
    }
}

static weir_status make_access_list(cuda_device *self, const weir_cuda_device_config *config)
{
    WEIR_ASSERT(self->access == NULL && self->context != NULL);
    int devices = 0;
    if ((config->flags & WEIR_CUDA_ALL_PEERS) != 0 && weir__cuda.cuDeviceGetCount(&devices) != CU_SUCCESS) {
        devices = 0;
    }
    self->access = calloc(config->peer_count + (size_t)devices + 1, sizeof(*self->access));
    if (self->access == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    add_access(self, self->id);
    for (size_t i = 0; i < config->peer_count; i++) {
        CUdevice peer = 0;
        if (weir__cuda.cuDeviceGet(&peer, config->peers[i]) != CU_SUCCESS) {
            return weir_refuse(WEIR_ERR_INVALID, "%s: peers[%zu] is %d, which is no device", creating, i,
                               config->peers[i]);
        }
        add_access(self, peer);
    }
    add_all_peers(self, devices);
    return WEIR_OK;
}

static weir_status find_facts(cuda_device *self)
{
    WEIR_ASSERT(self->context != NULL && self->device == NULL);
    size_t total = 0;
    char name[40] = "";
    weir_status status = CUDA(cuDeviceTotalMem, &total, self->id);
    if (status == WEIR_OK) {
        status = CUDA(cuDeviceGetName, name, (int)sizeof(name) - 1, self->id);
    }
    if (status == WEIR_OK) {
        status = CUDA(cuDeviceGetPCIBusId, self->facts.pci_bus_id, (int)sizeof(self->facts.pci_bus_id), self->id);
    }
    if (status == WEIR_OK) {
        status = CUDA(cuDriverGetVersion, &self->facts.driver_version);
    }
    int node = -1; /* stays -1 with a driver before 12.2, which does not know the attribute */
    if (weir__cuda.cuDeviceGetAttribute(&node, CU_ATTRIBUTE_HOST_NUMA_ID, self->id) != CU_SUCCESS) {
        node = -1;
    }
    self->info.struct_size = sizeof(self->info);
    self->info.capacity_bytes = total;
    self->info.region_granularity_bytes = GRANULARITY_BYTES;
    self->info.region_alignment_bytes = REGION_ALIGNMENT_BYTES;
    self->info.abilities = WEIR_DEVICE_ORDERED;
    self->info.host_numa_node = node;
    (void)snprintf(self->info.name, sizeof(self->info.name), "%s, CUDA device %d", name, self->facts.ordinal);
    self->facts.struct_size = sizeof(self->facts);
    self->facts.context = self->context;
    return status;
}

static weir_status current_context(cuda_device *self)
{
    WEIR_ASSERT(!self->retained);
    CUdevice device = -1;
    weir_status status = CUDA(cuCtxGetCurrent, &self->context);
    if (status == WEIR_OK && self->context == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: flags have WEIR_CUDA_CURRENT_CONTEXT, and this thread has no context",
                           creating);
    }
    if (status == WEIR_OK) {
        status = CUDA(cuCtxGetDevice, &device);
    }
    if (status == WEIR_OK && device != self->id) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: ordinal is %d, and the current context is of device %d", creating,
                           self->facts.ordinal, device);
    }
    return status;
}

static weir_status fill(cuda_device *self, const weir_cuda_device_config *config)
{
    WEIR_ASSERT(self->context == NULL && !self->retained);
    weir__cuda_bound bound;
    weir_status status = WEIR_OK;
    if ((config->flags & WEIR_CUDA_CURRENT_CONTEXT) != 0) {
        status = current_context(self);
    } else {
        status = CUDA(cuDevicePrimaryCtxRetain, &self->context, self->id);
        self->retained = status == WEIR_OK;
    }
    if (status == WEIR_OK) {
        status = weir__cuda_enter(self, &bound);
    }
    if (status != WEIR_OK) {
        return status;
    }
    status = make_access_list(self, config);
    if (status == WEIR_OK) {
        status = find_facts(self);
    }
    if (status == WEIR_OK) {
        status = weir__cuda_find_virtual_memory(self, config);
    }
    weir__cuda_leave(&bound);
    return status;
}

static weir_status make_device(const weir_cuda_device_config *config, CUdevice id, weir_device **device)
{
    WEIR_ASSERT(weir__cuda_is_loaded());
    cuda_device *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    self->id = id;
    self->facts.ordinal = config->ordinal;
    (void)pthread_mutex_init(&self->left.lock, NULL);
    WEIR_ASSERT(self->access == NULL);
    weir_device *made = NULL;
    weir_status status = fill(self, config);
    if (status == WEIR_OK) {
        const bool with_pages = (self->info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0;
        status = weir_device_create(with_pages ? &virtual_ops : &plain_ops, self, &made);
    }
    if (status != WEIR_OK) {
        release(self);
        return status;
    }
    enlist(self, made);
    *device = made;
    return WEIR_OK;
}

static weir_status check(const weir_cuda_device_config *config, weir_device *const *device)
{
    if (device == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: device is NULL", creating);
    }
    if (config->ordinal < 0) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: ordinal is %d", creating, config->ordinal);
    }
    if ((config->flags & ~(uint32_t)(WEIR_CUDA_NO_VIRTUAL_MEMORY | WEIR_CUDA_CURRENT_CONTEXT | WEIR_CUDA_ALL_PEERS)) !=
        0) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: flags 0x%x has an unknown flag", creating, config->flags);
    }
    if ((unsigned)config->handle_type > WEIR_CUDA_HANDLE_NONE) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: handle_type %d is no weir_cuda_handle_type", creating,
                           (int)config->handle_type);
    }
    if (config->peer_count != 0 && (config->peers == NULL || config->peer_count > 1024)) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: peers is %p with a peer_count of %zu", creating,
                           (const void *)config->peers, config->peer_count);
    }
    return WEIR_OK;
}

weir_status weir_cuda_device_create(const weir_cuda_device_config *config, weir_device **device)
{
    static const weir_cuda_device_config defaults = WEIR_CUDA_DEVICE_CONFIG_INIT;
    weir_cuda_device_config own;
    weir_status status =
        weir_struct_adopt(&own, sizeof(own), config != NULL ? config : &defaults, "weir_cuda_device_create: config");
    if (status == WEIR_OK) {
        status = check(&own, device);
    }
    if (status == WEIR_OK) {
        status = weir__cuda_load(creating);
    }
    if (status != WEIR_OK) {
        return status;
    }
    finish_all();
    CUdevice id = 0;
    const CUresult code = UNCANCELLED(weir__cuda.cuDeviceGet(&id, own.ordinal));
    if (code == CU_ERROR_INVALID_DEVICE) {
        int count = 0;
        (void)weir__cuda.cuDeviceGetCount(&count);
        return weir_refuse(WEIR_ERR_INVALID, "%s: ordinal is %d, and there are %d devices", creating, own.ordinal,
                           count);
    }
    status = weir__cuda_result("cuDeviceGet", code);
    return status == WEIR_OK ? make_device(&own, id, device) : status;
}

weir_status weir_cuda_device_get_info(const weir_device *device, weir_cuda_device_info *info)
{
    const cuda_device *self = weir__cuda_device_of(device);
    if (device == NULL || self == NULL) {
        return weir__native_refuse_device("weir_cuda_device_get_info", device, creating);
    }
    return weir_struct_report(info, &self->facts, sizeof(self->facts), "weir_cuda_device_get_info: info");
}
