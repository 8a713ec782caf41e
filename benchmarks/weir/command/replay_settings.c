/* replay_settings.c: see replay_settings.h. */
#include "replay_settings.h"

#include "bundled.h"
#include "complain.h"
#include "suggest.h"
#include "units.h"

#include "replay/jobs.h"
#include "replay/strategy_object.h"

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
    "The verdict above the table, of that row or the first, is the cause of a refused request, or the parts of the memory\n"
    "at its peak.\n"
    "\n";

static const char help_tail[] =
    "\n"
    "  weir replay snapshot.pickle\n"
    "  weir replay ort_unet_dyn_res      an installed recording (weir info --list)\n"
    "  weir replay run.wtr.xz --strategy caching,pytorch --capacity 16GiB --report out.html\n"
    "  weir replay run.wtr.xz --strategy caching,size_class --sweep\n"
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

void settings_free(struct settings *settings)
{
    for (size_t i = 0; i < settings->strategy_count; i++) {
        strategy_object_free(settings->loaded[i]);
        free(settings->made[i]);
        settings->loaded[i] = NULL;
        settings->made[i] = NULL;
    }
    settings->strategy_count = 0;
}

/* True if the settings already name a strategy of this name, or if weir has one. */
static bool is_taken(const struct settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->strategy_count; i++) {
        if (strcmp(settings->strategies[i]->name, name) == 0) {
            return true;
        }
    }
    return replay_strategy_find(name, strlen(name)) != NULL;
}

/* Loads a strategy from a shared object. If the strategy's own name is taken, its row is named after the file. */
static int load_strategy(struct settings *settings, const char *name, size_t length)
{
    char error[bundled_error_size];
    struct replay_strategy *loaded = strategy_object_load(name, length, error, sizeof(error));
    if (loaded == NULL) {
        return complain("replay", false, "--strategy %s", error);
    }
    if (is_taken(settings, loaded->name) && !strategy_object_rename(loaded, name, length)) {
        strategy_object_free(loaded);
        return complain("replay", false, "no host memory");
    }
    settings->loaded[settings->strategy_count] = loaded;
    settings->strategies[settings->strategy_count++] = loaded;
    return EXIT_DONE;
}

/* Says what the program refuses in the settings of a name, with the place below. */
static int say_refused(const char *name, size_t length, const struct pytorch_settings_error *error)
{
    return complain("replay", true, "--strategy %.*s: at '%.*s': %s", (int)length, name, (int)(length - error->at),
                    name + error->at, error->text);
}

/* Adds a row such as pytorch[max_split_size_mb:128]. */
static int add_with_settings(struct settings *settings, const char *list, const char *name, size_t length)
{
    struct pytorch_settings_error error = {.text = ""};
    struct replay_strategy *made = replay_strategy_with_settings(name, length, &error);
    if (made == NULL) {
        return error.text[0] != '\0' ? say_refused(name, length, &error) : say_no_strategy(list, name, length);
    }
    settings->made[settings->strategy_count] = made;
    settings->strategies[settings->strategy_count++] = made;
    return EXIT_DONE;
}

static int add_strategy(struct settings *settings, const char *list, const char *name, size_t length)
{
    const struct replay_strategy *found = replay_strategy_find(name, length);
    if (settings->strategy_count == most_strategies) {
        return complain("replay", true, "--strategy %s: more than %d strategies", list, most_strategies);
    }
    if (found == NULL && memchr(name, '[', length) != NULL) {
        return add_with_settings(settings, list, name, length);
    }
    if (found == NULL && strategy_object_is(name, length)) {
        return load_strategy(settings, name, length);
    }
    if (found == NULL) {
        return say_no_strategy(list, name, length);
    }
    settings->strategies[settings->strategy_count++] = found;
    return EXIT_DONE;
}

/* Returns the length of the first name of a list; commas in brackets do not end it. */
static size_t name_length(const char *list)
{
    size_t length = 0;
    int depth = 0;
    while (list[length] != '\0' && (depth > 0 || list[length] != ',')) {
        depth += list[length] == '[' ? 1 : 0;
        depth -= list[length] == ']' && depth > 0 ? 1 : 0;
        length++;
    }
    return length;
}

static int parse_strategies(void *ctx, const char *list)
{
    struct settings *settings = ctx;
    int status = EXIT_DONE;
    settings_free(settings);
    for (const char *name = list; status == EXIT_DONE; name++) {
        const size_t length = name_length(name);
        status = add_strategy(settings, list, name, length);
        name += length;
        if (*name == '\0') {
            break;
        }
    }
    return status;
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

int settings_parse_memory(const char *command, const char *option, const char *text, uint64_t *bytes)
{
    if (!parse_size(text, bytes)) {
        return complain(command, true, "%s %s: not a size such as 64GiB", option, text);
    }
    if (*bytes < REPLAY_LEAST_CAPACITY) {
        return complain(command, true, "%s %s: less than one region of 2 MiB", option, text);
    }
    if (*bytes > REPLAY_MOST_CAPACITY) {
        return complain(command, true, "%s %s: more than 16 TiB", option, text);
    }
    return EXIT_DONE;
}

static int parse_number_of(const char *command, const char *option, const char *text, uint64_t least, uint64_t most,
                           uint64_t *number)
{
    if (!parse_number(text, number) || *number < least || *number > most) {
        return complain(command, true, "%s %s: not a number from %llu to %llu", option, text, (unsigned long long)least,
                        (unsigned long long)most);
    }
    return EXIT_DONE;
}

static int parse_count(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    return parse_number_of("replay", option, text, least, most, number);
}

int settings_parse_jobs(const char *command, const char *text, uint32_t *jobs)
{
    uint64_t number = 0;
    const int status = parse_number_of(command, "--jobs", text, 1, jobs_most_threads, &number);
    *jobs = (uint32_t)number;
    return status;
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
    return settings_parse_memory("replay", "--capacity", value, &((struct settings *)ctx)->replay.capacity);
}

static int parse_limit(void *ctx, const char *value)
{
    return settings_parse_memory("replay", "--limit", value, &((struct settings *)ctx)->replay.limit);
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
    return settings_parse_jobs("replay", value, &((struct settings *)ctx)->replay.jobs);
}

static int parse_pad(void *ctx, const char *value)
{
    uint64_t number = 0;
    const int status = parse_count("--pad", value, 0, 511, &number);
    ((struct settings *)ctx)->pad = (int)number;
    return status;
}

/* The default of the colour option: true if standard output is a terminal with colours and NO_COLOR is unset
 * (https://no-color.org). */
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

static int read_rows(struct settings *settings, int argc, char **argv)
{
    struct replay_options *replay = &settings->replay;
    const struct option_row rows[] = {
        {.name = "strategy",
         .letter = 's',
         .value = "LIST",
         .parse = parse_strategies,
         .text = "strategies to compare, separated by commas (default: caching,pytorch,direct);\n"
                 "./mine.so: a strategy of your own, in a shared object (weir/strategy.h);\n"
                 "pytorch[...], torch_npu[...]: with the settings that PYTORCH_ALLOC_CONF or\n"
                 "PYTORCH_NPU_ALLOC_CONF would have, such as 'pytorch[expandable_segments:True]'"},
        {.name = "capacity",
         .letter = 'c',
         .value = "SIZE",
         .parse = parse_capacity,
         .text = "device memory, for example 64GiB (default: the capacity that a recorded\n"
                 "out-of-memory implies, else the capacity in the trace, else unlimited)"},
        PART_OPTION_ROWS(&settings->part,
                         "replay device N only (default: every device that the trace uses, each by itself)"),
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
                 "machine: each plays the trace in a process of its own, ROUNDS times (default: 5);\n"
                 "a recording of a malloc is measured once unasked, unless with --no-timing or --csv"},
        {.name = "report",
         .value = "FILE",
         .word = &settings->report,
         .text = "write a page with charts: bytes over time, memory maps, fragmentation"},
        {.name = "jobs",
         .letter = 'j',
         .value = "N",
         .parse = parse_jobs,
         .text = "replay N traces, strategies or limits at a time (default: one for each processor): the\n"
                 "output is the same; at most N traces are in memory, with --report all of them; times\n"
                 "per call are steadier with 1"},
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
    return read_options(&subcommand, rows, settings, argc, argv);
}

/* Refuses options that do not go together. */
static int check_settings(const struct settings *settings)
{
    if (settings->json && settings->csv) {
        return complain("replay", true, "--json and --csv both print to standard output: name one");
    }
    if (settings->csv && settings->host_rounds != 0) {
        return complain("replay", true, "--csv has no lines for --host");
    }
    if (settings->csv && settings->sweeps && settings->report == NULL) { /* the page draws the limits */
        return complain("replay", true, "--csv has no lines for --sweep; with --report the page has them");
    }
    if (settings->sweep.all && !settings->sweeps) {
        return complain("replay", true, "--sweep-all needs --sweep");
    }
    if (settings->sweeps && settings->replay.limit != 0) {
        return complain("replay", true, "--limit and --sweep are both limits: name one");
    }
    return EXIT_DONE;
}

int settings_read_prices(const char *command, weir_sim_costs *costs, struct price_source *prices)
{
    const char *path = getenv("WEIR_SIM_PRICES");
    if (path != NULL && path[0] != '\0') {
        prices->file = path;
        if (weir_sim_costs_read(path, costs) != WEIR_OK) {
            const char *why = strstr(weir_last_error(), ": "); /* behind the function's name */
            return complain(command, false, "WEIR_SIM_PRICES%s", why != NULL ? why : "");
        }
    }
    prices->assumed = weir_sim_costs_assumed(costs);
    return EXIT_DONE;
}

int settings_read(struct settings *settings, int argc, char **argv)
{
    *settings = (struct settings){.pad = -1, .part = PART_OPTIONS_INIT("replay"), .colour = wants_colour()};
    int status = parse_strategies(settings, "caching,pytorch,direct");
    if (status == EXIT_DONE) {
        status = read_rows(settings, argc, argv);
    }
    if (status == EXIT_DONE) {
        status = check_settings(settings);
    }
    if (status == EXIT_DONE && optind == argc) {
        status = complain("replay", true, "no trace is named");
    }
    settings->replay.history = settings->report != NULL;
    return status == EXIT_DONE ? settings_read_prices("replay", &settings->replay.costs, &settings->prices) : status;
}
