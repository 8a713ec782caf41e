/* store.c: the memory of the devices.
 *
 * A device has one store of bytes. An allocation takes whole pages from it, huge ones of 2 MiB or normal ones of 4 KiB.
 * Bytes held in huge pages are not available to normal ones, and the other way round, so both kinds have the same free
 * memory. A limit counts the bytes, for one process or for all that share the devices. The driver keeps some of the
 * memory that was freed (driver_cache.c). Addresses are regions of the simulator:
 * never handed out twice at a time, first fit, poisoned when fresh, faulting after the free.
 */

#include "base/report.h"
#include "memory/driver_cache.h"

#include "shared/round_up.h"

enum { HUGE1G = 1 << 30 };

/* --- capacity --- */

uint64_t acl__capacity_free(const acl__device *device)
{
    weir_shared_limit_stats stats = WEIR_SHARED_LIMIT_STATS_INIT;
    const weir_status status = weir_shared_limit_get_stats(device->limit, &stats);
    WEIR_ASSERT(status == WEIR_OK);
    (void)status;
    return stats.held_bytes < stats.limit_bytes ? stats.limit_bytes - stats.held_bytes : 0;
}

static bool limit_take(const acl__device *device, uint64_t bytes)
{
    return bytes == 0 || weir_shared_limit_take(device->limit, bytes) == WEIR_OK;
}

static void limit_give(const acl__device *device, uint64_t bytes)
{
    const weir_status status = bytes != 0 ? weir_shared_limit_give(device->limit, bytes) : WEIR_OK;
    WEIR_ASSERT(status == WEIR_OK);
    (void)status;
}

static void hold(acl__device *device, uint64_t bytes, bool huge)
{
    WEIR_ASSERT_HELD(acl__mutex());
    *(huge ? &device->held_huge_bytes : &device->held_normal_bytes) += bytes;
    const uint64_t held = device->held_huge_bytes + device->held_normal_bytes;
    device->peak_bytes = held > device->peak_bytes ? held : device->peak_bytes;
}

bool acl__capacity_take(int32_t number, uint64_t bytes, bool huge)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(number >= 0 && (uint32_t)number < acl__rt.config.devices);
    if (!limit_take(&acl__rt.devices[number], bytes)) {
        return false;
    }
    hold(&acl__rt.devices[number], bytes, huge);
    return true;
}

void acl__capacity_leave(int32_t number, uint64_t bytes, bool huge)
{
    acl__device *device = &acl__rt.devices[number];
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(bytes <= (huge ? device->held_huge_bytes : device->held_normal_bytes));
    *(huge ? &device->held_huge_bytes : &device->held_normal_bytes) -= bytes;
}

void acl__capacity_give(int32_t number, uint64_t bytes, bool huge)
{
    acl__capacity_leave(number, bytes, huge);
    limit_give(&acl__rt.devices[number], bytes);
}

bool acl__runtime_memory_take(acl__device *device)
{
    WEIR_ASSERT_HELD(acl__mutex());
    if (device->runtime_bytes == 0 && limit_take(device, acl__rt.config.runtime_bytes)) {
        device->runtime_bytes = acl__rt.config.runtime_bytes;
    }
    return device->runtime_bytes == acl__rt.config.runtime_bytes;
}

void acl__runtime_memory_give(acl__device *device)
{
    WEIR_ASSERT_HELD(acl__mutex());
    limit_give(device, device->runtime_bytes);
    device->runtime_bytes = 0;
}

static uint64_t *kept_bytes(int32_t number, bool huge)
{
    acl__device *device = &acl__rt.devices[number];
    return huge ? &device->kept_huge_bytes : &device->kept_normal_bytes;
}

/* Counts an allocation of whole pages. Without the driver's cache *piece becomes NULL. The most that the driver may map
 * counts first, since another process may take memory meanwhile. */
static bool pages_take(int32_t number, uint64_t bytes, acl__kind kind, acl__driver_piece **piece)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(bytes > 0);
    const bool huge = acl__kind_is_huge(kind);
    acl__device *device = &acl__rt.devices[number];
    uint64_t mapped = 0;
    *piece = NULL;
    if (!acl__rt.config.driver_cache) {
        return acl__capacity_take(number, bytes, huge);
    }
    const uint64_t most = acl__driver_most(bytes);
    const uint64_t room = limit_take(device, most) ? most : 0;
    *piece = acl__driver_take(number, kind, bytes, room, &mapped);
    if (*piece == NULL) {
        limit_give(device, room);
        return false;
    }
    limit_give(device, room - mapped);
    hold(device, bytes, huge);
    *kept_bytes(number, huge) += mapped - bytes; /* modulo 2^64: below 0 if the driver had kept the memory */
    return true;
}

static void pages_give(int32_t number, uint64_t bytes, bool huge, acl__driver_piece *piece)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__capacity_leave(number, bytes, huge);
    const uint64_t returned = piece != NULL ? acl__driver_give(piece) : bytes;
    *kept_bytes(number, huge) += bytes - returned;
    limit_give(&acl__rt.devices[number], returned);
}

void acl__memory_return(int32_t number)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (int kind = 0; kind < ACL__KINDS; kind++) {
        const uint64_t returned = acl__driver_return(number, (acl__kind)kind);
        *kept_bytes(number, acl__kind_is_huge((acl__kind)kind)) -= returned;
        limit_give(&acl__rt.devices[number], returned);
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

static weir_status take(int32_t device, uint64_t size, struct pages pages, void **pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(size > 0);
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
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(device >= 0 && (uint32_t)device < acl__rt.config.devices);
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
                     (unsigned long long)size, device, (unsigned long long)acl__capacity_free(&acl__rt.devices[device]),
                     (unsigned long long)acl__rt.config.capacity_bytes);
}

/* --- export --- */

/* Takes an allocation out of the driver's cache: the driver may keep its piece as if it were freed, and the allocation
 * counts by itself. Returns false if the device has no room for both. */
static bool leave_driver(acl__range *range, uint64_t bytes)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__device *device = &acl__rt.devices[range->device];
    if (range->owner == NULL) {
        return true;
    }
    const uint64_t twice = acl__driver_keeps(range->owner) ? bytes : 0;
    if (!limit_take(device, twice)) {
        acl__memory_return(range->device);
        if (!limit_take(device, twice)) {
            return false;
        }
    }
    const uint64_t returned = acl__driver_give(range->owner);
    *kept_bytes(range->device, range->huge) += bytes - returned;
    limit_give(device, twice + returned - bytes);
    range->owner = NULL;
    return true;
}

aclError acl__memory_export(acl__range *range, uint64_t *shareable)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(range->kind == ACL__ALLOCATED);
    const uint64_t bytes = range->range.end - range->range.start;
    uint64_t key = 0;
    ACL_FAIL_IF(!leave_driver(range, bytes), ACL_ERROR_RT_MEMORY_ALLOCATION,
                "the export of %llu bytes takes them out of the driver's cache, and device %d has no room",
                (unsigned long long)bytes, (int)range->device);
    ACL_TRY(acl__status(
        weir_sim_export_region(acl__rt.sim, acl__rt.devices[range->device].limit, range->range.start, &key), "export"));
    range->is_common = true;
    *shareable = key * ACL__DEVICES + (uint64_t)range->device;
    return ACL_SUCCESS;
}

/* --- free --- */

static aclError range_free(acl__range *range)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(range->kind == ACL__ALLOCATED);
    const uint64_t bytes = range->range.end - range->range.start;
    const weir_status status = weir_device_region_free(acl__rt.memory, range->range.start, bytes);
    if (status == WEIR_OK && range->is_common) {
        acl__capacity_leave(range->device, bytes, range->huge);
    } else if (status == WEIR_OK) {
        pages_give(range->device, bytes, range->huge, range->owner);
    }
    if (status == WEIR_OK) {
        acl__range_remove(&acl__rt.device_memory, range);
    }
    return acl__status(status, "aclrtFree");
}

aclError acl__free(void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    ACL_FAIL_IF(range == NULL || range->kind != ACL__ALLOCATED || range->range.start != (uint64_t)(uintptr_t)pointer,
                ACL_ERROR_RT_PARAM_INVALID, "aclrtFree: %p is not what aclrtMalloc gave, or was freed", pointer);
    return range_free(range);
}

void acl__memory_reset(int32_t device)
{
    WEIR_ASSERT_HELD(acl__mutex());
    uint64_t bytes = 0;
    uint64_t pieces = 0;
    for (weir__interval *r = weir__intervals_first(&acl__rt.device_memory); r != NULL;) {
        acl__range *range = (acl__range *)(void *)r;
        r = weir__intervals_next(r);
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
