/* thread_cache.c: freed blocks that a thread keeps, one cache for each node.
 *
 * Idea: a cache has a bin for each of the engine's sizes and a few slots for page runs of one exact size each, last in
 * first out. A hit touches only the thread's own memory. A cache is bounded in bytes. Bytes are set aside for a bin
 * before it may hold more blocks, at most half of the bound for all bins together, so a hit counts no bytes. Slots
 * share the rest in the same way and displace each other. A full bin that gets no more bytes gives half of its blocks
 * back. The end of a thread gives all blocks back; the end of a pool leaves its caches, empty, to their threads.
 *
 * A block in a cache keeps its slab or run, and so its chunk, from the system: a block of 48 bytes may keep 64 KiB. How
 * much a cache keeps is known to no one thread, so trim and decay empty the caches of all threads, idle ones too. The
 * cache of another thread is emptied by a protocol in which the owner's hits take no lock and pass no barrier: bins and
 * slots are stacks whose owner works at the top, and the other thread takes from the bottom after a barrier in all
 * running threads (front.h; membarrier, Linux 4.14). Where the system has none, threads empty their caches at their
 * next misses.
 *
 * A cache belongs to its thread. Slow paths of the thread and other threads take the cache's lock. Its pool pointer and
 * its position in the pool's list change under one lock for the process. That lock also keeps a thread from ending
 * while a pool ends or another thread works on its cache. fork takes it, so that the child finds it unlocked and the
 * lists consistent.
 */
#include "front.h"
#include "tuning.h"

#include "shared/thread_barrier.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t end_key;
static atomic_bool end_key_known;
static pthread_once_t once = PTHREAD_ONCE_INIT;

weir__host_cache weir__host_no_cache = {.number = INT32_MIN};
_Thread_local weir__host_cache *weir__host_mine __attribute__((tls_model("initial-exec"))) = &weir__host_no_cache;

static weir__host_node *node_of(const weir__host_cache *cache)
{
    return atomic_load_explicit(&cache->node, memory_order_relaxed);
}

static uint64_t size_of(const weir__host_large_slot *slot)
{
    return atomic_load_explicit(&slot->size, memory_order_relaxed);
}

/* Gives blocks of a cache back to the engine. `engine_thread`: the engine's data of the calling thread, or NULL. */
static void give_blocks(const weir__host_cache *cache, uint32_t bin, const weir__host_kept *blocks, size_t count,
                        void *engine_thread)
{
    const weir__host_node *node = node_of(cache);
    const bool all = node->pool->config.engine->release(node->engine, engine_thread, bin, blocks, count);
    WEIR_ASSERT(all); /* the blocks are valid: the pool checked each of them when it was freed */
    (void)all;
}

static void give_runs(weir__host_run *const *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        WEIR_ASSERT(runs[i]->state == WEIR__HOST_RUN_CACHED);
        const weir_status status = weir__host_node_give(runs[i], NULL);
        (void)status;
    }
}

/* --- bins and slots (the functions below require the cache's lock; only its thread may call them) --- */

/* Moves the blocks above those that another thread has taken to the beginning of the bin. */
static void settle_bin(weir__host_cache *cache, uint32_t number)
{
    WEIR_ASSERT_HELD(&cache->lock);
    weir__host_bin *bin = &cache->small[number];
    const int32_t floor = level_of(&bin->floor);
    const int32_t count = level_of(&bin->count) - floor;
    const int32_t most = level_of(&bin->most);
    WEIR_ASSERT(floor >= 0 && count >= 0 && count + floor <= WEIR__HOST_BIN_DEPTH);
    if (floor != 0) {
        memmove(bin->blocks, bin->blocks + floor, (size_t)count * sizeof(bin->blocks[0]));
        atomic_store_explicit(&bin->count, count, memory_order_relaxed);
        atomic_store_explicit(&bin->floor, 0, memory_order_relaxed);
        add(&bin->net, 0 - (uint64_t)floor);
    }
    if (count > most) { /* blocks that the thread freed while another thread emptied the bin */
        cache->bin_most_bytes += (uint64_t)(count - most) * bin->bytes;
        atomic_store_explicit(&bin->most, count, memory_order_relaxed);
    }
}

/* The same for a slot. */
static void settle_slot(weir__host_cache *cache, weir__host_large_slot *slot)
{
    WEIR_ASSERT_HELD(&cache->lock);
    const int32_t floor = level_of(&slot->floor);
    const int32_t count = level_of(&slot->count) - floor;
    const int32_t most = level_of(&slot->most);
    WEIR_ASSERT(floor >= 0 && count >= 0 && count + floor <= WEIR__HOST_LARGE_DEPTH);
    if (floor != 0) {
        memmove(slot->runs, slot->runs + floor, (size_t)count * sizeof(slot->runs[0]));
        atomic_store_explicit(&slot->count, count, memory_order_relaxed);
        atomic_store_explicit(&slot->floor, 0, memory_order_relaxed);
    }
    if (count > most) {
        cache->large_most_bytes += (uint64_t)(count - most) * size_of(slot);
        atomic_store_explicit(&slot->most, count, memory_order_relaxed);
    }
}

/* Gives the older half of a bin back. The first blocks of the array are the oldest. */
static void halve(weir__host_cache *cache, uint32_t number)
{
    weir__host_bin *bin = &cache->small[number];
    WEIR_ASSERT(level_of(&bin->floor) == 0);
    const int32_t keep = level_of(&bin->count) / 2;
    const size_t count = (size_t)(level_of(&bin->count) - keep);
    if (count == 0) {
        return;
    }
    give_blocks(cache, number, bin->blocks, count, cache->engine_thread);
    memmove(bin->blocks, bin->blocks + count, (size_t)keep * sizeof(bin->blocks[0]));
    atomic_store_explicit(&bin->count, keep, memory_order_relaxed);
    add(&bin->net, 0 - (uint64_t)count);
}

/* --- bounds --- */

/* Returns the bytes that a cache may keep now. A cache of pageable memory may keep a share of the held bytes only,
 * because the held bytes must stay low. */
static uint64_t most_of(const weir__host_cache *cache)
{
    WEIR_ASSERT(node_of(cache) != NULL);
    const weir_host_pool *pool = node_of(cache)->pool;
    if (!weir__host_is_pageable(&pool->config)) {
        return cache->most_bytes;
    }
    const uint64_t share = atomic_load_explicit(&pool->ledger->held_bytes, memory_order_relaxed) / PAGEABLE_SHARE;
    const uint64_t most = share > PAGEABLE_LEAST ? share : PAGEABLE_LEAST;
    return most < cache->most_bytes ? most : cache->most_bytes;
}

static int32_t depth_of(uint64_t bytes)
{
    WEIR_ASSERT(bytes != 0);
    const uint64_t depth = BIN_BYTES / bytes;
    return depth < BIN_LEAST ? BIN_LEAST : depth > WEIR__HOST_BIN_DEPTH ? WEIR__HOST_BIN_DEPTH : (int32_t)depth;
}

static void move(_Atomic uint64_t *from, _Atomic uint64_t *to)
{
    const uint64_t sum =
        atomic_load_explicit(to, memory_order_relaxed) + atomic_load_explicit(from, memory_order_relaxed);
    atomic_store_explicit(to, sum, memory_order_relaxed);
    atomic_store_explicit(from, 0, memory_order_relaxed);
}

/* Gives back the page runs in a cache slot and adds its counters to the cache's: another size may use it then. */
static void vacate(weir__host_cache *cache, weir__host_large_slot *slot)
{
    settle_slot(cache, slot);
    const uint64_t size = size_of(slot);
    const int32_t count = level_of(&slot->count);
    give_runs(slot->runs, (size_t)count);
    const uint64_t claimed = (uint64_t)level_of(&slot->most) * size;
    WEIR_ASSERT(cache->large_most_bytes >= claimed);
    cache->large_most_bytes -= claimed;
    atomic_store_explicit(&slot->count, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->most, 0, memory_order_relaxed);
    add(&cache->large_live_bytes, (atomic_load_explicit(&slot->allocs, memory_order_relaxed) -
                                   atomic_load_explicit(&slot->frees, memory_order_relaxed)) *
                                      size);
    move(&slot->allocs, &cache->large_allocs);
    move(&slot->frees, &cache->large_frees);
    atomic_store_explicit(&slot->size, 0, memory_order_relaxed);
}

static void give_way(weir__host_cache *cache)
{
    for (uint32_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        weir__host_large_slot *slot = &cache->large[cache->next_slot++ % WEIR__HOST_LARGE_SLOTS];
        if (level_of(&slot->most) > 0) {
            vacate(cache, slot);
            return;
        }
    }
}

/* Raises the capacity of a bin. Returns false if the bound of the cache allows no more blocks. */
static bool raise_bin(weir__host_cache *cache, uint32_t number)
{
    WEIR_ASSERT(number < node_of(cache)->pool->bin_count);
    weir__host_bin *bin = &cache->small[number];
    const uint64_t bytes = node_of(cache)->pool->bins[number].bytes;
    const int32_t depth = depth_of(bytes);
    const int32_t before = level_of(&bin->most);
    const uint64_t most = most_of(cache);
    const uint64_t left = most / 2 > cache->bin_most_bytes ? (most / 2 - cache->bin_most_bytes) / bytes : 0;
    WEIR_ASSERT(before <= depth);
    int32_t more = depth - before < depth / 4 ? depth - before : depth / 4;
    more = (uint64_t)more < left ? more : (int32_t)left;
    if (more == 0) {
        return false;
    }
    const uint64_t claimed = cache->bin_most_bytes + (uint64_t)more * bytes;
    while (cache->large_most_bytes > 0 && claimed + cache->large_most_bytes > most) {
        give_way(cache);
    }
    bin->bytes = (uint32_t)bytes;
    cache->bin_most_bytes = claimed;
    atomic_store_explicit(&bin->most, before + more, memory_order_relaxed);
    return true;
}

size_t weir__host_cache_widen(weir__host_cache *cache, uint32_t number)
{
    const weir__host_bin *bin = &cache->small[number];
    (void)pthread_mutex_lock(&cache->lock);
    settle_bin(cache, number);
    (void)raise_bin(cache, number);
    const size_t half = (size_t)level_of(&bin->most) / 2;
    const bool is_empty = level_of(&bin->count) == 0; /* no, if another thread could not take the blocks after all */
    (void)pthread_mutex_unlock(&cache->lock);
    return !is_empty ? 1 : half < BATCH ? half + 1 : BATCH;
}

void weir__host_cache_fill(weir__host_cache *cache, uint32_t number, const weir__host_kept *blocks, size_t count)
{
    weir__host_bin *bin = &cache->small[number];
    if (count == 0) {
        return;
    }
    (void)pthread_mutex_lock(&cache->lock);
    WEIR_ASSERT(level_of(&bin->count) == 0 && level_of(&bin->floor) == 0 && count <= WEIR__HOST_BIN_DEPTH);
    memcpy(bin->blocks, blocks, count * sizeof(bin->blocks[0]));
    add(&bin->net, count);
    atomic_store_explicit(&bin->count, (int32_t)count, memory_order_relaxed);
    settle_bin(cache, number);
    (void)pthread_mutex_unlock(&cache->lock);
}

void weir__host_cache_make_room(weir__host_cache *cache, uint32_t number)
{
    const weir__host_bin *bin = &cache->small[number];
    (void)pthread_mutex_lock(&cache->lock);
    settle_bin(cache, number);
    if (level_of(&bin->count) == level_of(&bin->most) && !raise_bin(cache, number)) {
        halve(cache, number);
    }
    (void)pthread_mutex_unlock(&cache->lock);
}

/* See weir__host_cache_widen_slot. */
static bool raise_slot(weir__host_cache *cache, weir__host_large_slot *slot, uint64_t size)
{
    if (size_of(slot) != size) {
        vacate(cache, slot);
        atomic_store_explicit(&slot->size, size, memory_order_relaxed);
        return false; /* the size is cached from its second free on, because a size that is freed once may not be
                         requested again */
    }
    settle_slot(cache, slot);
    if (level_of(&slot->count) < level_of(&slot->most)) {
        return true;
    }
    if (level_of(&slot->most) == WEIR__HOST_LARGE_DEPTH) {
        return false;
    }
    /* A thread may keep four blocks of a size even if they exceed the bound of its cache, unless the memory is
     * pageable. */
    const uint64_t bound = most_of(cache);
    const uint64_t most = bound > 4 * size || weir__host_is_pageable(&node_of(cache)->pool->config) ? bound : 4 * size;
    if (cache->large_most_bytes > 0 && cache->bin_most_bytes + cache->large_most_bytes + size > most) {
        give_way(cache); /* empties one slot per call only, because the slot of a size in use refills soon */
    }
    if (cache->bin_most_bytes + cache->large_most_bytes + size > most || size_of(slot) != size) {
        return false;
    }
    WEIR_ASSERT(level_of(&slot->most) < WEIR__HOST_LARGE_DEPTH);
    atomic_store_explicit(&slot->most, level_of(&slot->most) + 1, memory_order_relaxed);
    cache->large_most_bytes += size;
    return true;
}

bool weir__host_cache_widen_slot(weir__host_cache *cache, weir__host_large_slot *slot, uint64_t size)
{
    WEIR_ASSERT(slot == &cache->large[weir__host_slot_of(size)]);
    (void)pthread_mutex_lock(&cache->lock);
    const bool is_raised = raise_slot(cache, slot, size);
    (void)pthread_mutex_unlock(&cache->lock);
    return is_raised;
}

/* --- emptying a cache, also that of another thread, which may use it meanwhile --- */

/* A bit in the floor of a bin or slot: its thread finds no blocks there, and waits for the cache's lock in its slow
 * path. */
enum { CLOSED = 1 << 30 };

static pthread_once_t barrier_once = PTHREAD_ONCE_INIT;
static bool has_barrier;

static void find_barrier(void)
{
    has_barrier = thread_barrier_register();
}

/* Keeps the thread of a bin or slot from taking blocks. Returns true if there are blocks. */
static bool close_stack(const _Atomic int32_t *count, _Atomic int32_t *floor)
{
    const int32_t bottom = level_of(floor);
    WEIR_ASSERT((bottom & CLOSED) == 0);
    atomic_store_explicit(floor, bottom | CLOSED, memory_order_relaxed);
    return level_of(count) > bottom;
}

static bool close_all(weir__host_cache *cache)
{
    WEIR_ASSERT_HELD(&cache->lock);
    bool has_blocks = false;
    for (uint32_t i = 0; i < node_of(cache)->pool->bin_count; i++) {
        has_blocks = close_stack(&cache->small[i].count, &cache->small[i].floor) || has_blocks;
    }
    for (size_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        has_blocks = close_stack(&cache->large[i].count, &cache->large[i].floor) || has_blocks;
    }
    return has_blocks;
}

static void open_stack(_Atomic int32_t *floor)
{
    atomic_store_explicit(floor, level_of(floor) & ~CLOSED, memory_order_relaxed);
}

/* Opens a closed cache with its blocks in it. */
static void open_all(weir__host_cache *cache)
{
    WEIR_ASSERT_HELD(&cache->lock);
    for (uint32_t i = 0; i < node_of(cache)->pool->bin_count; i++) {
        open_stack(&cache->small[i].floor);
    }
    for (size_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        open_stack(&cache->large[i].floor);
    }
}

/* Returns the index behind the last block of a bin or slot. A block that the thread adds meanwhile may be left out. */
static int32_t top_of(const _Atomic int32_t *count, int32_t bottom)
{
    const int32_t top =
        atomic_load_explicit(count, memory_order_acquire); /* one less while the thread finds it closed */
    return top > bottom ? top : bottom;
}

/* Gives back the blocks of a closed cache, or of the calling thread's own, and opens it. The bytes that were set aside
 * for the blocks are free again. */
static void take_all(weir__host_cache *cache, void *engine_thread)
{
    WEIR_ASSERT_HELD(&cache->lock);
    for (uint32_t i = 0; i < node_of(cache)->pool->bin_count; i++) {
        weir__host_bin *bin = &cache->small[i];
        const int32_t bottom = level_of(&bin->floor) & ~CLOSED;
        const int32_t top = top_of(&bin->count, bottom);
        if (top > bottom) {
            give_blocks(cache, i, bin->blocks + bottom, (size_t)(top - bottom), engine_thread);
        }
        atomic_store_explicit(&bin->most, 0, memory_order_relaxed);
        atomic_store_explicit(&bin->floor, top, memory_order_relaxed);
    }
    for (size_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        weir__host_large_slot *slot = &cache->large[i];
        const int32_t bottom = level_of(&slot->floor) & ~CLOSED;
        const int32_t top = top_of(&slot->count, bottom);
        give_runs(slot->runs + bottom, (size_t)(top - bottom));
        atomic_store_explicit(&slot->most, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->floor, top, memory_order_relaxed);
    }
    cache->bin_most_bytes = 0;
    cache->large_most_bytes = 0;
}

/* Empties a cache of the calling thread, or of a thread that has ended. */
static void empty_own(weir__host_cache *cache)
{
    (void)pthread_mutex_lock(&cache->lock);
    take_all(cache, cache->engine_thread);
    (void)pthread_mutex_unlock(&cache->lock);
}

/* Empties the cache of another thread. Returns false if the cache has blocks and cannot be emptied. */
static bool empty_other(weir__host_cache *cache)
{
    WEIR_ASSERT_HELD(&lists);
    (void)pthread_mutex_lock(&cache->lock);
    const bool has_blocks = close_all(cache);
    const bool is_passed = has_blocks && has_barrier && thread_barrier_pass();
    if (is_passed) {
        take_all(cache, NULL);
    } else {
        open_all(cache);
    }
    (void)pthread_mutex_unlock(&cache->lock);
    return is_passed || !has_blocks;
}

void weir__host_cache_flush_all(weir_host_pool *pool)
{
    bool all = true;
    (void)pthread_once(&barrier_once, find_barrier);
    for (weir__host_cache *cache = weir__host_mine; cache != &weir__host_no_cache; cache = cache->next_of_thread) {
        if (atomic_load_explicit(&cache->pool, memory_order_relaxed) == pool) {
            empty_own(cache);
        }
    }
    (void)pthread_mutex_lock(&lists);
    for (weir__host_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        all = empty_other(cache) && all;
    }
    (void)pthread_mutex_unlock(&lists);
    if (!all) {
        (void)atomic_fetch_add(&pool->flushes, 1);
    }
}

void weir__host_cache_obey(weir_host_pool *pool)
{
    const uint64_t flushes = atomic_load_explicit(&pool->flushes, memory_order_relaxed);
    for (weir__host_cache *cache = weir__host_mine; cache != &weir__host_no_cache; cache = cache->next_of_thread) {
        if (atomic_load_explicit(&cache->pool, memory_order_relaxed) == pool && cache->flushes_seen != flushes) {
            empty_own(cache);
            cache->flushes_seen = flushes;
        }
    }
}

/* --- life --- */

static uint64_t kept_in(const _Atomic int32_t *count, const _Atomic int32_t *floor)
{
    const int32_t kept = level_of(count) - level_of(floor);
    return kept > 0 ? (uint64_t)kept : 0;
}

/* Adds the counters of a cache. */
static void add_counts(weir__host_cache *cache, const weir_host_pool *pool, weir_host_stats *stats)
{
    (void)pthread_mutex_lock(&cache->lock);
    for (uint32_t i = 0; i < pool->bin_count; i++) {
        const weir__host_bin *bin = &cache->small[i];
        const uint64_t allocs = atomic_load_explicit(&bin->allocs, memory_order_relaxed);
        const uint64_t live = atomic_load_explicit(&bin->net, memory_order_relaxed) - (uint64_t)level_of(&bin->count);
        stats->allocs += allocs;
        stats->frees += allocs - live;
        stats->cached_bytes += kept_in(&bin->count, &bin->floor) * pool->bins[i].bytes;
        stats->live_bytes += live * pool->bins[i].bytes;
    }
    for (size_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        const weir__host_large_slot *slot = &cache->large[i];
        const uint64_t allocs = atomic_load_explicit(&slot->allocs, memory_order_relaxed);
        const uint64_t frees = atomic_load_explicit(&slot->frees, memory_order_relaxed);
        stats->allocs += allocs;
        stats->frees += frees;
        stats->cached_bytes += kept_in(&slot->count, &slot->floor) * size_of(slot);
        stats->live_bytes += (allocs - frees) * size_of(slot);
    }
    stats->allocs += atomic_load_explicit(&cache->large_allocs, memory_order_relaxed);
    stats->frees += atomic_load_explicit(&cache->large_frees, memory_order_relaxed);
    stats->live_bytes += atomic_load_explicit(&cache->large_live_bytes, memory_order_relaxed);
    (void)pthread_mutex_unlock(&cache->lock);
}

/* Adds the cache's counters to the node's, and closes the engine's data for the thread. Requires the lists' lock. */
static void leave_pool(weir__host_cache *cache)
{
    WEIR_ASSERT_HELD(&lists);
    weir_host_pool *pool = atomic_load_explicit(&cache->pool, memory_order_relaxed);
    weir__host_node *node = node_of(cache);
    WEIR_ASSERT(pool != NULL && node != NULL && node->pool == pool);
    if (cache->previous_of_pool != NULL) {
        cache->previous_of_pool->next_of_pool = cache->next_of_pool;
    } else {
        pool->caches = cache->next_of_pool;
    }
    if (cache->next_of_pool != NULL) {
        cache->next_of_pool->previous_of_pool = cache->previous_of_pool;
    }
    weir_host_stats counted = WEIR_HOST_STATS_INIT;
    add_counts(cache, pool, &counted);
    node->gone_allocs += counted.allocs;
    node->gone_frees += counted.frees;
    node->gone_live_bytes += counted.live_bytes;
    if (cache->engine_thread != NULL && pool->process == (long)getpid()) {
        pool->config.engine->thread_close(node->engine, cache->engine_thread);
    }
    atomic_store_explicit(&cache->node, NULL, memory_order_relaxed);
    atomic_store_explicit(&cache->pool, NULL, memory_order_release);
}

/* Gives the cached blocks and the unused descriptions back to the pool. */
static void give_all(weir__host_cache *cache)
{
    weir_host_pool *pool = node_of(cache)->pool;
    empty_own(cache);
    while (cache->unused_runs != NULL) {
        weir__host_run *run = cache->unused_runs;
        cache->unused_runs = run->next;
        weir__host_run_unused(pool, run);
    }
}

static void cache_free(weir__host_cache *cache)
{
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* Destructor of the thread key: runs at the end of a thread. */
static void end_of_thread(void *unused)
{
    (void)unused;
    while (weir__host_mine != &weir__host_no_cache) {
        weir__host_cache *cache = weir__host_mine;
        weir__host_mine = cache->next_of_thread;
        (void)pthread_mutex_lock(&lists);
        weir_host_pool *pool = atomic_load_explicit(&cache->pool, memory_order_relaxed);
        if (pool != NULL) {
            if (pool->process == (long)getpid()) {
                give_all(cache); /* the pool cannot end meanwhile, because ending it needs the lists' lock */
            }
            leave_pool(cache);
        }
        (void)pthread_mutex_unlock(&lists);
        cache_free(cache);
    }
}

static void lock_lists(void)
{
    (void)pthread_mutex_lock(&lists);
}

static void unlock_lists(void)
{
    (void)pthread_mutex_unlock(&lists);
}

static void make_key(void)
{
    end_key_known =
        pthread_atfork(lock_lists, unlock_lists, unlock_lists) == 0 && pthread_key_create(&end_key, end_of_thread) == 0;
}

/* The library may be unloaded while threads go on. When such a thread ends, it must not call a function of the
 * library. */
__attribute__((destructor)) static void forget_key(void)
{
    if (atomic_exchange(&end_key_known, false)) { /* from now on, new threads get no cache */
        (void)pthread_key_delete(end_key);
    }
}

void weir__host_cache_orphan_all(weir_host_pool *pool)
{
    (void)pthread_mutex_lock(&lists);
    while (pool->caches != NULL) {
        leave_pool(pool->caches);
    }
    (void)pthread_mutex_unlock(&lists);
}

static weir__host_cache *cache_new(weir__host_node *node)
{
    WEIR_ASSERT((node->pool->config.flags & WEIR_HOST_NO_THREAD_CACHE) == 0);
    weir_host_pool *pool = node->pool;
    (void)pthread_once(&once, make_key);
    if (!end_key_known || pthread_setspecific(end_key, &weir__host_no_cache) != 0) {
        return NULL; /* without the key, the library would not notice the thread's end */
    }
    weir__host_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return NULL;
    }
    atomic_init(&cache->pool, pool);
    atomic_init(&cache->node, node);
    cache->number = node->number;
    cache->leaf_key = UINT64_MAX; /* matches no address */
    cache->most_bytes = pool->config.thread_cache_bytes;
    cache->flushes_seen = atomic_load_explicit(&pool->flushes, memory_order_relaxed);
    (void)pthread_mutex_init(&cache->lock, NULL);
    if (pool->config.engine->thread_open != NULL) {
        cache->engine_thread = pool->config.engine->thread_open(node->engine);
    }
    (void)pthread_mutex_lock(&lists);
    cache->next_of_pool = pool->caches;
    if (pool->caches != NULL) {
        pool->caches->previous_of_pool = cache;
    }
    pool->caches = cache;
    (void)pthread_mutex_unlock(&lists);
    cache->next_of_thread = weir__host_mine;
    weir__host_mine = cache;
    return cache;
}

/* Frees the calling thread's caches of pools that have ended. */
static void sweep(void)
{
    for (weir__host_cache **link = &weir__host_mine; *link != &weir__host_no_cache;) {
        weir__host_cache *cache = *link;
        if (atomic_load_explicit(&cache->pool, memory_order_acquire) == NULL) {
            *link = cache->next_of_thread;
            cache_free(cache);
        } else {
            link = &cache->next_of_thread;
        }
    }
}

weir__host_cache *weir__host_cache_find(weir__host_node *node)
{
    if ((node->pool->config.flags & WEIR_HOST_NO_THREAD_CACHE) != 0) {
        return NULL;
    }
    for (weir__host_cache **link = &weir__host_mine; *link != &weir__host_no_cache; link = &(*link)->next_of_thread) {
        weir__host_cache *cache = *link;
        if (node_of(cache) == node) {
            *link = cache->next_of_thread;
            cache->next_of_thread = weir__host_mine;
            weir__host_mine = cache;
            return cache;
        }
    }
    sweep();
    return cache_new(node);
}

void weir__host_count(weir__host_node *node, bool alloc, uint64_t bytes)
{
    WEIR_ASSERT(bytes != 0);
    (void)pthread_mutex_lock(&lists);
    node->gone_allocs += alloc;
    node->gone_frees += !alloc;
    node->gone_live_bytes += alloc ? bytes : 0 - bytes;
    (void)pthread_mutex_unlock(&lists);
}

void weir__host_count_growth(weir__host_node *node, uint64_t bytes)
{
    WEIR_ASSERT(bytes != 0);
    (void)pthread_mutex_lock(&lists);
    node->gone_live_bytes += bytes;
    (void)pthread_mutex_unlock(&lists);
}

void weir__host_cache_counts(weir_host_pool *pool, const weir__host_node *node, weir_host_stats *stats)
{
    (void)pthread_mutex_lock(&lists);
    for (size_t i = 0; i < pool->node_count; i++) {
        const weir__host_node *gone = &pool->nodes[i];
        if (node == NULL || gone == node) {
            stats->allocs += gone->gone_allocs;
            stats->frees += gone->gone_frees;
            stats->live_bytes += gone->gone_live_bytes;
        }
    }
    for (weir__host_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        if (node == NULL || node_of(cache) == node) {
            add_counts(cache, pool, stats);
        }
    }
    (void)pthread_mutex_unlock(&lists);
    stats->pad_bytes += pool->pad * (stats->allocs - stats->frees);
}
