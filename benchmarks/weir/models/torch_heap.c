/* torch_heap.c: requests and the ladder, see torch_heap.h. */
#include "torch_parts.h"

#include <stdlib.h>

#define GRANULE SEGMENT_GRANULE
#define KEPT_REST_BYTES (UINT64_C(1) << 20) /* large pool: this many bytes or less are not split off */
#define LARGE_ALIGNED_BYTES (UINT64_C(2) << 20)

enum { lazy_events = 512 }; /* torch_npu: more events than this are polled even with lazy reclaim */

/* --- the heap --- */

weir_status torch_heap_create(const struct torch_heap_config *config, struct torch_heap **out)
{
    struct torch_heap *heap = calloc(1, sizeof(*heap));
    if (heap == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    heap->config = *config;
    heap->settings = *config->settings;
    heap->config.settings = NULL; /* copied */
    heap->info = (weir_device_info)WEIR_DEVICE_INFO_INIT;
    const weir_status status = weir_device_get_info(config->device, &heap->info);
    if (status != WEIR_OK) {
        free(heap);
        return status;
    }
    const double share = heap->settings.memory_fraction;
    heap->allowed_bytes = share < 1.0 ? (uint64_t)(share * (double)heap->info.capacity_bytes) : UINT64_MAX;
    *out = heap;
    return WEIR_OK;
}

weir_status torch_wait_all(struct torch_heap *heap)
{
    heap->counted.waits++;
    return heap->config.wait_all(heap->config.ctx);
}

static uint64_t device_bytes(const struct torch_heap *heap, uint64_t size)
{
    const uint64_t unit = heap->info.region_granularity_bytes;
    return (size + unit - 1) / unit * unit;
}

weir_status torch_heap_destroy(struct torch_heap *heap)
{
    if (heap == NULL) {
        return WEIR_OK;
    }
    weir_status status = torch_wait_all(heap);
    torch_events_fini(heap);
    for (struct segment *segment = heap->segments.first; segment != NULL && status == WEIR_OK;
         segment = segment->next) {
        if (segment->expandable == NULL) {
            status = weir_device_region_free(heap->config.device, segment->address, device_bytes(heap, segment->size));
        }
    }
    const weir_status unmapped = torch_expandables_fini(heap);
    segments_fini(&heap->segments);
    free(heap->streams);
    free(heap);
    return status != WEIR_OK ? status : unmapped;
}

weir_status torch_heap_stream(struct torch_heap *heap, uint32_t stream, void *native)
{
    const weir_lane lane = stream + 1;
    if (segments_lane_add(&heap->segments, lane) != WEIR_OK) {
        return WEIR_ERR_INTERNAL;
    }
    if (lane >= heap->stream_count) {
        struct torch_stream *streams = realloc(heap->streams, ((size_t)lane + 1) * sizeof(*streams));
        if (streams == NULL) {
            return WEIR_ERR_INTERNAL;
        }
        for (size_t i = heap->stream_count; i <= lane; i++) {
            streams[i] = (struct torch_stream){0};
        }
        heap->streams = streams;
        heap->stream_count = (size_t)lane + 1;
    }
    heap->streams[lane].native = native;
    return WEIR_OK;
}

/* --- rules --- */

static bool collects(const struct torch_heap *heap)
{
    return heap->allowed_bytes != UINT64_MAX && heap->settings.garbage_collection_threshold > 0.0;
}

static bool splits_off(const struct torch_heap *heap, enum torch_kind kind, uint64_t size, uint64_t rest)
{
    if (kind == TORCH_SMALL || heap->settings.expandable_segments) {
        return rest >= GRANULE;
    }
    return size < heap->settings.max_split_bytes && rest > KEPT_REST_BYTES;
}

/* Takes the best free block out of its set; NULL if none fits. With expandable segments a block counts as large as it
 * could become. A block that is never split serves only requests of nearly its size. */
static struct segment_block *find(struct torch_heap *heap, const struct torch_request *request)
{
    const struct pytorch_settings *settings = &heap->settings;
    heap->searches[request->kind] += collects(heap) ? 1 : 0;
    struct segment_block *block = segments_find(&heap->segments, request->lane, request->kind, request->rounded);
    if (block == NULL) {
        return NULL;
    }
    if (settings->expandable_segments) {
        struct segment_block *next = segments_next(block);
        while (next != NULL && torch_expandable_size(next) < torch_expandable_size(block)) {
            block = next;
            next = segments_next(block);
        }
    }
    const bool large = block->node.size >= settings->max_split_bytes;
    if (request->rounded < settings->max_split_bytes
            ? large
            : block->node.size >= request->rounded + settings->max_non_split_rounding_bytes) {
        return NULL;
    }
    segments_unfile(&heap->segments, block);
    return block;
}

/* --- the return of segments --- */

/* Returns a segment that is one free block. The work of all streams is waited for, as cudaFree does. */
static weir_status release(struct torch_heap *heap, struct segment_block *block)
{
    struct segment *segment = block->segment;
    weir_status status = torch_wait_all(heap);
    if (status == WEIR_OK) {
        status = weir_device_region_free(heap->config.device, segment->address, device_bytes(heap, segment->size));
    }
    if (status == WEIR_OK) {
        segments_unfile(&heap->segments, block);
        heap->held_bytes -= segment->size;
        segments_drop(&heap->segments, segment);
    }
    return status;
}

static bool is_whole(const struct segment_block *block)
{
    return block->previous == NULL && block->next == NULL;
}

/* Returns the smallest free block of a kind in the lane or in one behind it; NULL after the last. *lane moves on. */
static struct segment_block *first_free(const struct torch_heap *heap, weir_lane *lane, enum torch_kind kind)
{
    struct segment_block *block = NULL;
    while (*lane < heap->segments.lane_count && block == NULL) {
        block = segments_find(&heap->segments, *lane, kind, 0);
        *lane += block == NULL ? 1 : 0;
    }
    return block;
}

/* The next free block of a kind, lane by lane, in the order of size and address. */
static struct segment_block *next_free(const struct torch_heap *heap, struct segment_block *block)
{
    weir_lane lane = block->segment->lane;
    const enum torch_kind kind = block->segment->kind;
    struct segment_block *next = segments_next(block);
    lane += next == NULL ? 1 : 0;
    return next != NULL ? next : first_free(heap, &lane, kind);
}

/* Returns the idle segments of a kind. Pieces of expandable segments follow behind all others, because unmapping
 * changes the sets of free blocks. */
static weir_status release_kind(struct torch_heap *heap, enum torch_kind kind)
{
    weir_status status = WEIR_OK;
    size_t count = 0;
    weir_lane lane = 0;
    for (struct segment_block *b = first_free(heap, &lane, kind); b != NULL; b = next_free(heap, b)) {
        count += b->segment->expandable != NULL ? 1 : 0;
    }
    struct segment_block **pieces = calloc(count + 1, sizeof(struct segment_block *));
    if (pieces == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    size_t noted = 0;
    lane = 0;
    for (struct segment_block *b = first_free(heap, &lane, kind); b != NULL && status == WEIR_OK;) {
        struct segment_block *next = next_free(heap, b);
        if (b->segment->expandable != NULL) {
            pieces[noted++] = b;
        } else if (is_whole(b)) {
            status = release(heap, b);
        }
        b = next;
    }
    for (size_t i = 0; i < noted && status == WEIR_OK; i++) {
        status = torch_unmap(heap, pieces[i]);
    }
    free(pieces);
    return status;
}

static weir_status release_all(struct torch_heap *heap)
{
    weir_status status = heap->settings.program == PYTORCH_NPU ? torch_wait_all(heap) : WEIR_OK;
    if (status == WEIR_OK) {
        status = torch_events_wait(heap);
    }
    if (status == WEIR_OK) {
        status = release_kind(heap, TORCH_LARGE);
    }
    return status == WEIR_OK ? release_kind(heap, TORCH_SMALL) : status;
}

weir_status torch_heap_empty_cache(struct torch_heap *heap)
{
    return release_all(heap);
}

/* Returns blocks of the request's stream that are never split, as many as the request needs. *enough tells if so. */
static weir_status release_unsplit(struct torch_heap *heap, const struct torch_request *request, bool *enough)
{
    const uint64_t least = heap->settings.max_split_bytes;
    const uint64_t needed = request->rounded < least ? least : request->rounded;
    *enough = false;
    if (least == PYTORCH_UNLIMITED) {
        return WEIR_OK;
    }
    weir_status status = heap->settings.program == PYTORCH_NPU ? torch_wait_all(heap) : WEIR_OK;
    struct segment_block *block = segments_find(&heap->segments, request->lane, request->kind, needed);
    if (status == WEIR_OK && block != NULL && block->segment->expandable == NULL) {
        *enough = true;
        return release(heap, block);
    }
    uint64_t released = 0;
    block = segments_largest(&heap->segments, request->lane, request->kind);
    while (block != NULL && status == WEIR_OK && released < needed && block->node.size >= least) {
        struct segment_block *before = segments_before(block);
        if (block->segment->expandable == NULL) {
            released += block->node.size;
            status = release(heap, block);
        }
        block = before;
    }
    *enough = released >= needed;
    return status;
}

/* --- garbage collection --- */

struct garbage {
    uint64_t age; /* of all idle segments together, in searches */
    uint64_t count;
};

static uint64_t age_of(const struct torch_heap *heap, const struct segment_block *block)
{
    return heap->searches[TORCH_LARGE] - block->tick;
}

static struct garbage count_garbage(const struct torch_heap *heap)
{
    struct garbage garbage = {0};
    weir_lane lane = 0;
    for (struct segment_block *b = first_free(heap, &lane, TORCH_LARGE); b != NULL; b = next_free(heap, b)) {
        garbage.age += is_whole(b) ? age_of(heap, b) : 0;
        garbage.count += is_whole(b) ? 1 : 0;
    }
    return garbage;
}

/* Returns the idle segments that are at least as old as the mean. *bytes grows by what was returned. */
static weir_status collect_old(struct torch_heap *heap, struct garbage *garbage, uint64_t *bytes)
{
    const double mean = (double)garbage->age / (double)garbage->count;
    weir_status status = WEIR_OK;
    weir_lane lane = 0;
    for (struct segment_block *b = first_free(heap, &lane, TORCH_LARGE); b != NULL && status == WEIR_OK;) {
        struct segment_block *next = next_free(heap, b);
        if (is_whole(b) && (double)age_of(heap, b) >= mean) {
            *bytes += b->node.size;
            garbage->age -= age_of(heap, b);
            garbage->count--;
            status = release(heap, b);
        }
        b = next;
    }
    return status;
}

/* Returns idle segments, the oldest first, if the heap holds more than the threshold allows. */
static weir_status collect(struct torch_heap *heap)
{
    const uint64_t threshold = (uint64_t)(heap->settings.garbage_collection_threshold * (double)heap->allowed_bytes);
    struct garbage garbage = {0};
    if (heap->held_bytes > threshold) {
        garbage = count_garbage(heap);
    }
    if (garbage.count == 0) {
        return WEIR_OK;
    }
    const uint64_t wanted = heap->held_bytes - threshold;
    weir_status status = heap->settings.program == PYTORCH_NPU ? torch_wait_all(heap) : WEIR_OK;
    uint64_t bytes = 0;
    uint64_t before = 0;
    do {
        before = bytes;
        status = status == WEIR_OK ? collect_old(heap, &garbage, &bytes) : status;
    } while (status == WEIR_OK && bytes < wanted && bytes > before && garbage.count > 0);
    heap->counted.collections += bytes > 0 ? 1 : 0;
    return status;
}

/* --- memory from the device --- */

static weir_status take_segment(struct torch_heap *heap, const struct torch_request *request,
                                struct segment_block **block)
{
    void *segment = NULL;
    struct segment given = {.size = pytorch_settings_segment(&heap->settings, request->rounded)};
    given.lane = request->lane;
    given.kind = request->kind;
    const uint64_t size = device_bytes(heap, given.size);
    const weir_status status = weir_device_region_alloc(heap->config.device, size, &given.address);
    if (status != WEIR_OK) {
        return status == WEIR_ERR_NO_MEMORY ? WEIR_OK : status;
    }
    if (segments_add(&heap->segments, &given, 0, &segment) != WEIR_OK) {
        (void)!weir_device_region_free(heap->config.device, given.address, size);
        return WEIR_ERR_INTERNAL;
    }
    heap->held_bytes += given.size;
    *block = ((struct segment *)segment)->first;
    segments_unfile(&heap->segments, *block);
    return WEIR_OK;
}

/* Asks the device; *block stays NULL if there is no memory, or no more is allowed. */
static weir_status grow(struct torch_heap *heap, struct torch_request *request, struct segment_block **block)
{
    const uint64_t size = pytorch_settings_segment(&heap->settings, request->rounded);
    const uint64_t allowed = heap->allowed_bytes;
    const struct segment_block *largest = segments_largest(&heap->segments, request->lane, request->kind);
    heap->counted.asked_bytes = heap->settings.expandable_segments ? request->rounded : size;
    heap->counted.usable_bytes = largest != NULL ? largest->node.size : 0;
    *block = NULL;
    if (allowed != UINT64_MAX && heap->held_bytes + size > allowed) {
        return WEIR_OK;
    }
    if (heap->settings.refuses_above_fraction && heap->held_bytes + size > heap->info.capacity_bytes) {
        request->rejected = true;
        return WEIR_OK;
    }
    return heap->settings.expandable_segments ? torch_expand(heap, request, block) : take_segment(heap, request, block);
}

/* The ladder for a request that no free block serves. *block stays NULL if memory has run out. */
static weir_status climb(struct torch_heap *heap, struct torch_request *request, struct segment_block **block)
{
    bool enough = false;
    weir_status status = collects(heap) ? collect(heap) : WEIR_OK;
    if (status == WEIR_OK) {
        status = grow(heap, request, block);
    }
    if (status != WEIR_OK || *block != NULL || request->rejected) {
        return status;
    }
    status = release_unsplit(heap, request, &enough);
    if (status == WEIR_OK && enough) {
        status = grow(heap, request, block);
    }
    if (status != WEIR_OK || *block != NULL || request->rejected) {
        return status;
    }
    heap->counted.retries++;
    status = release_all(heap);
    return status == WEIR_OK ? grow(heap, request, block) : status;
}

/* --- blocks --- */

/* torch_npu: a block of 2 MiB or more in an expandable segment begins at a multiple of base_addr_aligned_kb, if it is
 * large enough. The front stays free. */
static struct segment_block *align_base(struct torch_heap *heap, struct segment_block *block, uint64_t size)
{
    const uint64_t align = heap->settings.base_aligned_bytes;
    if (size < LARGE_ALIGNED_BYTES || !heap->settings.expandable_segments || align == 0 ||
        block->node.address % align == 0) {
        return block;
    }
    const uint64_t front = align - block->node.address % align;
    if (front + size > block->node.size) {
        return block;
    }
    struct segment_block *back = segments_cut(&heap->segments, block, front);
    segments_file(&heap->segments, block);
    return back;
}

static void hand_out(struct torch_heap *heap, const struct torch_request *request, struct segment_block *block,
                     weir_range *range)
{
    const uint64_t size = request->rounded;
    block = align_base(heap, block, size);
    if (splits_off(heap, request->kind, size, block->node.size - size)) {
        struct segment_block *rest = segments_cut(&heap->segments, block, size);
        rest->tick = heap->searches[request->kind];
        segments_file(&heap->segments, rest);
    }
    segments_hand_out(&heap->segments, block, range);
    block->record.as.pool.link = NULL; /* the streams that use the block */
}

/* Looks for a free block, and for blocks whose events have passed: before, or with lazy reclaim only if none fits. */
static weir_status serve_from_cache(struct torch_heap *heap, const struct torch_request *request,
                                    struct segment_block **block)
{
    const bool lazy = heap->settings.lazy_reclaim;
    const bool first = !lazy || heap->pending_events > lazy_events;
    weir_status status = first ? torch_events_poll(heap) : WEIR_OK;
    if (status == WEIR_OK) {
        *block = find(heap, request);
    }
    if (status == WEIR_OK && *block == NULL && !first) {
        status = torch_events_poll(heap);
        *block = status == WEIR_OK ? find(heap, request) : NULL;
    }
    heap->counted.hits += *block != NULL ? 1 : 0;
    return status;
}

weir_status torch_heap_alloc(struct torch_heap *heap, uint32_t stream, uint64_t size, uint64_t align, weir_range *range)
{
    const uint64_t extra = align > GRANULE ? align - GRANULE : 0;
    struct torch_request request = {.lane = stream + 1, .rounded = UINT64_MAX};
    if (size <= UINT64_MAX - extra) {
        request.rounded = pytorch_settings_round(&heap->settings, size + extra);
    }
    request.kind = request.rounded <= TORCH_SMALL_BYTES ? TORCH_SMALL : TORCH_LARGE;
    if (request.rounded == UINT64_MAX) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct segment_block *block = NULL;
    weir_status status = segments_reserve(&heap->segments, 3) ? WEIR_OK : WEIR_ERR_INTERNAL;
    if (status == WEIR_OK) {
        status = serve_from_cache(heap, &request, &block);
    }
    if (status == WEIR_OK && block == NULL) {
        status = climb(heap, &request, &block);
    }
    if (status == WEIR_OK && !segments_reserve(&heap->segments, 2)) {
        status = WEIR_ERR_INTERNAL;
    }
    if (status != WEIR_OK) {
        return status;
    }
    if (block == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    hand_out(heap, &request, block, range);
    if (extra > 0) {
        const uint64_t front = (align - range->address % align) % align;
        range->address += front;
        range->size -= front;
    }
    return WEIR_OK;
}

weir_status torch_heap_free(struct torch_heap *heap, void *token)
{
    struct segment_block *block = token;
    if (torch_block_is_used(block)) {
        return torch_events_record(heap, block);
    }
    torch_block_settle(heap, block);
    return WEIR_OK;
}

/* --- figures and proofs --- */

void torch_heap_get_stats(const struct torch_heap *heap, struct torch_heap_stats *stats)
{
    weir_strategy_stats segments = WEIR_STRATEGY_STATS_INIT;
    segments_stats(&heap->segments, &segments);
    *stats = heap->counted;
    stats->held_bytes = heap->held_bytes;
    stats->segments = segments.regions;
    stats->taken_bytes = segments.taken_bytes;
    stats->free_bytes = segments.free_bytes;
    stats->largest_free_bytes = segments.largest_free_bytes;
    stats->allowed_bytes = heap->allowed_bytes == UINT64_MAX ? 0 : heap->allowed_bytes;
}

weir_status torch_heap_check(const struct torch_heap *heap, const char **why)
{
    struct torch_heap_stats stats;
    torch_heap_get_stats(heap, &stats);
    if (stats.free_bytes + stats.taken_bytes != stats.held_bytes) {
        *why = "torch_heap: the blocks with memory are not what the heap holds";
        return WEIR_ERR_INTERNAL;
    }
    return segments_check(&heap->segments, why);
}
