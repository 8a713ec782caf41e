/* install_paths.c: see install_paths.h. The build defines the paths relative to the executable's folder: WEIR_TO_TRACES
 * and WEIR_TO_LIBRARIES, such as ../share/weir/traces. */
#include "install_paths.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *place_join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL) {
        (void)snprintf(path, size, "%s/%s", folder, name);
    }
    return path;
}

/* Removes the last name of an absolute path; "/" stays. */
static void step_up(char *path)
{
    char *slash = strrchr(path, '/');
    slash[slash == path ? 1 : 0] = '\0';
}

/* Returns the absolute path of `way`, a path relative to the executable's folder. The kernel reports the executable's
 * path without symbolic links, so ".." can be resolved in the text. */
static char *from_executable(const char *way)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0 || (size_t)length == sizeof(path) - 1 || path[0] != '/') {
        return NULL;
    }
    path[length] = '\0';
    for (step_up(path); strncmp(way, "../", 3) == 0; way += 3) {
        step_up(path);
    }
    return place_join(strcmp(path, "/") == 0 ? "" : path, way);
}

char *place_folder(enum place place)
{
    return from_executable(place == PLACE_TRACES ? WEIR_TO_TRACES : WEIR_TO_LIBRARIES);
}

char *place_file(enum place place, const char *name)
{
    char *folder = place_folder(place);
    char *path = folder == NULL ? NULL : place_join(folder, name);
    if (path != NULL && access(path, R_OK) != 0) {
        free(path);
        path = NULL;
    }
    free(folder);
    return path;
}
