/* latency.h: a histogram of nanoseconds, exact to one part in 64, for percentiles of very many calls. */
#ifndef WEIR_BENCHMARKS_LATENCY_H
#define WEIR_BENCHMARKS_LATENCY_H

#include <stdint.h>

#define LATENCY_ROWS 40
#define LATENCY_COLUMNS 64

struct latency {
    uint64_t counts[LATENCY_ROWS][LATENCY_COLUMNS];
    uint64_t total;
    uint64_t clock_ns; /* what two readings of the clock cost; taken off each sample */
};

/* Empty, with the clock's own cost measured. */
void latency_init(struct latency *latency);
uint64_t latency_now(void);
void latency_add(struct latency *latency, uint64_t ns);
/* The value that a `share` of the samples does not exceed; 0 when there are none. */
double latency_percentile(const struct latency *latency, double share);

#endif
