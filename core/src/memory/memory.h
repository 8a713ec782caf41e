/* core/src/memory/memory.h: where a pool's memory comes from.
 *
 *     region.c   whole regions of the device
 *     mark.c     when growing would reserve more than ever before, and whether an exchange is worth its calls (pure)
 *     vm.c       virtual memory: granules that are created, mapped, moved and unmapped
 *     vm_place.c where a request needs the least new memory (pure)
 *     budget.c   how much a pool may take, and the pressure callback
 *     trim.c     giving memory back because a caller asks for it or lowers a limit
 *
 * Each source of memory is a table of the same verbs.
 */
#ifndef WEIR_CORE_MEMORY_H
#define WEIR_CORE_MEMORY_H

#include "pool/pool_internal.h"

struct request; /* order/order.h */

/* No lock is held at any of these calls, but for the last two. */
struct memory_ops {
    bool mixes_sizes; /* memory is mapped for requests of all sizes side by side */
    /* Takes more memory for the request, serves it and counts the rung. Idle memory may be given back or moved for it first.
     * False: the device or the limit refused (see the request). Also true when another thread's growth has served it. */
    bool (*grow)(struct request *request);
    /* The device has no more: the same with all idle memory given back or moved first. False also when none is idle. */
    bool (*exchange)(struct request *request);
    /* Gives idle memory back until `keep` reserved bytes remain. Returns the bytes given back; *failed takes a failure of the
     * device. */
    uint64_t (*give_back)(weir_pool *pool, uint64_t keep, weir_status *failed);
    /* The pool is being destroyed: gives everything back, each call tried twice; keeps the first failure. */
    void (*return_all)(weir_pool *pool, weir_status *first);
    /* Frees the books; the strategy and the device are not called any more. */
    void (*fini)(weir_pool *pool);
    /* Pool lock held: whether a block may have these bytes. It has all of a handle's memory or nothing, if that is more than a
     * granule, since a handle is mapped and taken away as a whole. NULL: any bytes. */
    bool (*fits)(const weir_pool *pool, uint64_t address, uint64_t size);
    /* Pool lock held: serves the request from free memory of several lanes, or from memory that alloc did not choose. NULL: the
     * strategy's gather does. */
    bool (*join)(struct request *request);
    /* Pool lock held: whether a request leaves idle regions whole that are much larger, and gets one of its own. NULL: never. */
    bool (*spares)(const weir_pool *pool, uint64_t size);
};

extern const struct memory_ops weir__region_memory;
extern const struct memory_ops weir__vm_memory;

/* --- region.c --- */

/* Pool lock held: the region the strategy would like for a request when so much is reserved, and the least that serves. */
void weir__region_sizes_locked(const weir_pool *pool, uint64_t size, uint64_t align, uint64_t reserved, uint64_t *liked,
                               uint64_t *least);
/* The unit of region sizes. */
uint64_t weir__region_granularity(const weir_pool *pool);
/* Gives back the region at `address` if it is idle; no lock is held. */
weir_status weir__region_return_at(weir_pool *pool, uint64_t address);

/* Pool lock held, let go while waiting: until no memory is on its way from or to the device. True when it was. */
bool weir__region_await_locked(weir_pool *pool);
/* Pool lock held: this thread, which had set `growing`, has done. */
void weir__region_end_growing_locked(weir_pool *pool);
/* Pool lock held: the device has given, or has taken back. Blocks in a front cache cannot merge, so the cache's limit is a
 * share of the reserved memory. */
void weir__region_count_locked(weir_pool *pool, uint64_t more, uint64_t less);

/* --- vm.c: all but the first need pool->vm --- */

/* Turns the pool into one with virtual memory: WEIR_ERR_UNSUPPORTED, _INVALID, _NO_MEMORY. Called before it is used. */
weir_status weir__vm_init(weir_pool *pool);
/* Pool lock held: whether the memory of the strategy's range is being moved, so that the range has no block. */
bool weir__vm_moves_locked(const weir_pool *pool, const weir_range_info *range);
uint64_t weir__vm_granule(const weir_pool *pool);
/* Pool lock held, and no thread grows: visits the memory of every handle. */
void weir__vm_each_handle_locked(const weir_pool *pool, void (*visit)(void *ctx, uint64_t address, uint64_t size),
                                 void *ctx);
/* Pool lock held: the first broken rule of the books of granules; NULL. The sums are those of the strategy's walk: bytes
 * taken by blocks or free, without memory, and being moved. */
const char *weir__vm_broken_locked(const weir_pool *pool, uint64_t held, uint64_t unmapped, uint64_t moving);
void weir__vm_add_stats_locked(const weir_pool *pool, weir_stats *stats);

/* --- budget.c --- */

/* Pool lock held: the most that may be reserved; with `soft` the lower limit counts. UINT64_MAX = no limit. */
uint64_t weir__budget_limit_locked(const weir_pool *pool, bool soft);
/* Pool lock held: the most that may be taken altogether: the limit and the device's capacity. 0 = unknown. */
uint64_t weir__budget_most_locked(const weir_pool *pool, bool soft);
/* Pool lock held: reserved memory has changed. */
void weir__budget_note_locked(weir_pool *pool, bool grown);
/* The request, for which at least `least` bytes are missing, can be served only above the soft limit: calls the callback, if
 * it is its turn. True when it did something. No lock is held. */
bool weir__budget_press(const struct request *request, uint64_t least);

#endif
