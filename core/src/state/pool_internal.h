/* core/src/state/pool_internal.h: the parts of a pool. core/README.md describes each file.
 *
 * order/order.h tells how a request gets memory, memory/memory.h where memory comes from.
 *
 * Locks: one per stream (stream_lock.h: held for a few instructions, or around a device call that does not block), and
 * one per pool (of the same kind). Order: stream, then pool. A thread never holds two streams' locks, except in
 * weir__pool_lock_all, which takes them by lane. No thread holds any of these locks during a device call that can
 * block.
 */
#ifndef WEIR_CORE_POOL_INTERNAL_H
#define WEIR_CORE_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <weir/arena.h>
#include <weir/budget.h>
#include <weir/observer.h>
#include <weir/strategy.h>

#include "device/device_internal.h"
#include "shared/assert.h"
#include "shared/clock.h"
#include "shared/number_map.h"
#include "shared/round_up.h"
#include "state/block.h"
#include "state/mark.h"
#include "state/stream_lock.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* A build with -DWEIR_CHECKS=n adds these checks to the assertions of shared/assert.h:
 *     1   handles are looked up before they are followed: a foreign pointer is WEIR_ERR_INVALID, not a crash
 *     2   the strategy's invariants are checked after every 256th call that reaches it
 *     3   the whole pool's invariants are checked after every call that reaches the strategy
 * A broken invariant aborts the program: it is a bug of weir, and continuing would only hide it. */

/* --- the front cache: see front_cache.h --- */

#define FRONT_GRANULES 131072u /* granules of the largest size class: 64 MiB */
#define FRONT_BINS 417u        /* number of size classes: 32 for each doubling up to FRONT_GRANULES */
#define FRONT_DEPTH 7u
#define FRONT_LARGE 7u
#define FRONT_WORDS ((FRONT_BINS + 63) / 64)

/* The cached blocks of one size class (bin), last in first out. One cache line. */
struct front_slot {
    uint16_t count;
    uint16_t room; /* the most blocks that the slot may hold; valid while the pool's front.epoch equals `epoch` */
    uint32_t epoch;
    weir_block *blocks[FRONT_DEPTH];
};

/* A stream's cache of freed blocks. `last` is the block freed last; it still counts as live, so a pair of alloc and
 * free of one size touches nothing else. Bit b of `held` is set if slots[b] (of size class b) holds a block. */
struct front_cache {
    weir_block *last;
    uint64_t last_key;           /* the request size of the block in `last`, in granules minus one; FRONT_EMPTY if
                                    `last` is empty */
    uint64_t last_limit;         /* a freed block goes into `last` if its request had at most this many bytes */
    uint64_t last_limit_waiting; /* last_limit while the stream is in lane_group.waiting; 0 if the stream has a tag
                                    or every request takes the slow path */
    uint64_t bytes;              /* in slots */
    uint64_t held[FRONT_WORDS];
    bool waits; /* true: the stream is in lane_group.waiting; false: it may be in it, see is_waiting */
    uint32_t large_count;
    uint32_t large_keys[FRONT_LARGE]; /* capacity in granules of each large block, in the order of their frees */
    weir_block *large[FRONT_LARGE];
    _Alignas(64) struct front_slot slots[FRONT_BINS];
};

#define FRONT_EMPTY UINT64_MAX
#define FRONT_SMALL_LEAST 128u /* blocks up to this many granules are small in every pool */

/* --- streams --- */

/* Counters of one stream, under its lock: the fast path writes no counter of another stream. Live figures are
 * differences and can be negative, because a block may be freed on another stream than the one it was allocated on. */
struct stream_counters {
    uint64_t frees;
    uint64_t misses; /* allocs that no front cache served; the number of all allocs is the sum of `sizes` */
    /* Each sum lies beside its own peak. Compilers would move two adjacent sums as one vector, and loading the vector
     * would stall, because its parts have just been stored one by one. */
    int64_t requested;
    int64_t peak_requested;
    int64_t live;
    int64_t peak_live;
    uint64_t sizes[WEIR_SIZE_BUCKETS];
};

/* Counters of one stream for the blocks of one tag. Summed over all streams, allocs - frees = live blocks. */
struct tag_counters {
    uint64_t allocs;
    uint64_t frees;
    int64_t requested;
    int64_t peak;
};

/* The tags of a pool. Allocated when the first tag gets a name. */
struct pool_tags {
    char *names[WEIR_TAGS];   /* indexed by tag; a name is written once, before the pool's tag_count covers it */
    int64_t peaks[WEIR_TAGS]; /* indexed by tag: most live bytes, under the pool's lock; exact if the pool has one
                                 stream and the tag is not 0, else sampled */
};

/* The pool's own event on a stream. While `in_flight`, completion of the event means that the stream's ticks up to
 * `tick` are done. */
struct probe {
    weir_event *event;
    weir_tick tick;
    bool in_flight;
};

/* A thread that frees into a stream's remote free list reads only rarely written fields of the stream. These fields
 * have cache lines of their own. */
struct weir_stream {
    weir_pool *pool; /* the pool that accepts this handle from callers; NULL once retired */
    weir_pool *owner;
    void *native;
    uint64_t serial;                    /* never used twice in a pool */
    _Atomic uint64_t front_block_bytes; /* the largest request that the front cache serves; 0 while the pool has an
                                           observer */
    struct lane_group *group;
    weir_lane lane; /* the stream's number, from 1 */
    weir_lane home; /* the lane that the stream searches first and that gets its new memory: `lane`, or the open lane of
                       all streams on a device without streams */
    weir_tag tag;   /* tag of blocks from weir_pool_alloc; under the stream's lock */

    /* From here on, fields written under this lock. They begin in its second cache line: */
    _Alignas(64) struct stream_lock lock;
    _Atomic weir_tick tick; /* the stream's logical time, stamped on frees; raised under the stream's lock before an
                               event is recorded */
    struct stream_counters counters;
    struct tag_counters *tags; /* indexed by tag; NULL until the pool has a tag */
    struct probe probe;
    _Atomic(weir_block *)
        returned; /* blocks taken out of the remote free list, but not examined yet; other threads only test the
                     pointer for NULL */
    struct front_cache front;

    /* Under the pool's lock: */
    bool retired;
    uint64_t waited;     /* the latest wait round in which this stream was waited for */
    weir_tick promoted;  /* completed ticks up to this one have been reported to the strategy */
    weir_tick last_free; /* the latest tick stamped on memory that went back to the strategy or is pending */
    weir_tick *clock;    /* the vector clock: for each lane, the tick up to which the lane's work is ordered before
                            all work queued on this stream from now on */
    size_t clock_lanes;

    /* Without a lock: */
    _Alignas(128) _Atomic(weir_block *)
        remote_frees; /* blocks that other threads have freed on this stream: see remote_frees.c */
    _Atomic uint64_t remote_frees_bytes;
};

/* Sets of streams: 64 streams with a bit each, so that a request that leaves its own lane need not ask every stream.
 * One cache line, so that a thousand streams need sixteen.
 *
 * A stream enters `waiting` before it can hold a freed block without a tick: a block in its remote free list, or a
 * large block in its front cache. It leaves, under the stream's lock, when a poll finds no such block. The fast path
 * does not read the set: while the stream is outside the set, `last_limit` keeps large blocks out of `last`.
 */
struct lane_group {
    _Atomic uint64_t waiting; /* without a lock */
    /* Under the pool's lock. weir__lane_note_locked updates all these sets but `missed_promotion`: */
    uint64_t unfinished; /* streams with freed memory that the host does not know to be idle yet */
    uint64_t completed;  /* streams with completed ticks that the strategy has not been told of */
    /* streams that may hold memory freed at a tick reported to the strategy as complete before */
    uint64_t missed_promotion;
    uint64_t retired;
    uint64_t unused[3];
};

/* --- regions --- */

struct pool_region {
    uint64_t address;
    uint64_t size;
    uint64_t hint;             /* the size of the request that the region was taken for */
    weir_lane lane;            /* lane of the stream that the region was taken for */
    struct pool_region *going; /* the next region in a list of regions taken out of the strategy */
    void *handle; /* the strategy's handle; NULL while the region is on its way back to the device or set aside */
    struct pool_region *prev;
    struct pool_region *next;
};

/* An event that the caller has recorded: the tick and the vector clock of its stream at that moment. */
struct known_event {
    weir_lane lane;
    weir_tick tick;
    weir_tick *clock;
    size_t clock_lanes;
};

struct request;

/* Observers: see observers.c. */
struct pool_watch {
    _Atomic(struct pool_observer *) observers; /* newest first */
    _Atomic uint32_t reporting[2]; /* threads that report to observers without a lock; a thread counts itself at index
                                      `side` % 2, which it reads when it begins */
    atomic_uint side;              /* raised by a thread that detaches an observer, which then waits until the count at
                                      the former index is 0 */
    atomic_bool awaiting;          /* a thread that detaches an observer waits for the reporting threads */
    atomic_bool any;               /* true if there is an observer */
};

/* Bounds of the streams' front caches (caches of freed blocks). `small` and `slot` are in granules. */
struct pool_front {
    _Atomic uint64_t small; /* requests up to this size are small and are rounded up to a size class */
    _Atomic uint64_t slot;  /* how much one slot may hold */
    _Atomic uint64_t limit; /* bytes of small blocks that one stream may cache */
    _Atomic uint32_t epoch; /* number of changes of `slot`: see struct front_slot */
    uint64_t largest;       /* bytes of the largest request that a front cache serves; 0: no front caches */
};

/* One thread at a time takes memory from the device or returns it: see region.c. */
struct pool_growth {
    bool taken;
    pthread_mutex_t mutex; /* protects the wait for `ended`; held together with the pool's lock only for an instant */
    pthread_cond_t ended;
};

/* Events that could not be destroyed. The next stream that needs an event takes one; a trim tries to destroy them
 * again. */
struct pool_kept_events {
    weir_event **events;
    size_t count;
    size_t room; /* room in `events`: at least `made`, so that an event can always be kept */
    size_t made; /* events that the pool has created and not destroyed */
};

/* See block.c. */
struct pool_blocks {
    size_t count;                        /* taken ranges that are blocks */
    weir__number_map handles;            /* checked builds only: every block that ever existed */
    _Atomic(struct block_index *) index; /* NULL until a block is looked up by its address */
    struct entry_chunk *chunks;
    struct index_entry *unused;
    atomic_uint version; /* version of the hash chains: odd while a writer changes them */
};

/* The reserved bytes, and the limits on them: see budget.c and mark.h. */
struct pool_held {
    uint64_t bytes;      /* reserved bytes; with a limit at most max(limit_bytes, over_limit) */
    uint64_t over_limit; /* if the limit was lowered below the reserved bytes: the reserved bytes of that moment,
                            less the bytes returned later; else 0 */
    uint64_t peak;
    struct high_mark mark;
    bool pressure_spent;       /* the pressure callback had nothing more to free after the reserved bytes last
                                  crossed the soft limit, so it is not called */
    bool in_pressure_callback; /* the pressure callback is running */
};

/* Counters that weir_pool_get_stats reports. */
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
    void *state;                     /* the strategy's */
    const struct memory_ops *memory; /* the source of memory: regions or virtual memory */
    weir_pool_config config;
    uint64_t granule_mask;
    uint64_t next_serial; /* of streams */
    unsigned granule_shift;
    bool ordered;      /* true: the device has streams and events */
    atomic_bool plain; /* true: blocks need no data outside their records, because the pool has no virtual memory, no
                          private lanes and no index by address. Becomes false under the pool's lock. */
    pid_t process;
    atomic_uint holds; /* the pool is not destroyed while this is above 0 */
    struct pool_front front;
    struct pool_watch watch;
    _Atomic uint32_t tag_count; /* number of tags, including tag 0 of untagged blocks */
    struct pool_tags *tags;

    struct stream_lock lock;
    struct pool_growth growth;

    weir_stream **streams;      /* by lane; streams[0] is NULL */
    size_t lanes;               /* one more than the number of the highest lane */
    size_t lane_room;           /* of the arrays by lane */
    weir_tick *done;            /* by lane: the highest tick that the host knows to be complete */
    weir_tick *limits;          /* scratch, by lane */
    struct lane_group **groups; /* indexed by lane / 64; a group never moves */
    weir__number_map natives;   /* from native stream handles to lanes, without retired streams */
    weir__number_map events;    /* from a caller's event to its struct known_event */
    struct pool_kept_events kept;

    struct pool_region *regions;   /* newest first */
    size_t regions_aside;          /* number of regions that the strategy had no host memory for: see region.c */
    weir__number_map region_table; /* from a region's address to its struct pool_region */
    struct pool_vm *vm;            /* NULL: the pool takes regions */
    struct pool_held held;

    struct pool_blocks blocks;
    weir_block *pending;
    uint64_t pending_bytes;
    int64_t peak_requested; /* most requested bytes live at once; sampled while there are several streams */
    int64_t peak_live;

    weir_arena *arenas;
    uint64_t arenas_made;

    struct pool_counts counts;
    uint64_t wait_rounds; /* number of wait rounds begun; in a round a thread waits for each busy stream once */
    uint64_t slow_frees;  /* number of frees that reached the strategy; a failing request compares it to learn that
                             memory was freed */
    weir_oom_record oom;  /* describes the last request that failed */
    void (*explain)(const struct request *request); /* function that fills `oom`; set by life.c, so that order/ does
                                                       not call report/ */
    _Atomic unsigned slow_calls;                    /* checked builds only */
};

/* --- conditions for assertions about locks: always true in a single-threaded pool, which does not lock --- */

static inline bool stream_is_locked(const weir_stream *stream)
{
    return stream->lock.off || stream_lock_is_mine(&stream->lock);
}

static inline bool pool_is_locked(const weir_pool *pool)
{
    return pool->lock.off || stream_lock_is_mine(&pool->lock);
}

static inline bool outside_stream_lock(const weir_stream *stream)
{
    return stream->lock.off || !stream_lock_is_mine(&stream->lock);
}

static inline bool outside_pool_lock(const weir_pool *pool)
{
    return pool->lock.off || !stream_lock_is_mine(&pool->lock);
}

/* --- locks (inline, because the fast path uses the first two functions) --- */

/* Takes the stream's lock for an alloc or a free on the stream. The calling thread may become the lock's owner. */
static inline void stream_lock(weir_stream *stream)
{
    WEIR_ASSERT(outside_stream_lock(stream));
    WEIR_ASSERT(outside_pool_lock(stream->owner));
    struct lock_seat *seat;
    if (!stream_lock_try(&stream->lock, &seat)) {
        weir__stream_lock_slow(&stream->lock, &stream->counters.frees, true);
    }
}

/* Takes the stream's lock for any purpose but an alloc or a free. The calling thread does not become the owner, so the
 * lock stays cheap for the thread that feeds the stream. */
static inline void stream_visit(weir_stream *stream)
{
    WEIR_ASSERT(outside_stream_lock(stream));
    WEIR_ASSERT(outside_pool_lock(stream->owner));
    struct lock_seat *seat;
    if (!stream_lock_try(&stream->lock, &seat)) {
        weir__stream_lock_slow(&stream->lock, &stream->counters.frees, false);
    }
}

static inline void stream_unlock(weir_stream *stream)
{
    stream_lock_release(&stream->lock);
}

/* Take the pool's lock: pool_work for allocs and frees (the calling thread may become the owner), pool_lock for any
 * other purpose (it does not). */
static inline void pool_work(weir_pool *pool)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    struct lock_seat *seat;
    if (!stream_lock_try(&pool->lock, &seat)) {
        weir__stream_lock_slow(&pool->lock, &pool->slow_frees, true);
    }
}

static inline void pool_lock(weir_pool *pool)
{
    WEIR_ASSERT(outside_pool_lock(pool));
    struct lock_seat *seat;
    if (!stream_lock_try(&pool->lock, &seat)) {
        weir__stream_lock_slow(&pool->lock, &pool->slow_frees, false);
    }
}

static inline void pool_unlock(weir_pool *pool)
{
    stream_lock_release(&pool->lock);
}

/* Requires a block that is not free. */
static inline weir_pool *block_pool(const weir_block *block)
{
    WEIR_ASSERT(block_stream(block) != NULL);
    return block_stream(block)->owner;
}

/* --- small inline functions that several files use --- */

static inline void keep_first(weir_status *first, weir_status status)
{
    *first = *first == WEIR_OK ? status : *first;
}

/* Makes a failed call once more, so that a transient failure leaks no memory. */
#define TWICE(call) ((call) == WEIR_OK ? WEIR_OK : (call))

/* --- counters and states (inline) --- */

static inline unsigned size_bucket(uint64_t size)
{
    WEIR_ASSERT(size != 0);
    return 63u - (unsigned)__builtin_clzll(size);
}

static inline void count_alloc(weir_stream *stream, uint64_t size, uint64_t capacity)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(size <= capacity);
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

static inline void make_live(weir_stream *stream, weir_block *block, uint64_t size)
{
    block_set_requested(block, size);
    block_set_stream(block, stream);
    block_set_state(block, BLOCK_LIVE);
    count_alloc(stream, size, block_capacity(block));
}

/* Makes a block live that was freed on the stream, and counts the alloc. Stream lock held. */
static inline void revive_block(weir_stream *stream, weir_block *block, uint64_t size)
{
    WEIR_ASSERT(state_of(block) == BLOCK_CACHED || state_of(block) == BLOCK_RETURNED);
    make_live(stream, block, size);
}

/* Makes a block in state BLOCK_TAKEN live and counts the alloc. Keeps the bit BLOCK_USED. Stream lock held. */
static inline void begin_block(weir_stream *stream, weir_block *block, uint64_t size)
{
    WEIR_ASSERT(stream_is_locked(stream));
    WEIR_ASSERT(state_of(block) == BLOCK_TAKEN && block_stream(block) == stream && block_requested(block) == size);
    block_set_word(block, state_word(block) - BLOCK_WORD(BLOCK_TAKEN) + BLOCK_WORD(BLOCK_LIVE));
    count_alloc(stream, size, block_capacity(block));
}

static inline void count_free_of(weir_stream *stream, uint64_t size, uint64_t capacity)
{
    WEIR_ASSERT(stream_is_locked(stream));
    struct stream_counters *counters = &stream->counters;
    counters->frees++;
    counters->requested -= (int64_t)size;
    counters->live -= (int64_t)capacity;
}

static inline void count_free(weir_stream *stream, const weir_block *block)
{
    count_free_of(stream, block_requested(block), block_capacity(block));
}

static inline uint64_t front_block_bytes(const weir_stream *stream)
{
    return atomic_load_explicit(&stream->front_block_bytes, memory_order_relaxed);
}

/* True if the pool has an observer. A stream's lock is held, because without it the answer may be outdated at once. */
static inline bool is_watched(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->watch.any, memory_order_relaxed);
}

static inline bool is_plain(const weir_pool *pool)
{
    return atomic_load_explicit(&pool->plain, memory_order_relaxed);
}

/* Returns the size of the largest request for a front cache now: 0 while the pool has an observer. Pool lock held. */
static inline uint64_t weir__pool_front_block_bytes(const weir_pool *pool)
{
    WEIR_ASSERT(pool_is_locked(pool));
    return is_watched(pool) ? 0 : pool->front.largest;
}

/* --- lock_all.c --- */

/* Takes every stream's lock and the pool's lock: nothing changes until weir__pool_unlock_all. */
void weir__pool_lock_all(weir_pool *pool);
void weir__pool_unlock_all(weir_pool *pool);

/* Counts the block in front.last as freed, and moves it to the rest of the front cache or to the strategy
 * (remote_frees.c). Stream lock held. */
void weir__front_unload(weir_pool *pool, weir_stream *stream);
static inline void front_unload(weir_stream *stream)
{
    WEIR_ASSERT(stream_is_locked(stream));
    if (stream->front.last_key != FRONT_EMPTY) {
        weir__front_unload(stream->owner, stream);
    }
}

/* --- remote_frees.c --- */

/* Frees a live block that no other stream uses, without the stream's lock. For a thread that does not feed the stream.
 * Returns false if the block is not live or must be freed under the stream's lock. */
bool weir__remote_frees_put(weir_pool *pool, weir_block *block, weir_stream *stream);
/* Takes a block of `key` granules, or up to 1/16 more, out of the remote free list. Returns NULL if there is none.
 * Moves other blocks that it finds to the front cache or the strategy. Stream lock held, pool lock not held. */
weir_block *weir__remote_frees_take(weir_pool *pool, weir_stream *stream, uint64_t key);
/* Empties the remote free list into the front cache and the strategy. Returns true if there was a block. Stream lock
 * held, pool lock not held. */
bool weir__remote_frees_clear(weir_pool *pool, weir_stream *stream);

static inline bool remote_frees_are_empty(const weir_stream *stream)
{
    /* Tests both pointers at once: usually both are NULL. */
    return ((uintptr_t)atomic_load_explicit(&stream->remote_frees, memory_order_relaxed) |
            (uintptr_t)atomic_load_explicit(&stream->returned, memory_order_relaxed)) == 0;
}

/* --- clock.c --- */

/* Returns WEIR_ERR_INVALID with the error message for a tag that the pool did not give, or a pool that is NULL. */
weir_status weir__refuse_tag(const char *function, const weir_pool *pool, weir_tag tag);
/* Returns WEIR_ERR_INVALID with the error message for a stream that is NULL, retired or of another pool, or a pool that
 * is NULL. */
weir_status weir__refuse_stream(const char *function, const weir_pool *pool, const weir_stream *stream);

/* Sets the size of the largest request that the stream's front cache serves. The stream's tag is already set. Stream
 * lock held, unless no other thread knows the stream yet. */
void weir__stream_set_front(weir_stream *stream, uint64_t block_bytes);
/* Raises the stream's clock[lane] to `tick` unless it is higher. Returns false when out of host memory; then memory may
 * be reused later than necessary, but never too early. Pool lock held. */
bool weir__clock_raise_locked(weir_stream *stream, weir_lane lane, weir_tick tick);

/* Returns the first stream number at or above `lane` that is in the set, or 0 if there is none. */
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

/* Adds the stream to lane_group.waiting. Called under the stream's lock, or by the thread that has put a block into the
 * stream's remote free list. */
static inline void mark_waiting(weir_stream *stream)
{
    if (!is_waiting(stream)) {
        (void)atomic_fetch_or_explicit(&stream->group->waiting, lane_bit(stream), memory_order_seq_cst);
    }
}

static inline weir_tick done_on(const weir_stream *stream)
{
    WEIR_ASSERT(stream->lane != WEIR_LANE_OPEN && stream->lane < stream->owner->lanes);
    return stream->owner->done[stream->lane];
}

/* Removes the stream from lane_group.waiting. Stream lock held, and its front cache holds no large block. */
void weir__lane_rest(weir_stream *stream);
/* Updates the stream's bits in its lane_group after a change of its ticks or of `retired`. Pool lock held. */
void weir__lane_note_locked(weir_stream *stream);
/* Notes that memory is freed on the stream of `lane` at a tick that the strategy may know to be complete already. Pool
 * lock held. */
void weir__lane_note_early_locked(weir_pool *pool, weir_lane lane, weir_tick tick);

static inline weir_tick clock_at(const weir_stream *stream, weir_lane lane)
{
    WEIR_ASSERT(stream->clock != NULL || stream->clock_lanes == 0);
    return lane < stream->clock_lanes ? stream->clock[lane] : 0;
}

/* --- stream.c --- */

void weir__stream_fini_events(weir_pool *pool);

/* --- block.c --- */

/* weir__block_enter_locked adds a block to the index by address, if there is an index; it returns false when out of
 * host memory. weir__block_leave_locked removes the block from the index and frees its list of uses. Pool lock held.
 */
bool weir__block_enter_locked(weir_pool *pool, weir_block *block);
void weir__block_leave_locked(weir_pool *pool, weir_block *block);

/* Makes the range, which was just taken, a block for a request of `size` bytes on the stream. Returns NULL when out of
 * host memory. Pool lock held. */
static inline weir_block *block_new(weir_pool *pool, weir_stream *stream, uint64_t size, const weir_range *range)
{
    WEIR_ASSERT(pool_is_locked(pool) && stream->owner == pool);
    weir_block *block = (weir_block *)range->token;
    WEIR_ASSERT(block_address(block) == range->address && block_capacity(block) == range->size);
    if (UNLIKELY(WEIR_CHECKS >= 1 || atomic_load_explicit(&pool->blocks.index, memory_order_relaxed) != NULL) &&
        !weir__block_enter_locked(pool, block)) {
        return NULL;
    }
    pool->blocks.count++;
    block_set_requested(block, size);
    block_set_stream(block, stream);
    block_set_state(block, BLOCK_TAKEN);
    return block;
}

/* Turns a block back into a mere range, still taken in the strategy. Returns the range's token. Pool lock held. */
static inline void *block_delete(weir_pool *pool, weir_block *block)
{
    WEIR_ASSERT(pool_is_locked(pool));
    WEIR_ASSERT(block != NULL && state_of(block) != BLOCK_UNUSED);
    if (UNLIKELY((state_word(block) & BLOCK_USED) != 0 ||
                 atomic_load_explicit(&pool->blocks.index, memory_order_relaxed) != NULL)) {
        weir__block_leave_locked(pool, block);
    }
    WEIR_ASSERT(pool->blocks.count > 0);
    pool->blocks.count--;
    block_set_state(block, BLOCK_UNUSED);
    return block;
}

/* Finds the block that starts at `address`; *found is NULL if there is none. Takes no lock once the index exists.
 * Returns WEIR_ERR_NO_MEMORY if there is no host memory for the index. */
weir_status weir__block_find(weir_pool *pool, uint64_t address, weir_block **found);
/* Calls `visit` for every block of the pool. Pool lock held. */
void weir__block_each_locked(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx);
/* Calls `visit` for every block of a pool that is being destroyed: no other thread uses the pool. */
void weir__block_each_alone(const weir_pool *pool, void (*visit)(void *ctx, weir_block *block), void *ctx);
/* Checked builds only: true if the pointer is or was a block of the pool. Does not dereference the pointer. No lock
 * held. */
bool weir__block_is_ours(weir_pool *pool, const weir_block *block);
void weir__block_fini(weir_pool *pool);

/* --- arena.c --- */

/* Called when the pool is destroyed: from then on its arenas return WEIR_ERR_INVALID. */
void weir__arena_orphan_all(weir_pool *pool);

/* --- counters.c --- */

/* Sums of the counters of all streams. */
struct live_sums {
    int64_t requested;
    int64_t live;
};

/* Raises the peaks of live bytes, which are sampled while the pool has several streams, and the peaks of the tags.
 * Returns the live bytes. No lock held. */
uint64_t weir__inspect_sample(weir_pool *pool);
/* Raises the pool's peaks to the sums where the sums are higher. Pool lock held. */
void weir__peaks_raise_locked(weir_pool *pool, const struct live_sums *sums);

/* Sums of the counters of all tags; index 0 is untagged blocks. `peaks` comes from the last stream added and is used
 * only if the pool has one stream. */
struct tag_sums {
    uint32_t tags;
    size_t lanes;
    uint64_t allocs[WEIR_TAGS];
    uint64_t frees[WEIR_TAGS];
    int64_t requested[WEIR_TAGS];
    int64_t peaks[WEIR_TAGS];
};

/* Sums up all tags. Takes the streams' locks one after the other. */
void weir__tag_sum_up(weir_pool *pool, struct tag_sums *sums);
/* The two steps of weir__tag_sum_up. weir__tag_add_stream adds one stream, whose lock is held. After all streams,
 * weir__tag_leave_untagged subtracts the sums of the tags from index 0, so that only untagged blocks are left. */
void weir__tag_add_stream(struct tag_sums *sums, const weir_stream *stream);
void weir__tag_leave_untagged(struct tag_sums *sums);
/* Raises the peak of each tag to its present sum. Pool lock held; the pool has tags. */
void weir__tag_raise_peaks_locked(weir_pool *pool, const struct tag_sums *sums);

/* weir__tag_take adds a live block to the counters of its tag; weir__tag_drop subtracts it. Stream lock held. */
void weir__tag_take(weir_stream *stream, weir_block *block, weir_tag tag);
void weir__tag_drop(weir_stream *stream, weir_block *block);
/* Subtracts a block from the counters of its tag, if it has a tag. Stream lock held. */
static inline void drop_tag(weir_stream *stream, weir_block *block)
{
    WEIR_ASSERT(stream_is_locked(stream));
    if (UNLIKELY(tag_of(block) != 0)) {
        weir__tag_drop(stream, block);
    }
}

/* Allocates the tag counters of a stream that no other thread knows yet, if the pool has tags. Returns false when out
 * of host memory. Pool lock held. */
bool weir__tag_prepare_locked(const weir_pool *pool, weir_stream *stream);

/* --- tag.c --- */

/* Fills record->holders: the tags with the most live bytes. No lock held. */
void weir__tag_holders(weir_pool *pool, weir_oom_record *record);
/* Returns a description of the first broken invariant of the counters, or NULL. All locks held. */
const char *weir__tag_broken_locked(weir_pool *pool);
void weir__tag_fini(weir_pool *pool);

/* --- inspect.c --- */

/* Calls `visit` for every address range of the pool. All locks held. */
void weir__inspect_walk_locked(weir_pool *pool, weir_walk_visitor visit, void *ctx);

/* --- snapshot.c --- */

typedef enum snapshot_state {
    SNAPSHOT_FREE,  /* free in the strategy */
    SNAPSHOT_LOOSE, /* a freed block whose record still exists: cached, in a remote free list or pending */
    SNAPSHOT_TAKEN,
    SNAPSHOT_HOLE, /* addresses without memory */
} snapshot_state;

#define SNAPSHOT_SEVERAL UINT32_MAX

struct snapshot_piece {
    uint64_t address;
    uint64_t size;
    uint64_t region;
    uint64_t region_size;
    uint32_t stuck; /* for a piece that is not taken: the stream whose unfinished work keeps the asking stream from
                       using the piece; SNAPSHOT_SEVERAL: several streams, or unknown; 0: none */
    snapshot_state state;
};

/* All ranges at one moment, sorted by address. Regions do not overlap, so the pieces of a region are adjacent. */
struct snapshot {
    struct snapshot_piece *pieces;
    size_t count;
};

/* Copies all address ranges of the pool. `stuck` of each piece names the stream that keeps `stream` from using the
 * piece. Returns false when out of host memory. No lock held. */
bool weir__snapshot_take(weir_pool *pool, const weir_stream *stream, struct snapshot *snapshot);
/* Virtual memory: returns the bytes of the granules in which all ranges are free, on any streams. */
uint64_t weir__snapshot_free_granules(const struct snapshot *snapshot, uint64_t granule);
void weir__snapshot_fini(struct snapshot *snapshot);

/* --- observers.c --- */

struct pool_observer {
    weir_observer_ops ops;
    void *ctx;
    _Atomic(struct pool_observer *) next;
};

/* Report the pool's present state to an observer that is being attached: the first function a range of memory, the
 * second one a block, if the block is live. All locks held. */
void weir__observer_tell_memory(const struct pool_observer *observer, bool given, uint64_t address, uint64_t size);
void weir__observer_list_block(const struct pool_observer *observer, const weir_block *block);

/* Reports an alloc to observers, before the caller gets the block. Stream lock held on entry, released on return. */
void weir__watch_alloc_unlock(weir_stream *stream, weir_block *block, uint64_t align);
/* Reports the free of a live block, just before the block is freed on `stream`, or as idle if `stream` is NULL. A
 * stream's lock held. */
void weir__watch_free(const weir_block *block, const weir_stream *stream);
/* Report memory to the observers that the device has given, or that it is about to get back. Called by the thread that
 * grows. No lock held. */
void weir__watch_given(const weir_pool *pool, uint64_t address, uint64_t size);
void weir__watch_taken(const weir_pool *pool, uint64_t address, uint64_t size);
/* Report to the observers a use of a live block; a caller's hint about an event, or about a stream if `event` is NULL;
 * and a trim. No lock held. */
void weir__watch_use(const weir_block *block, const weir_stream *stream);
void weir__watch_event(weir_pool *pool, weir_observed_kind kind, const void *event, const weir_stream *stream);
void weir__watch_trim(weir_pool *pool);
/* Called when the pool is destroyed, before its memory goes back. weir__watch_end_blocks reports every live block as
 * freed; weir__watch_end reports the pool's end and frees the observers. */
void weir__watch_end_blocks(weir_pool *pool);
void weir__watch_end(weir_pool *pool);

struct request; /* order/order.h */

/* --- oom.c --- */

/* Fills the pool's record of a failed request. The pool calls it as pool->explain. No lock held. */
void weir__oom_explain_now(const struct request *request);

#endif
