/* benchmarks/weir/record/preload/preload.c: interposes malloc and related functions and records each call.
 *
 * Idea: each function calls the next function of its name (the C library's, jemalloc's, the program's own) and records
 * the result: an alloc once the block is there, a free before another thread can get the block, a realloc in two
 * halves, because another thread may get the old block before realloc returns.
 *
 * Guarantees: the program gets the same results as without the recorder. A function that calls another one of these
 * inside is recorded once. Blocks below the channel's least size are not recorded. A free decides by the block's usable
 * size, which is at least the requested size, so the free of a recorded block is never missed.
 *
 * The search for the next functions may itself allocate. Until it is complete, that memory comes from a small buffer
 * here.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif

#include "tell.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* X(NAME, RESULT, PARAMETERS, NEEDED): the program's allocation functions. If one that is NEEDED is missing, the
 * program cannot run; an allocator may lack the rest. */
#define NEXT_LIST(X)                                                                                                   \
    X(malloc, void *, (size_t), true)                                                                                  \
    X(calloc, void *, (size_t, size_t), true)                                                                          \
    X(realloc, void *, (void *, size_t), true)                                                                         \
    X(free, void, (void *), true)                                                                                      \
    X(posix_memalign, int, (void **, size_t, size_t), false)                                                           \
    X(aligned_alloc, void *, (size_t, size_t), false)                                                                  \
    X(memalign, void *, (size_t, size_t), false)                                                                       \
    X(valloc, void *, (size_t), false)                                                                                 \
    X(pvalloc, void *, (size_t), false)                                                                                \
    X(malloc_usable_size, size_t, (void *), false)

static struct next_functions {
#define NEXT_MEMBER(name, result, parameters, needed) result(*name) parameters;
    NEXT_LIST(NEXT_MEMBER)
#undef NEXT_MEMBER
} next;
static atomic_int next_state; /* 0 unknown, 1 search in progress, 2 known */

static _Thread_local __attribute__((tls_model("initial-exec"))) bool looking;
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned inside; /* nesting depth of calls */

/* --- allocations before the real allocation functions are found --- */

static _Alignas(64) unsigned char early[1 << 16];
static atomic_size_t early_used;

static bool is_early(const void *block)
{
    return (const unsigned char *)block >= early && (const unsigned char *)block < early + sizeof(early);
}

/* Allocates zeroed memory with its size stored in front. */
static void *early_alloc(size_t size)
{
    const size_t room = 64 + ((size + 63) & ~(size_t)63);
    const size_t at = size <= sizeof(early) ? atomic_fetch_add(&early_used, room) : sizeof(early);
    if (at >= sizeof(early) || room > sizeof(early) - at) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(&early[at], &size, sizeof(size));
    return &early[at + 64];
}

static size_t early_size(const void *block)
{
    size_t size = 0;
    memcpy(&size, (const unsigned char *)block - 64, sizeof(size));
    return size;
}

static bool are_of_one_object(const void *one, const void *other)
{
    Dl_info first;
    Dl_info second;
    return dladdr(one, &first) != 0 && dladdr(other, &second) != 0 && first.dli_fbase == second.dli_fbase;
}

/* Clears next.malloc_usable_size if it and next.malloc belong to different libraries. The library of malloc then lacks
 * this function, and the function of the other library does not know the blocks of malloc. */
static void forget_foreign_sizes(void)
{
    void *size_of = NULL;
    void *get = NULL;
    memcpy(&size_of, &next.malloc_usable_size, sizeof(size_of));
    memcpy(&get, &next.malloc, sizeof(get));
    if (size_of != NULL && !are_of_one_object(size_of, get)) {
        next.malloc_usable_size = NULL;
    }
}

static void look_for_next(void)
{
    looking = true;
#define NEXT_FIND(name, result, parameters, needed)                                                                    \
    {                                                                                                                  \
        void *const found = dlsym(RTLD_NEXT, #name);                                                                   \
        memcpy(&next.name, &found, sizeof(found));                                                                     \
        if (needed && found == NULL) {                                                                                 \
            static const char text[] = "weir record: the program has no " #name "\n";                                  \
            (void)!write(STDERR_FILENO, text, sizeof(text) - 1);                                                       \
            _exit(127);                                                                                                \
        }                                                                                                              \
    }
    NEXT_LIST(NEXT_FIND)
#undef NEXT_FIND
    forget_foreign_sizes();
    looking = false;
}

/* Finds the functions of `next` in the first call. The search itself may call an allocation function, which calls this
 * function again and gets false. Other threads wait until the search has ended. */
static bool know_next(void)
{
    int state = 0;
    if (atomic_load_explicit(&next_state, memory_order_acquire) == 2) {
        return true;
    }
    if (looking) {
        return false;
    }
    if (atomic_compare_exchange_strong(&next_state, &state, 1)) {
        look_for_next();
        atomic_store_explicit(&next_state, 2, memory_order_release);
    }
    while (atomic_load_explicit(&next_state, memory_order_acquire) != 2) {
    }
    return true;
}

/* --- recording --- */

/* Returns the channel if the library records this call: the call is not nested, and the channel records host memory.
 * Otherwise returns NULL. */
static struct channel *enter(void)
{
    struct channel *const to = inside++ == 0 ? tell_channel() : NULL;
    return to != NULL && (to->what & channel_records_host) != 0 ? to : NULL;
}

static void *told_alloc(struct channel *to, void *block, size_t size, size_t align)
{
    inside--;
    if (to != NULL && block != NULL && size >= to->least_bytes) {
        tell(to, &(struct channel_slot){.kind = WEIR_TRACE_ALLOC,
                                        .device = channel_host,
                                        .id = (uintptr_t)block,
                                        .size = size,
                                        .extra = align});
    }
    return block;
}

static bool may_be_known(const struct channel *to, void *block)
{
    return to->least_bytes == 0 || next.malloc_usable_size == NULL || next.malloc_usable_size(block) >= to->least_bytes;
}

static void tell_free(struct channel *to, void *block)
{
    if (may_be_known(to, block)) {
        tell(to, &(struct channel_slot){.kind = WEIR_TRACE_FREE, .device = channel_host, .id = (uintptr_t)block});
    }
}

static void tell_realloc(struct channel *to, char half, void *old, void *block, size_t size)
{
    tell(to, &(struct channel_slot){.kind = WEIR_TRACE_REALLOC,
                                    .mode = half,
                                    .device = channel_host,
                                    .id = (uintptr_t)block,
                                    .extra = (uintptr_t)old,
                                    .size = size});
}

/* --- the functions --- */

EXPORT void *malloc(size_t size)
{
    if (!know_next()) {
        return early_alloc(size);
    }
    struct channel *const to = enter();
    return told_alloc(to, next.malloc(size), size, 0);
}

/* Returns false if another malloc precedes this one in the symbol search, such as an executable's own. */
bool stands_in_front(void)
{
    return are_of_one_object(dlsym(RTLD_DEFAULT, "malloc"), early);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes = 0;
    const bool fits = !__builtin_mul_overflow(count, size, &bytes);
    if (!know_next()) {
        return fits ? early_alloc(bytes) : NULL;
    }
    struct channel *const to = enter();
    return told_alloc(to, next.calloc(count, size), bytes, 0);
}

EXPORT void free(void *block)
{
    if (block == NULL || is_early(block) || !know_next()) {
        return;
    }
    struct channel *const to = enter();
    if (to != NULL) {
        tell_free(to, block);
    }
    next.free(block);
    inside--;
}

static void *move_early(void *old, size_t size)
{
    void *const block = malloc(size);
    const size_t old_size = early_size(old);
    if (block != NULL) {
        memcpy(block, old, old_size < size ? old_size : size);
    }
    return block;
}

/* Calls realloc with size 0: the allocator decides whether to free the block or to return one. The call is recorded as
 * a free, followed by an alloc if a block is returned. */
static void *realloc_to_nothing(struct channel *to, void *old)
{
    if (to != NULL) {
        tell_free(to, old);
    }
    return told_alloc(to, next.realloc(old, 0), 0, 0);
}

EXPORT void *realloc(void *old, size_t size)
{
    if (old == NULL) {
        return malloc(size);
    }
    if (is_early(old) || !know_next()) {
        return move_early(old, size);
    }
    struct channel *const to = enter();
    if (size == 0) {
        return realloc_to_nothing(to, old);
    }
    const bool told = to != NULL && (size >= to->least_bytes || may_be_known(to, old));
    if (told) {
        tell_realloc(to, 'B', old, NULL, 0);
    }
    void *const block = next.realloc(old, size);
    inside--;
    if (told) {
        tell_realloc(to, 'E', old, block, size);
    }
    return block;
}

EXPORT void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

EXPORT int posix_memalign(void **block, size_t align, size_t size)
{
    if (!know_next() || next.posix_memalign == NULL) {
        return ENOMEM;
    }
    struct channel *const to = enter();
    const int error = next.posix_memalign(block, align, size);
    (void)told_alloc(to, error == 0 ? *block : NULL, size, align);
    return error;
}

/* Defines a function of the family that gives aligned memory; `...` are the arguments of the real one. */
#define ALIGNED(name, parameters, align, ...)                                                                          \
    EXPORT void *name parameters                                                                                       \
    {                                                                                                                  \
        if (!know_next() || next.name == NULL) {                                                                       \
            errno = ENOMEM;                                                                                            \
            return NULL;                                                                                               \
        }                                                                                                              \
        struct channel *const to = enter();                                                                            \
        return told_alloc(to, next.name(__VA_ARGS__), size, align);                                                    \
    }
ALIGNED(aligned_alloc, (size_t align, size_t size), align, align, size)
ALIGNED(memalign, (size_t align, size_t size), align, align, size)
ALIGNED(valloc, (size_t size), (size_t)sysconf(_SC_PAGESIZE), size)
ALIGNED(pvalloc, (size_t size), (size_t)sysconf(_SC_PAGESIZE), size)
