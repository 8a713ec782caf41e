/* size_tree.c: see size_tree.h. */
#include "size_tree.h"

/* Spreads a counter over 32 bits (the finaliser of splitmix64); any good mixer keeps the tree shallow. */
static uint32_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(value >> 32);
}

static bool before(const struct size_node *node, uint64_t size, uint64_t address)
{
    return node->size < size || (node->size == size && node->address < address);
}

/* Splits `root` into the nodes before the key and the other nodes. */
static void split(struct size_node *root, uint64_t size, uint64_t address, struct size_node **low,
                  struct size_node **high)
{
    while (root != NULL) {
        if (before(root, size, address)) {
            *low = root;
            low = &root->right;
            root = root->right;
        } else {
            *high = root;
            high = &root->left;
            root = root->left;
        }
    }
    *low = NULL;
    *high = NULL;
}

/* Joins two trees, all of `low` before all of `high`, into *link. */
static void join(struct size_node **link, struct size_node *low, struct size_node *high)
{
    while (low != NULL && high != NULL) {
        if (low->priority >= high->priority) {
            *link = low;
            link = &low->right;
            low = low->right;
        } else {
            *link = high;
            link = &high->left;
            high = high->left;
        }
    }
    *link = low != NULL ? low : high;
}

void size_tree_insert(struct size_tree *tree, struct size_node *node)
{
    node->priority = mix(tree->inserted++);
    struct size_node **link = &tree->root;
    while (*link != NULL && (*link)->priority >= node->priority) {
        link = before(*link, node->size, node->address) ? &(*link)->right : &(*link)->left;
    }
    split(*link, node->size, node->address, &node->left, &node->right);
    *link = node;
    tree->count++;
    tree->bytes += node->size;
}

void size_tree_remove(struct size_tree *tree, struct size_node *node)
{
    struct size_node **link = &tree->root;
    while (*link != node) {
        link = before(*link, node->size, node->address) ? &(*link)->right : &(*link)->left;
    }
    join(link, node->left, node->right);
    tree->count--;
    tree->bytes -= node->size;
}

struct size_node *size_tree_lower(const struct size_tree *tree, uint64_t size, uint64_t address)
{
    struct size_node *best = NULL;
    struct size_node *node = tree->root;
    while (node != NULL) {
        if (before(node, size, address)) {
            node = node->right;
        } else {
            best = node;
            node = node->left;
        }
    }
    return best;
}

struct size_node *size_tree_next(const struct size_tree *tree, const struct size_node *node)
{
    return size_tree_lower(tree, node->size, node->address + 1);
}

struct size_node *size_tree_last(const struct size_tree *tree)
{
    struct size_node *node = tree->root;
    while (node != NULL && node->right != NULL) {
        node = node->right;
    }
    return node;
}

bool size_tree_each(const struct size_tree *tree, bool (*visit)(void *ctx, struct size_node *node), void *ctx)
{
    struct size_node *node = size_tree_lower(tree, 0, 0);
    while (node != NULL) {
        if (!visit(ctx, node)) {
            return false;
        }
        node = size_tree_next(tree, node);
    }
    return true;
}

/* State of a pass over the nodes in order. */
struct pass {
    const struct size_node *last;
    uint64_t count;
    uint64_t bytes;
    const char *why;
};

static bool check_node(void *ctx, struct size_node *node)
{
    struct pass *pass = ctx;
    if (pass->last != NULL && !before(pass->last, node->size, node->address)) {
        pass->why = "size tree: two nodes are out of order";
    }
    if ((node->left != NULL && node->left->priority > node->priority) ||
        (node->right != NULL && node->right->priority > node->priority)) {
        pass->why = "size tree: a child has a higher priority than its parent";
    }
    pass->last = node;
    pass->count++;
    pass->bytes += node->size;
    return pass->why == NULL;
}

const char *size_tree_check(const struct size_tree *tree)
{
    struct pass pass = {0};
    if (!size_tree_each(tree, check_node, &pass)) {
        return pass.why;
    }
    if (pass.count != tree->count || pass.bytes != tree->bytes) {
        return "size tree: count or bytes differ from the nodes";
    }
    return NULL;
}
