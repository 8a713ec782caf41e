/* before.h: the memory that lived before a recording and that its file does not name.
 *
 * Profilers write the bytes that the recorded allocator had allocated at each of its events. The difference between
 * this total and the bytes of the blocks that the recording has allocated so far and not freed is memory from before
 * the recording. Such memory is only freed, so its bytes never grow: each drop of the difference is memory that was
 * freed then. A drop of less than 2 KiB counts only together with later ones, because some files round totals to three
 * decimals of a MiB.
 */
#ifndef WEIR_BENCHMARKS_BEFORE_H
#define WEIR_BENCHMARKS_BEFORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BEFORE_NO_TOTAL UINT64_MAX /* a change without a total */
#define BEFORE_NEVER UINT64_MAX    /* the time of a free that is not in the recording */
#define BEFORE_TAG "(live before the recording)"

struct before_sample {
    uint64_t time;
    uint64_t order;
    int64_t change; /* bytes that the event allocates, negative for a free */
    uint64_t total; /* allocated bytes after the event */
};

/* Zeros: no samples. */
struct before {
    struct before_sample *samples;
    size_t count;
    size_t capacity;
};

/* Adds an event, in any order of time; events of one time are in the order of the calls. Returns false when out of
 * host memory. */
bool before_add(struct before *before, uint64_t time, int64_t change, uint64_t total);

/* Calls `add` for each part of the memory from before the recording that was freed in it, with the time of its free,
 * and at the end for the part that stayed, with BEFORE_NEVER; never for 0 bytes. Returns false as soon as `add`
 * does. */
bool before_find(struct before *before, bool (*add)(void *ctx, uint64_t bytes, uint64_t freed), void *ctx);

void before_free(struct before *before);

#endif
