/* weir/arena.h: memory of one request or one step: taken piece by piece, released together.
 *
 *     weir_arena_create(pool, stream, NULL, &arena);
 *     for each step:
 *         weir_arena_alloc(arena, size, 256, &address);          as often as needed
 *         weir_mark mark;
 *         weir_arena_mark(arena, &mark);
 *         weir_arena_alloc(arena, scratch, 256, &address);
 *         ... queue work on the stream ...
 *         weir_arena_rewind(arena, mark);                        the scratch is gone, at once: no need to wait
 *         weir_arena_reset(arena);                               and so is the rest
 *     weir_arena_destroy(arena);
 *
 * An arena belongs to one stream of one pool. Its chunks are blocks of the pool, so the pool does all ordering, limits,
 * statistics and recording; inside a chunk an alloc moves a pointer.
 *
 * The rule of stream order. What a reset or rewind releases is dead: its addresses mean nothing to work that is queued
 * afterwards. Work that the arena's stream has queued before may still use it, because the arena hands the memory out
 * again for later work of the same stream only, or gives it back to the pool, which knows what may still touch it. Work
 * of any other stream must be named by weir_arena_use before the release, or be ordered before it by the caller.
 *
 * Thread safety: an arena is used by one thread at a time. Different arenas, of one pool too, are independent, unless
 * the pool was created with WEIR_POOL_SINGLE_THREADED.
 *
 * What lies below. The pool must outlive the arena's last call: after weir_pool_destroy the arena is empty, every call
 * but weir_arena_destroy answers WEIR_ERR_INVALID, and none may run at the same moment. After weir_stream_retire of its
 * stream an arena gives no more memory (WEIR_ERR_INVALID); it may be rewound, reset and destroyed.
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
    WEIR_ARENA_KEEP_NONE =
        1u << 0, /* a reset gives every chunk back to the pool; keep_chunks is ignored */
};

typedef struct weir_arena_config {
    size_t struct_size;
    uint64_t
        chunk_bytes; /* asked of the pool at a time; larger requests get a block of their own; 0 = 2 MiB */
    uint32_t keep_chunks; /* empty chunks that the arena keeps at most, for itself; 0 = 4 */
    uint32_t flags;       /* WEIR_ARENA_... */
} weir_arena_config;

#define WEIR_ARENA_CONFIG_INIT WEIR_STRUCT_INIT(weir_arena_config)

/* A place in an arena: everything allocated after it was marked lies above. A plain value; its members are the arena's
 * business. One that is all zero is never valid. */
typedef struct weir_mark {
    const weir_arena *arena;
    uint64_t serial;
    uint64_t depth;
} weir_mark;

/* An empty arena for work of `stream`. `config` may be NULL. Takes nothing from the pool yet.
 * WEIR_ERR_INVALID: NULL handle, a stream of another pool, an unknown flag, chunk_bytes too large to round.
 * WEIR_ERR_NO_MEMORY: no host memory. */
WEIR_API weir_status weir_arena_create(weir_pool *pool, weir_stream *stream,
                                       const weir_arena_config *config, weir_arena **arena);

/* Ends the arena and gives its memory back to the pool in the order of its stream, as weir_arena_reset does. Never
 * waits. NULL is allowed, and so is an arena whose pool is gone. */
WEIR_API void weir_arena_destroy(weir_arena *arena);

/* `size` bytes at a multiple of `align` (0 or a power of two; 0 = the strategy's granule), for work that will be
 * queued on the arena's stream, until the arena is reset, destroyed, or rewound to a mark made before. Constant, apart
 * from taking a chunk from the pool.
 * WEIR_ERR_INVALID: NULL pointer, size 0 or too large to round, align no power of two, stream retired, pool gone.
 * WEIR_ERR_NO_MEMORY: the pool has neither a chunk nor a block of just this size, also after the arena has given back
 * what it keeps, or there is no host memory. WEIR_ERR_DEVICE: as weir_pool_alloc. In each case what was allocated
 * before is untouched, and the arena may be used on. */
WEIR_API weir_status weir_arena_alloc(weir_arena *arena, uint64_t size, uint64_t align,
                                      uint64_t *address);

/* Marks the place up to which the arena is filled. A mark costs the arena some host memory until it is rewound past or
 * reset, but several at one place cost as much as one.
 * WEIR_ERR_INVALID: NULL pointer, pool gone. WEIR_ERR_NO_MEMORY: no host memory. */
WEIR_API weir_status weir_arena_mark(weir_arena *arena, weir_mark *mark);

/* Releases everything allocated since the mark, which stays valid: it may be rewound to again. Constant, apart from
 * chunks that go back to the pool. In a chunk that another stream uses (weir_arena_use) nothing below the highest
 * address handed out is handed out again before the next reset.
 * WEIR_ERR_INVALID, and nothing has changed: NULL arena, pool gone, a mark of another arena, one made before the last
 * reset, or one that lies above a mark which has been rewound to since. */
WEIR_API weir_status weir_arena_rewind(weir_arena *arena, weir_mark mark);

/* Releases everything. One act in the order of the stream, whatever the number of allocations: no wait, no event, and
 * no device call for the chunks that are kept. The first keep_chunks chunks stay with the arena, so that the same
 * requests get the same addresses in the next step; chunks beyond, blocks of their own and what other streams use go
 * back to the pool. Marks made before are invalid. WEIR_ERR_INVALID: NULL arena, pool gone. */
WEIR_API weir_status weir_arena_reset(weir_arena *arena);

/* `stream` also touches what is in the arena or will be allocated until the next reset, with work queued before or
 * after this call. Chunks it may have touched are not handed out again by the arena: the pool gets them back, and
 * reuses them as soon as the order of both streams allows it. Naming the arena's stream, or one stream twice, is
 * harmless.
 * WEIR_ERR_INVALID: NULL handle, a stream of another pool, stream retired, pool gone. WEIR_ERR_NO_MEMORY: no host
 * memory to note it; the caller must then synchronise `stream` before it releases what is in the arena. */
WEIR_API weir_status weir_arena_use(weir_arena *arena, weir_stream *stream);

/* The last work of `stream` on what is in the arena has been queued: a wait that the caller inserts afterwards is
 * enough to make the memory reusable, and what is allocated from now on is not the stream's. Nothing to do if the
 * stream has no use of the arena. WEIR_ERR_INVALID as above. */
WEIR_API weir_status weir_arena_use_end(weir_arena *arena, weir_stream *stream);

typedef struct weir_arena_usage {
    size_t struct_size;
    uint64_t used_bytes; /* handed out and not released, with what alignment skipped */
    uint64_t peak_used_bytes;
    uint64_t held_bytes; /* of the pool's blocks that the arena holds, kept chunks included */
    uint64_t peak_held_bytes;
    uint64_t chunks;      /* held, kept ones included */
    uint64_t kept_chunks; /* empty ones */
    uint64_t own_blocks;  /* for single requests */
    uint64_t allocs;      /* ever */
    uint64_t resets;      /* ever */
} weir_arena_usage;

#define WEIR_ARENA_USAGE_INIT WEIR_STRUCT_INIT(weir_arena_usage)

/* Copies the counters. WEIR_ERR_INVALID: NULL pointer, or a struct without a size. */
WEIR_API weir_status weir_arena_stats(const weir_arena *arena, weir_arena_usage *usage);

#ifdef __cplusplus
}
#endif

#endif
