/* tests/unit/ramps_test.c: the sum of ramps against the sum term by term. */
#include "report/ramps.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

enum { most_ramps = 200 };

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 11;
}

static uint64_t direct_sum(const struct ramp *ramps, size_t count, uint64_t x)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum = saturating_add(sum, saturating_multiply(ramps[i].slope, x < ramps[i].top ? x : ramps[i].top));
    }
    return sum;
}

static void require_same(const struct ramp *sorted, const struct ramp *given, size_t count, uint64_t x)
{
    assert_true(weir__ramps_at(sorted, count, x) == direct_sum(given, count, x));
}

static void test_agrees_with_the_sum_of_terms(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        struct ramp given[most_ramps];
        struct ramp sorted[most_ramps];
        const size_t count = next_random(&seed) % most_ramps;
        const unsigned bits = 1 + (unsigned)(next_random(&seed) % 52); /* of the tops: few values, and up to overflow */
        const unsigned slope_bits = (unsigned)(next_random(&seed) % 40);
        for (size_t i = 0; i < count; i++) {
            given[i] = sorted[i] = (struct ramp){
                .top = next_random(&seed) & ((UINT64_C(1) << bits) - 1),
                .slope = next_random(&seed) & ((UINT64_C(1) << slope_bits) - 1),
            };
        }
        weir__ramps_sort(sorted, count);
        for (size_t i = 0; i < count; i++) {
            require_same(sorted, given, count, given[i].top);
            require_same(sorted, given, count, given[i].top + 1);
            require_same(sorted, given, count, next_random(&seed) & ((UINT64_C(2) << bits) - 1));
        }
        require_same(sorted, given, count, 0);
        require_same(sorted, given, count, UINT64_MAX);
    }
}

static void test_sums_that_do_not_fit_stay_at_the_largest_number(void **state)
{
    (void)state;
    struct ramp ramps[] = { { .top = UINT64_MAX, .slope = 1 }, { .top = 10, .slope = 3 } };
    weir__ramps_sort(ramps, 2);
    assert_true(weir__ramps_at(ramps, 2, 5) == 20);
    assert_true(weir__ramps_at(ramps, 2, UINT64_MAX - 30) == UINT64_MAX);
    assert_true(weir__ramps_at(ramps, 2, UINT64_MAX - 31) == UINT64_MAX - 1);
    assert_true(weir__ramps_at(ramps, 0, 5) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_the_sum_of_terms),
        cmocka_unit_test(test_sums_that_do_not_fit_stay_at_the_largest_number),
    };
    return cmocka_run_group_tests_name("sums of ramps", tests, NULL, NULL);
}
