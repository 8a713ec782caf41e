/* fuzz_trace.h: shared by the fuzz targets of traces: read, check the promises of trace.h, write, read again, compare.
 * A broken promise aborts. */
#ifndef WEIR_TESTS_FUZZ_TRACE_H
#define WEIR_TESTS_FUZZ_TRACE_H

#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fuzz_require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "broken promise: %s\n", what);
        abort();
    }
}

/* Checks that indices are in range and that each block is allocated before use and freed at most once. */
static inline void fuzz_check_trace(const struct trace *trace)
{
    unsigned char *lives = calloc((size_t)trace->block_count + 1, 1); /* 0 not yet allocated, 1 live, 2 freed */
    fuzz_require(lives != NULL, "memory for the check");
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *entry = &trace->events[i];
        const weir_trace_event *event = &entry->event;
        fuzz_require(event->tag == WEIR_TRACE_NONE || event->tag < trace->tag_count, "tags are defined");
        fuzz_require(event->stream == WEIR_TRACE_NONE || event->stream < trace->stream_count, "streams are counted");
        fuzz_require(event->device < trace->device_count, "devices are counted");
        fuzz_require(event->thread < trace->thread_count, "threads are counted");
        const uint32_t pools = event->kind == WEIR_TRACE_CAPTURE ? trace->capture_pool_count : trace->pool_count;
        fuzz_require(event->pool == WEIR_TRACE_NONE || event->pool < pools, "pools are counted");
        if (event->kind == WEIR_TRACE_REALLOC) {
            fuzz_require(entry->old_index < trace->block_count && lives[entry->old_index] == 1, "r of a live block");
            lives[entry->old_index] = 2;
        }
        if (event->kind == WEIR_TRACE_PRIOR || event->kind == WEIR_TRACE_ALLOC || event->kind == WEIR_TRACE_REALLOC) {
            fuzz_require(entry->index < trace->block_count && lives[entry->index] == 0, "a block is born once");
            fuzz_require(event->size > 0, "a block has a size");
            lives[entry->index] = 1;
        } else if (event->kind == WEIR_TRACE_FREE || event->kind == WEIR_TRACE_USE) {
            fuzz_require(entry->index < trace->block_count && lives[entry->index] == 1, "use of a live block");
            lives[entry->index] = event->kind == WEIR_TRACE_FREE ? 2 : 1;
        } else if (entry->index != TRACE_NO_INDEX && event->kind != WEIR_TRACE_REALLOC) {
            fuzz_require(entry->index < trace->object_count, "events are counted");
        }
    }
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        fuzz_require(trace->stream_device[i] < trace->device_count, "a stream's device is counted");
    }
    free(lives);
}

static inline bool fuzz_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static inline const char *fuzz_tag(const struct trace *trace, const weir_trace_event *event)
{
    return event->tag != WEIR_TRACE_NONE ? trace->tags[event->tag] : NULL;
}

static inline void fuzz_compare(const struct trace *a, const struct trace *b)
{
    fuzz_require(a->event_count == b->event_count && a->block_count == b->block_count && a->clock == b->clock &&
                     a->note_count == b->note_count && fuzz_same_text(a->source, b->source) &&
                     fuzz_same_text(a->recorded_note, b->recorded_note),
                 "the head survives");
    for (size_t i = 0; i < a->event_count; i++) {
        const weir_trace_event *p = &a->events[i].event;
        const weir_trace_event *q = &b->events[i].event;
        fuzz_require(a->events[i].index == b->events[i].index && a->events[i].old_index == b->events[i].old_index,
                     "indices survive");
        fuzz_require(p->kind == q->kind && p->mode == q->mode && p->device == q->device && p->stream == q->stream &&
                         p->thread == q->thread && p->pool == q->pool && p->time_ns == q->time_ns && p->id == q->id &&
                         p->old_id == q->old_id && p->size == q->size && p->extra == q->extra &&
                         p->address == q->address && fuzz_same_text(p->name, q->name) &&
                         fuzz_same_text(fuzz_tag(a, p), fuzz_tag(b, q)),
                     "an event survives");
    }
}

/* Each device that is used gives a trace; every block is in one of them, under the numbers of the file. */
static inline void fuzz_split(const struct trace *trace)
{
    uint64_t blocks = 0;
    struct trace_error error;
    for (uint32_t d = 0; d < trace->device_count; d++) {
        struct trace *one = NULL;
        const bool done = trace_of_device(trace, d, &one, &error) == WEIR_OK;
        fuzz_require(done == trace->devices[d].used, "a device that is used has a trace");
        if (!done) {
            continue;
        }
        fuzz_check_trace(one);
        fuzz_require(one->device == d, "the trace is of the device");
        for (size_t i = 0; i < one->event_count; i++) {
            const uint64_t number = trace_event_number(one, i);
            fuzz_require(number < trace->event_count && (i == 0 || number > trace_event_number(one, i - 1)) &&
                             trace->events[number].event.kind == one->events[i].event.kind &&
                             trace->events[number].event.id == one->events[i].event.id,
                         "an event keeps its number");
        }
        blocks += one->block_count;
        trace_free(one);
    }
    fuzz_require(blocks == trace->block_count, "every block is on one device");
}

/* Makes a trace of a window that the input selects. The trace and the traces of its devices can be written. At the end
 * of the window, the same blocks are live as in the whole trace at this event. */
static inline void fuzz_window(const struct trace *trace, const uint8_t *data, size_t size)
{
    struct trace_error error;
    struct trace *part = NULL;
    struct trace *again = NULL;
    char *text = NULL;
    size_t length = 0;
    const uint64_t sum = size < 2 ? 0 : (uint64_t)data[size - 1] << 8 | data[size - 2];
    const uint32_t stream = (uint32_t)(sum % trace->stream_count);
    const size_t first = trace->event_count == 0 ? 0 : (size_t)(sum * 7 % trace->event_count);
    const struct trace_filter filter = {.from = {TRACE_BOUND_EVENT, first},
                                        .to = {TRACE_BOUND_EVENT, first + sum % 64},
                                        .streams = &stream,
                                        .stream_count = sum % 3 == 0};
    if (trace_filtered(trace, &filter, &part, &error) != WEIR_OK) {
        fuzz_require(part == NULL && strchr(error.message, '\n') == NULL, "a refusal is one line");
        return;
    }
    fuzz_check_trace(part);
    fuzz_require(part->part != NULL && part->part->first <= part->part->last, "a part knows its window");
    size_t live = 0;
    for (size_t i = 0; i < part->event_count; i++) {
        const weir_trace_kind kind = part->events[i].event.kind;
        fuzz_require(trace_event_number(part, i) < trace->file_event_count, "an event has a number of the file");
        live += kind == WEIR_TRACE_PRIOR || kind == WEIR_TRACE_ALLOC;
        live -= kind == WEIR_TRACE_FREE;
    }
    for (size_t i = 0; i < trace->event_count && filter.stream_count == 0; i++) {
        const weir_trace_kind kind = trace->events[i].event.kind;
        live -= kind == WEIR_TRACE_PRIOR || (i <= part->part->last && kind == WEIR_TRACE_ALLOC);
        live += i <= part->part->last && kind == WEIR_TRACE_FREE;
    }
    fuzz_require(filter.stream_count > 0 || live == 0, "the live blocks at the end are those of the trace");
    fuzz_require(trace_write_memory(part, &text, &length, &error) == WEIR_OK, "a part can be written");
    fuzz_require(trace_read_memory("part", text, length, NULL, &again, &error) == WEIR_OK, "a part can be read");
    fuzz_require(again->event_count == part->event_count, "the events of a part survive");
    for (uint32_t d = 0; d < part->device_count && part->device_count <= 8; d++) {
        struct trace *one = NULL;
        if (trace_of_device(part, d, &one, &error) == WEIR_OK) {
            fuzz_check_trace(one);
            trace_free(one);
        }
    }
    free(text);
    trace_free(part);
    trace_free(again);
}

static inline void fuzz_trace_bytes(const char *name, const uint8_t *data, size_t size)
{
    struct trace_limits limits = {.max_bytes = 1 << 22, .max_events = 1 << 16};
    struct trace_error error;
    struct trace *trace = NULL;
    struct trace *again = NULL;
    char *text = NULL;
    size_t length = 0;
    if (trace_read_memory(name, data, size, &limits, &trace, &error) != WEIR_OK) {
        fuzz_require(trace == NULL, "the result is untouched after an error");
        fuzz_require(strncmp(error.message, name, strlen(name)) == 0, "a message names the file");
        fuzz_require(strchr(error.message, '\n') == NULL, "a message is one line");
        return;
    }
    fuzz_check_trace(trace);
    limits.max_bytes = 0;
    fuzz_require(trace_write_memory(trace, &text, &length, &error) == WEIR_OK, "what was read can be written");
    if (trace_read_memory(name, text, length, &limits, &again, &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.message);
        fuzz_require(false, "what was written can be read");
    }
    fuzz_compare(trace, again);
    if (trace->device_count <= 8) {
        fuzz_split(trace);
    }
    fuzz_window(trace, data, size);
    free(text);
    trace_free(trace);
    trace_free(again);
}

#endif
