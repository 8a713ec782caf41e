/* pool.c: the front door of the host pool.
 *
 * A block of less than 64 KiB comes from the node's engine, a larger one is a run of pages; in front of both is what the
 * thread keeps. A hit of that takes no lock and touches nothing shared: what is counted is counted by the thread.
 * A free finds out from the address alone what the block is (registry.h).
 */
#include "host_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = WEIR__HOST_ALIGNMENT, PAD = 32, MOST_ALIGN = 2 << 20, BATCH = 16, DEFAULT_CHUNK = 64 << 20, DEFAULT_CACHE = 8 << 20 };
#define SIZE_LIMIT (UINT64_C(1) << 46)
#define OUT_OF_LINE __attribute__((noinline))

/* --- names --- */

const char *weir_host_kind_name(weir_host_kind kind)
{
    static const char *const names[] = {"runtime", "registered", "huge", "transparent", "locked", "unpinned"};
    _Static_assert(sizeof names / sizeof names[0] == WEIR_HOST_KIND_COUNT, "a name for each kind");
    return (unsigned)kind < WEIR_HOST_KIND_COUNT ? names[kind] : "unknown";
}

const char *weir_host_kind_text(weir_host_kind kind)
{
    static const char *const texts[] = {
#define WEIR_HOST_KIND_TEXT(name, text) text,
        WEIR_HOST_KIND_LIST(WEIR_HOST_KIND_TEXT)
#undef WEIR_HOST_KIND_TEXT
    };
    return (unsigned)kind < WEIR_HOST_KIND_COUNT ? texts[kind] : "unknown";
}

/* --- sizes --- */

/* What a request of a good size takes, before it is rounded to a class or to pages. */
static inline uint64_t padded(const weir_host_pool *pool, uint64_t size)
{
    return (((size + 31) & ~UINT64_C(31)) + pool->pad + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

static inline uint64_t pages_of(uint64_t bytes)
{
    return (bytes + WEIR__HOST_PAGE - 1) / WEIR__HOST_PAGE;
}

/* --- life --- */

static bool is_sound(const weir_host_pool_config *config)
{
    const uint32_t flags = WEIR_HOST_NO_PAD | WEIR_HOST_STRICT | WEIR_HOST_ALLOW_UNPINNED | WEIR_HOST_NO_THREAD_CACHE;
    const uint32_t kinds = (1u << WEIR_HOST_KIND_COUNT) - 1;
    const bool unpinned = (config->kinds & 1u << WEIR_HOST_UNPINNED) != 0;
    const uint64_t chunk = config->chunk_bytes;
    return (config->flags & ~flags) == 0 && (config->kinds & ~kinds) == 0 &&
           (!unpinned || (config->flags & WEIR_HOST_ALLOW_UNPINNED) != 0) &&
           (chunk == 0 || ((chunk & (chunk - 1)) == 0 && chunk >= 2 << 20 && chunk <= 1 << 30));
}

/* The steps of the ladder that may be used with this runtime; 0: none. */
static uint32_t usable_kinds(const weir_host_pool_config *config, const weir_host_runtime *runtime)
{
    uint32_t kinds = config->kinds;
    if (kinds == 0) {
        kinds = ((1u << WEIR_HOST_KIND_COUNT) - 1) & ~(1u << WEIR_HOST_UNPINNED);
        kinds |= (config->flags & WEIR_HOST_ALLOW_UNPINNED) != 0 ? 1u << WEIR_HOST_UNPINNED : 0;
    }
    const weir_host_runtime_ops *ops = runtime->ops;
    if (ops == NULL || ops->pinned_alloc == NULL || ops->pinned_free == NULL) {
        kinds &= ~(1u << WEIR_HOST_RUNTIME);
    }
    if (ops == NULL || ops->memory_register == NULL || ops->memory_unregister == NULL) {
        kinds &= ~(1u << WEIR_HOST_REGISTERED);
    }
    return kinds;
}

static weir_status adopt(weir_host_pool *pool, const weir_host_pool_config *config)
{
    static const weir_host_pool_config defaults = WEIR_HOST_POOL_CONFIG_INIT;
    weir_status status = weir__config_adopt(&pool->config, sizeof pool->config, config != NULL ? config : &defaults);
    if (status == WEIR_OK && pool->config.runtime != NULL) {
        status = weir__config_adopt(&pool->runtime, sizeof pool->runtime, pool->config.runtime);
    }
    if (status != WEIR_OK) {
        return status;
    }
    weir_host_pool_config *own = &pool->config;
    if (!is_sound(own)) {
        return WEIR_ERR_INVALID;
    }
    own->kinds = usable_kinds(own, &pool->runtime);
    own->runtime = NULL;
    own->chunk_bytes = own->chunk_bytes != 0 ? own->chunk_bytes : DEFAULT_CHUNK;
    own->thread_cache_bytes = own->thread_cache_bytes != 0 ? own->thread_cache_bytes : DEFAULT_CACHE;
    own->engine = own->engine != NULL ? own->engine : weir_host_classes_engine();
    pool->pad = (own->flags & WEIR_HOST_NO_PAD) != 0 ? 0 : PAD;
    if (pool->runtime.most_bytes == 0) {
        pool->runtime.most_bytes = UINT64_C(1) << 30;
    }
    return own->kinds != 0 ? WEIR_OK : WEIR_ERR_INVALID;
}

static weir_status look_at_machine(weir_host_pool *pool)
{
    weir_status status = WEIR_OK;
    pool->topology = pool->config.topology;
    if (pool->topology == NULL) {
        status = weir_topology_create(NULL, &pool->own_topology);
        pool->topology = pool->own_topology;
    }
    return status;
}

static bool is_usable(const weir_topology *topology, size_t i, weir_node_info *info)
{
    info->struct_size = sizeof *info;
    return weir_topology_node(topology, i, info) == WEIR_OK && info->is_allowed && info->is_host_memory;
}

/* The engines of all nodes have the same bins. */
static void list_bins(weir_host_pool *pool)
{
    const weir_host_engine_ops *engine = pool->config.engine;
    uint32_t bin = 0;
    for (uint64_t unit = 0; padded(pool, (unit + 1) * 32) < WEIR__HOST_SMALL_BYTES; unit++) {
        uint64_t bytes = engine->bin_bytes(pool->nodes[0].engine, bin);
        while (bytes < padded(pool, (unit + 1) * 32)) {
            bytes = engine->bin_bytes(pool->nodes[0].engine, ++bin);
        }
        pool->bin_of[unit] = (uint8_t)bin;
        pool->small_most = (unit + 1) * 32;
    }
    pool->bin_count = bin + 1;
    for (bin = 0; bin < pool->bin_count; bin++) {
        const uint64_t bytes = engine->bin_bytes(pool->nodes[0].engine, bin);
        pool->bins[bin] = (weir__host_bin_shape){
            .bytes = bytes, .reciprocal = (UINT64_C(1) << WEIR__HOST_RECIPROCAL_SHIFT) / bytes + 1};
    }
}

static weir_status make_nodes(weir_host_pool *pool)
{
    const size_t count = weir_topology_node_count(pool->topology);
    weir_node_info info = WEIR_NODE_INFO_INIT;
    pool->nodes = calloc(count != 0 ? count : 1, sizeof *pool->nodes);
    weir_status status = pool->nodes != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (is_usable(pool->topology, i, &info)) {
            status = weir__host_node_init(&pool->nodes[pool->node_count++], pool, info.node);
        }
    }
    if (status == WEIR_OK && pool->node_count == 0) {
        status = WEIR_ERR_UNSUPPORTED;
    }
    if (status == WEIR_OK) {
        list_bins(pool);
    }
    return status;
}

/* Frees what there is of a pool. */
static weir_status end(weir_host_pool *pool)
{
    weir_status first = WEIR_OK;
    for (size_t i = 0; i < pool->node_count; i++) {
        const weir_status status = weir__host_node_fini(&pool->nodes[i]);
        first = first != WEIR_OK ? first : status;
    }
    weir__host_pending_destroy(pool->pending);
    weir__host_registry_fini(&pool->registry);
    while (pool->all_runs != NULL) {
        weir__host_run *next = pool->all_runs->next;
        free(pool->all_runs);
        pool->all_runs = next;
    }
    weir_topology_destroy(pool->own_topology);
    (void)pthread_mutex_destroy(&pool->lock);
    (void)pthread_mutex_destroy(&pool->runtime_lock);
    free(pool->nodes);
    free(pool);
    return first;
}

weir_status weir_host_pool_create(const weir_host_pool_config *config, weir_host_pool **out)
{
    static _Atomic uint64_t last_serial;
    if (out == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir_host_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->serial = atomic_fetch_add(&last_serial, 1) + 1;
    pool->process = (long)getpid();
    weir_status status = adopt(pool, config);
    if (status == WEIR_OK) {
        status = weir__host_registry_init(&pool->registry);
    }
    if (status != WEIR_OK) {
        free(pool);
        return status;
    }
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_mutex_init(&pool->runtime_lock, NULL);
    status = weir__host_pending_create(&pool->pending);
    if (status == WEIR_OK) {
        status = look_at_machine(pool);
    }
    if (status == WEIR_OK) {
        status = make_nodes(pool);
    }
    if (status != WEIR_OK) {
        const weir_status ended = end(pool);
        (void)ended; /* it held nothing */
        return status;
    }
    *out = pool;
    return WEIR_OK;
}

weir_status weir_host_pool_destroy(weir_host_pool *pool)
{
    if (pool == NULL) {
        return WEIR_OK;
    }
    weir__host_cache_orphan_all(pool);
    /* The weir pools underneath wait for the streams of what was freed after them. */
    weir_status waited = WEIR_OK;
    if (pool->process == (long)getpid()) {
        waited = weir__host_pending_collect(pool, true, NULL, false);
    }
    const weir_status ended = end(pool);
    return waited != WEIR_OK ? waited : ended;
}

bool weir__host_limit_take(weir_host_pool *pool, uint64_t bytes)
{
    const uint64_t limit = pool->config.limit_bytes;
    uint64_t held = atomic_load(&pool->held_bytes);
    do {
        if (limit != 0 && (bytes > limit || held > limit - bytes)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&pool->held_bytes, &held, held + bytes));
    return true;
}

void weir__host_limit_give(weir_host_pool *pool, uint64_t bytes)
{
    (void)atomic_fetch_sub(&pool->held_bytes, bytes);
}

/* --- nodes --- */

weir__host_node *weir__host_node_numbered(weir_host_pool *pool, int32_t number)
{
    for (size_t i = 0; i < pool->node_count; i++) {
        if (pool->nodes[i].number == number) {
            return &pool->nodes[i];
        }
    }
    return NULL;
}

enum { HOME_EVERY = 256 };

/* The calling thread's node, looked at now and then: a thread seldom moves, and asking costs as much as an allocation. */
static weir__host_node *home_node(weir_host_pool *pool)
{
    static _Thread_local struct {
        uint64_t serial;
        weir__host_node *node;
        uint32_t left;
    } home;
    if (pool->node_count == 1) {
        return &pool->nodes[0];
    }
    if (home.serial != pool->serial || home.left == 0) {
        weir__host_node *node = weir__host_node_numbered(pool, weir_topology_thread_node(pool->topology));
        home.serial = pool->serial;
        home.node = node != NULL ? node : &pool->nodes[0];
        home.left = HOME_EVERY;
    }
    home.left--;
    return home.node;
}

static inline weir__host_node *node_for(weir_host_pool *pool, int32_t number)
{
    if (number == WEIR_HOST_THREAD_NODE || number == WEIR_HOST_ANY_NODE) {
        return home_node(pool);
    }
    return weir__host_node_numbered(pool, number);
}

/* --- alloc --- */

static inline void add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

static inline void add_signed(_Atomic int64_t *counter, int64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

static inline void bump(_Atomic uint32_t *counter, uint32_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline uint32_t bin_for(const weir_host_pool *pool, uint64_t size)
{
    return pool->bin_of[(size - 1) / 32];
}

static void count_small(weir__host_node *node, weir__host_cache *cache, uint32_t bin, bool alloc)
{
    if (cache != NULL) {
        add(alloc ? &cache->small[bin].allocs : &cache->small[bin].frees, 1);
    } else {
        weir__host_count(node, alloc, node->pool->bins[bin].bytes);
    }
}

static inline void count_large(weir__host_node *node, weir__host_cache *cache, uint64_t bytes, bool alloc)
{
    if (cache != NULL) {
        add(alloc ? &cache->large_allocs : &cache->large_frees, 1);
        add_signed(&cache->large_live_bytes, alloc ? (int64_t)bytes : -(int64_t)bytes);
    } else {
        weir__host_count(node, alloc, bytes);
    }
}

static inline weir__host_large_slot *slot_for(weir__host_cache *cache, uint64_t pages)
{
    return &cache->large[pages * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

/* Of the node's engine; what else comes goes to the bin, which is empty. */
static weir_status take_small(weir__host_node *node, weir__host_cache *cache, uint32_t number, void **ptr)
{
    const weir_host_engine_ops *engine = node->pool->config.engine;
    void *blocks[BATCH];
    size_t wanted = 1;
    weir__host_bin *bin = NULL;
    if (cache != NULL) {
        bin = &cache->small[number];
        (void)weir__host_cache_widen(cache, number);
        wanted = bin->most / 2 < BATCH ? bin->most / 2 + 1 : BATCH;
    }
    const size_t got = engine->alloc(node->engine, cache != NULL ? cache->engine_thread : NULL, number, blocks, wanted);
    if (got == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (size_t i = 1; i < got; i++) {
        bin->blocks[i - 1] = blocks[i];
    }
    if (got > 1) {
        bump(&bin->count, (uint32_t)got - 1);
    }
    *ptr = blocks[0];
    count_small(node, cache, number, true);
    return WEIR_OK;
}

static weir_status take_from(weir__host_node *node, uint64_t size, uint64_t align, void **ptr)
{
    weir_host_pool *pool = node->pool;
    weir__host_cache *cache = weir__host_cache_of(node);
    if (size <= pool->small_most && align <= ALIGNMENT) {
        return take_small(node, cache, bin_for(pool, size), ptr);
    }
    weir_status status = WEIR_OK;
    weir__host_run *run = weir__host_node_take(node, pages_of(padded(pool, size)) * WEIR__HOST_PAGE, align, &status);
    if (run != NULL) {
        count_large(node, cache, run->size, true);
        *ptr = (void *)(uintptr_t)run->start;
    }
    return status;
}

/* The other nodes, where the one that was asked for has nothing: nearest first. */
static weir_status take_elsewhere(weir__host_node *node, uint64_t size, uint64_t align, void **ptr)
{
    weir_host_pool *pool = node->pool;
    uint64_t tried = 0;
    weir_status status = WEIR_ERR_NO_MEMORY;
    for (size_t round = 1; round < pool->node_count && round < 64 && status != WEIR_OK; round++) {
        size_t best = pool->node_count;
        uint32_t least = UINT32_MAX;
        for (size_t i = 0; i < pool->node_count && i < 64; i++) {
            const uint32_t distance = weir_topology_distance(pool->topology, node->number, pool->nodes[i].number);
            if (&pool->nodes[i] != node && (tried >> i & 1) == 0 && (best == pool->node_count || distance < least)) {
                best = i;
                least = distance;
            }
        }
        tried |= UINT64_C(1) << best;
        status = take_from(&pool->nodes[best], size, align, ptr);
    }
    return status;
}

/* Of the thread's cache for a node; false: it has none. */
static inline bool take_kept_small(const weir_host_pool *pool, weir__host_cache *cache, uint64_t size, void **ptr)
{
    weir__host_bin *bin = &cache->small[bin_for(pool, size)];
    const uint32_t count = atomic_load_explicit(&bin->count, memory_order_relaxed);
    if (WEIR__HOST_LIKELY(count > 0)) {
        *ptr = bin->blocks[count - 1];
        bump(&bin->count, count - 1);
        add(&bin->allocs, 1);
        return true;
    }
    return false;
}

static inline bool take_kept_large(const weir_host_pool *pool, weir__host_cache *cache, uint64_t size, void **ptr)
{
    const uint64_t pages = pages_of(padded(pool, size));
    weir__host_large_slot *slot = slot_for(cache, pages);
    const uint32_t count = atomic_load_explicit(&slot->count, memory_order_relaxed);
    if (WEIR__HOST_LIKELY(atomic_load_explicit(&slot->pages, memory_order_relaxed) == pages && count > 0)) {
        weir__host_run *run = slot->runs[count - 1];
        bump(&slot->count, count - 1);
        add(&slot->allocs, 1);
        atomic_store_explicit(&run->state, WEIR__HOST_RUN_LIVE, memory_order_relaxed);
        *ptr = (void *)(uintptr_t)run->start;
        return true;
    }
    return false;
}

static inline bool take_kept(const weir_host_pool *pool, weir__host_cache *cache, uint64_t size, void **ptr)
{
    return size <= pool->small_most ? take_kept_small(pool, cache, size, ptr) : take_kept_large(pool, cache, size, ptr);
}

/* Anything: bad arguments, another node than last time, or an empty cache. */
static OUT_OF_LINE weir_status alloc_slow(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t number, void **ptr)
{
    if (pool == NULL || ptr == NULL || size == 0 || size >= SIZE_LIMIT || align > MOST_ALIGN || (align & (align - 1)) != 0) {
        return WEIR_ERR_INVALID;
    }
    weir__host_node *node = node_for(pool, number);
    if (node == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir__host_cache *cache = weir__host_cache_of(node);
    if (cache != NULL && number < 0) {
        cache->home_left = pool->node_count == 1 ? UINT32_MAX : HOME_EVERY;
    }
    if (cache != NULL && align <= ALIGNMENT && take_kept(pool, cache, size, ptr)) {
        return WEIR_OK;
    }
    weir_status status = weir__host_pending_collect(pool, false, NULL, false);
    (void)status; /* what is not over yet stays */
    status = take_from(node, size, align, ptr);
    const bool strict = (pool->config.flags & WEIR_HOST_STRICT) != 0 && number != WEIR_HOST_ANY_NODE;
    if (status == WEIR_ERR_NO_MEMORY && !strict) {
        status = take_elsewhere(node, size, align, ptr);
    }
    if (status != WEIR_OK) {
        (void)atomic_fetch_add(&node->failures, 1);
    }
    return status;
}

/* Whether the cache in front is that of the node that is meant. */
static inline bool is_meant(weir__host_cache *cache, const weir_host_pool *pool, int32_t number)
{
    if (atomic_load_explicit(&cache->pool, memory_order_relaxed) != pool) {
        return false;
    }
    if (number < 0) {
        return number >= WEIR_HOST_ANY_NODE && cache->home_left != 0 && cache->home_left-- != 0;
    }
    return number == cache->number;
}

weir_status weir_host_alloc(weir_host_pool *pool, uint64_t size, int32_t node, void **ptr)
{
    weir__host_cache *cache = weir__host_mine;
    if (WEIR__HOST_LIKELY(pool != NULL && ptr != NULL && size - 1 < SIZE_LIMIT - 1 && is_meant(cache, pool, node) &&
                          take_kept(pool, cache, size, ptr))) {
        return WEIR_OK;
    }
    return alloc_slow(pool, size, 0, node, ptr);
}

weir_status weir_host_alloc_aligned(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t node, void **ptr)
{
    return alloc_slow(pool, size, align, node, ptr);
}

/* --- free --- */

/* Where the block begins that an address in a slab lies in; 0: it is not out of the engine, or none. */
static inline uint64_t block_around(const weir_host_pool *pool, const weir__host_run *run, const weir__host_slab *slab,
                                    uint64_t address, uint32_t bin)
{
    const weir__host_bin_shape *shape = &pool->bins[bin];
    const uint64_t offset = address - run->start;
    const uint64_t place = offset * shape->reciprocal >> WEIR__HOST_RECIPROCAL_SHIFT;
    if (place >= WEIR__HOST_SLAB_BLOCKS ||
        (atomic_load_explicit(&slab->taken[place / 64], memory_order_relaxed) >> (place % 64) & 1) == 0) {
        return 0;
    }
    return run->start + place * shape->bytes;
}

/* In checked builds a bin is searched for a block that is freed twice. */
static bool is_kept(const weir__host_bin *bin, const void *block)
{
    for (uint32_t i = 0; WEIR_CHECKS >= 1 && i < atomic_load_explicit(&bin->count, memory_order_relaxed); i++) {
        if (bin->blocks[i] == block) {
            return true;
        }
    }
    return false;
}

/* Whether the address is where a block begins that is out of the engine and not in this bin. */
static inline bool may_free_small(const weir_host_pool *pool, const weir__host_run *run, const weir__host_slab *slab,
                                  const void *ptr, uint32_t number, const weir__host_bin *bin)
{
    const uint64_t address = (uint64_t)(uintptr_t)ptr;
    return block_around(pool, run, slab, address, number) == address && (bin == NULL || !is_kept(bin, ptr));
}

static inline bool keep_small(weir__host_bin *bin, void *ptr)
{
    const uint32_t count = atomic_load_explicit(&bin->count, memory_order_relaxed);
    if (WEIR__HOST_LIKELY(count < bin->most)) {
        bin->blocks[count] = ptr;
        bump(&bin->count, count + 1);
        add(&bin->frees, 1);
        return true;
    }
    return false;
}

static inline bool keep_large(weir__host_large_slot *slot, weir__host_run *run)
{
    const uint32_t count = atomic_load_explicit(&slot->count, memory_order_relaxed);
    if (WEIR__HOST_LIKELY(atomic_load_explicit(&slot->pages, memory_order_relaxed) == run->size / WEIR__HOST_PAGE &&
                          count < slot->most)) {
        atomic_store_explicit(&run->state, WEIR__HOST_RUN_CACHED, memory_order_relaxed);
        slot->runs[count] = run;
        bump(&slot->count, count + 1);
        add(&slot->frees, 1);
        return true;
    }
    return false;
}

static weir_status free_small_slow(weir_host_pool *pool, weir__host_run *run, void *ptr)
{
    weir__host_node *node = run->node;
    const weir_host_engine_ops *engine = pool->config.engine;
    const weir__host_slab *slab = atomic_load_explicit(&run->slab, memory_order_relaxed);
    const uint32_t number = slab != NULL ? atomic_load_explicit(&slab->bin, memory_order_relaxed) : 0;
    weir__host_cache *cache = weir__host_cache_of(node);
    weir__host_bin *bin = cache != NULL ? &cache->small[number] : NULL;
    if (slab == NULL || !may_free_small(pool, run, slab, ptr, number, bin)) {
        return WEIR_ERR_INVALID;
    }
    if (bin != NULL && bin->count == bin->most && !weir__host_cache_widen(cache, number)) {
        weir__host_cache_halve(cache, number);
    }
    if (bin != NULL && keep_small(bin, ptr)) {
        return WEIR_OK;
    }
    if (!engine->release(node->engine, cache != NULL ? cache->engine_thread : NULL, &ptr, 1)) {
        return WEIR_ERR_INVALID;
    }
    count_small(node, cache, number, false);
    return WEIR_OK;
}

static weir_status free_large_slow(weir__host_run *run, const void *ptr)
{
    weir__host_node *node = run->node;
    const uint64_t bytes = run->size;
    weir__host_cache *cache = weir__host_cache_of(node);
    if (run->start != (uint64_t)(uintptr_t)ptr) {
        return WEIR_ERR_INVALID;
    }
    if (cache != NULL) {
        const uint64_t pages = bytes / WEIR__HOST_PAGE;
        weir__host_large_slot *slot = slot_for(cache, pages);
        if (keep_large(slot, run) || (weir__host_cache_widen_slot(cache, slot, pages) && keep_large(slot, run))) {
            return WEIR_OK;
        }
    }
    const weir_status status = weir__host_node_give(run, NULL);
    if (status == WEIR_OK) {
        count_large(node, cache, bytes, false);
    }
    return status;
}

static OUT_OF_LINE weir_status free_slow(weir_host_pool *pool, void *ptr)
{
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    if (ptr == NULL) {
        return WEIR_OK;
    }
    weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    if (state == WEIR__HOST_RUN_SLAB) {
        return free_small_slow(pool, run, ptr);
    }
    return state == WEIR__HOST_RUN_LIVE ? free_large_slow(run, ptr) : WEIR_ERR_INVALID;
}

weir_status weir_host_free(weir_host_pool *pool, void *ptr)
{
    weir__host_cache *cache = weir__host_mine;
    weir__host_run *run = pool != NULL ? weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr) : NULL;
    if (WEIR__HOST_LIKELY(run != NULL && run->node == atomic_load_explicit(&cache->node, memory_order_relaxed))) {
        const weir__host_slab *slab = atomic_load_explicit(&run->slab, memory_order_relaxed);
        if (slab != NULL) {
            const uint32_t number = atomic_load_explicit(&slab->bin, memory_order_relaxed);
            weir__host_bin *bin = &cache->small[number];
            if (WEIR__HOST_LIKELY(may_free_small(pool, run, slab, ptr, number, bin) && keep_small(bin, ptr))) {
                return WEIR_OK;
            }
        } else if (WEIR__HOST_LIKELY(atomic_load_explicit(&run->state, memory_order_relaxed) == WEIR__HOST_RUN_LIVE &&
                                     run->start == (uint64_t)(uintptr_t)ptr &&
                                     keep_large(slot_for(cache, run->size / WEIR__HOST_PAGE), run))) {
            return WEIR_OK;
        }
    }
    return free_slow(pool, ptr);
}

weir_status weir_host_free_sized(weir_host_pool *pool, void *ptr, uint64_t size)
{
    /* The size saves nothing as long as the address has to tell the node; it is a check. */
    if (pool != NULL && ptr != NULL) {
        weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
        if (size == 0 || run == NULL || size > run->size) {
            return WEIR_ERR_INVALID;
        }
    }
    return weir_host_free(pool, ptr);
}

static weir_status free_large_after(weir__host_run *run, const void *ptr, void *native)
{
    weir__host_node *node = run->node;
    const uint64_t bytes = run->size;
    weir_stream *stream = NULL;
    if (run->start != (uint64_t)(uintptr_t)ptr) {
        return WEIR_ERR_INVALID;
    }
    weir_status status = weir_pool_stream(run->pages, native, &stream);
    if (status == WEIR_OK) {
        status = weir__host_node_give(run, stream);
    }
    if (status == WEIR_OK) {
        count_large(node, weir__host_cache_of(node), bytes, false);
    }
    return status;
}

static weir_status free_small_after(weir__host_run *run, void *ptr, void *native)
{
    weir__host_node *node = run->node;
    const weir__host_slab *slab = atomic_load_explicit(&run->slab, memory_order_relaxed);
    const uint32_t bin = atomic_load_explicit(&slab->bin, memory_order_relaxed);
    if (block_around(node->pool, run, slab, (uint64_t)(uintptr_t)ptr, bin) != (uint64_t)(uintptr_t)ptr) {
        return WEIR_ERR_INVALID;
    }
    const weir_status status = weir__host_pending_add(node, ptr, node->pool->bins[bin].bytes, native);
    if (status == WEIR_OK) {
        count_small(node, weir__host_cache_of(node), bin, false);
    }
    return status;
}

weir_status weir_host_free_after(weir_host_pool *pool, void *ptr, void *native_stream)
{
    if (pool == NULL || ptr == NULL) {
        return pool == NULL ? WEIR_ERR_INVALID : WEIR_OK;
    }
    if (pool->runtime.device == NULL) {
        return WEIR_ERR_UNSUPPORTED;
    }
    weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    if (state == WEIR__HOST_RUN_SLAB) {
        return free_small_after(run, ptr, native_stream);
    }
    return state == WEIR__HOST_RUN_LIVE ? free_large_after(run, ptr, native_stream) : WEIR_ERR_INVALID;
}

static void keep_first(weir_status *first, weir_status status)
{
    *first = *first != WEIR_OK ? *first : status;
}

weir_status weir_host_stream_retire(weir_host_pool *pool, void *native_stream)
{
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    if (pool->runtime.device == NULL) {
        return WEIR_ERR_UNSUPPORTED;
    }
    weir_status first = weir__host_pending_collect(pool, true, native_stream, true);
    for (size_t i = 0; i < pool->node_count && first == WEIR_OK; i++) {
        weir_pool *pages[] = {pool->nodes[i].given, pool->nodes[i].mapped};
        for (size_t j = 0; j < 2; j++) {
            weir_stream *stream = NULL;
            if (pages[j] != NULL && weir_pool_stream(pages[j], native_stream, &stream) == WEIR_OK) {
                keep_first(&first, weir_stream_retire(pages[j], stream));
            }
        }
    }
    return first;
}

/* --- questions --- */

weir_status weir_host_query(weir_host_pool *pool, const void *ptr, weir_host_info *info)
{
    if (pool == NULL || ptr == NULL || info == NULL) {
        return WEIR_ERR_INVALID;
    }
    const uint64_t address = (uint64_t)(uintptr_t)ptr;
    const weir__host_run *run = weir__host_run_at(&pool->registry, address);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    weir_host_info found = WEIR_HOST_INFO_INIT;
    if (state == WEIR__HOST_RUN_LIVE) {
        found.block = (void *)(uintptr_t)run->start;
        found.size = run->size - pool->pad;
    } else if (state == WEIR__HOST_RUN_SLAB) {
        const weir__host_slab *slab = atomic_load_explicit(&run->slab, memory_order_relaxed);
        const uint32_t bin = atomic_load_explicit(&slab->bin, memory_order_relaxed);
        found.block = (void *)(uintptr_t)block_around(pool, run, slab, address, bin);
        found.size = pool->bins[bin].bytes - pool->pad;
    }
    if (found.block == NULL) {
        return WEIR_ERR_INVALID;
    }
    const weir__host_leaf *leaf = weir__host_leaf_at(&pool->registry, address);
    const weir__host_chunk *chunk = atomic_load_explicit(&leaf->chunk, memory_order_acquire);
    if (chunk == NULL) {
        return WEIR_ERR_INVALID;
    }
    found.node = run->node->number;
    found.kind = chunk->kind;
    found.is_pinned = chunk->kind != WEIR_HOST_UNPINNED;
    found.is_verified = chunk->is_verified;
    found.misplaced_bytes = chunk->misplaced_bytes;
    return weir__config_report(info, &found, sizeof found);
}

/* Bytes freed after the work of some stream that the host has not seen complete. */
static bool add_pending(void *ctx, const weir_walk_entry *entry)
{
    uint64_t *pending = ctx;
    const bool waits = entry->state == WEIR_WALK_PENDING ||
                       (entry->state == WEIR_WALK_FREE && entry->stream > 1); /* 1: the host, the first that was asked for */
    *pending += waits ? entry->size : 0;
    return true;
}

static void add_node(weir__host_node *node, weir_host_stats *stats)
{
    weir_pool *pages[] = {node->given, node->mapped};
    stats->pending_bytes += atomic_load(&node->pending_bytes);
    for (size_t i = 0; i < 2; i++) {
        if (pages[i] != NULL) {
            const weir_status status = weir_pool_walk(pages[i], add_pending, &stats->pending_bytes);
            (void)status;
        }
    }
    stats->failures += atomic_load(&node->failures);
    (void)pthread_mutex_lock(&node->chunk_lock);
    const weir_host_stats *held = &node->held;
    stats->held_bytes += held->held_bytes;
    stats->pinned_bytes += held->pinned_bytes;
    stats->unpinned_bytes += held->unpinned_bytes;
    stats->misplaced_bytes += held->misplaced_bytes;
    stats->unverified_bytes += held->unverified_bytes;
    stats->peak_held_bytes += held->peak_held_bytes;
    stats->chunks += held->chunks;
    stats->pin_ns += held->pin_ns;
    stats->unpin_ns += held->unpin_ns;
    for (size_t kind = 0; kind < WEIR_HOST_KIND_COUNT; kind++) {
        stats->kind_bytes[kind] += held->kind_bytes[kind];
        stats->kind_failures[kind] += held->kind_failures[kind];
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
}

weir_status weir_host_get_stats(weir_host_pool *pool, int32_t number, weir_host_stats *stats)
{
    if (pool == NULL || stats == NULL) {
        return WEIR_ERR_INVALID;
    }
    weir__host_node *only = NULL;
    if (number != WEIR_HOST_ANY_NODE) {
        only = number == WEIR_HOST_THREAD_NODE ? home_node(pool) : weir__host_node_numbered(pool, number);
        if (only == NULL) {
            return WEIR_ERR_INVALID;
        }
    }
    weir_host_stats found = WEIR_HOST_STATS_INIT;
    for (size_t i = 0; i < pool->node_count; i++) {
        if (only == NULL || only == &pool->nodes[i]) {
            add_node(&pool->nodes[i], &found);
        }
    }
    weir__host_cache_counts(pool, only, &found);
    return weir__config_report(stats, &found, sizeof found);
}

/* --- upkeep --- */

weir_status weir_host_trim(weir_host_pool *pool, uint64_t keep_bytes, uint64_t *released)
{
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    const uint64_t before = atomic_load(&pool->held_bytes);
    weir__host_cache_flush_mine(pool);
    weir_status first = weir__host_pending_collect(pool, false, NULL, false);
    for (size_t i = 0; i < pool->node_count; i++) {
        weir__host_node *node = &pool->nodes[i];
        weir_pool *pages[] = {node->given, node->mapped};
        weir__host_cache *cache = weir__host_cache_of(node);
        pool->config.engine->trim(node->engine, cache != NULL ? cache->engine_thread : NULL);
        for (size_t j = 0; j < 2; j++) {
            weir_stats stats = WEIR_STATS_INIT;
            const uint64_t held = atomic_load(&pool->held_bytes);
            if (pages[j] == NULL || held <= keep_bytes || weir_pool_stats(pages[j], &stats) != WEIR_OK) {
                continue;
            }
            const uint64_t surplus = held - keep_bytes;
            const uint64_t keep = stats.reserved_bytes > surplus ? stats.reserved_bytes - surplus : 0;
            keep_first(&first, weir_pool_trim(pages[j], keep, 0, NULL));
        }
    }
    const uint64_t after = atomic_load(&pool->held_bytes);
    if (released != NULL) {
        *released = before > after ? before - after : 0;
    }
    return first;
}

size_t weir_host_explain(weir_host_pool *pool, int32_t number, char *text, size_t size)
{
    size_t length = 0;
    const weir__host_node *node = pool != NULL ? node_for(pool, number) : NULL;
    if (size > 0) {
        text[0] = '\0';
    }
    if (node == NULL) {
        return 0;
    }
    weir__host_node *locked = (weir__host_node *)node;
    (void)pthread_mutex_lock(&locked->chunk_lock);
    for (size_t kind = 0; kind < WEIR_HOST_KIND_COUNT; kind++) {
        if (node->reasons[kind][0] != '\0') {
            const int added = snprintf(length < size ? text + length : NULL, length < size ? size - length : 0, "%s: %s\n",
                                       weir_host_kind_name((weir_host_kind)kind), node->reasons[kind]);
            length += added > 0 ? (size_t)added : 0;
        }
    }
    (void)pthread_mutex_unlock(&locked->chunk_lock);
    return length;
}

weir_status weir_host_check(weir_host_pool *pool, const char **why)
{
    const char *broken = NULL;
    weir_status status = pool != NULL ? WEIR_OK : WEIR_ERR_INVALID;
    for (size_t i = 0; status == WEIR_OK && i < pool->node_count; i++) {
        weir__host_node *node = &pool->nodes[i];
        weir_pool *pages[] = {node->given, node->mapped};
        if (!pool->config.engine->check(node->engine, &broken)) {
            status = WEIR_ERR_INTERNAL;
        }
        for (size_t j = 0; j < 2 && status == WEIR_OK; j++) {
            status = pages[j] != NULL ? weir_pool_check(pages[j], &broken) : WEIR_OK;
        }
    }
    if (why != NULL && status == WEIR_ERR_INTERNAL) {
        *why = broken;
    }
    return status;
}
