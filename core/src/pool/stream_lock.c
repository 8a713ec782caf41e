/* core/src/pool/stream_lock.c: see stream_lock.h for the idea, the guarantee and the cost. */
#include "stream_lock.h"

#include "shared/cancel.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if !defined(WEIR_LOCK_MODEL)

_Thread_local char weir__lock_self __attribute__((tls_model("initial-exec")));

enum {
    spins_before_yield = 64,
    little_progress = 256, /* operations of the owner between two intrusions that make the bias worth keeping */
    intrusions_tolerated = 8,
    alone_for_a_while = 1024, /* locks of one thread in a row that make it the owner */
};

#endif

/* --- the barrier that the rare thread pays for --- */

/* The kernel's registration belongs to the process, and so does this, the only state of core outside a handle. */
static pthread_once_t barrier_once = PTHREAD_ONCE_INIT;
static atomic_bool barrier_works;

#if defined(__linux__) && defined(__NR_membarrier)
static void register_barrier(void)
{
    atomic_store(&barrier_works, syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
}

static bool barrier_everywhere(void)
{
    return syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}
#else
static void register_barrier(void)
{
}

static bool barrier_everywhere(void)
{
    return false;
}
#endif

/* A barrier that was promised can still be refused: by a sandbox that the process has entered since, or for want of
 * kernel memory. Nobody gets the bias from then on, and whoever has it is given far longer than a store needs to leave
 * its processor, once per lock: afterwards the lock is shared. */
static void barrier_or_patience(void)
{
    if (!barrier_everywhere()) {
        atomic_store(&barrier_works, false);
        const struct timespec patience = { .tv_nsec = 10000000 };
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
    lock->by_hand = false;
    lock->fresh = atomic_load(&barrier_works) && !off;
    lock->last = NULL;
    lock->intrusions = 0;
    lock->alone = 0;
    lock->progress_at_last = 0;
}

void weir__stream_lock_fini(struct stream_lock *lock)
{
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

/* `held` is this thread's. In a cache line of its own, since its thread writes it all the time. NULL without host memory. */
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

/* `held` is this thread's, and the lock is shared. The seat is opened when this thread leaves. */
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

/* `held` is this thread's: makes the owner stay out, and waits until it is. */
static void keep_owner_out(struct stream_lock *lock, const struct lock_seat *owner)
{
    unsigned spins = 0;
    atomic_store_explicit(&lock->open, &lock->none, memory_order_seq_cst);
    barrier_or_patience();
    while (atomic_load_explicit(&owner->busy, memory_order_acquire) != 0) {
        pause_after(&spins);
    }
}

/* The lock is this thread's and the owner is out. Where others come as often as it does, a spin lock serves all of them
 * better. */
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

/* The lock is this thread's, shared. A thread that only looks in ends the turns of another one, and gets none. */
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
    if (lock->off) {
        return true;
    }
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != &lock->none ||
        atomic_flag_test_and_set_explicit(&lock->held, memory_order_acquire)) {
        return false;
    }
    /* A thread may have become the owner in between. */
    if (lock->fresh || atomic_load_explicit(&lock->owner, memory_order_relaxed) != &lock->none) {
        atomic_flag_clear_explicit(&lock->held, memory_order_release);
        return false;
    }
    if (lock->last == stream_lock_self()) {
        judge_sharing(lock, true);
    }
    lock->by_hand = true;
    return true;
}

void weir__stream_lock_slow(struct stream_lock *lock, const uint64_t *progress, bool stays)
{
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
    lock->by_hand = true;
}
