/* core/src/base/tuning.h: the numbers of core that are judgments: another value would be correct too.
 *
 * Each number stands with its unit, its evidence and its bound. The bound is the range in which the number may change,
 * or what the number limits. Evidence: "Regions" is a section of core/TRIALS.md, which describes the workloads too, and
 * of core/DESIGN.md; "recordings" are the 32 traces there. A number "not tried" has no measurement of other values. All
 * were judged on the same recordings, so programs of another kind may want other values.
 *
 * Not here: numbers that follow from a layout (FRONT_DEPTH fills a cache line), first sizes of tables that grow.
 */
#ifndef WEIR_CORE_TUNING_H
#define WEIR_CORE_TUNING_H

/* --- the high-water mark: state/mark.c --- */

enum {
    /* A rise of the mark by all live bytes is worth a device call for so many misses of the front caches. Evidence:
     * Regions; with 1, 3 and 4 in its place phases of 1,000 requests need 1.35, 1.39 and 1.43 of live in the place of
     * 1.38. Bound: the next two. */
    misses_a_call = 2,
    /* The least and the most of these calls. Evidence: Regions; with 20,000 from the start recordings need 3 % more
     * calls and no less memory, with 2,000 at the most phases need 1.74. Bound: the guarantee in state/mark.h, which
     * unit.region_mark counts. */
    least_calls_for_all = 2000,
    most_calls_for_all = 20000,
    /* The same for each region of the pool, if that is more: so that regions go back in pools of many small regions
     * too. Not tried. Bound: as most_calls_for_all. */
    calls_per_region = 8,
    /* Share of the live bytes, 1/n, that the mark may exceed them by at no charge. Evidence: with 1/64 one recording
     * takes 1.7 % more than the pytorch model, with 1/128 none takes 0.5 % more. Bound: it adds at most 1/n to reserved
     * over live. */
    live_slack = 128,
    /* Device calls made to keep idle regions whole that such a region is worth if a request would leave the most live
     * bytes of it. Evidence: Regions; 128 need 1.083 of live on recordings in the place of 1.079, 512 need 1.075 for 12
     * % more device calls. Bound: the calls of a pool's life. */
    whole_for_all = 256,
    /* The same where memory is short, above half of the limit. Evidence: Regions; the least limit of one recording is
     * 1.51 of live with 512, 1.22 with 1024, 1.05 with 2048. */
    whole_for_all_near_limit = 2048,
    /* Waits for queued work that a growth by the most live bytes is worth. */
    waits_for_all = 256,
    /* Sizes that keep growing are looked for among so many. Evidence: Regions, "keys and values"; with 64 the programs
     * there need the same. Bound: the time of a growth. */
    growing_looks = 32,
    /* A size that grows does so by at most this share of itself, 1/n. Evidence: the same; with 8 one of the programs
     * needs 5 % more calls. Bound: above the steps of programs. */
    growing_step = 16,
    /* Sizes that must have grown in a row, and the most that count. Evidence: the same; with 8 two of the programs need
     * more memory. Bound: sizes that only change grow for a while too. */
    least_streak = 4,
    most_streak = 16,
    /* An idle region is kept whole if a request would leave at least n quarters of the request's size. Evidence:
     * Regions; 2 and 4 are as good on recordings, with more device calls or for fewer programs. Bound: above 0. */
    whole_quarters = 3,
};

/* --- regions and the bounds of front caches: memory/region.c --- */

enum {
    /* Bytes. Larger requests are large: strategies keep them apart from small ones. Not tried. Bound: it equals the
     * default of the strategy caching. */
    large_bytes = 1 << 20,
    /* Idle regions among which an exchange chooses. Evidence: Regions; 8 and 64 change reserved over live by 0.05
     * points. Bound: the time of an exchange. */
    idle_looks = 16,
    /* Share of the reserved bytes, 1/n, that a front cache may hold. Evidence: Regions, and "front cache" at
     * the end of core/TRIALS.md: cached blocks do not merge. */
    front_cache_share = 32,
    /* The same near the limit. Evidence: core/TRIALS.md; of 248 replays 8 in the place of 14 run out before the
     * pytorch model. */
    front_share_near_limit = 256,
    /* A pool is near its limit when less than this share of the limit, 1/n, is left. Evidence: the same replays. */
    near_limit_share = 4,
    /* Share of the reserved granules, 1/n, up to which a block is small and lies in a slot. Not tried. Bound: the
     * largest size class, FRONT_GRANULES, and the least, FRONT_SMALL_LEAST. */
    front_small_share = 8192,
    /* Share of the reserved granules, 1/n, that one slot may hold, and the granules that it may hold in any pool. Not
     * tried. Bound: FRONT_DEPTH blocks. */
    front_slot_share = 2048,
    front_slot_granules = 1024,
    /* Virtual memory: the share of the reserved bytes that a front cache may hold. Evidence: "Virtual memory" in
     * core/TRIALS.md. */
    front_cache_share_mapped = 64,
};

/* --- virtual memory: memory/vm.c; evidence: "Virtual memory" in core/TRIALS.md --- */

enum {
    /* Idle handles go back before the pool holds more than the most bytes ever live, plus a share 1/n of them, plus
     * these granules. Bound: both add to reserved over live; with 0 each growth would move memory. */
    mark_share = 33,
    mark_granules = 1,
    /* The same share where memory costs by the page (WEIR_DEVICE_PAGEWISE). Evidence: the heap's README. */
    mark_share_by_page = 20,
    /* Share of the pool's memory, 1/n, in one new handle. Bound: larger handles hold more idle memory back. */
    handle_share = 32,
    /* Share of the pool's memory, 1/n, that is created ahead at the end of the range, below the mark. */
    ahead_share = 32,
};

/* --- order/ --- */

enum {
    /* Before the pool grows, blocks below 1/2^n of the reserved bytes stay in the front cache. Evidence: hits of
     * mix100k rise from 64 to 83 %, of mix1k from 57 to 60, and reserved over live stays (12 seeds). Bound: all such
     * blocks together are below a thousandth of the pool. */
    kept_small_shift = 19,
    /* Bytes in the remote free list of a stream; a thread that frees beyond them empties the list. Not tried. Bound:
     * memory that waits for the stream's next call, so it limits what an idle stream keeps from others. */
    remote_frees_most_bytes = 32 << 20,
};

/* --- the lock of a stream: state/stream_lock.c --- */

/* Evidence, of the lock and not of each number: without an owner a pair of alloc and free took 26 ns, 20 of them in the
 * lock (benchmarks/micro). Bound: any values are correct; tests/pool/model/lock_model.cc runs the lock with several. */
enum {
    spins_before_yield = 64,  /* tries of a thread that waits for the lock */
    little_progress = 256,    /* the least operations between two entries of other threads that pay for an owner */
    intrusions_tolerated = 8, /* such entries before the lock loses its owner */
    alone_for_a_while = 1024, /* a thread that takes the lock this many times in a row becomes its owner */
};

/* --- calls --- */

enum {
    /* Attempts of one request, each after other threads have freed memory. Not tried. Bound: 1 and above; the time of
     * a request that cannot be served is proportional to it. */
    most_attempts = 4,
    /* Lock-free tries of a lookup by address, before it takes the pool's lock. Not tried. Bound: any value works. */
    tries_before_lock = 64,
    /* The pressure callback is called again after the reserved bytes were below the soft limit by this share of it,
     * 1/n. Not tried. Bound: above 1; it keeps the callback from being called at each growth at the limit. */
    soft_limit_slack = 16,
    /* Pieces of free memory and future regions that weir_pool_would_fit looks at. Evidence: "Would it fit?" in
     * core/TRIALS.md. Bound: other threads wait for that long. */
    fit_looks = 128,
    fit_questions = 16,
};

/* --- services/ --- */

enum {
    arena_chunk_bytes = 2 << 20, /* default of weir_arena_config. Not tried. */
    arena_keep_chunks = 4,       /* the same */
    usual_ring_events = 65536,   /* default of weir_recorder_config. Not tried. Bound: a power of two; 4 MiB a thread */
    /* Milliseconds between two writes of a recorder to a file. Not tried. Bound: a full ring is written at once. */
    record_drain_ms = 20,
};

#endif
