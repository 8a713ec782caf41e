/* tuning.h: the numbers of the host pool that are judgments: another value would be correct too.
 *
 * Each number stands with its unit, its evidence and its bound. The bound is the range in which the number may change,
 * or what the number limits. A number "not tried" has no measurement of other values. Evidence for pageable pools,
 * which lie below heaps and must hold little more than the live bytes: "Choices" in the README of the heap.
 *
 * Not here: numbers that a layout fixes (WEIR__HOST_BIN_DEPTH makes a bin 1 KiB), the kernel's, and first sizes of
 * tables that grow.
 */
#ifndef WEIR_HOST_TUNING_H
#define WEIR_HOST_TUNING_H

/* --- sizes: pool.c, classes.c --- */

enum {
    /* Bytes of a chunk, the default of weir_host_pool_config. Evidence: README, Choices: idle chunks move to where they
     * are needed, and small ones are idle more often. Bound: a power of two from the least to 1 GiB. */
    DEFAULT_CHUNK = 4 << 20,
    LEAST_CHUNK = 2 << 20,
    /* Pageable: the same. Evidence: Choices: `infer` holds 1.074 of its live bytes, with 256 KiB 1.088, with 1 MiB
     * 1.130. */
    DEFAULT_PAGEABLE = 64 << 10,
    LEAST_PAGEABLE = 16 << 10,
    /* Bytes. Pageable: a block of this size or more is a run of pages. Evidence: Choices: with 64 KiB a heap held up to
     * 1.21 of its live bytes. Bound: WEIR__HOST_SMALL_BYTES. */
    PAGEABLE_SMALL = 16 << 10,
    /* Pages and least slots of a slab, and the part of it, 1/n, that may be wasted at its end, usually and in pageable
     * pools. Not tried. Bound: the waste that the head of classes.c promises; WEIR__HOST_SLAB_BYTES. */
    LEAST_PAGES = 4,
    MOST_PAGES = 160,
    LEAST_SLOTS = 4,
    USUAL_WASTE = 32,
    SCARCE_WASTE = 8,
    /* Pageable: pages that a slab has at most, unless a share of its class, 1/n, is more. Evidence: Choices: a live
     * block keeps all of its slab; without the share the bookkeeping of 64 MiB is 0.2 points more. Bound: a chunk,
     * which a live block keeps anyway, and the 15 pages that the largest class needs for a slab without waste. */
    SCARCE_PAGES = 16,
    SCARCE_SHARE = 256,
};

/* --- caches of threads: pool.c, thread_cache.c, node.c --- */

enum {
    /* Bytes that a thread caches for a node, the default of weir_host_pool_config. Not tried. Bound: threads times
     * nodes times this may lie idle. */
    DEFAULT_CACHE = 8 << 20,
    /* Pageable: a thread caches this share of the held bytes, 1/n, and at least these bytes. Evidence: Choices: with
     * DEFAULT_CACHE heaps held 1.29 to 2.63 of their live bytes. Bound: as DEFAULT_CACHE. */
    PAGEABLE_SHARE = 128,
    PAGEABLE_LEAST = 64 << 10,
    BATCH = 16, /* blocks that a miss takes from the engine. Not tried. Bound: WEIR__HOST_BIN_DEPTH. */
    /* Bytes of blocks of one size in a bin, and its least blocks. Not tried. Bound: WEIR__HOST_BIN_DEPTH blocks. */
    BIN_BYTES = 256 << 10,
    BIN_LEAST = 4,
    /* Descriptions of runs that a thread keeps. Evidence: a pair in `infer` takes some 9 ns less than with none. */
    KEPT_RUNS = 8,
    /* Calls between two looks for the node of the thread, because a look costs as much as an allocation. Not tried.
     * Bound: so long a thread that has moved takes memory of its old node. */
    HOME_EVERY = 256,
};

/* --- memory that goes back: decay.c, chunk_source.c, pageable.c, node.c --- */

enum {
    /* Pageable: hits of a thread between two looks at the clock, and between looks that are seldom, or after a miss.
     * Evidence: a look costs some 270 instructions, so that a pair takes 0.3 more. A server that makes tens of calls a
     * second kept all memory for more than 10 s with 256 hits. Bound: decay is late by so many hits. */
    DECAY_EVERY = 1024,
    DECAY_SELDOM = 16,
    /* Pageable: what decay leaves beyond the most bytes used, as a share 1/n and in chunks. Not tried. Bound: more than
     * 1/mark_share_by_page (core's tuning.h), so that decay and moves of chunks do not undo each other. */
    MARGIN_SHARE = 8,
    MARGIN_CHUNKS = 8,
    /* Pageable: bytes of a run of pages that gets its pages at their first access, if it is as large or larger; smaller
     * runs get them by one call, which costs 31 microseconds for 64 KiB in the place of 53. Not tried. Bound: a block
     * that is smaller is resident as a whole. */
    UNMADE_LEAST = 1 << 20,
    /* Times that pages are asked for while the system interrupts the call or asks to repeat it; then they are made one
     * by one, or at their first access. Not tried. Bound: 1 and above. */
    MOST_TRIES = 16,
    /* Pageable: share of the room in the control group, 1/n, that is taken before the room is read again. Not tried.
     * Bound: above 1. */
    GROUP_SHARE = 8,
    /* Pageable: addresses are opened by this share of the open ones, 1/n, and at least by these bytes. Not tried.
     * Bound: a strict overcommit counts open addresses. */
    OPENED_SHARE = 4,
    LEAST_OPENED = 2 << 20,
    /* Further blocks by which a run of pages grows in place, each with a description. Not tried. */
    MOST_PARTS = 64,
    /* One page in this many bytes is asked for its node and stands for its neighbours. Not tried. Bound: a policy puts
     * neighbouring pages on one node; a strict pool asks for each page. */
    VERIFY_STEP = 64 << 10,
    /* Nanoseconds during which kinds of memory that all failed are not tried again. Not tried. Bound: an attempt costs
     * milliseconds, which each request that other nodes serve would pay. */
    REFUSED_NS = 10000000,
};

#endif
