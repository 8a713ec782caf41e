/* trace_file.c: see weir/trace_file.h. A weir_trace is a struct trace of the reader under another name: this file
 * checks arguments, translates structs and makes the sentences of refusals. */
#include <weir/trace_file.h>

#include <stdlib.h>
#include <string.h>

#include "models/recorded.h"
#include "replay/recorded_run.h"
#include "replay/replay.h"
#include "trace/trace.h"

enum { sentence_bytes = 256 }; /* room for a sentence of weir_refuse */

static const struct trace *inside(const weir_trace *trace)
{
    return (const struct trace *)(const void *)trace;
}

static weir_status refuse_null(const char *function, const char *argument)
{
    return weir_refuse(WEIR_ERR_INVALID, "%s: %s is NULL", function, argument);
}

/* Stores "FUNCTION: MESSAGE". A message that is too long loses its beginning, which is the path of the file; the reason
 * at its end stays. */
static weir_status fail(weir_status status, const char *function, const char *message)
{
    const size_t room = sentence_bytes - sizeof(": ...") - strlen(function);
    const size_t length = strlen(message);
    if (length <= room) {
        return weir_refuse(status, "%s: %s", function, message);
    }
    message += length - room;
    while (((unsigned char)*message & 0xc0) == 0x80) { /* the text must not begin inside a UTF-8 character */
        message++;
    }
    return weir_refuse(status, "%s: ...%s", function, message);
}

/* Stores the trace in *out, or returns the error of the reader if there is no trace. */
static weir_status hand_out(struct trace *trace, weir_trace **out, const struct trace_error *error,
                            const char *function)
{
    if (trace == NULL) {
        return fail(error->status, function, error->message);
    }
    *out = (weir_trace *)(void *)trace;
    return WEIR_OK;
}

/* --- read --- */

static weir_status adopt_limits(const weir_trace_limits *given, const char *name, struct trace_limits *limits)
{
    weir_trace_limits own = WEIR_TRACE_LIMITS_INIT;
    const weir_status status = given == NULL ? WEIR_OK : weir_struct_adopt(&own, sizeof(own), given, name);
    *limits = (struct trace_limits){.max_bytes = own.max_bytes, .max_events = own.max_events};
    return status;
}

weir_status weir_trace_read(const char *path, const weir_trace_limits *limits, weir_trace **trace)
{
    struct trace_limits own;
    struct trace_error error = {.status = WEIR_OK};
    struct trace *read = NULL;
    if (path == NULL || trace == NULL) {
        return refuse_null(__func__, path == NULL ? "path" : "trace");
    }
    const weir_status status = adopt_limits(limits, "weir_trace_read: limits", &own);
    if (status != WEIR_OK) {
        return status;
    }
    (void)trace_read(path, &own, &read, &error);
    return hand_out(read, trace, &error, __func__);
}

weir_status weir_trace_read_memory(const char *name, const void *bytes, size_t size, const weir_trace_limits *limits,
                                   weir_trace **trace)
{
    struct trace_limits own;
    struct trace_error error = {.status = WEIR_OK};
    struct trace *read = NULL;
    if (name == NULL || trace == NULL || (bytes == NULL && size != 0)) {
        return refuse_null(__func__, name == NULL ? "name" : trace == NULL ? "trace" : "bytes");
    }
    const weir_status status = adopt_limits(limits, "weir_trace_read_memory: limits", &own);
    if (status != WEIR_OK) {
        return status;
    }
    (void)trace_read_memory(name, size == 0 ? "" : bytes, size, &own, &read, &error);
    return hand_out(read, trace, &error, __func__);
}

weir_status weir_trace_of_device(const weir_trace *trace, uint32_t device, weir_trace **one)
{
    struct trace_error error = {.status = WEIR_OK};
    struct trace *made = NULL;
    if (trace == NULL || one == NULL) {
        return refuse_null(__func__, trace == NULL ? "trace" : "one");
    }
    (void)trace_of_device(inside(trace), device, &made, &error);
    return hand_out(made, one, &error, __func__);
}

void weir_trace_free(weir_trace *trace)
{
    trace_free((struct trace *)(void *)trace);
}

/* --- facts --- */

_Static_assert((int)WEIR_TRACE_CLOCK_NS == (int)TRACE_CLOCK_NS &&
                   (int)WEIR_TRACE_CLOCK_ORDER == (int)TRACE_CLOCK_ORDER &&
                   (int)WEIR_TRACE_CLOCK_LOGICAL == (int)TRACE_CLOCK_LOGICAL && WEIR_TRACE_NONE == TRACE_NO_INDEX,
               "the reader and its header use the same numbers");

weir_status weir_trace_get_info(const weir_trace *trace, weir_trace_info *info)
{
    if (trace == NULL) {
        return refuse_null(__func__, "trace");
    }
    const struct trace *from = inside(trace);
    const weir_trace_info own = {
        .path = from->path,
        .source = from->source,
        .clock = (weir_trace_clock)from->clock,
        .devices = from->device_count,
        .device = from->device,
        .streams = from->stream_count,
        .threads = from->thread_count,
        .private_pools = from->pool_count,
        .tags = from->tag_count,
        .events = from->event_count,
        .blocks = from->block_count,
        .notes = from->note_count,
        .has_addresses = from->has_addresses,
        .has_stacks = from->stacks != NULL,
        .has_segments = recorded_run_known(from),
        .captures = from->capture_count,
    };
    return weir_struct_report(info, &own, sizeof(own), "weir_trace_get_info: info");
}

weir_status weir_trace_get_device(const weir_trace *trace, uint32_t device, weir_trace_device *info)
{
    if (trace == NULL) {
        return refuse_null(__func__, "trace");
    }
    if (device >= inside(trace)->device_count) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: device %u of %u", __func__, device, inside(trace)->device_count);
    }
    const struct trace_device *from = &inside(trace)->devices[device];
    const weir_trace_device own = {
        .name = from->name,
        .capacity_bytes = from->capacity,
        .granularity_bytes = from->granularity,
        .used = from->used,
    };
    return weir_struct_report(info, &own, sizeof(own), "weir_trace_get_device: info");
}

const char *weir_trace_note(const weir_trace *trace, uint64_t number)
{
    return trace != NULL && number < inside(trace)->note_count ? inside(trace)->notes[number] : NULL;
}

/* --- events --- */

/* True if events of this kind concern one block; `index` (struct trace_event) is then the number of the block. */
static bool has_block(const weir_trace_event *event)
{
    return event->kind == WEIR_TRACE_PRIOR || event->kind == WEIR_TRACE_ALLOC || event->kind == WEIR_TRACE_FREE ||
           event->kind == WEIR_TRACE_USE || event->kind == WEIR_TRACE_REALLOC;
}

weir_status weir_trace_get_event(const weir_trace *trace, uint64_t index, weir_trace_view *view)
{
    if (trace == NULL) {
        return refuse_null(__func__, "trace");
    }
    const struct trace *from = inside(trace);
    if (index >= from->event_count) {
        return weir_refuse(WEIR_ERR_INVALID, "%s: index %llu of %llu events", __func__, (unsigned long long)index,
                           (unsigned long long)from->event_count);
    }
    const struct trace_event *entry = &from->events[index];
    const uint32_t tag = entry->event.tag;
    const weir_trace_view own = {
        .event = &entry->event,
        .number = trace_event_number(from, (size_t)index),
        .block = has_block(&entry->event) ? entry->index : WEIR_TRACE_NONE,
        .old_block = entry->old_index,
        .device = trace_event_device(from, &entry->event),
        .tag = tag != WEIR_TRACE_NONE ? from->tags[tag] : NULL,
        .stack = tag != WEIR_TRACE_NONE && from->stacks != NULL ? from->stacks[tag] : NULL,
    };
    return weir_struct_report(view, &own, sizeof(own), "weir_trace_get_event: view");
}

/* --- write --- */

weir_status weir_trace_write(const weir_trace *trace, const char *path)
{
    struct trace_error error = {.status = WEIR_OK};
    if (trace == NULL || path == NULL) {
        return refuse_null(__func__, trace == NULL ? "trace" : "path");
    }
    return trace_write(inside(trace), path, &error) == WEIR_OK ? WEIR_OK : fail(error.status, __func__, error.message);
}

weir_status weir_trace_write_to(const weir_trace *trace, weir_record_sink sink, void *ctx)
{
    char *text = NULL;
    size_t size = 0;
    struct trace_error error = {.status = WEIR_OK};
    if (trace == NULL || sink == NULL) {
        return refuse_null(__func__, trace == NULL ? "trace" : "sink");
    }
    if (trace_write_memory(inside(trace), &text, &size, &error) != WEIR_OK) {
        return fail(error.status, __func__, error.message);
    }
    const bool taken = sink(ctx, text, size);
    free(text);
    return taken ? WEIR_OK : weir_refuse(WEIR_ERR_DEVICE, "%s: the sink refused the text", __func__);
}

/* --- replay --- */

static const char recorded[] = "recorded";

/* The settings of a replay, as the caller gave them and as the replayer takes them. */
struct order {
    weir_trace_replay_config config;
    weir_pool_config pool;
    struct replay_strategy own;   /* describes the caller's strategy; ops is NULL */
    struct replay_strategy *made; /* a row with settings, or NULL */
    const struct replay_strategy *strategy;
    struct replay_options options;
    uint64_t pad_bytes;
};

const char *weir_trace_strategy(size_t number)
{
    for (const struct replay_strategy *strategy = replay_strategies(); strategy->name != NULL; strategy++) {
        if (number-- == 0) {
            return strategy->name;
        }
    }
    return NULL;
}

static weir_status adopt_config(const weir_trace_replay_config *given, struct order *order)
{
    const uint32_t known =
        WEIR_TRACE_REPLAY_CHECK | WEIR_TRACE_REPLAY_NO_AUDIT | WEIR_TRACE_REPLAY_TIMES | WEIR_TRACE_REPLAY_IGNORE_USES;
    weir_status status = WEIR_OK;
    if (given != NULL) {
        status = weir_struct_adopt(&order->config, sizeof(order->config), given, "weir_trace_replay: config");
    }
    if (status == WEIR_OK && order->config.pool != NULL) {
        status = weir_struct_adopt(&order->pool, sizeof(order->pool), order->config.pool, "weir_trace_replay: pool");
    }
    if (status != WEIR_OK) {
        return status;
    }
    if ((order->config.flags & ~known) != 0) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_trace_replay: flags 0x%x", order->config.flags);
    }
    if (order->config.capacity_bytes != 0 &&
        (order->config.capacity_bytes < REPLAY_LEAST_CAPACITY || order->config.capacity_bytes > REPLAY_MOST_CAPACITY)) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_trace_replay: capacity_bytes %llu: a simulated device has 2 MiB to 16 TiB",
                           (unsigned long long)order->config.capacity_bytes);
    }
    if (order->pool.device != NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_trace_replay: pool: device is not NULL: the replay makes its own");
    }
    return WEIR_OK;
}

/* Makes the row of a name such as pytorch[max_split_size_mb:128]. */
static weir_status make_strategy(struct order *order, const char *name)
{
    struct pytorch_settings_error error = {.text = ""};
    order->made = replay_strategy_with_settings(name, strlen(name), &error);
    order->strategy = order->made;
    if (order->made != NULL) {
        return WEIR_OK;
    }
    if (error.text[0] == '\0') {
        return weir_refuse(WEIR_ERR_INVALID, "weir_trace_replay: strategy: there is no \"%s\"", name);
    }
    return weir_refuse(error.no_memory ? WEIR_ERR_NO_MEMORY : WEIR_ERR_INVALID, "weir_trace_replay: strategy: %s",
                       error.text);
}

/* Selects the strategy: the one that the settings name, else the one in the pool's settings, else "caching". */
static weir_status find_strategy(struct order *order)
{
    const char *name = order->config.strategy;
    if (name == NULL && order->pool.strategy != NULL) {
        order->own = (struct replay_strategy){.name = order->pool.strategy->name, .fixed_pad = 0};
        order->strategy = &order->own;
        return WEIR_OK;
    }
    if (order->pool.strategy != NULL || order->pool.strategy_config != NULL) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_trace_replay: pool: strategy%s",
                           order->pool.strategy != NULL ? ": the config names a strategy too"
                                                        : "_config without a strategy");
    }
    name = name != NULL ? name : "caching";
    order->strategy = replay_strategy_find(name, strlen(name));
    return order->strategy != NULL ? WEIR_OK : make_strategy(order, name);
}

static weir_status check_trace(const struct trace *trace)
{
    if (trace->device == TRACE_NO_INDEX) {
        return weir_refuse(WEIR_ERR_INVALID,
                           "weir_trace_replay: trace: uses several devices: weir_trace_of_device makes "
                           "a trace of each");
    }
    if (trace_only_counts(trace)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_trace_replay: trace: has totals over time and no blocks");
    }
    return WEIR_OK;
}

/* Finds the padding that the strategy adds to requests, if the strategy models the recorded allocator. */
static weir_status find_padding(const struct trace *trace, struct order *order)
{
    struct recorded_report report = {.checkable = false};
    if (!order->strategy->models_padding) {
        return WEIR_OK;
    }
    if (order->strategy->fixed_pad >= 0) {
        order->pad_bytes = (uint64_t)order->strategy->fixed_pad;
        return WEIR_OK;
    }
    const weir_status status = recorded_check(trace, RECORDED_PAD_BEST, &report);
    if (status != WEIR_OK) {
        return weir_refuse(status, "weir_trace_replay: the check against the recording failed: %s",
                           weir_status_text(status));
    }
    order->pad_bytes = report.checkable ? report.pad_bytes : trace->pad_bytes > 0 ? (uint64_t)trace->pad_bytes : 0;
    return WEIR_OK;
}

static void set_options(const struct trace *trace, struct order *order)
{
    const weir_trace_replay_config *config = &order->config;
    order->options = (struct replay_options){
        .capacity = config->capacity_bytes != 0 ? config->capacity_bytes : recorded_oom_find(trace).capacity,
        .pool = &order->pool,
        .seed = config->seed,
        .repeat = config->repeat,
        .ignore_uses = (config->flags & WEIR_TRACE_REPLAY_IGNORE_USES) != 0,
        .check = (config->flags & WEIR_TRACE_REPLAY_CHECK) != 0,
        .no_audit = (config->flags & WEIR_TRACE_REPLAY_NO_AUDIT) != 0,
        .no_timing = (config->flags & WEIR_TRACE_REPLAY_TIMES) == 0,
    };
}

static void report_oom(const weir_trace_replay_config *config, const struct replay_oom *oom)
{
    const size_t length = oom->record.failure != 0 ? weir_oom_explain(&oom->record, NULL, 0) : 0;
    char *text = length != 0 ? malloc(length + 1) : NULL;
    if (text != NULL) {
        (void)weir_oom_explain(&oom->record, text, length + 1);
        text[length - 1] = '\0'; /* replaces the last newline */
    }
    /* Without a pool's report, or when out of host memory, only the reason is passed on. */
    config->report(config->report_ctx, text != NULL ? text : oom->why);
    free(text);
}

static void report_sentences(const weir_trace_replay_config *config, const struct replay_result *result)
{
    if (config->report == NULL) {
        return;
    }
    for (size_t i = 0; i < result->finding_count; i++) {
        config->report(config->report_ctx, result->findings[i]);
    }
    if (result->oom.happened) {
        report_oom(config, &result->oom);
    }
    if (result->note[0] != '\0') {
        config->report(config->report_ctx, result->note);
    }
}

static weir_trace_figures figures_of(const struct replay_result *result)
{
    return (weir_trace_figures){
        .peak_live_bytes = result->peak_live_bytes,
        .peak_reserved_bytes = result->peak_reserved_bytes,
        .ratio = replay_ratio(result),
        .peak_event = result->worst_event,
        .free_bytes = result->free_bytes,
        .largest_free_bytes = result->largest_free_bytes,
        .prior_blocks = result->prior_blocks,
        .allocs = result->allocs,
        .frees = result->frees,
        .events = result->events_played,
        .device_calls = result->device_calls,
        .warm_device_calls = result->warm_calls,
        .warm_allocs = result->warm_allocs,
        .device_ns = result->device_time_ns,
        .waits = result->waits,
        .syncs = result->syncs,
        .out_of_memory = result->oom.happened,
        .oom_event = result->oom.event,
        .oom_bytes = result->oom.size,
        .hazards = result->hazards,
        .hazards_in_flight = result->hazards_in_flight,
        .checks = result->checks,
        .p50_ns = result->p50_ns,
        .p99_ns = result->p99_ns,
        .p999_ns = result->p999_ns,
        .capture_bytes = result->capture_bytes,
        .seconds = result->seconds,
    };
}

static weir_status run(const struct trace *trace, struct order *order, struct replay_result *result)
{
    char error[512] = "";
    weir_status status = find_strategy(order);
    if (status == WEIR_OK) {
        status = find_padding(trace, order);
    }
    if (status != WEIR_OK) {
        return status;
    }
    set_options(trace, order);
    return replay_run(trace, order->strategy, order->pad_bytes, &order->options, result, error, sizeof(error))
               ? WEIR_OK
               : fail(result->failure, "weir_trace_replay", error);
}

static weir_status run_recorded(const struct trace *trace, struct replay_result *result)
{
    if (!recorded_run_known(trace)) {
        return weir_refuse(WEIR_ERR_INVALID, "weir_trace_replay: strategy: the trace has no memory of the recorded "
                                             "allocator, so there is no \"recorded\"");
    }
    return recorded_run(trace, false, result) ? WEIR_OK
                                              : weir_refuse(WEIR_ERR_NO_MEMORY, "weir_trace_replay: no host memory");
}

weir_status weir_trace_replay(const weir_trace *trace, const weir_trace_replay_config *config,
                              weir_trace_figures *figures)
{
    struct order order = {.config = WEIR_TRACE_REPLAY_CONFIG_INIT, .pool = WEIR_POOL_CONFIG_INIT};
    struct replay_result result = {.finding_count = 0};
    weir_trace_figures own = {.ratio = 1.0};
    if (trace == NULL) {
        return refuse_null(__func__, "trace");
    }
    if (figures == NULL || figures->struct_size < sizeof(figures->struct_size)) {
        return weir_struct_report(figures, &own, sizeof(own), "weir_trace_replay: figures");
    }
    weir_status status = adopt_config(config, &order);
    if (status == WEIR_OK) {
        status = check_trace(inside(trace));
    }
    if (status != WEIR_OK) {
        return status;
    }
    const bool simulated = order.config.strategy == NULL || strcmp(order.config.strategy, recorded) != 0;
    status = simulated ? run(inside(trace), &order, &result) : run_recorded(inside(trace), &result);
    if (status == WEIR_OK) {
        own = figures_of(&result);
        report_sentences(&order.config, &result);
        status = weir_struct_report(figures, &own, sizeof(own), "weir_trace_replay: figures");
    }
    replay_result_free(&result);
    free(order.made);
    return status;
}
