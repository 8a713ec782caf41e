/* core/src/services/record_ring.c: see record_ring.h. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif

#include "record_ring.h"

#include "base/tuning.h"
#include "shared/assert.h"
#include "shared/clock.h"
#include "shared/round_up.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- rings and threads --- */

/* The rings of the calling thread, the ring used last first. The thread-local list, the key for the end of a thread and
 * the count of forks belong to the process; they hold no state of any recorder. */
static _Thread_local weir__ring *rings_of_thread;
static pthread_key_t thread_end_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool thread_end_known;
static _Atomic uint64_t forks; /* forks between the first process and this one */
static _Atomic uint64_t last_serial;

static void ring_release(weir__ring *ring)
{
    WEIR_ASSERT(atomic_load_explicit(&ring->holders, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&ring->holders, 1, memory_order_acq_rel) == 1) {
        free(ring->entries);
        free(ring);
    }
}

/* Runs at the end of a thread. The events in its rings stay until they are drained. */
static void release_rings_of_thread(void *unused)
{
    (void)unused;
    while (rings_of_thread != NULL) {
        weir__ring *const ring = rings_of_thread;
        rings_of_thread = ring->next_of_mine;
        atomic_store_explicit(&ring->thread_gone, true, memory_order_release);
        ring_release(ring);
    }
}

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_process(void)
{
    thread_end_known = pthread_atfork(NULL, NULL, count_fork) == 0 &&
                       pthread_key_create(&thread_end_key, release_rings_of_thread) == 0;
}

/* The library may be unloaded while threads continue; the end of such a thread must not call into the library. */
__attribute__((destructor)) static void forget_threads(void)
{
    if (atomic_exchange(&thread_end_known, false)) { /* another library may soon get the same key */
        (void)pthread_key_delete(thread_end_key);
    }
}

static weir__ring *ring_new(const weir__rings *rings)
{
    WEIR_ASSERT(is_power_of_two(rings->capacity));
    weir__ring *const ring = aligned_alloc(_Alignof(weir__ring), sizeof(*ring));
    weir__record_entry *const entries = malloc(rings->capacity * sizeof(*entries));
    if (ring == NULL || entries == NULL) {
        free(ring);
        free(entries);
        return NULL;
    }
    memset(ring, 0, sizeof(*ring));
    ring->serial = rings->serial;
    ring->mask = rings->capacity - 1;
    ring->entries = entries;
    atomic_init(&ring->holders, 2);
    return ring;
}

/* Creates a ring for the calling thread. Returns NULL when out of memory, or if the end of the thread cannot be
 * observed: then the ring could never be released. */
static weir__ring *ring_for_new_thread(weir__rings *rings)
{
    if (!thread_end_known || pthread_setspecific(thread_end_key, rings) != 0) {
        return NULL;
    }
    weir__ring *const ring = ring_new(rings);
    if (ring == NULL) {
        return NULL;
    }
    ring->thread = atomic_fetch_add_explicit(&rings->threads, 1, memory_order_relaxed);
    ring->next_of_mine = rings_of_thread;
    rings_of_thread = ring;
    ring->next = atomic_load_explicit(&rings->first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&rings->first, &ring->next, ring, memory_order_release,
                                                  memory_order_relaxed)) {
    }
    return ring;
}

/* Finds the calling thread's ring and moves it to the head of the thread's list. Releases the rings of ended
 * recorders. */
static weir__ring *ring_search(weir__rings *rings)
{
    weir__ring **link = &rings_of_thread;
    while (*link != NULL) {
        weir__ring *const ring = *link;
        if (ring->serial == rings->serial) {
            *link = ring->next_of_mine;
            ring->next_of_mine = rings_of_thread;
            rings_of_thread = ring;
            return ring;
        }
        if (atomic_load_explicit(&ring->recorder_gone, memory_order_acquire)) {
            *link = ring->next_of_mine;
            ring_release(ring);
        } else {
            link = &ring->next_of_mine;
        }
    }
    return ring_for_new_thread(rings);
}

weir__ring *weir__ring_of_thread(weir__rings *rings)
{
    weir__ring *const ring = rings_of_thread;
    return ring != NULL && ring->serial == rings->serial ? ring : ring_search(rings);
}

bool weir__rings_in_child(const weir__rings *rings)
{
    return atomic_load_explicit(&forks, memory_order_relaxed) != rings->forks;
}

/* --- putting --- */

/* Reads the time before it takes the number. A thread that is delayed in between gets a time that is too early, which
 * the trace raises to the time of the event before. If the time could be too late, it would delay the times of all
 * later events. */
weir__ring_result weir__rings_put(weir__rings *rings, weir__record_entry event)
{
    if (weir__rings_in_child(rings)) {
        return WEIR__RING_IN_CHILD;
    }
    weir__ring *const ring = weir__ring_of_thread(rings);
    if (ring == NULL) {
        return WEIR__RING_NONE;
    }
    const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    WEIR_ASSERT(ring->entries != NULL && ring->serial == rings->serial);
    if (tail - atomic_load_explicit(&ring->head, memory_order_acquire) > ring->mask) {
        return WEIR__RING_FULL;
    }
    event.time_ns = wall_ns() - rings->start_ns;
    /* Relaxed is enough: the order of additions to one atomic agrees with happens-before. */
    event.sequence = atomic_fetch_add_explicit(&rings->sequence, 1, memory_order_relaxed);
    ring->entries[tail & ring->mask] = event;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return WEIR__RING_DONE;
}

/* --- merging --- */

/* Returns the oldest event of a ring, or NULL if the ring is empty. */
static const weir__record_entry *ring_peek(const weir__ring *ring)
{
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    const uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return head != tail ? &ring->entries[head & ring->mask] : NULL;
}

static void ring_pop(weir__ring *ring)
{
    WEIR_ASSERT(ring_peek(ring) != NULL);
    const uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

static weir__ring *first_ring(weir__rings *rings)
{
    return atomic_load_explicit(&rings->first, memory_order_acquire);
}

static weir__ring *ring_with_earliest(weir__rings *rings)
{
    weir__ring *best = NULL;
    uint64_t earliest = UINT64_MAX;
    for (weir__ring *ring = first_ring(rings); ring != NULL; ring = ring->next) {
        const weir__record_entry *const event = ring_peek(ring);
        if (event != NULL && event->sequence < earliest) {
            earliest = event->sequence;
            best = ring;
        }
    }
    return best;
}

static bool is_next(const weir__rings *rings, const weir__ring *ring)
{
    const weir__record_entry *const event = ring != NULL ? ring_peek(ring) : NULL;
    return event != NULL && event->sequence == rings->next;
}

/* Releases the empty rings of ended threads. The first ring of the list stays until another ring is put before it,
 * because other threads may change the head of the list. */
static void drop_finished_rings(weir__rings *rings)
{
    weir__ring *before = first_ring(rings);
    while (before != NULL && before->next != NULL) {
        weir__ring *const ring = before->next;
        if (atomic_load_explicit(&ring->thread_gone, memory_order_acquire) && ring_peek(ring) == NULL) {
            before->next = ring->next;
            ring_release(ring);
        } else {
            before = ring;
        }
    }
}

uint64_t weir__rings_merge(weir__rings *rings, bool complete, weir__ring_taker take, void *ctx)
{
    const uint64_t end = atomic_load_explicit(&rings->sequence, memory_order_relaxed);
    uint64_t missing = 0;
    weir__ring *ring = NULL;
    while (rings->next < end) {
        if (!is_next(rings, ring)) {
            ring = ring_with_earliest(rings);
        }
        if (!complete && !is_next(rings, ring)) {
            break;
        }
        if (ring == NULL) {
            missing += end - rings->next;
            break;
        }
        const weir__record_entry *const event = ring_peek(ring);
        WEIR_ASSERT(event->sequence >= rings->next);
        missing += event->sequence - rings->next;
        rings->next = event->sequence + 1;
        take(ctx, event, ring->thread);
        ring_pop(ring);
    }
    drop_finished_rings(rings);
    return missing;
}

/* --- beginning and end --- */

static size_t power_of_two_at_least(uint32_t count)
{
    WEIR_ASSERT(count != 0);
    size_t power = 1;
    while (power < count) {
        power *= 2;
    }
    return power;
}

void weir__rings_init(weir__rings *rings, uint32_t ring_events)
{
    (void)pthread_once(&once, watch_process);
    memset(rings, 0, sizeof(*rings));
    rings->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    rings->forks = atomic_load_explicit(&forks, memory_order_relaxed);
    rings->capacity = power_of_two_at_least(ring_events != 0 ? ring_events : usual_ring_events);
    rings->start_ns = wall_ns();
}

/* Frees the event buffers at once. The struct of a ring that a thread still holds lives until that thread lets go. */
void weir__rings_fini(weir__rings *rings)
{
    weir__ring *ring = first_ring(rings);
    while (ring != NULL) {
        weir__ring *const next = ring->next;
        free(ring->entries);
        WEIR_ASSERT(ring->serial == rings->serial);
        ring->entries = NULL;
        atomic_store_explicit(&ring->recorder_gone, true, memory_order_release);
        ring_release(ring);
        ring = next;
    }
}
