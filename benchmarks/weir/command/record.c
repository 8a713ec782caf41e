/* record.c: `weir record`: runs an unchanged program and writes its allocator calls as a trace.
 *
 * The program is started with a library that interposes the C library's malloc and the device runtime
 * (benchmarks/weir/record). The library sends events through shared memory, and this command writes them. The trace is
 * complete however the program ends, and the command exits with the program's exit status or signal.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2 */
#endif

#include "command.h"

#include "install_paths.h"
#include "options.h"
#include "process.h"
#include "record_collect.h"
#include "trace/trace.h"
#include "units.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

enum { nap_least_ns = 200000, nap_most_ns = 5000000 };

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

/* --- the program --- */

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* Finds the program like execvp. A path with a slash is found even if the file is not executable, so that the message
 * of exec gives that reason. */
static bool find_program(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        return (size_t)snprintf(path, size, "%s", name) < size && access(path, F_OK) == 0;
    }
    for (at = at != NULL ? at : "/bin:/usr/bin"; *at != '\0'; at += strcspn(at, ":"), at += *at == ':') {
        int length = (int)strcspn(at, ":");
        const int written = snprintf(path, size, "%.*s%s%s", length, at, length != 0 ? "/" : "", name);
        if (written > 0 && (size_t)written < size && is_file(path) && access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns why the calls of an ELF file cannot be interposed; NULL if they can. */
static const char *why_not_elf(FILE *file, const Elf64_Ehdr *head)
{
    if (head->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) {
        return "is for another word size than weir";
    }
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr part;
        if (fseek(file, (long)(head->e_phoff + (uint64_t)i * head->e_phentsize), SEEK_SET) != 0 ||
            fread(&part, sizeof(part), 1, file) != 1 || part.p_type == PT_INTERP) {
            return NULL; /* the file is dynamically linked, or unreadable: then execvp reports the error */
        }
    }
    return "is statically linked: nothing can be put between it and its allocator";
}

/* Returns why the calls of a program cannot be interposed; NULL if they can. For a script, looks at its interpreter. */
static const char *why_not(const char *path, int scripts)
{
    struct stat facts;
    Elf64_Ehdr head;
    FILE *file = fopen(path, "rb");
    const char *why = NULL;
    if (file == NULL) {
        return NULL;
    }
    memset(&head, 0, sizeof(head));
    const size_t length = fread(&head, 1, sizeof(head), file);
    if (fstat(fileno(file), &facts) == 0 && (((facts.st_mode & S_ISUID) != 0 && facts.st_uid != geteuid()) ||
                                             ((facts.st_mode & S_ISGID) != 0 && facts.st_gid != getegid()))) {
        why = "is setuid or setgid: the loader puts nothing between it and its allocator";
    } else if (length == sizeof(head) && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0) {
        why = why_not_elf(file, &head);
    } else if (length > 2 && memcmp(&head, "#!", 2) == 0 && scripts > 0) {
        char line[PATH_MAX];
        rewind(file);
        if (fgets(line, sizeof(line), file) != NULL) {
            char *interpreter = line + 2 + strspn(line + 2, " \t");
            interpreter[strcspn(interpreter, " \t\r\n")] = '\0';
            why = why_not(interpreter, scripts - 1);
        }
    }
    (void)fclose(file);
    return why;
}

/* --- running the program --- */

static volatile sig_atomic_t program; /* process id of the recorded program, for the signal handler */

static void pass_on(int number)
{
    if (program > 0) {
        (void)kill((pid_t)program, number);
    }
}

enum { from_terminal = 2, signals_met = 6 };
static const int met[signals_met] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* Ignores signals of the terminal, because the program receives them too, and the command waits until the program ends.
 * Forwards other signals to the program. Signals that are already ignored, as under nohup, stay ignored, as in the
 * program. */
static void prepare_signals(struct sigaction before[signals_met])
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction forward = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    for (unsigned i = 0; i < signals_met; i++) {
        (void)sigaction(met[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) {
            (void)sigaction(met[i], i < from_terminal ? &ignore : &forward, NULL);
        }
    }
}

static void restore_signals(const struct sigaction before[signals_met])
{
    for (unsigned i = 0; i < signals_met; i++) {
        (void)sigaction(met[i], &before[i], NULL);
    }
}

/* Adds the library in front of an existing LD_PRELOAD. Returns false when out of host memory. */
static bool set_preload(const char *library)
{
    const char *others = getenv("LD_PRELOAD");
    char *both = NULL;
    if (others == NULL || others[0] == '\0') {
        return setenv("LD_PRELOAD", library, 1) == 0;
    }
    const size_t size = strlen(library) + strlen(others) + 2;
    both = malloc(size);
    if (both == NULL) {
        return false;
    }
    (void)snprintf(both, size, "%s:%s", library, others);
    const bool set = setenv("LD_PRELOAD", both, 1) == 0;
    free(both);
    return set;
}

/* Runs the program, in the child. If exec fails, writes errno to the pipe `report`. */
static void become(char **arguments, const sigset_t *mask, int report)
{
    (void)sigaction(SIGXFSZ, process_usual_file_size_action(), NULL);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    (void)execvp(arguments[0], arguments);
    const int why = errno;
    (void)!write(report, &why, sizeof(why));
    _exit(why == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* Starts the program with the current environment. Returns its process id, or -1 with errno if it cannot be run. */
static pid_t start(char **arguments, struct channel *to)
{
    struct sigaction usual[signals_met];
    sigset_t all;
    sigset_t before;
    int report[2];
    int why = 0;
    if (pipe2(report, O_CLOEXEC) != 0) {
        return -1;
    }
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    prepare_signals(usual);
    const pid_t child = fork();
    if (child == 0) {
        restore_signals(usual);
        if (to != NULL) {
            to->program = (int32_t)getpid();
        }
        become(arguments, &before, report[1]);
    }
    program = (sig_atomic_t)child;
    const int fork_error = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)close(report[1]);
    if (child > 0 && read(report[0], &why, sizeof(why)) == (ssize_t)sizeof(why)) {
        (void)waitpid(child, NULL, 0);
    }
    (void)close(report[0]);
    errno = child < 0 ? fork_error : why;
    return child > 0 && why == 0 ? child : -1;
}

/* Reads the program's events until it has ended. Returns its wait status. */
static int collect(struct collector *collector, pid_t child)
{
    struct timespec nap = {.tv_nsec = nap_least_ns};
    int status = 0;
    for (;;) {
        if (collector != NULL && collector_drain(collector, false) != 0) {
            nap.tv_nsec = nap_least_ns;
            continue;
        }
        const pid_t ended = waitpid(child, &status, 0 | (collector != NULL ? WNOHANG : 0));
        if (ended == child || (ended < 0 && errno != EINTR)) {
            break;
        }
        (void)nanosleep(&nap, NULL);
        nap.tv_nsec = nap.tv_nsec * 2 < nap_most_ns ? nap.tv_nsec * 2 : nap_most_ns;
    }
    program = 0;
    while (collector != NULL && collector_drain(collector, true) != 0) {
    }
    return status;
}

/* --- the result --- */

/* Ends the command like the program: raises the same signal, or returns the same exit status. */
static int end_like(int status)
{
    if (WIFSIGNALED(status)) {
        const struct rlimit none = {0, 0};
        struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)fflush(NULL);
        (void)setrlimit(RLIMIT_CORE, &none); /* the program has written its core file */
        (void)sigaction(WTERMSIG(status), &usual, NULL);
        (void)raise(WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_USAGE;
}

/* Returns the exit status after a failed write of the trace: EXIT_USAGE if the program succeeded, else the program's.
 * */
static int end_badly(int status)
{
    return status == 0 ? EXIT_USAGE : end_like(status);
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
    return end_like(status);
}

static int say_cannot_run(const char *name, int why)
{
    (void)complain("record", false, "%s: cannot be run: %s", name, strerror(why));
    return why == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* --- recording a program's calls, or its weir heaps --- */

enum { most_files = 9999 };

/* Makes the path of file `number`: `output` for file 1, else "OUTPUT.NUMBER". Returns false if the path is too long. */
static bool numbered(char *path, size_t size, const char *output, unsigned number)
{
    const int length = number == 1 ? snprintf(path, size, "%s", output) : snprintf(path, size, "%s.%u", output, number);
    return length > 0 && (size_t)length < size;
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

static int say_no_library(void)
{
    char *folder = place_folder(PLACE_LIBRARIES);
    (void)complain("record", false, "libweir_record.so is not in %s", folder != NULL ? folder : "weir's folder");
    free(folder);
    return EXIT_USAGE;
}

/* Sets the environment of the program. Returns false when out of host memory. */
static bool prepare(const char *library, struct collector *collector)
{
    return set_preload(library) && setenv(CHANNEL_ENV, collector_channel_path(collector), 1) == 0;
}

static int run_collected(const struct settings *settings, struct collector *collector, const char *library)
{
    struct collected result;
    struct settings summary = *settings;
    const bool ready = prepare(library, collector);
    const pid_t child = ready ? start(settings->program, collector_channel(collector)) : -1;
    if (child < 0) {
        const int why = ready ? errno : ENOMEM;
        collector_close(collector, summarise, &summary, &result);
        return say_cannot_run(settings->program[0], why);
    }
    const int status = collect(collector, child);
    collector_close(collector, summarise, &summary, &result);
    if (result.problem[0] != '\0') {
        (void)complain("record", false, "%s", result.problem);
        return end_badly(status);
    }
    return result.events != 0 ? end_like(status) : say_nothing_recorded(settings, &result, status);
}

static int record_program(const struct settings *settings, const char *output)
{
    char source[400];
    const char *failed = NULL;
    char *library = place_file(PLACE_LIBRARIES, "libweir_record.so");
    if (library == NULL) {
        return say_no_library();
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

/* Sets WEIR_RECORD to an absolute path, because the program may change its folder before it creates a heap. */
static bool name_heaps_file(const char *output)
{
    char folder[PATH_MAX];
    char path[2 * PATH_MAX];
    if (output[0] == '/') {
        return setenv("WEIR_RECORD", output, 1) == 0;
    }
    if (getcwd(folder, sizeof(folder)) == NULL) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder, output);
    return setenv("WEIR_RECORD", path, 1) == 0;
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
    if (!name_heaps_file(output)) {
        return complain("record", false, "%s: %s", output, strerror(errno));
    }
    const pid_t child = start(settings->program, NULL);
    if (child < 0) {
        return say_cannot_run(settings->program[0], errno);
    }
    const int status = collect(NULL, child);
    for (number = 1; numbered(path, sizeof(path), output, number) && is_file(path); number++) {
        if (!settings->quiet) {
            (void)fprintf(stderr, "weir record: a heap of weir -> %s\n", path);
        }
    }
    if (number == 1 && !settings->quiet) {
        (void)fprintf(stderr, "weir record: %s made no heap of weir: there is no trace\n", settings->program[0]);
    }
    return end_like(status);
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
    if (!find_program(settings.program[0], path, sizeof(path))) {
        return say_cannot_run(settings.program[0], ENOENT);
    }
    const char *why = settings.heaps ? NULL : why_not(path, 4);
    if (why != NULL) {
        (void)complain("record", false, "%s %s", path, why);
        return EXIT_CANNOT_RUN;
    }
    if (settings.output == NULL) {
        (void)snprintf(name, sizeof(name), "%s-%ld.wtr", basename(path), (long)getpid());
        settings.output = name;
    }
    return settings.heaps ? record_heaps(&settings, settings.output) : record_program(&settings, settings.output);
}
