/* tests/ascend/rights/intruder.c: a library that prints a line when it is loaded and run. */
#include <unistd.h>

__attribute__((constructor)) static void begin(void)
{
    static const char text[] = "intruder\n";
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
}
