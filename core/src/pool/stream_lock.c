/* core/src/pool/stream_lock.c: see stream_lock.h for the idea, the guarantee and the cost. */
#include "stream_lock.h"

#include "shared/cancel.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

const char weir__lock_shared[1] = { 0 };
_Thread_local char weir__lock_self __attribute__((tls_model("initial-exec")));

enum {
    spins_before_yield = 64,
    little_progress = 256, /* operations of the owner between two intrusions that make the bias worth keeping */
    intrusions_tolerated = 8,
    alone_for_a_while = 1024, /* locks of the first owner in a row that give it the bias again */
};

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
    atomic_init(&lock->owner, atomic_load(&barrier_works) && !off ? NULL : (const void *)weir__lock_shared);
    atomic_init(&lock->busy, 0);
    atomic_init(&lock->revoked, 0);
    atomic_flag_clear_explicit(&lock->held, memory_order_relaxed);
    lock->off = off;
    lock->home = NULL;
    lock->intrusions = 0;
    lock->alone = 0;
    lock->progress_at_last = 0;
}

static void pause_after(unsigned *spins)
{
    if (++*spins >= spins_before_yield) {
        (void)sched_yield();
        *spins = 0;
    }
}

/* `held` is ours: makes the owner stay out, and waits until it is. */
static void keep_owner_out(struct stream_lock *lock)
{
    unsigned spins = 0;
    atomic_store_explicit(&lock->revoked, 1, memory_order_seq_cst);
    barrier_or_patience();
    while (atomic_load_explicit(&lock->busy, memory_order_acquire) != 0) {
        pause_after(&spins);
    }
}

/* The lock is ours and the owner is out. Where others come as often as it does, a spin lock serves all of them better.
 * `revoked` stays set while the lock is shared: it keeps out an owner that has not noticed. */
static void judge_intrusion(struct stream_lock *lock, uint64_t progress)
{
    const bool little = progress - lock->progress_at_last < little_progress;
    lock->progress_at_last = progress;
    lock->intrusions = little ? lock->intrusions + 1 : 0;
    if (lock->intrusions >= intrusions_tolerated || !atomic_load_explicit(&barrier_works, memory_order_relaxed)) {
        lock->alone = 0;
        atomic_store_explicit(&lock->owner, weir__lock_shared, memory_order_relaxed);
    }
}

/* The lock is ours, shared. */
static void judge_sharing(struct stream_lock *lock)
{
    lock->alone = lock->home == stream_lock_self() ? lock->alone + 1 : 0;
    if (lock->alone >= alone_for_a_while && atomic_load_explicit(&barrier_works, memory_order_relaxed)) {
        lock->intrusions = 0;
        atomic_store_explicit(&lock->owner, lock->home, memory_order_relaxed);
        atomic_store_explicit(&lock->revoked, 0, memory_order_release);
    }
}

bool weir__stream_lock_try_shared(struct stream_lock *lock)
{
    if (lock->off) {
        return true;
    }
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != weir__lock_shared ||
        atomic_flag_test_and_set_explicit(&lock->held, memory_order_acquire)) {
        return false;
    }
    /* The first owner may have got its bias back in between. */
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != weir__lock_shared) {
        atomic_flag_clear_explicit(&lock->held, memory_order_release);
        return false;
    }
    if (lock->home == stream_lock_self()) {
        judge_sharing(lock);
    }
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
    const void *owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
    if (owner == NULL) {
        if (stays) {
            lock->home = stream_lock_self();
            atomic_store_explicit(&lock->owner, lock->home, memory_order_relaxed);
        }
    } else if (owner == weir__lock_shared) {
        judge_sharing(lock);
    } else if (owner != stream_lock_self()) {
        keep_owner_out(lock);
        judge_intrusion(lock, *progress);
    }
}
