/* weir/trace.h: allocation traces: one event as a struct and as a line of `.wtr`, and recorders of events. The events
 * come from a live pool, or the caller notes them.
 *
 * `.wtr` version 1 is text, one event a line, fields separated by one blank; the order of lines is the order of events.
 * benchmarks/weir/trace/README.md has the grammar. The reader and the importers are a library: weir/trace_file.h.
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <weir/base.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, letter): the kinds of event lines. */
#define WEIR_TRACE_KIND_LIST(X)                                                                                        \
    X(PRIOR, 'p') /* a block that was live before the recording */                                                     \
    X(ALLOC, 'a')                                                                                                      \
    X(FREE, 'f')                                                                                                       \
    X(REALLOC, 'r')                                                                                                    \
    X(USE, 'u')      /* a block is used on another stream */                                                           \
    X(WORK, 'w')     /* device work of a duration */                                                                   \
    X(RECORD, 'e')   /* event recorded on a stream */                                                                  \
    X(WAIT, 'x')     /* stream waits for an event */                                                                   \
    X(SYNC, 'y')     /* host waits */                                                                                  \
    X(TRIM, 'c')     /* cached memory released */                                                                      \
    X(CAPACITY, 'l') /* capacity or budget change */                                                                   \
    X(MARK, 'm')     /* phase begin, end, instant */                                                                   \
    X(POOL, 'q')     /* enter or leave a private pool */                                                               \
    X(CAPTURE, 'g')  /* a graph is captured into a capture pool, or the graphs of the pool are gone */                 \
    X(SEGMENT, 's')  /* for comparison with a replay: a segment of the driver */                                       \
    X(MAPPING, 'z')  /* for comparison with a replay: physical memory mapped or unmapped */                            \
    X(OOM, 'o')      /* for comparison with a replay: out of memory */                                                 \
    X(COUNTERS, 'v') /* for comparison with a replay: counters */

typedef enum weir_trace_kind {
#define WEIR_TRACE_KIND_ENUM(name, letter) WEIR_TRACE_##name = (letter),
    WEIR_TRACE_KIND_LIST(WEIR_TRACE_KIND_ENUM)
#undef WEIR_TRACE_KIND_ENUM
} weir_trace_kind;

#define WEIR_TRACE_NONE UINT32_MAX /* value of stream, tag, pool or thread if there is none */

/* One event. Members that a kind does not use are zero (`stream`, `tag`, `pool`: WEIR_TRACE_NONE). */
typedef struct weir_trace_event {
    weir_trace_kind kind;
    char mode;        /* USE: 'r' read, 'w' write, 0 unknown. SYNC: '*' the device, 's' a stream, 'e' an event.
                          MARK: 'B' begin, 'E' end, 'I' instant. POOL: '+' enter, '-' leave. CAPTURE: 'B' begins, 'E'
                          ends, 'R' the capture pool is released: its graphs are gone. SEGMENT: '+' allocated, '-'
                          freed. MAPPING: '+' mapped, '-' unmapped. ALLOC, advice on the block's life: 's' short, 't' a
                          step, 'l' long, 'p' persistent, 0 none */
    uint32_t device;  /* PRIOR, ALLOC */
    uint32_t stream;  /* stream of the event. FREE with WEIR_TRACE_NONE: a free in host order, written '-' */
    uint32_t thread;  /* host thread */
    uint32_t tag;     /* index into the tag dictionary: call site, operator, layer */
    uint32_t pool;    /* private pool; CAPTURE: the capture pool */
    uint64_t time_ns; /* time since the start of the trace; PRIOR has none */
    uint64_t id;      /* number of the block. RECORD, WAIT and SYNC 'e': number of the event. REALLOC: number of the
                         new block */
    uint64_t old_id;  /* REALLOC: the block that it replaces */
    uint64_t size;    /* bytes requested. WORK: duration in ns. CAPACITY: bytes. COUNTERS: reserved. OOM: request */
    uint64_t extra;   /* ALLOC: alignment or 0. OOM: free bytes. COUNTERS: allocated bytes */
    uint64_t address; /* address in PRIOR, ALLOC, SEGMENT and MAPPING; 0 = not known */
    const char *name; /* MARK: its text, owned by the creator of the event */
} weir_trace_event;

/* Formats the event as one line with its newline and a NUL. Works like snprintf: returns the length of the whole line,
 * which is at least `size` if the line did not fit. Thread-safe. */
WEIR_API size_t weir_trace_format(const weir_trace_event *event, char *line, size_t size);

/* --- recording from a live pool --- */

typedef struct weir_recorder weir_recorder;

/* Takes `length` bytes of `.wtr` text. Returns false to end the recording; the lost events are counted. */
typedef bool (*weir_record_sink)(void *ctx, const char *text, size_t length);

typedef struct weir_recorder_config {
    size_t struct_size;
    weir_record_sink sink; /* required; called from weir_recorder_drain and weir_recorder_stop only */
    void *sink_ctx;
    uint32_t ring_events; /* events that the ring buffer of a thread holds between two drains; rounded up to a power
                             of two; 0 = 65,536 */
    const char *source;   /* written as #src; NULL = "weir pool" */
} weir_recorder_config;

#define WEIR_RECORDER_CONFIG_INIT WEIR_STRUCT_INIT(weir_recorder_config)

/* Starts to record every alloc, free, use, recorded, waited, synced, trim and capture of `pool`. Blocks that are live
 * already appear as `p` lines. Each calling thread gets its own ring buffer, so recording adds no shared lock to the
 * fast path. If a ring buffer is full, its events are dropped and counted. The drain keeps the trace consistent: it
 * also drops and counts a free or use of a block with a lost alloc. If a free was lost, the block stays live in the
 * trace until another block begins at its address. If a recorded pool is destroyed, its live blocks are freed in the
 * trace, and events drained after that have no tags. A call that another thread makes at the same moment may or may not
 * be recorded. Returns WEIR_ERR_BUSY if the pool has a recorder, WEIR_ERR_INVALID if an argument is NULL or there is no
 * sink, WEIR_ERR_NO_MEMORY if there is no host memory. Thread-safe. */
WEIR_API weir_status weir_recorder_start(weir_pool *pool, const weir_recorder_config *config, weir_recorder **recorder);

/* Writes the events of the ring buffers to the sink, in the order in which they happened. Call it often enough that the
 * ring buffers do not fill. The pool may be in use. If another thread is writing an event, that event and all later
 * ones wait for the next drain. *lost, if `lost` is not NULL: the number of events dropped since the start, also after
 * a failure. Returns WEIR_ERR_DEVICE if the sink refused text, now or earlier: that text and all later text counts as
 * lost. */
WEIR_API weir_status weir_recorder_drain(weir_recorder *recorder, uint64_t *lost);

/* Ends the recording, drains, writes "#note lost N events" if N > 0, and frees the recorder, even if the sink refuses
 * (WEIR_ERR_DEVICE). No other thread may use the pool or note events during the call. A child of fork records nothing:
 * there the call returns WEIR_OK at once and closes the child's copy of the file, if there is one. Returns
 * WEIR_ERR_BUSY while a heap notes events in the recorder; weir_heap_record ends that. */
WEIR_API weir_status weir_recorder_stop(weir_recorder *recorder, uint64_t *lost);

/* --- recording memory that no pool of weir serves --- */

/* Creates a recorder for events that the caller notes: a heap, another allocator, or an engine's own hooks. The config
 * is as for weir_recorder_start. Returns WEIR_ERR_INVALID if an argument is NULL or there is no sink,
 * WEIR_ERR_NO_MEMORY if there is no host memory. */
WEIR_API weir_status weir_recorder_create(const weir_recorder_config *config, weir_recorder **recorder);

/* Notes an event at the current time. Never fails: if the thread's ring buffer is full, the event is lost and counted.
 * A recorder to a file loses none: the thread that finds the ring buffer full drains it first. Thread-safe.
 *
 * `id` is any number that identifies a block while it is live, such as its address. `stream`, and the `id` of an event,
 * are any numbers that identify those. The trace numbers all of them anew, and threads too; time_ns, thread and tag are
 * filled in. Note an alloc once the caller has the block, and a free before another block can get the same id. An alloc
 * with the id of a live block means that a free was lost: the trace then frees the old block first.
 *
 *     PRIOR      id, size, stream; device, address. Before an alloc of the same block
 *     ALLOC      id, size, stream; device, address, extra
 *     FREE       id; stream, or WEIR_TRACE_NONE
 *     REALLOC    old_id, id, size; stream, for a block with a lost alloc. If another block may get the old id before
 *                the realloc returns, note it twice in the same thread: with mode 'B' and old_id before, and with mode
 *                'E' and all members after. In the second, `id` is 0 if the realloc failed and the old block stays
 *     CAPTURE    mode, pool; stream for 'B'. A capture whose end is lost ends when its pool or its stream begins
 *                another, and when its pool is released
 *     USE, WORK, RECORD, WAIT, SYNC, TRIM, CAPACITY, OOM    as in the struct
 *
 * Other kinds, an event without a stream that it needs, and a device number of 4,096 or more are ignored. */
WEIR_API void weir_recorder_note(weir_recorder *recorder, const weir_trace_event *event);

/* --- recording to a file --- */

/* Create a recorder as weir_recorder_create and weir_recorder_start do, with a file as the sink. A thread of the
 * recorder writes the file every 20 ms, and weir_recorder_stop completes it. No event is lost because a ring buffer is
 * full. The file is plain text, whatever its name; `weir import` packs it. An existing file of that name is replaced.
 * `source` is as in the config. If the file cannot be written any more (a full disk), it keeps its text up to the last
 * whole line, further events count as lost, and weir_recorder_stop returns WEIR_ERR_DEVICE with the reason in errno.
 * The program receives no SIGXFSZ and no SIGPIPE from these writes, and its signal settings do not change. The thread
 * blocks all signals, keeps the library loaded, and ends with the last thread of the program. Return WEIR_ERR_DEVICE if
 * the file cannot be opened: errno holds the reason, and nothing has changed. Other errors are as for the two functions
 * above. */
WEIR_API weir_status weir_recorder_create_file(const char *path, const char *source, weir_recorder **recorder);
WEIR_API weir_status weir_recorder_start_file(weir_pool *pool, const char *path, const char *source,
                                              weir_recorder **recorder);

#ifdef __cplusplus
}
#endif

#endif
