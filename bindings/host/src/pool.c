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

enum { PAD = 32, MOST_ALIGN = 2 << 20, BATCH = 16, LEAST_CHUNK = 2 << 20, DEFAULT_CHUNK = 64 << 20, DEFAULT_CACHE = 8 << 20 };
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

/* --- life --- */

static bool is_sound(const weir_host_pool_config *config)
{
    const uint32_t flags = WEIR_HOST_NO_PAD | WEIR_HOST_STRICT | WEIR_HOST_ALLOW_UNPINNED | WEIR_HOST_NO_THREAD_CACHE;
    const uint32_t kinds = (1u << WEIR_HOST_KIND_COUNT) - 1;
    const bool unpinned = (config->kinds & 1u << WEIR_HOST_UNPINNED) != 0;
    const uint64_t chunk = config->chunk_bytes;
    return (config->flags & ~flags) == 0 && (config->kinds & ~kinds) == 0 &&
           (!unpinned || (config->flags & WEIR_HOST_ALLOW_UNPINNED) != 0) &&
           (chunk == 0 || ((chunk & (chunk - 1)) == 0 && chunk >= LEAST_CHUNK && chunk <= 1 << 30));
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

/* A chunk has to pass the limit and one call of the runtime's. */
static uint64_t chunk_that_fits(const weir_host_pool_config *config, const weir_host_runtime *runtime)
{
    uint64_t chunk = config->chunk_bytes != 0 ? config->chunk_bytes : DEFAULT_CHUNK;
    const bool has_runtime = (config->kinds & (1u << WEIR_HOST_RUNTIME | 1u << WEIR_HOST_REGISTERED)) != 0;
    const uint64_t limit = config->limit_bytes != 0 ? config->limit_bytes : UINT64_MAX;
    const uint64_t most = has_runtime && runtime->most_bytes < limit ? runtime->most_bytes : limit;
    while (chunk > most && chunk > LEAST_CHUNK) {
        chunk /= 2;
    }
    return chunk;
}

static weir_status adopt(weir_host_pool *pool, const weir_host_pool_config *config)
{
    static const weir_host_pool_config defaults = WEIR_HOST_POOL_CONFIG_INIT;
    weir_status status = weir__config_adopt(&pool->config, sizeof pool->config, config != NULL ? config : &defaults);
    if (status == WEIR_OK && pool->config.runtime != NULL) {
        status = weir__config_adopt(&pool->runtime, sizeof pool->runtime, pool->config.runtime);
    }
    if (status == WEIR_OK && pool->runtime.ops != NULL) {
        status = weir__config_adopt(&pool->runtime_ops, sizeof pool->runtime_ops, pool->runtime.ops);
        pool->runtime.ops = &pool->runtime_ops;
    }
    if (status != WEIR_OK) {
        return status;
    }
    weir_host_pool_config *own = &pool->config;
    if (!is_sound(own)) {
        return WEIR_ERR_INVALID;
    }
    if (pool->runtime.most_bytes == 0) {
        pool->runtime.most_bytes = UINT64_C(1) << 30;
    }
    own->kinds = usable_kinds(own, &pool->runtime);
    own->runtime = NULL;
    own->chunk_bytes = chunk_that_fits(own, &pool->runtime);
    own->thread_cache_bytes = own->thread_cache_bytes != 0 ? own->thread_cache_bytes : DEFAULT_CACHE;
    own->engine = own->engine != NULL ? own->engine : weir_host_classes_engine();
    pool->pad = (own->flags & WEIR_HOST_NO_PAD) != 0 ? 0 : PAD;
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
    return status == WEIR_OK && pool->node_count == 0 ? WEIR_ERR_UNSUPPORTED : status;
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
    weir__host_runs_fini(pool);
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
        waited = weir__host_pending_wait(pool);
    }
    const weir_status ended = end(pool);
    return waited != WEIR_OK ? waited : ended;
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

/* The calling thread's node, looked at now and then: a thread seldom moves, and asking costs as much as an allocation. */
static weir__host_node *home_node(weir_host_pool *pool)
{
    enum { EVERY = 256 };
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
        home.left = EVERY;
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

static void keep_first(weir_status *first, weir_status status)
{
    *first = *first != WEIR_OK ? *first : status;
}

/* Whole chunks, until `keep_bytes` are held; `flags` of weir_pool_trim. */
static weir_status trim(weir_host_pool *pool, uint64_t keep_bytes, uint32_t flags)
{
    weir_status first = WEIR_OK;
    (void)atomic_fetch_add(&pool->trims, 1);
    weir__host_cache_obey(pool);
    for (size_t i = 0; i < pool->node_count; i++) {
        weir__host_node *node = &pool->nodes[i];
        weir_pool *pages[] = {node->given, node->mapped};
        pool->config.engine->trim(node->engine);
        for (size_t j = 0; j < 2; j++) {
            weir_stats stats = WEIR_STATS_INIT;
            const uint64_t held = atomic_load(&pool->held_bytes);
            if (pages[j] == NULL || held <= keep_bytes || weir_pool_stats(pages[j], &stats) != WEIR_OK) {
                continue;
            }
            const uint64_t surplus = held - keep_bytes;
            const uint64_t keep = stats.reserved_bytes > surplus ? stats.reserved_bytes - surplus : 0;
            keep_first(&first, weir_pool_trim(pages[j], keep, flags, NULL));
        }
    }
    return first;
}

/* --- what a request takes --- */

/* What a request of a good size takes, before it is rounded to a class or to pages. */
static inline uint64_t padded(const weir_host_pool *pool, uint64_t size)
{
    const uint64_t least = WEIR__HOST_ALIGNMENT - 1;
    return (((size + 31) & ~UINT64_C(31)) + pool->pad + least) & ~least;
}

static inline uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + WEIR__HOST_PAGE - 1) & ~(uint64_t)(WEIR__HOST_PAGE - 1);
}

static inline bool is_small(uint64_t bytes, uint64_t align)
{
    return bytes < WEIR__HOST_SMALL_BYTES && align <= WEIR__HOST_ALIGNMENT;
}

/* --- counting: by the thread that does it, in its own cache --- */

static inline void add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

static inline void count_alloc(weir__host_cache *cache, uint64_t bytes)
{
    add(&cache->allocs, 1);
    add(&cache->live_bytes, bytes);
}

static inline void count_free(weir__host_node *node, weir__host_cache *cache, uint64_t bytes)
{
    if (cache == NULL) {
        weir__host_count(node, false, bytes);
        return;
    }
    add(&cache->frees, 1);
    add(&cache->live_bytes, 0 - bytes);
}

/* --- proof, in checked builds: whether a small block is out --- */

/* The mark of a block in a slab; NULL: none begins there. */
static _Atomic uint8_t *mark_of(weir__host_run *run, const void *block)
{
    weir__host_marks *marks = run->marks;
    const uint64_t offset = (uint64_t)(uintptr_t)block - run->start;
    const uint64_t place = offset / WEIR__HOST_ALIGNMENT;
    return marks != NULL && offset % WEIR__HOST_ALIGNMENT == 0 && place < marks->count ? &marks->out[place] : NULL;
}

/* The block is somebody's from now on. */
static void *hand_out(weir_host_pool *pool, void *block)
{
    if (WEIR_CHECKS >= 1) {
        weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)block);
        _Atomic uint8_t *mark = run != NULL && run->state == WEIR__HOST_RUN_SLAB ? mark_of(run, block) : NULL;
        if (mark != NULL && atomic_exchange(mark, 1) != 0) {
            (void)fprintf(stderr, "weir: a block is handed out twice: %p\n", block);
            abort();
        }
    }
    return block;
}

/* Ordinary builds cannot tell, and say yes. */
static bool is_out(weir__host_run *run, const void *block)
{
    const _Atomic uint8_t *mark = WEIR_CHECKS >= 1 ? mark_of(run, block) : NULL;
    return WEIR_CHECKS < 1 || (mark != NULL && atomic_load(mark) != 0);
}

/* The block is nobody's from now on. False: it was nobody's before. */
static inline bool take_back(weir__host_run *run, const void *block)
{
    if (WEIR_CHECKS < 1) {
        return true;
    }
    _Atomic uint8_t *mark = mark_of(run, block);
    return mark != NULL && atomic_exchange(mark, 0) != 0;
}

/* It was not taken back after all. */
static void undo_take_back(weir__host_run *run, const void *block)
{
    _Atomic uint8_t *mark = WEIR_CHECKS >= 1 ? mark_of(run, block) : NULL;
    if (mark != NULL) {
        atomic_store(mark, 1);
    }
}

/* The same for a page run: that of two threads only one frees it. */
static inline bool claim(weir__host_run *run)
{
    uint32_t live = WEIR__HOST_RUN_LIVE;
    return WEIR_CHECKS < 1 || atomic_compare_exchange_strong(&run->state, &live, WEIR__HOST_RUN_CACHED);
}

static void unclaim(weir__host_run *run)
{
    if (WEIR_CHECKS >= 1) {
        run->state = WEIR__HOST_RUN_LIVE;
    }
}

/* --- alloc --- */

static inline weir__host_large_slot *slot_for(weir__host_cache *cache, uint64_t size)
{
    return &cache->large[size / WEIR__HOST_PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

/* What the thread keeps that fits; NULL: nothing. */
static inline void *take_kept(weir__host_cache *cache, uint64_t bytes, uint64_t align)
{
    if (WEIR__HOST_LIKELY(is_small(bytes, align))) {
        const uint32_t class = weir__host_class_of(bytes);
        weir__host_bin *bin = &cache->small[class];
        if (bin->count == 0) {
            return NULL;
        }
        const uint64_t taken = weir__host_class_bytes(class);
        add(&cache->bytes, 0 - taken);
        count_alloc(cache, taken);
        return bin->blocks[--bin->count];
    }
    const uint64_t size = whole_pages(bytes);
    weir__host_large_slot *slot = slot_for(cache, size);
    if (slot->size != size || slot->count == 0 || align > WEIR__HOST_PAGE) {
        return NULL;
    }
    weir__host_run *run = slot->runs[--slot->count];
    atomic_store_explicit(&run->state, WEIR__HOST_RUN_LIVE, memory_order_relaxed);
    add(&cache->bytes, 0 - size);
    count_alloc(cache, size);
    return (void *)(uintptr_t)atomic_load_explicit(&run->start, memory_order_relaxed);
}

/* From the engine: one block, and what fills half of the thread's empty bin. */
static weir_status take_small(weir__host_node *node, weir__host_cache *cache, uint64_t size, void **ptr)
{
    const weir_host_engine_ops *engine = node->pool->config.engine;
    void *blocks[BATCH];
    weir__host_bin *bin = cache != NULL && !engine->caches_threads ? &cache->small[weir__host_class_of(size)] : NULL;
    size_t wanted = 1;
    if (bin != NULL) {
        wanted = bin->most / 2 < BATCH ? bin->most / 2 : BATCH;
    }
    const size_t got = engine->alloc(node->engine, size, blocks, wanted);
    if (got == 0) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (size_t i = 1; i < got; i++) {
        bin->blocks[bin->count++] = blocks[i];
    }
    if (got > 1) {
        add(&cache->bytes, (got - 1) * engine->block_bytes(node->engine, size));
    }
    *ptr = blocks[0];
    return WEIR_OK;
}

/* What a request comes to. */
typedef struct request {
    uint64_t bytes; /* padded */
    uint64_t align;
    bool is_bound; /* to its node */
} request;

static weir_status take_from(weir__host_node *node, const request *r, void **ptr)
{
    weir__host_cache *cache = weir__host_cache_of(node);
    void *kept = cache != NULL ? take_kept(cache, r->bytes, r->align) : NULL;
    if (kept != NULL) {
        *ptr = kept;
        return WEIR_OK;
    }
    weir_status status = WEIR_OK;
    uint64_t taken = whole_pages(r->bytes);
    if (is_small(r->bytes, r->align)) {
        taken = node->pool->config.engine->block_bytes(node->engine, r->bytes);
        status = take_small(node, cache, r->bytes, ptr);
    } else {
        weir__host_run *run = weir__host_node_take(node, taken, r->align, &status);
        *ptr = run != NULL ? (void *)(uintptr_t)run->start : *ptr;
    }
    if (status == WEIR_OK && cache != NULL) {
        count_alloc(cache, taken);
    } else if (status == WEIR_OK) {
        weir__host_count(node, true, taken);
    }
    return status;
}

/* A node itself is nearest; of equally near ones the lower in number. */
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

/* The node that is asked after `round` others: itself, then the nearest first. */
static weir__host_node *in_turn(weir__host_node *node, size_t round)
{
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

static weir_status take(weir__host_node *node, const request *r, void **ptr)
{
    weir_status status = take_from(node, r, ptr);
    for (size_t round = 1; status == WEIR_ERR_NO_MEMORY && !r->is_bound && round < node->pool->node_count; round++) {
        status = take_from(in_turn(node, round), r, ptr);
    }
    return status;
}

/* Whether the limit stood in the way of the calling thread's request. */
static _Thread_local bool limit_refused;

bool weir__host_limit_take(weir_host_pool *pool, uint64_t bytes)
{
    const uint64_t limit = pool->config.limit_bytes;
    uint64_t held = atomic_load(&pool->held_bytes);
    do {
        if (limit != 0 && (bytes > limit || held > limit - bytes)) {
            limit_refused = true;
            return false;
        }
    } while (!atomic_compare_exchange_weak(&pool->held_bytes, &held, held + bytes));
    return true;
}

void weir__host_limit_give(weir_host_pool *pool, uint64_t bytes)
{
    (void)atomic_fetch_sub(&pool->held_bytes, bytes);
}

static OUT_OF_LINE weir_status alloc_slow(weir_host_pool *pool, weir__host_node *node, const request *r, void **ptr)
{
    void *block = NULL;
    limit_refused = false;
    weir__host_cache_obey(pool);
    (void)weir__host_pending_collect(pool);
    weir_status status = take(node, r, &block);
    if (status == WEIR_ERR_NO_MEMORY) {
        /* What other nodes and streams hold idle may be what the limit, or the system, lacks. */
        (void)weir__host_pending_wait(pool);
        (void)trim(pool, 0, WEIR_TRIM_WAIT);
        status = take(node, r, &block);
    }
    if (status == WEIR_OK) {
        *ptr = hand_out(pool, block);
        return WEIR_OK;
    }
    (void)atomic_fetch_add(&node->failures, 1);
    return status == WEIR_ERR_NO_MEMORY && limit_refused ? WEIR_ERR_LIMIT : status;
}

static inline weir_status alloc(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t number, void **ptr)
{
    if (pool == NULL || ptr == NULL || size == 0 || size >= SIZE_LIMIT || align > MOST_ALIGN || (align & (align - 1)) != 0) {
        return WEIR_ERR_INVALID;
    }
    weir__host_node *node = node_for(pool, number);
    if (node == NULL) {
        return WEIR_ERR_INVALID;
    }
    const uint64_t bytes = padded(pool, size);
    weir__host_cache *cache = weir__host_cache_of(node);
    if (WEIR__HOST_LIKELY(cache != NULL)) {
        void *kept = take_kept(cache, bytes, align);
        if (WEIR__HOST_LIKELY(kept != NULL)) {
            *ptr = hand_out(pool, kept);
            return WEIR_OK;
        }
    }
    const bool strict = (pool->config.flags & WEIR_HOST_STRICT) != 0;
    const request r = {.bytes = bytes, .align = align, .is_bound = strict && number != WEIR_HOST_ANY_NODE};
    return alloc_slow(pool, node, &r, ptr);
}

weir_status weir_host_alloc(weir_host_pool *pool, uint64_t size, int32_t node, void **ptr)
{
    return alloc(pool, size, 0, node, ptr);
}

weir_status weir_host_alloc_aligned(weir_host_pool *pool, uint64_t size, uint64_t align, int32_t node, void **ptr)
{
    return alloc(pool, size, align, node, ptr);
}

/* --- free --- */

static inline bool is_full(weir__host_cache *cache, uint64_t bytes)
{
    return atomic_load_explicit(&cache->bytes, memory_order_relaxed) + bytes > cache->most_bytes;
}

/* Keeps a small block in the thread's cache, or not. */
static inline bool keep_small(weir__host_cache *cache, uint32_t class, void *block, uint64_t bytes)
{
    weir__host_bin *bin = &cache->small[class];
    if (!WEIR__HOST_LIKELY(bin->count < bin->most && !is_full(cache, bytes))) {
        weir__host_cache_halve(cache, class);
        if (bin->count >= bin->most || is_full(cache, bytes)) {
            return false;
        }
    }
    bin->blocks[bin->count++] = block;
    add(&cache->bytes, bytes);
    return true;
}

/* `size`: as it was asked for; 0: not known. */
static weir_status free_small(weir__host_run *run, void *ptr, uint64_t size)
{
    weir__host_node *node = run->node;
    const weir_host_engine_ops *engine = node->pool->config.engine;
    weir__host_cache *cache = weir__host_cache_of(node);
    uint64_t bytes = 0;
    if (engine->block_of(node->engine, ptr, run->owner, &bytes) != ptr) {
        return WEIR_ERR_INVALID;
    }
    if (size != 0) {
        const uint64_t asked = padded(node->pool, size);
        if (!is_small(asked, 0) || engine->block_bytes(node->engine, asked) != bytes) {
            return WEIR_ERR_INVALID;
        }
    }
    if (!take_back(run, ptr)) {
        return WEIR_ERR_INVALID;
    }
    if (cache == NULL || engine->caches_threads || !keep_small(cache, run->bin, ptr, bytes)) {
        if (!engine->release(node->engine, &ptr, 1)) {
            return WEIR_ERR_INVALID;
        }
    }
    count_free(node, cache, bytes);
    return WEIR_OK;
}

/* Keeps a run in the thread's cache, or not. */
static bool keep_run(weir__host_cache *cache, weir__host_run *run, uint64_t size)
{
    /* A block that is large beside the bound: a thread may keep four of them all the same. */
    const uint64_t most = cache->most_bytes > 4 * size ? cache->most_bytes : 4 * size;
    if (size < WEIR__HOST_SMALL_BYTES || atomic_load_explicit(&cache->bytes, memory_order_relaxed) + size > most) {
        return false;
    }
    weir__host_large_slot *slot = slot_for(cache, size);
    if (slot->size != size) {
        weir__host_cache_empty_slot(cache, slot);
        slot->size = size;
    }
    if (slot->count == WEIR__HOST_LARGE_DEPTH) {
        return false;
    }
    atomic_store_explicit(&run->state, WEIR__HOST_RUN_CACHED, memory_order_relaxed);
    slot->runs[slot->count++] = run;
    add(&cache->bytes, size);
    return true;
}

/* `stream`, of the run's pool: in its order; NULL: idle. */
static weir_status free_large(weir__host_run *run, const void *ptr, uint64_t size, weir_stream *stream)
{
    weir__host_node *node = run->node;
    const uint64_t bytes = run->size;
    if (run->start != (uint64_t)(uintptr_t)ptr || (size != 0 && whole_pages(padded(node->pool, size)) != bytes) ||
        !claim(run)) {
        return WEIR_ERR_INVALID;
    }
    weir__host_cache *cache = weir__host_cache_of(node);
    if (stream != NULL || cache == NULL || !keep_run(cache, run, bytes)) {
        const weir_status status = weir__host_node_give(run, stream);
        if (status != WEIR_OK) {
            unclaim(run);
            return status;
        }
    }
    count_free(node, cache, bytes);
    return WEIR_OK;
}

static inline weir_status free_any(weir_host_pool *pool, void *ptr, uint64_t size)
{
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    if (ptr == NULL) {
        return WEIR_OK;
    }
    weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    if (WEIR__HOST_LIKELY(state == WEIR__HOST_RUN_SLAB)) {
        return free_small(run, ptr, size);
    }
    return state == WEIR__HOST_RUN_LIVE ? free_large(run, ptr, size, NULL) : WEIR_ERR_INVALID;
}

weir_status weir_host_free(weir_host_pool *pool, void *ptr)
{
    return free_any(pool, ptr, 0);
}

weir_status weir_host_free_sized(weir_host_pool *pool, void *ptr, uint64_t size)
{
    if (ptr != NULL && (size == 0 || size >= SIZE_LIMIT)) {
        return WEIR_ERR_INVALID;
    }
    return free_any(pool, ptr, size);
}

static weir_status free_large_after(weir__host_run *run, const void *ptr, void *native)
{
    weir_stream *stream = NULL;
    const weir_status status = weir_pool_stream(run->pages, native, &stream);
    return status == WEIR_OK ? free_large(run, ptr, 0, stream) : status;
}

static weir_status free_small_after(weir__host_run *run, void *ptr, void *native)
{
    weir__host_node *node = run->node;
    uint64_t bytes = 0;
    if (node->pool->config.engine->block_of(node->engine, ptr, run->owner, &bytes) != ptr || !take_back(run, ptr)) {
        return WEIR_ERR_INVALID;
    }
    const weir_status status = weir__host_pending_add(node, ptr, bytes, native);
    if (status == WEIR_OK) {
        count_free(node, weir__host_cache_of(node), bytes);
    } else {
        undo_take_back(run, ptr);
    }
    return status;
}

weir_status weir_host_free_after(weir_host_pool *pool, void *ptr, void *native_stream)
{
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    if (pool->runtime.device == NULL) {
        return WEIR_ERR_UNSUPPORTED;
    }
    if (ptr == NULL) {
        return WEIR_OK;
    }
    weir__host_run *run = weir__host_run_at(&pool->registry, (uint64_t)(uintptr_t)ptr);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    if (state == WEIR__HOST_RUN_SLAB) {
        return free_small_after(run, ptr, native_stream);
    }
    return state == WEIR__HOST_RUN_LIVE ? free_large_after(run, ptr, native_stream) : WEIR_ERR_INVALID;
}

weir_status weir_host_stream_retire(weir_host_pool *pool, void *native_stream)
{
    if (pool == NULL) {
        return WEIR_ERR_INVALID;
    }
    if (pool->runtime.device == NULL) {
        return WEIR_ERR_UNSUPPORTED;
    }
    weir_status first = weir__host_pending_retire(pool, native_stream);
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

/* --- questions --- */

static const weir__host_chunk *chunk_of(weir_host_pool *pool, weir__host_run *run, uint64_t address)
{
    const weir__host_chunk *chunk = run->chunk;
    return chunk != NULL ? chunk : atomic_load(&weir__host_leaf_at(&pool->registry, address)->chunk);
}

weir_status weir_host_query(weir_host_pool *pool, const void *ptr, weir_host_info *info)
{
    if (pool == NULL || ptr == NULL || info == NULL) {
        return WEIR_ERR_INVALID;
    }
    const uint64_t address = (uint64_t)(uintptr_t)ptr;
    weir__host_run *run = weir__host_run_at(&pool->registry, address);
    const uint32_t state = run != NULL ? atomic_load_explicit(&run->state, memory_order_acquire) : WEIR__HOST_RUN_NONE;
    weir_host_info found = WEIR_HOST_INFO_INIT;
    if (state == WEIR__HOST_RUN_LIVE) {
        found.block = (void *)(uintptr_t)run->start;
        found.size = run->size;
    } else if (state == WEIR__HOST_RUN_SLAB) {
        found.block = pool->config.engine->block_of(run->node->engine, ptr, run->owner, &found.size);
        found.block = found.block != NULL && is_out(run, found.block) ? found.block : NULL;
    }
    const weir__host_chunk *chunk = found.block != NULL ? chunk_of(pool, run, address) : NULL;
    if (chunk == NULL) {
        return WEIR_ERR_INVALID;
    }
    found.size -= pool->pad;
    found.node = run->node->number;
    found.kind = (weir_host_kind)chunk->kind;
    found.is_pinned = found.kind != WEIR_HOST_UNPINNED;
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
    (void)weir__host_pending_collect(pool);
    const weir_status status = trim(pool, keep_bytes, 0);
    const uint64_t after = atomic_load(&pool->held_bytes);
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
    (void)pthread_mutex_lock(&node->chunk_lock);
    for (size_t kind = 0; kind < WEIR_HOST_KIND_COUNT; kind++) {
        if (node->reasons[kind][0] != '\0') {
            const int added = snprintf(length < size ? text + length : NULL, length < size ? size - length : 0, "%s: %s\n",
                                       weir_host_kind_name((weir_host_kind)kind), node->reasons[kind]);
            length += added > 0 ? (size_t)added : 0;
        }
    }
    (void)pthread_mutex_unlock(&node->chunk_lock);
    return length;
}

/* Chunks and what is counted of them. */
static const char *check_chunks(weir__host_node *node)
{
    weir_host_stats found = {0};
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
    weir_status status = pool != NULL ? WEIR_OK : WEIR_ERR_INVALID;
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
