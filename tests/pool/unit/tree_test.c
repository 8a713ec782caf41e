/* tests/pool/unit/tree_test.c: the ordered tree against a plain array, with nodes that have equal keys, and with
 * changing weights. */
#include "rig/test.h"
#include "shared/tree.h"

enum { NODES = 120, KEYS = 60, WEIGHTS = 40, STEPS = 20000 };

static weir__tree_node nodes[NODES];
static bool in[NODES];

static uint32_t below(uint32_t n)
{
    static uint32_t seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static bool precedes(const weir__tree_node *a, const weir__tree_node *b)
{
    return a->key < b->key || (a->key == b->key && a->tie < b->tie);
}

/* Returns the first node of the array at or behind (key, tie). */
static const weir__tree_node *first_from(uint64_t key, uint64_t tie)
{
    const weir__tree_node *best = NULL;
    for (int i = 0; i < NODES; i++) {
        if (in[i] && !weir__tree_before(&nodes[i], key, tie) && (best == NULL || precedes(&nodes[i], best))) {
            best = &nodes[i];
        }
    }
    return best;
}

static const weir__tree_node *last_up_to(uint64_t key)
{
    const weir__tree_node *best = NULL;
    for (int i = 0; i < NODES; i++) {
        if (in[i] && nodes[i].key <= key && (best == NULL || precedes(best, &nodes[i]))) {
            best = &nodes[i];
        }
    }
    return best;
}

/* The walk in both directions, and the nodes above a weight. */
static void compare(const weir__tree *tree, size_t count, uint64_t weight)
{
    const weir__tree_node *above = weir__tree_next_above(tree, NULL, weight);
    const weir__tree_node *previous = NULL;
    for (const weir__tree_node *node = weir__tree_end(tree, 0); node != NULL; node = weir__tree_step(node, 1)) {
        assert_ptr_equal(weir__tree_step(node, 0), previous);
        if (node->weight > weight) {
            assert_ptr_equal(node, above);
            above = weir__tree_next_above(tree, above, weight);
        }
        assert_ptr_equal(weir__tree_next_above(tree, node, weight), above);
        previous = node;
        count--;
    }
    assert_int_equal(count, 0);
    assert_null(above);
    assert_ptr_equal(weir__tree_end(tree, 1), previous);
    assert_null(weir__tree_check(tree));
}

TEST(test_agrees_with_an_array)
{
    weir__tree tree = {.root = NULL};
    size_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        const uint32_t i = below(NODES);
        if (in[i] && below(3) == 0) {
            nodes[i].weight = below(WEIGHTS);
            weir__tree_renew(&nodes[i]);
        } else if (in[i]) {
            weir__tree_remove(&tree, &nodes[i]);
            in[i] = false;
            count--;
        } else {
            nodes[i].key = below(KEYS);
            nodes[i].tie = i;
            nodes[i].weight = below(WEIGHTS);
            weir__tree_insert(&tree, &nodes[i]);
            in[i] = true;
            count++;
        }
        const uint64_t key = below(KEYS + 2);
        const uint64_t tie = below(NODES);
        assert_ptr_equal(weir__tree_at_least(&tree, key, tie), first_from(key, tie));
        assert_ptr_equal(weir__tree_floor(&tree, key), last_up_to(key));
        compare(&tree, count, below(WEIGHTS));
    }
}

TEST(test_equal_nodes_stand_in_the_order_of_their_insertion)
{
    static weir__tree_node equal[50];
    weir__tree tree = {.root = NULL};
    for (int i = 0; i < 50; i++) {
        equal[i].key = 7;
        weir__tree_insert(&tree, &equal[i]);
    }
    assert_null(weir__tree_check(&tree));
    const weir__tree_node *node = weir__tree_end(&tree, 0);
    for (int i = 0; i < 50; i++, node = weir__tree_step(node, 1)) {
        assert_ptr_equal(node, &equal[i]);
    }
    assert_ptr_equal(weir__tree_at_least(&tree, 7, 0), &equal[0]);
    for (int i = 0; i < 50; i++) {
        weir__tree_remove(&tree, &equal[(i * 7) % 50]);
        assert_null(weir__tree_check(&tree));
    }
    assert_null(tree.root);
}

TEST(test_sorted_input_stays_shallow)
{
    enum { COUNT = 100000 };
    static weir__tree_node many[COUNT];
    weir__tree tree = {.root = NULL};
    for (uint64_t i = 0; i < COUNT; i++) {
        many[i].key = i;
        weir__tree_insert(&tree, &many[i]);
    }
    int deepest = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        int depth = 0;
        for (const weir__tree_node *node = &many[i]; node != NULL; node = node->parent) {
            depth++;
        }
        deepest = depth > deepest ? depth : deepest;
    }
    assert_in_range(deepest, 17, 60); /* 17 is perfect */
}

TEST(test_the_check_finds_flaws)
{
    weir__tree_node three[3] = {{.key = 1, .weight = 1}, {.key = 2, .weight = 2}, {.key = 3, .weight = 3}};
    weir__tree tree = {.root = NULL};
    for (int i = 0; i < 3; i++) {
        weir__tree_insert(&tree, &three[i]);
    }
    assert_null(weir__tree_check(&tree));
    three[0].key = 5;
    assert_string_equal(weir__tree_check(&tree), "tree: two nodes are out of order");
    three[0].key = 1;
    three[1].weight = 9;
    assert_string_equal(weir__tree_check(&tree), "tree: a node does not know the greatest weight below it");
    three[1].weight = 2;
    weir__tree_node *const root = tree.root;
    root->priority = 0;
    assert_string_equal(weir__tree_check(&tree), "tree: a child has a higher priority than its parent");
}
