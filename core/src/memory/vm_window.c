/* core/src/memory/vm_window.c: see vm_window.h for the idea and the guarantee.
 *
 * Why a window costs no more granules than it must. A stretch is a maximal run of usable memory and holes. The fewest
 * new granules are needed where a window begins with a piece of the stretch or ends with one: moving the window from
 * there to either side exchanges memory that is there for memory that is not, one for one at best. If the alignment
 * forbids that place, the next multiples on both sides are tried instead. Each such place is then moved down to the
 * start of its first granule as far as the stretch goes, which never adds a granule. So a window either begins at a
 * granule, and touches ceil(size / granule) of them, or its first granule is partly in use. In the second case the
 * window touches at most one granule more, the partly used one, which could not be moved anyway. (An alignment above a
 * granule is a multiple of it; one below divides it.) The windows that touch the fewest granules that could be moved
 * lie at the ends of a stretch, which are among these places.
 *
 * Cost: a window is linear in the holes and the free ranges around them, or in the free ranges as large as the request;
 * and for each piece of a stretch linear in the pieces of a window. Idle granules are linear in the holes and the free
 * ranges around them, and if these are too few in the free ranges of at least a granule, up to the one that suffices if
 * no handle has several granules. A strategy without walk_holes and walk_free is walked as a whole.
 */
#include "vm_window.h"

#include "shared/round_up.h"

#include <stdlib.h>

/* A maximal part of a stretch (adjacent holes and usable ranges) that is of one kind: holes, memory in single granules,
 * or memory of one handle of several granules. In the last case, [low, high) is all memory of the handle. */
struct vm_piece {
    uint64_t address;
    uint64_t size;
    uint64_t low;
    uint64_t high; /* 0: no handle of several granules */
    bool hole;
};

void weir__vm_scratch_fini(struct vm_scratch *scratch)
{
    free(scratch->ranges);
    free(scratch->pieces);
    free(scratch->runs);
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

static bool usable(const struct vm_view *view, const weir_range_info *range)
{
    return !range->taken && range->lane < view->lanes && range->tick <= view->limits[range->lane];
}

/* --- windows --- */

struct window_search {
    struct vm_scratch *scratch;
    const struct vm_view *view;
    const struct vm_wish *wish;
    bool failed; /* no host memory */
    bool any_will_do;
    size_t ranges;
    size_t pieces;
    uint64_t memory;       /* bytes with memory in the adjacent ranges seen so far */
    uint64_t region;       /* start of the region that holds the ranges */
    struct vm_window best; /* best.end 0: no window found yet */
};

/* Returns the number of handles for the hole [from, to). Granules that lie wholly in the request [begin, end) share one
 * handle if there are at least view->least of them. */
static uint64_t handles_of(const struct vm_view *view, uint64_t from, uint64_t to, uint64_t begin, uint64_t end)
{
    WEIR_ASSERT(from < to && begin < end);
    const uint64_t low = up(begin, view->granule) > from ? up(begin, view->granule) : from;
    const uint64_t high = down(end, view->granule) < to ? down(end, view->granule) : to;
    const bool large = low < high && (high - low) / view->granule >= view->least;
    return (to - from) / view->granule - (large ? (high - low) / view->granule - 1 : 0);
}

/* Adds the window's granules without memory to window->need, and the handles for them to window->handles. The request
 * begins in piece `at` or above. */
static void count_missing(const struct window_search *search, size_t at, struct vm_window *window)
{
    WEIR_ASSERT(at < search->pieces);
    const struct vm_piece *pieces = search->scratch->pieces;
    const uint64_t end = window->address + window->size;
    for (; at < search->pieces && pieces[at].address < end; at++) {
        const uint64_t piece_end = pieces[at].address + pieces[at].size;
        if (pieces[at].hole && piece_end > window->address) {
            const uint64_t from = window->first > pieces[at].address ? window->first : pieces[at].address;
            const uint64_t to = window->end < piece_end ? window->end : piece_end;
            window->need += (to - from) / search->view->granule;
            window->handles += handles_of(search->view, from, to, window->address, end);
        }
    }
}

/* Returns the number of granules of [from, to) that no block touches: they lie wholly in search->pieces. */
static uint64_t untouched(const struct window_search *search, uint64_t from, uint64_t to)
{
    WEIR_ASSERT(search->pieces != 0);
    const uint64_t granule = search->view->granule;
    const struct vm_piece *pieces = search->scratch->pieces;
    const struct vm_piece *last = &pieces[search->pieces - 1];
    const uint64_t first = up(pieces[0].address, granule);
    const uint64_t end = down(last->address + last->size, granule);
    from = from > first ? from : first;
    to = to < end ? to : end;
    return from < to ? (to - from) / granule : 0;
}

/* True if the request contains each large handle that it touches as a whole. `at` is the first piece to look at. */
static bool has_whole_handles(const struct window_search *search, size_t at, const struct vm_window *window)
{
    const struct vm_piece *pieces = search->scratch->pieces;
    const uint64_t end = window->address + window->size;
    for (; at < search->pieces && pieces[at].address < end; at++) {
        if (pieces[at].high != 0 && pieces[at].address + pieces[at].size > window->address &&
            (pieces[at].low < window->address || pieces[at].high > end)) {
            return false;
        }
    }
    return true;
}

static bool is_better(const struct window_search *search, const struct vm_window *window)
{
    const struct vm_window *best = &search->best;
    if (best->end == 0) {
        return true;
    }
    if (search->wish->kind == WINDOW_FRUGAL && window->own != best->own) {
        return window->own < best->own;
    }
    if (window->need != best->need || window->handles != best->handles) {
        return window->need != best->need ? window->need < best->need : window->handles < best->handles;
    }
    if (window->run != best->run) {
        return window->run < best->run;
    }
    return window->offset < best->offset;
}

/* Considers serving the request at `address`, which lies in piece `at` or below: keeps the window (granules to map) of
 * such a block if it costs less than the best window so far. Returns false, and keeps nothing, if the block would
 * contain only a part of a memory handle of several granules. */
static bool consider_at(struct window_search *search, size_t at, uint64_t address, uint64_t run)
{
    WEIR_ASSERT(at < search->pieces);
    WEIR_ASSERT(address >= search->scratch->pieces[0].address);
    const uint64_t granule = search->view->granule;
    const struct vm_piece *pieces = search->scratch->pieces;
    const uint64_t size = search->wish->size;
    while (at > 0 && pieces[at].address > address) {
        at--;
    }
    struct vm_window window = {
        .address = address,
        .size = size,
        .first = down(address, granule),
        .end = up(address + size, granule),
        .own = untouched(search, down(address, granule), up(address + size, granule)),
        .run = run,
        .offset = address - search->region,
    };
    if (!has_whole_handles(search, at, &window)) {
        return false;
    }
    count_missing(search, at, &window);
    if ((search->wish->kind != WINDOW_MAPPED || window.need == 0) && is_better(search, &window)) {
        search->best = window;
    }
    return true;
}

/* Considers the request at the start of the granule that holds `address`, or at the start of the first piece if that is
 * higher. If the request cannot lie there, considers it at `address` itself. */
static void consider(struct window_search *search, size_t at, uint64_t address, uint64_t run)
{
    const uint64_t first = down(address, search->view->granule);
    const uint64_t start = search->scratch->pieces[0].address;
    const uint64_t moved = up(start > first ? start : first, search->wish->align);
    if (moved >= address || !consider_at(search, at, moved, run)) {
        (void)consider_at(search, at, address, run);
    }
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

/* Appends to search->pieces the piece at `address`, which ends at `end` or earlier. Returns the end of the piece. */
static uint64_t add_piece(struct window_search *search, uint64_t address, uint64_t end, bool hole)
{
    WEIR_ASSERT(address < end);
    struct vm_scratch *scratch = search->scratch;
    const struct vm_view *view = search->view;
    struct vm_piece piece = {.address = address, .hole = hole};
    uint64_t next = end;
    if (!hole && view->find_handle != NULL && view->find_handle(view->handles, address, end, &piece.low, &piece.high)) {
        next = piece.low > address ? piece.low : piece.high < end ? piece.high : end;
        piece.high = piece.low > address ? 0 : piece.high;
        piece.low = piece.low > address ? 0 : piece.low;
    }
    piece.size = next - address;
    WEIR_ASSERT(next > address && next <= end);
    struct vm_piece *last = search->pieces > 0 ? &scratch->pieces[search->pieces - 1] : NULL;
    if (last != NULL && last->hole == hole && last->low == piece.low && last->high == piece.high) {
        last->size += piece.size;
    } else if (weir__vm_reserve((void **)&scratch->pieces, search->pieces + 1, &scratch->piece_capacity,
                                sizeof(*scratch->pieces))) {
        scratch->pieces[search->pieces++] = piece;
    } else {
        search->failed = true;
    }
    return next;
}

static void cut_into_pieces(struct window_search *search)
{
    search->pieces = 0;
    for (size_t i = 0; i < search->ranges; i++) {
        const struct vm_piece range = search->scratch->ranges[i];
        const uint64_t end = range.address + range.size;
        for (uint64_t at = range.address; at < end && !search->failed;) {
            at = add_piece(search, at, end, range.hole);
        }
    }
}

/* True if a block anywhere in the present ranges needs more new granules than the best window so far. */
static bool is_poor(const struct window_search *search)
{
    const struct vm_window *best = &search->best;
    return search->wish->kind == WINDOW_CHEAP && best->end != 0 &&
           search->memory + best->need * search->view->granule < search->wish->size;
}

/* Ends a series of adjacent ranges: considers every place for the request in it, if the series is large enough. */
static void end_stretch(struct window_search *search)
{
    const struct vm_piece *ranges = search->scratch->ranges;
    const struct vm_piece *pieces = NULL;
    const uint64_t start = search->ranges > 0 ? ranges[0].address : 0;
    const uint64_t end = search->ranges > 0 ? ranges[search->ranges - 1].address + ranges[search->ranges - 1].size : 0;
    if (end - start >= search->wish->size && !is_poor(search)) {
        cut_into_pieces(search);
        pieces = search->scratch->pieces;
    }
    const uint64_t at = search->wish->at;
    if (at != 0 && pieces != NULL && !search->failed && at >= start && at <= end - search->wish->size) {
        (void)consider_at(search, search->pieces - 1, at, UINT64_MAX);
    }
    for (size_t i = 0; at == 0 && pieces != NULL && !search->failed && i < search->pieces; i++) {
        const uint64_t run = pieces[i].hole ? UINT64_MAX : pieces[i].size;
        const uint64_t piece_end = pieces[i].address + pieces[i].size;
        consider_around(search, i, pieces[i].address, run, start, end);
        if (piece_end - start >= search->wish->size) {
            consider_around(search, i, piece_end - search->wish->size, run, start, end);
        }
    }
    search->ranges = 0;
    search->memory = 0;
}

static bool see_window_range(void *ctx, const weir_range_info *range)
{
    struct window_search *search = ctx;
    struct vm_scratch *scratch = search->scratch;
    const bool hole = !range->taken && range->lane == WEIR_LANE_UNMAPPED;
    const bool free_memory = usable(search->view, range) && (search->wish->last_resort || !range->set_apart);
    const bool fits_in = (hole && search->wish->kind != WINDOW_MAPPED) || free_memory;
    const struct vm_piece *last = search->ranges > 0 ? &scratch->ranges[search->ranges - 1] : NULL;
    const bool follows = last != NULL && range->address == last->address + last->size;
    if (!follows || range->address == range->region_address || !fits_in) {
        end_stretch(search);
    }
    if (search->failed || (search->any_will_do && search->best.end != 0)) {
        return false;
    }
    if (!fits_in) {
        return true;
    }
    if (!weir__vm_reserve((void **)&scratch->ranges, search->ranges + 1, &scratch->range_capacity,
                          sizeof(*scratch->ranges))) {
        search->failed = true;
        return false;
    }
    search->region = range->region_address;
    search->memory += hole ? 0 : range->size;
    scratch->ranges[search->ranges++] = (struct vm_piece){.address = range->address, .size = range->size, .hole = hole};
    return true;
}

weir_status weir__vm_find_window(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_wish *wish,
                                 struct vm_window *window)
{
    WEIR_ASSERT(wish->size != 0 && is_power_of_two(wish->align) && is_power_of_two(view->granule));
    struct window_search search = {.scratch = scratch, .view = view, .wish = wish};
    if (wish->kind == WINDOW_MAPPED && view->walk_free != NULL) {
        search.any_will_do = true;
        view->walk_free(view->state, wish->size, see_window_range, &search);
    } else if (wish->kind != WINDOW_MAPPED && view->walk_holes != NULL) {
        view->walk_holes(view->state, wish->size, see_window_range, &search);
    } else {
        view->strategy->walk(view->state, see_window_range, &search);
    }
    if (!search.failed) {
        end_stretch(&search);
    }
    if (search.failed) {
        return WEIR_ERR_NO_MEMORY;
    }
    if (search.best.end == 0) {
        return WEIR_ERR_LIMIT;
    }
    *window = search.best;
    return WEIR_OK;
}

/* --- idle granules --- */

/* The runs that a walk notes. */
enum idle_kind { IDLE_BESIDE_HOLES, IDLE_ELSEWHERE, IDLE_ALL };

struct idle_search {
    struct vm_scratch *scratch;
    const struct vm_view *view;
    const struct vm_window *window;
    uint64_t start; /* [start, end): the run of usable memory seen so far; empty if they are equal */
    uint64_t end;
    uint64_t next;     /* end of the last range */
    uint64_t granules; /* found so far */
    uint64_t enough;   /* the walk ends at that many */
    enum idle_kind kind;
    weir_lane lane;
    bool hole_below; /* of the present run */
    bool after_hole; /* the last range was a hole */
    bool failed;
};

static void note_run(struct idle_search *search, uint64_t from, uint64_t to, bool hole_below, bool hole_above,
                     bool large)
{
    struct vm_scratch *scratch = search->scratch;
    const bool beside_hole = hole_below || hole_above;
    const bool wanted = search->kind == IDLE_ALL || beside_hole == (search->kind == IDLE_BESIDE_HOLES);
    if (from >= to || search->failed || !wanted) {
        return;
    }
    if (!weir__vm_reserve((void **)&scratch->runs, scratch->run_count + 1, &scratch->run_capacity,
                          sizeof(*scratch->runs))) {
        search->failed = true;
        return;
    }
    const uint64_t granules = (to - from) / search->view->granule;
    const uint64_t need = search->window != NULL ? search->window->need : 0;
    scratch->runs[scratch->run_count] = (struct vm_run){
        .address = from,
        .granules = granules,
        .rank = !large                                              ? 1
                : granules <= need || granules > search->view->most ? 0
                                                                    : 2,
        .lane = search->lane,
        .large = large,
        .hole_below = hole_below,
        .beside_hole = beside_hole,
    };
    search->granules += scratch->runs[scratch->run_count++].granules;
}

/* Adds the idle granules in [from, to) to scratch->runs. Each large handle is a run of its own; one that is only partly
 * idle is left out. */
static void note_idle(struct idle_search *search, uint64_t from, uint64_t to, bool hole_below, bool hole_above)
{
    const struct vm_view *view = search->view;
    uint64_t low = 0;
    uint64_t high = 0;
    while (view->find_handle != NULL && from < to && view->find_handle(view->handles, from, to, &low, &high)) {
        note_run(search, from, low, hole_below, false, false);
        if (low >= from && high <= to) {
            note_run(search, low, high, hole_below && low == from, hole_above && high == to, true);
        }
        hole_below = false;
        from = high;
    }
    note_run(search, from, to, hole_below, hole_above, false);
}

/* Ends the usable memory [search->start, search->end) and notes its idle granules. Granules of the window are left out,
 * because they stay where they are. */
static void end_idle(struct idle_search *search, bool hole_above)
{
    const uint64_t from = up(search->start, search->view->granule);
    const uint64_t to = down(search->end, search->view->granule);
    const struct vm_window *window = search->window;
    search->start = search->end = 0;
    if (from >= to) {
        return;
    }
    if (window == NULL || window->end <= from || to <= window->first) {
        note_idle(search, from, to, search->hole_below, hole_above);
    } else {
        note_idle(search, from, window->first, search->hole_below, false);
        note_idle(search, window->end, to, false, hole_above);
    }
}

static bool see_idle_range(void *ctx, const weir_range_info *range)
{
    struct idle_search *search = ctx;
    const bool idle = usable(search->view, range);
    const bool hole = !range->taken && range->lane == WEIR_LANE_UNMAPPED;
    if (range->address == range->region_address || range->address != search->next) {
        end_idle(search, false);
        search->after_hole = false;
    }
    search->next = range->address + range->size;
    if (!idle) {
        end_idle(search, hole);
    } else if (search->start == search->end) {
        search->start = range->address;
        search->end = range->address + range->size;
        search->lane = range->lane;
        search->hole_below = search->after_hole;
    } else {
        search->end += range->size;
        search->lane = range->lane == search->lane ? range->lane : WEIR_LANE_OPEN;
    }
    search->after_hole = hole;
    return !search->failed && search->granules < search->enough;
}

/* True if run `a` is moved before run `b`. First come large handles that a hole of the window can take as they are, or
 * that are too large to be mapped again; of these the largest first. Then come runs beside holes, then the smallest
 * runs. */
static bool is_cheaper(const struct vm_run *a, const struct vm_run *b)
{
    if (a->rank != b->rank) {
        return a->rank < b->rank;
    }
    if (a->rank != 0 && a->beside_hole != b->beside_hole) {
        return a->beside_hole;
    }
    if (a->granules != b->granules) {
        return (a->granules < b->granules) == (a->rank != 0);
    }
    return a->address < b->address;
}

/* Moves the run at `at` down the heap of `count` runs until no run below it is cheaper. */
static void sift(struct vm_run *runs, size_t count, size_t at)
{
    WEIR_ASSERT(at < count || count == 0);
    const struct vm_run run = runs[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && is_cheaper(&runs[child + 1], &runs[child]);
        if (!is_cheaper(&runs[child], &run)) {
            break;
        }
        runs[at] = runs[child];
        at = child;
    }
    runs[at] = run;
}

static bool is_heap(const struct vm_run *runs, size_t count)
{
    for (size_t child = 1; child < count; child++) {
        if (is_cheaper(&runs[child], &runs[(child - 1) / 2])) {
            return false;
        }
    }
    return true;
}

const struct vm_run *weir__vm_take_run(struct vm_scratch *scratch)
{
    WEIR_ASSERT(scratch->run_count != 0);
    const size_t last = --scratch->run_count;
    const struct vm_run run = scratch->runs[0];
    scratch->runs[0] = scratch->runs[last];
    scratch->runs[last] = run;
    sift(scratch->runs, last, 0);
    WEIR_ASSERT_THOROUGH(is_heap(scratch->runs, last));
    return &scratch->runs[last];
}

weir_status weir__vm_find_idle(struct vm_scratch *scratch, const struct vm_view *view, const struct vm_window *window,
                               uint64_t wanted, uint64_t *granules)
{
    WEIR_ASSERT(wanted != 0 && is_power_of_two(view->granule));
    struct idle_search search = {.scratch = scratch, .view = view, .window = window};
    const bool may_end = view->find_handle == NULL;
    search.enough = may_end ? wanted : UINT64_MAX;
    search.kind = IDLE_ALL;
    scratch->run_count = 0;
    if (may_end && view->walk_holes != NULL) {
        search.kind = IDLE_BESIDE_HOLES;
        view->walk_holes(view->state, view->granule, see_idle_range, &search);
        end_idle(&search, false);
        search.kind = IDLE_ELSEWHERE;
    }
    if (search.granules < search.enough && view->walk_free != NULL) {
        view->walk_free(view->state, view->granule, see_idle_range, &search);
    } else if (search.granules < search.enough) {
        view->strategy->walk(view->state, see_idle_range, &search);
    }
    end_idle(&search, false);
    if (search.failed) {
        return WEIR_ERR_NO_MEMORY;
    }
    for (size_t at = scratch->run_count / 2; at-- > 0;) {
        sift(scratch->runs, scratch->run_count, at);
    }
    *granules = search.granules;
    return WEIR_OK;
}
