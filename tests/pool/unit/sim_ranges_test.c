/* tests/pool/unit/sim_ranges_test.c: compares the ordered set of ranges (shared/intervals.h) with the simplest possible
 * implementation. */
#include "rig/test.h"
#include "shared/intervals.h"

#include <string.h>

enum { SPACE = 400 };

/* The node that owns each unit of a small space. */
static weir__interval *owner[SPACE];

static void compare(const weir__intervals *set)
{
    size_t count = 0;
    weir__interval *expected_floor = NULL;
    for (uint64_t i = 0; i < SPACE; i++) {
        if (owner[i] != NULL && owner[i]->start == i) {
            expected_floor = owner[i];
            count++;
        }
        assert_ptr_equal(weir__intervals_floor(set, i), expected_floor);
        weir__interval *after = NULL;
        for (uint64_t j = i; after == NULL && j < SPACE; j++) {
            after = owner[j];
        }
        assert_ptr_equal(weir__intervals_after(set, i), after);
    }
    for (uint64_t size = 1; size < 12; size++) {
        weir__interval *fit = NULL;
        for (uint64_t i = 0; fit == NULL && i < SPACE; i++) {
            fit = owner[i] != NULL && owner[i]->end - owner[i]->start >= size ? owner[i] : NULL;
        }
        assert_ptr_equal(weir__intervals_first_fit(set, size), fit);
    }
    assert_null(weir__tree_check(set));
    weir__interval *previous = NULL;
    for (weir__interval *r = weir__intervals_first(set); r != NULL; r = weir__intervals_next(r)) {
        assert_ptr_equal(weir__intervals_previous(r), previous);
        previous = r;
        count--;
    }
    assert_int_equal(count, 0);
}

static void own(weir__interval *range, uint64_t start, uint64_t end)
{
    for (uint64_t i = start; i < end; i++) {
        owner[i] = range;
    }
}

TEST(test_against_an_array)
{
    weir__intervals set = {.root = NULL};
    static weir__interval nodes[SPACE];
    memset(owner, 0, sizeof(owner));
    uint32_t random = 4711;
    for (int step = 0; step < 6000; step++) {
        random = random * 1664525u + 1013904223u;
        uint64_t at = (random >> 8) % SPACE;
        uint64_t end = at + 1 + (random >> 20) % 9;
        weir__interval *r = owner[at];
        if (r != NULL && random % 3 != 0) {
            own(NULL, r->start, r->end);
            weir__intervals_remove(&set, r);
        } else if (r != NULL) { /* split off the part above */
            own(NULL, at, r->end);
            if (at == r->start) {
                weir__intervals_remove(&set, r);
            } else {
                r->end = at;
                weir__intervals_resized(r);
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
            weir__intervals_insert(&set, r);
        }
        compare(&set);
    }
}
