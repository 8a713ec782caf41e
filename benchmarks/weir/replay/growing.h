/* growing.h: a series of requests each of which is a little larger than the one before: a key and value cache that
 * grows by concatenation, buffers of a sequence that gets longer. No memory that an earlier one leaves holds a later
 * one. */
#ifndef WEIR_BENCHMARKS_GROWING_H
#define WEIR_BENCHMARKS_GROWING_H

#include "trace/trace.h"

struct growing {
    uint64_t count; /* requests of the series; 0: there is none */
    uint64_t first_bytes;
    uint64_t last_bytes;
    uint32_t tag; /* of its last request; WEIR_TRACE_NONE: none */
};

/* Finds the longest series among the large requests of the first `count` events. Returns false when out of host
 * memory. */
bool growing_find(const struct trace *trace, size_t count, struct growing *found);

#endif
