/* tests/mstx/range_tree.c: compares bindings/mstx/src/range_tree.h with a list, with ranges that overlap and start
 * alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "range_tree.h"

enum { most = 200, steps = 20000, space = 1000 };

static uint64_t random_state = 1;

static uint64_t below(uint64_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (random_state >> 33) % n;
}

struct visit {
    uint64_t last;
    uint64_t sum;
    size_t count;
    size_t stop_after;
};

static bool see(void *ctx, struct range *range)
{
    struct visit *visit = ctx;
    assert_true(range->start >= visit->last);
    visit->last = range->start;
    visit->sum += range->start * 31 + range->end;
    visit->count++;
    return visit->count != visit->stop_after;
}

static void agrees_with_a_list(void **state)
{
    static struct range nodes[most];
    static bool in[most];
    struct range *root = NULL;
    (void)state;
    for (int step = 0; step < steps; step++) {
        const size_t i = (size_t)below(most);
        if (in[i]) {
            weir__range_remove(&root, &nodes[i]);
        } else {
            nodes[i].start = below(space);
            nodes[i].end = nodes[i].start + 1 + below(below(8) == 0 ? 300 : 10);
            weir__range_insert(&root, &nodes[i]);
        }
        in[i] = !in[i];

        const uint64_t start = below(space);
        const uint64_t end = start + 1 + below(50);
        struct visit wanted = {0};
        bool starts = false;
        for (size_t k = 0; k < most; k++) {
            if (in[k] && nodes[k].start < end && nodes[k].end > start) {
                wanted.sum += nodes[k].start * 31 + nodes[k].end;
                wanted.count++;
            }
            starts |= in[k] && nodes[k].start == start;
        }
        struct visit seen = {0};
        assert_true(weir__range_each(root, start, end, see, &seen));
        assert_int_equal(seen.count, wanted.count);
        assert_int_equal(seen.sum, wanted.sum);
        const struct range *at = weir__range_at(root, start);
        assert_true(starts ? at != NULL && at->start == start : at == NULL);
        if (wanted.count > 1) {
            struct visit first = {.stop_after = 1};
            assert_false(weir__range_each(root, start, end, see, &first));
            assert_int_equal(first.count, 1);
        }
    }
    while (root != NULL) {
        weir__range_remove(&root, root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_a_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
