/* core/src/state/stream_lock.c: the biased lock; see stream_lock.h for the idea, the guarantee and the cost. */
#include "stream_lock.h"

#include "shared/cancel.h"
#include "shared/thread_barrier.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#if !defined(WEIR_LOCK_MODEL)

#include "base/tuning.h"

_Thread_local char weir__lock_self __attribute__((tls_model("initial-exec")));

#endif

/* --- the barrier: its cost falls on the thread that takes the lock rarely --- */

/* The kernel registers a whole process for the barrier, so this flag is per process. It is core's only global state. */
static pthread_once_t barrier_once = PTHREAD_ONCE_INIT;
static atomic_bool barrier_works;

static void register_barrier(void)
{
    atomic_store(&barrier_works, thread_barrier_register());
}

/* A registered barrier can still be refused, by a sandbox that the process has entered meanwhile or for lack of kernel
 * memory. From then on no thread becomes an owner. Each lock then waits 10 ms once for its present owner, far longer
 * than a store needs to become visible; afterwards it is a spin lock. */
static void barrier_or_patience(void)
{
    if (!thread_barrier_pass()) {
        atomic_store(&barrier_works, false);
        const struct timespec patience = {.tv_nsec = 10000000};
        (void)UNCANCELLED(nanosleep(&patience, NULL));
    }
}

/* --- the lock --- */

void weir__stream_lock_init(struct stream_lock *lock, bool off)
{
    (void)pthread_once(&barrier_once, register_barrier);
    atomic_init(&lock->none.thread, NULL);
    atomic_init(&lock->none.busy, 0);
    atomic_init(&lock->first.thread, NULL);
    atomic_init(&lock->first.busy, 0);
    lock->first.next = NULL;
    atomic_init(&lock->open, &lock->none);
    atomic_init(&lock->owner, off ? &lock->first : &lock->none);
    atomic_flag_clear_explicit(&lock->held, memory_order_relaxed);
    lock->off = off;
    lock->via_held = false;
    lock->fresh = atomic_load(&barrier_works) && !off;
    lock->last = NULL;
    lock->intrusions = 0;
    lock->alone = 0;
    lock->progress_at_last = 0;
#if WEIR_ASSERTIONS >= 1
    atomic_init(&lock->holder, NULL);
#endif
}

void weir__stream_lock_fini(struct stream_lock *lock)
{
    WEIR_ASSERT(lock->off || !stream_lock_is_mine(lock));
    while (lock->first.next != NULL) {
        struct lock_seat *seat = lock->first.next;
        lock->first.next = seat->next;
        free(seat);
    }
}

static void pause_after(unsigned *spins)
{
    if (++*spins >= spins_before_yield) {
        (void)sched_yield();
        *spins = 0;
    }
}

/* Returns a new seat in a cache line of its own, because its thread writes it constantly. Returns NULL when out
 * of host memory. The calling thread holds `held`. */
static struct lock_seat *new_seat(struct stream_lock *lock)
{
    if (lock->fresh) {
        return &lock->first;
    }
    struct lock_seat *seat = (struct lock_seat *)aligned_alloc(64, 64);
    if (seat != NULL) {
        atomic_init(&seat->busy, 0);
        seat->next = lock->first.next;
        lock->first.next = seat;
    }
    return seat;
}

/* Makes the calling thread the owner of a lock that has none. This takes effect when the thread releases the lock. The
 * calling thread holds `held`. */
static void become_owner(struct stream_lock *lock)
{
    const void *self = stream_lock_self();
    struct lock_seat *seat = &lock->first;
    while (seat != NULL && atomic_load_explicit(&seat->thread, memory_order_relaxed) != self) {
        seat = seat->next;
    }
    if (seat == NULL && (seat = new_seat(lock)) != NULL) {
        atomic_init(&seat->thread, self);
    }
    if (seat != NULL) {
        lock->fresh = false;
        lock->intrusions = 0;
        atomic_store_explicit(&lock->owner, seat, memory_order_release);
    }
}

/* Closes the lock to the owner and waits until the owner has released it. The calling thread holds `held`. */
static void keep_owner_out(struct stream_lock *lock, const struct lock_seat *owner)
{
    WEIR_ASSERT(owner != &lock->none);
    unsigned spins = 0;
    atomic_store_explicit(&lock->open, &lock->none, memory_order_seq_cst);
    barrier_or_patience();
    while (atomic_load_explicit(&owner->busy, memory_order_acquire) != 0) {
        pause_after(&spins);
    }
}

/* Turns the lock into a spin lock if other threads come as often as its owner: that serves all threads better. The
 * calling thread holds the lock, and the owner does not. */
static void judge_intrusion(struct stream_lock *lock, uint64_t progress)
{
    const bool little = progress - lock->progress_at_last < little_progress;
    lock->progress_at_last = progress;
    lock->intrusions = little ? lock->intrusions + 1 : 0;
    if (lock->intrusions >= intrusions_tolerated || !atomic_load_explicit(&barrier_works, memory_order_relaxed)) {
        lock->alone = 0;
        atomic_store_explicit(&lock->owner, &lock->none, memory_order_relaxed);
    }
}

/* Counts how often in a row one thread takes a lock that has no owner, and makes that thread the owner when it pays. A
 * thread that must not become the owner (`stays` is false) is not counted, and ends the row of another thread. The
 * calling thread holds the lock. */
static void judge_sharing(struct stream_lock *lock, bool stays)
{
    const void *self = stream_lock_self();
    lock->alone = lock->last == self ? lock->alone + stays : 0;
    lock->last = self;
    if ((lock->alone >= alone_for_a_while || (lock->fresh && stays)) &&
        atomic_load_explicit(&barrier_works, memory_order_relaxed)) {
        lock->alone = 0;
        become_owner(lock);
    }
}

bool weir__stream_lock_try_shared(struct stream_lock *lock)
{
    WEIR_ASSERT(lock->off || !stream_lock_is_mine(lock));
    if (lock->off) {
        return true;
    }
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != &lock->none ||
        atomic_flag_test_and_set_explicit(&lock->held, memory_order_acquire)) {
        return false;
    }
    /* Another thread may have become the owner before this thread took `held`. */
    if (lock->fresh || atomic_load_explicit(&lock->owner, memory_order_relaxed) != &lock->none) {
        atomic_flag_clear_explicit(&lock->held, memory_order_release);
        return false;
    }
    if (lock->last == stream_lock_self()) {
        judge_sharing(lock, true);
    }
    WEIR_ASSERT(!lock->via_held);
    stream_lock_set_via_held(lock, true);
    return true;
}

void weir__stream_lock_slow(struct stream_lock *lock, const uint64_t *progress, bool stays)
{
    WEIR_ASSERT(lock->off || !stream_lock_is_mine(lock));
    unsigned spins = 0;
    if (lock->off) {
        return;
    }
    while (atomic_flag_test_and_set_explicit(&lock->held, memory_order_acquire)) {
        pause_after(&spins);
    }
    const struct lock_seat *owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    if (owner == &lock->none) {
        judge_sharing(lock, stays);
    } else if (atomic_load_explicit(&owner->thread, memory_order_relaxed) != stream_lock_self()) {
        keep_owner_out(lock, owner);
        judge_intrusion(lock, *progress);
    }
    WEIR_ASSERT(!lock->via_held);
    stream_lock_set_via_held(lock, true);
}
