/* output.h: prints a comparison in its forms: a table, JSON, CSV, and the page of --report. */
#ifndef WEIR_COMMAND_OUTPUT_H
#define WEIR_COMMAND_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

#include "models/recorded.h"
#include "replay/host_replay.h"
#include "replay/recorded_run.h"
#include "replay/replay.h"
#include "replay/sweep.h"
#include "replay/verdict.h"
#include "trace/out_file.h"

/* The prices of device calls, from which simulated times follow. */
struct price_source {
    const char *file; /* the price table, or NULL: all prices are assumed */
    size_t assumed;   /* number of prices that the price table lacks */
};

/* The results of one trace, or of one device of a trace, with each strategy. */
struct comparison {
    const struct price_source *prices;
    struct trace *trace;           /* a trace of one device */
    struct replay_result *results; /* result 0 is the row of the recorded allocator if the trace records its memory */
    size_t result_count;
    bool planned;                    /* the last result is the plan; false: the blocks are too many for one */
    uint64_t peak_live_bytes;        /* peak of the whole trace, even if only a part was replayed */
    struct recorded_report recorded; /* check of the pytorch model, if it is among the strategies */
    struct sweep sweep;              /* empty if no sweep was requested */
    struct host_replay host;         /* empty if host allocators were not requested */
    bool timing;                     /* wall and processor times are wanted */
    struct recorded_oom refused;     /* the request on which the recorded program ran out of memory */
    struct verdict verdict;
    bool unlimited;   /* the size of the device is not known, so that no request is refused */
    bool implied;     /* the replay used refused.capacity, because no capacity was given */
    uint64_t *enough; /* [result_count] capacity with which request `refused` is served; 0 = none */
};

/* True if the output must name the device: the file uses several devices, or its only device is not device 0. */
static inline bool output_names_device(const struct trace *trace)
{
    return trace->one_of_several || trace->device != 0;
}

/* Returns how the strategy dealt with the request `refused`: "unknown" (the size of the device is not known), "served", "same" (the strategy refused the request too) or
 * "earlier" (the strategy ran out of memory before the request). */
const char *output_verdict(const struct comparison *comparison, const struct replay_result *result);

/* Returns the report of an out-of-memory failure; its lines from the second on begin with two blanks. The text is from
 * malloc; NULL when out of host memory. */
char *output_oom(const struct replay_oom *oom);

/* Prints the first cell of a row; a name that is too long for it stands in a line above (output_summary.c). */
enum { output_name_width = 13 };
void output_name(FILE *out, const char *name);

/* --- output of computed rows: the recorded allocator and the plan (output_computed.c) --- */

/* Prints below the heading that a snapshot has no history, and why figures of the recorded allocator may be wrong. */
void output_computed_notes(FILE *out, const struct comparison *comparison);
/* Prints a computed row of the table. */
void output_computed_row(FILE *out, const struct replay_result *result);
/* Adds the member `note` to the JSON object of a result. If the row is computed, also sets to null the members that it
 * does not have. */
void output_computed_json(json_t *object, const struct replay_result *result);

/* Prints the table. With `colour`, rows with hazards are red, and the row that reserves the least is bold. */
void output_table(FILE *out, const struct comparison *comparison, bool colour);
/* The member `version` of the object of `weir replay --json`. It grows when a member is renamed, is removed or changes
 * its meaning; added members do not change it. benchmarks/weir/README.md lists the members. */
#define OUTPUT_JSON_VERSION 1
/* Prints the first line of --csv, and one line for each result. */
void output_csv_head(FILE *out);
void output_csv(FILE *out, const struct comparison *comparison);
/* Returns the object of `weir replay --json`; NULL when out of host memory. */
json_t *output_json(const struct comparison *comparison);

/* Returns the verdict as an object, null if nothing is known. */
json_t *output_cause_json(const struct verdict *verdict);
/* Returns the largest holders as an array. */
json_t *output_holders_json(const weir_oom_record *record);

struct report_context {
    const char *command; /* the command line, as typed */
    uint64_t capacity;
    uint64_t seed;
};

/* Writes the report page and completes the file. On failure returns false with a line in `error`, and the caller must
 * remove the file with out_file_drop. */
bool output_report(struct out_file *file, const struct report_context *context, const struct comparison *comparisons,
                   size_t count, char *error, size_t error_size);

#endif
