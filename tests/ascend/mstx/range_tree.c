/* tests/ascend/mstx/range_tree.c: compares bindings/ascend/mstx/src/range_tree.h with a list, with ranges that overlap
 * and ranges with the same start. */
#include "rig/test.h"

#include "range_tree.h"

enum { most = 200, steps = 20000, space = 1000 };

static uint64_t random_state = 1;

static uint64_t below(uint64_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (random_state >> 33) % n;
}

struct sum {
    uint64_t sum;
    size_t count;
};

static void add(struct sum *sum, const weir__range *range)
{
    sum->sum += range->start * 31 + range->end;
    sum->count++;
}

TEST(agrees_with_a_list)
{
    static weir__range nodes[most];
    static bool in[most];
    weir__tree tree = {.root = NULL};
    for (int step = 0; step < steps; step++) {
        const size_t i = (size_t)below(most);
        if (in[i]) {
            weir__tree_remove(&tree, &nodes[i]);
        } else {
            nodes[i].start = below(space);
            nodes[i].end = nodes[i].start + 1 + below(below(8) == 0 ? 300 : 10);
            weir__range_insert(&tree, &nodes[i]);
        }
        in[i] = !in[i];

        const uint64_t start = below(space);
        const uint64_t end = start + 1 + below(50);
        struct sum wanted = {0};
        bool starts = false;
        for (size_t k = 0; k < most; k++) {
            if (in[k] && nodes[k].start < end && nodes[k].end > start) {
                add(&wanted, &nodes[k]);
            }
            starts |= in[k] && nodes[k].start == start;
        }
        struct sum seen = {0};
        uint64_t last = 0;
        for (const weir__range *r = NULL; (r = weir__range_next_in(&tree, r, start, end)) != NULL; last = r->start) {
            assert_true(r->start >= last);
            add(&seen, r);
        }
        assert_int_equal(seen.count, wanted.count);
        assert_int_equal(seen.sum, wanted.sum);
        const weir__range *at = weir__range_at(&tree, start);
        assert_true(starts ? at != NULL && at->start == start : at == NULL);
    }
    while (tree.root != NULL) {
        weir__tree_remove(&tree, tree.root);
    }
}
