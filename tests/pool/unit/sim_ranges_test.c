/* tests/pool/unit/sim_ranges_test.c: compares the simulator's ordered set of ranges and its slab with the simplest
 * possible implementations. */
#include "rig/test.h"
#include "sim_internal.h" /* includes the simulator's ranges.h; the strategies have a header of the same name */

#include <string.h>

enum { SPACE = 400 };

/* The node that owns each unit of a small space. */
static weir__sim_range *owner[SPACE];

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
    assert_null(weir__tree_check(set));
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

TEST(test_against_an_array)
{
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
        } else if (r != NULL) { /* split off the part above */
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
