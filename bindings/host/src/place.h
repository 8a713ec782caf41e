/* place.h: mapping host memory, putting its pages on a node, asking where they are, and locking them there.
 *
 * Every function works alone and says in its status and in a weir__place_error (NULL: not asked for) why it could not. No
 * function kills the process: memory is never bound to a node whose memory could run out (that ends in the kernel's
 * out-of-memory killer, not in an error), and huge pages are never touched before the kernel has promised them (that is a
 * SIGBUS). Nothing is kept; all may be called from any thread.
 *
 * Measured on the kernel's side (6.18, one node, 256 MiB): asking by move_pages where pages are costs 0.13 ms for a MiB of
 * small pages and 0.05 ms where they are transparent huge ones; reading numa_maps 0.03 ms for each MiB of small pages in
 * the whole process.
 */
#ifndef WEIR_HOST_PLACE_H
#define WEIR_HOST_PLACE_H

#include <weir/topology.h>

enum { WEIR__PLACE_NODES = 1024 }; /* no Linux has more */
#define WEIR__HUGE_PAGE (UINT64_C(2) << 20)

/* X(NAME, text): what can fail. */
#define WEIR__PLACE_STEP_LIST(X)                                                                   \
    X(RESERVE, "reserving addresses")                                                              \
    X(MAP, "mapping")                                                                              \
    X(TRANSPARENT, "asking for transparent huge pages")                                            \
    X(ROOM, "looking for room on the node")                                                        \
    X(POLICY, "setting the memory policy")                                                         \
    X(THREAD, "moving the thread to the node")                                                     \
    X(POPULATE, "making the pages")                                                                \
    X(VERIFY, "asking where the pages are")                                                        \
    X(MISPLACED, "getting pages of the node")                                                      \
    X(LOCK, "locking")

typedef enum weir__place_step {
    WEIR__PLACE_NO_STEP,
#define WEIR__PLACE_STEP_ENUM(name, text) WEIR__PLACE_##name,
    WEIR__PLACE_STEP_LIST(WEIR__PLACE_STEP_ENUM)
#undef WEIR__PLACE_STEP_ENUM
} weir__place_step;

typedef enum weir__place_pages {
    WEIR__PAGES_SMALL,
    WEIR__PAGES_TRANSPARENT, /* small ones that the kernel may join, and does at once where it can */
    WEIR__PAGES_HUGE,        /* of 2 MiB, set aside by whoever runs the machine */
} weir__place_pages;

typedef struct weir__place_error {
    weir__place_step step;
    int number; /* errno; 0: the kernel did not say no */
    weir__place_pages pages;
    int32_t node;         /* WEIR_NODE_NONE: none was asked for */
    uint64_t bytes;       /* asked */
    uint64_t limit_bytes; /* LOCK: RLIMIT_MEMLOCK; ROOM: room; MISPLACED: that are elsewhere */
    uint64_t used_bytes;  /* LOCK: locked so far */
} weir__place_error;

/* Writes, as snprintf does, one sentence without a full stop: what failed, and what a person can do about it. */
size_t weir__place_error_text(const weir__place_error *error, char *text, size_t size);

/* --- mapping --- */

/* The size of a page of the system, to which the kernel rounds mappings and advice. */
uint64_t weir__place_page_bytes(void);
/* Addresses without memory. `align`: a power of two, at least a page. WEIR_ERR_NO_MEMORY. */
weir_status weir__place_reserve(uint64_t size, uint64_t align, void **memory,
                                weir__place_error *error);
/* Memory without pages yet, at `at` inside a reservation where nothing is mapped, or, for NULL, where there is room.
 * For the two larger kinds of page both `at` and `size` are multiples of 2 MiB. WEIR_ERR_NO_MEMORY: none, or not enough huge
 * pages. WEIR_ERR_UNSUPPORTED: the kernel has no such pages. WEIR_ERR_INVALID: not aligned. On failure at `at` the
 * reservation is as before. */
weir_status weir__place_map(void *at, uint64_t size, weir__place_pages pages, void **memory,
                            weir__place_error *error);
/* Gives the memory back, and the addresses unless they are to stay reserved. */
void weir__place_unmap(void *memory, uint64_t size, bool stays_reserved);

/* --- pages on a node --- */

/* Pages of the range that are made from now on come from `node`: where `binds`, from nowhere else (for huge pages only: the
 * others would end in the out-of-memory killer), else if there are any. An explicit policy also keeps the kernel's NUMA
 * balancing away. WEIR_ERR_UNSUPPORTED: forbidden, as in a container, or the kernel has no policies.
 * WEIR_ERR_INVALID: no such node, cpusets forbid it, or small pages are to be bound. */
weir_status weir__place_policy(void *memory, uint64_t size, int32_t node, weir__place_pages pages,
                               bool binds, weir__place_error *error);
/* Makes all pages of the range. What was in them stays, what was not there is undefined. WEIR_ERR_NO_MEMORY: not all
 * could be had (of huge pages: the node has too few), or they cannot be written. */
weir_status weir__place_populate(void *memory, uint64_t size, weir__place_error *error);
/* The same, from a processor of `node`, so that without any policy the kernel takes that node's pages as long as there are
 * some; then the thread has its own processors back. WEIR_ERR_UNSUPPORTED: the node has no processors that the thread may
 * run on, or it may not choose; then nothing was populated. WEIR_ERR_INTERNAL: populated, but the thread did not get its
 * processors back. */
weir_status weir__place_populate_near(const weir_topology *topology, void *memory, uint64_t size,
                                      int32_t node, weir__place_error *error);

/* What the calling thread preferred before. */
typedef struct weir__place_wish {
    int mode;
    unsigned long nodes[WEIR__PLACE_NODES / (8 * sizeof(unsigned long))];
    bool is_set;
} weir__place_wish;

/* Whatever memory the thread makes from now on, whoever asks for it, comes from the node if there is some: for a runtime that
 * allocates by itself. Silent where policies are forbidden; restore in any case. */
void weir__place_thread_prefer(const weir_topology *topology, int32_t node, weir__place_wish *before);
void weir__place_thread_restore(const weir__place_wish *before);

/* What can be taken from a node, a margin left alone in which it would run full: its free memory less 1/64 of all (at least
 * 16 MiB, at most 1 GiB); for huge pages, its free ones. WEIR_ERR_UNSUPPORTED: it cannot be read. */
weir_status weir__place_room(int32_t node, weir__place_pages pages, uint64_t *bytes);

/* --- where pages are --- */

typedef enum weir__place_source {
    WEIR__FOUND_NOTHING,
    WEIR__FOUND_BY_MOVE_PAGES,
    WEIR__FOUND_BY_NUMA_MAPS
} weir__place_source;

typedef struct weir__place_found {
    weir__place_source source;
    uint64_t node_bytes[WEIR__PLACE_NODES];
    uint64_t absent_bytes; /* no page there yet */
    /* The kernel does not say: a device's memory, others share the mapping, or (older kernels) a long stretch without pages. */
    uint64_t unknown_bytes;
} weir__place_found;

/* Where the pages of a range are; the sum of all bytes is `size`. `step`: one page in so many bytes is asked about and
 * stands for all of them; 0 = every page. WEIR_ERR_UNSUPPORTED: the kernel says nothing of any page. */
weir_status weir__place_verify(const void *memory, uint64_t size, uint64_t step,
                               weir__place_found *found, weir__place_error *error);
/* The other way alone, which containers do not forbid; `root` as in topology_internal.h. Counts only what is sure: where a
 * mapping is larger than the range, either all of its pages are on one node or nothing is known. (weir__place_verify makes
 * the range a mapping of its own for the question.) */
weir_status weir__place_verify_by_maps(const char *root, const void *memory, uint64_t size,
                                       weir__place_found *found);
/* How much of the range is in transparent huge pages. WEIR_ERR_UNSUPPORTED: it cannot be told. */
weir_status weir__place_transparent_bytes(const char *root, const void *memory, uint64_t size,
                                          uint64_t *bytes);

/* --- locking --- */

/* WEIR_ERR_LIMIT: RLIMIT_MEMLOCK. WEIR_ERR_UNSUPPORTED: forbidden. WEIR_ERR_NO_MEMORY: pages could not be made, or the
 * kernel has no room for the bookkeeping. On failure nothing of the range is locked. */
weir_status weir__place_lock(void *memory, uint64_t size, weir__place_error *error);
void weir__place_unlock(void *memory, uint64_t size);

typedef struct weir__place_lock_limits {
    uint64_t soft_bytes, hard_bytes; /* RLIMIT_MEMLOCK; UINT64_MAX: none */
    uint64_t locked_bytes;           /* by this process so far */
    bool is_exempt;                  /* CAP_IPC_LOCK */
} weir__place_lock_limits;

void weir__place_get_lock_limits(weir__place_lock_limits *limits);

/* --- all of it --- */

typedef struct weir__place_request {
    const weir_topology *topology; /* not this machine's: no node is asked for */
    void *memory;                  /* from weir__place_map, without pages yet */
    uint64_t size;
    weir__place_pages pages;
    int32_t node;         /* WEIR_NODE_NONE: wherever */
    bool is_strict;       /* on the node, or not at all */
    uint64_t verify_step; /* as for weir__place_verify; 0 = every page (of 2 MiB for huge pages) */
} weir__place_request;

typedef enum weir__place_way {
    WEIR__PLACED_ANYWHERE,
    WEIR__PLACED_BY_POLICY,
    WEIR__PLACED_BY_THREAD
} weir__place_way;

typedef struct weir__placed {
    weir__place_way way;
    bool is_verified; /* the kernel said of every page where it is */
    uint64_t misplaced_bytes;
    uint64_t unknown_bytes;
} weir__placed;

/* Puts pages into a range, on a node: by policy, else by the thread's processor, else as the kernel likes, and asks where
 * they are. A failure of a way is in *error although another one worked. Not strict: WEIR_OK wherever they are.
 * Strict: WEIR_ERR_NO_MEMORY: the node has no room, or some are elsewhere; WEIR_ERR_UNSUPPORTED: nobody says where they are.
 * After a failure the range may have pages: unmap it. */
weir_status weir__place_pages_on(const weir__place_request *request, weir__placed *placed,
                                 weir__place_error *error);

#endif
