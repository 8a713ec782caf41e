/* tlsf.h: a two-level segregated fit allocator over one range of addresses: the plain allocator to compare weir's pools
 * with.
 *
 * Every range of addresses, free or live, has one record of 32 bytes outside of the memory that it describes. Records
 * are linked by 32-bit indices: to both neighbours by address, and, while a range is free, to both neighbours in its
 * bin. Each doubling of the size has 32 bins, and a bitmap of two levels marks the bins that are not empty.
 *
 * Guarantee: live ranges do not overlap; two free ranges are never neighbours.
 * Cost: constant. alloc looks at up to TLSF_LOOKS + 1 ranges of the request's own bin and otherwise takes the first
 * range of the next non-empty bin.
 *
 * The allocator has no streams, no regions, no statistics and no locks: a caller with several threads takes a lock
 * around it. All code is in this header so that the compiler can inline it into the caller's loop. */
#ifndef WEIR_BENCHMARKS_TLSF_H
#define WEIR_BENCHMARKS_TLSF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TLSF_GRANULE_BYTES = 512,
    TLSF_STEP_BITS = 5, /* 32 bins to a doubling */
    TLSF_STEPS = 1 << TLSF_STEP_BITS,
    TLSF_BINS = (32 - TLSF_STEP_BITS) * TLSF_STEPS + TLSF_STEPS,
    TLSF_WORDS = TLSF_BINS / 64,
    TLSF_LOOKS = 4,
    /* the record before the first range and behind the last range; marked live, so that no range merges with it */
    TLSF_BORDER = TLSF_BINS,
};

/* The first TLSF_BINS records are the heads of the bins' circular lists. */
struct tlsf_record {
    uint32_t bin_previous;
    uint32_t bin_next; /* also the next unused record */
    uint32_t previous; /* neighbour by address */
    uint32_t next;
    uint32_t first; /* first granule of the range */
    uint32_t granules;
    uint32_t free;
    uint32_t padding;
};

struct tlsf {
    struct tlsf_record *records;
    uint32_t record_room;
    uint32_t records_used; /* records 0 to records_used - 1 have been in use */
    uint32_t unused;       /* first of the records free for reuse; 0: none */
    uint64_t summary;      /* a bit for each word of `bins` that is not zero */
    uint64_t bins[TLSF_WORDS];
};

static inline uint32_t tlsf_bin(uint32_t granules)
{
    const uint32_t doublings = 31u - TLSF_STEP_BITS - (uint32_t)__builtin_clz(granules | TLSF_STEPS);
    return (doublings << TLSF_STEP_BITS) + (granules >> doublings);
}

static inline void tlsf_put(struct tlsf *tlsf, uint32_t range)
{
    struct tlsf_record *records = tlsf->records;
    const uint32_t bin = tlsf_bin(records[range].granules);
    const uint32_t second = records[bin].bin_next;
    records[range].bin_previous = bin;
    records[range].bin_next = second;
    records[range].free = 1;
    records[second].bin_previous = range;
    records[bin].bin_next = range;
    tlsf->bins[bin / 64] |= UINT64_C(1) << (bin % 64);
    tlsf->summary |= UINT64_C(1) << (bin / 64);
}

static inline void tlsf_take(struct tlsf *tlsf, uint32_t range)
{
    struct tlsf_record *records = tlsf->records;
    const uint32_t bin = tlsf_bin(records[range].granules);
    const uint32_t before = records[range].bin_previous;
    const uint32_t after = records[range].bin_next;
    records[before].bin_next = after;
    records[after].bin_previous = before;
    records[range].free = 0;
    /* Clears the bit of the bin (size class) if its list is now empty: then the removed range had the list's head on
     * both sides. The code avoids branches, because the processor would often mispredict them. */
    const uint64_t word = tlsf->bins[bin / 64] & ~((uint64_t)(before == after) << (bin % 64));
    tlsf->bins[bin / 64] = word;
    tlsf->summary &= ~((uint64_t)(word == 0) << (bin / 64));
}

/* Returns the index of a free range record; 0 if all records are in use. */
static inline uint32_t tlsf_record_new(struct tlsf *tlsf)
{
    const uint32_t record = tlsf->unused;
    if (record != 0) {
        tlsf->unused = tlsf->records[record].bin_next;
        return record;
    }
    return tlsf->records_used < tlsf->record_room ? tlsf->records_used++ : 0;
}

static inline void tlsf_record_return(struct tlsf *tlsf, uint32_t record)
{
    tlsf->records[record].bin_next = tlsf->unused;
    tlsf->unused = record;
}

/* Manages `bytes` from address 0 on, at most 2 TiB less a granule, with room for `ranges` live and free ranges. Returns
 * false when out of host memory. Records take memory when they are first used. */
static inline bool tlsf_open(struct tlsf *tlsf, uint64_t bytes, uint32_t ranges)
{
    (void)memset(tlsf, 0, sizeof(*tlsf));
    tlsf->record_room = TLSF_BORDER + 1 + ranges;
    tlsf->records = (struct tlsf_record *)calloc(tlsf->record_room, sizeof(*tlsf->records));
    if (tlsf->records == NULL) {
        return false;
    }
    for (uint32_t bin = 0; bin < TLSF_BINS; bin++) {
        tlsf->records[bin].bin_previous = bin;
        tlsf->records[bin].bin_next = bin;
    }
    const uint32_t whole = TLSF_BORDER + 1;
    tlsf->records_used = whole + 1;
    tlsf->records[TLSF_BORDER].next = whole;
    tlsf->records[TLSF_BORDER].previous = whole;
    tlsf->records[whole].next = TLSF_BORDER;
    tlsf->records[whole].previous = TLSF_BORDER;
    tlsf->records[whole].granules = (uint32_t)(bytes / TLSF_GRANULE_BYTES);
    tlsf_put(tlsf, whole);
    return true;
}

static inline void tlsf_close(struct tlsf *tlsf)
{
    free(tlsf->records);
    tlsf->records = NULL;
}

/* Searches the free list of the request's own size class (bin) for a range that is large enough, but looks at no more
 * than TLSF_LOOKS + 1 ranges. Returns 0 if it finds none. */
static inline uint32_t tlsf_search_own_bin(const struct tlsf *tlsf, uint32_t bin, uint32_t granules)
{
    const struct tlsf_record *records = tlsf->records;
    uint32_t range = records[bin].bin_next;
    for (uint32_t look = 0; look <= TLSF_LOOKS && range != bin; look++) {
        if (records[range].granules >= granules) {
            return range;
        }
        range = records[range].bin_next;
    }
    return 0;
}

/* Returns the first free range of the lowest non-empty bin (size class) above `bin`; 0 if there is none. Each such
 * range is large enough for any request of `bin`. */
static inline uint32_t tlsf_search_above(const struct tlsf *tlsf, uint32_t bin)
{
    uint32_t word = bin / 64;
    uint64_t found = tlsf->bins[word] & (~UINT64_C(1) << (bin % 64));
    if (found == 0) {
        const uint64_t words = tlsf->summary & (~UINT64_C(1) << word);
        if (words == 0) {
            return 0;
        }
        word = (uint32_t)__builtin_ctzll(words);
        found = tlsf->bins[word];
    }
    return tlsf->records[word * 64 + (uint32_t)__builtin_ctzll(found)].bin_next;
}

/* Splits a range after `granules`; the rest becomes a free range. If no record is left for the rest, the range stays
 * whole. */
static inline void tlsf_cut(struct tlsf *tlsf, uint32_t range, uint32_t granules)
{
    struct tlsf_record *records = tlsf->records;
    const uint32_t rest = tlsf_record_new(tlsf);
    if (rest == 0) {
        return;
    }
    const uint32_t next = records[range].next;
    records[rest].first = records[range].first + granules;
    records[rest].granules = records[range].granules - granules;
    records[rest].previous = range;
    records[rest].next = next;
    records[next].previous = rest;
    records[range].next = rest;
    records[range].granules = granules;
    tlsf_put(tlsf, rest);
}

/* Allocates `bytes`, which must be above 0. Returns the record of the range; 0 if no range was found. */
static inline uint32_t tlsf_alloc(struct tlsf *tlsf, uint64_t bytes)
{
    const uint32_t granules = (uint32_t)((bytes + TLSF_GRANULE_BYTES - 1) / TLSF_GRANULE_BYTES);
    const uint32_t bin = tlsf_bin(granules);
    uint32_t range = tlsf_search_own_bin(tlsf, bin, granules);
    if (range == 0) {
        range = tlsf_search_above(tlsf, bin);
    }
    if (range == 0) {
        return 0;
    }
    tlsf_take(tlsf, range);
    if (tlsf->records[range].granules > granules) {
        tlsf_cut(tlsf, range, granules);
    }
    return range;
}

/* Merges the free range `next`, which follows `range`, into `range`. */
static inline void tlsf_join(struct tlsf *tlsf, uint32_t range, uint32_t next)
{
    struct tlsf_record *records = tlsf->records;
    const uint32_t behind = records[next].next;
    records[range].granules += records[next].granules;
    records[range].next = behind;
    records[behind].previous = range;
    tlsf_record_return(tlsf, next);
}

static inline void tlsf_free(struct tlsf *tlsf, uint32_t range)
{
    struct tlsf_record *records = tlsf->records;
    const uint32_t next = records[range].next;
    const uint32_t previous = records[range].previous;
    if (records[next].free) {
        tlsf_take(tlsf, next);
        tlsf_join(tlsf, range, next);
    }
    if (records[previous].free) {
        tlsf_take(tlsf, previous);
        tlsf_join(tlsf, previous, range);
        range = previous;
    }
    tlsf_put(tlsf, range);
}

static inline uint64_t tlsf_address(const struct tlsf *tlsf, uint32_t range)
{
    return (uint64_t)tlsf->records[range].first * TLSF_GRANULE_BYTES;
}

static inline uint64_t tlsf_bytes(const struct tlsf *tlsf, uint32_t range)
{
    return (uint64_t)tlsf->records[range].granules * TLSF_GRANULE_BYTES;
}

#ifdef __cplusplus
}
#endif

#endif
