/* machine.h: finds out by trying which kinds of host memory this process may pin on this machine. */
#ifndef WEIR_COMMAND_MACHINE_H
#define WEIR_COMMAND_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRIAL_BYTES = 2 << 20 };

/* X(NAME, name, text): kinds of pages, best first. */
#define MACHINE_TRIAL_LIST(X)                                                                                          \
    X(HUGE, "huge", "huge pages of 2 MiB")                                                                             \
    X(TRANSPARENT, "transparent", "transparent huge pages")                                                            \
    X(SMALL, "small", "small pages")

enum machine_trial {
#define MACHINE_TRIAL_ENUM(name, text, words) TRIAL_##name,
    MACHINE_TRIAL_LIST(MACHINE_TRIAL_ENUM)
#undef MACHINE_TRIAL_ENUM
        TRIAL_COUNT
};

/* X(NAME, name): calls that a container may forbid. */
#define MACHINE_CALL_LIST(X)                                                                                           \
    X(MBIND, "mbind")                                                                                                  \
    X(GET_MEMPOLICY, "get_mempolicy")                                                                                  \
    X(MOVE_PAGES, "move_pages")                                                                                        \
    X(AFFINITY, "sched_setaffinity")

enum machine_call {
#define MACHINE_CALL_ENUM(name, text) CALL_##name,
    MACHINE_CALL_LIST(MACHINE_CALL_ENUM)
#undef MACHINE_CALL_ENUM
        CALL_COUNT
};

struct trial {
    bool pinned;
    const char *failed;  /* the system call that failed; NULL: none */
    int number;          /* errno of that call */
    uint64_t huge_bytes; /* bytes of the pinned memory that lie in huge pages */
    int32_t node;        /* NUMA node of the first pinned page; -1: not known */
};

struct machine {
    /* the results of mapping, populating and locking TRIAL_BYTES of each kind of page */
    struct trial trials[TRIAL_COUNT];
    int calls[CALL_COUNT]; /* for each system call, the errno of a trial call; 0: the process may use it */
    uint64_t lock_soft_bytes, lock_hard_bytes; /* RLIMIT_MEMLOCK; UINT64_MAX: no limit */
    uint64_t locked_bytes;
    bool can_lock_all;    /* CAP_IPC_LOCK */
    bool has_filter;      /* seccomp */
    char transparent[32]; /* always, madvise, never; "" if the kernel has no transparent huge pages */
    char container[64];   /* kind of container around this process, as far as known; "": none */
    uint64_t limit_bytes; /* memory limit of the cgroup; UINT64_MAX: no visible limit */
    uint64_t page_bytes;
};

/* Fills in *machine. Pins and releases TRIAL_BYTES of each kind of page. */
void machine_look(struct machine *machine);

const char *machine_trial_name(enum machine_trial trial);
const char *machine_trial_text(enum machine_trial trial);
const char *machine_call_name(enum machine_call call);

#endif
