/* A heap, used as an engine does, and as XNNPACK would. */
#include <stdio.h>
#include <string.h>
#include <weir/heap.h>
#include <weir/xnnpack.h>

/* As the engine's xnnpack.h declares it. */
struct xnn_allocator {
    void *context;
    void *(*allocate)(void *context, size_t size);
    void *(*reallocate)(void *context, void *pointer, size_t size);
    void (*deallocate)(void *context, void *pointer);
    void *(*aligned_allocate)(void *context, size_t alignment, size_t size);
    void (*aligned_deallocate)(void *context, void *pointer);
};

int main(void)
{
    weir_heap *heap;
    if (weir_heap_create(NULL, &heap) != WEIR_OK) return 1;
    void *block = weir_heap_alloc(heap, 1 << 20);
    if (block == NULL) return 2;
    memset(block, 1, 1 << 20);
    if (weir_heap_free(heap, block) != WEIR_OK) return 3;
    struct xnn_allocator xnnpack;
    if (weir_xnnpack_allocator_init(heap, &xnnpack) != WEIR_OK) return 4;
    block = xnnpack.aligned_allocate(xnnpack.context, 64, 1000);
    if (block == NULL) return 5;
    xnnpack.aligned_deallocate(xnnpack.context, block);
    if (weir_xnnpack_allocator_fini(&xnnpack) != WEIR_OK) return 6;
    if (weir_heap_destroy(heap) != WEIR_OK) return 7;
    printf("weir %s\n", weir_version());
    return 0;
}
