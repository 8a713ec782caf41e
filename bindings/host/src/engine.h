/* engine.h: the table behind which the engines of small blocks stand.
 *
 * A pool makes one engine for each node. It divides slabs, which are page runs of that node, into blocks of less than
 * WEIR__HOST_SMALL_BYTES, and keeps its bookkeeping outside of them: nothing but the user writes into pinned memory.
 *
 * An engine has a few sizes of blocks, its bins; the pool rounds a request up to one of them and keeps freed blocks by bin
 * in the caches of threads, so that engines see batches. A slab holds blocks of one bin, the first at its start, and a
 * description of it (weir__host_slab) names the bin: from that, an address and the pool's marks (registry.h) any thread finds
 * the block without asking the engine.
 */
#ifndef WEIR_HOST_ENGINE_H
#define WEIR_HOST_ENGINE_H

#include <stdatomic.h>
#include <weir/host.h>

enum {
    WEIR__HOST_SMALL_BYTES = 64 << 10,
    WEIR__HOST_PAGE = 4096,
    WEIR__HOST_ALIGNMENT = 64,
    WEIR__HOST_BINS = 80,          /* at most */
    WEIR__HOST_SLAB_BLOCKS = 512,  /* likewise, of a slab */
    WEIR__HOST_SLAB_BYTES = 1 << 20
};

/* An engine's description of a slab begins with this. It outlives the slab as long as the engine: whoever looks up a stale
 * address may read one. */
typedef struct weir__host_slab {
    _Atomic uint32_t bin;
    _Atomic uint64_t taken[WEIR__HOST_SLAB_BLOCKS / 64]; /* the engine's: a bit for each block that is out of it */
} weir__host_slab;

/* What the node gives its engine, from any thread. */
typedef struct weir__host_slabs {
    void *ctx;
    /* `size`: a multiple of the page, at most WEIR__HOST_SLAB_BYTES; `align`: a power of two. `slab` is what a lookup of any
     * address in the memory finds. NULL: no memory. */
    void *(*slab_get)(void *ctx, uint64_t size, uint64_t align, weir__host_slab *slab);
    void (*slab_put)(void *ctx, void *memory);
    /* The slab that an address lies in gets another bin than it was got with; no block of it is out. */
    void (*slab_changed)(void *ctx, const void *address, uint32_t bin);
    /* The slab that an address lies in and where its memory begins; NULL: none of this node's. Wait-free. */
    weir__host_slab *(*slab_of)(void *ctx, const void *address, uint64_t *start);
    bool is_scarce; /* what slabs hold beside blocks counts for more than how many there are */
} weir__host_slabs;

typedef struct weir__host_engine weir__host_engine;

struct weir_host_engine_ops {
    size_t struct_size;
    const char *name;
    weir_status (*create)(const weir__host_slabs *slabs, weir__host_engine **engine);
    /* All blocks are gone, and so are the slabs and what was opened for threads: only the engine's own memory is to be freed. */
    void (*destroy)(weir__host_engine *engine);
    /* What a block of a bin takes: a multiple of 64, growing; the last one is the first of WEIR__HOST_SMALL_BYTES less 64 or
     * more, and past it there is 0. */
    uint64_t (*bin_bytes)(const weir__host_engine *engine, uint32_t bin);
    /* What the engine keeps for one thread, passed to the next two by it (NULL: by nobody in particular). NULL: nothing, or
     * no memory for it. Both members may be NULL. Close is called by that thread, or when it no longer uses the engine. */
    void *(*thread_open)(weir__host_engine *engine);
    void (*thread_close)(weir__host_engine *engine, void *thread);
    /* Up to `count` blocks; how many it got. */
    size_t (*alloc)(weir__host_engine *engine, void *thread, uint32_t bin, void **blocks, size_t count);
    /* Blocks of this engine, all of one bin; false: one of them is none, or is free already, and was left alone. */
    bool (*release)(weir__host_engine *engine, void *thread, void *const *blocks, size_t count);
    /* Gives back slabs that hold no block, and what is kept for the thread. */
    void (*trim)(weir__host_engine *engine, void *thread);
    bool (*check)(weir__host_engine *engine, const char **why);
};

#endif
