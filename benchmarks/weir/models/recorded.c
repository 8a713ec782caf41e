/* recorded.c: checks the pytorch model against a recording.
 *
 * Idea: each device has one model. The heap at the start of the window is built from the recorded segments and the
 * blocks in them; then each event is applied to the model and its answer is compared. The addresses and lifetimes of
 * segments come from the record, because the model covers neither the driver nor the calls of empty_cache; the check
 * compares whether a segment was needed, and its size.
 * Guarantee: a difference is counted once. The model then takes the block at the recorded address, if that is free, so
 * that one early mistake does not hide later events.
 * Cost: O(log n) per event for n free blocks, O(log s) to find one of s live segments; a few such passes if prior
 * blocks have to be enlarged.
 *
 * If the record of the heap before the window is incomplete, two facts about the allocator complete it:
 *   - No free block of the large pool is 1 MiB or less: smaller rests are not split off. A smaller gap behind a prior
 *     block is thus a rest that belongs to the block. Such a gap shows at once if another prior block follows, or when
 *     the trace places a later block behind it. The run is then repeated with the larger block.
 *   - A segment is taken because a request is about to be placed in it. Of the segments before the first request, at
 *     most the last is part of the window, namely if no free block fits the request and the segment has the size that
 *     the rules give for the request.
 */
#include "recorded.h"

#include "pytorch.h"
#include "shared/number_map.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAD_NPU 32
#define LARGEST_REST (UINT64_C(1) << 20)
/* The check runs again while a run finds a prior block that is larger than recorded, at most MOST_RUNS times. The
 * report has the counts of the last run. */
#define MOST_RUNS 16

/* A recorded segment. In heap.segments it is a region of the model; in heap.waiting it is not a region yet. */
struct segment {
    uint64_t address;
    uint64_t size;
    uint32_t stream;
    uint32_t pool;   /* private pool, WEIR_TRACE_NONE = none */
    bool pool_known; /* the private pool was recorded, or is known from a block in the segment */
    bool gone;       /* the allocator returned the segment to the device; used by find_pool_of_segments only */
    size_t event;    /* index of the event that took the segment */
    weir_lane lane;  /* lane of the region */
    void *region;
};

struct segment_list {
    struct segment *at;
    size_t count;
    size_t capacity;
};

/* The heap of one device. */
struct heap {
    void *model;
    weir_lane lanes;              /* number of lanes in use */
    struct segment_list segments; /* sorted by address, without overlaps */
    struct segment_list waiting;  /* recorded segments that still wait for the request that they were taken for */
    bool begun;                   /* an allocation or free after the starting state has been replayed */
};

/* The range in which the model of a device holds a block of the trace. */
struct placement {
    void *token; /* NULL: not in the model */
    void *region;
    struct heap *heap;
};

/* A prior block: a block that is live before the first event of the trace. */
struct prior {
    uint32_t device;
    uint64_t address;
    uint64_t size; /* recorded size, later the size in the model */
    uint32_t block;
    size_t event;
};

struct check {
    const struct trace *trace;
    const weir_strategy_ops *ops;
    struct heap *heaps;           /* [trace->device_count] */
    struct placement *placements; /* [trace->block_count] */
    weir__number_map lanes;       /* map: (private pool, stream) to the lane of free memory for this pair */
    weir_tick *limits;            /* zeros, for region_remove: every block is freed as if no device work were pending */
    size_t limit_count;
    struct prior *priors; /* sorted by device and address */
    size_t prior_count;
    uint64_t *enlarged;  /* [trace->block_count]: for a prior block, the bytes that its recorded size lacks */
    bool learned;        /* this run found a further prior block (live before the trace) that is recorded too small */
    size_t start_events; /* the events before this index describe the heap before the window */
    struct recorded_report *report;
};

/* --- helpers --- */

static void mismatch(struct check *check, size_t event, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* Stores the first difference between model and record in the report, with the number of its event in the file. */
static void mismatch(struct check *check, size_t event, const char *format, ...)
{
    struct recorded_report *report = check->report;
    if (report->first_mismatch[0] != '\0') {
        return;
    }
    const int used = snprintf(report->first_mismatch, sizeof(report->first_mismatch), "event %" PRIu64 ": ",
                              trace_event_number(check->trace, event));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report->first_mismatch + used, sizeof(report->first_mismatch) - (size_t)used, format, arguments);
    va_end(arguments);
}

static uint32_t device_of(const struct trace *trace, uint32_t stream)
{
    return stream < trace->stream_count ? trace->stream_device[stream] : 0;
}

static struct heap *heap_of(struct check *check, uint32_t stream)
{
    return &check->heaps[device_of(check->trace, stream)];
}

static bool reserve_limit(struct check *check, weir_lane lane)
{
    if (lane < check->limit_count) {
        return true;
    }
    size_t count = ((size_t)lane + 1) * 2;
    weir_tick *limits = calloc(count, sizeof(*limits));
    if (limits == NULL) {
        return false;
    }
    free(check->limits);
    check->limits = limits;
    check->limit_count = count;
    return true;
}

/* Finds or adds the lane (the model's free memory) of a private pool and stream. Each heap numbers its lanes in the
 * order of first use, so that the model's table has no unused entries. */
static weir_status lane_of(struct check *check, struct heap *heap, uint32_t stream, uint32_t pool, weir_lane *lane)
{
    const uint64_t key = (uint64_t)pool << 32 | stream;
    *lane = (weir_lane)weir__number_map_get(&check->lanes, key);
    if (*lane == 0) {
        if (!weir__number_map_put(&check->lanes, key, heap->lanes + 1)) {
            return WEIR_ERR_NO_MEMORY;
        }
        *lane = ++heap->lanes;
    }
    return reserve_limit(check, *lane) ? check->ops->lane_add(heap->model, *lane) : WEIR_ERR_NO_MEMORY;
}

/* --- segments --- */

/* Returns the number of segments that start at or below the address. */
static size_t up_to(const struct segment_list *list, uint64_t address)
{
    return trace_up_to(list->at, list->count, sizeof(*list->at), address);
}

static struct segment *segment_around(const struct segment_list *list, uint64_t address)
{
    size_t after = up_to(list, address);
    if (after == 0) {
        return NULL;
    }
    struct segment *segment = &list->at[after - 1];
    return address - segment->address < segment->size ? segment : NULL;
}

static bool insert_segment(struct segment_list *list, size_t index, const struct segment *segment)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
        struct segment *at = realloc(list->at, capacity * sizeof(*at));
        if (at == NULL) {
            return false;
        }
        list->at = at;
        list->capacity = capacity;
    }
    memmove(list->at + index + 1, list->at + index, (list->count - index) * sizeof(*list->at));
    list->at[index] = *segment;
    list->count++;
    return true;
}

static void erase_segment(struct segment_list *list, size_t index)
{
    list->count--;
    memmove(list->at + index, list->at + index + 1, (list->count - index) * sizeof(*list->at));
}

/* True if a new segment overlaps a segment in the list of live ones. In that case the trace lacks the event that
 * returned the listed segment to the device. */
static bool overlaps(const struct segment_list *list, const struct segment *segment)
{
    size_t after = up_to(list, segment->address);
    return segment_around(list, segment->address) != NULL ||
           (after < list->count && list->at[after].address - segment->address < segment->size);
}

/* Returns a request size for region_add, from which the model derives the segment's pool (small or large). */
static uint64_t hint_of(uint64_t segment_bytes)
{
    return segment_bytes == MODEL_PYTORCH_SMALL_SEGMENT_BYTES ? 1 : segment_bytes;
}

/* Makes the segment a free region of the model. *added is false if the segment is invalid or overlaps another one. */
static weir_status add_segment(struct check *check, struct heap *heap, struct segment *segment, uint64_t hint,
                               bool *added)
{
    weir_status status = lane_of(check, heap, segment->stream, segment->pool, &segment->lane);
    if (status != WEIR_OK) {
        return status;
    }
    *added = segment->size > 0 && segment->size % MODEL_PYTORCH_GRANULE == 0 &&
             segment->address % MODEL_PYTORCH_GRANULE == 0 && segment->address <= UINT64_MAX - segment->size &&
             !overlaps(&heap->segments, segment);
    if (!*added) {
        mismatch(check, segment->event, "segment 0x%" PRIx64 " of %" PRIu64 " bytes overlaps another or is no segment",
                 segment->address, segment->size);
        return WEIR_OK;
    }
    status =
        check->ops->region_add(heap->model, segment->address, segment->size, hint, segment->lane, 0, &segment->region);
    if (status != WEIR_OK) {
        return status;
    }
    size_t index = up_to(&heap->segments, segment->address);
    return insert_segment(&heap->segments, index, segment) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static struct segment read_segment(const struct check *check, size_t index)
{
    const weir_trace_event *event = &check->trace->events[index].event;
    return (struct segment){
        .address = event->address,
        .size = event->size,
        .stream = event->stream == WEIR_TRACE_NONE ? 0 : event->stream,
        .pool = event->pool,
        .pool_known = event->pool != WEIR_TRACE_NONE,
        .event = index,
    };
}

/* --- the heap before the window --- */

/* Returns the number of events that describe the heap before the window: up to the last WEIR_TRACE_PRIOR event. */
static size_t count_start_events(const struct trace *trace)
{
    for (size_t i = trace->event_count; i > 0; i--) {
        if (trace->events[i - 1].event.kind == WEIR_TRACE_PRIOR) {
            return i;
        }
    }
    return 0;
}

/* Finds the private pools of the segments that exist before the window: a segment belongs to the pool of the first
 * block that the window places in it. */
static void find_pool_of_segments(struct check *check, struct segment_list *starts)
{
    const struct trace *trace = check->trace;
    for (size_t i = check->start_events; i < trace->event_count && trace->pool_count > 0; i++) {
        const weir_trace_event *event = &trace->events[i].event;
        if (event->kind != WEIR_TRACE_ALLOC && event->kind != WEIR_TRACE_SEGMENT) {
            continue;
        }
        struct segment *segment = segment_around(&starts[device_of(trace, event->stream)], event->address);
        if (segment == NULL || segment->gone || segment->pool_known) {
            continue;
        }
        if (event->kind == WEIR_TRACE_SEGMENT) {
            segment->gone = true;
        } else {
            segment->pool = event->pool;
            segment->pool_known = true;
        }
    }
}

static weir_status collect_start_segments(const struct check *check, struct segment_list *starts)
{
    for (size_t i = 0; i < check->start_events; i++) {
        const weir_trace_event *event = &check->trace->events[i].event;
        if (event->kind == WEIR_TRACE_SEGMENT && event->mode == '+') {
            struct segment segment = read_segment(check, i);
            struct segment_list *list = &starts[device_of(check->trace, segment.stream)];
            if (!insert_segment(list, up_to(list, segment.address), &segment)) {
                return WEIR_ERR_NO_MEMORY;
            }
        }
    }
    return WEIR_OK;
}

static weir_status add_start_segments(struct check *check)
{
    uint32_t devices = check->trace->device_count;
    struct segment_list *starts = calloc(devices, sizeof(*starts));
    weir_status status = starts != NULL ? collect_start_segments(check, starts) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        find_pool_of_segments(check, starts);
    }
    for (uint32_t d = 0; d < devices && starts != NULL; d++) {
        for (size_t i = 0; i < starts[d].count && status == WEIR_OK; i++) {
            bool added;
            struct segment *segment = &starts[d].at[i];
            status = add_segment(check, &check->heaps[d], segment, hint_of(segment->size), &added);
        }
        free(starts[d].at);
    }
    free(starts);
    return status;
}

static int by_place(const void *one, const void *two)
{
    const struct prior *left = one;
    const struct prior *right = two;
    if (left->device != right->device) {
        return left->device < right->device ? -1 : 1;
    }
    if (left->address != right->address) {
        return left->address < right->address ? -1 : 1;
    }
    return (left->event > right->event) - (left->event < right->event);
}

/* Returns the size of `prior`, a block live before the trace: the recorded size if a multiple of the granule, else the
 * rounded request. A gap of at most LARGEST_REST to the block `next` in the large pool belongs to it. */
static uint64_t size_of_prior(const struct check *check, const struct prior *prior, const struct prior *next,
                              const struct segment *segment)
{
    uint64_t size = prior->size;
    if (size % MODEL_PYTORCH_GRANULE != 0) {
        size = model_pytorch_round(size, check->report->pad_bytes);
    }
    size += check->enlarged[prior->block];
    uint64_t room = segment->address + segment->size - prior->address;
    if (next != NULL && next->device == prior->device && next->address - prior->address < room) {
        room = next->address - prior->address;
    }
    bool large = segment->size != MODEL_PYTORCH_SMALL_SEGMENT_BYTES;
    return large && size < room && room - size <= LARGEST_REST ? room : size;
}

static weir_status place_prior(struct check *check, struct prior *prior, const struct prior *next)
{
    struct heap *heap = &check->heaps[prior->device];
    const struct segment *segment = segment_around(&heap->segments, prior->address);
    weir_range range;
    weir_status status = WEIR_ERR_NO_MEMORY;
    if (segment != NULL) {
        prior->size = size_of_prior(check, prior, next, segment);
        status = model_pytorch_place(heap->model, segment->region, prior->address, prior->size, MODEL_PYTORCH_REST_FREE,
                                     &range);
    }
    if (status == WEIR_ERR_NO_MEMORY) {
        mismatch(check, prior->event,
                 "block at the start at 0x%" PRIx64 " of %" PRIu64 " bytes overlaps another or lies in no segment",
                 prior->address, prior->size);
        return WEIR_OK;
    }
    if (status != WEIR_OK) {
        return WEIR_ERR_NO_MEMORY;
    }
    check->placements[prior->block] = (struct placement){.token = range.token, .region = segment->region, .heap = heap};
    check->report->priors_placed++;
    check->report->priors_enlarged += check->enlarged[prior->block] > 0 ? 1 : 0;
    return WEIR_OK;
}

static size_t collect_priors(const struct check *check, struct prior *priors)
{
    size_t count = 0;
    for (size_t i = 0; i < check->start_events; i++) {
        const struct trace_event *event = &check->trace->events[i];
        if (event->event.kind == WEIR_TRACE_PRIOR) {
            priors[count++] = (struct prior){
                .device = device_of(check->trace, event->event.stream),
                .address = event->event.address,
                .size = event->event.size,
                .block = event->index,
                .event = i,
            };
        }
    }
    return count;
}

static weir_status place_priors(struct check *check)
{
    check->priors = calloc(check->start_events + 1, sizeof(*check->priors));
    if (check->priors == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    size_t count = collect_priors(check, check->priors);
    qsort(check->priors, count, sizeof(*check->priors), by_place);
    check->prior_count = count;
    check->report->priors_total = count;
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < count && status == WEIR_OK; i++) {
        status = place_prior(check, &check->priors[i], i + 1 < count ? &check->priors[i + 1] : NULL);
    }
    return status;
}

/* Returns the block with the highest address below `address` on the device, among the blocks that were live before the
 * trace; NULL if there is none. */
static const struct prior *prior_below(const struct check *check, uint32_t device, uint64_t address)
{
    size_t low = 0;
    size_t high = check->prior_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct prior *prior = &check->priors[middle];
        if (prior->device < device || (prior->device == device && prior->address < address)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && check->priors[low - 1].device == device ? &check->priors[low - 1] : NULL;
}

/* Called for a block that the trace places at `address`. A gap of at most LARGEST_REST bytes above a block live before
 * the trace is too small for a free block: that block was recorded too small, and is enlarged. */
static void learn(struct check *check, const struct segment *segment, uint32_t device, uint64_t address)
{
    const struct prior *prior = prior_below(check, device, address);
    if (prior == NULL || prior->address < segment->address || check->placements[prior->block].token == NULL ||
        segment->size == MODEL_PYTORCH_SMALL_SEGMENT_BYTES) {
        return;
    }
    uint64_t distance = address - prior->address;
    if (distance > prior->size && distance - prior->size <= LARGEST_REST) {
        check->enlarged[prior->block] += distance - prior->size;
        check->learned = true;
    }
}

/* --- the window --- */

/* Adds to the model, as free memory, a recorded segment in which the trace places no request. */
static weir_status settle_waiting(struct check *check, struct heap *heap, size_t index)
{
    struct segment segment = heap->waiting.at[index];
    bool added;
    erase_segment(&heap->waiting, index);
    if (heap->begun || check->start_events > 0) {
        check->report->segments_total++;
        mismatch(check, segment.event,
                 "segment 0x%" PRIx64 " of %" PRIu64 " bytes was taken and no request was placed in it",
                 segment.address, segment.size);
    }
    return add_segment(check, heap, &segment, hint_of(segment.size), &added);
}

static weir_status take_segment(struct check *check, size_t index)
{
    struct segment segment = read_segment(check, index);
    struct heap *heap = heap_of(check, segment.stream);
    for (size_t i = heap->waiting.count; i > 0; i--) {
        if (heap->waiting.at[i - 1].stream == segment.stream) {
            weir_status status = settle_waiting(check, heap, i - 1);
            if (status != WEIR_OK) {
                return status;
            }
        }
    }
    return insert_segment(&heap->waiting, heap->waiting.count, &segment) ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* Frees the blocks that the model still has in a segment that, in the recording, went back to the device. */
static void empty_segment(struct check *check, const struct segment *segment)
{
    for (uint32_t i = 0; i < check->trace->block_count; i++) {
        struct placement *placement = &check->placements[i];
        if (placement->token != NULL && placement->region == segment->region) {
            check->ops->free(placement->heap->model, placement->token, WEIR_LANE_OPEN, 0);
            placement->token = NULL;
        }
    }
}

static bool remove_region(struct check *check, struct heap *heap, const struct segment *segment)
{
    return check->ops->region_remove(heap->model, segment->region, check->limits, check->limit_count) == WEIR_OK;
}

static weir_status return_segment(struct check *check, size_t index)
{
    struct segment recorded = read_segment(check, index);
    struct heap *heap = heap_of(check, recorded.stream);
    for (size_t i = heap->waiting.count; i > 0; i--) {
        if (heap->waiting.at[i - 1].address == recorded.address) {
            weir_status status = settle_waiting(check, heap, i - 1);
            if (status != WEIR_OK) {
                return status;
            }
        }
    }
    struct segment *segment = segment_around(&heap->segments, recorded.address);
    check->report->removals_total++;
    if (segment == NULL) {
        mismatch(check, index, "segment 0x%" PRIx64 " is given back and was not there", recorded.address);
        return WEIR_OK;
    }
    bool same = segment->address == recorded.address && segment->size == recorded.size;
    if (same && remove_region(check, heap, segment)) {
        check->report->removals_matched++;
    } else {
        mismatch(check, index,
                 "segment 0x%" PRIx64 " of %" PRIu64 " bytes is given back; the model has blocks in it or another size",
                 recorded.address, recorded.size);
        empty_segment(check, segment);
        if (!remove_region(check, heap, segment)) {
            return WEIR_ERR_INTERNAL;
        }
    }
    erase_segment(&heap->segments, (size_t)(segment - heap->segments.at));
    return WEIR_OK;
}

/* The memory that the model chose for a request; `placed` is false if no free block of the model fits. */
struct answer {
    weir_range range;
    void *region;
    bool placed;
};

static weir_status ask(struct check *check, struct heap *heap, weir_lane lane, uint64_t size, struct answer *answer)
{
    weir_status status = check->ops->alloc(heap->model, lane, WEIR_TICK_MAX, size, 1, &answer->range);
    answer->placed = status == WEIR_OK;
    if (answer->placed) {
        answer->region = segment_around(&heap->segments, answer->range.address)->region;
    }
    return status == WEIR_ERR_INTERNAL ? WEIR_ERR_NO_MEMORY : WEIR_OK;
}

static void undo(const struct check *check, struct heap *heap, struct answer *answer)
{
    if (answer->placed) {
        check->ops->free(heap->model, answer->range.token, WEIR_LANE_OPEN, 0);
        answer->placed = false;
    }
}

static weir_status place(struct heap *heap, uint64_t address, uint64_t rounded, struct answer *answer)
{
    const struct segment *segment = segment_around(&heap->segments, address);
    if (segment == NULL) {
        return WEIR_OK;
    }
    weir_status status =
        model_pytorch_place(heap->model, segment->region, address, rounded, MODEL_PYTORCH_REST_BY_RULE, &answer->range);
    answer->placed = status == WEIR_OK;
    answer->region = segment->region;
    return status == WEIR_ERR_INTERNAL ? WEIR_ERR_NO_MEMORY : WEIR_OK;
}

/* Called when the model chose another address than the recording: places the block at the recorded address. */
static weir_status place_as_recorded(struct check *check, struct heap *heap, const weir_trace_event *event,
                                     uint64_t rounded, struct answer *answer)
{
    const struct segment *segment = segment_around(&heap->segments, event->address);
    if (segment != NULL) {
        learn(check, segment, device_of(check->trace, event->stream), event->address);
    }
    return place(heap, event->address, rounded, answer);
}

/* Returns the index in heap->waiting of the segment that was taken for this request: the segment at the recorded
 * address, else the latest segment of the request's stream; waiting.count if there is none. */
static size_t waiting_for(const struct heap *heap, const weir_trace_event *event)
{
    size_t found = heap->waiting.count;
    for (size_t i = 0; i < heap->waiting.count; i++) {
        const struct segment *segment = &heap->waiting.at[i];
        if (event->address - segment->address < segment->size) {
            return i;
        }
        found = segment->stream == event->stream ? i : found;
    }
    return found;
}

/* For a trace without blocks live at its start: the heap's first request begins the window. Segments recorded earlier
 * become free memory, except the last one if it may have been taken for this request. */
static weir_status begin_window(struct check *check, struct heap *heap, const weir_trace_event *request)
{
    weir_status status = WEIR_OK;
    if (check->start_events > 0 || heap->begun) {
        return WEIR_OK;
    }
    while (status == WEIR_OK && heap->waiting.count > 0) {
        bool last = heap->waiting.count == 1;
        if (last && waiting_for(heap, request) == 0) {
            break;
        }
        status = settle_waiting(check, heap, 0);
    }
    return status;
}

/* For a trace without blocks live at its start: true if `segment`, recorded before the first request, was not taken for
 * that request. */
static bool was_there(const struct check *check, const struct heap *heap, const struct segment *segment,
                      const weir_trace_event *event, uint64_t rounded, bool fits)
{
    bool asked_for = !fits && segment->address == event->address && segment->stream == event->stream &&
                     segment->size == model_pytorch_segment_bytes(rounded);
    return check->start_events == 0 && !heap->begun && !asked_for;
}

/* Serves a request for which the recorded allocator took a new segment, from the start of that segment. The model
 * agrees if no free block of its own fits and it derives the same segment size. */
static weir_status answer_from_new(struct check *check, struct heap *heap, size_t index, uint64_t rounded,
                                   struct segment *segment, struct answer *answer)
{
    const weir_trace_event *event = &check->trace->events[index].event;
    bool fitted = answer->placed;
    bool right_size = segment->size == model_pytorch_segment_bytes(rounded);
    bool added;
    check->report->segments_total++;
    undo(check, heap, answer);
    segment->stream = event->stream;
    segment->pool = event->pool;
    weir_status status = add_segment(check, heap, segment, right_size ? event->size : hint_of(segment->size), &added);
    if (status != WEIR_OK || !added) {
        return status;
    }
    if (!fitted && right_size) {
        check->report->segments_matched++;
    } else {
        mismatch(
            check, index,
            "segment of %" PRIu64 " bytes was taken for a request of %" PRIu64 " bytes; expected %s%" PRIu64 " bytes",
            segment->size, event->size, fitted ? "none, or one of " : "one of ", model_pytorch_segment_bytes(rounded));
    }
    return place(heap, segment->address, rounded, answer);
}

/* Serves a request from the model. A recorded segment that was taken for the request is added to the model first. */
static weir_status answer_request(struct check *check, struct heap *heap, size_t index, weir_lane lane,
                                  uint64_t rounded, struct answer *answer)
{
    const weir_trace_event *event = &check->trace->events[index].event;
    weir_status status = begin_window(check, heap, event);
    if (status == WEIR_OK) {
        status = ask(check, heap, lane, event->size, answer);
    }
    size_t waiting = waiting_for(heap, event);
    if (status != WEIR_OK || waiting == heap->waiting.count) {
        return status;
    }
    struct segment segment = heap->waiting.at[waiting];
    if (was_there(check, heap, &segment, event, rounded, answer->placed)) {
        undo(check, heap, answer);
        status = settle_waiting(check, heap, waiting);
        return status == WEIR_OK ? ask(check, heap, lane, event->size, answer) : status;
    }
    erase_segment(&heap->waiting, waiting);
    return answer_from_new(check, heap, index, rounded, &segment, answer);
}

static void tell_address(struct check *check, size_t index, const struct answer *answer)
{
    const weir_trace_event *event = &check->trace->events[index].event;
    if (answer->placed) {
        mismatch(check, index,
                 "block of %" PRIu64 " bytes on stream %" PRIu32 ": expected at 0x%" PRIx64 ", recorded at 0x%" PRIx64,
                 event->size, event->stream, answer->range.address, event->address);
    } else {
        mismatch(check, index,
                 "block of %" PRIu64 " bytes on stream %" PRIu32 ": expected a new segment, recorded at 0x%" PRIx64,
                 event->size, event->stream, event->address);
    }
}

static weir_status allocate(struct check *check, size_t index)
{
    const weir_trace_event *event = &check->trace->events[index].event;
    struct heap *heap = heap_of(check, event->stream);
    uint64_t rounded = model_pytorch_round(event->size, check->report->pad_bytes);
    struct answer answer = {0};
    weir_lane lane;
    check->report->addresses_total++;
    if (rounded == UINT64_MAX) {
        mismatch(check, index, "a block of %" PRIu64 " bytes cannot be", event->size);
        return WEIR_OK;
    }
    weir_status status = lane_of(check, heap, event->stream, event->pool, &lane);
    if (status == WEIR_OK) {
        status = answer_request(check, heap, index, lane, rounded, &answer);
    }
    heap->begun = true;
    if (status != WEIR_OK) {
        return status;
    }
    if (answer.placed && answer.range.address == event->address) {
        check->report->addresses_matched++;
    } else {
        tell_address(check, index, &answer);
        undo(check, heap, &answer);
        status = place_as_recorded(check, heap, event, rounded, &answer);
    }
    if (answer.placed) {
        check->placements[check->trace->events[index].index] =
            (struct placement){.token = answer.range.token, .region = answer.region, .heap = heap};
    }
    return status;
}

static void release(struct check *check, uint32_t block)
{
    struct placement *placement = &check->placements[block];
    if (placement->token != NULL) {
        placement->heap->begun = true;
        check->ops->free(placement->heap->model, placement->token, WEIR_LANE_OPEN, 0);
        placement->token = NULL;
    }
}

static weir_status follow(struct check *check, size_t index)
{
    const struct trace_event *event = &check->trace->events[index];
    switch (event->event.kind) {
    case WEIR_TRACE_ALLOC:
        return allocate(check, index);
    case WEIR_TRACE_FREE:
        release(check, event->index);
        return WEIR_OK;
    case WEIR_TRACE_REALLOC:
        release(check, event->old_index);
        return WEIR_OK;
    case WEIR_TRACE_SEGMENT:
        return event->event.mode == '+' ? take_segment(check, index) : return_segment(check, index);
    default:
        return WEIR_OK;
    }
}

/* Counts the recorded segments for which no request came until the end of the trace. */
static void count_waiting(struct check *check)
{
    for (uint32_t d = 0; d < check->trace->device_count; d++) {
        const struct heap *heap = &check->heaps[d];
        if (heap->begun || check->start_events > 0) {
            check->report->segments_total += heap->waiting.count;
        }
    }
}

/* --- one run, and the choice between runs --- */

static weir_status start_models(struct check *check)
{
    model_pytorch_config config = MODEL_PYTORCH_CONFIG_INIT;
    config.pad_bytes = check->report->pad_bytes;
    for (uint32_t d = 0; d < check->trace->device_count; d++) {
        check->heaps[d].model = calloc(1, check->ops->state_size(&config));
        if (check->heaps[d].model == NULL) {
            return WEIR_ERR_NO_MEMORY;
        }
        weir_status status = check->ops->init(check->heaps[d].model, &config);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

static void stop(struct check *check)
{
    for (uint32_t d = 0; d < check->trace->device_count && check->heaps != NULL; d++) {
        struct heap *heap = &check->heaps[d];
        if (heap->model != NULL) {
            check->ops->fini(heap->model);
        }
        free(heap->model);
        free(heap->segments.at);
        free(heap->waiting.at);
    }
    free(check->heaps);
    free(check->placements);
    free(check->priors);
    weir__number_map_fini(&check->lanes);
    free(check->limits);
}

static weir_status run_steps(struct check *check)
{
    weir_status status = start_models(check);
    if (status == WEIR_OK) {
        status = add_start_segments(check);
    }
    if (status == WEIR_OK) {
        status = place_priors(check);
    }
    for (size_t i = check->start_events; i < check->trace->event_count && status == WEIR_OK; i++) {
        status = follow(check, i);
    }
    count_waiting(check);
    return status;
}

static weir_status run_once(const struct trace *trace, struct recorded_report *report, uint64_t *enlarged,
                            bool *learned)
{
    struct check check = {
        .trace = trace,
        .ops = model_pytorch_strategy(),
        .heaps = calloc(trace->device_count, sizeof(*check.heaps)),
        .placements = calloc((size_t)trace->block_count + 1, sizeof(*check.placements)),
        .enlarged = enlarged,
        .start_events = count_start_events(trace),
        .report = report,
    };
    weir_status status = check.heaps != NULL && check.placements != NULL ? run_steps(&check) : WEIR_ERR_NO_MEMORY;
    stop(&check);
    *learned = check.learned;
    return status;
}

static weir_status run(const struct trace *trace, uint64_t pad_bytes, struct recorded_report *report)
{
    struct recorded_report counts;
    uint64_t *enlarged = calloc((size_t)trace->block_count + 1, sizeof(*enlarged));
    weir_status status = enlarged != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    bool learned = true;
    for (unsigned i = 0; i < MOST_RUNS && learned && status == WEIR_OK; i++) {
        counts = (struct recorded_report){.checkable = true, .reason = "", .pad_bytes = pad_bytes};
        status = run_once(trace, &counts, enlarged, &learned);
    }
    free(enlarged);
    if (status == WEIR_OK) {
        *report = counts;
    }
    return status;
}

static const char *why_not(const struct trace *trace)
{
    if (trace->expandable) {
        return "expandable segments follow other rules";
    }
    if (!trace->has_addresses) {
        return "not every block has a recorded address";
    }
    if (!trace->has_segments) {
        return "no segments are recorded";
    }
    return NULL;
}

static uint64_t explained(const struct recorded_report *report)
{
    return report->addresses_matched + report->segments_matched + report->removals_matched;
}

static weir_status run_both(const struct trace *trace, struct recorded_report *report)
{
    struct recorded_report plain;
    struct recorded_report padded;
    weir_status status = run(trace, 0, &plain);
    if (status == WEIR_OK) {
        status = run(trace, PAD_NPU, &padded);
    }
    if (status != WEIR_OK) {
        return status;
    }
    bool tie = explained(&padded) == explained(&plain);
    bool keep_padded = tie ? trace->pad_bytes == PAD_NPU : explained(&padded) > explained(&plain);
    *report = keep_padded ? padded : plain;
    return WEIR_OK;
}

weir_status recorded_check(const struct trace *trace, int pad_bytes, struct recorded_report *report)
{
    if (pad_bytes < RECORDED_PAD_BEST || pad_bytes >= (int)MODEL_PYTORCH_GRANULE) {
        return WEIR_ERR_INVALID;
    }
    const char *reason = why_not(trace);
    if (reason != NULL) {
        *report = (struct recorded_report){.reason = reason};
        return WEIR_OK;
    }
    return pad_bytes == RECORDED_PAD_BEST ? run_both(trace, report) : run(trace, (uint64_t)pad_bytes, report);
}
