/* core/src/services/record_ring.h: the rings of a recorder: one per thread, merged in the order in which it happened.
 *
 * Idea: each thread writes its events into a ring of its own; one atomic counter numbers all events of a recorder, and the
 * drain merges the rings by number. The order of the numbers is the order in which it happened: when one event happens
 * before another, its number is lower.
 *
 *     thread 1:  [1][2]   [5]        writes `tail`    \
 *     thread 2:        [3]   [6]     writes `tail`     >  drain writes `head`: 1 2 3 4 5 6
 *     thread 3:           [4]        writes `tail`    /
 *
 * Guarantees:
 *   - Nothing is out of order. An event takes its number before it becomes visible, so the merge stops at the first number
 *     that it does not see yet; whoever took it is about to publish it.
 *   - A full ring refuses the new event before it takes a number. What becomes of it is the caller's decision.
 *   - Every number taken is published, so only the end of a recording has to tolerate a gap (a thread that was killed
 *     between the two).
 *
 * Cost of an event: a clock reading, one addition to a shared counter, 64 bytes written; no lock. A thread's first event for
 * a recorder allocates its ring. The merge looks at every ring when the next event comes from another thread.
 *
 * Lifetime: a ring is held by its recorder and by its thread, and whoever lets go last frees it. The thread lets go when it
 * ends, or when it looks for a ring and meets one whose recorder has ended. Rings are found by the recorder's serial number,
 * which is never used twice, so a new recorder at an old one's address is not taken for it.
 */
#ifndef WEIR_CORE_RECORD_RING_H
#define WEIR_CORE_RECORD_RING_H

#include "shared/record_text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Single producer (its thread), single consumer (the merge).
 * tail - head = events held, at most the capacity; both only grow. */
typedef struct weir__ring {
    struct weir__ring *next;         /* of the recorder; set before the ring is published */
    struct weir__ring *next_of_mine; /* of the thread; only it reads and writes this */
    uint64_t serial;                 /* of the recorder */
    atomic_int holders;              /* recorder and thread */
    atomic_bool thread_gone;         /* nothing more will be written */
    atomic_bool recorder_gone;       /* `entries` are freed */
    uint32_t thread;                 /* number of the thread in the trace */
    size_t mask;
    weir__record_entry *entries;
    _Alignas(64) _Atomic uint64_t head; /* written by the merge */
    _Alignas(64) _Atomic uint64_t tail; /* written by the thread */
} weir__ring;

typedef struct weir__rings {
    uint64_t serial;
    uint64_t start_ns;
    uint64_t forks;  /* of the process, when the recorder was made */
    size_t capacity; /* of a ring: a power of two */
    _Atomic(weir__ring *) first;
    atomic_uint threads; /* how many have had a ring */
    _Alignas(64) _Atomic uint64_t sequence; /* the next number to take */
    _Alignas(64) uint64_t next;             /* the merge's: every number below has been taken out or passed over */
} weir__rings;

typedef enum weir__ring_result {
    WEIR__RING_DONE,
    WEIR__RING_FULL,     /* until a merge */
    WEIR__RING_NONE,     /* this thread has no ring: no memory */
    WEIR__RING_IN_CHILD, /* of a fork: the events of the child are not the recorder's */
} weir__ring_result;

void weir__rings_init(weir__rings *rings, uint32_t ring_events);
/* Nobody puts any more. */
void weir__rings_fini(weir__rings *rings);

/* Fills in time and number. Never waits. */
weir__ring_result weir__rings_put(weir__rings *rings, weir__record_entry event);
/* This process is a fork of the one that made the recorder. */
bool weir__rings_in_child(const weir__rings *rings);

typedef void (*weir__ring_taker)(void *ctx, const weir__record_entry *event, uint32_t thread);

/* Takes out what the rings hold, up to what had begun when it was called, so that it ends while others go on recording.
 * `complete`: nobody puts any more, so a number that is missing is missing for good. Returns how many were missing. One
 * caller at a time. */
uint64_t weir__rings_merge(weir__rings *rings, bool complete, weir__ring_taker take, void *ctx);

/* The calling thread's ring, NULL when there is no memory for one. */
weir__ring *weir__ring_of_thread(weir__rings *rings);

#endif
