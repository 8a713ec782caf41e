/* memfd_device.c: host memory as a device, with virtual memory.
 *
 * Regions are anonymous mappings. Physical memory is a file without a name (memfd_create), which may be mapped at one
 * address after another and keeps its bytes. There are no streams: work queued before a call is complete at the call.
 */
#define _GNU_SOURCE
#include "memfd_device.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((uint64_t)2 << 20)

struct memfd_device {
    uint64_t capacity_bytes;
    _Atomic uint64_t held_bytes; /* atomic: any thread may call the device */
};

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const struct memfd_device *device = ctx;
    *info = (weir_device_info){
        .struct_size = info->struct_size,
        .capacity_bytes = device->capacity_bytes,
        .region_granularity_bytes = PAGE,
        .region_alignment_bytes = 4096,
        .page_bytes = PAGE,
        .abilities = WEIR_DEVICE_VIRTUAL_MEMORY,
        .host_numa_node = -1,
        .name = "memfd",
    };
    return WEIR_OK;
}

/* Returns the status for an errno value. After WEIR_ERR_NO_MEMORY the pool tries other ways to get memory; it passes
 * any other error to its caller. */
static weir_status status_of(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE ? WEIR_ERR_NO_MEMORY : WEIR_ERR_DEVICE;
}

/* --- bytes handed out --- */

static bool hold(struct memfd_device *device, uint64_t size)
{
    uint64_t held = atomic_load(&device->held_bytes);
    do {
        if (size > device->capacity_bytes - held) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&device->held_bytes, &held, held + size));
    return true;
}

static void let_go(struct memfd_device *device, uint64_t size)
{
    atomic_fetch_sub(&device->held_bytes, size);
}

/* --- regions --- */

static weir_status region_alloc(void *ctx, uint64_t size, uint64_t *address)
{
    struct memfd_device *device = ctx;
    if (!hold(device, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        let_go(device, size);
        return status_of(errno);
    }
    *address = (uint64_t)(uintptr_t)at;
    return WEIR_OK;
}

static weir_status region_free(void *ctx, uint64_t address, uint64_t size)
{
    if (munmap((void *)(uintptr_t)address, size) != 0) {
        return status_of(errno);
    }
    let_go(ctx, size);
    return WEIR_OK;
}

/* --- virtual memory --- */

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    (void)ctx;
    if (size > SIZE_MAX - PAGE) {
        return WEIR_ERR_NO_MEMORY;
    }
    char *at = mmap(NULL, size + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return status_of(errno);
    }
    const uint64_t before = PAGE - ((uintptr_t)at & (PAGE - 1)); /* up to a multiple of PAGE */
    if (munmap(at, before) != 0 || (before < PAGE && munmap(at + before + size, PAGE - before) != 0)) {
        return status_of(errno);
    }
    *address = (uint64_t)(uintptr_t)(at + before);
    return WEIR_OK;
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    return munmap((void *)(uintptr_t)address, size) == 0 ? WEIR_OK : status_of(errno);
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    struct memfd_device *device = ctx;
    if (!hold(device, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    const int file = memfd_create("weir", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)size) != 0) {
        const weir_status status = status_of(errno);
        if (file >= 0) {
            close(file);
        }
        let_go(device, size);
        return status;
    }
    *handle = (weir_vm_handle)file + 1; /* 0 is no handle */
    return WEIR_OK;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    const int file = (int)(handle - 1);
    const off_t size = lseek(file, 0, SEEK_END);
    if (size < 0 || close(file) != 0) {
        return status_of(errno);
    }
    let_go(ctx, (uint64_t)size);
    return WEIR_OK;
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    (void)ctx;
    const int file = (int)(handle - 1);
    void *at = (void *)(uintptr_t)address;
    return mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == at ? WEIR_OK : status_of(errno);
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    void *at = (void *)(uintptr_t)address; /* the addresses stay reserved */
    return mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at
               ? WEIR_OK
               : status_of(errno);
}

/* --- the device --- */

static void destroy(void *ctx)
{
    free(ctx);
}

static const weir_device_ops ops = {
    .struct_size = sizeof(weir_device_ops),
    .get_info = get_info,
    .region_alloc = region_alloc,
    .region_free = region_free,
    .vm_reserve = vm_reserve,
    .vm_release = vm_release,
    .vm_create = vm_create,
    .vm_destroy = vm_destroy,
    .vm_map = vm_map,
    .vm_unmap = vm_unmap,
    .destroy = destroy,
};

weir_status memfd_device_create(uint64_t capacity_bytes, weir_device **device)
{
    struct memfd_device *made = malloc(sizeof(*made));
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    made->capacity_bytes = capacity_bytes;
    atomic_init(&made->held_bytes, 0);
    const weir_status status = weir_device_create(&ops, made, device);
    if (status != WEIR_OK) {
        free(made); /* after a failure the object still belongs to the caller */
    }
    return status;
}
