/* out_file.h: a file that is written whole under its name or not at all.
 *
 * Idea: the bytes go to a new file beside the target, which is made with O_EXCL under a name that cannot be foreseen, so
 * nothing that lies there is opened, followed or removed. When all is written it takes the target's place by rename.
 *
 * Guarantee: until out_file_finish succeeds, the target is as it was. A target that is no regular file (a device, a pipe), or
 * that is this process's standard output or standard error, is written straight and never removed. A symbolic link stays one,
 * and the file that it leads to is replaced. The new file has the mode of the one that it replaces, and, where the system
 * allows it, its owner; other hard links of the old file keep the old content.
 *
 * The library's own: not part of trace.h. One out_file is used by one thread.
 */
#ifndef WEIR_BENCHMARKS_OUT_FILE_H
#define WEIR_BENCHMARKS_OUT_FILE_H

#include <stdbool.h>

struct out_file {
    int fd;       /* -1: closed, or taken */
    char *target; /* path of the target, links followed */
    char *beside; /* path of the file until it is finished; NULL: the target is written straight */
};

/* Makes the file, or opens a target that is written straight. The target must be writable if it exists, and its folder in any
 * case. False, with errno: *file is untouched and nothing was made. */
bool out_file_open(struct out_file *file, const char *path);

/* Hands the descriptor over: the caller closes it before out_file_finish and checks the result of close. */
int out_file_take(struct out_file *file);

/* The path at which the bytes are now. Valid until *file ends. */
const char *out_file_path(const struct out_file *file);

/* Changes the target to `path`. False, with errno: the target stays; EEXIST: the old or the new target is written
 * straight. */
bool out_file_aim(struct out_file *file, const char *path);

/* Puts the file in its place and ends *file. False, with errno: *file is still there, to be dropped or left. */
bool out_file_finish(struct out_file *file);

/* Removes the file beside the target, if there is one, and ends *file. The target stays. */
void out_file_drop(struct out_file *file);

/* Ends *file and leaves the bytes where out_file_path said. */
void out_file_leave(struct out_file *file);

/* From here on SIGINT, SIGTERM and their like, where they end the process, remove the file beside the target first: of the
 * out_file that was opened last. */
void out_file_drop_at_signals(void);

#endif
