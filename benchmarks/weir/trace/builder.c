/* builder.c: makes and frees struct trace. All readers use it, so the counts and flags are right for every source of
 * events.
 */
#include "trace_internal.h"

#include "shared/round_up.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace_store {
    struct arena arena;
};

#define DEFAULT_MAX_BYTES ((uint64_t)4 << 30)
#define DEFAULT_MAX_EVENTS ((uint64_t)100000000)
#define STREAM_WITHOUT_DEVICE UINT32_MAX

bool builder_no_memory(struct trace_builder *builder)
{
    const char *path = builder->trace != NULL ? builder->trace->path : "trace";
    return trace_say(builder->error, WEIR_ERR_NO_MEMORY, path, "out of memory");
}

static bool start_trace(struct trace *trace, const char *path)
{
    trace->store = calloc(1, sizeof(*trace->store));
    if (trace->store == NULL) {
        return false;
    }
    trace->path = arena_text(&trace->store->arena, path, strlen(path));
    trace->source = "";
    trace->thread_count = 1;
    trace->pad_bytes = TRACE_PAD_UNKNOWN;
    return trace->path != NULL;
}

static bool need_stream(struct trace_builder *builder, uint32_t stream);

bool builder_start(struct trace_builder *builder, const char *path, const struct trace_limits *limits,
                   struct trace_error *error)
{
    memset(builder, 0, sizeof(*builder));
    builder->error = error;
    if (limits != NULL) {
        builder->limits = *limits;
    }
    if (builder->limits.max_bytes == 0) {
        builder->limits.max_bytes = DEFAULT_MAX_BYTES;
    }
    if (builder->limits.max_events == 0) {
        builder->limits.max_events = DEFAULT_MAX_EVENTS;
    }
    struct trace *trace = calloc(1, sizeof(*trace));
    if (trace == NULL || !start_trace(trace, path)) {
        trace_free(trace);
        return trace_say(error, WEIR_ERR_NO_MEMORY, path, "out of memory");
    }
    builder->trace = trace;
    if (builder_device(builder, 0) == NULL || !need_stream(builder, 0)) {
        builder_no_memory(builder);
        builder_drop(builder);
        return false;
    }
    return true;
}

struct trace_device *builder_device(struct trace_builder *builder, uint32_t number)
{
    struct trace *trace = builder->trace;
    while (trace->device_count <= number) {
        struct trace_device *devices =
            grow_array(trace->devices, trace->device_count, &builder->device_capacity, sizeof(*devices));
        if (devices == NULL) {
            return NULL;
        }
        trace->devices = devices;
        devices[trace->device_count++] = (struct trace_device){.name = ""};
    }
    return &trace->devices[number];
}

static bool need_stream(struct trace_builder *builder, uint32_t stream)
{
    struct trace *trace = builder->trace;
    while (trace->stream_count <= stream) {
        uint32_t *devices =
            grow_array(trace->stream_device, trace->stream_count, &builder->stream_capacity, sizeof(*devices));
        if (devices == NULL) {
            return false;
        }
        trace->stream_device = devices;
        devices[trace->stream_count++] = STREAM_WITHOUT_DEVICE;
    }
    return true;
}

/* Sets the device of a stream, if no earlier event has. */
static void bind_stream(struct trace *trace, uint32_t stream, uint32_t device)
{
    uint32_t *bound = &trace->stream_device[stream];
    if (*bound == STREAM_WITHOUT_DEVICE) {
        *bound = device;
    }
}

bool builder_is_bound(const struct trace_builder *builder, uint32_t stream, uint32_t *device)
{
    const struct trace *trace = builder->trace;
    if (stream >= trace->stream_count || trace->stream_device[stream] == STREAM_WITHOUT_DEVICE) {
        return false;
    }
    *device = trace->stream_device[stream];
    return true;
}

static void count_birth(struct trace_builder *builder, const weir_trace_event *event, uint32_t index)
{
    builder->births++;
    builder->addressed += event->address != 0;
    if (index >= builder->trace->block_count) {
        builder->trace->block_count = index + 1;
    }
}

static void note_kind(struct trace_builder *builder, const weir_trace_event *event, uint32_t index)
{
    struct trace *trace = builder->trace;
    switch (event->kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
        count_birth(builder, event, index);
        break;
    case WEIR_TRACE_REALLOC:
        if (index >= trace->block_count) {
            trace->block_count = index + 1;
        }
        break;
    case WEIR_TRACE_RECORD:
    case WEIR_TRACE_WAIT:
    case WEIR_TRACE_SYNC:
        if (index != TRACE_NO_INDEX && index >= trace->object_count) {
            trace->object_count = index + 1;
        }
        break;
    case WEIR_TRACE_SEGMENT:
        trace->has_segments = true;
        break;
    case WEIR_TRACE_MAPPING:
        trace->expandable = true;
        break;
    default:
        break;
    }
}

bool builder_event(struct trace_builder *builder, const weir_trace_event *event, uint32_t index, uint32_t old_index,
                   bool gives_device)
{
    struct trace *trace = builder->trace;
    if (trace->event_count >= builder->limits.max_events) {
        return trace_say(builder->error, WEIR_ERR_LIMIT, trace->path,
                         "more than %" PRIu64 " events, which is the limit", builder->limits.max_events);
    }
    struct trace_event *events =
        grow_array(trace->events, trace->event_count, &builder->event_capacity, sizeof(*events));
    if (events == NULL) {
        return builder_no_memory(builder);
    }
    trace->events = events;
    struct trace_event *to = &events[trace->event_count++];
    to->event = *event;
    to->index = index;
    to->old_index = old_index;

    if (event->device >= trace->device_count && builder_device(builder, event->device) == NULL) {
        return builder_no_memory(builder);
    }
    if (event->stream != WEIR_TRACE_NONE) {
        if (event->stream >= trace->stream_count && !need_stream(builder, event->stream)) {
            return builder_no_memory(builder);
        }
        if (gives_device) {
            bind_stream(trace, event->stream, event->device);
        }
    }
    if (event->thread != WEIR_TRACE_NONE && event->thread >= trace->thread_count) {
        trace->thread_count = event->thread + 1;
    }
    uint32_t *pool_count = event->kind == WEIR_TRACE_CAPTURE ? &trace->capture_pool_count : &trace->pool_count;
    if (event->pool != WEIR_TRACE_NONE && event->pool >= *pool_count) {
        *pool_count = event->pool + 1;
    }
    trace->capture_count += event->kind == WEIR_TRACE_CAPTURE && event->mode == 'B';
    note_kind(builder, event, index);
    return true;
}

char *builder_text(struct trace_builder *builder, const char *text, size_t length)
{
    return arena_text(&builder->trace->store->arena, text, length);
}

void *builder_bytes(struct trace_builder *builder, const void *bytes, size_t size)
{
    void *copy = arena_alloc(&builder->trace->store->arena, size);
    if (copy != NULL && size > 0) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

bool builder_tag(struct trace_builder *builder, const char *text, size_t length, uint32_t *tag)
{
    struct trace *trace = builder->trace;
    const char **tags = grow_array(trace->tags, trace->tag_count, &builder->tag_capacity, sizeof(*tags));
    char *copy = builder_text(builder, text, length);
    if (tags != NULL) {
        trace->tags = tags;
    }
    const char **stacks = grow_array(trace->stacks, trace->tag_count, &builder->stack_capacity, sizeof(*stacks));
    if (stacks != NULL) {
        trace->stacks = stacks;
    }
    if (tags == NULL || stacks == NULL || copy == NULL) {
        return builder_no_memory(builder);
    }
    stacks[trace->tag_count] = NULL;
    *tag = trace->tag_count;
    tags[trace->tag_count++] = copy;
    return true;
}

bool builder_stack(struct trace_builder *builder, uint32_t tag, const char *text, size_t length)
{
    char *copy = arena_alloc(&builder->trace->store->arena, length + 1);
    if (copy == NULL) {
        return builder_no_memory(builder);
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    builder->trace->stacks[tag] = copy;
    builder->has_stacks = true;
    return true;
}

bool builder_note(struct trace_builder *builder, const char *text, size_t length)
{
    struct trace *trace = builder->trace;
    const char **notes = grow_array(trace->notes, trace->note_count, &builder->note_capacity, sizeof(*notes));
    char *copy = builder_text(builder, text, length);
    if (notes != NULL) {
        trace->notes = notes;
    }
    if (notes == NULL || copy == NULL) {
        return builder_no_memory(builder);
    }
    notes[trace->note_count++] = copy;
    return true;
}

bool builder_note_format(struct trace_builder *builder, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0) {
        return builder_no_memory(builder);
    }
    return builder_note(builder, text, strlen(text));
}

bool builder_note_count(struct trace_builder *builder, uint64_t count, const char *text)
{
    return count == 0 || builder_note_format(builder, "%" PRIu64 " %s", count, text);
}

/* Keeps a copy of a text in *kept. */
static bool keep_text(struct trace_builder *builder, const char **kept, const char *text, size_t length)
{
    char *copy = builder_text(builder, text, length);
    if (copy == NULL) {
        return builder_no_memory(builder);
    }
    *kept = copy;
    return true;
}

bool builder_source(struct trace_builder *builder, const char *text, size_t length)
{
    return keep_text(builder, &builder->trace->source, text, length);
}

bool builder_recorded_note(struct trace_builder *builder, const char *text, size_t length)
{
    return keep_text(builder, &builder->trace->recorded_note, text, length);
}

bool builder_allocator_settings(struct trace_builder *builder, const char *text, size_t length)
{
    return keep_text(builder, &builder->trace->allocator_settings, text, length);
}

/* Finds the devices that are used, and gives each stream a device. */
static void settle_devices(struct trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if (trace_takes_memory(event->kind)) {
            const uint32_t bound = trace_event_device(trace, event);
            trace->devices[bound == STREAM_WITHOUT_DEVICE ? 0 : bound].used = true;
        }
    }
    uint32_t used = 0;
    for (uint32_t d = trace->device_count; d-- > 0;) {
        if (trace->devices[d].used) {
            trace->device = d;
            used++;
        }
    }
    const uint32_t rest = used == 1 ? trace->device : 0;
    trace->device = used > 1 ? TRACE_NO_INDEX : rest;
    trace->devices[rest].used = true; /* also if no event takes memory */
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        if (trace->stream_device[i] == STREAM_WITHOUT_DEVICE) {
            trace->stream_device[i] = rest;
        }
    }
}

bool builder_finish(struct trace_builder *builder, struct trace **out)
{
    struct trace *trace = builder->trace;
    settle_devices(trace);
    trace->file_event_count = trace->event_count;
    trace->has_addresses = builder->births > 0 && builder->addressed == builder->births;
    if (builder->addressed > 0 && trace->pad_bytes == TRACE_PAD_UNKNOWN && !trace_infer_pad(trace)) {
        return builder_no_memory(builder);
    }
    if (trace->event_count > 0) {
        struct trace_event *fitted = realloc(trace->events, trace->event_count * sizeof(*fitted));
        trace->events = fitted != NULL ? fitted : trace->events;
    }
    if (!builder->has_stacks) {
        free(trace->stacks);
        trace->stacks = NULL;
    }
    builder->trace = NULL;
    *out = trace;
    return true;
}

void builder_drop(struct trace_builder *builder)
{
    trace_free(builder->trace);
    builder->trace = NULL;
}

void trace_free(struct trace *trace)
{
    if (trace == NULL) {
        return;
    }
    if (trace->store != NULL) {
        arena_free(&trace->store->arena);
        free(trace->store);
    }
    free(trace->devices);
    free(trace->stream_device);
    free(trace->tags);
    free(trace->stacks);
    free(trace->notes);
    free(trace->events);
    free(trace->numbers);
    free(trace);
}

/* --- bytes that the recorded allocator added before it rounded --- */

struct pad_evidence {
    struct id_map starts;       /* addresses of live blocks */
    struct id_map ends_without; /* end addresses of live blocks, if no padding was added to their sizes */
    struct id_map ends_with;    /* end addresses of live blocks, if 32 bytes of padding were added to their sizes */
    uint64_t without;
    uint64_t with;
};

/* Returns a key that is unique for device and address: devices may use the same addresses for different memory. */
static uint64_t device_address(uint32_t device, uint64_t address)
{
    return address ^ ((uint64_t)device << 52);
}

/* True if the size of the block tells whether the allocator added 32 bytes of padding before rounding. */
static bool tells_pad(const weir_trace_event *event)
{
    return event->kind == WEIR_TRACE_ALLOC && event->size < UINT64_MAX / 2 && event->address < UINT64_MAX / 2 &&
           round_up(event->size, 512) != round_up(event->size + 32, 512);
}

static bool block_appears(struct pad_evidence *evidence, const weir_trace_event *event)
{
    uint32_t any;
    uint64_t start = device_address(event->device, event->address);
    evidence->without += id_map_get(&evidence->ends_without, start, &any);
    evidence->with += id_map_get(&evidence->ends_with, start, &any);
    if (!id_map_put(&evidence->starts, start, 0)) {
        return false;
    }
    if (!tells_pad(event)) {
        return true;
    }
    uint64_t without = device_address(event->device, event->address + round_up(event->size, 512));
    uint64_t with = device_address(event->device, event->address + round_up(event->size + 32, 512));
    evidence->without += id_map_get(&evidence->starts, without, &any);
    evidence->with += id_map_get(&evidence->starts, with, &any);
    return id_map_put(&evidence->ends_without, without, 0) && id_map_put(&evidence->ends_with, with, 0);
}

static void block_disappears(struct pad_evidence *evidence, const weir_trace_event *event)
{
    id_map_remove(&evidence->starts, device_address(event->device, event->address));
    if (tells_pad(event)) {
        id_map_remove(&evidence->ends_without,
                      device_address(event->device, event->address + round_up(event->size, 512)));
        id_map_remove(&evidence->ends_with,
                      device_address(event->device, event->address + round_up(event->size + 32, 512)));
    }
}

static bool gather_pad(const struct trace *trace, struct pad_evidence *evidence, size_t *birth_of)
{
    for (size_t i = 0; i < trace->event_count && evidence->without == 0; i++) {
        const struct trace_event *entry = &trace->events[i];
        const weir_trace_event *event = &entry->event;
        if (event->kind == WEIR_TRACE_PRIOR || event->kind == WEIR_TRACE_ALLOC) {
            birth_of[entry->index] = i + 1;
            if (event->address != 0 && !block_appears(evidence, event)) {
                return false;
            }
        } else if (event->kind == WEIR_TRACE_FREE && birth_of[entry->index] != 0) {
            const weir_trace_event *birth = &trace->events[birth_of[entry->index] - 1].event;
            if (birth->address != 0) {
                block_disappears(evidence, birth);
            }
        } else if (event->kind == WEIR_TRACE_REALLOC && birth_of[entry->old_index] != 0) {
            block_disappears(evidence, &trace->events[birth_of[entry->old_index] - 1].event);
        }
    }
    return true;
}

bool trace_infer_pad(struct trace *trace)
{
    struct pad_evidence evidence = {.without = 0};
    size_t *birth_of = calloc((size_t)trace->block_count + 1, sizeof(*birth_of));
    bool done = birth_of != NULL && gather_pad(trace, &evidence, birth_of);
    if (done && evidence.without > 0) {
        trace->pad_bytes = 0;
    } else if (done && evidence.with > 0) {
        trace->pad_bytes = 32;
    }
    free(birth_of);
    id_map_free(&evidence.starts);
    id_map_free(&evidence.ends_without);
    id_map_free(&evidence.ends_with);
    return done;
}

bool trace_is_of_malloc(const struct trace *trace)
{
    return strcmp(trace->devices[trace->device].name, "host memory") == 0;
}

bool trace_only_counts(const struct trace *trace)
{
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].event.kind != WEIR_TRACE_COUNTERS) {
            return false;
        }
    }
    return trace->event_count > 0;
}

size_t trace_start_events(const struct trace *trace)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const weir_trace_kind kind = trace->events[i].event.kind;
        if (kind == WEIR_TRACE_PRIOR) {
            count = i + 1;
        } else if (kind != WEIR_TRACE_SEGMENT && kind != WEIR_TRACE_MAPPING && kind != WEIR_TRACE_MARK) {
            break;
        }
    }
    return count;
}
