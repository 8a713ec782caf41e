/* tests/pool/unit/own_thread_test.c: threads of weir in a foreign process: they handle none of its signals and do not
 * keep it alive. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_yield, pipe2 */
#endif

#include "rig/emulated.h"
#include "rig/test.h"
#include "shared/own_thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *read_mask(void *into)
{
    return pthread_sigmask(SIG_SETMASK, NULL, into) == 0 ? into : NULL;
}

TEST(a_thread_blocks_all_signals)
{
    if (is_emulated()) {
        skip(); /* the emulator keeps signals for itself */
    }
    sigset_t before;
    sigset_t after;
    sigset_t blocked;
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    assert_int_equal(weir__own_thread_start(&thread, read_mask, &blocked), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &blocked);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int number = 1; number <= SIGRTMAX; number++) {
        const bool can_block = number != SIGKILL && number != SIGSTOP && (number < 32 || number >= SIGRTMIN);
        assert_true(!can_block || sigismember(&blocked, number) == 1);
        assert_int_equal(sigismember(&after, number), sigismember(&before, number));
    }
}

static void *is_alone(void *into)
{
    *(bool *)into = weir__own_threads_are_alone();
    return into;
}

TEST(a_thread_beside_the_main_thread_is_not_alone)
{
    bool alone = true;
    pthread_t thread;
    assert_int_equal(weir__own_thread_start(&thread, is_alone, &alone), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(alone);
}

static atomic_int looks;
static atomic_bool program_is_done;
static pthread_t program_thread;

static void look_again(void)
{
    (void)atomic_fetch_add(&looks, 1);
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Looks until it is alone. Ends the process with 3 if that is so while the program's thread works, and with 4 if it is
 * not so long after this thread has ended. */
static void *look_until_alone(void *first)
{
    while (!atomic_load(&program_is_done)) {
        if (weir__own_threads_are_alone()) {
            _exit(3);
        }
        look_again();
    }
    if (first != NULL) {
        (void)pthread_join(program_thread, NULL);
    }
    for (int i = 0; !weir__own_threads_are_alone(); i++) {
        if (first != NULL && i == 500) {
            _exit(4);
        }
        look_again();
    }
    return NULL;
}

/* Lives until the main thread has ended and the other threads have looked for many times since. */
static void *work_on(void *unused)
{
    char link[8];
    while (readlink("/proc/self/exe", link, sizeof(link)) > 0) {
        (void)sched_yield();
    }
    const int before = atomic_load(&looks);
    while (atomic_load(&looks) < before + 20) {
        (void)sched_yield();
    }
    atomic_store(&program_is_done, true);
    return unused;
}

static void leave_threads(void)
{
    static char first;
    pthread_t thread;
    if (pthread_create(&program_thread, NULL, work_on, NULL) != 0 ||
        weir__own_thread_start(&thread, look_until_alone, &first) != 0 ||
        weir__own_thread_start(&thread, look_until_alone, NULL) != 0) {
        _exit(2);
    }
    pthread_exit(NULL);
}

TEST(a_process_ends_with_the_last_thread_of_the_program)
{
    if (is_emulated()) {
        skip(); /* the emulator has a main thread of its own */
    }
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    print_message("a sanitizer has a thread of its own, or looks for leaks in a process without a main thread\n");
    skip();
#endif
    (void)fflush(NULL);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        leave_threads();
    }
    int status = -1;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
