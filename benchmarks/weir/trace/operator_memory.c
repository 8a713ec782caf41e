/* operator_memory.c: the blocks of operator_memory.csv, which the profilers of torch_npu, MindSpore and CANN write: one
 * row for each block.
 *
 * A block is free from its release on, or from its active release if that is later: another stream used it until then.
 * A row without a release is live to the end. A block from before the recording is live from the start: its row has no
 * allocation time, or its size is negative and its allocation time is that of the release.
 */
#include "csv_read.h"

#include <inttypes.h>
#include <string.h>

#define BYTES_OF_KB 1024
#define BYTES_OF_MB 1048576
#define NS_OF_US 1000

struct rows {
    struct csv_import *import;
    size_t name, size, alloc, release, active, duration, stream, device, total;
    uint64_t count;
    uint64_t backwards;  /* release before the allocation */
    uint64_t empty;      /* size 0, live from the start */
    uint64_t engine;     /* rows of the graph engine */
    uint64_t first_time; /* time of the earliest allocation that has a total of allocated bytes */
    uint64_t first_live; /* bytes allocated just before first_time */
};

struct row {
    weir_trace_event event;
    bool negative;
    bool has_alloc, has_release;
    uint64_t alloc, release;
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

/* Keeps the allocator's total of bytes at the earliest allocation. The bytes allocated before the recording follow
 * from it. */
static bool note_total(struct rows *rows, const struct row *row)
{
    bool negative;
    uint64_t total;
    if (!row->has_alloc || row->event.pool != WEIR_TRACE_NONE || csv_empty(csv_get(&rows->import->csv, rows->total)) ||
        row->alloc >= rows->first_time) {
        return true;
    }
    if (!csv_scaled(&rows->import->csv, rows->total, "a number of MB", BYTES_OF_MB, &negative, &total)) {
        return false;
    }
    rows->first_time = row->alloc;
    rows->first_live = !negative && total > row->event.size ? total - row->event.size : 0;
    return true;
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
    return read_row(ctx, &row) && note_total(ctx, &row) && add_block(ctx, &row);
}

static bool note_rows(const struct rows *rows)
{
    static const char always[] =
        "one row for each block: the file has no requests (sizes are the allocator's, in KB), no "
        "addresses, threads or segments, and names no streams that used a block";
    struct trace_builder *builder = &rows->import->builder;
    return builder_note(builder, always, strlen(always)) &&
           builder_note_count(builder, rows->first_live, "bytes were live before the record and have no rows") &&
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
        .total = csv_column(csv, "Allocation Total Allocated(MB)"),
        .first_time = UINT64_MAX,
    };
    if (!csv_each(import, add_row, &rows)) {
        return false;
    }
    calls_sort(&import->calls, false);
    return note_rows(&rows) && calls_write(&import->calls, calls_begin(&import->calls));
}
