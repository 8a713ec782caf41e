/* tests/rig/process.h: other processes of a test, each a child of fork that carries out commands of the test. */
#ifndef WEIR_RIG_PROCESS_H
#define WEIR_RIG_PROCESS_H

#include "test.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct process {
    pid_t id;
    int to;
    int from;
};

struct command {
    int what;
    uint64_t bytes;
};

struct answer {
    int status;
    uint64_t value;
    uint64_t other;
};

/* Starts a process whose answer to each command is that of `serve`. It ends when the test closes its pipe. */
static inline struct process process_start(struct answer (*serve)(struct command command))
{
    int to[2];
    int from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    const pid_t id = fork();
    assert_true(id >= 0);
    if (id == 0) {
        struct command command;
        (void)close(to[1]);
        (void)close(from[0]);
        while (read(to[0], &command, sizeof(command)) == (ssize_t)sizeof(command)) {
            const struct answer answer = serve(command);
            if (write(from[1], &answer, sizeof(answer)) != (ssize_t)sizeof(answer)) {
                _exit(2);
            }
        }
        _exit(0);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    return (struct process){.id = id, .to = to[1], .from = from[0]};
}

/* Gives a command and does not wait for the answer. */
static inline void process_order(const struct process *process, int what, uint64_t bytes)
{
    const struct command command = {.what = what, .bytes = bytes};
    assert_int_equal(write(process->to, &command, sizeof(command)), sizeof(command));
}

static inline struct answer process_ask(const struct process *process, int what, uint64_t bytes)
{
    struct answer answer = {.status = -1};
    process_order(process, what, bytes);
    assert_int_equal(read(process->from, &answer, sizeof(answer)), sizeof(answer));
    return answer;
}

static inline void process_close(struct process *process)
{
    (void)close(process->to);
    (void)close(process->from);
    assert_int_equal(waitpid(process->id, NULL, 0), process->id);
}

static inline void process_kill(struct process *process)
{
    assert_int_equal(kill(process->id, SIGKILL), 0);
    process_close(process);
}

static inline void process_wait_us(long us)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

#endif
