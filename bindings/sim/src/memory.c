/* memory.c: addresses, capacity, regions and virtual memory.
 *
 * Idea: two windows of addresses, one for regions and one for reservations, each with an ordered set of its free
 * ranges. Placement is first fit by address, so the same calls give the same addresses and neighbouring regions do
 * occur. Guarantee: held bytes (regions and physical memory) never exceed the capacity at the time of the call, and
 * every byte of the capacity can be allocated: like a device with page tables, the simulator has no fragmentation of
 * its own. Under a shared limit the same holds for all simulators together, and memory in common counts there once.
 * Cost: O(log ranges) for every call.
 */
#include "sim_internal.h"

#include <stdlib.h>

/* A free range of addresses, a region, a reservation or a mapping, depending on the set it is in. */
struct extent {
    weir__interval range; /* first member */
    uint32_t physical;    /* mapping: index of the mapped physical memory; region: 1 + index, 0: none */
};

enum {
    ACCOUNTING_WINDOW_BITS = 45,
    /* address space, as a multiple of the capacity; large, so that freed addresses stay unused for a while */
    BACKED_REGION_FACTOR = 4,
    BACKED_VIRTUAL_FACTOR = 16, /* a pool reserves more addresses than the device has memory */
    BACKED_PHYSICAL_FACTOR = 16
};

/* Alignment of the first address in backed mode. The host chooses that address, which differs from run to run; the
 * offsets from it are the same in every run. */
#define BACKED_BASE_ALIGNMENT ((uint64_t)64 << 20)

/* --- ranges of addresses --- */

/* True if [start, end) has a byte in common with a member of `set`. */
static bool overlaps(const weir__intervals *set, uint64_t start, uint64_t end)
{
    const weir__interval *r = weir__intervals_after(set, start);
    return r != NULL && r->start < end;
}

static struct extent *extent_add(weir__sim_memory *memory, weir__intervals *set, uint64_t start, uint64_t end)
{
    WEIR_ASSERT_THOROUGH(!overlaps(set, start, end));
    struct extent *e = weir__slab_get(&memory->extents);
    if (e != NULL) {
        e->range.start = start;
        e->range.end = end;
        weir__intervals_insert(set, &e->range);
    }
    return e;
}

static void extent_remove(weir__sim_memory *memory, weir__intervals *set, struct extent *e)
{
    weir__intervals_remove(set, &e->range);
    weir__slab_put(&memory->extents, e);
}

static struct extent *floor_of(const weir__intervals *set, uint64_t address)
{
    return (struct extent *)(void *)weir__intervals_floor(set, address);
}

/* Returns the member of `set` that is exactly this range, or NULL. */
static struct extent *exactly(const weir__intervals *set, uint64_t address, uint64_t size)
{
    struct extent *e = floor_of(set, address);
    return e != NULL && e->range.start == address && e->range.end - e->range.start == size ? e : NULL;
}

/* Moves `size` bytes of the lowest free range that is large enough to `used`, as a range of their own. */
static weir_status extent_take(weir__sim_memory *memory, weir__intervals *free_set, weir__intervals *used,
                               uint64_t size, uint64_t *start)
{
    struct extent *from = (struct extent *)(void *)weir__intervals_first_fit(free_set, size);
    if (from == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    uint64_t address = from->range.start;
    WEIR_ASSERT(from->range.end - address >= size);
    if (from->range.end - address == size) {
        weir__intervals_remove(free_set, &from->range);
        weir__intervals_insert(used, &from->range);
    } else if (extent_add(memory, used, address, address + size) != NULL) {
        from->range.start += size;
        weir__intervals_resized(&from->range);
    } else {
        return WEIR_ERR_NO_MEMORY;
    }
    *start = address;
    return WEIR_OK;
}

/* Moves a range from `used` back to the free ranges and merges it with its neighbours. Cannot fail. */
static void extent_free(weir__sim_memory *memory, weir__intervals *used, weir__intervals *free_set, struct extent *e)
{
    weir__intervals_remove(used, &e->range);
    WEIR_ASSERT_THOROUGH(!overlaps(free_set, e->range.start, e->range.end));
    struct extent *below = floor_of(free_set, e->range.start);
    struct extent *above = (struct extent *)(void *)weir__intervals_after(free_set, e->range.start);
    if (above != NULL && above->range.start == e->range.end) {
        e->range.end = above->range.end;
        extent_remove(memory, free_set, above);
    }
    if (below != NULL && below->range.end == e->range.start) {
        below->range.end = e->range.end;
        weir__intervals_resized(&below->range);
        weir__slab_put(&memory->extents, e);
    } else {
        weir__intervals_insert(free_set, &e->range);
    }
}

/* --- create and destroy --- */

weir_status weir__sim_memory_init(weir_sim *sim)
{
    weir__sim_memory *memory = &sim->memory;
    const weir_sim_config *config = &sim->config;
    memory->capacity = config->capacity_bytes;
    if (config->shared_limit != NULL) {
        weir__shared_limit_join(config->shared_limit, &memory->member);
        memory->joined = true;
    }
    memory->extents = (weir__slab)WEIR__SLAB_INIT(struct extent, 0, 64);
    uint64_t alignment =
        config->region_granularity_bytes > config->page_bytes ? config->region_granularity_bytes : config->page_bytes;
    WEIR_ASSERT((alignment & (alignment - 1)) == 0);
    uint64_t base_alignment = alignment > BACKED_BASE_ALIGNMENT ? alignment : BACKED_BASE_ALIGNMENT;
    uint64_t base = config->address_base;
    uint64_t regions = (uint64_t)1 << ACCOUNTING_WINDOW_BITS;
    uint64_t reservations = regions;
    uint64_t offsets = 0;
    if (config->mode == WEIR_SIM_BACKED) {
        uint64_t capacity = (config->capacity_bytes + alignment - 1) & ~(alignment - 1);
        regions = capacity * BACKED_REGION_FACTOR;
        reservations = config->no_virtual_memory ? alignment : capacity * BACKED_VIRTUAL_FACTOR;
        offsets = capacity * BACKED_PHYSICAL_FACTOR;
        weir_status status =
            weir__sim_backing_init(&memory->backing, regions + reservations, base_alignment, offsets, &base);
        if (status != WEIR_OK) {
            return status;
        }
    }
    if (extent_add(memory, &memory->free_addresses, base, base + regions) == NULL ||
        extent_add(memory, &memory->free_virtual, base + regions, base + regions + reservations) == NULL ||
        (offsets > 0 && extent_add(memory, &memory->free_offsets, 0, offsets) == NULL)) {
        return WEIR_ERR_NO_MEMORY;
    }
    return WEIR_OK;
}

/* --- capacity --- */

static void give_to_limit(weir_sim *sim, uint64_t size)
{
    if (sim->config.shared_limit != NULL && size > 0) {
        weir__shared_limit_give(sim->config.shared_limit, size);
    }
}

/* Counts memory that is about to be taken. Returns false if the device has no room for it. */
static bool hold(weir_sim *sim, uint64_t size)
{
    weir__sim_memory *memory = &sim->memory;
    weir_shared_limit *limit = sim->config.shared_limit;
    if (memory->held > memory->capacity || size > memory->capacity - memory->held ||
        (limit != NULL && !weir__shared_limit_take(limit, size, NULL))) {
        return false;
    }
    memory->held += size;
    memory->peak = memory->held > memory->peak ? memory->held : memory->peak;
    return true;
}

/* Counts memory no more. Memory in common has left the process's share of the limit at its export. */
static void unhold(weir_sim *sim, uint64_t size, bool is_common)
{
    WEIR_ASSERT(sim->memory.held >= size && (!is_common || sim->memory.common >= size));
    sim->memory.held -= size;
    if (is_common) {
        sim->memory.common -= size;
    } else {
        give_to_limit(sim, size);
    }
}

void weir__sim_memory_fini(weir_sim *sim)
{
    weir__sim_share_fini(sim);
    if (sim->memory.joined) {
        give_to_limit(sim, sim->memory.held - sim->memory.common);
        weir__shared_limit_leave(sim->config.shared_limit, &sim->memory.member);
    }
    weir__sim_backing_fini(&sim->memory.backing);
    weir__slab_fini(&sim->memory.extents);
    free(sim->memory.physical);
}

static weir__sim_op_info now_info(const weir_sim *sim, const char *what)
{
    return (weir__sim_op_info){.what = what, .start_ns = sim->now, .end_ns = sim->now};
}

static void audit_given(weir_sim *sim, uint64_t address, uint64_t size, bool mapped)
{
    if (sim->audit != NULL) {
        weir__sim_op_info info = now_info(sim, mapped ? "vm_map" : "region_alloc");
        weir__sim_audit_given(sim->audit, address, size, mapped, &info);
    }
}

static void audit_taken(weir_sim *sim, uint64_t address, uint64_t size, const char *what)
{
    if (sim->audit != NULL) {
        weir__sim_op_info info = now_info(sim, what);
        weir__sim_audit_taken(sim->audit, address, size, &info);
    }
}

/* --- physical memory --- */

/* A handle is (generation << 32) + index + 1, so a stale handle differs from a new one with the same descriptor. */
weir__sim_physical *weir__sim_physical_of(weir__sim_memory *memory, weir_vm_handle handle, uint32_t *index)
{
    uint64_t i = (handle & UINT32_MAX) - 1;
    if ((handle & UINT32_MAX) == 0 || i >= memory->physical_count) {
        return NULL;
    }
    weir__sim_physical *physical = &memory->physical[i];
    *index = (uint32_t)i;
    return physical->size != 0 && physical->generation == handle >> 32 ? physical : NULL;
}

/* Finds or makes an unused descriptor of physical memory and stores its index. */
static weir_status physical_slot(weir__sim_memory *memory, uint32_t *index)
{
    if (memory->physical_free != 0) {
        WEIR_ASSERT(memory->physical_free <= memory->physical_count);
        *index = memory->physical_free - 1;
        memory->physical_free = (uint32_t)memory->physical[*index].offset;
        WEIR_ASSERT(memory->physical[*index].size == 0);
        return WEIR_OK;
    }
    if (memory->physical_count == memory->physical_capacity) {
        uint32_t capacity = memory->physical_capacity == 0 ? 64 : memory->physical_capacity * 2;
        weir__sim_physical *grown = realloc(memory->physical, capacity * sizeof(*grown));
        if (grown == NULL) {
            return WEIR_ERR_NO_MEMORY;
        }
        memory->physical = grown;
        memory->physical_capacity = capacity;
    }
    *index = memory->physical_count++;
    memory->physical[*index] = (weir__sim_physical){.file = -1};
    return WEIR_OK;
}

static void physical_slot_free(weir__sim_memory *memory, uint32_t index)
{
    WEIR_ASSERT(index < memory->physical_count && memory->physical[index].mappings == 0);
    weir__sim_physical *physical = &memory->physical[index];
    *physical =
        (weir__sim_physical){.generation = physical->generation + 1, .offset = memory->physical_free, .file = -1};
    memory->physical_free = index + 1;
}

static void unplace_physical(weir__sim_memory *memory, uint64_t offset, uint64_t size)
{
    if (!memory->backing.on) {
        return;
    }
    weir__sim_backing_discard(&memory->backing, offset, size, -1);
    weir__intervals placed = {.root = NULL};
    struct extent *e = extent_add(memory, &placed, offset, offset + size);
    if (e != NULL) { /* when out of host memory, these offsets stay unused; enough other offsets are left */
        extent_free(memory, &placed, &memory->free_offsets, e);
    }
}

/* Finds an offset in the physical file. Accounting mode has no file, and the offset stays 0. */
static weir_status place_physical(weir__sim_memory *memory, weir__sim_physical *physical, uint64_t size)
{
    if (!memory->backing.on) {
        return WEIR_OK;
    }
    weir__sim_share_collect(memory, unplace_physical);
    weir__intervals placed = {.root = NULL};
    weir_status status = extent_take(memory, &memory->free_offsets, &placed, size, &physical->offset);
    if (status == WEIR_OK) {
        WEIR_ASSERT(placed.root != NULL);
        /* the extent is not needed: the descriptor keeps offset and size */
        weir__slab_put(&memory->extents, placed.root);
    }
    return status;
}

/* Ends physical memory that nothing maps any more. */
static void physical_end(weir_sim *sim, uint32_t index)
{
    weir__sim_memory *memory = &sim->memory;
    const weir__sim_physical *physical = &memory->physical[index];
    WEIR_ASSERT(physical->size != 0 && physical->mappings == 0);
    const bool is_lent = physical->key != 0 && weir__sim_share_drop(sim, physical);
    if (!physical->imported && !is_lent) {
        unplace_physical(memory, physical->offset, physical->size);
    }
    physical_slot_free(memory, index);
}

/* --- regions --- */

/* Takes addresses and bytes for a region that is counted already. */
static weir_status make_region(weir__sim_memory *memory, uint64_t size, uint64_t *address)
{
    weir_status status = extent_take(memory, &memory->free_addresses, &memory->regions, size, address);
    if (status != WEIR_OK) {
        return status;
    }
    struct extent *region = exactly(&memory->regions, *address, size);
    region->physical = 0;
    status = weir__sim_backing_commit(&memory->backing, *address, size);
    if (status != WEIR_OK) {
        extent_free(memory, &memory->regions, &memory->free_addresses, region);
    }
    return status;
}

weir_status weir__sim_region_alloc(weir_sim *sim, uint64_t size, uint64_t *address)
{
    WEIR_ASSERT_HELD(&sim->lock);
    uint64_t start = 0;
    if (!hold(sim, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = make_region(&sim->memory, size, &start);
    if (status != WEIR_OK) {
        unhold(sim, size, false);
        return status;
    }
    audit_given(sim, start, size, false);
    *address = start;
    return WEIR_OK;
}

weir_status weir__sim_region_free(weir_sim *sim, uint64_t address, uint64_t size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    struct extent *region = exactly(&memory->regions, address, size);
    if (region == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_region_free: %llu bytes at %#llx are no region",
                           (unsigned long long)size, (unsigned long long)address);
    }
    weir_status status = weir__sim_backing_hide(&memory->backing, address, size);
    if (status != WEIR_OK) {
        return status;
    }
    audit_taken(sim, address, size, "region_free");
    const bool is_common = region->physical != 0 && memory->physical[region->physical - 1].key != 0;
    if (region->physical != 0) {
        memory->physical[region->physical - 1].mappings = 0;
        physical_end(sim, region->physical - 1);
    }
    extent_free(memory, &memory->regions, &memory->free_addresses, region);
    unhold(sim, size, is_common);
    return WEIR_OK;
}

/* --- virtual memory --- */

weir_status weir__sim_vm_reserve(weir_sim *sim, uint64_t size, uint64_t *address)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    return extent_take(memory, &memory->free_virtual, &memory->reservations, size, address);
}

weir_status weir__sim_vm_release(weir_sim *sim, uint64_t address, uint64_t size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    struct extent *reservation = exactly(&memory->reservations, address, size);
    if (reservation == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_vm_release: %llu bytes at %#llx are no reservation",
                           (unsigned long long)size, (unsigned long long)address);
    }
    if (overlaps(&memory->mappings, address, address + size)) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_device_vm_release: in the reservation at %#llx memory is mapped",
                           (unsigned long long)address);
    }
    extent_free(memory, &memory->reservations, &memory->free_virtual, reservation);
    return WEIR_OK;
}

/* Makes physical memory without contents. Counts nothing. */
static weir_status make_physical(weir__sim_memory *memory, uint64_t size, uint32_t *index)
{
    weir_status status = physical_slot(memory, index);
    if (status != WEIR_OK) {
        return status;
    }
    weir__sim_physical *physical = &memory->physical[*index];
    status = place_physical(memory, physical, size);
    if (status != WEIR_OK) {
        physical_slot_free(memory, *index);
        return status;
    }
    physical->size = size;
    return WEIR_OK;
}

static weir_vm_handle handle_of(const weir__sim_memory *memory, uint32_t index)
{
    WEIR_ASSERT(index < memory->physical_count && memory->physical[index].size != 0);
    return ((uint64_t)memory->physical[index].generation << 32) + index + 1;
}

weir_status weir__sim_vm_create(weir_sim *sim, uint64_t size, weir_vm_handle *handle)
{
    WEIR_ASSERT_HELD(&sim->lock);
    uint32_t index = 0;
    if (!hold(sim, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    const weir_status status = make_physical(&sim->memory, size, &index);
    if (status != WEIR_OK) {
        unhold(sim, size, false);
        return status;
    }
    *handle = handle_of(&sim->memory, index);
    return WEIR_OK;
}

weir_status weir__sim_physical_adopt(weir__sim_memory *memory, const weir__sim_physical *adopted,
                                     weir_vm_handle *handle)
{
    WEIR_ASSERT(adopted->size != 0 && adopted->mappings == 0 && adopted->imported);
    uint32_t index = 0;
    const weir_status status = physical_slot(memory, &index);
    if (status == WEIR_OK) {
        const uint32_t generation = memory->physical[index].generation;
        memory->physical[index] = *adopted;
        memory->physical[index].generation = generation;
        *handle = handle_of(memory, index);
    }
    return status;
}

weir_status weir__sim_region_physical(weir_sim *sim, uint64_t address, weir__sim_physical **physical, uint64_t *size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    struct extent *region = floor_of(&memory->regions, address);
    uint32_t index = 0;
    *physical = NULL;
    if (region == NULL || region->range.start != address) {
        return WEIR_OK;
    }
    *size = region->range.end - address;
    if (region->physical == 0) {
        const uint64_t pages = (*size + sim->config.page_bytes - 1) & ~(sim->config.page_bytes - 1);
        weir_status status = make_physical(memory, pages, &index);
        if (status != WEIR_OK) {
            return status;
        }
        status = weir__sim_backing_move(&memory->backing, address, *size, memory->physical[index].offset);
        if (status != WEIR_OK) {
            physical_end(sim, index);
            return status;
        }
        memory->physical[index].mappings = 1;
        region->physical = index + 1;
    }
    *physical = &memory->physical[region->physical - 1];
    return WEIR_OK;
}

static weir_status no_physical(const char *function, weir_vm_handle handle)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: handle %#llx is not one of this simulator's, or was destroyed", function,
                       (unsigned long long)handle);
}

weir_status weir__sim_vm_destroy(weir_sim *sim, weir_vm_handle handle)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    uint32_t index = 0;
    weir__sim_physical *physical = weir__sim_physical_of(memory, handle, &index);
    if (physical == NULL) {
        return no_physical("weir_device_vm_destroy", handle);
    }
    if (physical->mappings > 0) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_device_vm_destroy: the memory of handle %#llx is mapped",
                           (unsigned long long)handle);
    }
    const uint64_t size = physical->size;
    const bool is_common = physical->key != 0;
    const bool is_own = !physical->imported;
    physical_end(sim, index);
    if (is_own) {
        unhold(sim, size, is_common);
    }
    return WEIR_OK;
}

static const char mapping_call[] = "weir_device_vm_map";

weir_status weir__sim_vm_map(weir_sim *sim, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    uint32_t index = 0;
    weir__sim_physical *physical = weir__sim_physical_of(memory, handle, &index);
    const struct extent *reservation = floor_of(&memory->reservations, address);
    if (physical == NULL) {
        return no_physical(mapping_call, handle);
    }
    if (physical->size != size || (physical->mappings > 0 && !sim->config.direct_access)) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: the memory of handle %#llx %s", mapping_call,
                           (unsigned long long)handle,
                           physical->size != size ? "has another size" : "is mapped already");
    }
    if (reservation == NULL || address % sim->config.page_bytes != 0 || reservation->range.end <= address ||
        reservation->range.end - address < size) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %llu bytes at %#llx do not begin at a page or are not all reserved",
                           mapping_call, (unsigned long long)size, (unsigned long long)address);
    }
    if (overlaps(&memory->mappings, address, address + size)) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: memory is mapped between %#llx and %#llx already", mapping_call,
                           (unsigned long long)address, (unsigned long long)(address + size));
    }
    struct extent *mapping = extent_add(memory, &memory->mappings, address, address + size);
    if (mapping == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir_status status = weir__sim_backing_map(&memory->backing, address, size, physical->file, physical->offset);
    if (status != WEIR_OK) {
        extent_remove(memory, &memory->mappings, mapping);
        return status;
    }
    mapping->physical = index;
    physical->mappings++;
    audit_given(sim, address, size, true);
    return WEIR_OK;
}

weir_status weir__sim_vm_unmap(weir_sim *sim, uint64_t address, uint64_t size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    struct extent *mapping = exactly(&memory->mappings, address, size);
    if (mapping == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_device_vm_unmap: %llu bytes at %#llx are no mapping",
                           (unsigned long long)size, (unsigned long long)address);
    }
    weir_status status = weir__sim_backing_hide(&memory->backing, address, size);
    if (status != WEIR_OK) {
        return status;
    }
    audit_taken(sim, address, size, "vm_unmap");
    WEIR_ASSERT(mapping->physical < memory->physical_count && memory->physical[mapping->physical].mappings > 0);
    memory->physical[mapping->physical].mappings--;
    extent_remove(memory, &memory->mappings, mapping);
    return WEIR_OK;
}

/* --- inspection --- */

void *weir__sim_memory_bytes(weir_sim *sim, uint64_t address, uint64_t size)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    if (!memory->backing.on || size > UINT64_MAX - address) {
        return NULL;
    }
    uint64_t end = address + size;
    const weir__interval *r = weir__intervals_floor(&memory->regions, address);
    if (r == NULL || r->end <= address) {
        r = weir__intervals_floor(&memory->mappings, address);
    }
    while (r != NULL && r->end > address && r->end < end) {
        /* Adjacent ranges count as one range: to the device their addresses are contiguous. */
        const weir__interval *next = weir__intervals_next(r);
        r = next != NULL && next->start == r->end ? next : NULL;
    }
    return r != NULL && r->end > address && r->end >= end ? (void *)(uintptr_t)address : NULL;
}

void weir__sim_memory_leaks(weir_sim *sim)
{
    WEIR_ASSERT_HELD(&sim->lock);
    weir__sim_memory *memory = &sim->memory;
    for (const weir__interval *r = weir__intervals_first(&memory->reservations); r != NULL;
         r = weir__intervals_next(r)) {
        weir__sim_op_info info = now_info(sim, "vm_reserve");
        weir__sim_audit_leaked(sim->audit, r->start, r->end - r->start, &info);
    }
    for (uint32_t i = 0; i < memory->physical_count; i++) {
        const weir__sim_physical *physical = &memory->physical[i];
        if (physical->size != 0 && physical->mappings == 0) {
            weir__sim_op_info info = now_info(sim, "vm_create");
            weir__sim_audit_leaked(sim->audit, 0, physical->size, &info);
        }
    }
}
