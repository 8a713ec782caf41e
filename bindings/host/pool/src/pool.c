/* pool.c: the public functions of the host pool.
 *
 * A block of less than 64 KiB comes from the node's engine; a larger block is a run of pages. The thread's cache comes
 * before both. A hit in the cache takes no lock and writes no shared memory: each thread has its own counters. A free
 * finds the block from the address alone (registry.h).
 */
#include "cgroup.h"
#include "front.h"
#include "host_internal.h"
#include "numa_pages.h"
#include "shared/hold.h"
#include "shared/leftovers.h"
#include "tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAD = 32 }; /* the rule of aclrtMallocHost for memory that is carved up */
#define SIZE_LIMIT (UINT64_C(1) << 46)

/* --- names --- */

const char *weir_host_kind_name(weir_host_kind kind)
{
    static const char *const names[] = {"runtime", "registered", "huge", "transparent", "locked", "unpinned"};
    _Static_assert(sizeof(names) / sizeof(names[0]) == WEIR_HOST_KIND_COUNT, "a name for each kind");
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

/* Returns the size to request for a small block at a multiple of `align`, when `align` exceeds the pool's alignment. If
 * a size is a multiple of `align`, all blocks of that size lie at multiples of `align`. */
static uint64_t size_for_align(const weir_host_pool *pool, uint64_t size, uint64_t align)
{
    WEIR_ASSERT(align > pool->align && align <= WEIR__HOST_ALIGNMENT);
    return ((size + pool->pad + align - 1) & ~(align - 1)) - pool->pad;
}

/* --- life --- */

#define REFUSE_CREATE(...) weir_refuse(WEIR_ERR_INVALID, "weir_host_pool_create: config." __VA_ARGS__)

static uint64_t least_chunk(const weir_host_pool_config *config)
{
    return weir__host_is_pageable(config) ? LEAST_PAGEABLE : LEAST_CHUNK;
}

static weir_status check_pageable(const weir_host_pool_config *config)
{
    if (config->runtime != NULL) {
        return REFUSE_CREATE("runtime is set, which WEIR_HOST_PAGEABLE in config.flags excludes");
    }
    if ((config->flags & WEIR_HOST_STRICT) != 0) {
        return REFUSE_CREATE("flags has WEIR_HOST_STRICT, which WEIR_HOST_PAGEABLE excludes");
    }
    if (config->kinds != 0 && config->kinds != 1u << WEIR_HOST_UNPINNED) {
        return REFUSE_CREATE("kinds is 0x%x; with WEIR_HOST_PAGEABLE only WEIR_HOST_UNPINNED may be used",
                             config->kinds);
    }
    return WEIR_OK;
}

static weir_status check_config(const weir_host_pool_config *config)
{
    const uint32_t flags =
        WEIR_HOST_NO_PAD | WEIR_HOST_STRICT | WEIR_HOST_ALLOW_UNPINNED | WEIR_HOST_NO_THREAD_CACHE | WEIR_HOST_PAGEABLE;
    const uint32_t kinds = (1u << WEIR_HOST_KIND_COUNT) - 1;
    const bool unpinned = (config->kinds & 1u << WEIR_HOST_UNPINNED) != 0;
    const uint64_t chunk = config->chunk_bytes;
    if ((config->flags & ~flags) != 0) {
        return REFUSE_CREATE("flags has unknown bits 0x%x", config->flags & ~flags);
    }
    if ((config->kinds & ~kinds) != 0) {
        return REFUSE_CREATE("kinds has unknown bits 0x%x", config->kinds & ~kinds);
    }
    if (unpinned && (config->flags & (WEIR_HOST_ALLOW_UNPINNED | WEIR_HOST_PAGEABLE)) == 0) {
        return REFUSE_CREATE("kinds has WEIR_HOST_UNPINNED, but config.flags has no WEIR_HOST_ALLOW_UNPINNED");
    }
    if (chunk != 0 && ((chunk & (chunk - 1)) != 0 || chunk < least_chunk(config) || chunk > 1 << 30)) {
        return REFUSE_CREATE("chunk_bytes %llu is not a power of two from %llu to 1 GiB", (unsigned long long)chunk,
                             (unsigned long long)least_chunk(config));
    }
    return weir__host_is_pageable(config) ? check_pageable(config) : WEIR_OK;
}

/* Returns a bit for each kind of memory that may be used with this runtime, or 0 if there is none. */
static uint32_t usable_kinds(const weir_host_pool_config *config, const weir_host_runtime *runtime)
{
    uint32_t kinds = config->kinds;
    if (weir__host_is_pageable(config)) {
        return 1u << WEIR_HOST_UNPINNED;
    }
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

/* Returns the largest chunk size up to the configured one that fits the limit and one call of the runtime. It is at
 * least a page of the system: advice for a part of a page applies to the whole page. */
static uint64_t chunk_that_fits(const weir_host_pool_config *config, const weir_host_runtime *runtime)
{
    const uint64_t page = weir__numa_page_bytes();
    const uint64_t least = least_chunk(config) > page ? least_chunk(config) : page;
    const uint64_t usual = weir__host_is_pageable(config) ? DEFAULT_PAGEABLE : DEFAULT_CHUNK;
    uint64_t chunk = config->chunk_bytes != 0 ? config->chunk_bytes : usual;
    chunk = chunk > least ? chunk : least;
    const bool has_runtime = (config->kinds & (1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED)) != 0;
    const uint64_t limit = config->limit_bytes != 0 ? config->limit_bytes : UINT64_MAX;
    const uint64_t most = has_runtime && runtime->most_bytes < limit ? runtime->most_bytes : limit;
    while (chunk > most && chunk > least) {
        chunk /= 2;
    }
    return chunk;
}

static weir_status adopt(weir_host_pool *pool, const weir_host_pool_config *config)
{
    static const weir_host_pool_config defaults = WEIR_HOST_POOL_CONFIG_INIT;
    weir_status status = weir_struct_adopt(&pool->config, sizeof(pool->config), config != NULL ? config : &defaults,
                                           "weir_host_pool_create: config");
    if (status == WEIR_OK && pool->config.runtime != NULL) {
        status = weir_struct_adopt(&pool->runtime, sizeof(pool->runtime), pool->config.runtime,
                                   "weir_host_pool_create: config.runtime");
    }
    if (status == WEIR_OK && pool->runtime.ops != NULL) {
        status = weir_struct_adopt(&pool->runtime_ops, sizeof(pool->runtime_ops), pool->runtime.ops,
                                   "weir_host_pool_create: config.runtime.ops");
        pool->runtime.ops = &pool->runtime_ops;
    }
    if (status != WEIR_OK) {
        return status;
    }
    weir_host_pool_config *own = &pool->config;
    status = check_config(own);
    if (status != WEIR_OK) {
        return status;
    }
    const uint32_t asked = own->kinds;
    if (pool->runtime.most_bytes == 0) {
        pool->runtime.most_bytes = UINT64_C(1) << 30;
    }
    own->kinds = usable_kinds(own, &pool->runtime);
    own->runtime = NULL;
    own->chunk_bytes = chunk_that_fits(own, &pool->runtime);
    own->thread_cache_bytes = own->thread_cache_bytes != 0 ? own->thread_cache_bytes : DEFAULT_CACHE;
    own->engine = own->engine != NULL ? own->engine : weir_host_classes_engine();
    pool->small_bytes = weir__host_is_pageable(own) ? PAGEABLE_SMALL : WEIR__HOST_SMALL_BYTES;
    pool->pad = (own->flags & WEIR_HOST_NO_PAD) != 0 ? 0 : PAD;
    pool->align = weir__host_is_pageable(own) ? WEIR__HOST_FINE_ALIGNMENT : WEIR__HOST_ALIGNMENT;
    return own->kinds != 0 ? WEIR_OK
                           : REFUSE_CREATE("kinds 0x%x needs a runtime whose functions config.runtime lacks", asked);
}

static weir_status look_at_machine(weir_host_pool *pool)
{
    weir_status status = WEIR_OK;
    pool->topology = pool->config.topology;
    if (pool->topology == NULL && !weir__host_is_pageable(&pool->config)) {
        status = weir_topology_create(NULL, &pool->own_topology);
        pool->topology = pool->own_topology;
    } else if (pool->topology != NULL) {
        weir__topology_keep(pool->topology);
        pool->own_topology = (weir_topology *)(uintptr_t)pool->topology; /* this pool's share of it */
    }
    return status == WEIR_ERR_UNSUPPORTED
               ? weir_refuse(
                     status,
                     "weir_host_pool_create: the system tells nothing of its memory, and config.topology is NULL")
               : status;
}

static bool is_usable(const weir_topology *topology, size_t i, weir_node_info *info)
{
    info->struct_size = sizeof(*info);
    return weir_topology_node(topology, i, info) == WEIR_OK && info->is_allowed && info->is_host_memory;
}

/* Fills the table of bins, which are the same for the engines of all nodes. */
static void list_bins(weir_host_pool *pool)
{
    WEIR_ASSERT(pool->node_count != 0);
    const weir_host_engine_ops *engine = pool->config.engine;
    uint32_t bin = 0;
    for (uint64_t unit = 0; padded(pool, (unit + 1) * UNIT) < pool->small_bytes; unit++) {
        uint64_t bytes = engine->bin_bytes(pool->nodes[0].engine, bin);
        while (bytes < padded(pool, (unit + 1) * UNIT)) {
            bytes = engine->bin_bytes(pool->nodes[0].engine, ++bin);
        }
        pool->bin_of[unit] = (uint8_t)bin;
        pool->small_most = (unit + 1) * UNIT;
    }
    pool->bin_count = bin + 1;
    WEIR_ASSERT(pool->bin_count <= WEIR__HOST_BINS && pool->small_most < pool->small_bytes);
    for (bin = 0; bin < pool->bin_count; bin++) {
        const uint64_t bytes = engine->bin_bytes(pool->nodes[0].engine, bin);
        WEIR_ASSERT(bytes != 0 && bytes % pool->align == 0);
        pool->bins[bin] = (weir__host_bin_shape){
            .bytes = bytes, .reciprocal = (UINT64_C(1) << WEIR__HOST_RECIPROCAL_SHIFT) / bytes + 1};
    }
}

static weir_status make_nodes(weir_host_pool *pool)
{
    const bool is_pageable = weir__host_is_pageable(&pool->config);
    const size_t count = is_pageable ? 0 : weir_topology_node_count(pool->topology);
    weir_node_info info = WEIR_NODE_INFO_INIT;
    pool->nodes = calloc(count != 0 ? count : 1, sizeof(*pool->nodes));
    weir_status status = pool->nodes != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK && is_pageable) {
        status = weir__host_node_init(&pool->nodes[pool->node_count++], pool, WEIR_NODE_NONE);
    }
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        if (is_usable(pool->topology, i, &info)) {
            status = weir__host_node_init(&pool->nodes[pool->node_count++], pool, info.node);
        }
    }
    if (status == WEIR_OK && pool->node_count == 0) {
        status = weir_refuse(WEIR_ERR_UNSUPPORTED,
                             "weir_host_pool_create: config.topology has no node with host memory that this "
                             "process may use");
    }
    if (status == WEIR_OK) {
        list_bins(pool);
    }
    return status;
}

/* Returns the number of the pool's node with the least distance from the machine's node `number`, or
 * WEIR_HOST_THREAD_NODE if it is unknown. */
static int32_t node_nearest_to(weir_host_pool *pool, int32_t number)
{
    int32_t best = WEIR_HOST_THREAD_NODE;
    uint32_t least = UINT32_MAX;
    if (number < 0 || weir__host_node_numbered(pool, number) != NULL) {
        return number < 0 ? WEIR_HOST_THREAD_NODE : number;
    }
    for (size_t i = 0; i < pool->node_count; i++) {
        const uint32_t distance = weir_topology_distance(pool->topology, number, pool->nodes[i].number);
        if (distance != 0 && distance < least) {
            best = pool->nodes[i].number;
            least = distance;
        }
    }
    return best;
}

static void find_device_node(weir_host_pool *pool)
{
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    pool->device_node = WEIR_HOST_THREAD_NODE;
    if (pool->runtime.device != NULL && weir_device_get_info(pool->runtime.device, &info) == WEIR_OK) {
        pool->device_node = node_nearest_to(pool, info.host_numa_node);
    }
}

int32_t weir_host_device_node(const weir_host_pool *pool)
{
    return pool != NULL ? pool->device_node : WEIR_HOST_THREAD_NODE;
}

static void keep_first(weir_status *first, weir_status status)
{
    *first = *first != WEIR_OK ? *first : status;
}

/* Gives the memory of all nodes back. May be called again. Returns the first failure; *is_empty becomes false if the
 * runtime has not taken everything back. */
static weir_status empty(weir_host_pool *pool, bool *is_empty)
{
    WEIR_ASSERT(atomic_load_explicit(&pool->holds, memory_order_relaxed) == 0);
    weir_status first = WEIR_OK;
    *is_empty = true;
    for (size_t i = 0; i < pool->node_count; i++) {
        keep_first(&first, weir__host_node_empty(&pool->nodes[i], is_empty));
    }
    return first;
}

static void free_pool(weir_host_pool *pool)
{
    WEIR_ASSERT(atomic_load_explicit(&pool->holds, memory_order_relaxed) == 0);
    for (size_t i = 0; i < pool->node_count; i++) {
        weir__host_node_fini(&pool->nodes[i]);
    }
    weir__host_pending_destroy(pool->pending);
    weir__host_registry_fini(&pool->registry);
    weir__slab_fini(&pool->runs);
    weir_topology_destroy(pool->own_topology);
    (void)pthread_mutex_destroy(&pool->decay.lock);
    (void)pthread_mutex_destroy(&pool->lock);
    (void)pthread_mutex_destroy(&pool->runtime_lock);
    free(pool->at_last);
    free(pool->nodes);
    free(pool);
}

/* Ends a pool later, when its device calls: the first failure may have been one of a short time. */
static weir_status end_left(void *device, weir__leftover *left)
{
    weir_host_pool *pool = left->object;
    WEIR_ASSERT(pool->runtime.device == device && pool->at_last == NULL);
    (void)device;
    bool is_empty = true;
    const weir_status status = empty(pool, &is_empty);
    if (is_empty) {
        free_pool(pool);
        return WEIR_OK;
    }
    return status;
}

/* Leaves a pool whose memory the runtime has not taken back to the runtime's device. The bytes no longer count under a
 * shared limit, which may end before the device. */
static void leave_to_device(weir_host_pool *pool)
{
    WEIR_ASSERT(pool->at_last != NULL && pool->runtime.device != NULL);
    weir__leftover *left = pool->at_last;
    pool->at_last = NULL;
    left->object = pool;
    if (pool->ledger->shared != NULL) {
        weir__shared_limit_give(pool->ledger->shared, atomic_load(&pool->ledger->held_bytes));
        pool->ledger->shared = NULL;
    }
    (void)!weir__device_give_back(pool->runtime.device, left);
}

/* Ends a pool that may be initialized in part. */
static weir_status end(weir_host_pool *pool)
{
    bool is_empty = true;
    weir_device *device = pool->runtime.device;
    weir_status first = empty(pool, &is_empty);
    if (!is_empty && device != NULL) {
        leave_to_device(pool);
    } else {
        pool->is_abandoned = true; /* nothing tells if a runtime without a device still lives later */
        (void)empty(pool, &is_empty);
        free_pool(pool);
    }
    if (device != NULL) {
        keep_first(&first, weir_device_release(device));
    }
    return first;
}

weir_status weir_host_pool_create(const weir_host_pool_config *config, weir_host_pool **out)
{
    return weir__host_pool_create_in(config, NULL, out);
}

/* Gives idle memory back, because another member of the shared limit lacks it. */
static void trim_limited(weir__limit_member *member)
{
    weir_host_pool *pool = (weir_host_pool *)(void *)((char *)member - offsetof(weir_host_pool, limited));
    const weir_status status = weir_host_trim(pool, 0, NULL);
    (void)status; /* after a failed trim, too, the other member tries its request again */
}

weir_status weir__host_pool_create_in(const weir_host_pool_config *config, weir__host_ledger *ledger,
                                      weir_host_pool **out)
{
    static _Atomic uint64_t last_serial;
    if (out == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_pool_create: pool is NULL");
    }
    weir_host_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    pool->serial = atomic_fetch_add(&last_serial, 1) + 1;
    pool->process = (long)getpid();
    weir_status status = adopt(pool, config);
    pool->own_ledger.limit_bytes = pool->config.limit_bytes;
    pool->own_ledger.shared = pool->config.shared_limit;
    pool->ledger = ledger != NULL ? ledger : &pool->own_ledger;
    if (weir__host_is_pageable(&pool->config)) {
        pool->ledger->machine_bytes = weir__host_machine_bytes();
        pool->ledger->is_in_group = weir__cgroup_read("").limit_bytes != UINT64_MAX;
    }
    pool->at_last = weir__leftover_new(end_left);
    if (status == WEIR_OK) {
        status = pool->at_last != NULL ? weir__host_registry_init(&pool->registry) : WEIR_ERR_NO_MEMORY;
    }
    if (status != WEIR_OK) {
        free(pool->at_last);
        free(pool);
        return status;
    }
    if (pool->runtime.device != NULL) {
        (void)!weir_device_hold(pool->runtime.device);
    }
    (void)pthread_mutex_init(&pool->lock, NULL);
    pool->runs = (weir__slab)WEIR__SLAB_INIT(weir__host_run, offsetof(weir__host_run, next), 64);
    (void)pthread_mutex_init(&pool->decay.lock, NULL);
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
        (void)ended; /* the pool held no memory yet */
        return status;
    }
    find_device_node(pool);
    if (pool->ledger->shared != NULL) {
        pool->limited.trim = trim_limited;
        weir__shared_limit_join(pool->ledger->shared, &pool->limited);
    }
    *out = pool;
    return WEIR_OK;
}

weir_status weir_host_pool_destroy(weir_host_pool *pool)
{
    if (pool == NULL || pool->process != (long)getpid()) {
        return WEIR_OK; /* a child of fork leaves the pool unchanged: core/README.md, Fork */
    }
    const unsigned holds = atomic_load_explicit(&pool->holds, memory_order_acquire);
    if (holds != 0) {
        return weir_refuse(WEIR_ERR_BUSY,
                           "weir_host_pool_destroy: the pool is held %u times, by heaps or by weir_host_pool_hold",
                           holds);
    }
    if (pool->ledger->shared != NULL) {
        weir__shared_limit_leave(pool->ledger->shared, &pool->limited);
    }
    weir__host_cache_orphan_all(pool);
    /* Waits for small blocks. For large blocks the weir pool of each node waits, when it is destroyed. */
    const weir_status waited = weir__host_pending_wait(pool);
    const weir_status ended = end(pool);
    return waited != WEIR_OK ? waited : ended;
}

weir_status weir_host_pool_hold(weir_host_pool *pool)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_pool_hold: pool is NULL");
    }
    (void)atomic_fetch_add_explicit(&pool->holds, 1, memory_order_relaxed);
    return WEIR_OK;
}

weir_status weir_host_pool_release(weir_host_pool *pool)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_pool_release: pool is NULL");
    }
    if (!weir__release_hold(&pool->holds)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_pool_release: pool is not held");
    }
    return WEIR_OK;
}

uint64_t weir__host_bytes_for(const weir_host_pool *pool, uint64_t size, uint64_t align)
{
    WEIR_ASSERT(size != 0 && (align & (align - 1)) == 0);
    if (align > pool->align && align <= WEIR__HOST_ALIGNMENT) {
        size = size_for_align(pool, size, align);
    }
    return size <= pool->small_most && align <= WEIR__HOST_ALIGNMENT ? pool->bins[bin_for(pool, size)].bytes
                                                                     : whole_pages(padded(pool, size));
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

/* Returns the calling thread's node, looked up once in HOME_EVERY calls: a thread seldom moves, and a lookup costs as
 * much as an allocation. */
static weir__host_node *home_node(weir_host_pool *pool)
{
    WEIR_ASSERT(pool->node_count != 0);
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

/* --- giving back --- */

static weir_status trim_nodes(weir_host_pool *pool, uint64_t keep_bytes, uint32_t flags)
{
    WEIR_ASSERT(pool->node_count != 0);
    weir_status first = WEIR_OK;
    weir__host_cache_flush_all(pool);
    for (size_t i = 0; i < pool->node_count; i++) {
        weir__host_node *node = &pool->nodes[i];
        weir_pool *pages[] = {node->given, node->mapped};
        weir__host_cache *cache = weir__host_cache_of(node);
        pool->config.engine->trim(node->engine, cache != NULL ? cache->engine_thread : NULL);
        for (size_t j = 0; j < 2; j++) {
            weir_pool_stats stats = WEIR_POOL_STATS_INIT;
            const uint64_t held = atomic_load(&pool->ledger->held_bytes);
            if (pages[j] == NULL || held <= keep_bytes || weir_pool_get_stats(pages[j], &stats) != WEIR_OK) {
                continue;
            }
            const uint64_t surplus = held - keep_bytes;
            const uint64_t keep = stats.reserved_bytes > surplus ? stats.reserved_bytes - surplus : 0;
            keep_first(&first, weir_pool_trim(pages[j], keep, flags, NULL));
        }
    }
    return first;
}

/* Returns whole chunks until at most `keep_bytes` are held. `flags` are those of weir_pool_trim. If another thread is
 * letting memory decay, waits until that thread has finished, because its memory counts as held until then. */
static weir_status trim(weir_host_pool *pool, uint64_t keep_bytes, uint32_t flags)
{
    if (!weir__host_is_pageable(&pool->config)) {
        return trim_nodes(pool, keep_bytes, flags);
    }
    (void)pthread_mutex_lock(&pool->decay.lock);
    const weir_status status = trim_nodes(pool, keep_bytes, flags);
    (void)pthread_mutex_unlock(&pool->decay.lock);
    return status;
}

/* --- counting: each thread in its own cache --- */

/* Counts a free that bypasses the thread's bin. */
static void count_small_free(weir__host_node *node, weir__host_cache *cache, uint32_t bin)
{
    WEIR_ASSERT(bin < node->pool->bin_count);
    if (cache != NULL) {
        add(&cache->small[bin].net, UINT64_MAX);
    } else {
        weir__host_count(node, false, node->pool->bins[bin].bytes);
    }
}

static void count_large(weir__host_node *node, weir__host_cache *cache, uint64_t size, bool alloc)
{
    WEIR_ASSERT(size != 0);
    if (cache != NULL) {
        add(alloc ? &cache->large_allocs : &cache->large_frees, 1);
        add(&cache->large_live_bytes, alloc ? size : 0 - size);
    } else {
        weir__host_count(node, alloc, size);
    }
}

/* --- marks (state bytes) of small blocks, see engine.h --- */

/* Takes a block back from the caller. Returns false if the block is not live, because another thread has freed it
 * meanwhile. */
static bool take_back(weir__host_mark *mark)
{
    uint8_t live = WEIR__HOST_LIVE;
    return atomic_compare_exchange_strong(mark, &live, WEIR__HOST_OUT);
}

/* Takes a page run back from the caller. Returns false if the run is not live: another thread has freed it. */
static inline bool claim(weir__host_run *run)
{
    WEIR_ASSERT(run->size != 0);
    uint32_t live = WEIR__HOST_RUN_LIVE;
    return atomic_compare_exchange_strong(&run->state, &live, WEIR__HOST_RUN_CACHED);
}

static void unclaim(weir__host_run *run)
{
    WEIR_ASSERT(run->state == WEIR__HOST_RUN_CACHED);
    run->state = WEIR__HOST_RUN_LIVE;
}

bool weir__host_find_leaf(weir__host_cache *cache, const weir_host_pool *pool, uint64_t address)
{
    weir__host_leaf *leaf = weir__host_leaf_at(&pool->registry, address);
    if (leaf != NULL) {
        cache->leaf = leaf;
        cache->leaf_key = address >> WEIR__HOST_LEAF_SHIFT;
    }
    return leaf != NULL;
}

/* --- alloc --- */

/* Takes a batch of blocks from the engine: one for the caller, and others to fill the thread's empty bin up to half its
 * capacity. */
static weir_status take_small(weir__host_node *node, weir__host_cache *cache, uint32_t number, void **ptr)
{
    WEIR_ASSERT(number < node->pool->bin_count);
    const weir_host_engine_ops *engine = node->pool->config.engine;
    weir__host_kept one;
    if (cache == NULL) {
        if (engine->alloc(node->engine, NULL, number, &one, 1) == 0) {
            return WEIR_ERR_NO_MEMORY;
        }
        weir__host_count(node, true, node->pool->bins[number].bytes);
        *ptr = hand_out(one);
        return WEIR_OK;
    }
    weir__host_kept batch[BATCH];
    const size_t wanted = weir__host_cache_widen(cache, number);
    WEIR_ASSERT(wanted != 0 && wanted <= BATCH);
    const size_t got = engine->alloc(node->engine, cache->engine_thread, number, batch, wanted);
    if (got == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    WEIR_ASSERT(got <= wanted);
    add(&cache->small[number].allocs, 1);
    add(&cache->small[number].net, 1);
    weir__host_cache_fill(cache, number, batch + 1, got - 1);
    *ptr = hand_out(batch[0]);
    return WEIR_OK;
}

/* A request after its checks. */
struct request {
    uint64_t size;
    uint64_t align;
    bool is_bound; /* only the node that the request names may serve it, or the pool has only one node */
};

static weir_status take_from(weir__host_node *node, const struct request *r, void **ptr)
{
    WEIR_ASSERT(r->size != 0 && (r->align & (r->align - 1)) == 0);
    weir_host_pool *pool = node->pool;
    weir__host_cache *cache = weir__host_cache_of(node);
    void *kept = cache != NULL && r->align <= WEIR__HOST_ALIGNMENT ? take_kept(pool, cache, r->size).block : NULL;
    if (kept != NULL) {
        *ptr = kept;
        return WEIR_OK;
    }
    if (r->size <= pool->small_most && r->align <= WEIR__HOST_ALIGNMENT) {
        return take_small(node, cache, bin_for(pool, r->size), ptr);
    }
    weir_status status = WEIR_OK;
    weir__host_run *run = weir__host_node_take(node, whole_pages(padded(pool, r->size)), r->align, &status);
    if (run != NULL) {
        count_large(node, cache, run->size, true);
        WEIR_ASSERT(run->start % (r->align != 0 ? r->align : 1) == 0);
        *ptr = (void *)(uintptr_t)run->start;
    }
    return status;
}

/* True if `a` is nearer to `to` than `b` is. `to` is the nearest node to itself. Of equally near nodes, the first in
 * the list is nearer. */
static bool is_nearer(const weir__host_node *to, const weir__host_node *a, const weir__host_node *b)
{
    const weir_topology *topology = to->pool->topology;
    if (a == to || b == to) {
        return a == to && b != to;
    }
    const uint32_t first = weir_topology_distance(topology, to->number, a->number);
    const uint32_t second = weir_topology_distance(topology, to->number, b->number);
    return first != second ? first < second : a < b;
}

/* Returns the node to try in round `round`: first the node itself, then the nearest other node, and so on. */
static weir__host_node *in_turn(weir__host_node *node, size_t round)
{
    WEIR_ASSERT(round < node->pool->node_count);
    weir_host_pool *pool = node->pool;
    for (size_t i = 0; i < pool->node_count; i++) {
        weir__host_node *candidate = &pool->nodes[i];
        size_t nearer = 0;
        for (size_t j = 0; j < pool->node_count; j++) {
            nearer += is_nearer(node, &pool->nodes[j], candidate);
        }
        if (nearer == round) {
            return candidate;
        }
    }
    return node;
}

/* A node without memory refuses quickly, because it remembers a recent failure. */
static weir_status take(weir__host_node *node, const struct request *r, void **ptr)
{
    const size_t count = r->is_bound ? 1 : node->pool->node_count;
    weir_status status = take_from(node, r, ptr);
    for (size_t round = 1; status == WEIR_ERR_NO_MEMORY && round < count; round++) {
        status = take_from(in_turn(node, round), r, ptr);
    }
    return status;
}

static weir_status take_or_trim(weir__host_node *node, const struct request *r, void **ptr)
{
    weir_host_pool *pool = node->pool;
    weir_shared_limit *shared = pool->ledger->shared;
    void *block = NULL;
    if (shared != NULL && r->size > weir__shared_limit_bytes(shared)) {
        return WEIR_ERR_LIMIT; /* refuses the request before the pool takes chunks that it would have to give back */
    }
    weir__host_limit_refused = false;
    weir__host_cache_obey(pool);
    (void)weir__host_pending_collect(pool);
    weir_status status = take(node, r, &block);
    if (status == WEIR_ERR_NO_MEMORY) {
        /* Idle memory of other nodes and streams may count against the limit, or be memory that the system lacks. */
        (void)weir__host_pending_wait(pool);
        (void)trim(pool, 0, WEIR_TRIM_WAIT);
        if (shared != NULL) {
            weir__shared_limit_trim_others(shared, &pool->limited);
        }
        status = take(node, r, &block);
    }
    if (status == WEIR_OK) {
        *ptr = block;
        return WEIR_OK;
    }
    (void)atomic_fetch_add(&node->failures, 1);
    return status == WEIR_ERR_NO_MEMORY && weir__host_limit_refused ? WEIR_ERR_LIMIT : status;
}

/* Called by each slow path of a pool that decays, before it takes or gives back memory. The thread's hits look at the
 * clock soon afterwards, because the thread may make only few calls from now on. */
static void use_slowly(weir_host_pool *pool, weir__host_cache *cache)
{
    weir__host_decay_use(pool);
    if (weir__host_decays(pool) && cache != NULL && cache->home_left > DECAY_SELDOM &&
        atomic_load_explicit(&cache->pool, memory_order_relaxed) == pool) {
        cache->home_left = DECAY_SELDOM;
    }
}

/* Slow path of all allocations: invalid arguments, another node than last time, an empty or missing cache. */
static OUT_OF_LINE weir_status alloc_slow(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t number,
                                          void **ptr, const char *call)
{
    if (pool == NULL || ptr == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", call, pool == NULL ? "pool" : "ptr");
    }
    if (size == 0 || size >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: size %llu is not from 1 to 2^46 - 1", call, (unsigned long long)size);
    }
    if ((align & (align - 1)) != 0 || align >= SIZE_LIMIT) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: align %llu is not a power of two below 2^46", call,
                           (unsigned long long)align);
    }
    if (align > pool->align && align <= WEIR__HOST_ALIGNMENT) {
        size = size_for_align(pool, size, align);
    }
    weir__host_node *node = node_for(pool, number);
    if (node == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: node %d is no node of the pool", call, (int)number);
    }
    weir__host_cache *cache = weir__host_cache_of(node);
    if (cache != NULL && number < 0 && (cache->home_left == 0 || !weir__host_decays(pool))) {
        cache->home_left = weir__host_decays(pool) ? DECAY_EVERY : pool->node_count == 1 ? UINT32_MAX : HOME_EVERY;
    }
    void *kept = cache != NULL && align <= WEIR__HOST_ALIGNMENT ? take_kept(pool, cache, size).block : NULL;
    if (kept != NULL) {
        if (weir__host_decays(pool)) {
            /* Once in many hits, so that memory decays even if every call is a hit. */
            cache->home_left = weir__host_decay_look(pool) ? DECAY_EVERY : DECAY_SELDOM;
        }
        *ptr = kept;
        return WEIR_OK;
    }
    use_slowly(pool, cache);
    const bool strict = (pool->config.flags & WEIR_HOST_STRICT) != 0;
    const bool is_bound = pool->node_count == 1 || (strict && number != WEIR_HOST_ANY_NODE);
    const struct request r = {.size = size, .align = align, .is_bound = is_bound};
    return take_or_trim(node, &r, ptr);
}

weir_status weir_host_alloc(weir_host_pool *pool, uint64_t size, int32_t node, void **ptr)
{
    weir__host_cache *cache = weir__host_mine;
    if (WEIR__HOST_LIKELY(pool != NULL && ptr != NULL && size - 1 < SIZE_LIMIT - 1 && is_meant(cache, pool, node))) {
        void *kept = take_kept(pool, cache, size).block;
        if (WEIR__HOST_LIKELY(kept != NULL)) {
            *ptr = kept;
            return WEIR_OK;
        }
    }
    return alloc_slow(pool, size, 0, node, ptr, "weir_host_alloc");
}

weir_status weir_host_alloc_aligned(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t node, void **ptr)
{
    return alloc_slow(pool, size, align, node, ptr, "weir_host_alloc_aligned");
}

/* --- free --- */

/* Returns the mark (state byte) of the live block that begins at the address in a slab, or NULL. */
static weir__host_mark *live_mark_at(const weir_host_pool *pool, const weir__host_run *run, uint64_t address,
                                     uint32_t bin)
{
    WEIR_ASSERT(bin < pool->bin_count);
    weir__host_mark *mark = weir__host_mark_at(pool, run, address, bin);
    return mark != NULL && atomic_load_explicit(mark, memory_order_acquire) == WEIR__HOST_LIVE ? mark : NULL;
}

/* Returns the start of the live block around an address in a slab, or 0. */
static uint64_t block_around(const weir_host_pool *pool, const weir__host_run *run, uint64_t address, uint32_t bin)
{
    const weir__host_bin_shape *shape = &pool->bins[bin];
    const uint64_t start = atomic_load_explicit(&run->start, memory_order_relaxed);
    const uint64_t place = (address - start) * shape->reciprocal >> WEIR__HOST_RECIPROCAL_SHIFT;
    const uint64_t block = start + place * shape->bytes;
    return live_mark_at(pool, run, block, bin) != NULL ? block : 0;
}

uint64_t weir__host_keep_large(weir__host_cache *cache, weir__host_run *run, uint64_t address)
{
    if (atomic_load_explicit(&run->node, memory_order_relaxed) !=
        atomic_load_explicit(&cache->node, memory_order_relaxed)) {
        return 0;
    }
    const uint64_t size = atomic_load_explicit(&run->size, memory_order_relaxed);
    const bool kept = atomic_load_explicit(&run->state, memory_order_relaxed) == WEIR__HOST_RUN_LIVE &&
                      atomic_load_explicit(&run->start, memory_order_relaxed) == address &&
                      keep_large(slot_for(cache, size), run, size);
    return kept ? size : 0;
}

/* Returns the mark (state byte) of the live block that begins at `ptr`, or NULL. Stores the slab's bin in *bin. */
static weir__host_mark *live_mark(const weir_host_pool *pool, const weir__host_run *run, const void *ptr, uint32_t *bin)
{
    const weir__host_slab *slab = run->slab;
    *bin = slab != NULL ? count_of(&slab->bin) : 0;
    return live_mark_at(pool, run, (uint64_t)(uintptr_t)ptr, *bin);
}

/* True if a block of the bin may serve a request of `size` bytes, with the pool's alignment or a larger one. */
static bool may_be_in(const weir_host_pool *pool, uint64_t size, uint32_t bin)
{
    bool may = size <= pool->small_most && bin_for(pool, size) == bin;
    for (uint64_t align = 2 * pool->align; align <= WEIR__HOST_ALIGNMENT && !may; align *= 2) {
        const uint64_t aligned = size_for_align(pool, size, align);
        may = aligned <= pool->small_most && bin_for(pool, aligned) == bin;
    }
    return may;
}

/* Frees the small block at `ptr`. `size` is the size as requested, or 0 if unknown. *bytes receives the block's
 * size. */
static weir_status free_small(weir_host_pool *pool, weir__host_run *run, void *ptr, uint64_t size, uint64_t *bytes)
{
    weir__host_node *node = run->node;
    weir__host_cache *cache = weir__host_cache_of(node);
    uint32_t number = 0;
    weir__host_mark *mark = live_mark(pool, run, ptr, &number);
    if (mark == NULL || (size != 0 && !may_be_in(pool, size, number)) || !take_back(mark)) {
        return WEIR_ERR_INVALID;
    }
    *bytes = pool->bins[number].bytes;
    if (cache != NULL) {
        weir__host_bin *bin = &cache->small[number];
        if (keep_small(bin, ptr, mark)) {
            return WEIR_OK;
        }
        weir__host_cache_make_room(cache, number);
        if (keep_small(bin, ptr, mark)) {
            return WEIR_OK;
        }
    }
    const weir__host_kept kept = {ptr, mark};
    if (!pool->config.engine->release(node->engine, cache != NULL ? cache->engine_thread : NULL, number, &kept, 1)) {
        return WEIR_ERR_INVALID;
    }
    count_small_free(node, cache, number);
    return WEIR_OK;
}

/* Frees a page run in the order of `stream`, a stream of the run's weir_pool, or for reuse at once if it is NULL. */
static weir_status free_large(weir__host_run *run, const void *ptr, uint64_t size, weir_stream *stream)
{
    WEIR_ASSERT(stream == NULL || run->pages != NULL);
    weir__host_node *node = run->node;
    const uint64_t bytes = run->size;
    if (run->start != (uint64_t)(uintptr_t)ptr || (size != 0 && whole_pages(padded(node->pool, size)) != bytes) ||
        !claim(run)) {
        return WEIR_ERR_INVALID;
    }
    weir__host_cache *cache = weir__host_cache_of(node);
    if (cache != NULL && stream == NULL && bytes >= node->pool->small_bytes) {
        weir__host_large_slot *slot = slot_for(cache, bytes);
        if (keep_large(slot, run, bytes) ||
            (weir__host_cache_widen_slot(cache, slot, bytes) && keep_large(slot, run, bytes))) {
            return WEIR_OK;
        }
    }
    const weir_status status = weir__host_node_give(run, stream);
    if (status != WEIR_OK) {
        unclaim(run);
        return status;
    }
    count_large(node, cache, bytes, false);
    return WEIR_OK;
}

/* Frees any non-NULL address. Does not set weir_last_error, because a heap asks its two pools in turn. */
static OUT_OF_LINE weir_status free_slow(weir_host_pool *pool, void *ptr, uint64_t size, uint64_t *bytes)
{
    WEIR_ASSERT(ptr != NULL);
    weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    if (state != WEIR__HOST_RUN_SLAB && state != WEIR__HOST_RUN_LIVE) {
        return WEIR_ERR_INVALID;
    }
    use_slowly(pool, weir__host_mine);
    weir_status status = WEIR_OK;
    if (state == WEIR__HOST_RUN_SLAB) {
        status = free_small(pool, run, ptr, size, bytes);
    } else {
        *bytes = run->size;
        status = free_large(run, ptr, size, NULL);
    }
    if (pool->decay.at_once) {
        weir__host_decay_now(pool);
    }
    return status;
}

static weir_status refuse_free(const char *call, const void *ptr)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: ptr %p is not the start of a live block of the pool", call, ptr);
}

static OUT_OF_LINE weir_status free_anything(weir_host_pool *pool, void *ptr)
{
    uint64_t bytes = 0;
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_free: pool is NULL");
    }
    const weir_status status = ptr != NULL ? free_slow(pool, ptr, 0, &bytes) : WEIR_OK;
    return status == WEIR_ERR_INVALID ? refuse_free("weir_host_free", ptr) : status;
}

weir_status weir_host_free(weir_host_pool *pool, void *ptr)
{
    if (WEIR_CHECKS < 1 && WEIR__HOST_LIKELY(pool != NULL && keep_in_front(pool, ptr) != 0)) {
        return WEIR_OK;
    }
    return free_anything(pool, ptr);
}

weir_status weir__host_free_telling(weir_host_pool *pool, void *ptr, uint64_t *bytes)
{
    *bytes = WEIR_CHECKS < 1 ? keep_in_front(pool, ptr) : 0;
    return WEIR__HOST_LIKELY(*bytes != 0) ? WEIR_OK : free_slow(pool, ptr, 0, bytes);
}

weir_status weir_host_free_sized(weir_host_pool *pool, void *ptr, uint64_t size)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_free_sized: pool is NULL");
    }
    if (ptr == NULL) {
        return WEIR_OK;
    }
    uint64_t bytes = 0;
    const weir_status status = size - 1 < SIZE_LIMIT - 1 ? free_slow(pool, ptr, size, &bytes) : WEIR_ERR_INVALID;
    return status == WEIR_ERR_INVALID
               ? weir_refuse(status, "weir_host_free_sized: ptr %p is not the start of a live block for size %llu", ptr,
                             (unsigned long long)size)
               : status;
}

uint64_t weir__host_grow(weir_host_pool *pool, void *ptr, uint64_t size)
{
    WEIR_ASSERT(ptr != NULL && size != 0);
    weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    if (state != WEIR__HOST_RUN_LIVE || run->start != (uint64_t)(uintptr_t)ptr || size >= SIZE_LIMIT ||
        !weir__host_is_pageable(&pool->config)) {
        return 0;
    }
    const uint64_t before = run->size;
    const uint64_t bytes = whole_pages(padded(pool, size));
    const bool is_followed = weir__host_page_at(&pool->registry, run->start + before) != 0;
    if (bytes <= before || is_followed || !weir__host_node_grow(run, bytes)) {
        return 0;
    }
    weir__host_cache *cache = weir__host_cache_of(run->node);
    if (cache != NULL) {
        add(&cache->large_live_bytes, bytes - before);
    } else {
        weir__host_count_growth(run->node, bytes - before);
    }
    return bytes - pool->pad;
}

static weir_status free_large_after(weir__host_run *run, const void *ptr, void *native)
{
    WEIR_ASSERT(run->pages != NULL && ptr != NULL);
    weir_stream *stream = NULL;
    weir_status status = weir_pool_stream(run->pages, native, &stream); /* on failure weir_last_error names the
                                                                           stream */
    if (status == WEIR_OK) {
        status = free_large(run, ptr, 0, stream);
        status = status == WEIR_ERR_INVALID ? refuse_free("weir_host_free_after", ptr) : status;
    }
    return status;
}

static weir_status free_small_after(weir__host_run *run, void *ptr, void *native)
{
    WEIR_ASSERT(ptr != NULL);
    weir__host_node *node = run->node;
    uint32_t number = 0;
    weir__host_mark *mark = live_mark(node->pool, run, ptr, &number);
    if (mark == NULL || !take_back(mark)) {
        return refuse_free("weir_host_free_after", ptr);
    }
    const weir__host_kept kept = {ptr, mark};
    const weir_status status = weir__host_pending_add(node, kept, number, native);
    if (status == WEIR_OK) {
        count_small_free(node, weir__host_cache_of(node), number);
    } else {
        atomic_store(mark, WEIR__HOST_LIVE);
    }
    return status;
}

/* Returns false if the pool is NULL or has no streams, with the error in *status and a sentence for weir_last_error. */
static bool has_streams(const weir_host_pool *pool, const char *call, weir_status *status)
{
    if (pool == NULL) {
        *status = weir_refuse(WEIR_ERR_INVALID, "%s: pool is NULL", call);
        return false;
    }
    if (pool->runtime.device == NULL) {
        *status = weir_refuse(WEIR_ERR_UNSUPPORTED,
                              "%s: pool has no streams: it was created without config.runtime.device", call);
        return false;
    }
    return true;
}

/* Refuses a stream that is being captured: the graph reads and writes the memory in each launch. */
static weir_status refuse_captured(const weir_host_pool *pool, void *native_stream)
{
    uint64_t capture = 0;
    (void)!weir_device_stream_capture(pool->runtime.device, native_stream, &capture, NULL, NULL);
    return capture != 0 && capture != WEIR_CAPTURE_IMPLICIT
               ? weir_refuse(WEIR_ERR_BUSY,
                             "weir_host_free_after: stream %p is being captured: free the block when the graph is gone",
                             native_stream)
               : WEIR_OK;
}

weir_status weir_host_free_after(weir_host_pool *pool, void *ptr, void *native_stream)
{
    weir_status status = WEIR_OK;
    if (!has_streams(pool, "weir_host_free_after", &status) || ptr == NULL) {
        return status;
    }
    status = refuse_captured(pool, native_stream);
    if (status != WEIR_OK) {
        return status;
    }
    weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    if (state == WEIR__HOST_RUN_SLAB) {
        return free_small_after(run, ptr, native_stream);
    }
    return state == WEIR__HOST_RUN_LIVE ? free_large_after(run, ptr, native_stream)
                                        : refuse_free("weir_host_free_after", ptr);
}

weir_status weir_host_stream_retire(weir_host_pool *pool, void *native_stream)
{
    weir_status first = WEIR_OK;
    if (!has_streams(pool, "weir_host_stream_retire", &first)) {
        return first;
    }
    first = weir__host_pending_retire(pool, native_stream);
    for (size_t i = 0; i < pool->node_count; i++) {
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

/* --- queries --- */

/* Fills `kind`, `is_verified` and `misplaced_bytes` of *found from the chunks of its block. Returns false if a chunk is
 * missing. */
static bool ask_chunks(weir_host_pool *pool, weir__host_run *run, weir_host_info *found)
{
    WEIR_ASSERT(found->block != NULL && found->size != 0);
    const uint64_t step = UINT64_C(1) << WEIR__HOST_LEAF_SHIFT;
    const weir__host_chunk *last = NULL;
    const uint64_t start = (uint64_t)(uintptr_t)found->block;
    found->is_verified = true;
    for (uint64_t at = start; at < start + found->size; at = (at & ~(step - 1)) + step) {
        const weir__host_leaf *leaf = weir__host_leaf_at(&pool->registry, at);
        const weir__host_chunk *chunk = run->chunk;
        if (chunk == NULL && leaf != NULL) {
            chunk = atomic_load(&leaf->chunk);
        }
        if (chunk == NULL) {
            return false;
        }
        if (chunk != last) {
            found->kind = chunk->kind > (uint32_t)found->kind ? (weir_host_kind)chunk->kind : found->kind;
            found->is_verified = found->is_verified && chunk->is_verified;
            found->misplaced_bytes += chunk->misplaced_bytes;
            last = chunk;
        }
    }
    found->is_pinned = found->kind != WEIR_HOST_UNPINNED;
    return last != NULL;
}

bool weir__host_find(weir_host_pool *pool, const void *ptr, weir_host_info *info)
{
    const uint64_t address = (uint64_t)(uintptr_t)ptr;
    weir__host_run *run = weir__host_run_around(&pool->registry, address);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    weir_host_info found = WEIR_HOST_INFO_INIT;
    if (state == WEIR__HOST_RUN_LIVE) {
        found.block = (void *)(uintptr_t)run->start;
        found.size = run->size;
    } else if (state == WEIR__HOST_RUN_SLAB) {
        const weir__host_slab *slab = run->slab;
        const uint32_t bin = slab != NULL ? count_of(&slab->bin) : 0;
        found.block = slab != NULL ? (void *)(uintptr_t)block_around(pool, run, address, bin) : NULL;
        found.size = pool->bins[bin].bytes;
    }
    if (found.block == NULL || !ask_chunks(pool, run, &found)) {
        return false;
    }
    found.size -= pool->pad;
    found.node = run->node->number;
    *info = found;
    return true;
}

weir_status weir_host_query(weir_host_pool *pool, const void *ptr, weir_host_info *info)
{
    weir_host_info found;
    if (pool == NULL || ptr == NULL || info == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_query: %s is NULL",
                           pool == NULL  ? "pool"
                           : ptr == NULL ? "ptr"
                                         : "info");
    }
    if (!weir__host_find(pool, ptr, &found)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_query: ptr %p is in no live block of the pool", ptr);
    }
    return weir_struct_report(info, &found, sizeof(found), "weir_host_query: info");
}

/* Adds the bytes of a freed block if the host has not yet seen that its stream's work is complete. */
static bool add_pending(void *ctx, const weir_walk_entry *entry)
{
    uint64_t *pending = ctx;
    const bool waits = entry->state == WEIR_WALK_PENDING ||
                       (entry->state == WEIR_WALK_FREE && entry->stream > 1); /* stream 1 is the host */
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
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_get_stats: %s is NULL", pool == NULL ? "pool" : "stats");
    }
    weir__host_node *only = NULL;
    if (number != WEIR_HOST_ANY_NODE) {
        only = number == WEIR_HOST_THREAD_NODE ? home_node(pool) : weir__host_node_numbered(pool, number);
        if (only == NULL) {
            return weir_refuse(WEIR_ERR_INVALID, "weir_host_get_stats: node %d is no node of the pool", (int)number);
        }
    }
    weir_host_stats found = WEIR_HOST_STATS_INIT;
    for (size_t i = 0; i < pool->node_count; i++) {
        if (only == NULL || only == &pool->nodes[i]) {
            add_node(&pool->nodes[i], &found);
        }
    }
    weir__host_cache_counts(pool, only, &found);
    return weir_struct_report(stats, &found, sizeof(found), "weir_host_get_stats: stats");
}

/* --- upkeep --- */

weir_status weir_host_trim(weir_host_pool *pool, uint64_t keep_bytes, uint64_t *released)
{
    if (pool == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_host_trim: pool is NULL");
    }
    const uint64_t before = atomic_load(&pool->ledger->held_bytes);
    (void)weir__host_pending_collect(pool);
    const weir_status status = trim(pool, keep_bytes, 0);
    const uint64_t after = atomic_load(&pool->ledger->held_bytes);
    if (released != NULL) {
        *released = before > after ? before - after : 0;
    }
    return status;
}

size_t weir_host_explain(weir_host_pool *pool, int32_t number, char *text, size_t size)
{
    size_t length = 0;
    weir__host_node *node = pool != NULL ? node_for(pool, number) : NULL;
    if (size > 0 && text != NULL) {
        text[0] = '\0';
    }
    if (node == NULL || (text == NULL && size > 0)) {
        return 0;
    }
    length += weir__host_pageable_explain(node, text, size);
    (void)pthread_mutex_lock(&node->chunk_lock);
    for (size_t kind = 0; kind < WEIR_HOST_KIND_COUNT; kind++) {
        if (node->reasons[kind][0] != '\0') {
            const int added = snprintf(length < size ? text + length : NULL, length < size ? size - length : 0,
                                       "%s: %s\n", weir_host_kind_name((weir_host_kind)kind), node->reasons[kind]);
            length += added > 0 ? (size_t)added : 0;
        }
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    if (pool->ledger->shared != NULL) {
        length += weir__shared_limit_explain(pool->ledger->shared, length < size ? text + length : NULL,
                                             length < size ? size - length : 0);
    }
    return length;
}

/* Checks that a node's chunks and its statistics agree. */
static const char *check_chunks(weir__host_node *node)
{
    WEIR_ASSERT(node->pool != NULL);
    weir_host_stats found = {0};
    if (weir__host_is_pageable(&node->pool->config)) {
        (void)pthread_mutex_lock(&node->chunk_lock);
        const weir_host_stats *held = &node->held; /* pageable memory counts as one chunk */
        const bool is_one = held->unpinned_bytes == held->held_bytes && held->pinned_bytes == 0 &&
                            held->kind_bytes[WEIR_HOST_UNPINNED] == held->held_bytes && node->chunks == NULL &&
                            held->chunks * node->pool->config.chunk_bytes == held->held_bytes;
        (void)pthread_mutex_unlock(&node->chunk_lock);
        return is_one ? NULL : "pageable memory is not what its statistics say";
    }
    (void)pthread_mutex_lock(&node->chunk_lock);
    const weir_host_stats *held = &node->held;
    for (const weir__host_chunk *chunk = node->chunks; chunk != NULL; chunk = chunk->next) {
        found.chunks++;
        found.held_bytes += chunk->size;
        found.misplaced_bytes += chunk->misplaced_bytes;
        found.kind_bytes[chunk->kind] += chunk->size;
    }
    bool adds_up = found.chunks == held->chunks && found.held_bytes == held->held_bytes &&
                   found.misplaced_bytes == held->misplaced_bytes &&
                   held->unpinned_bytes == found.kind_bytes[WEIR_HOST_UNPINNED] &&
                   held->pinned_bytes + held->unpinned_bytes == found.held_bytes;
    for (size_t kind = 0; kind < WEIR_HOST_KIND_COUNT; kind++) {
        adds_up = adds_up && found.kind_bytes[kind] == held->kind_bytes[kind];
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return adds_up ? NULL : "the chunks of a node are not what its statistics say";
}

weir_status weir_host_check(weir_host_pool *pool, const char **why)
{
    const char *broken = NULL;
    weir_status status = pool != NULL ? WEIR_OK : weir_refuse(WEIR_ERR_INVALID, "weir_host_check: pool is NULL");
    for (size_t i = 0; status == WEIR_OK && i < pool->node_count; i++) {
        weir__host_node *node = &pool->nodes[i];
        weir_pool *pages[] = {node->given, node->mapped};
        broken = check_chunks(node);
        if (broken != NULL || !pool->config.engine->check(node->engine, &broken)) {
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
