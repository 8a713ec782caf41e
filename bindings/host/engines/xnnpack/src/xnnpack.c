/* bindings/host/engines/xnnpack/src/xnnpack.c: XNNPACK's five functions over a heap, with a reserve for allocations
 * that XNNPACK does not check.
 *
 * Idea: the heap serves all requests. The reserve is one long-lived block of the heap, handed out from its front and
 * whole again when the last of its pieces is freed. It serves `allocate` only, and only if the heap cannot: XNNPACK
 * checks the results of `reallocate` and `aligned_allocate`, which request nearly all of its bytes.
 *
 * Guarantee: while the reserve lasts, `allocate` does not return NULL. A piece of the reserve is recognized by its
 * address.
 *
 * Cost: beyond the heap's, one comparison of addresses for each free. The lock is taken only for pieces of the reserve.
 */
#include <weir/xnnpack.h>

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { RESERVE_BYTES = 256 << 10, PIECE_ALIGN = 64 };

/* The context of an xnn_allocator. XNNPACK has had the bytes [reserve, reserve + used) as blocks; `pieces` is the
 * number of blocks that are still live. If pieces is 0, used is 0. */
struct context {
    weir_heap *heap;
    unsigned char *reserve;
    pthread_mutex_t lock; /* protects `used` and `pieces` */
    size_t used;
    size_t pieces;
};

/* Header of a block in the reserve, as large as the alignment, so that all these blocks are aligned. */
struct piece {
    _Alignas(PIECE_ALIGN) size_t size;
};

/* --- the reserve --- */

static bool is_in_reserve(const struct context *self, const void *block)
{
    return (uintptr_t)block - (uintptr_t)self->reserve < RESERVE_BYTES;
}

static void *reserve_alloc(struct context *self, size_t size)
{
    void *block = NULL;
    if (size > RESERVE_BYTES) {
        return NULL;
    }
    const size_t room = sizeof(struct piece) + (size + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    (void)pthread_mutex_lock(&self->lock);
    if (room <= RESERVE_BYTES - self->used) {
        struct piece *piece = (struct piece *)(void *)(self->reserve + self->used);
        piece->size = size;
        self->used += room;
        self->pieces++;
        block = piece + 1;
    }
    (void)pthread_mutex_unlock(&self->lock);
    return block;
}

static void reserve_free(struct context *self)
{
    (void)pthread_mutex_lock(&self->lock);
    if (--self->pieces == 0) {
        self->used = 0;
    }
    (void)pthread_mutex_unlock(&self->lock);
}

/* --- XNNPACK's five functions --- */

/* Replaces a size of 0 by 1: XNNPACK requests 0 bytes and takes NULL for a failure. */
static size_t at_least_one(size_t size)
{
    return size != 0 ? size : 1;
}

static void *allocate(void *context, size_t size)
{
    struct context *self = context;
    void *block = weir_heap_alloc(self->heap, at_least_one(size));
    return block != NULL ? block : reserve_alloc(self, size);
}

static void deallocate(void *context, void *block)
{
    struct context *self = context;
    if (is_in_reserve(self, block)) {
        reserve_free(self);
    } else {
        (void)weir_heap_free(self->heap, block); /* the heap refuses a foreign block and counts it in its statistics */
    }
}

/* Reallocates a block of the reserve as a block of the heap. */
static void *move_to_heap(struct context *self, void *block, size_t size)
{
    const struct piece *piece = (const struct piece *)block - 1;
    void *moved = weir_heap_alloc(self->heap, at_least_one(size));
    if (moved != NULL) {
        memcpy(moved, block, size < piece->size ? size : piece->size);
        reserve_free(self);
    }
    return moved;
}

static void *reallocate(void *context, void *block, size_t size)
{
    struct context *self = context;
    return is_in_reserve(self, block) ? move_to_heap(self, block, size)
                                      : weir_heap_realloc(self->heap, block, at_least_one(size));
}

static void *aligned_allocate(void *context, size_t align, size_t size)
{
    struct context *self = context;
    return weir_heap_alloc_aligned(self->heap, at_least_one(size), align);
}

/* --- init and fini --- */

weir_status weir_xnnpack_allocator_init(weir_heap *heap, struct xnn_allocator *allocator)
{
    if (heap == NULL || allocator == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_xnnpack_allocator_init: %s is NULL",
                           heap == NULL ? "heap" : "allocator");
    }
    struct context *self = calloc(1, sizeof(*self));
    void *reserve = weir_heap_alloc_long_lived(heap, RESERVE_BYTES, PIECE_ALIGN);
    if (self == NULL || reserve == NULL || pthread_mutex_init(&self->lock, NULL) != 0) {
        (void)weir_heap_free(heap, reserve);
        free(self);
        return WEIR_ERR_NO_MEMORY;
    }
    self->heap = heap;
    self->reserve = reserve;
    const struct weir__xnnpack_table table = {
        .context = self,
        .allocate = allocate,
        .reallocate = reallocate,
        .deallocate = deallocate,
        .aligned_allocate = aligned_allocate,
        .aligned_deallocate = deallocate,
    };
    memcpy(allocator, &table, sizeof(table));
    return WEIR_OK;
}

weir_status weir_xnnpack_allocator_fini(struct xnn_allocator *allocator)
{
    struct weir__xnnpack_table table;
    if (allocator == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_xnnpack_allocator_fini: allocator is NULL");
    }
    memcpy(&table, allocator, sizeof(table));
    if (table.allocate != allocate || table.context == NULL) {
        return weir_refuse(
            WEIR_ERR_INVALID,
            "weir_xnnpack_allocator_fini: allocator was not filled by weir_xnnpack_allocator_init, or has ended");
    }
    struct context *self = table.context;
    (void)pthread_mutex_lock(&self->lock);
    const size_t pieces = self->pieces;
    (void)pthread_mutex_unlock(&self->lock);
    if (pieces != 0) {
        return weir_refuse(WEIR_ERR_BUSY,
                           "weir_xnnpack_allocator_fini: %zu blocks in the reserve of allocator are live", pieces);
    }
    const weir_status status = weir_heap_free(self->heap, self->reserve);
    (void)pthread_mutex_destroy(&self->lock);
    free(self);
    memset(allocator, 0, sizeof(table));
    return status;
}
