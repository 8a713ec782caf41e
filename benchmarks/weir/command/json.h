/* json.h: writes JSON for all subcommands. Texts are always valid UTF-8, and a missing value is an error. */
#ifndef WEIR_COMMAND_JSON_H
#define WEIR_COMMAND_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Returns foreign text as JSON, cleaned by the rule of trace/clean_text.h. NULL only when out of host memory. */
json_t *json_text(const char *text);

/* Like json_text for a text of several lines: each line is cleaned, and the newlines stay. */
json_t *json_lines(const char *text);

struct trace_part;

/* Describes the part of a file that the trace was cut from (trace.h); null if the trace is the whole file. */
json_t *json_part(const struct trace_part *part);

/* Starts the count of failed allocations for json_lacks_memory. Must precede every other use of jansson. */
void json_watch_memory(void);

/* True if an allocation of jansson has failed: then a value may be missing. */
bool json_lacks_memory(void);

/* Writes the value and a newline to standard output. Returns the exit status, and prints a line on standard error if a
 * value is missing. Write errors of standard output are detected when the command ends (main.c). */
int json_print(const char *subcommand, const json_t *value, size_t flags);

#endif
