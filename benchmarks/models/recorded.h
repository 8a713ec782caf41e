/* recorded.h: does the pytorch model put every block where a recording says it was?
 *
 * A trace that was made from a PyTorch or torch_npu memory snapshot carries, beside what the program asked for, what
 * the allocator answered: an address for each block and the segments it took from the driver and gave back. The model
 * is driven over the requests and its answers are compared with the recorded ones.
 */
#ifndef WEIR_BENCHMARKS_MODELS_RECORDED_H
#define WEIR_BENCHMARKS_MODELS_RECORDED_H

#include "trace.h"

#include <weir/base.h>

#include <stdbool.h>
#include <stdint.h>

#define RECORDED_PAD_BEST (-1) /* tries 0 and 32 and keeps what explains more of the record */

struct recorded_report {
    bool checkable;     /* false: the trace lacks what a check needs, and every count is 0 */
    const char *reason; /* why it is not checkable, "" when it is; constant */
    uint64_t pad_bytes; /* added to each request before rounding, in the run that is reported */
    uint64_t addresses_total;   /* recorded blocks of the window */
    uint64_t addresses_matched; /* those that the model put at the recorded address */
    uint64_t segments_total;    /* segments that the allocator took in the window */
    uint64_t
        segments_matched; /* those the model would have taken too, at that moment and of that size */
    uint64_t removals_total;   /* segments that were given back in the window */
    uint64_t removals_matched; /* those that were wholly free in the model too */
    uint64_t priors_total;     /* blocks at the start */
    uint64_t priors_placed;    /* those that lie free of each other in a recorded segment */
    uint64_t
        priors_enlarged; /* those whose size the record tells too small and later addresses prove larger */
    char first_mismatch
        [256]; /* what, at which event (index into trace->events), expected and recorded; "" = none */
};

/* Compares. `pad_bytes` is 0, 32, another value below 512, or RECORDED_PAD_BEST, where a tie goes to what the trace
 * says and otherwise to 0. WEIR_ERR_INVALID for another padding, WEIR_ERR_NO_MEMORY when host memory ends,
 * WEIR_ERR_INTERNAL when the model contradicts itself; *report is untouched then. */
weir_status recorded_check(const struct trace *trace, int pad_bytes,
                           struct recorded_report *report);

#endif
