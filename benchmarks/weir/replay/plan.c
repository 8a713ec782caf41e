/* plan.c: see plan.h. */
#include "replay/plan.h"

#include "replay/live_peak.h"
#include "replay/series.h"

#include <stdlib.h>

enum { least_alignment = 64 };

/* The page shows an address of 0 as a block without a place, so the range begins at this one. */
static const uint64_t base_address = UINT64_C(1) << 32;

static const struct replay_strategy plan_strategy = {
    .name = "plan", .text = "all lives known beforehand, in one range", .computed = true};

/* The blocks of a trace by their index; the last one is the request on which the recorded program ran out. */
struct plan {
    struct packing_block *blocks;
    uint64_t *sizes; /* as requested */
    size_t count;
    uint32_t moment; /* number of allocations so far; 0: before the trace */
    uint64_t total;
    bool too_large; /* all sizes together do not fit into offsets */
};

static void begin(struct plan *plan, uint32_t index, const weir_trace_event *event, uint64_t size)
{
    const uint64_t asked = event->kind == WEIR_TRACE_ALLOC ? event->extra : 0;
    const uint64_t alignment = asked > least_alignment ? asked : least_alignment;
    plan->sizes[index] = size == 0 ? 1 : size;
    plan->too_large |= alignment > (uint64_t)INT64_MAX / 4 || size > (uint64_t)INT64_MAX / 4 - alignment - plan->total;
    if (!plan->too_large) {
        const uint64_t rounded = (plan->sizes[index] + least_alignment - 1) / least_alignment * least_alignment;
        plan->blocks[index] = (struct packing_block){.size = rounded, .alignment = alignment, .from = plan->moment};
        plan->total += rounded + alignment;
    }
}

static void end(struct plan *plan, uint32_t index)
{
    plan->blocks[index].to = plan->moment + 1;
}

static void add_event(struct plan *plan, const struct trace *trace, size_t i, const struct recorded_oom *refused)
{
    const struct trace_event *event = &trace->events[i];
    const bool fails = event->event.kind == WEIR_TRACE_OOM && refused->found && i == refused->index;
    switch (event->event.kind) {
    case WEIR_TRACE_ALLOC:
    case WEIR_TRACE_REALLOC:
        plan->moment++;
        begin(plan, event->index, &event->event, event->event.size);
        break;
    case WEIR_TRACE_OOM:
        if (fails) {
            plan->moment++;
            begin(plan, trace->block_count, &event->event, refused->size);
            end(plan, trace->block_count);
        }
        break;
    case WEIR_TRACE_FREE:
        end(plan, event->index);
        break;
    default:
        break;
    }
    if (event->event.kind == WEIR_TRACE_REALLOC) {
        end(plan, event->old_index); /* both blocks live for a moment */
    }
}

/* Finds the lives. Returns false when out of host memory. */
static bool start(struct plan *plan, const struct trace *trace)
{
    const struct recorded_oom refused = recorded_oom_find(trace);
    *plan = (struct plan){.count = (size_t)trace->block_count + refused.found};
    plan->blocks = calloc(plan->count + 1, sizeof(*plan->blocks));
    plan->sizes = calloc(plan->count + 1, sizeof(*plan->sizes));
    if (plan->blocks == NULL || plan->sizes == NULL) {
        return false;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->event.kind == WEIR_TRACE_PRIOR) {
            begin(plan, event->index, &event->event, event->event.size);
        }
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        add_event(plan, trace, i, &refused);
    }
    for (size_t i = 0; i < plan->count; i++) {
        struct packing_block *block = &plan->blocks[i];
        block->to = block->to == 0 ? plan->moment + 1 : block->to;
    }
    return true;
}

static bool pack(struct plan *plan, struct packing *packing)
{
    if (plan->too_large) {
        *packing = (struct packing){.found = false};
        return true;
    }
    return packing_find(plan->blocks, plan->count, packing);
}

static void stop(struct plan *plan)
{
    free(plan->blocks);
    free(plan->sizes);
}

bool plan_find(const struct trace *trace, struct packing *packing)
{
    struct plan plan;
    const bool done = start(&plan, trace) && pack(&plan, packing);
    stop(&plan);
    return done;
}

/* --- the row --- */

/* Counts the calls, and adds the live bytes after each event to the series, which may be NULL. */
static void walk_events(const struct plan *plan, const struct trace *trace, struct replay_result *result,
                        struct series *series)
{
    uint64_t live = 0;
    uint64_t peak = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].event.kind == WEIR_TRACE_PRIOR) {
            live += plan->sizes[trace->events[i].index];
            result->prior_blocks++;
        }
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->event.kind == WEIR_TRACE_ALLOC || event->event.kind == WEIR_TRACE_REALLOC) {
            live += plan->sizes[event->index];
            result->allocs++;
        }
        if (live > peak) {
            peak = live;
            result->worst_event = trace_event_number(trace, i);
        }
        if (series != NULL) {
            (void)series_add(series, i, trace_event_number(trace, i), live, result->peak_reserved_bytes);
        }
        if (event->event.kind == WEIR_TRACE_FREE) {
            live -= plan->sizes[event->index];
            result->frees++;
        } else if (event->event.kind == WEIR_TRACE_REALLOC) {
            live -= plan->sizes[event->old_index];
            result->frees++;
        }
    }
}

/* Keeps the data that the report draws. */
static bool keep_history(const struct plan *plan, const struct trace *trace, struct replay_result *result)
{
    result->places = calloc((size_t)trace->block_count + 1, sizeof(*result->places));
    result->regions = calloc(1, sizeof(*result->regions));
    if (result->places == NULL || result->regions == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < trace->block_count; i++) {
        const struct packing_block *block = &plan->blocks[i];
        result->places[i] = (struct replay_place){.address = base_address + block->offset, .capacity = block->size};
    }
    result->regions[0] = (struct replay_region){
        .address = base_address, .size = result->peak_reserved_bytes, .added = -1, .removed = -1};
    result->region_count = result->peak_reserved_bytes > 0;
    return true;
}

bool plan_run(const struct trace *trace, bool history, struct replay_result *result, bool *found)
{
    struct plan plan;
    struct packing packing = {.found = false};
    struct series series = {.points = NULL};
    *result = (struct replay_result){.strategy = &plan_strategy, .lacks_addresses = true};
    bool done =
        start(&plan, trace) && pack(&plan, &packing) && live_peak(trace, LIVE_ON_DEVICE, &result->peak_live_bytes);
    *found = packing.found;
    done = done && (!history || series_init(&series, trace->event_count));
    if (done && packing.found) {
        result->events_played = trace->event_count;
        result->peak_reserved_bytes = packing.extent;
        result->device_calls = 1;
        walk_events(&plan, trace, result, history ? &series : NULL);
        result->points = series.points;
        result->point_count = series.count;
        series.points = NULL;
        done = !history || keep_history(&plan, trace, result);
    }
    free(series.points);
    stop(&plan);
    return done;
}

bool plan_is(const struct replay_result *result)
{
    return result->strategy == &plan_strategy;
}
