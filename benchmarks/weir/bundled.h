/* bundled.h: traces by name: a file of the user's, or a recording that came with the command. */
#ifndef WEIR_COMMAND_BUNDLED_H
#define WEIR_COMMAND_BUNDLED_H

#include <stddef.h>

struct trace;

/* Reads the trace `name`: the file of that name ("-": standard input) or, where there is none and the name has no slash,
 * the recording that came with the command: "llama_ctx_dyn" or "llama_ctx_dyn.wtr.xz". EXIT_DONE with *trace the caller's
 * to give to trace_free, or EXIT_USAGE after one line on standard error. */
int open_trace(const char *subcommand, const char *name, struct trace **trace);

/* The paths of these recordings, sorted; *paths and each of them is from malloc. EXIT_DONE, or EXIT_USAGE after one line on
 * standard error: none came with the command. */
int list_bundled(const char *subcommand, char ***paths, size_t *count);

/* How much of a file's name is the recording's name; 0 when the file is no recording by its suffix. */
size_t bundled_stem(const char *name);

#endif
