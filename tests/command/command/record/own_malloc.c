/* tests/command/command/record/own_malloc.c: a program that brings its own malloc, for record_test.sh. */
#include <stddef.h>
#include <stdlib.h>

static char memory[1 << 20];
static size_t used;

void *malloc(size_t size)
{
    used += (size + 63) & ~(size_t)63;
    return used <= sizeof(memory) ? memory + sizeof(memory) - used : NULL;
}

void free(void *block)
{
    (void)block;
}

int main(void)
{
    void *volatile block = malloc(5000);
    free(block);
    return block != NULL ? 0 : 1;
}
