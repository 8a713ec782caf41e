/* main.c: `weir`, the command: picks the subcommand. */
#include "command.h"

#include <weir/base.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "weir: how would another allocator have served this run?\n"
    "\n"
    "  weir replay TRACE...        replay allocation traces against strategies on a simulated device\n"
    "  weir info TRACE...          what is in a trace: events, streams, sizes, live memory\n"
    "  weir import IN -o OUT.wtr   convert a PyTorch or torch_npu memory snapshot to weir's trace format\n"
    "  weir record -- PROGRAM...   record what a program asks of its allocators as a trace\n"
    "  weir topo                   NUMA nodes, devices, and what host memory can be pinned on this machine\n"
    "\n"
    "A TRACE is a .wtr file or a memory snapshot (.pickle), plain or packed with gzip or xz, or the name of a recording\n"
    "that came with weir, such as ort_unet_dyn_res (weir info --list).\n"
    "To record a snapshot: torch.cuda.memory._record_memory_history(), run, torch.cuda.memory._dump_snapshot(FILE).\n"
    "\n"
    "  weir SUBCOMMAND --help      options and examples\n"
    "  weir --help                 this text; -h and help too\n"
    "  weir --version\n";

int complain(const char *subcommand, bool usage, const char *format, ...)
{
    va_list arguments;
    (void)fprintf(stderr, "weir %s: ", subcommand);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (usage) {
        (void)fprintf(stderr, " (weir %s --help)", subcommand);
    }
    (void)fputc('\n', stderr);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        (void)fputs(help, argc < 2 ? stderr : stdout);
        return argc < 2 ? EXIT_USAGE : EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("weir %s\n", weir_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "replay") == 0) {
        return command_replay(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "import") == 0) {
        return command_import(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "info") == 0) {
        return command_info(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "record") == 0) {
        return command_record(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "topo") == 0) {
        return command_topo(argc - 1, argv + 1);
    }
    (void)fprintf(stderr, "weir: no subcommand '%s'; there are replay, info, import, record and topo (weir --help)\n",
                  argv[1]);
    return EXIT_USAGE;
}
