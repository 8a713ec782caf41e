/* tests/unit/sim_ranges_test.c: the simulator's ordered set of ranges and its slab, against the plainest possible
 * ones. */
#include "sim_internal.h" /* its ranges.h, not that of the strategies */
#include "slab.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdint.h>
#include <string.h>

enum { SPACE = 400 };

/* The node that owns each unit of a small space. */
static weir__sim_range *owner[SPACE];

/* Every invariant of ranges.h below `range`; returns the number of nodes. */
static size_t check_below(const weir__sim_range *range, uint64_t low, uint64_t high)
{
    if (range == NULL) {
        return 0;
    }
    assert_true(low <= range->start && range->start < range->end && range->end <= high);
    uint64_t longest = range->end - range->start;
    const weir__sim_range *children[] = {range->left, range->right};
    for (int i = 0; i < 2; i++) {
        if (children[i] != NULL) {
            assert_ptr_equal(children[i]->parent, range);
            assert_true(children[i]->priority <= range->priority);
            longest = children[i]->longest > longest ? children[i]->longest : longest;
        }
    }
    assert_int_equal(range->longest, longest);
    return 1 + check_below(range->left, low, range->start) + check_below(range->right, range->end, high);
}

static void compare(const weir__sim_ranges *set)
{
    size_t count = 0;
    weir__sim_range *expected_floor = NULL;
    for (uint64_t i = 0; i < SPACE; i++) {
        if (owner[i] != NULL && owner[i]->start == i) {
            expected_floor = owner[i];
            count++;
        }
        assert_ptr_equal(weir__sim_ranges_floor(set, i), expected_floor);
        weir__sim_range *after = NULL;
        for (uint64_t j = i; after == NULL && j < SPACE; j++) {
            after = owner[j];
        }
        assert_ptr_equal(weir__sim_ranges_after(set, i), after);
    }
    for (uint64_t size = 1; size < 12; size++) {
        weir__sim_range *fit = NULL;
        for (uint64_t i = 0; fit == NULL && i < SPACE; i++) {
            fit = owner[i] != NULL && owner[i]->end - owner[i]->start >= size ? owner[i] : NULL;
        }
        assert_ptr_equal(weir__sim_ranges_first_fit(set, size), fit);
    }
    assert_int_equal(check_below(set->root, 0, SPACE), count);
    weir__sim_range *previous = NULL;
    for (weir__sim_range *r = weir__sim_ranges_first(set); r != NULL; r = weir__sim_ranges_next(r)) {
        assert_ptr_equal(weir__sim_ranges_previous(r), previous);
        previous = r;
        count--;
    }
    assert_int_equal(count, 0);
}

static void own(weir__sim_range *range, uint64_t start, uint64_t end)
{
    for (uint64_t i = start; i < end; i++) {
        owner[i] = range;
    }
}

static void test_against_an_array(void **state)
{
    (void)state;
    weir__sim_ranges set = {.root = NULL};
    static weir__sim_range nodes[SPACE];
    memset(owner, 0, sizeof(owner));
    uint32_t random = 4711;
    for (int step = 0; step < 6000; step++) {
        random = random * 1664525u + 1013904223u;
        uint64_t at = (random >> 8) % SPACE;
        uint64_t end = at + 1 + (random >> 20) % 9;
        weir__sim_range *r = owner[at];
        if (r != NULL && random % 3 != 0) {
            own(NULL, r->start, r->end);
            weir__sim_ranges_remove(&set, r);
        } else if (r != NULL) { /* cut off what is above */
            own(NULL, at, r->end);
            if (at == r->start) {
                weir__sim_ranges_remove(&set, r);
            } else {
                r->end = at;
                weir__sim_ranges_resized(r);
            }
        } else {
            end = end < SPACE ? end : SPACE;
            for (uint64_t i = at; i < end; i++) {
                end = owner[i] != NULL ? i : end;
            }
            r = &nodes[at];
            r->start = at;
            r->end = end;
            own(r, at, end);
            weir__sim_ranges_insert(&set, r);
        }
        compare(&set);
    }
}

static void test_sorted_input_stays_shallow(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    static weir__sim_range nodes[COUNT];
    weir__sim_ranges set = {.root = NULL};
    for (uint64_t i = 0; i < COUNT; i++) {
        nodes[i].start = i * 10;
        nodes[i].end = i * 10 + 5;
        weir__sim_ranges_insert(&set, &nodes[i]);
    }
    int deepest = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        int depth = 0;
        for (const weir__sim_range *r = &nodes[i]; r != NULL; r = r->parent) {
            depth++;
        }
        deepest = depth > deepest ? depth : deepest;
    }
    assert_in_range(deepest, 17, 60); /* 17 is perfect */
}

static void test_slab(void **state)
{
    (void)state;
    weir__sim_slab slab;
    weir__sim_slab_init(&slab, 40, 4);
    void *objects[100];
    for (size_t i = 0; i < 100; i++) {
        objects[i] = weir__sim_slab_get(&slab);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % 16, 0);
        memset(objects[i], (int)i, 40);
    }
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(((unsigned char *)objects[i])[39], i);
        assert_true(weir__sim_slab_owns(&slab, objects[i]));
        assert_false(weir__sim_slab_owns(&slab, (char *)objects[i] + 8));
    }
    assert_false(weir__sim_slab_owns(&slab, &slab));
    assert_false(weir__sim_slab_owns(&slab, NULL));
    weir__sim_slab_put(&slab, objects[7]);
    assert_true(weir__sim_slab_owns(&slab, objects[7])); /* readable for as long as the slab is */
    assert_ptr_equal(weir__sim_slab_get(&slab), objects[7]);
    weir__sim_slab_fini(&slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_an_array),
        cmocka_unit_test(test_sorted_input_stays_shallow),
        cmocka_unit_test(test_slab),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
