/* core/src/pool/stream_lock.h: a lock that the thread that mostly uses it takes for almost nothing.
 *
 * Idea: a stream is nearly always fed by one thread at a time. That thread, the owner, has a seat at the lock: its name and
 * a word `busy` that no other thread writes. The owner sets `busy` and then looks whether the lock is still `open` for its
 * seat: plain loads and stores, no atomic read-modify-write, the usual price of a free lock. Any other thread takes
 * `held`, closes the lock, and has the kernel run a memory barrier on every processor that runs a thread of this process
 * (membarrier(2)): after it either the owner sees that the lock is closed and queues for `held`, or its `busy` is visible
 * and is waited for. The thread that comes rarely pays the whole price of the order between the two.
 *
 *     inside as the owner      open = the thread's seat, and busy = 1 in it
 *     inside by hand           held, by_hand, and no seat of another thread is open and busy
 *
 * Guarantee: mutual exclusion, with acquire and release order between all threads that hold it. The owner is the thread that
 * works with what is locked now: the first one that does, and later any thread that has had the lock to itself for a while.
 * Where threads come by turns, the lock is an ordinary spin lock; without membarrier it always is one, and it becomes one
 * where membarrier comes to be refused.
 *
 * Why the owner can change. A thread can be interrupted between any two steps and may act at any later time on what it has
 * read: it may set `busy` long after the lock has gone to another owner. That harms nothing:
 *   1. A seat belongs to one thread for as long as the lock exists. So a late store reaches the late thread's own `busy`,
 *      and another owner's `busy` tells of that owner alone.
 *   2. `open` changes under `held` only. To close: store, barrier, wait until `busy` of the seat that was open is 0. A thread
 *      T that set its `busy` and then reads `open` does this before or after the barrier. Before: the wait sees `busy`.
 *      After: T reads a value at least as new as the store.
 *   3. So when the wait is over, no thread is inside as the owner, and none comes in until `open` names a seat again: T goes
 *      inside only if it reads its own seat in `open` after it set `busy`, whatever it had read before. Each thread whose
 *      seat was opened earlier has been closed out in this way, by this closing or by one before it.
 *   4. `open` names a seat again when the closing thread leaves, as its last step before it gives `held` back. Whether it
 *      names the old seat or another one makes no difference to 1 to 3. A late T whose seat is open again is the owner.
 * A closing thread leaves with a release store of `open` or of `held`, the owner with one of `busy`. The next thread inside
 * acquires that word, so each sees all writes made inside before it.
 *
 * The name of a thread is the address of its thread-local storage, which a new thread may get from one that has ended. It
 * then has the seat of that thread, which is right: a thread does not end inside a call (shared/cancel.h), so `busy` of its
 * seat is 0, and whatever hands the storage on (joining, or the C library's list of stacks under its lock) orders the end of
 * the one before the start of the other. Two threads that live at the same time never have one name. So a lock has at most
 * as many seats as threads with an address of their own have had it to themselves; they go with the lock.
 *
 * A child of fork takes no lock (core/README.md, Fork).
 *
 * Cost: owner about 1 ns; others a system call of a few hundred ns; as a spin lock a call and an atomic exchange. A change
 * of the owner costs intrusions_tolerated system calls, then alone_for_a_while turns as a spin lock.
 * tests/model/lock_model.cc runs this code through all interleavings of small programs.
 */
#ifndef WEIR_CORE_STREAM_LOCK_H
#define WEIR_CORE_STREAM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thread's place at one lock. `thread` is written once, before the seat is known to any other thread. */
struct lock_seat {
    _Atomic(const void *) thread; /* NULL: no thread's */
    atomic_uint busy;             /* written by that thread alone */
    struct lock_seat *next;
};

struct stream_lock {
    /* Other threads look at these without wanting the lock, and the owner's thread writes `first` all the time: two lines. */
    _Atomic(struct lock_seat *) open;  /* whose thread may lock by its seat now; &none while the lock is closed or shared */
    _Atomic(struct lock_seat *) owner; /* whose seat is opened again when a closing thread leaves; &none: shared */
    struct lock_seat none;             /* no thread's seat */
    bool off;                          /* single-threaded pools do not lock */
    char apart[64 - 5 * sizeof(void *) - sizeof(bool)];
    struct lock_seat first; /* the first owner's; others follow by `next` */
    atomic_flag held;

    /* By the thread inside: */
    bool by_hand; /* it holds `held`, and has not come in by its seat */

    /* Under `held`: */
    bool fresh;                /* no thread has owned the lock yet */
    unsigned intrusions;       /* others that came with little done by the owner in between */
    unsigned alone;            /* while shared: how often `last` came with no other thread in between */
    const void *last;          /* while shared: the thread that came last */
    uint64_t progress_at_last; /* the owner's progress when another thread came last */
};

/* tests/model/lock_model.cc names its own threads. */
#if !defined(WEIR_LOCK_MODEL)

/* Each thread's copy has an address of its own; where the compiler tells the thread's own pointer, that is the cheapest
 * name of a thread there is. */
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
/* No thread is inside or comes any more. */
void weir__stream_lock_fini(struct stream_lock *lock);
/* `progress` counts what was done under the lock so far, by anyone; it is read once the lock is held. `stays`: the thread
 * may become the owner. */
void weir__stream_lock_slow(struct stream_lock *lock, const uint64_t *progress, bool stays);

/* Takes a shared lock without waiting, for what could be done without it: it does not keep another thread from becoming the
 * owner. False: it is held, or a thread owns it, or none has used it yet. */
bool weir__stream_lock_try_shared(struct stream_lock *lock);

static inline bool stream_lock_owned(const struct stream_lock *lock)
{
    const struct lock_seat *owner = atomic_load_explicit(&lock->owner, memory_order_acquire);
    return atomic_load_explicit(&owner->thread, memory_order_relaxed) == stream_lock_self();
}

/* *seat: by which the lock was taken. False when it would take a call: the caller goes on to weir__stream_lock_slow. */
static inline bool stream_lock_try(struct stream_lock *lock, struct lock_seat **seat)
{
    struct lock_seat *open = atomic_load_explicit(&lock->open, memory_order_acquire);
    *seat = open;
    if (__builtin_expect(atomic_load_explicit(&open->thread, memory_order_relaxed) == stream_lock_self(), 1)) {
        atomic_store_explicit(&open->busy, 1, memory_order_relaxed);
        /* The compiler keeps the order; for the processor's part, see above. */
        atomic_signal_fence(memory_order_seq_cst);
        if (__builtin_expect(atomic_load_explicit(&lock->open, memory_order_acquire) == open, 1)) {
            return true;
        }
        atomic_store_explicit(&open->busy, 0, memory_order_release);
        return false;
    }
    return lock->off;
}

/* After a stream_lock_try that has taken the lock, by the same thread. */
static inline void stream_lock_release_tried(struct lock_seat *seat)
{
    atomic_store_explicit(&seat->busy, 0, memory_order_release);
}

static inline void stream_lock_release(struct stream_lock *lock)
{
    struct lock_seat *owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    if (__builtin_expect(!lock->by_hand, 1)) { /* then the owner is this thread, and stays so while it is inside */
        atomic_store_explicit(&owner->busy, 0, memory_order_release);
        return;
    }
    lock->by_hand = false;
    if (atomic_load_explicit(&lock->open, memory_order_relaxed) != owner) {
        atomic_store_explicit(&lock->open, owner, memory_order_release);
    }
    atomic_flag_clear_explicit(&lock->held, memory_order_release);
}

#endif
