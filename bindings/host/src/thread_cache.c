/* thread_cache.c: what a thread keeps of what it freed, by node.
 *
 * Idea: a bin for each size class and a few slots for page runs of one exact size, last in first out; a hit touches the
 * thread's own memory and nothing else. What a cache keeps is bounded in bytes; above that the bin that a block was to go
 * to gives half of itself back. A thread's end gives all back; a pool's end leaves the caches to their threads, empty.
 *
 * A cache belongs to its thread; only its pool pointer and its place in the pool's list are changed by others, under one
 * lock of the process, which also keeps a thread from ending while a pool does. It is held across fork, so that the child
 * finds it in order.
 */
#include "host_internal.h"

#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t end_key;
static bool end_key_known;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The one used last is in front. */
static _Thread_local weir__host_cache *mine;

/* --- giving back --- */

static void flush_bin(weir__host_cache *cache, uint32_t class, uint32_t keep)
{
    weir__host_bin *bin = &cache->small[class];
    if (bin->count <= keep) {
        return;
    }
    /* The oldest are at the bottom. */
    const uint32_t count = bin->count - keep;
    const bool all = cache->node->pool->config.engine->release(cache->node->engine, bin->blocks, count);
    (void)all; /* what a bin holds was looked up when it came */
    for (uint32_t i = 0; i < keep; i++) {
        bin->blocks[i] = bin->blocks[count + i];
    }
    bin->count = keep;
    atomic_store_explicit(&cache->bytes,
                          atomic_load_explicit(&cache->bytes, memory_order_relaxed) -
                              count * weir__host_class_bytes(class),
                          memory_order_relaxed);
}

static void flush_slot(weir__host_cache *cache, weir__host_large_slot *slot, uint32_t keep)
{
    while (slot->count > keep) {
        weir__host_run *run = slot->runs[--slot->count];
        const weir_status status = weir__host_node_give(run, NULL);
        (void)status;
        atomic_store_explicit(&cache->bytes,
                              atomic_load_explicit(&cache->bytes, memory_order_relaxed) - slot->size,
                              memory_order_relaxed);
    }
}

void weir__host_cache_flush(weir__host_cache *cache)
{
    for (uint32_t class = 0; class < WEIR__HOST_CLASSES; class++) {
        flush_bin(cache, class, 0);
    }
    for (size_t i = 0; i < WEIR__HOST_LARGE_SLOTS; i++) {
        flush_slot(cache, &cache->large[i], 0);
    }
}

void weir__host_cache_halve(weir__host_cache *cache, uint32_t class)
{
    flush_bin(cache, class, cache->small[class].count / 2);
}

void weir__host_cache_empty_slot(weir__host_cache *cache, weir__host_large_slot *slot)
{
    flush_slot(cache, slot, 0);
}

/* --- life --- */

/* The lists' lock is held. Its counts become the pool's. */
static void leave_pool(weir__host_cache *cache)
{
    weir_host_pool *pool = atomic_load_explicit(&cache->pool, memory_order_relaxed);
    if (cache->previous_of_pool != NULL) {
        cache->previous_of_pool->next_of_pool = cache->next_of_pool;
    } else {
        pool->caches = cache->next_of_pool;
    }
    if (cache->next_of_pool != NULL) {
        cache->next_of_pool->previous_of_pool = cache->previous_of_pool;
    }
    weir__host_node *node = cache->node;
    node->gone_allocs += atomic_load_explicit(&cache->allocs, memory_order_relaxed);
    node->gone_frees += atomic_load_explicit(&cache->frees, memory_order_relaxed);
    node->gone_live_bytes += atomic_load_explicit(&cache->live_bytes, memory_order_relaxed);
    atomic_store_explicit(&cache->pool, NULL, memory_order_release);
}

/* The thread ends. */
static void end_of_thread(void *unused)
{
    (void)unused;
    while (mine != NULL) {
        weir__host_cache *cache = mine;
        mine = cache->next_of_thread;
        (void)pthread_mutex_lock(&lists);
        weir_host_pool *pool = atomic_load_explicit(&cache->pool, memory_order_relaxed);
        if (pool != NULL) {
            if (pool->process == (long)getpid()) {
                weir__host_cache_flush(cache); /* the pool cannot end meanwhile */
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
    end_key_known = pthread_atfork(lock_lists, unlock_lists, unlock_lists) == 0 &&
                    pthread_key_create(&end_key, end_of_thread) == 0;
}

/* The library may be unloaded while threads live on: their ends must not call into it. */
__attribute__((destructor)) static void forget_key(void)
{
    if (end_key_known) {
        (void)pthread_key_delete(end_key);
    }
}

static bool is_mine(const weir__host_cache *cache)
{
    const weir__host_cache *own = mine;
    while (own != NULL && own != cache) {
        own = own->next_of_thread;
    }
    return own != NULL;
}

void weir__host_cache_orphan_all(weir_host_pool *pool)
{
    const bool is_child = pool->process != (long)getpid();
    (void)pthread_mutex_lock(&lists);
    while (pool->caches != NULL) {
        weir__host_cache *cache = pool->caches;
        leave_pool(cache);
        if (is_child && !is_mine(cache)) {
            free(cache); /* of a thread that is the parent's */
        }
    }
    (void)pthread_mutex_unlock(&lists);
}

static uint32_t depth_of(uint32_t class)
{
    const uint64_t depth = (UINT64_C(64) << 10) / weir__host_class_bytes(class);
    return depth < 4 ? 4 : depth > WEIR__HOST_BIN_DEPTH ? WEIR__HOST_BIN_DEPTH : (uint32_t)depth;
}

static weir__host_cache *cache_new(weir__host_node *node)
{
    weir_host_pool *pool = node->pool;
    (void)pthread_once(&once, make_key);
    if (!end_key_known || pthread_setspecific(end_key, &mine) != 0) {
        return NULL; /* nobody would learn of the thread's end */
    }
    weir__host_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        return NULL;
    }
    atomic_init(&cache->pool, pool);
    cache->serial = pool->serial;
    cache->node = node;
    cache->most_bytes = pool->config.thread_cache_bytes;
    cache->trims_seen = atomic_load_explicit(&pool->trims, memory_order_relaxed);
    for (uint32_t class = 0; class < WEIR__HOST_CLASSES; class++) {
        cache->small[class].most = depth_of(class);
    }
    (void)pthread_mutex_lock(&lists);
    cache->next_of_pool = pool->caches;
    if (pool->caches != NULL) {
        pool->caches->previous_of_pool = cache;
    }
    pool->caches = cache;
    (void)pthread_mutex_unlock(&lists);
    cache->next_of_thread = mine;
    mine = cache;
    return cache;
}

/* Drops caches of pools that are gone. */
static void sweep(void)
{
    for (weir__host_cache **link = &mine; *link != NULL;) {
        weir__host_cache *cache = *link;
        if (atomic_load_explicit(&cache->pool, memory_order_acquire) == NULL) {
            *link = cache->next_of_thread;
            free(cache);
        } else {
            link = &cache->next_of_thread;
        }
    }
}

static __attribute__((noinline)) weir__host_cache *find_or_make(weir__host_node *node)
{
    for (weir__host_cache **link = &mine; *link != NULL; link = &(*link)->next_of_thread) {
        weir__host_cache *cache = *link;
        if (cache->node == node && cache->serial == node->pool->serial) {
            *link = cache->next_of_thread;
            cache->next_of_thread = mine;
            mine = cache;
            return cache;
        }
    }
    sweep();
    return (node->pool->config.flags & WEIR_HOST_NO_THREAD_CACHE) != 0 ? NULL : cache_new(node);
}

weir__host_cache *weir__host_cache_of(weir__host_node *node)
{
    weir__host_cache *cache = mine;
    if (WEIR__HOST_LIKELY(cache != NULL && cache->node == node && cache->serial == node->pool->serial)) {
        return cache;
    }
    return find_or_make(node);
}

void weir__host_cache_obey(weir_host_pool *pool)
{
    const uint64_t trims = atomic_load_explicit(&pool->trims, memory_order_relaxed);
    for (weir__host_cache *cache = mine; cache != NULL; cache = cache->next_of_thread) {
        if (cache->serial == pool->serial && cache->trims_seen != trims) {
            weir__host_cache_flush(cache);
            cache->trims_seen = trims;
        }
    }
}

void weir__host_count(weir__host_node *node, bool alloc, uint64_t bytes)
{
    (void)pthread_mutex_lock(&lists);
    node->gone_allocs += alloc;
    node->gone_frees += !alloc;
    node->gone_live_bytes += alloc ? bytes : 0 - bytes;
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
        if (node != NULL && cache->node != node) {
            continue;
        }
        stats->allocs += atomic_load_explicit(&cache->allocs, memory_order_relaxed);
        stats->frees += atomic_load_explicit(&cache->frees, memory_order_relaxed);
        stats->cached_bytes += atomic_load_explicit(&cache->bytes, memory_order_relaxed);
        stats->live_bytes += atomic_load_explicit(&cache->live_bytes, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&lists);
    stats->pad_bytes += (stats->allocs - stats->frees) * pool->pad;
}
