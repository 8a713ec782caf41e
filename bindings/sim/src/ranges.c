/* ranges.c: the treap of ranges.h. Rotations keep the order and `longest`. */
#include "ranges.h"

static uint64_t longest_of(const weir__sim_range *range)
{
    uint64_t longest = range->end - range->start;
    if (range->left != NULL && range->left->longest > longest) {
        longest = range->left->longest;
    }
    if (range->right != NULL && range->right->longest > longest) {
        longest = range->right->longest;
    }
    return longest;
}

/* Repairs `longest` from `range` upwards; stops at the first node that does not change. */
static void update_upwards(weir__sim_range *range)
{
    while (range != NULL) {
        uint64_t longest = longest_of(range);
        if (longest == range->longest) {
            return;
        }
        range->longest = longest;
        range = range->parent;
    }
}

static void replace_child(weir__sim_ranges *ranges, weir__sim_range *parent, weir__sim_range *old,
                          weir__sim_range *child)
{
    if (parent == NULL) {
        ranges->root = child;
    } else if (parent->left == old) {
        parent->left = child;
    } else {
        parent->right = child;
    }
    if (child != NULL) {
        child->parent = parent;
    }
}

/* Exchanges `child` and its parent. Keeps their subtrees in order and `longest` of both correct. */
static void rotate_up(weir__sim_ranges *ranges, weir__sim_range *child)
{
    weir__sim_range *parent = child->parent;
    replace_child(ranges, parent->parent, parent, child);
    weir__sim_range *moved;
    if (parent->left == child) {
        moved = child->right;
        parent->left = moved;
        child->right = parent;
    } else {
        moved = child->left;
        parent->right = moved;
        child->left = parent;
    }
    if (moved != NULL) {
        moved->parent = parent;
    }
    parent->parent = child;
    child->longest = parent->longest;
    parent->longest = longest_of(parent);
}

weir__sim_range *weir__sim_ranges_floor(const weir__sim_ranges *ranges, uint64_t address)
{
    weir__sim_range *best = NULL;
    weir__sim_range *range = ranges->root;
    while (range != NULL) {
        if (range->start <= address) {
            best = range;
            range = range->right;
        } else {
            range = range->left;
        }
    }
    return best;
}

weir__sim_range *weir__sim_ranges_after(const weir__sim_ranges *ranges, uint64_t address)
{
    weir__sim_range *best = NULL;
    weir__sim_range *range = ranges->root;
    while (range != NULL) {
        if (range->end > address) {
            best = range;
            range = range->left;
        } else {
            range = range->right;
        }
    }
    return best;
}

weir__sim_range *weir__sim_ranges_first(const weir__sim_ranges *ranges)
{
    weir__sim_range *range = ranges->root;
    while (range != NULL && range->left != NULL) {
        range = range->left;
    }
    return range;
}

weir__sim_range *weir__sim_ranges_next(const weir__sim_range *range)
{
    if (range->right != NULL) {
        weir__sim_range *next = range->right;
        while (next->left != NULL) {
            next = next->left;
        }
        return next;
    }
    while (range->parent != NULL && range->parent->right == range) {
        range = range->parent;
    }
    return range->parent;
}

weir__sim_range *weir__sim_ranges_previous(const weir__sim_range *range)
{
    if (range->left != NULL) {
        weir__sim_range *previous = range->left;
        while (previous->right != NULL) {
            previous = previous->right;
        }
        return previous;
    }
    while (range->parent != NULL && range->parent->left == range) {
        range = range->parent;
    }
    return range->parent;
}

weir__sim_range *weir__sim_ranges_first_fit(const weir__sim_ranges *ranges, uint64_t size)
{
    weir__sim_range *range = ranges->root;
    if (range == NULL || range->longest < size) {
        return NULL;
    }
    for (;;) {
        if (range->left != NULL && range->left->longest >= size) {
            range = range->left;
        } else if (range->end - range->start >= size) {
            return range;
        } else {
            range = range->right;
        }
    }
}

void weir__sim_ranges_insert(weir__sim_ranges *ranges, weir__sim_range *range)
{
    weir__sim_range *parent = NULL;
    weir__sim_range **link = &ranges->root;
    while (*link != NULL) {
        parent = *link;
        link = range->start < parent->start ? &parent->left : &parent->right;
    }
    /* The splitmix64 sequence: cheap, fixed, and mixed well enough for a heap order. */
    uint64_t mixed = (ranges->sequence += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    range->priority = mixed ^ (mixed >> 31);
    range->left = NULL;
    range->right = NULL;
    range->parent = parent;
    range->longest = range->end - range->start;
    *link = range;
    update_upwards(parent);
    while (range->parent != NULL && range->parent->priority < range->priority) {
        rotate_up(ranges, range);
    }
}

void weir__sim_ranges_remove(weir__sim_ranges *ranges, weir__sim_range *range)
{
    while (range->left != NULL && range->right != NULL) {
        rotate_up(ranges, range->left->priority > range->right->priority ? range->left : range->right);
    }
    weir__sim_range *child = range->left != NULL ? range->left : range->right;
    weir__sim_range *parent = range->parent;
    replace_child(ranges, parent, range, child);
    update_upwards(parent);
}

void weir__sim_ranges_resized(weir__sim_range *range)
{
    update_upwards(range);
}
