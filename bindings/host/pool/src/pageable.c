/* pageable.c: memory of the process as a weir_device: not pinned, not placed, page by page.
 *
 * A reservation is accessible from its beginning to the furthest address ever mapped, and some more. The rest cannot be
 * accessed yet, so it counts for no limit, and a process that locks its memory does not make its pages. Mapping a
 * granule counts it. Its pages are made when a small run of pages takes it, by one call for the run; those of a large
 * run, at the first access, so that memory which is asked for and never used costs nothing. Neither mapping nor
 * unmapping costs a mapping of its own. A child after fork has the pages like any other memory. They are small pages:
 * huge pages would make more memory resident than is held. One chunk description represents all that is mapped.
 *
 * A granule that is unmapped keeps its pages (parked.h). A mapping takes them over: they move to its addresses
 * (page_move.h), or where the system refuses that they are dropped and new ones made. The pages of the granule's
 * neighbours move along to the addresses above if these are unmapped: holes are mapped in the order of their addresses,
 * so the next mapping finds its pages there. Pages are dropped when memory is destroyed. Memory that the system does
 * not take back, because it is locked or calls are forbidden, stays held.
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
#ifndef MADV_DONTNEED_LOCKED /* before Linux 5.18 */
#define MADV_DONTNEED_LOCKED 24
#endif

enum { PAGES_AT_ONCE = 256 }; /* looked up by one call */

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
    uint8_t granules[]; /* a state for each, MAPPED and MADE; protected by the node's chunk_lock */
};

enum {
    MAPPED = 1,
    MADE = 2 /* its pages have been made, here or where they were moved from */
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

/* --- states of granules --- */

/* Returns the reservation around an address, or NULL. Requires the chunk_lock. */
static struct weir__host_reservation *find_reservation(weir__host_node *node, uint64_t address)
{
    WEIR_ASSERT_HELD(&node->chunk_lock);
    struct weir__host_reservation *r = node->reservations;
    while (r != NULL && address - r->address >= r->size) {
        r = r->next;
    }
    return r;
}

/* Returns the state of the granule at an address. Requires the chunk_lock. */
static uint8_t *state_at(weir__host_node *node, uint64_t address)
{
    struct weir__host_reservation *r = find_reservation(node, address);
    WEIR_ASSERT(r != NULL && address % node->pool->config.chunk_bytes == 0);
    return &r->granules[(address - r->address) / node->pool->config.chunk_bytes];
}

static bool is_bare(uint8_t state)
{
    return (state & (MAPPED | MADE)) == MAPPED;
}

/* Changes the state of a granule, and the counts of bytes that depend on it. Requires the chunk_lock. */
static void set_state(weir__host_node *node, uint8_t *state, uint8_t value)
{
    WEIR_ASSERT_HELD(&node->chunk_lock);
    const uint64_t granule = node->pool->config.chunk_bytes;
    const uint64_t made = (uint64_t)((value & MADE) != 0) - (uint64_t)((*state & MADE) != 0);
    const uint64_t bare = (uint64_t)is_bare(value) - (uint64_t)is_bare(*state);
    (void)atomic_fetch_add(&node->pool->ledger->made_bytes, made * granule);
    (void)atomic_fetch_add(&node->bare_bytes, bare * granule);
    *state = value;
}

/* Clears and sets bits of the states of all granules in a range. */
static void change_states(weir__host_node *node, uint64_t address, uint64_t size, uint8_t clear, uint8_t set)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    WEIR_ASSERT(address % granule == 0 && size % granule == 0);
    (void)pthread_mutex_lock(&node->chunk_lock);
    for (uint64_t at = address; at < address + size; at += granule) {
        uint8_t *state = state_at(node, at);
        set_state(node, state, (uint8_t)((*state & ~clear) | set));
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

static weir_status get_info(void *ctx, weir_device_info *info)
{
    const weir__host_node *node = ctx;
    info->region_granularity_bytes = node->pool->config.chunk_bytes;
    info->region_alignment_bytes = node->pool->config.chunk_bytes;
    info->page_bytes = node->pool->config.chunk_bytes;
    info->abilities = WEIR_DEVICE_VIRTUAL_MEMORY | WEIR_DEVICE_PAGEWISE;
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
        for (uint64_t i = 0; i < r->size / node->pool->config.chunk_bytes; i++) {
            set_state(node, &r->granules[i], 0);
        }
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

/* Returns the resident bytes among `count` pages, or 0 if they are unknown. */
static uint64_t resident_of(uint64_t address, uint64_t count)
{
    WEIR_ASSERT(count <= PAGES_AT_ONCE);
    unsigned char there[PAGES_AT_ONCE];
    const uint64_t page = weir__numa_page_bytes();
    uint64_t bytes = 0;
    if (mincore((void *)(uintptr_t)address, (size_t)(count * page), there) != 0) {
        return 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        bytes += (there[i] & 1) != 0 ? page : 0;
    }
    return bytes;
}

/* Returns the resident bytes of a granule that is bare. If they are all of it, the granule counts as made from now on.
 * Requires the chunk_lock. */
static uint64_t look_at_granule(weir__host_node *node, uint64_t address, uint8_t *state)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    const uint64_t pages = granule / weir__numa_page_bytes();
    uint64_t bytes = 0;
    for (uint64_t done = 0; done < pages; done += PAGES_AT_ONCE) {
        const uint64_t left = pages - done;
        bytes += resident_of(address + done * weir__numa_page_bytes(), left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE);
    }
    if (bytes == granule) {
        set_state(node, state, *state | MADE);
    }
    return bytes == granule ? 0 : bytes;
}

/* Finds the memory that the program has touched since it was mapped. Returns the bytes of pages in granules that are
 * touched in part. */
static uint64_t look_at_bare(weir__host_node *node)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    uint64_t bytes = 0;
    (void)pthread_mutex_lock(&node->chunk_lock);
    for (struct weir__host_reservation *r = node->reservations; r != NULL; r = r->next) {
        for (uint64_t at = 0; at < r->open_bytes && atomic_load(&node->bare_bytes) != 0; at += granule) {
            uint8_t *state = &r->granules[at / granule];
            bytes += is_bare(*state) ? look_at_granule(node, r->address + at, state) : 0;
        }
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return bytes;
}

/* Returns the bytes that are held and whose pages are still to be made, `more` bytes included. */
static uint64_t coming_bytes(weir__host_ledger *ledger, uint64_t more)
{
    uint64_t touched = 0;
    for (weir__host_node *node = ledger->nodes; node != NULL; node = node->next_of_ledger) {
        touched += look_at_bare(node);
    }
    const uint64_t held = atomic_load(&ledger->held_bytes) + more;
    const uint64_t made = atomic_load(&ledger->made_bytes) + touched;
    return held > made ? held - made : 0;
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
    const uint64_t coming = coming_bytes(ledger, size);
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
    node->ended_bytes = 0;
    return WEIR_OK;
}

static void count(weir__host_node *node, uint64_t bytes)
{
    weir_host_stats *held = &node->held;
    (void)pthread_mutex_lock(&node->chunk_lock);
    WEIR_ASSERT(bytes % node->pool->config.chunk_bytes == 0);
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
 * without the call (before 5.14), or that interrupt it again and again, pages are made at their first access. */
static bool make_pages(weir__host_node *node, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(address % weir__numa_page_bytes() == 0);
    for (int i = 0; i < MOST_TRIES; i++) {
        if (madvise((void *)(uintptr_t)address, (size_t)size, MADV_POPULATE_WRITE) == 0) {
            return true;
        }
        if (errno == EINVAL || errno == ENOSYS || errno == EPERM) {
            return true;
        }
        if (errno != EAGAIN && errno != EINTR) {
            note_reason(node, "making pages", errno, size);
            return false;
        }
    }
    return true;
}

/* Finds the first bare granules from *at on, below `end`. Returns their bytes; 0: there are none. */
static uint64_t next_bare(weir__host_node *node, uint64_t *at, uint64_t end)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    (void)pthread_mutex_lock(&node->chunk_lock);
    while (*at < end && !is_bare(*state_at(node, *at))) {
        *at += granule;
    }
    uint64_t behind = *at;
    while (behind < end && is_bare(*state_at(node, behind))) {
        behind += granule;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return behind - *at;
}

bool weir__host_pageable_make(weir__host_node *node, uint64_t address, uint64_t size)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    const uint64_t end = (address + size + granule - 1) & ~(granule - 1);
    uint64_t at = address & ~(granule - 1);
    WEIR_ASSERT(size != 0);
    while (atomic_load_explicit(&node->bare_bytes, memory_order_relaxed) != 0) {
        const uint64_t bytes = next_bare(node, &at, end);
        if (bytes == 0) {
            return true;
        }
        if (!make_pages(node, at, bytes)) {
            return false;
        }
        change_states(node, at, bytes, 0, MADE);
        at += bytes;
    }
    return true;
}

void weir__host_zero(void *block, uint64_t size)
{
    const uint64_t page = weir__numa_page_bytes();
    unsigned char there[PAGES_AT_ONCE];
    char *at = block;
    char *const end = at + size;
    char *const first = (char *)(((uintptr_t)at + page - 1) & ~(uintptr_t)(page - 1));
    if (size < 2 * page) {
        memset(block, 0, size);
        return;
    }
    memset(at, 0, (size_t)(first - at));
    for (at = first; (uint64_t)(end - at) >= page;) {
        const uint64_t left = (uint64_t)(end - at) / page;
        const uint64_t count = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
        const bool is_known = mincore(at, (size_t)(count * page), there) == 0;
        uint64_t same = is_known ? 1 : count;
        while (same < count && (there[same] & 1) == (there[0] & 1)) {
            same++;
        }
        /* Pages that are not there may be in the swap; dropping them costs nothing and leaves zeros. */
        const bool is_there = !is_known || (there[0] & 1) != 0;
        if (is_there || madvise(at, (size_t)(same * page), MADV_DONTNEED) != 0) {
            memset(at, 0, (size_t)(same * page));
        }
        at += same * page;
    }
    memset(at, 0, (size_t)(end - at));
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
    struct weir__host_reservation *r = find_reservation(node, address);
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

static bool is_resident(uint64_t address, uint64_t size)
{
    const uint64_t page = weir__numa_page_bytes();
    for (uint64_t at = 0; at < size; at += PAGES_AT_ONCE * page) {
        const uint64_t left = (size - at) / page;
        if (resident_of(address + at, left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE) != 0) {
            return true;
        }
    }
    return false;
}

/* Drops pages by madvise, also those that the process has locked (mlock, mlockall). Where madvise is forbidden, as in
 * some sandboxes, a new mapping replaces the pages; if the process locks all its future memory, the new mapping has
 * pages at once, and the system has taken nothing back. *was_locked is set if the pages were locked. Returns false if
 * pages are left. */
static bool drop_pages(uint64_t address, uint64_t size, bool *was_locked)
{
    WEIR_ASSERT(address % weir__numa_page_bytes() == 0);
    void *memory = (void *)(uintptr_t)address;
    if (madvise(memory, (size_t)size, MADV_DONTNEED) == 0) {
        return true;
    }
    if (errno == EINVAL) {
        *was_locked = true;
        if (madvise(memory, (size_t)size, MADV_DONTNEED_LOCKED) == 0 ||
            (syscall(SYS_munlock, memory, size) == 0 && madvise(memory, (size_t)size, MADV_DONTNEED) == 0)) {
            return true;
        }
    }
    return mmap(memory, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED &&
           !is_resident(address, size);
}

/* --- parked pages (parked.h): pages of unmapped memory --- */

/* Drops parked pages until at most `keep_bytes` of them are left. Drops up to `more_bytes` beyond that, if this makes a
 * call larger. Returns false if the system refuses. */
static bool drop_parked(weir__host_node *node, uint64_t keep_bytes, uint64_t more_bytes)
{
    weir__parked *parked = &node->parked;
    while (parked->bytes > keep_bytes) {
        const weir__parked_range last = parked->ranges[parked->count - 1];
        const uint64_t surplus = parked->bytes - keep_bytes + more_bytes;
        const uint64_t size = last.size < surplus ? last.size : surplus;
        const uint64_t address = last.address + last.size - size;
        if (!drop_pages(address, size, &node->is_locked) || !weir__parked_remove(parked, address, size)) {
            return false;
        }
        change_states(node, address, size, MADE, 0);
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
static uint64_t room_above(weir__host_node *node, const struct weir__host_reservation *r, uint64_t address,
                           uint64_t most)
{
    WEIR_ASSERT(address >= r->address && address - r->address < r->open_bytes);
    const uint64_t granule = node->pool->config.chunk_bytes;
    const uint64_t left = r->open_bytes - (address - r->address);
    const uint64_t end = weir__parked_above(&node->parked, address, address + (most < left ? most : left));
    uint64_t at = address;
    (void)pthread_mutex_lock(&node->chunk_lock);
    while (at + granule <= end && (r->granules[(at - r->address) / granule] & MAPPED) == 0) {
        at += granule;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return at - address;
}

/* Notes that the pages of the first `moved` bytes at `from` are now at `to`. The last granule may have moved in part;
 * then it is made at neither place. */
static void move_states(weir__host_node *node, uint64_t to, uint64_t from, uint64_t moved)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    (void)pthread_mutex_lock(&node->chunk_lock);
    for (uint64_t at = 0; at < moved; at += granule) {
        uint8_t *source = state_at(node, from + at);
        uint8_t *target = state_at(node, to + at);
        const uint8_t made = at + granule <= moved ? *source & MADE : 0;
        set_state(node, source, *source & (uint8_t)~MADE);
        set_state(node, target, *target | made);
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
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
    move_states(node, address, from.address, moved);
    if (moved > whole && whole >= size) { /* a partly moved granule (mapping unit) stays parked at its old address */
        (void)drop_pages(address + whole, moved - whole, &node->is_locked);
    }
    if (whole < size) {
        return false;
    }
    const bool is_removed = weir__parked_remove(&node->parked, from.address, whole);
    WEIR_ASSERT(is_removed); /* cannot fail: removing a parked range, or a part at its end, needs no memory */
    (void)is_removed;
    if (whole > size && !weir__parked_add(&node->parked, address + size, whole - size)) {
        (void)drop_pages(address + size, whole - size, &node->is_locked);
        change_states(node, address + size, whole - size, MADE, 0);
    }
    return true;
}

/* Gives parked pages to memory that is being mapped, if there are any. Without, the memory is bare. */
static bool provide_pages(weir__host_node *node, struct weir__host_reservation *r, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size <= node->loose_bytes && node->parked.bytes <= node->loose_bytes);
    if (weir__parked_has(&node->parked, address)) {
        return weir__parked_remove(&node->parked, address, size);
    }
    if (node->parked.bytes == 0 || move_pages(node, r, address, size)) {
        return true;
    }
    (void)atomic_fetch_add_explicit(&node->remade_bytes, size, memory_order_relaxed);
    return drop_parked(node, node->parked.bytes > size ? node->parked.bytes - size : 0, 0);
}

/* Drops the pages of accessible memory that is not mapped, which mlockall has made. If the last page of the accessible
 * addresses is resident, so are all. */
static void drop_unmapped(weir__host_node *node, const struct weir__host_reservation *r)
{
    const uint64_t granule = node->pool->config.chunk_bytes;
    const uint64_t page = weir__numa_page_bytes();
    if (r->open_bytes == 0 || !is_resident(r->address + r->open_bytes - page, page)) {
        return;
    }
    for (uint64_t at = 0; at < r->open_bytes;) {
        uint64_t end = at;
        (void)pthread_mutex_lock(&node->chunk_lock);
        while (end < r->open_bytes && r->granules[end / granule] == 0) {
            end += granule;
        }
        (void)pthread_mutex_unlock(&node->chunk_lock);
        if (end > at) {
            (void)drop_pages(r->address + at, end - at, &node->is_locked);
        }
        at = end + granule;
    }
}

static weir_status vm_destroy(void *ctx, weir_vm_handle handle)
{
    weir__host_node *node = ctx;
    WEIR_ASSERT(handle <= node->loose_bytes);
    /* A trim destroys many handles in a row. Each call drops as much more as was destroyed before, so that a run of
     * pages costs few calls. */
    if (!drop_parked(node, node->loose_bytes - handle, node->ended_bytes)) {
        return WEIR_ERR_DEVICE;
    }
    for (const struct weir__host_reservation *r = node->reservations; r != NULL && node->is_locked; r = r->next) {
        drop_unmapped(node, r);
    }
    node->ended_bytes += handle;
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
    change_states(node, address, size, 0, MAPPED);
    node->ended_bytes = 0;
    node->loose_bytes -= size;
    count(node, size);
    return WEIR_OK;
}

static weir_status vm_unmap(void *ctx, uint64_t address, uint64_t size)
{
    weir__host_node *node = ctx;
    const bool is_parked = weir__parked_add(&node->parked, address, size);
    if (!is_parked && !drop_pages(address, size, &node->is_locked)) {
        return WEIR_ERR_DEVICE;
    }
    change_states(node, address, size, is_parked ? MAPPED : MAPPED | MADE, 0);
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
    node->next_of_ledger = node->pool->ledger->nodes;
    node->pool->ledger->nodes = node;
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
    weir__host_node **link = &node->pool->ledger->nodes;
    while (*link != NULL && *link != node) {
        link = &(*link)->next_of_ledger;
    }
    if (*link != NULL) {
        *link = node->next_of_ledger;
    }
    weir__page_mover_fini(&node->mover);
    weir__parked_fini(&node->parked);
    while (node->reservations != NULL) {
        struct weir__host_reservation *r = node->reservations;
        node->reservations = r->next;
        weir__numa_unmap((void *)(uintptr_t)r->address, r->size, false);
        free(r);
    }
}
