/* core/src/memory/vm_window.h: finds where a request needs the least new memory.
 *
 * Idea: with virtual memory, a request that no free range holds can lie across holes: addresses of a region without
 * memory. A *window* is a place for the request made of holes and of free memory that the asking stream may use. The
 * best window needs the fewest granules to be mapped. Among equals it is the one that extends the smallest free run, so
 * that large runs stay whole, then the lowest. So a range of addresses grows at its end only when no hole is cheaper.
 *
 * Guarantee: no window needs fewer granules to be mapped.
 *
 * Pure: one walk over the strategy, under the pool's lock; no device.
 */
#ifndef WEIR_CORE_VM_WINDOW_H
#define WEIR_CORE_VM_WINDOW_H

#include <weir/strategy.h>

/* The input of a search over the strategy's ranges. Memory freed on the stream of lane l is usable up to tick
 * limits[l]. */
struct vm_view {
    const weir_strategy_ops *strategy;
    void (*walk_holes)(const void *state, uint64_t least, weir_range_visitor visit,
                       void *ctx); /* of the strategy; NULL if it lacks the function */
    const void *state;
    const weir_tick *limits;
    size_t lanes;
    uint64_t granule; /* bytes, a power of two; the sizes of holes and regions are multiples of it */
};

/* A place for a request of `size` bytes at `address`. It touches the granules in [first, end). */
struct vm_window {
    uint64_t address;
    uint64_t size; /* of the request */
    uint64_t first;
    uint64_t end;
    uint64_t need;   /* granules of the window without memory */
    uint64_t run;    /* bytes of the free memory at an end of the window; UINT64_MAX if a hole lies there */
    uint64_t offset; /* of `address` in its region */
};

/* Working array of the search, which later calls use again: adjacent holes and usable ranges. */
struct vm_scratch {
    struct vm_piece *pieces;
    size_t capacity;
};

/* A request, for which a window (addresses for its block) is searched. With `last_resort`, memory that the strategy
 * keeps for requests of one size counts as free. */
struct vm_wish {
    uint64_t size;
    uint64_t align;
    bool last_resort;
    uint64_t at; /* the address that the request must have; 0: any */
};

/* Enlarges the array to at least `wanted` elements. Returns false when out of host memory. */
bool weir__vm_reserve(void **array, size_t wanted, size_t *capacity, size_t element);
void weir__vm_scratch_fini(struct vm_scratch *scratch);

static inline bool vm_is_usable(const weir_range_info *range, const weir_tick *limits, size_t lanes)
{
    return !range->taken && range->lane < lanes && range->tick <= limits[range->lane];
}

static inline bool vm_is_hole(const weir_range_info *range)
{
    return !range->taken && range->lane == WEIR_LANE_UNMAPPED;
}

/* Finds the best window (place for a request). Returns WEIR_ERR_LIMIT if there is none, WEIR_ERR_NO_MEMORY when out of
 * host memory. */
weir_status weir__vm_find_window(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_wish *wish,
                                 struct vm_window *window);

#endif
