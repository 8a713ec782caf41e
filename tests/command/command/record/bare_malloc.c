/* tests/command/command/record/bare_malloc.c: a library with only the four functions that every allocator has, for
 * record_test.sh. Each block begins where a mapping does: code that looks for a size in front of the block finds no
 * memory. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { step = 1 << 20, most = 1 << 10 };

static char *next;
static size_t sizes[most];

void *malloc(size_t size)
{
    if (next == NULL) {
        next = mmap(NULL, (size_t)step * most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    const size_t number = (uintptr_t)next / step % most;
    if (next == MAP_FAILED || size > step / 2) {
        return NULL;
    }
    char *block = next;
    next += step;
    sizes[number] = size;
    return mprotect(block, step / 2, PROT_READ | PROT_WRITE) == 0 ? block : NULL;
}

void free(void *block)
{
    (void)block;
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size);
}

void *realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    if (block != NULL && moved != NULL) {
        const size_t old = sizes[(uintptr_t)block / step % most];
        memcpy(moved, block, old < size ? old : size);
    }
    return moved;
}
