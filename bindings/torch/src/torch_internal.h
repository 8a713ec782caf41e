/* bindings/torch/src/torch_internal.h: declarations shared by the files of this library.
 *
 *     runtime.h    the accelerator's runtime: runtime_acl.c or runtime_cuda.c
 *     settings.c   the text of WEIR_TORCH
 *     state.c      the devices, the lock, the last failure
 *     source.c     a pool's view of its device: counts reserved bytes, keeps the memory that graphs replay in
 *     route.c      the routing of allocations to pools of graphs
 *     recording.c  the requests to the pools, written to files
 *     counters.c   statistics under torch's names
 *     pools.c      the settings, and the pools that are made by them
 *     graph.c      pools of graphs
 *     upkeep.c     trim, limits, reports, shutdown, and the same in the shapes that frameworks call
 *     torch.c      alloc, free, record_stream
 *
 * A file calls only files above it in this list.
 *
 * Lock order: weir__torch_lock (pools, streams, settings), the lock of route.c (filters are called under it), that of
 * recording.c, the lock of source.c (statistics), then the locks of the pools and of weir::acl or weir::cuda.
 */
#ifndef WEIR_TORCH_INTERNAL_H
#define WEIR_TORCH_INTERNAL_H

#include <weir/torch.h>

#include <pthread.h>
#include <stdatomic.h>
#include <weir/pool.h>

#include "settings.h"
#include "shared/assert.h"
#include "shared/number_map.h"
#include "shared/runtime.h"

#define WEIR__TORCH_DEVICES 64
#define WEIR__TORCH_UNNOTED 32

struct torch_stream {
    struct torch_stream *next;
    void *native;
    struct torch_follower *follower;
};

struct torch_region {
    struct torch_region *next;
    uint64_t address;
    uint64_t size;
};

/* The context of a pool's device. The first four fields never change; the lock of source.c guards the rest. */
struct torch_source {
    weir_device *inner;
    struct torch_device *at;
    weir_torch_drain drain; /* NULL: all work is queued with the runtime at once */
    void *drain_ctx;
    uint64_t held;          /* bytes */
    weir__number_map sizes; /* of handles of virtual memory */
    size_t promised;        /* entries of `sizes`, plus calls in progress that may each add an entry */
    struct torch_region *regions;
    bool pinned; /* true: the source does not return idle memory to the device, because a graph replays in it */
    bool lost;   /* true: the device's statistics no longer count the memory of this source */
};

/* A device's own pool or a pool of graphs. Pools from before a device reset live on, to accept late frees. */
struct torch_pool {
    struct torch_device *at;
    weir_device *inner;  /* the runtime's device; pools of graphs share the device of the device's own pool */
    weir_device *device; /* its context is `source` */
    struct torch_source source;
    weir_pool *pool;
    _Atomic uint64_t current_at; /* weir__torch_runtime_epoch at the last check that `inner` is not lost */
    atomic_bool lost;
    struct torch_pool *next;      /* next in the device's list `others` */
    struct torch_stream *streams; /* protected by weir__torch_lock */
    bool of_graphs;
    weir_torch_pool_id id; /* set in pools of graphs; protected by weir__torch_lock */
    /* calls of weir_torch_pool_begin without a release; protected by weir__torch_lock; 0: the pool may get a new id */
    uint64_t uses;
};

struct torch_route {
    struct torch_route *next;
    struct torch_pool *pool;
    weir_torch_pool_id id;
    weir_torch_filter filter;
    void *ctx;
    void (*drop)(void *ctx);
};

struct torch_device {
    int id;
    _Atomic(struct torch_pool *) own;
    /* list of further pools; new pools are added in front, none is removed before shutdown */
    _Atomic(struct torch_pool *) others;
    _Atomic(struct torch_pool *) blamed; /* the pool that ran out of memory last */
    atomic_bool reported;
    _Atomic uint64_t capacity_bytes;
    /* Uses of blocks by streams that the pool could not note: the free of such a block waits for the stream. Protected
     * by weir__torch_lock. */
    atomic_uint unnoted_count;
    struct {
        const weir_block *block;
        void *native;
    } unnoted[WEIR__TORCH_UNNOTED];
    atomic_uint route_count;
    struct torch_route *routes; /* protected by the lock of route.c; an allocation takes the first route that matches */

    /* Bytes of all blocks that weir has handed out on the device; live bytes = allocated - freed. */
    _Atomic int64_t allocated;
    _Atomic int64_t freed;
    _Atomic int64_t peak;
    _Atomic int64_t past_blocks; /* number of blocks handed out by pools that no longer exist */

    /* Protected by the lock of source.c. */
    uint64_t keep_free; /* device memory that the pools leave to other code while `limit` is 0; 0 = none */
    uint64_t reserved;
    uint64_t peak_reserved;
    uint64_t taken; /* total bytes taken from the device */
    uint64_t segments_taken;
    uint64_t segments_returned;
    uint64_t limit; /* upper bound of `reserved`; 0 = none */
};

/* --- state.c --- */

extern pthread_mutex_t weir__torch_lock;

/* Returns the entry of a device, or NULL if `device` is no valid index. */
struct torch_device *weir__torch_device(int device);
/* Returns WEIR_ERR_INVALID with the sentence that `function` was given an invalid device index. */
weir_status weir__torch_no_device(const char *function, int device);
/* Prints a misuse to stderr, since the caller gets no status. Only the first misuse is printed. */
void weir__torch_report_misuse(const char *text, const void *ptr);
/* Keeps the failure for weir_torch_report and prints it to stderr, unless it equals the last failure. */
void weir__torch_fail_locked(const char *what, const char *why);
void weir__torch_fail_with_status_locked(const char *what, weir_status status);
void weir__torch_forget_failure_locked(void);
size_t weir__torch_failure(char *text, size_t size);

/* --- upkeep.c --- */

/* Tries again to end the pools of a shutdown that failed. */
weir_status weir__torch_end_pools_locked(void);

/* --- source.c --- */

/* Creates pool->device, which passes every call on to pool->inner. Its context is pool->source. */
weir_status weir__torch_source_create(struct torch_pool *pool);
void weir__torch_source_pin(struct torch_source *source, bool pinned);
/* Frees all regions in source->regions on the device. The pool must be empty or destroyed. A region can be left in the
 * list if the pool had no host memory to record the region, and the source, which was pinned, refused to take the
 * region back. */
weir_status weir__torch_source_sweep(struct torch_source *source);
/* Marks the source as lost: its memory went with the device and is no longer counted. */
void weir__torch_source_lose(struct torch_source *source);
void weir__torch_source_limit(struct torch_device *at, uint64_t limit);
/* Sets the memory of the device that its pools leave to other code while they have no limit. */
void weir__torch_source_keep_free(struct torch_device *at, uint64_t bytes);
/* Fills in the counters that source.c keeps: reserved bytes and the numbers of device allocs and frees. */
void weir__torch_source_read(struct torch_device *at, weir_torch_device_stats *counters);
void weir__torch_source_reset_peak(struct torch_device *at);

/* --- route.c --- */

static inline bool weir__torch_same_id(weir_torch_pool_id a, weir_torch_pool_id b)
{
    return a.first == b.first && a.second == b.second;
}

/* Returns the pool of graphs for allocations on the stream: that of the first route that matches. NULL: no route. */
struct torch_pool *weir__torch_route(struct torch_device *at, void *stream);
/* Appends the route to the list: if the filters of two routes match a stream, the older route gets it. Returns false if
 * a route with this id exists. */
bool weir__torch_put_route(struct torch_device *at, struct torch_route *route);
/* Ends the route with this id; false if there is none. */
bool weir__torch_end_route(struct torch_device *at, weir_torch_pool_id id);
/* Ends every route of the device. */
void weir__torch_end_routes(struct torch_device *at);
/* True if a route still leads to the pool, because the caller released the pool before it ended the route. */
bool weir__torch_is_routed(const struct torch_pool *pool);

/* --- recording.c --- */

/* Write an event to the device's recording, if there is one. Call weir__torch_note_free before the pool frees the
 * block. */
void weir__torch_note_alloc(const struct torch_device *at, const weir_block *block, const void *native);
void weir__torch_note_free(const struct torch_device *at, const weir_block *block, const void *native);
void weir__torch_note_use(const struct torch_device *at, const weir_block *block, const void *native);
void weir__torch_note_trim(const struct torch_device *at);
/* Notes a free of every live block of the device, before its pools are lost or destroyed. */
void weir__torch_note_lost(struct torch_device *at);
/* Does the work of weir_torch_record. weir__torch_lock is held. */
weir_status weir__torch_record_locked(const char *wanted);
/* Opens the file of a device that has just got its pool, if a recording is under way. */
weir_status weir__torch_record_device_locked(struct torch_device *at);

/* --- counters.c --- */

static inline void weir__torch_count_alloc(struct torch_device *at, uint64_t bytes)
{
    const int64_t freed = atomic_load_explicit(&at->freed, memory_order_relaxed);
    const int64_t allocated =
        atomic_fetch_add_explicit(&at->allocated, (int64_t)bytes, memory_order_relaxed) + (int64_t)bytes;
    int64_t peak = atomic_load_explicit(&at->peak, memory_order_relaxed);
    while (allocated - freed > peak &&
           !atomic_compare_exchange_weak_explicit(&at->peak, &peak, allocated - freed, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

static inline void weir__torch_count_free(struct torch_device *at, uint64_t bytes)
{
    (void)atomic_fetch_add_explicit(&at->freed, (int64_t)bytes, memory_order_relaxed);
}

/* Counts every live block of the device as freed. Reads the device's pools, so they must still exist. */
void weir__torch_count_lost(struct torch_device *at);

/* --- pools.c --- */

/* Reads WEIR_TORCH, unless settings have been read already. Returns false if they cannot be read. */
bool weir__torch_read_environment_locked(void);
bool weir__torch_read_settings_locked(const char *text);
/* Makes weir read the settings again before it makes the next pool. */
void weir__torch_forget_settings_locked(void);
/* True if the settings ask for a printed report when memory runs out. */
bool weir__torch_prints_reports(void);
/* Returns the device's own pool, or NULL if it has none or its pool is from before a reset. */
struct torch_pool *weir__torch_existing(int device);
/* Returns the device's own pool; creates it if it does not exist. On failure returns NULL and keeps the reason for
 * weir_torch_report. */
struct torch_pool *weir__torch_pool_of(int device);
/* Creates a pool of graphs on own->inner, the runtime's device. weir__torch_lock is held. */
weir_status weir__torch_make_graph_pool_locked(const struct torch_pool *own, struct torch_pool **pool);
/* Ends the pool's links to native streams. If a stream cannot be waited for, returns that failure; a later call
 * continues with that stream. */
weir_status weir__torch_detach_locked(struct torch_pool *pool);

/* --- graph.c --- */

/* Trims the device's pools of graphs that have been released and adds the bytes to *released. Returns the first
 * failure; continues after it. */
weir_status weir__torch_trim_released(struct torch_device *at, uint32_t flags, uint64_t *released);

#endif
