/* Stands for ggml's header of this name: the declarations that the installed weir_ggml.c needs to compile. */
#include <stdbool.h>
#include <stddef.h>

typedef struct ggml_backend_buffer_type *ggml_backend_buffer_type_t;
typedef struct ggml_backend_buffer *ggml_backend_buffer_t;

ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void *memory, size_t size);
