/* steps.h: steps of a program that repeat: the same requests of the same sizes in the same order, over and over. */
#ifndef WEIR_BENCHMARKS_STEPS_H
#define WEIR_BENCHMARKS_STEPS_H

#include "trace/trace.h"

struct steps {
    uint64_t count;       /* equal steps, one after the other; 0: no such series has half of the requests */
    uint64_t requests;    /* of one step */
    uint64_t all;         /* requests of the trace */
    uint64_t first_event; /* of the first step */
    uint64_t last_event;  /* the last request of the last step */
    int64_t growth_bytes; /* by which the live bytes grow from step to step, in the mean */
};

/* Finds the longest series of equal steps. Returns false when out of host memory. */
bool steps_find(const struct trace *trace, struct steps *steps);

#endif
