/* core/src/state/mark.h: decides when idle regions are returned before the pool grows, and whether the device calls
 * pay.
 *
 * Idea: a program pays for the most memory that it ever reserved. So below that high-water mark regions are taken as
 * requests come. At the mark as few idle regions are returned as make room for another one: the pool rebuilds itself in
 * the sizes of the current requests. Each returned region is a debt of one device call. If the debt plus the calls that
 * are due exceed the worth of the memory saved, the mark rises instead and pays the debt off. A program that has made
 * many requests may spend more calls: they are few beside the requests.
 *
 * Sizes that keep growing (tensors that are concatenated) never fit the regions that they leave: each of these is
 * returned in the end. So while they grow, and as far as the live bytes grow with them, the calls are not counted.
 *
 * Guarantee: with no more than n regions, exchanges return at most
 *
 *     max(most_calls_for_all, 8 n) * (rise of the mark + rise of the most live bytes) / most live bytes + one exchange
 *
 * regions, for requests of any sizes in any order: an exchange is refused if debt + count > worth(gain), and then the
 * mark rises by at least the gain and cancels at most worth(gain) of debt. So once neither rises, the pool soon returns
 * no more regions.
 *
 * Cost: constant, a few divisions. Pure arithmetic: no lock, no device.
 */
#ifndef WEIR_CORE_MARK_H
#define WEIR_CORE_MARK_H

#include "base/tuning.h"

#include <stdbool.h>
#include <stdint.h>

/* Sizes of the last large requests that grew the pool. A size takes the place of the one that it exceeds by a little,
 * so an entry is the latest size of something that grows. */
struct growing_sizes {
    uint64_t sizes[growing_looks];
    uint32_t next;   /* the entry that the next size of another kind takes */
    uint32_t streak; /* sizes that grew, less those of other kinds */
};

/* Maxima and counts of a pool since its last trim: */
struct high_mark {
    uint64_t reserved;    /* the most bytes reserved */
    uint64_t live;        /* the most bytes live at a growth, including the request that grew the pool */
    uint64_t whole_calls; /* number of device calls (regions taken or returned) made to keep idle regions unsplit */
    uint64_t whole_rest;  /* a request that would leave more bytes than this of an idle region may not split it */
    uint64_t misses;      /* of the front caches, from the pool's creation on, at the last growth */
    uint64_t waits;       /* waits for queued work made to keep the reserved bytes low */
    uint64_t debt;        /* regions given back to keep the high-water mark low, less those that its rises have paid
                             for */
    struct growing_sizes growing;
};

/* Notes a request of `size` bytes that grows the pool, with which `live` bytes are live. */
void weir__mark_note_request(struct high_mark *mark, uint64_t size, uint64_t live);
/* Returns the bytes by which `reserved` would exceed the high-water mark, or 129/128 of the most live bytes if that is
 * more. */
uint64_t weir__mark_excess(const struct high_mark *mark, uint64_t reserved);
/* True if one more wait for queued work is worth `excess` bytes that the pool would otherwise hold beyond what is
 * cheap: each wait has to save another 1/waits_for_all of the most live bytes, so their number is bounded. */
bool weir__mark_affords_wait(const struct high_mark *mark, uint64_t excess);
/* True if giving back `count` of the pool's `regions` regions is worth a high-water mark that is `gain` bytes lower. If
 * so, adds `count` to the debt. */
bool weir__mark_affords(struct high_mark *mark, uint64_t gain, uint64_t count, uint64_t regions);
/* True if an idle region is so much larger than a request of `size` bytes that the rest is worth keeping. */
static inline bool weir__mark_is_much(uint64_t idle_bytes, uint64_t size)
{
    return idle_bytes > size && idle_bytes - size >= size / 4 * whole_quarters;
}
/* True if a large request of `size` bytes should not be cut out of an idle region of `idle_bytes` (0: the memory is not
 * a whole region), but get a region of its own. */
static inline bool weir__mark_keeps_whole(const struct high_mark *mark, uint64_t idle_bytes, uint64_t size)
{
    return __builtin_expect(idle_bytes > size + mark->whole_rest, 0) && weir__mark_is_much(idle_bytes, size);
}
/* Computes whole_rest anew after whole_calls, the live bytes or the limits have changed. Each further device call has
 * to keep another 1/whole_for_all of the most live bytes together, so their number is bounded. `never`: the pool splits
 * all idle regions. `near_limit`: the pool is so near its limit that memory matters more than device calls. */
void weir__mark_note_whole(struct high_mark *mark, bool never, bool near_limit);
/* Reduces the debt, because the high-water mark will rise by `gain` bytes that giving back regions could have saved. */
void weir__mark_buy(struct high_mark *mark, uint64_t gain, uint64_t regions);

#endif
