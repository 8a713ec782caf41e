/* Compares weir's declaration of struct xnn_allocator with the real one. Both headers have been included, in either
 * order. */
#include "table.h"

#include <stddef.h>

#ifdef __cplusplus
#define PROVE(what) static_assert(what, #what)
#else
#define PROVE(what) _Static_assert(what, #what)
#endif
#define SAME_PLACE(member)                                                                                             \
    PROVE(offsetof(struct xnn_allocator, member) == offsetof(struct weir__xnnpack_table, member) &&                    \
          sizeof(((struct xnn_allocator *)0)->member) == sizeof(((struct weir__xnnpack_table *)0)->member))

PROVE(sizeof(struct xnn_allocator) == sizeof(struct weir__xnnpack_table));
SAME_PLACE(context);
SAME_PLACE(allocate);
SAME_PLACE(reallocate);
SAME_PLACE(deallocate);
SAME_PLACE(aligned_allocate);
SAME_PLACE(aligned_deallocate);

/* The compiler compares the function types. */
static inline void weir_same_types(struct xnn_allocator *theirs, const struct weir__xnnpack_table *ours)
{
    theirs->context = ours->context;
    theirs->allocate = ours->allocate;
    theirs->reallocate = ours->reallocate;
    theirs->deallocate = ours->deallocate;
    theirs->aligned_allocate = ours->aligned_allocate;
    theirs->aligned_deallocate = ours->aligned_deallocate;
}
