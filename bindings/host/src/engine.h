/* engine.h: the table behind which the engines of small blocks stand.
 *
 * A pool makes one engine for each node. It divides slabs, which are page runs of that node, into blocks of less than
 * WEIR__HOST_SMALL_BYTES, and keeps its bookkeeping outside of them: nothing but the user writes into pinned memory.
 *
 * Sizes are what the pool has made of a request, pad included, a multiple of 64. Several blocks are asked for and given back
 * at a time, because the pool's thread caches do so; an engine that has caches of its own for threads says so, and is asked
 * for one at a time.
 */
#ifndef WEIR_HOST_ENGINE_H
#define WEIR_HOST_ENGINE_H

#include <weir/host.h>

enum { WEIR__HOST_ALIGNMENT = 64, WEIR__HOST_PAGE = 4096, WEIR__HOST_SMALL_BYTES = 64 << 10 };

/* What the node gives its engine, from any thread. */
typedef struct weir__host_slabs {
    void *ctx;
    /* `size`: a multiple of the page; `align`: a power of two. `owner` is what a lookup of any address in the slab finds;
     * `bin`: the thread caches' bin that its blocks belong to. NULL: no memory. */
    void *(*slab_get)(void *ctx, uint64_t size, uint64_t align, void *owner, uint32_t bin);
    void (*slab_put)(void *ctx, void *slab);
    /* The owner of the slab that an address lies in; NULL: none of this node's. Wait-free. */
    void *(*owner_of)(void *ctx, const void *address);
} weir__host_slabs;

typedef struct weir__host_engine weir__host_engine;

struct weir_host_engine_ops {
    size_t struct_size;
    const char *name;
    bool caches_threads;
    weir_status (*create)(const weir__host_slabs *slabs, uint64_t thread_cache_bytes, weir__host_engine **engine);
    /* All blocks are gone, and so are the slabs: only the engine's own memory is to be freed. */
    void (*destroy)(weir__host_engine *engine);
    /* What a block of `size` takes. */
    uint64_t (*block_bytes)(const weir__host_engine *engine, uint64_t size);
    /* Up to `count` blocks; how many it got. */
    size_t (*alloc)(weir__host_engine *engine, uint64_t size, void **blocks, size_t count);
    /* Blocks of this engine; false: one of them is none, or is free already, and was left alone. */
    bool (*release)(weir__host_engine *engine, void *const *blocks, size_t count);
    /* Where the live block begins that an address in a slab of `owner` lies in, and its size; NULL: in none. Wait-free. */
    void *(*block_of)(const weir__host_engine *engine, const void *address, void *owner, uint64_t *size);
    /* Gives back slabs that hold no block, and what the calling thread keeps. */
    void (*trim)(weir__host_engine *engine);
    bool (*check)(weir__host_engine *engine, const char **why);
};

#endif
