/* core/shared/tree.h: an ordered set of nodes that lie inside the objects of the caller. Header only, for core, the
 * bindings and the tools.
 *
 * Idea: a treap (binary search tree by key, heap by priority) with parent links. Nodes are ordered by `key`, equal keys
 * by `tie`. Each node also has a weight and knows the greatest weight in its subtree, so the next node above a weight
 * is found without a visit to the nodes between. Equal nodes are allowed; a later one stands behind an earlier one.
 * Guarantee: priorities come from a fixed sequence, so the same calls give the same tree on every machine. Cost: O(log
 * n) expected for each operation, O(1) amortised for a step to a neighbour; nothing is allocated. Not thread-safe.
 *
 * Invariants, for each node x: the nodes of x.child[0] do not stand behind x, those of x.child[1] do not stand before
 * x; x.priority >= its children's; x.heaviest = max(x.weight, its children's heaviest).
 */
#ifndef WEIR_SHARED_TREE_H
#define WEIR_SHARED_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The caller sets key, tie and weight before it inserts the node. The unions give these members the names that users
 * need: a range of addresses has start and end, a free range in a set ordered by size has size and address. */
typedef struct weir__tree_node {
    struct weir__tree_node *child[2];
    struct weir__tree_node *parent;
    union {
        uint64_t key;
        uint64_t start;
        uint64_t size;
    };
    union {
        uint64_t tie;
        uint64_t end;
        uint64_t address;
    };
    uint64_t weight;
    uint64_t heaviest;
    uint64_t priority;
} weir__tree_node;

/* All zero = empty. */
typedef struct weir__tree {
    weir__tree_node *root;
    uint64_t sequence; /* state of the generator of priorities; any start value works */
} weir__tree;

static inline bool weir__tree_before(const weir__tree_node *node, uint64_t key, uint64_t tie)
{
    return node->key < key || (node->key == key && node->tie < tie);
}

static inline uint64_t weir__tree_heaviest_of(const weir__tree_node *node)
{
    uint64_t heaviest = node->weight;
    for (int way = 0; way < 2; way++) {
        if (node->child[way] != NULL && node->child[way]->heaviest > heaviest) {
            heaviest = node->child[way]->heaviest;
        }
    }
    return heaviest;
}

/* Repairs `heaviest` from the node upwards, after its weight or a subtree changed. Stops at the first node that does
 * not change. */
static inline void weir__tree_renew(weir__tree_node *node)
{
    for (; node != NULL; node = node->parent) {
        const uint64_t heaviest = weir__tree_heaviest_of(node);
        if (heaviest == node->heaviest) {
            return;
        }
        node->heaviest = heaviest;
    }
}

/* Puts `child`, which may be NULL, into the place of `old`. */
static inline void weir__tree_replace(weir__tree *tree, const weir__tree_node *old, weir__tree_node *child)
{
    weir__tree_node *const parent = old->parent;
    if (parent == NULL) {
        tree->root = child;
    } else {
        parent->child[parent->child[1] == old] = child;
    }
    if (child != NULL) {
        child->parent = parent;
    }
}

/* Exchanges `child` and its parent. Keeps their subtrees in order and `heaviest` of both correct. */
static inline void weir__tree_rotate_up(weir__tree *tree, weir__tree_node *child)
{
    weir__tree_node *const parent = child->parent;
    const int way = parent->child[1] == child;
    weir__tree_node *const moved = child->child[!way];
    weir__tree_replace(tree, parent, child);
    parent->child[way] = moved;
    if (moved != NULL) {
        moved->parent = parent;
    }
    child->child[!way] = parent;
    parent->parent = child;
    child->heaviest = parent->heaviest;
    parent->heaviest = weir__tree_heaviest_of(parent);
}

static inline void weir__tree_insert(weir__tree *tree, weir__tree_node *node)
{
    weir__tree_node *parent = NULL;
    weir__tree_node **link = &tree->root;
    while (*link != NULL) {
        parent = *link;
        link = &parent->child[!weir__tree_before(node, parent->key, parent->tie)];
    }
    /* The splitmix64 sequence: cheap, fixed, and mixed well enough for a heap order. */
    uint64_t mixed = (tree->sequence += UINT64_C(0x9E3779B97F4A7C15));
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    node->priority = mixed ^ (mixed >> 31);
    node->child[0] = NULL;
    node->child[1] = NULL;
    node->parent = parent;
    node->heaviest = node->weight;
    *link = node;
    weir__tree_renew(parent);
    while (node->parent != NULL && node->parent->priority < node->priority) {
        weir__tree_rotate_up(tree, node);
    }
}

/* Removes the node, which must be in the tree. */
static inline void weir__tree_remove(weir__tree *tree, weir__tree_node *node)
{
    while (node->child[0] != NULL && node->child[1] != NULL) {
        weir__tree_rotate_up(tree, node->child[node->child[1]->priority > node->child[0]->priority]);
    }
    weir__tree_replace(tree, node, node->child[node->child[0] == NULL]);
    weir__tree_renew(node->parent);
}

/* Returns the first node of the tree if `way` is 0, the last if `way` is 1; NULL if the tree is empty. */
static inline weir__tree_node *weir__tree_end(const weir__tree *tree, int way)
{
    weir__tree_node *node = tree->root;
    while (node != NULL && node->child[way] != NULL) {
        node = node->child[way];
    }
    return node;
}

/* Returns the previous node if `way` is 0, the next node if `way` is 1; NULL if there is none. */
static inline weir__tree_node *weir__tree_step(const weir__tree_node *node, int way)
{
    if (node->child[way] != NULL) {
        weir__tree_node *next = node->child[way];
        while (next->child[!way] != NULL) {
            next = next->child[!way];
        }
        return next;
    }
    while (node->parent != NULL && node->parent->child[way] == node) {
        node = node->parent;
    }
    return node->parent;
}

/* Returns the first node at or after (key, tie), or NULL. */
static inline weir__tree_node *weir__tree_at_least(const weir__tree *tree, uint64_t key, uint64_t tie)
{
    weir__tree_node *best = NULL;
    for (weir__tree_node *node = tree->root; node != NULL;) {
        const bool before = weir__tree_before(node, key, tie);
        best = before ? best : node;
        node = node->child[before];
    }
    return best;
}

/* Returns the last node with a key of at most `key`, or NULL. */
static inline weir__tree_node *weir__tree_floor(const weir__tree *tree, uint64_t key)
{
    weir__tree_node *best = NULL;
    for (weir__tree_node *node = tree->root; node != NULL;) {
        const bool fits = node->key <= key;
        best = fits ? node : best;
        node = node->child[fits];
    }
    return best;
}

static inline bool weir__tree_has_above(const weir__tree_node *node, uint64_t weight)
{
    return node != NULL && node->heaviest > weight;
}

/* Returns the first node after `node` with a weight above `weight`, or NULL. If `node` is NULL, begins at the first
 * node of the tree. */
static inline weir__tree_node *weir__tree_next_above(const weir__tree *tree, const weir__tree_node *node,
                                                     uint64_t weight)
{
    weir__tree_node *under = node != NULL ? node->child[1] : tree->root;
    while (!weir__tree_has_above(under, weight)) {
        while (node != NULL && node->parent != NULL && node->parent->child[1] == node) {
            node = node->parent;
        }
        node = node != NULL ? node->parent : NULL;
        if (node == NULL || node->weight > weight) {
            return (weir__tree_node *)node;
        }
        under = node->child[1];
    }
    while (weir__tree_has_above(under->child[0], weight) || under->weight <= weight) {
        under = under->child[!weir__tree_has_above(under->child[0], weight)];
    }
    return under;
}

/* Checks the invariants. Returns NULL if all hold, or a sentence that names the broken one. */
static inline const char *weir__tree_check(const weir__tree *tree)
{
    const weir__tree_node *last = NULL;
    for (const weir__tree_node *node = weir__tree_end(tree, 0); node != NULL; node = weir__tree_step(node, 1)) {
        if (last != NULL && weir__tree_before(node, last->key, last->tie)) {
            return "tree: two nodes are out of order";
        }
        if (node->heaviest != weir__tree_heaviest_of(node)) {
            return "tree: a node does not know the greatest weight below it";
        }
        for (int way = 0; way < 2; way++) {
            if (node->child[way] != NULL && node->child[way]->parent != node) {
                return "tree: a child has another parent";
            }
            if (node->child[way] != NULL && node->child[way]->priority > node->priority) {
                return "tree: a child has a higher priority than its parent";
            }
        }
        last = node;
    }
    return NULL;
}

#endif
