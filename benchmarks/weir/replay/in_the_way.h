/* in_the_way.h: the live blocks that would have to go to make room for a request, in the memory of a recorded
 * allocator. */
#ifndef WEIR_BENCHMARKS_IN_THE_WAY_H
#define WEIR_BENCHMARKS_IN_THE_WAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A free range or a live block. */
struct span {
    uint64_t start;
    uint64_t end;
    uint64_t run; /* one request may lie in spans of one run, which are neighbours */
    uint32_t tag; /* of a block */
    bool taken;   /* a block */
};

struct in_the_way {
    size_t first; /* the spans first <= i < end hold the request */
    size_t end;
    uint64_t bytes; /* of the blocks in them */
    uint64_t blocks;
};

/* Finds the neighbours that hold `size` bytes and have the fewest bytes of blocks among them. The spans are in address
 * order. Returns false if no run is long enough. */
bool in_the_way_find(const struct span *spans, size_t count, uint64_t size, struct in_the_way *best);

#endif
