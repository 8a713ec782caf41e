/* program.c: see program.h. */
#include "program.h"

#include "complain.h"
#include "install_paths.h"
#include "record/run.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int program_find(const char *command, const char *name, bool interposed, char *path, size_t size)
{
    if (!run_find(name, path, size)) {
        return program_cannot_run(command, name, ENOENT);
    }
    const char *why = interposed ? run_why_not(path) : NULL;
    if (why != NULL) {
        (void)complain(command, false, "%s %s", path, why);
        return EXIT_CANNOT_RUN;
    }
    return EXIT_DONE;
}

int program_cannot_run(const char *command, const char *name, int why)
{
    (void)complain(command, false, "%s: cannot be run: %s", name, strerror(why));
    return why == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

char *program_library(const char *command, const char *name)
{
    char *path = place_file(PLACE_LIBRARIES, name);
    if (path == NULL) {
        char *folder = place_folder(PLACE_LIBRARIES);
        (void)complain(command, false, "%s is not in %s", name, folder != NULL ? folder : "weir's folder");
        free(folder);
    }
    return path;
}

bool program_absolute(const char *path, char *absolute, size_t size)
{
    char folder[PATH_MAX] = "";
    if (path[0] != '/' && getcwd(folder, sizeof(folder)) == NULL) {
        return false;
    }
    const int length = snprintf(absolute, size, "%s%s%s", folder, path[0] != '/' ? "/" : "", path);
    errno = ENAMETOOLONG;
    return length > 0 && (size_t)length < size;
}

int program_end_like(int status)
{
    if (WIFSIGNALED(status)) {
        const struct rlimit none = {0, 0};
        struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)fflush(NULL);
        (void)setrlimit(RLIMIT_CORE, &none); /* the program has written its core file */
        (void)sigaction(WTERMSIG(status), &usual, NULL);
        (void)raise(WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_USAGE;
}
