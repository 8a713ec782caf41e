/* advise.c: `weir advise`: finds the settings that would have saved most memory, and prints the lines to paste. */
#include "command.h"

#include "advice.h"
#include "bundled.h"
#include "json.h"
#include "output_host.h"
#include "part_options.h"
#include "progress.h"
#include "replay/jobs.h"
#include "replay_settings.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const struct subcommand subcommand = {
    .name = "advise",
    .head =
        "weir advise TRACE: which settings would have saved most memory?\n"
        "\n"
        "Replays the trace with settings of PyTorch's allocator (or torch_npu's), beginning with those that the\n"
        "recording tells, and with pools of weir. Prints the best in one sentence, then a row for each cure: the peak\n"
        "of reserved memory, the least device that serves the recording, the memory that this leaves of the device\n"
        "for the rest of the process, and the device calls; then the lines to paste, and why not the others.\n"
        "Every figure is that of a replay. Several devices of a trace get advice each. For a recording of a malloc, weir's\n"
        "heap, glibc, jemalloc, mimalloc and tcmalloc are measured.\n"
        "\n",
    .tail = "\n"
            "  weir advise snapshot.pickle\n"
            "  weir advise snapshot.pickle --capacity 64GiB\n"
            "  weir advise run.wtr.xz --json | jq -r .advice\n"
            "\n"
            "Exit status: 0 if there is an answer, 2 for bad usage or input, or if the output could not be written.\n",
};

struct advising {
    struct replay_options options;
    struct part_options part;
    bool json;
    json_t *all;
    struct progress progress;
};

static int parse_capacity(void *ctx, const char *value)
{
    return settings_parse_memory("advise", "--capacity", value, &((struct advising *)ctx)->options.capacity);
}

static int parse_jobs(void *ctx, const char *value)
{
    return settings_parse_jobs("advise", value, &((struct advising *)ctx)->options.jobs);
}

static int read_rows(struct advising *advising, int argc, char **argv)
{
    const struct option_row rows[] = {
        {.name = "capacity",
         .letter = 'c',
         .value = "SIZE",
         .parse = parse_capacity,
         .text = "device memory, for example 64GiB (default: the capacity that a recorded\n"
                 "out-of-memory implies, else the capacity in the trace, else unlimited)"},
        PART_OPTION_ROWS(&advising->part, "advise for device N only (default: every device that the trace uses)"),
        {.name = "jobs",
         .letter = 'j',
         .value = "N",
         .parse = parse_jobs,
         .text = "replay N settings at a time (default: one for each processor); the output is the same"},
        {.name = "json", .flag = &advising->json, .text = "print JSON: one object, or an array for several devices"},
        OPTION_HELP,
        {.name = NULL},
    };
    return read_options(&subcommand, rows, advising, argc, argv);
}

static void add_answer(struct advising *advising, json_t *answer)
{
    if (!advising->json && json_array_size(advising->all) > 0) {
        (void)fputc('\n', stdout);
    }
    (void)json_array_append_new(advising->all, answer);
}

/* Measures the allocators of host memory, for a recording of a malloc. */
static bool advise_host(struct advising *advising, const struct trace *trace, char *error, size_t error_size)
{
    struct host_replay replay;
    char why[512];
    if (!host_replay_run(trace, 1, HOST_REPLAY_SELF, &replay, why, sizeof(why))) {
        (void)snprintf(error, error_size, "%s: %s", trace->path, why);
        return false;
    }
    if (advising->json) {
        add_answer(advising, output_host_advice_json(trace, &replay));
    } else {
        add_answer(advising, json_null()); /* counts the devices */
        output_host_advice(stdout, trace, &replay);
    }
    return true;
}

static bool advise_settings(struct advising *advising, const struct trace *trace, char *error, size_t error_size)
{
    struct progress_counter counter = {.progress = &advising->progress, .trace = trace->path};
    struct replay_options options = advising->options;
    struct advice *advice = calloc(1, sizeof(*advice));
    if (advice == NULL) {
        (void)snprintf(error, error_size, "no host memory");
        return false;
    }
    options.progress = progress_count;
    options.progress_ctx = &counter;
    const bool done = advice_make(trace, &options, advice, error, error_size);
    progress_clear(&advising->progress, 0);
    if (done && advising->json) {
        add_answer(advising, output_advice_json(advice));
    } else if (done) {
        add_answer(advising, json_null());
        output_advice(stdout, advice);
    }
    free(advice);
    return done;
}

/* Owns the trace. */
static bool advise_device(void *ctx, struct trace *trace, char *error, size_t error_size)
{
    struct advising *advising = ctx;
    const bool done = trace_is_of_malloc(trace) ? advise_host(advising, trace, error, error_size)
                                                : advise_settings(advising, trace, error, error_size);
    trace_free(trace);
    return done;
}

static int advise(struct advising *advising, const char *name)
{
    char error[bundled_error_size];
    struct trace *trace = NULL;
    int status = open_trace("advise", name, &trace);
    if (status != EXIT_DONE) {
        return status;
    }
    if (trace_only_counts(trace)) {
        status = complain("advise", false, "%s: has totals over time and no blocks, so there is nothing to replay",
                          trace->path);
    } else if (!part_choose(&advising->part, &trace, error, sizeof(error))) {
        status = complain("advise", false, "%s", error);
    } else {
        const bool done = part_each_device(trace, advise_device, advising, error, sizeof(error));
        trace = NULL;
        status = done ? EXIT_DONE : complain("advise", false, "%s", error);
    }
    if (status == EXIT_DONE && advising->json) {
        const bool one = json_array_size(advising->all) == 1;
        status = json_print("advise", one ? json_array_get(advising->all, 0) : advising->all,
                            JSON_INDENT(2) | JSON_REAL_PRECISION(8));
    }
    trace_free(trace);
    return status;
}

int command_advise(int argc, char **argv)
{
    struct advising advising = {.part = PART_OPTIONS_INIT("advise")};
    struct price_source prices = {0};
    int status = read_rows(&advising, argc, argv);
    if (status == EXIT_DONE && argc - optind != 1) {
        status = complain("advise", true, "exactly one trace is needed");
    }
    if (status == EXIT_DONE) {
        status = settings_read_prices("advise", &advising.options.costs, &prices);
    }
    if (status != EXIT_DONE) {
        return status < 0 ? EXIT_DONE : status;
    }
    progress_start(&advising.progress, 1, false);
    advising.all = json_array();
    advising.options.crew = crew_create(advising.options.jobs);
    status = advising.all != NULL && advising.options.crew != NULL ? advise(&advising, argv[optind])
                                                                   : complain("advise", false, "no host memory");
    crew_destroy(advising.options.crew);
    json_decref(advising.all);
    return status;
}
