/* Replaces each test program that needs cmocka in a build without cmocka: it prints the reason and is skipped. */
#include <stdio.h>

int main(void)
{
    puts("skipped: built without cmocka (script/bootstrap test installs it)");
    return 77;
}
