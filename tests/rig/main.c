/* main.c: the main of a program that only runs its tests, or those of them whose names match a pattern.
 *
 *   PROGRAM [PATTERN]     a pattern has * for any letters and ? for one
 */
#include "test.h"

int main(int argc, char **argv)
{
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return run_all_tests(argc > 0 ? argv[0] : "tests");
}
