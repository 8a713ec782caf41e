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
 * Sizes that are not multiples of the granularity are rounded up, because clients pass such sizes; strict mode refuses
 * them.
 */
#include "runtime.h"

#include <string.h>

enum { PAGE = ACL__HUGE_PAGE, GIB = 1 << 30 };

typedef struct reservation {
    weir__sim_range range; /* first member */
    int32_t maker;         /* current device when it was made; -1: none */
    int32_t device;        /* device that the mapped memory belongs to, while `of_device` is not 0 */
    uint32_t of_device;    /* number of mappings of a device's memory */
    uint32_t mappings;
} reservation;

typedef struct physical {
    void *link; /* used by the slab */
    struct physical *next;
    struct physical *previous;
    uint64_t size;
    uint64_t granularity;
    weir_vm_handle memory;
    aclrtMemLocation location;
    int32_t maker;
    uint32_t references; /* one for the creation, one for each retain; 0: the user has no valid handle any more */
    uint32_t mappings;   /* number of addresses at which it is mapped */
    uint64_t shareable;  /* 0: not exported */
} physical;

static weir__sim_slab reservations_slab;
static weir__sim_slab physicals_slab;
static bool slabs_ready;
static weir__sim_ranges reservations;
static physical *first_physical;
static uint64_t host_side_bytes;
static uint64_t last_shareable;

static void make_ready(void)
{
    if (!slabs_ready) {
        weir__sim_slab_init(&reservations_slab, sizeof(reservation), 16);
        weir__sim_slab_init(&physicals_slab, sizeof(physical), 64);
        slabs_ready = true;
    }
}

static uint64_t round_up(uint64_t size, uint64_t granularity)
{
    return size > UINT64_MAX - granularity ? 0 : (size + granularity - 1) / granularity * granularity;
}

static bool is_device_id(uint64_t id)
{
    return id < acl__rt.config.devices;
}

static int32_t current_device(void)
{
    const acl__context *context = acl__context_current();
    return context != NULL ? context->device : -1;
}

static bool is_on_device(const physical *p)
{
    return p->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
}

/* --- reservations --- */

static reservation *reservation_at(uint64_t address)
{
    weir__sim_range *r = weir__sim_ranges_floor(&reservations, address);
    return r != NULL && r->end > address ? (reservation *)(void *)r : NULL;
}

bool acl__virtual_is_reserved(const void *pointer)
{
    return reservation_at((uintptr_t)pointer) != NULL;
}

static aclError reserve_locked(uint64_t size, void **pointer)
{
    make_ready();
    reservation *r = weir__sim_slab_get(&reservations_slab);
    if (r == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtReserveMemAddress: no host memory");
    }
    uint64_t address = 0;
    const aclError error =
        acl__status(weir_device_vm_reserve(acl__rt.memory, size, &address), "aclrtReserveMemAddress");
    if (error != ACL_SUCCESS) {
        weir__sim_slab_put(&reservations_slab, r);
        return error;
    }
    *r = (reservation){.range = {.start = address, .end = address + size}, .maker = current_device(), .device = -1};
    weir__sim_ranges_insert(&reservations, &r->range);
    *pointer = (void *)(uintptr_t)address;
    return ACL_SUCCESS;
}

/* Refuses a fixed address. The vendor offers them as an experiment, in one window of addresses that the host may not
 * have free. */
static aclError check_expected(const void *expected)
{
    const uint64_t address = (uintptr_t)expected;
    const uint64_t tib = UINT64_C(1) << 40;
    if (address < 16 * tib || address >= 24 * tib) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtReserveMemAddress: %p is outside the window from 16 TiB to 24 TiB", expected);
    }
    return acl__fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtReserveMemAddress: a fixed address is not simulated");
}

ACL_EXPORT aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
                                           uint64_t flags)
{
    ACL_ENTER(aclrtReserveMemAddress);
    if (virPtr == NULL || size == 0 || flags > 1) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtReserveMemAddress: %s",
                         virPtr == NULL ? "virPtr is NULL"
                         : size == 0    ? "the size is 0"
                                        : "flags must be 0 or 1");
    }
    if (alignment != 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReserveMemAddress: the alignment must be 0");
    }
    if (expectPtr != NULL) {
        return check_expected(expectPtr);
    }
    if (acl__rt.config.strict && size % PAGE != 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReserveMemAddress: %zu bytes are no multiple of %d", size,
                         (int)PAGE);
    }
    /* Leave room for a mapping of 1 GiB pages: its size is rounded up further. */
    const uint64_t rounded = round_up(size, size >= GIB ? GIB : PAGE);
    if (rounded == 0) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtReserveMemAddress: there are no %zu bytes of addresses",
                         size);
    }
    acl__lock();
    const aclError error = reserve_locked(rounded, virPtr);
    acl__unlock();
    return error;
}

static aclError release_locked(const void *pointer)
{
    reservation *r = reservation_at((uintptr_t)pointer);
    if (r == NULL || r->range.start != (uintptr_t)pointer) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtReleaseMemAddress: %p is not the start of a reservation",
                         pointer);
    }
    if (r->mappings > 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtReleaseMemAddress: %u mappings in it have to be undone before", r->mappings);
    }
    const uint64_t size = r->range.end - r->range.start;
    const aclError error =
        acl__status(weir_device_vm_release(acl__rt.memory, r->range.start, size), "aclrtReleaseMemAddress");
    if (error == ACL_SUCCESS) {
        weir__sim_ranges_remove(&reservations, &r->range);
        weir__sim_slab_put(&reservations_slab, r);
    }
    return error;
}

ACL_EXPORT aclError aclrtReleaseMemAddress(void *virPtr)
{
    ACL_ENTER(aclrtReleaseMemAddress);
    if (virPtr == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtReleaseMemAddress: virPtr is NULL");
    }
    acl__lock();
    const aclError error = release_locked(virPtr);
    acl__unlock();
    return error;
}

/* --- properties of physical memory --- */

typedef enum attribute_sides { NOWHERE = 0, ON_HOST = 1, ON_DEVICE = 2, ANYWHERE = 3 } attribute_sides;

/* Returns where memory of an attribute can be, and its granularity. Attributes not listed are not for physical
 * memory. */
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
    if (sides == NOWHERE || (type == ACL_MEM_LOCATION_TYPE_DEVICE && sides == ON_HOST)) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: memory attribute %d is not for %s", name, (int)prop->memAttr,
                         sides == NOWHERE ? "physical memory" : "a device");
    }
    if (type == ACL_MEM_LOCATION_TYPE_DEVICE) {
        return is_device_id(prop->location.id)
                   ? ACL_SUCCESS
                   : acl__fail(ACL_ERROR_RT_INVALID_DEVICEID, "%s: there is no device %u", name, prop->location.id);
    }
    if (type != ACL_MEM_LOCATION_TYPE_HOST && type != ACL_MEM_LOCATION_TYPE_HOST_NUMA) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %d is no location of physical memory", name, (int)type);
    }
    if (sides == ON_DEVICE) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: pages of 1 GiB are for devices only", name);
    }
    const uint32_t nodes = acl__rt.config.numa_nodes > 0 ? (uint32_t)acl__rt.config.numa_nodes : 0;
    if (type == ACL_MEM_LOCATION_TYPE_HOST_NUMA && nodes > 0 && prop->location.id >= nodes) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no NUMA node %u", name, prop->location.id);
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
                                                     size_t *granularity)
{
    ACL_ENTER(aclrtMemGetAllocationGranularity);
    if (prop == NULL || granularity == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemGetAllocationGranularity: %s is NULL",
                         prop == NULL ? "prop" : "granularity");
    }
    uint64_t bytes = 0;
    const aclError error = check_property(prop, "aclrtMemGetAllocationGranularity", &bytes);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemGetAllocationGranularity: there is no option %d",
                         (int)option);
    }
    *granularity = bytes;
    return ACL_SUCCESS;
}

/* --- physical memory --- */

/* Enlarges the simulator's capacity by the memory on the host's side, so that this memory uses up none of the
 * devices'. */
static void give_host_room(void)
{
    weir_sim_set_capacity(acl__rt.sim, acl__rt.config.capacity_bytes * acl__rt.config.devices + host_side_bytes);
}

static bool room_take(const aclrtMemLocation *location, uint64_t size)
{
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
    if (location->type == ACL_MEM_LOCATION_TYPE_DEVICE) {
        acl__capacity_give((int32_t)location->id, size, true);
    } else {
        acl__host_give(size);
        host_side_bytes -= size;
        give_host_room();
    }
}

/* Destroys physical memory without references and mappings. If the device refuses, the memory is kept. */
static weir_status physical_end(physical *p)
{
    const weir_status status = weir_device_vm_destroy(acl__rt.memory, p->memory);
    if (status != WEIR_OK) {
        return status;
    }
    room_give(&p->location, p->size);
    *(p->previous != NULL ? &p->previous->next : &first_physical) = p->next;
    if (p->next != NULL) {
        p->next->previous = p->previous;
    }
    weir__sim_slab_put(&physicals_slab, p);
    return WEIR_OK;
}

/* Destroys memory that the device refused to take back before. */
static void end_orphans(void)
{
    for (physical *p = first_physical; p != NULL;) {
        physical *next = p->next;
        if (p->references == 0 && p->mappings == 0) {
            (void)physical_end(p);
        }
        p = next;
    }
}

static physical *physical_of(aclrtDrvMemHandle handle)
{
    physical *p = handle;
    return slabs_ready && weir__sim_slab_owns(&physicals_slab, handle) && p->references > 0 ? p : NULL;
}

static aclError no_handle(const char *name, aclrtDrvMemHandle handle)
{
    return acl__fail(ACL_ERROR_RT_INVALID_HANDLE, "%s: %p is no handle of physical memory", name, handle);
}

static aclError malloc_physical(uint64_t size, uint64_t granularity, const aclrtPhysicalMemProp *prop,
                                aclrtDrvMemHandle *handle)
{
    make_ready();
    end_orphans();
    if (size == 0 || !room_take(&prop->location, size)) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMallocPhysical: there are no %llu bytes free",
                         (unsigned long long)size);
    }
    physical *p = weir__sim_slab_get(&physicals_slab);
    weir_vm_handle memory = 0;
    const weir_status status = p != NULL ? weir_device_vm_create(acl__rt.memory, size, &memory) : WEIR_ERR_NO_MEMORY;
    if (status != WEIR_OK) {
        if (p != NULL) {
            weir__sim_slab_put(&physicals_slab, p);
        }
        room_give(&prop->location, size);
        return acl__status(status, "aclrtMallocPhysical");
    }
    *p = (physical){.next = first_physical,
                    .size = size,
                    .granularity = granularity,
                    .memory = memory,
                    .location = prop->location,
                    .maker = current_device(),
                    .references = 1};
    if (p->next != NULL) {
        p->next->previous = p;
    }
    first_physical = p;
    *handle = p;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop,
                                        uint64_t flags)
{
    ACL_ENTER(aclrtMallocPhysical);
    if (handle == NULL || prop == NULL || size == 0 || flags != 0) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocPhysical: %s",
                         handle == NULL ? "handle is NULL"
                         : prop == NULL ? "prop is NULL"
                         : size == 0    ? "the size is 0"
                                        : "flags must be 0");
    }
    if (prop->handleType != ACL_MEM_HANDLE_TYPE_NONE || prop->allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED) {
        return acl__fail(ACL_ERROR_INVALID_PARAM,
                         "aclrtMallocPhysical: the handle type must be NONE, the allocation type PINNED");
    }
    if (prop->location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED ||
        prop->location.type == ACL_MEM_LOCATION_TYPE_MANAGED) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocPhysical: physical memory is on a device or on the host");
    }
    uint64_t granularity = 0;
    aclError error = check_property(prop, "aclrtMallocPhysical", &granularity);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (acl__rt.config.strict && size % granularity != 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtMallocPhysical: %zu bytes are no multiple of the granularity", size);
    }
    acl__lock();
    acl__context *context = NULL;
    if (prop->location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA) {
        error = acl__context_need(&context);
    }
    if (error == ACL_SUCCESS) {
        error = malloc_physical(round_up(size, granularity), granularity, prop, handle);
    }
    acl__unlock();
    return error;
}

static aclError free_physical(aclrtDrvMemHandle handle)
{
    physical *p = physical_of(handle);
    if (p == NULL) {
        return no_handle("aclrtFreePhysical", handle);
    }
    if (p->references > 1 || p->mappings > 0) {
        p->references--;
        return ACL_SUCCESS;
    }
    p->references = 0;
    const weir_status status = physical_end(p);
    if (status != WEIR_OK) {
        p->references = 1;
    }
    return acl__status(status, "aclrtFreePhysical");
}

ACL_EXPORT aclError aclrtFreePhysical(aclrtDrvMemHandle handle)
{
    ACL_ENTER(aclrtFreePhysical);
    if (handle == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtFreePhysical: the handle is NULL");
    }
    acl__lock();
    const aclError error = free_physical(handle);
    acl__unlock();
    return error;
}

/* --- mappings --- */

/* Finds the reservation that a mapping goes into, and checks the addresses. */
static aclError check_place(uint64_t address, uint64_t size, const physical *p, reservation **in)
{
    reservation *r = reservation_at(address);
    if (r == NULL || r->range.end - address < size) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: %llu bytes at %#llx are not all reserved",
                         (unsigned long long)size, (unsigned long long)address);
    }
    if (address % PAGE != 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: %#llx is no multiple of the granularity",
                         (unsigned long long)address);
    }
    const weir__sim_range *mapped = weir__sim_ranges_after(&acl__rt.device_memory, address);
    if (mapped != NULL && mapped->start < address + size) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: %#llx has memory already",
                         (unsigned long long)mapped->start);
    }
    if (is_on_device(p) && r->of_device > 0 && r->device != (int32_t)p->location.id) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: the reservation has memory of device %d", r->device);
    }
    *in = r;
    return ACL_SUCCESS;
}

static aclError map_locked(uint64_t address, uint64_t size, aclrtDrvMemHandle handle)
{
    physical *p = physical_of(handle);
    if (p == NULL) {
        return no_handle("aclrtMapMem", handle);
    }
    if (round_up(size, p->granularity) != p->size || (acl__rt.config.strict && size % p->granularity != 0)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: %llu bytes are not the whole of the handle's %llu",
                         (unsigned long long)size, (unsigned long long)p->size);
    }
    reservation *r = NULL;
    aclError error = check_place(address, p->size, p, &r);
    if (error != ACL_SUCCESS) {
        return error;
    }
    acl__range *range = acl__range_add(&acl__rt.device_memory, ACL__MAPPED, address, p->size);
    if (range == NULL) {
        return acl__fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtMapMem: no host memory");
    }
    error = acl__status(weir_device_vm_map(acl__rt.memory, address, p->size, p->memory), "aclrtMapMem");
    if (error != ACL_SUCCESS) {
        acl__range_remove(&acl__rt.device_memory, range);
        return error;
    }
    range->device = is_on_device(p) ? (int32_t)p->location.id : 0;
    range->huge = true;
    range->asked_bytes = size;
    range->owner = p;
    p->mappings++;
    r->mappings++;
    if (is_on_device(p)) {
        r->of_device++;
        r->device = range->device;
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)
{
    ACL_ENTER(aclrtMapMem);
    if (virPtr == NULL || handle == NULL || size == 0 || flags != 0) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMapMem: %s",
                         virPtr == NULL   ? "virPtr is NULL"
                         : handle == NULL ? "the handle is NULL"
                         : size == 0      ? "the size is 0"
                                          : "flags must be 0");
    }
    if (offset != 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMapMem: the offset must be 0");
    }
    acl__lock();
    const aclError error = map_locked((uintptr_t)virPtr, size, handle);
    acl__unlock();
    return error;
}

/* Returns the mapping that starts at an address, or NULL. */
static acl__range *mapping_at(const void *pointer)
{
    acl__range *range = acl__range_at(&acl__rt.device_memory, pointer);
    return range != NULL && range->kind == ACL__MAPPED && range->range.start == (uintptr_t)pointer ? range : NULL;
}

static aclError unmap(acl__range *range)
{
    physical *p = range->owner;
    const aclError error =
        acl__status(weir_device_vm_unmap(acl__rt.memory, range->range.start, p->size), "aclrtUnmapMem");
    if (error != ACL_SUCCESS) {
        return error;
    }
    reservation *r = reservation_at(range->range.start);
    r->mappings--;
    r->of_device -= is_on_device(p);
    p->mappings--;
    acl__range_remove(&acl__rt.device_memory, range);
    if (p->references == 0 && p->mappings == 0) {
        (void)physical_end(p); /* on failure it is kept for end_orphans */
    }
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtUnmapMem(void *virPtr)
{
    ACL_ENTER(aclrtUnmapMem);
    if (virPtr == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtUnmapMem: virPtr is NULL");
    }
    acl__lock();
    acl__range *range = mapping_at(virPtr);
    const aclError error = range != NULL ? unmap(range)
                                         : acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                                                     "aclrtUnmapMem: %p is not the start of a mapping", virPtr);
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle)
{
    ACL_ENTER(aclrtMemRetainAllocationHandle);
    if (virPtr == NULL || handle == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemRetainAllocationHandle: %s is NULL",
                         virPtr == NULL ? "virPtr" : "handle");
    }
    aclError error = ACL_SUCCESS;
    acl__lock();
    const acl__range *range = mapping_at(virPtr);
    if (range != NULL) {
        physical *p = range->owner;
        p->references++;
        *handle = p;
    } else {
        error = acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                          "aclrtMemRetainAllocationHandle: %p is not the start of a mapping", virPtr);
    }
    acl__unlock();
    return error;
}

static aclError check_access(const aclrtMemAccessDesc *desc)
{
    if (desc->flags != ACL_RT_MEM_ACCESS_FLAGS_NONE && desc->flags != ACL_RT_MEM_ACCESS_FLAGS_READ &&
        desc->flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemSetAccess: %d is no kind of access", (int)desc->flags);
    }
    const bool is_device = desc->location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    if ((is_device && !is_device_id(desc->location.id)) ||
        (!is_device && desc->location.type != ACL_MEM_LOCATION_TYPE_HOST)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID,
                         "aclrtMemSetAccess: location %u of type %d is nobody to have access", desc->location.id,
                         (int)desc->location.type);
    }
    return ACL_SUCCESS;
}

/* Every device and the host reach a mapping anyway; only the auditor uses the access that is set here. */
ACL_EXPORT aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count)
{
    ACL_ENTER(aclrtMemSetAccess);
    if (virPtr == NULL || desc == NULL || count == 0) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemSetAccess: %s",
                         virPtr == NULL ? "virPtr is NULL"
                         : desc == NULL ? "desc is NULL"
                                        : "count is 0");
    }
    aclError error = ACL_SUCCESS;
    for (size_t i = 0; i < count && error == ACL_SUCCESS; i++) {
        error = check_access(&desc[i]);
    }
    if (error != ACL_SUCCESS) {
        return error;
    }
    acl__lock();
    acl__range *range = mapping_at(virPtr);
    if (range == NULL ||
        round_up(size, ((const physical *)range->owner)->granularity) != ((const physical *)range->owner)->size) {
        error = acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemSetAccess: %zu bytes at %p are not one mapping", size,
                          virPtr);
    }
    for (size_t i = 0; i < count && error == ACL_SUCCESS; i++) {
        if (desc[i].location.type == ACL_MEM_LOCATION_TYPE_DEVICE) {
            const uint32_t bit = 1u << desc[i].location.id;
            range->open_to =
                desc[i].flags == ACL_RT_MEM_ACCESS_FLAGS_NONE ? range->open_to & ~bit : range->open_to | bit;
        }
    }
    acl__unlock();
    return error;
}

aclrtMemLocation acl__virtual_location(const acl__range *range)
{
    return ((const physical *)range->owner)->location;
}

/* --- sharing: the names are made and checked, but no other process can use them --- */

static physical *exported_as(uint64_t shareable)
{
    physical *p = first_physical;
    while (p != NULL && (p->references == 0 || p->shareable != shareable)) {
        p = p->next;
    }
    return shareable != 0 ? p : NULL;
}

static aclError export_handle(aclrtDrvMemHandle handle, uint64_t flags, const char *name, uint64_t *shareable)
{
    if (flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: flags must be 0 or 1", name);
    }
    acl__lock();
    aclError error = ACL_SUCCESS;
    physical *p = physical_of(handle);
    if (p == NULL) {
        error = no_handle(name, handle);
    } else if (p->shareable != 0) {
        error = acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: the handle has been exported before", name);
    } else {
        p->shareable = ++last_shareable;
        *shareable = p->shareable;
    }
    acl__unlock();
    return error;
}

ACL_EXPORT aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                                    uint64_t flags, uint64_t *shareableHandle)
{
    ACL_ENTER(aclrtMemExportToShareableHandle);
    if (handle == NULL || shareableHandle == NULL || handleType != ACL_MEM_HANDLE_TYPE_NONE) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemExportToShareableHandle: %s",
                         handle == NULL            ? "the handle is NULL"
                         : shareableHandle == NULL ? "shareableHandle is NULL"
                                                   : "the handle type must be NONE");
    }
    return export_handle(handle, flags, "aclrtMemExportToShareableHandle", shareableHandle);
}

static bool is_share_type(aclrtMemSharedHandleType type)
{
    return type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT || type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
}

ACL_EXPORT aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                                      aclrtMemSharedHandleType shareType, void *shareableHandle)
{
    static const char name[] = "aclrtMemExportToShareableHandleV2";
    ACL_ENTER(aclrtMemExportToShareableHandleV2);
    if (handle == NULL || shareableHandle == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: %s is NULL", name, handle == NULL ? "the handle" : "the output");
    }
    if (!is_share_type(shareType)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no share type %d", name, (int)shareType);
    }
    uint64_t shareable = 0;
    const aclError error = export_handle(handle, flags, name, &shareable);
    if (error == ACL_SUCCESS) {
        if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC) {
            memset(shareableHandle, 0, sizeof(aclrtMemFabricHandle));
        }
        memcpy(shareableHandle, &shareable, sizeof(shareable));
    }
    return error;
}

ACL_EXPORT aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum)
{
    ACL_ENTER(aclrtMemSetPidToShareableHandle);
    if (pid == NULL || pidNum == 0) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemSetPidToShareableHandle: %s",
                         pid == NULL ? "pid is NULL" : "pidNum is 0");
    }
    acl__lock();
    const bool known = exported_as(shareableHandle) != NULL;
    acl__unlock();
    return known ? ACL_SUCCESS
                 : acl__fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemSetPidToShareableHandle: nothing is exported as %llu",
                             (unsigned long long)shareableHandle);
}

static aclError refuse_import(uint64_t shareable, const char *name)
{
    acl__lock();
    const bool own = exported_as(shareable) != NULL;
    acl__unlock();
    return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %llu %s", name, (unsigned long long)shareable,
                     own ? "was exported by this process, which cannot import it"
                         : "is nothing that another process of this simulator exported");
}

ACL_EXPORT aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                      aclrtDrvMemHandle *handle)
{
    ACL_ENTER(aclrtMemImportFromShareableHandle);
    if (handle == NULL) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "aclrtMemImportFromShareableHandle: handle is NULL");
    }
    if (deviceId < 0 || !is_device_id((uint64_t)deviceId)) {
        return acl__fail(ACL_ERROR_RT_INVALID_DEVICEID, "aclrtMemImportFromShareableHandle: there is no device %d",
                         deviceId);
    }
    return refuse_import(shareableHandle, "aclrtMemImportFromShareableHandle");
}

ACL_EXPORT aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType,
                                                        uint64_t flags, aclrtDrvMemHandle *handle)
{
    static const char name[] = "aclrtMemImportFromShareableHandleV2";
    ACL_ENTER(aclrtMemImportFromShareableHandleV2);
    if (shareableHandle == NULL || handle == NULL || flags != 0) {
        return acl__fail(ACL_ERROR_INVALID_PARAM, "%s: %s", name, flags != 0 ? "flags must be 0" : "a pointer is NULL");
    }
    acl__lock();
    acl__context *context = NULL;
    const aclError error = acl__context_need(&context);
    acl__unlock();
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (!is_share_type(shareType)) {
        return acl__fail(ACL_ERROR_RT_PARAM_INVALID, "%s: there is no share type %d", name, (int)shareType);
    }
    uint64_t shareable = 0;
    memcpy(&shareable, shareableHandle, sizeof(shareable));
    return refuse_import(shareable, name);
}

/* --- reset of a device --- */

static void unmap_all_in(const reservation *r)
{
    for (weir__sim_range *at = weir__sim_ranges_after(&acl__rt.device_memory, r->range.start);
         at != NULL && at->start < r->range.end;) {
        weir__sim_range *next = weir__sim_ranges_next(at);
        acl__range *range = (acl__range *)(void *)at;
        if (range->kind == ACL__MAPPED) {
            (void)unmap(range);
        }
        at = next;
    }
}

/* True if the reset of a device destroys the memory: it is the device's, or it was made while the device was
 * current. */
static bool goes_with(const physical *p, int32_t device)
{
    return is_on_device(p) ? (int32_t)p->location.id == device : p->maker == device;
}

/* Removes all mappings of memory that no user may use any more. */
static void unmap_all_of(const physical *p)
{
    for (weir__sim_range *at = weir__sim_ranges_first(&acl__rt.device_memory); at != NULL && p->mappings > 0;) {
        acl__range *range = (acl__range *)(void *)at;
        const bool last = p->mappings == 1;
        at = weir__sim_ranges_next(at);
        if (range->kind == ACL__MAPPED && range->owner == p && (unmap(range) != ACL_SUCCESS || last)) {
            return; /* the last unmap may have freed p */
        }
    }
}

void acl__virtual_reset(int32_t device)
{
    for (physical *p = first_physical; p != NULL;) {
        physical *next = p->next;
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
    for (weir__sim_range *at = weir__sim_ranges_first(&reservations); at != NULL;) {
        weir__sim_range *next = weir__sim_ranges_next(at);
        const reservation *r = (const reservation *)(const void *)at;
        if (r->maker == device) {
            unmap_all_in(r);
            (void)release_locked((const void *)(uintptr_t)r->range.start);
        }
        at = next;
    }
}
