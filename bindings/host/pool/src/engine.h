/* engine.h: the interface of the engines of small blocks.
 *
 * A pool creates one engine for each node. The engine divides slabs, which are page runs of that node, into blocks of
 * less than WEIR__HOST_SMALL_BYTES, and keeps its bookkeeping outside of them: only the user writes into pinned memory.
 *
 * An engine has a small number of block sizes, its bins. The pool rounds a request up to a bin and caches freed blocks
 * by bin in its threads, so engines see batches. A slab holds blocks of one bin, the first at its start; its
 * description (weir__host_slab) names the bin and has a mark for each block. From the description and an address any
 * thread finds the block without calling the engine.
 */
#ifndef WEIR_HOST_ENGINE_H
#define WEIR_HOST_ENGINE_H

#include <stdatomic.h>
#include <weir/host.h>

enum {
    WEIR__HOST_SMALL_BYTES = 64 << 10,
    WEIR__HOST_PAGE = 4096,
    WEIR__HOST_ALIGNMENT = 64,      /* alignment of blocks of pinned memory, and the largest alignment that a small
                                       block can have */
    WEIR__HOST_FINE_ALIGNMENT = 16, /* of blocks of pageable memory */
    WEIR__HOST_BINS = 80,           /* at most */
    WEIR__HOST_SLAB_BLOCKS = 512,   /* most blocks of a slab of pinned memory */
    WEIR__HOST_SLAB_BYTES = 1 << 20,
    WEIR__HOST_MARKS_UNIT = 256 /* marks that lie in lines of their own, see weir__host_mark_of */
};

/* Values of a mark, the state byte of a block. The engine changes a mark between FREE and OUT. While the block is OUT,
 * one thread owns it and changes the mark between OUT and LIVE by a plain store, which changes no other mark. */
enum {
    WEIR__HOST_FREE, /* the engine may hand the block to the pool */
    WEIR__HOST_LIVE, /* in use */
    WEIR__HOST_OUT   /* the pool has the block: in a thread's cache, or waiting for a stream */
};

typedef _Atomic uint8_t weir__host_mark;

/* The head of an engine's description of a slab. The description and the marks (state bytes of the blocks) are kept
 * until the engine ends, because a lookup of a stale address may read them. */
typedef struct weir__host_slab {
    _Atomic uint32_t bin;
    _Atomic uint32_t blocks; /* number of blocks in the slab; at most the number of marks */
    weir__host_mark *marks;  /* a state byte for each block, see weir__host_mark_of; this pointer never changes */
} weir__host_slab;

/* Returns the mark (state byte) of the block with index `place`. The marks of eight neighbours share a cache line, and
 * those of the next eight lie in another, so that threads with neighbouring batches do not write to the same line. */
static inline weir__host_mark *weir__host_mark_of(const weir__host_slab *slab, uint64_t place)
{
    return &slab->marks[place ^ (place & 030) << 3];
}

/* Returns the place of the block that has the mark. For a mark of another slab, the result is not less than the number
 * of this slab's blocks. */
static inline uint64_t weir__host_place_of(const weir__host_slab *slab, const weir__host_mark *mark)
{
    const uint64_t index = (uint64_t)((uintptr_t)mark - (uintptr_t)slab->marks);
    return index ^ (index & 030) << 3;
}

/* A block that the pool has, and its mark (state byte). Neither the pool nor the engine has to look the mark up. */
typedef struct weir__host_kept {
    void *block;
    weir__host_mark *mark;
} weir__host_kept;

/* Functions that the node offers its engine, callable from any thread. */
typedef struct weir__host_slabs {
    void *ctx;
    /* Gets memory for a slab. `size`: a multiple of the page, at most WEIR__HOST_SLAB_BYTES; `align`: a power of two.
     * Lookups of any address in the memory find `slab`. Returns NULL if there is no memory. */
    void *(*slab_get)(void *ctx, uint64_t size, uint64_t align, weir__host_slab *slab);
    void (*slab_put)(void *ctx, void *memory);
    /* Assigns the slab around an address to another bin. No block of the slab may be handed out. */
    void (*slab_changed)(void *ctx, const void *address, uint32_t bin);
    /* Returns the slab around an address and the start of its memory, or NULL if it is not a slab of this node.
     * Wait-free. */
    weir__host_slab *(*slab_of)(void *ctx, const void *address, uint64_t *start);
    /* If true, blocks and slabs should have little unused memory even at the cost of more slabs, and blocks need an
     * alignment of 16 only. */
    bool is_scarce;
} weir__host_slabs;

typedef struct weir__host_engine weir__host_engine;

struct weir_host_engine_ops {
    size_t struct_size;
    const char *name;
    weir_status (*create)(const weir__host_slabs *slabs, weir__host_engine **engine);
    /* Called when all blocks, slabs and threads' data are gone: frees only the engine's own memory. */
    void (*destroy)(weir__host_engine *engine);
    /* Returns the block size of a bin (size class). Sizes grow with the bin and are multiples of 64, or of 16 where
     * memory is scarce. The last bins reach the pool's limit of small blocks. Returns 0 for a bin past them. */
    uint64_t (*bin_bytes)(const weir__host_engine *engine, uint32_t bin);
    /* Create and free the engine's data for one thread; thread_open returns NULL if the engine has no such data or no
     * memory. The thread passes its data as `thread` to the functions below; a call for no particular thread passes
     * NULL. Both pointers may be NULL. thread_close is called by that thread, or after that thread has stopped using
     * the engine. */
    void *(*thread_open)(weir__host_engine *engine);
    void (*thread_close)(weir__host_engine *engine, void *thread);
    /* Allocates up to `count` blocks, which become OUT. Returns how many. */
    size_t (*alloc)(weir__host_engine *engine, void *thread, uint32_t bin, weir__host_kept *blocks, size_t count);
    /* Frees blocks of a bin. Returns false if one of them is not OUT; that block is left unchanged. */
    bool (*release)(weir__host_engine *engine, void *thread, uint32_t bin, const weir__host_kept *blocks, size_t count);
    /* Gives back slabs without blocks, and the memory cached for the thread. */
    void (*trim)(weir__host_engine *engine, void *thread);
    bool (*check)(weir__host_engine *engine, const char **why);
};

#endif
