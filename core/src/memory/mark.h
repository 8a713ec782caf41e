/* core/src/memory/mark.h: when idle regions go back before the pool grows, and whether that is worth its device calls.
 *
 * Idea: a program pays for the most that it ever reserved. So below that high-water mark regions are taken as requests come,
 * and at the mark all idle regions go back before another one is taken: the pool rebuilds itself in the sizes of now. Each
 * region that goes back is a debt of one device call. When the debt, and the calls that are due, exceed the worth of the
 * memory saved, the mark rises instead and pays the debt off.
 *
 * Guarantee: with no more than n regions, exchanges return at most
 *
 *     max(calls_for_all, 8 n) * (rise of the mark / most live bytes) + one exchange
 *
 * regions, for requests of any sizes in any order: an exchange is refused when debt + count > worth(gain), and then
 * the mark rises by at least the gain and cancels at most worth(gain). So a pool settles when its mark no longer rises.
 *
 * Cost: constant, a few divisions. Pure: no lock, no device.
 */
#ifndef WEIR_CORE_MARK_H
#define WEIR_CORE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__SPARED_RATIO 4u

/* As of the last trim: */
struct high_mark {
    uint64_t reserved; /* the most that was reserved */
    uint64_t live;     /* the most that was live, or asked for, when the pool grew */
    uint64_t spared;   /* regions that were taken or returned so that a request would break no idle region */
    uint64_t debt;     /* regions that were returned for the mark's sake and not paid for by a rise */
};

/* Bytes by which `reserved` would exceed the mark, or 1/128 above the live bytes if that is more. */
uint64_t weir__mark_excess(const struct high_mark *mark, uint64_t reserved);
/* Whether returning `count` of `regions` regions is worth it to keep the mark `gain` bytes lower; then the debt grows. */
bool weir__mark_affords(struct high_mark *mark, uint64_t gain, uint64_t count, uint64_t regions);
/* Whether a request of `size` bytes should leave an idle region of so many bytes whole: it is at least four times as large. */
static inline bool weir__mark_spares(uint64_t idle_bytes, uint64_t size)
{
    return idle_bytes / WEIR__SPARED_RATIO >= size;
}
/* Whether regions may still be spared. `near_limit`: the pool is so near its limit that memory counts for more than calls. */
bool weir__mark_may_spare(const struct high_mark *mark, bool near_limit);
/* The mark is going to rise by `gain` bytes that could have been saved: the debt falls. */
void weir__mark_buy(struct high_mark *mark, uint64_t gain, uint64_t regions);

#endif
