/* core/src/memory/vm_window.h: finds where a request needs the least new memory, and which idle memory can be moved
 * there.
 *
 * Idea: with virtual memory, a request that no free range holds can lie across holes: addresses of a region without
 * memory. A *window* is a place for the request made of holes and of free memory that the asking stream may use. The
 * best window needs the fewest granules to be mapped. Among equals it is the one that needs the fewest handles, then
 * the one that extends the smallest free run, so that large runs stay whole, then the lowest. The memory itself may
 * come from *idle* granules elsewhere: wholly free granules that no queued work touches. If these are too few for the
 * best window, the *frugal* window is used: the one with the fewest granules that could have been moved. It makes the
 * most of partly used granules.
 *
 * Idle granules beside a hole are moved first, then those of the smallest runs. So holes grow and stay few: a hole
 * between two blocks would keep the memory of its neighbours apart when they are freed, and a request would again need
 * new memory there.
 *
 * A handle may have memory for several granules. It is mapped and unmapped as a whole, so a block has all of it or
 * nothing, and so has a window. A granule of such a handle is idle only if the whole handle is idle.
 *
 * Guarantee: no window needs fewer granules to be mapped or, for the frugal kind, has fewer granules that could be
 * moved. The latter are never more than the granules of the request when it begins at a granule.
 *
 * Pure: one walk over the strategy for each question, under the pool's lock; no device.
 */
#ifndef WEIR_CORE_VM_PLACE_H
#define WEIR_CORE_VM_PLACE_H

#include <weir/strategy.h>

/* The input of a search over the strategy's ranges. Memory freed on the stream of lane l is usable up to tick
 * limits[l]. */
struct vm_view {
    const weir_strategy_ops *strategy;
    /* walk_holes and walk_free of the strategy; NULL if the strategy lacks them. */
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    void (*walk_free)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
    const void *state;
    const weir_tick *limits;
    size_t lanes;
    uint64_t granule; /* bytes, a power of two; the sizes of holes and regions are multiples of it */
    uint64_t least;   /* a hole of at least this many granules gets one handle, a smaller one a handle per granule */
    uint64_t most;    /* the most granules of one handle at present */
    /* Finds the first handle of several granules that has memory in [from, to). Returns true and all its granules as
     * [*start, *end), or false if there is none. The pointer is NULL if no handle has several granules. */
    bool (*find_handle)(const void *handles, uint64_t from, uint64_t to, uint64_t *start, uint64_t *end);
    const void *handles;
};

/* A place for a request of `size` bytes at `address`. It touches the granules in [first, end). */
struct vm_window {
    uint64_t address;
    uint64_t size; /* of the request */
    uint64_t first;
    uint64_t end;
    uint64_t need;    /* granules of the window without memory */
    uint64_t handles; /* the fewest handles that can provide `need` granules */
    uint64_t own;     /* granules of the window that no block touches: `need`, and those that could be moved */
    uint64_t run;     /* bytes of the free memory at an end of the window; UINT64_MAX if a hole lies there */
    uint64_t offset;  /* of `address` in its region */
};

/* Adjacent idle granules (free, used by no queued work). `lane` is WEIR_LANE_OPEN if they lie in several lanes. */
struct vm_run {
    uint64_t address;
    uint64_t granules;
    int rank; /* a run of lower rank is taken first; see is_cheaper */
    weir_lane lane;
    bool large;       /* a handle of several granules */
    bool hole_below;  /* true: a hole lies below, so granules are taken from the low end, and the holes stay together */
    bool beside_hole; /* a hole lies below or above */
};

/* Working arrays of the searches, which later calls use again. */
struct vm_scratch {
    struct vm_piece *ranges; /* adjacent holes and usable ranges, as the strategy's walk reports them */
    size_t range_capacity;
    struct vm_piece *pieces; /* `ranges`, cut into pieces of one kind: see struct vm_piece */
    size_t piece_capacity;
    struct vm_run *runs; /* runs found by the last weir__vm_find_idle: a heap, the cheapest first */
    size_t run_count;
    size_t run_capacity;
};

/* Enlarges the array to at least `wanted` elements. Returns false when out of host memory. */
bool weir__vm_reserve(void **array, size_t wanted, size_t *capacity, size_t element);
void weir__vm_scratch_fini(struct vm_scratch *scratch);

enum window_kind {
    WINDOW_CHEAP,  /* fewest granules to map */
    WINDOW_FRUGAL, /* the place that touches the fewest wholly free granules */
    WINDOW_MAPPED, /* a place that needs no new memory: the first that the strategy's walk_free finds */
};

/* A request, for which a window (addresses for its block) is searched. With `last_resort`, memory that the strategy
 * keeps for requests of one size counts as free. */
struct vm_wish {
    uint64_t size;
    uint64_t align;
    bool last_resort;
    enum window_kind kind;
    uint64_t at; /* the address that the request must have; 0: any */
};

/* Finds the best window (place for a request) by the measure wish->kind. Returns WEIR_ERR_LIMIT if there is none,
 * WEIR_ERR_NO_MEMORY when out of host memory. */
weir_status weir__vm_find_window(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_wish *wish,
                                 struct vm_window *window);

/* Finds granules that consist of usable memory only and lie outside `window` (if NULL, anywhere). scratch->runs
 * receives all of them, or at least `wanted`. If no handle has several granules, the walk begins beside holes and ends
 * once it has found `wanted`: the cheapest runs lie beside holes, and after them come the smallest ranges, which
 * walk_free visits first. Returns WEIR_ERR_NO_MEMORY when out of host memory. */
weir_status weir__vm_find_idle(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_window *window,
                               uint64_t wanted, uint64_t *granules);
/* Removes the run of granules that is cheapest to move from scratch->runs, which must not be empty. The result is valid
 * until the next search. */
const struct vm_run *weir__vm_take_run(struct vm_scratch *scratch);

#endif
