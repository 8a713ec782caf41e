/* run.c: see run.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2 */
#endif

#include "run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { most_scripts = 4, nap_least_ns = 200000, nap_most_ns = 5000000 };

/* --- the program's file --- */

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

bool run_find(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        return (size_t)snprintf(path, size, "%s", name) < size && access(path, F_OK) == 0;
    }
    for (at = at != NULL ? at : "/bin:/usr/bin"; *at != '\0'; at += strcspn(at, ":"), at += *at == ':') {
        int length = (int)strcspn(at, ":");
        const int written = snprintf(path, size, "%.*s%s%s", length, at, length != 0 ? "/" : "", name);
        if (written > 0 && (size_t)written < size && is_file(path) && access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns why the calls of an ELF file cannot be interposed; NULL if they can. */
static const char *why_not_elf(FILE *file, const Elf64_Ehdr *head)
{
    if (head->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) {
        return "is for another word size than weir";
    }
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr part;
        if (fseek(file, (long)(head->e_phoff + (uint64_t)i * head->e_phentsize), SEEK_SET) != 0 ||
            fread(&part, sizeof(part), 1, file) != 1 || part.p_type == PT_INTERP) {
            return NULL; /* the file is dynamically linked, or unreadable: then execvp reports the error */
        }
    }
    return "is statically linked: nothing can be put between it and its allocator";
}

/* For a script, looks at its interpreter, for at most `scripts` scripts in a row. */
static const char *why_not(const char *path, int scripts)
{
    struct stat facts;
    Elf64_Ehdr head;
    FILE *file = fopen(path, "rb");
    const char *why = NULL;
    if (file == NULL) {
        return NULL;
    }
    memset(&head, 0, sizeof(head));
    const size_t length = fread(&head, 1, sizeof(head), file);
    if (fstat(fileno(file), &facts) == 0 && (((facts.st_mode & S_ISUID) != 0 && facts.st_uid != geteuid()) ||
                                             ((facts.st_mode & S_ISGID) != 0 && facts.st_gid != getegid()))) {
        why = "is setuid or setgid: the loader puts nothing between it and its allocator";
    } else if (length == sizeof(head) && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0) {
        why = why_not_elf(file, &head);
    } else if (length > 2 && memcmp(&head, "#!", 2) == 0 && scripts > 0) {
        char line[PATH_MAX];
        rewind(file);
        if (fgets(line, sizeof(line), file) != NULL) {
            char *interpreter = line + 2 + strspn(line + 2, " \t");
            interpreter[strcspn(interpreter, " \t\r\n")] = '\0';
            why = why_not(interpreter, scripts - 1);
        }
    }
    (void)fclose(file);
    return why;
}

const char *run_why_not(const char *path)
{
    return why_not(path, most_scripts);
}

/* --- running it --- */

static volatile sig_atomic_t program; /* process id of the recorded program, for the signal handler */

static void pass_on(int number)
{
    if (program > 0) {
        (void)kill((pid_t)program, number);
    }
}

enum { from_terminal = 2, signals_met = 6 };
static const int met[signals_met] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* Ignores signals of the terminal, because the program receives them too, and the command waits until the program ends.
 * Forwards other signals to the program. Signals that are already ignored, as under nohup, stay ignored, as in the
 * program. */
static void prepare_signals(struct sigaction before[signals_met])
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    for (unsigned i = 0; i < signals_met; i++) {
        (void)sigaction(met[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) {
            (void)sigaction(met[i], i < from_terminal ? &ignore : &forward, NULL);
        }
    }
}

static void restore_signals(const struct sigaction before[signals_met])
{
    for (unsigned i = 0; i < signals_met; i++) {
        (void)sigaction(met[i], &before[i], NULL);
    }
}

bool run_preload(const char *library)
{
    const char *others = getenv("LD_PRELOAD");
    char *both = NULL;
    if (others == NULL || others[0] == '\0') {
        return setenv("LD_PRELOAD", library, 1) == 0;
    }
    const size_t size = strlen(library) + strlen(others) + 2;
    both = malloc(size);
    if (both == NULL) {
        return false;
    }
    (void)snprintf(both, size, "%s:%s", library, others);
    const bool set = setenv("LD_PRELOAD", both, 1) == 0;
    free(both);
    return set;
}

/* Runs the program, in the child. If exec fails, writes errno to the pipe `report`. */
static void become(char **arguments, const struct sigaction *file_size, const sigset_t *mask, int report)
{
    (void)sigaction(SIGXFSZ, file_size, NULL);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    (void)execvp(arguments[0], arguments);
    const int why = errno;
    (void)!write(report, &why, sizeof(why));
    _exit(why == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

pid_t run_start(char **arguments, const struct sigaction *file_size, struct channel *to)
{
    struct sigaction usual[signals_met];
    sigset_t all;
    sigset_t before;
    int report[2];
    int why = 0;
    if (pipe2(report, O_CLOEXEC) != 0) {
        return -1;
    }
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    prepare_signals(usual);
    const pid_t child = fork();
    if (child == 0) {
        restore_signals(usual);
        if (to != NULL) {
            to->program = (int32_t)getpid();
        }
        become(arguments, file_size, &before, report[1]);
    }
    program = (sig_atomic_t)child;
    const int fork_error = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(report[1]);
    if (child > 0 && read(report[0], &why, sizeof(why)) == (ssize_t)sizeof(why)) {
        (void)waitpid(child, NULL, 0);
    }
    (void)close(report[0]);
    errno = child < 0 ? fork_error : why;
    return child > 0 && why == 0 ? child : -1;
}

int run_collect(struct collector *collector, pid_t child)
{
    struct timespec nap = {.tv_nsec = nap_least_ns};
    int status = 0;
    for (;;) {
        if (collector != NULL && collector_drain(collector, false) != 0) {
            nap.tv_nsec = nap_least_ns;
            continue;
        }
        const pid_t ended = waitpid(child, &status, 0 | (collector != NULL ? WNOHANG : 0));
        if (ended == child || (ended < 0 && errno != EINTR)) {
            break;
        }
        (void)nanosleep(&nap, NULL);
        nap.tv_nsec = nap.tv_nsec * 2 < nap_most_ns ? nap.tv_nsec * 2 : nap_most_ns;
    }
    program = 0;
    while (collector != NULL && collector_drain(collector, true) != 0) {
    }
    return status;
}
