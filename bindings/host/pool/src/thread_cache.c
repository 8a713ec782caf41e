/* thread_cache.c: freed blocks that a thread keeps, one cache for each node.
 *
 * Idea: a cache has a bin for each of the engine's sizes and a few slots for page runs of one exact size each, last in
 * first out. A hit touches only the thread's own memory. A cache is bounded in bytes. Bytes are set aside for a bin
 * before it may hold more blocks, at most half of the bound for all bins together, so a hit counts no bytes. Slots
 * share the rest in the same way and displace each other. A full bin that gets no more bytes gives half of its blocks
 * back. The end of a thread gives all blocks back; the end of a pool leaves its caches, empty, to their threads.
 *
 * A cache belongs to its thread. Other threads change only its pool pointer and its position in the pool's list, under
 * one lock for the process. That lock also keeps a thread from ending while a pool ends. fork takes it, so that the
 * child finds it unlocked and the lists consistent.
 */
#include "front.h"
#include "tuning.h"

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

/* --- giving back --- */

static void flush_bin(weir__host_cache *cache, uint32_t number, uint32_t keep)
{
    weir__host_bin *bin = &cache->small[number];
    const uint32_t held = atomic_load_explicit(&bin->count, memory_order_relaxed);
    WEIR_ASSERT(held <= bin->most && bin->most <= WEIR__HOST_BIN_DEPTH);
    if (held <= keep) {
        return;
    }
    /* The first blocks of the array are the oldest. */
    const uint32_t count = held - keep;
    const weir__host_node *node = node_of(cache);
    const bool all = node->pool->config.engine->release(node->engine, cache->engine_thread, number, bin->blocks, count);
    WEIR_ASSERT(all); /* the blocks are valid: the pool checked each of them when it was freed */
    (void)all;
    memmove(bin->blocks, bin->blocks + count, keep * sizeof(bin->blocks[0]));
    atomic_store_explicit(&bin->count, keep, memory_order_relaxed);
    add(&bin->net, 0 - (uint64_t)count);
}

static uint64_t size_of(const weir__host_large_slot *slot)
{
    return atomic_load_explicit(&slot->size, memory_order_relaxed);
}

static void flush_slot(weir__host_large_slot *slot)
{
    WEIR_ASSERT(slot->count <= slot->most && slot->most <= WEIR__HOST_LARGE_DEPTH);
    while (slot->count > 0) {
        const uint32_t last = atomic_load_explicit(&slot->count, memory_order_relaxed) - 1;
        const weir_status status = weir__host_node_give(slot->runs[last], NULL);
        (void)status;
        atomic_store_explicit(&slot->count, last, memory_order_relaxed);
    }
}

static void flush_slots(weir__host_cache *cache)
{
    for (size_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        flush_slot(&cache->large[i]);
    }
}

void weir__host_cache_flush(weir__host_cache *cache)
{
    WEIR_ASSERT(node_of(cache) != NULL);
    for (uint32_t bin = 0; bin < node_of(cache)->pool->bin_count; bin++) {
        flush_bin(cache, bin, 0);
    }
    flush_slots(cache);
}

void weir__host_cache_halve(weir__host_cache *cache, uint32_t bin)
{
    WEIR_ASSERT(bin < node_of(cache)->pool->bin_count);
    flush_bin(cache, bin, atomic_load_explicit(&cache->small[bin].count, memory_order_relaxed) / 2);
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

static uint32_t depth_of(uint64_t bytes)
{
    WEIR_ASSERT(bytes != 0);
    const uint64_t depth = BIN_BYTES / bytes;
    return depth < BIN_LEAST ? BIN_LEAST : depth > WEIR__HOST_BIN_DEPTH ? WEIR__HOST_BIN_DEPTH : (uint32_t)depth;
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
    const uint64_t size = size_of(slot);
    flush_slot(slot);
    WEIR_ASSERT(slot->count == 0 && cache->large_most_bytes >= slot->most * size);
    cache->large_most_bytes -= slot->most * size;
    slot->most = 0;
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
        if (slot->most > 0) {
            vacate(cache, slot);
            return;
        }
    }
}

bool weir__host_cache_widen(weir__host_cache *cache, uint32_t number)
{
    WEIR_ASSERT(number < node_of(cache)->pool->bin_count);
    weir__host_bin *bin = &cache->small[number];
    const uint64_t bytes = node_of(cache)->pool->bins[number].bytes;
    const uint32_t depth = depth_of(bytes);
    const uint64_t most = most_of(cache);
    const uint64_t left = most / 2 > cache->bin_most_bytes ? (most / 2 - cache->bin_most_bytes) / bytes : 0;
    WEIR_ASSERT(bin->most <= depth);
    uint32_t more = depth - bin->most < depth / 4 ? depth - bin->most : depth / 4;
    more = more < left ? more : (uint32_t)left;
    if (more == 0) {
        return false;
    }
    const uint64_t claimed = cache->bin_most_bytes + more * bytes;
    while (cache->large_most_bytes > 0 && claimed + cache->large_most_bytes > most) {
        give_way(cache);
    }
    bin->most += more;
    bin->bytes = bytes;
    cache->bin_most_bytes = claimed;
    return true;
}

bool weir__host_cache_widen_slot(weir__host_cache *cache, weir__host_large_slot *slot, uint64_t size)
{
    WEIR_ASSERT(slot == &cache->large[weir__host_slot_of(size)]);
    if (size_of(slot) != size) {
        vacate(cache, slot);
        atomic_store_explicit(&slot->size, size, memory_order_relaxed);
        return false; /* the size is cached from its second free on, because a size that is freed once may not be
                         requested again */
    }
    if (slot->most == WEIR__HOST_LARGE_DEPTH) {
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
    WEIR_ASSERT(slot->most < WEIR__HOST_LARGE_DEPTH);
    slot->most++;
    cache->large_most_bytes += size;
    return true;
}

/* --- life --- */

/* Adds the counters of a cache. */
static void add_counts(const weir__host_cache *cache, const weir_host_pool *pool, weir_host_stats *stats)
{
    for (uint32_t i = 0; i < pool->bin_count; i++) {
        const weir__host_bin *bin = &cache->small[i];
        const uint64_t allocs = atomic_load_explicit(&bin->allocs, memory_order_relaxed);
        const uint64_t count = atomic_load_explicit(&bin->count, memory_order_relaxed);
        const uint64_t live = atomic_load_explicit(&bin->net, memory_order_relaxed) - count;
        stats->allocs += allocs;
        stats->frees += allocs - live;
        stats->cached_bytes += count * pool->bins[i].bytes;
        stats->live_bytes += live * pool->bins[i].bytes;
    }
    for (size_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        const weir__host_large_slot *slot = &cache->large[i];
        const uint64_t allocs = atomic_load_explicit(&slot->allocs, memory_order_relaxed);
        const uint64_t frees = atomic_load_explicit(&slot->frees, memory_order_relaxed);
        stats->allocs += allocs;
        stats->frees += frees;
        stats->cached_bytes += atomic_load_explicit(&slot->count, memory_order_relaxed) * size_of(slot);
        stats->live_bytes += (allocs - frees) * size_of(slot);
    }
    stats->allocs += atomic_load_explicit(&cache->large_allocs, memory_order_relaxed);
    stats->frees += atomic_load_explicit(&cache->large_frees, memory_order_relaxed);
    stats->live_bytes += atomic_load_explicit(&cache->large_live_bytes, memory_order_relaxed);
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
    weir__host_cache_flush(cache);
    while (cache->unused_runs != NULL) {
        weir__host_run *run = cache->unused_runs;
        cache->unused_runs = run->next;
        weir__host_run_unused(pool, run);
    }
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
        free(cache);
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
    cache->trims_seen = atomic_load_explicit(&pool->trims, memory_order_relaxed);
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
            free(cache);
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

void weir__host_cache_obey(weir_host_pool *pool)
{
    const uint64_t trims = atomic_load_explicit(&pool->trims, memory_order_relaxed);
    for (weir__host_cache *cache = weir__host_mine; cache != &weir__host_no_cache; cache = cache->next_of_thread) {
        if (atomic_load_explicit(&cache->pool, memory_order_relaxed) == pool && cache->trims_seen != trims) {
            weir__host_cache_flush(cache);
            cache->trims_seen = trims;
        }
    }
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
    for (const weir__host_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        if (node == NULL || node_of(cache) == node) {
            add_counts(cache, pool, stats);
        }
    }
    (void)pthread_mutex_unlock(&lists);
    stats->pad_bytes += pool->pad * (stats->allocs - stats->frees);
}
