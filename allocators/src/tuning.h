/* allocators/src/tuning.h: the numbers of the strategies that are judgments: another value would be correct too.
 *
 * Each number stands with its unit, its evidence and its bound. The bound is the range in which the number may change,
 * or what the number limits. Evidence: "recordings" are the 32 traces of core/TRIALS.md, which also describes the other
 * workloads. A number "not tried" has no measurement of other values. All were judged on the same recordings.
 *
 * Not here: numbers that a layout or a promise fixes, such as eight classes per doubling.
 */
#ifndef WEIR_ALLOCATORS_TUNING_H
#define WEIR_ALLOCATORS_TUNING_H

/* --- regions: defaults of the configs --- */

enum {
    /* Bytes of the largest small request. Evidence: those of caching and the sizes of both kinds of regions are those
     * of PyTorch's allocator, so that a program may change over. Bound: caching agrees with large_bytes of
     * core/src/base/tuning.h. */
    caching_small_bytes = 1 << 20,
    size_class_small_bytes = 512 << 10,
    usual_small_region_bytes = 2 << 20,
    usual_large_region_bytes = 20 << 20, /* the most: regions grow with the pool */
    /* A new region has about this fraction, 1/n, of the reserved bytes, and room for these bytes. Evidence: Regions in
     * core/TRIALS.md; 12 in the place of 16 and no least room need 0.3 points more on scaled recordings. Bound: the
     * first limits what a region adds to the reserved bytes to 1/n, the second what it adds to a small pool. */
    regions_of_step = 16,
    least_step_bytes = 3 << 20,
    /* The most that a region has may be this fraction, 1/n, of the reserved bytes. Evidence: the same; 128 exceed the
     * pytorch model by more than 0.5 % on a recording, without it recordings need 12 % more device calls. Bound: it
     * adds at most 1/n to reserved over live. */
    regions_of_most = 256,
};

/* --- the search: ranges.c --- */

enum {
    /* Ranges of a bin that a search compares. Evidence: A miss in core/TRIALS.md, for the way of the comparison. Bound:
     * the time of a miss. */
    range_looks = 4,
    /* A best fit is tight if it exceeds the request by at most this fraction, 1/n: then it is taken beside a larger
     * block too. Evidence: Regions in core/TRIALS.md; with no exemption `infer` falls from 1.254 to 1.242, the
     * recordings rise from 1.145 to 1.146, and one exceeds the pytorch model. */
    tight_share = 16,
    /* A block is larger than a request in the sense of that rule if it has more than n times the bytes. Not tried. */
    larger_ratio = 2,
    /* A large request takes the high end of a range of at least n times its size. Evidence: Regions in core/TRIALS.md;
     * three times, with smaller blocks in the front cache, lowers `infer` and makes recordings 1.7 points worse. */
    high_end_ratio = 2,
    /* Bytes. Virtual memory: requests up to it are cut off the high end of a range, all others off the low end, so
     * that small, long-lived blocks lie beside each other. Evidence: "Virtual memory" in core/TRIALS.md: 31 recordings,
     * worst reserved over live 1.30 without it, 1.25 with 64 KiB, 1.14 with 1 MiB, 1.16 with 8 MiB. */
    high_end_bytes = 1 << 20,
};

/* --- size_class.c --- */

enum {
    usual_slots = 8, /* a slab has at least this number of slots if a quarter of a region holds them. Not tried. */
    least_slots = 2, /* fewer are no slab */
    /* A region holds at least n slabs, and n slabs of small slots. Not tried. Bound: the free slots of a class that
     * only grows are below 64 KiB, or 8 slots, which allocators/README.md promises. */
    slabs_per_region = 4,
    small_slabs_per_region = 32,
    /* Free slots that alloc examines for a fitting tick or alignment. Not tried. Bound: the time of a miss. */
    slot_looks = 64,
};

/* --- bump.c --- */

enum {
    /* Bytes of a chunk: this share, 1/n, of the reserved bytes, between the least and the most. Not tried. Bound: the
     * most is what one long-lived block may keep from the device. */
    chunk_share = 8,
    least_chunk_bytes = 2 << 20,
    most_chunk_bytes = 32 << 20,
    /* A request of at least this share of a chunk, 1/n, gets a chunk of its own. Not tried. Bound: the waste at the end
     * of a chunk is below 1/n of it. */
    own_chunk_share = 4,
    /* Bytes, and a share of the smallest chunk, 1/n: a free range of at least the smaller one serves requests again.
     * Not tried. Bound: smaller ranges beside live blocks wait for the last resort. */
    least_hole_bytes = 64 << 10,
    hole_share = 8,
};

#endif
