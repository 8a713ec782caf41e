/* tests/rig/test.h: a cmocka program in which a test is declared in one place.
 *
 *     #include "rig/test.h"
 *
 *     TEST(a_freed_block_is_reused)
 *     {
 *         assert_ptr_equal(...);
 *     }
 *
 * All tests of a program stand in one source file and run in the order of its lines. A program has a main of its own
 * only if it prepares something first; otherwise main.c is its main.
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

#include "units.h"

/* True if the test that ran last has passed. A function that runs after each test should do nothing if this is false:
 * if it failed too, cmocka would name the function and not the test. */
extern bool test_passed;

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

/* Declares functions that run before and after each test of the program; either may be NULL. */
#define EACH_TEST(before, after) FIXTURE(each_tests, before, after)

/* Declares functions that run ahead of the first test and behind the last one; either may be NULL. */
#define ALL_TESTS(before, after) FIXTURE(all_tests, before, after)

#define FIXTURE(fixture, before, after)                                                                                \
    __attribute__((constructor)) static void set_##fixture(void)                                                       \
    {                                                                                                                  \
        fixture = (struct test_fixture){before, after};                                                                \
    }

struct test_fixture {
    CMFixtureFunction before;
    CMFixtureFunction after;
};

extern struct test_fixture each_tests;
extern struct test_fixture all_tests;

/* Adds a test to the list of the program, which is sorted by line. Constructors call it before main, in any order. */
void list_test(int line, struct CMUnitTest test);

/* Runs all tests. Returns the exit status of the program. */
int run_all_tests(const char *name);

#endif
