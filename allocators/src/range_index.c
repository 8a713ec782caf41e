/* allocators/src/range_index.c: see range_index.h for the idea, the guarantee and the cost. */
#include "range_index.h"

#include <stdlib.h>

/* A region numbers itself so that ties are settled without comparing absolute addresses. */
#include "range_region.h"

struct range_chunk {
    struct range_chunk *next;
    struct range ranges[];
};

enum {
    first_chunk_ranges = 64,
    largest_chunk_ranges = 8192,
    few_ranges = 2048,    /* of an index: up to here a search looks at */
    looks_among_few = 64, /* so many of a bin, */
    looks_among_many = 4, /* and above at so many */
};

void weir__range_store_fini(struct range_store *store)
{
    struct range_chunk *chunk = store->chunks;
    while (chunk != NULL) {
        struct range_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    *store = (struct range_store){ 0 };
}

static bool grow_store(struct range_store *store)
{
    size_t count = store->per_chunk == 0 ? first_chunk_ranges : store->per_chunk;
    struct range_chunk *chunk = malloc(sizeof(*chunk) + count * sizeof(chunk->ranges[0]));
    if (chunk == NULL) {
        return false;
    }
    chunk->next = store->chunks;
    store->chunks = chunk;
    store->per_chunk = count < largest_chunk_ranges ? count * 2 : count;
    for (size_t i = count; i-- > 0;) {
        chunk->ranges[i].next = store->unused;
        store->unused = &chunk->ranges[i];
    }
    return true;
}

struct range *weir__range_new(struct range_store *store)
{
    if (store->unused == NULL && !grow_store(store)) {
        return NULL;
    }
    struct range *range = store->unused;
    store->unused = range->next;
    return range;
}

void weir__range_delete(struct range_store *store, struct range *range)
{
    range->next = store->unused;
    store->unused = range;
}

/* The next non-empty bin at or above `bin`; false when there is none. */
static bool next_bin(const struct range_index *index, struct range_bin *bin)
{
    if (bin->row >= RANGE_INDEX_ROWS) {
        return false;
    }
    if (bin->column < RANGE_INDEX_COLUMNS) {
        uint32_t columns = index->bins[bin->row] & (UINT32_MAX << bin->column);
        if (columns != 0) {
            bin->column = (unsigned)__builtin_ctz(columns);
            return true;
        }
    }
    uint64_t rows = index->rows & ~((UINT64_C(2) << bin->row) - 1u);
    if (rows == 0) {
        return false;
    }
    bin->row = (unsigned)__builtin_ctzll(rows);
    bin->column = (unsigned)__builtin_ctz(index->bins[bin->row]);
    return true;
}

static bool fits(const struct range *range, uint64_t size, uint64_t align, weir_tick limit)
{
    uint64_t padding = range_padding(range, align);
    return range->tick <= limit && range->size >= size && range->size - size >= padding;
}

static bool better(const struct range *range, const struct range *best)
{
    if (best == NULL || range->size != best->size) {
        return best == NULL || range->size < best->size;
    }
    if (range->region != best->region) {
        return range->region->serial < best->region->serial;
    }
    return range->address < best->address;
}

/* The best of the first `most` ranges of a list. */
static struct range *best_of(struct range *list, size_t most, uint64_t size, uint64_t align, weir_tick limit)
{
    struct range *best = NULL;
    for (struct range *range = list; range != NULL && most > 0; range = range->bin_next, most--) {
        if (fits(range, size, align, limit) && better(range, best)) {
            best = range;
        }
    }
    return best;
}

/* The same where nothing but the size matters. */
static struct range *best_by_size(struct range *list, size_t most, uint64_t size)
{
    struct range *best = NULL;
    for (struct range *range = list; range != NULL && most > 0; range = range->bin_next, most--) {
        if (range->size >= size && better(range, best)) {
            best = range;
        }
    }
    return best;
}

/* Usually the first or second bin decides. Ticks above the limit and large alignments can make a bin useless, so the
 * search goes on upwards. What the bounded looks left out is read before refusing, except under a tick limit: there
 * gather searches completely. */
struct range *weir__range_index_find(const struct range_index *index, uint64_t size, uint64_t align, weir_tick limit)
{
    const struct range_bin own = range_bin_of(size);
    const bool plain = align <= RANGE_GRANULE && limit == WEIR_TICK_MAX;
    const size_t most = index->ranges <= few_ranges ? looks_among_few : looks_among_many;
    bool cut = false;
    struct range_bin bin = own;
    while (next_bin(index, &bin)) {
        struct range *list = index->heads[bin.row][bin.column];
        struct range *best = plain ? best_by_size(list, most, size) : best_of(list, most, size, align, limit);
        if (best != NULL) {
            return best;
        }
        cut = true;
        bin.column++;
    }
    if (!cut || limit != WEIR_TICK_MAX) {
        return NULL;
    }
    bin = own;
    while (next_bin(index, &bin)) {
        struct range *best = best_of(index->heads[bin.row][bin.column], SIZE_MAX, size, align, limit);
        if (best != NULL) {
            return best;
        }
        bin.column++;
    }
    return NULL;
}

uint64_t weir__range_index_largest(const struct range_index *index)
{
    if (index->rows == 0) {
        return 0;
    }
    unsigned row = 63u - (unsigned)__builtin_clzll(index->rows);
    unsigned column = 31u - (unsigned)__builtin_clz(index->bins[row]);
    uint64_t largest = 0;
    for (const struct range *range = index->heads[row][column]; range != NULL; range = range->bin_next) {
        largest = range->size > largest ? range->size : largest;
    }
    return largest;
}

bool weir__range_index_holds(const struct range_index *index, const struct range *range)
{
    struct range_bin bin = range_bin_of(range->size);
    bool first = index->heads[bin.row][bin.column] == range;
    bool linked = range->bin_prev == NULL ? first : range->bin_prev->bin_next == range;
    bool marked = (index->bins[bin.row] >> bin.column & 1u) != 0 && (index->rows >> bin.row & 1u) != 0;
    return linked && marked && (range->bin_next == NULL || range->bin_next->bin_prev == range);
}
