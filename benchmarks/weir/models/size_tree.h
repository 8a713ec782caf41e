/* size_tree.h: a set of free ranges ordered by (size, address), shared by the models in this folder: a tree
 * (shared/tree.h) that also counts its nodes and adds up their sizes. Equal sizes are ordered by address. Results do
 * not depend on the shape of the tree.
 */
#ifndef WEIR_BENCHMARKS_MODELS_SIZE_TREE_H
#define WEIR_BENCHMARKS_MODELS_SIZE_TREE_H

#include "shared/tree.h"

/* Returns the structure of type `type` that contains `pointer` as its member `member` (container_of). */
#define WEIR_MODEL_OWNER(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct size_tree {
    weir__tree nodes;
    uint64_t count;
    uint64_t bytes; /* sum of the sizes */
};

/* Inserts a node. The caller has set node->size and node->address; no node of the tree may have the same pair. */
static inline void size_tree_insert(struct size_tree *tree, weir__tree_node *node)
{
    weir__tree_insert(&tree->nodes, node);
    tree->count++;
    tree->bytes += node->size;
}

/* Removes a node, which must be in this tree. */
static inline void size_tree_remove(struct size_tree *tree, weir__tree_node *node)
{
    weir__tree_remove(&tree->nodes, node);
    tree->count--;
    tree->bytes -= node->size;
}

/* Checks the tree's structure and counters, and that `belongs` accepts each node. Returns NULL or an error message. */
static inline const char *size_tree_check(const struct size_tree *tree,
                                          bool (*belongs)(const void *ctx, weir__tree_node *node), const void *ctx)
{
    uint64_t count = 0;
    uint64_t bytes = 0;
    for (weir__tree_node *node = weir__tree_end(&tree->nodes, 0); node != NULL; node = weir__tree_step(node, 1)) {
        if (!belongs(ctx, node)) {
            return "size tree: a range does not belong there";
        }
        count++;
        bytes += node->size;
    }
    if (count != tree->count || bytes != tree->bytes) {
        return "size tree: count or bytes differ from the nodes";
    }
    return weir__tree_check(&tree->nodes);
}

#endif
