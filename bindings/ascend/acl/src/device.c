/* bindings/ascend/acl/src/device.c: weir_device_ops over the ACL runtime.
 *
 * Idea: each slot is one ACL call, made in the right context. ACL's calls act on the context that is current in the
 * calling thread. Allocation and the creation of events need a context of the right device. Recording an event and
 * waiting for one on a stream need the stream's own context (error 107003 otherwise). Freeing memory, and querying,
 * waiting for and destroying an event need no context.
 *
 * Guarantee: a slot acts on its own device whichever context is current in the calling thread, and restores that
 * context (context.c); only a thread that had no context keeps the device's. After a reset of the device weir passes no
 * address or handle of it to ACL, because the runtime may have reused them for another owner.
 */
#include "acl_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/topology.h>

#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)
/* Strategies need this alignment. The runtime requests it from the driver, although aclrtMalloc promises 64 only; so
 * each region is checked. */
#define REGION_ALIGNMENT_BYTES 512u

/* --- device properties --- */

weir_status weir_acl_device_get_info(const weir_device *device, weir_acl_device_info *info)
{
    static const char function[] = "weir_acl_device_get_info";
    const weir__acl_device *self = device != NULL ? weir__acl_device_of(device) : NULL;
    if (self == NULL) {
        return weir__native_refuse_device(function, device, "weir_acl_device_create");
    }
    weir_acl_device_info facts = WEIR_ACL_DEVICE_INFO_INIT;
    facts.device_id = self->id;
    facts.numa_node = self->info.host_numa_node;
    memcpy(facts.pci_bus_id, self->pci_bus_id, sizeof(facts.pci_bus_id));
    facts.context = self->home;
    facts.default_stream = self->home_stream;
    return weir_struct_report(info, &facts, sizeof(facts), "weir_acl_device_get_info: info");
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const weir__acl_device *self = ctx;
    const size_t size = info->struct_size;
    *info = self->info;
    info->struct_size = size;
    return WEIR_OK;
}

/* --- what earlier calls could not give back --- */

static void finish_all(void);

/* Gives back what earlier calls of the device, and devices that could not be made or ended, have left. */
static void settle(weir__acl_device *self)
{
    finish_all();
    weir__acl_settle(self);
}

/* --- regions --- */

static weir_status free_left(void *owner, weir__leftover *left)
{
    return weir__acl_is_lost(owner) ? WEIR_OK : ACL(aclrtFree, (void *)(uintptr_t)left->address);
}

static weir_status release_left(void *owner, weir__leftover *left)
{
    return weir__acl_is_lost(owner) ? WEIR_OK : ACL(aclrtReleaseMemAddress, (void *)(uintptr_t)left->address);
}

/* Ends a call that has given addresses: keeps them if they begin at a multiple of `alignment`, else gives them back and
 * returns the failure. `left` is the note for that. */
static weir_status keep_aligned(weir__acl_device *self, const char *call, const void *start, uint64_t size,
                                uint64_t alignment, weir__leftover *left)
{
    WEIR_ASSERT((alignment & (alignment - 1)) == 0);
    if (((uintptr_t)start & (alignment - 1)) == 0) {
        free(left);
        return WEIR_OK;
    }
    left->address = (uintptr_t)start;
    left->size = size;
    (void)weir__leftovers_give(&self->left, self, left);
    return weir__acl_result(call, ACL_ERROR_MEMORY_ADDRESS_UNALIGNED);
}

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    weir__acl_device *self = ctx;
    void *start = NULL;
    settle(self);
    weir__leftover *left = weir__leftover_new(free_left);
    if (left == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = IN_CONTEXT(self, ACL(aclrtMallocAlign32, &start, (size_t)size, self->policy));
    if (status != WEIR_OK) {
        free(left);
        return status;
    }
    status = keep_aligned(self, "aclrtMallocAlign32", start, size, REGION_ALIGNMENT_BYTES, left);
    if (status == WEIR_OK) {
        *address = (uintptr_t)start;
    }
    return status;
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    (void)size;
    settle(ctx);
    return weir__acl_is_lost(ctx) ? WEIR_OK : ACL(aclrtFree, (void *)(uintptr_t)address);
}

/* --- virtual memory --- */

/* True if the range consists of whole pages. */
static bool is_in_pages(const weir__acl_device *self, uint64_t address, uint64_t size)
{
    return size != 0 && ((address | size) & (self->info.page_bytes - 1)) == 0;
}

/* Returns the properties of weir's physical memory. The runtime's checks accept no other values, except for the
 * attribute. */
static aclrtPhysicalMemProp physical_prop(const weir__acl_device *self)
{
    WEIR_ASSERT(self->attribute == ACL_MEM_P2P_HUGE || self->attribute == ACL_HBM_MEM_HUGE);
    aclrtPhysicalMemProp prop;
    memset(&prop, 0, sizeof(prop));
    prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
    prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    prop.memAttr = self->attribute;
    prop.location.id = (uint32_t)self->id;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    return prop;
}

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    weir__acl_device *self = ctx;
    void *start = NULL;
    settle(self);
    weir__leftover *left = weir__leftover_new(release_left);
    if (left == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = IN_CONTEXT(self, ACL(aclrtReserveMemAddress, &start, (size_t)size, 0, NULL, 0));
    if (status != WEIR_OK) {
        free(left);
        return status;
    }
    status = keep_aligned(self, "aclrtReserveMemAddress", start, size, self->info.page_bytes, left);
    if (status == WEIR_OK) {
        *address = (uintptr_t)start;
    }
    return status;
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(is_in_pages(ctx, address, size));
    (void)size;
    settle(ctx);
    return weir__acl_is_lost(ctx) ? WEIR_OK : ACL(aclrtReleaseMemAddress, (void *)(uintptr_t)address);
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    WEIR_ASSERT(is_in_pages(ctx, 0, size));
    weir__acl_device *self = ctx;
    settle(self);
    const aclrtPhysicalMemProp prop = physical_prop(self);
    aclrtDrvMemHandle physical = NULL;
    const weir_status status = IN_CONTEXT(self, ACL(aclrtMallocPhysical, &physical, (size_t)size, &prop, 0));
    if (status == WEIR_OK) {
        *handle = (uintptr_t)physical;
    }
    return status;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    settle(ctx);
    return weir__acl_is_lost(ctx) ? WEIR_OK : ACL(aclrtFreePhysical, (aclrtDrvMemHandle)(uintptr_t)handle);
}

/* The device itself may use mapped memory without aclrtMemSetAccess, which gives access to other devices. */
static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    WEIR_ASSERT(is_in_pages(ctx, address, size));
    if (weir__acl_is_lost(ctx)) {
        return weir__acl_result("aclrtMapMem", ACL_ERROR_RT_CONTEXT_NULL);
    }
    return ACL(aclrtMapMem, (void *)(uintptr_t)address, (size_t)size, 0, (aclrtDrvMemHandle)(uintptr_t)handle, 0);
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(is_in_pages(ctx, address, size));
    (void)size;
    return weir__acl_is_lost(ctx) ? WEIR_OK : ACL(aclrtUnmapMem, (void *)(uintptr_t)address);
}

/* --- ordering --- */

/* Creates an event with aclrtCreateEventExWithFlag. As weir_device_ops requires, such an event is complete before its
 * first record, and a wait for it returns at once. */
static weir_status event_create(void *ctx, weir_event **event)
{
    if (weir__acl_is_lost(ctx)) {
        *event = ctx; /* any non-NULL handle: on a lost device all events are complete, and ACL is never called */
        return WEIR_OK;
    }
    aclrtEvent made = NULL;
    const weir_status status = IN_CONTEXT(ctx, ACL(aclrtCreateEventExWithFlag, &made, ACL_EVENT_SYNC));
    if (status == WEIR_OK) {
        *event = made;
    }
    return status;
}

static weir_status event_destroy(void *ctx, weir_event *event)
{
    WEIR_ASSERT(event != NULL);
    return weir__acl_is_lost(ctx) ? WEIR_OK : ACL(aclrtDestroyEvent, event);
}

static weir_status event_query(void *ctx, weir_event *event, bool *complete)
{
    if (weir__acl_is_lost(ctx)) {
        *complete = true; /* all work before the event ended with the device */
        return WEIR_OK;
    }
    aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    const weir_status status = ACL(aclrtQueryEventStatus, event, &recorded);
    if (status == WEIR_OK) {
        *complete = recorded == ACL_EVENT_RECORDED_STATUS_COMPLETE;
    }
    return status;
}

static weir_status event_sync(void *ctx, weir_event *event)
{
    return weir__acl_is_lost(ctx) ? WEIR_OK : ACL(aclrtSynchronizeEvent, event);
}

static aclError record(aclrtStream stream, void *event)
{
    return aclrtRecordEvent(event, stream);
}

static aclError wait_for(aclrtStream stream, void *event)
{
    return aclrtStreamWaitEvent(stream, event);
}

weir_status weir__acl_on_stream(weir__acl_device *self, const char *name, aclError (*call)(aclrtStream, void *),
                                void *native, void *with)
{
    WEIR_ASSERT(call != NULL && with != NULL);
    if (weir__acl_is_lost(self)) {
        return WEIR_OK;
    }
    aclrtStream stream = native != NULL ? native : self->home_stream;
    if (weir__acl_handle_blocked(stream)) {
        return weir__acl_result(name, ACL_ERROR_RT_INVALID_HANDLE);
    }
    weir__acl_bound bound;
    weir_status status = weir__acl_bind(self, &bound);
    if (status != WEIR_OK) {
        return status;
    }
    aclError code = call(stream, with);
    if (code == ACL_ERROR_RT_STREAM_CONTEXT) {
        aclrtContext before = NULL;
        status = weir__acl_read_current(&before);
        weir__acl_place noted = {0};
        (void)weir__acl_noted(stream, &noted);
        const aclrtContext contexts[] = {noted.context, self->home};
        for (int i = 0; i < 2 && code == ACL_ERROR_RT_STREAM_CONTEXT && status == WEIR_OK; i++) {
            if (contexts[i] != NULL && aclrtSetCurrentContext(contexts[i]) == ACL_SUCCESS) {
                bound.now = contexts[i];
                code = call(stream, with);
            }
        }
        bound.before = bound.changed ? bound.before : before;
        bound.changed |= status == WEIR_OK;
    }
    weir__acl_unbind(&bound);
    return status == WEIR_OK ? weir__acl_result(name, code) : status;
}

static weir_status event_record(void *ctx, weir_event *event, void *native_stream)
{
    return weir__acl_on_stream(ctx, "aclrtRecordEvent", record, native_stream, event);
}

static weir_status stream_wait_event(void *ctx, void *native_stream, weir_event *event)
{
    return weir__acl_on_stream(ctx, "aclrtStreamWaitEvent", wait_for, native_stream, event);
}

static weir_status stream_sync(void *ctx, void *native_stream)
{
    const weir__acl_device *self = ctx;
    if (weir__acl_is_lost(self)) {
        return WEIR_OK;
    }
    void *native = native_stream != NULL ? native_stream : self->home_stream;
    weir__acl_place place = {.context = self->home};
    (void)weir__acl_noted(native, &place);
    return weir__acl_sync(native, place.context);
}

static weir_status stream_check(void *ctx, void *native_stream)
{
    const weir__acl_device *self = ctx;
    weir__acl_place place = {0};
    if (weir__acl_is_lost(self) || native_stream == NULL || native_stream == self->home_stream) {
        return WEIR_OK;
    }
    const weir_status status = weir__acl_find("weir_pool_stream", native_stream, &place);
    if (status == WEIR_ERR_INVALID) {
        return weir_refuse(
            status,
            "weir_pool_stream: stream %p is neither of this thread's current context (%p) nor of its device's "
            "primary one; the pool is on ACL device %d",
            native_stream, weir__acl_current(), self->id);
    }
    if (status == WEIR_OK && place.device != self->id) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_pool_stream: stream %p is on ACL device %d, the pool on ACL device %d", native_stream,
                           place.device, self->id);
    }
    return status;
}

/* --- errors, create and destroy --- */

/* Returns true if the device was watched. */
static bool unwatch(weir__acl_device *self)
{
    weir__acl_lock();
    const bool was = self->watched;
    if (was) {
        WEIR_ASSERT(!weir__acl_is_lost(self));
        weir__acl_unwatch_locked(self->home_stream);
        self->watched = false;
    }
    weir__acl_unlock();
    return was;
}

/* Reads the free and all bytes of device memory. A chip without high-bandwidth memory reports 0 bytes of it and has DDR
 * memory. */
static weir_status read_memory(size_t *free_bytes, size_t *total_bytes)
{
    const weir_status status = ACL(aclrtGetMemInfo, ACL_HBM_MEM, free_bytes, total_bytes);
    return status == WEIR_OK && *total_bytes == 0 ? ACL(aclrtGetMemInfo, ACL_DDR_MEM, free_bytes, total_bytes) : status;
}

static weir_status memory_info(void *ctx, uint64_t *free_bytes, uint64_t *total_bytes)
{
    weir__acl_device *self = ctx;
    size_t left = 0;
    size_t total = 0;
    const weir_status status = IN_CONTEXT(self, read_memory(&left, &total));
    *free_bytes = left;
    *total_bytes = total;
    return status;
}

static weir_status native_error(void *ctx, int64_t *code, const char **text)
{
    (void)ctx;
    int found = 0;
    weir__acl_last(&found, text);
    *code = found;
    return WEIR_OK;
}

/* Gives everything back, the reference to the device last, and frees `self`. After a failure `self` stays as it is. */
static weir_status finish(weir__acl_device *self)
{
    WEIR_ASSERT(self->device == NULL);
    const weir__acl_place place = {.context = self->home, .device = self->id};
    aclrtContext before = NULL;
    weir_status status = self->is_set ? weir__acl_read_current(&before) : WEIR_OK;
    if (status != WEIR_OK) {
        return status;
    }
    const bool was_watched = unwatch(self);
    if (!weir__acl_is_lost(self)) {
        /* a reset has dropped weir's reference to the device; any reference now is the program's */
        status = weir__leftovers_retry(&self->left, self);
        status = status == WEIR_OK && self->is_set ? ACL(aclrtResetDevice, self->id) : status;
    }
    if (status == WEIR_OK && before != NULL && before != self->home) {
        weir__acl_restore(before, NULL);
    }
    if (status == WEIR_OK) {
        weir__leftovers_fini(&self->left);
        free(self);
    } else if (was_watched) {
        self->watched = weir__acl_watch(self->home_stream, &place, true) == WEIR_OK;
    }
    return status;
}

/* Tries once more to end the devices that could not be ended. */
static void finish_all(void)
{
    weir__acl_device *failed = NULL;
    for (weir__acl_device *self; (self = weir__acl_take_unfinished()) != NULL;) {
        if (finish(self) != WEIR_OK) {
            self->next = failed;
            failed = self;
        }
    }
    for (weir__acl_device *next; failed != NULL; failed = next) {
        next = failed->next;
        weir__acl_put_unfinished(failed);
    }
    (void)weir__leftovers_retry(&weir__acl_left, NULL);
}

static void end(weir__acl_device *self)
{
    finish_all();
    if (finish(self) != WEIR_OK && finish(self) != WEIR_OK) {
        weir__acl_put_unfinished(self);
    }
}

static void destroy(void *ctx)
{
    WEIR_ASSERT(weir__acl_device_of(((weir__acl_device *)ctx)->device) == ctx);
    weir__acl_device *self = ctx;
    weir__acl_delist(self);
    self->device = NULL;
    end(self);
}

#define COMMON_SLOTS                                                                                                   \
    .struct_size = sizeof(weir_device_ops), .get_info = get_info, .region_alloc = region_alloc,                        \
    .region_free = region_free, .event_create = event_create, .event_destroy = event_destroy,                          \
    .event_record = event_record, .event_query = event_query, .event_sync = event_sync,                                \
    .stream_wait_event = stream_wait_event, .stream_sync = stream_sync, .native_error = native_error,                  \
    .destroy = destroy, .stream_check = stream_check, .stream_capture = weir__acl_stream_capture,                      \
    .memory_info = memory_info, .copy = weir__acl_copy

static const weir_device_ops plain_ops = {COMMON_SLOTS};
static const weir_device_ops virtual_ops = {
    COMMON_SLOTS,           .vm_reserve = vm_reserve, .vm_release = vm_release,
    .vm_create = vm_create, .vm_destroy = vm_destroy, .vm_map = vm_map,
    .vm_unmap = vm_unmap,
};

static weir_status find_capacity(weir__acl_device *self)
{
    size_t unused = 0;
    size_t total = 0;
    const weir_status status = read_memory(&unused, &total);
    self->info.capacity_bytes = total;
    return status;
}

/* Takes the trial page of try_page away: first the mapping, then the memory, then the addresses. The note keeps what is
 * left. */
static weir_status end_trial(void *owner, weir__leftover *left)
{
    void *start = (void *)(uintptr_t)left->address;
    const bool lost = weir__acl_is_lost(owner);
    weir_status status = lost || left->object == NULL ? WEIR_OK : ACL(aclrtUnmapMem, start);
    left->object = status == WEIR_OK ? NULL : left->object;
    if (status == WEIR_OK && left->handle != 0) {
        status = lost ? WEIR_OK : ACL(aclrtFreePhysical, (aclrtDrvMemHandle)(uintptr_t)left->handle);
        left->handle = status == WEIR_OK ? 0 : left->handle;
    }
    return status == WEIR_OK && start != NULL ? release_left(owner, left) : status;
}

/* Maps one page and takes it away again. The runtime may know the granularity while the driver or the firmware refuses
 * the calls. */
static weir_status try_page(weir__acl_device *self)
{
    WEIR_ASSERT(self->info.page_bytes != 0);
    const uint64_t page = self->info.page_bytes;
    weir__leftover *left = weir__leftover_new(end_trial);
    if (left == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    left->size = page;
    weir_status status = vm_reserve(self, page, &left->address);
    if (status == WEIR_OK) {
        status = vm_create(self, page, &left->handle);
    }
    if (status == WEIR_OK) {
        status = vm_map(self, left->address, page, left->handle);
        left->object = status == WEIR_OK ? left : NULL;
    }
    (void)weir__leftovers_give(&self->left, self, left);
    return status;
}

/* Finds out if the device has virtual memory. The lack of it is no failure; neither is a device that is full. */
static weir_status find_pages(weir__acl_device *self)
{
    aclrtPhysicalMemProp prop = physical_prop(self);
    size_t page = 0;
    weir_status status = ACL(aclrtMemGetAllocationGranularity, &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &page);
    if (status == WEIR_OK && page != 0 && (page & (page - 1)) == 0) {
        self->info.page_bytes = page;
        status = try_page(self);
        status = status == WEIR_ERR_NO_MEMORY ? WEIR_OK : status;
        if (status == WEIR_OK) {
            self->info.abilities |= WEIR_DEVICE_VIRTUAL_MEMORY;
        } else {
            self->info.page_bytes = 0;
        }
    }
    return status == WEIR_ERR_UNSUPPORTED ? WEIR_OK : status;
}

/* Weak, because CANN has the function only since 9.2: NULL with an older runtime. */
extern aclError aclrtDeviceGetPCIBusId(int32_t device_id, char *bus_id, int32_t bytes) __attribute__((weak));

/* Finds the PCI address and the NUMA node. Both stay unknown for a device that is not on PCI. */
static void find_place(weir__acl_device *self)
{
    char bus_id[sizeof(self->pci_bus_id)] = "";
    int32_t node = WEIR_NODE_NONE;
    if (aclrtDeviceGetPCIBusId != NULL &&
        UNCANCELLED(aclrtDeviceGetPCIBusId(self->id, bus_id, (int32_t)sizeof(bus_id))) == ACL_SUCCESS) {
        memcpy(self->pci_bus_id, bus_id, sizeof(bus_id));
        self->pci_bus_id[sizeof(bus_id) - 1] = '\0';
        if (weir_topology_device_node(self->pci_bus_id, &node) != WEIR_OK) {
            node = WEIR_NODE_NONE; /* a virtual machine or a container may hide the device's file */
        }
    }
    self->info.host_numa_node = node;
}

/* Fills in the contexts and properties of `self`. The device is current in the calling thread. */
static weir_status find_facts(weir__acl_device *self, const weir_acl_device_config *config)
{
    WEIR_ASSERT(self->id == config->device_id && self->device == NULL);
    weir_status status = ACL(aclrtGetCurrentContext, &self->home);
    if (status == WEIR_OK) {
        status = ACL(aclrtCtxGetCurrentDefaultStream, &self->home_stream);
    }
    self->info.struct_size = sizeof(self->info);
    self->info.region_granularity_bytes = HUGE_PAGE_BYTES;
    self->info.region_alignment_bytes = REGION_ALIGNMENT_BYTES;
    self->info.abilities = WEIR_DEVICE_ORDERED;
    find_place(self);
    if (status == WEIR_OK) {
        status = find_capacity(self);
    }
    if (status == WEIR_OK && (config->flags & WEIR_ACL_NO_VIRTUAL_MEMORY) == 0) {
        status = find_pages(self);
    }
    const char *soc = UNCANCELLED(aclrtGetSocName());
    (void)snprintf(self->info.name, sizeof(self->info.name), "%s device %d", soc != NULL ? soc : "Ascend", self->id);
    return status;
}

static weir__acl_device *new_device(const weir_acl_device_config *config)
{
    static const aclrtMemMallocPolicy policies[][2] = {
        [WEIR_ACL_PAGES_HUGE_FIRST] = {ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_FIRST_P2P},
        [WEIR_ACL_PAGES_HUGE] = {ACL_MEM_MALLOC_HUGE_ONLY, ACL_MEM_MALLOC_HUGE_ONLY_P2P},
        [WEIR_ACL_PAGES_SMALL] = {ACL_MEM_MALLOC_NORMAL_ONLY, ACL_MEM_MALLOC_NORMAL_ONLY_P2P},
    };
    const bool for_peers = (config->flags & WEIR_ACL_PEER_MEMORY) != 0;
    weir__acl_device *self = calloc(1, sizeof(*self));
    if (self != NULL) {
        self->id = config->device_id;
        self->policy = policies[config->pages][for_peers];
        self->attribute = for_peers ? ACL_MEM_P2P_HUGE : ACL_HBM_MEM_HUGE;
        (void)pthread_mutex_init(&self->left.lock, NULL);
    }
    return self;
}

/* The device is current in the calling thread. */
static weir_status make_device(weir__acl_device *self, const weir_acl_device_config *config, weir_device **device)
{
    WEIR_ASSERT(self->is_set && self->device == NULL);
    weir_status status = find_facts(self, config);
    if (status == WEIR_OK) {
        const weir__acl_place place = {.context = self->home, .device = self->id};
        status = weir__acl_watch(self->home_stream, &place, true);
        self->watched = status == WEIR_OK;
        /* a runtime without stream callbacks is accepted; a device reset then goes unnoticed */
        status = status == WEIR_ERR_UNSUPPORTED ? WEIR_OK : status;
    }
    if (status == WEIR_OK) {
        const bool with_pages = (self->info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) != 0;
        status = weir_device_create(with_pages ? &virtual_ops : &plain_ops, self, device);
    }
    if (status == WEIR_OK) {
        weir__acl_enlist(self, *device);
    }
    return status;
}

static const char creating[] = "weir_acl_device_create";

static weir_status check(const weir_acl_device_config *config)
{
    if (config->device_id < 0) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: device_id is %d", creating, config->device_id);
    }
    if ((unsigned)config->memory > WEIR_ACL_MEMORY_HOST) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: memory %d is no weir_acl_memory", creating, (int)config->memory);
    }
    if ((unsigned)config->pages > WEIR_ACL_PAGES_SMALL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: pages %d are no weir_acl_pages", creating, (int)config->pages);
    }
    if ((config->flags & ~(uint32_t)(WEIR_ACL_NO_VIRTUAL_MEMORY | WEIR_ACL_PEER_MEMORY)) != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: flags 0x%x has an unknown flag", creating, config->flags);
    }
    if (config->memory == WEIR_ACL_MEMORY_HOST) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "%s: memory is WEIR_ACL_MEMORY_HOST; a host pool over weir_acl_host_runtime has such memory",
                           creating);
    }
    return WEIR_OK;
}

static weir_status adopt(const weir_acl_device_config *config, weir_acl_device_config *own)
{
    static const weir_acl_device_config defaults = WEIR_ACL_DEVICE_CONFIG_INIT;
    const weir_status status =
        weir_struct_adopt(own, sizeof(*own), config != NULL ? config : &defaults, "weir_acl_device_create: config");
    return status == WEIR_OK ? check(own) : status;
}

static weir_status no_device(int32_t id)
{
    int code = 0;
    const char *text = "";
    weir__acl_last(&code, &text);
    return weir_refuse(WEIR_ERR_INVALID, "%s: device_id %d: %s", creating, id, text);
}

weir_status weir_acl_device_create(const weir_acl_device_config *config, weir_device **device)
{
    weir_acl_device_config own;
    weir_status status = adopt(config, &own);
    if (status != WEIR_OK) {
        return status;
    }
    if (device == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: device is NULL", creating);
    }
    const weir__kept_sentence sentence = weir__sentence_keep();
    finish_all();
    weir__acl_device *self = new_device(&own);
    if (self == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    aclrtContext before = NULL;
    status = weir__acl_read_current(&before);
    const aclError code = status == WEIR_OK ? UNCANCELLED(aclrtSetDevice(own.device_id)) : ACL_SUCCESS;
    status = status == WEIR_OK ? weir__acl_result("aclrtSetDevice", code) : status;
    if (status != WEIR_OK) {
        end(self);
        return code == ACL_ERROR_RT_INVALID_DEVICEID ? no_device(own.device_id) : status;
    }
    self->is_set = true;
    weir_device *made = NULL;
    status = make_device(self, &own, &made);
    const aclrtContext home = self->home;
    if (status != WEIR_OK) {
        end(self);
    }
    if (before != NULL) {
        weir__acl_restore(before, home);
    }
    if (status == WEIR_OK) {
        weir__sentence_restore(&sentence); /* a missing PCI device or missing virtual memory is no failure */
        *device = made;
    }
    return status;
}
