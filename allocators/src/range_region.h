/* allocators/src/range_region.h: a region as the strategies keep it. */
#ifndef WEIR_ALLOCATORS_RANGE_REGION_H
#define WEIR_ALLOCATORS_RANGE_REGION_H

#include "range_index.h"

/* free_bytes equals the sum of its free ranges; first .. next .. NULL tile [address, address + size). */
struct range_region {
    uint64_t address;
    uint64_t size;
    uint64_t serial; /* order of arrival: settles ties without absolute addresses */
    uint64_t free_bytes;
    struct range *first;
    struct range_region *prev;
    struct range_region *next;
    struct range_region *idle_prev; /* in the list of regions that are wholly free, in use while it is */
    struct range_region *idle_next;
    unsigned kind;
};

#endif
