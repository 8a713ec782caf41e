/* output_report.c: writes the page of `weir replay --report`: report.html with the data in it.
 *
 * The page is one file that loads no other file. Its data stands in a script element of type application/json, so "<"
 * is written as \u003c and no text of a trace can end the element.
 */
#include "json.h"
#include "output.h"

#include <weir/base.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report_page.h" /* report_page[]: report.html as a string, made by the build */

static const char placeholder[] = "@WEIR_DATA@";
enum { marks_kept = 2000 };

static json_t *integer(int64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *marks_json(const struct trace *trace)
{
    json_t *marks = json_array();
    for (size_t i = 0; i < trace->event_count && json_array_size(marks) < marks_kept; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if (event->kind == WEIR_TRACE_MARK) {
            char mode[2] = {event->mode, '\0'};
            (void)json_array_append_new(marks, json_pack("[I, s, o]", (json_int_t)trace_event_number(trace, i), mode,
                                                         json_text(event->name != NULL ? event->name : "")));
        }
    }
    return marks;
}

/* Columns with one entry per block, in the order of allocation; row[index] is the row of a block. */
struct block_columns {
    json_t *alloc;
    json_t *freed;
    json_t *size;
    json_t *stream;
    json_t *tag;
    uint32_t *order; /* row -> block index */
    uint32_t *row;   /* block index -> row */
    size_t rows;
};

static void add_born(struct block_columns *columns, const struct trace_event *event, int64_t when, uint32_t stream)
{
    const weir_trace_event *e = &event->event;
    columns->row[event->index] = (uint32_t)columns->rows;
    columns->order[columns->rows++] = event->index;
    (void)json_array_append_new(columns->alloc, integer(when));
    (void)json_array_append_new(columns->freed, integer(-1));
    (void)json_array_append_new(columns->size, integer((int64_t)e->size));
    (void)json_array_append_new(columns->stream, integer(stream));
    (void)json_array_append_new(columns->tag, integer(e->tag == WEIR_TRACE_NONE ? -1 : (int64_t)e->tag));
}

static void add_died(struct block_columns *columns, uint32_t index, int64_t when)
{
    (void)json_array_set_new(columns->freed, columns->row[index], integer(when));
}

static uint32_t stream_of_row(const struct block_columns *columns, uint32_t index)
{
    return (uint32_t)json_integer_value(json_array_get(columns->stream, columns->row[index]));
}

static json_t *blocks_json(const struct trace *trace, struct block_columns *columns)
{
    columns->alloc = json_array();
    columns->freed = json_array();
    columns->size = json_array();
    columns->stream = json_array();
    columns->tag = json_array();
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const int64_t number = (int64_t)trace_event_number(trace, i);
        switch (event->event.kind) {
        case WEIR_TRACE_PRIOR:
            add_born(columns, event, -1, event->event.stream);
            break;
        case WEIR_TRACE_ALLOC:
            add_born(columns, event, number, event->event.stream);
            break;
        case WEIR_TRACE_REALLOC:
            add_born(columns, event, number, stream_of_row(columns, event->old_index));
            add_died(columns, event->old_index, number);
            break;
        case WEIR_TRACE_FREE:
            add_died(columns, event->index, number);
            break;
        default:
            break;
        }
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "alloc", columns->alloc, "free", columns->freed, "size",
                     columns->size, "stream", columns->stream, "tag", columns->tag);
}

static json_t *series_json(const struct replay_result *result)
{
    json_t *event = json_array();
    json_t *live = json_array();
    json_t *reserved = json_array();
    for (size_t i = 0; i < result->point_count; i++) {
        (void)json_array_append_new(event, integer((int64_t)result->points[i].event));
        (void)json_array_append_new(live, integer((int64_t)result->points[i].live));
        (void)json_array_append_new(reserved, integer((int64_t)result->points[i].reserved));
    }
    return json_pack("{s:o, s:o, s:o}", "event", event, "live", live, "reserved", reserved);
}

static json_t *regions_json(const struct replay_result *result)
{
    json_t *regions = json_array();
    for (size_t i = 0; i < result->region_count; i++) {
        const struct replay_region *region = &result->regions[i];
        (void)json_array_append_new(regions,
                                    json_pack("[I, I, I, I, i]", (json_int_t)region->address, (json_int_t)region->size,
                                              (json_int_t)region->added, (json_int_t)region->removed, region->mapped));
    }
    return regions;
}

static json_t *places_json(const struct replay_result *result, const struct block_columns *columns)
{
    json_t *address = json_array();
    json_t *capacity = json_array();
    for (size_t row = 0; row < columns->rows; row++) {
        const struct replay_place *place = &result->places[columns->order[row]];
        (void)json_array_append_new(address, integer(place->address == 0 ? -1 : (int64_t)place->address));
        (void)json_array_append_new(capacity, integer((int64_t)place->capacity));
    }
    return json_pack("{s:o, s:o}", "address", address, "capacity", capacity);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Returns the name by which the page lists the trace. */
static json_t *name_json(const struct trace *trace)
{
    char name[320];
    const int length = (int)sizeof(name) - 32;
    if (!output_names_device(trace)) {
        return json_text(base_name(trace->path));
    }
    (void)snprintf(name, sizeof(name), "%.*s, device %u", length, base_name(trace->path), trace->device);
    return json_text(name);
}

/* Returns the call stack of each tag, a frame on a line; null without one. */
static json_t *stacks_json(const struct trace *trace)
{
    json_t *stacks = json_array();
    for (uint32_t i = 0; trace->stacks != NULL && i < trace->tag_count; i++) {
        const char *stack = trace->stacks[i];
        (void)json_array_append_new(stacks, stack != NULL ? json_lines(stack) : json_null());
    }
    return stacks;
}

static json_t *trace_json(const struct comparison *comparison)
{
    static const char *const clocks[] = {"ns", "logical", "order"};
    const struct trace *trace = comparison->trace;
    struct block_columns columns = {
        .order = calloc((size_t)trace->block_count + 1, sizeof(uint32_t)),
        .row = calloc((size_t)trace->block_count + 1, sizeof(uint32_t)),
    };
    json_t *object = columns.order != NULL && columns.row != NULL ? output_json(comparison) : NULL;
    if (object != NULL) {
        json_t *tags = json_array();
        for (uint32_t i = 0; i < trace->tag_count; i++) {
            (void)json_array_append_new(tags, json_text(trace->tags[i] != NULL ? trace->tags[i] : ""));
        }
        (void)json_object_set_new(object, "path", json_text(trace->path));
        (void)json_object_set_new(object, "name", name_json(trace));
        (void)json_object_set_new(object, "threads", integer(trace->thread_count));
        (void)json_object_set_new(object, "clock", json_string(clocks[trace->clock]));
        (void)json_object_set_new(object, "marks", marks_json(trace));
        (void)json_object_set_new(object, "blocks", blocks_json(trace, &columns));
        (void)json_object_set_new(object, "tags", tags);
        (void)json_object_set_new(object, "stacks", stacks_json(trace));
        json_t *results = json_object_get(object, "results");
        for (size_t i = 0; i < comparison->result_count; i++) {
            json_t *result = json_array_get(results, i);
            (void)json_object_set_new(result, "series", series_json(&comparison->results[i]));
            (void)json_object_set_new(result, "regions", regions_json(&comparison->results[i]));
            (void)json_object_set_new(result, "place", places_json(&comparison->results[i], &columns));
        }
    }
    free(columns.order);
    free(columns.row);
    return object;
}

static json_t *report_json(const struct report_context *context, const struct comparison *comparisons, size_t count)
{
    json_t *traces = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *trace = trace_json(&comparisons[i]);
        if (trace == NULL || json_array_append_new(traces, trace) != 0) {
            json_decref(traces);
            return NULL;
        }
    }
    json_t *data =
        json_pack("{s:s, s:o, s:I, s:I, s:o}", "version", weir_version(), "command", json_text(context->command),
                  "capacity", (json_int_t)context->capacity, "seed", (json_int_t)context->seed, "traces", traces);
    if (json_lacks_memory()) { /* values are missing, so columns would be shifted */
        json_decref(data);
        return NULL;
    }
    return data;
}

static int write_escaped(const char *text, size_t length, void *ctx)
{
    FILE *out = ctx;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '<') {
            (void)fputs("\\u003c", out);
        } else {
            (void)fputc(text[i], out);
        }
    }
    return ferror(out) ? -1 : 0;
}

static bool write_page(FILE *out, const json_t *data)
{
    const char *split = strstr(report_page, placeholder);
    if (split == NULL) {
        return false;
    }
    (void)fwrite(report_page, 1, (size_t)(split - report_page), out);
    const bool written = json_dump_callback(data, write_escaped, out, JSON_COMPACT | JSON_REAL_PRECISION(6)) == 0;
    (void)fputs(split + sizeof(placeholder) - 1, out);
    return written && ferror(out) == 0;
}

bool output_report(struct out_file *file, const struct report_context *context, const struct comparison *comparisons,
                   size_t count, char *error, size_t error_size)
{
    json_t *data = report_json(context, comparisons, count);
    FILE *out = data != NULL ? fdopen(file->fd, "w") : NULL;
    if (out == NULL) {
        (void)snprintf(error, error_size, "no host memory for the report");
        json_decref(data);
        return false;
    }
    (void)out_file_take(file); /* the stream closes it */
    errno = 0;
    bool written = write_page(out, data);
    int why = errno;
    json_decref(data);
    if (fclose(out) != 0) {
        why = written ? errno : why;
        written = false;
    }
    if (!written) {
        (void)snprintf(error, error_size, "could not be written whole: %s",
                       why != 0 ? strerror(why) : "no host memory");
        return false;
    }
    if (!out_file_finish(file)) {
        (void)snprintf(error, error_size, "could not be put in its place: %s", strerror(errno));
        return false;
    }
    return true;
}
