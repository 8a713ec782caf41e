/* allocators/src/ranges.h: the internal part of weir/ranges.h, for the strategies of weir. Regions are split into
 * ranges that merge again; bins hold free ranges by size. The public header declares the functions of the strategy's
 * table, and ranges.c defines them.
 *
 * One record of 64 bytes, a cache line, represents a range, taken or free (struct range). The ranges of a region are
 * linked in a ring through a border that never merges, so no link is NULL. Free ranges lie in bins, one set for each
 * lane and kind of region. The `state` of a range names its set, so one comparison tells if a neighbour may merge. No
 * list is in order of ticks: promote reads the bins of the lane.
 *
 *     bin b < 64       ranges of exactly b granules
 *     bin 64 and up    32 bins for each doubling
 *     held             a bit for each bin that is not empty
 *
 * Slots. A range with the state RANGE_SLOT is free and never merges. It lies in a slab of its owner (range_slots)
 * instead of in bins: see size_class.c. A strategy without slots leaves the pointer NULL.
 *
 * Cost: find, cut and settle are constant. promote is linear in the free ranges of the lane, and constant if none of
 * them is as old as the limit. gather, claim and walk are linear in ranges. Host memory: 64 bytes for each range; for
 * each lane and kind 0.3 KiB, and 9 KiB once it has more than range_looks free ranges.
 */
#ifndef WEIR_ALLOCATORS_RANGES_H
#define WEIR_ALLOCATORS_RANGES_H

#include <weir/ranges.h>

#include "shared/assert.h"

#define RANGE_GRANULE_SHIFT 9u
#define RANGE_GRANULE WEIR_RANGES_GRANULE
#define RANGE_BINS 1088u
#define RANGE_BIN_WORDS (RANGE_BINS / 64)

enum range_kind { RANGE_SMALL, RANGE_LARGE, RANGE_KINDS };

/* Values of a record's state. The state of a free range in bins is (lane + 1) * 2 + kind; WEIR_LANE_UNMAPPED + 1 is
 * 0. */
#define RANGE_TAKEN WEIR_RECORD_TAKEN
#define RANGE_SLOT WEIR_RECORD_KEPT /* | lane + 1 */
#define RANGE_BORDER UINT32_MAX

/* Bits of a record's member `own`: the kind of the region. A strategy with slabs uses the higher bits. */
#define RANGE_KIND UINT32_C(1)
#define RANGE_OWN_SHIFT 1u

struct range {
    weir_record record;
    struct range *prev; /* neighbours by address; at either end of a region, the region's border */
    struct range *next;
};

/* A region. The ranges border.next .. border.prev fill [address, address + size) without a gap. */
struct range_region {
    struct range border;
    uint64_t address;
    uint64_t size;
    struct range_region *prev;
    struct range_region *next;
};

/* The bins of a lane and kind. While there are few ranges (range_looks), all lie in bin 0, which no size has. More are
 * spread over the bins of their sizes, and so are few if a search goes by size. A request gets the same range either
 * way. Without host memory for so many heads the ranges stay in bin 0: searches take longer, and those by size find
 * none. */
struct range_bins {
    weir_tick oldest; /* no range in these bins was freed earlier; WEIR_TICK_MAX if there is none */
    uint64_t count;   /* ranges in all bins */
    unsigned spread;  /* UINT_MAX; 0: all ranges are in bin 0 */
    void **heads;     /* first range of each bin's list, linked by record.as.free: `next` is a range, `prev` the address
                         of the pointer to this range. RANGE_BINS pointers, or &few */
    void *few;
    uint64_t held[RANGE_BIN_WORDS + 1]; /* the bit of RANGE_BINS is always set, so that a search ends */
    struct range end;                   /* ends the list of every bin instead of NULL; its prev is never read */
};

struct ranges;

/* Callbacks of a strategy with slots (blocks of slabs): a slot becomes free in its lane (enter), stops being free
 * (leave), or leaves its slab for good (quit). */
struct range_slots {
    void (*enter)(struct ranges *ranges, struct range *slot);
    void (*leave)(struct ranges *ranges, struct range *slot);
    void (*quit)(struct ranges *ranges, struct range *slot);
};

/* region_bytes = taken_bytes + the bytes of free ranges, including ranges without memory. */
struct ranges {
    const struct range_slots *slots;
    struct range_bins **bins; /* by state of a free range */
    size_t lane_count;
    uint64_t small_bytes; /* larger requests are of kind RANGE_LARGE for alloc */
    uint64_t high_least;  /* alloc cuts requests from high_least bytes on, and of at most high_more bytes more, off the
                             high end of a range; both 0, none, unless regions serve all sizes */
    uint64_t high_more;
    struct range *unused; /* records, linked by next */
    struct range_chunk *chunks;
    struct range_region *first_region;
    struct range_region *last_region;
    /* Ring of the borders of idle regions (regions that are one free range), linked by record.as.free; the region that
     * became idle last is at the end. Initialised with the first lane. */
    struct range idle;
    struct range *gathered;        /* the range that gather has found for the next alloc; NULL if gather was not the
                                      last call */
    size_t sets_held[RANGE_KINDS]; /* non-empty sets of bins, without the set of the unmapped lane */
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_slots;
};

/* --- records --- */

static inline uint32_t range_state(const struct range *range)
{
    return __atomic_load_n(&range->record.state, __ATOMIC_RELAXED);
}

static inline void range_set_state(struct range *range, uint32_t state)
{
    __atomic_store_n(&range->record.state, state, __ATOMIC_RELAXED);
}

static inline bool range_is_slot_state(uint32_t state)
{
    return state >= RANGE_SLOT && state != RANGE_BORDER;
}

/* True if the range is free: in bins, or as a slot of a slab. */
static inline bool range_is_free(const struct range *range)
{
    const uint32_t state = range_state(range);
    return (state & WEIR_RECORD_TAKEN) == 0 || range_is_slot_state(state);
}

static inline bool range_is_slot(const struct range *range)
{
    return range_is_slot_state(range_state(range));
}

static inline weir_lane range_lane(const struct range *range)
{
    WEIR_ASSERT(range_is_free(range));
    const uint32_t state = range_state(range);
    return (range_is_slot_state(state) ? state & ~RANGE_SLOT : state >> 1) - 1;
}

static inline enum range_kind range_kind(const struct range *range)
{
    return (enum range_kind)(range->record.own & RANGE_KIND);
}

static inline uint32_t range_free_state(weir_lane lane, enum range_kind kind)
{
    return (lane + 1) << 1 | (uint32_t)kind;
}

static inline struct range_region *range_region_of(struct range *border)
{
    return (struct range_region *)border; /* a border is the first member of its region */
}

/* True if the range is its whole region. */
static inline bool range_spans_region(const struct range *range)
{
    return range->prev == range->next;
}

static inline bool range_eligible(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return range_is_free(range) && range_lane(range) < lanes && range->record.as.free.tick <= limits[range_lane(range)];
}

/* Returns the bytes from the start of the range to its first multiple of `align`. */
static inline uint64_t range_padding(const struct range *range, uint64_t align)
{
    WEIR_ASSERT(align != 0 && (align & (align - 1)) == 0);
    return (align - (range->record.address & (align - 1))) & (align - 1);
}

static inline uint64_t range_round_up(uint64_t size, uint64_t unit)
{
    WEIR_ASSERT(unit != 0);
    return (size + unit - 1) & ~(unit - 1);
}

/* Returns the bytes that a region for this request alone needs. */
static inline uint64_t range_need(uint64_t size, uint64_t align)
{
    return range_round_up(size, RANGE_GRANULE) + (align > RANGE_GRANULE ? align : 0);
}

static inline unsigned range_bin_of(uint64_t size)
{
    const uint64_t granules = size >> RANGE_GRANULE_SHIFT;
    const unsigned shift = (63u ^ (unsigned)__builtin_clzll(granules | 32u)) - 5u;
    return (shift << 5) + (unsigned)(granules >> shift);
}

/* --- life --- */

/* Returns a record with undefined contents, or NULL if there is no host memory. */
struct range *weir__range_new(struct ranges *ranges);
void weir__range_delete(struct ranges *ranges, struct range *range);

/* --- ranges --- */

/* Returns the smallest free range, as far as a few probes show, of the lane and kind that holds `bytes` at a
 * multiple of `align` and has a tick at or below `limit`, among those in the bin of `least` bytes and above. Returns
 * NULL if there is no such range. With a limit below WEIR_TICK_MAX, also returns NULL if the probes missed a range
 * that serves. */
struct range *weir__ranges_find(struct ranges *ranges, enum range_kind kind, weir_lane lane, weir_tick limit,
                                uint64_t bytes, uint64_t align, uint64_t least);
/* Finds a range as weir__ranges_find does, but keeps the region of a large block whole. If the best fit of a large
 * request is not tight, and is the rest of a region behind a block more than twice as large, one of the next few ranges
 * is preferred: in a region in use and beside no larger block. So the larger block's region becomes idle with that
 * block, and serves the next block of that size. */
struct range *weir__ranges_choose(struct ranges *ranges, enum range_kind kind, weir_lane lane, weir_tick limit,
                                  uint64_t bytes, uint64_t align);
/* Cuts `bytes` bytes out of a free range that holds them, at the first multiple of `align`, or with `high` at the last.
 * The ends stay free. The returned range keeps its tick, is in no free list and has the state RANGE_TAKEN. Returns
 * NULL, and changes nothing, if there is no host memory. */
struct range *weir__ranges_cut(struct ranges *ranges, struct range *range, uint64_t bytes, uint64_t align, bool high);
/* Counts a range, which is in no free list, as taken and describes it in *out. */
void weir__ranges_hand_out(struct ranges *ranges, struct range *range, weir_range *out);
/* Implements caching's alloc: takes the range that gather has found or finds a range, cuts it and hands it out. */
weir_status weir__ranges_alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                               weir_range *out);
/* Implements a strategy's free for any range but a slot. Returns the merged free range. */
struct range *weir__ranges_free(struct ranges *ranges, struct range *range, weir_lane lane, weir_tick tick);
/* Implements a strategy's free for a slot (a block of a slab). */
void weir__ranges_free_slot(struct ranges *ranges, struct range *slot, weir_lane lane, weir_tick tick);
/* Frees a range that is in no free list and is not counted as taken. Returns the merged free range. */
struct range *weir__ranges_settle(struct ranges *ranges, struct range *range, weir_lane lane, weir_tick tick);
void weir__ranges_settle_slot(struct ranges *ranges, struct range *slot, weir_lane lane, weir_tick tick);
/* Takes a free range out of its free list. The record keeps its tick, and its state becomes RANGE_TAKEN. */
void weir__ranges_remove(struct ranges *ranges, struct range *range);
/* Merges `range` with its upper neighbour. Both are in no free list, and the neighbour is no slot. The later of the two
 * ticks is kept. */
void weir__ranges_absorb_next(struct ranges *ranges, struct range *range);

/* --- gather --- */

/* A request to gather. Only free ranges in a lane l below `lanes` with a tick at or below limits[l] may be joined. */
struct range_wish {
    weir_lane lane;
    weir_tick tick;
    const weir_tick *limits;
    size_t lanes;
    uint64_t bytes;
    uint64_t align;
    uint64_t unit;  /* as in weir_ranges_place; 1: anywhere in a region */
    uint64_t least; /* bytes of the whole run */
    /* True if the slot may be taken out of its slab. A NULL function means that no slot may be taken. */
    bool (*slot_usable)(const struct ranges *ranges, const struct range *slot);
};

/* Returns the range that gather has found, if gather was the last call and the range serves this request; else NULL. */
struct range *weir__ranges_take_gathered(struct ranges *ranges, weir_lane lane, weir_tick limit, uint64_t bytes,
                                         uint64_t align);
/* True if the bins of a lane other than `own` hold a range. Within one lane free neighbours have merged already. */
bool weir__ranges_others_hold_any(const struct ranges *ranges, weir_lane own);
/* Joins the smallest sufficient run of neighbours of `kind` that the wish allows into one free range of wish->lane.
 * Returns NULL if there is no such run. */
struct range *weir__ranges_gather(struct ranges *ranges, enum range_kind kind, const struct range_wish *wish);
/* For a strategy's gather: joins a run of free neighbours and keeps it for the next alloc. Does not search if alloc
 * cannot have missed a run. Returns false if there is no run. */
bool weir__ranges_gather_for_alloc(struct ranges *ranges, enum range_kind kind, const struct range_wish *wish,
                                   bool last_resort);

/* --- looking --- */

/* Shows one free range for a strategy's walk_large. Returns false if the visitor ended the walk. */
bool weir__ranges_show_large(struct range *range, weir_range_visitor visit, void *ctx);

/* Returns a sentence for the first broken rule of regions, ranges and bins; NULL if all hold. */
const char *weir__ranges_broken(const struct ranges *ranges);

#endif
