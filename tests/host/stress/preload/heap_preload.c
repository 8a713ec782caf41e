/* tests/host/stress/preload/heap_preload.c: a library that replaces malloc in any program by a weir heap, for
 * LD_PRELOAD.
 *
 * weir's own tables come from the C library's malloc: a call that is made inside weir goes there (`inside`). A block is
 * known by its address, so the C library frees its own blocks. A child of fork may not use its parent's heap: it
 * makes one of its own, leaves the parent's blocks where they are, and copies a block that it resizes.
 *
 * At its end each process that used its heap adds a line to the file that WEIR_PRELOAD_REPORT names:
 *     PROGRAM BLOCKS BAD_FREES CHECK        CHECK: "clean", or the sentence of weir_heap_check
 */
#include <weir/heap.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

extern char *program_invocation_short_name;

#define REPLACES __attribute__((visibility("default")))

enum { MOST_FORKS = 16 };

static _Atomic(weir_heap *) heap;      /* the heap of this process; NULL: not made yet */
static weir_heap *parents[MOST_FORKS]; /* heaps of the parent process and of its ancestors */
static size_t parent_count;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* --- life --- */

static void after_fork_in_child(void)
{
    weir_heap *own = atomic_load(&heap);
    if (own != NULL && parent_count < MOST_FORKS) {
        parents[parent_count++] = own;
    }
    atomic_store(&heap, NULL);
    (void)pthread_mutex_init(&making, NULL);
}

static weir_heap *make_heap(void)
{
    weir_heap *made = NULL;
    static bool watches_forks;
    (void)pthread_mutex_lock(&making);
    made = atomic_load(&heap);
    if (made == NULL && weir_heap_create(NULL, &made) == WEIR_OK) {
        watches_forks = watches_forks || pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
        atomic_store(&heap, made);
    }
    (void)pthread_mutex_unlock(&making);
    return made;
}

/* Returns the heap for a call from outside of weir; NULL: the C library serves the call. */
static weir_heap *enter(void)
{
    if (inside) {
        return NULL;
    }
    inside = true;
    weir_heap *own = atomic_load_explicit(&heap, memory_order_acquire);
    own = own != NULL ? own : make_heap();
    inside = own != NULL;
    return own;
}

static void *leave(void *result)
{
    inside = false;
    errno = result == NULL ? ENOMEM : errno;
    return result;
}

/* Returns the usable size of a block of a parent's heap; 0 for any other address. */
static size_t parents_size(const void *block)
{
    size_t size = 0;
    for (size_t i = 0; i < parent_count && size == 0; i++) {
        size = weir_heap_usable_size(parents[i], block);
    }
    return size;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("WEIR_PRELOAD_REPORT");
    weir_heap *own = path != NULL ? enter() : NULL;
    if (own == NULL) {
        return;
    }
    const char *why = "clean";
    char line[400];
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    if (weir_heap_check(own, &why) != WEIR_OK && strcmp(why, "clean") == 0) {
        why = "not checked";
    }
    if (weir_heap_get_stats(own, &stats) == WEIR_OK) {
        const int length = snprintf(line, sizeof(line), "%s %llu %llu %s\n", program_invocation_short_name,
                                    (unsigned long long)stats.allocs, (unsigned long long)stats.bad_frees, why);
        const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        (void)!write(file, line, (size_t)length);
        (void)close(file);
    }
    inside = false;
}

/* --- malloc --- */

REPLACES void *malloc(size_t size)
{
    weir_heap *own = enter();
    return own != NULL ? leave(weir_heap_alloc(own, size != 0 ? size : 1)) : __libc_malloc(size);
}

REPLACES void *calloc(size_t count, size_t size)
{
    weir_heap *own = enter();
    const bool is_empty = count == 0 || size == 0;
    return own != NULL ? leave(weir_heap_alloc_zeroed(own, is_empty ? 1 : count, is_empty ? 1 : size))
                       : __libc_calloc(count, size);
}

REPLACES void free(void *block)
{
    const int number = errno; /* free leaves errno as it is */
    weir_heap *own = block != NULL ? enter() : NULL;
    if (own == NULL) {
        __libc_free(block);
    } else if (weir_heap_usable_size(own, block) != 0) {
        (void)!weir_heap_free(own, block);
        inside = false;
    } else {
        const bool is_parents = parents_size(block) != 0;
        inside = false;
        if (!is_parents) {
            __libc_free(block); /* ends the process if the address is not a block of the C library */
        }
    }
    errno = number;
}

static void *copy_of(weir_heap *own, const void *block, size_t old, size_t size)
{
    void *moved = weir_heap_alloc(own, size);
    if (moved != NULL) {
        memcpy(moved, block, old < size ? old : size);
    }
    return moved;
}

REPLACES void *realloc(void *block, size_t size)
{
    weir_heap *own = block != NULL ? enter() : NULL;
    if (block == NULL) {
        return malloc(size);
    }
    if (own == NULL) {
        return __libc_realloc(block, size);
    }
    if (weir_heap_usable_size(own, block) != 0) {
        return leave(weir_heap_realloc(own, block, size)); /* size 0: a free, and NULL */
    }
    const size_t old = parents_size(block);
    if (old != 0) {
        return leave(copy_of(own, block, old, size != 0 ? size : 1));
    }
    inside = false;
    return __libc_realloc(block, size);
}

static void *aligned(size_t align, size_t size)
{
    weir_heap *own = enter();
    return own != NULL ? leave(weir_heap_alloc_aligned(own, size != 0 ? size : 1, align))
                       : __libc_memalign(align, size);
}

REPLACES void *memalign(size_t align, size_t size);
REPLACES void *memalign(size_t align, size_t size)
{
    return aligned(align, size);
}

REPLACES void *aligned_alloc(size_t align, size_t size)
{
    return aligned(align, size);
}

REPLACES int posix_memalign(void **block, size_t align, size_t size)
{
    if (align < sizeof(void *) || (align & (align - 1)) != 0) {
        return EINVAL;
    }
    void *found = aligned(align, size);
    *block = found != NULL ? found : *block;
    return found != NULL ? 0 : ENOMEM;
}

REPLACES void *valloc(size_t size)
{
    return aligned((size_t)sysconf(_SC_PAGESIZE), size);
}

REPLACES size_t malloc_usable_size(void *block);
REPLACES size_t malloc_usable_size(void *block)
{
    weir_heap *own = block != NULL ? enter() : NULL;
    size_t size = 0;
    if (own != NULL) {
        size = weir_heap_usable_size(own, block);
        size = size != 0 ? size : parents_size(block);
        inside = false;
    }
    return size;
}
