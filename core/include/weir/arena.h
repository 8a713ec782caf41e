/* weir/arena.h: memory of one request or one step: allocated piece by piece, released together.
 *
 *     weir_arena_create(pool, stream, NULL, &arena);
 *     for each step:
 *         weir_arena_alloc(arena, size, 256, &address);          as often as needed
 *         weir_mark mark;
 *         weir_arena_mark(arena, &mark);
 *         weir_arena_alloc(arena, scratch, 256, &address);
 *         ... queue work on the stream ...
 *         weir_arena_rewind(arena, mark);                        releases the scratch at once, without a wait
 *         weir_arena_reset(arena);                               releases the rest
 *     weir_arena_destroy(arena);
 *
 * An arena belongs to one stream of one pool. Its chunks are blocks of the pool, so the pool does all ordering, limits,
 * statistics and recording. Inside a chunk an alloc moves a pointer.
 *
 * Captured graphs (weir/capture.h). An arena hands out its chunks again without asking the pool, so it is not for work
 * that is captured: a later launch would write over what the arena has given to other work.
 *
 * The rule of stream order. After a reset or rewind the caller must not queue new work that uses the released
 * addresses. Work that the arena's stream queued before may still use them: the arena hands the memory out again only
 * for later work of the same stream, or returns it to the pool, which tracks the work that may still touch it. The
 * caller must name work of any other stream with weir_arena_use before the release, or order it before the release.
 *
 * Thread safety: an arena is used by one thread at a time. Different arenas, even of one pool, are independent, unless
 * the pool was created with WEIR_POOL_SINGLE_THREADED.
 *
 * Lifetime. The pool must outlive the arena's last call. After weir_pool_destroy the arena is empty, and every call but
 * weir_arena_destroy returns WEIR_ERR_INVALID. No call may run at the same time as weir_pool_destroy. After
 * weir_stream_retire of its stream an arena gives no more memory (WEIR_ERR_INVALID); it may be rewound, reset and
 * destroyed.
 */
#ifndef WEIR_ARENA_H
#define WEIR_ARENA_H

#include <weir/base.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_arena weir_arena;

enum {
    WEIR_ARENA_KEEP_NONE = 1u << 0, /* a reset returns every chunk to the pool; keep_chunks is ignored */
};

typedef struct weir_arena_config {
    size_t struct_size;
    uint64_t chunk_bytes; /* bytes requested from the pool at a time; a larger request gets its own block; 0 = 2 MiB */
    uint32_t keep_chunks; /* the most empty chunks that the arena keeps; 0 = 4 */
    uint32_t flags;       /* WEIR_ARENA_... */
} weir_arena_config;

#define WEIR_ARENA_CONFIG_INIT WEIR_STRUCT_INIT(weir_arena_config)

/* A position in an arena. Memory allocated after the mark was made lies above the mark. A mark is a plain value; its
 * members are private. A mark that is all zero is never valid. */
typedef struct weir_mark {
    const weir_arena *arena;
    uint64_t serial;
    uint64_t depth;
} weir_mark;

/* Creates an empty arena for work of `stream`. `config` may be NULL. Takes no memory from the pool yet. Returns
 * WEIR_ERR_INVALID if a handle is NULL, the stream belongs to another pool, a flag is unknown, or chunk_bytes is too
 * large to round; WEIR_ERR_NO_MEMORY if there is no host memory. */
WEIR_API weir_status weir_arena_create(weir_pool *pool, weir_stream *stream, const weir_arena_config *config,
                                       weir_arena **arena);

/* Destroys the arena and returns its memory to the pool in the order of its stream, as weir_arena_reset does. Never
 * waits. NULL is allowed, and so is an arena of a destroyed pool. */
WEIR_API void weir_arena_destroy(weir_arena *arena);

/* Allocates `size` bytes at a multiple of `align` (0 or a power of two; 0 = the strategy's granule), for work that will
 * be queued on the arena's stream. The memory is valid until the arena is reset, destroyed, or rewound to a mark made
 * before the call. Takes constant time, except when it takes a chunk from the pool. Returns WEIR_ERR_INVALID if a
 * pointer is NULL, size is 0 or too large to round, align is not a power of two, the stream is retired, or the pool is
 * destroyed; WEIR_ERR_NO_MEMORY if the pool has neither a chunk nor a block of exactly this size, even after the arena
 * has returned its kept chunks, or if there is no host memory; WEIR_ERR_DEVICE as weir_pool_alloc. A failed call leaves
 * all earlier allocations valid, and the arena can still be used. */
WEIR_API weir_status weir_arena_alloc(weir_arena *arena, uint64_t size, uint64_t align, uint64_t *address);

/* Marks the current position of the arena. A mark costs some host memory until the arena is rewound below the mark or
 * reset; several marks at one position cost as much as one. Returns WEIR_ERR_INVALID if a pointer is NULL or the pool
 * is destroyed, WEIR_ERR_NO_MEMORY if there is no host memory. */
WEIR_API weir_status weir_arena_mark(weir_arena *arena, weir_mark *mark);

/* Releases all memory allocated since the mark. The mark stays valid: the arena may be rewound to it again. Takes
 * constant time, except for chunks that return to the pool. In a chunk that another stream uses (weir_arena_use), the
 * arena does not reuse addresses below the highest one handed out until the next reset. Returns WEIR_ERR_INVALID, and
 * changes nothing, if the arena is NULL, the pool is destroyed, or the mark belongs to another arena, was made before
 * the last reset, or lies above a mark to which the arena was rewound since. */
WEIR_API weir_status weir_arena_rewind(weir_arena *arena, weir_mark mark);

/* Releases all memory of the arena. This is one operation in the order of the stream, for any number of allocations: it
 * makes no wait, no event, and no device call for the kept chunks. The arena keeps its first keep_chunks chunks, so
 * that the same requests get the same addresses in the next step. All other chunks, blocks for single requests, and
 * memory that other streams use return to the pool. Earlier marks become invalid. Returns WEIR_ERR_INVALID if the arena
 * is NULL or the pool is destroyed. */
WEIR_API weir_status weir_arena_reset(weir_arena *arena);

/* States that `stream` also touches the arena's memory, including memory allocated until the next reset, with work
 * queued before or after this call. The arena does not reuse chunks that `stream` may have touched: it returns them to
 * the pool, which reuses them as soon as the order of both streams allows it. Naming the arena's own stream, or one
 * stream twice, is harmless. Returns WEIR_ERR_INVALID if a handle is NULL, the stream belongs to another pool or is
 * retired, or the pool is destroyed; WEIR_ERR_NO_MEMORY if there is no host memory to record the use: the caller must
 * then synchronise `stream` before it releases memory of the arena. */
WEIR_API weir_status weir_arena_use(weir_arena *arena, weir_stream *stream);

/* States that the last work of `stream` on the arena's memory has been queued. A wait that the caller inserts
 * afterwards is enough to make the memory reusable, and the stream does not use memory allocated from now on. Has no
 * effect if weir_arena_use has not named the stream. Returns WEIR_ERR_INVALID as weir_arena_use. */
WEIR_API weir_status weir_arena_use_end(weir_arena *arena, weir_stream *stream);

typedef struct weir_arena_stats {
    size_t struct_size;
    uint64_t used_bytes; /* bytes handed out and not released; those skipped for alignment included */
    uint64_t peak_used_bytes;
    uint64_t held_bytes; /* bytes of the pool's blocks that the arena holds, kept chunks included */
    uint64_t peak_held_bytes;
    uint64_t chunks;      /* chunks held, including the kept ones */
    uint64_t kept_chunks; /* empty chunks that the arena keeps */
    uint64_t own_blocks;  /* blocks for single requests */
    uint64_t allocs;      /* ever */
    uint64_t resets;      /* ever */
} weir_arena_stats;

#define WEIR_ARENA_STATS_INIT WEIR_STRUCT_INIT(weir_arena_stats)

/* Copies the counters into *usage. Returns WEIR_ERR_INVALID if a pointer is NULL or the struct has no size. */
WEIR_API weir_status weir_arena_get_stats(const weir_arena *arena, weir_arena_stats *usage);

#ifdef __cplusplus
}
#endif

#endif
