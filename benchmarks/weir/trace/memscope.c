/* memscope.c: the CSV that msMemScope (earlier msLeaks) dumps, and its database (sqlite_memscope.c): one row for each
 * event, of the driver (HAL), of pools of frameworks (PTA and PTA_WORKSPACE of torch_npu, MINDSPORE, ATB), and of
 * operators and markers.
 *
 * A file with events of pools gives the blocks of the pools. The driver's blocks in such a file are the memory of the
 * pools and of the runtime, which cannot be told apart, so they are left out. A file with driver events only gives the
 * driver's blocks. Host memory is left out. Blocks are identified by process, kind of pool and address; rows of a file
 * are not in order of time.
 */
#include "csv_read.h"

#include <inttypes.h>
#include <string.h>

#define NS_OF_US 1000
/* Bounds of a time in microseconds since 1970: 2017 to 2049. An early version of msMemScope wrote such times into the
 * column of nanoseconds. */
#define LEAST_US UINT64_C(1500000000000000)
#define MOST_US UINT64_C(2500000000000000)

/* Kinds of memory, in the highest bits of a key. */
enum level { LEVEL_NONE, LEVEL_HAL, LEVEL_PTA, LEVEL_MINDSPORE, LEVEL_ATB, LEVEL_WORKSPACE, LEVEL_COUNTERS };

static const struct {
    const char *name;
    enum level level;
    uint32_t pool;
} levels[] = {
    {"HAL", LEVEL_HAL, WEIR_TRACE_NONE},
    {"PTA", LEVEL_PTA, WEIR_TRACE_NONE},
    {"MINDSPORE", LEVEL_MINDSPORE, WEIR_TRACE_NONE},
    {"MindSpore", LEVEL_MINDSPORE, WEIR_TRACE_NONE},
    {"ATB", LEVEL_ATB, 0},
    {"PTA_WORKSPACE", LEVEL_WORKSPACE, 1},
};

struct memscope {
    struct csv_import *import;
    size_t event, type, name, time, process, thread, device, pointer, attributes, stack;
    uint64_t scale; /* nanoseconds of a unit of the times */
    struct name_list processes;
    weir__number_map addresses; /* number + 1 */
    uint64_t address_count;
    uint64_t hal, pools, host, other; /* numbers of rows */
    uint32_t first_device;
    bool several;
};

static bool ends_key(char letter)
{
    return letter == ':' || letter == '"';
}

/* Returns the value between the end of its key and the comma at `stop`, or without its quotes. */
static struct csv_field value_behind(const char *at, const char *stop, const char *end)
{
    const char *colon = memchr(at, ':', (size_t)(stop - at));
    at = colon != NULL ? colon + 1 : stop;
    while (at < stop && *at == ' ') {
        at++;
    }
    const bool quoted = at < stop && *at == '"';
    at += quoted;
    const char *quote = quoted ? memchr(at, '"', (size_t)(end - at)) : NULL;
    return (struct csv_field){.text = at, .length = (size_t)((quote != NULL ? quote : stop) - at)};
}

/* Finds the value of a key in "{addr:1,size:2,owner:}", as the CSV file has it, or in {"addr":"1","size":"2"}, as the
 * database has it. */
static bool attribute(struct csv_field attributes, const char *key, struct csv_field *value)
{
    const size_t key_length = strlen(key);
    const char *at = attributes.text;
    const char *end = at + attributes.length;
    if (at < end && *at == '{') {
        at++;
    }
    if (at < end && end[-1] == '}') {
        end--;
    }
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        while (at < stop && (*at == ' ' || *at == '"')) {
            at++;
        }
        if ((size_t)(stop - at) > key_length && memcmp(at, key, key_length) == 0 && ends_key(at[key_length])) {
            *value = value_behind(at + key_length, stop, end);
            return true;
        }
        at = stop + 1;
    }
    return false;
}

static bool attribute_number(struct csv_field attributes, const char *key, uint64_t *number)
{
    struct csv_field value;
    return attribute(attributes, key, &value) && csv_parse_decimal(value.text, value.length, number);
}

/* Reads the address column, decimal or hexadecimal with 0x. */
static bool read_pointer(struct memscope *dump, uint64_t *address)
{
    struct csv *csv = &dump->import->csv;
    const struct csv_field field = csv_get(csv, dump->pointer);
    if (field.length > 1 && field.text[0] == '0' && (field.text[1] == 'x' || field.text[1] == 'X')) {
        return csv_hexadecimal(csv, dump->pointer, "an address", address);
    }
    return csv_decimal(csv, dump->pointer, "an address", address);
}

static bool make_key(struct memscope *dump, enum level level, uint64_t address, uint64_t *key)
{
    struct csv *csv = &dump->import->csv;
    const struct csv_field process = csv_get(csv, dump->process);
    uint32_t number;
    uint64_t found = weir__number_map_get(&dump->addresses, address);
    if (!name_number(&dump->processes, process.text, process.length, &number, NULL)) {
        return csv_no_memory(csv);
    }
    if (found == 0) {
        found = ++dump->address_count;
        if (!weir__number_map_put(&dump->addresses, address, found)) {
            return csv_no_memory(csv);
        }
    }
    *key = (uint64_t)level << 60 | (uint64_t)number << 32 | found;
    return true;
}

static enum level level_of(struct csv_field type, uint32_t *pool)
{
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (csv_is(type, levels[i].name)) {
            *pool = levels[i].pool;
            return levels[i].level;
        }
    }
    return LEVEL_NONE;
}

static bool read_tag(struct memscope *dump, struct csv_field attributes, uint32_t *tag)
{
    struct csv_import *import = dump->import;
    struct csv_field text = {.text = ""};
    if (!attribute(attributes, "owner", &text) || text.length == 0) {
        text = csv_get(&import->csv, dump->stack);
        const char *newline = text.length > 0 ? memchr(text.text, '\n', text.length) : NULL;
        text.length = newline != NULL ? (size_t)(newline - text.text) : text.length;
    }
    while (text.length > 0 && strchr(" \t\r", text.text[text.length - 1]) != NULL) {
        text.length--;
    }
    while (text.length > 0 && strchr(" \t\r", text.text[0]) != NULL) {
        text.text++;
        text.length--;
    }
    return calls_tag(&import->builder, &import->tags, text.text, text.length, tag);
}

/* Adds an event with the totals of the pool. */
static bool add_counters(struct memscope *dump, enum level level, uint64_t time, struct csv_field attributes)
{
    weir_trace_event event = blank_event(WEIR_TRACE_COUNTERS);
    if ((level != LEVEL_PTA && level != LEVEL_MINDSPORE) || !attribute_number(attributes, "total", &event.size) ||
        !attribute_number(attributes, "used", &event.extra)) {
        return true;
    }
    return calls_add(&dump->import->calls, time, (uint64_t)LEVEL_COUNTERS << 60, &event);
}

static bool add_memory(struct memscope *dump, bool alloc, uint64_t time)
{
    struct csv_import *import = dump->import;
    struct csv *csv = &import->csv;
    const struct csv_field attributes = csv_get(csv, dump->attributes);
    const struct csv_field device = csv_get(csv, dump->device);
    weir_trace_event event = blank_event(alloc ? WEIR_TRACE_ALLOC : WEIR_TRACE_FREE);
    const enum level level = level_of(csv_get(csv, dump->type), &event.pool);
    uint64_t key = 0;
    if (level == LEVEL_NONE || csv_is(device, "host") || csv_is(device, "cpu") || (alloc && csv_empty(device))) {
        dump->host++;
        return true;
    }
    if (!read_pointer(dump, &event.address) || !make_key(dump, level, event.address, &key)) {
        return false;
    }
    if (!attribute_number(attributes, "size", &event.size) && alloc) {
        return csv_refuse(csv, dump->attributes, "size: and a number of bytes");
    }
    if (!alloc && (level == LEVEL_HAL || csv_empty(device))) {
        event.size = 0; /* frees of the driver tell neither the size nor the device */
    }
    if (!csv_empty(device) && (!csv_device(import, dump->device, &event.device) ||
                               !csv_stream(import, event.device, (struct csv_field){.text = ""}, &event.stream))) {
        return false;
    }
    if (!csv_thread(import, csv_get(csv, dump->thread), &event.thread) ||
        (alloc && !read_tag(dump, attributes, &event.tag))) {
        return false;
    }
    if (level == LEVEL_HAL) {
        dump->hal++;
    } else {
        dump->several = dump->several || (dump->pools > 0 && !csv_empty(device) && event.device != dump->first_device);
        dump->first_device = dump->pools == 0 ? event.device : dump->first_device;
        dump->pools++;
    }
    return calls_add(&import->calls, time, key, &event) && add_counters(dump, level, time, attributes);
}

/* Returns I, B or E, the mode of the mark that a row with this event and type becomes; 0 if it is no mark. */
static char mark_of(struct csv_field event, struct csv_field type)
{
    if (csv_is(event, "SYSTEM") || csv_is(type, "Mark")) {
        return 'I';
    }
    if (csv_is(type, "ATEN_START") || csv_is(type, "ATB_START") || csv_is(type, "Range_start")) {
        return 'B';
    }
    return csv_is(type, "ATEN_END") || csv_is(type, "ATB_END") || csv_is(type, "Range_end") ? 'E' : 0;
}

static bool add_mark(struct memscope *dump, uint64_t time)
{
    struct csv *csv = &dump->import->csv;
    const struct csv_field type = csv_get(csv, dump->type);
    struct csv_field name = csv_get(csv, dump->name);
    weir_trace_event event = blank_event(WEIR_TRACE_MARK);
    event.mode = mark_of(csv_get(csv, dump->event), type);
    name = csv_empty(name) ? type : name;
    if (event.mode == 0 || name.length == 0) {
        dump->other++;
        return true;
    }
    event.name = builder_text(&dump->import->builder, name.text, name.length);
    return event.name != NULL ? calls_add(&dump->import->calls, time, 0, &event) : csv_no_memory(csv);
}

static bool add_row(void *ctx)
{
    struct memscope *dump = ctx;
    struct csv *csv = &dump->import->csv;
    const struct csv_field event = csv_get(csv, dump->event);
    uint64_t time;
    if (!csv_scaled(csv, dump->time, "a time", dump->scale, NULL, &time)) {
        return false;
    }
    if (csv_is(event, "MALLOC") || csv_is(event, "FREE")) {
        return add_memory(dump, csv_is(event, "MALLOC"), time);
    }
    return add_mark(dump, time);
}

/* Leaves out the blocks of the driver if the file has blocks of memory pools. */
static void keep_calls(struct memscope *dump)
{
    struct call_list *list = &dump->import->calls;
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const enum level level = (enum level)(list->calls[i].key >> 60);
        if (level != LEVEL_HAL || dump->pools == 0) {
            list->calls[kept++] = list->calls[i];
        }
    }
    list->count = kept;
}

static bool note_dump(const struct memscope *dump)
{
    struct trace_builder *builder = &dump->import->builder;
    const bool driver = dump->pools == 0;
    return builder_note_format(builder, "%s; the file names no streams: each device has one here",
                               driver ? "memory of the driver (HAL); the file has no events of a framework's pool"
                                      : "blocks of the framework's pools") &&
           (driver || dump->hal == 0 ||
            builder_note_format(
                builder, "%" PRIu64 " events of the driver (HAL) are left out: they do not tell which are the pool's",
                dump->hal)) &&
           (dump->processes.count <= 1 ||
            builder_note_format(builder, "the events are of %u processes", dump->processes.count)) &&
           builder_note_count(builder, dump->host,
                              "events of host memory or of unknown kinds of memory are left out") &&
           builder_note_count(builder, dump->other, "events of other kinds (kernels, accesses) are left out");
}

/* Multiplies times by 1000 if they are microseconds in a column that says nanoseconds. */
static bool correct_times(struct memscope *dump, uint64_t *begin)
{
    struct call_list *list = &dump->import->calls;
    *begin = calls_begin(list);
    if (dump->scale != 1 || *begin < LEAST_US || *begin >= MOST_US) {
        return true;
    }
    for (size_t i = 0; i < list->count; i++) {
        const uint64_t since = list->calls[i].time - *begin;
        list->calls[i].time = since <= (UINT64_MAX - *begin) / NS_OF_US ? *begin + since * NS_OF_US : UINT64_MAX;
    }
    return builder_note_format(&dump->import->builder, "times are microseconds, although the column says nanoseconds");
}

bool memscope_read(struct csv_import *import)
{
    const struct csv *csv = &import->csv;
    struct memscope dump = {
        .import = import,
        .event = csv_column(csv, "Event"),
        .type = csv_column(csv, "Event Type"),
        .name = csv_column(csv, "Name"),
        .time = csv_column(csv, "Timestamp(ns)|Timestamp(us)"),
        .scale = csv_column(csv, "Timestamp(ns)") == CSV_NO_COLUMN ? NS_OF_US : 1,
        .process = csv_column(csv, "Process Id"),
        .thread = csv_column(csv, "Thread Id"),
        .device = csv_column(csv, "Device Id"),
        .pointer = csv_column(csv, "Ptr"),
        .attributes = csv_column(csv, "Attr"),
        .stack = csv_column(csv, "Call Stack(Python)"),
    };
    uint64_t begin;
    bool done = csv_each(import, add_row, &dump);
    if (done) {
        keep_calls(&dump);
        calls_sort(&import->calls, false);
        /* several pools would share the counters of a trace */
        calls_keep_changes(&import->calls, dump.several || dump.processes.count > 1);
        done = note_dump(&dump) && correct_times(&dump, &begin) && calls_write(&import->calls, begin);
    }
    name_list_free(&dump.processes);
    weir__number_map_fini(&dump.addresses);
    return done;
}
