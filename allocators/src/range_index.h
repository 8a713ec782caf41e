/* allocators/src/range_index.h: free and taken ranges of regions, and an index of free ranges by size.
 *
 * Idea: two levels of bitmaps over size bins (the shape of TLSF), every record outside the memory it describes. Bins
 * are exact up to 31 granules and 1/32 of a doubling wide above, so every range of a bin above a request's own fits.
 *
 *     row 0          1 .. 31 granules, one bin each
 *     row r >= 1     [2^(r+4), 2^(r+5)) granules in 32 equal bins
 *     rows           one bit per row with a range in it          (first level)
 *     bins[r]        one bit per bin of row r with a range in it (second level)
 *
 * Cost: insert and remove are constant. Search usually decides in the first or second bin, of which it looks at a bounded
 * number of ranges: at many while there are few ranges altogether, so that it is exactly best fit, at few when there are
 * many, where those of a bin are nearly equal and each look is a cache miss. Only a search that is about to refuse
 * reads on, so a refusal means that nothing fits.
 */
#ifndef WEIR_ALLOCATORS_RANGE_INDEX_H
#define WEIR_ALLOCATORS_RANGE_INDEX_H

#include <weir/strategy.h>

#define RANGE_GRANULE_SHIFT 9u
#define RANGE_GRANULE (UINT64_C(1) << RANGE_GRANULE_SHIFT)
#define RANGE_INDEX_ROWS 40u
#define RANGE_INDEX_COLUMNS 32u

struct range_region;
struct slab;

/* A piece of a region. Neighbours by address are linked whether free or taken; bin and age links are in use only
 * while the range is free. A slot of a slab (see runs.h) is in no bin: it knows its slab there, free or taken. */
struct range {
    uint64_t address;
    uint64_t size;
    struct range *prev;
    struct range *next;
    union {
        struct {
            struct range *bin_prev;
            struct range *bin_next;
        };
        struct {
            struct slab *slab;
            uint64_t slot; /* its number there */
        };
    };
    struct range *older; /* the lane's free ranges in order of their ticks */
    struct range *newer;
    weir_tick tick;
    struct range_region *region;
    weir_lane lane;
    bool taken;
    bool in_slab;
};

/* Records come from chunks that live until the store ends; a free list makes reuse constant. */
struct range_store {
    struct range *unused;
    struct range_chunk *chunks;
    size_t per_chunk;
};

struct range_index {
    uint64_t ranges;
    uint64_t rows;
    uint32_t bins[RANGE_INDEX_ROWS];
    struct range *heads[RANGE_INDEX_ROWS][RANGE_INDEX_COLUMNS];
};

void weir__range_store_fini(struct range_store *store);
/* A record of whatever contents, NULL when there is no host memory. */
struct range *weir__range_new(struct range_store *store);
void weir__range_delete(struct range_store *store, struct range *range);

/* Best fit among ranges with a tick at or below `limit` that hold `size` bytes at a multiple of `align`; NULL when
 * there is none. Of equals the one in the older region, then at the lower offset. */
struct range *weir__range_index_find(const struct range_index *index, uint64_t size, uint64_t align, weir_tick limit);
/* Bytes of the largest range. Reads one bin. */
uint64_t weir__range_index_largest(const struct range_index *index);
/* Whether `range` is in the bin where it belongs. For checks. */
bool weir__range_index_holds(const struct range_index *index, const struct range *range);

/* --- inline: every alloc and free goes through these --- */

struct range_bin {
    unsigned row;
    unsigned column;
};

static inline struct range_bin range_bin_of(uint64_t size)
{
    const uint64_t granules = size >> RANGE_GRANULE_SHIFT;
    if (granules < RANGE_INDEX_COLUMNS) {
        return (struct range_bin){ 0, (unsigned)granules };
    }
    const unsigned top = 63u - (unsigned)__builtin_clzll(granules);
    return (struct range_bin){ top - 4u, (unsigned)(granules >> (top - 5u)) & (RANGE_INDEX_COLUMNS - 1u) };
}

static inline void range_bin_insert(struct range_index *index, struct range *range, struct range_bin bin)
{
    struct range **head = &index->heads[bin.row][bin.column];
    index->ranges++;
    range->bin_prev = NULL;
    range->bin_next = *head;
    if (*head != NULL) {
        (*head)->bin_prev = range;
    }
    *head = range;
    index->bins[bin.row] |= 1u << bin.column;
    index->rows |= UINT64_C(1) << bin.row;
}

static inline void range_bin_remove(struct range_index *index, struct range *range, struct range_bin bin)
{
    index->ranges--;
    if (range->bin_next != NULL) {
        range->bin_next->bin_prev = range->bin_prev;
    }
    if (range->bin_prev != NULL) {
        range->bin_prev->bin_next = range->bin_next;
        return;
    }
    index->heads[bin.row][bin.column] = range->bin_next;
    if (range->bin_next == NULL) {
        index->bins[bin.row] &= ~(1u << bin.column);
        if (index->bins[bin.row] == 0) {
            index->rows &= ~(UINT64_C(1) << bin.row);
        }
    }
}

static inline void range_index_insert(struct range_index *index, struct range *range)
{
    range_bin_insert(index, range, range_bin_of(range->size));
}

static inline void range_index_remove(struct range_index *index, struct range *range)
{
    range_bin_remove(index, range, range_bin_of(range->size));
}

/* The range is in the index and has changed its size. */
static inline void range_index_resized(struct range_index *index, struct range *range, uint64_t size_before)
{
    const struct range_bin from = range_bin_of(size_before);
    const struct range_bin to = range_bin_of(range->size);
    if (from.row != to.row || from.column != to.column) {
        range_bin_remove(index, range, from);
        range_bin_insert(index, range, to);
    }
}

/* Bytes from the start of the range to its first multiple of `align`. */
static inline uint64_t range_padding(const struct range *range, uint64_t align)
{
    return (align - (range->address & (align - 1))) & (align - 1);
}

#endif
