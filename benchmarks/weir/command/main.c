/* main.c: the `weir` command: calls the subcommand.
 *
 * Guarantees of all subcommands: a message is one line of clean text; a failed write is an error and raises no signal;
 * exit status 0 means that all of standard output was written.
 */
#include "command.h"
#include "json.h"
#include "process.h"
#include "replay/host_replay.h"
#include "suggest.h"
#include "trace/clean_text.h"

#include <weir/base.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "weir: how would another allocator have served this run?\n"
    "\n"
    "  weir replay TRACE...        replay allocation traces against strategies on a simulated device\n"
    "  weir advise TRACE           find the settings that would have saved most memory: the lines to paste\n"
    "  weir info TRACE...          describe a trace: events, streams, sizes, live memory\n"
    "  weir diff A [B]             compare two moments of a trace, or two traces: the memory that came and went\n"
    "  weir import IN -o OUT.wtr   convert a snapshot, profile or CSV of another program to weir's trace format\n"
    "  weir record -- PROGRAM...   record the allocator calls of a program as a trace\n"
    "  weir run -- PROGRAM...      run a program with a weir heap in the place of malloc, within a limit\n"
    "  weir topo                   print NUMA nodes, devices, and the host memory that can be pinned on this machine\n"
    "\n"
    "A TRACE is a .wtr file, a memory snapshot of PyTorch or torch_npu, or a profile of torch.profiler, torch_npu or\n"
    "nsys, plain or compressed with gzip or xz, or the name of an installed recording, such as ort_unet_dyn_res (weir info --list).\n"
    "To record a snapshot: torch.cuda.memory._record_memory_history(), run, torch.cuda.memory._dump_snapshot(FILE).\n"
    "\n"
    "  weir help SUBCOMMAND        options and examples; weir SUBCOMMAND --help too\n"
    "  weir --help                 print this text; -h and help too\n"
    "  weir --version              print the version; version too\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} subcommands[] = {
    {"replay", command_replay}, {"advise", command_advise}, {"info", command_info}, {"diff", command_diff},
    {"import", command_import}, {"record", command_record}, {"run", command_run},   {"topo", command_topo},
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
        (void)fputs("'; there are replay, advise, info, diff, import, record, run and topo (weir --help)\n", stderr);
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

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], HOST_REPLAY_CHILD) == 0) {
        return host_replay_child(argc, argv);
    }
    process_begin();
    json_watch_memory();
    const int status = run(argc, argv);
    if (!process_close_output() && status != EXIT_USAGE) {
        (void)fprintf(stderr, "weir: standard output could not be written%s%s\n", errno != 0 ? ": " : "",
                      errno != 0 ? strerror(errno) : "");
        return EXIT_USAGE;
    }
    return status;
}
