/* sweep.c: see sweep.h.
 *
 * Idea: a job (jobs.h) is one strategy under one limit, or one strategy if limits are chosen by bisection. Each job
 * writes to its own points, so the result does not depend on the thread that ran a job. The trace is constant and
 * shared.
 */
#include "replay/sweep.h"

#include "replay/jobs.h"
#include "replay/live_peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { largest_limit_shift = 44 };

/* --- limits --- */

/* Returns the limit for a factor of the peak of live bytes, rounded up to the granularity. 0 is rounded up too, because
 * it would mean no limit. The limit is capped at the largest capacity: a trace that needs more cannot be served. */
static uint64_t limit_for(uint64_t peak, uint32_t factor, uint64_t granularity)
{
    const uint64_t most = UINT64_C(1) << largest_limit_shift;
    peak = peak < most ? peak : most;
    const uint64_t exact = (peak * factor + sweep_unit - 1) / sweep_unit;
    const uint64_t limit = (exact + granularity - 1) / granularity * granularity;
    return limit == 0 ? granularity : limit < most ? limit : most;
}

/* --- jobs --- */

struct limit_job {
    size_t row;
    size_t first; /* points first .. last have the same limit */
    size_t last;
    uint64_t limit;
};

struct plan {
    const struct trace *trace;
    const struct replay_options *options;
    struct sweep *sweep;
    struct limit_job *list;
    size_t count;
    struct sweep_point blank[sweep_most_points]; /* points before any replay */
};

static void keep_result(struct sweep *sweep, const struct limit_job *job, const struct replay_result *result,
                        uint64_t events_in_all)
{
    for (size_t i = job->first; i <= job->last; i++) {
        struct sweep_point *point = &sweep->rows[job->row].points[i];
        point->replayed = true;
        point->served = !result->oom.happened;
        point->event = result->oom.event;
        point->size = result->oom.size;
        point->hazards = result->hazards;
        point->played = events_in_all == 0 ? 1.0 : (double)result->events_played / (double)events_in_all;
    }
}

/* Job of a sweep over all limits: replays one strategy under one limit. */
static bool play(void *ctx, size_t number, char *error, size_t error_size)
{
    struct plan *plan = ctx;
    const struct limit_job *job = &plan->list[number];
    const struct sweep_row *row = &plan->sweep->rows[job->row];
    const uint64_t rounds = plan->options->repeat > 1 ? plan->options->repeat : 1;
    struct replay_options options = *plan->options;
    struct replay_result result;
    options.limit = job->limit;
    options.history = false;
    options.no_timing = true;
    options.progress = NULL;
    const bool done = replay_run(plan->trace, row->strategy, row->pad_bytes, &options, &result, error, error_size);
    if (done) {
        keep_result(plan->sweep, job, &result, rounds * plan->trace->event_count);
    }
    replay_result_free(&result);
    return done;
}

static bool serves(const struct plan *plan, size_t number)
{
    const struct limit_job *job = &plan->list[number];
    return plan->sweep->rows[job->row].points[job->first].served;
}

/* Job of a sweep by bisection: replays one strategy under the limits that it needs. */
static bool play_row(void *ctx, size_t row, char *error, size_t error_size)
{
    struct plan *plan = ctx;
    const size_t limits = plan->sweep->limit_count;
    size_t low = row * limits;
    size_t high = low + limits - 1;
    if (!play(plan, high, error, error_size) || (low < high && !play(plan, low, error, error_size))) {
        return false;
    }
    while (high - low > 1 && serves(plan, high) && !serves(plan, low)) {
        const size_t middle = low + (high - low) / 2;
        if (!play(plan, middle, error, error_size)) {
            return false;
        }
        *(serves(plan, middle) ? &high : &low) = middle;
    }
    return true;
}

static void list_jobs(struct plan *plan)
{
    struct sweep *sweep = plan->sweep;
    for (size_t row = 0; row < sweep->row_count; row++) {
        for (size_t i = 0; i < sweep->point_count; i++) {
            const uint64_t limit = plan->blank[i].limit;
            if (i > 0 && limit == plan->blank[i - 1].limit) {
                plan->list[plan->count - 1].last = i;
                continue;
            }
            plan->list[plan->count++] = (struct limit_job){row, i, i, limit};
        }
    }
    sweep->limit_count = sweep->row_count == 0 ? 0 : plan->count / sweep->row_count;
}

/* --- the sweep --- */

static void set_limits(struct plan *plan)
{
    struct sweep *sweep = plan->sweep;
    for (size_t i = 0; i < sweep->point_count; i++) {
        const uint32_t factor = sweep->range.from + (uint32_t)i * sweep->range.step;
        const uint64_t limit = limit_for(sweep->peak_bytes, factor, sweep->granularity);
        plan->blank[i] = (struct sweep_point){.factor = factor, .limit = limit};
    }
}

static bool add_row(struct plan *plan, const struct replay_strategy *strategy, uint64_t pad_bytes)
{
    struct sweep *sweep = plan->sweep;
    struct sweep_point *points = calloc(sweep->point_count, sizeof(*points));
    if (points != NULL) {
        memcpy(points, plan->blank, sweep->point_count * sizeof(*points));
        sweep->rows[sweep->row_count++] =
            (struct sweep_row){.strategy = strategy, .pad_bytes = pad_bytes, .points = points};
    }
    return points != NULL;
}

static bool prepare(struct plan *plan, const struct replay_strategy *const *strategies, const uint64_t *pads,
                    size_t count)
{
    struct sweep *sweep = plan->sweep;
    plan->list = calloc(sweep->point_count * count + 1, sizeof(*plan->list));
    sweep->rows = calloc(count + 1, sizeof(*sweep->rows));
    bool enough =
        plan->list != NULL && sweep->rows != NULL && live_peak(plan->trace, LIVE_ON_DEVICE, &sweep->peak_bytes);
    sweep->granularity = replay_granularity(plan->trace);
    if (enough) {
        set_limits(plan);
    }
    for (size_t i = 0; i < count && enough; i++) {
        enough = add_row(plan, strategies[i], pads[i]);
    }
    if (enough) {
        list_jobs(plan);
    }
    return enough;
}

static void judge_row(struct sweep_row *row, size_t count, bool all)
{
    for (size_t i = count; i-- > 0;) {
        const struct sweep_point *point = &row->points[i];
        const bool above = i + 1 == count || row->always == point + 1;
        row->first = point->served ? point : row->first;
        row->always = all && point->served && above ? point : row->always;
    }
}

bool sweep_run(const struct trace *trace, const struct replay_strategy *const *strategies, const uint64_t *pads,
               size_t count, const struct sweep_range *range, const struct replay_options *options, struct sweep *sweep,
               char *error, size_t error_size)
{
    *sweep = (struct sweep){.range = *range, .point_count = (range->to - range->from) / range->step + 1};
    struct plan plan = {.trace = trace, .options = options, .sweep = sweep};
    bool done = prepare(&plan, strategies, pads, count);
    if (done) {
        const struct jobs jobs = {.count = range->all ? plan.count : count,
                                  .threads = options->jobs,
                                  .crew = options->crew,
                                  .play = range->all ? play : play_row,
                                  .ctx = &plan,
                                  .progress = options->progress,
                                  .progress_ctx = options->progress_ctx};
        done = jobs_run(&jobs, error, error_size);
    } else {
        (void)snprintf(error, error_size, "no host memory");
    }
    for (size_t i = 0; i < sweep->row_count && done; i++) {
        judge_row(&sweep->rows[i], sweep->point_count, range->all);
    }
    free(plan.list);
    if (!done) {
        sweep_free(sweep);
    }
    return done;
}

void sweep_free(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        free(sweep->rows[i].points);
    }
    free(sweep->rows);
    *sweep = (struct sweep){0};
}

/* --- a capacity that is enough --- */

struct trial {
    const struct trace *trace;
    const struct replay_strategy *strategy;
    uint64_t pad_bytes;
    struct replay_options options;
    uint64_t reserved; /* peak reserved bytes of the latest replay */
    bool served;
    char *error;
    size_t error_size;
};

static bool try_capacity(struct trial *trial, uint64_t capacity)
{
    struct replay_result result;
    trial->options.capacity = capacity;
    const bool done = replay_run(trial->trace, trial->strategy, trial->pad_bytes, &trial->options, &result,
                                 trial->error, trial->error_size);
    trial->served = done && !result.oom.happened;
    trial->reserved = result.peak_reserved_bytes;
    replay_result_free(&result);
    return done;
}

static uint64_t round_to(uint64_t bytes, uint64_t granularity)
{
    return (bytes + granularity - 1) / granularity * granularity;
}

/* Bisects between `refused`, a capacity that is too small, and *served, one that is enough. Lowers *served. */
static bool bisect(struct trial *trial, uint64_t granularity, uint64_t refused, uint64_t *served)
{
    while (*served - refused > granularity && *served - refused > *served / 256) {
        const uint64_t middle = round_to(refused + (*served - refused) / 2, granularity);
        if (middle == *served) {
            break;
        }
        if (!try_capacity(trial, middle)) {
            return false;
        }
        *(trial->served ? served : &refused) = middle;
    }
    return true;
}

bool sweep_enough(const struct trace *trace, const struct replay_strategy *strategy, uint64_t pad_bytes,
                  const struct replay_options *options, uint64_t *enough, char *error, size_t error_size)
{
    struct trial trial = {trace, strategy, pad_bytes, *options, 0, false, error, error_size};
    const uint64_t granularity = replay_granularity(trace);
    uint64_t peak = 0;
    trial.options.limit = 0;
    trial.options.history = false;
    trial.options.no_timing = true;
    trial.options.no_audit = true;
    trial.options.progress = NULL;
    *enough = 0;
    if (!live_peak(trace, LIVE_ON_DEVICE, &peak)) {
        (void)snprintf(error, error_size, "no host memory");
        return false;
    }
    if (!try_capacity(&trial, REPLAY_MOST_CAPACITY)) {
        return false;
    }
    if (!trial.served) {
        return true;
    }
    const uint64_t most = round_to(trial.reserved > 0 ? trial.reserved : granularity, granularity);
    if (!try_capacity(&trial, most)) {
        return false;
    }
    *enough = trial.served ? most : REPLAY_MOST_CAPACITY;
    const uint64_t least = peak < most ? peak / granularity * granularity : 0;
    const uint64_t refused = least > granularity ? least - granularity : 0;
    return bisect(&trial, granularity, refused, enough);
}
