/* tests/command/command/record/bare.c: a program over bare_malloc.c, for record_test.sh. */
#include <stdlib.h>

static void *volatile block;

int main(void)
{
    block = malloc(5000);
    block = realloc(block, 6000);
    free(block);
    block = malloc(100); /* too small to be recorded */
    free(block);
    return 0;
}
