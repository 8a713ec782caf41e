/* csv_import.h: the parts that the readers of CSV files share. */
#ifndef WEIR_BENCHMARKS_CSV_IMPORT_H
#define WEIR_BENCHMARKS_CSV_IMPORT_H

#include "calls.h"
#include "csv.h"

struct csv_import {
    struct csv csv;
    struct trace_builder builder;
    struct call_list calls;
    struct name_list tags;
    struct name_list streams; /* texts that name streams; a stream of the trace is a pair of a device and such a text */
    struct name_list threads;
    weir__number_map stream_of_pair; /* device and text -> stream number + 1 */
    uint32_t stream_count;
};

/* Calls `add` for every record. */
bool csv_each(struct csv_import *import, bool (*add)(void *ctx), void *ctx);

/* Read a device number, "0" or "NPU:0"; an empty field is device 0. */
bool csv_device(struct csv_import *import, size_t column, uint32_t *device);

/* Return the number of a stream, which a device and a text identify, and of a thread, which a text identifies. */
bool csv_stream(struct csv_import *import, uint32_t device, struct csv_field text, uint32_t *stream);
bool csv_thread(struct csv_import *import, struct csv_field text, uint32_t *thread);

#endif
