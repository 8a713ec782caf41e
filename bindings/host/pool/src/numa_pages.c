/* numa_pages.c: puts pages of host memory on a node, by system calls alone.
 *
 * Idea: prefer, populate, verify. A policy that prefers a node never fails and never kills the process. The kernel is
 * then asked where the pages are, and a strict caller gives misplaced pages back. Binding is used for huge pages only,
 * which the kernel promises or refuses. Containers forbid policies: there the thread moves to the node while it makes
 * the pages.
 * Guarantee: a reported place comes from the kernel, or it is "unknown".
 * Cost: see numa_pages.h; nothing is allocated.
 */
#define _GNU_SOURCE
#include "numa_pages.h"

#include "cgroup.h"
#include "shared/descriptor.h"
#include "shared/round_up.h"
#include "topology_internal.h"
#include "tuning.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Constants that old headers lack. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define HUGE_2MIB (21 << MAP_HUGE_SHIFT)

#define MIB (UINT64_C(1) << 20)
#define CAP_IPC_LOCK_BIT 14
enum { WORD_BITS = 8 * sizeof(unsigned long) };

uint64_t weir__numa_page_bytes(void)
{
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (uint64_t)page : 4096;
}

/* Stores the step, errno and bytes of a failure in *error, and returns `status`. The other members of *error stay. */
static weir_status fail(weir__numa_error *error, weir__numa_step step, int number, uint64_t bytes, weir_status status)
{
    if (error != NULL) {
        error->step = step;
        error->number = number;
        error->bytes = bytes;
    }
    return status;
}

static void clear(weir__numa_error *error, weir__numa_pages pages, int32_t node)
{
    if (error != NULL) {
        *error = (weir__numa_error){.pages = pages, .node = node};
    }
}

static bool is_forbidden(int number)
{
    return number == EPERM || number == ENOSYS || number == EACCES;
}

/* --- mapping --- */

static void *map_nothing(void *at, uint64_t size)
{
    WEIR_ASSERT(size != 0 && size % weir__numa_page_bytes() == 0);
    const int fixed = at != NULL ? MAP_FIXED : 0;
    return mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
}

weir_status weir__numa_reserve(uint64_t size, uint64_t align, void **memory, weir__numa_error *error)
{
    const uint64_t page = weir__numa_page_bytes();
    const uint64_t slack = align > page ? align - page : 0;
    clear(error, WEIR__PAGES_SMALL, WEIR_NODE_NONE);
    if (size == 0 || size % page != 0 || (align & (align - 1)) != 0 || size > SIZE_MAX - slack) {
        return fail(error, WEIR__NUMA_RESERVE, EINVAL, size, WEIR_ERR_INVALID);
    }
    char *start = map_nothing(NULL, size + slack);
    if (start == MAP_FAILED) {
        return fail(error, WEIR__NUMA_RESERVE, errno, size, WEIR_ERR_NO_MEMORY);
    }
    const uint64_t before = align != 0 ? round_up((uintptr_t)start, align) - (uintptr_t)start : 0;
    if (before > 0) {
        (void)munmap(start, before);
    }
    if (slack > before) {
        (void)munmap(start + before + size, slack - before);
    }
    *memory = start + before;
    return WEIR_OK;
}

static weir_status map_status(int number)
{
    return number == EINVAL || number == EOPNOTSUPP || is_forbidden(number) ? WEIR_ERR_UNSUPPORTED : WEIR_ERR_NO_MEMORY;
}

/* Maps huge pages over a part of a reservation. They are mapped elsewhere and moved there, so that a failure leaves the
 * reservation untouched. Linux before 5.16 cannot move them. */
static int map_huge(char *place, uint64_t size)
{
    WEIR_ASSERT(size % WEIR__HUGE_PAGE == 0 && (uintptr_t)place % WEIR__HUGE_PAGE == 0);
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2MIB;
    void *elsewhere = mmap(NULL, size, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (elsewhere == MAP_FAILED) {
        return errno;
    }
    if (mremap(elsewhere, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) != MAP_FAILED) {
        return 0;
    }
    (void)munmap(elsewhere, size);
    if (mmap(place, size, PROT_READ | PROT_WRITE, kind | MAP_FIXED, -1, 0) != MAP_FAILED) {
        return 0;
    }
    const int number = errno;
    /* The kernel may have unmapped the reservation before it failed; meanwhile another thread may have mapped memory
     * there. */
    void *again =
        mmap(place, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (again != MAP_FAILED && again != place) { /* Linux before 4.17 treats the address as a hint */
        (void)munmap(again, size);
    }
    return number;
}

weir_status weir__numa_map(void *at, uint64_t size, weir__numa_pages pages, void **memory, weir__numa_error *error)
{
    const uint64_t unit = pages == WEIR__PAGES_SMALL ? weir__numa_page_bytes() : WEIR__HUGE_PAGE;
    weir__numa_step step = WEIR__NUMA_MAP;
    void *place = at;
    int number = 0;
    clear(error, pages, WEIR_NODE_NONE);
    if (size == 0 || size % unit != 0 || (uintptr_t)at % unit != 0) {
        return fail(error, WEIR__NUMA_MAP, EINVAL, size, WEIR_ERR_INVALID);
    }
    if (at == NULL) { /* aligned for the kind of page */
        const weir_status reserved = weir__numa_reserve(size, unit, &place, error);
        if (reserved != WEIR_OK) {
            return reserved;
        }
    }
    if (pages == WEIR__PAGES_HUGE) {
        number = map_huge(place, size);
    } else if (mprotect(place, size, PROT_READ | PROT_WRITE) != 0) {
        number = errno;
    } else if (pages == WEIR__PAGES_TRANSPARENT && madvise(place, size, MADV_HUGEPAGE) != 0) {
        number = errno;
        step = WEIR__NUMA_TRANSPARENT;
    }
    if (number != 0) {
        if (at == NULL || pages != WEIR__PAGES_HUGE) {
            weir__numa_unmap(place, size, at != NULL);
        }
        clear(error, pages, WEIR_NODE_NONE);
        return fail(error, step, number, size, map_status(number));
    }
    *memory = place;
    return WEIR_OK;
}

void weir__numa_unmap(void *memory, uint64_t size, bool stays_reserved)
{
    WEIR_ASSERT(memory != NULL);
    if (!stays_reserved) {
        (void)munmap(memory, size);
    } else if (map_nothing(memory, size) ==
               MAP_FAILED) { /* the kernel allows no further mapping: at least drop the pages */
        (void)syscall(SYS_munlock, memory, size);
        (void)madvise(memory, size, MADV_DONTNEED);
        (void)mprotect(memory, size, PROT_NONE);
    }
}

/* --- policy --- */

weir_status weir__numa_policy(void *memory, uint64_t size, int32_t node, weir__numa_pages pages, bool binds,
                              weir__numa_error *error)
{
    unsigned long mask[WEIR__NUMA_NODES / WORD_BITS] = {0};
    clear(error, pages, node);
    if (node < 0 || node >= WEIR__NUMA_NODES || (binds && pages != WEIR__PAGES_HUGE)) {
        return fail(error, WEIR__NUMA_POLICY, EINVAL, size, WEIR_ERR_INVALID);
    }
    mask[(unsigned)node / WORD_BITS] = 1ul << ((unsigned)node % WORD_BITS);
    /* The kernel uses one bit of the mask fewer than the size that it is given, hence the + 1. */
    if (syscall(SYS_mbind, memory, size, binds ? MPOL_BIND : MPOL_PREFERRED, mask, WEIR__NUMA_NODES + 1ul, 0ul) == 0) {
        return WEIR_OK;
    }
    return fail(error, WEIR__NUMA_POLICY, errno, size,
                is_forbidden(errno) ? WEIR_ERR_UNSUPPORTED
                : errno == ENOMEM   ? WEIR_ERR_NO_MEMORY
                                    : WEIR_ERR_INVALID);
}

/* --- making pages --- */

/* Makes the kernel write a word into each page. If the page cannot be written, the system call fails, whereas a write
 * by the process would get a SIGBUS. (The word is the thread's signal mask: every kernel and every sandbox permits the
 * call that reads it.) */
static int touch_by_kernel(char *memory, uint64_t size)
{
    WEIR_ASSERT((uintptr_t)memory % weir__numa_page_bytes() == 0);
    const uint64_t page = weir__numa_page_bytes();
    const size_t mask_bytes = 8; /* the kernel's size of the mask, on every machine */
    for (uint64_t at = 0; at < size; at += page) {
        if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, memory + at, mask_bytes) != 0) {
            return errno;
        }
    }
    return 0;
}

/* Touches only the missing pages, so that the contents of existing ones stay. */
static int touch_missing(char *memory, uint64_t size)
{
    WEIR_ASSERT((uintptr_t)memory % weir__numa_page_bytes() == 0);
    enum { AT_ONCE = 256 };
    const uint64_t page = weir__numa_page_bytes();
    unsigned char there[AT_ONCE];
    for (uint64_t at = 0; at < size; at += AT_ONCE * page) {
        const uint64_t piece = size - at < AT_ONCE * page ? size - at : AT_ONCE * page;
        if (mincore(memory + at, piece, there) != 0) {
            return errno == ENOMEM ? EINVAL : errno; /* ENOMEM: a part of the range is not mapped */
        }
        for (uint64_t i = 0; i * page < piece; i++) {
            const int number = (there[i] & 1) != 0 ? 0 : touch_by_kernel(memory + at + i * page, page);
            if (number != 0) {
                return number;
            }
        }
    }
    return 0;
}

weir_status weir__numa_populate(void *memory, uint64_t size, weir__numa_error *error)
{
    int number = EAGAIN;
    for (int i = 0; i < MOST_TRIES && (number == EAGAIN || number == EINTR); i++) {
        number = madvise(memory, size, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    }
    if (number == EINVAL || number == EAGAIN || number == EINTR || is_forbidden(number)) {
        number = touch_missing(memory, size); /* Linux before 5.14, a sandbox, or no end of interruptions */
    }
    if (number == 0) {
        return WEIR_OK;
    }
    /* ENOMEM means a hole in the range or no memory; mappings of weir have no holes. */
    return fail(error, WEIR__NUMA_POPULATE, number, size, number == EINVAL ? WEIR_ERR_INVALID : WEIR_ERR_NO_MEMORY);
}

/* Moves the calling thread to the node's processors. Returns false if the thread may not run on any of them or may not
 * choose its processors; errno is then that of the system call, or 0 if none was made. */
static bool move_near(const weir_topology *topology, int32_t node, weir__numa_cpus *before)
{
    unsigned long there[WEIR__NUMA_CPU_WORDS] = {0};
    bool has_cpus = false;
    *before = (weir__numa_cpus){.known = 0};
    for (size_t cpu = 0; topology != NULL && cpu < topology->cpu_count && cpu < WEIR__CPUS_MOST; cpu++) {
        if (weir__topology_cpu_is_on(topology, cpu, node)) {
            there[cpu / WORD_BITS] |= 1ul << (cpu % WORD_BITS);
            has_cpus = true;
        }
    }
    errno = 0;
    if (!has_cpus || !weir_topology_is_this_machine(topology)) {
        return false;
    }
    /* The system call returns how many bytes of the mask the kernel uses. */
    before->known = syscall(SYS_sched_getaffinity, 0, sizeof(before->mask), before->mask);
    const bool moved = before->known > 0 && syscall(SYS_sched_setaffinity, 0, sizeof(there), there) == 0;
    before->known = moved ? before->known : 0;
    return moved;
}

/* Moves the thread back to its processors, if it was moved. */
static bool move_back(const weir__numa_cpus *before)
{
    return before->known == 0 || syscall(SYS_sched_setaffinity, 0, (size_t)before->known, before->mask) == 0;
}

weir_status weir__numa_populate_near(const weir_topology *topology, void *memory, uint64_t size, int32_t node,
                                     weir__numa_error *error)
{
    weir__numa_cpus before;
    if (error != NULL) {
        error->node = node;
    }
    if (!move_near(topology, node, &before)) {
        return fail(error, WEIR__NUMA_THREAD, errno, size, WEIR_ERR_UNSUPPORTED);
    }
    const weir_status status = weir__numa_populate(memory, size, error);
    if (!move_back(&before) && status == WEIR_OK) {
        return fail(error, WEIR__NUMA_THREAD, errno, size, WEIR_ERR_INTERNAL);
    }
    return status;
}

void weir__numa_thread_prefer(const weir_topology *topology, int32_t node, weir__numa_wish *before)
{
    unsigned long mask[WEIR__NUMA_NODES / WORD_BITS] = {0};
    *before = (weir__numa_wish){0};
    if (node < 0 || node >= WEIR__NUMA_NODES || !weir_topology_is_this_machine(topology)) {
        return;
    }
    (void)move_near(topology, node, &before->cpus);
    mask[(unsigned)node / WORD_BITS] = 1ul << ((unsigned)node % WORD_BITS);
    before->is_set = syscall(SYS_get_mempolicy, &before->mode, before->nodes, WEIR__NUMA_NODES + 1ul, NULL, 0ul) == 0 &&
                     syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, WEIR__NUMA_NODES + 1ul) == 0;
}

void weir__numa_thread_restore(const weir__numa_wish *before)
{
    (void)move_back(&before->cpus);
    if (before->is_set) {
        (void)syscall(SYS_set_mempolicy, before->mode, before->nodes, WEIR__NUMA_NODES + 1ul);
    }
}

weir_status weir__numa_room(int32_t node, weir__numa_pages pages, uint64_t *bytes)
{
    const uint64_t all = weir__sysfs_node_memory("", node, "MemTotal");
    if (node < 0 || all == 0) {
        return WEIR_ERR_UNSUPPORTED;
    }
    if (pages == WEIR__PAGES_HUGE) {
        *bytes = weir__sysfs_node_number("", node, "hugepages/hugepages-2048kB/free_hugepages") * WEIR__HUGE_PAGE;
        return WEIR_OK;
    }
    const uint64_t unused = weir__sysfs_node_memory("", node, "MemFree");
    const uint64_t part = all / 64;
    const uint64_t margin = part < 16 * MIB ? 16 * MIB : part > 1024 * MIB ? 1024 * MIB : part;
    *bytes = unused > margin ? unused - margin : 0;
    return WEIR_OK;
}

/* --- finding pages: move_pages --- */

static void count(weir__numa_found *found, int where, uint64_t bytes)
{
    if (where >= 0 && where < WEIR__NUMA_NODES) {
        found->node_bytes[where] += bytes;
    } else if (where == -ENOENT) {
        found->absent_bytes += bytes;
    } else {
        found->unknown_bytes += bytes;
    }
}

/* Returns false if the kernel refuses to report. */
static bool ask_pages(const char *memory, uint64_t size, uint64_t step, weir__numa_found *found)
{
    WEIR_ASSERT(step != 0);
    enum { AT_ONCE = 512 };
    const void *pages[AT_ONCE];
    int where[AT_ONCE];
    for (uint64_t at = 0; at < size;) {
        const uint64_t first = at;
        unsigned long asked = 0;
        for (; asked < AT_ONCE && at < size; at += step) {
            pages[asked] = memory + at;
            where[asked++] = -EFAULT;
        }
        if (syscall(SYS_move_pages, 0, asked, pages, NULL, where, 0) != 0) {
            return false;
        }
        for (unsigned long i = 0; i < asked; i++) {
            const uint64_t left = size - first - i * step;
            count(found, where[i], left < step ? left : step);
        }
    }
    return true;
}

/* --- finding pages: /proc --- */

/* Reads a file line by line, without allocation. Lines longer than the buffer are cut. */
struct lines {
    int file;
    size_t begin, end;
    char buffer[8192];
};

static bool lines_open(struct lines *lines, const char *root, const char *path)
{
    char full[512];
    const int length = snprintf(full, sizeof(full), "%s%s", root, path);
    lines->begin = lines->end = 0;
    lines->file = length > 0 && (size_t)length < sizeof(full) ? above_standard(open(full, O_RDONLY | O_CLOEXEC)) : -1;
    return lines->file >= 0;
}

/* Returns the next line, ended by a zero, or NULL at the end. */
static char *lines_next(struct lines *lines)
{
    WEIR_ASSERT(lines->file >= 0 && lines->begin <= lines->end);
    for (;;) {
        char *from = lines->buffer + lines->begin;
        char *newline = memchr(from, '\n', lines->end - lines->begin);
        if (newline != NULL) {
            *newline = '\0';
            lines->begin = (size_t)(newline - lines->buffer) + 1;
            return from;
        }
        memmove(lines->buffer, from, lines->end - lines->begin);
        lines->end -= lines->begin;
        lines->begin = 0;
        if (lines->end == sizeof(lines->buffer)) {
            lines->end = sizeof(lines->buffer) / 2; /* cuts a long line: all fields that are read stand in its first
                                                       half */
        }
        WEIR_ASSERT(lines->end < sizeof(lines->buffer));
        ssize_t got;
        do {
            got = read(lines->file, lines->buffer + lines->end, sizeof(lines->buffer) - lines->end);
        } while (got < 0 && errno == EINTR);
        if (got <= 0) {
            return NULL;
        }
        lines->end += (size_t)got;
    }
}

static void lines_close(const struct lines *lines)
{
    (void)close(lines->file);
}

/* A mapping that overlaps a range, and the number of overlapping bytes. */
struct mapping {
    uint64_t start, end, shared;
};

enum { MAPPINGS_MOST = 256 };

static uint64_t overlap(uint64_t start, uint64_t end, uint64_t from, uint64_t to)
{
    WEIR_ASSERT(start <= end && from <= to);
    const uint64_t first = start > from ? start : from;
    const uint64_t last = end < to ? end : to;
    return first < last ? last - first : 0;
}

/* Parses "7f00-7f80 rw-p ...". */
static bool mapping_line(const char *line, uint64_t *start, uint64_t *end)
{
    char *rest = NULL;
    *start = strtoull(line, &rest, 16);
    if (rest == line || *rest != '-') {
        return false;
    }
    const char *second = rest + 1;
    *end = strtoull(second, &rest, 16);
    return rest != second && *rest == ' ' && *end > *start;
}

/* Returns the number of mappings that overlap the range. A result above MAPPINGS_MOST means that there are too many, or
 * that the file is unreadable. */
static size_t find_mappings(const char *root, uint64_t from, uint64_t to, struct mapping *mappings)
{
    WEIR_ASSERT(from < to);
    struct lines lines;
    size_t found = 0;
    if (!lines_open(&lines, root, "/proc/self/maps")) {
        return MAPPINGS_MOST + 1;
    }
    for (const char *line = lines_next(&lines); line != NULL && found <= MAPPINGS_MOST; line = lines_next(&lines)) {
        struct mapping mapping = {0};
        if (mapping_line(line, &mapping.start, &mapping.end)) {
            mapping.shared = overlap(mapping.start, mapping.end, from, to);
            if (mapping.shared != 0) {
                if (found < MAPPINGS_MOST) {
                    mappings[found] = mapping;
                }
                found++;
            }
        }
    }
    lines_close(&lines);
    return found;
}

static const struct mapping *mapping_at(const struct mapping *mappings, size_t count, uint64_t start)
{
    for (size_t i = 0; i < count; i++) {
        if (mappings[i].start == start) {
            return &mappings[i];
        }
    }
    return NULL;
}

/* Counts one line of numa_maps, "7f00 prefer:1 anon=3 N0=1 N1=2 kernelpagesize_kB=4", for a mapping. */
static void count_line(const char *line, const struct mapping *mapping, weir__numa_found *found)
{
    WEIR_ASSERT(mapping->shared <= mapping->end - mapping->start);
    const char *size_text = strstr(line, " kernelpagesize_kB=");
    const uint64_t page = size_text != NULL ? strtoull(size_text + 19, NULL, 10) * 1024 : 0;
    const uint64_t whole = mapping->end - mapping->start;
    uint64_t present = 0;
    unsigned nodes = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        /* A mapping that extends beyond the range tells about the range only if all of its pages are on one node. */
        const bool is_inside = mapping->shared == whole;
        if (pass == 1 && !is_inside && (nodes != 1 || present < whole)) {
            found->unknown_bytes += mapping->shared;
            return;
        }
        for (const char *at = strstr(line, " N"); at != NULL; at = strstr(at + 1, " N")) {
            char *rest = NULL;
            const unsigned long node = strtoul(at + 2, &rest, 10);
            if (rest == at + 2 || *rest != '=') {
                continue;
            }
            const uint64_t bytes = strtoull(rest + 1, NULL, 10) * page;
            if (pass == 0) {
                nodes++;
                present += bytes;
            } else {
                count(found, node < WEIR__NUMA_NODES ? (int)node : -EFAULT, is_inside ? bytes : mapping->shared);
            }
        }
    }
    if (present == 0 && page == 0) {
        found->unknown_bytes += mapping->shared; /* numa_maps shows no pages of device memory */
    } else if (present < mapping->shared) {
        found->absent_bytes += mapping->shared - present;
    }
}

static bool says_something(const weir__numa_found *found, uint64_t size)
{
    return found->unknown_bytes < size;
}

weir_status weir__numa_verify_by_maps(const char *root, const void *memory, uint64_t size, weir__numa_found *found)
{
    struct mapping mappings[MAPPINGS_MOST];
    struct lines lines;
    const uint64_t from = (uintptr_t)memory;
    uint64_t seen = 0;
    const size_t mapping_count = find_mappings(root, from, from + size, mappings);
    *found = (weir__numa_found){.source = WEIR__FOUND_NOTHING, .unknown_bytes = size};
    if (mapping_count > MAPPINGS_MOST || !lines_open(&lines, root, "/proc/self/numa_maps")) {
        return WEIR_ERR_UNSUPPORTED;
    }
    found->unknown_bytes = 0;
    for (const char *line = lines_next(&lines); line != NULL; line = lines_next(&lines)) {
        const struct mapping *mapping = mapping_at(mappings, mapping_count, strtoull(line, NULL, 16));
        if (mapping != NULL) {
            count_line(line, mapping, found);
            seen += mapping->shared;
        }
    }
    lines_close(&lines);
    found->unknown_bytes += size > seen ? size - seen : 0;
    found->source = says_something(found, size) ? WEIR__FOUND_BY_NUMA_MAPS : WEIR__FOUND_NOTHING;
    return says_something(found, size) ? WEIR_OK : WEIR_ERR_UNSUPPORTED;
}

weir_status weir__numa_verify(const void *memory, uint64_t size, uint64_t step, weir__numa_found *found,
                              weir__numa_error *error)
{
    *found = (weir__numa_found){.source = WEIR__FOUND_BY_MOVE_PAGES};
    if (ask_pages(memory, size, step != 0 ? step : weir__numa_page_bytes(), found) && says_something(found, size)) {
        return WEIR_OK;
    }
    const int number = errno;
    /* The kernel merges similar neighbouring mappings, and numa_maps would report all of them together. MADV_RANDOM has
     * no effect on such memory but makes the range a mapping of its own until it is undone. */
    const bool is_apart = madvise((void *)(uintptr_t)memory, size, MADV_RANDOM) == 0;
    const weir_status status = weir__numa_verify_by_maps("", memory, size, found);
    if (is_apart) {
        (void)madvise((void *)(uintptr_t)memory, size, MADV_NORMAL);
    }
    return status == WEIR_OK ? WEIR_OK : fail(error, WEIR__NUMA_VERIFY, number, size, WEIR_ERR_UNSUPPORTED);
}

weir_status weir__numa_transparent_bytes(const char *root, const void *memory, uint64_t size, uint64_t *bytes)
{
    struct lines lines;
    const uint64_t from = (uintptr_t)memory;
    uint64_t seen = 0;
    uint64_t joined = 0;
    bool is_ours = false;
    if (!lines_open(&lines, root, "/proc/self/smaps")) {
        return WEIR_ERR_UNSUPPORTED;
    }
    for (const char *line = lines_next(&lines); line != NULL; line = lines_next(&lines)) {
        uint64_t start = 0;
        uint64_t end = 0;
        if (mapping_line(line, &start, &end)) {
            const uint64_t shared = overlap(start, end, from, from + size);
            is_ours = shared == end - start;
            seen += is_ours ? shared : 0;
        } else if (is_ours && strncmp(line, "AnonHugePages:", 14) == 0) {
            joined += strtoull(line + 14, NULL, 10) * 1024;
        }
    }
    lines_close(&lines);
    if (seen != size) { /* a part of the range lies in a mapping that extends beyond it */
        return WEIR_ERR_UNSUPPORTED;
    }
    *bytes = joined;
    return WEIR_OK;
}

/* --- locking --- */

/* Returns the number that follows the name of a line in /proc/self/status. */
static uint64_t status_number(const char *name, int base)
{
    char status[16384];
    const char *line = weir__sysfs_text("", "/proc/self/status", status, sizeof(status)) ? strstr(status, name) : NULL;
    return line != NULL ? strtoull(line + strlen(name), NULL, base) : 0;
}

static uint64_t as_bytes(rlim_t limit)
{
    return limit == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit;
}

void weir__numa_get_lock_limits(weir__numa_lock_limits *limits)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    *limits = (weir__numa_lock_limits){
        .soft_bytes = as_bytes(limit.rlim_cur),
        .hard_bytes = as_bytes(limit.rlim_max),
        .locked_bytes = status_number("\nVmLck:", 10) * 1024,
        .is_exempt = (status_number("\nCapEff:", 16) >> CAP_IPC_LOCK_BIT & 1) != 0,
    };
}

weir_status weir__numa_lock(void *memory, uint64_t size, weir__numa_error *error)
{
    if (syscall(SYS_mlock, memory, size) == 0) { /* a system call, because the sanitizers' mlock does nothing */
        return WEIR_OK;
    }
    const int number = errno;
    weir__numa_lock_limits limits;
    (void)syscall(SYS_munlock, memory, size); /* a failed mlock may leave some pages locked */
    weir__numa_get_lock_limits(&limits);
    if (error != NULL) {
        error->limit_bytes = limits.soft_bytes;
        error->used_bytes = limits.locked_bytes;
    }
    /* ENOMEM: the limit, no room for another mapping, or a hole. EPERM: the limit is 0, or a sandbox forbids it.
     * EAGAIN: pages could not be made. */
    const bool is_over =
        !limits.is_exempt && (limits.soft_bytes < size || limits.soft_bytes - size < limits.locked_bytes);
    weir_status status = WEIR_ERR_NO_MEMORY;
    if (is_over && (number == ENOMEM || number == EPERM)) {
        status = WEIR_ERR_LIMIT;
    } else if (is_forbidden(number)) {
        status = WEIR_ERR_UNSUPPORTED;
    }
    return fail(error, WEIR__NUMA_LOCK, number, size, status);
}

void weir__numa_unlock(void *memory, uint64_t size)
{
    (void)syscall(SYS_munlock, memory, size);
}

/* --- all steps in one call --- */

static weir_status make_pages(const weir__numa_request *r, int32_t node, weir__numa_way *way, weir__numa_error *error)
{
    WEIR_ASSERT(node == WEIR_NODE_NONE || node >= 0);
    *way = WEIR__PLACED_ANYWHERE;
    if (node == WEIR_NODE_NONE) {
        return weir__numa_populate(r->memory, r->size, error);
    }
    const bool binds = r->is_strict && r->pages == WEIR__PAGES_HUGE;
    weir_status status = weir__numa_policy(r->memory, r->size, node, r->pages, binds, error);
    if (status == WEIR_OK) {
        *way = WEIR__PLACED_BY_POLICY;
        return weir__numa_populate(r->memory, r->size, error);
    }
    if (status != WEIR_ERR_UNSUPPORTED && r->is_strict) {
        return status;
    }
    status = weir__numa_populate_near(r->topology, r->memory, r->size, node, error);
    if (status == WEIR_ERR_UNSUPPORTED) {
        return weir__numa_populate(r->memory, r->size, error);
    }
    *way = WEIR__PLACED_BY_THREAD;
    return status;
}

weir_status weir__numa_pages_on(const weir__numa_request *r, weir__placed *placed, weir__numa_error *error)
{
    WEIR_ASSERT(r->memory != NULL && r->size != 0);
    const int32_t node = weir_topology_is_this_machine(r->topology) ? r->node : WEIR_NODE_NONE;
    weir__numa_found found;
    uint64_t room = UINT64_MAX;
    *placed = (weir__placed){.unknown_bytes = r->size};
    clear(error, r->pages, node);
    if (r->is_strict && node != WEIR_NODE_NONE && weir__numa_room(node, r->pages, &room) == WEIR_OK && room < r->size) {
        if (error != NULL) {
            error->limit_bytes = room;
        }
        return fail(error, WEIR__NUMA_ROOM, 0, r->size, WEIR_ERR_NO_MEMORY);
    }
    const uint64_t group_room = r->pages != WEIR__PAGES_HUGE ? weir__cgroup_read("").room_bytes : UINT64_MAX;
    if (group_room < r->size) { /* beyond its control group's limit, the kernel would kill the process */
        if (error != NULL) {
            error->limit_bytes = group_room;
        }
        return fail(error, WEIR__NUMA_GROUP, 0, r->size, WEIR_ERR_NO_MEMORY);
    }
    const weir_status status = make_pages(r, node, &placed->way, error);
    if (status != WEIR_OK) {
        return status;
    }
    const uint64_t step = r->verify_step != 0 || r->pages != WEIR__PAGES_HUGE ? r->verify_step : WEIR__HUGE_PAGE;
    const weir_status verified = weir__numa_verify(r->memory, r->size, step, &found, error);
    placed->unknown_bytes = found.unknown_bytes + found.absent_bytes;
    placed->is_verified = placed->unknown_bytes == 0;
    if (node != WEIR_NODE_NONE && node < WEIR__NUMA_NODES) {
        placed->misplaced_bytes = r->size - placed->unknown_bytes - found.node_bytes[node];
    }
    if (!r->is_strict || node == WEIR_NODE_NONE) {
        return WEIR_OK;
    }
    if (placed->misplaced_bytes > 0) {
        if (error != NULL) {
            error->limit_bytes = placed->misplaced_bytes;
        }
        return fail(error, WEIR__NUMA_MISPLACED, 0, r->size, WEIR_ERR_NO_MEMORY);
    }
    return placed->is_verified ? WEIR_OK : verified == WEIR_OK ? WEIR_ERR_UNSUPPORTED : verified;
}

/* --- texts --- */

static const char *bytes_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    uint64_t rest = 0;
    while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(*units)) {
        rest = bytes % 1024;
        bytes /= 1024;
        unit++;
    }
    if (rest != 0) {
        (void)snprintf(text, 32, "%" PRIu64 ".%" PRIu64 " %s", bytes, rest * 10 / 1024, units[unit]);
    } else {
        (void)snprintf(text, 32, "%" PRIu64 " %s", bytes, units[unit]);
    }
    return text;
}

static const char *step_text(weir__numa_step step)
{
    static const char *const texts[] = {"nothing",
#define STEP_TEXT(name, text) text,
                                        WEIR__NUMA_STEP_LIST(STEP_TEXT)
#undef STEP_TEXT
    };
    return (size_t)step < sizeof(texts) / sizeof(*texts) ? texts[step] : "?";
}

/* Writes a remedy for the error, or "" if weir knows none. */
static void advice(const weir__numa_error *e, char *text, size_t size)
{
    char limit[32];
    char used[32];
    text[0] = '\0';
    if (e->step == WEIR__NUMA_LOCK && e->limit_bytes != UINT64_MAX && (e->number == ENOMEM || e->number == EPERM)) {
        (void)snprintf(text, size,
                       "RLIMIT_MEMLOCK is %s, of which %s are taken: raise it with ulimit -l, "
                       "LimitMEMLOCK= of the service or "
                       "--ulimit memlock=-1 of the container, or run with CAP_IPC_LOCK",
                       bytes_text(e->limit_bytes, limit), bytes_text(e->used_bytes, used));
    } else if (e->step == WEIR__NUMA_MAP && e->pages == WEIR__PAGES_HUGE && e->number == ENOMEM) {
        (void)snprintf(
            text, size,
            "too few free huge pages of 2 MiB: write how many to "
            "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, or boot with hugepagesz=2M hugepages=N");
    } else if (e->step == WEIR__NUMA_POPULATE && e->pages == WEIR__PAGES_HUGE && e->node >= 0) {
        (void)snprintf(text, size,
                       "node %" PRId32 " has too few free huge pages: write more to "
                       "/sys/devices/system/node/node%" PRId32 "/hugepages/hugepages-2048kB/nr_hugepages",
                       e->node, e->node);
    } else if (e->step == WEIR__NUMA_POLICY && e->number == EPERM) {
        (void)snprintf(text, size, "mbind is forbidden, as in containers: add CAP_SYS_NICE to let memory be bound");
    } else if (e->step == WEIR__NUMA_POLICY && e->number == EINVAL) {
        (void)snprintf(text, size, "there is no node %" PRId32 ", or the cpuset forbids its memory", e->node);
    } else if (e->step == WEIR__NUMA_TRANSPARENT) {
        (void)snprintf(text, size,
                       "the kernel has no transparent huge pages, or "
                       "/sys/kernel/mm/transparent_hugepage/enabled forbids them");
    } else if (e->step == WEIR__NUMA_ROOM) {
        (void)snprintf(text, size, "node %" PRId32 " has %s to give", e->node, bytes_text(e->limit_bytes, limit));
    } else if (e->step == WEIR__NUMA_GROUP) {
        (void)snprintf(text, size, "the process's control group has %s to give: raise its memory.max",
                       bytes_text(e->limit_bytes, limit));
    } else if (e->step == WEIR__NUMA_MISPLACED) {
        (void)snprintf(text, size, "%s of them came from other nodes: node %" PRId32 " is full",
                       bytes_text(e->limit_bytes, limit), e->node);
    }
}

size_t weir__numa_error_text(const weir__numa_error *error, char *text, size_t size)
{
    char bytes[32];
    char what[256];
    advice(error, what, sizeof(what));
    const int length =
        snprintf(text, size, "%s failed for %s%s%s%s%s%s", step_text(error->step), bytes_text(error->bytes, bytes),
                 error->number != 0 ? " (" : "", error->number != 0 ? strerror(error->number) : "",
                 error->number != 0 ? ")" : "", what[0] != '\0' ? ": " : "", what);
    return length > 0 ? (size_t)length : 0;
}
