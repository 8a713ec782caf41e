/* pageable.c: memory of the process as a weir_device: not pinned, not placed, page by page.
 *
 * A reservation is accessible from its beginning to the furthest address ever mapped, and some more. The rest cannot be
 * accessed yet, so it counts for no limit, and a process that locks its memory does not make its pages. Mapping a
 * granule counts it and makes its pages. Neither mapping nor unmapping costs a mapping of its own. Pages come from the
 * node of the thread that maps them, and a child after fork has them like any other memory. They are small pages: huge
 * pages would make more memory resident than is held. One chunk description represents all that is mapped.
 *
 * A granule that is unmapped keeps its pages (parked.h). A mapping takes them over: they move to its addresses
 * (page_move.h), or where the system refuses that they are dropped and new ones made. The pages of the granule's
 * neighbours move along to the addresses above if these are unmapped: holes are mapped in the order of their addresses,
 * so the next mapping finds its pages there. Pages are dropped when memory is destroyed.
 * Invariant: the parked bytes are at most those that were created and are mapped nowhere.
 */
#include "host_internal.h"

#include "cgroup.h"
#include "numa_pages.h"
#include "tuning.h"

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
    uint64_t open_bytes; /* bytes at the start of the range that are accessible */
    bool is_tried;       /* true: weir__page_mover_add was called for this range, and `takes_pages` is its result; both
                            are used only by the thread that grows the pool */
    bool takes_pages;
    bool mapped[]; /* for each granule */
};

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
    struct weir__host_reservation *r = calloc(1, sizeof(*r) + size / node->pool->config.chunk_bytes);
    void *start = NULL;
    const weir_status status = r != NULL ? weir__numa_reserve(size, WEIR__HUGE_PAGE, &start, NULL) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        /* These addresses must not get pages at once, even if the process uses mlockall(MCL_FUTURE). */
        (void)syscall(SYS_munlock, start, size);
    }
    if (status != WEIR_OK) {
        note_reason(node, "reserving addresses", errno, size);
        free(r);
        return WEIR_ERR_NO_MEMORY;
    }
    (void)madvise(start, (size_t)size, MADV_NOHUGEPAGE);
    r->address = (uint64_t)(uintptr_t)start;
    r->size = size;
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
    if (r->takes_pages) {
        weir__page_mover_drop(&node->mover, address, size);
    }
    free(r);
    weir__numa_unmap((void *)(uintptr_t)address, size, false);
    return WEIR_OK;
}

/* True if the process's control group has room for `size` more bytes. Without room the system would kill the process.
 * The kernel's figures are read again whenever an eighth of the room that they showed has been used up. */
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
    atomic_store(&ledger->group_mark, held + (room - coming) / GROUP_SHARE);
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
    *handle = size; /* the handle is just the number of bytes */
    node->loose_bytes += size;
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

/* Makes all pages in one call, which costs less than one fault for each page and reports a lack of memory. On kernels
 * without the call (before 5.14), only returns true: there each page is made at its first access. */
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

/* Makes the first `bytes` of a reservation accessible, plus a quarter if the system allows, so that the call is
 * rare. */
static bool widen(struct weir__host_reservation *r, uint64_t bytes)
{
    WEIR_ASSERT(bytes > r->open_bytes && bytes <= r->size);
    char *const end = (char *)(uintptr_t)r->address + r->open_bytes;
    const uint64_t left = r->size - bytes;
    const uint64_t more =
        bytes / OPENED_SHARE > LEAST_OPENED ? bytes / OPENED_SHARE & ~(uint64_t)(LEAST_OPENED - 1) : LEAST_OPENED;
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

static struct weir__host_reservation *reservation_around(weir__host_node *node, uint64_t address)
{
    (void)pthread_mutex_lock(&node->chunk_lock);
    struct weir__host_reservation *r = node->reservations;
    while (r != NULL && address - r->address >= r->size) {
        r = r->next;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return r;
}

static bool open_addresses(weir__host_node *node, struct weir__host_reservation *r, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    const uint64_t bytes = r != NULL ? address - r->address + size : 0;
    const bool is_open = r != NULL && (bytes <= r->open_bytes || widen(r, bytes));
    WEIR_ASSERT(r == NULL || r->open_bytes <= r->size);
    if (!is_open) {
        note_reason(node, "making addresses memory", errno, size);
    }
    return is_open;
}

/* Drops pages by madvise. Where madvise is forbidden, as in some sandboxes, or the pages are locked, a new mapping
 * replaces the pages. */
static bool drop_pages(uint64_t address, uint64_t size)
{
    WEIR_ASSERT(address % weir__numa_page_bytes() == 0);
    void *memory = (void *)(uintptr_t)address;
    return madvise(memory, (size_t)size, MADV_DONTNEED) == 0 ||
           mmap(memory, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

/* --- parked pages (parked.h): pages of unmapped memory --- */

/* Drops parked pages until at most `keep_bytes` of them are left. Returns false if the system refuses. */
static bool drop_parked(weir__host_node *node, uint64_t keep_bytes)
{
    weir__parked *parked = &node->parked;
    while (parked->bytes > keep_bytes) {
        const weir__parked_range last = parked->ranges[parked->count - 1];
        const uint64_t surplus = parked->bytes - keep_bytes;
        const uint64_t size = last.size < surplus ? last.size : surplus;
        const uint64_t address = last.address + last.size - size;
        if (!drop_pages(address, size) || !weir__parked_remove(parked, address, size)) {
            return false;
        }
    }
    return true;
}

static bool takes_pages(weir__host_node *node, struct weir__host_reservation *r)
{
    if (!r->is_tried) {
        r->is_tried = true;
        r->takes_pages = weir__page_mover_add(&node->mover, r->address, r->size);
    }
    return r->takes_pages;
}

/* Returns how many bytes from `address` on can take moved pages: they are accessible, unmapped and without pages. */
static uint64_t room_above(const weir__host_node *node, const struct weir__host_reservation *r, uint64_t address,
                           uint64_t most)
{
    WEIR_ASSERT(address >= r->address && address - r->address < r->open_bytes);
    const uint64_t granule = node->pool->config.chunk_bytes;
    const uint64_t left = r->open_bytes - (address - r->address);
    const uint64_t end = weir__parked_above(&node->parked, address, address + (most < left ? most : left));
    uint64_t at = address;
    while (at + granule <= end && !r->mapped[(at - r->address) / granule]) {
        at += granule;
    }
    return at - address;
}

/* Moves parked pages to the `size` bytes at `address`, which are about to be mapped, and to the unmapped memory behind
 * them, until the parked range is used up. Returns false if the `size` bytes did not get all their pages. */
static bool move_pages(weir__host_node *node, struct weir__host_reservation *r, uint64_t address, uint64_t size)
{
    const weir__parked_range from = node->parked.ranges[node->parked.count - 1];
    const uint64_t room = room_above(node, r, address, from.size);
    if (room < size || !takes_pages(node, r)) {
        return false;
    }
    const uint64_t moved = weir__page_move(&node->mover, address, from.address, room);
    const uint64_t whole = moved & ~(node->pool->config.chunk_bytes - 1);
    (void)atomic_fetch_add_explicit(&node->moved_bytes, moved, memory_order_relaxed);
    if (moved > whole && whole >= size) { /* a partly moved granule (mapping unit) stays parked at its old address */
        (void)drop_pages(address + whole, moved - whole);
    }
    if (whole < size) {
        return false;
    }
    const bool is_removed = weir__parked_remove(&node->parked, from.address, whole);
    WEIR_ASSERT(is_removed); /* cannot fail: removing a parked range, or a part at its end, needs no memory */
    (void)is_removed;
    if (whole > size && !weir__parked_add(&node->parked, address + size, whole - size)) {
        (void)drop_pages(address + size, whole - size);
    }
    return true;
}

/* Gives pages to memory that is being mapped: parked pages if there are any, else new ones. */
static bool provide_pages(weir__host_node *node, struct weir__host_reservation *r, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size <= node->loose_bytes && node->parked.bytes <= node->loose_bytes);
    if (weir__parked_has(&node->parked, address)) {
        return weir__parked_remove(&node->parked, address, size);
    }
    if (node->parked.bytes == 0) {
        return make_pages(node, address, size);
    }
    if (move_pages(node, r, address, size)) {
        return true;
    }
    (void)atomic_fetch_add_explicit(&node->remade_bytes, size, memory_order_relaxed);
    return drop_parked(node, node->parked.bytes > size ? node->parked.bytes - size : 0) &&
           make_pages(node, address, size);
}

static void note_mapped(const weir__host_node *node, struct weir__host_reservation *r, uint64_t address, uint64_t size,
                        bool is_mapped)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    WEIR_ASSERT(address % granule == 0 && size % granule == 0);
    for (uint64_t at = address - r->address; at < address - r->address + size; at += granule) {
        WEIR_ASSERT(r->mapped[at / granule] != is_mapped);
        r->mapped[at / granule] = is_mapped;
    }
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    weir__host_node *node = ctx;
    WEIR_ASSERT(handle <= node->loose_bytes);
    if (!drop_parked(node, node->loose_bytes - handle)) {
        return WEIR_ERR_DEVICE;
    }
    node->loose_bytes -= handle;
    weir__host_limit_give(node->pool, handle);
    return WEIR_OK;
}

static weir_status vm_map(void *ctx, uint64_t address, uint64_t size, weir_vm_handle handle)
{
    WEIR_ASSERT(handle == size);
    weir__host_node *node = ctx;
    (void)handle;
    struct weir__host_reservation *r = reservation_around(node, address);
    if (!open_addresses(node, r, address, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (weir__host_registry_reserve(&node->pool->registry, address, size) != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    weir__host_registry_set_chunk(&node->pool->registry, address, size, &node->pageable);
    if (!provide_pages(node, r, address, size)) {
        return WEIR_ERR_NO_MEMORY;
    }
    note_mapped(node, r, address, size, true);
    node->loose_bytes -= size;
    count(node, size);
    return WEIR_OK;
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    weir__host_node *node = ctx;
    if (!weir__parked_add(&node->parked, address, size) && !drop_pages(address, size)) {
        return WEIR_ERR_DEVICE;
    }
    note_mapped(node, reservation_around(node, address), address, size, false);
    node->loose_bytes += size;
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

size_t weir__host_pageable_explain(const weir__host_node *node, char *text, size_t size)
{
    const uint64_t remade = atomic_load(&node->remade_bytes);
    const int length = remade == 0
                           ? 0
                           : snprintf(text, size, "idle memory: the pages of %llu KiB were made anew: %s\n",
                                      (unsigned long long)(remade >> 10), strerror(atomic_load(&node->mover.why)));
    return length > 0 ? (size_t)length : 0;
}

void weir__host_pageable_fini(weir__host_node *node)
{
    weir__page_mover_fini(&node->mover);
    weir__parked_fini(&node->parked);
    while (node->reservations != NULL) {
        struct weir__host_reservation *r = node->reservations;
        node->reservations = r->next;
        weir__numa_unmap((void *)(uintptr_t)r->address, r->size, false);
        free(r);
    }
}
