/* live_peak.h: the peak of the requested live bytes of a trace. */
#ifndef WEIR_BENCHMARKS_LIVE_PEAK_H
#define WEIR_BENCHMARKS_LIVE_PEAK_H

#include "trace/trace.h"

/* The two replays hold different bytes at the same event, so each has its rule. */
enum live_rule {
    /* replay.h: no device grows a block, so the replay allocates the new block before it frees the old one, and both
     * are live for a moment. The request on which the recorded program ran out of memory is asked for too. */
    LIVE_ON_DEVICE,
    /* host_replay.h: one call of realloc, which may grow the block in its place. If it copies, that is the allocator's
     * own doing: the program never asked for both blocks. No request is asked for that the program did not get. */
    LIVE_ON_HOST,
};

/* Computes the peak. A request of 0 bytes counts as 1, as the replays ask for it. Sums that do not fit are UINT64_MAX.
 * Returns false without host memory. */
bool live_peak(const struct trace *trace, enum live_rule rule, uint64_t *peak);

#endif
