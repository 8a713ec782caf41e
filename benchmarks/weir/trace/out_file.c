/* out_file.c: see out_file.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif

#include "trace/out_file.h"

#include "shared/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { most_tries = 100, name_kept = 200 };

/* --- removal by a signal --- */

static _Atomic(const char *) pending;

static void drop_pending(int number)
{
    const char *const path = atomic_exchange(&pending, NULL);
    if (path != NULL) {
        (void)unlink(path);
    }
    (void)raise(number); /* the signal's default action follows when this handler returns */
}

void out_file_drop_at_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
            action.sa_handler = drop_pending;
            action.sa_flags = (int)SA_RESETHAND;
            (void)sigaction(numbers[i], &action, NULL);
        }
    }
}

/* --- targets --- */

static bool is_same_file(const struct stat *facts, int fd)
{
    struct stat other;
    return fstat(fd, &other) == 0 && facts->st_dev == other.st_dev && facts->st_ino == other.st_ino;
}

/* Returns the descriptor of the standard stream that `path` leads to (/dev/stdout, or the same regular file), -1 if it
 * leads to neither. The caller writes to this descriptor: a descriptor of its own would have another position in the
 * file, and a new file in place of the target would lack the lines printed so far. */
static int same_standard_stream(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0) {
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
            if (is_same_file(&facts, fd)) {
                return fd;
            }
        }
    }
    return -1;
}

struct target {
    int straight; /* open descriptor of a target that is written directly; else -1 */
    bool exists;
    struct stat facts;
    char *path; /* from malloc */
};

/* Opens the target for writing to learn whether it may be written. This covers permissions, read-only file systems and
 * links that the kernel does not follow. */
static bool look_at_target(struct target *target, const char *path)
{
    const int standard = same_standard_stream(path);
    const int fd = standard >= 0 ? fcntl(standard, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                                 : above_standard(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY));
    *target = (struct target){.straight = -1, .exists = fd >= 0};
    if (fd < 0 && (standard >= 0 || errno != ENOENT || path[0] == '\0')) {
        return false;
    }
    if (fd >= 0 && fstat(fd, &target->facts) != 0) {
        (void)close(fd);
        return false;
    }
    if (standard >= 0 || (fd >= 0 && !S_ISREG(target->facts.st_mode))) {
        target->straight = fd;
    } else if (fd >= 0) {
        (void)close(fd);
    }
    target->path = target->exists && target->straight < 0 ? realpath(path, NULL) : strdup(path);
    if (target->path == NULL && target->straight >= 0) {
        (void)close(target->straight);
    }
    return target->path != NULL;
}

/* --- temporary files --- */

/* Returns the path NAME.RANDOM.part in the target's folder; NULL with errno on failure. */
static char *name_beside(const char *target)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    const char *const slash = strrchr(target, '/');
    const char *const name = slash != NULL ? slash + 1 : target;
    uint64_t random = 0;
    char word[13] = "";
    char *path = NULL;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        errno = EIO;
        return NULL;
    }
    for (size_t i = 0; i + 1 < sizeof(word); i++, random >>= 5) {
        word[i] = letters[random & 31];
    }
    if (asprintf(&path, "%.*s%.*s.%s.part", (int)(name - target), target, (int)name_kept, name, word) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    return path;
}

/* Creates the temporary file and returns its descriptor, or -1 with errno. *beside is its path, from malloc. */
static int create_beside(const char *target, char **beside)
{
    for (int i = 0; i < most_tries; i++) {
        char *const name = name_beside(target);
        const int fd =
            name != NULL ? above_standard(open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) : -1;
        if (fd >= 0) {
            *beside = name;
            return fd;
        }
        const int why = errno;
        free(name);
        errno = why;
        if (why != EEXIST) {
            break;
        }
    }
    return -1;
}

static void look_like(int fd, const struct stat *facts)
{
    /* the system may refuse fchown; the file then belongs to the program's user */
    (void)!fchown(fd, facts->st_uid, facts->st_gid);
    (void)fchmod(fd, facts->st_mode & 0777);
}

bool out_file_open(struct out_file *file, const char *path)
{
    struct target target;
    char *beside = NULL;
    if (!look_at_target(&target, path)) {
        return false;
    }
    const int fd = target.straight >= 0 ? target.straight : create_beside(target.path, &beside);
    if (fd < 0) {
        const int why = errno;
        free(target.path);
        errno = why;
        return false;
    }
    if (beside != NULL && target.exists) {
        look_like(fd, &target.facts);
    }
    *file = (struct out_file){.fd = fd, .target = target.path, .beside = beside};
    atomic_store(&pending, beside);
    return true;
}

int out_file_take(struct out_file *file)
{
    const int fd = file->fd;
    file->fd = -1;
    return fd;
}

const char *out_file_path(const struct out_file *file)
{
    return file->beside != NULL ? file->beside : file->target;
}

bool out_file_aim(struct out_file *file, const char *path)
{
    struct target target;
    if (file->beside == NULL) {
        errno = EEXIST;
        return strcmp(file->target, path) == 0;
    }
    if (!look_at_target(&target, path)) {
        return false;
    }
    if (target.straight >= 0) {
        (void)close(target.straight);
        free(target.path);
        errno = EEXIST;
        return false;
    }
    free(file->target);
    file->target = target.path;
    return true;
}

static void end(struct out_file *file)
{
    const char *mine = file->beside;
    (void)atomic_compare_exchange_strong(&pending, &mine, NULL);
    free(file->target);
    free(file->beside);
    *file = (struct out_file){.fd = -1};
}

bool out_file_finish(struct out_file *file)
{
    const int fd = out_file_take(file);
    if (fd >= 0 && close(fd) != 0 && errno != EINTR) {
        return false;
    }
    if (file->beside != NULL && rename(file->beside, file->target) != 0) {
        return false;
    }
    end(file);
    return true;
}

void out_file_leave(struct out_file *file)
{
    const int fd = out_file_take(file);
    if (fd >= 0) {
        (void)close(fd);
    }
    end(file);
}

void out_file_drop(struct out_file *file)
{
    if (file->beside != NULL) {
        (void)unlink(file->beside);
    }
    out_file_leave(file);
}
