/* weir/trace.h: allocation traces: one event as a struct and as a line of `.wtr`, and recording: a live pool, or whatever a
 * caller notes.
 *
 * `.wtr` version 1 is text, one event a line, fields separated by one blank; the order of lines is the order of
 * events. benchmarks/trace/README.md has the grammar; the reader and the importers live there too.
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <weir/base.h>
#include <weir/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, letter): every kind of line that is an event. */
#define WEIR_TRACE_KIND_LIST(X)                                                                    \
    X(PRIOR, 'p')    /* a block that was live before the window */                                 \
    X(ALLOC, 'a')                                                                                  \
    X(FREE, 'f')                                                                                   \
    X(REALLOC, 'r')                                                                                \
    X(USE, 'u')      /* a block is used on another stream */                                       \
    X(WORK, 'w')     /* device work of a duration */                                               \
    X(RECORD, 'e')   /* event recorded on a stream */                                              \
    X(WAIT, 'x')     /* stream waits for an event */                                               \
    X(SYNC, 'y')     /* host waits */                                                              \
    X(TRIM, 'c')     /* cached memory released */                                                  \
    X(CAPACITY, 'l') /* capacity or budget change */                                               \
    X(MARK, 'm')     /* phase begin, end, instant */                                               \
    X(POOL, 'q')     /* enter or leave a private pool */                                           \
    X(SEGMENT, 's')  /* recorded truth: driver segment */                                          \
    X(MAPPING, 'z')  /* recorded truth: physical memory mapped or unmapped */                      \
    X(OOM, 'o')      /* recorded truth: out of memory */                                           \
    X(COUNTERS, 'v') /* recorded truth: counters */

typedef enum weir_trace_kind {
#define WEIR_TRACE_KIND_ENUM(name, letter) WEIR_TRACE_##name = (letter),
    WEIR_TRACE_KIND_LIST(WEIR_TRACE_KIND_ENUM)
#undef WEIR_TRACE_KIND_ENUM
} weir_trace_kind;

#define WEIR_TRACE_NONE UINT32_MAX /* no stream, tag, pool or thread given */

/* One event. Members a kind does not use are zero (`stream`, `tag`, `pool`: WEIR_TRACE_NONE). */
typedef struct weir_trace_event {
    weir_trace_kind kind;
    char mode;         /* USE: 'r', 'w' or 0; SYNC: '*', 's' (stream) or 'e' (event); MARK: 'B', 'E', 'I';
                          POOL, SEGMENT, MAPPING: '+' or '-'; ALLOC: advice 's', 't' (step), 'l', 'p' or 0 */
    uint32_t device;   /* PRIOR, ALLOC */
    uint32_t stream;   /* FREE with WEIR_TRACE_NONE: host order, written '-' */
    uint32_t thread;   /* host thread */
    uint32_t tag;      /* index into the tag dictionary: call site, operator, layer */
    uint32_t pool;     /* private pool */
    uint64_t time_ns;  /* since the start; all but PRIOR */
    uint64_t id;       /* block; RECORD, WAIT and SYNC 'e': event. REALLOC: the new block */
    uint64_t old_id;   /* REALLOC: the block that it replaces */
    uint64_t size;     /* bytes requested. WORK: duration in ns. CAPACITY: bytes. COUNTERS: reserved. OOM: request */
    uint64_t extra;    /* ALLOC: alignment or 0. OOM: free bytes. COUNTERS: allocated bytes */
    uint64_t address;  /* PRIOR, ALLOC, SEGMENT, MAPPING; 0 = not known */
    const char *name;  /* MARK: its text, owned by whoever made the event */
} weir_trace_event;

/* Writes the event as one line with its newline and a NUL, as snprintf does: returns the length it takes, which is at
 * least `size` when it did not fit. Thread-safe. */
WEIR_API size_t weir_trace_format(const weir_trace_event *event, char *line, size_t size);

/* --- recording from a live pool --- */

typedef struct weir_recorder weir_recorder;

/* Takes `length` bytes of `.wtr` text; returns false when it cannot, which ends the recording (losses are counted). */
typedef bool (*weir_record_sink)(void *ctx, const char *text, size_t length);

typedef struct weir_recorder_config {
    size_t struct_size;
    weir_record_sink sink; /* required; called from weir_recorder_drain and weir_recorder_stop only */
    void *sink_ctx;
    uint32_t ring_events; /* events a thread's ring holds between two drains; rounded up to a power of two;
                             0 = 65,536 */
    const char *source;   /* written as #src; NULL = "weir pool" */
} weir_recorder_config;

#define WEIR_RECORDER_CONFIG_INIT WEIR_STRUCT_INIT(weir_recorder_config)

/* Begins to record every alloc, free, use, recorded, waited, synced and trim of `pool`. Blocks that are live already
 * appear as `p` lines. Each calling thread gets a ring of its own, so recording adds no shared lock to the hot path;
 * when a ring is full its events are dropped and counted, and the drain keeps the trace consistent: a free or use whose
 * alloc was lost is dropped and counted too. Where a free was lost, the block stays live in the trace until its
 * address begins another block. A pool that is destroyed while it is recorded frees its live blocks in the trace;
 * events that are drained after that have no tags. Thread-safe; a call that another thread makes in the same moment may
 * or may not be recorded. WEIR_ERR_BUSY: the pool has a recorder. WEIR_ERR_INVALID: NULL argument or no sink.
 * WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_recorder_start(weir_pool *pool, const weir_recorder_config *config,
                                         weir_recorder **recorder);

/* Writes out what the rings hold, in the order in which it happened. Call it as often as the rings would otherwise
 * fill, while the pool is in use. An event that another thread is just writing waits, with all later ones, for the next
 * drain. *lost, when not NULL: events dropped since the start, also after a failure. WEIR_ERR_DEVICE: the sink refused
 * text, now or earlier; what it refused and everything since counts as lost. */
WEIR_API weir_status weir_recorder_drain(weir_recorder *recorder, uint64_t *lost);

/* Ends the recording, drains, writes "#note lost N events" when N > 0, and frees the recorder, also when the sink
 * refuses (WEIR_ERR_DEVICE). The pool must not be in use by other threads; what is fed by hand must have ended. A child of
 * fork records nothing, and for it this returns WEIR_OK at once and closes the child's copy of the file, if there is one.
 * WEIR_ERR_BUSY: a heap still notes in the recorder; weir_heap_record ends that. */
WEIR_API weir_status weir_recorder_stop(weir_recorder *recorder, uint64_t *lost);

/* --- recording what no pool of weir's serves --- */

/* A recorder that is fed by hand: by a heap, by another allocator, by an engine's own hooks. The config is as above.
 * WEIR_ERR_INVALID: NULL argument or no sink. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_recorder_create(const weir_recorder_config *config, weir_recorder **recorder);

/* Notes an event as of now. Never fails: what finds its ring full is lost and counted, but for a recorder to a file, which
 * is drained first by whoever finds it so. Thread-safe.
 *
 * `id` is any number that names a block while it is live, such as its address; `stream`, and the `id` of an event, are any
 * that name those. All are numbered anew in the trace, and so are threads; time_ns, thread and tag are filled in. An alloc is
 * noted once the block is the caller's, a free before anybody else can have its name. An alloc under a name that is live
 * says that a free was lost: the trace then frees the block first.
 *
 *     PRIOR      id, size, stream; device, address. Before an alloc of the same block
 *     ALLOC      id, size, stream; device, address, extra
 *     FREE       id; stream, or WEIR_TRACE_NONE
 *     REALLOC    old_id, id, size; stream, for a block whose alloc was lost. Where the old name may belong to others before
 *                the call returns, it is noted twice: mode 'B' with old_id before, and 'E' with all, in the same thread,
 *                after; `id` is 0 when it failed and the old block stays
 *     USE, WORK, RECORD, WAIT, SYNC, TRIM, CAPACITY, OOM    as in the struct
 *
 * Other kinds, an event without a stream it needs, and a device from 4,096 are ignored. */
WEIR_API void weir_recorder_note(weir_recorder *recorder, const weir_trace_event *event);

/* --- recording to a file --- */

/* The same two with a file as the sink, which a thread of the recorder writes every 20 ms and weir_recorder_stop completes.
 * No event is lost for want of room. The file is plain text whatever its name; `weir import` packs it. An old file of that
 * name is replaced. `source` as in the config. When the file cannot be written any more (a full disk), it keeps what it has
 * up to a whole line, the rest is counted as lost, and weir_recorder_stop returns WEIR_ERR_DEVICE with the reason in errno.
 * The program's signals stay as they are: it sees no SIGXFSZ and no SIGPIPE of these writes.
 * WEIR_ERR_DEVICE: the file cannot be opened; errno says why, and nothing has changed. Else as above. */
WEIR_API weir_status weir_recorder_create_file(const char *path, const char *source, weir_recorder **recorder);
WEIR_API weir_status weir_recorder_start_file(weir_pool *pool, const char *path, const char *source,
                                              weir_recorder **recorder);

#ifdef __cplusplus
}
#endif

#endif
