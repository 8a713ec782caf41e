/* core/shared/cancel.h: disables cancellation. No function of weir is a cancellation point, like malloc.
 *
 * A thread that pthread_cancel ends inside a call would leave a lock held or a flag set for all other threads. So each
 * place where a call of weir can reach a cancellation point disables cancellation around it: device calls (device.c),
 * calls of the user's functions, waits for another thread, and files. All other code contains no cancellation point.
 *
 * Cost: two calls into the C library, at those places only.
 */
#ifndef WEIR_SHARED_CANCEL_H
#define WEIR_SHARED_CANCEL_H

#include <pthread.h>

/* Disables cancellation of the calling thread. Returns its former state, for cancel_restore. The pairs may nest. */
static inline int cancel_disable(void)
{
    int state = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void cancel_restore(int state)
{
    (void)pthread_setcancelstate(state, &state);
}

/* Makes the call with cancellation disabled. The result is the value of the call. */
#define UNCANCELLED(call)                                                                                              \
    __extension__({                                                                                                    \
        const int cancel_state = cancel_disable();                                                                     \
        const __auto_type result = (call);                                                                             \
        cancel_restore(cancel_state);                                                                                  \
        result;                                                                                                        \
    })

#endif
