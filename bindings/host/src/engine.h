/* engine.h: the table behind which the engines of small blocks stand.
 *
 * A pool makes one engine for each node. It divides slabs, which are page runs of that node, into blocks of less than
 * WEIR__HOST_SMALL_BYTES, and keeps its bookkeeping outside of them: nothing but the user writes into pinned memory.
 *
 * An engine is asked by size: sizes are what the pool has made of a request, pad included, a multiple of 64. What threads
 * keep for themselves lies in front of it (weir's classes) or in it (jemalloc's thread caches): `caches_threads`.
 */
#ifndef WEIR_HOST_ENGINE_H
#define WEIR_HOST_ENGINE_H

#include <weir/host.h>

enum { WEIR__HOST_SMALL_BYTES = 64 << 10, WEIR__HOST_PAGE = 4096 };

/* What the node gives its engine. Any thread; both may take the node's lock, the engine holds none of its own in
 * alloc's or free's way that a call from in here could need. */
typedef struct weir__host_slabs {
    void *ctx;
    /* `size`: a multiple of the page; `align`: a power of two. The engine's `owner` is what a lookup of any address in the
     * slab finds. NULL: no memory. */
    void *(*slab_get)(void *ctx, uint64_t size, uint64_t align, void *owner);
    void (*slab_put)(void *ctx, void *slab, uint64_t size);
} weir__host_slabs;

typedef struct weir__host_engine weir__host_engine;

struct weir_host_engine_ops {
    size_t struct_size;
    const char *name;
    bool caches_threads;
    weir_status (*create)(const weir__host_slabs *slabs, uint64_t thread_cache_bytes, weir__host_engine **engine);
    /* All blocks are gone, and so are the slabs: only the engine's own memory is to be freed. */
    void (*destroy)(weir__host_engine *engine);
    /* What `size` will take. */
    uint64_t (*block_bytes)(const weir__host_engine *engine, uint64_t size);
    void *(*alloc)(weir__host_engine *engine, uint64_t size);
    /* `owner` as given to slab_get for the slab that the block lies in. */
    void (*release)(weir__host_engine *engine, void *block, void *owner);
    /* Where the block begins that an address in a slab belongs to, and its size; NULL: in none. Wait-free. */
    void *(*block_of)(const weir__host_engine *engine, const void *address, void *owner, uint64_t *size);
    /* Gives back slabs that hold no block; `all`: also what the calling thread keeps. */
    void (*trim)(weir__host_engine *engine, bool all);
    bool (*check)(weir__host_engine *engine, const char **why);
};

#endif
