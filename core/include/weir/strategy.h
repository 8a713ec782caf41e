/* weir/strategy.h: contract 2, which range of the regions to hand out.
 *
 * A strategy is bookkeeping over integers. It sees no device, stream, clock, thread or lock, never touches the memory
 * it hands out, and therefore runs on a laptop over imaginary HBM. The pool calls it under one lock; it contains no
 * cancellation point.
 *
 * Words. A *region* is what the pool got from the device. A *range* is a piece of a region, taken or free. A *lane*
 * holds the free ranges that become reusable under the same condition: lane 0 is open (anyone, at once), lane n > 0
 * belongs to one of the pool's streams. A *tick* numbers the ordering points of one stream; a free range carries the
 * tick of the latest free in it: it may be touched by another stream only after its own stream's work up to that tick.
 *
 * The rules (the contract suite proves them, see docs/strategy.md):
 *   1. Ranges of a region tile it: no gap, no overlap.
 *   2. Two free neighbours of the same region and the same lane are one range, unless the strategy sets them apart for
 *      requests of one size; nothing merges across regions.
 *   3. A merged range keeps the later tick. Losing a tick hands out memory that is still in use.
 *   4. What is split off a free range keeps the lane and the tick of the range it came from.
 *   5. Ticks of one lane are compared, never added; frees into a lane mostly come with ticks that do not go down, and
 *      a strategy may be slower, but not wrong, when one does.
 *   6. Same calls, same answers: placement depends on sizes, lanes and order, not on absolute addresses.
 */
#ifndef WEIR_STRATEGY_H
#define WEIR_STRATEGY_H

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t weir_lane;
typedef uint64_t weir_tick;

#define WEIR_LANE_OPEN ((weir_lane)0)
/* The lane of addresses without memory behind them, which a pool with virtual memory has in its regions. Their ranges
 * join and are cut like those of any lane, so that holes grow together by themselves. But nothing is allocated from this
 * lane, it is never promoted, no limits allow it (its number is above all others), and its bytes count in region_bytes and
 * in its own lane_stats only. Memory enters it by region_add and by free, at tick 0, and leaves it by claim. */
#define WEIR_LANE_UNMAPPED ((weir_lane)-1)
#define WEIR_TICK_MAX UINT64_MAX

enum {
    /* Free memory stays with its lane until its region goes back: the pool looks in no other lane, never asks for
     * gather, and frees only into the lane that alloc served, with tick 0 when no work is pending any more. Models of
     * allocators that keep memory per stream set it. */
    WEIR_STRATEGY_PRIVATE_LANES = 1u << 0,
    /* A region that becomes wholly free goes back to the device at once. */
    WEIR_STRATEGY_RETURNS_REGIONS = 1u << 1,
    /* Every free must reach the strategy: the pool keeps no front cache. */
    WEIR_STRATEGY_NO_FRONT_CACHE = 1u << 2,
    /* A strategy over strategies, which marks records of taken ranges with WEIR_RECORD_ROUTE: no second such strategy
     * may stand on it. The pool does not look at it. */
    WEIR_STRATEGY_ROUTES = 1u << 3,
    /* Nothing is lost to the order of requests: a request of the strategy's own alignment takes exactly its size in
     * granules from one end of a free range, gather joins whole ranges, and as long as the lane's part of a region
     * still holds a request of the size_hint that it was added for, alloc for that lane serves one.
     * weir_pool_would_fit relies on it. */
    WEIR_STRATEGY_CUTS_ENDS = 1u << 4,
};

/* The one record of a range: the strategy's books and the pool's lie in it side by side, so that a block costs one cache
 * line and a strategy needs no table from blocks to ranges. A strategy allocates its records, each begins with a
 * weir_record and goes on with members of its own, and a token is the address of one.
 *
 *     address, size   the strategy's, always. The pool reads them while the range is taken.
 *     free            the strategy's while the range is free; it may use the words for anything.
 *     pool            the pool's while the range is taken: the strategy neither reads nor writes them from the moment alloc
 *                     or claim returns the token until free is called with it.
 *     state           the strategy writes WEIR_RECORD_TAKEN before it hands a range out. While the range is taken it is the
 *                     pool's, which writes values with that bit and without the next lower one only, from threads that do
 *                     not hold the lock under which the strategy is called. While the range is free it is the strategy's,
 *                     for values without WEIR_RECORD_TAKEN, or with WEIR_RECORD_KEPT. A strategy that keeps the lane there
 *                     tells by one comparison whether a neighbour is free in a lane. It reads and writes it atomically
 *                     (relaxed), of a taken neighbour too, of which it learns no more than that it is taken.
 *     own             the strategy's, always, but for WEIR_RECORD_ROUTE.
 *
 * The memory of a record lives until fini, and a record that is not in use may serve another range: the pool recognises a
 * handle that was freed by its state. */
typedef struct weir_record {
    uint64_t address;
    uint64_t size; /* bytes; of a taken range the request rounded as the strategy rounds */
    union {
        struct {
            weir_tick tick;
            void *next;
            void *prev;
        } free;
        struct {
            uint64_t requested;
            void *link;
            void *stream;
        } pool;
    } as;
    uint32_t state;
    uint32_t own;
} weir_record;

#define WEIR_RECORD_TAKEN UINT32_C(0x80000000)
/* With WEIR_RECORD_TAKEN: free, but no neighbour for others to join. */
#define WEIR_RECORD_KEPT UINT32_C(0xC0000000)
/* Of `own`: a mark for a strategy over strategies, which sets it while the range is taken and clears it before it passes the
 * token to free. */
#define WEIR_RECORD_ROUTE UINT32_C(0x80000000)

/* What alloc hands out. `token` is the address of the range's record and names it until it is freed. */
typedef struct weir_range {
    uint64_t address;
    uint64_t size; /* the record's */
    void *token;
    weir_tick tick; /* of the free range that it was cut from. A pool with virtual memory may free it at that tick again;
                       others do not look at it. */
    uint64_t idle_bytes; /* the size of its region, when all of that was one free range before; else 0. The pool may free the range
                            at once, at its tick, and take a region of the request's own size. A strategy may leave it 0. */
} weir_range;

/* One range as walk shows it. */
typedef struct weir_range_info {
    uint64_t region_address;
    uint64_t region_size;
    uint64_t address;
    uint64_t size;
    bool taken;
    weir_lane lane; /* of a free range */
    weir_tick tick; /* of a free range; means nothing in the open lane */
    void *token;    /* of a taken range */
    bool set_apart; /* a free range kept for requests of one size: others get it as a last resort only */
} weir_range_info;

/* Visits ranges; returning false ends the walk. It must not call the strategy. */
typedef bool (*weir_range_visitor)(void *ctx, const weir_range_info *range);

typedef struct weir_strategy_stats {
    size_t struct_size;
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges;
    uint64_t free_bytes;
    uint64_t largest_free_bytes; /* one range, whatever its lane */
} weir_strategy_stats; /* what is free: without the unmapped lane */

#define WEIR_STRATEGY_STATS_INIT WEIR_STRUCT_INIT(weir_strategy_stats)

/* Free memory of one lane. */
typedef struct weir_lane_stats {
    size_t struct_size;
    uint64_t ranges;
    uint64_t bytes;
    uint64_t largest_bytes;
} weir_lane_stats;

#define WEIR_LANE_STATS_INIT WEIR_STRUCT_INIT(weir_lane_stats)

typedef struct weir_strategy_ops {
    size_t struct_size;
    const char *name;
    uint32_t flags;         /* WEIR_STRATEGY_... */
    uint64_t granule_bytes; /* every range starts and ends at a multiple; a power of two */

    /* Bytes of zeroed memory that init needs. `config` is the strategy's own struct or NULL for defaults. */
    size_t (*state_size)(const void *config);
    /* WEIR_ERR_INVALID for a config it cannot honour, WEIR_ERR_UNSUPPORTED for one with members it does not know that
     * are not zero (see weir/base.h); weir_pool_create returns it, so the sentence that init leaves by weir_refuse names
     * weir_pool_create and the config. Holds no pointer to `config` afterwards. */
    weir_status (*init)(void *state, const void *config);
    /* Frees all the strategy holds, live ranges included. */
    void (*fini)(void *state);

    /* Makes room for `lane`, once, before anything is allocated from it or freed into it (the open and the unmapped lane
     * included), so that free cannot run out of host memory. Calling it again is harmless. NULL when there is nothing to
     * prepare. WEIR_ERR_NO_MEMORY. */
    weir_status (*lane_add)(void *state, weir_lane lane);

    /* How large a region to ask the device for, when a request finds no range: at least what alloc needs for `size`
     * and `align` in an empty region. `reserved` is what the pool holds already, `granularity` the device's. The pool
     * falls back to the least that serves the request when the device refuses more. */
    uint64_t (*region_size)(const void *state, uint64_t size, uint64_t align, uint64_t reserved,
                            uint64_t granularity);

    /* A new region, free as a whole in `lane` at `tick`, which may lie below others of the lane, taken for a request of
     * `size_hint` bytes. *region names it. A hint of 0: the pool takes all its memory in such regions, and each serves
     * requests of every size; a strategy with kinds of regions uses a single kind from then on.
     * WEIR_ERR_NO_MEMORY when there is no memory for the strategy's own records. */
    weir_status (*region_add)(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **region);
    /* Forgets a region. WEIR_ERR_BUSY unless all of it is free and nobody's work can touch it: each of its ranges is
     * in a lane l below `lanes` with a tick at or below limits[l]. */
    weir_status (*region_remove)(void *state, void *region, const weir_tick *limits, size_t lanes);
    /* Finds a region that region_remove would take, at a cost that does not grow with the number of regions in use. False
     * when there is none. NULL: the pool asks region after region. */
    bool (*region_idle)(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address);

    /* The best range of `lane` whose tick is at or below `limit`. `align` is a power of two. WEIR_ERR_NO_MEMORY when
     * it finds none; with a limit below WEIR_TICK_MAX it may give up early, since gather searches completely.
     * WEIR_ERR_INTERNAL when there is no memory for the strategy's own records. */
    weir_status (*alloc)(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                         weir_range *range);
    /* The range becomes free in `lane` at `tick` and merges. Cannot fail for a token that alloc gave. */
    void (*free)(void *state, void *token, weir_lane lane, weir_tick tick);
    /* Ranges of `lane` freed at or before `limit` become open. Returns the bytes that moved. */
    uint64_t (*promote)(void *state, weir_lane lane, weir_tick limit);
    /* Called when alloc for `lane` has refused: looks for a run of neighbouring free ranges, or a single one, that holds
     * the request, among those of lane l with a tick at or below limits[l], for l below lanes. Moves the best such run
     * into `lane` as one range, at the latest of `tick` and the ticks of the lane's own ranges that it joins, and
     * returns true; alloc of the same request for `lane` then succeeds, when it is the next call. False: nothing has
     * changed. With `last_resort` the request fails otherwise: memory that a strategy sets apart for requests of
     * another kind is to be given as well, and memory that alloc would find, since alloc need not have been asked.
     * Cost may grow with the number of ranges: the pool calls it when the alternative is a device call. NULL with
     * WEIR_STRATEGY_PRIVATE_LANES. */
    bool (*gather)(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                   uint64_t size, uint64_t align, bool last_resort);

    /* Every range, region by region, in address order inside a region. Regions come in the order they were added; a
     * strategy over strategies shows those of one after those of the other. */
    void (*walk)(const void *state, weir_range_visitor visit, void *ctx);
    /* Proves every structural invariant; WEIR_ERR_INTERNAL, and in *why (when not NULL) a sentence, if one is broken. */
    weir_status (*check)(const void *state, const char **why);
    void (*stats)(const void *state, weir_strategy_stats *stats);
    void (*lane_stats)(const void *state, weir_lane lane, weir_lane_stats *stats);

    /* Takes exactly [address, address + count * size), whole granules of one region, as `count` ranges of `size` bytes,
     * from whichever free ranges of whichever lanes lie there, those set apart included: each must be in a lane l below
     * `lanes` with a tick at or below limits[l]. `limits` NULL: each must be in the unmapped lane. tokens[i] names
     * [address + i * size, address + (i + 1) * size); each token goes back by free like any other.
     * The call cuts off at most one piece at either end. A piece keeps its lane and tick and merges like any free range,
     * also when it was set apart before. Rule 3 may then raise its tick above the limits. So neighbours that were found
     * free together are claimed by one call, and a call changes nothing that lies beyond a range which is taken or not
     * free as asked.
     * WEIR_ERR_BUSY unless all of it is free as asked; WEIR_ERR_NO_MEMORY when there is no memory for the strategy's own
     * records; nothing has changed then. May be NULL: such a strategy serves no pool with virtual memory. */
    weir_status (*claim)(void *state, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                         size_t lanes, void **tokens);
    /* Walks the unmapped ranges and what is free around them: of each run of neighbouring ranges that are free or
     * unmapped, with an unmapped one among them, that has `least` bytes, every range in address order; the runs in any
     * order, but the same calls give the same. Its cost should depend on the number of holes, not of ranges: the pool grows by
     * it. NULL: walk. */
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    /* The same for runs in which neighbours that are free, and not unmapped, have `least` bytes together, which is not 0; runs
     * in which they have less may be shown or not. Runs around small free ranges should come first: the pool may stop at the
     * first that serves it. NULL: walk. */
    void (*walk_free)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
} weir_strategy_ops;

#ifdef __cplusplus
}
#endif

#endif
