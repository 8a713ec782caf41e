/* weir/ranges.h: the bookkeeping of ranges, for authors of strategies. The library splits regions into ranges, merges
 * free neighbours of one lane, and finds free ranges by size. A strategy on top of it mainly chooses ranges
 * (docs/strategy.md).
 *
 * The strategy's state begins with a weir_ranges. Zero bytes are a valid initial value, as the pool hands the state to
 * init. Every function takes the address of the state. The functions of the first group have the signatures of the
 * strategy's table (weir/strategy.h), obey its rules, and may stand in the table as they are. The pool calls them, so
 * their WEIR_ERR_BUSY stores no sentence for weir_last_error.
 *
 * A range is named by its record (weir_record), which is also its token. Ranges start and end at multiples of
 * WEIR_RANGES_GRANULE; the library rounds requests up. The records belong to the library: a strategy reads address and
 * size, and the tick of a free range, and writes none of them. A record is valid until the next call that changes
 * ranges.
 *
 * Kinds. A region is of kind 0 or 1, and a request is served from regions of the kind that the strategy names. So a
 * strategy can keep regions of small requests apart from those of large requests. A strategy without kinds always
 * passes 0.
 *
 * Threads: the library has no lock; the pool calls a strategy under one lock. Cost: stated at each function, in the
 * number of ranges. Host memory: 64 bytes for each range, 9 KiB for each lane and kind.
 */
#ifndef WEIR_RANGES_H
#define WEIR_RANGES_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The granule_bytes of a strategy that uses this library. */
#define WEIR_RANGES_GRANULE UINT64_C(512)

/* The first member of a strategy's state. Its content is not part of the interface. */
typedef struct weir_ranges {
    uint64_t opaque[32];
} weir_ranges;

/* --- functions for the table --- */

/* Frees all memory that the library holds for the state. A strategy without other memory uses it as its fini. */
WEIR_API void weir_ranges_fini(void *state);
/* Prepares a lane. The strategy's table must contain this function. Returns WEIR_ERR_NO_MEMORY if there is no host
 * memory; the call may then be repeated. */
WEIR_API weir_status weir_ranges_lane_add(void *state, weir_lane lane);
/* Removes a region. Takes time linear in its ranges. */
WEIR_API weir_status weir_ranges_region_remove(void *state, void *region, const weir_tick *limits, size_t lanes);
/* Finds a removable region. Takes constant time, but time linear in the ranges of each region that is free in several
 * lanes. */
WEIR_API bool weir_ranges_region_idle(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address);
/* Frees a range. Takes constant time. */
WEIR_API void weir_ranges_free(void *state, void *token, weir_lane lane, weir_tick tick);
/* For a strategy's promote: moves ranges to the open lane. Takes time linear in the free ranges of the lane, or
 * constant time if none of them is as old as the limit. */
WEIR_API uint64_t weir_ranges_promote(void *state, weir_lane lane, weir_tick limit);
/* Claims exact addresses. Takes time linear in `count` and in the free ranges, as weir_ranges_walk_free does, or in the
 * unmapped ranges if `limits` is NULL. */
WEIR_API weir_status weir_ranges_claim(void *state, uint64_t address, uint64_t size, size_t count,
                                       const weir_tick *limits, size_t lanes, void **tokens);
/* Visits every range. Takes time linear in the ranges. */
WEIR_API void weir_ranges_walk(const void *state, weir_range_visitor visit, void *ctx);
/* For a strategy's walk_holes. Takes constant time for each unmapped range and for each of its free neighbours. */
WEIR_API void weir_ranges_walk_holes(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
/* For the walk_free of a strategy without slabs. Takes constant time for each free range of at least `least` bytes, or
 * for every free range while several lanes hold memory. */
WEIR_API void weir_ranges_walk_free(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
/* For a strategy's walk_large. Takes constant time for each free range that it visits. */
WEIR_API void weir_ranges_walk_large(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
/* Checks the invariants. Takes time linear in regions, ranges and bins. */
WEIR_API weir_status weir_ranges_check(const void *state, const char **why);
/* Adds up all ranges. Takes time linear in lanes, in unmapped ranges and in the ranges of each lane's highest bin. */
WEIR_API void weir_ranges_stats(const void *state, weir_strategy_stats *stats);
/* Adds up the free ranges of a lane. Takes time linear in these ranges. */
WEIR_API void weir_ranges_lane_stats(const void *state, weir_lane lane, weir_lane_stats *stats);

/* --- helpers for the functions that the strategy writes itself --- */

/* Returns a region size, for a strategy's region_size: the size that the request needs, or a twelfth of the reserved
 * memory, up to `most` bytes, if several such requests fit there. So regions grow with the pool. */
WEIR_API uint64_t weir_ranges_region_size(uint64_t size, uint64_t align, uint64_t most, uint64_t reserved,
                                          uint64_t granularity);
/* Adds a region of `kind`, for a strategy's region_add. Returns WEIR_ERR_NO_MEMORY if there is no host memory. Takes
 * constant time. */
WEIR_API weir_status weir_ranges_region_add(void *state, unsigned kind, uint64_t address, uint64_t size, weir_lane lane,
                                            weir_tick tick, void **region);
/* For a strategy's gather: gathers the smallest run of neighbours of `kind` that holds `size` bytes at the place of
 * weir_ranges_place for `align` and `unit`. If `last_resort` is true, neighbours of the other kind serve too. Takes
 * time linear in the ranges, or constant time if only the requesting lane holds free memory and `last_resort` is
 * false. */
WEIR_API bool weir_ranges_gather(void *state, unsigned kind, weir_lane lane, weir_tick tick, const weir_tick *limits,
                                 size_t lanes, uint64_t size, uint64_t align, uint64_t unit, bool last_resort);

/* Returns the range that the gather just before this call has made, if it serves the request. Otherwise returns the
 * smallest range that serves it, as far as a few probes show, among the ranges of `kind` with at least about `least`
 * bytes. Returns NULL if there is no such range. With a limit below WEIR_TICK_MAX, also returns NULL if the probes
 * missed a range that serves the request. Takes constant time, except that a refusal reads one bin. */
WEIR_API weir_record *weir_ranges_find(void *state, unsigned kind, weir_lane lane, weir_tick limit, uint64_t size,
                                       uint64_t align, uint64_t least);
/* Returns the range after `range` in the order of walk, taken ranges included. Returns the first range if `range` is
 * NULL, and NULL after the last. Takes constant time. */
WEIR_API weir_record *weir_ranges_next(const void *state, const weir_record *range);
/* Returns true if the range is free in the lane, was freed at or before `limit`, and holds `size` bytes at a multiple
 * of `align`. Takes constant time. */
WEIR_API bool weir_ranges_serves(const weir_record *range, weir_lane lane, weir_tick limit, uint64_t size,
                                 uint64_t align);

/* Returns the lowest address from the start of the range on that is a multiple of `align` and lies a multiple of `unit`
 * bytes behind the start of the range's region; both are powers of two. For strategies whose blocks have fixed places
 * in a region, wherever the region lies, such as a buddy system: `unit` 1 is no such rule. If the region begins at no
 * multiple of the smaller one of the two, no address has both, and `unit` counts as 1. The address may lie beyond the
 * end of the range. Takes time linear in the regions. */
WEIR_API uint64_t weir_ranges_place(const void *state, const weir_record *range, uint64_t align, uint64_t unit);

/* The end of a free range from which a request is cut. */
typedef enum weir_ranges_end {
    WEIR_RANGES_LOW = 0,
    WEIR_RANGES_HIGH = 1,
} weir_ranges_end;

/* The last step of a strategy's alloc: cuts `size` bytes at the lowest or highest multiple of `align` out of a range
 * that serves the request, and hands them out. The rest of the range stays free in its lane. Returns WEIR_ERR_INTERNAL,
 * and changes nothing, if there is no host memory. Takes constant time. */
WEIR_API weir_status weir_ranges_take(void *state, weir_record *range, uint64_t size, uint64_t align,
                                      weir_ranges_end end, weir_range *out);
/* The same at an address of the strategy's choice: a multiple of WEIR_RANGES_GRANULE, at which the range has `size`
 * bytes. */
WEIR_API weir_status weir_ranges_take_at(void *state, weir_record *range, uint64_t address, uint64_t size,
                                         weir_range *out);

#ifdef __cplusplus
}
#endif

#endif
