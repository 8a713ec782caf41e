/* output_host.h: prints the figures of host allocators (replay/host_replay.h) as a table or as JSON. */
#ifndef WEIR_COMMAND_OUTPUT_HOST_H
#define WEIR_COMMAND_OUTPUT_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "replay/host_replay.h"

/* Prints the table. Without `timing` the processor times are left out. */
void output_host_table(FILE *out, const struct host_replay *replay, bool timing);
/* Returns the value of "host" in `weir replay --json`; NULL when out of host memory. */
json_t *output_host_json(const struct host_replay *replay, bool timing);

/* The allocator that holds the least resident memory, in one sentence, then the table and the lines to paste. */
void output_host_advice(FILE *out, const struct trace *trace, const struct host_replay *replay);
json_t *output_host_advice_json(const struct trace *trace, const struct host_replay *replay);

#endif
