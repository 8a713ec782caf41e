/* record.c: `weir record`: its options, its messages and its exit status, which is that of the recorded program.
 * benchmarks/weir/record runs the program and writes the trace. */
#include "command.h"

#include "options.h"
#include "process.h"
#include "program.h"
#include "record/collect.h"
#include "record/run.h"
#include "trace/trace.h"
#include "units.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct subcommand subcommand = {
    .name = "record",
    .head =
        "weir record -- PROGRAM ARGUMENTS...: record the allocator calls of a program\n"
        "\n"
        "Runs an unmodified program and writes every allocation, realloc and free to a trace, which weir replay then\n"
        "replays against other strategies. On Ascend these are the calls of the device runtime, with events and waits;\n"
        "otherwise those of the malloc family. No call is lost: a program that allocates faster than the trace can be\n"
        "written is slowed down.\n"
        "\n",
    .tail =
        "\n"
        "  weir record -- ./engine model.onnx\n"
        "  weir record -o run.wtr.xz --min 0 -- python3 infer.py\n"
        "  weir replay run.wtr.xz\n"
        "\n"
        "While the program runs, the trace is written beside FILE, as FILE.RANDOM.part; the complete trace is renamed.\n"
        "The trace ends with the program's last call, even if the program crashes or calls _exit. Processes that it\n"
        "starts are recorded with --children only. If the program calls exec, the new program is recorded and the earlier\n"
        "events are discarded. A program that is statically linked, setuid or contains its own malloc cannot be recorded,\n"
        "and memory that a program maps by itself is not recorded.\n"
        "\n"
        "Exit status: that of the program; 126 if it cannot be run, 127 if it was not found, 2 for bad usage or if the\n"
        "trace could not be written.\n",
    .stops = true, /* arguments behind the program's name belong to the program */
};

struct settings {
    const char *output; /* NULL: named after the program */
    enum collect_what what;
    bool heaps; /* --what weir */
    bool children;
    uint64_t least_bytes;
    bool quiet;
    char **program; /* with its arguments */
};

/* --- options --- */

static int parse_what(void *ctx, const char *text)
{
    struct settings *settings = ctx;
    static const char *const names[] = {"host", "device", "all"};
    static const enum collect_what values[] = {COLLECT_HOST, COLLECT_DEVICE, COLLECT_ALL};
    settings->heaps = strcmp(text, "weir") == 0;
    if (settings->heaps) {
        return EXIT_DONE;
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            settings->what = values[i];
            return EXIT_DONE;
        }
    }
    return complain("record", true, "--what %s: it is host, device, all or weir", text);
}

static int parse_output(void *ctx, const char *value)
{
    struct settings *settings = ctx;
    settings->output = value;
    return value[0] != '\0' && strcmp(value, "-") != 0
               ? EXIT_DONE
               : complain("record", true, "--output %s: a file is needed; standard output is the program's", value);
}

static int parse_min(void *ctx, const char *value)
{
    struct settings *settings = ctx;
    return parse_size(value, &settings->least_bytes)
               ? EXIT_DONE
               : complain("record", true, "--min %s: not a size such as 4KiB", value);
}

/* Returns EXIT_DONE, EXIT_USAGE, or -1 after --help. */
static int read_settings(struct settings *settings, int argc, char **argv)
{
    const struct option_row rows[] = {
        {.name = "output",
         .letter = 'o',
         .value = "FILE",
         .parse = parse_output,
         .text = "write to this file, compressed if it ends in .xz or .gz (default: PROGRAM-PID.wtr)"},
        {.name = "what",
         .letter = 'w',
         .value = "WHAT",
         .parse = parse_what,
         .text = "host: the malloc family; device: the device runtime, pinned host memory included; all:\n"
                 "both, as devices of one trace; weir: the weir heaps that the program creates, one file\n"
                 "each, FILE, FILE.2, ... (default: device if the program allocates any such memory, else\n"
                 "host)"},
        {.name = "children",
         .letter = 'c',
         .flag = &settings->children,
         .text = "record every process that the program starts, each to a separate file: FILE, FILE.2, ...;\n"
                 "traces of these names from an earlier run are removed"},
        {.name = "min",
         .letter = 'm',
         .value = "SIZE",
         .parse = parse_min,
         .text = "leave out smaller blocks of host memory (default: 4KiB, which keeps tensors; 0: none)"},
        {.name = "quiet", .letter = 'q', .text = "print no summary on standard error", .flag = &settings->quiet},
        OPTION_HELP,
        {.name = NULL},
    };
    const int status = read_options(&subcommand, rows, settings, argc, argv);
    if (status != EXIT_DONE) {
        return status;
    }
    settings->program = argv + optind;
    if ((settings->heaps || settings->children) && settings->output != NULL && trace_packs(settings->output)) {
        return complain("record", true, "--output %s: of several traces none is packed; weir import does that",
                        settings->output);
    }
    if (settings->heaps && settings->children) {
        return complain("record", true, "--children is for other memory than that of weir: its heaps name no process");
    }
    return optind < argc ? EXIT_DONE : complain("record", true, "no program is named");
}

/* --- the result --- */

/* Returns the exit status after a failed write of the trace: EXIT_USAGE if the program succeeded, else the program's.
 * */
static int end_badly(int status)
{
    return status == 0 ? EXIT_USAGE : program_end_like(status);
}

static void summarise(void *ctx, const char *output, const struct collected *result)
{
    const struct settings *settings = ctx;
    if (settings->quiet) {
        return;
    }
    char events[UNIT_TEXT];
    char peak[UNIT_TEXT];
    char lost[UNIT_TEXT];
    (void)fprintf(stderr, "weir record: %s events, live peak %s, %s lost -> %s\n", format_count(events, result->events),
                  format_size(peak, result->peak_bytes), result->lost != 0 ? format_count(lost, result->lost) : "none",
                  output);
    if (result->device) {
        (void)fprintf(stderr, "weir record: this is the device's memory; for the host's: --what host\n");
    }
}

static int say_nothing_recorded(const struct settings *settings, const struct collected *result, int status)
{
    char least[UNIT_TEXT];
    if (result->images == 0) {
        (void)complain("record", false, "nothing was recorded: %s did not load the recording library",
                       settings->program[0]);
        return end_badly(status);
    }
    if (result->bypassed != 0 && settings->what != COLLECT_DEVICE) {
        (void)complain("record", false, "nothing was recorded: %s brings a malloc of its own, which is called instead",
                       settings->program[0]);
        return end_badly(status);
    }
    if (!settings->quiet) {
        const bool device = settings->what == COLLECT_DEVICE;
        const bool some = !device && settings->least_bytes != 0;
        (void)fprintf(stderr, "weir record: %s asked for no %s memory%s%s%s: there is no trace%s\n",
                      settings->program[0], device ? "device" : "host", some ? " in blocks of " : "",
                      some ? format_size(least, settings->least_bytes) : "", some ? " or more" : "",
                      settings->children ? "" : "; processes that it starts are recorded with --children");
    }
    return program_end_like(status);
}

/* --- recording a program's calls, or its weir heaps --- */

enum { most_files = 9999 };

/* Makes the path of file `number`: `output` for file 1, else "OUTPUT.NUMBER". Returns false if the path is too long. */
static bool numbered(char *path, size_t size, const char *output, unsigned number)
{
    const int length = number == 1 ? snprintf(path, size, "%s", output) : snprintf(path, size, "%s.%u", output, number);
    return length > 0 && (size_t)length < size;
}

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* True if the file begins like a trace or is empty. */
static bool may_be_trace(const char *path)
{
    char start[4] = "";
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    const size_t length = fread(start, 1, sizeof(start), file);
    (void)fclose(file);
    return length == 0 || (length == sizeof(start) && memcmp(start, "#wtr", sizeof(start)) == 0);
}

/* Removes the traces of an earlier run, from file `number` on. If a file FILE.2, FILE.3, ... is not a trace, it is the
 * user's: nothing is removed and the call fails. */
static int remove_numbered(const char *output, unsigned number)
{
    char path[PATH_MAX];
    for (unsigned n = 2; n <= most_files && numbered(path, sizeof(path), output, n); n++) {
        if (is_file(path) && !may_be_trace(path)) {
            return complain("record", false, "%s is there and is no trace: choose another name than %s", path, output);
        }
    }
    for (; number <= most_files && numbered(path, sizeof(path), output, number); number++) {
        if (is_file(path) && unlink(path) != 0) {
            return complain("record", false, "%s: cannot be removed: %s", path, strerror(errno));
        }
    }
    return EXIT_DONE;
}

/* Writes the recorded command as one line, for the trace's #src line. */
static void join(char *text, size_t size, char **arguments)
{
    size_t length = (size_t)snprintf(text, size, "weir record --");
    for (; *arguments != NULL && length < size; arguments++) {
        length += (size_t)snprintf(text + length, size - length, " %s", *arguments);
    }
}

/* Sets the environment of the program. Returns false when out of host memory. */
static bool prepare(const char *library, struct collector *collector)
{
    return run_preload(library) && setenv(CHANNEL_ENV, collector_channel_path(collector), 1) == 0;
}

static int run_collected(const struct settings *settings, struct collector *collector, const char *library)
{
    struct collected result;
    struct settings summary = *settings;
    const bool ready = prepare(library, collector);
    const pid_t child =
        ready ? run_start(settings->program, process_usual_file_size_action(), collector_channel(collector)) : -1;
    if (child < 0) {
        const int why = ready ? errno : ENOMEM;
        collector_close(collector, summarise, &summary, &result);
        return program_cannot_run("record", settings->program[0], why);
    }
    const int status = run_collect(collector, child);
    collector_close(collector, summarise, &summary, &result);
    if (result.problem[0] != '\0') {
        (void)complain("record", false, "%s", result.problem);
        return end_badly(status);
    }
    return result.events != 0 ? program_end_like(status) : say_nothing_recorded(settings, &result, status);
}

static int record_program(const struct settings *settings, const char *output)
{
    char source[400];
    const char *failed = NULL;
    char *library = program_library("record", "libweir_record.so");
    if (library == NULL) {
        return EXIT_USAGE;
    }
    join(source, sizeof(source), settings->program);
    const struct collect_options options = {.path = output,
                                            .source = source,
                                            .what = settings->what,
                                            .least_bytes = settings->least_bytes,
                                            .children = settings->children};
    int status = settings->children ? remove_numbered(output, 2) : EXIT_DONE;
    struct collector *collector = status == EXIT_DONE ? collector_open(&options, &failed) : NULL;
    if (collector != NULL) {
        status = run_collected(settings, collector, library);
    } else if (status == EXIT_DONE) {
        status = complain("record", false, "%s: %s", failed, strerror(errno));
    }
    free(library);
    return status;
}

/* Records the weir heaps of a program. weir writes the files itself (WEIR_RECORD in core) and uses only unused file
 * names, so old files are removed first. */
static int record_heaps(const struct settings *settings, const char *output)
{
    char path[PATH_MAX];
    unsigned number = 1;
    const int removed = remove_numbered(output, 1);
    if (removed != EXIT_DONE) {
        return removed;
    }
    const int trial = open(output, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* the program reports none */
    if (trial < 0) {
        return complain("record", false, "%s: %s", output, strerror(errno));
    }
    (void)close(trial);
    (void)unlink(output);
    char absolute[PATH_MAX];
    if (!program_absolute(output, absolute, sizeof(absolute)) || setenv("WEIR_RECORD", absolute, 1) != 0) {
        return complain("record", false, "%s: %s", output, strerror(errno));
    }
    const pid_t child = run_start(settings->program, process_usual_file_size_action(), NULL);
    if (child < 0) {
        return program_cannot_run("record", settings->program[0], errno);
    }
    const int status = run_collect(NULL, child);
    for (number = 1; numbered(path, sizeof(path), output, number) && is_file(path); number++) {
        if (!settings->quiet) {
            (void)fprintf(stderr, "weir record: a heap of weir -> %s\n", path);
        }
    }
    if (number == 1 && !settings->quiet) {
        (void)fprintf(stderr, "weir record: %s made no heap of weir: there is no trace\n", settings->program[0]);
    }
    return program_end_like(status);
}

int command_record(int argc, char **argv)
{
    struct settings settings = {.what = COLLECT_AUTO, .least_bytes = 4096};
    char path[PATH_MAX];
    char name[PATH_MAX];
    int status = read_settings(&settings, argc, argv);
    if (status != EXIT_DONE) {
        return status < 0 ? EXIT_DONE : status;
    }
    status = program_find("record", settings.program[0], !settings.heaps, path, sizeof(path));
    if (status != EXIT_DONE) {
        return status;
    }
    if (settings.output == NULL) {
        (void)snprintf(name, sizeof(name), "%s-%ld.wtr", basename(path), (long)getpid());
        settings.output = name;
    }
    return settings.heaps ? record_heaps(&settings, settings.output) : record_program(&settings, settings.output);
}
