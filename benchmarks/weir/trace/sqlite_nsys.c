/* sqlite_nsys.c: imports the SQLite export of Nsight Systems (nsys export --type sqlite).
 *
 * Tables: CUDA_GPU_MEMORY_USAGE_EVENTS has a row for each allocation and each free of the CUDA driver, in processes
 * (globalPid) and on devices. CUPTI_ACTIVITY_KIND_RUNTIME has the host calls, which correlationId joins with memory,
 * work and waits; correlation numbers and events are unique within a process. CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY and
 * _MEMSET are work, _SYNCHRONIZATION waits, _CUDA_EVENT records of events, NVTX_EVENTS ranges of a thread that give
 * allocations their tags. Tables without rows are missing in an export.
 */
#include "sqlite_read.h"

#include <string.h>

#define MOST_SIZE (INT64_C(1) << 62)
#define MOST_ADDRESS (UINT64_C(1) << 63)
#define THREAD_BITS UINT64_C(0xffffff) /* bits of the thread in a globalTid; the other bits are the globalPid */
#define PUSH_POP_RANGE 59

enum memory_kind { KIND_DEVICE = 2, KIND_ARRAY = 3, KIND_MANAGED = 4 };
enum sync_type { SYNC_EVENT = 1, SYNC_WAIT = 2, SYNC_STREAM = 3, SYNC_CONTEXT = 4 };

struct reader {
    struct sqlite_file *file;
    struct profile *profile;
    struct id_map names;
    struct id_map processes; /* globalPid -> number */
    uint32_t process_count;
    uint32_t no_caller; /* the thread of records without a host call */
    uint64_t host_memory;
    uint64_t empty;
    uint64_t other_syncs;
};

/* Returns a number of 64 bits that is unique for a number of 32 bits within a process. 0 stays 0: no correlation. */
static bool in_process(struct reader *reader, uint64_t global, uint64_t number, uint64_t *out)
{
    uint32_t process;
    const uint64_t key = global & ~THREAD_BITS;
    if (!id_map_get(&reader->processes, key, &process)) {
        process = reader->process_count++;
        if (!id_map_put(&reader->processes, key, process)) {
            return profile_no_memory(reader->profile);
        }
    }
    *out = number == 0 ? 0 : (uint64_t)process << 32 | (number & UINT32_MAX);
    return true;
}

/* Reads a process and a number that is unique within the process. */
static bool read_number(struct reader *reader, struct sqlite_scan *scan, unsigned process, unsigned column,
                        uint64_t *out)
{
    bool known;
    uint64_t global;
    uint64_t number;
    return sqlite_scan_bits(scan, process, &global, &known) && sqlite_scan_bits(scan, column, &number, &known) &&
           in_process(reader, global, number, out);
}

static bool read_named(struct reader *reader, struct sqlite_scan *scan, unsigned column, uint32_t *name)
{
    bool known;
    uint64_t id;
    *name = WEIR_TRACE_NONE;
    if (!sqlite_scan_bits(scan, column, &id, &known)) {
        return false;
    }
    if (!known || !id_map_get(&reader->names, id, name)) {
        *name = WEIR_TRACE_NONE;
    }
    return true;
}

/* --- host calls and ranges --- */

enum { CALL_START, CALL_CORRELATION, CALL_NAME, CALL_THREAD };

static const char *const call_columns[] = {"start", "correlationId", "nameId", "globalTid", NULL};

static bool read_call(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    bool known;
    int64_t start;
    uint64_t global;
    uint64_t correlation;
    uint32_t thread;
    uint32_t name;
    return sqlite_scan_need(scan, CALL_START, &start) && sqlite_scan_bits(scan, CALL_THREAD, &global, &known) &&
           read_number(reader, scan, CALL_THREAD, CALL_CORRELATION, &correlation) &&
           read_named(reader, scan, CALL_NAME, &name) && profile_thread(reader->profile, global, &thread) &&
           profile_launch(reader->profile, correlation, start, thread, name);
}

enum { RANGE_START, RANGE_END, RANGE_TYPE, RANGE_THREAD, RANGE_TEXT, RANGE_TEXT_ID };

static const char *const range_columns[] = {"start", "end", "eventType", "globalTid", "text", "textId", NULL};

static bool read_range(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    bool known;
    bool ends;
    int64_t start;
    int64_t end;
    int64_t type;
    uint64_t global;
    uint32_t thread;
    uint32_t name;
    size_t length;
    if (!sqlite_scan_need(scan, RANGE_START, &start) || !sqlite_scan_integer(scan, RANGE_END, &end, &ends) ||
        !sqlite_scan_integer(scan, RANGE_TYPE, &type, &known) ||
        !sqlite_scan_bits(scan, RANGE_THREAD, &global, &known) || !read_named(reader, scan, RANGE_TEXT_ID, &name)) {
        return false;
    }
    const char *text = sqlite_scan_text(scan, RANGE_TEXT, &length);
    if (text != NULL && !profile_name(reader->profile, text, length, &name)) {
        return false;
    }
    return type != PUSH_POP_RANGE || !ends || name == WEIR_TRACE_NONE ||
           (profile_thread(reader->profile, global, &thread) &&
            profile_range(reader->profile, thread, start, end, name));
}

/* --- memory --- */

enum {
    MEMORY_START,
    MEMORY_PROCESS,
    MEMORY_DEVICE,
    MEMORY_ADDRESS,
    MEMORY_BYTES,
    MEMORY_KIND,
    MEMORY_OPERATION,
    MEMORY_CORRELATION,
    MEMORY_STREAM,
    MEMORY_POOL,
    MEMORY_IMPORTED_POOL,
};

static const char *const memory_columns[] = {"start",
                                             "globalPid",
                                             "deviceId",
                                             "address",
                                             "bytes",
                                             "memKind",
                                             "memoryOperationType",
                                             "correlationId",
                                             "streamId",
                                             "localMemoryPoolAddress",
                                             "importedMemoryPoolAddress",
                                             NULL};

/* An allocation from a memory pool (cudaMallocAsync) is ordered on its stream. Other rows may hold a stream number that
 * has no meaning. */
static bool read_pool_stream(struct reader *reader, struct sqlite_scan *scan, struct profile_item *item)
{
    bool known;
    bool has_stream;
    uint64_t pool;
    uint64_t imported;
    uint64_t stream;
    item->stream = WEIR_TRACE_NONE;
    if (!sqlite_scan_bits(scan, MEMORY_POOL, &pool, &known) ||
        !sqlite_scan_bits(scan, MEMORY_IMPORTED_POOL, &imported, &known) ||
        !sqlite_scan_bits(scan, MEMORY_STREAM, &stream, &has_stream)) {
        return false;
    }
    return !has_stream || (pool | imported) == 0 ||
           profile_stream(reader->profile, item->device, stream, &item->stream);
}

static bool is_device_memory(int64_t kind)
{
    return kind == KIND_DEVICE || kind == KIND_ARRAY || kind == KIND_MANAGED;
}

static bool read_memory(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    bool known;
    int64_t bytes;
    int64_t operation;
    int64_t kind;
    uint64_t process;
    struct profile_item item = {.thread = reader->no_caller, .name = WEIR_TRACE_NONE};
    if (!sqlite_scan_need(scan, MEMORY_START, &item.time_ns) || !sqlite_scan_need(scan, MEMORY_BYTES, &bytes) ||
        !sqlite_scan_need(scan, MEMORY_OPERATION, &operation) || !sqlite_scan_need(scan, MEMORY_KIND, &kind) ||
        !sqlite_scan_bits(scan, MEMORY_ADDRESS, &item.key, &known) ||
        !sqlite_scan_bits(scan, MEMORY_PROCESS, &process, &known) ||
        !sqlite_scan_device(scan, MEMORY_DEVICE, 0, &item.device) ||
        !read_number(reader, scan, MEMORY_PROCESS, MEMORY_CORRELATION, &item.extra)) {
        return false;
    }
    if (!is_device_memory(kind)) {
        reader->host_memory++;
        return true;
    }
    if (bytes < 0 || bytes >= MOST_SIZE) {
        return sqlite_scan_refuse(scan, WEIR_ERR_INVALID, MEMORY_BYTES, "expected a number of bytes");
    }
    if (item.key >= MOST_ADDRESS) {
        return sqlite_scan_refuse(scan, WEIR_ERR_INVALID, MEMORY_ADDRESS, "expected an address below 2^63");
    }
    if (operation != 0 && operation != 1) {
        return sqlite_scan_refuse(scan, WEIR_ERR_INVALID, MEMORY_OPERATION,
                                  "expected 0 (allocation) or 1 (deallocation)");
    }
    if (bytes == 0 || item.key == 0) {
        reader->empty++;
        return true;
    }
    item.kind = operation == 0 ? PROFILE_ALLOC : PROFILE_FREE;
    item.size = (uint64_t)bytes;
    return read_pool_stream(reader, scan, &item) &&
           profile_space(reader->profile, process & ~THREAD_BITS, item.device, &item.space) &&
           profile_add(reader->profile, item);
}

/* --- work and waits --- */

enum { WORK_START, WORK_END, WORK_DEVICE, WORK_STREAM, WORK_CORRELATION, WORK_PROCESS, WORK_NAME };

static const char *const work_columns[] = {"start",         "end",       "deviceId",  "streamId",
                                           "correlationId", "globalPid", "shortName", NULL};

static bool read_work(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    int64_t end;
    int64_t stream;
    struct profile_item item = {.kind = PROFILE_WORK, .thread = reader->no_caller};
    if (!sqlite_scan_need(scan, WORK_START, &item.time_ns) || !sqlite_scan_need(scan, WORK_END, &end) ||
        !sqlite_scan_device(scan, WORK_DEVICE, 0, &item.device) || !sqlite_scan_need(scan, WORK_STREAM, &stream) ||
        !read_number(reader, scan, WORK_PROCESS, WORK_CORRELATION, &item.extra) ||
        !read_named(reader, scan, WORK_NAME, &item.name) ||
        !profile_stream(reader->profile, item.device, (uint64_t)stream, &item.stream)) {
        return false;
    }
    const char *table = strrchr(scan->table, '_') + 1;
    if (item.name == WEIR_TRACE_NONE && !profile_name(reader->profile, table, strlen(table), &item.name)) {
        return false;
    }
    item.size = end > item.time_ns ? (uint64_t)end - (uint64_t)item.time_ns : 0;
    return profile_add(reader->profile, item);
}

enum { SYNC_AT, SYNC_TYPE, SYNC_DEVICE, SYNC_ON, SYNC_CORRELATION, SYNC_PROCESS, SYNC_EVENT_ID };

static const char *const sync_columns[] = {"start",         "syncType",  "deviceId", "streamId",
                                           "correlationId", "globalPid", "eventId",  NULL};

static bool read_sync(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    static const uint16_t kinds[] = {[SYNC_EVENT] = PROFILE_SYNC_EVENT,
                                     [SYNC_WAIT] = PROFILE_WAIT,
                                     [SYNC_STREAM] = PROFILE_SYNC_STREAM,
                                     [SYNC_CONTEXT] = PROFILE_SYNC_DEVICE};
    bool known;
    int64_t type;
    uint64_t stream;
    struct profile_item item = {.thread = reader->no_caller, .name = WEIR_TRACE_NONE, .stream = WEIR_TRACE_NONE};
    if (!sqlite_scan_need(scan, SYNC_AT, &item.time_ns) || !sqlite_scan_integer(scan, SYNC_TYPE, &type, &known) ||
        !sqlite_scan_device(scan, SYNC_DEVICE, 0, &item.device) || !sqlite_scan_bits(scan, SYNC_ON, &stream, &known) ||
        !read_number(reader, scan, SYNC_PROCESS, SYNC_CORRELATION, &item.extra) ||
        !read_number(reader, scan, SYNC_PROCESS, SYNC_EVENT_ID, &item.key)) {
        return false;
    }
    if (type < SYNC_EVENT || type > SYNC_CONTEXT) {
        reader->other_syncs++;
        return true;
    }
    item.kind = kinds[type];
    if ((type == SYNC_WAIT || type == SYNC_STREAM) &&
        !profile_stream(reader->profile, item.device, stream, &item.stream)) {
        return false;
    }
    return profile_add(reader->profile, item);
}

enum { RECORD_DEVICE, RECORD_STREAM, RECORD_CORRELATION, RECORD_EVENT, RECORD_PROCESS };

static const char *const record_columns[] = {"deviceId", "streamId", "correlationId", "eventId", "globalPid", NULL};

/* Reads one record of an event object. It gets the time of its host call; a row without a host call is left out. */
static bool read_record(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    bool known;
    uint64_t stream;
    struct profile_item item = {
        .kind = PROFILE_RECORD, .thread = reader->no_caller, .name = WEIR_TRACE_NONE, .time_ns = INT64_MIN};
    if (!sqlite_scan_device(scan, RECORD_DEVICE, 0, &item.device) ||
        !sqlite_scan_bits(scan, RECORD_STREAM, &stream, &known) ||
        !read_number(reader, scan, RECORD_PROCESS, RECORD_CORRELATION, &item.extra) ||
        !read_number(reader, scan, RECORD_PROCESS, RECORD_EVENT, &item.key)) {
        return false;
    }
    if (!known || !profile_has_launch(reader->profile, item.extra)) {
        return true;
    }
    return profile_stream(reader->profile, item.device, stream, &item.stream) && profile_add(reader->profile, item);
}

/* --- the whole --- */

static bool add_notes(struct reader *reader)
{
    struct profile *profile = reader->profile;
    return profile_note(profile, "the blocks are those of the CUDA driver (cudaMalloc, cudaMallocAsync); an allocator "
                                 "above it, such as PyTorch's, hides its own blocks") &&
           profile_note(profile,
                        "the file does not say which blocks a kernel touches, so it has no uses across streams") &&
           profile_note_count(profile, reader->host_memory, "events of host memory left out") &&
           profile_note_count(profile, reader->empty, "memory events of 0 bytes left out") &&
           profile_note_count(profile, reader->other_syncs, "waits of unknown types left out");
}

static bool read_tables(struct reader *reader)
{
    static const struct {
        const char *name;
        const char *const *columns;
        unsigned required;
        bool (*read_row)(void *ctx, struct sqlite_scan *scan);
    } tables[] = {
        {"CUPTI_ACTIVITY_KIND_RUNTIME", call_columns, 2, read_call},
        {"NVTX_EVENTS", range_columns, 4, read_range},
        {"CUDA_GPU_MEMORY_USAGE_EVENTS", memory_columns, 7, read_memory},
        {"CUPTI_ACTIVITY_KIND_KERNEL", work_columns, 4, read_work},
        {"CUPTI_ACTIVITY_KIND_MEMCPY", work_columns, 4, read_work},
        {"CUPTI_ACTIVITY_KIND_MEMSET", work_columns, 4, read_work},
        {"CUPTI_ACTIVITY_KIND_CUDA_EVENT", record_columns, 4, read_record},
        {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", sync_columns, 2, read_sync},
    };
    bool done = sqlite_read_names(reader->file, "StringIds", reader->profile, &reader->names, NULL, NULL);
    for (size_t i = 0; done && i < sizeof(tables) / sizeof(tables[0]); i++) {
        done = sqlite_read_table(reader->file, tables[i].name, tables[i].columns, tables[i].required,
                                 tables[i].read_row, reader);
    }
    return done && add_notes(reader);
}

bool nsys_parse(struct sqlite_file *file, const struct trace_source *source, const struct trace_limits *limits,
                struct trace **out, struct trace_error *error)
{
    static const struct profile_options options = {
        .format = "nsys",
        .addresses = true,
        .lone_frees = true,
        .no_memory = "the table CUDA_GPU_MEMORY_USAGE_EVENTS names no memory of a device; expected a profile of "
                     "nsys profile --cuda-memory-usage=true",
    };
    struct reader reader = {.file = file};
    bool done = profile_start(&reader.profile, source->path, &options, limits, error) &&
                profile_thread(reader.profile, UINT64_MAX, &reader.no_caller) && read_tables(&reader);
    if (done) {
        done = profile_finish(reader.profile, out);
    } else {
        profile_drop(reader.profile);
    }
    id_map_free(&reader.names);
    id_map_free(&reader.processes);
    return done;
}
