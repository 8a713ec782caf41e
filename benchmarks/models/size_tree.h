/* size_tree.h: an ordered set of free ranges by (size, address), shared by the models in this folder.
 *
 * Idea: a treap, a binary tree ordered by key and heap-ordered by a pseudo-random priority, which balances itself
 * without colours or counts. Nodes sit inside the caller's records (WEIR_MODEL_OWNER finds the record), so the tree
 * never allocates and never fails.
 * Guarantee: the order is exact and total; equal sizes are ordered by address. Priorities come from a counter in the
 * tree, so the same calls build the same tree. The shape never shows in an answer.
 * Cost: insert, remove and search take O(log n) expected steps; count and bytes are one load.
 */
#ifndef WEIR_BENCHMARKS_MODELS_SIZE_TREE_H
#define WEIR_BENCHMARKS_MODELS_SIZE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The record of type `type` whose member `member` is at `pointer`. */
#define WEIR_MODEL_OWNER(pointer, type, member)                                                    \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Invariant: what is left of a node has a smaller (size, address), what is right of it a larger one, and no child has
 * a higher priority. */
struct size_node {
    struct size_node *left;
    struct size_node *right;
    uint64_t size;
    uint64_t address;
    uint32_t priority;
};

struct size_tree {
    struct size_node *root;
    uint64_t count;
    uint64_t bytes;    /* sum of the sizes */
    uint64_t inserted; /* nodes so far: the source of priorities */
};

/* The caller has set node->size and node->address; no node of the tree has both. */
void size_tree_insert(struct size_tree *tree, struct size_node *node);
/* The node is in this tree. */
void size_tree_remove(struct size_tree *tree, struct size_node *node);

/* The smallest node that is at least (size, address), NULL when there is none. */
struct size_node *size_tree_lower(const struct size_tree *tree, uint64_t size, uint64_t address);
/* The node that follows `node` in the order, NULL at the end. */
struct size_node *size_tree_next(const struct size_tree *tree, const struct size_node *node);
/* The node of the largest size, NULL when empty. */
struct size_node *size_tree_last(const struct size_tree *tree);

/* Calls `visit` for each node in order until it returns false; false if it did. */
bool size_tree_each(const struct size_tree *tree, bool (*visit)(void *ctx, struct size_node *node),
                    void *ctx);
/* NULL, or a sentence: order, heap or sums are broken. */
const char *size_tree_check(const struct size_tree *tree);

#endif
