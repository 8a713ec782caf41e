/* allocators/src/ranges.h: the inside of weir/ranges.h, for the strategies of weir. Regions are cut into ranges that join again;
 * bins hold free ranges by size. The functions of the strategy's table are declared in the public header, and ranges.c has
 * them.
 *
 * One record of 64 bytes, a cache line, stands for a range, taken or free (struct range). Ranges of a region are linked in a
 * ring through a border that never joins, so no link is NULL. Free ranges lie in bins, one set for each lane and kind of
 * region; a range's `state` names its set, so that whether a neighbour may be joined is one comparison. No list is in order of
 * ticks: promote reads the bins of the lane.
 *
 *     bin b < 64       ranges of exactly b granules
 *     bin 64 and up    32 bins for each doubling
 *     held, rows       a bit for each bin that is not empty, a bit for each word of held that is not 0
 *
 * Slots. A range whose state is RANGE_SLOT is free and never joins; instead of the bins its owner keeps it (range_slots), in
 * a slab: see size_class.c. A strategy without slots leaves the pointer NULL.
 *
 * Cost: find, cut and settle are constant. promote is linear in the free ranges of the lane, and constant when none of them is
 * as old as the limit. gather, claim and walk are linear in ranges. Host memory: 64 bytes for each range, 9 KiB for each lane
 * and kind.
 */
#ifndef WEIR_ALLOCATORS_RANGES_H
#define WEIR_ALLOCATORS_RANGES_H

#include <weir/ranges.h>

#define RANGE_GRANULE_SHIFT 9u
#define RANGE_GRANULE WEIR_RANGES_GRANULE
#define RANGE_BINS 1088u
#define RANGE_BIN_WORDS (RANGE_BINS / 64)

enum range_kind { RANGE_SMALL, RANGE_LARGE, RANGE_KINDS };

/* Values of a record's state. A free range in bins has (lane + 1) * 2 + kind; WEIR_LANE_UNMAPPED + 1 is 0. */
#define RANGE_TAKEN WEIR_RECORD_TAKEN
#define RANGE_SLOT WEIR_RECORD_KEPT /* | lane + 1 */
#define RANGE_BORDER UINT32_MAX

/* Of a record's `own`. What lies above the kind is the slots' owner's. */
#define RANGE_KIND UINT32_C(1)
#define RANGE_OWN_SHIFT 1u

/* Where regions serve requests of every size, small ones are cut off the high end of the best range and all others off the
 * low end. What is small and long-lived then lies beside its like, and large ranges stay whole in between: on the recorded
 * runs pools of a few dozen MiB stay 2 MiB smaller, and memory is moved half as often. */
#define RANGE_HIGH_BYTES (UINT64_C(64) << 10)

struct range {
    weir_record record;
    struct range *prev; /* the neighbours by address; those at the ends have the region's border */
    struct range *next;
};

/* border.next .. border.prev tile [address, address + size). */
struct range_region {
    struct range border;
    uint64_t address;
    uint64_t size;
    struct range_region *prev;
    struct range_region *next;
    struct range_region *idle_prev; /* in the list of regions that are one free range, in use while this one is */
    struct range_region *idle_next;
};

struct range_bins {
    uint64_t rows;
    weir_tick oldest; /* no range here has an earlier tick */
    uint64_t held[RANGE_BIN_WORDS];
    void *heads[RANGE_BINS]; /* struct range, linked by record.as.free; prev is the address of what leads here */
};

struct ranges;

/* How an owner keeps its free slots: a slot becomes free in its lane, stops being so, leaves its slab for good. */
struct range_slots {
    void (*enter)(struct ranges *ranges, struct range *slot);
    void (*leave)(struct ranges *ranges, struct range *slot);
    void (*quit)(struct ranges *ranges, struct range *slot);
};

/* region_bytes = taken_bytes + the bytes of free ranges, those without memory included. */
struct ranges {
    const struct range_slots *slots;
    struct range_bins **bins; /* by state of a free range */
    size_t lane_count;
    uint64_t high_bytes; /* alloc cuts up to this off the high end; 0 unless regions serve all sizes */
    struct range *unused; /* records, linked by next */
    struct range_chunk *chunks;
    struct range_region *first_region;
    struct range_region *last_region;
    struct range_region *idle; /* the last to become so first */
    struct range *gathered;    /* what the last call, a gather, has found, of whatever kind; else NULL */
    size_t sets_held[RANGE_KINDS]; /* sets of bins that are not empty, but for the unmapped lane's */
    uint64_t regions;
    uint64_t region_bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges; /* slots and unmapped ones included */
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

/* Free, in bins or as a slot. */
static inline bool range_is_free(const struct range *range)
{
    const uint32_t state = range_state(range);
    return (state & WEIR_RECORD_TAKEN) == 0 || range_is_slot_state(state);
}

static inline bool range_is_slot(const struct range *range)
{
    return range_is_slot_state(range_state(range));
}

/* Of a free range. */
static inline weir_lane range_lane(const struct range *range)
{
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
    return (struct range_region *)border; /* its first member */
}

/* Whether a range is all of its region. */
static inline bool range_spans_region(const struct range *range)
{
    return range->prev == range->next;
}

static inline bool range_eligible(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return range_is_free(range) && range_lane(range) < lanes && range->record.as.free.tick <= limits[range_lane(range)];
}

/* Bytes from the start of the range to its first multiple of `align`. */
static inline uint64_t range_padding(const struct range *range, uint64_t align)
{
    return (align - (range->record.address & (align - 1))) & (align - 1);
}

static inline uint64_t range_round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Bytes that a region of its own for the request needs. */
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

/* A record of whatever contents, NULL when there is no host memory. */
struct range *weir__range_new(struct ranges *ranges);
void weir__range_delete(struct ranges *ranges, struct range *range);

/* --- ranges --- */

/* The smallest free range, as far as a few looks tell, of the lane and kind that holds `bytes` at a multiple of `align` and has
 * a tick at or below `limit`, among those in the bin of `least` bytes and above. NULL: there is none; with a limit below
 * WEIR_TICK_MAX, or none was seen. */
struct range *weir__ranges_find(struct ranges *ranges, enum range_kind kind, weir_lane lane, weir_tick limit,
                                uint64_t bytes, uint64_t align, uint64_t least);
/* Cuts `bytes` at the first, or with `high` the last, multiple of `align` out of a free range that holds them; the ends stay
 * free. The result is in no lane, keeps its tick and counts as taken. NULL, and nothing has changed, when there is no host
 * memory. */
struct range *weir__ranges_cut(struct ranges *ranges, struct range *range, uint64_t bytes, uint64_t align, bool high);
/* A range in no lane becomes taken. */
void weir__ranges_hand_out(struct ranges *ranges, struct range *range, weir_range *out);
/* A strategy's alloc, of `bytes`, a multiple of the granule: gathered or found, cut and handed out. `state`: that of
 * free ranges of the lane and kind. */
weir_status weir__ranges_alloc(struct ranges *ranges, uint32_t state, weir_tick limit, uint64_t bytes, uint64_t align,
                               weir_range *out);
/* A strategy's free, of any range but a slot. Returns the range that it has become a part of. */
struct range *weir__ranges_free(struct ranges *ranges, struct range *range, weir_lane lane, weir_tick tick);
/* The same for a slot. */
void weir__ranges_free_slot(struct ranges *ranges, struct range *slot, weir_lane lane, weir_tick tick);
/* The same for a range in no lane that counts as not taken. Returns the range that it has become a part of. */
struct range *weir__ranges_settle(struct ranges *ranges, struct range *range, weir_lane lane, weir_tick tick);
/* A slot, in no lane and not counted as taken, becomes free. */
void weir__ranges_settle_slot(struct ranges *ranges, struct range *slot, weir_lane lane, weir_tick tick);
/* Takes a free range out of its lane. Its tick stays, its state is RANGE_TAKEN. */
void weir__ranges_remove(struct ranges *ranges, struct range *range);
/* `range`, in no lane, swallows its upper neighbour, in no lane either and no slot. The later tick survives. */
void weir__ranges_absorb_next(struct ranges *ranges, struct range *range);

/* --- gather --- */

/* What a gather may join. */
struct range_wish {
    weir_lane lane;
    weir_tick tick;
    const weir_tick *limits;
    size_t lanes;
    uint64_t bytes;
    uint64_t align;
    uint64_t least; /* bytes of the whole run */
    /* Which slots may be taken out of their slabs; NULL: none. */
    bool (*slot_usable)(const struct ranges *ranges, const struct range *slot);
};

/* The range that gather has found, when that was the last call and the range serves this request; else NULL. */
struct range *weir__ranges_take_gathered(struct ranges *ranges, weir_lane lane, weir_tick limit, uint64_t bytes,
                                         uint64_t align);
/* Whether a lane other than `own` holds free memory in bins: within one lane neighbours are joined already. */
bool weir__ranges_others_hold_any(const struct ranges *ranges, weir_lane own);
/* The smallest run of eligible neighbours of `kind` that holds the wish, moved into its lane as one range; NULL when
 * there is none. */
struct range *weir__ranges_gather(struct ranges *ranges, enum range_kind kind, const struct range_wish *wish);

/* --- looking --- */

/* The first broken rule of regions, ranges and bins as a sentence; NULL when all hold. */
const char *weir__ranges_broken(const struct ranges *ranges);

#endif
