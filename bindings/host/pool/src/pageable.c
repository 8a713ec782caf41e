/* pageable.c: memory of the process as a weir_device: not pinned, not placed, page by page.
 *
 * A reservation is accessible from its beginning to the furthest address ever mapped, and some more. The rest cannot be
 * accessed yet, so it counts for no limit, and a process that locks its memory does not make its pages. Mapping a
 * granule counts it and makes its pages; unmapping it drops the pages. Neither costs a mapping of its own. Pages come
 * from the node of the thread that maps them, and a child after fork has them like any other memory. They are small
 * pages: huge pages would make more memory resident than is held. One chunk description represents all that is mapped.
 */
#include "host_internal.h"

#include "cgroup.h"
#include "numa_pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* old headers lack it */
#define MADV_POPULATE_WRITE 23
#endif

/* An address range of the node. Ranges that the pool has not released, as in a child of fork, are freed with the
 * device. */
struct weir__host_reservation {
    struct weir__host_reservation *next; /* protected by the node's chunk_lock */
    uint64_t address;
    uint64_t size;
    uint64_t open_bytes; /* accessible bytes from its beginning */
};

#define LEAST_OPENED (UINT64_C(2) << 20)

static void note_reason(weir__host_node *node, const char *what, int number, uint64_t bytes)
{
    (void)pthread_mutex_lock(&node->chunk_lock);
    node->held.kind_failures[WEIR_HOST_UNPINNED]++;
    (void)snprintf(node->reasons[WEIR_HOST_UNPINNED], sizeof(node->reasons[0]), "%s of %llu KiB failed: %s", what,
                   (unsigned long long)(bytes >> 10), strerror(number));
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

uint64_t weir__host_machine_bytes(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 ? ((uint64_t)info.totalram + info.totalswap) * info.mem_unit : 0;
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const weir__host_node *node = ctx;
    info->region_granularity_bytes = node->pool->config.chunk_bytes;
    info->region_alignment_bytes = node->pool->config.chunk_bytes;
    info->page_bytes = node->pool->config.chunk_bytes;
    info->abilities = WEIR_DEVICE_VIRTUAL_MEMORY;
    info->host_numa_node = node->number;
    return WEIR_OK;
}

static weir_status no_region(void *ctx, uint64_t size, uint64_t *address)
{
    (void)ctx;
    (void)size;
    (void)address;
    return WEIR_ERR_UNSUPPORTED;
}

static weir_status no_region_free(void *ctx, uint64_t address, uint64_t size)
{
    (void)ctx;
    (void)address;
    (void)size;
    return WEIR_ERR_UNSUPPORTED;
}

static weir_status vm_reserve(void *ctx, uint64_t size, uint64_t *address)
{
    WEIR_ASSERT(size != 0);
    weir__host_node *node = ctx;
    const uint64_t machine = node->pool->ledger->machine_bytes;
    if (machine != 0 && size > machine) {
        note_reason(node, "reserving addresses", ENOMEM, size);
        return WEIR_ERR_NO_MEMORY;
    }
    struct weir__host_reservation *r = malloc(sizeof(*r));
    void *start = NULL;
    const weir_status status = r != NULL ? weir__numa_reserve(size, WEIR__HUGE_PAGE, &start, NULL) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        /* The process may use mlockall(MCL_FUTURE): these addresses must not get pages at once. */
        (void)syscall(SYS_munlock, start, size);
    }
    if (status != WEIR_OK) {
        note_reason(node, "reserving addresses", errno, size);
        free(r);
        return WEIR_ERR_NO_MEMORY;
    }
    (void)madvise(start, (size_t)size, MADV_NOHUGEPAGE);
    *r = (struct weir__host_reservation){.address = (uint64_t)(uintptr_t)start, .size = size};
    (void)pthread_mutex_lock(&node->chunk_lock);
    r->next = node->reservations;
    node->reservations = r;
    (void)pthread_mutex_unlock(&node->chunk_lock);
    *address = r->address;
    return WEIR_OK;
}

static weir_status vm_release(void *ctx, uint64_t address, uint64_t size)
{
    weir__host_node *node = ctx;
    (void)pthread_mutex_lock(&node->chunk_lock);
    struct weir__host_reservation **link = &node->reservations;
    while (*link != NULL && (*link)->address != address) {
        link = &(*link)->next;
    }
    struct weir__host_reservation *r = *link;
    if (r != NULL) {
        *link = r->next;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    if (r == NULL) {
        return WEIR_ERR_INVALID;
    }
    free(r);
    weir__numa_unmap((void *)(uintptr_t)address, size, false);
    return WEIR_OK;
}

/* True if the process's control group has room for `size` more bytes; where it has none, the system would kill the
 * process. The kernel's figures are read again each time that an eighth of the room found last has been used up. */
static bool group_has_room(weir__host_node *node, uint64_t size)
{
    weir__host_ledger *ledger = node->pool->ledger;
    const uint64_t held = atomic_load(&ledger->held_bytes) + size;
    if (!ledger->is_in_group || held <= atomic_load(&ledger->group_mark)) {
        return true;
    }
    const uint64_t room = weir__cgroup_read("").room_bytes;
    const uint64_t made = atomic_load(&ledger->made_bytes);
    const uint64_t coming = held > made ? held - made : 0; /* pages that are still to be made */
    if (room < coming) {
        note_reason(node, "taking more than the process's control group has (memory.max)", ENOMEM, size);
        return false;
    }
    atomic_store(&ledger->group_mark, held + (room - coming) / 8);
    return true;
}

static weir_status vm_create(void *ctx, uint64_t size, weir_vm_handle *handle)
{
    weir__host_node *node = ctx;
    const weir__host_ledger *ledger = node->pool->ledger;
    if (ledger->machine_bytes != 0 && atomic_load(&ledger->held_bytes) + size > ledger->machine_bytes) {
        note_reason(node, "taking more than the machine has, in pieces", ENOMEM, size);
        return WEIR_ERR_NO_MEMORY;
    }
    if (!group_has_room(node, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (!weir__host_limit_take(node->pool, size)) {
        return WEIR_ERR_LIMIT;
    }
    *handle = size; /* the number of bytes serves as the handle */
    return WEIR_OK;
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    weir__host_node *node = ctx;
    weir__host_limit_give(node->pool, handle);
    return WEIR_OK;
}

static void count(weir__host_node *node, uint64_t bytes)
{
    weir_host_stats *held = &node->held;
    (void)pthread_mutex_lock(&node->chunk_lock);
    WEIR_ASSERT(bytes % node->pool->config.chunk_bytes == 0);
    (void)atomic_fetch_add(&node->pool->ledger->made_bytes, bytes);
    held->held_bytes += bytes;
    held->unpinned_bytes += bytes;
    held->unverified_bytes += bytes;
    held->kind_bytes[WEIR_HOST_UNPINNED] += bytes;
    held->chunks = held->held_bytes / node->pool->config.chunk_bytes;
    if (held->held_bytes > held->peak_held_bytes) {
        held->peak_held_bytes = held->held_bytes;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

/* Makes all pages in one call, which costs less than a fault for each and reports a lack of memory. Returns true on
 * kernels without the call (before 5.14), which make each page at its first access. */
static bool make_pages(weir__host_node *node, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(address % weir__numa_page_bytes() == 0);
    void *memory = (void *)(uintptr_t)address;
    if (madvise(memory, (size_t)size, MADV_POPULATE_WRITE) == 0 || errno == EINVAL || errno == ENOSYS ||
        errno == EPERM) {
        return true;
    }
    note_reason(node, "making pages", errno, size);
    (void)madvise(memory, (size_t)size, MADV_DONTNEED);
    return false;
}

/* Makes a reservation accessible up to `bytes`, plus a quarter if the system allows, so that the call is rare. */
static bool widen(struct weir__host_reservation *r, uint64_t bytes)
{
    WEIR_ASSERT(bytes > r->open_bytes && bytes <= r->size);
    char *const end = (char *)(uintptr_t)r->address + r->open_bytes;
    const uint64_t left = r->size - bytes;
    const uint64_t more = bytes / 4 > LEAST_OPENED ? bytes / 4 & ~(LEAST_OPENED - 1) : LEAST_OPENED;
    const uint64_t ample = bytes + (more < left ? more : left);
    if (mprotect(end, (size_t)(ample - r->open_bytes), PROT_READ | PROT_WRITE) == 0) {
        r->open_bytes = ample;
        return true;
    }
    if (mprotect(end, (size_t)(bytes - r->open_bytes), PROT_READ | PROT_WRITE) == 0) {
        r->open_bytes = bytes;
        return true;
    }
    return false;
}

static bool open_addresses(weir__host_node *node, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    (void)pthread_mutex_lock(&node->chunk_lock);
    struct weir__host_reservation *r = node->reservations;
    while (r != NULL && address - r->address >= r->size) {
        r = r->next;
    }
    const uint64_t bytes = r != NULL ? address - r->address + size : 0;
    const bool is_open = r != NULL && (bytes <= r->open_bytes || widen(r, bytes));
    const int why = errno;
    WEIR_ASSERT(r == NULL || r->open_bytes <= r->size);
    (void)pthread_mutex_unlock(&node->chunk_lock);
    if (!is_open) {
        note_reason(node, "making addresses memory", why, size);
    }
    return is_open;
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    WEIR_ASSERT(handle == size);
    weir__host_node *node = ctx;
    (void)handle;
    if (!open_addresses(node, address, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (weir__host_registry_reserve(&node->pool->registry, address, size) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir__host_registry_set_chunk(&node->pool->registry, address, size, &node->pageable);
    if (!make_pages(node, address, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    count(node, size);
    return WEIR_OK;
}

/* Where madvise is forbidden, as in some sandboxes, or the pages are locked, a new mapping replaces them. */
static bool drop_pages(uint64_t address, uint64_t size)
{
    WEIR_ASSERT(address % weir__numa_page_bytes() == 0);
    void *memory = (void *)(uintptr_t)address;
    return madvise(memory, (size_t)size, MADV_DONTNEED) == 0 ||
           mmap(memory, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    weir__host_node *node = ctx;
    if (!drop_pages(address, size)) {
        return WEIR_ERR_DEVICE;
    }
    count(node, 0 - size);
    return WEIR_OK;
}

static const weir_device_ops ops = {
    .struct_size = sizeof(ops),
    .get_info = get_info,
    .region_alloc = no_region,
    .region_free = no_region_free,
    .vm_reserve = vm_reserve,
    .vm_release = vm_release,
    .vm_create = vm_create,
    .vm_destroy = vm_destroy,
    .vm_map = vm_map,
    .vm_unmap = vm_unmap,
};

weir_status weir__host_pageable_create(weir__host_node *node, weir_device **device)
{
    WEIR_ASSERT(weir__host_is_pageable(&node->pool->config));
    atomic_init(&node->pageable.kind, WEIR_HOST_UNPINNED);
    return weir_device_create(&ops, node, device);
}

void weir__host_pageable_fini(weir__host_node *node)
{
    while (node->reservations != NULL) {
        struct weir__host_reservation *r = node->reservations;
        node->reservations = r->next;
        weir__numa_unmap((void *)(uintptr_t)r->address, r->size, false);
        free(r);
    }
}
