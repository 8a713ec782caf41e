/* decay.c: idle memory of the process goes back by itself: the setting decay_ms, and the thread of
 * WEIR_HEAP_DECAY_THREAD. The pool decides which memory goes back (pool/src/decay.c); each of the heap's own pools
 * decides for itself. */
#include "heap_internal.h"

#include "shared/cancel.h"
#include "shared/clock.h"
#include "shared/own_thread.h"

#include <limits.h>

enum { DEFAULT_DECAY_MS = 1000 };
#define NS_OF_MS UINT64_C(1000000)
#define NS_OF_S UINT64_C(1000000000)

static weir_host_pool *own_pool(const weir_heap *heap, size_t i)
{
    WEIR_ASSERT(i < WEIR__HEAP_SOURCES);
    const weir__source *source = &heap->sources[i];
    return source->ops == &weir__process_source ? source->host : NULL;
}

static weir_status check(const weir_heap_config *config)
{
    const bool is_own = config->source.host_pool == NULL && config->source.pool == NULL;
    if (config->decay_ms < WEIR_HEAP_DECAY_AT_ONCE || config->decay_ms > INT_MAX) {
        return weir_refuse(
            WEIR_ERR_INVALID,
            "weir_heap_create: config.decay_ms %lld is not from 0 to 2^31 - 1, nor a WEIR_HEAP_DECAY_...",
            (long long)config->decay_ms);
    }
    if (!is_own && config->decay_ms != 0 && config->decay_ms != WEIR_HEAP_DECAY_NEVER) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_heap_create: config.decay_ms is set, but memory of config.source does not decay");
    }
    if (!is_own && (config->flags & WEIR_HEAP_DECAY_THREAD) != 0) {
        return weir_refuse(
            WEIR_ERR_INVALID,
            "weir_heap_create: config.flags has WEIR_HEAP_DECAY_THREAD, but memory of config.source does not decay");
    }
    return WEIR_OK;
}

static uint64_t slot_ns_of(const weir_heap *heap)
{
    const int64_t ms = heap->config.decay_ms;
    return ms < 0 ? 0 : (ms == 0 ? DEFAULT_DECAY_MS : (uint64_t)ms) * NS_OF_MS / WEIR__HOST_DECAY_SLOTS;
}

/* Sleeps for a part of the decay time. Returns false when the thread must end: the heap ends, or all threads of the
 * program have. */
static bool sleep_a_while(weir_heap *heap)
{
    WEIR_ASSERT(slot_ns_of(heap) > 0);
    const uint64_t most_ns = OWN_THREAD_LOOK_MS * NS_OF_MS;
    const uint64_t slot_ns = slot_ns_of(heap) < most_ns ? slot_ns_of(heap) : most_ns;
    const uint64_t until_ns = wall_ns() + (slot_ns > NS_OF_MS ? slot_ns : NS_OF_MS);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_OF_S), .tv_nsec = (long)(until_ns % NS_OF_S)};
    (void)pthread_mutex_lock(&heap->decay_lock);
    int error = 0;
    while (!heap->decay_ends && error == 0) {
        error = pthread_cond_timedwait(&heap->decay_end, &heap->decay_lock, &until);
    }
    const bool ends = heap->decay_ends;
    (void)pthread_mutex_unlock(&heap->decay_lock);
    return !ends && !weir__own_threads_are_alone();
}

static void *decay_until_the_end(void *argument)
{
    weir_heap *heap = argument;
    while (sleep_a_while(heap)) {
        for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
            if (own_pool(heap, i) != NULL) {
                weir__host_decay_step(own_pool(heap, i), wall_ns());
            }
        }
    }
    return NULL;
}

static void init_locks(weir_heap *heap)
{
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&heap->decay_lock, NULL);
    (void)pthread_cond_init(&heap->decay_end, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

weir_status weir__heap_decay_start(weir_heap *heap)
{
    const weir_status status = check(&heap->config);
    if (status != WEIR_OK) {
        return status;
    }
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        if (own_pool(heap, i) != NULL) {
            weir__host_decay_start(own_pool(heap, i), slot_ns_of(heap),
                                   heap->config.decay_ms == WEIR_HEAP_DECAY_AT_ONCE);
        }
    }
    if ((heap->config.flags & WEIR_HEAP_DECAY_THREAD) == 0 || slot_ns_of(heap) == 0) {
        return WEIR_OK;
    }
    init_locks(heap);
    heap->has_decay_thread = weir__own_thread_start(&heap->decay_thread, decay_until_the_end, heap) == 0;
    if (!heap->has_decay_thread) {
        (void)pthread_cond_destroy(&heap->decay_end);
        (void)pthread_mutex_destroy(&heap->decay_lock);
    }
    return heap->has_decay_thread ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

void weir__heap_decay_end(weir_heap *heap)
{
    if (!heap->has_decay_thread) {
        return;
    }
    (void)pthread_mutex_lock(&heap->decay_lock);
    WEIR_ASSERT(!heap->decay_ends);
    heap->decay_ends = true;
    (void)pthread_cond_signal(&heap->decay_end);
    (void)pthread_mutex_unlock(&heap->decay_lock);
    (void)UNCANCELLED(pthread_join(heap->decay_thread, NULL));
    (void)pthread_cond_destroy(&heap->decay_end);
    (void)pthread_mutex_destroy(&heap->decay_lock);
}

weir__heap_decayed weir__heap_decayed_by(const weir_heap *heap)
{
    weir__heap_decayed sum = {0};
    for (size_t i = 0; i < WEIR__HEAP_SOURCES; i++) {
        weir_host_pool *pool = own_pool(heap, i);
        if (pool != NULL) {
            sum.bytes += atomic_load(&pool->decay.bytes);
            sum.times += atomic_load(&pool->decay.times);
            sum.failures += atomic_load(&pool->decay.failures);
        }
    }
    return sum;
}
