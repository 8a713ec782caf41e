/* torch_events.c: the blocks that other streams use, see torch_heap.h. */
#include "torch_parts.h"

#include <stdlib.h>
#include <string.h>

/* The streams that use a taken block; hangs at the record of the block. */
struct uses {
    uint32_t events; /* recorded, and not seen to have passed */
    uint32_t count;
    uint32_t capacity;
    weir_lane lanes[];
};

static struct uses *uses_of(const struct segment_block *block)
{
    return block->record.as.pool.link;
}

bool torch_block_is_used(const struct segment_block *block)
{
    return uses_of(block) != NULL && uses_of(block)->count > 0;
}

weir_status torch_heap_use(struct torch_heap *heap, void *token, uint32_t stream)
{
    struct segment_block *block = token;
    const weir_lane lane = stream + 1;
    struct uses *uses = uses_of(block);
    /* PyTorch overlooks a use on the block's own stream; torch_npu waits for it too */
    if (lane == block->segment->lane && heap->settings.program == PYTORCH_CUDA) {
        return WEIR_OK;
    }
    for (uint32_t i = 0; uses != NULL && i < uses->count; i++) {
        if (uses->lanes[i] == lane) {
            return WEIR_OK;
        }
    }
    if (uses == NULL || uses->count == uses->capacity) {
        const uint32_t capacity = uses == NULL ? 4 : uses->capacity * 2;
        struct uses *grown = realloc(uses, sizeof(*grown) + capacity * sizeof(weir_lane));
        if (grown == NULL) {
            return WEIR_ERR_INTERNAL;
        }
        if (uses == NULL) {
            *grown = (struct uses){0};
        }
        grown->capacity = capacity;
        block->record.as.pool.link = grown;
        uses = grown;
    }
    uses->lanes[uses->count++] = lane;
    return WEIR_OK;
}

static weir_status take_event(struct torch_heap *heap, struct torch_event **event)
{
    *event = heap->unused_events;
    if (*event != NULL) {
        heap->unused_events = (*event)->next;
        return WEIR_OK;
    }
    *event = calloc(1, sizeof(**event));
    if (*event == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    const weir_status status = weir_device_event_create(heap->config.device, &(*event)->event);
    if (status != WEIR_OK) {
        free(*event);
    }
    return status;
}

static weir_status record_on(struct torch_heap *heap, struct segment_block *block, weir_lane lane)
{
    struct torch_event *event = NULL;
    weir_status status = take_event(heap, &event);
    if (status != WEIR_OK) {
        return status;
    }
    struct torch_stream *stream = &heap->streams[lane];
    event->block = block;
    event->next = NULL;
    status = weir_device_event_record(heap->config.device, event->event, stream->native);
    if (stream->last != NULL) {
        stream->last->next = event;
    } else {
        stream->first = event;
    }
    stream->last = event;
    uses_of(block)->events++;
    heap->pending_events++;
    return status;
}

weir_status torch_events_record(struct torch_heap *heap, struct segment_block *block)
{
    struct uses *uses = uses_of(block);
    weir_status status = WEIR_OK;
    heap->counted.pending_bytes += block->node.size;
    for (uint32_t i = 0; i < uses->count && status == WEIR_OK; i++) {
        status = record_on(heap, block, uses->lanes[i]);
    }
    uses->count = 0;
    return status;
}

/* Takes the first event of a stream, which has passed, and frees its block if no other event guards it. */
static void pass_first(struct torch_heap *heap, struct torch_stream *stream)
{
    struct torch_event *event = stream->first;
    struct segment_block *block = event->block;
    stream->first = event->next;
    stream->last = stream->first != NULL ? stream->last : NULL;
    event->block = NULL;
    event->next = heap->unused_events;
    heap->unused_events = event;
    heap->pending_events--;
    uses_of(block)->events--;
    if (uses_of(block)->events == 0) {
        heap->counted.pending_bytes -= block->node.size;
        torch_block_settle(heap, block);
    }
}

weir_status torch_events_poll(struct torch_heap *heap)
{
    for (size_t lane = 0; lane < heap->stream_count && heap->pending_events > 0; lane++) {
        struct torch_stream *stream = &heap->streams[lane];
        while (stream->first != NULL) {
            bool passed = false;
            const weir_status status = weir_device_event_query(heap->config.device, stream->first->event, &passed);
            if (status != WEIR_OK) {
                return status;
            }
            if (!passed) {
                break;
            }
            pass_first(heap, stream);
        }
    }
    return WEIR_OK;
}

weir_status torch_events_wait(struct torch_heap *heap)
{
    for (size_t lane = 0; lane < heap->stream_count && heap->pending_events > 0; lane++) {
        struct torch_stream *stream = &heap->streams[lane];
        while (stream->first != NULL) {
            const weir_status status = weir_device_event_sync(heap->config.device, stream->first->event);
            if (status != WEIR_OK) {
                return status;
            }
            heap->counted.waits++;
            pass_first(heap, stream);
        }
    }
    return WEIR_OK;
}

void torch_block_settle(struct torch_heap *heap, struct segment_block *block)
{
    free(uses_of(block));
    block->record.as.pool.link = NULL;
    segments_free(&heap->segments, block, heap->searches[block->segment->kind]);
}

void torch_events_fini(struct torch_heap *heap)
{
    for (size_t lane = 0; lane < heap->stream_count; lane++) {
        while (heap->streams[lane].first != NULL) {
            struct torch_event *event = heap->streams[lane].first;
            heap->streams[lane].first = event->next;
            event->next = heap->unused_events;
            heap->unused_events = event;
        }
    }
    while (heap->unused_events != NULL) {
        struct torch_event *event = heap->unused_events;
        heap->unused_events = event->next;
        (void)!weir_device_event_destroy(heap->config.device, event->event); /* the device is at its end */
        free(event);
    }
    for (struct segment *segment = heap->segments.first; segment != NULL; segment = segment->next) {
        for (struct segment_block *block = segment->first; block != NULL; block = block->next) {
            if (block->state == SEGMENT_TAKEN) {
                free(uses_of(block));
            }
        }
    }
}
