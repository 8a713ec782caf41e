/* core/src/services/record_ring.h: the ring buffers of a recorder: one per thread, merged in the order of the events.
 *
 * Idea: each thread writes its events into a ring of its own. One atomic counter numbers all events of a recorder, and
 * the drain merges the rings by number. Numbers agree with the order of events: if one event happens before another,
 * its number is lower.
 *
 *     thread 1:  [1][2]   [5]        writes `tail`    \
 *     thread 2:        [3]   [6]     writes `tail`     >  drain writes `head`: 1 2 3 4 5 6
 *     thread 3:           [4]        writes `tail`    /
 *
 * Guarantees:
 *   - Events stay in order. An event takes its number before it becomes visible. The merge stops at the first number
 *     that it cannot see yet; the thread that took the number is about to publish it.
 *   - A full ring refuses the new event before the event takes a number. The caller decides if the event is lost.
 *   - Every number taken is published. Only the end of a recording has to tolerate a gap, from a thread that was killed
 *     between the two steps.
 *
 * Cost of an event: a clock reading, one addition to a shared counter, 64 bytes written; no lock. A thread's first
 * event for a recorder allocates its ring. The merge looks at every ring when the next event comes from another thread.
 *
 * Lifetime: a ring is held by its recorder and by its thread; the last of the two to release it frees it. The thread
 * releases a ring when the thread ends, or when it searches for a ring and finds one of an ended recorder. Rings
 * are found by the recorder's serial number, which is never used twice, so a new recorder at an old recorder's address
 * is not mistaken for it.
 */
#ifndef WEIR_CORE_RECORD_RING_H
#define WEIR_CORE_RECORD_RING_H

#include "shared/record_text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Single producer (its thread), single consumer (the merge). tail - head = events held, at most the capacity; head and
 * tail only grow. */
typedef struct weir__ring {
    struct weir__ring *next;         /* next ring of the recorder; set before the ring is published */
    struct weir__ring *next_of_mine; /* next ring of the thread; only the thread reads and writes this */
    uint64_t serial;                 /* of the recorder */
    atomic_int holders;              /* recorder and thread */
    atomic_bool thread_gone;         /* the thread writes no more events */
    atomic_bool recorder_gone;       /* the recorder has ended and `entries` are freed */
    uint32_t thread;                 /* number of the thread in the trace */
    size_t mask;
    weir__record_entry *entries;
    _Alignas(64) _Atomic uint64_t head; /* written by the merge */
    _Alignas(64) _Atomic uint64_t tail; /* written by the thread */
} weir__ring;

typedef struct weir__rings {
    uint64_t serial;
    uint64_t start_ns;
    uint64_t forks;  /* the process's count of forks when the recorder was created */
    size_t capacity; /* of one ring: a power of two */
    _Atomic(weir__ring *) first;
    atomic_uint threads;                    /* number of threads that have had a ring */
    _Alignas(64) _Atomic uint64_t sequence; /* the next number to take */
    _Alignas(64) uint64_t next;             /* the next event number to merge; smaller numbers are merged or skipped */
} weir__rings;

typedef enum weir__ring_result {
    WEIR__RING_DONE,
    WEIR__RING_FULL,     /* no room until the next merge */
    WEIR__RING_NONE,     /* this thread has no ring: no memory */
    WEIR__RING_IN_CHILD, /* in a child of fork: the recorder does not record the child's events */
} weir__ring_result;

void weir__rings_init(weir__rings *rings, uint32_t ring_events);
/* Frees the rings. The caller guarantees that no thread puts events any more. */
void weir__rings_fini(weir__rings *rings);

/* Puts an event with its time and number into the calling thread's ring. Never waits. */
weir__ring_result weir__rings_put(weir__rings *rings, weir__record_entry event);
/* True in a child of fork of the process that created the recorder. */
bool weir__rings_in_child(const weir__rings *rings);

typedef void (*weir__ring_taker)(void *ctx, const weir__record_entry *event, uint32_t thread);

/* Takes out the events in the rings, up to the last number taken when the call began, so that the merge ends while
 * other threads continue to record. If `complete`, no thread puts events any more, so a missing number is missing for
 * good. Returns how many numbers were missing. One caller at a time. */
uint64_t weir__rings_merge(weir__rings *rings, bool complete, weir__ring_taker take, void *ctx);

/* Returns the calling thread's ring, or NULL if there is no memory for one. */
weir__ring *weir__ring_of_thread(weir__rings *rings);

#endif
