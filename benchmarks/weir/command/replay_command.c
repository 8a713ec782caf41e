/* replay_command.c: `weir replay`: replays all traces, several at a time, and prints the results in their order.
 *
 * Idea: a job (replay/jobs.h) is one trace. Its thread reads the trace, replays it, makes its output and frees the
 * trace. Output that is not yet due waits as text or JSON, so no more traces are in memory than threads work; only the
 * report needs all of them. A trace that fails leaves a line on standard error, in the order of the traces, and every
 * other trace has its results.
 */
#include "command.h"

#include "bundled.h"
#include "compare.h"
#include "json.h"
#include "output.h"
#include "output_summary.h"
#include "progress.h"
#include "replay_settings.h"

#include "replay/jobs.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comparisons {
    struct comparison *list;
    size_t count;
};

/* The results of one trace. */
struct trace_job {
    bool ended;
    bool failed;
    bool hazards;
    char *error;                    /* message of a failed job; NULL when out of host memory */
    FILE *out;                      /* memory stream for all output but JSON; its buffer is `text` */
    char *text;                     /* tables to print, each after a newline */
    size_t size;                    /* length of `text` */
    json_t *json;                   /* array of objects */
    struct comparisons comparisons; /* with --report */
    struct summary summary;
};

struct all {
    const struct settings *settings;
    char **paths;
    size_t count;
    struct crew *crew; /* NULL: one trace at a time */
    struct trace_job *jobs;
    struct progress progress;
    pthread_mutex_t lock; /* guards the members below, and the jobs that have ended */
    size_t printed;       /* jobs that were printed */
    bool printed_text;
    json_t *json;
    struct comparisons comparisons;
    struct summary summary;
    bool failed;
    bool hazards;
};

/* --- one trace --- */

static bool add_comparison(struct comparisons *all, const struct comparison *comparison)
{
    struct comparison *larger = realloc(all->list, (all->count + 1) * sizeof(*larger));
    if (larger != NULL) {
        all->list = larger;
        all->list[all->count++] = *comparison;
    }
    return larger != NULL;
}

static void drop_comparisons(struct comparisons *all)
{
    for (size_t i = 0; i < all->count; i++) {
        comparison_drop(&all->list[i]);
    }
    free(all->list);
    *all = (struct comparisons){0};
}

static void render(const struct settings *settings, struct trace_job *job, const struct comparison *comparison)
{
    if (settings->json) {
        (void)json_array_append_new(job->json, output_json(comparison));
    } else if (settings->csv) {
        output_csv(job->out, comparison);
    } else {
        (void)fputc('\n', job->out);
        output_table(job->out, comparison, settings->colour);
        summary_add(&job->summary, comparison);
    }
}

/* Replays a trace of one device and makes its output. The job owns the trace. */
static bool run_device(struct all *all, size_t number, struct trace *trace, char *error, size_t error_size)
{
    struct trace_job *job = &all->jobs[number];
    const struct progress_source source = {.progress = &all->progress, .number = number, .trace = trace->path};
    struct comparison comparison;
    bool done = compare(all->settings, all->crew, &source, trace, &comparison, error, error_size);
    if (done) {
        job->hazards |= comparison_has_hazards(&comparison);
        render(all->settings, job, &comparison);
    }
    if (done && all->settings->report != NULL) {
        done = add_comparison(&job->comparisons, &comparison);
        if (done) {
            return true;
        }
        (void)snprintf(error, error_size, "no host memory");
    }
    comparison_drop(&comparison);
    return done;
}

struct job_of_trace {
    struct all *all;
    size_t number;
};

static bool run_one(void *ctx, struct trace *trace, char *error, size_t error_size)
{
    const struct job_of_trace *job = ctx;
    return run_device(job->all, job->number, trace, error, error_size);
}

static bool run_trace(struct all *all, size_t number, char *error, size_t error_size)
{
    struct trace *trace = NULL;
    bool done = load_trace(all->paths[number], &trace, error, error_size);
    if (done && trace_only_counts(trace)) {
        (void)snprintf(error, error_size, "%s: has totals over time and no blocks, so there is nothing to replay%s",
                       trace->path, trace->note_count > 0 ? " ('weir info' shows its notes)" : "");
        done = false;
    }
    done = done && part_choose(&all->settings->part, &trace, error, error_size);
    if (done) {
        struct job_of_trace job = {all, number};
        return part_each_device(trace, run_one, &job, error, error_size);
    }
    trace_free(trace);
    return false;
}

static bool open_job(const struct all *all, struct trace_job *job)
{
    if (all->settings->json) {
        job->json = json_array();
        return job->json != NULL;
    }
    job->out = open_memstream(&job->text, &job->size);
    return job->out != NULL;
}

/* --- the results, in the order of the traces --- */

static void print_text(struct all *all, const struct trace_job *job)
{
    const size_t skipped = all->printed_text || all->settings->csv ? 0 : 1; /* no blank line at first */
    (void)fwrite(job->text + skipped, 1, job->size - skipped, stdout);
    (void)fflush(stdout);
    all->printed_text = true;
}

/* Moves the comparisons of one job into all->comparisons. Returns false when out of host memory. */
static bool keep_comparisons(struct all *all, struct trace_job *job)
{
    bool done = true;
    for (size_t i = 0; i < job->comparisons.count && done; i++) {
        done = add_comparison(&all->comparisons, &job->comparisons.list[i]);
        job->comparisons.list[i] = (struct comparison){0};
    }
    drop_comparisons(&job->comparisons);
    return done;
}

static void print_job(struct all *all, struct trace_job *job)
{
    progress_clear(&all->progress, all->printed + 1);
    if (job->json != NULL) {
        (void)json_array_extend(all->json, job->json);
    } else if (job->size > 0) {
        print_text(all, job);
    }
    if (job->failed) {
        (void)complain("replay", false, "%s", job->error != NULL ? job->error : "no host memory");
    } else if (!keep_comparisons(all, job)) {
        job->failed = true;
        (void)complain("replay", false, "no host memory");
    }
    summary_merge(&all->summary, &job->summary);
    all->failed |= job->failed;
    all->hazards |= job->hazards;
}

static void free_job(struct trace_job *job)
{
    drop_comparisons(&job->comparisons);
    json_decref(job->json);
    free(job->text);
    free(job->error);
}

/* Prints the results of the jobs that have ended, up to the first that has not. */
static void end_job(struct all *all, struct trace_job *ended)
{
    (void)pthread_mutex_lock(&all->lock);
    ended->ended = true;
    for (; all->printed < all->count && all->jobs[all->printed].ended; all->printed++) {
        print_job(all, &all->jobs[all->printed]);
        free_job(&all->jobs[all->printed]);
    }
    (void)pthread_mutex_unlock(&all->lock);
}

/* A job of jobs_run. It never fails: after a failure of one trace the next traces are still replayed. */
static bool play_trace(void *ctx, size_t number, char *error, size_t error_size)
{
    struct all *all = ctx;
    struct trace_job *job = &all->jobs[number];
    char why[bundled_error_size] = "no host memory";
    (void)error;
    (void)error_size;
    job->failed = !open_job(all, job) || !run_trace(all, number, why, sizeof(why));
    if (job->out != NULL && fclose(job->out) != 0) {
        (void)snprintf(why, sizeof(why), "no host memory");
        job->failed = true;
    }
    job->error = job->failed ? strdup(why) : NULL;
    end_job(all, job);
    return true;
}

/* Replays all traces. With --host the traces follow each other, so that host allocators are measured alone on the
 * machine. */
static bool run_traces(struct all *all)
{
    const struct settings *settings = all->settings;
    char error[64] = "";
    all->jobs = calloc(all->count, sizeof(*all->jobs));
    if (settings->host_rounds == 0) {
        all->crew = crew_create(settings->replay.jobs);
    }
    if (all->jobs == NULL || (all->crew == NULL && settings->host_rounds == 0)) {
        return false;
    }
    const struct jobs jobs = {.count = all->count, .threads = 1, .crew = all->crew, .play = play_trace, .ctx = all};
    return jobs_run(&jobs, error, sizeof(error));
}

/* --- the command --- */

/* Prints an object, or an array if several traces were named or the trace has several devices. Prints nothing if every
 * trace failed. */
static int print_json(const struct all *all)
{
    const size_t size = json_array_size(all->json);
    if (size == 0 && all->failed) {
        return EXIT_DONE;
    }
    return json_print("replay", size == 1 && all->count == 1 ? json_array_get(all->json, 0) : all->json,
                      JSON_INDENT(2) | JSON_REAL_PRECISION(8));
}

/* Returns the command line as one string, for the report. NULL when out of host memory. */
static char *command_line(int argc, char **argv)
{
    size_t length = sizeof("weir");
    for (int i = 0; i < argc; i++) {
        length += strlen(argv[i]) + 1;
    }
    char *line = malloc(length);
    if (line != NULL) {
        char *out = stpcpy(line, "weir");
        for (int i = 0; i < argc; i++) {
            *out++ = ' ';
            out = stpcpy(out, argv[i]);
        }
    }
    return line;
}

/* Writes the report page, unless every trace failed. */
static int write_report(const struct all *all, struct out_file *file, const char *command)
{
    const struct settings *settings = all->settings;
    char error[256];
    struct report_context context = {command != NULL ? command : "weir replay", settings->replay.capacity,
                                     settings->replay.seed};
    if (all->comparisons.count == 0 && all->failed) {
        return EXIT_DONE;
    }
    if (!output_report(file, &context, all->comparisons.list, all->comparisons.count, error, sizeof(error))) {
        return complain("replay", false, "%s: %s", settings->report, error);
    }
    if (!settings->json && !settings->csv) {
        (void)printf("report: %s\n", settings->report);
    }
    return EXIT_DONE;
}

/* Replays all traces and prints the results. */
static int run_all(const struct settings *settings, char **paths, size_t count, const char *command,
                   struct out_file *report)
{
    struct all all = {
        .settings = settings, .paths = paths, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER, .json = json_array()};
    int status = find_traces("replay", paths, count);
    progress_start(&all.progress, count, settings->quiet);
    if (status == EXIT_DONE && settings->csv) {
        output_csv_head(stdout);
    }
    if (status == EXIT_DONE && (all.json == NULL || !run_traces(&all))) {
        status = complain("replay", false, "no host memory");
    }
    if (status == EXIT_DONE) {
        summary_print(stdout, &all.summary);
    }
    if (status == EXIT_DONE && settings->report != NULL) {
        status = write_report(&all, report, command);
    }
    if (status == EXIT_DONE && settings->json) {
        status = print_json(&all);
    }
    crew_destroy(all.crew);
    drop_comparisons(&all.comparisons);
    free(all.jobs);
    json_decref(all.json);
    return status != EXIT_DONE || all.failed ? EXIT_USAGE : all.hazards ? EXIT_HAZARDS : EXIT_DONE;
}

/* Runs the command. Opens the report and looks for the traces before the first replay, because a replay may take
 * minutes. */
static int run(const struct settings *settings, char **paths, size_t count, const char *command)
{
    struct out_file report = {.fd = -1};
    if (settings->report == NULL) {
        return run_all(settings, paths, count, command, NULL);
    }
    out_file_drop_at_signals();
    if (!out_file_open(&report, settings->report)) {
        return complain("replay", false, "%s: cannot be written: %s", settings->report, strerror(errno));
    }
    const int status = run_all(settings, paths, count, command, &report);
    out_file_drop(&report); /* removes an unfinished report */
    return status;
}

int command_replay(int argc, char **argv)
{
    struct settings settings;
    char *command = command_line(argc, argv);
    int status = settings_read(&settings, argc, argv);
    if (status == EXIT_DONE) {
        status = run(&settings, argv + optind, (size_t)(argc - optind), command);
    }
    settings_free(&settings);
    free(command);
    return status < 0 ? EXIT_DONE : status;
}
