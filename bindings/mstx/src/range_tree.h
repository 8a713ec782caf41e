/* bindings/mstx/src/range_tree.h: ranges of addresses by their start, which may overlap.
 *
 * A treap whose nodes lie in the caller's structs, so that only the caller needs host memory; each node also knows the
 * highest end below it, which makes overlaps quick to find. Expected cost: logarithmic, and a step for each range visited.
 * Not thread-safe.
 */
#ifndef WEIR_MSTX_RANGE_TREE_H
#define WEIR_MSTX_RANGE_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct range {
    struct range *left;
    struct range *right;
    uint64_t start; /* the caller's; not changed while the range is in a tree */
    uint64_t end;   /* one past the last byte, above start */
    uint64_t highest; /* max of end over the node and all below it */
    uint64_t priority; /* at or above that of all below it */
};

/* A tree is its root; NULL is the empty one. */
void weir__range_insert(struct range **root, struct range *range);
/* The range is in the tree. */
void weir__range_remove(struct range **root, const struct range *range);
/* A range that starts there, NULL when there is none. */
struct range *weir__range_at(struct range *root, uint64_t start);
/* Visits every range with a byte in [start, end) by ascending start, until the visitor says false, which is the answer. */
bool weir__range_each(struct range *root, uint64_t start, uint64_t end,
                      bool (*visit)(void *ctx, struct range *range), void *ctx);

#endif
