/* core/src/state/mark.h: decides when idle regions are returned before the pool grows, and whether the device calls
 * pay.
 *
 * Idea: a program pays for the most memory that it ever reserved. So below that high-water mark regions are taken as
 * requests come. At the mark all idle regions are returned before another region is taken: the pool rebuilds itself in
 * the sizes of the current requests. Each returned region is a debt of one device call. If the debt plus the calls that
 * are due exceed the worth of the memory saved, the mark rises instead and pays the debt off.
 *
 * Guarantee: with no more than n regions, exchanges return at most
 *
 *     max(calls_for_all, 8 n) * (rise of the mark / most live bytes) + one exchange
 *
 * regions, for requests of any sizes in any order: an exchange is refused if debt + count > worth(gain), and then the
 * mark rises by at least the gain and cancels at most worth(gain) of debt. So once the mark no longer rises, the pool
 * soon returns no more regions.
 *
 * Cost: constant, a few divisions. Pure arithmetic: no lock, no device.
 */
#ifndef WEIR_CORE_MARK_H
#define WEIR_CORE_MARK_H

#include "base/tuning.h"

#include <stdbool.h>
#include <stdint.h>

/* Maxima and counts of a pool since its last trim: */
struct high_mark {
    uint64_t reserved;    /* the most bytes reserved */
    uint64_t live;        /* the most bytes live at a growth, including the request that grew the pool */
    uint64_t whole_calls; /* number of device calls (regions taken or returned) made to keep large idle regions
                             unsplit */
    uint64_t waits;       /* waits for queued work made to keep the reserved bytes low */
    uint64_t debt;        /* regions given back to keep the high-water mark low, less those that its rises have paid
                             for */
};

/* Returns the bytes by which `reserved` would exceed the high-water mark, or 129/128 of the most live bytes if that is
 * more. */
uint64_t weir__mark_excess(const struct high_mark *mark, uint64_t reserved);
/* Returns how many of the pool's `regions` regions may be given back to keep the high-water mark `gain` bytes lower. */
uint64_t weir__mark_affordable(const struct high_mark *mark, uint64_t gain, uint64_t regions);
/* True if one more wait for queued work is worth `excess` bytes that the pool would otherwise hold beyond what is
 * cheap: each wait has to save another 1/waits_for_all of the most live bytes, so their number is bounded. */
bool weir__mark_affords_wait(const struct high_mark *mark, uint64_t excess);
/* True if giving back `count` of the pool's `regions` regions is worth a high-water mark that is `gain` bytes lower. If
 * so, adds `count` to the debt. */
bool weir__mark_affords(struct high_mark *mark, uint64_t gain, uint64_t count, uint64_t regions);
/* True if a request of `size` bytes should not be cut out of an idle region of `idle_bytes`: the region is at least
 * four times as large. */
static inline bool weir__mark_keeps_whole(uint64_t idle_bytes, uint64_t size)
{
    return idle_bytes / whole_ratio >= size;
}
/* True if more device calls may be made to keep large idle regions unsplit. `near_limit`: the pool is so near its limit
 * that memory matters more than device calls. */
bool weir__mark_may_keep_whole(const struct high_mark *mark, bool near_limit);
/* Reduces the debt, because the high-water mark will rise by `gain` bytes that giving back regions could have saved. */
void weir__mark_buy(struct high_mark *mark, uint64_t gain, uint64_t regions);

#endif
