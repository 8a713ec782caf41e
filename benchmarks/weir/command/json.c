/* json.c: see json.h. */
#include "json.h"

#include "complain.h"
#include "trace/clean_text.h"
#include "trace/trace.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool refused; /* an allocation of jansson failed; atomic, because several threads make values */

static void *watched_malloc(size_t size)
{
    void *const memory = malloc(size);
    if (memory == NULL) {
        refused = true;
    }
    return memory;
}

void json_watch_memory(void)
{
    json_set_alloc_funcs(watched_malloc, free);
}

bool json_lacks_memory(void)
{
    return refused;
}

json_t *json_text(const char *text)
{
    char *const clean = clean_copy(text, strlen(text));
    if (clean == NULL) {
        refused = true;
    }
    json_t *const string = clean != NULL ? json_string(clean) : NULL;
    free(clean);
    return string;
}

json_t *json_lines(const char *text)
{
    char *joined = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&joined, &size);
    for (const char *line = text; memory != NULL && *line != '\0';) {
        const size_t length = strcspn(line, "\n");
        clean_print(memory, line, length);
        line += length;
        if (*line == '\n') {
            (void)fputc('\n', memory);
            line++;
        }
    }
    const bool good = memory != NULL && fclose(memory) == 0;
    if (!good) {
        refused = true;
    }
    json_t *const string = good ? json_string(joined) : NULL;
    free(joined);
    return string;
}

json_t *json_part(const struct trace_part *part)
{
    if (part == NULL) {
        return json_null();
    }
    json_t *streams = part->stream_count > 0 ? json_array() : json_null();
    for (size_t i = 0; i < part->stream_count; i++) {
        (void)json_array_append_new(streams, json_integer((json_int_t)part->streams[i]));
    }
    return json_pack("{s:o, s:o, s:o}", "first_event", json_integer((json_int_t)part->first), "last_event",
                     json_integer((json_int_t)part->last), "streams", streams);
}

int json_print(const char *subcommand, const json_t *value, size_t flags)
{
    if (value == NULL || refused) {
        return complain(subcommand, false, "no host memory for the JSON");
    }
    const int written = json_dumpf(value, stdout, flags);
    (void)fputc('\n', stdout);
    if (refused || (written != 0 && !ferror(stdout))) {
        return complain(subcommand, false, "no host memory for the JSON");
    }
    return EXIT_DONE;
}
