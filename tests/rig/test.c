/* test.c: the list of a program's tests. */
#include "test.h"

enum { most_tests = 256 };

static struct {
    struct CMUnitTest tests[most_tests];
    int lines[most_tests];
    size_t count;
} list;

bool test_passed;
struct test_fixture each_tests;
struct test_fixture all_tests;

void list_test(int line, struct CMUnitTest test)
{
    size_t at = list.count++;
    if (at >= most_tests) {
        abort();
    }
    for (; at > 0 && list.lines[at - 1] > line; at--) {
        list.tests[at] = list.tests[at - 1];
        list.lines[at] = list.lines[at - 1];
    }
    list.tests[at] = test;
    list.lines[at] = line;
}

int run_all_tests(const char *name)
{
    for (size_t i = 0; i < list.count && (each_tests.before != NULL || each_tests.after != NULL); i++) {
        list.tests[i].setup_func = each_tests.before;
        list.tests[i].teardown_func = each_tests.after;
    }
    return _cmocka_run_group_tests(name, list.tests, list.count, all_tests.before, all_tests.after);
}
