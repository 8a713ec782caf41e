/* profile.h: makes a trace from the records of a profiler: memory events, device work and waits, each with a time.
 *
 * A reader of a profiler's format adds the records in the order of its file, and profile_finish does everything that
 * does not depend on the format: it orders the records by time, puts device work at the time of its launch, pairs frees
 * with allocations, finds the stream and the tag of each allocation, numbers streams, and writes notes about gaps.
 *
 * Rules:
 * - Device work belongs to the time at which the host launched it. The launch is the host call with the same
 *   correlation number.
 * - Most profilers do not record the stream of an allocation. Without a stream of its own, an allocation is on the
 *   stream of the next work that its thread launches on its device, because the caller allocates a result just before
 *   it launches the kernel that fills it; else on the stream of the last such work; else on the stream of the device
 *   that runs most work. A free without a stream is on that of its block.
 * - The tag of an allocation is the innermost range of its thread around its time; without one, its own name, or that
 *   of its host call.
 * - If work has other device numbers than memory (ROCm), and there is one device of each, the two are one device.
 * - A free without an allocation is of a block that was live before the recording (`p`). An allocation at the address
 *   of a live block means that a free was lost; the trace gets one.
 * - Memory from before the recording that no free names becomes blocks of their own (`p`), if the file has totals.
 *
 * Functions that return bool fill in the error before they return false. Costs: 64 bytes for each record until the end,
 * and a sort.
 */
#ifndef WEIR_BENCHMARKS_PROFILE_H
#define WEIR_BENCHMARKS_PROFILE_H

#include "before.h"
#include "trace_internal.h"

#define PROFILE_MAX_STREAM ((UINT64_C(1) << 52) - 1)
#define PROFILE_MAX_SPACES 4096u

enum profile_kind {
    PROFILE_ALLOC,  /* uses key, size, device, space; stream and correlation if known */
    PROFILE_FREE,   /* as PROFILE_ALLOC */
    PROFILE_WORK,   /* uses device, stream, size = duration in ns, and correlation */
    PROFILE_RECORD, /* event, device, stream; correlation */
    PROFILE_WAIT,   /* event, device, stream; correlation */
    /* the host waits for the whole device; uses correlation. Left out if several devices have memory */
    PROFILE_SYNC_DEVICE,
    PROFILE_SYNC_STREAM, /* device, stream; correlation */
    PROFILE_SYNC_EVENT,  /* event; correlation */
    PROFILE_COUNTERS,    /* size = reserved bytes, extra = allocated bytes. Left out if several devices have memory */
};

struct profile_item {
    int64_t time_ns;
    /* ALLOC, FREE: address or other number of a live block. RECORD, WAIT, SYNC_EVENT: the event object */
    uint64_t key;
    uint64_t size;   /* used by ALLOC, FREE, WORK and COUNTERS */
    uint64_t extra;  /* COUNTERS: allocated bytes. All other kinds: correlation number, 0 = none */
    uint32_t stream; /* number from profile_stream, or WEIR_TRACE_NONE */
    uint32_t device;
    uint32_t thread; /* number from profile_thread; work gets the thread that launched it */
    uint32_t name;   /* number from profile_name, or WEIR_TRACE_NONE */
    /* ALLOC, FREE: number from profile_space. Equal keys with different spaces are different blocks */
    uint32_t space;
    uint32_t order; /* position among the records of the file */
    uint16_t kind;
    bool launched; /* the host call that launched the work or the wait is known */
    bool prior;    /* FREE: the block was live before the recording */
    bool unnamed;  /* FREE: the file names no such block: its totals show it */
    bool dropped;
    /* FREE: at first the index of the item that allocates the block, later the block's number in the trace */
    uint32_t block;
};

struct profile;

struct profile_options {
    const char *format;    /* first word of the trace's #src line: "kineto", "nsys", "ascend-db" */
    bool addresses;        /* keys of blocks are addresses */
    bool lone_frees;       /* the file has frees of blocks from before the recording */
    bool agents;           /* work may have other device numbers than memory, as in files of ROCm */
    const char *no_memory; /* the reason and the remedy if the file has no memory records */
};

/* Starts a profile. The caller ends it by profile_finish or profile_drop. */
bool profile_start(struct profile **out, const char *path, const struct profile_options *options,
                   const struct trace_limits *limits, struct trace_error *error);

/* Give a name, a thread or a stream of the file a small number. An empty name gets WEIR_TRACE_NONE. */
bool profile_name(struct profile *profile, const char *text, size_t length, uint32_t *name);
bool profile_thread(struct profile *profile, uint64_t key, uint32_t *thread);
/* Stream numbers are below 2^52. */
bool profile_stream(struct profile *profile, uint32_t device, uint64_t number, uint32_t *stream);
/* Sets *space to the number of a pair of a process and a device. Returns WEIR_ERR_LIMIT as the error beyond
 * PROFILE_MAX_SPACES pairs. */
bool profile_space(struct profile *profile, uint64_t process, uint32_t device, uint32_t *space);

/* Adds a record. Of `order` and the members below it the caller sets only `kind`. */
bool profile_add(struct profile *profile, struct profile_item item);

/* Adds a host call that launches work, waits or allocates. `name` is the tag of the memory that the call allocates, if
 * that memory has no tag of its own; or WEIR_TRACE_NONE. */
bool profile_launch(struct profile *profile, uint64_t correlation, int64_t time_ns, uint32_t thread, uint32_t name);
/* True if profile_launch has added a host call with this correlation number. */
bool profile_has_launch(const struct profile *profile, uint64_t correlation);
/* Adds a range of a host thread. The name of the range becomes the tag of the thread's allocations during the range. */
bool profile_range(struct profile *profile, uint32_t thread, int64_t start_ns, int64_t end_ns, uint32_t name);

/* Adds the bytes that the recorded allocator had allocated after a memory event, and by how many the event changed them
 * (before.h). The readers of files with one device with memory call it; `total` may be BEFORE_NO_TOTAL. */
bool profile_total(struct profile *profile, int64_t time_ns, int64_t change, uint64_t total);

/* Adds a note to the trace. */
bool profile_note(struct profile *profile, const char *format, ...) TRACE_PRINTF(2, 3);
/* Adds "COUNT TEXT" as a note, unless the count is 0. */
bool profile_note_count(struct profile *profile, uint64_t count, const char *text);

bool profile_no_memory(struct profile *profile);

/* Builds the trace and frees the profile, also on failure. */
bool profile_finish(struct profile *profile, struct trace **out);

void profile_drop(struct profile *profile); /* NULL is allowed */

#endif
