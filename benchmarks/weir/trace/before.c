/* before.c: see before.h. */
#include "before.h"

#include "trace_internal.h"

#include <stdlib.h>

/* Totals that are rounded to three decimals of a MiB differ by less than this from the true ones. */
#define ROUNDING 2048
#define MOST ((INT64_C(1) << 62) - 1) /* two such numbers have a sum */

static int64_t clamped(int64_t bytes)
{
    return bytes > MOST ? MOST : bytes < -MOST ? -MOST : bytes;
}

bool before_add(struct before *before, uint64_t time, int64_t change, uint64_t total)
{
    struct before_sample *samples =
        grow_array(before->samples, before->count, &before->capacity, sizeof(*before->samples));
    if (samples == NULL) {
        return false;
    }
    before->samples = samples;
    total = total > (uint64_t)MOST ? BEFORE_NO_TOTAL : total;
    samples[before->count] = (struct before_sample){time, before->count, clamped(change), total};
    before->count++;
    return true;
}

static int by_time(const void *left, const void *right)
{
    const struct before_sample *a = left;
    const struct before_sample *b = right;
    if (a->time != b->time) {
        return a->time < b->time ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Returns the part of the total that the recording does not explain. A file may free blocks that it never allocated, so
 * the explained bytes may be negative. */
static uint64_t unexplained(uint64_t total, int64_t explained)
{
    if (explained < 0) {
        return total + (uint64_t)-explained;
    }
    return total > (uint64_t)explained ? total - (uint64_t)explained : 0;
}

bool before_find(struct before *before, bool (*add)(void *ctx, uint64_t bytes, uint64_t freed), void *ctx)
{
    int64_t explained = 0;
    uint64_t left = BEFORE_NO_TOTAL; /* bytes from before the recording that are still live */
    if (before->count > 1) {
        qsort(before->samples, before->count, sizeof(*before->samples), by_time);
    }
    for (size_t i = 0; i < before->count; i++) {
        const struct before_sample *sample = &before->samples[i];
        explained = clamped(explained + sample->change);
        if (sample->total == BEFORE_NO_TOTAL) {
            continue;
        }
        const uint64_t bytes = unexplained(sample->total, explained);
        if (left != BEFORE_NO_TOTAL && left >= ROUNDING && bytes <= left - ROUNDING) {
            if (!add(ctx, left - bytes, sample->time)) {
                return false;
            }
            left = bytes;
        }
        left = left == BEFORE_NO_TOTAL ? bytes : left;
    }
    return left == BEFORE_NO_TOTAL || left == 0 || add(ctx, left, BEFORE_NEVER);
}

void before_free(struct before *before)
{
    free(before->samples);
}
