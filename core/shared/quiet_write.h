/* core/shared/quiet_write.h: writes of a library, which raise no signal in the program.
 *
 * A write beyond the file size limit raises SIGXFSZ, and a write to a pipe without a reader SIGPIPE; both end a program
 * that has not provided for them. The signals are blocked in the calling thread around the write, and the one that it
 * has raised is taken back. The program's signal handling does not change.
 */
#ifndef WEIR_SHARED_QUIET_WRITE_H
#define WEIR_SHARED_QUIET_WRITE_H

#include "assert.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* The signals that a failing write raises, blocked in the calling thread. The kernel sends them to the writing
 * thread. */
struct held_signals {
    sigset_t before; /* the thread's mask */
    sigset_t ours;   /* signals that were not pending before the write: if one of them is pending afterwards, the
                        write raised it */
};

static inline struct held_signals hold_signals(void)
{
    static const int numbers[] = {SIGXFSZ, SIGPIPE};
    struct held_signals held;
    sigset_t pending;
    (void)sigemptyset(&held.ours);
    (void)sigemptyset(&pending);
    (void)sigpending(&pending);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        if (sigismember(&pending, numbers[i]) == 0) {
            (void)sigaddset(&held.ours, numbers[i]);
        }
    }
    (void)pthread_sigmask(SIG_BLOCK, &held.ours, &held.before);
    return held;
}

/* Removes the signal that the write raised (0: none) from the thread, then restores the program's signal mask. */
static inline void release_signals(const struct held_signals *held, int raised)
{
    WEIR_ASSERT(raised == 0 || raised == SIGXFSZ || raised == SIGPIPE);
    const struct timespec at_once = {0};
    const int why = errno;
    sigset_t one;
    (void)sigemptyset(&one);
    if (raised != 0 && sigismember(&held->ours, raised) == 1) {
        (void)sigaddset(&one, raised);
        while (sigtimedwait(&one, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &held->before, NULL);
    errno = why;
}

/* As write, but the program sees no SIGXFSZ and no SIGPIPE of it. */
static inline ssize_t write_quietly(int fd, const char *text, size_t length)
{
    const struct held_signals held = hold_signals();
    const ssize_t count = write(fd, text, length);
    const int why = count < 0 ? errno : 0;
    release_signals(&held, why == EFBIG ? SIGXFSZ : why == EPIPE ? SIGPIPE : 0);
    return count;
}

#endif
