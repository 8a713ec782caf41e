/* output_report.c: writes the page of `weir replay --report`: report.html with the data in it.
 *
 * The page is one file that loads no other file. The figures and texts stand in a script element of type
 * application/json, so "<" is written as \u003c and no text of a trace can end the element. Blocks, regions and series
 * stand in columns (column.h). Numbers that follow from others are left out, and a number is written as a difference
 * from one that is probably equal: ten million events with five strategies take some 30 MB. The columns stream to the
 * file one after the other; beside the memory of the replay, the page takes 20 bytes for each block of one trace, and
 * up to 80 for each size of a block.
 */
#include "column.h"
#include "json.h"
#include "output.h"

#include "shared/number_map.h"

#include <weir/base.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report_page.h" /* report_page[]: the page as a string, made by the build from report/ */

enum { marks_kept = 2000, times_kept = 1000 };

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

static size_t count_marks(const struct trace *trace)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        count += trace->events[i].event.kind == WEIR_TRACE_MARK;
    }
    return count;
}

/* Pairs of an event and its time for an axis, evenly spread over the events; empty if the trace has no times. */
static json_t *times_json(const struct trace *trace)
{
    json_t *times = json_array();
    const size_t last = trace->event_count - 1, stride = trace->event_count / times_kept + 1;
    if (trace->clock != TRACE_CLOCK_NS || trace->event_count == 0 || trace->events[last].event.time_ns == 0) {
        return times;
    }
    for (size_t i = 0; i < last; i += stride) {
        (void)json_array_append_new(times, json_pack("[I, I]", (json_int_t)trace_event_number(trace, i),
                                                     (json_int_t)trace->events[i].event.time_ns));
    }
    (void)json_array_append_new(times, json_pack("[I, I]", (json_int_t)trace_event_number(trace, last),
                                                 (json_int_t)trace->events[last].event.time_ns));
    return times;
}

/* The blocks of a trace, a row for each: first the blocks from before the window, then the others in the order of
 * their events. A class of sizes has all blocks of one requested size; the first row has class 0, and each new size has
 * the next number. */
struct block_row {
    size_t event; /* index of the event that allocates the block */
    uint32_t stream;
    uint32_t sort; /* class */
};

struct size_class {
    uint64_t size;     /* bytes */
    uint64_t capacity; /* report column being written: last capacity of this size class */
    uint64_t address;  /* report column being written: last address of this size class */
};

struct block_rows {
    struct block_row *rows;
    size_t count;
    size_t prior;  /* number of rows of blocks that were live before the window */
    uint32_t *row; /* block index -> row */
    struct size_class *classes;
    size_t class_count;
    weir__number_map class_by_size; /* size -> class number + 1 */
};

static void free_rows(struct block_rows *rows)
{
    free(rows->rows);
    free(rows->row);
    free(rows->classes);
    weir__number_map_fini(&rows->class_by_size);
}

/* Finds the class of a size, or makes one if the size is new. Returns false when out of host memory. */
static bool class_of(struct block_rows *rows, uint64_t size, uint32_t *sort)
{
    uint64_t found = weir__number_map_get(&rows->class_by_size, size);
    if (found == 0) {
        rows->classes[rows->class_count].size = size;
        found = ++rows->class_count;
        if (!weir__number_map_put(&rows->class_by_size, size, found)) {
            return false;
        }
    }
    *sort = (uint32_t)(found - 1);
    return true;
}

static bool add_row(struct block_rows *rows, const struct trace *trace, size_t i)
{
    const struct trace_event *event = &trace->events[i];
    const bool moved = event->event.kind == WEIR_TRACE_REALLOC;
    struct block_row *row = &rows->rows[rows->count];
    rows->row[event->index] = (uint32_t)rows->count++;
    row->event = i;
    row->stream = moved ? rows->rows[rows->row[event->old_index]].stream : event->event.stream;
    return class_of(rows, event->event.size, &row->sort);
}

/* Fills in the rows and the classes of a trace. Returns false when out of host memory. The caller frees them in either
 * case. */
static bool find_rows(struct block_rows *rows, const struct trace *trace)
{
    const size_t most = (size_t)trace->block_count + 1;
    rows->rows = calloc(most, sizeof(*rows->rows));
    rows->row = calloc(most, sizeof(*rows->row));
    rows->classes = calloc(most, sizeof(*rows->classes));
    bool done = rows->rows != NULL && rows->row != NULL && rows->classes != NULL;
    for (size_t i = 0; done && i < trace->event_count; i++) {
        done = trace->events[i].event.kind != WEIR_TRACE_PRIOR || add_row(rows, trace, i);
    }
    rows->prior = rows->count;
    for (size_t i = 0; done && i < trace->event_count; i++) {
        const weir_trace_kind kind = trace->events[i].event.kind;
        done = (kind != WEIR_TRACE_ALLOC && kind != WEIR_TRACE_REALLOC) || add_row(rows, trace, i);
    }
    return done;
}

/* Writes the columns of the report page, each a script element with the ID "TRACE.NAME" or "TRACE.RESULT.NAME". The
 * comment of a write_ function lists the numbers in its column; `report.html` reads them in the same order. */
struct columns {
    FILE *out;
    size_t trace;
    size_t result;
    bool failed; /* zlib had no host memory */
    struct column now;
};

static void begin_trace_column(struct columns *columns, const char *name)
{
    char id[64];
    (void)snprintf(id, sizeof(id), "%zu.%s", columns->trace, name);
    column_begin(&columns->now, columns->out, id);
}

static void begin_result_column(struct columns *columns, const char *name)
{
    char id[64];
    (void)snprintf(id, sizeof(id), "%zu.%zu.%s", columns->trace, columns->result, name);
    column_begin(&columns->now, columns->out, id);
}

static void end_column(struct columns *columns)
{
    columns->failed |= !column_end(&columns->now);
}

enum { event_allocates = 1, event_frees = 2 };

static uint64_t kind_of_event(const struct trace_event *event)
{
    switch (event->event.kind) {
    case WEIR_TRACE_ALLOC:
        return event_allocates;
    case WEIR_TRACE_FREE:
        return event_frees;
    case WEIR_TRACE_REALLOC:
        return event_allocates | event_frees;
    default:
        return 0;
    }
}

/* Column "events" of the report page: the number of blocks; the number of those from before the window; then, for each
 * run of events of one kind, 4 * length + kind. Events of other devices have kind 0. */
static void write_events(struct columns *columns, const struct trace *trace, const struct block_rows *rows)
{
    uint64_t kind = 0;
    uint64_t length = 0;
    uint64_t next = 0; /* number of the next event */
    begin_trace_column(columns, "events");
    column_put(&columns->now, rows->count);
    column_put(&columns->now, rows->prior);
    for (size_t i = 0; i <= trace->event_count; i++) {
        const bool beyond = i == trace->event_count;
        const uint64_t number = beyond ? trace->file_event_count : trace_event_number(trace, i);
        const uint64_t parts[2][2] = {{0, number - next}, {beyond ? 0 : kind_of_event(&trace->events[i]), !beyond}};
        for (size_t part = 0; part < 2; part++) {
            if (parts[part][1] > 0 && parts[part][0] != kind) {
                if (length > 0) {
                    column_put(&columns->now, 4 * length + kind);
                }
                kind = parts[part][0];
                length = 0;
            }
            length += parts[part][1];
        }
        next = number + 1;
    }
    column_put(&columns->now, 4 * length + kind);
    end_column(columns);
}

/* Column "freed" of the report page: per freed block, the number of blocks that began between it and its free. */
static void write_freed(struct columns *columns, const struct trace *trace, const struct block_rows *rows)
{
    size_t present = rows->prior;
    begin_trace_column(columns, "freed");
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        const uint64_t kind = kind_of_event(event);
        present += (kind & event_allocates) != 0;
        if ((kind & event_frees) != 0) {
            const uint32_t block = kind == event_frees ? event->index : event->old_index;
            column_put(&columns->now, present - 1 - rows->row[block]);
        }
    }
    end_column(columns);
}

/* Columns of the report page. "sizes": the number of size classes, then the bytes of each. "sort": per block 0 if it is
 * the first of its class, else the class number + 1. "stream", "tag": per block its stream; its tag + 1, or 0. */
static void write_rows(struct columns *columns, const struct trace *trace, const struct block_rows *rows)
{
    begin_trace_column(columns, "sizes");
    column_put(&columns->now, rows->class_count);
    for (size_t i = 0; i < rows->class_count; i++) {
        column_put(&columns->now, rows->classes[i].size);
    }
    end_column(columns);
    begin_trace_column(columns, "sort");
    uint32_t known = 0;
    for (size_t row = 0; row < rows->count; row++) {
        const bool first = rows->rows[row].sort == known;
        known += first;
        column_put(&columns->now, first ? 0 : (uint64_t)rows->rows[row].sort + 1);
    }
    end_column(columns);
    begin_trace_column(columns, "stream");
    for (size_t row = 0; row < rows->count; row++) {
        column_put(&columns->now, rows->rows[row].stream);
    }
    end_column(columns);
    begin_trace_column(columns, "tag");
    for (size_t row = 0; row < rows->count; row++) {
        const uint32_t tag = trace->events[rows->rows[row].event].event.tag;
        column_put(&columns->now, tag == WEIR_TRACE_NONE ? 0 : (uint64_t)tag + 1);
    }
    end_column(columns);
}

/* Column series: the number of points; then for each point the event, the live, the reserved and the pending bytes,
 * each as the difference from the previous point. */
static void write_series(struct columns *columns, const struct replay_result *result)
{
    struct replay_point last = {0};
    begin_result_column(columns, "series");
    column_put(&columns->now, result->point_count);
    for (size_t i = 0; i < result->point_count; i++) {
        const struct replay_point *point = &result->points[i];
        column_put(&columns->now, point->event - last.event);
        column_put(&columns->now, column_signed((int64_t)(point->live - last.live)));
        column_put(&columns->now, column_signed((int64_t)(point->reserved - last.reserved)));
        column_put(&columns->now, column_signed((int64_t)(point->pending - last.pending)));
        last = *point;
    }
    end_column(columns);
}

static int compare_regions(const void *first, const void *second)
{
    const struct replay_region *a = *(const struct replay_region *const *)first;
    const struct replay_region *b = *(const struct replay_region *const *)second;
    if (a->added != b->added) {
        return a->added < b->added ? -1 : 1;
    }
    return a < b ? -1 : a > b; /* pointers into one array */
}

/* Column regions: the number of regions; then five numbers for each region, in the order of addition. 1: the event that
 * added it, as the difference from the previous region's event (first region: event + 1). 2: 0 if it stays, else the
 * number of events until its removal + 1. 3: its address minus the end of the previous region. 4: its size. 5: 1 for a
 * mapping. */
static bool write_regions(struct columns *columns, const struct replay_result *result)
{
    const struct replay_region **sorted = calloc(result->region_count + 1, sizeof(*sorted));
    if (sorted == NULL) {
        return false;
    }
    for (size_t i = 0; i < result->region_count; i++) {
        sorted[i] = &result->regions[i];
    }
    qsort(sorted, result->region_count, sizeof(*sorted), compare_regions);
    int64_t added = -1;
    uint64_t end = 0;
    begin_result_column(columns, "regions");
    column_put(&columns->now, result->region_count);
    for (size_t i = 0; i < result->region_count; i++) {
        const struct replay_region *region = sorted[i];
        column_put(&columns->now, (uint64_t)(region->added - added));
        column_put(&columns->now, region->removed < 0 ? 0 : (uint64_t)(region->removed - region->added) + 1);
        column_put(&columns->now, column_signed((int64_t)(region->address - end)));
        column_put(&columns->now, region->size);
        column_put(&columns->now, region->mapped);
        added = region->added;
        end = region->address + region->size;
    }
    end_column(columns);
    free((void *)sorted);
    return true;
}

/* Returns the address that the report page shows for a block; 0 if it has none, or none that fits an int64_t. */
static uint64_t shown_address(const struct replay_place *place)
{
    return place->address > INT64_MAX ? 0 : place->address;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Returns the greatest common divisor of the addresses of all blocks and regions; 1 if there are no addresses. */
static uint64_t unit_of(const struct replay_result *result, const struct trace *trace)
{
    uint64_t unit = 0;
    for (uint32_t i = 0; i < trace->block_count && unit != 1; i++) {
        unit = common_divisor(unit, shown_address(&result->places[i]));
    }
    for (size_t i = 0; i < result->region_count && unit != 1; i++) {
        unit = common_divisor(unit, result->regions[i].address);
    }
    return unit != 0 ? unit : 1;
}

/* Column capacity: the greatest capacity; then the changes. A row is a change if its capacity differs from that of the
 * previous row of its class (first row of a class: from the size). A change has two numbers: the count of unchanged
 * rows before it, and the difference as a signed number. The last number is the count of unchanged rows at the end. */
static void write_capacities(struct columns *columns, const struct trace *trace, const struct replay_result *result,
                             struct block_rows *rows)
{
    uint64_t greatest = 0;
    for (uint32_t i = 0; i < trace->block_count; i++) {
        greatest = result->places[i].capacity > greatest ? result->places[i].capacity : greatest;
    }
    for (size_t i = 0; i < rows->class_count; i++) {
        greatest = rows->classes[i].size > greatest ? rows->classes[i].size : greatest;
        rows->classes[i].capacity = rows->classes[i].size;
    }
    begin_result_column(columns, "capacity");
    column_put(&columns->now, greatest);
    size_t same = 0;
    for (size_t row = 0; row < rows->count; row++) {
        const uint64_t capacity = result->places[trace->events[rows->rows[row].event].index].capacity;
        uint64_t *last = &rows->classes[rows->rows[row].sort].capacity;
        if (capacity == *last) {
            same++;
            continue;
        }
        column_put(&columns->now, same);
        column_put(&columns->now, column_signed((int64_t)(capacity - *last)));
        *last = capacity;
        same = 0;
    }
    column_put(&columns->now, same);
    end_column(columns);
}

/* Column "address" of the report page: the unit; then per block 0 if it was not placed, else 1 + a signed difference in
 * units: the block's address minus the address last written for a block of its class. The first placed block of a class
 * is compared with the block written before it. */
static void write_places(struct columns *columns, const struct trace *trace, const struct replay_result *result,
                         struct block_rows *rows)
{
    write_capacities(columns, trace, result, rows);
    begin_result_column(columns, "address");
    const uint64_t unit = unit_of(result, trace);
    column_put(&columns->now, unit);
    for (size_t i = 0; i < rows->class_count; i++) {
        rows->classes[i].address = 0;
    }
    uint64_t before = 0;
    for (size_t row = 0; row < rows->count; row++) {
        const uint64_t address = shown_address(&result->places[trace->events[rows->rows[row].event].index]) / unit;
        uint64_t *last = &rows->classes[rows->rows[row].sort].address;
        if (address == 0) {
            column_put(&columns->now, 0);
            continue;
        }
        const uint64_t expected = *last != 0 ? *last : before;
        column_put(&columns->now, 1 + column_signed((int64_t)(address - expected)));
        *last = before = address;
    }
    end_column(columns);
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

/* Returns the call stack of each tag, one frame a line; null for a tag without a stack. */
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
    json_t *object = output_json(comparison);
    if (object != NULL) {
        json_t *tags = json_array();
        for (uint32_t i = 0; i < trace->tag_count; i++) {
            (void)json_array_append_new(tags, json_text(trace->tags[i] != NULL ? trace->tags[i] : ""));
        }
        (void)json_object_set_new(object, "path", json_text(trace->path));
        (void)json_object_set_new(object, "name", name_json(trace));
        (void)json_object_set_new(object, "threads", integer(trace->thread_count));
        (void)json_object_set_new(object, "times", times_json(trace));
        (void)json_object_set_new(object, "clock", json_string(clocks[trace->clock]));
        (void)json_object_set_new(object, "marks", marks_json(trace));
        (void)json_object_set_new(object, "marks_total", integer((int64_t)count_marks(trace)));
        (void)json_object_set_new(object, "tags", tags);
        (void)json_object_set_new(object, "stacks", stacks_json(trace));
    }
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
    if (json_lacks_memory()) { /* values are missing */
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

/* Writes the columns of all traces. Returns false when out of host memory. */
static bool write_columns(FILE *out, const struct comparison *comparisons, size_t count)
{
    struct columns columns = {.out = out};
    bool complete = true;
    for (; complete && columns.trace < count; columns.trace++) {
        const struct comparison *comparison = &comparisons[columns.trace];
        struct block_rows rows = {0};
        complete = find_rows(&rows, comparison->trace);
        if (complete) {
            write_events(&columns, comparison->trace, &rows);
            write_freed(&columns, comparison->trace, &rows);
            write_rows(&columns, comparison->trace, &rows);
        }
        for (columns.result = 0; complete && columns.result < comparison->result_count; columns.result++) {
            const struct replay_result *result = &comparison->results[columns.result];
            write_series(&columns, result);
            complete = write_regions(&columns, result);
            write_places(&columns, comparison->trace, result, &rows);
        }
        free_rows(&rows);
    }
    return complete && !columns.failed;
}

/* Writes the page up to a placeholder, and returns the text behind the placeholder; NULL if the page lacks the
 * placeholder. */
static const char *write_part(FILE *out, const char *page, const char *placeholder)
{
    const char *split = page != NULL ? strstr(page, placeholder) : NULL;
    if (split == NULL) {
        return NULL;
    }
    (void)fwrite(page, 1, (size_t)(split - page), out);
    return split + strlen(placeholder);
}

static bool write_page(FILE *out, const json_t *data, const struct comparison *comparisons, size_t count)
{
    const char *page = write_part(out, report_page, "@WEIR_DATA@");
    if (page == NULL || json_dump_callback(data, write_escaped, out, JSON_COMPACT | JSON_REAL_PRECISION(6)) != 0) {
        return false;
    }
    page = write_part(out, page, "@WEIR_COLUMNS@\n");
    if (page == NULL || !write_columns(out, comparisons, count)) {
        return false;
    }
    (void)fputs(page, out);
    return ferror(out) == 0;
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
    bool written = write_page(out, data, comparisons, count);
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
