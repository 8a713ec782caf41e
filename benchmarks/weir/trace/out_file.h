/* out_file.h: writes an output file completely or not at all.
 *
 * Idea: the bytes go to a temporary file beside the target. It is created with O_EXCL under an unpredictable name, so
 * no existing file is opened, followed or removed. The complete file is renamed to the target.
 *
 * Guarantee: until out_file_finish succeeds, the target is unchanged.
 * A target that is not a regular file (a device, a pipe), or that is this process's standard output or standard error,
 * is written directly and never removed. A symbolic link remains a link, and the file that it points to is replaced.
 * The new file has the mode of the old file and, where the system allows it, its owner; other hard links of the old
 * file keep the old content.
 *
 * This header is internal to the library and not part of trace.h. One thread uses an out_file.
 */
#ifndef WEIR_BENCHMARKS_OUT_FILE_H
#define WEIR_BENCHMARKS_OUT_FILE_H

#include <stdbool.h>

struct out_file {
    int fd;       /* -1: closed, or taken */
    char *target; /* path of the target, links followed */
    char *beside; /* path of the temporary file; NULL: the target is written directly */
};

/* Creates the temporary file, or opens a target that is written directly. The target must be writable if it exists, and
 * its folder in any case. On failure returns false with errno; *file is untouched and no file was created. */
bool out_file_open(struct out_file *file, const char *path);

/* Gives the descriptor to the caller, which closes it before out_file_finish and checks the result of close. */
int out_file_take(struct out_file *file);

/* Returns the path of the file that holds the bytes now. Valid until *file is finished, dropped or left. */
const char *out_file_path(const struct out_file *file);

/* Changes the path that the file gets when it is finished. On failure returns false with errno and keeps the old path;
 * EEXIST: there is no temporary file to rename, because the file at the old or the new path is written directly. */
bool out_file_aim(struct out_file *file, const char *path);

/* Renames the temporary file to its target path and releases *file. On failure returns false with errno; the caller
 * then calls out_file_drop or out_file_leave. */
bool out_file_finish(struct out_file *file);

/* Removes the temporary file, if there is one, and releases *file. The target is unchanged. */
void out_file_drop(struct out_file *file);

/* Releases *file and keeps the written bytes in the file that out_file_path names. */
void out_file_leave(struct out_file *file);

/* Installs handlers for SIGINT, SIGTERM and similar signals if their action is the default. Before such a signal ends
 * the process, the handler removes the temporary file of the out_file that was opened last. */
void out_file_drop_at_signals(void);

#endif
