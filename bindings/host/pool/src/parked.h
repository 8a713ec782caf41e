/* parked.h: a list of parked pages: they stay at addresses that are no longer mapped until a mapping needs pages.
 *
 * A pool that moves memory first unmaps granules (its units of mapping) and then maps granules elsewhere. In between,
 * the pages of the unmapped granules are parked. Adjacent granules form one range, so that one call can move many of
 * them. Ranges do not overlap and are in no order; the last one is used first.
 */
#ifndef WEIR_HOST_PARKED_H
#define WEIR_HOST_PARKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir__parked_range {
    uint64_t address;
    uint64_t size;
} weir__parked_range;

typedef struct weir__parked {
    weir__parked_range *ranges;
    size_t count;
    size_t capacity;
    uint64_t bytes;
} weir__parked;

/* Adds a range. Returns false if there is no host memory. */
bool weir__parked_add(weir__parked *parked, uint64_t address, uint64_t size);
/* Removes `size` bytes from the list. Returns false if they are not all parked in one range, or if there is no host
 * memory; removing a part at one end of a range needs none. */
bool weir__parked_remove(weir__parked *parked, uint64_t address, uint64_t size);
/* Returns the first address in [from, to) with a parked page, or `to`. */
uint64_t weir__parked_above(const weir__parked *parked, uint64_t from, uint64_t to);
/* True if the page at the address is parked. */
bool weir__parked_has(const weir__parked *parked, uint64_t address);
void weir__parked_fini(weir__parked *parked);

#endif
