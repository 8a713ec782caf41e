/* allocators/src/ranges.c: implements ranges.h, which describes the idea and the cost. */
#include "ranges.h"
#include "tuning.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

enum {
    first_chunk_ranges = 63,
    largest_chunk_ranges = 32767, /* 2 MiB */
    chunk_growth = 8,
};

/* --- records --- */

/* A chunk of records. Chunks live until fini, so a freed handle can still be recognised. */
struct range_chunk {
    _Alignas(64) struct range_chunk *next;
    size_t count;
    size_t begun; /* number of records used so far */
    _Alignas(64) struct range ranges[];
};

_Static_assert(sizeof(struct range) == 64 && offsetof(struct range, record) == 0, "a range is one cache line");
_Static_assert(sizeof(struct ranges) <= sizeof(weir_ranges), "a weir_ranges holds a struct ranges");
_Static_assert(offsetof(struct range_region, border) == 0, "a border is its region's first member");

static bool grow_records(struct ranges *ranges)
{
    size_t count = ranges->chunks == NULL ? first_chunk_ranges : chunk_growth * (ranges->chunks->count + 1) - 1;
    count = count < largest_chunk_ranges ? count : largest_chunk_ranges;
    const size_t bytes = sizeof(struct range_chunk) + count * sizeof(struct range);
    struct range_chunk *chunk =
        aligned_alloc(count == largest_chunk_ranges ? bytes : _Alignof(struct range_chunk), bytes);
    if (chunk == NULL) {
        return false;
    }
    if (count == largest_chunk_ranges) {
        /* Asks for huge pages, which Linux may refuse. Frees come in any order: with 100,000 blocks and pages of 4 KiB,
         * each free would miss the TLB for its record. */
        (void)madvise(chunk, bytes, MADV_HUGEPAGE);
    }
    chunk->count = count;
    chunk->begun = 0;
    chunk->next = ranges->chunks;
    ranges->chunks = chunk;
    return true;
}

/* Takes the records of a chunk in address order, so that the chunk's pages become resident only as they are needed. */
static __attribute__((noinline)) struct range *begin_record(struct ranges *ranges)
{
    if ((ranges->chunks == NULL || ranges->chunks->begun == ranges->chunks->count) && !grow_records(ranges)) {
        return NULL;
    }
    WEIR_ASSERT(ranges->chunks->begun < ranges->chunks->count);
    struct range *range = &ranges->chunks->ranges[ranges->chunks->begun++];
    memset(range, 0, sizeof(*range));
    return range;
}

static inline struct range *new_record(struct ranges *ranges)
{
    struct range *range = ranges->unused;
    if (__builtin_expect(range == NULL, 0)) {
        return begin_record(ranges);
    }
    ranges->unused = range->next;
    return range;
}

static inline void delete_record(struct ranges *ranges, struct range *range)
{
    WEIR_ASSERT(range_state(range) != RANGE_BORDER);
    range_set_state(range, RANGE_TAKEN);
    range->next = ranges->unused;
    ranges->unused = range;
}

/* Makes sure that the next `wanted` new records need no host memory. Returns false if there is no host memory. */
static bool reserve_records(struct ranges *ranges, size_t wanted)
{
    struct range **link = &ranges->unused;
    for (; wanted > 0; wanted--, link = &(*link)->next) {
        if (*link == NULL && (*link = begin_record(ranges)) == NULL) {
            return false;
        }
    }
    return true;
}

static inline bool reserve_record(struct ranges *ranges)
{
    return __builtin_expect(ranges->unused != NULL, 1) || reserve_records(ranges, 1);
}

struct range *weir__range_new(struct ranges *ranges)
{
    return new_record(ranges);
}

void weir__range_delete(struct ranges *ranges, struct range *range)
{
    delete_record(ranges, range);
}

/* --- bins --- */

static inline struct range_bins *bins_of_lane(const struct ranges *ranges, weir_lane lane, enum range_kind kind)
{
    WEIR_ASSERT(lane == WEIR_LANE_UNMAPPED || lane < ranges->lane_count);
    return ranges->bins[range_free_state(lane, kind)];
}

static inline struct range *first_in_bin(const struct range_bins *bins, unsigned bin)
{
    return bins->heads[bin] != &bins->end ? bins->heads[bin] : NULL;
}

static inline struct range *next_in_bin(const struct range_bins *bins, const struct range *range)
{
    return range->record.as.free.next != &bins->end ? range->record.as.free.next : NULL;
}

/* Returns the range that contains the link `link`, its record.as.free.next. */
static inline struct range *range_of_link(void *link)
{
    return (struct range *)((char *)link - offsetof(struct range, record.as.free.next));
}

static inline void push(struct range *range, struct range_bins *bins, unsigned bin)
{
    void **head = &bins->heads[bin];
    struct range *first = *head;
    range->record.as.free.next = first;
    range->record.as.free.prev = head;
    first->record.as.free.prev = &range->record.as.free.next;
    *head = range;
    bins->held[bin / 64] |= UINT64_C(1) << bin % 64;
}

/* Moves the ranges of bin 0 to the bins of their sizes, from the end of the list on, so that each list keeps their
 * order. Without host memory for the heads nothing changes. */
static __attribute__((noinline)) void spread_bins(struct range_bins *bins)
{
    WEIR_ASSERT(bins->spread == 0 && bins->heads == &bins->few);
    void **heads = malloc(RANGE_BINS * sizeof(*heads));
    if (heads == NULL) {
        return;
    }
    for (unsigned bin = 0; bin < RANGE_BINS; bin++) {
        heads[bin] = &bins->end;
    }
    struct range *range = &bins->end;
    for (struct range *next = bins->few; next != &bins->end; next = next->record.as.free.next) {
        range = next;
    }
    bins->heads = heads;
    bins->spread = UINT_MAX;
    bins->held[0] = 0;
    while (range != &bins->end) {
        void *const link = range->record.as.free.prev;
        push(range, bins, range_bin_of(range->record.size));
        range = link != &bins->few ? range_of_link(link) : &bins->end;
    }
    bins->few = &bins->end;
}

/* Puts the ranges into the order of their sizes, if they are not. Returns false when out of host memory. */
static inline bool put_in_order(struct range_bins *bins)
{
    if (bins->spread == 0) {
        spread_bins(bins);
    }
    return bins->spread != 0;
}

/* Returns the bin for one more range of bins that have not been spread. */
static unsigned bin_beside_few(struct range_bins *bins, const struct range *range)
{
    if (bins->count > range_looks) {
        spread_bins(bins);
    }
    return range_bin_of(range->record.size) & bins->spread;
}

static inline void bins_link(struct range *range, struct range_bins *bins, unsigned bin)
{
    bin &= bins->spread;
    push(range, bins, __builtin_expect(bin != 0, 1) ? bin : bin_beside_few(bins, range));
}

static inline void bins_unlink(struct range *range, struct range_bins *bins, unsigned bin)
{
    bin &= bins->spread;
    struct range *next = range->record.as.free.next;
    void **link = range->record.as.free.prev;
    *link = next;
    next->record.as.free.prev = link;
    /* Without a branch: the processor cannot predict which bins are empty. */
    bins->held[bin / 64] ^= (uint64_t)(bins->heads[bin] == &bins->end) << bin % 64;
}

static inline void bins_insert_at(struct ranges *ranges, struct range *range, struct range_bins *bins, unsigned bin)
{
    WEIR_ASSERT(bins != NULL && bins == ranges->bins[range->record.state]);
    WEIR_ASSERT(bin == range_bin_of(range->record.size) && bin < RANGE_BINS);
    WEIR_ASSERT(range->record.size % RANGE_GRANULE == 0);
    const weir_tick tick = range->record.as.free.tick;
    WEIR_ASSERT(tick != WEIR_TICK_MAX);
    if (__builtin_expect(tick < bins->oldest, 0)) {
        ranges->sets_held[range->record.state & 1u] += bins->count == 0 && range->record.state > 1;
        bins->oldest = tick;
    }
    bins->count++;
    bins_link(range, bins, bin);
}

static inline void bins_insert(struct ranges *ranges, struct range *range)
{
    bins_insert_at(ranges, range, ranges->bins[range->record.state], range_bin_of(range->record.size));
}

static inline void bins_remove_at(struct ranges *ranges, struct range *range, struct range_bins *bins, unsigned bin)
{
    WEIR_ASSERT(range_state(range) <= (ranges->lane_count + 1) * RANGE_KINDS);
    WEIR_ASSERT(*(struct range **)range->record.as.free.prev == range);
    WEIR_ASSERT(bins->count > 0);
    bins_unlink(range, bins, bin);
    if (__builtin_expect(--bins->count == 0, 0)) {
        ranges->sets_held[range->record.state & 1u] -= range->record.state > 1;
        bins->oldest = WEIR_TICK_MAX;
    }
}

static inline void bins_remove(struct ranges *ranges, struct range *range)
{
    bins_remove_at(ranges, range, ranges->bins[range->record.state], range_bin_of(range->record.size));
}

static inline void bins_move(struct range *range, struct range_bins *bins, unsigned from, unsigned to)
{
    bins_unlink(range, bins, from);
    bins_link(range, bins, to);
}

/* Returns the first bin at or above `bin` that is not empty, or RANGE_BINS if there is none. */
static inline unsigned next_bin(const struct range_bins *bins, unsigned bin)
{
    if (bin >= RANGE_BINS) {
        return RANGE_BINS;
    }
    unsigned word = bin / 64;
    uint64_t held = bins->held[word] >> bin % 64;
    if (__builtin_expect(held != 0, 1)) {
        return bin + (unsigned)__builtin_ctzll(held);
    }
    do {
        held = bins->held[++word]; /* the bit of RANGE_BINS is set */
    } while (held == 0);
    return word * 64 + (unsigned)__builtin_ctzll(held);
}

static inline bool fits(const struct range *range, uint64_t size, uint64_t align, weir_tick limit)
{
    const uint64_t padding = range_padding(range, align);
    return range->record.as.free.tick <= limit && range->record.size >= size && range->record.size - size >= padding;
}

/* Returns the smallest fitting range among the first `most` ranges of a bin's list. If `plain`, only the size must fit.
 * Whether a range is too small or worse than `best` is not predictable, so one comparison excludes both: for a range
 * that is too small the unsigned difference of the sizes is huge. */
static inline struct range *best_of(const struct range_bins *bins, unsigned bin, size_t most, uint64_t size,
                                    uint64_t align, weir_tick limit, bool plain)
{
    struct range *best = NULL;
    uint64_t least = UINT64_MAX / 2;
    for (struct range *range = bins->heads[bin]; range != &bins->end && most > 0; range = range->record.as.free.next) {
        const uint64_t left = range->record.size - size;
        if (left < least && (plain || fits(range, size, align, limit))) {
            best = range;
            least = left;
        }
        most--;
    }
    return best;
}

/* Searches the bins from number *at on. Returns the best range of the first bin that has a fitting range, and stores
 * the number of the bin of its size in *at. */
static inline struct range *search(const struct range_bins *bins, unsigned *at, size_t most, uint64_t size,
                                   uint64_t align, weir_tick limit, bool plain)
{
    for (unsigned bin = *at & bins->spread; (bin = next_bin(bins, bin)) < RANGE_BINS; bin++) {
        struct range *best = best_of(bins, bin, most, size, align, limit, plain);
        if (best != NULL) {
            *at = __builtin_expect(bin != 0, 1) ? bin : range_bin_of(best->record.size);
            return best;
        }
    }
    return NULL;
}

/* Continues where find stopped, with more ranges of each bin. Before a refusal it reads every range, except under a
 * tick limit: then gather does the complete search. */
static __attribute__((noinline)) struct range *find_harder(const struct range_bins *bins, unsigned *at, uint64_t bytes,
                                                           uint64_t align, weir_tick limit, bool plain)
{
    struct range *best = plain ? NULL : search(bins, at, 4 * range_looks, bytes, align, limit, false);
    return best != NULL || limit != WEIR_TICK_MAX ? best : search(bins, at, SIZE_MAX, bytes, align, limit, false);
}

/* Searches the bins from number *at up. Returns a range and stores the number of its bin in *at. */
static inline struct range *find(const struct range_bins *bins, unsigned *at, uint64_t bytes, uint64_t align,
                                 weir_tick limit)
{
    const bool plain = align <= RANGE_GRANULE && limit == WEIR_TICK_MAX;
    struct range *best = plain ? search(bins, at, range_looks, bytes, align, limit, true) : NULL;
    return best != NULL ? best : find_harder(bins, at, bytes, align, limit, plain);
}

struct range *weir__ranges_find(struct ranges *ranges, enum range_kind kind, weir_lane lane, weir_tick limit,
                                uint64_t bytes, uint64_t align, uint64_t least)
{
    struct range_bins *bins = lane < ranges->lane_count ? bins_of_lane(ranges, lane, kind) : NULL;
    if (bins == NULL || bins->count == 0 || (least > bytes && !put_in_order(bins))) {
        return NULL;
    }
    unsigned at = range_bin_of(bytes > least ? bytes : least);
    return find(bins, &at, bytes, align, limit);
}

/* True if the range is the upper one of two ranges in its region, and the lower one is more than twice as large as
 * `bytes`. The size of a border is 0, so the lower of two ranges fails the test. */
static inline bool is_rest_of_larger(const struct range *range, uint64_t bytes)
{
    return range->prev->prev == range->next && range->prev->record.size / larger_ratio > bytes;
}

/* True if the range is not a whole region and neither neighbour is larger than `bytes`. The size of a border is 0. */
static inline bool is_apart(const struct range *range, uint64_t bytes)
{
    return !range_spans_region(range) && range->prev->record.size <= bytes && range->next->record.size <= bytes;
}

/* Serves a large request if its best fit, `best`, is the rest of a larger block's region. Returns `best` if it is
 * tight. Otherwise returns the first fitting range for which is_apart holds among the next few ranges, up to about four
 * times as large; if there is none, `best`. */
static inline struct range *find_apart(struct range_bins *bins, struct range *best, uint64_t bytes, uint64_t align,
                                       weir_tick limit)
{
    if (best->record.size - bytes <= bytes / tight_share) {
        return best;
    }
    if (!put_in_order(bins)) {
        return best;
    }
    const unsigned first = range_bin_of(best->record.size);
    const unsigned end = first + 64 < RANGE_BINS ? first + 64 : RANGE_BINS;
    unsigned left = range_looks;
    for (unsigned bin = next_bin(bins, first); bin < end; bin = next_bin(bins, bin + 1)) {
        for (struct range *range = first_in_bin(bins, bin); range != NULL; range = next_in_bin(bins, range)) {
            if (is_apart(range, bytes) && fits(range, bytes, align, limit)) {
                return range;
            }
            if (--left == 0) {
                return best;
            }
        }
    }
    return best;
}

struct range *weir__ranges_choose(struct ranges *ranges, enum range_kind kind, weir_lane lane, weir_tick limit,
                                  uint64_t bytes, uint64_t align)
{
    struct range *best = weir__ranges_find(ranges, kind, lane, limit, bytes, align, 0);
    return best != NULL && kind == RANGE_LARGE && is_rest_of_larger(best, bytes)
               ? find_apart(bins_of_lane(ranges, lane, kind), best, bytes, align, limit)
               : best;
}

static uint64_t largest_of(const struct range_bins *bins)
{
    uint64_t largest = 0;
    if (bins == NULL || bins->count == 0) {
        return 0;
    }
    unsigned word = RANGE_BIN_WORDS - 1;
    while (bins->held[word] == 0) {
        word--;
    }
    const unsigned bin = word * 64 + 63u - (unsigned)__builtin_clzll(bins->held[word]);
    for (const struct range *range = first_in_bin(bins, bin); range != NULL; range = next_in_bin(bins, range)) {
        largest = range->record.size > largest ? range->record.size : largest;
    }
    return largest;
}

/* --- life and lanes --- */

static void delete_bins(struct range_bins *bins)
{
    if (bins != NULL && bins->spread != 0) {
        free(bins->heads);
    }
    free(bins);
}

void weir_ranges_fini(void *state)
{
    struct ranges *ranges = state;
    while (ranges->first_region != NULL) {
        struct range_region *next = ranges->first_region->next;
        free(ranges->first_region);
        ranges->first_region = next;
    }
    for (size_t i = 0; ranges->bins != NULL && i < (ranges->lane_count + 1) * RANGE_KINDS; i++) {
        delete_bins(ranges->bins[i]);
    }
    free(ranges->bins);
    while (ranges->chunks != NULL) {
        struct range_chunk *next = ranges->chunks->next;
        free(ranges->chunks);
        ranges->chunks = next;
    }
}

/* Makes room for the lanes below `count` and for the unmapped lane. */
static bool reserve_lanes(struct ranges *ranges, size_t count)
{
    WEIR_ASSERT(count > ranges->lane_count);
    const size_t held = ranges->bins != NULL ? (ranges->lane_count + 1) * RANGE_KINDS : 0;
    const size_t wanted = (count + 1) * RANGE_KINDS;
    struct range_bins **bins = realloc(ranges->bins, wanted * sizeof(*bins));
    if (bins == NULL) {
        return false;
    }
    memset(bins + held, 0, (wanted - held) * sizeof(*bins));
    if (held == 0) {
        ranges->idle.record.as.free.prev = ranges->idle.record.as.free.next = &ranges->idle;
    }
    ranges->bins = bins;
    ranges->lane_count = count;
    return true;
}

static struct range_bins *new_bins(void)
{
    struct range_bins *bins = calloc(1, sizeof(*bins));
    if (bins == NULL) {
        return NULL;
    }
    bins->oldest = WEIR_TICK_MAX;
    bins->held[RANGE_BIN_WORDS] = 1;
    bins->few = &bins->end;
    bins->heads = &bins->few;
    return bins;
}

weir_status weir_ranges_lane_add(void *state, weir_lane lane)
{
    struct ranges *ranges = state;
    const size_t wanted = lane == WEIR_LANE_UNMAPPED ? 1 : (size_t)lane + 1;
    if (wanted > ranges->lane_count && !reserve_lanes(ranges, wanted + wanted / 2 + 7)) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (int kind = 0; kind < RANGE_KINDS; kind++) {
        struct range_bins **bins = &ranges->bins[range_free_state(lane, (enum range_kind)kind)];
        if (*bins == NULL && (*bins = new_bins()) == NULL) {
            return WEIR_ERR_NO_MEMORY;
        }
    }
    return WEIR_OK;
}

/* --- regions that are one free range --- */

static inline void enter_idle(struct ranges *ranges, struct range *border)
{
    WEIR_ASSERT(range_spans_region(border->next));
    struct range *last = ranges->idle.record.as.free.prev;
    border->record.as.free.prev = last;
    border->record.as.free.next = &ranges->idle;
    last->record.as.free.next = border;
    ranges->idle.record.as.free.prev = border;
}

static inline void leave_idle(struct range *border)
{
    struct range *prev = border->record.as.free.prev;
    struct range *next = border->record.as.free.next;
    WEIR_ASSERT(prev->record.as.free.next == border && next->record.as.free.prev == border);
    prev->record.as.free.next = next;
    next->record.as.free.prev = prev;
}

/* --- joining and cutting --- */

/* Removes the upper neighbour from the region's list of ranges and deletes its record. */
static inline void unlink_next(struct ranges *ranges, struct range *range)
{
    struct range *gone = range->next;
    struct range *after = gone->next;
    WEIR_ASSERT(range_state(gone) != RANGE_BORDER && gone->prev == range && after->prev == gone);
    range->next = after;
    after->prev = range;
    delete_record(ranges, gone);
}

static inline struct range *settle(struct ranges *ranges, struct range *range, uint32_t state, weir_tick tick)
{
    struct range_bins *bins = ranges->bins[state];
    struct range *next = range->next;
    struct range *prev = range->prev;
    WEIR_ASSERT(bins != NULL && next->prev == range && prev->next == range);
    uint64_t size = range->record.size;
    /* The merged range keeps the later tick: with the earlier tick it could be reused while a part is still in use. */
    if (range_state(next) == state) {
        bins_remove_at(ranges, next, bins, range_bin_of(next->record.size));
        tick = next->record.as.free.tick > tick ? next->record.as.free.tick : tick;
        size += next->record.size;
        unlink_next(ranges, range);
    }
    if (range_state(prev) == state) {
        bins_remove_at(ranges, prev, bins, range_bin_of(prev->record.size));
        tick = prev->record.as.free.tick > tick ? prev->record.as.free.tick : tick;
        size += prev->record.size;
        unlink_next(ranges, prev);
        range = prev;
    }
    range_set_state(range, state);
    range->record.size = size;
    range->record.as.free.tick = tick;
    bins_insert_at(ranges, range, bins, range_bin_of(size));
    if (range_spans_region(range)) {
        enter_idle(ranges, range->next);
    }
    return range;
}

struct range *weir__ranges_settle(struct ranges *ranges, struct range *range, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(range_state(range) != RANGE_BORDER);
    return settle(ranges, range, range_free_state(lane, range_kind(range)), tick);
}

void weir__ranges_settle_slot(struct ranges *ranges, struct range *slot, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(lane < ranges->lane_count && ranges->slots != NULL);
    slot->record.as.free.tick = tick;
    range_set_state(slot, RANGE_SLOT | (lane + 1));
    ranges->free_slots++;
    ranges->slots->enter(ranges, slot);
}

static inline void remove_free(struct ranges *ranges, struct range *range)
{
    WEIR_ASSERT(range_is_free(range));
    if (range_is_slot(range)) {
        ranges->free_slots--;
        ranges->slots->leave(ranges, range);
    } else {
        if (__builtin_expect(range_spans_region(range), 0)) {
            leave_idle(range->next);
        }
        bins_remove(ranges, range);
    }
    range_set_state(range, RANGE_TAKEN);
}

void weir__ranges_remove(struct ranges *ranges, struct range *range)
{
    remove_free(ranges, range);
}

/* Takes a free range out of its lane and, if it is a slot, out of its slab. */
static void detach(struct ranges *ranges, struct range *range)
{
    const bool slot = range_is_slot(range);
    remove_free(ranges, range);
    if (slot) {
        ranges->slots->quit(ranges, range);
    }
}

void weir__ranges_absorb_next(struct ranges *ranges, struct range *range)
{
    WEIR_ASSERT(!range_is_free(range) && !range_is_free(range->next));
    WEIR_ASSERT(range->record.address + range->record.size == range->next->record.address);
    struct range *next = range->next;
    const weir_tick tick = next->record.as.free.tick;
    range->record.size += next->record.size;
    range->record.as.free.tick = tick > range->record.as.free.tick ? tick : range->record.as.free.tick;
    unlink_next(ranges, range);
}

/* Inserts a reserved record for [address, address + size), in no free list, between two neighbours. */
static inline struct range *insert_between(struct ranges *ranges, struct range *prev, struct range *next,
                                           uint64_t address, uint64_t size, const struct range *model)
{
    WEIR_ASSERT(prev->next == next && next->prev == prev);
    WEIR_ASSERT(size != 0);
    WEIR_ASSERT(ranges->unused != NULL);
    struct range *range = ranges->unused;
    ranges->unused = range->next;
    range->record.address = address;
    range->record.size = size;
    range->record.as.free.tick = model->record.as.free.tick;
    range->record.own = model->record.own;
    range->prev = prev;
    range->next = next;
    prev->next = range;
    next->prev = range;
    return range;
}

static inline void shrink(struct range *range, struct range_bins *bins, unsigned from, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0 && size < range->record.size);
    WEIR_ASSERT(address >= range->record.address);
    const unsigned to = range_bin_of(size);
    range->record.address = address;
    range->record.size = size;
    if (from != to) {
        bins_move(range, bins, from, to);
    }
}

/* Splits a range that is in no free list after its first `bytes` bytes. Returns the upper part, which is in no free
 * list either. The caller has reserved a record. */
static struct range *split(struct ranges *ranges, struct range *range, uint64_t bytes)
{
    WEIR_ASSERT(bytes != 0 && bytes < range->record.size);
    WEIR_ASSERT(bytes % RANGE_GRANULE == 0);
    struct range *rest =
        insert_between(ranges, range, range->next, range->record.address + bytes, range->record.size - bytes, range);
    range_set_state(rest, RANGE_TAKEN); /* keeps `range` from merging with `rest` when `range` is freed */
    range->record.size = bytes;
    return rest;
}

/* Cuts `bytes` bytes out of the middle of a free range. Both ends stay free. The caller has reserved two records. */
static struct range *cut_inside(struct ranges *ranges, struct range *range, uint64_t padding, uint64_t bytes)
{
    WEIR_ASSERT(padding != 0 && padding + bytes < range->record.size);
    const uint64_t above = range->record.size - padding - bytes;
    const uint64_t address = range->record.address + padding;
    struct range *middle = insert_between(ranges, range, range->next, address, bytes, range);
    struct range *rest = insert_between(ranges, middle, middle->next, address + bytes, above, range);
    range_set_state(rest, range->record.state);
    shrink(range, ranges->bins[range->record.state], range_bin_of(range->record.size), range->record.address, padding);
    bins_insert(ranges, rest);
    return middle;
}

/* Cuts `bytes` bytes off one end of a free range. The caller has reserved a record. */
static inline struct range *cut_end(struct ranges *ranges, struct range *range, struct range_bins *bins, unsigned bin,
                                    uint64_t bytes, bool high)
{
    WEIR_ASSERT(bytes <= range->record.size && range_bin_of(range->record.size) == bin);
    const uint64_t address = range->record.address;
    const uint64_t rest = range->record.size - bytes;
    if (rest == 0) {
        bins_remove_at(ranges, range, bins, bin);
        return range;
    }
    struct range *part = high ? insert_between(ranges, range, range->next, address + rest, bytes, range)
                              : insert_between(ranges, range->prev, range, address, bytes, range);
    shrink(range, bins, bin, high ? address : address + bytes, rest);
    return part;
}

/* Cuts `bytes` bytes at `start` out of a free range that holds them. Otherwise as weir__ranges_cut. */
static struct range *cut_at(struct ranges *ranges, struct range *range, uint64_t start, uint64_t bytes)
{
    WEIR_ASSERT(range_is_free(range) && !range_is_slot(range));
    WEIR_ASSERT(bytes != 0 && bytes % RANGE_GRANULE == 0 && start % RANGE_GRANULE == 0);
    const uint64_t address = range->record.address;
    const uint64_t end = address + range->record.size;
    WEIR_ASSERT(start >= address && start + bytes <= end);
    if (!reserve_records(ranges, 2)) {
        return NULL;
    }
    if (range_spans_region(range)) {
        leave_idle(range->next);
    }
    struct range *part = start == address || start + bytes == end
                             ? cut_end(ranges, range, ranges->bins[range->record.state],
                                       range_bin_of(range->record.size), bytes, start != address)
                             : cut_inside(ranges, range, start - address, bytes);
    range_set_state(part, RANGE_TAKEN);
    return part;
}

struct range *weir__ranges_cut(struct ranges *ranges, struct range *range, uint64_t bytes, uint64_t align, bool high)
{
    const uint64_t end = range->record.address + range->record.size;
    const uint64_t start = high ? (end - bytes) & ~(align - 1) : range->record.address + range_padding(range, align);
    return cut_at(ranges, range, start, bytes);
}

/* --- regions --- */

/* Returns the size of a region for a whole number of requests of `need` bytes: as many as fit into `room`, or one more,
 * whichever wastes the smaller fraction of the region. Training and inference make runs of requests of equal size. */
static uint64_t whole_requests(uint64_t need, uint64_t room, uint64_t granularity)
{
    WEIR_ASSERT(need != 0 && need <= room);
    const uint64_t count = room / need;
    const uint64_t fewer = range_round_up(count * need, granularity);
    const uint64_t more = range_round_up((count + 1) * need, granularity);
    const double rest_of_fewer = (double)(fewer - count * need) / (double)fewer;
    const double rest_of_more = (double)(more - (count + 1) * need) / (double)more;
    return rest_of_more < rest_of_fewer ? more : fewer;
}

/* Regions grow with the pool, so that a small pool stays small and a large one makes few device calls. The size of a
 * region is a fraction of the reserved bytes, at most `most`, or a much smaller fraction if that is more. It is lowered
 * so that the reserved bytes then reach a multiple of that fraction. A request of half of the most or more gets a
 * region of its own size. */
uint64_t weir_ranges_region_size(uint64_t size, uint64_t align, uint64_t most, uint64_t reserved, uint64_t granularity)
{
    WEIR_ASSERT(granularity != 0);
    const uint64_t need = range_need(size, align);
    const uint64_t share = reserved / regions_of_most;
    const uint64_t step = reserved / regions_of_step;
    most = most > share ? most : share;
    uint64_t room = step > least_step_bytes ? step : least_step_bytes;
    room = room < most ? room : most;
    if (need >= most / 2 || need >= room) {
        return range_round_up(need, granularity);
    }
    const uint64_t to_multiple = room - reserved % room;
    return whole_requests(need, to_multiple >= need ? to_multiple : room, granularity);
}

weir_status weir_ranges_region_add(void *state, unsigned kind, uint64_t address, uint64_t size, weir_lane lane,
                                   weir_tick tick, void **out)
{
    WEIR_ASSERT(kind < RANGE_KINDS);
    WEIR_ASSERT(size != 0 && size % RANGE_GRANULE == 0);
    struct ranges *ranges = state;
    ranges->gathered = NULL;
    struct range_region *region = calloc(1, sizeof(*region));
    struct range *range = region != NULL ? new_record(ranges) : NULL;
    if (range == NULL) {
        free(region);
        return WEIR_ERR_NO_MEMORY;
    }
    region->border.record.state = RANGE_BORDER;
    region->border.prev = region->border.next = range;
    region->address = address;
    region->size = size;
    region->prev = ranges->last_region;
    *(region->prev != NULL ? &region->prev->next : &ranges->first_region) = region;
    ranges->last_region = region;
    ranges->regions++;
    ranges->region_bytes += size;
    range->record.address = address;
    range->record.size = size;
    range->record.own = kind;
    range->prev = range->next = &region->border;
    (void)settle(ranges, range, range_free_state(lane, kind), tick);
    *out = region;
    return WEIR_OK;
}

/* Returns the idle region after `region`; NULL after the last. */
static const struct range_region *next_idle(const struct ranges *ranges, const struct range_region *region)
{
    struct range *next = region->border.record.as.free.next;
    return next != &ranges->idle ? range_region_of(next) : NULL;
}

/* Returns the region that became idle first; NULL if no region is idle. */
static const struct range_region *first_idle(const struct ranges *ranges)
{
    struct range *first = ranges->idle.record.as.free.next;
    return first != NULL && first != &ranges->idle ? range_region_of(first) : NULL;
}

static bool is_idle(const struct range_region *region, const weir_tick *limits, size_t lanes)
{
    const struct range *range = region->border.next;
    while (range != &region->border && range_eligible(range, limits, lanes)) {
        range = range->next;
    }
    return range == &region->border;
}

weir_status weir_ranges_region_remove(void *state, void *handle, const weir_tick *limits, size_t lanes)
{
    struct ranges *ranges = state;
    struct range_region *region = handle;
    ranges->gathered = NULL;
    if (!is_idle(region, limits, lanes)) {
        return WEIR_ERR_BUSY;
    }
    for (struct range *range = region->border.next; range != &region->border; range = range->next) {
        detach(ranges, range);
    }
    while (region->border.next != &region->border) {
        unlink_next(ranges, &region->border);
    }
    *(region->prev != NULL ? &region->prev->next : &ranges->first_region) = region->next;
    *(region->next != NULL ? &region->next->prev : &ranges->last_region) = region->prev;
    WEIR_ASSERT(ranges->regions > 0 && ranges->region_bytes >= region->size);
    ranges->regions--;
    ranges->region_bytes -= region->size;
    free(region);
    return WEIR_OK;
}

bool weir_ranges_region_idle(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address)
{
    const struct ranges *ranges = state;
    const struct range_region *region = first_idle(ranges);
    while (region != NULL && !is_idle(region, limits, lanes)) {
        region = next_idle(ranges, region);
    }
    const bool several = ranges->sets_held[RANGE_SMALL] > 1 || ranges->sets_held[RANGE_LARGE] > 1;
    if (region == NULL && (several || ranges->slots != NULL)) {
        region = ranges->first_region; /* no region is free in one lane: look for one that is free in several lanes */
        while (region != NULL && !is_idle(region, limits, lanes)) {
            region = region->next;
        }
    }
    if (region != NULL) {
        *address = region->address;
    }
    return region != NULL;
}

/* --- ranges --- */

/* Counts the range as taken and describes it in *out. The caller passes the range's size as `bytes`: if the words of
 * the record have just been stored one by one, loading them as one vector would stall. */
static inline void hand_out(struct ranges *ranges, struct range *range, uint64_t bytes, weir_range *out)
{
    WEIR_ASSERT(!range_is_free(range));
    ranges->taken_ranges++;
    WEIR_ASSERT(bytes == range->record.size && ranges->taken_bytes + bytes <= ranges->region_bytes);
    ranges->taken_bytes += bytes;
    *out = (weir_range){
        .address = range->record.address, .size = bytes, .token = range, .tick = range->record.as.free.tick};
}

void weir__ranges_hand_out(struct ranges *ranges, struct range *range, weir_range *out)
{
    hand_out(ranges, range, range->record.size, out);
}

static inline enum range_kind kind_of(const struct ranges *ranges, uint64_t size)
{
    return size <= ranges->small_bytes ? RANGE_SMALL : RANGE_LARGE;
}

/* True if a large request leaves half of the range or more. Such a request gets the high end of the range. */
static inline bool leaves_half(const struct range *range, enum range_kind kind, uint64_t bytes)
{
    return kind == RANGE_LARGE && range->record.size / high_end_ratio >= bytes;
}

/* True if a request takes the high end of a range because of its size. */
static inline bool is_for_high_end(const struct ranges *ranges, uint64_t bytes)
{
    return bytes - ranges->high_least <= ranges->high_more; /* less than the least wraps around */
}

/* Serves every request. */
static __attribute__((noinline)) weir_status alloc_any(struct ranges *ranges, weir_lane lane, weir_tick limit,
                                                       uint64_t size, uint64_t align, weir_range *out)
{
    const enum range_kind kind = kind_of(ranges, size);
    const uint64_t bytes = range_round_up(size, RANGE_GRANULE);
    struct range *range = weir__ranges_take_gathered(ranges, lane, limit, bytes, align);
    range = range != NULL ? range : weir__ranges_choose(ranges, kind, lane, limit, bytes, align);
    if (range == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    const bool half = leaves_half(range, kind, bytes);
    const uint64_t idle_bytes = kind == RANGE_LARGE && range_spans_region(range) ? range->record.size : 0;
    range = weir__ranges_cut(ranges, range, bytes, align, half || is_for_high_end(ranges, bytes));
    if (range == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    hand_out(ranges, range, bytes, out);
    out->idle_bytes = idle_bytes;
    return WEIR_OK;
}

/* Serves a request that needs no alignment above the granule from `range`, which lies in bin `bin` of `bins`. */
static inline weir_status serve_from(struct ranges *ranges, struct range *range, struct range_bins *bins, unsigned bin,
                                     enum range_kind kind, uint64_t bytes, weir_range *out)
{
    if (!reserve_record(ranges)) {
        return WEIR_ERR_INTERNAL;
    }
    const bool half = leaves_half(range, kind, bytes);
    const bool high = half || is_for_high_end(ranges, bytes);
    uint64_t idle_bytes = 0;
    if (range_spans_region(range)) {
        idle_bytes = kind == RANGE_LARGE ? range->record.size : 0;
        leave_idle(range->next);
    }
    range = cut_end(ranges, range, bins, bin, bytes, high);
    range_set_state(range, RANGE_TAKEN);
    hand_out(ranges, range, bytes, out);
    out->idle_bytes = idle_bytes;
    return WEIR_OK;
}

static __attribute__((noinline)) weir_status alloc_apart(struct ranges *ranges, struct range *best, uint64_t bytes,
                                                         weir_range *out)
{
    struct range_bins *bins = ranges->bins[best->record.state];
    struct range *range = find_apart(bins, best, bytes, RANGE_GRANULE, WEIR_TICK_MAX);
    return serve_from(ranges, range, bins, range_bin_of(range->record.size), RANGE_LARGE, bytes, out);
}

/* Serves a request directly if it needs no alignment above the granule, may take free memory of any tick, and if no
 * range has been gathered for it. alloc_any serves all other requests. */
weir_status weir__ranges_alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                               weir_range *out)
{
    WEIR_ASSERT(size != 0);
    struct ranges *ranges = state;
    if (__builtin_expect(align > RANGE_GRANULE || limit != WEIR_TICK_MAX || ranges->gathered != NULL, 0)) {
        return alloc_any(ranges, lane, limit, size, align, out);
    }
    const enum range_kind kind = kind_of(ranges, size);
    const uint64_t bytes = range_round_up(size, RANGE_GRANULE);
    struct range_bins *bins = ranges->bins[range_free_state(lane, kind)];
    unsigned bin = range_bin_of(bytes);
    struct range *range = search(bins, &bin, range_looks, bytes, RANGE_GRANULE, WEIR_TICK_MAX, true);
    if (__builtin_expect(range == NULL, 0)) {
        return alloc_any(ranges, lane, WEIR_TICK_MAX, size, RANGE_GRANULE, out);
    }
    if (kind == RANGE_LARGE && is_rest_of_larger(range, bytes)) {
        return alloc_apart(ranges, range, bytes, out);
    }
    return serve_from(ranges, range, bins, bin, kind, bytes, out);
}

struct range *weir__ranges_free(struct ranges *ranges, struct range *range, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(!range_is_free(range));
    WEIR_ASSERT(ranges->taken_ranges > 0 && ranges->taken_bytes >= range->record.size);
    ranges->gathered = NULL;
    ranges->taken_ranges--;
    ranges->taken_bytes -= range->record.size;
    return settle(ranges, range, range_free_state(lane, range_kind(range)), tick);
}

void weir_ranges_free(void *state, void *token, weir_lane lane, weir_tick tick)
{
    (void)weir__ranges_free(state, token, lane, tick);
}

void weir__ranges_free_slot(struct ranges *ranges, struct range *slot, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(!range_is_free(slot));
    WEIR_ASSERT(ranges->taken_ranges > 0 && ranges->taken_bytes >= slot->record.size);
    ranges->gathered = NULL;
    ranges->taken_ranges--;
    ranges->taken_bytes -= slot->record.size;
    weir__ranges_settle_slot(ranges, slot, lane, tick);
}

/* Moves the ranges with ticks at or below `limit` from these bins to the open lane (memory that every stream may use),
 * and finds the oldest tick that stays in the bins. */
static uint64_t promote_set(struct ranges *ranges, struct range_bins *bins, enum range_kind kind, weir_tick limit)
{
    uint64_t moved = 0;
    weir_tick oldest = WEIR_TICK_MAX;
    for (unsigned bin = 0; (bin = next_bin(bins, bin)) < RANGE_BINS; bin++) {
        struct range *next = NULL;
        for (struct range *range = first_in_bin(bins, bin); range != NULL; range = next) {
            const weir_tick tick = range->record.as.free.tick;
            next = next_in_bin(bins, range);
            if (tick <= limit) {
                moved += range->record.size;
                remove_free(ranges, range);
                (void)settle(ranges, range, range_free_state(WEIR_LANE_OPEN, kind), 0);
            } else {
                oldest = tick < oldest ? tick : oldest;
            }
        }
    }
    bins->oldest = oldest;
    return moved;
}

uint64_t weir_ranges_promote(void *state, weir_lane lane, weir_tick limit)
{
    struct ranges *ranges = state;
    uint64_t moved = 0;
    ranges->gathered = NULL;
    for (int kind = 0; kind < RANGE_KINDS && lane != WEIR_LANE_OPEN && lane < ranges->lane_count; kind++) {
        struct range_bins *bins = bins_of_lane(ranges, lane, (enum range_kind)kind);
        if (bins != NULL && bins->count != 0 && bins->oldest <= limit) {
            moved += promote_set(ranges, bins, (enum range_kind)kind, limit);
        }
    }
    return moved;
}

/* --- gather --- */

struct range *weir__ranges_take_gathered(struct ranges *ranges, weir_lane lane, weir_tick limit, uint64_t bytes,
                                         uint64_t align)
{
    struct range *range = ranges->gathered;
    if (range == NULL) {
        return NULL;
    }
    ranges->gathered = NULL;
    const uint64_t padding = range_padding(range, align);
    const bool serves = range_lane(range) == lane && range->record.as.free.tick <= limit &&
                        range->record.size >= bytes && range->record.size - bytes >= padding &&
                        (!range_is_slot(range) || padding == 0);
    return serves ? range : NULL;
}

struct run {
    struct range *first;
    struct range *end; /* the range after the run, or the region's border */
    uint64_t size;
};

static bool usable(const struct ranges *ranges, const struct range *range, const struct range_wish *wish)
{
    return range_eligible(range, wish->limits, wish->lanes) &&
           (!range_is_slot(range) || (wish->slot_usable != NULL && wish->slot_usable(ranges, range)));
}

/* Returns the lowest multiple of `align` from `address` on that lies a multiple of `unit` bytes behind `base`, the
 * start of its region. */
static uint64_t place(uint64_t base, uint64_t address, uint64_t align, uint64_t unit)
{
    WEIR_ASSERT(address >= base && (align & (align - 1)) == 0 && (unit & (unit - 1)) == 0);
    return align < unit && (base & (align - 1)) == 0 ? base + range_round_up(address - base, unit)
                                                     : range_round_up(address, align);
}

/* Finds the smallest run of usable neighbours that holds the request. */
static bool best_run(const struct ranges *ranges, enum range_kind kind, const struct range_wish *wish, struct run *best)
{
    WEIR_ASSERT(wish->bytes != 0 && wish->limits != NULL);
    best->first = NULL;
    for (struct range_region *region = ranges->first_region; region != NULL; region = region->next) {
        struct range *range = region->border.next;
        const bool right_kind = range_kind(range) == kind && region->size >= wish->bytes;
        while (right_kind && range != &region->border) {
            if (!usable(ranges, range, wish)) {
                range = range->next;
                continue;
            }
            struct run run = {.first = range, .end = range, .size = 0};
            while (run.end != &region->border && usable(ranges, run.end, wish)) {
                run.size += run.end->record.size;
                run.end = run.end->next;
            }
            const uint64_t start = run.first->record.address;
            const uint64_t padding = place(region->address, start, wish->align, wish->unit) - start;
            if (run.size >= wish->bytes && run.size - wish->bytes >= padding && run.size >= wish->least &&
                (best->first == NULL || run.size < best->size)) {
                *best = run;
            }
            range = run.end;
        }
    }
    return best->first != NULL;
}

static size_t holds_any(const struct ranges *ranges, weir_lane lane, enum range_kind kind)
{
    const struct range_bins *bins = lane < ranges->lane_count ? bins_of_lane(ranges, lane, kind) : NULL;
    return bins != NULL && bins->count != 0;
}

bool weir__ranges_others_hold_any(const struct ranges *ranges, weir_lane own)
{
    return ranges->sets_held[RANGE_SMALL] > holds_any(ranges, own, RANGE_SMALL) ||
           ranges->sets_held[RANGE_LARGE] > holds_any(ranges, own, RANGE_LARGE);
}

/* Joins a run of free ranges into one range of `lane`. Its tick is the latest of `tick` and the ticks that the ranges
 * have in `lane`, so the lane's stream is ordered after all work on them. Then merges the range with its neighbours. */
static struct range *take_in(struct ranges *ranges, const struct run *run, weir_lane lane, weir_tick tick)
{
    WEIR_ASSERT(run->first != run->end);
    struct range *whole = run->first;
    for (const struct range *range = whole; range != run->end; range = range->next) {
        const weir_tick its = range->record.as.free.tick;
        tick = range_lane(range) == lane && its > tick ? its : tick;
    }
    detach(ranges, whole);
    while (whole->next != run->end) {
        detach(ranges, whole->next);
        weir__ranges_absorb_next(ranges, whole);
    }
    return weir__ranges_settle(ranges, whole, lane, tick);
}

struct range *weir__ranges_gather(struct ranges *ranges, enum range_kind kind, const struct range_wish *wish)
{
    struct run run = {0};
    return best_run(ranges, kind, wish, &run) ? take_in(ranges, &run, wish->lane, wish->tick) : NULL;
}

/* The alloc before this gather found nothing in the lane, where neighbours have merged already. So if no other lane
 * holds free memory, there is nothing to join. A last resort always searches, because it may come without such an
 * alloc. */
bool weir__ranges_gather_for_alloc(struct ranges *ranges, enum range_kind kind, const struct range_wish *wish,
                                   bool last_resort)
{
    ranges->gathered = NULL;
    if (last_resort || weir__ranges_others_hold_any(ranges, wish->lane)) {
        ranges->gathered = weir__ranges_gather(ranges, kind, wish);
    }
    return ranges->gathered != NULL;
}

/* --- claim --- */

static struct range_region *region_at(const struct ranges *ranges, uint64_t address)
{
    struct range_region *region = ranges->first_region;
    while (region != NULL && address - region->address >= region->size) {
        region = region->next;
    }
    return region;
}

static bool holds_address(const struct range *range, uint64_t address)
{
    return address - range->record.address < range->record.size;
}

/* Returns the size from which on a range matters in a search for `least` adjacent bytes. If one set of bins holds all
 * free memory, free neighbours have merged, so smaller ranges cannot contribute. */
static uint64_t least_of_range(const struct ranges *ranges, enum range_kind kind, uint64_t least)
{
    return ranges->sets_held[kind] > 1 ? 0 : least;
}

/* Searches a set of bins, in ranges of at least `least` bytes. Returns the range that contains `address`, or NULL if
 * there is none. */
static struct range *free_at(const struct range_bins *bins, uint64_t address, uint64_t least)
{
    unsigned bin = bins != NULL ? range_bin_of(least) & bins->spread : 0;
    for (; bins != NULL && (bin = next_bin(bins, bin)) < RANGE_BINS; bin++) {
        for (struct range *range = first_in_bin(bins, bin); range != NULL; range = next_in_bin(bins, range)) {
            if (holds_address(range, address)) {
                return range;
            }
        }
    }
    return NULL;
}

/* Returns the free range that contains `address`; NULL if there is none. The caller needs `bytes` free bytes from there
 * on. If `unmapped`, only a range without memory counts. */
static struct range *range_at(const struct ranges *ranges, uint64_t address, uint64_t bytes, bool unmapped)
{
    const size_t sets = ranges->bins != NULL ? (ranges->lane_count + 1) * RANGE_KINDS : 0;
    struct range *found = NULL;
    for (size_t set = unmapped ? 0 : RANGE_KINDS; set < (unmapped ? RANGE_KINDS : sets) && found == NULL; set++) {
        const uint64_t least = unmapped ? 0 : least_of_range(ranges, (enum range_kind)(set % RANGE_KINDS), bytes);
        found = free_at(ranges->bins[set], address, least);
    }
    if (found != NULL || unmapped || ranges->slots == NULL) {
        return found;
    }
    struct range_region *region = region_at(ranges, address);
    struct range *range = region != NULL ? region->border.next : NULL;
    while (range != NULL && !holds_address(range, address)) {
        range = range->next;
    }
    return range;
}

static bool is_hole(const struct range *range)
{
    return range_state(range) <= 1;
}

static bool claimable(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return limits != NULL ? range_eligible(range, limits, lanes) : is_hole(range);
}

/* The lane and tick that a range had before a claim; its parts outside the claim are freed there again. */
struct origin {
    weir_lane lane;
    weir_tick tick;
};

static struct origin detach_for_claim(struct ranges *ranges, struct range *range)
{
    const struct origin origin = {range_lane(range), range->record.as.free.tick};
    detach(ranges, range);
    return origin;
}

/* Splits a range that is in no free list into parts of `size` bytes, and hands out each part. */
static void hand_out_parts(struct ranges *ranges, struct range *whole, uint64_t size, void **tokens)
{
    WEIR_ASSERT(whole->record.size % size == 0);
    weir_range part;
    for (size_t i = 0; whole != NULL; i++) {
        struct range *rest = whole->record.size > size ? split(ranges, whole, size) : NULL;
        hand_out(ranges, whole, whole->record.size, &part);
        tokens[i] = part.token;
        whole = rest;
    }
}

/* Gives the part of `range` above `end` back to the lane from which the range was taken. */
static void cut_above(struct ranges *ranges, struct range *range, uint64_t end, struct origin origin)
{
    if (range->record.address + range->record.size > end) {
        (void)weir__ranges_settle(ranges, split(ranges, range, end - range->record.address), origin.lane, origin.tick);
    }
}

/* Gives the part of `range` below `address` back to the lane from which the range was taken. Returns the upper part. */
static struct range *cut_below(struct ranges *ranges, struct range *range, uint64_t address, struct origin origin)
{
    if (range->record.address == address) {
        return range;
    }
    struct range *rest = split(ranges, range, address - range->record.address);
    (void)weir__ranges_settle(ranges, range, origin.lane, origin.tick);
    return rest;
}

/* The claimed memory is not freed in between. If the claim covers a part of a slot (a free block of a slab), only the
 * rest of the slot is freed: if the whole slot were freed, it could merge with a neighbour that has a later tick. */
weir_status weir_ranges_claim(void *state, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                              size_t lanes, void **tokens)
{
    WEIR_ASSERT(count != 0 && size != 0 && size % RANGE_GRANULE == 0);
    WEIR_ASSERT(address % RANGE_GRANULE == 0);
    struct ranges *ranges = state;
    const uint64_t end = address + count * size;
    struct range *first = range_at(ranges, address, count * size, limits == NULL);
    ranges->gathered = NULL;
    const struct range *last = first;
    for (; last != NULL && range_state(last) != RANGE_BORDER && last->record.address < end; last = last->next) {
        if (!claimable(last, limits, lanes)) {
            return WEIR_ERR_BUSY;
        }
    }
    if (first == NULL || last->prev->record.address + last->prev->record.size < end) {
        return WEIR_ERR_BUSY;
    }
    if (!reserve_records(ranges, count + 1)) { /* one record for each cut: at both ends and between the parts */
        return WEIR_ERR_NO_MEMORY;
    }
    struct origin origin = detach_for_claim(ranges, first);
    struct range *whole = cut_below(ranges, first, address, origin);
    while (whole->record.address + whole->record.size < end) {
        origin = detach_for_claim(ranges, whole->next);
        cut_above(ranges, whole->next, end, origin);
        weir__ranges_absorb_next(ranges, whole);
    }
    cut_above(ranges, whole, end, origin);
    hand_out_parts(ranges, whole, size, tokens);
    return WEIR_OK;
}

/* --- looking --- */

static bool show(const struct range_region *region, struct range *range, weir_range_visitor visit, void *ctx)
{
    const bool taken = !range_is_free(range);
    const weir_range_info info = {
        .region_address = region->address,
        .region_size = region->size,
        .address = range->record.address,
        .size = range->record.size,
        .taken = taken,
        .lane = taken ? WEIR_LANE_OPEN : range_lane(range),
        .tick = taken ? 0 : range->record.as.free.tick,
        .token = taken ? range : NULL,
        .set_apart = range_is_slot(range),
    };
    return visit(ctx, &info);
}

void weir_ranges_walk(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct ranges *ranges = state;
    for (struct range_region *region = ranges->first_region; region != NULL; region = region->next) {
        for (struct range *range = region->border.next; range != &region->border; range = range->next) {
            if (!show(region, range, visit, ctx)) {
                return;
            }
        }
    }
}

/* A walk visits each run of free neighbours once, at its lowest leader. Leaders are the unmapped ranges if `holes`,
 * else the mapped ranges in the bin of `least` bytes or in a larger bin. */
static bool leads(const struct range *range, bool holes, uint64_t least)
{
    return is_hole(range) == holes && (holes || range_bin_of(range->record.size) >= range_bin_of(least));
}

/* Returns the lowest range of the run of free neighbours around `leader` (see leads). Returns NULL if the run has a
 * lower leader, or fewer than `least` bytes. */
static inline struct range *run_of(struct range *leader, bool holes, uint64_t least)
{
    struct range *first = leader;
    uint64_t bytes = leader->record.size;
    while (range_is_free(first->prev)) {
        first = first->prev;
        if (leads(first, holes, least)) {
            return NULL;
        }
        bytes += first->record.size;
    }
    for (const struct range *next = leader->next; bytes < least && range_is_free(next); next = next->next) {
        bytes += next->record.size;
    }
    return bytes >= least ? first : NULL;
}

/* Visits the run of free neighbours that begins with `range`. Returns false if the visitor ended the walk. */
static bool show_run(const struct ranges *ranges, struct range *range, weir_range_visitor visit, void *ctx)
{
    const struct range_region *region = region_at(ranges, range->record.address);
    for (; range_is_free(range); range = range->next) {
        if (!show(region, range, visit, ctx)) {
            return false;
        }
    }
    return true;
}

/* Visits runs of at least `least` bytes with a leader (see leads) in `bins`. Returns false if the visitor ended it. */
static bool show_set(const struct ranges *ranges, const struct range_bins *bins, bool holes, uint64_t least,
                     weir_range_visitor visit, void *ctx)
{
    unsigned bin = holes || bins == NULL ? 0 : range_bin_of(least) & bins->spread;
    for (; bins != NULL && (bin = next_bin(bins, bin)) < RANGE_BINS; bin++) {
        for (struct range *range = first_in_bin(bins, bin); range != NULL; range = next_in_bin(bins, range)) {
            struct range *first = leads(range, holes, least) ? run_of(range, holes, least) : NULL;
            if (first != NULL && !show_run(ranges, first, visit, ctx)) {
                return false;
            }
        }
    }
    return true;
}

void weir_ranges_walk_holes(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    const struct ranges *ranges = state;
    bool more = ranges->bins != NULL;
    for (int kind = 0; kind < RANGE_KINDS && more; kind++) {
        more =
            show_set(ranges, bins_of_lane(ranges, WEIR_LANE_UNMAPPED, (enum range_kind)kind), true, least, visit, ctx);
    }
}

void weir_ranges_walk_free(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    const struct ranges *ranges = state;
    size_t left = ranges->sets_held[RANGE_SMALL] + ranges->sets_held[RANGE_LARGE];
    bool more = true;
    for (size_t set = RANGE_KINDS; left > 0 && more; set++) {
        const struct range_bins *bins = ranges->bins[set];
        if (bins != NULL && bins->count != 0) {
            const uint64_t from = least_of_range(ranges, (enum range_kind)(set % RANGE_KINDS), least);
            more = show_set(ranges, bins, false, from, visit, ctx);
            left--;
        }
    }
}

static void *taken_beside(struct range *range)
{
    struct range *const beside[] = {range->prev, range->next};
    for (int i = 0; i < 2; i++) {
        if (!range_is_free(beside[i]) && range_state(beside[i]) != RANGE_BORDER) {
            return beside[i];
        }
    }
    return NULL;
}

bool weir__ranges_show_large(struct range *range, weir_range_visitor visit, void *ctx)
{
    const struct range_region *region = range_spans_region(range) ? range_region_of(range->next) : NULL;
    const weir_range_info info = {
        .region_address = region != NULL ? region->address : 0,
        .region_size = region != NULL ? region->size : 0,
        .address = range->record.address,
        .size = range->record.size,
        .lane = range_lane(range),
        .tick = range->record.as.free.tick,
        .token = taken_beside(range),
        .set_apart = range_is_slot(range),
    };
    return visit(ctx, &info);
}

/* Returns the last bin at or below `bin` that is not empty, or RANGE_BINS if there is none. */
static unsigned last_bin(const struct range_bins *bins, unsigned bin)
{
    unsigned word = bin / 64;
    uint64_t held = bins->held[word] & UINT64_MAX >> (63 - bin % 64);
    while (held == 0 && word > 0) {
        held = bins->held[--word];
    }
    return held != 0 ? word * 64 + 63 - (unsigned)__builtin_clzll(held) : RANGE_BINS;
}

/* Returns the highest bin below `bin` that is the bin of a range's size, or RANGE_BINS if there is none. */
static unsigned bin_below(const struct range_bins *bins, unsigned bin)
{
    WEIR_ASSERT(bin > 0);
    if (bins->spread != 0) {
        return last_bin(bins, bin - 1);
    }
    unsigned highest = 0;
    for (const struct range *range = first_in_bin(bins, 0); range != NULL; range = next_in_bin(bins, range)) {
        const unsigned own = range_bin_of(range->record.size);
        highest = own < bin && own > highest ? own : highest;
    }
    return highest != 0 ? highest : RANGE_BINS;
}

void weir_ranges_walk_large(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    const struct ranges *ranges = state;
    size_t left = ranges->sets_held[RANGE_SMALL] + ranges->sets_held[RANGE_LARGE];
    const unsigned lowest = range_bin_of(least);
    for (size_t set = RANGE_KINDS; left > 0; set++) {
        const struct range_bins *bins = ranges->bins[set];
        if (bins == NULL || bins->count == 0) {
            continue;
        }
        left--;
        unsigned bin = RANGE_BINS;
        while (bin > lowest && (bin = bin_below(bins, bin)) != RANGE_BINS && bin >= lowest) {
            struct range *range = first_in_bin(bins, bin & bins->spread);
            for (; range != NULL; range = next_in_bin(bins, range)) {
                if (range_bin_of(range->record.size) == bin && range->record.size >= least &&
                    !weir__ranges_show_large(range, visit, ctx)) {
                    return;
                }
            }
        }
    }
}

static void add_set(const struct range_bins *bins, weir_lane_stats *stats)
{
    for (unsigned bin = 0; bins != NULL && (bin = next_bin(bins, bin)) < RANGE_BINS; bin++) {
        for (const struct range *range = first_in_bin(bins, bin); range != NULL; range = next_in_bin(bins, range)) {
            stats->ranges++;
            stats->bytes += range->record.size;
        }
    }
}

void weir_ranges_lane_stats(const void *state, weir_lane lane, weir_lane_stats *stats)
{
    const struct ranges *ranges = state;
    *stats = (weir_lane_stats)WEIR_LANE_STATS_INIT;
    for (int kind = 0; kind < RANGE_KINDS && (size_t)(lane + 1) <= ranges->lane_count && ranges->bins != NULL; kind++) {
        const struct range_bins *bins = bins_of_lane(ranges, lane, (enum range_kind)kind);
        const uint64_t largest = largest_of(bins);
        add_set(bins, stats);
        stats->largest_bytes = largest > stats->largest_bytes ? largest : stats->largest_bytes;
    }
}

void weir_ranges_stats(const void *state, weir_strategy_stats *stats)
{
    const struct ranges *ranges = state;
    weir_lane_stats holes;
    weir_ranges_lane_stats(ranges, WEIR_LANE_UNMAPPED, &holes);
    *stats = (weir_strategy_stats)WEIR_STRATEGY_STATS_INIT;
    stats->regions = ranges->regions;
    stats->region_bytes = ranges->region_bytes;
    stats->taken_ranges = ranges->taken_ranges;
    stats->taken_bytes = ranges->taken_bytes;
    stats->free_ranges = ranges->free_slots;
    stats->free_bytes = ranges->region_bytes - ranges->taken_bytes - holes.bytes;
    for (size_t set = RANGE_KINDS; ranges->bins != NULL && set < (ranges->lane_count + 1) * RANGE_KINDS; set++) {
        const struct range_bins *bins = ranges->bins[set];
        const uint64_t largest = largest_of(bins);
        stats->free_ranges += bins != NULL ? bins->count : 0;
        stats->largest_free_bytes = largest > stats->largest_free_bytes ? largest : stats->largest_free_bytes;
    }
}

/* --- check --- */

#define REQUIRE(condition, sentence)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return (sentence);                                                                                         \
        }                                                                                                              \
    } while (0)

struct totals {
    uint64_t regions;
    uint64_t idle;
    uint64_t bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges;
    uint64_t slots;
    uint64_t binned;
};

static const char *check_range(const struct ranges *ranges, const struct range *range)
{
    REQUIRE(range->record.size > 0 && range->record.size % RANGE_GRANULE == 0,
            "a range is empty or no multiple of the granule");
    REQUIRE(range->next->prev == range && range->prev->next == range, "a neighbour link does not lead back");
    REQUIRE(range_state(range->next) == RANGE_BORDER ||
                range->next->record.address == range->record.address + range->record.size,
            "ranges of a region leave a gap or overlap");
    REQUIRE(range_state(range->next) == RANGE_BORDER || range_kind(range->next) == range_kind(range),
            "ranges of a region are of two kinds");
    if (!range_is_free(range)) {
        return NULL;
    }
    REQUIRE((size_t)range_lane(range) + 1 <= ranges->lane_count || range_lane(range) == WEIR_LANE_UNMAPPED,
            "a free range is in a lane that does not exist");
    REQUIRE(!range_is_slot(range) || range_lane(range) != WEIR_LANE_UNMAPPED, "a slot has no memory");
    if (range_is_slot(range)) {
        return NULL;
    }
    REQUIRE(range_state(range->next) != range_state(range), "two free neighbours of one lane have not merged");
    REQUIRE(range_free_state(range_lane(range), range_kind(range)) == range_state(range),
            "a free range is in bins of another kind");
    return NULL;
}

static const char *check_region(const struct ranges *ranges, const struct range_region *region, struct totals *totals)
{
    uint64_t end = region->address;
    REQUIRE(range_state(&region->border) == RANGE_BORDER && region->border.next->prev == &region->border,
            "a region's first range has a lower neighbour");
    for (const struct range *range = region->border.next; range != &region->border; range = range->next) {
        const char *broken = check_range(ranges, range);
        REQUIRE(broken == NULL, broken);
        REQUIRE(range->record.address == end, "a range lies outside its region");
        end += range->record.size;
        const bool taken = !range_is_free(range);
        totals->taken_ranges += taken;
        totals->taken_bytes += taken ? range->record.size : 0;
        totals->free_ranges += !taken;
        totals->slots += range_is_slot(range);
        totals->idle += !taken && !range_is_slot(range) && range_spans_region(range);
    }
    REQUIRE(end == region->address + region->size, "ranges do not fill their region");
    totals->regions++;
    totals->bytes += region->size;
    return NULL;
}

static const char *check_bins(const struct range_bins *bins, uint32_t state, struct totals *totals)
{
    const uint64_t others = totals->binned;
    for (unsigned bin = 0; (bin = next_bin(bins, bin)) < RANGE_BINS; bin++) {
        void *const *link = &bins->heads[bin];
        REQUIRE(*link != &bins->end, "a bin and its bit do not agree"); /* a missing bit changes the sum */
        for (const struct range *range = *link; range != NULL; range = next_in_bin(bins, range)) {
            REQUIRE(range_state(range) == state && (range_bin_of(range->record.size) & bins->spread) == bin,
                    "a bin lists a range that does not belong there");
            REQUIRE(range->record.as.free.prev == (void *)link, "a bin's list does not lead back");
            REQUIRE(range->record.as.free.tick >= bins->oldest, "a range is older than its lane says");
            link = &range->record.as.free.next;
            totals->binned++;
        }
    }
    REQUIRE(totals->binned - others == bins->count, "the ranges of a set of bins do not add up");
    REQUIRE((bins->oldest == WEIR_TICK_MAX) == (bins->count == 0), "a lane without ranges has an oldest tick");
    REQUIRE((bins->spread == 0) == (bins->heads == &bins->few), "bins are spread without heads");
    return NULL;
}

static const char *check_sets(const struct ranges *ranges, struct totals *totals)
{
    size_t held[RANGE_KINDS] = {0};
    for (size_t set = 0; ranges->bins != NULL && set < (ranges->lane_count + 1) * RANGE_KINDS; set++) {
        const struct range_bins *bins = ranges->bins[set];
        const char *broken = bins != NULL ? check_bins(bins, (uint32_t)set, totals) : NULL;
        REQUIRE(broken == NULL, broken);
        held[set & 1u] += set > 1 && bins != NULL && bins->count != 0;
    }
    REQUIRE(held[RANGE_SMALL] == ranges->sets_held[RANGE_SMALL] && held[RANGE_LARGE] == ranges->sets_held[RANGE_LARGE],
            "the sets of bins in use do not add up");
    return NULL;
}

const char *weir__ranges_broken(const struct ranges *ranges)
{
    struct totals totals = {0};
    for (const struct range_region *region = ranges->first_region; region != NULL; region = region->next) {
        const char *broken = check_region(ranges, region, &totals);
        REQUIRE(broken == NULL, broken);
    }
    for (const struct range_region *region = first_idle(ranges); region != NULL; region = next_idle(ranges, region)) {
        REQUIRE(range_spans_region(region->border.next) && range_is_free(region->border.next) && totals.idle > 0,
                "a region counts as idle and is not");
        const struct range *next = region->border.record.as.free.next;
        REQUIRE(next->record.as.free.prev == &region->border, "idle regions are badly linked");
        totals.idle--;
    }
    REQUIRE(totals.idle == 0, "an idle region is not listed");
    const char *broken = check_sets(ranges, &totals);
    REQUIRE(broken == NULL, broken);
    REQUIRE(totals.binned + totals.slots == totals.free_ranges, "a free range is not where the bins look for it");
    REQUIRE(totals.slots == ranges->free_slots, "the free slots do not add up");
    REQUIRE(totals.regions == ranges->regions && totals.bytes == ranges->region_bytes,
            "the region counters do not add up");
    REQUIRE(totals.taken_ranges == ranges->taken_ranges && totals.taken_bytes == ranges->taken_bytes,
            "the taken counters do not add up");
    return NULL;
}

weir_status weir_ranges_check(const void *state, const char **why)
{
    const char *broken = weir__ranges_broken(state);
    if (broken != NULL && why != NULL) {
        *why = broken;
    }
    return broken == NULL ? WEIR_OK : WEIR_ERR_INTERNAL;
}

/* --- public functions with which a strategy chooses ranges --- */

bool weir_ranges_gather(void *state, unsigned kind, weir_lane lane, weir_tick tick, const weir_tick *limits,
                        size_t lanes, uint64_t size, uint64_t align, uint64_t unit, bool last_resort)
{
    struct ranges *ranges = state;
    const struct range_wish wish = {
        .lane = lane,
        .tick = tick,
        .limits = limits,
        .lanes = lanes,
        .bytes = range_round_up(size, RANGE_GRANULE),
        .align = align,
        .unit = unit,
    };
    const enum range_kind other = kind == RANGE_SMALL ? RANGE_LARGE : RANGE_SMALL;
    return weir__ranges_gather_for_alloc(ranges, (enum range_kind)kind, &wish, last_resort) ||
           (last_resort && weir__ranges_gather_for_alloc(ranges, other, &wish, true));
}

weir_record *weir_ranges_find(void *state, unsigned kind, weir_lane lane, weir_tick limit, uint64_t size,
                              uint64_t align, uint64_t least)
{
    struct ranges *ranges = state;
    const uint64_t bytes = range_round_up(size, RANGE_GRANULE);
    struct range *range = weir__ranges_take_gathered(ranges, lane, limit, bytes, align);
    range = range != NULL ? range : weir__ranges_find(ranges, (enum range_kind)kind, lane, limit, bytes, align, least);
    return range != NULL ? &range->record : NULL;
}

weir_record *weir_ranges_next(const void *state, const weir_record *record)
{
    const struct ranges *ranges = state;
    struct range_region *region = ranges->first_region;
    if (record != NULL) {
        struct range *next = ((const struct range *)record)->next;
        if (range_state(next) != RANGE_BORDER) {
            return &next->record;
        }
        region = range_region_of(next)->next;
    }
    return region != NULL ? &region->border.next->record : NULL;
}

bool weir_ranges_serves(const weir_record *record, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align)
{
    const struct range *range = (const struct range *)record;
    return range_state(range) == range_free_state(lane, range_kind(range)) &&
           fits(range, range_round_up(size, RANGE_GRANULE), align, limit);
}

uint64_t weir_ranges_place(const void *state, const weir_record *record, uint64_t align, uint64_t unit)
{
    const struct range_region *region = region_at(state, record->address);
    WEIR_ASSERT(region != NULL);
    return place(region->address, record->address, align, unit);
}

weir_status weir_ranges_take(void *state, weir_record *record, uint64_t size, uint64_t align, weir_ranges_end end,
                             weir_range *out)
{
    WEIR_ASSERT(range_is_free((const struct range *)record));
    struct ranges *ranges = state;
    ranges->gathered = NULL;
    struct range *range = weir__ranges_cut(ranges, (struct range *)record, range_round_up(size, RANGE_GRANULE), align,
                                           end == WEIR_RANGES_HIGH);
    if (range == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    hand_out(ranges, range, range->record.size, out);
    return WEIR_OK;
}

weir_status weir_ranges_take_at(void *state, weir_record *record, uint64_t address, uint64_t size, weir_range *out)
{
    struct ranges *ranges = state;
    ranges->gathered = NULL;
    struct range *range = cut_at(ranges, (struct range *)record, address, range_round_up(size, RANGE_GRANULE));
    if (range == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    hand_out(ranges, range, range->record.size, out);
    return WEIR_OK;
}
