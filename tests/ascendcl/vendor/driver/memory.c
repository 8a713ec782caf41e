/* memory.c: memory of devices and of the host, as private memory of the process. An address is valid on both sides. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif

#include "driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

pthread_mutex_t driver_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Allocations and registered ranges, in lists: the programs that run here hold few of them. */
typedef struct driver_range {
    struct driver_range *next;
    uintptr_t first;
    size_t size;
    uint32_t type, device, page_size;
    bool is_counted; /* in used_bytes */
} driver_range;

static driver_range *allocations;
static driver_range *registrations;
static uint64_t used_bytes[DRIVER_DEVICES];

uint64_t driver_capacity(void)
{
    const char *text = getenv("WEIR_DRIVER_CAPACITY");
    const unsigned long long bytes = text != NULL ? strtoull(text, NULL, 0) : 0;
    return bytes != 0 ? bytes : UINT64_C(32) << 30;
}

bool driver_take(uint32_t device, uint64_t size)
{
    if (size > driver_capacity() - used_bytes[device]) {
        return false;
    }
    used_bytes[device] += size;
    return true;
}

void driver_give_back(uint32_t device, uint64_t size)
{
    used_bytes[device] -= size;
}

void *driver_addresses(size_t size, int protection)
{
    const size_t more = size + DRIVER_HUGE_PAGE;
    char *raw = mmap(NULL, more, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        return NULL;
    }
    const size_t before = -(uintptr_t)raw & (DRIVER_HUGE_PAGE - 1);
    const size_t after = more - before - size;
    if (before > 0) {
        (void)munmap(raw, before);
    }
    if (after > 0) {
        (void)munmap(raw + before + size, after);
    }
    return raw + before;
}

/* Returns the link to the range that holds this address; the last link, which is NULL, if there is none. */
static driver_range **holder(driver_range **list, uintptr_t address)
{
    while (*list != NULL && !(address >= (*list)->first && address - (*list)->first < (*list)->size)) {
        list = &(*list)->next;
    }
    return list;
}

static driver_range *add(driver_range **list, driver_range value)
{
    driver_range *added = malloc(sizeof(*added));
    if (added != NULL) {
        value.next = *list;
        *added = value;
        *list = added;
    }
    return added;
}

static void drop(driver_range **link)
{
    driver_range *dropped = *link;
    *link = dropped->next;
    free(dropped);
}

/* --- allocations --- */

static bool is_on_host(unsigned long long flag)
{
    const unsigned side = (unsigned)(flag >> HAL_MEM_SIDE_BIT) & 0xf;
    return side == HAL_SIDE_HOST || side == HAL_SIDE_HOST_AGENT || side == HAL_SIDE_HOST_SHARED;
}

/* With WEIR_DRIVER_RUNTIME_MEMORY=0 the driver does not count the memory that the runtime takes for itself (some 26
 * MiB, and more as work is queued). Programs that expect all memory of a device to be theirs set this. */
static bool is_hidden(unsigned long long flag)
{
    const char *text = getenv("WEIR_DRIVER_RUNTIME_MEMORY");
    return flag >> HAL_MEM_MODULE_BIT == HAL_MODULE_OF_RUNTIME && text != NULL && strcmp(text, "0") == 0;
}

hal_error halMemAlloc(void **address, unsigned long long size, unsigned long long flag)
{
    const uint32_t device = (uint32_t)(flag & HAL_MEM_DEVICE_MASK) % DRIVER_DEVICES;
    const bool host = is_on_host(flag);
    const uint32_t page = (flag & (HAL_MEM_HUGE | HAL_MEM_GIANT)) != 0 ? DRIVER_HUGE_PAGE : DRIVER_PAGE;
    if (address == NULL || size == 0) {
        return HAL_INVALID_VALUE;
    }
    if (size > UINT64_C(1) << 46) { /* more than the addresses of a process */
        return HAL_OUT_OF_MEMORY;
    }
    const size_t bytes = (size + page - 1) / page * page;
    const bool counts = !host && !is_hidden(flag);
    DRIVER_HOLD_LOCK();
    if (counts && !driver_take(device, bytes)) {
        return HAL_OUT_OF_MEMORY;
    }
    void *first = driver_addresses(bytes, PROT_READ | PROT_WRITE);
    if (first == NULL || add(&allocations, (driver_range){.first = (uintptr_t)first,
                                                          .size = bytes,
                                                          .type = host ? HAL_TYPE_HOST : HAL_TYPE_DEVICE,
                                                          .device = device,
                                                          .page_size = page,
                                                          .is_counted = counts}) == NULL) {
        if (first != NULL) {
            (void)munmap(first, bytes);
        }
        driver_give_back(device, counts ? bytes : 0);
        return HAL_OUT_OF_MEMORY;
    }
    *address = first;
    return HAL_OK;
}

hal_error halMemFree(void *address)
{
    DRIVER_HOLD_LOCK();
    driver_range **link = holder(&allocations, (uintptr_t)address);
    if (*link == NULL || (*link)->first != (uintptr_t)address) {
        return HAL_INVALID_VALUE;
    }
    driver_give_back((*link)->device, (*link)->is_counted ? (*link)->size : 0);
    (void)munmap(address, (*link)->size);
    drop(link);
    return HAL_OK;
}

void driver_memory_end(uint32_t device)
{
    for (driver_range **link = &allocations; *link != NULL;) {
        if ((*link)->type != HAL_TYPE_DEVICE || (*link)->device != device) {
            link = &(*link)->next;
            continue;
        }
        driver_give_back(device, (*link)->is_counted ? (*link)->size : 0);
        (void)munmap((void *)(*link)->first, (*link)->size); /* NOLINT(performance-no-int-to-ptr) */
        drop(link);
    }
}

hal_error drvMemGetAttribute(uintptr_t address, hal_attribute *attribute)
{
    DRIVER_HOLD_LOCK();
    attribute->type = HAL_TYPE_UNKNOWN;
    attribute->device = 0;
    attribute->page_size = DRIVER_PAGE;
    const driver_range *found = *holder(&allocations, address);
    if (found == NULL && driver_mapping_of(address, attribute)) {
        return HAL_OK;
    }
    if (found == NULL) {
        found = *holder(&registrations, address);
    }
    if (found != NULL) {
        attribute->type = found->type;
        attribute->device = found->device;
        attribute->page_size = found->page_size;
    }
    return HAL_OK;
}

hal_error drvMemGetAddressRange(uintptr_t address, uintptr_t *base, size_t *size)
{
    DRIVER_HOLD_LOCK();
    const driver_range *found = *holder(&allocations, address);
    if (found == NULL) {
        return HAL_INVALID_VALUE;
    }
    *base = found->first;
    *size = found->size;
    return HAL_OK;
}

hal_error halMemGetInfo(uint32_t device, unsigned int type, hal_mem_info *info)
{
    if (type == HAL_INFO_ADDRESS) {
        info->address.is_valid = 1;
        return HAL_OK;
    }
    if (device >= DRIVER_DEVICES) {
        return HAL_INVALID_VALUE;
    }
    DRIVER_HOLD_LOCK();
    info->physical.total = info->physical.free = 0;
    info->physical.giant_total = info->physical.giant_free = 0;
    info->physical.huge_total = driver_capacity();
    info->physical.huge_free = driver_capacity() - used_bytes[device];
    return HAL_OK;
}

hal_error halMemGetInfoEx(uint32_t device, unsigned int type, hal_mem_info *info)
{
    return halMemGetInfo(device, type, info);
}

/* --- copies by the host --- */

hal_error drvMemcpy(uintptr_t to, size_t room, uintptr_t from, size_t size)
{
    return halMemcpy((void *)to, room, (void *)from, size, NULL); /* NOLINT(performance-no-int-to-ptr) */
}

hal_error halMemcpy(void *to, size_t room, void *from, size_t size, void *options)
{
    (void)options;
    if (size > room) {
        return HAL_INVALID_VALUE;
    }
    memmove(to, from, size);
    return HAL_OK;
}

hal_error drvMemsetD8(uintptr_t to, size_t room, uint8_t value, size_t size)
{
    if (size > room) {
        return HAL_INVALID_VALUE;
    }
    memset((void *)to, value, size); /* NOLINT(performance-no-int-to-ptr) */
    return HAL_OK;
}

/* Physical addresses are the process's own. */
hal_error drvMemConvertAddr(uintptr_t from, uintptr_t to, uint32_t size, hal_dma *dma)
{
    dma->from = (void *)from; /* NOLINT(performance-no-int-to-ptr) */
    dma->to = (void *)to;     /* NOLINT(performance-no-int-to-ptr) */
    dma->size = size;
    dma->is_chain = 0;
    dma->converted = size;
    return HAL_OK;
}

hal_error drvMemDestroyAddr(hal_dma *dma)
{
    (void)dma;
    return HAL_OK;
}

hal_error halMemDestroyAddrBatch(hal_dma *dmas[], uint32_t count)
{
    (void)dmas;
    (void)count;
    return HAL_OK;
}

hal_error drvMemAddressTranslate(uintptr_t address, unsigned long long *physical)
{
    *physical = address;
    return HAL_OK;
}

/* --- registered host memory --- */

hal_error halHostRegister(void *address, unsigned long long size, uint32_t flag, uint32_t device, void **mapped)
{
    (void)flag;
    const uintptr_t first = (uintptr_t)address;
    if (first == 0 || size == 0 || first % DRIVER_PAGE != 0) {
        return HAL_WRONG_PARAMETER;
    }
    DRIVER_HOLD_LOCK();
    for (const driver_range *r = registrations; r != NULL; r = r->next) {
        if (first < r->first + r->size && r->first < first + size) {
            return HAL_WRONG_PARAMETER;
        }
    }
    if (add(&registrations, (driver_range){.first = first,
                                           .size = size,
                                           .type = HAL_TYPE_REGISTERED,
                                           .device = device % DRIVER_DEVICES,
                                           .page_size = DRIVER_PAGE}) == NULL) {
        return HAL_OUT_OF_MEMORY;
    }
    if (mapped != NULL) {
        *mapped = address;
    }
    return HAL_OK;
}

hal_error halHostUnregister(void *address, uint32_t device)
{
    (void)device;
    DRIVER_HOLD_LOCK();
    driver_range **link = holder(&registrations, (uintptr_t)address);
    if (*link == NULL || (*link)->first != (uintptr_t)address) {
        return HAL_INVALID_VALUE;
    }
    drop(link);
    return HAL_OK;
}

hal_error halHostUnregisterEx(void *address, uint32_t device, uint32_t flag)
{
    (void)flag;
    return halHostUnregister(address, device);
}

hal_error halMemHostGetDevPointer(void *address, uint32_t device, void **mapped)
{
    (void)device;
    *mapped = address;
    return HAL_OK;
}

hal_error halHostRegisterCapabilities(uint32_t device, uint32_t kind, uint32_t *capabilities)
{
    (void)device;
    (void)kind;
    *capabilities = UINT32_MAX;
    return HAL_OK;
}
