/* runtime.c: the runtime's state, its locks, the count of calls. */
#include "base/runtime.h"

#include <sched.h>

acl__runtime acl__rt = {
    .changed = PTHREAD_COND_INITIALIZER,
    .engine = {.wake = PTHREAD_COND_INITIALIZER, .last = &acl__rt.engine.first},
};

pthread_mutex_t acl__executors_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t acl__registry_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint64_t calls[ACL_FN_COUNT];
static _Atomic uint64_t all_calls;

static const char *const names[] = {
#define ACL_FUNCTION_NAME(name, priority) #name,
    ACL_FUNCTION_LIST(ACL_FUNCTION_NAME)
#undef ACL_FUNCTION_NAME
};

const char *acl__function_name(acl__function function)
{
    WEIR_ASSERT(function < ACL_FN_COUNT);
    return names[function];
}

void acl__count_call(acl__function function, uint64_t *nth, uint64_t *overall)
{
    WEIR_ASSERT(function < ACL_FN_COUNT);
    *nth = atomic_fetch_add_explicit(&calls[function], 1, memory_order_relaxed) + 1;
    *overall = atomic_fetch_add_explicit(&all_calls, 1, memory_order_relaxed) + 1;
}

uint64_t acl__calls(acl__function function)
{
    WEIR_ASSERT(function <= ACL_FN_COUNT);
    return atomic_load_explicit(function == ACL_FN_COUNT ? &all_calls : &calls[function], memory_order_relaxed);
}

/* --- the locks, and fork --- */

/* Threads that want the lock within a second. The others let them pass: a thread that calls all the time could take the
 * lock again and again before a waiting thread has woken. */
static atomic_uint hurried;

void acl__lock(void)
{
    while (atomic_load_explicit(&hurried, memory_order_relaxed) > 0) {
        (void)sched_yield();
    }
    (void)pthread_mutex_lock(&lock);
}

bool acl__lock_within_a_second(void)
{
    struct timespec deadline;
    (void)clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 1;
    atomic_fetch_add_explicit(&hurried, 1, memory_order_relaxed);
    const bool locked = pthread_mutex_timedlock(&lock, &deadline) == 0;
    atomic_fetch_sub_explicit(&hurried, 1, memory_order_relaxed);
    return locked;
}

pthread_mutex_t *acl__mutex(void)
{
    return &lock;
}

/* A fork waits for the runtime's locks, so the child gets the runtime in a state between two calls. The child has none
 * of the parent's other threads. The runtime's own thread starts again in the child on demand. The child prints a
 * report at its end only if it has called the runtime. If other processes share the devices, the child has no part of
 * its own in them, and its calls fail. */
static bool fork_locks;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&acl__executors_lock);
    fork_locks = acl__lock_within_a_second(); /* a crashed thread may hold the lock for ever */
    (void)pthread_mutex_lock(&acl__registry_lock);
}

static void after_fork(void)
{
    WEIR_ASSERT_HELD(&acl__executors_lock);
    WEIR_ASSERT_HELD(&acl__registry_lock);
    (void)pthread_mutex_unlock(&acl__registry_lock);
    if (fork_locks) {
        (void)pthread_mutex_unlock(&lock);
    }
    (void)pthread_mutex_unlock(&acl__executors_lock);
}

/* Forgets the threads that are not in the child: those that waited for a change, and the runtime's own. */
static void in_child(void)
{
    static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    atomic_store_explicit(&hurried, 0, memory_order_relaxed);
    acl__rt.changed = fresh;
    acl__rt.waiters = 0;
    acl__rt.engine.running = false;
    acl__rt.engine.busy = false;
    acl__rt.engine.wake = fresh;
    acl__rt.calls_before_fork = acl__calls(ACL_FN_COUNT);
    acl__rt.is_cut_off = acl__rt.config.shared != NULL;
    after_fork();
}

void acl__prepare_for_fork(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child); /* if out of memory, a child of fork must not use ACL */
}
