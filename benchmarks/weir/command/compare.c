/* compare.c: see compare.h. */
#include "compare.h"

#include "replay/jobs.h"
#include "replay/live_peak.h"
#include "replay/plan.h"

#include <stdio.h>
#include <stdlib.h>

/* Jobs of one trace: job i is strategy i, and the last one the plan. */
struct strategy_jobs {
    const struct settings *settings;
    struct crew *crew;
    struct comparison *comparison;
    const struct progress_source *source;
    size_t first; /* result number of job 0: 1 if result 0 is the recorded row, else 0 */
    struct replay_options options;
    char *error;
    size_t error_size;
};

static bool wants_model(const struct settings *settings)
{
    for (size_t i = 0; i < settings->strategy_count; i++) {
        if (settings->strategies[i]->models_padding) {
            return true;
        }
    }
    return false;
}

/* Returns the bytes that the pytorch model adds to a request. The strategy's name decides, then --pad, then the
 * recording. */
static uint64_t pad_for(const struct settings *settings, const struct replay_strategy *strategy,
                        const struct comparison *comparison)
{
    if (strategy->fixed_pad >= 0) {
        return (uint64_t)strategy->fixed_pad;
    }
    if (settings->pad >= 0) {
        return (uint64_t)settings->pad;
    }
    if (comparison->recorded.checkable) {
        return comparison->recorded.pad_bytes;
    }
    return comparison->trace->pad_bytes > 0 ? (uint64_t)comparison->trace->pad_bytes : 0;
}

static bool run_jobs(struct strategy_jobs *all, size_t count,
                     bool (*play)(void *ctx, size_t i, char *error, size_t error_size))
{
    const struct jobs jobs = {
        .count = count, .threads = all->settings->replay.jobs, .crew = all->crew, .play = play, .ctx = all};
    return jobs_run(&jobs, all->error, all->error_size);
}

/* Job `strategy_count` is the plan, the last row. */
static bool play_strategy(void *ctx, size_t i, char *error, size_t error_size)
{
    struct strategy_jobs *all = ctx;
    struct comparison *comparison = all->comparison;
    if (i == all->settings->strategy_count) {
        (void)snprintf(error, error_size, "no host memory");
        return plan_run(comparison->trace, all->options.history, &comparison->results[all->first + i],
                        &comparison->planned);
    }
    const struct replay_strategy *strategy = all->settings->strategies[i];
    struct progress_source source = *all->source;
    struct replay_options options = all->options;
    source.strategy = strategy->name;
    options.progress_ctx = &source;
    return replay_run(comparison->trace, strategy, pad_for(all->settings, strategy, comparison), &options,
                      &comparison->results[all->first + i], error, error_size);
}

/* Finds the memory that the strategy needs to serve also the request on which the recorded program ran out. */
static bool find_enough(void *ctx, size_t i, char *error, size_t error_size)
{
    struct strategy_jobs *all = ctx;
    struct comparison *comparison = all->comparison;
    const size_t row = all->first + i;
    const struct replay_result *result = &comparison->results[row];
    return sweep_enough(comparison->trace, result->strategy, result->pad_bytes, &all->settings->replay,
                        &comparison->enough[row], error, error_size);
}

static bool sweep_limits(struct strategy_jobs *all)
{
    const struct settings *settings = all->settings;
    struct comparison *comparison = all->comparison;
    struct progress_source source = *all->source;
    struct replay_options options = settings->replay;
    uint64_t pads[most_strategies];
    source.strategy = "sweep";
    options.crew = all->crew;
    options.progress = progress_show;
    options.progress_ctx = &source;
    for (size_t i = 0; i < settings->strategy_count; i++) {
        pads[i] = pad_for(settings, settings->strategies[i], comparison);
    }
    return sweep_run(comparison->trace, settings->strategies, pads, settings->strategy_count, &settings->sweep,
                     &options, &comparison->sweep, all->error, all->error_size);
}

/* The rounds with host allocators: as many as are asked for, and one for a recording of a malloc. Figures that are the
 * same in every run leave it out. */
static uint32_t host_rounds(const struct strategy_jobs *all)
{
    const struct settings *settings = all->settings;
    const bool answers = trace_is_of_malloc(all->comparison->trace) && !settings->csv && !settings->replay.no_timing;
    return settings->host_rounds != 0 ? settings->host_rounds : answers ? 1 : 0;
}

static bool measure_host(struct strategy_jobs *all)
{
    char why[512];
    const uint32_t rounds = host_rounds(all);
    if (rounds == 0 ||
        host_replay_run(all->comparison->trace, rounds, HOST_REPLAY_SELF, &all->comparison->host, why, sizeof(why))) {
        return true;
    }
    all->comparison->host = (struct host_replay){0};
    (void)snprintf(all->error, all->error_size, "%s: %s", all->comparison->trace->path, why);
    return all->settings->host_rounds == 0; /* it was not asked for: the machine is too small for the table */
}

/* Computes the row of the recorded allocator, if the trace has its segments, and checks the pytorch model against
 * it. */
static bool look_at_record(struct strategy_jobs *all)
{
    const struct settings *settings = all->settings;
    struct comparison *comparison = all->comparison;
    if (wants_model(settings)) {
        const weir_status status = recorded_check(comparison->trace, settings->pad, &comparison->recorded);
        if (status != WEIR_OK) {
            (void)snprintf(all->error, all->error_size, "%s: the check against the recording failed: %s",
                           comparison->trace->path, weir_status_text(status));
            return false;
        }
    }
    if (recorded_run_known(comparison->trace)) {
        all->first = comparison->result_count = 1;
        if (!recorded_run(comparison->trace, all->options.history, &comparison->results[0])) {
            (void)snprintf(all->error, all->error_size, "no host memory");
            return false;
        }
    }
    return true;
}

/* Plays the first strategy again up to its peak and looks at its pool there. */
static bool look_at_peak(struct strategy_jobs *all, struct replay_result *result)
{
    struct replay_result again;
    struct replay_options options = all->options;
    options.survey = true;
    options.survey_event = result->worst_event;
    options.no_audit = options.no_timing = true;
    options.check = options.history = false;
    options.repeat = 1;
    options.progress = NULL;
    const bool done = replay_run(all->comparison->trace, result->strategy, result->pad_bytes, &options, &again,
                                 all->error, all->error_size);
    result->peak = again.peak;
    replay_result_free(&again);
    return done;
}

/* Judges the recorded allocator, or the first strategy if the recorded memory is not known. CSV does not show it. */
static bool judge(struct strategy_jobs *all)
{
    struct comparison *comparison = all->comparison;
    struct replay_result *result = &comparison->results[0];
    if (!replay_is_computed(result) && !result->oom.happened && result->allocs + result->prior_blocks > 0 &&
        !look_at_peak(all, result)) {
        return false;
    }
    if (!verdict_of(comparison->trace, result, &comparison->verdict)) {
        (void)snprintf(all->error, all->error_size, "no host memory");
        return false;
    }
    return true;
}

/* True if neither the options nor the trace tell how much memory there is. */
static bool is_unlimited(const struct replay_options *options, const struct trace *trace)
{
    bool told = options->capacity != 0 || options->limit != 0 || trace->devices[trace->device].capacity != 0;
    for (size_t i = 0; i < trace->event_count && !told; i++) {
        told = trace->events[i].event.kind == WEIR_TRACE_CAPACITY;
    }
    return !told;
}

static bool start(struct strategy_jobs *all, struct trace *trace)
{
    const struct settings *settings = all->settings;
    struct comparison *comparison = all->comparison;
    *comparison = (struct comparison){.prices = &settings->prices,
                                      .timing = !settings->replay.no_timing,
                                      .trace = trace,
                                      .results = calloc(settings->strategy_count + 2, sizeof(struct replay_result)),
                                      .enough = calloc(settings->strategy_count + 2, sizeof(uint64_t)),
                                      .refused = recorded_oom_find(trace)};
    comparison->implied = settings->replay.capacity == 0 && comparison->refused.capacity != 0;
    if (comparison->implied) {
        all->options.capacity = comparison->refused.capacity;
    }
    comparison->unlimited = is_unlimited(&all->options, trace);
    const bool enough = comparison->results != NULL && comparison->enough != NULL &&
                        live_peak(trace, LIVE_ON_DEVICE, &comparison->peak_live_bytes);
    if (!enough) {
        (void)snprintf(all->error, all->error_size, "no host memory");
    }
    return enough;
}

bool compare(const struct settings *settings, struct crew *crew, const struct progress_source *source,
             struct trace *trace, struct comparison *comparison, char *error, size_t error_size)
{
    struct strategy_jobs all = {.settings = settings,
                                .crew = crew,
                                .comparison = comparison,
                                .source = source,
                                .options = settings->replay,
                                .error = error,
                                .error_size = error_size};
    all.options.progress = progress_show;
    if (!start(&all, trace) || !look_at_record(&all)) {
        return false;
    }
    const size_t strategies = settings->strategy_count;
    comparison->result_count += strategies + 1;
    const bool played = run_jobs(&all, strategies + 1, play_strategy);
    if (played && !comparison->planned) {
        comparison->result_count--; /* too many blocks for a plan */
    }
    return played && (settings->csv || judge(&all)) &&
           (!comparison->refused.found || run_jobs(&all, strategies, find_enough)) &&
           (!settings->sweeps || sweep_limits(&all)) && measure_host(&all);
}

void comparison_drop(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->result_count; i++) {
        replay_result_free(&comparison->results[i]);
    }
    free(comparison->results);
    free(comparison->enough);
    sweep_free(&comparison->sweep);
    trace_free(comparison->trace);
    *comparison = (struct comparison){0};
}

bool comparison_has_hazards(const struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->result_count; i++) {
        if (comparison->results[i].hazards > 0) {
            return true;
        }
    }
    for (size_t i = 0; i < comparison->sweep.row_count * comparison->sweep.point_count; i++) {
        const struct sweep *sweep = &comparison->sweep;
        if (sweep->rows[i / sweep->point_count].points[i % sweep->point_count].hazards > 0) {
            return true;
        }
    }
    return false;
}
