/* virtual.c: reserved addresses, physical memory, and mappings of one into the other.
 *
 * Idea: the simulator implements all three: it refuses the calls that a device refuses, and an address without memory
 * faults. This file adds the vendor's rules. Reservations have a set of their own. Mappings are members of the set of
 * device memory, so that a copy finds them like any allocation. A handle is the address of a descriptor in a slab,
 * which tells a stale handle from a live one.
 *
 * Guarantee: a call that fails has changed nothing. Physical memory counts against its device's capacity from its
 * creation until the simulator has taken it back; memory on the host's side counts against no device. Memory that was
 * freed while it was mapped is destroyed together with its last mapping. If the device refuses that, the memory is kept
 * and destroyed later.
 *
 * The codes are those of the vendor's driver: a call that its user-space part refuses is 107000, and one that its
 * kernel module refuses is 507899. A reservation takes any size, which is rounded up; strict mode refuses a size that
 * is no multiple of the page.
 */
#include "memory/memory.h"

#include <string.h>

enum { PAGE = ACL__HUGE_PAGE, GIB = 1 << 30, UNUSED = -2, HOST_SIDE = -1 };

struct reservation {
    weir__interval range; /* first member */
    int32_t maker;        /* device that was current at the reservation; -1: none */
    int32_t side;         /* UNUSED before the first mapping; then the mapped memory's device, or HOST_SIDE */
    uint32_t mappings;
};

struct physical {
    void *link; /* used by the slab */
    struct physical *next;
    struct physical *previous;
    uint64_t size;
    uint64_t granularity;
    weir_vm_handle memory;
    aclrtMemLocation location;
    int32_t maker;
    uint32_t references;   /* the creation and each retain add one; 0: the program's handle is no longer valid */
    uint32_t mappings;     /* number of addresses at which the memory is mapped */
    uint64_t shareable;    /* 0: not exported */
    uint64_t key;          /* of the simulator's export to other processes; 0: none */
    bool open_to_all;      /* exported for every process */
    bool is_import;        /* memory of another process */
    int32_t import_device; /* the device that an import is for */
};

static weir__slab reservations_slab = WEIR__SLAB_INIT(struct reservation, 0, 16);
static weir__slab physicals_slab = WEIR__SLAB_INIT(struct physical, 0, 64);
static weir__intervals reservations;
static struct physical *first_physical;
static uint64_t host_side_bytes;
static uint64_t last_shareable;

static uint64_t round_up(uint64_t size, uint64_t granularity)
{
    WEIR_ASSERT(granularity > 0 && (granularity & (granularity - 1)) == 0);
    return size > UINT64_MAX - granularity ? 0 : (size + granularity - 1) / granularity * granularity;
}

static bool is_device_id(uint64_t id)
{
    return id < acl__rt.config.devices;
}

static int32_t current_device(void)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const acl__context *context = acl__context_current();
    return context != NULL ? context->device : -1;
}

static bool is_on_device(const struct physical *p)
{
    return p->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
}

/* --- reservations --- */

static struct reservation *reservation_at(uint64_t address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    weir__interval *r = weir__intervals_floor(&reservations, address);
    return r != NULL && r->end > address ? (struct reservation *)(void *)r : NULL;
}

bool acl__virtual_is_reserved(const void *pointer)
{
    return reservation_at((uintptr_t)pointer) != NULL;
}

/* Refuses a fixed address. The vendor's driver has a window for fixed addresses; on the host of the simulator this
 * window may be in use. */
static aclError check_expected(const void *expected, uint64_t size)
{
    const uint64_t address = (uintptr_t)expected;
    const uint64_t tib = UINT64_C(1) << 40;
    uint64_t alignment = PAGE;
    while (alignment < size && alignment < GIB) {
        alignment *= 2;
    }
    ACL_FAIL_IF(address % alignment != 0, ACL_ERROR_RT_PARAM_INVALID,
                "aclrtReserveMemAddress: %p is no multiple of %llu", expected, (unsigned long long)alignment);
    ACL_FAIL_IF(address < 18 * tib + tib / 4 * 3 || address >= 24 * tib, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "aclrtReserveMemAddress: %p is outside the window from 18.75 TiB to 24 TiB", expected);
    return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtReserveMemAddress: a fixed address is not simulated");
}

static aclError reserve(uint64_t size, const char *name, uint64_t *address)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(size > 0 && size % PAGE == 0);
    struct reservation *r = weir__slab_get(&reservations_slab);
    ACL_FAIL_IF(r == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory", name);
    const aclError error = acl__status(weir_device_vm_reserve(acl__rt.memory, size, address), name);
    if (error != ACL_SUCCESS) {
        weir__slab_put(&reservations_slab, r);
        return error;
    }
    *r = (struct reservation){
        .range = {.start = *address, .end = *address + size}, .maker = current_device(), .side = UNUSED};
    weir__intervals_insert(&reservations, &r->range);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                           uint64_t flags)
{
    ACL_ENTER_LOCKED(aclrtReserveMemAddress);
    ACL_NEED(virPtr);
    ACL_REFUSE_IF(size == 0, ACL_ERROR_INVALID_PARAM, "the size is 0");
    ACL_REFUSE_IF(flags > 1, ACL_ERROR_INVALID_PARAM, "flags must be 0 or 1");
    ACL_REFUSE_IF(alignment != 0, ACL_ERROR_RT_PARAM_INVALID, "the alignment must be 0");
    if (expectPtr != NULL) {
        return check_expected(expectPtr, size);
    }
    ACL_REFUSE_IF(acl__rt.config.strict && size % PAGE != 0, ACL_ERROR_RT_PARAM_INVALID,
                  "%zu bytes are no multiple of %d", size, (int)PAGE);
    /* Leave room for a mapping with 1 GiB pages, whose size is rounded up to whole pages. */
    const uint64_t rounded = round_up(size, size >= GIB ? GIB : PAGE);
    ACL_REFUSE_IF(rounded == 0, ACL_ERROR_RT_MEMORY_ALLOCATION, "there are no %zu bytes of addresses", size);
    uint64_t address = 0;
    ACL_TRY(reserve(rounded, __func__, &address));
    *virPtr = (void *)(uintptr_t)address;
    return ACL_SUCCESS;
}

static aclError release_locked(const void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct reservation *r = reservation_at((uintptr_t)pointer);
    ACL_FAIL_IF(r == NULL || r->range.start != (uintptr_t)pointer, ACL_ERROR_RT_PARAM_INVALID,
                "aclrtReleaseMemAddress: %p is not the start of a reservation", pointer);
    ACL_FAIL_IF(r->mappings > 0, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "aclrtReleaseMemAddress: %u mappings in it have to be undone before", r->mappings);
    const uint64_t size = r->range.end - r->range.start;
    ACL_TRY(acl__status(weir_device_vm_release(acl__rt.memory, r->range.start, size), "aclrtReleaseMemAddress"));
    weir__intervals_remove(&reservations, &r->range);
    weir__slab_put(&reservations_slab, r);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtReleaseMemAddress(void *virPtr)
{
    ACL_ENTER_LOCKED(aclrtReleaseMemAddress);
    ACL_NEED(virPtr);
    return release_locked(virPtr);
}

/* --- properties of physical memory --- */

typedef enum attribute_sides { NOWHERE = 0, ON_HOST = 1, ON_DEVICE = 2, ANYWHERE = 3 } attribute_sides;

/* Returns if memory with the attribute can lie on the host, on a device or on both, and stores the granularity.
 * NOWHERE: the attribute is not for physical memory. */
static attribute_sides sides_of(aclrtMemAttr attribute, uint64_t *granularity)
{
    *granularity = PAGE;
    switch (attribute) {
    case ACL_DDR_MEM_HUGE:
    case ACL_DDR_MEM_NORMAL:
    case ACL_DDR_MEM_P2P_HUGE:
    case ACL_DDR_MEM_P2P_NORMAL:
        return ON_HOST;
    case ACL_HBM_MEM_HUGE:
    case ACL_HBM_MEM_NORMAL: /* the vendor uses huge pages for this attribute, too */
    case ACL_MEM_NORMAL:
    case ACL_MEM_HUGE:
    case ACL_MEM_P2P_NORMAL:
    case ACL_MEM_P2P_HUGE:
        return ANYWHERE;
    case ACL_HBM_MEM_HUGE1G:
    case ACL_MEM_HUGE1G:
    case ACL_MEM_P2P_HUGE1G:
        *granularity = GIB;
        return ON_DEVICE;
    default:
        return NOWHERE;
    }
}

/* Checks the location and the attribute of `prop`, which is not NULL. */
static aclError check_property(const aclrtPhysicalMemProp *prop, const char *name, uint64_t *granularity)
{
    const aclrtMemLocationType type = prop->location.type;
    const attribute_sides sides = sides_of(prop->memAttr, granularity);
    ACL_FAIL_IF(sides == NOWHERE, ACL_ERROR_INVALID_PARAM, "%s: memory attribute %d is not for physical memory", name,
                (int)prop->memAttr);
    ACL_FAIL_IF(type == ACL_MEM_LOCATION_TYPE_DEVICE && sides == ON_HOST, ACL_ERROR_INVALID_PARAM,
                "%s: memory attribute %d is not for a device", name, (int)prop->memAttr);
    if (type == ACL_MEM_LOCATION_TYPE_DEVICE) {
        return is_device_id(prop->location.id)
                   ? ACL_SUCCESS
                   : acl__fail(ACL_ERROR_RT_INVALID_DEVICEID, "%s: there is no device %u", name, prop->location.id);
    }
    ACL_FAIL_IF(type != ACL_MEM_LOCATION_TYPE_HOST && type != ACL_MEM_LOCATION_TYPE_HOST_NUMA,
                ACL_ERROR_RT_PARAM_INVALID, "%s: %d is no location of physical memory", name, (int)type);
    ACL_FAIL_IF(sides == ON_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: pages of 1 GiB are for devices only", name);
    ACL_FAIL_IF(type == ACL_MEM_LOCATION_TYPE_HOST && prop->location.id != 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: the host's number is 0", name);
    const uint32_t nodes = acl__rt.config.numa_nodes > 0 ? (uint32_t)acl__rt.config.numa_nodes : 0;
    ACL_FAIL_IF(type == ACL_MEM_LOCATION_TYPE_HOST_NUMA && nodes > 0 && prop->location.id >= nodes,
                ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: there is no NUMA node %u", name, prop->location.id);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
                                                     size_t *granularity)
{
    ACL_ENTER(aclrtMemGetAllocationGranularity);
    ACL_NEED(prop);
    ACL_NEED(granularity);
    uint64_t bytes = 0;
    ACL_TRY(check_property(prop, __func__, &bytes));
    ACL_REFUSE_IF(option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED,
                  ACL_ERROR_RT_PARAM_INVALID, "there is no option %d", (int)option);
    *granularity = bytes;
    return ACL_SUCCESS;
}

/* --- physical memory --- */

/* Sets the simulator's capacity to that of all devices plus the memory on the host's side, which uses none of a
 * device's capacity. */
static void give_host_room(void)
{
    weir_sim_set_capacity(acl__rt.sim, acl__rt.config.capacity_bytes * acl__rt.config.devices + host_side_bytes);
}

static bool room_take(const aclrtMemLocation *location, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(size > 0);
    if (location->type == ACL_MEM_LOCATION_TYPE_DEVICE) {
        return acl__capacity_take((int32_t)location->id, size, true);
    }
    if (!acl__host_take(size)) {
        return false;
    }
    host_side_bytes += size;
    give_host_room();
    return true;
}

static void room_give(const aclrtMemLocation *location, uint64_t size)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(location->type == ACL_MEM_LOCATION_TYPE_DEVICE || size <= host_side_bytes);
    if (location->type == ACL_MEM_LOCATION_TYPE_DEVICE) {
        acl__capacity_give((int32_t)location->id, size, true);
    } else {
        acl__host_give(size);
        host_side_bytes -= size;
        give_host_room();
    }
}

/* Destroys physical memory without references and mappings. If the device refuses, the memory is kept. */
static weir_status physical_end(struct physical *p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(p->references == 0 && p->mappings == 0);
    const weir_status status = weir_device_vm_destroy(acl__rt.memory, p->memory);
    if (status != WEIR_OK) {
        return status;
    }
    if (p->key != 0) {
        acl__capacity_leave((int32_t)p->location.id, p->size, true);
    } else if (!p->is_import) {
        room_give(&p->location, p->size);
    }
    ACL_LIST_REMOVE(first_physical, p);
    weir__slab_put(&physicals_slab, p);
    return WEIR_OK;
}

/* Tries again to destroy memory that the device refused to take back. */
static void end_orphans(void)
{
    for (struct physical *p = first_physical; p != NULL;) {
        struct physical *next = p->next;
        if (p->references == 0 && p->mappings == 0) {
            (void)physical_end(p);
        }
        p = next;
    }
}

static aclError physical_of(aclrtDrvMemHandle handle, const char *name, struct physical **p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    *p = handle;
    ACL_FAIL_IF(!weir__slab_owns(&physicals_slab, handle) || (*p)->references == 0, ACL_ERROR_RT_INVALID_HANDLE,
                "%s: %p is no handle of physical memory", name, handle);
    return ACL_SUCCESS;
}

static aclError malloc_physical(uint64_t size, uint64_t granularity, const aclrtPhysicalMemProp *prop,
                                aclrtDrvMemHandle *handle)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(size % granularity == 0);
    end_orphans();
    ACL_FAIL_IF(size == 0 || !room_take(&prop->location, size), ACL_ERROR_RT_MEMORY_ALLOCATION,
                "aclrtMallocPhysical: there are no %llu bytes free", (unsigned long long)size);
    struct physical *p = weir__slab_get(&physicals_slab);
    weir_vm_handle memory = 0;
    const weir_status status = p != NULL ? weir_device_vm_create(acl__rt.memory, size, &memory) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        if (p != NULL) {
            weir__slab_put(&physicals_slab, p);
        }
        room_give(&prop->location, size);
        return acl__status(status, "aclrtMallocPhysical");
    }
    *p = (struct physical){.size = size,
                           .granularity = granularity,
                           .memory = memory,
                           .location = prop->location,
                           .maker = current_device(),
                           .references = 1};
    ACL_LIST_ADD(first_physical, p);
    *handle = p;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop,
                                        uint64_t flags)
{
    ACL_ENTER_LOCKED(aclrtMallocPhysical);
    ACL_NEED(handle);
    ACL_NEED(prop);
    ACL_REFUSE_IF(size == 0, ACL_ERROR_INVALID_PARAM, "the size is 0");
    ACL_REFUSE_IF(flags != 0, ACL_ERROR_INVALID_PARAM, "flags must be 0");
    ACL_REFUSE_IF(prop->handleType != ACL_MEM_HANDLE_TYPE_NONE ||
                      prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED,
                  ACL_ERROR_INVALID_PARAM, "the handle type must be NONE, the allocation type PINNED");
    ACL_REFUSE_IF(prop->location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED ||
                      prop->location.type == ACL_MEM_LOCATION_TYPE_MANAGED,
                  ACL_ERROR_INVALID_PARAM, "physical memory is on a device or on the host");
    uint64_t granularity = 0;
    ACL_TRY(check_property(prop, __func__, &granularity));
    ACL_REFUSE_IF(prop->reserve != 0, ACL_ERROR_RT_PARAM_INVALID, "the reserved member must be 0");
    ACL_REFUSE_IF(granularity == PAGE && size % PAGE != 0, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                  "%zu bytes are no multiple of %d", size, (int)PAGE);
    acl__context *context = NULL;
    if (prop->location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA) {
        ACL_TRY(acl__context_need(&context));
    }
    return malloc_physical(round_up(size, granularity), granularity, prop, handle);
}

ACL_EXPORT aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    ACL_ENTER_LOCKED(aclrtFreePhysical);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "the handle is NULL");
    struct physical *p = NULL;
    ACL_TRY(physical_of(handle, __func__, &p));
    if (p->references > 1 || p->mappings > 0) {
        p->references--;
        return ACL_SUCCESS;
    }
    p->references = 0;
    const weir_status status = physical_end(p);
    if (status != WEIR_OK) {
        p->references = 1;
    }
    return acl__status(status, __func__);
}

/* --- mappings --- */

/* Finds the reservation that a mapping goes into, and checks the addresses. */
static aclError check_place(uint64_t address, uint64_t size, const struct physical *p, struct reservation **in)
{
    struct reservation *r = reservation_at(address);
    const int32_t side = is_on_device(p) ? (int32_t)p->location.id : HOST_SIDE;
    WEIR_ASSERT(p->references > 0 && size == p->size);
    ACL_FAIL_IF(r == NULL || r->range.end - address < size, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "aclrtMapMem: %llu bytes at %#llx are not all reserved", (unsigned long long)size,
                (unsigned long long)address);
    ACL_FAIL_IF(address % PAGE != 0, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "aclrtMapMem: %#llx is no multiple of the granularity", (unsigned long long)address);
    const weir__interval *mapped = weir__intervals_after(&acl__rt.device_memory, address);
    ACL_FAIL_IF(mapped != NULL && mapped->start < address + size, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "aclrtMapMem: %#llx has memory already", (unsigned long long)mapped->start);
    ACL_FAIL_IF(r->side != UNUSED && r->side != side, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "aclrtMapMem: the first memory in the reservation was of %s %d",
                r->side == HOST_SIDE ? "host" : "device", r->side == HOST_SIDE ? 0 : r->side);
    *in = r;
    return ACL_SUCCESS;
}

/* Maps the whole of a handle in the reservation. */
static aclError map(uint64_t address, struct physical *p, struct reservation *r, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__range *range = acl__range_add(&acl__rt.device_memory, ACL__MAPPED, address, p->size);
    ACL_FAIL_IF(range == NULL, ACL_ERROR_RT_MEMORY_ALLOCATION, "%s: no host memory", name);
    const aclError error = acl__status(weir_device_vm_map(acl__rt.memory, address, p->size, p->memory), name);
    if (error != ACL_SUCCESS) {
        acl__range_remove(&acl__rt.device_memory, range);
        return error;
    }
    range->device = is_on_device(p) ? (int32_t)p->location.id : 0;
    range->is_host_side = !is_on_device(p);
    range->huge = true;
    range->asked_bytes = p->size;
    range->owner = p;
    range->open_to = p->is_import ? 1u << p->import_device : 0;
    p->mappings++;
    r->mappings++;
    r->side = is_on_device(p) ? range->device : HOST_SIDE;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
{
    ACL_ENTER_LOCKED(aclrtMapMem);
    ACL_NEED(virPtr);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "the handle is NULL");
    ACL_REFUSE_IF(size == 0, ACL_ERROR_INVALID_PARAM, "the size is 0");
    ACL_REFUSE_IF(flags != 0, ACL_ERROR_INVALID_PARAM, "flags must be 0");
    ACL_REFUSE_IF(offset != 0, ACL_ERROR_RT_PARAM_INVALID, "the offset must be 0");
    const uint64_t address = (uintptr_t)virPtr;
    struct physical *p = NULL;
    ACL_TRY(physical_of(handle, __func__, &p));
    ACL_REFUSE_IF(size != p->size, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%llu bytes are not the whole of the handle's %llu",
                  (unsigned long long)size, (unsigned long long)p->size);
    struct reservation *r = NULL;
    ACL_TRY(check_place(address, p->size, p, &r));
    return map(address, p, r, __func__);
}

/* Returns the mapping that starts at an address, or NULL. */
static acl__range *mapping_at(const void *pointer)
{
    WEIR_ASSERT_HELD(acl__mutex());
    acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    return range != NULL && range->kind == ACL__MAPPED && range->range.start == (uintptr_t)pointer ? range : NULL;
}

static aclError unmap(acl__range *range)
{
    struct physical *p = range->owner;
    ACL_TRY(acl__status(weir_device_vm_unmap(acl__rt.memory, range->range.start, p->size), "aclrtUnmapMem"));
    struct reservation *r = reservation_at(range->range.start);
    WEIR_ASSERT(r != NULL && r->mappings > 0 && p->mappings > 0);
    r->mappings--;
    p->mappings--;
    acl__range_remove(&acl__rt.device_memory, range);
    if (p->references == 0 && p->mappings == 0) {
        (void)physical_end(p); /* if this fails, end_orphans tries again later */
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtUnmapMem(void *virPtr)
{
    ACL_ENTER_LOCKED(aclrtUnmapMem);
    ACL_NEED(virPtr);
    acl__range *range = mapping_at(virPtr);
    ACL_REFUSE_IF(range == NULL, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%p is not the start of a mapping", virPtr);
    return unmap(range);
}

ACL_EXPORT aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle)
{
    ACL_ENTER_LOCKED(aclrtMemRetainAllocationHandle);
    ACL_NEED(virPtr);
    ACL_NEED(handle);
    const acl__range *range = mapping_at(virPtr);
    ACL_REFUSE_IF(range == NULL, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%p is not the start of a mapping", virPtr);
    struct physical *p = range->owner;
    p->references++;
    *handle = p;
    return ACL_SUCCESS;
}

/* Returns a location's bit in the access mask `open_to`; 0 if it is neither a device nor the host with the id 0. */
static uint32_t access_bit(aclrtMemLocation of)
{
    const uint32_t host = 1u << 31;
    return of.type == ACL_MEM_LOCATION_TYPE_DEVICE && is_device_id(of.id) ? 1u << of.id
           : of.type == ACL_MEM_LOCATION_TYPE_HOST && of.id == 0          ? host
                                                                          : 0;
}

static aclError check_access(const aclrtMemAccessDesc *desc)
{
    ACL_FAIL_IF(desc->flags == ACL_RT_MEM_ACCESS_FLAGS_NONE || desc->flags == ACL_RT_MEM_ACCESS_FLAGS_READ,
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtMemSetAccess: only access for reading and writing can be set");
    ACL_FAIL_IF(desc->flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE, ACL_ERROR_RT_PARAM_INVALID,
                "aclrtMemSetAccess: %d is no kind of access", (int)desc->flags);
    ACL_FAIL_IF(access_bit(desc->location) == 0, ACL_ERROR_RT_PARAM_INVALID,
                "aclrtMemSetAccess: location %u of type %d cannot be given access", desc->location.id,
                (int)desc->location.type);
    return ACL_SUCCESS;
}

/* Every device and the host reach a mapping anyway; only the auditor uses the access that this function sets. */
ACL_EXPORT aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count)
{
    ACL_ENTER_LOCKED(aclrtMemSetAccess);
    ACL_REFUSE_IF(virPtr == NULL, ACL_ERROR_RT_PARAM_INVALID, "virPtr is NULL");
    ACL_REFUSE_IF(desc == NULL, ACL_ERROR_RT_PARAM_INVALID, "desc is NULL");
    ACL_REFUSE_IF(count == 0, ACL_ERROR_RT_PARAM_INVALID, "count is 0");
    for (size_t i = 0; i < count; i++) {
        ACL_TRY(check_access(&desc[i]));
    }
    acl__range *range = mapping_at(virPtr);
    const struct physical *p = range != NULL ? range->owner : NULL;
    ACL_REFUSE_IF(p == NULL || size != p->size, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%zu bytes at %p are not one mapping",
                  size, virPtr);
    for (size_t i = 0; i < count; i++) {
        range->open_to |= access_bit(desc[i].location);
    }
    return ACL_SUCCESS;
}

/* A mapping is open to its own device, or to the host whose memory it shows. */
ACL_EXPORT aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag)
{
    ACL_ENTER_LOCKED(aclrtMemGetAccess);
    ACL_NEED(virPtr);
    ACL_NEED(location);
    ACL_NEED(flag);
    const uint32_t bit = access_bit(*location);
    ACL_REFUSE_IF(bit == 0, ACL_ERROR_RT_PARAM_INVALID, "location %u of type %d is no device, and not the host",
                  location->id, (int)location->type);
    const acl__range *range = acl__range_at(&acl__rt.device_memory, virPtr);
    ACL_REFUSE_IF(range == NULL || range->kind != ACL__MAPPED, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%p is not mapped",
                  virPtr);
    const struct physical *p = range->owner;
    const aclrtMemLocation host = {0, ACL_MEM_LOCATION_TYPE_HOST};
    const bool is_open = bit == access_bit(is_on_device(p) ? p->location : host) || (range->open_to & bit) != 0;
    *flag = is_open ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE : ACL_RT_MEM_ACCESS_FLAGS_NONE;
    return ACL_SUCCESS;
}

/* --- sharing ---
 *
 * Where processes share the devices, a number names device and memory in all of them. Elsewhere numbers are made and
 * checked, but no process can import their memory. */

/* Lets other processes import physical memory. */
static aclError share(struct physical *p, const char *name, uint64_t *shareable)
{
    WEIR_ASSERT_HELD(acl__mutex());
    ACL_FAIL_IF(!is_on_device(p), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: memory on the host's side is not exported to other processes", name);
    ACL_FAIL_IF(p->is_import, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: the memory is another process's", name);
    ACL_TRY(acl__status(weir_sim_export(acl__rt.sim, acl__rt.devices[p->location.id].limit, p->memory, &p->key), name));
    *shareable = p->key * ACL__DEVICES + p->location.id;
    return ACL_SUCCESS;
}

aclError acl__admit(uint64_t shareable, const int32_t *processes, size_t count, const char *name)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const weir_status status = weir_sim_admit(acl__rt.sim, acl__rt.devices[shareable % ACL__DEVICES].limit,
                                              shareable / ACL__DEVICES, processes, count);
    ACL_FAIL_IF(status != WEIR_OK, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: %s", name, weir_last_error());
    return ACL_SUCCESS;
}

aclError acl__virtual_export(const acl__range *mapping, uint64_t *shareable)
{
    WEIR_ASSERT(mapping->kind == ACL__MAPPED);
    return share(mapping->owner, "export", shareable);
}

static aclError import(uint64_t shareable, int32_t device, const char *name, struct physical **out)
{
    WEIR_ASSERT_HELD(acl__mutex());
    const uint32_t of = (uint32_t)(shareable % ACL__DEVICES);
    struct physical *p = is_device_id(of) ? weir__slab_get(&physicals_slab) : NULL;
    ACL_FAIL_IF(p == NULL, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: %llu is memory of no device here", name,
                (unsigned long long)shareable);
    weir_vm_handle memory = 0;
    uint64_t size = 0;
    const weir_status status =
        weir_sim_import(acl__rt.sim, acl__rt.devices[of].limit, shareable / ACL__DEVICES, &memory, &size);
    if (status != WEIR_OK) {
        weir__slab_put(&physicals_slab, p);
        return acl__fail(status == WEIR_ERR_NO_MEMORY ? ACL_ERROR_RT_MEMORY_ALLOCATION
                                                      : ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                         "%s: %s", name, weir_last_error());
    }
    *p = (struct physical){.size = size,
                           .granularity = PAGE,
                           .memory = memory,
                           .location = {of, ACL_MEM_LOCATION_TYPE_DEVICE},
                           .maker = current_device(),
                           .references = 1,
                           .is_import = true,
                           .import_device = device};
    ACL_LIST_ADD(first_physical, p);
    *out = p;
    return ACL_SUCCESS;
}

aclError acl__virtual_open(uint64_t shareable, const char *name, uint64_t *address)
{
    struct physical *p = NULL;
    const int32_t device = current_device();
    ACL_TRY(import(shareable, device >= 0 ? device : 0, name, &p));
    aclError error = reserve(p->size, name, address);
    if (error == ACL_SUCCESS) {
        error = map(*address, p, reservation_at(*address), name);
        if (error != ACL_SUCCESS) {
            (void)release_locked((const void *)(uintptr_t)*address);
        }
    }
    if (error != ACL_SUCCESS) {
        p->references = 0;
        (void)physical_end(p);
    }
    return error;
}

aclError acl__virtual_close(uint64_t address)
{
    acl__range *range = mapping_at((const void *)(uintptr_t)address);
    if (range == NULL) {
        return ACL_SUCCESS; /* a reset of the device has ended it */
    }
    struct physical *p = range->owner;
    p->references = 0;
    const aclError error = unmap(range);
    if (error != ACL_SUCCESS) {
        p->references = 1;
        return error;
    }
    return release_locked((const void *)(uintptr_t)address);
}

static struct physical *exported_as(uint64_t shareable)
{
    WEIR_ASSERT_HELD(acl__mutex());
    struct physical *p = first_physical;
    while (p != NULL && (p->references == 0 || p->shareable != shareable)) {
        p = p->next;
    }
    return shareable != 0 ? p : NULL;
}

static aclError export_handle(aclrtDrvMemHandle handle, uint64_t flags, const char *name, uint64_t *shareable)
{
    ACL_FAIL_IF(flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_ERROR_RT_PARAM_INVALID,
                "%s: flags must be 0 or 1", name);
    ACL_HOLD_LOCK();
    struct physical *p = NULL;
    ACL_TRY(physical_of(handle, name, &p));
    ACL_FAIL_IF(p->shareable != 0, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s: the handle has been exported before", name);
    const bool to_all = flags != ACL_RT_VMM_EXPORT_FLAG_DEFAULT;
    uint64_t number = last_shareable + 1;
    if (acl__rt.config.shared != NULL) {
        ACL_TRY(share(p, name, &number));
        ACL_TRY(to_all ? acl__admit(number, NULL, 0, name) : ACL_SUCCESS);
    } else {
        last_shareable = number;
    }
    p->shareable = number;
    p->open_to_all = to_all;
    *shareable = number;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                                    uint64_t flags, uint64_t *shareableHandle)
{
    ACL_ENTER(aclrtMemExportToShareableHandle);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "the handle is NULL");
    ACL_NEED(shareableHandle);
    ACL_REFUSE_IF(handleType != ACL_MEM_HANDLE_TYPE_NONE, ACL_ERROR_INVALID_PARAM, "the handle type must be NONE");
    return export_handle(handle, flags, __func__, shareableHandle);
}

static bool is_share_type(aclrtMemSharedHandleType type)
{
    return type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT || type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
}

ACL_EXPORT aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                                      aclrtMemSharedHandleType shareType, void *shareableHandle)
{
    ACL_ENTER(aclrtMemExportToShareableHandleV2);
    ACL_REFUSE_IF(handle == NULL, ACL_ERROR_INVALID_PARAM, "the handle is NULL");
    ACL_NEED(shareableHandle);
    ACL_REFUSE_IF(!is_share_type(shareType), ACL_ERROR_RT_PARAM_INVALID, "there is no share type %d", (int)shareType);
    uint64_t shareable = 0;
    ACL_TRY(export_handle(handle, flags, __func__, &shareable));
    if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) {
        memset(shareableHandle, 0, sizeof(aclrtMemFabricHandle));
    }
    memcpy(shareableHandle, &shareable, sizeof(shareable));
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum)
{
    ACL_ENTER_LOCKED(aclrtMemSetPidToShareableHandle);
    ACL_NEED(pid);
    ACL_REFUSE_IF(pidNum == 0, ACL_ERROR_INVALID_PARAM, "pidNum is 0");
    const struct physical *p = exported_as(shareableHandle);
    ACL_REFUSE_IF(p == NULL, ACL_ERROR_RT_INVALID_HANDLE, "nothing is exported as %llu",
                  (unsigned long long)shareableHandle);
    ACL_REFUSE_IF(p->open_to_all, ACL_ERROR_RT_NO_PERMISSION, "the handle was exported for all processes");
    bool any = false;
    for (size_t i = 0; i < pidNum; i++) {
        any = any || pid[i] != 0;
    }
    ACL_REFUSE_IF(!any, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "no process is named");
    return acl__rt.config.shared != NULL ? acl__admit(shareableHandle, pid, pidNum, __func__) : ACL_SUCCESS;
}

static aclError import_handle(uint64_t shareable, int32_t device, const char *name, aclrtDrvMemHandle *handle)
{
    struct physical *p = NULL;
    ACL_FAIL_IF(exported_as(shareable) != NULL, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "%s: %llu was exported by this process, which cannot import it", name, (unsigned long long)shareable);
    ACL_FAIL_IF(acl__rt.config.shared == NULL, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "%s: %llu can only be of another process, and this one shares its devices with none "
                "(WEIR_ASCENDCL_SHARED)",
                name, (unsigned long long)shareable);
    ACL_TRY(import(shareable, device, name, &p));
    *handle = p;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                      aclrtDrvMemHandle *handle)
{
    ACL_ENTER_LOCKED(aclrtMemImportFromShareableHandle);
    ACL_NEED(handle);
    ACL_REFUSE_IF(deviceId < 0 || !is_device_id((uint64_t)deviceId), ACL_ERROR_RT_INVALID_DEVICEID,
                  "there is no device %d", deviceId);
    return import_handle(shareableHandle, deviceId, __func__, handle);
}

ACL_EXPORT aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType,
                                                        uint64_t flags, aclrtDrvMemHandle *handle)
{
    ACL_ENTER_LOCKED(aclrtMemImportFromShareableHandleV2);
    ACL_REFUSE_IF(shareableHandle == NULL || handle == NULL || flags != 0, ACL_ERROR_INVALID_PARAM, "%s",
                  flags != 0 ? "flags must be 0" : "a pointer is NULL");
    ACL_NEED_CONTEXT(context);
    ACL_REFUSE_IF(!is_share_type(shareType), ACL_ERROR_RT_PARAM_INVALID, "there is no share type %d", (int)shareType);
    uint64_t shareable = 0;
    memcpy(&shareable, shareableHandle, sizeof(shareable));
    return import_handle(shareable, context->device, __func__, handle);
}

/* --- reset of a device --- */

static void unmap_all_in(const struct reservation *r)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (weir__interval *at = weir__intervals_after(&acl__rt.device_memory, r->range.start);
         at != NULL && at->start < r->range.end;) {
        weir__interval *next = weir__intervals_next(at);
        acl__range *range = (acl__range *)(void *)at;
        if (range->kind == ACL__MAPPED) {
            (void)unmap(range);
        }
        at = next;
    }
}

/* True if the reset of `device` destroys the physical memory: it lies on that device, or it is host memory that was
 * made while that device was current. */
static bool goes_with(const struct physical *p, int32_t device)
{
    return is_on_device(p) ? (int32_t)p->location.id == device : p->maker == device;
}

/* Removes all mappings of physical memory that the program can no longer use. */
static void unmap_all_of(const struct physical *p)
{
    WEIR_ASSERT_HELD(acl__mutex());
    WEIR_ASSERT(p->references == 0);
    for (weir__interval *at = weir__intervals_first(&acl__rt.device_memory); at != NULL && p->mappings > 0;) {
        acl__range *range = (acl__range *)(void *)at;
        const bool last = p->mappings == 1;
        at = weir__intervals_next(at);
        if (range->kind == ACL__MAPPED && range->owner == p && (unmap(range) != ACL_SUCCESS || last)) {
            return; /* the last unmapping may have freed *p */
        }
    }
}

void acl__virtual_reset(int32_t device)
{
    WEIR_ASSERT_HELD(acl__mutex());
    for (struct physical *p = first_physical; p != NULL;) {
        struct physical *next = p->next;
        if (goes_with(p, device)) {
            p->references = 0;
            if (p->mappings > 0) {
                unmap_all_of(p);
            } else {
                (void)physical_end(p);
            }
        }
        p = next;
    }
    for (weir__interval *at = weir__intervals_first(&reservations); at != NULL;) {
        weir__interval *next = weir__intervals_next(at);
        const struct reservation *r = (const struct reservation *)(const void *)at;
        if (r->maker == device) {
            unmap_all_in(r);
            (void)release_locked((const void *)(uintptr_t)r->range.start);
        }
        at = next;
    }
}
