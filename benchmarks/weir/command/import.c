/* import.c: `weir import`: reads a trace of any supported format and writes it as .wtr. */
#include "command.h"

#include "bundled.h"
#include "part_options.h"
#include "replay/recorded_run.h"
#include "trace/out_file.h"
#include "trace/trace.h"
#include "units.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char help_head[] =
    "weir import IN [-o OUT]: convert a recording of another program to weir's trace format\n"
    "\n"
    "IN is a PyTorch or torch_npu snapshot: a pickle of torch.cuda.memory._snapshot() or a zip of torch.save. The\n"
    "command parses the pickle's opcodes and executes nothing in it. IN may be a profile with memory events: JSON of\n"
    "torch.profiler, SQLite of torch_npu or nsys. IN may also be a .wtr file, to compress, decompress or normalise\n"
    "it, or one of these CSV files, where the names of the columns decide, not the name of the file:\n"
    "  operator_memory.csv, memory_record.csv of the profilers of torch_npu, MindSpore and CANN\n"
    "  memscope_dump_*.csv                    of msMemScope (msLeaks)\n"
    "  Thread,Time,Action,Pointer,Size,Stream of RMM's logging_resource_adaptor\n"
    "  id,lower,upper,size                    of MiniMalloc and idealloc\n"
    "\n"
    "IN may be compressed with gzip or xz. OUT is compressed if its name ends in .xz or .gz. Without -o, or with '-',\n"
    "the text goes to standard output.\n"
    "\n";

static const struct subcommand subcommand = {
    .name = "import",
    .head = help_head,
    .tail = "\n"
            "  weir import snapshot.pickle -o run.wtr.xz\n"
            "  weir import llama_ctx_dyn         the text of an installed recording (weir info --list)\n"
            "  weir import snapshot.pickle | head\n",
};

static void summarise(const struct trace *trace, const char *output)
{
    char events[UNIT_TEXT];
    char blocks[UNIT_TEXT];
    (void)fprintf(stderr, "%s: %s events, %s blocks, %u stream%s, %u device%s -> %s\n", trace->path,
                  format_count(events, trace->event_count), format_count(blocks, trace->block_count),
                  trace->stream_count, trace->stream_count == 1 ? "" : "s", trace->device_count,
                  trace->device_count == 1 ? "" : "s", output);
    if (recorded_run_is_moment(trace)) {
        (void)fputs("note: no history: the snapshot shows one moment\n", stderr);
    }
    for (size_t i = 0; i < trace->note_count; i++) {
        (void)fprintf(stderr, "note: %s\n", trace->notes[i]);
    }
}

/* Finds out if the output can be written before the input is read, which may take a while. A pipe or a device is not
 * tried, because opening it has side effects. */
static int try_output(const char *output)
{
    struct out_file file;
    struct stat there;
    if (strcmp(output, "-") == 0 || (stat(output, &there) == 0 && !S_ISREG(there.st_mode))) {
        return EXIT_DONE;
    }
    if (!out_file_open(&file, output)) {
        return complain("import", false, "%s: cannot be written: %s", output, strerror(errno));
    }
    out_file_drop(&file);
    return EXIT_DONE;
}

int command_import(int argc, char **argv)
{
    const char *output = "-";
    struct part_options part = PART_OPTIONS_INIT("import");
    bool quiet = false;
    const struct option_row rows[] = {
        {.name = "output", .letter = 'o', .value = "OUT", .text = "write to this file", .word = &output},
        PART_OPTION_ROWS(&part, "write the events of device N only"),
        {.name = "quiet", .letter = 'q', .text = "print no summary on standard error", .flag = &quiet},
        OPTION_HELP,
        {.name = NULL},
    };
    int status = read_options(&subcommand, rows, NULL, argc, argv);
    if (status != EXIT_DONE) {
        return status < 0 ? EXIT_DONE : status;
    }
    if (argc - optind != 1) {
        return complain("import", true, "exactly one input is needed");
    }
    struct trace *trace = NULL;
    struct trace_error error = {0};
    char why[512];
    status = try_output(output);
    if (status == EXIT_DONE) {
        status = open_trace("import", argv[optind], &trace);
    }
    if (status == EXIT_DONE && !part_choose(&part, &trace, why, sizeof(why))) {
        status = complain("import", false, "%s", why);
    }
    if (status != EXIT_DONE) {
        trace_free(trace);
        return status;
    }
    out_file_drop_at_signals();
    if (trace_write(trace, output, &error) != WEIR_OK) {
        status = complain("import", false, "%s", error.message);
    } else if (!quiet) {
        summarise(trace, strcmp(output, "-") == 0 ? "standard output" : output);
    }
    trace_free(trace);
    return status;
}
