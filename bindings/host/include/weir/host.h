/* weir/host.h: a NUMA-aware pool of pinned host memory.
 *
 *     weir_host_pool_create(NULL, &pool);
 *     weir_host_alloc(pool, size, WEIR_HOST_THREAD_NODE, &ptr);     near the calling thread; or a node's number
 *     ... aclrtMemcpyAsync(device, size, ptr, size, ..., stream) ...
 *     weir_host_free_after(pool, ptr, stream);                      reused only after the copy
 *
 * Pinning a MiB costs some 280 microseconds and letting it go another 95, so memory is pinned in chunks and divided: blocks
 * of less than 64 KiB by an engine of small blocks (weir's size classes, or jemalloc), larger ones as runs of 4 KiB pages,
 * best fit, joined with their neighbours when they come back. In front of both every thread keeps what it freed lately.
 *
 * How a chunk is pinned is a ladder (weir_host_kind). Which step it came from, and on which node its pages really are, is
 * kept with the chunk and told by weir_host_query and the statistics; memory that is not pinned is handed out only where
 * `allow_unpinned` says so.
 *
 * Every block starts at a multiple of 64. By the rule of aclrtMallocHost for memory that is carved up (a block of len bytes
 * takes ALIGN_UP(len, 32) + 32) each is padded by 32 bytes unless the pool is told not to.
 *
 * Thread safety: every function may be called from any thread. A block may be freed by another thread than its owner. No
 * function is a cancellation point (weir/pool.h). After
 * fork the child does not have the blocks (a device would go on with the parent's pages when a write had copied them) and
 * may only destroy the pool, which returns at once and frees nothing: chunks and their pinning are the parent's.
 */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

#include <weir/base.h>
#include <weir/device.h>
#include <weir/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_host_pool weir_host_pool;

/* --- where chunks come from --- */

/* X(NAME, text): the steps of the ladder, best first. */
#define WEIR_HOST_KIND_LIST(X)                                                                     \
    X(RUNTIME, "allocated and pinned by the device's runtime")                                     \
    X(REGISTERED, "mapped, then registered with the device's runtime")                             \
    X(HUGE, "mapped in huge pages and locked")                                                     \
    X(TRANSPARENT, "mapped in transparent huge pages and locked")                                  \
    X(LOCKED, "mapped in small pages and locked")                                                  \
    X(UNPINNED, "mapped, not pinned")

typedef enum weir_host_kind {
#define WEIR_HOST_KIND_ENUM(name, text) WEIR_HOST_##name,
    WEIR_HOST_KIND_LIST(WEIR_HOST_KIND_ENUM)
#undef WEIR_HOST_KIND_ENUM
    WEIR_HOST_KIND_COUNT
} weir_host_kind;

WEIR_API const char *weir_host_kind_name(weir_host_kind kind); /* "registered"; never NULL */
WEIR_API const char *weir_host_kind_text(weir_host_kind kind); /* a few words for a person; never NULL */

/* What a device's runtime does for host memory; weir_acl_host_runtime makes one. A pair may be NULL when the runtime has
 * no such calls. Sizes are multiples of 2 MiB and at most `most_bytes`; memory from pinned_alloc begins at a page of
 * the system (sysconf(_SC_PAGESIZE)).
 * WEIR_ERR_NO_MEMORY: no room, or a limit of the runtime's; any failure makes the pool try the next step. Memory that is
 * refused by pinned_free or memory_unregister stays with the pool. Called from any thread, one call at a time for a pool. */
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
    uint64_t most_bytes; /* of one call; 0 = 1 GiB */
    /* The device of the streams that weir_host_free_after takes; only its ordering group is used. The pool holds the device until
     * its end. NULL: no streams. */
    weir_device *device;
} weir_host_runtime;

#define WEIR_HOST_RUNTIME_INIT WEIR_STRUCT_INIT(weir_host_runtime)

/* --- the engine of small blocks --- */

/* A constant table; see bindings/host/src/engine.h for its members. */
typedef struct weir_host_engine_ops weir_host_engine_ops;

/* weir's own size classes, four for each doubling: the default. */
WEIR_API const weir_host_engine_ops *weir_host_classes_engine(void);
/* jemalloc is in a library of its own: weir_host_jemalloc_engine in weir/jemalloc.h. */

/* --- pools --- */

enum {
    /* Blocks get no 32 bytes behind them. */
    WEIR_HOST_NO_PAD = 1u << 0,
    /* A request fails rather than be served from another node than it names. */
    WEIR_HOST_STRICT = 1u << 1,
    /* The last step of the ladder may be used. */
    WEIR_HOST_ALLOW_UNPINNED = 1u << 2,
    /* Threads keep nothing: every call reaches the shared parts. */
    WEIR_HOST_NO_THREAD_CACHE = 1u << 3,
    /* Memory of the process like malloc's, not pinned: for who wants the rest of a pool without a device. What is held counts
     * here: chunks are small and move where they are needed, threads keep at most 1/128 of what is held (but 64 KiB), and blocks
     * of 16 KiB and more are runs of pages. Pages are made by the thread that asks for more, near itself as the system does
     * it, so the pool has one node, WEIR_NODE_NONE, and looks at no topology; a child after fork may read and write the
     * blocks. Excludes a runtime, WEIR_HOST_STRICT and all kinds but UNPINNED. */
    WEIR_HOST_PAGEABLE = 1u << 4,
};

typedef struct weir_host_pool_config {
    size_t struct_size;
    uint32_t flags;                     /* WEIR_HOST_... */
    uint32_t kinds;                     /* bit k: step k of the ladder may be used; 0 = all but UNPINNED */
    const weir_topology *topology;      /* shared: it stays as long as the pool; NULL: the pool looks at the machine itself */
    const weir_host_runtime *runtime;   /* copied; NULL: none */
    const weir_host_engine_ops *engine; /* NULL: weir's classes */
    uint64_t limit_bytes;               /* most that may be held on all nodes together, in whole chunks; 0 = no limit */
    /* A power of two from 2 MiB to 1 GiB; 0 = 4 MiB. WEIR_HOST_PAGEABLE: from 16 KiB on; 0 = 64 KiB. Halved until it passes
     * the limit and one call of the runtime's, and raised to a page of the system where that is more. A larger block takes several, side by side, or a piece of its size from the
     * runtime. */
    uint64_t chunk_bytes;
    uint64_t thread_cache_bytes;        /* most that a thread keeps for a node; 0 = 8 MiB, or four blocks where that is more */
} weir_host_pool_config;

#define WEIR_HOST_POOL_CONFIG_INIT WEIR_STRUCT_INIT(weir_host_pool_config)

/* NULL for the config means all defaults. Takes no memory yet. WEIR_ERR_INVALID: an unknown flag or kind, UNPINNED in
 * `kinds` without the flag, a chunk size that is none, kinds that need a runtime and none is given. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_host_pool_create(const weir_host_pool_config *config, weir_host_pool **pool);
/* Ends the pool: waits for the streams of weir_host_free_after, unregisters, unlocks and unmaps. Blocks that were not freed
 * are gone. Threads that still run may have memory of theirs in it: nothing of the pool may be used any more, but they
 * may end. NULL is allowed. WEIR_ERR_DEVICE: the first failure of the runtime; the pool is gone all the same. WEIR_ERR_BUSY: a heap
 * stands on the pool or weir_host_pool_hold was called; nothing has changed. */
WEIR_API weir_status weir_host_pool_destroy(weir_host_pool *pool);

/* For bindings with objects that use the pool later: until it has been released as often as held, weir_host_pool_destroy
 * refuses, except in a child of fork. Heaps hold their host pool; the pool itself holds runtime.device. WEIR_ERR_INVALID: NULL, or
 * a release too many. Any thread. */
WEIR_API weir_status weir_host_pool_hold(weir_host_pool *pool);
WEIR_API weir_status weir_host_pool_release(weir_host_pool *pool);

/* --- blocks --- */

#define WEIR_HOST_THREAD_NODE (-1) /* the node that the calling thread runs on */
#define WEIR_HOST_ANY_NODE (-2)    /* the same if it has memory, else the nearest that has, of a strict pool too */

/* A block of at least `size` bytes at a multiple of 64, whose contents are undefined, on node `node` or, unless the pool
 * is strict, on the nearest that has memory (weir_host_query tells). Before it fails it has waited for what streams hold
 * back and returned what lies idle on other nodes. *ptr is untouched on failure.
 * WEIR_ERR_INVALID: NULL, size 0 or too large to pad, no such node, or one that cpusets forbid. WEIR_ERR_LIMIT:
 * limit_bytes stood in the way. WEIR_ERR_NO_MEMORY: no step of the ladder gave memory; weir_host_explain says why each did
 * not. A step that has given nothing is tried again after 10 ms, or when chunks have gone back. */
WEIR_API weir_status weir_host_alloc(weir_host_pool *pool, uint64_t size, int32_t node, void **ptr);
/* The same at a multiple of `align`, a power of two below 2^46; 0 = 64. Above 64 even a small block takes whole pages. An alignment
 * above chunk_bytes costs addresses where weir maps the chunks; a pool with the runtime's allocation as its only step has to pin
 * `size` and `align` bytes together. WEIR_ERR_NO_MEMORY also where there is no such range of addresses. */
WEIR_API weir_status weir_host_alloc_aligned(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t node, void **ptr);

/* Gives a block back; the host no longer uses it and no device does. NULL is allowed. WEIR_ERR_INVALID: not the start of
 * a live block of this pool. The second free of a block is refused in every build, for every size, whichever threads make the
 * calls, as long as the memory has not been handed out again. One case is found in checked builds only: two threads that free the
 * same block in the same instant, where both may get WEIR_OK. */
WEIR_API weir_status weir_host_free(weir_host_pool *pool, void *ptr);
/* The same for who knows the size as it was asked for. WEIR_ERR_INVALID, and nothing is freed, also where a request of that
 * size would not have made such a block. */
WEIR_API weir_status weir_host_free_sized(weir_host_pool *pool, void *ptr, uint64_t size);
/* Gives back a block that work queued on `native_stream` (of the runtime's device; NULL its default stream) may still
 * read or write: it is handed out again only when that work is done. Never waits. WEIR_ERR_UNSUPPORTED: the pool has no
 * runtime with streams. WEIR_ERR_INVALID as above, or the runtime's device refuses the stream, which is another device's;
 * then the block is live. WEIR_ERR_NO_MEMORY: not freed; synchronise and use weir_host_free. */
WEIR_API weir_status weir_host_free_after(weir_host_pool *pool, void *ptr, void *native_stream);
/* The stream is about to be destroyed: waits for it and hands back what waits for it. */
WEIR_API weir_status weir_host_stream_retire(weir_host_pool *pool, void *native_stream);

typedef struct weir_host_info {
    size_t struct_size;
    void *block;       /* where the block starts that the address lies in */
    uint64_t size;     /* that it can hold: at least as asked for */
    int32_t node;      /* whose pages it was made for */
    bool is_pinned;    /* all of it */
    bool is_verified;  /* the kernel said of all pages where they are */
    uint64_t misplaced_bytes; /* of the chunks that it lies in, on other nodes */
    weir_host_kind kind; /* the last step of the ladder of those chunks */
} weir_host_info;

#define WEIR_HOST_INFO_INIT WEIR_STRUCT_INIT(weir_host_info)

/* About any address inside a live block; wait-free. WEIR_ERR_INVALID: none of this pool's, or a block that has been freed. */
WEIR_API weir_status weir_host_query(weir_host_pool *pool, const void *ptr, weir_host_info *info);

/* --- upkeep --- */

/* Takes back what the calling thread and idle parts of the pool keep, and returns wholly free chunks until at most
 * `keep_bytes` are held. Other threads give back what they keep at their next request that it does not serve, or when they
 * end. *released, when not NULL: bytes given back. WEIR_ERR_DEVICE: the runtime kept some. */
WEIR_API weir_status weir_host_trim(weir_host_pool *pool, uint64_t keep_bytes, uint64_t *released);

/* held = live + cached + pending + what is free. Exact when no other thread is at work; pending is what the pool has not yet
 * looked at, so it may include what is over. */
typedef struct weir_host_stats {
    size_t struct_size;
    uint64_t held_bytes;      /* of all chunks */
    uint64_t pinned_bytes;
    uint64_t unpinned_bytes;
    uint64_t misplaced_bytes; /* verified to be on another node than they were made for */
    uint64_t unverified_bytes; /* of chunks of which the kernel does not say where all pages are */
    uint64_t live_bytes;      /* as handed out, pads and rounding included */
    uint64_t pad_bytes;       /* of them, for the carve rule: 32 for each live block */
    uint64_t cached_bytes;    /* kept by threads */
    uint64_t pending_bytes;   /* waiting for a stream */
    uint64_t peak_held_bytes; /* of all nodes: the sum of each one's */
    uint64_t allocs, frees, failures;
    uint64_t chunks;
    uint64_t kind_bytes[WEIR_HOST_KIND_COUNT];    /* held, by step of the ladder */
    uint64_t kind_failures[WEIR_HOST_KIND_COUNT]; /* times that a step was tried and gave nothing */
    uint64_t pin_ns, unpin_ns;                    /* wall time in getting and returning chunks */
} weir_host_stats;

#define WEIR_HOST_STATS_INIT WEIR_STRUCT_INIT(weir_host_stats)

/* Of one node, or of all (WEIR_HOST_ANY_NODE). */
WEIR_API weir_status weir_host_get_stats(weir_host_pool *pool, int32_t node, weir_host_stats *stats);

/* Writes, as snprintf does, why the ladder's steps gave no pinned memory the last time one was tried on `node`: one line a
 * step, with what a person can do about it ("RLIMIT_MEMLOCK is 8 MiB: raise it with ulimit -l or run with CAP_IPC_LOCK"). */
WEIR_API size_t weir_host_explain(weir_host_pool *pool, int32_t node, char *text, size_t size);

/* Proves the invariants: of the engines and the pools of pages, and that chunks and statistics account for each other. Other
 * threads may go on working. WEIR_ERR_INTERNAL, and in *why (when not NULL) a sentence that stays valid, if one is broken.
 * WEIR_ERR_NO_MEMORY: none to check with. */
WEIR_API weir_status weir_host_check(weir_host_pool *pool, const char **why);

#ifdef __cplusplus
}
#endif

#endif
