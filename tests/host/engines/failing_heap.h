/* tests/host/engines/failing_heap.h: a heap that runs out at the n-th request. The linker redirects a binding's calls
 * here (--wrap of weir_heap_alloc, _alloc_aligned, _alloc_long_lived, _realloc and _free), so only the engine's
 * requests fail. One file of a program includes it. */
#ifndef TESTS_ENGINES_FAILING_HEAP_H
#define TESTS_ENGINES_FAILING_HEAP_H

#include <weir/heap.h>

#include <stdatomic.h>

void *__real_weir_heap_alloc(weir_heap *heap, size_t size);
void *__real_weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align);
void *__real_weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align);
void *__real_weir_heap_realloc(weir_heap *heap, void *block, size_t size);
weir_status __real_weir_heap_free(weir_heap *heap, void *block);
void *__wrap_weir_heap_alloc(weir_heap *heap, size_t size);
void *__wrap_weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align);
void *__wrap_weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align);
void *__wrap_weir_heap_realloc(weir_heap *heap, void *block, size_t size);
weir_status __wrap_weir_heap_free(weir_heap *heap, void *block);

static atomic_ullong heap_requests;
static unsigned long long heap_fails_at; /* the n-th request from now fails; 0: none; only one thread changes it */
static bool heap_stays_empty;            /* all later requests fail too */
static atomic_ullong heap_failures;
static _Thread_local bool in_heap; /* true while this thread is in the heap */

static void fail_heap_at(unsigned long long request, bool and_all_after)
{
    atomic_store(&heap_requests, 0);
    atomic_store(&heap_failures, 0);
    heap_fails_at = request;
    heap_stays_empty = and_all_after;
}

static bool heap_fails_now(void)
{
    const unsigned long long request = atomic_fetch_add(&heap_requests, 1) + 1;
    const bool fails = heap_fails_at != 0 && (heap_stays_empty ? request >= heap_fails_at : request == heap_fails_at);
    if (fails) {
        (void)atomic_fetch_add(&heap_failures, 1);
    }
    return fails;
}

void *__wrap_weir_heap_alloc(weir_heap *heap, size_t size)
{
    in_heap = true;
    void *block = heap_fails_now() ? NULL : __real_weir_heap_alloc(heap, size);
    in_heap = false;
    return block;
}

void *__wrap_weir_heap_alloc_aligned(weir_heap *heap, size_t size, size_t align)
{
    in_heap = true;
    void *block = heap_fails_now() ? NULL : __real_weir_heap_alloc_aligned(heap, size, align);
    in_heap = false;
    return block;
}

void *__wrap_weir_heap_alloc_long_lived(weir_heap *heap, size_t size, size_t align)
{
    in_heap = true;
    void *block = heap_fails_now() ? NULL : __real_weir_heap_alloc_long_lived(heap, size, align);
    in_heap = false;
    return block;
}

void *__wrap_weir_heap_realloc(weir_heap *heap, void *block, size_t size)
{
    in_heap = true;
    void *moved = heap_fails_now() ? NULL : __real_weir_heap_realloc(heap, block, size);
    in_heap = false;
    return moved;
}

weir_status __wrap_weir_heap_free(weir_heap *heap, void *block)
{
    in_heap = true;
    const weir_status status = __real_weir_heap_free(heap, block);
    in_heap = false;
    return status;
}

#endif
