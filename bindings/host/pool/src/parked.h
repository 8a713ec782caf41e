/* parked.h: pages of unmapped granules, which stay at their addresses until a mapping needs pages.
 *
 * A pool that moves memory unmaps all victims and then maps all holes. The pages of the victims are parked in between.
 * Adjacent granules form one range, so that one call can move many of them. Ranges do not overlap and are in no order;
 * the last one is used first.
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
/* Removes a part of a range. Returns false if the part is not parked as a whole, or without host memory. Removing a
 * part at one end of a range needs no host memory. */
bool weir__parked_remove(weir__parked *parked, uint64_t address, uint64_t size);
/* Returns the first parked address in [from, to), or `to`. */
uint64_t weir__parked_above(const weir__parked *parked, uint64_t from, uint64_t to);
/* True if the address is parked. */
bool weir__parked_has(const weir__parked *parked, uint64_t address);
void weir__parked_fini(weir__parked *parked);

#endif
