/* part_options.h: the options that choose a part of a trace: --device, --from, --to and --stream. */
#ifndef WEIR_COMMAND_PART_OPTIONS_H
#define WEIR_COMMAND_PART_OPTIONS_H

#include "options.h"
#include "trace/trace.h"

enum { part_most_streams = 64 };

struct part_options {
    const char *subcommand;
    uint64_t device;            /* TRACE_NO_INDEX: all */
    struct trace_filter filter; /* filter.streams points to the array `streams` below */
    uint32_t streams[part_most_streams];
};

#define PART_OPTIONS_INIT(name)                                                                                        \
    {                                                                                                                  \
        .subcommand = (name), .device = TRACE_NO_INDEX                                                                 \
    }

int part_parse_device(void *part, const char *value);
int part_parse_from(void *part, const char *value);
int part_parse_to(void *part, const char *value);
int part_parse_streams(void *part, const char *value);

/* The option rows --device, --from, --to and --stream, for a subcommand's table. `devices`: the help of --device. */
#define PART_OPTION_ROWS(part, devices)                                                                                \
    {.name = "device", .letter = 'd', .value = "N", .ctx = (part), .parse = part_parse_device, .text = (devices)},     \
        {.name = "from",                                                                                               \
         .value = "N|TIME",                                                                                            \
         .ctx = (part),                                                                                                \
         .parse = part_parse_from,                                                                                     \
         .text = "begin with event N, or at a time such as 1.5s or 200ms: blocks that are live there are\n"            \
                 "there from the start"},                                                                              \
        {.name = "to",                                                                                                 \
         .value = "N|TIME",                                                                                            \
         .ctx = (part),                                                                                                \
         .parse = part_parse_to,                                                                                       \
         .text = "end with event N, or at a time: blocks that are live there stay live"},                              \
    {                                                                                                                  \
        .name = "stream", .value = "LIST", .ctx = (part), .parse = part_parse_streams,                                 \
        .text = "take only the blocks of these streams, with their frees and uses on any stream"                       \
    }

/* Replaces *trace by the part that the options choose. If no option was given, *trace stays. On failure returns false
 * with a line in `error`; the caller owns *trace in either case. */
bool part_choose(const struct part_options *part, struct trace **trace, char *error, size_t error_size);

/* Calls `run` with a trace of each device that the trace uses; a trace of one device is passed on as it is. `run` owns
 * its trace, and this function frees the rest. Ends at the first failure and returns false with a line in `error`. */
bool part_each_device(struct trace *trace, bool (*run)(void *ctx, struct trace *one, char *error, size_t error_size),
                      void *ctx, char *error, size_t error_size);

#endif
