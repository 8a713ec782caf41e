/* sweep.h: finds how little memory each strategy needs, by replays of the same trace under a series of limits.
 *
 * The limit of the pool is FACTOR times the peak of the requested live bytes, rounded up to the granularity in which
 * the device gives memory: a fraction of a piece makes no difference. Factors that give the same limit share one
 * replay, since replays under the same limit give the same result.
 *
 * A strategy that serves a trace under one limit may fail under a higher one: the positions and sizes of regions depend
 * on the memory that is left. So there are two forms. With `all`, every limit is replayed, and a row has both the
 * lowest factor that serves the trace and the lowest factor from which all higher ones serve it too. Without it the
 * lowest and the highest limit are replayed, and then the middle of the open interval, until a limit that serves the
 * trace stands right above one that does not: some five replays in the place of thirty. The factor that this finds is
 * enough, and the one below it is not; nothing is said of the limits that were not replayed.
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
    bool all; /* replay every limit */
};

struct sweep_point {
    uint32_t factor; /* thousandths */
    uint64_t limit;  /* bytes */
    bool replayed;   /* false: nothing is known of this limit, and the members below are 0 */
    bool served;     /* true: the whole trace was served; false: the members below describe the failure */
    uint64_t event;  /* event at which memory ran out */
    uint64_t size;   /* requested size of that event */
    /* share of the events that were played before `event`, 0 to 1; blocks from before the trace are not events */
    double played;
    uint64_t hazards;
};

struct sweep_row {
    const struct replay_strategy *strategy;
    uint64_t pad_bytes;
    struct sweep_point *points;      /* in ascending order of factor */
    const struct sweep_point *first; /* the point with the lowest limit that served the trace; NULL: no limit did */
    /* the point from which on every limit served the trace; NULL: none, or a limit was not replayed */
    const struct sweep_point *always;
};

struct sweep {
    struct sweep_range range;
    uint64_t peak_bytes;  /* peak of the requested live bytes */
    uint64_t granularity; /* granularity of the device */
    size_t point_count;
    size_t limit_count; /* number of different limits; a strategy is replayed at most once with each */
    struct sweep_row *rows;
    size_t row_count;
};

/* Fills *sweep for `count` strategies; the model of strategy i adds pads[i] bytes to a request. The limit, history and
 * timing of `options` are ignored. Replays run on options->jobs threads, which call `progress` one at a time. If a
 * replay fails, returns false with a line in `error`; *sweep is then empty. */
bool sweep_run(const struct trace *trace, const struct replay_strategy *const *strategies, const uint64_t *pads,
               size_t count, const struct sweep_range *range, const struct replay_options *options, struct sweep *sweep,
               char *error, size_t error_size);
void sweep_free(struct sweep *sweep);

/* Finds a capacity of the device that serves the whole trace, in multiples of the granularity of the device, by
 * bisection between the peak of live bytes and the memory that the strategy takes without a limit. A replay with
 * *enough served the trace; a capacity that is lower by 1/256, or by one granule, was refused. 0: the strategy does not
 * serve the trace without a limit either. The capacity and limit of `options` are ignored. Returns false with a line in
 * `error` if a replay fails. */
bool sweep_enough(const struct trace *trace, const struct replay_strategy *strategy, uint64_t pad_bytes,
                  const struct replay_options *options, uint64_t *enough, char *error, size_t error_size);

#endif
