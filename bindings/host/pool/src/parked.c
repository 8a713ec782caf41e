/* parked.c: see parked.h. */
#include "parked.h"

#include "shared/assert.h"

#include <stdlib.h>

enum { FIRST_RANGES = 64 };

static bool make_room(weir__parked *parked)
{
    if (parked->count < parked->capacity) {
        return true;
    }
    const size_t capacity = parked->capacity != 0 ? 2 * parked->capacity : FIRST_RANGES;
    weir__parked_range *ranges = realloc(parked->ranges, capacity * sizeof(*ranges));
    if (ranges != NULL) {
        parked->ranges = ranges;
        parked->capacity = capacity;
    }
    return ranges != NULL;
}

bool weir__parked_add(weir__parked *parked, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0);
    WEIR_ASSERT_THOROUGH(weir__parked_above(parked, address, address + size) == address + size);
    weir__parked_range *last = parked->count > 0 ? &parked->ranges[parked->count - 1] : NULL;
    if (last != NULL && last->address + last->size == address) {
        last->size += size;
    } else if (make_room(parked)) {
        parked->ranges[parked->count++] = (weir__parked_range){address, size};
    } else {
        return false;
    }
    parked->bytes += size;
    return true;
}

/* Returns the index of the parked range that contains the address, or parked->count. */
static size_t range_at(const weir__parked *parked, uint64_t address)
{
    size_t i = parked->count;
    while (i-- > 0) {
        if (address - parked->ranges[i].address < parked->ranges[i].size) {
            return i;
        }
    }
    return parked->count;
}

bool weir__parked_remove(weir__parked *parked, uint64_t address, uint64_t size)
{
    WEIR_ASSERT(size != 0 && size <= parked->bytes);
    const size_t i = range_at(parked, address);
    const uint64_t below = i < parked->count ? address - parked->ranges[i].address : 0;
    if (i == parked->count || size > parked->ranges[i].size - below) {
        return false;
    }
    const uint64_t above = parked->ranges[i].size - below - size;
    if (above != 0 && below != 0 && !make_room(parked)) {
        return false;
    }
    weir__parked_range *range = &parked->ranges[i];
    range->size = below;
    if (above != 0 && below != 0) {
        parked->ranges[parked->count++] = (weir__parked_range){address + size, above};
    } else if (above != 0) {
        *range = (weir__parked_range){address + size, above};
    } else if (below == 0) {
        *range = parked->ranges[--parked->count];
    }
    parked->bytes -= size;
    return true;
}

uint64_t weir__parked_above(const weir__parked *parked, uint64_t from, uint64_t to)
{
    WEIR_ASSERT(from <= to);
    for (size_t i = 0; i < parked->count; i++) {
        const weir__parked_range *range = &parked->ranges[i];
        if (range->address < to && range->address + range->size > from) {
            to = range->address > from ? range->address : from;
        }
    }
    return to;
}

bool weir__parked_has(const weir__parked *parked, uint64_t address)
{
    return range_at(parked, address) != parked->count;
}

void weir__parked_fini(weir__parked *parked)
{
    free(parked->ranges);
    *parked = (weir__parked){0};
}
