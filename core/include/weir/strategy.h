/* weir/strategy.h: contract 2, the choice of the range that serves a request.
 *
 * A strategy is bookkeeping over integers. It sees no device, stream, clock, thread or lock and never touches the
 * memory that it hands out, so it also runs on a laptop over imaginary HBM. The pool calls it under one lock. It
 * contains no cancellation point.
 *
 * Words. A *region* is a piece of memory that the pool got from the device. A *range* is a piece of a region, taken or
 * free. A *lane* holds the free ranges that become reusable under the same condition: lane 0 is open (every stream may
 * use it at once), and each lane n > 0 belongs to one of the pool's streams. A *tick* numbers the ordering points of
 * one stream. A free range carries the tick of the latest free in it: another stream may touch the range only after the
 * work of the range's own stream up to that tick.
 *
 * The rules (the contract suite tests them, see docs/strategy.md):
 *   1. Ranges of a region tile it: no gap, no overlap.
 *   2. Two free neighbours of the same region and the same lane are one range, unless the strategy sets them apart for
 *      requests of one size. Ranges of different regions never merge.
 *   3. A merged range keeps the later tick. Losing a tick hands out memory that is still in use.
 *   4. A piece that is split off a free range keeps the lane and the tick of that range.
 *   5. Ticks of one lane are compared, never added. Most frees into a lane come with ticks that do not go down. A
 *      strategy may be slower, but not wrong, when one does.
 *   6. The same calls give the same answers: placement depends on sizes, lanes and order, not on absolute addresses.
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
/* The lane of addresses without memory, in the regions of a pool with virtual memory. Ranges of this lane merge and
 * split like those of any other lane, so neighbouring holes merge. But nothing is allocated from this lane, it is never
 * promoted, and no limits allow it (its number is above all others). Its bytes count in region_bytes and in its own
 * lane_stats only. Memory enters the lane through region_add and free, at tick 0, and leaves it through claim. */
#define WEIR_LANE_UNMAPPED ((weir_lane)-1)
#define WEIR_TICK_MAX UINT64_MAX

enum {
    /* Free memory stays in its lane until its region is returned. The pool looks in no other lane and never calls
     * gather. It frees only into the lane that served the alloc, with tick 0 if no work is pending any more. Once
     * the host has waited for a request, the pool asks the device alone for it. Set by models of allocators that keep
     * memory per stream. */
    WEIR_STRATEGY_PRIVATE_LANES = 1u << 0,
    /* A region that becomes wholly free is returned to the device at once. */
    WEIR_STRATEGY_RETURNS_REGIONS = 1u << 1,
    /* Every free must reach the strategy: the pool keeps no front cache. */
    WEIR_STRATEGY_NO_FRONT_CACHE = 1u << 2,
    /* A strategy that combines strategies, and marks records of taken ranges with WEIR_RECORD_ROUTE. It must not be
     * built on another strategy with this flag. The pool ignores the flag. */
    WEIR_STRATEGY_ROUTES = 1u << 3,
    /* A request takes more than its whole granules, as in a buddy system: an empty region that holds the request need
     * not serve it. The pool then asks for no smaller region than region_size returns for `reserved` 0, and takes
     * regions also where the device has virtual memory. The advice in the record of a refused request does not know how
     * the strategy rounds. walk_large has to be NULL. */
    WEIR_STRATEGY_ROUNDS_UP = 1u << 4,
};

/* The record of a range. It holds the bookkeeping of the strategy and of the pool side by side, so that a block costs
 * one cache line and a strategy needs no table from blocks to ranges. The strategy allocates its records. Each begins
 * with a weir_record and continues with members of the strategy. A token is the address of a record.
 *
 *     address, size   belong to the strategy, always. The pool reads them while the range is taken.
 *     free            belongs to the strategy while the range is free. The strategy may use the words for anything.
 *     pool            belongs to the pool while the range is taken: the strategy neither reads nor writes it from the
 *                     moment alloc or claim returns the token until free is called with it.
 *     state           The strategy writes WEIR_RECORD_TAKEN before it hands a range out. While the range is taken,
 *                     state belongs to the pool, which writes only values that have that bit and lack the next lower
 *                     bit, from threads that do not hold the lock under which the strategy is called. While the range
 *                     is free, state belongs to the strategy, for values without WEIR_RECORD_TAKEN or with
 *                     WEIR_RECORD_KEPT. A strategy that stores the lane there can test with one comparison whether a
 *                     neighbour is free in a lane. The strategy reads and writes state atomically (relaxed). It may
 *                     read the state of a taken neighbour, and learns only that the neighbour is taken.
 *     own             belongs to the strategy, always, except WEIR_RECORD_ROUTE.
 *
 * The memory of a record stays valid until fini. A record that is not in use may serve another range: the pool
 * recognises a freed handle by its state. */
typedef struct weir_record {
    uint64_t address;
    uint64_t size; /* bytes; for a taken range, the request as the strategy rounds it */
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
/* State of a free range with which neighbours must not merge. Includes WEIR_RECORD_TAKEN. */
#define WEIR_RECORD_KEPT UINT32_C(0xC0000000)
/* A bit of `own` for a strategy that combines strategies. It sets the bit while the range is taken and clears the bit
 * before it passes the token to free. */
#define WEIR_RECORD_ROUTE UINT32_C(0x80000000)

/* A range that alloc hands out. `token` is the address of the range's record and names the range until it is freed. */
typedef struct weir_range {
    uint64_t address;
    uint64_t size; /* equal to the record's size */
    void *token;
    weir_tick tick;      /* tick of the free range from which this range was cut: the pool may free the range again at
                       once, with this tick */
    uint64_t idle_bytes; /* size of the region if the alloc broke a wholly free region, else 0. The pool may free the
                            range at once, at its tick, and take a region of the request's own size instead. A
                            strategy may always leave this 0. */
} weir_range;

/* A range as walk shows it. */
typedef struct weir_range_info {
    uint64_t region_address;
    uint64_t region_size;
    uint64_t address;
    uint64_t size;
    bool taken;
    weir_lane lane; /* of a free range */
    weir_tick tick; /* tick of a free range; without meaning in the open lane */
    void *token;    /* of a taken range; for walk_large, see there */
    bool set_apart; /* free, but kept for requests of one size: a request of another size gets the range only as a
                       last resort */
} weir_range_info;

/* Called for each range. Returns false to end the walk. It must not call the strategy. */
typedef bool (*weir_range_visitor)(void *ctx, const weir_range_info *range);

typedef struct weir_strategy_stats {
    size_t struct_size;
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges;
    uint64_t free_bytes;
    uint64_t largest_free_bytes; /* the largest free range of all lanes */
} weir_strategy_stats;           /* free_ranges, free_bytes and largest_free_bytes do not count the unmapped lane */

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
    uint64_t granule_bytes; /* every range starts and ends at a multiple of this; a power of two */

    /* Returns the number of bytes of zeroed memory that init needs. `config` is the strategy's own struct, or NULL for
     * defaults. */
    size_t (*state_size)(const void *config);
    /* Initialises the state. It must not keep a pointer to `config`. Returns WEIR_ERR_INVALID if it cannot honour the
     * config, WEIR_ERR_UNSUPPORTED if the config has members that it does not know and that are not zero (see
     * weir/base.h). weir_pool_create returns this status, so the sentence that init leaves with weir_refuse names
     * weir_pool_create and the config. */
    weir_status (*init)(void *state, const void *config);
    /* Frees all memory of the strategy, including live ranges. */
    void (*fini)(void *state);

    /* Prepares `lane` before anything is allocated from it or freed into it (the open and the unmapped lane included),
     * so that free cannot run out of host memory. A repeated call has no effect. Returns WEIR_ERR_NO_MEMORY if there is
     * no host memory. lane_add may be NULL. */
    weir_status (*lane_add)(void *state, weir_lane lane);

    /* Returns the size of the region to request from the device when no range serves a request. The size is at least
     * what alloc needs for `size` and `align` in an empty region. `reserved` is the number of bytes that the pool holds
     * already, `granularity` is the unit of the device's region sizes. If the device refuses this size, the pool falls
     * back to the least size that serves the request. */
    uint64_t (*region_size)(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity);

    /* Adds a new region, which is one free range in `lane` at `tick`. The tick may be below other ticks of the lane.
     * The region was taken for a request of `size_hint` bytes. *region names it. A hint of 0 means that the pool takes
     * all its memory in such regions, and that each serves requests of every size: a strategy with kinds of regions
     * uses a single kind from then on. Returns WEIR_ERR_NO_MEMORY if there is no memory for the strategy's own
     * records. */
    weir_status (*region_add)(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **region);
    /* Removes a region. Returns WEIR_ERR_BUSY unless the whole region is free and no queued work can touch it: each of
     * its ranges must be in a lane l below `lanes` with a tick at or below limits[l]. */
    weir_status (*region_remove)(void *state, void *region, const weir_tick *limits, size_t lanes);
    /* Finds a region that region_remove would accept, at a cost that does not grow with the number of regions in use.
     * Prefers the region that has been free the longest, if the strategy knows it. Returns false if there is no such
     * region. If region_idle is NULL, the pool tries region after region. */
    bool (*region_idle)(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address);

    /* Takes the best range of `lane` with a tick at or below `limit`. `align` is a power of two. Returns
     * WEIR_ERR_NO_MEMORY if it finds no such range; with a limit below WEIR_TICK_MAX it may give up early, because
     * gather searches completely. Returns WEIR_ERR_INTERNAL if there is no memory for the strategy's own records. */
    weir_status (*alloc)(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                         weir_range *range);
    /* Frees the range of `token` into `lane` at `tick` and merges it with its neighbours. Cannot fail for a token from
     * alloc. */
    void (*free)(void *state, void *token, weir_lane lane, weir_tick tick);
    /* Moves the ranges of `lane` that were freed at or before `limit` to the open lane, which every stream may use at
     * once. Returns the number of bytes moved. */
    uint64_t (*promote)(void *state, weir_lane lane, weir_tick limit);
    /* Joins free memory for a request that alloc for `lane` has refused. Looks for a run of neighbouring free ranges,
     * or a single range, that holds the request, among the ranges of each lane l below `lanes` with a tick at or below
     * limits[l]. Moves the best such run into `lane` as one range and returns true. The tick of that range is the
     * latest of `tick` and the ticks of the lane's own ranges that are joined. The next call, alloc of the same request
     * for `lane`, then succeeds. Returns false, and changes nothing, if there is no such run. If `last_resort` is true,
     * the request fails otherwise: gather must also use memory that the strategy sets apart for requests of another
     * kind, and memory that alloc would find, because alloc may not have been called. The cost may grow with the number
     * of ranges: the pool calls gather where the alternative is a device call. gather is NULL with
     * WEIR_STRATEGY_PRIVATE_LANES. */
    bool (*gather)(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align, bool last_resort);

    /* Visits every range, region by region, in address order inside a region. Regions come in the order in which they
     * were added. A strategy that combines strategies visits all regions of one before those of the other. */
    void (*walk)(const void *state, weir_range_visitor visit, void *ctx);
    /* Checks every structural invariant. If one is broken, returns WEIR_ERR_INTERNAL and stores a sentence in *why, if
     * `why` is not NULL. */
    weir_status (*check)(const void *state, const char **why);
    void (*stats)(const void *state, weir_strategy_stats *stats);
    void (*lane_stats)(const void *state, weir_lane lane, weir_lane_stats *stats);

    /* Takes exactly [address, address + count * size), whole granules of one region, as `count` ranges of `size` bytes.
     * The memory may lie in any free ranges, including ranges set apart, of any lanes l below `lanes` with ticks at or
     * below limits[l]. If `limits` is NULL, it must lie in the unmapped lane. tokens[i] names [address + i * size,
     * address + (i + 1) * size). Each token is returned by free, like a token from alloc.
     *
     * The call cuts off at most one piece at either end. A piece keeps its lane and tick and merges like any free
     * range, even if it was set apart before. Rule 3 may then raise its tick above the limits, so the pool claims
     * neighbours that it found free together with one call. A call changes nothing beyond a range that is taken or not
     * free as required.
     *
     * Returns WEIR_ERR_BUSY unless all of the memory is free as required, WEIR_ERR_NO_MEMORY if there is no memory for
     * the strategy's own records. Nothing has changed then. claim may be NULL: such a strategy serves no pool with
     * virtual memory. */
    weir_status (*claim)(void *state, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                         size_t lanes, void **tokens);
    /* Visits the unmapped ranges and the free ranges around them. A run consists of neighbouring ranges that are free
     * or unmapped, at least one of them unmapped. For each run of at least `least` bytes every range is visited, in
     * address order. The runs come in any order, but the same calls give the same order. The cost should depend on the
     * number of unmapped ranges, not on that of all ranges: the pool calls this to grow. If walk_holes is NULL, the
     * pool uses walk. */
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    /* Visits runs of neighbouring ranges that are free or unmapped, as walk_holes does, but also runs without an
     * unmapped range. It must visit each run in which free neighbours that are not unmapped have at least `least` bytes
     * together; it may visit other runs too. `least` is not 0. Runs around small free ranges should come first: the
     * pool stops when it has seen enough. If walk_free is NULL, the pool uses walk. */
    void (*walk_free)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    /* Visits free ranges of at least `least` bytes, each for itself, in every lane but the unmapped one: within a lane
     * large ranges come before small ones, roughly. Of ranges set apart it visits those for requests of `least` bytes,
     * or none. `least` is not 0. region_address and region_size are those of the region if the range fills it, else 0.
     * `token` is that of a taken neighbour in the range's region, or NULL if both neighbours are free. The cost should
     * depend on the visited ranges alone: the pool stops when it has seen enough. weir_pool_would_fit counts no free
     * memory if walk_large is NULL. */
    void (*walk_large)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    /* Returns a number of bytes that bounds the waste of requests of `size` bytes and of the strategy's own alignment:
     * a free range of n times that many bytes serves n of them, and so does a region that was added for this size,
     * whatever its other ranges, as long as no other requests come. Free ranges that merge serve together no fewer than
     * they would alone. A range set apart for this size serves one. A multiple of the granule; 0: not promised.
     * weir_pool_would_fit counts one request for all free ranges, and one a region, if request_bytes is NULL or returns
     * 0. */
    uint64_t (*request_bytes)(const void *state, uint64_t size);
} weir_strategy_ops;

/* --- a strategy in a shared object --- */

/* Describes the strategy of a shared object, for programs that load strategies at run time, as the weir command does
 * with the option --strategy. An object has one description, under the symbol "weir_exported_strategy", which
 * WEIR_STRATEGY_EXPORT defines. */
typedef struct weir_strategy_object {
    size_t struct_size;
    uint32_t major; /* the version of the headers with which the object was built */
    uint32_t minor;
    const weir_strategy_ops *(*strategy)(void);
} weir_strategy_object;

/* Exports a strategy from a shared object. The argument is a function that returns the table of the strategy. The line
 * stands outside of functions, in one file of the object, and ends with a semicolon:
 *
 *     WEIR_STRATEGY_EXPORT(my_strategy);
 *
 * The table stays valid while the program runs, and has a name. Several threads may call its functions at a time, each
 * with a state of its own. An object that uses functions of weir links weir itself, statically or as a shared library.
 *
 * A loader reads the version before it calls anything. It refuses an object that was built with headers of another
 * major version, or of a later minor version; before 1.0, of any other minor version. */
#ifdef __cplusplus
#define WEIR_STRATEGY_EXPORT(function)                                                                                 \
    extern "C" WEIR_API const weir_strategy_object weir_exported_strategy;                                             \
    const weir_strategy_object weir_exported_strategy = {sizeof(weir_strategy_object), WEIR_VERSION_MAJOR,             \
                                                         WEIR_VERSION_MINOR, (function)}
#else
#define WEIR_STRATEGY_EXPORT(function)                                                                                 \
    WEIR_API extern const weir_strategy_object weir_exported_strategy;                                                 \
    const weir_strategy_object weir_exported_strategy = {sizeof(weir_strategy_object), WEIR_VERSION_MAJOR,             \
                                                         WEIR_VERSION_MINOR, (function)}
#endif

#ifdef __cplusplus
}
#endif

#endif
