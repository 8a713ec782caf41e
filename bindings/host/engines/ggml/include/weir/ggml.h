/* weir/ggml.h: a heap as a buffer type of ggml.
 *
 *     weir_ggml_buffer_type_create(heap, WEIR_GGML_LONG_LIVED, &weights_type);
 *     weir_ggml_buffer_type_create(heap, 0, &type);
 *     ggml_backend_alloc_ctx_tensors_from_buft(context, weights_type);
 *     ggml_gallocr_new(type);
 *
 * The type can be used wherever ggml or llama.cpp takes a ggml_backend_buffer_type_t of host memory, beside ggml's own.
 * Its buffers are blocks of the heap; when the heap cannot serve a request ggml gets NULL and returns its clean
 * failure.
 *
 * ggml has no stable interface for buffer types, so this binding is not part of libweir:
 * bindings/host/engines/ggml/src/ggml.c is compiled with the program's ggml. It was written against v0.5.0.
 *
 * Thread safety: every function may be called from any thread, except the destroy of a type that is in use.
 */
#ifndef WEIR_GGML_H
#define WEIR_GGML_H

#include <weir/base.h>
#include <weir/heap.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_backend_buffer_type; /* ggml_backend_buffer_type_t points to this struct */

enum {
    /* For buffers of long-lived data, such as weights: the type allocates them with weir_heap_alloc_long_lived. */
    WEIR_GGML_LONG_LIVED = 1u << 0,
};

/* Makes a buffer type. The host must be able to read and write the heap's memory; the heap must outlive the type.
 * WEIR_ERR_INVALID: an argument is NULL, or a flag is unknown. WEIR_ERR_NO_MEMORY: no host memory. */
weir_status weir_ggml_buffer_type_create(weir_heap *heap, uint32_t flags, struct ggml_backend_buffer_type **type);
/* Destroys a buffer type. NULL is allowed. WEIR_ERR_BUSY: a buffer of the type is live; nothing has changed. */
weir_status weir_ggml_buffer_type_destroy(struct ggml_backend_buffer_type *type);

#ifdef __cplusplus
}
#endif

#endif
