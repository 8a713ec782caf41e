/* bundled.c: see bundled.h. */
#include "bundled.h"

#include "complain.h"
#include "install_paths.h"
#include "trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const suffixes[] = {".wtr.xz", ".wtr.gz", ".wtr"};
enum { suffix_count = sizeof(suffixes) / sizeof(suffixes[0]) };

size_t bundled_stem(const char *name)
{
    size_t length = strlen(name);
    for (unsigned i = 0; i < suffix_count; i++) {
        size_t suffix = strlen(suffixes[i]);
        if (length > suffix && strcmp(name + length - suffix, suffixes[i]) == 0) {
            return length - suffix;
        }
    }
    return 0;
}

/* Returns the path of a recording, from malloc; NULL if there is none. */
static char *find_bundled(const char *name)
{
    char file[NAME_MAX + 1];
    char *path = bundled_stem(name) > 0 ? place_file(PLACE_TRACES, name) : NULL;
    for (unsigned i = 0; i < suffix_count && path == NULL; i++) {
        int length = snprintf(file, sizeof(file), "%s%s", name, suffixes[i]);
        path = length < (int)sizeof(file) ? place_file(PLACE_TRACES, file) : NULL;
    }
    return path;
}

/* Tells why a recording was not found: the line names the folder of the recordings. */
static void describe_folder(const char *before, char *error, size_t error_size)
{
    char *folder = place_folder(PLACE_TRACES);
    if (folder == NULL) {
        (void)snprintf(error, error_size, "%sthe recordings that came with weir cannot be found without /proc", before);
    } else if (access(folder, R_OK | X_OK) != 0) {
        (void)snprintf(error, error_size, "%sno recordings came with this weir: %s: %s", before, folder,
                       strerror(errno));
    } else {
        (void)snprintf(error, error_size, "%sno recording of that name is in %s (weir info --list)", before, folder);
    }
    free(folder);
}

static void describe_name(const char *name, char *error, size_t error_size)
{
    char before[NAME_MAX + 64];
    (void)snprintf(before, sizeof(before), "%s: there is no such file, and ", name);
    describe_folder(before, error, error_size);
}

static bool read_trace(const char *path, struct trace **trace, char *error, size_t error_size)
{
    struct trace_error why = {0};
    const bool done = trace_read(path, NULL, trace, &why) == WEIR_OK;
    if (!done) {
        (void)snprintf(error, error_size, "%s", why.message);
    }
    return done;
}

/* True if the name may be that of an installed recording: it has no slash, and there is no file of that name. */
static bool is_of_recording(const char *name)
{
    const bool bare =
        strcmp(name, "-") != 0 && strchr(name, '/') == NULL && name[0] != '\0' && strlen(name) <= NAME_MAX;
    return bare && access(name, F_OK) != 0 && errno == ENOENT;
}

bool load_trace(const char *name, struct trace **trace, char *error, size_t error_size)
{
    if (!is_of_recording(name)) {
        return read_trace(name, trace, error, error_size);
    }
    char *path = find_bundled(name);
    const bool done = path != NULL && read_trace(path, trace, error, error_size);
    if (path == NULL) {
        describe_name(name, error, error_size);
    }
    free(path);
    return done;
}

int open_trace(const char *subcommand, const char *name, struct trace **trace)
{
    char error[bundled_error_size];
    return load_trace(name, trace, error, sizeof(error)) ? EXIT_DONE : complain(subcommand, false, "%s", error);
}

int find_traces(const char *subcommand, char **names, size_t count)
{
    char error[bundled_error_size];
    int status = EXIT_DONE;
    size_t inputs = 0;
    for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
        const bool recording = is_of_recording(names[i]);
        const bool input = strcmp(names[i], "-") == 0;
        char *path = recording ? find_bundled(names[i]) : NULL;
        if (recording && path == NULL) {
            describe_name(names[i], error, sizeof(error));
            status = complain(subcommand, false, "%s", error);
        } else if (input && ++inputs > 1) {
            status = complain(subcommand, false, "-: standard input is named twice and can be read once");
        } else if (!recording && !input && access(names[i], R_OK) != 0) {
            status = complain(subcommand, false, "%s: cannot be opened: %s", names[i], strerror(errno));
        }
        free(path);
    }
    return status;
}

static int is_recording(const struct dirent *entry)
{
    return bundled_stem(entry->d_name) > 0;
}

/* Turns directory entries into paths and frees the entries. Without host memory frees all and returns false. */
static bool take_paths(const char *folder, struct dirent **entries, size_t count, char **paths)
{
    bool enough = paths != NULL;
    for (size_t i = 0; i < count; i++) {
        if (enough) {
            paths[i] = place_join(folder, entries[i]->d_name);
            enough = paths[i] != NULL;
        }
        free(entries[i]);
    }
    for (size_t i = 0; paths != NULL && !enough && i < count; i++) {
        free(paths[i]);
    }
    free(entries);
    return enough;
}

int list_bundled(const char *subcommand, char ***paths, size_t *count)
{
    struct dirent **entries = NULL;
    char *folder = place_folder(PLACE_TRACES);
    int found = folder != NULL ? scandir(folder, &entries, is_recording, alphasort) : -1;
    if (found < 0) {
        char error[bundled_error_size];
        free(folder);
        describe_folder("", error, sizeof(error));
        return complain(subcommand, false, "%s", error);
    }
    char **list = calloc((size_t)found + 1, sizeof(*list));
    bool enough = take_paths(folder, entries, (size_t)found, list);
    free(folder);
    if (!enough) {
        free(list);
        return complain(subcommand, false, "no host memory");
    }
    *paths = list;
    *count = (size_t)found;
    return EXIT_DONE;
}
