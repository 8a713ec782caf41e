/* core/src/memory/vm_place.h: where a request needs the least new memory, and which idle memory can be had for it.
 *
 * Idea: with virtual memory a request that no free range holds can lie across holes: addresses of a region that have no
 * memory yet. A *window* is a place for it made of memory that is free and usable by the asking stream, and of holes. The
 * best window has the fewest granules to be mapped; of equals the one that takes the fewest handles for them, then the one that
 * extends the smallest free run, so that large runs stay whole, and then the lowest. The memory itself may come from *idle* granules elsewhere: wholly free ones that nobody's work touches.
 * When these are too few for the best window, the *frugal* one is left: that in which the fewest granules lie that could
 * have been moved, because it makes most of granules that are in use in part.
 *
 * A handle may have memory for several granules. It is mapped and taken away as a whole, so a block has all of it or
 * nothing, and so has a window; idle granules are those of handles that are idle as a whole.
 *
 * Guarantee: there is no window with fewer granules to map, or, frugally, with fewer that could be moved; and the latter are
 * no more than the request has when it begins at a granule.
 *
 * Pure: one walk over the strategy for each question, under the pool's lock; no device.
 */
#ifndef WEIR_CORE_VM_PLACE_H
#define WEIR_CORE_VM_PLACE_H

#include <weir/strategy.h>

/* What a walk is asked. Memory of lane l below `lanes` with a tick at or below limits[l] is usable. */
struct vm_view {
    const weir_strategy_ops *strategy;
    /* The strategy's, or NULL. */
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    void (*walk_free)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    const void *state;
    const weir_tick *limits;
    size_t lanes;
    uint64_t granule; /* bytes, a power of two; holes and regions are made of them */
    uint64_t least;   /* granules for which one handle is made */
    /* The granules [*start, *end) that share a handle with the one at `address`; false: it has a handle of its own, or none. */
    bool (*find_handle)(const void *handles, uint64_t address, uint64_t *start, uint64_t *end);
    const void *handles;
};

/* [first, end): the granules that a request at `address` touches. */
struct vm_window {
    uint64_t address;
    uint64_t size; /* of the request */
    uint64_t first;
    uint64_t end;
    uint64_t need; /* granules of it without memory */
    uint64_t handles; /* the fewest handles that have memory for them */
    uint64_t own;  /* granules of it in which nothing lies that is in use: `need`, and those that might be moved */
    uint64_t run;  /* bytes of the free run that it extends; UINT64_MAX: it begins in a hole */
    uint64_t offset; /* of `address` in its region */
};

/* Neighbouring idle granules. `lane` is theirs, or the open one when they are of several. */
struct vm_run {
    uint64_t address;
    uint64_t granules;
    int rank;        /* what is taken first; see cheapest_first */
    weir_lane lane;
    bool large;      /* a handle of several granules */
    bool hole_below; /* take from the low end first, so that holes stay together */
};

/* Scratch that lives as long as its owner. */
struct vm_scratch {
    struct vm_piece *ranges; /* of a stretch, as the walk shows them */
    size_t range_capacity;
    struct vm_piece *pieces; /* the same, in pieces of one sort */
    size_t piece_capacity;
    struct vm_run *runs; /* of the last weir__vm_find_idle, the smallest first */
    size_t run_count;
    size_t run_capacity;
};

void weir__vm_scratch_fini(struct vm_scratch *scratch);

enum window_kind {
    WINDOW_CHEAP,  /* with the fewest granules to map */
    WINDOW_FRUGAL, /* with the fewest granules that could be moved */
    WINDOW_MAPPED, /* all of it has memory; the first that the strategy's walk_free leads to */
};

/* What a window is looked for. `last_resort`: memory that the strategy keeps for requests of one size counts as free. */
struct vm_wish {
    uint64_t size;
    uint64_t align;
    bool last_resort;
    enum window_kind kind;
};

/* The best window of the kind. WEIR_ERR_LIMIT: no window; WEIR_ERR_NO_MEMORY: no host memory. */
weir_status weir__vm_find_window(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_wish *wish,
                                 struct vm_window *window);

/* All granules that are wholly made of usable memory and lie outside the window (NULL: all), as scratch->runs.
 * WEIR_ERR_NO_MEMORY: no host memory. */
weir_status weir__vm_find_idle(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_window *window,
                               uint64_t *granules);

#endif
