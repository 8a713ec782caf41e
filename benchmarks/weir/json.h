/* json.h: writing JSON, for all subcommands: texts are always valid, and a missing value is an error. */
#ifndef WEIR_COMMAND_JSON_H
#define WEIR_COMMAND_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* Foreign text, cleaned by the rule of trace/clean_text.h. NULL without host memory only. */
json_t *json_text(const char *text);

/* Before anything else of jansson's: json_lacks_memory tells from here on. */
void json_watch_memory(void);

/* Whether jansson was ever refused memory: then a value may be missing somewhere. */
bool json_lacks_memory(void);

/* Writes the value and a newline to standard output. Returns the exit status, with a line on standard error where a value is
 * missing. Write errors of standard output are found when the command ends (main.c). */
int json_print(const char *subcommand, const json_t *value, size_t flags);

#endif
