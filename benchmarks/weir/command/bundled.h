/* bundled.h: opens traces by name: a file of the user, or a recording that is installed with the command. */
#ifndef WEIR_COMMAND_BUNDLED_H
#define WEIR_COMMAND_BUNDLED_H

#include <stddef.h>
#include <stdint.h>

struct trace;

/* Reads the trace `name`: the file of that name ("-": standard input). If there is no such file and the name has no
 * slash, reads the installed recording of that name: "llama_ctx_dyn" or "llama_ctx_dyn.wtr.xz". Returns EXIT_DONE, and
 * the caller frees *trace with trace_free; or EXIT_USAGE after one line on standard error. */
int open_trace(const char *subcommand, const char *name, struct trace **trace);

/* Looks for each trace before the first is read, so that the last of many is not missed after an hour. Returns
 * EXIT_DONE, or EXIT_USAGE after one line on standard error about the first that open_trace cannot open. */
int find_traces(const char *subcommand, char **names, size_t count);

/* Replaces *trace by the trace of one device, if it has events of other devices. Returns EXIT_DONE, or EXIT_USAGE after
 * one line on standard error if no event is of the device; *trace is then unchanged. */
int choose_device(const char *subcommand, uint32_t device, struct trace **trace);

/* Lists the paths of the installed recordings, sorted; *paths and each path are from malloc. Returns EXIT_DONE, or
 * EXIT_USAGE after one line on standard error if no recordings are installed. */
int list_bundled(const char *subcommand, char ***paths, size_t *count);

/* Returns the length of the recording's name in a file name; 0 if the suffix is not that of a recording. */
size_t bundled_stem(const char *name);

#endif
