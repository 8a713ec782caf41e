/* strategy_contract.c: tests that a strategy keeps the rules of weir/strategy.h, against a naive reference.
 * strategy_contract.h says how to run it.
 *
 * The reference (struct rig) is a sorted list of ranges with lanes and ticks. It performs each call by hand, except for
 * the choice of a place. After every call the suite compares the walk range by range, compares every statistic with the
 * sum over the walk, and calls check. Each call below tests all of this; the tests differ in the states that they
 * reach.
 *
 * The suite uses records as a pool does. From alloc or claim until free, `as` and `state` of a taken range's record
 * hold values of the suite, different for each range, and `own` of every other record holds WEIR_RECORD_ROUTE. A
 * strategy that reads these fields goes wrong; the next comparison finds a strategy that writes them. The suite still
 * reads the records of freed ranges until fini, so a sanitizer, or a crash, reports records that were released too
 * early.
 */
#include "strategy_contract.h"

#include "contract.h"

static const weir_tested_strategy *tested;

#define LANES 5 /* the open lane and four streams */
#define HIGH_LANE 300
#define GUARD_BYTES 64 /* bytes behind the state */
#define GRANULARITY (UINT64_C(2) << 20)
#define FIRST_ADDRESS (UINT64_C(1) << 46)
#define DEFAULT_SEEDS 4000
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
    uint64_t seed; /* of the random program, for messages */
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

/* Checks rule 1 by itself, so that a wrong walk is reported before ranges are compared. */
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

/* True if both ticks agree. A free range of the open lane is reusable whatever its tick is. */
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
    uint64_t mapped; /* the most bytes of neighbours that have memory */
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
    size_t next;  /* index in `seen` that must come next; 0: a run begins */
    size_t shown; /* ranges of runs that were asked for */
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

/* Checks that the walk shows each run asked for once and as walk shows it, and that walk_holes shows no other run. */
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
    }
    const char *why = "check failed without a reason";
    weir_status status = rig->ops->check(rig->state, &why);
    REQUIRE(rig, status == WEIR_OK, why);
}

/* --- the calls --- */

/* Calls init with a copy of the config and then overwrites the copy: after init the config belongs to
 * the caller again. */
static void init_with_copy(struct rig *rig)
{
    if (tested->config_bytes != 0) {
        rig->config = must(malloc(tested->config_bytes));
        memcpy(rig->config, tested->config, tested->config_bytes);
    }
    assert_int_equal(rig->ops->init(rig->state, rig->config != NULL ? rig->config : tested->config), WEIR_OK);
    if (rig->config != NULL) {
        memset(rig->config, 0xa5, tested->config_bytes);
    }
}

static void start(struct rig *rig, enum layout layout)
{
    memset(rig, 0, sizeof(*rig));
    rig->ops = tested->ops;
    rig->layout = layout;
    rig->low = FIRST_ADDRESS + (layout == SHIFTED ? UINT64_C(0x7345) << 30 : 0);
    rig->high = rig->low;
    rig->state_bytes = rig->ops->state_size(tested->config);
    rig->state = must(calloc(1, rig->state_bytes + GUARD_BYTES));
    memset((unsigned char *)rig->state + rig->state_bytes, 0xa5, GUARD_BYTES);
    init_with_copy(rig);
    for (weir_lane lane = 0; rig->ops->lane_add != NULL && lane < LANES; lane++) {
        assert_int_equal(rig->ops->lane_add(rig->state, lane), WEIR_OK);
        assert_int_equal(rig->ops->lane_add(rig->state, lane), WEIR_OK);
    }
    if (claims(rig) && rig->ops->lane_add != NULL) {
        assert_int_equal(rig->ops->lane_add(rig->state, WEIR_LANE_UNMAPPED), WEIR_OK);
    }
    compare(rig);
}

static void stop(struct rig *rig)
{
    rig->ops->fini(rig->state);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        REQUIRE(rig, ((unsigned char *)rig->state)[rig->state_bytes + i] == 0xa5,
                "memory behind the state was written");
    }
    free(rig->state);
    free(rig->config);
    free(rig->book.at);
    free(rig->seen.at);
    free(rig->regions);
}

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* Adds a region. `gap` bytes stay unused between this region and the one before; with 0 they are adjacent. */
static size_t add_region_at(struct rig *rig, uint64_t size, uint64_t hint, weir_lane lane, weir_tick tick,
                            uint64_t align, uint64_t gap)
{
    uint64_t address = round_up(rig->high + gap, align);
    if (rig->layout == DESCENDING) {
        address = (rig->low - gap - size) & ~(align - 1);
    }
    rig->low = address < rig->low ? address : rig->low;
    rig->high = address + size > rig->high ? address + size : rig->high;
    void *handle = NULL;
    weir_status status = rig->ops->region_add(rig->state, address, size, hint, lane, tick, &handle);
    REQUIRE(rig, status == WEIR_OK, "region_add failed");
    size_t index = rig->region_count;
    rig->regions = must(realloc(rig->regions, (index + 1) * sizeof(*rig->regions)));
    rig->regions[index] =
        (struct place){.address = address, .size = size, .hint = hint, .handle = handle, .alive = true};
    rig->region_count++;
    struct piece whole = {.region = index, .address = address, .size = size, .lane = lane, .tick = tick};
    insert_piece(&rig->book, rig->book.count, &whole);
    compare(rig);
    return index;
}

static size_t add_region(struct rig *rig, uint64_t size, uint64_t hint, weir_lane lane, uint64_t align, uint64_t gap)
{
    return add_region_at(rig, size, hint, lane, tick_now(rig, lane), align, gap);
}

static bool eligible(const struct piece *piece, const weir_tick *limits, size_t lanes)
{
    return !piece->taken && piece->lane < lanes &&
           (piece->lane == WEIR_LANE_OPEN || piece->tick <= limits[piece->lane]);
}

static bool removable(const struct rig *rig, size_t region, const weir_tick *limits, size_t lanes)
{
    for (size_t i = 0; i < rig->book.count; i++) {
        if (rig->book.at[i].region == region && !eligible(&rig->book.at[i], limits, lanes)) {
            return false;
        }
    }
    return true;
}

/* Checks region_idle: it reports a region that may go if there is one. It may report any such region. */
static void require_idle_found(const struct rig *rig, const weir_tick *limits, size_t lanes)
{
    bool expected = false;
    uint64_t address = 77;
    for (size_t i = 0; i < rig->region_count; i++) {
        expected |= rig->regions[i].alive && removable(rig, i, limits, lanes);
    }
    bool found = rig->ops->region_idle(rig->state, limits, lanes, &address);
    REQUIRE(rig, found || address == 77, "region_idle wrote its result and found none");
    REQUIRE(rig, found == expected, "region_idle missed a region, or found one where none may go");
    if (found) {
        size_t region = region_at(rig, address);
        REQUIRE(rig, region < rig->region_count && removable(rig, region, limits, lanes),
                "region_idle found a region that may not go");
    }
}

static bool remove_region(struct rig *rig, size_t region, const weir_tick *limits, size_t lanes)
{
    bool expected = removable(rig, region, limits, lanes);
    if (rig->ops->region_idle != NULL) {
        require_idle_found(rig, limits, lanes);
    }
    weir_status status = rig->ops->region_remove(rig->state, rig->regions[region].handle, limits, lanes);
    REQUIRE(rig, status == WEIR_OK || status == WEIR_ERR_BUSY, "region_remove: neither done nor busy");
    REQUIRE(rig, expected || status == WEIR_ERR_BUSY, "region_remove took a region that is in use");
    REQUIRE(rig, !expected || status == WEIR_OK, "region_remove refused a region that nobody's work can touch");
    if (expected) {
        rig->regions[region].alive = false;
        for (size_t i = rig->book.count; i-- > 0;) {
            if (rig->book.at[i].region == region) {
                erase_piece(&rig->book, i);
            }
        }
    }
    compare(rig);
    return expected;
}

static bool is_small(uint64_t size)
{
    return tested->small_bytes == 0 || size <= tested->small_bytes;
}

/* True if `size` bytes at `align` fit into `bytes` bytes of a region at every start address. */
static bool surely_fits(const struct rig *rig, size_t region, uint64_t bytes, uint64_t size, uint64_t align)
{
    const struct place *place = &rig->regions[region];
    uint64_t granule = rig->ops->granule_bytes;
    if (tested->whole_regions) {
        return place->hint == size && bytes >= size && (place->address & (align - 1)) == 0;
    }
    return (place->hint == 0 || is_small(place->hint) == is_small(size)) &&
           bytes >= round_up(size, granule) + (align > granule ? align - granule : 0);
}

static void require_refusal(const struct rig *rig, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align)
{
    if (tested->refuses_early || tested->sets_aside || limit != WEIR_TICK_MAX) {
        return;
    }
    for (size_t i = 0; i < rig->book.count; i++) {
        const struct piece *piece = &rig->book.at[i];
        REQUIRE(rig, piece->taken || piece->lane != lane || !surely_fits(rig, piece->region, piece->size, size, align),
                "alloc refused although a range of the lane fits");
    }
}

static void require_fit(const struct rig *rig, const struct piece *piece, const weir_range *range, weir_lane lane,
                        weir_tick limit)
{
    REQUIRE(rig, !piece->taken, "alloc handed out a taken range");
    REQUIRE(rig, range->size <= piece->address + piece->size - range->address, "alloc handed out beyond a free range");
    REQUIRE(rig, piece->lane == lane, "alloc took from another lane");
    REQUIRE(rig, lane == WEIR_LANE_OPEN || piece->tick <= limit, "alloc took a range whose tick is above the limit");
}

/* Returns the token, or NULL if the strategy refuses. */
static void *alloc(struct rig *rig, weir_lane lane, weir_tick limit, uint64_t size, uint64_t align, weir_range *out)
{
    const weir_range unset = {.address = 77, .size = 77, .token = rig};
    weir_range range = unset;
    weir_status status = rig->ops->alloc(rig->state, lane, limit, size, align, &range);
    if (status != WEIR_OK) {
        REQUIRE(rig, status == WEIR_ERR_NO_MEMORY, "alloc failed for another reason than memory");
        REQUIRE(rig, range.address == unset.address && range.size == unset.size && range.token == unset.token,
                "a failed alloc wrote its result");
        require_refusal(rig, lane, limit, size, align);
        compare(rig);
        return NULL;
    }
    REQUIRE(rig, range.token != NULL, "alloc gave no token");
    REQUIRE(rig, range.size >= size, "alloc handed out less than asked");
    REQUIRE(rig, range.size % rig->ops->granule_bytes == 0, "alloc handed out a part of a granule");
    REQUIRE(rig, (range.address & (align - 1)) == 0, "alloc missed the alignment");
    size_t index = piece_at(rig, range.address);
    while (tested->loose_ranges &&
           rig->book.at[index].address + rig->book.at[index].size < range.address + range.size &&
           join_neighbours(&rig->book, index)) {
    }
    require_fit(rig, &rig->book.at[index], &range, lane, limit);
    take_record(rig, range.address, range.size, range.token);
    index = carve(rig, range.address, range.size);
    rig->book.at[index].taken = true;
    rig->book.at[index].token = range.token;
    compare(rig);
    if (out != NULL) {
        *out = range;
    }
    return range.token;
}

static void free_token_at(struct rig *rig, void *token, weir_lane lane, weir_tick tick)
{
    size_t index = piece_with_token(rig, token);
    leave_record(rig, token);
    rig->ops->free(rig->state, token, lane, tick);
    struct piece *piece = &rig->book.at[index];
    piece->taken = false;
    piece->token = NULL;
    piece->lane = lane;
    piece->tick = tick;
    join_with_next(&rig->book, index);
    if (index > 0) {
        join_with_next(&rig->book, index - 1);
    }
    compare(rig);
}

static void free_token(struct rig *rig, void *token, weir_lane lane)
{
    free_token_at(rig, token, lane, tick_now(rig, lane));
}

static uint64_t promote(struct rig *rig, weir_lane lane, weir_tick limit)
{
    uint64_t expected = 0;
    const bool moves = !private_lanes(rig) && lane != WEIR_LANE_OPEN && lane != WEIR_LANE_UNMAPPED;
    for (size_t i = 0; i < rig->book.count && moves; i++) {
        struct piece *piece = &rig->book.at[i];
        if (!piece->taken && piece->lane == lane && piece->tick <= limit) {
            expected += piece->size;
            piece->lane = WEIR_LANE_OPEN;
            piece->tick = 0;
        }
    }
    join_all(&rig->book);
    uint64_t moved = rig->ops->promote(rig->state, lane, limit);
    REQUIRE(rig, moved == expected, "promote says that other bytes moved than those at or below the limit");
    compare(rig);
    return moved;
}

/* True if eligible neighbours, or a single range, certainly hold the request. */
static bool some_run_fits(const struct rig *rig, const weir_tick *limits, size_t lanes, uint64_t size, uint64_t align)
{
    for (size_t i = 0; i < rig->book.count; i++) {
        size_t region = rig->book.at[i].region;
        uint64_t bytes = 0;
        for (size_t j = i; j < rig->book.count && rig->book.at[j].region == region; j++) {
            if (!eligible(&rig->book.at[j], limits, lanes)) {
                break;
            }
            bytes += rig->book.at[j].size;
            if (surely_fits(rig, region, bytes, size, align)) {
                return true;
            }
        }
    }
    return false;
}

static bool differs(const struct piece *expected, const struct piece *seen)
{
    if (seen->address != expected->address || seen->size != expected->size || seen->taken != expected->taken) {
        return true;
    }
    return !seen->taken && (seen->lane != expected->lane || !same_tick(expected, seen));
}

/* Returns the range that gather made: the first range of the walk that differs from the reference. NULL if none
 * differs. */
static const struct piece *gathered_range(const struct rig *rig, weir_lane lane)
{
    for (size_t i = 0; i < rig->seen.count && i < rig->book.count; i++) {
        const struct piece *seen = &rig->seen.at[i];
        if (differs(&rig->book.at[i], seen)) {
            REQUIRE(rig, !seen->taken && seen->lane == lane, "gather changed a range that is not in the lane");
            return seen;
        }
    }
    return NULL;
}

/* Books a successful gather. All of `whole` was free, and either eligible or in the lane itself. It is now one range of
 * the lane, at the latest of `tick` and the ticks of the lane's own ranges in it. */
static void book_gathered(struct rig *rig, const struct piece *whole, weir_tick tick, const weir_tick *limits,
                          size_t lanes)
{
    const struct place *place = &rig->regions[whole->region];
    uint64_t end = whole->address + whole->size;
    if (end < place->address + place->size) {
        split_at(rig, end);
    }
    for (size_t i = split_at(rig, whole->address); i < rig->book.count; i++) {
        struct piece *piece = &rig->book.at[i];
        if (piece->region != whole->region || piece->address >= end) {
            break;
        }
        REQUIRE(rig, !piece->taken, "gather took in a range that is in use");
        REQUIRE(rig, eligible(piece, limits, lanes) || piece->lane == whole->lane,
                "gather took in a range that is not eligible");
        REQUIRE(rig, piece->lane != whole->lane || piece->tick <= whole->tick || whole->lane == WEIR_LANE_OPEN,
                "gather lost a tick");
        tick = piece->lane == whole->lane && piece->tick > tick ? piece->tick : tick;
        piece->lane = whole->lane;
        piece->tick = whole->tick;
    }
    REQUIRE(rig, tested->loose_ranges || whole->lane == WEIR_LANE_OPEN || whole->tick == tick,
            "gather made a range of a later tick than it should");
    join_all(&rig->book);
}

static bool gather_only(struct rig *rig, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                        uint64_t size, uint64_t align, bool last_resort)
{
    bool fits = some_run_fits(rig, limits, lanes, size, align);
    bool found = rig->ops->gather(rig->state, lane, tick, limits, lanes, size, align, last_resort);
    if (!found) {
        REQUIRE(rig, tested->refuses_early || !fits, "gather found nothing although eligible neighbours fit");
        compare(rig);
        return false;
    }
    look(rig);
    const struct piece *changed = gathered_range(rig, lane);
    if (changed != NULL) {
        struct piece whole = *changed;
        REQUIRE(rig, lane == WEIR_LANE_OPEN || whole.tick >= tick, "gather made a range of an earlier tick");
        book_gathered(rig, &whole, tick, limits, lanes);
    }
    compare(rig);
    return true;
}

/* Calls gather, and then alloc for the same request. */
static bool gather_at(struct rig *rig, weir_lane lane, weir_tick tick, const weir_tick *limits, size_t lanes,
                      uint64_t size, uint64_t align, bool last_resort)
{
    if (!gather_only(rig, lane, tick, limits, lanes, size, align, last_resort)) {
        return false;
    }
    void *token = alloc(rig, lane, WEIR_TICK_MAX, size, align, NULL);
    REQUIRE(rig, token != NULL, "alloc fails after gather succeeded");
    return true;
}

static bool gather_as(struct rig *rig, weir_lane lane, const weir_tick *limits, size_t lanes, uint64_t size,
                      uint64_t align, bool last_resort)
{
    return gather_at(rig, lane, tick_now(rig, lane), limits, lanes, size, align, last_resort);
}

static bool gather(struct rig *rig, weir_lane lane, const weir_tick *limits, size_t lanes, uint64_t size,
                   uint64_t align)
{
    return gather_as(rig, lane, limits, lanes, size, align, tested->sets_aside);
}

/* True if the piece is free as a claim asks. `limits` NULL: the piece is unmapped. */
static bool as_asked(const struct piece *piece, const weir_tick *limits, size_t lanes)
{
    return limits != NULL ? eligible(piece, limits, lanes) : !piece->taken && piece->lane == WEIR_LANE_UNMAPPED;
}

/* True if all of [address, end) is free as a claim asks. */
static bool claimable(const struct rig *rig, uint64_t address, uint64_t end, const weir_tick *limits, size_t lanes)
{
    size_t region = rig->book.at[piece_at(rig, address)].region;
    for (size_t i = piece_at(rig, address); address < end; i++) {
        if (i == rig->book.count || rig->book.at[i].region != region) {
            return false;
        }
        const struct piece *piece = &rig->book.at[i];
        if (!as_asked(piece, limits, lanes)) {
            return false;
        }
        address = piece->address + piece->size;
    }
    return true;
}

/* Checks that a claim changed only ranges around [address, end): the ranges that are free as asked, and the first other
 * range on either side, since a piece that the claim cuts off may join it. All ranges beyond are the same as in
 * `before`. */
static void require_only_around(const struct rig *rig, const struct pieces *before, uint64_t address, uint64_t end,
                                const weir_tick *limits, size_t lanes)
{
    size_t low = 0;
    while (address - before->at[low].address >= before->at[low].size) {
        low++;
    }
    const size_t region = before->at[low].region;
    size_t high = low;
    while (low > 0 && before->at[low].region == region && as_asked(&before->at[low], limits, lanes)) {
        low--;
    }
    while (high + 1 < before->count && (before->at[high].address < end || as_asked(&before->at[high], limits, lanes)) &&
           before->at[high + 1].region == region) {
        high++;
    }
    for (size_t i = 0; i < before->count; i++) {
        /* Below the claim indices count from the first range, above it from the last range. */
        const size_t same = i < low ? i : rig->seen.count - (before->count - i);
        const struct piece *piece = &before->at[i];
        const struct piece *seen = &rig->seen.at[same];
        REQUIRE(rig,
                (i >= low && i <= high) ||
                    (same < rig->seen.count && seen->address == piece->address && seen->size == piece->size &&
                     seen->taken == piece->taken && seen->lane == piece->lane && same_tick(piece, seen)),
                "claim changed a range that lies apart from what it took");
    }
}

/* Claims `count` ranges of `size` bytes side by side, at most 8. Returns false if the memory is not free as asked. */
static bool claim_several(struct rig *rig, uint64_t address, uint64_t size, size_t count, const weir_tick *limits,
                          size_t lanes, void **tokens)
{
    const uint64_t end = address + count * size;
    void *given[8] = {rig, rig, rig, rig, rig, rig, rig, rig};
    const bool expected = claimable(rig, address, end, limits, lanes);
    struct pieces before = {0};
    for (size_t i = 0; i < rig->seen.count; i++) {
        insert_piece(&before, i, &rig->seen.at[i]);
    }
    const weir_status status = rig->ops->claim(rig->state, address, size, count, limits, lanes, given);
    REQUIRE(rig, status == WEIR_OK || status == WEIR_ERR_BUSY, "claim: neither done nor busy");
    REQUIRE(rig, expected || status == WEIR_ERR_BUSY, "claim took memory that is not free as asked");
    REQUIRE(rig, !expected || status == WEIR_OK, "claim refused memory that is free as asked");
    for (size_t i = 0; i < 8; i++) {
        const bool written = expected && i < count;
        REQUIRE(rig, written ? given[i] != NULL && given[i] != (void *)rig : given[i] == (void *)rig,
                "claim wrote other tokens than those of what it took");
    }
    if (!expected) {
        compare(rig);
        free(before.at);
        return false;
    }
    const struct place *region = &rig->regions[rig->book.at[piece_at(rig, address)].region];
    if (end < region->address + region->size) {
        (void)split_at(rig, end);
    }
    size_t first = split_at(rig, address);
    while (rig->book.at[first].size < end - address) {
        rig->book.at[first].size += rig->book.at[first + 1].size;
        erase_piece(&rig->book, first + 1);
    }
    for (size_t i = 0; i < count; i++) {
        take_record(rig, address + i * size, size, given[i]);
    }
    rig->book.at[first].taken = true;
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count) {
            (void)split_at(rig, address + (i + 1) * size);
        }
        first = piece_at(rig, address + i * size);
        rig->book.at[first].token = tokens[i] = given[i];
    }
    compare(rig);
    require_only_around(rig, &before, address, end, limits, lanes);
    free(before.at);
    return true;
}

/* Returns the token, or NULL if the memory is not free as asked. */
static void *claim(struct rig *rig, uint64_t address, uint64_t size, const weir_tick *limits, size_t lanes)
{
    void *token = NULL;
    return claim_several(rig, address, size, 1, limits, lanes, &token) ? token : NULL;
}

/* Adds a region of the size that the strategy asks for, and allocates the request that the region is
 * for. It must fit. */
static void *grow(struct rig *rig, weir_lane lane, uint64_t size, uint64_t align, uint64_t gap)
{
    uint64_t reserved = add_up(rig).region_bytes;
    uint64_t bytes = rig->ops->region_size(rig->state, size, align, reserved, GRANULARITY);
    REQUIRE(rig, bytes >= size && bytes % GRANULARITY == 0, "region_size: too small or no multiple of the granularity");
    uint64_t start_at = tested->whole_regions && align > rig->ops->granule_bytes ? align : rig->ops->granule_bytes;
    add_region(rig, bytes, rig->one_kind ? 0 : size, lane, start_at, gap);
    void *token = alloc(rig, lane, WEIR_TICK_MAX, size, align, NULL);
    REQUIRE(rig, token != NULL, "alloc fails in a new region of the size that region_size asked for");
    return token;
}

static void set_limits(weir_tick *limits, weir_tick limit)
{
    for (size_t i = 0; i < LANES; i++) {
        limits[i] = limit;
    }
}

/* --- tests that lead to one rule each --- */

static void table_is_complete(void)
{
    const weir_strategy_ops *ops = tested->ops;
    assert_int_equal(ops->struct_size, sizeof(*ops));
    assert_true(ops->name != NULL && ops->name[0] != '\0');
    assert_true(ops->granule_bytes > 0 && (ops->granule_bytes & (ops->granule_bytes - 1)) == 0);
    assert_true(ops->state_size != NULL && ops->init != NULL && ops->fini != NULL);
    assert_true(ops->region_size != NULL && ops->region_add != NULL && ops->region_remove != NULL);
    assert_true(ops->alloc != NULL && ops->free != NULL && ops->promote != NULL);
    assert_true(ops->walk != NULL && ops->check != NULL && ops->stats != NULL && ops->lane_stats != NULL);
    assert_true((ops->flags & WEIR_STRATEGY_PRIVATE_LANES) != 0 || ops->gather != NULL);
}

static void empty_strategy_refuses(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    for (weir_lane lane = 0; lane < LANES; lane++) {
        assert_null(alloc(&rig, lane, WEIR_TICK_MAX, 1, 1, NULL));
        promote(&rig, lane, WEIR_TICK_MAX);
    }
    stop(&rig);
}

static void fini_takes_live_ranges(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    for (uint64_t i = 1; i <= 3; i++) {
        grow(&rig, 1, i * 1000, 1, 0);
    }
    assert_int_equal(rig.ops->check(rig.state, NULL), WEIR_OK); /* a NULL reason is allowed */
    stop(&rig);
}

static void region_size_is_enough(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    const uint64_t sizes[] = {1, 511, 512, 513, 4096, 1 << 20, (1 << 20) + 1, 10 << 20, (10 << 20) + 1, 33 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (uint64_t align = 1; align <= 8 << 20; align *= 8) {
            grow(&rig, 1 + (weir_lane)(i % 4), sizes[i], align, 512);
            for (unsigned shift = 12; shift <= 30; shift += 3) { /* granularities of other devices */
                const uint64_t granularity = UINT64_C(1) << shift;
                const uint64_t reserved = UINT64_C(7) << (33 + i);
                const uint64_t bytes = rig.ops->region_size(rig.state, sizes[i], align, reserved, granularity);
                REQUIRE(&rig, bytes >= sizes[i] && bytes % granularity == 0,
                        "region_size: too small or no multiple of the granularity");
            }
        }
    }
    stop(&rig);
}

/* Finds 32-bit arithmetic in sizes, indices and shifts. */
static void sizes_around_powers_of_two(void)
{
    for (unsigned k = 9; k <= 44; k++) {
        struct rig rig;
        start(&rig, ASCENDING);
        uint64_t granule = rig.ops->granule_bytes;
        for (int side = -1; side <= 1; side++) {
            uint64_t size = round_up(UINT64_C(1) << k, granule) + (uint64_t)side * granule;
            if (size == 0) {
                continue;
            }
            add_region(&rig, size, size, 1, granule, 0);
            if (tested->refuses_early) {
                continue;
            }
            void *token = alloc(&rig, 1, WEIR_TICK_MAX, size, 1, NULL);
            REQUIRE(&rig, token != NULL, "a region is refused to a request of its own size");
            assert_null(alloc(&rig, 1, WEIR_TICK_MAX, size, 1, NULL));
            free_token(&rig, token, 1);
            token = alloc(&rig, 1, WEIR_TICK_MAX, (size + 1) / 2, 1, NULL); /* the suite checks a refusal, too */
            if (token != NULL) {
                free_token(&rig, token, 1);
            }
            alloc(&rig, 1, WEIR_TICK_MAX, size - granule / 2, 1, NULL);
        }
        stop(&rig);
    }
}

/* An index by size classes holds many sizes in one class. The only range that fits is the first among many ranges that
 * nearly fit, with sizes that classes round to both sides. */
static void one_fit_in_a_crowd(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    uint64_t granule = rig.ops->granule_bytes;
    static const uint64_t largest[] = {31, 33, 63, 65, 1000, 1298, 1365, 2047};
    for (size_t i = 0; i < sizeof(largest) / sizeof(largest[0]); i++) {
        uint64_t size = largest[i] * granule;
        add_region(&rig, size, size, 1, granule, granule);
        for (uint64_t less = 1; less <= 60; less++) {
            uint64_t other = (largest[i] - 1 - less % (1 + largest[i] / 40)) * granule;
            add_region(&rig, other, other, 1, granule, granule);
        }
        if (!tested->refuses_early) {
            assert_non_null(alloc(&rig, 1, WEIR_TICK_MAX, size, 1, NULL));
        }
        assert_null(alloc(&rig, 1, WEIR_TICK_MAX, size, 1, NULL));
        weir_tick limits[LANES];
        set_limits(limits, WEIR_TICK_MAX);
        for (size_t region = 0; region < rig.region_count; region++) {
            if (rig.regions[region].alive) {
                remove_region(&rig, region, limits, LANES);
            }
        }
    }
    stop(&rig);
}

/* Finds capacities that are off by one, and an index 0 that is mistaken for "none". */
static void tiny_regions_fill_and_refill(void)
{
    for (uint64_t granules = 1; granules <= 9; granules++) {
        struct rig rig;
        start(&rig, ASCENDING);
        uint64_t granule = rig.ops->granule_bytes;
        add_region(&rig, granules * granule, granule, 1, granule, 0);
        void *tokens[16] = {NULL};
        for (unsigned round = 0; round < 3; round++) {
            uint64_t taken = 0;
            while (taken < 16 && (tokens[taken] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL)) != NULL) {
                taken++;
            }
            if (!tested->whole_regions && !tested->refuses_early) {
                REQUIRE(&rig, taken == granules, "a region holds fewer granules than it has");
            }
            for (uint64_t i = 0; i < taken; i++) {
                uint64_t pick = round == 0 ? i : round == 1 ? taken - 1 - i : (i * 2 + (i * 2 >= taken)) % taken;
                while (tokens[pick] == NULL) {
                    pick = (pick + 1) % taken;
                }
                free_token(&rig, tokens[pick], 1);
                tokens[pick] = NULL;
            }
        }
        stop(&rig);
    }
}

/* WEIR_STRATEGY_CUTS_ENDS: a region of n times the size that it was added for serves n such requests. Its free rest
 * stays in one piece, also after requests of other sizes. */
static void ends_are_cut_if_promised(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if ((rig.ops->flags & WEIR_STRATEGY_CUTS_ENDS) == 0) {
        stop(&rig);
        return;
    }
    const uint64_t granule = rig.ops->granule_bytes;
    static const uint64_t sizes[] = {1, 511, 512, 513, 5000, 65536, 100000, 3 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const uint64_t whole = (sizes[i] + granule - 1) / granule * granule;
        const size_t region = add_region(&rig, 9 * whole + (whole - granule), sizes[i], 1, granule, 0);
        void *tokens[16] = {NULL};
        unsigned served = 0;
        while (served < 16 &&
               (tokens[served] =
                    alloc(&rig, 1, WEIR_TICK_MAX,
                          served % 3 == 2 && whole > granule ? sizes[i] - granule + 1 : sizes[i], 1, NULL)) != NULL) {
            unsigned pieces = 0;
            for (size_t k = 0; k < rig.book.count; k++) {
                pieces += rig.book.at[k].region == region && !rig.book.at[k].taken;
            }
            REQUIRE(&rig, pieces <= 1, "a request was cut out of the middle");
            served++;
        }
        REQUIRE(&rig, served >= 9, "a region holds fewer requests than it is times as large");
        while (served > 0) {
            free_token(&rig, tokens[--served], 1);
        }
        weir_tick limits[LANES];
        set_limits(limits, WEIR_TICK_MAX);
        assert_true(remove_region(&rig, region, limits, LANES));
    }
    stop(&rig);
}

/* Adjacent regions stay two regions: no range crosses the border, and both can be removed. */
static void regions_never_merge(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    uint64_t size = 8 * rig.ops->granule_bytes;
    size_t first = add_region(&rig, size, size, 1, rig.ops->granule_bytes, 0);
    size_t second = add_region(&rig, size, size, 1, rig.ops->granule_bytes, 0);
    assert_int_equal(rig.regions[first].address + size, rig.regions[second].address);
    void *one = alloc(&rig, 1, WEIR_TICK_MAX, size, 1, NULL);
    void *two = alloc(&rig, 1, WEIR_TICK_MAX, size, 1, NULL);
    if (one != NULL) {
        free_token(&rig, one, 1);
    }
    if (two != NULL) {
        free_token(&rig, two, 1);
    }
    assert_null(alloc(&rig, 1, WEIR_TICK_MAX, size + 1, 1, NULL));
    promote(&rig, 1, WEIR_TICK_MAX);
    assert_null(alloc(&rig, WEIR_LANE_OPEN, WEIR_TICK_MAX, size + 1, 1, NULL));
    weir_tick limits[LANES];
    set_limits(limits, WEIR_TICK_MAX);
    assert_true(remove_region(&rig, first, limits, LANES));
    assert_true(remove_region(&rig, second, limits, LANES));
    stop(&rig);
}

static void free_merges_in_every_order(void)
{
    static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t order = 0; order < 6; order++) {
        struct rig rig;
        start(&rig, ASCENDING);
        uint64_t granule = rig.ops->granule_bytes;
        add_region(&rig, 3 * granule, 3 * granule, 2, granule, 0);
        void *tokens[3] = {NULL};
        for (size_t i = 0; i < 3; i++) {
            tokens[i] = alloc(&rig, 2, WEIR_TICK_MAX, granule, 1, NULL);
        }
        for (size_t i = 0; i < 3; i++) {
            rig.now[2] += 3;
            if (tokens[orders[order][i]] != NULL) {
                free_token(&rig, tokens[orders[order][i]], 2);
            }
        }
        if (!tested->refuses_early) {
            assert_non_null(alloc(&rig, 2, WEIR_TICK_MAX, 3 * granule, 1, NULL));
        }
        stop(&rig);
    }
}

/* Two neighbours are freed at ticks 1 and 5, in both orders of address. The joined range is pending until tick 5. */
static void merging_keeps_the_later_tick(void)
{
    for (unsigned later = 0; later < 2; later++) {
        struct rig rig;
        start(&rig, ASCENDING);
        uint64_t granule = rig.ops->granule_bytes;
        size_t region = add_region(&rig, 2 * granule, 2 * granule, 1, granule, 0);
        void *tokens[2];
        tokens[0] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
        tokens[1] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
        if (tokens[0] == NULL || tokens[1] == NULL) {
            stop(&rig);
            contract_skip("the strategy cannot serve the requests of this case");
        }
        rig.now[1] = 1;
        free_token(&rig, tokens[1 - later], 1);
        rig.now[1] = 5;
        free_token(&rig, tokens[later], 1);
        weir_tick limits[LANES];
        set_limits(limits, 4);
        assert_false(remove_region(&rig, region, limits, LANES));
        assert_null(alloc(&rig, 1, 4, 2 * granule, 1, NULL));
        assert_false(remove_region(&rig, region, limits, 1));
        promote(&rig, 1, 4);
        promote(&rig, 1, 5);
        limits[1] = 5;
        assert_true(remove_region(&rig, region, limits, LANES));
        stop(&rig);
    }
}

/* If an alloc takes a part of a freed range, the rest keeps the lane and the tick of the range. */
static void rest_keeps_lane_and_tick(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    uint64_t granule = rig.ops->granule_bytes;
    size_t region = add_region(&rig, 8 * granule, 8 * granule, 3, granule, 0);
    void *whole = alloc(&rig, 3, WEIR_TICK_MAX, 8 * granule, 1, NULL);
    if (whole == NULL) {
        stop(&rig);
        contract_skip("the strategy cannot serve the requests of this case");
    }
    rig.now[3] = 40;
    free_token(&rig, whole, 3);
    assert_null(alloc(&rig, 3, 39, granule, 1, NULL));
    void *part = alloc(&rig, 3, 40, 3 * granule, 1, NULL);
    rig.now[3] = 50;
    if (part == NULL) {
        part = alloc(&rig, 3, WEIR_TICK_MAX, 3 * granule, 1, NULL);
    }
    assert_null(alloc(&rig, 3, 39, granule, 1, NULL));
    promote(&rig, 3, 39);
    assert_null(alloc(&rig, WEIR_LANE_OPEN, WEIR_TICK_MAX, granule, 1, NULL));
    promote(&rig, 3, 40);
    if (part != NULL) {
        free_token(&rig, part, 3);
    }
    weir_tick limits[LANES];
    set_limits(limits, 49);
    assert_int_equal(remove_region(&rig, region, limits, LANES), part == NULL);
    stop(&rig);
}

/* Four streams have one free lane each; then promote opens the lanes one by one. */
static void promote_opens_one_lane(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    uint64_t granule = rig.ops->granule_bytes;
    add_region(&rig, 8 * granule, granule, 1, granule, 0);
    void *tokens[8] = {NULL};
    for (size_t i = 0; i < 8; i++) {
        tokens[i] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
    }
    for (size_t i = 0; i < 8 && !private_lanes(&rig); i++) {
        weir_lane lane = (weir_lane)(1 + i % 4);
        rig.now[lane] = 10 * i + 1;
        if (tokens[i] != NULL) {
            free_token(&rig, tokens[i], lane);
        }
    }
    promote(&rig, WEIR_LANE_OPEN, WEIR_TICK_MAX);
    promote(&rig, 4, 35);
    promote(&rig, 3, 0);
    promote(&rig, 2, WEIR_TICK_MAX);
    promote(&rig, 1, 40);
    promote(&rig, 1, 41);
    promote(&rig, 3, WEIR_TICK_MAX);
    promote(&rig, 4, WEIR_TICK_MAX);
    if (!private_lanes(&rig) && !tested->refuses_early &&
        alloc(&rig, WEIR_LANE_OPEN, WEIR_TICK_MAX, 8 * granule, 1, NULL) == NULL) {
        weir_tick limits[LANES];
        set_limits(limits, WEIR_TICK_MAX);
        assert_true(tested->sets_aside && gather(&rig, WEIR_LANE_OPEN, limits, LANES, 8 * granule, 1));
    }
    stop(&rig);
}

static void region_remove_refuses_what_is_in_use(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    uint64_t granule = rig.ops->granule_bytes;
    rig.now[2] = 7;
    size_t region = add_region(&rig, 4 * granule, granule, 2, granule, 0);
    weir_tick limits[LANES];
    set_limits(limits, 6);
    assert_false(remove_region(&rig, region, limits, LANES));
    set_limits(limits, WEIR_TICK_MAX);
    assert_false(remove_region(&rig, region, limits, 2));
    void *token = alloc(&rig, 2, WEIR_TICK_MAX, granule, 1, NULL);
    if (token != NULL) {
        assert_false(remove_region(&rig, region, limits, LANES));
        free_token(&rig, token, 2);
    }
    assert_true(remove_region(&rig, region, limits, 3));
    assert_null(alloc(&rig, 2, WEIR_TICK_MAX, granule, 1, NULL));
    stop(&rig);
}

/* A region with free ranges in several lanes can be removed if each of these lanes allows it. */
static void region_remove_asks_every_lane(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (private_lanes(&rig)) {
        stop(&rig);
        contract_skip("the lanes are private");
    }
    uint64_t granule = rig.ops->granule_bytes;
    size_t region = add_region(&rig, 2 * granule, granule, 1, granule, 0);
    void *tokens[2];
    tokens[0] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
    tokens[1] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
    rig.now[1] = 3;
    rig.now[2] = 900;
    if (tokens[0] != NULL) {
        free_token(&rig, tokens[0], 1);
    }
    if (tokens[1] != NULL) {
        free_token(&rig, tokens[1], 2);
    }
    weir_tick limits[LANES];
    set_limits(limits, WEIR_TICK_MAX);
    limits[1] = 2;
    remove_region(&rig, region, limits, LANES);
    if (rig.regions[region].alive) {
        limits[1] = 3;
        limits[2] = 899;
        remove_region(&rig, region, limits, LANES);
    }
    if (rig.regions[region].alive) {
        limits[2] = 900;
        assert_true(remove_region(&rig, region, limits, LANES));
    }
    stop(&rig);
}

static bool cannot_gather(const struct rig *rig)
{
    return rig->ops->gather == NULL || tested->refuses_early;
}

/* Neighbours lie in lanes 1, 2, 3 and open; stream 4 may use some of them. */
static void gather_joins_only_what_it_may(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_gather(&rig)) {
        stop(&rig);
        contract_skip("the strategy has no gather, or may refuse early");
    }
    uint64_t granule = rig.ops->granule_bytes;
    add_region(&rig, 6 * granule, granule, 1, granule, 0);
    void *tokens[6];
    for (size_t i = 0; i < 6; i++) {
        tokens[i] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
    }
    static const weir_lane lanes[6] = {1, 2, 0, 3, 1, 2};
    for (size_t i = 0; i < 6; i++) {
        rig.now[lanes[i]] += 10;
        free_token(&rig, tokens[i], lanes[i]);
    }
    rig.now[4] = 5;
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 10, 9, WEIR_TICK_MAX};
    assert_false(gather(&rig, 4, limits, LANES, 4 * granule, 1));
    assert_false(gather(&rig, 4, limits, 2, 2 * granule, 1));
    assert_true(gather(&rig, 4, limits, LANES, 3 * granule, 1));
    assert_false(gather(&rig, 4, limits, LANES, 2 * granule, 1));
    limits[3] = 10;
    limits[1] = 20;
    assert_true(gather(&rig, 4, limits, LANES, 2 * granule, 1));
    stop(&rig);
}

/* alloc with a limit may give up early; gather must not, also if all free memory is in one lane. */
static void gather_finds_a_single_range(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_gather(&rig)) {
        stop(&rig);
        contract_skip("the strategy has no gather, or may refuse early");
    }
    uint64_t granule = rig.ops->granule_bytes;
    void *tokens[40];
    for (size_t i = 0; i < 40; i++) {
        add_region(&rig, 3 * granule, 3 * granule, 1, granule, granule);
        tokens[i] = alloc(&rig, 1, WEIR_TICK_MAX, 3 * granule, 1, NULL);
    }
    for (size_t i = 0; i < 40; i++) {
        rig.now[1] += 1;
        free_token(&rig, tokens[i], 1);
    }
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 0, 0, 0, 0};
    for (weir_tick limit = 1; limit <= 3; limit++) {
        limits[1] = limit;
        assert_true(gather(&rig, 2, limits, LANES, 3 * granule, 1));
        assert_false(gather(&rig, 2, limits, LANES, 3 * granule, 1));
    }
    stop(&rig);
}

/* gather for a lane whose own neighbour was freed later than all other ranges: the joined range must keep that tick. */
static void gather_loses_no_tick_of_its_own_lane(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_gather(&rig)) {
        stop(&rig);
        contract_skip("the strategy has no gather, or may refuse early");
    }
    uint64_t granule = rig.ops->granule_bytes;
    size_t region = add_region(&rig, 3 * granule, granule, 2, granule, 0);
    void *tokens[3];
    for (size_t i = 0; i < 3; i++) {
        tokens[i] = alloc(&rig, 2, WEIR_TICK_MAX, granule, 1, NULL);
    }
    rig.now[1] = 10;
    rig.now[2] = 500;
    rig.now[3] = 20;
    free_token(&rig, tokens[0], 1);
    free_token(&rig, tokens[1], 2);
    free_token(&rig, tokens[2], 3);
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, WEIR_TICK_MAX, 20, 0};
    assert_true(gather(&rig, 2, limits, LANES, 3 * granule, 1));
    set_limits(limits, WEIR_TICK_MAX);
    assert_false(remove_region(&rig, region, limits, LANES));
    stop(&rig);
}

/* A last resort without an earlier alloc finds what alloc would find, in the lane itself and between neighbours. */
static void last_resort_needs_no_refusal(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_gather(&rig)) {
        stop(&rig);
        contract_skip("the strategy has no gather, or may refuse early");
    }
    uint64_t granule = rig.ops->granule_bytes;
    weir_tick limits[LANES];
    set_limits(limits, 0);
    limits[2] = WEIR_TICK_MAX;
    rig.now[2] = 6;
    add_region(&rig, 16 * granule, granule, 2, granule, 0);
    for (uint64_t granules = 1; granules <= 5; granules++) {
        rig.now[2]++;
        assert_true(gather_as(&rig, 2, limits, LANES, granules * granule, 1, true));
    }
    assert_true(gather_as(&rig, 2, limits, LANES, granule, 1, true));
    assert_false(gather_as(&rig, 2, limits, LANES, granule, 1, true));
    stop(&rig);
}

/* The lane's own range was freed later than the tick that the pool passes: the joined range keeps the later tick,
 * whether the own range lies below or above the other lane's range. */
static void gather_keeps_a_later_tick_of_its_own_lane(void)
{
    for (size_t own = 0; own < 2; own++) {
        struct rig rig;
        start(&rig, ASCENDING);
        if (cannot_gather(&rig)) {
            stop(&rig);
            contract_skip("the strategy has no gather, or may refuse early");
        }
        uint64_t granule = rig.ops->granule_bytes;
        size_t region = add_region(&rig, 2 * granule, granule, 1, granule, 0);
        void *tokens[2];
        for (size_t i = 0; i < 2; i++) {
            tokens[i] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
        }
        free_token_at(&rig, tokens[own], 1, 9);
        free_token_at(&rig, tokens[1 - own], 2, 3);
        weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 10, 0, 0};
        weir_range range;
        REQUIRE(&rig, rig.ops->gather(rig.state, 1, 5, limits, LANES, 2 * granule, 1, tested->sets_aside),
                "gather found nothing although eligible neighbours fit");
        set_limits(limits, 8);
        REQUIRE(&rig,
                rig.ops->alloc(rig.state, 1, 8, 2 * granule, 1, &range) != WEIR_OK &&
                    rig.ops->region_remove(rig.state, rig.regions[region].handle, limits, LANES) == WEIR_ERR_BUSY,
                "gather lost a tick");
        set_limits(limits, 9);
        REQUIRE(&rig, rig.ops->region_remove(rig.state, rig.regions[region].handle, limits, LANES) == WEIR_OK,
                "gather made a range of a later tick than it should");
        stop(&rig);
    }
}

/* A gather that finds nothing moves nothing, for every lane. */
static void gather_without_success_changes_nothing(void)
{
    for (weir_lane lane = 0; lane < LANES; lane++) {
        struct rig rig;
        start(&rig, ASCENDING);
        if (cannot_gather(&rig)) {
            stop(&rig);
            contract_skip("the strategy has no gather, or may refuse early");
        }
        uint64_t granule = rig.ops->granule_bytes;
        void *tokens[6];
        add_region(&rig, 6 * granule, granule, 1, granule, 0);
        for (size_t i = 0; i < 6; i++) {
            tokens[i] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
        }
        for (weir_lane i = 0; i < 5; i++) {
            rig.now[i] = 10;
            free_token(&rig, tokens[i], i);
        }
        weir_tick limits[LANES];
        set_limits(limits, WEIR_TICK_MAX);
        for (uint64_t granules = 6; granules <= 9; granules++) { /* five granules are free */
            assert_false(gather_as(&rig, lane, limits, LANES, granules * granule, 1, false));
            assert_false(gather_as(&rig, lane, limits, LANES, granules * granule, 1, true));
        }
        assert_true(gather(&rig, lane, limits, LANES, 5 * granule, 1));
        stop(&rig);
    }
}

/* A range that is freed with an earlier tick than the ranges before it is found, and hides no range behind it. */
static void ticks_may_go_down(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (private_lanes(&rig)) {
        stop(&rig);
        contract_skip("the lanes are private");
    }
    static const weir_tick ticks[] = {50, 10, 40, 20, 30, 10};
    enum { count = sizeof(ticks) / sizeof(ticks[0]) };
    uint64_t granule = rig.ops->granule_bytes;
    void *tokens[2 * count];
    add_region(&rig, 2 * count * granule, granule, 1, granule, 0);
    for (size_t i = 0; i < 2 * count; i++) {
        tokens[i] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
    }
    rig.now[1] = 50;
    for (size_t i = 0; i < count && tokens[2 * i] != NULL; i++) { /* every other one, so that they do not join */
        free_token_at(&rig, tokens[2 * i], 1, ticks[i]);
    }
    for (weir_tick limit = 5; limit <= 55; limit += 10) {
        promote(&rig, 1, limit);
    }
    stop(&rig);
}

/* Lane numbers may be high. */
static void lanes_have_high_numbers(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (private_lanes(&rig)) {
        stop(&rig);
        contract_skip("the lanes are private");
    }
    for (weir_lane lane = LANES; rig.ops->lane_add != NULL && lane <= HIGH_LANE; lane++) {
        assert_int_equal(rig.ops->lane_add(rig.state, lane), WEIR_OK);
    }
    rig.high_lanes = HIGH_LANE;
    /* 44 equals HIGH_LANE modulo 256. */
    static const weir_lane lanes[] = {31, 32, 33, 44, 63, 64, 65, 255, 256, HIGH_LANE};
    enum { count = sizeof(lanes) / sizeof(lanes[0]) };
    uint64_t granule = rig.ops->granule_bytes;
    void *tokens[count];
    size_t region = add_region(&rig, count * granule, granule, 1, granule, 0);
    weir_tick limits[HIGH_LANE + 1];
    for (size_t i = 0; i < count; i++) {
        tokens[i] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
    }
    for (size_t i = 0; i < count && tokens[i] != NULL; i++) {
        rig.now[lanes[i]] = 10 + i;
        free_token(&rig, tokens[i], lanes[i]);
    }
    for (weir_lane lane = 0; lane <= HIGH_LANE; lane++) {
        limits[lane] = WEIR_TICK_MAX;
    }
    for (size_t i = 0; i < count && tokens[i] != NULL; i++) {
        assert_false(remove_region(&rig, region, limits, lanes[count - 1]));
        tokens[i] = alloc(&rig, lanes[i], 10 + i, granule, 1, NULL);
        if (tokens[i] != NULL) {
            free_token(&rig, tokens[i], lanes[i]);
        }
        limits[lanes[i]] = 9 + i;
        assert_false(remove_region(&rig, region, limits, HIGH_LANE + 1));
        limits[lanes[i]] = 10 + i;
    }
    for (size_t i = 0; i < count / 2; i++) {
        promote(&rig, lanes[i], 10 + i);
    }
    assert_true(tokens[0] == NULL || remove_region(&rig, region, limits, HIGH_LANE + 1));
    stop(&rig);
}

/* A visitor that ends the walk at the visit number `most`. */
struct ending {
    size_t visits;
    size_t most;
};

static bool end_walk(void *ctx, const weir_range_info *info)
{
    struct ending *ending = ctx;
    (void)info;
    return ++ending->visits < ending->most;
}

/* NULL: walk. */
static void walk_to(const struct rig *rig, run_walk walk, struct ending *ending)
{
    if (walk != NULL) {
        walk(rig->state, rig->ops->granule_bytes, end_walk, ending);
    } else {
        rig->ops->walk(rig->state, end_walk, ending);
    }
}

static void require_end(const struct rig *rig, run_walk walk)
{
    struct ending all = {.most = SIZE_MAX};
    walk_to(rig, walk, &all);
    for (size_t most = 1; most <= all.visits; most++) {
        struct ending ending = {.most = most};
        walk_to(rig, walk, &ending);
        REQUIRE(rig, ending.visits == most, "a walk goes on after the visitor said stop");
    }
}

static void walks_end_when_they_are_told(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    const uint64_t granule = rig.ops->granule_bytes;
    for (int region = 0; region < 3; region++) {
        add_region(&rig, 4 * granule, claims(&rig) ? 0 : granule, 1, granule, granule);
        void *token = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
        alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL);
        if (token != NULL) {
            free_token(&rig, token, 1);
        }
    }
    for (int region = 0; claims(&rig) && region < 3; region++) { /* several runs of several ranges each */
        const size_t index = add_region(&rig, 8 * granule, 0, WEIR_LANE_UNMAPPED, granule, granule);
        for (uint64_t i = 0; i < 8; i += 3) {
            void *token = claim(&rig, rig.regions[index].address + i * granule, granule, NULL, 0);
            free_token(&rig, token, i == 3 ? 2 : 1);
        }
    }
    require_end(&rig, NULL);
    require_end(&rig, rig.ops->walk_holes);
    require_end(&rig, rig.ops->walk_free);
    stop(&rig);
}

/* --- claims: what a pool with virtual memory asks for --- */

static bool cannot_claim(struct rig *rig)
{
    if (!claims(rig)) {
        stop(rig);
        return true;
    }
    return false;
}

/* A claim cuts a hole exactly where the pool asks. Memory claimed for a lane serves the stream of this lane. */
static void claim_takes_exactly_what_it_is_asked_for(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_claim(&rig)) {
        contract_skip("the strategy has no claim");
    }
    const uint64_t granule = rig.ops->granule_bytes;
    const size_t region = add_region(&rig, 16 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    add_region(&rig, 16 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0); /* adjacent to the first region */
    const uint64_t at = rig.regions[region].address;
    void *middle = claim(&rig, at + 4 * granule, 4 * granule, NULL, 0);
    assert_non_null(middle);
    assert_null(claim(&rig, at + 4 * granule, 4 * granule, NULL, 0));  /* taken */
    assert_null(claim(&rig, at + 2 * granule, 3 * granule, NULL, 0));  /* its end is taken */
    assert_null(claim(&rig, at + 7 * granule, 2 * granule, NULL, 0));  /* its start is taken */
    assert_null(claim(&rig, at + 12 * granule, 8 * granule, NULL, 0)); /* it lies in two regions */
    void *next = claim(&rig, at + 8 * granule, granule, NULL, 0);
    void *last = claim(&rig, at + 15 * granule, granule, NULL, 0);
    void *first = claim(&rig, at, granule, NULL, 0);
    assert_true(next != NULL && last != NULL && first != NULL);
    free_token(&rig, middle, 1);
    assert_null(claim(&rig, at + 4 * granule, granule, NULL, 0)); /* no longer a hole */
    free_token(&rig, next, 2);
    free_token(&rig, last, WEIR_LANE_UNMAPPED);
    free_token(&rig, first, WEIR_LANE_UNMAPPED);
    if (!tested->refuses_early) {
        assert_non_null(alloc(&rig, 1, WEIR_TICK_MAX, 4 * granule, 1, NULL));
        assert_non_null(alloc(&rig, 2, WEIR_TICK_MAX, granule, 1, NULL));
    }
    stop(&rig);
}

/* Only claim takes addresses without memory. */
static void unmapped_memory_is_nobodys(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_claim(&rig)) {
        contract_skip("the strategy has no claim");
    }
    const uint64_t granule = rig.ops->granule_bytes;
    const size_t region = add_region(&rig, 8 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    weir_tick limits[LANES];
    set_limits(limits, WEIR_TICK_MAX);
    for (weir_lane lane = 0; lane < LANES; lane++) {
        assert_null(alloc(&rig, lane, WEIR_TICK_MAX, 1, 1, NULL));
        assert_false(rig.ops->gather(rig.state, lane, 0, limits, LANES, granule, 1, true));
    }
    assert_int_equal(promote(&rig, WEIR_LANE_UNMAPPED, WEIR_TICK_MAX), 0);
    assert_false(remove_region(&rig, region, limits, LANES));
    assert_null(claim(&rig, rig.regions[region].address, granule, limits, LANES));
    /* Two free halves around a hole do not join. */
    void *low = claim(&rig, rig.regions[region].address, 2 * granule, NULL, 0);
    void *high = claim(&rig, rig.regions[region].address + 6 * granule, 2 * granule, NULL, 0);
    free_token(&rig, low, 1);
    free_token(&rig, high, 2);
    assert_false(rig.ops->gather(rig.state, 1, 0, limits, LANES, 5 * granule, 1, true));
    assert_false(remove_region(&rig, region, limits, LANES));
    stop(&rig);
}

/* Memory that is unmapped piece by piece, in any order, becomes one hole. */
static void holes_grow_together(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_claim(&rig)) {
        contract_skip("the strategy has no claim");
    }
    const uint64_t granule = rig.ops->granule_bytes;
    const size_t region = add_region(&rig, 8 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    const uint64_t at = rig.regions[region].address;
    void *whole = claim(&rig, at, 8 * granule, NULL, 0);
    free_token(&rig, whole, 3);
    weir_tick limits[LANES];
    set_limits(limits, 0);
    limits[3] = WEIR_TICK_MAX;
    static const unsigned order[8] = {3, 0, 7, 5, 4, 1, 6, 2};
    for (size_t i = 0; i < 8; i++) {
        void *token = claim(&rig, at + order[i] * granule, granule, limits, LANES);
        assert_non_null(token);
        free_token(&rig, token, WEIR_LANE_UNMAPPED);
    }
    weir_lane_stats stats = WEIR_LANE_STATS_INIT;
    rig.ops->lane_stats(rig.state, WEIR_LANE_UNMAPPED, &stats);
    assert_int_equal(stats.ranges, 1);
    assert_int_equal(stats.bytes, 8 * granule);
    assert_non_null(claim(&rig, at, 8 * granule, NULL, 0));
    stop(&rig);
}

/* A claim across lanes respects the limit of each lane. The rests that it cuts off at both ends keep lane and tick. */
static void claim_asks_every_lane(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_claim(&rig)) {
        contract_skip("the strategy has no claim");
    }
    const uint64_t granule = rig.ops->granule_bytes;
    const size_t region = add_region(&rig, 12 * granule, 0, WEIR_LANE_UNMAPPED, granule, 0);
    const uint64_t at = rig.regions[region].address;
    static const weir_lane lanes[3] = {1, 2, WEIR_LANE_OPEN};
    void *tokens[3];
    for (uint64_t i = 0; i < 3; i++) {
        tokens[i] = claim(&rig, at + 4 * i * granule, 4 * granule, NULL, 0);
        assert_non_null(tokens[i]);
    }
    rig.now[1] = 10;
    rig.now[2] = 20;
    for (size_t i = 0; i < 3; i++) {
        free_token(&rig, tokens[i], lanes[i]);
    }
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 19, 0, 0};
    assert_null(claim(&rig, at + 2 * granule, 8 * granule, limits, LANES)); /* lane 2 has unfinished work */
    limits[2] = 20;
    assert_null(claim(&rig, at + 2 * granule, 8 * granule, limits, 2)); /* lane 2 has no limit in this call */
    limits[1] = 9;
    assert_null(claim(&rig, at + 2 * granule, 8 * granule, limits, LANES));
    limits[1] = 10;
    void *token = claim(&rig, at + 2 * granule, 8 * granule, limits, LANES);
    assert_non_null(token);
    free_token(&rig, token, WEIR_LANE_UNMAPPED);
    limits[1] = 9;
    assert_null(claim(&rig, at, granule, limits, LANES)); /* the rest below has kept its tick */
    limits[1] = 10;
    assert_non_null(claim(&rig, at, 2 * granule, limits, LANES));
    stop(&rig);
}

/* A claim takes memory that is set apart for one size like any other memory, for every requested size. */
static void claim_takes_memory_set_apart(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_claim(&rig)) {
        contract_skip("the strategy has no claim");
    }
    const uint64_t granule = rig.ops->granule_bytes;
    const size_t region = add_region(&rig, 512 * granule, 0, 1, granule, 0);
    const uint64_t at = rig.regions[region].address;
    void *tokens[512];
    size_t count = 0;
    while (count < 512 && (tokens[count] = alloc(&rig, 1, WEIR_TICK_MAX, granule, 1, NULL)) != NULL) {
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        if (i % 64 != 5) { /* slabs that stay in use */
            free_token(&rig, tokens[i], 1);
        }
    }
    weir_tick limits[LANES];
    set_limits(limits, WEIR_TICK_MAX);
    unsigned claimed = 0;
    for (uint64_t i = 0; i < 512; i += 3) {
        claimed += claim(&rig, at + i * granule, 3 * granule, limits, LANES) != NULL;
    }
    assert_true(claimed > 100);
    stop(&rig);
}

/* A block of eight granules is freed early and its large neighbour of the same lane late. Some strategies set the block
 * apart for requests of its size; all others merge both. The test claims four granules inside each eight as four
 * ranges. A strategy that merged the ranges refuses as a whole, because of the later tick. The rest of the block joins
 * the neighbour after the claim, not during it. */
static void claim_takes_neighbours_in_one_call(void)
{
    struct rig rig;
    start(&rig, ASCENDING);
    if (cannot_claim(&rig)) {
        contract_skip("the strategy has no claim");
    }
    const uint64_t granule = rig.ops->granule_bytes;
    const size_t region = add_region(&rig, 4096 * granule, 0, 1, granule, 0);
    const uint64_t at = rig.regions[region].address;
    void *low = alloc(&rig, 1, WEIR_TICK_MAX, 1024 * granule, 1, NULL);
    void *high = alloc(&rig, 1, WEIR_TICK_MAX, 1024 * granule, 1, NULL);
    assert_true(low != NULL && high != NULL);
    rig.now[1] = 10;
    free_token(&rig, low, 1);
    void *block = alloc(&rig, 1, WEIR_TICK_MAX, 8 * granule, 1, NULL);
    assert_non_null(block);
    free_token(&rig, block, 1);
    rig.now[1] = 20;
    free_token(&rig, high, 1);
    weir_tick limits[LANES] = {WEIR_TICK_MAX, 10, 0, 0, 0};
    for (uint64_t i = 0; i < 4096; i += 8) {
        void *tokens[4];
        if (claim_several(&rig, at + (i + 1) * granule, granule, 4, limits, LANES, tokens)) {
            free_token(&rig, tokens[1], WEIR_LANE_UNMAPPED);
            free_token(&rig, tokens[2], 2);
            free_token(&rig, tokens[0], WEIR_LANE_UNMAPPED);
            free_token(&rig, tokens[3], 1);
        }
    }
    void *last[3];
    set_limits(limits, WEIR_TICK_MAX);
    assert_true(claim_several(&rig, at + 4093 * granule, granule, 3, limits, LANES, last));
    stop(&rig);
}

/* --- random programs --- */

/* xorshift64*: the same numbers on every machine. */
struct random {
    uint64_t state;
};

static uint64_t draw(struct random *random)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t below(struct random *random, uint64_t limit)
{
    return (draw(random) >> 16) % limit;
}

static bool chance(struct random *random, unsigned percent)
{
    return below(random, 100) < percent;
}

/* The choices of a program, fixed by its seed. */
struct program {
    struct random random;
    weir_lane lanes;  /* streams in use, 1 to 4 */
    unsigned large;   /* percent of requests above the small size */
    unsigned aligned; /* percent of requests with an alignment */
    uint64_t most;    /* largest small request, in granules */
    uint64_t *log;    /* region index and offset of each alloc */
    size_t log_count;
};

static void keep_in_log(struct program *program, uint64_t value)
{
    if (program->log != NULL && program->log_count < 2 * PROGRAM_STEPS) {
        program->log[program->log_count++] = value;
    }
}

static weir_lane draw_lane(struct program *program)
{
    return chance(&program->random, 10) ? WEIR_LANE_OPEN : (weir_lane)(1 + below(&program->random, program->lanes));
}

/* Returns a tick for a free: usually the lane's latest tick, sometimes an earlier one, as rule 5 allows. */
static weir_tick draw_tick(struct program *program, const struct rig *rig, weir_lane lane)
{
    const weir_tick now = tick_now(rig, lane);
    return chance(&program->random, 20) ? below(&program->random, now + 1) : now;
}

static uint64_t draw_size(struct program *program, const struct rig *rig)
{
    uint64_t granule = rig->ops->granule_bytes;
    if (chance(&program->random, program->large)) {
        uint64_t size = (UINT64_C(1) << 20) + granule * (1 + below(&program->random, 4000));
        return size - below(&program->random, 2);
    }
    uint64_t size = granule * (1 + below(&program->random, program->most));
    return tested->whole_regions || chance(&program->random, 50) ? size : size - below(&program->random, granule);
}

static uint64_t draw_align(struct program *program, const struct rig *rig)
{
    return chance(&program->random, program->aligned) ? rig->ops->granule_bytes << below(&program->random, 5)
                                                      : UINT64_C(1) << below(&program->random, 10);
}

/* Draws a region, often tiny, so that all its edges are near. */
static void draw_region(struct program *program, struct rig *rig)
{
    uint64_t granule = rig->ops->granule_bytes;
    uint64_t hint = draw_size(program, rig);
    if (rig->one_kind) {
        const weir_lane lane = chance(&program->random, 70) ? WEIR_LANE_UNMAPPED : draw_lane(program);
        add_region(rig, round_up(hint, granule) + granule * below(&program->random, 64), 0, lane, granule, 0);
        return;
    }
    uint64_t size = round_up(hint, granule);
    if (!tested->whole_regions) {
        size += is_small(hint) ? granule * below(&program->random, 24) : below(&program->random, 9) << 19;
    }
    uint64_t gap = chance(&program->random, 60) ? 0 : granule * (1 + below(&program->random, 7));
    const weir_lane lane = draw_lane(program);
    add_region_at(rig, size, hint, lane, draw_tick(program, rig, lane), granule, gap);
}

static size_t alive_regions(const struct rig *rig)
{
    size_t count = 0;
    for (size_t i = 0; i < rig->region_count; i++) {
        count += rig->regions[i].alive ? 1 : 0;
    }
    return count;
}

static void step_alloc(struct program *program, struct rig *rig)
{
    weir_lane lane = draw_lane(program);
    weir_tick limit = WEIR_TICK_MAX;
    if (chance(&program->random, 25)) {
        limit = below(&program->random, rig->now[lane] + 2);
    }
    uint64_t size = draw_size(program, rig);
    uint64_t align = draw_align(program, rig);
    weir_range range;
    void *token = alloc(rig, lane, limit, size, align, &range);
    if (token == NULL && chance(&program->random, 3) && alive_regions(rig) < MOST_REGIONS) {
        token = grow(rig, lane, size, align, rig->ops->granule_bytes * below(&program->random, 3));
        keep_in_log(program, 1);
        return;
    }
    if (token == NULL) {
        keep_in_log(program, UINT64_MAX);
        return;
    }
    size_t region = rig->book.at[piece_with_token(rig, token)].region;
    keep_in_log(program, region);
    keep_in_log(program, range.address - rig->regions[region].address);
}

/* Returns the lane that a taken piece is freed into: any lane, or the one that its region's memory belongs to. */
static weir_lane lane_to_free_into(struct program *program, const struct rig *rig, const struct piece *piece)
{
    return private_lanes(rig) ? piece->lane : draw_lane(program);
}

static void step_free(struct program *program, struct rig *rig)
{
    size_t taken = (size_t)add_up(rig).taken_ranges;
    if (taken == 0) {
        return;
    }
    size_t pick = (size_t)below(&program->random, taken);
    for (size_t i = 0; i < rig->book.count; i++) {
        if (rig->book.at[i].taken && pick-- == 0) {
            weir_lane lane = lane_to_free_into(program, rig, &rig->book.at[i]);
            rig->now[lane] += lane == WEIR_LANE_OPEN ? 0 : below(&program->random, 3);
            free_token_at(rig, rig->book.at[i].token, lane, draw_tick(program, rig, lane));
            return;
        }
    }
}

static void draw_limits(struct program *program, const struct rig *rig, weir_tick *limits)
{
    limits[0] = WEIR_TICK_MAX;
    for (weir_lane lane = 1; lane < LANES; lane++) {
        limits[lane] = chance(&program->random, 30) ? WEIR_TICK_MAX : below(&program->random, rig->now[lane] + 2);
    }
}

static void step_remove(struct program *program, struct rig *rig)
{
    size_t alive = alive_regions(rig);
    if (alive == 0) {
        return;
    }
    size_t pick = (size_t)below(&program->random, alive);
    weir_tick limits[LANES];
    draw_limits(program, rig, limits);
    size_t lanes = chance(&program->random, 80) ? LANES : (size_t)below(&program->random, LANES + 1);
    for (size_t i = 0; i < rig->region_count; i++) {
        if (rig->regions[i].alive && pick-- == 0) {
            remove_region(rig, i, limits, lanes);
            return;
        }
    }
}

/* Gathers as a pool does: after the lane itself has refused, or as a last resort without trying the lane first. */
static void step_gather(struct program *program, struct rig *rig)
{
    if (rig->ops->gather == NULL) {
        return;
    }
    weir_tick limits[LANES];
    draw_limits(program, rig, limits);
    weir_lane lane = (weir_lane)below(&program->random, program->lanes + 1);
    limits[lane] = WEIR_TICK_MAX;
    size_t lanes = chance(&program->random, 80) ? LANES : (size_t)below(&program->random, LANES + 1);
    uint64_t size = draw_size(program, rig) + rig->ops->granule_bytes * below(&program->random, 8);
    uint64_t align = draw_align(program, rig);
    const bool last_resort = tested->sets_aside || chance(&program->random, 20);
    const weir_tick tick = draw_tick(program, rig, lane);
    if ((last_resort && chance(&program->random, 50)) || alloc(rig, lane, WEIR_TICK_MAX, size, align, NULL) == NULL) {
        if (chance(&program->random, 80)) {
            gather_at(rig, lane, tick, limits, lanes, size, align, last_resort);
        } else { /* the next step is another call */
            gather_only(rig, lane, tick, limits, lanes, size, align, last_resort);
        }
    }
}

/* Calls lane_add again for lanes that exist. This changes nothing. */
static void step_lane_add(struct program *program, struct rig *rig)
{
    if (rig->ops->lane_add != NULL) {
        assert_int_equal(rig->ops->lane_add(rig->state, draw_lane(program)), WEIR_OK);
        compare(rig);
    }
}

/* Does what a pool with virtual memory does: maps a part of a hole, or unmaps the memory of a free piece. */
static void step_claim(struct program *program, struct rig *rig)
{
    const struct piece *piece = &rig->book.at[below(&program->random, rig->book.count)];
    const uint64_t granule = rig->ops->granule_bytes;
    const uint64_t address = piece->address + granule * below(&program->random, piece->size / granule);
    const uint64_t size = granule * (1 + below(&program->random, chance(&program->random, 50) ? 3 : 24));
    const bool hole = piece->lane == WEIR_LANE_UNMAPPED;
    const weir_lane lane = chance(&program->random, 15) ? WEIR_LANE_UNMAPPED : draw_lane(program);
    weir_tick limits[LANES];
    draw_limits(program, rig, limits);
    const size_t count = 1 + (size_t)below(&program->random, chance(&program->random, 50) ? 1 : 8);
    void *tokens[8];
    if (claim_several(rig, address, size, count, hole ? NULL : limits, LANES, tokens)) {
        for (size_t i = 0; i < count; i++) {
            if (!chance(&program->random, 10)) {
                free_token(rig, tokens[i], hole ? lane : WEIR_LANE_UNMAPPED);
            }
        }
    }
}

static void step(struct program *program, struct rig *rig)
{
    uint64_t action = below(&program->random, 100);
    if (rig->one_kind && rig->book.count > 0 && chance(&program->random, 20)) {
        step_claim(program, rig);
        return;
    }
    if (action < 40) {
        step_alloc(program, rig);
    } else if (action < 74) {
        step_free(program, rig);
    } else if (action < 82) {
        weir_lane lane = draw_lane(program);
        promote(rig, lane, below(&program->random, rig->now[lane] + 2));
    } else if (action < 88) {
        step_gather(program, rig);
    } else if (action < 94) {
        step_remove(program, rig);
    } else if (action < 95) {
        step_lane_add(program, rig);
    } else if (alive_regions(rig) < MOST_REGIONS) {
        draw_region(program, rig);
    }
}

static void prepare(struct program *program, uint64_t seed)
{
    memset(program, 0, sizeof(*program));
    program->random.state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 8; i++) {
        draw(&program->random);
    }
    program->lanes = (weir_lane)(1 + below(&program->random, LANES - 1));
    program->large = chance(&program->random, 25) ? 40 : 0;
    program->aligned = chance(&program->random, 40) ? 25 : 0;
    program->most = 2 + below(&program->random, 12);
}

static void start_program(struct rig *rig, uint64_t seed, enum layout layout)
{
    start(rig, layout);
    rig->seed = seed;
    rig->one_kind = claims(rig) && seed % 3 == 0;
}

static void play_step(struct program *program, struct rig *rig)
{
    if (rig->step++ < 3) {
        draw_region(program, rig);
    } else {
        step(program, rig);
    }
}

static void run_program(struct program *program, uint64_t seed, enum layout layout)
{
    struct rig rig;
    start_program(&rig, seed, layout);
    while (rig.step < PROGRAM_STEPS) {
        play_step(program, &rig);
    }
    stop(&rig);
}

/* A process may have any number of pools. */
static void two_states_do_not_meet(void)
{
    for (uint64_t seed = 0; seed < 6; seed += 2) {
        struct program programs[2];
        struct rig rigs[2];
        for (uint64_t i = 0; i < 2; i++) {
            prepare(&programs[i], seed + i);
            start_program(&rigs[i], seed + i, ASCENDING); /* both have regions at the same addresses */
        }
        while (rigs[1].step < PROGRAM_STEPS) {
            play_step(&programs[0], &rigs[0]);
            play_step(&programs[1], &rigs[1]);
        }
        stop(&rigs[0]);
        compare(&rigs[1]);
        stop(&rigs[1]);
    }
}

static uint64_t first_seed = 0;
static uint64_t seed_count = DEFAULT_SEEDS;

static void random_programs(void)
{
    for (uint64_t seed = first_seed; seed - first_seed < seed_count; seed++) {
        struct program program;
        prepare(&program, seed);
        run_program(&program, seed, ASCENDING);
    }
}

static void require_same_log(uint64_t seed, const struct program *one, const struct program *two)
{
    if (one->log_count != two->log_count || memcmp(one->log, two->log, one->log_count * sizeof(*one->log)) != 0) {
        fail_msg("the same calls on shifted regions are placed otherwise (seed %llu)", (unsigned long long)seed);
    }
}

/* Rule 6: the program gives the same results on regions elsewhere, and on regions in the opposite
 * order of addresses. */
static void shifted_twins_agree(void)
{
    static uint64_t logs[2][2 * PROGRAM_STEPS];
    uint64_t seeds = seed_count < 10 ? seed_count : seed_count / 8;
    for (uint64_t seed = first_seed; seed - first_seed < seeds; seed++) {
        enum layout other = seed % 2 == 0 || tested->ties_by_address ? SHIFTED : DESCENDING;
        struct program programs[2];
        for (int twin = 0; twin < 2; twin++) {
            prepare(&programs[twin], seed);
            programs[twin].aligned = other == DESCENDING ? 0 : programs[twin].aligned;
            programs[twin].log = logs[twin];
            run_program(&programs[twin], seed, twin == 0 ? ASCENDING : other);
        }
        require_same_log(seed, &programs[0], &programs[1]);
    }
}

static bool is_number(const char *text)
{
    return text[0] >= '0' && text[0] <= '9';
}

int weir_strategy_contract(const weir_tested_strategy *strategy, int argc, char **argv)
{
    static const struct contract_case cases[] = {
        CONTRACT_CASE(table_is_complete),
        CONTRACT_CASE(empty_strategy_refuses),
        CONTRACT_CASE(fini_takes_live_ranges),
        CONTRACT_CASE(region_size_is_enough),
        CONTRACT_CASE(sizes_around_powers_of_two),
        CONTRACT_CASE(one_fit_in_a_crowd),
        CONTRACT_CASE(tiny_regions_fill_and_refill),
        CONTRACT_CASE(ends_are_cut_if_promised),
        CONTRACT_CASE(regions_never_merge),
        CONTRACT_CASE(free_merges_in_every_order),
        CONTRACT_CASE(merging_keeps_the_later_tick),
        CONTRACT_CASE(rest_keeps_lane_and_tick),
        CONTRACT_CASE(promote_opens_one_lane),
        CONTRACT_CASE(region_remove_refuses_what_is_in_use),
        CONTRACT_CASE(region_remove_asks_every_lane),
        CONTRACT_CASE(gather_joins_only_what_it_may),
        CONTRACT_CASE(gather_finds_a_single_range),
        CONTRACT_CASE(gather_loses_no_tick_of_its_own_lane),
        CONTRACT_CASE(last_resort_needs_no_refusal),
        CONTRACT_CASE(gather_keeps_a_later_tick_of_its_own_lane),
        CONTRACT_CASE(gather_without_success_changes_nothing),
        CONTRACT_CASE(ticks_may_go_down),
        CONTRACT_CASE(lanes_have_high_numbers),
        CONTRACT_CASE(walks_end_when_they_are_told),
        CONTRACT_CASE(claim_takes_exactly_what_it_is_asked_for),
        CONTRACT_CASE(unmapped_memory_is_nobodys),
        CONTRACT_CASE(holes_grow_together),
        CONTRACT_CASE(claim_asks_every_lane),
        CONTRACT_CASE(claim_takes_memory_set_apart),
        CONTRACT_CASE(claim_takes_neighbours_in_one_call),
        CONTRACT_CASE(two_states_do_not_meet),
        CONTRACT_CASE(random_programs),
        CONTRACT_CASE(shifted_twins_agree),
    };
    const char *part = argc > 1 && !is_number(argv[1]) ? argv[1] : NULL;
    const int seed = part != NULL ? 2 : 1;
    tested = strategy;
    if (argc > seed) {
        first_seed = strtoull(argv[seed], NULL, 0);
        seed_count = argc > seed + 1 ? strtoull(argv[seed + 1], NULL, 0) : 1;
    }
    return contract_run(tested->ops->name, cases, sizeof(cases) / sizeof(cases[0]), part);
}
