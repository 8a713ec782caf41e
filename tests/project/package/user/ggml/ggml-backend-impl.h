/* Stands for ggml's header of this name: the members that the installed weir_ggml.c sets. */
#define GGML_BACKEND_API_VERSION 2

struct ggml_backend_buffer_type {
    struct {
        const char *(*get_name)(ggml_backend_buffer_type_t type);
        ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t type, size_t size);
        size_t (*get_alignment)(ggml_backend_buffer_type_t type);
        bool (*is_host)(ggml_backend_buffer_type_t type);
    } iface;
    void *context;
};

struct ggml_backend_buffer {
    struct {
        void (*free_buffer)(ggml_backend_buffer_t buffer);
    } iface;
    ggml_backend_buffer_type_t buft;
    void *context;
};
