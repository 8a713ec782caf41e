/* allocators/src/runs.h: the run allocator: regions cut into ranges that join again, best fit at constant cost.
 *
 * Idea: free ranges are listed per lane, in order of ticks and, by size, in one range_index per kind of region. A freed
 * range joins its free neighbours of the same region and lane at once; a joined range keeps the later tick, and what is
 * cut off a range keeps its lane and tick. `caching` is this and a choice of kinds; `size_class` puts slots on top.
 *
 * Slots. A range with in_slab set belongs to a slab of its owner. It never joins its neighbours while it does, and
 * instead of the index its owner keeps it: run_slots says how. Who has no slots leaves the pointer NULL.
 *
 * Cost: constant for find (see range_index.h), cut and settle, when ticks of a lane do not go down; gather is linear in
 * the ranges of regions with enough free bytes.
 */
#ifndef WEIR_ALLOCATORS_RUNS_H
#define WEIR_ALLOCATORS_RUNS_H

#include "range_index.h"
#include "range_region.h"

enum run_kind { RUN_SMALL, RUN_LARGE, RUN_KINDS };

/* Where regions serve requests of every size, small ones are cut off the high end of the best range and all others off the
 * low end. What is small and long-lived then lies beside its like, and large ranges stay whole in between: on the recorded
 * runs pools of a few dozen MiB stay 2 MiB smaller, and memory is moved half as often. */
#define RUN_HIGH_BYTES (UINT64_C(64) << 10)

/* Free ranges under one condition of reuse. `oldest` to `newest` lists them in order of ticks: oldest->tick <= ... <=
 * newest->tick, which is what lets promote take from one end. `ranges` and `bytes` count slots too. */
struct run_lane {
    struct range *oldest;
    struct range *newest;
    uint64_t ranges;
    uint64_t bytes;
    struct range_index *index[RUN_KINDS];
};

struct runs;

/* How an owner keeps its free slots: a slot becomes free in its lane, stops being so, leaves its slab for good. */
struct run_slots {
    void (*enter)(struct runs *runs, struct range *slot);
    void (*leave)(struct runs *runs, struct range *slot);
    void (*quit)(struct runs *runs, struct range *slot);
};

/* region_bytes = taken_bytes + sum of lanes[].bytes; each region's ranges tile it. */
struct runs {
    struct range_store store;
    const struct run_slots *slots;
    struct run_lane *lanes; /* by number; lanes[-1] is the unmapped one */
    size_t lane_count;      /* of those from 0 on */
    struct range_region *first_region;
    struct range_region *last_region;
    struct range_region *idle; /* wholly free regions, the last to become so first */
    uint64_t next_serial;
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    struct range *gathered; /* what the last call, a gather, has found, of whatever kind; else NULL */
};

/* The unmapped lane's number is -1 as a signed one. */
static inline struct run_lane *run_lane_of(const struct runs *runs, weir_lane lane)
{
    return &runs->lanes[(int32_t)lane];
}

static inline uint64_t run_round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Frees all records, those of taken ranges included, but nothing of the slots' owner. */
void weir__runs_fini(struct runs *runs);
/* WEIR_ERR_NO_MEMORY, and then it may be called again. */
weir_status weir__runs_lane_add(struct runs *runs, weir_lane lane);

/* --- regions --- */

/* How large a region of large requests should be: pools grow by an eighth of what is reserved, at most `most`. */
uint64_t weir__runs_region_size(uint64_t need, uint64_t most, uint64_t reserved, uint64_t granularity);
weir_status weir__runs_region_add(struct runs *runs, enum run_kind kind, uint64_t address, uint64_t size,
                                  weir_lane lane, weir_tick tick, void **region);
weir_status weir__runs_region_remove(struct runs *runs, void *region, const weir_tick *limits, size_t lanes);

/* A strategy's region_idle. */
bool weir__runs_region_idle(const struct runs *runs, const weir_tick *limits, size_t lanes, uint64_t *address);

/* --- ranges --- */

/* A strategy's alloc, of `bytes`, a multiple of the granule, from regions of `kind`. */
weir_status weir__runs_alloc(struct runs *runs, enum run_kind kind, weir_lane lane, weir_tick limit, uint64_t bytes,
                             uint64_t align, weir_range *out);
/* The same, but from the high end of the range. */
weir_status weir__runs_alloc_high(struct runs *runs, enum run_kind kind, weir_lane lane, weir_tick limit, uint64_t bytes,
                                  uint64_t align, weir_range *out);
/* The range becomes free in `lane` at `tick`. */
void weir__runs_free(struct runs *runs, struct range *range, weir_lane lane, weir_tick tick);
uint64_t weir__runs_promote(struct runs *runs, weir_lane lane, weir_tick limit);

/* Cuts `bytes` at a multiple of `align` out of a free range that holds them; the ends stay free. The result is in no
 * lane; its `older` says after which range its tick belongs in the order of ticks. NULL, and nothing has changed, when
 * there is no host memory. */
struct range *weir__runs_cut(struct runs *runs, struct range *range, uint64_t bytes, uint64_t align);
/* The same at the last such multiple. */
struct range *weir__runs_cut_high(struct runs *runs, struct range *range, uint64_t bytes, uint64_t align);
/* A range in no lane becomes taken. */
void weir__runs_hand_out(struct runs *runs, struct range *range, weir_range *out);
/* Puts a range that is in no lane into its own: joined with its free neighbours there, unless it is a slot. */
struct range *weir__runs_settle(struct runs *runs, struct range *range);
/* The same for a slot of which it is known after which range its tick belongs, NULL: before all others. */
void weir__runs_insert_after(struct runs *runs, struct range *range, struct range *older);
/* Takes a free range out of its lane. */
void weir__runs_remove(struct runs *runs, struct range *range);
/* `range`, in no lane, swallows its upper neighbour, in no lane either and no slot. The later tick survives. */
void weir__runs_absorb_next(struct runs *runs, struct range *range);

/* --- gather --- */

/* What a gather may join. */
struct run_wish {
    weir_lane lane;
    weir_tick tick;
    const weir_tick *limits;
    size_t lanes;
    uint64_t bytes;
    uint64_t align;
    /* Which slots may be taken out of their slabs; NULL: none. */
    bool (*slot_usable)(const struct range *slot);
};

static inline bool run_eligible(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return !range->taken && range->lane < lanes && range->tick <= limits[range->lane];
}

/* The range that gather has found, when that was the last call and the range serves this request; else NULL. */
static inline struct range *run_take_gathered(struct runs *runs, weir_lane lane, weir_tick limit, uint64_t bytes,
                                              uint64_t align)
{
    struct range *range = runs->gathered;
    if (range == NULL) {
        return NULL;
    }
    runs->gathered = NULL;
    const uint64_t padding = range_padding(range, align);
    const bool serves = range->lane == lane && range->tick <= limit && range->size >= bytes &&
                        range->size - bytes >= padding && (!range->in_slab || padding == 0);
    return serves ? range : NULL;
}

/* Whether a lane other than `own` holds free memory: within one lane neighbours are joined already. */
bool weir__runs_others_hold_any(const struct runs *runs, weir_lane own);
/* The smallest run of eligible neighbours of `kind` that holds the wish, moved into its lane as one range; NULL when
 * there is none. */
struct range *weir__runs_gather(struct runs *runs, enum run_kind kind, const struct run_wish *wish);

/* --- claim --- */

/* A strategy's claim. Linear in the ranges of the region, or in the unmapped ones, and in the count. */
weir_status weir__runs_claim(struct runs *runs, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                             size_t lanes, void **tokens);

/* --- looking --- */

void weir__runs_walk(const struct runs *runs, weir_range_visitor visit, void *ctx);
/* A strategy's walk_holes: constant for each hole and each free range beside one. */
void weir__runs_walk_holes(const struct runs *runs, weir_range_visitor visit, void *ctx);
void weir__runs_stats(const struct runs *runs, weir_strategy_stats *stats);
/* largest_bytes is that of ranges in the index: slots are the owner's to look at. */
void weir__runs_lane_stats(const struct runs *runs, weir_lane lane, weir_lane_stats *stats);
/* The first broken rule of regions, ranges, lanes and index as a sentence; NULL when all hold. */
const char *weir__runs_broken(const struct runs *runs);

#endif
