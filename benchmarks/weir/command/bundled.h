/* bundled.h: opens traces by name: a file of the user, or a recording that is installed with the command. */
#ifndef WEIR_COMMAND_BUNDLED_H
#define WEIR_COMMAND_BUNDLED_H

#include <stdbool.h>
#include <stddef.h>

struct trace;

enum { bundled_error_size = 8192 }; /* size of an error text: a path in it may be 4,096 bytes long */

/* Reads the trace `name`: the file of that name ("-": standard input). If there is no such file and the name has no
 * slash, reads the installed recording of that name: "llama_ctx_dyn" or "llama_ctx_dyn.wtr.xz". Returns EXIT_DONE, and
 * the caller frees *trace with trace_free; or EXIT_USAGE after one line on standard error. */
int open_trace(const char *subcommand, const char *name, struct trace **trace);
/* Like open_trace, but prints nothing: on failure returns false with a line in `error`. Thread-safe. */
bool load_trace(const char *name, struct trace **trace, char *error, size_t error_size);

/* Checks that every named trace can be opened, before the first one is replayed: a missing last file is reported at
 * once and not after hours. Returns EXIT_DONE, or EXIT_USAGE after one line on standard error about the first trace
 * that cannot be opened, or about standard input if it is named twice. */
int find_traces(const char *subcommand, char **names, size_t count);

/* Lists the paths of the installed recordings, sorted; *paths and each path are from malloc. Returns EXIT_DONE, or
 * EXIT_USAGE after one line on standard error if no recordings are installed. */
int list_bundled(const char *subcommand, char ***paths, size_t *count);

/* Returns the length of the recording's name within a file name; 0 if the file name has no suffix of a recording. */
size_t bundled_stem(const char *name);

#endif
