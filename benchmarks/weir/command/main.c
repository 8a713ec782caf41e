/* main.c: the `weir` command: calls the subcommand.
 *
 * Guarantees of all subcommands: a message is one line of clean text; a failed write is an error and raises no signal;
 * exit status 0 means that all of standard output was written.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vasprintf */
#endif

#include "command.h"

#include "json.h"
#include "suggest.h"
#include "trace/clean_text.h"

#include <weir/base.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "weir: how would another allocator have served this run?\n"
    "\n"
    "  weir replay TRACE...        replay allocation traces against strategies on a simulated device\n"
    "  weir info TRACE...          describe a trace: events, streams, sizes, live memory\n"
    "  weir import IN -o OUT.wtr   convert a snapshot, profile or CSV of another program to weir's trace format\n"
    "  weir record -- PROGRAM...   record the allocator calls of a program as a trace\n"
    "  weir topo                   print NUMA nodes, devices, and the host memory that can be pinned on this machine\n"
    "\n"
    "A TRACE is a .wtr file, a memory snapshot of PyTorch or torch_npu, or a profile of torch.profiler, torch_npu or\n"
    "nsys, plain or compressed with gzip or xz, or the name of an installed recording, such as ort_unet_dyn_res (weir info --list).\n"
    "To record a snapshot: torch.cuda.memory._record_memory_history(), run, torch.cuda.memory._dump_snapshot(FILE).\n"
    "\n"
    "  weir help SUBCOMMAND        options and examples; weir SUBCOMMAND --help too\n"
    "  weir --help                 print this text; -h and help too\n"
    "  weir --version              print the version; version too\n";

int complain(const char *subcommand, bool usage, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    (void)fprintf(stderr, "weir %s: ", subcommand);
    va_start(arguments, format);
    const int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length >= 0) {
        clean_print(stderr, text, (size_t)length);
        free(text);
    } else {
        (void)fputs("no host memory", stderr);
    }
    if (usage) {
        (void)fprintf(stderr, " (weir %s --help)", subcommand);
    }
    (void)fputc('\n', stderr);
    return EXIT_USAGE;
}

/* Opens closed standard descriptors in the wrong direction, so that their use still fails. Without this, the first file
 * that is opened would become standard output and receive the printed lines. */
static void fill_closed_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            (void)open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

static struct sigaction file_size_before;

const struct sigaction *usual_file_size_action(void)
{
    return &file_size_before;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} subcommands[] = {
    {"replay", command_replay}, {"info", command_info}, {"import", command_import},
    {"record", command_record}, {"topo", command_topo},
};

enum { subcommand_count = sizeof(subcommands) / sizeof(subcommands[0]) };

static int say_unknown(const char *word)
{
    struct suggestion search = {.word = word, .length = strlen(word)};
    for (int i = 0; i < subcommand_count; i++) {
        suggest(&search, subcommands[i].name);
    }
    (void)fputs("weir: no subcommand '", stderr);
    clean_print(stderr, word, strlen(word));
    if (search.meant != NULL) {
        (void)fprintf(stderr, "'; did you mean %s? (weir --help)\n", search.meant);
    } else {
        (void)fputs("'; there are replay, info, import, record and topo (weir --help)\n", stderr);
    }
    return EXIT_USAGE;
}

/* Runs a subcommand by its name; argv[0] is the name. */
static int run_subcommand(int argc, char **argv)
{
    for (int i = 0; i < subcommand_count; i++) {
        if (strcmp(argv[0], subcommands[i].name) == 0) {
            return subcommands[i].run(argc, argv);
        }
    }
    return say_unknown(argv[0]);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        (void)fputs(help, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
        (void)printf("weir %s\n", weir_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "help") != 0 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0) {
        return run_subcommand(argc - 1, argv + 1);
    }
    if (argc == 2) {
        (void)fputs(help, stdout);
        return EXIT_DONE;
    }
    char *asked[] = {argv[2], (char[]){"--help"}, NULL};
    return run_subcommand(2, asked);
}

/* Closes standard output. Returns true if all printed text was written.
 * A closed standard output is no error if nothing was printed. */
static bool close_output(void)
{
    const bool failed = ferror(stdout) != 0;
    const bool pending = __fpending(stdout) != 0;
    errno = 0;
    return (fclose(stdout) == 0 || (!pending && errno == EBADF)) && !failed;
}

int main(int argc, char **argv)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    fill_closed_descriptors();
    json_watch_memory();
    (void)sigaction(SIGXFSZ, &ignore, &file_size_before);
    const int status = run(argc, argv);
    if (!close_output() && status != EXIT_USAGE) {
        (void)fprintf(stderr, "weir: standard output could not be written%s%s\n", errno != 0 ? ": " : "",
                      errno != 0 ? strerror(errno) : "");
        return EXIT_USAGE;
    }
    return status;
}
