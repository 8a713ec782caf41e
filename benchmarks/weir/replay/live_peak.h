/* live_peak.h: the peak of the requested live bytes of a trace. */
#ifndef WEIR_BENCHMARKS_LIVE_PEAK_H
#define WEIR_BENCHMARKS_LIVE_PEAK_H

#include "trace/trace.h"

/* A replay on a simulated device and a replay on host allocators hold different bytes at the same event, so each kind
 * of replay has a rule of its own. */
enum live_rule {
    /* The rule for the peak of a replay on a simulated device (replay.h). No device grows a block: at a reallocation
     * the replay allocates the new block before it frees the old block, and both are live for a moment. The rule counts
     * the request on which the recorded program ran out of memory, because the replay repeats this request. */
    LIVE_ON_DEVICE,
    /* The rule for the peak of a replay on host allocators (host_replay.h). A reallocation is one call of realloc,
     * which may grow the block in its place. If realloc copies, its second block does not count: the program never
     * asked for two. This replay does not repeat the request on which the recorded program ran out of memory. */
    LIVE_ON_HOST,
};

/* Computes the peak of live bytes. A request of 0 bytes counts as 1, as the replays ask for it. Sums that do not fit
 * are UINT64_MAX. Returns false when out of host memory. */
bool live_peak(const struct trace *trace, enum live_rule rule, uint64_t *peak);

#endif
