/* host_source.c: blocks of a host pool that other users may share. owned.c keeps the heap's blocks and their sizes. */
#include "heap_internal.h"

static weir_status host_open(weir__source *source, weir_heap *heap)
{
    WEIR_ASSERT(source->owned == NULL && source->from.host_pool != NULL);
    source->host = source->from.host_pool;
    source->node = (heap->config.flags & WEIR_HEAP_ON_NODE) != 0 ? source->from.node : WEIR_HOST_THREAD_NODE;
    if (source->node >= 0 && weir__host_node_numbered(source->host, source->node) == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_heap_create: config.%s.node %d is no node of the host pool",
                           source == &heap->sources[0] ? "source" : "long_lived", (int)source->node);
    }
    const weir_status status = weir__owned_create(&source->owned);
    return status == WEIR_OK ? weir_host_pool_hold(source->host) : status;
}

static weir_status release(void *ctx, void *block, uint64_t name)
{
    const weir__source *source = ctx;
    WEIR_ASSERT(source->host != NULL && name != 0);
    (void)name;
    return weir_host_free(source->host, block);
}

struct ending {
    weir__source *source;
    weir_status first;
};

static bool end_block(void *ctx, uint64_t block, uint64_t name)
{
    struct ending *ending = ctx;
    WEIR_ASSERT(name > ending->source->host->pad);
    const weir_status status = release(ending->source, (void *)(uintptr_t)block, name);
    ending->first = ending->first != WEIR_OK ? ending->first : status;
    return true;
}

static weir_status host_close(weir__source *source)
{
    struct ending ending = {.source = source};
    if (source->owned != NULL) {
        weir__owned_each(source->owned, end_block, &ending);
        (void)!weir_host_pool_release(source->host);
    }
    weir__owned_destroy(source->owned);
    return ending.first;
}

static weir_status host_alloc(weir__source *source, uint64_t size, uint64_t align, void **block, uint64_t *bytes)
{
    WEIR_ASSERT(size > 0 && is_power_of_two(align));
    void *got = NULL;
    weir_status status = weir_host_alloc_aligned(source->host, size, align, source->node, &got);
    if (status != WEIR_OK) {
        return status;
    }
    const uint64_t held = weir__host_bytes_for(source->host, size, align);
    if (!weir__owned_put(source->owned, got, held)) {
        status = weir_host_free(source->host, got);
        return WEIR_ERR_NO_MEMORY;
    }
    WEIR_ASSERT(held >= size);
    *block = got;
    *bytes = held;
    return WEIR_OK;
}

struct freed {
    weir__source *source;
    uint64_t bytes;
};

static weir_status release_telling(void *ctx, void *block, uint64_t name)
{
    WEIR_ASSERT(name != 0);
    struct freed *freed = ctx;
    freed->bytes = name;
    return release(freed->source, block, name);
}

static weir_status host_free(weir__source *source, void *block, uint64_t *bytes)
{
    struct freed freed = {.source = source};
    const weir_status status = weir__owned_free(source->owned, block, release_telling, &freed);
    *bytes = freed.bytes;
    return status;
}

/* Returns the usable size of a block, or 0 if it is not a block of this source. The pad behind a block of the host pool
 * is not usable. */
static uint64_t host_bytes_of(weir__source *source, const void *block)
{
    const uint64_t bytes = weir__owned_get(source->owned, block);
    WEIR_ASSERT(bytes == 0 || bytes > source->host->pad);
    return bytes != 0 ? bytes - source->host->pad : 0;
}

static weir_status host_trim(weir__source *source, uint64_t keep_bytes, uint64_t *released)
{
    return source->is_second ? WEIR_OK : weir_host_trim(source->host, keep_bytes, released);
}

static void host_add_stats(weir__source *source, weir__source_stats *stats)
{
    weir_host_stats found = WEIR_HOST_STATS_INIT;
    weir__owned_counts(source->owned, &stats->allocs, &stats->frees);
    if (!source->is_second && weir_host_get_stats(source->host, WEIR_HOST_ANY_NODE, &found) == WEIR_OK) {
        stats->held_bytes += found.held_bytes;
        stats->peak_held_bytes += found.peak_held_bytes;
    }
}

static size_t host_explain(weir__source *source, char *text, size_t size)
{
    return weir_host_explain(source->host, source->node, text, size);
}

struct proof {
    weir__source *source;
    bool broken;
};

static bool prove(void *ctx, uint64_t block, uint64_t name)
{
    struct proof *proof = ctx;
    weir_host_info info = WEIR_HOST_INFO_INIT;
    proof->broken = proof->broken || !weir__host_find(proof->source->host, (void *)(uintptr_t)block, &info) ||
                    (uint64_t)(uintptr_t)info.block != block || info.size + proof->source->host->pad != name;
    return !proof->broken;
}

static weir_status host_check(weir__source *source, const char **why)
{
    struct proof proof = {.source = source};
    weir__owned_each(source->owned, prove, &proof);
    if (proof.broken) {
        *why = "a block of the heap is none of its host pool's";
    }
    return proof.broken ? WEIR_ERR_INTERNAL : WEIR_OK;
}

struct visit {
    weir__host_visitor visit;
    void *ctx;
    uint64_t pad;
};

static bool visit_block(void *ctx, uint64_t block, uint64_t name)
{
    const struct visit *visit = ctx;
    WEIR_ASSERT(name > visit->pad);
    visit->visit(visit->ctx, block, name - visit->pad);
    return true;
}

static void host_each(weir__source *source, weir__host_visitor visit, void *ctx)
{
    struct visit all = {.visit = visit, .ctx = ctx, .pad = source->host->pad};
    weir__owned_each(source->owned, visit_block, &all);
}

const weir__source_ops weir__host_source = {
    .open = host_open,
    .close = host_close,
    .alloc = host_alloc,
    .free = host_free,
    .bytes_of = host_bytes_of,
    .trim = host_trim,
    .add_stats = host_add_stats,
    .explain = host_explain,
    .check = host_check,
    .each = host_each,
};
