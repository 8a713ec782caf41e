/* core/shared/descriptor.h: the files that the libraries open have descriptors above 2.
 *
 * A daemon closes its standard input, output and error, and the next file gets the lowest free number. A library that
 * took such a number would receive the program's printed lines, or lose its file when the program opens new standard
 * streams. Every call that makes a descriptor stands inside above_standard() (`tidy.descriptors`).
 */
#ifndef WEIR_SHARED_DESCRIPTOR_H
#define WEIR_SHARED_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Moves a new descriptor above 2, closed by exec. Returns it, or -1 with errno if `file` is below 0 or cannot be
 * moved. */
static inline int above_standard(int file)
{
    if (file < 0 || file > STDERR_FILENO) {
        return file;
    }
    const int moved = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int why = errno;
    (void)close(file);
    errno = why;
    return moved;
}

/* As fopen, but with the flags of an open call. */
static inline FILE *open_stream_above_standard(const char *path, int flags, const char *mode)
{
    const int file = above_standard(open(path, flags | O_CLOEXEC, 0666));
    FILE *stream = file >= 0 ? fdopen(file, mode) : NULL;
    if (stream == NULL && file >= 0) {
        (void)close(file);
    }
    return stream;
}

#endif
