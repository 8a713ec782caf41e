/* output_summary.h: the last table of `weir replay` with several traces or devices: one row for each strategy over all
 * of them. */
#ifndef WEIR_COMMAND_OUTPUT_SUMMARY_H
#define WEIR_COMMAND_OUTPUT_SUMMARY_H

#include <stdio.h>

#include "output.h"

/* Room for 16 strategies and the recorded allocator. */
enum { summary_most_rows = 18 };

struct summary_row {
    const char *strategy;
    size_t traces; /* number of comparisons that include this strategy */
    /* comparisons in which this strategy did not run out of memory; the ratios below cover only these */
    size_t complete;
    double logarithms;
    double worst;
    char worst_trace[64]; /* name of the file, cut at its end */
    uint64_t device_calls;
    uint64_t hazards;
    bool simulated;
};

/* Begin with zeros. */
struct summary {
    struct summary_row rows[summary_most_rows];
    size_t row_count;
    size_t comparisons;
};

void summary_add(struct summary *summary, const struct comparison *comparison);

/* Adds the figures of `more`, which covers comparisons that are printed later, to those of `summary`. */
void summary_merge(struct summary *summary, const struct summary *more);

/* Prints the table if there were two comparisons or more. */
void summary_print(FILE *out, const struct summary *summary);

#endif
