/* strategy_mistakes.c: mistakes that the contract suite of strategies finds. A correct strategy, caching, is called
 * through a table in which one slot is wrong in one way. mistakes.h says how to run it.
 *
 * The table below numbers the mistakes, describes each in words, and names the case that finds it. The slots work on
 * the state of caching itself. They change their arguments and results, or the free ranges that a call leaves:
 * rewrite() gives such a range another lane and tick.
 */
#include "mistakes.h"
#include "strategy_contract.h"

#include <weir/caching.h>

#include <stdint.h>
#include <sys/mman.h>

/* X(NAME, the mistake in words, the case that fails) */
#define MISTAKES(X)                                                                                                    \
    X(GRANULE, "the granule is no power of two", "table_is_complete")                                                  \
    X(NO_NAME, "the strategy has no name", "table_is_complete")                                                        \
    X(STATE_SHORT, "state_size says 8 bytes too few", "empty_strategy_refuses")                                        \
    X(STATE_SHARED, "there is one state for all pools", "two_states_do_not_meet")                                      \
    X(CONFIG_KEPT, "the config is read after init", "region_size_is_enough")                                           \
    X(LANE_AGAIN, "a lane that is added again is emptied", "random_programs")                                          \
    X(LANE_BYTE, "lanes are kept in eight bits", "lanes_have_high_numbers")                                            \
    X(SIZE_ALIGN, "region_size forgets the alignment", "region_size_is_enough")                                        \
    X(SIZE_UNIT, "region_size is no multiple of the granularity", "region_size_is_enough")                             \
    X(ADD_TICK, "a new region has no tick", "region_remove_refuses_what_is_in_use")                                    \
    X(ADD_OPEN, "a new region is everybody's", "region_remove_refuses_what_is_in_use")                                 \
    X(ADD_LATEST, "a new region gets the latest tick that there was", "random_programs")                               \
    X(ADD_HANDLE, "a new region has the handle of the one before", "regions_never_merge")                              \
    X(REMOVE_LIMITS, "region_remove does not look at ticks", "region_remove_refuses_what_is_in_use")                   \
    X(REMOVE_LANES, "region_remove looks at limits behind the last", "region_remove_refuses_what_is_in_use")           \
    X(REMOVE_STRICT, "region_remove refuses ticks that are at the limit", "region_remove_asks_every_lane")             \
    X(REMOVE_NEVER, "region_remove refuses everything", "regions_never_merge")                                         \
    X(IDLE_NEVER, "region_idle finds nothing", "regions_never_merge")                                                  \
    X(IDLE_LIMITS, "region_idle does not look at ticks", "region_remove_refuses_what_is_in_use")                       \
    X(ALLOC_LIMIT, "alloc does not look at ticks", "rest_keeps_lane_and_tick")                                         \
    X(ALLOC_OPEN, "alloc takes open memory where its lane has none", "random_programs")                                \
    X(ALLOC_ALIGN, "alloc aligns to a page at most", "region_size_is_enough")                                          \
    X(ALLOC_SHORT, "alloc rounds down", "region_size_is_enough")                                                       \
    X(ALLOC_WRITES, "a refused alloc writes its result", "empty_strategy_refuses")                                     \
    X(ALLOC_STATUS, "a refusal is WEIR_ERR_INTERNAL", "empty_strategy_refuses")                                        \
    X(ALLOC_32, "sizes have 32 bits", "sizes_around_powers_of_two")                                                    \
    X(ALLOC_EXACT, "alloc refuses what fits exactly", "tiny_regions_fill_and_refill")                                  \
    X(ALLOC_LUCK, "where a block lies depends on what another pool did", "shifted_twins_agree")                        \
    X(ALLOC_ODD_TOKEN, "tokens are odd", "region_size_is_enough")                                                      \
    X(ALLOC_MIDDLE, "requests are cut out of the middle of ranges", "requests_waste_no_more_than_is_promised")         \
    X(ALLOC_TOKEN, "a token is given twice", "free_merges_in_every_order")                                             \
    X(RECORD_SIZE, "a record has the size that was asked for", "region_size_is_enough")                                \
    X(RECORD_FREE, "a record does not say that its range is taken", "region_size_is_enough")                           \
    X(RECORD_TICK, "a taken range's tick is kept in its record's `as`", "merging_keeps_the_later_tick")                \
    X(RECORD_LINKS, "free links taken ranges through `as`", "free_merges_in_every_order")                              \
    X(RECORD_STATE, "free writes the state of taken ranges", "free_merges_in_every_order")                             \
    X(RECORD_ROUTE, "free clears all of `own` of taken ranges", "free_merges_in_every_order")                          \
    X(RECORD_GONE, "a record's memory goes when its range is freed", "free_merges_in_every_order")                     \
    X(FREE_TICK, "free loses the tick", "merging_keeps_the_later_tick")                                                \
    X(FREE_LANE, "free takes the lane of the last alloc", "promote_opens_one_lane")                                    \
    X(FREE_EARLIER, "what merges keeps the earlier tick", "merging_keeps_the_later_tick")                              \
    X(FREE_LAST, "what merges gets the tick of the last free, which may be an earlier one", "random_programs")         \
    X(PROMOTE_LIMIT, "promote does not look at ticks", "rest_keeps_lane_and_tick")                                     \
    X(PROMOTE_STRICT, "promote leaves ticks that are at the limit", "promote_opens_one_lane")                          \
    X(PROMOTE_TWO, "promote opens the next lane as well", "promote_opens_one_lane")                                    \
    X(PROMOTE_BYTES, "promote says nothing of what moved", "promote_opens_one_lane")                                   \
    X(PROMOTE_SORTED, "promote takes ticks for sorted in the order of frees", "ticks_may_go_down")                     \
    X(GATHER_OWN_TICK, "gather loses a later tick of its own lane", "gather_keeps_a_later_tick_of_its_own_lane")       \
    X(GATHER_EARLY, "gather does not stamp its tick", "gather_joins_only_what_it_may")                                 \
    X(GATHER_LATE, "gather keeps ticks of other lanes", "random_programs")                                             \
    X(GATHER_OPEN, "gather for the open lane moves and says false", "gather_without_success_changes_nothing")          \
    X(GATHER_SMALL, "gather that finds nothing has moved something", "gather_without_success_changes_nothing")         \
    X(GATHER_LIMITS, "gather does not look at ticks", "gather_joins_only_what_it_may")                                 \
    X(GATHER_LANES, "gather looks at limits behind the last", "gather_joins_only_what_it_may")                         \
    X(GATHER_ALIGN, "gather forgets the alignment", "random_programs")                                                 \
    X(GATHER_NEVER, "gather finds nothing", "gather_joins_only_what_it_may")                                           \
    X(GATHER_ALWAYS, "gather promises what it has not", "gather_joins_only_what_it_may")                               \
    X(GATHER_REFUSED, "a last resort does not look where alloc would", "last_resort_needs_no_refusal")                 \
    X(GATHER_NEXT, "what gather found goes to the next alloc of any lane", "random_programs")                          \
    X(WALK_ON, "walk goes on after the visitor said stop", "walks_end_when_they_are_told")                             \
    X(WALK_REVERSED, "walk shows the last region first", "regions_never_merge")                                        \
    X(WALK_TICK, "walk shows no ticks", "region_remove_refuses_what_is_in_use")                                        \
    X(WALK_SPLITS, "free neighbours of one lane are two ranges", "region_size_is_enough")                              \
    X(WALK_APART, "ranges are set apart for nothing", "region_size_is_enough")                                         \
    X(CHECK_WHY, "check writes its reason wherever it is told to", "fini_takes_live_ranges")                           \
    X(STATS_ADD, "stats adds to what is there", "empty_strategy_refuses")                                              \
    X(STATS_SIZE, "stats clears the size of the struct", "empty_strategy_refuses")                                     \
    X(STATS_TAKEN, "stats forgets a taken range", "fini_takes_live_ranges")                                            \
    X(STATS_LARGEST, "the largest free range only grows", "random_programs")                                           \
    X(STATS_HOLES, "addresses without memory count as free", "unmapped_memory_is_nobodys")                             \
    X(LANE_STATS_OPEN, "lane_stats counts the open lane", "promote_opens_one_lane")                                    \
    X(CLAIM_LIMITS, "claim does not look at ticks", "claim_asks_every_lane")                                           \
    X(CLAIM_LANES, "claim looks at limits behind the last", "claim_asks_every_lane")                                   \
    X(CLAIM_HOLES, "claim for memory takes what has memory", "claim_takes_exactly_what_it_is_asked_for")               \
    X(CLAIM_MORE, "claim takes a granule more", "claim_takes_exactly_what_it_is_asked_for")                            \
    X(CLAIM_REST, "what claim cuts off loses its tick", "claim_asks_every_lane")                                       \
    X(CLAIM_ORDER, "claim names its ranges from the last one on", "claim_takes_neighbours_in_one_call")                \
    X(CLAIM_SEVERAL, "a claim of several ranges that is refused has taken some", "random_programs")                    \
    X(HOLES_ON, "walk_holes goes on after the visitor said stop", "walks_end_when_they_are_told")                      \
    X(HOLES_ALL, "walk_holes shows runs without a hole", "walks_end_when_they_are_told")                               \
    X(HOLES_NONE, "walk_holes shows nothing", "holes_grow_together")                                                   \
    X(HOLES_SMALL, "walk_holes shows runs that are too small", "walks_end_when_they_are_told")                         \
    X(FREE_ON, "walk_free goes on after the visitor said stop", "walks_end_when_they_are_told")                        \
    X(FREE_LARGE, "walk_free leaves out runs that are large enough", "random_programs")                                \
    X(FREE_ALONE, "walk_free looks for single ranges of that size", "random_programs")                                 \
    X(LARGE_ON, "walk_large goes on after the visitor said stop", "walks_end_when_they_are_told")                      \
    X(LARGE_FEW, "walk_large leaves out small ranges", "random_programs")                                              \
    X(LARGE_BESIDE, "walk_large shows no neighbours", "fini_takes_live_ranges")                                        \
    X(LARGE_REGION, "walk_large does not know what fills a region", "region_size_is_enough")                           \
    X(REQUEST_LESS, "request_bytes promises too much", "requests_waste_no_more_than_is_promised")

enum {
    NO_MISTAKE,
#define MISTAKE_ENUM(name, what, found_by) name,
    MISTAKES(MISTAKE_ENUM)
};

static const struct mistake mistakes[] = {
#define MISTAKE_ENTRY(name, what, found_by) {what, found_by},
    MISTAKES(MISTAKE_ENTRY)};

static int built_in;
static const weir_strategy_ops *right;

static bool is(int mistake)
{
    return built_in == mistake;
}

/* --- reading and changing the state --- */

enum { most_ranges = 1024, most_lanes = 301 };

struct ranges {
    weir_range_info at[most_ranges];
    size_t count;
};

static bool note(void *ctx, const weir_range_info *info)
{
    struct ranges *ranges = ctx;
    if (ranges->count < most_ranges) {
        ranges->at[ranges->count++] = *info;
    }
    return true;
}

/* Returns the current ranges. Valid until the next call. */
static const struct ranges *ranges_of(const void *state)
{
    static struct ranges ranges;
    ranges.count = 0;
    right->walk(state, note, &ranges);
    return &ranges;
}

/* Returns the range that holds `address`. */
static weir_range_info range_at(const void *state, uint64_t address)
{
    const struct ranges *ranges = ranges_of(state);
    size_t i = 0;
    while (i + 1 < ranges->count && address - ranges->at[i].address >= ranges->at[i].size) {
        i++;
    }
    return ranges->at[i];
}

static const weir_tick *no_limits(void)
{
    static weir_tick limits[most_lanes];
    for (size_t i = 0; i < most_lanes; i++) {
        limits[i] = WEIR_TICK_MAX;
    }
    return limits;
}

/* Gives a free range another lane and tick. */
static void rewrite(void *state, const weir_range_info *range, weir_lane lane, weir_tick tick)
{
    void *token;
    if (!range->taken &&
        right->claim(state, range->address, range->size, 1, no_limits(), most_lanes, &token) == WEIR_OK) {
        right->free(state, token, lane, tick);
    }
}

/* Returns a copy of the limits in which each limit is one lower. */
static const weir_tick *stricter(const weir_tick *limits, size_t lanes)
{
    static weir_tick lower[most_lanes];
    for (size_t i = 0; i < lanes; i++) {
        lower[i] = limits[i] == WEIR_TICK_MAX || limits[i] == 0 ? limits[i] : limits[i] - 1;
    }
    return lower;
}

/* --- the memory of the mistakes --- */

struct config {
    uint64_t unused[8];
    uint64_t extra_bytes;
};

static const struct config *config_kept;
static void *last_state;
static void *last_region;
static weir_tick latest_tick;
static weir_lane last_lane;
static uint64_t calls;
static uint64_t largest;
static bool lane_was_added[most_lanes];
static weir_tick first_free[most_lanes]; /* one plus the tick of the first free since the lane was promoted */
static weir_lane gathered_lane = WEIR_LANE_UNMAPPED;

/* Copies of records in memory of their own. The copy is released when its range is freed. */
enum { most_copies = 64, page_bytes = 4096 };

static struct copy {
    void *token; /* the token of the correct strategy */
    weir_record *record;
} copies[most_copies];

static struct copy *copy_of(const void *token)
{
    struct copy *copy = copies;
    while (copy < copies + most_copies && copy->token != token && copy->record != token) {
        copy++;
    }
    return copy;
}

static void *copied(void *token)
{
    struct copy *copy = copy_of(NULL);
    void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == copies + most_copies || page == MAP_FAILED) {
        return token;
    }
    *copy = (struct copy){token, page};
    *copy->record = *(const weir_record *)token;
    return copy->record;
}

static void *uncopied(void *token)
{
    struct copy *copy = copy_of(token);
    if (copy == copies + most_copies) {
        return token;
    }
    token = copy->token;
    (void)munmap(copy->record, page_bytes);
    *copy = (struct copy){NULL, NULL};
    return token;
}

static weir_lane kept_lane(weir_lane lane)
{
    return is(LANE_BYTE) && lane != WEIR_LANE_UNMAPPED ? lane & 0xff : lane;
}

/* --- state --- */

static size_t state_size(const void *config)
{
    (void)config;
    return right->state_size(NULL) - (is(STATE_SHORT) ? 8 : 0);
}

static weir_status init(void *state, const void *config)
{
    config_kept = config;
    last_state = state;
    latest_tick = largest = 0;
    last_region = NULL;
    gathered_lane = WEIR_LANE_UNMAPPED;
    memset(lane_was_added, 0, sizeof(lane_was_added));
    memset(first_free, 0, sizeof(first_free));
    memset(copies, 0, sizeof(copies));
    return right->init(state, NULL);
}

static weir_status lane_add(void *state, weir_lane lane)
{
    if (is(LANE_AGAIN) && lane < most_lanes && lane_was_added[lane]) {
        (void)right->promote(state, lane, WEIR_TICK_MAX);
    }
    if (lane < most_lanes) {
        lane_was_added[lane] = true;
    }
    return right->lane_add(state, lane);
}

/* --- regions --- */

static uint64_t region_size(const void *state, uint64_t size, uint64_t align, uint64_t reserved, uint64_t granularity)
{
    if (is(SIZE_ALIGN)) {
        return (size + granularity - 1) & ~(granularity - 1);
    }
    const uint64_t bytes = right->region_size(state, size, align, reserved, granularity);
    return bytes + (is(SIZE_UNIT) ? 512 : 0) + (is(CONFIG_KEPT) ? config_kept->extra_bytes : 0);
}

static weir_status region_add(void *state, uint64_t address, uint64_t size, uint64_t size_hint, weir_lane lane,
                              weir_tick tick, void **region)
{
    latest_tick = tick > latest_tick ? tick : latest_tick;
    const bool mapped = lane != WEIR_LANE_UNMAPPED;
    const weir_lane into = is(ADD_OPEN) && mapped ? WEIR_LANE_OPEN : lane;
    const weir_tick since = is(ADD_TICK) ? 0 : is(ADD_LATEST) && mapped ? latest_tick : tick;
    const weir_status status = right->region_add(state, address, size, size_hint, into, since, region);
    void *const before = last_region;
    last_region = *region;
    *region = is(ADD_HANDLE) && before != NULL ? before : *region;
    return status;
}

static weir_status region_remove(void *state, void *region, const weir_tick *limits, size_t lanes)
{
    if (is(REMOVE_NEVER)) {
        return WEIR_ERR_BUSY;
    }
    if (is(REMOVE_LIMITS)) {
        return right->region_remove(state, region, no_limits(), lanes);
    }
    if (is(REMOVE_STRICT)) {
        return right->region_remove(state, region, stricter(limits, lanes), lanes);
    }
    return right->region_remove(state, region, limits, is(REMOVE_LANES) ? 5 : lanes);
}

static bool region_idle(const void *state, const weir_tick *limits, size_t lanes, uint64_t *address)
{
    return !is(IDLE_NEVER) && right->region_idle(state, is(IDLE_LIMITS) ? no_limits() : limits, lanes, address);
}

/* --- records of taken ranges --- */

/* Changes the record of a range that has just been handed out. */
static void record_wrongly(weir_range *range, uint64_t size)
{
    static void *last_token;
    weir_record *record = range->token;
    if (is(ALLOC_TOKEN) && last_token != NULL) {
        range->token = last_token;
    }
    last_token = range->token;
    record->size = is(RECORD_SIZE) ? size : record->size;
    record->state = is(RECORD_FREE) ? 2 : record->state;
    record->as.free.tick = is(RECORD_TICK) ? 0 : record->as.free.tick;
    range->token = is(RECORD_GONE) ? copied(range->token) : range->token;
}

/* Overwrites the pool's fields in the records of taken ranges. */
static void write_taken(const void *state)
{
    const struct ranges *ranges = ranges_of(state);
    for (size_t i = 0; i < ranges->count; i++) {
        weir_record *record = ranges->at[i].token;
        if (!ranges->at[i].taken) {
            continue;
        }
        record->as.free.prev = is(RECORD_LINKS) ? NULL : record->as.free.prev;
        record->state = is(RECORD_STATE) ? WEIR_RECORD_TAKEN : record->state;
        record->own = is(RECORD_ROUTE) ? 0 : record->own;
    }
}

/* --- alloc and free --- */

/* Takes the middle of a range that the strategy would cut at an end. */
static weir_status alloc_middle(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align,
                                weir_range *range)
{
    weir_range whole;
    const uint64_t granule = right->granule_bytes;
    if (align > granule || right->alloc(state, lane, limit, size + 2 * granule, align, &whole) != WEIR_OK) {
        return right->alloc(state, lane, limit, size, align, range);
    }
    const weir_range_info taken = range_at(state, whole.address);
    right->free(state, whole.token, lane, limit == WEIR_TICK_MAX ? 0 : limit);
    *range = (weir_range){.address = taken.address + granule, .size = taken.size - 2 * granule};
    return right->claim(state, range->address, range->size, 1, no_limits(), most_lanes, &range->token);
}

static weir_status alloc(void *state, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *range)
{
    const uint64_t granule = right->granule_bytes;
    last_lane = lane;
    lane = kept_lane(lane);
    limit = is(ALLOC_LIMIT) ? WEIR_TICK_MAX : limit;
    align = is(ALLOC_ALIGN) && align > 4096 ? 4096 : align;
    align = is(ALLOC_LUCK) && ++calls % 3 == 0 && align < 4096 ? 4096 : align;
    size = is(ALLOC_32) ? (uint32_t)size : size;
    size = is(ALLOC_SHORT) && size > granule ? size & ~(granule - 1) : size;
    if (is(GATHER_NEXT) && gathered_lane != WEIR_LANE_UNMAPPED) {
        lane = gathered_lane;
        gathered_lane = WEIR_LANE_UNMAPPED;
    }
    if (is(ALLOC_MIDDLE)) {
        return alloc_middle(state, lane, limit, size, align, range);
    }
    weir_range found = {0};
    weir_status status = right->alloc(state, lane, limit, size + (is(ALLOC_EXACT) ? granule : 0), align, &found);
    if (status != WEIR_OK && is(ALLOC_OPEN)) {
        status = right->alloc(state, WEIR_LANE_OPEN, limit, size, align, &found);
    }
    if (status == WEIR_OK || is(ALLOC_WRITES)) {
        *range = found;
    }
    if (status == WEIR_OK && is(ALLOC_ODD_TOKEN)) {
        range->token = (char *)range->token + 1;
    }
    if (status == WEIR_OK) {
        record_wrongly(range, size);
    }
    return status == WEIR_ERR_NO_MEMORY && is(ALLOC_STATUS) ? WEIR_ERR_INTERNAL : status;
}

/* Returns the earliest of `tick` and the ticks of the free neighbours of the taken range in its lane. */
static weir_tick earliest(const void *state, const void *token, weir_lane lane, weir_tick tick)
{
    const struct ranges *ranges = ranges_of(state);
    for (size_t i = 0; i < ranges->count; i++) {
        const weir_range_info *range = &ranges->at[i];
        const bool before = i + 1 < ranges->count && range[1].taken && range[1].token == token;
        const bool after = i > 0 && range[-1].taken && range[-1].token == token;
        if ((before || after) && !range->taken && range->lane == lane && range->tick < tick) {
            tick = range->tick;
        }
    }
    return tick;
}

static uint64_t address_of(const void *state, const void *token)
{
    const struct ranges *ranges = ranges_of(state);
    size_t i = 0;
    while (i + 1 < ranges->count && !(ranges->at[i].taken && ranges->at[i].token == token)) {
        i++;
    }
    return ranges->at[i].address;
}

static void free_range(void *state, void *token, weir_lane lane, weir_tick tick)
{
    if (is(ALLOC_ODD_TOKEN)) {
        token = (char *)token - 1;
    }
    const weir_tick kept_tick = is(RECORD_TICK) ? ((const weir_record *)token)->as.free.tick : 0;
    token = is(RECORD_GONE) ? uncopied(token) : token;
    lane = is(FREE_LANE) ? last_lane : kept_lane(lane);
    tick = is(FREE_TICK) ? 0 : kept_tick > tick ? kept_tick : tick;
    latest_tick = tick > latest_tick ? tick : latest_tick;
    if (lane < most_lanes && first_free[lane] == 0) {
        first_free[lane] = tick + 1;
    }
    if (is(FREE_EARLIER) || is(FREE_LAST)) {
        const uint64_t address = address_of(state, token);
        const weir_tick kept = is(FREE_LAST) ? tick : earliest(state, token, lane, tick);
        right->free(state, token, lane, tick);
        const weir_range_info whole = range_at(state, address);
        rewrite(state, &whole, whole.lane, kept);
        return;
    }
    right->free(state, token, lane, tick);
    write_taken(state);
}

static uint64_t promote(void *state, weir_lane lane, weir_tick limit)
{
    lane = kept_lane(lane);
    if (is(PROMOTE_STRICT) && limit != WEIR_TICK_MAX) {
        return limit == 0 ? 0 : right->promote(state, lane, limit - 1);
    }
    if (is(PROMOTE_SORTED) && lane < most_lanes) {
        if (first_free[lane] > limit && limit != WEIR_TICK_MAX) {
            return 0;
        }
        first_free[lane] = 0;
    }
    uint64_t moved = right->promote(state, lane, is(PROMOTE_LIMIT) ? WEIR_TICK_MAX : limit);
    if (is(PROMOTE_TWO) && lane + 1 < 5) {
        moved += right->promote(state, lane + 1, limit);
    }
    return is(PROMOTE_BYTES) ? 0 : moved;
}

/* --- gather --- */

/* Returns the tick that a wrong gather gives to the range that it has made. */
static weir_tick wrong_tick(const struct ranges *before, const weir_range_info *whole, weir_tick tick)
{
    for (size_t i = 0; is(GATHER_LATE) && i < before->count; i++) {
        const weir_range_info *part = &before->at[i];
        if (part->address >= whole->address && part->address < whole->address + whole->size && part->tick > tick) {
            tick = part->tick;
        }
    }
    return tick;
}

static void stamp_wrongly(void *state, const struct ranges *before, weir_lane lane, weir_tick tick)
{
    const struct ranges *after = ranges_of(state);
    for (size_t i = 0; i < after->count && i < before->count; i++) {
        const weir_range_info whole = after->at[i];
        if (whole.size != before->at[i].size || whole.lane != before->at[i].lane || whole.tick != before->at[i].tick) {
            rewrite(state, &whole, lane, wrong_tick(before, &whole, tick));
            return;
        }
    }
}

static bool gather(void *state, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align, bool last_resort)
{
    static struct ranges before;
    weir_lane_stats own = WEIR_LANE_STATS_INIT;
    right->lane_stats(state, lane, &own);
    if (is(GATHER_NEVER) || (is(GATHER_REFUSED) && last_resort && own.largest_bytes >= size + align)) {
        return false;
    }
    before = *ranges_of(state);
    limits = is(GATHER_LIMITS) ? no_limits() : limits;
    lanes = is(GATHER_LANES) ? 5 : lanes;
    const bool found = right->gather(state, lane, is(GATHER_EARLY) ? 0 : tick, limits, lanes, size,
                                     is(GATHER_ALIGN) ? 1 : align, last_resort);
    if (!found && is(GATHER_SMALL)) {
        (void)right->gather(state, lane, tick, limits, lanes, size / 2, 1, last_resort);
    }
    if (found && (is(GATHER_OWN_TICK) || is(GATHER_LATE))) {
        stamp_wrongly(state, &before, lane, tick);
    }
    gathered_lane = found ? lane : WEIR_LANE_UNMAPPED;
    return (found && !(is(GATHER_OPEN) && lane == WEIR_LANE_OPEN)) || is(GATHER_ALWAYS);
}

/* --- walks --- */

/* The visitor that the caller has passed to walk. Strategies that contain a bug on purpose show this visitor
 * changed ranges. */
struct visit {
    weir_range_visitor visit;
    void *ctx;
};

static bool visit_wrongly(void *ctx, const weir_range_info *info)
{
    const struct visit *visit = ctx;
    weir_range_info shown = *info;
    shown.tick = is(WALK_TICK) ? 0 : shown.tick;
    if (is(RECORD_GONE) && shown.taken && copy_of(shown.token) != copies + most_copies) {
        shown.token = copy_of(shown.token)->record;
    }
    shown.set_apart = is(WALK_APART) && !shown.taken;
    if (is(WALK_SPLITS) && !shown.taken && shown.size > right->granule_bytes) {
        shown.size = right->granule_bytes;
        (void)visit->visit(visit->ctx, &shown);
        shown.address += shown.size;
        shown.size = info->size - shown.size;
    }
    return visit->visit(visit->ctx, &shown) || is(WALK_ON) || is(HOLES_ON) || is(FREE_ON);
}

static void walk(const void *state, weir_range_visitor visit, void *ctx)
{
    struct visit changed = {visit, ctx};
    if (!is(WALK_REVERSED)) {
        const bool as_it_is = is(HOLES_ON) || is(FREE_ON);
        right->walk(state, as_it_is ? visit : visit_wrongly, as_it_is ? ctx : &changed);
        return;
    }
    static struct ranges shown;
    shown = *ranges_of(state);
    for (size_t end = shown.count; end > 0;) {
        size_t first = end - 1;
        while (first > 0 && shown.at[first - 1].region_address == shown.at[first].region_address) {
            first--;
        }
        for (size_t i = first; i < end; i++) {
            if (!visit(ctx, &shown.at[i])) {
                return;
            }
        }
        end = first;
    }
}

static weir_status check(const void *state, const char **why)
{
    if (is(CHECK_WHY)) {
        *(const char *volatile *)why = "";
    }
    return right->check(state, why);
}

static void stats(const void *state, weir_strategy_stats *out)
{
    const weir_strategy_stats before = *out;
    weir_lane_stats holes = WEIR_LANE_STATS_INIT;
    right->stats(is(STATE_SHARED) ? last_state : state, out);
    right->lane_stats(state, WEIR_LANE_UNMAPPED, &holes);
    out->struct_size = is(STATS_SIZE) ? 0 : out->struct_size;
    out->taken_bytes += is(STATS_ADD) ? before.taken_bytes : 0;
    out->taken_ranges -= is(STATS_TAKEN) && out->taken_ranges > 0 ? 1 : 0;
    out->free_bytes += is(STATS_HOLES) ? holes.bytes : 0;
    largest = out->largest_free_bytes > largest ? out->largest_free_bytes : largest;
    out->largest_free_bytes = is(STATS_LARGEST) ? largest : out->largest_free_bytes;
}

static void lane_stats(const void *state, weir_lane lane, weir_lane_stats *out)
{
    right->lane_stats(state, is(LANE_STATS_OPEN) ? WEIR_LANE_OPEN : lane, out);
}

/* --- claims --- */

/* Claims each part by a call of its own. A later call may be refused after an earlier one has taken its part. */
static weir_status claim_one_by_one(void *state, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                                    size_t lanes, void **tokens)
{
    for (size_t i = 0; i < count; i++) {
        const size_t at = is(CLAIM_ORDER) ? count - 1 - i : i;
        const weir_status status = right->claim(state, address + at * size, size, 1, limits, lanes, &tokens[i]);
        if (status != WEIR_OK) {
            return status;
        }
    }
    return WEIR_OK;
}

static weir_status claim(void *state, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                         size_t lanes, void **tokens)
{
    const weir_tick *asked = limits;
    if (is(CLAIM_LIMITS) && limits != NULL) {
        asked = no_limits();
    }
    if (is(CLAIM_HOLES) && limits == NULL) {
        if (right->claim(state, address, size, count, NULL, 0, tokens) == WEIR_OK) {
            return WEIR_OK;
        }
        asked = no_limits();
        lanes = 5;
    }
    lanes = is(CLAIM_LANES) ? 5 : lanes;
    if (is(CLAIM_ORDER) || is(CLAIM_SEVERAL)) {
        return claim_one_by_one(state, address, size, count, asked, lanes, tokens);
    }
    const weir_status status = right->claim(state, address, size, count, asked, lanes, tokens);
    if (status == WEIR_OK && is(CLAIM_MORE)) {
        void *more;
        (void)!right->claim(state, address + count * size, right->granule_bytes, 1, asked, lanes, &more);
    }
    if (status == WEIR_OK && is(CLAIM_REST)) {
        const weir_range_info rest = range_at(state, address - 1);
        rewrite(state, &rest, rest.lane, 0);
    }
    return status;
}

static void walk_holes(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    struct visit changed = {visit, ctx};
    if (is(HOLES_ALL)) {
        right->walk(state, visit, ctx);
    } else if (!is(HOLES_NONE)) {
        right->walk_holes(state, is(HOLES_SMALL) ? 0 : least, is(HOLES_ON) ? visit_wrongly : visit,
                          is(HOLES_ON) ? (void *)&changed : ctx);
    }
}

/* Collects a run of adjacent ranges, which is shown only if one of its ranges alone has memory of `least` bytes. */
struct alone {
    uint64_t least;
    weir_range_info ranges[64];
    size_t count;
    bool any;
    struct visit visit;
};

static void show_alone(struct alone *alone)
{
    for (size_t i = 0; alone->any && i < alone->count && alone->visit.visit(alone->visit.ctx, &alone->ranges[i]); i++) {
    }
    alone->count = 0;
    alone->any = false;
}

static bool visit_alone(void *ctx, const weir_range_info *info)
{
    struct alone *alone = ctx;
    const weir_range_info *last = alone->count > 0 ? &alone->ranges[alone->count - 1] : NULL;
    if (last == NULL || alone->count == 64 || last->address + last->size != info->address ||
        last->region_address != info->region_address) {
        show_alone(alone);
    }
    alone->ranges[alone->count++] = *info;
    alone->any |= info->lane != WEIR_LANE_UNMAPPED && info->size >= alone->least;
    return true;
}

static void walk_free(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    struct visit changed = {visit, ctx};
    struct alone alone = {.least = least, .visit = changed};
    if (is(FREE_ALONE)) {
        right->walk_free(state, right->granule_bytes, visit_alone, &alone);
        show_alone(&alone);
    } else {
        right->walk_free(state, is(FREE_LARGE) ? 2 * least : least, is(FREE_ON) ? visit_wrongly : visit,
                         is(FREE_ON) ? (void *)&changed : ctx);
    }
}

static bool show_large_wrongly(void *ctx, const weir_range_info *info)
{
    const struct visit *visit = ctx;
    weir_range_info shown = *info;
    shown.token = is(LARGE_BESIDE) ? NULL : shown.token;
    shown.region_address = is(LARGE_REGION) ? 0 : shown.region_address;
    return visit->visit(visit->ctx, &shown) || is(LARGE_ON);
}

static void walk_large(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    struct visit changed = {visit, ctx};
    right->walk_large(state, is(LARGE_FEW) ? 2 * least : least, show_large_wrongly, &changed);
}

static uint64_t request_bytes(const void *state, uint64_t size)
{
    const uint64_t bytes = right->request_bytes(state, size);
    return is(REQUEST_LESS) && bytes > right->granule_bytes ? bytes - right->granule_bytes : bytes;
}

/* --- the strategy as the suite gets it --- */

static int run(int number, const char *only)
{
    static weir_strategy_ops wrong;
    static const struct config config = {.extra_bytes = 0};
    right = weir_caching_strategy();
    built_in = number;
    wrong = (weir_strategy_ops){
        .struct_size = sizeof(weir_strategy_ops),
        .name = is(NO_NAME) ? "" : "a strategy with a mistake",
        .flags = right->flags,
        .granule_bytes = is(GRANULE) ? 3 * right->granule_bytes : right->granule_bytes,
        .state_size = state_size,
        .init = init,
        .fini = right->fini,
        .lane_add = lane_add,
        .region_size = region_size,
        .region_add = region_add,
        .region_remove = region_remove,
        .region_idle = region_idle,
        .alloc = alloc,
        .free = free_range,
        .promote = promote,
        .gather = gather,
        .walk = walk,
        .check = check,
        .stats = stats,
        .lane_stats = lane_stats,
        .claim = claim,
        .walk_holes = walk_holes,
        .walk_free = walk_free,
        .walk_large = is(LARGE_ON) || is(LARGE_FEW) || is(LARGE_BESIDE) || is(LARGE_REGION) ? walk_large : NULL,
        .request_bytes = request_bytes,
    };
    const weir_tested_strategy strategy = {
        .ops = &wrong,
        .config = &config,
        .config_bytes = sizeof(config),
        .small_bytes = UINT64_C(1) << 20,
    };
    char *arguments[] = {NULL, (char *)(uintptr_t)only, (char *)(uintptr_t) "0", (char *)(uintptr_t) "100"};
    return weir_strategy_contract(&strategy, 4 - (only == NULL), only != NULL ? arguments : arguments + 1);
}

int main(int argc, char **argv)
{
    return prove_mistakes(mistakes, sizeof(mistakes) / sizeof(mistakes[0]), run, argc, argv);
}
