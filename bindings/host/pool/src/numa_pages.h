/* numa_pages.h: maps host memory, puts its pages on a node, asks where the pages are, and locks them.
 *
 * Each function works alone and reports a failure by its status and a weir__numa_error (NULL: not wanted). No function
 * can get the process killed: memory is never bound to a node that could run full (that would end in the kernel's
 * out-of-memory killer, not in an error), and huge pages are never touched before the kernel has promised them (that
 * would be a SIGBUS). The functions keep no state and may be called from any thread.
 *
 * Measured costs in the kernel (6.18, one node, 256 MiB): finding pages by move_pages takes 0.13 ms for a MiB of small
 * pages and 0.05 ms for a MiB of transparent huge pages; reading numa_maps takes 0.03 ms for each MiB of small pages in
 * the whole process.
 */
#ifndef WEIR_HOST_PLACE_H
#define WEIR_HOST_PLACE_H

#include <weir/topology.h>

#include "topology_internal.h"

enum { WEIR__NUMA_NODES = 1024 }; /* Linux allows no more */
enum { WEIR__NUMA_CPU_WORDS = WEIR__CPUS_MOST / (8 * (int)sizeof(unsigned long)) };
#define WEIR__HUGE_PAGE (UINT64_C(2) << 20)

/* X(NAME, text): the steps that can fail. */
#define WEIR__NUMA_STEP_LIST(X)                                                                                        \
    X(RESERVE, "reserving addresses")                                                                                  \
    X(MAP, "mapping")                                                                                                  \
    X(TRANSPARENT, "asking for transparent huge pages")                                                                \
    X(ROOM, "looking for room on the node")                                                                            \
    X(GROUP, "looking for room in the control group")                                                                  \
    X(POLICY, "setting the memory policy")                                                                             \
    X(THREAD, "moving the thread to the node")                                                                         \
    X(POPULATE, "making the pages")                                                                                    \
    X(VERIFY, "asking where the pages are")                                                                            \
    X(MISPLACED, "getting pages of the node")                                                                          \
    X(LOCK, "locking")

typedef enum weir__numa_step {
    WEIR__NUMA_NO_STEP,
#define WEIR__NUMA_STEP_ENUM(name, text) WEIR__NUMA_##name,
    WEIR__NUMA_STEP_LIST(WEIR__NUMA_STEP_ENUM)
#undef WEIR__NUMA_STEP_ENUM
} weir__numa_step;

typedef enum weir__numa_pages {
    WEIR__PAGES_SMALL,
    WEIR__PAGES_TRANSPARENT, /* small pages that the kernel may join into huge ones, at once where it can */
    WEIR__PAGES_HUGE,        /* pages of 2 MiB, reserved by the administrator */
} weir__numa_pages;

typedef struct weir__numa_error {
    weir__numa_step step;
    int number; /* errno; 0: no system call failed */
    weir__numa_pages pages;
    int32_t node;         /* WEIR_NODE_NONE: no node was requested */
    uint64_t bytes;       /* requested */
    uint64_t limit_bytes; /* by `step`: RLIMIT_MEMLOCK (LOCK), available bytes (ROOM, GROUP), bytes on other nodes
                             (MISPLACED) */
    uint64_t used_bytes;  /* LOCK: bytes already locked */
} weir__numa_error;

/* Writes, like snprintf, one sentence without a full stop: the step that failed, and a remedy. */
size_t weir__numa_error_text(const weir__numa_error *error, char *text, size_t size);

/* --- mapping --- */

/* Returns the system's page size, to which the kernel rounds mappings and advice. */
uint64_t weir__numa_page_bytes(void);
/* Reserves addresses without memory. `align`: a power of two, at least a page. WEIR_ERR_NO_MEMORY: no such range. */
weir_status weir__numa_reserve(uint64_t size, uint64_t align, void **memory, weir__numa_error *error);
/* Maps memory, without pages yet. `at` is an address inside a reservation where nothing is mapped; if NULL, the kernel
 * chooses the address. For the two larger kinds of page both `at` and `size` are multiples of 2 MiB.
 * WEIR_ERR_NO_MEMORY: no memory, or not enough huge pages. WEIR_ERR_UNSUPPORTED: the kernel has no such pages.
 * WEIR_ERR_INVALID: not aligned. If the call fails and `at` is not NULL, the reservation is unchanged. */
weir_status weir__numa_map(void *at, uint64_t size, weir__numa_pages pages, void **memory, weir__numa_error *error);
/* Unmaps the memory. The addresses are freed too, unless `stays_reserved`. */
void weir__numa_unmap(void *memory, uint64_t size, bool stays_reserved);

/* --- pages on a node --- */

/* Sets the memory policy of the range: pages made later come from `node`, exclusively if `binds` (for huge pages only:
 * other pages would end in the out-of-memory killer), else preferably. An explicit policy also disables the kernel's
 * NUMA balancing. WEIR_ERR_UNSUPPORTED: forbidden, as in a container, or the kernel has no policies. WEIR_ERR_INVALID:
 * no such node, cpusets forbid it, or `binds` for small pages. */
weir_status weir__numa_policy(void *memory, uint64_t size, int32_t node, weir__numa_pages pages, bool binds,
                              weir__numa_error *error);
/* Makes all missing pages of the range. The contents of existing pages stay; those of new pages are undefined.
 * WEIR_ERR_NO_MEMORY: not all pages could be made (for huge pages: the node has too few), or they cannot be written. */
weir_status weir__numa_populate(void *memory, uint64_t size, weir__numa_error *error);
/* Like weir__numa_populate, from a processor of `node`, so that without any policy the kernel takes that node's pages
 * while there are some. Then restores the thread's processors. WEIR_ERR_UNSUPPORTED: the node has no processors that
 * the thread may run on, or the thread may not choose; no page was made. WEIR_ERR_INTERNAL: the pages were made, but
 * the thread's processors could not be restored. */
weir_status weir__numa_populate_near(const weir_topology *topology, void *memory, uint64_t size, int32_t node,
                                     weir__numa_error *error);

/* The processors that the calling thread could run on before it was moved. `known`: number of valid bytes of the mask,
 * or 0 if the thread was not moved. */
typedef struct weir__numa_cpus {
    unsigned long mask[WEIR__NUMA_CPU_WORDS];
    long known;
} weir__numa_cpus;

/* The memory policy and processors of the calling thread, to be restored later. */
typedef struct weir__numa_wish {
    weir__numa_cpus cpus;
    int mode;
    unsigned long nodes[WEIR__NUMA_NODES / (8 * sizeof(unsigned long))];
    bool is_set;
} weir__numa_wish;

/* For a runtime that allocates by itself: makes the thread prefer the node for all memory that any code in the thread
 * makes from now on, and moves the thread to a processor of the node. (CANN's driver takes the node of the calling
 * thread's processor and ignores the policy: hicann/driver, sdk_driver/svm/svm_host_adapt.h.) Skips each step that is
 * forbidden. In any case the same thread must call weir__numa_thread_restore afterwards. */
void weir__numa_thread_prefer(const weir_topology *topology, int32_t node, weir__numa_wish *before);
void weir__numa_thread_restore(const weir__numa_wish *before);

/* Stores in *bytes how much memory can be taken from a node without filling it: its free memory less a margin of 1/64
 * of its total (at least 16 MiB, at most 1 GiB). For huge pages, stores the bytes of its free huge pages.
 * WEIR_ERR_UNSUPPORTED: the figures cannot be read. */
weir_status weir__numa_room(int32_t node, weir__numa_pages pages, uint64_t *bytes);

/* --- finding pages --- */

typedef enum weir__numa_source {
    WEIR__FOUND_NOTHING,
    WEIR__FOUND_BY_MOVE_PAGES,
    WEIR__FOUND_BY_NUMA_MAPS
} weir__numa_source;

typedef struct weir__numa_found {
    weir__numa_source source;
    uint64_t node_bytes[WEIR__NUMA_NODES];
    uint64_t absent_bytes; /* no page yet */
    /* Bytes for which the kernel reports no node: memory of a device, a shared mapping, or (older kernels) a large part
     * without pages. */
    uint64_t unknown_bytes;
} weir__numa_found;

/* Finds the nodes of a range's pages; all bytes in *found add up to `size`. One page in each `step` bytes is
 * queried and stands for all of them; with `step` 0, every page is queried. WEIR_ERR_UNSUPPORTED: the kernel
 * reports no page. */
weir_status weir__numa_verify(const void *memory, uint64_t size, uint64_t step, weir__numa_found *found,
                              weir__numa_error *error);
/* Like weir__numa_verify, but reads only numa_maps, which containers do not forbid. `root` is as in
 * topology_internal.h. Counts only certain bytes: the bytes in a mapping that extends beyond the range count only if
 * all pages of the mapping are on one node. (weir__numa_verify makes the range a mapping of its own for the query.) */
weir_status weir__numa_verify_by_maps(const char *root, const void *memory, uint64_t size, weir__numa_found *found);
/* Counts the bytes of the range in transparent huge pages. WEIR_ERR_UNSUPPORTED: the kernel does not report them. */
weir_status weir__numa_transparent_bytes(const char *root, const void *memory, uint64_t size, uint64_t *bytes);

/* --- locking --- */

/* Locks the range in memory. WEIR_ERR_LIMIT: RLIMIT_MEMLOCK. WEIR_ERR_UNSUPPORTED: forbidden. WEIR_ERR_NO_MEMORY: pages
 * could not be made, or the kernel has no room for its bookkeeping. On failure the range is not locked. */
weir_status weir__numa_lock(void *memory, uint64_t size, weir__numa_error *error);
void weir__numa_unlock(void *memory, uint64_t size);

typedef struct weir__numa_lock_limits {
    uint64_t soft_bytes, hard_bytes; /* RLIMIT_MEMLOCK; UINT64_MAX: no limit */
    uint64_t locked_bytes;           /* bytes that this process has locked */
    bool is_exempt;                  /* has CAP_IPC_LOCK */
} weir__numa_lock_limits;

void weir__numa_get_lock_limits(weir__numa_lock_limits *limits);

/* --- all steps in one call --- */

typedef struct weir__numa_request {
    const weir_topology *topology; /* `node` is ignored if the topology is not that of this machine */
    void *memory;                  /* a mapping of weir__numa_map, without pages yet */
    uint64_t size;
    weir__numa_pages pages;
    int32_t node;         /* WEIR_NODE_NONE: any node */
    bool is_strict;       /* fail unless all pages are on the node */
    uint64_t verify_step; /* the `step` of weir__numa_verify; 0 = every page (of 2 MiB for huge pages) */
} weir__numa_request;

typedef enum weir__numa_way { WEIR__PLACED_ANYWHERE, WEIR__PLACED_BY_POLICY, WEIR__PLACED_BY_THREAD } weir__numa_way;

typedef struct weir__placed {
    weir__numa_way way;
    bool is_verified; /* the kernel reported the node of every page */
    uint64_t misplaced_bytes;
    uint64_t unknown_bytes;
} weir__placed;

/* Makes the pages of a range on a node: by a memory policy; if policies are forbidden, from a processor of the node; if
 * that is not possible either, on any node. Then asks the kernel where the pages are. *error describes an attempt that
 * failed, even if a later one worked. Not strict: WEIR_OK wherever the pages are. Strict: WEIR_ERR_NO_MEMORY: the node
 * has no room, or some pages are elsewhere; WEIR_ERR_UNSUPPORTED: the kernel does not report where the pages are. After
 * a failure the range may have pages: unmap it. */
weir_status weir__numa_pages_on(const weir__numa_request *request, weir__placed *placed, weir__numa_error *error);

#endif
