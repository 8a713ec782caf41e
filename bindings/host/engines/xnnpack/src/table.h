/* bindings/host/engines/xnnpack/src/table.h: struct xnn_allocator of xnnpack.h under weir's own name, so that weir
 * builds without XNNPACK. tests/host/engines compares the two.
 */
#ifndef WEIR_XNNPACK_TABLE_H
#define WEIR_XNNPACK_TABLE_H

#include <stddef.h>

struct weir__xnnpack_table {
    void *context;
    void *(*allocate)(void *context, size_t size);
    void *(*reallocate)(void *context, void *block, size_t size);
    void (*deallocate)(void *context, void *block);
    void *(*aligned_allocate)(void *context, size_t align, size_t size);
    void (*aligned_deallocate)(void *context, void *block);
};

#endif
