/* machine.c: reads the limits of this process and tries its permissions. None of the calls has a lasting effect. */
#define _GNU_SOURCE
#include "machine.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { CAP_IPC_LOCK_BIT = 14, HUGE_2MIB = 21 << 26 };

const char *machine_trial_name(enum machine_trial trial)
{
    static const char *const names[] = {
#define TRIAL_NAME(name, text, words) text,
        MACHINE_TRIAL_LIST(TRIAL_NAME)
#undef TRIAL_NAME
    };
    return names[trial];
}

const char *machine_trial_text(enum machine_trial trial)
{
    static const char *const texts[] = {
#define TRIAL_TEXT(name, text, words) words,
        MACHINE_TRIAL_LIST(TRIAL_TEXT)
#undef TRIAL_TEXT
    };
    return texts[trial];
}

const char *machine_call_name(enum machine_call call)
{
    static const char *const names[] = {
#define CALL_NAME(name, text) text,
        MACHINE_CALL_LIST(CALL_NAME)
#undef CALL_NAME
    };
    return names[call];
}

/* --- files --- */

static bool read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    const size_t length = file != NULL ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    return length > 0;
}

static uint64_t number_behind(const char *text, const char *name, int base)
{
    const char *line = strstr(text, name);
    return line != NULL ? strtoull(line + strlen(name), NULL, base) : 0;
}

/* --- trials --- */

static int32_t node_of(void *page)
{
    int where = -1;
    return syscall(SYS_move_pages, 0, 1ul, &page, NULL, &where, 0) == 0 && where >= 0 ? where : -1;
}

/* Returns how many bytes of the mapping that contains `memory` lie in transparent huge pages. */
static uint64_t joined_bytes(const void *memory)
{
    char line[512];
    uint64_t bytes = 0;
    bool is_ours = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned long long start = 0;
        unsigned long long end = 0;
        if (sscanf(line, "%llx-%llx ", &start, &end) == 2) {
            is_ours = start <= (uintptr_t)memory && (uintptr_t)memory < end;
        } else if (is_ours && strncmp(line, "AnonHugePages:", 14) == 0) {
            bytes = strtoull(line + 14, NULL, 10) * 1024;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return bytes < TRIAL_BYTES ? bytes : TRIAL_BYTES;
}

static bool said_no(struct trial *trial, const char *call, bool failed)
{
    if (failed) {
        trial->failed = call;
        trial->number = errno;
    }
    return failed;
}

static void try_pages(enum machine_trial kind, struct trial *trial)
{
    /* A mapping of twice TRIAL_BYTES always contains a piece of TRIAL_BYTES that is aligned to TRIAL_BYTES. */
    const size_t size = kind == TRIAL_HUGE ? TRIAL_BYTES : 2 * (size_t)TRIAL_BYTES;
    const int huge = kind == TRIAL_HUGE ? MAP_HUGETLB | HUGE_2MIB : 0;
    trial->node = -1;
    char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | huge, -1, 0);
    if (said_no(trial, "mmap", mapped == MAP_FAILED)) {
        return;
    }
    char *memory = mapped + (TRIAL_BYTES - (uintptr_t)mapped % TRIAL_BYTES) % TRIAL_BYTES;
    if ((kind != TRIAL_TRANSPARENT || !said_no(trial, "madvise", madvise(memory, TRIAL_BYTES, MADV_HUGEPAGE) != 0)) &&
        /* Linux before 5.14 lacks MADV_POPULATE_WRITE (EINVAL); there mlock creates the pages. */
        !said_no(trial, "madvise", madvise(memory, TRIAL_BYTES, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) &&
        !said_no(trial, "mlock", syscall(SYS_mlock, memory, TRIAL_BYTES) != 0)) {
        trial->pinned = true;
        trial->node = node_of(memory);
        trial->huge_bytes = kind == TRIAL_HUGE ? TRIAL_BYTES : kind == TRIAL_TRANSPARENT ? joined_bytes(memory) : 0;
    }
    (void)munmap(mapped, size);
}

static void try_calls(struct machine *machine)
{
    void *page = mmap(NULL, machine->page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long cpus[1024] = {0};
    int where = 0;
    int mode = 0;
    if (page == MAP_FAILED) {
        return;
    }
    *(volatile char *)page = 1;
    const long known = syscall(SYS_sched_getaffinity, 0, sizeof(cpus), cpus);
    machine->calls[CALL_MBIND] =
        syscall(SYS_mbind, page, machine->page_bytes, MPOL_DEFAULT, NULL, 0ul, 0u) == 0 ? 0 : errno;
    machine->calls[CALL_GET_MEMPOLICY] = syscall(SYS_get_mempolicy, &mode, NULL, 0ul, NULL, 0ul) == 0 ? 0 : errno;
    machine->calls[CALL_MOVE_PAGES] = syscall(SYS_move_pages, 0, 1ul, &page, NULL, &where, 0) == 0 ? 0 : errno;
    machine->calls[CALL_AFFINITY] =
        known > 0 && syscall(SYS_sched_setaffinity, 0, (size_t)known, cpus) == 0 ? 0 : errno;
    (void)munmap(page, machine->page_bytes);
}

/* --- limits --- */

static uint64_t as_bytes(rlim_t limit)
{
    return limit == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit;
}

static void read_limits(struct machine *machine)
{
    char text[16384];
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    machine->lock_soft_bytes = as_bytes(limit.rlim_cur);
    machine->lock_hard_bytes = as_bytes(limit.rlim_max);
    if (read_text("/proc/self/status", text, sizeof(text))) {
        machine->locked_bytes = number_behind(text, "\nVmLck:", 10) * 1024;
        machine->can_lock_all = (number_behind(text, "\nCapEff:", 16) >> CAP_IPC_LOCK_BIT & 1) != 0;
        machine->has_filter = number_behind(text, "\nSeccomp:", 10) != 0;
    }
    /* "always [madvise] never" */
    if (read_text("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text))) {
        const char *open = strchr(text, '[');
        const char *close = open != NULL ? strchr(open, ']') : NULL;
        if (close != NULL) {
            (void)snprintf(machine->transparent, sizeof(machine->transparent), "%.*s", (int)(close - open - 1),
                           open + 1);
        }
    }
}

/* Returns the least memory limit of this process's cgroup and its ancestors, in hierarchy version 2 or 1. */
static uint64_t group_limit(void)
{
    char text[4096];
    char path[4096 + 64];
    uint64_t least = UINT64_MAX;
    const char *line = read_text("/proc/self/cgroup", text, sizeof(text)) ? strstr(text, "0::/") : NULL;
    char *group = line != NULL ? text + (line - text) + 3 : NULL;
    if (group != NULL) {
        group[strcspn(group, "\n")] = '\0';
    }
    while (group != NULL) {
        char number[64];
        (void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
        if (read_text(path, number, sizeof(number)) && number[0] != 'm') { /* "max" */
            const uint64_t limit = strtoull(number, NULL, 10);
            least = limit < least ? limit : least;
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            break;
        }
        *slash = '\0';
    }
    if (read_text("/sys/fs/cgroup/memory/memory.limit_in_bytes", text, sizeof(text))) {
        const uint64_t limit = strtoull(text, NULL, 10);
        least = limit < least && limit < UINT64_C(1) << 62 ? limit : least;
    }
    return least;
}

static void find_container(struct machine *machine)
{
    char text[4096];
    const char *name = getenv("container"); /* set by systemd-nspawn, podman and lxc */
    if (name == NULL && getenv("KUBERNETES_SERVICE_HOST") != NULL) {
        name = "kubernetes";
    } else if (name == NULL && access("/.dockerenv", F_OK) == 0) {
        name = "docker";
    } else if (name == NULL && access("/run/.containerenv", F_OK) == 0) {
        name = "podman";
    } else if (name == NULL && read_text("/proc/1/cgroup", text, sizeof(text)) &&
               (strstr(text, "docker") != NULL || strstr(text, "containerd") != NULL)) {
        name = "containerd";
    }
    (void)snprintf(machine->container, sizeof(machine->container), "%s", name != NULL ? name : "");
}

void machine_look(struct machine *machine)
{
    const long page = sysconf(_SC_PAGESIZE);
    *machine = (struct machine){.page_bytes = page > 0 ? (uint64_t)page : 4096, .limit_bytes = group_limit()};
    read_limits(machine);
    find_container(machine);
    try_calls(machine);
    for (int kind = 0; kind < TRIAL_COUNT; kind++) {
        try_pages((enum machine_trial)kind, &machine->trials[kind]);
    }
}
