/* weir/host.h: a NUMA-aware pool of pinned host memory.
 *
 *     weir_host_pool_create(NULL, &pool);
 *     weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &ptr);     near the calling thread; or a node's number
 *     ... aclrtMemcpyAsync(device, size, ptr, size, ..., stream) ...
 *     weir_host_free_after(pool, ptr, stream);                      reused only after the copy
 *
 * Pinning a MiB costs about 280 microseconds and unpinning it another 95, so the pool pins memory in chunks and divides
 * them. Blocks of less than 64 KiB come from an engine of small blocks (weir's size classes, or jemalloc). Larger
 * blocks are runs of 4 KiB pages, placed best fit and coalesced with their neighbours when they are freed. In front of
 * both every thread has a cache of recently freed blocks.
 *
 * A chunk is made of the first kind of memory (weir_host_kind) that is available. The pool keeps that kind and the node
 * of the chunk's pages; weir_host_query and the statistics report them. Memory that is not pinned is handed out only
 * with WEIR_HOST_ALLOW_UNPINNED or WEIR_HOST_PAGEABLE.
 *
 * Every block starts at a multiple of 64, of 16 with WEIR_HOST_PAGEABLE. Each block is padded by 32 bytes, by the rule
 * of aclrtMallocHost for memory that is carved up (a block of len bytes takes ALIGN_UP(len, 32) + 32), unless the pool
 * has WEIR_HOST_NO_PAD.
 *
 * Thread safety: every function may be called from any thread. Any thread may free a block. No function is a
 * cancellation point (weir/pool.h). After fork the child does not have the blocks: the device would keep using the
 * parent's pages after a write has copied them. The child may only destroy the pool, which returns at once and frees
 * nothing: chunks and their pinning are the parent's.
 */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

#include <weir/base.h>
#include <weir/device.h>
#include <weir/shared_limit.h>
#include <weir/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_host_pool weir_host_pool;

/* --- kinds of chunks --- */

/* X(NAME, text): the kinds of memory for chunks, best first. A pool tries them in this order. */
#define WEIR_HOST_KIND_LIST(X)                                                                                         \
    X(RUNTIME, "allocated and pinned by the device's runtime")                                                         \
    X(REGISTERED, "mapped, then registered with the device's runtime")                                                 \
    X(HUGE, "mapped in huge pages and locked")                                                                         \
    X(TRANSPARENT, "mapped in transparent huge pages and locked")                                                      \
    X(LOCKED, "mapped in small pages and locked")                                                                      \
    X(UNPINNED, "mapped, not pinned")

typedef enum weir_host_kind {
#define WEIR_HOST_KIND_ENUM(name, text) WEIR_HOST_##name,
    WEIR_HOST_KIND_LIST(WEIR_HOST_KIND_ENUM)
#undef WEIR_HOST_KIND_ENUM
        WEIR_HOST_KIND_COUNT
} weir_host_kind;

WEIR_API const char *weir_host_kind_name(weir_host_kind kind); /* a short name such as "registered"; never NULL */
WEIR_API const char *weir_host_kind_text(weir_host_kind kind); /* a short description; never NULL */

/* Host memory calls of a device's runtime; weir_acl_host_runtime fills them in. Both members of a pair may be NULL when
 * the runtime has no such calls. Sizes are multiples of 2 MiB and at most `most_bytes`; memory from pinned_alloc begins
 * at a page of the system (sysconf(_SC_PAGESIZE)). WEIR_ERR_NO_MEMORY: no room, or a limit of the runtime. After any
 * failure the pool tries the next kind. Memory that pinned_free or memory_unregister refuses stays with the pool.
 * Called from any thread, one call at a time for a pool. */
typedef struct weir_host_runtime_ops {
    size_t struct_size;
    weir_status (*pinned_alloc)(void *ctx, uint64_t size, void **memory);
    weir_status (*pinned_free)(void *ctx, void *memory, uint64_t size);
    weir_status (*memory_register)(void *ctx, void *memory, uint64_t size);
    weir_status (*memory_unregister)(void *ctx, void *memory, uint64_t size);
} weir_host_runtime_ops;

typedef struct weir_host_runtime {
    size_t struct_size;
    const weir_host_runtime_ops *ops;
    void *ctx;
    uint64_t most_bytes; /* most bytes that one call may take; 0 = 1 GiB */
    /* The device of the streams that weir_host_free_after takes; NULL if there are no streams. The pool uses only the
     * device's functions for streams and events, and holds the device until the pool ends. */
    weir_device *device;
} weir_host_runtime;

#define WEIR_HOST_RUNTIME_INIT WEIR_STRUCT_INIT(weir_host_runtime)

/* --- the engine of small blocks --- */

/* The functions of an engine of small blocks, a constant table; see bindings/host/pool/src/engine.h. */
typedef struct weir_host_engine_ops weir_host_engine_ops;

/* Returns the default engine: weir's own size classes, eight for each doubling above 512 bytes. */
WEIR_API const weir_host_engine_ops *weir_host_classes_engine(void);
/* jemalloc has a library of its own: weir_host_jemalloc_engine in weir/jemalloc.h. */

/* --- pools --- */

enum {
    /* Omits the pad of 32 bytes behind each block. */
    WEIR_HOST_NO_PAD = 1u << 0,
    /* A request fails if its node has no memory, instead of being served from another node. */
    WEIR_HOST_STRICT = 1u << 1,
    /* Permits chunks of the kind UNPINNED. */
    WEIR_HOST_ALLOW_UNPINNED = 1u << 2,
    /* Disables the threads' caches: every call locks data that all threads share. */
    WEIR_HOST_NO_THREAD_CACHE = 1u << 3,
    /* Memory of the process as from malloc, not pinned: a pool without a device. The pool keeps its held bytes low:
     * chunks are small and move where they are needed, a thread keeps at most 1/128 of the held bytes, or 64 KiB if
     * that is more, and blocks of 16 KiB and more are runs of pages. The thread that takes a chunk makes its pages, on
     * the node that the system chooses. So the pool has one node, WEIR_NODE_NONE, and reads no topology. A child after
     * fork may read and write the blocks. Excludes a runtime, WEIR_HOST_STRICT and all kinds but UNPINNED. */
    WEIR_HOST_PAGEABLE = 1u << 4,
};

typedef struct weir_host_pool_config {
    size_t struct_size;
    uint32_t flags;                     /* bits of WEIR_HOST_... */
    uint32_t kinds;                     /* bit k: kind k (weir_host_kind) may be used; 0 = all but UNPINNED */
    const weir_topology *topology;      /* shared: the pool keeps the topology until the pool ends; if NULL, the pool
                                           reads the machine itself */
    const weir_host_runtime *runtime;   /* copied; NULL: no runtime */
    const weir_host_engine_ops *engine; /* NULL: weir's own classes */
    uint64_t limit_bytes;               /* most bytes held on all nodes together, in whole chunks; 0 = no limit */
    /* A power of two from 2 MiB to 1 GiB; 0 = 4 MiB. WEIR_HOST_PAGEABLE: from 16 KiB on; 0 = 64 KiB. The pool halves it
     * until it fits the limit and one call of the runtime, and raises it to a page of the system if that is larger. A
     * larger block takes several chunks side by side, or a region of its size from the runtime. */
    uint64_t chunk_bytes;
    uint64_t thread_cache_bytes;     /* most bytes that a thread caches for a node, or four large blocks if they are
                                        more; 0 = 8 MiB */
    weir_shared_limit *shared_limit; /* a limit in addition to limit_bytes; must outlive the pool; NULL: none */
} weir_host_pool_config;

#define WEIR_HOST_POOL_CONFIG_INIT WEIR_STRUCT_INIT(weir_host_pool_config)

/* Creates a pool. A NULL config means all defaults. Takes no memory for blocks yet. WEIR_ERR_INVALID: an unknown flag
 * or kind, UNPINNED in `kinds` without the flag, an invalid chunk size, kinds that need a runtime but no runtime.
 * WEIR_ERR_NO_MEMORY: no host memory. */
WEIR_API weir_status weir_host_pool_create(const weir_host_pool_config *config, weir_host_pool **pool);
/* Destroys the pool: waits for the streams of weir_host_free_after, unregisters, unlocks and unmaps. Blocks that were
 * not freed become invalid. Threads that still have blocks of the pool in their caches may go on running and end, but
 * no thread may use the pool any more. NULL is allowed. WEIR_ERR_DEVICE: the first failure of the runtime; the pool is
 * destroyed all the same, and calls of runtime.device for memory, or its weir_device_destroy, give back what the
 * runtime did not take. WEIR_ERR_BUSY: a heap uses the pool, or weir_host_pool_hold was called; nothing has
 * changed. */
WEIR_API weir_status weir_host_pool_destroy(weir_host_pool *pool);

/* Hold a pool, and release it. For bindings with objects that use the pool later: while there are more holds than
 * releases, weir_host_pool_destroy refuses, except in a child of fork. Heaps hold their host pool; the pool itself
 * holds runtime.device. WEIR_ERR_INVALID: NULL, or a release without a hold. Any thread. */
WEIR_API weir_status weir_host_pool_hold(weir_host_pool *pool);
WEIR_API weir_status weir_host_pool_release(weir_host_pool *pool);

/* --- blocks --- */

#define WEIR_HOST_THREAD_NODE (-1) /* the node that the calling thread runs on */
/* same as WEIR_HOST_THREAD_NODE if that node has memory; else the nearest node with memory, also in a strict pool */
#define WEIR_HOST_ANY_NODE (-2)

/* Returns the number of the pool's node that is nearest to the runtime's device, for weir_host_alloc: the node that the
 * device reports (host_numa_node in weir/device.h) or, if the process has no memory there, the pool's node with the
 * least distance from it. WEIR_HOST_THREAD_NODE if it is not known: the pool has no runtime with a device, the device
 * reports no node, or the distances are unknown. Found at the creation of the pool. NULL: WEIR_HOST_THREAD_NODE. */
WEIR_API int32_t weir_host_device_node(const weir_host_pool *pool);

/* Returns in *ptr a block of at least `size` bytes at a multiple of 64 (16 with WEIR_HOST_PAGEABLE), contents
 * undefined. The block lies on node `node` or, unless the pool is strict, on the nearest node with memory
 * (weir_host_query reports which). Before the call fails it has waited for blocks that wait for streams and returned
 * idle memory of other nodes. *ptr is unchanged on failure. WEIR_ERR_INVALID: NULL, size 0 or too large to pad, no
 * such node, or a node that cpusets forbid. WEIR_ERR_LIMIT: limit_bytes or shared_limit refused the request.
 * WEIR_ERR_NO_MEMORY: no kind of memory was available; weir_host_explain gives the reasons. A kind that has failed is
 * tried again after 10 ms, or when chunks have gone back. */
WEIR_API weir_status weir_host_alloc(weir_host_pool *pool, uint64_t size, int32_t node, void **ptr);
/* Allocates like weir_host_alloc, at a multiple of `align`, a power of two below 2^46; 0 = the pool's alignment. Above
 * 64 even a small block takes whole pages. An alignment above chunk_bytes costs addresses only where weir maps the
 * chunks; a pool that can only allocate from the runtime has to pin `size` plus `align` bytes. WEIR_ERR_NO_MEMORY: also
 * if there is no such range of addresses. */
WEIR_API weir_status weir_host_alloc_aligned(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t node,
                                             void **ptr);

/* Frees a block that neither the host nor a device uses any longer. NULL is allowed. WEIR_ERR_INVALID: not the start of
 * a live block of this pool. A double free is refused in every build, for every size and from any threads, as long as
 * the memory has not been handed out again. Exception: two threads that free the same block at the same instant may
 * both get WEIR_OK, except in checked builds. */
WEIR_API weir_status weir_host_free(weir_host_pool *pool, void *ptr);
/* Frees a block like weir_host_free, for a caller that knows the requested size. WEIR_ERR_INVALID, and nothing is
 * freed, also if a request of that size would not have returned such a block. */
WEIR_API weir_status weir_host_free_sized(weir_host_pool *pool, void *ptr, uint64_t size);
/* Frees a block that work queued on `native_stream` (of the runtime's device; NULL its default stream) may still read
 * or write: the block is handed out again only when that work is complete. Never waits. WEIR_ERR_UNSUPPORTED: the pool
 * has no runtime with streams. WEIR_ERR_INVALID: as for weir_host_free, or the stream belongs to another device; the
 * block is then still live. WEIR_ERR_BUSY: the stream is being captured into a graph, which uses the block in each
 * launch; the block is still live, to be freed when the graph is gone. WEIR_ERR_NO_MEMORY: not freed; synchronise and
 * use weir_host_free. */
WEIR_API weir_status weir_host_free_after(weir_host_pool *pool, void *ptr, void *native_stream);
/* Waits for the stream and takes back the blocks that wait for it. Call it before the stream is destroyed. */
WEIR_API weir_status weir_host_stream_retire(weir_host_pool *pool, void *native_stream);

typedef struct weir_host_info {
    size_t struct_size;
    void *block;              /* start of the block around the address */
    uint64_t size;            /* usable bytes: at least the requested size */
    int32_t node;             /* the node that the block's pages were made for */
    bool is_pinned;           /* all of the block is pinned */
    bool is_verified;         /* the kernel reported the node of all the block's pages */
    uint64_t misplaced_bytes; /* bytes in the block's chunks that lie on other nodes */
    weir_host_kind kind; /* kind of the block's memory; of several chunks, the last kind in the order of the enum */
} weir_host_info;

#define WEIR_HOST_INFO_INIT WEIR_STRUCT_INIT(weir_host_info)

/* Describes the live block around any address inside it; wait-free. WEIR_ERR_INVALID: the address is not in a live
 * block of this pool. */
WEIR_API weir_status weir_host_query(weir_host_pool *pool, const void *ptr, weir_host_info *info);

/* --- upkeep --- */

/* Takes back the caches of all threads and the idle parts of the pool, and returns wholly free chunks until at most
 * `keep_bytes` are held. On a system without membarrier (before Linux 4.14, some sandboxes) another thread empties its
 * cache at its next request that its cache cannot serve, or when the thread ends. *released, when not NULL, receives
 * the bytes given back. WEIR_ERR_DEVICE: the runtime kept some. */
WEIR_API weir_status weir_host_trim(weir_host_pool *pool, uint64_t keep_bytes, uint64_t *released);

/* held = live + cached + pending + free bytes. Exact when no other thread is at work. The pool does not poll streams
 * here, so `pending` may include blocks that need not wait any more. */
typedef struct weir_host_stats {
    size_t struct_size;
    uint64_t held_bytes; /* in all chunks */
    uint64_t pinned_bytes;
    uint64_t unpinned_bytes;
    uint64_t misplaced_bytes;  /* bytes in pages that the kernel reports on another node than the requested one */
    uint64_t unverified_bytes; /* bytes in chunks for which the kernel does not report the node of all pages */
    uint64_t live_bytes;       /* sizes as handed out, pads and rounding included */
    uint64_t pad_bytes;        /* part of live_bytes: the pads, 32 bytes behind each live block */
    uint64_t cached_bytes;     /* in threads' caches */
    uint64_t pending_bytes;    /* bytes of freed blocks that wait for a stream */
    uint64_t peak_held_bytes;  /* for all nodes together: the sum of the nodes' peaks */
    uint64_t allocs, frees, failures;
    uint64_t chunks;
    uint64_t kind_bytes[WEIR_HOST_KIND_COUNT];    /* held, by kind */
    uint64_t kind_failures[WEIR_HOST_KIND_COUNT]; /* times that this kind of memory was tried and not available */
    uint64_t pin_ns, unpin_ns;                    /* wall-clock time spent in making chunks and in giving them back */
} weir_host_stats;

#define WEIR_HOST_STATS_INIT WEIR_STRUCT_INIT(weir_host_stats)

/* Copies the figures of one node, or of all nodes (WEIR_HOST_ANY_NODE). */
WEIR_API weir_status weir_host_get_stats(weir_host_pool *pool, int32_t node, weir_host_stats *stats);

/* Writes, like snprintf, why the kinds of memory (weir_host_kind) failed when `node` last tried them: one line for each
 * kind, with a remedy ("RLIMIT_MEMLOCK is 8 MiB: raise it with ulimit -l or run with CAP_IPC_LOCK"). */
WEIR_API size_t weir_host_explain(weir_host_pool *pool, int32_t node, char *text, size_t size);

/* Checks the invariants: those of the engines and of the pools of pages, and that chunks and statistics agree. Other
 * threads may keep using the pool. WEIR_ERR_INTERNAL: an invariant is broken; *why (when not NULL) is a sentence that
 * stays valid. WEIR_ERR_NO_MEMORY: no host memory to check with. */
WEIR_API weir_status weir_host_check(weir_host_pool *pool, const char **why);

#ifdef __cplusplus
}
#endif

#endif
