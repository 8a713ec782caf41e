/* core/src/base/own_thread.c: threads of the library in a foreign process (shared/own_thread.h).
 *
 * Threads of weir have the name NAME, by which a second copy of weir in the same process (inside a plug-in, for
 * example) recognises them too.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif

#include "shared/own_thread.h"

#include "shared/assert.h"
#include "shared/cancel.h"
#include "shared/descriptor.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define NAME "weir-own"

/* Keeps the library that contains this code (libweir, or a plug-in with weir inside) loaded until the process ends.
 * The end of the library could not wait for the thread instead: the thread may wait for a lock that a thread of the
 * program holds. */
static void keep_library_loaded(void)
{
    static const char in_this_library = 0;
    Dl_info found;
    if (dladdr(&in_this_library, &found) != 0) { /* fails in a statically linked program, which unloads nothing */
        (void)UNCANCELLED(dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
    }
}

struct own_thread {
    void *(*body)(void *);
    void *argument;
};

static void *begin(void *from)
{
    const struct own_thread thread = *(struct own_thread *)from;
    free(from);
    (void)prctl(PR_SET_NAME, NAME);
    return thread.body(thread.argument);
}

int weir__own_thread_start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    WEIR_ASSERT(thread != NULL && body != NULL);
    struct own_thread *own = malloc(sizeof(*own));
    sigset_t all;
    sigset_t before;
    if (own == NULL) {
        return ENOMEM;
    }
    *own = (struct own_thread){.body = body, .argument = argument};
    keep_library_loaded();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, begin, own);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        free(own);
    }
    return error;
}

/* True if the main thread has ended while the process goes on. Then the process has no program file any more. */
static bool main_thread_has_ended(void)
{
    char link[8];
    return readlink("/proc/self/exe", link, sizeof(link)) < 0 && errno == ENOENT;
}

/* True if the thread with that number is one of weir, or has ended meanwhile. */
static bool is_own(int tasks, const char *number)
{
    char path[64];
    char name[32];
    (void)snprintf(path, sizeof(path), "%.32s/comm", number);
    const int file = above_standard(openat(tasks, path, O_RDONLY | O_CLOEXEC));
    if (file < 0) {
        return errno == ENOENT;
    }
    const ssize_t length = read(file, name, sizeof(name));
    (void)close(file);
    return length == (ssize_t)strlen(NAME "\n") && memcmp(name, NAME "\n", (size_t)length) == 0;
}

static bool all_other_threads_are_own(void)
{
    const int file = above_standard(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *tasks = file >= 0 ? fdopendir(file) : NULL;
    if (tasks == NULL) {
        if (file >= 0) {
            (void)close(file);
        }
        return false;
    }
    const long main_thread = (long)getpid();
    bool all = true;
    int own = 0;
    for (const struct dirent *entry = readdir(tasks); all && entry != NULL; entry = readdir(tasks)) {
        const long number = strtol(entry->d_name, NULL, 10); /* 0: "." or ".." */
        all = number == 0 || number == main_thread || is_own(file, entry->d_name);
        own += number != 0 && number != main_thread;
    }
    (void)closedir(tasks);
    return all && own > 0;
}

bool weir__own_threads_are_alone(void)
{
    return UNCANCELLED(main_thread_has_ended() && all_other_threads_are_own());
}
