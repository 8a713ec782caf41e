/* weir/trace.h: allocation traces: one event as a struct and as a line of `.wtr`, and recording from a live pool.
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
 * alloc was lost is dropped and counted too. A block whose free was lost stays live in the trace.
 * Thread-safe; a call that another thread makes in the same moment may or may not be recorded.
 * WEIR_ERR_BUSY: the pool has a recorder. WEIR_ERR_INVALID: NULL argument or no sink. WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_recorder_start(weir_pool *pool, const weir_recorder_config *config,
                                         weir_recorder **recorder);

/* Writes out what the rings hold, in the order in which it happened. Call it as often as the rings would otherwise
 * fill, while the pool is in use. An event that another thread is just writing waits, with all later ones, for the next
 * drain. *lost, when not NULL: events dropped since the start, also after a failure. WEIR_ERR_DEVICE: the sink refused
 * text, now or earlier; what it refused and everything since counts as lost. */
WEIR_API weir_status weir_recorder_drain(weir_recorder *recorder, uint64_t *lost);

/* Ends the recording, drains, writes "#note lost N events" when N > 0, and frees the recorder, also when the sink
 * refuses (WEIR_ERR_DEVICE). The pool must not be in use by other threads. */
WEIR_API weir_status weir_recorder_stop(weir_recorder *recorder, uint64_t *lost);

#ifdef __cplusplus
}
#endif

#endif
