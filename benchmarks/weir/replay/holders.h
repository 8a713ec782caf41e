/* holders.h: the tags of a trace that hold the most memory at one moment. */
#ifndef WEIR_BENCHMARKS_HOLDERS_H
#define WEIR_BENCHMARKS_HOLDERS_H

#include <weir/pool.h>

#include "trace/trace.h"

struct tag_sum {
    const char *text;
    uint64_t bytes;
    uint64_t blocks;
};

/* Starts the sums of a moment. Returns NULL when out of host memory. */
struct tag_sum *holders_start(const struct trace *trace);
/* Counts a live block. `tag`: of the trace, WEIR_TRACE_NONE or REPLAY_TAG_PRIOR. */
void holders_add(const struct trace *trace, struct tag_sum *sums, uint32_t tag, uint64_t bytes);
/* Puts the largest holders into the record, the most bytes first, and frees the sums. Tags with the same text count as
 * one. Returns false if the sums are NULL. */
bool holders_end(const struct trace *trace, struct tag_sum *sums, weir_oom_record *record);

/* Returns, by block, the event that allocated the block if it is live after the first `count` events, else NULL. The
 * array is from malloc; NULL when out of host memory. */
const weir_trace_event **holders_live(const struct trace *trace, size_t count);
/* Moves such an array on, from the first `from` events to the first `to`. */
void holders_go_on(const struct trace *trace, const weir_trace_event **live, size_t from, size_t to);

/* Finds the holders when live memory peaked: after the first `count` events. Returns false when out of host memory. */
bool holders_at(const struct trace *trace, size_t count, weir_oom_record *record);

#endif
