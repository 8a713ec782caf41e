/* core/src/pool/stream_lock.h: a lock that the thread that mostly uses it takes for almost nothing.
 *
 * Idea: a stream is nearly always fed by one thread. That thread, the owner, locks by saying so in `busy` and looking
 * at `revoked`: two plain accesses, no atomic read-modify-write, which is what an uncontended lock costs. Anyone else
 * takes `held`, sets `revoked`, and has the kernel run a memory barrier on every processor that runs a thread of this
 * process (membarrier(2)): after it either the owner sees `revoked` and queues for `held`, or its `busy` is visible and
 * is waited for. So the whole price of the order between the two is paid by the one who comes rarely.
 *
 *     owner inside            busy = 1, owner's thread
 *     another thread inside   held, revoked = 1
 *     owner inside after a revocation, or nobody owns the lock: held
 *
 * Guarantee: mutual exclusion, with acquire and release order between all who hold it. When others come about as often
 * as the owner, the lock is an ordinary spin lock until the owner has had it to itself for a while; without membarrier
 * it always is one, and it becomes one where membarrier comes to be refused. The owner is the first thread that locks
 * to work with what is locked (a thread that only looks does not count), and never another one: a thread that was
 * interrupted between looking at `owner` and setting `busy` may act on what it saw at any later time.
 *
 * Cost: owner about 1 ns; others a system call of a few hundred ns; as a spin lock a call and an atomic exchange.
 */
#ifndef WEIR_CORE_STREAM_LOCK_H
#define WEIR_CORE_STREAM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stream_lock {
    _Atomic(const void *) owner; /* who may use `busy`; NULL: nobody yet; weir__lock_shared: nobody now */
    bool off;                    /* single-threaded pools do not lock */
    /* Others look at what is above without wanting the lock; the owner writes what is below all the time: two lines. */
    char apart[64 - sizeof(void *) - sizeof(bool)];
    atomic_uint busy;
    atomic_uint revoked;
    atomic_flag held;

    /* Under `held`: */
    const void *home;          /* the first owner, the only thread that ever is one */
    unsigned intrusions;       /* others that came with little done by the owner in between */
    unsigned alone;            /* while shared: how often the first owner came with nobody in between */
    uint64_t progress_at_last; /* the owner's progress when another thread came last */
};

extern const char weir__lock_shared[1]; /* its address stands for "shared" */

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

void weir__stream_lock_init(struct stream_lock *lock, bool off);
/* `progress` counts what was done under the lock so far, by anyone; it is read once the lock is held. `stays`: the thread
 * may become the owner. */
void weir__stream_lock_slow(struct stream_lock *lock, const uint64_t *progress, bool stays);

/* Takes a lock that nobody owns, without waiting, for what could be done without it: it does not keep the first owner
 * from getting its bias back. False: it is held, or somebody owns it. */
bool weir__stream_lock_try_shared(struct stream_lock *lock);

static inline bool stream_lock_owned(const struct stream_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == stream_lock_self();
}

/* False when it would take a call: the caller goes on to weir__stream_lock_slow. */
static inline bool stream_lock_try(struct stream_lock *lock)
{
    if (__builtin_expect(stream_lock_owned(lock), 1)) {
        atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
        /* The compiler keeps the order; for the processor's part, see above. */
        atomic_signal_fence(memory_order_seq_cst);
        if (__builtin_expect(atomic_load_explicit(&lock->revoked, memory_order_acquire) == 0, 1)) {
            return true;
        }
        atomic_store_explicit(&lock->busy, 0, memory_order_release);
        return false;
    }
    return lock->off;
}

/* After a stream_lock_try that has taken the lock, by the same thread. */
static inline void stream_lock_release_tried(struct stream_lock *lock)
{
    atomic_store_explicit(&lock->busy, 0, memory_order_release);
}

static inline void stream_lock_release(struct stream_lock *lock)
{
    const void *owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    if (__builtin_expect(owner == stream_lock_self() && atomic_load_explicit(&lock->busy, memory_order_relaxed) != 0,
                         1)) {
        atomic_store_explicit(&lock->busy, 0, memory_order_release);
        return;
    }
    if (lock->off) {
        return;
    }
    if (owner != stream_lock_self() && owner != weir__lock_shared) {
        atomic_store_explicit(&lock->revoked, 0, memory_order_release);
    }
    atomic_flag_clear_explicit(&lock->held, memory_order_release);
}

#endif
