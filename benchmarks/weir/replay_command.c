/* replay_command.c: `weir replay`: reads the options, replays each trace against each strategy, and prints the
 * results. */
#include "command.h"

#include "bundled.h"
#include "json.h"
#include "output.h"
#include "units.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help_head[] =
    "weir replay TRACE...: how would other strategies have served this run?\n"
    "\n"
    "Replays every allocation, free, cross-stream use, event and wait of a trace against each strategy on a simulated\n"
    "device, which is empty at the start of each replay. Prints one table per trace: peak reserved memory and its\n"
    "ratio to peak live, the largest free range at that peak, the event at which memory ran out, device calls and\n"
    "their simulated time, waits, hazards that the auditor found, and nanoseconds per call.\n"
    "\n";

static const char help_tail[] =
    "\n"
    "  -s, --strategy LIST  strategies to compare, separated by commas (default: caching,pytorch,direct)\n"
    "  -c, --capacity SIZE  device memory, for example 64GiB (default: the capacity in the trace, else unlimited)\n"
    "  -l, --limit SIZE     maximum memory that a pool may reserve\n"
    "      --growth POLICY  if memory of another stream would serve after a wait: balanced, grow-first, wait-first\n"
    "      --seed N         jitter in the durations of device work; the same seed gives the same run (default: none)\n"
    "      --ignore-uses    do not tell the pool which other streams use a block, to show the resulting hazards\n"
    "      --check          prove the pool's invariants after every event (slow)\n"
    "      --no-audit       do not look for hazards (faster)\n"
    "      --repeat N       replay the trace N times in a row\n"
    "      --pad N          bytes that the pytorch model adds to each request (default: as the recording shows)\n"
    "      --sweep[=F:T:S]  replay also under pool limits of F to T times peak live in steps of S (default:\n"
    "                       1.00:1.30:0.01): the least factor that serves the whole trace, and where memory runs\n"
    "                       out below it\n"
    "      --report FILE    write a page with charts: bytes over time, memory maps, fragmentation\n"
    "      --json           print JSON: one object, or an array for several traces\n"
    "      --no-timing      do not time calls; all figures are then the same in every run\n"
    "  -q, --quiet          print no progress\n"
    "  -h, --help           print this text\n"
    "\n"
    "  weir replay snapshot.pickle\n"
    "  weir replay ort_unet_dyn_res      an installed recording (weir info --list)\n"
    "  weir replay run.wtr.xz --strategy caching,pytorch --capacity 16GiB --report out.html\n"
    "  weir replay run.wtr.xz --strategy caching,size_class,routing --sweep\n"
    "  weir replay run.wtr.xz --json | jq '.results[] | {strategy, peak_reserved_bytes}'\n"
    "\n"
    "A sweep limits the pool of each device to F times the peak live bytes of that device, rounded up to a multiple\n"
    "of 2 MiB. The device gives memory in pieces of 2 MiB, so several factors may give the same limit. Each limit is\n"
    "replayed, because a strategy that serves a trace under one limit may fail under a higher one; a line below the\n"
    "table reports such a case. In the bar, # is a factor at which every request was served, and a digit tells how\n"
    "many tenths of the events were played before memory ran out.\n"
    "\n"
    "Exit status: 0 if every replay finished (running out of memory is a result), 1 if hazards were found, 2 for bad\n"
    "usage or input, or if the output could not be written.\n";

enum { most_strategies = 16 };

struct settings {
    const struct replay_strategy *strategies[most_strategies];
    size_t strategy_count;
    struct replay_options replay;
    int pad; /* -1: the padding that the recording shows */
    bool sweeps;
    struct sweep_range sweep;
    const char *report;
    bool json;
    bool quiet;
};

static void print_help(void)
{
    (void)fputs(help_head, stdout);
    (void)fputs("Strategies:\n", stdout);
    for (const struct replay_strategy *s = replay_strategies(); s->name != NULL; s++) {
        (void)printf("  %-13s %s\n", s->name, s->text);
    }
    (void)fputs(help_tail, stdout);
}

/* --- options --- */

static int parse_strategies(struct settings *settings, const char *list)
{
    settings->strategy_count = 0;
    for (const char *name = list;;) {
        size_t length = strcspn(name, ",");
        const struct replay_strategy *found = replay_strategy_find(name, length);
        if (found == NULL) {
            return complain("replay", true, "--strategy %s: there is no strategy '%.*s'", list, (int)length, name);
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

static int parse_growth(struct settings *settings, const char *text)
{
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
static int parse_sweep(struct settings *settings, const char *text)
{
    struct sweep_range *range = &settings->sweep;
    const char *at = text;
    *range = (struct sweep_range){.from = 1000, .to = 1300, .step = 10};
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

enum option_code {
    OPTION_GROWTH = 256,
    OPTION_SEED,
    OPTION_IGNORE,
    OPTION_CHECK,
    OPTION_NO_AUDIT,
    OPTION_REPEAT,
    OPTION_PAD,
    OPTION_REPORT,
    OPTION_JSON,
    OPTION_NO_TIMING,
    OPTION_SWEEP
};

static int apply_option(struct settings *settings, int code, const char *value)
{
    uint64_t number = 0;
    int status = EXIT_DONE;
    switch (code) {
    case 's':
        return parse_strategies(settings, value);
    case 'c':
        return parse_memory("--capacity", value, &settings->replay.capacity);
    case 'l':
        return parse_memory("--limit", value, &settings->replay.limit);
    case OPTION_GROWTH:
        return parse_growth(settings, value);
    case OPTION_SEED:
        return parse_count("--seed", value, 0, UINT64_MAX, &settings->replay.seed);
    case OPTION_REPEAT:
        status = parse_count("--repeat", value, 1, 1000000, &number);
        settings->replay.repeat = (uint32_t)number;
        return status;
    case OPTION_PAD:
        status = parse_count("--pad", value, 0, 511, &number);
        settings->pad = (int)number;
        return status;
    case OPTION_IGNORE:
        settings->replay.ignore_uses = true;
        return EXIT_DONE;
    case OPTION_CHECK:
        settings->replay.check = true;
        return EXIT_DONE;
    case OPTION_NO_AUDIT:
        settings->replay.no_audit = true;
        return EXIT_DONE;
    case OPTION_NO_TIMING:
        settings->replay.no_timing = true;
        return EXIT_DONE;
    case OPTION_REPORT:
        settings->report = value;
        settings->replay.history = true;
        return EXIT_DONE;
    case OPTION_SWEEP:
        return parse_sweep(settings, value);
    case OPTION_JSON:
        settings->json = true;
        return EXIT_DONE;
    case 'q':
    default:
        settings->quiet = true;
        return EXIT_DONE;
    }
}

/* Returns EXIT_DONE, EXIT_USAGE, or -1 after --help. */
static int read_options(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {
        {"strategy", required_argument, NULL, 's'},
        {"capacity", required_argument, NULL, 'c'},
        {"limit", required_argument, NULL, 'l'},
        {"growth", required_argument, NULL, OPTION_GROWTH},
        {"seed", required_argument, NULL, OPTION_SEED},
        {"ignore-uses", no_argument, NULL, OPTION_IGNORE},
        {"check", no_argument, NULL, OPTION_CHECK},
        {"no-audit", no_argument, NULL, OPTION_NO_AUDIT},
        {"no-timing", no_argument, NULL, OPTION_NO_TIMING},
        {"repeat", required_argument, NULL, OPTION_REPEAT},
        {"sweep", optional_argument, NULL, OPTION_SWEEP},
        {"pad", required_argument, NULL, OPTION_PAD},
        {"report", required_argument, NULL, OPTION_REPORT},
        {"json", no_argument, NULL, OPTION_JSON},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int code;
    opterr = 0;
    while ((code = getopt_long(argc, argv, ":s:c:l:qh", options, NULL)) != -1) {
        if (code == 'h') {
            return -1;
        }
        if (code == ':') {
            return complain("replay", true, "%s needs a value", argv[optind - 1]);
        }
        if (code == '?') {
            return complain("replay", true, "unknown option %s", argv[optind - 1]);
        }
        int status = apply_option(settings, code, optarg);
        if (status != EXIT_DONE) {
            return status;
        }
    }
    if (settings->sweeps && settings->replay.limit != 0) {
        return complain("replay", true, "--limit and --sweep are both limits: name one");
    }
    return optind < argc ? EXIT_DONE : complain("replay", true, "no trace is named");
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

static int compare_strategies(const struct settings *settings, struct comparison *comparison)
{
    char error[512];
    struct progress progress = {.trace = comparison->trace->path};
    const struct replay_options options = options_for(settings, &progress);
    if (wants_model(settings)) {
        weir_status status = recorded_check(comparison->trace, settings->pad, &comparison->recorded);
        if (status != WEIR_OK) {
            return complain("replay", false, "%s: the check against the recording failed: %s", comparison->trace->path,
                            weir_status_text(status));
        }
    }
    for (size_t i = 0; i < settings->strategy_count; i++) {
        const struct replay_strategy *strategy = settings->strategies[i];
        progress.strategy = strategy->name;
        bool done = replay_run(comparison->trace, strategy, pad_for(settings, strategy, comparison), &options,
                               &comparison->results[i], error, sizeof(error));
        clear_progress(&progress);
        comparison->result_count = i + 1;
        if (!done) {
            return complain("replay", false, "%s", error);
        }
    }
    return settings->sweeps ? sweep_limits(settings, comparison) : EXIT_DONE;
}

static int run_trace(const struct settings *settings, const char *path, struct comparison *comparison)
{
    int status = open_trace("replay", path, &comparison->trace);
    if (status != EXIT_DONE) {
        return status;
    }
    uint64_t *peaks = calloc(comparison->trace->device_count, sizeof(*peaks));
    const bool added_up = peaks != NULL && sweep_peaks(comparison->trace, peaks, &comparison->peak_live_bytes);
    free(peaks);
    if (!added_up) {
        return complain("replay", false, "no host memory");
    }
    comparison->results = calloc(settings->strategy_count, sizeof(*comparison->results));
    if (comparison->results == NULL) {
        return complain("replay", false, "no host memory");
    }
    return compare_strategies(settings, comparison);
}

static void drop_comparison(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->result_count; i++) {
        replay_result_free(&comparison->results[i]);
    }
    free(comparison->results);
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

/* --- the command --- */

static int print_json(const json_t *all, size_t traces)
{
    return json_print("replay", traces == 1 ? json_array_get(all, 0) : all, JSON_INDENT(2) | JSON_REAL_PRECISION(8));
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
                        const struct comparison *comparisons, size_t count)
{
    char error[256];
    struct report_context context = {command != NULL ? command : "weir replay", settings->replay.capacity,
                                     settings->replay.seed};
    if (!output_report(file, &context, comparisons, count, error, sizeof(error))) {
        return complain("replay", false, "%s: %s", settings->report, error);
    }
    if (!settings->json) {
        (void)printf("report: %s\n", settings->report);
    }
    return EXIT_DONE;
}

/* Replays all traces. Frees each trace after its replay unless the report needs all of them at the end. */
static int run_all(const struct settings *settings, char **paths, size_t count, const char *command,
                   struct out_file *report)
{
    struct comparison *comparisons = calloc(count, sizeof(*comparisons));
    json_t *all = json_array();
    int status = comparisons == NULL || all == NULL ? complain("replay", false, "no host memory") : EXIT_DONE;
    bool hazards = false;
    for (size_t i = 0; i < count && status == EXIT_DONE; i++) {
        status = run_trace(settings, paths[i], &comparisons[i]);
        if (status != EXIT_DONE) {
            break;
        }
        hazards |= has_hazards(&comparisons[i]);
        if (settings->json) {
            (void)json_array_append_new(all, output_json(&comparisons[i]));
        } else {
            output_table(stdout, &comparisons[i]);
            (void)fputs(i + 1 < count ? "\n" : "", stdout);
            (void)fflush(stdout);
        }
        if (settings->report == NULL) {
            drop_comparison(&comparisons[i]);
        }
    }
    if (status == EXIT_DONE && settings->report != NULL) {
        status = write_report(settings, report, command, comparisons, count);
    }
    if (status == EXIT_DONE && settings->json) {
        status = print_json(all, count);
    }
    for (size_t i = 0; comparisons != NULL && i < count; i++) {
        drop_comparison(&comparisons[i]);
    }
    free(comparisons);
    json_decref(all);
    return status != EXIT_DONE ? status : hazards ? EXIT_HAZARDS : EXIT_DONE;
}

/* Runs the command. Opens the report before the first replay, because a replay may take minutes. */
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
    struct settings settings = {.pad = -1};
    char *command = command_line(argc, argv);
    int status = parse_strategies(&settings, "caching,pytorch,direct");
    if (status == EXIT_DONE) {
        status = read_options(&settings, argc, argv);
    }
    if (status == -1) {
        print_help();
        status = EXIT_DONE;
    } else if (status == EXIT_DONE) {
        status = run(&settings, argv + optind, (size_t)(argc - optind), command);
    }
    free(command);
    return status;
}
