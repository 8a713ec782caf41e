/* driver_cache.h: the memory that the vendor's user-space driver keeps for its process after aclrtFree. The lock is
 * held.
 */
#ifndef WEIR_ASCENDCL_DRIVER_CACHE_H
#define WEIR_ASCENDCL_DRIVER_CACHE_H

#include "memory/memory.h"

typedef struct acl__driver_piece acl__driver_piece;

/* Returns the most bytes that the driver maps for an allocation. */
uint64_t acl__driver_most(uint64_t size);
/* Takes memory for an allocation of whole pages of a device, which has `room` bytes of free memory. Stores how many of
 * these bytes the driver maps; the remaining ones it had kept. Returns NULL if the room is too small, or when out of
 * host memory. */
acl__driver_piece *acl__driver_take(int32_t device, acl__kind kind, uint64_t size, uint64_t room, uint64_t *mapped);
/* True if the driver may keep the memory of an allocation after its end. */
bool acl__driver_keeps(const acl__driver_piece *piece);
/* Ends an allocation. Returns the bytes that the driver gives back to the device; it keeps the remaining ones. */
uint64_t acl__driver_give(acl__driver_piece *piece);
/* Ends the driver's use of a device for one kind of pages. Returns the bytes that it gives back: all that no
 * allocation shares a mapping with. */
uint64_t acl__driver_return(int32_t device, acl__kind kind);

#endif
