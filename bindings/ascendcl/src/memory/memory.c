/* memory.c: aclrtMalloc and its relatives, which take memory from the devices' store (store.c), and facts about memory
 * and pointers. */
#include "memory/memory.h"

#include <string.h>
#include <unistd.h>

enum { PADDING = 32 };

/* --- allocation --- */

static bool is_huge1g(aclrtMemMallocPolicy policy)
{
    return policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
}

static aclError check(void **pointer, size_t size, const char *name)
{
    return pointer != NULL && size != 0
               ? ACL_SUCCESS
               : acl__fail(ACL_ERROR_INVALID_PARAM, "%s: %s", name, pointer == NULL ? "the output is NULL" : "size 0");
}

/* Implements all forms of aclrtMalloc. `device` is -1 or the current device; another device is an error. */
static aclError allocate(void **pointer, size_t size, size_t padding, aclrtMemMallocPolicy policy, int32_t device,
                         const char *name)
{
    WEIR_ASSERT(padding == 0 || padding == PADDING);
    const aclError bad = check(pointer, size, name);
    if (bad != ACL_SUCCESS) {
        return bad;
    }
    const size_t more = PADDING + (is_huge1g(policy) ? 0 : padding);
    ACL_FAIL_IF(size > SIZE_MAX - more, ACL_ERROR_INVALID_PARAM, "%s: the size overflows when padded", name);
    const uint64_t padded = (size + more - 1) / PADDING * PADDING;
    void *address = NULL;
    ACL_HOLD_LOCK();
    ACL_NEED_CONTEXT(context);
    ACL_FAIL_IF(device >= 0 && device != context->device, ACL_ERROR_RT_PARAM_INVALID,
                "%s: device %d is not the current one", name, device);
    ACL_TRY(acl__malloc(context->device, padded, policy, &address));
    *pointer = address;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    ACL_ENTER(aclrtMalloc);
    return allocate(devPtr, size, PADDING, policy, -1, __func__);
}

ACL_EXPORT aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    ACL_ENTER(aclrtMallocAlign32);
    return allocate(devPtr, size, 0, policy, -1, __func__);
}

ACL_EXPORT aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    ACL_ENTER(aclrtMallocCached);
    return allocate(devPtr, size, PADDING, policy, -1, __func__);
}

/* Reads the device from the attributes; *device is unchanged if they name no device. */
static aclError read_attributes(const aclrtMallocConfig *cfg, int32_t *device)
{
    for (size_t i = 0; cfg != NULL && i < cfg->numAttrs; i++) {
        const aclrtMallocAttribute *a = &cfg->attrs[i];
        switch (a->attr) {
        case ACL_RT_MEM_ATTR_RSV:
        case ACL_RT_MEM_ATTR_MODULE_ID:
            break;
        case ACL_RT_MEM_ATTR_DEVICE_ID:
            *device = (int32_t)(a->value.deviceId & INT32_MAX);
            break;
        default: /* the remaining attributes apply to host memory */
            return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocWithCfg: attribute %d is none of device memory",
                             (int)a->attr);
        }
    }
    return ACL_SUCCESS;
}

/* Unlike aclrtMalloc, this function accepts a policy combined with memory types, and pads the size to 32 bytes only. */
ACL_EXPORT aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)
{
    ACL_ENTER(aclrtMallocWithCfg);
    const uint32_t types =
        ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY;
    int32_t device = -1;
    ACL_TRY(check(devPtr, size, __func__));
    ACL_REFUSE_IF(cfg != NULL && cfg->attrs == NULL,
                  cfg->numAttrs > 0 ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_PARAM_INVALID, "the attributes are NULL");
    ACL_TRY(read_attributes(cfg, &device));
    return allocate(devPtr, size, 0, (aclrtMemMallocPolicy)((uint32_t)policy & ~types), device, __func__);
}

/* --- free --- */

/* Frees memory of aclrtMalloc, a block of a memory pool, or, as the vendor's driver does, memory of aclrtMallocHost. */
static aclError free_any(void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    aclError error = ACL_SUCCESS;
    if (acl__mem_pool_free_now(pointer, &error)) {
        return error;
    }
    if (!acl__rt.config.strict && acl__range_at(&acl__rt.host_memory, pointer) != NULL) {
        return acl__host_free(pointer);
    }
    return acl__free(pointer);
}

ACL_EXPORT aclError aclrtFree(void *devPtr)
{
    ACL_ENTER_LOCKED(aclrtFree);
    ACL_NEED(devPtr);
    return free_any(devPtr);
}

ACL_EXPORT aclError aclrtFreeWithDevSync(void *devPtr)
{
    ACL_ENTER_LOCKED(aclrtFreeWithDevSync);
    ACL_NEED(devPtr);
    const acl__range *range = acl__range_at(&acl__rt.device_memory, devPtr);
    const aclError waited = range != NULL ? acl__device_wait(range->device, -1) : ACL_SUCCESS;
    const aclError freed = free_any(devPtr);
    return waited != ACL_SUCCESS ? waited : freed;
}

/* --- facts --- */

/* The part of the memory that an attribute asks for: all, huge pages or normal pages. */
typedef enum share { ALL, HUGE_PAGES, NORMAL_PAGES, NO_SUCH } share;

static share share_of(aclrtMemAttr attr)
{
    switch (attr) {
    case ACL_DDR_MEM:
    case ACL_HBM_MEM:
        return ALL;
    case ACL_DDR_MEM_HUGE:
    case ACL_HBM_MEM_HUGE:
    case ACL_DDR_MEM_P2P_HUGE:
    case ACL_HBM_MEM_P2P_HUGE:
    case ACL_HBM_MEM_HUGE1G:
    case ACL_HBM_MEM_P2P_HUGE1G:
    case ACL_MEM_HUGE:
    case ACL_MEM_HUGE1G:
    case ACL_MEM_P2P_HUGE:
    case ACL_MEM_P2P_HUGE1G:
        return HUGE_PAGES;
    case ACL_DDR_MEM_NORMAL:
    case ACL_HBM_MEM_NORMAL:
    case ACL_DDR_MEM_P2P_NORMAL:
    case ACL_HBM_MEM_P2P_NORMAL:
    case ACL_MEM_NORMAL:
    case ACL_MEM_P2P_NORMAL:
        return NORMAL_PAGES;
    default:
        return NO_SUCH;
    }
}

ACL_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    ACL_ENTER_LOCKED(aclrtGetMemInfo);
    const share part = share_of(attr);
    ACL_NEED(free);
    ACL_NEED(total);
    ACL_REFUSE_IF(part == NO_SUCH, ACL_ERROR_RT_INVALID_MEMORY_TYPE, "there is no attribute %d", (int)attr);
    ACL_NEED_CONTEXT(context);
    const acl__device *device = &acl__rt.devices[context->device];
    const uint64_t other_kind = part == HUGE_PAGES     ? device->held_normal_bytes + device->kept_normal_bytes
                                : part == NORMAL_PAGES ? device->held_huge_bytes + device->kept_huge_bytes
                                                       : 0;
    *free = acl__capacity_free(device);
    *total = acl__rt.config.capacity_bytes - other_kind;
    return ACL_SUCCESS;
}

/* --- attributes of pointers --- */

static void describe_locked(const void *pointer, aclrtPtrAttributes *out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *device = acl__range_at(&acl__rt.device_memory, pointer);
    const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
    if (device != NULL) {
        out->location = (aclrtMemLocation){(uint32_t)device->device, ACL_MEM_LOCATION_TYPE_DEVICE};
        out->pageSize = device->huge ? ACL__HUGE_PAGE : ACL__NORMAL_PAGE;
        if (device->is_host_side) {
            out->location = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_HOST};
            out->pageSize = page;
        }
    } else if (acl__is_pinned(pointer, 1)) {
        out->location = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_HOST};
        out->pageSize = page;
    } else {
        out->location = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
        out->pageSize = page;
    }
}

ACL_EXPORT aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    ACL_ENTER_LOCKED(aclrtPointerGetAttributes);
    ACL_NEED(ptr);
    ACL_NEED(attributes);
    aclrtPtrAttributes found;
    memset(&found, 0, sizeof(found));
    describe_locked(ptr, &found);
    ACL_REFUSE_IF(acl__rt.config.strict && found.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED,
                  ACL_ERROR_RT_PARAM_INVALID, "%p is no memory of the runtime's", ptr);
    *attributes = found;
    return ACL_SUCCESS;
}

/* --- the allocation that contains an address --- */

static bool range_locked(const void *pointer, uint64_t *start, uint64_t *size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    if (range != NULL && range->kind == ACL__POOLED) {
        return acl__mem_pool_block_at(pointer, start, size);
    }
    range = range != NULL ? range : acl__range_at(&acl__rt.host_memory, pointer);
    if (range == NULL || (uint64_t)(uintptr_t)pointer - range->range.start >= range->asked_bytes) {
        return false;
    }
    *start = range->range.start;
    *size = range->asked_bytes;
    return true;
}

ACL_EXPORT aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize)
{
    ACL_ENTER_LOCKED(aclrtMemGetAddressRange);
    ACL_NEED(ptr);
    ACL_REFUSE_IF(pbase == NULL && psize == NULL, ACL_ERROR_RT_PARAM_INVALID, "both outputs are NULL");
    uint64_t start = 0;
    uint64_t size = 0;
    ACL_REFUSE_IF(!range_locked(ptr, &start, &size), ACL_ERROR_RT_PARAM_INVALID, "%p is in no allocation", ptr);
    if (pbase != NULL) {
        *pbase = (void *)(uintptr_t)start;
    }
    if (psize != NULL) {
        *psize = size;
    }
    return ACL_SUCCESS;
}

/* --- caches: the simulated device has none that a program could see --- */

static aclError check_cached(const void *pointer, size_t size, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__range *range = pointer != NULL ? acl__range_at(&acl__rt.device_memory, pointer) : NULL;
    const uint64_t start = (uintptr_t)pointer;
    ACL_FAIL_IF(size == 0, ACL_ERROR_INVALID_PARAM, "%s: size is 0", name);
    ACL_FAIL_IF(range == NULL || range->range.end - start < size, ACL_ERROR_RT_PARAM_INVALID,
                "%s: %zu bytes from %p are not all device memory", name, size, pointer);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemFlush(void *devPtr, size_t size)
{
    ACL_ENTER_LOCKED(aclrtMemFlush);
    ACL_NEED(devPtr);
    return check_cached(devPtr, size, __func__);
}

ACL_EXPORT aclError aclrtMemInvalidate(void *devPtr, size_t size)
{
    ACL_ENTER_LOCKED(aclrtMemInvalidate);
    ACL_NEED(devPtr);
    return check_cached(devPtr, size, __func__);
}

/* Of the cache operations, the simulated device has only the prefetch; later devices have all of them. */
ACL_EXPORT aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream_handle)
{
    ACL_ENTER_LOCKED(aclrtCmoAsync);
    ACL_NEED(src);
    ACL_REFUSE_IF(cmoType != ACL_RT_CMO_TYPE_PREFETCH, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "the device has no operation %d", (int)cmoType);
    ACL_NEED_STREAM(stream, stream_handle);
    return check_cached(src, size, __func__);
}
