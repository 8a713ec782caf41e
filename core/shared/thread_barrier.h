/* core/shared/thread_barrier.h: a memory barrier in all running threads of the process (membarrier(2), Linux 4.14).
 *
 * Two threads that each store and then load what the other has stored need a barrier between, so that at least one of
 * them sees the other's store. With this barrier in the thread that comes rarely, the other one needs none. */
#ifndef WEIR_SHARED_THREAD_BARRIER_H
#define WEIR_SHARED_THREAD_BARRIER_H

#include <stdbool.h>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Registers the process, once ahead of its first barrier. Returns false if the system has no such barrier. */
static inline bool thread_barrier_register(void)
{
#if defined(__linux__) && defined(__NR_membarrier)
    return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
    return false;
#endif
}

/* Passes the barrier. Returns false if the system refuses, which it may do at any time: in a sandbox that the process
 * has entered meanwhile, or for lack of kernel memory. */
static inline bool thread_barrier_pass(void)
{
#if defined(__linux__) && defined(__NR_membarrier)
    return syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
    return false;
#endif
}

#endif
