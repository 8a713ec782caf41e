/* memory.c: device memory: aclrtMalloc and its relatives, and the sets of address ranges.
 *
 * A device has one store of bytes. An allocation takes whole pages from it, huge ones of 2 MiB or normal ones of 4 KiB.
 * Bytes held in huge pages are not available to normal ones, and the other way round, so both kinds have the same free
 * memory. The driver keeps some of the memory that was freed (driver_cache.c). Addresses are regions of the simulator:
 * never handed out twice at a time, first fit, poisoned when fresh, faulting after the free.
 */
#include "runtime.h"

#include "driver_cache.h"
#include "report.h"

#include "shared/round_up.h"

#include <string.h>

enum { PADDING = 32, HUGE1G = 1 << 30 };

/* --- ranges --- */

static weir__slab slab = WEIR__SLAB_INIT(acl__range, 0, 64);

acl__range *acl__range_add(weir__sim_ranges *set, acl__range_kind kind, uint64_t start, uint64_t size)
{
    acl__range *range = weir__slab_get(&slab);
    if (range == NULL) {
        return NULL;
    }
    memset(range, 0, sizeof(*range));
    range->range.start = start;
    range->range.end = start + size;
    range->kind = kind;
    weir__sim_ranges_insert(set, &range->range);
    return range;
}

void acl__range_remove(weir__sim_ranges *set, acl__range *range)
{
    weir__sim_ranges_remove(set, &range->range);
    weir__slab_put(&slab, range);
}

acl__range *acl__range_at(const weir__sim_ranges *set, const void *pointer)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    acl__range *range = (acl__range *)(void *)weir__sim_ranges_floor(set, address);
    return range != NULL && address < range->range.end ? range : NULL;
}

/* --- capacity --- */

static uint64_t free_bytes(const acl__device *device)
{
    const uint64_t held = device->held_huge_bytes + device->held_normal_bytes + device->kept_huge_bytes +
                          device->kept_normal_bytes + device->runtime_bytes;
    return held < acl__rt.config.capacity_bytes ? acl__rt.config.capacity_bytes - held : 0;
}

static void hold(acl__device *device, uint64_t bytes, bool huge)
{
    *(huge ? &device->held_huge_bytes : &device->held_normal_bytes) += bytes;
    const uint64_t held = device->held_huge_bytes + device->held_normal_bytes;
    device->peak_bytes = held > device->peak_bytes ? held : device->peak_bytes;
}

bool acl__capacity_take(int32_t number, uint64_t bytes, bool huge)
{
    if (bytes > free_bytes(&acl__rt.devices[number])) {
        return false;
    }
    hold(&acl__rt.devices[number], bytes, huge);
    return true;
}

void acl__capacity_give(int32_t number, uint64_t bytes, bool huge)
{
    acl__device *device = &acl__rt.devices[number];
    *(huge ? &device->held_huge_bytes : &device->held_normal_bytes) -= bytes;
}

static uint64_t *kept_bytes(int32_t number, bool huge)
{
    acl__device *device = &acl__rt.devices[number];
    return huge ? &device->kept_huge_bytes : &device->kept_normal_bytes;
}

/* Counts an allocation of whole pages. Without the driver's cache *piece becomes NULL. */
static bool pages_take(int32_t number, uint64_t bytes, acl__kind kind, acl__driver_piece **piece)
{
    const bool huge = acl__kind_is_huge(kind);
    uint64_t mapped = 0;
    *piece = NULL;
    if (!acl__rt.config.driver_cache) {
        return acl__capacity_take(number, bytes, huge);
    }
    *piece = acl__driver_take(number, kind, bytes, free_bytes(&acl__rt.devices[number]), &mapped);
    if (*piece == NULL) {
        return false;
    }
    hold(&acl__rt.devices[number], bytes, huge);
    *kept_bytes(number, huge) += mapped - bytes; /* modulo 2^64: below 0 if the driver had kept the memory */
    return true;
}

static void pages_give(int32_t number, uint64_t bytes, bool huge, acl__driver_piece *piece)
{
    acl__capacity_give(number, bytes, huge);
    if (piece != NULL) {
        *kept_bytes(number, huge) += bytes - acl__driver_give(piece);
    }
}

void acl__memory_return(int32_t number)
{
    for (int kind = 0; kind < ACL__KINDS; kind++) {
        *kept_bytes(number, acl__kind_is_huge((acl__kind)kind)) -= acl__driver_return(number, (acl__kind)kind);
    }
}

/* --- allocation --- */

/* The pages that an allocation policy asks for. */
struct pages {
    uint64_t bytes; /* size of a page */
    acl__kind kind;
    bool or_normal; /* take normal pages if the request for huge ones fails */
};

/* A value that is no policy, such as the bare memory type 0x1000, means the default policy. */
static struct pages pages_for(aclrtMemMallocPolicy policy, uint64_t size)
{
    const bool first_huge = size > ACL__HUGE_THRESHOLD;
    switch ((uint32_t)policy) {
    case ACL_MEM_MALLOC_HUGE_ONLY:
        return (struct pages){ACL__HUGE_PAGE, ACL__HUGE, false};
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
        return (struct pages){ACL__HUGE_PAGE, ACL__HUGE_P2P, false};
    case ACL_MEM_MALLOC_NORMAL_ONLY:
        return (struct pages){ACL__NORMAL_PAGE, ACL__NORMAL, false};
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
        return (struct pages){ACL__NORMAL_PAGE, ACL__NORMAL_P2P, false};
    case ACL_MEM_MALLOC_HUGE1G_ONLY:
        return (struct pages){HUGE1G, ACL__HUGE, false};
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
        return (struct pages){HUGE1G, ACL__HUGE_P2P, false};
    case ACL_MEM_MALLOC_HUGE_FIRST_P2P:
        return first_huge ? (struct pages){ACL__HUGE_PAGE, ACL__HUGE_P2P, true}
                          : (struct pages){ACL__NORMAL_PAGE, ACL__NORMAL_P2P, false};
    default:
        return first_huge ? (struct pages){ACL__HUGE_PAGE, ACL__HUGE, true}
                          : (struct pages){ACL__NORMAL_PAGE, ACL__NORMAL, false};
    }
}

static bool is_huge1g(aclrtMemMallocPolicy policy)
{
    return policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
}

static weir_status take(int32_t device, uint64_t size, struct pages pages, void **pointer)
{
    if (size > UINT64_MAX - pages.bytes) {
        return WEIR_ERR_NO_MEMORY;
    }
    const uint64_t bytes = round_up(size, pages.bytes);
    const bool huge = acl__kind_is_huge(pages.kind);
    acl__driver_piece *piece = NULL;
    uint64_t address = 0;
    if (!pages_take(device, bytes, pages.kind, &piece)) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = weir_device_region_alloc(acl__rt.memory, bytes, &address);
    acl__range *range =
        status == WEIR_OK ? acl__range_add(&acl__rt.device_memory, ACL__ALLOCATED, address, bytes) : NULL;
    if (range == NULL) {
        if (status == WEIR_OK) {
            (void)weir_device_region_free(acl__rt.memory, address, bytes);
            status = WEIR_ERR_NO_MEMORY;
        }
        pages_give(device, bytes, huge, piece);
        return status;
    }
    range->device = device;
    range->huge = huge;
    range->asked_bytes = size;
    range->owner = piece;
    *pointer = (void *)(uintptr_t)address;
    return WEIR_OK;
}

aclError acl__malloc(int32_t device, uint64_t size, aclrtMemMallocPolicy policy, void **pointer)
{
    struct pages pages = pages_for(policy, size);
    weir_status status = take(device, size, pages, pointer);
    if (status != WEIR_OK && pages.or_normal) {
        pages.bytes = ACL__NORMAL_PAGE;
        pages.kind = pages.kind == ACL__HUGE ? ACL__NORMAL : ACL__NORMAL_P2P;
        status = take(device, size, pages, pointer);
    }
    if (status == WEIR_OK) {
        return ACL_SUCCESS;
    }
    return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                     "out of memory: %llu bytes asked of device %d, which has %llu of %llu left",
                     (unsigned long long)size, device, (unsigned long long)free_bytes(&acl__rt.devices[device]),
                     (unsigned long long)acl__rt.config.capacity_bytes);
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

static aclError range_free(acl__range *range)
{
    const uint64_t bytes = range->range.end - range->range.start;
    const weir_status status = weir_device_region_free(acl__rt.memory, range->range.start, bytes);
    if (status == WEIR_OK) {
        pages_give(range->device, bytes, range->huge, range->owner);
        acl__range_remove(&acl__rt.device_memory, range);
    }
    return acl__status(status, "aclrtFree");
}

/* Frees memory of aclrtMalloc, a block of a memory pool, or, as the vendor's driver does, memory of aclrtMallocHost. */
aclError acl__free(void *pointer)
{
    aclError error = ACL_SUCCESS;
    if (acl__mem_pool_free_now(pointer, &error)) {
        return error;
    }
    if (!acl__rt.config.strict && acl__range_at(&acl__rt.host_memory, pointer) != NULL) {
        return acl__host_free(pointer);
    }
    acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    ACL_FAIL_IF(range == NULL || range->kind != ACL__ALLOCATED || range->range.start != (uint64_t)(uintptr_t)pointer,
                ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is not what aclrtMalloc gave, or was freed", pointer);
    return range_free(range);
}

ACL_EXPORT aclError aclrtFree(void *devPtr)
{
    ACL_ENTER_LOCKED(aclrtFree);
    ACL_NEED(devPtr);
    return acl__free(devPtr);
}

ACL_EXPORT aclError aclrtFreeWithDevSync(void *devPtr)
{
    ACL_ENTER_LOCKED(aclrtFreeWithDevSync);
    ACL_NEED(devPtr);
    const acl__range *range = acl__range_at(&acl__rt.device_memory, devPtr);
    const aclError waited = range != NULL ? acl__device_wait(range->device, -1) : ACL_SUCCESS;
    const aclError freed = acl__free(devPtr);
    return waited != ACL_SUCCESS ? waited : freed;
}

void acl__memory_reset(int32_t device)
{
    uint64_t bytes = 0;
    uint64_t pieces = 0;
    for (weir__sim_range *r = weir__sim_ranges_first(&acl__rt.device_memory); r != NULL;) {
        acl__range *range = (acl__range *)(void *)r;
        r = weir__sim_ranges_next(r);
        if (range->kind == ACL__ALLOCATED && range->device == device) {
            bytes += range->range.end - range->range.start;
            pieces++;
            (void)range_free(range);
        }
    }
    if (pieces > 0) {
        acl__report_left_behind(bytes, pieces);
    }
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
    *free = free_bytes(device);
    *total = acl__rt.config.capacity_bytes - other_kind;
    return ACL_SUCCESS;
}

/* --- the auditor --- */

void acl__announce_alloc(const void *pointer, uint64_t size, acl__stream *stream, const char *tag)
{
    weir_sim_block_alloc(acl__rt.sim, (uint64_t)(uintptr_t)pointer, size, stream->sim, tag);
}

void acl__announce_free(const void *pointer, acl__stream *stream, const char *tag)
{
    weir_sim_block_free(acl__rt.sim, (uint64_t)(uintptr_t)pointer, stream->sim, tag);
}

/* --- caches: the simulated device has none that a program could see --- */

static aclError check_cached(const void *pointer, size_t size, const char *name)
{
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
