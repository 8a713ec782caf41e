/* torch_expandable.c: expandable segments, see torch_heap.h: a reservation of 9/8 of the device for each stream and
 * pool, mapped at its lowest free addresses in pieces of 2 MiB (small pool) or of large_segment_size_mb. */
#include "torch_parts.h"

#include <stdlib.h>

#define SMALL_PIECE_BYTES (UINT64_C(2) << 20)
#define HUGE_PAGE_BYTES (UINT64_C(1) << 30)
/* The largest device for which the program's own reservation of 9/8 is made. The simulated device of a trace that does
 * not tell its memory is larger than its addresses. */
#define LARGEST_DEVICE_BYTES (UINT64_C(1) << 40)
#define DEFAULT_PIECE_BYTES (UINT64_C(20) << 20)

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t piece_bytes(const struct torch_heap *heap, enum torch_kind kind)
{
    const struct pytorch_settings *settings = &heap->settings;
    uint64_t piece = settings->large_segment_bytes;
    if (kind == TORCH_SMALL) {
        piece = SMALL_PIECE_BYTES;
    } else if (settings->huge_pages) {
        piece = HUGE_PAGE_BYTES;
    } else if (piece == DEFAULT_PIECE_BYTES && settings->segment_bytes != 0) {
        piece = settings->segment_bytes;
    }
    const uint64_t page = heap->info.page_bytes;
    return (piece + page - 1) / page * page;
}

uint64_t torch_expandable_size(const struct segment_block *block)
{
    const struct segment_block *next = block->next;
    return block->node.size + (next != NULL && next->state == SEGMENT_UNMAPPED ? next->node.size : 0);
}

/* Returns true if the addresses from a block on have no taken block for `size` bytes. */
static bool has_room(const struct segment_block *block, uint64_t size)
{
    uint64_t bytes = 0;
    while (bytes < size && block != NULL && block->state != SEGMENT_TAKEN) {
        bytes += block->node.size;
        block = block->next;
    }
    return bytes >= size;
}

/* Returns the first block of a segment from which free and unmapped blocks hold the size, one of them unmapped. */
static struct segment_block *find_room_in(const struct segment *segment, uint64_t size)
{
    for (struct segment_block *block = segment->first; block != NULL; block = block->next) {
        if (block->state == SEGMENT_UNMAPPED) {
            struct segment_block *previous = block->previous;
            struct segment_block *from = previous != NULL && previous->state == SEGMENT_FREE ? previous : block;
            if (has_room(from, size)) {
                return from;
            }
        }
    }
    return NULL;
}

/* Of all segments of the stream and pool the lowest such block; NULL if none has one. */
static struct segment_block *find_room(const struct torch_heap *heap, const struct torch_request *request)
{
    struct segment_block *best = NULL;
    for (const struct torch_expandable *e = heap->expandables; e != NULL; e = e->next) {
        if (e->segment->lane == request->lane && e->segment->kind == (unsigned)request->kind) {
            struct segment_block *block = find_room_in(e->segment, request->rounded);
            best = block != NULL && (best == NULL || block->node.address < best->node.address) ? block : best;
        }
    }
    return best;
}

/* Adds the segment of a new reservation, all of it unmapped. */
static weir_status add_segment(struct torch_heap *heap, struct torch_expandable *expandable,
                               const struct segment *given)
{
    void *segment = NULL;
    const weir_status status = segments_add(&heap->segments, given, 0, &segment);
    if (status != WEIR_OK) {
        return WEIR_ERR_INTERNAL;
    }
    expandable->segment = segment;
    expandable->next = heap->expandables;
    heap->expandables = expandable;
    segments_unfile(&heap->segments, expandable->segment->first);
    (void)segments_settle(&heap->segments, expandable->segment->first, SEGMENT_UNMAPPED, 0);
    return WEIR_OK;
}

static weir_status reserve(struct torch_heap *heap, const struct torch_request *request, struct segment_block **block)
{
    const uint64_t total = smaller(heap->info.capacity_bytes, LARGEST_DEVICE_BYTES);
    const uint64_t piece = piece_bytes(heap, request->kind);
    const uint64_t pieces = (total + total / 8 + piece - 1) / piece;
    struct torch_expandable *expandable = calloc(1, sizeof(*expandable));
    weir_vm_handle *handles = calloc(pieces, sizeof(*handles));
    if (expandable == NULL || handles == NULL) {
        free(expandable);
        free(handles);
        return WEIR_ERR_INTERNAL;
    }
    *expandable = (struct torch_expandable){.piece_bytes = piece, .handles = handles};
    struct segment given = {.size = pieces * piece, .lane = request->lane, .kind = request->kind};
    given.expandable = expandable;
    weir_status status = weir_device_vm_reserve(heap->config.device, given.size, &given.address);
    if (status == WEIR_OK) {
        status = add_segment(heap, expandable, &given);
        if (status != WEIR_OK) {
            (void)!weir_device_vm_release(heap->config.device, given.address, given.size);
        }
    }
    if (status != WEIR_OK) {
        free(handles);
        free(expandable);
        return status;
    }
    *block = expandable->segment->first;
    return WEIR_OK;
}

/* Creates the memory of the pieces, then maps it. If the device runs out, nothing has changed. */
static weir_status map_pieces(struct torch_heap *heap, struct torch_expandable *expandable, size_t first, size_t end)
{
    weir_device *device = heap->config.device;
    const uint64_t piece = expandable->piece_bytes;
    weir_status status = WEIR_OK;
    for (size_t i = first; i < end && status == WEIR_OK; i++) {
        status = weir_device_vm_create(device, piece, &expandable->handles[i]);
        for (size_t made = first; made < i && status != WEIR_OK; made++) {
            (void)!weir_device_vm_destroy(device, expandable->handles[made]); /* the first failure is returned */
            expandable->handles[made] = 0;
        }
        if (status != WEIR_OK) {
            expandable->handles[i] = 0;
        }
    }
    for (size_t i = first; i < end && status == WEIR_OK; i++) {
        status = weir_device_vm_map(device, expandable->segment->address + i * piece, piece, expandable->handles[i]);
    }
    return status;
}

/* Maps the first `size` bytes of an unmapped block, in whole pieces, and merges them with free neighbours. *block is
 * the merged block, or NULL if the device has no memory. */
static weir_status map_block(struct torch_heap *heap, struct segment_block **block, uint64_t size)
{
    struct torch_expandable *expandable = (*block)->segment->expandable;
    const uint64_t piece = expandable->piece_bytes;
    const size_t first = (size_t)(((*block)->node.address - expandable->segment->address) / piece);
    const size_t count = (size_t)((size + piece - 1) / piece);
    if (!segments_reserve(&heap->segments, 1)) {
        return WEIR_ERR_INTERNAL;
    }
    const weir_status status = map_pieces(heap, expandable, first, first + count);
    if (status != WEIR_OK) {
        *block = NULL;
        return status == WEIR_ERR_NO_MEMORY ? WEIR_OK : status;
    }
    if (count * piece < (*block)->node.size) {
        (void)segments_cut(&heap->segments, *block, count * piece);
    }
    *block = segments_settle(&heap->segments, *block, SEGMENT_FREE, heap->searches[(*block)->segment->kind]);
    heap->held_bytes += count * piece;
    return WEIR_OK;
}

weir_status torch_expand(struct torch_heap *heap, const struct torch_request *request, struct segment_block **block)
{
    const uint64_t size = request->rounded;
    weir_status status = WEIR_OK;
    *block = find_room(heap, request);
    if (*block == NULL) {
        status = reserve(heap, request, block);
        if (status == WEIR_OK && (*block)->node.size < size) {
            *block = NULL; /* larger than the reservation: more than the device has */
        }
    }
    if (status == WEIR_OK && *block != NULL && (*block)->state == SEGMENT_UNMAPPED) {
        status = map_block(heap, block, smaller((*block)->node.size, size));
    }
    while (status == WEIR_OK && *block != NULL && (*block)->node.size < size) {
        const uint64_t missing = size - (*block)->node.size;
        *block = (*block)->next;
        status = map_block(heap, block, smaller((*block)->node.size, missing));
    }
    if (status == WEIR_OK && *block != NULL) {
        segments_unfile(&heap->segments, *block);
    }
    return status;
}

static weir_status unmap_pieces(struct torch_heap *heap, struct torch_expandable *expandable, size_t first, size_t end)
{
    weir_device *device = heap->config.device;
    const uint64_t piece = expandable->piece_bytes;
    weir_status status = WEIR_OK;
    for (size_t i = first; i < end && status == WEIR_OK; i++) {
        status = weir_device_vm_unmap(device, expandable->segment->address + i * piece, piece);
        if (status == WEIR_OK) {
            status = weir_device_vm_destroy(device, expandable->handles[i]);
            expandable->handles[i] = 0;
        }
    }
    return status;
}

static weir_status drop_expandable(struct torch_heap *heap, struct torch_expandable *expandable)
{
    struct torch_expandable **link = &heap->expandables;
    while (*link != expandable) {
        link = &(*link)->next;
    }
    *link = expandable->next;
    const uint64_t address = expandable->segment->address;
    const uint64_t size = expandable->segment->size;
    segments_drop(&heap->segments, expandable->segment);
    free(expandable->handles);
    free(expandable);
    return weir_device_vm_release(heap->config.device, address, size);
}

/* The work that may touch the memory: PyTorch waits for the block's stream, torch_npu for the device. */
static weir_status wait_before_unmapping(struct torch_heap *heap, const struct segment_block *block)
{
    if (heap->settings.program == PYTORCH_NPU) {
        return torch_wait_all(heap);
    }
    heap->counted.waits++;
    return weir_device_stream_sync(heap->config.device, heap->streams[block->segment->lane].native);
}

weir_status torch_unmap(struct torch_heap *heap, struct segment_block *block)
{
    struct torch_expandable *expandable = block->segment->expandable;
    const uint64_t piece = expandable->piece_bytes;
    const uint64_t from = block->node.address - expandable->segment->address;
    const size_t first = (size_t)((from + piece - 1) / piece);
    const size_t end = (size_t)((from + block->node.size) / piece);
    if (first >= end) {
        return WEIR_OK;
    }
    if (!segments_reserve(&heap->segments, 2)) {
        return WEIR_ERR_INTERNAL;
    }
    weir_status status = wait_before_unmapping(heap, block);
    if (status == WEIR_OK) {
        status = unmap_pieces(heap, expandable, first, end);
    }
    if (status != WEIR_OK) {
        return status;
    }
    segments_unfile(&heap->segments, block);
    const uint64_t bytes = (end - first) * piece;
    const uint64_t front = first * piece - from;
    if (front > 0) {
        struct segment_block *rest = segments_cut(&heap->segments, block, front);
        block->tick = heap->searches[block->segment->kind];
        segments_file(&heap->segments, block);
        block = rest;
    }
    if (bytes < block->node.size) {
        struct segment_block *back = segments_cut(&heap->segments, block, bytes);
        back->tick = heap->searches[block->segment->kind];
        segments_file(&heap->segments, back);
    }
    block = segments_settle(&heap->segments, block, SEGMENT_UNMAPPED, 0);
    heap->held_bytes -= bytes;
    return block->previous == NULL && block->next == NULL ? drop_expandable(heap, expandable) : WEIR_OK;
}

weir_status torch_expandables_fini(struct torch_heap *heap)
{
    weir_status status = WEIR_OK;
    while (heap->expandables != NULL && status == WEIR_OK) {
        struct torch_expandable *expandable = heap->expandables;
        const struct segment *segment = expandable->segment;
        const size_t count = (size_t)(segment->size / expandable->piece_bytes);
        for (size_t i = 0; i < count && status == WEIR_OK; i++) {
            if (expandable->handles[i] != 0) {
                status = unmap_pieces(heap, expandable, i, i + 1);
            }
        }
        heap->expandables = expandable->next;
        if (status == WEIR_OK) {
            status = weir_device_vm_release(heap->config.device, segment->address, segment->size);
        }
        free(expandable->handles);
        free(expandable);
    }
    return status;
}
