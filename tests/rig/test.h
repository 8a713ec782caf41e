/* tests/rig/test.h: a cmocka program in which a test is declared in one place.
 *
 *     #include "../rig/test.h"
 *
 *     TEST(a_freed_block_is_reused)
 *     {
 *         assert_ptr_equal(...);
 *     }
 *
 *     int main(void)
 *     {
 *         return run_all_tests("the front cache", NULL, NULL);
 *     }
 *
 * All tests of a program stand in one source file and run in the order of its lines.
 */
#ifndef WEIR_RIG_TEST_H
#define WEIR_RIG_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { most_tests = 256 };

static struct {
    struct CMUnitTest tests[most_tests];
    int lines[most_tests];
    size_t count;
} test_list;

/* Of the test that ran last. A function that runs after each test does nothing if the test failed half-way and the
 * function could fail for that reason: cmocka would name the function and not the test. */
static bool test_passed;

/* Declares a test. `test_state` is cmocka's argument, for the tests that use it. */
#define TEST(name) TEST_BETWEEN(name, NULL, NULL)

/* A test with functions that run before and after it. */
#define TEST_BETWEEN(name, before, after)                                                                              \
    static void name(void **test_state);                                                                               \
    static void run_##name(void **test_state)                                                                          \
    {                                                                                                                  \
        test_passed = false;                                                                                           \
        name(test_state);                                                                                              \
        test_passed = true;                                                                                            \
    }                                                                                                                  \
    __attribute__((constructor)) static void list_##name(void)                                                         \
    {                                                                                                                  \
        list_test(__LINE__, (struct CMUnitTest){#name, run_##name, before, after, NULL});                              \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **test_state)

/* Constructors run before main, in any order. The list is sorted by line. */
static inline void list_test(int line, struct CMUnitTest test)
{
    size_t at = test_list.count++;
    if (at >= most_tests) {
        abort();
    }
    for (; at > 0 && test_list.lines[at - 1] > line; at--) {
        test_list.tests[at] = test_list.tests[at - 1];
        test_list.lines[at] = test_list.lines[at - 1];
    }
    test_list.tests[at] = test;
    test_list.lines[at] = line;
}

/* Runs all tests, with `before` ahead of the first and `after` behind the last; either may be NULL. Returns the exit
 * status of the program. */
static inline int run_all_tests(const char *name, CMFixtureFunction before, CMFixtureFunction after)
{
    return _cmocka_run_group_tests(name, test_list.tests, test_list.count, before, after);
}

/* Runs all tests, with `before` ahead of each test and `after` behind it. */
static inline int run_each_test(const char *name, CMFixtureFunction before, CMFixtureFunction after)
{
    for (size_t i = 0; i < test_list.count; i++) {
        test_list.tests[i].setup_func = before;
        test_list.tests[i].teardown_func = after;
    }
    return run_all_tests(name, NULL, NULL);
}

#endif
