/* live_peak.c: see live_peak.h. */
#include "replay/live_peak.h"

#include "replay/recorded_oom.h"

#include <stdlib.h>

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct tally {
    uint64_t live;
    uint64_t peak;
    /* [block_count + 1]: the last entry is for the request on which the recorded program ran out of memory */
    uint64_t *size;
};

static void add_block(struct tally *tally, uint32_t index, uint64_t size)
{
    tally->size[index] = size == 0 ? 1 : size;
    tally->live = sum_of(tally->live, tally->size[index]);
    tally->peak = tally->live > tally->peak ? tally->live : tally->peak;
}

static void drop_block(struct tally *tally, uint32_t index)
{
    tally->live -= tally->size[index];
    tally->size[index] = 0;
}

static void add_up(struct tally *tally, const struct trace *trace, enum live_rule rule)
{
    const struct recorded_oom refused = recorded_oom_find(trace);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->event.kind == WEIR_TRACE_PRIOR) {
            add_block(tally, event->index, event->event.size);
        }
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        switch (event->event.kind) {
        case WEIR_TRACE_ALLOC:
            add_block(tally, event->index, event->event.size);
            break;
        case WEIR_TRACE_REALLOC:
            if (rule == LIVE_ON_HOST) {
                drop_block(tally, event->old_index);
            }
            add_block(tally, event->index, event->event.size);
            if (rule == LIVE_ON_DEVICE) {
                drop_block(tally, event->old_index);
            }
            break;
        case WEIR_TRACE_FREE:
            drop_block(tally, event->index);
            break;
        case WEIR_TRACE_OOM:
            if (rule == LIVE_ON_DEVICE && refused.found && i == refused.index) {
                add_block(tally, trace->block_count, refused.size);
                drop_block(tally, trace->block_count);
            }
            break;
        default:
            break;
        }
    }
}

bool live_peak(const struct trace *trace, enum live_rule rule, uint64_t *peak)
{
    struct tally tally = {.size = calloc((size_t)trace->block_count + 1, sizeof(uint64_t))};
    const bool enough = tally.size != NULL;
    if (enough) {
        add_up(&tally, trace, rule);
        *peak = tally.peak;
    }
    free(tally.size);
    return enough;
}
