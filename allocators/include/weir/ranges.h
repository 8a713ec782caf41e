/* weir/ranges.h: the books of a strategy of an author's own. Regions are cut into ranges, free neighbours of one lane
 * join again, and free ranges are found by size. A strategy on top is its choice of range and little else
 * (docs/strategy.md).
 *
 * The strategy's state begins with a weir_ranges, which is ready when its bytes are zero, as the pool hands the state to
 * init. Every function takes the address of the state. Those of the first group have the signatures of the strategy's
 * table (weir/strategy.h) and may stand in it as they are; they keep the rules that are stated there. The pool calls them, so
 * their WEIR_ERR_BUSY leaves no sentence for weir_last_error.
 *
 * A range is named by its record (weir_record), which is also its token. Ranges start and end at multiples of
 * WEIR_RANGES_GRANULE; requests are rounded up here. The records are this library's: a strategy reads address and size, of a
 * free range the tick too, and writes none of them. A record is valid until the next call that changes ranges.
 *
 * Kinds. Regions are of kind 0 or 1, and a request is served from regions of the kind that the strategy names: those for
 * small requests may be kept apart from those for large ones. A strategy without kinds passes 0 always.
 *
 * Threads: none of its own; the pool calls a strategy under one lock. Cost: as each function says, in the number of ranges.
 * Host memory: 64 bytes for each range, 9 KiB for each lane and kind.
 */
#ifndef WEIR_RANGES_H
#define WEIR_RANGES_H

#include <weir/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The granule_bytes of a strategy on ranges. */
#define WEIR_RANGES_GRANULE UINT64_C(512)

/* The first member of a strategy's state. Its content is not part of the interface. */
typedef struct weir_ranges {
    uint64_t opaque[32];
} weir_ranges;

/* --- functions for the table --- */

/* Frees all memory of the library. A state without more to free has this as its fini. */
WEIR_API void weir_ranges_fini(void *state);
/* WEIR_ERR_NO_MEMORY, and then it may be called again. A table must have it. */
WEIR_API weir_status weir_ranges_lane_add(void *state, weir_lane lane);
/* Linear in the ranges of the region. */
WEIR_API weir_status weir_ranges_region_remove(void *state, void *region, const weir_tick *limits, size_t lanes);
/* Constant, but for regions that are free in several lanes: linear in the ranges. */
WEIR_API bool weir_ranges_region_idle(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address);
/* Constant. */
WEIR_API void weir_ranges_free(void *state, void *token, weir_lane lane, weir_tick tick);
/* Linear in the free ranges of the lane; constant when none of them is as old as the limit. */
WEIR_API uint64_t weir_ranges_promote(void *state, weir_lane lane, weir_tick limit);
/* Linear in the free ranges as weir_ranges_walk_free, or with `limits` NULL in the unmapped ones, and in `count`. */
WEIR_API weir_status weir_ranges_claim(void *state, uint64_t address, uint64_t size, size_t count,
                                       const weir_tick *limits, size_t lanes, void **tokens);
WEIR_API void weir_ranges_walk(const void *state, weir_range_visitor visit, void *ctx);
/* Constant for each hole and each free range beside one. */
WEIR_API void weir_ranges_walk_holes(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
/* Constant for each free range of `least` bytes and above, or for each free one while several lanes hold memory. Not for a
 * strategy with slots. */
WEIR_API void weir_ranges_walk_free(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);
/* Linear in regions, ranges and bins. */
WEIR_API weir_status weir_ranges_check(const void *state, const char **why);
/* Linear in lanes and in the largest free ranges. */
WEIR_API void weir_ranges_stats(const void *state, weir_strategy_stats *stats);
/* Linear in the free ranges of the lane. */
WEIR_API void weir_ranges_lane_stats(const void *state, weir_lane lane, weir_lane_stats *stats);

/* --- for the functions that are left to write --- */

/* A strategy's region_size: as much as the request needs, or a twelfth of the reserved memory, up to `most` bytes, if
 * several such requests fit there: regions grow with the pool. */
WEIR_API uint64_t weir_ranges_region_size(uint64_t size, uint64_t align, uint64_t most, uint64_t reserved,
                                          uint64_t granularity);
/* A strategy's region_add, for a region of `kind`. WEIR_ERR_NO_MEMORY. Constant. */
WEIR_API weir_status weir_ranges_region_add(void *state, unsigned kind, uint64_t address, uint64_t size, weir_lane lane,
                                            weir_tick tick, void **region);
/* A strategy's gather: the smallest run of neighbours of `kind`, as a last resort of either kind. Linear in the ranges;
 * constant when no lane but the asking one holds free memory and it is no last resort. */
WEIR_API bool weir_ranges_gather(void *state, unsigned kind, weir_lane lane, weir_tick tick, const weir_tick *limits,
                                 size_t lanes, uint64_t size, uint64_t align, bool last_resort);

/* The range that the gather just before this call has made, where it serves the request. Else the smallest range that
 * serves it, as far as a few looks tell, among those of `kind` with about `least` bytes and more. NULL: there is none; with
 * a limit below WEIR_TICK_MAX, or none was seen. Constant, but for a refusal: that reads one bin. */
WEIR_API weir_record *weir_ranges_find(void *state, unsigned kind, weir_lane lane, weir_tick limit, uint64_t size,
                                       uint64_t align, uint64_t least);
/* All ranges, taken ones too, in the order of walk: the first for NULL, NULL after the last. Constant. */
WEIR_API weir_record *weir_ranges_next(const void *state, const weir_record *range);
/* Whether a range is free in the lane, has a tick at or below the limit and holds `size` bytes at a multiple of `align`.
 * Constant. */
WEIR_API bool weir_ranges_serves(const weir_record *range, weir_lane lane, weir_tick limit, uint64_t size,
                                 uint64_t align);

/* Where in a free range a request lies. */
typedef enum weir_ranges_end {
    WEIR_RANGES_LOW = 0,
    WEIR_RANGES_HIGH = 1,
} weir_ranges_end;

/* Cuts `size` bytes at the lowest or highest multiple of `align` out of a range that serves the request, and hands them out:
 * the end of a strategy's alloc. The rest stays free where it was. WEIR_ERR_INTERNAL, and nothing has changed, when
 * there is no host memory. Constant. */
WEIR_API weir_status weir_ranges_take(void *state, weir_record *range, uint64_t size, uint64_t align,
                                      weir_ranges_end end, weir_range *out);

#ifdef __cplusplus
}
#endif

#endif
