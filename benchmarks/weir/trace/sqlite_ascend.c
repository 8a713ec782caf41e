/* sqlite_ascend.c: imports the database of torch_npu's profiler, ascend_pytorch_profiler*.db.
 *
 * Tables: OP_MEMORY has a row for each block: its operator, size in bytes, stream pointer, device, and the times of its
 * allocation, of its release by the program (releaseTime) and of its release by the allocator once no stream uses it
 * (activeReleaseTime). STRING_IDS has the names. MEMORY_RECORD has the totals of the allocator over time.
 *
 * A block is freed at the later of its two release times. The recorded active release is often some microseconds
 * earlier than the release, which is impossible and must be an inaccuracy of the profiler.
 */
#include "sqlite_read.h"

#define MOST_SIZE (INT64_C(1) << 62)

struct reader {
    struct sqlite_file *file;
    struct profile *profile;
    struct id_map names;
    int64_t allocator; /* id of the text "PTA": totals are read from this component */
    uint32_t thread;
    uint64_t empty;
    int64_t first_time; /* of the totals of PTA */
    int64_t first_allocated;
    int64_t reserved;
    bool has_totals;
    bool rows_have_totals; /* rows of blocks have totals */
};

enum {
    MEMORY_SIZE,
    MEMORY_ALLOCATED,
    MEMORY_RELEASED,
    MEMORY_NAME,
    MEMORY_IDLE,
    MEMORY_STREAM,
    MEMORY_DEVICE,
    MEMORY_TOTAL,
    MEMORY_TOTAL_AFTER
};

static const char *const memory_columns[] = {
    "size",     "allocationTime",           "releaseTime",           "name", "activeReleaseTime", "streamPtr",
    "deviceId", "allocationTotalAllocated", "releaseTotalAllocated", NULL};

/* Reads the device, the stream and the tag of a block. */
static bool read_place(struct reader *reader, struct sqlite_scan *scan, struct profile_item *item)
{
    bool has_stream;
    bool has_name;
    uint64_t stream;
    uint64_t name;
    if (!sqlite_scan_device(scan, MEMORY_DEVICE, 0, &item->device) ||
        !sqlite_scan_bits(scan, MEMORY_STREAM, &stream, &has_stream) ||
        !sqlite_scan_bits(scan, MEMORY_NAME, &name, &has_name)) {
        return false;
    }
    if (!has_name || !id_map_get(&reader->names, name, &item->name)) {
        item->name = WEIR_TRACE_NONE;
    }
    item->stream = WEIR_TRACE_NONE;
    return (!has_stream || profile_stream(reader->profile, item->device, stream, &item->stream)) &&
           profile_space(reader->profile, 0, item->device, &item->space);
}

/* Adds the total in a column, which the row has after its block was allocated or released. Rows of the graph engine,
 * which have no stream, have totals of its own pool. */
static bool add_total(struct reader *reader, struct sqlite_scan *scan, unsigned column, int64_t time, int64_t change)
{
    int64_t total;
    bool known;
    if (!sqlite_scan_integer(scan, column, &total, &known)) {
        return false;
    }
    known = known && total > 0;
    reader->rows_have_totals = reader->rows_have_totals || known;
    return profile_total(reader->profile, time, change, known ? (uint64_t)total : BEFORE_NO_TOTAL);
}

static bool read_totals(struct reader *reader, struct sqlite_scan *scan, int64_t size)
{
    int64_t begin;
    int64_t release;
    bool begins;
    bool released;
    return sqlite_scan_integer(scan, MEMORY_ALLOCATED, &begin, &begins) &&
           sqlite_scan_integer(scan, MEMORY_RELEASED, &release, &released) &&
           (!begins || add_total(reader, scan, MEMORY_TOTAL, begin, size)) &&
           (!released || add_total(reader, scan, MEMORY_TOTAL_AFTER, release, -size));
}

static bool read_block(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    int64_t size;
    int64_t begin;
    int64_t release;
    int64_t idle;
    bool begins;
    bool released;
    bool became_idle;
    struct profile_item item = {.key = scan->row, .thread = reader->thread};
    if (!sqlite_scan_need(scan, MEMORY_SIZE, &size) || !sqlite_scan_integer(scan, MEMORY_ALLOCATED, &begin, &begins) ||
        !sqlite_scan_integer(scan, MEMORY_RELEASED, &release, &released) ||
        !sqlite_scan_integer(scan, MEMORY_IDLE, &idle, &became_idle) || !read_place(reader, scan, &item)) {
        return false;
    }
    if (size < 0 || size >= MOST_SIZE) {
        return sqlite_scan_refuse(scan, WEIR_ERR_INVALID, MEMORY_SIZE, "expected a number of bytes");
    }
    const bool ends = released || became_idle;
    const int64_t end = !released || (became_idle && idle > release) ? idle : release;
    if (begins && ends && end < begin) {
        return sqlite_scan_refuse(scan, WEIR_ERR_INVALID, MEMORY_RELEASED,
                                  "the block is released before its allocation");
    }
    if (size == 0) {
        reader->empty++;
        return true;
    }
    if (item.stream != WEIR_TRACE_NONE && !read_totals(reader, scan, size)) {
        return false;
    }
    item.size = (uint64_t)size;
    item.kind = PROFILE_ALLOC;
    item.time_ns = begin;
    if (begins && !profile_add(reader->profile, item)) {
        return false;
    }
    item.kind = PROFILE_FREE;
    item.time_ns = end;
    return !ends || profile_add(reader->profile, item);
}

enum { TOTAL_COMPONENT, TOTAL_TIME, TOTAL_ALLOCATED, TOTAL_RESERVED };

static const char *const total_columns[] = {"component", "timestamp", "totalAllocated", "totalReserved", NULL};

static bool read_total(void *ctx, struct sqlite_scan *scan)
{
    struct reader *reader = ctx;
    int64_t values[4];
    bool known[4];
    for (unsigned i = 0; i < 4; i++) {
        if (!sqlite_scan_integer(scan, i, &values[i], &known[i])) {
            return false;
        }
    }
    if (!known[0] || values[0] != reader->allocator || !known[TOTAL_TIME] || !known[TOTAL_ALLOCATED] ||
        !known[TOTAL_RESERVED] || values[TOTAL_ALLOCATED] < 0 || values[TOTAL_RESERVED] < 0) {
        return true;
    }
    if (!reader->has_totals || values[TOTAL_TIME] < reader->first_time) {
        reader->first_time = values[TOTAL_TIME];
        reader->first_allocated = values[TOTAL_ALLOCATED];
    }
    const bool changed = !reader->has_totals || values[TOTAL_RESERVED] != reader->reserved;
    reader->has_totals = true;
    reader->reserved = values[TOTAL_RESERVED];
    const struct profile_item item = {
        .kind = PROFILE_COUNTERS,
        .stream = WEIR_TRACE_NONE,
        .name = WEIR_TRACE_NONE,
        .thread = reader->thread,
        .time_ns = values[TOTAL_TIME],
        .size = (uint64_t)values[TOTAL_RESERVED],
        .extra = (uint64_t)values[TOTAL_ALLOCATED],
    };
    return !changed || profile_add(reader->profile, item);
}

static bool add_notes(struct reader *reader)
{
    struct profile *profile = reader->profile;
    return profile_note(profile,
                        "sizes are those of the recorded allocator, after rounding; the file has no addresses and "
                        "no host threads, and does not say which stream a kernel ran on by the same number") &&
           profile_note_count(profile, reader->empty, "blocks of 0 bytes left out");
}

bool ascend_db_parse(struct sqlite_file *file, const struct trace_source *source, const struct trace_limits *limits,
                     struct trace **out, struct trace_error *error)
{
    static const struct profile_options options = {
        .format = "ascend-db",
        .lone_frees = true,
        .no_memory = "the table OP_MEMORY is empty; expected a profile with profile_memory=True",
    };
    struct reader reader = {.file = file, .allocator = INT64_MIN};
    bool done = profile_start(&reader.profile, source->path, &options, limits, error) &&
                profile_thread(reader.profile, 0, &reader.thread) &&
                sqlite_read_names(file, "STRING_IDS", reader.profile, &reader.names, "PTA", &reader.allocator) &&
                sqlite_read_table(file, "OP_MEMORY", memory_columns, 3, read_block, &reader) &&
                sqlite_read_table(file, "MEMORY_RECORD", total_columns, 4, read_total, &reader) &&
                (!reader.has_totals || reader.rows_have_totals ||
                 profile_total(reader.profile, reader.first_time, 0, (uint64_t)reader.first_allocated)) &&
                add_notes(&reader);
    if (done) {
        done = profile_finish(reader.profile, out);
    } else {
        profile_drop(reader.profile);
    }
    id_map_free(&reader.names);
    return done;
}
