/* preload.c: libweir_preload.so puts a weir heap in the place of malloc, in any program that loads it (LD_PRELOAD).
 *
 * Idea: the heap is made by the first call after the C library has its environment. Before that, in a process with
 * another user's rights, and for the calls that weir itself makes (the mark `inside`), the C library serves the call.
 * A block is known by its address, so each free finds the allocator of its block.
 * Guarantee: the program gets the results that malloc gives: errno, alignment, blocks of size 0, and NULL at the limit.
 * A free of anything but a live block ends the process, as in the C library.
 * fork: the page `process` is zero in a child, whichever system call has made the child (MADV_WIPEONFORK). So the
 * child makes a heap of its own; it reads the sizes of its parents' blocks, leaves them where they are when it frees
 * them, and copies a block that it resizes.
 * Cost: beside the heap's own, a load of the mark, of the heap and of holders_are_noted.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT, MADV_WIPEONFORK, reallocarray */
#endif

#include "preload.h"

#include "../../heap/src/heap_internal.h"

#include "shared/assert.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* The C library's own functions: public names of it that nothing replaces. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

#define REPLACES __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

/* The largest page of Linux. `process` lies alone on its pages. */
enum { MOST_PAGE = 64 << 10 };

/* A heap of a parent process, which made blocks before the fork. */
struct parent {
    struct parent *older;
    weir_heap *heap;
};

static struct {
    _Alignas(MOST_PAGE) _Atomic(weir_heap *) heap; /* NULL: not made yet */
    pthread_mutex_t making;                        /* zero is PTHREAD_MUTEX_INITIALIZER */
} process;                                         /* the kernel clears it in a child */

static weir_heap *newest; /* the heap that this process, or the nearest parent with a heap, has made */
static _Atomic(struct parent *) parents;
static struct preload_options options;
static _Atomic uint64_t foreign_frees;
static _Thread_local __attribute__((tls_model("initial-exec"))) bool inside;

/* --- options --- */

const struct preload_options *preload_options(void)
{
    return &options;
}

weir_heap *preload_heap(void)
{
    return atomic_load_explicit(&process.heap, memory_order_acquire);
}

uint64_t preload_foreign_frees(void)
{
    return atomic_load_explicit(&foreign_frees, memory_order_relaxed);
}

/* Reads a whole number up to `most`. Anything else is named on standard error, and counts as unset. */
static uint64_t read_number(const char *name, uint64_t most)
{
    WEIR_ASSERT(environ != NULL);
    const char *text = secure_getenv(name);
    char *rest = NULL;
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    errno = 0;
    const uint64_t number = strtoull(text, &rest, 10);
    if (errno != 0 || *rest != '\0' || text[0] < '0' || text[0] > '9' || number > most) {
        report_sentence("weir: %s=%s is ignored: it is not a whole number up to %llu\n", name, text,
                        (unsigned long long)most);
        return 0;
    }
    return number;
}

static void read_options(void)
{
    const char *path = secure_getenv("WEIR_PRELOAD_REPORT");
    options.limit_bytes = read_number("WEIR_PRELOAD_LIMIT", INT64_MAX);
    options.signal_number = (int)read_number("WEIR_PRELOAD_SIGNAL", (uint64_t)SIGRTMAX);
    options.report_path = path != NULL && path[0] != '\0' ? path : NULL;
    holders_are_noted = options.limit_bytes != 0 || options.report_path != NULL || options.signal_number != 0;
}

/* --- life --- */

/* True once the C library has its environment, in a process with its caller's rights. */
static bool may_replace(void)
{
    return environ != NULL && getauxval(AT_SECURE) == 0;
}

static void forget_process(void)
{
    memset(&process, 0, sizeof(process));
}

/* Lets a child, and its own children, begin without a heap. Before Linux 4.14 a handler does that, for children of fork
 * only. */
static void watch_forks(void)
{
    if (madvise(&process, sizeof(process), MADV_WIPEONFORK) != 0) {
        (void)pthread_atfork(NULL, NULL, forget_process);
    }
}

/* In a child: keeps the heap of the parent, so that its blocks are known. */
static bool keep_parent(void)
{
    WEIR_ASSERT_HELD(&process.making);
    struct parent *parent = newest != NULL ? __libc_malloc(sizeof(*parent)) : NULL;
    if (newest != NULL && parent == NULL) {
        return false;
    }
    if (parent != NULL) {
        *parent = (struct parent){.older = atomic_load(&parents), .heap = newest};
        atomic_store(&parents, parent);
        newest = NULL;
        holders_restart();
    }
    return true;
}

static weir_heap *make_heap(void)
{
    static bool has_begun;
    weir_heap *made = NULL;
    if (!may_replace()) {
        return NULL;
    }
    (void)pthread_mutex_lock(&process.making);
    made = atomic_load(&process.heap);
    if (made == NULL && !has_begun) {
        has_begun = true;
        read_options();
        watch_forks();
    }
    const weir_heap_config config = {
        .struct_size = sizeof(config), .limit_bytes = options.limit_bytes, .name = "malloc"};
    if (made == NULL && keep_parent() && weir_heap_create(&config, &made) == WEIR_OK) {
        WEIR_ASSERT(made != NULL && newest == NULL);
        newest = made;
        atomic_store(&process.heap, made);
    }
    (void)pthread_mutex_unlock(&process.making);
    return made;
}

/* Returns the heap for a call from outside of weir, with the mark set; NULL: the C library serves the call. */
static inline weir_heap *enter(void)
{
    if (inside) {
        return NULL;
    }
    inside = true;
    weir_heap *own = atomic_load_explicit(&process.heap, memory_order_acquire);
    own = __builtin_expect(own != NULL, true) ? own : make_heap();
    inside = own != NULL;
    return own;
}

bool preload_enter(void)
{
    const bool was_outside = !inside;
    inside = true;
    return was_outside;
}

void preload_leave(void)
{
    WEIR_ASSERT(inside);
    inside = false;
}

/* Ends a request. `size` is that of the request, for the one sentence about a limit. */
static inline void *leave(void *block, size_t size)
{
    WEIR_ASSERT(inside);
    if (__builtin_expect(block == NULL, false)) {
        report_refusal(size);
        errno = ENOMEM;
    }
    inside = false;
    return block;
}

/* --- blocks of others --- */

/* Returns the usable size of a block of a parent's heap; 0 for any other address. */
static size_t parents_size(const void *block)
{
    size_t size = 0;
    for (const struct parent *p = atomic_load(&parents); p != NULL && size == 0; p = p->older) {
        size = weir_heap_usable_size(p->heap, block);
    }
    return size;
}

static bool is_in(const weir_heap *heap, const void *address)
{
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        WEIR_ASSERT(heap->sources[i].host != NULL);
        if (weir__host_leaf_at(&heap->sources[i].host->registry, (uint64_t)(uintptr_t)address) != NULL) {
            return true;
        }
    }
    return false;
}

/* True for an address in memory of a heap of this process or of a parent: the C library must not see it. */
static bool is_of_heaps(const weir_heap *own, const void *address)
{
    bool is = is_in(own, address);
    for (const struct parent *p = atomic_load(&parents); p != NULL && !is; p = p->older) {
        is = is_in(p->heap, address);
    }
    return is;
}

/* Frees an address that is no live block of the heap of this process. Clears the mark. */
static __attribute__((noinline)) void free_foreign(const weir_heap *own, void *block)
{
    WEIR_ASSERT(inside && block != NULL);
    const bool is_parents = parents_size(block) != 0;
    if (!is_parents && is_of_heaps(own, block)) {
        report_bad_free(block);
    }
    (void)atomic_fetch_add_explicit(&foreign_frees, 1, memory_order_relaxed);
    inside = false;
    if (!is_parents) {
        __libc_free(block); /* ends the process if the address is not a block of the C library */
    }
}

/* --- malloc --- */

static inline void *obtain(size_t size, const void *caller)
{
    weir_heap *own = enter();
    if (own == NULL) {
        return __libc_malloc(size);
    }
    void *block = weir_heap_alloc(own, size != 0 ? size : 1);
    holders_note(block, size, caller);
    return leave(block, size);
}

void *preload_alloc(size_t size, const void *caller)
{
    return obtain(size, caller);
}

REPLACES void *malloc(size_t size)
{
    return obtain(size, CALLER);
}

REPLACES void *calloc(size_t count, size_t size)
{
    weir_heap *own = enter();
    const bool is_empty = count == 0 || size == 0;
    if (own == NULL) {
        return __libc_calloc(count, size);
    }
    void *block = weir_heap_alloc_zeroed(own, is_empty ? 1 : count, is_empty ? 1 : size);
    holders_note(block, count * size, CALLER);
    return leave(block, count * size);
}

REPLACES void free(void *block)
{
    struct holders_note note;
    if (block == NULL) {
        return;
    }
    const int number = errno; /* free leaves errno as it is */
    weir_heap *own = enter();
    if (own == NULL) {
        __libc_free(block);
    } else {
        (void)holders_forget(block, &note);
        if (__builtin_expect(weir_heap_free(own, block) == WEIR_OK, true)) {
            inside = false;
        } else {
            free_foreign(own, block);
        }
    }
    errno = number;
}

static void *copy_of(weir_heap *own, const void *block, size_t old, size_t size)
{
    WEIR_ASSERT(inside && old > 0 && size > 0);
    void *moved = weir_heap_alloc(own, size);
    if (moved != NULL) {
        memcpy(moved, block, old < size ? old : size);
    }
    return moved;
}

/* Resizes a block of the heap. The note goes first, because another thread may get the old address. */
static void *resize(weir_heap *own, void *block, size_t size, const void *caller)
{
    struct holders_note note;
    WEIR_ASSERT(inside);
    const bool was_noted = holders_forget(block, &note);
    void *resized = weir_heap_realloc(own, block, size);
    if (size == 0) {
        inside = false; /* a free: NULL is no failure */
        return NULL;
    }
    if (resized == NULL && was_noted) {
        holders_restore(block, &note);
    }
    holders_note(resized, size, caller);
    return leave(resized, size);
}

static void *reallocate(void *block, size_t size, const void *caller)
{
    WEIR_ASSERT(block != NULL);
    weir_heap *own = enter();
    if (own == NULL) {
        return __libc_realloc(block, size);
    }
    if (weir_heap_usable_size(own, block) != 0) {
        return resize(own, block, size, caller);
    }
    const size_t old = parents_size(block);
    if (old != 0 && size != 0) {
        void *copied = copy_of(own, block, old, size);
        holders_note(copied, size, caller);
        return leave(copied, size);
    }
    if (old == 0 && is_of_heaps(own, block)) {
        report_bad_free(block);
    }
    inside = false;
    return old != 0 ? NULL : __libc_realloc(block, size);
}

REPLACES void *realloc(void *block, size_t size)
{
    return block != NULL ? reallocate(block, size, CALLER) : obtain(size, CALLER);
}

REPLACES void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return block != NULL ? reallocate(block, bytes, CALLER) : obtain(bytes, CALLER);
}

/* --- aligned --- */

/* Returns the next power of two, as the C library rounds alignments up; 0 if there is none. */
static size_t power_from(size_t align)
{
    return align <= 1 ? 1 : align > SIZE_MAX / 2 + 1 ? 0 : (size_t)1 << (64 - __builtin_clzll(align - 1));
}

void *preload_alloc_aligned(size_t asked, size_t size, const void *caller)
{
    const size_t align = power_from(asked);
    if (align == 0) {
        errno = EINVAL;
        return NULL;
    }
    WEIR_ASSERT(align >= asked && (align & (align - 1)) == 0);
    weir_heap *own = enter();
    if (own == NULL) {
        return __libc_memalign(align, size);
    }
    void *block = weir_heap_alloc_aligned(own, size != 0 ? size : 1, align);
    holders_note(block, size, caller);
    return leave(block, size);
}

REPLACES void *memalign(size_t align, size_t size)
{
    return preload_alloc_aligned(align, size, CALLER);
}

REPLACES void *aligned_alloc(size_t align, size_t size)
{
    return preload_alloc_aligned(align, size, CALLER);
}

REPLACES int posix_memalign(void **block, size_t align, size_t size)
{
    const int number = errno; /* the result is the error */
    if (align < sizeof(void *) || (align & (align - 1)) != 0) {
        return EINVAL;
    }
    void *found = preload_alloc_aligned(align, size, CALLER);
    *block = found != NULL ? found : *block;
    errno = number;
    return found != NULL ? 0 : ENOMEM;
}

REPLACES void *valloc(size_t size)
{
    return preload_alloc_aligned((size_t)sysconf(_SC_PAGESIZE), size, CALLER);
}

REPLACES void *pvalloc(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = 0;
    if (__builtin_add_overflow(size, page - 1, &whole)) {
        errno = ENOMEM;
        return NULL;
    }
    return preload_alloc_aligned(page, size != 0 ? whole & ~(page - 1) : page, CALLER);
}

/* --- what programs ask and tell their malloc --- */

/* Returns the C library's answer about a block of its own. */
static size_t foreign_size(void *block)
{
    static _Atomic(void *) found;
    size_t (*size_of)(void *) = NULL;
    void *address = atomic_load(&found);
    if (address == NULL) {
        const bool was_outside = preload_enter(); /* the search may allocate */
        address = dlsym(RTLD_NEXT, "malloc_usable_size");
        atomic_store(&found, address);
        inside = !was_outside;
    }
    memcpy(&size_of, &address, sizeof(size_of));
    return size_of != NULL ? size_of(block) : 0;
}

REPLACES size_t malloc_usable_size(void *block)
{
    weir_heap *own = block != NULL ? enter() : NULL;
    if (own == NULL) {
        return block != NULL ? foreign_size(block) : 0;
    }
    size_t size = weir_heap_usable_size(own, block);
    size = size != 0 ? size : parents_size(block);
    const bool is_known = size != 0 || is_of_heaps(own, block);
    inside = false;
    return is_known ? size : foreign_size(block);
}

REPLACES int malloc_trim(size_t keep)
{
    uint64_t released = 0;
    weir_heap *own = enter();
    if (own != NULL) {
        (void)!weir_heap_trim(own, keep, &released);
        inside = false;
    }
    return released != 0;
}

/* The parameters are those of the C library's arenas, which the heap has not: each is accepted, as by the C library,
 * and changes nothing. */
REPLACES int mallopt(int parameter, int value)
{
    (void)parameter, (void)value;
    return 1;
}

REPLACES struct mallinfo2 mallinfo2(void)
{
    weir_heap_stats stats = WEIR_HEAP_STATS_INIT;
    weir_heap *own = enter();
    if (own != NULL) {
        (void)!weir_heap_get_stats(own, &stats);
        inside = false;
    }
    const uint64_t idle = stats.held_bytes > stats.live_bytes ? stats.held_bytes - stats.live_bytes : 0;
    return (struct mallinfo2){
        .arena = stats.held_bytes, .uordblks = stats.held_bytes - idle, .fordblks = idle, .keepcost = idle};
}

static int at_most_int(size_t value)
{
    return value < INT32_MAX ? (int)value : INT32_MAX;
}

REPLACES struct mallinfo mallinfo(void)
{
    const struct mallinfo2 info = mallinfo2();
    return (struct mallinfo){.arena = at_most_int(info.arena),
                             .uordblks = at_most_int(info.uordblks),
                             .fordblks = at_most_int(info.fordblks),
                             .keepcost = at_most_int(info.keepcost)};
}

REPLACES void malloc_stats(void)
{
    report_to_error();
}

/* --- begin and end of the process --- */

__attribute__((constructor)) static void begin(void)
{
    if (enter() != NULL) {
        report_start();
        inside = false;
    }
}

__attribute__((destructor)) static void end(void)
{
    report_end();
}
