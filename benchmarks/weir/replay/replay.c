/* replay.c: see replay.h.
 *
 * Guarantee: the timing covers the allocator, not the simulator: the clock is read around pool calls only, and calls to
 * the auditor lie outside. The auditor learns of a free before the pool, since the pool may return the memory to the
 * device inside its call, and of an allocation after the pool's call.
 *
 * A trace does not tell which work touches which block. So the replay assumes that a block is touched at its allocation
 * and at its free, on the streams named there, and by the next work of the stream that a `u` line names, if the block
 * is live then. A program that uses a block on a second stream has made that stream wait for the first one; few
 * recorders write this wait, so a `u` line implies it. The pool is not told of the wait.
 *
 * A trace does not tell when a graph is launched. The rules of a capture pool (weir/capture.h) order the launches, and
 * the replay gives the device the same order for the blocks: a capture begins after the capture before it in its pool,
 * and the host waits for both before the pool is released.
 */
#include "replay/replay.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/pytorch.h"
#include "replay/captures.h"
#include "replay/latency.h"
#include "replay/metering_device.h"
#include "replay/replay_heap.h"
#include "replay/series.h"
#include "replay/tags.h"
#include "shared/clock.h"

enum { findings_read = 10000, findings_kept = 50, progress_steps = 200 };

/* A stream of the trace, created when an event first names it. */
struct track {
    weir_sim_stream *native; /* NULL: not created yet */
    struct replay_stream stream;
    uint32_t *used; /* blocks that the next work on the stream touches */
    size_t used_count;
    size_t used_capacity;
};

struct live_block {
    struct replay_taken taken; /* without a handle: the block is not live, or its allocation failed */
    uint64_t size;
    struct track *track;
    uint32_t tag;
};

struct run {
    const struct trace *trace;
    const struct replay_options *options;
    struct replay_result *result;
    weir_sim *sim;
    struct metering metering;
    struct replay_heap heap;
    weir_event *handover; /* event for the wait before a stream uses a block of another stream */
    struct track *tracks;
    struct live_block *blocks; /* [block_count + 1]: the last entry is for the request in `refused` */
    struct replay_tags tags;
    struct replay_captures captures;
    struct recorded_oom refused; /* the request on which the recorded program ran out of memory */
    weir_event **objects;        /* device events for the event objects of the trace */
    struct latency latency;
    struct series series;
    uint64_t live_bytes;
    uint64_t live_peak;
    uint64_t calls_at_peak;
    uint64_t allocs_at_peak;
    const struct track *latest; /* of the latest request */
    bool stopped;               /* out of memory, or at the event to be looked at */
    bool crossed; /* a stream has used another stream's block, or a capture has begun: else no freed block is pending */
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 3, 4))) static bool fail(struct run *run, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(run->error, run->error_size, format, arguments);
    va_end(arguments);
    run->result->failure = status;
    return false;
}

static bool fail_memory(struct run *run)
{
    return fail(run, WEIR_ERR_NO_MEMORY, "no host memory");
}

static bool fail_status(struct run *run, const char *what, weir_status status)
{
    if (status == WEIR_ERR_INTERNAL && run->heap.torch != NULL) {
        return fail_memory(run); /* the only reason of the model */
    }
    const bool refused = status == WEIR_ERR_INVALID || status == WEIR_ERR_BUSY || status == WEIR_ERR_UNSUPPORTED;
    return fail(run, status, "%s: %s: %s: %s", run->trace->path, run->result->strategy->name, what,
                refused ? weir_last_error() : weir_status_text(status));
}

static const char *tag_text(const struct run *run, uint32_t tag)
{
    return tag == WEIR_TRACE_NONE ? NULL : run->trace->tags[tag];
}

static const char *tag_of(const struct run *run, const weir_trace_event *event)
{
    return tag_text(run, event->tag);
}

/* --- the device and its streams --- */

static uint64_t capacity_of(const struct run *run)
{
    const uint64_t told = run->trace->devices[run->trace->device].capacity;
    uint64_t capacity = run->options->capacity != 0 ? run->options->capacity : told;
    capacity = capacity != 0 ? capacity : REPLAY_MOST_CAPACITY;
    /* a limit is a pool's; for the model it is a smaller device */
    const struct replay_options *options = run->options;
    uint64_t limit = options->limit != 0 || options->pool == NULL ? options->limit : options->pool->limit_bytes;
    limit = run->result->strategy->settings != NULL ? limit : 0;
    return limit != 0 && limit < capacity ? limit : capacity;
}

static weir_status create_pool(struct run *run, uint64_t pad_bytes)
{
    const struct replay_options *options = run->options;
    const struct replay_strategy *strategy = run->result->strategy;
    model_pytorch_config model = MODEL_PYTORCH_CONFIG_INIT;
    model.pad_bytes = pad_bytes;
    weir_pool_config config = WEIR_POOL_CONFIG_INIT;
    if (options->pool != NULL) {
        config = *options->pool;
    }
    config.device = run->metering.device;
    if (strategy->ops != NULL) {
        config.strategy = strategy->ops();
        config.strategy_config = strategy->models_padding ? &model : NULL;
    }
    config.limit_bytes = options->limit != 0 ? options->limit : config.limit_bytes;
    config.growth = options->growth != 0 ? options->growth : config.growth;
    config.flags |= strategy->pool_flags;
    return weir_pool_create(&config, &run->heap.pool);
}

static weir_status create_torch(struct run *run, uint64_t pad_bytes)
{
    struct pytorch_settings settings = *run->result->strategy->settings;
    settings.pad_bytes = pad_bytes;
    return replay_heap_torch(&run->heap, run->metering.device, &settings);
}

static weir_status create_heap(struct run *run, uint64_t pad_bytes)
{
    run->heap.sim = run->sim;
    if (run->result->strategy->settings != NULL) {
        return create_torch(run, pad_bytes);
    }
    const weir_status status = create_pool(run, pad_bytes);
    run->captures.pool = run->heap.pool;
    run->captures.apart = run->result->strategy->models_padding; /* the models of PyTorch's allocator */
    return status == WEIR_OK ? replay_tags_name(&run->tags, run->trace, run->heap.pool) : status;
}

static bool start_device(struct run *run, uint64_t pad_bytes)
{
    const uint32_t device = run->trace->device;
    weir_sim_config sim = WEIR_SIM_CONFIG_INIT;
    sim.capacity_bytes = capacity_of(run);
    if (sim.capacity_bytes < REPLAY_LEAST_CAPACITY || sim.capacity_bytes > REPLAY_MOST_CAPACITY) {
        return fail(run, WEIR_ERR_INVALID, "%s: #dev %u cap=%llu: a simulated device has from 2 MiB to 16 TiB",
                    run->trace->path, device, (unsigned long long)sim.capacity_bytes);
    }
    const uint64_t granularity = replay_granularity(run->trace);
    if (granularity < REPLAY_LEAST_GRANULARITY || granularity > REPLAY_MOST_GRANULARITY) {
        return fail(run, WEIR_ERR_INVALID,
                    "%s: #dev %u gran=%llu: a simulated device gives memory in pieces of 512 B to 1 GiB",
                    run->trace->path, device, (unsigned long long)granularity);
    }
    sim.region_granularity_bytes = granularity;
    sim.page_bytes = granularity;
    sim.costs = run->options->costs;
    sim.seed = run->options->seed;
    sim.no_audit = run->options->no_audit;
    sim.max_findings = findings_read;
    sim.address_base = (UINT64_C(1) << 44) + ((uint64_t)device << 46);
    weir_status status = weir_sim_create(&sim, &run->sim);
    if (status == WEIR_OK) {
        status = metering_init(&run->metering, run->sim, run->options->history);
    }
    if (status == WEIR_OK) {
        status = create_heap(run, pad_bytes);
    }
    return status == WEIR_OK || fail_status(run, "cannot set up the device", status);
}

static struct track *track_of(struct run *run, uint32_t number)
{
    struct track *track = &run->tracks[number];
    if (track->native == NULL) {
        weir_status status = weir_sim_stream_create(run->sim, &track->native);
        if (status == WEIR_OK) {
            status = replay_heap_stream(&run->heap, number, track->native, &track->stream);
        }
        if (status != WEIR_OK) {
            (void)fail_status(run, "cannot make a stream", status);
            return NULL;
        }
    }
    return track;
}

/* --- figures --- */

/* A model of an allocator with a cache for each stream: the free memory of other streams serves no request, though no
 * work uses it. */
static void keep_to_stream(const struct run *run, weir_oom_record *record)
{
    if (!run->result->strategy->models_padding || run->heap.pool == NULL) {
        return;
    }
    uint64_t own = 0;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < record->lane_count; i++) {
        const weir_oom_lane *lane = &record->lanes[i];
        own += lane->stream == record->stream ? lane->free_bytes : 0;
        largest = lane->stream == record->stream ? lane->largest_bytes : largest;
    }
    record->usable_free_bytes = own;
    record->usable_bytes = largest;
    weir_oom_judge(record);
}

/* Names the holders in the record of the model, which knows no tags. */
static void name_holders(struct run *run, weir_oom_record *record)
{
    struct replay_sum *sums = calloc((size_t)run->tags.tag_count + 2, sizeof(*sums));
    for (uint32_t i = 0; sums != NULL && i <= run->trace->block_count; i++) {
        const struct live_block *live = &run->blocks[i];
        if (live->taken.handle != NULL) {
            struct replay_sum *sum = &sums[replay_tags_slot(&run->tags, live->tag)];
            sum->bytes += live->size;
            sum->blocks++;
        }
    }
    if (sums != NULL) {
        replay_tags_hold(&run->tags, run->trace, sums, record);
        weir_oom_judge(record);
    }
    free(sums);
    record->requested_bytes = run->live_bytes;
}

/* Describes the pool at its peak, if this is the event to be looked at, for the stream of the latest request. */
static void survey(struct run *run, uint64_t event)
{
    if (run->options->survey && event == run->options->survey_event && run->latest != NULL) {
        run->result->peak = (weir_oom_record)WEIR_OOM_RECORD_INIT;
        (void)!replay_heap_survey(&run->heap, &run->latest->stream, run->live_bytes, &run->result->peak);
        keep_to_stream(run, &run->result->peak);
        if (run->heap.torch != NULL) {
            name_holders(run, &run->result->peak);
        }
    }
}

static void note_reserved(struct run *run, uint64_t event)
{
    if (run->metering.peak_bytes <= run->result->peak_reserved_bytes) {
        return;
    }
    struct replay_heap_figures figures;
    replay_heap_get_figures(&run->heap, &figures);
    run->result->peak_reserved_bytes = run->metering.peak_bytes;
    run->result->worst_event = event;
    run->result->free_bytes = figures.free_bytes;
    run->result->largest_free_bytes = figures.largest_free_bytes;
    survey(run, event);
}

static void note_pending(struct run *run, struct replay_point *point)
{
    struct replay_heap_figures figures;
    if (point != NULL && run->crossed) {
        replay_heap_get_figures(&run->heap, &figures);
        point->pending = figures.pending_bytes;
    }
}

static void count_live(struct run *run, uint64_t more, uint64_t less)
{
    run->live_bytes += more;
    run->live_bytes -= less;
    if (run->live_bytes > run->live_peak) {
        run->live_peak = run->live_bytes;
        run->calls_at_peak = run->metering.calls;
        run->allocs_at_peak = run->result->allocs;
    }
}

/* --- events --- */

static void note_oom(struct run *run, uint64_t event, const struct track *track, uint64_t size)
{
    struct replay_oom *oom = &run->result->oom;
    oom->happened = true;
    oom->event = event;
    oom->size = size;
    oom->record = (weir_oom_record)WEIR_OOM_RECORD_INIT;
    if (replay_heap_get_oom(&run->heap, &track->stream, size, run->live_bytes, &oom->record) == WEIR_OK) {
        keep_to_stream(run, &oom->record);
        if (run->heap.torch != NULL) {
            name_holders(run, &oom->record);
        }
        (void)snprintf(oom->why, sizeof(oom->why), "%s", oom->record.text);
    }
    run->stopped = true;
}

/* True for a request larger than any device. The replay counts it as out of memory; the pool refuses it as invalid. */
static bool is_absurd(uint64_t size, uint64_t align)
{
    const uint64_t most = UINT64_C(1) << (WEIR_SIZE_BUCKETS - 1);
    return size >= most || align >= most;
}

static void note_absurd(struct run *run, uint64_t event, uint64_t size)
{
    struct replay_oom *oom = &run->result->oom;
    *oom = (struct replay_oom){.happened = true, .event = event, .size = size};
    (void)snprintf(oom->why, sizeof(oom->why), "%llu bytes are more than any device has", (unsigned long long)size);
    run->stopped = true;
}

static bool alloc_block(struct run *run, uint64_t event, uint32_t index, uint32_t stream_number, uint64_t size,
                        uint64_t align, uint32_t tag)
{
    struct track *track = track_of(run, stream_number);
    if (track == NULL) {
        return false;
    }
    struct live_block *live = &run->blocks[index];
    struct replay_taken taken = {0};
    size = size == 0 ? 1 : size;
    if (is_absurd(size, align)) {
        note_absurd(run, event, size);
        return true;
    }
    run->latest = track;
    uint64_t began = run->options->no_timing ? 0 : wall_ns();
    const weir_tag named = run->heap.pool != NULL ? replay_tags_of(&run->tags, tag) : 0;
    weir_status status = replay_heap_alloc(&run->heap, &track->stream, size, align, named, &taken);
    if (!run->options->no_timing) {
        latency_add(&run->latency, wall_ns() - began);
    }
    if (status == WEIR_ERR_NO_MEMORY) {
        note_oom(run, event, track, size);
        return true;
    }
    if (status != WEIR_OK) {
        return fail_status(run, "alloc", status);
    }
    *live = (struct live_block){taken, size, track, tag};
    count_live(run, size, 0);
    if (!run->options->no_audit) {
        weir_sim_block_alloc(run->sim, taken.address, taken.size, track->native,
                             tag == REPLAY_TAG_PRIOR ? "before the window" : tag_text(run, tag));
    }
    if (run->options->history) {
        run->result->places[index] = (struct replay_place){taken.address, taken.size};
    }
    return true;
}

/* Frees a block in the order of the stream `track`. NULL: frees it as the host, when no work uses the block. */
static bool free_block(struct run *run, uint32_t index, struct track *track, const char *tag)
{
    struct live_block *live = &run->blocks[index];
    if (live->taken.handle == NULL) {
        return true; /* the block was not placed */
    }
    if (!run->options->no_audit) {
        weir_sim_block_free(run->sim, live->taken.address, track != NULL ? track->native : NULL, tag);
    }
    uint64_t began = run->options->no_timing ? 0 : wall_ns();
    weir_status status =
        replay_heap_free(&run->heap, &live->taken, &live->track->stream, track != NULL ? &track->stream : NULL);
    if (!run->options->no_timing) {
        latency_add(&run->latency, wall_ns() - began);
    }
    if (status != WEIR_OK) {
        return fail_status(run, "free", status);
    }
    count_live(run, 0, live->size);
    live->taken.handle = NULL;
    return true;
}

/* Makes the stream that uses a block wait for the block's stream, as the recorded program did. */
static weir_status hand_over(struct run *run, const struct track *from, const struct track *to)
{
    weir_device *device = weir_sim_device(run->sim);
    weir_status status = WEIR_OK;
    if (run->handover == NULL) {
        status = weir_device_event_create(device, &run->handover);
    }
    if (status == WEIR_OK) {
        status = weir_device_event_record(device, run->handover, from->native);
    }
    return status == WEIR_OK ? weir_device_stream_wait_event(device, to->native, run->handover) : status;
}

static bool use_block(struct run *run, uint32_t index, uint32_t stream_number)
{
    struct live_block *live = &run->blocks[index];
    struct track *track = track_of(run, stream_number);
    if (track == NULL || live->taken.handle == NULL) {
        return track != NULL;
    }
    weir_status status = track == live->track ? WEIR_OK : hand_over(run, live->track, track);
    if (status == WEIR_OK && !run->options->ignore_uses) {
        status = replay_heap_use(&run->heap, &live->taken, &track->stream);
    }
    if (status != WEIR_OK) {
        return fail_status(run, "use", status);
    }
    if (track->used_count == track->used_capacity) {
        size_t capacity = track->used_capacity == 0 ? 16 : track->used_capacity * 2;
        uint32_t *used = realloc(track->used, capacity * sizeof(*used));
        if (used == NULL) {
            return fail_memory(run);
        }
        track->used = used;
        track->used_capacity = capacity;
    }
    track->used[track->used_count++] = index;
    return true;
}

/* Queues work on the event's stream. It touches the live blocks of the stream's `u` events since its last work. */
static bool work_on(struct run *run, const weir_trace_event *event)
{
    struct track *track = track_of(run, event->stream);
    if (track == NULL) {
        return false;
    }
    weir_sim_access *accesses = NULL;
    size_t count = 0;
    if (track->used_count > 0 && !run->options->no_audit) {
        accesses = calloc(track->used_count, sizeof(*accesses));
        if (accesses == NULL) {
            return fail_memory(run);
        }
        for (size_t i = 0; i < track->used_count; i++) {
            const struct live_block *live = &run->blocks[track->used[i]];
            if (live->taken.handle != NULL) {
                accesses[count++] = (weir_sim_access){live->taken.address, live->size, true};
            }
        }
    }
    weir_sim_work work = WEIR_SIM_WORK_INIT;
    work.duration_ns = event->size;
    work.accesses = accesses;
    work.access_count = count;
    work.tag = tag_of(run, event);
    weir_status status = weir_sim_launch(run->sim, track->native, &work);
    track->used_count = 0;
    free(accesses);
    return status == WEIR_OK || fail_status(run, "work", status);
}

static bool record_or_wait(struct run *run, const struct trace_event *event)
{
    struct track *track = track_of(run, event->event.stream);
    if (track == NULL) {
        return false;
    }
    weir_device *device = weir_sim_device(run->sim);
    weir_event **object = &run->objects[event->index];
    if (*object == NULL && weir_device_event_create(device, object) != WEIR_OK) {
        return true;
    }
    weir_status status;
    if (event->event.kind == WEIR_TRACE_RECORD) {
        status = weir_device_event_record(device, *object, track->native);
        if (status == WEIR_OK) {
            status = replay_heap_recorded(&run->heap, *object, &track->stream);
        }
    } else {
        status = weir_device_stream_wait_event(device, track->native, *object);
        if (status == WEIR_OK) {
            status = replay_heap_waited(&run->heap, &track->stream, *object);
        }
    }
    return status == WEIR_OK || fail_status(run, "event", status);
}

static bool sync_all(struct run *run)
{
    weir_status status = weir_sim_sync(run->sim);
    for (uint32_t s = 0; s < run->trace->stream_count && status == WEIR_OK; s++) {
        if (run->tracks[s].native != NULL) {
            status = replay_heap_stream_synced(&run->heap, &run->tracks[s].stream);
        }
    }
    return status == WEIR_OK || fail_status(run, "sync", status);
}

static bool sync_one(struct run *run, const struct trace_event *event)
{
    weir_device *device = weir_sim_device(run->sim);
    weir_status status = WEIR_OK;
    if (event->event.mode == 's') {
        struct track *track = track_of(run, event->event.stream);
        if (track == NULL) {
            return false;
        }
        status = weir_device_stream_sync(device, track->native);
        if (status == WEIR_OK) {
            status = replay_heap_stream_synced(&run->heap, &track->stream);
        }
    } else if (run->objects[event->index] != NULL) {
        status = weir_device_event_sync(device, run->objects[event->index]);
        if (status == WEIR_OK) {
            status = replay_heap_event_synced(&run->heap, run->objects[event->index]);
        }
    }
    return status == WEIR_OK || fail_status(run, "sync", status);
}

static bool trim(struct run *run)
{
    weir_status status = replay_heap_trim(&run->heap);
    return status == WEIR_OK || fail_status(run, "trim", status);
}

static bool realloc_block(struct run *run, uint64_t number, const struct trace_event *event)
{
    struct live_block *old = &run->blocks[event->old_index];
    if (old->taken.handle == NULL) {
        return true;
    }
    struct track *track = old->track;
    uint32_t stream = (uint32_t)(track - run->tracks);
    return alloc_block(run, number, event->index, stream, event->event.size, 0, event->event.tag) &&
           free_block(run, event->old_index, track, NULL);
}

/* Repeats the request on which the recorded program ran out of memory. */
static bool ask_again(struct run *run, uint64_t number)
{
    const uint32_t index = run->trace->block_count;
    return alloc_block(run, number, index, run->refused.stream, run->refused.size, 0, WEIR_TRACE_NONE) &&
           free_block(run, index, run->blocks[index].track, NULL);
}

static bool begin_capture(struct run *run, const weir_trace_event *event)
{
    struct track *track = track_of(run, event->stream);
    if (track == NULL) {
        return false;
    }
    run->crossed = true; /* a block of a graph that is freed later is pending */
    const uint32_t last = replay_captures_last(&run->captures, event->pool, event->stream);
    weir_status status = WEIR_OK;
    if (last != WEIR_TRACE_NONE && last != event->stream) {
        status = hand_over(run, &run->tracks[last], track);
    }
    if (status == WEIR_OK) {
        status = replay_captures_begin(&run->captures, event->pool, event->stream, track->stream.pool);
    }
    return status == WEIR_OK || fail_status(run, "begin of a capture", status);
}

/* Releases the capture pool `pool`, or all. The host has seen the last launches of its graphs complete. */
static bool release_captures(struct run *run, uint32_t pool)
{
    weir_status status = weir_sim_sync(run->sim);
    if (status == WEIR_OK) {
        status = replay_captures_release(&run->captures, pool);
    }
    return status == WEIR_OK || fail_status(run, "release of captures", status);
}

static bool play_capture(struct run *run, const weir_trace_event *event)
{
    if (run->heap.pool == NULL) {
        return true; /* torch_heap has no private pools: the blocks of a capture are ordinary ones */
    }
    if (event->mode == 'B') {
        return begin_capture(run, event);
    }
    if (event->mode == 'R') {
        return release_captures(run, event->pool);
    }
    const weir_status status = replay_captures_end(&run->captures, event->pool, event->stream);
    return status == WEIR_OK || fail_status(run, "end of a capture", status);
}

static bool play_event(struct run *run, uint64_t number, const struct trace_event *event)
{
    const weir_trace_event *e = &event->event;
    switch (e->kind) {
    case WEIR_TRACE_ALLOC:
        run->result->allocs++;
        return alloc_block(run, number, event->index, e->stream, e->size, e->extra, e->tag);
    case WEIR_TRACE_FREE: {
        struct track *track = e->stream == WEIR_TRACE_NONE ? NULL : track_of(run, e->stream);
        run->result->frees++;
        return (track != NULL || e->stream == WEIR_TRACE_NONE) && free_block(run, event->index, track, tag_of(run, e));
    }
    case WEIR_TRACE_REALLOC:
        run->result->allocs++;
        run->result->frees++;
        return realloc_block(run, number, event);
    case WEIR_TRACE_USE:
        run->crossed = true;
        return use_block(run, event->index, e->stream);
    case WEIR_TRACE_WORK:
        return work_on(run, e);
    case WEIR_TRACE_RECORD:
    case WEIR_TRACE_WAIT:
        return record_or_wait(run, event);
    case WEIR_TRACE_SYNC:
        return e->mode == '*' ? sync_all(run) : sync_one(run, event);
    case WEIR_TRACE_TRIM:
        return trim(run);
    case WEIR_TRACE_CAPTURE:
        return play_capture(run, e);
    case WEIR_TRACE_CAPACITY:
        weir_sim_set_capacity(run->sim, e->size);
        return true;
    case WEIR_TRACE_OOM:
        return !run->refused.found || event != &run->trace->events[run->refused.index] || ask_again(run, number);
    case WEIR_TRACE_PRIOR:   /* played before the events */
    case WEIR_TRACE_MARK:    /* labels of the report */
    case WEIR_TRACE_POOL:    /* one pool serves all private pools */
    case WEIR_TRACE_SEGMENT: /* a replay does not play the recorded allocator's segments, mappings and counters */
    case WEIR_TRACE_MAPPING:
    case WEIR_TRACE_COUNTERS:
    default:
        return true;
    }
}

static bool check_pool(struct run *run, uint64_t number)
{
    const char *why = "";
    if (replay_heap_check(&run->heap, &why) != WEIR_OK) {
        return fail(run, WEIR_ERR_INTERNAL, "%s: %s: check failed after event %llu: %s", run->trace->path,
                    run->result->strategy->name, (unsigned long long)number, why);
    }
    run->result->checks++;
    return true;
}

/* --- the replay --- */

static int by_address(const void *left, const void *right)
{
    const weir_trace_event *a = &(*(const struct trace_event *const *)left)->event;
    const weir_trace_event *b = &(*(const struct trace_event *const *)right)->event;
    if (a->address != b->address) {
        return a->address < b->address ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Allocates the blocks that were live before the trace, in address order. Their sizes include the padding of the
 * recorded allocator; a strategy that adds the padding itself gets the size without it. */
static bool play_prior(struct run *run)
{
    const struct trace *trace = run->trace;
    size_t count = 0;
    const struct trace_event **prior = calloc(trace->event_count + 1, sizeof(struct trace_event *));
    if (prior == NULL) {
        return fail_memory(run);
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].event.kind == WEIR_TRACE_PRIOR) {
            prior[count++] = &trace->events[i];
        }
    }
    qsort(prior, count, sizeof(struct trace_event *), by_address);
    bool played = true;
    for (size_t i = 0; i < count && played && !run->stopped; i++) {
        const weir_trace_event *e = &prior[i]->event;
        uint64_t size = e->size > run->result->pad_bytes ? e->size - run->result->pad_bytes : e->size;
        played = alloc_block(run, trace_event_number(trace, (size_t)(prior[i] - trace->events)), prior[i]->index,
                             e->stream, size, 0, replay_tag_of_event(e));
        struct live_block *live = &run->blocks[prior[i]->index];
        if (live->taken.handle != NULL) {
            count_live(run, e->size - size, 0);
            live->size = e->size;
        }
    }
    run->result->prior_blocks = count;
    free(prior);
    note_reserved(run, replay_start_number(trace));
    return played && (!run->options->check || check_pool(run, 0));
}

static void report_progress(const struct run *run, double share)
{
    if (run->options->progress != NULL) {
        run->options->progress(run->options->progress_ctx, share);
    }
}

/* Ends the captures and frees the blocks that the trace leaves, at its end and between repetitions. */
static bool free_rest(struct run *run)
{
    if (!release_captures(run, WEIR_TRACE_NONE) || !sync_all(run)) {
        return false;
    }
    for (uint32_t i = 0; i < run->trace->block_count; i++) {
        if (!free_block(run, i, run->blocks[i].track, "end of trace")) {
            return false;
        }
    }
    for (uint32_t s = 0; s < run->trace->stream_count; s++) {
        run->tracks[s].used_count = 0;
    }
    return true;
}

static bool play_events(struct run *run, uint64_t round, uint64_t rounds)
{
    const struct trace *trace = run->trace;
    const uint64_t step = trace->event_count / progress_steps + 1;
    uint64_t calls = run->metering.calls;
    const uint64_t shift = round == 0 ? 0 : weir_sim_now(run->sim);
    for (size_t i = 0; i < trace->event_count && !run->stopped; i++) {
        const struct trace_event *event = &trace->events[i];
        const uint64_t number = trace_event_number(trace, i);
        run->metering.event = (int64_t)number;
        if (trace->clock == TRACE_CLOCK_NS) {
            weir_sim_advance_to(run->sim, shift + event->event.time_ns);
        }
        if (!play_event(run, number, event)) {
            return false;
        }
        run->result->events_played++;
        /* reserved bytes are noted only after a device call, because nothing else changes them */
        if (run->metering.calls != calls) {
            calls = run->metering.calls;
            note_reserved(run, number);
        }
        if (run->options->survey && number >= run->options->survey_event) {
            run->stopped = true;
        }
        if (run->options->history && round == 0) {
            note_pending(run, series_add(&run->series, i, number, run->live_bytes, run->metering.held_bytes));
        }
        if (run->options->check && !check_pool(run, number)) {
            return false;
        }
        if (i % step == 0) {
            report_progress(run, ((double)round + (double)i / (double)trace->event_count) / (double)rounds);
        }
    }
    return true;
}

static bool play(struct run *run)
{
    const uint64_t rounds = run->options->repeat > 1 ? run->options->repeat : 1;
    run->result->seconds = 0.0;
    for (uint64_t round = 0; round < rounds && !run->stopped; round++) {
        if ((round > 0 && !free_rest(run)) || !play_prior(run)) {
            return false;
        }
        uint64_t began = wall_ns();
        if (!play_events(run, round, rounds)) {
            return false;
        }
        run->metering.keep = false; /* the report draws only the first round */
        run->result->seconds += (double)(wall_ns() - began) * 1e-9;
    }
    return true;
}

static bool start(struct run *run, uint64_t pad_bytes)
{
    const struct trace *trace = run->trace;
    if (trace->device == TRACE_NO_INDEX) {
        return fail(run, WEIR_ERR_INVALID, "%s: a replay plays one device, and the trace uses several", trace->path);
    }
    run->tracks = calloc(trace->stream_count, sizeof(*run->tracks));
    run->blocks = calloc((size_t)trace->block_count + 1, sizeof(*run->blocks));
    run->objects = calloc((size_t)trace->object_count + 1, sizeof(weir_event *));
    bool enough = run->tracks != NULL && run->blocks != NULL && run->objects != NULL;
    if (enough && run->options->history) {
        run->result->places = calloc((size_t)trace->block_count + 1, sizeof(*run->result->places));
        enough = run->result->places != NULL && series_init(&run->series, trace->event_count);
    }
    if (!enough) {
        return fail_memory(run);
    }
    latency_init(&run->latency);
    run->refused = recorded_oom_find(trace);
    if (!replay_tags_init(&run->tags, trace)) {
        return fail_memory(run);
    }
    return start_device(run, pad_bytes);
}

static void keep_figures(struct run *run)
{
    struct replay_result *result = run->result;
    result->peak_live_bytes = run->live_peak;
    result->p50_ns = latency_percentile(&run->latency, 0.5);
    result->p99_ns = latency_percentile(&run->latency, 0.99);
    result->p999_ns = latency_percentile(&run->latency, 0.999);
    result->device_calls = run->metering.calls;
    result->device_time_ns = run->metering.ns;
    result->warm_calls = result->device_calls - run->calls_at_peak;
    result->warm_allocs = result->allocs - run->allocs_at_peak;
    struct replay_heap_figures figures;
    replay_heap_get_figures(&run->heap, &figures);
    result->waits = figures.waits;
    result->syncs = figures.syncs;
    memcpy(result->served, figures.served, sizeof(result->served));
}

static void keep_finding(struct replay_result *result, const weir_sim_finding *finding)
{
    if (result->finding_count < findings_kept) {
        result->findings[result->finding_count] = strdup(finding->text);
        result->finding_count += result->findings[result->finding_count] != NULL;
    }
}

/* Copies the findings. Findings with earlier work still running come first, because they do harm in every run. */
static bool keep_findings(struct run *run)
{
    struct replay_result *result = run->result;
    weir_sim_finding finding;
    result->findings = calloc(findings_kept, sizeof(char *));
    if (result->findings == NULL) {
        return fail_memory(run);
    }
    for (int in_flight = 1; in_flight >= 0; in_flight--) {
        for (size_t i = 0; weir_sim_finding_at(run->sim, i, &finding); i++) {
            if (finding.in_flight == (in_flight == 1)) {
                result->hazards_in_flight += finding.in_flight;
                keep_finding(result, &finding);
            }
        }
    }
    result->hazards = weir_sim_finding_count(run->sim, WEIR_SIM_FINDING_KINDS);
    return true;
}

static bool keep_history(struct run *run)
{
    struct replay_result *result = run->result;
    if (!run->options->history) {
        return true;
    }
    if (run->metering.failed) {
        return fail_memory(run);
    }
    result->regions = run->metering.regions;
    result->region_count = run->metering.region_count;
    run->metering.regions = NULL;
    run->metering.region_count = 0;
    result->points = run->series.points;
    result->point_count = run->series.count;
    run->series.points = NULL;
    return true;
}

/* Frees the remaining blocks, destroys the pool and lets the auditor look for leaks. */
static bool finish(struct run *run)
{
    if (!free_rest(run)) {
        return false;
    }
    run->result->capture_bytes = run->captures.peak_bytes;
    weir_status status = replay_heap_destroy(&run->heap);
    if (status != WEIR_OK) {
        return fail_status(run, "the pool could not give everything back", status);
    }
    if (!run->options->no_audit) {
        weir_sim_audit_leaks(run->sim);
    }
    if (run->metering.held_bytes != 0) {
        return fail(run, WEIR_ERR_INTERNAL, "%s: %s: %llu bytes were not given back", run->trace->path,
                    run->result->strategy->name, (unsigned long long)run->metering.held_bytes);
    }
    return keep_findings(run);
}

static void clean_up(struct run *run)
{
    (void)!replay_captures_release(&run->captures, WEIR_TRACE_NONE); /* none is left unless the replay has failed */
    replay_captures_fini(&run->captures);
    weir_status status = replay_heap_destroy(&run->heap);
    (void)status; /* ignored: nothing is left to destroy unless a failure has been reported already */
    if (run->metering.device != NULL) {
        metering_fini(&run->metering);
    }
    (void)!weir_sim_destroy(run->sim); /* cannot fail: the pool and the metering device are destroyed */
    for (uint32_t s = 0; run->tracks != NULL && s < run->trace->stream_count; s++) {
        free(run->tracks[s].used);
    }
    replay_tags_fini(&run->tags);
    free(run->tracks);
    free(run->blocks);
    free(run->objects);
    free(run->series.points);
}

bool replay_run(const struct trace *trace, const struct replay_strategy *strategy, uint64_t pad_bytes,
                const struct replay_options *options, struct replay_result *result, char *error, size_t error_size)
{
    *result = (struct replay_result){.strategy = strategy, .pad_bytes = strategy->models_padding ? pad_bytes : 0};
    struct run *run = calloc(1, sizeof(*run));
    if (run == NULL) {
        (void)snprintf(error, error_size, "no host memory");
        result->failure = WEIR_ERR_NO_MEMORY;
        return false;
    }
    run->trace = trace;
    run->options = options;
    run->result = result;
    run->error = error;
    run->error_size = error_size;
    bool done = start(run, pad_bytes) && play(run);
    if (done) {
        keep_figures(run);
        done = keep_history(run) && finish(run);
    }
    report_progress(run, 1.0);
    clean_up(run);
    free(run);
    return done;
}

void replay_result_free(struct replay_result *result)
{
    for (size_t i = 0; i < result->finding_count; i++) {
        free(result->findings[i]);
    }
    free(result->findings);
    free(result->places);
    free(result->regions);
    free(result->points);
    *result = (struct replay_result){0};
}
