/* bindings/mstx/src/range_tree.h: a set of address ranges ordered by start; ranges may overlap.
 *
 * A treap with nodes inside the caller's structs, so the tree itself allocates nothing. Each node also stores the
 * highest end in its subtree, which makes overlaps quick to find. Expected cost: logarithmic, plus one step for each
 * visited range. Not thread-safe.
 */
#ifndef WEIR_MSTX_RANGE_TREE_H
#define WEIR_MSTX_RANGE_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct range {
    struct range *left;
    struct range *right;
    uint64_t start;    /* set by the caller; constant while the range is in a tree */
    uint64_t end;      /* one past the last byte, above start */
    uint64_t highest;  /* greatest `end` in the node's subtree */
    uint64_t priority; /* not below that of any node in the subtree */
};

/* A tree is a pointer to its root; NULL is the empty tree. */
void weir__range_insert(struct range **root, struct range *range);
/* Removes the range, which must be in the tree. */
void weir__range_remove(struct range **root, const struct range *range);
/* Returns a range with that start, or NULL. */
struct range *weir__range_at(struct range *root, uint64_t start);
/* Visits every range with a byte in [start, end) by ascending start until the visitor returns false. Returns false in
 * that case, else true. */
bool weir__range_each(struct range *root, uint64_t start, uint64_t end, bool (*visit)(void *ctx, struct range *range),
                      void *ctx);

#endif
