/* verdict.h: the answer in one line: why the request failed, or the parts of the memory at its peak.
 *
 * It is about one row: the recorded allocator if its memory is known, else the first strategy. Cause and figures are
 * those of the row's record (weir_oom_record); a series of growing requests before that moment is named too, and that
 * the largest holder has grown. The text ends with a cure, if a request was refused, or if a fifth of the memory and
 * 16 MiB are not live.
 */
#ifndef WEIR_BENCHMARKS_VERDICT_H
#define WEIR_BENCHMARKS_VERDICT_H

#include "replay/replay.h"

struct verdict {
    const char *row; /* the strategy's name; NULL: nothing is known */
    bool refused;    /* a request failed; else the moment is the peak of reserved memory */
    uint64_t event;
    weir_oom_cause cause;
    char text[1024]; /* cause, holder, and for a refused request or much waste the cure */
};

/* Judges a result whose `oom` or `peak` is filled in. Returns false when out of host memory. */
bool verdict_of(const struct trace *trace, const struct replay_result *result, struct verdict *verdict);

/* Returns the word of a cause, as in JSON and CSV: "too_big". */
const char *verdict_word(weir_oom_cause cause);

#endif
