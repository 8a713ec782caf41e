/* weir/trace_file.h: traces in files: read every format that the `weir` command reads, visit the events, write `.wtr`,
 * and replay a trace against a strategy on the simulated device. Link weir::trace (CMake) or weir-trace (pkg-config).
 *
 * weir/trace.h has the events and the recorders, benchmarks/weir/trace/README.md the formats and the rules of the
 * import. A program that has events of its own writes them as lines (weir_trace_format) behind the line "#wtr 1" and
 * reads the text with weir_trace_read_memory, which checks it.
 *
 * A trace is consistent and constant: every block is allocated once, freed at most once and not used afterwards. Every
 * string and event that a function returns belongs to the trace and stays valid until weir_trace_free. Texts are one
 * line of UTF-8 that is safe to print: other bytes of the file are written as `\xHH`.
 *
 * Errors: each failure of a function of this header, of any status, leaves a sentence for weir_last_error. The
 * functions print nothing. A NULL argument that is not allowed is WEIR_ERR_INVALID. Functions with a struct to fill in
 * return WEIR_ERR_INVALID also if its struct_size is 0.
 *
 * Threads: all functions are thread-safe. Threads may share a trace, also for replays at the same time; only
 * weir_trace_free must be the last call for it.
 */
#ifndef WEIR_TRACE_FILE_H
#define WEIR_TRACE_FILE_H

#include <weir/base.h>
#include <weir/pool.h>
#include <weir/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_trace weir_trace;

/* --- read --- */

typedef struct weir_trace_limits {
    size_t struct_size;
    uint64_t max_bytes;  /* most bytes of the unpacked file; 0 = 4 GiB */
    uint64_t max_events; /* 0 = 100,000,000 */
} weir_trace_limits;

#define WEIR_TRACE_LIMITS_INIT WEIR_STRUCT_INIT(weir_trace_limits)

/* Reads a trace from the file `path`; "-" is standard input. The content decides the format, never the name; xz and
 * gzip are unpacked. `limits` may be NULL. On success the caller owns *trace and frees it with weir_trace_free.
 * weir_last_error names the file and the line or byte of a wrong content: "weir_trace_read: run.wtr:9: field 3 (ID):
 * block 1 was freed on line 8". Of a long sentence the beginning of the path is left out.
 *
 * Returns WEIR_ERR_INVALID if the content is wrong or no trace, WEIR_ERR_UNSUPPORTED for a format that is recognised
 * and not read (zstd; SQLite where weir was built without it), WEIR_ERR_LIMIT above one of the limits, WEIR_ERR_DEVICE
 * if the system could not open or read the file, WEIR_ERR_NO_MEMORY. */
WEIR_API weir_status weir_trace_read(const char *path, const weir_trace_limits *limits, weir_trace **trace);

/* Reads a trace from `size` bytes in memory, which the caller may free afterwards; `bytes` may be NULL if `size` is 0.
 * Messages use `name` as the name of the file. The results are those of weir_trace_read. */
WEIR_API weir_status weir_trace_read_memory(const char *name, const void *bytes, size_t size,
                                            const weir_trace_limits *limits, weir_trace **trace);

/* Makes a trace of the events of one device, which a replay needs if the trace uses several. Streams and blocks get new
 * numbers without gaps. Events that concern all devices are kept, events that cross devices are left out. On success
 * the caller owns *one, which does not refer to `trace`. Returns WEIR_ERR_INVALID if the trace does not use the device,
 * WEIR_ERR_NO_MEMORY when out of host memory. */
WEIR_API weir_status weir_trace_of_device(const weir_trace *trace, uint32_t device, weir_trace **one);

/* Frees a trace and everything that belongs to it. NULL is allowed. */
WEIR_API void weir_trace_free(weir_trace *trace);

/* --- facts --- */

typedef enum weir_trace_clock {
    WEIR_TRACE_CLOCK_NS = 0,      /* times are nanoseconds since the start */
    WEIR_TRACE_CLOCK_LOGICAL = 1, /* times are positions of a plan */
    WEIR_TRACE_CLOCK_ORDER = 2,   /* times only count events */
} weir_trace_clock;

typedef struct weir_trace_info {
    size_t struct_size;
    const char *path;   /* path of the file, or the name given to weir_trace_read_memory */
    const char *source; /* the origin as the file states it; "" = not stated */
    weir_trace_clock clock;
    uint32_t devices;       /* highest device number + 1; weir_trace_get_device tells which of them are used */
    uint32_t device;        /* the device of all events; WEIR_TRACE_NONE if the trace uses several */
    uint32_t streams;       /* highest stream number + 1 */
    uint32_t threads;       /* highest thread number + 1 */
    uint32_t private_pools; /* highest number of a private pool + 1; 0 = the trace uses none */
    uint32_t tags;          /* number of tags; weir_trace_event.tag is below it or WEIR_TRACE_NONE */
    uint64_t events;
    uint64_t blocks;
    uint64_t notes;
    bool has_addresses; /* the trace has blocks, and the address of each is known */
    bool has_stacks;    /* tags have call stacks */
    bool has_segments;  /* the trace has the device memory of the recorded allocator, or totals of it:
                           weir_trace_replay knows the strategy "recorded" */
    uint64_t captures;  /* graphs that are captured in the trace */
} weir_trace_info;

#define WEIR_TRACE_INFO_INIT WEIR_STRUCT_INIT(weir_trace_info)

/* Fills in *info. */
WEIR_API weir_status weir_trace_get_info(const weir_trace *trace, weir_trace_info *info);

typedef struct weir_trace_device {
    size_t struct_size;
    const char *name;           /* "" = not known */
    uint64_t capacity_bytes;    /* 0 = not known */
    uint64_t granularity_bytes; /* all sizes that the device gives are multiples of this; 0 = not known */
    /* true if an event takes memory of the device or records its use by the recorded allocator */
    bool used;
} weir_trace_device;

#define WEIR_TRACE_DEVICE_INIT WEIR_STRUCT_INIT(weir_trace_device)

/* Fills in *info for a device number below weir_trace_info.devices. Returns WEIR_ERR_INVALID for a larger number. */
WEIR_API weir_status weir_trace_get_device(const weir_trace *trace, uint32_t device, weir_trace_device *info);

/* Returns the text of note `number`, from 0. A note names a fact that the file's format cannot express, or a
 * contradiction in the file. Returns NULL behind the last note. */
WEIR_API const char *weir_trace_note(const weir_trace *trace, uint64_t number);

/* --- events --- */

/* One event, and the facts of the trace that belong to it. */
typedef struct weir_trace_view {
    size_t struct_size;
    const weir_trace_event *event; /* kind, sizes, times, stream, ids as in the file (weir/trace.h) */
    uint64_t number; /* number of the event in the file; differs from the index after weir_trace_of_device only */
    uint32_t block;  /* PRIOR, ALLOC, FREE, USE, REALLOC (the new block): the block, below weir_trace_info.blocks, for
                           tables of the caller; else WEIR_TRACE_NONE */
    uint32_t old_block; /* REALLOC: the old block; else WEIR_TRACE_NONE */
    uint32_t device; /* the device of the event's stream, or the one that the event names; WEIR_TRACE_NONE for an event
                           without either */
    const char *tag; /* call site, operator or layer; NULL = not known */
    const char *stack; /* call stack of the tag: frames, the innermost first, a newline between two; NULL = not known */
} weir_trace_view;

#define WEIR_TRACE_VIEW_INIT WEIR_STRUCT_INIT(weir_trace_view)

/* Fills in *view for the event `index`, from 0, in the order of the file. Returns WEIR_ERR_INVALID if the trace has no
 * such event. Takes constant time. */
WEIR_API weir_status weir_trace_get_event(const weir_trace *trace, uint64_t index, weir_trace_view *view);

/* --- write --- */

/* Writes the trace as `.wtr` text to the file `path`, compressed if the name ends in .xz or .gz; "-" is standard
 * output. The text goes to a temporary file beside `path`, which then gets the name: a failure leaves the old file.
 * Returns WEIR_ERR_DEVICE if the system could not write, WEIR_ERR_NO_MEMORY when out of host memory. */
WEIR_API weir_status weir_trace_write(const weir_trace *trace, const char *path);

/* Passes the trace as `.wtr` text to the sink, in one call. Returns WEIR_ERR_DEVICE if the sink refused the text,
 * WEIR_ERR_NO_MEMORY when out of host memory. */
WEIR_API weir_status weir_trace_write_to(const weir_trace *trace, weir_record_sink sink, void *ctx);

/* --- replay --- */

enum {
    /* weir_pool_check after every event. Slow. */
    WEIR_TRACE_REPLAY_CHECK = 1u << 0,
    /* Leave the auditor out: hazards stay 0. */
    WEIR_TRACE_REPLAY_NO_AUDIT = 1u << 1,
    /* Measure the wall time of the pool's calls. */
    WEIR_TRACE_REPLAY_TIMES = 1u << 2,
    /* Do not tell the pool of uses on other streams (`u`): shows the hazards of a program that forgets them. */
    WEIR_TRACE_REPLAY_IGNORE_USES = 1u << 3,
};

typedef struct weir_trace_replay_config {
    size_t struct_size;
    /* A name of weir_trace_strategy, or "recorded": the figures of the recorded allocator itself, for which nothing is
     * simulated. NULL = the strategy of `pool`; if `pool` has no strategy, "caching". "caching" and "size_class" take
     * regions, "caching+vm" and "size_class+vm" map memory; for the strategy of `pool` its flags decide.
     * "pytorch[...]" and "torch_npu[...]": PyTorch's allocator and torch_npu's with the settings of PYTORCH_ALLOC_CONF
     * and PYTORCH_NPU_ALLOC_CONF in the brackets; of `pool` they take limit_bytes only, as memory of the device. */
    const char *strategy;
    /* Settings of the pool as for weir_pool_create: limits, flags, growth, callbacks. Its members strategy and
     * strategy_config may give a strategy of the caller's own if `strategy` above is NULL; else they must be NULL.
     * `device` must be NULL. NULL = all defaults. */
    const weir_pool_config *pool;
    /* memory of the simulated device, 2 MiB to 16 TiB; 0 = the capacity at which the recorded program ran out of
     * memory, else the capacity in the trace, else 16 TiB */
    uint64_t capacity_bytes;
    uint64_t seed;   /* not 0: simulated work takes 75 to 125 % of its recorded time; 0 = exactly that time */
    uint32_t repeat; /* play the events this many times in a row; 0 = once */
    uint32_t flags;  /* WEIR_TRACE_REPLAY_... */
    /* Receives sentences before weir_trace_replay returns, in the calling thread. Each hazard gives one sentence (at
     * most 50; hazards with earlier work still running come first). If memory ran out, the pool's report follows (the
     * lines of weir_oom_explain). For "recorded" there is one sentence if the figures may be wrong. `text` has no
     * newline at its end and is valid during the call. NULL = no sentences. */
    void (*report)(void *ctx, const char *text);
    void *report_ctx;
} weir_trace_replay_config;

#define WEIR_TRACE_REPLAY_CONFIG_INIT WEIR_STRUCT_INIT(weir_trace_replay_config)

/* The figures of one replay: a row of `weir replay`. Sizes are bytes. Figures end before a request that was refused. */
typedef struct weir_trace_figures {
    size_t struct_size;
    uint64_t peak_live_bytes;     /* highest sum of the requested sizes of live blocks */
    uint64_t peak_reserved_bytes; /* highest sum of the memory that the device gave */
    double ratio;                 /* peak reserved over peak live; 1 if no byte was live */
    /* the event at which reserved memory peaked; free_bytes and largest_free_bytes are those at this event */
    uint64_t peak_event;
    uint64_t free_bytes;         /* free memory in the pool */
    uint64_t largest_free_bytes; /* the largest free piece */
    uint64_t prior_blocks;       /* blocks that were live before the first event */
    uint64_t allocs;
    uint64_t frees;
    uint64_t events;                /* events played */
    uint64_t device_calls;          /* all calls to the device, events and queries included */
    uint64_t warm_device_calls;     /* the part of device_calls after live memory first reached its peak */
    uint64_t warm_allocs;           /* allocs after live memory first reached its peak */
    uint64_t device_ns;             /* simulated time of the device calls */
    uint64_t waits;                 /* stream waits that the pool inserted */
    uint64_t syncs;                 /* times that the host waited for a stream */
    bool out_of_memory;             /* a request failed; the replay ended there */
    uint64_t oom_event;             /* number of that event */
    uint64_t oom_bytes;             /* its request */
    uint64_t hazards;               /* findings of the auditor: races, early reuse, leaks; 0 = correct */
    uint64_t hazards_in_flight;     /* hazards with earlier work still running, among the first 10,000 */
    uint64_t checks;                /* passed checks */
    double p50_ns, p99_ns, p999_ns; /* wall time of a pool call, percentiles; 0 without WEIR_TRACE_REPLAY_TIMES */
    double seconds;                 /* wall time of the events */
    uint64_t capture_bytes;         /* the most memory that all captured graphs need together (weir/capture.h) */
} weir_trace_figures;

#define WEIR_TRACE_FIGURES_INIT WEIR_STRUCT_INIT(weir_trace_figures)

/* Returns the name of strategy `number`, from 0, of the strategies that weir_trace_replay knows by name; NULL behind
 * the last one. The text is constant. */
WEIR_API const char *weir_trace_strategy(size_t number);

/* Replays the trace on a simulated device of its own and fills in *figures. `config` may be NULL. Prices of device
 * calls are those of weir_sim_create. Without WEIR_TRACE_REPLAY_TIMES the figures except `seconds` are the same on
 * every machine. Memory that runs out and hazards are results, not failures: WEIR_OK.
 *
 * "recorded" reads the recorded allocator's memory from the trace: device_ns, waits, syncs, hazards, checks and times
 * stay 0, capacity_bytes and `pool` play no part.
 *
 * Returns WEIR_ERR_INVALID for an unknown strategy or flag, a capacity out of range, a config of the pool with a device
 * or one that weir_pool_create refuses, a trace that uses several devices (weir_trace_of_device) or has totals and no
 * blocks, "recorded" without weir_trace_info.has_segments; WEIR_ERR_UNSUPPORTED if the strategy cannot serve a pool
 * with these flags; WEIR_ERR_INTERNAL if a check failed or the strategy broke its contract; WEIR_ERR_NO_MEMORY if there
 * is no host memory. *figures is then unchanged. */
WEIR_API weir_status weir_trace_replay(const weir_trace *trace, const weir_trace_replay_config *config,
                                       weir_trace_figures *figures);

#ifdef __cplusplus
}
#endif

#endif
