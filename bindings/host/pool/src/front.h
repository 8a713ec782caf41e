/* front.h: allocs and frees that the calling thread's cache can serve, inline in the calls of the pool and of a heap.
 *
 * They take no lock and write only the thread's own memory and the marks (state bytes) of its own blocks.
 */
#ifndef WEIR_HOST_FRONT_H
#define WEIR_HOST_FRONT_H

#include "host_internal.h"

#define OUT_OF_LINE __attribute__((noinline))

enum { UNIT = 16 }; /* size of the table of bins */

/* --- sizes --- */

/* Returns the bytes that a request of a valid size needs, before rounding to a class or to pages. */
static inline uint64_t padded(const weir_host_pool *pool, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    const uint64_t carved = pool->pad != 0 ? ((size + 31) & ~UINT64_C(31)) + pool->pad : size;
    return (carved + pool->align - 1) & ~(pool->align - 1);
}

static inline uint32_t bin_for(const weir_host_pool *pool, uint64_t size)
{
    WEIR_ASSERT(size != 0 && size <= pool->small_most);
    return pool->bin_of[(size - 1) / UNIT];
}

static inline uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + WEIR__HOST_PAGE - 1) & ~(uint64_t)(WEIR__HOST_PAGE - 1);
}

/* --- counting: each thread in its own cache --- */

static inline void add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

static inline uint32_t count_of(const _Atomic uint32_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline int32_t level_of(const _Atomic int32_t *level)
{
    return atomic_load_explicit(level, memory_order_relaxed);
}

/* --- the stack of blocks in a bin or slot: [floor, count) ---
 *
 * The owner pops by lowering `count` and then looking at `floor`. Another thread takes blocks by raising `floor`,
 * passing a barrier in all running threads of the process, and then looking at `count` (thread_cache.c). So at least
 * one of the two sees the other, and the owner needs no barrier of its own. */

/* Takes the uppermost block, whose index is *top. Returns false if there is none or another thread takes the blocks. */
static inline bool pop(_Atomic int32_t *count, const _Atomic int32_t *floor, int32_t *top)
{
    *top = level_of(count) - 1;
    atomic_store_explicit(count, *top, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order; for the processor see above */
    if (WEIR__HOST_LIKELY(*top >= level_of(floor))) {
        return true;
    }
    atomic_store_explicit(count, *top + 1, memory_order_relaxed);
    return false;
}

/* Adds the block that the owner has stored at the index `top`. */
static inline void push(_Atomic int32_t *count, int32_t top)
{
    atomic_store_explicit(count, top + 1, memory_order_release);
}

/* --- alloc --- */

/* Marks a small block as the caller's. The calling thread owns the block, so an ordinary build needs no atomic
 * exchange. */
static inline void *hand_out(weir__host_kept kept)
{
    WEIR_ASSERT(kept.block != NULL && kept.mark != NULL);
    if (WEIR_CHECKS < 1) {
        atomic_store_explicit(kept.mark, WEIR__HOST_LIVE, memory_order_relaxed);
    } else if (atomic_exchange(kept.mark, WEIR__HOST_LIVE) != WEIR__HOST_OUT) {
        weir__rule_broken("a block of the host pool is handed out twice");
    }
    if (kept.block == NULL) {
        __builtin_unreachable();
    }
    return kept.block;
}

static inline weir__host_large_slot *slot_for(weir__host_cache *cache, uint64_t size)
{
    return &cache->large[weir__host_slot_of(size)];
}

/* A block and its bytes. */
typedef struct weir__host_taken {
    void *block;
    uint64_t bytes;
} weir__host_taken;

/* Returns a bin of the thread's cache. The empty statement keeps the compiler from computing the address anew for each
 * member of the bin. */
static inline weir__host_bin *bin_at(weir__host_cache *cache, uint32_t number)
{
    weir__host_bin *bin = &cache->small[number];
    __asm__("" : "+r"(bin));
    return bin;
}

/* Takes a block from a bin of the thread's cache. Returns NULL if the bin is empty. */
static inline weir__host_taken take_kept_small(weir__host_cache *cache, uint32_t number)
{
    WEIR_ASSERT(number < WEIR__HOST_BINS);
    weir__host_bin *bin = bin_at(cache, number);
    int32_t top = 0;
    if (!WEIR__HOST_LIKELY(pop(&bin->count, &bin->floor, &top))) {
        return (weir__host_taken){NULL, 0};
    }
    WEIR_ASSERT(top >= 0 && top < WEIR__HOST_BIN_DEPTH);
    add(&bin->allocs, 1);
    return (weir__host_taken){hand_out(bin->blocks[top]), bin->bytes};
}

static inline void *take_kept_large(weir__host_cache *cache, uint64_t size)
{
    WEIR_ASSERT(size % WEIR__HOST_PAGE == 0);
    weir__host_large_slot *slot = slot_for(cache, size);
    int32_t top = 0;
    if (!WEIR__HOST_LIKELY(atomic_load_explicit(&slot->size, memory_order_relaxed) == size) ||
        !WEIR__HOST_LIKELY(pop(&slot->count, &slot->floor, &top))) {
        return NULL;
    }
    weir__host_run *run = slot->runs[top];
    WEIR_ASSERT(run->state == WEIR__HOST_RUN_CACHED && run->size == size);
    add(&slot->allocs, 1);
    atomic_store_explicit(&run->state, WEIR__HOST_RUN_LIVE, memory_order_relaxed);
    return (void *)(uintptr_t)atomic_load_explicit(&run->start, memory_order_relaxed);
}

/* Takes a small or large block from the thread's cache. Returns NULL if the cache has none. */
static inline weir__host_taken take_kept(const weir_host_pool *pool, weir__host_cache *cache, uint64_t size)
{
    if (WEIR__HOST_LIKELY(size <= pool->small_most)) {
        return take_kept_small(cache, bin_for(pool, size));
    }
    const uint64_t bytes = whole_pages(padded(pool, size));
    return (weir__host_taken){take_kept_large(cache, bytes), bytes};
}

/* True if the thread's first cache is the cache for the requested node. */
static inline bool is_meant(weir__host_cache *cache, const weir_host_pool *pool, int32_t number)
{
    if (atomic_load_explicit(&cache->pool, memory_order_relaxed) != pool) {
        return false;
    }
    if (WEIR__HOST_LIKELY(number < 0)) {
        return number >= WEIR_HOST_ANY_NODE && cache->home_left != 0 && cache->home_left-- != 0;
    }
    return number == cache->number;
}

/* --- free --- */

/* Makes the registry leaf of `address` the cache's last leaf. Returns false if the pool has no chunk there. */
OUT_OF_LINE bool weir__host_find_leaf(weir__host_cache *cache, const weir_host_pool *pool, uint64_t address);

static inline bool keep_small(weir__host_bin *bin, void *block, weir__host_mark *mark)
{
    WEIR_ASSERT(block != NULL && mark != NULL);
    const int32_t top = level_of(&bin->count);
    if (!WEIR__HOST_LIKELY(top < level_of(&bin->most))) {
        return false;
    }
    WEIR_ASSERT(top >= 0 && top < WEIR__HOST_BIN_DEPTH);
    weir__host_kept *kept = &bin->blocks[top];
    kept->block = block;
    kept->mark = mark;
    atomic_store_explicit(mark, WEIR__HOST_OUT, memory_order_relaxed); /* before another thread may take the block */
    push(&bin->count, top);
    return true;
}

static inline bool keep_large(weir__host_large_slot *slot, weir__host_run *run, uint64_t size)
{
    WEIR_ASSERT(run->size == size);
    const int32_t top = level_of(&slot->count);
    const bool is_size = atomic_load_explicit(&slot->size, memory_order_relaxed) == size;
    if (!WEIR__HOST_LIKELY(is_size && top < level_of(&slot->most))) {
        return false;
    }
    atomic_store_explicit(&run->state, WEIR__HOST_RUN_CACHED, memory_order_relaxed);
    WEIR_ASSERT(top >= 0 && top < WEIR__HOST_LARGE_DEPTH);
    slot->runs[top] = run;
    add(&slot->frees, 1);
    push(&slot->count, top);
    return true;
}

/* Puts a large block into the cache slot for its size, if `address` is the start of the run. Returns the size of the
 * run, or 0 if the run was not cached. */
OUT_OF_LINE uint64_t weir__host_keep_large(weir__host_cache *cache, weir__host_run *run, uint64_t address);

/* Puts a small block into its bin if there is room, and if the block belongs to the cache's node and lies in the
 * registry leaf of the thread's last free. Returns the block's size, or 0. The critical path loads only the page's
 * registry entry, which names the bin; the checks run in parallel. */
static inline uint64_t keep_small_at_hand(weir__host_cache *cache, const weir_host_pool *pool, void *ptr)
{
    const uint64_t address = (uint64_t)(uintptr_t)ptr;
    if (!WEIR__HOST_LIKELY(address >> WEIR__HOST_LEAF_SHIFT == cache->leaf_key)) {
        return 0;
    }
    const uintptr_t page = weir__host_page_in(cache->leaf, address);
    const weir__host_run *run = weir__host_run_of(page);
    const uint32_t number = weir__host_tag_of(page) - 1; /* large if the page has no run */
    if (!WEIR__HOST_LIKELY(number < WEIR__HOST_LARGE_TAG - 1) ||
        atomic_load_explicit(&run->node, memory_order_relaxed) !=
            atomic_load_explicit(&cache->node, memory_order_relaxed)) {
        return 0;
    }
    weir__host_bin *bin = bin_at(cache, number);
    weir__host_mark *mark = weir__host_mark_at(pool, run, address, number);
    if (!WEIR__HOST_LIKELY(mark != NULL) ||
        !WEIR__HOST_LIKELY(atomic_load_explicit(mark, memory_order_relaxed) == WEIR__HOST_LIVE) ||
        !WEIR__HOST_LIKELY(keep_small(bin, ptr, mark))) {
        return 0;
    }
    if (bin->bytes == 0) { /* it is set before the bin may hold a block */
        __builtin_unreachable();
    }
    return bin->bytes;
}

/* Puts a small or large block into the thread's first cache, if the block belongs to the cache's node and there is
 * room. Returns the block's size, or 0. */
static inline uint64_t keep_in_front(const weir_host_pool *pool, void *ptr)
{
    const uint64_t address = (uint64_t)(uintptr_t)ptr;
    weir__host_cache *cache = weir__host_mine;
    if (atomic_load_explicit(&cache->pool, memory_order_relaxed) != pool) {
        return 0;
    }
    const bool is_last = address >> WEIR__HOST_LEAF_SHIFT == cache->leaf_key;
    if (!WEIR__HOST_LIKELY(is_last) && !weir__host_find_leaf(cache, pool, address)) {
        return 0;
    }
    const uintptr_t page = weir__host_page_in(cache->leaf, address);
    return weir__host_tag_of(page) < WEIR__HOST_LARGE_TAG
               ? keep_small_at_hand(cache, pool, ptr)
               : weir__host_keep_large(cache, weir__host_run_of(page), address);
}

#endif
