/* weir/ggml.h: a heap as a buffer type of ggml.
 *
 *     weir_ggml_buffer_type_create(heap, WEIR_GGML_LONG_LIVED, &weights_type);
 *     weir_ggml_buffer_type_create(heap, 0, &type);
 *     ggml_backend_alloc_ctx_tensors_from_buft(context, weights_type);
 *     ggml_gallocr_new(type);
 *
 * A type is good wherever ggml or llama.cpp takes a ggml_backend_buffer_type_t of host memory, beside ggml's own. Its buffers
 * are blocks of the heap; when the heap has nothing ggml gets NULL and returns its clean failure.
 *
 * ggml promises no stable interface for this, so it is not part of libweir: bindings/ggml/src/ggml.c is compiled with the ggml
 * that it is used with. It was written against v0.5.0.
 *
 * Thread safety: every function, except the destroy of a type that is in use.
 */
#ifndef WEIR_GGML_H
#define WEIR_GGML_H

#include <weir/base.h>
#include <weir/heap.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_backend_buffer_type; /* *ggml_backend_buffer_type_t */

enum {
    /* Buffers are weights and the like: weir_heap_alloc_long_lived. */
    WEIR_GGML_LONG_LIVED = 1u << 0,
};

/* The host must be able to read and write the heap's memory; the heap outlives the type. WEIR_ERR_INVALID: NULL, an unknown
 * flag. WEIR_ERR_NO_MEMORY. */
weir_status weir_ggml_buffer_type_create(weir_heap *heap, uint32_t flags,
                                         struct ggml_backend_buffer_type **type);
/* NULL is allowed. WEIR_ERR_BUSY: a buffer of it is live; nothing has changed. */
weir_status weir_ggml_buffer_type_destroy(struct ggml_backend_buffer_type *type);

#ifdef __cplusplus
}
#endif

#endif
