/* Replaces the programs of this folder in a build without relacy: it prints the reason and is skipped. */
#include <stdio.h>

int main(void)
{
    puts("skipped: built without relacy (script/bootstrap test installs it), without C++, not for Linux, or with a "
         "sanitizer of threads");
    return 77;
}
