/* core/src/state/stream.h: what a stream of a pool is: its front cache, its counters, its place among the streams.
 * Functions on them: front_cache.h, counters.h, clock.h.
 */
#ifndef WEIR_CORE_STATE_STREAM_H
#define WEIR_CORE_STATE_STREAM_H

#include <weir/budget.h>
#include <weir/strategy.h>

#include "state/stream_lock.h"

/* --- the front cache: see front_cache.h --- */

#define FRONT_GRANULES 131072u /* granules of the largest size class: 64 MiB */
#define FRONT_BINS 417u        /* number of size classes: 32 for each doubling up to FRONT_GRANULES */
#define FRONT_DEPTH 7u
#define FRONT_LARGE 7u
#define FRONT_WORDS ((FRONT_BINS + 63) / 64)
#define FRONT_GROUP                                                                                                    \
    32u /* slots whose memory comes together, when the first of them gets a block: those of a doubling */
#define FRONT_GROUPS ((FRONT_BINS + FRONT_GROUP - 1) / FRONT_GROUP)

/* The cached blocks of one size class (bin), last in first out. One cache line. */
struct front_slot {
    uint16_t count;
    uint16_t room; /* the most blocks that the slot may hold; valid while the pool's front.epoch equals `epoch` */
    uint32_t epoch;
    weir_block *blocks[FRONT_DEPTH];
};

/* A stream's cache of freed blocks. `last` is the block freed last; it still counts as live, so a pair of alloc and
 * free of one size touches nothing else. Bit b of `held` is set if the slot of size class b holds a block. */
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
    struct front_slot *groups[FRONT_GROUPS]; /* FRONT_GROUP slots each; NULL until one of them gets a block */
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

/* The pool's own event on a stream. While `in_flight`, completion of the event means that the stream's ticks up to
 * `tick` are done. */
struct probe {
    weir_event *event;
    weir_tick tick;
    bool in_flight;
};

/* What makes a stream a stand-in: it stands for a stream that is being captured, so that what happens in the capture
 * has a lane, ticks and a clock of its own. Written under the pool's lock. See capture.c. */
struct stand_in {
    struct weir_capture_pool *captures; /* NULL: the stream is a stream of the program */
    weir_stream *of;                    /* the stream that it stands for, or stood for last */
    weir_stream *next;                  /* the next stand-in of the same capture pool */
    weir_tick begun;                    /* the tick at which the capture under way began */
    uint64_t live_bytes;                /* in blocks that were allocated on it and have not gone back to the strategy */
};

/* A thread that frees into a stream's remote free list reads only rarely written fields of the stream. These fields
 * have cache lines of their own. */
struct weir_stream {
    weir_pool *quick; /* the pool whose fast path takes this handle; NULL if a call must first learn whether the stream
                         is being captured, while it is, and once retired */
    weir_pool *pool;  /* the pool that accepts this handle from callers; NULL once retired */
    weir_pool *owner;
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
    void *native;
    _Atomic(weir_stream *) stand_in; /* the stand-in of this stream while it is being captured; else NULL. Read without
                                        the lock */
    atomic_bool
        told; /* the program has told that the stream is being captured: no event is recorded any more. Set under
                         the stream's lock, read under either lock */
    _Atomic(weir_stream *) borrows; /* the stand-in whose memory is lent to this stream; else NULL. Read without the
                                       lock */
    struct stand_in as;
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

/* True if the stream stands for a stream that is being captured, or was. */
static inline bool is_stand_in(const weir_stream *stream)
{
    return stream->as.captures != NULL;
}

/* Returns the program's stream: for a stand-in, the one that it stands for, or stood for last. */
static inline const weir_stream *program_stream(const weir_stream *stream)
{
    return stream != NULL && stream->as.of != NULL ? stream->as.of : stream;
}

/* True if the stand-in's stream is being captured. */
static inline bool is_standing(const weir_stream *stream)
{
    return stream->as.of != NULL && atomic_load_explicit(&stream->as.of->stand_in, memory_order_relaxed) == stream;
}

#endif
