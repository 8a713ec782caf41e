/* tests/pool/unit/wrapped_malloc.h: makes the n-th request of the code under test for host memory fail. For programs
 * linked with --wrap=malloc and so on; one file of a program includes it once.
 */
#ifndef WEIR_UNIT_WRAPPED_MALLOC_H
#define WEIR_UNIT_WRAPPED_MALLOC_H

#include <stdbool.h>
#include <stddef.h>

static unsigned fail_at; /* 0 = never */
static unsigned asked;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
/* exported, because a shared library may look it up by this name */
__attribute__((visibility("default"))) void *__wrap_malloc(size_t size);
__attribute__((visibility("default"))) void *__wrap_calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *__wrap_realloc(void *old, size_t size);

static bool refused(void)
{
    return fail_at != 0 && ++asked == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refused() ? NULL : __real_realloc(old, size);
}

#endif
