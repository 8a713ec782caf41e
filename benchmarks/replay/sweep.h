/* sweep.h: how little memory each strategy needs: the same trace under a row of limits.
 *
 * A pool of a device may reserve FACTOR times the most that is ever live on that device, as asked for, rounded up to
 * the granularity in which the device gives memory: less than one more piece changes nothing. Factors that come to the same
 * limits are one replay, since a replay under the same limits gives the same result.
 *
 * Every limit is replayed. A strategy that serves a trace under one limit may fail under a higher one: where regions
 * begin and how large they are depends on the room that is left. So nothing is searched by halving, and a result says
 * from which factor a trace is served and from which one always.
 */
#ifndef WEIR_BENCHMARKS_SWEEP_H
#define WEIR_BENCHMARKS_SWEEP_H

#include "replay/replay.h"

enum { sweep_most_points = 101, sweep_unit = 1000 };

/* Factors from, from + step, ... up to `to`, in thousandths. 0 < from <= to, 0 < step, sweep_most_points at most. */
struct sweep_range {
    uint32_t from;
    uint32_t to;
    uint32_t step;
};

struct sweep_point {
    uint32_t factor; /* thousandths */
    uint64_t limit;  /* bytes, of all devices together */
    bool served;     /* the whole trace; otherwise: */
    uint64_t event;  /* where memory ran out, an index in the trace */
    uint64_t size;   /* what was asked for there */
    double played;   /* share of the events before, 0 to 1; blocks from before the window are no events */
    uint64_t hazards;
};

struct sweep_row {
    const struct replay_strategy *strategy;
    uint64_t pad_bytes;
    struct sweep_point *points;       /* by rising factor */
    const struct sweep_point *first;  /* the lowest that is served; NULL: none is */
    const struct sweep_point *always; /* the lowest from which all are; NULL: the last is not */
};

struct sweep {
    struct sweep_range range;
    uint64_t peak_bytes;  /* the sum of the devices' peaks */
    uint64_t granularity; /* of the device */
    size_t point_count;
    size_t limit_count; /* different limits, each replayed once for each strategy */
    struct sweep_row *rows;
    size_t row_count;
};

/* The most that is live on each device of the trace, as asked for: [device_count], and on all of them at once. False
 * without host memory. */
bool sweep_peaks(const struct trace *trace, uint64_t *peaks, uint64_t *at_once);

/* Fills *sweep for `count` strategies, whose models add pads[i] bytes to a request. Of `options` the limit, the history
 * and the timing are not used; replays run on two threads, and progress is called by either, one at a time. False, and
 * a line in `error`, when a replay broke; *sweep is then empty. */
bool sweep_run(const struct trace *trace, const struct replay_strategy *const *strategies, const uint64_t *pads,
               size_t count, const struct sweep_range *range, const struct replay_options *options, struct sweep *sweep,
               char *error, size_t error_size);
void sweep_free(struct sweep *sweep);

#endif
