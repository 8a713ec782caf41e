/* tests/pool/fault/failing_host.h: host memory that runs out at the n-th request. It replaces the whole program's
 * malloc, so only one file includes it, once. */
#ifndef TESTS_FAULT_FAILING_HOST_H
#define TESTS_FAULT_FAILING_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* The replacements call the C library, or the address sanitizer, which has names of its own for its functions. Builds
 * with other sanitizers replace nothing. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#elif __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CANNOT_REPLACE_MALLOC 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CANNOT_REPLACE_MALLOC 1
#endif
#if !defined(CANNOT_REPLACE_MALLOC)
#define CANNOT_REPLACE_MALLOC 0
#endif

#if defined(UNDER_ASAN)
void *__interceptor_malloc(size_t size);
void *__interceptor_calloc(size_t count, size_t size);
void *__interceptor_realloc(void *old, size_t size);
void *__interceptor_aligned_alloc(size_t align, size_t size);
#define NEXT(name) __interceptor_##name
#elif !CANNOT_REPLACE_MALLOC
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
#define __libc_aligned_alloc __libc_memalign
#define NEXT(name) __libc_##name
#endif

static bool counting;     /* true during a call of weir */
static uint64_t fail_at;  /* 0: never */
static uint64_t requests; /* requests since fail_at was set */
static bool host_struck;

#if !CANNOT_REPLACE_MALLOC

/* A shared libweir must see the replacements too, although the tests hide their symbols. */
#define REPLACES __attribute__((visibility("default")))

static bool fails_now(void)
{
    if (!counting || fail_at == 0) {
        return false;
    }
    const bool now = ++requests == fail_at;
    host_struck |= now;
    return now;
}

REPLACES void *malloc(size_t size)
{
    return fails_now() ? NULL : NEXT(malloc)(size);
}

REPLACES void *calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : NEXT(calloc)(count, size);
}

REPLACES void *realloc(void *old, size_t size)
{
    return fails_now() ? NULL : NEXT(realloc)(old, size);
}

REPLACES void *aligned_alloc(size_t align, size_t size)
{
    return fails_now() ? NULL : NEXT(aligned_alloc)(align, size);
}

#endif

#endif
