/* latency.h: a histogram of nanoseconds, exact to 1/64 of the value, for percentiles of very many calls. */
#ifndef WEIR_BENCHMARKS_LATENCY_H
#define WEIR_BENCHMARKS_LATENCY_H

#include <stdint.h>

#define LATENCY_ROWS 40
#define LATENCY_COLUMNS 64

struct latency {
    uint64_t counts[LATENCY_ROWS][LATENCY_COLUMNS];
    uint64_t total;
    uint64_t clock_ns; /* cost of two readings of the clock; subtracted from each sample */
};

/* Empties the histogram and measures the cost of the clock. */
void latency_init(struct latency *latency);
void latency_add(struct latency *latency, uint64_t ns);
/* Returns the value that a share (0 to 1) of the samples does not exceed: a percentile. Returns 0 without samples. */
double latency_percentile(const struct latency *latency, double share);

#endif
