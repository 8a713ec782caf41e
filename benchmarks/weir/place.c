/* place.c: see place.h. The build gives the ways from the folder of the executable: WEIR_TO_TRACES and
 * WEIR_TO_LIBRARIES, such as ../share/weir/traces. */
#include "place.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Takes the last name off an absolute path; "/" stays. */
static void step_up(char *path)
{
    char *slash = strrchr(path, '/');
    slash[slash == path ? 1 : 0] = '\0';
}

/* The kernel gives the executable's path without links, so ".." is a matter of text alone. */
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
    char *folder = malloc(strlen(path) + strlen(way) + 2);
    if (folder != NULL) {
        char *end = stpcpy(folder, strcmp(path, "/") == 0 ? "" : path);
        *end = '/';
        (void)strcpy(end + 1, way);
    }
    return folder;
}

char *place_folder(enum place place)
{
    return from_executable(place == PLACE_TRACES ? WEIR_TO_TRACES : WEIR_TO_LIBRARIES);
}

char *place_file(enum place place, const char *name)
{
    char *folder = place_folder(place);
    char *path = folder == NULL ? NULL : malloc(strlen(folder) + strlen(name) + 2);
    if (path != NULL) {
        char *end = stpcpy(path, folder);
        *end = '/';
        (void)strcpy(end + 1, name);
        if (access(path, R_OK) != 0) {
            free(path);
            path = NULL;
        }
    }
    free(folder);
    return path;
}
