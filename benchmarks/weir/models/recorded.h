/* recorded.h: checks whether the pytorch model places every block at its recorded address.
 *
 * A trace that was made from a PyTorch or torch_npu memory snapshot has the requests of the program and the answers of
 * the allocator: the address of each block, and the segments that it took from the driver and returned. The check runs
 * the requests through the model and compares the model's answers with the recorded ones.
 */
#ifndef WEIR_BENCHMARKS_MODELS_RECORDED_H
#define WEIR_BENCHMARKS_MODELS_RECORDED_H

#include "trace/trace.h"

#include <weir/base.h>

#include <stdbool.h>
#include <stdint.h>

/* A value of `pad_bytes`: checks with 0 and with 32 bytes added to each request, and reports the run that agrees better
 * with the recording. */
#define RECORDED_PAD_BEST (-1)

struct recorded_report {
    bool checkable;             /* false: the trace lacks data for a check, and every count is 0 */
    const char *reason;         /* why the trace cannot be checked; "" if it can; constant */
    uint64_t pad_bytes;         /* bytes added to each request before rounding, in the reported run */
    uint64_t addresses_total;   /* recorded blocks of the window */
    uint64_t addresses_matched; /* blocks that the model placed at the recorded address */
    uint64_t segments_total;    /* segments that the allocator took from the device in the window */
    uint64_t segments_matched;  /* segments that the model takes at the recorded event, with the recorded size */
    uint64_t removals_total;    /* segments that the allocator returned to the device in the window */
    uint64_t removals_matched;  /* returned segments in which the model has no live block either */
    uint64_t priors_total;      /* blocks that are live before the window ("prior blocks") */
    uint64_t priors_placed;     /* prior blocks placed in the model: in a recorded segment, without an overlap */
    uint64_t priors_enlarged;   /* prior blocks recorded with too small a size, as later addresses prove */
    /* text of the first difference: the event, the expected and the recorded answer; "" = none */
    char first_mismatch[256];
};

/* Compares the pytorch model with the recorded allocator. `pad_bytes` is 0, 32, another value below 512, or
 * RECORDED_PAD_BEST. With RECORDED_PAD_BEST a tie goes to trace->pad_bytes if it is known, else to 0. Returns
 * WEIR_ERR_INVALID for another padding, WEIR_ERR_NO_MEMORY when out of host memory, WEIR_ERR_INTERNAL if the model
 * contradicts itself. A call that fails leaves *report unchanged. */
weir_status recorded_check(const struct trace *trace, int pad_bytes, struct recorded_report *report);

#endif
