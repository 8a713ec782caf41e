/* virtual.c: reserved addresses, and physical memory that is mapped at them. The memory of a handle is a file without a
 * name, so two mappings of one handle show the same bytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif

#include "driver.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct driver_physical {
    size_t size;
    uint32_t device;
    bool on_host;
    unsigned references;
    int file;
} driver_physical;

typedef struct driver_area {
    struct driver_area *next;
    uintptr_t first;
    size_t size;
    driver_physical *memory; /* NULL: a reservation */
    int side; /* of a reservation: the device of the memory that was mapped first, or HOST_SIDE, or UNUSED */
} driver_area;

enum { UNUSED = -2, HOST_SIDE = -1 };

static driver_area *reservations;
static driver_area *mappings;

static driver_area **area_at(driver_area **list, uintptr_t first)
{
    while (*list != NULL && (*list)->first != first) {
        list = &(*list)->next;
    }
    return list;
}

static bool overlaps(const driver_area *one, uintptr_t first, size_t size)
{
    return first < one->first + one->size && one->first < first + size;
}

static bool add(driver_area **list, uintptr_t first, size_t size, driver_physical *memory)
{
    driver_area *added = malloc(sizeof(*added));
    if (added != NULL) {
        *added = (driver_area){.next = *list, .first = first, .size = size, .memory = memory, .side = UNUSED};
        *list = added;
    }
    return added != NULL;
}

static void drop(driver_area **link)
{
    driver_area *dropped = *link;
    *link = dropped->next;
    free(dropped);
}

/* --- addresses --- */

hal_error halMemAddressReserve(void **address, size_t size, size_t alignment, void *wanted, uint64_t flag)
{
    (void)wanted;
    (void)flag;
    if (alignment != 0 || size == 0) {
        return HAL_INVALID_VALUE;
    }
    const size_t bytes = (size + DRIVER_HUGE_PAGE - 1) & ~(size_t)(DRIVER_HUGE_PAGE - 1);
    DRIVER_HOLD_LOCK();
    void *first = driver_addresses(bytes, PROT_NONE);
    if (first == NULL || !add(&reservations, (uintptr_t)first, bytes, NULL)) {
        if (first != NULL) {
            (void)munmap(first, bytes);
        }
        return HAL_OUT_OF_MEMORY;
    }
    *address = first;
    return HAL_OK;
}

hal_error halMemAddressFree(void *address)
{
    DRIVER_HOLD_LOCK();
    driver_area **link = area_at(&reservations, (uintptr_t)address);
    if (*link == NULL) {
        return HAL_INVALID_VALUE;
    }
    for (const driver_area *mapping = mappings; mapping != NULL; mapping = mapping->next) {
        if (overlaps(mapping, (*link)->first, (*link)->size)) {
            return HAL_BUSY;
        }
    }
    (void)munmap(address, (*link)->size);
    drop(link);
    return HAL_OK;
}

/* --- memory --- */

static void let_go(driver_physical *memory)
{
    if (--memory->references == 0) {
        driver_give_back(memory->device, memory->on_host ? 0 : memory->size);
        (void)close(memory->file);
        free(memory);
    }
}

hal_error halMemCreate(void **handle, size_t size, const hal_mem_prop *prop, uint64_t flag)
{
    (void)flag;
    const bool on_host = prop->side != HAL_PROP_DEVICE;
    const uint32_t device = on_host ? 0 : prop->device;
    if (device >= DRIVER_DEVICES || size == 0) {
        return HAL_INVALID_VALUE;
    }
    if (size % DRIVER_HUGE_PAGE != 0) {
        return HAL_WRONG_PARAMETER;
    }
    DRIVER_HOLD_LOCK();
    if (!on_host && !driver_take(device, size)) {
        return HAL_OUT_OF_MEMORY;
    }
    driver_physical *memory = malloc(sizeof(*memory));
    const int file = memory != NULL ? memfd_create("weir-driver", MFD_CLOEXEC) : -1;
    if (file < 0 || ftruncate(file, (off_t)size) != 0) {
        if (file >= 0) {
            (void)close(file);
        }
        free(memory);
        driver_give_back(device, on_host ? 0 : size);
        return HAL_OUT_OF_MEMORY;
    }
    *memory = (driver_physical){.size = size, .device = device, .on_host = on_host, .references = 1, .file = file};
    *handle = memory;
    return HAL_OK;
}

hal_error halMemRelease(void *handle)
{
    driver_physical *memory = handle;
    DRIVER_HOLD_LOCK();
    let_go(memory);
    return HAL_OK;
}

hal_error halMemRetainAllocationHandle(void **handle, void *address)
{
    DRIVER_HOLD_LOCK();
    driver_area *mapping = *area_at(&mappings, (uintptr_t)address);
    if (mapping == NULL) {
        return HAL_WRONG_PARAMETER;
    }
    mapping->memory->references++;
    *handle = mapping->memory;
    return HAL_OK;
}

/* --- mappings --- */

static driver_area *reservation_of(uintptr_t first, size_t size)
{
    driver_area *place = reservations;
    while (place != NULL && !(first >= place->first && first - place->first <= place->size &&
                              size <= place->size - (first - place->first))) {
        place = place->next;
    }
    return place;
}

hal_error halMemMap(void *address, size_t size, size_t offset, void *handle, uint64_t flag)
{
    (void)flag;
    driver_physical *memory = handle;
    DRIVER_HOLD_LOCK();
    if (offset != 0) {
        return HAL_INVALID_VALUE;
    }
    driver_area *place = reservation_of((uintptr_t)address, size);
    const int side = memory->on_host ? HOST_SIDE : (int)memory->device;
    if (size != memory->size || place == NULL || (place->side != UNUSED && place->side != side)) {
        return HAL_WRONG_PARAMETER;
    }
    for (const driver_area *mapping = mappings; mapping != NULL; mapping = mapping->next) {
        if (overlaps(mapping, (uintptr_t)address, size)) {
            return HAL_WRONG_PARAMETER;
        }
    }
    if (!add(&mappings, (uintptr_t)address, size, memory)) {
        return HAL_OUT_OF_MEMORY;
    }
    if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->file, 0) == MAP_FAILED) {
        drop(&mappings);
        return HAL_OUT_OF_MEMORY;
    }
    memory->references++;
    place->side = side;
    return HAL_OK;
}

hal_error halMemUnmap(void *address)
{
    DRIVER_HOLD_LOCK();
    driver_area **link = area_at(&mappings, (uintptr_t)address);
    if (*link == NULL) {
        return HAL_WRONG_PARAMETER;
    }
    (void)mmap(address, (*link)->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    let_go((*link)->memory);
    drop(link);
    return HAL_OK;
}

bool driver_mapping_of(uintptr_t address, hal_attribute *attribute)
{
    for (const driver_area *mapping = mappings; mapping != NULL; mapping = mapping->next) {
        if (address >= mapping->first && address - mapping->first < mapping->size) {
            attribute->type = mapping->memory->on_host ? HAL_TYPE_HOST : HAL_TYPE_DEVICE;
            attribute->device = mapping->memory->device;
            return true;
        }
    }
    return false;
}

hal_error halMemSetAccess(void *address, size_t size, void *descriptions, size_t count)
{
    (void)address;
    (void)size;
    (void)descriptions;
    (void)count;
    return HAL_OK;
}

hal_error halMemGetAllocationGranularity(const hal_mem_prop *prop, int option, size_t *granularity)
{
    (void)option;
    *granularity = prop->pages == HAL_PAGES_GIANT ? (size_t)1 << 30 : DRIVER_HUGE_PAGE;
    return HAL_OK;
}
