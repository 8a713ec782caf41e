/* fake_memory.c: the double's memory: regions, virtual memory with access by device, pinned host memory, fills and
 * copies. */
#include "fake_internal.h"

#include <stdlib.h>
#include <string.h>

typedef enum { REGION, RESERVED, MAPPED, PHYSICAL, PINNED, REGISTERED } kind;

/* An allocation, a handle or a mapping that the driver gave. */
struct entry {
    struct entry *next;
    kind kind;
    int device;
    uint64_t address; /* PHYSICAL: the address of the entry itself */
    uint64_t size;
    weir_vm_handle handle;
    struct entry *physical; /* MAPPED */
    unsigned access;        /* MAPPED: bits of the devices with access */
    unsigned mapped;        /* PHYSICAL: number of mappings */
    bool released;          /* PHYSICAL: ends with its last mapping */
    void *base;             /* PINNED */
};

/* Memory of cuMemAllocAsync; guarded by the lock. */
static struct {
    uint64_t used;
    uint64_t high;
} pools[FAKE_CUDA_DEVICES];

static struct entry *all;

static struct entry *find_locked(kind wanted, uint64_t address)
{
    struct entry *found = all;
    while (found != NULL && (found->kind != wanted || found->address != address)) {
        found = found->next;
    }
    return found;
}

/* Returns the entry of the wanted kind that contains the address; NULL if there is none. */
static struct entry *find_around_locked(kind wanted, uint64_t address)
{
    struct entry *found = all;
    while (found != NULL &&
           (found->kind != wanted || address < found->address || address - found->address >= found->size)) {
        found = found->next;
    }
    return found;
}

static struct entry *add_locked(kind wanted, int device, uint64_t address, uint64_t size)
{
    struct entry *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        abort();
    }
    *made = (struct entry){.next = all, .kind = wanted, .device = device, .address = address, .size = size};
    all = made;
    return made;
}

static void remove_locked(struct entry *gone)
{
    struct entry **link = &all;
    while (*link != gone) {
        link = &(*link)->next;
    }
    *link = gone->next;
    free(gone);
}

unsigned fake_end_memory(void)
{
    unsigned left = 0;
    (void)pthread_mutex_lock(&fake_lock);
    memset(pools, 0, sizeof(pools));
    while (all != NULL) {
        left++;
        free(all->kind == PINNED ? all->base : NULL);
        remove_locked(all);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return left;
}

static bool reachable_locked(int device, uint64_t address, uint64_t size)
{
    const uint64_t end = address + size;
    while (address < end) {
        const struct entry *region = find_around_locked(REGION, address);
        const struct entry *mapping = region == NULL ? find_around_locked(MAPPED, address) : NULL;
        const struct entry *here = region != NULL ? region : mapping;
        if (here == NULL || (region != NULL && region->device != device) ||
            (mapping != NULL && (mapping->access & 1u << device) == 0)) {
            return false;
        }
        address = here->address + here->size;
    }
    return true;
}

bool fake_reachable(int device, CUdeviceptr address, uint64_t size)
{
    (void)pthread_mutex_lock(&fake_lock);
    const bool is = reachable_locked(device, address, size);
    (void)pthread_mutex_unlock(&fake_lock);
    return is;
}

FAKE_EXPORT bool fake_cuda_reaches(int device, CUdeviceptr address, uint64_t size)
{
    return fake_reachable(device, address, size);
}

/* --- regions --- */

#define FAKE_UNSAFE_IN(name)                                                                                           \
    FAKE_ENTRY_IN(name)                                                                                                \
    do {                                                                                                               \
        const CUresult unsafe_ = fake_unsafe();                                                                        \
        if (unsafe_ != CU_SUCCESS) {                                                                                   \
            return unsafe_;                                                                                            \
        }                                                                                                              \
    } while (0)

static uint64_t page_of(int device)
{
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    return weir_device_get_info(fake_devices[device].device, &info) == WEIR_OK ? info.page_bytes : 0;
}

/* Accepts every size, as the driver does. */
FAKE_EXPORT CUresult cuMemAlloc(CUdeviceptr *address, size_t size)
{
    FAKE_UNSAFE_IN(current);
    uint64_t start = 0;
    size = (size + page_of(current->device) - 1) / page_of(current->device) * page_of(current->device);
    const weir_status status = weir_device_region_alloc(fake_devices[current->device].device, size, &start);
    if (status == WEIR_OK) {
        (void)pthread_mutex_lock(&fake_lock);
        (void)add_locked(REGION, current->device, start, size);
        (void)pthread_mutex_unlock(&fake_lock);
        *address = start;
    }
    return fake_code(status);
}

FAKE_EXPORT CUresult cuMemFree(CUdeviceptr address)
{
    FAKE_UNSAFE_IN(current);
    (void)pthread_mutex_lock(&fake_lock);
    struct entry *region = find_locked(REGION, address);
    CUresult code = CU_ERROR_INVALID_VALUE;
    if (region != NULL) {
        code = fake_code(weir_device_region_free(fake_devices[region->device].device, address, region->size));
        if (code == CU_SUCCESS) {
            remove_locked(region);
        }
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

/* --- virtual memory --- */

FAKE_EXPORT CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemProp *prop, int option)
{
    FAKE_ENTRY();
    if (prop->type != CU_MEMORY_PINNED || prop->location.type != CU_LOCATION_DEVICE || prop->location.id < 0 ||
        prop->location.id >= FAKE_CUDA_DEVICES || option != CU_GRANULARITY_MINIMUM) {
        return CU_ERROR_INVALID_VALUE;
    }
    *bytes = page_of(prop->location.id);
    return CU_SUCCESS;
}

FAKE_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wish,
                                         unsigned long long flags)
{
    FAKE_ENTRY_IN(current);
    uint64_t start = 0;
    if (wish != 0 || flags != 0 || alignment > page_of(current->device)) {
        return CU_ERROR_INVALID_VALUE;
    }
    const weir_status status = weir_device_vm_reserve(fake_devices[current->device].device, size, &start);
    if (status == WEIR_OK) {
        (void)pthread_mutex_lock(&fake_lock);
        (void)add_locked(RESERVED, current->device, start, size);
        (void)pthread_mutex_unlock(&fake_lock);
        *address = start;
    }
    return fake_code(status);
}

FAKE_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    FAKE_ENTRY();
    (void)pthread_mutex_lock(&fake_lock);
    struct entry *reserved = find_locked(RESERVED, address);
    CUresult code = CU_ERROR_INVALID_VALUE;
    if (reserved != NULL && reserved->size == size) {
        code = fake_code(weir_device_vm_release(fake_devices[reserved->device].device, address, size));
        if (code == CU_SUCCESS) {
            remove_locked(reserved);
        }
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

static CUresult check_kind(const CUmemProp *prop)
{
    const bool fabric = (prop->handle_types & CU_HANDLE_FABRIC) != 0;
    if (prop->type != CU_MEMORY_PINNED || prop->location.type != CU_LOCATION_DEVICE || prop->location.id < 0 ||
        prop->location.id >= FAKE_CUDA_DEVICES) {
        return CU_ERROR_INVALID_VALUE;
    }
    if (fabric && (fake_lacks & FAKE_CUDA_FABRIC_REFUSED) != 0) {
        return CU_ERROR_NOT_PERMITTED;
    }
    const bool lacking =
        (fabric && (fake_lacks & FAKE_CUDA_NO_FABRIC) != 0) ||
        ((prop->handle_types & CU_HANDLE_FILE) != 0 && (fake_lacks & FAKE_CUDA_NO_FILE) != 0) ||
        (prop->flags.rdma_capable && (fake_lacks & (FAKE_CUDA_NO_RDMA | FAKE_CUDA_RDMA_REFUSED)) != 0) ||
        (fake_lacks & FAKE_CUDA_NO_VIRTUAL_MEMORY) != 0;
    return lacking ? CU_ERROR_NOT_SUPPORTED : CU_SUCCESS;
}

FAKE_EXPORT CUresult cuMemCreate(CUmemHandle *handle, size_t size, const CUmemProp *prop, unsigned long long flags)
{
    FAKE_UNSAFE_IN(current);
    weir_vm_handle made = 0;
    CUresult code = flags != 0 ? CU_ERROR_INVALID_VALUE : check_kind(prop);
    if (code == CU_SUCCESS) {
        code = fake_code(weir_device_vm_create(fake_devices[prop->location.id].device, size, &made));
    }
    if (code == CU_SUCCESS) {
        (void)pthread_mutex_lock(&fake_lock);
        struct entry *physical = add_locked(PHYSICAL, prop->location.id, 0, size);
        physical->address = (uintptr_t)physical;
        physical->handle = made;
        (void)pthread_mutex_unlock(&fake_lock);
        *handle = physical->address;
    }
    return code;
}

/* Physical memory lives until its handle is released and its last mapping is removed. */
static CUresult end_physical_locked(struct entry *physical)
{
    if (!physical->released || physical->mapped != 0) {
        return CU_SUCCESS;
    }
    const CUresult code = fake_code(weir_device_vm_destroy(fake_devices[physical->device].device, physical->handle));
    remove_locked(physical);
    return code;
}

FAKE_EXPORT CUresult cuMemRelease(CUmemHandle handle)
{
    FAKE_UNSAFE_IN(current);
    (void)pthread_mutex_lock(&fake_lock);
    struct entry *physical = find_locked(PHYSICAL, handle);
    CUresult code = CU_ERROR_INVALID_VALUE;
    if (physical != NULL && !physical->released) {
        physical->released = true;
        code = end_physical_locked(physical);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

FAKE_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemHandle handle,
                              unsigned long long flags)
{
    FAKE_UNSAFE_IN(current);
    (void)pthread_mutex_lock(&fake_lock);
    struct entry *physical = find_locked(PHYSICAL, handle);
    CUresult code = CU_ERROR_INVALID_VALUE;
    if (physical != NULL && !physical->released && offset == 0 && flags == 0 && size == physical->size) {
        code = fake_code(weir_device_vm_map(fake_devices[physical->device].device, address, size, physical->handle));
    }
    if (code == CU_SUCCESS) {
        struct entry *mapping = add_locked(MAPPED, physical->device, address, size);
        mapping->physical = physical;
        physical->mapped++;
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

FAKE_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    FAKE_UNSAFE_IN(current);
    (void)pthread_mutex_lock(&fake_lock);
    struct entry *mapping = find_locked(MAPPED, address);
    CUresult code = CU_ERROR_INVALID_VALUE;
    if (mapping != NULL && mapping->size == size) {
        code = fake_code(weir_device_vm_unmap(fake_devices[mapping->device].device, address, size));
    }
    if (code == CU_SUCCESS) {
        struct entry *physical = mapping->physical;
        remove_locked(mapping);
        physical->mapped--;
        code = end_physical_locked(physical);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

FAKE_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccess *access, size_t count)
{
    FAKE_ENTRY();
    (void)pthread_mutex_lock(&fake_lock);
    struct entry *mapping = find_locked(MAPPED, address);
    CUresult code = mapping != NULL && mapping->size == size && count != 0 ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
    for (size_t i = 0; code == CU_SUCCESS && i < count; i++) {
        if (access[i].location.type != CU_LOCATION_DEVICE || access[i].location.id < 0 ||
            access[i].location.id >= FAKE_CUDA_DEVICES || access[i].flags != CU_ACCESS_READ_WRITE) {
            code = CU_ERROR_INVALID_VALUE;
        } else {
            mapping->access |= 1u << access[i].location.id;
        }
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return code;
}

/* --- pinned host memory --- */

FAKE_EXPORT CUresult cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    FAKE_UNSAFE_IN(current);
    const size_t shift = (fake_lacks & FAKE_CUDA_ODD_HOST) != 0 ? 64 : 0;
    void *base = NULL;
    if ((flags & ~3u) != 0 || posix_memalign(&base, 4096, size + shift) != 0) {
        return flags > 3 ? CU_ERROR_INVALID_VALUE : CU_ERROR_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_lock(&fake_lock);
    add_locked(PINNED, current->device, (uintptr_t)base + shift, size)->base = base;
    (void)pthread_mutex_unlock(&fake_lock);
    *memory = (char *)base + shift;
    return CU_SUCCESS;
}

static CUresult end_host(kind wanted, void *memory)
{
    (void)pthread_mutex_lock(&fake_lock);
    struct entry *found = find_locked(wanted, (uintptr_t)memory);
    if (found != NULL) {
        free(found->base);
        remove_locked(found);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return found != NULL ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemFreeHost(void *memory)
{
    FAKE_UNSAFE_IN(current);
    return end_host(PINNED, memory);
}

FAKE_EXPORT CUresult cuMemHostRegister(void *memory, size_t size, unsigned flags)
{
    FAKE_UNSAFE_IN(current);
    (void)pthread_mutex_lock(&fake_lock);
    const bool known = find_locked(REGISTERED, (uintptr_t)memory) != NULL;
    if (!known && flags <= 3) {
        (void)add_locked(REGISTERED, current->device, (uintptr_t)memory, size);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return known || flags > 3 ? CU_ERROR_INVALID_VALUE : CU_SUCCESS;
}

FAKE_EXPORT CUresult cuMemHostUnregister(void *memory)
{
    FAKE_UNSAFE_IN(current);
    return end_host(REGISTERED, memory);
}

/* --- memory in the order of streams: each block is a region, and a free waits --- */

static void count_in_pool(int device, uint64_t more, uint64_t less)
{
    (void)pthread_mutex_lock(&fake_lock);
    pools[device].used += more;
    pools[device].used -= less;
    pools[device].high = pools[device].used > pools[device].high ? pools[device].used : pools[device].high;
    (void)pthread_mutex_unlock(&fake_lock);
}

static uint64_t size_of_region(CUdeviceptr address)
{
    (void)pthread_mutex_lock(&fake_lock);
    const struct entry *region = find_locked(REGION, address);
    const uint64_t size = region != NULL ? region->size : 0;
    (void)pthread_mutex_unlock(&fake_lock);
    return size;
}

FAKE_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
    (void)stream;
    FAKE_ENTRY_IN(current);
    const CUresult code = cuMemAlloc(address, size);
    if (code == CU_SUCCESS) {
        count_in_pool(current->device, size_of_region(*address), 0);
    }
    return code;
}

FAKE_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    FAKE_ENTRY_IN(current);
    const uint64_t size = size_of_region(address);
    CUresult code = cuStreamSynchronize(stream);
    code = code == CU_SUCCESS ? cuMemFree(address) : code;
    count_in_pool(current->device, 0, code == CU_SUCCESS ? size : 0);
    return code;
}

FAKE_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemPool *pool, CUdevice device)
{
    FAKE_ENTRY();
    *pool = (CUmemPool)(uintptr_t)(device + 1);
    return device >= 0 && device < FAKE_CUDA_DEVICES ? CU_SUCCESS : CU_ERROR_INVALID_DEVICE;
}

FAKE_EXPORT CUresult cuMemPoolSetAttribute(CUmemPool pool, int attribute, void *value)
{
    FAKE_ENTRY();
    if (attribute == CU_POOL_RESERVED_HIGH && *(uint64_t *)value == 0) { /* the one value that the reference allows */
        (void)pthread_mutex_lock(&fake_lock);
        pools[(uintptr_t)pool - 1].high = pools[(uintptr_t)pool - 1].used;
        (void)pthread_mutex_unlock(&fake_lock);
        return CU_SUCCESS;
    }
    return attribute == CU_POOL_RELEASE_THRESHOLD ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemPoolGetAttribute(CUmemPool pool, int attribute, void *value)
{
    FAKE_ENTRY();
    (void)pthread_mutex_lock(&fake_lock);
    *(uint64_t *)value = pools[(uintptr_t)pool - 1].high;
    (void)pthread_mutex_unlock(&fake_lock);
    return attribute == CU_POOL_RESERVED_HIGH ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemPoolTrimTo(CUmemPool pool, size_t keep_bytes)
{
    (void)pool, (void)keep_bytes;
    FAKE_ENTRY();
    return CU_SUCCESS;
}

/* --- fills and copies --- */

/* Returns CU_SUCCESS if a stream of the current context may work on the range. *captured is true if the stream is being
 * captured. */
static CUresult begin_work(CUcontext current, CUstream *stream, CUdeviceptr address, uint64_t size, bool *captured)
{
    *stream = fake_stream(current, *stream);
    const CUresult code = fake_take_work(*stream, captured);
    return code != CU_SUCCESS || fake_reachable((*stream)->context->device, address, size) ? code
                                                                                           : CU_ERROR_ILLEGAL_ADDRESS;
}

FAKE_EXPORT CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t size, CUstream stream)
{
    FAKE_ENTRY_IN(current);
    bool captured = false;
    const CUresult code = begin_work(current, &stream, address, size, &captured);
    return code != CU_SUCCESS || captured ? code
                                          : fake_code(weir_sim_fill(fake_devices[stream->context->device].sim,
                                                                    stream->sim, address, size, value, "fill"));
}

FAKE_EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    FAKE_ENTRY_IN(current);
    bool captured = false;
    const CUresult code = begin_work(current, &stream, from, size, &captured);
    return code != CU_SUCCESS || captured ? code
                                          : fake_code(weir_sim_copy_to_host(fake_devices[stream->context->device].sim,
                                                                            stream->sim, to, from, size, "to host"));
}

FAKE_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    FAKE_ENTRY_IN(current);
    bool captured = false;
    const CUresult code = begin_work(current, &stream, to, size, &captured);
    return code != CU_SUCCESS || captured
               ? code
               : fake_code(weir_sim_copy_from_host(fake_devices[stream->context->device].sim, stream->sim, to, from,
                                                   size, "from host"));
}

FAKE_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    FAKE_ENTRY_IN(current);
    bool captured = false;
    const CUresult code = begin_work(current, &stream, to, size, &captured);
    if (code != CU_SUCCESS || captured) {
        return code;
    }
    return fake_reachable(stream->context->device, from, size)
               ? fake_code(
                     weir_sim_copy(fake_devices[stream->context->device].sim, stream->sim, to, from, size, "copy"))
               : CU_ERROR_ILLEGAL_ADDRESS;
}
