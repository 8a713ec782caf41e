/* run_command.c: `weir run`: runs a program with a weir heap in the place of malloc (libweir_preload.so), within a
 * limit, and prints its report. The exit status is that of the program.
 *
 * Each process of the program writes its report as one piece (bindings/host/preload/src/report.c). Without --report
 * these go to a file in memory, from which the command prints those of the program itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, sigabbrev_np */
#endif

#include "command.h"

#include "options.h"
#include "process.h"
#include "program.h"
#include "record/run.h"
#include "units.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct subcommand subcommand = {
    .name = "run",
    .head =
        "weir run -- PROGRAM ARGUMENTS...: run a program with a weir heap in the place of malloc\n"
        "\n"
        "Runs an unmodified program of any language. Its malloc, and that of all programs that it starts, is a heap of\n"
        "weir. At the end a report says how much memory it held, and which libraries asked for it.\n"
        "\n",
    .tail =
        "\n"
        "  weir run -- python3 infer.py\n"
        "  weir run --limit 2GiB -- node server.js\n"
        "  weir run --signal USR1 --report memory.txt -- ./server & sleep 60; kill -USR1 $!\n"
        "\n"
        "A process at its limit gets NULL from malloc, as if the machine had no more memory, and the reason is printed\n"
        "once on standard error. A process that a signal or _exit ends writes no report. A program that is statically\n"
        "linked or setuid, or that contains its own malloc, keeps its own malloc.\n"
        "\n"
        "Exit status: that of the program; 126 if it cannot be run, 127 if it was not found, 2 for bad usage.\n",
    .stops = true, /* arguments behind the program's name belong to the program */
};

struct settings {
    uint64_t limit_bytes;
    const char *report; /* NULL: the program's own report is printed */
    int signal_number;
    bool quiet;
    char **program; /* with its arguments */
};

/* --- options --- */

static int parse_limit(void *ctx, const char *value)
{
    struct settings *settings = ctx;
    return parse_size(value, &settings->limit_bytes) && settings->limit_bytes != 0
               ? EXIT_DONE
               : complain("run", true, "--limit %s: not a size such as 2GiB", value);
}

static int parse_signal(void *ctx, const char *value)
{
    struct settings *settings = ctx;
    uint64_t number = 0;
    const char *name = strncmp(value, "SIG", 3) == 0 ? value + 3 : value;
    if (!parse_number(value, &number)) {
        for (int i = 1; i < NSIG && number == 0; i++) {
            const char *known = sigabbrev_np(i);
            number = known != NULL && strcmp(known, name) == 0 ? (uint64_t)i : 0;
        }
    }
    settings->signal_number = (int)(number < NSIG ? number : 0);
    return settings->signal_number != 0 ? EXIT_DONE
                                        : complain("run", true, "--signal %s: not a signal such as USR1", value);
}

/* Returns EXIT_DONE, EXIT_USAGE, or -1 after --help. */
static int read_settings(struct settings *settings, int argc, char **argv)
{
    const struct option_row rows[] = {
        {.name = "limit",
         .letter = 'l',
         .value = "SIZE",
         .parse = parse_limit,
         .text = "the most memory that the heap of a process may hold (default: no limit)"},
        {.name = "report",
         .letter = 'r',
         .value = "FILE",
         .word = &settings->report,
         .text = "write the report of each process that the program starts to this file, at its end\n"
                 "(default: print that of the program itself on standard error)"},
        {.name = "signal",
         .letter = 's',
         .value = "NAME",
         .parse = parse_signal,
         .text = "write a report for this signal too, such as USR1, if the program does not use it"},
        {.name = "quiet", .letter = 'q', .text = "print no report", .flag = &settings->quiet},
        OPTION_HELP,
        {.name = NULL},
    };
    const int status = read_options(&subcommand, rows, settings, argc, argv);
    if (status != EXIT_DONE) {
        return status;
    }
    settings->program = argv + optind;
    return optind < argc ? EXIT_DONE : complain("run", true, "no program is named");
}

/* --- the reports of the processes --- */

/* Opens the file for the reports, and writes its path. Returns -1 after a message. */
static int open_reports(const struct settings *settings, char *path, size_t size)
{
    int file = -1;
    if (settings->report == NULL) {
        file = memfd_create("weir run", MFD_CLOEXEC);
        (void)snprintf(path, size, "/proc/%ld/fd/%d", (long)getpid(), file);
    } else if (program_absolute(settings->report, path, size)) {
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (file < 0) {
        (void)complain("run", false, "%s: %s", settings->report != NULL ? settings->report : "a file in memory",
                       strerror(errno));
    }
    return file;
}

/* Returns the process id of a line that begins a report; 0: it begins none. */
static long begins_report(const char *line)
{
    long process = 0;
    const char *number = strstr(line, " (");
    return strncmp(line, "weir: ", 6) == 0 && number != NULL && sscanf(number, " (%ld)", &process) == 1 ? process : 0;
}

/* Prints the reports of the program itself. */
static void print_reports(const struct settings *settings, int file, pid_t program)
{
    char line[4096];
    bool is_own = false;
    unsigned own = 0;
    unsigned others = 0;
    FILE *reports = lseek(file, 0, SEEK_SET) == 0 ? fdopen(file, "r") : NULL;
    while (reports != NULL && fgets(line, sizeof(line), reports) != NULL) {
        const long process = begins_report(line);
        if (process != 0) {
            is_own = process == (long)program;
            own += is_own;
            others += !is_own;
        }
        if (is_own) {
            (void)fputs(line, stderr);
        }
    }
    if (own == 0) {
        (void)fprintf(stderr, "weir run: %s wrote no report: a signal or _exit ended it, or its malloc is its own\n",
                      settings->program[0]);
    }
    if (others != 0) {
        (void)fprintf(stderr, "weir run: %u report%s of other processes: --report FILE keeps them\n", others,
                      others == 1 ? "" : "s");
    }
    if (reports != NULL) {
        (void)fclose(reports);
    }
}

/* --- running it --- */

static bool set_number(const char *name, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return number != 0 ? setenv(name, text, 1) == 0 : unsetenv(name) == 0;
}

/* Sets the environment of the program. Returns false when out of host memory. */
static bool prepare(const struct settings *settings, const char *library, const char *path)
{
    return run_preload(library) && set_number("WEIR_PRELOAD_LIMIT", settings->limit_bytes) &&
           set_number("WEIR_PRELOAD_SIGNAL", (uint64_t)settings->signal_number) &&
           (path != NULL ? setenv("WEIR_PRELOAD_REPORT", path, 1) : unsetenv("WEIR_PRELOAD_REPORT")) == 0;
}

static int run_with(const struct settings *settings, const char *library)
{
    char path[PATH_MAX];
    const bool is_reported = settings->report != NULL || !settings->quiet;
    const int file = is_reported ? open_reports(settings, path, sizeof(path)) : -1;
    if (is_reported && file < 0) {
        return EXIT_USAGE;
    }
    const bool ready = prepare(settings, library, is_reported ? path : NULL);
    const pid_t child = ready ? run_start(settings->program, process_usual_file_size_action(), NULL) : -1;
    if (child < 0) {
        return program_cannot_run("run", settings->program[0], ready ? errno : ENOMEM);
    }
    const int status = run_collect(NULL, child);
    if (is_reported && settings->report == NULL) {
        print_reports(settings, file, child);
    }
    return program_end_like(status);
}

int command_run(int argc, char **argv)
{
    struct settings settings = {.limit_bytes = 0};
    char path[PATH_MAX];
    int status = read_settings(&settings, argc, argv);
    if (status != EXIT_DONE) {
        return status < 0 ? EXIT_DONE : status;
    }
    status = program_find("run", settings.program[0], true, path, sizeof(path));
    if (status != EXIT_DONE) {
        return status;
    }
    char *library = program_library("run", "libweir_preload.so");
    if (library == NULL) {
        return EXIT_USAGE;
    }
    status = run_with(&settings, library);
    free(library);
    return status;
}
