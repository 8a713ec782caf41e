/* backing.c: real bytes behind the addresses of backed mode.
 *
 * Idea: one large reservation without access, so that addresses are pointers. A region maps a small file full of poison
 * privately: fresh memory reads as poison, and pages are committed when first written. Physical memory is a range of a
 * sparse file, so the same bytes can be mapped at another address. Guarantee: memory that is not committed or mapped
 * faults when it is touched. Cost: one mmap for each 2 MiB of a region, one for a mapping.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* memfd_create, fallocate */
#endif

#include "sim_internal.h"

#include "shared/poison.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* True if the range lies in the reserved addresses. */
static bool contains(const weir__sim_backing *backing, uint64_t address, uint64_t size)
{
    const uint64_t offset = address - (uint64_t)(uintptr_t)backing->base;
    return offset < backing->size && size <= backing->size - offset;
}

static int open_physical(uint64_t size)
{
    int file = above_standard(memfd_create("weir-sim-physical", MFD_CLOEXEC));
    if (file >= 0 && ftruncate(file, (off_t)size) != 0) {
        (void)close(file);
        file = -1;
    }
    return file;
}

weir_status weir__sim_backing_init(weir__sim_backing *backing, uint64_t size, uint64_t alignment,
                                   uint64_t physical_size, uint64_t *base)
{
    WEIR_ASSERT(!backing->on && alignment != 0 && (alignment & (alignment - 1)) == 0);
    backing->size = (size_t)(size + alignment);
    backing->base = mmap(NULL, backing->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (backing->base == MAP_FAILED) {
        return WEIR_ERR_NO_MEMORY;
    }
    backing->on = true;
    backing->poison_file = poison_open("weir-sim-poison");
    backing->physical_file = open_physical(physical_size);
    if (backing->poison_file < 0 || backing->physical_file < 0) {
        weir__sim_backing_fini(backing);
        return WEIR_ERR_NO_MEMORY;
    }
    *base = ((uint64_t)(uintptr_t)backing->base + alignment - 1) & ~(alignment - 1);
    return WEIR_OK;
}

void weir__sim_backing_fini(weir__sim_backing *backing)
{
    if (!backing->on) {
        return;
    }
    (void)munmap(backing->base, backing->size);
    if (backing->poison_file >= 0) {
        (void)close(backing->poison_file);
    }
    if (backing->physical_file >= 0) {
        (void)close(backing->physical_file);
    }
    memset(backing, 0, sizeof(*backing));
}

weir_status weir__sim_backing_commit(weir__sim_backing *backing, uint64_t address, uint64_t size)
{
    if (!backing->on) {
        return WEIR_OK;
    }
    WEIR_ASSERT(!backing->on || contains(backing, address, size));
    if (!poison_map(backing->poison_file, pointer(address), (size_t)size)) {
        (void)weir__sim_backing_hide(backing, address, size);
        return WEIR_ERR_NO_MEMORY;
    }
    return WEIR_OK;
}

weir_status weir__sim_backing_map(weir__sim_backing *backing, uint64_t address, uint64_t size, int file,
                                  uint64_t offset)
{
    WEIR_ASSERT(!backing->on || contains(backing, address, size));
    if (backing->on && mmap(pointer(address), (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            file >= 0 ? file : backing->physical_file, (off_t)offset) == MAP_FAILED) {
        return WEIR_ERR_NO_MEMORY;
    }
    return WEIR_OK;
}

weir_status weir__sim_backing_move(weir__sim_backing *backing, uint64_t address, uint64_t size, uint64_t offset)
{
    WEIR_ASSERT(!backing->on || contains(backing, address, size));
    for (uint64_t done = 0; backing->on && done < size;) {
        const ssize_t written =
            pwrite(backing->physical_file, pointer(address + done), (size_t)(size - done), (off_t)(offset + done));
        if (written <= 0) {
            return WEIR_ERR_NO_MEMORY;
        }
        done += (uint64_t)written;
    }
    return weir__sim_backing_map(backing, address, size, -1, offset);
}

weir_status weir__sim_backing_hide(weir__sim_backing *backing, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(!backing->on || contains(backing, address, size));
    if (backing->on && mmap(pointer(address), (size_t)size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
        return WEIR_ERR_DEVICE;
    }
    return WEIR_OK;
}

void weir__sim_backing_discard(weir__sim_backing *backing, uint64_t offset, uint64_t size, int file)
{
    if (backing->on) {
        /* The contents of fresh physical memory are unspecified: a host that cannot punch holes in a file keeps the old
         * contents. */
        (void)fallocate(file >= 0 ? file : backing->physical_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)offset, (off_t)size);
    }
}
