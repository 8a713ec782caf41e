/* tests/host/unit/sandbox.h: child processes in which system calls are forbidden, as by the seccomp profiles of
 * containers.
 *
 * A child checks with CHECK. It returns 0, or the number of the line that failed.
 */
#ifndef TESTS_UNIT_SANDBOX_H
#define TESTS_UNIT_SANDBOX_H

#include "rig/emulated.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                      \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Makes the system calls fail with EPERM from now on. Returns false if this kernel has no filters. */
static inline bool deny(const unsigned *calls, unsigned count)
{
    struct sock_filter filter[64];
    unsigned short length = 0;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++) {
        filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = length, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Forbids the calls that the default profiles of Docker and containerd forbid without CAP_SYS_NICE. */
static inline bool deny_numa_calls(void)
{
    static const unsigned calls[] = {SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_move_pages};
    return deny(calls, sizeof(calls) / sizeof(*calls));
}

static inline bool deny_affinity_and_files(void)
{
    static const unsigned calls[] = {SYS_sched_setaffinity, SYS_openat};
    return deny(calls, sizeof(calls) / sizeof(*calls));
}

static inline bool deny_madvise(void)
{
    static const unsigned calls[] = {SYS_madvise};
    return deny(calls, sizeof(calls) / sizeof(*calls));
}

/* Returns the result of `body` in a child, or -1 if the child was killed. */
static inline int in_child(int (*body)(void))
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        _exit(body());
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
