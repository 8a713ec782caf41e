/* replay_command.c: `weir replay`: reads the options, replays each trace against each strategy, and prints the
 * results. */
#include "command.h"

#include "bundled.h"
#include "json.h"
#include "options.h"
#include "output.h"
#include "output_summary.h"
#include "suggest.h"
#include "units.h"

#include "replay/jobs.h"
#include "replay/mallocs.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_strategies(void)
{
    (void)fputs("Strategies:\n", stdout);
    for (const struct replay_strategy *s = replay_strategies(); s->name != NULL; s++) {
        (void)printf("  %-13s %s\n", s->name, s->text);
    }
    (void)fputc('\n', stdout);
}

static const char help_head[] =
    "weir replay TRACE...: how would other strategies have served this run?\n"
    "\n"
    "Replays every allocation, free, cross-stream use, event and wait of a trace against each strategy on a simulated\n"
    "device, which is empty at the start of each replay. Prints one table per trace, or per device of a trace: peak\n"
    "reserved memory and its ratio to peak live, the largest free range at that peak, the event at which memory ran\n"
    "out, device calls and their simulated time, waits, hazards that the auditor found, and nanoseconds per call.\n"
    "If the trace has the segments of the recorded allocator, the first row, recorded, has the figures of that one.\n"
    "\n";

static const char help_tail[] =
    "\n"
    "  weir replay snapshot.pickle\n"
    "  weir replay ort_unet_dyn_res      an installed recording (weir info --list)\n"
    "  weir replay run.wtr.xz --strategy caching,pytorch --capacity 16GiB --report out.html\n"
    "  weir replay run.wtr.xz --strategy caching,size_class,routing --sweep\n"
    "  weir replay run.wtr.xz --json | jq '.results[] | {strategy, peak_reserved_bytes}'\n"
    "\n"
    "A sweep limits the pool to F times the peak live bytes, rounded up to a multiple of 2 MiB. The device gives\n"
    "memory in pieces of 2 MiB, so several factors may give the same limit. Bisection finds a factor that serves the\n"
    "whole trace right above one that does not. A strategy that serves a trace under one limit may fail under a\n"
    "higher one: --sweep-all replays every limit and reports such a case below the table. In the bar, # is a factor at\n"
    "which every request was served, a digit tells how many tenths of the events were played before memory ran out,\n"
    "and . is a factor that was not replayed.\n"
    "\n"
    "Prices of device calls are assumed, or those of the file that the environment variable WEIR_SIM_PRICES names; the\n"
    "heading of each table says which.\n"
    "\n"
    "Exit status: 0 if every replay finished (running out of memory is a result), 1 if hazards were found, 2 for bad\n"
    "usage or input, or if the output could not be written.\n";

static const struct subcommand subcommand = {
    .name = "replay", .head = help_head, .middle = print_strategies, .tail = help_tail};

enum { most_strategies = 16 };

struct settings {
    const struct replay_strategy *strategies[most_strategies];
    size_t strategy_count;
    struct replay_options replay;
    struct price_source prices;
    int pad;         /* -1: the padding that the recording shows */
    uint64_t device; /* TRACE_NO_INDEX: all */
    bool sweeps;
    struct sweep_range sweep;
    uint32_t host_rounds; /* 0: no host allocators */
    const char *report;
    bool json;
    bool csv;
    bool colour;
    bool quiet;
};

/* --- options --- */

static int say_no_strategy(const char *list, const char *name, size_t length)
{
    struct suggestion search = {.word = name, .length = length};
    for (const struct replay_strategy *s = replay_strategies(); s->name != NULL; s++) {
        suggest(&search, s->name);
    }
    return complain("replay", true, "--strategy %s: there is no strategy '%.*s'%s%s%s", list, (int)length, name,
                    search.meant != NULL ? "; did you mean " : "", search.meant != NULL ? search.meant : "",
                    search.meant != NULL ? "?" : "");
}

static int parse_strategies(void *ctx, const char *list)
{
    struct settings *settings = ctx;
    settings->strategy_count = 0;
    for (const char *name = list;;) {
        size_t length = strcspn(name, ",");
        const struct replay_strategy *found = replay_strategy_find(name, length);
        if (found == NULL) {
            return say_no_strategy(list, name, length);
        }
        if (settings->strategy_count == most_strategies) {
            return complain("replay", true, "--strategy %s: more than %d strategies", list, most_strategies);
        }
        settings->strategies[settings->strategy_count++] = found;
        if (name[length] == '\0') {
            return EXIT_DONE;
        }
        name += length + 1;
    }
}

static int parse_growth(void *ctx, const char *text)
{
    struct settings *settings = ctx;
    static const char *const names[] = {"balanced", "grow-first", "wait-first"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            settings->replay.growth = (weir_growth)i;
            return EXIT_DONE;
        }
    }
    return complain("replay", true, "--growth %s: it is balanced, grow-first or wait-first", text);
}

static int parse_memory(const char *option, const char *text, uint64_t *bytes)
{
    if (!parse_size(text, bytes)) {
        return complain("replay", true, "%s %s: not a size such as 64GiB", option, text);
    }
    if (*bytes < UINT64_C(2) << 20) {
        return complain("replay", true, "%s %s: less than one region of 2 MiB", option, text);
    }
    if (*bytes > UINT64_C(1) << 44) {
        return complain("replay", true, "%s %s: more than 16 TiB", option, text);
    }
    return EXIT_DONE;
}

static int parse_count(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    if (!parse_number(text, number) || *number < least || *number > most) {
        return complain("replay", true, "%s %s: not a number from %llu to %llu", option, text,
                        (unsigned long long)least, (unsigned long long)most);
    }
    return EXIT_DONE;
}

/* Parses a factor from 0.001 to 100 with at most three decimal places; *text moves behind it. */
static bool parse_factor(const char **text, uint32_t *thousandths)
{
    const char *at = *text;
    uint32_t value = 0;
    uint32_t unit = sweep_unit;
    for (; *at >= '0' && *at <= '9' && value <= 100 * sweep_unit; at++) {
        value = value * 10 + (uint32_t)(*at - '0') * sweep_unit;
    }
    bool number = at != *text;
    if (*at == '.') {
        at++;
        number = number && *at >= '0' && *at <= '9';
        for (; *at >= '0' && *at <= '9' && unit > 1; at++) {
            unit /= 10;
            value += (uint32_t)(*at - '0') * unit;
        }
    }
    *thousandths = value;
    *text = at;
    return number && value > 0 && value <= 100 * sweep_unit;
}

/* Parses FROM:TO or FROM:TO:STEP; NULL selects the defaults. */
static int parse_sweep(void *ctx, const char *text)
{
    struct settings *settings = ctx;
    struct sweep_range *range = &settings->sweep;
    const char *at = text;
    *range = (struct sweep_range){.from = 1000, .to = 1300, .step = 10, .all = range->all};
    settings->sweeps = true;
    if (text == NULL) {
        return EXIT_DONE;
    }
    bool read = parse_factor(&at, &range->from) && *at++ == ':' && parse_factor(&at, &range->to);
    if (read && *at == ':') {
        at++;
        read = parse_factor(&at, &range->step);
    }
    if (!read || *at != '\0') {
        return complain("replay", true, "--sweep=%s: not FROM:TO:STEP, factors of peak live such as 1.00:1.30:0.01",
                        text);
    }
    if (range->to < range->from) {
        return complain("replay", true, "--sweep=%s: ends below where it begins", text);
    }
    if ((range->to - range->from) / range->step >= sweep_most_points) {
        return complain("replay", true, "--sweep=%s: more than %d factors", text, sweep_most_points);
    }
    return EXIT_DONE;
}

static int parse_capacity(void *ctx, const char *value)
{
    return parse_memory("--capacity", value, &((struct settings *)ctx)->replay.capacity);
}

static int parse_limit(void *ctx, const char *value)
{
    return parse_memory("--limit", value, &((struct settings *)ctx)->replay.limit);
}

static int parse_seed(void *ctx, const char *value)
{
    return parse_count("--seed", value, 0, UINT64_MAX, &((struct settings *)ctx)->replay.seed);
}

static int parse_repeat(void *ctx, const char *value)
{
    uint64_t number = 0;
    const int status = parse_count("--repeat", value, 1, 1000000, &number);
    ((struct settings *)ctx)->replay.repeat = (uint32_t)number;
    return status;
}

static int parse_jobs(void *ctx, const char *value)
{
    uint64_t number = 0;
    const int status = parse_count("--jobs", value, 1, jobs_most_threads, &number);
    ((struct settings *)ctx)->replay.jobs = (uint32_t)number;
    return status;
}

static int parse_pad(void *ctx, const char *value)
{
    uint64_t number = 0;
    const int status = parse_count("--pad", value, 0, 511, &number);
    ((struct settings *)ctx)->pad = (int)number;
    return status;
}

/* The default: a terminal that shows colours, and no wish against them (https://no-color.org). */
static bool wants_colour(void)
{
    const char *terminal = getenv("TERM");
    const char *none = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && (none == NULL || none[0] == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

static int parse_colour(void *ctx, const char *value)
{
    struct settings *settings = ctx;
    const bool always = value == NULL || strcmp(value, "always") == 0;
    if (!always && strcmp(value, "never") != 0 && strcmp(value, "auto") != 0) {
        return complain("replay", true, "--color %s: it is auto, always or never", value);
    }
    settings->colour = always || (strcmp(value, "auto") == 0 && wants_colour());
    return EXIT_DONE;
}

static int parse_host(void *ctx, const char *value)
{
    uint64_t number = 5;
    const int status = value == NULL ? EXIT_DONE : parse_count("--host", value, 1, host_most_rounds, &number);
    ((struct settings *)ctx)->host_rounds = (uint32_t)number;
    return status;
}

static int parse_device(void *ctx, const char *value)
{
    return parse_count("--device", value, 0, TRACE_MAX_DEVICES - 1, &((struct settings *)ctx)->device);
}

/* Returns EXIT_DONE, EXIT_USAGE, or -1 after --help. */
static int read_settings(struct settings *settings, int argc, char **argv)
{
    struct replay_options *replay = &settings->replay;
    const struct option_row rows[] = {
        {.name = "strategy",
         .letter = 's',
         .value = "LIST",
         .parse = parse_strategies,
         .text = "strategies to compare, separated by commas (default: caching,pytorch,direct)"},
        {.name = "capacity",
         .letter = 'c',
         .value = "SIZE",
         .parse = parse_capacity,
         .text = "device memory, for example 64GiB (default: the capacity that a recorded\n"
                 "out-of-memory implies, else the capacity in the trace, else unlimited)"},
        {.name = "device",
         .letter = 'd',
         .value = "N",
         .parse = parse_device,
         .text = "replay device N only (default: every device that the trace uses, each by itself)"},
        {.name = "limit",
         .letter = 'l',
         .value = "SIZE",
         .parse = parse_limit,
         .text = "maximum memory that a pool may reserve"},
        {.name = "growth",
         .value = "POLICY",
         .parse = parse_growth,
         .text = "if memory of another stream would serve after a wait: balanced, grow-first, wait-first"},
        {.name = "seed",
         .value = "N",
         .parse = parse_seed,
         .text = "jitter in the durations of device work; the same seed gives the same run (default: none)"},
        {.name = "ignore-uses",
         .flag = &replay->ignore_uses,
         .text = "do not tell the pool which other streams use a block, to show the resulting hazards"},
        {.name = "check", .flag = &replay->check, .text = "prove the pool's invariants after every event (slow)"},
        {.name = "no-audit", .flag = &replay->no_audit, .text = "do not look for hazards (faster)"},
        {.name = "repeat", .value = "N", .parse = parse_repeat, .text = "replay the trace N times in a row"},
        {.name = "pad",
         .value = "N",
         .parse = parse_pad,
         .text = "bytes that the pytorch model adds to each request (default: as the recording shows)"},
        {.name = "sweep",
         .value = "[=F:T:S]",
         .parse = parse_sweep,
         .text = "replay also under pool limits of F to T times peak live in steps of S (default:\n"
                 "1.00:1.30:0.01): the least factor that serves the whole trace, and where memory runs\n"
                 "out below it"},
        {.name = "sweep-all",
         .flag = &settings->sweep.all,
         .text = "with --sweep: replay under every limit, not only as many as a bisection needs"},
        {.name = "host",
         .value = "[=ROUNDS]",
         .parse = parse_host,
         .text = "also measure weir's heap, glibc, jemalloc, mimalloc and tcmalloc with memory of this\n"
                 "machine: each plays the trace in a process of its own, ROUNDS times (default: 5)"},
        {.name = "report",
         .value = "FILE",
         .word = &settings->report,
         .text = "write a page with charts: bytes over time, memory maps, fragmentation"},
        {.name = "jobs",
         .letter = 'j',
         .value = "N",
         .parse = parse_jobs,
         .text = "replay N strategies or limits of a trace at a time (default: one for each processor);\n"
                 "times per call are steadier with 1"},
        {.name = "json",
         .flag = &settings->json,
         .text = "print JSON: one object, or an array for several traces or devices"},
        {.name = "csv",
         .flag = &settings->csv,
         .text = "print CSV: a line with names, then one for each trace, device and strategy"},
        {.name = "no-timing",
         .flag = &replay->no_timing,
         .text = "do not time calls; all figures are then the same in every run"},
        {.name = "color",
         .value = "[=WHEN]",
         .parse = parse_colour,
         .text = "colours in the table: always, never, or auto (default): on a terminal, unless NO_COLOR is set"},
        {.name = "quiet", .letter = 'q', .flag = &settings->quiet, .text = "print no progress"},
        OPTION_HELP,
        {.name = NULL},
    };
    const int status = read_options(&subcommand, rows, settings, argc, argv);
    if (status != EXIT_DONE) {
        return status;
    }
    replay->history = settings->report != NULL;
    if (settings->json && settings->csv) {
        return complain("replay", true, "--json and --csv both print to standard output: name one");
    }
    if (settings->csv && (settings->sweeps || settings->host_rounds != 0)) {
        return complain("replay", true, "--csv has no lines for --%s", settings->sweeps ? "sweep" : "host");
    }
    if (settings->sweep.all && !settings->sweeps) {
        return complain("replay", true, "--sweep-all needs --sweep");
    }
    if (settings->sweeps && settings->replay.limit != 0) {
        return complain("replay", true, "--limit and --sweep are both limits: name one");
    }
    return optind < argc ? EXIT_DONE : complain("replay", true, "no trace is named");
}

/* Reads the price table that the environment names, if it names one. */
static int read_prices(struct settings *settings)
{
    const char *path = getenv("WEIR_SIM_PRICES");
    struct price_source *prices = &settings->prices;
    if (path != NULL && path[0] != '\0') {
        prices->file = path;
        if (weir_sim_costs_read(path, &settings->replay.costs) != WEIR_OK) {
            const char *why = strstr(weir_last_error(), ": "); /* behind the function's name */
            return complain("replay", false, "WEIR_SIM_PRICES%s", why != NULL ? why : "");
        }
    }
    prices->assumed = weir_sim_costs_assumed(&settings->replay.costs);
    return EXIT_DONE;
}

/* --- progress --- */

struct progress {
    const char *trace;
    const char *strategy;
    bool shown;
};

static void show_progress(void *ctx, double share)
{
    struct progress *progress = ctx;
    (void)fprintf(stderr, "\r%s: %s %3.0f %%\033[K", progress->trace, progress->strategy, share * 100.0);
    (void)fflush(stderr);
    progress->shown = true;
}

static void clear_progress(const struct progress *progress)
{
    if (progress->shown) {
        (void)fputs("\r\033[K", stderr);
    }
}

/* --- one trace --- */

static bool wants_model(const struct settings *settings)
{
    for (size_t i = 0; i < settings->strategy_count; i++) {
        if (settings->strategies[i]->models_padding) {
            return true;
        }
    }
    return false;
}

/* Returns the bytes that the model adds to a request: from --pad, from the strategy's name, from the recording, or 0.
 * */
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

/* Returns the options of a replay, with progress messages if standard error is a terminal. */
static struct replay_options options_for(const struct settings *settings, struct progress *progress)
{
    struct replay_options options = settings->replay;
    if (!settings->quiet && isatty(STDERR_FILENO)) {
        options.progress = show_progress;
        options.progress_ctx = progress;
    }
    return options;
}

/* Jobs of one trace: job i is strategy i. */
struct strategy_jobs {
    const struct settings *settings;
    struct comparison *comparison;
    size_t first; /* result of job 0: the recorded row stands before it */
    struct replay_options options;
    struct progress progress[most_strategies]; /* of each job */
};

static int run_jobs(struct strategy_jobs *all, bool (*play)(void *ctx, size_t i, char *error, size_t error_size))
{
    char error[512];
    const struct jobs jobs = {
        .count = all->settings->strategy_count, .threads = all->settings->replay.jobs, .play = play, .ctx = all};
    const bool done = jobs_run(&jobs, error, sizeof(error));
    for (size_t i = 0; i < jobs.count; i++) {
        clear_progress(&all->progress[i]);
    }
    return done ? EXIT_DONE : complain("replay", false, "%s", error);
}

static bool play_strategy(void *ctx, size_t i, char *error, size_t error_size)
{
    struct strategy_jobs *all = ctx;
    struct comparison *comparison = all->comparison;
    const struct replay_strategy *strategy = all->settings->strategies[i];
    struct replay_options options = all->options;
    all->progress[i] = (struct progress){.trace = comparison->trace->path, .strategy = strategy->name};
    options.progress_ctx = &all->progress[i];
    return replay_run(comparison->trace, strategy, pad_for(all->settings, strategy, comparison), &options,
                      &comparison->results[all->first + i], error, error_size);
}

/* Finds how much memory serves the request on which the recorded program ran out, too. */
static bool find_enough(void *ctx, size_t i, char *error, size_t error_size)
{
    struct strategy_jobs *all = ctx;
    struct comparison *comparison = all->comparison;
    const size_t row = all->first + i;
    const struct replay_result *result = &comparison->results[row];
    return sweep_enough(comparison->trace, result->strategy, result->pad_bytes, &all->settings->replay,
                        &comparison->enough[row], error, error_size);
}

static int sweep_limits(const struct settings *settings, struct comparison *comparison)
{
    char error[512];
    uint64_t pads[most_strategies];
    struct progress progress = {.trace = comparison->trace->path, .strategy = "sweep"};
    const struct replay_options options = options_for(settings, &progress);
    for (size_t i = 0; i < settings->strategy_count; i++) {
        pads[i] = pad_for(settings, settings->strategies[i], comparison);
    }
    bool done = sweep_run(comparison->trace, settings->strategies, pads, settings->strategy_count, &settings->sweep,
                          &options, &comparison->sweep, error, sizeof(error));
    clear_progress(&progress);
    return done ? EXIT_DONE : complain("replay", false, "%s", error);
}

static int measure_host(const struct settings *settings, struct comparison *comparison)
{
    char error[512];
    return host_replay_run(comparison->trace, settings->host_rounds, &comparison->host, error, sizeof(error))
               ? EXIT_DONE
               : complain("replay", false, "%s: %s", comparison->trace->path, error);
}

static int compare_strategies(const struct settings *settings, struct comparison *comparison)
{
    struct strategy_jobs all = {.settings = settings, .comparison = comparison, .options = options_for(settings, NULL)};
    if (comparison->implied) {
        all.options.capacity = comparison->refused.capacity;
    }
    if (wants_model(settings)) {
        weir_status status = recorded_check(comparison->trace, settings->pad, &comparison->recorded);
        if (status != WEIR_OK) {
            return complain("replay", false, "%s: the check against the recording failed: %s", comparison->trace->path,
                            weir_status_text(status));
        }
    }
    if (recorded_run_known(comparison->trace)) {
        all.first = comparison->result_count = 1;
        if (!recorded_run(comparison->trace, all.options.history, &comparison->results[0])) {
            return complain("replay", false, "no host memory");
        }
    }
    comparison->result_count += settings->strategy_count;
    int status = run_jobs(&all, play_strategy);
    if (status == EXIT_DONE && comparison->refused.found) {
        status = run_jobs(&all, find_enough);
    }
    if (status == EXIT_DONE && settings->sweeps) {
        status = sweep_limits(settings, comparison);
    }
    return status == EXIT_DONE && settings->host_rounds != 0 ? measure_host(settings, comparison) : status;
}

static void drop_comparison(struct comparison *comparison)
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

static bool has_hazards(const struct comparison *comparison)
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

/* --- all traces --- */

/* The results of the command so far. The report needs all comparisons at the end; without a report there is at
 * most one. */
struct outcome {
    struct comparison *comparisons;
    size_t count;
    size_t capacity;
    json_t *json;
    size_t tables;
    struct summary summary;
    bool hazards;
};

static struct comparison *add_comparison(struct outcome *outcome)
{
    if (outcome->count == outcome->capacity) {
        const size_t capacity = outcome->capacity == 0 ? 4 : outcome->capacity * 2;
        struct comparison *larger = realloc(outcome->comparisons, capacity * sizeof(*larger));
        if (larger == NULL) {
            return NULL;
        }
        outcome->comparisons = larger;
        outcome->capacity = capacity;
    }
    struct comparison *comparison = &outcome->comparisons[outcome->count++];
    *comparison = (struct comparison){0};
    return comparison;
}

static void print_comparison(const struct settings *settings, const struct comparison *comparison,
                             struct outcome *outcome)
{
    if (settings->json) {
        (void)json_array_append_new(outcome->json, output_json(comparison));
        return;
    }
    if (settings->csv) {
        output_csv(stdout, comparison);
    } else {
        (void)fputs(outcome->tables++ > 0 ? "\n" : "", stdout);
        output_table(stdout, comparison, settings->colour);
        summary_add(&outcome->summary, comparison);
    }
    (void)fflush(stdout);
}

/* Replays a trace of one device, which passes to the outcome, and prints its table. */
static int run_device(const struct settings *settings, struct trace *trace, struct outcome *outcome)
{
    struct comparison *comparison = add_comparison(outcome);
    if (comparison == NULL) {
        trace_free(trace);
        return complain("replay", false, "no host memory");
    }
    comparison->prices = &settings->prices;
    comparison->timing = !settings->replay.no_timing;
    comparison->trace = trace;
    comparison->results = calloc(settings->strategy_count + 1, sizeof(*comparison->results));
    comparison->enough = calloc(settings->strategy_count + 1, sizeof(*comparison->enough));
    comparison->refused = recorded_oom_find(trace);
    comparison->implied = settings->replay.capacity == 0 && comparison->refused.capacity != 0;
    if (comparison->results == NULL || comparison->enough == NULL || !sweep_peak(trace, &comparison->peak_live_bytes)) {
        return complain("replay", false, "no host memory");
    }
    const int status = compare_strategies(settings, comparison);
    if (status != EXIT_DONE) {
        return status;
    }
    outcome->hazards |= has_hazards(comparison);
    print_comparison(settings, comparison, outcome);
    if (settings->report == NULL) {
        drop_comparison(comparison);
        outcome->count--;
    }
    return EXIT_DONE;
}

/* Replays each device of a trace of several. */
static int run_devices(const struct settings *settings, const struct trace *trace, struct outcome *outcome)
{
    int status = EXIT_DONE;
    for (uint32_t d = 0; d < trace->device_count && status == EXIT_DONE; d++) {
        struct trace *one = NULL;
        struct trace_error error = {0};
        if (!trace->devices[d].used) {
            continue;
        }
        if (trace_of_device(trace, d, &one, &error) != WEIR_OK) {
            return complain("replay", false, "%s", error.message);
        }
        status = run_device(settings, one, outcome);
    }
    return status;
}

static int run_trace(const struct settings *settings, const char *path, struct outcome *outcome)
{
    struct trace *trace = NULL;
    int status = open_trace("replay", path, &trace);
    if (status == EXIT_DONE && trace_only_counts(trace)) {
        status = complain("replay", false, "%s: has totals over time and no blocks, so there is nothing to replay%s",
                          trace->path, trace->note_count > 0 ? " ('weir info' shows its notes)" : "");
    }
    if (status == EXIT_DONE && settings->device != TRACE_NO_INDEX) {
        status = choose_device("replay", (uint32_t)settings->device, &trace);
    }
    if (status == EXIT_DONE && trace->device != TRACE_NO_INDEX) {
        return run_device(settings, trace, outcome);
    }
    if (status == EXIT_DONE) {
        status = run_devices(settings, trace, outcome);
    }
    trace_free(trace);
    return status;
}

/* --- the command --- */

static int print_json(const json_t *all)
{
    return json_print("replay", json_array_size(all) == 1 ? json_array_get(all, 0) : all,
                      JSON_INDENT(2) | JSON_REAL_PRECISION(8));
}

/* Returns the command line as one string, for the report. NULL without host memory. */
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

static int write_report(const struct settings *settings, struct out_file *file, const char *command,
                        const struct outcome *outcome)
{
    char error[256];
    struct report_context context = {command != NULL ? command : "weir replay", settings->replay.capacity,
                                     settings->replay.seed};
    if (!output_report(file, &context, outcome->comparisons, outcome->count, error, sizeof(error))) {
        return complain("replay", false, "%s: %s", settings->report, error);
    }
    if (!settings->json && !settings->csv) {
        (void)printf("report: %s\n", settings->report);
    }
    return EXIT_DONE;
}

/* Replays all traces. */
static int run_all(const struct settings *settings, char **paths, size_t count, const char *command,
                   struct out_file *report)
{
    struct outcome outcome = {.json = json_array()};
    int status =
        outcome.json == NULL ? complain("replay", false, "no host memory") : find_traces("replay", paths, count);
    if (status == EXIT_DONE && settings->csv) {
        output_csv_head(stdout);
    }
    for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
        status = run_trace(settings, paths[i], &outcome);
    }
    if (status == EXIT_DONE) {
        summary_print(stdout, &outcome.summary);
    }
    if (status == EXIT_DONE && settings->report != NULL) {
        status = write_report(settings, report, command, &outcome);
    }
    if (status == EXIT_DONE && settings->json) {
        status = print_json(outcome.json);
    }
    for (size_t i = 0; i < outcome.count; i++) {
        drop_comparison(&outcome.comparisons[i]);
    }
    free(outcome.comparisons);
    json_decref(outcome.json);
    return status != EXIT_DONE ? status : outcome.hazards ? EXIT_HAZARDS : EXIT_DONE;
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
    out_file_drop(&report); /* no effect if the file is finished */
    return status;
}

int command_replay(int argc, char **argv)
{
    struct settings settings = {.pad = -1, .device = TRACE_NO_INDEX, .colour = wants_colour()};
    char *command = command_line(argc, argv);
    int status = parse_strategies(&settings, "caching,pytorch,direct");
    if (status == EXIT_DONE) {
        status = read_settings(&settings, argc, argv);
    }
    if (status == EXIT_DONE && settings.host_rounds != 0) {
        mallocs_prepare(argv - 1); /* the whole command line: argv[0] is "replay" */
    }
    if (status == EXIT_DONE) {
        status = read_prices(&settings);
    }
    if (status == EXIT_DONE) {
        status = run(&settings, argv + optind, (size_t)(argc - optind), command);
    }
    free(command);
    return status < 0 ? EXIT_DONE : status;
}
