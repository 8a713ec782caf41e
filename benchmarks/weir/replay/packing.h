/* packing.h: puts blocks with known lives into one range of addresses, as small as it can (offline dynamic storage
 * allocation, which is NP-hard). */
#ifndef WEIR_BENCHMARKS_PACKING_H
#define WEIR_BENCHMARKS_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block lives from its first moment up to, and without, the moment `to`. Moments count from 0, at most to the number
 * of blocks. */
struct packing_block {
    uint64_t size;      /* above 0 */
    uint64_t alignment; /* a power of two */
    uint64_t offset;    /* the answer: a multiple of the alignment */
    uint32_t from;
    uint32_t to; /* above `from` */
};

struct packing {
    bool found;      /* false: the blocks are too many, and the offsets are not set */
    uint64_t bound;  /* the most bytes that live at one moment: no packing is smaller */
    uint64_t extent; /* bytes from offset 0 to the end of the last block */
};

/* Computes the offsets. Blocks that live at the same moment do not overlap. The same blocks give the same offsets on
 * every machine. Returns false when out of host memory. */
bool packing_find(struct packing_block *blocks, size_t count, struct packing *packing);

#endif
