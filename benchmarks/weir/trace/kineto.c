/* kineto.c: imports the Chrome trace that torch.profiler writes (export_chrome_trace, profile_memory=True).
 *
 * The file is JSON: an object with the list "traceEvents", or that list alone. Events used, by `cat` and `name`:
 *
 *     "[memory]"                       an allocation (Bytes > 0) or a free (Bytes < 0) at Addr
 *     cuda_runtime, cuda_driver, ...   host calls; `correlation` joins them with device work and waits
 *     kernel, gpu_memcpy, gpu_memset   device work: stream, device, duration
 *     cuda_sync                        waits of a stream for an event, and of the host for a stream or an event. The
 *                                      wait for a whole device comes from its host call, which every version writes
 *     cpu_op                           ranges of a host thread, which give allocations their tags
 *
 * A wait names the correlation number of the call cudaEventRecord that recorded its event
 * (wait_on_cuda_event_record_corr_id). The call recorded it on the stream that the wait names (wait_on_stream). So the
 * record is added when its wait is read, and gets its time from the call. Everything else is in profile.h.
 */
#include "json_scan.h"
#include "profile.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SIZE (UINT64_C(1) << 62)
#define MOST_ADDRESS (UINT64_C(1) << 63)
#define LONGEST_NAME 4096

/* One element of traceEvents. Members that it lacks have the kind JSON_NONE. */
struct event {
    const unsigned char *at; /* for messages */
    bool has_args;
    struct json_value name;
    struct json_value cat;
    struct json_value ph;
    struct json_value ts;
    struct json_value dur;
    struct json_value pid;
    struct json_value tid;
    struct json_value address;
    struct json_value bytes;
    struct json_value device_type;
    struct json_value device_id;
    struct json_value allocated;
    struct json_value reserved;
    struct json_value device;
    struct json_value in_device;
    struct json_value stream;
    struct json_value correlation;
    struct json_value sync_kind;
    struct json_value wait_stream;
    struct json_value wait_record;
};

struct reader {
    struct json_scan scan;
    struct profile *profile;
    const struct trace_source *source;
    const struct trace_limits *limits;
    bool host; /* import host memory, because the file has no device memory */

    struct id_map recorded; /* correlation numbers of the event records that were added */
    uint64_t reserved;      /* of the first device, at its latest total */
    uint32_t device;        /* the first device */
    bool has_totals;
    uint64_t device_events;
    uint64_t host_events;
    uint64_t empty;    /* memory events of 0 bytes */
    uint64_t unbound;  /* waits for events that the file does not describe */
    bool found_events; /* the list traceEvents was found */
    bool snapshot;     /* the JSON form of a memory snapshot */
    bool timeline;     /* a list in the place of the first event */
};

/* --- one event --- */

struct member {
    const char *name;
    size_t offset;
};

#define MEMBER(text, field)                                                                                            \
    {                                                                                                                  \
        text, offsetof(struct event, field)                                                                            \
    }

static const struct member event_members[] = {
    MEMBER("name", name), MEMBER("cat", cat), MEMBER("ph", ph),   MEMBER("ts", ts),
    MEMBER("dur", dur),   MEMBER("pid", pid), MEMBER("tid", tid), {NULL, 0},
};

static const struct member argument_members[] = {
    MEMBER("Addr", address),
    MEMBER("Bytes", bytes),
    MEMBER("Device Type", device_type),
    MEMBER("Device Id", device_id),
    MEMBER("Total Allocated", allocated),
    MEMBER("Total Reserved", reserved),
    MEMBER("device", device),
    MEMBER("inDevice", in_device),
    MEMBER("stream", stream),
    MEMBER("correlation", correlation),
    MEMBER("cuda_sync_kind", sync_kind),
    MEMBER("wait_on_stream", wait_stream),
    MEMBER("wait_on_cuda_event_record_corr_id", wait_record),
    {NULL, 0},
};

/* Reads the value of a member of a JSON object if the table names the member; skips other values. If a key occurs
 * several times, its last value is used. */
static bool read_member(struct reader *reader, const struct member *members, const struct json_value *key,
                        struct event *event)
{
    struct json_value value;
    for (const struct member *member = members; member->name != NULL; member++) {
        if (!json_scan_is(key, member->name)) {
            continue;
        }
        if (!json_scan_read(&reader->scan, &value)) {
            return false;
        }
        if (value.kind == JSON_OBJECT || value.kind == JSON_ARRAY) {
            return json_scan_skip(&reader->scan);
        }
        memcpy((char *)event + member->offset, &value, sizeof(value));
        return true;
    }
    return json_scan_skip(&reader->scan);
}

static bool read_arguments(struct reader *reader, struct event *event)
{
    struct json_value key;
    if (!json_scan_read(&reader->scan, &key)) {
        return false;
    }
    if (key.kind != JSON_OBJECT) {
        return key.kind == JSON_ARRAY ? json_scan_skip(&reader->scan) : true;
    }
    event->has_args = true;
    enum json_step step = JSON_STEP_BEGIN;
    while (json_scan_member(&reader->scan, &step, &key)) {
        if (step == JSON_STEP_END) {
            return true;
        }
        if (!read_member(reader, argument_members, &key, event)) {
            return false;
        }
    }
    return false;
}

static bool read_event(struct reader *reader, struct event *event)
{
    struct json_value key;
    enum json_step step = JSON_STEP_BEGIN;
    memset(event, 0, sizeof(*event));
    event->at = reader->scan.at;
    while (json_scan_member(&reader->scan, &step, &key)) {
        if (step == JSON_STEP_END) {
            return true;
        }
        if (json_scan_is(&key, "args") ? !read_arguments(reader, event)
                                       : !read_member(reader, event_members, &key, event)) {
            return false;
        }
    }
    return false;
}

/* --- values --- */

static bool refuse_value(const struct reader *reader, const struct event *event, const char *member,
                         const struct json_value *value)
{
    char shown[40];
    char name[60];
    trace_quote(name, sizeof(name), event->name.kind == JSON_STRING ? event->name.text : "?",
                event->name.kind == JSON_STRING ? event->name.length : 1);
    if (value->kind == JSON_NONE) {
        return json_scan_refuse(&reader->scan, WEIR_ERR_INVALID, event->at, "the event \"%s\" has no \"%s\"", name,
                                member);
    }
    trace_quote(shown, sizeof(shown), value->text != NULL ? value->text : "null",
                value->text != NULL ? value->length : 4);
    return json_scan_refuse(&reader->scan, WEIR_ERR_INVALID, event->at,
                            "the event \"%s\" has a \"%s\" that is out of range or no number: %s", name, member, shown);
}

/* Times are microseconds with up to three decimals. */
static bool time_of(const struct reader *reader, const struct event *event, int64_t *time_ns)
{
    return json_scan_integer(&event->ts, 1000, time_ns) || refuse_value(reader, event, "ts", &event->ts);
}

static bool duration_of(const struct reader *reader, const struct event *event, int64_t *duration_ns)
{
    *duration_ns = 0;
    if (event->dur.kind == JSON_NONE) {
        return true;
    }
    if (!json_scan_integer(&event->dur, 1000, duration_ns)) {
        return refuse_value(reader, event, "dur", &event->dur);
    }
    *duration_ns = *duration_ns < 0 ? 0 : *duration_ns;
    return true;
}

/* Hashes an id of a process or a thread. Ids are numbers or texts and are compared by their characters. */
static uint64_t hash_id(uint64_t hash, const struct json_value *value)
{
    for (size_t i = 0; i < value->length; i++) {
        hash = (hash ^ (unsigned char)value->text[i]) * UINT64_C(1099511628211);
    }
    return hash * UINT64_C(0x9E3779B97F4A7C15);
}

#define HASH_START UINT64_C(14695981039346656037)

static bool thread_of(struct reader *reader, const struct event *event, uint32_t *thread)
{
    return profile_thread(reader->profile, hash_id(hash_id(HASH_START, &event->pid), &event->tid), thread);
}

static uint64_t number_or(const struct json_value *value, uint64_t otherwise)
{
    uint64_t number;
    return json_scan_unsigned(value, &number) ? number : otherwise;
}

static bool name_of(struct reader *reader, const struct event *event, uint32_t *name)
{
    char text[LONGEST_NAME];
    *name = WEIR_TRACE_NONE;
    if (event->name.kind != JSON_STRING) {
        return true;
    }
    return profile_name(reader->profile, text, json_scan_unescape(&event->name, text, sizeof(text)), name);
}

/* Finds the device and the stream of device work: from its arguments, else from the pid and tid of its row. */
static bool place_of(struct reader *reader, const struct event *event, struct profile_item *item, bool *known)
{
    const uint64_t device = number_or(&event->device, number_or(&event->in_device, number_or(&event->pid, UINT64_MAX)));
    const uint64_t stream = number_or(&event->stream, number_or(&event->tid, UINT64_MAX));
    *known = device < TRACE_MAX_DEVICES && stream <= PROFILE_MAX_STREAM;
    item->device = (uint32_t)device;
    return !*known || profile_stream(reader->profile, item->device, stream, &item->stream);
}

/* --- memory --- */

static bool starts_with(const struct json_value *value, const char *text)
{
    const size_t length = strlen(text);
    return value->kind == JSON_STRING && value->length >= length && memcmp(value->text, text, length) == 0;
}

/* Adds the totals of an event of the first device: counters at each change of the reserved bytes, and the allocated
 * bytes. A total of reserved bytes below the allocated ones is no total: the host's reserved bytes are 0. */
static bool count_totals(struct reader *reader, const struct event *event, const struct profile_item *item)
{
    uint64_t allocated;
    uint64_t reserved;
    const int64_t change = item->kind == PROFILE_FREE ? -(int64_t)item->size : (int64_t)item->size;
    if (!json_scan_unsigned(&event->allocated, &allocated) || !json_scan_unsigned(&event->reserved, &reserved) ||
        (reader->has_totals && reader->device != item->device)) {
        return profile_total(reader->profile, item->time_ns, change, BEFORE_NO_TOTAL);
    }
    const bool changed = !reader->has_totals || reserved != reader->reserved;
    reader->device = item->device;
    reader->has_totals = true;
    reader->reserved = reserved;
    struct profile_item counters = *item;
    counters.kind = PROFILE_COUNTERS;
    counters.stream = WEIR_TRACE_NONE;
    counters.size = reserved;
    counters.extra = allocated;
    return profile_total(reader->profile, item->time_ns, change, reserved >= allocated ? allocated : BEFORE_NO_TOTAL) &&
           (!changed || profile_add(reader->profile, counters));
}

static bool add_memory(struct reader *reader, const struct event *event)
{
    int64_t bytes;
    struct profile_item item = {.stream = WEIR_TRACE_NONE, .name = WEIR_TRACE_NONE};
    const uint64_t type = number_or(&event->device_type, number_or(&event->device_id, UINT64_MAX) < UINT32_MAX);
    reader->device_events += type != 0;
    reader->host_events += type == 0;
    if ((type == 0) != reader->host) {
        return true;
    }
    if (!reader->host) {
        const uint64_t device = number_or(&event->device_id, UINT64_MAX);
        if (device >= TRACE_MAX_DEVICES) {
            return refuse_value(reader, event, "Device Id", &event->device_id);
        }
        item.device = (uint32_t)device;
    }
    if (event->address.kind == JSON_NONE) {
        return json_scan_refuse(
            &reader->scan, WEIR_ERR_INVALID, event->at,
            "the [memory] event has no \"Addr\", which old versions of PyTorch did not write; without "
            "it frees cannot be joined with allocations");
    }
    if (!json_scan_unsigned(&event->address, &item.key) || item.key >= MOST_ADDRESS) {
        return refuse_value(reader, event, "Addr", &event->address);
    }
    if (!json_scan_integer(&event->bytes, 1, &bytes) || bytes <= -(int64_t)MOST_SIZE || bytes >= (int64_t)MOST_SIZE) {
        return refuse_value(reader, event, "Bytes", &event->bytes);
    }
    if (bytes == 0 || item.key == 0) {
        reader->empty++;
        return true;
    }
    item.kind = bytes > 0 ? PROFILE_ALLOC : PROFILE_FREE;
    item.size = (uint64_t)(bytes > 0 ? bytes : -bytes);
    return time_of(reader, event, &item.time_ns) && thread_of(reader, event, &item.thread) &&
           profile_space(reader->profile, hash_id(HASH_START, &event->pid), item.device, &item.space) &&
           profile_add(reader->profile, item) && count_totals(reader, event, &item);
}

/* --- device work and waits --- */

static bool add_work(struct reader *reader, const struct event *event)
{
    bool known;
    int64_t duration;
    struct profile_item item = {.kind = PROFILE_WORK, .name = WEIR_TRACE_NONE};
    if (!place_of(reader, event, &item, &known) || !known) {
        return !known;
    }
    item.extra = number_or(&event->correlation, 0);
    if (!time_of(reader, event, &item.time_ns) || !duration_of(reader, event, &duration) ||
        !thread_of(reader, event, &item.thread) || !name_of(reader, event, &item.name)) {
        return false;
    }
    item.size = (uint64_t)duration;
    return profile_add(reader->profile, item);
}

/* Adds a record of the event object that a wait names, unless an earlier wait has added it. *known: the file tells
 * which record the wait is for, and on which stream. */
static bool add_record(struct reader *reader, const struct event *event, struct profile_item item, bool *known)
{
    uint32_t any;
    const uint64_t record = number_or(&event->wait_record, 0);
    const uint64_t stream = number_or(&event->wait_stream, UINT64_MAX);
    *known = record > 0 && record < UINT32_MAX && stream < UINT32_MAX;
    if (!*known || id_map_get(&reader->recorded, record, &any)) {
        return true;
    }
    item.kind = PROFILE_RECORD;
    item.key = record;
    item.extra = record;
    item.name = WEIR_TRACE_NONE;
    return (id_map_put(&reader->recorded, record, 0) || profile_no_memory(reader->profile)) &&
           profile_stream(reader->profile, item.device, stream, &item.stream) && profile_add(reader->profile, item);
}

static bool add_wait(struct reader *reader, const struct event *event, struct profile_item item, uint16_t kind)
{
    bool known;
    if (!add_record(reader, event, item, &known)) {
        return false;
    }
    if (!known) {
        reader->unbound++;
        return true;
    }
    item.kind = kind;
    item.key = number_or(&event->wait_record, 0);
    return profile_add(reader->profile, item);
}

static bool add_sync(struct reader *reader, const struct event *event)
{
    bool known;
    const struct json_value *kind = event->sync_kind.kind == JSON_STRING ? &event->sync_kind : &event->name;
    struct profile_item item = {.stream = WEIR_TRACE_NONE, .name = WEIR_TRACE_NONE};
    if (json_scan_is(kind, "Context Sync")) {
        return true;
    }
    item.extra = number_or(&event->correlation, 0);
    item.device = (uint32_t)number_or(&event->device, number_or(&event->pid, 0)) % TRACE_MAX_DEVICES;
    if (!time_of(reader, event, &item.time_ns) || !thread_of(reader, event, &item.thread)) {
        return false;
    }
    if (json_scan_is(kind, "Event Sync")) {
        return add_wait(reader, event, item, PROFILE_SYNC_EVENT);
    }
    if (!place_of(reader, event, &item, &known) || !known) {
        reader->unbound += !known;
        return !known;
    }
    if (json_scan_is(kind, "Stream Wait Event")) {
        return add_wait(reader, event, item, PROFILE_WAIT);
    }
    item.kind = PROFILE_SYNC_STREAM;
    return !json_scan_is(kind, "Stream Sync") || profile_add(reader->profile, item);
}

/* --- host calls and ranges --- */

static bool waits_for_device(const struct json_value *name)
{
    return json_scan_is(name, "cudaDeviceSynchronize") || json_scan_is(name, "cuCtxSynchronize") ||
           json_scan_is(name, "hipDeviceSynchronize");
}

static bool add_call(struct reader *reader, const struct event *event)
{
    struct profile_item item = {.kind = PROFILE_SYNC_DEVICE, .stream = WEIR_TRACE_NONE, .name = WEIR_TRACE_NONE};
    return time_of(reader, event, &item.time_ns) && thread_of(reader, event, &item.thread) &&
           profile_launch(reader->profile, number_or(&event->correlation, 0), item.time_ns, item.thread,
                          WEIR_TRACE_NONE) &&
           (!waits_for_device(&event->name) || profile_add(reader->profile, item));
}

/* True for operators that only allocate. The tag of an allocation is the operator around them, which tells more. */
static bool only_allocates(const struct json_value *name)
{
    return starts_with(name, "aten::empty") || starts_with(name, "aten::resize_");
}

static bool add_operator(struct reader *reader, const struct event *event)
{
    int64_t time_ns;
    int64_t duration;
    uint32_t thread;
    uint32_t name;
    if (only_allocates(&event->name)) {
        return true;
    }
    if (!time_of(reader, event, &time_ns) || !duration_of(reader, event, &duration) ||
        !thread_of(reader, event, &thread) || !name_of(reader, event, &name)) {
        return false;
    }
    const int64_t end = time_ns > INT64_MAX - duration ? INT64_MAX : time_ns + duration;
    return name == WEIR_TRACE_NONE || profile_range(reader->profile, thread, time_ns, end, name);
}

/* The meaning of a profiler event, by its category; categories of older versions are included. */
enum use { USE_NOTHING, USE_WORK, USE_SYNC, USE_CALL, USE_OPERATOR };

static enum use use_of(const struct json_value *category)
{
    static const struct {
        const char *text;
        enum use use;
    } categories[] = {
        {"cpu_op", USE_OPERATOR},
        {"Operator", USE_OPERATOR},
        {"cuda_runtime", USE_CALL},
        {"cuda_driver", USE_CALL},
        {"privateuse1_runtime", USE_CALL},
        {"privateuse1_driver", USE_CALL},
        {"Runtime", USE_CALL},
        {"kernel", USE_WORK},
        {"Kernel", USE_WORK},
        {"gpu_memcpy", USE_WORK},
        {"Memcpy", USE_WORK},
        {"gpu_memset", USE_WORK},
        {"Memset", USE_WORK},
        {"cuda_sync", USE_SYNC},
    };
    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
        if (json_scan_is(category, categories[i].text)) {
            return categories[i].use;
        }
    }
    return USE_NOTHING;
}

static bool add_event(struct reader *reader, const struct event *event)
{
    if (json_scan_is(&event->name, "[memory]") && event->has_args) {
        return add_memory(reader, event);
    }
    if (!json_scan_is(&event->ph, "X")) {
        return true;
    }
    switch (use_of(&event->cat)) {
    case USE_WORK:
        return add_work(reader, event);
    case USE_SYNC:
        return add_sync(reader, event);
    case USE_CALL:
        return add_call(reader, event);
    case USE_OPERATOR:
        return add_operator(reader, event);
    case USE_NOTHING:
        break;
    }
    return true;
}

/* --- the file --- */

static bool read_events(struct reader *reader)
{
    struct event event;
    struct json_value value;
    enum json_step step = JSON_STEP_BEGIN;
    bool is_first = true;
    reader->found_events = true;
    while (json_scan_element(&reader->scan, &step)) {
        if (step == JSON_STEP_END) {
            return true;
        }
        if (!json_scan_read(&reader->scan, &value)) {
            return false;
        }
        reader->timeline = reader->timeline || (is_first && value.kind == JSON_ARRAY);
        is_first = false;
        if (value.kind == JSON_ARRAY
                ? !json_scan_skip(&reader->scan)
                : value.kind == JSON_OBJECT && (!read_event(reader, &event) || !add_event(reader, &event))) {
            return false;
        }
    }
    return false;
}

static bool read_root_member(struct reader *reader, const struct json_value *key)
{
    struct json_value value;
    if (json_scan_is(key, "device_traces") || json_scan_is(key, "segments")) {
        reader->snapshot = true;
    }
    if (!json_scan_is(key, "traceEvents") || reader->found_events) {
        return json_scan_skip(&reader->scan);
    }
    if (!json_scan_read(&reader->scan, &value)) {
        return false;
    }
    return value.kind == JSON_ARRAY ? read_events(reader) : value.kind != JSON_OBJECT || json_scan_skip(&reader->scan);
}

static bool read_root(struct reader *reader)
{
    struct json_value value;
    enum json_step step = JSON_STEP_BEGIN;
    if (!json_scan_read(&reader->scan, &value)) {
        return false;
    }
    if (value.kind == JSON_ARRAY) {
        return read_events(reader) && json_scan_end(&reader->scan);
    }
    while (json_scan_member(&reader->scan, &step, &value)) {
        if (step == JSON_STEP_END) {
            return json_scan_end(&reader->scan);
        }
        if (!read_root_member(reader, &value)) {
            return false;
        }
    }
    return false;
}

static bool refuse_other(const struct reader *reader)
{
    return trace_say(reader->scan.error, WEIR_ERR_UNSUPPORTED, reader->source->path,
                     reader->snapshot
                         ? "is JSON of a memory snapshot; a snapshot is read from the pickle that "
                           "torch.cuda.memory._dump_snapshot writes"
                         : "is JSON without \"traceEvents\"; expected a trace that torch.profiler exported "
                           "(export_chrome_trace)");
}

/* A list of lists instead of events is what export_memory_timeline writes: the bytes of each category over time. */
static bool refuse_timeline(const struct reader *reader)
{
    return trace_say(reader->scan.error, WEIR_ERR_UNSUPPORTED, reader->source->path,
                     "is a memory timeline (export_memory_timeline), which has no streams and not all blocks; "
                     "expected the profile itself (export_chrome_trace, profile_memory=True) or a memory snapshot "
                     "(torch.cuda.memory._dump_snapshot)");
}

static bool add_notes(struct reader *reader)
{
    struct profile *profile = reader->profile;
    if (reader->host && !profile_note(profile, "the file has memory events of the host only: device 0 is the host")) {
        return false;
    }
    return profile_note(profile,
                        "sizes are those of the recorded allocator, after rounding; the file does not say which "
                        "blocks a kernel touches, so it has no uses across streams") &&
           profile_note_count(profile, reader->host ? 0 : reader->host_events, "events of host memory left out") &&
           profile_note_count(profile, reader->empty, "memory events of 0 bytes left out") &&
           profile_note_count(profile, reader->unbound,
                              "waits left out whose event the file does not describe (recorded before the window, or "
                              "by an old version)");
}

static bool read_file(struct reader *reader, struct trace_error *error)
{
    static const struct profile_options options = {
        .format = "kineto",
        .addresses = true,
        .lone_frees = true,
        .agents = true,
        .no_memory = "the profile has no [memory] events; expected one of torch.profiler.profile(profile_memory=True)",
    };
    reader->has_totals = false;
    reader->found_events = false;
    reader->device_events = 0;
    reader->host_events = 0;
    reader->empty = 0;
    reader->unbound = 0;
    reader->timeline = false;
    id_map_free(&reader->recorded);
    json_scan_start(&reader->scan, reader->source, error);
    return profile_start(&reader->profile, reader->source->path, &options, reader->limits, error) &&
           read_root(reader) && (reader->found_events || refuse_other(reader)) &&
           (!reader->timeline || reader->device_events + reader->host_events > 0 || refuse_timeline(reader));
}

/* Reads the file. If it has host memory and no device memory, reads it once more for the host memory. */
static bool read_twice(struct reader *reader, struct trace_error *error)
{
    if (!read_file(reader, error)) {
        return false;
    }
    if (reader->device_events > 0 || reader->host_events == 0) {
        return true;
    }
    profile_drop(reader->profile);
    reader->profile = NULL;
    reader->host = true;
    return read_file(reader, error);
}

bool kineto_parse(const struct trace_source *source, const struct trace_limits *limits, struct trace **out,
                  struct trace_error *error)
{
    struct reader reader = {.source = source, .limits = limits};
    bool done = read_twice(&reader, error) && add_notes(&reader);
    if (done) {
        done = profile_finish(reader.profile, out);
    } else {
        profile_drop(reader.profile);
    }
    id_map_free(&reader.recorded);
    return done;
}
