/* device.c: makes a trace of one device out of a trace of several.
 *
 * Idea: the first pass finds the device of each block and event object, the second one the streams that remain, and the
 * third one hands the events that remain to the builder. The cost is linear in the events.
 */
#include "trace_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct split {
    const struct trace *from;
    uint32_t device;
    uint32_t *block_stream;  /* [block_count]: the stream of the block's birth */
    uint32_t *object_device; /* [object_count]; TRACE_NO_INDEX: no stream records the object or waits for it */
    uint32_t *streams;       /* new numbers; TRACE_NO_INDEX: not in the new trace */
    uint32_t *blocks;
    uint32_t *objects;
    uint32_t block_count;
    uint32_t object_count;
    size_t event_count; /* events that remain */
    struct trace_builder builder;
};

static uint32_t *make_numbers(size_t count)
{
    uint32_t *numbers = malloc((count + 1) * sizeof(*numbers));
    if (numbers != NULL) {
        memset(numbers, 0xff, (count + 1) * sizeof(*numbers)); /* TRACE_NO_INDEX */
    }
    return numbers;
}

static bool start_split(struct split *split)
{
    split->block_stream = make_numbers(split->from->block_count);
    split->object_device = make_numbers(split->from->object_count);
    split->streams = make_numbers(split->from->stream_count);
    split->blocks = make_numbers(split->from->block_count);
    split->objects = make_numbers(split->from->object_count);
    return split->block_stream != NULL && split->object_device != NULL && split->streams != NULL &&
           split->blocks != NULL && split->objects != NULL;
}

static void end_split(struct split *split)
{
    free(split->block_stream);
    free(split->object_device);
    free(split->streams);
    free(split->blocks);
    free(split->objects);
}

static void find_owners(struct split *split)
{
    const struct trace *from = split->from;
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_event *entry = &from->events[i];
        switch (entry->event.kind) {
        case WEIR_TRACE_PRIOR:
        case WEIR_TRACE_ALLOC:
            split->block_stream[entry->index] = entry->event.stream;
            break;
        case WEIR_TRACE_REALLOC:
            split->block_stream[entry->index] = split->block_stream[entry->old_index];
            break;
        case WEIR_TRACE_RECORD:
        case WEIR_TRACE_WAIT:
            if (split->object_device[entry->index] == TRACE_NO_INDEX) {
                split->object_device[entry->index] = from->stream_device[entry->event.stream];
            }
            break;
        default:
            break;
        }
    }
}

/* True if the stream is one of the device. */
static bool runs_here(const struct split *split, uint32_t stream)
{
    return split->from->stream_device[stream] == split->device;
}

static bool lives_here(const struct split *split, uint32_t block)
{
    return runs_here(split, split->block_stream[block]);
}

/* True if the event remains; *event is then the event with the old numbers. */
static bool remains(const struct split *split, const struct trace_event *entry, weir_trace_event *event)
{
    *event = entry->event;
    switch (event->kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
    case WEIR_TRACE_SEGMENT:
    case WEIR_TRACE_MAPPING:
    case WEIR_TRACE_OOM:
    case WEIR_TRACE_COUNTERS:
        event->device = trace_event_device(split->from, event);
        return event->device == split->device;
    case WEIR_TRACE_FREE:
        if (event->stream != WEIR_TRACE_NONE && !runs_here(split, event->stream)) {
            event->stream = split->block_stream[entry->index];
        }
        return lives_here(split, entry->index);
    case WEIR_TRACE_REALLOC:
        return lives_here(split, entry->old_index);
    case WEIR_TRACE_USE:
        return lives_here(split, entry->index) && runs_here(split, event->stream);
    case WEIR_TRACE_RECORD:
    case WEIR_TRACE_WAIT:
        return runs_here(split, event->stream) && split->object_device[entry->index] == split->device;
    case WEIR_TRACE_SYNC:
        if (event->mode == 'e') {
            return split->object_device[entry->index] == split->device;
        }
        return event->stream == WEIR_TRACE_NONE || runs_here(split, event->stream);
    case WEIR_TRACE_WORK:
    case WEIR_TRACE_TRIM:
    default: /* kinds without a stream concern every device */
        return event->stream == WEIR_TRACE_NONE || runs_here(split, event->stream);
    }
}

static void number_streams(struct split *split)
{
    weir_trace_event event;
    const struct trace *from = split->from;
    uint32_t count = 0;
    for (size_t i = 0; i < from->event_count; i++) {
        const bool stays = remains(split, &from->events[i], &event);
        split->event_count += stays;
        if (stays && event.stream != WEIR_TRACE_NONE) {
            split->streams[event.stream] = 0;
        }
    }
    for (uint32_t s = 0; s < from->stream_count; s++) {
        split->streams[s] = split->streams[s] == 0 ? count++ : TRACE_NO_INDEX;
    }
}

/* Returns the new number of a block or an object, which gets one when it is named first. */
static uint32_t renumber(uint32_t *numbers, uint32_t old, uint32_t *count)
{
    if (old != TRACE_NO_INDEX && numbers[old] == TRACE_NO_INDEX) {
        numbers[old] = (*count)++;
    }
    return old == TRACE_NO_INDEX ? TRACE_NO_INDEX : numbers[old];
}

static bool copy_event(struct split *split, const struct trace_event *entry, weir_trace_event *event)
{
    const bool names_object =
        event->kind == WEIR_TRACE_RECORD || event->kind == WEIR_TRACE_WAIT || event->kind == WEIR_TRACE_SYNC;
    const uint32_t old_index = renumber(split->blocks, entry->old_index, &split->block_count);
    const uint32_t index = names_object ? renumber(split->objects, entry->index, &split->object_count)
                                        : renumber(split->blocks, entry->index, &split->block_count);
    if (event->stream != WEIR_TRACE_NONE) {
        event->stream = split->streams[event->stream];
    }
    if (event->name != NULL) {
        event->name = builder_text(&split->builder, event->name, strlen(event->name));
        if (event->name == NULL) {
            return builder_no_memory(&split->builder);
        }
    }
    return builder_event(&split->builder, event, index, old_index, trace_takes_memory(event->kind));
}

static bool copy_events(struct split *split)
{
    weir_trace_event event;
    const struct trace *from = split->from;
    struct trace *to = split->builder.trace;
    to->numbers = calloc(split->event_count + 1, sizeof(*to->numbers));
    if (to->numbers == NULL) {
        return builder_no_memory(&split->builder);
    }
    for (size_t i = 0; i < from->event_count; i++) {
        if (remains(split, &from->events[i], &event)) {
            to->numbers[to->event_count] = trace_event_number(from, i);
            if (!copy_event(split, &from->events[i], &event)) {
                return false;
            }
        }
    }
    return true;
}

static bool copy_device(struct split *split)
{
    struct trace_builder *builder = &split->builder;
    const struct trace_device *from = &split->from->devices[split->device];
    struct trace_device *to = builder_device(builder, split->from->device_count - 1);
    const char *name = builder_text(builder, from->name, strlen(from->name));
    if (to == NULL || name == NULL) {
        return builder_no_memory(builder);
    }
    to = builder_device(builder, split->device);
    *to = *from;
    to->name = name;
    return true;
}

static bool copy_texts(struct split *split)
{
    uint32_t tag = 0;
    const struct trace *from = split->from;
    struct trace_builder *builder = &split->builder;
    bool done = builder_source(builder, from->source, strlen(from->source));
    for (uint32_t i = 0; i < from->tag_count && done; i++) {
        const char *stack = from->stacks != NULL ? from->stacks[i] : NULL;
        done = builder_tag(builder, from->tags[i], strlen(from->tags[i]), &tag) &&
               (stack == NULL || builder_stack(builder, tag, stack, strlen(stack)));
    }
    for (size_t i = 0; i < from->note_count && done; i++) {
        done = builder_note(builder, from->notes[i], strlen(from->notes[i]));
    }
    if (done && from->recorded_note != NULL) {
        done = builder_recorded_note(builder, from->recorded_note, strlen(from->recorded_note));
    }
    return done;
}

static bool build(struct split *split, struct trace **out)
{
    struct trace *to = split->builder.trace;
    if (!copy_device(split) || !copy_texts(split) || !copy_events(split)) {
        return false;
    }
    to->clock = split->from->clock;
    to->expandable = to->expandable || split->from->expandable;
    to->streams_mix_devices = split->from->streams_mix_devices;
    to->pad_bytes = split->from->pad_bytes;
    if (!builder_finish(&split->builder, out)) {
        return false;
    }
    to->file_event_count = split->from->file_event_count;
    return true;
}

/* Fills in the error for a device that the trace does not use. */
static weir_status refuse_device(const struct trace *trace, uint32_t device, struct trace_error *error)
{
    char list[160] = "";
    size_t used = 0;
    for (uint32_t d = 0; d < trace->device_count && used < sizeof(list) - 24; d++) {
        if (trace->devices[d].used) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%" PRIu32, used == 0 ? "" : ", ", d);
        }
    }
    if (used >= sizeof(list) - 24) {
        (void)snprintf(list + used, sizeof(list) - used, ", ...");
    }
    (void)trace_say(error, WEIR_ERR_INVALID, trace->path, "no event is of device %" PRIu32 "; the trace uses %s %s",
                    device, trace->device == TRACE_NO_INDEX ? "the devices" : "device", list);
    return error->status;
}

weir_status trace_of_device(const struct trace *trace, uint32_t device, struct trace **out, struct trace_error *error)
{
    if (device >= trace->device_count || !trace->devices[device].used) {
        return refuse_device(trace, device, error);
    }
    struct split split = {.from = trace, .device = device};
    const struct trace_limits limits = {.max_events = trace->event_count};
    if (!builder_start(&split.builder, trace->path, &limits, error)) {
        return error->status;
    }
    error->status = WEIR_OK;
    bool done = start_split(&split) || builder_no_memory(&split.builder);
    if (done) {
        find_owners(&split);
        number_streams(&split);
        done = build(&split, out);
    }
    if (!done) {
        builder_drop(&split.builder);
    }
    end_split(&split);
    return done ? WEIR_OK : error->status;
}
