/* import.c: `weir import`: reads a trace of any supported format and writes it as .wtr. */
#include "command.h"

#include "bundled.h"
#include "trace/out_file.h"
#include "trace/trace.h"
#include "units.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "weir import IN [-o OUT]: convert a memory snapshot to weir's trace format\n"
    "\n"
    "IN is a PyTorch or torch_npu snapshot, a pickle of torch.cuda.memory._snapshot(), plain or compressed with gzip\n"
    "or xz. The command parses the pickle's opcodes and executes nothing in it. IN may also be a .wtr file, to\n"
    "compress, decompress or normalise it. OUT is compressed if its name ends in .xz or .gz. Without -o, or with '-',\n"
    "the text goes to standard output.\n"
    "\n"
    "  -o, --output OUT   write to this file\n"
    "  -d, --device N     write the events of device N only\n"
    "  -q, --quiet        print no summary on standard error\n"
    "  -h, --help         print this text\n"
    "\n"
    "  weir import snapshot.pickle -o run.wtr.xz\n"
    "  weir import llama_ctx_dyn         the text of an installed recording (weir info --list)\n"
    "  weir import snapshot.pickle | head\n";

static void summarise(const struct trace *trace, const char *output)
{
    char events[UNIT_TEXT];
    char blocks[UNIT_TEXT];
    (void)fprintf(stderr, "%s: %s events, %s blocks, %u stream%s, %u device%s -> %s\n", trace->path,
                  format_count(events, trace->event_count), format_count(blocks, trace->block_count),
                  trace->stream_count, trace->stream_count == 1 ? "" : "s", trace->device_count,
                  trace->device_count == 1 ? "" : "s", output);
    for (size_t i = 0; i < trace->note_count; i++) {
        (void)fprintf(stderr, "note: %s\n", trace->notes[i]);
    }
}

int command_import(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"device", required_argument, NULL, 'd'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *output = "-";
    uint64_t device = TRACE_NO_INDEX; /* all */
    bool quiet = false;
    int letter;
    opterr = 0;
    while ((letter = getopt_long(argc, argv, ":o:d:qh", options, NULL)) != -1) {
        switch (letter) {
        case 'o':
            output = optarg;
            break;
        case 'd':
            if (!parse_number(optarg, &device) || device >= TRACE_MAX_DEVICES) {
                return complain("import", true, "--device %s: not a number below %u", optarg, TRACE_MAX_DEVICES);
            }
            break;
        case 'q':
            quiet = true;
            break;
        case 'h':
            (void)fputs(help, stdout);
            return EXIT_DONE;
        case ':':
            return complain("import", true, "%s needs a value", argv[optind - 1]);
        default:
            return complain("import", true, "unknown option %s", argv[optind - 1]);
        }
    }
    if (argc - optind != 1) {
        return complain("import", true, "exactly one input is needed");
    }
    struct trace *trace = NULL;
    struct trace_error error = {0};
    int status = open_trace("import", argv[optind], &trace);
    if (status == EXIT_DONE && device != TRACE_NO_INDEX) {
        status = choose_device("import", (uint32_t)device, &trace);
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
