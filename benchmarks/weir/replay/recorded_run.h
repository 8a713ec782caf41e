/* recorded_run.h: the figures of the allocator that was recorded: the row "recorded".
 *
 * A trace may have the memory that the recorded allocator took from its device and returned (s and z lines), and the
 * addresses of its blocks. One walk over these lines gives the figures of a replay_result: nothing is simulated. Live
 * bytes count as in a replay, and the blocks that are live before the trace count from the first event on. Members
 * that a trace cannot tell stay 0: device time, waits, hazards, checks, times of calls and rungs; the outputs show "-"
 * or null for them.
 *
 * Reserved bytes are the bytes of the device that at least one s or z line holds. A trace without such lines may have
 * totals of reserved bytes (v lines): they are then the reserved bytes, and free memory has no place.
 *
 * A record may contradict itself, for example if a ring buffer lost events. Each contradiction has one meaning: memory
 * that is taken a second time was returned just before, and a return of memory that is not held has no effect. The
 * result counts them in a note.
 */
#ifndef WEIR_BENCHMARKS_RECORDED_RUN_H
#define WEIR_BENCHMARKS_RECORDED_RUN_H

#include "replay/replay.h"

/* True if the trace records memory that its allocator took from the device, or totals of it. */
bool recorded_run_known(const struct trace *trace);

/* Fills in the result of the recorded allocator. The trace must be of one device, and recorded_run_known must be true.
 * With `history` the result has the data that the report draws. Returns false when out of host memory. The caller frees
 * the result with replay_result_free in either case. */
bool recorded_run(const struct trace *trace, bool history, struct replay_result *result);

/* True if recorded_run made the result. */
bool recorded_run_is(const struct replay_result *result);

/* True if the trace has no history: memory and blocks before the first event, and no event that changes them. */
bool recorded_run_is_moment(const struct trace *trace);

#endif
