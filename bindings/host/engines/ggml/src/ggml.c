/* bindings/host/engines/ggml/src/ggml.c: a buffer type over a heap: its buffers are blocks of the heap.
 *
 * Idea: ggml has buffers over memory of the caller (ggml_backend_cpu_buffer_from_ptr), with all functions that read and
 * write tensors in host memory. A buffer over a heap is such a buffer, with its own type and its own free function.
 *
 * Guarantee: a failed allocation of a buffer keeps no memory.
 *
 * Cost: that of the heap.
 */
#include <weir/ggml.h>

#include <stdatomic.h>
#include <stdlib.h>

#include <ggml-backend.h>

#include <ggml-backend-impl.h>
#if GGML_BACKEND_API_VERSION != 2
#error "weir/ggml.h was written against version 2 of ggml's backend interface (v0.5.0): compare the structs used here"
#endif

enum { ALIGN = 64 };

/* A buffer type together with its context. */
struct heap_type {
    struct ggml_backend_buffer_type type;
    weir_heap *heap;
    bool long_lived;
    atomic_size_t buffers; /* number of live buffers */
};

static const char *get_name(ggml_backend_buffer_type_t type)
{
    const struct heap_type *own = type->context;
    return own->long_lived ? "weir_long_lived" : "weir";
}

static void free_buffer(ggml_backend_buffer_t buffer)
{
    struct heap_type *own = buffer->buft->context;
    (void)weir_heap_free(own->heap, buffer->context);
    (void)atomic_fetch_sub(&own->buffers, 1);
}

static ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size)
{
    struct heap_type *own = type->context;
    void *block = own->long_lived ? weir_heap_alloc_long_lived(own->heap, size, ALIGN)
                                  : weir_heap_alloc_aligned(own->heap, size, ALIGN);
    ggml_backend_buffer_t buffer = block != NULL ? ggml_backend_cpu_buffer_from_ptr(block, size) : NULL;
    if (buffer == NULL) {
        (void)weir_heap_free(own->heap, block);
        return NULL;
    }
    buffer->buft = type;
    buffer->iface.free_buffer = free_buffer;
    (void)atomic_fetch_add(&own->buffers, 1);
    return buffer;
}

static size_t get_alignment(ggml_backend_buffer_type_t type)
{
    (void)type;
    return ALIGN;
}

static bool is_host(ggml_backend_buffer_type_t type)
{
    (void)type;
    return true;
}

weir_status weir_ggml_buffer_type_create(weir_heap *heap, uint32_t flags, struct ggml_backend_buffer_type **type)
{
    const uint32_t unknown = flags & ~(uint32_t)WEIR_GGML_LONG_LIVED;
    if (heap == NULL || type == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_ggml_buffer_type_create: %s is NULL",
                           heap == NULL ? "heap" : "type");
    }
    if (unknown != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_ggml_buffer_type_create: flags has unknown bits: %#x", unknown);
    }
    struct heap_type *own = calloc(1, sizeof(*own));
    if (own == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    own->heap = heap;
    own->long_lived = (flags & WEIR_GGML_LONG_LIVED) != 0;
    own->type.iface.get_name = get_name;
    own->type.iface.alloc_buffer = alloc_buffer;
    own->type.iface.get_alignment = get_alignment;
    own->type.iface.is_host = is_host;
    own->type.context = own;
    *type = &own->type;
    return WEIR_OK;
}

weir_status weir_ggml_buffer_type_destroy(struct ggml_backend_buffer_type *type)
{
    struct heap_type *own = type != NULL ? type->context : NULL;
    const size_t buffers = own != NULL ? atomic_load(&own->buffers) : 0;
    if (buffers != 0) {
        return weir_refuse(WEIR_ERR_BUSY, "weir_ggml_buffer_type_destroy: %zu buffers of type are live", buffers);
    }
    free(own);
    return WEIR_OK;
}
