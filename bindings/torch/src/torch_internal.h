/* bindings/torch/src/torch_internal.h: what the files of this library share.
 *
 *     settings.c  the text of WEIR_TORCH
 *     torch.c     pools and streams; alloc, free, record_stream
 *     source.c    a device as one pool sees it: counts what is reserved, keeps what graphs replay in
 *     graph.c     pools of graphs, and which allocations go there
 *     counters.c  figures by torch's names
 *     recording.c what is asked of the pools, as files
 *     upkeep.c    trim, limits, reports, shutdown, and the same as functions of the shapes that frameworks call
 *
 * Locks, in this order: weir__torch_lock (pools, streams, settings), weir__torch_route_lock (routes; filters are called
 * under it), recording.c's, and source.c's (figures). The pools' and the binding's own come after all of them.
 */
#ifndef WEIR_TORCH_INTERNAL_H
#define WEIR_TORCH_INTERNAL_H

#include <weir/torch.h>

#include <pthread.h>
#include <stdatomic.h>
#include <weir/acl.h>
#include <weir/pool.h>

#include "settings.h"

#define WEIR__TORCH_DEVICES 64
#define WEIR__TORCH_UNNOTED 32

struct torch_stream {
    struct torch_stream *next;
    void *native;
    weir_acl_attachment *follower;
};

struct torch_region {
    struct torch_region *next;
    uint64_t address;
    uint64_t size;
};

/* What a pool's device wraps. Under source.c's lock but for the first four, which do not change. */
struct torch_source {
    weir_device *inner;
    struct torch_device *at;
    weir_torch_drain drain; /* NULL: what is queued is queued with ACL */
    void *drain_ctx;
    uint64_t held;          /* bytes */
    uint64_t granule_bytes; /* of every physical page: a pool takes one size */
    struct torch_region *regions;
    bool pinned; /* what is idle stays: a graph replays in it */
    bool lost;   /* no longer in the device's figures */
};

/* A device's own pool, or one of its graphs', or either from before a reset: those live on for frees that come late. */
struct torch_pool {
    struct torch_device *at;
    weir_device *acl;    /* of weir_acl_device_create; pools of graphs share their device's */
    weir_device *device; /* over `source` */
    struct torch_source source;
    weir_pool *pool;
    _Atomic uint64_t current_at; /* weir_acl_epoch when `acl` was last seen not to be lost */
    atomic_bool lost;
    struct torch_pool *next;      /* in `others` */
    struct torch_stream *streams; /* under weir__torch_lock */
    bool of_graphs;
    weir_torch_pool_id id; /* of_graphs, under weir__torch_lock */
    uint64_t uses;         /* likewise: begun and not released; 0 = the entry may become another pool's */
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
    _Atomic(struct torch_pool *) others; /* grows at its head until shutdown */
    _Atomic(struct torch_pool *) blamed; /* where memory ran out last */
    atomic_bool reported;
    _Atomic uint64_t capacity_bytes;
    /* Uses by streams that the pool could not note; waited for when the block is freed. Under weir__torch_lock. */
    atomic_uint unnoted_count;
    struct {
        const weir_block *block;
        void *native;
    } unnoted[WEIR__TORCH_UNNOTED];
    atomic_uint route_count;
    struct torch_route *routes; /* under weir__torch_route_lock; the first that matches has the block */

    /* Bytes of blocks, as handed out; what is live is the difference. */
    _Atomic int64_t allocated;
    _Atomic int64_t freed;
    _Atomic int64_t peak;
    _Atomic int64_t past_blocks; /* of pools that are no more */

    /* Under source.c's lock. */
    uint64_t reserved;
    uint64_t peak_reserved;
    uint64_t taken; /* bytes, ever */
    uint64_t segments_taken;
    uint64_t segments_returned;
    uint64_t limit; /* of `reserved`; 0 = none */
};

/* --- torch.c --- */

extern pthread_mutex_t weir__torch_lock;

/* NULL: no such index. */
struct torch_device *weir__torch_device(int device);
/* WEIR_ERR_INVALID, told in the name of the function: there is no such index. */
weir_status weir__torch_no_device(const char *function, int device);
/* The device's pool; NULL if it has none, or none since a reset. */
struct torch_pool *weir__torch_existing(int device);
/* Made if need be; NULL: the reason is kept for weir_torch_report. */
struct torch_pool *weir__torch_pool_of(int device);
/* A pool on the ACL device that another has. The lock is held. */
weir_status weir__torch_make_graph_pool_locked(const struct torch_pool *own, struct torch_pool **pool);
/* The pool of a live block, whatever its device; NULL: it is none. */
struct torch_pool *weir__torch_find(void *ptr, weir_block **block);
/* The caller can do nothing about it, so it is said; once, since more would only hide the first. */
void weir__torch_report_misuse(const char *text, const void *ptr);
/* Says why; each reason once. */
void weir__torch_fail_locked(const char *what, const char *why);
void weir__torch_fail_with_status_locked(const char *what, weir_status status);
size_t weir__torch_failure(char *text, size_t size);
/* Reads WEIR_TORCH unless settings have been read. */
bool weir__torch_read_environment_locked(void);
bool weir__torch_read_settings_locked(const char *text);
const struct torch_settings *weir__torch_settings_locked(void);
/* Lets go of the pool's streams; stops at one that cannot be waited for, and a later call goes on from there. */
weir_status weir__torch_detach_locked(struct torch_pool *pool);
/* Failures are forgotten, and settings if asked. */
void weir__torch_forget_locked(bool settings_too);

/* --- source.c --- */

/* A device that passes everything on to pool->acl, with pool->source as its context. */
weir_status weir__torch_source_create(struct torch_pool *pool);
void weir__torch_source_pin(struct torch_source *source, bool pinned);
/* Gives back what a pool that has nothing any more, or is no more, has left behind: a region that it took while its
 * source was pinned and had no host memory for. */
weir_status weir__torch_source_sweep(struct torch_source *source);
/* What it holds is gone, and counts no more. */
void weir__torch_source_lose(struct torch_source *source);
void weir__torch_source_limit(struct torch_device *at, uint64_t limit);
/* Figures of the moment. */
void weir__torch_source_read(struct torch_device *at, weir_torch_device_stats *counters);
void weir__torch_source_reset_peak(struct torch_device *at);

/* --- graph.c --- */

/* The pool that a filter claims the stream's allocations for; NULL: none. */
struct torch_pool *weir__torch_route(struct torch_device *at, void *stream);
/* Pools of graphs that have been released give back what is idle; the first failure is returned. */
weir_status weir__torch_trim_released(struct torch_device *at, uint32_t flags, uint64_t *released);
/* Every route of the device ends. */
void weir__torch_drop_routes_locked(struct torch_device *at);

/* --- recording.c --- */

/* Nothing unless the device is recorded. A free is noted before it is made. */
void weir__torch_note_alloc(const struct torch_device *at, const weir_block *block, const void *native);
void weir__torch_note_free(const struct torch_device *at, const weir_block *block, const void *native);
void weir__torch_note_use(const struct torch_device *at, const weir_block *block, const void *native);
void weir__torch_note_trim(const struct torch_device *at);
/* All that is live is about to be lost. */
void weir__torch_note_lost(struct torch_device *at);
/* weir_torch_record. weir__torch_lock is held. */
weir_status weir__torch_record_locked(const char *wanted);
/* The device has got a pool: its file begins, if there is to be one. */
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

/* Nothing of the device's pools is live any more. They are still there. */
void weir__torch_count_lost(struct torch_device *at);

#endif
