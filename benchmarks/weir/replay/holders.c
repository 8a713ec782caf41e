/* holders.c: see holders.h. */
#include "replay/holders.h"

#include "replay/tags.h"

#include <stdlib.h>
#include <string.h>

struct tag_sum *holders_start(const struct trace *trace)
{
    struct tag_sum *sums = calloc((size_t)trace->tag_count + 2, sizeof(*sums));
    for (uint32_t tag = 0; sums != NULL && tag < trace->tag_count; tag++) {
        sums[tag].text = trace->tags[tag];
    }
    if (sums != NULL) {
        sums[trace->tag_count].text = "untagged";
        sums[trace->tag_count + 1].text = "before the window";
    }
    return sums;
}

void holders_add(const struct trace *trace, struct tag_sum *sums, uint32_t tag, uint64_t bytes)
{
    const uint32_t place = tag < trace->tag_count ? tag : trace->tag_count + (tag == REPLAY_TAG_PRIOR);
    sums[place].bytes = bytes > UINT64_MAX - sums[place].bytes ? UINT64_MAX : sums[place].bytes + bytes;
    sums[place].blocks++;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(((const struct tag_sum *)left)->text, ((const struct tag_sum *)right)->text);
}

/* Inserts the tag into record->holders, sorted by bytes, if it is among the largest. */
static void keep_holder(weir_oom_record *record, const struct tag_sum *tag)
{
    uint32_t place = record->holder_count;
    while (place > 0 && record->holders[place - 1].requested_bytes < tag->bytes) {
        place--;
    }
    if (place == WEIR_OOM_ENTRIES || tag->blocks == 0) {
        return;
    }
    const uint32_t kept = record->holder_count < WEIR_OOM_ENTRIES ? record->holder_count : WEIR_OOM_ENTRIES - 1;
    memmove(&record->holders[place + 1], &record->holders[place], (kept - place) * sizeof(record->holders[0]));
    record->holders[place] = (weir_oom_holder){.requested_bytes = tag->bytes, .blocks = tag->blocks};
    replay_tags_fit_name(record->holders[place].name, tag->text);
    record->holder_count = kept + 1;
}

bool holders_end(const struct trace *trace, struct tag_sum *sums, weir_oom_record *record)
{
    if (sums == NULL) {
        return false;
    }
    const uint32_t count = trace->tag_count + 2;
    qsort(sums, count, sizeof(*sums), by_text);
    for (uint32_t i = 0; i < count; i++) {
        if (i + 1 < count && strcmp(sums[i].text, sums[i + 1].text) == 0) {
            sums[i + 1].bytes =
                sums[i].bytes > UINT64_MAX - sums[i + 1].bytes ? UINT64_MAX : sums[i].bytes + sums[i + 1].bytes;
            sums[i + 1].blocks += sums[i].blocks;
        } else {
            keep_holder(record, &sums[i]);
        }
    }
    free(sums);
    return true;
}

void holders_go_on(const struct trace *trace, const weir_trace_event **live, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct trace_event *event = &trace->events[i];
        switch (event->event.kind) {
        case WEIR_TRACE_REALLOC:
            live[event->old_index] = NULL;
            live[event->index] = &event->event;
            break;
        case WEIR_TRACE_PRIOR:
        case WEIR_TRACE_ALLOC:
            live[event->index] = &event->event;
            break;
        case WEIR_TRACE_FREE:
            live[event->index] = NULL;
            break;
        default:
            break;
        }
    }
}

const weir_trace_event **holders_live(const struct trace *trace, size_t count)
{
    const weir_trace_event **live = calloc((size_t)trace->block_count + 1, sizeof(const weir_trace_event *));
    if (live != NULL) {
        holders_go_on(trace, live, 0, count);
    }
    return live;
}

bool holders_at(const struct trace *trace, size_t count, weir_oom_record *record)
{
    const weir_trace_event **live = holders_live(trace, count);
    struct tag_sum *sums = live != NULL ? holders_start(trace) : NULL;
    for (uint32_t i = 0; sums != NULL && i < trace->block_count; i++) {
        if (live[i] != NULL) {
            holders_add(trace, sums, replay_tag_of_event(live[i]), live[i]->size);
        }
    }
    free(live);
    return holders_end(trace, sums, record);
}
