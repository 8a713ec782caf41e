/* replay_heap.c: see replay_heap.h. */
#include "replay/replay_heap.h"

#include <weir/budget.h>

static weir_status wait_all(void *ctx)
{
    return weir_sim_sync(ctx);
}

weir_status replay_heap_torch(struct replay_heap *heap, weir_device *device, const struct pytorch_settings *settings)
{
    const struct torch_heap_config config = {
        .device = device, .settings = settings, .wait_all = wait_all, .ctx = heap->sim};
    return torch_heap_create(&config, &heap->torch);
}

weir_status replay_heap_destroy(struct replay_heap *heap)
{
    const weir_status pool = weir_pool_destroy(heap->pool);
    const weir_status torch = torch_heap_destroy(heap->torch);
    heap->pool = NULL;
    heap->torch = NULL;
    return pool != WEIR_OK ? pool : torch;
}

weir_status replay_heap_stream(struct replay_heap *heap, uint32_t number, void *native, struct replay_stream *stream)
{
    stream->number = number;
    return heap->torch != NULL ? torch_heap_stream(heap->torch, number, native)
                               : weir_pool_stream(heap->pool, native, &stream->pool);
}

weir_status replay_heap_alloc(struct replay_heap *heap, const struct replay_stream *stream, uint64_t size,
                              uint64_t align, weir_tag tag, struct replay_taken *taken)
{
    if (heap->torch != NULL) {
        weir_range range = {0};
        const weir_status status = torch_heap_alloc(heap->torch, stream->number, size, align, &range);
        *taken = (struct replay_taken){range.token, range.address, range.size};
        heap->failures += status == WEIR_ERR_NO_MEMORY ? 1 : 0;
        return status;
    }
    weir_block *block = NULL;
    const weir_status status = weir_pool_alloc_tagged(heap->pool, stream->pool, size, align, tag, &block);
    if (status == WEIR_OK) {
        *taken = (struct replay_taken){block, weir_block_address(block), weir_block_capacity(block)};
    }
    return status;
}

weir_status replay_heap_free(struct replay_heap *heap, const struct replay_taken *taken,
                             const struct replay_stream *home, const struct replay_stream *stream)
{
    if (heap->torch == NULL) {
        return stream != NULL ? weir_pool_free(heap->pool, taken->handle, stream->pool)
                              : weir_pool_free_idle(heap->pool, taken->handle);
    }
    weir_status status = WEIR_OK;
    if (stream != NULL && stream != home) {
        status = torch_heap_use(heap->torch, taken->handle, stream->number);
    }
    return status == WEIR_OK ? torch_heap_free(heap->torch, taken->handle) : status;
}

weir_status replay_heap_use(struct replay_heap *heap, const struct replay_taken *taken,
                            const struct replay_stream *stream)
{
    return heap->torch != NULL ? torch_heap_use(heap->torch, taken->handle, stream->number)
                               : weir_pool_use(heap->pool, taken->handle, stream->pool);
}

weir_status replay_heap_recorded(struct replay_heap *heap, weir_event *event, const struct replay_stream *stream)
{
    return heap->torch != NULL ? WEIR_OK : weir_stream_recorded(heap->pool, event, stream->pool);
}

weir_status replay_heap_waited(struct replay_heap *heap, const struct replay_stream *stream, weir_event *event)
{
    return heap->torch != NULL ? WEIR_OK : weir_stream_waited(heap->pool, stream->pool, event);
}

weir_status replay_heap_stream_synced(struct replay_heap *heap, const struct replay_stream *stream)
{
    return heap->torch != NULL ? WEIR_OK : weir_stream_synced(heap->pool, stream->pool);
}

weir_status replay_heap_event_synced(struct replay_heap *heap, weir_event *event)
{
    return heap->torch != NULL ? WEIR_OK : weir_event_synced(heap->pool, event);
}

weir_status replay_heap_trim(struct replay_heap *heap)
{
    return heap->torch != NULL ? torch_heap_empty_cache(heap->torch)
                               : weir_pool_trim(heap->pool, 0, WEIR_TRIM_WAIT, NULL);
}

weir_status replay_heap_check(struct replay_heap *heap, const char **why)
{
    return heap->torch != NULL ? torch_heap_check(heap->torch, why) : weir_pool_check(heap->pool, why);
}

static void torch_figures(const struct torch_heap *torch, struct replay_heap_figures *figures)
{
    struct torch_heap_stats stats;
    torch_heap_get_stats(torch, &stats);
    *figures = (struct replay_heap_figures){.free_bytes = stats.free_bytes,
                                            .largest_free_bytes = stats.largest_free_bytes,
                                            .pending_bytes = stats.pending_bytes,
                                            .syncs = stats.waits};
}

void replay_heap_get_figures(struct replay_heap *heap, struct replay_heap_figures *figures)
{
    *figures = (struct replay_heap_figures){0};
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    if (heap->torch != NULL) {
        torch_figures(heap->torch, figures);
    } else if (weir_pool_get_stats(heap->pool, &stats) == WEIR_OK) {
        figures->free_bytes = stats.free_bytes;
        figures->largest_free_bytes = stats.largest_free_bytes;
        figures->pending_bytes = stats.pending_bytes;
        figures->waits = stats.waits;
        figures->syncs = stats.syncs;
        for (unsigned i = 0; i < WEIR_RUNG_COUNT; i++) {
            figures->served[i] = stats.served[i];
        }
    }
}

/* Fills in the figures that the model has of its memory. A request of 0 bytes: no request has failed. */
static void describe_torch(struct replay_heap *heap, const struct replay_stream *stream, uint64_t size,
                           uint64_t live_bytes, weir_oom_record *record)
{
    struct torch_heap_stats stats;
    torch_heap_get_stats(heap->torch, &stats);
    *record = (weir_oom_record)WEIR_OOM_RECORD_INIT;
    record->failure = size != 0 ? heap->failures : 0;
    record->size = size;
    record->stream = stream->number;
    record->reserved_bytes = stats.held_bytes;
    record->requested_bytes = live_bytes;
    record->live_bytes = stats.taken_bytes - stats.pending_bytes;
    record->pending_bytes = stats.pending_bytes;
    record->free_bytes = record->usable_free_bytes = stats.free_bytes;
    record->largest_free_bytes = stats.largest_free_bytes;
    record->regions = stats.segments;
    record->usable_bytes = stats.usable_bytes;
    record->device_status = WEIR_ERR_NO_MEMORY;
    record->region_asked_bytes = size != 0 ? stats.asked_bytes : 0;
    (void)!weir_device_memory_info(weir_sim_device(heap->sim), &record->device_free_bytes, &record->device_total_bytes);
    if (stats.allowed_bytes != 0) { /* per_process_memory_fraction */
        const uint64_t most = stats.allowed_bytes > stats.held_bytes ? stats.allowed_bytes - stats.held_bytes : 0;
        record->device_free_bytes = most < record->device_free_bytes ? most : record->device_free_bytes;
        record->device_total_bytes = stats.allowed_bytes;
    }
    weir_oom_judge(record);
}

weir_status replay_heap_get_oom(struct replay_heap *heap, const struct replay_stream *stream, uint64_t size,
                                uint64_t live_bytes, weir_oom_record *record)
{
    if (heap->torch == NULL) {
        return weir_pool_get_oom(heap->pool, record);
    }
    describe_torch(heap, stream, size, live_bytes, record);
    return WEIR_OK;
}

weir_status replay_heap_survey(struct replay_heap *heap, const struct replay_stream *stream, uint64_t live_bytes,
                               weir_oom_record *record)
{
    if (heap->torch == NULL) {
        return weir_pool_survey(heap->pool, stream->pool, record);
    }
    describe_torch(heap, stream, 0, live_bytes, record);
    return WEIR_OK;
}
