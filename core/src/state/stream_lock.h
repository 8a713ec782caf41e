/* core/src/state/stream_lock.h: a biased lock, almost free for the thread that mostly uses it.
 *
 * Idea: a stream is nearly always fed by one thread at a time. That thread, the owner, has a seat at the lock: its name
 * and a word `busy` that no other thread writes. The owner sets `busy` and then checks that the lock is still `open`
 * for its seat. Both are plain loads and stores, the usual price of a free lock without an atomic read-modify-write.
 * Any other thread takes `held`, closes the lock, and has the kernel run a memory barrier on every processor that runs
 * a thread of this process (membarrier(2)). After the barrier, either the owner sees that the lock is closed and queues
 * for `held`, or the other thread sees the owner's `busy` and waits for it to clear. So the thread that comes rarely
 * pays the whole price of the ordering.
 *
 *     inside as the owner      open = the thread's seat, and busy = 1 in it
 *     inside via `held`        held, via_held, and no seat of another thread is open and busy
 *
 * Guarantee: mutual exclusion, with acquire and release order between all threads that hold the lock. The first thread
 * that allocates or frees under the lock becomes the owner. Later, any such thread that has had the lock to itself for
 * a while becomes the owner. If threads take turns, the lock is an ordinary spin lock. Without membarrier it is always
 * a spin lock, and it becomes one if the kernel begins to refuse membarrier.
 *
 * Why the owner can change. A thread can be interrupted between any two steps, and may act much later on a value that
 * it has read: it may set `busy` long after the lock has gone to another owner. That is harmless:
 *   1. A seat belongs to one thread for as long as the lock exists. So a late store reaches the late thread's own
 *      `busy`, and the `busy` of another owner describes that owner alone.
 *   2. `open` changes under `held` only. To close: store, barrier, wait until `busy` of the seat that was open is 0.
 *      A thread T that set its `busy` and then reads `open` does this before or after the barrier. Before: the wait
 *      sees `busy`. After: T reads a value at least as new as the store.
 *   3. So when the wait is over, no thread is inside as the owner, and no thread enters as the owner until `open`
 *      names a seat again: T enters only if it reads its own seat in `open` after it set `busy`. Earlier reads of T do
 *      not matter. Every seat that was opened earlier has been closed in this way, by this closing or by an
 *      earlier one.
 *   4. `open` names a seat again when the closing thread leaves, as its last step before it releases `held`. Whether
 *      `open` names the old seat or another one makes no difference to 1 to 3. If the seat of a late T is open
 *      again, T is the owner.
 * A closing thread leaves with a release store of `open` or of `held`; the owner leaves with a release store of `busy`.
 * The next thread inside acquires that word, so it sees all writes made inside before it.
 *
 * The name of a thread is the address of its thread-local storage. A new thread may get the address of a thread that
 * has ended, and then has the seat of that thread. That is correct: a thread does not end inside a call
 * (shared/cancel.h), so `busy` of its seat is 0, and the mechanism that passes the storage on (joining, or the C
 * library's list of stacks under its lock) orders the end of the first thread before the start of the second. Two
 * threads that live at the same time never have the same name. So a lock has at most one seat for each thread address
 * that has owned it. Seats are freed with the lock.
 *
 * A child of fork takes no lock (core/README.md, Fork).
 *
 * Cost: about 1 ns for the owner; a system call of a few hundred ns for another thread; a function call and an atomic
 * exchange as a spin lock. A change of the owner costs intrusions_tolerated system calls, then alone_for_a_while turns
 * as a spin lock. tests/pool/model/lock_model.cc runs this code through all interleavings of small programs.
 */
#ifndef WEIR_CORE_STREAM_LOCK_H
#define WEIR_CORE_STREAM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/assert.h"

/* A thread's entry at one lock, through which it takes the lock as owner. `thread` is written once, before
 * publication. */
struct lock_seat {
    _Atomic(const void *) thread; /* NULL: the seat belongs to no thread */
    atomic_uint busy;             /* 1 while the thread holds the lock as its owner; written by that thread alone */
    struct lock_seat *next;
};

struct stream_lock {
    /* Other threads read these members without taking the lock, and the owner writes `first` constantly. So these
     * members and `first` have separate cache lines. */
    _Atomic(struct lock_seat *) open;  /* the seat of the thread that may take the lock without an atomic
                                          read-modify-write; &none if there is none at present */
    _Atomic(struct lock_seat *) owner; /* the owner's seat, which `open` names again once other threads have left;
                                          &none: no owner, a spin lock */
    struct lock_seat none;             /* belongs to no thread */
    bool off;                          /* true: the pool is single-threaded, and the lock does nothing */
    char apart[64 - 5 * sizeof(void *) - sizeof(bool)];
    struct lock_seat first; /* the first owner's seat, and the head of the list of all seats */
    atomic_flag held;

    /* Written by the thread inside: */
    bool via_held; /* true: the present holder has taken the lock by `held`, not as the owner */

    /* Under `held`: */
    bool fresh;                /* no thread has owned the lock yet */
    unsigned intrusions;       /* how many times in a row a thread took the lock from an owner with little progress */
    unsigned alone;            /* without an owner: how many times in a row the thread `last` has taken the lock */
    const void *last;          /* without an owner: the thread that took the lock last */
    uint64_t progress_at_last; /* number of operations done when another thread last took the lock from the owner */
#if WEIR_ASSERTIONS >= 1
    _Atomic(const void *) holder; /* the thread that has the lock, if it took the lock by `held`; else NULL */
#endif
};

/* The model checker in tests/pool/model/lock_model.cc defines its own names of threads. */
#if !defined(WEIR_LOCK_MODEL)

/* Identifies the calling thread by the address of a thread-local variable. Where the compiler exposes the thread
 * pointer, uses the thread pointer, which costs least. */
extern _Thread_local char weir__lock_self __attribute__((tls_model("initial-exec")));

static inline const void *stream_lock_self(void)
{
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && __GNUC__ >= 12
    return __builtin_thread_pointer();
#else
    return &weir__lock_self;
#endif
}

#endif

void weir__stream_lock_init(struct stream_lock *lock, bool off);
/* Requires that no thread holds the lock or will take it. */
void weir__stream_lock_fini(struct stream_lock *lock);
/* Slow path of taking the lock. `progress` counts the operations done under the lock so far, by all threads; it is read
 * once the lock is held. If `stays`, the thread may become the owner. */
void weir__stream_lock_slow(struct stream_lock *lock, const uint64_t *progress, bool stays);

/* Takes a lock that has no owner, without waiting, for work that can also be done without the lock. Does not keep
 * another thread from becoming the owner. Returns false if the lock is held, has an owner, or has not been used yet. */
bool weir__stream_lock_try_shared(struct stream_lock *lock);

static inline bool stream_lock_owned(const struct stream_lock *lock)
{
    const struct lock_seat *owner = atomic_load_explicit(&lock->owner, memory_order_acquire);
    return atomic_load_explicit(&owner->thread, memory_order_relaxed) == stream_lock_self();
}

/* Notes whether the calling thread has taken the lock by `held`, not as the owner. */
static inline void stream_lock_set_via_held(struct stream_lock *lock, bool via_held)
{
    lock->via_held = via_held;
#if WEIR_ASSERTIONS >= 1
    atomic_store_explicit(&lock->holder, via_held ? stream_lock_self() : NULL, memory_order_relaxed);
#endif
}

#if WEIR_ASSERTIONS >= 1
/* True if the calling thread holds the lock. Not for the lock of a single-threaded pool (`off`). */
static inline bool stream_lock_is_mine(const struct stream_lock *lock)
{
    const struct lock_seat *owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    return atomic_load_explicit(&lock->holder, memory_order_relaxed) == stream_lock_self() ||
           (stream_lock_owned(lock) && atomic_load_explicit(&owner->busy, memory_order_relaxed) != 0);
}
#else
static inline bool stream_lock_is_mine(const struct stream_lock *lock)
{
    (void)lock;
    return false; /* not recorded: only assertions use the result */
}
#endif

/* Tries to take the lock as its owner, without a function call. *seat receives the seat by which the lock was taken. If
 * this returns false, the caller calls weir__stream_lock_slow. */
static inline bool stream_lock_try(struct stream_lock *lock, struct lock_seat **seat)
{
    struct lock_seat *open = atomic_load_explicit(&lock->open, memory_order_acquire);
    *seat = open;
    if (__builtin_expect(atomic_load_explicit(&open->thread, memory_order_relaxed) == stream_lock_self(), 1)) {
        atomic_store_explicit(&open->busy, 1, memory_order_relaxed);
        /* Keeps the compiler from reordering the store and the load. The head of this file explains how the processor
         * keeps the order. */
        atomic_signal_fence(memory_order_seq_cst);
        if (__builtin_expect(atomic_load_explicit(&lock->open, memory_order_acquire) == open, 1)) {
            return true;
        }
        atomic_store_explicit(&open->busy, 0, memory_order_release);
        return false;
    }
    return lock->off;
}

/* Releases the lock. This thread has taken it by a stream_lock_try that returned `seat`. */
static inline void stream_lock_release_tried(struct lock_seat *seat)
{
    atomic_store_explicit(&seat->busy, 0, memory_order_release);
}

/* Releases the lock after a stream_lock_try of the same thread, for a caller that has not kept the seat. */
static inline void stream_lock_release_own(struct stream_lock *lock)
{
    WEIR_ASSERT(lock->off || (!lock->via_held && stream_lock_is_mine(lock)));
    stream_lock_release_tried(atomic_load_explicit(&lock->owner, memory_order_relaxed));
}

static inline void stream_lock_release(struct stream_lock *lock)
{
    struct lock_seat *owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    WEIR_ASSERT(lock->off || stream_lock_is_mine(lock));
    if (__builtin_expect(!lock->via_held, 1)) { /* this thread is the owner, and stays the owner while it holds the
                                                   lock */
        atomic_store_explicit(&owner->busy, 0, memory_order_release);
        return;
    }
    stream_lock_set_via_held(lock, false);
    if (atomic_load_explicit(&lock->open, memory_order_relaxed) != owner) {
        atomic_store_explicit(&lock->open, owner, memory_order_release);
    }
    atomic_flag_clear_explicit(&lock->held, memory_order_release);
}

#endif
