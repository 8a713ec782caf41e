/* core/src/memory/vm_window.c: see vm_window.h for the idea and the guarantee.
 *
 * Why a window costs no more granules than it must. A stretch is a maximal run of usable memory and holes. The fewest
 * new granules are needed where a window begins with a piece of the stretch or ends with one: moving the window from
 * there to either side exchanges memory that is there for memory that is not, one for one at best. If the alignment
 * forbids that place, the next multiples on both sides are tried instead. Each such place is then moved down to the
 * start of its first granule as far as the stretch goes, which never adds a granule.
 *
 * Cost: linear in the holes and the free ranges around them, and for each piece of a stretch linear in the pieces of a
 * window. A strategy without walk_holes is walked as a whole.
 */
#include "vm_window.h"

#include "shared/round_up.h"

#include <stdlib.h>

/* A part of a stretch of one kind: a hole, or usable memory. */
struct vm_piece {
    uint64_t address;
    uint64_t size;
    bool hole;
};

void weir__vm_scratch_fini(struct vm_scratch *scratch)
{
    free(scratch->pieces);
    *scratch = (struct vm_scratch){0};
}

static uint64_t down(uint64_t address, uint64_t unit)
{
    WEIR_ASSERT(is_power_of_two(unit));
    return address & ~(unit - 1);
}

static uint64_t up(uint64_t address, uint64_t unit)
{
    return down(address + unit - 1, unit);
}

bool weir__vm_reserve(void **array, size_t wanted, size_t *capacity, size_t element)
{
    WEIR_ASSERT(element != 0);
    if (wanted <= *capacity) {
        return true;
    }
    const size_t grown = wanted > *capacity * 2 ? wanted : *capacity * 2;
    void *larger = realloc(*array, grown * element);
    if (larger != NULL) {
        *array = larger;
        *capacity = grown;
    }
    return larger != NULL;
}

struct window_search {
    struct vm_scratch *scratch;
    const struct vm_view *view;
    const struct vm_wish *wish;
    bool failed; /* no host memory */
    size_t pieces;
    uint64_t memory;       /* bytes with memory in the stretch seen so far */
    uint64_t region;       /* start of the region that holds the stretch */
    struct vm_window best; /* best.end 0: no window found yet */
};

/* Returns the granules without memory in [from, to). `at` is the first piece to look at. */
static uint64_t missing(const struct window_search *search, size_t at, uint64_t from, uint64_t to)
{
    WEIR_ASSERT(at < search->pieces && from < to);
    const struct vm_piece *pieces = search->scratch->pieces;
    uint64_t bytes = 0;
    for (; at < search->pieces && pieces[at].address < to; at++) {
        const uint64_t piece_end = pieces[at].address + pieces[at].size;
        if (pieces[at].hole && piece_end > from) {
            bytes += (to < piece_end ? to : piece_end) - (from > pieces[at].address ? from : pieces[at].address);
        }
    }
    return bytes / search->view->granule;
}

static bool is_better(const struct vm_window *window, const struct vm_window *best)
{
    return best->end == 0 || (window->need != best->need ? window->need < best->need
                              : window->run != best->run ? window->run < best->run
                                                         : window->offset < best->offset);
}

/* Considers serving the request at `address`, which lies in piece `at` or below: keeps the window (granules to map) of
 * such a block if it costs less than the best window so far. */
static void consider_at(struct window_search *search, size_t at, uint64_t address, uint64_t run)
{
    WEIR_ASSERT(at < search->pieces);
    WEIR_ASSERT(address >= search->scratch->pieces[0].address);
    while (at > 0 && search->scratch->pieces[at].address > address) {
        at--;
    }
    struct vm_window window = {
        .address = address,
        .size = search->wish->size,
        .first = down(address, search->view->granule),
        .end = up(address + search->wish->size, search->view->granule),
        .run = run,
        .offset = address - search->region,
    };
    window.need = missing(search, at, window.first, window.end);
    if (is_better(&window, &search->best)) {
        search->best = window;
    }
}

/* Considers the request at the start of the granule that holds `address`, or at the start of the stretch if that is
 * higher, or else at `address` itself. */
static void consider(struct window_search *search, size_t at, uint64_t address, uint64_t run)
{
    const uint64_t first = down(address, search->view->granule);
    const uint64_t start = search->scratch->pieces[0].address;
    const uint64_t moved = up(start > first ? start : first, search->wish->align);
    consider_at(search, at, moved < address ? moved : address, run);
}

/* Considers the request at the multiples of its alignment next to `place`, if it fits into [start, end) there. */
static void consider_around(struct window_search *search, size_t at, uint64_t place, uint64_t run, uint64_t start,
                            uint64_t end)
{
    WEIR_ASSERT(at < search->pieces && end - start >= search->wish->size);
    const uint64_t below = down(place, search->wish->align);
    const uint64_t above = up(place, search->wish->align);
    if (below >= start && below <= end - search->wish->size) {
        consider(search, at, below, run);
    }
    if (above != below && above >= start && above <= end - search->wish->size) {
        consider(search, at, above, run);
    }
}

/* Considers every place for the request in the stretch [start, end). */
static void consider_all(struct window_search *search, uint64_t start, uint64_t end)
{
    const struct vm_piece *pieces = search->scratch->pieces;
    const uint64_t size = search->wish->size;
    for (size_t i = 0; i < search->pieces; i++) {
        const uint64_t run = pieces[i].hole ? UINT64_MAX : pieces[i].size;
        const uint64_t piece_end = pieces[i].address + pieces[i].size;
        consider_around(search, i, pieces[i].address, run, start, end);
        if (piece_end - start >= size) {
            consider_around(search, i, piece_end - size, run, start, end);
        }
    }
}

/* True if a block anywhere in the present stretch needs more new granules than the best window so far. */
static bool is_poor(const struct window_search *search)
{
    const struct vm_window *best = &search->best;
    return best->end != 0 && search->memory + best->need * search->view->granule < search->wish->size;
}

/* Ends a stretch (adjacent pieces): looks for the request's place in it, if it is large enough. */
static void end_stretch(struct window_search *search)
{
    const struct vm_piece *pieces = search->scratch->pieces;
    const uint64_t start = search->pieces > 0 ? pieces[0].address : 0;
    const uint64_t end = search->pieces > 0 ? pieces[search->pieces - 1].address + pieces[search->pieces - 1].size : 0;
    const uint64_t at = search->wish->at;
    const uint64_t size = search->wish->size;
    if (end - start >= size && at == 0 && !is_poor(search)) {
        consider_all(search, start, end);
    } else if (end - start >= size && at >= start && at <= end - size) {
        consider_at(search, search->pieces - 1, at, UINT64_MAX);
    }
    search->pieces = 0;
    search->memory = 0;
}

static bool add_piece(struct window_search *search, const weir_range_info *range, bool hole)
{
    struct vm_scratch *scratch = search->scratch;
    struct vm_piece *last = search->pieces > 0 ? &scratch->pieces[search->pieces - 1] : NULL;
    search->memory += hole ? 0 : range->size;
    if (last != NULL && last->hole == hole) {
        last->size += range->size;
        return true;
    }
    if (!weir__vm_reserve((void **)&scratch->pieces, search->pieces + 1, &scratch->capacity,
                          sizeof(*scratch->pieces))) {
        search->failed = true;
        return false;
    }
    scratch->pieces[search->pieces++] = (struct vm_piece){range->address, range->size, hole};
    return true;
}

static bool see_range(void *ctx, const weir_range_info *range)
{
    struct window_search *search = ctx;
    const bool hole = vm_is_hole(range);
    const bool memory = vm_is_usable(range, search->view->limits, search->view->lanes) &&
                        (search->wish->last_resort || !range->set_apart);
    const struct vm_piece *last = search->pieces > 0 ? &search->scratch->pieces[search->pieces - 1] : NULL;
    const bool follows = last != NULL && range->address == last->address + last->size;
    if (!follows || range->address == range->region_address || (!hole && !memory)) {
        end_stretch(search);
    }
    search->region = range->region_address;
    return (!hole && !memory) || add_piece(search, range, hole);
}

weir_status weir__vm_find_window(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_wish *wish,
                                 struct vm_window *window)
{
    WEIR_ASSERT(wish->size != 0 && is_power_of_two(wish->align) && is_power_of_two(view->granule));
    struct window_search search = {.scratch = scratch, .view = view, .wish = wish};
    if (view->walk_holes != NULL) {
        view->walk_holes(view->state, wish->size, see_range, &search);
    } else {
        view->strategy->walk(view->state, see_range, &search);
    }
    if (search.failed) {
        return WEIR_ERR_NO_MEMORY;
    }
    end_stretch(&search);
    if (search.best.end == 0) {
        return WEIR_ERR_LIMIT;
    }
    *window = search.best;
    return WEIR_OK;
}
