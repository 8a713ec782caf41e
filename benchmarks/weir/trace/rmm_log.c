/* rmm_log.c: the log of RMM's logging_resource_adaptor: Thread,Time,Action,Pointer,Size,Stream.
 *
 * The order of the lines is the order of the calls: RMM logs an allocation after it has made it, and a free before it
 * makes it, so an address is free before it is logged again. Times are times of day, taken before the log's lock; a
 * small step back counts as no time, a large one as midnight.
 */
#include "csv_read.h"

#include <inttypes.h>
#include <string.h>

#define NS_OF_SECOND UINT64_C(1000000000)
#define NS_OF_DAY (86400 * NS_OF_SECOND)

struct rmm_log {
    struct csv_import *import;
    size_t thread, time, action, pointer, size, stream;
    uint64_t day;      /* start of the present day in ns; the log has times of day */
    uint64_t previous; /* time of day of the previous line */
    uint64_t now;      /* time of the present line, never less than that of the line before */
    uint64_t failures;
    uint64_t nothing; /* calls with a null pointer */
};

/* Parses HH:MM:SS with an optional fraction of a second. */
static bool parse_time(struct csv_field field, uint64_t *time)
{
    uint64_t hours, minutes, seconds;
    uint64_t fraction = 0;
    uint64_t unit = NS_OF_SECOND;
    if (field.length < 8 || field.text[2] != ':' || field.text[5] != ':' || !csv_parse_decimal(field.text, 2, &hours) ||
        !csv_parse_decimal(field.text + 3, 2, &minutes) || !csv_parse_decimal(field.text + 6, 2, &seconds) ||
        hours > 23 || minutes > 59 || seconds > 60) {
        return false;
    }
    if (field.length > 8) {
        if (field.text[8] != '.' || field.length > 18 ||
            !csv_parse_decimal(field.text + 9, field.length - 9, &fraction)) {
            return false;
        }
        for (size_t i = 9; i < field.length; i++) {
            unit /= 10;
        }
    }
    *time = ((hours * 60 + minutes) * 60 + seconds) * NS_OF_SECOND + fraction * unit;
    return true;
}

static bool read_time(struct rmm_log *log)
{
    uint64_t time;
    if (!parse_time(csv_get(&log->import->csv, log->time), &time)) {
        return csv_refuse(&log->import->csv, log->time, "a time of day HH:MM:SS.uuuuuu");
    }
    if (time + NS_OF_DAY / 2 < log->previous) {
        log->day += NS_OF_DAY;
    }
    log->previous = time;
    log->now = log->day + time > log->now ? log->day + time : log->now;
    return true;
}

static bool read_action(struct rmm_log *log, weir_trace_kind *kind)
{
    const struct csv_field action = csv_get(&log->import->csv, log->action);
    if (csv_is(action, "allocate")) {
        *kind = WEIR_TRACE_ALLOC;
    } else if (csv_is(action, "free") || csv_is(action, "deallocate")) {
        *kind = WEIR_TRACE_FREE;
    } else if (csv_is(action, "allocate failure")) {
        *kind = WEIR_TRACE_OOM;
    } else {
        return csv_refuse(&log->import->csv, log->action, "allocate, free or allocate failure");
    }
    return true;
}

static bool add_line(void *ctx)
{
    struct rmm_log *log = ctx;
    struct csv_import *import = log->import;
    struct csv *csv = &import->csv;
    weir_trace_kind kind = WEIR_TRACE_ALLOC;
    uint64_t pointer;
    if (!read_time(log) || !read_action(log, &kind)) {
        return false;
    }
    weir_trace_event event = blank_event(kind);
    if (!csv_hexadecimal(csv, log->pointer, "an address", &pointer) ||
        !csv_decimal(csv, log->size, "a number of bytes", &event.size)) {
        return false;
    }
    if (kind == WEIR_TRACE_OOM) {
        log->failures++;
        return calls_add(&import->calls, log->now, 0, &event);
    }
    if (pointer == 0) {
        log->nothing++;
        return true;
    }
    event.address = pointer;
    return csv_thread(import, csv_get(csv, log->thread), &event.thread) &&
           csv_stream(import, 0, csv_get(csv, log->stream), &event.stream) &&
           calls_add(&import->calls, log->now, pointer, &event);
}

static bool note_log(const struct rmm_log *log)
{
    static const char always[] =
        "the log is of one memory resource and names no device; it does not tell which streams "
        "use a block, nor what RMM took from the driver";
    struct trace_builder *builder = &log->import->builder;
    return builder_note(builder, always, strlen(always)) &&
           builder_note_count(builder, log->failures,
                              "allocations failed; the log does not tell how much memory was free, and 0 "
                              "stands for it") &&
           builder_note_count(builder, log->nothing, "calls with a null pointer are left out");
}

bool rmm_log_read(struct csv_import *import)
{
    const struct csv *csv = &import->csv;
    struct rmm_log log = {
        .import = import,
        .thread = csv_column(csv, "Thread"),
        .time = csv_column(csv, "Time"),
        .action = csv_column(csv, "Action"),
        .pointer = csv_column(csv, "Pointer"),
        .size = csv_column(csv, "Size"),
        .stream = csv_column(csv, "Stream"),
    };
    if (!csv_each(import, add_line, &log)) {
        return false;
    }
    return note_log(&log) && calls_write(&import->calls, calls_begin(&import->calls));
}
