/* bindings/cuda/device/src/virtual.c: virtual memory of the driver: addresses, physical handles, mappings, access.
 *
 * Idea: each operation is one call of the driver. Only vm_map also calls cuMemSetAccess, because no device can use a
 * mapping before.
 *
 * Guarantee: if access to a mapping cannot be set, the mapping is removed, if need be by a later call; until then its
 * addresses are not released and its handle is not released, so that the pool counts the memory. All handles of a
 * device are of one kind, so the possible uses of a block's memory do not depend on when the memory was created.
 */
#include "cuda_internal.h"

/* True if the range consists of whole pages. */
static bool is_in_pages(const cuda_device *self, uint64_t address, uint64_t size)
{
    return size != 0 && ((address | size) & (self->info.page_bytes - 1)) == 0;
}

/* True if a mapping that weir could not remove lies in the range or maps the handle. The call then fails with a
 * sentence about it. */
static bool is_mapped_still(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    cuda_device *self = ctx;
    const bool is = weir__leftovers_touch(&self->left, address, size, handle);
    return is && weir_refuse(WEIR_ERR_DEVICE, "cuMemUnmap: a mapping of handle 0x%llx or at 0x%llx is not removed yet",
                             (unsigned long long)handle, (unsigned long long)address) != WEIR_OK;
}

weir_status weir__cuda_vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    cuda_device *self = ctx;
    WEIR_ASSERT(is_in_pages(self, 0, size));
    CUdeviceptr start = 0;
    const weir_status status =
        WITH_MEMORY(self, CUDA(cuMemAddressReserve, &start, (size_t)size, (size_t)self->info.page_bytes, 0, 0));
    if (status == WEIR_OK) {
        *address = start;
    }
    return status;
}

weir_status weir__cuda_vm_release(void *ctx, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(is_in_pages(ctx, address, size));
    return WITH_MEMORY(ctx, is_mapped_still(ctx, address, size, 0) ? WEIR_ERR_DEVICE
                                                                   : CUDA(cuMemAddressFree, address, (size_t)size));
}

weir_status weir__cuda_vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    cuda_device *self = ctx;
    WEIR_ASSERT(is_in_pages(self, 0, size));
    CUmemHandle made = 0;
    const weir_status status = WITH_MEMORY(self, CUDA(cuMemCreate, &made, (size_t)size, &self->prop, 0));
    if (status == WEIR_OK) {
        *handle = made;
    }
    return status;
}

weir_status weir__cuda_vm_destroy(void *ctx, weir_vm_handle handle)
{
    return WITH_MEMORY(ctx, is_mapped_still(ctx, 0, 0, handle) ? WEIR_ERR_DEVICE : CUDA(cuMemRelease, handle));
}

static weir_status unmap_left(void *ctx, weir__leftover *left)
{
    WEIR_ASSERT(is_in_pages(ctx, left->address, left->size));
    (void)ctx;
    return CUDA(cuMemUnmap, left->address, (size_t)left->size);
}

/* Gives the device and its peers access to a new mapping, or removes the mapping. */
static weir_status open_mapping(cuda_device *self, weir__leftover *mapping)
{
    WEIR_ASSERT(self->access_count > 0);
    const CUresult code = UNCANCELLED(
        weir__cuda.cuMemSetAccess(mapping->address, (size_t)mapping->size, self->access, self->access_count));
    if (code == CU_SUCCESS) {
        free(mapping);
        return WEIR_OK;
    }
    (void)weir__leftovers_give(&self->left, self, mapping);
    return weir__cuda_result("cuMemSetAccess", code);
}

static weir_status map(cuda_device *self, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    WEIR_ASSERT(is_in_pages(self, address, size));
    if (is_mapped_still(self, address, size, handle)) {
        return WEIR_ERR_DEVICE;
    }
    weir__leftover *mapping = weir__leftover_new(unmap_left);
    if (mapping == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    mapping->address = address;
    mapping->size = size;
    mapping->handle = handle;
    const weir_status status = CUDA(cuMemMap, address, (size_t)size, 0, handle, 0);
    if (status != WEIR_OK) {
        free(mapping);
        return status;
    }
    return open_mapping(self, mapping);
}

weir_status weir__cuda_vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    return WITH_MEMORY(ctx, map(ctx, address, size, handle));
}

weir_status weir__cuda_vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(is_in_pages(ctx, address, size));
    return WITH_MEMORY(ctx, CUDA(cuMemUnmap, address, (size_t)size));
}

/* --- the kind of handles --- */

/* True if the device has the attribute. An attribute that the driver does not know counts as missing. */
static bool has(const cuda_device *self, int attribute)
{
    int value = 0;
    return UNCANCELLED(weir__cuda.cuDeviceGetAttribute(&value, attribute, self->id)) == CU_SUCCESS && value != 0;
}

static weir_status release_left(void *ctx, weir__leftover *left)
{
    WEIR_ASSERT(left->handle != 0);
    (void)ctx;
    return CUDA(cuMemRelease, left->handle);
}

/* Creates and releases one granule with the properties self->prop. Returns the driver's failure if the driver supports
 * no such granule. */
static weir_status try_kind(cuda_device *self)
{
    size_t page = 0;
    weir__leftover *granule = NULL;
    CUmemHandle handle = 0;
    weir_status status = CUDA(cuMemGetAllocationGranularity, &page, &self->prop, CU_GRANULARITY_MINIMUM);
    if (status == WEIR_OK && (page == 0 || (page & (page - 1)) != 0)) {
        return weir_refuse(WEIR_ERR_DEVICE, "weir_cuda_device_create: cuMemGetAllocationGranularity gave %zu", page);
    }
    if (status == WEIR_OK) {
        granule = weir__leftover_new(release_left);
        status = granule != NULL ? CUDA(cuMemCreate, &handle, page, &self->prop, 0) : WEIR_ERR_NO_MEMORY;
    }
    if (status != WEIR_OK) {
        free(granule);
        return status;
    }
    granule->handle = handle;
    (void)weir__leftovers_give(&self->left, self, granule);
    self->info.page_bytes = page;
    return WEIR_OK;
}

weir_status weir__cuda_find_virtual_memory(cuda_device *self, const weir_cuda_device_config *config)
{
    WEIR_ASSERT((self->info.abilities & WEIR_DEVICE_VIRTUAL_MEMORY) == 0);
    static const struct {
        weir_cuda_handle_type type;
        int native;
        int attribute; /* device attribute that must be set for the handle type; 0 = always supported */
    } kinds[] = {
        {WEIR_CUDA_HANDLE_FABRIC, CU_HANDLE_FABRIC, CU_ATTRIBUTE_FABRIC_HANDLES},
        {WEIR_CUDA_HANDLE_FILE, CU_HANDLE_FILE, CU_ATTRIBUTE_FILE_HANDLES},
        {WEIR_CUDA_HANDLE_NONE, CU_HANDLE_NONE, 0},
    };
    self->facts.handle_type = WEIR_CUDA_HANDLE_NONE;
    self->prop = (CUmemProp){.type = CU_MEMORY_PINNED, .location = {CU_LOCATION_DEVICE, self->id}};
    if ((config->flags & WEIR_CUDA_NO_VIRTUAL_MEMORY) != 0 ||
        (!has(self, CU_ATTRIBUTE_VIRTUAL_MEMORY) && config->handle_type == WEIR_CUDA_HANDLE_BEST)) {
        return WEIR_OK;
    }
    const bool rdma = has(self, CU_ATTRIBUTE_RDMA_WITH_VIRTUAL_MEMORY);
    weir_status status = weir_refuse(WEIR_ERR_UNSUPPORTED, "weir_cuda_device_create: the device has no handle_type %d",
                                     (int)config->handle_type);
    for (size_t i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
        const size_t kind = i / 2;
        const bool with_rdma = i % 2 == 0;
        if ((config->handle_type != WEIR_CUDA_HANDLE_BEST && config->handle_type != kinds[kind].type) ||
            (kinds[kind].attribute != 0 && !has(self, kinds[kind].attribute)) || (with_rdma && !rdma)) {
            continue;
        }
        self->prop.handle_types = kinds[kind].native;
        self->prop.flags.rdma_capable = with_rdma;
        status = try_kind(self);
        if (status == WEIR_OK) {
            self->facts.handle_type = kinds[kind].type;
            self->facts.rdma_capable = with_rdma;
            self->info.abilities |= WEIR_DEVICE_VIRTUAL_MEMORY;
            return WEIR_OK;
        }
    }
    /* A driver may announce virtual memory and refuse each kind of it: the device then has none. */
    return status == WEIR_ERR_UNSUPPORTED && config->handle_type == WEIR_CUDA_HANDLE_BEST ? WEIR_OK : status;
}
