/* csv_import.c: see csv_import.h. */
#include "csv_import.h"

#include <string.h>

bool csv_each(struct csv_import *import, bool (*add)(void *ctx), void *ctx)
{
    bool more = true;
    bool done = true;
    while (done && more) {
        done = csv_next(&import->csv, &more) && (!more || add(ctx));
    }
    return done;
}

bool csv_device(struct csv_import *import, size_t column, uint32_t *device)
{
    struct csv_field field = csv_get(&import->csv, column);
    const char *colon = field.length > 0 ? memchr(field.text, ':', field.length) : NULL;
    uint64_t number = 0;
    if (colon != NULL) {
        field.length -= (size_t)(colon + 1 - field.text);
        field.text = colon + 1;
    }
    if (!csv_empty(csv_get(&import->csv, column)) &&
        (!csv_parse_decimal(field.text, field.length, &number) || number >= TRACE_MAX_DEVICES)) {
        return csv_refuse(&import->csv, column, "a device number below 4096, as in NPU:0");
    }
    *device = (uint32_t)number;
    return true;
}

bool csv_stream(struct csv_import *import, uint32_t device, struct csv_field text, uint32_t *stream)
{
    uint32_t name;
    if (!name_number(&import->streams, text.text, text.length, &name, NULL)) {
        return csv_no_memory(&import->csv);
    }
    const uint64_t pair = (uint64_t)device << 32 | name;
    const uint64_t found = weir__number_map_get(&import->stream_of_pair, pair);
    if (found != 0) {
        *stream = (uint32_t)found - 1;
        return true;
    }
    if (import->stream_count == TRACE_MAX_STREAMS) {
        return csv_say(&import->csv, WEIR_ERR_LIMIT, "more than %u streams, which is the limit", TRACE_MAX_STREAMS);
    }
    *stream = import->stream_count++;
    return weir__number_map_put(&import->stream_of_pair, pair, (uint64_t)*stream + 1) || csv_no_memory(&import->csv);
}

bool csv_thread(struct csv_import *import, struct csv_field text, uint32_t *thread)
{
    if (!name_number(&import->threads, text.text, text.length, thread, NULL)) {
        return csv_no_memory(&import->csv);
    }
    return *thread < TRACE_MAX_THREADS ||
           csv_say(&import->csv, WEIR_ERR_LIMIT, "more than %u threads, which is the limit", TRACE_MAX_THREADS);
}
