/* core/src/pool/pool_internal.h: what a pool is made of. core/README.md says which file does what.
 *
 * How a request gets memory is in order/order.h, where memory comes from in memory/memory.h.
 *
 * Locks: one per stream (stream_lock.h: held for a few instructions, or around a device call that does not block), one
 * per pool (of the same kind). Order: stream, then pool; never two streams at once, except in weir__pool_lock_all, which takes
 * them by number. No device call that can block is made under any of them.
 */
#ifndef WEIR_CORE_POOL_INTERNAL_H
#define WEIR_CORE_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include <weir/arena.h>
#include <weir/budget.h>
#include <weir/observer.h>
#include <weir/strategy.h>

#include "base/address_table.h"
#include "device/device_internal.h"
#include "memory/mark.h"
#include "pool/block.h"
#include "shared/number_map.h"
#include "stream_lock.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* What a build with -DWEIR_CHECKS=n does beyond the ordinary:
 *     1   handles are looked up before they are followed: a foreign pointer is WEIR_ERR_INVALID, not a crash
 *     2   the strategy's invariants are proved after every 256th call that reaches it
 *     3   the whole pool's are, after every call that reaches the strategy
 * A broken invariant ends the program: it is a bug of weir, and what follows would only hide it. */
#ifndef WEIR_CHECKS
#define WEIR_CHECKS 0
#endif

/* --- the front cache: see front_cache.h --- */

#define FRONT_GRANULES 131072u /* the most in a slot, 64 MiB */
#define FRONT_BINS 417u        /* 32 for each doubling up to there */
#define FRONT_DEPTH 7u
#define FRONT_LARGE 7u
#define FRONT_WORDS ((FRONT_BINS + 63) / 64)

/* Blocks of one bin of capacities, last in first out. One cache line. */
struct front_slot {
    uint16_t count;
    uint16_t room;  /* how many it may keep, as of the pool's front_epoch `epoch` */
    uint32_t epoch;
    weir_block *blocks[FRONT_DEPTH];
};

/* The block freed last waits in `last`, where it still counts as live: a pair of alloc and free of one size touches nothing
 * else. All others are in slots or among the large ones. Bit b of held: slots[b] holds a block. */
struct front_cache {
    weir_block *last;
    uint64_t last_key;  /* its request in granules, less one; FRONT_EMPTY: there is none */
    uint64_t last_most; /* the largest request that may wait in `last` now, in bytes */
    uint64_t last_full; /* the same while the stream is in the set `waiting`; 0 while there is a reason against it */
    uint64_t bytes;       /* in slots */
    uint64_t large_bytes; /* in `large` */
    uint64_t held[FRONT_WORDS];
    uint32_t large_count;
    uint32_t large_keys[FRONT_LARGE]; /* capacities in granules; the last freed last */
    weir_block *large[FRONT_LARGE];
    _Alignas(64) struct front_slot slots[FRONT_BINS];
};

#define FRONT_EMPTY UINT64_MAX
#define FRONT_SMALL_LEAST 128u /* granules that are small in every pool */

/* --- streams --- */

/* Counters of what happened through one stream, under its lock: the hot path shares none with other streams. Live
 * figures are differences, since a block may be freed on another stream than it was allocated on. */
struct stream_counters {
    uint64_t frees;
    uint64_t misses; /* allocs that no front cache served; all allocs together are the sum of sizes */
    int64_t requested; /* each beside its own peak: side by side, the two sums tempt compilers to move them as one */
    int64_t peak_requested; /* vector, which stalls on the single values stored just before */
    int64_t live;
    int64_t peak_live;
    uint64_t sizes[WEIR_SIZE_BUCKETS];
};

/* The same for the blocks of one tag. live blocks = allocs - frees, over all streams. */
struct tag_counters {
    uint64_t allocs;
    uint64_t frees;
    int64_t requested;
    int64_t peak;
};

/* The tags of a pool, from the first on that gets a name. */
struct pool_tags {
    char *names[WEIR_TAGS];    /* by tag; written once, before the pool's tag_count covers them */
    int64_t peaks[WEIR_TAGS]; /* under the pool's lock: sampled; of 0, untagged, always */
};

/* weir's own event on a stream. While `in_flight`, its completion means that the stream's ticks up to `tick` are done. */
struct probe {
    weir_event *event;
    weir_tick tick;
    bool in_flight;
};

/* Who frees into the inbox reads only what is hardly ever written, which is in cache lines of its own. */
struct weir_stream {
    weir_pool *pool; /* what callers' arguments are checked against; NULL once retired */
    weir_pool *owner;
    void *native;
    uint64_t serial; /* never used twice in a pool */
    _Atomic uint64_t front_block_bytes; /* largest block that takes the short way; 0 while somebody watches */
    struct lane_group *group;
    weir_lane lane; /* the stream's number, from 1 */
    weir_tag tag;   /* of what weir_pool_alloc hands out; under the lock */

    /* From the lock's second line on, what is written under it: */
    _Alignas(64) struct stream_lock lock;
    _Atomic weir_tick tick; /* stamped on frees; raised under the stream's lock before an event is recorded */
    struct stream_counters counters;
    struct tag_counters *tags; /* by tag; NULL until the pool has one */
    struct probe probe;
    _Atomic(weir_block *) returned; /* taken out of the inbox and not looked at yet; others see whether there is any */
    struct front_cache front;

    /* Under the pool's lock: */
    bool retired;
    uint64_t waited;     /* the latest round of waiting that had its turn with it */
    weir_tick promoted;  /* what the strategy has been told of `done` */
    weir_tick last_free; /* the latest tick stamped on memory that went back to the strategy or is pending */
    weir_tick *clock;    /* by lane: this stream's tail is ordered after that lane's tick */
    size_t clock_lanes;

    /* Without a lock: */
    _Alignas(128) _Atomic(weir_block *) inbox; /* what other threads have freed on this stream: see inbox.c */
    _Atomic uint64_t inbox_bytes;
};

/* 64 streams, a bit for each: what a request that leaves its own lane would otherwise ask every stream. One cache line, so that
 * a thousand streams are sixteen of them.
 *
 * A stream enters `waiting` before something can lie in it that has no tick yet: a block that comes into its inbox, or a large
 * one in its front cache. It leaves when a poll finds nothing of the kind, under the stream's lock. The hot path does not look
 * at the set: outside of it, `last_most` keeps large blocks out of the register. */
struct lane_group {
    _Atomic uint64_t waiting; /* without a lock */
    /* Under the pool's lock; weir__lane_note_locked keeps all but `early`: */
    uint64_t unfinished; /* memory whose work the host has not seen complete */
    uint64_t completed;  /* completed ticks that the strategy has not been told of */
    uint64_t early;      /* memory may have entered the lane at a tick that was complete already: it waits for no promotion */
    uint64_t retired;
    uint64_t unused[3];
};

/* --- regions --- */

struct pool_region {
    uint64_t address; /* first: the address table's key */
    uint64_t size;
    uint64_t hint;  /* the size of the request that it was taken for */
    weir_lane lane; /* of the stream that it was taken for */
    struct pool_region *going; /* the next one on its way to the device */
    void *handle;   /* the strategy's; NULL while the region is on its way back to the device or set aside */
    struct pool_region *prev;
    struct pool_region *next;
};

/* What a recorded event of the caller's captured: its stream's tick and clock at that moment. */
struct known_event {
    uint64_t event; /* first: the table's key, the caller's pointer as a number */
    weir_lane lane;
    weir_tick tick;
    weir_tick *clock;
    size_t clock_lanes;
};

struct request;

/* Observers: see observers.c. */
struct pool_watch {
    _Atomic(struct pool_observer *) observers; /* newest first */
    _Atomic uint32_t telling[2];               /* threads that tell them without a lock, by side */
    atomic_uint side;                          /* of threads that begin, modulo 2 */
    atomic_bool awaiting;                      /* a thread waits for those that tell */
    atomic_bool any;                           /* there is an observer */
};

/* Shares of what is reserved, in granules of the front cache. */
struct pool_front {
    _Atomic uint64_t small; /* up to here requests are rounded up to bins and stay in slots */
    _Atomic uint64_t slot;  /* what one slot may hold of them */
    _Atomic uint64_t limit; /* bytes of them that a stream's front cache may hold */
    _Atomic uint32_t epoch; /* how often they have changed */
    uint64_t largest;       /* bytes of the largest request that a front cache serves; 0: the pool has none */
};

/* One thread at a time takes memory from the device or gives it back: see region.c. */
struct pool_growth {
    bool taken;
    pthread_mutex_t mutex; /* under no other lock but for the moment of `ended` */
    pthread_cond_t ended;
};

/* Events to destroy: the next stream that needs an event takes one, a trim tries again. */
struct pool_kept_events {
    weir_event **events;
    size_t count;
    size_t room; /* at least `made`, so that an event can always be kept */
    size_t made; /* by the pool and not destroyed */
};

/* See block.c. */
struct pool_blocks {
    size_t count;                        /* taken ranges that are blocks */
    weir__number_map handles;            /* of checked builds: every block that ever was */
    _Atomic(struct block_index *) index; /* NULL until a block is asked for by its address */
    struct entry_chunk *chunks;
    struct index_entry *unused;
    atomic_uint version; /* odd while a chain is being changed under its readers */
};

/* What is reserved, against the limits: see budget.c and mark.h. */
struct pool_held {
    uint64_t bytes;      /* no limit, or bytes <= max(limit_bytes, over_limit) */
    uint64_t over_limit; /* reserved since before the limit was set below it, and not yet given back; else 0 */
    uint64_t peak;
    struct high_mark mark;
    bool pressed;  /* the pressure callback has had nothing more to give at the present crossing of the soft limit */
    bool pressing; /* it is being called */
};

/* What happened so far, as weir_pool_stats tells it. */
struct pool_counts {
    uint64_t served[WEIR_RUNG_COUNT];
    uint64_t waits;
    uint64_t syncs;
    uint64_t events;
    uint64_t region_allocs;
    uint64_t region_frees;
    uint64_t device_failures;
    uint64_t device_ns;
    uint64_t pressure_calls;
    uint64_t soft_limit_growths;
};

struct weir_pool {
    weir_device *device;
    const weir_strategy_ops *strategy;
    void *state; /* the strategy's */
    const struct memory_ops *memory; /* where memory comes from: regions or virtual memory */
    weir_pool_config config;
    uint64_t granule_mask;
    uint64_t next_serial; /* of streams */
    unsigned granule_shift;
    bool ordered; /* the device has streams and events */
    pid_t process;
    atomic_uint holds; /* while there are any the pool is not destroyed */
    struct pool_front front;
    struct pool_watch watch;
    _Atomic uint32_t tag_count; /* untagged included, so at least 1 */
    struct pool_tags *tags;

    struct stream_lock lock;
    struct pool_growth growth;

    weir_stream **streams; /* by lane; streams[0] is NULL */
    size_t lanes;          /* one more than the highest lane */
    size_t lane_room;      /* of the arrays by lane */
    weir_tick *done;       /* by lane: the host knows that ticks up to this one are complete */
    weir_tick *limits;     /* scratch, by lane */
    struct lane_group **groups;  /* by lane / 64; each stays where it is */
    weir__number_map natives;    /* streams that are not retired, by their handle: the lane */
    struct address_table events; /* of known_event */
    struct pool_kept_events kept;

    struct pool_region *regions; /* newest first */
    size_t regions_aside;        /* regions without a handle that are not on their way: see region.c */
    struct address_table region_table;
    struct pool_vm *vm; /* NULL: the pool takes regions */
    struct pool_held held;

    struct pool_blocks blocks;
    weir_block *pending;
    uint64_t pending_bytes;
    int64_t peak_requested; /* sampled at slow calls when there are several streams */
    int64_t peak_live;

    weir_arena *arenas;
    uint64_t arenas_made;

    struct pool_counts counts;
    uint64_t wait_rounds; /* how many have begun: see weir__order_sync_next */
    uint64_t slow_frees; /* by callers: what another thread's failing request may not have seen */
    weir_oom_record oom; /* of the last request that failed */
    void (*explain)(const struct request *request); /* fills it: handed in by life.c, so that order calls no report */
    _Atomic unsigned slow_calls; /* of checked builds */
};

/* --- locks (inline: the hot path takes the first two) --- */

/* By a thread that allocates or frees on the stream; what is taken with it, others may only look at. */
static inline void stream_lock(weir_stream *stream)
{
    struct lock_seat *seat;
    if (!stream_lock_try(&stream->lock, &seat)) {
        weir__stream_lock_slow(&stream->lock, &stream->counters.frees, true);
    }
}

/* By anyone else: the lock stays cheap for the thread that feeds the stream. */
static inline void stream_visit(weir_stream *stream)
{
    struct lock_seat *seat;
    if (!stream_lock_try(&stream->lock, &seat)) {
        weir__stream_lock_slow(&stream->lock, &stream->counters.frees, false);
    }
}

static inline void stream_unlock(weir_stream *stream)
{
    stream_lock_release(&stream->lock);
}

/* Likewise: pool_work by who allocates or frees, pool_lock by anyone. */
static inline void pool_work(weir_pool *pool)
{
    struct lock_seat *seat;
    if (!stream_lock_try(&pool->lock, &seat)) {
        weir__stream_lock_slow(&pool->lock, &pool->slow_frees, true);
    }
}

static inline void pool_lock(weir_pool *pool)
{
    struct lock_seat *seat;
    if (!stream_lock_try(&pool->lock, &seat)) {
        weir__stream_lock_slow(&pool->lock, &pool->slow_frees, false);
    }
}

static inline void pool_unlock(weir_pool *pool)
{
    stream_lock_release(&pool->lock);
}

/* Of a block that is not free. */
static inline weir_pool *block_pool(const weir_block *block)
{
    return block_stream(block)->owner;
}

/* --- what several files need (inline) --- */

static inline uint64_t wall_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* `unit` is a power of two. */
static inline uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Many calls are made whatever becomes of each; their caller hears of the first that failed. */
static inline void keep_first(weir_status *first, weir_status status)
{
    *first = *first == WEIR_OK ? status : *first;
}

/* A failure that passes must not leak anything. */
#define TWICE(call) ((call) == WEIR_OK ? WEIR_OK : (call))

/* --- counters and states (inline) --- */

static inline unsigned size_bucket(uint64_t size)
{
    return 63u - (unsigned)__builtin_clzll(size);
}

static inline void count_alloc(weir_stream *stream, uint64_t size, uint64_t capacity)
{
    struct stream_counters *counters = &stream->counters;
    counters->sizes[size_bucket(size)]++;
    counters->requested += (int64_t)size;
    if (UNLIKELY(counters->requested > counters->peak_requested)) {
        counters->peak_requested = counters->requested;
    }
    counters->live += (int64_t)capacity;
    if (UNLIKELY(counters->live > counters->peak_live)) {
        counters->peak_live = counters->live;
    }
}

static inline void count_free(weir_stream *stream, const weir_block *block)
{
    struct stream_counters *counters = &stream->counters;
    counters->frees++;
    counters->requested -= (int64_t)block_requested(block);
    counters->live -= (int64_t)block_capacity(block);
}

static inline uint64_t front_block_bytes(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->front_block_bytes, memory_order_relaxed);
}

/* A stream's lock held, without which this says nothing. */
static inline bool is_watched(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->watch.any, memory_order_relaxed);
}

/* Pool lock held: the largest block that may go the short way through a front cache now. */
static inline uint64_t weir__pool_front_block_bytes(const weir_pool *pool)
{
    return is_watched(pool) ? 0 : pool->front.largest;
}

/* --- lock_all.c --- */

/* Takes every stream's lock and the pool's: nothing moves until weir__pool_unlock_all. */
void weir__pool_lock_all(weir_pool *pool);
void weir__pool_unlock_all(weir_pool *pool);

/* Stream lock held: the block freed last is counted as freed and goes where frees go (inbox.c). */
void weir__front_unload(weir_pool *pool, weir_stream *stream);
static inline void front_unload(weir_stream *stream)
{
    if (stream->front.last_key != FRONT_EMPTY) {
        weir__front_unload(stream->owner, stream);
    }
}

/* --- inbox.c --- */

/* Frees a live block that no other stream uses, without the stream's lock, for a thread that does not feed the stream.
 * False: it must be freed the ordinary way, or is not live. */
bool weir__inbox_put(weir_pool *pool, weir_block *block, weir_stream *stream);
/* Stream lock held, the pool's is not: a block with that key of the front cache out of what came in, NULL when there is
 * none. What does not match goes where frees go. */
weir_block *weir__inbox_take(weir_pool *pool, weir_stream *stream, uint64_t key);
/* Likewise: everything that is there now goes where frees go. True when there was something. */
bool weir__inbox_clear(weir_pool *pool, weir_stream *stream);

static inline bool inbox_is_empty(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->inbox, memory_order_relaxed) == NULL &&
           atomic_load_explicit(&stream->returned, memory_order_relaxed) == NULL;
}

/* --- clock.c --- */

/* WEIR_ERR_INVALID with the sentence for a tag that the pool did not give, or a pool that is NULL. */
weir_status weir__refuse_tag(const char *function, const weir_pool *pool, weir_tag tag);
/* WEIR_ERR_INVALID with the sentence for a stream that is NULL, retired or of another pool, or a pool that is NULL. */
weir_status weir__refuse_stream(const char *function, const weir_pool *pool, const weir_stream *stream);

/* Stream lock held, or nobody knows the stream yet: the largest block that its front cache takes. The tag is set. */
void weir__stream_set_front(weir_stream *stream, uint64_t block_bytes);
/* Pool lock held: knowledge[lane] = max(knowledge[lane], tick); false without host memory, which only forgets. */
bool weir__clock_raise_locked(weir_stream *stream, weir_lane lane, weir_tick tick);

/* The first lane at or above `lane` that is in the set; 0: none. */
static inline size_t next_lane(const weir_pool *pool, size_t lane, uint64_t (*set)(const struct lane_group *group))
{
    uint64_t mask = UINT64_MAX << lane % 64;
    for (size_t group = lane / 64; group * 64 < pool->lanes && pool->groups[group] != NULL; group++) {
        const uint64_t found = set(pool->groups[group]) & mask;
        if (found != 0) {
            return group * 64 + (unsigned)__builtin_ctzll(found);
        }
        mask = UINT64_MAX;
    }
    return 0;
}

static inline uint64_t lanes_to_poll(const struct lane_group *group)
{
    return group->unfinished | atomic_load_explicit(&group->waiting, memory_order_relaxed);
}

static inline uint64_t lanes_unfinished(const struct lane_group *group)
{
    return group->unfinished;
}

static inline uint64_t lanes_completed(const struct lane_group *group)
{
    return group->completed;
}

static inline uint64_t lanes_retired(const struct lane_group *group)
{
    return group->retired;
}

static inline uint64_t lane_bit(const weir_stream *stream)
{
    return UINT64_C(1) << stream->lane % 64;
}

static inline bool is_waiting(const weir_stream *stream)
{
    return (atomic_load_explicit(&stream->group->waiting, memory_order_seq_cst) & lane_bit(stream)) != 0;
}

/* By the thread that has put a block into the inbox, or under the stream's lock. */
static inline void mark_waiting(weir_stream *stream)
{
    if (!is_waiting(stream)) {
        (void)atomic_fetch_or_explicit(&stream->group->waiting, lane_bit(stream), memory_order_seq_cst);
    }
}

static inline weir_tick done_on(const weir_stream *stream)
{
    return stream->owner->done[stream->lane];
}

/* Stream lock held, and its front cache holds nothing large: the stream leaves the set of those that wait. */
void weir__lane_rest(weir_stream *stream);
/* Pool lock held: the stream's ticks have changed, or it begins or ends. */
void weir__lane_note_locked(weir_stream *stream);
/* Pool lock held: memory enters the lane at that tick, which may be complete already. */
void weir__lane_note_early_locked(weir_pool *pool, weir_lane lane, weir_tick tick);

static inline weir_tick clock_at(const weir_stream *stream, weir_lane lane)
{
    return lane < stream->clock_lanes ? stream->clock[lane] : 0;
}

/* --- stream.c --- */

void weir__stream_fini_events(weir_pool *pool);

/* --- block.c --- */

/* Pool lock held: the block enters the index, if there is one; false without host memory. It leaves it, and other streams' uses
 * of it are forgotten. */
bool weir__block_enter_locked(weir_pool *pool, weir_block *block);
void weir__block_leave_locked(weir_pool *pool, weir_block *block);

/* Pool lock held: the range, just taken, becomes a block. NULL without host memory. */
static inline weir_block *block_new(weir_pool *pool, const weir_range *range)
{
    weir_block *block = (weir_block *)range->token;
    if (UNLIKELY(WEIR_CHECKS >= 1 || atomic_load_explicit(&pool->blocks.index, memory_order_relaxed) != NULL) &&
        !weir__block_enter_locked(pool, block)) {
        return NULL;
    }
    pool->blocks.count++;
    block_set_requested(block, 0);
    block_set_stream(block, NULL);
    block_set_next(block, NULL);
    block_set_state(block, BLOCK_TAKEN);
    return block;
}

/* Pool lock held: the block is none any more. Returns the strategy's token. */
static inline void *block_delete(weir_pool *pool, weir_block *block)
{
    if (UNLIKELY((state_word(block) & BLOCK_USED) != 0 ||
                 atomic_load_explicit(&pool->blocks.index, memory_order_relaxed) != NULL)) {
        weir__block_leave_locked(pool, block);
    }
    pool->blocks.count--;
    block_set_state(block, BLOCK_UNUSED);
    return block;
}

/* The block that starts at `address`, without a lock once the index exists; *found NULL when there is none.
 * WEIR_ERR_NO_MEMORY: no host memory for the index. */
weir_status weir__block_find(weir_pool *pool, uint64_t address, weir_block **found);
/* Pool lock held: visits every block. */
void weir__block_each_locked(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx);
/* Of checked builds: whether the pointer is or was one of the pool's blocks, without looking at what it points to. No lock is
 * held. */
bool weir__block_is_ours(weir_pool *pool, const weir_block *block);
void weir__block_fini(weir_pool *pool);

/* --- arena.c --- */

/* The pool is being destroyed: its arenas answer WEIR_ERR_INVALID from now on. */
void weir__arena_orphan_all(weir_pool *pool);

/* --- counters.c --- */

/* The sums of all streams' counters. */
struct live_sums {
    int64_t requested;
    int64_t live;
};

/* Remembers the peaks of live bytes when several streams share them out, and those of tags. No lock is held. Returns
 * the live bytes. */
uint64_t weir__inspect_sample(weir_pool *pool);
/* Pool lock held: remembers sums that are higher than the peaks so far. */
void weir__peaks_raise_locked(weir_pool *pool, const struct live_sums *sums);

/* The sums of all tags; [0] is the rest, that no tag counts. `peaks`: of the last stream looked at, which is the only
 * one when its peaks are asked for. */
struct tag_sums {
    uint32_t tags;
    size_t lanes;
    uint64_t allocs[WEIR_TAGS];
    uint64_t frees[WEIR_TAGS];
    int64_t requested[WEIR_TAGS];
    int64_t peaks[WEIR_TAGS];
};

/* Takes the streams' locks one after the other. */
void weir__tag_sum_up(weir_pool *pool, struct tag_sums *sums);
/* Stream lock held: the same for one stream; then, once all streams are in, the untagged rest. */
void weir__tag_add_stream(struct tag_sums *sums, const weir_stream *stream);
void weir__tag_leave_untagged(struct tag_sums *sums);
/* Pool lock held, and it has tags. */
void weir__tag_raise_peaks_locked(weir_pool *pool, const struct tag_sums *sums);

/* Stream lock held: the block, which is live, is counted under the tag, which is not 0; and no longer. */
void weir__tag_take(weir_stream *stream, weir_block *block, weir_tag tag);
void weir__tag_drop(weir_stream *stream, weir_block *block);
/* Stream lock held: what is counted under a tag no longer is. */
static inline void drop_tag(weir_stream *stream, weir_block *block)
{
    if (UNLIKELY(tag_of(block) != 0)) {
        weir__tag_drop(stream, block);
    }
}

/* Pool lock held: room for counters on a stream that nobody knows yet; false without host memory. */
bool weir__tag_prepare_locked(const weir_pool *pool, weir_stream *stream);

/* --- tag.c --- */

/* Fills the record's holders. No lock is held. */
void weir__tag_holders(weir_pool *pool, weir_oom_record *record);
/* All locks held: the first broken rule of the counters; NULL. */
const char *weir__tag_broken_locked(weir_pool *pool);
void weir__tag_fini(weir_pool *pool);

/* --- survey.c --- */

typedef enum survey_state {
    SURVEY_FREE,  /* in the strategy */
    SURVEY_LOOSE, /* a block that nobody holds: cached, in an inbox or pending */
    SURVEY_TAKEN,
    SURVEY_HOLE, /* addresses without memory */
} survey_state;

#define SURVEY_SEVERAL UINT32_MAX

struct survey_piece {
    uint64_t address;
    uint64_t size;
    uint64_t region;
    uint64_t region_size;
    uint32_t stuck; /* not taken: the stream whose unfinished work keeps the asking stream off; SURVEY_SEVERAL: more
                       than one, or not known; 0 = none */
    survey_state state;
};

/* Every range at one moment, by address; regions do not overlap, so each is a run of its own. */
struct survey {
    struct survey_piece *pieces;
    size_t count;
};

/* As `stream` sees it. False without host memory. No lock is held. */
bool weir__survey_take(weir_pool *pool, const weir_stream *stream, struct survey *survey);
/* With virtual memory: bytes of the granules that free ranges make up wholly, whichever stream may have them. */
uint64_t weir__survey_free_granules(const struct survey *survey, uint64_t granule);
void weir__survey_fini(struct survey *survey);

/* --- observers.c --- */

struct pool_observer {
    weir_observer_ops ops;
    void *ctx;
    _Atomic(struct pool_observer *) next;
};

/* One observer alone, as its observation begins: memory, and a block if it is live. All locks are held. */
void weir__observer_tell_memory(const struct pool_observer *observer, bool given, uint64_t address, uint64_t size);
void weir__observer_list_block(const struct pool_observer *observer, const weir_block *block);

/* Stream lock held, let go on return: a block of the stream's has become live, and its caller does not have it yet. */
void weir__watch_alloc_unlock(weir_stream *stream, weir_block *block, uint64_t align);
/* A stream's lock held: the live block is about to be freed on the stream; NULL: idle. */
void weir__watch_free(const weir_block *block, const weir_stream *stream);
/* By the thread that grows: the device has given this, or is about to get it back. No lock is held. */
void weir__watch_given(const weir_pool *pool, uint64_t address, uint64_t size);
void weir__watch_taken(const weir_pool *pool, uint64_t address, uint64_t size);
/* No lock is held: the stream uses the live block; a caller has told of an event or, with NULL, of a stream; a trim. */
void weir__watch_use(const weir_block *block, const weir_stream *stream);
void weir__watch_event(weir_pool *pool, weir_observed_kind kind, const void *event, const weir_stream *stream);
void weir__watch_trim(weir_pool *pool);
/* The pool is being destroyed, and its memory has not gone back yet: no block is live any more. */
void weir__watch_end_blocks(weir_pool *pool);
void weir__watch_end(weir_pool *pool);

struct request; /* order/order.h */

/* --- oom.c --- */

/* Fills the pool's record of a failed request; the pool's `explain`. No lock is held. */
void weir__oom_explain_now(const struct request *request);

#endif
