/* trace.h: an allocation trace in memory, read from `.wtr` text or from a PyTorch memory snapshot.
 *
 * Promise: what trace_read returns is consistent. Every block is born once, by `p`, `a` or `r`; it is freed at most
 * once and not used afterwards; every number is in range and every tag index is defined. Whoever replays a trace need
 * not check again. What is wrong with a file is said in one line that names the file and the line or byte.
 *
 * The format follows the content, never the suffix: xz and gzip are unpacked, then `#wtr ` or a pickle is expected.
 * README.md has the grammar, the limits and the rules of the import. Nothing here is thread-safe for one trace that is
 * being read or freed; a finished trace is constant and may be shared.
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

/* Streams, threads, devices and pools are small integers; a larger number is an error, because whoever replays keeps
 * tables by these numbers. */
#define TRACE_MAX_STREAMS 1048576u
#define TRACE_MAX_THREADS 1048576u
#define TRACE_MAX_POOLS 1048576u
#define TRACE_MAX_DEVICES 4096u

struct trace_device {
    uint64_t capacity;    /* bytes; 0 = not given */
    uint64_t granularity; /* bytes; 0 = not given */
    const char *name;     /* "" = not given */
    bool declared;        /* has a #dev line */
};

struct trace_event {
    weir_trace_event event;

    /* PRIOR, ALLOC, FREE, USE and REALLOC (the new block): the block, 0 .. block_count - 1. RECORD, WAIT and SYNC with
     * mode 'e': the event object, 0 .. object_count - 1. Everything else: TRACE_NO_INDEX. */
    uint32_t index;
    uint32_t old_index; /* REALLOC: the block that goes; else TRACE_NO_INDEX */
};

struct trace_store; /* owns every string below */

struct trace {
    const char *path;   /* where it was read from */
    const char *source; /* text of #src, "" when absent */
    enum trace_clock clock;

    /* devices[d] is device number d; at least one entry, also when the trace names none. */
    struct trace_device *devices;
    uint32_t device_count;

    uint32_t stream_count;   /* highest stream number + 1, at least 1 */
    uint32_t *stream_device; /* [stream_count]: the device of each; 0 when the trace does not say */
    uint32_t thread_count;   /* highest thread number + 1, at least 1 */
    uint32_t pool_count;     /* highest private pool number + 1; 0 = none is used */

    const char **tags; /* weir_trace_event.tag is an index into this */
    uint32_t tag_count;

    struct trace_event *events;
    size_t event_count;
    uint32_t block_count;  /* blocks named by p, a and r */
    uint32_t object_count; /* event objects named by e, x and y */

    const char **notes; /* texts of #note, in order */
    size_t note_count;

    bool has_addresses;       /* every p and a line (there is one at least) carries an address */
    bool has_segments;        /* there is an s line */
    bool expandable;          /* there is a z line, or the snapshot said is_expandable */
    bool streams_mix_devices; /* a stream was named with two devices; stream_device has the first */

    int pad_bytes; /* bytes the recorded allocator added before it rounded to 512: 0 (PyTorch), 32 (torch_npu), or
                      TRACE_PAD_UNKNOWN when no two neighbouring blocks tell */

    /* Why recorded addresses and segments can be checked in part only; NULL = no reason. In a .wtr file: the text
     * behind "#note recorded: ". */
    const char *recorded_note;

    struct trace_store *store;
};

struct trace_limits {
    uint64_t max_bytes;  /* of the file after unpacking; 0 = 4 GiB */
    uint64_t max_events; /* 0 = 100,000,000 */
};

struct trace_error {
    weir_status status;
    uint64_t line; /* of text, from 1; 0 = none applies */
    uint64_t byte; /* of a pickle, from 0 */

    /* Complete, one line, no newline: "FILE:LINE: field 3 (SIZE): ..." or "FILE: byte 1234: ...". */
    char message[512];
};

enum trace_format {
    TRACE_FORMAT_UNKNOWN,
    TRACE_FORMAT_XZ,
    TRACE_FORMAT_GZIP,
    TRACE_FORMAT_WTR,
    TRACE_FORMAT_PICKLE,
    TRACE_FORMAT_JSON, /* recognised to be refused by name, as are the next two */
    TRACE_FORMAT_ZIP,
    TRACE_FORMAT_ZSTD,
};

/* What the first bytes say. */
enum trace_format trace_detect(const void *bytes, size_t size);

/* Reads the file `path` ("-" is standard input). `limits` may be NULL. On WEIR_OK *out is the caller's to give to
 * trace_free; otherwise *out is untouched and *error says why: WEIR_ERR_INVALID (the content), WEIR_ERR_LIMIT (too
 * much of it), WEIR_ERR_UNSUPPORTED (a format that is recognised and not read), WEIR_ERR_DEVICE (the system could not
 * open or read it), WEIR_ERR_NO_MEMORY. */
weir_status trace_read(const char *path, const struct trace_limits *limits, struct trace **out,
                       struct trace_error *error);

/* The same for bytes in memory, which may be freed afterwards; `name` stands for the file in messages. */
weir_status trace_read_memory(const char *name, const void *bytes, size_t size,
                              const struct trace_limits *limits, struct trace **out,
                              struct trace_error *error);

/* NULL is allowed. */
void trace_free(struct trace *trace);

/* Writes `.wtr` text to the file `path`, packed when it ends in .xz or .gz; "-" is standard output, plain. The text is
 * written to a file beside `path`, which takes its place when it is whole (out_file.h): a failure leaves the old file. */
weir_status trace_write(const struct trace *trace, const char *path, struct trace_error *error);

/* Writes the bytes of the file `from`, text of a trace, to `path` in the same way. */
weir_status trace_pack(const char *from, const char *path, struct trace_error *error);
/* Whether the name asks for packing. */
bool trace_packs(const char *path);

/* The same text in memory from malloc, with a NUL behind it. */
weir_status trace_write_memory(const struct trace *trace, char **text, size_t *size,
                               struct trace_error *error);

#endif
