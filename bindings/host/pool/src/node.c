/* node.c: the page runs of one node, which are blocks of a weir pool over the node's memory.
 *
 * A node has up to two pools: one over pinned memory that the runtime allocates, asked first, and one over memory that
 * weir maps. Both are asked on the host's stream (host_device.c). Blocks are freed as idle, unless work of a device's
 * stream must complete first.
 */
#include "host_internal.h"
#include "tuning.h"

#include "shared/alloc_at.h"

#include <stdlib.h>
#include <string.h>
#include <weir/caching.h>

/* --- descriptions --- */

weir__host_run *weir__host_run_new(weir_host_pool *pool)
{
    weir__host_cache *cache = weir__host_mine;
    if (cache->unused_runs != NULL && atomic_load_explicit(&cache->pool, memory_order_relaxed) == pool) {
        weir__host_run *kept = cache->unused_runs;
        cache->unused_runs = kept->next;
        cache->unused_run_count--;
        return kept;
    }
    (void)pthread_mutex_lock(&pool->lock);
    weir__host_run *run = weir__slab_get(&pool->runs);
    (void)pthread_mutex_unlock(&pool->lock);
    return run;
}

void weir__host_run_unused(weir_host_pool *pool, weir__host_run *run)
{
    weir__host_cache *cache = weir__host_mine;
    atomic_store_explicit(&run->state, WEIR__HOST_RUN_NONE, memory_order_relaxed);
    if (cache->unused_run_count < KEPT_RUNS && atomic_load_explicit(&cache->pool, memory_order_relaxed) == pool) {
        run->next = cache->unused_runs;
        cache->unused_runs = run;
        cache->unused_run_count++;
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    weir__slab_put(&pool->runs, run);
    (void)pthread_mutex_unlock(&pool->lock);
}

/* --- runs --- */

static weir_status alloc_pages(weir__host_node *node, uint64_t size, uint64_t align, weir__host_run *run)
{
    WEIR_ASSERT(size != 0 && size % WEIR__HOST_PAGE == 0);
    WEIR_ASSERT(is_power_of_two(align) && align >= WEIR__HOST_PAGE);
    weir_pool *pools[] = {node->given, node->mapped};
    weir_stream *hosts[] = {node->given_host, node->mapped_host};
    /* For a large alignment, memory that weir maps is asked first: there an alignment costs only addresses, whereas the
     * runtime would have to pin `align` more bytes. */
    const size_t first = align > node->pool->config.chunk_bytes;
    /* All sizes and chunks are whole pages, so every free range begins at a page. An alignment of up to a page is
     * therefore not requested, which makes the alloc cheaper. */
    const uint64_t asked = align > WEIR__HOST_PAGE ? align : WEIR__HOST_ALIGNMENT;
    weir_status status = WEIR_ERR_NO_MEMORY;
    for (size_t i = 0; i < 2 && status != WEIR_OK; i++) {
        run->pages = pools[i ^ first];
        if (run->pages != NULL) {
            status = weir_pool_alloc(run->pages, hosts[i ^ first], size, asked, &run->block);
        }
    }
    return status;
}

/* Finds the chunk of a page run in memory that the runtime allocated. Such chunks may begin and end anywhere, so a leaf
 * of the registry may have pages of two chunks; but each run lies in one chunk. */
static weir__host_chunk *chunk_around(weir__host_node *node, uint64_t address)
{
    (void)pthread_mutex_lock(&node->chunk_lock);
    weir__host_chunk *chunk = node->chunks;
    while (chunk != NULL && address - chunk->start >= chunk->size) {
        chunk = chunk->next;
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return chunk;
}

static uint32_t run_tag(weir__host_run *run)
{
    const weir__host_slab *slab = run->slab;
    return slab != NULL ? atomic_load_explicit(&slab->bin, memory_order_relaxed) + 1 : WEIR__HOST_LARGE_TAG;
}

/* Makes the pages of a part of a run of `all` bytes, unless the run is so large that its pages come at their first
 * access. */
static bool make_pages(weir__host_node *node, uint64_t start, uint64_t size, uint64_t all)
{
    return all >= UNMADE_LEAST || !weir__host_is_pageable(&node->pool->config) ||
           weir__host_pageable_make(node, start, size);
}

weir__host_run *weir__host_node_take(weir__host_node *node, uint64_t size, uint64_t align, weir_status *status)
{
    WEIR_ASSERT(size != 0 && size % WEIR__HOST_PAGE == 0);
    weir_host_pool *pool = node->pool;
    weir__host_run *run = weir__host_run_new(pool);
    *status = run != NULL ? alloc_pages(node, size, align < WEIR__HOST_PAGE ? WEIR__HOST_PAGE : align, run)
                          : WEIR_ERR_NO_MEMORY;
    if (*status != WEIR_OK) {
        if (run != NULL) {
            weir__host_run_unused(pool, run);
        }
        return NULL;
    }
    const uint64_t start = weir_block_address(run->block);
    WEIR_ASSERT(start % WEIR__HOST_PAGE == 0 && weir_block_capacity(run->block) >= size);
    if (!make_pages(node, start, size, size)) {
        const weir_status freed = weir_pool_free_idle(run->pages, run->block);
        WEIR_ASSERT(freed == WEIR_OK); /* the block is live */
        (void)freed;
        weir__host_run_unused(pool, run);
        *status = WEIR_ERR_NO_MEMORY;
        return NULL;
    }
    /* Relaxed stores: entering the run into the registry publishes these members (release). */
    atomic_store_explicit(&run->node, node, memory_order_relaxed);
    atomic_store_explicit(&run->start, start, memory_order_relaxed);
    atomic_store_explicit(&run->size, size, memory_order_relaxed);
    atomic_store_explicit(&run->chunk, run->pages == node->given ? chunk_around(node, start) : NULL,
                          memory_order_relaxed);
    WEIR_ASSERT(run->pages == node->mapped || run->chunk != NULL);
    atomic_store_explicit(&run->slab, NULL, memory_order_relaxed);
    run->rest = NULL;
    run->parts = 0;
    atomic_store_explicit(&run->state, WEIR__HOST_RUN_LIVE, memory_order_release);
    weir__host_registry_enter(&pool->registry, run, run_tag(run)); /* the leaves were created when the chunk was made */
    weir__host_decay_take(&pool->decay, size);
    return run;
}

/* Gives back the further blocks of a page run that has grown in place. */
static void give_rest(weir_host_pool *pool, weir__host_run *run)
{
    while (run->rest != NULL) {
        weir__host_run *part = run->rest;
        run->rest = part->rest;
        const weir_status status = weir_pool_free_idle(run->pages, part->block);
        WEIR_ASSERT(status == WEIR_OK); /* the block is live */
        (void)status;
        weir__host_run_unused(pool, part);
    }
}

weir_status weir__host_node_give(weir__host_run *run, weir_stream *stream)
{
    WEIR_ASSERT(run->size != 0 && run->block != NULL);
    WEIR_ASSERT(stream == NULL || run->rest == NULL);
    weir_host_pool *pool = run->node->pool;
    /* The registry's entries are removed first: after the free another thread may own the pages. */
    weir__host_registry_remove(&pool->registry, run, run_tag(run));
    const weir_status status =
        stream != NULL ? weir_pool_free(run->pages, run->block, stream) : weir_pool_free_idle(run->pages, run->block);
    if (status == WEIR_OK) {
        weir__host_decay_give(&pool->decay, run->size);
        give_rest(pool, run);
        weir__host_run_unused(pool, run);
    } else {
        weir__host_registry_enter(&pool->registry, run, run_tag(run));
    }
    return status;
}

bool weir__host_node_grow(weir__host_run *run, uint64_t size)
{
    WEIR_ASSERT(run->state == WEIR__HOST_RUN_LIVE && run->slab == NULL);
    WEIR_ASSERT(size > run->size && size % WEIR__HOST_PAGE == 0);
    weir__host_node *node = run->node;
    weir_host_pool *pool = node->pool;
    const uint64_t more = size - run->size;
    weir__host_run *part = run->parts < MOST_PARTS ? weir__host_run_new(pool) : NULL;
    if (part == NULL) {
        return false;
    }
    WEIR_ASSERT(run->pages == node->mapped && weir__host_is_pageable(&pool->config));
    if (weir__pool_alloc_at(node->mapped, node->mapped_host, run->start + run->size, more, &part->block) != WEIR_OK) {
        weir__host_run_unused(pool, part);
        return false;
    }
    if (!make_pages(node, run->start + run->size, more, size)) {
        const weir_status freed = weir_pool_free_idle(node->mapped, part->block);
        WEIR_ASSERT(freed == WEIR_OK); /* the block is live */
        (void)freed;
        weir__host_run_unused(pool, part);
        return false;
    }
    part->rest = run->rest;
    run->rest = part;
    run->parts++;
    run->size = size;
    weir__host_registry_enter(&pool->registry, run, run_tag(run));
    weir__host_decay_take(&pool->decay, more);
    return true;
}

/* --- slabs for the engine --- */

static void *slab_get(void *ctx, uint64_t size, uint64_t align, weir__host_slab *slab)
{
    WEIR_ASSERT(size <= WEIR__HOST_SLAB_BYTES && size != 0 && size % WEIR__HOST_PAGE == 0);
    WEIR_ASSERT(slab != NULL);
    weir_status status = WEIR_OK;
    weir__host_run *run = weir__host_node_take(ctx, size, align, &status);
    if (run == NULL) {
        return NULL;
    }
    atomic_store_explicit(&run->state, WEIR__HOST_RUN_SLAB, memory_order_release);
    run->slab = slab;
    weir__host_registry_enter(&run->node->pool->registry, run, run_tag(run));
    return (void *)(uintptr_t)run->start;
}

static void slab_put(void *ctx, void *memory)
{
    weir__host_node *node = ctx;
    weir__host_run *run = weir__host_run_at(&node->pool->registry, (uint64_t)(uintptr_t)memory);
    WEIR_ASSERT(run != NULL && run->state == WEIR__HOST_RUN_SLAB);
    const weir_status status = weir__host_node_give(run, NULL);
    WEIR_ASSERT(status == WEIR_OK); /* the block is live */
    (void)status;
}

static void slab_changed(void *ctx, const void *address, uint32_t bin)
{
    weir__host_node *node = ctx;
    weir__host_run *run = weir__host_run_at(&node->pool->registry, (uint64_t)(uintptr_t)address);
    WEIR_ASSERT(run != NULL && run->slab != NULL && bin < node->pool->bin_count);
    weir__host_registry_enter(&node->pool->registry, run, bin + 1);
}

static weir__host_slab *slab_of(void *ctx, const void *address, uint64_t *start)
{
    weir__host_node *node = ctx;
    weir__host_run *run = weir__host_run_at(&node->pool->registry, (uint64_t)(uintptr_t)address);
    weir__host_slab *slab = run != NULL && run->node == node ? run->slab : NULL;
    if (slab != NULL) {
        *start = run->start;
    }
    return slab;
}

/* --- life --- */

static weir_status open_pool(weir__host_node *node, uint32_t flags, weir_pool **pool, weir_stream **host)
{
    WEIR_ASSERT(*pool == NULL && node->device != NULL);
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    weir_caching_config caching = WEIR_CACHING_CONFIG_INIT;
    /* Pageable memory grows by a chunk. A smaller request at the high end of the last free range would leave a gap
     * below itself, which no later chunk joins. */
    caching.low_bytes = weir__host_is_pageable(&node->pool->config) ? node->pool->config.chunk_bytes : 0;
    config.device = node->device;
    config.strategy = weir_caching_strategy();
    config.strategy_config = &caching;
    config.flags = WEIR_POOL_NO_FRONT_CACHE | WEIR_POOL_CAPTURES_TOLD | flags;
    config.growth = WEIR_GROWTH_GROW_FIRST;
    weir_status status = weir_pool_create(&config, pool);
    if (status == WEIR_OK) {
        status = weir_pool_stream(*pool, &weir__host_stream, host);
    }
    return status;
}

static weir_status open_pools(weir__host_node *node)
{
    const uint32_t kinds = node->pool->config.kinds;
    weir_status status = WEIR_OK;
    if ((kinds & 1u << WEIR_HOST_RUNTIME) != 0) {
        status = open_pool(node, WEIR_POOL_REGIONS, &node->given, &node->given_host);
    }
    if (status == WEIR_OK && (kinds & ~(1u << WEIR_HOST_RUNTIME)) != 0) {
        status = open_pool(node, 0, &node->mapped, &node->mapped_host);
    }
    return status;
}

weir_status weir__host_node_init(weir__host_node *node, weir_host_pool *pool, int32_t number)
{
    WEIR_ASSERT(node->pool == NULL);
    node->pool = pool;
    node->number = number;
    (void)pthread_mutex_init(&node->chunk_lock, NULL);
    node->chunk_descriptions = (weir__slab)WEIR__SLAB_INIT(weir__host_chunk, offsetof(weir__host_chunk, next), 4);
    weir_status status = weir__host_is_pageable(&pool->config) ? weir__host_pageable_create(node, &node->device)
                                                               : weir__host_device_create(node, &node->device);
    if (status == WEIR_OK) {
        status = open_pools(node);
    }
    if (status == WEIR_OK) {
        const weir__host_slabs slabs = {.ctx = node,
                                        .slab_get = slab_get,
                                        .slab_put = slab_put,
                                        .slab_changed = slab_changed,
                                        .slab_of = slab_of,
                                        .is_scarce = weir__host_is_pageable(&pool->config)};
        status = pool->config.engine->create(&slabs, &node->engine);
    }
    return status;
}

static void keep_first(weir_status *first, weir_status status)
{
    *first = *first != WEIR_OK ? *first : status;
}

weir_status weir__host_node_empty(weir__host_node *node, bool *is_empty)
{
    weir_status first = WEIR_OK;
    if (node->pool == NULL) {
        return WEIR_OK;
    }
    if (node->engine != NULL) {
        node->pool->config.engine->destroy(node->engine);
        node->engine = NULL;
    }
    keep_first(&first, weir_pool_destroy(node->given));
    keep_first(&first, weir_pool_destroy(node->mapped));
    node->given = node->mapped = NULL;
    const weir_status ended = weir_device_destroy(node->device); /* gives back what the pools could not */
    if (ended == WEIR_OK) {
        node->device = NULL;
    }
    *is_empty = *is_empty && ended == WEIR_OK;
    keep_first(&first, ended);
    return first;
}

void weir__host_node_fini(weir__host_node *node)
{
    if (node->pool == NULL) {
        return;
    }
    weir__host_device_fini(node);
    weir__host_pageable_fini(node);
    weir__slab_fini(&node->chunk_descriptions); /* the chunks' memory has already been given back */
    (void)pthread_mutex_destroy(&node->chunk_lock);
}
