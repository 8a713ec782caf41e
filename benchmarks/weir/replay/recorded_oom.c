/* recorded_oom.c: see recorded_oom.h. */
#include "replay/recorded_oom.h"

#include "replay/replay.h"

/* Adds or subtracts. The result saturates at 0 and UINT64_MAX, because a record may contradict itself. */
static uint64_t moved(uint64_t held, const weir_trace_event *event)
{
    if (event->mode == '-') {
        return held > event->size ? held - event->size : 0;
    }
    return held <= UINT64_MAX - event->size ? held + event->size : UINT64_MAX;
}

static uint64_t implied_capacity(const struct recorded_oom *oom)
{
    const uint64_t most = REPLAY_MOST_CAPACITY;
    if (oom->reserved_bytes == 0 || oom->reserved_bytes > most || oom->free_bytes > most - oom->reserved_bytes) {
        return 0;
    }
    const uint64_t capacity = oom->reserved_bytes + oom->free_bytes;
    return capacity >= REPLAY_LEAST_CAPACITY ? capacity : 0;
}

struct recorded_oom recorded_oom_find(const struct trace *trace)
{
    uint64_t held = 0;
    struct recorded_oom oom = {.found = false};
    for (size_t i = 0; i < trace->event_count; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        switch (event->kind) {
        case WEIR_TRACE_SEGMENT:
        case WEIR_TRACE_MAPPING:
            held = moved(held, event);
            break;
        case WEIR_TRACE_ALLOC:
            oom.stream = event->stream;
            oom.found = false;
            break;
        case WEIR_TRACE_REALLOC:
            oom.found = false;
            break;
        case WEIR_TRACE_OOM:
            oom.found = true;
            oom.index = i;
            oom.event = trace_event_number(trace, i);
            oom.size = event->size;
            oom.free_bytes = event->extra;
            oom.reserved_bytes = held;
            break;
        default:
            break;
        }
    }
    oom.capacity = oom.found ? implied_capacity(&oom) : 0;
    return oom;
}
