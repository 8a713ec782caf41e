/* What stands in the place of a test program that needs cmocka, where the build has none: it says so and is skipped. */
#include <stdio.h>

int main(void)
{
    puts("skipped: built without cmocka (script/bootstrap test installs it)");
    return 77;
}
