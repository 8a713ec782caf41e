/* allocators/src/runs.c: see runs.h for the idea and the cost. */
#include "runs.h"

#include <stdlib.h>
#include <string.h>

/* --- life and lanes --- */

void weir__runs_fini(struct runs *runs)
{
    while (runs->first_region != NULL) {
        struct range_region *next = runs->first_region->next;
        free(runs->first_region);
        runs->first_region = next;
    }
    if (runs->lanes != NULL) {
        struct run_lane *lanes = run_lane_of(runs, WEIR_LANE_UNMAPPED);
        for (size_t i = 0; i <= runs->lane_count; i++) {
            free(lanes[i].index[RUN_SMALL]);
            free(lanes[i].index[RUN_LARGE]);
        }
        free(lanes);
    }
    weir__range_store_fini(&runs->store);
}

/* Room for the lanes below `count`, and for the unmapped one. */
static bool reserve_lanes(struct runs *runs, size_t count)
{
    const size_t held = runs->lanes != NULL ? runs->lane_count + 1 : 0;
    struct run_lane *lanes = runs->lanes != NULL ? run_lane_of(runs, WEIR_LANE_UNMAPPED) : NULL;
    lanes = realloc(lanes, (count + 1) * sizeof(*lanes));
    if (lanes == NULL) {
        return false;
    }
    memset(lanes + held, 0, (count + 1 - held) * sizeof(*lanes));
    runs->lanes = lanes + 1;
    runs->lane_count = count;
    return true;
}

weir_status weir__runs_lane_add(struct runs *runs, weir_lane number)
{
    const size_t wanted = number == WEIR_LANE_UNMAPPED ? 1 : (size_t)number + 1;
    if (wanted > runs->lane_count && !reserve_lanes(runs, wanted + 7)) {
        return WEIR_ERR_NO_MEMORY;
    }
    struct run_lane *lane = run_lane_of(runs, number);
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        if (lane->index[kind] == NULL) {
            lane->index[kind] = calloc(1, sizeof(*lane->index[kind]));
        }
    }
    return lane->index[RUN_SMALL] != NULL && lane->index[RUN_LARGE] != NULL ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* `older` NULL: the range becomes the oldest. */
static void link_after(struct run_lane *lane, struct range *range, struct range *older)
{
    range->older = older;
    range->newer = older != NULL ? older->newer : lane->oldest;
    if (range->newer != NULL) {
        range->newer->older = range;
    } else {
        lane->newest = range;
    }
    if (older != NULL) {
        older->newer = range;
    } else {
        lane->oldest = range;
    }
}

static void unlink_by_tick(struct run_lane *lane, struct range *range)
{
    if (range->older != NULL) {
        range->older->newer = range->newer;
    } else {
        lane->oldest = range->newer;
    }
    if (range->newer != NULL) {
        range->newer->older = range->older;
    } else {
        lane->newest = range->older;
    }
}

/* After which range of the lane one with that tick belongs. Frees come with the latest tick, new regions with none. */
static struct range *place_of(const struct run_lane *lane, weir_tick tick)
{
    struct range *older = lane->newest;
    if (older != NULL && lane->oldest->tick >= tick && older->tick > tick) {
        return NULL;
    }
    while (older != NULL && older->tick > tick) {
        older = older->older;
    }
    return older;
}

/* --- free bytes --- */

static void enter_idle(struct runs *runs, struct range_region *region)
{
    region->idle_prev = NULL;
    region->idle_next = runs->idle;
    if (runs->idle != NULL) {
        runs->idle->idle_prev = region;
    }
    runs->idle = region;
}

static void leave_idle(struct runs *runs, struct range_region *region)
{
    if (region->idle_prev != NULL) {
        region->idle_prev->idle_next = region->idle_next;
    } else {
        runs->idle = region->idle_next;
    }
    if (region->idle_next != NULL) {
        region->idle_next->idle_prev = region->idle_prev;
    }
}

static inline void more_free(struct runs *runs, struct run_lane *lane, struct range_region *region, uint64_t bytes)
{
    lane->bytes += bytes;
    region->free_bytes += bytes;
    if (region->free_bytes == region->size) {
        enter_idle(runs, region);
    }
}

static inline void less_free(struct runs *runs, struct run_lane *lane, struct range_region *region, uint64_t bytes)
{
    if (region->free_bytes == region->size) {
        leave_idle(runs, region);
    }
    lane->bytes -= bytes;
    region->free_bytes -= bytes;
}

/* --- entering and leaving a lane --- */

static inline void insert_after(struct runs *runs, struct range *range, struct range *older)
{
    struct run_lane *lane = run_lane_of(runs, range->lane);
    link_after(lane, range, older);
    lane->ranges++;
    more_free(runs, lane, range->region, range->size);
    if (range->in_slab) {
        runs->slots->enter(runs, range);
    } else {
        range_index_insert(lane->index[range->region->kind], range);
    }
}

static inline void lane_insert(struct runs *runs, struct range *range)
{
    insert_after(runs, range, place_of(run_lane_of(runs, range->lane), range->tick));
}

static inline void lane_remove(struct runs *runs, struct range *range)
{
    struct run_lane *lane = run_lane_of(runs, range->lane);
    unlink_by_tick(lane, range);
    lane->ranges--;
    less_free(runs, lane, range->region, range->size);
    if (range->in_slab) {
        runs->slots->leave(runs, range);
    } else {
        range_index_remove(lane->index[range->region->kind], range);
    }
}

/* The range, free in its lane and no slot, has swallowed a neighbour of `added` bytes that was freed at `tick`. The later
 * tick survives: with the earlier one, the whole would be handed out while work on one part is still running. */
static inline void lane_grown(struct runs *runs, struct range *range, uint64_t added, weir_tick tick)
{
    struct run_lane *lane = run_lane_of(runs, range->lane);
    more_free(runs, lane, range->region, added);
    range_index_resized(lane->index[range->region->kind], range, range->size - added);
    if (tick > range->tick) {
        unlink_by_tick(lane, range);
        range->tick = tick;
        link_after(lane, range, place_of(lane, tick));
    }
}

/* The range, free in its lane and no slot, has lost `taken` bytes. Its place in the order of ticks stays. */
static inline void lane_shrunk(struct runs *runs, struct range *range, uint64_t taken)
{
    struct run_lane *lane = run_lane_of(runs, range->lane);
    less_free(runs, lane, range->region, taken);
    range_index_resized(lane->index[range->region->kind], range, range->size + taken);
}

void weir__runs_insert_after(struct runs *runs, struct range *range, struct range *older)
{
    insert_after(runs, range, older);
}

void weir__runs_remove(struct runs *runs, struct range *range)
{
    lane_remove(runs, range);
}

/* Takes a free range out of its lane and, when it is a slot, out of its slab. */
static void detach(struct runs *runs, struct range *range)
{
    lane_remove(runs, range);
    if (range->in_slab) {
        runs->slots->quit(runs, range);
    }
}

/* --- neighbours --- */

static void unlink_neighbour(struct runs *runs, struct range *range)
{
    if (range->prev != NULL) {
        range->prev->next = range->next;
    } else {
        range->region->first = range->next;
    }
    if (range->next != NULL) {
        range->next->prev = range->prev;
    }
    weir__range_delete(&runs->store, range);
}

/* The later tick survives: with the earlier one, the whole would be handed out while work on one part is still
 * running. */
static inline void absorb_next(struct runs *runs, struct range *range)
{
    struct range *next = range->next;
    range->size += next->size;
    range->tick = next->tick > range->tick ? next->tick : range->tick;
    unlink_neighbour(runs, next);
}

void weir__runs_absorb_next(struct runs *runs, struct range *range)
{
    absorb_next(runs, range);
}

static bool joins(const struct range *neighbour, const struct range *range)
{
    return neighbour != NULL && !neighbour->taken && !neighbour->in_slab && neighbour->lane == range->lane;
}

/* The upper neighbour, free in the range's lane, grows downwards over the range. */
static inline struct range *join_next(struct runs *runs, struct range *range)
{
    struct range *next = range->next;
    const uint64_t added = range->size;
    next->address = range->address;
    next->size += added;
    const weir_tick tick = range->tick;
    unlink_neighbour(runs, range);
    lane_grown(runs, next, added, tick);
    return next;
}

/* The lower neighbour, free in the range's lane, grows upwards over the range. */
static inline struct range *join_prev(struct runs *runs, struct range *range)
{
    struct range *prev = range->prev;
    const uint64_t added = range->size;
    const weir_tick tick = range->tick;
    prev->size += added;
    unlink_neighbour(runs, range);
    lane_grown(runs, prev, added, tick);
    return prev;
}

static inline struct range *settle(struct runs *runs, struct range *range)
{
    range->taken = false;
    if (!range->in_slab) {
        const bool lower = joins(range->prev, range);
        if (joins(range->next, range)) {
            if (!lower) {
                return join_next(runs, range);
            }
            lane_remove(runs, range->next);
            absorb_next(runs, range);
        }
        if (lower) {
            return join_prev(runs, range);
        }
    }
    lane_insert(runs, range);
    return range;
}

struct range *weir__runs_settle(struct runs *runs, struct range *range)
{
    return settle(runs, range);
}

/* Cuts `bytes` off the low end of a free range that is in no lane; the rest, a new range, keeps lane and tick. */
static struct range *split(struct runs *runs, struct range *range, uint64_t bytes)
{
    struct range *rest = weir__range_new(&runs->store);
    if (rest == NULL) {
        return NULL;
    }
    *rest = (struct range){
        .address = range->address + bytes,
        .size = range->size - bytes,
        .prev = range,
        .next = range->next,
        .tick = range->tick,
        .region = range->region,
        .lane = range->lane,
    };
    if (rest->next != NULL) {
        rest->next->prev = rest;
    }
    range->next = rest;
    range->size = bytes;
    return rest;
}

/* --- regions --- */

/* As many whole requests as fit into `room`, or one more, whichever leaves the smaller share as a rest that no such
 * request fits: runs of equal sizes are what training and inference ask for. */
static uint64_t whole_requests(uint64_t need, uint64_t room, uint64_t granularity)
{
    const uint64_t count = room / need;
    const uint64_t fewer = run_round_up(count * need, granularity);
    const uint64_t more = run_round_up((count + 1) * need, granularity);
    const double rest_of_fewer = (double)(fewer - count * need) / (double)fewer;
    const double rest_of_more = (double)(more - (count + 1) * need) / (double)more;
    return rest_of_more < rest_of_fewer ? more : fewer;
}

/* Regions grow with the pool, so that a small pool stays small: a step is 1/8 of what is reserved, at most `most`, and
 * ends at a multiple of itself. Half of the largest step and more is taken as it is. */
uint64_t weir__runs_region_size(uint64_t need, uint64_t most, uint64_t reserved, uint64_t granularity)
{
    uint64_t room = reserved / 8 < most ? reserved / 8 : most;
    if (need >= most / 2 || need >= room) {
        return run_round_up(need, granularity);
    }
    uint64_t to_multiple = room - reserved % room;
    return whole_requests(need, to_multiple >= need ? to_multiple : room, granularity);
}

weir_status weir__runs_region_add(struct runs *runs, enum run_kind kind, uint64_t address, uint64_t size,
                                  weir_lane lane, weir_tick tick, void **out)
{
    runs->gathered = NULL;
    struct range_region *region = calloc(1, sizeof(*region));
    struct range *range = weir__range_new(&runs->store);
    if (region == NULL || range == NULL) {
        free(region);
        if (range != NULL) {
            weir__range_delete(&runs->store, range);
        }
        return WEIR_ERR_NO_MEMORY;
    }
    *region = (struct range_region){
        .address = address,
        .size = size,
        .serial = runs->next_serial++,
        .first = range,
        .prev = runs->last_region,
        .kind = kind,
    };
    if (runs->last_region != NULL) {
        runs->last_region->next = region;
    } else {
        runs->first_region = region;
    }
    runs->last_region = region;
    runs->regions++;
    runs->region_bytes += size;
    *range = (struct range){ .address = address, .size = size, .region = region, .lane = lane, .tick = tick };
    lane_insert(runs, range);
    *out = region;
    return WEIR_OK;
}

static bool is_idle(const struct range_region *region, const weir_tick *limits, size_t lanes)
{
    if (region->free_bytes != region->size) {
        return false;
    }
    const struct range *range = region->first;
    while (range != NULL && run_eligible(range, limits, lanes)) {
        range = range->next;
    }
    return range == NULL;
}

weir_status weir__runs_region_remove(struct runs *runs, void *handle, const weir_tick *limits, size_t lanes)
{
    struct range_region *region = handle;
    runs->gathered = NULL;
    if (!is_idle(region, limits, lanes)) {
        return WEIR_ERR_BUSY;
    }
    while (region->first != NULL) {
        detach(runs, region->first);
        unlink_neighbour(runs, region->first);
    }
    if (region->prev != NULL) {
        region->prev->next = region->next;
    } else {
        runs->first_region = region->next;
    }
    if (region->next != NULL) {
        region->next->prev = region->prev;
    } else {
        runs->last_region = region->prev;
    }
    runs->regions--;
    runs->region_bytes -= region->size;
    free(region);
    return WEIR_OK;
}

bool weir__runs_region_idle(const struct runs *runs, const weir_tick *limits, size_t lanes, uint64_t *address)
{
    for (const struct range_region *region = runs->idle; region != NULL; region = region->idle_next) {
        if (is_idle(region, limits, lanes)) {
            *address = region->address;
            return true;
        }
    }
    return false;
}

/* --- ranges --- */

/* Cuts `bytes` off the low end of a free range, which keeps its place in the lane. */
static inline struct range *cut_low(struct runs *runs, struct range *range, uint64_t bytes)
{
    struct range *low = weir__range_new(&runs->store);
    if (low == NULL) {
        return NULL;
    }
    *low = (struct range){
        .address = range->address,
        .size = bytes,
        .prev = range->prev,
        .next = range,
        .older = range,
        .tick = range->tick,
        .region = range->region,
        .lane = range->lane,
    };
    if (low->prev != NULL) {
        low->prev->next = low;
    } else {
        low->region->first = low;
    }
    range->prev = low;
    range->address += bytes;
    range->size -= bytes;
    lane_shrunk(runs, range, bytes);
    return low;
}

/* The same from `padding` bytes on: what lies below keeps the record and its place. */
static struct range *cut_inside(struct runs *runs, struct range *range, uint64_t padding, uint64_t bytes)
{
    const uint64_t size = range->size;
    struct range *middle = split(runs, range, padding);
    if (middle == NULL) {
        return NULL;
    }
    lane_shrunk(runs, range, size - padding);
    middle->older = range;
    if (middle->size == bytes) {
        return middle;
    }
    struct range *rest = split(runs, middle, bytes);
    if (rest == NULL) {
        (void)settle(runs, middle);
        return NULL;
    }
    insert_after(runs, rest, range);
    return middle;
}

static inline struct range *cut(struct runs *runs, struct range *range, uint64_t bytes, uint64_t align)
{
    const uint64_t padding = range_padding(range, align);
    if (padding != 0) {
        return cut_inside(runs, range, padding, bytes);
    }
    if (range->size > bytes) {
        return cut_low(runs, range, bytes);
    }
    struct range *older = range->older;
    lane_remove(runs, range);
    range->older = older;
    return range;
}

struct range *weir__runs_cut(struct runs *runs, struct range *range, uint64_t bytes, uint64_t align)
{
    return cut(runs, range, bytes, align);
}

struct range *weir__runs_cut_high(struct runs *runs, struct range *range, uint64_t bytes, uint64_t align)
{
    const uint64_t start = (range->address + range->size - bytes) & ~(align - 1);
    return start > range->address ? cut_inside(runs, range, start - range->address, bytes)
                                  : cut(runs, range, bytes, align);
}

static inline void hand_out(struct runs *runs, struct range *range, weir_range *out)
{
    range->taken = true;
    runs->taken_ranges++;
    runs->taken_bytes += range->size;
    *out = (weir_range){ .address = range->address, .size = range->size, .token = range, .tick = range->tick };
}

void weir__runs_hand_out(struct runs *runs, struct range *range, weir_range *out)
{
    hand_out(runs, range, out);
}

/* The best range, still in its lane; NULL when none holds the request. */
static inline struct range *find(struct runs *runs, enum run_kind kind, weir_lane lane, weir_tick limit, uint64_t bytes,
                                 uint64_t align)
{
    if (lane >= runs->lane_count || runs->lanes[lane].ranges == 0) {
        return NULL;
    }
    struct range *range = run_take_gathered(runs, lane, limit, bytes, align);
    return range != NULL ? range : weir__range_index_find(runs->lanes[lane].index[kind], bytes, align, limit);
}

weir_status weir__runs_alloc(struct runs *runs, enum run_kind kind, weir_lane lane, weir_tick limit, uint64_t bytes,
                             uint64_t align, weir_range *out)
{
    struct range *range = find(runs, kind, lane, limit, bytes, align);
    if (range == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    range = cut(runs, range, bytes, align);
    if (range == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    hand_out(runs, range, out);
    return WEIR_OK;
}

weir_status weir__runs_alloc_high(struct runs *runs, enum run_kind kind, weir_lane lane, weir_tick limit, uint64_t bytes,
                                  uint64_t align, weir_range *out)
{
    struct range *range = find(runs, kind, lane, limit, bytes, align);
    if (range == NULL) {
        return WEIR_ERR_NO_MEMORY;
    }
    range = weir__runs_cut_high(runs, range, bytes, align);
    if (range == NULL) {
        return WEIR_ERR_INTERNAL;
    }
    hand_out(runs, range, out);
    return WEIR_OK;
}

void weir__runs_free(struct runs *runs, struct range *range, weir_lane lane, weir_tick tick)
{
    runs->gathered = NULL;
    runs->taken_ranges--;
    runs->taken_bytes -= range->size;
    range->lane = lane;
    range->tick = tick;
    (void)settle(runs, range);
}

uint64_t weir__runs_promote(struct runs *runs, weir_lane number, weir_tick limit)
{
    uint64_t moved = 0;
    runs->gathered = NULL;
    if (number == WEIR_LANE_OPEN || number >= runs->lane_count) {
        return 0;
    }
    struct run_lane *lane = &runs->lanes[number];
    while (lane->oldest != NULL && lane->oldest->tick <= limit) {
        struct range *range = lane->oldest;
        lane_remove(runs, range);
        moved += range->size;
        range->lane = WEIR_LANE_OPEN;
        range->tick = 0;
        (void)settle(runs, range);
    }
    return moved;
}

/* --- gather --- */

struct run {
    struct range *first;
    struct range *end; /* the range after the last, NULL at the region's end */
    uint64_t size;
};

static bool usable(const struct range *range, const struct run_wish *wish)
{
    return run_eligible(range, wish->limits, wish->lanes) &&
           (!range->in_slab || (wish->slot_usable != NULL && wish->slot_usable(range)));
}

/* The smallest run of usable neighbours that holds the request. */
static bool best_run(const struct runs *runs, enum run_kind kind, const struct run_wish *wish, struct run *best)
{
    best->first = NULL;
    for (struct range_region *region = runs->first_region; region != NULL; region = region->next) {
        if (region->kind != (unsigned)kind || region->free_bytes < wish->bytes) {
            continue;
        }
        struct range *range = region->first;
        while (range != NULL) {
            if (!usable(range, wish)) {
                range = range->next;
                continue;
            }
            struct run run = { .first = range, .end = range, .size = 0 };
            while (run.end != NULL && usable(run.end, wish)) {
                run.size += run.end->size;
                run.end = run.end->next;
            }
            uint64_t padding = range_padding(run.first, wish->align);
            if (run.size >= wish->bytes && run.size - wish->bytes >= padding &&
                (best->first == NULL || run.size < best->size)) {
                *best = run;
            }
            range = run.end;
        }
    }
    return best->first != NULL;
}

bool weir__runs_others_hold_any(const struct runs *runs, weir_lane own)
{
    for (size_t lane = 0; lane < runs->lane_count; lane++) {
        if (lane != own && runs->lanes[lane].ranges != 0) {
            return true;
        }
    }
    return false;
}

/* The run becomes the lane's as of `tick`, or as of the latest tick of the lane's own ranges, where that is later: then
 * the lane's stream is ordered after all of it. A neighbour in the same lane with a later tick joins as in any free.
 */
static struct range *take_in(struct runs *runs, const struct run *run, weir_lane lane, weir_tick tick)
{
    struct range *whole = run->first;
    for (const struct range *range = whole; range != run->end; range = range->next) {
        tick = range->lane == lane && range->tick > tick ? range->tick : tick;
    }
    detach(runs, whole);
    while (whole->next != run->end) {
        detach(runs, whole->next);
        absorb_next(runs, whole);
    }
    whole->lane = lane;
    whole->tick = tick;
    return settle(runs, whole);
}

struct range *weir__runs_gather(struct runs *runs, enum run_kind kind, const struct run_wish *wish)
{
    struct run run = { 0 };
    return best_run(runs, kind, wish, &run) ? take_in(runs, &run, wish->lane, wish->tick) : NULL;
}

/* --- claim --- */

/* The free range that holds `address`; NULL when none does. `unmapped`: one without memory. */
static struct range *free_range_at(const struct runs *runs, uint64_t address, bool unmapped)
{
    if (unmapped) {
        struct range *range = runs->lanes != NULL ? run_lane_of(runs, WEIR_LANE_UNMAPPED)->oldest : NULL;
        while (range != NULL && address - range->address >= range->size) {
            range = range->newer;
        }
        return range;
    }
    const struct range_region *region = runs->first_region;
    while (region != NULL && address - region->address >= region->size) {
        region = region->next;
    }
    struct range *range = region != NULL ? region->first : NULL;
    while (range != NULL && address - range->address >= range->size) {
        range = range->next;
    }
    return range;
}

static bool claimable(const struct range *range, const weir_tick *limits, size_t lanes)
{
    return limits != NULL ? run_eligible(range, limits, lanes) : !range->taken && range->lane == WEIR_LANE_UNMAPPED;
}

/* Makes sure that the store has so many unused records; false without host memory. */
static bool reserve_records(struct runs *runs, size_t wanted)
{
    struct range *held = NULL;
    size_t count = 0;
    struct range *record = NULL;
    while (count < wanted && (record = weir__range_new(&runs->store)) != NULL) {
        record->next = held;
        held = record;
        count++;
    }
    while (held != NULL) {
        record = held;
        held = record->next;
        weir__range_delete(&runs->store, record);
    }
    return count == wanted;
}

/* `range` is in no lane and holds `address`: what lies below it becomes free again. Returns the rest. */
static struct range *cut_below(struct runs *runs, struct range *range, uint64_t address)
{
    if (range->address == address) {
        return range;
    }
    struct range *rest = split(runs, range, address - range->address);
    rest->taken = true; /* no neighbour of what is settled now */
    (void)settle(runs, range);
    return rest;
}

/* The same for what lies above `end`; `range` counts as taken. */
static void cut_above(struct runs *runs, struct range *range, uint64_t end)
{
    if (range->address + range->size > end) {
        (void)settle(runs, split(runs, range, end - range->address));
    }
}

/* Hands out a range that is in no lane as ranges of `size` bytes each. */
static void hand_out_parts(struct runs *runs, struct range *whole, uint64_t size, void **tokens)
{
    weir_range part;
    for (size_t i = 0; whole != NULL; i++) {
        struct range *rest = whole->size > size ? split(runs, whole, size) : NULL;
        hand_out(runs, whole, &part);
        tokens[i] = part.token;
        whole = rest;
    }
}

/* The whole run leaves the lanes in one step: a slot that it cuts gives back its outer part only, so no inner part can
 * join a neighbour of a later tick before it is claimed. */
weir_status weir__runs_claim(struct runs *runs, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                             size_t lanes, void **tokens)
{
    const uint64_t end = address + count * size;
    struct range *first = free_range_at(runs, address, limits == NULL);
    runs->gathered = NULL;
    for (const struct range *range = first; range != NULL && range->address < end; range = range->next) {
        if (!claimable(range, limits, lanes) || (range->next == NULL && range->address + range->size < end)) {
            return WEIR_ERR_BUSY;
        }
    }
    if (first == NULL) {
        return WEIR_ERR_BUSY;
    }
    if (!reserve_records(runs, count + 1)) { /* cuts: both ends, and between the parts */
        return WEIR_ERR_NO_MEMORY;
    }
    detach(runs, first);
    struct range *whole = cut_below(runs, first, address);
    whole->taken = true;
    while (whole->address + whole->size < end) {
        detach(runs, whole->next);
        whole->next->taken = true;
        cut_above(runs, whole->next, end);
        absorb_next(runs, whole);
    }
    cut_above(runs, whole, end);
    hand_out_parts(runs, whole, size, tokens);
    return WEIR_OK;
}

/* --- looking --- */

static bool show(const struct range_region *region, struct range *range, weir_range_visitor visit, void *ctx)
{
    const weir_range_info info = {
        .region_address = region->address,
        .region_size = region->size,
        .address = range->address,
        .size = range->size,
        .taken = range->taken,
        .lane = range->taken ? WEIR_LANE_OPEN : range->lane,
        .tick = range->taken ? 0 : range->tick,
        .token = range->taken ? range : NULL,
        .set_apart = !range->taken && range->in_slab,
    };
    return visit(ctx, &info);
}

void weir__runs_walk(const struct runs *runs, weir_range_visitor visit, void *ctx)
{
    for (const struct range_region *region = runs->first_region; region != NULL; region = region->next) {
        for (struct range *range = region->first; range != NULL; range = range->next) {
            if (!show(region, range, visit, ctx)) {
                return;
            }
        }
    }
}

/* The lowest range of the hole's run; NULL when there is another hole below it in the run. */
static struct range *run_from_first_hole(struct range *hole)
{
    struct range *first = hole;
    while (first->prev != NULL && !first->prev->taken) {
        first = first->prev;
        if (first->lane == WEIR_LANE_UNMAPPED) {
            return NULL;
        }
    }
    return first;
}

void weir__runs_walk_holes(const struct runs *runs, weir_range_visitor visit, void *ctx)
{
    struct range *hole = runs->lanes != NULL ? run_lane_of(runs, WEIR_LANE_UNMAPPED)->oldest : NULL;
    for (; hole != NULL; hole = hole->newer) {
        for (struct range *range = run_from_first_hole(hole); range != NULL && !range->taken; range = range->next) {
            if (!show(range->region, range, visit, ctx)) {
                return;
            }
        }
    }
}

static uint64_t largest_of_lane(const struct run_lane *lane)
{
    uint64_t largest = 0;
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        uint64_t bytes = lane->index[kind] != NULL ? weir__range_index_largest(lane->index[kind]) : 0;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

void weir__runs_lane_stats(const struct runs *runs, weir_lane number, weir_lane_stats *stats)
{
    *stats = (weir_lane_stats)WEIR_LANE_STATS_INIT;
    if (number < runs->lane_count || (number == WEIR_LANE_UNMAPPED && runs->lanes != NULL)) {
        const struct run_lane *lane = run_lane_of(runs, number);
        stats->ranges = lane->ranges;
        stats->bytes = lane->bytes;
        stats->largest_bytes = largest_of_lane(lane);
    }
}

void weir__runs_stats(const struct runs *runs, weir_strategy_stats *stats)
{
    *stats = (weir_strategy_stats)WEIR_STRATEGY_STATS_INIT;
    stats->regions = runs->regions;
    stats->region_bytes = runs->region_bytes;
    stats->taken_ranges = runs->taken_ranges;
    stats->taken_bytes = runs->taken_bytes;
    for (size_t number = 0; number < runs->lane_count; number++) {
        const struct run_lane *lane = &runs->lanes[number];
        uint64_t largest = largest_of_lane(lane);
        stats->free_ranges += lane->ranges;
        stats->free_bytes += lane->bytes;
        stats->largest_free_bytes = largest > stats->largest_free_bytes ? largest : stats->largest_free_bytes;
    }
}

/* --- check --- */

#define REQUIRE(condition, sentence)                                                               \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return (sentence);                                                                     \
        }                                                                                          \
    } while (0)

struct totals {
    uint64_t regions;
    uint64_t idle;
    uint64_t bytes;
    uint64_t taken_ranges;
    uint64_t taken_bytes;
    uint64_t free_ranges;
    uint64_t free_bytes;
};

static const char *check_range(const struct runs *runs, const struct range *range)
{
    REQUIRE(range->size > 0 && range->size % RANGE_GRANULE == 0, "a range is empty or no multiple of the granule");
    REQUIRE(range->next == NULL || range->next->prev == range, "a neighbour link does not lead back");
    REQUIRE(range->next == NULL || range->next->address == range->address + range->size,
            "ranges of a region leave a gap or overlap");
    if (range->taken) {
        return NULL;
    }
    REQUIRE(range->lane < runs->lane_count || range->lane == WEIR_LANE_UNMAPPED,
            "a free range is in a lane that does not exist");
    REQUIRE(!range->in_slab || range->lane != WEIR_LANE_UNMAPPED, "a slot has no memory");
    if (range->in_slab) {
        return NULL;
    }
    REQUIRE(!joins(range->next, range), "two free neighbours of one lane have not merged");
    REQUIRE(weir__range_index_holds(run_lane_of(runs, range->lane)->index[range->region->kind], range),
            "a free range is not where the index looks for it");
    return NULL;
}
static const char *check_region(const struct runs *runs, const struct range_region *region,
                                struct totals *totals)
{
    uint64_t free_bytes = 0;
    uint64_t end = region->address;
    REQUIRE(region->first != NULL && region->first->prev == NULL, "a region's first range has a lower neighbour");
    for (const struct range *range = region->first; range != NULL; range = range->next) {
        const char *broken = check_range(runs, range);
        REQUIRE(broken == NULL, broken);
        REQUIRE(range->region == region && range->address == end, "a range lies outside its region");
        end += range->size;
        totals->taken_ranges += range->taken;
        totals->taken_bytes += range->taken ? range->size : 0;
        free_bytes += range->taken ? 0 : range->size;
    }
    REQUIRE(end == region->address + region->size, "ranges do not fill their region");
    REQUIRE(free_bytes == region->free_bytes, "a region's free bytes do not add up");
    totals->idle += free_bytes == region->size;
    totals->regions++;
    totals->bytes += region->size;
    totals->free_bytes += free_bytes;
    return NULL;
}

static const char *check_lane(const struct runs *runs, weir_lane number, struct totals *totals)
{
    const struct run_lane *lane = run_lane_of(runs, number);
    uint64_t ranges = 0;
    uint64_t bytes = 0;
    for (const struct range *range = lane->oldest; range != NULL; range = range->newer) {
        REQUIRE(!range->taken && range->lane == number, "a lane lists a range that is not free in it");
        REQUIRE(range->newer == NULL ? lane->newest == range : range->newer->older == range,
                "a lane's list by tick does not lead back");
        REQUIRE(range->newer == NULL || range->newer->tick >= range->tick, "a lane is not in order of ticks");
        ranges++;
        bytes += range->size;
    }
    REQUIRE(ranges == lane->ranges && bytes == lane->bytes, "a lane's counters do not add up");
    totals->free_ranges += ranges;
    return NULL;
}

const char *weir__runs_broken(const struct runs *runs)
{
    struct totals totals = { 0 };
    uint64_t lane_bytes = 0;
    for (const struct range_region *region = runs->first_region; region != NULL; region = region->next) {
        const char *broken = check_region(runs, region, &totals);
        REQUIRE(broken == NULL, broken);
    }
    for (const struct range_region *region = runs->idle; region != NULL; region = region->idle_next) {
        REQUIRE(region->free_bytes == region->size && totals.idle > 0, "a region counts as idle and is not");
        REQUIRE(region->idle_next == NULL || region->idle_next->idle_prev == region, "idle regions are badly linked");
        totals.idle--;
    }
    REQUIRE(totals.idle == 0, "an idle region is not listed");
    for (weir_lane lane = WEIR_LANE_UNMAPPED; runs->lanes != NULL && (weir_lane)(lane + 1) <= runs->lane_count; lane++) {
        const char *broken = check_lane(runs, lane, &totals);
        REQUIRE(broken == NULL, broken);
        lane_bytes += run_lane_of(runs, lane)->bytes;
    }
    REQUIRE(lane_bytes == totals.free_bytes, "free ranges and lanes hold different sums");
    REQUIRE(totals.regions == runs->regions && totals.bytes == runs->region_bytes,
            "the region counters do not add up");
    REQUIRE(totals.taken_ranges == runs->taken_ranges && totals.taken_bytes == runs->taken_bytes,
            "the taken counters do not add up");
    return NULL;
}
