/* operator_memory.c: the blocks of operator_memory.csv, which the profilers of torch_npu, MindSpore and CANN write: one
 * row for each block.
 *
 * A block is free from its release on, or from its active release if that is later: another stream used it until then.
 * A row without a release is live to the end. A block from before the recording is live from the start: its row has no
 * allocation time, or its size is negative and its allocation time is that of the release.
 */
#include "before.h"
#include "csv_read.h"

#include <inttypes.h>
#include <string.h>

#define BYTES_OF_KB 1024
#define BYTES_OF_MB 1048576
#define NS_OF_US 1000
#define MOST_SIZE (UINT64_C(1) << 62)
#define KEY_COUNTERS UINT64_MAX

struct rows {
    struct csv_import *import;
    size_t name, size, alloc, release, active, duration, stream, device;
    size_t totals[2]; /* allocated and reserved bytes after the allocation */
    size_t totals_after[2];
    uint64_t count;
    uint64_t backwards; /* release before the allocation */
    uint64_t empty;     /* size 0, live from the start */
    uint64_t engine;    /* rows of the graph engine */
    struct before before;
    uint64_t named_bytes;   /* of blocks from before the recording that have rows */
    uint64_t unnamed_bytes; /* of blocks from before the recording that have none */
    weir_trace_event first; /* the first block of the framework's allocator */
    bool has_first;
    bool several; /* blocks of several devices: the totals of each are not told apart */
};

struct row {
    weir_trace_event event;
    bool negative;
    bool has_alloc, has_release;
    bool gave_back; /* the program's release is known */
    uint64_t alloc;
    uint64_t release;  /* the time from which on the block is free */
    uint64_t released; /* the program's release */
};

/* Reads the time in a column; *has is false if the field is empty. */
static bool read_time(struct rows *rows, size_t column, bool *has, uint64_t *time)
{
    *has = !csv_empty(csv_get(&rows->import->csv, column));
    return !*has || csv_scaled(&rows->import->csv, column, "microseconds", NS_OF_US, NULL, time);
}

static bool read_release(struct rows *rows, struct row *row)
{
    bool has_active;
    bool has_duration;
    uint64_t active = 0;
    uint64_t duration = 0;
    if (!read_time(rows, rows->release, &row->has_release, &row->release) ||
        !read_time(rows, rows->active, &has_active, &active) ||
        !read_time(rows, rows->duration, &has_duration, &duration)) {
        return false;
    }
    row->gave_back = row->has_release;
    row->released = row->release;
    if (has_active && (!row->has_release || active > row->release)) {
        row->release = active;
        row->has_release = true;
    }
    if (!row->has_release && has_duration && row->has_alloc && !row->negative && duration <= UINT64_MAX - row->alloc) {
        row->release = row->alloc + duration;
        row->has_release = true;
    }
    return true;
}

static bool read_row(struct rows *rows, struct row *row)
{
    struct csv_import *import = rows->import;
    const struct csv_field name = csv_get(&import->csv, rows->name);
    *row = (struct row){.event = blank_event(WEIR_TRACE_ALLOC)};
    if (!csv_scaled(&import->csv, rows->size, "a number of KB", BYTES_OF_KB, &row->negative, &row->event.size) ||
        !read_time(rows, rows->alloc, &row->has_alloc, &row->alloc) || !read_release(rows, row) ||
        !csv_device(import, rows->device, &row->event.device) ||
        !csv_stream(import, row->event.device, csv_get(&import->csv, rows->stream), &row->event.stream) ||
        !calls_tag(&import->builder, &import->tags, name.text, name.length, &row->event.tag)) {
        return false;
    }
    if (name.length >= 6 && memcmp(name.text, "cann::", 6) == 0) {
        row->event.pool = 0;
        rows->engine++;
    }
    if (row->negative && !row->has_release) {
        row->release = row->alloc;
        row->has_release = row->has_alloc;
    }
    row->has_alloc = row->has_alloc && !row->negative;
    return true;
}

/* Adds the allocator's totals after an event of a row: its reserved bytes as counters, its allocated bytes to tell the
 * memory from before the recording. */
static bool add_total(struct rows *rows, const struct row *row, const size_t columns[2], uint64_t time, int64_t change)
{
    struct csv *csv = &rows->import->csv;
    weir_trace_event event = blank_event(WEIR_TRACE_COUNTERS);
    bool negative[2] = {false, false};
    if (csv_empty(csv_get(csv, columns[0])) || csv_empty(csv_get(csv, columns[1]))) {
        return before_add(&rows->before, time, change, BEFORE_NO_TOTAL) || csv_no_memory(csv);
    }
    event.device = row->event.device;
    if (!csv_scaled(csv, columns[0], "a number of MB", BYTES_OF_MB, &negative[0], &event.extra) ||
        !csv_scaled(csv, columns[1], "a number of MB", BYTES_OF_MB, &negative[1], &event.size)) {
        return false;
    }
    const bool known = !negative[0] && !negative[1] && event.size >= event.extra;
    return (before_add(&rows->before, time, change, known ? event.extra : BEFORE_NO_TOTAL) || csv_no_memory(csv)) &&
           (!known || calls_add(&rows->import->calls, time, KEY_COUNTERS, &event));
}

/* Adds the totals of a row of the framework's allocator. Totals count a block until its release, also if another
 * stream uses it longer. */
static bool add_totals(struct rows *rows, const struct row *row)
{
    const int64_t size = (int64_t)(row->event.size < MOST_SIZE ? row->event.size : MOST_SIZE);
    if (row->event.pool != WEIR_TRACE_NONE) {
        return true;
    }
    rows->several = rows->several || (rows->has_first && row->event.device != rows->first.device);
    rows->first = rows->has_first ? rows->first : row->event;
    rows->has_first = true;
    rows->named_bytes += row->has_alloc ? 0 : row->event.size;
    return (!row->has_alloc || add_total(rows, row, rows->totals, row->alloc, size)) &&
           (!row->gave_back || add_total(rows, row, rows->totals_after, row->released, -size));
}

static bool add_block(struct rows *rows, const struct row *row)
{
    struct call_list *calls = &rows->import->calls;
    weir_trace_event end = row->event;
    weir_trace_event begin = row->event;
    const uint64_t key = rows->count++;
    end.kind = WEIR_TRACE_FREE;
    if (!row->has_alloc && row->event.size == 0) {
        rows->empty++;
        return true;
    }
    if (!row->has_alloc && !row->has_release) {
        begin.kind = WEIR_TRACE_PRIOR;
        return calls_add(calls, 0, key, &begin);
    }
    if (row->has_alloc && !calls_add(calls, row->alloc, key, &begin)) {
        return false;
    }
    if (row->has_alloc && row->has_release && row->release < row->alloc) {
        rows->backwards++;
        return true;
    }
    return !row->has_release || calls_add(calls, row->release, key, &end);
}

static bool add_row(void *ctx)
{
    struct row row;
    return read_row(ctx, &row) && add_block(ctx, &row) && add_totals(ctx, &row);
}

/* Adds a part of the memory from before the recording. */
static bool add_unnamed(void *ctx, uint64_t bytes, uint64_t freed)
{
    struct rows *rows = ctx;
    struct call_list *calls = &rows->import->calls;
    const uint64_t key = rows->count++;
    weir_trace_event event = rows->first;
    const bool stays = freed == BEFORE_NEVER;
    event.kind = WEIR_TRACE_PRIOR;
    event.size = !stays ? bytes : bytes > rows->named_bytes ? bytes - rows->named_bytes : 0;
    if (event.size == 0) {
        return true;
    }
    rows->unnamed_bytes += event.size;
    if (!calls_tag(&rows->import->builder, &rows->import->tags, BEFORE_TAG, strlen(BEFORE_TAG), &event.tag) ||
        !calls_add(calls, 0, key, &event)) {
        return false;
    }
    event.kind = WEIR_TRACE_FREE;
    return stays || calls_add(calls, freed, key, &event);
}

static bool note_rows(const struct rows *rows)
{
    static const char always[] =
        "one row for each block: the file has no requests (sizes are the allocator's, in KB), no "
        "addresses, threads or segments, and names no streams that used a block";
    struct trace_builder *builder = &rows->import->builder;
    static const char apart[] = "the totals are those of the framework's allocator, without the graph engine's pool";
    return builder_note(builder, always, strlen(always)) &&
           builder_note_count(builder, rows->unnamed_bytes, "bytes were live before the record and have no rows") &&
           (rows->engine == 0 || rows->several || !rows->has_first ||
            builder_recorded_note(builder, apart, strlen(apart))) &&
           builder_note_count(builder, rows->engine,
                              "rows (cann::) are of the graph engine: no stream, and pool 0 of their own") &&
           builder_note_count(builder, rows->backwards, "rows end before they begin; these blocks stay live") &&
           builder_note_count(builder, rows->empty, "rows without bytes are left out");
}

bool operator_memory_read(struct csv_import *import)
{
    const struct csv *csv = &import->csv;
    struct rows rows = {
        .import = import,
        .name = csv_column(csv, "Name"),
        .size = csv_column(csv, "Size(KB)"),
        .alloc = csv_column(csv, "Allocation Time(us)"),
        .release = csv_column(csv, "Release Time(us)"),
        .active = csv_column(csv, "Active Release Time(us)"),
        .duration = csv_column(csv, "Duration(us)"),
        .stream = csv_column(csv, "Stream Ptr"),
        .device = csv_column(csv, "Device Type|Device|Device_id"),
        .totals = {csv_column(csv, "Allocation Total Allocated(MB)"), csv_column(csv, "Allocation Total Reserved(MB)")},
        .totals_after = {csv_column(csv, "Release Total Allocated(MB)"), csv_column(csv, "Release Total Reserved(MB)")},
    };
    bool done = csv_each(import, add_row, &rows) && (rows.several || before_find(&rows.before, add_unnamed, &rows));
    if (done) {
        calls_sort(&import->calls, false);
        calls_keep_changes(&import->calls, rows.several);
        done = note_rows(&rows) && calls_write(&import->calls, calls_begin(&import->calls));
    }
    before_free(&rows.before);
    return done;
}
