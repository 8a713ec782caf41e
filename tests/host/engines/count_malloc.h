/* tests/host/engines/count_malloc.h: counts a thread's calls of malloc while counting is on, except calls inside a heap
 * (failing_heap.h, which is included after this). It replaces the whole program's malloc, so only one file of a program
 * includes it. */
#ifndef TESTS_ENGINES_COUNT_MALLOC_H
#define TESTS_ENGINES_COUNT_MALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CAN_COUNT_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CAN_COUNT_MALLOC 0
#endif
#endif
#if !defined(CAN_COUNT_MALLOC)
#define CAN_COUNT_MALLOC 1
#endif

static _Thread_local bool in_heap;
/* volatile, because compilers assume that malloc reads neither of these variables. */
static _Thread_local volatile bool counting_mallocs;
static _Thread_local volatile unsigned counted_mallocs;
static _Thread_local const void *malloc_callers[16]; /* return addresses of the first counted calls */

static inline void count_malloc(bool on)
{
    counted_mallocs = on ? 0 : counted_mallocs;
    counting_mallocs = on;
}

#if CAN_COUNT_MALLOC

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

/* The engine's library must see the replacements too, although the tests hide their symbols. */
#define REPLACES __attribute__((visibility("default")))

static void note_malloc(const void *caller)
{
    if (!counting_mallocs || in_heap) {
        return;
    }
    if (counted_mallocs < sizeof(malloc_callers) / sizeof(malloc_callers[0])) {
        malloc_callers[counted_mallocs] = caller;
    }
    counted_mallocs = counted_mallocs + 1;
}

REPLACES void *malloc(size_t size)
{
    note_malloc(__builtin_return_address(0));
    return __libc_malloc(size);
}

REPLACES void *calloc(size_t count, size_t size)
{
    note_malloc(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

REPLACES void *realloc(void *old, size_t size)
{
    note_malloc(__builtin_return_address(0));
    return __libc_realloc(old, size);
}

REPLACES void *aligned_alloc(size_t align, size_t size)
{
    note_malloc(__builtin_return_address(0));
    return __libc_memalign(align, size);
}

REPLACES int posix_memalign(void **block, size_t align, size_t size)
{
    note_malloc(__builtin_return_address(0));
    *block = __libc_memalign(align, size);
    return *block != NULL ? 0 : ENOMEM;
}

#endif

#endif
