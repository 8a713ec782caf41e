/* trace.h: an allocation trace in memory, read from `.wtr` text, a PyTorch memory snapshot, or a profile or CSV of
 * another program.
 *
 * Promise: a trace from trace_read is consistent. Every block is allocated once, by `p`, `a` or `r`; it is freed at
 * most once and not used afterwards; every number is in range and every tag index is defined.
 * A replay need not check these rules again. An error message is one line that names the file and the line or byte.
 *
 * The content decides the format, never the suffix: xz and gzip are unpacked, then `#wtr `, a pickle, a zip archive,
 * JSON, a SQLite database or a line of column names is expected.
 * README.md has the grammar, the limits and the rules of the import. A trace must not be shared while it is read or
 * freed; a finished trace is constant and threads may share it.
 */
#ifndef WEIR_BENCHMARKS_TRACE_H
#define WEIR_BENCHMARKS_TRACE_H

#include <weir/base.h>
#include <weir/trace.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_clock {
    TRACE_CLOCK_NS,      /* times are nanoseconds */
    TRACE_CLOCK_LOGICAL, /* times are positions of a plan */
    TRACE_CLOCK_ORDER,   /* times only count events */
};

#define TRACE_NO_INDEX UINT32_MAX
#define TRACE_PAD_UNKNOWN (-1)

/* Streams, threads, devices and pools are small integers; a larger number is an error, because a replay keeps tables
 * indexed by these numbers. */
#define TRACE_MAX_STREAMS 1048576u
#define TRACE_MAX_THREADS 1048576u
#define TRACE_MAX_POOLS 1048576u
#define TRACE_MAX_DEVICES 4096u

struct trace_device {
    uint64_t capacity;    /* bytes; 0 = not given */
    uint64_t granularity; /* bytes; 0 = not given */
    const char *name;     /* "" = not given */
    bool declared;        /* has a #dev line */
    bool used;            /* an event takes memory of the device or records its use by the recorded allocator */
};

struct trace_event {
    weir_trace_event event;

    /* PRIOR, ALLOC, FREE, USE and REALLOC (the new block): the block, 0 .. block_count - 1. RECORD, WAIT and SYNC with
     * mode 'e': the event object, 0 .. object_count - 1. Everything else: TRACE_NO_INDEX. */
    uint32_t index;
    uint32_t old_index; /* REALLOC: the old block; else TRACE_NO_INDEX */
};

/* The part of a file that trace_filtered has put into the trace. */
struct trace_part {
    uint64_t first; /* number of the first event of the window */
    uint64_t last;
    const uint32_t *streams; /* chosen streams, by their numbers in the file */
    size_t stream_count;     /* 0 = all */
    const char *text;        /* "events 10 to 20 of 974, blocks of stream 3" */
};

struct trace_store; /* owns every string below */

struct trace {
    const char *path;   /* file from which the trace was read */
    const char *source; /* text of #src, "" when absent */
    enum trace_clock clock;

    /* devices[d] is device number d; at least one entry, also when the trace names none. */
    struct trace_device *devices;
    uint32_t device_count;

    uint32_t stream_count; /* highest stream number + 1, at least 1 */

    /* The device of all events: the only device that the trace uses, or device 0 if it uses none. TRACE_NO_INDEX if it
     * uses several devices; trace_of_device makes a trace of each. */
    uint32_t device;

    uint32_t *stream_device; /* [stream_count]: the device of each stream; if the trace names none, the only device that
                                is used, else 0 */
    uint32_t thread_count;   /* highest thread number + 1, at least 1 */
    uint32_t pool_count;     /* highest private pool number + 1; 0 = the trace uses no private pool */
    uint32_t capture_pool_count; /* highest number of a capture pool + 1; 0 = the trace has no captures */
    uint64_t capture_count;      /* captures begun */

    /* The text and the call stack of each tag; weir_trace_event.tag is an index into `tags` and `stacks`. Two tags may
     * have the same text if their stacks differ. */
    const char **tags;
    const char **stacks; /* the call stack of each tag: frames from the innermost, a newline between two; NULL = not
                            known. The array is NULL if the trace has no stacks. */
    uint32_t tag_count;

    struct trace_event *events;
    size_t event_count;

    /* Messages number the events of the file. In a trace from trace_of_device or trace_filtered, numbers[i] is the
     * number of event i in the file; else NULL, and i is the number. */
    uint64_t *numbers;
    uint64_t file_event_count; /* number of events in the file; equals event_count if `numbers` is NULL */

    const struct trace_part *part; /* NULL if the trace is a whole file or all events of one device of it */
    bool one_of_several;           /* trace_of_device made this trace from a file that uses several devices */

    uint32_t block_count;  /* blocks named by p, a and r */
    uint32_t object_count; /* event objects named by e, x and y */

    const char **notes; /* texts of #note, in order */
    size_t note_count;

    bool has_addresses; /* the trace has blocks (p and a lines), and all of them have addresses */
    bool has_segments;  /* the trace has an s line */
    bool expandable;    /* the recorded allocator used mappings (z lines), or the snapshot sets is_expandable */

    int pad_bytes; /* bytes the recorded allocator added before it rounded to 512: 0 (PyTorch), 32 (torch_npu), or
                      TRACE_PAD_UNKNOWN if no two neighbouring blocks show it */

    /* Reason why recorded addresses and segments can be checked only in part; NULL = no reason. In a .wtr file: the
     * text behind "#note recorded: ". */
    const char *recorded_note;

    /* The settings that the recorded allocator had, as its environment variable takes them (PYTORCH_ALLOC_CONF,
     * PYTORCH_NPU_ALLOC_CONF); NULL = not known, or the defaults. In a .wtr file: the text behind "#note allocator
     * settings: ". */
    const char *allocator_settings;

    struct trace_store *store;
};

struct trace_limits {
    uint64_t max_bytes;  /* most bytes of the unpacked file; 0 = 4 GiB */
    uint64_t max_events; /* 0 = 100,000,000 */
};

struct trace_error {
    weir_status status;
    uint64_t line; /* line of the text, from 1; 0 = no line applies */
    uint64_t byte; /* offset of the error in the pickle, the JSON or the zip, or of the field in a CSV file, from 0 */

    /* The complete message, one line without newline: "FILE:LINE: field 3 (SIZE): ..." or "FILE: byte 1234: ...". */
    char message[512];
};

enum trace_format {
    TRACE_FORMAT_UNKNOWN,
    TRACE_FORMAT_XZ,
    TRACE_FORMAT_GZIP,
    TRACE_FORMAT_WTR,
    TRACE_FORMAT_PICKLE,
    TRACE_FORMAT_CSV,    /* CSV: the column names in the first line decide which reader is used */
    TRACE_FORMAT_JSON,   /* a profile of torch.profiler */
    TRACE_FORMAT_ZIP,    /* torch.save of a snapshot */
    TRACE_FORMAT_SQLITE, /* a profile of nsys or torch_npu */
    TRACE_FORMAT_ZSTD,   /* recognised only to be refused by name */
};

/* Returns the file format that the first bytes show. */
enum trace_format trace_detect(const void *bytes, size_t size);

/* Reads the file `path` ("-" is standard input). `limits` may be NULL. On WEIR_OK the caller owns *out and frees it
 * with trace_free. On failure *out is untouched and *error has the reason: WEIR_ERR_INVALID (wrong content),
 * WEIR_ERR_LIMIT (the content exceeds a limit), WEIR_ERR_UNSUPPORTED (a format that is recognised but not read),
 * WEIR_ERR_DEVICE (the system could not open or read the file), WEIR_ERR_NO_MEMORY. */
weir_status trace_read(const char *path, const struct trace_limits *limits, struct trace **out,
                       struct trace_error *error);

/* Reads a trace from bytes in memory, like trace_read. The caller may free the bytes afterwards. Messages use `name` as
 * the file name. */
weir_status trace_read_memory(const char *name, const void *bytes, size_t size, const struct trace_limits *limits,
                              struct trace **out, struct trace_error *error);

/* Returns the number that trace->events[index] has in the file. */
static inline uint64_t trace_event_number(const struct trace *trace, size_t index)
{
    return trace->numbers != NULL ? trace->numbers[index] : index;
}

/* Returns the number of elements that begin with a uint64_t address at or below `address`, in an array sorted by it. */
size_t trace_up_to(const void *array, size_t count, size_t element, uint64_t address);

/* Returns the number of events up to the last `p` line (a block that is older than the trace). These events
 * describe the state before the trace. */
size_t trace_start_events(const struct trace *trace);

/* Returns the device of the event's stream, else the one that the event names; TRACE_NO_INDEX for an event without
 * either. */
static inline uint32_t trace_event_device(const struct trace *trace, const weir_trace_event *event)
{
    if (event->stream != WEIR_TRACE_NONE) {
        return trace->stream_device[event->stream];
    }
    switch (event->kind) {
    case WEIR_TRACE_PRIOR:
    case WEIR_TRACE_ALLOC:
    case WEIR_TRACE_SEGMENT:
    case WEIR_TRACE_MAPPING:
    case WEIR_TRACE_OOM:
    case WEIR_TRACE_COUNTERS:
        return event->device;
    default:
        return TRACE_NO_INDEX;
    }
}

/* Makes a trace of the events of one device. Streams, blocks and event objects get new numbers without gaps, in the old
 * order; devices, pools, threads and the IDs in the events keep theirs. Events that concern all devices (a sync of the
 * host with everything, marks, capacities, private pools, a trim without a stream) are in the trace of each device. A
 * capture is of the device of its stream; the release of a capture pool is in the trace of each device with a capture
 * of the pool. Events that cross devices are left out, because a replay does not model them: the use of a block on a
 * stream of another device, and the record of or wait for an event object that another device recorded or awaited
 * first. A free on a stream of another device becomes a free on the block's stream. On WEIR_OK the caller owns *out,
 * which does not refer to `trace`. Returns WEIR_ERR_INVALID if the trace does not use the device, WEIR_ERR_NO_MEMORY
 * when out of host memory. */
weir_status trace_of_device(const struct trace *trace, uint32_t device, struct trace **out, struct trace_error *error);

/* True if the trace is of a program's malloc, as `weir record` writes it. The trace must be of one device. */
bool trace_is_of_malloc(const struct trace *trace);

/* True if the trace has counters only, so that there is nothing to replay. */
bool trace_only_counts(const struct trace *trace);

/* The ends of a window, `from` and `to`, belong to the window. */
enum trace_bound_kind {
    TRACE_BOUND_NONE,  /* no bound: the beginning or the end of the trace */
    TRACE_BOUND_EVENT, /* the number of an event */
    TRACE_BOUND_TIME,  /* nanoseconds, as in the trace */
};

struct trace_bound {
    enum trace_bound_kind kind;
    uint64_t value;
};

/* Zeros: the whole trace. */
struct trace_filter {
    struct trace_bound from;
    struct trace_bound to;
    const uint32_t *streams; /* keep only blocks allocated on these streams */
    size_t stream_count;     /* 0 = all */
};

/* Makes a trace of a window, of the blocks of some streams, or both. Like a snapshot, the trace begins with the
 * state at the start of the window: s and z lines for the memory that the recorded allocator holds there, then a p
 * line for each block that is live; a capacity that was set before is that of the devices. These lines have the
 * number of the window's first event. A window that begins or ends in the starting state of the file has all of it.
 * Work that was queued before the window counts as finished. A block that is live at the end stays live. A capture that
 * is under way at the start begins there; of graphs from before the window only the live blocks are known.
 *
 * A block of a stream comes with its frees, and with its uses on any stream. Work, event objects, waits and syncs
 * remain for the streams of the blocks and for those that use or free such a block. Recorded memory remains if its
 * line names one of the streams; totals and refused requests, which concern the whole device, do not.
 *
 * Numbers change as in trace_of_device, and times do not. A note and `part` describe the part. On WEIR_OK the caller
 * owns *out, which does not refer to `trace`. WEIR_ERR_INVALID: the window has no event, a stream is not in the
 * trace or has no block in the window, or a time is given and the clock is not TRACE_CLOCK_NS; WEIR_ERR_NO_MEMORY. */
weir_status trace_filtered(const struct trace *trace, const struct trace_filter *filter, struct trace **out,
                           struct trace_error *error);

/* Frees a trace. NULL is allowed. */
void trace_free(struct trace *trace);

/* Writes `.wtr` text to the file `path`, compressed if `path` ends in .xz or .gz; "-" is standard output, uncompressed.
 * The text goes to a temporary file beside `path`, and the complete file is renamed (out_file.h): a failure leaves the
 * old file. */
weir_status trace_write(const struct trace *trace, const char *path, struct trace_error *error);

/* Like trace_write, but writes the bytes of the file `from`, which contains the text of a trace. */
weir_status trace_pack(const char *from, const char *path, struct trace_error *error);
/* True if trace_write compresses a file of this name. */
bool trace_packs(const char *path);

/* Writes `.wtr` text to memory from malloc, with a NUL behind it. The caller frees *text. */
weir_status trace_write_memory(const struct trace *trace, char **text, size_t *size, struct trace_error *error);

#endif
