/* tests/pool/unit/vm_window_test.c: the search for the place where a request needs the least new memory, and the search
 * for idle granules.
 *
 * The strategy is a list of ranges written by hand. Results for random lists are compared with a trial of every
 * possible place.
 */
#include "rig/test.h"
#include "memory/vm_window.h"

#include <inttypes.h>
#include <string.h>

#define GRANULE UINT64_C(8)
#define BASE UINT64_C(0x1000)

enum { most_ranges = 64, lanes = 3 };

/* A range of the list. Kinds: 'T' taken, 'H' hole, 'F' free in lane 1, 'O' free in lane 2 at tick 7, 'S' set apart in
 * lane 1. '|' ends the region; the next region begins `size` bytes further on. */
struct piece {
    char what;
    uint64_t size;
};

struct list {
    weir_range_info ranges[most_ranges];
    size_t count;
};

static struct list list_of(const struct piece *pieces, size_t count)
{
    struct list list = {.count = 0};
    uint64_t at = BASE;
    uint64_t region = BASE;
    size_t first = 0;
    for (size_t i = 0; i <= count; i++) {
        if (i == count || pieces[i].what == '|') {
            for (size_t k = first; k < list.count; k++) {
                list.ranges[k].region_address = region;
                list.ranges[k].region_size = at - region;
            }
            at += i < count ? pieces[i].size : 0;
            region = at;
            first = list.count;
            continue;
        }
        const char what = pieces[i].what;
        list.ranges[list.count++] = (weir_range_info){
            .address = at,
            .size = pieces[i].size,
            .taken = what == 'T',
            .lane = what == 'H'   ? WEIR_LANE_UNMAPPED
                    : what == 'O' ? 2
                                  : 1,
            .tick = what == 'O' ? 7 : 3,
            .set_apart = what == 'S',
        };
        at += pieces[i].size;
    }
    return list;
}

static void walk_list(const void *state, weir_range_visitor visit, void *ctx)
{
    const struct list *list = state;
    for (size_t i = 0; i < list->count && visit(ctx, &list->ranges[i]); i++) {
    }
}

static const weir_strategy_ops list_ops = {.struct_size = sizeof(list_ops), .walk = walk_list};
static const weir_tick all_limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX, WEIR_TICK_MAX};
static const weir_tick first_limits[lanes] = {WEIR_TICK_MAX, WEIR_TICK_MAX, 6}; /* lane 2 still works */

/* Begin and end of the handle that a granule belongs to, by granule from BASE on; end 0: the granule is a handle of its
 * own. */
struct handle {
    uint64_t start;
    uint64_t end;
};

static struct handle handles[4096];

static void one_handle(uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end; at += GRANULE) {
        handles[at / GRANULE] = (struct handle){BASE + start, BASE + end};
    }
}

static bool find_handle(const void *ctx, uint64_t from, uint64_t to, uint64_t *start, uint64_t *end)
{
    for (uint64_t at = from; at < to; at = (at / GRANULE + 1) * GRANULE) {
        const struct handle *handle = (const struct handle *)ctx + (at - BASE) / GRANULE;
        if (handle->end != 0) {
            *start = handle->start;
            *end = handle->end;
            return true;
        }
    }
    return false;
}

static struct vm_view view_of(const struct list *list, const weir_tick *limits)
{
    return (struct vm_view){
        .strategy = &list_ops,
        .state = list,
        .limits = limits,
        .lanes = lanes,
        .granule = GRANULE,
        .least = 2,
        .most = UINT64_MAX,
        .find_handle = find_handle,
        .handles = handles,
    };
}

#define LIST(...)                                                                                                      \
    list_of((const struct piece[]){__VA_ARGS__}, sizeof((const struct piece[]){__VA_ARGS__}) / sizeof(struct piece))

static enum window_kind kind;

static struct vm_window find(const struct list *list, const weir_tick *limits, uint64_t size, uint64_t align,
                             bool last_resort)
{
    struct vm_scratch scratch = {0};
    struct vm_window window = {.need = 77};
    const struct vm_view view = view_of(list, limits);
    const struct vm_wish wish = {.size = size, .align = align, .last_resort = last_resort, .kind = kind};
    const weir_status status = weir__vm_find_window(&scratch, &view, &wish, &window);
    assert_true(status == WEIR_OK || (status == WEIR_ERR_LIMIT && window.need == 77));
    weir__vm_scratch_fini(&scratch);
    return window;
}

static void require(const struct list *list, uint64_t size, uint64_t offset, uint64_t need)
{
    const struct vm_window window = find(list, all_limits, size, 1, false);
    assert_int_equal(window.need, need);
    assert_int_equal(window.address, BASE + offset);
    assert_int_equal(window.first, (BASE + offset) & ~(GRANULE - 1));
    assert_int_equal(window.end, (BASE + offset + size + GRANULE - 1) & ~(GRANULE - 1));
}

/* --- with a strategy that shows free memory by size --- */

/* Returns the first range above `first` that is taken or in another region. */
static size_t end_of_run(const struct list *list, size_t first)
{
    size_t end = first;
    while (end < list->count && !list->ranges[end].taken &&
           list->ranges[end].region_address == list->ranges[first].region_address) {
        end++;
    }
    return end;
}

/* True if the ranges from `first` to `end` contain adjacent ranges with memory of at least `least` bytes together. */
static bool has_memory(const struct list *list, size_t first, size_t end, uint64_t least)
{
    uint64_t bytes = 0;
    for (size_t i = first; i < end && bytes < least; i++) {
        bytes = list->ranges[i].lane != WEIR_LANE_UNMAPPED ? bytes + list->ranges[i].size : 0;
    }
    return bytes >= least;
}

static bool has_hole(const struct list *list, size_t first, size_t end)
{
    while (first < end && list->ranges[first].lane != WEIR_LANE_UNMAPPED) {
        first++;
    }
    return first < end;
}

/* Visits the runs from the last one on, so in another order than walk. */
static void walk_runs(const struct list *list, uint64_t least, bool holes, weir_range_visitor visit, void *ctx)
{
    for (size_t end = list->count; end > 0; end--) {
        const bool begins = !list->ranges[end - 1].taken &&
                            (end == 1 || list->ranges[end - 2].taken ||
                             list->ranges[end - 2].region_address != list->ranges[end - 1].region_address);
        const size_t last = begins ? end_of_run(list, end - 1) : 0;
        const bool more = begins && (holes ? has_hole(list, end - 1, last) : has_memory(list, end - 1, last, least));
        for (size_t i = end - 1; more && i < last; i++) {
            if (!visit(ctx, &list->ranges[i])) {
                return;
            }
        }
    }
}

static void walk_free(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    walk_runs(state, least, false, visit, ctx);
}

static void walk_holes(const void *state, uint64_t least, weir_range_visitor visit, void *ctx)
{
    walk_runs(state, least, true, visit, ctx);
}

/* --- windows --- */

TEST(test_an_empty_region_is_used_from_below)
{
    const struct list list = LIST({'H', 10 * GRANULE});
    require(&list, 1, 0, 1);
    require(&list, 8, 0, 1);
    require(&list, 9, 0, 2);
    require(&list, 80, 0, 10);
    assert_int_equal(find(&list, all_limits, 81, 1, false).need, 77);
}

TEST(test_a_free_run_is_extended)
{
    const struct list up = LIST({'T', 6}, {'F', 10}, {'H', 40});
    require(&up, 20, 6, 2); /* 6 .. 26: granules 16 and 24 are missing */
    const struct list down = LIST({'H', 40}, {'F', 10}, {'T', 6});
    require(&down, 18, 32, 1); /* moved down to the start of its granule */
    /* one byte more does not fit there: the window ends with the run and begins at a granule */
    require(&down, 19, 24, 2);
    const struct list both = LIST({'T', 4}, {'F', 4}, {'H', 16}, {'F', 4}, {'T', 4});
    require(&both, 24, 4, 2);
    assert_int_equal(find(&both, all_limits, 25, 1, false).need, 77);
}

/* Among equal places, the smallest run is used, so that a larger run stays free for a large request. */
TEST(test_the_smaller_run_is_extended)
{
    const struct list list = LIST({'F', 16}, {'H', 16}, {'T', 12}, {'F', 12}, {'H', 24});
    require(&list, 24, 0, 1); /* one granule is less than two */
    require(&list, 26, 44, 2);
    require(&list, 36, 44, 3);
}

/* Among equal places, the one with the fewest handles is used: a request that begins at a granule takes one handle. */
TEST(test_a_request_takes_few_handles)
{
    const struct list list = LIST({'T', 4}, {'F', 4}, {'H', 40});
    require(&list, 16, 8, 2); /* 4 .. 20 needs two granules as well, but in two handles */
    assert_int_equal(find(&list, all_limits, 16, 1, false).handles, 1);
    require(&list, 20, 4, 2); /* one granule less is better than one handle less */
    assert_int_equal(find(&list, all_limits, 28, 1, false).handles, 1);
    assert_int_equal(find(&list, all_limits, 26, 1, false).handles, 2);
}

TEST(test_several_holes_are_filled_if_that_is_cheaper)
{
    const struct list list = LIST({'T', 8}, {'F', 24}, {'H', 8}, {'F', 24}, {'H', 8}, {'F', 16}, {'T', 8}, {'H', 800});
    require(&list, 80, 8, 2);
    require(&list, 50, 8, 1);
    require(&list, 200, 96, 25);
}

TEST(test_unusable_memory_blocks_a_window)
{
    const struct list list = LIST({'F', 8}, {'O', 8}, {'H', 8}, {'S', 8}, {'H', 8});
    assert_int_equal(find(&list, all_limits, 24, 1, false).need, 1);
    assert_int_equal(find(&list, first_limits, 24, 1, false).need, 77); /* lane 2 still works, slots stay unused */
    assert_int_equal(find(&list, all_limits, 40, 1, false).need, 77);
    assert_int_equal(find(&list, all_limits, 40, 1, true).need, 2); /* as a last resort slots are used */
}

TEST(test_nothing_reaches_across_regions)
{
    const struct list list = LIST({'H', 16}, {'|', 0}, {'H', 16}, {'|', 64}, {'H', 24});
    require(&list, 17, 96, 3);
    assert_int_equal(find(&list, all_limits, 25, 1, false).need, 77);
}

TEST(test_alignments)
{
    const struct list list = LIST({'T', 2}, {'F', 14}, {'H', 240});
    for (uint64_t align = 1; align <= 128; align *= 2) {
        const struct vm_window window = find(&list, all_limits, 30, align, false);
        assert_int_equal(window.address % align, 0);
        assert_true(window.need <= 4);
    }
    assert_int_equal(find(&list, all_limits, 30, 64, false).address, BASE + 64);
    assert_int_equal(find(&list, all_limits, 30, 64, false).need, 4);
    assert_int_equal(find(&list, all_limits, 192, 128, false).need, 77); /* the only aligned free place is 128 .. 256 */
}

/* A large handle is in the window as a whole, or not at all. */
TEST(test_large_handles_are_taken_as_a_whole)
{
    const struct list list = LIST({'T', 4}, {'F', 4 + 32 + 8}, {'H', 24}, {'T', 8});
    one_handle(8, 40);
    require(&list, 20, 40, 2); /* beside the handle */
    require(&list, 33, 8, 0);
    require(&list, 41, 4, 0); /* the window begins at the first free byte of its granule */
    require(&list, 44, 4, 0);
    require(&list, 48, 4, 1);
    kind = WINDOW_MAPPED;
    assert_int_equal(find(&list, all_limits, 8, 1, false).address, BASE + 40);
    assert_int_equal(find(&list, all_limits, 9, 1, false).need, 77);
    assert_int_equal(find(&list, all_limits, 32, 1, false).address, BASE + 8);
    assert_int_equal(find(&list, all_limits, 45, 1, false).need, 77);
    kind = WINDOW_CHEAP;
    memset(handles, 0, sizeof(handles));
}

/* --- idle granules --- */

/* Takes all runs out and puts them back as an array in the order in which they came. */
static void take_all(struct vm_scratch *scratch)
{
    const size_t count = scratch->run_count;
    struct vm_run taken[most_ranges];
    for (size_t i = 0; i < count; i++) {
        taken[i] = *weir__vm_take_run(scratch);
        const struct vm_run *before = &taken[i > 0 ? i - 1 : 0];
        const bool holes_first = before->rank != 0 && before->beside_hole && !taken[i].beside_hole;
        assert_true(before->rank < taken[i].rank || before->granules == taken[i].granules || holes_first ||
                    (before->rank == taken[i].rank && (before->granules < taken[i].granules) == (before->rank != 0)));
    }
    assert_int_equal(scratch->run_count, 0);
    for (size_t i = 0; i < count; i++) {
        scratch->runs[i] = taken[i];
    }
    scratch->run_count = count;
}

static uint64_t idle_of(struct vm_scratch *scratch, const struct list *list, const weir_tick *limits,
                        const struct vm_window *window)
{
    uint64_t granules = 77;
    const struct vm_view view = view_of(list, limits);
    assert_int_equal(weir__vm_find_idle(scratch, &view, window, UINT64_MAX, &granules), WEIR_OK);
    take_all(scratch);
    return granules;
}

TEST(test_only_whole_granules_are_idle)
{
    struct vm_scratch scratch = {0};
    const struct list list =
        LIST({'T', 4}, {'F', 28}, {'T', 1}, {'F', 14}, {'T', 1}, {'F', 4}, {'O', 4}, {'H', 8}, {'F', 16});
    assert_int_equal(idle_of(&scratch, &list, all_limits, NULL), 3 + 0 + 1 + 2);
    assert_int_equal(scratch.run_count, 3);
    /* of the two runs beside the hole the smaller one comes first */
    assert_int_equal(scratch.runs[0].address, BASE + 48);
    assert_int_equal(scratch.runs[0].granules, 1);
    assert_int_equal(scratch.runs[0].lane, WEIR_LANE_OPEN); /* the granule is in two lanes, so it counts as open */
    assert_false(scratch.runs[0].hole_below);
    assert_int_equal(scratch.runs[1].address, BASE + 64);
    assert_true(scratch.runs[1].hole_below);
    assert_int_equal(scratch.runs[1].lane, 1);
    assert_int_equal(scratch.runs[2].address, BASE + 8);
    assert_int_equal(idle_of(&scratch, &list, first_limits, NULL), 3 + 2); /* lane 2 still works */
    weir__vm_scratch_fini(&scratch);
}

TEST(test_a_window_keeps_what_it_has)
{
    struct vm_scratch scratch = {0};
    const struct list list = LIST({'F', 80}, {'H', 80});
    const struct vm_window window = {.address = BASE + 17, .first = BASE + 16, .end = BASE + 40, .need = 1};
    assert_int_equal(idle_of(&scratch, &list, all_limits, &window), 2 + 5);
    assert_int_equal(scratch.run_count, 2);
    assert_int_equal(scratch.runs[0].address, BASE + 40); /* the hole lies above it */
    assert_int_equal(scratch.runs[1].address, BASE);
    weir__vm_scratch_fini(&scratch);
}

/* Holes grow, so that few blocks lie between holes: a run beside a hole comes before smaller runs. */
TEST(test_runs_beside_holes_come_first)
{
    struct vm_scratch scratch = {0};
    const struct list list = LIST({'F', 8}, {'T', 8}, {'F', 32}, {'H', 8}, {'T', 8}, {'F', 16}, {'T', 8}, {'H', 8},
                                  {'F', 24}, {'T', 8}, {'H', 8}, {'O', 8}, {'T', 8});
    assert_int_equal(idle_of(&scratch, &list, first_limits, NULL), 1 + 4 + 2 + 3); /* lane 2 still works */
    const uint64_t addresses[] = {96, 16, 0, 64};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(scratch.runs[i].address, BASE + addresses[i]);
        assert_int_equal(scratch.runs[i].hole_below, addresses[i] == 96);
    }
    const struct vm_window window = {.address = BASE + 32, .first = BASE + 32, .end = BASE + 56, .need = 1};
    assert_int_equal(idle_of(&scratch, &list, first_limits, &window), 1 + 2 + 2 + 3);
    assert_int_equal(scratch.runs[0].address, BASE + 96);
    assert_int_equal(scratch.runs[1].address, BASE); /* the window will fill the hole behind 16 .. 32 */
    weir__vm_scratch_fini(&scratch);
}

/* Large handles that fit the window come first, the largest of them first; then single granules; then handles that are
 * too large. */
TEST(test_large_handles_are_idle_as_a_whole)
{
    struct vm_scratch scratch = {0};
    const struct list list = LIST({'H', 8}, {'F', 16 + 8 + 24}, {'T', 8}, {'F', 40}, {'T', 8}, {'F', 8}, {'H', 80});
    one_handle(8, 24);   /* free */
    one_handle(32, 56);  /* free */
    one_handle(64, 96);  /* free */
    one_handle(96, 120); /* its last granule is taken */
    const struct vm_window window = {.address = BASE + 128, .first = BASE + 128, .end = BASE + 128 + 24, .need = 3};
    assert_int_equal(idle_of(&scratch, &list, all_limits, &window), 2 + 1 + 3 + 4);
    assert_int_equal(scratch.run_count, 4);
    const uint64_t addresses[] = {32, 8, 24, 64};
    const uint64_t granules[] = {3, 2, 1, 4};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(scratch.runs[i].address, BASE + addresses[i]);
        assert_int_equal(scratch.runs[i].granules, granules[i]);
        assert_int_equal(scratch.runs[i].hole_below, addresses[i] == 8);
    }
    weir__vm_scratch_fini(&scratch);
    memset(handles, 0, sizeof(handles));
}

/* A handle that is larger than new handles may be cannot serve a window as a whole. Such handles are used up first. */
TEST(test_handles_larger_than_new_ones_go_first)
{
    struct vm_scratch scratch = {0};
    uint64_t granules = 0;
    const struct list list = LIST({'F', 16}, {'T', 8}, {'F', 8}, {'T', 8}, {'F', 32});
    one_handle(0, 16);
    one_handle(40, 72);
    const struct vm_window window = {.address = BASE + 128, .first = BASE + 128, .end = BASE + 128 + 16, .need = 2};
    struct vm_view view = view_of(&list, all_limits);
    view.most = 2;
    assert_int_equal(weir__vm_find_idle(&scratch, &view, &window, 1, &granules), WEIR_OK);
    /* the walk visits all memory, because an oversized handle may lie anywhere */
    assert_int_equal(granules, 2 + 1 + 4);
    take_all(&scratch);
    const uint64_t addresses[] = {40, 0, 24};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(scratch.runs[i].address, BASE + addresses[i]);
    }
    weir__vm_scratch_fini(&scratch);
    memset(handles, 0, sizeof(handles));
}

TEST(test_a_walk_ends_when_enough_is_idle)
{
    struct vm_scratch scratch = {0};
    uint64_t granules = 0;
    const struct list list = LIST({'F', 8}, {'T', 8}, {'F', 16}, {'T', 8}, {'F', 32}, {'T', 8});
    struct vm_view view = view_of(&list, all_limits);
    view.find_handle = NULL;
    assert_int_equal(weir__vm_find_idle(&scratch, &view, NULL, 2, &granules), WEIR_OK);
    assert_int_equal(granules, 1 + 2);
    assert_int_equal(scratch.run_count, 2);
    assert_int_equal(weir__vm_find_idle(&scratch, &view, NULL, 8, &granules), WEIR_OK);
    assert_int_equal(granules, 1 + 2 + 4);
    weir__vm_scratch_fini(&scratch);
}

/* The walk visits runs beside holes first, and other runs only if those are too few. */
TEST(test_a_walk_begins_beside_holes)
{
    struct vm_scratch scratch = {0};
    const struct list list = LIST({'F', 8}, {'T', 8}, {'H', 8}, {'F', 16}, {'T', 8}, {'F', 32}, {'H', 8}, {'T', 8});
    struct vm_view view = view_of(&list, all_limits);
    view.find_handle = NULL;
    view.walk_free = walk_free;
    view.walk_holes = walk_holes;
    const uint64_t found[] = {4, 4, 4, 4, 4 + 2, 4 + 2, 4 + 2 + 1};
    for (uint64_t wanted = 1; wanted <= 7; wanted++) {
        uint64_t granules = 0;
        assert_int_equal(weir__vm_find_idle(&scratch, &view, NULL, wanted, &granules), WEIR_OK);
        assert_int_equal(granules, found[wanted - 1]);
        take_all(&scratch);
    }
    weir__vm_scratch_fini(&scratch);
}

/* --- comparison with a trial of every place --- */

static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % n;
}

/* Makes a random list: holes consist of whole granules, other ranges begin and end anywhere. */
static struct list random_list(void)
{
    struct piece pieces[most_ranges];
    size_t count = 0;
    while (count < most_ranges - 8) {
        pieces[count++] = (struct piece){'H', GRANULE * (1 + below(4))};
        uint64_t left = GRANULE * below(5);
        while (left > 0 && count < most_ranges - 4) {
            const uint64_t size = 1 + below(left);
            pieces[count++] = (struct piece){"TFFO"[below(4)], size};
            left -= size;
        }
        if (left > 0) {
            pieces[count++] = (struct piece){'T', left};
        }
        if (below(6) == 0) {
            pieces[count++] = (struct piece){'|', GRANULE * below(3)};
        }
    }
    pieces[count++] = (struct piece){'T', GRANULE};
    return list_of(pieces, count);
}

static const weir_range_info *range_at(const struct list *list, uint64_t address)
{
    for (size_t i = 0; i < list->count; i++) {
        if (address - list->ranges[i].address < list->ranges[i].size) {
            return &list->ranges[i];
        }
    }
    return NULL;
}

/* Makes random handles of two to five granules outside the holes. */
static void random_handles(const struct list *list)
{
    memset(handles, 0, sizeof(handles));
    uint64_t at = BASE;
    for (size_t i = 0; i < list->count; i++) {
        const weir_range_info *range = &list->ranges[i];
        const uint64_t end = range->region_address + range->region_size;
        at = at < range->address ? (range->address + GRANULE - 1) & ~(GRANULE - 1) : at;
        uint64_t next = at + GRANULE * (2 + below(4));
        bool mapped = next <= end;
        for (uint64_t k = at; k < next && mapped; k += GRANULE) {
            const weir_range_info *under = range_at(list, k);
            mapped =
                under != NULL && under->region_address == range->region_address && under->lane != WEIR_LANE_UNMAPPED;
        }
        if (mapped && below(2) == 0) {
            one_handle(at - BASE, next - BASE);
            at = next;
        }
    }
}

static bool usable(const weir_range_info *range)
{
    return range != NULL && !range->taken &&
           (range->lane == WEIR_LANE_UNMAPPED || range->tick <= first_limits[range->lane]);
}

/* Returns the granules to map for a request at `address`, or UINT64_MAX if the request cannot lie there. */
static uint64_t cost_at(const struct list *list, uint64_t address, uint64_t size)
{
    uint64_t cost = 0;
    uint64_t granule = UINT64_MAX;
    const weir_range_info *first = range_at(list, address);
    const uint64_t ends[] = {address, address + size - 1};
    for (size_t i = 0; i < 2; i++) {
        const struct handle *handle = &handles[(ends[i] - BASE) / GRANULE];
        if (handle->end != 0 && (handle->start < address || handle->end > address + size)) {
            return UINT64_MAX;
        }
    }
    for (uint64_t at = address; at < address + size; at++) {
        const weir_range_info *range = range_at(list, at);
        if (!usable(range) || range->region_address != first->region_address) {
            return UINT64_MAX;
        }
        if (range->lane == WEIR_LANE_UNMAPPED && at / GRANULE != granule) {
            granule = at / GRANULE;
            cost++;
        }
    }
    return cost;
}

/* Returns the granules that a request at `address` touches and that contain only usable memory. */
static uint64_t own_at(const struct list *list, uint64_t address, uint64_t size)
{
    uint64_t count = 0;
    for (uint64_t at = address & ~(GRANULE - 1); at < address + size; at += GRANULE) {
        bool all = true;
        for (uint64_t k = at; k < at + GRANULE; k++) {
            all &= usable(range_at(list, k));
        }
        count += all;
    }
    return count;
}

static int by_address(const void *left, const void *right)
{
    const struct vm_run *a = left;
    const struct vm_run *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* If the strategy shows only its free memory by size, the search finds the same idle granules and a window without
 * holes. */
TEST(test_free_memory_by_size_is_enough)
{
    uint64_t windows = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        random_state = seed;
        const struct list list = random_list();
        memset(handles, 0, sizeof(handles));
        if (seed % 2 == 0) {
            random_handles(&list);
        }
        struct vm_scratch all = {0};
        struct vm_scratch some = {0};
        struct vm_view view = view_of(&list, first_limits);
        uint64_t granules = 0;
        const uint64_t expected = idle_of(&all, &list, first_limits, NULL);
        view.walk_free = walk_free;
        view.walk_holes = walk_holes;
        view.find_handle = seed % 2 == 0 ? view.find_handle : NULL;
        assert_int_equal(weir__vm_find_idle(&some, &view, NULL, UINT64_MAX, &granules), WEIR_OK);
        assert_int_equal(granules, expected);
        assert_int_equal(some.run_count, all.run_count);
        if (all.run_count > 0) { /* qsort takes no NULL */
            qsort(all.runs, all.run_count, sizeof(all.runs[0]), by_address);
            qsort(some.runs, some.run_count, sizeof(some.runs[0]), by_address);
        }
        for (size_t i = 0; i < all.run_count; i++) {
            assert_int_equal(some.runs[i].address, all.runs[i].address);
            assert_int_equal(some.runs[i].granules, all.runs[i].granules);
            assert_int_equal(some.runs[i].hole_below, all.runs[i].hole_below);
            assert_int_equal(some.runs[i].beside_hole, all.runs[i].beside_hole);
        }
        kind = WINDOW_MAPPED;
        const struct vm_wish wish = {.size = 1 + below(3 * GRANULE), .align = 1, .kind = kind};
        struct vm_window window = {.need = 77};
        const weir_status found = weir__vm_find_window(&some, &view, &wish, &window);
        assert_int_equal(found == WEIR_OK, find(&list, first_limits, wish.size, 1, false).need == 0);
        assert_int_equal(found == WEIR_OK ? cost_at(&list, window.address, wish.size) : 0, 0);
        windows += found == WEIR_OK;
        kind = WINDOW_CHEAP;
        weir__vm_scratch_fini(&all);
        weir__vm_scratch_fini(&some);
    }
    assert_true(windows > 1000 && windows < 2900);
    memset(handles, 0, sizeof(handles));
}

static void require_the_best(uint64_t seed, bool with_handles, uint64_t *found)
{
    random_state = seed;
    const struct list list = random_list();
    const uint64_t size = 1 + below(6 * GRANULE);
    const uint64_t align = UINT64_C(1) << below(6);
    uint64_t least = UINT64_MAX;
    uint64_t least_own = UINT64_MAX;
    if (with_handles) {
        random_handles(&list);
    }
    for (uint64_t at = BASE; range_at(&list, at) != NULL || at < BASE + 2000; at++) {
        const uint64_t cost = at % align == 0 ? cost_at(&list, at, size) : UINT64_MAX;
        const uint64_t own = cost != UINT64_MAX ? own_at(&list, at, size) : UINT64_MAX;
        least = cost < least ? cost : least;
        least_own = own < least_own ? own : least_own;
    }
    const struct vm_window window = find(&list, first_limits, size, align, false);
    if ((window.need == 77) != (least == UINT64_MAX) || (window.need != 77 && window.need != least)) {
        print_error("seed %" PRIu64 ": %" PRIu64 " granules instead of %" PRIu64 "\n", seed, window.need, least);
        fail();
    }
    kind = WINDOW_MAPPED;
    assert_int_equal(find(&list, first_limits, size, align, false).need, least == 0 ? 0 : 77);
    kind = WINDOW_CHEAP;
    if (window.need != 77) {
        (*found)++;
        assert_int_equal(cost_at(&list, window.address, size), least);
        assert_int_equal(own_at(&list, window.address, size), window.own);
        kind = WINDOW_FRUGAL;
        const struct vm_window other = find(&list, first_limits, size, align, false);
        kind = WINDOW_CHEAP;
        assert_int_equal(other.own, least_own);
        assert_int_equal(own_at(&list, other.address, size), least_own);
        assert_int_equal(cost_at(&list, other.address, size), other.need);
        assert_true(with_handles || other.own <= (size + GRANULE - 1) / GRANULE);
    }
}

TEST(test_no_place_is_cheaper)
{
    uint64_t found = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        require_the_best(seed, false, &found);
    }
    assert_true(found > 1000);
}

TEST(test_no_place_between_large_handles_is_cheaper)
{
    uint64_t found = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        require_the_best(seed, true, &found);
    }
    memset(handles, 0, sizeof(handles));
    assert_true(found > 1000);
}
