/* core/shared/own_thread.h: threads that the library starts in the program's process. In libweir, not exported.
 *
 * Guarantee: such a thread blocks all signals, so only threads of the program handle the program's signals. The library
 * that contains its code is never unloaded. The thread itself ends when weir__own_threads_are_alone() is true, so a
 * process whose main thread has called pthread_exit ends with the last thread of the program.
 */
#ifndef WEIR_SHARED_OWN_THREAD_H
#define WEIR_SHARED_OWN_THREAD_H

#include <pthread.h>
#include <stdbool.h>

enum { OWN_THREAD_LOOK_MS = 1000 }; /* the longest time between two calls of weir__own_threads_are_alone() */

/* As pthread_create. Returns 0 or an errno. */
int weir__own_thread_start(pthread_t *thread, void *(*body)(void *), void *argument);
/* True if the program's main thread has ended and all other threads of the process are threads of weir. The calling
 * thread is one of them. Costs one system call while the main thread lives. */
bool weir__own_threads_are_alone(void);

#endif
