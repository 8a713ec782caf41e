/* sweep.c: see sweep.h.
 *
 * Idea: a job is one strategy under one limit. Two threads take jobs by one counter, and each job writes to its
 * own points, so the result does not depend on the thread that ran a job. The trace is constant and shared.
 */
#include "replay/sweep.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { largest_limit_shift = 44 };

/* --- limits --- */

static uint64_t sum_of(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct tally {
    uint64_t live;
    uint64_t peak;
    uint64_t *size; /* [block_count + 1]: the last one is for the request that the recorded program did not get */
};

static void add_block(struct tally *tally, uint32_t index, uint64_t size)
{
    tally->size[index] = size == 0 ? 1 : size; /* the replay requests 1 byte instead of 0 */
    tally->live = sum_of(tally->live, tally->size[index]);
    tally->peak = tally->live > tally->peak ? tally->live : tally->peak;
}

static void drop_block(struct tally *tally, uint32_t index)
{
    tally->live -= tally->size[index];
    tally->size[index] = 0;
}

static void add_up(struct tally *tally, const struct trace *trace)
{
    const struct recorded_oom refused = recorded_oom_find(trace);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->event.kind == WEIR_TRACE_PRIOR) {
            add_block(tally, event->index, event->event.size);
        }
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        switch (event->event.kind) {
        case WEIR_TRACE_ALLOC:
            add_block(tally, event->index, event->event.size);
            break;
        case WEIR_TRACE_REALLOC: /* the new block is allocated before the old one is freed */
            add_block(tally, event->index, event->event.size);
            drop_block(tally, event->old_index);
            break;
        case WEIR_TRACE_FREE:
            drop_block(tally, event->index);
            break;
        case WEIR_TRACE_OOM:
            if (refused.found && i == refused.index) {
                add_block(tally, trace->block_count, refused.size);
                drop_block(tally, trace->block_count);
            }
            break;
        default:
            break;
        }
    }
}

bool sweep_peak(const struct trace *trace, uint64_t *peak)
{
    struct tally tally = {.size = calloc((size_t)trace->block_count + 1, sizeof(uint64_t))};
    const bool enough = tally.size != NULL;
    if (enough) {
        add_up(&tally, trace);
        *peak = tally.peak;
    }
    free(tally.size);
    return enough;
}

/* Reads the granularity in which the simulated device gives memory. */
static bool read_granularity(uint64_t *granularity)
{
    weir_sim_config config = WEIR_SIM_CONFIG_INIT;
    weir_sim *sim = NULL;
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    const bool known =
        weir_sim_create(&config, &sim) == WEIR_OK && weir_device_get_info(weir_sim_device(sim), &info) == WEIR_OK;
    (void)!weir_sim_destroy(sim); /* cannot fail: the simulator has no pool */
    *granularity = info.region_granularity_bytes;
    return known;
}

/* Returns the limit for a factor. A limit of 0 would mean no limit, so a trace without blocks gets one piece. The limit
 * is capped at the largest capacity: a trace that needs more cannot be served anyway. */
static uint64_t limit_for(uint64_t peak, uint32_t factor, uint64_t granularity)
{
    const uint64_t most = UINT64_C(1) << largest_limit_shift;
    peak = peak < most ? peak : most;
    const uint64_t exact = (peak * factor + sweep_unit - 1) / sweep_unit;
    const uint64_t limit = (exact + granularity - 1) / granularity * granularity;
    return limit == 0 ? granularity : limit < most ? limit : most;
}

/* --- jobs --- */

struct job {
    size_t row;
    size_t first; /* points first .. last have the same limit */
    size_t last;
    uint64_t limit;
};

/* The lock guards the members below it. */
struct jobs {
    const struct trace *trace;
    const struct replay_options *options;
    struct sweep *sweep;
    struct job *list;
    size_t count;
    struct sweep_point blank[sweep_most_points]; /* points before any replay */
    pthread_mutex_t lock;
    size_t next;
    size_t done;
    size_t failed; /* lowest number of a failed job; `count`: no job has failed */
    char *error;
    size_t error_size;
};

static void keep_result(struct sweep *sweep, const struct job *job, const struct replay_result *result,
                        uint64_t events_in_all)
{
    for (size_t i = job->first; i <= job->last; i++) {
        struct sweep_point *point = &sweep->rows[job->row].points[i];
        point->served = !result->oom.happened;
        point->event = result->oom.event;
        point->size = result->oom.size;
        point->hazards = result->hazards;
        point->played = events_in_all == 0 ? 1.0 : (double)result->events_played / (double)events_in_all;
    }
}

static bool play(struct jobs *jobs, const struct job *job, char *error, size_t error_size)
{
    const struct sweep_row *row = &jobs->sweep->rows[job->row];
    const uint64_t rounds = jobs->options->repeat > 1 ? jobs->options->repeat : 1;
    struct replay_options options = *jobs->options;
    struct replay_result result;
    options.limit = job->limit;
    options.history = false;
    options.no_timing = true;
    options.progress = NULL;
    const bool done = replay_run(jobs->trace, row->strategy, row->pad_bytes, &options, &result, error, error_size);
    if (done) {
        keep_result(jobs->sweep, job, &result, rounds * jobs->trace->event_count);
    }
    replay_result_free(&result);
    return done;
}

/* Ends a job. Keeps the error of the failed job with the lowest number, so that it does not depend on timing. Lock
 * held. */
static void finish_job(struct jobs *jobs, size_t number, bool done, const char *error)
{
    jobs->done++;
    if (!done && number < jobs->failed) {
        jobs->failed = number;
        (void)snprintf(jobs->error, jobs->error_size, "%s", error);
    }
    if (jobs->options->progress != NULL) {
        jobs->options->progress(jobs->options->progress_ctx, (double)jobs->done / (double)jobs->count);
    }
}

static void *work(void *ctx)
{
    struct jobs *jobs = ctx;
    char error[512] = "";
    (void)pthread_mutex_lock(&jobs->lock);
    while (jobs->next < jobs->count && jobs->failed == jobs->count) {
        const size_t number = jobs->next++;
        (void)pthread_mutex_unlock(&jobs->lock);
        const bool done = play(jobs, &jobs->list[number], error, sizeof(error));
        (void)pthread_mutex_lock(&jobs->lock);
        finish_job(jobs, number, done, error);
    }
    (void)pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* Runs all jobs, with a second thread if one can be created. */
static bool play_all(struct jobs *jobs)
{
    pthread_t helper;
    jobs->failed = jobs->count;
    (void)pthread_mutex_init(&jobs->lock, NULL);
    const bool helped = pthread_create(&helper, NULL, work, jobs) == 0;
    (void)work(jobs);
    if (helped) {
        (void)pthread_join(helper, NULL);
    }
    (void)pthread_mutex_destroy(&jobs->lock);
    return jobs->failed == jobs->count;
}

static void list_jobs(struct jobs *jobs)
{
    struct sweep *sweep = jobs->sweep;
    for (size_t row = 0; row < sweep->row_count; row++) {
        for (size_t i = 0; i < sweep->point_count; i++) {
            const uint64_t limit = jobs->blank[i].limit;
            if (i > 0 && limit == jobs->blank[i - 1].limit) {
                jobs->list[jobs->count - 1].last = i;
                continue;
            }
            jobs->list[jobs->count++] = (struct job){row, i, i, limit};
        }
    }
    sweep->limit_count = sweep->row_count == 0 ? 0 : jobs->count / sweep->row_count;
}

/* --- the sweep --- */

static void set_limits(struct jobs *jobs)
{
    struct sweep *sweep = jobs->sweep;
    for (size_t i = 0; i < sweep->point_count; i++) {
        const uint32_t factor = sweep->range.from + (uint32_t)i * sweep->range.step;
        const uint64_t limit = limit_for(sweep->peak_bytes, factor, sweep->granularity);
        jobs->blank[i] = (struct sweep_point){.factor = factor, .limit = limit};
    }
}

static bool add_row(struct jobs *jobs, const struct replay_strategy *strategy, uint64_t pad_bytes)
{
    struct sweep *sweep = jobs->sweep;
    struct sweep_point *points = calloc(sweep->point_count, sizeof(*points));
    if (points != NULL) {
        memcpy(points, jobs->blank, sweep->point_count * sizeof(*points));
        sweep->rows[sweep->row_count++] =
            (struct sweep_row){.strategy = strategy, .pad_bytes = pad_bytes, .points = points};
    }
    return points != NULL;
}

static bool prepare(struct jobs *jobs, const struct replay_strategy *const *strategies, const uint64_t *pads,
                    size_t count)
{
    struct sweep *sweep = jobs->sweep;
    jobs->list = calloc(sweep->point_count * count + 1, sizeof(*jobs->list));
    sweep->rows = calloc(count + 1, sizeof(*sweep->rows));
    bool enough = jobs->list != NULL && sweep->rows != NULL && read_granularity(&sweep->granularity) &&
                  sweep_peak(jobs->trace, &sweep->peak_bytes);
    if (enough) {
        set_limits(jobs);
    }
    for (size_t i = 0; i < count && enough; i++) {
        enough = add_row(jobs, strategies[i], pads[i]);
    }
    if (enough) {
        list_jobs(jobs);
    }
    return enough;
}

static void judge_row(struct sweep_row *row, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        const struct sweep_point *point = &row->points[i];
        const bool above = i + 1 == count || row->always == point + 1;
        row->first = point->served ? point : row->first;
        row->always = point->served && above ? point : row->always;
    }
}

bool sweep_run(const struct trace *trace, const struct replay_strategy *const *strategies, const uint64_t *pads,
               size_t count, const struct sweep_range *range, const struct replay_options *options, struct sweep *sweep,
               char *error, size_t error_size)
{
    *sweep = (struct sweep){.range = *range, .point_count = (range->to - range->from) / range->step + 1};
    struct jobs jobs = {.trace = trace, .options = options, .sweep = sweep, .error = error, .error_size = error_size};
    bool done = prepare(&jobs, strategies, pads, count);
    if (done) {
        done = play_all(&jobs);
    } else {
        (void)snprintf(error, error_size, "no host memory");
    }
    for (size_t i = 0; i < sweep->row_count && done; i++) {
        judge_row(&sweep->rows[i], sweep->point_count);
    }
    free(jobs.list);
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

/* Replays with the capacity. Returns false if the replay fails. */
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

/* Narrows (*refused, *served] down. */
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
    uint64_t granularity = 0;
    uint64_t peak = 0;
    trial.options.limit = 0;
    trial.options.history = false;
    trial.options.no_timing = true;
    trial.options.no_audit = true;
    trial.options.progress = NULL;
    *enough = 0;
    if (!read_granularity(&granularity) || !sweep_peak(trace, &peak)) {
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
