/* strategy/reference.h: the naive reference of the contract suite of strategies, and the comparison with it.
 *
 * The reference (struct rig) is a sorted list of ranges with lanes and ticks.
 */
#ifndef WEIR_CONTRACT_STRATEGY_REFERENCE_H
#define WEIR_CONTRACT_STRATEGY_REFERENCE_H

#include "../contract.h"
#include "../strategy_contract.h"

static const weir_tested_strategy *tested;

#define LANES 5 /* the open lane and four streams */
#define HIGH_LANE 300
#define GUARD_BYTES 64 /* bytes behind the state */
#define GRANULARITY (UINT64_C(2) << 20)
#define FIRST_ADDRESS (UINT64_C(1) << 46)
#define DEFAULT_SEEDS 200 /* every known mistake shows by the 20th */
#define PROGRAM_STEPS 250
#define MOST_REGIONS 10
#define MOST_GONE 64 /* records of freed ranges that are read again after every call */

/* --- the reference --- */

struct piece {
    size_t region; /* index into regions */
    uint64_t address;
    uint64_t size;
    bool taken;
    weir_lane lane;
    weir_tick tick;
    void *token;
    bool set_apart;
};

struct pieces {
    struct piece *at;
    size_t count;
    size_t capacity;
};

struct place {
    uint64_t address;
    uint64_t size;
    uint64_t hint;
    void *handle;
    bool alive;
};

/* Where new regions go. */
enum layout { ASCENDING, SHIFTED, DESCENDING };

struct rig {
    const weir_strategy_ops *ops;
    void *state;
    size_t state_bytes;
    void *config;       /* the copy that init got, or NULL */
    struct pieces book; /* the expected ranges, in the order of walk */
    struct pieces seen; /* the ranges that the last walk showed */
    struct place *regions;
    size_t region_count; /* includes removed regions: no index is used again */
    enum layout layout;
    uint64_t low; /* the address range in use: a new region lies above or below it */
    uint64_t high;
    weir_tick now[HIGH_LANE + 1];       /* the latest tick of each lane's stream */
    weir_lane high_lanes;               /* 0, or lanes up to HIGH_LANE are in use */
    bool one_kind;                      /* all regions serve requests of every size */
    const weir_record *gone[MOST_GONE]; /* a ring buffer */
    size_t gone_count;
    uint64_t seed; /* seed of the random program, for messages */
    unsigned step;
};

/* True if the strategy serves pools with virtual memory and has an unmapped lane. */
static bool claims(const struct rig *rig)
{
    return rig->ops->claim != NULL;
}

static weir_tick tick_now(const struct rig *rig, weir_lane lane)
{
    return lane == WEIR_LANE_OPEN || lane == WEIR_LANE_UNMAPPED ? 0 : rig->now[lane];
}

static bool private_lanes(const struct rig *rig)
{
    return (rig->ops->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0;
}

/* Prints the ranges of the last walk and the expected ranges. */
static void explain(const struct rig *rig)
{
    (void)printf("\n");
    for (size_t i = 0; i < rig->book.count; i++) {
        const struct piece *piece = &rig->book.at[i];
        (void)printf("  expected region %zu +%llu %llu bytes %s lane %u tick %llu\n", piece->region,
                     (unsigned long long)(piece->address - rig->regions[piece->region].address),
                     (unsigned long long)piece->size, piece->taken ? "taken" : "free", piece->lane,
                     (unsigned long long)piece->tick);
    }
    for (size_t i = 0; i < rig->seen.count; i++) {
        const struct piece *piece = &rig->seen.at[i];
        (void)printf("  seen     region %zu +%llu %llu bytes %s lane %u tick %llu\n", piece->region,
                     (unsigned long long)(piece->address - rig->regions[piece->region].address),
                     (unsigned long long)piece->size, piece->taken ? "taken" : "free", piece->lane,
                     (unsigned long long)piece->tick);
    }
}

#define REQUIRE(rig, condition, what)                                                                                  \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            explain(rig);                                                                                              \
            fail_msg("%s: %s (seed %llu, step %u)", (rig)->ops->name, (what), (unsigned long long)(rig)->seed,         \
                     (rig)->step);                                                                                     \
        }                                                                                                              \
    } while (0)

static void *must(void *memory)
{
    if (memory == NULL) {
        fail_msg("no host memory for the suite");
    }
    return memory;
}

static void insert_piece(struct pieces *pieces, size_t index, const struct piece *piece)
{
    if (pieces->count == pieces->capacity) {
        pieces->capacity = pieces->capacity == 0 ? 64 : pieces->capacity * 2;
        pieces->at = must(realloc(pieces->at, pieces->capacity * sizeof(*pieces->at)));
    }
    memmove(pieces->at + index + 1, pieces->at + index, (pieces->count - index) * sizeof(*pieces->at));
    pieces->at[index] = *piece;
    pieces->count++;
}

static void erase_piece(struct pieces *pieces, size_t index)
{
    pieces->count--;
    memmove(pieces->at + index, pieces->at + index + 1, (pieces->count - index) * sizeof(*pieces->at));
}

static bool join_neighbours(struct pieces *book, size_t index)
{
    if (index + 1 >= book->count) {
        return false;
    }
    struct piece *piece = &book->at[index];
    const struct piece *next = piece + 1;
    if (piece->taken || next->taken || piece->region != next->region || piece->lane != next->lane) {
        return false;
    }
    piece->size += next->size;
    piece->tick = next->tick > piece->tick ? next->tick : piece->tick;
    erase_piece(book, index + 1);
    return true;
}

/* Joins a free piece with its free neighbour of the same region and lane. The joined range keeps the later tick. */
static bool join_with_next(struct pieces *book, size_t index)
{
    return !tested->loose_ranges && join_neighbours(book, index);
}

static void join_all(struct pieces *book)
{
    for (size_t i = 0; i < book->count; i++) {
        while (join_with_next(book, i)) {
        }
    }
}

static size_t piece_at(const struct rig *rig, uint64_t address)
{
    for (size_t i = 0; i < rig->book.count; i++) {
        if (address - rig->book.at[i].address < rig->book.at[i].size) {
            return i;
        }
    }
    REQUIRE(rig, false, "an address outside every region was handed out");
    return 0;
}

/* Splits the piece that holds `address`, so that a piece starts there. Returns the index of this piece. */
static size_t split_at(struct rig *rig, uint64_t address)
{
    size_t index = piece_at(rig, address);
    struct piece *piece = &rig->book.at[index];
    if (piece->address == address) {
        return index;
    }
    struct piece rest = *piece;
    piece->size = address - piece->address;
    rest.address = address;
    rest.size -= piece->size;
    insert_piece(&rig->book, index + 1, &rest);
    return index + 1;
}

/* Makes [address, address + size), which lies in one piece, a piece of its own and returns its index. */
static size_t carve(struct rig *rig, uint64_t address, uint64_t size)
{
    size_t index = split_at(rig, address);
    if (rig->book.at[index].size > size) {
        split_at(rig, address + size);
    }
    return index;
}

static size_t piece_with_token(const struct rig *rig, const void *token)
{
    for (size_t i = 0; i < rig->book.count; i++) {
        if (rig->book.at[i].taken && rig->book.at[i].token == token) {
            return i;
        }
    }
    REQUIRE(rig, false, "a token that the reference does not know");
    return 0;
}

/* --- comparing --- */

static size_t region_at(const struct rig *rig, uint64_t address)
{
    for (size_t i = 0; i < rig->region_count; i++) {
        if (rig->regions[i].alive && rig->regions[i].address == address) {
            return i;
        }
    }
    return rig->region_count;
}

static bool note_range(void *ctx, const weir_range_info *info)
{
    struct rig *rig = ctx;
    size_t region = region_at(rig, info->region_address);
    REQUIRE(rig, region < rig->region_count, "walk shows a region that was never added or is gone");
    REQUIRE(rig, rig->regions[region].size == info->region_size, "walk shows a region of another size");
    struct piece piece = {
        .region = region,
        .address = info->address,
        .size = info->size,
        .taken = info->taken,
        .lane = info->lane,
        .tick = info->tick,
        .token = info->token,
        .set_apart = info->set_apart,
    };
    insert_piece(&rig->seen, rig->seen.count, &piece);
    return true;
}

/* Sorts the regions, which the walk shows in groups, into the order in which they were added. Ranges stay in the order
 * of the walk: the ranges of a region that the walk shows in two parts fit together only if none is missing between
 * them. */
static void sort_regions(struct rig *rig)
{
    for (size_t i = 1; i < rig->seen.count; i++) {
        const struct piece piece = rig->seen.at[i];
        size_t to = i;
        while (to > 0 && rig->seen.at[to - 1].region > piece.region) {
            rig->seen.at[to] = rig->seen.at[to - 1];
            to--;
        }
        rig->seen.at[to] = piece;
    }
}

static void look(struct rig *rig)
{
    rig->seen.count = 0;
    rig->ops->walk(rig->state, note_range, rig);
    if (tested->groups_regions) {
        sort_regions(rig);
    }
}

/* Checks rule 1 (above) before all other rules, so that a wrong walk is reported first. */
static void require_tiling(const struct rig *rig)
{
    size_t next = 0;
    for (size_t region = 0; region < rig->region_count; region++) {
        if (!rig->regions[region].alive) {
            continue;
        }
        uint64_t address = rig->regions[region].address;
        while (next < rig->seen.count && rig->seen.at[next].region == region) {
            const struct piece *piece = &rig->seen.at[next++];
            REQUIRE(rig, piece->address == address, "ranges leave a gap, overlap, or are out of order");
            REQUIRE(rig, piece->size > 0 && piece->size % rig->ops->granule_bytes == 0,
                    "a range is no multiple of the granule");
            address += piece->size;
        }
        REQUIRE(rig, address == rig->regions[region].address + rig->regions[region].size,
                "ranges do not fill their region");
    }
    REQUIRE(rig, next == rig->seen.count, "regions are not in the order in which they were added");
}

/* True if both ticks agree. A free range of the open lane is reusable at any tick. */
static bool same_tick(const struct piece *expected, const struct piece *seen)
{
    return expected->lane == WEIR_LANE_OPEN || expected->tick == seen->tick;
}

static void require_same_ranges(const struct rig *rig)
{
    REQUIRE(rig, rig->seen.count == rig->book.count, "walk shows another number of ranges");
    for (size_t i = 0; i < rig->book.count; i++) {
        const struct piece *expected = &rig->book.at[i];
        const struct piece *seen = &rig->seen.at[i];
        REQUIRE(rig, expected->address == seen->address && expected->size == seen->size, "a range lies elsewhere");
        REQUIRE(rig, expected->taken == seen->taken, "a range is taken where it should be free, or free");
        if (expected->taken) {
            REQUIRE(rig, expected->token == seen->token, "a taken range has another token");
        } else {
            REQUIRE(rig, expected->lane == seen->lane, "a free range is in another lane");
            REQUIRE(rig, same_tick(expected, seen), "a free range has another tick");
        }
    }
}

/* Checks rule 2: free neighbours of one lane are one range, unless one of them is set apart for
 * requests of one size. */
static void require_set_apart(const struct rig *rig)
{
    for (size_t i = 0; i < rig->seen.count; i++) {
        const struct piece *seen = &rig->seen.at[i];
        const struct piece *next = seen + 1;
        REQUIRE(rig, !seen->set_apart || (!seen->taken && tested->sets_aside),
                "a range is set apart that is taken, or by a strategy that sets nothing aside");
        const bool two = i + 1 < rig->seen.count && !seen->taken && !next->taken && seen->region == next->region &&
                         seen->lane == next->lane;
        REQUIRE(rig, !two || seen->set_apart || next->set_apart, "free neighbours of one lane are two ranges");
    }
}

/* Compares byte by byte: each byte has the expected state and lane, and no tick is lost. */
static void require_no_less(struct rig *rig)
{
    size_t i = 0;
    size_t j = 0;
    while (i < rig->book.count && j < rig->seen.count) {
        const struct piece *expected = &rig->book.at[i];
        const struct piece *seen = &rig->seen.at[j];
        REQUIRE(rig, expected->taken == seen->taken, "a range is taken where it should be free, or free");
        if (expected->taken) {
            REQUIRE(rig,
                    expected->address == seen->address && expected->size == seen->size &&
                        expected->token == seen->token,
                    "a taken range lies elsewhere");
        } else {
            REQUIRE(rig, expected->lane == seen->lane, "a free range is in another lane");
            REQUIRE(rig, expected->lane == WEIR_LANE_OPEN || seen->tick >= expected->tick, "a tick is lost");
        }
        uint64_t expected_end = expected->address + expected->size;
        uint64_t seen_end = seen->address + seen->size;
        bool same_region = expected->region == seen->region;
        i += !same_region || expected_end <= seen_end ? 1 : 0;
        j += !same_region || seen_end <= expected_end ? 1 : 0;
    }
    rig->book.count = 0;
    for (size_t k = 0; k < rig->seen.count; k++) {
        insert_piece(&rig->book, k, &rig->seen.at[k]);
    }
}

static void require_lane_stats(const struct rig *rig, weir_lane lane)
{
    weir_lane_stats expected = {0};
    for (size_t i = 0; i < rig->seen.count; i++) {
        const struct piece *piece = &rig->seen.at[i];
        if (!piece->taken && piece->lane == lane) {
            expected.ranges++;
            expected.bytes += piece->size;
            expected.largest_bytes = piece->size > expected.largest_bytes ? piece->size : expected.largest_bytes;
        }
    }
    weir_lane_stats stats = {.struct_size = sizeof(stats), .ranges = 77, .bytes = 77, .largest_bytes = 77};
    rig->ops->lane_stats(rig->state, lane, &stats);
    REQUIRE(rig, stats.struct_size == sizeof(stats), "lane_stats changes struct_size");
    REQUIRE(rig, stats.ranges == expected.ranges, "lane_stats: ranges differ from the walk");
    REQUIRE(rig, stats.bytes == expected.bytes, "lane_stats: bytes differ from the walk");
    REQUIRE(rig, stats.largest_bytes == expected.largest_bytes, "lane_stats: largest differs from the walk");
}

static weir_strategy_stats add_up(const struct rig *rig)
{
    weir_strategy_stats sum = {0};
    for (size_t i = 0; i < rig->region_count; i++) {
        sum.regions += rig->regions[i].alive ? 1 : 0;
        sum.region_bytes += rig->regions[i].alive ? rig->regions[i].size : 0;
    }
    for (size_t i = 0; i < rig->seen.count; i++) {
        const struct piece *piece = &rig->seen.at[i];
        if (piece->taken) {
            sum.taken_ranges++;
            sum.taken_bytes += piece->size;
        } else if (piece->lane != WEIR_LANE_UNMAPPED) {
            sum.free_ranges++;
            sum.free_bytes += piece->size;
            sum.largest_free_bytes = piece->size > sum.largest_free_bytes ? piece->size : sum.largest_free_bytes;
        }
    }
    return sum;
}

static void require_stats(const struct rig *rig)
{
    weir_strategy_stats expected = add_up(rig);
    weir_strategy_stats stats;
    memset(&stats, 0x11, sizeof(stats));
    stats.struct_size = sizeof(stats);
    rig->ops->stats(rig->state, &stats);
    REQUIRE(rig, stats.struct_size == sizeof(stats), "stats changes struct_size");
    REQUIRE(rig, stats.regions == expected.regions, "stats: regions differ");
    REQUIRE(rig, stats.region_bytes == expected.region_bytes, "stats: region_bytes differ");
    REQUIRE(rig, stats.taken_ranges == expected.taken_ranges, "stats: taken_ranges differ from the walk");
    REQUIRE(rig, stats.taken_bytes == expected.taken_bytes, "stats: taken_bytes differ from the walk");
    REQUIRE(rig, stats.free_ranges == expected.free_ranges, "stats: free_ranges differ from the walk");
    REQUIRE(rig, stats.free_bytes == expected.free_bytes, "stats: free_bytes differ from the walk");
    REQUIRE(rig, stats.largest_free_bytes == expected.largest_free_bytes, "stats: largest_free differs");
    for (weir_lane lane = 0; lane < LANES; lane++) {
        require_lane_stats(rig, lane);
    }
    for (weir_lane lane = LANES; lane <= rig->high_lanes; lane++) {
        require_lane_stats(rig, lane);
    }
    if (claims(rig)) {
        require_lane_stats(rig, WEIR_LANE_UNMAPPED);
    }
}

typedef void (*run_walk)(const void *state, uint64_t least, weir_range_visitor visit, void *ctx);

static bool is_free(const struct rig *rig, size_t i, size_t region)
{
    return i < rig->seen.count && rig->seen.at[i].region == region && !rig->seen.at[i].taken;
}

/* The free neighbours that begin with range number `first` of the walk. */
struct free_run {
    size_t ranges;
    uint64_t bytes;
    uint64_t mapped; /* bytes of the largest row of adjacent ranges with memory */
    bool hole;
};

static struct free_run run_at(const struct rig *rig, size_t first)
{
    struct free_run run = {.ranges = 0};
    uint64_t mapped = 0;
    for (size_t i = first; is_free(rig, i, rig->seen.at[first].region); i++) {
        const bool hole = rig->seen.at[i].lane == WEIR_LANE_UNMAPPED;
        mapped = hole ? 0 : mapped + rig->seen.at[i].size;
        run.mapped = mapped > run.mapped ? mapped : run.mapped;
        run.bytes += rig->seen.at[i].size;
        run.hole |= hole;
        run.ranges++;
    }
    return run;
}

/* The runs that walk_holes or walk_free has shown so far. */
struct shown_runs {
    const struct rig *rig;
    bool holes;
    uint64_t least;
    size_t next;  /* index in `seen` of the range that must come next; 0: the next range begins a run */
    size_t shown; /* number of ranges in the shown runs that the caller has asked for */
};

static bool asked_for(const struct shown_runs *runs, const struct free_run *run)
{
    return runs->holes ? run->hole && run->bytes >= runs->least : run->mapped >= runs->least;
}

static bool note_run(void *ctx, const weir_range_info *info)
{
    struct shown_runs *runs = ctx;
    const struct rig *rig = runs->rig;
    size_t i = 0;
    while (i < rig->seen.count && rig->seen.at[i].address != info->address) {
        i++;
    }
    REQUIRE(rig,
            i < rig->seen.count && rig->seen.at[i].size == info->size && !info->taken &&
                rig->seen.at[i].lane == info->lane && rig->seen.at[i].tick == info->tick,
            "a walk of runs shows a range that walk does not");
    const size_t region = rig->seen.at[i].region;
    const bool begins = i == 0 || !is_free(rig, i - 1, region);
    REQUIRE(rig, runs->next == 0 ? begins : i == runs->next, "a walk of runs shows a run in pieces");
    if (runs->next == 0) {
        const struct free_run run = run_at(rig, i);
        REQUIRE(rig, !runs->holes || asked_for(runs, &run), "walk_holes shows a run without a hole, or a small one");
        runs->shown += asked_for(runs, &run) ? run.ranges : 0;
    }
    runs->next = is_free(rig, i + 1, region) ? i + 1 : 0;
    return true;
}

/* Checks that the walk shows each run that was asked for exactly once, with the ranges that `walk` shows, and that
 * walk_holes shows no other run. */
static void require_runs(const struct rig *rig, run_walk walk, bool holes, uint64_t least)
{
    struct shown_runs runs = {.rig = rig, .holes = holes, .least = least};
    size_t expected = 0;
    for (size_t i = 0; i < rig->seen.count;) {
        const struct free_run run = run_at(rig, i);
        expected += asked_for(&runs, &run) ? run.ranges : 0;
        i += run.ranges > 0 ? run.ranges : 1;
    }
    walk(rig->state, least, note_run, &runs);
    REQUIRE(rig, runs.next == 0 && runs.shown == expected, "a walk of runs leaves something out, or shows it twice");
}

/* The ranges that walk_large has shown so far. */
struct shown_large {
    const struct rig *rig;
    uint64_t least;
    size_t shown; /* without those set apart */
};

static void *taken_at(const struct rig *rig, size_t i, size_t region)
{
    return i < rig->seen.count && rig->seen.at[i].region == region ? rig->seen.at[i].token : NULL;
}

static bool note_large(void *ctx, const weir_range_info *info)
{
    struct shown_large *large = ctx;
    const struct rig *rig = large->rig;
    size_t i = 0;
    while (i < rig->seen.count && rig->seen.at[i].address != info->address) {
        i++;
    }
    REQUIRE(rig, i < rig->seen.count, "walk_large shows a range that walk does not");
    const struct piece *piece = &rig->seen.at[i];
    REQUIRE(rig,
            piece->size == info->size && !info->taken && !piece->taken && piece->lane == info->lane &&
                piece->tick == info->tick && info->lane != WEIR_LANE_UNMAPPED && piece->size >= large->least,
            "walk_large shows a range that is not free, or a small one, or shows it wrongly");
    const struct place *region = &rig->regions[piece->region];
    const bool fills = piece->size == region->size;
    REQUIRE(rig,
            info->region_address == (fills ? region->address : 0) && info->region_size == (fills ? region->size : 0),
            "walk_large does not tell whether a range fills its region");
    void *below = taken_at(rig, i - 1, piece->region);
    void *above = taken_at(rig, i + 1, piece->region);
    REQUIRE(rig, info->token != NULL ? info->token == below || info->token == above : below == NULL && above == NULL,
            "walk_large shows a token that is not a neighbour's");
    large->shown += !info->set_apart;
    return true;
}

static void require_large(const struct rig *rig, uint64_t least)
{
    struct shown_large large = {.rig = rig, .least = least};
    size_t expected = 0;
    for (size_t i = 0; i < rig->seen.count; i++) {
        const struct piece *piece = &rig->seen.at[i];
        expected += !piece->taken && !piece->set_apart && piece->lane != WEIR_LANE_UNMAPPED && piece->size >= least;
    }
    rig->ops->walk_large(rig->state, least, note_large, &large);
    REQUIRE(rig, large.shown == expected, "walk_large leaves something out, or shows it twice");
}

/* --- the pool's side of records --- */

/* Returns a different number for each address. */
static uint64_t mark_of(uint64_t address)
{
    const uint64_t mixed = (address ^ (address >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return mixed ^ (mixed >> 32);
}

static uint32_t pool_state(uint64_t address)
{
    return WEIR_RECORD_TAKEN | ((uint32_t)mark_of(address) & ~WEIR_RECORD_KEPT);
}

static uint32_t route_of(const struct rig *rig, uint64_t address)
{
    return (rig->ops->flags & WEIR_STRATEGY_ROUTES) == 0 && mark_of(address) % 2 != 0 ? WEIR_RECORD_ROUTE : 0;
}

/* Fills in the record of a range that the strategy has just handed out. */
static void take_record(const struct rig *rig, uint64_t address, uint64_t size, void *token)
{
    REQUIRE(rig, (uintptr_t)token % 8 == 0, "a token is no address of a record");
    for (size_t i = 0; i < rig->book.count; i++) {
        REQUIRE(rig, !rig->book.at[i].taken || rig->book.at[i].token != token, "two taken ranges have one token");
    }
    weir_record *record = token;
    REQUIRE(rig, record->address == address && record->size == size, "a record has another address or size");
    REQUIRE(rig, __atomic_load_n(&record->state, __ATOMIC_RELAXED) == WEIR_RECORD_TAKEN,
            "a record does not say that its range is taken");
    REQUIRE(rig, (rig->ops->flags & WEIR_STRATEGY_ROUTES) != 0 || (record->own & WEIR_RECORD_ROUTE) == 0,
            "a record is marked by no strategy over strategies");
    record->own |= route_of(rig, address);
    record->as.pool.requested = mark_of(address);
    record->as.pool.link = (void *)(uintptr_t)~mark_of(address);
    record->as.pool.stream = (void *)(uintptr_t)(mark_of(address) / 3);
    __atomic_store_n(&record->state, pool_state(address), __ATOMIC_RELAXED);
}

static void require_record(const struct rig *rig, const struct piece *piece)
{
    const weir_record *record = piece->token;
    const uint64_t mark = mark_of(piece->address);
    REQUIRE(rig, record->address == piece->address && record->size == piece->size,
            "the record of a taken range has another address or size");
    REQUIRE(rig,
            record->as.pool.requested == mark && record->as.pool.link == (void *)(uintptr_t)~mark &&
                record->as.pool.stream == (void *)(uintptr_t)(mark / 3) &&
                __atomic_load_n(&record->state, __ATOMIC_RELAXED) == pool_state(piece->address),
            "the pool's side of a record was written while its range was taken");
    REQUIRE(rig,
            (rig->ops->flags & WEIR_STRATEGY_ROUTES) != 0 ||
                (record->own & WEIR_RECORD_ROUTE) == route_of(rig, piece->address),
            "the mark of a strategy over strategies was changed");
}

static void require_records(const struct rig *rig)
{
    for (size_t i = 0; i < rig->book.count; i++) {
        if (rig->book.at[i].taken) {
            require_record(rig, &rig->book.at[i]);
        }
    }
    for (size_t i = 0; i < rig->gone_count && i < MOST_GONE; i++) {
        (void)__atomic_load_n(&rig->gone[i]->state, __ATOMIC_RELAXED);
    }
}

/* Clears the suite's part of a record before the range goes back to the strategy. */
static void leave_record(struct rig *rig, weir_record *record)
{
    record->own &= ~route_of(rig, record->address);
    rig->gone[rig->gone_count++ % MOST_GONE] = record;
}

/* Compares strategy and reference. Called after every call of the strategy. */
static void compare(struct rig *rig)
{
    look(rig);
    require_tiling(rig);
    require_set_apart(rig);
    if (tested->loose_ranges) {
        require_no_less(rig);
    } else {
        require_same_ranges(rig);
    }
    require_records(rig);
    require_stats(rig);
    for (uint64_t granules = 1; granules < 10; granules += 4) {
        const uint64_t least = granules * rig->ops->granule_bytes;
        if (rig->ops->walk_holes != NULL) {
            require_runs(rig, rig->ops->walk_holes, true, least);
        }
        if (rig->ops->walk_free != NULL) {
            require_runs(rig, rig->ops->walk_free, false, least);
        }
        if (rig->ops->walk_large != NULL) {
            require_large(rig, least);
        }
    }
    const char *why = "check failed without a reason";
    weir_status status = rig->ops->check(rig->state, &why);
    REQUIRE(rig, status == WEIR_OK, why);
}

#endif
