/* size_tree.h: a set of free ranges ordered by (size, address), shared by the models in this folder.
 *
 * Idea: a treap, a binary tree ordered by key and heap-ordered by a pseudo-random priority, which balances itself
 * without colours or counts. Nodes sit inside the caller's records (WEIR_MODEL_OWNER finds the record), so the tree
 * never allocates and never fails.
 * Guarantee: the order is exact and total; equal sizes are ordered by address. Priorities come from a counter in the
 * tree, so the same calls build the same tree. Results do not depend on the shape of the tree.
 * Cost: insert, remove and search take O(log n) expected steps; count and bytes are one load.
 */
#ifndef WEIR_BENCHMARKS_MODELS_SIZE_TREE_H
#define WEIR_BENCHMARKS_MODELS_SIZE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the record of type `type` that has its member `member` at `pointer`. */
#define WEIR_MODEL_OWNER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Invariant: the nodes of the left subtree have a smaller (size, address), those of the right subtree a larger one, and
 * no child has a higher priority. */
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

/* Inserts a node. The caller has set node->size and node->address; no node of the tree may have the same pair. */
void size_tree_insert(struct size_tree *tree, struct size_node *node);
/* Removes a node, which must be in this tree. */
void size_tree_remove(struct size_tree *tree, struct size_node *node);

/* Returns the smallest node that is at least (size, address); NULL if there is none. */
struct size_node *size_tree_lower(const struct size_tree *tree, uint64_t size, uint64_t address);
/* Returns the node that follows `node` in the order; NULL at the end. */
struct size_node *size_tree_next(const struct size_tree *tree, const struct size_node *node);
/* Returns the node of the largest size; NULL if the tree is empty. */
struct size_node *size_tree_last(const struct size_tree *tree);

/* Calls `visit` for each node in order until it returns false; false if it did. */
bool size_tree_each(const struct size_tree *tree, bool (*visit)(void *ctx, struct size_node *node), void *ctx);
/* Checks order, priorities and sums. Returns NULL, or a sentence that names the broken invariant. */
const char *size_tree_check(const struct size_tree *tree);

#endif
