/* tests/command/command/record/program.c: a program with known traffic, for record_test.sh.    program MODE [ARGS]
 *
 * The test requests sizes from 4096 bytes up; the C library's own requests are smaller. The program uses no stdio,
 * which allocates a buffer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* reallocarray, memalign */
#endif

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* volatile, so that the compiler keeps unused blocks. */
static void *volatile keep;

static void *held(void *block)
{
    keep = block;
    return keep;
}

static void *before_main;

__attribute__((constructor)) static void at_the_beginning(void)
{
    before_main = held(malloc(4101));
}

__attribute__((destructor)) static void at_the_end(void)
{
    free(before_main);
    free(held(malloc(4102)));
}

/* record_test.sh contains the expected trace. */
static int traffic(void)
{
    void *aligned = NULL;
    void *zeroed = held(calloc(10, 600));
    void *moved = held(malloc(5000));
    void *next = held(malloc(5001));
    moved = held(realloc(moved, 900000));
    free(NULL);
    moved = held(realloc(moved, 800000));
    if (realloc(moved, PTRDIFF_MAX) != NULL || malloc(PTRDIFF_MAX) != NULL) {
        return 1;
    }
    moved = held(realloc(moved, 100)); /* too small to be recorded */
    moved = held(realloc(moved, 7000));
    void *array = held(reallocarray(NULL, 3, 2000));
    if (posix_memalign(&aligned, 64, 8192) != 0) {
        return 1;
    }
    void *page = held(aligned_alloc(4096, 8192));
    void *old = held(memalign(128, 6001));
    void *v = held(valloc(5002));
    free(realloc(next, 0)); /* frees the block in this C library */
    free(v);
    free(old);
    free(page);
    free(aligned);
    free(array);
    free(moved);
    free(zeroed);
    return 0;
}

/* Allocates small blocks between two blocks of a size that no other code requests. */
static int small(void)
{
    free(held(malloc(77777)));
    void *one = held(malloc(1));
    void *nothing = held(malloc(0));
    one = held(realloc(one, 300));
    free(nothing);
    free(one);
    free(held(malloc(77778)));
    return 0;
}

enum { threads = 4 };

static uintptr_t rounds = 50000;

/* Threads exchange blocks: each thread frees the blocks that another thread left in the shared table. */
static void *_Atomic places[64];

static void *work(void *start)
{
    for (uintptr_t i = 0, at = (uintptr_t)start; i < rounds; i++, at = at * 5 + 3) {
        void *block = malloc(4096 + at % 3000);
        if (i % 3 == 0) {
            block = realloc(block, 5000 + at % 9000);
        }
        free(__atomic_exchange_n((void **)&places[at % 64], block, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static int in_threads(void)
{
    pthread_t ids[threads];
    for (uintptr_t i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, work, (void *)i) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < threads; i++) {
        (void)pthread_join(ids[i], NULL);
    }
    for (int i = 0; i < 64; i++) {
        free(places[i]);
    }
    return 0;
}

static int with_child(void)
{
    int status = 0;
    void *block = held(malloc(5000));
    const pid_t child = fork();
    if (child == 0) {
        free(held(malloc(6000)));
        _exit(0);
    }
    (void)waitpid(child, &status, 0);
    free(block);
    return status;
}

static atomic_bool is_cancelled;
static atomic_bool is_done;

/* Records more events than the channel holds, in a thread that is cancelled. The functions of malloc are no
 * cancellation points. */
static void *work_cancelled(void *unused)
{
    while (!atomic_load(&is_cancelled)) {
    }
    for (int i = 0; i < 140000; i++) {
        free(held(malloc(5000)));
    }
    atomic_store(&is_done, true);
    pthread_testcancel();
    return unused;
}

static int cancelled(void)
{
    pthread_t thread;
    void *result = NULL;
    const pid_t reader = getppid();
    if (pthread_create(&thread, NULL, work_cancelled, NULL) != 0 || kill(reader, SIGSTOP) != 0) {
        return 1;
    }
    (void)pthread_cancel(thread);
    atomic_store(&is_cancelled, true);
    (void)usleep(500000);
    (void)kill(reader, SIGCONT);
    (void)pthread_join(thread, &result);
    return atomic_load(&is_done) && result == PTHREAD_CANCELED ? 0 : 1;
}

static void on_term(int number)
{
    (void)number;
    free(held(malloc(9000)));
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";
    if (strcmp(mode, "traffic") == 0) {
        return traffic();
    }
    if (strcmp(mode, "small") == 0) {
        return small();
    }
    if (strcmp(mode, "threads") == 0) {
        rounds = count > 2 ? (uintptr_t)atoi(arguments[2]) : rounds;
        return in_threads();
    }
    if (strcmp(mode, "cancel") == 0) {
        return cancelled();
    }
    if (strcmp(mode, "fork") == 0) {
        return with_child();
    }
    if (strcmp(mode, "exit") == 0 && count > 2) {
        return atoi(arguments[2]);
    }
    if (strcmp(mode, "leave") == 0) {
        (void)held(malloc(5000));
        _exit(3);
    }
    if (strcmp(mode, "crash") == 0) {
        (void)held(malloc(5000));
        volatile char *volatile nowhere = (volatile char *)16;
        *nowhere = 1;
    }
    if (strcmp(mode, "exec") == 0) {
        (void)held(malloc(5000));
        (void)execl(arguments[0], arguments[0], "traffic", (char *)NULL);
    }
    if (strcmp(mode, "signal") == 0) {
        sigset_t term;
        sigset_t before;
        (void)sigemptyset(&term);
        (void)sigaddset(&term, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &term, &before);
        (void)signal(SIGTERM, on_term);
        (void)kill(getppid(), SIGTERM);
        (void)sigsuspend(&before);
        return 0;
    }
    return 1;
}
