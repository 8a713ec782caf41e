/* csv_read.c: reads the CSV files of other programs. The names of the columns decide the format; further columns, in
 * any order, are allowed. */
#include "csv_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_NEEDED 6
#define SHOWN_COLUMNS 100

static const struct csv_format {
    const char *name;
    const char *needed[MOST_NEEDED];
    csv_reader *read;
} formats[] = {
    {"torch_npu memory_record.csv", {"Component", "Timestamp(us)"}, memory_record_read},
    {"msMemScope", {"Event", "Event Type", "Timestamp(ns)|Timestamp(us)", "Ptr", "Attr"}, memscope_read},
    {"torch_npu operator_memory.csv",
     {"Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)|Duration(us)"},
     operator_memory_read},
    {"MiniMalloc CSV", {"id|buffer|buffer_id", "lower|start|begin", "upper|end", "size"}, plan_read},
    {"RMM log", {"Thread", "Time", "Action", "Pointer", "Size", "Stream"}, rmm_log_read},
};

static bool fits(const struct csv_format *format, const struct csv *csv)
{
    for (size_t i = 0; i < MOST_NEEDED && format->needed[i] != NULL; i++) {
        if (csv_column(csv, format->needed[i]) == CSV_NO_COLUMN) {
            return false;
        }
    }
    return true;
}

static const struct csv_format *find_format(const struct csv *csv)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (fits(&formats[i], csv)) {
            return &formats[i];
        }
    }
    return NULL;
}

static bool refuse_columns(const struct csv *csv, struct trace_error *error)
{
    char names[1024];
    char shown[SHOWN_COLUMNS];
    size_t used = 0;
    for (size_t i = 0; i < csv->columns && used < sizeof(names) - 2; i++) {
        const size_t room = sizeof(names) - 2 - used;
        const size_t length = csv->names[i].length < room ? csv->names[i].length : room;
        memcpy(names + used, csv->names[i].text, length);
        used += length;
        if (i + 1 < csv->columns) {
            names[used++] = ',';
        }
    }
    trace_quote(shown, sizeof(shown), names, used);
    return trace_say(error, WEIR_ERR_UNSUPPORTED, csv->source->path,
                     "is CSV with %zu columns that weir does not know (%s); known are operator_memory.csv and "
                     "memory_record.csv of torch_npu, msMemScope, RMM's log and MiniMalloc (id,lower,upper,size)",
                     csv->columns, shown);
}

/* Refuses a header in which a needed column appears twice. */
static bool check_columns(struct csv *csv, const struct csv_format *format)
{
    char shown[SHOWN_COLUMNS];
    for (size_t n = 0; n < MOST_NEEDED && format->needed[n] != NULL; n++) {
        const struct csv_field *first = &csv->names[csv_column(csv, format->needed[n])];
        for (const struct csv_field *name = first + 1; name < csv->names + csv->columns; name++) {
            if (name->length == first->length && strncasecmp(name->text, first->text, first->length) == 0) {
                trace_quote(shown, sizeof(shown), name->text, name->length);
                return csv_say(csv, WEIR_ERR_INVALID, "field %zu: the column %s appears twice",
                               (size_t)(name - csv->names) + 1, shown);
            }
        }
    }
    return true;
}

static bool read_format(struct csv_import *import, const struct csv_format *format)
{
    return check_columns(&import->csv, format) &&
           builder_source(&import->builder, format->name, strlen(format->name)) && format->read(import) &&
           (!import->csv.cut ||
            builder_note_format(&import->builder, "the last line is cut and left out: the file is not complete"));
}

static void end_import(struct csv_import *import)
{
    builder_drop(&import->builder);
    calls_free(&import->calls);
    name_list_free(&import->tags);
    name_list_free(&import->streams);
    name_list_free(&import->threads);
    weir__number_map_fini(&import->stream_of_pair);
    csv_close(&import->csv);
}

bool csv_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
               struct trace_error *error)
{
    struct csv_import import = {.stream_count = 0};
    bool done = csv_open(&import.csv, source, error);
    const struct csv_format *format = done ? find_format(&import.csv) : NULL;
    if (done && format == NULL) {
        done = refuse_columns(&import.csv, error);
    }
    done = done && builder_start(&import.builder, source->path, limits, error);
    import.calls.builder = &import.builder;
    done = done && read_format(&import, format) && builder_finish(&import.builder, out);
    end_import(&import);
    return done;
}
