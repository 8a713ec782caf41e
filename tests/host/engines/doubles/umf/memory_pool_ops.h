/* memory_pool_ops.h: a double of UMF's tables: the slots that each pool and provider has in UMF 1.0 to 1.2. */
#ifndef DOUBLE_UMF_MEMORY_POOL_OPS_H
#define DOUBLE_UMF_MEMORY_POOL_OPS_H

#include <stddef.h>
#include <stdint.h>

#define UMF_POOL_OPS_VERSION_CURRENT 0x10001u
#define UMF_PROVIDER_OPS_VERSION_CURRENT 0x10002u

typedef enum umf_result_t {
    UMF_RESULT_SUCCESS,
    UMF_RESULT_ERROR_OUT_OF_HOST_MEMORY,
    UMF_RESULT_ERROR_INVALID_ARGUMENT = 4
} umf_result_t;

typedef void *umf_memory_provider_handle_t;

typedef struct umf_memory_pool_ops_t {
    uint32_t version;
    umf_result_t (*initialize)(umf_memory_provider_handle_t provider, const void *params, void **pool);
    umf_result_t (*finalize)(void *pool);
    void *(*malloc)(void *pool, size_t size);
    void *(*calloc)(void *pool, size_t count, size_t size);
    void *(*realloc)(void *pool, void *block, size_t size);
    void *(*aligned_malloc)(void *pool, size_t size, size_t align);
    umf_result_t (*malloc_usable_size)(void *pool, const void *block, size_t *size);
    umf_result_t (*free)(void *pool, void *block);
    umf_result_t (*get_last_allocation_error)(void *pool);
    umf_result_t (*get_name)(void *pool, const char **name);
} umf_memory_pool_ops_t;

typedef struct umf_memory_provider_ops_t {
    uint32_t version;
    umf_result_t (*initialize)(const void *params, void **provider);
    umf_result_t (*finalize)(void *provider);
    umf_result_t (*alloc)(void *provider, size_t size, size_t align, void **block);
    umf_result_t (*free)(void *provider, void *block, size_t size);
    umf_result_t (*get_last_native_error)(void *provider, const char **text, int32_t *code);
    umf_result_t (*get_recommended_page_size)(void *provider, size_t size, size_t *page);
    umf_result_t (*get_min_page_size)(void *provider, const void *block, size_t *page);
    umf_result_t (*get_name)(void *provider, const char **name);
} umf_memory_provider_ops_t;

#endif
