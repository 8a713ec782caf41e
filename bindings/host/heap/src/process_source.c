/* process_source.c: memory of the process, from a host pool that belongs to the heap. A heap has two such pools, one
 * for short-lived and one for long-lived blocks, under one limit. The registry of each pool knows which blocks are its
 * own.
 */
#include "heap_internal.h"

static weir_status process_open(weir__source *source, weir_heap *heap)
{
    WEIR_ASSERT(source->host == NULL);
    weir_host_pool_config config = WEIR_HOST_POOL_CONFIG_INIT;
    config.flags = WEIR_HOST_PAGEABLE | WEIR_HOST_NO_PAD;
    config.flags |= source->is_second ? (uint32_t)WEIR_HOST_NO_THREAD_CACHE : 0;
    config.limit_bytes = heap->config.limit_bytes;
    source->node = WEIR_HOST_THREAD_NODE;
    return weir__host_pool_create_in(&config, &heap->ledger, &source->host);
}

static weir_status process_close(weir__source *source)
{
    return weir_host_pool_destroy(source->host);
}

static weir_status process_alloc(weir__source *source, uint64_t size, uint64_t align, void **block, uint64_t *bytes)
{
    WEIR_ASSERT(size > 0 && is_power_of_two(align));
    /* The limit is checked first, so that the pool does not extend its tables for a request that it must refuse. */
    const uint64_t limit = atomic_load_explicit(&source->heap->ledger.limit_bytes, memory_order_relaxed);
    if (limit != 0 && size > limit) {
        return WEIR_ERR_LIMIT;
    }
    const bool is_usual = align <= WEIR__HOST_ALIGNMENT;
    const uint64_t asked = is_usual ? (size + align - 1) & ~(align - 1) : size; /* blocks of such a size are aligned */
    const weir_status status = is_usual ? weir_host_alloc(source->host, asked, source->node, block)
                                        : weir_host_alloc_aligned(source->host, asked, align, source->node, block);
    if (status == WEIR_OK) {
        WEIR_ASSERT((uintptr_t)*block % align == 0);
        *bytes = weir__host_bytes_for(source->host, asked, is_usual ? 1 : align);
    }
    return status;
}

static weir_status process_free(weir__source *source, void *block, uint64_t *bytes)
{
    return weir__host_free_telling(source->host, block, bytes);
}

static uint64_t process_bytes_of(weir__source *source, const void *block)
{
    weir_host_info info = WEIR_HOST_INFO_INIT;
    return weir__host_find(source->host, block, &info) && info.block == block ? info.size : 0;
}

static uint64_t process_grow(weir__source *source, void *block, uint64_t size)
{
    return weir__host_grow(source->host, block, size);
}

static weir_status process_trim(weir__source *source, uint64_t keep_bytes, uint64_t *released)
{
    return weir_host_trim(source->host, keep_bytes, released);
}

static void process_add_stats(weir__source *source, weir__source_stats *stats)
{
    weir_host_stats found = WEIR_HOST_STATS_INIT;
    if (weir_host_get_stats(source->host, WEIR_HOST_ANY_NODE, &found) == WEIR_OK) {
        stats->allocs += found.allocs;
        stats->frees += found.frees;
    }
    stats->moved_bytes += atomic_load(&source->host->nodes[0].moved_bytes);
    stats->remade_bytes += atomic_load(&source->host->nodes[0].remade_bytes);
    if (!source->is_second) {
        stats->held_bytes += atomic_load(&source->heap->ledger.held_bytes);
        stats->peak_held_bytes += atomic_load(&source->heap->ledger.peak_held_bytes);
    }
}

/* Returns how many more bytes have to be held to serve the request. When a request fails, the pool of pages records how
 * many bytes it would have mapped for the request or for a slab. */
static uint64_t process_missing(weir__source *source, uint64_t size)
{
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    const uint64_t granule = source->host->config.chunk_bytes;
    const uint64_t all = (size + granule - 1) & ~(granule - 1);
    const bool was_asked = size <= atomic_load(&source->heap->ledger.limit_bytes) &&
                           weir_pool_get_oom(source->host->nodes[0].mapped, &record) == WEIR_OK &&
                           record.region_asked_bytes != 0;
    WEIR_ASSERT(is_power_of_two(granule));
    return was_asked ? record.region_asked_bytes : all;
}

static size_t process_explain(weir__source *source, char *text, size_t size)
{
    return weir_host_explain(source->host, source->node, text, size);
}

static weir_status process_check(weir__source *source, const char **why)
{
    return weir_host_check(source->host, why);
}

static void process_each(weir__source *source, weir__host_visitor visit, void *ctx)
{
    weir__host_each_live(source->host, visit, ctx);
}

const weir__source_ops weir__process_source = {
    .open = process_open,
    .close = process_close,
    .alloc = process_alloc,
    .free = process_free,
    .bytes_of = process_bytes_of,
    .grow = process_grow,
    .trim = process_trim,
    .add_stats = process_add_stats,
    .missing = process_missing,
    .explain = process_explain,
    .check = process_check,
    .each = process_each,
};
