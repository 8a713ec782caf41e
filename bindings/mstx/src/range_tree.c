/* bindings/mstx/src/range_tree.c: see range_tree.h.
 *
 * Order: by start, then by the node's own address, which makes equal starts distinct. The priority of a node is a hash
 * of both: addresses are not chosen by an adversary.
 */
#include "range_tree.h"

#include <stddef.h>

static uint64_t hash(const struct range *range)
{
    uint64_t x = range->start ^ (uint64_t)(uintptr_t)range * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static bool before(const struct range *a, const struct range *b)
{
    return a->start != b->start ? a->start < b->start : (uintptr_t)a < (uintptr_t)b;
}

static void renew(struct range *node)
{
    node->highest = node->end;
    if (node->left != NULL && node->left->highest > node->highest) {
        node->highest = node->left->highest;
    }
    if (node->right != NULL && node->right->highest > node->highest) {
        node->highest = node->right->highest;
    }
}

/* Splits a tree into the nodes before `key` and the rest. */
static void split(struct range *node, const struct range *key, struct range **lower, struct range **upper)
{
    if (node == NULL) {
        *lower = NULL;
        *upper = NULL;
    } else if (before(node, key)) {
        *lower = node;
        split(node->right, key, &node->right, upper);
        renew(node);
    } else {
        *upper = node;
        split(node->left, key, lower, &node->left);
        renew(node);
    }
}

/* Joins two trees. All of `lower` must lie before all of `upper`. */
static struct range *merge(struct range *lower, struct range *upper)
{
    if (lower == NULL || upper == NULL) {
        return lower != NULL ? lower : upper;
    }
    if (lower->priority >= upper->priority) {
        lower->right = merge(lower->right, upper);
        renew(lower);
        return lower;
    }
    upper->left = merge(lower, upper->left);
    renew(upper);
    return upper;
}

void weir__range_insert(struct range **root, struct range *range)
{
    range->priority = hash(range);
    range->left = NULL;
    range->right = NULL;
    renew(range);
    struct range *lower = NULL;
    struct range *upper = NULL;
    split(*root, range, &lower, &upper);
    *root = merge(merge(lower, range), upper);
}

void weir__range_remove(struct range **root, const struct range *range)
{
    struct range *node = *root;
    if (node == range) {
        *root = merge(node->left, node->right);
    } else {
        weir__range_remove(before(range, node) ? &node->left : &node->right, range);
        renew(node);
    }
}

struct range *weir__range_at(struct range *root, uint64_t start)
{
    struct range *found = NULL;
    while (root != NULL) {
        found = root->start == start ? root : found;
        root = root->start >= start ? root->left : root->right;
    }
    return found;
}

bool weir__range_each(struct range *root, uint64_t start, uint64_t end, bool (*visit)(void *ctx, struct range *range),
                      void *ctx)
{
    if (root == NULL || root->highest <= start) {
        return true;
    }
    return weir__range_each(root->left, start, end, visit, ctx) &&
           (root->start >= end || root->end <= start || visit(ctx, root)) &&
           (root->start >= end || weir__range_each(root->right, start, end, visit, ctx));
}
