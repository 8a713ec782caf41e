/* core/src/services/record_file.c: a recorder that writes to a file.
 *
 * Idea: a thread drains the rings into the file every few milliseconds, and a thread that finds its ring full drains
 * before it continues. So no event is lost while the file accepts writes, at any rate of events. A process that is
 * killed loses the events since the last drain.
 *
 * Guarantee: between two writes the file always ends with a whole line, also if the disk is full: a piece that was
 * written in part is cut off again. A child of fork leaves the file alone. A file that cannot grow (RLIMIT_FSIZE) or a
 * pipe without a reader ends the recording and not the program: the program never sees the SIGXFSZ or SIGPIPE of these
 * writes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* secure_getenv */
#endif

#include "record_internal.h"

#include "base/tuning.h"
#include "shared/assert.h"
#include "shared/cancel.h"
#include "shared/descriptor.h"
#include "shared/own_thread.h"
#include "shared/quiet_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { most_numbered_files = 9999 };

struct weir__record_file {
    int fd;
    int failure; /* the errno that ended the writing; used by the drain, under the recorder's lock */
    off_t written;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool begun; /* guarded by `lock`: the recording has begun, so the thread drains */
    bool ending;
    bool halted; /* the thread has ended */
};

/* --- writing --- */

/* Notes the failure. Removes from the file the part of the last text that was written, because it may end in half a
 * line. */
static bool fail(struct weir__record_file *file, int why)
{
    WEIR_ASSERT(why != 0 && file->fd >= 0);
    file->failure = why;
    if (ftruncate(file->fd, file->written) != 0) {
        return false; /* the text cannot be removed: a pipe or terminal has passed it on already */
    }
    return false;
}

static bool write_text(void *ctx, const char *text, size_t length)
{
    struct weir__record_file *const file = ctx;
    size_t done = 0;
    WEIR_ASSERT(file->failure == 0);
    while (done < length) {
        const ssize_t count = write_quietly(file->fd, text + done, length - done);
        if (count > 0) {
            done += (size_t)count;
            WEIR_ASSERT(done <= length);
        } else if (count == 0 || errno != EINTR) {
            return fail(file, count == 0 ? EIO : errno);
        }
    }
    file->written += (off_t)length;
    return true;
}

/* --- the thread --- */

static struct timespec soon(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += record_drain_ms * 1000000L;
    at.tv_sec += at.tv_nsec / 1000000000L;
    at.tv_nsec %= 1000000000L;
    return at;
}

static void *drain_until_the_end(void *ctx)
{
    weir_recorder *const recorder = ctx;
    struct weir__record_file *const file = recorder->file;
    pthread_mutex_lock(&file->lock);
    while (!file->ending) {
        const struct timespec at = soon();
        (void)pthread_cond_timedwait(&file->wake, &file->lock, &at);
        if (file->begun && !file->ending) {
            pthread_mutex_unlock(&file->lock);
            (void)weir_recorder_drain(recorder, NULL); /* the end of the recording reports a failure */
            const bool alone = weir__own_threads_are_alone();
            pthread_mutex_lock(&file->lock);
            file->ending |= alone;
        }
    }
    pthread_mutex_unlock(&file->lock);
    return NULL;
}

static void set(struct weir__record_file *file, bool *flag)
{
    pthread_mutex_lock(&file->lock);
    *flag = true;
    pthread_cond_signal(&file->wake);
    pthread_mutex_unlock(&file->lock);
}

void weir__record_file_halt(struct weir__record_file *file)
{
    if (!file->halted) {
        set(file, &file->ending);
        (void)UNCANCELLED(pthread_join(file->thread, NULL));
        file->halted = true;
    }
}

/* --- beginning and end --- */

static bool file_init(struct weir__record_file *file)
{
    pthread_condattr_t clock;
    if (pthread_mutex_init(&file->lock, NULL) != 0) {
        return false;
    }
    bool made = pthread_condattr_init(&clock) == 0;
    if (made) {
        made = pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) == 0 && pthread_cond_init(&file->wake, &clock) == 0;
        (void)pthread_condattr_destroy(&clock);
    }
    if (!made) {
        (void)pthread_mutex_destroy(&file->lock);
    }
    return made;
}

static void file_fini(struct weir__record_file *file)
{
    (void)pthread_cond_destroy(&file->wake);
    (void)pthread_mutex_destroy(&file->lock);
}

int weir__record_file_close(struct weir__record_file *file)
{
    WEIR_ASSERT(file->fd >= 0);
    int why = file->failure;
    if (UNCANCELLED(close(file->fd)) != 0 && why == 0 && errno != EINTR) {
        why = errno;
    }
    file_fini(file);
    free(file);
    return why;
}

void weir__record_file_leave(const struct weir__record_file *file)
{
    WEIR_ASSERT(file->fd >= 0);
    (void)UNCANCELLED(close(file->fd));
}

static weir_status recorder_with_file(weir_pool *pool, int fd, const char *source, weir_recorder **recorder)
{
    WEIR_ASSERT(fd >= 0);
    struct weir__record_file *const file = calloc(1, sizeof(*file));
    if (file == NULL || !file_init(file)) {
        free(file);
        return WEIR_ERR_NO_MEMORY;
    }
    weir_recorder_config config = WEIR_RECORDER_CONFIG_INIT;
    config.sink = write_text;
    config.sink_ctx = file;
    config.source = source;
    weir_recorder *const self = weir__recorder_new(pool, &config);
    file->fd = fd;
    if (self != NULL) {
        self->file = file;
    }
    if (self == NULL || weir__own_thread_start(&self->file->thread, drain_until_the_end, self) != 0) {
        file_fini(file);
        free(file);
        if (self != NULL) {
            weir__recorder_free(self);
        }
        return WEIR_ERR_NO_MEMORY;
    }
    *recorder = self;
    return WEIR_OK;
}

/* Starts a recorder on `fd`, which belongs to this function even on failure. The old contents of the file are deleted
 * only after the last step that can fail. */
static weir_status start(weir_pool *pool, int fd, const char *source, weir_recorder **recorder)
{
    weir_recorder *self = NULL;
    weir_status status = recorder_with_file(pool, fd, source, &self);
    if (status != WEIR_OK) {
        (void)UNCANCELLED(close(fd));
        return status;
    }
    status = pool != NULL ? weir__recorder_begin(self, "weir_recorder_start_file") : WEIR_OK;
    if (status != WEIR_OK) {
        weir__record_file_halt(self->file);
        (void)weir__record_file_close(self->file);
        weir__recorder_free(self);
        return status;
    }
    if (ftruncate(fd, 0) != 0 && errno != EINVAL) { /* EINVAL: not a regular file, so it has no old contents */
        self->file->failure = errno;
    }
    atomic_store_explicit(&self->drains_itself, true, memory_order_relaxed);
    set(self->file, &self->file->begun);
    *recorder = self;
    return WEIR_OK;
}

static int open_file(const char *path, int flags)
{
    WEIR_ASSERT(path != NULL);
    int fd = -1;
    do {
        fd = UNCANCELLED(above_standard(open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666)));
    } while (fd < 0 && errno == EINTR);
    return fd;
}

weir_status weir_recorder_create_file(const char *path, const char *source, weir_recorder **recorder)
{
    if (path == NULL || recorder == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_recorder_create_file: %s is NULL",
                           path == NULL ? "path" : "recorder");
    }
    const int fd = open_file(path, 0);
    return fd >= 0 ? start(NULL, fd, source, recorder) : WEIR_ERR_DEVICE;
}

weir_status weir_recorder_start_file(weir_pool *pool, const char *path, const char *source, weir_recorder **recorder)
{
    if (pool == NULL || path == NULL || recorder == NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_recorder_start_file: %s is NULL",
                           pool == NULL   ? "pool"
                           : path == NULL ? "path"
                                          : "recorder");
    }
    const int fd = open_file(path, 0);
    return fd >= 0 ? start(pool, fd, source, recorder) : WEIR_ERR_DEVICE;
}

/* --- recorders that the environment asks for --- */

/* Creates the first of these files that does not exist yet: FILE, FILE.2, FILE.3, ... */
static int open_numbered(const char *path)
{
    char name[PATH_MAX];
    for (int number = 1; number <= most_numbered_files; number++) {
        const int length = number == 1 ? snprintf(name, sizeof(name), "%s", path)
                                       : snprintf(name, sizeof(name), "%s.%d", path, number);
        if (length < 0 || (size_t)length >= sizeof(name)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int fd = open_file(name, O_EXCL);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

/* The recorders that the environment asked for. A heap that is never destroyed ends with the process, or earlier if the
 * library is unloaded. When that happens, the draining threads end and the rings are written; a thread that fills its
 * ring later drains it itself. The list belongs to the process, as the environment variable does. */
static pthread_mutex_t asked_lock = PTHREAD_MUTEX_INITIALIZER;
static weir_recorder *asked;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void lock_asked(void)
{
    pthread_mutex_lock(&asked_lock);
}

static void unlock_asked(void)
{
    pthread_mutex_unlock(&asked_lock);
}

/* Locks the list during fork: a child may destroy its heaps and exit like any process, so its list must be
 * consistent. */
static void watch_forks(void)
{
    (void)pthread_atfork(lock_asked, unlock_asked, unlock_asked);
}

__attribute__((destructor)) static void end_with_library(void)
{
    pthread_mutex_lock(&asked_lock);
    for (weir_recorder *recorder = asked; recorder != NULL; recorder = recorder->next_asked) {
        if (!weir__rings_in_child(&recorder->rings)) {
            weir__record_file_halt(recorder->file);
            (void)weir_recorder_drain(recorder, NULL);
        }
    }
    pthread_mutex_unlock(&asked_lock);
}

void weir__record_file_forget(const weir_recorder *recorder)
{
    pthread_mutex_lock(&asked_lock);
    weir_recorder **link = &asked;
    while (*link != NULL && *link != recorder) {
        link = &(*link)->next_asked;
    }
    if (*link != NULL) {
        *link = recorder->next_asked;
    }
    pthread_mutex_unlock(&asked_lock);
}

weir_recorder *weir__recorder_from_environment(const char *source)
{
    const char *const path = secure_getenv("WEIR_RECORD"); /* ignored in a set-user-ID program */
    weir_recorder *recorder = NULL;
    if (path == NULL || path[0] == '\0') {
        return NULL;
    }
    (void)pthread_once(&watched, watch_forks);
    const int fd = open_numbered(path);
    if (fd < 0 || start(NULL, fd, source, &recorder) != WEIR_OK) {
        return NULL;
    }
    pthread_mutex_lock(&asked_lock);
    recorder->next_asked = asked;
    asked = recorder;
    pthread_mutex_unlock(&asked_lock);
    return recorder;
}
