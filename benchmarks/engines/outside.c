/* outside.c: see outside.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif

#include "engines/outside.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static atomic_bool counting;
static struct {
    atomic_uint_fast64_t blocks, bytes, largest;
} flows[2]; /* [0]: requests outside weir, [1]: requests by weir */

_Thread_local int outside_in_weir;

void outside_start(void)
{
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&flows[i].blocks, 0);
        atomic_store(&flows[i].bytes, 0);
        atomic_store(&flows[i].largest, 0);
    }
    atomic_store(&counting, true);
}

void outside_stop(void)
{
    atomic_store(&counting, false);
}

struct meter_flow outside_read(bool by_weir)
{
    const uint64_t count = atomic_load(&flows[by_weir].blocks);
    const uint64_t sum = atomic_load(&flows[by_weir].bytes);
    return (struct meter_flow){.requests = count,
                               .bytes = sum,
                               .large_requests = count,
                               .large_bytes = sum,
                               .largest = atomic_load(&flows[by_weir].largest)};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(SANITIZED)

const char *outside_malloc(void)
{
    return "unknown";
}

#else

static void note(size_t size)
{
    if (size < METER_LARGE_BYTES || !atomic_load_explicit(&counting, memory_order_relaxed)) {
        return;
    }
    const bool by_weir = outside_in_weir > 0;
    atomic_fetch_add_explicit(&flows[by_weir].blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&flows[by_weir].bytes, size, memory_order_relaxed);
    uint64_t most = atomic_load_explicit(&flows[by_weir].largest, memory_order_relaxed);
    while (most < size && !atomic_compare_exchange_weak(&flows[by_weir].largest, &most, size)) {
    }
}

/* glibc's functions, by the names that glibc keeps for programs that define malloc. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

/* The functions that this file forwards to: a preloaded malloc's, else glibc's. */
static struct {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *block, size_t size);
    void *(*memalign)(size_t align, size_t size);
    void (*free)(void *block);
} next = {__libc_malloc, __libc_calloc, __libc_realloc, __libc_memalign, __libc_free};

static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found != NULL) {
        memcpy(function, &found, sizeof(found));
    }
}

/* Looks up the functions of a preloaded malloc, once: in the first call, before a second thread exists. */
static void find_next(void)
{
    static bool begun;
    if (begun) {
        return;
    }
    begun = true; /* dlsym's own calls of malloc then go to glibc */
    find("malloc", &next.malloc);
    find("calloc", &next.calloc);
    find("realloc", &next.realloc);
    find("memalign", &next.memalign);
    find("free", &next.free);
}

const char *outside_malloc(void)
{
    Dl_info info;
    void *address;
    find_next();
    memcpy(&address, &next.malloc, sizeof(address));
    return dladdr(address, &info) != 0 ? info.dli_fname : "unknown";
}

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *block, size_t size);
EXPORT void *memalign(size_t align, size_t size);
EXPORT void *aligned_alloc(size_t align, size_t size);
EXPORT int posix_memalign(void **block, size_t align, size_t size);
EXPORT void free(void *block);

void *malloc(size_t size)
{
    find_next();
    note(size);
    return next.malloc(size);
}

void *calloc(size_t count, size_t size)
{
    find_next();
    note(count * size); /* if count * size overflows, calloc fails */
    return next.calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    find_next();
    note(size);
    return next.realloc(block, size);
}

void *memalign(size_t align, size_t size)
{
    find_next();
    note(size);
    return next.memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int posix_memalign(void **block, size_t align, size_t size)
{
    if (align < sizeof(void *) || (align & (align - 1)) != 0) {
        return EINVAL;
    }
    void *got = memalign(align, size);
    if (got == NULL) {
        return ENOMEM;
    }
    *block = got;
    return 0;
}

void free(void *block)
{
    find_next();
    next.free(block);
}

#endif
