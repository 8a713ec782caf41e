/* compare.h: replays a trace of one device against each strategy: fills in a struct comparison. */
#ifndef WEIR_COMMAND_COMPARE_H
#define WEIR_COMMAND_COMPARE_H

#include "output.h"
#include "progress.h"
#include "replay_settings.h"

struct crew;

/* Replays the trace, which passes to the comparison, with the threads of the crew; NULL: with threads of its own, which
 * have ended when the call returns. `source` shows how far it has come. Returns false, with a line in `error`, after a
 * failure that is no result. The caller drops the comparison in either case. */
bool compare(const struct settings *settings, struct crew *crew, const struct progress_source *source,
             struct trace *trace, struct comparison *comparison, char *error, size_t error_size);

bool comparison_has_hazards(const struct comparison *comparison);
void comparison_drop(struct comparison *comparison);

#endif
