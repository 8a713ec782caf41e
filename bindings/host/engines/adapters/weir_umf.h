/* weir_umf.h: a heap as a pool of UMF (oneAPI Unified Memory Framework 1.0 and later), and as a provider for UMF's own
 * pools.
 *
 *     umfPoolCreate(weir_umf_pool_ops(), provider, heap, 0, &pool);      all blocks from the heap, none from `provider`
 *     umfMemoryProviderCreate(weir_umf_provider_ops(), heap, &provider); the memory of another pool from the heap
 *
 * The heap is borrowed: it outlives pool and provider, which destroy nothing. Any thread may use them. Out of memory:
 * UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY; weir_heap_explain has the reason. UMF learns of the addresses of a pool from the
 * providers of UMF only, so umfPoolByPtr does not find blocks of the pool.
 */
#ifndef WEIR_UMF_H
#define WEIR_UMF_H

#include <stdint.h>
#include <umf/memory_pool_ops.h>
#include <umf/memory_provider_ops.h>
#include <weir/heap.h>

/* --- as a pool --- */

static inline umf_result_t weir_umf_pool_initialize(umf_memory_provider_handle_t provider, const void *heap,
                                                    void **pool)
{
    (void)provider;
    *pool = (void *)(uintptr_t)heap;
    return heap != NULL ? UMF_RESULT_SUCCESS : UMF_RESULT_ERROR_INVALID_ARGUMENT;
}

static inline umf_result_t weir_umf_pool_finalize(void *heap)
{
    (void)heap;
    return UMF_RESULT_SUCCESS;
}

static inline void *weir_umf_malloc(void *heap, size_t size)
{
    return weir_heap_alloc((weir_heap *)heap, size);
}

static inline void *weir_umf_calloc(void *heap, size_t count, size_t size)
{
    return weir_heap_alloc_zeroed((weir_heap *)heap, count, size);
}

static inline void *weir_umf_realloc(void *heap, void *block, size_t size)
{
    return weir_heap_realloc((weir_heap *)heap, block, size);
}

static inline void *weir_umf_aligned_malloc(void *heap, size_t size, size_t align)
{
    return weir_heap_alloc_aligned((weir_heap *)heap, size, align);
}

static inline umf_result_t weir_umf_usable_size(void *heap, const void *block, size_t *size)
{
    *size = weir_heap_usable_size((weir_heap *)heap, block);
    return block == NULL || *size != 0 ? UMF_RESULT_SUCCESS : UMF_RESULT_ERROR_INVALID_ARGUMENT;
}

static inline umf_result_t weir_umf_free(void *heap, void *block)
{
    return weir_heap_free((weir_heap *)heap, block) == WEIR_OK ? UMF_RESULT_SUCCESS : UMF_RESULT_ERROR_INVALID_ARGUMENT;
}

static inline umf_result_t weir_umf_last_error(void *heap)
{
    (void)heap;
    return UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY; /* UMF asks for the error only after an allocation returned NULL */
}

static inline umf_result_t weir_umf_pool_name(void *heap, const char **name)
{
    (void)heap;
    *name = "weir";
    return UMF_RESULT_SUCCESS;
}

/* Returns the ops table for umfPoolCreate. The heap is passed there as `params`. Functions that newer releases of UMF
 * add stay NULL. */
static inline const umf_memory_pool_ops_t *weir_umf_pool_ops(void)
{
    static umf_memory_pool_ops_t ops;
    ops.version = UMF_POOL_OPS_VERSION_CURRENT;
    ops.initialize = weir_umf_pool_initialize;
    ops.finalize = weir_umf_pool_finalize;
    ops.malloc = weir_umf_malloc;
    ops.calloc = weir_umf_calloc;
    ops.realloc = weir_umf_realloc;
    ops.aligned_malloc = weir_umf_aligned_malloc;
    ops.malloc_usable_size = weir_umf_usable_size;
    ops.free = weir_umf_free;
    ops.get_last_allocation_error = weir_umf_last_error;
    ops.get_name = weir_umf_pool_name;
    return &ops;
}

/* --- as a provider --- */

#define WEIR_UMF_PAGE ((size_t)4096)

static inline umf_result_t weir_umf_provider_initialize(const void *heap, void **provider)
{
    return weir_umf_pool_initialize(NULL, heap, provider);
}

static inline umf_result_t weir_umf_provider_finalize(void *heap)
{
    return weir_umf_pool_finalize(heap);
}

static inline umf_result_t weir_umf_provider_alloc(void *heap, size_t size, size_t align, void **block)
{
    void *found = weir_heap_alloc_aligned((weir_heap *)heap, size, align > WEIR_UMF_PAGE ? align : WEIR_UMF_PAGE);
    if (found == NULL) {
        return UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    *block = found;
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t weir_umf_provider_free(void *heap, void *block, size_t size)
{
    (void)size;
    return weir_umf_free(heap, block);
}

static inline umf_result_t weir_umf_native_error(void *heap, const char **text, int32_t *code)
{
    (void)heap;
    *text = weir_last_error();
    *code = 0;
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t weir_umf_recommended_page(void *heap, size_t size, size_t *page)
{
    (void)heap;
    (void)size;
    *page = WEIR_UMF_PAGE;
    return UMF_RESULT_SUCCESS;
}

static inline umf_result_t weir_umf_min_page(void *heap, const void *block, size_t *page)
{
    (void)block;
    return weir_umf_recommended_page(heap, 0, page);
}

static inline umf_result_t weir_umf_provider_name(void *heap, const char **name)
{
    return weir_umf_pool_name(heap, name);
}

/* Returns the ops table for umfMemoryProviderCreate. The heap is passed there as `params`. */
static inline const umf_memory_provider_ops_t *weir_umf_provider_ops(void)
{
    static umf_memory_provider_ops_t ops;
    ops.version = UMF_PROVIDER_OPS_VERSION_CURRENT;
    ops.initialize = weir_umf_provider_initialize;
    ops.finalize = weir_umf_provider_finalize;
    ops.alloc = weir_umf_provider_alloc;
    ops.free = weir_umf_provider_free;
    ops.get_last_native_error = weir_umf_native_error;
    ops.get_recommended_page_size = weir_umf_recommended_page;
    ops.get_min_page_size = weir_umf_min_page;
    ops.get_name = weir_umf_provider_name;
    return &ops;
}

#endif
