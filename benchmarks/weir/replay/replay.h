/* replay.h: replays one trace with one strategy on the simulated device.
 *
 * Every replay starts with an empty device, allocates the blocks that were live before the trace in address order, and
 * then plays the events. The tags of the trace become tags of the pools, so that an out-of-memory record names the
 * largest holders, and "other" for the rest (tags.h). A trace must be of one device (trace->device). Live bytes are
 * the requested bytes; reserved bytes are those that the device gave. Events have the numbers of the file.
 * The request on which the recorded program ran out of memory is asked for too (recorded_oom.h). Captured graphs keep
 * their memory, as in the program (captures.h).
 */
#ifndef WEIR_BENCHMARKS_REPLAY_H
#define WEIR_BENCHMARKS_REPLAY_H

#include <weir/budget.h>
#include <weir/pool.h>
#include <weir/sim.h>

#include "replay/recorded_oom.h"
#include "replay/strategies.h"
#include "trace/trace.h"

/* The capacities that a simulated device may have. */
#define REPLAY_LEAST_CAPACITY (UINT64_C(2) << 20)
#define REPLAY_MOST_CAPACITY (UINT64_C(1) << 44)

struct replay_options {
    uint64_t capacity;    /* bytes of the device; 0 = the capacity in the trace, or unlimited if the trace has none */
    uint64_t limit;       /* limit_bytes of the weir pool; 0 = the value in `pool` */
    weir_sim_costs costs; /* simulated times of device calls; 0 = the default */
    uint64_t seed;        /* jitter of durations; 0 = none */
    weir_growth growth;
    /* further settings of the pool, and its strategy if replay_strategy.ops is NULL; NULL = defaults */
    const weir_pool_config *pool;
    bool ignore_uses; /* do not tell the weir pool when a stream uses another stream's block */
    bool no_audit;
    bool check;     /* call weir_pool_check after every event */
    bool no_timing; /* no clock reads around calls: ns_per_call stays 0 */
    bool history;   /* keep the data that the report draws */
    bool survey;    /* stop at survey_event, the result's worst_event in an earlier run, and fill in result.peak */
    uint64_t survey_event;
    uint32_t repeat;   /* play the events this many times; 0 = once */
    uint32_t jobs;     /* threads of sweep_run; 0 = one for each processor that the process may use */
    struct crew *crew; /* thread pool for sweep_run (jobs.h); NULL: sweep_run makes one with `jobs` threads */
    /* Called from time to time with the share of events played so far, 0 to 1; may be NULL. */
    void (*progress)(void *ctx, double share);
    void *progress_ctx;
};

struct replay_oom {
    bool happened;
    uint64_t event;
    uint64_t size;
    char why[512];          /* one sentence */
    weir_oom_record record; /* the pool's out-of-memory record; `failure` is 0 if the request did not reach a pool */
};

/* The address of a block; 0: it was not placed. */
struct replay_place {
    uint64_t address;
    uint64_t capacity;
};

/* The lifetime of a region or a mapping in event numbers; -1: before the first event, or never. */
struct replay_region {
    uint64_t address;
    uint64_t size;
    int64_t added;
    int64_t removed;
    bool mapped; /* true for a mapping: adjacent mappings can serve one request together, adjacent regions cannot */
};

struct replay_point {
    uint64_t event;
    uint64_t live;
    uint64_t reserved;
    uint64_t pending; /* bytes of freed blocks that still wait for the work of other streams */
};

struct replay_result {
    const struct replay_strategy *strategy;
    weir_status failure; /* the failure, if replay_run returned false */
    uint64_t pad_bytes;
    uint64_t prior_blocks;
    uint64_t allocs; /* number of allocations, without blocks from before the trace */
    uint64_t frees;
    uint64_t peak_live_bytes; /* peak over the played events; below the trace's peak if memory ran out before it */
    uint64_t peak_reserved_bytes;
    struct replay_oom oom;
    weir_oom_record peak;  /* the memory when reserved memory peaked (weir_pool_survey); text "": not looked at */
    uint64_t device_calls; /* all device calls, events and queries included */
    uint64_t warm_calls;   /* device calls after live memory first reached its peak */
    uint64_t warm_allocs;  /* allocs after live memory first reached its peak */
    uint64_t device_time_ns;
    uint64_t waits;
    uint64_t syncs;
    uint64_t capture_bytes; /* the most memory that all captured graphs need together (captures.h) */
    uint64_t hazards;
    uint64_t hazards_in_flight; /* hazards with earlier work still running, among the first 10,000 */
    double p50_ns;
    double p99_ns;
    double p999_ns;
    uint64_t worst_event;        /* event at which reserved memory peaked */
    uint64_t largest_free_bytes; /* at worst_event */
    uint64_t free_bytes;         /* at worst_event */
    uint64_t served[WEIR_RUNG_COUNT];
    uint64_t checks; /* number of passed checks */
    double seconds;  /* wall time of the events, without setup */
    uint64_t events_played;
    char **findings; /* sentences of the auditor, at most 50; hazards with earlier work still running come first */
    size_t finding_count;

    /* The five members below are filled in only with replay_options.history. */
    struct replay_place *places; /* by block index of the trace */
    struct replay_region *regions;
    size_t region_count;
    struct replay_point *points;
    size_t point_count;

    /* The three members below are for the recorded allocator only (recorded_run.h). lacks_addresses: an event up to
     * worst_event has no address, so largest_free_bytes is unknown. lacks_calls: the trace does not tell the calls of
     * the device. */
    bool lacks_addresses;
    bool lacks_calls;
    char note[640]; /* why the figures may be wrong; "" = no reason */
};

/* The granularities (#dev gran=) that a simulated device may have. */
#define REPLAY_LEAST_GRANULARITY UINT64_C(512)
#define REPLAY_MOST_GRANULARITY (UINT64_C(1) << 30)

/* Returns the granularity in which the simulated device gives regions and maps memory: that of the trace's device, or
 * 2 MiB if the trace does not tell. */
static inline uint64_t replay_granularity(const struct trace *trace)
{
    const uint64_t given = trace->devices[trace->device].granularity;
    return given != 0 ? given : UINT64_C(2) << 20;
}

/* Returns the event number that stands for the state before the first event. */
static inline uint64_t replay_start_number(const struct trace *trace)
{
    return trace->part != NULL ? trace->part->first : 0;
}

/* True if the trace has captures and the row knows their memory: the model of PyTorch's allocator with settings has no
 * private pools, and plays the blocks of captures as ordinary ones. */
static inline bool replay_knows_captures(const struct trace *trace, const struct replay_result *result)
{
    return trace->capture_count > 0 && result->strategy->settings == NULL;
}

/* True if the figures follow from the trace, so that the row has no device time, waits, hazards or times of calls. */
static inline bool replay_is_computed(const struct replay_result *result)
{
    return result->strategy->computed;
}

/* Returns peak reserved over peak live bytes; 1 if no byte was live. */
static inline double replay_ratio(const struct replay_result *result)
{
    return result->peak_live_bytes == 0 ? 1.0 : (double)result->peak_reserved_bytes / (double)result->peak_live_bytes;
}

/* Runs the replay. Returns false, with a line in `error`, if the replay could not be completed: no host memory, a
 * failed check, or a device that did not take its memory back. Running out of device memory is a result, not a
 * failure. */
bool replay_run(const struct trace *trace, const struct replay_strategy *strategy, uint64_t pad_bytes,
                const struct replay_options *options, struct replay_result *result, char *error, size_t error_size);
void replay_result_free(struct replay_result *result);

#endif
