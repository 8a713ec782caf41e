/* core/shared/poison.h: memory that is full of poison when it is fresh, and takes pages when it is first written.
 *
 * A small file holds the poison, and fresh memory maps it privately, again and again. Cost: one mmap for each 2 MiB.
 * The including file defines _GNU_SOURCE for memfd_create.
 */
#ifndef WEIR_SHARED_POISON_H
#define WEIR_SHARED_POISON_H

#include "shared/descriptor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WEIR__POISON = 0xdd, WEIR__POISON_BYTES = 2 << 20 };

static inline bool poison_write(int file)
{
    char *bytes = malloc(WEIR__POISON_BYTES);
    size_t left = bytes != NULL ? WEIR__POISON_BYTES : 0;
    bool good = bytes != NULL;
    if (good) {
        memset(bytes, WEIR__POISON, WEIR__POISON_BYTES);
    }
    while (good && left > 0) {
        const ssize_t written = write(file, bytes, left);
        good = written > 0;
        left -= good ? (size_t)written : 0;
    }
    free(bytes);
    return good;
}

/* Creates the file. Returns its descriptor, or -1. */
static inline int poison_open(const char *name)
{
    int file = above_standard(memfd_create(name, MFD_CLOEXEC));
    if (file >= 0 && !poison_write(file)) {
        (void)close(file);
        file = -1;
    }
    return file;
}

/* Replaces whole pages by fresh memory. False: a part of it may be replaced. */
static inline bool poison_map(int file, char *start, size_t size)
{
    bool good = true;
    for (size_t done = 0; good && done < size; done += WEIR__POISON_BYTES) {
        const size_t step = size - done < WEIR__POISON_BYTES ? size - done : WEIR__POISON_BYTES;
        good = mmap(start + done, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) !=
               MAP_FAILED;
    }
    return good;
}

#endif
