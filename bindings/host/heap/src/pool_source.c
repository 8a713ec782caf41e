/* pool_source.c: blocks of any pool, in the order of one stream. owned.c maps each address to the block's handle, so
 * the memory, which the host may not be able to read, is never touched.
 */
#include "heap_internal.h"

#include <stdio.h>

static weir_status pool_open(weir__source *source, weir_heap *heap)
{
    WEIR_ASSERT(source->owned == NULL && source->from.pool != NULL && source->from.stream != NULL);
    (void)heap;
    const weir_status status = weir__owned_create(&source->owned);
    return status == WEIR_OK ? weir_pool_hold(source->from.pool) : status;
}

static weir_block *named(uint64_t name)
{
    WEIR_ASSERT(name != 0);
    return (weir_block *)(uintptr_t)name;
}

struct freed {
    weir__source *source;
    uint64_t bytes;
    weir_status first;
};

static weir_status release(void *ctx, void *block, uint64_t name)
{
    WEIR_ASSERT(weir_block_address(named(name)) == (uint64_t)(uintptr_t)block);
    struct freed *freed = ctx;
    (void)block;
    freed->bytes = weir_block_capacity(named(name));
    return weir_pool_free(freed->source->from.pool, named(name), freed->source->from.stream);
}

static bool end_block(void *ctx, uint64_t block, uint64_t name)
{
    struct freed *freed = ctx;
    const weir_status status = release(freed, (void *)(uintptr_t)block, name);
    freed->first = freed->first != WEIR_OK ? freed->first : status;
    return true;
}

static weir_status pool_close(weir__source *source)
{
    struct freed freed = {.source = source};
    if (source->owned != NULL) {
        weir__owned_each(source->owned, end_block, &freed);
        (void)!weir_pool_release(source->from.pool);
    }
    weir__owned_destroy(source->owned);
    return freed.first;
}

static weir_status pool_alloc(weir__source *source, uint64_t size, uint64_t align, void **block, uint64_t *bytes)
{
    WEIR_ASSERT(size > 0 && is_power_of_two(align));
    weir_block *got = NULL;
    weir_status status = weir_pool_alloc(source->from.pool, source->from.stream, size, align, &got);
    if (status != WEIR_OK) {
        return status;
    }
    void *address = (void *)(uintptr_t)weir_block_address(got);
    const uint64_t capacity = weir_block_capacity(got);
    if (!weir__owned_put(source->owned, address, (uint64_t)(uintptr_t)got)) {
        status = weir_pool_free(source->from.pool, got, source->from.stream);
        return WEIR_ERR_NO_MEMORY;
    }
    WEIR_ASSERT(capacity >= size);
    *block = address;
    *bytes = capacity;
    return WEIR_OK;
}

static weir_status pool_free(weir__source *source, void *block, uint64_t *bytes)
{
    struct freed freed = {.source = source};
    const weir_status status = weir__owned_free(source->owned, block, release, &freed);
    *bytes = freed.bytes;
    return status;
}

static uint64_t pool_bytes_of(weir__source *source, const void *block)
{
    const uint64_t name = weir__owned_get(source->owned, block);
    return name != 0 ? weir_block_capacity(named(name)) : 0;
}

static weir_status pool_trim(weir__source *source, uint64_t keep_bytes, uint64_t *released)
{
    return source->is_second ? WEIR_OK : weir_pool_trim(source->from.pool, keep_bytes, 0, released);
}

static void pool_add_stats(weir__source *source, weir__source_stats *stats)
{
    weir_pool_stats found = WEIR_POOL_STATS_INIT;
    weir__owned_counts(source->owned, &stats->allocs, &stats->frees);
    if (!source->is_second && weir_pool_get_stats(source->from.pool, &found) == WEIR_OK) {
        stats->held_bytes += found.reserved_bytes;
        stats->peak_held_bytes += found.peak_reserved_bytes;
    }
}

static size_t pool_explain(weir__source *source, char *text, size_t size)
{
    weir_oom_record record = WEIR_OOM_RECORD_INIT;
    if (weir_pool_get_oom(source->from.pool, &record) != WEIR_OK) {
        return 0;
    }
    const int length = snprintf(text, size, "%s", record.text);
    return length > 0 ? (size_t)length : 0;
}

struct proof {
    weir__source *source;
    weir_status status; /* the first error */
};

static bool prove(void *ctx, uint64_t block, uint64_t name)
{
    struct proof *proof = ctx;
    weir_block *found = NULL;
    if (proof->status == WEIR_OK) {
        const weir_status status = weir_pool_find(proof->source->from.pool, block, &found);
        const bool is_there = status == WEIR_OK && found == named(name);
        proof->status = is_there || status == WEIR_ERR_NO_MEMORY ? status : WEIR_ERR_INTERNAL;
    }
    return proof->status == WEIR_OK;
}

static weir_status pool_check(weir__source *source, const char **why)
{
    struct proof proof = {.source = source, .status = WEIR_OK};
    weir__owned_each(source->owned, prove, &proof);
    if (proof.status == WEIR_ERR_INTERNAL) {
        *why = "a block of the heap is none of its pool's";
    }
    return proof.status;
}

struct visit {
    weir__host_visitor visit;
    void *ctx;
};

static bool visit_block(void *ctx, uint64_t block, uint64_t name)
{
    const struct visit *visit = ctx;
    visit->visit(visit->ctx, block, weir_block_size(named(name)));
    return true;
}

static void pool_each(weir__source *source, weir__host_visitor visit, void *ctx)
{
    struct visit all = {.visit = visit, .ctx = ctx};
    weir__owned_each(source->owned, visit_block, &all);
}

const weir__source_ops weir__pool_source = {
    .open = pool_open,
    .close = pool_close,
    .alloc = pool_alloc,
    .free = pool_free,
    .bytes_of = pool_bytes_of,
    .trim = pool_trim,
    .add_stats = pool_add_stats,
    .explain = pool_explain,
    .check = pool_check,
    .each = pool_each,
};
