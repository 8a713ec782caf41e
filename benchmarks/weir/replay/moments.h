/* moments.h: compares the live blocks of two moments, of one recording or of two.
 *
 * A moment is a number of events that have happened. Within a recording a block is the same block at both moments: it
 * came or it went. Two recordings have no block in common, so in each group the bytes that the second moment has more
 * came, and those that it has less went.
 */
#ifndef WEIR_BENCHMARKS_MOMENTS_H
#define WEIR_BENCHMARKS_MOMENTS_H

#include "trace/trace.h"

enum moments_by { MOMENTS_BY_TAG, MOMENTS_BY_STACK, MOMENTS_BY_SIZE };

struct moment {
    const struct trace *trace;
    size_t count; /* events that have happened */
};

struct moments_sum {
    uint64_t bytes;
    uint64_t blocks;
};

struct moments_group {
    const char
        *text;     /* a tag, or a stack: its frames from the outermost, a newline between two; "": blocks of a size */
    uint64_t size; /* of each block, else 0 */
    struct moments_sum at[2];
    struct moments_sum came;
    struct moments_sum went;
};

struct moments {
    struct moments_group *groups; /* the largest changes first; those of stacks in the order of their texts */
    size_t count;
    struct moments_group all;
    char **texts; /* owned: folded stacks */
    size_t text_count;
};

/* Compares. Returns false when out of host memory. The caller frees the result with moments_free in either case. */
bool moments_compare(const struct moment *a, const struct moment *b, enum moments_by by, struct moments *moments);
void moments_free(struct moments *moments);

/* Returns the bytes that came and went together. */
static inline uint64_t moments_turnover(const struct moments_group *group)
{
    return group->came.bytes + group->went.bytes;
}

/* Returns a stack with the frames of the runtime left out, from the outermost frame, from malloc: the Python frames
 * outside of PyTorch; if there are none, the Python frames; if there are none, all. NULL when out of host memory. */
char *moments_fold(const char *stack);

#endif
