/* main.c: the main of a program that only runs its tests. */
#include "test.h"

int main(int argc, char **argv)
{
    return run_all_tests(argc > 0 ? argv[0] : "tests");
}
