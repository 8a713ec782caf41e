/* series.h: bytes over time, reduced to a few thousand points; each point keeps the highest values of its events. */
#ifndef WEIR_BENCHMARKS_SERIES_H
#define WEIR_BENCHMARKS_SERIES_H

#include <stdlib.h>

#include "replay/replay.h"

#define SERIES_POINTS 4000u

struct series {
    struct replay_point *points;
    size_t count;
    size_t stride; /* events per point */
};

/* Returns false when out of host memory. */
static inline bool series_init(struct series *series, uint64_t events)
{
    series->points = calloc(SERIES_POINTS + 2, sizeof(*series->points));
    series->count = 0;
    series->stride = (size_t)(events / SERIES_POINTS) + 1;
    return series->points != NULL;
}

/* Adds the event trace->events[index], number `event` in the file. Returns the point of the series that the event
 * begins, or NULL. */
static inline struct replay_point *series_add(struct series *series, size_t index, uint64_t event, uint64_t live,
                                              uint64_t reserved)
{
    size_t slot = index / series->stride;
    struct replay_point *point = &series->points[slot];
    if (slot >= series->count) {
        *point = (struct replay_point){.event = event, .live = live, .reserved = reserved};
        series->count = slot + 1;
        return point;
    }
    point->live = live > point->live ? live : point->live;
    point->reserved = reserved > point->reserved ? reserved : point->reserved;
    return NULL;
}

#endif
