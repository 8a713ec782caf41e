/* memory_record.c: memory_record.csv of the profilers of torch_npu, MindSpore and CANN: totals over time for each
 * component. It has no blocks, so the trace has counters only, of one component on one device.
 */
#include "csv_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NS_OF_US 1000

/* The trace gets the totals of one component: the first of these that the file has, else the first in the file. */
static const char *const preferred[] = {"PTA", "MindSpore", "PTA+GE", "GE"};

struct record {
    struct csv_import *import;
    size_t component, time, allocated, reserved, device;
    uint64_t unit; /* bytes */
    uint64_t allocated_unit;
    struct name_list components;
};

static void find_columns(struct record *record)
{
    const struct csv *csv = &record->import->csv;
    record->component = csv_column(csv, "Component");
    record->time = csv_column(csv, "Timestamp(us)");
    record->reserved = csv_column(csv, "Total Reserved(MB)");
    record->unit = 1048576;
    if (record->reserved == CSV_NO_COLUMN) {
        record->reserved = csv_column(csv, "Total Reserved(KB)");
        record->unit = 1024;
    }
    record->allocated = csv_column(csv, "Total Allocated(MB)");
    record->allocated_unit = 1048576;
    if (record->allocated == CSV_NO_COLUMN) {
        record->allocated = csv_column(csv, "Total Allocated(KB)");
        record->allocated_unit = 1024;
    }
    record->device = csv_column(csv, "Device Type|Device|Device_id");
}

static bool read_total(struct record *record, size_t column, uint64_t unit, uint64_t *total)
{
    *total = 0;
    return csv_empty(csv_get(&record->import->csv, column)) ||
           csv_scaled(&record->import->csv, column, "a total of 0 or more", unit, NULL, total);
}

/* Adds the totals of one row. The key of the call has the device and the component. */
static bool add_row(void *ctx)
{
    struct record *record = ctx;
    struct csv_import *import = record->import;
    const struct csv_field component = csv_get(&import->csv, record->component);
    weir_trace_event event = blank_event(WEIR_TRACE_COUNTERS);
    uint32_t device;
    uint32_t number;
    uint64_t time;
    if (!csv_device(import, record->device, &device) ||
        !csv_scaled(&import->csv, record->time, "microseconds", NS_OF_US, NULL, &time) ||
        !read_total(record, record->reserved, record->unit, &event.size) ||
        !read_total(record, record->allocated, record->allocated_unit, &event.extra)) {
        return false;
    }
    if (!name_number(&record->components, component.text, component.length, &number, NULL)) {
        return csv_no_memory(&import->csv);
    }
    return calls_add(&import->calls, time, (uint64_t)device << 32 | number, &event);
}

/* Sets *number to the component to keep and *name to its name, for the note of the trace. */
static bool choose(struct record *record, uint32_t *number, const char **name)
{
    for (size_t i = 0; i < sizeof(preferred) / sizeof(preferred[0]); i++) {
        bool fresh;
        const uint32_t known = record->components.count;
        if (!name_number(&record->components, preferred[i], strlen(preferred[i]), number, &fresh)) {
            return csv_no_memory(&record->import->csv);
        }
        if (*number < known && !fresh) {
            *name = preferred[i];
            return true;
        }
    }
    *number = 0;
    *name = "the first one";
    return true;
}

/* Keeps the rows of the component on the first device that the component has. Returns the number of rows left out. */
static uint64_t keep(struct call_list *list, uint32_t component)
{
    size_t kept = 0;
    uint64_t key = UINT64_MAX;
    for (size_t i = 0; i < list->count; i++) {
        if ((uint32_t)list->calls[i].key == component && (key == UINT64_MAX || list->calls[i].key == key)) {
            key = list->calls[i].key;
            list->calls[kept++] = list->calls[i];
        }
    }
    const uint64_t left_out = list->count - kept;
    list->count = kept;
    return left_out;
}

static bool write_record(struct record *record)
{
    struct csv_import *import = record->import;
    uint32_t component;
    const char *name = "";
    if (!choose(record, &component, &name)) {
        return false;
    }
    const uint64_t left_out = keep(&import->calls, component);
    calls_sort(&import->calls, false);
    return builder_note_format(&import->builder,
                               "totals over time and no blocks: there is nothing to replay; operator_memory.csv of the "
                               "same folder has the blocks") &&
           builder_note_format(&import->builder,
                               "the counters are of one component, %s; %" PRIu64
                               " rows of other components or devices are left out",
                               name, left_out) &&
           calls_write(&import->calls, calls_begin(&import->calls));
}

bool memory_record_read(struct csv_import *import)
{
    struct record record = {.import = import};
    find_columns(&record);
    bool done = csv_each(import, add_row, &record);
    done = done && write_record(&record);
    name_list_free(&record.components);
    return done;
}
