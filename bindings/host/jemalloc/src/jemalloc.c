/* jemalloc.c: jemalloc as an engine of small blocks (engine.h).
 *
 * Idea: one arena for each node. Its extent hooks take page runs from the node and give them back at once (no decay, no
 * retained, split or merged extents), so that a page run is one slab of one size class, or one block of 16 KiB and
 * more. Each run has a description, outside pinned memory like all of jemalloc's own data, with a mark for each block.
 * The marks detect double frees, and the description locates the block around an address. Each thread
 * has an explicit jemalloc cache for each node, created and destroyed with the pool's cache of that thread; the pool's
 * own bins stand in front of it.
 *
 * Cost: the pool requests batches; each block of a batch costs a hit in jemalloc's thread cache and two atomic
 * operations.
 */
#include "engine.h"

#include "shared/slab.h"

#include <weir/jemalloc.h>

#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* jemalloc's initial options. The whole process uses them, so only options that this engine needs are set. */
extern WEIR_API const char *malloc_conf; /* exported: a shared libjemalloc finds it by this name only */
const char *malloc_conf = "retain:false";

/* Describes a page run of the arena. Unused descriptions are kept until the engine ends. */
struct extent {
    weir__host_slab shown;
    void *link;     /* of an unused description */
    uint64_t start; /* 0: the description is unused; protected by the lock */
    weir__host_mark marks[WEIR__HOST_SLAB_BLOCKS];
};

struct weir__host_engine {
    extent_hooks_t hooks; /* must be the first member: hooks get only its address */
    weir__host_slabs from;
    pthread_mutex_t lock; /* protects the next */
    weir__slab extents;
    unsigned arena;
    size_t page;       /* jemalloc's page; jemalloc treats blocks of four pages and more as large */
    bool is_oblivious; /* jemalloc starts large blocks at random offsets in their first page */
    uint32_t bins;
    uint64_t bytes[WEIR__HOST_BINS];
};

/* The bin of the calling thread's request to jemalloc: a slab made during the call gets this bin. */
static _Thread_local uint32_t asked_bin;

/* --- extent hooks --- */

static struct extent *description(weir__host_engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    struct extent *e = weir__slab_get(&engine->extents);
    (void)pthread_mutex_unlock(&engine->lock);
    return e;
}

static void put_back(weir__host_engine *engine, struct extent *e)
{
    (void)pthread_mutex_lock(&engine->lock);
    e->start = 0;
    weir__slab_put(&engine->extents, e);
    (void)pthread_mutex_unlock(&engine->lock);
}

static void *extent_alloc(extent_hooks_t *hooks, void *wanted, size_t size, size_t alignment, bool *zero, bool *commit,
                          unsigned arena)
{
    (void)arena;
    weir__host_engine *engine = (weir__host_engine *)hooks;
    if (wanted != NULL || size > WEIR__HOST_SLAB_BYTES) {
        return NULL;
    }
    struct extent *e = description(engine);
    if (e == NULL) {
        return NULL;
    }
    atomic_store_explicit(&e->shown.bin, asked_bin, memory_order_relaxed);
    atomic_store_explicit(&e->shown.blocks, WEIR__HOST_SLAB_BLOCKS, memory_order_relaxed);
    e->shown.marks = e->marks;
    for (size_t i = 0; i < WEIR__HOST_SLAB_BLOCKS; i++) {
        atomic_store_explicit(&e->marks[i], WEIR__HOST_FREE, memory_order_relaxed);
    }
    void *memory = engine->from.slab_get(engine->from.ctx, size, alignment, &e->shown);
    if (memory == NULL) {
        put_back(engine, e);
        return NULL;
    }
    (void)pthread_mutex_lock(&engine->lock);
    e->start = (uint64_t)(uintptr_t)memory;
    (void)pthread_mutex_unlock(&engine->lock);
    *zero = false;
    *commit = true;
    return memory;
}

/* Returns false, jemalloc's value for success, if the memory has gone back to the node. */
static bool extent_dalloc(extent_hooks_t *hooks, void *memory, size_t size, bool committed, unsigned arena)
{
    (void)size;
    (void)committed;
    (void)arena;
    weir__host_engine *engine = (weir__host_engine *)hooks;
    uint64_t start = 0;
    struct extent *e = (struct extent *)(void *)engine->from.slab_of(engine->from.ctx, memory, &start);
    if (e == NULL) {
        return true;
    }
    engine->from.slab_put(engine->from.ctx, memory);
    put_back(engine, e);
    return false;
}

static void extent_destroy(extent_hooks_t *hooks, void *memory, size_t size, bool committed, unsigned arena)
{
    (void)extent_dalloc(hooks, memory, size, committed, arena);
}

/* --- life --- */

/* jemalloc 5.3 has this struct, but no header declares it. */
struct arena_config {
    extent_hooks_t *extent_hooks;
    bool metadata_use_hooks;
};

static bool is_on(const char *name, bool otherwise)
{
    bool value = otherwise;
    size_t size = sizeof(value);
    return mallctl(name, &value, &size, NULL, 0) == 0 ? value : otherwise;
}

/* Returns 0 if jemalloc does not report its page size. */
static size_t page_of_jemalloc(void)
{
    size_t page = 0;
    size_t size = sizeof(page);
    return mallctl("arenas.page", &page, &size, NULL, 0) == 0 ? page : 0;
}

static bool set_decay(unsigned arena, const char *what)
{
    char name[64];
    ssize_t never = 0;
    (void)snprintf(name, sizeof(name), "arena.%u.%s", arena, what);
    return mallctl(name, NULL, NULL, &never, sizeof(never)) == 0;
}

static bool open_arena(weir__host_engine *engine)
{
    struct arena_config config = {.extent_hooks = &engine->hooks, .metadata_use_hooks = false};
    size_t size = sizeof(engine->arena);
    return mallctl("experimental.arenas_create_ext", &engine->arena, &size, &config, sizeof(config)) == 0 &&
           set_decay(engine->arena, "dirty_decay_ms") && set_decay(engine->arena, "muzzy_decay_ms");
}

static bool list_bins(weir__host_engine *engine)
{
    const uint64_t last = WEIR__HOST_SMALL_BYTES - WEIR__HOST_ALIGNMENT;
    for (uint64_t bytes = 0; bytes < last && engine->bins < WEIR__HOST_BINS; engine->bins++) {
        bytes = nallocx((size_t)bytes + WEIR__HOST_ALIGNMENT, 0);
        if (bytes % WEIR__HOST_ALIGNMENT != 0) {
            return false;
        }
        engine->bytes[engine->bins] = bytes;
    }
    return engine->bins > 0 && engine->bytes[engine->bins - 1] >= last;
}

static weir_status create(const weir__host_slabs *slabs, weir__host_engine **engine)
{
    if (is_on("opt.retain", true)) {
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_host_pool_create: config.engine: jemalloc's option retain is on");
    }
    const size_t page = page_of_jemalloc();
    if (page == 0 || page / WEIR__HOST_ALIGNMENT > WEIR__HOST_SLAB_BLOCKS) {
        return weir_refuse(
            WEIR_ERR_UNSUPPORTED,
            "weir_host_pool_create: config.engine: jemalloc's pages of %zu bytes hold too many small blocks", page);
    }
    weir__host_engine *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    made->hooks = (extent_hooks_t){.alloc = extent_alloc, .dalloc = extent_dalloc, .destroy = extent_destroy};
    made->from = *slabs;
    made->extents = (weir__slab)WEIR__SLAB_INIT(struct extent, offsetof(struct extent, link), 8);
    made->page = page;
    made->is_oblivious = is_on("opt.cache_oblivious", true);
    (void)pthread_mutex_init(&made->lock, NULL);
    if (!list_bins(made) || !open_arena(made)) {
        (void)pthread_mutex_destroy(&made->lock);
        free(made);
        return weir_refuse(WEIR_ERR_UNSUPPORTED,
                           "weir_host_pool_create: config.engine: this jemalloc makes no arena with hooks (5.3 does)");
    }
    *engine = made;
    return WEIR_OK;
}

static void destroy(weir__host_engine *engine)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "arena.%u.destroy", engine->arena);
    const int failed = mallctl(name, NULL, NULL, NULL, 0);
    (void)failed; /* a failure does no harm: the arena's memory belongs to the node, which ends next */
    weir__slab_fini(&engine->extents);
    (void)pthread_mutex_destroy(&engine->lock);
    free(engine);
}

static uint64_t bin_bytes(const weir__host_engine *engine, uint32_t bin)
{
    return bin < engine->bins ? engine->bytes[bin] : 0;
}

/* --- thread caches: jemalloc's number plus one stands for a cache, because 0 is a valid number --- */

static void *thread_open(weir__host_engine *engine)
{
    (void)engine;
    unsigned number = 0;
    size_t size = sizeof(number);
    if (mallctl("tcache.create", &number, &size, NULL, 0) != 0) {
        return NULL;
    }
    return (void *)((uintptr_t)number + 1);
}

static unsigned number_of(const void *thread)
{
    return (unsigned)((uintptr_t)thread - 1);
}

static void thread_close(weir__host_engine *engine, void *thread)
{
    (void)engine;
    unsigned number = number_of(thread);
    const int failed = mallctl("tcache.destroy", NULL, NULL, &number, sizeof(number));
    (void)failed;
}

static int flags_for(const weir__host_engine *engine, const void *thread)
{
    return MALLOCX_ARENA(engine->arena) | (thread != NULL ? MALLOCX_TCACHE(number_of(thread)) : MALLOCX_TCACHE_NONE);
}

/* --- blocks --- */

/* Marks a block as handed to the pool. Returns NULL if its offset in the slab is not a multiple of the size. */
static weir__host_mark *hand_out(weir__host_engine *engine, const void *block, uint32_t bin)
{
    uint64_t start = 0;
    weir__host_slab *slab = engine->from.slab_of(engine->from.ctx, block, &start);
    const uint64_t offset = (uint64_t)(uintptr_t)block - start;
    const uint64_t place = offset / engine->bytes[bin];
    if (slab == NULL || offset % engine->bytes[bin] != 0 || place >= WEIR__HOST_SLAB_BLOCKS) {
        return NULL;
    }
    /* jemalloc may reuse a page run for another class without returning it to the node. */
    if (atomic_load_explicit(&slab->bin, memory_order_acquire) != bin) {
        engine->from.slab_changed(engine->from.ctx, block, bin);
        atomic_store_explicit(&slab->bin, bin, memory_order_release);
    }
    weir__host_mark *mark = weir__host_mark_of(slab, place);
    atomic_store_explicit(mark, WEIR__HOST_OUT, memory_order_relaxed);
    return mark;
}

static size_t alloc(weir__host_engine *engine, void *thread, uint32_t bin, weir__host_kept *blocks, size_t count)
{
    const uint64_t bytes = engine->bytes[bin];
    int flags = flags_for(engine, thread);
    if (engine->is_oblivious && bytes >= 4 * engine->page) {
        flags |= MALLOCX_ALIGN(engine->page); /* makes the block start at a page boundary; such a request bypasses
                                                 jemalloc's thread cache */
    }
    size_t got = 0;
    asked_bin = bin;
    while (got < count && (blocks[got].block = mallocx((size_t)bytes, flags)) != NULL) {
        blocks[got].mark = hand_out(engine, blocks[got].block, bin);
        if (blocks[got].mark == NULL) {
            dallocx(blocks[got].block, flags);
            break;
        }
        got++;
    }
    return got;
}

static bool release(weir__host_engine *engine, void *thread, uint32_t bin, const weir__host_kept *blocks, size_t count)
{
    (void)bin;
    const int flags = flags_for(engine, thread);
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        uint8_t out = WEIR__HOST_OUT;
        if (atomic_compare_exchange_strong(blocks[i].mark, &out, WEIR__HOST_FREE)) {
            dallocx(blocks[i].block, flags);
        } else {
            all = false;
        }
    }
    return all;
}

static void trim(weir__host_engine *engine, void *thread)
{
    (void)engine; /* the arena keeps no empty slabs */
    if (thread != NULL) {
        unsigned number = number_of(thread);
        const int failed = mallctl("tcache.flush", NULL, NULL, &number, sizeof(number));
        (void)failed;
    }
}

/* --- proof --- */

static const char *check_extent(weir__host_engine *engine, struct extent *e)
{
    uint64_t start = 0;
    const void *memory = (const void *)(uintptr_t)e->start;
    if (engine->from.slab_of(engine->from.ctx, memory, &start) != &e->shown || start != e->start) {
        return "a slab of jemalloc's is not where its description says";
    }
    return atomic_load_explicit(&e->shown.bin, memory_order_relaxed) < engine->bins
               ? NULL
               : "a slab of jemalloc's is of no size class";
}

static bool check(weir__host_engine *engine, const char **why)
{
    const char *broken = NULL;
    (void)pthread_mutex_lock(&engine->lock);
    struct extent *e;
    for (size_t i = 0; broken == NULL && (e = weir__slab_at(&engine->extents, i)) != NULL; i++) {
        broken = e->start != 0 ? check_extent(engine, e) : NULL;
    }
    (void)pthread_mutex_unlock(&engine->lock);
    *why = broken != NULL ? broken : *why;
    return broken == NULL;
}

static const weir_host_engine_ops ops = {
    .struct_size = sizeof(ops),
    .name = "jemalloc",
    .create = create,
    .destroy = destroy,
    .bin_bytes = bin_bytes,
    .thread_open = thread_open,
    .thread_close = thread_close,
    .alloc = alloc,
    .release = release,
    .trim = trim,
    .check = check,
};

const weir_host_engine_ops *weir_host_jemalloc_engine(void)
{
    return &ops;
}
