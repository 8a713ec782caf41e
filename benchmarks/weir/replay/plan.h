/* plan.h: the row "plan": the memory that the blocks of a trace need if their lives are known before the program runs.
 *
 * Each block has a fixed offset in one range, which is taken at the start (packing.h). No allocator can know that much,
 * so the row shows how much of the memory above the peak of live bytes can be saved at all. Nothing is simulated: a
 * block's memory is free for the next block at its free, whatever the streams still do. Blocks begin at multiples of 64
 * bytes, or of more if the request asks for more.
 */
#ifndef WEIR_BENCHMARKS_PLAN_H
#define WEIR_BENCHMARKS_PLAN_H

#include "replay/packing.h"
#include "replay/replay.h"

/* Computes the packing of a trace of one device. The request on which the recorded program ran out of memory is one of
 * the blocks. packing->found is false if the blocks are too many. Returns false when out of host memory. */
bool plan_find(const struct trace *trace, struct packing *packing);

/* Fills in the result of the plan. With `history` the result has the data that the report draws. Returns false when out
 * of host memory. *found is false if the blocks are too many; the result is then empty. The caller frees the result
 * with replay_result_free in either case. */
bool plan_run(const struct trace *trace, bool history, struct replay_result *result, bool *found);

/* True if plan_run made the result. */
bool plan_is(const struct replay_result *result);

#endif
