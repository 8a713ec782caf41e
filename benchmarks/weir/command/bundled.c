/* bundled.c: see bundled.h. */
#include "bundled.h"

#include "command.h"
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

/* Prints why a recording was not found: the message names the folder of the recordings. Returns EXIT_USAGE. */
static int complain_of_folder(const char *subcommand, const char *before)
{
    char *folder = place_folder(PLACE_TRACES);
    if (folder == NULL) {
        (void)complain(subcommand, false, "%sthe recordings that came with weir cannot be found without /proc", before);
    } else if (access(folder, R_OK | X_OK) != 0) {
        (void)complain(subcommand, false, "%sno recordings came with this weir: %s: %s", before, folder,
                       strerror(errno));
    } else {
        (void)complain(subcommand, false, "%sno recording of that name is in %s (weir info --list)", before, folder);
    }
    free(folder);
    return EXIT_USAGE;
}

static int complain_of_name(const char *subcommand, const char *name)
{
    char before[NAME_MAX + 64];
    (void)snprintf(before, sizeof(before), "%s: there is no such file, and ", name);
    return complain_of_folder(subcommand, before);
}

static int read_trace(const char *subcommand, const char *path, struct trace **trace)
{
    struct trace_error error = {0};
    if (trace_read(path, NULL, trace, &error) != WEIR_OK) {
        return complain(subcommand, false, "%s", error.message);
    }
    return EXIT_DONE;
}

/* True for a name that may be that of an installed recording: no such file, and no slash. */
static bool is_of_recording(const char *name)
{
    const bool bare =
        strcmp(name, "-") != 0 && strchr(name, '/') == NULL && name[0] != '\0' && strlen(name) <= NAME_MAX;
    return bare && access(name, F_OK) != 0 && errno == ENOENT;
}

int open_trace(const char *subcommand, const char *name, struct trace **trace)
{
    if (!is_of_recording(name)) {
        return read_trace(subcommand, name, trace);
    }
    char *path = find_bundled(name);
    int status = path != NULL ? read_trace(subcommand, path, trace) : complain_of_name(subcommand, name);
    free(path);
    return status;
}

int find_traces(const char *subcommand, char **names, size_t count)
{
    int status = EXIT_DONE;
    for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
        const bool recording = is_of_recording(names[i]);
        char *path = recording ? find_bundled(names[i]) : NULL;
        if (recording && path == NULL) {
            status = complain_of_name(subcommand, names[i]);
        } else if (!recording && strcmp(names[i], "-") != 0 && access(names[i], R_OK) != 0) {
            status = complain(subcommand, false, "%s: cannot be opened: %s", names[i], strerror(errno));
        }
        free(path);
    }
    return status;
}

int choose_device(const char *subcommand, uint32_t device, struct trace **trace)
{
    struct trace_error error = {0};
    struct trace *one = NULL;
    if ((*trace)->device == device) {
        return EXIT_DONE;
    }
    if (trace_of_device(*trace, device, &one, &error) != WEIR_OK) {
        return complain(subcommand, false, "%s", error.message);
    }
    trace_free(*trace);
    *trace = one;
    return EXIT_DONE;
}

static int is_recording(const struct dirent *entry)
{
    return bundled_stem(entry->d_name) > 0;
}

/* Turns the entries into paths and frees the entries. Without host memory frees the paths too and returns false. */
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
        free(folder);
        return complain_of_folder(subcommand, "");
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
