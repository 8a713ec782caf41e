/* compare.h: replays a trace of one device against each strategy: fills in a struct comparison. */
#ifndef WEIR_COMMAND_COMPARE_H
#define WEIR_COMMAND_COMPARE_H

#include "output.h"
#include "progress.h"
#include "replay_settings.h"

struct crew;

/* Replays the trace with each strategy; the comparison owns the trace from then on. The crew's threads do the work; if
 * `crew` is NULL, this call starts threads of its own and ends them. `source` receives the progress. Returns false,
 * with a line in `error`, if a replay could not be carried out (running out of simulated memory is a result). The
 * caller drops the comparison in either case. */
bool compare(const struct settings *settings, struct crew *crew, const struct progress_source *source,
             struct trace *trace, struct comparison *comparison, char *error, size_t error_size);

bool comparison_has_hazards(const struct comparison *comparison);
void comparison_drop(struct comparison *comparison);

#endif
