/* output.h: a comparison in its three forms: a table, JSON, and the page of --report. */
#ifndef WEIR_COMMAND_OUTPUT_H
#define WEIR_COMMAND_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

#include "models/recorded.h"
#include "replay/replay.h"
#include "replay/sweep.h"
#include "trace/out_file.h"

/* One trace against its strategies. */
struct comparison {
    struct trace *trace;
    struct replay_result *results;
    size_t result_count;
    uint64_t peak_live_bytes;        /* of the whole trace, played or not */
    struct recorded_report recorded; /* of the pytorch model, when it is among the strategies */
    struct sweep sweep;              /* without rows: none was asked for */
};

/* Why memory ran out, in lines that begin with two blanks from the second on. From malloc; NULL without host memory. */
char *output_oom(const struct replay_oom *oom);

/* A table for people. */
void output_table(FILE *out, const struct comparison *comparison);
/* The object of `weir replay --json`. NULL without host memory. */
json_t *output_json(const struct comparison *comparison);

struct report_context {
    const char *command; /* the command line, as typed */
    uint64_t capacity;
    uint64_t seed;
};

/* Writes the page and finishes the file; false, with a line in `error`, when that fails: then the caller drops the file. */
bool output_report(struct out_file *file, const struct report_context *context, const struct comparison *comparisons,
                   size_t count, char *error, size_t error_size);

#endif
